"""Parts of many strings: positions in the buffer that they are packed in."""

from __future__ import annotations

import numpy as np
from numpy import ndarray

from gradtape._src.text.packed import Packed

_ROUNDS = 16
_FEW_STEPS = 8
"""Up to so many characters are stepped over one after the other, in all texts together."""
_WIDTHS = np.repeat(np.array([1, 2, 3, 4]), [192, 32, 16, 16])
"""How many bytes a character has, by its first one."""
_SPACE, _FIRST, _SPACES = np.uint8(32), np.uint8(9), np.uint8(5)  # the space; tab to carriage return


class PositionError(ValueError):
    """A position after the end of a string; `index` is the number of the string."""

    def __init__(self, index: int) -> None:
        super().__init__(index)
        self.index = index


def is_space(data: ndarray) -> ndarray:
    """Whether each byte is ASCII whitespace."""
    found: ndarray = (data == _SPACE) | (data - _FIRST < _SPACES)
    return found


def _resolved(pos: ndarray, count: ndarray, sizes: ndarray) -> tuple[ndarray, ndarray]:
    """The starts and lengths of parts, in units; negative positions count from the end."""
    first = np.where(pos < 0, pos + sizes, pos) if (pos < 0).any() else pos
    bad = (first < 0) | (first > sizes)
    if bad.any():
        raise PositionError(int(np.argmax(bad)))
    left = sizes - first
    return first, np.where((count < 0) | (count > left), left, count)


def substrings(texts: Packed, pos: ndarray, count: ndarray) -> Packed:
    """Parts by bytes. A negative count goes to the end.

    >>> substrings(Packed([b"hello", b"a"]), np.array([1, -1]), np.array([3, -1])).rows
    [b'ell', b'a']
    """
    first, lengths = _resolved(pos, count, texts.lengths)
    return Packed.at(texts.bytes, texts.starts + first, lengths)


def character_counts(texts: Packed) -> ndarray:
    """The number of UTF-8 characters of each string: bytes that are not continuation bytes."""
    if texts.is_ascii:
        return texts.lengths
    if not texts.is_apart:
        texts = texts.joined(b"\0")
    begins = (texts.bytes & 0xC0) != 0x80
    until = np.cumsum(begins, dtype=np.int32)  # the byte after a string begins a character that does not belong to it
    counts: ndarray = until[texts.ends] - until[texts.starts] - 1 + begins[texts.starts]
    return counts


def characters(texts: Packed, pos: ndarray, count: ndarray) -> Packed:
    """Parts by characters of UTF-8.

    >>> [row.decode() for row in characters(Packed(["né!".encode()]), np.array([1]), np.array([1])).rows]
    ['é']
    """
    if texts.is_ascii:
        return substrings(texts, pos, count)
    if pos.size == count.size == 1 and texts.is_utf8:
        before, length = int(pos[0]), int(count[0])
        near = before >= 0 and length >= 0 and before + length <= _FEW_STEPS
        if near and (found := _first_characters(texts, before, length)) is not None:
            return found
    if not texts.is_apart:
        texts = texts.joined(b"\0")
    begins = (texts.bytes & 0xC0) != 0x80
    begins[texts.starts] = True  # the first byte of a string always counts
    begins[texts.ends] = True
    places = np.flatnonzero(begins)
    counts = np.cumsum(begins, dtype=np.int32)
    own = counts[texts.starts] - 1
    sizes = counts[texts.ends] - 1 - own
    first, many = _resolved(pos, count, sizes)
    starts = places[own + first]
    return Packed.at(texts.bytes, starts, places[own + first + many] - starts)


def _first_characters(texts: Packed, pos: int, count: int) -> Packed | None:
    """Parts near the beginning of texts that are valid; None if a text has no such position."""
    ends = texts.ends
    starts = texts.starts
    for _ in range(pos):
        if (starts >= ends).any():
            return None
        starts = starts + _WIDTHS.take(texts.bytes.take(starts))
    until = starts
    for _ in range(count):
        until = until + _WIDTHS.take(texts.bytes.take(until))
        np.minimum(until, ends, out=until)
    return Packed.at(texts.bytes, starts, until - starts)


def stripped(texts: Packed) -> Packed | None:
    """Without whitespace at the ends; None if some text has much of it.

    >>> stripped(Packed([b" a b ", b"c"])).rows
    [b'a b', b'c']
    """
    starts, ends = texts.starts.copy(), texts.ends
    left = right = np.flatnonzero(texts.lengths)
    for _ in range(_ROUNDS):
        left = left[is_space(texts.bytes[starts[left]])]
        starts[left] += 1
        left = left[starts[left] < ends[left]]
        if not len(left):
            break
    else:
        return None
    right = right[starts[right] < ends[right]]
    for _ in range(_ROUNDS):
        right = right[is_space(texts.bytes[ends[right] - 1])]
        ends[right] -= 1
        if not len(right):
            return Packed.at(texts.bytes, starts, ends - starts)
    return None


def split(texts: Packed, separator: bytes) -> tuple[Packed, ndarray]:
    """Parts between single bytes, or without a separator between whitespace; and how many each text has.

    >>> parts, counts = split(Packed([b"a b ", b"c"]), b"")
    >>> parts.rows, counts.tolist()
    ([b'a', b'b', b'c'], [2, 1])
    """
    whole = texts.joined(separator or b" ")
    size = int(whole.ends[-1]) + 1
    data = whole.bytes[: size - 1]
    if separator:
        gaps = np.flatnonzero(data == separator[0])
        starts, ends = np.concatenate([[0], gaps + 1]), np.append(gaps, size - 1)
    else:
        space = np.empty(size + 1, bool)
        space[0] = space[-1] = True
        space[1:-1] = is_space(data)
        edges = np.flatnonzero(space[1:] != space[:-1])
        starts, ends = edges[::2], edges[1::2]
    before = np.searchsorted(starts, np.append(whole.starts, size))
    return Packed.at(whole.bytes, starts, ends - starts), np.diff(before)


def neighbours(texts: Packed, lengths: ndarray, width: int, between: bytes) -> Packed:
    """Every `width` neighbours within rows of these lengths, joined.

    >>> neighbours(Packed([b"a", b"b", b"c", b"d"]), np.array([3, 1]), 2, b"-").rows
    [b'a-b', b'b-c']
    """
    whole = texts.joined(between)
    counts = np.maximum(lengths - width + 1, 0)
    first = np.cumsum(lengths) - lengths - (np.cumsum(counts) - counts)  # of a row, minus that of its n-grams
    chosen = np.arange(counts.sum()) + np.repeat(first, counts)
    starts = whole.starts[chosen]
    return Packed.at(whole.bytes, starts, whole.ends[chosen + (width - 1)] - starts)


def joined_rows(texts: Packed, lengths: ndarray, between: bytes) -> Packed:
    """The texts of each row joined, in rows of these lengths.

    >>> joined_rows(Packed([b"a", b"b", b"c"]), np.array([2, 0, 1]), b"-").rows
    [b'a-b', b'', b'c']
    """
    whole = texts.joined(between)
    each = int(lengths[0]) if len(lengths) else 0
    if each and (lengths == each).all():
        starts, ends = whole.starts[::each], whole.ends[each - 1 :: each]
        return Packed.at(whole.bytes, starts, ends - starts)
    last = np.cumsum(lengths)
    some = lengths > 0
    starts, ends = np.zeros(len(lengths), np.int64), np.zeros(len(lengths), np.int64)
    starts[some] = whole.starts[(last - lengths)[some]]
    ends[some] = whole.ends[last[some] - 1]
    return Packed.at(whole.bytes, starts, ends - starts)
