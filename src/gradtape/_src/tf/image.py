"""`tf.image`: resizing, cropping, colours, comparisons, augmentation. Differentiable for floating-point images."""

from __future__ import annotations

import math as _math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import checked
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import is_known, unknown_shape
from gradtape._src.conversion import array_from, constant_operand, convert, converter_of, is_library, operand, wrap
from gradtape._src.dtypes import DType, float16, float32
from gradtape._src.ops import array, image as ops, index, linalg, math, reduce
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf import io as _io, random as _random
from gradtape._src.tf.arguments import (
    allowed_text,
    as_int,
    choice,
    count_of,
    integer,
    number,
    plain_number,
    same_dtype,
    scalar_operand,
    shape_of,
    static,
    tensor_or,
    truth,
)
from gradtape._src.tf.array import cast
from gradtape._src.tf.debugging import Assert

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

# -- files (tf.io has them too) --------------------------------------------------------------------------------------
decode_bmp, decode_gif, decode_image = _io.decode_bmp, _io.decode_gif, _io.decode_image
decode_jpeg, decode_png, decode_webp = _io.decode_jpeg, _io.decode_png, _io.decode_webp
decode_and_crop_jpeg, extract_jpeg_shape, is_jpeg = _io.decode_and_crop_jpeg, _io.extract_jpeg_shape, _io.is_jpeg
encode_jpeg, encode_png = _io.encode_jpeg, _io.encode_png
convert_image_dtype = _io.convert_image_dtype


# -- reading arguments -----------------------------------------------------------------------------------------------
def _image(image: Any) -> Tensor:
    """A tensor with at least three axes: height, width, channels."""
    x = operand(image)
    if len(x.array.shape) < 3:
        raise ValueError(f"'image' (shape {x.shape}) must be at least three-dimensional.")
    return _with_pixels(x)


def _with_pixels(x: Tensor) -> Tensor:
    if any(type(n) is int and n == 0 for n in x.array.shape[-3:]):
        raise ValueError(f"inner 3 dims of 'image.shape' must be > 0: {x.shape}")
    return x


def _one_or_batch(image: Any) -> Tensor:
    """An image, or a batch of them."""
    x = _image(image)
    if len(x.array.shape) not in (3, 4):
        raise ValueError(f"'image' (shape {x.shape}) must have either 3 or 4 dimensions.")
    return x


def _for_kernel(images: Any, op: str, channels: int | None = None) -> Tensor:
    """An image of any size, as TensorFlow's kernels check it."""
    x = operand(images)
    shape = x.array.shape
    if len(shape) < 3:
        raise errors.invalid_argument(f"input must be at least 3-D, got shape{errors.brackets(shape)}", op)
    if channels is not None and shape[-1] != channels:
        raise errors.invalid_argument(f"input must have {channels} channels but instead has {shape[-1]} channels.", op)
    return x


def _one_number(value: Any, dtype: DType, op: str, name: str) -> Tensor:
    """A factor of an adjustment: one number that converts to float32, then in the dtype of the image."""
    return cast(scalar_operand(value, float32, op, name), dtype)


def _batch_of(images: Any, what: str = "image") -> tuple[Tensor, bool]:
    """Images as [batch, height, width, channels], and whether there was only one."""
    x = operand(images)
    rank = len(x.array.shape)
    if rank == 3:
        return array.reshape(x, shape=(1, *x.array.shape)), True
    if rank != 4:
        raise ValueError(f"'{what}' must have either 3 or 4 dimensions.")
    return x, False


def _unbatched(x: Tensor, single: bool) -> Tensor:
    result: Tensor = array.reshape(x, shape=x.array.shape[1:]) if single else x
    return result


def _slice(x: Tensor, *index_: Any) -> Tensor:
    result: Tensor = array.getitem(x, index=tuple(index_))
    return result


def _constant(value: Any, like: Tensor) -> Tensor:
    return constant_operand(np.asarray(value).astype(like.array.dtype))


def _sum(x: Tensor, *axes: int, keepdims: bool = False) -> Tensor:
    result: Tensor = reduce.sum_(x, axis=_positive(x, axes), keepdims=keepdims)
    return result


def _mean(x: Tensor, *axes: int, keepdims: bool = False) -> Tensor:
    result: Tensor = reduce.mean(x, axis=_positive(x, axes), keepdims=keepdims)
    return result


def _positive(x: Tensor, axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sorted(a % len(x.array.shape) for a in axes))


def _floating(image: Tensor, *kept: Any) -> Tensor:
    """An image as floating numbers: dtypes that are kept as they are, all others as float32 in [0, 1]."""
    return image if image.dtype in (kept or (float16, float32)) else convert_image_dtype(image, float32)


# -- resizing --------------------------------------------------------------------------------------------------------
_INT64 = np.dtype(np.int64)


class ResizeMethod:
    """The names of the resizing methods.

    >>> nearest = tf.image.ResizeMethod.NEAREST_NEIGHBOR
    >>> tf.image.resize([[[0.0], [2.0]]], [1, 4], method=nearest)[0, :, 0].numpy().tolist()
    [0.0, 0.0, 2.0, 2.0]
    """

    AREA = "area"
    BICUBIC = "bicubic"
    BILINEAR = "bilinear"
    GAUSSIAN = "gaussian"
    LANCZOS3 = "lanczos3"
    LANCZOS5 = "lanczos5"
    MITCHELLCUBIC = "mitchellcubic"
    NEAREST_NEIGHBOR = "nearest"


_METHODS = frozenset(v for k, v in vars(ResizeMethod).items() if k.isupper())


def resize(
    images: TensorLike,
    size: Any,
    method: str = ResizeMethod.BILINEAR,
    preserve_aspect_ratio: bool = False,
    antialias: Any = False,
    name: str | None = None,
) -> Tensor:
    """Resize images; the result is float32, except with nearest neighbours, which keeps the dtype.

    >>> tf.image.resize([[[0.0], [4.0]]], [1, 4]).numpy().ravel().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    x, single = _batch_of(images, "images")
    wanted = _new_size(size)
    method = choice(method, "method", tuple(sorted(_METHODS)), f"Resize method is not implemented: {method}.")
    preserve_aspect_ratio = truth(preserve_aspect_ratio)
    if antialias is not False and antialias is not True and truth(antialias):
        raise TypeError(f"Expected bool for argument 'antialias' not {antialias!r}.")
    height, width = wanted
    if preserve_aspect_ratio:
        have = x.array.shape[1:3]
        scale = np.minimum(np.float32(height) / np.float32(have[0]), np.float32(width) / np.float32(have[1]))
        height, width = (int(np.rint(scale * np.float32(n))) for n in have)
    if height < 1 or width < 1:
        raise errors.invalid_argument(f"output dimensions must be positive, got {height} and {width}", "Resize")
    if method != "nearest":
        x = cast(x, float32)
    for axis, n in ((2, width), (1, height)):
        x = ops.resample(x, axis=axis, size=n, method=method, antialias=bool(antialias))
    return _unbatched(x, single)


def _new_size(size: Any) -> tuple[int, ...]:
    sentence = "'size' must be a 1-D Tensor of 2 elements: new_height, new_width"
    if is_library(size) and operand(size).dtype.name not in ("int32", "int64"):
        raise ValueError(f"{sentence}. Received: {size!r}")
    try:
        rank = np.ndim(static(size) if is_library(size) else array_from(size))
        wanted = shape_of(size, "Resize") if rank == 1 else ()
    except (TypeError, errors.InvalidArgumentError) as error:
        raise ValueError(f"{sentence}. {error}") from None
    if len(wanted) != 2:
        raise ValueError(sentence)
    return wanted


def resize_with_pad(
    image: TensorLike,
    target_height: Any,
    target_width: Any,
    method: str = ResizeMethod.BILINEAR,
    antialias: bool = False,
) -> Tensor:
    """Resize without distortion, and pad with zeros.

    >>> tf.image.resize_with_pad(tf.ones([2, 4, 1]), 4, 4)[:, 0, 0].numpy().tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    height, width = integer(target_height), integer(target_width)
    if height < 1:
        raise ValueError("target_height must be > 0.")
    if width < 1:
        raise ValueError("target_width must be > 0.")
    x, single = _batch_of(image)
    h, w = x.array.shape[1:3]
    ratio = max(np.float32(w) / np.float32(width), np.float32(h) / np.float32(height))
    tall, wide = (np.float32(n) / ratio for n in (h, w))
    # The margin is half of what the exact size leaves, not of what the rounded one does.
    top, left = (max(int(np.floor((np.float32(want) - n) / 2)), 0) for want, n in ((height, tall), (width, wide)))
    resized = resize(x, [int(np.floor(tall)), int(np.floor(wide))], method=method, antialias=antialias)
    return _unbatched(pad_to_bounding_box(resized, top, left, height, width), single)


