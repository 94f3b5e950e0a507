"""Functions that the random kernels of both engines share: factorials, a cipher, and derivatives by parameters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.base import generic_kernels
from gradtape._src.arrays.shared.frames import Array, gauss_legendre, in_float64
from gradtape._src.interrupts import float_errors_ignored

_SIMON_KEY = 498247692  # what it puts before the two seed numbers of an order


# -- factorials, for the engines' own kernels: `xp` is the library, numpy or jax.numpy ---------------------------------
_LOG_FACTORIALS = np.array([math.lgamma(k + 1) for k in range(10)])
_STIRLING_RESTS = np.array(
    [
        0.0810614667953272,
        0.0413406959554092,
        0.0276779256849983,
        0.02079067210376509,
        0.0166446911898211,
        0.0138761288230707,
        0.0118967099458917,
        0.0104112652619720,
        0.00925546218271273,
        0.00833056343336287,
    ]
)


def log_factorial(xp: Any, k: Array) -> Array:
    """log(k!), by Stirling's series for all but small k."""
    small = k < 10
    n = xp.where(small, 10, k) + 1.0
    series = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5) - 1 / (1680 * n**7)
    stirling = (n - 0.5) * xp.log(n) - n + 0.5 * math.log(2 * math.pi) + series
    place = xp.where(small, xp.maximum(k, 0), 0).astype(np.int32)
    return xp.where(small, xp.asarray(_LOG_FACTORIALS)[place], stirling)


def stirling_rest(xp: Any, k: Array) -> Array:
    """log(k!) minus Stirling's approximation."""
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return xp.where(k <= 9, xp.asarray(_STIRLING_RESTS)[xp.clip(k, 0, 9).astype(int)], series)


class BinomialRejection(NamedTuple):
    """The constants of Hörmann's transformed rejection (BTRS) for n trials with probability p, and its exact test."""

    xp: Any
    n: Array
    a: Array
    b: Array
    quick: Array
    odds: Array
    alpha: Array
    mode: Array

    @classmethod
    def of(cls, xp: Any, n: Array, p: Array) -> BinomialRejection:
        """Compute the constants; `xp` is the library."""
        deviation = xp.sqrt(n * p * (1 - p))
        b = 1.15 + 2.53 * deviation
        a = -0.0873 + 0.0248 * b + 0.01 * p
        alpha = (2.83 + 5.1 / b) * deviation
        return cls(xp, n, a, b, 0.92 - 4.2 / b, p / (1 - p), alpha, xp.floor((n + 1) * p))

    def at(self, i: Array) -> BinomialRejection:
        """The constants of some elements."""
        return BinomialRejection(self.xp, *(values[i] for values in self[1:]))

    def accepts(self, k: Array, us: Array, v: Array) -> Array:
        """Whether k successes are accepted, by the exact test."""
        xp, n, a, b, _, odds, alpha, mode = self
        right = (
            (mode + 0.5) * xp.log((mode + 1) / (odds * (n - mode + 1)))
            + (n + 1) * xp.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * xp.log(odds * (n - k + 1) / (k + 1))
            + (stirling_rest(xp, mode) + stirling_rest(xp, n - mode) - stirling_rest(xp, k) - stirling_rest(xp, n - k))
        )
        return xp.log(v * alpha / (a / (us * us) + b)) <= right


# -- a permutation without a list: a block cipher that is repeated until the result is in range ----------------------
def shuffled_index(xp: Any, index: Array, seed: Array, most: Array) -> Array:
    """The position of each index in a permutation of 0 ... most, which two seeds determine (Simon, four rounds)."""
    index, seed, most = (xp.library.asarray(a) for a in (index, seed, most))
    keys = [np.uint64(_SIMON_KEY), *seed.astype(np.uint32).astype(np.uint64)]
    index, most = xp.library.broadcast_arrays(index.astype(np.uint64), most.astype(np.uint64))
    bits = xp.ceil(xp.library.log2(xp.maximum(most, 1).astype(np.float64))).astype(np.uint64)
    half = xp.maximum(bits + bits % np.uint64(2), np.uint64(16)) // np.uint64(2)

    def walk(at: Array) -> Array:
        return xp.where(at > most, _simon(at, keys, half), at)

    found = xp.while_loop(lambda at: (at > most).any(), walk, _simon(index, keys, half))
    return xp.where(most == 0, 0, found)


