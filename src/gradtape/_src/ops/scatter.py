"""Scatters that compare values; numeric checks, and counts of values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.checks import Rule, verify
from gradtape._src.arrays.positions import positions
from gradtape._src.arrays.symbolic import symbolic_rules
from gradtape._src.core.dispatch import primitive
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.structure import unchanged
from gradtape._src.ops.batching import broadcast_rows
from gradtape._src.ops.index import put_nd_batch, put_structure


# -- tensor_scatter_nd_max, tensor_scatter_nd_min --------------------------------------------------------------------
def _shares(g: Any, x: Any, updates: Any, indices: Any, out: Any, xp: Any) -> tuple[Any, Any, Any]:
    """Where x and the updates are equal to the result, and the cotangent divided by their number."""
    dtype = numpy_dtype(g)
    own = xp.astype(xp.equal(x, out), dtype=dtype)
    theirs = xp.astype(xp.equal(updates, xp.gather_nd(out, indices, batch_dims=0)), dtype=dtype)
    ties = own + xp.scatter_nd(theirs, indices, shape=tuple(x.shape), batch_dims=0)
    return own, theirs, g / ties


def _scatter_extreme_dx(g, x, updates, indices, out, xp):
    own, _, share = _shares(g, x, updates, indices, out, xp)
    return share * own


def _scatter_extreme_du(g, x, updates, indices, out, xp):
    _, theirs, share = _shares(g, x, updates, indices, out, xp)
    return xp.gather_nd(share, indices, batch_dims=0) * theirs


scatter_max = primitive(
    "scatter_max",
    ("x", "updates", "indices"),
    _scatter_extreme_dx,
    _scatter_extreme_du,
    None,
    tf_name="TensorScatterMax",
    batch=put_nd_batch("scatter_max"),
    wide=True,
    structure=put_structure,
    category="indexing",
    doc="An array with numbers at some coordinates raised to others.",
)
scatter_min = primitive(
    "scatter_min",
    ("x", "updates", "indices"),
    _scatter_extreme_dx,
    _scatter_extreme_du,
    None,
    tf_name="TensorScatterMin",
    batch=put_nd_batch("scatter_min"),
    wide=True,
    structure=put_structure,
    category="indexing",
    doc="An array with numbers at some coordinates lowered to others.",
)


# -- ops without a gradient in TensorFlow: a path through them is an error, not None ---------------------------------
def no_entry(tf_name: str) -> Any:
    """A rule that raises TensorFlow's error for a missing gradient."""

    def rule(g):
        raise LookupError(
            f"gradient registry has no entry for: {tf_name}. TensorFlow has no gradient for this op either; use "
            "tf.stop_gradient on its input if you do not need one."
        )

    return rule


bitcast = primitive(
    "bitcast",
    ("x",),
    no_entry("Bitcast"),
    may_raise=True,
    batch=lambda xp, size, batched, x, dtype: xp.bitcast(x, dtype=dtype),
    category="shape",
    names=("bitcast",),
    doc="The same bytes as another dtype.",
)
unique = primitive(
    "unique",
    ("x",),
    no_entry("Unique"),
    outputs=3,
    may_raise=True,
    category="indexing",
    names=("unique",),
    doc="The distinct elements, and the place of each element among them.",
)
unique_with_counts = primitive(
    "unique_with_counts",
    ("x",),
    no_entry("UniqueWithCounts"),
    outputs=3,
    may_raise=True,
    kernel=lambda xp, x: xp.unique(x),
    category="indexing",
    names=("unique_with_counts",),
    doc="The distinct elements, the place of each element among them, and how often each occurs.",
)


def _bincount_batch(xp, size, batched, weights, places, *, count):
    """Every row has its own bins, and one more for elements that are not counted."""
    weights, places = broadcast_rows(xp, size, batched[0], weights), broadcast_rows(xp, size, batched[1], places)
    first = positions(size, numpy_dtype(places)) * (count + 1)
    apart = places + xp.reshape(first, shape=(size, 1))
    flat = xp.dense_bincount(
        xp.reshape(weights, shape=(math.prod(weights.shape),)),
        xp.reshape(apart, shape=(math.prod(apart.shape),)),
        count=size * (count + 1),
    )
    return xp.getitem(xp.reshape(flat, shape=(size, count + 1)), index=(slice(None), slice(0, count)))


dense_bincount = primitive(
    "dense_bincount",
    ("weights", "places"),
    no_entry("DenseBincount"),
    None,
    may_raise=True,
    kernel=lambda xp, weights, places, *, count: xp.add_rows(weights, places, shape=(count + 1,))[:count],
    batch=_bincount_batch,
    category="reduction",
    doc="How often, or with which total weight, each integer occurs.",
)
histogram = primitive(  # x is what the bins were computed from, so that tapes know that a path ends here
    "histogram",
    ("x", "bins"),
    tf_name="HistogramFixedWidth",
    unregistered=True,
    kernel=lambda xp, x, bins, *, count: xp.add_rows(xp.ones_like(bins), bins, shape=(count,)),
    category="reduction",
    instead="Counts have no derivative; sums of tf.exp(-k * (x - center) ** 2) are a soft histogram.",
    doc="How many numbers fall between some edges.",
)
guarantee_const = primitive(
    "guarantee_const",
    ("x",),
    no_entry("GuaranteeConst"),
    may_raise=True,
    kernel=lambda xp, x: x,
    batch=lambda xp, size, batched, x: x,
    structure=unchanged,
    category="shape",
    names=("guarantee_const",),
    doc="The same numbers.",
)


# -- check_numerics --------------------------------------------------------------------------------------------------
def _check_kernel(xp: Any, x: Any, *, message: str) -> Any:
    return verify(_FINITE, x, message=message)


def _not_finite(xp: Any, x: Any, **_: Any) -> Any:
    return ~xp.isfinite(x)


def _has_not_finite(x: Any, message: str) -> Exception:
    found = [word for word, test in (("Inf", np.isinf), ("NaN", np.isnan)) if np.any(test(x))]
    return errors.invalid_argument(f"{message} : Tensor had {' and '.join(found)} values", "CheckNumerics")


_FINITE = Rule(_not_finite, _has_not_finite, always=True, needed=True)

symbolic_rules["check_numerics"] = lambda x, *, message: verify(_FINITE, x, message=message)


check_numerics = primitive(
    "check_numerics",
    ("x",),
    lambda g, message: namespace_of(g).check_numerics(
        g, message=f"Not a number (NaN) or infinity (Inf) values detected in gradient. {message}"
    ),
    kernel=_check_kernel,
    batch=lambda xp, size, batched, x, message: xp.check_numerics(x, message=message),
    may_raise=True,
    structure=unchanged,
    category="shape",
    moves_only=True,
    doc="The same numbers, or an error where one of them is NaN or infinite.",
)
