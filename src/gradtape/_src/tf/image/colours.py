"""`tf.image`: colour spaces, and adjustments of colours, brightness and contrast."""

from __future__ import annotations

import math as _math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradtape._src import errors
from gradtape._src.conversion import is_library, operand
from gradtape._src.dtypes import float32
from gradtape._src.ops import array, image as ops, linalg, math
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import integer, plain_number, tensor_or
from gradtape._src.tf.array import cast
from gradtape._src.tf.image.arguments import (
    as_floating,
    constant_like,
    image_operand,
    kernel_operand,
    mean_over,
    on_host,
    require,
    scalar_factor,
    sliced,
    stack_channels,
)
from gradtape._src.tf.io import convert_image_dtype, decode_jpeg, encode_jpeg

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- colours ---------------------------------------------------------------------------------------------------------
_YIQ = [[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]]
_FROM_YIQ = [[1.0, 1.0, 1.0], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]]
_YUV = [[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]]
_FROM_YUV = [[1.0, 1.0, 1.0], [0.0, -0.394642334, 2.03206185], [1.13988303, -0.58062185, 0.0]]
_GRAY = [[0.2989], [0.5870], [0.1140]]


def _mix(images: Any, matrix: Any) -> Tensor:
    """Multiply every pixel by a matrix."""
    x = operand(images)
    if not x.array.shape:
        raise IndexError(
            "list index out of range: the last axis of an image contains its colors, but a scalar has no axes"
        )
    if x.array.shape[-1] != len(matrix):
        raise errors.invalid_argument(
            f"Matrix size-incompatible: the last axis of an image must have {len(matrix)} colors, got shape "
            f"{errors.brackets(x.array.shape)}",
            "MatMul",
        )
    if not x.dtype.is_floating:
        raise TypeError(f"Cannot convert {matrix} to EagerTensor of dtype {x.dtype.name}")
    flat = array.reshape(x, shape=(-1, len(matrix)))
    mixed = linalg.matmul(flat, constant_like(matrix, x))
    result: Tensor = array.reshape(mixed, shape=(*x.array.shape[:-1], len(matrix[0])))
    return result


def rgb_to_yiq(images: TensorLike) -> Tensor:
    """Convert red, green, blue to luma and two chroma axes (NTSC).

    >>> print(tf.image.rgb_to_yiq([[[1.0, 1.0, 1.0]]]).numpy().round(4))
    [[[ 1.  0. -0.]]]
    """
    return _mix(images, _YIQ)


def yiq_to_rgb(images: TensorLike) -> Tensor:
    """Convert YIQ to RGB: the inverse of `rgb_to_yiq`.

    >>> print(tf.image.yiq_to_rgb([[[1.0, 0.0, 0.0]]]).numpy().round(4))
    [[[1. 1. 1.]]]
    """
    return _mix(images, _FROM_YIQ)


def rgb_to_yuv(images: TensorLike) -> Tensor:
    """Convert red, green, blue to luma and two chroma axes (PAL).

    >>> print(tf.image.rgb_to_yuv([[[1.0, 0.0, 0.0]]]).numpy().round(4))
    [[[ 0.299  -0.1471  0.615 ]]]
    """
    return _mix(images, _YUV)


def yuv_to_rgb(images: TensorLike) -> Tensor:
    """Convert YUV to RGB: the inverse of `rgb_to_yuv`.

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
    """Convert grayscale to RGB by repeating the channel three times.

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
    return x, [sliced(x, ..., i) for i in range(3)]


