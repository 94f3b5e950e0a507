"""Sparse tensors in Keras' ops: NumPy computes the positions, and ops that tapes record compute the values.

Two types are supported, as in Keras' TensorFlow backend: `tf.SparseTensor` has single elements, and `tf.IndexedSlices`
has rows, where rows with equal indices are summed. Both consist of positions, integers that can be sorted and compared
as sets, with one value or one row of values each.

All other ops compute with dense tensors. So do these if positions are unknown, in a program that is being traced, and
if the result would not be sparse.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import convert
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.keras_backend._common import (
    Axes,
    axes_of,
    axis_of,
    broadcast,
    cast,
    expand,
    flat,
    kept_dims,
    look_up,
    result_type,
    shape as sizes_of,
)
from gradtape._src.keras_backend.core import SPARSE, cast as cast_either, dense, of_values
from gradtape._src.ops import array as ops, index, math as elementwise, reduce
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor

Function = Callable[..., Any]


# -- positions -------------------------------------------------------------------------------------------------------
def is_sparse(x: Any) -> bool:
    return type(x) in SPARSE


def is_placed(x: Any) -> bool:
    """Whether a tensor is sparse with known positions."""
    return type(x) in SPARSE and is_known(x.indices)


def is_elements(x: Any) -> bool:
    """Whether a tensor is a `SparseTensor` with known positions."""
    return type(x) is SparseTensor and is_known(x.indices)


def _whole(x: Any) -> Axes | None:
    """The shape, which slices may not have, or only in the program."""
    said = x.dense_shape is not None and is_known(x.dense_shape)
    return sizes_of(x) if said else None


def _strides(sizes: Axes) -> ndarray:
    """The distance of neighbors along each axis in the flattened tensor."""
    return np.array([math.prod(sizes[i + 1 :]) for i in range(len(sizes))], np.int64)


def _coordinates(x: SparseTensor) -> ndarray:
    return np.asarray(x.indices.array)


def _places(x: Any) -> ndarray:
    """The positions of the values: in the flattened tensor, or along the first axis."""
    if isinstance(x, IndexedSlices):
        return np.asarray(convert(x.indices).array)
    places: ndarray = _coordinates(x) @ _strides(sizes_of(x))
    return places


def elements(places: ndarray, values: Tensor, sizes: Axes) -> SparseTensor:
    """A `SparseTensor` with values at these positions of the flattened tensor."""
    where = np.zeros((len(places), len(sizes)), np.int64)
    for axis, stride in enumerate(_strides(sizes)):
        if len(places):
            where[:, axis] = places // stride % sizes[axis]
    return SparseTensor(where, values, np.array(sizes, np.int64))


def elements_of(where: ndarray, values: Any, sizes: Axes) -> SparseTensor:
    """A `SparseTensor` with values at coordinates in any order; values at equal coordinates are summed."""
    return elements(*_added_up(where @ _strides(sizes), convert(values)), sizes)


def _like(x: Any, places: ndarray, values: Tensor) -> Any:
    """A tensor of the same type and shape as x, with other values at other positions."""
    if isinstance(x, IndexedSlices):
        return IndexedSlices(values, convert(places), x.dense_shape)
    return elements(places, values, sizes_of(x))


def _brought(values: Tensor, positions: ndarray, count: int) -> Tensor:
    """Values at these positions among `count`, zeros elsewhere; values at equal positions are summed."""
    numbers = cast(values, "int32") if values.dtype.is_bool else values
    brought = index.add_rows(numbers, positions, shape=(count, *sizes_of(values)[1:]))
    return cast(brought, values.dtype)


def _added_up(places: ndarray, values: Tensor) -> tuple[ndarray, Tensor]:
    """The unique positions, sorted, with the sums of their values."""
    distinct, positions = np.unique(places, return_inverse=True)
    return distinct, _brought(values, positions, len(distinct))


def distinct(x: Any) -> Any:
    """The same tensor with unique positions, which a `SparseTensor` has by definition."""
    if isinstance(x, IndexedSlices) and len(np.unique(_places(x))) < len(_places(x)):
        return _like(x, *_added_up(_places(x), convert(x.values)))
    return x


def _matches(left: ndarray, right: ndarray) -> tuple[ndarray, ndarray]:
    """All pairs of equal numbers, as positions on both sides."""
    order = np.argsort(right, kind="stable")
    start, stop = (np.searchsorted(right[order], left, side) for side in ("left", "right"))
    counts = stop - start
    i = np.repeat(np.arange(len(left)), counts)
    nth = np.arange(len(i)) - np.repeat(np.cumsum(counts) - counts, counts)
    return i, order[start[i] + nth]


# -- elementwise functions -------------------------------------------------------------------------------------------
def keeps_zeros(function: Function) -> Function:
    """Decorate a function of one tensor with f(0) = 0: it is applied only to the values."""

    @functools.wraps(function)
    def of_either(x: Any, *args: Any, **kwargs: Any) -> Any:
        if type(x) is SparseTensor or is_placed(x):
            return of_values(lambda values: function(values, *args, **kwargs), distinct(x))
        return function(x, *args, **kwargs)

    return of_either


def unites(function: Function) -> Function:
    """Decorate a function of two tensors with f(0, 0) = 0: sums, differences, extremes."""

    @functools.wraps(function)
    def of_either(x1: Any, x2: Any) -> Any:
        if type(x1) not in SPARSE or type(x2) not in SPARSE:
            return function(x1, x2)
        x1, x2 = _of_one_shape(x1, x2)
        if not _comparable(x1, x2):
            return function(x1, x2)
        first, second = _places(x1), _places(x2)
        places, positions = np.unique(np.concatenate([first, second]), return_inverse=True)
        parts = ((x1, positions[: len(first)]), (x2, positions[len(first) :]))
        return _like(x1, places, function(*[_brought(convert(x.values), where, len(places)) for x, where in parts]))

    return of_either


def intersects(function: Function) -> Function:
    """Decorate a function of two tensors that is zero if one of them is: products."""

    @functools.wraps(function)
    def of_either(x1: Any, x2: Any) -> Any:
        if type(x1) not in SPARSE and type(x2) not in SPARSE:
            return function(x1, x2)
        if type(x2) not in SPARSE:
            found = _at_places(x1, x2, function)
            return function(x1, x2) if found is None else found
        if type(x1) not in SPARSE:
            found = _at_places(x2, x1, lambda x, y: function(y, x))
            return function(x1, x2) if found is None else found
        x1, x2 = _of_one_shape(x1, x2)
        if not _comparable(x1, x2):
            return function(x1, x2)
        x1, x2 = distinct(x1), distinct(x2)
        places, i, j = np.intersect1d(_places(x1), _places(x2), return_indices=True)
        return _like(x1, places, function(look_up(convert(x1.values), i, 0), look_up(convert(x2.values), j, 0)))

    return of_either


def divides(function: Function) -> Function:
    """Decorate a quotient: sparse if the divisor is dense, with additional values where that is zero or NaN."""

    @functools.wraps(function)
    def of_either(x1: Any, x2: Any) -> Any:
        if type(x1) not in SPARSE or type(x2) in SPARSE:
            return function(x1, x2)
        divisor = dense(x2)
        if not is_known(divisor):
            return function(x1, x2)
        numbers = np.asarray(divisor.array)
        undefined = (numbers == 0) | (numbers != numbers)
        if undefined.any():
            whole = _whole(x1)
            if not is_placed(x1) or whole is None or np.broadcast_shapes(whole, undefined.shape) != whole:
                return function(x1, x2)
            undefined = np.broadcast_to(undefined, whole)
            if isinstance(x1, IndexedSlices):
                undefined = undefined.any(axis=tuple(range(1, undefined.ndim)))
            places = np.union1d(_places(x1), np.flatnonzero(undefined))
            positions = np.searchsorted(places, _places(x1))
            x1 = _like(x1, places, _brought(convert(x1.values), positions, len(places)))
        found = _at_places(x1, x2, function)
        return function(x1, x2) if found is None else found

    return of_either


def _of_one_shape(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two sparse tensors of one shape; `SparseTensor`s are broadcast."""
    if is_elements(x1) and is_elements(x2) and sizes_of(x1) != sizes_of(x2):
        sizes = np.broadcast_shapes(sizes_of(x1), sizes_of(x2))
        return broadcast_to(x1, sizes), broadcast_to(x2, sizes)
    return x1, x2


