"""Row partitions: how the values of a ragged tensor are divided into rows.

A partition is defined by its row splits: the position where each row starts, then the number of values. The other
encodings (lengths, row numbers, starts, limits) are computed from it when they are first needed. All are NumPy arrays:
the shapes of results depend on them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known, unknown_shape
from gradtape._src.conversion import convert, wrap
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.tensor import Tensor


class RowPartition:
    """Rows of a vector of values, in order and without gaps.

    >>> RowPartition(np.array([0, 2, 2, 5])).lengths.tolist()
    [2, 0, 3]
    """

    def __init__(self, splits: ndarray, uniform: int | None = None) -> None:
        self.splits, self.uniform = splits, uniform

    @property
    def count(self) -> int:
        """The number of rows."""
        return len(self.splits) - 1

    @property
    def size(self) -> int:
        """The number of values."""
        return int(self.splits[-1])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.splits.dtype

    @property
    def starts(self) -> ndarray:
        return self.splits[:-1]

    @property
    def limits(self) -> ndarray:
        return self.splits[1:]

    @cached_property
    def lengths(self) -> ndarray:
        return self.splits[1:] - self.splits[:-1]

    @cached_property
    def rowids(self) -> ndarray:
        """The number of the row of each value."""
        lengths = self.lengths
        return np.repeat(np.arange(len(lengths), dtype=self.dtype), lengths)

    @cached_property
    def offsets(self) -> ndarray:
        """The position of each value within its row."""
        return np.arange(self.size, dtype=self.dtype) - np.repeat(self.starts, self.lengths)

    @cached_property
    def longest(self) -> int:
        """The length of the longest row; 0 where there are none."""
        return int(self.lengths.max()) if self.count else 0

    @cached_property
    def row_splits(self) -> Tensor:
        """The splits as a tensor; always the same object, because tapes may watch it."""
        return wrap(self.splits.copy())

    def matches(self, other: RowPartition) -> bool:
        """Return whether the rows are the same."""
        return self is other or self.splits is other.splits or np.array_equal(self.splits, other.splits)

    def astype(self, dtype: np.dtype[Any]) -> RowPartition:
        return self if self.dtype == dtype else RowPartition(self.splits.astype(dtype), self.uniform)

    def positions_from(self, starts: ndarray) -> ndarray:
        """Return the positions of the values of rows of these lengths that start at other positions."""
        return np.repeat(starts - self.starts, self.lengths) + np.arange(self.size, dtype=self.dtype)

    def window(self, start: int, stop: int) -> RowPartition:
        """Return a range of rows."""
        splits = self.splits[start : stop + 1]
        return RowPartition(splits - splits[0], self.uniform)


class UniformPartition(RowPartition):
    """Rows of one length; the splits are computed when they are first needed."""

    def __init__(self, length: int, count: int, dtype: np.dtype[Any]) -> None:
        self.uniform, self._count, self._dtype = length, count, dtype

    @cached_property
    def splits(self) -> ndarray:  # type: ignore[override]
        return np.arange(self._count + 1, dtype=self._dtype) * self._dtype.type(self.uniform)

    @property
    def count(self) -> int:
        return self._count

    @property
    def size(self) -> int:
        return self._count * (self.uniform or 0)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._dtype


class SymbolicPartition(RowPartition):
    """A partition whose row splits are symbolic; what needs their values runs with the program."""

    def __init__(self, row_splits: Tensor, uniform: int | None = None) -> None:
        self._tensor, self.uniform = row_splits, uniform

    @property
    def splits(self) -> ndarray:  # type: ignore[override]
        return known(self._tensor)

    @property
    def row_splits(self) -> Tensor:
        return self._tensor

    @property
    def count(self) -> Any:
        return self._tensor.array.shape[0] - 1

    @property
    def dtype(self) -> np.dtype[Any]:
        found: np.dtype[Any] = self._tensor.array.dtype
        return found

    def matches(self, other: RowPartition) -> bool:
        return self is other or self._tensor.array is other.row_splits.array or super().matches(other)


def of_lengths(lengths: ndarray, uniform: int | None = None) -> RowPartition:
    """Return the partition with these row lengths."""
    splits = np.zeros(len(lengths) + 1, lengths.dtype)
    np.cumsum(lengths, out=splits[1:])
    partition = RowPartition(splits, uniform)
    partition.__dict__["lengths"] = lengths  # the cached property
    return partition


def uniform_rows(length: int, count: int, dtype: Any = np.int64) -> RowPartition:
    """Return rows of equal length.

    >>> uniform_rows(2, 3).splits.tolist()
    [0, 2, 4, 6]
    """
    return UniformPartition(length, count, dtype_of(dtype))


def dtype_of(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of row splits: int32 or int64."""
    found: DType = as_dtype(dtype)
    if found.name not in ("int32", "int64"):
        raise ValueError(f"Argument `row_splits` dtype must be int32 or int64. Received {found!r}.")
    return found.numpy_dtype


