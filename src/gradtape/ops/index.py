"""Lookups and scatters: primitives whose second operand says where."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape import errors
from gradtape.arrays import namespace_of
from gradtape.arrays.batched import Batched
from gradtape.arrays.dimensions import is_dimension
from gradtape.arrays.symbolic import is_known
from gradtape.conversion import operand, register_converter
from gradtape.engine.dispatch import primitive
from gradtape.engine.op import numpy_dtype
from gradtape.engine.sparse import Rows
from gradtape.indexed_slices import IndexedSlices
from gradtape.ops.batching import spread

Axes = tuple[int, ...]


def _take_dx(d, indices, x_shape, xp, axis, batch_dims):
    """Rows looked up along the first axis give a sparse cotangent; other lookups scatter into zeros."""
    count = math.prod(indices.shape)
    if axis == 0 and not batch_dims:
        values = xp.reshape(d, shape=(count, *x_shape[1:]))
        flat = _reshape_indices(indices, (count,))
        if type(d) is Batched:  # a Jacobian is dense
            return xp.add_rows(values, flat, shape=x_shape)
        return Rows(values, flat, x_shape)
    # Bring the looked-up axis to the front of the unbatched part, flatten the indices, scatter, and put it back.
    extra = len(indices.shape) - batch_dims
    lead = range(batch_dims)
    picked = range(axis, axis + extra)
    others = [i for i in range(batch_dims, len(d.shape)) if i not in picked]
    d = xp.transpose(d, perm=(*lead, *picked, *others))
    batch = x_shape[:batch_dims]
    rest = x_shape[batch_dims:axis] + x_shape[axis + 1 :]
    rows = math.prod(batch)
    per_row = count // max(rows, 1)
    size = x_shape[axis]
    offsets = _offsets(indices, rows, size)
    flat = xp.add_rows(xp.reshape(d, shape=(rows * per_row, *rest)), offsets, shape=(rows * size, *rest))
    back = xp.reshape(flat, shape=(*batch, size, *rest))
    perm = [*lead, *range(batch_dims + 1, axis + 1), batch_dims, *range(axis + 1, len(x_shape))]
    return xp.transpose(back, perm=tuple(perm))


def _reshape_indices(indices: Any, shape: Axes) -> Any:
    return namespace_of(indices).reshape(indices, shape=shape)


def _offsets(indices: Any, rows: int, size: int) -> Any:
    """Indices into each of `rows` blocks of `size`, as indices into all of them together."""
    flat = _reshape_indices(indices, (rows, -1 if rows else 0))
    return _reshape_indices(flat + (np.arange(rows) * size)[:, None].astype(numpy_dtype(indices)), (-1,))


def take_batch(xp, size, batched, x, indices, *, axis, batch_dims=0):
    if not batched[1]:
        if batch_dims == 0:
            return xp.take(x, indices, axis=axis + 1, batch_dims=0)
        indices = xp.broadcast_to(indices, shape=(size, *indices.shape))
    return xp.take(spread(xp, size, batched[0], x), indices, axis=axis + 1, batch_dims=batch_dims + 1)


take = primitive("take", ("x", "indices"), _take_dx, None, tf_name="GatherV2", batch=take_batch)


def _add_rows_batch(xp, size, batched, values, indices, *, shape):
    if batched[1]:
        return None
    axes = range(len(shape) + 1)
    swap = (1, 0, *axes[2:])  # rows first, the batch behind them: one scatter for all
    scattered = xp.add_rows(xp.transpose(values, perm=swap), indices, shape=(shape[0], size, *shape[1:]))
    return xp.transpose(scattered, perm=swap)


add_rows = primitive(
    "add_rows",
    ("values", "indices"),
    lambda d, indices, xp: xp.take(d, indices, axis=0, batch_dims=0),
    None,
    tf_name="UnsortedSegmentSum",
    batch=_add_rows_batch,
)


def _gather_nd_dx(d, indices, x_shape, xp, batch_dims):
    if indices.shape[-1] == 1 and not batch_dims:
        count = math.prod(indices.shape)
        values, flat = xp.reshape(d, shape=(count, *x_shape[1:])), _reshape_indices(indices, (count,))
        return xp.add_rows(values, flat, shape=x_shape) if type(d) is Batched else Rows(values, flat, x_shape)
    return xp.scatter_nd(d, indices, shape=x_shape, batch_dims=batch_dims)


def _gather_nd_batch(xp, size, batched, x, indices, *, batch_dims=0):
    return xp.gather_nd(
        spread(xp, size, batched[0], x), spread(xp, size, batched[1], indices), batch_dims=batch_dims + 1
    )


gather_nd = primitive("gather_nd", ("x", "indices"), _gather_nd_dx, None, tf_name="GatherNd", batch=_gather_nd_batch)


def _scatter_nd_batch(xp, size, batched, updates, indices, *, shape, batch_dims=0):
    return xp.scatter_nd(
        spread(xp, size, batched[0], updates),
        spread(xp, size, batched[1], indices),
        shape=(size, *shape),
        batch_dims=batch_dims + 1,
    )


scatter_nd = primitive(
    "scatter_nd",
    ("updates", "indices"),
    lambda d, indices, xp, batch_dims: xp.gather_nd(d, indices, batch_dims=batch_dims),
    None,
    tf_name="ScatterNd",
    batch=_scatter_nd_batch,
)


def put_nd_batch(name: str) -> Any:
    """The batch rule of a scatter into x: the number of the row is one more coordinate, in front of the others."""

    def rule(xp: Any, size: int, batched: list[bool], x: Any, updates: Any, indices: Any) -> Any:
        x, updates, indices = (spread(xp, size, b, a) for a, b in zip((x, updates, indices), batched, strict=True))
        numbers = np.arange(size, dtype=numpy_dtype(indices)).reshape(size, *[1] * (len(indices.shape) - 1))
        rows = xp.broadcast_to(numbers, shape=(*indices.shape[:-1], 1))
        return getattr(xp, name)(x, updates, xp.concatenate(rows, indices, axis=len(indices.shape) - 1))

    return rule


replace_nd = primitive(
    "replace_nd",
    ("x", "updates", "indices"),
    lambda d, indices, xp: xp.replace_nd(d, xp.zeros(_rows_shape(d, indices), numpy_dtype(d)), indices),
    lambda d, indices, xp: xp.gather_nd(d, indices, batch_dims=0),
    None,
    tf_name="TensorScatterUpdate",
    batch=put_nd_batch("replace_nd"),
)


def _rows_shape(d: Any, indices: Any) -> Axes:
    return (*indices.shape[:-1], *d.shape[indices.shape[-1] :])


take_along_axis = primitive(
    "take_along_axis",
    ("x", "indices"),
    lambda d, indices, x_shape, xp, axis: xp.put_along_axis(d, indices, axis=axis, size=x_shape[axis]),
    None,
    tf_name="GatherV2",
    batch=lambda xp, size, batched, x, indices, axis: xp.take_along_axis(
        spread(xp, size, batched[0], x), spread(xp, size, batched[1], indices), axis=axis + 1
    ),
)


def _put_along_axis_batch(xp, rows, batched, x, indices, *, axis, size):
    x, indices = spread(xp, rows, batched[0], x), spread(xp, rows, batched[1], indices)
    return xp.put_along_axis(x, indices, axis=axis + 1, size=size)


put_along_axis = primitive(
    "put_along_axis",
    ("x", "indices"),
    lambda d, indices, xp, axis: xp.take_along_axis(d, indices, axis=axis),
    None,
    tf_name="ScatterNd",
    batch=_put_along_axis_batch,
)


# -- lookups with TensorFlow's checks --------------------------------------------------------------------------------
def checked_indices(indices: Any, size: int, op: str = "GatherV2") -> Any:
    """Indices that all lie in [0, size), or TensorFlow's error naming the first that does not."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers, got {indices.dtype}")
    if not is_known(indices) or is_dimension(size):
        return indices
    indices = np.asarray(indices)
    bad = (indices < 0) | (indices >= size)
    if np.any(bad):
        at = tuple(int(i) for i in np.argwhere(bad)[0]) if indices.ndim else ()
        where = f"[{','.join(map(str, at))}]" if at else ""
        raise errors.invalid_argument(f"indices{where} = {indices[at]} is not in [0, {size})", op)
    return indices


