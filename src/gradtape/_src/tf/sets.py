"""`tf.sets`: set operations on the rows of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, wrap
from gradtape._src.ops.ragged.partition import known
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf.sparse_shaping import coordinates, flat_positions, make_sparse, sizes_of, unflatten

_DTYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "string")
_Combine = Callable[[set[Any], set[Any]], set[Any]]


def intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Compute the elements that are in a row of a and in the same row of b.

    >>> import gradtape as tf
    >>> tf.sets.intersection([[1, 2, 3]], [[3, 1, 9]]).values.numpy().tolist()
    [1, 3]
    """
    return _combined(lambda x, y: x & y, a, b)


def union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """Compute the elements that are in a row of a or in the same row of b.

    >>> import gradtape as tf
    >>> tf.sets.union([[1, 2]], [[2, 3]]).values.numpy().tolist()
    [1, 2, 3]
    """
    return _combined(lambda x, y: x | y, a, b)


def difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """Compute the elements in a row of a that are not in the same row of b; with `aminusb=False`, the reverse.

    >>> import gradtape as tf
    >>> tf.sets.difference([[1, 2, 3]], [[3, 9]]).values.numpy().tolist()
    [1, 2]
    """
    return _combined((lambda x, y: x - y) if aminusb else (lambda x, y: y - x), a, b)


def size(a: SparseTensor, validate_indices: bool = True) -> Tensor:
    """Count the distinct elements in each row of a sparse tensor.

    >>> import gradtape as tf
    >>> tf.sets.size(tf.sparse.from_dense([[1, 2], [7, 0]])).numpy().tolist()
    [2, 1]
    """
    if not isinstance(a, SparseTensor):
        raise TypeError(f"Expected `SparseTensor`, got {a}.")
    _check_dtype(a.dtype, "a")
    sizes = sizes_of(a)
    if len(sizes) < 2:
        raise errors.refused_value(f"Invalid rank {len(sizes)}.", "SetSize")
    counts = np.zeros(int(np.prod(sizes[:-1])), np.int32)
    for row, members in _sets_of(a).items():
        counts[row] = len(members)
    return wrap(counts.reshape(sizes[:-1]))


def _check_dtype(dtype: Any, name: str) -> None:
    if dtype.name not in _DTYPES:
        raise TypeError(f"'{name}' has invalid dtype `{dtype!r}` not in supported dtypes: `{_DTYPES}`.")


def _combined(combine: _Combine, a: Any, b: Any) -> SparseTensor:
    """Combine the sets of corresponding rows; elements are sorted."""
    first, second = (x if isinstance(x, SparseTensor) else convert(x) for x in (a, b))
    if first.dtype != second.dtype:
        raise TypeError(f"Types don't match, {first.dtype!r} vs {second.dtype!r}.")
    _check_dtype(first.dtype, "a")
    outer = _outer_shape(first, second)
    sets = _sets_of(first), _sets_of(second)
    rows = sorted({*sets[0], *sets[1]})
    found = {row: sorted(combine(sets[0].get(row, set()), sets[1].get(row, set()))) for row in rows}
    lengths = [len(found[row]) for row in rows]
    numbers = np.repeat(np.array(rows, np.int64), lengths)
    places = np.concatenate([np.arange(n) for n in lengths]) if rows else np.zeros(0, np.int64)
    members = [member for row in rows for member in found[row]]
    values = np.array(members, first.dtype.numpy_dtype)
    where = np.concatenate([unflatten(numbers, outer), places[:, None]], axis=1)
    return make_sparse(where, wrap(values), [*outer, max(lengths, default=0)])


def _outer_shape(a: Any, b: Any) -> list[int]:
    """The shape of the rows, which must be equal."""
    shapes = [tuple(sizes_of(x).tolist()) if isinstance(x, SparseTensor) else tuple(x.array.shape) for x in (a, b)]
    for shape in shapes:
        if len(shape) < 2:
            raise errors.invalid_argument(
                f"Shape {errors.brackets(shape)} has rank {len(shape)} < 2", "DenseToDenseSetOperation"
            )
    if shapes[0][:-1] != shapes[1][:-1]:
        words = [errors.brackets(shape[:-1]) for shape in shapes]
        raise errors.invalid_argument(f"Mismatched shapes {words[0]} vs {words[1]}", "DenseToDenseSetOperation")
    return list(shapes[0][:-1])


def _sets_of(x: Any) -> dict[int, set[Any]]:
    """The sets of nonempty rows, by row number."""
    if isinstance(x, SparseTensor):
        rows: ndarray = flat_positions(coordinates(x)[:, :-1], sizes_of(x)[:-1])
        values = known(x.values)
    else:
        numbers = known(x)
        rows, values = np.repeat(np.arange(int(np.prod(numbers.shape[:-1]))), numbers.shape[-1]), numbers.reshape(-1)
    found: dict[int, set[Any]] = {}
    for row, value in zip(rows.tolist(), values.tolist(), strict=True):
        found.setdefault(row, set()).add(value)
    return found


__all__ = ["difference", "intersection", "size", "union"]


def __dir__() -> list[str]:
    return list(__all__)
