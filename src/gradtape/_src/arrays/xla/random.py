"""Random numbers on JAX arrays: see arrays/numpy/random.py for the meaning of each function.

The same stream gives the same bits. Numbers that involve logarithms and the like may differ in the last bit. Rejection
runs for all elements until the last one has accepted, each with its own blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradtape._src.arrays.numpy import random as reference
from gradtape._src.arrays.shared.random import BinomialRejection, log_factorial

Array = Any
Shape = tuple[int, ...]

_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_WEYL = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_HALF = np.uint64(32)


# -- streams ---------------------------------------------------------------------------------------------------------
def stream_of_seed(seed: Array) -> Array:
    low, high = jnp.asarray(seed).astype(jnp.uint64)
    a, b, c, d = philox(jnp.uint64(reference.SEEDS_KEY), low, high)
    return jnp.stack([_word64(a, b), jnp.zeros((), jnp.uint64), _word64(c, d)])


def stream_of_state(state: Array) -> Array:
    return jnp.roll(state, 1).astype(jnp.uint64)


def advanced_state(state: Array, delta: Array, *, each: int = 256) -> Array:
    low, high, key = jnp.asarray(state).astype(jnp.uint64)
    at = low + jnp.asarray(delta).astype(jnp.int64).astype(jnp.uint64) * np.uint64(each)
    return jnp.stack([at, high + (at < low).astype(jnp.uint64), key]).astype(jnp.int64)


# -- bits ------------------------------------------------------------------------------------------------------------
def philox(key: Array, low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
    """The four 32-bit words of the blocks at the counters high * 2**64 + low."""
    a, b = _halves(low)
    c, d = _halves(high)
    first, second = _halves(key)
    for _ in range(10):
        p_low, p_high = _halves(a.astype(jnp.uint64) * _MULTIPLIERS[0])
        q_low, q_high = _halves(c.astype(jnp.uint64) * _MULTIPLIERS[1])
        a, b, c, d = q_high ^ b ^ first, q_low, p_high ^ d ^ second, p_low
        first, second = first + _WEYL[0], second + _WEYL[1]
    return a, b, c, d


def _halves(word: Array) -> tuple[Array, Array]:
    return word.astype(jnp.uint32), (word >> _HALF).astype(jnp.uint32)


def _word64(low: Array, high: Array) -> Array:
    return low.astype(jnp.uint64) | high.astype(jnp.uint64) << _HALF


def _blocks(stream: Array, steps: Array) -> tuple[Array, Array, Array, Array]:
    """The words of the blocks that are `steps` blocks after the first of a stream."""
    key, low, high = jnp.asarray(stream)
    at = steps + low
    return philox(key, at, high + (at < steps).astype(jnp.uint64))


def random_bits(stream: Array, *, count: int) -> Array:
    words = _blocks(stream, jnp.arange(-(-count // 4), dtype=jnp.uint64))
    return jnp.stack(words, axis=1).reshape(-1)[:count]


def random_integers(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    wide = np.dtype(dtype).itemsize == 8
    words = random_bits(stream, count=math.prod(shape) * (2 if wide else 1))
    return (_word64(words[0::2], words[1::2]) if wide else words).astype(dtype).reshape(shape)


def random_range(stream: Array, low: Array, high: Array, *, shape: Shape, dtype: Any) -> Array:
    kind = np.uint64 if np.dtype(dtype).itemsize == 8 else np.uint32
    first = jnp.asarray(low).astype(kind)  # two's complement handles the sign
    span = jnp.maximum(jnp.asarray(high).astype(kind) - first, kind(1))
    return (random_integers(stream, shape=shape, dtype=kind) % span + first).astype(dtype)


def random_order(stream: Array, *, count: int) -> Array:
    steps = jnp.arange(count)
    words = random_bits(stream, count=count).astype(jnp.int64)  # the last one is unused: the remainder of 1 is 0
    partner = steps + words % (count - steps)
    by_partner = jnp.argsort(partner, stable=True)
    ordered = partner[by_partner]
    repeated = jnp.concatenate([jnp.zeros((1,), bool), ordered[1:] == ordered[:-1]])[:count]
    before = jnp.full((count,), -1).at[by_partner].set(jnp.where(repeated, jnp.roll(by_partner, 1), -1))
    stays = partner == steps
    there = jnp.full((count,), -1).at[partner].max(jnp.where(stays, -1, steps))
    there = jnp.where(there < 0, steps, there)
    there, _ = lax.while_loop(
        lambda state: jnp.any(state[0] != state[1]),
        lambda state: (state[1], state[1][state[1]]),
        (there, there[there]),
    )
    return jnp.where(stays, there, jnp.where(before < 0, partner, there[before]))


# -- numbers ---------------------------------------------------------------------------------------------------------
def random_uniform(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    dtype, count = np.dtype(dtype), math.prod(shape)
    if dtype == np.float64:
        words = random_bits(stream, count=2 * count)
        return _double(words[0::2], words[1::2]).reshape(shape)
    return _short(random_bits(stream, count=count).reshape(shape), dtype)


def _short(words: Array, dtype: Any) -> Array:
    """Words as numbers in [0, 1) with at most 32 bits."""
    if dtype == np.float32:
        return lax.bitcast_convert_type(words & np.uint32(0x7FFFFF) | np.uint32(0x3F800000), jnp.float32) - 1
    mantissa, one = (10, 0x3C00) if dtype == np.float16 else (7, 0x3F80)
    short = (words & np.uint32((1 << mantissa) - 1) | np.uint32(one)).astype(jnp.uint16)
    return (lax.bitcast_convert_type(short, dtype).astype(jnp.float32) - 1).astype(dtype)


def _double(high: Array, low: Array) -> Array:
    """Doubles in [0, 1): 20 bits of one word above the 32 of another."""
    mantissa = _word64(low, high & np.uint32(0xFFFFF))
    return lax.bitcast_convert_type(mantissa | np.uint64(1023 << 52), jnp.float64) - 1


def _uniforms(words: Sequence[Array], dtype: Any) -> Array:
    """The uniform numbers of each block, two or four, in order."""
    if dtype == np.float64:
        return jnp.stack([_double(*words[:2]), _double(*words[2:])], axis=-1)
    return _short(jnp.stack(words, axis=-1), dtype)


def _normals(words: Sequence[Array], dtype: Any) -> Array:
    """The normal numbers of each block."""
    source = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    u = _uniforms(words, source)
    pairs = jnp.stack(_box_muller(u[..., 0::2], u[..., 1::2]), axis=-1)
    return pairs.reshape(u.shape).astype(dtype)


def _box_muller(u: Array, turn: Array) -> tuple[Array, Array]:
    kind = u.dtype
    logs = jnp.log(jnp.maximum(u, kind.type(1e-7)).astype(jnp.float64)).astype(kind)
    angle = (turn.astype(jnp.float64) * (2 * np.pi)).astype(kind).astype(jnp.float64)
    radius = jnp.sqrt(-2 * logs)
    return jnp.sin(angle).astype(kind) * radius, jnp.cos(angle).astype(kind) * radius


def random_normal(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    count, dtype = math.prod(shape), np.dtype(dtype)
    together = 2 if dtype == np.float64 else 4
    numbers = _normals(_blocks(stream, jnp.arange(-(-count // together), dtype=jnp.uint64)), dtype)
    return numbers.reshape(-1)[:count].reshape(shape)


# -- normal numbers between bounds -----------------------------------------------------------------------------------
def random_truncated(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    count, dtype = math.prod(shape), np.dtype(dtype)
    together = 2 if dtype == np.float64 else 4
    source = np.dtype(np.float64 if together == 2 else np.float32)
    groups = -(-count // together)
    first = jnp.arange(groups, dtype=jnp.uint64) * np.uint64(64 * together)

    def unfinished(state: tuple[Array, ...]) -> Array:
        return jnp.any(state[1] < together)

    def draw(state: tuple[Array, ...]) -> tuple[Array, ...]:
        result, filled, step = state
        drawn = _normals(_blocks(stream, first + step), source)
        inside = jnp.abs(drawn) < 2
        place = jnp.where(inside, filled[:, None] + jnp.cumsum(inside, axis=1) - 1, -1)
        hits = place[:, None, :] == jnp.arange(together)[:, None]  # group, place, number
        result = jnp.where(jnp.any(hits, axis=2), jnp.sum(jnp.where(hits, drawn[:, None, :], 0), axis=2), result)
        return result, filled + jnp.sum(inside, axis=1), step + np.uint64(1)

    start = jnp.zeros((groups, together), source), jnp.zeros((groups,), jnp.int64), jnp.zeros((), jnp.uint64)
    result = lax.while_loop(unfinished, draw, start)[0]
    return result.reshape(-1)[:count].astype(dtype).reshape(shape)


def random_between(stream: Array, x: Array, y: Array, *, samples: int) -> Array:
    dtype = x.dtype
    bounds = jnp.ravel(jnp.asarray(x)), jnp.ravel(jnp.asarray(y))
    total = bounds[0].size
    window = _WINDOW if samples > 4 * _WINDOW else 1  # steps at a time

    def unfinished(state: tuple[Array, ...]) -> Array:
        return state[1] < total

    def fill(state: tuple[Array, ...]) -> tuple[Array, ...]:
        result, number, filled, block = state
        low, high = (bound[number] for bound in bounds)
        flipped = (low == -jnp.inf) | (high < 0)
        low, high = jnp.where(flipped, -high, low), jnp.where(flipped, -low, high)
        blocks = _blocks(stream, block + jnp.arange(2 * window, dtype=jnp.uint64))
        size, values, accepted = _proposals(blocks, low, high, window)
        far = (low > 0) & jnp.isinf(low * low)
        hopeless = jnp.isnan(low) | jnp.isnan(high) | far  # no proposal would ever be accepted
        values, accepted = jnp.where(hopeless, jnp.nan, values), accepted | hopeless
        place = filled + jnp.cumsum(accepted) - 1
        used = accepted & (place < samples)
        where = jnp.where(used, place * total + number, samples * total)
        result = result.at[where].set(jnp.where(flipped, -values, values), mode="drop")
        done = place[-1] + 1 >= samples
        last = jnp.argmax(place >= samples - 1) * window // values.size  # the step that had the last one
        block = block + (size * jnp.where(done, last + 1, window)).astype(jnp.uint64)
        return result, number + done, jnp.where(done, 0, place[-1] + 1), block

    zero = jnp.zeros((), jnp.int64)
    start = jnp.zeros((samples * total,), dtype), zero, zero, jnp.zeros((), jnp.uint64)
    return lax.while_loop(unfinished, fill, start)[0].reshape(samples, total)


_WINDOW = 1024


def _proposals(words: Sequence[Array], low: Array, high: Array, window: int) -> tuple[Array, Array, Array]:
    """The number of blocks of a step, the numbers that `window` steps propose, and whether they are accepted."""
    dtype, kind = low.dtype, low.dtype.type
    uniform = _uniforms(words, dtype)
    normal = _normals([word[:window] for word in words], dtype)
    root = jnp.sqrt(low * low + kind(4))
    cutoff = kind(2) * jnp.exp(kind(0.5) + low * (low - root) / kind(4)) / (low + root)
    by_normal = ((low < kind(-1.3)) & (high >= 0)) | ((high > kind(1.3)) & (low <= 0))
    by_uniform = ~by_normal & (high - low < cutoff)

    flat = uniform[0::2] * (high - low) + low
    flat_accepted = uniform[1::2] <= jnp.exp((jnp.where(low < 0, kind(0), low * low) - flat * flat) / kind(2))
    alpha = (low + root) / kind(2)
    tail = -jnp.log(uniform[:window, 0::2]) / alpha + low
    distance = jnp.where(low < alpha, alpha - tail, low - alpha)
    tail_accepted = (uniform[:window, 1::2] <= jnp.exp(-distance * distance / kind(2))) & (tail < high)
    pad = ((0, 0), (0, tail.shape[1]))
    values = jnp.where(by_normal, normal, jnp.where(by_uniform, flat, jnp.pad(tail, pad)))
    accepted = jnp.where(
        by_normal,
        (normal >= low) & (normal <= high),
        jnp.where(by_uniform, flat_accepted, jnp.pad(tail_accepted, pad)),
    )
    return jnp.where(by_uniform, 2, 1), values.reshape(-1), accepted.reshape(-1)


# -- rejection -------------------------------------------------------------------------------------------------------
Buffered = tuple[Array, Array, Array]
"""The two doubles of each element's last block, and how many of them are left: the second is used first."""


