"""Lookups and scatters: primitives whose second operand says where."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import namespace_of, numpy_namespace
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.checks import Interval, Rule, checked, verify
from gradtape._src.arrays.dimensions import is_known_shape, is_same_shape
from gradtape._src.arrays.positions import positions
from gradtape._src.arrays.symbolic import is_known, number, unknown_shape
from gradtape._src.conversion import operand, register_converter, wrap
from gradtape._src.core.dispatch import primitive
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.structure import OpCall, dense, moves, scattered, scatters
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops import array
from gradtape._src.ops.batching import broadcast_rows

Axes = tuple[int, ...]


def _take_dx(g, indices, x_shape, xp, axis, batch_dims):
    """A lookup along the first axis has a sparse cotangent; other lookups scatter into zeros."""
    count = math.prod(indices.shape)
    if axis == 0 and not batch_dims:
        values = xp.reshape(g, shape=(count, *x_shape[1:]))
        flat = _reshape_indices(indices, (count,))
        if type(g) is Batched:  # a Jacobian is dense
            return xp.add_rows(values, flat, shape=x_shape)
        return SparseCotangent(values, flat, x_shape)
    # Bring the looked-up axis to the front of the unbatched part, flatten the indices, scatter, and put it back.
    extra = len(indices.shape) - batch_dims
    lead = range(batch_dims)
    picked = range(axis, axis + extra)
    others = [i for i in range(batch_dims, len(g.shape)) if i not in picked]
    g = xp.transpose(g, perm=(*lead, *picked, *others))
    batch = x_shape[:batch_dims]
    rest = x_shape[batch_dims:axis] + x_shape[axis + 1 :]
    rows, per_row = math.prod(batch), math.prod(indices.shape[batch_dims:])
    size = x_shape[axis]
    offsets = _offsets(indices, rows, per_row, size)
    flat = xp.add_rows(xp.reshape(g, shape=(rows * per_row, *rest)), offsets, shape=(rows * size, *rest))
    back = xp.reshape(flat, shape=(*batch, size, *rest))
    perm = [*lead, *range(batch_dims + 1, axis + 1), batch_dims, *range(axis + 1, len(x_shape))]
    return xp.transpose(back, perm=tuple(perm))


def _reshape_indices(indices: Any, shape: Axes) -> Any:
    return namespace_of(indices).reshape(indices, shape=shape)


def _offsets(indices: Any, rows: int, per_row: int, size: int) -> Any:
    """Convert indices into each of `rows` blocks of `size` to indices into the concatenated blocks."""
    dtype = numpy_dtype(indices)
    flat = _reshape_indices(indices, (rows, per_row))
    first = _reshape_indices(positions(rows, dtype) * number(size, dtype), (rows, 1))
    return _reshape_indices(flat + first, (rows * per_row,))


def take_batch(xp, size, batched, x, indices, *, axis, batch_dims=0):
    if not batched[1]:
        if batch_dims == 0:
            return xp.take(x, indices, axis=axis + 1, batch_dims=0)
        indices = xp.broadcast_to(indices, shape=(size, *indices.shape))
    return xp.take(broadcast_rows(xp, size, batched[0], x), indices, axis=axis + 1, batch_dims=batch_dims + 1)


take = primitive(
    "take",
    ("x", "indices"),
    _take_dx,
    None,
    tf_name="GatherV2",
    batch=take_batch,
    linear=True,
    structure=moves,
    category="indexing",
    moves_only=True,
    names=("gather",),
    doc="The rows at some indices of an axis.",
)


def _add_rows_batch(xp, size, batched, values, indices, *, shape):
    if batched[1]:
        return None
    axes = range(len(shape) + 1)
    swap = (1, 0, *axes[2:])  # with the batch as the last axis, one scatter is enough
    scattered = xp.add_rows(xp.transpose(values, perm=swap), indices, shape=(shape[0], size, *shape[1:]))
    return xp.transpose(scattered, perm=swap)


add_rows = primitive(
    "add_rows",
    ("values", "indices"),
    lambda g, indices, xp: xp.take(g, indices, axis=0, batch_dims=0),
    None,
    tf_name="UnsortedSegmentSum",
    batch=_add_rows_batch,
    linear=True,
    structure=scatters,
    category="indexing",
    doc="Zeros, with rows added at some indices.",
)


def _gather_nd_dx(g, indices, x_shape, xp, batch_dims):
    if len(indices.shape) == 2 and indices.shape[-1] == 1 and not batch_dims:
        rows = _reshape_indices(indices, (-1 if 0 not in indices.shape else 0,))
        return xp.add_rows(g, rows, shape=x_shape) if type(g) is Batched else SparseCotangent(g, rows, x_shape)
    return xp.scatter_nd(g, indices, shape=x_shape, batch_dims=batch_dims)


def _gather_nd_batch(xp, size, batched, x, indices, *, batch_dims=0):
    return xp.gather_nd(
        broadcast_rows(xp, size, batched[0], x),
        broadcast_rows(xp, size, batched[1], indices),
        batch_dims=batch_dims + 1,
    )


gather_nd = primitive(
    "gather_nd",
    ("x", "indices"),
    _gather_nd_dx,
    None,
    tf_name="GatherNd",
    batch=_gather_nd_batch,
    linear=True,
    structure=moves,
    category="indexing",
    names=("gather_nd",),
    doc="The elements, or slices, at some coordinates.",
)


def _scatter_nd_batch(xp, size, batched, updates, indices, *, shape, batch_dims=0):
    return xp.scatter_nd(
        broadcast_rows(xp, size, batched[0], updates),
        broadcast_rows(xp, size, batched[1], indices),
        shape=(size, *shape),
        batch_dims=batch_dims + 1,
    )


scatter_nd = primitive(
    "scatter_nd",
    ("updates", "indices"),
    lambda g, indices, xp, batch_dims: xp.gather_nd(g, indices, batch_dims=batch_dims),
    None,
    tf_name="ScatterNd",
    batch=_scatter_nd_batch,
    linear=True,
    structure=scatters,
    category="indexing",
    names=("scatter_nd",),
    doc="Zeros, with numbers added at some coordinates.",
)


def put_nd_batch(name: str) -> Any:
    """Batch rule of a scatter into x: the row index becomes one more, leading coordinate."""

    def rule(xp: Any, size: int, batched: list[bool], x: Any, updates: Any, indices: Any) -> Any:
        x, updates, indices = (
            broadcast_rows(xp, size, b, a) for a, b in zip((x, updates, indices), batched, strict=True)
        )
        numbers = xp.reshape(positions(size, numpy_dtype(indices)), shape=(size, *[1] * (len(indices.shape) - 1)))
        rows = xp.broadcast_to(numbers, shape=(*indices.shape[:-1], 1))
        return getattr(xp, name)(x, updates, xp.concatenate(rows, indices, axis=len(indices.shape) - 1))

    return rule


def _replace_structure(call: OpCall) -> Any:
    indices = call.saved("indices")
    if indices is None:
        return dense(call)
    x, updates, _ = call.ids
    x = call.empty() if x is None else x
    updates = np.zeros(_rows_shape(x, indices), np.int64) if updates is None else updates
    return numpy_namespace.replace_nd(x, updates, indices)


def put_structure(call: OpCall) -> Any:
    """Index sets of a scatter into x that keeps the elements of x or combines them with the updates."""
    indices = call.saved("indices")
    if indices is None:
        return dense(call)
    x, updates, _ = call.ids
    parts = [] if x is None else [x]
    if updates is not None:
        places = np.arange(1, math.prod(call.shape) + 1).reshape(call.shape)
        parts.append(scattered(call, updates, numpy_namespace.gather_nd(places, indices)))
    return call.sets.union(*parts)


replace_nd = primitive(
    "replace_nd",
    ("x", "updates", "indices"),
    lambda g, indices, xp: xp.replace_nd(g, xp.zeros(_rows_shape(g, indices), numpy_dtype(g)), indices),
    lambda g, indices, xp: xp.gather_nd(g, indices, batch_dims=0),
    None,
    tf_name="TensorScatterUpdate",
    batch=put_nd_batch("replace_nd"),
    linear=True,
    structure=_replace_structure,
    category="indexing",
    doc="An array with other numbers at some coordinates.",
)


def _rows_shape(g: Any, indices: Any) -> Axes:
    return (*indices.shape[:-1], *g.shape[indices.shape[-1] :])


take_along_axis = primitive(
    "take_along_axis",
    ("x", "indices"),
    lambda g, indices, x_shape, xp, axis: xp.put_along_axis(g, indices, axis=axis, size=x_shape[axis]),
    None,
    tf_name="GatherV2",
    batch=lambda xp, size, batched, x, indices, axis: xp.take_along_axis(
        broadcast_rows(xp, size, batched[0], x), broadcast_rows(xp, size, batched[1], indices), axis=axis + 1
    ),
    linear=True,
    structure=moves,
    category="indexing",
    doc="The elements at the indices of each row.",
)


def _put_along_axis_batch(xp, rows, batched, x, indices, *, axis, size):
    x, indices = broadcast_rows(xp, rows, batched[0], x), broadcast_rows(xp, rows, batched[1], indices)
    return xp.put_along_axis(x, indices, axis=axis + 1, size=size)


put_along_axis = primitive(
    "put_along_axis",
    ("x", "indices"),
    lambda g, indices, xp, axis: xp.take_along_axis(g, indices, axis=axis),
    None,
    tf_name="ScatterNd",
    batch=_put_along_axis_batch,
    linear=True,
    structure=scatters,
    category="indexing",
    doc="Zeros, with numbers added at the indices of each row.",
)


# -- lookups with TensorFlow's checks --------------------------------------------------------------------------------
def checked_indices(indices: Any, size: int, op: str = "GatherV2") -> Any:
    """Return indices that all lie in [0, size), or raise TensorFlow's error for the first that does not."""
    if indices.dtype.kind not in "iu":
        raise TypeError(f"indices must be integers, got {indices.dtype}")
    return verify(WITHIN, indices, size=size, op=op)


