"""Hashes of texts, bit for bit those of TensorFlow: FarmHash's Fingerprint64, SipHash-2-4 and a MurmurHash.

Each function hashes many texts together: every line computes on one uint64 per text, modulo 2**64.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.text.packed import Packed, packed_form

_u64 = np.uint64
Pair = tuple[ndarray, ndarray]


def _rotated(x: ndarray, right: int) -> ndarray:
    return (x >> _u64(right)) | (x << _u64(64 - right))


def _left(x: ndarray, by: int) -> ndarray:
    return _rotated(x, 64 - by)


# -- FarmHash --------------------------------------------------------------------------------------------------------
_K0, _K1, _K2 = _u64(0xC3A5C85C97CB3127), _u64(0xB492B66FBE98F273), _u64(0x9AE16A3B2F90404F)
_SHORT = _u64(0xFFFFFFFF)


def fingerprint64(texts: Sequence[bytes] | Packed) -> ndarray:
    """FarmHash's Fingerprint64, the hash of `tf.strings.to_hash_bucket_fast` and `tf.fingerprint`.

    >>> [hex(int(h)) for h in fingerprint64([b"", b"hello"])]
    ['0x9ae16a3b2f90404f', '0xb48be5a931380ce8']
    """
    packed = packed_form(texts)
    found = np.full(len(texts), _K2)
    for shortest, longest, hashed in _BY_LENGTH:
        chosen = np.flatnonzero((packed.lengths >= shortest) & (packed.lengths <= longest))
        if chosen.size:
            found[chosen] = hashed(packed, packed.starts[chosen], packed.lengths[chosen])
    return found


def _mixed(x: ndarray) -> ndarray:
    return x ^ (x >> _u64(47))


def _combined(u: ndarray, v: ndarray, multiplier: ndarray) -> ndarray:
    a = _mixed((u ^ v) * multiplier)
    return _mixed((v ^ a) * multiplier) * multiplier


def _multiplier(length: ndarray) -> ndarray:
    return _K2 + length.astype(_u64) * _u64(2)


def _up_to_3(texts: Packed, start: ndarray, length: ndarray) -> ndarray:
    first, middle, last = (texts.bytes[start + place].astype(_u64) for place in (0, length >> 1, length - 1))
    y, z = first + (middle << _u64(8)), length.astype(_u64) + (last << _u64(2))
    return _mixed((y * _K2) ^ (z * _K0)) * _K2


def _4_to_7(texts: Packed, start: ndarray, length: ndarray) -> ndarray:
    first, last = texts.word(start) & _SHORT, texts.word(start + length - 4) & _SHORT
    return _combined(length.astype(_u64) + (first << _u64(3)), last, _multiplier(length))


def _8_to_16(texts: Packed, start: ndarray, length: ndarray) -> ndarray:
    m = _multiplier(length)
    a, b = texts.word(start) + _K2, texts.word(start + length - 8)
    return _combined(_rotated(b, 37) * m + a, (_rotated(a, 25) + b) * m, m)


def _17_to_32(texts: Packed, start: ndarray, length: ndarray) -> ndarray:
    m, end = _multiplier(length), start + length
    a, b = texts.word(start) * _K1, texts.word(start + 8)
    c, d = texts.word(end - 8) * m, texts.word(end - 16) * _K2
    return _combined(_rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c, m)


def _33_to_64(texts: Packed, start: ndarray, length: ndarray) -> ndarray:
    m, end = _multiplier(length), start + length
    a, b = texts.word(start) * _K2, texts.word(start + 8)
    c, d = texts.word(end - 8) * m, texts.word(end - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _combined(y, a + _rotated(b + _K2, 18) + c, m)
    e, f = texts.word(start + 16) * m, texts.word(start + 24)
    g, h = (y + texts.word(end - 32)) * m, (z + texts.word(end - 24)) * m
    return _combined(_rotated(e + f, 43) + _rotated(g, 30) + h, e + _rotated(f + a, 18) + g, m)


def _weak(texts: Packed, start: ndarray, a: ndarray, b: ndarray) -> Pair:
    """32 bytes and two seeds as two numbers."""
    w, x, y, z = (texts.word(start + 8 * i) for i in range(4))
    a = a + w
    b = _rotated(b + a + z, 21)
    c = a
    a = a + x + y
    return a + z, b + _rotated(a, 44) + c


State = tuple[ndarray, ndarray, ndarray, Pair, Pair]


def _over_64(texts: Packed, start: ndarray, length: ndarray) -> ndarray:
    zero = np.zeros(len(start), _u64)
    x, y = zero + _u64(81) * _K2 + texts.word(start), zero + _u64(81) * _K1 + _u64(113)
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
    """The state with the texts at some places gone one block further."""
    x, y, z, v, w = _map(np.copy, state)
    px, py, pz, pv, pw = part
    for whole, new in zip((x, y, z, *v, *w), (px, py, pz, *pv, *pw), strict=True):
        whole[where] = new
    return x, y, z, v, w


def _block(texts: Packed, start: ndarray, state: State, multiplier: Any, nine: Any) -> State:
    """One step of 64 bytes; the last one has another multiplier, and weighs two numbers by nine."""
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


_BY_LENGTH: tuple[tuple[int, float, Callable[[Packed, ndarray, ndarray], ndarray]], ...] = (
    (1, 3, _up_to_3),
    (4, 7, _4_to_7),
    (8, 16, _8_to_16),
    (17, 32, _17_to_32),
    (33, 64, _33_to_64),
    (65, float("inf"), _over_64),
)


# -- MurmurHash ------------------------------------------------------------------------------------------------------
_MURMUR, _SEED = _u64(0xC6A4A7935BD1E995), _u64(0xDECAFCAFFE)


def murmur64(texts: Sequence[bytes] | Packed) -> ndarray:
    """The 64-bit MurmurHash of `tf.strings.to_hash_bucket`.

    >>> int(murmur64([b"hello"])[0]) % (2**63 - 1)
    5943547241907780938
    """
    packed = packed_form(texts)
    found = _SEED ^ (packed.lengths.astype(_u64) * _MURMUR)
    for words, going in _words(packed):
        k = words * _MURMUR
        k = (k ^ (k >> _u64(47))) * _MURMUR
        found[going] = (found[going] ^ k) * _MURMUR
    rest = packed.lengths % 8
    some = np.flatnonzero(rest)
    found[some] = (found[some] ^ _tail(packed)[some]) * _MURMUR
    found = (found ^ (found >> _u64(47))) * _MURMUR
    result: ndarray = found ^ (found >> _u64(47))
    return result


def _words(texts: Packed) -> list[tuple[ndarray, ndarray]]:
    """The whole words of eight bytes, the first ones first, with the numbers of the texts that have one there."""
    counts = texts.lengths // 8
    found = []
    for i in range(int(counts.max(initial=0))):
        going = np.flatnonzero(counts > i)
        found.append((texts.word(texts.starts[going] + 8 * i), going))
    return found


def _tail(texts: Packed) -> ndarray:
    """The bytes behind the last whole word, as a number."""
    rest = texts.lengths % 8
    mask = (_u64(1) << (rest.astype(_u64) * _u64(8))) - _u64(1)
    tail: ndarray = texts.word(texts.starts + texts.lengths - rest) & mask
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
    _absorb(state, _tail(packed) | (packed.lengths.astype(_u64) << _u64(56)))
    state[2] = state[2] ^ _u64(0xFF)
    for _ in range(4):
        _round(state)
    result: ndarray = state[0] ^ state[1] ^ state[2] ^ state[3]
    return result


def _absorb(state: list[ndarray], word: ndarray) -> None:
    state[3] = state[3] ^ word
    _round(state)
    _round(state)
    state[0] = state[0] ^ word


def _round(state: list[ndarray]) -> None:
    a, b, c, d = state
    a, c = a + b, c + d
    b, d = _left(b, 13) ^ a, _left(d, 16) ^ c
    a, c = _left(a, 32) + d, c + b
    d, b = _left(d, 21) ^ a, _left(b, 17) ^ c
    state[:] = a, b, _left(c, 32), d