def _nothing(elements: Array) -> Buffered:
    return jnp.zeros(elements.shape), jnp.zeros(elements.shape), jnp.zeros(elements.shape, jnp.int32)


def _next(
    stream: Array, numbers: Callable[..., Array], at: Array, buffered: Buffered, wanted: Array
) -> tuple[Array, Array, Buffered]:
    """The next number of the elements that want one; the next block and the buffered numbers of each."""
    first, second, left = buffered
    out = wanted & (left == 0)
    drawn = numbers(_blocks(stream, at), np.dtype(np.float64))
    first, second = jnp.where(out, drawn[..., 0], first), jnp.where(out, drawn[..., 1], second)
    left = jnp.where(out, 2, left) - wanted
    return jnp.where(left == 1, second, first), at + out, (first, second, left)


def _until(step: Callable[..., tuple[Any, ...]], *start: Any) -> tuple[Any, ...]:
    """A loop whose first value says which elements continue."""
    return lax.while_loop(
        lambda state: jnp.any(state[0][0]) & (state[1] < reference.TRIES),
        lambda state: (step(*state[0]), state[1] + 1),
        (start, jnp.zeros((), jnp.int64)),
    )[0]


def _elements(samples: int, *parameters: Array) -> tuple[Array, ...]:
    """The index of each element in the stream, and its parameters."""
    each = parameters[0].size
    number = jnp.arange(samples, dtype=jnp.uint64)[:, None] + jnp.arange(each, dtype=jnp.uint64) * np.uint64(samples)
    full = (samples, *parameters[0].shape)
    return number.reshape(full), *(jnp.broadcast_to(p, full) for p in parameters)