def _outside(xp: Any, indices: Any, size: int, **_: Any) -> Any:
    return (indices < 0) | (indices >= size)


def _not_within(indices: Any, size: int, op: str, word: str = "indices", range_: str = "not in") -> Exception:
    at = first_place(_outside(np, indices, size))
    return errors.invalid_argument(f"{word}{spot(at)} = {indices[at]} is {range_} [0, {size})", op)


def inside(interval: Interval, size: int, **_: Any) -> bool:
    """Return whether integers in an interval lie in [0, size)."""
    return interval[0] >= 0 and interval[1] < size


WITHIN = Rule(_outside, _not_within, inside)
"""All indices lie in [0, size)."""


def _no_segment(ids: Any, size: int, op: str) -> Exception:
    at = first_place(ids >= size)
    return errors.invalid_argument(f"segment_ids{spot(at)} = {ids[at]} is out of range [0, {size})", op)


SEGMENTS = Rule(lambda xp, ids, size, op: ids >= size, _no_segment, lambda interval, size, op: interval[1] < size)
"""All ids are below the number of segments; negative ones are left out."""


def first_place(bad: Any) -> tuple[int, ...]:
    """Return the position of the first true element."""
    return tuple(int(i) for i in np.argwhere(bad)[0])


def spot(at: tuple[int, ...]) -> str:
    """Format a position as TensorFlow does: [1,2]; nothing for a scalar."""
    return f"[{','.join(map(str, at))}]" if at else ""


