"""Segments: reduce rows with the same id; also scans and sums."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, checked, verify
from gradtape._src.arrays.dimensions import is_dimension, is_same, is_same_shape
from gradtape._src.arrays.symbolic import Symbolic, allows_dynamic_shapes, is_known, number, sizes_from, unknown_shape
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.core.composites import dispatched
from gradtape._src.core.primitive import narrowed, widened
from gradtape._src.ops import array, index, math, segment
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import Axes, flag, integer, integers, scan_axis
from gradtape._src.tf.array import cast
from gradtape._src.tf.math import scan_along

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- sorted ids ------------------------------------------------------------------------------------------------------
def segment_sum(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Compute the sum of the rows with each id; ids must not decrease.

    >>> tf.math.segment_sum([1, 2, 3, 4], [0, 0, 1, 3]).numpy().tolist()
    [3, 3, 0, 4]
    """
    return _sum(*_in_order(data, segment_ids, "SegmentSum"))


def segment_mean(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Compute the mean of the rows with each id, and 0 for ids without rows.

    >>> tf.math.segment_mean([1.0, 3.0, 10.0], [0, 0, 1]).numpy().tolist()
    [2.0, 10.0]
    """
    x, ids, count = _in_order(data, segment_ids, "SegmentMean")
    return _mean(x, ids, count)


def segment_prod(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Compute the product of the rows with each id, and 1 for ids without rows. The gradient is exact at zeros.

    >>> tf.math.segment_prod([4, 3, 10], [0, 0, 1]).numpy().tolist()
    [12, 10]
    """
    return _product(*_in_order(data, segment_ids, "SegmentProd"))


def segment_max(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Compute the maximum of the rows with each id, and 0 for ids without rows; equal elements share the gradient.

    >>> tf.math.segment_max([1, 5, 3], [0, 0, 2]).numpy().tolist()
    [5, 0, 3]
    """
    x, ids, count = _in_order(data, segment_ids, "SegmentMax", ordered=True)
    result: Tensor = segment.segment_max(x, ids, count=count, gaps=True)
    return result


def segment_min(data: TensorLike, segment_ids: TensorLike, name: str | None = None) -> Tensor:
    """Compute the minimum of the rows with each id, and 0 for ids without rows; equal elements share the gradient.

    >>> tf.math.segment_min([4, 3, 10], [0, 0, 1]).numpy().tolist()
    [3, 10]
    """
    x, ids, count = _in_order(data, segment_ids, "SegmentMin", ordered=True)
    result: Tensor = segment.segment_min(x, ids, count=count, gaps=True)
    return result


def _in_order(data: Any, segment_ids: Any, op: str, ordered: bool = False) -> tuple[Tensor, Any, int]:
    """Check data and sorted ids; return them and the number of segments."""
    x, where = _numbers(data, segment_ids, op, ordered)
    if type(where.array) is Symbolic and allows_dynamic_shapes():
        return _in_dynamic_order(x, where, op)
    if not is_known(where):
        raise unknown_shape(
            "tf.math.segment_*", "Use tf.math.unsorted_segment_*, which take the number of segments as an argument.", op
        )
    ids, have = np.asarray(where.array), tuple(x.array.shape)
    if ids.ndim != 1:
        raise errors.invalid_argument("segment_ids should be a vector.", op)
    if not have:
        raise errors.invalid_argument("input must be at least rank 1", op)
    if not is_same(ids.size, have[0]):
        raise errors.refused_value("segment_ids should be the same size as dimension 0 of input.", op)
    if ids.size != have[0]:
        x = array.reshape(x, shape=(ids.size, *have[1:]))
    if not ids.size:
        return x, ids, 0
    if not is_known(verify(_SORTED, ids, op=op)):  # the program rejects them in any case
        ids = np.maximum.accumulate(np.maximum(ids, 0))
    return x, ids, int(ids[-1]) + 1


def _in_dynamic_order(x: Tensor, where: Tensor, op: str) -> tuple[Tensor, Any, int]:
    """`_in_order` for ids that only the running program knows."""
    ids = where.array
    if len(ids.shape) != 1:
        raise errors.invalid_argument("segment_ids should be a vector.", op)
    if not is_same_shape(x.array.shape[:1], ids.shape):
        raise errors.refused_value("segment_ids should be the same size as dimension 0 of input.", op)
    ids = verify(_SORTED, ids, op=op)
    return x, wrap(ids), sizes_from(ids[-1] + np.ones((), ids.dtype)).item()


def _are_not_sorted(xp: Any, ids: Any, **_: Any) -> Any:
    return (ids[0] < 0) | (ids[1:] < ids[:-1]).any()


def _not_sorted(ids: Any, op: str) -> Exception:
    if ids[0] < 0:
        sentence = f"Segment id {ids[0]} out of range [0, {ids[-1] + 1}), possibly because 'segment_ids' input is not "
        return errors.refused_value(f"{sentence}sorted.", op)
    return errors.refused_value(
        "segment ids are not increasing. Use tf.math.unsorted_segment_* for ids in any order", op
    )


_SORTED = Rule(_are_not_sorted, _not_sorted, always=True)


def _numbers(data: Any, segment_ids: Any, op: str, ordered: bool) -> tuple[Tensor, Tensor]:
    x, where = operand(data), operand(segment_ids)
    if not where.dtype.is_integer:
        raise errors.unsupported_dtype(op, where.dtype)
    if x.dtype.is_bool or x.dtype.name == "string" or (ordered and x.dtype.is_complex):
        raise errors.unsupported_dtype(op, x.dtype)
    return x, where


# -- unsorted ids ----------------------------------------------------------------------------------------------------
@dispatched
def unsorted_segment_sum(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """Compute the sum of the rows with each id; rows with a negative id are ignored.

    >>> tf.math.unsorted_segment_sum([1, 2, 3, 4], [1, 0, -1, 1], 3).numpy().tolist()
    [2, 5, 0]
    """
    return _unsorted(_sum, data, segment_ids, num_segments, "UnsortedSegmentSum")


@dispatched
def unsorted_segment_mean(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """Compute the mean of the rows with each id, and 0 for ids without rows.

    >>> tf.math.unsorted_segment_mean([3.0, 9.0, 5.0], [1, 0, 1], num_segments=3).numpy().tolist()
    [9.0, 4.0, 0.0]
    """

    def mean(x: Tensor, ids: Any, count: int) -> Tensor:
        if x.dtype.is_integer:
            x = cast(x, "float64" if x.dtype.size > 2 else "float32")  # as in a quotient of them
        return _mean(x, ids, count)

    return _unsorted(mean, data, segment_ids, num_segments, "UnsortedSegmentSum")


@dispatched
def unsorted_segment_sqrt_n(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """Compute the sum of the rows with each id, divided by the square root of their number.

    >>> tf.math.unsorted_segment_sqrt_n([1.0, 2.0, 3.0, 2.0], [0, 0, 0, 0], num_segments=1).numpy().tolist()
    [4.0]
    """

    def root(x: Tensor, ids: Any, count: int) -> Tensor:
        if x.dtype.is_integer:
            raise errors.unsupported_dtype("Sqrt", x.dtype)
        y = widened(x)
        sizes: Tensor = cast(_sizes(ids, count, x), "float64")
        result: Tensor = narrowed(_sum(y, ids, count) / cast(math.sqrt(sizes), y.dtype), x.array.dtype)
        return result

    return _unsorted(root, data, segment_ids, num_segments, "UnsortedSegmentSum")


@dispatched
def unsorted_segment_prod(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """Compute the product of the rows with each id, and 1 for ids without rows. The gradient is exact at zeros.

    >>> tf.math.unsorted_segment_prod([3, 9, 5], [1, 0, 1], num_segments=3).numpy().tolist()
    [9, 15, 1]
    """
    return _unsorted(_product, data, segment_ids, num_segments, "UnsortedSegmentProd")


@dispatched
def unsorted_segment_max(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """Compute the maximum of the rows with each id, and the dtype's lowest number for ids without rows.

    >>> tf.math.unsorted_segment_max([3, 9, 5], [1, 0, 1], num_segments=2).numpy().tolist()
    [9, 5]
    """

    def largest(x: Tensor, ids: Any, count: int) -> Any:
        return segment.segment_max(x, ids, count=count)

    return _unsorted(largest, data, segment_ids, num_segments, "UnsortedSegmentMax", ordered=True)


@dispatched
def unsorted_segment_min(
    data: TensorLike, segment_ids: TensorLike, num_segments: Any, name: str | None = None
) -> Tensor:
    """Compute the minimum of the rows with each id, and the dtype's highest number for ids without rows.

    >>> tf.math.unsorted_segment_min([3, 9, 5], [1, 0, 1], num_segments=2).numpy().tolist()
    [9, 3]
    """

    def smallest(x: Tensor, ids: Any, count: int) -> Any:
        return segment.segment_min(x, ids, count=count)

    return _unsorted(smallest, data, segment_ids, num_segments, "UnsortedSegmentMin", ordered=True)


def _unsorted(
    reduction: Callable[[Tensor, Any, int], Tensor],
    data: Any,
    segment_ids: Any,
    num_segments: Any,
    op: str,
    ordered: bool = False,
) -> Tensor:
    """Reduce the rows with each id in [0, num_segments); rows with negative ids are ignored."""
    x, ids = _numbers(data, segment_ids, op, ordered)
    plain = np.asarray(integers(num_segments, op, "Tnumsegments"))
    if plain.ndim:
        raise errors.invalid_argument(f"num_segments should be a scalar, not shape {errors.brackets(plain.shape)}", op)
    count, have, of_ids = integer(plain), tuple(x.array.shape), tuple(ids.array.shape)
    if count < 0:
        raise errors.invalid_argument(f"Input num_segments == {count} must not be negative.", op)
    if not is_same_shape(have[: len(of_ids)], of_ids):
        raise errors.invalid_argument(
            f"data.shape = {errors.brackets(have)} does not start with segment_ids.shape = {errors.brackets(of_ids)}",
            op,
        )
    if len(of_ids) != 1 or have[:1] != of_ids:
        x = array.reshape(x, shape=(prod(of_ids), *have[len(of_ids) :]))
    ids = checked(index.SEGMENTS, ids, size=count, op=op)
    if not is_known(ids):  # ignored rows become one more segment, which is dropped at the end
        ids = array.reshape(ids, shape=(-1,))
        kind = ids.array.dtype
        last = number(count, kind) if is_dimension(count) else np.asarray(count, kind)
        ids = math.where(math.less(ids, 0), last, ids)
        return reduction(x, ids, count + 1)[:count]
    known = np.asarray(ids.array).reshape(-1)
    kept = np.flatnonzero(known >= 0)
    if kept.size < known.size:
        x, known = index.take(array.identity(x), kept, axis=0, batch_dims=0), known[kept]
    return reduction(x, known, count)


# -- sorted or not: ids are an array, or a tensor with unknown values ------------------------------------------------
def _sum(x: Tensor, ids: Any, count: int) -> Tensor:
    result: Tensor = index.add_rows(x, ids, shape=(count, *x.array.shape[1:]))
    return result


def _sizes(ids: Any, count: int, x: Tensor) -> Tensor:
    """The number of rows of each segment (at least 1, as a divisor), with an axis for every axis of a row."""
    ones = np.ones(ids.shape[0], np.int64)
    sizes = math.maximum(index.add_rows(ones, ids, shape=(count,)), np.ones((), np.int64))
    result: Tensor = array.reshape(sizes, shape=(count, *[1] * (len(x.array.shape) - 1)))
    return result


def _mean(x: Tensor, ids: Any, count: int) -> Tensor:
    y = widened(x)
    total, sizes = _sum(y, ids, count), cast(_sizes(ids, count, x), y.dtype)
    if x.dtype.is_unsigned:
        quotient: Tensor = math.floor_divide(total, sizes)
        return quotient
    if x.dtype.is_integer:  # like TensorFlow's kernel: truncate
        rounded: Tensor = math.sign(total) * math.floor_divide(math.absolute(total), sizes)
        return rounded
    result: Tensor = narrowed(total / sizes, x.array.dtype)
    return result


def _product(x: Tensor, ids: Any, count: int) -> Tensor:
    """Products as blocks for `reduce_prod`, which is exact at zeros to every order.

    Segments are padded with ones to the next power of two of their length: few blocks, at most twice the elements.
    """
    rest: Axes = tuple(x.array.shape)[1:]
    ones = np.ones((1, *rest), x.array.dtype)
    if isinstance(ids, Tensor):  # the rows of blocks are unknown: every segment has all rows, most of them as ones
        mine = math.equal(np.arange(count, dtype=ids.array.dtype)[:, None], ids)
        mine = array.reshape(mine, shape=(count, x.array.shape[0], *[1] * len(rest)))
        return _prod(math.where(mine, x, ones))
    if not ids.size:
        nothing = _prod(array.reshape(x, shape=(1, 0, *rest)))
        return array.broadcast_to(nothing, shape=(count, *rest))
    order = np.argsort(ids, kind="stable")
    sizes = np.bincount(ids, minlength=count)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    padded = array.concatenate(x, ones, axis=0)  # the last row is used for all padding
    widths = np.where(sizes > 0, 2 ** np.ceil(np.log2(np.maximum(sizes, 1))), 0).astype(np.int64)
    blocks, members = [], []
    for width in np.unique(widths[widths > 0]):
        segments = np.flatnonzero(widths == width)
        steps = np.arange(width)
        places = starts[segments][:, None] + steps
        rows = np.where(steps < sizes[segments][:, None], order[np.minimum(places, ids.size - 1)], ids.size)
        block = index.take(padded, rows.reshape(-1), axis=0, batch_dims=0)
        block = array.reshape(block, shape=(len(segments), int(width), *rest))
        blocks.append(_prod(block))
        members.append(segments)
    found = np.concatenate(members)
    products = blocks[0] if len(blocks) == 1 else array.concatenate(*blocks, axis=0)
    if found.size < count:
        products = array.concatenate(products, np.broadcast_to(ones, (count - found.size, *rest)), axis=0)
        found = np.concatenate([found, np.flatnonzero(sizes == 0)])
    result: Tensor = index.take(products, np.argsort(found, kind="stable"), axis=0, batch_dims=0)
    return result


def _prod(block: Tensor) -> Any:
    from gradtape._src.ops import reduce

    return reduce.prod(block, axis=(1,), keepdims=False)


# -- scans and sums --------------------------------------------------------------------------------------------------
def cumprod(
    x: TensorLike, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Compute cumulative products. As in TensorFlow, the gradient of a factor that is 0 is 0.

    >>> tf.math.cumprod([1.0, 2.0, 3.0]).numpy().tolist()
    [1.0, 2.0, 6.0]
    """
    return scan_along(segment.running_product, x, axis, exclusive, reverse, "Cumprod")


def cumulative_logsumexp(
    x: TensorLike, axis: Any = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Tensor:
    """Compute the logarithm of the cumulative sums of exp(x), without overflow.

    >>> tf.math.cumulative_logsumexp([1000.0, 1000.0]).numpy().astype(int).tolist()
    [1000, 1000]
    """
    x = operand(x)
    if not x.dtype.is_floating:
        raise errors.unsupported_dtype("CumulativeLogsumexp", x.dtype, "half, bfloat16, float, double")
    result: Tensor = segment.cumulative_logsumexp(
        x,
        axis=scan_axis(axis, len(x.array.shape), "CumulativeLogsumexp"),
        exclusive=flag(exclusive, "exclusive"),
        reverse=flag(reverse, "reverse"),
    )
    return result


def accumulate_n(inputs: TensorLike, shape: Any = None, tensor_dtype: Any = None, name: str | None = None) -> Tensor:
    """Add tensors of the same shape and dtype.

    >>> tf.math.accumulate_n([[1.0, 2.0], [3.0, 4.0]]).numpy().tolist()
    [4.0, 6.0]
    """
    sentence = "inputs must be a list of at least one Tensor with the same dtype and shape"
    if not isinstance(inputs, (list, tuple)) or not inputs:
        raise ValueError(sentence)
    tensors = [convert(t) for t in inputs]
    if any(t.array.dtype != tensors[0].array.dtype for t in tensors):
        raise ValueError(sentence)
    if tensor_dtype is not None and tensors[0].dtype != tensor_dtype:
        raise TypeError(
            f"The `tensor_dtype` argument is {tensor_dtype}, but `input` is of type {tensors[0].dtype}. "
            "These must be equal. Try casting the input to the desired type."
        )
    if shape is not None and not TensorShape(shape).is_compatible_with(tensors[0].shape):
        raise ValueError(f"Shapes {TensorShape(shape)} and {tensors[0].shape} are not compatible")
    total = widened(tensors[0])
    for t in tensors[1:]:
        if not is_same_shape(t.array.shape, total.array.shape):
            raise ValueError(f"Shapes {total.shape} and {t.shape} are not compatible")
        total = math.add(total, widened(t))
    result: Tensor = narrowed(total, tensors[0].array.dtype)
    return array.identity(result) if len(tensors) == 1 else result
