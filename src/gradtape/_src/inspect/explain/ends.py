"""Reasons in the source or the target alone: dtypes, and what the tape watched and when."""

from __future__ import annotations

import ast
from typing import Any

from gradtape._src.autodiff.arguments import array_of
from gradtape._src.call_sites import Line
from gradtape._src.inspect.explain.case import Case, given_name
from gradtape._src.inspect.explain.early import before_tape
from gradtape._src.inspect.explain.escapes import branch_only, reason_of_pauses
from gradtape._src.inspect.explain.explanation import Explanation, Reason
from gradtape._src.inspect.explain.paths import unrecorded
from gradtape._src.inspect.source import assignments, made_variable, name_of, rebinding, shown
from gradtape._src.tensor import is_differentiable
from gradtape._src.variable import Variable


def reason_of_order(case: Case) -> Explanation | None:
    """The source was computed from the target: the arguments are in the wrong order."""
    if not any(uid in case.facts.roots or uid in case.facts.variables for uid in case.uids):
        return None  # two results, one of which precedes the other, are not in the wrong order
    if not any(case.facts.path(uid, [case.uid], differentiable=True) for uid in case.uids):
        return None
    single = len(case.targets) == 1 and case.target != "the target" and "/" not in case.target
    sources = case.target if single else "…"
    return case.no(
        Reason.SWAPPED,
        f"{case.name} was computed from {case.target}, not the other way around.",
        f"Did you swap target and sources? gradient(target, sources): tape.gradient({case.python or 'y'}, {sources}).",
    )


def reason_of_dtypes(case: Case) -> Explanation | None:
    if not is_differentiable(array_of(case.source)):
        return _without_derivatives(case)
    odd = [t for t in case.targets if not is_differentiable(array_of(t))]
    if odd and len(odd) == len(case.targets):
        return case.no(
            Reason.DTYPE,
            f"{case.target} is {odd[0].dtype.name}: it has no derivative with respect to anything.",
            "Make the target floating-point; look for the first op that returns integers or booleans.",
        )
    return None


def _without_derivatives(case: Case) -> Explanation:
    dtype, name = case.source.dtype.name, case.python
    if dtype == "string":
        fix = fixes = "Differentiate with respect to the numbers that are computed from the text."
    else:
        cast = f"{name or 'x'} = tf.cast({name or 'x'}, tf.float32)"
        fix, fixes = (
            f"Create it as a float: 3.0 instead of 3, or {each} before the tape. Indices and labels have no "
            "derivative: differentiate with respect to what they select, such as the result of an embedding."
            for each in (cast, "tf.cast(x, tf.float32)")
        )
    why = f"is {dtype}: only floating and complex values have derivatives."
    return case.no(Reason.DTYPE, f"{case.name} {why}", fix, plural=(f"Each {why}", fixes))


def reason_of_target(case: Case) -> Explanation | None:
    """The target was not recorded by the tape."""
    facts = case.facts
    if any(uid in facts.tracked or (uid in facts.producer and facts.producer[uid].recorded) for uid in case.uids):
        return None
    if facts.live is False and not facts.tracked and not facts.log:
        return None
    if all(isinstance(t, Variable) for t in case.targets):
        if not case.tracked:
            return None
        made = facts.made_from(case.uid) if case.tracked else set()
        return branch_only(case, [e for e in facts.events if e.what == "bool()" and e.uid in made]) or case.no(
            Reason.STATE,
            f"{case.target} is a variable: it holds a value, but not how it was computed.",
            "Differentiate the tensor that was assigned to it.",
        )
    state = facts.state_at(case.made)
    if any(uid in summary.tracked for summary in facts.discarded for uid in case.uids):
        where = next((e.where for e in facts.log if e.what == "reset" and e.when > case.made), None)
        return unrecorded(case, Reason.RESET, where, None)
    if state is None:
        return case.no(
            Reason.BEFORE_TAPE,
            f"{case.target} was computed before the tape's `with` block began.",
            "Move the computation into the block.",
        )
    if state.what == "pause":
        return unrecorded(case, Reason.PAUSED, state.where, None)
    if state.what == "stop_recording":
        return unrecorded(case, Reason.STOP_RECORDING, state.where, None)
    if state.what == "exit":
        return after_tape(case)
    return None


