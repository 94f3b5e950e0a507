"""Loops that save less: the backward pass recomputes groups of iterations.

A scan stacks what its derivative needs of each iteration, and the derivative is a scan in the other direction over
these stacks. Here the first of both becomes a scan over groups of iterations that stacks what is carried at the start
of each group. The second one becomes a scan over the groups, from the last to the first, that computes the stacks of
one group again and goes back through them. Iterations that still fit into memory stay in stacks, and are computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.symbolic import Graph, Node, Symbolic, tracing
from gradtape._src.conversion import wrap
from gradtape._src.core import tape as stack
from gradtape._src.graph.control_flow.block import Block, add_node
from gradtape._src.graph.control_flow.scans import dce_scan, row_like
from gradtape._src.graph.program import Program, is_pure
from gradtape._src.graph.recomputation.costs import kind_of, nbytes_of
from gradtape._src.graph.recomputation.plan import FIXED
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor


class Loop(NamedTuple):
    """A scan and the scan that is its derivative: the place of each, and which outputs of the first only the second
    one takes, by the numbers of its rows.
    """

    first: int
    second: int
    residuals: dict[int, int]
    length: int
    row_bytes: int
    start_bytes: int
    given_bytes: int = 0
    """The bytes of the rows that both scans are given, where a part of these is a copy."""

    @property
    def nbytes(self) -> int:
        """The bytes of the stacks."""
        return self.length * self.row_bytes


class Grouping(NamedTuple):
    """How many groups there are at the start of a loop, and of how many iterations. The others stay in stacks."""

    number: int
    size: int


def grouping(loop: Loop, nbytes: int) -> Grouping | None:
    """The groups with the fewest recomputed iterations such that a loop keeps at most `nbytes`; if there are none,
    those with which it keeps the fewest bytes. The stacks of a group replace those of the other iterations.

    >>> grouping(Loop(0, 1, {}, 100, row_bytes=1, start_bytes=1), 60)
    Grouping(number=1, size=41)
    """
    length, row, start, given = loop.length, loop.row_bytes, loop.start_bytes, loop.given_bytes
    found: list[tuple[bool, int, Grouping]] = []
    for size in range(2, length // 2 + 1):
        if size * row <= start:
            continue
        most = length // size
        enough = -(-(length * row + given - nbytes) // (size * row - start))
        for count in {min(max(enough, 1), most), most}:
            copied = given if count * size < length else 0
            kept = count * start + max(length - count * size, size) * row + copied
            fits = kept <= nbytes
            found.append((not fits, count * size if fits else kept, Grouping(count, size)))
    best = min(found, default=None)
    return None if best is None else best[2]


# -- which loops there are ---------------------------------------------------------------------------------------------
def loops_in(nodes: Sequence[Node], boundary: int, results: set[int]) -> list[Loop]:
    """The loops that can be divided, those with the most bytes first. The backward pass begins at `boundary`."""
    users: dict[int, list[int]] = {}
    for i, node in enumerate(nodes):
        for arg in node.args:
            if type(arg) is Symbolic:
                users.setdefault(id(arg), []).append(i)
    found = []
    for i, node in enumerate(nodes[:boundary]):
        if _can_repeat(node):
            seconds = {j for out in node.outputs for j in users.get(id(out), ()) if j >= boundary}
            for j in seconds:
                loop = _loop_of(nodes, i, j, users, results)
                if loop is not None:
                    found.append(loop)
    return sorted(found, key=lambda loop: -loop.nbytes)


def _can_repeat(node: Node) -> bool:
    """Whether a node is a scan whose iterations can be computed again, in groups."""
    if node.name != "scan" or not isinstance(node.attrs["length"], int) or node.attrs["length"] < 4:
        return False
    body = node.attrs["body"]
    known = all(is_known_shape(out.shape) for inner in body.nodes for out in inner.outputs)
    return known and is_pure(node) and 0 not in body.explicit() and not _is_fixed(body)


def _is_fixed(body: Program) -> bool:
    """Whether a program has effects, which must not happen twice."""
    programs = [value for node in body.nodes for value in node.attrs.values() if isinstance(value, Program)]
    return any(kind_of(node.name, is_pure(node)) == FIXED for node in body.nodes) or any(map(_is_fixed, programs))


def _loop_of(nodes: Sequence[Node], i: int, j: int, users: dict[int, list[int]], results: set[int]) -> Loop | None:
    first, second = nodes[i], nodes[j]
    same = second.name == "scan" and second.attrs["length"] == first.attrs["length"]
    if not same or second.attrs["reverse"] == first.attrs["reverse"] or 0 in second.attrs["body"].explicit():
        return None
    carried, rows = second.attrs["carried"], second.attrs["scanned"]
    numbers = {id(out): n for n, out in enumerate(first.outputs)}
    residuals: dict[int, int] = {}
    for row, arg in enumerate(second.args[carried : carried + rows]):
        n = numbers.get(id(arg), -1)
        if n >= first.attrs["carried"] and set(users[id(arg)]) == {j} and id(arg) not in results:
            residuals[row] = n
    others = (*second.args[:carried], *second.args[carried + rows :])
    gone = {id(first.outputs[n]) for n in residuals.values()}
    if not residuals or any(id(arg) in gone for arg in others):
        return None
    length = first.attrs["length"]
    row_bytes = sum(nbytes_of(first.outputs[n]) for n in set(residuals.values())) // length
    start_bytes = sum(nbytes_of(out) for out in first.outputs[: first.attrs["carried"]])
    given = [arg for row, arg in enumerate(second.args[carried : carried + rows]) if row not in residuals]
    given += first.args[first.attrs["carried"] : first.attrs["carried"] + first.attrs["scanned"]]
    copied = sum(map(nbytes_of, given)) if first.outputs[0].graph.root.executor == "xla" else 0  # NumPy's are views
    return Loop(i, j, residuals, length, row_bytes, start_bytes, copied)


# -- dividing a loop ---------------------------------------------------------------------------------------------------
def divide(nodes: Sequence[Node], loop: Loop, groups: Grouping, graph: Graph) -> tuple[list[Node], list[Node]]:
    """Replace the two nodes of a loop. Values that other nodes use keep their names."""
    with tracing(graph), stack.use_recorders(()):
        parts = _Divided(nodes[loop.first], nodes[loop.second], loop, groups)
        first = _nodes_of(graph, parts.forward, nodes[loop.first], set(loop.residuals.values()))
        second = _nodes_of(graph, parts.backward, nodes[loop.second], set())
    return first, second


def _nodes_of(graph: Graph, make: Callable[[], dict[int, Tensor]], node: Node, gone: set[int]) -> list[Node]:
    """The nodes that a function adds, whose results have the names of a node's outputs."""
    start = len(graph.nodes)
    found = make()
    made = graph.nodes[start:]
    graph.replace_nodes(graph.nodes[:start], start)
    names = {id(t.array): node.outputs[n] for n, t in found.items() if n not in gone}
    return [
        made_node._replace(
            args=tuple([names.get(id(a), a) for a in made_node.args]),
            outputs=tuple([names.get(id(out), out) for out in made_node.outputs]),
        )
        for made_node in made
    ]


