"""Static islands: those parts of a program with dynamic shapes or strings that XLA can run.

Such a program runs on NumPy, but most of its nodes may be static: the layers of a network around a `boolean_mask`, say.
These nodes are grouped into as few programs as possible, and each of them becomes one node of the program around it. An
island is like any other program: it starts on NumPy, XLA compiles it in the background, and from then on the faster
executor runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from gradtape._src import forks
from gradtape._src.arrays.dimensions import Sizes, contains_dimension, is_known_shape, sized
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.graph.checks import programs_in
from gradtape._src.graph.passes import Code

if TYPE_CHECKING:
    from gradtape._src.graph.program import Program

_LEAST = 4
"""The smallest number of nodes of an island: with fewer there is nothing for XLA to fuse."""

_ON_HOST = frozenset({
    "argwhere", "assume", "check", "dynamic", "dynamic_loop", "host_effect", "host_function", "repeated_places",
    "size_of",
})  # fmt: skip
"""Functions that only NumPy implements."""

Make = Callable[[list[Node], list[Symbolic], list[Symbolic]], "Program"]
"""Makes the program of an island from its nodes, inputs and outputs."""


def with_islands(code: Code, sizes: Sizes, is_pure: Callable[[Node], bool], make: Make) -> Code:
    """Reorder nodes so that those that XLA can run are next to each other, and replace each such group by one node."""
    groups: dict[tuple[int, bool], list[Node]] = {}  # in running order: an island comes first in its level
    for node, place in zip(code.nodes, _places(code.nodes, sizes, is_pure), strict=True):
        groups.setdefault(place, []).append(node)
    nodes: list[Node] = []
    for (_, is_on_host), group in sorted(groups.items(), key=lambda item: item[0]):
        nodes += group if is_on_host or len(group) < _LEAST else [_island(group, code, make)]
    return Code(nodes, code.outputs)


def _places(nodes: Sequence[Node], sizes: Sizes, is_pure: Callable[[Node], bool]) -> list[tuple[int, bool]]:
    """The level of each node, and whether it has to run on the host.

    A node has the lowest level at which all of its operands are available. Nodes with effects keep their order.
    """
    found: list[tuple[int, bool]] = []
    made: dict[int, tuple[int, bool]] = {}
    last_effect = 0
    for node in nodes:
        is_effect = not is_pure(node)
        on_host = is_effect or not is_static(node, sizes)
        needed = [made[id(a)] for a in node.args if type(a) is Symbolic and id(a) in made]
        level = max([at + (from_host and not on_host) for at, from_host in needed], default=0)
        if is_effect:
            level = last_effect = max(level, last_effect)
        found.append((level, on_host))
        made.update((id(out), (level, on_host)) for out in node.outputs)
    return found


def is_static(node: Node, sizes: Sizes) -> bool:
    """Whether XLA can run a node: its shapes are static, and it has no strings."""
    if node.name in _ON_HOST or contains_dimension(node.attrs.values()):
        return False
    symbols = [s for s in (*node.args, *node.outputs) if type(s) is Symbolic]
    if any(s.dtype.kind == "O" or not is_known_shape(sized(s.shape, sizes)) for s in symbols):
        return False
    return all(is_static(inner, program.sizes) for program in programs_in(node) for inner in program.nodes)


def _island(nodes: list[Node], code: Code, make: Make) -> Node:
    """Replace some nodes by one."""
    made = {id(out) for node in nodes for out in node.outputs}
    inputs = {id(a): a for node in nodes for a in node.args if type(a) is Symbolic and id(a) not in made}
    members = {id(node) for node in nodes}
    used = {id(a) for node in code.nodes if id(node) not in members for a in node.args if type(a) is Symbolic}
    used |= {id(out) for out in code.outputs if type(out) is Symbolic}
    outputs = [out for node in nodes for out in node.outputs if id(out) in used]
    island = Island(make(nodes, list(inputs.values()), outputs))
    return Node("island", tuple([feed.symbol for feed in island.program.feeds]), {"island": island}, tuple(outputs))


class Island:
    """A program that is a node of another one, and runs on the faster executor."""

    __slots__ = ("program",)

    def __init__(self, program: Program) -> None:
        self.program = program

    def __call__(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """The results, in arrays that share no memory with the operands."""
        program, tier = self.program, self.program.tier
        program.has_run_on_numpy = True
        on_numpy = tier is None or tier.on_numpy or bool(forks.without_xla)
        if tier is None or tier.is_settled:
            return program.on_numpy(*arrays) if on_numpy else self._by_xla(arrays)
        program.write_for_numpy()  # outside of the timed part
        began = perf_counter()
        results = program.on_numpy(*arrays) if on_numpy else self._by_xla(arrays)
        tier.add(on_numpy, perf_counter() - began)
        return results

    def _by_xla(self, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        xla = self.program.xla
        with xla.on_processor():
            return tuple([np.asarray(result) for result in xla(arrays)])


def run_island(*arrays: np.ndarray, island: Island) -> tuple[np.ndarray, ...]:
    """The kernel of an island's node."""
    return island(arrays)
