"""Find many strings among others: short ones as eight-byte numbers, which NumPy compares."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy import ndarray

from gradtape._src.text.packed import Packed

_u64 = np.uint64
_SPREAD = _u64(0x9E3779B97F4A7C15)
_LENGTHS = np.array([n << 56 for n in range(8)] + [0], np.uint64)


def short_words(texts: Packed) -> tuple[ndarray, ndarray | None]:
    """A unique number for each string of up to eight bytes; and the strings that have none, if any.

    A string of up to seven bytes has its length in the last byte. A string of eight bytes whose last byte could be a
    length has no number.
    """
    if texts.short is None:
        words = texts.heads | _LENGTHS.take(np.minimum(texts.lengths, 8))
        longest = int(texts.lengths.max(initial=0))
        others = None
        if longest > 7:
            others = (texts.lengths > 8) | ((texts.lengths == 8) & (words < _u64(8 << 56)))
        texts.short = words, others if others is not None and others.any() else None
    return texts.short


class TextIndex:
    """Places of texts in a list.

    >>> TextIndex([b"cat", b"dog"]).find(Packed([b"dog", b"cow"])).tolist()
    [1, -1]
    """

    def __init__(self, texts: Iterable[bytes]) -> None:
        known = list(texts)
        self._longer = {text: i for i, text in enumerate(known) if len(text) >= 8}
        packed = Packed(known)
        words, others = short_words(packed)
        places = np.arange(len(known)) if others is None else np.flatnonzero(~others)
        words = words[places]
        self._shift = _u64(64 - max(4, int(4 * len(places)).bit_length()))
        hashes = self._hash(words)
        order = np.argsort(hashes, kind="stable")
        self._words, self._places = np.append(words[order], [_u64(0)]), np.append(places[order], [-1])
        counts = np.bincount(hashes.astype(np.intp), minlength=1 << int(64 - int(self._shift)))
        self._first = np.cumsum(counts) - counts
        self._most = int(counts.max(initial=0))

    def _hash(self, words: ndarray) -> ndarray:
        return (words * _SPREAD) >> self._shift

    def find(self, texts: Packed) -> ndarray:
        """The position of each string, -1 for those that are missing."""
        words, others = short_words(texts)
        where = self._first.take(self._hash(words).view(np.int64))
        hit = self._words.take(where) == words
        found = np.where(hit, self._places.take(where), -1)
        missing = None if hit.all() else np.flatnonzero(~hit)
        for step in range(1, self._most):
            if missing is None or not len(missing):
                break
            next_ = np.minimum(where[missing] + step, len(self._places) - 1)
            hit = self._words[next_] == words[missing]
            found[missing[hit]] = self._places[next_[hit]]
            missing = missing[~hit]
        if others is not None:
            long = np.flatnonzero(others)
            found[long] = [self._longer.get(text, -1) for text in texts.chosen(long).rows]
        return found
