"""`tf.RaggedTensor`: rows of different lengths, as the values of all rows and a partition that divides them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy import ndarray

from gradtape._src import dtypes, errors
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.composites import hosted
from gradtape._src.dtypes import DType
from gradtape._src.ops import array, index
from gradtape._src.ops.ragged import partition as partitions
from gradtape._src.ops.ragged.dense import (
    default_of,
    dense_positions,
    dense_shape,
    divided,
    divided_by_nested_lengths,
    take,
)
from gradtape._src.ops.ragged.partition import RowPartition
from gradtape._src.ops.ragged.row_copies import copied_rows, is_plain
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.shape import ShapeAndDtype, TensorShape, as_shape
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

Values = Any
"""The values of a ragged tensor: a tensor, or a ragged tensor if there are several ragged dimensions."""


class RaggedTensor:
    """A tensor with rows of different lengths.

    `values` contains the elements of all rows, one after another, and `row_splits` the positions where each row starts
    and ends. If the values are ragged themselves, there is more than one ragged dimension. Ops compute on the values,
    so gradients flow through them.

    >>> import gradtape as tf
    >>> r = tf.ragged.constant([[1, 2], [], [3]])
    >>> r * 10
    <tf.RaggedTensor [[10, 20], [], [30]]>
    >>> tf.reduce_sum(r, axis=1).numpy().tolist()
    [3, 0, 3]

    >>> rt = tf.ragged.constant([[[1], [2, 3]], [[4]]])
    >>> rt.ragged_rank, rt.shape, rt.nrows().numpy().item()
    (2, TensorShape([2, None, None]), 2)
    >>> rt.flat_values.numpy().tolist()
    [1, 2, 3, 4]
    >>> rt.values
    <tf.RaggedTensor [[1], [2, 3], [4]]>
    >>> rt.row_splits.numpy().tolist(), rt.row_starts().numpy().tolist(), rt.row_limits().numpy().tolist()
    ([0, 2, 3], [0, 2], [2, 3])
    >>> rt.value_rowids().numpy().tolist()
    [0, 0, 1]
    >>> [s.numpy().tolist() for s in rt.nested_row_splits]
    [[0, 2, 3], [0, 1, 3, 4]]
    >>> [s.numpy().tolist() for s in rt.nested_row_lengths()]
    [[2, 1], [1, 2, 1]]
    >>> [s.numpy().tolist() for s in rt.nested_value_rowids()]
    [[0, 0, 1], [0, 1, 1, 2]]
    >>> rt.with_flat_values([10, 20, 30, 40])
    <tf.RaggedTensor [[[10], [20, 30]], [[40]]]>
    >>> rt.with_row_splits_dtype(tf.int32).row_splits.dtype
    tf.int32
    >>> tf.RaggedTensor.from_nested_row_lengths([1, 2, 3], [[2], [1, 2]])
    <tf.RaggedTensor [[[1], [2, 3]]]>
    >>> tf.RaggedTensor.from_nested_value_rowids([1, 2, 3], [[0, 0], [0, 1, 1]])
    <tf.RaggedTensor [[[1], [2, 3]]]>
    >>> tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2).uniform_row_length.numpy().item()
    2
    """

    __slots__ = ("__weakref__", "_partition", "_values")
    __array_priority__ = 101

    _values: Values
    _partition: RowPartition

    def __init__(self, values: Any, row_partition: Any = None, internal: bool = False) -> None:
        raise ValueError(
            "RaggedTensor constructor is private; please use one of the factory methods instead (e.g., "
            "RaggedTensor.from_row_lengths())"
        )

    # -- making ------------------------------------------------------------------------------------------------------
    @classmethod
    @hosted
    def from_row_splits(
        cls, values: TensorLike, row_splits: TensorLike, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Create rows that start and end at these positions.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_row_splits([3, 1, 4, 1, 5], [0, 2, 2, 5])
        <tf.RaggedTensor [[3, 1], [], [4, 1, 5]]>
        """
        return _checked(values, partitions.from_row_splits(row_splits, validate), validate, row_splits)

    @classmethod
    @hosted
    def from_row_lengths(
        cls, values: TensorLike, row_lengths: TensorLike, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Create rows with these lengths.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_row_lengths([3, 1, 4, 1, 5], [2, 0, 3])
        <tf.RaggedTensor [[3, 1], [], [4, 1, 5]]>
        """
        return _checked(values, partitions.from_row_lengths(row_lengths, validate), validate, row_lengths)

    @classmethod
    @hosted
    def from_row_starts(
        cls, values: TensorLike, row_starts: TensorLike, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Create rows that start at these positions; each ends where the next one starts.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_row_starts([3, 1, 4, 1, 5], [0, 2, 2])
        <tf.RaggedTensor [[3, 1], [], [4, 1, 5]]>
        """
        rows = _as_values(values)
        return _checked(rows, partitions.from_row_starts(row_starts, count_of(rows), validate), validate, row_starts)

    @classmethod
    @hosted
    def from_row_limits(
        cls, values: TensorLike, row_limits: TensorLike, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Create rows that end at these positions.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_row_limits([3, 1, 4, 1, 5], [2, 2, 5])
        <tf.RaggedTensor [[3, 1], [], [4, 1, 5]]>
        """
        return _checked(values, partitions.from_row_limits(row_limits, validate), validate, row_limits)

    @classmethod
    @hosted
    def from_value_rowids(
        cls,
        values: TensorLike,
        value_rowids: TensorLike,
        nrows: Any = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Create rows from the row number of each value; these numbers must not decrease.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_value_rowids([3, 1, 4, 1, 5], [0, 0, 2, 2, 2], nrows=4)
        <tf.RaggedTensor [[3, 1], [], [4, 1, 5], []]>
        """
        rows, partition = _as_values(values), partitions.from_value_rowids(value_rowids, nrows, validate)
        if partition.size != count_of(rows):
            have = (count_of(rows),)
            raise ValueError(
                f"Shapes {have} and ({partition.size},) are incompatible: every value needs one row number."
            )
        return _joined(rows, partition, value_rowids)

    @classmethod
    @hosted
    def from_uniform_row_length(
        cls,
        values: TensorLike,
        uniform_row_length: Any,
        nrows: Any = None,
        validate: bool = True,
        name: str | None = None,
    ) -> RaggedTensor:
        """Create rows of equal length. The dimension still counts as ragged, but its size is known.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_uniform_row_length([1, 2, 3, 4], 2).shape
        TensorShape([2, 2])
        """
        rows = _as_values(values)
        partition = partitions.from_uniform_row_length(uniform_row_length, nrows, count_of(rows))
        return _joined(rows, partition, uniform_row_length)

    @classmethod
    @hosted
    def from_nested_row_splits(
        cls, flat_values: TensorLike, nested_row_splits: Any, name: str | None = None, validate: bool = True
    ) -> Any:
        """Create a tensor with several ragged dimensions from their row splits, outermost first.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_nested_row_splits([1, 2, 3], [[0, 1, 2], [0, 2, 3]])
        <tf.RaggedTensor [[[1, 2]], [[3]]]>
        """
        return _nested(cls.from_row_splits, flat_values, nested_row_splits, "nested_row_splits", validate)

    @classmethod
    @hosted
    def from_nested_row_lengths(
        cls, flat_values: TensorLike, nested_row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> Any:
        """Create a tensor with several ragged dimensions from their row lengths, outermost first."""
        return _nested(cls.from_row_lengths, flat_values, nested_row_lengths, "nested_row_lengths", validate)

    @classmethod
    @hosted
    def from_nested_value_rowids(
        cls,
        flat_values: TensorLike,
        nested_value_rowids: Any,
        nested_nrows: Any = None,
        name: str | None = None,
        validate: bool = True,
    ) -> Any:
        """Create a tensor with several ragged dimensions from the row numbers of their values, outermost first."""
        levels = _levels(nested_value_rowids, "nested_value_rowids")
        counts = [None] * len(levels) if nested_nrows is None else _levels(nested_nrows, "nested_nrows")
        if len(counts) != len(levels):
            raise ValueError(
                "Argument `nested_nrows` must have the same length as argument `nested_value_rowids`. "
                f"len(nested_nrows) = {len(counts)} vs. len(nested_values_rowids) = {len(levels)}."
            )
        result: Any = flat_values
        for ids, count in zip(reversed(levels), reversed(counts), strict=True):
            result = cls.from_value_rowids(result, ids, count, validate=validate)
        return result

    @classmethod
    @hosted
    def from_tensor(
        cls,
        tensor: TensorLike,
        lengths: Any = None,
        padding: Any = None,
        ragged_rank: int = 1,
        name: str | None = None,
        row_splits_dtype: Any = dtypes.int64,
    ) -> RaggedTensor:
        """Convert a dense tensor: whole rows, the first `lengths` elements of each, or rows without trailing padding.

        >>> import gradtape as tf
        >>> x = [[5, 7, 0], [0, 3, 0], [6, 0, 0]]
        >>> tf.RaggedTensor.from_tensor(x, padding=0)
        <tf.RaggedTensor [[5, 7], [0, 3], [6]]>
        >>> tf.RaggedTensor.from_tensor(x, lengths=[1, 0, 2])
        <tf.RaggedTensor [[5], [], [6, 0]]>
        """
        dtype = partitions.dtype_of(row_splits_dtype)
        if lengths is not None and padding is not None:
            raise ValueError("Specify argument `lengths` or `padding`, but not both.")
        if not isinstance(ragged_rank, int):
            raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank}.")
        if ragged_rank <= 0:
            raise ValueError(f"Argument `ragged_rank` must be greater than 0. Received {ragged_rank}.")
        if isinstance(lengths, (list, tuple)) and lengths and not isinstance(lengths[0], (int, np.integer, float)):
            return from_partitions(*divided_by_nested_lengths(convert(tensor), lengths, dtype))
        return from_partitions(*divided(convert(tensor), lengths, padding, ragged_rank, dtype))

    @classmethod
    @hosted
    def from_sparse(
        cls, st_input: SparseTensor, name: str | None = None, row_splits_dtype: Any = dtypes.int64
    ) -> RaggedTensor:
        """Convert a sparse matrix whose elements are at the beginning of each row.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_sparse(tf.SparseTensor([[0, 0], [2, 0], [2, 1]], [1, 2, 3], [3, 2]))
        <tf.RaggedTensor [[1], [], [2, 3]]>
        """
        if not isinstance(st_input, SparseTensor):
            raise TypeError(
                f"Argument `st_input` must be of type SparseTensor, but is of type {type(st_input).__name__}."
            )
        where, sizes = partitions.known(st_input.indices), partitions.known(st_input.dense_shape)
        if len(sizes) != 2:
            raise ValueError(f"rank(st_input) must be 2. Received a sparse tensor of rank {len(sizes)}.")
        ids = where[:, 0].astype(partitions.dtype_of(row_splits_dtype))
        in_order = not (np.diff(ids, prepend=0) < 0).any()
        partition = partitions.of_lengths(np.bincount(ids, minlength=int(sizes[0])).astype(ids.dtype))
        if not in_order or not np.array_equal(where[:, 1], partition.offsets):
            raise errors.refused_value(
                "SparseTensor is not right-ragged: the elements of each row must be at its beginning, in order. "
                f"SparseTensor.indices = {where.tolist()}"
            )
        return _joined(st_input.values, partition)

    # -- properties -------------------------------------------------------------------------------------------------
    @property
    def values(self) -> Any:
        """The elements of all rows: a tensor, or a ragged tensor if there are more ragged dimensions."""
        return self._values

    @property
    def flat_values(self) -> Tensor:
        """The innermost values, a tensor."""
        values = self._values
        while type(values) is RaggedTensor:
            values = values._values
        flat: Tensor = values
        return flat

    @property
    def row_splits(self) -> Tensor:
        """The position where each row starts, followed by the number of values."""
        return self._partition.row_splits

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The row splits of all ragged dimensions, the outermost first."""
        return tuple([partition.row_splits for partition in self._partitions])

    @property
    def _partitions(self) -> list[RowPartition]:
        """The partitions of all ragged dimensions, the outermost first."""
        found, values = [self._partition], self._values
        while type(values) is RaggedTensor:
            found.append(values._partition)
            values = values._values
        return found

    @property
    def uniform_row_length(self) -> Tensor | None:
        """The length of all rows, if the tensor was created with a uniform row length."""
        length = self._partition.uniform
        return None if length is None else wrap(np.array(length, self._partition.dtype))

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return len(self._partitions)

    @property
    def dtype(self) -> DType:
        return self.flat_values.dtype

    @property
    def shape(self) -> TensorShape:
        """The shape; ragged dimensions are None."""
        outer = [self._partition.count] + [partition.uniform for partition in self._partitions]
        return TensorShape([*outer, *self.flat_values.shape[1:]])

    def get_shape(self) -> TensorShape:
        """Return the shape, like `tensor.shape`.

        >>> tf.ragged.constant([[1], [2, 3]]).get_shape()
        TensorShape([2, None])
        """
        return self.shape

    @property
    def _type_spec(self) -> RaggedTensorSpec:
        return RaggedTensorSpec.from_value(self)

    @hosted
    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        """Return the number of rows."""
        return self._sizes(np.array(self._partition.count), out_type)

    @hosted
    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """Return the length of each row, or of the rows along another axis.

        >>> import gradtape as tf
        >>> tf.ragged.constant([[[1, 2], [3]], []]).row_lengths(axis=2)
        <tf.RaggedTensor [[2, 1], []]>
        """
        rank = len(self.shape)
        place = axis_of(axis, rank)
        if place == 0:
            return self.nrows()
        if place == 1:
            return self._sizes(self._partition.lengths)
        if type(self._values) is RaggedTensor:
            return _new(self._values.row_lengths(place - 1), self._partition)
        sizes = self._values.array.shape
        filled = np.full(sizes[: place - 1], sizes[place - 1], self._partition.dtype)
        return _new(wrap(filled), self._partition)

    @hosted
    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the row lengths of all ragged dimensions, outermost first."""
        return tuple([self._sizes(partition.lengths) for partition in self._partitions])

    @hosted
    def row_starts(self, name: str | None = None) -> Tensor:
        """Return where each row starts."""
        return self._sizes(self._partition.starts)

    @hosted
    def row_limits(self, name: str | None = None) -> Tensor:
        """Return where each row ends."""
        return self._sizes(self._partition.limits)

    @hosted
    def value_rowids(self, name: str | None = None) -> Tensor:
        """Return the row number of each value."""
        return self._sizes(self._partition.rowids)

    @hosted
    def nested_value_rowids(self, name: str | None = None) -> tuple[Tensor, ...]:
        """Return the row numbers of the values of all ragged dimensions, outermost first."""
        return tuple([self._sizes(partition.rowids) for partition in self._partitions])

    def _sizes(self, numbers: ndarray, out_type: Any = None) -> Tensor:
        dtype = self._partition.dtype if out_type is None else dtypes.as_dtype(out_type).numpy_dtype
        return wrap(numbers.astype(dtype))

    @hosted
    def bounding_shape(self, axis: Any = None, name: str | None = None, out_type: Any = None) -> Tensor:
        """Return the shape of the smallest dense tensor that can hold every row.

        >>> import gradtape as tf
        >>> tf.ragged.constant([[1, 2, 3], [4]]).bounding_shape().numpy().tolist()
        [2, 3]
        """
        sizes = np.array(self._bounding_sizes)
        if axis is None:
            return self._sizes(sizes, out_type)
        places = partitions.known(convert(axis))
        if ((places < 0) | (places >= len(sizes))).any():
            raise errors.refused_value(f"indices = {places.tolist()} is not in [0, {len(sizes)})", "GatherV2")
        return self._sizes(np.asarray(sizes[places]), out_type)

    @property
    def _bounding_sizes(self) -> tuple[int, ...]:
        found = self._partitions
        return (found[0].count, *[partition.longest for partition in found], *self.flat_values.array.shape[1:])

    # -- the same rows with other values -----------------------------------------------------------------------------
    @hosted
    def with_values(self, new_values: Any) -> RaggedTensor:
        """Return a tensor with the same rows and other values.

        >>> import gradtape as tf
        >>> tf.ragged.constant([[1, 2], [3]]).with_values([7, 8, 9])
        <tf.RaggedTensor [[7, 8], [9]]>
        """
        rows = _as_values(new_values)
        if count_of(rows) != self._partition.size:
            have, given = (self._partition.size,), (count_of(rows),)
            raise ValueError(f"Shapes {have} and {given} are incompatible: the rows have {have[0]} values.")
        return _joined(rows, self._partition, self)

    @hosted
    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """Return a tensor with the same rows and other innermost values."""
        if type(self._values) is RaggedTensor:
            return _new(self._values.with_flat_values(new_values), self._partition)
        return self.with_values(new_values)

    def _with_flat(self, flat: Any) -> RaggedTensor:
        """Replace the innermost values; their number is known to match."""
        inner = self._values
        return _new(inner._with_flat(flat) if type(inner) is RaggedTensor else flat, self._partition)

    @hosted
    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """Return the same tensor with row splits of another integer dtype."""
        wanted, values = partitions.dtype_of(dtype), self._values
        if wanted == self._partition.dtype:
            return self
        inner = values.with_row_splits_dtype(dtype) if type(values) is RaggedTensor else values
        return _new(inner, self._partition.astype(wanted))

    @hosted
    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """Merge the dimensions from one to another into one.

        >>> import gradtape as tf
        >>> tf.ragged.constant([[[1, 2], [3]], [[4]]]).merge_dims(1, 2)
        <tf.RaggedTensor [[1, 2, 3], [4]]>
        """
        rank = len(self.shape)
        outer, inner = axis_of(outer_axis, rank, "outer_axis"), axis_of(inner_axis, rank, "inner_axis")
        if outer > inner:
            raise ValueError(f"Expected outer_axis ({outer}) to be less than or equal to inner_axis ({inner}).")
        return merge_dims(self, outer, inner)

    # -- out to dense, sparse, NumPy and Python ----------------------------------------------------------------------
    @hosted
    def to_tensor(self, default_value: Any = None, name: str | None = None, shape: Any = None) -> Tensor:
        """Convert to a dense tensor, in which short rows are padded with `default_value` (0).

        `shape` cuts or pads the result; None in it means as much as the rows need.

        >>> import gradtape as tf
        >>> tf.ragged.constant([[1, 2], [], [3]]).to_tensor(-1).numpy().tolist()
        [[1, 2], [-1, -1], [3, -1]]
        """
        flat = self.flat_values
        sizes = dense_shape(self._bounding_sizes, shape)
        outer = len(self._partitions) + 1
        default = default_of(flat, default_value)
        where, kept = dense_positions(self._partitions, sizes[:outer])
        if kept is not None:
            flat, where = take_rows(flat, kept), where[kept]
        if flat.array.shape[1:] != sizes[outer:]:
            raise errors.refused_value(
                f"rt_input.shape and shape={errors.brackets(sizes)} are incompatible: the inner dimensions differ",
                "RaggedTensorToTensor",
            )
        room = array.broadcast_to(default, shape=(int(np.prod(sizes[:outer])), *sizes[outer:]))
        dense: Tensor = array.reshape(index.replace_nd(room, flat, wrap(where[:, None])), shape=sizes)
        return dense

    @hosted
    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """Convert to a sparse tensor.

        >>> import gradtape as tf
        >>> tf.ragged.constant([[1, 2], [], [3]]).to_sparse().indices.numpy().tolist()
        [[0, 0], [0, 1], [2, 0]]
        """
        flat, sizes = self.flat_values, self._bounding_sizes
        columns = [np.arange(self._partition.count)]
        for partition in self._partitions:
            columns = [column[partition.rowids] for column in columns] + [partition.offsets]
        where = np.stack(columns, axis=1).astype(np.int64)
        inner = flat.array.shape[1:]
        if inner:
            each = np.stack(np.unravel_index(np.arange(int(np.prod(inner))), inner), axis=1)
            where = np.concatenate([np.repeat(where, len(each), axis=0), np.tile(each, (len(where), 1))], axis=1)
            flat = array.reshape(flat, shape=(-1,))
        return SparseTensor(wrap(where), flat, wrap(np.array(sizes, np.int64)))

    def numpy(self) -> ndarray:
        """Return an object array of the rows or, if all rows have the same length, an ordinary array.

        >>> import gradtape as tf
        >>> tf.ragged.constant([[1, 2], [3, 4]]).numpy().tolist()
        [[1, 2], [3, 4]]
        """
        values = self._values.numpy()
        splits = self._partition.splits.tolist()
        rows = [values[start:stop] for start, stop in itertools.pairwise(splits)]
        if not rows:
            return np.zeros((0, 0, *values.shape[1:]), values.dtype)
        if len(set(map(len, rows))) == 1:
            return np.stack(rows)
        found = np.empty(len(rows), object)
        for i, row in enumerate(rows):
            found[i] = row
        return found

    def to_list(self) -> list[Any]:
        """Return nested lists.

        >>> import gradtape as tf
        >>> tf.RaggedTensor.from_row_lengths([1, 2, 3], [2, 1]).to_list()
        [[1, 2], [3]]
        """
        values = self._values
        flat = values.to_list() if type(values) is RaggedTensor else values.numpy().tolist()
        splits = self._partition.splits.tolist()
        return [flat[start:stop] for start, stop in itertools.pairwise(splits)]

    def consumers(self) -> list[Any]:
        """Return the graph ops that use this tensor: none, in eager mode.

        >>> tf.ragged.constant([[1]]).consumers()
        []
        """
        return []

    def __iter__(self) -> Iterator[Any]:
        splits, values = self._partition.splits.tolist(), self._values
        for start, stop in itertools.pairwise(splits):
            yield values[start:stop]

    def __bool__(self) -> NoReturn:
        raise TypeError("RaggedTensor may not be used as a boolean.")

    def __hash__(self) -> int:
        raise TypeError("RaggedTensor is unhashable.")

    def __eq__(self, other: object) -> Any:  # the operators of ops/ragged/operators.py replace it
        return NotImplemented

    def __repr__(self) -> str:
        if not is_known(self.flat_values):
            return f"tf.RaggedTensor(values={self._values}, row_splits={self.row_splits})"
        return f"<tf.RaggedTensor {_text(self.numpy())}>"

    def _repr_html_(self) -> str | None:
        if not is_known(self.flat_values):
            return None
        from gradtape._src.notebook import ragged_card

        rows = [list(row) for row in self.numpy()]
        facts = [f"shape {tuple(self.shape.as_list())}", self.dtype.name]
        return ragged_card("tf.RaggedTensor", rows, facts)

    def __reduce__(self) -> tuple[Any, ...]:
        found = self._partitions
        return _unpickled, (self.flat_values, [(p.splits, p.uniform) for p in found])


# -- parts -----------------------------------------------------------------------------------------------------------
def _new(values: Values, partition: RowPartition) -> RaggedTensor:
    """Create a ragged tensor from values and a matching partition."""
    tensor: RaggedTensor = object.__new__(RaggedTensor)
    tensor._values, tensor._partition = values, partition
    return tensor


def _joined(values: Values, partition: RowPartition, given: Any = None) -> RaggedTensor:
    """Create a ragged tensor whose partitions have one dtype."""
    if type(values) is RaggedTensor and values._partition.dtype != partition.dtype:
        if not isinstance(given, (Tensor, ndarray)):
            return _new(values, partition.astype(values._partition.dtype))
        raise ValueError(
            "Argument `row_partition` of RaggedTensor with name: partition must have same dtype as Argument `values`. "
            f"({dtypes.as_dtype(partition.dtype)!r} vs. {dtypes.as_dtype(values._partition.dtype)!r})."
        )
    return _new(values, partition)


def _checked(values: Any, partition: RowPartition, validate: bool, given: Any) -> RaggedTensor:
    """Create a ragged tensor after checking the number of values."""
    rows = _as_values(values)
    if validate and partition.size != count_of(rows):
        raise errors.refused_value(
            "Arguments to _from_row_partition do not form a valid RaggedTensor\nCondition x == y did not hold. "
            f"The rows have {partition.size} values, but there are {count_of(rows)}."
        )
    return _joined(rows, partition, given)


def _as_values(values: Any) -> Values:
    if type(values) is RaggedTensor:
        return values
    tensor = convert(values)
    if not tensor.ndim:
        raise errors.refused_value("slice index 0 of dimension 0 out of bounds.", "StridedSlice")
    return tensor


def _levels(nested: Any, name: str) -> list[Any]:
    if isinstance(nested, Tensor):
        raise TypeError(f"Argument `{name}` must be a list of Tensors. Received {nested}.")
    return list(nested)


def _nested(make: Callable[..., Any], flat_values: Any, nested: Any, name: str, validate: bool) -> Any:
    result = flat_values
    for level in reversed(_levels(nested, name)):
        result = make(result, level, validate=validate)
    return result


def from_partitions(flat: Any, found: Sequence[RowPartition]) -> Any:
    """Divide flat values by partitions, outermost first; without partitions, return the values."""
    result = flat
    for partition in reversed(found):
        result = _new(result, partition)
    return result


def count_of(values: Values) -> int:
    """Return the size of the first dimension."""
    return values._partition.count if type(values) is RaggedTensor else int(values.array.shape[0])


def rank_of(values: Values) -> int:
    """Return the number of dimensions without creating a shape."""
    outer = 0
    while type(values) is RaggedTensor:
        values, outer = values._values, outer + 1
    return outer + len(values.array.shape)


def axis_of(axis: Any, rank: int, name: str = "axis") -> int:
    """Normalize an axis to a non-negative int."""
    place = int(axis)
    if not -rank <= place < rank:
        raise ValueError(f"{name}={place} out of bounds: expected {-rank}<={name}<{rank}")
    return place + rank if place < 0 else place


def take_rows(values: Values, where: ndarray) -> Values:
    """Return rows of a tensor or ragged tensor by index."""
    if type(values) is not RaggedTensor:
        return take(values, where)
    partition = values._partition
    rows = partitions.of_lengths(partition.lengths[where], partition.uniform)
    return _new(take_ranges(values._values, partition.starts[where], rows), rows)


def take_ranges(values: Values, starts: ndarray, rows: RowPartition) -> Values:
    """Return the values of rows that start at these positions and have the lengths of a partition."""
    if is_plain(values):
        return wrap(copied_rows(values.array, starts, rows.lengths))
    return take_rows(values, rows.positions_from(starts))


def merge_dims(x: Any, outer: int, inner: int) -> Any:
    """Merge a range of dimensions of a tensor or ragged tensor."""
    if outer == inner:
        return x
    if type(x) is not RaggedTensor:
        sizes = x.array.shape
        return array.reshape(x, shape=(*sizes[:outer], int(np.prod(sizes[outer : inner + 1])), *sizes[inner + 1 :]))
    if outer > 0:
        return _new(merge_dims(x._values, outer - 1, inner - 1), x._partition) if outer > 1 else _merged_rows(x, inner)
    return merge_dims(x._values, 0, inner - 1)


def _merged_rows(x: RaggedTensor, inner: int) -> Any:
    """Merge dimensions 1 to `inner`."""
    values = x._values
    if type(values) is not RaggedTensor:
        each = int(np.prod(values.array.shape[1:inner]))
        partition = RowPartition(x._partition.splits * x._partition.dtype.type(each))
        return _new(merge_dims(values, 0, inner - 1), partition)
    uniform = None
    if x._partition.uniform is not None and values._partition.uniform is not None:
        uniform = x._partition.uniform * values._partition.uniform
    merged = _new(values._values, RowPartition(values._partition.splits[x._partition.splits], uniform))
    return _merged_rows(merged, inner - 1) if inner > 2 else merged


# -- text and pickles ------------------------------------------------------------------------------------------------
def _text(value: Any) -> str:
    """Format an array of rows like NumPy, with commas."""
    if not isinstance(value, ndarray):
        return str(value)
    if not value.size:
        return repr(value.tolist())
    return np.array2string(value, separator=", ", formatter={"all": _text})


def _unpickled(flat: Tensor, found: list[tuple[ndarray, int | None]]) -> Any:
    return from_partitions(flat, [RowPartition(*parts) for parts in found])


# -- the specification -----------------------------------------------------------------------------------------------
class RaggedTensorSpec(ShapeAndDtype):
    """A description of a ragged tensor: shape, dtype, number of ragged dimensions, dtype of the row splits.

    >>> import gradtape as tf
    >>> tf.RaggedTensorSpec([None, None], tf.int32).is_compatible_with(tf.ragged.constant([[1], [2, 3]]))
    True

    >>> spec = tf.RaggedTensorSpec.from_value(tf.ragged.constant([[1.0], [2.0, 3.0]]))
    >>> spec.shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype
    (TensorShape([2, None]), tf.float32, 1, tf.int64)
    >>> wider = tf.RaggedTensorSpec([None, None], tf.float32)
    >>> spec.is_subtype_of(wider), wider.most_specific_common_supertype([spec]) == wider
    (True, True)
    >>> spec.most_specific_compatible_type(wider) == wider
    True
    >>> spec.value_type is tf.RaggedTensor, spec.flat_values_spec is None
    (True, True)
    """

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        ragged_rank: Any = None,
        row_splits_dtype: Any = dtypes.int64,
        flat_values_spec: Any = None,
    ) -> None:
        self._shape, self._row_splits_dtype = as_shape(shape), dtypes.as_dtype(row_splits_dtype)
        self._dtype = dtypes.as_dtype(dtype if flat_values_spec is None else flat_values_spec.dtype)
        self._flat_values_spec = flat_values_spec
        rank = self._shape.rank
        if ragged_rank is None and rank is None:
            raise ValueError("Must specify ragged_rank or a shape with a known rank.")
        self._ragged_rank = rank - 1 if ragged_rank is None and rank is not None else ragged_rank
        if not isinstance(self._ragged_rank, int):
            raise TypeError(f"Argument `ragged_rank` must be an int. Received {ragged_rank}.")
        if rank is not None and self._ragged_rank >= rank:
            raise ValueError(f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank}).")

    @classmethod
    def from_value(cls, value: Any) -> RaggedTensorSpec:
        """Return the specification of a ragged tensor."""
        if not isinstance(value, RaggedTensor):
            raise AttributeError(f"'{type(value).__name__}' object has no attribute 'flat_values': it is not ragged.")
        return cls(value.shape, value.dtype, value.ragged_rank, value._partition.dtype)

    @property
    def ragged_rank(self) -> int:
        """The number of ragged dimensions."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> DType:
        """The dtype of the row splits."""
        return self._row_splits_dtype

    @property
    def flat_values_spec(self) -> Any:
        """The specification of the flat values, if they are not a plain tensor."""
        return self._flat_values_spec

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None."""
        return self._shape.rank

    @property
    def value_type(self) -> type:
        """The class of the values, which are tensors if there are no ragged dimensions."""
        return RaggedTensor if self._ragged_rank > 0 else Tensor

    def _batch(self, batch_size: Any) -> RaggedTensorSpec:
        return RaggedTensorSpec([batch_size, *self._shape], self._dtype, self._ragged_rank + 1, self._row_splits_dtype)

    def _unbatch(self) -> RaggedTensorSpec:
        return RaggedTensorSpec(self._shape[1:], self._dtype, max(0, self._ragged_rank - 1), self._row_splits_dtype)

    @property
    def _facts(self) -> tuple[Any, ...]:
        return self._dtype, self._ragged_rank, self._row_splits_dtype

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a ragged tensor, or another specification, matches this one."""
        other = spec_or_value
        if isinstance(other, RaggedTensor):
            other = other._type_spec
        elif self._ragged_rank == 0 and isinstance(other, Tensor):
            other = RaggedTensorSpec(other.shape, other.dtype, 0, self._row_splits_dtype)
        return (
            isinstance(other, RaggedTensorSpec)
            and self._facts == other._facts
            and self._shape.is_compatible_with(other._shape)
        )

    def is_subtype_of(self, other: Any) -> bool:
        """Return whether everything that matches this specification also matches another."""
        return (
            isinstance(other, RaggedTensorSpec)
            and self._facts == other._facts
            and self._shape.is_subtype_of(other._shape)
        )

    def most_specific_common_supertype(self, others: Any) -> RaggedTensorSpec | None:
        """Return the narrowest specification that covers this one and all others, or None."""
        shape = self._shape
        for other in others:
            if not isinstance(other, RaggedTensorSpec) or self._facts != other._facts:
                return None
            shape = shape.most_specific_compatible_shape(other._shape)
        return RaggedTensorSpec(shape, *self._facts)

    def most_specific_compatible_type(self, other: Any) -> RaggedTensorSpec:
        """Return the narrowest specification that covers both; raise ValueError if there is none."""
        common = self.most_specific_common_supertype([other])
        if common is None:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return common

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RaggedTensorSpec):
            return NotImplemented
        return self._facts == other._facts and repr(self._shape) == repr(other._shape)

    def __hash__(self) -> int:
        return hash((repr(self._shape), *self._facts))

    def __repr__(self) -> str:
        return f"RaggedTensorSpec({self._shape!r}, {self._dtype!r}, {self._ragged_rank}, {self._row_splits_dtype!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled_spec, (self._shape, *self._facts)


def _unpickled_spec(*facts: Any) -> RaggedTensorSpec:
    return RaggedTensorSpec(*facts)