def _comparable(x1: Any, x2: Any) -> bool:
    """Whether the positions of two sparse tensors are comparable."""
    return type(x1) is type(x2) and is_placed(x1) and is_placed(x2) and _whole(x1) == _whole(x2)


def _at_places(x: Any, other: Any, function: Function) -> Any:
    """Apply a function to sparse values and to the values of a dense tensor at their positions;
    None if it adds some.
    """
    sizes = () if isinstance(other, (int, float)) else sizes_of(other)
    if not sizes:
        return of_values(lambda values: function(values, other), x)
    if type(x) is IndexedSlices:
        whole = _whole(x)
        if whole is None or np.broadcast_shapes(whole, sizes) != whole:
            return None
        rows = len(sizes) == len(whole) and sizes[0] != 1
        other = look_up(dense(other), convert(x.indices), 0) if rows else other
        return of_values(lambda values: function(values, other), x)
    if not is_known(x.indices):
        return None
    x = broadcast_to(x, np.broadcast_shapes(sizes_of(x), sizes))
    where = _coordinates(x)[:, len(sizes_of(x)) - len(sizes) :]
    strides = np.where(np.array(sizes) == 1, 0, _strides(sizes))  # a broadcast axis has one position
    picked = look_up(flat(dense(other)), where @ strides, 0)
    return of_values(lambda values: function(values, picked), x)


