"""Cumulative sums in logarithms."""

from __future__ import annotations

from math import inf
from typing import Any

from gradtape._src.arrays.half import widened
from gradtape._src.interrupts import float_errors_ignored

Array = Any


def weighted_scan(xp: Any, w: Array, x: Array, y: Array, *, axis: int, **how: bool) -> Array:
    """Cumulative sums of w exp(-y), times exp(x): positive and negative parts in logarithms, so
    that nothing overflows.
    """
    dtype = w.dtype
    w, x, y = map(widened, (w, x, y))
    halves = []
    with float_errors_ignored():
        for part in (xp.maximum(w, 0), xp.maximum(-w, 0)):
            logarithms = xp.where(part > 0, xp.log(part) - y, -inf)
            total = xp.cumulative_logsumexp(logarithms, axis=axis, **how)
            halves.append(xp.where((total == -inf) | (x == -inf), 0, xp.exp(x + total)))
        return (halves[0] - halves[1] + xp.where(xp.isnan(w), w, 0)).astype(dtype)
