"""Convolution, pooling and what rearranges space: TensorFlow's names over the primitives.

Every function takes channels last (NWC, NHWC, NDHWC) or second (NCW, NCHW, NCDHW), and padding as "SAME", "VALID" or a
list of pairs, one for each axis.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.conversion import hinted_operands, operand, operands, wrap
from gradtape._src.core.primitive import narrowed, widened
from gradtape._src.dtypes import float32
from gradtape._src.ops import array, convolution as ops, index, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import (
    allowed_text,
    as_int,
    choice,
    flag,
    index_type,
    integers,
    number,
    shape_of,
    tensor_or,
    text,
)
from gradtape._src.tf.array import cast

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

Axes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

_REAL = ("float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16")
_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
_SECOND = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


# -- reading arguments -----------------------------------------------------------------------------------------------
def _channels_second(data_format: Any, n: int, op: str) -> bool:
    """Whether a data_format says that channels come second; None means last."""
    if data_format is None:
        return False
    if n == 1 and op.startswith("Conv"):
        return choice(data_format, "data_format", ("NWC", "NCW")) == "NCW"
    return allowed_text(data_format, "data_format", (_LAST.get(n, ""), _SECOND.get(n, "")), op) == _SECOND.get(n)


def _numbers(value: Any, n: int, second: bool, name: str) -> Axes:
    """A stride, dilation or window argument as one int for each axis: batch, space, channels."""
    if value is None:
        return (1,) * (n + 2)
    if isinstance(value, Tensor) and not value.array.shape:
        raise TypeError(f"Cannot iterate over a scalar tensor: {name} must be an int or a list of ints, got {value!r}.")
    members = list(value) if _is_sized(value) else [value]
    if len(members) not in (1, n, n + 2):
        raise ValueError(
            f"{name} should be of length 1, {n} or {n + 2}. Received: {name}={value} of length {len(members)}"
        )
    given = [as_int(member, name) for member in members]
    if any(v >= 2**31 for v in given):
        raise OverflowError(f"{name} is too large: {value}")
    if len(given) == n + 2:
        return (given[0], *given[2:], given[1]) if second else tuple(given)
    return (1, *(given * n if len(given) == 1 else given), 1)


def _is_sized(value: Any) -> bool:
    if isinstance(value, Tensor):
        return bool(value.array.shape)
    return hasattr(value, "__len__") and not (isinstance(value, np.ndarray) and not value.ndim)


def _listed(value: Any, n: int, name: str, op: str) -> Any:
    """A stride or dilation argument that must name every axis."""
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"Expected list for '{name}' argument to '{op}' Op, not {value!r}.")
    if len(value) != n + 2:
        raise errors.invalid_argument(f"Sliding window {name} field must specify {n + 2} dimensions", op)
    return value


def _space(value: Any, n: int, second: bool, name: str, op: str) -> Axes:
    """The part of a stride or dilation argument that belongs to space: the rest must be 1."""
    first, *space, last = _numbers(value, n, second, name)
    if first != 1 or last != 1:
        raise errors.UnimplementedError(
            None,
            None,
            f"Current implementation does not yet support {name} in the batch and depth dimensions. "
            f"Received: {name}={value} [Op:{op}]",
        )
    if any(v < 1 for v in space):
        raise errors.invalid_argument(f"Row and column {name} should be larger than 0. Received: {name}={value}", op)
    return tuple(space)


def _same(size: int, window: int, stride: int, dilation: int) -> tuple[int, int]:
    total = max((-(-size // stride) - 1) * stride + (window - 1) * dilation + 1 - size, 0)
    return total // 2, total - total // 2


def _pairs(
    padding: Any,
    sizes: Axes,
    window: Axes,
    strides: Axes,
    dilations: Axes,
    second: bool,
    op: str,
    explicit: bool = True,
) -> Pairs:
    """A padding argument as a pair for each axis of space; not every op takes a list (`explicit`)."""
    if not isinstance(padding, (list, tuple)):
        padding = text(padding, "padding")
        if padding == "VALID":
            return ((0, 0),) * len(sizes)
        if padding == "SAME":
            return tuple(map(_same, sizes, window, strides, dilations))
        raise errors.invalid_argument(
            f"Value for attr 'padding' of \"{padding}\" is not in the list of allowed values: "
            '"SAME", "VALID", "EXPLICIT". Give one of the first two, or a list of pairs',
            op,
        )
    n = len(sizes)
    if not explicit:
        raise TypeError(f"Expected string for argument 'padding' not {padding!r}.")
    if any(not isinstance(pair, (list, tuple)) or len(pair) != 2 for pair in padding):
        raise ValueError(
            "When padding is a list, each element of padding must be a list/tuple of size 2. "
            f"Received: padding={padding}"
        )
    if len(padding) != n + 2:
        raise ValueError(
            f"When padding is a list, it must be of size {n + 2}. Received: padding={padding} of size {len(padding)}"
        )
    first, *rest = [tuple(as_int(v, "explicit_paddings") for v in pair) for pair in padding]
    last = rest.pop(0 if second else -1)
    if any(first) or any(last):
        raise errors.invalid_argument(
            f"Nonzero explicit padding in the batch or depth dimensions is not supported. Received: {padding}", op
        )
    if any(v < 0 for pair in rest for v in pair):
        raise errors.invalid_argument(f"All elements of explicit_paddings must be nonnegative. Received: {padding}", op)
    return tuple((low, high) for low, high in rest)


def _check_fit(
    sizes: Axes, window: Axes, strides: Axes, dilations: Axes, pairs: Pairs, op: str, inferred: bool = True
) -> None:
    """Refuse windows that are larger than the padded image, but in eager code only by more than a stride."""
    traced = inferred and current_graph() is not None  # TensorFlow's functions infer shapes before they run
    for size, k, s, d, (low, high) in zip(sizes, window, strides, dilations, pairs, strict=True):
        reach, padded = (k - 1) * d + 1, size + low + high
        if traced and type(padded) is int and padded < reach:
            raise ValueError(f"Negative dimension size caused by subtracting {reach} from {padded} [Op:{op}]")
        room = padded - reach + s
        if room <= -s:
            raise errors.invalid_argument(
                f"Computed output size would be negative: {-(-room // s)} [input_size: {size}, "
                f"effective_filter_size: {reach}, stride: {s}]",
                op,
            )


def _to_last(x: Tensor) -> Tensor:
    rank = len(x.array.shape)
    result: Tensor = array.transpose(x, perm=(0, *range(2, rank), 1))
    return result


def _to_second(x: Tensor) -> Tensor:
    rank = len(x.array.shape)
    result: Tensor = array.transpose(x, perm=(0, rank - 1, *range(1, rank - 1)))
    return result


def _images(x: Tensor, n: int, op: str) -> tuple[Tensor, Axes]:
    """One axis for the batch, and the axes it was made of."""
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
    second = _channels_second(data_format, n, op)
    steps = _space(strides, n, second, stride_name, op)
    rates = _space(dilations, n, second, "dilations", op)
    x, lead = _images(x, n, op)
    if second:
        x = _to_last(x)
    *window, depth, channels = y.array.shape
    _, *sizes, have = x.array.shape
    if not depth or have % depth:
        raise errors.invalid_argument(f"input depth must be evenly divisible by filter depth: {have} vs {depth}", op)
    groups = max(have // depth, 1)
    if channels % groups:
        raise errors.invalid_argument(
            f"output depth must be evenly divisible by number of groups: {channels} vs {groups}", op
        )
    pairs = _pairs(padding, tuple(sizes), tuple(window), steps, rates, second, op, explicit)
    _check_fit(tuple(sizes), tuple(window), steps, rates, pairs, op)
    result: Tensor = ops.conv(x, y, strides=steps, dilations=rates, padding=pairs, groups=groups)
    if second:
        result = _to_second(result)
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

    Filters with fewer channels than the images are applied group by group.

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
    """Convolution over one, two or three spatial axes; the rank of the filters decides.

    >>> tf.nn.convolution([[[1.0], [2.0], [4.0]]], [[[1.0]], [[10.0]]]).numpy().ravel().tolist()
    [21.0, 42.0]
    """
    x, y = hinted_operands(input, filters)
    n = len(y.array.shape) - 2
    if n not in _LAST:
        raise ValueError(
            f"`filters` must be a tensor with 3, 4 or 5 axes (one, two or three of space). Received: "
            f"filters.shape={y.shape}"
        )
    op = "Conv3D" if n == 3 else "Conv2D"
    return _convolve(x, y, n, strides, padding, data_format, dilations, op)


def atrous_conv2d(
    value: TensorLike, filters: TensorLike, rate: TensorLike, padding: Any, name: str | None = None
) -> Tensor:
    """A dilated convolution: `rate` - 1 positions are skipped between the taps of the filters.

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
    """The input of a transposed convolution must fit the output shape and the filters."""
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
    second = _channels_second(data_format, n, op)
    steps = _space(strides, n, second, "strides", op)
    rates = _space(dilations, n, second, "dilations", op)
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
        z, wanted = _to_last(z), (wanted[0], *wanted[2:], wanted[1])
    batch, *sizes, channels = wanted
    *window, depth, inputs = y.array.shape
    have = tuple(z.array.shape)
    _check_transposed(have, batch, inputs, depth, channels, op)
    pairs = _pairs(padding, tuple(sizes), tuple(window), steps, rates, second, op, explicit=n == 2)
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
    return _to_second(result) if second else result


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
    """The transpose of `conv1d`: filters are [width, out channels, channels].

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
    """The transpose of `conv2d` (often called deconvolution): filters are [height, width, out channels, channels].

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
    """The transpose of `conv3d`.

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
    """The transpose of `convolution`; the output shape decides the number of spatial axes.

    >>> x = tf.reshape([1.0, 2.0], [1, 2, 1])
    >>> tf.nn.conv_transpose(x, tf.ones([2, 1, 1]), [1, 4, 1], strides=2)[0, :, 0].numpy().tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    n = len(shape_of(output_shape)) - 2
    if n not in _LAST:
        raise ValueError(
            f"output_shape must be of length 3, 4 or 5. Received: output_shape={output_shape} of length {n + 2}."
        )
    op = "Conv3DBackpropInputV2" if n == 3 else "Conv2DBackpropInput"
    return _transposed(input, filters, output_shape, n, strides, padding, data_format, dilations, op)


