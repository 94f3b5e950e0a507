"""The row index of block-diagonal batches, and their conversion to full rows (see `batched`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from gradtape._src.arrays import namespace_of

Shape = tuple[int, ...]


class RowIndex:
    """The row that each position of a block-diagonal batch belongs to.

    of[p] is 1 + the row of position p, that is, the position along the target's first axis; it is 0 if position p
    belongs to no row, as the zeros of a padding. No two positions belong to the same row.
    """

    def __init__(self, size: int, of: np.ndarray) -> None:
        self.size, self.of = size, of

    @staticmethod
    def each(size: int) -> RowIndex:
        """The row index in which position p belongs to row p."""
        return RowIndex(size, np.arange(1, size + 1))

    @cached_property
    def run(self) -> tuple[int, int, int]:
        """(row, position, length) if `length` consecutive positions belong to consecutive rows, and no others to any.

        Otherwise the length is 0.
        """
        (assigned,) = self.of.nonzero()
        if not len(assigned):
            return 0, 0, 0
        row, first, length = int(self.of[assigned[0]]) - 1, int(assigned[0]), len(assigned)
        straight = np.array_equal(self.of[first : first + length], np.arange(row + 1, row + length + 1))
        return (row, first, length) if straight else (0, 0, 0)

    @property
    def diagonal(self) -> slice | None:
        """The slice of a run in a flattened matrix [rows, positions]."""
        (row, first, length), positions = self.run, len(self.of)
        start = row * positions + first
        return slice(start, start + (length - 1) * (positions + 1) + 1, positions + 1) if length else None

    def moved(self, how: Callable[[np.ndarray], np.ndarray]) -> RowIndex:
        """The row index after positions were moved; `how` moves them in an array [positions]."""
        return RowIndex(self.size, how(self.of))

    def joined(self, other: RowIndex) -> RowIndex | None:
        """The row index of a sum; None if a position would belong to two rows, or a row have two positions."""
        a, b = self.of, other.of
        if a is b or (len(a) == len(b) and (a == b).all()):  # `array_equal`, with fewer calls (benchmark: hess)
            return self
        both = np.maximum(a, b)
        assigned = both[both > 0]
        if ((a != b) & (a > 0) & (b > 0)).any() or len(np.unique(assigned)) < len(assigned):
            return None
        return RowIndex(self.size, both)


def assigned(array: Any, index: RowIndex) -> Any:
    """The positions of a block-diagonal part that belong to rows, if they are consecutive."""
    first, length = index.run[1:]
    if not length or length == array.shape[1]:
        return array
    return namespace_of(array).getitem(array, index=(slice(None), slice(first, first + length)))


def rows_from(indices: list[RowIndex]) -> Callable[..., Any]:
    """A function that computes full rows from block-diagonal parts with these row indices."""
    positions = len(indices[0].of)
    empty = indices[0].size * positions
    diagonals = [part.diagonal for part in indices]

    def make(shape: Shape, *arrays: Any) -> Any:
        if type(arrays[0]) is not np.ndarray:
            total = None
            for array, part in zip(arrays, indices, strict=True):
                full = _full_rows(array, part)
                total = full if total is None else total + full
            return namespace_of(total).reshape(total, shape=shape)
        count, _, *rest = arrays[0].shape
        rows = np.zeros(empty * count * math.prod(rest), arrays[0].dtype)
        for array, part, diagonal in zip(arrays, indices, diagonals, strict=True):
            if diagonal is not None and count == 1 and not rest:
                rows[diagonal] += array[0]
            else:
                _write_out(rows.reshape(part.size, count, positions, *rest), array, part)
        return rows.reshape(shape)

    return make


def _write_out(rows: np.ndarray, array: np.ndarray, index: RowIndex) -> None:
    """Add a block-diagonal part to full rows [B, K, positions, ...]. No element is written twice."""
    row, first, length = index.run
    if length:
        along = np.arange(length)
        rows[row + along, :, first + along] += array.swapaxes(0, 1)
    else:
        (assigned,) = index.of.nonzero()
        rows[index.of[assigned] - 1, :, assigned] += array.swapaxes(0, 1)[assigned]


def _full_rows(array: Any, index: RowIndex) -> Any:
    """The full rows of one part, computed by primitives of the engine of its array.

    Each row has one number, except for zeros, so that the inner loop is the same for all rows (benchmark: hess).
    """
    xp, size, (row, _, length) = namespace_of(array), index.size, index.run
    count, _, *rest = array.shape
    ones, positions = [1] * len(rest), len(index.of)
    belongs = np.equal.outer(np.arange(1, size + 1), index.of).reshape(size, 1, positions, *ones)
    if length:
        if length < size:
            none = [0] * len(rest)
            array = xp.pad(array, before=(0, row, *none), after=(0, size - row - length, *none))
        by_row = xp.transpose(array, perm=(1, 0, *range(2, 2 + len(rest))))
        values = xp.reshape(by_row, shape=(size, count, 1, *rest))
    else:
        values = xp.reshape(array, shape=(1, count, positions, *rest))
    return xp.where(belongs, values, xp.zeros((1,), getattr(array.dtype, "numpy_dtype", array.dtype)))
