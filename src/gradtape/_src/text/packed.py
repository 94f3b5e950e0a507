"""Many texts as one buffer of bytes, which NumPy can compute on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

_SPACE = bytes(8)  # behind the last text, so that eight bytes can be read anywhere


class Packed:
    """Texts end to end: where each one starts, and how long it is.

    >>> texts = Packed([b"ab", b"", b"c"])
    >>> texts.starts.tolist(), texts.lengths.tolist()
    ([0, 2, 2], [2, 0, 1])
    """

    __slots__ = ("_words", "bytes", "lengths", "starts")

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.lengths: ndarray = np.fromiter(map(len, texts), np.int64, len(texts))
        self.starts: ndarray = np.cumsum(self.lengths) - self.lengths
        data = b"".join(texts) + _SPACE
        self.bytes: ndarray = np.frombuffer(data, np.uint8)
        self._words: ndarray = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))

    def word(self, where: Any) -> ndarray:
        """The eight bytes at each place, as a number with the first byte lowest."""
        found: ndarray = self._words[where]
        return found
