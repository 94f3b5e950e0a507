"""CRC-32C, the checksum of TensorFlow's files, computed with whole arrays."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from numpy import ndarray

_POLYNOMIAL = 0x82F63B78  # Castagnoli's, the highest power in the lowest bit

_DISTANCES = (6293, 6677, 6777)
"""x^6777 = x^(6777-6293) + x^(6777-6677) + 1 modulo the polynomial.

So a bit of the data can be removed without changing the checksum if the bits at these distances after it are flipped
by it. As squaring a polynomial over GF(2) doubles its exponents, the same holds for distances in bytes and in words of
eight bytes: blocks of 6293 words are removed by three exclusive ors of arrays.
"""

_CHUNK = 2**20  # bytes processed at a time, which fit into the CPU's cache


def crc32c(data: Any, checksum: int = 0) -> int:
    """The CRC-32C of bytes or of an array of bytes; with `checksum`, of the bytes before followed by these.

    >>> hex(crc32c(b"123456789")), crc32c(b"6789", crc32c(b"12345")) == crc32c(b"123456789")
    ('0xe3069283', True)
    """
    data = np.frombuffer(data, np.uint8) if not isinstance(data, ndarray) else data.reshape(-1).view(np.uint8)
    register = checksum ^ 0xFFFFFFFF
    for start in range(0, data.size, _CHUNK):
        register = _advance(register, data[start : start + _CHUNK])
    return register ^ 0xFFFFFFFF


def crc32c_small(data: bytes) -> int:
    """The same for a few bytes, one by one from a table: up to some hundred of them, that is faster.

    >>> hex(crc32c_small(b"123456789"))
    '0xe3069283'
    """
    if len(data) > _SMALL:
        return crc32c(data)
    table, register = _table(), 0xFFFFFFFF
    for byte in data:
        register = table[(register ^ byte) & 255] ^ register >> 8
    return register ^ 0xFFFFFFFF


_SMALL = 400  # bytes


@functools.cache
def _table() -> tuple[int, ...]:
    """The register after each byte, starting from an empty register."""
    entries = []
    for register in range(256):
        for _ in range(8):
            register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
        entries.append(register)
    return tuple(entries)


def _advance(register: int, data: ndarray) -> int:
    """The register of the checksum after these bytes."""
    if data.size < 16:
        for byte in data.tolist():
            register ^= byte
            for _ in range(8):
                register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
        return register
    zeros = -data.size % 8  # leading zeros do not change the result
    work = np.empty(zeros + data.size, np.uint8)
    work[:zeros] = 0
    work[zeros:] = data
    work[zeros : zeros + 4] ^= np.frombuffer(register.to_bytes(4, "little"), np.uint8)
    work = _shortened(_shortened(work.view(np.uint64)).view(np.uint8))
    bits = np.unpackbits(work, bitorder="little")
    return int(np.bitwise_xor.reduce(_remainders()[-bits.size :] * bits))


def _shortened(work: ndarray) -> ndarray:
    """Fold the data into its end, which has the same checksum."""
    start, far = 0, _DISTANCES[-1]
    while (left := work.size - start - far) > 0:
        stop = start + min(left, _DISTANCES[0])
        for distance in _DISTANCES:
            work[start + distance : stop + distance] ^= work[start:stop]
        start = stop
    return work[start:]


@functools.cache
def _remainders() -> ndarray:
    """The checksum of a single bit at each position after shortening, the last position last."""
    places, register = [], _POLYNOMIAL
    for _ in range(8 * _DISTANCES[-1]):
        places.append(register)
        register = register >> 1 ^ (_POLYNOMIAL if register & 1 else 0)
    return np.array(places[::-1], np.uint32)


def masked(checksum: int) -> int:
    """Mask a checksum for storage: rotated by 15 bits plus a constant, because checksums of checksums are weak."""
    return ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF


def unmasked(stored: int) -> int:
    turned = (stored - 0xA282EAD8) & 0xFFFFFFFF
    return (turned >> 17 | turned << 15) & 0xFFFFFFFF
