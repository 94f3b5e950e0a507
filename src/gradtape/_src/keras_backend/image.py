"""`keras.ops.image` over gradtape: colours, resizing, transforms, filters."""

from __future__ import annotations

import math as pymath
from itertools import product

import ml_dtypes
import numpy as np
from keras.src import backend
from keras.src.random.seed_generator import draw_seed

from gradtape._src.keras_backend import linalg as klinalg, nn, numpy as knp
from gradtape._src.keras_backend._common import (
    broadcast,
    cast,
    constant,
    convert_to_tensor,
    cut,
    expand,
    look_up,
    move,
    numbers,
    promoted,
    result_type,
    shape as sizes_of,
    wide,
)
from gradtape._src.ops import array as ops, linalg, math, reduce
from gradtape._src.tf import image as tfimage, random as draws

RESIZE_INTERPOLATIONS = ("bilinear", "nearest", "lanczos3", "lanczos5", "bicubic")
AFFINE_TRANSFORM_INTERPOLATIONS = {"nearest": 0, "bilinear": 1}
AFFINE_TRANSFORM_FILL_MODES = {"constant", "nearest", "wrap", "mirror", "reflect"}
MAP_COORDINATES_FILL_MODES = {"constant", "nearest", "wrap", "mirror", "reflect"}
SCALE_AND_TRANSLATE_METHODS = {
    "linear",
    "bilinear",
    "trilinear",
    "cubic",
    "bicubic",
    "tricubic",
    "lanczos3",
    "lanczos5",
}


# -- validation ------------------------------------------------------------------------------------------------------
def _one_of(name, value, allowed):
    if value not in allowed:
        raise ValueError(
            f"Invalid value for argument `{name}`. Expected of one {set(allowed)}. Received: {name}={value}"
        )


def _images(images):
    images = convert_to_tensor(images)
    if len(sizes_of(images)) not in (3, 4):
        raise ValueError(
            "Invalid images rank: expected rank 3 (single image) or rank 4 (batch of images). "
            f"Received input with shape: images.shape={sizes_of(images)}"
        )
    return images


def _as_batch(function, images, data_format):
    """Apply a function of [batch, height, width, channels] to one image or many, in either format."""
    single = len(sizes_of(images)) == 3
    images = expand(images, 0) if single else images
    second = data_format == "channels_first"
    result = function(move(images, (1,), (-1,)) if second else images)
    result = move(result, (-1,), (1,)) if second else result
    return ops.reshape(result, shape=sizes_of(result)[1:]) if single else result


# -- colours ---------------------------------------------------------------------------------------------------------
def _planes(images, data_format):
    """The axis of channels, and the planes along it."""
    axis = len(sizes_of(images)) + (-1 if data_format == "channels_last" else -3)
    return axis, ops.unstack(images, axis=axis)


def rgb_to_grayscale(images, data_format=None):
    data_format = backend.standardize_data_format(data_format)
    images = _images(images)
    axis = len(sizes_of(images)) + (-1 if data_format == "channels_last" else -3)
    if sizes_of(images)[axis] not in (1, 3):
        raise ValueError(
            "Invalid channel size: expected 3 (RGB) or 1 (Grayscale). "
            f"Received input with shape: images.shape={sizes_of(images)}"
        )
    if sizes_of(images)[axis] == 1:
        return ops.identity(images)
    red, green, blue = ops.unstack(cast(images, result_type(images, float)), axis=axis)
    return cast(expand(0.2989 * red + 0.5870 * green + 0.1140 * blue, axis), images.dtype)


def _check_floats(images):
    if not images.dtype.is_floating:
        raise ValueError(f"Invalid images dtype: expected float dtype. Received: images.dtype={images.dtype.name}")


def rgb_to_hsv(images, data_format=None):
    data_format = backend.standardize_data_format(data_format)
    images = _images(images)
    _check_floats(images)
    tiny = float(ml_dtypes.finfo(images.array.dtype).eps)
    images = math.where(math.less(math.absolute(images), tiny), knp.zeros_like(images), images)
    axis, (red, green, blue) = _planes(images, data_format)
    value = math.maximum(math.maximum(red, green), blue)
    chroma = value - math.minimum(math.minimum(red, green), blue)
    zero, one = knp.zeros_like(value), knp.ones_like(value)
    coloured = math.greater(chroma, 0)
    lit = math.greater(value, 0)
    saturation = math.where(lit, chroma / math.where(lit, value, one), zero)
    sixth = 1 / (6 * math.where(coloured, chroma, one))
    hue = math.where(math.equal(value, green), sixth * (blue - red) + 2 / 6, sixth * (red - green) + 4 / 6)
    hue = math.where(math.equal(value, red), sixth * (green - blue), hue)
    hue = math.where(coloured, hue, zero) + cast(math.less(hue, 0), hue.dtype)
    return ops.stack(hue, saturation, value, axis=axis)


