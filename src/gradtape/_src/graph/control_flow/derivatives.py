"""Functions that the derivatives of branches and loops have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from gradtape._src.arrays.half import sum_dtype
from gradtape._src.arrays.symbolic import zeros
from gradtape._src.conversion import wrap
from gradtape._src.core.primitive import widened
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import active_recorders
from gradtape._src.graph.derivative import Derivative
from gradtape._src.graph.trace import as_tensor, modes_of, tracked_shape, unbatched
from gradtape._src.graph.traced import Traced
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor, is_differentiable


def tracked_inputs(traced: Traced) -> tuple[int, ...]:
    """The positions of a block's inputs that are tracked."""
    recorders = active_recorders()
    own = [i for i, t in enumerate(traced.inputs) if is_differentiable(t.array)]
    captured = [i for i, uid in enumerate(traced.captured) if tracked_shape(uid, recorders) is not None]
    return (*own, *[len(traced.inputs) + i for i in captured])


def as_tensors(cotangents: list[Any]) -> tuple[int | None, list[Any], Callable[[list[Any]], list[Any]]]:
    """Cotangents (or tangents) as tensors; batches get a leading axis: see `unbatched`."""
    rows, cotangents, batched_again = unbatched(cotangents)
    return rows, [None if ct is None else as_tensor(ct) for ct in cotangents], batched_again


def dense(value: Any) -> Any:
    """A sparse cotangent as a dense one: programs have only dense tensors."""
    return value.dense() if type(value) is SparseCotangent else value


def residual_tensors(derivative: Derivative) -> list[Tensor]:
    """The residuals of a block, as tensors of its graph."""
    return [wrap(residual.symbol) for residual in derivative.residuals]


def for_tangents(traced: Traced, wanted: tuple[int, ...]) -> Derivative:
    """The derivative of a block for forward mode, and for reverse mode if a tape tracks the tangents."""
    reverse, _ = modes_of(active_recorders())
    return traced.derivative(wanted, (), (reverse, True))


def with_tangents(
    traced: Traced,
    wanted: tuple[int, ...],
    values: Sequence[Tensor],
    directions: Sequence[Any],
    residuals: Sequence[Any],
    rows: int | None,
) -> tuple[list[Tensor], list[Any]]:
    """The results of one iteration of a loop, and the tangents of its results and residuals."""
    derivative = for_tangents(traced, wanted)
    results, saved = traced.with_residuals(values, derivative)
    return results, derivative.tangents(directions, saved, residuals, rows)


def added(totals: Sequence[Tensor], values: Sequence[Any]) -> list[Tensor]:
    """Add the values of an iteration to the totals."""
    return [total if value is None else total + widened(value) for total, value in zip(totals, values, strict=True)]


def empty_sums(traced: Traced, captured: list[int], needs: list[Any], lead: tuple[int, ...]) -> list[Tensor]:
    """Zeros to which the gradients of captured values are added, in float32 if these are narrower."""
    return [wrap(zeros((*lead, *needs[i]), sum_dtype(dtype_of_input(traced, i)))) for i in captured]


def dtype_of_input(traced: Traced, i: int) -> Any:
    """The dtype of the i-th input of a record; the index of the iteration is an input of the block only."""
    return traced.dtype_of(traced.inner_uids()[i + 1])


def or_zeros(ct: Any, lead: tuple[int, ...], like: Tensor) -> Tensor:
    """A cotangent (or tangent); zeros with the shape of `like` instead of None."""
    return wrap(zeros((*lead, *like.array.shape), like.array.dtype)) if ct is None else ct


def rows_inside(ct: Tensor) -> Tensor:
    """Move the batch axis behind the axis of a loop."""
    swapped: Tensor = array.transpose(ct, perm=(1, 0, *range(2, len(ct.array.shape))))
    return swapped


rows_outside = rows_inside
