"""Derivatives of random numbers by their parameters (implicit reparameterization)."""

from __future__ import annotations

from gradtape._src.arrays.shared import random as shared
from gradtape._src.core.dispatch import primitive
from gradtape._src.ops import special as special  # digamma, of a rule
from gradtape._src.ops.index import take_batch


# The derivatives of these integrals are integrals of the same kind, so derivatives of every order exist.
def _gamma_tail_dy(g, x, y, out, xp, order):
    slope = out * (1 - (x - 1) / y)
    if order == 0:
        return g * (slope - 1)
    return g * (slope - order * xp.gamma_tail(x, y, order=order - 1) / y)


def _rows_together(xp, size, batched, x, y, *, order):
    rank = max(len(x.shape) - batched[0], len(y.shape) - batched[1])
    x, y = (
        xp.reshape(a, shape=(size, *[1] * (rank - len(a.shape) + 1), *a.shape[1:])) if b else a
        for a, b in ((x, batched[0]), (y, batched[1]))
    )
    return xp.gamma_tail(x, y, order=order)


gamma_tail = primitive(
    "gamma_tail",
    ("x", "y"),
    lambda g, x, y, xp, order: g * xp.gamma_tail(x, y, order=order + 1),
    _gamma_tail_dy,
    kernel=shared.gamma_tail,
    batch=_rows_together,
    category="elementwise",
    doc="How much of a gamma density lies on one side of y, for the derivatives of gamma numbers.",
)


def _gamma_sample_dx(g, x, out, xp):
    """-(dP/dalpha) / (dP/dout): the derivative of the number at a fixed quantile (implicit reparameterization)."""
    slope = xp.gamma_tail(x, out, order=1) + xp.gamma_tail(x, out, order=0) * (xp.log(out) - xp.digamma(x))
    return g * xp.where(xp.greater(out, 0), slope, 0)


# x is alpha, y are numbers drawn with it. The value is y; tapes record its derivative by alpha.
gamma_sample = primitive(
    "gamma_sample",
    ("x", "y"),
    _gamma_sample_dx,
    None,
    tf_name="RandomGamma",
    elementwise=True,
    kinds="f",
    kernel=lambda xp, x, y: xp.where(xp.equal(x, x), y, x),
    doc="Gamma numbers, as a function of their parameter.",
)
# x and y are bounds, z a normal number drawn between them, u = P(normal < z | x < normal < y). The value is z; tapes
# record its derivative by the bounds at a fixed u.
truncated_sample = primitive(
    "truncated_sample",
    ("x", "y", "u", "z"),
    lambda g, x, u, out, xp: g * (1 - u) * xp.exp(0.5 * (out * out - x * x)),
    lambda g, y, u, out, xp: g * u * xp.exp(0.5 * (out * out - y * y)),
    None,
    None,
    tf_name="ParameterizedTruncatedNormal",
    elementwise=True,
    kinds="f",
    kernel=lambda xp, x, y, u, z: xp.where(xp.logical_and(xp.less(x, y), xp.equal(u, u)), z, u),
    doc="Normal numbers between bounds, as a function of the bounds.",
)
shuffle_rows = primitive(
    "shuffle_rows",
    ("x", "order"),
    None,
    None,
    tf_name="RandomShuffle",
    kernel=lambda xp, x, order: xp.take(x, order, axis=0),
    batch=lambda xp, size, batched, x, order: xp.stop_gradient(
        take_batch(xp, size, batched, x, order, axis=0, batch_dims=0)
    ),
    category="indexing",
    doc="The rows in another order.",
)
