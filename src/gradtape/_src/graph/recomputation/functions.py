"""Recomputation in functions: the backward pass that was just traced computes values of the forward pass again.

Loops that save more than fits are divided first (`loops.py`). The plan is for what is then left.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from gradtape._src.arrays.symbolic import Graph, Node, Symbolic
from gradtape._src.graph.recomputation.graphs import (
    copies,
    inputs_of,
    like,
    needed,
    plan_of,
    rewrite,
    speed_here,
    step_of,
    token_at,
)
from gradtape._src.graph.recomputation.loops import Grouping, Loop, divide, grouping, loops_in
from gradtape._src.graph.recomputation.plan import Plan, rank

_ROUNDS = 3
"""How often a loop is divided anew, because its groups need memory, too."""


def recompute(graph: Graph, boundary: int, results: Iterable[Any], limit: int) -> Plan:
    """Compute values of the forward pass again in the nodes from `boundary` on, so that the peak is within a limit.

    `results` are the values that the backward pass is for.
    """
    wanted = {id(value) for value in results if type(value) is Symbolic}
    draft = _draft(graph.nodes[:], boundary, wanted, limit)
    if draft.plan.unlimited > limit:
        draft = _with_divided_loops(graph, draft, wanted, limit)
        boundary = draft.boundary
    plan, ordered, first = draft.plan, draft.ordered, draft.first
    by_place: dict[int, list[Node]] = {}
    renamed: dict[int, Symbolic] = {}
    for unit in sorted(plan.units, key=lambda unit: unit.place):
        token = token_at(ordered, first, unit.place)
        made, names = copies([ordered[i] for i in unit.steps], inputs_of(unit, ordered), token, graph)
        by_place.setdefault(id(ordered[unit.place].outputs[0]), []).extend(made)
        renamed.update((value, names[value]) for value in unit.replaced)
    if plan.units or plan.rows:
        if graph.root.executor == "auto":  # on the processor XLA merges what is computed again with the original
            graph.root.executor = "numpy"
        rewrite(graph, boundary, by_place, renamed, {id(ordered[i].outputs[0]): n for i, n in plan.rows.items()})
    return plan


class _Draft(NamedTuple):
    """A plan for some nodes, which are a graph's; `needed` are those that results depend on, and where they are."""

    plan: Plan
    nodes: list[Node]
    boundary: int
    needed: list[tuple[int, Node]]
    ordered: list[Node]
    first: int


def _draft(nodes: list[Node], boundary: int, wanted: set[int], limit: int) -> _Draft:
    found = needed(nodes, wanted)
    first = sum(i < boundary for i, _ in found)
    own = [node for _, node in found]
    plan, order = plan_of(own, first, wanted, limit)
    return _Draft(plan, nodes, boundary, found, [own[i] for i in order], first)


class _Trial(NamedTuple):
    """A draft with one more loop divided: how many iterations run again, their ops, and the estimated seconds."""

    draft: _Draft
    iterations: int
    ops: int
    seconds: float


def _with_divided_loops(graph: Graph, draft: _Draft, wanted: set[int], limit: int) -> _Draft:
    """Divide loops, so that they save less, as long as that improves the plan."""
    best = _Trial(draft, 0, 0, 0.0)
    done: set[int] = set()
    while best.draft.plan.peak > limit or best.draft.plan.units:
        nodes = [node for _, node in best.draft.needed]
        loops = loops_in(nodes, best.draft.first, wanted)
        loop = next((x for x in loops if id(nodes[x.first].outputs[-1]) not in done), None)
        if loop is None:
            break
        done.add(id(nodes[loop.first].outputs[-1]))
        tried = _tried(graph, best, loop, wanted, limit)
        if tried is not None and rank(tried.draft.plan) < rank(best.draft.plan):
            best = tried
    plan = best.draft.plan
    plan.unlimited, plan.iterations, plan.loop_ops = draft.plan.unlimited, best.iterations, best.ops
    if best.iterations:
        graph.replace_nodes(best.draft.nodes, 0)
    return best.draft


def _tried(graph: Graph, before: _Trial, loop: Loop, wanted: set[int], limit: int) -> _Trial | None:
    """Divide a loop: it saves less and less, until the peak, including its groups, is within the limit."""
    node = before.draft.needed[loop.first][1]
    keeps, found = loop.nbytes - (before.draft.plan.unlimited - limit), None
    for _ in range(_ROUNDS):
        groups = grouping(loop, max(keeps, 0))
        if groups is None:
            return None
        again = groups.number * groups.size
        draft = _draft(*_divided(graph, before.draft, loop, groups), wanted, limit)
        seconds = before.seconds + again / loop.length * step_of(node, speed_here()).seconds
        draft.plan.seconds += seconds
        ops = before.ops + again * len(node.attrs["body"].nodes)
        trial = _Trial(draft, before.iterations + again, ops, seconds)
        if found is None or rank(draft.plan) < rank(found.draft.plan):
            found = trial
        if draft.plan.peak <= limit or keeps <= 0:
            break
        keeps -= draft.plan.peak - limit
    return found


def _divided(graph: Graph, draft: _Draft, loop: Loop, groups: Grouping) -> tuple[list[Node], int]:
    """The nodes with a loop that is divided, and where the backward pass begins.

    The nodes of the undivided loop stay, for derivatives of higher order; without these, nothing needs them.
    """
    own = [node for _, node in draft.needed]
    places = [draft.needed[i][0] for i in (loop.first, loop.second)]
    first, second = divide(own, loop, groups, graph)
    made = {id(out) for node in (*first, *second) for out in node.outputs}
    parts = [
        [_renamed(draft.nodes[place], made, graph), *nodes]
        for place, nodes in zip(places, (first, second), strict=True)
    ]
    nodes = [*draft.nodes[: places[0]], *parts[0], *draft.nodes[places[0] + 1 : places[1]], *parts[1]]
    return [*nodes, *draft.nodes[places[1] + 1 :]], draft.boundary + len(first)


def _renamed(node: Node, taken: set[int], graph: Graph) -> Node:
    """A node with other names for the outputs whose names are taken."""
    return node._replace(outputs=tuple([like(out, graph) if id(out) in taken else out for out in node.outputs]))