def checked_coordinates(indices: Any, shape: Axes, op: str = "ScatterNd", batch_dims: int = 0) -> Any:
    """Return coordinates (last axis), all of which must lie inside the shape after its `batch_dims` leading axes."""
    depth = indices.shape[-1]
    if depth > len(shape) - batch_dims:
        raise errors.invalid_argument(
            f"index innermost dimension length must be <= params rank; saw: {depth} vs. {len(shape) - batch_dims}", op
        )
    if not depth:
        return indices
    return verify(COORDINATES, indices, shape=tuple(shape), op=op, batch_dims=batch_dims)


def _beyond(xp: Any, indices: Any, shape: Axes, batch_dims: int, **_: Any) -> Any:
    sizes = np.array(shape[batch_dims : batch_dims + indices.shape[-1]], np.int64)
    return ((indices < 0) | (indices >= sizes)).any(-1)


def _not_coordinates(indices: Any, shape: Axes, op: str, batch_dims: int) -> Exception:
    at = first_place(_beyond(np, indices, shape, batch_dims))
    found = ", ".join(map(str, (*at[:batch_dims], *indices[at].tolist())))
    word = "param shape" if op == "GatherNd" else "shape"
    sentence = f"indices{spot(at) or '[]'} = [{found}] does not index into {word} {errors.brackets(shape)}"
    return errors.invalid_argument(sentence, op)


