"""Fusion: several nodes become one, which NumPy runs faster.

`fuse`: consecutive elementwise ops on large arrays run in blocks. Their results have one shape; operands may be
broadcast. The ops of a group run one after another on each block, so that the values between them stay in the cache;
only what other nodes use is written to memory.

`pair`: a function and its derivative share most of their work.

Every element is computed as without fusion, to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from gradtape._src.arrays.dimensions import Sizes, is_known_shape, sized
from gradtape._src.arrays.numpy.blocks import LARGE
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.core.primitive import registry
from gradtape._src.graph.passes import Code

FUSED = "fused"
"""The name of nodes that run several ops; their attributes are the code of these ops and its arguments."""


PAIRED = {"gelu_and_slope": ("gelu", "gelu_slope")}
"""Kernels that compute two functions of a float32 or float64 array."""

_PAIRS = {first: (second, both) for both, (first, second) in PAIRED.items()}


def pair(code: Code, sizes: Sizes = ()) -> Code:
    """Compute a function and its derivative in one call, in the place of the function.

    Only if the derivative is the last to read the operand: it is then kept instead of the operand.
    """
    readers = {id(a): node for node in code.nodes for a in node.args}  # the last one of each value
    kept = {id(out) for out in code.outputs}
    pairs: dict[int, Node] = {}  # by the ids of the nodes that they replace
    for node in code.nodes:
        other, both = _PAIRS.get(node.name, ("", ""))
        x = node.args[0] if both else None
        last = readers.get(id(x))
        if last is not None and last.name == other and id(x) not in kept and _is_shareable(x, sizes):
            pairs[id(node)] = pairs[id(last)] = Node(both, node.args, {}, node.outputs + last.outputs)
    nodes = [pairs.get(id(node), node) for node in code.nodes if node.name in _PAIRS or id(node) not in pairs]
    return Code(nodes, code.outputs)


def _is_shareable(x: Any, sizes: Sizes) -> bool:
    return type(x) is Symbolic and np.dtype(x.dtype).char in "fd" and is_known_shape(sized(x.shape, sizes))


def fuse(code: Code, sizes: Sizes = ()) -> Code:
    """Replace consecutive elementwise ops on large arrays with results of one shape by one node."""
    groups = [*_groups(code.nodes, sizes)]
    last = {id(a): i for i, group in enumerate(groups) for node in group for a in node.args}  # groups that read a value
    last.update((id(out), len(groups)) for out in code.outputs)
    nodes: list[Node] = []
    for i, group in enumerate(groups):
        if len(group) == 1 and not _is_pair_in_blocks(group[0], sizes):
            nodes += group
        else:
            nodes.append(_fused(group, {key for key, reader in last.items() if reader > i}))
    return Code(nodes, code.outputs)


def _is_pair_in_blocks(node: Node, sizes: Sizes) -> bool:
    """Whether an op with two results runs in blocks: alone, it needs a group for that."""
    return node.name in PAIRED and _shape_of_blocks(node, sizes) is not None


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
    """The shape of the results of an elementwise op, if it is large; None for other nodes."""
    if not _is_elementwise(node):
        return None
    shape = sized(node.outputs[0].shape, sizes)
    if not is_known_shape(shape) or prod(shape) < LARGE:
        return None
    symbols = [a for a in (*node.outputs, *node.args) if type(a) is Symbolic]
    if any(s.dtype.kind == "O" or not is_known_shape(sized(s.shape, sizes)) for s in symbols):
        return None
    constants = [a for a in node.args if _is_array(a) and type(a) is not Symbolic]
    return None if any(type(a) is not np.ndarray for a in constants) else shape


def _is_elementwise(node: Node) -> bool:
    op = registry.get(node.name)
    return node.name in PAIRED or (op is not None and op.elementwise and len(node.outputs) == 1)


def _fused(group: list[Node], used: set[int]) -> Node:
    """The node that runs a group; `used` are the values that later nodes read."""
    results = [out for node in group for out in node.outputs]
    made = {id(out) for out in results}
    taken = {id(a): a for node in group for a in node.args if _is_array(a) and id(a) not in made}
    outputs = tuple([out for out in results if id(out) in used])
    arguments = tuple(taken.values())
    return Node(FUSED, arguments, {"feeds": arguments, "code": Code(group, list(outputs))}, outputs)


def _is_array(value: Any) -> bool:
    """Whether an operand is divided with the blocks: a value of the program, or an array that is a constant."""
    return type(value) is Symbolic or getattr(value, "ndim", 0) > 0
