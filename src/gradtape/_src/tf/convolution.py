"""Convolutions, transposed and depthwise ones, and morphology: TensorFlow's names over the primitives."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import numpy_namespace
from gradtape._src.conversion import hinted_operands, operand, operands
from gradtape._src.ops import array, convolution as ops, index, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int, choice, shape_of
from gradtape._src.tf.windows import (
    CHANNELS_LAST,
    Axes,
    Pairs,
    channels_second,
    check_fit,
    padding_pairs,
    per_space_axis,
    to_channels_last,
    to_channels_second,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def _listed(value: Any, n: int, name: str, op: str) -> Any:
    """A stride or dilation argument that needs a value for every axis."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{name}' argument to '{op}' Op, not {value!r}.")
    if len(value) != n + 2:
        raise errors.invalid_argument(f"Sliding window {name} field must specify {n + 2} dimensions", op)
    return value


def _images(x: Tensor, n: int, op: str) -> tuple[Tensor, Axes]:
    """Merge the batch axes; return the original ones as well."""
    shape = tuple(x.array.shape)
    if len(shape) < n + 2:
        raise errors.invalid_argument(
            f"convolution input must be {n + 2}-dimensional: {errors.brackets(shape)}. Add an axis for the batch or "
            "the channels with tf.expand_dims",
            op,
        )
    if len(shape) == n + 2:
        return x, shape[:1]
    lead = shape[: len(shape) - n - 1]
    return array.reshape(x, shape=(prod(lead), *shape[len(lead) :])), lead


def _checked(x: Tensor, y: Tensor, n: int, op: str) -> None:
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes(op, x.dtype, y.dtype)
    if not (x.dtype.is_floating or x.dtype.name == "int32"):
        raise errors.unsupported_dtype(op, x.dtype, "half, bfloat16, float, double, int32")
    if len(y.array.shape) != n + 2:
        raise errors.invalid_argument(
            f"convolution filter must be {n + 2}-dimensional: {errors.brackets(y.array.shape)}", op
        )


