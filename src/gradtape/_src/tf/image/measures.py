"""`tf.image`: edges, and similarity of images."""

from __future__ import annotations

import math as _math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import operand
from gradtape._src.dtypes import float32
from gradtape._src.ops import array, linalg, math
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import integer, scalar_operand, static
from gradtape._src.tf.array import cast
from gradtape._src.tf.image.arguments import constant_like, mean_over, sliced, stack_channels, sum_over
from gradtape._src.tf.io import convert_image_dtype

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def total_variation(images: TensorLike, name: str | None = None) -> Tensor:
    """Compute the sum of the differences between neighboring pixels, for each image.

    >>> tf.image.total_variation([[[0.0], [1.0]], [[1.0], [3.0]]]).numpy().item()
    6.0
    """
    x = operand(images)
    if len(x.array.shape) not in (3, 4):
        raise ValueError("'images' must be either 3 or 4-dimensional.")
    every = slice(None)
    down = sliced(x, ..., slice(1, None), every, every) - sliced(x, ..., slice(None, -1), every, every)
    across = sliced(x, ..., slice(1, None), slice(None)) - sliced(x, ..., slice(None, -1), slice(None))
    return sum_over(math.absolute(down), -1, -2, -3) + sum_over(math.absolute(across), -1, -2, -3)


def image_gradients(image: TensorLike) -> tuple[Tensor, Tensor]:
    """Compute the differences to the pixel below and to the pixel on the right; zeros in the last row and column.

    >>> dy, dx = tf.image.image_gradients(tf.reshape([0.0, 1.0, 4.0, 9.0], [1, 2, 2, 1]))
    >>> dy[0, :, :, 0].numpy().tolist(), dx[0, :, :, 0].numpy().tolist()
    ([[4.0, 8.0], [0.0, 0.0]], [[1.0, 0.0], [5.0, 0.0]])
    """
    x = operand(image)
    if len(x.array.shape) != 4:
        raise ValueError(f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {x.shape}.")
    dy = sliced(x, slice(None), slice(1, None)) - sliced(x, slice(None), slice(None, -1))
    dx = sliced(x, slice(None), slice(None), slice(1, None)) - sliced(x, slice(None), slice(None), slice(None, -1))
    return (
        array.pad(dy, before=(0, 0, 0, 0), after=(0, 1, 0, 0)),
        array.pad(dx, before=(0, 0, 0, 0), after=(0, 0, 1, 0)),
    )


def _reflected(x: Tensor, axis: int) -> Tensor:
    """Pad by one row at both ends, as a reflection without the border."""
    n = x.array.shape[axis]
    before = (slice(None),) * axis
    inner = min(1, n - 1)
    first, last = sliced(x, *before, slice(inner, inner + 1)), sliced(x, *before, slice(n - 1 - inner, n - inner))
    result: Tensor = array.concatenate(first, x, last, axis=axis)
    return result


def sobel_edges(image: TensorLike) -> Tensor:
    """Apply vertical and horizontal Sobel filters to each channel: [batch, height, width, channels, 2].

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
        parts = [(sliced(t, *(slice(None),) * axis, slice(i, i + size)), w) for i, w in enumerate(weights) if w]
        total = parts[0][0] * parts[0][1]
        for part, w in parts[1:]:
            total = total + part * w
        return total

    dy = weighed(weighed(padded, 1, (-1, 0, 1)), 2, (1, 2, 1))
    dx = weighed(weighed(padded, 1, (1, 2, 1)), 2, (-1, 0, 1))
    return stack_channels(dy, dx)


def psnr(a: TensorLike, b: TensorLike, max_val: Any, name: str | None = None) -> Tensor:
    """Compute the peak signal-to-noise ratio in decibels, over the last three axes.

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
    error = mean_over(squares, -3, -2, -1)
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
    """The matrix that convolves an axis of length n with weights, without padding."""
    size = len(weights)
    result = np.zeros((n - size + 1, n))
    for i, w in enumerate(weights):
        result[np.arange(n - size + 1), np.arange(n - size + 1) + i] = w
    return result


def _ssim_parts(
    x: Tensor, y: Tensor, max_val: Tensor, filter_size: int, filter_sigma: float, k1: float, k2: float
) -> tuple[Tensor, Tensor]:
    """The maps of similarity, and of only contrast and structure, for [batch, height, width, channels]."""
    height, width = x.array.shape[1:3]
    if height < filter_size or width < filter_size:
        raise errors.invalid_argument(
            f"Expected an image of at least {filter_size} x {filter_size} pixels (filter_size), got {height} x {width}",
            "Assert",
        )
    weights = _gauss(filter_size, filter_sigma)
    rows, columns = constant_like(_band(height, weights), x), constant_like(_band(width, weights), x)

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
    """Two images as float32 [batch, height, width, channels], the largest value, and the original shape."""
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
    """Compute the structural similarity of images, 1 for equal ones; with `return_index_map`, as a map.

    >>> image = tf.random.stateless_uniform([16, 16, 1], seed=[1, 2])
    >>> print(tf.image.ssim(image, image, max_val=1.0).numpy().round(4))
    1.0
    """
    a, b, peak, lead = _pair(img1, img2, max_val)
    found, _ = _ssim_parts(a, b, peak, _window(filter_size), _sigma(filter_sigma), k1, k2)
    found = mean_over(found, -1)
    if not return_index_map:
        found = mean_over(found, -1, -2)
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
    """Compute the structural similarity over several scales, each half the size of the previous one.

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
        scores.append(math.relu(mean_over(used, 1, 2)))
    total = math.power(scores[0], constant_like(factors[0], a))
    for score, factor in zip(scores[1:], factors[1:], strict=True):
        total = total * math.power(score, constant_like(factor, a))
    result: Tensor = array.reshape(mean_over(total, -1), shape=lead)
    return result


def _halved(x: Tensor) -> Tensor:
    """Means of 2 x 2 pixels; a remaining row or column counts twice."""
    for axis in (1, 2):
        n = x.array.shape[axis]
        if n % 2:
            last = sliced(x, *(slice(None),) * axis, slice(n - 1, n))
            x = array.concatenate(x, last, axis=axis)
    batch, height, width, channels = x.array.shape
    blocks = array.reshape(x, shape=(batch, height // 2, 2, width // 2, 2, channels))
    return mean_over(blocks, 2, 4)
