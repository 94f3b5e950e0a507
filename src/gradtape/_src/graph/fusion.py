"""Fusion: consecutive elementwise ops on large arrays of one shape become one node, which runs in blocks.

The ops of a group run one after another on each block, so that the values between them stay in the cache; only what
other nodes use is written to memory. Every element is computed by the same calls as without fusion.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from gradtape._src.arrays.dimensions import Sizes, is_known_shape, sized
from gradtape._src.arrays.numpy.blocks import LARGE
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.core.primitive import registry
from gradtape._src.graph.passes import Code

FUSED = "fused"
"""The name of nodes that run several ops; their attributes are the code of these ops and its arguments."""


def fuse(code: Code, sizes: Sizes = ()) -> Code:
    """Replace consecutive elementwise ops on large arrays of one shape by one node."""
    groups = [*_groups(code.nodes, sizes)]
    if len(groups) == len(code.nodes):
        return code
    last = {id(a): i for i, group in enumerate(groups) for node in group for a in node.args}  # groups that read a value
    last.update((id(out), len(groups)) for out in code.outputs)
    nodes: list[Node] = []
    for i, group in enumerate(groups):
        nodes += group if len(group) == 1 else [_fused(group, {key for key, reader in last.items() if reader > i})]
    return Code(nodes, code.outputs)


def _groups(nodes: Sequence[Node], sizes: Sizes) -> Iterator[list[Node]]:
    """Divide nodes into groups; those that cannot be fused are alone."""
    group: list[Node] = []
    shape: tuple[Any, ...] | None = None
    for node in nodes:
        own = _shape_of_blocks(node, sizes)
        if group and (own is None or own != shape):
            yield group
            group = []
        if own is None:
            yield [node]
        else:
            group.append(node)
            shape = own
    if group:
        yield group


def _shape_of_blocks(node: Node, sizes: Sizes) -> tuple[Any, ...] | None:
    """The shape of an elementwise op on large arrays of one shape and on numbers; None for other nodes."""
    op = registry.get(node.name)
    if op is None or not op.elementwise or len(node.outputs) != 1:
        return None
    symbols = [a for a in (*node.outputs, *node.args) if type(a) is Symbolic]
    shape = sized(symbols[0].shape, sizes)
    if not is_known_shape(shape) or prod(shape) < LARGE or any(s.dtype.kind == "O" for s in symbols):
        return None
    if any(sized(s.shape, sizes) not in (shape, ()) for s in symbols):
        return None
    if any(getattr(a, "ndim", 0) for a in node.args if type(a) is not Symbolic):  # an array that is a constant
        return None
    return shape


def _fused(group: list[Node], used: set[int]) -> Node:
    """The node that runs a group; `used` are the values that later nodes read."""
    made = {id(node.outputs[0]) for node in group}
    taken = {id(a): a for node in group for a in node.args if type(a) is Symbolic and id(a) not in made}
    outputs = tuple([node.outputs[0] for node in group if id(node.outputs[0]) in used])
    arguments = tuple(taken.values())
    return Node(FUSED, arguments, {"feeds": arguments, "code": Code(group, list(outputs))}, outputs)
