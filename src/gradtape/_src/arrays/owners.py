"""Owners: whose the positions of aligned rows are, and how all rows are written out (see `batched`)."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from gradtape._src.arrays import namespace_of

Shape = tuple[int, ...]


class RowIndex:
    """Which rows the positions of aligned rows belong to, once they have been moved.

    of[p] is 1 + the position of the target's first axis that the value at position p is about, or 0 where there is
    none: where zeros are put in when positions are moved. No two positions belong to the same one.
    """

    def __init__(self, size: int, of: np.ndarray) -> None:
        self.size, self.of = size, of

    @staticmethod
    def each(size: int) -> RowIndex:
        """Every position belongs to itself."""
        return RowIndex(size, np.arange(1, size + 1))

    @cached_property
    def run(self) -> tuple[int, int, int]:
        """Where positions in a row belong to rows in a row, and no others to any: (row, first position, how many).

        Elsewhere the last one is 0.
        """
        (owned,) = self.of.nonzero()
        if not len(owned):
            return 0, 0, 0
        row, first, length = int(self.of[owned[0]]) - 1, int(owned[0]), len(owned)
        straight = np.array_equal(self.of[first : first + length], np.arange(row + 1, row + length + 1))
        return (row, first, length) if straight else (0, 0, 0)

    @property
    def diagonal(self) -> slice | None:
        """Where the positions of a run are in a matrix [rows, positions], flattened."""
        (row, first, length), positions = self.run, len(self.of)
        start = row * positions + first
        return slice(start, start + (length - 1) * (positions + 1) + 1, positions + 1) if length else None

    def moved(self, how: Callable[[np.ndarray], np.ndarray]) -> RowIndex:
        """After the positions have been moved: `how` does with an array [positions] what was done to them."""
        return RowIndex(self.size, how(self.of))

    def joined(self, other: RowIndex) -> RowIndex | None:
        """The owners of a sum, if nothing in it belongs to two rows, nor anything to a row twice."""
        a, b = self.of, other.of
        if np.array_equal(a, b):
            return self
        both = np.maximum(a, b)
        owned = both[both > 0]
        if ((a != b) & (a > 0) & (b > 0)).any() or len(np.unique(owned)) < len(owned):
            return None
        return RowIndex(self.size, both)


def owned(array: Any, owners: RowIndex) -> Any:
    """The positions of an aligned part that belong to rows, where they are in a row."""
    first, length = owners.run[1:]
    if not length or length == array.shape[1]:
        return array
    return namespace_of(array).getitem(array, index=(slice(None), slice(first, first + length)))


def rows_of(owners: list[RowIndex]) -> Callable[..., Any]:
    """What makes rows of aligned parts with these owners."""
    positions = len(owners[0].of)
    empty = owners[0].size * positions
    diagonals = [part.diagonal for part in owners]

    def make(shape: Shape, *arrays: Any) -> Any:
        if type(arrays[0]) is not np.ndarray:
            total = None
            for array, part in zip(arrays, owners, strict=True):
                full = _spread_out(array, part)
                total = full if total is None else total + full
            return namespace_of(total).reshape(total, shape=shape)
        count, _, *rest = arrays[0].shape
        rows = np.zeros(empty * count * math.prod(rest), arrays[0].dtype)
        for array, part, diagonal in zip(arrays, owners, diagonals, strict=True):
            if diagonal is not None and count == 1 and not rest:
                rows[diagonal] += array[0]
            else:
                _write_out(rows.reshape(part.size, count, positions, *rest), array, part)
        return rows.reshape(shape)

    return make


def _write_out(rows: np.ndarray, array: np.ndarray, owners: RowIndex) -> None:
    """Add an aligned part to rows [B, K, positions, ...]. No position belongs to two, so that none is written twice."""
    row, first, length = owners.run
    if length:
        along = np.arange(length)
        rows[row + along, :, first + along] += array.swapaxes(0, 1)
    else:
        (owned,) = owners.of.nonzero()
        rows[owners.of[owned] - 1, :, owned] += array.swapaxes(0, 1)[owned]


def _spread_out(array: Any, owners: RowIndex) -> Any:
    """All rows of one part, by primitives of the engine underneath.

    One number for each row, where it is not zero: the inner loop is then the same for all (benchmark: hess).
    """
    xp, size, (row, _, length) = namespace_of(array), owners.size, owners.run
    count, _, *rest = array.shape
    ones, positions = [1] * len(rest), len(owners.of)
    belongs = np.equal.outer(np.arange(1, size + 1), owners.of).reshape(size, 1, positions, *ones)
    if length:
        if length < size:
            none = [0] * len(rest)
            array = xp.pad(array, before=(0, row, *none), after=(0, size - row - length, *none))
        by_row = xp.transpose(array, perm=(1, 0, *range(2, 2 + len(rest))))
        spread = xp.reshape(by_row, shape=(size, count, 1, *rest))
    else:
        spread = xp.reshape(array, shape=(1, count, positions, *rest))
    return xp.where(belongs, spread, xp.zeros((1,), getattr(array.dtype, "numpy_dtype", array.dtype)))
