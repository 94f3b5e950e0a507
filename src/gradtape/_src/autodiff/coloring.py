"""Coloring of sparse matrices: columns, or rows, that one pass can compute together.

Columns that have no row in common can be added up without loss: each number of the sum belongs to one of them. Columns
of one color are computed in one pass, so that a Jacobian costs as many passes as there are colors. For a symmetric
matrix fewer colors suffice, because each number may be read from its own place or from the transposed one (a star
coloring). With both directions, some rows are computed by rows and the rest by columns.

Every coloring is checked: `readable` says from which pass each entry can be read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

GREEDY_LIMIT = 100_000_000
"""How many pairs of columns the greedy coloring may look at; beyond that each column has a color of its own."""

LARGE = 50_000
"""With more entries than this, one color more than necessary is no reason to search on."""

STAR_LIMIT = 20_000_000
"""How many steps the search for a star coloring may take; beyond that, colors of columns are used."""


class Pattern(NamedTuple):
    """The places of a sparse matrix, in the order of rows, then columns."""

    rows: Array
    columns: Array
    shape: tuple[int, int]

    def transposed(self) -> Pattern:
        order = np.lexsort((self.rows, self.columns))
        return Pattern(self.columns[order], self.rows[order], self.shape[::-1])

    def where(self, mask: Array) -> Pattern:
        """The places where the mask is true."""
        return Pattern(self.rows[mask], self.columns[mask], self.shape)


def readable(pattern: Pattern, colors: Array) -> Array:
    """Which entries are alone in their row among the columns of their color."""
    count = int(colors.max(initial=0)) + 1
    keys = pattern.rows.astype(np.int64) * count + colors[pattern.columns]
    if pattern.shape[0] * count <= 4 * len(keys) + 1000:
        counted: Array = np.bincount(keys)[keys] == 1
        return counted
    _, inverse, times = np.unique(keys, return_inverse=True, return_counts=True)
    alone: Array = times[inverse] == 1
    return alone


def color_columns(pattern: Pattern) -> Array:
    """A color for each column, so that columns of one color have no row in common.

    No coloring has fewer colors than the fullest row has entries (`least_colors`). Colors that repeat cyclically reach
    that number for bands and many stencils, and are tried first; then a greedy coloring, by two orders of the columns.
    """
    per_row = np.bincount(pattern.rows, minlength=pattern.shape[0])
    least = least_colors(pattern.rows)
    if least <= 1:
        return np.zeros(pattern.shape[1], np.int64)
    if least >= pattern.shape[1] or (per_row.astype(float) ** 2).sum() > GREEDY_LIMIT:
        return np.arange(pattern.shape[1])
    found = [colors for extra in range(2) if (colors := _cyclic(pattern, least + extra)) is not None]
    if found and found[0].max() < least + (len(pattern.rows) > LARGE):
        return found[0]
    neighbors = _Neighbors(pattern)
    found.append(neighbors.greedy(np.arange(pattern.shape[1])))
    if found[-1].max() >= least:
        per_column = np.bincount(pattern.columns, minlength=pattern.shape[1])
        found.append(neighbors.greedy(np.argsort(-per_column, kind="stable")))
    return min(found, key=lambda colors: int(colors.max()))


def least_colors(rows: Array) -> int:
    """The entries of the fullest row: its columns all differ in color."""
    return int(np.bincount(rows).max(initial=0)) if len(rows) else 0


def _cyclic(pattern: Pattern, count: int) -> Array | None:
    """Column j in color j modulo `count`, if it fits; columns at which it does not, if they are few, get other ones."""
    colors = np.arange(pattern.shape[1]) % count
    conflicts = np.unique(pattern.columns[~readable(pattern, colors)])
    if not len(conflicts):
        return colors
    if len(conflicts) > 0.01 * len(colors):
        return None
    colors[conflicts] = -1
    return _Neighbors(pattern).greedy(conflicts, colors)


class _Neighbors:
    """The rows of each column and the columns of each row, as lists."""

    def __init__(self, pattern: Pattern) -> None:
        self._of_row = _lists(pattern.rows, pattern.columns, pattern.shape[0])
        self._of_column = _lists(pattern.columns, pattern.rows, pattern.shape[1])

    def greedy(self, order: Array, known: Array | None = None) -> Array:
        """Give each column the smallest color that no column with a common row has; some may have theirs already."""
        colors = [-1] * len(self._of_column) if known is None else known.tolist()
        of_row, of_column = self._of_row, self._of_column
        for column in order.tolist():
            taken = {colors[other] for row in of_column[column] for other in of_row[row]}
            color = 0
            while color in taken:
                color += 1
            colors[column] = color
        return np.array(colors, np.int64)


def _lists(keys: Array, values: Array, count: int) -> list[list[int]]:
    """For each key the values that stand next to it."""
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(keys, minlength=count)).tolist()
    flat = values[order].tolist()
    return [flat[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


# -- symmetric matrices ----------------------------------------------------------------------------------------------
def color_symmetric(pattern: Pattern) -> Array:
    """A color for each column of a symmetric matrix, so that each entry can be read from its place or its mirror."""
    by_column = color_columns(pattern)
    degrees = np.bincount(pattern.rows, minlength=pattern.shape[0]).astype(float)
    if by_column.max(initial=0) <= 1 or (degrees**3).sum() > STAR_LIMIT:
        return by_column
    star = _star(pattern)
    return star if star.max() < by_column.max() else by_column


def _star(pattern: Pattern) -> Array:
    """Neighbors differ in color, and so do three of any four vertices on a path."""
    off = pattern.rows != pattern.columns
    near = _lists(pattern.rows[off], pattern.columns[off], pattern.shape[0])
    colors = [-1] * len(near)
    for v in sorted(range(len(near)), key=lambda v: -len(near[v])):
        taken = set()
        for w in near[v]:
            taken.add(colors[w])
            for x in near[w]:
                if x == v or colors[x] < 0 or colors[x] in taken:
                    continue
                if colors[w] < 0 or any(y != w and colors[y] == colors[w] for y in near[x]):
                    taken.add(colors[x])
        color = 0
        while color in taken:
            color += 1
        colors[v] = color
    return np.array(colors, np.int64)


# -- both directions -------------------------------------------------------------------------------------------------
def color_both(pattern: Pattern) -> tuple[Array, Array, Array]:
    """Which rows are computed by rows, colors of the rows (for those), and colors of the columns (for the others).

    Full rows make columns conflict: they are better computed by rows. Thresholds between the numbers of entries that
    rows have are tried, and the one with the fewest passes is used.
    """
    per_row = np.bincount(pattern.rows, minlength=pattern.shape[0])
    levels = np.unique(per_row[per_row > 0])
    if len(levels) > 6:
        levels = levels[np.unique(np.linspace(0, len(levels) - 1, 6).astype(int))]
    best: tuple[Array, Array, Array] | None = None
    for level in levels[:-1].tolist():
        full = per_row > level
        inside = full[pattern.rows]
        of_rows = color_columns(pattern.where(inside).transposed())
        of_columns = color_columns(pattern.where(~inside))
        if best is None or _count(of_rows) + _count(of_columns) < _count(best[1]) + _count(best[2]):
            best = full, of_rows, of_columns
    if best is None:
        nothing = np.zeros(pattern.shape[0], bool)
        return nothing, np.zeros(pattern.shape[0], np.int64), color_columns(pattern)
    return best


def _count(colors: Array) -> int:
    return int(colors.max(initial=-1)) + 1
