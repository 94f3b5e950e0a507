"""`keras.ops.nn` over gradtape: activations, convolution and pooling, losses, normalisation, attention."""

from __future__ import annotations

import math as pymath
from itertools import product

import ml_dtypes
import numpy as np
from keras.src import backend
from keras.src.backend.common.backend_utils import (
    check_conv_input_channels,
    check_conv_transpose_input_channels,
    compute_conv_transpose_output_crops_for_torch,
)

from gradtape._src.arrays.checks import checked
from gradtape._src.conversion import wrap
from gradtape._src.distribute.context import get_replica_context
from gradtape._src.distribute.reduction import ReduceOp
from gradtape._src.dtypes import as_dtype
from gradtape._src.keras_backend import numpy as knp, ragged, sparse as sparsely
from gradtape._src.keras_backend._common import (
    along,
    axes_of,
    axis_of,
    broadcast,
    cast,
    constant,
    convert_to_tensor,
    cut,
    expand,
    flat,
    floats,
    look_up,
    move,
    promoted,
    result_type,
    shape as sizes_of,
    wide,
)
from gradtape._src.ops import (
    array as ops,
    convolution,
    linalg,
    math,
    nn as fused,
    normalization,
    reduce,
    special as activations,
)
from gradtape._src.ops.ragged import RaggedTensor
from gradtape._src.tf import convolution as tfconv, losses, pooling
from gradtape._src.tf.ctc_decoders import beams
from gradtape._src.tf.nn import LABELS, softmax as softmax_of_rows


# -- activations -----------------------------------------------------------------------------------------------------
def relu(x):
    return math.relu(convert_to_tensor(x))


def relu6(x):
    return activations.relu6(convert_to_tensor(x))


def sigmoid(x):
    return math.sigmoid(floats(x))


def sparse_sigmoid(x):
    x = floats(x)
    return math.minimum(math.maximum(0.5 * (x + 1), 0), 1)


def tanh(x):
    return math.tanh(floats(x))


def tanh_shrink(x):
    x = floats(x)
    return x - math.tanh(x)


def softplus(x):
    return math.softplus(floats(x))


def softsign(x):
    return activations.softsign(floats(x))


@ragged.elementwise
def soft_shrink(x, threshold=0.5):
    x = floats(x)
    return math.relu(x - threshold) - math.relu(-x - threshold)


@ragged.elementwise
def sparse_plus(x):
    x = floats(x)
    bend = 0.25 * math.square(x + 1)
    return math.where(math.less_equal(x, -1), knp.zeros_like(x), math.where(math.less(x, 1), bend, x))


def silu(x):
    return activations.silu(floats(x))


def squareplus(x, b=4):
    x = floats(x)
    return (x + math.sqrt(math.square(x) + convert_to_tensor(b, x.dtype))) / 2


def log_sigmoid(x):
    return -math.softplus(-floats(x))


@ragged.elementwise
def leaky_relu(x, negative_slope=0.2):
    return activations.leaky_relu(floats(x), alpha=float(negative_slope))


def hard_sigmoid(x):
    return math.minimum(math.maximum(floats(x) / 6 + 0.5, 0), 1)


def hard_silu(x):
    x = floats(x)
    return x * hard_sigmoid(x)


@ragged.elementwise
def elu(x, alpha=1.0):
    x = floats(x)
    if alpha == 1:
        return activations.elu(x)
    below = alpha * math.expm1(math.minimum(x, 0))
    return math.where(math.less(x, 0), below, x)


def selu(x):
    return activations.selu(floats(x))


def gelu(x, approximate=True):
    return (activations.gelu_tanh if approximate else activations.gelu)(floats(x))


def celu(x, alpha=1.0):
    x = floats(x)
    return math.maximum(x, 0) + alpha * math.expm1(math.minimum(x, 0) / alpha)


def glu(x, axis=-1):
    x = floats(x)
    if sizes_of(x)[axis] % 2:
        raise ValueError(f"axis size must be divisible by 2. Received: x.shape={sizes_of(x)} with axis={axis}")
    value, gate = knp.split(x, 2, axis)
    return value * math.sigmoid(gate)


