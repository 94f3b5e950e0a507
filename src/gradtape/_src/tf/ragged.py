"""`tf.ragged`: create ragged tensors, and apply functions to their flat values."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from gradtape._src import dtypes, errors, nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.composites import hosted
from gradtape._src.ops.ragged import RaggedTensor, count_of, from_partitions, take_rows
from gradtape._src.ops.ragged.partition import RowPartition, dtype_of, known, numbers, of_lengths
from gradtape._src.ops.ragged.tensor import axis_of, merge_dims
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.ragged_array import aligned, boolean_mask as masked, pile

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- constants -------------------------------------------------------------------------------------------------------
def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """Create a ragged tensor from nested lists. Without ragged dimensions, the result is a tensor.

    `ragged_rank` is the number of ragged dimensions, and `inner_shape` the shape of the uniform dimensions after them.

    >>> import gradtape as tf
    >>> tf.ragged.constant([["a"], [], ["b", "c"]])
    <tf.RaggedTensor [[b'a'], [], [b'b', b'c']]>
    >>> tf.ragged.constant([[[1, 2]], [[3, 4], [5, 6]]], ragged_rank=1).shape
    TensorShape([2, None, 2])
    """
    if ragged_rank is not None and ragged_rank < 0:
        raise ValueError(f"Invalid ragged_rank={ragged_rank}: must be nonnegative")
    kind = dtype_of(row_splits_dtype)
    if not _is_list(pylist):
        if ragged_rank:
            raise ValueError(f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}")
        if inner_shape:
            raise ValueError(f"Invalid pylist={pylist!r}: incompatible with dim(inner_shape)={len(inner_shape)}")
        return array.constant(pylist, dtype)
    scalars, depth = _depths(pylist)
    rank, inner = _ranks(pylist, scalars, depth, ragged_rank, inner_shape)
    found, flat = [], pylist
    for _ in builtins.range(rank):
        found.append(of_lengths(np.array([len(row) for row in flat], kind)))
        flat = list(chain.from_iterable(flat))
    return from_partitions(array.constant(flat, dtype, (len(flat), *inner)), found)


def _is_list(value: Any) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, ndarray) and value.ndim > 0)


def _depths(values: Any) -> tuple[int | None, int]:
    """The depth of scalars in nested lists (None: there are none), and of the lists."""
    scalars, depth, level = None, 0, [values]
    while level:
        plain = [value for value in level if not _is_list(value)]
        if plain and (scalars is not None or len(plain) < len(level)):
            raise ValueError("all scalar values must have the same nesting depth")
        if plain:
            return depth, depth
        depth += 1
        level = list(chain.from_iterable(level))
        if any(not _is_list(value) for value in level):
            scalars = depth
            if any(_is_list(value) for value in level):
                raise ValueError("all scalar values must have the same nesting depth")
            return scalars, depth
    return scalars, depth


def _ranks(
    pylist: Any, scalars: int | None, depth: int, ragged_rank: int | None, inner_shape: Any
) -> tuple[int, tuple[int, ...]]:
    """The number of ragged dimensions, and the sizes of the uniform inner ones."""
    if scalars is not None and ragged_rank is not None and ragged_rank >= scalars:
        raise ValueError(
            f"pylist has scalar values depth {scalars}, but ragged_rank={ragged_rank} requires scalar value depth "
            f"greater than {ragged_rank}"
        )
    if inner_shape is None and ragged_rank is None:
        return depth - 1, ()
    if inner_shape is None:
        return ragged_rank or 0, _inner_shape(pylist, ragged_rank or 0)
    inner = tuple(inner_shape) if not isinstance(inner_shape, (int, np.integer)) else (int(inner_shape),)
    rank = max(1 if scalars is None else 0, depth - 1 - len(inner)) if ragged_rank is None else ragged_rank
    if (scalars is None and rank + 1 < depth) or (scalars is not None and rank + len(inner) + 1 != scalars):
        raise ValueError(
            f"Invalid pylist={pylist!r}: incompatible with ragged_rank={rank} and dim(inner_shape)={len(inner)}"
        )
    return rank, inner


def _inner_shape(pylist: Any, ragged_rank: int) -> tuple[int, ...]:
    """The sizes of the inner dimensions, which must be equal in all parts."""
    flat = pylist
    for _ in builtins.range(ragged_rank):
        flat = list(chain.from_iterable(flat))
    sizes: list[int] = []
    level = list(flat)
    while level and _is_list(level[0]):
        lengths = {len(part) for part in level if _is_list(part)}
        if len(lengths) != 1 or not all(map(_is_list, level)):
            raise ValueError("inner values have inconsistent shape")
        sizes.append(lengths.pop())
        level = list(chain.from_iterable(level))
    return tuple(sizes)


# -- flat values -----------------------------------------------------------------------------------------------------
def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a function to the flat values of ragged arguments, which must all have the same rows.

    >>> import gradtape as tf
    >>> tf.ragged.map_flat_values(tf.one_hot, tf.ragged.constant([[1], [0, 2]]), 3).shape
    TensorShape([2, None, 3])
    """
    found: list[RaggedTensor] = []

    def flat(value: Any) -> Any:
        if not isinstance(value, RaggedTensor):
            return value
        found.append(value)
        return value.flat_values

    args, kwargs = nest.map_structure(flat, (args, kwargs))
    if not found:
        return op(*args, **kwargs)
    first = found[0]
    _check_rows(found)
    result = op(*args, **kwargs)
    if not isinstance(result, (Tensor, RaggedTensor)):
        result = convert(result)
    if not len(result.shape) or result.shape[0] != first.flat_values.shape[0]:
        raise ValueError(
            "tf.ragged.map_flat_values requires that the output of `op` have the same outer-dimension size as "
            f"flat_values of any ragged inputs. (output shape: {result.shape}; expected outer dimension size: "
            f"{first.flat_values.shape[0]})"
        )
    return first.with_flat_values(result)


