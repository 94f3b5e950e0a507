"""Reorder, reshape and split sparse tensors: functions of `tf.sparse` that rearrange elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors, nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.composites import hosted
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops import array, index
from gradtape._src.ops.ragged.partition import known
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import concat as concat_dense


# -- coordinates -----------------------------------------------------------------------------------------------------
def checked_sparse(value: Any) -> SparseTensor:
    """A sparse tensor, or TensorFlow's TypeError."""
    if not isinstance(value, SparseTensor):
        raise TypeError(f"Input must be a SparseTensor. Received {value!r}.")
    return value


def coordinates(x: SparseTensor) -> ndarray:
    """The coordinates of the elements, as rows."""
    return known(x.indices)


def sizes_of(x: SparseTensor) -> ndarray:
    """The dense shape."""
    return known(x.dense_shape)


def make_sparse(where: ndarray, values: Any, sizes: Any) -> SparseTensor:
    """A sparse tensor of NumPy coordinates and a shape."""
    return SparseTensor(
        wrap(np.ascontiguousarray(where, np.int64)), values, wrap(np.array([int(n) for n in sizes], np.int64))
    )


def pick(values: Tensor, which: ndarray, sparse_gradient: bool = False) -> Tensor:
    """Some of the values, in any order."""
    source = values if sparse_gradient else array.identity(values)
    found: Tensor = index.take(source, wrap(np.ascontiguousarray(which, np.int64)), axis=0, batch_dims=0)
    return found


def flat_positions(where: ndarray, sizes: Any) -> ndarray:
    """The position of each element in row-major order; as Python integers if they exceed 64 bits."""
    total, strides = 1, []
    for size in reversed([int(n) for n in sizes]):
        strides.append(total)
        total *= max(size, 1)
    kind: Any = np.int64 if total < 2**63 else object
    return np.asarray((where.astype(kind) * np.array(strides[::-1], kind)).sum(axis=1), kind)


def unflatten(positions: ndarray, sizes: Any) -> ndarray:
    """The coordinates of row-major positions."""
    columns = []
    for size in reversed([int(n) for n in sizes]):
        columns.append(positions % max(size, 1))
        positions = positions // max(size, 1)
    if not columns:
        return np.zeros((len(positions), 0), np.int64)
    return np.stack(columns[::-1], axis=1).astype(np.int64)


def _sorted(where: ndarray) -> ndarray:
    """The permutation that sorts coordinates row by row."""
    return np.lexsort(where.T[::-1]) if where.shape[1] else np.arange(len(where))