def random_gamma(stream: Array, alpha: Array, *, samples: int) -> Array:
    dtype = alpha.dtype
    number, alpha = _elements(samples, jnp.asarray(alpha).astype(jnp.float64))
    at = number * np.uint64(256)
    exponential = -jnp.log1p(-_uniforms(_blocks(stream, at), np.dtype(np.float64))[..., 1])
    boosted = alpha < 1
    d = alpha + jnp.where(boosted, 2 / 3, -1 / 3)
    c = 1 / 3 / jnp.sqrt(d)

    def propose(waiting: Array, result: Array, at: Array, normal: Buffered, uniform: Buffered) -> tuple[Any, ...]:
        x, at, normal = _next(stream, _normals, at, normal, waiting)
        v = 1 + c * x
        useful = waiting & ~(v <= 0)
        v = v * v * v
        u, at, uniform = _next(stream, _uniforms, at, uniform, useful)
        accepted = (u < 1 - 0.0331 * (x * x) * (x * x)) | (jnp.log(u) < 0.5 * x * x + d * (1 - v + jnp.log(v)))
        accepted &= useful
        return waiting & ~accepted, jnp.where(accepted, d * v, result), at, normal, uniform

    waiting = alpha != 1
    nan = jnp.full(alpha.shape, jnp.nan)
    _, result, at, _, uniform = _until(propose, waiting, nan, at, _nothing(alpha), _nothing(alpha))
    u = _next(stream, _uniforms, at, uniform, boosted)[0]
    result = jnp.where(boosted, result * jnp.power(u, 1 / alpha), result)
    return jnp.where(waiting, result, exponential).astype(dtype)


