"""`tf.signal`: Fourier transforms."""

from __future__ import annotations

import math as _math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import constant_operand, is_library, operand
from gradtape._src.dtypes import complex64, float32, float64
from gradtape._src.ops import array, math, signal as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import axes_of, axis_of, integers, shape_of, tensor_or

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def _complex_input(x: Any, op: str, rank: int) -> Tensor:
    x = tensor_or(x, complex64)
    if not x.dtype.is_complex:
        advice = "use tf.cast(x, tf.complex64), or tf.signal.rfft for real numbers."
        raise errors.unsupported_dtype(op, x.dtype, "complex64, complex128", "Tcomplex", advice)
    if len(x.array.shape) < rank:
        raise errors.invalid_argument(
            f"Input must have rank of at least {rank} but got: {errors.brackets(x.array.shape)}", op
        )
    return x


def real_input(x: Any, op: str, rank: int) -> Tensor:
    x = tensor_or(x, float32)
    if x.dtype not in (float32, float64):
        raise ValueError(f"{op} requires tf.float32 or tf.float64 inputs, got: {x!r}. Use tf.cast, or tf.signal.fft.")
    return _of_rank(x, rank)


def _half_input(x: Any, op: str, rank: int) -> Tensor:
    """Convert half a spectrum to a tensor, which must be complex."""
    x = _of_rank(tensor_or(x, complex64), rank)
    if not x.dtype.is_complex:
        raise ValueError(
            f"{op} requires tf.complex64 or tf.complex128 inputs, got: {x!r}. Use tf.cast(x, tf.complex64), or "
            "tf.signal.rfft for real numbers."
        )
    return x


def _of_rank(x: Tensor, rank: int) -> Tensor:
    if len(x.array.shape) < rank:
        raise ValueError(f"Shape {x.shape} must have rank at least {rank}")
    return x


def _empty(x: Tensor, shape: Sequence[int]) -> Tensor:
    """An empty tensor of another shape."""
    result: Tensor = array.reshape(array.getitem(x, index=(..., slice(0, 0))), shape=tuple(shape))
    return result


