"""Segments and scans: reductions of rows with the same id, and cumulative functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape._src.arrays.shared.scan import weighted_scan as weighted_scan_kernel
from gradtape._src.core.dispatch import primitive
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.structure import OpCall, dense, scans, scattered
from gradtape._src.ops.batching import broadcast_rows, shift_axis


# -- segments: ids lie in [0, count) ---------------------------------------------------------------------------------
def _segment_extreme_dx(g, x, ids, out, xp):
    """Equal extremes of a segment share its cotangent equally."""
    hit = xp.astype(xp.equal(x, xp.take(out, ids, axis=0, batch_dims=0)), dtype=numpy_dtype(g))
    ties = xp.add_rows(hit, ids, shape=tuple(out.shape))
    return xp.take(g, ids, axis=0, batch_dims=0) * hit / xp.take(ties, ids, axis=0, batch_dims=0)


def _rows_behind(name: str) -> Any:
    """The batching rule of a segment primitive: the hidden axis is moved after the rows, for one pass over all."""

    def rule(xp: Any, size: int, batched: list[bool], x: Any, ids: Any, **attrs: Any) -> Any:
        if batched[1]:
            return None
        swap = (1, 0, *range(2, len(x.shape)))
        return xp.transpose(getattr(xp, name)(xp.transpose(x, perm=swap), ids, **attrs), perm=swap)

    return rule


def _segment_structure(call: OpCall) -> Any:
    ids, segments = call.ids[0], call.saved("ids")
    if ids is None or segments is None:
        return dense(call)
    places = np.arange(1, math.prod(call.shape) + 1).reshape(call.shape)
    return scattered(call, ids, np.take(places, segments, axis=0))


segment_max = primitive(
    "segment_max",
    ("x", "ids"),
    _segment_extreme_dx,
    None,
    batch=_rows_behind("segment_max"),
    wide=True,
    structure=_segment_structure,
    category="indexing",
    names=("math.segment_max",),
    doc="The largest number of each segment.",
)
segment_min = primitive(
    "segment_min",
    ("x", "ids"),
    _segment_extreme_dx,
    None,
    batch=_rows_behind("segment_min"),
    wide=True,
    structure=_segment_structure,
    category="indexing",
    names=("math.segment_min",),
    doc="The smallest number of each segment.",
)


# -- scans -----------------------------------------------------------------------------------------------------------
def _running_product_dx(g, x, out, xp, half, axis, exclusive, reverse):
    """TensorFlow's formula, which divides by x: linear in the length of the axis, and 0 where x is 0.

    Products in half precision are recomputed in float32, because `out` was rounded.

    The derivative at zeros is lost, and complex slopes are not conjugated. `cumprod`, the primitive of `reduce_prod`,
    has the exact rule.
    """
    products = xp.running_product(x, axis=axis, exclusive=exclusive, reverse=reverse) if half else out
    return xp.divide_no_nan(xp.cumsum(g * products, axis=axis, exclusive=exclusive, reverse=not reverse), x)


running_product = primitive(
    "running_product",
    ("x",),
    _running_product_dx,
    tf_name="Cumprod",
    kernel=lambda xp, x, *, axis, exclusive, reverse: xp.cumprod(x, axis=axis, exclusive=exclusive, reverse=reverse),
    batch=shift_axis("running_product"),
    wide=True,
    structure=scans,
    category="reduction",
    doc="Running products in which zeros do not hide the gradients of the others.",
)


def _weighted_scan_batch(xp, size, batched, g, x, y, **attrs):
    rows = [broadcast_rows(xp, size, b, a) for b, a in zip(batched, (g, x, y), strict=True)]
    return xp.weighted_scan(*rows, **{**attrs, "axis": attrs["axis"] + 1})


def _weighted_scan_structure(call: OpCall) -> Any:
    """A cumulative sum of w and y, and x at its own position."""
    w, x, y = call.ids
    parts = [] if x is None else [x]
    if w is not None or y is not None:
        call.ids[1] = None
        parts.append(scans(call))
    return call.sets.union(*parts)


# exp(x_i) times the sum of w_j exp(-y_j) over the visible j. Its derivatives are such sums in the opposite direction,
# so that derivatives of every order of cumulative_logsumexp are as stable as the function itself.
weighted_scan = primitive(
    "weighted_scan",
    ("w", "x", "y"),
    lambda g, x, y, xp, axis, exclusive, reverse: xp.weighted_scan(
        g, -y, -x, axis=axis, exclusive=exclusive, reverse=not reverse
    ),
    lambda g, out: g * out,
    lambda g, w, x, y, xp, axis, exclusive, reverse: (
        -w * xp.weighted_scan(g, -y, -x, axis=axis, exclusive=exclusive, reverse=not reverse)
    ),
    kernel=weighted_scan_kernel,
    batch=_weighted_scan_batch,
    wide=True,
    structure=_weighted_scan_structure,
    category="reduction",
    doc="Running sums of w exp(-y), times exp(x), without overflow.",
)

cumulative_logsumexp = primitive(
    "cumulative_logsumexp",
    ("x",),
    lambda g, x, out, xp, axis, exclusive, reverse: xp.weighted_scan(
        g, x, out, axis=axis, exclusive=exclusive, reverse=not reverse
    ),
    tf_name="CumulativeLogsumexp",
    batch=shift_axis("cumulative_logsumexp"),
    wide=True,
    structure=scans,
    category="reduction",
    hazards=("softmax",),
    names=("math.cumulative_logsumexp",),
    doc="Running logsumexp along an axis.",
)