class _Scan:
    """A scan in parts: its operands, and which of its outputs are wanted."""

    def __init__(self, node: Node, wanted: Sequence[bool]) -> None:
        self.node = dce_scan(node, wanted)
        self.carried, self.scanned = node.attrs["carried"], node.attrs["scanned"]
        self.reverse = node.attrs["reverse"]
        self.others = self.node.args[self.carried + self.scanned :]
        kept = range(self.carried, len(node.outputs))
        self.numbers = [n for n in kept if wanted[n]]
        """Of the stacked outputs, in order."""

    def run(self, carry: Sequence[Tensor], rows: Sequence[Tensor], length: int) -> tuple[list[Tensor], list[Tensor]]:
        """The final carry and the stacked outputs."""
        attrs = {**self.node.attrs, "length": length, "dce": dce_scan}
        given = (*[t.array for t in (*carry, *rows)], *self.others)
        found = [wrap(value) for value in add_node("scan", given, attrs)]
        return found[: self.carried], found[self.carried :]


class _Divided:
    """The two scans of a loop, each as one over groups and one over the other iterations."""

    def __init__(self, first: Node, second: Node, loop: Loop, groups: Grouping) -> None:
        self.loop, (self.count, self.size) = loop, groups
        self.taken = sorted(set(loop.residuals.values()))
        carried, total = first.attrs["carried"], len(first.outputs)
        self.plain = _Scan(first, [n not in self.taken for n in range(total)])
        self.whole = _Scan(first, [True] * total)
        self.again = _Scan(first, [n < carried or n in self.taken for n in range(total)])
        self.back = _Scan(second, [True] * len(second.outputs))
        self.carry, self.rows = _operands(first)
        self.back_carry, self.back_rows = _operands(second)
        self.starts: list[Tensor] = []
        self.rest: dict[int, Tensor] = {}  # stacks of the iterations that are in no group

    def forward(self) -> dict[int, Tensor]:
        """The outputs of the first scan, by number, without the recomputed ones."""
        carried = self.whole.carried

        def group(carry: list[Tensor], rows: list[Tensor]) -> list[Tensor]:
            after, stacked = self.plain.run(carry, rows, self.size)
            return [*after, *carry, *stacked]

        found = self._over_groups(group, self.carry, [self._grouped(r) for r in self.rows], self.whole.reverse)
        carry, self.starts, stacked = found[:carried], found[carried : 2 * carried], found[2 * carried :]
        parts = {n: [self._ungrouped(t)] for n, t in zip(self.plain.numbers, stacked, strict=True)}
        if self._left:
            carry, last = self.whole.run(carry, [self._after_groups(r) for r in self.rows], self._left)
            self.rest = dict(zip(self.whole.numbers, last, strict=True))
            for n in self.plain.numbers:
                parts[n].append(self.rest[n])
        return {**dict(enumerate(carry)), **{n: self._joined(p) for n, p in parts.items()}}

    def backward(self) -> dict[int, Tensor]:
        """The outputs of the second scan, by number."""
        residuals = self.loop.residuals
        own = [row for i, row in enumerate(self.back_rows) if i not in residuals]
        carry: list[Tensor] = self.back_carry
        last: list[Tensor] = []
        if self._left:
            rows = [
                self.rest[residuals[i]] if i in residuals else self._after_groups(row)
                for i, row in enumerate(self.back_rows)
            ]
            carry, last = self.back.run(carry, rows, self._left)

        def group(carry: list[Tensor], rows: list[Tensor]) -> list[Tensor]:
            starts, rows = rows[: len(self.starts)], rows[len(self.starts) :]
            _, found = self.again.run(starts, rows[: len(self.rows)], self.size)
            again, given = dict(zip(self.taken, found, strict=True)), iter(rows[len(self.rows) :])
            mixed = [again[residuals[i]] if i in residuals else next(given) for i in range(self.back.scanned)]
            after, stacked = self.back.run(carry, mixed, self.size)
            return [*after, *stacked]

        rows = [*self.starts, *[self._grouped(r) for r in (*self.rows, *own)]]
        found = self._over_groups(group, carry, rows, self.back.reverse)
        parts = [[self._ungrouped(t)] for t in found[self.back.carried :]]
        for part, tensor in zip(parts, last, strict=False):
            part.append(tensor)
        outputs = [*found[: self.back.carried], *map(self._joined, parts)]
        return dict(enumerate(outputs))

    def _over_groups(
        self,
        group: Callable[[list[Tensor], list[Tensor]], list[Tensor]],
        carry: Sequence[Tensor],
        rows: Sequence[Tensor],
        reverse: bool,
    ) -> list[Tensor]:
        """A scan whose iterations are groups."""
        count = len(carry)

        def body(*values: Tensor) -> Any:
            return group(list(values[:count]), list(values[count:]))

        block = Block("loop", body, [*carry, *[row_like(t) for t in rows]], iteration=True)
        traced = block.traced(block.outputs())
        program = Program(traced.graph, traced.symbols, [t.array for t in traced.outputs])
        attrs = {
            "body": program,
            "carried": count,
            "scanned": len(rows),
            "length": self.count,
            "reverse": reverse,
            "dce": dce_scan,
        }
        given = (*[t.array for t in (*carry, *rows)], *program.others())
        return [wrap(value) for value in add_node("scan", given, attrs)]

    # -- rows of groups and of the other iterations ----------------------------------------------------------------
    @property
    def _left(self) -> int:
        return self.loop.length - self.count * self.size

    def _grouped(self, rows: Tensor) -> Tensor:
        """The rows of the iterations that are in groups, with an axis for the groups."""
        own = rows[self._left :] if self.whole.reverse else rows[: self.count * self.size]
        found: Tensor = array.reshape(own, shape=(self.count, self.size, *rows.array.shape[1:]))
        return found

    def _after_groups(self, rows: Tensor) -> Tensor:
        """The rows of the other iterations."""
        return rows[: self._left] if self.whole.reverse else rows[self.count * self.size :]

    def _ungrouped(self, rows: Tensor) -> Tensor:
        found: Tensor = array.reshape(rows, shape=(self.count * self.size, *rows.array.shape[2:]))
        return found

    def _joined(self, parts: list[Tensor]) -> Tensor:
        """The rows of the iterations in groups, and of the others, in their order."""
        if len(parts) == 1:
            return parts[0]
        found: Tensor = array.concatenate(*(parts[::-1] if self.whole.reverse else parts), axis=0)
        return found


def _operands(node: Node) -> tuple[list[Tensor], list[Tensor]]:
    """The initial carry of a scan, and its rows."""
    carried, end = node.attrs["carried"], node.attrs["carried"] + node.attrs["scanned"]
    return [wrap(a) for a in node.args[:carried]], [wrap(a) for a in node.args[carried:end]]
