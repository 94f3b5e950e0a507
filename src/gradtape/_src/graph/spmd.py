"""One program for all replicas, from a graph in which each of them was traced.

Replicas compute the same with different values: node by node, replica 1 adds to the graph what replica 0 has added,
with operands of its own. `Divided` compares them and keeps the nodes of replica 0. A value that is different for each
replica is a *lane value*, which the symbol of replica 0 stands for. All other values are the same on every device. Sums
over replicas, concatenations and split batches, which are marked, become collectives. `spmd_executor.py` runs such a
program on all devices.

If replicas differ (in shapes, as with the last batch, or in code) there is no such program: `NotAlikeError` says why,
and the graph runs on one device as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.dimensions import evaluated
from gradtape._src.arrays.symbolic import Feed, Graph, Node, Symbolic
from gradtape._src.graph import checks
from gradtape._src.graph.lanes import Mark


class NotAlikeError(Exception):
    """The replicas of a graph cannot become one program; the message says why."""


class Input(NamedTuple):
    """An input of the program.

    kind    "lane": every replica has its own, `feeds` are those of this process
            "whole": the same on all devices, with one feed
            "rows": the rows of a batch, divided among all replicas, with one feed
    """

    kind: str
    symbol: Symbolic
    feeds: tuple[Feed, ...]


class Output(NamedTuple):
    """An output of a graph: a constant (`symbol` is None), a value of all devices, or the lane value of one replica."""

    symbol: Symbolic | None
    lane: int | None
    constant: Any = None


class Divided:
    """The nodes, inputs and outputs of the program for all replicas.

    nodes    in order; "replica_sum", "replica_gather", "replica_split", "replica_pick", "replica_select" communicate
    inputs   of the nodes
    outputs  one for each output of the graph
    """

    def __init__(self, graph: Graph, sizes: dict[str, Any], outputs: Sequence[Any]) -> None:
        replicas: Any = graph.replicas
        if replicas.is_mixed:
            raise NotAlikeError("one function contains replicas of two strategies")
        self.layout = replicas.layout
        self._sizes = sizes
        self._graph = graph
        self._all_nodes = [_sized(node, sizes) for node in graph.nodes] if sizes else graph.nodes
        self._feeds = {id(feed.symbol): feed for feed in graph.feeds}
        self._lanes: dict[int, tuple[int, Symbolic]] = {}  # by the id of a symbol: replica, and stand-in
        self._groups: dict[int, tuple[Symbolic, ...]] = {}  # by the id of a symbol of replica 0: those of all replicas
        self._rows: dict[int, Symbolic] = {}  # parts of a batch that is an input: the batch
        self._picks: dict[tuple[int, int], Symbolic] = {}
        self._selects: dict[tuple[int, ...], Symbolic] = {}
        self._chosen: set[int] = set()  # the ids of the values of `_selects`
        self._referenced: list[Any] = []  # values whose ids are keys, so that they stay in memory
        self._equal: set[int] = set()  # the ids of lane values that are equal in all replicas
        self.nodes: list[Node] = []
        self._marks = _outermost(replicas.marks)
        self._is_single = self.layout.local == 1
        if not self._is_single:
            for mark in self._marks:
                self._group(mark)
        self._emit()
        self.outputs = [self._output(out) for out in outputs]
        self._drop_unused()
        self.inputs = self._inputs()

    # -- which values belong together --------------------------------------------------------------------------------
    def _group(self, mark: Mark) -> None:
        if mark.kind == "split":
            self._join(mark.parts)
        if mark.kind != "each":
            return
        starts = [first for first, _ in mark.ranges]
        lengths = {last - first for first, last in mark.ranges}
        if len(lengths) > 1:
            raise NotAlikeError(f"replicas differ: they have {sorted(lengths)} operations")
        for offset in range(lengths.pop()):
            self._group_nodes([self._all_nodes[start + offset] for start in starts])

    def _group_nodes(self, nodes: Sequence[Node]) -> None:
        first = nodes[0]
        for node in nodes[1:]:
            if not _calls_alike(node, first):
                raise NotAlikeError(f"replicas differ: {first.name} of one is {node.name} of another")
        for values in zip(*[node.args for node in nodes], strict=True):
            self._check_lane(values)
        for symbols in zip(*[node.outputs for node in nodes], strict=True):
            self._join(symbols)

    def _join(self, symbols: Sequence[Symbolic]) -> None:
        """Make one lane value of the symbols."""
        shapes = {(tuple(evaluated(s.shape, self._sizes)), s.dtype) for s in symbols}
        if len(shapes) > 1:
            raise NotAlikeError(f"values of replicas have different shapes: {sorted(str(s) for s, _ in shapes)}")
        for number, symbol in enumerate(symbols):
            if id(symbol) in self._lanes:
                raise NotAlikeError("a value belongs to two replicas")
            self._lanes[id(symbol)] = (number, symbols[0])

    def _check_lane(self, values: Sequence[Any]) -> None:
        """Determine what kind of operand the values of the replicas are, if they differ."""
        first = values[0]
        if all(value is first for value in values) or self._is_lane(values):
            return
        if any(id(value) in self._lanes for value in values if type(value) is Symbolic):
            raise NotAlikeError("a replica uses a value computed by another one")
        if all(type(value) is Symbolic and id(value) in self._feeds for value in values):
            kinds = {self._feeds[id(value)].kind for value in values}
            if len(kinds) == 1 and len({id(value) for value in values}) == len(values):
                self._join(values)
                self._groups[id(first)] = tuple(values)
                if all(_is_kept_equal(self._feeds[id(value)]) for value in values):
                    self._equal.add(id(first))

    def _is_lane(self, values: Sequence[Any]) -> bool:
        """Whether the values are those of one lane value, in the order of replicas."""
        found = [self._lanes.get(id(value)) if type(value) is Symbolic else None for value in values]
        return all(
            pair is not None and pair[0] == number and pair[1] is found[0][1]  # type: ignore[index]
            for number, pair in enumerate(found)
        )

    # -- the nodes ---------------------------------------------------------------------------------------------------
    def _emit(self) -> None:
        position = 0
        for mark in self._marks:
            self._emit_shared(position, mark.start)
            if mark.kind == "each" and self._is_single:
                self._emit_shared(mark.start, mark.end)
            elif mark.kind == "each":
                self._emit_lane(mark)
            else:
                self._emit_collective(mark)
            position = mark.end
        self._emit_shared(position, len(self._all_nodes))

    def _emit_shared(self, start: int, end: int) -> None:
        """Add nodes outside of replicas, which every device computes."""
        for node in self._all_nodes[start:end]:
            self.nodes.append(node._replace(args=tuple([self._shared(a) for a in node.args])))

    def _emit_lane(self, mark: Mark) -> None:
        starts = [first for first, _ in mark.ranges]
        first, last = mark.ranges[0]
        for offset in range(last - first):
            nodes = [self._all_nodes[start + offset] for start in starts]
            operands = tuple([self._lane(values) for values in zip(*[node.args for node in nodes], strict=True)])
            self.nodes.append(nodes[0]._replace(args=operands))
            if all(type(a) is not Symbolic or self._is_equal(a) for a in operands):
                self._equal.update(id(out) for out in nodes[0].outputs)

    def _emit_collective(self, mark: Mark) -> None:
        attrs: dict[str, Any]
        if mark.kind == "split":
            source = mark.result
            rows = evaluated(source.shape, self._sizes)[0]
            if rows % self.layout.total:
                raise NotAlikeError(f"a batch of {rows} rows does not divide evenly among {self.layout.total} replicas")
            if id(source) in self._feeds and self._feeds[id(source)].kind == "argument":
                self._rows[id(mark.parts[0])] = source
            else:
                self.nodes.append(Node("replica_split", (self._shared(source),), {}, (mark.parts[0],)))
            return
        attrs = {"axis": mark.axis} if mark.kind == "gather" else {}
        self.nodes.append(Node(f"replica_{mark.kind}", (self._lane(mark.parts),), attrs, (mark.result,)))

    def _lane(self, values: Sequence[Any]) -> Any:
        """The operands of all replicas as one value."""
        first = values[0]
        if self._is_single:
            return first
        if all(value is first for value in values):
            return self._shared(first)
        if self._is_lane(values):
            return first
        if all(type(value) is not Symbolic and alike(value, first) for value in values):
            return first
        if any(type(value) is Symbolic and id(value) in self._lanes for value in values):
            raise NotAlikeError("a replica uses a value computed by another one")
        return self._selected(values)

    def _selected(self, values: Sequence[Any]) -> Symbolic:
        """A lane value that selects one of several values, which all devices have, for each replica."""
        key = tuple(map(id, values))
        if key not in self._selects:
            arrays = [value if type(value) is Symbolic else np.asarray(value) for value in values]
            shapes = {(tuple(evaluated(a.shape, self._sizes)), a.dtype) for a in arrays}
            if len(shapes) > 1:
                raise NotAlikeError("values of replicas have different shapes")
            ((shape, dtype),) = shapes
            symbol = Symbolic(self._graph, shape, dtype)
            self.nodes.append(Node("replica_select", tuple(values), {}, (symbol,)))
            self._selects[key] = symbol
            self._chosen.add(id(symbol))
            self._referenced.extend(values)
        return self._selects[key]

    def _shared(self, value: Any) -> Any:
        """An operand of code outside of replicas: for a lane value, the part of the replica that was used."""
        if self._is_single or type(value) is not Symbolic or id(value) not in self._lanes:
            return value
        number, symbol = self._lanes[id(value)]
        if id(symbol) in self._equal:
            return symbol
        if self.layout.workers > 1:
            raise NotAlikeError("code across replicas uses the value of a single replica")
        if (id(symbol), number) not in self._picks:
            picked = Symbolic(self._graph, value.shape, value.dtype)
            self.nodes.append(Node("replica_pick", (symbol,), {"number": number}, (picked,)))
            self._picks[id(symbol), number] = picked
        return self._picks[id(symbol), number]

    def _output(self, out: Any) -> Output:
        if type(out) is not Symbolic:
            return Output(None, None, out)
        if self._is_single:
            return Output(out, 0)
        number, symbol = self._lanes.get(id(out), (None, out))
        return Output(symbol, None if id(symbol) in self._equal else number)

    def _is_equal(self, symbol: Symbolic) -> bool:
        """Whether an operand has one value on all devices."""
        return id(symbol) in self._equal or (id(symbol) not in self._lanes and id(symbol) not in self._chosen)

    def _drop_unused(self) -> None:
        used = {id(out.symbol) for out in self.outputs if out.symbol is not None}
        kept = []
        for node in reversed(self.nodes):
            if any(id(out) in used for out in node.outputs) or checks.asserts(node):
                dce = node.attrs.get("dce")
                if dce is not None:
                    node = dce(node, [id(out) in used for out in node.outputs])
                kept.append(node)
                used.update(id(a) for a in node.args if type(a) is Symbolic)
        kept.reverse()
        self.nodes, self._used = kept, used

    # -- inputs ------------------------------------------------------------------------------------------------------
    def _inputs(self) -> list[Input]:
        found = [self._input(symbol) for symbol in self._symbols_needed()]
        return found

    def _symbols_needed(self) -> list[Symbolic]:
        """The symbols that no node computes, in the order of the inputs of the graph."""
        computed = {id(out) for node in self.nodes for out in node.outputs}
        needed = {id(a): a for node in self.nodes for a in node.args if type(a) is Symbolic}
        needed.update({id(out.symbol): out.symbol for out in self.outputs if out.symbol is not None})
        order = {id(feed.symbol): i for i, feed in enumerate(self._graph.feeds)}
        free = [symbol for key, symbol in needed.items() if key not in computed]
        return sorted(free, key=lambda s: order.get(id(self._rows.get(id(s), s)), -1))

    def _input(self, symbol: Symbolic) -> Input:
        if id(symbol) in self._rows:
            return Input("rows", symbol, (self._feeds[id(self._rows[id(symbol)])],))
        if id(symbol) in self._groups:
            return Input("lane", symbol, tuple([self._feeds[id(s)] for s in self._groups[id(symbol)]]))
        if id(symbol) not in self._feeds:
            raise NotAlikeError("a value is used before it is computed")
        return Input("lane" if self._is_single else "whole", symbol, (self._feeds[id(symbol)],))


def _is_kept_equal(feed: Feed) -> bool:
    """Whether an input is a copy of a variable whose copies are always assigned together."""
    return feed.kind == "variable" and bool(getattr(getattr(feed.value, "container", None), "is_kept_equal", False))


def _outermost(marks: Sequence[Mark]) -> list[Mark]:
    """The marks in order, without those inside another one."""
    kept: list[Mark] = []
    for mark in sorted(marks, key=lambda m: (m.start, -m.end)):
        if mark.end > mark.start and (not kept or mark.start >= kept[-1].end):
            kept.append(mark)
    return kept


def _sized(node: Node, sizes: dict[str, Any]) -> Node:
    attrs = {name: evaluated(value, sizes) for name, value in node.attrs.items()}
    return Node(node.name, tuple([evaluated(a, sizes) for a in node.args]), attrs, node.outputs)


# -- comparing -------------------------------------------------------------------------------------------------------
def alike(a: Any, b: Any) -> bool:
    """Whether two arguments of nodes are the same: equal values, functions with the same code, equal programs."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    if isinstance(a, np.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(alike(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, FunctionType):
        return _functions_alike(a, b)
    if isinstance(a, partial):
        return alike((a.func, a.args, a.keywords), (b.func, b.args, b.keywords))
    if hasattr(a, "feeds") and hasattr(a, "nodes"):
        return _programs_alike(a, b)
    try:
        return bool(a == b)
    except (TypeError, ValueError):
        return False


