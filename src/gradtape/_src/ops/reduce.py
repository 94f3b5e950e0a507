"""Reductions, scans and sorting."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimension import maximum
from gradtape._src.arrays.half import generic_in_float32
from gradtape._src.arrays.positions import compared_positions
from gradtape._src.arrays.symbolic import number
from gradtape._src.core.dispatch import linear, primitive
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.structure import OpCall, picks_extreme, reduces, scans
from gradtape._src.ops.batching import shift_axis
from gradtape._src.ops.math import SMOOTH_TRUTH

Axes = tuple[int, ...]


def _expand(g: Any, xp: Any, axis: Axes, shape: Axes) -> Any:
    """Restore the axes of a reduced array, with length 1."""
    return xp.reshape(g, shape=tuple(1 if i in axis else n for i, n in enumerate(shape)))


def _broadcast_back(g: Any, xp: Any, axis: Axes, shape: Axes) -> Any:
    """Broadcast a reduced array along the reduced axes."""
    return xp.broadcast_to(_expand(g, xp, axis, shape), shape=shape)


def _sum_block_diagonal(xp: Any, level: int, operands: tuple[Any, ...], *, axis: Axes, keepdims: bool = False) -> Any:
    """Summing over the block-diagonal axis leaves the diagonal: the full rows are not needed."""
    (x,) = operands
    if 0 in axis and x.row_index is not None:
        return None
    others = tuple(a + 1 for a in axis if a != 0)
    result = xp.sum(x.array, axis=others, keepdims=keepdims) if others else x.array
    if 0 not in axis:
        return Batched(result, level, block_diagonal=True)
    count, size, *rest = result.shape
    rows = xp.transpose(result, perm=(1, 0, *range(2, 2 + len(rest))))
    return Batched(xp.reshape(rows, shape=(size * count, *([1] if keepdims else []), *rest)), level)


sum_ = linear(
    "sum", lambda g, x_shape, xp, axis: _broadcast_back(g, xp, axis, x_shape), batch=shift_axis("sum"),
    block_diagonal=_sum_block_diagonal,
    names=("reduce_sum",), doc="The sum over some axes.",
    structure=reduces, category="reduction", hazards=("sum",),
)  # fmt: skip


def _mean_dx(g: Any, x_shape: Axes, xp: Any, axis: Axes) -> Any:
    if len(axis) == len(x_shape):
        count = _count(x_shape, g)
        if type(g) is np.ndarray and not g.ndim and count <= 4096:  # the most common case (benchmark: mlp32)
            each = np.empty(x_shape, g.dtype)
            each.fill(g.item() / count)
            return each
        return xp.broadcast_to(g / count, shape=x_shape)
    return _broadcast_back(g / _count([x_shape[i] for i in axis], g), xp, axis, x_shape)


def _count(lengths: Any, g: Any) -> Any:
    """The number of elements, at least 1, as a divisor."""
    count = math.prod(lengths)
    return count or 1 if type(count) is int else number(maximum(count, 1), numpy_dtype(g))


mean = linear(
    "mean", _mean_dx, batch=shift_axis("mean"), wide=True,
    names=("reduce_mean",), doc="The mean over some axes.",
    structure=reduces, category="reduction", hazards=("sum", "empty"),
)  # fmt: skip


def _prod_dx(g, x, xp, axis):
    """g times the product of all other elements (to the left and to the right), exact with zero factors."""
    shape, kept = tuple(x.shape), [i for i in range(len(x.shape)) if i not in axis]
    order = (*kept, *axis)
    flat = xp.reshape(xp.transpose(x, perm=order), shape=(*(shape[i] for i in kept), math.prod(shape[i] for i in axis)))
    last = len(kept)
    left = xp.cumprod(flat, axis=last, exclusive=True, reverse=False)
    right = xp.cumprod(flat, axis=last, exclusive=True, reverse=True)
    others = xp.reshape(xp.conj(left * right), shape=tuple(shape[i] for i in order))
    back = tuple(order.index(i) for i in range(len(shape)))
    return _expand(g, xp, axis, shape) * xp.transpose(others, perm=back)


prod = primitive(
    "prod", ("x",), _prod_dx, batch=shift_axis("prod"), wide=True,
    names=("reduce_prod",), doc="The product over some axes.",
    structure=reduces, category="reduction", hazards=("product",),
    nan_free=True,
)  # fmt: skip


def _extreme_dx(g, x, out, xp, axis):
    """Equal extremes share the cotangent equally."""
    hit = xp.astype(xp.equal(x, _expand(out, xp, axis, tuple(x.shape))), dtype=numpy_dtype(g))
    return hit * (_expand(g, xp, axis, tuple(x.shape)) / xp.sum(hit, axis=axis, keepdims=True))


max_ = primitive(
    "max", ("x",), _extreme_dx, batch=shift_axis("max"), wide=True,
    names=("reduce_max",), doc="The largest number over some axes; equal ones share the gradient.",
    structure=picks_extreme,
    category="reduction", nan_free=True,
)  # fmt: skip
min_ = primitive(
    "min", ("x",), _extreme_dx, batch=shift_axis("min"), wide=True,
    names=("reduce_min",), doc="The smallest number over some axes; equal ones share the gradient.",
    structure=picks_extreme,
    category="reduction", nan_free=True,
)  # fmt: skip
any_ = primitive(
    "any", ("x",), batch=shift_axis("any"),
    names=("reduce_any",), doc="Whether any is true, over some axes.", category="reduction", instead=SMOOTH_TRUTH,
)  # fmt: skip
all_ = primitive(
    "all", ("x",), batch=shift_axis("all"),
    names=("reduce_all",), doc="Whether all are true, over some axes.", category="reduction", instead=SMOOTH_TRUTH,
)  # fmt: skip
argmax = primitive(
    "argmax", ("x",), tf_name="ArgMax", batch=shift_axis("argmax"),
    names=("argmax",), doc="The position of the largest number along an axis.", category="reduction",
    instead="Use weights instead of one position: tf.nn.softmax(k * x); their mean position is a soft argmax.",
)  # fmt: skip
argmin = primitive(
    "argmin", ("x",), tf_name="ArgMin", batch=shift_axis("argmin"),
    names=("argmin",), doc="The position of the smallest number along an axis.", category="reduction",
    instead="Use weights instead of one position: tf.nn.softmax(-k * x); their mean position is a soft argmin.",
)  # fmt: skip
argsort = primitive(
    "argsort", ("x",), batch=shift_axis("argsort"),
    names=("argsort",), doc="The positions that put an axis in order.", category="indexing",
    instead="Positions have no derivative, but the sorted values do: tf.sort(x).",
)  # fmt: skip


def _top_k_kernel(xp, x, *, axis, k, descending, dtype):
    order = xp.argsort(x, axis=axis, descending=descending)
    first = xp.getitem(order, index=(*[slice(None)] * axis, slice(0, k)))
    return xp.take_along_axis(x, first, axis=axis), xp.astype(first, dtype=dtype, source=first.dtype)


def _top_k_jvp(given, values, attrs, tangents):
    where = values[2]
    return namespace_of(given[0]).take_along_axis(given[0], where, axis=attrs["axis"]), None


def _top_k_structure(call: OpCall) -> Any:
    """Any element of a row can be the k-th; locally it is known which one is. Positions have no derivative."""
    ids, axis = call.dense_input(0), call.attrs["axis"]
    where = call.value(2) if call.local else None
    if where is not None:
        return np.take_along_axis(ids, where, axis), call.empty(1)
    return np.broadcast_to(call.sets.union_over(ids, (axis,), keepdims=True), call.shape), call.empty(1)


# The first k in order along an axis, and their indices. As in TensorFlow, the gradient of the indices is zero, not
# None.
top_k = primitive(
    "top_k", ("x",), lambda g, out1, x_shape, xp, axis: xp.put_along_axis(g[0], out1, axis=axis, size=x_shape[axis]),
    tf_name="TopKV2", outputs=2, kernel=_top_k_kernel, batch=shift_axis("top_k"), jvp=_top_k_jvp,
    names=("math.top_k",), doc="The k largest numbers of each row, and their positions.",
    structure=_top_k_structure, category="indexing",
)  # fmt: skip

cumsum = linear(
    "cumsum",
    lambda g, xp, axis, exclusive, reverse: xp.cumsum(g, axis=axis, exclusive=exclusive, reverse=not reverse),
    batch=shift_axis("cumsum"),
    names=("cumsum",), doc="Running sums along an axis.",
    structure=scans, category="reduction", hazards=("sum",),
)  # fmt: skip


def _cumprod_dx(g, x, xp, axis, exclusive, reverse):
    """Row j of the result is the product of the other elements up to each i >= j; exact with zero factors.

    P[j, i] = x_0 … x_{j-1} x_{j+1} … x_i: a cumulative product from j on without x_j, times the product before j. This
    is quadratic in the length of the axis, like any formula that is exact with zeros.
    """
    n = x.shape[axis]
    shape = tuple(x.shape)
    wide = (*shape[:axis], n, n, *shape[axis + 1 :])  # axis: j (left out), axis + 1: i (position)
    square = (1,) * axis + (n, n) + (1,) * (len(shape) - axis - 1)
    eye = xp.reshape(compared_positions(n, n, "equal"), shape=square)
    rows = xp.broadcast_to(xp.reshape(x, shape=(*shape[:axis], 1, n, *shape[axis + 1 :])), shape=wide)
    left_out = xp.where(eye, 1, rows)
    products = xp.cumprod(left_out, axis=axis + 1, exclusive=exclusive, reverse=reverse)
    relation = ("greater" if reverse else "less") + ("" if exclusive else "_equal")
    mask = xp.reshape(compared_positions(n, n, relation), shape=square)  # whether i is after j, or before
    cotangent = xp.reshape(g, shape=(*shape[:axis], 1, n, *shape[axis + 1 :]))
    return xp.sum(xp.where(mask, cotangent * xp.conj(products), 0), axis=(axis + 1,), keepdims=False)


cumprod = primitive(
    "cumprod", ("x",), _cumprod_dx, batch=shift_axis("cumprod"), wide=True,
    names=("math.cumprod",), doc="Running products along an axis.",
    structure=scans, category="reduction", hazards=("product",),
)  # fmt: skip


@generic_in_float32
def _logsumexp_kernel(xp, x, *, axis, keepdims=False):
    top = xp.max(x, axis=axis, keepdims=True)
    top = xp.where(xp.isfinite(top), top, 0)
    total = xp.log(xp.sum(xp.exp(x - top), axis=axis, keepdims=True)) + top
    return total if keepdims else xp.reshape(total, shape=tuple(n for i, n in enumerate(x.shape) if i not in axis))


def _logsumexp_dx(g, x, out, xp, axis):
    """g times the softmax. Its weights sum to 1 up to the rounding of `out`, which matters if that is large."""
    shape = tuple(x.shape)
    weights = xp.exp(x - _expand(out, xp, axis, shape))
    total = xp.sum(weights, axis=axis, keepdims=True)
    return _expand(g, xp, axis, shape) / xp.where(xp.greater(total, 0), total, 1) * weights


logsumexp = primitive(
    "logsumexp", ("x",), _logsumexp_dx, kernel=_logsumexp_kernel, batch=shift_axis("logsumexp"), wide=True,
    doc="log(sum(exp(x))) over some axes, without overflow.",
    structure=reduces, category="reduction", hazards=("log", "softmax"),
)  # fmt: skip