def atrous_conv2d_transpose(
    value: TensorLike, filters: TensorLike, output_shape: Any, rate: TensorLike, padding: Any, name: str | None = None
) -> Tensor:
    """The transpose of `atrous_conv2d`.

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
    """A convolution of each channel with its own filters [height, width, channels, multiplier].

    >>> image = [[[[1.0, 2.0], [3.0, 4.0]]]]
    >>> tf.nn.depthwise_conv2d(image, [[[[1.0], [10.0]]]], [1, 1, 1, 1], "VALID").numpy().ravel().tolist()
    [1.0, 20.0, 3.0, 40.0]
    """
    x, y = hinted_operands(input, filter)
    op = "DepthwiseConv2dNative"
    _listed(strides, 2, "strides", op)
    if len(x.array.shape) != 4:
        raise errors.invalid_argument(f"input must be 4-dimensional: {errors.brackets(x.array.shape)}", op)
    second = _channels_second(data_format, 2, op)
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
    """The gradient of `depthwise_conv2d` with respect to its input.

    >>> w, g = tf.ones([2, 2, 1, 1]), tf.ones([1, 1, 1, 1])
    >>> tf.nn.depthwise_conv2d_backprop_input([1, 2, 2, 1], w, g, [1] * 4, "VALID")[0, :, :, 0].numpy().tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    z, y = operands(out_backprop, filter)
    wanted = shape_of(input_sizes)
    op = "DepthwiseConv2dNativeBackpropInput"
    second = _channels_second(data_format, 2, op)
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
    """The gradient of `depthwise_conv2d` with respect to its filters.

    >>> x, g = tf.ones([1, 3, 3, 1]), tf.ones([1, 2, 2, 1])
    >>> tf.nn.depthwise_conv2d_backprop_filter(x, [2, 2, 1, 1], g, [1] * 4, "VALID")[:, :, 0, 0].numpy().tolist()
    [[4.0, 4.0], [4.0, 4.0]]
    """
    x, z = operands(input, out_backprop)
    op = "DepthwiseConv2dNativeBackpropFilter"
    second = _channels_second(data_format, 2, op)
    steps = _space(strides, 2, second, "strides", op)
    rates = _space(dilations, 2, second, "dilations", op)
    if second:
        x, z = _to_last(x), _to_last(z)
    sizes = shape_of(filter_sizes)
    pairs = _pairs(padding, tuple(x.array.shape[1:-1]), sizes[:2], steps, rates, second, op)
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
    """A depthwise convolution, then a pointwise one that mixes channels.

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
    """Greyscale dilation: the largest of input + filter in every window, channel by channel.

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
    steps, rates = _space(strides, 2, False, "strides", op), _space(dilations, 2, False, "dilations", op)
    pairs = _pairs(padding, sizes, window, steps, rates, False, op, explicit=False)
    _check_fit(sizes, window, steps, rates, pairs, op, inferred=False)
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
    """Greyscale erosion: the smallest of value - flipped filter in every window.

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


# -- pooling ---------------------------------------------------------------------------------------------------------
class _Windows(NamedTuple):
    """How to pool: the images with channels last, the attributes of the primitive, and how to restore the layout."""

    x: Tensor
    how: dict[str, Any]
    second: bool
    depth: bool


def _pooling(
    input: Any, n: int, ksize: Any, strides: Any, padding: Any, data_format: Any, dilations: Any, op: str
) -> _Windows:
    x = operand(input)
    second = _channels_second(data_format, n, op)
    if len(x.array.shape) != n + 2:
        raise errors.invalid_argument(
            f"tensor_in_shape must have {n} spatial dimensions. Received shape {errors.brackets(x.array.shape)}, "
            f"where {n + 2} axes are expected",
            op,
        )
    first, *window, channels = _numbers(ksize, n, second, "ksize")
    if first != 1:
        raise errors.UnimplementedError(None, None, f"Pooling is not yet supported on the batch dimension. [Op:{op}]")
    first, *steps, channel_steps = _numbers(strides, n, second, "strides")
    if first != 1:
        raise errors.UnimplementedError(None, None, f"Pooling is not yet supported on the batch dimension. [Op:{op}]")
    if any(k < 1 for k in (*window, channels)):
        raise errors.invalid_argument(f"Sliding window ksize must be positive. Received: ksize={ksize}", op)
    if any(s < 1 for s in (*steps, channel_steps)):
        raise errors.invalid_argument(f"Sliding window strides must be positive. Received: strides={strides}", op)
    rates = _space(dilations, n, second, "dilations", op)
    if second:
        x = _to_last(x)
    sizes = tuple(x.array.shape[1:-1])
    pairs = _pairs(padding, sizes, tuple(window), tuple(steps), rates, second, op, explicit=op == "MaxPool")
    _check_fit(sizes, tuple(window), tuple(steps), rates, pairs, op)
    depth = channels != 1 or channel_steps != 1
    if depth:  # channels are one more axis of space
        pair = _same(x.array.shape[-1], channels, channel_steps, 1) if padding == "SAME" else (0, 0)
        x = array.reshape(x, shape=(*x.array.shape, 1))
        window, steps, rates, pairs = [*window, channels], [*steps, channel_steps], (*rates, 1), (*pairs, pair)
    for (low, high), k, d in zip(pairs, window, rates, strict=True):
        if max(low, high) > (k - 1) * d:
            raise errors.invalid_argument(
                f"Padding {max(low, high)} needs to be smaller than the window size {k}: a window would hold "
                "nothing but padding",
                op,
            )
    how = {"window": tuple(window), "strides": tuple(steps), "dilations": rates, "padding": pairs}
    return _Windows(x, how, second, depth)


def _pooled(result: Any, windows: _Windows) -> Tensor:
    if windows.depth:
        result = array.reshape(result, shape=result.array.shape[:-1])
    return _to_second(result) if windows.second else result


def _max(input: Any, n: int, ksize: Any, strides: Any, padding: Any, data_format: Any, dilations: Any = None) -> Tensor:
    x = tensor_or(input, float32, _REAL) if n == 2 and isinstance(input, np.ndarray) else input
    windows = _pooling(x, n, ksize, strides, padding, data_format, dilations, "MaxPool3D" if n == 3 else "MaxPool")
    if not (windows.x.dtype.is_floating or windows.x.dtype.is_integer):
        raise errors.unsupported_dtype("MaxPool", windows.x.dtype, "fiu")
    return _pooled(ops.max_pool(windows.x, **windows.how), windows)


def _average(
    input: Any, n: int, ksize: Any, strides: Any, padding: Any, data_format: Any, dilations: Any = None
) -> Tensor:
    op = "AvgPool3D" if n == 3 else "AvgPool"
    windows = _pooling(input, n, ksize, strides, padding, data_format, dilations, op)
    x = windows.x
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype(op, x.dtype, "f")
    few_bits = x.dtype.size < 4
    result = ops.avg_pool(cast(x, "float32") if few_bits else x, **windows.how)
    return _pooled(cast(result, x.dtype) if few_bits else result, windows)


def max_pool1d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """The largest of every window of [batch, width, channels].

    >>> tf.nn.max_pool1d(tf.reshape([1.0, 3.0, 5.0, 7.0], [1, 4, 1]), 2, 2, "VALID")[0, :, 0].numpy().tolist()
    [3.0, 7.0]
    """
    return _max(input, 1, ksize, strides, padding, data_format)


def max_pool2d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """The largest of every window of [batch, height, width, channels]; of equal ones the first gets the gradient.

    >>> tf.nn.max_pool2d([[[[1.0], [2.0]], [[3.0], [4.0]]]], 2, 2, "VALID").numpy().ravel().tolist()
    [4.0]
    """
    return _max(input, 2, ksize, strides, padding, data_format)


def max_pool3d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """The largest of every window of a volume.

    >>> tf.nn.max_pool3d(tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1]), 2, 2, "VALID").numpy().item()
    7.0
    """
    return _max(input, 3, ksize, strides, padding, data_format)


def avg_pool1d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """The mean of every window of [batch, width, channels].

    >>> tf.nn.avg_pool1d(tf.reshape([1.0, 3.0, 5.0, 7.0], [1, 4, 1]), 2, 2, "VALID")[0, :, 0].numpy().tolist()
    [2.0, 6.0]
    """
    return _average(input, 1, ksize, strides, padding, data_format)


def avg_pool2d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """The mean of every window of [batch, height, width, channels]; padding does not count.

    >>> tf.nn.avg_pool2d([[[[1.0], [2.0]], [[3.0], [4.0]]]], 2, 1, "SAME").numpy().ravel().tolist()
    [2.5, 3.0, 3.5, 4.0]
    """
    return _average(input, 2, ksize, strides, padding, data_format)


def avg_pool3d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """The mean of every window of a volume.

    >>> tf.nn.avg_pool3d(tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1]), 2, 2, "VALID").numpy().item()
    3.5
    """
    return _average(input, 3, ksize, strides, padding, data_format)


def _axes_of_space(x: Tensor) -> int:
    rank = len(x.array.shape)
    if rank not in (3, 4, 5):
        raise ValueError(f"`input.shape.rank` must be 3, 4 or 5. Received: input.shape={x.shape} of rank {rank}.")
    return rank - 2


def max_pool(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """The maximum of every window; the rank of the input decides the number of spatial axes.

    >>> tf.nn.max_pool(tf.reshape(tf.range(16.0), [1, 4, 4, 1]), 2, 2, "VALID")[0, :, :, 0].numpy().tolist()
    [[5.0, 7.0], [13.0, 15.0]]
    """
    n = _axes_of_space(operand(input))
    return _max(input, n, ksize, strides, padding, data_format)


def avg_pool(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """The mean of every window; the rank of the input decides the number of spatial axes.

    >>> tf.nn.avg_pool(tf.reshape(tf.range(16.0), [1, 4, 4, 1]), 2, 2, "VALID")[0, :, :, 0].numpy().tolist()
    [[2.5, 4.5], [10.5, 12.5]]
    """
    x = operand(input)
    return _average(x, _axes_of_space(x), ksize, strides, padding, data_format)


def pool(
    input: TensorLike,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Tensor:
    """Pooling of type "MAX" or "AVG" over one, two or three spatial axes.

    >>> tf.nn.pool([[[1.0], [3.0], [2.0]]], [2], "AVG").numpy().ravel().tolist()
    [2.0, 2.5]
    """
    window = shape_of(window_shape)
    n = len(window)
    if not isinstance(pooling_type, str):
        raise TypeError(f"Expected a string for argument 'pooling_type', but got {pooling_type!r}.")
    if pooling_type not in ("MAX", "AVG") or n not in _LAST:
        raise ValueError(f'{n}-D {pooling_type} pooling is not supported. Types are "MAX" and "AVG", over 1 to 3 axes.')
    function = _max if pooling_type == "MAX" else _average
    return function(input, n, window, strides, padding, data_format, dilations)


class MaxPoolWithArgmax(NamedTuple):
    """The maxima of windows, and where they were."""

    output: Any
    argmax: Any


def max_pool_with_argmax(
    input: TensorLike,
    ksize: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    output_dtype: Any = "int64",
    include_batch_in_index: bool = False,
    name: str | None = None,
) -> MaxPoolWithArgmax:
    """The largest of every window and its flat index (y * width + x) * channels + channel.

    >>> tf.nn.max_pool_with_argmax(
    ...     [[[[1.0], [5.0], [2.0], [3.0]]]], [1, 2], [1, 2], "VALID"
    ... ).argmax.numpy().ravel().tolist()
    [1, 3]
    """
    kind = index_type(output_dtype, "MaxPoolWithArgmax", "Targmax", "int64")
    choice(data_format, "data_format", ("NHWC",))
    windows = _pooling(input, 2, ksize, strides, padding, data_format, None, "MaxPoolWithArgmax")
    output, where = ops.max_and_position(
        windows.x, within_batch=flag(include_batch_in_index, "include_batch_in_index"), dtype=kind, **windows.how
    )
    return MaxPoolWithArgmax(_pooled(output, windows), _pooled(where, windows))


# -- rearranging space -----------------------------------------------------------------------------------------------
def _block(block_size: Any, op: str) -> int:
    size = as_int(block_size, "block_size")
    if size < 2:
        raise errors.invalid_argument(f"Value for attr 'block_size' of {size} must be at least minimum 2", op)
    return size


def _four_axes(x: Tensor, op: str) -> Axes:
    shape = tuple(x.array.shape)
    if len(shape) != 4:
        raise errors.invalid_argument(f"Input rank should be 4 instead of {len(shape)}", op)
    return shape


def space_to_depth(input: TensorLike, block_size: Any, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Blocks of pixels become channels.

    >>> tf.nn.space_to_depth([[[[1.0], [2.0]], [[3.0], [4.0]]]], 2).numpy().ravel().tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    op = "SpaceToDepth"
    x, b = operand(input), _block(block_size, op)
    second = _channels_second(data_format, 2, op)
    _four_axes(x, op)
    if second:
        x = _to_last(x)
    batch, height, width, channels = x.array.shape
    if height % b or width % b:
        raise errors.invalid_argument(
            f"Image width {width} and height {height} should be divisible by block_size: {b}", op
        )
    split = array.reshape(x, shape=(batch, height // b, b, width // b, b, channels))
    moved = array.transpose(split, perm=(0, 1, 3, 2, 4, 5))
    result: Tensor = array.reshape(moved, shape=(batch, height // b, width // b, b * b * channels))
    return _to_second(result) if second else result


def depth_to_space(input: TensorLike, block_size: Any, data_format: str = "NHWC", name: str | None = None) -> Tensor:
    """Channels become blocks of pixels: the inverse of `space_to_depth`.

    >>> tf.nn.depth_to_space(tf.reshape([1, 2, 3, 4], [1, 1, 1, 4]), 2)[0, :, :, 0].numpy().tolist()
    [[1, 2], [3, 4]]
    """
    op = "DepthToSpace"
    x, b = operand(input), _block(block_size, op)
    second = _channels_second(data_format, 2, op)
    _four_axes(x, op)
    if second:
        x = _to_last(x)
    batch, height, width, channels = x.array.shape
    if channels % (b * b):
        raise errors.invalid_argument(f"Input depth dimension {channels} should be divisible by: {b * b}", op)
    split = array.reshape(x, shape=(batch, height, width, b, b, channels // (b * b)))
    moved = array.transpose(split, perm=(0, 1, 3, 2, 4, 5))
    result: Tensor = array.reshape(moved, shape=(batch, height * b, width * b, channels // (b * b)))
    return _to_second(result) if second else result


def _blocks(block_shape: Any, pairs: Any, name: str, op: str) -> tuple[Axes, Pairs]:
    if isinstance(block_shape, int) and name == "crops":  # TensorFlow takes a number there, and not in space_to_batch
        block_shape = [block_shape, block_shape]
    plain, table = integers(block_shape, op, "Tblock_shape"), integers(pairs, op, f"T{name}")
    if np.ndim(table) != 2 or np.ndim(plain) != 1:
        raise errors.invalid_argument(f"{name} should be a matrix of pairs, and block_shape a vector", op)
    amounts = np.asarray(table).tolist()
    blocks = shape_of(plain)
    if len(amounts) != len(blocks) or any(len(pair) != 2 for pair in amounts):
        raise errors.invalid_argument(
            f"{name} should have shape [{len(blocks)}, 2]: a pair for each of the {len(blocks)} blocks", op
        )
    if any(b < 1 for b in blocks) or any(v < 0 for pair in amounts for v in pair):
        raise errors.invalid_argument(f"block_shape must be positive and {name} non-negative", op)
    return blocks, tuple((low, high) for low, high in amounts)


def space_to_batch(input: TensorLike, block_shape: Any, paddings: TensorLike, name: str | None = None) -> Tensor:
    """Pixels of blocks become images of their own.

    >>> tf.space_to_batch([[[[1], [2]], [[3], [4]]]], [2, 2], [[0, 0], [0, 0]]).numpy().ravel().tolist()
    [1, 2, 3, 4]
    """
    op = "SpaceToBatchND"
    x = operand(input)
    blocks, pairs = _blocks(block_shape, paddings, "paddings", op)
    n, shape = len(blocks), tuple(x.array.shape)
    if len(shape) < n + 1:
        raise errors.invalid_argument(f"input rank should be >= {n + 1} instead of {len(shape)}", op)
    rest = shape[n + 1 :]
    if any(low or high for low, high in pairs):
        before = (0, *(low for low, _ in pairs), *[0] * len(rest))
        after = (0, *(high for _, high in pairs), *[0] * len(rest))
        x = array.pad(x, before=before, after=after)
    sizes = x.array.shape[1 : n + 1]
    for i, (size, b) in enumerate(zip(sizes, blocks, strict=True)):
        if size % b:
            raise errors.invalid_argument(f"padded_shape[{i}]={size} is not divisible by block_shape[{i}]={b}", op)
    split = [v for size, b in zip(sizes, blocks, strict=True) for v in (size // b, b)]
    x = array.reshape(x, shape=(shape[0], *split, *rest))
    perm = (*range(2, 2 * n + 1, 2), 0, *range(1, 2 * n + 1, 2), *range(2 * n + 1, 2 * n + 1 + len(rest)))
    x = array.transpose(x, perm=perm)
    outer = tuple(size // b for size, b in zip(sizes, blocks, strict=True))
    result: Tensor = array.reshape(x, shape=(prod(blocks) * shape[0], *outer, *rest))
    return result


space_to_batch_nd = space_to_batch


def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The paddings that make dimensions divisible by blocks, at least `base_paddings`, and the crops that undo them.

    >>> paddings, crops = tf.required_space_to_batch_paddings([3, 4], [2, 2])
    >>> paddings.numpy().tolist(), crops.numpy().tolist()
    ([[0, 1], [0, 0]], [[0, 1], [0, 0]])
    """
    sizes, blocks = (np.asarray(integers(given, "SpaceToBatchND")) for given in (input_shape, block_shape))
    base = np.zeros((len(blocks), 2), np.int32) if base_paddings is None else integers(base_paddings, "SpaceToBatchND")
    start, end = np.asarray(base).T
    more = -(sizes + start + end) % blocks
    paddings, crops = (np.stack(pair, 1).astype(np.int32) for pair in ((start, end + more), (0 * more, more)))
    return wrap(paddings), wrap(crops)