def hsv_to_rgb(images, data_format=None):
    data_format = backend.standardize_data_format(data_format)
    images = _images(images)
    _check_floats(images)
    axis, (hue, saturation, value) = _planes(images, data_format)
    turn = math.mod(hue, 1.0) * 6

    def part(x):
        return value * (1 - saturation + saturation * math.minimum(math.maximum(x, 0), 1))

    red = part(math.absolute(turn - 3) - 1)
    green = part(2 - math.absolute(turn - 2))
    blue = part(2 - math.absolute(turn - 4))
    return ops.stack(red, green, blue, axis=axis)


# -- resizing: a weighted sum along each spatial axis ----------------------------------------------------------------
def resize(
    images,
    size,
    interpolation="bilinear",
    antialias=False,
    crop_to_aspect_ratio=False,
    pad_to_aspect_ratio=False,
    fill_mode="constant",
    fill_value=0.0,
    data_format=None,
):
    data_format = backend.standardize_data_format(data_format)
    _one_of("interpolation", interpolation, RESIZE_INTERPOLATIONS)
    if fill_mode != "constant":
        raise ValueError(
            f"Invalid value for argument `fill_mode`. Only `'constant'` is supported. Received: fill_mode={fill_mode}"
        )
    if pad_to_aspect_ratio and crop_to_aspect_ratio:
        raise ValueError("Only one of `pad_to_aspect_ratio` & `crop_to_aspect_ratio` can be `True`.")
    if len(size) != 2:
        raise ValueError(f"Argument `size` must be a tuple of two elements (height, width). Received: size={size}")
    images = _images(images)
    goal = tuple(int(n) for n in size)
    first = len(sizes_of(images)) - (3 if data_format == "channels_last" else 2)
    if crop_to_aspect_ratio:
        images = _cropped(images, goal, first)
    elif pad_to_aspect_ratio:
        images = _padded(images, goal, first, fill_value)
    if interpolation == "nearest":
        return _resized_to_nearest(images, goal, first)
    pairs = [(i, n) for i, n in enumerate(goal, first) if sizes_of(images)[i] != n]
    scales = [constant(n / sizes_of(images)[i], "float32") for i, n in pairs]
    shifts = [constant(0, "float32")] * len(pairs)
    return _resampled(images, pairs, scales, shifts, _KERNELS[interpolation], antialias)


def _fitting(sizes, goal):
    """The largest (height, width) inside `sizes`, and the smallest one around it, with the goal's aspect ratio."""
    (height, width), (rows, columns) = sizes, goal
    by_width, by_height = int(width * rows / columns), int(height * columns / rows)
    inside = (max(min(height, by_width), 1), max(min(width, by_height), 1))
    return inside, (max(height, by_width), max(width, by_height))


