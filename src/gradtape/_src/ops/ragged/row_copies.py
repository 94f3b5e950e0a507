"""Copies of whole rows, for values that no tape records: one copy of bytes per row instead of a lookup per element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.active import active_stack
from gradtape._src.core.observe import are_kernels_wrapped
from gradtape._src.tensor import Tensor

_BLOCK = 1 << 17
"""Number of bytes that are read before they are written, so that they stay in the cache."""
_FEW = 64
"""Up to this many long rows are copied one by one."""


def is_plain(values: Any, kinds: str = "fiucb") -> bool:
    """Return whether values are plain arrays and no tape or kernel wrapper observes them."""
    if type(values) is not Tensor or active_stack() is not None or are_kernels_wrapped():
        return False
    array = values.array
    return type(array) is ndarray and array.dtype.kind in kinds


def copied_rows(source: ndarray, starts: ndarray, lengths: ndarray) -> ndarray:
    """Concatenate rows of an array: row i begins at `starts[i]` and has `lengths[i]` elements.

    Rows are written in pieces of equal width. The last piece of a row overwrites the first piece of the next row with
    elements that do not belong there, so the first pieces of all rows are written last, in order.

    >>> copied_rows(np.arange(10), np.array([7, 0]), np.array([2, 3])).tolist()
    [7, 8, 0, 1, 2]
    """
    ends = lengths.cumsum()
    inner, dtype = source.shape[1:], source.dtype
    total = int(ends[-1]) if len(ends) else 0
    if not total or 0 in inner:
        return np.empty((total, *inner), dtype)
    longest = int(lengths.max())
    width = min(longest, 3 * total // (2 * len(lengths)) + 1, len(source))  # near the mean: little is rewritten
    result = np.empty((total + width, *inner), dtype)
    size = result.nbytes // len(result)
    rows, places, source = _windows(result, width, size), ends - lengths, np.ascontiguousarray(source)
    if longest > width:
        (long,) = (lengths > width).nonzero()
        if len(long) <= _FEW:
            for start, place, length in zip(*[a[long].tolist() for a in (starts, places, lengths)], strict=True):
                result[place + width : place + length] = source[start + width : start + length]
        else:
            which, behind = _later_pieces(long, lengths[long], width)
            pieces = starts[which] + behind
            rows[places[which] + behind] = _reader(source, width, size, pieces)(pieces)
    read = _reader(source, width, size, starts)
    step = max(1, _BLOCK // (width * size))
    for first in range(0, len(lengths), step):
        rows[places[first : first + step]] = read(starts[first : first + step])
    return result[:total]


def _later_pieces(long: ndarray, lengths: ndarray, width: int) -> tuple[ndarray, ndarray]:
    """Return the row index of every piece after the first of its row, and its offset in the row."""
    pieces = (lengths - 1) // width
    which = np.repeat(long, pieces)
    number = np.arange(1, len(which) + 1) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    return which, number * width


def _windows(array: ndarray, width: int, size: int) -> ndarray:
    """View the array as overlapping items of `width` elements of `size` bytes, one starting at each element."""
    return np.ndarray((len(array) - width + 1,), f"V{width * size}", array, strides=(size,))


def _reader(source: ndarray, width: int, size: int, starts: ndarray) -> Callable[[ndarray], ndarray]:
    """Return a reader of `width` elements at each of these positions; the last ones may extend past the end."""
    whole, last = _windows(source, width, size), len(source) - width
    if int(starts.max()) <= last:
        return whole.__getitem__
    spare = np.zeros((width, *source.shape[1:]), source.dtype)
    tail = _windows(np.concatenate([source[last:], spare]), width, size)

    def read(where: ndarray) -> ndarray:
        late = np.flatnonzero(where > last)
        found: ndarray = whole[np.minimum(where, last)]
        found[late] = tail[where[late] - last]
        return found

    return read
