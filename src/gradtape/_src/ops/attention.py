"""Attention as one primitive, so that engines need not store the weights of all pairs of positions.

q [..., rows, features], k [..., columns, features] and v [..., columns, values] have the same leading axes; a mask
broadcasts to [..., rows, columns]. The results are the output and the residual of the gradient, whose form the engine
chooses: only `attention_gradient` uses it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.positions import compared_positions
from gradtape._src.core.dispatch import primitive
from gradtape._src.core.primitive import kind_of, numpy_dtype
from gradtape._src.core.structure import matrices
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops import nn as nn  # softmax, of a rule
from gradtape._src.ops.batching import broadcast_rows


def _attention_vjp(xp, g, needs, *saved, scale, causal):
    (q, k, v, *mask), (out, kept) = saved[: len(needs)], saved[len(needs) :]
    if g[0] is None:
        return [None] * len(needs)
    biased = bool(mask) and needs[3] is not None and kind_of(mask[0]) != "b"
    found = xp.attention_gradient(g[0], q, k, v, out, kept, *mask, scale=scale, causal=causal, with_scores=biased)
    return [*found, *[None] * (len(needs) - len(found))]


def _gradient_vjp(_, cotangents, needs, *saved, scale, causal, with_scores):
    """The derivative of <a, dq> + <b, dk> + <c, dv> + <e, dscores>, expressed with the weights p.

    With u = scale (a kᵀ + q bᵀ) + e, the cotangent of the gradient of the scores, and s = d vᵀ, the cotangent of the
    weights, that sum is Σ p (u s + d cᵀ) - Σ (Σ p u) (Σ p s), where the inner sums are over a row.
    """
    dtype = numpy_dtype(saved[1])
    (d, q, k, v), mask = map(_wide, saved[:4]), [_wide(x) for x in saved[6 : len(needs)]]
    a, b, c, e, *_ = *map(_wide, cotangents), None
    xp = common_namespace([x for x in (*cotangents, d, q, k, v, *mask) if x is not None])
    last = len(q.shape) - 1
    product = partial(xp.matmul, adjoint_x=False, adjoint_y=False)
    outer = partial(xp.matmul, adjoint_x=False, adjoint_y=True)
    inner = partial(xp.matmul, adjoint_x=True, adjoint_y=False)

    def row_sum(x):
        return xp.sum(x, axis=(last,), keepdims=True)

    p = _weights(q, k, mask, scale, causal)
    s = outer(d, v)
    centred = s - row_sum(p * s)
    u = _total(None if a is None else outer(a, k) * scale, None if b is None else outer(q, b) * scale, e)
    if u is not None:
        mean = row_sum(p * u)
        through = p * (u - mean)  # the cotangent of s
    slope = _total(None if u is None else u * centred - mean * s, None if c is None else outer(d, c))
    if slope is None:
        return [None] * len(needs)
    bent = p * (slope - row_sum(p * slope))  # the cotangent of the scores
    steep = p * centred  # the cotangent of u
    wanted = [
        lambda: _total(None if u is None else product(through, v), None if c is None else product(p, c)),
        lambda: _total(product(bent, k) * scale, None if b is None else product(steep, b) * scale),
        lambda: _total(inner(bent, q) * scale, None if a is None else inner(steep, a) * scale),
        lambda: None if u is None else inner(through, d),
        lambda: None,
        lambda: None,
        lambda: bent if kind_of(mask[0]) != "b" else None,
    ]
    found = [None if need is None else rule() for need, rule in zip(needs, wanted, strict=False)]
    return [None if x is None else _cast(x, dtype) for x in found]


def _total(*terms):
    """The sum of the terms that are not None; None if there are none."""
    known = [t for t in terms if t is not None]
    return sum(known[1:], known[0]) if known else None


def _wide(x):
    """Cast half precision to float32, because sums cancel."""
    return x if x is None or numpy_dtype(x).itemsize != 2 else _cast(x, np.dtype(np.float32))


def _cast(x, dtype):
    have = numpy_dtype(x)
    return x if have == dtype else namespace_of(x).astype(x, dtype=dtype, source=have)


def _weights(q, k, mask, scale, causal):
    """The softmax of the scores, as a composition."""
    xp = common_namespace([q, k, *mask])
    scores = xp.matmul(q * scale, k, adjoint_x=False, adjoint_y=True)
    last = len(scores.shape) - 1
    rows, columns = scores.shape[-2:]
    allowed: Any = compared_positions(rows, columns, "greater_equal") if causal else None
    if mask and kind_of(mask[0]) == "b":
        allowed = mask[0] if allowed is None else xp.logical_and(allowed, mask[0])
    elif mask:
        scores = scores + mask[0]
    if allowed is None:
        return xp.softmax(scores, axis=last)
    lowest = float(as_dtype(numpy_dtype(scores)).min) / 2  # finite: a fully masked row must not be NaN
    weights = xp.softmax(xp.where(allowed, scores, lowest), axis=last)
    return xp.where(allowed, weights, 0)


# -- batches: leading axes are supported by attention itself ---------------------------------------------------------
def _rows(xp: Any, size: int, batched: list[bool], arrays: tuple[Any, ...], rank: int) -> list[Any]:
    """Give every operand the hidden axis; align a mask (the last one, after `rank` operands) with the others."""
    rows = [broadcast_rows(xp, size, b, a) for a, b in zip(arrays[:rank], batched[:rank], strict=True)]
    for a, b in zip(arrays[rank:], batched[rank:], strict=True):
        missing = len(rows[0].shape) - len(a.shape)
        rows.append(xp.reshape(a, shape=(size, *[1] * missing, *a.shape[1:])) if b and missing else a)
    return rows


def _attention_batch(xp: Any, size: int, batched: list[bool], *arrays: Any, **attrs: Any) -> Any:
    return xp.attention(*_rows(xp, size, batched, arrays, 3), **attrs)


def _gradient_batch(xp: Any, size: int, batched: list[bool], *arrays: Any, **attrs: Any) -> Any:
    if any(batched[1:]):
        arrays = tuple(_rows(xp, size, batched, arrays, 6))
    return xp.attention_gradient(*arrays, **attrs)  # otherwise the rows of d share the weights


def _gradient_block_diagonal(xp: Any, level: int, operands: tuple[Any, ...], **attrs: Any) -> Any:
    d, *others = operands
    if any(type(o) is Batched for o in others) or len(d.shape) < 3 or attrs["with_scores"]:
        return None
    return tuple(Batched(part, level, block_diagonal=True) for part in xp.attention_gradient(d.array, *others, **attrs))


attention = primitive(
    "attention",
    ("q", "k", "v", "mask"),
    vjp_all=_attention_vjp,
    vjp_all_saves=range(6),
    vjp_all_zeros=False,
    outputs=2,
    tf_name="ScaledDotProductAttention",
    batch=_attention_batch,
    structure=matrices,
    category="linear algebra",
    hazards=("softmax",),
    doc="softmax(q k' / scale + mask) v.",
)
attention_gradient = primitive(
    "attention_gradient",
    ("d", "q", "k", "v", "out", "kept", "mask"),
    vjp_all=_gradient_vjp,
    vjp_all_saves=frozenset({0, 1, 2, 3, 6}),
    vjp_all_zeros=False,
    outputs=-1,
    tf_name="ScaledDotProductAttentionGrad",
    batch=_gradient_batch,
    block_diagonal=_gradient_block_diagonal,
    structure=matrices,
    category="linear algebra",
    doc="The derivatives of attention with respect to all its inputs.",
)
