"""Pooling: the maximum or the mean of each window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import operand
from gradtape._src.dtypes import float32
from gradtape._src.ops import array, convolution as ops
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import choice, flag, index_type, shape_of, tensor_or
from gradtape._src.tf.array import cast
from gradtape._src.tf.windows import (
    CHANNELS_LAST,
    channels_second,
    check_fit,
    padding_pairs,
    per_axis,
    per_space_axis,
    same_padding,
    to_channels_last,
    to_channels_second,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


_REAL = ("float16", "bfloat16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16")


class _Windows(NamedTuple):
    """The arguments of pooling: the images, channels last, the primitive's attributes, and how to
    restore the layout.
    """

    x: Tensor
    how: dict[str, Any]
    second: bool
    depth: bool


def _pooling(
    input: Any, n: int, ksize: Any, strides: Any, padding: Any, data_format: Any, dilations: Any, op: str
) -> _Windows:
    x = operand(input)
    second = channels_second(data_format, n, op)
    if len(x.array.shape) != n + 2:
        raise errors.invalid_argument(
            f"tensor_in_shape must have {n} spatial dimensions. Received shape {errors.brackets(x.array.shape)}, "
            f"where {n + 2} axes are expected",
            op,
        )
    first, *window, channels = per_axis(ksize, n, second, "ksize")
    if first != 1:
        raise errors.UnimplementedError(None, None, f"Pooling is not yet supported on the batch dimension. [Op:{op}]")
    first, *steps, channel_steps = per_axis(strides, n, second, "strides")
    if first != 1:
        raise errors.UnimplementedError(None, None, f"Pooling is not yet supported on the batch dimension. [Op:{op}]")
    if any(k < 1 for k in (*window, channels)):
        raise errors.invalid_argument(f"Sliding window ksize must be positive. Received: ksize={ksize}", op)
    if any(s < 1 for s in (*steps, channel_steps)):
        raise errors.invalid_argument(f"Sliding window strides must be positive. Received: strides={strides}", op)
    rates = per_space_axis(dilations, n, second, "dilations", op)
    if second:
        x = to_channels_last(x)
    sizes = tuple(x.array.shape[1:-1])
    pairs = padding_pairs(padding, sizes, tuple(window), tuple(steps), rates, second, op, explicit=op == "MaxPool")
    check_fit(sizes, tuple(window), tuple(steps), rates, pairs, op)
    depth = channels != 1 or channel_steps != 1
    if depth:  # channels are one more spatial axis
        pair = same_padding(x.array.shape[-1], channels, channel_steps, 1) if padding == "SAME" else (0, 0)
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
    return to_channels_second(result) if windows.second else result


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
    """Compute the maximum of every window of [batch, width, channels].

    >>> tf.nn.max_pool1d(tf.reshape([1.0, 3.0, 5.0, 7.0], [1, 4, 1]), 2, 2, "VALID")[0, :, 0].numpy().tolist()
    [3.0, 7.0]
    """
    return _max(input, 1, ksize, strides, padding, data_format)


def max_pool2d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Compute the maximum of every window of [batch, height, width, channels]; for ties, the first gets the gradient.

    >>> tf.nn.max_pool2d([[[[1.0], [2.0]], [[3.0], [4.0]]]], 2, 2, "VALID").numpy().ravel().tolist()
    [4.0]
    """
    return _max(input, 2, ksize, strides, padding, data_format)


def max_pool3d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """Compute the maximum of every window of a volume.

    >>> tf.nn.max_pool3d(tf.reshape(tf.range(8.0), [1, 2, 2, 2, 1]), 2, 2, "VALID").numpy().item()
    7.0
    """
    return _max(input, 3, ksize, strides, padding, data_format)


def avg_pool1d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Tensor:
    """Compute the mean of every window of [batch, width, channels].

    >>> tf.nn.avg_pool1d(tf.reshape([1.0, 3.0, 5.0, 7.0], [1, 4, 1]), 2, 2, "VALID")[0, :, 0].numpy().tolist()
    [2.0, 6.0]
    """
    return _average(input, 1, ksize, strides, padding, data_format)


def avg_pool2d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Tensor:
    """Compute the mean of every window of [batch, height, width, channels]; padding does not count.

    >>> tf.nn.avg_pool2d([[[[1.0], [2.0]], [[3.0], [4.0]]]], 2, 1, "SAME").numpy().ravel().tolist()
    [2.5, 3.0, 3.5, 4.0]
    """
    return _average(input, 2, ksize, strides, padding, data_format)


def avg_pool3d(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Tensor:
    """Compute the mean of every window of a volume.

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
    """Compute the maximum of every window; the rank of the input determines the number of spatial axes.

    >>> tf.nn.max_pool(tf.reshape(tf.range(16.0), [1, 4, 4, 1]), 2, 2, "VALID")[0, :, :, 0].numpy().tolist()
    [[5.0, 7.0], [13.0, 15.0]]
    """
    n = _axes_of_space(operand(input))
    return _max(input, n, ksize, strides, padding, data_format)


def avg_pool(
    input: TensorLike, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Tensor:
    """Compute the mean of every window; the rank of the input determines the number of spatial axes.

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
    """Pool with "MAX" or "AVG" over one, two or three spatial axes.

    >>> tf.nn.pool([[[1.0], [3.0], [2.0]]], [2], "AVG").numpy().ravel().tolist()
    [2.0, 2.5]
    """
    window = shape_of(window_shape)
    n = len(window)
    if not isinstance(pooling_type, str):
        raise TypeError(f"Expected a string for argument 'pooling_type', but got {pooling_type!r}.")
    if pooling_type not in ("MAX", "AVG") or n not in CHANNELS_LAST:
        raise ValueError(f'{n}-D {pooling_type} pooling is not supported. Types are "MAX" and "AVG", over 1 to 3 axes.')
    function = _max if pooling_type == "MAX" else _average
    return function(input, n, window, strides, padding, data_format, dilations)


class MaxPoolWithArgmax(NamedTuple):
    """The maxima of windows, and their positions."""

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
    """Compute the maximum of every window and its flat index, (y * width + x) * channels + channel.

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
