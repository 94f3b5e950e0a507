"""The layout of the picture of a tape.

The order of a tape is a topological order of its graph, so any consecutive ops can be drawn as one box without creating
a cycle. That gives a tree of boxes: a repetition (an unrolled loop) is one box with its rounds inside, and a long
remainder is cut where few values cross. Each box is laid out on its own in layers, from top to bottom, and wrapped into
columns like a newspaper if it would be much too tall. All of it is near-linear in the number of ops.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

GAP_X, GAP_Y, COLUMN = 22.0, 34.0, 56.0
PADDING, HEADER = 16.0, 26.0
SMALL = 36
"""Tapes with at most this many ops are drawn without boxes."""
LONGEST_ROUND = 512
PART = 48
"""The approximate maximum of children of a box, unless they are rounds of a loop."""
ROUNDS = 12
"""In a picture without zoom, a loop with more rounds is drawn as its first round and a closed box with the rest."""


@dataclass(slots=True, eq=False)
class Box:
    """A node of the picture (an op or a source), or consecutive nodes with everything inside."""

    kind: str  # op, source, repeat (rounds of a loop), round, run (the same op again and again), rest, part, root
    first: int = -1  # the range of its ops: the first, and one past the last
    last: int = -1
    width: float = 0.0
    height: float = 0.0
    x: float = 0.0
    y: float = 0.0
    key: int = -1  # the number of an op or a source
    children: list[Box] = field(default_factory=list)
    parent: Box | None = None
    collapsed: bool = False

    def walk(self) -> Iterable[Box]:
        """This box and all boxes inside it, parents first."""
        stack = [self]
        while stack:
            box = stack.pop()
            yield box
            stack.extend(reversed(box.children))

    def seen(self) -> Box:
        """The outermost closed box that contains this one, or the box itself."""
        seen, at = self, self.parent
        while at is not None:
            if at.collapsed:
                seen = at
            at = at.parent
        return seen


# -- the tree --------------------------------------------------------------------------------------------------------
def tree(signatures: Sequence[object], edges: Sequence[tuple[int, int]], lines: Sequence[int] | None = None) -> Box:
    """Group ops into boxes, by their `signatures`. `lines` help to find where a round begins."""
    codes: dict[object, int] = {}
    numbers = np.array([codes.setdefault(s, len(codes)) for s in signatures], np.int64)
    n = len(numbers)
    if n <= SMALL:
        children = [Box("op", i, i + 1, key=i) for i in range(n)]
    else:
        children = _in_parts(_fold(numbers, 0, n, lines), edges, n)
    root = Box("root", 0, n, children=children)
    for box in root.walk():
        for child in box.children:
            child.parent = box
    return root


def _fold(numbers: np.ndarray, first: int, last: int, lines: Sequence[int] | None) -> list[Box]:
    """The ops from `first` to `last`, with repetitions in boxes."""
    found: list[Box] = []
    at = first
    for start, period, rounds in _repeats(numbers[first:last], None if lines is None else lines[first:last]):
        start += first
        found += [Box("op", i, i + 1, key=i) for i in range(at, start)]
        at = start + period * rounds
        if period == 1:
            ops = [Box("op", i, i + 1, key=i) for i in range(start, at)]
            found.append(Box("run", start, at, children=ops))
            continue
        within = [_fold(numbers, i, i + period, lines) for i in range(start, at, period)]
        boxes = [Box("round", ops[0].first, ops[-1].last, children=ops) for ops in within]
        found.append(Box("repeat", start, at, children=boxes))
    return found + [Box("op", i, i + 1, key=i) for i in range(at, last)]


def _repeats(numbers: np.ndarray, lines: Sequence[int] | None) -> list[tuple[int, int, int]]:
    """Repetitions as (start, period, rounds): those that cover most come first, without overlaps, sorted."""
    n = len(numbers)
    candidates: list[tuple[int, int, int]] = []  # (covered, period, start)
    for period in range(1, min(n // 3, LONGEST_ROUND) + 1):
        same = numbers[:-period] == numbers[period:]
        if same.sum() < 2 * period:
            continue
        flips = np.flatnonzero(np.diff(np.concatenate(([0], same.view(np.int8), [0]))))
        for start, end in zip(flips[::2].tolist(), flips[1::2].tolist(), strict=True):
            covered = end - start + period
            if covered >= max(3 * period, 12 if period > 1 else 8):
                candidates.append((covered, period, start))
    candidates.sort(key=lambda c: (-(c[0] - c[0] % c[1]), c[1], c[2]))
    taken = np.zeros(n, bool)
    chosen = []
    for covered, period, start in candidates:
        span = taken[start : start + covered]
        if span.any():
            free = np.flatnonzero(~span)
            if not free.size:
                continue
            ends = np.flatnonzero(span[free[0] :])
            start, covered = start + int(free[0]), int(ends[0]) if ends.size else covered - int(free[0])
        if covered < max(3 * period, 12 if period > 1 else 8):
            continue
        rounds = covered // period
        slack = covered - rounds * period
        if slack and lines is not None:  # a round begins at the first line of the loop
            start += min(range(slack + 1), key=lambda shift: (lines[start + shift], shift))
        chosen.append((start, period, rounds))
        taken[start : start + rounds * period] = True
    return sorted(chosen)


def _in_parts(children: list[Box], edges: Sequence[tuple[int, int]], n: int) -> list[Box]:
    """Cut a long list of boxes into parts, where the fewest values cross, until no list is long."""
    pairs = np.array([(u, v) for u, v in edges if u >= 0], np.int64).reshape(-1, 2) + 1
    steps = np.bincount(pairs[:, 0], minlength=n + 2) - np.bincount(pairs[:, 1], minlength=n + 2)
    crossing: list[int] = np.cumsum(steps).tolist()  # the number of values that cross the position before each op
    while len(children) > PART:
        size = min(max(math.isqrt(len(children)), 12), PART)
        parts: list[Box] = []
        at = 0
        while at < len(children):
            end = min(at + size, len(children))
            if end < len(children):
                low, high = at + max(2, size * 2 // 3), min(at + size * 4 // 3, len(children))
                end = min(range(low, high), key=lambda i: (crossing[children[i].first], abs(i - at - size)))
            inside = children[at:end]
            part = Box("part", inside[0].first, inside[-1].last, children=inside)
            parts.append(inside[0] if len(inside) == 1 else part)
            at = end
        children = parts
    return children


def close_rounds(root: Box) -> None:
    """Put all rounds of a long loop except the first into a closed box."""
    for box in list(root.walk()):
        if box.kind in ("repeat", "run") and len(box.children) > ROUNDS:
            first, *others = box.children
            rest = Box("rest", others[0].first, box.last, children=others, parent=box, collapsed=True)
            for other in others:
                other.parent = rest
            box.children = [first, rest]


def collapse(root: Box, most: int) -> None:
    """Close boxes until about `most` nodes remain to be drawn: the largest boxes stay closed."""
    for box in root.walk():
        box.collapsed = bool(box.children) and box is not root
    shown, waiting = len(root.children), [box for box in root.children if box.children and box.kind != "rest"]
    while waiting:
        waiting.sort(key=lambda box: -len(box.children))
        box = waiting.pop()
        if shown + len(box.children) > most:
            break
        box.collapsed = False
        shown += len(box.children) - 1
        waiting += [child for child in box.children if child.children and child.kind != "rest"]


# -- positions -------------------------------------------------------------------------------------------------------
Route = list[tuple[float, float]]
FAN = 6
"""A value with more uses than this is drawn faintly, and without detours."""
LONGEST_DETOUR = 12
"""An edge across more layers than this is a straight line, behind everything else."""


def place(root: Box, edges: Sequence[tuple[Box, Box]]) -> list[Route]:
    """Set the position of every box, and the points of every edge on its route around other boxes.

    The edges connect ops and sources, whose width and height are set.
    """
    depth = {id(root): 0}
    for box in root.walk():
        for child in box.children:
            depth[id(child)] = depth[id(box)] + 1
    crossings: dict[int, _Crossings] = {id(box): _Crossings() for box in root.walk() if box.children}
    ends: dict[int, set[int]] = {}
    for u, v in edges:
        ends.setdefault(id(u), set()).add(id(v.seen()))
    fan = {u: len(seen) for u, seen in ends.items()}
    ways: list[list[tuple[Box, _Key]]] = []  # for each edge the boxes it crosses, and the keys there
    for start, end in edges:
        u, v = start, end
        out: list[tuple[Box, _Key]] = []
        into: list[tuple[Box, _Key]] = []
        while u.parent is not v.parent:
            if depth[id(u)] >= depth[id(v)]:
                if fan[id(start)] <= FAN:
                    out.append((u.parent, crossings[id(u.parent)].leave(start, u)))  # type: ignore[arg-type]
                u = u.parent  # type: ignore[assignment]
            else:
                if fan[id(start)] <= FAN:
                    into.append((v.parent, crossings[id(v.parent)].enter(start, v)))  # type: ignore[arg-type]
                v = v.parent  # type: ignore[assignment]
        assert u.parent is not None
        across = (u.parent, crossings[id(u.parent)].between(u, v))
        ways.append([*out, across, *reversed(into)])
    routes: dict[tuple[int, _Key], Route] = {}
    for box in reversed(list(root.walk())):  # from the inside out
        if box.children and not box.collapsed:
            for key, route in _layers(box, crossings[id(box)]).items():
                routes[id(box), key] = route
    stack = [root]
    while stack:
        box = stack.pop()
        if not box.collapsed:
            for child in box.children:
                child.x += box.x
                child.y += box.y
                stack.append(child)
    return [[(x + box.x, y + box.y) for box, key in way for x, y in routes.get((id(box), key), ())] for way in ways]


_Key = tuple[str, int, int]


class _Crossings:
    """The edges of a box: between its children, into it and out of it."""

    def __init__(self) -> None:
        self.pairs: dict[_Key, tuple[Box | None, Box | None]] = {}

    def between(self, u: Box, v: Box) -> _Key:
        return self._add(("between", id(u), id(v)), u, v)

    def enter(self, start: Box, child: Box) -> _Key:
        return self._add(("enter", id(start), id(child)), None, child)

    def leave(self, start: Box, child: Box) -> _Key:
        return self._add(("leave", id(start), id(child)), child, None)

    def _add(self, key: _Key, u: Box | None, v: Box | None) -> _Key:
        self.pairs[key] = (u, v)
        return key


def _layers(box: Box, crossings: _Crossings) -> dict[_Key, Route]:
    """Lay out the children of one box in layers; positions and routes are relative to the box."""
    cells = list(box.children)
    place_of = {id(child): i for i, child in enumerate(cells)}
    pairs = {
        key: (None if u is None else place_of[id(u)], None if v is None else place_of[id(v)])
        for key, (u, v) in crossings.pairs.items()
    }
    before, after = _neighbours(len(cells), [(u, v) for u, v in pairs.values() if u is not None and v is not None])
    rank, layers = _ranked(cells, before, after)
    bends, links = _bends(cells, pairs, rank, layers, after)
    before, after = _neighbours(len(cells), links)
    _untangle(layers, before, after)
    grid = _placed(box, cells, layers, _centres(cells, layers, before, after))
    routes: dict[_Key, Route] = {}
    for n, (key, (u, v)) in enumerate(pairs.items()):
        way = bends.get(key, [])
        if way or u is None or len(after[u]) <= FAN:
            routes[key] = grid.route([i for i in (u, *way, v) if i is not None], (n % 7 - 3) * 6)
    return routes


class _Grid(NamedTuple):
    """Cells with their positions: layers from top to bottom, in several columns if there are many."""

    cells: list[Box]
    layer_of: dict[int, int]
    tops: list[float]
    heights: list[float]
    column_of: list[int]
    gaps: list[float]  # the middle of the space left of each column

    def ends(self, i: int) -> tuple[float, float]:
        """The top and the bottom of a cell; a bend spans the whole layer."""
        cell, layer = self.cells[i], self.layer_of[i]
        if cell.kind == "bend":
            return self.tops[layer], self.tops[layer] + self.heights[layer]
        return cell.y, cell.y + cell.height

    def route(self, chain: list[int], aside: float) -> Route:
        """The bends of an edge through these cells; `aside` separates it from other edges between columns."""
        points: Route = []
        for i, before in zip(chain, [None, *chain], strict=False):
            cell, column = self.cells[i], self.column_of[self.layer_of[i]]
            if before is not None and self.column_of[self.layer_of[before]] != column:
                gap = self.gaps[column] + aside  # up, between the columns
                points += [(gap, self.ends(before)[1]), (gap, self.ends(i)[0])]
            if cell.kind == "bend":  # straight through the layer, between its boxes
                points += [(cell.x + cell.width / 2, end) for end in self.ends(i)]
        return points


def _placed(box: Box, cells: list[Box], layers: list[list[int]], centre: list[float]) -> _Grid:
    """Set the positions of the cells of a box, and its size."""
    header = 0.0 if box.kind == "root" else HEADER
    padding = 24.0 if box.kind == "root" else PADDING
    heights = [max(cells[i].height for i in layer) for layer in layers]
    tops, column_of, gaps = [0.0] * len(layers), [0] * len(layers), list[float]()
    left = padding
    box.height = 0.0
    for column, start, width in _columns(cells, layers, heights, centre, box.kind == "root"):
        y = padding + header
        gaps.append(left - COLUMN / 2)
        for layer in column:
            tops[layer], column_of[layer] = y, len(gaps) - 1
            for i in layers[layer]:
                cells[i].x = left + centre[i] - cells[i].width / 2 - start
                cells[i].y = y + (heights[layer] - cells[i].height) / 2
            y += heights[layer] + GAP_Y
        box.height = max(box.height, y - GAP_Y + padding)
        left += width + COLUMN
    box.width = left - COLUMN + padding
    layer_of = {i: k for k, layer in enumerate(layers) for i in layer}
    return _Grid(cells, layer_of, tops, heights, column_of, gaps)


def _neighbours(n: int, pairs: Iterable[tuple[int, int]]) -> tuple[list[list[int]], list[list[int]]]:
    before: list[list[int]] = [[] for _ in range(n)]
    after: list[list[int]] = [[] for _ in range(n)]
    for u, v in pairs:
        before[v].append(u)
        after[u].append(v)
    return before, after


def _ranked(cells: list[Box], before: list[list[int]], after: list[list[int]]) -> tuple[list[int], list[list[int]]]:
    """Layers by the longest path from the top; sources are directly above the first op that takes them."""
    rank = [0] * len(cells)
    for i, cell in enumerate(cells):  # in the order of the tape, a topological order
        if cell.kind != "source":
            rank[i] = max((rank[u] + 1 for u in before[i] if cells[u].kind != "source"), default=0)
            if any(cells[u].kind == "source" for u in before[i]):
                rank[i] = max(rank[i], 1)
    for i, cell in enumerate(cells):
        if cell.kind == "source":
            rank[i] = min((rank[v] for v in after[i]), default=1) - 1
    where = {r: k for k, r in enumerate(sorted(set(rank)))}
    rank = [where[r] for r in rank]
    layers: list[list[int]] = [[] for _ in where]
    for i, r in enumerate(rank):
        layers[r].append(i)
    return rank, layers


def _bends(
    cells: list[Box],
    pairs: dict[_Key, tuple[int | None, int | None]],
    rank: list[int],
    layers: list[list[int]],
    after: list[list[int]],
) -> tuple[dict[_Key, list[int]], list[tuple[int, int]]]:
    """Add a placeholder for each edge to every layer that it crosses; also all links."""
    bends: dict[_Key, list[int]] = {}
    links: list[tuple[int, int]] = []
    for key, (u, v) in pairs.items():
        first = 0 if u is None else rank[u] + 1
        last = len(layers) if v is None else rank[v]
        way: list[int] = []
        if 0 < last - first <= LONGEST_DETOUR and (u is None or len(after[u]) <= FAN):
            for layer in range(first, last):
                way.append(len(cells))
                layers[layer].append(len(cells))
                cells.append(Box("bend", width=4.0))
            bends[key] = way
        chain = [i for i in (u, *way, v) if i is not None]
        links += pairwise(chain)
    return bends, links


def _untangle(layers: list[list[int]], before: list[list[int]], after: list[list[int]]) -> None:
    """Order each layer by the mean position of its neighbors, down and up a few times."""
    at: dict[int, float] = {}
    for layer in layers:
        for k, i in enumerate(layer):
            at[i] = (k + 0.5) / len(layer)
    for neighbours, order in ((before, layers), (after, layers[::-1])) * 3:
        for layer in order:
            if len(layer) > 1:
                layer.sort(
                    key=lambda i: sum(at[j] for j in neighbours[i]) / len(neighbours[i]) if neighbours[i] else at[i]
                )
                for k, i in enumerate(layer):
                    at[i] = (k + 0.5) / len(layer)


def _centres(cells: list[Box], layers: list[list[int]], before: list[list[int]], after: list[list[int]]) -> list[float]:
    """The x of every cell's center: close to its neighbors, in order, without overlaps."""
    centre = [0.0] * len(cells)
    for layer in layers:
        x = -sum(cells[i].width + GAP_X for i in layer) / 2
        for i in layer:
            centre[i] = x + (cells[i].width + GAP_X) / 2
            x += cells[i].width + GAP_X
    for neighbours, order in ((before, layers), (after, layers[::-1]), (before, layers), (after, layers[::-1])):
        for layer in order:
            wanted = [
                sum(centre[j] for j in neighbours[i]) / len(neighbours[i]) if neighbours[i] else centre[i]
                for i in layer
            ]
            apart = [0.0] + [(cells[a].width + cells[b].width) / 2 + GAP_X for a, b in pairwise(layer)]
            right, left = wanted[:], wanted[:]
            for k in range(1, len(layer)):
                right[k] = max(right[k], right[k - 1] + apart[k])
            for k in range(len(layer) - 2, -1, -1):
                left[k] = min(left[k], left[k + 1] - apart[k + 1])
            for k, i in enumerate(layer):
                centre[i] = (right[k] + left[k]) / 2
    return centre


