"""Scatters, partitions, searches and counts: functions with a tensor of indices or counts."""

from __future__ import annotations

import builtins
import math as _math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.arrays.checks import Rule, verify
from gradtape._src.arrays.dimensions import is_same_shape
from gradtape._src.arrays.graph_ops import kept_in_graph
from gradtape._src.arrays.symbolic import (
    Symbolic,
    allows_dynamic_shapes,
    as_value,
    call,
    current_graph,
    is_known,
    unknown_shape,
)
from gradtape._src.conversion import convert, has_dtype, operand, operands, wrap
from gradtape._src.core.composites import dispatched
from gradtape._src.core.primitive import narrowed, widened
from gradtape._src.dtypes import DType, as_dtype, int32
from gradtape._src.ops import array, index, math, reduce, scatter
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import (
    Axes,
    as_int,
    choice,
    flag,
    index_operand,
    index_type,
    integer,
    numpy_dtype,
    shape_of,
    static,
    tensor_or,
)
from gradtape._src.tf.array import cast
from gradtape._src.tf.debugging import assert_less, assert_non_negative

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- scatters --------------------------------------------------------------------------------------------------------
def scatter_nd(
    indices: TensorLike, updates: TensorLike, shape: Any, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Add updates to a tensor of zeros at the coordinates in the last axis of indices.

    >>> tf.scatter_nd([[1], [3], [1]], [5, 6, 7], [5]).numpy().tolist()
    [0, 12, 0, 6, 0]
    """
    where, values = operand(indices), operand(updates)
    wanted = shape_of(shape, "ScatterNd", "Tindices", fixed=True)
    if np.ndim(static(shape)) != 1:
        raise errors.invalid_argument(
            f"Shape must be a vector, got shape {errors.brackets(np.shape(static(shape)))}", "ScatterNd"
        )
    where, values = _checked(where, values, wanted, "ScatterNd", bad_indices_policy)
    result: Tensor = index.scatter_nd(values, where, shape=wanted, batch_dims=0)
    return result


def tensor_scatter_nd_update(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, name: str | None = None
) -> Tensor:
    """Replace elements or slices of the tensor; for repeated indices the last one is used.

    >>> tf.tensor_scatter_nd_update([1, 2, 3], [[0], [2]], [7, 9]).numpy().tolist()
    [7, 2, 9]
    """
    x, where, values = _scattered(tensor, indices, updates, "TensorScatterUpdate", "")
    result: Tensor = index.replace_nd(x, values, where)
    return result


def tensor_scatter_nd_add(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Add updates to a tensor at the indices; repeated indices add up.

    >>> tf.tensor_scatter_nd_add([1, 1, 1], [[0], [0]], [10, 20]).numpy().tolist()
    [31, 1, 1]
    """
    x, where, values = _scattered(tensor, indices, updates, "TensorScatterAdd", bad_indices_policy)
    total = widened(x) + index.scatter_nd(widened(values), where, shape=tuple(x.array.shape), batch_dims=0)
    result: Tensor = narrowed(total, x.array.dtype)
    return result


def tensor_scatter_nd_sub(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Subtract updates from a tensor at the indices; repeated indices add up.

    >>> tf.tensor_scatter_nd_sub([10, 10, 10], [[2]], [4]).numpy().tolist()
    [10, 10, 6]
    """
    x, where, values = _scattered(tensor, indices, updates, "TensorScatterSub", bad_indices_policy)
    total = widened(x) - index.scatter_nd(widened(values), where, shape=tuple(x.array.shape), batch_dims=0)
    result: Tensor = narrowed(total, x.array.dtype)
    return result


def tensor_scatter_nd_max(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Compute the maximum of a tensor and the updates at the indices; equal elements share the gradient.

    >>> tf.tensor_scatter_nd_max([1, 5, 1], [[0], [1]], [3, 3]).numpy().tolist()
    [3, 5, 1]
    """
    result: Tensor = scatter.scatter_max(
        *_ordered(_scattered(tensor, indices, updates, "TensorScatterMax", bad_indices_policy))
    )
    return result


def tensor_scatter_nd_min(
    tensor: TensorLike, indices: TensorLike, updates: TensorLike, bad_indices_policy: str = "", name: str | None = None
) -> Tensor:
    """Compute the minimum of a tensor and the updates at the indices; equal elements share the gradient.

    >>> tf.tensor_scatter_nd_min([1, 5, 1], [[0], [1]], [3, 3]).numpy().tolist()
    [1, 3, 1]
    """
    result: Tensor = scatter.scatter_min(
        *_ordered(_scattered(tensor, indices, updates, "TensorScatterMin", bad_indices_policy))
    )
    return result


def _ordered(parts: tuple[Tensor, Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    return parts[0], parts[2], parts[1]


def _scattered(tensor: Any, indices: Any, updates: Any, op: str, policy: str) -> tuple[Tensor, Tensor, Tensor]:
    """Check the operands of a tensor_scatter_nd function: tensor, indices, updates."""
    x, values = operands(tensor, updates)
    if x.array.dtype != values.array.dtype:
        raise errors.mismatched_dtypes(op, x.dtype, values.dtype)
    where, values = _checked(operand(indices), values, tuple(x.array.shape), op, policy)
    return x, where, values


def _checked(where: Tensor, values: Tensor, shape: Axes, op: str, policy: str) -> tuple[Tensor, Tensor]:
    """Indices and updates that fit the shape; with the policy IGNORE, without those out of range."""
    if where.dtype.name not in ("int16", "int32", "int64"):
        raise errors.unsupported_dtype(op, where.dtype, "int16, int32, int64", "Tindices")
    have, given = tuple(where.array.shape), tuple(values.array.shape)
    if not have:
        raise errors.invalid_argument(f"Indices shape must have rank at least one. Found:{errors.brackets(have)}", op)
    if not given:  # TensorFlow notices when the program runs, except for ScatterNd
        refuse = errors.invalid_argument if op == "ScatterNd" else errors.refused_value
        raise refuse(f"Updates shape must have rank at least one. Found:{errors.brackets(given)}", op)
    depth, lead = have[-1], have[:-1]
    _check_scatter(have, given, shape, op)
    if policy not in ("", "DEFAULT", "ERROR", "IGNORE"):
        raise errors.invalid_argument(f"Unknown bad_indices_policy: {policy}. Expected ERROR or IGNORE.", op)
    if policy != "IGNORE":
        return wrap(index.checked_coordinates(where.array, shape, op)), values
    if not is_known(where):
        return _muted(where, values, shape, op)
    coordinates = np.asarray(where.array)
    inside = np.all((coordinates >= 0) & (coordinates < np.array(shape[:depth])), axis=-1)
    if inside.all():
        return where, values
    kept = np.flatnonzero(inside)
    rows = array.reshape(values, shape=(_math.prod(lead), *given[len(lead) :]))
    return wrap(coordinates.reshape(-1, depth)[kept]), index.take(array.identity(rows), kept, axis=0, batch_dims=0)


def _check_scatter(have: Axes, given: Axes, shape: Axes, op: str) -> None:
    """Check that the shapes of indices and of updates fit that of the tensor."""
    depth, lead = have[-1], have[:-1]
    if not is_same_shape(given[: len(lead)], lead):
        raise errors.invalid_argument(
            f"Dimensions [0,{len(lead)}) of indices[shape={errors.brackets(have)}] must match dimensions "
            f"[0,{len(lead)}) of updates[shape={errors.brackets(given)}]",
            op,
        )
    if depth > len(shape):
        raise errors.refused_value(
            f"Inner dimensions of output shape must match inner dimensions of updates shape. Output: "
            f"{errors.brackets(shape)} updates: {errors.brackets(given)}",
            op,
        )
    if 0 in shape and 0 not in have and 0 not in given:
        raise errors.invalid_argument(
            f"Indices and updates specified for empty output shape {errors.brackets(shape)}", op
        )
    if not is_same_shape(given[len(lead) :], shape[depth:]):
        raise errors.invalid_argument(
            f"Dimensions [{depth},{len(shape)}) of input[shape={errors.brackets(shape)}] must match dimensions "
            f"[{len(lead)},{len(given)}) of updates[shape={errors.brackets(given)}]",
            op,
        )


def _muted(where: Tensor, values: Tensor, shape: Axes, op: str) -> tuple[Tensor, Tensor]:
    """Indices and updates in which those out of range have no effect, because their number is unknown."""
    lead, depth, dtype = tuple(where.array.shape[:-1]), where.array.shape[-1], values.array.dtype
    sizes = np.array(shape[:depth], where.array.dtype)
    inside = reduce.all_(
        math.logical_and(math.greater_equal(where, 0), math.less(where, sizes)), axis=(len(lead),), keepdims=True
    )
    limits: Any = np.iinfo if dtype.kind in "iu" else np.finfo
    nothing = {"TensorScatterMax": lambda: limits(dtype).min, "TensorScatterMin": lambda: limits(dtype).max}
    filling = np.asarray(nothing.get(op, int)(), dtype)
    fitting = array.reshape(inside, shape=(*lead, *[1] * (len(shape) - depth)))
    return math.where(inside, where, np.zeros((), sizes.dtype)), math.where(fitting, values, filling)


# -- partitions ------------------------------------------------------------------------------------------------------
@dispatched
def dynamic_partition(
    data: TensorLike, partitions: TensorLike, num_partitions: Any, name: str | None = None
) -> list[Tensor]:
    """Split the rows of data into `num_partitions` tensors; `partitions` contains the number of each row's tensor.

    >>> [p.numpy().tolist() for p in tf.dynamic_partition([10, 20, 30], [1, 0, 1], 2)]
    [[20], [10, 30]]
    """
    which = operand(partitions, None if has_dtype(partitions) else as_dtype("int32"))
    if which.dtype.name != "int32":
        raise errors.invalid_argument(
            "cannot compute DynamicPartition as input #1(zero-based) was expected to be a int32 tensor but is a "
            f"{which.dtype.word} tensor",
            "DynamicPartition",
        )
    if type(which.array) is Symbolic and allows_dynamic_shapes():
        return _dynamic_partition(operand(data), which, as_int(num_partitions, "num_partitions"))
    if not is_known(which):
        raise unknown_shape(
            "tf.dynamic_partition",
            "Use tf.where(partitions == i, data, 0) for part i, or tf.math.unsorted_segment_sum for sums of the parts.",
            "DynamicPartition",
        )
    x, ids, count = operand(data), np.asarray(which.array), as_int(num_partitions, "num_partitions")
    have = tuple(x.array.shape)
    if count < 1:
        raise errors.invalid_argument(
            f"Value for attr 'num_partitions' of {count} must be at least minimum 1", "DynamicPartition"
        )
    if count >= 2**31:
        raise ValueError(f"Value for attr 'num_partitions' of {count} is too large.")
    if have[: ids.ndim] != ids.shape:
        raise errors.invalid_argument(
            f"data.shape must start with partitions.shape, got data.shape = {errors.brackets(have)}, "
            f"partitions.shape = {errors.brackets(ids.shape)}",
            "DynamicPartition",
        )
    _in_range("partitions", ids, count, "DynamicPartition")
    rows, flat = array.reshape(x, shape=(ids.size, *have[ids.ndim :])), ids.reshape(-1)
    return [index.take(rows, np.flatnonzero(flat == i), axis=0, batch_dims=0) for i in builtins.range(count)]


def _dynamic_partition(data: Tensor, which: Tensor, count: int) -> list[Tensor]:
    """`dynamic_partition` for partitions that only the running program knows."""
    have, ids = tuple(data.array.shape), which.array
    rank = len(ids.shape)
    if have[:rank] != tuple(ids.shape):
        raise errors.invalid_argument(
            f"data.shape must start with partitions.shape, got data.shape = {have}, partitions.shape = {ids.shape}",
            "DynamicPartition",
        )
    rows, flat = array.reshape(data, shape=(ids.size, *have[rank:])), ids.reshape((ids.size,))
    flat = verify(_PARTITIONS, flat, count=count)
    places = [call("argwhere", (call("equal", (flat, np.int32(i)), {}),), {}) for i in builtins.range(count)]
    return [index.take(rows, place[:, 0], axis=0, batch_dims=0) for place in places]


_PARTITIONS = Rule(
    lambda xp, ids, count: (ids < 0) | (ids >= count),
    lambda ids, count: _outside("partitions", ids, count, "DynamicPartition"),
)


def _outside(word: str, ids: Any, count: int, op: str) -> Exception:
    """The error for the first of the ids that is out of range."""
    at = tuple(int(i) for i in np.argwhere((ids < 0) | (ids >= count))[0])
    return errors.refused_value(f"{word}{errors.brackets(at)} = {ids[at]} is not in [0, {count})", op)


def _in_range(word: str, ids: Any, count: int, op: str) -> None:
    if ((ids < 0) | (ids >= count)).any():
        raise _outside(word, ids, count, op)


def _stitch_indices(indices: Any, data: Any) -> list[np.ndarray]:
    """The indices of `dynamic_stitch`, which must be known, because they determine the shape of its result."""
    for word, given in (("indices", indices), ("data", data)):
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"Expected list for '{word}' argument to 'dynamic_stitch' Op, not {given!r}.")
    if len(indices) != len(data):
        raise ValueError(
            f"List argument 'data' to 'dynamic_stitch' Op with length {len(data)} must match length {len(indices)} of "
            "argument 'indices'."
        )
    if not indices:
        raise errors.invalid_argument("Value for attr 'N' of 0 must be at least minimum 1", "DynamicStitch")
    given = [operand(i, None if has_dtype(i) else as_dtype("int32")) for i in indices]
    for i in given:
        if i.dtype.name != "int32":
            raise errors.invalid_argument(
                f"cannot compute DynamicStitch as indices were expected to be int32 tensors but one is a "
                f"{i.dtype.word} tensor",
                "DynamicStitch",
            )
    if not all(map(is_known, given)):
        raise unknown_shape(
            "tf.dynamic_stitch",
            "Use tf.scatter_nd or tf.tensor_scatter_nd_update, which take the shape as an argument.",
            "DynamicStitch",
        )
    return [np.asarray(i.array) for i in given]


def _check_stitched(places: list[np.ndarray], pieces: list[Tensor], rest: Axes) -> None:
    """Check that each tensor has a slice for each of its indices, all with the same shape."""
    for i, (place, piece) in enumerate(zip(places, pieces, strict=True)):
        have = tuple(piece.array.shape)
        if have[: place.ndim] != place.shape:
            raise errors.invalid_argument(
                f"data[{i}].shape = {errors.brackets(have)} does not start with indices[{i}].shape = "
                f"{errors.brackets(place.shape)}",
                "DynamicStitch",
            )
        if have[place.ndim :] != rest:
            raise errors.invalid_argument(
                f"Need data[0].shape[{places[0].ndim}:] = data[{i}].shape[{place.ndim}:], got data[0].shape = "
                f"{errors.brackets(pieces[0].array.shape)}, data[{i}].shape = {errors.brackets(have)}, "
                f"indices[0].shape = {errors.brackets(places[0].shape)}, indices[{i}].shape = "
                f"{errors.brackets(place.shape)}",
                "DynamicStitch",
            )
        if place.size and place.min() < 0:
            at = int(np.flatnonzero(place.reshape(-1) < 0)[0])
            raise errors.refused_value(f"indices[{at}] is out of range", "DynamicStitch")


def dynamic_stitch(indices: Any, data: Any, name: str | None = None) -> Tensor:
    """Merge slices of several tensors at their indices; for repeated indices the last one is used.

    >>> tf.dynamic_stitch([[0, 2], [1]], [[1, 3], [2]]).numpy().tolist()
    [1, 2, 3]
    """
    places = _stitch_indices(indices, data)
    known = next((convert(d).dtype for d in data if isinstance(d, Tensor)), None) or operand(data[0]).dtype
    pieces = [operand(d, None if isinstance(d, Tensor) else known) for d in data]
    rest = tuple(pieces[0].array.shape)[places[0].ndim :]
    _check_stitched(places, pieces, rest)
    rows = [array.reshape(piece, shape=(place.size, *rest)) for place, piece in zip(places, pieces, strict=True)]
    where = np.concatenate([p.reshape(-1) for p in places])
    count = int(where.max()) + 1 if where.size else 0
    # TensorFlow's gradient goes to every row, even if a later row with the same index has replaced it.
    empty: Any = np.zeros((count, *rest), pieces[0].array.dtype)
    if pieces[0].dtype.name == "string":
        empty = np.full(empty.shape, b"", object)
    joined = array.concatenate(*rows, axis=0)
    result: Tensor = index.replace_nd(empty, joined, where[:, None])
    return result


# -- searching -------------------------------------------------------------------------------------------------------
def searchsorted(
    sorted_sequence: TensorLike,
    values: TensorLike,
    side: Any = "left",
    out_type: Any = "int32",
    name: str | None = None,
) -> Tensor:
    """Find where each value would have to be inserted to keep its row sorted.

    >>> tf.searchsorted([1, 3, 5], [0, 3, 9]).numpy().tolist()
    [0, 1, 3]
    """
    kind = index_type(out_type, "LowerBound")
    side = choice(side, "side", ("left", "right"))
    op = "LowerBound" if side == "left" else "UpperBound"
    rows, wanted = operand(sorted_sequence), operand(values)
    if rows.array.dtype != wanted.array.dtype:
        raise errors.mismatched_dtypes(op, rows.dtype, wanted.dtype)
    sequence, queries = rows.array, wanted.array
    if not sequence.shape or not queries.shape:
        raise errors.invalid_argument("slice index -1 of dimension 0 out of bounds. Values need an axis.", op)
    counts = [_math.prod(shape[:-1]) for shape in (sequence.shape, queries.shape)]
    if counts[0] != counts[1]:
        raise errors.invalid_argument("Leading dim_size of both tensors must match.", op)
    if sequence.shape[:-1] != queries.shape[:-1]:
        sequence = sequence.reshape(*queries.shape[:-1], sequence.shape[-1])
    found = common_namespace([sequence, queries]).searchsorted(sequence, queries, side=side)
    return wrap(found.astype(kind))


class Unique(NamedTuple):
    """The result of `unique`."""

    y: Tensor
    idx: Tensor


class UniqueWithCounts(NamedTuple):
    """The result of `unique_with_counts`."""

    y: Tensor
    idx: Tensor
    count: Tensor  # type: ignore[assignment]  # TensorFlow's name, although tuples have a method of that name


@kept_in_graph("unique")
def unique(x: TensorLike, out_idx: Any = "int32", name: str | None = None) -> Unique:
    """Return the distinct elements, in order of first occurrence, and the index of each element among them.

    >>> [t.numpy().tolist() for t in tf.unique([3, 1, 3])]
    [[3, 1], [0, 1, 0]]
    """
    index_type(out_idx, "Unique", "out_idx")
    y, idx, _ = scatter.unique(_vector(x, "Unique"))
    return Unique(y, _as(idx, out_idx))


@kept_in_graph("unique_with_counts")
def unique_with_counts(x: TensorLike, out_idx: Any = "int32", name: str | None = None) -> UniqueWithCounts:
    """Do what `unique` does, and also count the occurrences of each element.

    >>> tf.unique_with_counts([3, 1, 3]).count.numpy().tolist()
    [2, 1]
    """
    index_type(out_idx, "UniqueWithCounts", "out_idx")
    y, idx, count = scatter.unique_with_counts(_vector(x, "UniqueWithCounts"))
    return UniqueWithCounts(y, _as(idx, out_idx), _as(count, out_idx))


def _vector(x: Any, op: str) -> Tensor:
    vector = operand(x)
    if len(vector.array.shape) != 1:
        raise errors.invalid_argument("unique expects a 1D vector.", op)
    if type(vector.array) is Symbolic and allows_dynamic_shapes():
        return vector
    if not is_known(vector):
        raise unknown_shape("tf.unique", "Call it outside the function, or in tf.numpy_function.", op)
    np.asarray(vector.array)  # their number depends on the values, so a batch of rows has no result
    return vector


def _as(x: Tensor, dtype: Any) -> Tensor:
    wanted = numpy_dtype("int32" if dtype is None else dtype)
    return wrap(x.array.astype(wanted) if type(x.array) is Symbolic else np.asarray(x.array).astype(wanted))


def invert_permutation(x: TensorLike, name: str | None = None) -> Tensor:
    """Compute the inverse of a permutation.

    >>> tf.math.invert_permutation([2, 0, 1]).numpy().tolist()
    [1, 2, 0]
    """
    given = index_operand(tensor_or(x, int32, ("int64",)), "InvertPermutation", "T", empty=False).array
    if len(given.shape) != 1:
        raise errors.invalid_argument("invert_permutation expects a 1D vector.", "InvertPermutation")
    order = verify(PERMUTATION, given)
    return wrap(namespace_of(order).argsort(order, axis=0).astype(given.dtype))


def _is_not_permutation(xp: Any, order: Any) -> Any:
    return xp.sort(order, axis=-1) != np.arange(order.shape[-1])


def _no_permutation(order: Any) -> Exception:
    size = order.shape[-1]
    for row in order.reshape(-1, size).tolist():
        seen: set[int] = set()
        for i in row:
            if not 0 <= i < size:
                return errors.invalid_argument(f"{i} is not between 0 and {size}", "InvertPermutation")
            if i in seen:
                return errors.invalid_argument(f"{i} is duplicated in the input.", "InvertPermutation")
            seen.add(i)
    raise AssertionError("it is a permutation")


PERMUTATION = Rule(_is_not_permutation, _no_permutation)
"""Every row contains each of the numbers 0, 1, … once."""


def is_non_decreasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Return whether no element, in row-major order, is smaller than the one before it.

    >>> bool(tf.math.is_non_decreasing([1, 2, 2, 5])), bool(tf.math.is_non_decreasing([2, 1]))
    (True, False)
    """
    flat = array.reshape(_numeric(x), shape=(-1,))
    result: Tensor = reduce.all_(math.greater_equal(flat[1:], flat[:-1]), axis=(0,), keepdims=False)
    return result


def is_strictly_increasing(x: TensorLike, name: str | None = None) -> Tensor:
    """Return whether every element, in row-major order, is larger than the one before it.

    >>> bool(tf.math.is_strictly_increasing([1, 2, 5])), bool(tf.math.is_strictly_increasing([1, 2, 2]))
    (True, False)
    """
    flat = array.reshape(_numeric(x), shape=(-1,))
    result: Tensor = reduce.all_(math.greater(flat[1:], flat[:-1]), axis=(0,), keepdims=False)
    return result


def _numeric(x: Any) -> Tensor:
    found = operand(x)
    if found.array.dtype.kind in "bO":
        raise TypeError(f"Expected x to be numeric, instead found: {found!r}")
    return found


# -- counting --------------------------------------------------------------------------------------------------------
def histogram_fixed_width_bins(
    values: TensorLike, value_range: Any, nbins: Any = 100, dtype: Any = "int32", name: str | None = None
) -> Tensor:
    """Return the bin number of each value; values outside the range are in the first or last bin.

    >>> tf.histogram_fixed_width_bins([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], nbins=5).numpy().tolist()
    [0, 0, 1, 2, 4, 4]
    """
    return _bins(values, value_range, nbins, "int32", "HistogramFixedWidthBins")[0]


def histogram_fixed_width(
    values: TensorLike, value_range: Any, nbins: Any = 100, dtype: Any = "int32", name: str | None = None
) -> Tensor:
    """Count the values in each of `nbins` equal bins.

    >>> tf.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], nbins=5).numpy().tolist()
    [2, 1, 1, 0, 2]
    """
    bins, count = _bins(values, value_range, nbins, dtype, exact=True)
    result: Tensor = scatter.histogram(operand(values), array.reshape(bins, shape=(-1,)), count=count)
    return result


def _bins(
    values: Any, value_range: Any, nbins: Any, dtype: Any, op: str = "HistogramFixedWidth", exact: bool = False
) -> tuple[Tensor, int]:
    """The bins and their number. With `exact` from the width of a bin in float64, as in TensorFlow."""
    count, wanted = integer(nbins, op, fixed=True), as_dtype("int32" if dtype is None else dtype)
    x = operand(values)
    if x.dtype.name not in ("int32", "int64", "float32", "float64"):
        raise errors.unsupported_dtype(op, x.dtype, "int32, int64, float, double")
    given = operand(value_range, None if has_dtype(value_range) else x.dtype)
    if given.dtype != x.dtype:
        raise errors.mismatched_dtypes(op, x.dtype, given.dtype)
    ends = given.array
    if wanted.name not in ("int32", "int64"):
        raise errors.unsupported_dtype(op, wanted, "int32, int64", "dtype")
    if count < 1:
        raise errors.invalid_argument(f"nbins should be a positive number, but got '{count}'", op)
    if ends.shape != (2,):
        raise errors.invalid_argument(f"value_range should be a vector of 2 elements, but got {ends.shape}", op)
    ends = verify(_ENDS, ends, op=op)
    numbers = x.array
    if numbers.dtype.kind not in "iu":
        numbers = verify(_NUMBERS, numbers, op=op)
    kind = numbers.dtype if numbers.dtype.kind == "f" else np.dtype(np.float64)
    low, high = ends[0].astype(kind), ends[1].astype(kind)
    xp = common_namespace([numbers, ends])
    above, span = xp.astype(numbers, dtype=kind, source=numbers.dtype) - low, high - low
    if exact:
        above, span = (xp.astype(a, dtype=np.dtype(np.float64), source=kind) for a in (above, span))
        kind = np.dtype(np.float64)
    scaled = xp.floor(above / (span / count) if exact else above / span * count)
    within = xp.maximum(xp.minimum(scaled, np.asarray(count - 1, kind)), np.zeros((), kind))
    return wrap(xp.astype(within, dtype=wanted.numpy_dtype, source=kind)), count


def _are_not_ordered(xp: Any, ends: Any, **_: Any) -> Any:
    return ~(ends[..., 0] < ends[..., 1])


def _wrong_range(ends: Any, op: str) -> Exception:
    low, high = next(pair for pair in ends.reshape(-1, 2) if not pair[0] < pair[1])
    sentence = f"value_range should satisfy value_range[0] < value_range[1], but got '[{low:g}, {high:g}]'"
    return errors.invalid_argument(sentence, op)


_ENDS = Rule(_are_not_ordered, _wrong_range)
_NUMBERS = Rule(
    lambda xp, values, op: xp.isnan(values),
    lambda values, op: errors.invalid_argument("Histogram values must not contain NaN", op),
)


@dispatched
def bincount(
    arr: Any,
    weights: TensorLike | None = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = "int32",
    name: str | None = None,
    axis: Any = None,
    binary_output: bool = False,
) -> Tensor:
    """Count the occurrences of each integer, or sum their weights; with axis=-1, for each row of a matrix.

    >>> tf.math.bincount([1, 1, 3]).numpy().tolist()
    [0, 2, 0, 1]
    """
    numbers, binary_output = operand(arr), flag(binary_output, "binary_output")
    if weights is not None and binary_output:
        raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.")
    wanted = as_dtype("int32" if dtype is None else dtype)
    values = non_negative(numbers.array if numbers.dtype.is_integer else cast(numbers, "int32").array)
    _check_counts(wanted)
    if is_known(values):
        values = np.asarray(values)
    if isinstance(axis, Tensor) and axis.array.dtype.kind in "bO":
        raise TypeError(f"Expected an int for argument 'axis', but got {axis!r}.")
    if axis is not None and (not isinstance(axis, (int, np.integer)) or axis not in (0, -1)):
        raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are currently supported.")
    length = _count_of_bins(values, minlength, maxlength)
    by_row = axis == -1 and values.ndim > 1
    rows = values.reshape(_math.prod(values.shape[:-1]), values.shape[-1]) if by_row else values.reshape(1, -1)
    given = None if weights is None else _weights_of_counts(operand(weights), values)
    if given is not None and 0 in given.array.shape:  # the weight of all is 1, with that dtype
        wanted, given = given.dtype, None
    # Every row has its own block of counts; too large numbers are counted in one position after all blocks.
    count, xp = len(rows) * length, namespace_of(rows)
    blocks = (length * np.arange(len(rows))[:, None]).astype(np.int64)
    wide = xp.astype(rows, dtype=blocks.dtype, source=rows.dtype)
    places = xp.reshape(xp.where(wide < length, wide + blocks, np.asarray(count, np.int64)), shape=(-1,))
    if given is None or binary_output:
        counts = xp.add_rows(xp.ones_like(places), places, shape=(count + 1,))[:count]
        total = wrap((counts > 0 if binary_output else counts).astype(wanted.numpy_dtype))
    else:
        total = scatter.dense_bincount(array.reshape(given, shape=(values.size,)), wrap(places), count=count)
    result: Tensor = array.reshape(total, shape=(len(rows), length) if by_row else (length,))
    return result


_BINCOUNT = "DenseBincount"


def _check_counts(dtype: DType) -> None:
    if dtype.name not in ("int32", "int64", "float32", "float64"):
        raise errors.unsupported_dtype(_BINCOUNT, dtype, "int32, int64, float, double")


def _count_of_bins(values: Any, minlength: Any, maxlength: Any) -> int:
    """The number of bins, from 0 on."""
    op = _BINCOUNT
    least, most = (None if bound is None else integer(bound, op, fixed=True) for bound in (minlength, maxlength))
    if most is not None and most < 0:
        raise errors.invalid_argument(f"maxlength must be non-negative, got {most}", op)
    if is_known(values):
        length = max(int(values.max()) + 1 if values.size else 0, least or 0)
    elif most is not None and (least or 0) >= most:
        length = most
    else:
        raise unknown_shape("tf.math.bincount", "Pass the same number as minlength and as maxlength.", op)
    return length if most is None else min(length, most)


def _weights_of_counts(weights: Tensor, values: Any) -> Tensor:
    """Check the weights: as many as values, or none."""
    _check_counts(weights.dtype)
    if 0 not in weights.array.shape and tuple(weights.array.shape) != values.shape:
        raise errors.refused_value(
            "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all weights "
            f"equal to 1. Received {errors.brackets(weights.array.shape)}",
            _BINCOUNT,
        )
    return weights


def non_negative(values: TensorLike) -> Any:
    """Check that integers to be counted are not negative."""
    return verify(_COUNTED, values)


_COUNTED = Rule(
    lambda xp, values: values < 0,
    lambda values: errors.invalid_argument("Input arr must be non-negative!", "DenseBincount"),
    lambda interval: interval[0] >= 0,
)


def confusion_matrix(
    labels: TensorLike,
    predictions: TensorLike,
    num_classes: Any = None,
    weights: TensorLike | None = None,
    dtype: Any = "int32",
    name: str | None = None,
) -> Tensor:
    """Count how often label i was predicted as j, or sum the weights of these cases.

    >>> tf.math.confusion_matrix([1, 2, 1], [1, 1, 1], num_classes=3).numpy().tolist()
    [[0, 0, 0], [0, 2, 0], [0, 1, 0]]
    """
    rows, columns = (cast(t, "int64").array for t in (labels, predictions))
    if rows.ndim - columns.ndim == 1 and rows.shape[-1] == 1:
        rows = rows[..., 0]
    elif columns.ndim - rows.ndim == 1 and columns.shape[-1] == 1:
        columns = columns[..., 0]
    rows, columns = rows.reshape(-1), columns.reshape(-1)
    classes = (("labels", wrap(rows)), ("predictions", wrap(columns)))
    for word, ids in classes:
        assert_non_negative(ids, f"`{word}` contains negative values")
    if num_classes is None:
        if not (is_known(rows) and is_known(columns)):
            raise unknown_shape("tf.math.confusion_matrix", "Pass num_classes.")
        count = int(max(rows.max(initial=-1), columns.max(initial=-1))) + 1
    else:
        count = integer(num_classes)
        for word, ids in classes:
            assert_less(ids, np.asarray(count, np.int64), f"`{word}` out of bound")
    if current_graph() is not None:  # what the program rejects must not run on NumPy
        rows, columns = as_value(rows), as_value(columns)
    if rows.shape != columns.shape:
        raise ValueError(f"Shapes {rows.shape} and {columns.shape} are incompatible")
    where = array.stack(wrap(rows), wrap(columns), axis=1)
    if weights is None:
        values = wrap(np.ones(rows.shape, numpy_dtype(dtype)))
    else:
        given = operand(weights)
        if tuple(given.array.shape) != rows.shape:
            raise ValueError(f"Shapes {tuple(given.array.shape)} and {rows.shape} are incompatible")
        values = cast(given, dtype)
    result: Tensor = index.scatter_nd(values, where, shape=(count, count), batch_dims=0)
    return result
