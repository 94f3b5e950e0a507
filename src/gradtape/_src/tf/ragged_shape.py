"""The shapes of ragged tensors, in which some dimensions have a length for each row."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NoReturn

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import convert, register_converter, wrap
from gradtape._src.core.composites import NotDenseError, register_handler
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.ops import array
from gradtape._src.ops.ragged import RaggedTensor, RowPartition, from_partitions, register
from gradtape._src.ops.ragged.operators import broadcast, call_on_ragged
from gradtape._src.ops.ragged.partition import dtype_of, known, of_lengths, uniform_rows
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import fill_with, reshape


class DynamicRaggedShape:
    """The shape of a ragged tensor, which `tf.shape` returns, and `tf.zeros`, `tf.broadcast_to` and `tf.reshape`
    accept.

    >>> import gradtape as tf
    >>> tf.shape(tf.ragged.constant([[1, 2], [], [3]]))
    <DynamicRaggedShape lengths=[3, (2, 0, 1)] num_row_partitions=1>
    """

    __slots__ = ("_dtype", "_inner", "_partitions")

    def __init__(self, row_partitions: Sequence[Any], inner_shape: Any, dtype: Any = None) -> None:
        self._partitions: list[RowPartition] = list(row_partitions)
        self._inner: tuple[int, ...] = tuple(known(convert(inner_shape, dtype_hint="int64")).tolist())
        found = self._partitions[0].dtype if self._partitions else np.dtype(np.int64)
        self._dtype = as_dtype(found if dtype is None else dtype)

    @classmethod
    def from_tensor(cls, t: Any, dtype: Any = None) -> DynamicRaggedShape:
        """The shape of a tensor or ragged tensor."""
        if type(t) is RaggedTensor:
            found = t._partitions
            return cls(found, [found[-1].size, *t.flat_values.array.shape[1:]], dtype or found[0].dtype)
        return cls([], list(convert(t).array.shape) or np.zeros(0, np.int64), dtype)

    @classmethod
    def from_lengths(
        cls, lengths: Any, num_row_partitions: int | None = None, dtype: Any = "int64"
    ) -> DynamicRaggedShape:
        """A shape of ints and, for ragged dimensions, of the lengths of their rows.

        >>> DynamicRaggedShape.from_lengths([2, (1, 3), 2])
        <DynamicRaggedShape lengths=[2, (1, 3), 2] num_row_partitions=1>
        """
        sizes, kind = list(lengths), dtype_of(dtype)
        ragged = [i for i, size in enumerate(sizes) if not isinstance(size, (int, np.integer))]
        count = (max(ragged) if ragged else 0) if num_row_partitions is None else num_row_partitions
        if ragged and max(ragged) > count:
            raise ValueError(f"num_row_partitions should be at least {max(ragged)}. Received {count}.")
        found: list[RowPartition] = []
        rows = sizes[0] if sizes else 1
        for size in sizes[1 : count + 1]:
            if isinstance(size, (int, np.integer)):
                found.append(uniform_rows(int(size), rows, kind))
            else:
                found.append(of_lengths(np.array(list(size), kind)))
            if found[-1].count != rows:
                raise ValueError(f"lengths={lengths}: a dimension of {rows} rows has {found[-1].count} lengths.")
            rows = found[-1].size
        return cls(found, [rows, *sizes[count + 1 :]] if sizes else np.zeros(0, np.int64), dtype)

    @classmethod
    def from_row_partitions(cls, row_partitions: Sequence[Any], dtype: Any = None) -> DynamicRaggedShape:
        """The shape of a ragged tensor with these partitions and scalars as values."""
        if not row_partitions:
            raise ValueError("row_partitions cannot be empty")
        return cls(row_partitions, [row_partitions[-1].size], dtype)

    @property
    def dtype(self) -> DType:
        """The dtype of lengths: int32 or int64."""
        return self._dtype

    @property
    def rank(self) -> int:
        """The number of dimensions."""
        return len(self._partitions) + len(self._inner)

    @property
    def num_row_partitions(self) -> int:
        """The number of dimensions that partitions describe."""
        return len(self._partitions)

    @property
    def row_partitions(self) -> tuple[RowPartition, ...]:
        """The partitions, the outermost first."""
        return tuple(self._partitions)

    @property
    def inner_rank(self) -> int:
        """The number of dimensions of the flat values."""
        return len(self._inner)

    @property
    def inner_shape(self) -> Tensor:
        """The shape of the flat values."""
        return wrap(np.array(self._inner, self._dtype.numpy_dtype))

    def static_lengths(self, ragged_lengths: bool = True) -> list[Any]:
        """The lengths: ints, and tuples for ragged dimensions (None without `ragged_lengths`)."""
        if not self._partitions:
            return list(self._inner)
        sizes: list[Any] = [self._partitions[0].count]
        for partition in self._partitions:
            lengths = tuple(partition.lengths.tolist()) if ragged_lengths else None
            sizes.append(lengths if partition.uniform is None else partition.uniform)
        return [*sizes, *self._inner[1:]]

    def is_uniform(self, axis: int) -> bool:
        """Whether all rows have one length there."""
        if not 0 <= axis < self.rank:
            raise IndexError(f"Expected 0 <= axis ({axis}) < rank ({self.rank}).")
        return axis == 0 or axis > len(self._partitions) or self._partitions[axis - 1].uniform is not None

    def with_dtype(self, dtype: Any) -> DynamicRaggedShape:
        """The same shape with lengths of another dtype."""
        return DynamicRaggedShape(
            [partition.astype(dtype_of(dtype)) for partition in self._partitions], list(self._inner), dtype
        )

    def __getitem__(self, index: Any) -> Any:
        sizes = self.static_lengths()
        if not isinstance(index, slice):
            place = int(index)
            size = sizes[place]
            if isinstance(size, tuple):
                raise ValueError(f"Index {place} is not uniform")
            return wrap(np.array(size, self._dtype.numpy_dtype))
        chosen = sizes[index]
        if index.start in (None, 0) and index.step in (None, 1):
            return DynamicRaggedShape.from_lengths(chosen, dtype=self._dtype)
        if any(isinstance(size, tuple) for size in chosen):
            raise ValueError("All relevant dimensions must be uniform")
        return DynamicRaggedShape.from_lengths(chosen, dtype=self._dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DynamicRaggedShape):
            return NotImplemented
        return self._dtype is other._dtype and self.static_lengths() == other.static_lengths()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<DynamicRaggedShape lengths={self.static_lengths()} num_row_partitions={self.num_row_partitions}>"

    def _filled(self, flat: Any) -> Any:
        return from_partitions(flat, self._partitions)


def _refuse(value: DynamicRaggedShape) -> NoReturn:
    raise NotDenseError(value, "a ragged shape is not a vector of sizes.")


register_converter(DynamicRaggedShape, _refuse)
register_handler(DynamicRaggedShape, call_on_ragged)


# -- functions that take or return shapes ----------------------------------------------------------------------------
@register("shape")
def _shape(call: Any, input: Any, out_type: Any = "int32", name: Any = None) -> DynamicRaggedShape:
    return DynamicRaggedShape.from_tensor(input).with_dtype(out_type)


@register("zeros")
def _zeros(call: Any, shape: Any, dtype: Any = "float32", name: Any = None, layout: Any = None) -> Any:
    return shape._filled(fill_with(0, shape._inner, dtype))


@register("ones")
def _ones(call: Any, shape: Any, dtype: Any = "float32", name: Any = None, layout: Any = None) -> Any:
    return shape._filled(fill_with(1, shape._inner, dtype))


@register("fill")
def _fill(call: Any, dims: Any, value: Any, name: Any = None, layout: Any = None) -> Any:
    return dims._filled(call(dims._inner, value))


@register("broadcast_to")
def _broadcast_to(call: Any, input: Any, shape: Any, name: Any = None) -> Any:
    if not isinstance(shape, DynamicRaggedShape):
        shape = DynamicRaggedShape.from_lengths(known(convert(shape)).tolist())
    if not shape._partitions:
        return call(input, shape._inner)
    x = input if type(input) is RaggedTensor else convert(input)
    like = shape._filled(fill_with(0, shape._inner, x.dtype))
    (_, flat), found = broadcast(like, x)
    return from_partitions(array.broadcast_to(flat, shape=shape._inner), found)


@register("reshape")
def _reshape(call: Any, tensor: Any, shape: Any, name: Any = None) -> Any:
    flat = tensor.flat_values if type(tensor) is RaggedTensor else convert(tensor)
    if not isinstance(shape, DynamicRaggedShape):
        return reshape(flat, shape)
    if prod(flat.array.shape) != prod(shape._inner):
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {prod(flat.array.shape)} values, but the requested shape has "
            f"{prod(shape._inner)}",
            "Reshape",
        )
    return shape._filled(reshape(flat, shape._inner))