def _as_counts(numbers: Array, dtype: Any) -> Array:
    return (numbers if np.dtype(dtype).kind == "f" else jnp.nan_to_num(numbers)).astype(dtype)


def random_poisson(stream: Array, rate: Array, *, samples: int, dtype: Any) -> Array:
    number, rate = _elements(samples, jnp.asarray(rate).astype(jnp.float64))
    at = number * np.uint64(256)
    few, many = rate < 10, (rate >= 10) & jnp.isfinite(rate)
    least, lam = jnp.exp(-rate), jnp.where(many, rate, 10.0)

    def multiply(waiting: Array, count: Array, product: Array, at: Array, buffered: Buffered) -> tuple[Any, ...]:
        u, at, buffered = _next(stream, _uniforms, at, buffered, waiting)
        product = jnp.where(waiting, product * u, product)
        waiting &= product > least
        return waiting, count + waiting, product, at, buffered

    ones, zeros = jnp.ones(rate.shape), jnp.zeros(rate.shape)
    searched = _until(multiply, few, zeros, ones, at, _nothing(rate))[1]
    log_rate = jnp.log(lam)
    b = 0.931 + 2.53 * jnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)

    def propose(waiting: Array, result: Array, at: Array, buffered: Buffered) -> tuple[Any, ...]:
        u, at, buffered = _next(stream, _uniforms, at, buffered, waiting)
        v, at, buffered = _next(stream, _uniforms, at, buffered, waiting)
        u = u - 0.5
        us = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * a / us + b) * u + lam + 0.43)
        left = jnp.log(v * alpha / (a / (us * us) + b))
        slow = (k >= 0) & ((us >= 0.013) | (v <= us)) & (left <= -lam + k * log_rate - log_factorial(jnp, k))
        accepted = waiting & (((us >= 0.07) & (v <= quick)) | slow)
        return waiting & ~accepted, jnp.where(accepted, k, result), at, buffered

    drawn = _until(propose, many, jnp.full(rate.shape, jnp.nan), at, _nothing(rate))[1]
    return _as_counts(jnp.where(few, searched, drawn), dtype)


