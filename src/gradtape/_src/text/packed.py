"""Many strings as one buffer of bytes, for computing with NumPy.

A function of strings whose results are parts of its inputs copies nothing: the results are positions in the same
buffer. A string tensor has such a buffer once a function needs it, or from the start if a function has created it; the
Python objects of its elements are created when they are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

_SPARE = bytes(9)  # after the last string, so that eight bytes can be read at any position
_BETWEEN = b"\0"
_FEW = 256
"""Up to so many words are read from any address: NumPy reads more of them faster from multiples of eight."""
_EIGHT, _THREE, _WORD = np.int64(7), np.int64(3), np.uint64(64)
_KEPT_BYTES = (np.uint64(1) << (np.arange(8, dtype=np.uint64) * np.uint64(8))) - np.uint64(1)
_KEPT_BYTES = np.append(_KEPT_BYTES, [~np.uint64(0)])
"""Masks of the first bytes of a word, by their number."""
_LONG = 256
"""The length from which on Python joins strings: NumPy copies all strings in rounds of eight bytes."""


class Packed:
    """Texts in a buffer: where each one starts, and how long it is.

    `is_apart` says whether the texts follow each other in the buffer with one byte in between, from its start on;
    `short` keeps what an index of texts computes.

    >>> texts = Packed([b"ab", b"", b"c"])
    >>> texts.starts.tolist(), texts.lengths.tolist(), texts.rows
    ([0, 3, 4], [2, 0, 1], [b'ab', b'', b'c'])
    """

    __slots__ = (
        "_aligned",
        "_heads",
        "_is_ascii",
        "_is_utf8",
        "_rows",
        "_words",
        "bytes",
        "is_apart",
        "lengths",
        "short",
        "starts",
    )

    def __init__(self, texts: Sequence[bytes]) -> None:
        data = _BETWEEN.join(texts) + _SPARE
        self.bytes: ndarray = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(self.bytes[: len(data) - 8] == 0)
        if len(ends) == len(texts):  # faster than the length of each string
            self.starts: ndarray = np.concatenate([[0], ends[:-1] + 1])
            self.lengths: ndarray = ends - self.starts
        else:  # some string contains a zero byte
            self.lengths = np.fromiter(map(len, texts), np.int64, len(texts))
            self.starts = np.cumsum(self.lengths + 1) - self.lengths - 1
        self.is_apart = True
        self._words: ndarray | None = None
        self._aligned: ndarray | None = None
        self._heads: ndarray | None = None
        self._rows: list[bytes] | None = texts if type(texts) is list else list(texts)
        self._is_ascii: bool | None = None
        self._is_utf8: bool | None = None
        self.short: Any = None

    @staticmethod
    def at(buffer: ndarray, starts: ndarray, lengths: ndarray, is_apart: bool = False) -> Packed:
        """Strings at these positions of a buffer with eight bytes after the last one."""
        found = Packed.__new__(Packed)
        found.bytes, found.starts, found.lengths, found.is_apart = buffer, starts, lengths, is_apart
        found._words = found._aligned = found._heads = found._rows = found.short = None
        found._is_ascii = found._is_utf8 = None
        return found

    @staticmethod
    def between(data: bytes, separator: bytes) -> Packed:
        """The texts that stand in some bytes with one separating byte between them.

        >>> Packed.between(b"ab,,c", b",").rows
        [b'ab', b'', b'c']
        """
        buffer = np.frombuffer(data + separator + _SPARE, np.uint8)
        ends = np.flatnonzero(buffer[: len(data) + 1] == separator[0])
        starts = np.concatenate([[0], ends[:-1] + 1])
        return Packed.at(buffer, starts, ends - starts, is_apart=True)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ends(self) -> ndarray:
        """The end of each string."""
        return self.starts + self.lengths

    @property
    def is_ascii(self) -> bool:
        """Whether the buffer contains only ASCII characters."""
        if self._is_ascii is None:
            self._is_ascii = bool(self.bytes.max() < 128)
        return self._is_ascii

    @property
    def is_utf8(self) -> bool:
        """Whether each string is valid UTF-8: the buffer is, and each string begins and ends with whole characters."""
        if self._is_utf8 is None:
            try:
                self.bytes.tobytes().decode()
            except UnicodeDecodeError:
                self._is_utf8 = False
            else:
                ends = ((self.bytes[self.starts] & 0xC0) == 0x80) | ((self.bytes[self.ends] & 0xC0) == 0x80)
                self._is_utf8 = not ends[self.lengths > 0].any()
        return self._is_utf8

    @property
    def rows(self) -> list[bytes]:
        """The strings as Python objects."""
        if self._rows is None:
            self._rows = self._unpacked()
        return self._rows

    def _unpacked(self) -> list[bytes]:
        if not len(self):
            return []
        if self._is_compact():
            apart = self.joined(_BETWEEN)
            found = apart.bytes[: apart.starts[-1] + apart.lengths[-1]].tobytes().split(_BETWEEN)
            if len(found) == len(self):
                return found
        data = self.bytes.tobytes()
        return [data[a:b] for a, b in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]

    @property
    def heads(self) -> ndarray:
        """The first eight bytes of each string as a number, with zeros after its end; kept, and not to be changed."""
        if self._heads is None:
            self._heads = self.word(self.starts)
            self._heads &= _KEPT_BYTES.take(np.minimum(self.lengths, 8))
        return self._heads

    def word(self, where: Any) -> ndarray:
        """The eight bytes at each position as a number, first byte lowest."""
        if self._words is None:
            self._words = _as_words(self.bytes)
        if np.size(where) <= _FEW:
            found: ndarray = self._words[where]
            return found
        if self._aligned is None:
            self._aligned = self.bytes[: len(self.bytes) & ~7].view("<u8")
        return _joined_words(self._aligned, where)

    def _is_compact(self) -> bool:
        """Whether NumPy joins these strings faster than Python."""
        return self.is_apart or int(self.lengths.max(initial=0)) <= _LONG

    def joined(self, between: bytes, after: ndarray | None = None) -> Packed:
        """The same texts in a buffer of their own, with this text between them, or where `after` is true, nothing.

        >>> texts = Packed([b"ab", b"", b"c"]).joined(b", ")
        >>> texts.bytes[:7].tobytes()
        b'ab, , c'
        """
        count, size = len(self), len(between)
        if self.is_apart and size == 1 and after is None:
            return self._apart(between)
        gaps = np.int64(size) if after is None else np.where(after, 0, size)
        whole = self.lengths + gaps
        ends = np.cumsum(whole)
        starts = ends - whole
        total = int(ends[-1]) if count else 0
        if not self._is_compact():
            texts = self.rows
            spaces = [between] * count if after is None else [b"" if a else between for a in after.tolist()]
            data = b"".join([part for pair in zip(texts, spaces, strict=True) for part in pair])
            return Packed.at(np.frombuffer(data + _SPARE, np.uint8), starts, self.lengths, size == 1 and after is None)
        buffer = np.zeros(total + len(_SPARE), np.uint8)
        self._copy(buffer, starts)
        places = starts + self.lengths if after is None else (starts + self.lengths)[~after]
        for i, byte in enumerate(between):
            buffer[places + i] = byte
        return Packed.at(buffer, starts, self.lengths, size == 1 and after is None)

    def _apart(self, between: bytes) -> Packed:
        """The strings with another separator byte, if they are separated."""
        places = self.ends[:-1]
        if not len(places) or (self.bytes[places] == between[0]).all():
            return self
        buffer = self.bytes.copy()
        buffer[places] = between[0]
        return Packed.at(buffer, self.starts, self.lengths, True)

    def _copy(self, buffer: ndarray, where: ndarray) -> None:
        """Write the strings to increasing positions of a buffer, eight bytes at a time.

        The last bytes of a string are written with up to seven others, over the first eight of the strings after it. So
        the first eight bytes of all strings are written last, in order.
        """
        words = _as_words(buffer)
        for k in range(8 * (int(self.lengths.max(initial=1) - 1) // 8), 0, -8):
            some = np.flatnonzero(self.lengths > k)
            words[where[some] + k] = self.word(self.starts[some] + k)
        words[where] = self.word(self.starts)

    def chosen(self, where: ndarray) -> Packed:
        """Some of the strings."""
        return Packed.at(self.bytes, self.starts[where], self.lengths[where])

    def mapped(self, buffer: bytes) -> Packed:
        """Strings at the same positions of another buffer."""
        return Packed.at(np.frombuffer(buffer, np.uint8), self.starts, self.lengths, self.is_apart)


def packed_form(texts: Sequence[bytes] | Packed) -> Packed:
    """Pack strings unless they are packed."""
    return texts if isinstance(texts, Packed) else Packed(texts)


def _as_words(buffer: ndarray) -> ndarray:
    """Eight bytes from every position of a buffer on, as numbers."""
    return np.ndarray((max(0, len(buffer) - 7),), "<u8", buffer, strides=(1,))


def _joined_words(aligned: ndarray, where: ndarray) -> ndarray:
    """The eight bytes at each position, of the two words that contain them.

    Every string ends before the last word. So where there is no second word, no string has bytes in it.
    """
    where = where.astype(np.int64, copy=False)
    at = where >> _THREE
    found: ndarray = aligned.take(at)
    at += 1
    rest = aligned.take(at, mode="clip")
    shift = ((where & _EIGHT) << _THREE).view(np.uint64)
    found >>= shift
    np.subtract(_WORD, shift, out=shift)
    rest <<= shift  # by 64 bits: zero
    found |= rest
    return found


def interleaved(columns: Sequence[Packed]) -> Packed:
    """The first texts of all columns, then the second ones, and so on.

    >>> interleaved([Packed([b"a", b"b"]), Packed([b"c", b"d"])]).rows
    [b'a', b'c', b'b', b'd']
    """
    buffers = [column.bytes for column in columns]
    before = np.cumsum([0, *map(len, buffers[:-1])])
    starts = np.stack([column.starts + shift for column, shift in zip(columns, before, strict=True)], 1)
    lengths = np.stack([column.lengths for column in columns], 1)
    return Packed.at(np.concatenate(buffers), starts.ravel(), lengths.ravel())
