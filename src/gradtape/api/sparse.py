"""`tf.sparse`: coordinates and values, as far as tapes meet them: from a dense tensor, to one, and the class itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape import errors, nest
from gradtape.api.arguments import shape_of
from gradtape.arrays.symbolic import is_known
from gradtape.conversion import convert, operand, register_converter, wrap
from gradtape.dtypes import DType
from gradtape.ops import array, index, math
from gradtape.shape import TensorShape
from gradtape.tensor import Tensor


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
        count, rank = self.values.array.shape[:1], self.dense_shape.array.shape[:1]
        if self.indices.array.shape != (*count, *rank):
            raise ValueError(
                f"indices should have one row of {rank[0] if rank else 0} coordinates for each of the "
                f"{count[0] if count else 0} values, but have shape {self.indices.shape}."
            )

    @property
    def shape(self) -> TensorShape:
        return TensorShape(shape_of(self.dense_shape))

    @property
    def dtype(self) -> DType:
        return self.values.dtype

    def get_shape(self) -> TensorShape:
        return self.shape

    def with_values(self, new_values: Any) -> SparseTensor:
        """Other values at the same coordinates.

        >>> SparseTensor([[1]], [2.0], [3]).with_values([5.0]).values.numpy().tolist()
        [5.0]
        """
        return SparseTensor(self.indices, new_values, self.dense_shape)

    def __mul__(self, other: Any) -> SparseTensor:
        """The product with a number, or with a dense tensor that broadcasts to this shape."""
        return self.with_values(self.values * self._picked(other))

    def __truediv__(self, other: Any) -> SparseTensor:
        """The quotient, as far as there are values: zeros divided by zero are left out, as they are in TensorFlow."""
        return self.with_values(self.values / self._picked(other))

    def _picked(self, dense: Any) -> Tensor:
        """The elements of a dense tensor, broadcast to this shape, at the coordinates."""
        other = operand(dense, self.dtype)
        if not other.array.shape:
            return other
        whole = array.broadcast_to(other, shape=shape_of(self.dense_shape))
        picked: Tensor = index.gather_nd(whole, self.indices, batch_dims=0)
        return picked

    def __repr__(self) -> str:
        return f"SparseTensor(indices={self.indices!s}, values={self.values!s}, dense_shape={self.dense_shape!s})"


def _of_parts(like: SparseTensor, parts: list[Any]) -> SparseTensor:
    """Put together again as it was taken apart: also of what stands for tensors, such as their specs."""
    new = SparseTensor.__new__(SparseTensor)
    new.indices, new.values, new.dense_shape = parts
    return new


nest.register_composite(SparseTensor, lambda s: (s.indices, s.values, s.dense_shape), _of_parts)
register_converter(SparseTensor, lambda s: to_dense(s))


def from_dense(tensor: Any, name: str | None = None) -> SparseTensor:
    """The elements of a tensor that are not zero."""
    x = operand(tensor)
    if not is_known(x):
        raise errors.unknown_shape("tf.sparse.from_dense", "Keep to the dense tensor inside of a tf.function.")
    where = np.argwhere(np.asarray(x.array) != 0).astype(np.int64)
    values = index.gather_nd(x, wrap(where), batch_dims=0)
    return SparseTensor(wrap(where), values, wrap(np.array(x.array.shape, np.int64)))


def to_dense(
    sp_input: SparseTensor, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """All elements, with `default_value` (0) where there is none."""
    if not isinstance(sp_input, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor. Received {sp_input!r}.")
    shape, where = shape_of(sp_input.dense_shape), sp_input.indices
    index.checked_coordinates(where.array, shape, "SparseToDense")
    if validate_indices and is_known(where) and len(np.unique(np.asarray(where.array), axis=0)) < len(where):
        raise errors.invalid_argument("indices are repeated", "SparseToDense")
    truths = sp_input.dtype.is_bool  # numbers can be added up at a place
    values = math.where(sp_input.values, np.int32(1), np.int32(0)) if truths else sp_input.values
    dense: Tensor = index.scatter_nd(values, where, shape=shape, batch_dims=0)
    dense = math.greater(dense, 0) if truths else dense
    if default_value is None:
        return dense
    ones = np.ones(where.array.shape[:1], np.int32)
    given = math.greater(index.scatter_nd(ones, where, shape=shape, batch_dims=0), 0)
    filled: Tensor = math.where(given, dense, operand(default_value, dense.dtype))
    return filled


__all__ = ["SparseTensor", "from_dense", "to_dense"]


def __dir__() -> list[str]:
    return list(__all__)
