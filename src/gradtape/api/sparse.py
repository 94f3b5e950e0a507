"""`tf.sparse`: coordinates and values, as far as tapes meet them: from a dense tensor, to one, and the class itself."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape import errors
from gradtape.api.arguments import shape_of
from gradtape.arrays.symbolic import is_known
from gradtape.conversion import operand, wrap
from gradtape.ops import index, math
from gradtape.ops.sparse_tensor import SparseTensor
from gradtape.tensor import Tensor


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
