"""`tf.signal`: Fourier and cosine transforms, frames, spectrograms, windows."""

from __future__ import annotations

import math as _math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import constant_operand, convert, is_library, operand, wrap
from gradtape._src.dtypes import DType, as_dtype, complex64, float32, float64
from gradtape._src.ops import array, math, signal as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import (
    axes_of,
    axis_of,
    choice,
    count_of,
    extent,
    integer,
    integers,
    plain_number,
    shape_of,
    static,
    tensor_or,
    truth,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

Window = Callable[..., Any]


# -- Fourier transforms ----------------------------------------------------------------------------------------------
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


def _real_input(x: Any, op: str, rank: int) -> Tensor:
    x = tensor_or(x, float32)
    if x.dtype not in (float32, float64):
        raise ValueError(f"{op} requires tf.float32 or tf.float64 inputs, got: {x!r}. Use tf.cast, or tf.signal.fft.")
    return _of_rank(x, rank)


def _half_input(x: Any, op: str, rank: int) -> Tensor:
    """Half a spectrum: complex numbers."""
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
    """No elements, of another shape."""
    result: Tensor = array.reshape(array.getitem(x, index=(..., slice(0, 0))), shape=tuple(shape))
    return result


def _fit(x: Tensor, axes: Sequence[int], sizes: Sequence[int]) -> Tensor:
    """Crop the axes, or put zeros at their ends, until they have these sizes."""
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
    """Half a spectrum: n // 2 + 1 bins, and none of no points."""
    if _has_elements(x):
        result: Tensor = ops.rfft(x, axis=axes)
        return result
    shape, last = list(x.array.shape), axes[-1]
    shape[last] = shape[last] // 2 + 1 if shape[last] else 0
    return _empty(_as_complex(x), shape)


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
    """The Fourier transform of the last axis.

>>> tf.signal.fft(tf.constant([1.0, 0.0, 0.0, 0.0], tf.complex64)).numpy().real.tolist()
[1.0, 1.0, 1.0, 1.0]
""",
)
ifft = _complex_transform(
    1,
    True,
    "ifft",
    """The inverse Fourier transform of the last axis.

>>> tf.signal.ifft(tf.constant([4.0, 0.0, 0.0, 0.0], tf.complex64)).numpy().real.tolist()
[1.0, 1.0, 1.0, 1.0]
""",
)
fft2d = _complex_transform(
    2,
    False,
    "fft2d",
    """The Fourier transform of the last two axes.

>>> tf.signal.fft2d(tf.ones([2, 2], tf.complex64)).numpy().real.tolist()
[[4.0, 0.0], [0.0, 0.0]]
""",
)
ifft2d = _complex_transform(
    2,
    True,
    "ifft2d",
    """The inverse Fourier transform of the last two axes.

>>> tf.signal.ifft2d(tf.constant([[4.0, 0.0], [0.0, 0.0]], tf.complex64)).numpy().real.tolist()
[[1.0, 1.0], [1.0, 1.0]]
""",
)
fft3d = _complex_transform(
    3,
    False,
    "fft3d",
    """The Fourier transform of the last three axes.

>>> tf.signal.fft3d(tf.ones([1, 2, 2], tf.complex64)).numpy().real.tolist()
[[[4.0, 0.0], [0.0, 0.0]]]
""",
)
ifft3d = _complex_transform(
    3,
    True,
    "ifft3d",
    """The inverse Fourier transform of the last three axes.

>>> tf.signal.ifft3d(tf.constant([[[4.0, 0.0], [0.0, 0.0]]], tf.complex64)).numpy().real.tolist()
[[[1.0, 1.0], [1.0, 1.0]]]
""",
)


def _real_transform(count: int, name: str, doc: str) -> Callable[..., Tensor]:
    op = f"RFFT{f'{count}D' if count > 1 else ''}"

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = _real_input(input_tensor, op, count)
        axes = _last(x, count)
        if fft_length is not None:
            x = _fit(x, axes, _lengths(fft_length, count, op))
        return _real_fft(x, axes)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return transform


def _real_inverse(count: int, name: str, doc: str) -> Callable[..., Tensor]:
    op = f"IRFFT{f'{count}D' if count > 1 else ''}"

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        x = _half_input(input_tensor, op, count)
        return _half_to_real(x, _last(x, count), fft_length, op)

    transform.__name__ = transform.__qualname__ = name
    transform.__doc__ = doc
    return transform