def _calls_alike(a: Node, b: Node) -> bool:
    """Whether two nodes call the same function with the same attributes; the numbers of checks may differ."""
    if a.name != b.name or len(a.args) != len(b.args) or a.attrs.keys() != b.attrs.keys():
        return False
    return all(alike(a.attrs[key], b.attrs[key]) for key in a.attrs if a.name != "check" or key != "number")


def _functions_alike(a: Any, b: Any) -> bool:
    cells = [[cell.cell_contents for cell in f.__closure__ or ()] for f in (a, b)]
    return a.__code__ is b.__code__ and alike(a.__defaults__, b.__defaults__) and alike(*cells)


def _programs_alike(a: Any, b: Any) -> bool:
    if len(a.nodes) != len(b.nodes) or len(a.feeds) != len(b.feeds) or len(a.outputs) != len(b.outputs):
        return False
    paired = {id(x.symbol): y.symbol for x, y in zip(a.feeds, b.feeds, strict=True)}

    def same(x: Any, y: Any) -> bool:
        return paired.get(id(x)) is y if type(x) is Symbolic else type(y) is not Symbolic and alike(x, y)

    for x, y in zip(a.feeds, b.feeds, strict=True):
        if x.kind != y.kind or x.symbol.shape != y.symbol.shape or x.symbol.dtype != y.symbol.dtype:
            return False
    for m, n in zip(a.nodes, b.nodes, strict=True):
        if not _calls_alike(m, n) or not all(map(same, m.args, n.args)):
            return False
        paired.update((id(x), y) for x, y in zip(m.outputs, n.outputs, strict=True))
    return all(map(same, a.outputs, b.outputs))