def hard_tanh(x):
    return math.minimum(math.maximum(floats(x), -1), 1)


@ragged.elementwise
def hard_shrink(x, threshold=0.5):
    x = floats(x)
    return math.where(math.greater(math.absolute(x), threshold), x, knp.zeros_like(x))


def threshold(x, threshold, default_value):
    x = floats(x)
    return math.where(math.greater(x, threshold), x, constant(default_value, x))


@ragged.by(softmax_of_rows)
def softmax(x, axis=-1):
    return _along_one(fused.softmax, x, axis)


def log_softmax(x, axis=-1):
    return _along_one(fused.log_softmax, x, axis)


def _along_one(function, x, axis):
    """Apply a function along one axis or, for None, over all elements, flattened."""
    x = floats(x)
    if axis is None or not sizes_of(x):
        return ops.reshape(function(flat(x), axis=0), shape=sizes_of(x))
    return function(x, axis=axis_of(axis, len(sizes_of(x))))


def sparsemax(x, axis=-1):
    """The projection onto the simplex: the excess over a threshold for which the result sums to one."""
    x = floats(x)
    at = axis_of(axis, len(sizes_of(x)))
    falling = -knp.sort(-x, at)
    sums = reduce.cumsum(falling, axis=at, exclusive=False, reverse=False)
    places = np.arange(1, sizes_of(x)[at] + 1).reshape([-1 if i == at else 1 for i in range(len(sizes_of(x)))])
    supported = math.greater(falling - (sums - 1) / constant(places, x), 0)
    count = reduce.sum_(cast(supported, x.dtype), axis=(at,), keepdims=True)
    # The sum over the support is the cumulative sum at its last element.
    total = reduce.sum_(math.where(supported, falling, knp.zeros_like(x)), axis=(at,), keepdims=True)
    return math.relu(x - (total - 1) / count)


# -- pooling ---------------------------------------------------------------------------------------------------------
def _to_last(x, data_format):
    return x if data_format == "channels_last" else move(x, (1,), (-1,))


def _from_last(x, data_format):
    return x if data_format == "channels_last" else move(x, (-1,), (1,))


def _each(value, count):
    return (value,) * count if isinstance(value, int) else tuple(value)


def _pool(kind, inputs, pool_size, strides, padding, data_format):
    if padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding '{padding}', must be 'same' or 'valid'.")
    data_format = backend.standardize_data_format(data_format)
    inputs = _to_last(convert_to_tensor(inputs), data_format)
    space = len(sizes_of(inputs)) - 2
    window = _each(pool_size, space)
    steps = window if strides is None else _each(strides, space)
    pool = {1: pooling.max_pool1d, 2: pooling.max_pool2d, 3: pooling.max_pool3d}
    if kind == "average":
        pool = {1: pooling.avg_pool1d, 2: pooling.avg_pool2d, 3: pooling.avg_pool3d}
    return _from_last(pool[space](inputs, list(window), list(steps), padding.upper()), data_format)


def max_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
    return _pool("max", inputs, pool_size, strides, padding, data_format)


def average_pool(inputs, pool_size, strides=None, padding="valid", data_format=None):
    return _pool("average", floats(inputs), pool_size, strides, padding, data_format)


def _windows(size, count):
    """The start and end of `count` windows over an axis: they are adjacent, or overlap by one."""
    places = np.arange(count)
    return places * size // count, -(-(places + 1) * size // count)


def _adaptive(inputs, output_size, data_format, pool_axis):
    data_format = backend.standardize_data_format(data_format)
    inputs = _to_last(convert_to_tensor(inputs), data_format)
    for i, count in enumerate(_each(output_size, len(sizes_of(inputs)) - 2)):
        if count is not None:
            inputs = pool_axis(inputs, i + 1, *_windows(sizes_of(inputs)[i + 1], count))
    return _from_last(inputs, data_format)


