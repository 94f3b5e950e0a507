"""Conversion of sparse tensors from and to dense ones."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, checked
from gradtape._src.arrays.symbolic import is_known, unknown_shape
from gradtape._src.conversion import operand, wrap
from gradtape._src.core.composites import hosted
from gradtape._src.ops import array, index, math
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import shape_of

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


@hosted
def from_dense(tensor: TensorLike | SparseTensor, name: str | None = None) -> SparseTensor:
    """Convert the nonzero elements of a tensor to a sparse tensor.

    >>> tf.sparse.from_dense([[1, 0], [0, 2]]).indices.numpy().tolist()
    [[0, 0], [1, 1]]
    """
    x = operand(tensor)
    if not x.array.shape:
        raise errors.refused_value("WhereOp : Unhandled input: the tensor is a scalar.", "Where")
    if not is_known(x):
        raise unknown_shape("tf.sparse.from_dense", "Use the dense tensor inside a tf.function.")
    numbers = np.asarray(x.array)
    where = np.argwhere(numbers != (b"" if x.dtype.name == "string" else 0)).astype(np.int64)
    values = index.gather_nd(x, wrap(where), batch_dims=0)
    return SparseTensor(wrap(where), values, wrap(np.array(x.array.shape, np.int64)))


@hosted
def to_dense(
    sp_input: SparseTensor, default_value: Any = None, validate_indices: bool = True, name: str | None = None
) -> Tensor:
    """Convert to a dense tensor, with `default_value` (0) where there is no element.

    >>> tf.sparse.to_dense(tf.SparseTensor([[1]], [5], [3]), default_value=-1).numpy().tolist()
    [-1, 5, -1]
    """
    if not isinstance(sp_input, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor. Received {sp_input!r}.")
    if default_value is not None and operand(default_value, sp_input.dtype).array.shape:
        raise errors.invalid_argument("default_value should be a scalar.", "SparseToDense")
    shape, where = shape_of(sp_input.dense_shape), sp_input.indices
    where = checked(_ELEMENTS if validate_indices else _INSIDE, where, shape=shape)
    if sp_input.dtype.name == "string" or (not validate_indices and is_known(where)):
        return _replaced(sp_input, where, default_value, shape)
    truths = sp_input.dtype.is_bool  # numbers can be summed at a position
    values = math.where(sp_input.values, np.int32(1), np.int32(0)) if truths else sp_input.values
    dense: Tensor = index.scatter_nd(values, where, shape=shape, batch_dims=0)
    dense = math.greater(dense, 0) if truths else dense
    if default_value is None:
        return dense
    ones = np.ones(where.array.shape[:1], np.int32)
    given = math.greater(index.scatter_nd(ones, where, shape=shape, batch_dims=0), 0)
    filled: Tensor = math.where(given, dense, operand(default_value, dense.dtype))
    return filled


def _replaced(sp_input: SparseTensor, where: Tensor, default_value: Any, shape: tuple[int, ...]) -> Tensor:
    """Write the elements one after the other: the last one at a position counts."""
    kind = sp_input.dtype
    empty = b"" if kind.name == "string" else False if kind.is_bool else 0
    room = array.broadcast_to(operand(empty if default_value is None else default_value, kind), shape=shape)
    places = np.asarray(where.array)
    _, last = np.unique(places[::-1], axis=0, return_index=True)
    kept = wrap(len(places) - 1 - last)
    values = index.take(sp_input.values, kept, axis=0, batch_dims=0)
    dense: Tensor = index.replace_nd(room, values, wrap(places[np.asarray(kept.array)]))
    return dense


def _wrong_element(xp: Any, where: Any, shape: Any) -> Any:
    outside = ((where < 0) | (where >= np.array(shape, where.dtype))).any(-1)
    flat = (where * np.array([prod(shape[i + 1 :]) for i in range(len(shape))], where.dtype)).sum(-1)
    misplaced = flat[..., 1:] <= flat[..., :-1]
    return outside.any() | misplaced.any()


def _no_element(where: Any, shape: Any) -> Exception:
    for rows in where.reshape(-1, *where.shape[-2:]).tolist():
        if (error := _no_element_of(rows, shape)) is not None:
            return error
    raise AssertionError("all elements are in order")


def _no_element_of(rows: list[list[int]], shape: Any) -> Exception | None:
    before: list[int] | None = None
    for i, row in enumerate(rows):
        here = f"indices[{i}] = [{','.join(map(str, row))}]"
        if not all(0 <= n < size for n, size in zip(row, shape, strict=True)):
            sentence = f"{here} is out of bounds: need 0 <= index < {errors.brackets(shape)}"
            return errors.refused_value(sentence, "SparseToDense")
        if row == before:
            return errors.refused_value(f"{here} is repeated", "SparseToDense")
        if before is not None and row < before:
            sentence = (
                f"{here} is out of order. Many sparse ops require sorted indices.\n"
                "    Use `tf.sparse.reorder` to create a correctly ordered copy.\n\n"
            )
            return errors.refused_value(sentence, "SparseToDense")
        before = row
    return None


_ELEMENTS = Rule(_wrong_element, _no_element)
_INSIDE = Rule(
    lambda xp, where, shape: (where < 0) | (where >= np.array(shape, where.dtype)),
    lambda where, shape: errors.refused_value(
        f"Indices are not valid (out of bounds).  Shape: {errors.brackets(shape)}", "SparseToDense"
    ),
)