def after_tape(case: Case) -> Explanation:
    gradient = next((a for a in map(case.facts.answer_with, case.uids) if a is not None), None)
    if gradient is not None:
        method, where = gradient
        return case.no(
            Reason.AFTER_TAPE,
            f"{case.target} is the result of .{method}() of another tape at {shown(where)}, after this tape had "
            "stopped recording: it recorded the function, but not its derivative.",
            f"Call .{method}() of the inner tape inside the outer tape's block.",
            where=where,
        )
    return case.no(
        Reason.AFTER_TAPE,
        f"{case.target} was computed after the tape's `with` block had ended.",
        "Indent the computation (the loss, too) into the block.",
    )


# -- the source --------------------------------------------------------------------------------------------------------
def reason_of_source(case: Case) -> Explanation | None:
    """The tape does not watch the source."""
    facts, name = case.facts, case.name
    if case.tracked:
        return None
    if case.uid > case.made and case.uid not in facts.producer and case.uids:
        return _created_late(case)
    if any(case.uid in summary.tracked for summary in facts.discarded):
        reset = [e for e in facts.log if e.what == "reset"][-1]
        return case.no(
            Reason.RESET,
            f"tape.reset() at {shown(reset.where)} removed the watch on {name}, and it was not watched again.",
            f"Call tape.watch({name}) or read it again after reset().",
            where=reset.where,
        )
    return _empty_watch(case) or (_variable_not_watched(case) if case.is_variable else _tensor_not_watched(case))


def _created_late(case: Case) -> Explanation:
    """The source did not exist yet when the target was computed."""
    name, target = case.name, case.target
    bound = assignments(case.python, case.frame) if case.python else []
    if len(bound) != 1 or case.is_variable:
        return case.no(
            Reason.SAME_NAME,
            f"This {name} was created after {target} was computed; a different object was used there.",
            f"Keep the object that was used in the computation, and create {name} only once.",
            where=bound[-1][0] if len(bound) > 1 else None,
        )
    where, value = bound[0]
    fix = f"Compute {name} in the block, and {target} from it."
    if isinstance(value, ast.Subscript):
        whole = ast.unparse(value.value)
        part = ast.unparse(value).removeprefix(whole)
        fix = f"Slice the gradient instead: tape.gradient({target}, {whole}){part}."
    return case.no(
        Reason.CREATED_LATE,
        f"{name} was created after {target} was computed, so {target} does not depend on it.",
        fix,
        where=where,
    )


def _empty_watch(case: Case) -> Explanation | None:
    facts = case.facts
    watched_automatically = case.is_variable and case.source.trainable and facts.tape._watch_accessed
    empty = next((e for e in facts.log if e.what == "watched nothing"), None)
    if empty is not None and not watched_automatically:
        return case.no(
            Reason.WATCHED_EMPTY,
            f"tape.watch at {shown(empty.where)} was given an empty structure: a layer has "
            "no variables before it is built.",
            "Call the layer once (or .build(shape)) before you use its variables.",
            where=empty.where,
        )
    return None


def _variable_not_watched(case: Case) -> Explanation:
    facts, name = case.facts, case.name
    if not case.source.trainable:
        return case.no(
            Reason.NOT_TRAINABLE,
            f"{name} was created with trainable=False; tapes watch only trainable variables.",
            f"Call tape.watch({case.python or 'variable'}) in the block, or create it with trainable=True.",
            plural=(
                "They were created with trainable=False; tapes watch only trainable variables.",
                "Call tape.watch(variables) in the block, or create them with trainable=True.",
            ),
        )
    if not facts.tape._watch_accessed:
        return case.no(
            Reason.NOT_WATCHED,
            f"The tape was created with watch_accessed_variables=False, and {name} was not watched.",
            f"Call tape.watch({case.python or 'variable'}) at the beginning of the block.",
            plural=(
                "The tape was created with watch_accessed_variables=False, and they were not watched.",
                "Call tape.watch(variables) at the beginning of the block.",
            ),
        )
    return _variable_not_read(case)


def _tensor_not_watched(case: Case) -> Explanation:
    name = case.name
    where = _rebound(case)
    if where is not None:
        return case.no(
            Reason.REPLACED_BY_TENSOR,
            f"{name} was a tf.Variable until {shown(where)} bound the name to a tensor: ops return tensors, which "
            "tapes do not watch automatically.",
            f"Change the variable in place: {name}.assign(…), .assign_add(…) or .assign_sub(…).",
            where=where,
        )
    watch = f"tape.watch({case.python or 'tensor'})"
    path = case.facts.path(case.uid, case.uids, differentiable=False)
    return case.no(
        Reason.NOT_WATCHED,
        f"{name} is a tensor; tapes watch only trainable variables automatically.",
        f"Call {watch} at the beginning of the block, or make it a tf.Variable.",
        path=path or (),
    )