# -- shapes ----------------------------------------------------------------------------------------------------------
def kept(x: Any) -> Any:
    """A `SparseTensor` with known positions unchanged; everything else as a dense tensor."""
    return x if is_elements(x) else dense(x)


def reshape(x: Any, sizes: Axes) -> Any:
    return elements(_places(x), x.values, sizes) if isinstance(x, SparseTensor) else ops.reshape(x, shape=sizes)


def transpose(x: Any, perm: Axes) -> Any:
    if not isinstance(x, SparseTensor):
        return ops.transpose(x, perm=perm)
    sizes = tuple(sizes_of(x)[axis] for axis in perm)
    places = _coordinates(x)[:, perm] @ _strides(sizes)
    order = np.argsort(places, kind="stable")
    return elements(places[order], look_up(x.values, order, 0), sizes)


def broadcast_to(x: Any, sizes: Axes) -> Any:
    """Repeat the elements along broadcast axes."""
    if not isinstance(x, SparseTensor):
        return broadcast(x, sizes)
    if sizes_of(x) == tuple(sizes):
        return x
    have = (1,) * (len(sizes) - len(sizes_of(x))) + sizes_of(x)
    where = np.pad(_coordinates(x), ((0, 0), (len(sizes) - len(sizes_of(x)), 0)))
    again = np.indices([wanted if n == 1 else 1 for n, wanted in zip(have, sizes, strict=True)])
    moves = again.reshape(len(sizes), -1).T
    places = ((where[:, None] + moves) @ _strides(sizes)).ravel()
    order = np.argsort(places, kind="stable")
    return elements(places[order], look_up(x.values, order // len(moves), 0), sizes)


def concatenate(xs: list[SparseTensor], axis: int) -> SparseTensor:
    kind, at = result_type(*[x.dtype for x in xs]), axis_of(axis, len(sizes_of(xs[0])))
    if len({(*sizes_of(x)[:at], *sizes_of(x)[at + 1 :], len(sizes_of(x))) for x in xs}) > 1:
        raise ValueError(
            f"Tensors must have the same shape, except for axis {axis}. Received: shapes {[sizes_of(x) for x in xs]}"
        )
    sizes, where = list(sizes_of(xs[0])), []
    sizes[at] = 0
    for x in xs:
        moved = _coordinates(x).copy()
        moved[:, at] += sizes[at]
        where.append(moved)
        sizes[at] += sizes_of(x)[at]
    values = ops.concatenate(*[dense(x.values, kind) for x in xs], axis=0)
    places = np.concatenate(where) @ _strides(tuple(sizes))
    order = np.argsort(places, kind="stable")
    return elements(places[order], look_up(values, order, 0), tuple(sizes))


def take_rows(x: SparseTensor, rows: ndarray) -> SparseTensor:
    """Take slices along the first axis in the given order; indices may repeat."""
    where, sizes = _coordinates(x), (len(rows), *sizes_of(x)[1:])
    new, old = _matches(rows, where[:, 0])
    places = np.column_stack([new, where[old, 1:]]) @ _strides(sizes)
    return elements(places, look_up(x.values, old, 0), sizes)


# -- reductions ------------------------------------------------------------------------------------------------------
def sum_(x: Any, axis: Any, keepdims: bool) -> Any:
    """The sum over axes: sparse, or dense if rows are summed over their own axis."""
    if isinstance(x, IndexedSlices):
        return _sum_of_rows(x, axis, keepdims)
    axes = axes_of(axis, len(sizes_of(x)))
    ones = kept_dims(sizes_of(x), axes)
    where = np.where(np.isin(np.arange(len(ones)), axes), 0, _coordinates(x))
    total = elements(*_added_up(where @ _strides(ones), x.values), ones)
    return total if keepdims else reshape(total, tuple(n for i, n in enumerate(ones) if i not in axes))


def _sum_of_rows(x: IndexedSlices, axis: Any, keepdims: bool) -> Any:
    values = convert(x.values)
    axes = axes_of(axis, len(sizes_of(values)))
    total = reduce.sum_(values, axis=axes, keepdims=keepdims)
    if 0 in axes:
        return total
    sizes = sizes_of(x)
    left = kept_dims(sizes, axes) if keepdims else tuple(n for i, n in enumerate(sizes) if i not in axes)
    return IndexedSlices(total, x.indices, convert(np.array(left, np.int64)))


# -- products --------------------------------------------------------------------------------------------------------
def matmul(x1: Any, x2: Any) -> Any:
    """The product over the last two axes: sparse if both are, dense if one is."""
    x1, x2 = kept(x1), kept(x2)
    kind = result_type(x1.dtype, x2.dtype)
    if kind in ("int8", "bool"):
        kind, wanted = "int32", "bool" if kind == "bool" else "int32"
    else:
        wanted = kind
    return cast_either(_matmul(cast_either(x1, kind), cast_either(x2, kind)), wanted)


def _matmul(x1: Any, x2: Any) -> Any:
    row, column = len(sizes_of(x1)) == 1, len(sizes_of(x2)) == 1
    if row:
        x1 = reshape(x1, (1, *sizes_of(x1)))
    if column:
        x2 = reshape(x2, (*sizes_of(x2), 1))
    *lead1, height, inner = sizes_of(x1)
    *lead2, also_inner, width = sizes_of(x2)
    if inner != also_inner:
        raise ValueError(
            "The last axis of `x1` and the last but one of `x2` must have the same size. "
            f"Received: x1.shape={sizes_of(x1)}, x2.shape={sizes_of(x2)}"
        )
    lead = np.broadcast_shapes(tuple(lead1), tuple(lead2))
    x1, x2 = broadcast_to(x1, (*lead, height, inner)), broadcast_to(x2, (*lead, inner, width))
    if not isinstance(x1, SparseTensor):
        swap = (*range(len(lead)), len(lead) + 1, len(lead))
        product = transpose(_of_sparse(transpose(x2, swap), transpose(x1, swap), lead), swap)
    else:
        product = (_of_both if isinstance(x2, SparseTensor) else _of_sparse)(x1, x2, lead)
    return reshape(product, (*lead, *(() if row else (height,)), *(() if column else (width,))))


def _rows_and_columns(x: SparseTensor) -> tuple[ndarray, ndarray, ndarray]:
    """For elements of a batch of matrices: the row among all rows, and the column among all columns
    and in its matrix.
    """
    height, width = sizes_of(x)[-2:]
    row, column = np.divmod(_places(x), max(width, 1))
    return row, row // max(height, 1) * width + column, column


def _of_sparse(x1: SparseTensor, x2: Tensor, lead: Axes) -> Tensor:
    """Multiply each element by its row of the other matrix: if that is a variable, its gradient is sparse."""
    row, partner, _ = _rows_and_columns(x1)
    height, width = sizes_of(x1)[-2], sizes_of(x2)[-1]
    table = ops.reshape(x2, shape=(math.prod(sizes_of(x2)[:-1]), width)) if lead else x2
    terms = elementwise.multiply(look_up(table, partner, 0), expand(x1.values, 1))
    total = index.add_rows(terms, row, shape=(math.prod(lead) * height, width))
    return ops.reshape(total, shape=(*lead, height, width)) if lead else total


def _of_both(x1: SparseTensor, x2: SparseTensor, lead: Axes) -> SparseTensor:
    """The products of all pairs of elements with a common inner index, summed at equal positions."""
    row, partner, _ = _rows_and_columns(x1)
    other_row, _, column = _rows_and_columns(x2)
    i, j = _matches(partner, other_row)
    terms = elementwise.multiply(look_up(x1.values, i, 0), look_up(x2.values, j, 0))
    height, width = sizes_of(x1)[-2], sizes_of(x2)[-1]
    return elements(*_added_up(row[i] * width + column[j], terms), (*lead, height, width))


# -- counting --------------------------------------------------------------------------------------------------------
def bincount(x: Any, weights: Any, minlength: int) -> SparseTensor:
    """The count of each number along the last axis, or the sum of its weights."""
    *lead, last = sizes_of(x)
    if isinstance(x, SparseTensor):
        numbers, places = np.asarray(x.values.array), _places(x)
    else:
        numbers, places = np.asarray(x.array).ravel(), np.arange(math.prod(sizes_of(x)))
    if np.any(numbers < 0):
        raise ValueError(f"`x` must not have negative elements. Received: x={x}")
    if weights is None:
        weights = convert(np.ones(len(numbers), np.int32))
    elif isinstance(weights, SparseTensor) and np.array_equal(_places(weights), places):
        weights = weights.values
    else:
        weights = look_up(flat(dense(weights)), places, 0)
    length = max(int(minlength), int(numbers.max(initial=-1)) + 1)
    return elements(*_added_up(places // max(last, 1) * length + numbers, weights), (*lead, length))


def one_hot(x: Tensor, num_classes: int, axis: int, dtype: Any) -> SparseTensor:
    """Ones along a new axis at the positions that the numbers give; none for invalid classes."""
    numbers = np.asarray(x.array)
    known = (numbers >= 0) & (numbers < num_classes)
    where = np.column_stack([np.argwhere(known), numbers[known]]).astype(np.int64).reshape(-1, numbers.ndim + 1)
    sizes = (*numbers.shape, num_classes)
    hot = elements(where @ _strides(sizes), convert(np.ones(len(where), dtype)), sizes)
    at = axis_of(axis, len(sizes))
    order = [i for i in range(len(sizes)) if i != len(sizes) - 1]
    order.insert(at, len(sizes) - 1)
    return hot if order == sorted(order) else transpose(hot, tuple(order))


def any_along(x: SparseTensor, axis: int) -> SparseTensor:
    """Ones where there is any element along an axis."""
    sizes = tuple(n for i, n in enumerate(sizes_of(x)) if i != axis)
    places = np.unique(np.delete(_coordinates(x), axis, axis=1) @ _strides(sizes))
    return elements(places, convert(np.ones(len(places), x.values.array.dtype)), sizes)
