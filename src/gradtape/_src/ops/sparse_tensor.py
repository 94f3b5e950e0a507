"""`tf.SparseTensor`: a tensor given by the coordinates and values of its elements, never densified implicitly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import dtypes, errors, nest
from gradtape._src.arrays.dimensions import is_same_shape
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import convert, converter_of, operand, wrap
from gradtape._src.core.composites import NotDenseError, hosted, register_gradient, register_handler, register_structure
from gradtape._src.core.primitive import registry
from gradtape._src.dtypes import DType
from gradtape._src.ops import array, index
from gradtape._src.shape import ShapeAndDtype, TensorShape, as_shape
from gradtape._src.tensor import Tensor


class SparseTensor:
    """A tensor given by the coordinates and values of its elements; all others are zero.

    >>> import gradtape as tf
    >>> s = tf.SparseTensor([[0, 1], [2, 0]], [3.0, 4.0], [3, 2])
    >>> tf.sparse.to_dense(s).numpy().tolist()
    [[0.0, 3.0], [0.0, 0.0], [4.0, 0.0]]
    """

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        self.indices = convert(indices, None if isinstance(indices, Tensor) else "int64")
        self.values = convert(values)
        self.dense_shape = convert(dense_shape, None if isinstance(dense_shape, Tensor) else "int64")
        try:
            count, rank = self.values.array.shape[:1], self.dense_shape.array.shape[:1]
            places = self.indices.array.shape
        except NotDenseError:  # tensors of a graph of TensorFlow 1
            return
        if not is_same_shape(places, (*count, *rank)):
            raise ValueError(
                f"indices should have one row of {rank[0] if rank else 0} coordinates for each of the "
                f"{count[0] if count else 0} values, but have shape {self.indices.shape}."
            )

    @property
    def shape(self) -> TensorShape:
        """The shape; sizes that are unknown while a function is traced are None.

        >>> tf.sparse.from_dense([[1, 0, 0], [0, 2, 0]]).shape
        TensorShape([2, 3])
        """
        try:
            if is_known(self.dense_shape):
                return TensorShape(np.asarray(self.dense_shape.array).tolist())
            return TensorShape([None] * self.dense_shape.array.shape[0])
        except NotDenseError:
            rank = self.dense_shape.shape[0] if self.dense_shape.shape.rank else None
            return TensorShape(None if rank is None else [None] * rank)

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    def get_shape(self) -> TensorShape:
        """Return the shape, like `tensor.shape`.

        >>> tf.sparse.from_dense([1, 0]).get_shape()
        TensorShape([2])
        """
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Check that the shape is compatible with this one.

        >>> s = tf.sparse.from_dense([[1, 0], [0, 2]])
        >>> s.set_shape([2, None])
        """
        if not as_shape(shape).is_compatible_with(self.shape):
            raise ValueError(f"Shapes {self.shape} and {as_shape(shape)} are not compatible")

    def with_values(self, new_values: Any) -> SparseTensor:
        """Return a sparse tensor with other values at the same coordinates.

        >>> tf.SparseTensor([[1]], [2.0], [3]).with_values([5.0]).values.numpy().tolist()
        [5.0]
        """
        return SparseTensor(self.indices, new_values, self.dense_shape)

    @property
    def _type_spec(self) -> SparseTensorSpec:
        return SparseTensorSpec(self.shape, self.dtype)

    def __mul__(self, other: Any) -> SparseTensor:
        """The product with a number, or with a dense tensor that broadcasts to this shape."""
        return self.with_values(self.values * self._picked(other))

    def __rmul__(self, other: Any) -> SparseTensor:
        return self * other if _is_tensor(other) else NotImplemented

    def __truediv__(self, other: Any) -> SparseTensor:
        """The quotient of the values: zeros divided by zero are omitted, as in TensorFlow."""
        return self.with_values(self.values / self._picked(other))

    def _refuse(self, other: Any) -> Any:
        """Raise an error for the other operators of dense tensors."""
        return convert(self) if _is_tensor(other) else NotImplemented

    __radd__ = __rsub__ = __rtruediv__ = __rfloordiv__ = __rmod__ = __rpow__ = __rmatmul__ = __matmul__ = _refuse

    @hosted
    def _picked(self, dense: Any) -> Tensor:
        """The elements of a dense tensor, broadcast to this shape, at the coordinates."""
        other = operand(dense, self.dtype)
        if not other.array.shape:
            return other
        whole = array.broadcast_to(other, shape=tuple(np.asarray(self.dense_shape.array).tolist()))
        picked: Tensor = index.gather_nd(whole, self.indices, batch_dims=0)
        return picked

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.indices, self.values, self.dense_shape)

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices!s}, values={self.values!s}, dense_shape={self.dense_shape!s})"

    def _repr_html_(self) -> str | None:
        if not (is_known(self.values) and is_known(self.indices) and is_known(self.dense_shape)):
            return None
        from gradtape._src.notebook import sparse_card

        values, shape = self.values.numpy(), tuple(self.dense_shape.numpy().tolist())
        facts = [f"shape {shape}", self.dtype.name, f"{len(values):,} of {math.prod(shape):,} elements"]
        return sparse_card("tf.SparseTensor", self.indices.numpy(), values, facts)


