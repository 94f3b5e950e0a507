"""The content of a lookup table: a dict from keys to values, which is read and written in whole arrays.

The value of a key is stored as the bytes of its row, so that the values of many keys are joined to an array in one
step. A string is its own bytes, and a row of several strings is a tuple.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.text.index import TextIndex
from gradtape._src.text.packed import Packed

Shape = tuple[int, ...]


def rows(array: ndarray, shape: Shape) -> list[Any]:
    """The rows of an array as hashable values; `shape` is the shape of a row, at the end of the array's."""
    if not shape:
        found: list[Any] = array.ravel().tolist()
        return found
    flat = array.reshape(-1, math.prod(shape))
    return [tuple(row) for row in flat.tolist()] if array.dtype.kind == "O" else [row.tobytes() for row in flat]


class Cells(dict[Any, Any]):
    """Values by key, with one for all other keys.

    >>> cells = Cells(np.dtype(np.int64), np.array(-1))
    >>> cells.insert([b"a", b"b"], np.array([1, 2]))
    >>> cells.find([b"b", b"?"], (2,)).tolist()
    [2, -1]
    """

    def __init__(self, dtype: np.dtype[Any], default: ndarray) -> None:
        super().__init__()
        self._index: tuple[TextIndex, ndarray] | None = None
        self.dtype, self.shape = dtype, default.shape
        self.default = self.cells_of(default)[0]

    def __missing__(self, key: Any) -> Any:
        return self.default

    def cells_of(self, values: ndarray) -> list[Any]:
        """The cells for an array of values."""
        if self.dtype.kind == "O":
            return rows(values, self.shape)
        size = self.dtype.itemsize * math.prod(self.shape)
        found: list[Any] = np.frombuffer(np.ascontiguousarray(values).tobytes(), f"V{size}").tolist()
        return found

    def array_of(self, cells: Iterable[Any], shape: Shape) -> ndarray:
        """The array of values from cells."""
        whole = (*shape, *self.shape)
        if self.dtype.kind != "O":
            return np.frombuffer(bytearray().join(list(cells)), self.dtype).reshape(whole)
        texts = [text for row in cells for text in row] if self.shape else list(cells)
        found = np.empty(len(texts), object)
        found[:] = texts
        return found.reshape(whole)

    def _changed(self) -> None:
        self._index = None

    def find_texts(self, texts: Packed, shape: Shape) -> ndarray:
        """The values of strings, by an index if there are many compared with the keys."""
        if self._index is None:
            if 4 * len(texts) < len(self):
                return self.find(texts.rows, shape)
            values = self.array_of([*self.values(), self.default], (len(self) + 1,))
            self._index = TextIndex(self), values
        index, values = self._index
        found: ndarray = values[index.find(texts)]  # the default is the last one
        return found.reshape((*shape, *self.shape))

    def pop(self, *args: Any) -> Any:
        self._changed()
        return super().pop(*args)

    def clear(self) -> None:
        self._changed()
        super().clear()

    def find(self, keys: list[Any], shape: Shape) -> ndarray:
        """The values of keys, as an array with this shape."""
        return self.array_of(map(self.__getitem__, keys), shape)

    def find_or(self, keys: list[Any], defaults: ndarray, shape: Shape) -> ndarray:
        """The values of keys, each with its own default."""
        return self.array_of(map(self.get, keys, self.cells_of(defaults)), shape)

    def insert(self, keys: list[Any], values: ndarray) -> None:
        """Set the values of keys; for equal keys the last one counts."""
        self._changed()
        self.update(zip(keys, self.cells_of(values), strict=True))
