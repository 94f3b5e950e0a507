"""`ragged[...]`: rows, slices of rows, and slices within every row."""

from __future__ import annotations

from types import NoneType
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import operand
from gradtape._src.core.composites import hosted
from gradtape._src.ops import array
from gradtape._src.ops.indexing import basic_index
from gradtape._src.ops.ragged import partition as partitions
from gradtape._src.ops.ragged.partition import RowPartition
from gradtape._src.ops.ragged.tensor import RaggedTensor, _new, count_of, take_ranges, take_rows

_PLAIN = {int, NoneType}
_RAGGED = "Cannot index into an inner ragged dimension."


@hosted
def get_item(x: RaggedTensor, key: Any) -> Any:
    """ragged[key].

    >>> import gradtape as tf
    >>> r = tf.ragged.constant([[1, 2, 3], [4], []])
    >>> r[0].numpy().tolist(), r[:, :2].to_list(), r[0, -1].numpy().item()
    ([1, 2, 3], [[1, 2], [4], []], 3)
    """
    if type(key) is slice:
        return _slice_rows(x, key)
    keys = list(key) if isinstance(key, (tuple, list)) else [key]
    if any(key is Ellipsis for key in keys):
        keys = _without_ellipsis(keys, len(x.shape))
    return _outer(x, keys)


def _without_ellipsis(keys: list[Any], rank: int) -> list[Any]:
    """Replace the first `...` of an index by `:` and remove the others."""
    used = sum(key is not None and key is not Ellipsis for key in keys)
    at = next(i for i, key in enumerate(keys) if key is Ellipsis)
    after = [key for key in keys[at + 1 :] if key is not Ellipsis]
    return keys[:at] + [slice(None)] * (rank - used) + after


def _outer(x: Any, keys: list[Any]) -> Any:
    """Apply an index that begins with the first dimension."""
    if not keys:
        return x
    if type(x) is not RaggedTensor:
        return x[tuple(keys)]
    key, rest = keys[0], keys[1:]
    if key is None:
        return _one_row(_outer(x, rest), x._partition.dtype)
    if isinstance(key, slice):
        return _inner(_slice_rows(x, key), rest)
    row = _row_number(key, x._partition.count)
    start, stop = x._partition.splits[row : row + 2].tolist()
    return _outer(_window(x._values, start, stop), rest)


def _one_row(x: Any, dtype: Any) -> Any:
    """Add a leading dimension of which x is the only row."""
    if type(x) is RaggedTensor:
        return _new(x, partitions.uniform_rows(count_of(x), 1, dtype))
    return array.reshape(x, shape=(1, *x.array.shape))


def _inner(x: Any, keys: list[Any]) -> Any:
    """Apply an index that begins with the second dimension and keeps the first."""
    if not keys:
        return x
    if type(x) is not RaggedTensor:
        return x[(slice(None), *keys)]
    key, rest = keys[0], keys[1:]
    if key is None:
        inner = _inner(x, rest)
        if type(inner) is not RaggedTensor:
            return inner[:, None]
        return _new(inner, partitions.uniform_rows(1, count_of(inner), x._partition.dtype))
    if isinstance(key, slice):
        y = _slice_columns(x, key)
        return _new(_inner(y._values, rest), y._partition)
    return _inner(_column(x, key), rest)


def _window(values: Any, start: int, stop: int) -> Any:
    """Return the values between two positions."""
    if type(values) is not RaggedTensor:
        return values[start:stop]
    first, last = values._partition.splits[start], values._partition.splits[stop]
    return _new(_window(values._values, int(first), int(last)), values._partition.window(start, stop))


def _row_number(key: Any, count: int) -> int:
    tensor = operand(key) if hasattr(key, "numpy") else None
    if tensor is not None and not is_known(tensor):
        partitions.known(tensor)
    row = _integer(key)
    if row >= count:
        raise IndexError(f"Row key {row} out of bounds: the ragged tensor has {count} rows.")
    if row < -count:
        raise errors.refused_value(f"slice index {row + count} of dimension 0 out of bounds.", "StridedSlice")
    return row + count if row < 0 else row


def _integer(key: Any) -> int:
    """Convert an index to an int; raise the errors of tensors if it is not one."""
    (row,) = basic_index(slice(key, None), (0,))
    start: int = row.start
    return start


def _slice_rows(x: RaggedTensor, key: slice) -> RaggedTensor:
    start, stop, step = _checked(key).indices(x._partition.count)
    if (start, stop, step) == (0, x._partition.count, 1):
        return x
    if step == 1:
        found: RaggedTensor = _window(x, start, max(start, stop))
        return found
    rows: RaggedTensor = take_rows(x, np.arange(start, stop, step))
    return rows


def _checked(key: slice) -> slice:
    """Convert tensors and NumPy integers in a slice to ints."""
    if {type(key.start), type(key.stop), type(key.step)} <= _PLAIN and key.step != 0:
        return key
    (part,) = basic_index(key, (0,))
    found: slice = part
    return found


def _slice_columns(x: RaggedTensor, key: slice) -> RaggedTensor:
    """Slice every row."""
    if key.start is None and key.stop is None and key.step is None:
        return x
    partition, starts, step = _columns(x._partition, _checked(key))
    if step == 1:
        return _new(take_ranges(x._values, starts, partition), partition)
    where = np.repeat(starts, partition.lengths) + partition.offsets * step
    return _new(take_rows(x._values, where), partition)


def _columns(partition: RowPartition, part: slice) -> tuple[RowPartition, ndarray, int]:
    """Return the partition after slicing every row, the position of each row's first value, and the step."""
    step, lengths = 1 if part.step is None else part.step, partition.lengths
    low, high = (0, lengths) if step > 0 else (-1, lengths - 1)

    def bound(end: int | None, default: Any) -> Any:
        if end is None:
            return np.broadcast_to(default, lengths.shape)
        return np.minimum(np.maximum(end + lengths if end < 0 else end, low), high)

    start = bound(part.start, low if step > 0 else high)
    stop = bound(part.stop, high if step > 0 else low)
    counts = stop - start if step == 1 else (stop - start + step - (1 if step > 0 else -1)) // step
    counts = np.maximum(counts, 0).astype(partition.dtype, copy=False)
    uniform = None
    if partition.uniform is not None:
        uniform = len(range(*part.indices(partition.uniform)))
    return partitions.of_lengths(counts, uniform), partition.starts + start, step


def _column(x: RaggedTensor, key: Any) -> Any:
    """Return one element of every row; all rows must have the same length."""
    place, length = _integer(key), x._partition.uniform
    if length is None:
        raise ValueError(
            f"{_RAGGED} Rows may be too short for position {place}: take a slice, such as [:, {place}:{place + 1}]."
        )
    if not -length <= place < length:
        raise errors.refused_value(
            f"Index out of bounds when indexing into a ragged tensor: {place} is not in a row of length {length}."
        )
    return take_rows(x._values, x._partition.starts + (place + length if place < 0 else place))