def _mean_of_windows(x, axis, starts, ends):
    places = np.arange(sizes_of(x)[axis])[:, None]
    weights = ((places >= starts) & (places < ends)) / (ends - starts)
    mixed = linalg.matmul(move(x, (axis,), (-1,)), constant(weights, x))
    return move(mixed, (-1,), (axis,))


def _max_of_windows(x, axis, starts, ends):
    longest = int((ends - starts).max())
    places = np.minimum(starts[:, None] + np.arange(longest), ends[:, None] - 1)
    return reduce.max_(look_up(x, places, axis), axis=(axis + 1,), keepdims=False)


def adaptive_average_pool(inputs, output_size, data_format=None):
    return _adaptive(floats(inputs), output_size, data_format, _mean_of_windows)


def adaptive_max_pool(inputs, output_size, data_format=None):
    return _adaptive(inputs, output_size, data_format, _max_of_windows)


# -- convolution -----------------------------------------------------------------------------------------------------
def _convolved(inputs, kernel, strides, padding, data_format, dilation_rate):
    inputs = _to_last(inputs, data_format)
    space = len(sizes_of(inputs)) - 2
    result = tfconv.convolution(
        inputs,
        kernel,
        strides=list(_each(strides, space)),
        padding=padding.upper(),
        dilations=list(_each(dilation_rate, space)),
    )
    return _from_last(result, data_format)


