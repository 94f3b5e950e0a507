"""Join, repeat, reorder and index rows of ragged tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, is_library, operand, wrap
from gradtape._src.ops import array
from gradtape._src.ops.ragged import (
    RaggedTensor,
    RowPartition,
    count_of,
    elementwise,
    from_partitions,
    take_ranges,
    take_rows,
)
from gradtape._src.ops.ragged.operators import broadcast, partition_dtype, register
from gradtape._src.ops.ragged.partition import UniformPartition, known, of_lengths, uniform_rows
from gradtape._src.ops.ragged.row_copies import copied_rows, is_plain
from gradtape._src.ops.ragged.tensor import axis_of, rank_of
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import concat as concat_dense, stack as stack_dense

Call = Callable[..., Any]


# -- functions of the flat values ------------------------------------------------------------------------------------
_FLAT = """
abs angle batch_normalization bitcast cast check_numerics conj dropout elu erfcinv gelu identity imag invert
leaky_relu log_sigmoid ones_like real reciprocal_no_nan relu6 round saturate_cast selu sign silu softsign
stop_gradient zeros_like
"""
_ELEMENTWISE = """
betainc bitwise_and bitwise_or bitwise_xor clip_by_value complex divide_no_nan floor igamma igammac left_shift
multiply_no_nan nextafter polygamma power realdiv right_shift scalar_mul sigmoid_cross_entropy_with_logits
squared_difference true_divide truncatediv truncatemod zeta
"""


@register(*_FLAT.split())
def _of_flat_values(call: Call, first: Any, *args: Any, **kwargs: Any) -> Any:
    """An elementwise function of one tensor, with further arguments."""
    return first._with_flat(call(first.flat_values, *args, **kwargs))


@register(*_ELEMENTWISE.split())
def _elementwise(call: Call, *args: Any, **kwargs: Any) -> Any:
    kwargs.pop("name", None)
    return elementwise(call, *args, *kwargs.values())


@register("_compare")
def _assert(call: Call, sign: str, test: Call, x: Any, y: Any, message: Any, summarize: Any) -> None:
    """The assertions of tf.debugging that compare two tensors."""
    flats, _ = broadcast(x, y)
    call(sign, test, *flats, message, summarize)


@register("where")
def _where(call: Call, condition: Any, x: Any = None, y: Any = None, name: Any = None) -> Any:
    if x is None and y is None:
        chosen = known(condition.flat_values) != 0
        return take_rows(condition.to_sparse().indices, np.flatnonzero(chosen))
    if x is None or y is None:
        return call(condition.flat_values, x, y)
    if type(condition) is not RaggedTensor:
        condition = operand(condition)
    return elementwise(call, condition, *_one_dtype(x, y))


def _one_dtype(x: Any, y: Any) -> tuple[Any, Any]:
    """Convert two operands to one dtype: plain values take that of the other operand."""
    known_x, known_y = (type(v) is RaggedTensor or is_library(v) for v in (x, y))
    if known_x and not known_y:
        return x, operand(y, x.dtype)
    return (x, y) if known_x else (operand(x, y.dtype if known_y else None), y)


@register("size")
def _size(call: Call, input: Any, out_type: Any = "int32", name: Any = None) -> Any:
    return call(input.flat_values, out_type)


@register("rank")
def _rank(call: Call, input: Any, name: Any = None) -> Tensor:
    return wrap(np.array(len(input.shape), np.int32))


@register("one_hot")
def _one_hot(call: Call, indices: Any, depth: Any, on_value: Any = None, off_value: Any = None, axis: Any = None,
             dtype: Any = None, name: Any = None) -> Any:  # fmt: skip
    if type(indices) is not RaggedTensor:
        return call(indices, depth, on_value, off_value, axis, dtype)
    rank = indices.ragged_rank
    if axis is not None and axis >= 0:
        if axis <= rank:
            raise ValueError(f"axis ({axis}) must be greater than indices.ragged_rank ({rank}).")
        axis -= rank
    return indices._with_flat(call(indices.flat_values, depth, on_value, off_value, axis, dtype))


@register("embedding_lookup")
def _embedding_lookup(call: Call, params: Any, ids: Any, max_norm: Any = None, name: Any = None) -> Any:
    return ids._with_flat(call(params, ids.flat_values, max_norm))


# -- joining ---------------------------------------------------------------------------------------------------------
def _as_values(value: Any) -> Any:
    return value if type(value) is RaggedTensor else convert(value)


def _integer_axis(axis: Any) -> int:
    if not isinstance(axis, (int, np.integer)):
        raise TypeError(f"axis must be an int; got {type(axis).__name__}")
    return int(axis)


def _same_rank(values: Sequence[Any]) -> int:
    ranks = [rank_of(value) for value in values]
    if len(set(ranks)) > 1:
        raise ValueError(f"All inputs must have the same rank. Received ranks {ranks}.")
    return ranks[0]


def _with_ragged_rank(value: Any, ragged_rank: int, dtype: Any) -> Any:
    """A tensor with at least this number of ragged dimensions."""
    if ragged_rank == 0:
        return value
    if type(value) is RaggedTensor:
        return from_partitions(_with_ragged_rank(value._values, ragged_rank - 1, dtype), [value._partition])
    return RaggedTensor.from_tensor(value, ragged_rank=ragged_rank, row_splits_dtype=dtype)


def aligned(values: Sequence[Any], least: int = 0) -> list[Any]:
    """Convert tensors of one rank to the same number of ragged dimensions."""
    found = [value for value in values if type(value) is RaggedTensor]
    dtype = partition_dtype(found) if found else np.int64
    ragged_rank = max([least, *[value.ragged_rank for value in found]])
    if len(found) == len(values) and all(value.ragged_rank == ragged_rank for value in found):
        return list(values)
    return [_with_ragged_rank(value, ragged_rank, dtype) for value in values]


@register("concat")
def _concat(call: Call, values: Any, axis: Any, name: Any = None) -> Any:
    tensors = [_as_values(value) for value in _list_with_dtype(values)]
    if len(tensors) == 1:
        return tensors[0]
    place = axis_of(_integer_axis(axis), _same_rank(tensors))
    return join(aligned(tensors), place)


def _list_with_dtype(values: Any) -> list[Any]:
    """The members of a list; plain ones take the dtype of the others."""
    first = next(value for value in values if type(value) is RaggedTensor)
    return [value if type(value) is RaggedTensor or is_library(value) else convert(value, first.dtype)
            for value in values]  # fmt: skip


def join(values: Sequence[Any], axis: int) -> Any:
    """Concatenate tensors with the same number of ragged dimensions."""
    if type(values[0]) is not RaggedTensor:
        return concat_dense(values, axis)
    if axis > 1:
        _check_same_rows(values)
        return from_partitions(join([value._values for value in values], axis - 1), [values[0]._partition])
    if axis == 0:
        return _end_to_end(values)
    rows = _interleaved(values)
    return from_partitions(rows._values, [RowPartition(rows._partition.splits[:: len(values)])])


def _end_to_end(values: Sequence[RaggedTensor]) -> RaggedTensor:
    """The rows of all tensors, concatenated."""
    lengths = [value._partition.lengths for value in values]
    whole: RaggedTensor = from_partitions(
        join([value._values for value in values], 0), [of_lengths(np.concatenate(lengths))]
    )
    return whole


def _interleaved(values: Sequence[RaggedTensor]) -> RaggedTensor:
    """The rows of all tensors, interleaved: the first row of each, the second row of each, and so on."""
    count = values[0]._partition.count
    for i, value in enumerate(values):
        if value._partition.count != count:
            raise errors.refused_value(
                f"Input tensors at index 0 (=x) and {i} (=y) have incompatible shapes. They have {count} and "
                f"{value._partition.count} rows."
            )
    order = np.arange(count * len(values)).reshape(len(values), count).T.reshape(-1)
    rows: RaggedTensor = take_rows(_end_to_end(values), order)
    return rows


def _check_same_rows(values: Sequence[RaggedTensor]) -> None:
    for value in values[1:]:
        if not value._partition.matches(values[0]._partition):
            raise errors.refused_value(
                "Inputs must have identical ragged splits. Received "
                f"{values[0]._partition.splits.tolist()} and {value._partition.splits.tolist()}."
            )


@register("stack")
def _stack(call: Call, values: Any, axis: Any = 0, name: Any = None) -> Any:
    tensors = [_as_values(value) for value in _list_with_dtype(values)]
    place = axis_of(_integer_axis(axis), _same_rank(tensors) + 1)
    return pile(aligned(tensors), place)


def pile(values: Sequence[Any], axis: int) -> Any:
    """Stack tensors with the same number of ragged dimensions along a new axis."""
    first = values[0]
    if type(first) is not RaggedTensor:
        return stack_dense(values, axis)
    if axis > 1:
        _check_same_rows(values)
        lengths = RowPartition(first._partition.splits)  # TensorFlow drops the uniform length
        return from_partitions(pile([value._values for value in values], axis - 1), [lengths])
    if axis == 0:
        counts = np.array([value._partition.count for value in values], first._partition.dtype)
        return from_partitions(join(values, 0), [of_lengths(counts)])
    rows = _interleaved(values)
    counts = np.full(first._partition.count, len(values), first._partition.dtype)
    return from_partitions(rows, [of_lengths(counts)])


def _known_int(value: Any) -> int:
    """An int, or a tensor of one, whose value is known."""
    return value if type(value) is int else int(known(convert(value)))


# -- axes ------------------------------------------------------------------------------------------------------------
@register("expand_dims")
def _expand_dims(call: Call, input: Any, axis: Any, name: Any = None) -> Any:
    if type(input) is not RaggedTensor:
        return call(input, axis)
    place = axis_of(_known_int(axis), rank_of(input) + 1)
    partition = input._partition
    if place < 2:
        length, count = (1, partition.count) if place else (partition.count, 1)
        return from_partitions(input, [UniformPartition(length, count, partition.dtype)])
    return from_partitions(_expand_dims(call, input._values, place - 1), [partition])


@register("squeeze")
def _squeeze(call: Call, input: Any, axis: Any = None, name: Any = None) -> Any:
    if axis is None:
        raise ValueError("Ragged.squeeze must have an axis argument.")
    rank = len(input.shape)
    places = {axis_of(one, rank) for one in known(convert(axis)).reshape(-1).tolist()}
    for place in sorted(places, reverse=True):
        input = _squeezed(call, input, place)
    return input


def _squeezed(call: Call, x: Any, axis: int) -> Any:
    if type(x) is not RaggedTensor:
        return call(x, [axis])
    if axis > 1:
        return from_partitions(_squeezed(call, x._values, axis - 1), [x._partition])
    single = x._partition.count == 1 if axis == 0 else bool((x._partition.lengths == 1).all())
    if not single:
        raise errors.refused_value(f"the given axis (axis = {axis}) is not squeezable: its length is not 1.")
    return x._values


@register("tile")
def _tile(call: Call, input: Any, multiples: Any, name: Any = None) -> Any:
    counts, rank = known(convert(multiples)), rank_of(input)
    if counts.shape != (rank,):
        raise errors.refused_value(
            f"Expected multiples argument to be a vector of length {rank} but got length {counts.size}", "Tile"
        )
    return _tiled(call, input, counts.tolist())


def _tiled(call: Call, x: Any, counts: list[int]) -> Any:
    if type(x) is not RaggedTensor:
        return x if set(counts) == {1} else call(x, counts)
    partition, values = x._partition, _tiled(call, x._values, [1, *counts[2:]])
    if counts[1] != 1:
        each = of_lengths(np.repeat(partition.lengths, counts[1]))  # the rows of the result, one copy after the other
        values = take_ranges(values, np.repeat(partition.starts, counts[1]), each)
        partition = RowPartition(each.splits[:: counts[1]]) if counts[1] else of_lengths(partition.lengths * 0)
    whole = from_partitions(values, [partition])
    return whole if counts[0] == 1 else take_rows(whole, np.tile(np.arange(partition.count), counts[0]))


@register("reverse", "reverse_v2")
def _reverse(call: Call, tensor: Any, axis: Any, name: Any = None) -> Any:
    axes = known(convert(axis, dtype_hint="int32"))
    if axes.ndim != 1:
        raise TypeError(
            "`axis` must be a list of int or a constant tensor when reversing axes in a ragged tensor. "
            f"Received {axis!r}."
        )
    for one in axes.tolist():
        tensor = _reversed(call, tensor, axis_of(int(one), rank_of(tensor)))
    return tensor


def _reversed(call: Call, x: Any, axis: int) -> Any:
    if type(x) is not RaggedTensor:
        return call(x, [axis])
    partition = x._partition
    if axis == 0:
        return take_rows(x, np.arange(partition.count)[::-1])
    if axis == 1:
        return from_partitions(_reversed_within(x._values, partition), [partition])
    return from_partitions(_reversed(call, x._values, axis - 1), [partition])


def _reversed_within(values: Any, partition: RowPartition) -> Any:
    """Reverse the values of each row."""
    if is_plain(values):  # each row is a slice of all values in reverse order
        last = partition.splits[-1] - partition.limits
        return wrap(copied_rows(values.array[::-1], last, partition.lengths))
    return take_rows(values, np.repeat(partition.starts + partition.limits - 1, partition.lengths)
                     - np.arange(partition.size))  # fmt: skip


@register("split")
def _split(call: Call, value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: Any = None) -> Any:
    place = axis_of(_known_int(axis), rank_of(value))
    splits = known(convert(num_or_size_splits))
    if splits.ndim == 0 and splits < 1:
        raise ValueError(f"`num_or_size_splits` must be >=1 if it is an `int`. Received {splits}.")
    if splits.ndim == 0 and splits == 1:
        return [value]
    if place > value.ragged_rank:
        parts = call(value.flat_values, num_or_size_splits, place - value.ragged_rank, num)
        return [value._with_flat(part) for part in parts]
    size = count_of(value) if place == 0 else value._partitions[place - 1].uniform
    if size is None:
        raise ValueError(f"Cannot split a ragged dimension. Got `value` with shape {value.shape} and `axis` {place}.")
    key = (slice(None),) * place
    return [value[(*key, slice(start, stop))] for start, stop in pairwise(_split_limits(splits, size))]


def _split_limits(splits: ndarray, size: int) -> list[int]:
    """The starts and ends of the parts of an axis."""
    exact = size % int(splits) == 0 if splits.ndim == 0 else int(splits.sum()) == size
    if not exact:
        raise errors.refused_value(
            "Cannot exactly split the `axis` dimension of `value` with the given `num_or_size_split`: its size is "
            f"{size}, but num_or_size_splits is {splits.tolist()}."
        )
    sizes = np.full(int(splits), size // int(splits)) if splits.ndim == 0 else splits
    return [0, *np.cumsum(sizes).tolist()]


@register("dynamic_partition")
def _dynamic_partition(call: Call, data: Any, partitions: Any, num_partitions: Any, name: Any = None) -> list[Any]:
    numbers = known(convert(partitions, dtype_hint="int32"))
    if numbers.shape != (count_of(data),):
        raise errors.refused_value(
            f"data.shape must start with partitions.shape, got {data.shape} and {errors.brackets(numbers.shape)}",
            "DynamicPartition",
        )
    return [take_rows(data, np.flatnonzero(numbers == i)) for i in range(int(num_partitions))]


# -- looking up ------------------------------------------------------------------------------------------------------
@register("gather")
def _gather(call: Call, params: Any, indices: Any, validate_indices: Any = None, axis: Any = None,
            batch_dims: Any = 0, name: Any = None) -> Any:  # fmt: skip
    where = indices if type(indices) is RaggedTensor else convert(indices, dtype_hint="int32")
    source = params if type(params) is RaggedTensor else convert(params)
    if not where.dtype.is_integer:
        raise errors.unsupported_dtype("RaggedGather", where.dtype, "int32, int64", "Tindices")
    batch = _known_int(batch_dims)
    batch += rank_of(where) if batch < 0 else 0
    place = batch if axis is None else axis_of(_known_int(axis), rank_of(source))
    if place < batch:
        raise ValueError(f"batch_dims={batch} must be less than or equal to axis={place}.")
    if batch >= rank_of(source):
        raise ValueError(f"batch_dims must be less than rank(params). Received {batch} and {len(source.shape)}.")
    return _gathered(call, source, where, place, batch)


def _gathered(call: Call, params: Any, where: Any, axis: int, batch: int) -> Any:
    if type(params) is not RaggedTensor and type(where) is not RaggedTensor:
        return call(params, where, axis=axis, batch_dims=batch)
    if batch > 0:
        return _gather_batch(call, params, where, axis, batch)
    if axis > 0:
        return _gather_every_row(call, params, where, axis)
    if type(where) is RaggedTensor:
        return from_partitions(_gathered(call, params, where._values, 0, 0), [where._partition])
    index = checked_positions(known(where), params._partition.count)
    if index.ndim == 0:
        return params[int(index)]
    rows = take_rows(params, index.reshape(-1))
    sizes = index.shape[1:]
    return from_partitions(rows, [_equal_rows(n, index.shape[: i + 1], params) for i, n in enumerate(sizes)])


def _equal_rows(length: int, outer: tuple[int, ...], like: RaggedTensor) -> RowPartition:
    """Rows of equal length, whose dimension counts as ragged."""
    return RowPartition(uniform_rows(length, int(np.prod(outer)), like._partition.dtype).splits)


def checked_positions(index: ndarray, size: Any) -> ndarray:
    """Check positions along an axis of one size, or each within its own row."""
    wrong = (index < 0) | (index >= size)
    if wrong.any():
        at = int(np.argmax(wrong.reshape(-1)))
        limit = int(np.broadcast_to(size, index.shape).reshape(-1)[at])
        place = errors.brackets(tuple(int(n) for n in np.unravel_index(at, index.shape))) if index.ndim else ""
        raise errors.refused_value(
            f"indices{place} = {int(index.reshape(-1)[at])} is not in [0, {limit})", "RaggedGather"
        )
    return index


def _gather_batch(call: Call, params: Any, where: Any, axis: int, batch: int) -> Any:
    """Positions within each row, converted to positions in the values of all rows."""
    if count_of(params) != count_of(where):
        raise ValueError(f"batch shape from indices {where.shape[:1]} does not match params shape {params.shape}")
    dtype = next(x._partition.dtype for x in (params, where) if type(x) is RaggedTensor)
    source = params if type(params) is RaggedTensor else RaggedTensor.from_tensor(params, row_splits_dtype=dtype)
    if axis > batch:  # the positions of a row apply to everything in it
        inner = _gathered(call, source._values, take_rows(where, source._partition.rowids), axis - 1, batch)
        return from_partitions(inner, [source._partition])
    if batch > 1:
        rows = where if type(where) is RaggedTensor else RaggedTensor.from_tensor(where, row_splits_dtype=dtype)
        if not rows._partition.matches(source._partition):
            raise errors.refused_value("batch shapes of params and indices do not match", "RaggedGather")
        return from_partitions(_gathered(call, source._values, rows._values, axis - 1, batch - 1), [rows._partition])
    return _positions_in_rows(source, where, np.arange(count_of(where)))


def _positions_in_rows(source: RaggedTensor, where: Any, row: ndarray) -> Any:
    """Values at positions, each in the row of `source` that is its first coordinate."""
    if type(where) is RaggedTensor:
        inner = _positions_in_rows(source, where._values, row[where._partition.rowids])
        return from_partitions(inner, [where._partition])
    index, partition = known(where), source._partition
    row = row.reshape(-1, *[1] * (index.ndim - 1))
    checked_positions(index, partition.lengths[row])
    found = take_rows(source._values, (partition.starts[row] + index).reshape(-1))
    if type(found) is not RaggedTensor:
        return array.reshape(found, shape=(*index.shape, *found.array.shape[1:]))
    return from_partitions(found, [_equal_rows(n, index.shape[: i + 1], source) for i, n in enumerate(index.shape[1:])])


def _gather_every_row(call: Call, params: Any, where: Any, axis: int) -> Any:
    """The same positions in every row."""
    if type(params) is not RaggedTensor:  # the positions are ragged
        params = RaggedTensor.from_tensor(params, row_splits_dtype=where._partition.dtype)
    if axis > 1:
        return from_partitions(_gathered(call, params._values, where, axis - 1, 0), [params._partition])
    count = params._partition.count
    if type(where) is not RaggedTensor:
        index = known(where)
        return _positions_in_rows(params, wrap(np.broadcast_to(index, (count, *index.shape))), np.arange(count))
    size = count_of(where)
    every = take_rows(where, np.tile(np.arange(size), count))
    found = _positions_in_rows(params, every, np.repeat(np.arange(count), size))
    return from_partitions(found, [uniform_rows(size, count, params._partition.dtype)])


@register("gather_nd")
def _gather_nd(call: Call, params: Any, indices: Any, batch_dims: Any = 0, name: Any = None, **_: Any) -> Any:
    if int(batch_dims):
        raise ValueError("batch_dims != 0 is not supported for ragged gather yet.")
    if type(indices) is RaggedTensor:
        return indices._with_flat(_gather_nd(call, params, indices.flat_values))
    where = convert(indices, dtype_hint="int32")
    if type(params) is not RaggedTensor:
        return call(params, where)
    places = known(where)
    if places.ndim == 0:
        raise ValueError("indices must have at least one dimension.")
    if not places.shape[-1]:
        return pile([params] * int(np.prod(places.shape[:-1])), 0)
    flat = _at_coordinates(call, params, places.reshape(-1, places.shape[-1]))
    if type(flat) is not RaggedTensor:
        return array.reshape(flat, shape=(*places.shape[:-1], *flat.array.shape[1:]))
    sizes = places.shape[1:-1]
    dtype = flat._partition.dtype
    outer = [uniform_rows(n, int(np.prod(places.shape[: i + 1])), dtype) for i, n in enumerate(sizes)]
    return from_partitions(flat, outer)


def _at_coordinates(call: Call, x: Any, places: ndarray) -> Any:
    """The elements, rows or matrices at coordinates, stacked."""
    rows, left = places[:, 0], places[:, 1:]
    checked_positions(rows, count_of(x))
    while left.shape[1] and type(x) is RaggedTensor:
        checked_positions(left[:, 0], x._partition.lengths[rows])
        rows, x, left = x._partition.starts[rows] + left[:, 0], x._values, left[:, 1:]
    if not left.shape[1]:
        return take_rows(x, rows)
    return call(x, wrap(np.concatenate([rows[:, None], left], axis=1)))


# -- masks -----------------------------------------------------------------------------------------------------------
def boolean_mask(data: Any, mask: Any) -> Any:
    """The values where a mask is true; rows of the mask remain rows."""
    if type(mask) is not RaggedTensor:
        truth = known(mask)
        if truth.ndim == 1:
            if len(truth) != count_of(data):
                raise ValueError(f"Shapes ({len(truth)},) and ({count_of(data)},) are incompatible.")
            return take_rows(data, np.flatnonzero(truth))
        mask = RaggedTensor.from_tensor(mask)
        mask = from_partitions(mask._values, [RowPartition(mask._partition.splits)])
    if type(data) is not RaggedTensor:
        data = RaggedTensor.from_tensor(data, row_splits_dtype=mask._partition.dtype)
    if not data._partition.matches(mask._partition):
        raise errors.refused_value(
            "Inputs must have identical ragged splits: the rows of data and mask have the lengths "
            f"{data._partition.lengths.tolist()} and {mask._partition.lengths.tolist()}."
        )
    partition = mask._partition
    inner = boolean_mask(data._values, mask._values)
    if type(mask._values) is RaggedTensor or len(mask._values.shape) > 1:
        return from_partitions(inner, [partition])
    chosen = np.bincount(partition.rowids[known(mask._values)], minlength=partition.count)
    return from_partitions(inner, [of_lengths(chosen.astype(partition.dtype))])