def _simon(value: Array, keys: Sequence[Array], half: Array) -> Array:
    """Simon's cipher with words of `half` bits, for numbers with twice as many."""
    word = (np.uint64(1) << half) - np.uint64(1)

    def left(x: Array, by: int) -> Array:
        return (x << np.uint64(by) | x >> (half - np.uint64(by))) & word

    def right(x: Array, by: int) -> Array:
        return (x >> np.uint64(by) | x << (half - np.uint64(by))) & word

    def mixed(x: Array) -> Array:
        return left(x, 1) & left(x, 8) ^ left(x, 2)

    first, second, third = (key & word for key in keys)
    constant = (np.uint64(0xFFFFFFFC) & word) ^ np.uint64(1)  # the low bit of Simon's sequence is 1
    fourth = constant ^ first ^ right(third, 3) ^ right(third, 4)
    high, low = value >> half & word, value & word
    for a, b in ((first, second), (third, fourth)):
        high = high ^ mixed(low) ^ a
        low = low ^ mixed(high) ^ b
    return high << half | low


# -- normal numbers between bounds -----------------------------------------------------------------------------------
@in_float64
def truncated_part(xp: Any, low: Array, high: Array, at: Array) -> Array:
    """P(normal < at) of a standard normal number that is known to lie in [low, high]."""
    mirrored = low + high > 0  # the lower tail is the one with all its digits
    a, b, c = xp.where(mirrored, -high, low), xp.where(mirrored, -low, high), xp.where(mirrored, -at, at)
    # P(normal < x) is exact to the last bits in the lower tail.
    below, above, here = 0.5 * xp.erfc(xp.stack(a, b, c, axis=0) / -math.sqrt(2))
    with float_errors_ignored():
        part = (here - below) / (above - below)
        # Beyond the last representable probability the tail is an exponential.
        far, least = xp.exp((b - c) * (b + c) / 2), xp.exp((b - a) * (b + a) / 2)
        part = xp.where(above - below < 1e-290, (far - least) / (1 - least), part)
    part = xp.clip(part, 0, 1)
    return xp.where(mirrored, 1 - part, part)


generic_kernels.update(shuffled_index=shuffled_index, truncated_part=truncated_part)


# -- the derivative of a gamma number by its alpha -------------------------------------------------------------------
@in_float64
def gamma_tail(xp: Any, alpha: Array, y: Array, *, order: int) -> Array:
    """The part of a gamma density on one side of y, weighed with log(t / y)^order, over the density at y.

    Minus the part below y where y is below alpha (or there is a series), the part above it otherwise. With
    t = y exp(-s) (or exp(s)) it is a smooth integral with one bump, for Gauss and Legendre; for small alpha, a series.
    """
    known = (alpha > 0) & (y >= 0)
    series = known & (y <= alpha + 1) & (alpha <= 50)
    pieces = [
        (series, lambda alpha, y: -_below_by_series(xp, alpha, y, order)),
        (known & ~series, lambda alpha, y: _side_by_integral(xp, alpha, y, order)),
    ]
    return xp.piecewise(alpha, pieces, y, idle=(1.0, 1.0))


def _below_by_series(xp: Any, alpha: Array, x: Array, order: int) -> Array:
    """x times a derivative (of this order, by alpha) of the sum of x^n / (alpha (alpha + 1) ... (alpha + n))."""
    first = [1 / alpha]
    for k in range(1, order + 1):
        first.append(-k * first[-1] / alpha)

    def goes_on(state: Any) -> Any:
        n, terms, total = state
        small = (xp.absolute(terms[order]) <= 1e-17 * xp.absolute(total)).all()
        return (n < 500) & ((n <= order + 1) | ~small)

    def step(state: Any) -> Any:
        n, terms, total = state
        grown: list[Array] = []
        for k, term in enumerate(terms):
            grown.append((x * term - (k * grown[-1] if k else 0)) / (alpha + n))
        return n + 1, grown, total + grown[order]

    return x * xp.while_loop(goes_on, step, (1, first, first[order]))[2]


def _side_by_integral(xp: Any, alpha: Array, x: Array, order: int) -> Array:
    nodes, weights = gauss_legendre()
    gap = xp.absolute(alpha - x)
    reach = 117 / (gap + xp.sqrt(gap * gap + 90 * x))  # where the integrand has fallen below the last digit
    s = reach[..., None] * nodes
    sign = xp.where(x <= alpha, -1.0, 1.0)[..., None]
    exponent = sign * alpha[..., None] * s - x[..., None] * xp.expm1(sign * s)
    return sign[..., 0] * x * reach * (((sign * s) ** order * xp.exp(exponent)) @ weights)
