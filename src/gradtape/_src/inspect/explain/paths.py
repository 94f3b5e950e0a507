"""Reasons on a chain of ops from the source to the target, and advice if all of it is connected."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from gradtape._src.autodiff.arguments import array_of
from gradtape._src.call_sites import Line
from gradtape._src.inspect.events import OpEvent
from gradtape._src.inspect.explain.calls import blocked_in_call
from gradtape._src.inspect.explain.case import Case, Path
from gradtape._src.inspect.explain.explanation import Explanation, Reason
from gradtape._src.inspect.explain.words import shown_op, why_blocked
from gradtape._src.inspect.source import shown
from gradtape._src.tensor import is_differentiable


def connected(case: Case, path: Path | None) -> Explanation:
    facts, tape = case.facts, case.facts.tape
    notes = []
    shapes = [tuple(array_of(t).shape) for t in case.targets]
    if any(shapes):
        shape = next(s for s in shapes if s)
        notes.append(f"{case.target} has shape {shape}: gradient() differentiates the sum of its elements.")
    if len(case.targets) > 1:
        notes.append(f"{len(case.targets)} targets: gradient() differentiates the sum of all of them.")
    without_vjp = [i for i, (node, _) in enumerate(path or ()) if node.op.vjp_all is not None]
    if path and without_vjp and case.uid in tape._unconnected and case.is_same_call:
        return refused(case, path[: without_vjp[0] + 1])
    reason, message, fix, where = None, "", "", None
    if path is not None:
        count = len(path)
        message = f"{count} ops lead" if count > 1 else "One op leads"
        message += f" from {case.name} to {case.target}."
        if not count:
            message = f"{case.name} is the target itself."
    elif not facts.live:
        message = "The gradient reached it; the ops in between have been freed."
    if not facts.live:
        where = tape._used_at
        if case.is_same_call:
            notes.append(f"The tape was used up at {shown(where)}; with persistent=True it computes several gradients.")
            where = None
        else:
            reason = Reason.USED_UP
            message += (
                f" The tape computed another gradient at {shown(where)}; without persistent=True it computes one."
            )
            fix = "Create it with tf.GradientTape(persistent=True), or compute all gradients in one call."
    steps = [case.step(n) for n, _ in path or ()]
    return Explanation(case.name, True, reason, message.strip(), fix, steps, where, True, tuple(notes))


def refused(case: Case, path: Path) -> Explanation:
    """An op with one rule for all its inputs returned None for this one."""
    node, position = path[-1]
    if node.op.name != "custom_gradient":
        return blocked(case, node, position, path)
    return case.no(
        Reason.CUSTOM_GRADIENT,
        "The path leads through a function decorated with @tf.custom_gradient, whose gradient function returned "
        "None for this input.",
        "Return the upstream gradient times the derivative for every input that should learn.",
        path=path,
        where=node.where,
    )


def reason_on_path(case: Case, path: Path | None) -> Explanation | None:
    """There is a chain of ops, and the derivative ends somewhere on it."""
    if not path:
        return None
    if not is_differentiable(array_of(case.source)):
        return None
    facts, uid = case.facts, case.uid
    for i, (node, position) in enumerate(path):
        if not facts.carries(node, position) or not node.op.differentiable:
            return blocked(case, node, position, path[: i + 1], path)
        if not node.recorded:
            state = facts.state_at(node.outputs[0])
            told = {"pause": Reason.PAUSED, "stop_recording": Reason.STOP_RECORDING, "reset": Reason.RESET}
            if state is not None and state.what in told:
                return unrecorded(case, told[state.what], state.where, node, path[: i + 1])
            if uid in facts.tracked and any(e.what == "watch" and e.uid == uid for e in facts.log):
                return case.no(
                    Reason.WATCHED_LATE,
                    f"{shown_op(node.op)} used {case.name} before tape.watch was called.",
                    "Call tape.watch before the first op that should be recorded.",
                    where=node.where,
                    path=path,
                )
            return None  # something else was not watched, which is found below
        uid = node.outputs[0]
    return None


def unrecorded(case: Case, reason: Reason, where: Line | None, node: OpEvent | None, path: Any = ()) -> Explanation:
    what = f"{shown_op(node.op)} ran" if node is not None else f"{case.target} was computed"
    how = {
        Reason.PAUSED: "while the tape was paused",
        Reason.STOP_RECORDING: "inside tape.stop_recording()",
        Reason.RESET: "before tape.reset()",
    }[reason]
    fix = {
        Reason.PAUSED: "Call tape.resume() before the ops that should be differentiated.",
        Reason.STOP_RECORDING: "Move what should be differentiated out of the stop_recording block.",
        Reason.RESET: "Compute and watch again after reset(), or remove the reset().",
    }[reason]
    line = f" (from {shown(where)})" if where is not None else ""
    return case.no(reason, f"{what} {how}{line}: the tape has no record of it.", fix, where=where, path=path)


def blocked(
    case: Case, node: OpEvent, position: int, path: Path, whole: Any = None, certain: bool = True
) -> Explanation:
    """The derivative ends at this op, or before it if the path leaves an op through integers."""
    for i, (earlier, following) in enumerate(pairwise(path)):
        if _leaves_by_positions(earlier[0], *following):
            return case.no(
                Reason.NON_DIFFERENTIABLE_OP,
                f"The positions that {shown_op(earlier[0].op)} returns have no derivative.",
                "Use the values, or weights instead of positions: tf.nn.softmax(k * x).",
                where=earlier[0].where,
                path=path[: i + 1],
                certain=certain,
            )
    found = blocked_in_call(case, node, position, path)
    if found is not None:
        return found
    where = node.where
    if where is None and whole:
        where = next((n.where for n, _ in path if n.where is not None), None)
    return case.no(*why_blocked(node, position), where=where, path=path, certain=certain)


def _leaves_by_positions(node: OpEvent, following: OpEvent, position: int) -> bool:
    """Whether a path continues, at an input of the following op, from integers that an op returns with its values."""
    if len(node.outputs) < 2:
        return False
    taken = node.outputs.index(following.inputs[position])
    return bool(node.dtype[taken].kind in "iub")
