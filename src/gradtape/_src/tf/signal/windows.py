"""`tf.signal`: window functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import has_dtype, operand, wrap
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import count_of, static

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


Window = Callable[..., Any]


def window_dtype(dtype: Any) -> Any:
    if not isinstance(dtype, DType) and not isinstance(dtype, (str, type, np.dtype)):
        raise TypeError(f"Expected a dtype for argument 'dtype', but got {dtype!r}.")
    kind = as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {kind!r}")
    return kind.numpy_dtype


def _cosine_window(window_length: Any, periodic: Any, dtype: Any, a: float, b: float) -> Tensor:
    length, kind = _window_length(window_length), window_dtype(dtype)
    repeats = operand(periodic, None if has_dtype(periodic) else as_dtype("bool"))
    if not repeats.dtype.is_bool or repeats.array.shape:
        raise ValueError(f"Expected one boolean for argument 'periodic', but got {periodic!r}.")
    if length == 1:
        return wrap(np.ones(1, kind))
    # As in TensorFlow, a window of odd length is symmetric either way.
    period = length + (1 - length % 2) * bool(static(repeats)) - 1
    return wrap((a - b * np.cos(2 * np.pi * np.arange(length) / max(period, 1))).astype(kind))


def _window_length(given: Any, least: int = 0) -> int:
    length = count_of(given, "window_length")
    if length < least:
        raise errors.invalid_argument(f"Requires start <= limit when delta > 0: 0/{length}", "Range")
    return length


def hann_window(window_length: Any, periodic: Any = True, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """Compute a Hann window: a raised cosine that is 0 at its ends.

    >>> print(tf.signal.hann_window(4).numpy().round(4))
    [0.  0.5 1.  0.5]
    """
    return _cosine_window(window_length, periodic, dtype, 0.5, 0.5)


def hamming_window(window_length: Any, periodic: Any = True, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """Compute a Hamming window: a raised cosine that is 0.08 at its ends.

    >>> print(tf.signal.hamming_window(4).numpy().round(4))
    [0.08 0.54 1.   0.54]
    """
    return _cosine_window(window_length, periodic, dtype, 0.54, 0.46)


def vorbis_window(window_length: Any, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """Compute the power-complementary window of the Vorbis format.

    >>> print(tf.signal.vorbis_window(4).numpy().round(4))
    [0.228  0.9737 0.9737 0.228 ]
    """
    length, kind = _window_length(window_length), window_dtype(dtype)
    inner = np.sin(np.pi / max(length, 1) * (np.arange(length) + 0.5))
    return wrap(np.sin(np.pi / 2 * inner * inner).astype(kind))


def _kaiser(length: int, beta: float) -> Any:
    if length == 1:
        return np.ones(1)
    half = (length - 1) / 2
    at = np.arange(length) - half
    return np.i0(beta * np.sqrt(np.maximum(1 - (at / half) ** 2, 0))) / np.i0(beta)


def kaiser_window(
    window_length: Any, beta: TensorLike = 12.0, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Compute the Kaiser window.

    >>> print(tf.signal.kaiser_window(3, beta=2.0).numpy().round(4))
    [0.4387 1.     0.4387]
    """
    kind = window_dtype(dtype)
    return wrap(_kaiser(_window_length(window_length, 1), _beta(beta)).astype(kind))


def _beta(given: Any) -> float:
    x = operand(given)
    if x.dtype.name == "string":
        raise errors.UnimplementedError(None, None, "Cast string to float is not supported [Op:Cast]")
    if x.array.shape:
        raise errors.incompatible_shapes("Mul", x.array.shape, ())
    return float(np.asarray(static(x)).real)


def kaiser_bessel_derived_window(
    window_length: Any, beta: TensorLike = 12.0, dtype: Any = "float32", name: str | None = None
) -> Tensor:
    """Compute the window of running sums of a Kaiser window: its squared halves add up to 1.

    >>> print(tf.signal.kaiser_bessel_derived_window(4).numpy().round(4))
    [0.0073 1.     1.     0.0073]
    """
    kind = window_dtype(dtype)
    sums = np.cumsum(_kaiser(_window_length(window_length) // 2 + 1, _beta(beta)))
    half = np.sqrt(sums[:-1] / sums[-1])
    return wrap(np.concatenate([half, half[::-1]]).astype(kind))
