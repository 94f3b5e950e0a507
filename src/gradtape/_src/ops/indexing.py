"""`tensor[...]`: convert every kind of index that TensorFlow supports to one slice or one lookup."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, checked
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.graph_ops import NeedsEagerError, in_graph, kept_in_graph
from gradtape._src.arrays.symbolic import (
    Symbolic,
    allows_dynamic_shapes,
    call,
    is_known,
    number,
    sizes_from,
    unknown_shape,
)
from gradtape._src.conversion import operand
from gradtape._src.ops import array, index, math
from gradtape._src.tensor import Tensor

_BAD_INDEX = (
    "Only integers, slices (`:`), ellipsis (`...`), tf.newaxis (`None`) and scalar tf.int32/tf.int64 tensors are valid "
    "indices, got {!r}. To look up several positions use tf.gather."
)


def get_item(x: Any, key: Any) -> Tensor:
    """x[key]: a strided slice, or a boolean mask."""
    x = operand(x)
    if _is_mask(key):
        return boolean_mask(x, key)
    try:
        parts = checked_index(key, x.array.shape)
    except NeedsEagerError as error:
        sliced: Tensor = in_graph("getitem", (x, key), {}, error)
        return sliced
    later = {i: part for i, part in enumerate(parts) if isinstance(part, Tensor)}
    if not later:
        result: Tensor = array.getitem(x, index=parts)
        return result
    x = array.getitem(x, index=tuple([slice(None) if i in later else part for i, part in enumerate(parts)]))
    for i, position in reversed(later.items()):
        x = _picked(x, position, axis=sum(not isinstance(part, int) for part in parts[:i]))
    return x


def checked_index(key: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """`basic_index`, with a check of positions that only the program knows."""
    parts = list(basic_index(key, shape))
    for i, part in enumerate(parts):
        if isinstance(part, Tensor):
            axis = sum(before is not None for before in parts[:i])
            parts[i] = checked(_POSITION, part, size=shape[axis], axis=axis)
    return tuple(parts)


def _out_of_bounds(xp: Any, position: Any, size: int, **_: Any) -> Any:
    return (position < -size) | (position >= size)


def no_position(position: Any, size: int, axis: int) -> Exception:
    """The error for an index out of range."""
    at = position.reshape(-1)[_out_of_bounds(np, position, size).reshape(-1)][0]
    found = int(at) + (size if at < 0 else 0)  # as TensorFlow reads a negative one
    return errors.invalid_argument(f"slice index {found} of dimension {axis} out of bounds.", "StridedSlice")


_POSITION = Rule(_out_of_bounds, no_position, lambda interval, size, axis: -size <= interval[0] and interval[1] < size)


def _picked(x: Tensor, position: Tensor, axis: int) -> Tensor:
    """One position of an axis, which disappears; only the program knows the position."""
    size = number(x.array.shape[axis], position.array.dtype)
    position = math.where(math.less(position, 0), position + size, position)
    # The identity makes the gradient dense: a lookup along the first axis alone would have a sparse one.
    result: Tensor = index.take(array.identity(x), position, axis=axis, batch_dims=0)
    return result


def _is_mask(key: Any) -> bool:
    return isinstance(key, (Tensor, np.ndarray)) and key.dtype == np.bool_ and key.ndim > 0


def basic_index(key: Any, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """The index in NumPy's form, without Ellipsis, with every part checked against the shape."""
    parts = list(key) if isinstance(key, (tuple, list)) else [key]
    ellipses = sum(part is Ellipsis for part in parts)
    if ellipses > 1:
        raise errors.invalid_argument("Multiple ellipses in slice spec not allowed", "StridedSlice")
    used = sum(part is not None and part is not Ellipsis for part in parts)
    if used > len(shape):
        raise errors.invalid_argument(
            f"Index out of range using input dim {len(shape)}; input has only {len(shape)} dims", "StridedSlice"
        )
    if ellipses:
        at = next(i for i, part in enumerate(parts) if part is Ellipsis)
        parts[at : at + 1] = [slice(None)] * (len(shape) - used)
    result: list[Any] = []
    axis = 0
    for part in parts:
        if part is None:
            result.append(None)
            continue
        result.append(_slice(part, axis) if isinstance(part, slice) else _position(part, axis, shape))
        axis += 1
    return tuple(result)


