"""Moments, batch and local response normalization, and dropout."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.dimensions import broadcast_shapes, is_dimension
from gradtape._src.arrays.symbolic import number
from gradtape._src.conversion import is_library, operand, operands, wrap
from gradtape._src.core.composites import dispatched
from gradtape._src.core.primitive import narrowed, widened
from gradtape._src.dtypes import DType, float32
from gradtape._src.ops import array, math, normalization as ops
from gradtape._src.ops.convolution import sum_pool
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math as tfmath, random
from gradtape._src.tf.arguments import (
    as_int,
    axes_of,
    integers,
    number as number_of,
    same_dtype,
    shape_of,
    tensor_or,
    truth,
)
from gradtape._src.tf.array import cast

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- moments ---------------------------------------------------------------------------------------------------------
@dispatched
def moments(
    x: TensorLike, axes: Any, shift: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the mean and the variance along axes (in float32 for float16 and bfloat16 input).

    As in TensorFlow, the variance treats the mean as a constant: its first derivative is exact, but higher derivatives
    lack the contribution of the mean. All derivatives of `tf.math.reduce_variance` are exact.

    >>> mean, variance = tf.nn.moments([1.0, 2.0, 3.0], [0])
    >>> mean.numpy().item(), round(variance.numpy().item(), 4)
    (2.0, 0.6667)
    """
    x = operand(x)
    y = widened(x)
    axis = axes_of(axes, len(y.array.shape), "Mean")
    if axes is not None and not axis and not keepdims:  # TensorFlow squeezes `axes`, that is, every axis of size 1
        y = array.reshape(y, shape=tuple(n for n in y.array.shape if is_dimension(n) or n != 1))
    mean = tfmath.reduce_mean(y, axis, keepdims)
    if y.dtype.is_complex:
        distance = math.squared_difference(y, array.stop_gradient(tfmath.reduce_mean(y, axis, keepdims=True)))
        return mean, tfmath.reduce_mean(distance, axis, keepdims)
    variance = ops.variance(y, axis=axis, keepdims=truth(keepdims), constant_mean=True)
    return narrowed(mean, x.array.dtype), narrowed(variance, x.array.dtype)