def _check_rows(found: list[RaggedTensor]) -> None:
    sizes = sorted({one.flat_values.array.shape[0] for one in found})
    if len(sizes) > 1:
        raise ValueError(
            "Input RaggedTensors' flat_values must all have the same outer-dimension size.  Got sizes: "
            f"{{{', '.join(map(str, sizes))}}}"
        )
    first = found[0]._partitions
    for other in found[1:]:
        mine = other._partitions
        same = len(mine) == len(first) and all(a.matches(b) for a, b in zip(mine, first, strict=True))
        if not same:
            raise errors.refused_value(
                "All ragged inputs must have the same nested_row_splits. Received "
                f"{[p.splits.tolist() for p in first]} and {[p.splits.tolist() for p in mine]}."
            )


# -- ranges, stacks and masks ----------------------------------------------------------------------------------------
@hosted
def range(
    starts: TensorLike,
    limits: Any = None,
    deltas: TensorLike = 1,
    dtype: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> RaggedTensor:
    """Return a row of numbers for each start, up to its limit; with one argument, from 0 up to each limit.

    >>> import gradtape as tf
    >>> tf.ragged.range([3, 0, 2])
    <tf.RaggedTensor [[0, 1, 2], [], [0, 1]]>
    >>> tf.ragged.range([0, 10], [10, 0], [4, -3])
    <tf.RaggedTensor [[0, 4, 8], [10, 7, 4, 1]]>
    """
    if limits is None:
        starts, limits = 0, starts
    first, last, step = (known(part) for part in _range_operands(starts, limits, deltas, dtype))
    sizes = {part.size for part in (first, last, step) if part.ndim}
    if max(part.ndim for part in (first, last, step)) > 1:
        raise ValueError("starts, limits and deltas must be scalars or vectors.")
    if len(sizes) > 1:
        raise errors.invalid_argument("starts, limits, and deltas must have the same shape", "RaggedRange")
    if (step == 0).any():
        raise errors.refused_value("Requires delta != 0", "RaggedRange")
    first, last, step = (np.atleast_1d(part) for part in np.broadcast_arrays(first, last, step))
    span = (last - first) / step if first.dtype.kind in "fV" else -((first - last) // step)
    partition = of_lengths(np.maximum(np.ceil(span), 0).astype(dtype_of(row_splits_dtype)))
    offsets = partition.offsets.astype(first.dtype)
    numbers_ = np.repeat(first, partition.lengths) + offsets * np.repeat(step, partition.lengths)
    result: RaggedTensor = from_partitions(wrap(numbers_.astype(first.dtype)), [partition])
    return result


def _range_operands(starts: Any, limits: Any, deltas: Any, dtype: Any) -> list[Tensor]:
    """Starts, limits and steps in their widest dtype, or in a given one."""
    given = [starts, limits, deltas]
    if dtype is not None:
        return [array.cast(one, dtype) if isinstance(one, Tensor) else convert(one, dtype) for one in given]
    tensors = [convert(one) for one in given]
    order = ["int32", "int64", "float32", "float64"]
    found = [tensor.dtype.name for tensor in tensors]
    if not set(found) <= set(order):
        raise errors.unsupported_dtype("RaggedRange", tensors[0].dtype, ", ".join(order))
    widest = order[max(order.index(one) for one in found)]
    return [array.cast(tensor, widest) for tensor in tensors]


@hosted
def stack(values: Any, axis: int = 0, name: str | None = None) -> Any:
    """Stack tensors along a new axis; their lengths may differ.

    >>> import gradtape as tf
    >>> tf.ragged.stack([[1, 2, 3], [4]])
    <tf.RaggedTensor [[1, 2, 3], [4]]>
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    if not values:
        raise ValueError("rt_inputs may not be empty.")
    tensors: list[Any] = [value if isinstance(value, RaggedTensor) else convert(value) for value in values]
    ranks = {len(tensor.shape) for tensor in tensors}
    if len(ranks) > 1:
        raise ValueError(f"All inputs must have the same rank. Received ranks {sorted(ranks)}.")
    rank = ranks.pop()
    place = axis_of(axis, rank + 1)
    if all(isinstance(tensor, Tensor) for tensor in tensors) and (rank == 0 or place > 0):
        return array.stack(tensors, axis)
    if rank == 1:
        lengths = np.array([tensor.array.shape[0] for tensor in tensors], np.int32)  # the dtype of shapes
        return from_partitions(array.concat(tensors, 0), [of_lengths(lengths)])
    return pile(aligned(tensors, least=1), place)


@hosted
def boolean_mask(data: Any, mask: Any, name: str | None = None) -> Any:
    """Return the values where a mask is true. Unlike in `tf.boolean_mask`, rows of the mask stay rows.

    >>> import gradtape as tf
    >>> tf.ragged.boolean_mask([[1, 2], [3, 4]], [[True, False], [True, True]])
    <tf.RaggedTensor [[1], [3, 4]]>
    """
    values = data if isinstance(data, RaggedTensor) else convert(data)
    truth = mask if isinstance(mask, RaggedTensor) else convert(mask, dtypes.bool)
    if not truth.dtype.is_bool:
        raise ValueError(f"Argument `mask` must have dtype bool. Received {truth.dtype!r}.")
    if not len(truth.shape):
        raise ValueError("mask cannot be scalar.")
    if len(truth.shape) > len(values.shape):
        raise ValueError(
            f"Argument `mask` of rank {len(truth.shape)} is not compatible with data of rank {len(values.shape)}."
        )
    return masked(values, truth)


@hosted
def stack_dynamic_partitions(data: Any, partitions: Any, num_partitions: Any, name: str | None = None) -> RaggedTensor:
    """Stack values into rows by their partition numbers.

    >>> import gradtape as tf
    >>> tf.ragged.stack_dynamic_partitions(["a", "b", "c", "d"], [2, 0, 2, 1], 4)
    <tf.RaggedTensor [[b'b'], [b'd'], [b'a', b'c'], []]>
    """
    values = data if isinstance(data, RaggedTensor) else convert(data)
    rows = partitions if isinstance(partitions, RaggedTensor) else convert(partitions, dtype_hint="int32")
    count = int(numbers(num_partitions, "num_partitions", rank=0))
    while isinstance(rows, RaggedTensor) or len(rows.shape) > 1:
        rows = rows.values if isinstance(rows, RaggedTensor) else merge_dims(rows, 0, 1)
        values = values.values if isinstance(values, RaggedTensor) else merge_dims(values, 0, 1)
    if not len(rows.shape):
        return stack_dynamic_partitions([values], array.reshape(rows, [1]), num_partitions)
    ids = known(rows)
    if len(ids) != count_of(values):
        raise errors.refused_value(
            f"partitions has {len(ids)} entries for {count_of(values)} values", "StackDynamicPartitions"
        )
    if ids.size and (ids.min() < 0 or ids.max() >= count):
        raise errors.refused_value(
            f"partitions must be in [0, num_partitions={count}). Received {ids.tolist()}", "StackDynamicPartitions"
        )
    lengths = np.bincount(ids, minlength=count).astype(ids.dtype)
    result: RaggedTensor = from_partitions(take_rows(values, np.argsort(ids, kind="stable")), [of_lengths(lengths)])
    return result


# -- feature crosses -------------------------------------------------------------------------------------------------
@hosted
def cross(inputs: Any, name: str | None = None) -> RaggedTensor:
    """Return every combination of the elements in a row of several matrices, as strings.

    >>> import gradtape as tf
    >>> tf.ragged.cross([tf.ragged.constant([["a"], ["b", "c"]]), [["d"], ["e"]]])
    <tf.RaggedTensor [[b'a_X_d'], [b'b_X_e', b'c_X_e']]>
    """
    from gradtape._src.tf import crosses

    return crosses.ragged_cross(inputs)


@hosted
def cross_hashed(inputs: Any, num_buckets: Any = 0, hash_key: Any = None, name: str | None = None) -> RaggedTensor:
    """Return every combination of the elements in a row of several matrices, as TensorFlow's hashes.

    >>> import gradtape as tf
    >>> tf.ragged.cross_hashed([[["a"]], [["d"]]], num_buckets=100)
    <tf.RaggedTensor [[82]]>
    """
    from gradtape._src.tf import crosses

    return crosses.ragged_cross_hashed(inputs, num_buckets, hash_key)


# -- row splits and segment ids --------------------------------------------------------------------------------------
@hosted
def row_splits_to_segment_ids(splits: TensorLike, name: str | None = None, out_type: Any = None) -> Tensor:
    """Return the row number of each value.

    >>> import gradtape as tf
    >>> tf.ragged.row_splits_to_segment_ids([0, 3, 3, 5]).numpy().tolist()
    [0, 0, 0, 2, 2]
    """
    given = known(convert(splits, dtype_hint="int64"))
    if given.dtype.kind != "i" or given.dtype.itemsize < 4:
        raise ValueError(f"splits must have dtype int32 or int64. Received {dtypes.as_dtype(given.dtype)!r}.")
    if given.ndim != 1:
        raise ValueError(f"Shape {given.shape} must have rank 1. It is that of `splits`.")
    if not len(given):
        raise ValueError("Invalid row_splits: []")
    kind = given.dtype if out_type is None else dtypes.as_dtype(out_type).numpy_dtype
    return wrap(RowPartition(given).rowids.astype(kind))


@hosted
def segment_ids_to_row_splits(
    segment_ids: TensorLike, num_segments: Any = None, out_type: Any = None, name: str | None = None
) -> Tensor:
    """Return where the rows with these numbers, which must not decrease, start and end.

    >>> import gradtape as tf
    >>> tf.ragged.segment_ids_to_row_splits([0, 0, 0, 2, 2], num_segments=4).numpy().tolist()
    [0, 3, 3, 5, 5]
    """
    ids = known(convert(segment_ids, dtype_hint="int64"))
    if ids.ndim != 1:
        raise ValueError(f"Shape {ids.shape} must have rank 1. It is that of `segment_ids`.")
    kind = ids.dtype if out_type is None else dtypes.as_dtype(out_type).numpy_dtype
    if ids.dtype.kind != "i":
        raise ValueError(f"segment_ids must be an integer tensor. Received {dtypes.as_dtype(ids.dtype)!r}.")
    least = int(ids.max()) + 1 if len(ids) else 0
    count = least if num_segments is None else int(numbers(num_segments, "num_segments", rank=0))
    return wrap(of_lengths(np.bincount(ids, minlength=count).astype(kind)).splits)


__all__ = [
    "boolean_mask",
    "constant",
    "cross",
    "cross_hashed",
    "map_flat_values",
    "range",
    "row_splits_to_segment_ids",
    "segment_ids_to_row_splits",
    "stack",
    "stack_dynamic_partitions",
]


def __dir__() -> list[str]:
    return list(__all__)