# -- cropping, padding, turning --------------------------------------------------------------------------------------
def crop_to_bounding_box(
    image: TensorLike, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Crop an image to a box.

    >>> image = tf.reshape(tf.range(9), [3, 3, 1])
    >>> tf.image.crop_to_bounding_box(image, 1, 1, 2, 2)[:, :, 0].numpy().tolist()
    [[4, 5], [7, 8]]
    """
    x, single = _batch_of(image)
    top, left, height, width = _box(offset_height, offset_width, target_height, target_width)
    h, w = x.array.shape[1:3]
    _require(left >= 0, "offset_width must be >= 0.")
    _require(top >= 0, "offset_height must be >= 0.")
    _require(width > 0, "target_width must be > 0.")
    _require(height > 0, "target_height must be > 0.")
    _require(w >= left + width, "width must be >= target + offset.")
    _require(h >= top + height, "height must be >= target + offset.")
    for axis, start, size in ((1, top, integer(height)), (2, left, integer(width))):
        if isinstance(start, Tensor) and not is_known(start):
            x = index.take(x, start + np.arange(size).astype(start.array.dtype), axis=axis, batch_dims=0)
        else:
            first = integer(start)
            x = _slice(x, *[slice(None)] * axis, slice(first, first + size))
    return _unbatched(x, single)


def pad_to_bounding_box(
    image: TensorLike, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Pad an image with zeros to a larger size.

    >>> tf.image.pad_to_bounding_box([[[5]]], 1, 0, 2, 2)[:, :, 0].numpy().tolist()
    [[0, 0], [5, 0]]
    """
    x, single = _batch_of(image)
    _with_pixels(x)
    top, left, height, width = _box(offset_height, offset_width, target_height, target_width)
    h, w = x.array.shape[1:3]
    bottom, right = height - top - h, width - left - w
    _require(top >= 0, "offset_height must be >= 0")
    _require(left >= 0, "offset_width must be >= 0")
    _require(right >= 0, "width must be <= target - offset")
    _require(bottom >= 0, "height must be <= target - offset")
    if all(map(is_known, (top, left))):
        top, left, bottom, right = map(integer, (top, left, bottom, right))
        if min(top, left, bottom, right) < 0:  # of constants in a function: the program would refuse them
            raise ValueError("Paddings must be non-negative")
        x = array.pad(x, before=(0, top, left, 0), after=(0, bottom, right, 0))
        return _unbatched(x, single)
    for axis, start, size in ((1, top, integer(height)), (2, left, integer(width))):
        x = _placed(x, convert(start), size, axis)
    return _unbatched(x, single)


_BOX = ("offset_height", "offset_width", "target_height", "target_width")


def _box(*numbers: Any) -> tuple[Any, ...]:
    """The numbers of a bounding box: plain ones, dimensions, or tensors whose values only the program may know."""
    return tuple(map(_comparable, numbers, _BOX))


def _comparable(value: Any, name: str) -> Any:
    """A number that can be compared: a tensor or dimension as it is, a variable's value, one real number."""
    if isinstance(value, (int, float, Tensor)) or is_dimension(value):
        return value
    converter = converter_of(value)
    if converter is not None:
        return converter(value)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biufV":
        if value.size == 1:
            return value
        raise ValueError(f"The truth value of an array is ambiguous: expected one number for '{name}', got {value!r}.")
    raise TypeError(f"Expected a number for argument '{name}', but got {value!r}.")


def _placed(x: Tensor, start: Tensor, size: int, axis: int) -> Tensor:
    """The tensor on a ground of zeros of some size along an axis, from a place on that only the program knows."""
    have, place = x.array.shape[axis], np.arange(size).astype(start.array.dtype) - start
    there = math.logical_and(math.greater_equal(place, 0), math.less(place, have))
    picked = index.take(x, math.minimum(math.maximum(place, 0), have - 1), axis=axis, batch_dims=0)
    shape = [1] * axis + [size] + [1] * (len(x.array.shape) - axis - 1)
    result: Tensor = math.where(array.reshape(there, shape=tuple(shape)), picked, np.zeros((), x.array.dtype))
    return result


def _require(condition: Any, message: str) -> None:
    """A condition on Python numbers is checked immediately; one on tensors is an assertion, as in TensorFlow."""
    if isinstance(condition, Tensor):
        Assert(condition, [message])
    elif not condition:
        raise ValueError(message)


def resize_with_crop_or_pad(image: TensorLike, target_height: Any, target_width: Any) -> Tensor:
    """Crop around the centre, or pad with zeros, to a height and width.

    >>> tf.image.resize_with_crop_or_pad([[[1.0], [2.0], [3.0]]], 3, 1).numpy().ravel().tolist()
    [0.0, 2.0, 0.0]
    """
    x, single = _batch_of(image)
    height, width = integer(target_height), integer(target_width)
    _require(width > 0, "target_width must be > 0.")
    _require(height > 0, "target_height must be > 0.")
    h, w = x.array.shape[1:3]
    cut_top, cut_left = (max((n - want) // 2, 0) for n, want in ((h, height), (w, width)))
    cropped = crop_to_bounding_box(x, cut_top, cut_left, min(height, h), min(width, w))
    padded = pad_to_bounding_box(cropped, max((height - h) // 2, 0), max((width - w) // 2, 0), height, width)
    return _unbatched(padded, single)


def central_crop(image: TensorLike, central_fraction: Any) -> Tensor:
    """The middle part of an image.

    >>> tf.image.central_crop(tf.ones([4, 4, 1]), 0.5).shape
    TensorShape([2, 2, 1])
    """
    x, fraction = _one_or_batch(image), plain_number(central_fraction, "central_fraction")
    if not 0 < fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]")
    if fraction == 1:
        return x
    top, left = (int((n - n * fraction) / 2) for n in x.array.shape[-3:-1])
    h, w = x.array.shape[-3:-1]
    return _slice(x, ..., slice(top, h - top), slice(left, w - left), slice(None))


_BOX_INDICES = index.WITHIN._replace(
    error=lambda which, size: errors.OutOfRangeError(
        None, None, "box_index has values outside [0, batch_size) [Op:CropAndResize]"
    )
)


def crop_and_resize(
    image: TensorLike,
    boxes: TensorLike,
    box_indices: Any,
    crop_size: Any,
    method: str = "bilinear",
    extrapolation_value: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """Parts of images under boxes (y1, x1, y2, x2 in [0, 1]), each resized; differentiable in images and boxes.

    >>> tf.image.crop_and_resize([[[[1.0], [2.0]], [[3.0], [4.0]]]], [[0.0, 0.0, 1.0, 1.0]], [0], [1, 1]).numpy().item()
    2.5
    """
    method = allowed_text(method, "method", ("bilinear", "nearest"), "CropAndResize", "bilinear")
    outside = 0.0 if extrapolation_value is None else number(extrapolation_value, "extrapolation_value")
    x, where = cast(operand(image), float32), operand(boxes)
    which = array.discrete_cast(operand(box_indices), dtype=_INT64)
    sizes = shape_of(crop_size, "CropAndResize", fixed=True)
    if len(x.array.shape) != 4 or len(where.array.shape) != 2 or where.array.shape[1] != 4 or len(sizes) != 2:
        raise errors.invalid_argument(
            f"image must be 4-D, boxes [n, 4] and crop_size two numbers, got shapes {errors.brackets(x.array.shape)}, "
            f"{errors.brackets(where.array.shape)} and {len(sizes)} numbers",
            "CropAndResize",
        )
    batch, height, width, _ = x.array.shape
    which = checked(_BOX_INDICES, which, size=batch)
    y = _crop_positions(where, 0, height, sizes[0])
    z = _crop_positions(where, 1, width, sizes[1])
    count, (tall, wide) = where.array.shape[0], sizes
    inside = array.reshape(_within(y, height), shape=(count, tall, 1)) & array.reshape(
        _within(z, width), shape=(count, 1, wide)
    )
    first = array.broadcast_to(array.reshape(which, shape=(count, 1, 1)), shape=(count, tall, wide))
    result: Any = None
    for row, row_weight in _neighbours(y, height, method):
        for column, column_weight in _neighbours(z, width, method):
            at = array.stack(
                first,
                array.broadcast_to(array.reshape(row, shape=(count, tall, 1)), shape=(count, tall, wide)),
                array.broadcast_to(array.reshape(column, shape=(count, 1, wide)), shape=(count, tall, wide)),
                axis=3,
            )
            picked = index.gather_nd(x, at, batch_dims=0)
            if row_weight is not None and column_weight is not None:
                vertical = array.reshape(row_weight, shape=(count, tall, 1, 1))
                picked = picked * (vertical * array.reshape(column_weight, shape=(count, 1, wide, 1)))
            result = picked if result is None else result + picked
    shown = array.reshape(inside, shape=(count, tall, wide, 1))
    found: Tensor = math.where(shown, result, outside)
    return found


def _crop_positions(boxes: Tensor, first: int, size: int, wanted: int) -> Tensor:
    """Where in the image the rows (or columns) of each crop lie: [boxes, wanted]."""
    low, high = (_slice(boxes, slice(None), slice(i, i + 1)) for i in (first, first + 2))
    if wanted == 1:
        return (low + high) * (0.5 * (size - 1))
    steps = _constant(np.arange(wanted), boxes)
    return low * float(size - 1) + steps * ((high - low) * ((size - 1) / (wanted - 1)))


def _within(at: Tensor, size: int) -> Tensor:
    return (at >= 0) & (at <= size - 1)


def _neighbours(at: Tensor, size: int, method: str) -> list[tuple[Tensor, Tensor | None]]:
    """The rows (or columns) that a position lies between, with their weights."""

    def row(position: Tensor) -> Tensor:
        inside = math.minimum(math.maximum(position, 0), size - 1)
        result: Tensor = array.discrete_cast(inside, dtype=_INT64)
        return result

    if method == "nearest":
        return [(row(math.floor(at + 0.5)), None)]
    low = math.floor(at)
    part = at - low
    return [(row(low), 1 - part), (row(math.ceil(at)), part)]


def flip_left_right(image: TensorLike) -> Tensor:
    """Mirror images along their width.

    >>> tf.image.flip_left_right([[[1.0], [2.0]]]).numpy().ravel().tolist()
    [2.0, 1.0]
    """
    return _flipped(_one_or_batch(image), -2)


def flip_up_down(image: TensorLike) -> Tensor:
    """Mirror images along their height.

    >>> tf.image.flip_up_down([[[1], [2]], [[3], [4]]]).numpy().tolist()
    [[[3], [4]], [[1], [2]]]
    """
    return _flipped(_one_or_batch(image), -3)


def _flipped(x: Tensor, axis: int) -> Tensor:
    result: Tensor = array.flip(x, axis=_positive(x, (axis,)))
    return result


def transpose(image: TensorLike, name: str | None = None) -> Tensor:
    """Swap height and width.

    >>> tf.image.transpose([[[1], [2], [3]]])[:, :, 0].numpy().tolist()
    [[1], [2], [3]]
    """
    x = _one_or_batch(image)
    rank = len(x.array.shape)
    result: Tensor = array.transpose(x, perm=(*range(rank - 3), rank - 2, rank - 3, rank - 1))
    return result


def rot90(image: TensorLike, k: Any = 1, name: str | None = None) -> Tensor:
    """Rotate images by k times 90 degrees, counter-clockwise.

    >>> tf.image.rot90([[[1], [2]], [[3], [4]]])[:, :, 0].numpy().tolist()
    [[2, 4], [1, 3]]
    """
    x, turns = _one_or_batch(image), count_of(k, "k") % 4
    if turns == 0:
        return x
    if turns == 1:
        return flip_up_down(transpose(x))
    if turns == 2:
        return flip_left_right(flip_up_down(x))
    return transpose(flip_up_down(x))


# -- colours ---------------------------------------------------------------------------------------------------------
_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]
_FROM_YIQ = [[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
_FROM_YUV = [[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]
_GRAY = [[0.2989], [0.5870], [0.1140]]


def _mix(images: Any, matrix: Any) -> Tensor:
    """Every pixel times a matrix."""
    x = operand(images)
    if not x.array.shape:
        raise IndexError("list index out of range: the last axis of an image holds its colours, and a scalar has none")
    if x.array.shape[-1] != len(matrix):
        raise errors.invalid_argument(
            f"Matrix size-incompatible: the last axis of an image holds {len(matrix)} colours, got shape "
            f"{errors.brackets(x.array.shape)}",
            "MatMul",
        )
    if not x.dtype.is_floating:
        raise TypeError(f"Cannot convert {matrix} to EagerTensor of dtype {x.dtype.name}")
    flat = array.reshape(x, shape=(-1, len(matrix)))
    mixed = linalg.matmul(flat, _constant(matrix, x))
    result: Tensor = array.reshape(mixed, shape=(*x.array.shape[:-1], len(matrix[0])))
    return result


def rgb_to_yiq(images: TensorLike) -> Tensor:
    """Red, green, blue to luma and two chroma axes (NTSC).

    >>> print(tf.image.rgb_to_yiq([[[1.0, 1.0, 1.0]]]).numpy().round(4))
    [[[ 1.  0. -0.]]]
    """
    return _mix(images, _YIQ)


def yiq_to_rgb(images: TensorLike) -> Tensor:
    """The inverse of `rgb_to_yiq`.

    >>> print(tf.image.yiq_to_rgb([[[1.0, 0.0, 0.0]]]).numpy().round(4))
    [[[1. 1. 1.]]]
    """
    return _mix(images, _FROM_YIQ)


def rgb_to_yuv(images: TensorLike) -> Tensor:
    """Red, green, blue to luma and two chroma axes (PAL).

    >>> print(tf.image.rgb_to_yuv([[[1.0, 0.0, 0.0]]]).numpy().round(4))
    [[[ 0.299  -0.1471  0.615 ]]]
    """
    return _mix(images, _YUV)


def yuv_to_rgb(images: TensorLike) -> Tensor:
    """The inverse of `rgb_to_yuv`.

    >>> print(tf.image.yuv_to_rgb([[[1.0, 0.0, 0.0]]]).numpy().round(4))
    [[[1. 1. 1.]]]
    """
    return _mix(images, _FROM_YUV)


def rgb_to_grayscale(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert to grayscale (luma); one channel.

    >>> print(tf.image.rgb_to_grayscale([[[1.0, 0.0, 0.0]]]).numpy().round(4))
    [[[0.2989]]]
    """
    x = operand(images)
    return convert_image_dtype(_mix(convert_image_dtype(x, float32), _GRAY), x.dtype)


def grayscale_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Repeat one channel three times.

    >>> tf.image.grayscale_to_rgb([[[7]]]).numpy().tolist()
    [[[7, 7, 7]]]
    """
    x = operand(images)
    if not x.array.shape or x.array.shape[-1] != 1:
        raise ValueError("Last dimension of a grayscale image should be size 1.")
    result: Tensor = array.broadcast_to(x, shape=(*x.array.shape[:-1], 3))
    return result


def _colours(images: Any, op: str) -> tuple[Tensor, list[Tensor]]:
    x = tensor_or(images, float32, ("float16", "bfloat16", "float64"))
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype(op, x.dtype, "half, bfloat16, float, double")
    if not x.array.shape:
        raise errors.invalid_argument("input must be at least 1D[]", op)
    if x.array.shape[-1] != 3:
        raise errors.failed_precondition(
            f"input must have 3 channels but input only has {x.array.shape[-1]} channels.", op
        )
    return x, [_slice(x, ..., i) for i in range(3)]


def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Hue, saturation, value of colours in [0, 1].

    >>> tf.image.rgb_to_hsv([[[1.0, 0.5, 0.5]]]).numpy().ravel().tolist()
    [0.0, 0.5, 1.0]
    """
    x, _ = _colours(images, "RGBToHSV")
    result: Tensor = ops.rgb_to_hsv(x)
    return result


def _stacked(*channels: Tensor) -> Tensor:
    result: Tensor = array.stack(*channels, axis=len(channels[0].array.shape))
    return result


def _unit(x: Tensor) -> Tensor:
    result: Tensor = math.minimum(math.maximum(x, 0), 1)
    return result


def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """The inverse of `rgb_to_hsv`.

    >>> print(tf.image.hsv_to_rgb([[[0.0, 1.0, 1.0]]]).numpy().round(4))
    [[[1. 0. 0.]]]
    """
    _, (h, s, v) = _colours(images, "HSVToRGB")
    turn = h * 6
    pure = (
        _unit(math.absolute(turn - 3) - 1),
        _unit(2 - math.absolute(turn - 2)),
        _unit(2 - math.absolute(turn - 4)),
    )
    return _stacked(*(((p - 1) * s + 1) * v for p in pure))


# -- adjustments -----------------------------------------------------------------------------------------------------
def _adjusted(image: Any, change: Callable[[Tensor], Tensor], *kept: Any) -> Tensor:
    """Change an image as floating numbers, and give it its own dtype back."""
    x = operand(image)
    return convert_image_dtype(change(_floating(x, *kept)), x.dtype, saturate=True)


def adjust_brightness(image: TensorLike, delta: TensorLike) -> Tensor:
    """Add `delta` to every pixel; integer images are converted to [0, 1] and back.

    >>> print(tf.image.adjust_brightness([[[0.1, 0.2, 0.3]]], 0.5).numpy().round(4))
    [[[0.6 0.7 0.8]]]
    """
    return _adjusted(image, lambda x: x + cast(operand(delta), x.dtype))


def adjust_contrast(images: TensorLike, contrast_factor: Any) -> Tensor:
    """Scale the difference of every pixel from the mean of its channel.

    >>> print(tf.image.adjust_contrast([[[0.0], [1.0]]], 0.5)[0, :, 0].numpy().round(4))
    [0.25 0.75]
    """
    _for_kernel(images, "AdjustContrastv2")

    def change(x: Tensor) -> Tensor:
        mean = _mean(x, -3, -2, keepdims=True)
        factor = _one_number(contrast_factor, x.dtype, "AdjustContrastv2", "contrast_factor")
        changed: Tensor = (x - mean) * factor + mean
        return changed

    return _adjusted(images, change)


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """gain * image ** gamma.

    >>> print(tf.image.adjust_gamma([[[0.5]]], gamma=2.0).numpy().round(4))
    [[[0.25]]]
    """
    gamma = gamma if is_library(gamma) else plain_number(gamma, "gamma")
    if is_library(gamma) and operand(gamma).dtype.name != "float32":
        kind = TypeError if operand(gamma).array.dtype.kind in "bO" else ValueError
        raise kind(f"Expected a float32 number for argument 'gamma', but got {gamma!r}.")
    _require(gamma >= 0, "Gamma should be a non-negative real number.")

    def change(x: Tensor) -> Tensor:
        power = math.power(x, cast(operand(gamma), x.dtype))
        return _one_number(gain, x.dtype, "Mul", "gain") * power

    return _adjusted(image, change)


def adjust_hue(image: TensorLike, delta: TensorLike, name: str | None = None) -> Tensor:
    """Shift the hue by a fraction of the colour wheel.

    >>> print(tf.image.adjust_hue([[[1.0, 0.0, 0.0]]], 0.5).numpy().round(4))
    [[[0. 1. 1.]]]
    """
    if not is_library(delta) and (plain_number(delta, "delta") < -1 or plain_number(delta, "delta") > 1):
        raise ValueError("delta must be in the interval [-1, 1]")
    if is_library(delta) and (operand(delta).dtype.name != "float32" or operand(delta).array.shape):
        raise errors.invalid_argument(f"delta must be a float32 scalar: {delta!r}", "AdjustHue")
    _for_kernel(image, "AdjustHue", channels=3)

    def change(x: Tensor) -> Tensor:
        hsv = rgb_to_hsv(x)
        hue = _slice(hsv, ..., 0) + cast(operand(delta), x.dtype)
        hue = hue - math.floor(hue)
        return hsv_to_rgb(_stacked(hue, _slice(hsv, ..., 1), _slice(hsv, ..., 2)))

    return _adjusted(image, change)


def adjust_saturation(image: TensorLike, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Scale the saturation.

    >>> print(tf.image.adjust_saturation([[[1.0, 0.5, 0.5]]], 0.0).numpy().round(4))
    [[[1. 1. 1.]]]
    """
    _for_kernel(image, "AdjustSaturation", channels=3)

    def change(x: Tensor) -> Tensor:
        hsv = rgb_to_hsv(x)
        saturation = _unit(
            _slice(hsv, ..., 1) * _one_number(saturation_factor, x.dtype, "AdjustSaturation", "saturation_factor")
        )
        return hsv_to_rgb(_stacked(_slice(hsv, ..., 0), saturation, _slice(hsv, ..., 2)))

    return _adjusted(image, change)


def adjust_jpeg_quality(image: TensorLike, jpeg_quality: Any, dct_method: str = "", name: str | None = None) -> Tensor:
    """The image after JPEG compression and decompression (needs Pillow).

    >>> image = tf.zeros([8, 8, 3], tf.uint8)
    >>> tf.image.adjust_jpeg_quality(image, 50).shape
    TensorShape([8, 8, 3])
    """
    x = operand(image)
    if len(x.array.shape) != 3:
        raise errors.invalid_argument(
            f"image must be 3-dimensional{errors.brackets(x.array.shape)}", "EncodeJpegVariableQuality"
        )
    spec = TensorSpec(x.shape, x.dtype)
    pressed = _by_host(lambda i, q: [adjust_jpeg_quality(i, q, dct_method)], [x, jpeg_quality], [spec])
    if pressed is not None:
        return pressed[0]
    channels = x.array.shape[-1]
    encoded = _io.encode_jpeg(convert_image_dtype(x, "uint8", saturate=True), quality=_quality(jpeg_quality))
    return convert_image_dtype(_io.decode_jpeg(encoded, channels=channels), x.dtype, saturate=True)


def _quality(given: Any) -> int:
    found = integer(given, "EncodeJpegVariableQuality", fixed=True)
    if not 0 <= found <= 100:
        raise errors.invalid_argument(f"quality must be in [0,100], got {found}", "EncodeJpegVariableQuality")
    return found


def per_image_standardization(image: TensorLike) -> Tensor:
    """Scale each image to mean 0 and variance 1; the divisor is at least 1/sqrt(number of pixels).

    >>> print(tf.image.per_image_standardization([[[1.0], [3.0]]]).numpy().round(4))
    [[[-1.]
      [ 1.]]]
    """
    x = _floating(_image(image), float32)
    count = _math.prod(x.array.shape[-3:])
    centred = x - _mean(x, -1, -2, -3, keepdims=True)
    deviation = math.sqrt(_mean(math.square(centred), -1, -2, -3, keepdims=True))
    result: Tensor = centred / math.maximum(deviation, 1 / _math.sqrt(max(count, 1)))
    return result


# -- measures --------------------------------------------------------------------------------------------------------
def total_variation(images: TensorLike, name: str | None = None) -> Tensor:
    """The sum of the differences between neighbouring pixels, for each image.

    >>> tf.image.total_variation([[[0.0], [1.0]], [[1.0], [3.0]]]).numpy().item()
    6.0
    """
    x = operand(images)
    if len(x.array.shape) not in (3, 4):
        raise ValueError("'images' must be either 3 or 4-dimensional.")
    every = slice(None)
    down = _slice(x, ..., slice(1, None), every, every) - _slice(x, ..., slice(None, -1), every, every)
    across = _slice(x, ..., slice(1, None), slice(None)) - _slice(x, ..., slice(None, -1), slice(None))
    return _sum(math.absolute(down), -1, -2, -3) + _sum(math.absolute(across), -1, -2, -3)


def image_gradients(image: TensorLike) -> tuple[Tensor, Tensor]:
    """Differences to the pixel below and to the pixel on the right; zeros in the last row and column.

    >>> dy, dx = tf.image.image_gradients(tf.reshape([0.0, 1.0, 4.0, 9.0], [1, 2, 2, 1]))
    >>> dy[0, :, :, 0].numpy().tolist(), dx[0, :, :, 0].numpy().tolist()
    ([[4.0, 8.0], [0.0, 0.0]], [[1.0, 0.0], [5.0, 0.0]])
    """
    x = operand(image)
    if len(x.array.shape) != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {x.shape}.")
    dy = _slice(x, slice(None), slice(1, None)) - _slice(x, slice(None), slice(None, -1))
    dx = _slice(x, slice(None), slice(None), slice(1, None)) - _slice(x, slice(None), slice(None), slice(None, -1))
    return (
        array.pad(dy, before=(0, 0, 0, 0), after=(0, 1, 0, 0)),
        array.pad(dx, before=(0, 0, 0, 0), after=(0, 0, 1, 0)),
    )


def _reflected(x: Tensor, axis: int) -> Tensor:
    """One more row at both ends, a mirror image that does not repeat the border."""
    n = x.array.shape[axis]
    before = (slice(None),) * axis
    inner = min(1, n - 1)
    first, last = _slice(x, *before, slice(inner, inner + 1)), _slice(x, *before, slice(n - 1 - inner, n - inner))
    result: Tensor = array.concatenate(first, x, last, axis=axis)
    return result


def sobel_edges(image: TensorLike) -> Tensor:
    """Sobel's edge filters, vertical and horizontal, behind each channel: [batch, height, width, channels, 2].

    >>> image = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    >>> tf.image.sobel_edges(image)[0, 1, 1, 0].numpy().tolist()
    [24.0, 8.0]
    """
    x = operand(image)
    if len(x.array.shape) != 4:
        raise ValueError(f"sobel_edges expects a 4D tensor [batch_size, h, w, d], not {x.shape}.")
    padded = _reflected(_reflected(x, 1), 2)
    height, width = x.array.shape[1:3]

    def weighed(t: Tensor, axis: int, weights: tuple[int, int, int]) -> Tensor:
        size = height if axis == 1 else width
        parts = [(_slice(t, *(slice(None),) * axis, slice(i, i + size)), w) for i, w in enumerate(weights) if w]
        total = parts[0][0] * parts[0][1]
        for part, w in parts[1:]:
            total = total + part * w
        return total

    dy = weighed(weighed(padded, 1, (-1, 0, 1)), 2, (1, 2, 1))
    dx = weighed(weighed(padded, 1, (1, 2, 1)), 2, (-1, 0, 1))
    return _stacked(dy, dx)


def psnr(a: TensorLike, b: TensorLike, max_val: Any, name: str | None = None) -> Tensor:
    """The peak signal-to-noise ratio in decibels, over the last three axes.

    >>> print(tf.image.psnr(tf.zeros([2, 2, 1]), tf.fill([2, 2, 1], 0.1), max_val=1.0).numpy().round(4))
    20.0
    """
    first, second = operand(a), operand(b)
    peak = convert_image_dtype(cast(operand(max_val), first.dtype), float32)
    first, second = convert_image_dtype(first, float32), convert_image_dtype(second, float32)
    squares = math.squared_difference(first, second)
    if squares.array.ndim < 3:
        raise errors.invalid_argument(
            f"Invalid reduction dimension (-3 for input with {squares.array.ndim} dimension(s)", "Mean"
        )
    error = _mean(squares, -3, -2, -1)
    _same_shapes(first, second)
    decibels = 10 / _math.log(10)
    result: Tensor = 2 * decibels * math.log(peak) - decibels * math.log(error)
    return result


def _same_shapes(a: Tensor, b: Tensor) -> None:
    if len(a.array.shape) < 3:
        raise ValueError(f"Images must have at least 3 dimensions, got shape {a.shape}")
    try:
        np.broadcast_shapes(a.array.shape[:-3], b.array.shape[:-3])
        fits = a.array.shape[-3:] == b.array.shape[-3:]
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"Shapes {a.shape} and {b.shape} are incompatible")


def _gauss(size: int, sigma: float) -> Any:
    at = np.arange(size) - (size - 1) / 2
    weights = np.exp(-at * at / (2 * sigma * sigma))
    return weights / weights.sum()


def _band(n: int, weights: Any) -> Any:
    """The matrix that slides weights over an axis of length n, where they fit."""
    size = len(weights)
    result = np.zeros((n - size + 1, n))
    for i, w in enumerate(weights):
        result[np.arange(n - size + 1), np.arange(n - size + 1) + i] = w
    return result


def _ssim_parts(
    x: Tensor, y: Tensor, max_val: Tensor, filter_size: int, filter_sigma: float, k1: float, k2: float
) -> tuple[Tensor, Tensor]:
    """The maps of similarity, and of contrast and structure alone, for [batch, height, width, channels]."""
    height, width = x.array.shape[1:3]
    if height < filter_size or width < filter_size:
        raise errors.invalid_argument(
            f"Expected an image of at least {filter_size} x {filter_size} pixels (filter_size), got {height} x {width}",
            "Assert",
        )
    weights = _gauss(filter_size, filter_sigma)
    rows, columns = _constant(_band(height, weights), x), _constant(_band(width, weights), x)

    def blurred(t: Tensor) -> Tensor:
        tall: Tensor = linalg.einsum(t, rows, equation="bhwc,oh->bowc")
        result: Tensor = linalg.einsum(tall, columns, equation="bowc,pw->bopc")
        return result

    c1, c2 = math.square(k1 * max_val), math.square(k2 * max_val)
    mean_x, mean_y = blurred(x), blurred(y)
    cross, squares = mean_x * mean_y * 2, math.square(mean_x) + math.square(mean_y)
    luminance = (cross + c1) / (squares + c1)
    both, power = blurred(x * y) * 2, blurred(math.square(x) + math.square(y))
    structure = (both - cross + c2) / (power - squares + c2)
    return luminance * structure, structure


def _pair(img1: Any, img2: Any, max_val: Any) -> tuple[Tensor, Tensor, Tensor, tuple[int, ...]]:
    """Two images as float32 [batch, height, width, channels], the largest value, and the shape before that."""
    a, b = operand(img1), operand(img2)
    peak = convert_image_dtype(cast(operand(max_val), a.dtype), float32)
    a, b = convert_image_dtype(a, float32), convert_image_dtype(b, float32)
    _same_shapes(a, b)
    lead = np.broadcast_shapes(a.array.shape[:-3], b.array.shape[:-3])
    last = a.array.shape[-3:]
    a, b = (array.reshape(array.broadcast_to(t, shape=(*lead, *last)), shape=(_math.prod(lead), *last)) for t in (a, b))
    return a, b, peak, tuple(lead)


def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: Any = 11,
    filter_sigma: Any = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
    return_index_map: bool = False,
) -> Tensor:
    """The structural similarity of images: 1 for equal ones. [...] or, with `return_index_map`, a map of it.

    >>> image = tf.random.stateless_uniform([16, 16, 1], seed=[1, 2])
    >>> print(tf.image.ssim(image, image, max_val=1.0).numpy().round(4))
    1.0
    """
    a, b, peak, lead = _pair(img1, img2, max_val)
    found, _ = _ssim_parts(a, b, peak, _window(filter_size), _sigma(filter_sigma), k1, k2)
    found = _mean(found, -1)
    if not return_index_map:
        found = _mean(found, -1, -2)
    result: Tensor = array.reshape(found, shape=(*lead, *found.array.shape[1:]))
    return result


def _window(filter_size: Any) -> int:
    size = integer(filter_size, "Range", fixed=True)
    if size < 1:
        raise errors.invalid_argument(f"filter_size must be positive, got {size}", "Range")
    return size


def _sigma(filter_sigma: Any) -> float:
    return float(np.asarray(static(scalar_operand(filter_sigma, float32, "Mul", "filter_sigma"))))


_SCALES = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Any = _SCALES,
    filter_size: Any = 11,
    filter_sigma: Any = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """The structural similarity over several scales, each half the size of the one before.

    >>> image = tf.random.stateless_uniform([192, 192, 1], seed=[1, 2])
    >>> print(tf.image.ssim_multiscale(image, image, max_val=1.0).numpy().round(4))
    1.0
    """
    a, b, peak, lead = _pair(img1, img2, max_val)
    factors = [float(f) for f in static(power_factors)]
    scores: list[Tensor] = []
    for level in range(len(factors)):
        if level:
            a, b = _halved(a), _halved(b)
        whole, structure = _ssim_parts(a, b, peak, integer(filter_size), float(static(filter_sigma)), k1, k2)
        used = whole if level == len(factors) - 1 else structure
        scores.append(math.relu(_mean(used, 1, 2)))
    total = math.power(scores[0], _constant(factors[0], a))
    for score, factor in zip(scores[1:], factors[1:], strict=True):
        total = total * math.power(score, _constant(factor, a))
    result: Tensor = array.reshape(_mean(total, -1), shape=lead)
    return result


def _halved(x: Tensor) -> Tensor:
    """Means of 2 x 2 pixels; a row or column that is left over counts twice."""
    for axis in (1, 2):
        n = x.array.shape[axis]
        if n % 2:
            last = _slice(x, *(slice(None),) * axis, slice(n - 1, n))
            x = array.concatenate(x, last, axis=axis)
    batch, height, width, channels = x.array.shape
    blocks = array.reshape(x, shape=(batch, height // 2, 2, width // 2, 2, channels))
    return _mean(blocks, 2, 4)


# -- patches ---------------------------------------------------------------------------------------------------------
def extract_patches(
    images: TensorLike, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Tensor:
    """Windows of images, each laid out along the channels.

    >>> image = [[[[1.0], [2.0]], [[3.0], [4.0]]]]
    >>> tf.image.extract_patches(image, [1, 2, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1], "VALID").numpy().ravel().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    x = operand(images)
    padding = allowed_text(padding, "padding", ("SAME", "VALID"), "ExtractImagePatches")
    if len(x.array.shape) != 4:
        shape = errors.brackets(x.array.shape)
        raise errors.invalid_argument(f"input must be 4-dimensional{shape}", "ExtractImagePatches")
    (_, kh, kw, _), (_, sh, sw, _), (_, rh, rw, _) = (
        _four(v, word) for word, v in (("ksizes", sizes), ("strides", strides), ("rates", rates))
    )
    h, w = x.array.shape[1:3]
    reach_h, reach_w = (kh - 1) * rh + 1, (kw - 1) * rw + 1
    if padding == "SAME":
        out_h, out_w = -(-h // sh), -(-w // sw)
        add_h, add_w = max((out_h - 1) * sh + reach_h - h, 0), max((out_w - 1) * sw + reach_w - w, 0)
        x = array.pad(x, before=(0, add_h // 2, add_w // 2, 0), after=(0, add_h - add_h // 2, add_w - add_w // 2, 0))
    else:
        for size, reach, step in ((h, reach_h, sh), (w, reach_w, sw)):
            if size - reach + step <= -step:
                raise errors.invalid_argument(
                    f"Computed output size would be negative: [input_size: {size}, effective_filter_size: {reach}, "
                    f"stride: {step}]",
                    "ExtractImagePatches",
                )
        out_h, out_w = max((h - reach_h) // sh + 1, 0), max((w - reach_w) // sw + 1, 0)
    parts = []
    for i in range(kh):
        for j in range(kw):
            top, left = i * rh, j * rw
            rows = slice(top, top + (out_h - 1) * sh + 1 if out_h else top, sh)
            columns = slice(left, left + (out_w - 1) * sw + 1 if out_w else left, sw)
            parts.append(_slice(x, slice(None), rows, columns))
    result: Tensor = array.concatenate(*parts, axis=3)
    return result


def _four(value: Any, name: str) -> list[int]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{name}' argument to 'extract_image_patches' Op, not {value!r}.")
    found = [as_int(v, name) for v in value]
    if len(found) != 4 or found[0] != 1 or found[3] != 1 or min(found) < 1:
        raise errors.invalid_argument(
            f"{name} must be [1, rows, columns, 1] with positive numbers, got {value}", "ExtractImagePatches"
        )
    return found


# -- augmentation: the same, with numbers drawn ----------------------------------------------------------------------
Draw = Callable[..., Tensor]


def _stateful(seed: Any) -> Draw:
    return lambda shape, low, high, dtype=float32: _random.uniform(shape, low, high, dtype=dtype, seed=seed)


def _stateless(seed: Any) -> Draw:
    return lambda shape, low, high, dtype=float32: _random.stateless_uniform(shape, seed, low, high, dtype=dtype)


def _picture(image: Any) -> Tensor:
    """An image of numbers; checked before any number is drawn for it."""
    x = operand(image)
    if not (x.dtype.is_floating or x.dtype.is_integer):
        raise AttributeError("image dtype must be either floating point or integer")
    return x


def _random_brightness(image: Any, max_delta: float, draw: Draw) -> Tensor:
    if is_known(max_delta) and plain_number(max_delta, "max_delta") < 0:
        raise ValueError("max_delta must be non-negative.")
    _picture(image)
    return adjust_brightness(image, draw([], -max_delta, max_delta))


def _random_contrast(image: Any, lower: float, upper: float, draw: Draw) -> Tensor:
    _bounds(lower, upper)
    _image(_picture(image))
    return adjust_contrast(image, draw([], lower, upper))


def _random_saturation(image: Any, lower: float, upper: float, draw: Draw) -> Tensor:
    _bounds(lower, upper)
    _for_kernel(_picture(image), "AdjustSaturation", channels=3)
    return adjust_saturation(image, draw([], lower, upper))


def _bounds(lower: float, upper: float) -> None:
    if not (is_known(lower) and is_known(upper)):
        return
    low, high = plain_number(lower, "lower"), plain_number(upper, "upper")
    if high <= low:
        raise ValueError("upper must be > lower.")
    if low < 0:
        raise ValueError("lower must be non-negative.")


def _random_hue(image: Any, max_delta: float, draw: Draw) -> Tensor:
    limit = plain_number(max_delta, "max_delta") if is_known(max_delta) else 0.0
    if limit > 0.5:
        raise ValueError("max_delta must be <= 0.5.")
    if limit < 0:
        raise ValueError("max_delta must be non-negative.")
    _for_kernel(_picture(image), "AdjustHue", channels=3)
    return adjust_hue(image, draw([], -max_delta, max_delta))


def _random_flip(image: Any, axis: int, draw: Draw) -> Tensor:
    x = _one_or_batch(image)
    result: Tensor
    if len(x.array.shape) == 3:
        result = math.where(draw([], 0, 1.0) < 0.5, _flipped(x, axis), x)
        return result
    result = math.where(draw([x.array.shape[0], 1, 1, 1], 0, 1.0) > 0.5, _flipped(x, axis), x)
    return result


def _random_crop(value: Any, size: Any, draw: Draw) -> Tensor:
    x = operand(value)
    wanted, have = shape_of(size), x.array.shape
    if len(wanted) != len(have) or any(n > h for n, h in zip(wanted, have, strict=True)):
        raise errors.invalid_argument(f"Need value.shape >= size, got  {list(have)} and {list(wanted)}", "Assert")
    room = np.subtract(have, wanted).astype(np.int32) + 1
    starts = draw([len(have)], 0, 2**31 - 1, "int32") % room
    if is_known(starts):
        return _slice(x, *(slice(s, s + n) for s, n in zip(np.asarray(starts).tolist(), wanted, strict=True)))
    for axis, n in enumerate(wanted):
        x = index.take(x, starts[axis] + np.arange(n, dtype=np.int32), axis=axis, batch_dims=0)
    return x


def random_brightness(image: TensorLike, max_delta: float, seed: Any = None) -> Tensor:
    """`adjust_brightness` by a number in [-max_delta, max_delta).

    >>> image = tf.zeros([2, 2, 3])
    >>> brighter = tf.image.random_brightness(image, 0.2)
    >>> bool(tf.reduce_all(tf.abs(brighter - image) <= 0.2))
    True
    """
    return _random_brightness(image, max_delta, _stateful(seed))


def stateless_random_brightness(image: TensorLike, max_delta: float, seed: Any) -> Tensor:
    """`random_brightness` that depends on `seed` alone.

    >>> a, b = (tf.image.stateless_random_brightness([[[0.5]]], 0.2, seed=(1, 2)) for _ in range(2))
    >>> bool(a == b)
    True
    """
    return _random_brightness(image, max_delta, _stateless(seed))


def random_contrast(image: TensorLike, lower: float, upper: float, seed: Any = None) -> Tensor:
    """`adjust_contrast` by a number in [lower, upper).

    >>> tf.image.random_contrast(tf.ones([2, 2, 3]), 0.5, 1.5).shape
    TensorShape([2, 2, 3])
    """
    return _random_contrast(image, lower, upper, _stateful(seed))


def stateless_random_contrast(image: TensorLike, lower: float, upper: float, seed: Any) -> Tensor:
    """`random_contrast` that depends on `seed` alone.

    >>> tf.image.stateless_random_contrast(tf.ones([2, 2, 3]), 0.5, 1.5, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return _random_contrast(image, lower, upper, _stateless(seed))


def random_saturation(image: TensorLike, lower: float, upper: float, seed: Any = None) -> Tensor:
    """`adjust_saturation` by a number in [lower, upper).

    >>> tf.image.random_saturation(tf.ones([2, 2, 3]), 0.5, 1.5).shape
    TensorShape([2, 2, 3])
    """
    return _random_saturation(image, lower, upper, _stateful(seed))


def stateless_random_saturation(image: TensorLike, lower: float, upper: float, seed: Any = None) -> Tensor:
    """`random_saturation` that depends on `seed` alone.

    >>> tf.image.stateless_random_saturation(tf.ones([2, 2, 3]), 0.5, 1.5, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return _random_saturation(image, lower, upper, _stateless(seed))


def random_hue(image: TensorLike, max_delta: float, seed: Any = None) -> Tensor:
    """`adjust_hue` by a number in [-max_delta, max_delta).

    >>> tf.image.random_hue(tf.ones([2, 2, 3]), 0.1).shape
    TensorShape([2, 2, 3])
    """
    return _random_hue(image, max_delta, _stateful(seed))


def stateless_random_hue(image: TensorLike, max_delta: float, seed: Any) -> Tensor:
    """`random_hue` that depends on `seed` alone.

    >>> tf.image.stateless_random_hue(tf.ones([2, 2, 3]), 0.1, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return _random_hue(image, max_delta, _stateless(seed))


def random_flip_left_right(image: TensorLike, seed: Any = None) -> Tensor:
    """Mirror each image along its width, or not.

    >>> row = tf.image.random_flip_left_right([[[1], [2]]])[0, :, 0].numpy().tolist()
    >>> row in ([1, 2], [2, 1])
    True
    """
    return _random_flip(image, -2, _stateful(seed))


def stateless_random_flip_left_right(image: TensorLike, seed: Any) -> Tensor:
    """`random_flip_left_right` that depends on `seed` alone.

    >>> flips = {tf.image.stateless_random_flip_left_right([[[1], [2]]], (1, 2)).numpy().tobytes() for _ in range(5)}
    >>> len(flips)
    1
    """
    return _random_flip(image, -2, _stateless(seed))


def random_flip_up_down(image: TensorLike, seed: Any = None) -> Tensor:
    """Mirror each image along its height, or not.

    >>> column = tf.image.random_flip_up_down([[[1]], [[2]]])[:, 0, 0].numpy().tolist()
    >>> column in ([1, 2], [2, 1])
    True
    """
    return _random_flip(image, -3, _stateful(seed))


def stateless_random_flip_up_down(image: TensorLike, seed: Any) -> Tensor:
    """`random_flip_up_down` that depends on `seed` alone.

    >>> flips = {tf.image.stateless_random_flip_up_down([[[1]], [[2]]], (1, 2)).numpy().tobytes() for _ in range(5)}
    >>> len(flips)
    1
    """
    return _random_flip(image, -3, _stateless(seed))


def random_crop(value: TensorLike, size: Any, seed: Any = None, name: str | None = None) -> Tensor:
    """Crop a tensor to a size at a random position.

    >>> tf.image.random_crop([[1, 2], [3, 4]], [1, 2]).shape
    TensorShape([1, 2])
    """
    return _random_crop(value, size, _stateful(seed))


def stateless_random_crop(value: TensorLike, size: Any, seed: Any, name: str | None = None) -> Tensor:
    """`random_crop` that depends on `seed` alone.

    >>> tf.image.stateless_random_crop(tf.ones([8, 8, 3]), [4, 4, 3], seed=(1, 2)).shape
    TensorShape([4, 4, 3])
    """
    return _random_crop(value, size, _stateless(seed))


def random_jpeg_quality(image: TensorLike, min_jpeg_quality: Any, max_jpeg_quality: Any, seed: Any = None) -> Tensor:
    """`adjust_jpeg_quality` with a random quality (needs Pillow).

    >>> tf.image.random_jpeg_quality(tf.zeros([8, 8, 3], tf.uint8), 50, 90).shape
    TensorShape([8, 8, 3])
    """
    return _random_quality(image, integer(min_jpeg_quality), integer(max_jpeg_quality), _stateful(seed))


def stateless_random_jpeg_quality(image: TensorLike, min_jpeg_quality: Any, max_jpeg_quality: Any, seed: Any) -> Tensor:
    """`random_jpeg_quality` that depends on `seed` alone.

    >>> tf.image.stateless_random_jpeg_quality(tf.zeros([8, 8, 3], tf.uint8), 50, 90, seed=(1, 2)).shape
    TensorShape([8, 8, 3])
    """
    return _random_quality(image, integer(min_jpeg_quality), integer(max_jpeg_quality), _stateless(seed))


def _random_quality(image: Any, low: int, high: int, draw: Draw) -> Tensor:
    if low < 0 or high < 0 or low > 100 or high > 100:
        raise ValueError("jpeg encoding range must be between 0 and 100.")
    if low >= high:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    return adjust_jpeg_quality(image, draw([], low, high, "int32"))


def _by_host(function: Callable[..., list[Tensor]], inputs: list[Any], specs: list[TensorSpec]) -> Any:
    """The results of a function without derivatives that looks at numbers, where a program calls back for them."""
    tensors = [operand(value) for value in inputs]
    if all(map(is_known, tensors)):
        return None
    from gradtape._src.graph.host_calls import function_on_host

    return function_on_host(function, tensors, specs, differentiable=False, pure=True)


# -- boxes -----------------------------------------------------------------------------------------------------------
def _overlap(boxes: Any, one: Any) -> Any:
    """Intersection over union of boxes [n, 4] with one box; corners in any order."""
    y1, y2 = np.minimum(boxes[:, 0], boxes[:, 2]), np.maximum(boxes[:, 0], boxes[:, 2])
    x1, x2 = np.minimum(boxes[:, 1], boxes[:, 3]), np.maximum(boxes[:, 1], boxes[:, 3])
    a1, a2 = min(one[0], one[2]), max(one[0], one[2])
    b1, b2 = min(one[1], one[3]), max(one[1], one[3])
    common = np.maximum(np.minimum(y2, a2) - np.maximum(y1, a1), 0) * np.maximum(
        np.minimum(x2, b2) - np.maximum(x1, b1), 0
    )
    areas, area = (y2 - y1) * (x2 - x1), (a2 - a1) * (b2 - b1)
    union = areas + area - common
    return np.where((areas > 0) & (area > 0), common / np.where(union > 0, union, 1), 0)


def _suppress(
    scores: Any,
    overlap: Callable[[int, Any], Any],
    wanted: int,
    threshold: float,
    score_threshold: float,
    sigma: float = 0.0,
) -> tuple[list[int], list[float]]:
    """Take the best, drop (or, with sigma, weaken) what overlaps with it, and so on."""
    scores = np.array(scores, np.float64)
    alive = scores > score_threshold
    chosen: list[int] = []
    found: list[float] = []
    while len(chosen) < wanted and np.any(alive):
        best = int(np.argmax(np.where(alive, scores, -np.inf)))
        chosen.append(best)
        found.append(float(scores[best]))
        alive[best] = False
        rest = np.flatnonzero(alive)
        shared = overlap(best, rest)
        if sigma > 0:
            scores[rest] *= np.exp(-0.5 * shared * shared / sigma)
            alive[rest[scores[rest] <= score_threshold]] = False
        else:
            alive[rest[shared > threshold]] = False
    return chosen, found


def _boxes(boxes: Any, scores: Any) -> tuple[Any, Any]:
    if not (is_known(operand(boxes)) and is_known(operand(scores))):
        raise unknown_shape(
            "tf.image.non_max_suppression",
            "Use tf.image.non_max_suppression_padded with pad_to_max_output_size=True.",
            "NonMaxSuppressionV3",
        )
    given = [operand(value, None if is_library(value) else float32) for value in (boxes, scores)]
    if given[0].dtype != given[1].dtype or given[0].dtype.name not in ("float16", "float32"):
        raise errors.unsupported_dtype("NonMaxSuppressionV3", given[1].dtype, "half, float")
    places, values = (np.asarray(tensor.array) for tensor in given)
    if places.ndim != 2 or places.shape[1] != 4:
        got = places.shape[1] if places.ndim == 2 else places.ndim
        raise errors.invalid_argument(
            f"boxes must have 4 columns (Dimension must be 4 but is {got})", "NonMaxSuppressionV3"
        )
    if values.shape != places.shape[:1]:
        raise errors.invalid_argument(
            f"scores has incompatible shape {errors.brackets(values.shape)}", "NonMaxSuppressionV3"
        )
    return places.astype(np.float32), values


def non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """The indices of the best boxes, without those that overlap with a better one.

    >>> tf.image.non_max_suppression(
    ...     [[0.0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3]], [0.5, 0.9, 0.1], 3
    ... ).numpy().tolist()
    [1, 2]
    """
    chosen, _ = _non_max(boxes, scores, max_output_size, iou_threshold, score_threshold)
    return wrap(np.array(chosen, np.int32))


def _non_max(
    boxes: Any, scores: Any, max_output_size: Any, iou_threshold: Any, score_threshold: Any, sigma: float = 0.0
) -> tuple[list[int], list[float]]:
    places, values = _boxes(boxes, scores)
    threshold = _threshold(iou_threshold, "iou_threshold")
    if not 0 <= threshold <= 1:
        raise errors.invalid_argument("iou_threshold must be in [0, 1]", "NonMaxSuppressionV3")
    return _suppress(
        values,
        lambda best, rest: _overlap(places[rest], places[best]),
        _most(max_output_size, "NonMaxSuppressionV3"),
        threshold,
        _threshold(score_threshold, "score_threshold"),
        sigma,
    )


def _threshold(value: Any, name: str, op: str = "NonMaxSuppressionV3") -> float:
    x = operand(value)
    if x.dtype.name not in ("float32", "float16") and not isinstance(value, np.floating):
        raise errors.unsupported_dtype(op, x.dtype, "half, float", "T_threshold")
    if x.array.shape:
        raise errors.invalid_argument(f"{name} must be 0-D, got shape {errors.brackets(x.array.shape)}", op)
    return float(np.asarray(static(x)))


def _most(max_output_size: Any, op: str) -> int:
    found = integer(max_output_size, op, fixed=True)
    if found < 0:
        raise errors.invalid_argument(f"max_output_size must be non-negative, got {found}", op)
    return found


def non_max_suppression_with_scores(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    soft_nms_sigma: Any = 0.0,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """`non_max_suppression` with the scores; a positive sigma weakens overlapping boxes instead of dropping them.

    >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]]
    >>> indices, scores = tf.image.non_max_suppression_with_scores(boxes, [0.9, 0.7], 2, soft_nms_sigma=0.5)
    >>> indices.numpy().tolist(), scores.numpy().round(4).tolist()
    ([0, 1], [0.8999999761581421, 0.31139999628067017])
    """
    chosen, found = _non_max(boxes, scores, max_output_size, iou_threshold, score_threshold, _sigma_of(soft_nms_sigma))
    return wrap(np.array(chosen, np.int32)), wrap(np.array(found, np.float32))


def _sigma_of(soft_nms_sigma: Any) -> float:
    found = _threshold(soft_nms_sigma, "soft_nms_sigma", "NonMaxSuppressionV5")
    if not found >= 0:
        raise errors.invalid_argument(f"soft_nms_sigma must be non-negative, got {found}", "NonMaxSuppressionV5")
    return found


def non_max_suppression_overlaps(
    overlaps: Any,
    scores: TensorLike,
    max_output_size: Any,
    overlap_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    name: str | None = None,
) -> Tensor:
    """`non_max_suppression` with overlaps of any kind, given as a matrix.

    >>> overlaps = [[1.0, 0.8], [0.8, 1.0]]
    >>> tf.image.non_max_suppression_overlaps(overlaps, [0.9, 0.7], 2).numpy().tolist()
    [0]
    """
    if not (is_known(operand(overlaps)) and is_known(operand(scores))):
        raise unknown_shape("tf.image.non_max_suppression_overlaps", "Call it in tf.numpy_function, with a shape.")
    op = "NonMaxSuppressionWithOverlaps"
    table, marks = (same_dtype(value, float32, op, "an input") for value in (overlaps, scores))
    shared, values = np.asarray(table.array), np.asarray(marks.array)
    if shared.ndim != 2 or shared.shape[0] != shared.shape[1]:
        raise errors.invalid_argument(f"overlaps must be square, got shape {errors.brackets(shared.shape)}", op)
    if values.shape != shared.shape[:1]:
        raise errors.invalid_argument(f"scores has incompatible shape {errors.brackets(values.shape)}", op)
    chosen, _ = _suppress(
        values,
        lambda best, rest: shared[rest, best],
        _most(max_output_size, op),
        _threshold(overlap_threshold, "overlap_threshold", op),
        _threshold(score_threshold, "score_threshold", op),
    )
    return wrap(np.array(chosen, np.int32))


def non_max_suppression_padded(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_to_max_output_size: bool = False,
    name: str | None = None,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Tensor, Tensor]:
    """`non_max_suppression` and how many indices count; zeros fill up the rest. Boxes may be [..., n, 4].

    >>> boxes = [[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]]
    >>> indices, count = tf.image.non_max_suppression_padded(boxes, [0.9, 0.7], 2, pad_to_max_output_size=True)
    >>> indices.numpy().tolist(), count.numpy().item()
    ([0, 0], 1)
    """
    wanted, of_boxes = integer(max_output_size), operand(boxes).array.shape

    def suppressed(b: Any, s: Any) -> list[Tensor]:
        return list(non_max_suppression_padded(b, s, wanted, iou_threshold, score_threshold, pad_to_max_output_size))

    if pad_to_max_output_size:
        specs = [TensorSpec([*of_boxes[:-2], wanted], "int32"), TensorSpec(of_boxes[:-2], "int32")]
        results = _by_host(suppressed, [boxes, scores], specs)
        if results is not None:
            return results[0], results[1]
    elif not (is_known(operand(boxes)) and is_known(operand(scores))):
        _boxes(boxes, scores)  # says what to do
    places, values = np.asarray(operand(boxes).array), np.asarray(operand(scores).array)
    found = [
        _non_max(b, s, wanted, iou_threshold, score_threshold)[0]
        for b, s in zip(places.reshape(-1, *places.shape[-2:]), values.reshape(-1, values.shape[-1]), strict=True)
    ]
    counts = np.array([len(f) for f in found], np.int32)
    size = wanted if pad_to_max_output_size else int(counts.max(initial=0))
    padded = np.array([f + [0] * (size - len(f)) for f in found], np.int32).reshape(len(found), size)
    lead = places.shape[:-2]
    return wrap(padded.reshape(*lead, size)), wrap(counts.reshape(lead))


def _best_of_classes(
    boxes: np.ndarray, scores: np.ndarray, per_class: int, iou_threshold: Any, score_threshold: Any
) -> list[tuple[float, int, int]]:
    """The boxes of one image that are left in each class: score, class and number, the highest score first."""
    best: list[tuple[float, int, int]] = []
    for c in range(scores.shape[1]):
        of_class = boxes[:, c if boxes.shape[1] > 1 else 0]
        chosen, found = _non_max(of_class, scores[:, c], per_class, iou_threshold, score_threshold)
        best += [(score, c, at) for score, at in zip(found, chosen, strict=True)]
    return sorted(best, key=lambda entry: -entry[0])


class CombinedNonMaxSuppression(NamedTuple):
    """What `combined_non_max_suppression` returns, with TensorFlow's names."""

    nmsed_boxes: Tensor
    nmsed_scores: Tensor
    nmsed_classes: Tensor
    valid_detections: Tensor


def combined_non_max_suppression(
    boxes: TensorLike,
    scores: TensorLike,
    max_output_size_per_class: Any,
    max_total_size: Any,
    iou_threshold: Any = 0.5,
    score_threshold: Any = float("-inf"),
    pad_per_class: bool = False,
    clip_boxes: bool = True,
    name: str | None = None,
) -> CombinedNonMaxSuppression:
    """`non_max_suppression` of every class by itself, and the best of all: boxes, scores, classes, counts.

    boxes are [batch, n, 1 or classes, 4], scores [batch, n, classes].

    >>> boxes = tf.constant([[[[0.0, 0.0, 1.0, 1.0]], [[0.0, 0.0, 1.0, 0.9]]]])
    >>> scores = tf.constant([[[0.9], [0.8]]])
    >>> result = tf.image.combined_non_max_suppression(boxes, scores, 2, 2)
    >>> result.valid_detections.numpy().tolist()
    [1]
    >>> print(result.nmsed_scores.numpy().round(4))
    [[0.9 0. ]]
    """
    places, values = operand(boxes).array, operand(scores).array
    if places.ndim != 4 or values.ndim != 3 or places.shape[2] not in (1, values.shape[2]):
        raise errors.invalid_argument(
            "boxes must be [batch, boxes, 1 or classes, 4] and scores [batch, boxes, classes], got shapes "
            f"{errors.brackets(places.shape)} and {errors.brackets(values.shape)}",
            "CombinedNonMaxSuppression",
        )
    op, classes = "CombinedNonMaxSuppression", values.shape[2]
    per_class = integer(max_output_size_per_class, op, fixed=True)
    total = integer(max_total_size, op, fixed=True)
    for word, limit in (("max_size_per_class", per_class), ("max_total_size", total)):
        if limit < 1:
            raise errors.invalid_argument(f"{word} must be positive, got {limit}", op)
    for word, given in (("iou_threshold", iou_threshold), ("score_threshold", score_threshold)):
        scalar_operand(given, float32, op, word)
    size = min(total, per_class * classes) if pad_per_class else total
    batch = places.shape[0]

    def combined(b: Any, s: Any) -> list[Tensor]:
        limits = (max_output_size_per_class, max_total_size, iou_threshold, score_threshold)
        return list(combined_non_max_suppression(b, s, *limits, pad_per_class, clip_boxes))

    sizes = ([batch, size, 4], [batch, size], [batch, size])
    specs = [*[TensorSpec(shape, "float32") for shape in sizes], TensorSpec([batch], "int32")]
    results = _by_host(combined, [boxes, scores], specs)
    if results is not None:
        return CombinedNonMaxSuppression(*results)
    places, values = np.asarray(places), np.asarray(values)
    out_boxes, out_scores = np.zeros((batch, size, 4), np.float32), np.zeros((batch, size), np.float32)
    out_classes, counts = np.zeros((batch, size), np.float32), np.zeros(batch, np.int32)
    for i in range(batch):
        best = _best_of_classes(places[i], values[i], per_class, iou_threshold, score_threshold)[:size]
        counts[i] = len(best)
        for k, (score, c, at) in enumerate(best):
            box = places[i, at, c if places.shape[2] > 1 else 0]
            out_boxes[i, k] = np.clip(box, 0, 1) if clip_boxes else box
            out_scores[i, k], out_classes[i, k] = score, c
    return CombinedNonMaxSuppression(wrap(out_boxes), wrap(out_scores), wrap(out_classes), wrap(counts))


_COLOURS = np.array(
    [
        [1, 1, 0, 1],
        [0, 0, 1, 1],
        [1, 0, 0, 1],
        [0, 1, 0, 1],
        [0.5, 0, 0.5, 1],
        [0.5, 0.5, 0, 1],
        [0.5, 0, 0, 1],
        [0, 0, 0.5, 1],
        [0, 1, 1, 1],
        [1, 0, 1, 1],
    ]
)


def draw_bounding_boxes(images: TensorLike, boxes: TensorLike, colors: Any, name: str | None = None) -> Tensor:
    """Images with the outlines of boxes (y1, x1, y2, x2 in [0, 1]), in the given colours, or in ten default colours.

    >>> image = tf.image.draw_bounding_boxes(tf.zeros([1, 3, 3, 3]), [[[0.0, 0.0, 1.0, 1.0]]], [[1.0, 0.0, 0.0]])
    >>> image[0, :, :, 0].numpy().tolist()
    [[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]
    """
    given = [images, boxes] if colors is None else [images, boxes, colors]
    spec = TensorSpec(operand(images).shape, operand(images).dtype)
    drawn = _by_host(lambda i, b, *c: [draw_bounding_boxes(i, b, c[0] if c else None)], given, [spec])
    if drawn is not None:
        return drawn[0]
    pictures = np.array(operand(images).array)
    places = np.asarray(operand(boxes).array)
    if pictures.ndim != 4 or places.ndim != 3 or places.shape[2] != 4:
        raise errors.invalid_argument(
            f"images must be 4-dimensional and boxes [batch, boxes, 4], got shapes "
            f"{errors.brackets(pictures.shape)} and {errors.brackets(places.shape)}",
            "DrawBoundingBoxesV2",
        )
    palette = np.zeros((0, 4))
    if colors is not None:
        palette = np.asarray(same_dtype(colors, float32, "DrawBoundingBoxesV2", "colors").array)
        if palette.ndim != 2 or palette.shape[1] < pictures.shape[3]:
            raise errors.invalid_argument(
                f"colors must be a 2-D matrix with a number for each channel, got shape "
                f"{errors.brackets(palette.shape)}",
                "DrawBoundingBoxesV2",
            )
    if not palette.size:
        palette = _COLOURS.copy()
        if pictures.shape[3] == 1:
            palette[:] = 1
    for picture, listed in zip(pictures, places, strict=True):
        for i, box in enumerate(listed):
            _draw_box(picture, box, palette[i % len(palette)][: picture.shape[2]])
    return wrap(pictures)


def _draw_box(picture: np.ndarray, box: np.ndarray, colour: np.ndarray) -> None:
    """Draw the outline of one box into a picture, as far as it is inside."""
    height, width, _ = picture.shape
    top, left, bottom, right = (int(np.float32(at) * (n - 1)) for at, n in zip(box, (height, width) * 2, strict=True))
    if top > bottom or left > right or bottom < 0 or right < 0 or top >= height or left >= width:
        return
    rows = slice(max(top, 0), min(bottom, height - 1) + 1)
    columns = slice(max(left, 0), min(right, width - 1) + 1)
    for row in (top, bottom):
        if 0 <= row < height:
            picture[row, columns] = colour
    for column in (left, right):
        if 0 <= column < width:
            picture[rows, column] = colour


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
__all__ = [
    "ResizeMethod",
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_jpeg_quality",
    "adjust_saturation",
    "central_crop",
    "combined_non_max_suppression",
    "convert_image_dtype",
    "crop_and_resize",
    "crop_to_bounding_box",
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_image",
    "decode_jpeg",
    "decode_png",
    "decode_webp",
    "draw_bounding_boxes",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
    "extract_patches",
    "flip_left_right",
    "flip_up_down",
    "grayscale_to_rgb",
    "hsv_to_rgb",
    "image_gradients",
    "is_jpeg",
    "non_max_suppression",
    "non_max_suppression_overlaps",
    "non_max_suppression_padded",
    "non_max_suppression_with_scores",
    "pad_to_bounding_box",
    "per_image_standardization",
    "psnr",
    "random_brightness",
    "random_contrast",
    "random_crop",
    "random_flip_left_right",
    "random_flip_up_down",
    "random_hue",
    "random_jpeg_quality",
    "random_saturation",
    "resize",
    "resize_with_crop_or_pad",
    "resize_with_pad",
    "rgb_to_grayscale",
    "rgb_to_hsv",
    "rgb_to_yiq",
    "rgb_to_yuv",
    "rot90",
    "sobel_edges",
    "ssim",
    "ssim_multiscale",
    "stateless_random_brightness",
    "stateless_random_contrast",
    "stateless_random_crop",
    "stateless_random_flip_left_right",
    "stateless_random_flip_up_down",
    "stateless_random_hue",
    "stateless_random_jpeg_quality",
    "stateless_random_saturation",
    "total_variation",
    "transpose",
    "yiq_to_rgb",
    "yuv_to_rgb",
]


def __dir__() -> list[str]:
    return list(__all__)
