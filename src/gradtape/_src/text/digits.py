"""Decimal numbers in packed texts, by NumPy: eight digits at a time when they are read, four when they are written."""

from __future__ import annotations

import functools

import numpy as np
from numpy import ndarray

from gradtape._src.text.packed import Packed

_u64 = np.uint64
_ZEROS, _CARRY, _HIGH = _u64(0x3030303030303030), _u64(0x7676767676767676), _u64(0x8080808080808080)
_STEPS = (
    (_u64(0x0F0F0F0F0F0F0F0F), _u64(2561), _u64(8)),
    (_u64(0x00FF00FF00FF00FF), _u64(6553601), _u64(16)),
    (_u64(0x0000FFFF0000FFFF), _u64(42949672960001), _u64(32)),
)
_SHIFTS = _u64(32) - np.arange(9, dtype=_u64) * _u64(4)
"""Half of the bits that are left of a word, by how many digits it has."""
_SIGN = _u64(63)
_MINUS, _PLUS, _POINT = 45, 43, 46
_EXACT = 2.0**53


# -- reading ---------------------------------------------------------------------------------------------------------
def _digits(texts: Packed, starts: ndarray, counts: ndarray) -> ndarray | None:
    """The numbers that up to eight digits from each place on say; None if something is no digit."""
    shift = _SHIFTS.take(counts)
    found = (texts.heads if starts is texts.starts else texts.word(starts)) ^ _ZEROS
    found <<= shift  # missing digits are zeros in front
    found <<= shift
    check = found + _CARRY
    check |= found
    if np.bitwise_or.reduce(check) & _HIGH:
        return None
    for mask, factor, width in _STEPS:
        found &= mask
        found *= factor
        found >>= width
    return found


def _unsigned(texts: Packed) -> tuple[ndarray, ndarray, ndarray]:
    """Where the digits of each text start, how many bytes there are, and which numbers are negative."""
    first = texts.bytes.take(texts.starts)
    negative = first == _MINUS
    signed = negative | (first == _PLUS)
    if not signed.any():
        return texts.starts, texts.lengths, negative
    return texts.starts + signed, texts.lengths - signed, negative


def _is_beyond(counts: ndarray, most: int) -> bool:
    """Whether a number is negative or larger than this: as an unsigned number, a negative one is large."""
    return bool((counts.astype(np.int64, copy=False).view(_u64) > _u64(most)).any())


def read_integers(texts: Packed) -> ndarray | None:
    """Integers of up to eight digits; None if a text is something else.

    >>> read_integers(Packed([b"12", b"-3"])).tolist()
    [12, -3]
    """
    starts, counts, negative = _unsigned(texts)
    if _is_beyond(counts - 1, 7):
        return None
    found = _digits(texts, starts, counts)
    if found is None:
        return None
    numbers: ndarray = found.view(np.int64)
    if negative.any():  # the bits of the number -n are those of ~n + 1
        sign = negative.astype(np.int64)
        numbers ^= -sign
        numbers += sign
    return numbers


def read_decimals(texts: Packed) -> ndarray | None:
    """Numbers without an exponent, of up to eight digits on either side of a point and 15 in all; None for others.

    The digits are read as integers; both these and the powers of ten are exact, so that their quotient is rounded once.

    >>> read_decimals(Packed([b"1.5", b"-20"])).tolist()
    [1.5, -20.0]
    """
    if not texts.is_apart:
        texts = texts.joined(b"\0")
    starts, counts, negative = _unsigned(texts)
    ends = texts.ends
    points = np.flatnonzero(texts.bytes == _POINT)
    if len(points) == len(texts) and ((starts <= points) & (points < ends)).all():
        before, after = points - starts, ends - points - 1
    else:
        rows = np.searchsorted(ends, points)
        if (np.diff(rows) < 1).any():
            return None
        before, after = counts.copy(), np.zeros(len(texts), np.int64)
        before[rows], after[rows] = points - starts[rows], ends[rows] - points - 1
    total = before + after
    if _is_beyond(before, 8) or _is_beyond(after, 8) or _is_beyond(total - 1, 14):
        return None
    whole, part = _digits(texts, starts, before), _digits(texts, ends - after, after)
    if whole is None or part is None:
        return None
    whole *= _WHOLE_POWERS.take(after)
    whole += part
    numbers = whole.astype(np.float64)
    numbers /= _POWERS.take(after)
    bits = numbers.view(_u64)
    bits ^= negative.astype(_u64) << _SIGN
    return numbers