def _rebound(case: Case) -> Line | None:
    """Where this frame, or one of its callers, has `x = x + 1` for what was a variable."""
    frame, depth = case.frame, 0
    while frame is not None and depth < 10:
        name = name_of(case.source, frame)
        found = rebinding(name, frame) if name is not None else None
        if found is not None and (found[1] or _was_a_variable(case, name or "")):
            return found[0]
        frame, depth = frame.f_back, depth + 1
    return None


def _was_a_variable(case: Case, name: str) -> bool:
    """Whether a variable with this name was created: `case.w`, with the name "w"."""
    tail = name.rpartition(".")[2]
    return tail != name and any(made_variable(tail, case.frame))


def _variable_not_read(case: Case) -> Explanation:
    facts = case.facts
    missed = _missed_read(case)
    if missed is not None:
        return missed
    other = next((v for v in facts.variables.values() if v.name == case.source.name and v.uid != case.uid), None)
    if other is not None and case.source.name != "Variable:0":
        return case.no(
            Reason.SAME_NAME,
            f"The tape watched another variable that is also called '{other.name}': a copy, or the model before it "
            "was rebuilt.",
            "Use the variable of the model that computed the target.",
        )
    found = before_tape(case) or reason_of_pauses(case) or reason_of_pauses(case, guess=True)
    if found is not None:
        return found
    return _never_read(case)


def _never_read(case: Case) -> Explanation:
    """No op read the variable: its layer or model may not have been called."""
    name, target, read = case.name, case.target, list(case.facts.variables.values())
    names = [name_of(v, case.frame) or given_name(v) for v in read]
    watched = _listed([each for each in names if each], len(read))
    others = f"; the tape watched {watched}" if watched else ""
    owner = _owner_not_called(case.source, read)
    if owner:
        others = f": '{owner}' was not called{others}"
        fix = fixes = (
            f"Call '{owner}' inside the block, in what {target} is computed from, or differentiate with respect to "
            "what was called."
        )
    else:
        fix, fixes = (f"Use {each} inside the block, in what {target} is computed from." for each in (name, "them"))
    return case.no(
        Reason.NEVER_READ,
        f"No op read {name} while the tape was recording{others}.",
        fix,
        plural=(f"No op read them while the tape was recording{others}.", fixes),
    )


def _listed(names: list[str], count: int) -> str:
    """The first names and the number of the others: `a, b and 3 others`."""
    if not count:
        return ""
    shown_names, rest = names[:2], count - len(names[:2])
    if not shown_names:
        return f"{count} other variable{'s' if count > 1 else ''}"
    if not rest:
        return "only " + " and ".join(shown_names)
    return f"{', '.join(shown_names)} and {rest} other{'s' if rest > 1 else ''}"


def _owner_not_called(source: Any, read: list[Any]) -> str:
    """The layer or model of a variable, by its name, of which no variable was read; empty if there is none.

    Of `model/aux/kernel`, this is `model/aux` if another variable of `model` was read.
    """
    parts = given_name(source).split("/")[:-1]
    found = {given_name(v) for v in read}
    for length in range(1, len(parts) + 1):
        owner = "/".join(parts[:length])
        if not any(name.startswith(f"{owner}/") for name in found):
            return owner
    return ""


def _missed_read(case: Case) -> Explanation | None:
    """The variable was read while the tape did not record."""
    facts, name = case.facts, case.name
    for when, _, thread, label in reversed(facts.missed_readings(case.uid)):
        state = facts.state_at(when)
        if state is None or when > case.made:
            continue
        if state.what in ("pause", "stop_recording"):
            reason = Reason.PAUSED if state.what == "pause" else Reason.STOP_RECORDING
            how = "while the tape was paused" if state.what == "pause" else "inside tape.stop_recording()"
            return case.no(
                reason,
                f"{name} was read only {how} (from {shown(state.where)}), so the tape did not record it.",
                "Move the computation that should be differentiated out of there.",
                where=state.where,
            )
        if state.what == "start" and state.thread != thread:
            return case.no(
                Reason.OTHER_THREAD,
                f"{name} was read in thread '{label}'; the tape records only the thread that opened it.",
                "Open a tape in each thread, or pass the context on: pool.submit(contextvars.copy_context().run, "
                "f, …).",
            )
        if state.what == "start":
            return case.no(
                Reason.STOP_RECORDING,
                f"{name} was read where nothing is recorded: in a function of a dataset, in tf.init_scope, or in "
                "another asyncio task.",
                "Compute inside the tape's block; there, do what the dataset's function does with each batch.",
            )
    return None
