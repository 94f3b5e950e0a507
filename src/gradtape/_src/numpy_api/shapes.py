"""Shapes and positions: reshaping, joining, splitting, selecting, sorting."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.numpy_api.types import promoted, sizes, tensor, wanted_dtype
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array as tf_array, diagonals, math, shaping
from gradtape._src.tf.array import cast

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _rank(x: Tensor) -> int:
    return int(x.shape.rank or 0)


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise ValueError(f"axis {axis} is out of bounds for array of dimension {rank}")
    return axis % rank if rank else 0


def _int_list(values: Any) -> list[int]:
    return [int(v) for v in np.atleast_1d(np.asarray(values))]


def shape(a: Any) -> Any:
    """The shape of an array.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.shape([1, 2])
    TensorShape([2])
    """
    return tensor(a).shape


def ndim(a: Any) -> int:
    """The number of dimensions.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.ndim([[1]])
    2
    """
    return _rank(tensor(a))


def size(x: Any, axis: int | None = None) -> Any:
    """The number of elements.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.size([1, 2]))
    2
    """
    if axis is not None:
        raise NotImplementedError("axis argument is not supported in the current `np.size` implementation")
    found = tensor(x)
    count = found.shape.num_elements()
    return tf_array.size(found) if count is None else np.int64(count)


def reshape(a: Any, newshape: Any, order: str = "C") -> Tensor:
    """The elements in another shape, in C's or Fortran's order.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.reshape([0, 1, 2, 3], (2, 2), order="F").numpy().tolist()
    [[0, 2], [1, 3]]
    """
    if order not in ("C", "F"):
        raise ValueError(f"Unsupported order argument {order}")
    x = tensor(a)
    wanted = [newshape] if isinstance(newshape, int) else newshape
    if order == "F":
        turned = tf_array.reshape(tf_array.transpose(x), [int(n) for n in reversed(_int_list(wanted))])
        return tf_array.transpose(turned)
    return tf_array.reshape(x, wanted)


def ravel(a: Any) -> Tensor:
    """All elements as a vector.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.ravel([[1, 2], [3, 4]]).numpy()
    array([1, 2, 3, 4])
    """
    return tf_array.reshape(tensor(a), [-1])


def flatten(a: Any, order: str = "C") -> Tensor:
    """All elements as a vector, in C's or Fortran's order."""
    return reshape(a, [-1], order) if order == "C" else ravel(tf_array.transpose(tensor(a)))


def transpose(a: Any, axes: Any = None) -> Tensor:
    """The axes in another order; reversed if none is given.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.transpose([[1, 2]]).numpy().tolist()
    [[1], [2]]
    """
    return tf_array.transpose(tensor(a), axes)


def swapaxes(a: Any, axis1: int, axis2: int) -> Tensor:
    """Two axes exchanged.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.swapaxes([[1, 2]], 0, 1).shape
    TensorShape([2, 1])
    """
    x = tensor(a)
    order = list(range(_rank(x)))
    first, second = _axis(axis1, len(order)), _axis(axis2, len(order))
    order[first], order[second] = order[second], order[first]
    return tf_array.transpose(x, order)


def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """Axes moved to other places.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.moveaxis(tf.zeros([2, 3, 4]), 0, -1).shape
    TensorShape([3, 4, 2])
    """
    x = tensor(a)
    rank = _rank(x)
    start, end = ([_axis(n, rank) for n in _int_list(axes)] for axes in (source, destination))
    if len(start) != len(end):
        raise ValueError("The lengths of source and destination must equal")
    order = [i for i in range(rank) if i not in start]
    for place, axis in sorted(zip(end, start, strict=True)):
        order.insert(place, axis)
    return tf_array.transpose(x, order)


def expand_dims(a: Any, axis: Any) -> Tensor:
    """A new axis of size one.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.expand_dims([1, 2], 0).shape
    TensorShape([1, 2])
    """
    return tf_array.expand_dims(tensor(a), axis)


def squeeze(a: Any, axis: Any = None) -> Tensor:
    """Without axes of size one.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.squeeze([[1, 2]]).shape
    TensorShape([2])
    """
    return tf_array.squeeze(tensor(a), axis)


def broadcast_to(array: Any, shape: Any) -> Tensor:
    """The array, repeated to a shape.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.broadcast_to([1, 2], (2, 2)).numpy().tolist()
    [[1, 2], [1, 2]]
    """
    x = tensor(array)
    return tf_array.broadcast_to(x, [shape] if isinstance(shape, int) else shape)


def broadcast_arrays(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Arrays in the shape that they broadcast to.

    >>> import gradtape as tf
    >>> [x.shape.as_list() for x in tf.experimental.numpy.broadcast_arrays([1, 2], [[1]])]
    [[1, 2], [1, 2]]
    """
    if kwargs.get("subok"):
        raise ValueError("subok=True is not supported.")
    found = [tensor(each) for each in args]
    whole = found[0].shape
    for each in found[1:]:
        whole = tf_array.broadcast_static_shape(whole, each.shape)
    return [tf_array.broadcast_to(each, whole) for each in found]


