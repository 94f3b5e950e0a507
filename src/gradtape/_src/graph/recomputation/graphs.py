"""Recomputation in graphs: nodes as steps of a plan, and copies of nodes of the forward pass in the backward pass.

Copies take what they start from through a `barrier`, together with a cotangent: XLA neither merges them with the
originals, nor computes them before the backward pass needs them. In `passes.py` they have other operands than the
originals, and so are no common subexpressions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.symbolic import Graph, Node, Symbolic
from gradtape._src.devices import placement
from gradtape._src.graph.program import is_pure
from gradtape._src.graph.recomputation.costs import (
    ACCELERATOR,
    PROCESSOR,
    Speed,
    blocks_of,
    kind_of,
    nbytes_of,
    seconds_of,
)
from gradtape._src.graph.recomputation.plan import Plan, Program, Step, Unit, sunk


def plan_of(nodes: Sequence[Node], boundary: int, results: set[int], limit: int) -> tuple[Plan, list[int]]:
    """The plan for nodes, and the order of the nodes that its places are in."""
    steps = [step_of(node, speed_here()) for node in nodes]
    sizes = {id(out): _size(out) for node in nodes for out in node.outputs}
    order = sunk(steps, boundary)
    program = Program([steps[i] for i in order], boundary, sizes, results)
    return program.plan(limit), order


def speed_here() -> Speed:
    return ACCELERATOR if placement.places else PROCESSOR


def step_of(node: Node, speed: Speed) -> Step:
    """A node as a step of a plan."""
    operands = [a for a in node.args if type(a) is Symbolic]
    is_known = all(is_known_shape(x.shape) for x in (*operands, *node.outputs))
    kind = kind_of(node.name, is_pure(node) and is_known)
    seconds = seconds_of(node.name, kind, operands, node.outputs, speed) if is_known else 1.0
    compiled = speed is ACCELERATOR or any(out.graph.root.executor == "xla" for out in node.outputs[:1])
    arrays = [a for a in node.args if hasattr(a, "dtype")]
    blocks = blocks_of(node.name, arrays, speed, compiled) if is_known else ()
    workspace = blocks[0].workspace if blocks else 0
    if node.name == "scan" and is_known and isinstance(node.attrs["length"], int):
        each, workspace = _of_iteration(node.attrs["body"], speed)
        seconds = each * node.attrs["length"]
    inputs, outputs = tuple([id(a) for a in operands]), tuple([id(out) for out in node.outputs])
    return Step(inputs, outputs, seconds, kind, workspace, blocks)


def _of_iteration(body: Any, speed: Speed) -> tuple[float, int]:
    """The estimated seconds of one iteration of a loop, and the bytes of its values."""
    steps = [step_of(node, speed) for node in body.nodes]
    sizes = {id(out): _size(out) for node in body.nodes for out in node.outputs}
    inside = Program(steps, 0, sizes, {id(out) for out in body.outputs})
    return sum(step.seconds for step in steps), int(inside.profile.max(initial=0))


def _size(symbol: Symbolic) -> int:
    return nbytes_of(symbol) if is_known_shape(symbol.shape) else 0


def needed(nodes: Sequence[Node], wanted: set[int]) -> list[tuple[int, Node]]:
    """The nodes that some values depend on, and their places; branches and loops without what nothing uses."""
    used, found = set(wanted), []
    for i in range(len(nodes) - 1, -1, -1):
        node = nodes[i]
        if any(id(out) in used for out in node.outputs):
            if (dce := node.attrs.get("dce")) is not None:
                node = dce(node, [id(out) in used for out in node.outputs])
            found.append((i, node))
            used.update(id(a) for a in node.args if type(a) is Symbolic)
    return found[::-1]


def token_at(nodes: Sequence[Node], boundary: int, place: int) -> Symbolic | None:
    """A value of the backward pass that is there when a step begins, and is used by it or later."""
    made = {id(out): out for node in nodes[boundary:place] for out in node.outputs if out.shape}
    for node in nodes[place:]:
        for a in reversed(node.args):
            if id(a) in made:
                return made[id(a)]
    return None


def inputs_of(unit: Unit, nodes: Sequence[Node]) -> list[Symbolic]:
    """The values that a unit starts from."""
    known = {id(a): a for i in unit.steps for a in nodes[i].args if type(a) is Symbolic}
    return [known[value] for value in unit.inputs if value in known]


def copies(
    nodes: Sequence[Node],
    inputs: Sequence[Symbolic],
    token: Symbolic | None,
    graph: Graph,
    inside: dict[int, Symbolic] = {},  # noqa: B006 - nothing writes to it
) -> tuple[list[Node], dict[int, Symbolic]]:
    """Barriers and copies of nodes; and what stands for the values of the originals. `inside` are the inputs of the
    graph that values of another one are.
    """
    names: dict[int, Symbolic] = {}
    found = []
    for value in inputs:
        names[id(value)] = out = like(value, graph)
        own = inside.get(id(value), value)
        found.append(Node("barrier", (own, own if token is None else token), {}, (out,)))
    for node in nodes:
        outputs = tuple([like(out, graph) for out in node.outputs])
        args = tuple([names.get(id(a), a) if type(a) is Symbolic else a for a in node.args])
        found.append(Node(node.name, args, node.attrs, outputs))
        names.update((id(out), copy) for out, copy in zip(node.outputs, outputs, strict=True))
    return found, names


def like(value: Symbolic, graph: Graph) -> Symbolic:
    made = Symbolic(graph, value.shape, value.dtype)
    made.extents = value.extents
    return made


def rewrite(
    graph: Graph,
    boundary: int,
    copies_before: dict[int, list[Node]],
    renamed: dict[int, Symbolic],
    rows: dict[int, int],
) -> None:
    """Insert copies, and let the nodes of the backward pass take them. `rows` are the sizes of blocks, by the first
    output of a node.
    """
    nodes = graph.nodes[:boundary]
    for node in graph.nodes[boundary:]:
        nodes += copies_before.get(id(node.outputs[0]), ()) if node.outputs else ()
        args = tuple([renamed.get(id(a), a) if type(a) is Symbolic else a for a in node.args])
        attrs = {**node.attrs, "rows": found} if (found := rows.get(id(node.outputs[0]))) else node.attrs
        nodes.append(node._replace(args=args, attrs=attrs))
    graph.replace_nodes(nodes, boundary)
