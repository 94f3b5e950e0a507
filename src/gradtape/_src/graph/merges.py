"""Merge ops of a program that are cheaper together.

A loss and its gradient are two ops, because the tape computes the gradient later. If a program has both, and the
gradient does not depend on the value of the loss, one op computes them and reads the logits once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gradtape._src.arrays.symbolic import Node, Symbolic

LOSS, GRADIENT, BOTH = (f"projected_cross_entropy{suffix}" for suffix in ("", "_gradient", "_both"))


def merged(nodes: list[Node], is_pure: Callable[[Node], bool]) -> list[Node]:
    """The nodes, with a loss and its gradient merged into one."""
    for loss in [node for node in nodes if node.name == LOSS]:
        gradients = [n for n in nodes if n.name == GRADIENT and _are_same(n.args[1:], loss.args)]
        if len(gradients) == 1:
            nodes = _together(nodes, loss, gradients[0], is_pure) or nodes
    return nodes


def _are_same(some: Sequence[object], others: Sequence[object]) -> bool:
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _together(nodes: list[Node], loss: Node, gradient: Node, is_pure: Callable[[Node], bool]) -> list[Node] | None:
    """Move the loss to its gradient, and what depends on the loss behind it; None if that is impossible."""
    later: set[int] = {id(out) for out in loss.outputs}
    waiting: list[Node] = []
    order: list[Node] = []
    for node in nodes:
        if node is loss:
            continue
        depends = any(type(a) is Symbolic and id(a) in later for a in node.args)
        if node is gradient:
            if depends:
                return None
            order += [Node(BOTH, node.args, node.attrs, (*loss.outputs, *node.outputs)), *waiting]
            later.clear()
        elif depends:
            if not is_pure(node):
                return None
            waiting.append(node)
            later.update(id(out) for out in node.outputs)
        else:
            order.append(node)
    return order