def _at_least(count: int, pad: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    def function(*arys: Any) -> Any:
        found = [pad(tensor(each)) for each in arys]
        return found[0] if len(found) == 1 else found

    function.__name__ = function.__qualname__ = f"atleast_{count}d"
    function.__doc__ = f"Arrays with {count} axes or more."
    return function


def _two(x: Tensor) -> Tensor:
    return tf_array.reshape(x, [1, -1]) if _rank(x) < 2 else x


def _three(x: Tensor) -> Tensor:
    if _rank(x) == 0:
        return tf_array.reshape(x, [1, 1, 1])
    if _rank(x) == 1:
        return tf_array.reshape(x, [1, -1, 1])
    return tf_array.expand_dims(x, 2) if _rank(x) == 2 else x


atleast_1d = _at_least(1, lambda x: tf_array.reshape(x, [-1]) if not _rank(x) else x)
atleast_2d = _at_least(2, _two)
atleast_3d = _at_least(3, _three)


# -- joining and splitting -------------------------------------------------------------------------------------------
def concatenate(arys: Any, axis: int | None = 0) -> Tensor:
    """Arrays one after the other.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.concatenate([[1], [2.5]]).numpy()
    array([1. , 2.5])
    """
    if not isinstance(arys, (list, tuple)):
        arys = [arys]
    if not arys:
        raise ValueError("Need at least one array to concatenate.")
    found = promoted(*arys)
    if axis is None:
        found, axis = [ravel(each) for each in found], 0
    return tf_array.concat(found, axis)


def append(arr: Any, values: Any, axis: int | None = None) -> Tensor:
    """Values after an array.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.append([1], [2]).numpy()
    array([1, 2])
    """
    return concatenate([arr, values], axis)


def stack(arrays: Any, axis: int = 0) -> Tensor:
    """Arrays along a new axis.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.stack([[1, 2], [3, 4]]).shape
    TensorShape([2, 2])
    """
    if isinstance(arrays, (list, tuple)):
        return tf_array.stack(promoted(*arrays), axis)
    found = tensor(arrays)
    return found if not axis else swapaxes(found, 0, axis)


def hstack(tup: Any) -> Tensor:
    """Arrays side by side.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.hstack([[1], [2]]).numpy()
    array([1, 2])
    """
    found = [atleast_1d(each) for each in promoted(*tup)]
    return tf_array.concat(found, 0 if _rank(found[0]) == 1 else 1)


def vstack(tup: Any) -> Tensor:
    """Arrays one below the other.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.vstack([[1, 2], [3, 4]]).shape
    TensorShape([2, 2])
    """
    return tf_array.concat([atleast_2d(each) for each in promoted(*tup)], 0)


def dstack(tup: Any) -> Tensor:
    """Arrays one behind the other.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.dstack([[1, 2], [3, 4]]).shape
    TensorShape([1, 2, 2])
    """
    return tf_array.concat([atleast_3d(each) for each in promoted(*tup)], 2)


def split(ary: Any, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    """Equal parts, or parts between positions.

    >>> import gradtape as tf
    >>> [x.numpy().tolist() for x in tf.experimental.numpy.split(tf.range(5), [1, 3])]
    [[0], [1, 2], [3, 4]]
    """
    x = tensor(ary)
    if isinstance(indices_or_sections, int):
        return list(tf_array.split(x, indices_or_sections, axis))
    total = sizes(x)[axis]
    edges = [0, *(min(max(n + total if n < 0 else n, 0), total) for n in _int_list(indices_or_sections)), total]
    lengths = [max(b - a, 0) for a, b in itertools.pairwise(edges)]
    return list(tf_array.split(x, lengths, axis))


def _split_on(axis: int, name: str) -> Callable[..., list[Tensor]]:
    def function(ary: Any, indices_or_sections: Any) -> list[Tensor]:
        x = tensor(ary)
        return split(x, indices_or_sections, 0 if axis == 1 and _rank(x) == 1 else axis)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`split` along axis {axis}."
    return function


hsplit, vsplit, dsplit = _split_on(1, "hsplit"), _split_on(0, "vsplit"), _split_on(2, "dsplit")


def tile(a: Any, reps: Any) -> Tensor:
    """The array, repeated along its axes.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.tile([1, 2], 2).numpy()
    array([1, 2, 1, 2])
    """
    x = tensor(a)
    times = _int_list(reps)
    missing = len(times) - _rank(x)
    if missing > 0:
        x = tf_array.reshape(x, tf_array.concat([[1] * missing, tf_array.shape(x)], 0))
    return shaping.tile(x, [1] * -min(missing, 0) + times)


def repeat(a: Any, repeats: Any, axis: int | None = None) -> Tensor:
    """Every element repeated.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.repeat([1, 2], 2).numpy()
    array([1, 1, 2, 2])
    """
    return shaping.repeat(tensor(a), repeats, axis)


def pad(array: Any, pad_width: Any, mode: str, **kwargs: Any) -> Tensor:
    """More elements around an array: a constant, or a reflection.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.pad([1, 2], [[1, 0]], "constant").numpy()
    array([0, 1, 2])
    """
    if mode not in ("constant", "reflect", "symmetric"):
        raise ValueError(f"Unsupported padding mode: {mode}")
    x = tensor(array)
    value = tensor(kwargs.get("constant_values", 0), x.dtype)
    return shaping.pad(x, pad_width, mode.upper(), value)


def flip(m: Any, axis: int | None = None) -> Tensor:
    """The elements in reverse order.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.flip([1, 2]).numpy()
    array([2, 1])
    """
    x = tensor(m)
    return tf_array.reverse(x, list(range(_rank(x))) if axis is None else [axis])


def flipud(m: Any) -> Tensor:
    """The rows in reverse order."""
    return flip(m, 0)


def fliplr(m: Any) -> Tensor:
    """The columns in reverse order."""
    return flip(m, 1)


def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """The elements shifted; those that leave at one end enter at the other.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.roll([1, 2, 3], 1).numpy()
    array([3, 1, 2])
    """
    x = tensor(a)
    if axis is not None:
        return shaping.roll(x, shift, axis)
    return tf_array.reshape(shaping.roll(ravel(x), shift, 0), tf_array.shape(x))


def rot90(m: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Tensor:
    """A quarter turn, k times.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.rot90([[1, 2], [3, 4]]).numpy().tolist()
    [[2, 4], [1, 3]]
    """
    x = tensor(m)
    first, second = (_axis(axis, _rank(x)) for axis in axes)
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(flip(x, first), second)
    order = list(range(_rank(x)))
    order[first], order[second] = order[second], order[first]
    return tf_array.transpose(flip(x, second), order) if turns == 1 else flip(tf_array.transpose(x, order), second)


# -- selecting -------------------------------------------------------------------------------------------------------
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "clip") -> Tensor:
    """The elements at some positions; those outside are clipped, or wrap around.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.take([10, 20, 30], [2, 0]).numpy()
    array([30, 10])
    """
    if out is not None:
        raise ValueError("out argument is not supported in take.")
    if mode not in ("raise", "clip", "wrap"):
        raise ValueError(f"Invalid mode '{mode}' for take")
    x, places = tensor(a), tensor(indices)
    if axis is None:
        x, axis = ravel(x), 0
    count = cast(tf_array.shape(x)[axis], places.dtype)
    places = math.floormod(places, count) if mode == "wrap" else math.maximum(math.minimum(places, count - 1), 0)
    return tf_array.gather(x, places, axis=axis)


def take_along_axis(arr: Any, indices: Any, axis: int | None) -> Tensor:
    """The elements at positions of their own along an axis.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.take_along_axis([[3, 1, 2]], [[1, 2, 0]], 1).numpy().tolist()
    [[1, 2, 3]]
    """
    x, places = tensor(arr), tensor(indices)
    if axis is None:
        return take_along_axis(ravel(x), places, 0)
    at = _axis(axis, _rank(x))
    size_ = cast(tf_array.shape(x)[at], places.dtype)
    places = tf_array.where(places < 0, places + size_, places)
    whole = tf_array.broadcast_static_shape(
        *(type(x.shape)([1 if i == at else n for i, n in enumerate(each.shape)]) for each in (x, places))
    ).as_list()
    x = tf_array.broadcast_to(x, [x.shape[at] if i == at else n for i, n in enumerate(whole)])
    places = tf_array.broadcast_to(places, [places.shape[at] if i == at else n for i, n in enumerate(whole)])
    last_x, last_places = moveaxis(x, at, -1), moveaxis(places, at, -1)
    found = tf_array.gather(last_x, last_places, batch_dims=_rank(x) - 1, axis=_rank(x) - 1)
    return moveaxis(found, -1, at)


def compress(condition: Any, a: Any, axis: int | None = None) -> Tensor:
    """The slices for which a condition is true.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.compress([True, False, True], [1, 2, 3]).numpy()
    array([1, 3])
    """
    x = tensor(a)
    if axis is None:
        x, axis = ravel(x), 0
    keep = cast(tensor(condition), "bool")
    count = sizes(keep)[0]
    return tf_array.gather(x, tf_array.where(keep)[:count, 0], axis=axis)


def nonzero(a: Any) -> list[Tensor]:
    """The positions of elements that are not zero, an array per axis.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.nonzero([0, 3, 0, 4])[0].numpy()
    array([1, 3])
    """
    x = atleast_1d(a)
    return list(tf_array.unstack(tf_array.where(cast(x, "bool")), num=_rank(x), axis=1))


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """Elements of x where a condition is true, of y elsewhere; without both the positions where it is true.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.where([True, False], 1, 2.5).numpy()
    array([1. , 2.5])
    """
    if (x is None) != (y is None):
        raise ValueError("Both x and y must be ndarrays, or both must be None.")
    if x is None:
        return nonzero(condition)
    one, other = promoted(x, y)
    return tf_array.where(cast(tensor(condition), "bool"), one, other)


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Tensor:
    """For each element the first choice whose condition is true.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.select([[True, False]], [[1, 2]], 7).numpy()
    array([1, 7])
    """
    if len(condlist) != len(choicelist):
        raise ValueError(f"condlist must have length equal to choicelist ({len(condlist)} vs {len(choicelist)})")
    if not condlist:
        raise ValueError("condlist must be non-empty")
    *choices, rest = promoted(*choicelist, default)
    for condition, choice in zip(reversed(condlist), reversed(choices), strict=True):
        rest = tf_array.where(cast(tensor(condition), "bool"), choice, rest)
    return rest


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    """A diagonal of two axes.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.diagonal([[1, 2], [3, 4]]).numpy()
    array([1, 4])
    """
    x = tensor(a)
    if _rank(x) < 2:
        raise ValueError(f"a has to be at least 2-d, got rank {_rank(x)}")
    moved = moveaxis(x, (axis1, axis2), (-2, -1))
    rows, columns = sizes(moved)[-2:]
    if offset >= columns or -offset >= rows:
        return tf_array.zeros([*moved.shape.as_list()[:-2], 0], x.dtype)
    return diagonals.diag_part(moved, k=offset)


def trace(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    """The sum of a diagonal.

    >>> import gradtape as tf
    >>> int(tf.experimental.numpy.trace([[1, 2], [3, 4]]))
    5
    """
    x = tensor(a)
    return math.reduce_sum(diagonal(x if dtype is None else cast(x, wanted_dtype(dtype)), offset, axis1, axis2), -1)


def _band(m: Any, k: int, upper: bool) -> Tensor:
    x = tensor(m)
    if _rank(x) < 2:
        raise ValueError("Argument to triu/tril must have rank at least 2")
    kept = np.tri(sizes(x)[-2], sizes(x)[-1], k - 1 if upper else k, dtype=bool)
    return tf_array.where(tf_array.constant(~kept if upper else kept), x, tf_array.zeros_like(x))


def triu(m: Any, k: int = 0) -> Tensor:
    """The part at and above a diagonal.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.triu([[1, 2], [3, 4]]).numpy().tolist()
    [[1, 2], [0, 4]]
    """
    return _band(m, k, upper=True)


def tril(m: Any, k: int = 0) -> Tensor:
    """The part at and below a diagonal.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.tril([[1, 2], [3, 4]]).numpy().tolist()
    [[1, 0], [3, 4]]
    """
    return _band(m, k, upper=False)


# -- sorting ---------------------------------------------------------------------------------------------------------
def sort(a: Any, axis: int | None = -1, kind: str = "quicksort", order: Any = None) -> Tensor:
    """The elements in ascending order.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.sort([3, 1, 2]).numpy()
    array([1, 2, 3])
    """
    _check_sort(kind, order)
    x = tensor(a)
    return math.sort(ravel(x), 0) if axis is None else math.sort(x, axis)


def argsort(a: Any, axis: int | None = -1, kind: str = "quicksort", order: Any = None) -> Tensor:
    """The positions of the elements in ascending order.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.argsort([3, 1, 2]).numpy()
    array([1, 2, 0])
    """
    _check_sort(kind, order)
    x = tensor(a)
    found = math.argsort(ravel(x), 0) if axis is None else math.argsort(x, axis, stable=kind == "stable")
    return cast(found, "int64")


def _check_sort(kind: str, order: Any) -> None:
    if kind not in ("quicksort", "stable"):
        raise ValueError(
            "Invalid value for argument `kind`. Only kind='quicksort' and kind='stable' are supported. "
            f"Received: kind={kind}"
        )
    if order is not None:
        raise ValueError("The `order` argument is not supported. Pass order=None")


__all__: Sequence[str] = (
    "append", "argsort", "atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays", "broadcast_to", "compress",
    "concatenate", "diagonal", "dsplit", "dstack", "expand_dims", "flatten", "flip", "fliplr", "flipud", "hsplit",
    "hstack", "moveaxis", "ndim", "nonzero", "pad", "ravel", "repeat", "reshape", "roll", "rot90", "select", "shape",
    "size", "sort", "split", "squeeze", "stack", "swapaxes", "take", "take_along_axis", "tile", "trace", "transpose",
    "tril", "triu", "vsplit", "vstack", "where",
)  # fmt: skip
