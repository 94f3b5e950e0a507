"""`tf.nn`: activations and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape import errors
from gradtape.api import math as tfmath
from gradtape.api.arguments import axis_of
from gradtape.api.array import cast, gather, moveaxis_last
from gradtape.api.clip import clip_by_norm
from gradtape.conversion import operand, operands
from gradtape.ops import array, math, nn
from gradtape.tensor import Tensor

relu = math.relu
sigmoid, softplus, tanh = math.sigmoid, math.softplus, math.tanh
softmax, log_softmax = tfmath.softmax, tfmath.log_softmax
l2_normalize, zero_fraction = tfmath.l2_normalize, tfmath.zero_fraction


def elu(features: Any, name: str | None = None) -> Tensor:
    """x where x is positive, exp(x) - 1 elsewhere."""
    x = operand(features)
    positive = math.greater(x, 0)
    result: Tensor = math.where(positive, x, math.expm1(math.where(positive, 0, x)))
    return result


def leaky_relu(features: Any, alpha: float = 0.2, name: str | None = None) -> Tensor:
    """x where x is positive, alpha * x elsewhere."""
    x = operand(features)
    result: Tensor = math.where(math.greater(x, 0), x, x * alpha)
    return result


def silu(features: Any, beta: Any = 1.0, name: str | None = None) -> Tensor:
    """x * sigmoid(beta * x)."""
    x = operand(features)
    result: Tensor = x * math.sigmoid(x * beta)
    return result


swish = silu


def bias_add(value: Any, bias: Any, data_format: str | None = None, name: str | None = None) -> Tensor:
    """Add a bias along the channel axis: the last, or the second in NC… formats."""
    x, b = operands(value, bias)
    if data_format is not None and data_format.startswith("NC"):
        b = array.reshape(b, shape=(b.array.shape[0], *[1] * (len(x.array.shape) - 2)))
    return x + b


def l2_loss(t: Any, name: str | None = None) -> Tensor:
    """Half the sum of squares."""
    x = operand(t)
    result: Tensor = tfmath.reduce_sum(math.square(x)) / 2
    return result


def embedding_lookup(
    params: Any, ids: Any, max_norm: Any = None, name: str | None = None
) -> Tensor:
    """Rows of a table; the gradient with respect to the table is sparse."""
    if isinstance(params, (list, tuple)):
        if len(params) != 1:
            raise ValueError("embedding_lookup takes one table; a list of shards should be joined with tf.concat.")
        params = params[0]
    rows = gather(params, ids)
    if max_norm is None:
        return rows
    axes = list(range(len(operand(ids).array.shape), len(rows.array.shape)))
    clipped: Tensor = clip_by_norm(rows, max_norm, axes)
    return clipped


# -- cross entropies --------------------------------------------------------------------------------------------------------
def softmax_cross_entropy_with_logits(labels: Any, logits: Any, axis: int = -1, name: str | None = None) -> Tensor:
    """The cross entropy between rows of probabilities and the softmax of logits.

    >>> softmax_cross_entropy_with_logits([[0.0, 1.0]], [[0.0, 0.0]]).numpy().round(4).tolist()
    [0.6931]
    """
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    x = operand(logits)
    y = operand(labels, x.dtype)
    if y.array.dtype != x.array.dtype:
        y = cast(y, x.dtype)
    rank = len(x.array.shape)
    last = axis_of(axis, rank, "SoftmaxCrossEntropyWithLogits")
    x, y = moveaxis_last(x, last), moveaxis_last(y, last)
    try:
        shape = np.broadcast_shapes(x.array.shape, y.array.shape)
    except ValueError:
        raise errors.invalid_argument(
            f"logits and labels must be broadcastable: logits_size={errors.brackets(x.array.shape)} "
            f"labels_size={errors.brackets(y.array.shape)}", "SoftmaxCrossEntropyWithLogits",
        ) from None  # fmt: skip
    if x.array.shape != shape:
        x = array.broadcast_to(x, shape=shape)
    if y.array.shape != shape:
        y = array.broadcast_to(y, shape=shape)
    result: Tensor = nn.cross_entropy(x, y)
    return result


def sparse_softmax_cross_entropy_with_logits(labels: Any, logits: Any, name: str | None = None) -> Tensor:
    """The cross entropy between class indices and the softmax of logits.

    >>> sparse_softmax_cross_entropy_with_logits([1], [[0.0, 0.0]]).numpy().round(4).tolist()
    [0.6931]
    """
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    x, y = operand(logits), operand(labels)
    shape, have = tuple(x.array.shape), tuple(y.array.shape)
    if not shape:
        raise ValueError("`logits` cannot be a scalar.")
    if len(have) != len(shape) - 1:
        raise ValueError(
            "`labels.shape.rank` must equal `logits.shape.rank - 1`. Received: "
            f"labels.shape={have} of rank {len(have)} and logits.shape={shape} of rank {len(shape)}"
        )
    if have != shape[:-1]:
        raise ValueError(
            f"`labels.shape` must equal `logits.shape` except for the last dimension. Received: labels.shape={have} "
            f"and logits.shape={shape}"
        )
    values = y.array
    if values.size and (values.min() < 0 or values.max() >= shape[-1]):
        bad = values[(values < 0) | (values >= shape[-1])].ravel()[0]
        raise errors.invalid_argument(
            f"Received a label value of {bad} which is outside the valid range of [0, {shape[-1]}).",
            "SparseSoftmaxCrossEntropyWithLogits",
        )
    loss: Tensor = nn.sparse_cross_entropy(x, y)[0]
    return loss


def sigmoid_cross_entropy_with_logits(labels: Any = None, logits: Any = None, name: str | None = None) -> Tensor:
    """The cross entropy between probabilities and the sigmoid of logits, each on its own."""
    if labels is None or logits is None:
        raise ValueError("Both labels and logits must be provided.")
    x = operand(logits)
    y = operand(labels, x.dtype)
    if x.array.shape != y.array.shape:
        raise ValueError(
            f"`logits` and `labels` must have the same shape, received ({x.shape} vs {y.shape})."
        )
    result: Tensor = math.softplus(x) - x * y
    return result