def random_binomial(stream: Array, counts: Array, probs: Array, *, samples: int, dtype: Any) -> Array:
    counts, probs = jnp.broadcast_arrays(counts, probs)
    mirrored = probs > 0.5
    p = jnp.where(mirrored, 1 - probs, probs)
    number, large, n, p, mirrored = _elements(
        samples, counts * p >= 10, counts.astype(jnp.float64), p.astype(jnp.float64), mirrored
    )
    known = (n > 0) & (p > 0) & jnp.isfinite(n)
    few, many = known & ~large, known & large
    at = number * jnp.where(large, np.uint64(256), np.uint64(42))
    failure = jnp.log1p(-jnp.where(few, p, 0.5))

    def count(waiting: Array, result: Array, total: Array, at: Array, buffered: Buffered) -> tuple[Any, ...]:
        u, at, buffered = _next(stream, _uniforms, at, buffered, waiting)
        total = total + jnp.ceil(jnp.log(u) / failure)
        waiting &= ~(total > n)
        return waiting, result + waiting, total, at, buffered

    zeros = jnp.zeros(n.shape)
    searched = _until(count, few, zeros, zeros, at, _nothing(n))[1]
    trial = _binomial_trial(stream, jnp.where(many, n, 100.0), jnp.where(many, p, 0.5))
    drawn = _until(trial, many, jnp.full(n.shape, jnp.nan), at, _nothing(n))[1]
    none = jnp.where((jnp.isnan(p) | ~jnp.isfinite(n)) & ~(n <= 0), jnp.nan, 0.0)
    result = jnp.where(few, searched, jnp.where(many, drawn, none))
    return _as_counts(jnp.where(mirrored & (n > 0), n - result, result), dtype)


def _binomial_trial(stream: Array, n: Array, p: Array) -> Callable[..., tuple[Any, ...]]:
    test = BinomialRejection.of(jnp, n, p)

    def propose(waiting: Array, result: Array, at: Array, buffered: Buffered) -> tuple[Any, ...]:
        u, at, buffered = _next(stream, _uniforms, at, buffered, waiting)
        v, at, buffered = _next(stream, _uniforms, at, buffered, waiting)
        u = u - 0.5
        us = 0.5 - jnp.abs(u)
        k = jnp.floor((2 * test.a / us + test.b) * u + (n * p + 0.5))
        inside = (k >= 0) & (k <= n)
        exact = inside & test.accepts(jnp.where(inside, k, 0), us, v)
        accepted = waiting & (((us >= 0.07) & (v <= test.quick)) | exact)
        return waiting & ~accepted, jnp.where(accepted, k, result), at, buffered

    return propose


def random_categorical(stream: Array, logits: Array, *, count: int, dtype: Any) -> Array:
    batch, classes = logits.shape
    wide = jnp.asarray(logits).astype(jnp.float64)
    finite = jnp.isfinite(wide)
    top = jnp.max(wide, axis=1, keepdims=True, initial=-jnp.inf, where=finite)
    totals = jnp.cumsum(jnp.where(finite, jnp.exp(wide - top), 0), axis=1)
    u = random_uniform(stream, shape=(batch, count), dtype=np.float64)
    found = jax.vmap(lambda row, at: jnp.searchsorted(row, at, side="right"))(totals, u * totals[:, -1:])
    return jnp.minimum(found, classes - 1).astype(dtype)
