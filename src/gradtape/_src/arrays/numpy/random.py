"""Random bits: the same for the same seed, on every machine.

The generator is Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011): block
i of the stream is a keyed scrambling of the number i, so that any part of it can be computed independently. A stream is
identified by a key (64 bits) and the counter of its first block (128 bits): three 64-bit words in one array,
[key, low, high], the first operand of every kernel.

The conversion of bits to numbers follows TensorFlow's CPU kernels, so that all numbers are TensorFlow's, up to the last
bit of a logarithm: which words make a number, the precision in which a proposal is computed and compared, and the
blocks that belong to an element (with rejection, each element has 256 blocks of its own, and uses the numbers of a
block from the last to the first). Logarithms and the like of float32 numbers are computed in float64 and rounded, as in
the C library.
"""

from __future__ import annotations

import math as _math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src import memory, threads
from gradtape._src.arrays.shared.frames import polynomial
from gradtape._src.arrays.shared.random import BinomialRejection, log_factorial
from gradtape._src.interrupts import float_errors_ignored

Array = Any
Shape = tuple[int, ...]

_LOW32 = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_MULTIPLIERS = np.array([[0xCD9E8D57], [0xD2511F53]], np.uint64)
_WEYL = np.array([[0x9E3779B9], [0xBB67AE85]], np.uint64)
_CHUNK = 1 << 14  # blocks at a time: the working set stays in the cache
_ELEMENTS = 1 << 14  # elements at a time that reject
_RESERVED = np.uint64(256)  # blocks that an element may use
SEEDS_KEY = 0x02461E293EC8F720  # the key with which TensorFlow scrambles the seeds of stateless ops


# -- streams ---------------------------------------------------------------------------------------------------------
def stream_of(key: int, counter: int) -> Array:
    """The stream with this key that starts at a counter."""
    return np.array([key % 2**64, counter % 2**64, (counter >> 64) % 2**64], np.uint64)


def stream_of_seed(seed: Array) -> Array:
    """The stream of a stateless op, from its two scrambled seeds."""
    low, high = seed.astype(np.uint64).reshape(2, 1)
    a, b, c, d = philox(SEEDS_KEY, low, high)
    return np.concatenate([a | b << _HALF, np.zeros(1, np.uint64), c | d << _HALF])


def stream_of_state(state: Array) -> Array:
    """The stream of a generator, whose state is [low, high, key] as signed integers."""
    return np.roll(state, 1).astype(np.uint64)


def advanced_state(state: Array, delta: Array, *, each: int = 256) -> Array:
    """The state of a generator after `each` * delta more blocks (modulo 2**64); a number may use 256."""
    low, high, key = state.astype(np.uint64)
    with float_errors_ignored():
        at = low + np.uint64(int(delta) * each % 2**64)
        return np.array([at, high + np.uint64(at < low), key]).astype(np.int64)


# -- bits ------------------------------------------------------------------------------------------------------------
def philox(key: int, low: Array, high: Array) -> tuple[Array, Array, Array, Array]:
    """The four 32-bit words (held in uint64) of the blocks at the counters high * 2**64 + low."""
    (a, c), (b, d) = _scrambled(key, low, high)
    return a, b, c, d


def _scrambled(key: int, low: Array, high: Array) -> Array:
    """The words of blocks [2, 2, blocks]: the first and the third, the second and the fourth."""
    words = np.empty((2, 2, len(low)), np.uint64)
    even, odd = words
    for counter, first, second in zip((low, high), even, odd, strict=True):
        np.bitwise_and(counter, _LOW32, out=first)
        np.right_shift(counter, _HALF, out=second)
    products = np.empty_like(even)
    keys = np.array([[key & 0xFFFFFFFF], [key >> 32]], np.uint64)
    for _ in range(10):  # in place: the arrays stay in the cache
        np.multiply(even[::-1], _MULTIPLIERS, out=products)
        np.right_shift(products, _HALF, out=even)
        even ^= odd
        even ^= keys
        np.bitwise_and(products, _LOW32, out=odd)
        keys = keys + _WEYL & _LOW32
    return words


