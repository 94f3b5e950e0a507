"""Minimum cuts, which choose the values to save: the fewest bytes from which the others can be computed."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

UNLIMITED = 1 << 62
"""A capacity that no cut contains."""


class Network:
    """A directed graph with capacities. Dinic's algorithm: blocking flows along shortest paths."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._edges: list[list[int]] = []  # by node, the numbers of its edges; edge i ^ 1 is the reverse of edge i
        self._ends: list[int] = []
        self._left: list[int] = []  # remaining capacities

    def number(self, node: Hashable) -> int:
        """The number of a node, which is added if necessary."""
        found = self._numbers.get(node)
        if found is None:
            found = self._numbers[node] = len(self._edges)
            self._edges.append([])
        return found

    def connect(self, first: Hashable, second: Hashable, capacity: int) -> None:
        """Add an edge."""
        start, end = self.number(first), self.number(second)
        self._edges[start].append(len(self._ends))
        self._edges[end].append(len(self._ends) + 1)
        self._ends += [end, start]
        self._left += [capacity, 0]

    def sink_side(self, source: Hashable, sink: Hashable) -> set[Hashable]:
        """The nodes on the sink's side of the minimum cut that is closest to the sink."""
        start, end = self.number(source), self.number(sink)
        while (levels := self._levels(start))[end] >= 0:
            places = [0] * len(self._edges)
            while self._push(start, end, levels, places):
                pass
        found = {end}
        pending = [end]
        while pending:
            for edge in self._edges[pending.pop()]:
                before = self._ends[edge]
                if self._left[edge ^ 1] > 0 and before not in found:
                    found.add(before)
                    pending.append(before)
        return {node for node, number in self._numbers.items() if number in found}

    def _levels(self, start: int) -> list[int]:
        """The distance of each node from the source along edges with remaining capacity; -1 if it is unreachable."""
        levels = [-1] * len(self._edges)
        levels[start] = 0
        pending = deque([start])
        while pending:
            node = pending.popleft()
            for edge in self._edges[node]:
                if self._left[edge] > 0 and levels[self._ends[edge]] < 0:
                    levels[self._ends[edge]] = levels[node] + 1
                    pending.append(self._ends[edge])
        return levels

    def _push(self, start: int, end: int, levels: list[int], places: list[int]) -> int:
        """Find a path to the sink, and send as much as fits along it; 0 if there is none."""
        path: list[int] = []
        node = start
        while node != end:
            edges = self._edges[node]
            while places[node] < len(edges):
                edge = edges[places[node]]
                if self._left[edge] > 0 and levels[self._ends[edge]] == levels[node] + 1:
                    break
                places[node] += 1
            if places[node] < len(edges):
                path.append(edges[places[node]])
                node = self._ends[path[-1]]
            elif not path:
                return 0
            else:
                node = self._ends[path.pop() ^ 1]
                places[node] += 1
        flow = min(self._left[edge] for edge in path)
        for edge in path:
            self._left[edge] -= flow
            self._left[edge ^ 1] += flow
        return flow