def batch_to_space(input: TensorLike, block_shape: Any, crops: Any, name: str | None = None) -> Tensor:
    """Images become the pixels of blocks: the inverse of `space_to_batch`.

    >>> tf.batch_to_space([[[[1]]], [[[2]]], [[[3]]], [[[4]]]], [2, 2], [[0, 0], [0, 0]]).numpy().ravel().tolist()
    [1, 2, 3, 4]
    """
    op = "BatchToSpaceND"
    x = operand(input)
    blocks, pairs = _blocks(block_shape, crops, "crops", op)
    n, shape = len(blocks), tuple(x.array.shape)
    if len(shape) < n + 1:
        raise errors.invalid_argument(f"input rank should be >= {n + 1} instead of {len(shape)}", op)
    if shape[0] % prod(blocks):
        raise errors.invalid_argument(
            f"Input batch dimension ({shape[0]}) is not divisible by product of block sizes ({prod(blocks)})", op
        )
    batch, sizes, rest = shape[0] // prod(blocks), shape[1 : n + 1], shape[n + 1 :]
    x = array.reshape(x, shape=(*blocks, batch, *sizes, *rest))
    between = [v for i in range(n) for v in (n + 1 + i, i)]
    x = array.transpose(x, perm=(n, *between, *range(2 * n + 1, 2 * n + 1 + len(rest))))
    whole = tuple(size * b for size, b in zip(sizes, blocks, strict=True))
    x = array.reshape(x, shape=(batch, *whole, *rest))
    if any(low or high for low, high in pairs):
        if any(low + high > size for (low, high), size in zip(pairs, whole, strict=True)):
            raise errors.invalid_argument(f"crops {list(pairs)} are larger than the result {list(whole)}", op)
        keep = [slice(low, size - high) for (low, high), size in zip(pairs, whole, strict=True)]
        x = array.getitem(x, index=(slice(None), *keep))
    return x


