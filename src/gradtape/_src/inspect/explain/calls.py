"""Reasons within functions: a tape sees only the call, but the trace of the function has its ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gradtape._src.inspect.events import FunctionOps, OpEvent
from gradtape._src.inspect.explain.case import Case, Path
from gradtape._src.inspect.explain.explanation import Explanation
from gradtape._src.inspect.explain.words import why_blocked

if TYPE_CHECKING:
    from gradtape._src.graph.traced import Traced


def reason_in_call(case: Case) -> Explanation | None:
    """The derivative ends within a function that the backward pass has reached."""
    for inputs, outputs, traced in case.facts.calls:
        freed = outputs[0] not in case.facts.producer  # as are all records that the pass has reached
        if freed and outputs[0] <= case.made and case.uid in inputs:
            found = blocked_within(case, traced, inputs.index(case.uid), [])
            if found is not None:
                return found
    return None


def blocked_in_call(case: Case, node: OpEvent, position: int, path: Path) -> Explanation | None:
    """The derivative ends within the function that an op, the last one of a path, calls."""
    traced = case.facts.functions.get(node.outputs[0])
    return None if traced is None else blocked_within(case, traced, position, path)


def blocked_within(case: Case, traced: Traced, position: int, path: Path) -> Explanation | None:
    """The op of a function at which the derivative with respect to an input ends."""
    ops = FunctionOps(traced)
    chain = ops.path_from(position, differentiable=False) or []
    for i, (node, at) in enumerate(chain):
        inside = [*path, *chain[: i + 1]]
        if ops.carries(node, at) and node.op.differentiable:
            continue
        if node.outputs[0] in ops.functions and node.carries(at):
            return blocked_within(case, ops.functions[node.outputs[0]], at, inside)
        reason, message, fix = why_blocked(node, at)
        return case.no(reason, f"In the function '{ops.name}': {message}", fix, path=inside)
    return None