def checked_coordinates(indices: Any, shape: Axes, op: str = "ScatterNd") -> None:
    """Refuse coordinates (last axis) that are not all inside the shape."""
    if indices.shape[-1] > len(shape):
        raise errors.invalid_argument(
            f"index innermost dimension length must be <= params rank; saw: {indices.shape[-1]} vs. {len(shape)}", op
        )
    if not is_known(indices):
        return
    parts = tuple(np.moveaxis(np.asarray(indices), -1, 0))
    for part, size in zip(parts, shape, strict=False):
        bad = (part < 0) | (False if is_dimension(size) else part >= size)
        if np.any(bad):
            at = tuple(int(i) for i in np.argwhere(bad)[0]) if part.ndim else ()
            spot = ",".join(map(str, at))
            found = ", ".join(str(int(p[at])) for p in parts)
            raise errors.invalid_argument(
                f"indices[{spot}] = [{found}] does not index into shape {errors.brackets(shape)}", op
            )


def checked_take(x: Any, indices: Any, axis: int = 0, batch_dims: int = 0) -> Any:
    """`take` after the check of its indices."""
    checked_indices(indices.array, x.array.shape[axis])
    return take(x, indices, axis=axis, batch_dims=batch_dims)


def checked_gather_nd(x: Any, indices: Any, batch_dims: int = 0) -> Any:
    """`gather_nd` after the check of its coordinates."""
    checked_coordinates(indices.array, x.array.shape[batch_dims:], "GatherNd")
    return gather_nd(x, indices, batch_dims=batch_dims)


def static_shape(shape: Any) -> Axes:
    """A shape that was given as a tensor."""
    if not is_known(shape):
        raise errors.unknown_shape(
            "a conversion of tf.IndexedSlices", "Let dense_shape be a constant, such as tf.shape(x)."
        )
    return tuple(int(n) for n in np.asarray(shape.array))


def _dense_slices(slices: Any) -> Any:
    """IndexedSlices as a tensor: rows at equal indices added up."""
    if slices.dense_shape is None:
        raise ValueError(
            f"Tensor conversion requested for IndexedSlices for argument `value` without dense_shape: {slices}"
        )
    shape = static_shape(operand(slices.dense_shape))
    return add_rows(operand(slices.values), operand(slices.indices), shape=shape)


register_converter(IndexedSlices, _dense_slices)
