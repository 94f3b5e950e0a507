"""Find the reason: the first of several kinds that applies."""

from __future__ import annotations

import threading

from gradtape._src.autodiff.arguments import array_of
from gradtape._src.dtypes import dtype_of
from gradtape._src.inspect.explain.case import Case
from gradtape._src.inspect.explain.ends import reason_of_dtypes, reason_of_order, reason_of_source, reason_of_target
from gradtape._src.inspect.explain.escapes import reason_of_escapes, reason_of_predict
from gradtape._src.inspect.explain.explanation import Explanation, Reason
from gradtape._src.inspect.explain.paths import connected, reason_on_path
from gradtape._src.inspect.source import shown
from gradtape._src.tensor import is_differentiable


def find_reason(case: Case) -> Explanation:
    """Whether and how the source is connected to the target, and if not, why."""
    facts = case.facts
    if not facts.log:
        return case.no(
            Reason.NEVER_ENTERED,
            "The tape was never opened, so it recorded nothing.",
            "Compute the target inside `with tf.GradientTape() as tape:`.",
        )
    if case.uid in case.uids:
        return connected(case, [])
    known = not facts.live and case.is_same_call and case.uid in facts.sources
    if known and case.uid not in facts.tape._unconnected:
        return connected(case, facts.path(case.uid, case.uids, differentiable=True) if facts.complete else None)
    path = facts.path(case.uid, case.uids, differentiable=True) if case.tracked else None
    if path is not None and all(is_differentiable(array_of(t)) for t in case.targets):
        return connected(case, path)
    whole = facts.path(case.uid, case.uids, differentiable=False)
    found = reason_on_path(case, whole) or reason_of_order(case) or reason_of_dtypes(case)
    found = found or reason_of_predict(case) or reason_of_target(case) or reason_of_source(case)
    if found is not None:
        return found
    if not facts.complete and not known and case.tracked:
        return _unknown(case)
    return reason_of_escapes(case) or _unrelated(case)


def _unknown(case: Case) -> Explanation:
    where = case.facts.tape._used_at
    return Explanation(
        case.name,
        None,
        Reason.USED_UP,
        f"Another gradient call at {shown(where)} used up the tape and freed its records.",
        "Call explain before it, or create the tape with persistent=True or lines=True.",
        [],
        where,
    )


def _unrelated(case: Case) -> Explanation:
    facts = case.facts
    uses = len({node.outputs for node, _ in facts.consumers.get(case.uid, ())})
    other = [e for e in facts.log if e.what == "watch" and e.uid == case.uid]
    began = next((e for e in facts.log if e.what == "start"), None)
    if other and began is not None and other[-1].thread != began.thread:
        return case.no(
            Reason.OTHER_THREAD,
            f"{case.name} was watched in another thread than the one that opened the tape, which is the only one it "
            "records.",
            "Open a tape in the thread that computes.",
        )
    late = bool(other) and not any(uid > other[0].when for uid in case.uids)
    if late:
        return case.no(
            Reason.WATCHED_LATE,
            f"{case.target} was computed before tape.watch({case.name}) was called.",
            "Call tape.watch before the first op that should be recorded.",
        )
    if not uses:
        text = f"{case.name} is watched, but no recorded op used it."
        if threading.active_count() > 1:
            text += " Ops that ran in another thread are not recorded."
    else:
        text = f"{uses} op{'s' if uses > 1 else ''} used {case.name}, but not to compute {case.target}."
    if not is_differentiable(array_of(case.targets[0])):
        return case.no(Reason.DTYPE, f"{case.target} is {dtype_of(array_of(case.targets[0])).name}.")
    return case.no(
        Reason.UNRELATED,
        text,
        "If that is intended, unconnected_gradients='zero' returns zeros instead of None. If not, check where "
        f"{case.target} should have used it.",
    )