def _whole(part: Any) -> int:
    """An index or a slice's end as a Python int, or a dimension."""
    if isinstance(part, (int, np.integer)) and not isinstance(part, (bool, np.bool_)):
        return int(part)
    if is_dimension(part):
        size: int = part
        return size
    value = part
    if isinstance(part, Tensor) and not is_known(part):
        if allows_dynamic_shapes() and not part.array.shape and part.dtype.is_integer and type(part.array) is Symbolic:
            return sizes_from(part.array).item()
        raise unknown_shape(
            "x[start:stop]",
            "Use tf.slice(x, begin, size), which takes a tensor as begin, or tf.gather.",
            "StridedSlice",
        )
    if isinstance(part, np.ndarray) or hasattr(part, "numpy"):
        value = np.asarray(part)
        if value.ndim == 0 and value.dtype.kind in "iu":
            return int(value)
    raise TypeError(_BAD_INDEX.format(part))


def _slice(part: slice, axis: int) -> slice:
    start, stop, step = (None if end is None else _whole(end) for end in (part.start, part.stop, part.step))
    if step == 0:
        raise errors.invalid_argument(f"strides[{axis}] must be non-zero", "StridedSlice")
    return slice(start, stop, step)


def _position(part: Any, axis: int, shape: tuple[int, ...]) -> Any:
    if hasattr(part, "numpy"):
        given = operand(part)
        if not is_known(given) and not given.array.shape and given.dtype.is_integer:
            return given
    position = _whole(part)
    if not -shape[axis] <= position < shape[axis]:
        raise no_position(np.asarray(position), shape[axis], axis)
    return position


@kept_in_graph("boolean_mask")
def boolean_mask(x: Any, mask: Any, axis: int | None = None) -> Tensor:
    """The rows of x (along `axis`) where the mask is true."""
    truth = operand(mask)
    if type(truth.array) is Symbolic and allows_dynamic_shapes():
        return _dynamic_mask(operand(x), truth, axis)
    if not is_known(truth):
        raise unknown_shape("tf.boolean_mask", "Use tf.where(mask, x, 0), or pass the mask as a constant.", "Where")
    x, mask = operand(x), np.asarray(truth.array)
    shape, start = x.array.shape, axis or 0
    if not -len(shape) <= start < max(len(shape), 1):
        raise ValueError(f"axis = {axis} is out of range for a tensor of shape {shape}.")
    along = shape[start : start + mask.ndim]  # a negative axis is not adjusted, as in TensorFlow
    start += len(shape) if start < 0 else 0
    if mask.dtype.kind == "O":
        raise errors.UnimplementedError(None, None, "tf.boolean_mask takes a mask of booleans or numbers [Op:Where]")
    if mask.ndim == 0:
        raise ValueError("mask cannot be scalar.")
    if along != mask.shape:
        raise ValueError(
            f"Shapes {tuple(along)} and {mask.shape} are incompatible: a mask of shape {mask.shape} is not "
            f"compatible with a tensor of shape {shape} at axis {start}."
        )
    flat = array.reshape(x, shape=(*shape[:start], mask.size, *shape[start + mask.ndim :]))
    where = np.flatnonzero(mask)
    result: Tensor = index.take(flat, where, axis=start, batch_dims=0)
    return result


def _dynamic_mask(x: Tensor, mask: Tensor, axis: int | None) -> Tensor:
    """`boolean_mask` for a mask that only the running program knows."""
    shape, start, rank = tuple(x.array.shape), axis or 0, len(mask.array.shape)
    start += len(shape) if start < 0 else 0
    if not rank:
        raise ValueError("mask cannot be scalar.")
    if shape[start : start + rank] != tuple(mask.array.shape):
        raise ValueError(f"Shapes {shape[start : start + rank]} and {tuple(mask.array.shape)} are incompatible")
    merged = array.reshape(x, shape=(*shape[:start], mask.array.size, *shape[start + rank :]))
    places = call("argwhere", (mask.array.reshape((mask.array.size,)),), {})
    result: Tensor = index.take(merged, places[:, 0], axis=start, batch_dims=0)
    return result
