"""Reasons without a chain of ops to the target: the value continued in Python, in a variable, or unrecorded."""

from __future__ import annotations

from typing import Any

from gradtape._src.inspect.events import OpEvent
from gradtape._src.inspect.explain.case import Case, given_name
from gradtape._src.inspect.explain.explanation import Explanation, Reason
from gradtape._src.inspect.explain.paths import blocked
from gradtape._src.inspect.explain.words import tensor_function
from gradtape._src.inspect.source import calls_at, calls_in, name_of, present_values, shown, variable_of


def reason_of_escapes(case: Case) -> Explanation | None:
    """There is no chain of ops to the target: where did the value go instead?"""
    facts = case.facts
    made = facts.made_from(case.uid)
    behind, plain = facts.behind(case.uids)
    for event in facts.events:
        if event.what == "assign" and event.uid in made and event.other in behind and event.when < case.made:
            return stored_in_variable(case, event)
    broken = reason_of_pauses(case)
    if broken is not None:
        return broken
    unseen = [uid for uid in unexplained_inputs(case) if uid > facts.began]  # computed in the block, but not recorded
    known = facts.complete and not unseen
    branches = {e.uid: e for e in facts.events if e.what == "bool()" and e.when < case.made and e.uid in made}
    candidates = _candidates(case, made, set(branches), known, plain)
    if not candidates:
        return branch_only(case, list(branches.values())) or reason_of_pauses(case, guess=True)
    latest = max([u for u in unseen if u <= case.made], default=case.made)
    _, best = max([c for c in candidates if c[0] <= latest] or candidates, key=lambda c: c[0])
    certain = facts.complete and len(candidates) == 1
    if isinstance(best, OpEvent):
        first = facts.path(case.uid, best.inputs, differentiable=False) or []
        position = next(i for i, uid in enumerate(best.inputs) if uid in made)
        return blocked(case, best, position, [*first, (best, position)], certain=certain)
    return stored_in_variable(case, best, certain) if best.what == "assign" else left_library(case, best, certain)


def reason_of_predict(case: Case) -> Explanation | None:
    """The target was computed from the result of `model.predict`, which returns NumPy arrays."""
    if case.frame is None or case.target == "the target":
        return None
    for where, value in present_values(case.target, case.frame):
        for method in calls_in(value, ("predict", "predict_on_batch")):
            model = method.rpartition(".")[0]
            return case.no(
                Reason.LEFT_LIBRARY,
                f"{method} at {shown(where)} returns NumPy arrays; everything computed from them is constant.",
                f"Call the model instead of predict: {model}(x).",
                where=where,
            )
    return None


def _candidates(case: Case, made: set[int], branches: set[int], known: bool, plain: bool) -> list[tuple[int, Any]]:
    """Where the derivative may have ended: non-differentiable ops, and events, each with its time."""
    facts = case.facts
    found: list[tuple[int, Any]] = []
    for node in () if known else facts.nodes:
        when = node.outputs[0]
        ends_here = not node.op.differentiable and not made.isdisjoint(node.inputs)
        if ends_here and when < case.made and when not in branches:
            found.append((when, node))
    possible = {"assign": not known, "bool()": False}
    for event in facts.events:
        if event.uid in made and event.when < case.made and possible.get(event.what, not known or plain):
            found.append((event.when, event))
    return found


def branch_only(case: Case, decisions: list[Any]) -> Explanation | None:
    if not decisions:
        return None
    event = decisions[0]
    return case.no(
        Reason.BRANCH_ONLY,
        f"{case.name} only determined which branch runs at {shown(event.where)}: the target "
        "jumps where the decision changes, and is constant in between.",
        "Blend the branches: w = tf.sigmoid(k * x); y = w * a + (1 - w) * b.",
        where=event.where,
        path=case.facts.path(case.uid, [event.uid], differentiable=False) or (),
    )


def stored_in_variable(case: Case, event: Any, certain: bool = True) -> Explanation:
    variable = case.facts.variables.get(event.other)
    if variable is None:
        variable = variable_of(event.other, case.frame)
    name = given_name(variable) or "a variable"
    name = (variable is not None and name_of(variable, case.frame)) or name
    return case.no(
        Reason.STATE,
        f"The value was stored in {name} at {shown(event.where)}; reading a variable gives its "
        "value, not the history of what was assigned.",
        "Compute the target from the tensor itself, and assign afterward.",
        where=event.where,
        certain=certain,
        path=case.facts.path(case.uid, [event.uid], differentiable=False) or (),
    )


def left_library(case: Case, event: Any, certain: bool) -> Explanation:
    calls = [call for call in calls_at(event.where) if call[0] in ("np", "numpy", "onp", "math")]
    advice = "Keep using tensors until the target is computed; convert a copy for printing."
    through = event.what
    if any(function == "numpy_function" for _, function in calls_at(event.where)):
        through, advice = "tf.numpy_function", "Use tf.py_function, or write it with tf functions."
    elif calls:
        module, function = calls[0]
        through = f"{module}.{function}" if event.what == "NumPy" else through
        same = tensor_function(function)
        advice = f"Use {same} instead of {module}.{function}: tapes record it." if same else advice
    return case.no(
        Reason.LEFT_LIBRARY,
        f"The value left the library through {through} at {shown(event.where)}; the result is a constant.",
        advice,
        where=event.where,
        certain=certain,
        path=case.facts.path(case.uid, [event.uid], differentiable=False) or (),
    )


def reason_of_pauses(case: Case, guess: bool = False) -> Explanation | None:
    """The tape was paused, and the target was computed from a value of that time."""
    facts = case.facts
    open_ends = unexplained_inputs(case)
    for event, end in facts.breaks():
        inside = [uid for uid in open_ends if event.when < uid < end]
        unexplained = not facts.complete or not any(u in facts.tracked for u in case.uids)
        if inside or (guess and unexplained and case.made > end):
            reason = Reason.PAUSED if event.what == "pause" else Reason.STOP_RECORDING
            how = "while the tape was paused" if event.what == "pause" else "inside tape.stop_recording()"
            return case.no(
                reason,
                f"{case.target} depends on values that were computed {how} (from {shown(event.where)}).",
                "Move the computation that should be differentiated out of there.",
                where=event.where,
                certain=bool(inside),
            )
    return None


def unexplained_inputs(case: Case) -> list[int]:
    """The inputs of the targets without a record."""
    behind, _ = case.facts.behind(case.uids)
    return [u for u in behind if u not in case.facts.producer and u not in case.facts.tracked]
