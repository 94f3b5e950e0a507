"""Find the reason: the first of several kinds that applies."""

from __future__ import annotations

from gradtape._src.autodiff.arguments import array_of
from gradtape._src.inspect.explain.calls import reason_in_call
from gradtape._src.inspect.explain.case import Case
from gradtape._src.inspect.explain.ends import reason_of_dtypes, reason_of_order, reason_of_source, reason_of_target
from gradtape._src.inspect.explain.escapes import reason_of_escapes, reason_of_predict
from gradtape._src.inspect.explain.explanation import Explanation, Reason
from gradtape._src.inspect.explain.paths import connected, reason_on_path
from gradtape._src.inspect.explain.unused import unrelated
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
    return reason_in_call(case) or reason_of_escapes(case) or unrelated(case)


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