def fit(x: Tensor, axes: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Crop the axes, or pad them with zeros at the end, to these sizes."""
    shape = x.array.shape
    if any(n < shape[a] for a, n in zip(axes, sizes, strict=True)):
        index = [slice(None)] * len(shape)
        for a, n in zip(axes, sizes, strict=True):
            index[a] = slice(0, n)
        x = array.getitem(x, index=tuple(index))
        shape = x.array.shape
    if any(n > shape[a] for a, n in zip(axes, sizes, strict=True)):
        after = [0] * len(shape)
        for a, n in zip(axes, sizes, strict=True):
            after[a] = n - shape[a]
        x = array.pad(x, before=(0,) * len(shape), after=tuple(after))
    return x


def _lengths(fft_length: Any, count: int, op: str) -> tuple[int, ...]:
    wanted = ("int32", "int64") if isinstance(fft_length, (list, tuple)) else ("int32",)
    if is_library(fft_length) and (given := operand(fft_length)).dtype.name not in wanted:
        raise ValueError(
            f"Tensor conversion requested dtype int32 for Tensor with dtype {given.dtype.name}: {given!r}. It is the "
            "argument 'fft_length'."
        )
    found = integers(fft_length, op, fixed=True)
    if not np.ndim(found):
        raise TypeError(f"Expected a list of {count} integers for argument 'fft_length', but got {fft_length!r}.")
    lengths = shape_of(found)
    if len(lengths) != count:
        raise errors.invalid_argument(f"fft_length must have shape [{count}], got {len(lengths)} numbers", op)
    if any(n < 0 for n in lengths):
        raise ValueError(f"Dimension {min(lengths)} must be >= 0: fft_length is {list(lengths)}")
    return lengths


def _last(x: Tensor, count: int) -> tuple[int, ...]:
    rank = len(x.array.shape)
    return tuple(range(rank - count, rank))


def _complex_fft(x: Tensor, axes: tuple[int, ...], inverse: bool) -> Tensor:
    result: Tensor = ops.fft(x, axis=axes, inverse=inverse) if _has_elements(x) else array.identity(x)
    return result


def _has_elements(x: Tensor) -> bool:
    return not any(type(n) is int and n == 0 for n in x.array.shape)


def _real_fft(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """Half a spectrum: n // 2 + 1 bins, or none if there are no points."""
    if _has_elements(x):
        result: Tensor = ops.rfft(x, axis=axes)
        return result
    shape, last = list(x.array.shape), axes[-1]
    shape[last] = shape[last] // 2 + 1 if shape[last] else 0
    return _empty(as_complex(x), shape)


def _complex_transform(count: int, inverse: bool, name: str, doc: str) -> Callable[..., Tensor]:
    op = f"{'I' if inverse else ''}FFT{f'{count}D' if count > 1 else ''}"

    def transform(input: Any, name: str | None = None) -> Tensor:
        x = _complex_input(input, op, count)
        return _complex_fft(x, _last(x, count), inverse)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return transform


fft = _complex_transform(
    1,
    False,
    "fft",
    """Compute the Fourier transform of the last axis.

>>> tf.signal.fft(tf.constant([1.0, 0.0, 0.0, 0.0], tf.complex64)).numpy().real.tolist()
[1.0, 1.0, 1.0, 1.0]
""",
)
ifft = _complex_transform(
    1,
    True,
    "ifft",
    """Compute the inverse Fourier transform of the last axis.

>>> tf.signal.ifft(tf.constant([4.0, 0.0, 0.0, 0.0], tf.complex64)).numpy().real.tolist()
[1.0, 1.0, 1.0, 1.0]
""",
)
fft2d = _complex_transform(
    2,
    False,
    "fft2d",
    """Compute the Fourier transform of the last two axes.

>>> tf.signal.fft2d(tf.ones([2, 2], tf.complex64)).numpy().real.tolist()
[[4.0, 0.0], [0.0, 0.0]]
""",
)
ifft2d = _complex_transform(
    2,
    True,
    "ifft2d",
    """Compute the inverse Fourier transform of the last two axes.

>>> tf.signal.ifft2d(tf.constant([[4.0, 0.0], [0.0, 0.0]], tf.complex64)).numpy().real.tolist()
[[1.0, 1.0], [1.0, 1.0]]
""",
)
fft3d = _complex_transform(
    3,
    False,
    "fft3d",
    """Compute the Fourier transform of the last three axes.

>>> tf.signal.fft3d(tf.ones([1, 2, 2], tf.complex64)).numpy().real.tolist()
[[[4.0, 0.0], [0.0, 0.0]]]
""",
)
ifft3d = _complex_transform(
    3,
    True,
    "ifft3d",
    """Compute the inverse Fourier transform of the last three axes.

>>> tf.signal.ifft3d(tf.constant([[[4.0, 0.0], [0.0, 0.0]]], tf.complex64)).numpy().real.tolist()
[[[1.0, 1.0], [1.0, 1.0]]]
""",
)


def _real_transform(count: int, name: str, doc: str) -> Callable[..., Tensor]:
    op = f"RFFT{f'{count}D' if count > 1 else ''}"

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = real_input(input_tensor, op, count)
        axes = _last(x, count)
        if fft_length is not None:
            x = fit(x, axes, _lengths(fft_length, count, op))
        return _real_fft(x, axes)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return transform


def _real_inverse(count: int, name: str, doc: str) -> Callable[..., Tensor]:
    op = f"IRFFT{f'{count}D' if count > 1 else ''}"

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = _half_input(input_tensor, op, count)
        return half_to_real(x, _last(x, count), fft_length, op)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return transform


def half_to_real(x: Tensor, axes: tuple[int, ...], fft_length: Any, op: str) -> Tensor:
    shape = x.array.shape
    if fft_length is None:
        lengths = (*(shape[a] for a in axes[:-1]), max(2 * (shape[axes[-1]] - 1), 0))
    else:
        lengths = _lengths(fft_length, len(axes), op)
    if any(type(n) is int and n == 0 for n in lengths):
        shape = list(shape)
        for a, n in zip(axes, lengths, strict=True):
            shape[a] = n
        return _empty(real_part(x), shape)
    x = fit(x, axes, (*lengths[:-1], lengths[-1] // 2 + 1))
    result: Tensor = ops.irfft(x, axis=axes, length=lengths[-1])
    return result


rfft = _real_transform(
    1,
    "rfft",
    """Compute the Fourier transform of real numbers: the first half of the last axis.

>>> tf.signal.rfft([1.0, 0.0, -1.0, 0.0]).numpy().tolist()
[0j, (2+0j), 0j]
""",
)
irfft = _real_inverse(
    1,
    "irfft",
    """Compute real numbers from half of their Fourier transform.

>>> print(tf.signal.irfft(tf.signal.rfft([1.0, 2.0, 3.0, 4.0])).numpy().round(4))
[1. 2. 3. 4.]
""",
)
rfft2d = _real_transform(
    2,
    "rfft2d",
    """Compute the two-dimensional Fourier transform of real numbers: half of the last axis.

>>> tf.signal.rfft2d([[1.0, 1.0], [1.0, 1.0]]).numpy().tolist()
[[(4+0j), 0j], [0j, 0j]]
""",
)
irfft2d = _real_inverse(
    2,
    "irfft2d",
    """Compute real numbers from half of their two-dimensional transform.

>>> print(tf.signal.irfft2d(tf.signal.rfft2d([[1.0, 2.0], [3.0, 4.0]])).numpy().round(4))
[[1. 2.]
 [3. 4.]]
""",
)
rfft3d = _real_transform(
    3,
    "rfft3d",
    """Compute the three-dimensional Fourier transform of real numbers: half of the last axis.

>>> tf.signal.rfft3d(tf.ones([2, 2, 8])).shape
TensorShape([2, 2, 5])
""",
)
irfft3d = _real_inverse(
    3,
    "irfft3d",
    """Compute real numbers from half of their three-dimensional transform.

>>> print(tf.signal.irfft3d(tf.signal.rfft3d([[[1.0, 2.0], [3.0, 4.0]]])).numpy().round(4))
[[[1. 2.]
  [3. 4.]]]
""",
)


def _nd_axes(x: Tensor, fft_length: Any, axes: Any) -> tuple[int, ...]:
    rank = len(x.array.shape)
    if axes is None:
        count = rank if fft_length is None else len(shape_of(fft_length))
        return tuple(range(rank - count, rank))
    return tuple(axes_of(a, rank, "FFTND")[0] for a in shape_of(axes))


def _normed(result: Tensor, norm: str | None, points: int, inverse: bool) -> Tensor:
    if norm is None or norm == "backward":
        return result
    if norm == "ortho":
        return result * _math.sqrt(points) if inverse else result / _math.sqrt(points)
    if norm == "forward":
        return result * float(points) if inverse else result / float(points)
    raise ValueError(f"Invalid norm value {norm!r}; should be None, 'backward', 'ortho' or 'forward'.")


def fftnd(
    input_tensor: TensorLike, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Compute the Fourier transform over any axes, all of them by default.

    >>> tf.signal.fftnd(tf.ones([2, 2], tf.complex64), axes=[0]).numpy().real.tolist()
    [[2.0, 2.0], [0.0, 0.0]]
    """
    return _nd(input_tensor, fft_length, axes, norm, inverse=False)


def ifftnd(
    input_tensor: TensorLike, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Compute the inverse Fourier transform over any axes, all of them by default.

    >>> tf.signal.ifftnd(tf.constant([[4.0, 0.0], [0.0, 0.0]], tf.complex64)).numpy().real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _nd(input_tensor, fft_length, axes, norm, inverse=True)


def _nd(input_tensor: Any, fft_length: Any, axes: Any, norm: str | None, inverse: bool) -> Tensor:
    op = "IFFTND" if inverse else "FFTND"
    x = _complex_input(operand(input_tensor), op, 1)
    over = _nd_axes(x, fft_length, axes)
    if fft_length is not None:
        x = fit(x, over, _lengths(fft_length, len(over), op))
    points = _math.prod(x.array.shape[a] for a in over)
    return _normed(_complex_fft(x, over, inverse), norm, points, inverse)


def rfftnd(
    input_tensor: TensorLike, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Compute the Fourier transform of real numbers over any axes; half of the last given axis is kept.

    >>> tf.signal.rfftnd(tf.ones([4, 8]), axes=[1]).shape
    TensorShape([4, 5])
    """
    x = real_input(operand(input_tensor), "RFFTND", 1)
    over = _nd_axes(x, fft_length, axes)
    if fft_length is not None:
        x = fit(x, over, _lengths(fft_length, len(over), "RFFTND"))
    points = _math.prod(x.array.shape[a] for a in over)
    return _normed(_real_fft(x, over), norm, points, inverse=False)


def irfftnd(
    input_tensor: TensorLike, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Compute real numbers from half of their transform over any axes.

    >>> print(tf.signal.irfftnd(tf.signal.rfftnd([[1.0, 2.0], [3.0, 4.0]])).numpy().round(4))
    [[1. 2.]
     [3. 4.]]
    """
    x = _complex_input(operand(input_tensor), "IRFFTND", 1)
    over = _nd_axes(x, fft_length, axes)
    result = half_to_real(x, over, fft_length, "IRFFTND")
    return _normed(result, norm, _math.prod(result.array.shape[a] for a in over), inverse=True)


def fftshift(x: TensorLike, axes: Any = None, name: str | None = None) -> Tensor:
    """Move the zero frequency to the middle.

    >>> tf.signal.fftshift([0.0, 1.0, 2.0, -2.0, -1.0]).numpy().tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]
    """
    return _shift(x, axes, lambda n: n // 2)


def ifftshift(x: TensorLike, axes: Any = None, name: str | None = None) -> Tensor:
    """Undo `fftshift`.

    >>> tf.signal.ifftshift(tf.signal.fftshift([0, 1, 2, 3, 4])).numpy().tolist()
    [0, 1, 2, 3, 4]
    """
    return _shift(x, axes, lambda n: -(n // 2))


def _shift(x: Any, axes: Any, by: Callable[[int], int]) -> Tensor:
    x = operand(x)
    rank = len(x.array.shape)
    if not rank:
        raise errors.invalid_argument("input must be 1-D or higher", "Roll")
    given = range(rank) if axes is None else shape_of(axes, "Roll")
    over = tuple(axis_of(a, rank, "Roll") for a in given)
    result: Tensor = array.roll(x, shift=tuple(by(x.array.shape[a]) for a in over), axis=over)
    return result


def constant_of(value: Any, dtype: Any) -> Tensor:
    return constant_operand(np.asarray(value).astype(dtype))


def complex_dtype(dtype: Any) -> Any:
    return np.result_type(dtype, np.complex64)


def as_complex(x: Tensor) -> Tensor:
    result: Tensor = array.astype(x, dtype=np.dtype(complex_dtype(x.array.dtype)), source=x.array.dtype)
    return result


def real_part(x: Tensor) -> Tensor:
    result: Tensor = math.real(x)
    return result