def rgb_to_hsv(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert RGB colors in [0, 1] to hue, saturation and value.

    >>> tf.image.rgb_to_hsv([[[1.0, 0.5, 0.5]]]).numpy().ravel().tolist()
    [0.0, 0.5, 1.0]
    """
    x, _ = _colours(images, "RGBToHSV")
    result: Tensor = ops.rgb_to_hsv(x)
    return result


def _unit(x: Tensor) -> Tensor:
    result: Tensor = math.minimum(math.maximum(x, 0), 1)
    return result


def hsv_to_rgb(images: TensorLike, name: str | None = None) -> Tensor:
    """Convert HSV to RGB: the inverse of `rgb_to_hsv`.

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
    return stack_channels(*(((p - 1) * s + 1) * v for p in pure))


# -- adjustments -----------------------------------------------------------------------------------------------------
def _adjusted(image: Any, change: Callable[[Tensor], Tensor], *kept: Any) -> Tensor:
    """Change an image in floating point, and convert it back to its dtype."""
    x = operand(image)
    return convert_image_dtype(change(as_floating(x, *kept)), x.dtype, saturate=True)


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
    kernel_operand(images, "AdjustContrastv2")

    def change(x: Tensor) -> Tensor:
        mean = mean_over(x, -3, -2, keepdims=True)
        factor = scalar_factor(contrast_factor, x.dtype, "AdjustContrastv2", "contrast_factor")
        changed: Tensor = (x - mean) * factor + mean
        return changed

    return _adjusted(images, change)


def adjust_gamma(image: Any, gamma: Any = 1, gain: Any = 1) -> Tensor:
    """Compute gain * image ** gamma.

    >>> print(tf.image.adjust_gamma([[[0.5]]], gamma=2.0).numpy().round(4))
    [[[0.25]]]
    """
    gamma = gamma if is_library(gamma) else plain_number(gamma, "gamma")
    if is_library(gamma) and operand(gamma).dtype.name != "float32":
        kind = TypeError if operand(gamma).array.dtype.kind in "bO" else ValueError
        raise kind(f"Expected a float32 number for argument 'gamma', but got {gamma!r}.")
    require(gamma >= 0, "Gamma should be a non-negative real number.")

    def change(x: Tensor) -> Tensor:
        power = math.power(x, cast(operand(gamma), x.dtype))
        return scalar_factor(gain, x.dtype, "Mul", "gain") * power

    return _adjusted(image, change)


def adjust_hue(image: TensorLike, delta: TensorLike, name: str | None = None) -> Tensor:
    """Shift the hue by a fraction of the color wheel.

    >>> print(tf.image.adjust_hue([[[1.0, 0.0, 0.0]]], 0.5).numpy().round(4))
    [[[0. 1. 1.]]]
    """
    if not is_library(delta) and (plain_number(delta, "delta") < -1 or plain_number(delta, "delta") > 1):
        raise ValueError("delta must be in the interval [-1, 1]")
    if is_library(delta) and (operand(delta).dtype.name != "float32" or operand(delta).array.shape):
        raise errors.invalid_argument(f"delta must be a float32 scalar: {delta!r}", "AdjustHue")
    kernel_operand(image, "AdjustHue", channels=3)

    def change(x: Tensor) -> Tensor:
        hsv = rgb_to_hsv(x)
        hue = sliced(hsv, ..., 0) + cast(operand(delta), x.dtype)
        hue = hue - math.floor(hue)
        return hsv_to_rgb(stack_channels(hue, sliced(hsv, ..., 1), sliced(hsv, ..., 2)))

    return _adjusted(image, change)


def adjust_saturation(image: TensorLike, saturation_factor: Any, name: str | None = None) -> Tensor:
    """Scale the saturation.

    >>> print(tf.image.adjust_saturation([[[1.0, 0.5, 0.5]]], 0.0).numpy().round(4))
    [[[1. 1. 1.]]]
    """
    kernel_operand(image, "AdjustSaturation", channels=3)

    def change(x: Tensor) -> Tensor:
        hsv = rgb_to_hsv(x)
        saturation = _unit(
            sliced(hsv, ..., 1) * scalar_factor(saturation_factor, x.dtype, "AdjustSaturation", "saturation_factor")
        )
        return hsv_to_rgb(stack_channels(sliced(hsv, ..., 0), saturation, sliced(hsv, ..., 2)))

    return _adjusted(image, change)


def adjust_jpeg_quality(image: TensorLike, jpeg_quality: Any, dct_method: str = "", name: str | None = None) -> Tensor:
    """Compress an image as JPEG and decompress it (needs Pillow).

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
    pressed = on_host(lambda i, q: [adjust_jpeg_quality(i, q, dct_method)], [x, jpeg_quality], [spec])
    if pressed is not None:
        return pressed[0]
    channels = x.array.shape[-1]
    encoded = encode_jpeg(convert_image_dtype(x, "uint8", saturate=True), quality=_quality(jpeg_quality))
    return convert_image_dtype(decode_jpeg(encoded, channels=channels), x.dtype, saturate=True)


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
    x = cast(image_operand(image), float32)
    count = _math.prod(x.array.shape[-3:])
    centred = x - mean_over(x, -1, -2, -3, keepdims=True)
    deviation = math.sqrt(mean_over(math.square(centred), -1, -2, -3, keepdims=True))
    result: Tensor = centred / math.maximum(deviation, 1 / _math.sqrt(max(count, 1)))
    return result
