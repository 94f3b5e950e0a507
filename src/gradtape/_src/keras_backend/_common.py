"""Functions that the op modules share: operands in the dtypes that Keras promotes to, axes and shapes as plain ints.

The functions of the op modules have exactly Keras' signatures, and no annotations, because Keras compares them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras.src.backend import config, standardize_dtype
from keras.src.backend.common import dtypes
from keras.src.backend.common.backend_utils import canonicalize_axis

from gradtape._src.conversion import wrap
from gradtape._src.keras_backend.core import dense, shape as shape
from gradtape._src.ops import array, index, math as elementwise
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import shape_of as shape_of
from gradtape._src.tf.array import cast as cast

Axes = tuple[int, ...]
convert_to_tensor = dense  # ops compute with all elements unless they say otherwise


# -- operands --------------------------------------------------------------------------------------------------------
def constant(value: Any, like: Any) -> Tensor:
    """Constants in the dtype of a tensor (or in a dtype)."""
    dtype = like.array.dtype if isinstance(like, Tensor) else like
    return wrap(np.asarray(value).astype(dtype))


_TWICE_AS_WIDE = {"int32": "int64", "uint32": "uint64", "float32": "float64", "complex64": "complex128"}


@functools.lru_cache(maxsize=512)
def _common_dtype(floatx: str, *kinds: Any) -> str:
    """Keras' promotion (with this default dtype). 64-bit dtypes remain, which Keras allows only for TensorFlow."""
    found: str = dtypes.result_type(*kinds)
    wider = _TWICE_AS_WIDE.get(found)
    return wider if wider is not None and wider in kinds else found


def result_type(*given: Any) -> str:
    """The dtype that Keras promotes tensors, dtypes and Python types to."""
    return _common_dtype(config.floatx(), *[_kind(g.dtype if isinstance(g, Tensor) else g) for g in given])


def _kind(dtype: Any) -> Any:
    """The name of a dtype; Python's int and float, which are weakly typed, are returned unchanged."""
    return dtype if dtype is int or dtype is float else standardize_dtype(dtype)


def promoted(*values: Any, also: tuple[Any, ...] = ()) -> list[Tensor]:
    """Convert operands to tensors of one dtype; Python numbers take the dtype of the others."""
    xs: list[Any] = [x if isinstance(x, (int, float)) else convert_to_tensor(x) for x in values]
    kinds = [getattr(x, "dtype", type(x)) for x in xs]
    if not also and all(kind is kinds[0] for kind in kinds) and isinstance(xs[0], Tensor):
        return xs
    dtype = result_type(*kinds, *also)
    return [convert_to_tensor(x, dtype) for x in xs]


def floats(x: Any) -> Tensor:
    """Cast x to the floating dtype in which Keras computes real functions."""
    x = convert_to_tensor(x)
    if x.dtype.is_floating or x.dtype.is_complex:
        return x
    return cast(x, config.floatx() if x.dtype.name == "int64" else result_type(x, float))


def numbers(x: Any) -> Tensor:
    """Cast booleans to small integers, for ops that compare or count."""
    x = convert_to_tensor(x)
    return cast(x, "uint8") if x.dtype.is_bool else x


def wide(x: Tensor) -> Tensor:
    """Cast low-precision floats to float32, for sums and products that would lose too much."""
    return cast(x, "float32") if x.dtype.is_floating and x.dtype.size < 4 else x


def truth(x: Any) -> Tensor:
    return cast(convert_to_tensor(x), "bool")


# -- axes and shapes -------------------------------------------------------------------------------------------------
def axes_of(axis: Any, rank: int) -> Axes:
    """Convert an axis argument to non-negative ints; None means all axes."""
    if axis is None:
        return tuple(range(rank))
    given = axis if isinstance(axis, (list, tuple)) else (axis,)
    return tuple(canonicalize_axis(a, rank) for a in given)


def axis_of(axis: Any, rank: int) -> int:
    found: int = canonicalize_axis(axis, rank)
    return found


def flat(x: Tensor) -> Tensor:
    return array.reshape(x, shape=(math.prod(x.array.shape),))


def move(x: Tensor, source: Sequence[int], destination: Sequence[int]) -> Tensor:
    """Move axes to other positions; the others keep their order."""
    rank = len(x.array.shape)
    origins, goals = axes_of(tuple(source), rank), axes_of(tuple(destination), rank)
    order = [i for i in range(rank) if i not in origins]
    for goal, origin in sorted(zip(goals, origins, strict=True)):
        order.insert(goal, origin)
    return x if order == list(range(rank)) else array.transpose(x, perm=tuple(order))


def gathered_last(x: Tensor, axes: Axes) -> Tensor:
    """Flatten these axes into one, which comes last."""
    rank = len(x.array.shape)
    kept = [i for i in range(rank) if i not in axes]
    sizes = x.array.shape
    moved = array.transpose(x, perm=(*kept, *axes))
    return array.reshape(moved, shape=(*(sizes[i] for i in kept), math.prod(sizes[i] for i in axes)))


def kept_dims(sizes: Axes, axes: Axes) -> Axes:
    return tuple(1 if i in axes else n for i, n in enumerate(sizes))


def expand(x: Tensor, axis: int) -> Tensor:
    sizes = list(x.array.shape)
    sizes.insert(axis_of(axis, len(sizes) + 1), 1)
    return array.reshape(x, shape=tuple(sizes))


def broadcast(x: Tensor, sizes: Axes) -> Tensor:
    return x if shape(x) == tuple(sizes) else array.broadcast_to(x, shape=tuple(sizes))


def broadcast_together(*xs: Tensor) -> list[Tensor]:
    sizes = np.broadcast_shapes(*[shape(x) for x in xs])
    return [broadcast(x, sizes) for x in xs]


def cut(x: Tensor, axis: int, start: Any, stop: Any, step: Any = None) -> Tensor:
    """A slice along one axis."""
    return array.getitem(x, index=(slice(None),) * axis_of(axis, len(x.array.shape)) + (slice(start, stop, step),))


def look_up(x: Tensor, indices: Any, axis: int, batch_dims: int = 0) -> Tensor:
    """Take slices along an axis; `indices` are a tensor, or a NumPy array if they are constant."""
    return index.take(x, indices, axis=axis, batch_dims=batch_dims)


def counted_from_the_front(indices: Tensor, size: int) -> Tensor:
    """Convert negative indices, which count from the end, to non-negative ones."""
    if not indices.dtype.is_integer:
        indices = cast(indices, "int32")
    if indices.dtype.is_unsigned:
        return indices
    return elementwise.where(elementwise.less(indices, 0), indices + size, indices)


def along(x: Tensor, indices: Tensor, axis: int) -> Tensor:
    """take_along_axis with broadcasting of the other axes."""
    indices = counted_from_the_front(indices, x.array.shape[axis])
    sizes, wanted = list(shape(x)), list(shape(indices))
    common = list(np.broadcast_shapes(kept_dims(tuple(sizes), (axis,)), kept_dims(tuple(wanted), (axis,))))
    sizes = [n if i != axis else sizes[axis] for i, n in enumerate(common)]
    wanted = [n if i != axis else wanted[axis] for i, n in enumerate(common)]
    return index.take_along_axis(broadcast(x, tuple(sizes)), broadcast(indices, tuple(wanted)), axis=axis)
