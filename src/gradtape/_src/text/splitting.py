"""Split many strings in one call of C code, which finds the parts, and NumPy, which counts them for each string."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from numpy import ndarray

_FEW = 64
"""The number of strings up to which they are split one by one, because NumPy does not pay off."""

Parts = tuple[list[bytes], ndarray]
"""All parts in order, and the number of parts of each string."""


def split(texts: Sequence[bytes], separator: bytes, most: int) -> Parts:
    """Split texts at a separator, or at runs of whitespace if it is empty, at most so many times.

    >>> parts, counts = split([b"a b ", b"c"], b"", -1)
    >>> parts, counts.tolist()
    ([b'a', b'b', b'c'], [2, 1])
    """
    if most < 0 and len(texts) > _FEW and len(separator) < 2:
        return _split_together(texts, separator)
    rows = _split_each(texts, separator, most)
    return list(itertools.chain.from_iterable(rows)), np.array(list(map(len, rows)), np.int64)


def _split_each(texts: Sequence[bytes], separator: bytes, most: int) -> list[list[bytes]]:
    if most == 0:
        return [[text] for text in texts]
    if separator:
        return [text.split(separator, max(most, -1)) for text in texts]
    if most < 0:
        return list(map(bytes.split, texts))
    rows = [text.split(None, most) for text in texts]
    return [[*row, b""] if len(row) == most else row for row in rows]  # the rest, even if it is empty


def _split_together(texts: Sequence[bytes], separator: bytes) -> Parts:
    between = separator or b" "
    whole = between.join(texts)
    data = np.frombuffer(between + whole, np.uint8)
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(lengths + 1)
    if separator:
        starts = np.flatnonzero(data == separator[0])
    else:
        gap = (data == 32) | (data - np.uint8(9) < np.uint8(5))
        starts = np.flatnonzero(gap[:-1] & ~gap[1:])
    before = np.concatenate([[0], np.searchsorted(starts, ends)])
    return whole.split(separator or None), np.diff(before)
