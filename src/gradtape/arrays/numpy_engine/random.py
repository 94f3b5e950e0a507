"""Random bits: the same for the same seed, on every machine.

The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): block
i of the stream is a keyed scrambling of the number i, so that any part of it can be computed by itself, in any order.
A stream is named by a key (64 bits) and the counter of its first block (128 bits): three words of 64 bits in one array,
[key, low, high], the first operand of every kernel. How bits become numbers (mantissas, Box-Muller, remainders) follows
TensorFlow's kernels, so that uniform and normal numbers are TensorFlow's own.
Distributions are computed in double precision and rounded once, which hides the last-bit differences between machines.
"""

from __future__ import annotations

import math as _math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.interrupts import float_errors_ignored

Array = Any
Shape = tuple[int, ...]

_LOW32 = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = 0x9E3779B9, 0xBB67AE85
_CHUNK = 4096  # blocks at a time: the working set stays in the cache
SEEDS_KEY = 0x02461E293EC8F720  # with which TensorFlow scrambles the seeds of stateless ops


# -- streams ---------------------------------------------------------------------------------------------------------
def stream_of(key: int, counter: int) -> Array:
    """The stream of a key that starts at a counter."""
    return np.array([key % 2**64, counter % 2**64, (counter >> 64) % 2**64], np.uint64)


def stream_of_seed(seed: Array) -> Array:
    """The stream of a stateless op: its two seed numbers, scrambled."""
    low, high = seed.astype(np.uint64).reshape(2, 1)
    a, b, c, d = philox(SEEDS_KEY, low, high)
    return np.concatenate([a | b << _HALF, np.zeros(1, np.uint64), c | d << _HALF])


def stream_of_state(state: Array) -> Array:
    """The stream of a generator: its state is [low, high, key], of signed numbers."""
    return np.roll(state, 1).astype(np.uint64)


def advanced_state(state: Array, delta: Array) -> Array:
    """The state of a generator 256 * delta blocks later: what one number may use, times how many were drawn."""
    low, high, key = state.astype(np.uint64)
    step, above = np.uint64(int(delta) * 256 % 2**64), np.uint64((int(delta) >> 56) % 2**64)
    with float_errors_ignored():
        at = low + step
        return np.array([at, high + above + np.uint64(at < low), key]).astype(np.int64)


