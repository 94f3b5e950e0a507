"""Sums, means and concatenations of the values of replicas."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from functools import reduce as fold
from operator import add
from typing import Any

from gradtape._src import errors, nest
from gradtape._src.calls import calls
from gradtape._src.conversion import cast, convert
from gradtape._src.dtypes import as_dtype
from gradtape._src.graph import lanes
from gradtape._src.graph.lanes import Layout
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor
from gradtape._src.variable import VariableAggregation


class ReduceOp(Enum):
    """How the values of replicas are combined into one.

    >>> import gradtape as tf
    >>> tf.distribute.ReduceOp("MEAN")
    <ReduceOp.MEAN: 'MEAN'>
    """

    SUM = "SUM"
    MEAN = "MEAN"

    @staticmethod
    def from_variable_aggregation(aggregation: VariableAggregation) -> ReduceOp:
        """The reduction of an aggregation; raises ValueError if there is none."""
        found = {VariableAggregation.SUM: ReduceOp.SUM, VariableAggregation.MEAN: ReduceOp.MEAN}.get(aggregation)
        if found is None:
            raise ValueError(
                f"Could not convert from `tf.VariableAggregation` {aggregation} to`tf.distribute.ReduceOp` type"
            )
        return found


def as_reduce_op(op: Any) -> ReduceOp:
    """Convert a reduction: the enum, or its name in any case."""
    if isinstance(op, str):
        return ReduceOp(op.upper())
    assert isinstance(op, ReduceOp), f"reduce_op must be a tf.distribute.ReduceOp or its name. Received: {op!r}"
    return op


def reduced(op: ReduceOp, parts: Sequence[Any], layout: Layout | None = None) -> Any:
    """The sum or mean of the parts of replicas, whose devices the layout describes."""
    if any(isinstance(part, IndexedSlices) for part in parts):
        return _reduced_slices(op, parts, layout)
    total = summed([convert(part) for part in parts], layout)
    return total / (len(parts) if layout is None else layout.total) if op is ReduceOp.MEAN else total


def summed(tensors: Sequence[Tensor], layout: Layout | None = None) -> Tensor:
    """The sum over replicas, as a new tensor."""
    _check_summands(tensors)
    if layout is not None:
        tensors = [lanes.in_program(layout, tensor) for tensor in tensors]
    start = lanes.position()
    total: Tensor = fold(add, tensors)
    total = array.identity(total) if total is tensors[0] else total
    if layout is not None:
        lanes.mark(layout, "sum", start, tensors, total)
    return total


def _check_summands(tensors: Sequence[Tensor]) -> None:
    """Raise an error unless all tensors have the same shape and a numeric dtype. Broadcasting would hide a mistake."""
    first = tensors[0]
    if not first.dtype.is_numeric:
        raise errors.invalid_argument(
            f"Value for attr 'T' of {first.dtype.name} is not in the list of allowed values: it cannot be summed "
            "over replicas. Cast it to a number",
            "AddN",
        )
    for number, tensor in enumerate(tensors):
        if not first.shape.is_compatible_with(tensor.shape):
            raise errors.invalid_argument(
                "Inputs to operation AddN of type AddN must have the same size and shape.  Input 0: "
                f"{list(first.shape)} != input {number}: {list(tensor.shape)}. The values of replicas are added up",
                "AddN",
            )


def _reduced_slices(op: ReduceOp, parts: Sequence[Any], layout: Layout | None) -> IndexedSlices:
    if not all(isinstance(part, IndexedSlices) for part in parts):
        raise ValueError(f"Gradients must be IndexedSlices in all replicas or in none. Received: {parts}")
    values = concatenated([convert(part.values) for part in parts], 0, layout)
    indices = concatenated([convert(part.indices) for part in parts], 0, layout)
    count = len(parts) if layout is None else layout.total
    return IndexedSlices(values / count if op is ReduceOp.MEAN else values, indices, parts[0].dense_shape)


def reduced_over_axis(op: ReduceOp, parts: Sequence[Any], axis: Any, layout: Layout | None = None) -> Tensor:
    """The sum or mean over replicas and an axis of their parts, along which sizes may differ."""
    if any(nest.is_nested(part) for part in parts):
        raise TypeError(f"Expected one tensor per replica, but got a structure: {parts[0]}. Reduce its leaves.")
    tensors = [convert(part) for part in parts]
    axes = tuple(axis) if isinstance(axis, (list, tuple)) else (axis,)
    _check_axes(tensors, axes)
    total = summed(_sums(tensors, axes, layout), layout)
    if op is ReduceOp.SUM:
        return total
    return divided(total, sum(rows_of(t, axis) for t in tensors) * (1 if layout is None else layout.workers))


def divided(total: Tensor, count: Any) -> Tensor:
    """The mean, from a sum and the number of its terms; float64 for integers."""
    if total.dtype.is_integer:
        result: Tensor = cast(total, as_dtype("float64")) / float(count)
        return result
    divisor = convert(count, total.dtype) if total.dtype.is_floating or total.dtype.is_complex else convert(count)
    quotient: Tensor = total / divisor
    return quotient


def _sums(tensors: Sequence[Tensor], axes: tuple[Any, ...], layout: Layout | None) -> list[Tensor]:
    found, ranges = [], []
    for tensor in tensors:
        start = lanes.position()
        found.append(calls["sum"](tensor, axis=tuple(a % tensor.ndim for a in axes)))
        ranges.append((start, lanes.position()))
    if layout is not None:
        lanes.mark_each(layout, ranges)
    return found


def rows_of(tensor: Tensor, axis: Any) -> Any:
    """The number of rows of a tensor along an axis, or along several."""
    count = 1
    for each in axis if isinstance(axis, (list, tuple)) else (axis,):
        count = count * tensor.array.shape[each]
    return count


def _check_axes(tensors: Sequence[Tensor], axes: tuple[Any, ...]) -> None:
    for tensor in tensors:
        for axis in axes:
            if not -tensor.ndim <= axis < tensor.ndim:
                raise ValueError(
                    f"Invalid reduction dimension {axis} for input with {tensor.ndim} dimensions, the value of a "
                    "replica. `axis=None` reduces over the replicas only."
                )


def concatenated(parts: Sequence[Any], axis: Any, layout: Layout | None = None) -> Tensor:
    """Concatenate the parts of replicas along an axis."""
    tensors = [convert(part) for part in parts]
    if layout is not None:
        tensors = [lanes.in_program(layout, tensor) for tensor in tensors]
    if axis is None:
        raise ValueError("None values not supported.")
    if any(t.ndim == 0 for t in tensors):
        raise ValueError("Scalars cannot be gathered: they have no axis to concatenate along. Use tf.reshape(x, [1]).")
    if not -tensors[0].ndim <= axis < tensors[0].ndim:
        raise ValueError(f"Values of rank {tensors[0].ndim} cannot be gathered along axis {axis}.")
    start = lanes.position()
    result: Tensor = array.concatenate(*tensors, axis=axis % tensors[0].ndim)
    if layout is not None:
        lanes.mark(layout, "gather", start, tensors, result, axis % tensors[0].ndim)
    return result


def slice_along(tensor: Tensor, axis: int, start: int, stop: int) -> Any:
    """The rows from start to stop of one axis."""
    return tensor[(*[slice(None)] * (axis % tensor.ndim), slice(start, stop))]