def sufficient_statistics(
    x: TensorLike, axes: Any, shift: TensorLike | None = None, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """Compute the count, the (shifted) sum and the (shifted) sum of squares along axes, and the shift.

    >>> count, total, squares, shift = tf.nn.sufficient_statistics([1.0, 3.0], axes=[0])
    >>> float(count), float(total), float(squares)
    (2.0, 4.0, 10.0)
    """
    x = operand(x)
    if x.array.dtype.kind in "bO":
        raise errors.unsupported_dtype("Sum", x.dtype, "fciu")
    if not isinstance(axes, (list, tuple)):
        raise TypeError(f"Expected a list for argument 'axes', but got {axes!r}.")
    axis = axes_of(axes, len(x.array.shape), "Sum")
    dtype, y = x.array.dtype, widened(x)
    count = wrap(np.asarray(np.prod([x.array.shape[i] for i in axis]), dtype))
    if shift is not None:
        shift = same_dtype(shift, x.dtype, "Sub", "shift")
    centred = y if shift is None else y - widened(shift)
    sums, squares = (tfmath.reduce_sum(v, axis, keepdims) for v in (centred, math.square(centred)))
    return count, narrowed(sums, dtype), narrowed(squares, dtype), shift


def normalize_moments(
    counts: TensorLike, mean_ss: Any, variance_ss: Any, shift: TensorLike | None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the mean and the variance from the result of `sufficient_statistics`.

    >>> count, total, squares, shift = tf.nn.sufficient_statistics([1.0, 3.0], axes=[0])
    >>> mean, variance = tf.nn.normalize_moments(count, total, squares, shift)
    >>> float(mean), float(variance)
    (2.0, 1.0)
    """
    sums, squares = operands(mean_ss, variance_ss)
    for given in (sums, squares):
        if given.dtype != sums.dtype or not (given.dtype.is_floating or given.dtype.is_complex):
            raise errors.unsupported_dtype("Mul", given.dtype, "fc")
    dtype = sums.array.dtype
    share = math.reciprocal(widened(same_dtype(counts, sums.dtype, "Mul", "counts")))
    shifted = widened(sums) * share
    mean = shifted if shift is None else shifted + widened(same_dtype(shift, sums.dtype, "AddV2", "shift"))
    variance = widened(squares) * share - math.square(shifted)
    return narrowed(mean, dtype), narrowed(variance, dtype)


def weighted_moments(
    x: TensorLike, axes: Any, frequency_weights: Any, keepdims: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Compute the mean and the variance along axes of elements that count `frequency_weights` times.

    >>> mean, _ = tf.nn.weighted_moments([1.0, 3.0], [0], [3.0, 1.0])
    >>> mean.numpy().item()
    1.5
    """
    x, keepdims = operand(x), truth(keepdims)
    if x.dtype.name == "string":
        raise errors.UnimplementedError(None, None, "Cast float to string is not supported [Op:Cast]")
    weights = operand(frequency_weights)
    if weights.dtype != x.dtype:
        weights = cast(weights, x.dtype)
    y, weights = widened(x), widened(weights)
    axis = axes_of(axes, len(y.array.shape), "Sum")
    try:
        shape = np.broadcast_shapes(y.array.shape, weights.array.shape)
    except ValueError:
        raise errors.incompatible_shapes("BroadcastTo", y.array.shape, weights.array.shape) from None
    wide = weights if weights.array.shape == shape else array.broadcast_to(weights, shape=shape)
    total = tfmath.reduce_sum(wide, axis, keepdims=True)
    mean = tfmath.divide_no_nan(tfmath.reduce_sum(y * wide, axis, keepdims=True), total)
    distance = math.squared_difference(y, mean)
    variance = tfmath.divide_no_nan(tfmath.reduce_sum(distance * wide, axis, keepdims=True), total)
    if not keepdims:
        kept = tuple(n for i, n in enumerate(mean.array.shape) if i not in axis)
        mean, variance = array.reshape(mean, shape=kept), array.reshape(variance, shape=kept)
    return narrowed(mean, x.array.dtype), narrowed(variance, x.array.dtype)


# -- batch normalization ---------------------------------------------------------------------------------------------
@dispatched
def batch_normalization(
    x: TensorLike,
    mean: TensorLike,
    variance: TensorLike,
    offset: TensorLike | None,
    scale: TensorLike | None,
    variance_epsilon: Any,
    name: str | None = None,
) -> Tensor:
    """Compute (x - mean) / sqrt(variance + epsilon), times `scale` and plus `offset` if they are given.

    >>> tf.nn.batch_normalization([1.0, 3.0], 2.0, 1.0, None, 2.0, 0.0).numpy().tolist()
    [-2.0, 2.0]
    """
    x = operand(x)
    numeric = isinstance(variance, (bool, int, float, complex, np.number)) or (
        isinstance(variance, np.ndarray) and variance.dtype.kind in "biufc"
    )
    if not numeric and not is_library(variance):
        raise TypeError(f"Expected a tensor for argument 'variance', but got {variance!r}.")
    shifted = operand(variance + variance_epsilon)  # plain numbers are float32 here, as in TensorFlow
    factor = math.rsqrt(widened(shifted))
    if scale is not None:
        factor = factor * widened(same_dtype(scale, shifted.dtype, "Mul", "scale"))
    shift = -(widened(same_dtype(mean, shifted.dtype, "Mul", "mean")) * factor)
    if offset is not None:
        shift = shift + widened(same_dtype(offset, shifted.dtype, "Sub", "offset"))
    y = widened(x)
    if factor.dtype != y.dtype:
        factor, shift = cast(factor, y.dtype), cast(shift, y.dtype)
    result: Tensor = narrowed(y * factor + shift, x.array.dtype)
    return result


def batch_norm_with_global_normalization(
    input: Any,
    mean: Any,
    variance: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: Any,
    scale_after_normalization: bool,
    name: str | None = None,
) -> Tensor:
    """Normalize, scale and shift: `batch_normalization` under its older name.

    >>> x = tf.constant([[1.0], [3.0]])
    >>> print(tf.nn.batch_norm_with_global_normalization(x, 2.0, 1.0, 10.0, 1.0, 0.0, True).numpy().round(4))
    [[ 9.]
     [11.]]
    """
    return batch_normalization(
        input, mean, variance, beta, gamma if scale_after_normalization else None, variance_epsilon
    )


def fused_batch_norm(
    x: TensorLike,
    scale: TensorLike,
    offset: TensorLike,
    mean: TensorLike | None = None,
    variance: TensorLike | None = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalization over all axes but the channels, and the (running) mean and variance.

    >>> y, mean, variance = fused_batch_norm([[[[1.0], [3.0]]]], [1.0], [0.0], epsilon=0.0)
    >>> y.numpy().ravel().tolist(), mean.numpy().tolist(), variance.numpy().tolist()
    ([-1.0, 1.0], [2.0], [2.0])
    """
    x = operand(x)
    rank = len(x.array.shape)
    if data_format not in ("NHWC", "NCHW", "NDHWC", "NCDHW"):
        raise errors.invalid_argument(f"Invalid data format: {data_format}", "FusedBatchNormV3")
    at = 1 if data_format.startswith("NC") else rank - 1
    axes = [i for i in range(rank) if i != at]
    y = widened(x)
    form = tuple(n if i == at else 1 for i, n in enumerate(y.array.shape))
    scale, offset = operand(scale, y.dtype), operand(offset, y.dtype)
    if is_training:
        used_mean, used_variance = moments(y, axes)
        count = y.array.size // max(y.array.shape[at], 1)
        new_mean, new_variance = used_mean, used_variance * _unbiased(count, y.array.dtype)
        if exponential_avg_factor != 1.0 and mean is not None and variance is not None:
            keep = 1.0 - exponential_avg_factor
            new_mean = operand(mean, y.dtype) * keep + new_mean * exponential_avg_factor
            new_variance = operand(variance, y.dtype) * keep + new_variance * exponential_avg_factor
    else:
        if mean is None or variance is None:
            raise ValueError("`mean` and `variance` must be given when is_training is False.")
        used_mean, used_variance = new_mean, new_variance = operand(mean, y.dtype), operand(variance, y.dtype)
    used_mean, used_variance, offset, scale = (
        array.reshape(p, shape=form) for p in (used_mean, used_variance, offset, scale)
    )
    result = batch_normalization(y, used_mean, used_variance, offset, scale, epsilon)
    return narrowed(result, x.array.dtype), new_mean, new_variance


# -- dropout ---------------------------------------------------------------------------------------------------------
def _noise(shape: tuple[int, ...], dtype: DType, seed: Any) -> Tensor:
    """Uniform numbers in [0, 1): the only source of randomness in dropout."""
    drawn: Tensor = random.uniform(shape, dtype=dtype, seed=seed)
    return drawn


def _dropout(x: Any, rate: Any, noise_shape: Any, sampler: Callable[[tuple[int, ...], DType], Any]) -> Tensor:
    x = operand(x)
    if not x.dtype.is_floating:
        raise ValueError(
            f"`x.dtype` must be a floating point tensor as `x` will be scaled. Received: x_dtype={x.dtype!r}"
        )
    plain = isinstance(rate, (int, float)) and not isinstance(rate, bool)
    if plain and not 0 <= rate < 1:
        raise ValueError(f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}")
    if plain and rate == 0:
        return x
    if plain:
        chance: Any = float(rate)
    else:
        given = operand(rate)
        if given.array.shape:
            raise ValueError(f"`rate` must be a scalar. Received: rate of shape {given.shape}")
        if given.dtype != x.dtype:
            raise ValueError(f"`rate` must have the dtype of `x`, {x.dtype.name}. Received: {given.dtype.name}")
        chance = given
    shape = tuple(x.array.shape)
    if noise_shape is not None:
        wanted = integers(noise_shape, "RandomUniform", "T") if is_library(noise_shape) else noise_shape
        sizes = list(wanted) if isinstance(wanted, (list, tuple, set)) or np.ndim(wanted) == 1 else [wanted]
        if len(sizes) == len(shape):  # None means the size of x
            sizes = [n if s is None else s for n, s in zip(shape, sizes, strict=True)]
        shape = shape_of(sizes)
    try:
        fits = broadcast_shapes(shape, x.array.shape) == tuple(x.array.shape)
    except ValueError:
        fits = False
    if not fits:  # before any number is drawn
        raise errors.invalid_argument(
            f"condition {errors.brackets(shape)}, then {errors.brackets(x.array.shape)}, and else [] must "
            "be broadcastable: noise_shape has 1 or the size of x along each axis",
            "SelectV2",
        )
    keep = math.greater_equal(operand(sampler(shape, x.dtype)), chance)
    result: Tensor = math.where(keep, x * (1 / (1 - chance)), 0)
    return result


def _unbiased(count: Any, dtype: Any) -> Any:
    """The factor that makes a mean of squares an unbiased estimate."""
    less = max(count - 1, 1)
    return number(count, dtype) / number(less, dtype) if is_dimension(count) else count / less


@dispatched
def dropout(
    x: TensorLike, rate: TensorLike, noise_shape: Any = None, seed: Any = None, name: str | None = None
) -> Tensor:
    """Set each element to zero with probability `rate`, and scale the others so that the mean is preserved.

    >>> tf.nn.dropout([1.0, 2.0], 0.0).numpy().tolist()
    [1.0, 2.0]
    """
    return _dropout(x, rate, noise_shape, lambda shape, dtype: _noise(shape, dtype, seed))


def stateless_dropout(
    x: TensorLike, rate: TensorLike, seed: Any, rng_alg: Any = None, noise_shape: Any = None, name: str | None = None
) -> Tensor:
    """Dropout that depends on nothing but its arguments: the same seed (two integers), the same elements."""

    def sampler(shape: tuple[int, ...], dtype: DType) -> Any:
        return random.stateless_uniform(shape, seed=seed, dtype=dtype)

    return _dropout(x, rate, noise_shape, sampler)


def general_dropout(
    x: TensorLike,
    rate: TensorLike,
    uniform_sampler: Callable[..., Any],
    noise_shape: Any = None,
    name: str | None = None,
) -> Tensor:
    """Dropout with your own source of uniform numbers: `uniform_sampler(shape=..., dtype=...)`."""
    return _dropout(x, rate, noise_shape, lambda shape, dtype: uniform_sampler(shape=shape, dtype=dtype))


# -- over nearby channels --------------------------------------------------------------------------------------------
def local_response_normalization(
    input: TensorLike,
    depth_radius: int = 5,
    bias: float = 1,
    alpha: float = 1,
    beta: float = 0.5,
    name: str | None = None,
) -> Tensor:
    """Compute x / (bias + alpha * sum of squares over nearby channels) ** beta.

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
    near = sum_pool(rows, window=(2 * r + 1,), strides=(1,), dilations=(1,), padding=((r, r),))
    given = (("alpha", alpha, 1.0), ("bias", bias, 1.0), ("beta", beta, 0.5))
    scale, offset, power = (
        operand(otherwise if value is None else number_of(value, word), y.dtype) for word, value, otherwise in given
    )
    base = array.reshape(near, shape=shape) * scale + offset
    result: Tensor = narrowed(y * math.power(base, -power), x.array.dtype)
    return result


lrn = local_response_normalization
