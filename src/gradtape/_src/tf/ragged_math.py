"""Reductions, segments, softmax and products of ragged tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.ops import array, index, math, segment as segment_ops
from gradtape._src.ops.ragged import RaggedTensor, from_partitions, register, take_rows
from gradtape._src.ops.ragged.dense import dense_positions
from gradtape._src.ops.ragged.partition import RowPartition, known, of_lengths, uniform_rows
from gradtape._src.ops.ragged.row_copies import is_plain
from gradtape._src.ops.ragged.tensor import axis_of, merge_dims
from gradtape._src.tensor import Tensor
from gradtape._src.tf import segments
from gradtape._src.tf.array import cast, expand_dims, ones_like, squeeze, stop_gradient
from gradtape._src.tf.linalg import matmul
from gradtape._src.tf.math import reduce_max, reduce_sum

Segment = Callable[[Any, Any, Any], Any]
"""A function of values, the segment of each of them, and the number of segments."""


# -- reductions ------------------------------------------------------------------------------------------------------
def reduced(
    segment: Segment, call: Callable[..., Any], x: Any, axis: Any = None, keepdims: bool = False, name: Any = None
) -> Any:
    """Reduce a ragged tensor along axes, last one first."""
    if type(x) is not RaggedTensor:
        return call(x, axis, keepdims)
    rank = len(x.shape)
    if axis is None:
        total = call(x.flat_values, None, False)
        return array.reshape(total, shape=(1,) * rank) if keepdims else total
    for place in sorted(_axes(axis, rank), reverse=True):
        x = _reduced_axis(segment, call, x, place, keepdims)
    return x


def _axes(axis: Any, rank: int) -> list[int]:
    given = known(convert(axis)).reshape(-1).tolist()
    return [axis_of(one, rank) for one in given]


def _reduced_axis(segment: Segment, call: Callable[..., Any], x: Any, axis: int, keepdims: bool) -> Any:
    if type(x) is not RaggedTensor:
        return call(x, axis, keepdims)
    if axis > 1:
        return from_partitions(_reduced_axis(segment, call, x._values, axis - 1, keepdims), [x._partition])
    partition = x._partition
    ids, count = (partition.rowids, partition.count) if axis else (partition.offsets, partition.longest)
    result = in_segments(segment, x._values, ids, count)
    return expand_dims(result, axis) if keepdims else result


def in_segments(segment: Segment, values: Any, ids: ndarray, count: int) -> Any:
    """Reduce values to one for each segment; rows are reduced elementwise."""
    if type(values) is not RaggedTensor:
        return segment(values, wrap(ids), count)
    partition = values._partition
    lengths = np.zeros(count, partition.dtype)
    kept = ids >= 0
    np.maximum.at(lengths, ids[kept], partition.lengths[kept])
    new = of_lengths(lengths)
    inner = np.where(kept, new.starts[ids] if count else 0, -1)[partition.rowids]
    inner = np.where(inner >= 0, inner + partition.offsets, -1)
    return from_partitions(in_segments(segment, values._values, inner, new.size), [new])


def _of_rows(primitive: Segment, general: Segment, kinds: str) -> Segment:
    """A reduction of segments with valid ids, for certain dtypes; `general` raises errors for others."""

    def reduce_segments(values: Tensor, ids: Any, count: int) -> Any:
        return (primitive if values.array.dtype.kind in kinds else general)(values, ids, count)

    return reduce_segments


def _sum_of_segments(x: Tensor, ids: Any, count: int) -> Tensor:
    total: Tensor = index.add_rows(x, ids, shape=(count, *x.array.shape[1:]))
    return total


_SUM = _of_rows(_sum_of_segments, segments.unsorted_segment_sum, "fciuV")
_MAX = _of_rows(lambda x, ids, n: segment_ops.segment_max(x, ids, count=n), segments.unsorted_segment_max, "fiu")
_MIN = _of_rows(lambda x, ids, n: segment_ops.segment_min(x, ids, count=n), segments.unsorted_segment_min, "fiu")


def _register_reduction(name: str, segment: Segment, function: np.ufunc, empty: int | None = None) -> None:
    def reduce(call: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
        if _is_of_rows(input_tensor, axis):
            found = _reduced_rows(function, input_tensor._values.array, input_tensor._partition, empty)
            if found is not None:
                return wrap(found[:, None] if keepdims else found)
        return reduced(segment, call, input_tensor, axis, bool(keepdims))

    register(f"reduce_{name}")(reduce)


def _is_of_rows(x: Any, axis: Any) -> bool:
    """Whether the axis is that of the rows of a ragged matrix, whose values no tape tracks."""
    if not (isinstance(axis, int) and axis in (1, -1)) or type(x) is not RaggedTensor or not is_plain(x._values, "fiu"):
        return False
    values = x._values.array
    return values.ndim == 1 and values.dtype.itemsize >= 4


def _reduced_rows(function: np.ufunc, values: ndarray, partition: RowPartition, empty: int | None) -> ndarray | None:
    """Reduce each row with a ufunc, in one pass; `empty` is the result for empty rows; None: there must be none."""
    lengths = partition.lengths
    if lengths.all() and len(lengths):
        found: ndarray = function.reduceat(values, partition.starts, dtype=values.dtype)
        return found
    if empty is None:
        return None
    found = np.full(partition.count, empty, values.dtype)
    filled = lengths > 0
    if filled.any():
        found[filled] = function.reduceat(values, partition.starts[filled], dtype=values.dtype)
    return found


_register_reduction("sum", _SUM, np.add, 0)
_register_reduction("prod", segments.unsorted_segment_prod, np.multiply, 1)
_register_reduction("max", _MAX, np.maximum)
_register_reduction("min", _MIN, np.minimum)


@register("reduce_mean")
def _mean(call: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    """The mean; NaN for empty rows, float64 for integers."""
    if (
        isinstance(axis, int) and axis in (1, -1) and not keepdims and len(input_tensor.shape) == 2
    ):  # the count of each row is its length
        lengths = input_tensor._partition.lengths.astype(input_tensor.dtype.numpy_dtype)
        return reduce_sum(input_tensor, 1) / operand(lengths)
    return reduce_sum(input_tensor, axis, keepdims) / reduce_sum(ones_like(input_tensor), axis, keepdims)


@register("reduce_variance")
def _variance(call: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    square_of_mean = _mean(call, input_tensor, axis, keepdims) ** 2
    return _mean(call, input_tensor * input_tensor, axis, keepdims) - square_of_mean


@register("reduce_std")
def _std(call: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    return math.sqrt(_variance(call, input_tensor, axis, keepdims))


@register("moments")
def _moments(call: Any, x: Any, axes: Any, shift: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    return _mean(call, x, axes, keepdims), _variance(call, x, axes, keepdims)


@register("reduce_any")
def _any(call: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    return math.greater(reduce_sum(cast(cast(input_tensor, "bool"), "int32"), axis, keepdims), 0)


@register("reduce_all")
def _all(call: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    return math.logical_not(_any(call, math.logical_not(cast(input_tensor, "bool")), axis, keepdims))


@register("reduce_logsumexp")
def _logsumexp(call: Any, input_tensor: Any, axis: Any = None, keepdims: bool = False, name: Any = None) -> Any:
    if axis is None:
        return call(input_tensor.flat_values, None, False) if not keepdims else _kept(call, input_tensor)
    largest = _finite_maximum(input_tensor, axis)
    total = math.log(reduce_sum(math.exp(input_tensor - largest), axis, keepdims))
    shift = largest if keepdims else _squeezed(largest, axis, len(input_tensor.shape))
    return total + shift


def _kept(call: Any, x: RaggedTensor) -> Any:
    return array.reshape(call(x.flat_values, None, False), shape=(1,) * len(x.shape))


def _squeezed(x: Any, axis: Any, rank: int) -> Any:
    return squeeze(x, sorted(_axes(axis, rank)))


def _finite_maximum(x: RaggedTensor, axis: Any) -> Any:
    """The maximum of each row, as a finite constant for stable exponentials."""
    largest = reduced(_MAX, reduce_max, x, axis, True)
    return stop_gradient(largest)


@register("softmax", "softmax_v2")
def _softmax(call: Any, logits: Any, axis: Any = -1, name: Any = None) -> Any:
    place = -1 if axis is None else axis
    if _is_of_rows(logits, place) and logits._values.array.dtype.kind == "f" and logits._partition.lengths.all():
        return logits._with_flat(wrap(_softmax_of_rows(logits._values.array, logits._partition)))
    powers = math.exp(logits - _finite_maximum(logits, place))
    return powers / reduce_sum(powers, place, True)


def _softmax_of_rows(values: ndarray, partition: RowPartition) -> ndarray:
    if not values.size:
        return values.copy()
    starts, lengths = partition.starts, partition.lengths
    powers = values - np.repeat(np.maximum.reduceat(values, starts), lengths)
    np.exp(powers, out=powers)
    powers /= np.repeat(np.add.reduceat(powers, starts), lengths)
    return powers


@register("add_n")
def _add_n(call: Any, inputs: Any, name: Any = None) -> Any:
    total = inputs[0]
    for one in inputs[1:]:
        total = total + one
    return total


@register("cumsum")
def _cumsum(call: Any, x: Any, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: Any = None) -> Any:
    place = axis_of(int(known(convert(axis))), len(x.shape))
    return unpadded(call(x.to_tensor(), place, exclusive, reverse), x)


def unpadded(dense: Tensor, like: RaggedTensor) -> RaggedTensor:
    """Remove the padding from a dense tensor that was computed from a padded ragged tensor."""
    outer = len(like._partitions) + 1
    sizes = dense.array.shape
    where, _ = dense_positions(like._partitions, sizes[:outer])
    flat = array.reshape(dense, shape=(int(np.prod(sizes[:outer])), *sizes[outer:]))
    return like._with_flat(take_rows(flat, where))


# -- segments --------------------------------------------------------------------------------------------------------
@register(*[name for name in segments.__dict__ if name.startswith("unsorted_segment_")])
def _unsorted_segment(call: Any, data: Any, segment_ids: Any, num_segments: Any, name: Any = None) -> Any:
    count = int(known(convert(num_segments)))
    if type(segment_ids) is RaggedTensor:
        if type(data) is not RaggedTensor or not data._partition.matches(segment_ids._partition):
            raise errors.refused_value("segment_ids.shape must be a prefix of data.shape", "RaggedSegment")
        return _unsorted_segment(call, data._values, segment_ids._values, count)
    if type(data) is not RaggedTensor:
        return call(data, segment_ids, count)
    ids = known(convert(segment_ids))
    if ids.ndim != 1 or len(ids) != data._partition.count:
        raise errors.refused_value("segment_ids.shape must be a prefix of data.shape", "RaggedSegment")
    if (ids >= count).any():
        raise errors.refused_value(f"segment_ids must be less than num_segments={count}", "RaggedSegment")
    return in_segments(call, data, ids, count)


# -- products --------------------------------------------------------------------------------------------------------
@register("matmul")
def _matmul(
    call: Any,
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    **options: Any,
) -> Any:
    """Multiply the matrices of a batch, whose numbers of rows or columns may differ."""
    ranks = [len(x.shape) for x in (a, b)]
    if ranks[0] != ranks[1]:
        raise ValueError(f"`a` and `b` must have the same rank. Received ranks {ranks[0]} and {ranks[1]}.")
    if min(ranks) < 2:
        raise ValueError(f"tf.matmul needs matrices. Received arguments of rank {ranks[0]} and {ranks[1]}.")
    if max(ranks) == 2:
        return _matmul_of_one(a, b, transpose_a, transpose_b, adjoint_a, adjoint_b)
    flags = (transpose_a, transpose_b, adjoint_a, adjoint_b)
    rows, inner = _matrix_lengths(a, transpose_a or adjoint_a)
    other, columns = _matrix_lengths(b, transpose_b or adjoint_b)
    _check_inner(inner, other)
    dense = matmul(_padded(a), _padded(b), *flags)
    if len(dense.shape) > 3:
        raise ValueError("tf.matmul of ragged tensors supports one batch dimension. Use tf.ragged.map_flat_values.")
    return _cut(dense, rows, columns)


def _matmul_of_one(a: Any, b: Any, *flags: bool) -> Any:
    """Multiply ragged matrices without a batch, which must be rectangular."""
    padded = []
    for x in (a, b):
        if type(x) is RaggedTensor and len(set(x._partition.lengths.tolist())) > 1:
            raise _ragged_inside()
        padded.append(_padded(x))
    product: Callable[..., Tensor] = matmul
    return product(*padded, *flags)


def _ragged_inside() -> Exception:
    return errors.refused_value("The matrices in `a` and `b` may not be ragged in their innermost dimension.")


def _padded(x: Any) -> Tensor:
    return x.to_tensor() if type(x) is RaggedTensor else convert(x)


def _matrix_lengths(x: Any, swapped: bool) -> tuple[Any, Any]:
    """The numbers of rows and columns of each matrix: ints, or arrays with one for each matrix."""
    if type(x) is not RaggedTensor:
        sizes = convert(x).array.shape
        rows, columns = sizes[-2], sizes[-1]
    else:
        rows = x._partition.lengths
        values = x._values
        columns = _row_width(x, values) if type(values) is RaggedTensor else values.array.shape[1]
    return (columns, rows) if swapped else (rows, columns)


def _row_width(x: RaggedTensor, values: RaggedTensor) -> ndarray:
    """The number of columns of each matrix, whose rows must have equal lengths."""
    width = np.zeros(x._partition.count, np.int64)
    lengths, rowids = values._partition.lengths, x._partition.rowids
    width[rowids] = lengths
    if not np.array_equal(width[rowids], lengths):
        raise _ragged_inside()
    return width


def _check_inner(inner: Any, other: Any) -> None:
    a, b = np.broadcast_arrays(inner, other)
    if not np.array_equal(a, b):
        raise errors.refused_value(
            f"Matrix size-incompatible: the inner dimensions {a.tolist()} and {b.tolist()} differ.", "BatchMatMulV2"
        )


def _cut(dense: Tensor, rows: Any, columns: Any) -> Any:
    """Remove the padding from the matrices of a batch."""
    count = dense.array.shape[0]
    if not isinstance(rows, ndarray):
        inner = RaggedTensor.from_tensor(merge_dims(dense, 0, 1), lengths=np.repeat(columns, int(rows)).tolist())
        return from_partitions(inner, [uniform_rows(int(rows), count)])
    if isinstance(columns, ndarray):
        return RaggedTensor.from_tensor(dense, lengths=[rows.tolist(), np.repeat(columns, rows).tolist()])
    return RaggedTensor.from_tensor(dense, lengths=rows.tolist())