# -- writing ---------------------------------------------------------------------------------------------------------
_POWERS = 10.0 ** np.arange(16)
_WHOLE_POWERS = _u64(10) ** np.arange(16, dtype=_u64)


@functools.cache
def _fours() -> ndarray:
    """The texts of 0000 to 9999, each as a number of four bytes."""
    return np.array([b"%04d" % i for i in range(10_000)], "S4").view(np.uint32)


def _written(numbers: ndarray, count: int) -> ndarray:
    """The last digits of numbers that are not negative, one row of bytes for each; `count` is a multiple of four."""
    found = np.empty((len(numbers), count // 4), np.uint32)
    rest = numbers.astype(_u64)
    for column in range(count // 4 - 1, 0, -1):
        higher = rest // _u64(10_000)
        found[:, column] = _fours()[rest - higher * _u64(10_000)]
        rest = higher
    found[:, 0] = _fours()[rest]
    return found.view(np.uint8)


def _from_rows(buffer: ndarray, end: int, lengths: ndarray, negative: ndarray) -> Packed:
    """Texts that end at this place of each row, with a minus in front of some."""
    starts = np.arange(len(buffer)) * buffer.shape[1] + end - lengths
    data = np.append(buffer.reshape(-1), np.zeros(9, np.uint8))
    if negative.any():
        starts, lengths = starts - negative, lengths + negative
        data[starts[negative]] = _MINUS
    return Packed.at(data, starts, lengths)


def _lengths(numbers: ndarray) -> ndarray:
    """How many digits each number has."""
    found: ndarray = np.ones(len(numbers), np.int64)
    power, most = 10, int(numbers.max())
    while power <= most:
        found += numbers >= power
        power *= 10
    return found


def write_integers(values: ndarray) -> Packed | None:
    """Integers as texts; None if one has more than 15 digits.

    >>> write_integers(np.array([5, -42])).rows
    [b'5', b'-42']
    """
    if values.dtype == np.uint64 or values.max() >= 10**15 or values.min() <= -(10**15):
        return None
    numbers = np.abs(values.astype(np.int64))
    lengths = _lengths(numbers)
    width = 4 * (int(lengths.max()) // 4 + 1)
    return _from_rows(_written(numbers, width), width, lengths, values < 0)


def write_decimals(values: ndarray, precision: int) -> Packed | None:
    """Numbers with so many digits behind the point, as C's `%f` writes them; None where NumPy cannot be exact.

    The product of a float of 24 bits and a power of ten up to the twelfth is exact in 53 bits, so that it is rounded
    once, to even as C does.

    >>> write_decimals(np.array([0.125, -20.0], np.float32), 2).rows
    [b'0.12', b'-20.00']
    """
    if values.dtype.itemsize > 4 or not 1 <= precision <= 12:
        return None
    scaled = np.abs(values.astype(np.float64)) * _POWERS[precision]
    if not scaled.max() < _EXACT:  # too large, infinite or NaN
        return None
    numbers = np.rint(scaled).astype(np.int64)
    unit = 10**precision
    whole = numbers // unit
    lengths = _lengths(whole)
    width, places = 4 * (int(lengths.max()) // 4 + 1), 4 * -(-precision // 4)
    buffer = np.empty((len(values), width + 1 + precision), np.uint8)
    buffer[:, :width] = _written(whole, width)
    buffer[:, width] = _POINT
    buffer[:, width + 1 :] = _written(numbers - whole * unit, places)[:, places - precision :]
    return _from_rows(buffer, buffer.shape[1], lengths + 1 + precision, np.signbit(values))