def conv(inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    data_format = backend.standardize_data_format(data_format)
    inputs, kernel = promoted(inputs, kernel)
    channels = sizes_of(inputs)[-1 if data_format == "channels_last" else 1]
    if channels % sizes_of(kernel)[-2]:
        raise ValueError(
            "The number of input channels must be evenly divisible by kernel's in_channels. "
            f"Received input channels {channels} and kernel in_channels {sizes_of(kernel)[-2]}. "
        )
    result = _convolved(inputs, kernel, strides, padding, data_format, dilation_rate)
    if 0 in sizes_of(result) and 0 not in sizes_of(inputs):
        raise ValueError(
            "The convolution operation resulted in an empty output. This can happen if the input is too small for the "
            "given kernel size, strides, dilation rate, and padding mode. Please check the input shape and convolution "
            "parameters."
        )
    return result


def depthwise_conv(inputs, kernel, strides=1, padding="valid", data_format=None, dilation_rate=1):
    data_format = backend.standardize_data_format(data_format)
    inputs, kernel = promoted(inputs, kernel)
    check_conv_input_channels(inputs, kernel, data_format)
    *window, channels, times = sizes_of(kernel)
    kernel = ops.reshape(kernel, shape=(*window, 1, channels * times))
    return _convolved(inputs, kernel, strides, padding, data_format, dilation_rate)


def separable_conv(
    inputs, depthwise_kernel, pointwise_kernel, strides=1, padding="valid", data_format=None, dilation_rate=1
):
    data_format = backend.standardize_data_format(data_format)
    inputs, depthwise_kernel, pointwise_kernel = promoted(inputs, depthwise_kernel, pointwise_kernel)
    check_conv_input_channels(inputs, depthwise_kernel, data_format)
    inputs = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(inputs, pointwise_kernel, 1, "valid", data_format, dilation_rate)


def conv_transpose(inputs, kernel, strides=1, padding="valid", output_padding=None, data_format=None, dilation_rate=1):
    """The transpose of a convolution, from outputs to inputs, cropped or padded to size."""
    data_format = backend.standardize_data_format(data_format)
    inputs, kernel = promoted(inputs, kernel)
    check_conv_transpose_input_channels(inputs, kernel, data_format)
    crops = compute_conv_transpose_output_crops_for_torch(
        sizes_of(inputs), sizes_of(kernel), strides, padding, output_padding, dilation_rate
    )
    inputs = _to_last(inputs, data_format)
    space = len(sizes_of(inputs)) - 2
    steps, rates = _each(strides, space), _each(dilation_rate, space)
    reach = [(k - 1) * d + 1 for k, d in zip(sizes_of(kernel), rates, strict=False)]
    whole = [(n - 1) * s + k for n, s, k in zip(sizes_of(inputs)[1:], steps, reach, strict=False)]
    kept = [(max(low, 0), max(high, 0)) for low, high in crops]
    result = convolution.conv_input_grad(
        inputs,
        kernel,
        shape=tuple(n - low - high for n, (low, high) in zip(whole, kept, strict=True)),
        strides=steps,
        dilations=rates,
        padding=tuple(kept),
        groups=1,
    )
    before, after = ((0, *(max(-pair[side], 0) for pair in crops), 0) for side in (0, 1))
    if any(before) or any(after):
        result = ops.pad(result, before=before, after=after)
    return _from_last(result, data_format)


def _pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def _taps(kernel_size, dilation, stride, counts):
    """For each tap of a window: the slices of an image that it covers as the window moves."""
    for offsets in product(*(range(k) for k in kernel_size)):
        starts = [o * d for o, d in zip(offsets, dilation, strict=True)]
        yield tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(starts, counts, stride, strict=True))


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Windows of images [N, C, H, W] as columns [N, C * taps, positions]."""
    x = convert_to_tensor(input)
    window, rates, pads, steps = _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride)
    x = ops.pad(x, before=(0, 0, *pads), after=(0, 0, *pads))
    images, channels, *sizes = sizes_of(x)
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(sizes, window, rates, steps, strict=True)]
    every = (slice(None), slice(None))
    seen = [ops.getitem(x, index=(*every, *part)) for part in _taps(window, rates, steps, counts)]
    return ops.reshape(ops.stack(*seen, axis=2), shape=(images, channels * len(seen), pymath.prod(counts)))


def fold(x, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """The transpose of `unfold`: columns are added at the positions of their windows."""
    x = convert_to_tensor(x)
    goal, window, rates, pads, steps = (_pair(v) for v in (output_size, kernel_size, dilation, padding, stride))
    images, depth, _ = sizes_of(x)
    channels = depth // pymath.prod(window)
    sizes = [n + 2 * p for n, p in zip(goal, pads, strict=True)]
    counts = [(n - (k - 1) * d - 1) // s + 1 for n, k, d, s in zip(sizes, window, rates, steps, strict=True)]
    taps = ops.unstack(ops.reshape(x, shape=(images, channels, pymath.prod(window), *counts)), axis=2)
    every, whole = (slice(None), slice(None)), (images, channels, *sizes)
    total = None
    for tap, part in zip(taps, _taps(window, rates, steps, counts), strict=True):
        placed = ops.setitem(tap, index=(*every, *part), shape=whole)
        total = placed if total is None else total + placed
    inside = tuple(slice(p, p + n) for p, n in zip(pads, goal, strict=True))
    return ops.getitem(total, index=(*every, *inside))


def depth_to_space(x, block_size, data_format="channels_last"):
    x, b = convert_to_tensor(x), block_size
    if data_format == "channels_last":
        n, h, w, c = sizes_of(x)
        apart = ops.transpose(ops.reshape(x, shape=(n, h, w, b, b, c // b**2)), perm=(0, 1, 3, 2, 4, 5))
        return ops.reshape(apart, shape=(n, h * b, w * b, c // b**2))
    n, c, h, w = sizes_of(x)
    apart = ops.transpose(ops.reshape(x, shape=(n, c // b**2, b, b, h, w)), perm=(0, 1, 4, 2, 5, 3))
    return ops.reshape(apart, shape=(n, c // b**2, h * b, w * b))


def space_to_depth(x, block_size, data_format="channels_last"):
    x, b = convert_to_tensor(x), block_size
    if data_format == "channels_last":
        n, h, w, c = sizes_of(x)
        apart = ops.transpose(ops.reshape(x, shape=(n, h // b, b, w // b, b, c)), perm=(0, 1, 3, 2, 4, 5))
        return ops.reshape(apart, shape=(n, h // b, w // b, c * b**2))
    n, c, h, w = sizes_of(x)
    apart = ops.transpose(ops.reshape(x, shape=(n, c, h // b, b, w // b, b)), perm=(0, 1, 3, 5, 2, 4))
    return ops.reshape(apart, shape=(n, c * b**2, h // b, w // b))


# -- labels and losses -----------------------------------------------------------------------------------------------
def one_hot(x, num_classes, axis=-1, dtype=None, sparse=False):
    if isinstance(x, RaggedTensor):
        return x.with_flat_values(one_hot(x.flat_values, num_classes, dtype=dtype))
    x = convert_to_tensor(x)
    if not x.dtype.is_integer:
        x = cast(x, "int32")
    kind = as_dtype(backend.standardize_dtype(dtype or "float32"))
    if sparse:
        return sparsely.one_hot(x, int(num_classes), axis, kind.numpy_dtype)
    return move(fused.one_hot(x, depth=int(num_classes), dtype=kind.numpy_dtype), (-1,), (axis,))


def multi_hot(x, num_classes, axis=-1, dtype=None, sparse=False):
    x = convert_to_tensor(x)
    hot = one_hot(cast(x, "int32"), num_classes, axis=axis, dtype=dtype, sparse=sparse)
    over = 1 if len(sizes_of(x)) > 1 else 0
    return sparsely.any_along(hot, over) if sparse else knp.max(hot, over)


def _of_one_shape(target, output):
    output = floats(output)
    target = convert_to_tensor(target, output.dtype)
    if sizes_of(target) != sizes_of(output):
        raise ValueError(
            "Arguments `target` and `output` must have the same shape. "
            f"Received: target.shape={sizes_of(target)}, output.shape={sizes_of(output)}"
        )
    return target, output


def _within_epsilon(output):
    epsilon = backend.epsilon()
    return math.minimum(math.maximum(output, epsilon), 1 - epsilon)


def _log_probabilities(output, from_logits, axis):
    if from_logits:
        return fused.log_softmax(output, axis=axis)
    return math.log(_within_epsilon(output / reduce.sum_(output, axis=(axis,), keepdims=True)))


def categorical_crossentropy(target, output, from_logits=False, axis=-1):
    target, output = _of_one_shape(target, output)
    if not sizes_of(target):
        raise ValueError(
            "Arguments `target` and `output` must be at least rank 1. "
            f"Received: target.shape={sizes_of(target)}, output.shape={sizes_of(output)}"
        )
    at = axis_of(axis, len(sizes_of(output)))
    return -reduce.sum_(target * _log_probabilities(output, from_logits, at), axis=(at,), keepdims=False)


def sparse_categorical_crossentropy(target, output, from_logits=False, axis=-1):
    target, output = convert_to_tensor(target, "int32"), floats(output)
    if len(sizes_of(target)) == len(sizes_of(output)) and sizes_of(target)[-1] == 1:
        target = ops.reshape(target, shape=sizes_of(target)[:-1])
    if not sizes_of(output):
        raise ValueError(f"Argument `output` must be at least rank 1. Received: output.shape={sizes_of(output)}")
    at = axis_of(axis, len(sizes_of(output)))
    if sizes_of(target) != sizes_of(output)[:-1]:
        raise ValueError(
            "Arguments `target` and `output` must have the same shape up until the last dimension: "
            f"target.shape={sizes_of(target)}, output.shape={sizes_of(output)}"
        )
    classes = sizes_of(output)[at]
    target = checked(LABELS, target, size=classes)
    output = move(output, (at,), (-1,))
    if from_logits:
        return fused.sparse_cross_entropy(output, target)[0]
    last = len(sizes_of(output)) - 1
    logs = _log_probabilities(output, False, last)
    loss = -ops.reshape(along(logs, expand(target, -1), last), shape=sizes_of(target))
    known = math.logical_and(math.greater_equal(target, 0), math.less(target, classes))
    return math.where(known, loss, constant(np.nan, loss))  # on a GPU labels are not checked


def binary_crossentropy(target, output, from_logits=False):
    target, output = _of_one_shape(target, output)
    if from_logits:
        return math.sigmoid_cross_entropy(output, target)
    output = _within_epsilon(output)
    return -(target * math.log(output) + (1 - target) * math.log(1 - output))


def ctc_loss(target, output, target_length, output_length, mask_index=0):
    target, output = convert_to_tensor(target, "int32"), convert_to_tensor(output)
    return losses.ctc_loss(
        target,
        cast(output, result_type(output, "float32")),
        convert_to_tensor(target_length, "int32"),
        convert_to_tensor(output_length, "int32"),
        logits_time_major=False,
        blank_index=mask_index,
    )


def ctc_decode(
    inputs,
    sequence_lengths,
    strategy="greedy",
    beam_width=100,
    top_paths=1,
    merge_repeated=True,
    mask_index=0,
):
    inputs = convert_to_tensor(inputs)
    inputs = cast(inputs, result_type(inputs, "float32"))
    lengths = convert_to_tensor(sequence_lengths, "int32")
    if mask_index is None:
        mask_index = sizes_of(inputs)[2] - 1
    if strategy == "greedy":
        return _greedy_decode(inputs, lengths, merge_repeated, mask_index)
    if strategy == "beam_search":
        return _beam_search_decode(inputs, lengths, beam_width, top_paths, mask_index)
    raise ValueError(f"Invalid strategy {strategy}. Supported values are 'greedy' and 'beam_search'.")


def _greedy_decode(inputs, lengths, merge_repeated, blank):
    """The best class of each step without blanks and repetitions, padded with -1."""
    batch, steps, _ = sizes_of(inputs)
    best = knp.argmax(inputs, -1)
    scores = reduce.max_(inputs, axis=(2,), keepdims=False)
    over = math.greater_equal(constant(np.arange(steps)[None], lengths), expand(lengths, 1))
    best = math.where(over, constant(blank, best), best)
    scores = math.where(over, knp.zeros_like(scores), scores)
    gone = math.equal(best, blank)
    if merge_repeated:
        again = math.equal(cut(best, 1, 1, None), cut(best, 1, None, -1))
        gone = math.logical_or(gone, ops.pad(again, before=(0, 1), after=(0, 0)))
    best = math.where(gone, constant(-1, best), best)
    places = broadcast(constant(np.arange(steps)[None], best), (batch, steps))
    order = knp.argsort(math.where(gone, constant(steps, places), places))
    return expand(along(best, order, 1), 0), expand(-reduce.sum_(scores, axis=(1,), keepdims=False), 1)


def _beam_search_decode(inputs, lengths, beam_width, top_paths, blank):
    """The most probable label sequences, found in a search over values: it is not differentiable."""
    batch, steps, _ = sizes_of(inputs)
    logs = np.asarray(fused.log_softmax(inputs, axis=2).array)
    paths = np.full((top_paths, batch, steps), -1, np.int32)
    scores = np.full((batch, top_paths), -np.inf, logs.dtype)
    for row, length in enumerate(np.asarray(lengths.array)):
        found = beams(logs[row, : max(int(length), 1)], beam_width, blank)
        for place, (path, score) in enumerate(found[:top_paths]):
            paths[place, row, : len(path)] = path
            scores[row, place] = score
    return wrap(paths), wrap(scores)


def psnr(x1, x2, max_val):
    x1, x2 = promoted(x1, x2, also=(float,))
    if sizes_of(x1) != sizes_of(x2):
        raise ValueError(f"Input shapes {sizes_of(x1)} and {sizes_of(x2)} must match for PSNR calculation. ")
    error = knp.mean(math.square(x1 - x2))
    return 20 * knp.log10(convert_to_tensor(max_val, x2.dtype)) - 10 * knp.log10(error)


# -- normalisation ---------------------------------------------------------------------------------------------------
@ragged.by(ragged.moments)
def moments(x, axes, keepdims=False, synchronized=False):
    x = convert_to_tensor(x)
    few_bits = x.dtype.is_floating and x.dtype.size < 4
    wanted, x = x.dtype, wide(x)
    over = axes_of(axes, len(sizes_of(x)))
    context = get_replica_context() if synchronized else None
    if context is not None and context.num_replicas_in_sync > 1:
        found = _moments_of_all(context, x, over, keepdims)
    else:
        variance = normalization.variance(x, axis=over, keepdims=keepdims, constant_mean=False)
        found = reduce.mean(x, axis=over, keepdims=keepdims), variance
    if not few_bits:
        return found
    info = ml_dtypes.finfo(wanted.numpy_dtype)
    low, high = float(info.min), float(info.max)
    return tuple(cast(math.minimum(math.maximum(value, low), high), wanted) for value in found)


def _moments_of_all(context, x, over, keepdims):
    """Mean and variance over axes of the batches of all replicas."""
    rows = convert_to_tensor(float(pymath.prod(sizes_of(x)[a] for a in over)), x.dtype)
    count = context.all_reduce(ReduceOp.SUM, rows)
    mean = context.all_reduce(ReduceOp.SUM, reduce.sum_(x, axis=over, keepdims=True)) / count
    deviation = reduce.sum_(math.square(x - mean), axis=over, keepdims=True)
    variance = context.all_reduce(ReduceOp.SUM, deviation) / count
    if keepdims:
        return mean, variance
    shape = tuple(size for a, size in enumerate(sizes_of(x)) if a not in over)
    return ops.reshape(mean, shape=shape), ops.reshape(variance, shape=shape)


def batch_normalization(x, mean, variance, axis, offset=None, scale=None, epsilon=1e-3):
    x = convert_to_tensor(x)
    at = axis_of(axis, len(sizes_of(x)))

    def channels(values):
        values = convert_to_tensor(values)
        return ops.reshape(values, shape=tuple(sizes_of(values)[0] if i == at else 1 for i in range(len(sizes_of(x)))))

    factor = math.rsqrt(channels(variance) + epsilon)
    if scale is not None:
        factor = knp.multiply(factor, channels(scale))
    shift = knp.multiply(-channels(mean), factor)
    if offset is not None:
        shift = knp.add(shift, channels(offset))
    return knp.add(knp.multiply(x, factor), shift)


# -- attention -------------------------------------------------------------------------------------------------------
def dot_product_attention(
    query,
    key,
    value,
    bias=None,
    mask=None,
    scale=None,
    is_causal=False,
    flash_attention=None,
    attn_logits_soft_cap=None,
):
    if flash_attention:
        raise ValueError("Flash attention is not supported in gradtape backend.")
    query, key, value = promoted(*(convert_to_tensor(x) for x in (query, key, value)))
    if any(len(sizes_of(x)) != 4 for x in (query, key, value)):
        raise ValueError(
            "`dot_product_attention` only supports 4D inputs. "
            f"Received: query.shape={sizes_of(query)}, key.shape={sizes_of(key)}, value.shape={sizes_of(value)}."
        )
    wanted = query.dtype
    scale = 1 / pymath.sqrt(sizes_of(key)[-1]) if scale is None else scale
    groups = sizes_of(query)[2] // sizes_of(key)[2]
    if groups > 1:  # several query heads share one key/value head
        key, value = knp.repeat(key, groups, 2), knp.repeat(value, groups, 2)
    # Heads before time: [batch, heads, time, depth].
    query, key, value = (ops.transpose(x, perm=(0, 2, 1, 3)) for x in (query, key, value))
    logits = wide(linalg.matmul(query, key, adjoint_y=True))
    logits = logits * convert_to_tensor(scale, logits.dtype)
    if attn_logits_soft_cap is not None:
        logits = attn_logits_soft_cap * math.tanh(logits / attn_logits_soft_cap)
    if bias is not None:
        logits = logits + cast(convert_to_tensor(bias, wanted), logits.dtype)
    allowed = None if mask is None else cast(convert_to_tensor(mask), "bool")
    if is_causal:
        causal = wrap(np.tri(*sizes_of(logits)[2:], dtype=bool))
        allowed = causal if allowed is None else math.logical_and(allowed, causal)
    if allowed is not None:
        logits = math.where(allowed, logits, constant(-0.7 * 3.38953e38, logits))
    weights = cast(fused.softmax(logits, axis=3), wanted)
    return ops.transpose(linalg.matmul(weights, value), perm=(0, 2, 1, 3))