def _all_inside(interval: Interval, shape: Axes, **_: Any) -> bool:
    return interval[0] >= 0 and all(interval[1] < n for n in shape)


COORDINATES = Rule(_beyond, _not_coordinates, _all_inside)
"""All coordinates lie inside a shape."""


def checked_take(x: Any, indices: Any, axis: int = 0, batch_dims: int = 0) -> Any:
    """Check the indices, unless there is nothing to take, then call `take`."""
    shape = x.array.shape
    if 0 in (*shape[:axis], *shape[axis + 1 :]):
        nothing = array.getitem(x, index=(slice(0, 0),))
        return array.reshape(nothing, shape=(*shape[:axis], *indices.array.shape[batch_dims:], *shape[axis + 1 :]))
    found = checked_indices(indices.array, shape[axis])
    return take(x, indices if found is indices.array else wrap(found), axis=axis, batch_dims=batch_dims)


_NOTHING_TO_TAKE = Rule(
    lambda xp, indices, **_: xp.ones(indices.shape[:-1], bool),
    lambda indices, shape: errors.invalid_argument(
        f"Requested more than 0 entries, but params is empty.  Params shape: {errors.brackets(shape)}", "GatherNd"
    ),
)
"""Always an error when it runs; a loop over an empty tensor never runs it."""


def checked_gather_nd(x: Any, indices: Any, batch_dims: int = 0) -> Any:
    """Check the coordinates, then call `gather_nd`."""
    shape, wanted = x.array.shape, indices.array.shape
    if not shape:
        raise errors.invalid_argument("params must be at least a vector", "GatherNd")
    if is_known_shape((*shape, *wanted)) and 0 in shape and 0 not in wanted[:-1]:
        checked = verify(_NOTHING_TO_TAKE, indices.array, shape=tuple(shape))
        return gather_nd(x, wrap(checked), batch_dims=batch_dims)
    found = checked_coordinates(indices.array, shape, "GatherNd", batch_dims)
    return gather_nd(x, indices if found is indices.array else wrap(found), batch_dims=batch_dims)


def static_shape(shape: Any) -> Axes:
    """Return the static value of a shape that was passed as a tensor."""
    if not is_known(shape):
        sizes = getattr(shape.array, "extents", None)
        if sizes is not None:
            return tuple(sizes.tolist())
        raise unknown_shape("a conversion of tf.IndexedSlices", "Make dense_shape a constant, such as tf.shape(x).")
    return tuple(int(n) for n in np.asarray(shape.array))


def _dense_slices(slices: Any) -> Any:
    """Convert IndexedSlices to a tensor; rows with equal indices are added up."""
    if slices.dense_shape is None:
        raise ValueError(
            f"Tensor conversion requested for IndexedSlices for argument `value` without dense_shape: {slices}"
        )
    shape = static_shape(operand(slices.dense_shape))
    values, rows = operand(slices.values), operand(slices.indices)
    have, of_rows = tuple(values.array.shape), tuple(rows.array.shape)
    if not is_same_shape(have[: len(of_rows)], of_rows):
        raise errors.invalid_argument(
            f"data.shape = {errors.brackets(have)} does not start with segment_ids.shape = {errors.brackets(of_rows)}",
            "UnsortedSegmentSum",
        )
    rows = checked(SEGMENTS, rows, size=shape[0], op="UnsortedSegmentSum")
    return add_rows(values, rows, shape=shape)


register_converter(IndexedSlices, _dense_slices)
