"""Values between source and target that were computed too early for the tape, found by reading the program."""

from __future__ import annotations

from gradtape._src.call_sites import Line
from gradtape._src.inspect.explain.case import Case
from gradtape._src.inspect.explain.explanation import Explanation, Reason
from gradtape._src.inspect.source import assignments, leads, lineage, statement_at
from gradtape._src.tensor import Tensor


def before_tape(case: Case) -> Explanation | None:
    """A value between source and target was computed before the tape began."""
    early = early_value(case, 0, case.facts.began)
    if early is None:
        return None
    name, where = early
    return case.no(
        Reason.BEFORE_TAPE,
        f"{name}, from which {case.target} is computed, was computed before the tape's block began.",
        f"Move `{statement_at(where) or name}` into the block.",
        where=where,
    )


def early_value(case: Case, first: int, end: int) -> tuple[str, Line | None] | None:
    """A name between source and target whose value was computed in an interval of time, and the line of that."""
    facts, frame = case.facts, case.frame
    if frame is None or case.target == "the target":
        return None
    behind, _ = facts.behind(case.uids)
    scope = {**frame.f_globals, **frame.f_locals}
    found = None
    for name in lineage(case.target, frame):
        value = scope.get(name)
        if type(value) is not Tensor or not first <= value.uid < end or value.uid in facts.tracked:
            continue
        if value is case.source or (facts.logged and value.uid not in behind):
            continue
        if leads(name, case.python, case.source, frame):
            found = name, assignments(name, frame)[0][0]
    return found


def named_before(case: Case) -> set[int]:
    """The tensors that the program names and computes the target from, as far as its assignments tell."""
    if case.frame is None:
        return set()
    scope = {**case.frame.f_globals, **case.frame.f_locals}
    values = [scope.get(name) for name in lineage(case.target, case.frame)]
    return {value.uid for value in values if type(value) is Tensor and value.uid < case.made}
