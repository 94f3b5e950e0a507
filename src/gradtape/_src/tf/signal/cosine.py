"""`tf.signal`: discrete cosine transforms."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import operand
from gradtape._src.dtypes import float32, float64
from gradtape._src.ops import array, signal as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import axis_of, choice, extent
from gradtape._src.tf.signal.fourier import (
    as_complex,
    complex_dtype,
    constant_of,
    fit,
    half_to_real,
    real_input,
    real_part,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def _checked_dct(type: Any, n: Any, norm: Any) -> None:
    if isinstance(type, Tensor) and not type.dtype.is_integer and not type.dtype.is_floating:
        raise TypeError(f"Expected an int for argument 'type', but got {type!r}.")
    if not isinstance(type, (int, np.integer)) or type not in (1, 2, 3, 4):
        raise ValueError(f"Types I, II, III and IV (I)DCT are supported. Received: type={type}")
    if norm is not None:
        choice(norm, "norm", ("ortho",), "Unknown normalization. Expected None or 'ortho'.")
    if type == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")
    if n is not None and extent(n, "n", "RFFT") < 1:
        raise ValueError(f"n should be a positive integer or None. Received: n={n}")


def dct(
    input: TensorLike, type: int = 2, n: Any = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Compute the discrete cosine transform of an axis, of type 1, 2, 3 or 4, scaled as in SciPy.

    >>> print(tf.signal.dct([1.0, 2.0, 3.0, 4.0]).numpy().round(3))
    [20.    -6.309  0.    -0.448]
    """
    _checked_dct(type, n, norm)
    x = operand(input)
    if not x.array.shape:
        raise IndexError("tuple index out of range: tf.signal.dct transforms an axis, and a scalar has none")
    if x.dtype not in (float32, float64):
        raise TypeError(f"tf.signal.dct takes tf.float32 or tf.float64, got: {x!r}. Use tf.cast(x, tf.float32).")
    x = real_input(x, "RFFT", 1)
    last = len(x.array.shape) - 1
    at = axis_of(extent(axis, "axis", "RFFT"), last + 1, "RFFT")
    if at != last:  # TensorFlow stops here, as it only supports the last axis
        swap = tuple(last if i == at else at if i == last else i for i in range(last + 1))
        moved: Tensor = array.transpose(dct(array.transpose(x, perm=swap), type, n, -1, norm), perm=swap)
        return moved
    if n is not None:
        x = fit(x, (last,), (extent(n, "n", "RFFT"),))
    size = x.array.shape[last]
    dtype = x.array.dtype
    if size == 0 and type != 1:
        if norm == "ortho" and type != 4:
            raise errors.invalid_argument("Paddings must be non-negative: 0 -1. The transformed axis is empty", "PadV2")
        nothing: Tensor = array.identity(x)
        return nothing
    if type == 1:
        if size < 2:
            raise ValueError(f"Dimension must be greater than 1 for DCT type 1, got {size}")
        mirrored = array.flip(array.getitem(x, index=(..., slice(1, -1))), axis=(last,))
        return real_part(ops.rfft(array.concatenate(x, mirrored, axis=last), axis=(last,)))
    if type == 2:
        result = _dct2(x, size, 2 * size)
        return result * constant_of(_ortho(size), dtype) if norm == "ortho" else result
    if type == 3:
        scale = 2 * np.exp(0.5j * np.pi * np.arange(size) / size) * (size / _ortho_inverse(size, norm))
        spectrum = as_complex(x) * constant_of(scale, complex_dtype(dtype))
        kept: Tensor = array.getitem(half_to_real(spectrum, (last,), [2 * size], "IRFFT"), index=(..., slice(0, size)))
        return kept
    odd: Tensor = array.getitem(_dct2(x, 2 * size, 4 * size), index=(..., slice(1, None, 2)))
    return odd * (_math.sqrt(0.5) * _math.sqrt(1 / size)) if norm == "ortho" else odd


def _dct2(x: Tensor, count: int, length: int) -> Tensor:
    """The first `count` cosine coefficients on a grid of `length` points: a Fourier transform with a phase shift."""
    last = len(x.array.shape) - 1
    half = ops.rfft(fit(x, (last,), (length,)), axis=(last,))
    kept = array.getitem(half, index=(..., slice(0, count)))
    turn = 2 * np.exp(-1j * np.pi * np.arange(count) / length)
    return real_part(kept * constant_of(turn, kept.array.dtype))


def _ortho(size: int) -> Any:
    scale = np.full(size, _math.sqrt(0.5 / size))
    scale[:1] *= _math.sqrt(0.5)
    return scale


def _ortho_inverse(size: int, norm: str | None) -> Any:
    """The divisors of the inputs of type 3 with which it inverts the orthogonal type 2."""
    if norm is None:
        return np.ones(size)
    scale = np.full(size, _math.sqrt(2 * size))
    scale[:1] = _math.sqrt(size)
    return scale


def idct(
    input: TensorLike, type: int = 2, n: Any = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Compute the inverse discrete cosine transform (types 2 and 3 invert each other, 1 and 4 themselves).

    >>> x = tf.constant([1.0, 2.0, 3.0])
    >>> print(tf.signal.idct(tf.signal.dct(x, norm="ortho"), norm="ortho").numpy().round(4))
    [1. 2. 3.]
    """
    _checked_dct(type, n, norm)
    return dct(input, {1: 1, 2: 3, 3: 2, 4: 4}[type], n, axis, norm)
