"""Recomputation across a call: the values that the forward program of a function returns for its backward program.

The plan is made for the nodes of both programs. Recomputed nodes are added to the backward program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src.arrays.symbolic import Graph, Node, Symbolic
from gradtape._src.devices import placement
from gradtape._src.graph.recomputation.costs import ACCELERATOR, PROCESSOR, nbytes_of
from gradtape._src.graph.recomputation.graphs import copies, inputs_of, step_of
from gradtape._src.graph.recomputation.plan import Plan, Program, sunk

if TYPE_CHECKING:
    from gradtape._src.graph.derivative import BackwardProgram
    from gradtape._src.graph.traced import Traced


class Part(NamedTuple):
    """Nodes of the forward program that the backward program repeats: their inputs, and the values they recompute."""

    nodes: list[Node]
    inputs: list[Symbolic]
    replaced: frozenset[int]


class Division:
    """The residuals of a traced function that are recomputed, and what they are recomputed from."""

    def __init__(self, traced: Traced, backward: BackwardProgram, residuals: Sequence[Any], limit: int) -> None:
        graph = backward.traced.graph
        feeds = _residual_feeds(graph, traced.graph)
        nodes = traced.program(residuals).nodes
        names = {id(symbol): id(value) for symbol, value in feeds}
        speed = ACCELERATOR if placement.places else PROCESSOR
        steps = [step_of(node, speed) for node in (*nodes, *graph.nodes)]
        steps = [step._replace(inputs=tuple([names.get(v, v) for v in step.inputs])) for step in steps]
        sizes = {id(out): nbytes_of(out) for node in (*nodes, *graph.nodes) for out in node.outputs}
        results = {id(t.array) for t in (*traced.outputs, *backward.traced.outputs)}
        order = sunk(steps, len(nodes))
        known = {id(r.symbol) for r in residuals}
        given = [f.symbol for f in traced.graph.feeds if f.kind != "array" or type(f.value) is Symbolic]
        prices = {id(symbol): nbytes_of(symbol) for symbol in given if id(symbol) not in known}
        self.plan: Plan = Program([steps[i] for i in order], len(nodes), sizes, results, prices).plan(limit)
        ordered = [(*nodes, *graph.nodes)[i] for i in order]
        self._rows = {id(ordered[i].outputs[0]): rows for i, rows in self.plan.rows.items()}
        self.parts = [
            Part([ordered[i] for i in unit.steps], inputs_of(unit, ordered), unit.replaced) for unit in self.plan.units
        ]

    def apply(self, backward: BackwardProgram) -> None:
        """Make a backward program recompute residuals that the forward program does not return."""
        graph, primal = backward.traced.graph, backward.primal.graph
        for part in self.parts:
            found = [(symbol, value) for symbol, value in _residual_feeds(graph, primal) if id(value) in part.replaced]
            if not found:
                continue
            gone = {id(symbol) for symbol, _ in found}
            users = (i for i, node in enumerate(graph.nodes) if not gone.isdisjoint(map(id, node.args)))
            place = next(users, len(graph.nodes))
            graph.compute_inputs(gone)
            inside = {id(value): graph.own(value) for value in part.inputs}
            token = next((t.array for t in backward.upstream if t.array.shape), None)
            made, names = copies(part.nodes, part.inputs, token, graph, inside)
            by_id = {id(names[id(value)]): symbol for symbol, value in found}
            made = [_with_outputs(node, by_id) for node in made]
            graph.replace_nodes([*graph.nodes[:place], *made, *graph.nodes[place:]], place)
        graph.replace_nodes([self._in_blocks(node) for node in graph.nodes], 0)
        backward.collect_residuals()

    def _in_blocks(self, node: Node) -> Node:
        rows = self._rows.get(id(node.outputs[0])) if node.outputs else None
        return node if rows is None else node._replace(attrs={**node.attrs, "rows": rows})


def _residual_feeds(graph: Graph, primal: Graph) -> list[tuple[Symbolic, Symbolic]]:
    """The inputs of a backward program's graph that are values of the primal graph, and these values."""
    return [
        (feed.symbol, feed.value)
        for feed in graph.feeds
        if feed.kind == "array" and type(feed.value) is Symbolic and feed.value.graph is primal
    ]


def _with_outputs(node: Node, names: dict[int, Symbolic]) -> Node:
    """A node with other names for some of its values."""
    args = tuple([names.get(id(a), a) for a in node.args])
    return node._replace(args=args, outputs=tuple([names.get(id(out), out) for out in node.outputs]))