# -- convolution -----------------------------------------------------------------------------------------------------
def _convolve(
    input: Any,
    filters: Any,
    n: int,
    strides: Any,
    padding: Any,
    data_format: Any,
    dilations: Any,
    op: str,
    stride_name: str = "strides",
    explicit: bool = False,
) -> Tensor:
    x, y = hinted_operands(input, filters)
    _checked(x, y, n, op)
    second = channels_second(data_format, n, op)
    steps = per_space_axis(strides, n, second, stride_name, op)
    rates = per_space_axis(dilations, n, second, "dilations", op)
    x, lead = _images(x, n, op)
    if second:
        x = to_channels_last(x)
    *window, depth, channels = y.array.shape
    _, *sizes, have = x.array.shape
    if not depth or have % depth:
        raise errors.invalid_argument(f"input depth must be evenly divisible by filter depth: {have} vs {depth}", op)
    groups = max(have // depth, 1)
    if channels % groups:
        raise errors.invalid_argument(
            f"output depth must be evenly divisible by number of groups: {channels} vs {groups}", op
        )
    pairs = padding_pairs(padding, tuple(sizes), tuple(window), steps, rates, second, op, explicit)
    check_fit(tuple(sizes), tuple(window), steps, rates, pairs, op)
    result: Tensor = ops.conv(x, y, strides=steps, dilations=rates, padding=pairs, groups=groups)
    if second:
        result = to_channels_second(result)
    if len(lead) > 1:
        result = array.reshape(result, shape=(*lead, *result.array.shape[1:]))
    return result


def conv1d(
    input: TensorLike,
    filters: TensorLike,
    stride: Any,
    padding: Any,
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Slide filters [width, channels, out channels] over [batch, width, channels].

    >>> tf.nn.conv1d([[[1.0], [2.0], [4.0]]], [[[1.0]], [[10.0]]], 1, "VALID").numpy().ravel().tolist()
    [21.0, 42.0]
    """
    return _convolve(input, filters, 1, stride, padding, data_format, dilations, "Conv2D", "stride")


def conv2d(
    input: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Slide filters [height, width, channels, out channels] over [batch, height, width, channels].

    Filters with fewer channels than the images are applied in groups.

    >>> image = [[[[1.0], [2.0]], [[3.0], [4.0]]]]
    >>> tf.nn.conv2d(image, [[[[1.0]], [[1.0]]]], 1, "VALID").numpy().ravel().tolist()
    [3.0, 7.0]
    """
    return _convolve(input, filters, 2, strides, padding, data_format, dilations, "Conv2D", explicit=True)


def conv3d(
    input: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Slide filters [depth, height, width, channels, out channels] over volumes.

    >>> tf.nn.conv3d(tf.ones([1, 2, 2, 2, 1]), tf.ones([2, 2, 2, 1, 1]), [1] * 5, "VALID").numpy().item()
    8.0
    """
    return _convolve(
        input, filters, 3, _listed(strides, 3, "strides", "Conv3D"), padding, data_format, dilations, "Conv3D"
    )


def convolution(
    input: TensorLike,
    filters: TensorLike,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Compute a convolution over one, two or three spatial axes; the rank of the filters determines which.

    >>> tf.nn.convolution([[[1.0], [2.0], [4.0]]], [[[1.0]], [[10.0]]]).numpy().ravel().tolist()
    [21.0, 42.0]
    """
    x, y = hinted_operands(input, filters)
    n = len(y.array.shape) - 2
    if n not in CHANNELS_LAST:
        raise ValueError(
            f"`filters` must be a tensor with 3, 4 or 5 axes (one, two or three of space). Received: "
            f"filters.shape={y.shape}"
        )
    op = "Conv3D" if n == 3 else "Conv2D"
    return _convolve(x, y, n, strides, padding, data_format, dilations, op)


def atrous_conv2d(
    value: TensorLike, filters: TensorLike, rate: TensorLike, padding: Any, name: str | None = None
) -> Tensor:
    """Compute a dilated convolution: `rate` - 1 positions are skipped between the taps of the filters.

    >>> image = tf.reshape(tf.range(25.0), [1, 5, 5, 1])
    >>> print(tf.nn.atrous_conv2d(image, tf.ones([3, 3, 1, 1]), rate=2, padding="VALID").numpy().round(4))
    [[[[108.]]]]
    """
    choice(padding, "padding", ("SAME", "VALID"))
    for word, given in (("value", value), ("filters", filters)):
        if len(operand(given).array.shape) != 4:
            raise ValueError(f"`{word}` must be a 4-D tensor. Received: {word}.shape={operand(given).shape}")
    return convolution(value, filters, padding=padding, dilations=[_rate(rate)] * 2)


def _rate(rate: Any) -> int:
    found = as_int(rate, "rate")
    if found < 1:
        raise ValueError(f"`rate` must be at least 1. Received: {rate}")
    return found


# -- transposed ------------------------------------------------------------------------------------------------------
def _check_transposed(have: Axes, batch: int, inputs: int, depth: int, channels: int, op: str) -> None:
    """Check that the input of a transposed convolution fits the output shape and the filters."""
    if have[-1] != inputs:
        raise errors.invalid_argument(
            f"{op}: filter and out_backprop must have the same out_depth. Received {inputs} and {have[-1]}", op
        )
    if have[0] != batch:
        raise errors.invalid_argument(
            f"{op}: input and out_backprop must have the same batch size. Input batch: {batch}, outbackprop batch: "
            f"{have[0]}, batch_dim: 0",
            op,
        )
    if not depth or channels % depth or inputs % max(channels // depth, 1):
        raise errors.invalid_argument(f"Computed input depth {channels} doesn't match filter input depth {depth}", op)


def _transposed(
    input: Any,
    filters: Any,
    output_shape: Any,
    n: int,
    strides: Any,
    padding: Any,
    data_format: Any,
    dilations: Any,
    op: str,
) -> Tensor:
    z, y = hinted_operands(input, filters)
    _checked(z, y, n, op)
    second = channels_second(data_format, n, op)
    steps = per_space_axis(strides, n, second, "strides", op)
    rates = per_space_axis(dilations, n, second, "dilations", op)
    wanted = shape_of(output_shape, op, "T", fixed=True)
    if len(wanted) != n + 2:
        raise ValueError(
            f"output_shape must have shape ({n + 2},), one size for each axis of the result. "
            f"Received: output_shape={output_shape}"
        )
    if len(z.array.shape) != n + 2:
        raise errors.invalid_argument(
            f"convolution input must be {n + 2}-dimensional: {errors.brackets(z.array.shape)}", op
        )
    if second:
        z, wanted = to_channels_last(z), (wanted[0], *wanted[2:], wanted[1])
    batch, *sizes, channels = wanted
    *window, depth, inputs = y.array.shape
    have = tuple(z.array.shape)
    _check_transposed(have, batch, inputs, depth, channels, op)
    pairs = padding_pairs(padding, tuple(sizes), tuple(window), steps, rates, second, op, explicit=n == 2)
    expected = conv_sizes(tuple(sizes), tuple(window), steps, rates, pairs)
    for i, (actual, computed) in enumerate(zip(have[1:-1], expected, strict=True)):
        if actual != computed:
            raise errors.invalid_argument(
                f"{op}: Size of out_backprop doesn't match computed: actual = {actual}, computed = {computed} "
                f"spatial_dim: {i + 1} input: {sizes[i]} filter: {window[i]} output: {actual} stride: {steps[i]} "
                f"dilation: {rates[i]}",
                op,
            )
    result: Tensor = ops.conv_input_grad(
        z, y, shape=tuple(sizes), strides=steps, dilations=rates, padding=pairs, groups=max(channels // depth, 1)
    )
    return to_channels_second(result) if second else result


def conv_sizes(sizes: Axes, window: Axes, strides: Axes, dilations: Axes, padding: Pairs) -> Axes:
    """How many positions a window has along each axis of space."""
    found: Axes = numpy_namespace.conv_sizes(sizes, window, strides, dilations, padding)
    return found


def conv1d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Compute the transpose of `conv1d`: filters are [width, out channels, channels].

    >>> x = tf.reshape([1.0, 2.0], [1, 2, 1])
    >>> tf.nn.conv1d_transpose(x, tf.ones([2, 1, 1]), [1, 4, 1], strides=2)[0, :, 0].numpy().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    return _transposed(input, filters, output_shape, 1, strides, padding, data_format, dilations, "Conv2DBackpropInput")


def conv2d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Compute the transpose of `conv2d` ("deconvolution"); filters are [height, width, out channels, channels].

    >>> tf.nn.conv2d_transpose([[[[1.0]]]], [[[[1.0]], [[2.0]]]], [1, 1, 2, 1], 2).numpy().ravel().tolist()
    [1.0, 2.0]
    """
    return _transposed(input, filters, output_shape, 2, strides, padding, data_format, dilations, "Conv2DBackpropInput")


def conv3d_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Compute the transpose of `conv3d`.

    >>> tf.nn.conv3d_transpose(tf.ones([1, 1, 1, 1, 1]), tf.ones([2, 2, 2, 1, 1]), [1, 2, 2, 2, 1], 1, "VALID").shape
    TensorShape([1, 2, 2, 2, 1])
    """
    return _transposed(
        input, filters, output_shape, 3, strides, padding, data_format, dilations, "Conv3DBackpropInputV2"
    )


def conv_transpose(
    input: TensorLike,
    filters: TensorLike,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Compute the transpose of `convolution`; the output shape determines the number of spatial axes.

    >>> x = tf.reshape([1.0, 2.0], [1, 2, 1])
    >>> tf.nn.conv_transpose(x, tf.ones([2, 1, 1]), [1, 4, 1], strides=2)[0, :, 0].numpy().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    n = len(shape_of(output_shape)) - 2
    if n not in CHANNELS_LAST:
        raise ValueError(
            f"output_shape must be of length 3, 4 or 5. Received: output_shape={output_shape} of length {n + 2}."
        )
    op = "Conv3DBackpropInputV2" if n == 3 else "Conv2DBackpropInput"
    return _transposed(input, filters, output_shape, n, strides, padding, data_format, dilations, op)


def atrous_conv2d_transpose(
    value: TensorLike, filters: TensorLike, output_shape: Any, rate: TensorLike, padding: Any, name: str | None = None
) -> Tensor:
    """Compute the transpose of `atrous_conv2d`.

    >>> y = tf.nn.atrous_conv2d_transpose(tf.ones([1, 1, 1, 1]), tf.ones([2, 2, 1, 1]), [1, 3, 3, 1], 2, "VALID")
    >>> y[0, :, :, 0].numpy().tolist()
    [[1.0, 0.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 1.0]]
    """
    return conv2d_transpose(value, filters, output_shape, 1, padding, dilations=_rate(rate))


# -- one filter for each channel -------------------------------------------------------------------------------------
def _depthwise_filters(y: Tensor, channels: int, op: str) -> Tensor:
    shape = tuple(y.array.shape)
    if len(shape) != 4:
        raise errors.invalid_argument(f"filter must be 4-dimensional: {errors.brackets(shape)}", op)
    if shape[2] != channels:
        raise errors.invalid_argument(f"input and filter must have the same depth: {channels} vs {shape[2]}", op)
    result: Tensor = array.reshape(y, shape=(*shape[:2], 1, shape[2] * shape[3]))
    return result


def depthwise_conv2d(
    input: TensorLike,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Compute a convolution of each channel with its own filters [height, width, channels, multiplier].

    >>> image = [[[[1.0, 2.0], [3.0, 4.0]]]]
    >>> tf.nn.depthwise_conv2d(image, [[[[1.0], [10.0]]]], [1, 1, 1, 1], "VALID").numpy().ravel().tolist()
    [1.0, 20.0, 3.0, 40.0]
    """
    x, y = hinted_operands(input, filter)
    op = "DepthwiseConv2dNative"
    _listed(strides, 2, "strides", op)
    if len(x.array.shape) != 4:
        raise errors.invalid_argument(f"input must be 4-dimensional: {errors.brackets(x.array.shape)}", op)
    second = channels_second(data_format, 2, op)
    filters = _depthwise_filters(y, x.array.shape[1 if second else -1], op)
    return _convolve(x, filters, 2, strides, padding, data_format, dilations, op, explicit=True)


def depthwise_conv2d_backprop_input(
    input_sizes: Any,
    filter: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Compute the gradient of `depthwise_conv2d` with respect to its input.

    >>> w, g = tf.ones([2, 2, 1, 1]), tf.ones([1, 1, 1, 1])
    >>> tf.nn.depthwise_conv2d_backprop_input([1, 2, 2, 1], w, g, [1] * 4, "VALID")[0, :, :, 0].numpy().tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    z, y = operands(out_backprop, filter)
    wanted = shape_of(input_sizes)
    op = "DepthwiseConv2dNativeBackpropInput"
    second = channels_second(data_format, 2, op)
    filters = _depthwise_filters(y, wanted[1 if second else -1], op)
    return _transposed(z, filters, wanted, 2, strides, padding, data_format, dilations, op)


def depthwise_conv2d_backprop_filter(
    input: TensorLike,
    filter_sizes: Any,
    out_backprop: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
) -> Tensor:
    """Compute the gradient of `depthwise_conv2d` with respect to its filters.

    >>> x, g = tf.ones([1, 3, 3, 1]), tf.ones([1, 2, 2, 1])
    >>> tf.nn.depthwise_conv2d_backprop_filter(x, [2, 2, 1, 1], g, [1] * 4, "VALID")[:, :, 0, 0].numpy().tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    x, z = operands(input, out_backprop)
    op = "DepthwiseConv2dNativeBackpropFilter"
    second = channels_second(data_format, 2, op)
    steps = per_space_axis(strides, 2, second, "strides", op)
    rates = per_space_axis(dilations, 2, second, "dilations", op)
    if second:
        x, z = to_channels_last(x), to_channels_last(z)
    sizes = shape_of(filter_sizes)
    pairs = padding_pairs(padding, tuple(x.array.shape[1:-1]), sizes[:2], steps, rates, second, op)
    result = ops.conv_filter_grad(
        x, z, window=sizes[:2], strides=steps, dilations=rates, padding=pairs, groups=x.array.shape[-1]
    )
    shaped: Tensor = array.reshape(result, shape=sizes)
    return shaped


def separable_conv2d(
    input: TensorLike,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Compute a depthwise convolution followed by a pointwise one that mixes channels.

    >>> x = tf.ones([1, 2, 2, 2])
    >>> tf.nn.separable_conv2d(x, tf.ones([2, 2, 2, 1]), tf.ones([1, 1, 2, 1]), [1] * 4, "VALID").numpy().tolist()
    [[[[8.0]]]]
    """
    point = operand(pointwise_filter)
    if len(point.array.shape) != 4 or tuple(point.array.shape[:2]) != (1, 1):
        raise ValueError(
            f"Expected `pointwise_filter` of shape [1, 1, channels * multiplier, out channels]. Received: {point.shape}"
        )
    deep = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return _convolve(deep, point, 2, 1, "VALID", data_format, None, "Conv2D")


# -- morphology ------------------------------------------------------------------------------------------------------
def dilation2d(
    input: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str,
    dilations: Any,
    name: str | None = None,
) -> Tensor:
    """Compute a grayscale dilation: the maximum of input + filter in every window, for each channel.

    >>> image = [[[[1.0], [5.0], [2.0]]]]
    >>> tf.nn.dilation2d(image, [[[0.0], [0.0]]], [1, 1, 1, 1], "VALID", "NHWC", [1, 1, 1, 1]).numpy().ravel().tolist()
    [5.0, 5.0]
    """
    op = "Dilation2D"
    choice(data_format, "data_format", ("NHWC",))
    x, y = hinted_operands(input, filters)
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes(op, x.dtype, y.dtype)
    if x.array.dtype.kind not in "fiuV":
        raise errors.unsupported_dtype(op, x.dtype, "fiu")
    _listed(strides, 2, "strides", op)
    _listed(dilations, 2, "rates", op)
    if len(x.array.shape) != 4 or len(y.array.shape) != 3:
        raise errors.invalid_argument(
            f"input must be 4-dimensional and filter 3-dimensional: {errors.brackets(x.array.shape)} and "
            f"{errors.brackets(y.array.shape)}",
            op,
        )
    channels = x.array.shape[-1]
    if y.array.shape[-1] != channels:
        raise errors.invalid_argument(
            f"input and filter must have the same depth: {channels} vs {y.array.shape[-1]}", op
        )
    window, sizes = tuple(y.array.shape[:2]), tuple(x.array.shape[1:3])
    steps, rates = (
        per_space_axis(strides, 2, False, "strides", op),
        per_space_axis(dilations, 2, False, "dilations", op),
    )
    pairs = padding_pairs(padding, sizes, window, steps, rates, False, op, explicit=False)
    check_fit(sizes, window, steps, rates, pairs, op, inferred=False)
    how: dict[str, Any] = {"window": window, "strides": steps, "dilations": rates, "padding": pairs}
    sums = ops.conv_patches(x, **how) + y  # [batch, *out, *window, channels]
    if any(low or high for low, high in pairs):
        inside = numpy_namespace.conv_patches(np.ones((1, *sizes, 1), x.array.dtype), **how)
        sums = math.where(inside > 0, sums, _lowest(x))
    batch, rows, columns = sums.array.shape[:3]
    flat = array.reshape(sums, shape=(batch, rows, columns, prod(window), channels))
    first = reduce.argmax(array.stop_gradient(flat), axis=3)
    first = array.reshape(first, shape=(batch, rows, columns, 1, channels))
    chosen = index.take_along_axis(flat, first, axis=3)
    result: Tensor = array.reshape(chosen, shape=(batch, rows, columns, channels))
    return result


def _lowest(x: Tensor) -> Any:
    return x.dtype.min if x.dtype.is_integer else float("-inf")


def erosion2d(
    value: TensorLike,
    filters: TensorLike,
    strides: Any,
    padding: Any,
    data_format: str,
    dilations: Any,
    name: str | None = None,
) -> Tensor:
    """Compute a grayscale erosion: the minimum of value - flipped filter in every window.

    >>> x = tf.reshape(tf.range(9.0), [1, 3, 3, 1])
    >>> tf.nn.erosion2d(x, tf.zeros([2, 2, 1]), [1] * 4, "VALID", "NHWC", [1] * 4)[0, :, :, 0].numpy().tolist()
    [[-0.0, 1.0], [3.0, 4.0]]
    """
    x, y = hinted_operands(value, filters)
    if len(y.array.shape) != 3:
        raise errors.invalid_argument(f"filter must be 3-dimensional: {errors.brackets(y.array.shape)}", "Dilation2D")
    flipped = array.flip(y, axis=(0, 1))
    result: Tensor = -dilation2d(-x, flipped, strides, padding, data_format, dilations)
    return result
