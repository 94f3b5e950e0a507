"""`tf.image`: images of another size, and boxes of images at one size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import checked
from gradtape._src.conversion import array_from, is_library, operand
from gradtape._src.dtypes import float32
from gradtape._src.ops import array, image as ops, index, math
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import allowed_text, choice, integer, number, shape_of, static, truth
from gradtape._src.tf.array import cast
from gradtape._src.tf.image.arguments import as_batch, constant_like, sliced, without_batch
from gradtape._src.tf.image.cropping import pad_to_bounding_box

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


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
    """Resize images; the result is float32, except with nearest-neighbor interpolation, which keeps the dtype.

    >>> tf.image.resize([[[0.0], [4.0]]], [1, 4]).numpy().ravel().tolist()
    [0.0, 1.0, 3.0, 4.0]
    """
    x, single = as_batch(images, "images")
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
    return without_batch(x, single)


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
    x, single = as_batch(image)
    h, w = x.array.shape[1:3]
    ratio = max(np.float32(w) / np.float32(width), np.float32(h) / np.float32(height))
    tall, wide = (np.float32(n) / ratio for n in (h, w))
    # The margin is half of the difference to the exact size, not to the rounded one.
    top, left = (max(int(np.floor((np.float32(want) - n) / 2)), 0) for want, n in ((height, tall), (width, wide)))
    resized = resize(x, [int(np.floor(tall)), int(np.floor(wide))], method=method, antialias=antialias)
    return without_batch(pad_to_bounding_box(resized, top, left, height, width), single)


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
    """Crop images to boxes (y1, x1, y2, x2 in [0, 1]) and resize the crops; differentiable in images and boxes.

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
    """The positions of the rows (or columns) of each crop in the image: [boxes, wanted]."""
    low, high = (sliced(boxes, slice(None), slice(i, i + 1)) for i in (first, first + 2))
    if wanted == 1:
        return (low + high) * (0.5 * (size - 1))
    steps = constant_like(np.arange(wanted), boxes)
    return low * float(size - 1) + steps * ((high - low) * ((size - 1) / (wanted - 1)))


def _within(at: Tensor, size: int) -> Tensor:
    return (at >= 0) & (at <= size - 1)


def _neighbours(at: Tensor, size: int, method: str) -> list[tuple[Tensor, Tensor | None]]:
    """The rows (or columns) next to a position, with their weights."""

    def row(position: Tensor) -> Tensor:
        inside = math.minimum(math.maximum(position, 0), size - 1)
        result: Tensor = array.discrete_cast(inside, dtype=_INT64)
        return result

    if method == "nearest":
        return [(row(math.floor(at + 0.5)), None)]
    low = math.floor(at)
    part = at - low
    return [(row(low), 1 - part), (row(math.ceil(at)), part)]