def _blocks(stream: Array, steps: Array, scramble: Callable[[int, Array, Array], Any] = philox) -> Any:
    """The words of the blocks that are `steps` blocks after the first of a stream."""
    key, low, high = (int(word) for word in stream)
    at = steps + np.uint64(low)
    return scramble(key, at, (at < steps).astype(np.uint64) + np.uint64(high))


def _fill(result: Array, stream: Array, write: Callable[[Array, Array], Any]) -> None:
    """Fill an array [blocks, n] from a stream, some blocks at a time, on all cores.

    `write(part, words)` gets a part of the array and its words, as `_scrambled` returns them.
    """

    def fill(i: int) -> None:
        steps = np.arange(i * _CHUNK, min((i + 1) * _CHUNK, len(result)), dtype=np.uint64)
        write(result[i * _CHUNK : (i + 1) * _CHUNK], _blocks(stream, steps, _scrambled))

    with float_errors_ignored():
        threads.run(fill, -(-len(result) // _CHUNK))


def _by_place(part: Array) -> Array:
    """A part [blocks, 4] of an array, in the order of `_scrambled`: [2, 2, blocks]."""
    return part.reshape(-1, 2, 2).transpose(2, 1, 0)


def random_bits(stream: Array, *, count: int) -> Array:
    """`count` 32-bit words of a stream."""
    result = memory.empty((-(-count // 4), 4), np.dtype(np.uint32))
    _fill(result, stream, _write_bits)
    return result.reshape(-1)[:count]


def _write_bits(part: Array, words: Array) -> None:
    _by_place(part)[...] = words


def words64(words: Array) -> Array:
    """Pairs of words as 64-bit words; the first word is the low half."""
    return words[0::2].astype(np.uint64) | words[1::2].astype(np.uint64) << _HALF


def random_integers(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Integers of the whole range of a dtype of 32 or 64 bits."""
    count = _math.prod(shape)
    if np.dtype(dtype).itemsize == 8:
        return words64(random_bits(stream, count=2 * count)).view(dtype).reshape(shape)
    return random_bits(stream, count=count).view(dtype).reshape(shape)


def random_range(stream: Array, low: Array, high: Array, *, shape: Shape, dtype: Any) -> Array:
    """Integers in [low, high): remainders of integers with as many bits as the dtype."""
    count, first = _math.prod(shape), int(low)
    span = max(int(high) - first, 1)
    if np.dtype(dtype).itemsize == 8:
        offset = words64(random_bits(stream, count=2 * count)) % np.uint64(span)
    else:
        offset = (random_bits(stream, count=count) % np.uint32(span)).astype(np.uint64)
    # Two's complement handles the sign.
    return (offset + np.uint64(first % 2**64)).view(np.int64).astype(dtype).reshape(shape)


def random_order(stream: Array, *, count: int) -> Array:
    """A random permutation by Fisher and Yates: step i exchanges positions i and i + word i % (count - i).

    All steps are computed together: an item comes to the position it is taken from by the last earlier step that moved
    something there, which is the step with the number of that position, or was there from the start.
    """
    steps = np.arange(count)
    partner = steps.copy()
    partner[: max(count - 1, 0)] += random_bits(stream, count=max(count - 1, 0)) % (count - steps[:-1]).astype(
        np.uint32
    )
    keys = np.sort(partner.astype(np.uint64) << _HALF | steps.astype(np.uint64))  # faster than a stable argsort
    by_partner = (keys & _LOW32).astype(np.intp)
    repeated = keys[1:] >> _HALF == keys[:-1] >> _HALF
    before = np.full(count, -1)  # the previous step with the same partner
    before[by_partner[1:][repeated]] = by_partner[:-1][repeated]
    # The item in position k at step k: moved there by the last step with partner k, or k itself.
    moved = np.flatnonzero(partner != steps)
    there = steps.copy()
    there[partner[moved]] = moved  # the last one counts
    while True:
        further = there[there]
        if np.array_equal(further, there):
            return np.where(partner == steps, there, np.where(before < 0, partner, there[before]))
        there = further


# -- numbers ---------------------------------------------------------------------------------------------------------
def random_uniform(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Numbers in [0, 1): random mantissas behind a fixed exponent, minus one. Never 1."""
    dtype, count = np.dtype(dtype), _math.prod(shape)
    if dtype == np.float64:
        words = random_bits(stream, count=2 * count)
        return double(words[0::2], words[1::2]).reshape(shape)
    if dtype == np.float32:
        result = memory.empty((-(-count // 4), 4), dtype)
        _fill(result, stream, _write_uniforms)
        return result.reshape(-1)[:count].reshape(shape)
    return _narrow(random_bits(stream, count=count).reshape(shape), dtype)


def _write_uniforms(part: Array, words: Array) -> None:
    _by_place(part)[...] = singles(words.astype(np.uint32))


def singles(words: Array) -> Array:
    """Words as float32 numbers in [0, 1), in place."""
    words &= np.uint32(0x7FFFFF)
    words |= np.uint32(0x3F800000)
    result = words.view(np.float32)
    result -= 1
    return result


def _narrow(words: Array, dtype: Any) -> Array:
    """Words as float16 or bfloat16 numbers in [0, 1)."""
    mantissa, one = (10, 0x3C00) if dtype == np.float16 else (7, 0x3F80)
    short = (words & np.uint32((1 << mantissa) - 1)).astype(np.uint16) | np.uint16(one)
    return (short.view(dtype).astype(np.float32) - 1).astype(dtype)


def double(high: Array, low: Array) -> Array:
    """Pairs of words as doubles in [0, 1): 20 bits of the first above the 32 of the second."""
    mantissa = (high.astype(np.uint64, copy=False) & np.uint64(0xFFFFF)) << _HALF | low.astype(np.uint64, copy=False)
    return (mantissa | np.uint64(1023 << 52)).view(np.float64) - 1


def random_normal(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Standard normal numbers by Box and Muller: two from each pair of uniform numbers."""
    dtype, count = np.dtype(dtype), _math.prod(shape)
    source, write = (np.float64, _write_normals64) if dtype == np.float64 else (np.float32, _write_normals32)
    each = 2 if source is np.float64 else 4
    result = memory.empty((-(-count // each), each), np.dtype(source))
    _fill(result, stream, write)
    return result.reshape(-1)[:count].astype(dtype, copy=False).reshape(shape)


def _write_normals32(part: Array, words: Array) -> None:
    box_muller(*singles(words.astype(np.uint32)), *_by_place(part))


def _write_normals64(part: Array, words: Array) -> None:
    box_muller(*double(*words), *part.T)


def box_muller(u: Array, turn: Array, sines: Array, cosines: Array) -> None:
    """Two normal numbers from two uniform ones, into the last two arrays; float32 numbers are rounded at each step."""
    single = u.dtype == np.float32
    logs = np.log(np.maximum(u, u.dtype.type(1e-7)), dtype=np.float64)
    logs = logs.astype(np.float32) if single else logs
    logs *= -2
    radius = np.sqrt(logs)
    if single:
        sine, cosine = (a.astype(np.float32) for a in _sine_and_cosine((turn * _TURN).astype(np.float32)))
    else:
        angle = turn * _TURN
        sine, cosine = np.sin(angle), np.cos(angle)
    np.multiply(sine, radius, out=sines)
    np.multiply(cosine, radius, out=cosines)


_TURN = np.float64(2 * np.pi)
_HALF_ANGLE_SINE = tuple((-1) ** n / _math.factorial(2 * n + 1) / 2 ** (2 * n + 1) for n in range(8))


def _sine_and_cosine(angle: Array) -> tuple[Array, Array]:
    """Of float32 angles in [0, 2π), exact to 15 digits: NumPy's functions take twice as long.

    With r in [-π/2, π/2], a multiple of π away, and s = sin(r/2) by its Taylor series: sin(r) = 2 s √(1 - s²) and
    cos(r) = 1 - 2 s². An odd multiple changes both signs.
    """
    r = angle.astype(np.float64)
    multiple = r * (1 / np.pi)
    np.rint(multiple, multiple)
    r -= multiple * np.pi
    sine = polynomial(r * r, _HALF_ANGLE_SINE)
    sine *= r
    square = sine * sine
    cosine = 1 - square
    sine *= np.sqrt(cosine, cosine)
    np.multiply(square, -2, cosine)
    cosine += 1
    multiple -= 1  # -1, 0, 1: the signs are 1, -1, 1
    multiple *= multiple
    multiple *= 2
    multiple -= 1
    cosine *= multiple
    multiple *= 2
    sine *= multiple
    return sine, cosine


# -- normal numbers between bounds -----------------------------------------------------------------------------------


def random_truncated(stream: Array, *, shape: Shape, dtype: Any) -> Array:
    """Standard normal numbers in (-2, 2): of each group of 256 (or 128) blocks the first four (or two) that are."""
    dtype, count = np.dtype(dtype), _math.prod(shape)
    together = 2 if dtype == np.float64 else 4
    groups, stride = -(-count // together), np.uint64(64 * together)
    result = memory.empty((groups, together), np.dtype(np.float64 if together == 2 else np.float32))
    for start in range(0, groups, _ELEMENTS):
        first = np.arange(start, min(start + _ELEMENTS, groups), dtype=np.uint64) * stride
        result[start : start + _ELEMENTS] = _normals_inside(stream, first, together)
    return result.reshape(-1)[:count].astype(dtype, copy=False).reshape(shape)


def _normals_inside(stream: Array, first: Array, wanted: int) -> Array:
    """For each group that starts at a block, its first numbers in (-2, 2)."""
    of_words = _normals64 if wanted == 2 else _normals32
    result = drawn = of_words(*_blocks(stream, first))
    inside = np.abs(drawn) < 2
    waiting = np.flatnonzero(~inside.all(axis=1))
    drawn, inside = drawn[waiting], inside[waiting]
    filled, step = np.zeros(len(waiting), np.intp), np.uint64(0)
    while True:
        place = filled[:, None] + np.cumsum(inside, axis=1) - 1
        row, column = np.nonzero(inside & (place < wanted))
        result[waiting[row], place[row, column]] = drawn[row, column]
        filled = place[:, -1] + 1
        missing = filled < wanted
        waiting, filled, step = waiting[missing], filled[missing], step + np.uint64(1)
        if not waiting.size:
            return result
        drawn = of_words(*_blocks(stream, first[waiting] + step))
        inside = np.abs(drawn) < 2


def random_between(stream: Array, x: Array, y: Array, *, samples: int) -> Array:
    """Standard normal numbers [samples, n] between n pairs of bounds, one pair after the other on one stream.

    Proposals are normal numbers, uniform ones or, in a tail, exponential ones, whichever is rejected least.
    """
    result = np.empty((samples, x.size), x.dtype)
    source = _Sequence(stream, x.dtype)
    with float_errors_ignored():
        for number, (low, high) in enumerate(zip(np.ravel(x), np.ravel(y), strict=True)):
            flipped = low == -np.inf or high < 0
            a, b = (-high, -low) if flipped else (low, high)
            if np.isnan(a) or np.isnan(b) or (a > 0 and np.isinf(a * a)):  # no proposal would ever be accepted
                result[:, number] = np.nan
            else:
                drawn = _between(source, a, b, samples)
                result[:, number] = -drawn if flipped else drawn
    return result


class _Sequence:
    """The blocks of a stream one after the other, as uniform or normal numbers of a dtype."""

    def __init__(self, stream: Array, dtype: Any) -> None:
        self._stream, self.dtype, self.at = stream, dtype, 0
        self._of_words = {"d": (_uniforms64, _normals64), "f": (_uniforms32, _normals32)}.get(
            np.dtype(dtype).char, (lambda *words: _uniforms16(*words, dtype=dtype), _normals32)
        )
        self._made: list[tuple[Array, Array] | tuple[()]] = [(), ()]

    def take(self, blocks: int, *, normal: bool) -> Array:
        """The numbers [blocks, n] of the next blocks, without advancing `at`."""
        made = self._made[normal]
        if not made or self.at < made[0] or self.at + blocks > made[0] + len(made[1]):
            steps = np.arange(self.at, self.at + max(blocks, _AHEAD), dtype=np.uint64)
            made = self._made[normal] = (
                self.at,
                self._of_words[normal](*_blocks(self._stream, steps)).astype(self.dtype),
            )
        start = self.at - made[0]
        return made[1][start : start + blocks]


_AHEAD = 256  # the smallest number of blocks to compute, for the next bounds to use


def _between(source: _Sequence, low: Any, high: Any, samples: int) -> Array:
    """`samples` numbers between bounds of which the lower one is finite, and the upper one not negative."""
    kind = source.dtype.type
    root = np.sqrt(low * low + kind(4))
    cutoff = kind(2) * np.exp(kind(0.5) + low * (low - root) / kind(4)) / (low + root)
    if (low < kind(-1.3) and high >= 0) or (high > kind(1.3) and low <= 0):
        size, propose = 1, _normal_proposals
    elif high - low < cutoff:
        size, propose = 2, _uniform_proposals
    else:
        size, propose = 1, _exponential_proposals
    found: list[Array] = []
    missing = samples
    while missing:
        steps = missing * 5 // 16 + 8
        values, accepted = propose(source.take(size * steps, normal=propose is _normal_proposals), low, high)
        inside = np.flatnonzero(accepted)[:missing]
        found.append(values[inside])
        missing -= len(inside)
        # The rest of the last block is skipped.
        source.at += size * (steps if missing else int(inside[-1]) * steps // len(values) + 1)
    return np.concatenate(found) if found else np.empty(0, source.dtype)


def _normal_proposals(drawn: Array, low: Any, high: Any) -> tuple[Array, Array]:
    values = drawn.reshape(-1)
    return values, (values >= low) & (values <= high)


def _uniform_proposals(drawn: Array, low: Any, high: Any) -> tuple[Array, Array]:
    kind = drawn.dtype.type
    values = (drawn[0::2] * (high - low) + low).reshape(-1)
    exponent = ((kind(0) if low < 0 else low * low) - values * values) / kind(2)
    return values, drawn[1::2].reshape(-1) <= np.exp(exponent)


def _exponential_proposals(drawn: Array, low: Any, high: Any) -> tuple[Array, Array]:
    kind = drawn.dtype.type
    alpha = (low + np.sqrt(low * low + kind(4))) / kind(2)
    pairs = drawn.reshape(-1, 2)
    values = -np.log(pairs[:, 0]) / alpha + low
    distance = alpha - values if low < alpha else np.full_like(values, low - alpha)
    return values, (pairs[:, 1] <= np.exp(-distance * distance / kind(2))) & (values < high)


# -- rejection: every element draws from blocks of its own -----------------------------------------------------------
def _uniforms16(*words: Array, dtype: Any) -> Array:
    return np.stack([_narrow(word.astype(np.uint32), dtype) for word in words], axis=1)


def _uniforms32(*words: Array) -> Array:
    """Four float32 numbers in [0, 1) of each block."""
    result = np.stack(words, axis=1).astype(np.uint32)
    return singles(result)


def _uniforms64(a: Array, b: Array, c: Array, d: Array) -> Array:
    """Two float64 numbers in [0, 1) of each block."""
    return np.stack([double(a, b), double(c, d)], axis=1)


def _normals32(*words: Array) -> Array:
    u = _uniforms32(*words)
    result = np.empty_like(u)
    box_muller(u[:, 0::2], u[:, 1::2], result[:, 0::2], result[:, 1::2])
    return result


def _normals64(*words: Array) -> Array:
    u = _uniforms64(*words)
    result = np.empty_like(u)
    box_muller(u[:, 0], u[:, 1], result[:, 0], result[:, 1])
    return result


class _Numbers:
    """Doubles that elements draw one at a time: the second of a block, then the first. `at` is the
    next block of each.
    """

    def __init__(self, stream: Array, at: Array, of_words: Callable[..., Array]) -> None:
        self._stream, self._at, self._of_words = stream, at, of_words
        self._left = np.zeros(at.size, np.intp)
        self._drawn = np.empty((at.size, 2))

    def __call__(self, elements: Array) -> Array:
        left = self._left[elements]
        out = left == 0
        which = elements[out]
        if which.size:
            at = self._at[which]
            self._at[which] = at + np.uint64(1)
            self._drawn[which] = self._of_words(*_blocks(self._stream, at))
            left[out] = 2
        left -= 1
        self._left[elements] = left
        return self._drawn[elements, left]


def _until_accepted(result: Array, elements: Array, propose: Callable[[Array], tuple[Array, Array]]) -> None:
    """Write what `propose` returns for elements into `result` once it is accepted; NaN if it never is."""
    for _ in range(TRIES):
        if not elements.size:
            return
        values, accepted = propose(elements)
        result[elements[accepted]] = values[accepted]
        elements = elements[~accepted]
    result[elements] = np.nan


TRIES = 1000


def _counted(stream: Array, at: Array, elements: Array, go_on: Callable[[Array, Array], Array]) -> Array:
    """The number of uniform numbers that each element draws before the one for which `go_on` is false."""
    count, active = np.zeros(at.size), elements
    while active.size:
        drawn = _uniforms64(*_blocks(stream, at[active]))
        at[active] += np.uint64(1)
        for column in (1, 0):
            still = go_on(active, drawn[:, column])
            active, drawn = active[still], drawn[still]
            count[active] += 1
    return count[elements]


def _by_chunks(sample: Callable[..., Array], stream: Array, samples: int, dtype: Any, *parameters: Array) -> Array:
    """Call `sample` for `samples` rows of elements with their own parameters, as many at a time as fit into the cache.

    Elements with the same parameters are adjacent in the stream.
    """
    each = parameters[0].size
    result = np.empty(samples * each, dtype)
    flat = [np.ravel(parameter) for parameter in parameters]
    with float_errors_ignored():
        for start in range(0, result.size, _ELEMENTS):
            place = np.arange(start, min(start + _ELEMENTS, result.size))
            row, column = (place, 0) if each == 1 else (place // each, place % each)
            number = (row + column * samples).astype(np.uint64)
            own = [np.broadcast_to(p, place.shape) if each == 1 else p[column] for p in flat]
            drawn = sample(stream, number, *own)
            result[place] = drawn if result.dtype.kind == "f" else np.nan_to_num(drawn)
    return result.reshape(samples, *parameters[0].shape)


def random_gamma(stream: Array, alpha: Array, *, samples: int) -> Array:
    """Gamma numbers [samples, ...] with rate 1 (Marsaglia and Tsang, 2000); alpha < 1 by a uniform number's power."""
    return _by_chunks(_gammas, stream, samples, alpha.dtype, alpha)


def _gammas(stream: Array, number: Array, alpha: Array) -> Array:
    alpha = alpha.astype(np.float64)
    at = number * _RESERVED
    uniform, normal = (_Numbers(stream, at, of_words) for of_words in (_uniforms64, _normals64))
    result = np.empty(alpha.size)
    one = alpha == 1
    exponential = np.flatnonzero(one)
    result[exponential] = -np.log1p(-uniform(exponential))
    boosted = alpha < 1
    d = alpha + np.where(boosted, 2 / 3, -1 / 3)
    c = 1 / 3 / np.sqrt(d)

    def propose(elements: Array) -> tuple[Array, Array]:
        x = normal(elements)
        v = 1 + c[elements] * x
        useful = ~(v <= 0)
        u = np.ones(x.shape)
        u[useful] = uniform(elements[useful])
        v = v * v * v
        squeezed = u < 1 - 0.0331 * (x * x) * (x * x)
        exact = np.flatnonzero(~squeezed & useful)
        x_, v_, d_ = x[exact], v[exact], d[elements[exact]]
        squeezed[exact] = np.log(u[exact]) < 0.5 * x_ * x_ + d_ * (1 - v_ + np.log(v_))
        return d[elements] * v, squeezed & useful

    _until_accepted(result, np.flatnonzero(~one), propose)
    small = np.flatnonzero(boosted)
    if small.size:
        result[small] *= np.power(uniform(small), 1 / alpha[small])
    return result


def random_poisson(stream: Array, rate: Array, *, samples: int, dtype: Any) -> Array:
    """Poisson counts [samples, ...]: products of uniform numbers (Knuth) or, from 10 on, Hörmann's PTRS (1993)."""
    return _by_chunks(_poissons, stream, samples, dtype, rate)


def _poissons(stream: Array, number: Array, rate: Array) -> Array:
    rate = rate.astype(np.float64)
    uniform = _Numbers(stream, number * _RESERVED, _uniforms64)
    result = np.full(rate.size, np.nan)
    few, many = np.flatnonzero(rate < 10), np.flatnonzero((rate >= 10) & np.isfinite(rate))
    least, product = np.exp(-rate), np.ones(rate.size)

    def multiply(elements: Array, u: Array) -> Array:
        product[elements] = products = product[elements] * u
        return products > least[elements]

    result[few] = _counted(stream, number * _RESERVED, few, multiply)

    log_rate = np.log(rate)
    b = 0.931 + 2.53 * np.sqrt(rate)
    a = -0.059 + 0.02483 * b
    alpha = 1.1239 + 1.1328 / (b - 3.4)
    quick = 0.9277 - 3.6224 / (b - 2)

    def propose(i: Array) -> tuple[Array, Array]:
        u = uniform(i) - 0.5
        v = uniform(i)
        us = 0.5 - np.abs(u)
        k = np.floor((2 * a[i] / us + b[i]) * u + rate[i] + 0.43)
        accepted = (us >= 0.07) & (v <= quick[i])
        slow = np.flatnonzero(~accepted & (k >= 0) & ((us >= 0.013) | (v <= us)))
        j, us_, k_ = i[slow], us[slow], k[slow]
        left = np.log(v[slow] * alpha[j] / (a[j] / (us_ * us_) + b[j]))
        accepted[slow] = left <= -rate[j] + k_ * log_rate[j] - log_factorial(np, k_)
        return k, accepted

    _until_accepted(result, many, propose)
    return result


def random_binomial(stream: Array, counts: Array, probs: Array, *, samples: int, dtype: Any) -> Array:
    """Binomial counts [samples, ...]: sums of geometric numbers, or Hörmann's BTRS (1993) where many are expected."""
    return _by_chunks(_binomials, stream, samples, dtype, *np.broadcast_arrays(counts, probs))


def _binomials(stream: Array, number: Array, counts: Array, probs: Array) -> Array:
    mirrored = probs > 0.5
    p = np.where(mirrored, 1 - probs, probs)
    expected, n, p = counts * p, counts.astype(np.float64), p.astype(np.float64)
    some = (n > 0) & (p > 0) & np.isfinite(n)
    large = expected >= 10
    result = np.where((np.isnan(p) | ~np.isfinite(n)) & ~(n <= 0), np.nan, 0.0)
    few, many = np.flatnonzero(some & ~large), np.flatnonzero(some & large)
    total, failure = np.zeros(n.size), np.log1p(-p)

    def add(elements: Array, u: Array) -> Array:
        """Add the failures before the next success, and the success; whether there are trials left."""
        total[elements] = trials = total[elements] + np.ceil(np.log(u) / failure[elements])
        return ~(trials > n[elements])

    result[few] = _counted(stream, number * np.uint64(42), few, add)
    _until_accepted(result, many, _binomial_proposals(n, p, _Numbers(stream, number * _RESERVED, _uniforms64)))
    return np.where(mirrored & (n > 0), n - result, result)


def _binomial_proposals(n: Array, p: Array, uniform: _Numbers) -> Callable[[Array], tuple[Array, Array]]:
    """Hörmann's transformed rejection: proposed numbers of successes, and whether they are accepted."""
    test = BinomialRejection.of(np, n, p)

    def propose(i: Array) -> tuple[Array, Array]:
        u = uniform(i) - 0.5
        v = uniform(i)
        us = 0.5 - np.abs(u)
        k = np.floor((2 * test.a[i] / us + test.b[i]) * u + (n[i] * p[i] + 0.5))
        accepted = (us >= 0.07) & (v <= test.quick[i])
        slow = np.flatnonzero(~accepted & (k >= 0) & (k <= n[i]))
        accepted[slow] = test.at(i[slow]).accepts(k[slow], us[slow], v[slow])
        return k, accepted

    return propose


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
