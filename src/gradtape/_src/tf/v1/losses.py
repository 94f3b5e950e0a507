"""`tf.compat.v1.losses`: losses with weights, averaged over the weights that are not zero."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays.symbolic import default_graph, graph_for_ops
from gradtape._src.conversion import convert, operand
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math, nn
from gradtape._src.tf.array import cast, ones_like, where, zeros_like

__all__ = [
    "Reduction",
    "absolute_difference",
    "add_loss",
    "compute_weighted_loss",
    "cosine_distance",
    "get_losses",
    "get_regularization_loss",
    "get_regularization_losses",
    "get_total_loss",
    "hinge_loss",
    "huber_loss",
    "log_loss",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
]


class Reduction:
    """How the losses of examples become one number."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = SUM_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All ways."""
        return cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def validate(cls, key: str) -> None:
        """Raise ValueError if there is no such way."""
        if key not in cls.all():
            raise ValueError(f"Invalid Reduction Key {key}.")


_DEFAULT = Reduction.SUM_BY_NONZERO_WEIGHTS


def compute_weighted_loss(
    losses: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = "losses", reduction: str = _DEFAULT
) -> Tensor:
    """Losses times weights as one number; a weight may stand for a whole row.

    >>> float(compute_weighted_loss([1.0, 2.0, 3.0], [0.0, 1.0, 1.0]))
    2.5
    """
    Reduction.validate(reduction)
    values = operand(losses)
    factors = cast(operand(weights), "float32")
    _check_weights(values, factors)
    weighted = cast(values, "float32") * factors
    if reduction == Reduction.NONE:
        return cast(weighted, values.dtype)
    total: Tensor = math.reduce_sum(weighted)
    if reduction == Reduction.MEAN:
        total = math.divide_no_nan(total, math.reduce_sum(ones_like(weighted) * factors))
    elif reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
        present = ones_like(weighted) * cast(math.not_equal(factors, 0.0), "float32")
        total = math.divide_no_nan(total, math.reduce_sum(present))
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        total = math.divide_no_nan(total, math.reduce_sum(ones_like(weighted)))
    return cast(total, values.dtype)


def _check_weights(values: Tensor, weights: Tensor) -> None:
    """Check that weights are a scalar, or broadcast to the losses with the same rank."""
    shape, given = values.shape, weights.shape
    if given.rank in (0, None) or shape.rank is None:
        return
    fits = given.rank == shape.rank and all(
        w in (1, None) or n is None or w == n for w, n in zip(given, shape, strict=False)
    )
    if not fits:
        raise ValueError(
            f"weights can not be broadcast to values. values.rank={shape.rank}. weights.rank={given.rank}. "
            f"values.shape={shape}. weights.shape={given}."
        )


def _pair(labels: Any, predictions: Any) -> tuple[Tensor, Tensor]:
    """Labels and predictions with the same shape, as float32."""
    for name, value in (("labels", labels), ("predictions", predictions)):
        if value is None:
            raise ValueError(f"Argument `{name}` must not be None.")
    one, other = cast(operand(labels), "float32"), cast(operand(predictions), "float32")
    other.shape.assert_is_compatible_with(one.shape)
    return one, other


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
) -> Tensor:
    """|predictions - labels|.

    >>> float(absolute_difference([1.0, 2.0], [1.0, 4.0]))
    1.0
    """
    y, p = _pair(labels, predictions)
    return compute_weighted_loss(math.abs(p - y), weights, reduction=reduction)


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
) -> Tensor:
    """(predictions - labels)^2.

    >>> float(mean_squared_error([1.0, 2.0], [1.0, 4.0]))
    2.0
    """
    y, p = _pair(labels, predictions)
    return compute_weighted_loss(math.square(p - y), weights, reduction=reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
) -> Tensor:
    """The cross entropy of probabilities, with `epsilon` inside of the logarithms.

    >>> round(float(log_loss([1.0], [0.5])), 4)
    0.6931
    """
    y, p = _pair(labels, predictions)
    losses = -y * math.log(p + epsilon) - (1.0 - y) * math.log(1.0 - p + epsilon)
    return compute_weighted_loss(losses, weights, reduction=reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
) -> Tensor:
    """Half the square of errors up to `delta`, and linear beyond.

    >>> float(huber_loss([0.0], [3.0]))
    2.5
    """
    y, p = _pair(labels, predictions)
    error = math.abs(p - y)
    quadratic = math.minimum(error, delta)
    losses = 0.5 * quadratic * quadratic + delta * (error - quadratic)
    return compute_weighted_loss(losses, weights, reduction=reduction)


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
) -> Tensor:
    """max(0, 1 - y * logits), where y is -1 for the label 0, and 1 for the label 1.

    >>> float(hinge_loss([1.0], [0.25]))
    0.75
    """
    y, z = _pair(labels, logits)
    return compute_weighted_loss(nn.relu(1.0 - (2.0 * y - 1.0) * z), weights, reduction=reduction)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: Any = None,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
    dim: Any = None,
) -> Tensor:
    """One minus the inner product along an axis, of vectors of length one.

    >>> float(cosine_distance([[1.0, 0.0]], [[0.0, 1.0]], axis=1))
    1.0
    """
    axis = dim if axis is None else axis
    if axis is None:
        raise ValueError("You must specify argument `axis`.")
    y, p = _pair(labels, predictions)
    losses = 1.0 - math.reduce_sum(p * y, axis=axis, keepdims=True)
    return compute_weighted_loss(losses, weights, reduction=reduction)


