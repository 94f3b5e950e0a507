"""`tf.image`: cropping, padding, flipping, and patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import convert, converter_of, operand
from gradtape._src.ops import array, index, math
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import allowed_text, as_int, count_of, integer, plain_number
from gradtape._src.tf.image.arguments import (
    as_batch,
    image_or_batch,
    positive_axes,
    require,
    sliced,
    with_pixels,
    without_batch,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- cropping, padding, turning --------------------------------------------------------------------------------------
def crop_to_bounding_box(
    image: TensorLike, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Crop an image to a box.

    >>> image = tf.reshape(tf.range(9), [3, 3, 1])
    >>> tf.image.crop_to_bounding_box(image, 1, 1, 2, 2)[:, :, 0].numpy().tolist()
    [[4, 5], [7, 8]]
    """
    x, single = as_batch(image)
    top, left, height, width = _box(offset_height, offset_width, target_height, target_width)
    h, w = x.array.shape[1:3]
    require(left >= 0, "offset_width must be >= 0.")
    require(top >= 0, "offset_height must be >= 0.")
    require(width > 0, "target_width must be > 0.")
    require(height > 0, "target_height must be > 0.")
    require(w >= left + width, "width must be >= target + offset.")
    require(h >= top + height, "height must be >= target + offset.")
    for axis, start, size in ((1, top, integer(height)), (2, left, integer(width))):
        if isinstance(start, Tensor) and not is_known(start):
            x = index.take(x, start + np.arange(size).astype(start.array.dtype), axis=axis, batch_dims=0)
        else:
            first = integer(start)
            x = sliced(x, *[slice(None)] * axis, slice(first, first + size))
    return without_batch(x, single)


def pad_to_bounding_box(
    image: TensorLike, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Pad an image with zeros to a larger size.

    >>> tf.image.pad_to_bounding_box([[[5]]], 1, 0, 2, 2)[:, :, 0].numpy().tolist()
    [[0, 0], [5, 0]]
    """
    x, single = as_batch(image)
    with_pixels(x)
    top, left, height, width = _box(offset_height, offset_width, target_height, target_width)
    h, w = x.array.shape[1:3]
    bottom, right = height - top - h, width - left - w
    require(top >= 0, "offset_height must be >= 0")
    require(left >= 0, "offset_width must be >= 0")
    require(right >= 0, "width must be <= target - offset")
    require(bottom >= 0, "height must be <= target - offset")
    if all(map(is_known, (top, left))):
        top, left, bottom, right = map(integer, (top, left, bottom, right))
        if min(top, left, bottom, right) < 0:  # constants in a function: the program would reject them
            raise ValueError("Paddings must be non-negative")
        x = array.pad(x, before=(0, top, left, 0), after=(0, bottom, right, 0))
        return without_batch(x, single)
    for axis, start, size in ((1, top, integer(height)), (2, left, integer(width))):
        x = _placed(x, convert(start), size, axis)
    return without_batch(x, single)


_BOX = ("offset_height", "offset_width", "target_height", "target_width")


def _box(*numbers: Any) -> tuple[Any, ...]:
    """The numbers of a bounding box: ints, dimensions, or tensors whose values may be unknown."""
    return tuple(map(_comparable, numbers, _BOX))


def _comparable(value: Any, name: str) -> Any:
    """A number that can be compared: a tensor or dimension unchanged, a variable's value, or a real number."""
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
    """Pad a tensor with zeros to a size along an axis, at a position that only the program knows."""
    have, place = x.array.shape[axis], np.arange(size).astype(start.array.dtype) - start
    there = math.logical_and(math.greater_equal(place, 0), math.less(place, have))
    picked = index.take(x, math.minimum(math.maximum(place, 0), have - 1), axis=axis, batch_dims=0)
    shape = [1] * axis + [size] + [1] * (len(x.array.shape) - axis - 1)
    result: Tensor = math.where(array.reshape(there, shape=tuple(shape)), picked, np.zeros((), x.array.dtype))
    return result


def resize_with_crop_or_pad(image: TensorLike, target_height: Any, target_width: Any) -> Tensor:
    """Crop around the center, or pad with zeros, to a height and width.

    >>> tf.image.resize_with_crop_or_pad([[[1.0], [2.0], [3.0]]], 3, 1).numpy().ravel().tolist()
    [0.0, 2.0, 0.0]
    """
    x, single = as_batch(image)
    height, width = integer(target_height), integer(target_width)
    require(width > 0, "target_width must be > 0.")
    require(height > 0, "target_height must be > 0.")
    h, w = x.array.shape[1:3]
    cut_top, cut_left = (max((n - want) // 2, 0) for n, want in ((h, height), (w, width)))
    cropped = crop_to_bounding_box(x, cut_top, cut_left, min(height, h), min(width, w))
    padded = pad_to_bounding_box(cropped, max((height - h) // 2, 0), max((width - w) // 2, 0), height, width)
    return without_batch(padded, single)


def central_crop(image: TensorLike, central_fraction: Any) -> Tensor:
    """Crop an image to its central part.

    >>> tf.image.central_crop(tf.ones([4, 4, 1]), 0.5).shape
    TensorShape([2, 2, 1])
    """
    x, fraction = image_or_batch(image), plain_number(central_fraction, "central_fraction")
    if not 0 < fraction <= 1:
        raise ValueError("central_fraction must be within (0, 1]")
    if fraction == 1:
        return x
    top, left = (int((n - n * fraction) / 2) for n in x.array.shape[-3:-1])
    h, w = x.array.shape[-3:-1]
    return sliced(x, ..., slice(top, h - top), slice(left, w - left), slice(None))


def flip_left_right(image: TensorLike) -> Tensor:
    """Mirror images along their width.

    >>> tf.image.flip_left_right([[[1.0], [2.0]]]).numpy().ravel().tolist()
    [2.0, 1.0]
    """
    return flipped(image_or_batch(image), -2)


def flip_up_down(image: TensorLike) -> Tensor:
    """Mirror images along their height.

    >>> tf.image.flip_up_down([[[1], [2]], [[3], [4]]]).numpy().tolist()
    [[[3], [4]], [[1], [2]]]
    """
    return flipped(image_or_batch(image), -3)


def flipped(x: Tensor, axis: int) -> Tensor:
    result: Tensor = array.flip(x, axis=positive_axes(x, (axis,)))
    return result


def transpose(image: TensorLike, name: str | None = None) -> Tensor:
    """Swap height and width.

    >>> tf.image.transpose([[[1], [2], [3]]])[:, :, 0].numpy().tolist()
    [[1], [2], [3]]
    """
    x = image_or_batch(image)
    rank = len(x.array.shape)
    result: Tensor = array.transpose(x, perm=(*range(rank - 3), rank - 2, rank - 3, rank - 1))
    return result


def rot90(image: TensorLike, k: Any = 1, name: str | None = None) -> Tensor:
    """Rotate images by k times 90 degrees, counterclockwise.

    >>> tf.image.rot90([[[1], [2]], [[3], [4]]])[:, :, 0].numpy().tolist()
    [[2, 4], [1, 3]]
    """
    x, turns = image_or_batch(image), count_of(k, "k") % 4
    if turns == 0:
        return x
    if turns == 1:
        return flip_up_down(transpose(x))
    if turns == 2:
        return flip_left_right(flip_up_down(x))
    return transpose(flip_up_down(x))


# -- patches ---------------------------------------------------------------------------------------------------------
def extract_patches(
    images: TensorLike, sizes: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Tensor:
    """Extract windows of images, each flattened into the channels.

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
            parts.append(sliced(x, slice(None), rows, columns))
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