# -- order and shape -------------------------------------------------------------------------------------------------
@hosted
def reorder(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Sort the elements in row-major order.

    >>> import gradtape as tf
    >>> s = tf.SparseTensor([[2, 0], [0, 1]], [1, 2], [3, 2])
    >>> tf.sparse.reorder(s).values.numpy().tolist()
    [2, 1]
    """
    where = coordinates(checked_sparse(sp_input))
    order = _sorted(where)
    return make_sparse(where[order], pick(sp_input.values, order), sizes_of(sp_input))


@hosted
def transpose(sp_input: SparseTensor, perm: Any = None, name: str | None = None) -> SparseTensor:
    """Permute the axes; reverse them by default.

    >>> import gradtape as tf
    >>> tf.sparse.transpose(tf.sparse.from_dense([[0, 1], [2, 0]])).values.numpy().tolist()
    [2, 1]
    """
    where, sizes = coordinates(checked_sparse(sp_input)), sizes_of(sp_input)
    order = np.arange(len(sizes))[::-1] if perm is None else known(convert(perm))
    if order.shape != (len(sizes),):
        raise ValueError(
            f"Dimensions {order.size} and {len(sizes)} are not compatible: perm needs one entry for each axis."
        )
    return reorder(make_sparse(where[:, order], sp_input.values, sizes[order]))


@hosted
def reshape(sp_input: SparseTensor, shape: Any, name: str | None = None) -> SparseTensor:
    """Change the shape, keeping the elements in row-major order; one size may be -1.

    >>> import gradtape as tf
    >>> tf.sparse.reshape(tf.sparse.from_dense([[0, 1], [2, 0]]), [4]).indices.numpy().tolist()
    [[1], [2]]
    """
    where, sizes = coordinates(checked_sparse(sp_input)), sizes_of(sp_input)
    wanted = _inferred([int(n) for n in known(convert(shape)).reshape(-1)], int(np.prod(sizes)), sizes)
    return make_sparse(unflatten(flat_positions(where, sizes), wanted), sp_input.values, wanted)


def _inferred(wanted: list[int], have: int, sizes: ndarray) -> list[int]:
    """A requested shape with -1 replaced."""
    unknown = [i for i, n in enumerate(wanted) if n == -1]
    shapes = f"input_shape={errors.brackets(sizes.tolist())} output_shape={errors.brackets(wanted)}"
    if len(unknown) > 1:
        raise errors.invalid_argument(
            f"only one output dimension may be -1, not both {unknown[0]} and {unknown[1]}", "SparseReshape"
        )
    rest = int(np.prod([n for n in wanted if n != -1], dtype=np.int64))
    if unknown:
        if rest <= 0 or have % rest:
            raise errors.invalid_argument(
                f"Input to reshape is a SparseTensor with {have} dense values, but the requested shape requires a "
                f"multiple of {rest}. {shapes}",
                "SparseReshape",
            )
        wanted = [have // rest if n == -1 else n for n in wanted]
    elif rest != have:
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {have} dense values, but the requested shape has {rest}. {shapes}",
            "SparseReshape",
        )
    return wanted


@hosted
def expand_dims(sp_input: SparseTensor, axis: Any = None, name: str | None = None) -> SparseTensor:
    """Insert an axis of length 1, at the end by default.

    >>> tf.sparse.expand_dims(tf.sparse.from_dense([1, 0, 2])).shape
    TensorShape([3, 1])
    """
    where, sizes = coordinates(checked_sparse(sp_input)), sizes_of(sp_input)
    rank = len(sizes)
    place = -1 if axis is None else int(known(convert(axis)))
    if not -rank - 1 <= place <= rank:
        word = (
            f"size[1] in [0, {rank}], but got {place}" if place > 0 else f"axis in [{-rank - 1}, {rank}], got {place}"
        )
        raise errors.invalid_argument(f"Expected {word}", "Slice")
    place += rank + 1 if place < 0 else 0
    return make_sparse(np.insert(where, place, 0, axis=1), sp_input.values, np.insert(sizes, place, 1))


@hosted
def reset_shape(sp_input: SparseTensor, new_shape: Any = None) -> SparseTensor:
    """Return the same elements in a larger shape; by default, in the smallest shape that holds them.

    >>> tf.sparse.reset_shape(tf.sparse.from_dense([[1, 0, 0]]), [2, 4]).shape
    TensorShape([2, 4])
    """
    where, sizes = coordinates(checked_sparse(sp_input)), sizes_of(sp_input)
    if new_shape is None:
        tight = where.max(axis=0) + 1 if len(where) else np.zeros(len(sizes), np.int64)
        return make_sparse(where, sp_input.values, tight)
    wanted = known(convert(new_shape)).astype(np.int64)
    if wanted.shape != sizes.shape:
        raise ValueError(f"Dimensions {wanted.size} and {len(sizes)} are not compatible: the rank must not change.")
    if (wanted < sizes).any():
        raise ValueError(
            f"Requested new_shape should have dimension sizes >= sp_input.shape.  Found new_shape ({wanted}), "
            f"sp_input.shape ({sizes})."
        )
    return make_sparse(where, sp_input.values, wanted)


# -- parts -----------------------------------------------------------------------------------------------------------
@hosted
def retain(sp_input: SparseTensor, to_retain: Any) -> SparseTensor:
    """Keep the elements for which a boolean vector, with one entry for each element, is true.

    >>> tf.sparse.to_dense(tf.sparse.retain(tf.sparse.from_dense([1, 0, 2]), [False, True])).numpy().tolist()
    [0, 0, 2]
    """
    where = coordinates(checked_sparse(sp_input))
    kept = known(convert(to_retain)).astype(bool)
    if kept.shape != (len(where),):
        raise ValueError(f"Dimensions {len(where)} and {kept.size} are not compatible: each element needs one boolean.")
    chosen = np.flatnonzero(kept)
    return make_sparse(where[chosen], pick(sp_input.values, chosen, sparse_gradient=True), sizes_of(sp_input))


@hosted
def slice(sp_input: SparseTensor, start: Any, size: Any, name: str | None = None) -> SparseTensor:
    """Return the block that begins at `start`, of at most this size.

    >>> import gradtape as tf
    >>> tf.sparse.slice(tf.sparse.from_dense([[0, 1, 2], [3, 0, 0]]), [0, 1], [2, 2]).values.numpy().tolist()
    [1, 2]
    """
    where, sizes = coordinates(checked_sparse(sp_input)), sizes_of(sp_input)
    first, extent = known(convert(start)).astype(np.int64), known(convert(size)).astype(np.int64)
    for word, given in (("start", first), ("size", extent)):
        if given.shape != sizes.shape:
            raise errors.refused_value(
                f"Expected {word} to be a vector of length {len(sizes)} but got length {given.size}", "SparseSlice"
            )
    left = np.clip(sizes - first, 0, None)
    chosen = np.flatnonzero(((where >= first) & (where < first + extent)).all(axis=1))
    shape = np.clip(np.minimum(extent, left), 0, None)
    return make_sparse(where[chosen] - first, pick(sp_input.values, chosen), shape)


@hosted
def split(sp_input: Any = None, num_split: Any = None, axis: Any = None, name: str | None = None) -> list[SparseTensor]:
    """Split along an axis; if the size is not a multiple, the first parts are longer by 1.

    >>> parts = tf.sparse.split(tf.sparse.from_dense([1, 0, 2, 0]), num_split=2, axis=0)
    >>> [tf.sparse.to_dense(part).numpy().tolist() for part in parts]
    [[1, 0], [2, 0]]
    """
    if num_split is None:
        raise ValueError("num_split is required")
    if axis is None:
        raise ValueError("axis is required")
    sizes = sizes_of(checked_sparse(sp_input))
    place, count = int(known(convert(axis))), int(num_split)
    if not -len(sizes) <= place < len(sizes):
        raise errors.invalid_argument(
            f"Input axis should be in range [{-len(sizes)}, {len(sizes)}), got {place}", "SparseSplit"
        )
    size = int(sizes[place])
    if not 1 <= count <= size:
        raise errors.refused_value(
            f"Input num_split should be between 1 and the splitting dimension size ({size}), got {count}", "SparseSplit"
        )
    lengths = [size // count + (i < size % count) for i in range(count)]
    parts = []
    for i, length in enumerate(lengths):
        start, extent = np.zeros(len(sizes), np.int64), sizes.copy()
        start[place], extent[place] = sum(lengths[:i]), length
        parts.append(slice(sp_input, start, extent))
    return parts


@hosted
def concat(axis: Any, sp_inputs: Any, expand_nonconcat_dims: bool = False, name: str | None = None) -> SparseTensor:
    """Concatenate sparse tensors along an axis. With `expand_nonconcat_dims`, the other sizes are the largest.

    >>> import gradtape as tf
    >>> s = tf.sparse.from_dense([[0, 1]])
    >>> tf.sparse.concat(1, [s, s]).indices.numpy().tolist()
    [[0, 1], [0, 3]]
    """
    if not isinstance(sp_inputs, (list, tuple)):
        raise TypeError(f"Inputs must be a list or tuple. Received {sp_inputs!r}.")
    if not sp_inputs:
        raise errors.invalid_argument("SparseConcat needs at least one sparse tensor", "SparseConcat")
    inputs = [checked_sparse(one) for one in sp_inputs]
    if len(inputs) == 1:
        return inputs[0]
    shapes = [sizes_of(one) for one in inputs]
    rank = len(shapes[0])
    place = int(known(convert(axis)))
    _check_joined(inputs, shapes, place, expand_nonconcat_dims)
    place %= rank
    offsets = np.cumsum([0, *[shape[place] for shape in shapes]])
    where = []
    for one, offset in zip(inputs, offsets[:-1], strict=True):
        moved = coordinates(one).copy()
        moved[:, place] += offset
        where.append(moved)
    sizes = np.max(shapes, axis=0)
    sizes[place] = offsets[-1]
    together = make_sparse(np.concatenate(where), concat_dense([one.values for one in inputs], 0), sizes)
    return reorder(together)


def _check_joined(inputs: Sequence[SparseTensor], shapes: Sequence[ndarray], axis: int, expand: bool) -> None:
    first = inputs[0]
    for one in inputs[1:]:
        if one.dtype != first.dtype:
            raise errors.mismatched_dtypes("SparseConcat", first.dtype, one.dtype)
    rank = len(shapes[0])
    if not -rank <= axis < rank:
        raise errors.invalid_argument(
            f"Concat dimension must be in range [{-rank}, {rank}), got {axis}", "SparseConcat"
        )
    for i, shape in enumerate(shapes):
        if len(shape) != rank:
            raise errors.invalid_argument(
                f"Ranks of all input tensors must match: expected {rank} but got {len(shape)} at position {i}",
                "SparseConcat",
            )
        for d in range(rank):
            if not expand and d != axis % rank and shape[d] != shapes[0][d]:
                have = f"expected {shapes[0][d]} for dimension {d} but got {shape[d]}"
                raise errors.refused_value(f"Input shapes must match: {have} at position {i}", "SparseConcat")


@hosted
def fill_empty_rows(sp_input: SparseTensor, default_value: Any, name: str | None = None) -> tuple[SparseTensor, Tensor]:
    """Add a value at the beginning of every empty row, and return which rows those were.

    >>> import gradtape as tf
    >>> s, empty = tf.sparse.fill_empty_rows(tf.SparseTensor([[0, 1]], [5], [2, 3]), -1)
    >>> s.values.numpy().tolist(), empty.numpy().tolist()
    ([5, -1], [False, True])
    """
    where, sizes = coordinates(checked_sparse(sp_input)), sizes_of(sp_input)
    value = convert(default_value, sp_input.dtype)
    wrong = np.flatnonzero((where[:, 0] < 0) | (where[:, 0] >= sizes[0]))
    if len(wrong):
        at = int(wrong[0])
        raise errors.refused_value(f"indices({at}, 0) is invalid: {where[at, 0]} >= {sizes[0]}", "SparseFillEmptyRows")
    empty = np.bincount(where[:, 0], minlength=int(sizes[0])) == 0
    rows = np.flatnonzero(empty)
    added = np.zeros((len(rows), len(sizes)), np.int64)
    added[:, 0] = rows
    every = np.concatenate([where, added])
    order = np.argsort(every[:, 0], kind="stable")
    filled = array.broadcast_to(value, shape=(len(rows),))
    values = pick(concat_dense([sp_input.values, filled], 0), order)
    return make_sparse(every[order], values, sizes), wrap(empty)


def mask(a: Any, mask_indices: Any, name: str | None = None) -> IndexedSlices:
    """Remove the slices at some positions from IndexedSlices.

    >>> import gradtape as tf
    >>> slices = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([0, 4]))
    >>> tf.sparse.mask(slices, [4]).indices.numpy().tolist()
    [0]
    """
    if not isinstance(a, IndexedSlices):
        raise AttributeError(
            f"'{type(a).__name__}' object has no attribute 'indices': tf.sparse.mask takes IndexedSlices."
        )
    positions, removed = convert(a.indices), known(convert(mask_indices))
    kept = np.flatnonzero(~np.isin(known(positions), removed))
    return IndexedSlices(pick(convert(a.values), kept), pick(positions, kept), a.dense_shape)


def map_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> SparseTensor:
    """Apply a function to the values of sparse arguments, which must all have their elements at the same positions.

    >>> import gradtape as tf
    >>> tf.sparse.map_values(tf.add, tf.sparse.from_dense([0.0, 2.0]), 5.0).values.numpy().tolist()
    [7.0]
    """
    found: list[SparseTensor] = []

    def values_of(value: Any) -> Any:
        if not isinstance(value, SparseTensor):
            return value
        found.append(value)
        return value.values

    args, kwargs = nest.map_structure(values_of, (args, kwargs))
    if not found:
        raise ValueError("No SparseTensor in argument list of map_values")
    first = found[0]
    for other in found[1:]:
        if not np.array_equal(sizes_of(other), sizes_of(first)):
            raise errors.refused_value(
                "Mismatched shapes! All sparse arguments of map_values must have the same shape."
            )
        if not np.array_equal(coordinates(other), coordinates(first)):
            raise errors.refused_value(
                "Mismatched indices! All sparse arguments of map_values must have the same indices."
            )
    result = convert(op(*args, **kwargs))
    if not result.array.shape:
        raise ValueError(f"Shape {result.shape} must have rank 1: the function must not change the number of values.")
    return first.with_values(result)


def where_of_union(a: SparseTensor, b: SparseTensor, op: str) -> tuple[ndarray, ndarray, ndarray]:
    """The sorted positions of the elements of both tensors, and the number of the position for each element."""
    shapes = sizes_of(a), sizes_of(b)
    if len(shapes[0]) != len(shapes[1]):
        raise errors.invalid_argument(f"Operands do not have the same ranks; got {shapes[0]} and {shapes[1]}", op)
    for d, (n, m) in enumerate(zip(*shapes, strict=True)):
        if n != m:
            raise errors.invalid_argument(f"Operands' shapes do not match: got {n} and {m} for dimension {d}", op)
    if a.dtype != b.dtype:
        raise errors.mismatched_dtypes(op, a.dtype, b.dtype)
    positions = [flat_positions(coordinates(x), shapes[0]) for x in (a, b)]
    every, number = np.unique(np.concatenate(positions), return_inverse=True)
    number = number.reshape(-1)
    return unflatten(every, shapes[0]), number[: len(positions[0])], number[len(positions[0]) :]


def placed(values: Tensor, numbers: ndarray, count: int) -> Tensor:
    """Values at their positions among `count`; 0 elsewhere, and sums at repeated positions."""
    found: Tensor = index.add_rows(values, wrap(numbers.astype(np.int64)), shape=(count,))
    return found
