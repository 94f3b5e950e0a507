"""Many texts as one buffer of bytes, which NumPy can compute on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

_SPACE = bytes(9)  # behind the last text, so that eight bytes can be read anywhere
_BETWEEN = b"\0"


class Packed:
    """Texts end to end, with a byte 0 in between: where each one starts, and how long it is.

    >>> texts = Packed([b"ab", b"", b"c"])
    >>> texts.starts.tolist(), texts.lengths.tolist()
    ([0, 3, 4], [2, 0, 1])
    """

    __slots__ = ("_words", "bytes", "lengths", "starts")

    def __init__(self, texts: Sequence[bytes]) -> None:
        data = _BETWEEN.join(texts) + _SPACE
        self.bytes: ndarray = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(self.bytes[: len(data) - 8] == 0)
        if len(ends) == len(texts):  # faster than the length of each text
            self.starts: ndarray = np.concatenate([[0], ends[:-1] + 1])
            self.lengths: ndarray = ends - self.starts
        else:  # some text has a byte 0
            self.lengths = np.fromiter(map(len, texts), np.int64, len(texts))
            self.starts = np.cumsum(self.lengths + 1) - self.lengths - 1
        self._words: ndarray = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))

    def word(self, where: Any) -> ndarray:
        """The eight bytes at each place, as a number with the first byte lowest."""
        found: ndarray = self._words[where]
        return found