# -- from arguments, checked -----------------------------------------------------------------------------------------
def numbers(value: Any, name: str, rank: int = 1) -> ndarray:
    """Convert an argument that describes rows to an array of integers."""
    tensor = convert(value, dtype_hint=None if isinstance(value, ndarray) else "int64")
    if len(tensor.array.shape) != rank:
        raise ValueError(f"Shape {tensor.shape} must have rank {rank}. It is that of `{name}`.")
    if tensor.dtype.name not in ("int32", "int64"):
        raise ValueError(f"{name} must have dtype int32 or int64. Received {tensor.dtype!r}.")
    return known(tensor)


def known(tensor: Tensor) -> ndarray:
    """Return the concrete values of a tensor that defines rows."""
    if not is_known(tensor):
        raise unknown_shape("tf.RaggedTensor", "Create ragged tensors outside functions with jit_compile=True.")
    return np.asarray(tensor.array)


def _refuse(sentence: str, condition: str, found: Any) -> Exception:
    return errors.refused_value(f"{sentence}\nCondition {condition} did not hold. Received: {found}.")


def from_row_splits(row_splits: Any, validate: bool) -> RowPartition:
    if isinstance(row_splits, (list, tuple)) and not len(row_splits):
        raise ValueError("row_splits tensor may not be empty.")
    splits = numbers(row_splits, "row_splits")
    if not len(splits):
        raise ValueError("row_splits tensor may not be empty.")
    sentence = "Arguments to from_row_splits do not form a valid RaggedTensor"
    if validate and splits[0] != 0:
        raise _refuse(f"{sentence}:zero", "row_splits[0] == 0", splits[:1].tolist())
    if validate and (splits[1:] < splits[:-1]).any():
        raise _refuse(f"{sentence}:monotonic.", "row_splits[i] <= row_splits[i + 1]", splits.tolist())
    return RowPartition(splits)


def from_row_lengths(row_lengths: Any, validate: bool) -> RowPartition:
    lengths = numbers(row_lengths, "row_lengths")
    if validate and (lengths < 0).any():
        sentence = "Arguments to from_row_lengths do not form a valid RowPartition."
        raise _refuse(sentence, "row_lengths >= 0", lengths.tolist())
    return of_lengths(lengths)


def from_row_starts(row_starts: Any, size: int, validate: bool) -> RowPartition:
    starts = numbers(row_starts, "row_starts")
    sentence = "Arguments to from_row_starts do not form a valid RaggedTensor"
    if validate and len(starts) and starts[0] != 0:
        raise _refuse(sentence, "row_starts[0] == 0", starts[:1].tolist())
    if validate and (starts[1:] < starts[:-1]).any():
        raise _refuse(sentence, "row_starts[i] <= row_starts[i + 1]", starts.tolist())
    if validate and len(starts) and starts[-1] > size:
        raise _refuse(sentence, "row_starts[-1] <= the number of values", f"{starts[-1]} > {size}")
    return RowPartition(np.append(starts, starts.dtype.type(size)))


def from_row_limits(row_limits: Any, validate: bool) -> RowPartition:
    limits = numbers(row_limits, "row_limits")
    if validate and (np.diff(limits, prepend=0) < 0).any():
        sentence = "Arguments to from_row_limits do not form a valid RaggedTensor."
        raise _refuse(sentence, "0 <= row_limits[i] <= row_limits[i + 1]", limits.tolist())
    return RowPartition(np.insert(limits, 0, 0))


def from_value_rowids(value_rowids: Any, nrows: Any, validate: bool) -> RowPartition:
    ids = numbers(value_rowids, "value_rowids")
    sentence = "Arguments to from_value_rowids do not form a valid RowPartition."
    if validate and (np.diff(ids, prepend=0) < 0).any():
        raise _refuse(sentence, "0 <= value_rowids[i] <= value_rowids[i + 1]", ids.tolist())
    least = int(ids[-1]) + 1 if len(ids) else 0
    count = least if nrows is None else int(numbers(nrows, "nrows", rank=0))
    if count < 0:
        raise ValueError(f"Expected nrows >= 0; got {count}")
    if count < least:
        raise ValueError(f"Expected nrows >= value_rowids[-1] + 1; got nrows={count}, value_rowids[-1]={least - 1}")
    return of_lengths(np.bincount(ids, minlength=count).astype(ids.dtype))


def from_uniform_row_length(uniform_row_length: Any, nrows: Any, size: int) -> RowPartition:
    length = numbers(uniform_row_length, "uniform_row_length", rank=0)
    if length < 0:
        raise ValueError(f"uniform_row_length must be >= 0. Received {length}.")
    count = size // int(length) if length else 0
    if nrows is not None:
        count = int(numbers(nrows, "nrows", rank=0))
    if count < 0:
        raise ValueError(f"nrows must be >= 0. Received {count}.")
    if count * int(length) != size:
        raise ValueError(f"uniform_row_length={length} times nrows={count} must equal nvals={size}")
    return uniform_rows(int(length), count, length.dtype)
