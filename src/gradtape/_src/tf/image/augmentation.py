"""`tf.image`: adjustments and crops with random parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import operand
from gradtape._src.dtypes import float32
from gradtape._src.ops import index, math
from gradtape._src.tensor import Tensor
from gradtape._src.tf import random
from gradtape._src.tf.arguments import integer, plain_number, shape_of
from gradtape._src.tf.image.arguments import image_operand, image_or_batch, kernel_operand, sliced
from gradtape._src.tf.image.colours import (
    adjust_brightness,
    adjust_contrast,
    adjust_hue,
    adjust_jpeg_quality,
    adjust_saturation,
)
from gradtape._src.tf.image.cropping import flipped

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


Draw = Callable[..., Tensor]


def _stateful(seed: Any) -> Draw:
    return lambda shape, low, high, dtype=float32: random.uniform(shape, low, high, dtype=dtype, seed=seed)


def _stateless(seed: Any) -> Draw:
    return lambda shape, low, high, dtype=float32: random.stateless_uniform(shape, seed, low, high, dtype=dtype)


def _picture(image: Any) -> Tensor:
    """Check an image before random numbers are drawn for it."""
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
    image_operand(_picture(image))
    return adjust_contrast(image, draw([], lower, upper))


def _random_saturation(image: Any, lower: float, upper: float, draw: Draw) -> Tensor:
    _bounds(lower, upper)
    kernel_operand(_picture(image), "AdjustSaturation", channels=3)
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
    kernel_operand(_picture(image), "AdjustHue", channels=3)
    return adjust_hue(image, draw([], -max_delta, max_delta))


def _random_flip(image: Any, axis: int, draw: Draw) -> Tensor:
    x = image_or_batch(image)
    result: Tensor
    if len(x.array.shape) == 3:
        result = math.where(draw([], 0, 1.0) < 0.5, flipped(x, axis), x)
        return result
    result = math.where(draw([x.array.shape[0], 1, 1, 1], 0, 1.0) > 0.5, flipped(x, axis), x)
    return result


def _random_crop(value: Any, size: Any, draw: Draw) -> Tensor:
    x = operand(value)
    wanted, have = shape_of(size), x.array.shape
    if len(wanted) != len(have) or any(n > h for n, h in zip(wanted, have, strict=True)):
        raise errors.invalid_argument(f"Need value.shape >= size, got  {list(have)} and {list(wanted)}", "Assert")
    room = np.subtract(have, wanted).astype(np.int32) + 1
    starts = draw([len(have)], 0, 2**31 - 1, "int32") % room
    if is_known(starts):
        return sliced(x, *(slice(s, s + n) for s, n in zip(np.asarray(starts).tolist(), wanted, strict=True)))
    for axis, n in enumerate(wanted):
        x = index.take(x, starts[axis] + np.arange(n, dtype=np.int32), axis=axis, batch_dims=0)
    return x


def random_brightness(image: TensorLike, max_delta: float, seed: Any = None) -> Tensor:
    """Apply `adjust_brightness` with a random number in [-max_delta, max_delta).

    >>> image = tf.zeros([2, 2, 3])
    >>> brighter = tf.image.random_brightness(image, 0.2)
    >>> bool(tf.reduce_all(tf.abs(brighter - image) <= 0.2))
    True
    """
    return _random_brightness(image, max_delta, _stateful(seed))


def stateless_random_brightness(image: TensorLike, max_delta: float, seed: Any) -> Tensor:
    """Apply `random_brightness` with random numbers that depend only on `seed`.

    >>> a, b = (tf.image.stateless_random_brightness([[[0.5]]], 0.2, seed=(1, 2)) for _ in range(2))
    >>> bool(a == b)
    True
    """
    return _random_brightness(image, max_delta, _stateless(seed))


def random_contrast(image: TensorLike, lower: float, upper: float, seed: Any = None) -> Tensor:
    """Apply `adjust_contrast` with a random number in [lower, upper).

    >>> tf.image.random_contrast(tf.ones([2, 2, 3]), 0.5, 1.5).shape
    TensorShape([2, 2, 3])
    """
    return _random_contrast(image, lower, upper, _stateful(seed))


def stateless_random_contrast(image: TensorLike, lower: float, upper: float, seed: Any) -> Tensor:
    """Apply `random_contrast` with random numbers that depend only on `seed`.

    >>> tf.image.stateless_random_contrast(tf.ones([2, 2, 3]), 0.5, 1.5, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return _random_contrast(image, lower, upper, _stateless(seed))


def random_saturation(image: TensorLike, lower: float, upper: float, seed: Any = None) -> Tensor:
    """Apply `adjust_saturation` with a random number in [lower, upper).

    >>> tf.image.random_saturation(tf.ones([2, 2, 3]), 0.5, 1.5).shape
    TensorShape([2, 2, 3])
    """
    return _random_saturation(image, lower, upper, _stateful(seed))


def stateless_random_saturation(image: TensorLike, lower: float, upper: float, seed: Any = None) -> Tensor:
    """Apply `random_saturation` with random numbers that depend only on `seed`.

    >>> tf.image.stateless_random_saturation(tf.ones([2, 2, 3]), 0.5, 1.5, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return _random_saturation(image, lower, upper, _stateless(seed))


def random_hue(image: TensorLike, max_delta: float, seed: Any = None) -> Tensor:
    """Apply `adjust_hue` with a random number in [-max_delta, max_delta).

    >>> tf.image.random_hue(tf.ones([2, 2, 3]), 0.1).shape
    TensorShape([2, 2, 3])
    """
    return _random_hue(image, max_delta, _stateful(seed))


def stateless_random_hue(image: TensorLike, max_delta: float, seed: Any) -> Tensor:
    """Apply `random_hue` with random numbers that depend only on `seed`.

    >>> tf.image.stateless_random_hue(tf.ones([2, 2, 3]), 0.1, seed=(1, 2)).shape
    TensorShape([2, 2, 3])
    """
    return _random_hue(image, max_delta, _stateless(seed))


def random_flip_left_right(image: TensorLike, seed: Any = None) -> Tensor:
    """Mirror each image along its width, or not, at random.

    >>> row = tf.image.random_flip_left_right([[[1], [2]]])[0, :, 0].numpy().tolist()
    >>> row in ([1, 2], [2, 1])
    True
    """
    return _random_flip(image, -2, _stateful(seed))


def stateless_random_flip_left_right(image: TensorLike, seed: Any) -> Tensor:
    """Apply `random_flip_left_right` with random numbers that depend only on `seed`.

    >>> flips = {tf.image.stateless_random_flip_left_right([[[1], [2]]], (1, 2)).numpy().tobytes() for _ in range(5)}
    >>> len(flips)
    1
    """
    return _random_flip(image, -2, _stateless(seed))


def random_flip_up_down(image: TensorLike, seed: Any = None) -> Tensor:
    """Mirror each image along its height, or not, at random.

    >>> column = tf.image.random_flip_up_down([[[1]], [[2]]])[:, 0, 0].numpy().tolist()
    >>> column in ([1, 2], [2, 1])
    True
    """
    return _random_flip(image, -3, _stateful(seed))


def stateless_random_flip_up_down(image: TensorLike, seed: Any) -> Tensor:
    """Apply `random_flip_up_down` with random numbers that depend only on `seed`.

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
    """Apply `random_crop` at a position that depends only on `seed`.

    >>> tf.image.stateless_random_crop(tf.ones([8, 8, 3]), [4, 4, 3], seed=(1, 2)).shape
    TensorShape([4, 4, 3])
    """
    return _random_crop(value, size, _stateless(seed))


def random_jpeg_quality(image: TensorLike, min_jpeg_quality: Any, max_jpeg_quality: Any, seed: Any = None) -> Tensor:
    """Apply `adjust_jpeg_quality` with a random quality (needs Pillow).

    >>> tf.image.random_jpeg_quality(tf.zeros([8, 8, 3], tf.uint8), 50, 90).shape
    TensorShape([8, 8, 3])
    """
    return _random_quality(image, integer(min_jpeg_quality), integer(max_jpeg_quality), _stateful(seed))


def stateless_random_jpeg_quality(image: TensorLike, min_jpeg_quality: Any, max_jpeg_quality: Any, seed: Any) -> Tensor:
    """Apply `random_jpeg_quality` with a quality that depends only on `seed`.

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