def _columns(
    cells: list[Box], layers: list[list[int]], heights: list[float], centre: list[float], root: bool
) -> list[tuple[range, float, float]]:
    """Divide the layers into columns, so that everything fits a page: for each its layers, left edge and width."""
    aspect, tall = (1.8, 1000) if root else (1.4, 1700)
    low = [min(centre[i] - cells[i].width / 2 for i in layer) for layer in layers]
    high = [max(centre[i] + cells[i].width / 2 for i in layer) for layer in layers]
    total = sum(heights) + GAP_Y * (len(layers) - 1)
    best: list[tuple[range, float, float]] = []
    most = 0.0
    counts = {1} if total < tall else {1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 22, 27, 33, 40, 50, 60, 75, 90}
    for count in sorted(counts):
        if count > max(1, len(layers) // 2):
            break
        columns: list[range] = []
        start, at, cut = 0, 0.0, total / count
        for i, h in enumerate(heights):
            if i > start and at + h / 2 > cut and len(columns) < count - 1:
                columns.append(range(start, i))
                start, cut = i, cut + total / count
            at += h + GAP_Y
        columns.append(range(start, len(layers)))
        ends = [(min(low[i] for i in column), max(high[i] for i in column)) for column in columns]
        width = sum(b - a + COLUMN for a, b in ends)
        height = max(sum(heights[i] + GAP_Y for i in column) for column in columns)
        size = min(aspect / width, 1 / height) * (1.0 if count == 1 else 0.8)  # cutting needs a reason
        if size > most:
            most = size
            best = [(column, a, b - a) for column, (a, b) in zip(columns, ends, strict=True)]
    return best