def _unpickled(indices: Tensor, values: Tensor, dense_shape: Tensor) -> SparseTensor:
    return SparseTensor(indices, values, dense_shape)


def _is_tensor(value: Any) -> bool:
    """Whether it is a tensor, or converted to one implicitly, like variables."""
    return isinstance(value, Tensor) or converter_of(value) is not None


class SparseTensorSpec(ShapeAndDtype):
    """A description of a sparse tensor: shape and dtype.

    >>> tf.SparseTensorSpec([None, 3]).is_compatible_with(tf.SparseTensor([[0, 1]], [2.0], [5, 3]))
    True

    >>> spec = tf.SparseTensorSpec([2, 3], tf.float32)
    >>> spec.shape, spec.dtype
    (TensorShape([2, 3]), tf.float32)
    >>> spec.most_specific_compatible_type(tf.SparseTensorSpec([4, 3], tf.float32))
    SparseTensorSpec(TensorShape([None, 3]), tf.float32)
    """

    def __init__(self, shape: Any = None, dtype: Any = dtypes.float32) -> None:
        self._shape, self._dtype = as_shape(shape), dtypes.as_dtype(dtype)

    @property
    def rank(self) -> int | None:
        """The number of dimensions, or None."""
        return self._shape.rank

    value_type = SparseTensor

    def _batch(self, batch_size: Any) -> SparseTensorSpec:
        return SparseTensorSpec([batch_size, *self._shape], self._dtype)

    def _unbatch(self) -> SparseTensorSpec:
        return SparseTensorSpec(self._shape[1:], self._dtype)

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Return whether a sparse tensor, or another specification, has this dtype and could have this shape."""
        return (
            isinstance(spec_or_value, (SparseTensor, SparseTensorSpec))
            and self._dtype is spec_or_value.dtype
            and self._shape.is_compatible_with(spec_or_value.shape)
        )

    def most_specific_compatible_type(self, other: Any) -> SparseTensorSpec:
        """Return the narrowest specification that covers this one and another."""
        if not isinstance(other, SparseTensorSpec) or other._dtype is not self._dtype:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return SparseTensorSpec(self._shape.most_specific_compatible_shape(other._shape), self._dtype)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SparseTensorSpec) or self._dtype is not other._dtype:
            return False
        if self._shape.rank is None or other._shape.rank is None:
            return self._shape.rank is other._shape.rank
        return self._shape.as_list() == other._shape.as_list()

    def __hash__(self) -> int:
        return hash((str(self._shape), self._dtype))

    def __repr__(self) -> str:
        return f"SparseTensorSpec({self._shape!r}, {self._dtype!r})"


def _of_parts(like: SparseTensor, parts: list[Any]) -> SparseTensor:
    """Rebuild a flattened value, also from objects that replace tensors, such as their specs."""
    new = SparseTensor.__new__(SparseTensor)
    new.indices, new.values, new.dense_shape = parts
    return new


def _sizes(s: SparseTensor) -> nest.Sizes:
    """Calls of one trace have the same rank, and any number of values."""
    return nest.Sizes(((0,), (0,), ()))


nest.register_composite(SparseTensor, lambda s: (s.indices, s.values, s.dense_shape), _of_parts, _sizes)


# -- primitives of one tensor ----------------------------------------------------------------------------------------
def map_values(function: Callable[..., Any], x: SparseTensor) -> SparseTensor:
    """Apply a function to the values, keeping their positions."""
    return x.with_values(function(x.values))


def _call(name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> SparseTensor:
    """Run a function of TensorFlow on a sparse tensor, which most of them reject."""
    if not registry[name].sparse or type(args[0]) is not SparseTensor:
        raise
    return map_values(call, args[0])


def _no_gradient(*_: Any) -> Any:
    raise ValueError(
        "Type SparseTensor is not supported as a gradient source or gradient target. Differentiate with respect to "
        "its values, or convert it to a dense tensor."
    )


register_handler(SparseTensor, _call)


def _example(parts: list[Any], places: list[int]) -> list[Any]:
    """Coordinates along a diagonal, and a shape that contains it."""
    indices, values, _ = parts
    count, rank = indices.array.shape
    diagonal = np.repeat(np.arange(count), rank).reshape(count, rank)
    found = [wrap(diagonal.astype(np.int64)), values, wrap(np.full(rank, max(count, 1), np.int64))]
    return [new if i in places else old for i, (old, new) in enumerate(zip(parts, found, strict=True))]


register_structure(SparseTensor, lambda s: (s.indices, s.dense_shape), _example)
register_gradient(SparseTensor, _no_gradient, _no_gradient)


# -- rows ------------------------------------------------------------------------------------------------------------
def _coordinates(x: SparseTensor, op: str) -> tuple[ndarray, ndarray]:
    """The coordinates, in order, and the shape."""
    where, sizes = np.asarray(x.indices.array), np.asarray(x.dense_shape.array)
    outside = np.any((where < 0) | (where >= sizes), axis=1)
    if outside.any():
        row = int(np.argmax(outside))
        at, need = errors.brackets(where[row].tolist()), errors.brackets(sizes.tolist())
        raise errors.refused_value(f"indices[{row}] = {at} is out of bounds: need 0 <= index < {need}", op)
    other = where[1:] != where[:-1]
    first = np.argmax(other, axis=1)[:, None]
    grows = np.take_along_axis(where[1:], first, 1) > np.take_along_axis(where[:-1], first, 1)
    if not grows.all():
        row = 1 + int(np.argmin(grows))
        what = "out of order" if other[row - 1].any() else "repeated"
        at = errors.brackets(where[row].tolist())
        raise errors.refused_value(
            f"indices[{row}] = {at} is {what}. Many sparse ops require sorted indices: sort the coordinates, and "
            "the values with them, before creating the tensor.",
            op,
        )
    return where, sizes


def unstack(x: SparseTensor, op: str = "SerializeManySparse") -> list[SparseTensor]:
    """The rows of a sparse tensor, as sparse tensors."""
    if x.dense_shape.array.shape[0] < 1:
        raise ValueError(f"Unbatching a sparse tensor is only supported for rank >= 1. Obtained input: {x}.")
    if x.dense_shape.array.shape[0] < 2:
        raise errors.invalid_argument("Rank of input SparseTensor should be > 1, but saw rank: 1", op)
    where, sizes = _coordinates(x, op)
    starts = np.searchsorted(where[:, 0], np.arange(int(sizes[0]) + 1))
    shape = wrap(sizes[1:].astype(np.int64))
    rows = []
    for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        rows.append(SparseTensor(wrap(where[start:stop, 1:].astype(np.int64)), x.values[start:stop], shape))
    return rows


def stack(rows: Sequence[SparseTensor], op: str = "DeserializeSparse") -> SparseTensor:
    """Stack sparse tensors of the same rank along a new first axis; sizes are the maxima."""
    ranks = [row.dense_shape.array.shape[0] for row in rows]
    for number, rank in enumerate(ranks):
        if rank != ranks[0]:
            raise errors.invalid_argument(
                f"Inconsistent shape across SparseTensors: rank prior to SparseTensor[{number}] was: {ranks[0]} but "
                f"rank of SparseTensor[{number}] is: {rank}",
                op,
            )
    where = [np.asarray(row.indices.array) for row in rows]
    numbers = np.repeat(np.arange(len(rows)), [len(one) for one in where])
    sizes = np.max([np.asarray(row.dense_shape.array) for row in rows], axis=0)
    indices = np.concatenate([numbers[:, None], np.concatenate(where)], axis=1).astype(np.int64)
    values = array.concatenate(*[row.values for row in rows], axis=0)
    return SparseTensor(wrap(indices), values, wrap(np.array([len(rows), *sizes], np.int64)))
