"""Hashes of strings, bit for bit as in TensorFlow: FarmHash's Fingerprint64, SipHash-2-4 and a MurmurHash.

Each function hashes many strings together: every line computes with one uint64 per string, modulo 2**64.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.text.packed import Packed, packed_form

_u64 = np.uint64
Pair = tuple[ndarray, ndarray]


def _rotated(x: ndarray, right: int) -> ndarray:
    found: ndarray = x >> _u64(right)
    found |= x << _u64(64 - right)
    return found


def _left(x: ndarray, by: int) -> ndarray:
    return _rotated(x, 64 - by)


# -- FarmHash --------------------------------------------------------------------------------------------------------
_K0, _K1, _K2 = _u64(0xC3A5C85C97CB3127), _u64(0xB492B66FBE98F273), _u64(0x9AE16A3B2F90404F)
_SHORT, _BYTE, _WHOLE_BYTES = _u64(0xFFFFFFFF), _u64(0xFF), _u64(0x38)


def fingerprint64(texts: Sequence[bytes] | Packed) -> ndarray:
    """FarmHash's Fingerprint64, the hash of `tf.strings.to_hash_bucket_fast` and `tf.fingerprint`.

    >>> [hex(int(h)) for h in fingerprint64([b"", b"hello"])]
    ['0x9ae16a3b2f90404f', '0xb48be5a931380ce8']
    """
    packed = packed_form(texts)
    lengths = packed.lengths.astype(np.int64, copy=False)
    longest = int(lengths.max(initial=0))
    found = _up_to_16(packed, lengths)
    for least, most, hashed in _LONGER:
        if longest >= least:
            (chosen,) = ((lengths >= least) & (lengths <= most)).nonzero()
            if len(chosen):
                starts = packed.starts[chosen]
                found[chosen] = hashed(packed, starts, lengths[chosen], packed.word(starts))
    return found


def in_buckets(hashes: ndarray, count: int) -> ndarray:
    """The remainders of hashes by a number: NumPy's `%` takes several times as long as its `//`.

    >>> in_buckets(np.array([7, 2**64 - 1], np.uint64), 10).tolist()
    [7, 5]
    """
    if count == 1:
        return np.zeros(hashes.shape, np.int64)
    whole = hashes // _u64(count)
    whole *= _u64(count)
    rest: ndarray = np.subtract(hashes, whole, out=whole).view(np.int64)
    return rest


def _mixed(x: ndarray) -> ndarray:
    return x ^ (x >> _u64(47))


def _combined(u: ndarray, v: ndarray, multiplier: ndarray) -> ndarray:
    a = u ^ v
    a *= multiplier
    a ^= a >> _u64(47)
    a ^= v
    a *= multiplier
    a ^= a >> _u64(47)
    a *= multiplier
    return a


def _multiplier(length: ndarray) -> ndarray:
    found = length.astype(_u64)
    found += found
    found += _K2
    return found


def _up_to_16(texts: Packed, lengths: ndarray) -> ndarray:
    """The hashes of all strings as if none were longer than 16 bytes: these are few formulas of the same last steps.

    All strings are computed as the most frequent ones are, of four to seven bytes; then the others replace the operands
    of the last steps.
    """
    word, size = texts.heads, np.minimum(lengths, 17)
    m, last = _MULTIPLIERS.take(size), word >> _LAST_FOUR.take(size)
    first = word & _SHORT
    first <<= _u64(3)
    first += size.view(_u64)
    (few,) = (size < 4).nonzero()
    if len(few):
        first[few] = last[few] = _up_to_3(word[few], size[few])
    (many,) = (size > 7).nonzero()
    if len(many):
        first[many], last[many] = _8_to_16(texts, texts.starts[many] + lengths[many], word[many], m[many])
    return _combined(first, last, m)


_SIZES = np.arange(18, dtype=np.uint64)
_MULTIPLIERS = np.where(_SIZES < 4, _K2, _K2 + _SIZES + _SIZES)
_LAST_FOUR = np.where((_SIZES > 3) & (_SIZES < 9), (_SIZES << _u64(3)) - _u64(32), _u64(0))
"""By the length of strings: a factor, and how far the last four of up to eight bytes are to be shifted."""
_INVERSE = _u64(pow(int(_K2), -1, 2**64))
_MIDDLE, _END = (_SIZES >> _u64(1)) << _u64(3), (np.maximum(_SIZES, _u64(1)) - _u64(1)) << _u64(3)


def _up_to_3(word: ndarray, size: ndarray) -> ndarray:
    """What both operands of the last steps must be: they multiply it by the factor, and mix the product.

    The hash of the empty string is the factor itself.
    """
    y = (word >> _MIDDLE.take(size)) & _BYTE
    y <<= _u64(8)
    y += word & _BYTE
    z = word >> _END.take(size)
    z <<= _u64(2)
    z += size.view(_u64)
    y *= _K2
    z *= _K0
    y ^= z
    y *= _INVERSE
    y[size == 0] = _INVERSE
    return y


def _8_to_16(texts: Packed, end: ndarray, word: ndarray, m: ndarray) -> Pair:
    a, b = word + _K2, texts.word(np.maximum(end - 8, 0))
    return _rotated(b, 37) * m + a, (_rotated(a, 25) + b) * m


def _17_to_32(texts: Packed, start: ndarray, length: ndarray, word: ndarray) -> ndarray:
    m, end = _multiplier(length), start + length
    a, b = word * _K1, texts.word(start + 8)
    c, d = texts.word(end - 8) * m, texts.word(end - 16) * _K2
    return _combined(_rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c, m)


def _33_to_64(texts: Packed, start: ndarray, length: ndarray, word: ndarray) -> ndarray:
    m, end = _multiplier(length), start + length
    a, b = word * _K2, texts.word(start + 8)
    c, d = texts.word(end - 8) * m, texts.word(end - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _combined(y, a + _rotated(b + _K2, 18) + c, m)
    e, f = texts.word(start + 16) * m, texts.word(start + 24)
    g, h = (y + texts.word(end - 32)) * m, (z + texts.word(end - 24)) * m
    return _combined(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, m)


def _weak(texts: Packed, start: ndarray, a: ndarray, b: ndarray) -> Pair:
    """Hash 32 bytes and two seeds to two numbers."""
    w, x, y, z = (texts.word(start + 8 * i) for i in range(4))
    a = a + w
    b = _rotated(b + a + z, 21)
    c = a
    a = a + x + y
    return a + z, b + _rotated(a, 44) + c


State = tuple[ndarray, ndarray, ndarray, Pair, Pair]


def _over_64(texts: Packed, start: ndarray, length: ndarray, word: ndarray) -> ndarray:
    zero = np.zeros(len(start), _u64)
    x, y = zero + _u64(81) * _K2 + word, zero + _u64(81) * _K1 + _u64(113)
    z = _mixed(y * _K2 + _u64(113)) * _K2
    state: State = (x, y, z, (zero, zero), (zero, zero))
    blocks = (length - 1) // 64
    for block in range(int(blocks.max())):
        going = np.flatnonzero(blocks > block)
        if going.size == blocks.size:
            state = _block(texts, start + 64 * block, state, _K1, _u64(1))
        else:
            part = _block(texts, start[going] + 64 * block, _map(operator.itemgetter(going), state), _K1, _u64(1))
            state = _put(state, part, going)
    return _last_block(texts, start + length - 64, length, state)


def _map(function: Callable[[ndarray], ndarray], state: State) -> State:
    x, y, z, v, w = state
    return function(x), function(y), function(z), (function(v[0]), function(v[1])), (function(w[0]), function(w[1]))


def _put(state: State, part: State, where: ndarray) -> State:
    """The state, with some strings advanced by one block."""
    x, y, z, v, w = _map(np.copy, state)
    px, py, pz, pv, pw = part
    for whole, new in zip((x, y, z, *v, *w), (px, py, pz, *pv, *pw), strict=True):
        whole[where] = new
    return x, y, z, v, w


def _block(texts: Packed, start: ndarray, state: State, multiplier: Any, nine: Any) -> State:
    """One step of 64 bytes; the last one has another multiplier, and multiplies two numbers by nine."""
    x, y, z, v, w = state
    x = _rotated(x + y + v[0] + texts.word(start + 8), 37) * multiplier
    y = _rotated(y + v[1] + texts.word(start + 48), 42) * multiplier
    x = x ^ (w[1] * nine)
    y = y + v[0] * nine + texts.word(start + 40)
    z = _rotated(z + w[0], 33) * multiplier
    v = _weak(texts, start, v[1] * multiplier, x + w[0])
    w = _weak(texts, start + 32, z + w[1], y + texts.word(start + 16))
    return z, y, x, v, w


def _last_block(texts: Packed, start: ndarray, length: ndarray, state: State) -> ndarray:
    x, y, z, v, w = state
    m = _K1 + ((z & _u64(0xFF)) << _u64(1))
    first = w[0] + ((length - 1) & 63).astype(_u64)
    v = (v[0] + first, v[1])
    w = (first + v[0], w[1])
    x, y, z, v, w = _block(texts, start, (x, y, z, v, w), m, _u64(9))
    return _combined(_combined(v[0], w[0], m) + _mixed(y) * _K0 + z, _combined(v[1], w[1], m) + x, m)


_LONGER: tuple[tuple[int, int, Callable[[Packed, ndarray, ndarray, ndarray], ndarray]], ...] = (
    (17, 32, _17_to_32),
    (33, 64, _33_to_64),
    (65, 2**62, _over_64),
)
"""Hash functions of strings from one length to another. They get positions, lengths, and the first eight bytes."""


# -- MurmurHash ------------------------------------------------------------------------------------------------------
_MURMUR, _SEED = _u64(0xC6A4A7935BD1E995), _u64(0xDECAFCAFFE)


def murmur64(texts: Sequence[bytes] | Packed) -> ndarray:
    """The 64-bit MurmurHash of `tf.strings.to_hash_bucket`.

    >>> int(murmur64([b"hello"])[0]) % (2**63 - 1)
    5943547241907780938
    """
    packed = packed_form(texts)
    found = packed.lengths.astype(_u64)
    found *= _MURMUR
    found ^= _SEED
    for words, going in _words(packed):
        k = words * _MURMUR
        k ^= k >> _u64(47)
        k *= _MURMUR
        k ^= found[going]
        k *= _MURMUR
        found[going] = k
    found ^= _tail(packed)
    found *= _LAST_FACTORS.take(packed.lengths & 7)
    found ^= found >> _u64(47)
    found *= _MURMUR
    found ^= found >> _u64(47)
    return found


_LAST_FACTORS = np.array([1] + [_MURMUR] * 7, _u64)
"""Factors of the hash after the bytes behind the last whole word: only if there are any."""

_TAILS = (_u64(1) << (np.arange(8, dtype=_u64) * _u64(8))) - _u64(1)
"""Masks of the first bytes of a word, by their number."""


def _words(texts: Packed) -> Iterator[tuple[ndarray, ndarray]]:
    """The whole words of eight bytes, first ones first, with the numbers of the strings that have one."""
    counts = texts.lengths >> 3
    for i in range(int(counts.max(initial=0))):
        (going,) = (counts > i).nonzero()
        yield texts.word(texts.starts[going] + 8 * i), going


def _tail(texts: Packed) -> ndarray:
    """The bytes after the last whole word, as a number."""
    tail = texts.heads.copy()
    (more,) = (texts.lengths > 7).nonzero()
    if len(more):
        lengths = texts.lengths[more]
        whole = lengths & ~7
        rest = texts.word(texts.starts[more] + whole)
        rest &= _TAILS.take(lengths - whole)
        tail[more] = rest
    return tail


# -- SipHash ---------------------------------------------------------------------------------------------------------
_INITIAL = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def siphash(texts: Sequence[bytes] | Packed, key: tuple[int, int]) -> ndarray:
    """SipHash-2-4 with a key of two numbers, the hash of `tf.strings.to_hash_bucket_strong`.

    >>> hex(int(siphash([bytes(range(15))], (0x0706050403020100, 0x0F0E0D0C0B0A0908))[0]))
    '0xa129ca6149be45e5'
    """
    packed = packed_form(texts)
    state = [np.full(len(texts), _u64(word ^ (key[i % 2] % 2**64))) for i, word in enumerate(_INITIAL)]
    for words, going in _words(packed):
        part = [v[going] for v in state]
        _absorb(part, words)
        for whole, new in zip(state, part, strict=True):
            whole[going] = new
    last = packed.lengths.astype(_u64)
    last <<= _u64(56)
    last |= _tail(packed)
    _absorb(state, last)
    state[2] ^= _u64(0xFF)
    for _ in range(4):
        _round(state)
    found = state[0]
    for other in state[1:]:
        found ^= other
    return found


def _absorb(state: list[ndarray], word: ndarray) -> None:
    state[3] ^= word
    _round(state)
    _round(state)
    state[0] ^= word


def _round(state: list[ndarray]) -> None:
    """One round of SipHash, in place."""
    a, b, c, d = state
    a += b
    c += d
    b, d = _left(b, 13), _left(d, 16)
    b ^= a
    d ^= c
    a = _rotated(a, 32)
    a += d
    c += b
    d, b = _left(d, 21), _left(b, 17)
    d ^= a
    b ^= c
    state[:] = a, b, _rotated(c, 32), d
