"""Reasons why a source that the tape watches is not part of what the target was computed from."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Any

from gradtape._src.autodiff.arguments import array_of
from gradtape._src.autodiff.recording import Event
from gradtape._src.dtypes import dtype_of
from gradtape._src.inspect.events import OpEvent
from gradtape._src.inspect.explain.case import Case
from gradtape._src.inspect.explain.early import before_tape, early_value, named_before
from gradtape._src.inspect.explain.explanation import Explanation, Reason
from gradtape._src.inspect.source import shown
from gradtape._src.tensor import is_differentiable


def unrelated(case: Case) -> Explanation:
    """The source is watched, but no chain of ops leads from it to the target."""
    if not is_differentiable(array_of(case.targets[0])):
        return case.no(Reason.DTYPE, f"{case.target} is {dtype_of(array_of(case.targets[0])).name}.")
    found = _watched_in_another_thread(case) or _watched_late(case) or _used_before(case)
    return found or _constant_derivative(case) or _unused_result(case) or _unused(case)


def _watches(case: Case) -> list[Event]:
    return [e for e in case.facts.log if e.what == "watch" and e.uid == case.uid]


def _watched_in_another_thread(case: Case) -> Explanation | None:
    watched = _watches(case)
    began = next((e for e in case.facts.log if e.what == "start"), None)
    if not watched or began is None or watched[-1].thread == began.thread:
        return None
    return case.no(
        Reason.OTHER_THREAD,
        f"{case.name} was watched in another thread than the one that opened the tape, which is the only one it "
        "records.",
        "Open a tape in the thread that computes.",
    )


def _watched_late(case: Case) -> Explanation | None:
    """The target, or a value that it is computed from, was computed in the block, but before the source was watched."""
    watched = _watches(case)
    if not watched:
        return None
    fix = "Call tape.watch before the first op that should be recorded."
    if not any(uid > watched[0].when for uid in case.uids):
        return case.no(
            Reason.WATCHED_LATE,
            f"{case.target} was computed before tape.watch({case.name}) was called.",
            fix,
        )
    early = None if _uses(case) else early_value(case, case.facts.began, watched[0].when)
    if early is None:
        return None
    name, where = early
    text = f"{name}, from which {case.target} is computed, was computed before tape.watch({case.name}) was called."
    return case.no(Reason.WATCHED_LATE, text, fix, where=where)


def _used_before(case: Case) -> Explanation | None:
    """A value between source and target was computed before the block began."""
    return None if _uses(case) else before_tape(case)


def _constant_derivative(case: Case) -> Explanation | None:
    """The target is a gradient, or computed from one, and the derivative is constant."""
    facts = case.facts
    behind, _ = facts.behind(case.uids)
    found = [answer for answer in map(facts.answer_with, sorted(behind | named_before(case))) if answer is not None]
    if not found or not _uses(case):
        return None
    method, where = found[-1]
    what = "is" if any(facts.answer_with(uid) for uid in case.uids) else "is computed from"
    return case.no(
        Reason.CONSTANT_DERIVATIVE,
        f"{case.target} {what} the result of .{method}() at {shown(where)}. That derivative does not depend on "
        f"{case.name}: the function is linear in it.",
        "The next derivative is zero. If that is intended, unconnected_gradients='zero' returns zeros instead of None.",
        where=where,
    )


def _unused_result(case: Case) -> Explanation | None:
    """The source is itself the result of an op, which no other op used."""
    facts = case.facts
    if _uses(case) or case.uid in facts.roots:
        return None
    again = _computed_again(case)
    if again is not None:
        return again
    common = [uid for uid in facts.roots if facts.path(uid, [case.uid], differentiable=True)]
    both = [uid for uid in common if facts.path(uid, case.uids, differentiable=True)]
    text = f"No recorded op used {case.name}, which is the result of an op itself"
    if both:
        text += f": {case.target} was computed from the same values, but not from {case.name}"
    return case.no(
        Reason.UNRELATED,
        f"{text}.",
        f"Compute {case.target} from this {case.name}. Slicing, or calling a model again, makes a new tensor: "
        "differentiate with respect to what was sliced, and slice the gradient; return both results from one call.",
    )


def _computed_again(case: Case) -> Explanation | None:
    """The target was computed from another result of the same ops on the same values."""
    facts = case.facts
    behind, _ = facts.behind(case.uids)
    numbers = _value_numbers(facts.nodes)
    number = numbers.get(case.uid)
    others = [uid for uid in behind if uid != case.uid and number is not None and numbers.get(uid) == number]
    if not others:
        return None
    where = facts.producer[others[0]].where
    return case.no(
        Reason.COMPUTED_AGAIN,
        f"{case.target} was computed from another result of the same ops on the same values: they ran twice, and "
        f"{case.name} is a result of the other run.",
        f"Compute {case.name} and {case.target} in one call, for example with a model that returns both.",
        where=where,
    )


def _value_numbers(nodes: Iterable[OpEvent]) -> dict[int, Any]:
    """A number for each value: the same one for results of the same op on values with the same numbers."""
    numbers: dict[int, Any] = {}
    known: dict[Any, int] = {}
    for node in nodes:
        key = (node.op.name, tuple([numbers.get(uid, ("input", uid)) for uid in node.inputs]), node.shapes)
        number = known.setdefault(key, len(known))
        numbers.update({uid: (number, i) for i, uid in enumerate(node.outputs)})
    return numbers


def _unused(case: Case) -> Explanation:
    uses, target = _uses(case), case.target
    if uses:
        text, plural = (f"{uses} op{'s' if uses > 1 else ''} used {{}}, but not to compute {target}." for _ in range(2))
        text, plural = text.format(case.name), f"Recorded ops used them, but not to compute {target}."
    else:
        text, plural = f"{case.name} is watched, but no recorded op used it.", "No recorded op used them."
        if threading.active_count() > 1:
            text, plural = (f"{each} Ops that ran in another thread are not recorded." for each in (text, plural))
    fix = (
        "If that is intended, unconnected_gradients='zero' returns zeros instead of None. If not, check where "
        f"{target} should have used "
    )
    return case.no(Reason.UNRELATED, text, f"{fix}it.", plural=(plural, f"{fix}them."))


def _uses(case: Case) -> int:
    """The number of recorded ops that used the source."""
    return len({node.outputs for node, _ in case.facts.consumers.get(case.uid, ())})
