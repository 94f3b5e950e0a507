"""Differentiable sorting, ranking and selection: relaxations by projections and by entropy."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.conversion import convert
from gradtape._src.core import tape as stack
from gradtape._src.solvers.convergence import require_convergence
from gradtape._src.solvers.implicit import Rule, check_choice, defined_by
from gradtape._src.solvers.vectors import check_positive, column, epsilon, length, smallest
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.arguments import axis_of
from gradtape._src.tf.control_flow import while_loop
from gradtape._src.tf.isotonic import isotonic_regression, means_of_blocks
from gradtape._src.tf.math import argsort, reduce_sum, sigmoid, sort

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def soft_sort(
    values: TensorLike, axis: int = -1, direction: str = "ASCENDING", regularization_strength: float = 1.0
) -> Tensor:
    """Sort values, blending those that are close, so that gradients reach several inputs instead of one.

    This is the projection of (n, ..., 1) / regularization_strength onto the permutahedron of the values (Blondel et
    al., 2020). With a small strength it equals `tf.sort`; with a large one, all results approach the mean.

    >>> import gradtape as tf
    >>> tf.autodiff.soft_sort([3.0, 1.0, 2.0], regularization_strength=0.1).numpy().round(3).tolist()
    [1.0, 2.0, 3.0]
    >>> tf.autodiff.soft_sort([3.0, 1.0, 2.0], regularization_strength=2.0).numpy().round(3).tolist()
    [1.5, 2.0, 2.5]
    """
    x, at = _prepared(values, axis, direction, regularization_strength)
    sign = -1.0 if direction == "ASCENDING" else 1.0
    rows = _last(x, at)
    ordered = sort(sign * rows, direction="DESCENDING")
    target = _ranks(rows) / regularization_strength
    return _last(sign * _projected(target, ordered), at)


def soft_rank(
    values: TensorLike, axis: int = -1, direction: str = "ASCENDING", regularization_strength: float = 1.0
) -> Tensor:
    """Compute the ranks of values, starting from 1, as a continuous function: ranks of close values are blended.

    This is the projection of values / regularization_strength onto the permutahedron of (1, ..., n) (Blondel et al.,
    2020). Where ranks are exact, their derivative is zero; use a larger strength in that case.

    >>> import gradtape as tf
    >>> tf.autodiff.soft_rank([3.0, 1.0, 2.0], regularization_strength=0.1).numpy().round(3).tolist()
    [3.0, 1.0, 2.0]
    >>> x = tf.Variable([3.0, 1.0, 2.0], dtype=tf.float64)
    >>> with tf.GradientTape() as tape:
    ...     ranks = tf.autodiff.soft_rank(x, regularization_strength=2.0)
    >>> ranks.numpy().tolist(), tape.jacobian(ranks, x)[0].numpy().round(3).tolist()
    ([2.5, 1.5, 2.0], [0.333, -0.167, -0.167])
    """
    x, at = _prepared(values, axis, direction, regularization_strength)
    sign = 1.0 if direction == "ASCENDING" else -1.0
    rows = _last(x, at) * (sign / regularization_strength)
    order = argsort(rows, direction="DESCENDING", stable=True)
    ordered = array.gather(rows, order, axis=-1, batch_dims=len(rows.shape) - 1)
    projected = _projected(ordered, _ranks(rows))
    back = argsort(order, stable=True)
    return _last(array.gather(projected, back, axis=-1, batch_dims=len(rows.shape) - 1), at)


def _projected(z: Tensor, w: Tensor) -> Tensor:
    """The projection of z onto the permutahedron of w; both decrease.

    It is z less the isotonic regression of z - w, but without their difference: with a small strength, z is so large
    that the difference has no digits of w left.
    """
    blocks = isotonic_regression(array.stop_gradient(z - w)).segments
    return means_of_blocks(w, blocks) + (z - means_of_blocks(z, blocks))


def soft_top_k(values: TensorLike, k: int, axis: int = -1, temperature: float = 1.0) -> Tensor:
    """Compute weights between 0 and 1 that add up to k and are large for the k largest values.

    The weights p maximize Σ p·values + temperature · Σ (entropy of p), subject to that sum. With a small temperature
    they are 1 for the k largest values and 0 for the others.

    >>> import gradtape as tf
    >>> x = tf.Variable([1.0, 4.0, 3.0, 0.0], dtype=tf.float64)
    >>> with tf.GradientTape() as tape:
    ...     weights = tf.autodiff.soft_top_k(x, 2, temperature=0.5)
    >>> weights.numpy().round(2).tolist(), tape.jacobian(weights, x)[2].numpy().round(2).tolist()
    ([0.12, 0.98, 0.88, 0.02], [-0.09, -0.02, 0.12, -0.02])
    """
    x, at = _prepared(values, axis, "ASCENDING", temperature, "temperature")
    rows = _last(x, at)
    count = length(rows)
    if isinstance(k, bool) or not isinstance(k, (int, np.integer)) or not 0 < k < count:
        raise ValueError(
            f"k must be an integer between 1 and {count - 1}, one less than the number of values; received {k!r}."
        )
    flat = array.reshape(rows, [-1, count])
    # Only differences matter; they are exact near the k-th value, where the level is.
    flat = (flat - array.stop_gradient(sort(flat, direction="DESCENDING")[:, k - 1 : k])) / temperature

    # Where all weights are 0 or 1 up to rounding, no derivative is left; the level then has the derivative 0, too.
    flattest = smallest(flat)

    def excess(level: Tensor, given: list[Tensor]) -> Tensor:
        total = reduce_sum(sigmoid(given[0] - level), -1, keepdims=True)
        return total - float(k) - flattest * (level - array.stop_gradient(level))

    with stack.use_recorders(()):
        level = _bisected(lambda level: excess(level, [flat]), flat)
    level = defined_by(excess, level, [flat], Rule("dense", 1, False, None, None))
    return _last(array.reshape(sigmoid(flat - level), array.shape(rows)), at)


def _bisected(excess: Any, rows: Tensor) -> Tensor:
    """The zero of a decreasing function of a level. The k-th largest value is 0, and the level near it.

    At a level of -margin, the k largest weights are 1 up to rounding. At margin + log(n), the weights of the values
    from the k-th on add up to less than 1. How far apart the values are does not matter.
    """
    margin = 40.0 if rows.dtype.size >= 4 else 8.0
    zeros = array.zeros_like(rows[:, :1])
    low, high = zeros - margin, zeros + (margin + math.log(length(rows)))

    def body(low: Tensor, high: Tensor, i: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        middle = 0.5 * (low + high)
        above = excess(middle) > 0
        return array.where(above, middle, low), array.where(above, high, middle), i + 1

    low, high, i = while_loop(lambda low, high, i: i < 70, body, (low, high, array.constant(0)))
    middle = 0.5 * (low + high)
    limit = column(reduce_sum(array.ones_like(rows), -1)) * (epsilon(rows) ** 0.75)
    require_convergence(abs(excess(middle)), limit, i, "tf.autodiff.soft_top_k", "Check that all values are finite.")
    return middle


def _prepared(
    values: TensorLike, axis: int, direction: str, strength: float, name: str = "regularization_strength"
) -> tuple[Tensor, int]:
    x = convert(values)
    check_choice("direction", direction, ("ASCENDING", "DESCENDING"))
    if not x.dtype.is_floating:
        raise TypeError(f"values must be floating-point; received {x.dtype.name}. Use tf.cast first.")
    if not x.array.shape:
        raise ValueError("values must have at least one axis; received a scalar.")
    check_positive(name, strength)
    return x, axis_of(axis, len(x.array.shape), "SoftSort")


def _last(x: Tensor, at: int) -> Tensor:
    """Swap an axis with the last one."""
    rank = len(x.array.shape)
    if at == rank - 1:
        return x
    order = list(range(rank))
    order[at], order[-1] = order[-1], order[at]
    return array.transpose(x, order)


def _ranks(rows: Tensor) -> Tensor:
    """The ranks (n, ..., 1), for each row."""
    count = length(rows)
    return array.zeros_like(rows) + array.range(count, 0, -1, dtype=rows.dtype)


__all__ = ["soft_rank", "soft_sort", "soft_top_k"]