def _cropped(images, goal, first):
    have = sizes_of(images)[first : first + 2]
    for i, (n, m) in enumerate(zip(have, _fitting(have, goal)[0], strict=True), first):
        images = cut(images, i, (n - m) // 2, (n - m) // 2 + m)
    return images


def _padded(images, goal, first, fill_value):
    have = sizes_of(images)[first : first + 2]
    widths = [(0, 0)] * len(sizes_of(images))
    for i, (n, m) in enumerate(zip(have, _fitting(have, goal)[1], strict=True), first):
        if (m - n) // 2 > 0:  # along the first axis that is too short
            widths[i] = ((m - n) // 2, (m - n) // 2)
            break
    return knp.pad(images, widths, constant_values=fill_value)


def _resized_to_nearest(images, goal, first):
    for i, n in enumerate(goal, first):
        have = sizes_of(images)[i]
        if have != n:
            places = np.floor((np.arange(n, dtype=np.float32) + np.float32(0.5)) * have / n).astype(np.int32)
            images = look_up(images, places, i)
    return images


def _triangle(x):
    return math.relu(1 - x)


def _cubic(x):
    near = ((1.5 * x - 2.5) * x) * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return math.where(math.less(x, 1), near, math.where(math.less(x, 2), far, knp.zeros_like(x)))


def _lanczos(radius):
    def kernel(x):
        safe = math.where(math.greater(x, 1e-3), x, knp.ones_like(x)) * pymath.pi
        wave = radius * math.sin(safe) * math.sin(safe / radius) / math.square(safe)
        inside = math.where(math.greater(x, 1e-3), wave, knp.ones_like(x))
        return math.where(math.greater(x, radius), knp.zeros_like(x), inside)

    return kernel


_KERNELS = {
    "bilinear": _triangle,
    "linear": _triangle,
    "trilinear": _triangle,
    "bicubic": _cubic,
    "cubic": _cubic,
    "tricubic": _cubic,
    "lanczos3": _lanczos(3.0),
    "lanczos5": _lanczos(5.0),
}


def _weights(size, count, scale, shift, kernel, antialias):
    """[size, count]: the weight of each position of an axis for each of the `count` resampled positions."""
    step = 1 / scale
    width = math.maximum(step, 1) if antialias else knp.ones_like(step)
    places = (constant(np.arange(count) + 0.5, step) - shift) * step - 0.5
    distance = math.absolute(places - constant(np.arange(size)[:, None], step)) / width
    weights = kernel(distance)
    total = reduce.sum_(weights, axis=(0,), keepdims=True)
    enough = math.greater(math.absolute(total), 1000 * float(np.finfo(np.float32).eps))
    inside = math.logical_and(math.greater_equal(places, -0.5), math.less_equal(places, size - 0.5))
    kept = math.logical_and(enough, inside)
    return math.where(kept, weights / math.where(enough, total, knp.ones_like(total)), knp.zeros_like(weights))


def _resampled(images, pairs, scales, shifts, kernel, antialias):
    """Resample each axis of `pairs` (axis, new size); integers are rounded and clipped to their range."""
    if not pairs:
        return images
    result = wide(images) if images.dtype.is_floating else cast(images, "float32")
    for (axis, count), scale, shift in zip(pairs, scales, shifts, strict=True):
        weights = cast(_weights(sizes_of(result)[axis], count, scale, shift, kernel, antialias), result.dtype)
        result = move(linalg.matmul(move(result, (axis,), (-1,)), weights), (-1,), (axis,))
    if images.dtype.is_floating:
        return cast(result, images.dtype)
    low, high = (cast(find(numbers(images)), result.dtype) for find in (knp.min, knp.max))
    return cast(math.minimum(math.maximum(math.rint(result), low), high), images.dtype)


def scale_and_translate(images, output_shape, scale, translation, spatial_dims, method, antialias=True):
    _one_of("method", method, SCALE_AND_TRANSLATE_METHODS)
    images = convert_to_tensor(images)
    scale, translation = promoted(scale, translation, also=(float,))
    pairs = [(d % len(sizes_of(images)), output_shape[d]) for d in spatial_dims]
    scales, shifts = ([values[i] for i in range(len(pairs))] for values in (wide(scale), wide(translation)))
    return _resampled(images, pairs, scales, shifts, _KERNELS[method], antialias)


# -- sampling at coordinates -----------------------------------------------------------------------------------------
def _mirrored(place, size):
    """Reflect positions at the first and the last one, as a triangle wave."""
    if size == 1:
        return place * 0
    return math.absolute(math.mod(place + (size - 1), 2 * (size - 1)) - (size - 1))


_FIXED = {
    "constant": lambda place, size: math.minimum(math.maximum(place, 0), size - 1),
    "nearest": lambda place, size: math.minimum(math.maximum(place, 0), size - 1),
    "wrap": lambda place, size: math.mod(place, size),
    "mirror": _mirrored,
    "reflect": lambda place, size: math.floor_divide(_mirrored(2 * place + 1, 2 * size + 1) - 1, 2),
}


def _neighbours(coordinate, order):
    """The positions next to a coordinate, and their weights."""
    if order == 0:
        place = math.floor(coordinate + 0.5) if coordinate.dtype.is_floating else coordinate
        return [(cast(place, "int32"), None)]
    below = math.floor(coordinate)
    place, ahead = cast(below, "int32"), coordinate - below
    return [(place, 1 - ahead), (place + 1, ahead)]


def _sampled(values, coordinates, order, fill_mode, fill_value):
    """Sample values [batch, *space, channels] at coordinates, [batch, points] for each spatial axis."""
    batch, *space, channels = sizes_of(values)
    rows = ops.reshape(values, shape=(batch, pymath.prod(space), channels))
    fix = _FIXED[fill_mode]
    fill = convert_to_tensor(fill_value, values.dtype)
    total = None
    for corner in product(*(_neighbours(c, order) for c in coordinates)):
        place, weight, inside = 0, None, None
        for (index, part), size in zip(corner, space, strict=True):
            place = place * size + fix(index, size)
            if part is not None:
                weight = part if weight is None else weight * part
            if fill_mode == "constant":
                here = math.logical_and(math.greater_equal(index, 0), math.less(index, size))
                inside = here if inside is None else math.logical_and(inside, here)
        found = look_up(rows, place, 1, batch_dims=1)
        if inside is not None:
            found = math.where(expand(inside, -1), found, fill)
        if weight is not None:
            found = found * expand(cast(weight, values.dtype), -1)
        total = found if total is None else total + found
    return total


def map_coordinates(inputs, coordinates, order, fill_mode="constant", fill_value=0.0):
    inputs, coordinates = convert_to_tensor(inputs), convert_to_tensor(coordinates)
    if sizes_of(coordinates)[0] != len(sizes_of(inputs)):
        raise ValueError(
            "First dim of `coordinates` must be the same as the rank of `inputs`. Received inputs with shape: "
            f"{sizes_of(inputs)} and coordinate leading dim of {sizes_of(coordinates)[0]}"
        )
    if len(sizes_of(coordinates)) < 2:
        raise ValueError(
            f"Invalid coordinates rank: expected at least rank 2. Received input with shape: {sizes_of(coordinates)}"
        )
    if fill_mode not in MAP_COORDINATES_FILL_MODES:
        raise ValueError(
            "Invalid value for argument `fill_mode`. Expected one of "
            f"{MAP_COORDINATES_FILL_MODES}. Received: fill_mode={fill_mode}"
        )
    if order not in (0, 1):
        raise ValueError(f"Invalid value for argument `order`. Expected one of [0, 1]. Received: order={order}")
    values = wide(inputs) if inputs.dtype.is_floating else cast(inputs, "float32")
    places = [ops.reshape(c, shape=(1, -1)) for c in ops.unstack(wide(coordinates), axis=0)]
    if order == 1:
        places = [p if p.dtype.is_floating else cast(p, "float32") for p in places]
    found = _sampled(expand(expand(values, 0), -1), places, order, fill_mode, fill_value)
    if not inputs.dtype.is_floating:  # half away from zero
        found = math.sign(found) * math.floor(math.absolute(found) + 0.5)
    return cast(ops.reshape(found, shape=sizes_of(coordinates)[1:]), inputs.dtype)


def _grid(height, width, like):
    """The coordinates (x, y) of all pixels, row by row."""
    y, x = np.indices((height, width)).reshape(2, -1)
    return constant(x, like), constant(y, like)


def _projected(images, transforms, interpolation, fill_mode, fill_value):
    """Sample each pixel (x, y) of [batch, height, width, channels] at the projection of its row of eight numbers."""
    batch, height, width, channels = sizes_of(images)
    x, y = _grid(height, width, transforms)
    transforms = broadcast(transforms, (batch, 8))
    a0, a1, a2, b0, b1, b2, c0, c1 = (expand(t, 1) for t in ops.unstack(transforms, axis=1))
    scale = c0 * x + c1 * y + 1
    places = [(b0 * x + b1 * y + b2) / scale, (a0 * x + a1 * y + a2) / scale]
    order = AFFINE_TRANSFORM_INTERPOLATIONS[interpolation]
    return ops.reshape(_sampled(images, places, order, fill_mode, fill_value), shape=(batch, height, width, channels))


def affine_transform(images, transform, interpolation="bilinear", fill_mode="constant", fill_value=0, data_format=None):
    data_format = backend.standardize_data_format(data_format)
    _one_of("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    _one_of("fill_mode", fill_mode, AFFINE_TRANSFORM_FILL_MODES)
    images, transform = _images(images), convert_to_tensor(transform)
    if len(sizes_of(transform)) not in (1, 2):
        raise ValueError(
            "Invalid transform rank: expected rank 1 (single transform) or rank 2 (batch of transforms). "
            f"Received input with shape: transform.shape={sizes_of(transform)}"
        )
    compute = result_type(images, "float32")
    transform = ops.reshape(cast(transform, compute), shape=(-1, 8))

    def transformed(batch):
        return _projected(batch, transform, interpolation, fill_mode, fill_value)

    return cast(_as_batch(transformed, cast(images, compute), data_format), images.dtype)


def _check_points(name, points):
    if len(sizes_of(points)) not in (2, 3) or sizes_of(points)[-2:] != (4, 2):
        raise ValueError(
            f"Invalid {name} shape: expected (4,2) for a single image or (N,4,2) for a batch. "
            f"Received shape: {sizes_of(points)}"
        )


def perspective_transform(images, start_points, end_points, interpolation="bilinear", fill_value=0, data_format=None):
    data_format = backend.standardize_data_format(data_format)
    start_points, end_points = convert_to_tensor(start_points), convert_to_tensor(end_points)
    _one_of("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    images = _images(images)
    _check_points("start_points", start_points)
    _check_points("end_points", end_points)
    if sizes_of(start_points) != sizes_of(end_points):
        raise ValueError(
            "start_points and end_points must have the same shape. Received start_points.shape="
            f"{sizes_of(start_points)}, end_points.shape={sizes_of(end_points)}"
        )
    compute = result_type(images, "float32")
    start_points, end_points = (ops.reshape(p, shape=(-1, 4, 2)) for p in (start_points, end_points))
    transforms = cast(compute_homography_matrix(start_points, end_points), compute)

    def transformed(batch):
        return _projected(batch, transforms, interpolation, "constant", fill_value)

    return cast(_as_batch(transformed, cast(images, compute), data_format), images.dtype)


def compute_homography_matrix(start_points, end_points):
    """The eight numbers of the projection that maps end points to start points: two equations for each."""
    start_points, end_points = promoted(start_points, end_points, also=(float,))
    wanted = start_points.dtype
    start_x, start_y = ops.unstack(wide(start_points), axis=2)
    end_x, end_y = ops.unstack(wide(end_points), axis=2)
    zero, one = knp.zeros_like(end_x), knp.ones_like(end_x)
    for_x = ops.stack(end_x, end_y, one, zero, zero, zero, -start_x * end_x, -start_x * end_y, axis=2)
    for_y = ops.stack(zero, zero, zero, end_x, end_y, one, -start_y * end_x, -start_y * end_y, axis=2)
    goals = ops.concatenate(start_x, start_y, axis=1)
    return cast(klinalg.solve(ops.concatenate(for_x, for_y, axis=1), goals), wanted)


def elastic_transform(
    images,
    alpha=20.0,
    sigma=5.0,
    interpolation="bilinear",
    fill_mode="reflect",
    fill_value=0.0,
    seed=None,
    data_format=None,
):
    """Sample every pixel at a nearby position: displacements are smoothed noise."""
    data_format = backend.standardize_data_format(data_format)
    _one_of("interpolation", interpolation, AFFINE_TRANSFORM_INTERPOLATIONS)
    _one_of("fill_mode", fill_mode, AFFINE_TRANSFORM_FILL_MODES)
    images = _images(images)
    width_of_kernel = int(6 * float(sigma)) | 1
    order = AFFINE_TRANSFORM_INTERPOLATIONS[interpolation]
    seed = cast(draw_seed(seed), "int64")
    compute = result_type(images, "float32")

    def transformed(batch):
        count, height, width, channels = sizes_of(batch)
        noise = cast(draws.stateless_normal((count, height, width, 2), seed), compute) * float(sigma)
        smooth = gaussian_blur(noise, (width_of_kernel,) * 2, (float(sigma),) * 2, "channels_last")
        across, down = ops.unstack(ops.reshape(smooth, shape=(count, height * width, 2)), axis=2)
        x, y = _grid(height, width, smooth)
        found = _sampled(batch, [y + float(alpha) * down, x + float(alpha) * across], order, fill_mode, fill_value)
        return ops.reshape(found, shape=(count, height, width, channels))

    return cast(_as_batch(transformed, cast(images, compute), data_format), images.dtype)


# -- filters ---------------------------------------------------------------------------------------------------------
def gaussian_blur(images, kernel_size=(3, 3), sigma=(1.0, 1.0), data_format=None):
    data_format = backend.standardize_data_format(data_format)
    images = _images(images)
    compute = result_type(images, "float32")
    sigma = convert_to_tensor(sigma, compute)

    def bell(size, deviation):
        place = constant(np.arange(size) - (size - 1) / 2, sigma)
        weights = math.exp(-0.5 * math.square(place / deviation))
        return weights / reduce.sum_(weights, axis=(0,), keepdims=True)

    across, down = (bell(int(n), sigma[i]) for i, n in enumerate(kernel_size))
    kernel = expand(expand(expand(down, 1) * expand(across, 0), -1), -1)

    def blurred(batch):
        each = broadcast(kernel, (*sizes_of(kernel)[:2], sizes_of(batch)[-1], 1))
        return nn.depthwise_conv(batch, each, padding="same", data_format="channels_last")

    return cast(_as_batch(blurred, cast(images, compute), data_format), images.dtype)


def sobel_edges(images, data_format=None):
    """The vertical and horizontal gradients, along a new last axis."""
    images = convert_to_tensor(images)
    if data_format != "channels_first":
        return tfimage.sobel_edges(images)
    return move(tfimage.sobel_edges(move(images, (1,), (-1,))), (3,), (1,))