def mean_pairwise_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = "losses"
) -> Tensor:
    """The mean square of differences between pairs of errors, for each example of a batch.

    >>> float(mean_pairwise_squared_error([[0.0, 0.0]], [[1.0, 3.0]]))
    4.0
    """
    y, p = _pair(labels, predictions)
    factors = cast(operand(weights), "float32")
    difference = p - y
    axes = list(range(1, len(difference.array.shape)))
    counts = ones_like(difference) * cast(math.not_equal(factors, 0.0), "float32")
    # A scalar weight counts the elements of all examples, as TensorFlow does.
    present = math.reduce_sum(counts, axis=axes if factors.array.shape else None, keepdims=True)
    squares = math.reduce_sum(math.square(difference), axis=axes, keepdims=True)
    sums = math.reduce_sum(difference, axis=axes, keepdims=True)
    first = 2.0 * math.divide_no_nan(squares, math.maximum(present - 1.0, 0.0))
    second = 2.0 * math.divide_no_nan(math.square(sums), math.maximum(present * (present - 1.0), 0.0))
    weighted = (first - second) * factors
    total = math.reduce_sum(weighted)
    return where(math.reduce_sum(present) > 0.0, total, zeros_like(total))


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
) -> Tensor:
    """The cross entropy of logits of independent classes.

    >>> round(float(sigmoid_cross_entropy([[1.0]], [[0.0]])), 4)
    0.6931
    """
    z = operand(logits)
    y = cast(operand(multi_class_labels), z.dtype)
    z.shape.assert_is_compatible_with(y.shape)
    if label_smoothing > 0:
        y = y * (1.0 - label_smoothing) + 0.5 * label_smoothing
    losses = nn.sigmoid_cross_entropy_with_logits(labels=y, logits=z)
    return compute_weighted_loss(losses, weights, reduction=reduction)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
) -> Tensor:
    """The cross entropy of logits, with a probability for each class as labels.

    >>> round(float(softmax_cross_entropy([[1.0, 0.0]], [[0.0, 0.0]])), 4)
    0.6931
    """
    z = operand(logits)
    y = cast(operand(onehot_labels), z.dtype)
    z.shape.assert_is_compatible_with(y.shape)
    if label_smoothing > 0:
        classes = y.array.shape[1]
        y = y * (1.0 - label_smoothing) + label_smoothing / classes
    losses = nn.softmax_cross_entropy_with_logits(labels=y, logits=z)
    return compute_weighted_loss(losses, weights, reduction=reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: Any = None,
    loss_collection: Any = "losses",
    reduction: str = _DEFAULT,
) -> Tensor:
    """The cross entropy of logits, with numbers of classes as labels.

    >>> round(float(sparse_softmax_cross_entropy([0], [[0.0, 0.0]])), 4)
    0.6931
    """
    losses = nn.sparse_softmax_cross_entropy_with_logits(labels=convert(labels), logits=convert(logits))
    return compute_weighted_loss(losses, weights, reduction=reduction)


# -- collections of a graph: eager code has none ---------------------------------------------------------------------
def _collected(key: Any, scope: Any) -> list[Any]:
    graph = default_graph()
    return [] if graph is None else graph.get_collection(key, scope)


def add_loss(loss: Any, loss_collection: Any = "losses") -> None:
    """Put a loss into a collection of the default graph. No effect in eager code."""
    graph = default_graph()
    if graph is not None and loss_collection:
        graph.add_to_collection(loss_collection, loss)


def get_losses(scope: Any = None, loss_collection: Any = "losses") -> list[Any]:
    """The losses of the default graph; empty in eager code."""
    return _collected(loss_collection, scope)


def get_regularization_losses(scope: Any = None) -> list[Any]:
    """The regularization losses of the default graph; empty in eager code."""
    return _collected("regularization_losses", scope)


def _total(losses: list[Any], name: str) -> Tensor:
    graph = graph_for_ops()
    if graph is None or not losses:
        return convert(0.0) if graph is None else graph.record(convert, (0.0,), {}, name)
    return graph.record(math.add_n, (losses,), {}, name)


def get_regularization_loss(scope: Any = None, name: str = "total_regularization_loss") -> Tensor:
    """The sum of the regularization losses of the default graph; zero in eager code."""
    return _total(get_regularization_losses(scope), name)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss", scope: Any = None) -> Tensor:
    """The sum of the losses of the default graph; zero in eager code."""
    more = get_regularization_losses(scope) if add_regularization_losses else []
    return _total([*get_losses(scope), *more], name)