def _half_to_real(x: Tensor, axes: tuple[int, ...], fft_length: Any, op: str) -> Tensor:
    shape = x.array.shape
    if fft_length is None:
        lengths = (*(shape[a] for a in axes[:-1]), max(2 * (shape[axes[-1]] - 1), 0))
    else:
        lengths = _lengths(fft_length, len(axes), op)
    if any(type(n) is int and n == 0 for n in lengths):
        shape = list(shape)
        for a, n in zip(axes, lengths, strict=True):
            shape[a] = n
        return _empty(_real_part(x), shape)
    x = _fit(x, axes, (*lengths[:-1], lengths[-1] // 2 + 1))
    result: Tensor = ops.irfft(x, axis=axes, length=lengths[-1])
    return result


rfft = _real_transform(
    1,
    "rfft",
    """The Fourier transform of real numbers: the first half of the last axis.

>>> tf.signal.rfft([1.0, 0.0, -1.0, 0.0]).numpy().tolist()
[0j, (2+0j), 0j]
""",
)
irfft = _real_inverse(
    1,
    "irfft",
    """Real numbers from half of their Fourier transform.

>>> print(tf.signal.irfft(tf.signal.rfft([1.0, 2.0, 3.0, 4.0])).numpy().round(4))
[1. 2. 3. 4.]
""",
)
rfft2d = _real_transform(
    2,
    "rfft2d",
    """The two-dimensional transform of real numbers: half of the last axis.

>>> tf.signal.rfft2d([[1.0, 1.0], [1.0, 1.0]]).numpy().tolist()
[[(4+0j), 0j], [0j, 0j]]
""",
)
irfft2d = _real_inverse(
    2,
    "irfft2d",
    """Real numbers from half of their two-dimensional transform.

>>> print(tf.signal.irfft2d(tf.signal.rfft2d([[1.0, 2.0], [3.0, 4.0]])).numpy().round(4))
[[1. 2.]
 [3. 4.]]
""",
)
rfft3d = _real_transform(
    3,
    "rfft3d",
    """The three-dimensional transform of real numbers: half of the last axis.

>>> tf.signal.rfft3d(tf.ones([2, 2, 8])).shape
TensorShape([2, 2, 5])
""",
)
irfft3d = _real_inverse(
    3,
    "irfft3d",
    """Real numbers from half of their three-dimensional transform.

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
    """The Fourier transform over any axes, all of them by default.

    >>> tf.signal.fftnd(tf.ones([2, 2], tf.complex64), axes=[0]).numpy().real.tolist()
    [[2.0, 2.0], [0.0, 0.0]]
    """
    return _nd(input_tensor, fft_length, axes, norm, inverse=False)


def ifftnd(
    input_tensor: TensorLike, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The inverse Fourier transform over any axes, all of them by default.

    >>> tf.signal.ifftnd(tf.constant([[4.0, 0.0], [0.0, 0.0]], tf.complex64)).numpy().real.tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    return _nd(input_tensor, fft_length, axes, norm, inverse=True)


def _nd(input_tensor: Any, fft_length: Any, axes: Any, norm: str | None, inverse: bool) -> Tensor:
    op = "IFFTND" if inverse else "FFTND"
    x = _complex_input(operand(input_tensor), op, 1)
    over = _nd_axes(x, fft_length, axes)
    if fft_length is not None:
        x = _fit(x, over, _lengths(fft_length, len(over), op))
    points = _math.prod(x.array.shape[a] for a in over)
    return _normed(_complex_fft(x, over, inverse), norm, points, inverse)


def rfftnd(
    input_tensor: TensorLike, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The transform of real numbers over any axes: of the last one given, half is kept.

    >>> tf.signal.rfftnd(tf.ones([4, 8]), axes=[1]).shape
    TensorShape([4, 5])
    """
    x = _real_input(operand(input_tensor), "RFFTND", 1)
    over = _nd_axes(x, fft_length, axes)
    if fft_length is not None:
        x = _fit(x, over, _lengths(fft_length, len(over), "RFFTND"))
    points = _math.prod(x.array.shape[a] for a in over)
    return _normed(_real_fft(x, over), norm, points, inverse=False)


def irfftnd(
    input_tensor: TensorLike, fft_length: Any = None, axes: Any = None, norm: str | None = None, name: str | None = None
) -> Tensor:
    """Real numbers from half of their transform over any axes.

    >>> print(tf.signal.irfftnd(tf.signal.rfftnd([[1.0, 2.0], [3.0, 4.0]])).numpy().round(4))
    [[1. 2.]
     [3. 4.]]
    """
    x = _complex_input(operand(input_tensor), "IRFFTND", 1)
    over = _nd_axes(x, fft_length, axes)
    result = _half_to_real(x, over, fft_length, "IRFFTND")
    return _normed(result, norm, _math.prod(result.array.shape[a] for a in over), inverse=True)


def fftshift(x: TensorLike, axes: Any = None, name: str | None = None) -> Tensor:
    """Move the zero frequency to the middle.

    >>> tf.signal.fftshift([0.0, 1.0, 2.0, -2.0, -1.0]).numpy().tolist()
    [-2.0, -1.0, 0.0, 1.0, 2.0]
    """
    return _shift(x, axes, lambda n: n // 2)


def ifftshift(x: TensorLike, axes: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `fftshift`.

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


# -- cosine transforms -----------------------------------------------------------------------------------------------
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
    """The cosine transform of an axis, of type 1, 2, 3 or 4; scaled as SciPy scales it.

    >>> print(tf.signal.dct([1.0, 2.0, 3.0, 4.0]).numpy().round(3))
    [20.    -6.309  0.    -0.448]
    """
    _checked_dct(type, n, norm)
    x = operand(input)
    if not x.array.shape:
        raise IndexError("tuple index out of range: tf.signal.dct transforms an axis, and a scalar has none")
    if x.dtype not in (float32, float64):
        raise TypeError(f"tf.signal.dct takes tf.float32 or tf.float64, got: {x!r}. Use tf.cast(x, tf.float32).")
    x = _real_input(x, "RFFT", 1)
    last = len(x.array.shape) - 1
    at = axis_of(extent(axis, "axis", "RFFT"), last + 1, "RFFT")
    if at != last:  # TensorFlow stops here: only the last axis is there for it
        swap = tuple(last if i == at else at if i == last else i for i in range(last + 1))
        moved: Tensor = array.transpose(dct(array.transpose(x, perm=swap), type, n, -1, norm), perm=swap)
        return moved
    if n is not None:
        x = _fit(x, (last,), (extent(n, "n", "RFFT"),))
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
        return _real_part(ops.rfft(array.concatenate(x, mirrored, axis=last), axis=(last,)))
    if type == 2:
        result = _dct2(x, size, 2 * size)
        return result * _constant(_ortho(size), dtype) if norm == "ortho" else result
    if type == 3:
        scale = 2 * np.exp(0.5j * np.pi * np.arange(size) / size) * (size / _ortho_inverse(size, norm))
        spectrum = _as_complex(x) * _constant(scale, _complex_dtype(dtype))
        kept: Tensor = array.getitem(_half_to_real(spectrum, (last,), [2 * size], "IRFFT"), index=(..., slice(0, size)))
        return kept
    odd: Tensor = array.getitem(_dct2(x, 2 * size, 4 * size), index=(..., slice(1, None, 2)))
    return odd * (_math.sqrt(0.5) * _math.sqrt(1 / size)) if norm == "ortho" else odd


def _dct2(x: Tensor, count: int, length: int) -> Tensor:
    """The first `count` cosine coefficients on a grid of `length` points: a transform with a quarter of a turn."""
    last = len(x.array.shape) - 1
    half = ops.rfft(_fit(x, (last,), (length,)), axis=(last,))
    kept = array.getitem(half, index=(..., slice(0, count)))
    turn = 2 * np.exp(-1j * np.pi * np.arange(count) / length)
    return _real_part(kept * _constant(turn, kept.array.dtype))


def _ortho(size: int) -> Any:
    scale = np.full(size, _math.sqrt(0.5 / size))
    scale[:1] *= _math.sqrt(0.5)
    return scale


def _ortho_inverse(size: int, norm: str | None) -> Any:
    """What the inputs of type 3 are divided by, so that it undoes the orthogonal type 2."""
    if norm is None:
        return np.ones(size)
    scale = np.full(size, _math.sqrt(2 * size))
    scale[:1] = _math.sqrt(size)
    return scale


def _constant(value: Any, dtype: Any) -> Tensor:
    return constant_operand(np.asarray(value).astype(dtype))


def _complex_dtype(dtype: Any) -> Any:
    return np.result_type(dtype, np.complex64)


def _as_complex(x: Tensor) -> Tensor:
    result: Tensor = array.astype(x, dtype=np.dtype(_complex_dtype(x.array.dtype)), source=x.array.dtype)
    return result


def _real_part(x: Tensor) -> Tensor:
    result: Tensor = math.real(x)
    return result


def idct(
    input: TensorLike, type: int = 2, n: Any = None, axis: int = -1, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The inverse cosine transform: the transform of the inverse type (2 and 3 undo each other, 1 and 4 themselves).

    >>> x = tf.constant([1.0, 2.0, 3.0])
    >>> print(tf.signal.idct(tf.signal.dct(x, norm="ortho"), norm="ortho").numpy().round(4))
    [1. 2. 3.]
    """
    _checked_dct(type, n, norm)
    return dct(input, {1: 1, 2: 3, 3: 2, 4: 4}[type], n, axis, norm)


# -- frames ----------------------------------------------------------------------------------------------------------
def frame(
    signal: TensorLike,
    frame_length: Any,
    frame_step: Any,
    pad_end: bool = False,
    pad_value: Any = 0,
    axis: int = -1,
    name: str | None = None,
) -> Tensor:
    """Windows of an axis, overlapping or not; with `pad_end` the last ones are filled up with `pad_value`.

    >>> tf.signal.frame([0, 1, 2, 3, 4], 3, 2).numpy().tolist()
    [[0, 1, 2], [2, 3, 4]]
    """
    x, pad_end = operand(signal), truth(pad_end)
    rank = len(x.array.shape)
    if not rank:
        raise ValueError("Shape must be at least rank 1 but is rank 0: frames are cut from an axis.")
    at = axis_of(count_of(axis, "axis"), rank, "Frame")
    length, step = count_of(frame_length, "frame_length"), count_of(frame_step, "frame_step")
    if x.array.dtype.kind in "bO":
        raise TypeError(f"tf.signal.frame takes numbers, but got a tensor of {x.dtype.name}.")
    if step < 1:
        raise errors.invalid_argument(f"Integer division by zero: frame_step must be positive, got {step}", "FloorDiv")
    if length < 0:
        raise errors.invalid_argument(f"Requires start <= limit when delta > 0: 0/{length}", "Range")
    size = x.array.shape[at]
    if pad_end:
        need = max((-(-size // step) - 1) * step + length if size else 0, size)
        if need > size:
            filling = array.stop_gradient(_pad_value(pad_value, x.dtype))
            filler = array.broadcast_to(filling, shape=(*x.array.shape[:at], need - size, *x.array.shape[at + 1 :]))
            x = array.concatenate(x, filler, axis=at)
    result: Tensor = ops.frame(x, axis=at, length=length, step=step)
    if pad_end:
        result = array.getitem(result, index=(slice(None),) * at + (slice(0, -(-size // step)),))
    return result


def _pad_value(value: Any, dtype: DType) -> Tensor:
    found = convert(value, dtype)
    if found.array.shape:
        raise ValueError(f"Shape must be rank 0 but is rank {len(found.array.shape)} for argument 'pad_value'.")
    return found


def overlap_and_add(signal: TensorLike, frame_step: Any, name: str | None = None) -> Tensor:
    """Add frames [..., frames, length] that are `frame_step` apart: the transpose of `frame`.

    >>> tf.signal.overlap_and_add([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]], 2).numpy().tolist()
    [1.0, 1.0, 2.0, 1.0, 1.0]
    """
    x = operand(signal)
    rank = len(x.array.shape)
    if rank < 2:
        raise ValueError(f"signal should have at least 2 dimensions (frames and their samples). Received: {x.shape}")
    given = operand(frame_step)
    if given.array.shape or not given.dtype.is_integer:
        raise ValueError(f"frame_step must be an integer scalar. Received: {frame_step!r}")
    step = integer(given)
    if step < 1:
        raise errors.invalid_argument(f"Integer division by zero: frame_step must be positive, got {step}", "FloorDiv")
    frames, length = x.array.shape[-2:]
    result: Tensor = ops.overlap_add(x, axis=rank - 2, step=step, size=max(frames - 1, 0) * step + length)
    return result


# -- windows ---------------------------------------------------------------------------------------------------------
def _window_dtype(dtype: Any) -> Any:
    if not isinstance(dtype, DType) and not isinstance(dtype, (str, type, np.dtype)):
        raise TypeError(f"Expected a dtype for argument 'dtype', but got {dtype!r}.")
    kind = as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(f"dtype must be a floating point type. Found {kind!r}")
    return kind.numpy_dtype


def _cosine_window(window_length: Any, periodic: Any, dtype: Any, a: float, b: float) -> Tensor:
    length, kind = _window_length(window_length), _window_dtype(dtype)
    repeats = operand(periodic, None if is_library(periodic) else as_dtype("bool"))
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
    """A raised cosine that is 0 at its ends.

    >>> print(tf.signal.hann_window(4).numpy().round(4))
    [0.  0.5 1.  0.5]
    """
    return _cosine_window(window_length, periodic, dtype, 0.5, 0.5)


def hamming_window(window_length: Any, periodic: Any = True, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """A raised cosine that is 0.08 at its ends.

    >>> print(tf.signal.hamming_window(4).numpy().round(4))
    [0.08 0.54 1.   0.54]
    """
    return _cosine_window(window_length, periodic, dtype, 0.54, 0.46)


def vorbis_window(window_length: Any, dtype: Any = "float32", name: str | None = None) -> Tensor:
    """The power-complementary window of the Vorbis format.

    >>> print(tf.signal.vorbis_window(4).numpy().round(4))
    [0.228  0.9737 0.9737 0.228 ]
    """
    length, kind = _window_length(window_length), _window_dtype(dtype)
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
    """The Kaiser window.

    >>> print(tf.signal.kaiser_window(3, beta=2.0).numpy().round(4))
    [0.4387 1.     0.4387]
    """
    kind = _window_dtype(dtype)
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
    """The window made of running sums of a Kaiser window: squared halves add up to 1.

    >>> print(tf.signal.kaiser_bessel_derived_window(4).numpy().round(4))
    [0.0073 1.     1.     0.0073]
    """
    kind = _window_dtype(dtype)
    sums = np.cumsum(_kaiser(_window_length(window_length) // 2 + 1, _beta(beta)))
    half = np.sqrt(sums[:-1] / sums[-1])
    return wrap(np.concatenate([half, half[::-1]]).astype(kind))


# -- spectrograms ----------------------------------------------------------------------------------------------------
def _enclosing_power_of_two(n: int) -> int:
    return 1 << max(n - 1, 0).bit_length()


def stft(
    signals: TensorLike,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Window | None = hann_window,
    pad_end: bool = False,
    name: str | None = None,
) -> Tensor:
    """The short-time Fourier transform: windowed frames of the last axis, transformed. [..., frames, bins].

    >>> tf.signal.stft([0.0, 1.0, 0.0, -1.0] * 8, frame_length=8, frame_step=4).shape
    TensorShape([7, 5])
    """
    x = operand(signals)
    length = count_of(frame_length, "frame_length")
    points = _enclosing_power_of_two(length) if fft_length is None else count_of(fft_length, "fft_length")
    if x.dtype not in (float32, as_dtype("float64"), as_dtype("float16")):
        kind = TypeError if x.array.dtype.kind in "bO" else ValueError
        raise kind(f"RFFT requires tf.float32 or tf.float64 inputs, got: {x!r}")
    frames = frame(x, length, frame_step, pad_end=pad_end)
    if window_fn is not None:
        frames = frames * window_fn(length, dtype=frames.dtype)
    return rfft(frames, [points])


def inverse_stft_window_fn(frame_step: Any, forward_window_fn: Window = hann_window, name: str | None = None) -> Window:
    """The window with which `inverse_stft` undoes `stft`: the forward one over the sum of its overlapping squares.

    >>> window = tf.signal.inverse_stft_window_fn(frame_step=2)
    >>> print(window(4, dtype=tf.float32).numpy().round(4))
    [0. 1. 1. 1.]
    """
    step = count_of(frame_step, "frame_step")

    def inverse_window(frame_length: Any, dtype: Any = "float32") -> Tensor:
        length = count_of(frame_length, "frame_length")
        forward = np.asarray(operand(forward_window_fn(length, dtype=as_dtype(dtype))).array)
        overlaps = -(-length // step)
        squares = np.zeros(overlaps * step, forward.dtype)
        squares[:length] = forward**2
        total = np.tile(squares.reshape(overlaps, step).sum(0), overlaps)[:length]
        return wrap((forward / total).astype(forward.dtype))

    return inverse_window


def inverse_stft(
    stfts: TensorLike,
    frame_length: Any,
    frame_step: Any,
    fft_length: Any = None,
    window_fn: Window | None = hann_window,
    name: str | None = None,
) -> Tensor:
    """A signal from its short-time transform: frames back, windowed, overlapped and added.

    >>> x = tf.sin(tf.range(16.0))
    >>> window = tf.signal.inverse_stft_window_fn(2)
    >>> y = tf.signal.inverse_stft(tf.signal.stft(x, 4, 2), 4, 2, window_fn=window)
    >>> bool(tf.reduce_max(tf.abs(x - y)[2:-2]) < 1e-5)
    True
    """
    x = operand(stfts)
    if len(x.array.shape) < 2:
        raise ValueError(f"stfts should have at least 2 dimensions (frames and bins). Received: {x.shape}")
    length = count_of(frame_length, "frame_length")
    points = _enclosing_power_of_two(length) if fft_length is None else count_of(fft_length, "fft_length")
    frames = irfft(x, [points])
    frames = _fit(frames, (len(frames.array.shape) - 1,), (length,))
    if window_fn is not None:
        frames = frames * window_fn(length, dtype=frames.dtype)
    return overlap_and_add(frames, frame_step)


def _mdct_window(window_fn: Window | None, length: int, dtype: Any) -> Any:
    return _math.sqrt(0.5) if window_fn is None else window_fn(length, dtype=dtype)


def mdct(
    signals: TensorLike,
    frame_length: Any,
    window_fn: Window | None = vorbis_window,
    pad_end: bool = False,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The modified cosine transform: half-overlapping frames of length 2 N, folded to N coefficients each.

    >>> tf.signal.mdct(tf.range(16.0), frame_length=4).shape
    TensorShape([7, 2])
    """
    length, pad_end = count_of(frame_length, "frame_length"), truth(pad_end)
    if length % 4:
        raise ValueError(f"The frame length must be a multiple of 4. Received: {length}")
    frames = frame(operand(signals), length, length // 2, pad_end=pad_end)
    frames = frames * _mdct_window(window_fn, length, frames.dtype)
    last, quarter = len(frames.array.shape) - 1, length // 4
    a, b, c, d = array.split(frames, sizes=(quarter,) * 4, axis=last)
    folded = array.concatenate(-array.flip(c, axis=(last,)) - d, a - array.flip(b, axis=(last,)), axis=last)
    return dct(folded, type=4, norm=norm)


def inverse_mdct(
    mdcts: Any, window_fn: Window | None = vorbis_window, norm: str | None = None, name: str | None = None
) -> Tensor:
    """The inverse of `mdct`, for samples that lie in two frames.

    >>> x = tf.sin(tf.range(16.0))
    >>> y = tf.signal.inverse_mdct(tf.signal.mdct(x, 4, norm="ortho"), norm="ortho")
    >>> bool(tf.reduce_max(tf.abs(x - y)[2:-2]) < 1e-5)
    True
    """
    x = operand(mdcts)
    if len(x.array.shape) < 2 or x.dtype not in (float32, as_dtype("float64")):
        raise ValueError(f"mdcts must be at least rank 2 and of tf.float32 or tf.float64. Received: {x!r}")
    last = len(x.array.shape) - 1
    half = x.array.shape[last]
    if half % 2:
        raise ValueError(f"The number of coefficients must be even. Received: {half}")
    if half == 0:
        empty: Tensor = array.reshape(x, shape=(*x.array.shape[:-2], 0))
        return empty
    folded = dct(x, type=4, norm=norm)
    if norm is None:
        folded = folded * (0.5 / half)
    p, q = array.split(folded, sizes=(half // 2,) * 2, axis=last)
    frames = array.concatenate(q, -array.flip(q, axis=(last,)), -array.flip(p, axis=(last,)), -p, axis=last)
    return overlap_and_add(frames * _mdct_window(window_fn, 2 * half, frames.dtype), half)


# -- mel -------------------------------------------------------------------------------------------------------------
_MEL_BREAK_HERTZ, _MEL_HIGH_Q = 700.0, 1127.0


def _mel(hertz: Any) -> Any:
    return _MEL_HIGH_Q * np.log1p(hertz / _MEL_BREAK_HERTZ)


def linear_to_mel_weight_matrix(
    num_mel_bins: Any = 20,
    num_spectrogram_bins: Any = 129,
    sample_rate: Any = 8000,
    lower_edge_hertz: Any = 125.0,
    upper_edge_hertz: Any = 3800.0,
    dtype: Any = "float32",
    name: str | None = None,
) -> Tensor:
    """The matrix [spectrogram bins, mel bins] of triangles, evenly spaced on the mel scale.

    >>> tf.signal.linear_to_mel_weight_matrix(4, 17, 8000, 100.0, 3800.0).shape
    TensorShape([17, 4])
    """
    kind = _window_dtype(dtype)
    mels = extent(num_mel_bins, "num_mel_bins", "LinSpace")
    bins = integer(num_spectrogram_bins, "LinSpace", fixed=True)
    rate, low, high = (
        plain_number(value, word)
        for word, value in (
            ("sample_rate", sample_rate),
            ("lower_edge_hertz", lower_edge_hertz),
            ("upper_edge_hertz", upper_edge_hertz),
        )
    )
    if bins < 0:
        raise errors.invalid_argument(f"Requires num > 0: {bins}", "LinSpace")
    if mels <= 0:
        raise ValueError(f"num_mel_bins must be positive. Got: {mels}")
    if low < 0:
        raise ValueError(f"lower_edge_hertz must be non-negative. Got: {low}")
    if low >= high:
        raise ValueError(f"lower_edge_hertz {low:.1f} >= upper_edge_hertz {high:.1f}")
    if rate <= 0:
        raise ValueError(f"sample_rate must be positive. Got: {rate}")
    if high > rate / 2:
        raise ValueError(
            f"upper_edge_hertz must not be larger than the Nyquist frequency (sample_rate / 2). Got {high} for "
            f"sample_rate: {rate}"
        )
    frequencies = _mel(np.linspace(0.0, rate / 2, bins)[1:, None])  # the first bin, a constant offset, belongs to none
    edges = np.linspace(_mel(low), _mel(high), mels + 2)
    lower, centre, upper = edges[:-2], edges[1:-1], edges[2:]
    rising, falling = (frequencies - lower) / (centre - lower), (upper - frequencies) / (upper - centre)
    weights = np.maximum(0.0, np.minimum(rising, falling))
    return wrap(np.pad(weights, [(1, 0), (0, 0)]).astype(kind))


def mfccs_from_log_mel_spectrograms(log_mel_spectrograms: Any, name: str | None = None) -> Tensor:
    """The mel-frequency cepstral coefficients of log-magnitude mel spectrograms: a scaled cosine transform.

    >>> tf.signal.mfccs_from_log_mel_spectrograms(tf.ones([5, 40])).shape
    TensorShape([5, 40])
    """
    x = operand(log_mel_spectrograms)
    if not x.array.shape:
        raise errors.invalid_argument("slice index -1 of dimension 0 out of bounds.", "StridedSlice")
    bins = x.array.shape[-1]
    if bins == 0:
        raise ValueError("num_mel_bins must be positive. Got: 0")
    return dct(x, type=2) * (1 / _math.sqrt(2 * bins))


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
__all__ = [
    "dct",
    "fft",
    "fft2d",
    "fft3d",
    "fftnd",
    "fftshift",
    "frame",
    "hamming_window",
    "hann_window",
    "idct",
    "ifft",
    "ifft2d",
    "ifft3d",
    "ifftnd",
    "ifftshift",
    "inverse_mdct",
    "inverse_stft",
    "inverse_stft_window_fn",
    "irfft",
    "irfft2d",
    "irfft3d",
    "irfftnd",
    "kaiser_bessel_derived_window",
    "kaiser_window",
    "linear_to_mel_weight_matrix",
    "mdct",
    "mfccs_from_log_mel_spectrograms",
    "overlap_and_add",
    "rfft",
    "rfft2d",
    "rfft3d",
    "rfftnd",
    "stft",
    "vorbis_window",
]


def __dir__() -> list[str]:
    return list(__all__)
