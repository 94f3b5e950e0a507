"""Functions of `tf.compat.v1.nn` whose arguments differ from those of TensorFlow 2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradtape._src.conversion import operand
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, linalg, math, nn
from gradtape._src.tf.v1.functions import renamed

__all__ = [
    "avg_pool",
    "conv2d",
    "depthwise_conv2d",
    "dropout",
    "embedding_lookup",
    "l2_normalize",
    "log_softmax",
    "max_pool",
    "moments",
    "relu_layer",
    "separable_conv2d",
    "sigmoid_cross_entropy_with_logits",
    "softmax",
    "softmax_cross_entropy_with_logits",
    "sparse_softmax_cross_entropy_with_logits",
    "weighted_cross_entropy_with_logits",
    "weighted_moments",
    "xw_plus_b",
]


def softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """Compute probabilities along an axis, by default the last one."""
    axis = renamed(axis, dim, "axis", "dim")
    return nn.softmax(logits, axis=-1 if axis is None else axis)


def log_softmax(logits: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """Compute log probabilities along an axis, by default the last one."""
    axis = renamed(axis, dim, "axis", "dim")
    return nn.log_softmax(logits, axis=-1 if axis is None else axis)


def l2_normalize(x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None) -> Any:
    """Scale vectors along an axis to length one."""
    return math.l2_normalize(x, axis=renamed(axis, dim, "axis", "dim"), epsilon=epsilon)


def dropout(
    x: Any,
    keep_prob: Any = None,
    noise_shape: Any = None,
    seed: Any = None,
    name: str | None = None,
    rate: Any = None,
) -> Any:
    """Set elements to zero with probability `rate`, which is 1 - `keep_prob`, and scale up the others."""
    if keep_prob is not None and rate is not None:
        raise ValueError("Only one of `keep_prob` and `rate` should be provided.")
    if keep_prob is None and rate is None:
        raise ValueError("`rate` must be provided.")
    return nn.dropout(x, 1.0 - keep_prob if rate is None else rate, noise_shape, seed)


def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = (1, 1, 1, 1),
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """Convolve over height and width."""
    kernel = renamed(filter, filters, "filter", "filters")
    return nn.conv2d(input, kernel, strides, padding, data_format, list(dilations))


def depthwise_conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """Convolve each channel separately."""
    return nn.depthwise_conv2d(
        input, filter, strides, padding, data_format, renamed(rate, dilations, "rate", "dilations")
    )


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """Convolve each channel separately, and then over channels."""
    rates = renamed(rate, dilations, "rate", "dilations")
    return nn.separable_conv2d(input, depthwise_filter, pointwise_filter, strides, padding, data_format, rates)


def _pool(function: Callable[..., Any], what: str) -> Callable[..., Any]:
    def pool(
        value: Any = None,
        ksize: Any = None,
        strides: Any = None,
        padding: Any = None,
        data_format: str = "NHWC",
        name: str | None = None,
        input: Any = None,
    ) -> Any:
        return function(renamed(value, input, "value", "input"), ksize, strides, padding, data_format)

    pool.__doc__ = f"{what} of windows."
    return pool


max_pool, avg_pool = _pool(nn.max_pool, "The maximum"), _pool(nn.avg_pool, "The average")


def moments(
    x: Any, axes: Any, shift: Any = None, name: str | None = None, keep_dims: Any = None, keepdims: Any = None
) -> Any:
    """Compute mean and variance along axes."""
    return nn.moments(x, axes, keepdims=bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims")))


def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: str | None = None,
    keep_dims: Any = None,
    keepdims: Any = None,
) -> Any:
    """Compute weighted mean and variance along axes."""
    keep = bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims"))
    return nn.weighted_moments(x, axes, frequency_weights, keepdims=keep)


def _check_named(sentinel: Any, function: str) -> None:
    if sentinel is not None:
        raise ValueError(f"Only call `{function}` with named arguments (labels=..., logits=..., ...)")


def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """Compute the cross entropy of independent classes, elementwise."""
    _check_named(_sentinel, "sigmoid_cross_entropy_with_logits")
    return nn.sigmoid_cross_entropy_with_logits(labels, logits)


def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Any:
    """Compute the cross entropy with class indices as labels."""
    _check_named(_sentinel, "sparse_softmax_cross_entropy_with_logits")
    return nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int = -1,
    name: str | None = None,
    axis: Any = None,
) -> Any:
    """Compute the cross entropy with probabilities as labels, without a gradient for them."""
    _check_named(_sentinel, "softmax_cross_entropy_with_logits")
    return nn.softmax_cross_entropy_with_logits(array.stop_gradient(labels), logits, dim if axis is None else axis)


def weighted_cross_entropy_with_logits(
    labels: Any = None, logits: Any = None, pos_weight: Any = None, name: str | None = None, targets: Any = None
) -> Any:
    """Compute the cross entropy of independent classes, with weight `pos_weight` for positive examples."""
    return nn.weighted_cross_entropy_with_logits(renamed(labels, targets, "labels", "targets"), logits, pos_weight)


def xw_plus_b(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Compute x @ weights + biases."""
    result: Tensor = nn.bias_add(linalg.matmul(operand(x), operand(weights)), biases)
    return result


def relu_layer(x: Any, weights: Any, biases: Any, name: str | None = None) -> Tensor:
    """Compute relu(x @ weights + biases)."""
    result: Tensor = nn.relu(xw_plus_b(x, weights, biases))
    return result


def embedding_lookup(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    validate_indices: bool = True,
    max_norm: Any = None,
) -> Any:
    """Look up rows by index; with several parts, row `i` is in part `i mod parts`."""
    if isinstance(params, (list, tuple)) and len(params) > 1:
        if partition_strategy != "mod":
            raise NotImplementedError('gradtape supports only partition_strategy="mod".')
        places = operand(ids)
        rows = array.stack([operand(part) for part in params], axis=1)
        count = len(params)
        params = array.reshape(rows, [-1, *rows.shape[2:]])
        ids = math.floordiv(places, count) * count + math.floormod(places, count)
    return nn.embedding_lookup(params, ids, max_norm)