def local_response_normalization(
    input: TensorLike,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """x / (bias + alpha * sum of squares over the channels nearby) ** beta.

    >>> print(tf.nn.local_response_normalization(tf.ones([1, 1, 1, 3]), depth_radius=1)[0, 0, 0].numpy().round(4))
    [0.5774 0.5    0.5774]
    """
    half = isinstance(input, np.ndarray) and input.dtype.itemsize == 2
    x = operand(input) if half else tensor_or(input, float32)
    if len(x.array.shape) != 4:
        raise errors.invalid_argument(
            f"in must be 4-dimensional. Received shape {errors.brackets(x.array.shape)}", "LRN"
        )
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype("LRN", x.dtype, "half, bfloat16, float")
    shape, r = tuple(x.array.shape), as_int(depth_radius, "depth_radius", 5)
    if not 0 <= r < 2**31:
        raise errors.invalid_argument(f"depth_radius = {r} is out of range", "LRN")
    r = min(r, shape[-1])  # a window beyond all channels sums what they have
    y = widened(x)
    rows = array.reshape(math.square(y), shape=(prod(shape[:-1]), shape[-1], 1))
    near = ops.sum_pool(rows, window=(2 * r + 1,), strides=(1,), dilations=(1,), padding=((r, r),))
    given = (("alpha", alpha, 1.0), ("bias", bias, 1.0), ("beta", beta, 0.5))
    scale, offset, power = (
        operand(otherwise if value is None else number(value, word), y.dtype) for word, value, otherwise in given
    )
    base = array.reshape(near, shape=shape) * scale + offset
    result: Tensor = narrowed(y * math.power(base, -power), x.array.dtype)
    return result


lrn = local_response_normalization