# -- bits ------------------------------------------------------------------------------------------------------------
def philox(key: int, low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
    """The four 32-bit words (held in uint64) of the blocks at the counters high * 2**64 + low."""
    a, b, c, d = low & _LOW32, low >> _HALF, high & _LOW32, high >> _HALF
    first, second = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        p, q = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        a = (q >> _HALF) ^ b
        a ^= np.uint64(first)
        c = (p >> _HALF) ^ d
        c ^= np.uint64(second)
        q &= _LOW32
        p &= _LOW32
        b, d = q, p
        first, second = (first + _WEYL[0]) & 0xFFFFFFFF, (second + _WEYL[1]) & 0xFFFFFFFF
    return a, b, c, d


def random_bits(stream: Array, *, count: int) -> Array:
    """`count` 32-bit words of a stream."""
    blocks = -(-count // 4)
    result = np.empty((blocks, 4), np.uint32)
    key, low, high = (int(word) for word in stream)
    for start in range(0, blocks, _CHUNK):
        steps = np.arange(start, min(start + _CHUNK, blocks), dtype=np.uint64)
        at = steps + np.uint64(low)
        carry = (at < steps).astype(np.uint64) + np.uint64(high)
        for word, values in enumerate(philox(key, at, carry)):
            result[start : start + len(steps), word] = values
    return result.reshape(-1)[:count]


def _words64(words: Array) -> Array:
    """Pairs of words as 64-bit ones, the first the low half."""
    return words[0::2].astype(np.uint64) | words[1::2].astype(np.uint64) << _HALF


def random_integers(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Integers of the whole range of a dtype of 32 or 64 bits."""
    count = _math.prod(shape)
    if np.dtype(dtype).itemsize == 8:
        return _words64(random_bits(stream, count=2 * count)).view(dtype).reshape(shape)
    return random_bits(stream, count=count).view(dtype).reshape(shape)


def random_range(stream: Array, low: Array, high: Array, *, shape: Shape, dtype: Any) -> Array:
    """Integers in [low, high): remainders of 32 bits or, where their unevenness would show (above 2**-16), of 64."""
    count, first = _math.prod(shape), int(low)
    span = max(int(high) - first, 1)
    left_over = 2**32 % span
    if np.dtype(dtype).itemsize == 8 or left_over * (span - left_over) > span << 16:
        offset = _words64(random_bits(stream, count=2 * count)) % np.uint64(span)
    else:
        offset = (random_bits(stream, count=count) % np.uint32(span)).astype(np.uint64)
    # Two's complement takes care of the sign.
    return (offset + np.uint64(first % 2**64)).view(np.int64).astype(dtype).reshape(shape)


def random_order(stream: Array, *, count: int) -> Array:
    """A random order of `count` things: that of random 64-bit keys."""
    return np.argsort(random_integers(stream, shape=(count,), dtype=np.uint64), kind="stable")


# -- numbers ---------------------------------------------------------------------------------------------------------
def random_uniform(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Numbers in [0, 1): random mantissas behind a fixed exponent, minus one. Never 1."""
    dtype, count = np.dtype(dtype), _math.prod(shape)
    if dtype == np.float64:
        return _doubles(random_bits(stream, count=2 * count)).reshape(shape)
    words = random_bits(stream, count=count).reshape(shape)
    if dtype == np.float32:
        words &= np.uint32(0x7FFFFF)
        words |= np.uint32(0x3F800000)
        result = words.view(np.float32)
        result -= 1
        return result
    mantissa, one = (10, 0x3C00) if dtype == np.float16 else (7, 0x3F80)
    short = (words & np.uint32((1 << mantissa) - 1)).astype(np.uint16) | np.uint16(one)
    return (short.view(dtype).astype(np.float32) - 1).astype(dtype)


def _doubles(words: Array) -> Array:
    """Pairs of words as doubles in [0, 1): 20 bits of the first above the 32 of the second."""
    mantissa = (words[0::2].astype(np.uint64) & np.uint64(0xFFFFF)) << _HALF | words[1::2].astype(np.uint64)
    return (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1


def random_normal(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Standard normal numbers by Box and Muller: two of each two uniform ones."""
    dtype, count = np.dtype(dtype), _math.prod(shape)
    pairs = -(-count // 2)
    source = np.float64 if dtype == np.float64 else np.float32
    u = random_uniform(stream, shape=(2 * pairs,), dtype=source).astype(np.float64)
    result = np.empty((pairs, 2))
    radius = np.sqrt(-2 * np.log(np.maximum(u[0::2], 1e-7)))
    turn = u[1::2] * (2 * np.pi)
    np.multiply(np.sin(turn), radius, out=result[:, 0])
    np.multiply(np.cos(turn), radius, out=result[:, 1])
    return result.reshape(-1)[:count].astype(dtype).reshape(shape)


# -- the normal distribution's quantiles -----------------------------------------------------------------------------
# Wichura, "Algorithm AS 241: the percentage points of the normal distribution", 1988: three ratios of polynomials.
CENTRE = (
    (
        2509.0809287301226727,
        33430.575583588128105,
        67265.770927008700853,
        45921.953931549871457,
        13731.693765509461125,
        1971.5909503065514427,
        133.14166789178437745,
        3.387132872796366608,
    ),
    (
        5226.495278852545925,
        28729.085735721942674,
        39307.89580009271061,
        21213.794301586595867,
        5394.1960214247511077,
        687.1870074920579083,
        42.313330701600911252,
        1.0,
    ),
)
MIDDLE = (
    (
        7.7454501427834140764e-4,
        0.0227238449892691845833,
        0.24178072517745061177,
        1.27045825245236838258,
        3.64784832476320460504,
        5.7694972214606914055,
        4.6303378461565452959,
        1.42343711074968357734,
    ),
    (
        1.05075007164441684324e-9,
        5.475938084995344946e-4,
        0.0151986665636164571966,
        0.14810397642748007459,
        0.68976733498510000455,
        1.6763848301838038494,
        2.05319162663775882187,
        1.0,
    ),
)
TAIL = (
    (
        2.01033439929228813265e-7,
        2.71155556874348757815e-5,
        0.0012426609473880784386,
        0.026532189526576123093,
        0.29656057182850489123,
        1.7848265399172913358,
        5.4637849111641143699,
        6.6579046435011037772,
    ),
    (
        2.04426310338993978564e-15,
        1.4215117583164458887e-7,
        1.8463183175100546818e-5,
        7.868691311456132591e-4,
        0.0148753612908506148525,
        0.13692988092273580531,
        0.59983220655588793769,
        1.0,
    ),
)


def _ratio(coefficients: Any, x: Array) -> Array:
    above, below = coefficients
    return np.polyval(above, x) / np.polyval(below, x)


def _normal_quantile(p: Array) -> Array:
    """x with P(normal < x) = p, to double precision."""
    flat = np.ravel(p)
    result = np.empty(flat.shape)
    for start in range(0, flat.size, _CHUNK):
        result[start : start + _CHUNK] = _normal_quantiles(flat[start : start + _CHUNK])
    return result.reshape(np.shape(p))


def _normal_quantiles(p: Array) -> Array:
    q = p - 0.5
    result = q * _ratio(CENTRE, 0.180625 - np.minimum(q * q, 0.180625))
    far = np.flatnonzero(np.abs(q) > 0.425)
    if far.size:
        side, outer = q[far], p[far]
        tail = np.sqrt(-np.log(np.maximum(np.where(side < 0, outer, 1 - outer), 5e-324)))
        value = _ratio(MIDDLE, np.minimum(tail, 5) - 1.6)
        if np.any(tail > 5):
            value = np.where(tail > 5, _ratio(TAIL, np.maximum(tail, 5) - 5), value)
        result[far] = np.copysign(value, side)
    return result


_erfc = np.frompyfunc(_math.erfc, 1, 1)


def _normal_below(x: Array) -> Array:
    """P(normal < x), exact to the last bits in the lower tail."""
    return 0.5 * np.asarray(_erfc(np.asarray(x, np.float64) / -_math.sqrt(2)), np.float64)


def truncated_quantile(x: Array, y: Array, u: Array) -> Array:
    """The quantile u of a standard normal number that is known to lie in [x, y]."""
    low, high, part = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (x, y, u)))
    mirrored = low + high > 0  # the lower tail is the one with all its digits
    a, b, p = np.where(mirrored, -high, low), np.where(mirrored, -low, high), np.where(mirrored, 1 - part, part)
    below, above = _normal_below(a), _normal_below(b)
    result = _normal_quantile(below + p * (above - below))
    far = above - below < 1e-290  # beyond the last representable probability the tail is an exponential
    if np.any(far):
        shrink = np.exp((np.minimum(b * b - a * a, 0)) / 2)
        with float_errors_ignored():
            tail = -np.sqrt(np.maximum(b * b - 2 * np.log(np.maximum(p * (1 - shrink) + shrink, 5e-324)), 0))
        result = np.where(far, tail, result)
    result = np.clip(result, a, b)
    return np.where(mirrored, -result, result).astype(np.result_type(x, y))


def random_truncated(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Standard normal numbers in [-2, 2], by the quantiles of uniform ones."""
    u = random_open(stream, shape=shape, dtype=np.float64)
    tail = 0.5 * _math.erfc(_math.sqrt(2))
    return np.clip(_normal_quantile(tail + u * (1 - 2 * tail)), -2, 2).astype(dtype)


def random_open(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Doubles in (0, 1), neither 0 nor 1, so that logarithms and quantiles are finite; then rounded to the dtype."""
    return (random_uniform(stream, shape=shape, dtype=np.float64) + 2.0**-53).astype(dtype)


# -- rejection: every element tries on a stream of its own -----------------------------------------------------------
class _Tries:
    """Uniform numbers for the elements that are still trying: element i, try t, has blocks of its own."""

    def __init__(self, stream: Array) -> None:
        self._key, self._low, self._high = (int(word) for word in stream)

    def uniform(self, elements: Array, attempt: int) -> tuple[Array, Array]:
        """Two doubles in (0, 1) for each element."""
        low = elements.astype(np.uint64) + np.uint64(self._low)
        # The upper half of the counter counts tries: far from the blocks that sequential use would take.
        high = np.full(low.shape, (self._high + ((attempt + 1) << 32)) % 2**64, np.uint64)
        a, b, c, d = philox(self._key, low, high)
        return _open_double(a, b), _open_double(c, d)

    def until_accepted(self, count: int, propose: Callable[[Array, int], tuple[Array, Array]]) -> Array:
        """Ask `propose(elements, attempt)` for values and whether they are accepted, until all are."""
        result, waiting, attempt = np.zeros(count), np.arange(count), 0
        while waiting.size:
            values, accepted = propose(waiting, attempt)
            result[waiting[accepted]] = values[accepted]
            waiting, attempt = waiting[~accepted], attempt + 1
            if attempt > 1000:  # parameters that are NaN never accept
                result[waiting] = np.nan
                break
        return result


def _open_double(high: Array, low: Array) -> Array:
    mantissa = (high & np.uint64(0xFFFFF)) << _HALF | low
    return (mantissa | np.uint64(1023 << 52)).view(np.float64) - (1 - 2.0**-53)


def random_gamma(stream: Array, alpha: Array) -> Array:
    """Gamma numbers with rate 1 (Marsaglia and Tsang, 2000); alpha < 1 by a power of a uniform number."""
    shape, dtype = alpha.shape, alpha.dtype
    alpha = np.ravel(alpha).astype(np.float64)
    tries = _Tries(stream)
    boosted = np.where(alpha < 1, alpha + 1, alpha)
    d = boosted - 1 / 3
    c = 1 / np.sqrt(9 * d)

    def propose(elements: Array, attempt: int) -> tuple[Array, Array]:
        u, turn = tries.uniform(elements, 2 * attempt)
        x = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * turn)
        v = (1 + c[elements] * x) ** 3
        accept, _ = tries.uniform(elements, 2 * attempt + 1)
        with float_errors_ignored():
            inside = np.log(accept) < 0.5 * x * x + d[elements] * (1 - v + np.log(v))
        return d[elements] * v, (v > 0) & inside

    result = tries.until_accepted(alpha.size, propose)
    small = np.flatnonzero(alpha < 1)
    if small.size:
        _, u = tries.uniform(small, 1)
        with float_errors_ignored():
            result[small] *= np.exp(np.log(u) / alpha[small])
    return result.reshape(shape).astype(dtype)


LOG_FACTORIALS = np.array([_math.lgamma(k + 1) for k in range(10)])


def _log_factorial(k: Array) -> Array:
    """log(k!), by Stirling's series beyond a few."""
    small = k < 10
    n = np.where(small, 10, k) + 1.0
    series = 1 / (12 * n) - 1 / (360 * n**3) + 1 / (1260 * n**5) - 1 / (1680 * n**7)
    stirling = (n - 0.5) * np.log(n) - n + 0.5 * _math.log(2 * _math.pi) + series
    return np.where(small, LOG_FACTORIALS[np.where(small, np.maximum(k, 0), 0).astype(int)], stirling)


def random_poisson(stream: Array, rate: Array, *, dtype: Any) -> Array:
    """Poisson counts: by the sum of probabilities for small rates, by Hörmann's PTRS (1993) for others."""
    shape = rate.shape
    rate = np.ravel(rate).astype(np.float64)
    tries = _Tries(stream)
    result = np.full(rate.size, np.nan)
    result[rate == 0] = 0
    few, many = np.flatnonzero((rate > 0) & (rate < 10)), np.flatnonzero((rate >= 10) & np.isfinite(rate))
    if few.size:
        u, _ = tries.uniform(few, 0)
        result[few] = _search(u, np.exp(-rate[few]), lambda k, p: p * rate[few] / k)
    if many.size:
        lam = rate[many]
        b = 0.931 + 2.53 * np.sqrt(lam)
        a = -0.059 + 0.02483 * b
        alpha = 1.1239 + 1.1328 / (b - 3.4)
        quick = 0.9277 - 3.6224 / (b - 2)

        def propose(i: Array, attempt: int) -> tuple[Array, Array]:
            u, v = tries.uniform(many[i], attempt)
            u = u - 0.5
            us = 0.5 - np.abs(u)
            k = np.floor((2 * a[i] / us + b[i]) * u + lam[i] + 0.43)
            with float_errors_ignored():
                left = np.log(v * alpha[i] / (a[i] / (us * us) + b[i]))
                right = -lam[i] + k * np.log(lam[i]) - _log_factorial(k)
            slow = (k >= 0) & ((us >= 0.013) | (v <= us)) & (left <= right)
            return k, ((us >= 0.07) & (v <= quick[i])) | slow

        result[many] = tries.until_accepted(many.size, propose)
    return result.reshape(shape).astype(dtype)


def _search(u: Array, first: Array, step: Callable[[int, Array], Array]) -> Array:
    """How many probabilities, added up, stay below u: `first`, then `step(k, the one before)`."""
    total, p, k = first.copy(), first, 0
    result = np.zeros(u.shape)
    while k < 1000:
        below = u > total
        if not np.any(below):
            break
        result += below
        k += 1
        p = step(k, p)
        total += p
        if not np.any(p > 0):
            break
    return result


def random_binomial(stream: Array, counts: Array, probs: Array, *, dtype: Any) -> Array:
    """Binomial counts: by the sum of probabilities, or by Hörmann's BTRS (1993) where many are expected."""
    counts, probs = np.broadcast_arrays(counts, probs)
    shape = counts.shape
    n, p = np.ravel(counts).astype(np.float64), np.ravel(probs).astype(np.float64)
    mirrored = p > 0.5
    p = np.where(mirrored, 1 - p, p)
    tries = _Tries(stream)
    result = np.full(n.size, np.nan)
    known = (n >= 0) & (p >= 0)
    result[known & ((n == 0) | (p == 0))] = 0
    few = np.flatnonzero(known & (n * p > 0) & (n * p < 10))
    many = np.flatnonzero(known & (n * p >= 10))
    if few.size:
        u, _ = tries.uniform(few, 0)
        n_, odds = n[few], p[few] / (1 - p[few])
        first = np.exp(n_ * np.log1p(-p[few]))
        result[few] = np.minimum(_search(u, first, lambda k, q: q * np.maximum(n_ - k + 1, 0) / k * odds), n_)
    if many.size:
        n_, p_ = n[many], p[many]
        spread = np.sqrt(n_ * p_ * (1 - p_))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * p_
        centre = n_ * p_ + 0.5
        quick = 0.92 - 4.2 / b
        alpha = (2.83 + 5.1 / b) * spread
        mode = np.floor((n_ + 1) * p_)
        log_odds = np.log(p_ / (1 - p_))

        def propose(i: Array, attempt: int) -> tuple[Array, Array]:
            u, v = tries.uniform(many[i], attempt)
            u = u - 0.5
            us = 0.5 - np.abs(u)
            k = np.floor((2 * a[i] / us + b[i]) * u + centre[i])
            inside = (k >= 0) & (k <= n_[i])
            k_ = np.where(inside, k, 0)
            with float_errors_ignored():
                left = np.log(v * alpha[i] / (a[i] / (us * us) + b[i]))
            right = (
                _log_factorial(mode[i])
                + _log_factorial(n_[i] - mode[i])
                - _log_factorial(k_)
                - _log_factorial(n_[i] - k_)
                + (k_ - mode[i]) * log_odds[i]
            )
            return k, inside & (((us >= 0.07) & (v <= quick[i])) | (left <= right))

        result[many] = tries.until_accepted(many.size, propose)
    return np.where(mirrored, n - result, result).reshape(shape).astype(dtype)


def random_categorical(stream: Array, logits: Array, *, count: int, dtype: Any) -> Array:
    """Class numbers [batch, count], each row with the probabilities softmax(logits)."""
    batch, classes = logits.shape
    with float_errors_ignored():
        wide = logits.astype(np.float64)
        finite = np.where(np.isfinite(wide), wide, -np.inf)
        shifted = finite - np.max(finite, axis=1, keepdims=True, initial=-np.inf)
        totals = np.cumsum(np.where(np.isfinite(wide), np.exp(shifted), 0), axis=1)
    u = random_uniform(stream, shape=(batch, count), dtype=np.float64)
    result = np.empty((batch, count), np.int64)
    for row in range(batch):
        result[row] = np.searchsorted(totals[row], u[row] * totals[row, -1], side="right")
    return np.minimum(result, classes - 1).astype(dtype)


# -- how a gamma number moves with its alpha -------------------------------------------------------------------------
def gamma_tail(x: Array, y: Array, *, order: int) -> Array:
    """The part of a gamma density (alpha = x) on one side of y, weighed with log(t / y)^order, over the density at y.

    Minus the part below y where y is below alpha (or a series is at hand), the part above it otherwise. With
    t = y exp(-s) (or exp(s)) it is a smooth integral with one bump, for Gauss and Legendre; for small alpha, a series.
    """
    dtype = np.result_type(x, y)
    alpha, sample = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
    alpha, sample, shape = np.ravel(alpha), np.ravel(sample), alpha.shape
    result = np.full(alpha.size, np.nan)
    known = (alpha > 0) & (sample >= 0)
    series = known & (sample <= alpha + 1) & (alpha <= 50)
    if np.any(series):
        result[series] = -_below_by_series(alpha[series], sample[series], order)
    rest = known & ~series
    if np.any(rest):
        result[rest] = _side_by_integral(alpha[rest], sample[rest], order)
    return result.reshape(shape).astype(dtype)


def _below_by_series(alpha: Array, x: Array, order: int) -> Array:
    """x times a derivative (of this order, by alpha) of the sum of x^n / (alpha (alpha + 1) ... (alpha + n))."""
    terms = [1 / alpha]
    for k in range(1, order + 1):
        terms.append(-k * terms[-1] / alpha)
    total = terms[order].copy()
    for n in range(1, 500):
        grown: list[Array] = []
        for k, term in enumerate(terms):
            grown.append((x * term - (k * grown[-1] if k else 0)) / (alpha + n))
        terms = grown
        total += terms[order]
        if n > order and np.all(np.abs(terms[order]) <= 1e-17 * np.abs(total)):
            break
    return x * total


def _side_by_integral(alpha: Array, x: Array, order: int) -> Array:
    nodes, weights = np.polynomial.legendre.leggauss(64)
    nodes, weights = (nodes + 1) / 2, weights / 2
    gap = np.abs(alpha - x)
    reach = 117 / (gap + np.sqrt(gap * gap + 90 * x))  # where the integrand has fallen below the last digit
    s = reach[:, None] * nodes
    sign = np.where(x <= alpha, -1.0, 1.0)[:, None]
    exponent = sign * alpha[:, None] * s - x[:, None] * np.expm1(sign * s)
    return sign[:, 0] * x * reach * (((sign * s) ** order * np.exp(exponent)) @ weights)
