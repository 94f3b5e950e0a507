"""Coloring of sparse matrices: the columns, or rows, that one pass computes together.

Columns that have no row in common can be added up without loss: each entry of the sum belongs to one of them. Columns
with the same color are computed in one pass, so a Jacobian takes as many passes as there are colors. Symmetric matrices
need fewer colors, because each entry may be read from its own place or from the transposed one (a star coloring), and
even fewer if entries may be computed as differences (an acyclic coloring). With both directions, some rows are computed
by rows and the rest by columns.

Every coloring is checked: `readable` says from which pass each entry can be read.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]

_GREEDY_LIMIT = 100_000_000
"""The number of pairs of columns that the greedy coloring may compare; beyond it each column gets its own color."""

LARGE = 50_000
"""The number of entries from which on one color more than necessary is no reason to continue the search."""

_STAR_LIMIT = 20_000_000
"""The number of steps that the search for a star coloring may take; beyond it, the coloring of columns is used."""


class Pattern(NamedTuple):
    """The positions of the entries of a sparse matrix, sorted by row, then column."""

    rows: Array
    columns: Array
    shape: tuple[int, int]

    def transposed(self) -> Pattern:
        order = np.lexsort((self.rows, self.columns))
        return Pattern(self.columns[order], self.rows[order], self.shape[::-1])

    def symmetric(self) -> Pattern:
        """These places and their mirror images."""
        width = self.shape[1]
        keys = np.unique(np.concatenate([self.rows * width + self.columns, self.columns * width + self.rows]))
        return Pattern(*np.divmod(keys, max(width, 1)), self.shape)

    def where(self, mask: Array) -> Pattern:
        """The positions where the mask is true."""
        return Pattern(self.rows[mask], self.columns[mask], self.shape)


def readable(pattern: Pattern, colors: Array) -> Array:
    """Whether each entry is alone in its row among the columns of its color."""
    count = int(colors.max(initial=0)) + 1
    keys = pattern.rows.astype(np.int64) * count + colors[pattern.columns]
    if pattern.shape[0] * count <= 4 * len(keys) + 1000:
        counted: Array = np.bincount(keys)[keys] == 1
        return counted
    _, inverse, times = np.unique(keys, return_inverse=True, return_counts=True)
    alone: Array = times[inverse] == 1
    return alone


def color_columns(pattern: Pattern) -> Array:
    """A color for each column, such that columns with the same color have no row in common.

    No coloring has fewer colors than the fullest row has entries (`least_colors`). Colors that repeat cyclically reach
    that number for bands and many stencils, and are tried first; then a greedy coloring, with two orders of the
    columns.
    """
    per_row = np.bincount(pattern.rows, minlength=pattern.shape[0])
    least = least_colors(pattern.rows)
    if least <= 1:
        return np.zeros(pattern.shape[1], np.int64)
    if least >= pattern.shape[1] or (per_row.astype(float) ** 2).sum() > _GREEDY_LIMIT:
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
    """The number of entries of the fullest row: its columns need different colors."""
    return int(np.bincount(rows).max(initial=0)) if len(rows) else 0


def _cyclic(pattern: Pattern, count: int) -> Array | None:
    """Color j modulo `count` for column j. If only a few columns conflict, they get other colors; otherwise None."""
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
        """Give each column the smallest color that no column with a common row has; `known` colors are kept."""
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
    """For each key, the list of the values that belong to it."""
    order = np.argsort(keys, kind="stable")
    ends = np.cumsum(np.bincount(keys, minlength=count)).tolist()
    flat = values[order].tolist()
    return [flat[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


# -- symmetric matrices ----------------------------------------------------------------------------------------------
def color_symmetric(pattern: Pattern) -> Array:
    """A color for each column of a symmetric matrix, so that each entry can be read directly or from its transpose."""
    by_column = color_columns(pattern)
    degrees = np.bincount(pattern.rows, minlength=pattern.shape[0]).astype(float)
    if by_column.max(initial=0) <= 1 or (degrees**3).sum() > _STAR_LIMIT:
        return by_column
    star = _star(pattern)
    return star if star.max() < by_column.max() else by_column


def _star(pattern: Pattern) -> Array:
    """A star coloring: neighbors have different colors, and every path of four vertices has at least three."""
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


def color_acyclic(pattern: Pattern) -> Array:
    """A color for each column of a symmetric matrix: neighbors differ, and every cycle has three colors.

    Greedy, as by Gebremedhin, Tarafdar, Manne and Pothen (2007): the vertices of any two colors form trees, and a
    vertex may not get a color that would join two of its neighbors in one tree.
    """
    off = pattern.rows != pattern.columns
    near = _lists(pattern.rows[off], pattern.columns[off], pattern.shape[0])
    colors = [-1] * len(near)
    trees = _Trees()
    tree_of: list[dict[int, int]] = [{} for _ in near]  # of a vertex and another color: the tree with both colors
    for v in sorted(range(len(near)), key=lambda v: -len(near[v])):
        taken, seen = set(), set()
        for w in near[v]:
            if colors[w] < 0:
                continue
            taken.add(colors[w])
            for color, tree in tree_of[w].items():
                key = (color, colors[w], trees.root(tree))
                if key in seen:
                    taken.add(color)
                seen.add(key)
        color = 0
        while color in taken:
            color += 1
        colors[v] = color
        for w in near[v]:
            if colors[w] >= 0:
                joined = trees.join(tree_of[v].get(colors[w]), tree_of[w].get(color))
                tree_of[v][colors[w]] = tree_of[w][color] = joined
    return np.array(colors, np.int64)


class _Trees:
    """Disjoint sets of vertices (union-find)."""

    def __init__(self) -> None:
        self._parents: list[int] = []

    def root(self, tree: int) -> int:
        """The representative of a set."""
        parents = self._parents
        while parents[tree] != tree:
            parents[tree] = parents[parents[tree]]
            tree = parents[tree]
        return tree

    def join(self, one: int | None, other: int | None) -> int:
        """The union of two sets, one or both of which may be None: new."""
        known = [self.root(tree) for tree in (one, other) if tree is not None]
        if not known:
            known = [len(self._parents)]
            self._parents.append(known[0])
        self._parents[known[-1]] = known[0]
        return known[0]


class Substitution(NamedTuple):
    """How the entries of a symmetric matrix follow from the sums of the columns of each color.

    The edges between two colors form trees. The sum that is read at a vertex is that of its edges in one tree, so the
    edge above a vertex is the sum of what is read below, with signs that alternate between levels. In the order of a
    traversal these are adjacent: an entry is the difference of two running sums.
    """

    color: Array  # the passes to read from
    position: Array  # and the rows
    sign: Array
    first: Array  # for each entry, the start of its running sum
    last: Array  # and its end

    def entries(self, xp: Any, read: Any, dtype: Any) -> Any:
        """The entries, computed from the values that were read."""
        wide = xp.astype(read, dtype=np.dtype(np.float64), source=dtype) * self.sign
        sums = xp.concatenate(np.zeros(1), xp.cumsum(wide, axis=0, exclusive=False, reverse=False), axis=0)
        below, above = (xp.take(sums, at, axis=0, batch_dims=0) for at in (self.first, self.last))
        found = (above - below) * self.sign[self.first]
        return xp.astype(found, dtype=dtype, source=np.dtype(np.float64))


def substitution(pattern: Pattern, colors: Array) -> Substitution:
    """The order in which the entries of an acyclic coloring are computed."""
    edge = pattern.rows != pattern.columns
    near: dict[tuple[int, int], list[int]] = {}  # by vertex and color: its neighbors with that color
    for row, column in zip(pattern.rows[edge].tolist(), pattern.columns[edge].tolist(), strict=True):
        near.setdefault((row, int(colors[column])), []).append(column)
    reads: list[tuple[int, int, int]] = []  # color, row, sign
    spans: dict[tuple[int, int], tuple[int, int]] = {}  # by edge, in both directions
    done: set[tuple[int, int]] = set()
    for vertex, color in near:
        if (vertex, color) not in done:
            _traverse(vertex, color, colors, near, reads, spans, done)
    for row in range(pattern.shape[0]):
        spans[row, row] = (len(reads), len(reads) + 1)
        reads.append((int(colors[row]), row, 1))
    places = [spans[place] for place in zip(pattern.rows.tolist(), pattern.columns.tolist(), strict=True)]
    read_color, position, sign = np.array(reads, np.int64).reshape(-1, 3).T
    first, last = np.array(places, np.int64).reshape(-1, 2).T
    return Substitution(read_color, position, sign.astype(float), first, last)


def _traverse(
    root: int,
    color: int,
    colors: Array,
    near: dict[tuple[int, int], list[int]],
    reads: list[tuple[int, int, int]],
    spans: dict[tuple[int, int], tuple[int, int]],
    done: set[tuple[int, int]],
) -> None:
    """Visit the tree of a vertex with the edges to one color, in preorder."""
    done.add((root, color))
    pending = [(child, root, -1, False) for child in near[root, color]]
    while pending:
        vertex, above, sign, is_left = pending.pop()
        if is_left:
            first = spans[vertex, above][0]
            spans[vertex, above] = spans[above, vertex] = (first, len(reads))
            continue
        other = int(colors[above])
        done.add((vertex, other))
        spans[vertex, above] = (len(reads), 0)
        reads.append((other, vertex, sign))
        pending.append((vertex, above, sign, True))
        pending += [(child, vertex, -sign, False) for child in near[vertex, other] if child != above]


# -- both directions -------------------------------------------------------------------------------------------------
def color_both(pattern: Pattern) -> tuple[Array, Array, Array]:
    """The rows to compute by rows, the colors of these rows, and the colors of the columns for all other rows.

    Full rows make columns conflict, so computing them by rows saves passes. Thresholds on the number of entries of a
    row are tried, and the one with the fewest passes is used.
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
