"""`tape.explain(target, sources)`: why a source has a gradient, or has none, and what to do about it."""

from __future__ import annotations

import html
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise
from types import FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src import nest
from gradtape._src.autodiff.arguments import array_of, check_differentiable, components, leaves
from gradtape._src.autodiff.settings import settings
from gradtape._src.call_sites import Line, user_frame
from gradtape._src.core.primitive import registry
from gradtape._src.dtypes import dtype_of
from gradtape._src.inspect.events import Facts, Node
from gradtape._src.inspect.source import (
    assignments,
    built_from,
    calls_at,
    made_variable,
    name_of,
    rebinding,
    shown,
    statement_at,
)
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape


class Reason(Enum):
    """Why a gradient is None."""

    NOT_WATCHED = "the tape was not told to follow it"
    NOT_TRAINABLE = "the variable is not trainable"
    WATCHED_LATE = "it was watched after it was used"
    WATCHED_EMPTY = "watch() was given nothing to watch"
    BEFORE_TAPE = "computed before the tape began to record"
    AFTER_TAPE = "computed after the tape had stopped recording"
    REPLACED_BY_TENSOR = "the variable was replaced by a tensor"
    LEFT_LIBRARY = "the value left the library"
    DTYPE = "the dtype has no derivatives"
    CAST_THROUGH_DTYPE = "cast to a dtype without derivatives"
    STATE = "stored in a variable: state has no history"
    STOP_GRADIENT = "stopped by tf.stop_gradient"
    STOP_RECORDING = "computed inside stop_recording()"
    PAUSED = "computed while the tape was paused"
    RESET = "forgotten by reset()"
    NON_DIFFERENTIABLE_OP = "an op without a derivative"
    CUSTOM_GRADIENT = "a custom gradient returned None"
    BRANCH_ONLY = "only a Python branch depended on it"
    SAME_NAME = "another object of the same name was used"
    OTHER_THREAD = "computed in another thread"
    USED_UP = "the tape is used up"
    NEVER_ENTERED = "the tape was never entered"
    NEVER_READ = "the variable was never read"
    UNRELATED = "the target does not depend on it"


class NoneGradientWarning(UserWarning):
    """A gradient is None, under `config.set_none_policy("warn")`."""


class Step(NamedTuple):
    """One op on the way from a source to a target."""

    op: str
    shape: tuple[int, ...] | None
    where: Line | None

    def __str__(self) -> str:
        shape = "" if self.shape is None else f" {self.shape}"
        return f"{self.op}{shape}"


@dataclass(frozen=True)
class Explanation:
    """Whether and how one source reaches the target, and if not, why.

    `connected` is None where nobody can know any more: the tape was used up by another question.
    """

    source: str
    connected: bool | None
    reason: Reason | None
    message: str
    fix: str = ""
    path: list[Step] = field(default_factory=list)
    where: Line | None = None
    certain: bool = True
    notes: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """One line: what is the matter with which source."""
        if self.reason is None:
            return f"{self.source}: connected to the target"
        answer = {True: "connected, but", False: "no gradient:", None: "not known:"}[self.connected]
        return f"{self.source}: {answer} {self.reason.value}"

    @property
    def one_line(self) -> str:
        """Reason, message and fix in one line, for warnings."""
        return " ".join(part for part in (f"{self.headline}.", self.message, self.fix) if part)

    def _rows(self) -> Iterator[tuple[str, str]]:
        if self.path:
            yield "path", " → ".join([self.source, *map(str, self._shortened())])
            seen: set[Line] = set()
            for step in self.path[:12]:
                if step.where is not None and step.where not in seen:
                    seen.add(step.where)
                    yield "", f"{shown(step.where)}  {statement_at(step.where)}".rstrip()
        if self.message:
            yield ("why" if self.reason is not None else ""), self.message
        if self.where is not None and (text := statement_at(self.where)):
            yield "line", f"{shown(self.where)}  {text}"
        if self.fix:
            yield "fix", self.fix
        for note in self.notes:
            yield "note", note

    def _shortened(self) -> list[Any]:
        if len(self.path) <= 12:
            return list(self.path)
        return [*self.path[:6], f"… {len(self.path) - 11} more ops …", *self.path[-5:]]

    def __str__(self) -> str:
        lines = [self.headline]
        for label, text in self._rows():
            head = f"  {label + ':' if label else '':<6}"
            lines.extend(
                textwrap.wrap(text, 100, initial_indent=head, subsequent_indent=" " * 8, break_on_hyphens=False)
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = "#2e7d32" if self.reason is None else "#b26a00" if self.connected else "#c62828"
        rows = "".join(
            f"<tr><td style='text-align:left;vertical-align:top;opacity:.6;padding:1px 8px'>{html.escape(label)}</td>"
            f"<td style='text-align:left;padding:1px 8px'>{html.escape(text)}</td></tr>"
            for label, text in self._rows()
        )
        return (
            f"<div style='border-left:4px solid {colour};padding:4px 10px;margin:4px 0;font-size:13px'>"
            f"<b>{html.escape(self.headline)}</b><table style='border:0;margin:2px 0'>{rows}</table></div>"
        )


class Explanations:
    """The explanations of several sources: iterate over them, or index as the sources are indexed.

    >>> import gradtape as tf
    >>> w = {"a": tf.Variable(1.0, name="a"), "b": tf.Variable(2.0, name="b")}
    >>> with tf.GradientTape() as tape:
    ...     y = w["a"] * 3.0
    >>> found = tape.explain(y, w)
    >>> found["a"].connected, found["b"].reason
    (True, <Reason.NEVER_READ: 'the variable was never read'>)
    """

    def __init__(self, flat: list[Explanation], structure: Any) -> None:
        self.flat = flat
        self.structure = nest.pack_sequence_as(structure, flat)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.flat)

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, key: Any) -> Any:
        return self.structure[key]

    @property
    def missing(self) -> list[Explanation]:
        """Those that have a reason to be explained."""
        return [e for e in self.flat if e.reason is not None]

    def __str__(self) -> str:
        found = [e for e in self.flat if e.reason is None]
        lines = [str(e) for e in self.missing]
        if found:
            names = ", ".join(e.source for e in found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
            lines.append(f"{len(found)} of {len(self.flat)} connected: {names}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(e._repr_html_() for e in self.flat)


# -- the question ----------------------------------------------------------------------------------------------------
def explain(tape: Tape, target: Any, sources: Any) -> Any:
    """See `GradientTape.explain`."""
    flat = leaves(sources)
    targets = [part for leaf in leaves(target) for part in components(leaf)]
    check_differentiable("target", targets)
    check_differentiable("sources", flat)
    found = explained(tape, targets, flat, _asking_frame())
    return found[0] if isinstance(sources, type(flat[0])) and len(flat) == 1 else Explanations(found, sources)


def _asking_frame() -> FrameType | None:
    """The frame whose names are used; a helper that hides itself from tracebacks hides from here, too."""
    frame = user_frame()
    while frame is not None and frame.f_locals.get("__tracebackhide__") and frame.f_back is not None:
        frame = frame.f_back
    return frame


def explained(tape: Tape, targets: list[Any], sources: list[Any], frame: FrameType | None) -> list[Explanation]:
    """The explanations of sources, read from this frame's names."""
    facts = Facts(tape)
    return [_Case(facts, targets, source, frame, i).explain() for i, source in enumerate(sources)]


def report(tape: Tape, method: str, targets: list[Any], sources: list[Any], lost: list[Any]) -> None:
    """What happens to a None under the policies "warn" and "raise"."""
    frame = user_frame()
    asker: FrameType | None = sys._getframe(1)
    level = 1
    while asker is not None and asker is not frame:
        module = str(asker.f_globals.get("__name__", ""))
        if module in ("gradtape._src.autodiff.custom_gradient", "gradtape._src.autodiff.directional"):
            return  # the library's own question: recompute_grad asks for all arguments, hessian for all blocks
        asker, level = asker.f_back, level + 1
    found = explained(tape, targets, lost, frame)
    if policy() == "raise":
        several = "" if len(found) == 1 else f" for {len(found)} of {len(sources)} sources"
        text = "\n".join(map(str, found))
        raise ValueError(f"GradientTape.{method} has no gradient{several} (the none policy is 'raise').\n{text}")
    for explanation in found:
        warnings.warn(f"GradientTape.{method}: {explanation.one_line}", NoneGradientWarning, stacklevel=level + 1)


# -- the policy ------------------------------------------------------------------------------------------------------
def policy() -> str:
    """What happens when a gradient is None: "none", "warn" or "raise"."""
    return settings.none_policy


def set_policy(value: str) -> None:
    """Say what happens when a gradient is None."""
    if value not in ("none", "warn", "raise"):
        raise ValueError(f"Unknown none policy: {value!r}. Use 'none' (TensorFlow's silence), 'warn' or 'raise'.")
    settings.none_policy = value


# -- one source ------------------------------------------------------------------------------------------------------
class _Case:
    """One source and the targets: which of the reasons is it?"""

    def __init__(self, facts: Facts, targets: list[Any], source: Any, frame: FrameType | None, index: int) -> None:
        self.facts, self.targets, self.source, self.frame = facts, targets, source, frame
        self.uids = [t.uid for t in targets]
        self.uid = source.uid
        self.is_variable = isinstance(source, Variable)
        python = name_of(source, frame)
        self.python = python or ""
        given = source.name.removesuffix(":0") if self.is_variable else ""
        self.name = python or (given if given not in ("", "Variable") else f"source {index}")
        if self.is_variable and given not in ("", "Variable", "UnreadVariable") and python and python != given:
            self.name = f"{python} ('{given}')"
        self.target = name_of(targets[0], frame) or "the target" if targets else "the target"
        self.tracked = self.uid in facts.tracked
        self.same_question = sorted(facts.tape._targets) == sorted(self.uids)  # as the last one that was answered
        self.made = max(self.uids, default=0)  # when the (last) target was computed
        if any(isinstance(t, Variable) for t in targets):
            self.made = sys.maxsize  # a variable is what it is now

    # -- saying it ---------------------------------------------------------------------------------------------------
    def no(
        self,
        reason: Reason,
        message: str,
        fix: str = "",
        *,
        where: Line | None = None,
        certain: bool = True,
        path: Iterable[tuple[Node, int]] = (),
    ) -> Explanation:
        notes = [] if certain else [_LIKELY]
        return Explanation(
            self.name, False, reason, message, fix, [self._step(n) for n, _ in path], where, certain, tuple(notes)
        )

    def _step(self, node: Node) -> Step:
        shape = node.shapes[0] if node.shapes else self.facts.tracked.get(node.outputs[0])
        return Step(shown_op(node.op), shape, node.where)

    def _yes(self, path: list[tuple[Node, int]] | None) -> Explanation:
        facts, tape = self.facts, self.facts.tape
        notes = []
        shapes = [tuple(array_of(t).shape) for t in self.targets]
        if any(shapes):
            shape = next(s for s in shapes if s)
            notes.append(f"{self.target} has shape {shape}: gradient() is of the sum of its elements.")
        if len(self.targets) > 1:
            notes.append(f"{len(self.targets)} targets: gradient() is of the sum of all of them.")
        silent = [i for i, (node, _) in enumerate(path or ()) if node.op.vjp_all is not None]
        if path and silent and self.uid in tape._unconnected and self.same_question:
            return self._refused(path[: silent[0] + 1])
        reason, message, fix, where = None, "", "", None
        if path is not None:
            count = len(path)
            message = f"{count} ops lead" if count > 1 else "One op leads"
            message += f" from {self.name} to {self.target}."
            if not count:
                message = f"{self.name} is the target itself."
        elif not facts.live:
            message = "The gradient reached it; the ops on the way are freed."
        if not facts.live:
            where = tape._used_at
            if self.same_question:
                notes.append(f"The tape was used up at {shown(where)}; persistent=True lets it answer more than once.")
                where = None
            else:
                reason = Reason.USED_UP
                message += f" The tape answered another question at {shown(where)}, and a plain tape answers one."
                fix = "Create it with tf.GradientTape(persistent=True), or ask for all gradients in one call."
        steps = [self._step(n) for n, _ in path or ()]
        return Explanation(self.name, True, reason, message.strip(), fix, steps, where, True, tuple(notes))

    def _refused(self, path: list[tuple[Node, int]]) -> Explanation:
        """An op with a rule for all its inputs had none for this one."""
        node, position = path[-1]
        if node.op.name != "custom_gradient":
            return self._blocked(node, position, path)
        return self.no(
            Reason.CUSTOM_GRADIENT,
            "The path leads through a function with @tf.custom_gradient, whose gradient "
            "function gave None for this input.",
            "Return the upstream gradient times the derivative for every input that should learn.",
            path=path,
            where=node.where,
        )

    # -- finding it --------------------------------------------------------------------------------------------------
    def explain(self) -> Explanation:
        facts = self.facts
        if not facts.log:
            return self.no(
                Reason.NEVER_ENTERED,
                "The tape was never opened, so it recorded nothing.",
                "Compute the target inside `with tf.GradientTape() as tape:`.",
            )
        if self.uid in self.uids:
            return self._yes([])
        answered = not facts.live and self.same_question and self.uid in facts.sources
        if answered and self.uid not in facts.tape._unconnected:
            return self._yes(facts.path(self.uid, self.uids, differentiable=True) if facts.complete else None)
        path = facts.path(self.uid, self.uids, differentiable=True) if self.tracked else None
        if path is not None and all(is_differentiable(array_of(t)) for t in self.targets):
            return self._yes(path)
        whole = facts.path(self.uid, self.uids, differentiable=False)
        for finding in (self._of_the_path(whole), self._of_dtypes(), self._of_the_target(), self._of_the_source()):
            if finding is not None:
                return finding
        if not facts.complete and not answered and self.tracked:
            return self._unknown()
        return self._of_the_ends() or self._unrelated()

    def _unknown(self) -> Explanation:
        where = self.facts.tape._used_at
        return Explanation(
            self.name,
            None,
            Reason.USED_UP,
            f"Another question used the tape up at {shown(where)}, and what it passed was freed.",
            "Ask before, or create the tape with persistent=True or lines=True.",
            [],
            where,
        )

    # -- reasons on a path that is known -----------------------------------------------------------------------------
    def _of_the_path(self, path: list[tuple[Node, int]] | None) -> Explanation | None:
        """There is a chain of ops, and somewhere on it the derivative ends."""
        if not path:
            return None
        if not is_differentiable(array_of(self.source)):
            return None
        facts, uid = self.facts, self.uid
        for i, (node, position) in enumerate(path):
            if not node.carries(position) or not node.op.differentiable:
                return self._blocked(node, position, path[: i + 1], path)
            if not node.recorded:
                state = facts.state_at(node.outputs[0])
                told = {"pause": Reason.PAUSED, "stop_recording": Reason.STOP_RECORDING, "reset": Reason.RESET}
                if state is not None and state.what in told:
                    return self._unrecorded(told[state.what], state.where, node, path[: i + 1])
                if uid in facts.tracked and any(e.what == "watch" and e.uid == uid for e in facts.log):
                    return self.no(
                        Reason.WATCHED_LATE,
                        f"{shown_op(node.op)} used {self.name} before tape.watch was called.",
                        "Call tape.watch before the first op that should be followed.",
                        where=node.where,
                        path=path,
                    )
                return None  # something else was not followed, and is found out below
            uid = node.outputs[0]
        return None

    def _unrecorded(self, reason: Reason, where: Line | None, node: Node | None, path: Any = ()) -> Explanation:
        what = f"{shown_op(node.op)} ran" if node is not None else f"{self.target} was computed"
        how = {
            Reason.PAUSED: "while the tape was paused",
            Reason.STOP_RECORDING: "inside tape.stop_recording()",
            Reason.RESET: "before tape.reset()",
        }[reason]
        fix = {
            Reason.PAUSED: "Call tape.resume() before the ops that should be differentiated.",
            Reason.STOP_RECORDING: "Move what should be differentiated out of the stop_recording block.",
            Reason.RESET: "Compute and watch again after reset(), or leave reset() out.",
        }[reason]
        line = f" (from {shown(where)})" if where is not None else ""
        return self.no(reason, f"{what} {how}{line}: the tape has no record of it.", fix, where=where, path=path)

    def _blocked(self, node: Node, position: int, path: Any, whole: Any = None, certain: bool = True) -> Explanation:
        """The derivative ends at this op, or before it where the path leaves an op by integers."""
        for i, (earlier, following) in enumerate(pairwise(path)):
            if _leaves_by_positions(earlier[0], *following):
                return self.no(
                    Reason.NON_DIFFERENTIABLE_OP,
                    f"The positions that {shown_op(earlier[0].op)} gives with its values have no derivative.",
                    "Use the values, or weights in place of positions: tf.nn.softmax(k * x).",
                    where=earlier[0].where,
                    path=path[: i + 1],
                    certain=certain,
                )
        op, name = node.op, shown_op(node.op)
        if node.where is None and whole:
            where = next((n.where for n, _ in path if n.where is not None), None)
        else:
            where = node.where
        if op.name == "stop_gradient":
            return self.no(
                Reason.STOP_GRADIENT,
                "tf.stop_gradient makes a constant of what goes through it.",
                "Leave it out where the gradient is wanted.",
                where=where,
                path=path,
                certain=certain,
            )
        if op.name == "discrete_cast":
            return self.no(
                Reason.CAST_THROUGH_DTYPE,
                f"A cast to {dtype_of_numpy(node.dtype)} ends every derivative, also when it is cast back later.",
                "Stay in a floating dtype (tf.cast(x, tf.float32)); to round and still learn, use "
                "tf.grad_pass_through(tf.round)(x).",
                where=where,
                path=path,
                certain=certain,
            )
        if op.name == "numpy_function":
            return self.no(
                Reason.LEFT_LIBRARY,
                "tf.numpy_function computes in NumPy, where tapes cannot look.",
                "Use tf.py_function, or write it with tf functions.",
                where=where,
                path=path,
                certain=certain,
            )
        if op.differentiable:
            arg = op.args[position] if position < len(op.args) else "this input"
            return self.no(
                Reason.NON_DIFFERENTIABLE_OP,
                f"{name} has no derivative with respect to its {arg}.",
                INSTEAD.get(arg, "Use an op that is smooth in this input."),
                where=where,
                path=path,
                certain=certain,
            )
        return self.no(
            Reason.NON_DIFFERENTIABLE_OP,
            f"{name} is constant almost everywhere: it has no derivative.",
            op.instead or "Use an op that is smooth in its input, or give it a gradient by tf.custom_gradient.",
            where=where,
            path=path,
            certain=certain,
        )

    # -- reasons in the source and the target alone ------------------------------------------------------------------
    def _of_dtypes(self) -> Explanation | None:
        if not is_differentiable(array_of(self.source)):
            dtype = self.source.dtype.name
            return self.no(
                Reason.DTYPE,
                f"{self.name} is {dtype}: only floating and complex values have derivatives.",
                "Create it as a float: 3.0 in place of 3, or tf.cast(x, tf.float32) before the tape."
                if dtype != "string"
                else "Differentiate with respect to the numbers that are made from the text.",
            )
        odd = [t for t in self.targets if not is_differentiable(array_of(t))]
        if odd and len(odd) == len(self.targets):
            return self.no(
                Reason.DTYPE,
                f"{self.target} is {odd[0].dtype.name}: it has no derivative with respect to anything.",
                "Make the target a floating value; the first op that gives integers or booleans is where to look.",
            )
        return None

    def _of_the_target(self) -> Explanation | None:
        """The target lies outside of what the tape recorded."""
        facts = self.facts
        if any(uid in facts.tracked or (uid in facts.producer and facts.producer[uid].recorded) for uid in self.uids):
            return None
        if facts.live is False and not facts.tracked and not facts.log:
            return None
        if all(isinstance(t, Variable) for t in self.targets):
            if not self.tracked:
                return None
            made = facts.made_from(self.uid) if self.tracked else set()
            return self._branch([e for e in facts.events if e.what == "bool()" and e.uid in made]) or self.no(
                Reason.STATE,
                f"{self.target} is a variable: it holds a value, and no memory of how that was computed.",
                "Differentiate the tensor that was assigned to it.",
            )
        state = facts.state_at(self.made)
        if any(uid in summary.tracked for summary in facts.discarded for uid in self.uids):
            where = next((e.where for e in facts.log if e.what == "reset" and e.when > self.made), None)
            return self._unrecorded(Reason.RESET, where, None)
        if state is None:
            return self.no(
                Reason.BEFORE_TAPE,
                f"{self.target} was computed before the tape's `with` block began.",
                "Move the computation into the block.",
            )
        if state.what == "pause":
            return self._unrecorded(Reason.PAUSED, state.where, None)
        if state.what == "stop_recording":
            return self._unrecorded(Reason.STOP_RECORDING, state.where, None)
        if state.what in ("exit", "question"):
            return self._after()
        return None

    def _after(self) -> Explanation:
        gradient = next((a for a in map(self.facts.answer_with, self.uids) if a is not None), None)
        if gradient is not None:
            method, where = gradient
            return self.no(
                Reason.AFTER_TAPE,
                f"{self.target} is what .{method}() of another tape gave at {shown(where)}, after this tape had "
                "stopped recording: it saw the function, but not its derivative.",
                f"Call .{method}() of the inner tape inside the outer tape's block.",
                where=where,
            )
        return self.no(
            Reason.AFTER_TAPE,
            f"{self.target} was computed after the tape's `with` block had ended.",
            "Indent the computation (the loss, too) into the block.",
        )

    def _of_the_source(self) -> Explanation | None:
        """The tape does not follow the source at all."""
        facts, name = self.facts, self.name
        if self.tracked:
            return None
        if self.uid > self.made and self.uid not in facts.producer and self.uids:
            return self.no(
                Reason.SAME_NAME,
                f"This {name} was created after {self.target} was computed; what was used there is another object.",
                f"Keep the object that went into the computation, and create {name} once.",
                where=self._second_assignment(),
            )
        if any(self.uid in summary.tracked for summary in facts.discarded):
            reset = [e for e in facts.log if e.what == "reset"][-1]
            return self.no(
                Reason.RESET,
                f"tape.reset() at {shown(reset.where)} forgot that {name} was followed, and nothing followed it again.",
                f"Call tape.watch({name}) or read it again after reset().",
                where=reset.where,
            )
        followed_by_itself = self.is_variable and self.source.trainable and facts.tape._watch_accessed
        empty = next((e for e in facts.log if e.what == "watched nothing"), None)
        if empty is not None and not followed_by_itself:
            return self.no(
                Reason.WATCHED_EMPTY,
                f"tape.watch at {shown(empty.where)} was given an empty structure: a layer has "
                "no variables before it is built.",
                "Call the layer once (or .build(shape)) before asking for its variables.",
                where=empty.where,
            )
        if not self.is_variable:
            return self._tensor_not_followed()
        if not self.source.trainable:
            return self.no(
                Reason.NOT_TRAINABLE,
                f"{name} was created with trainable=False; tapes follow what is trainable.",
                f"Call tape.watch({self.python or 'variable'}) in the block, or create it with trainable=True.",
            )
        if not facts.tape._watch_accessed:
            return self.no(
                Reason.NOT_WATCHED,
                f"The tape was created with watch_accessed_variables=False and was not told to watch {name}.",
                f"Call tape.watch({self.python or 'variable'}) at the beginning of the block.",
            )
        return self._variable_not_read()

    def _second_assignment(self) -> Line | None:
        bound = assignments(self.python, self.frame) if self.python else []
        return bound[-1][0] if len(bound) > 1 else None

    def _tensor_not_followed(self) -> Explanation:
        name = self.name
        where = self._rebound()
        if where is not None:
            return self.no(
                Reason.REPLACED_BY_TENSOR,
                f"{name} was a tf.Variable, and {shown(where)} bound the name to a tensor: "
                "what an op returns is a tensor, and tapes do not follow tensors by themselves.",
                f"Change the variable in place: {name}.assign(…), .assign_add(…) or .assign_sub(…).",
                where=where,
            )
        watch = f"tape.watch({self.python or 'tensor'})"
        late = self.facts.path(self.uid, self.uids, differentiable=False)
        return self.no(
            Reason.NOT_WATCHED,
            f"{name} is a tensor; tapes follow tensors only when asked, and trainable variables by themselves.",
            f"Call {watch} at the beginning of the block, or make it a tf.Variable.",
            path=late or (),
        )

    def _rebound(self) -> Line | None:
        """Where this frame, or one that called it, has `x = x + 1` for what was a variable."""
        frame, depth = self.frame, 0
        while frame is not None and depth < 10:
            name = name_of(self.source, frame)
            found = rebinding(name, frame) if name is not None else None
            if found is not None and (found[1] or self._was_a_variable(name or "")):
                return found[0]
            frame, depth = frame.f_back, depth + 1
        return None

    def _was_a_variable(self, name: str) -> bool:
        """Whether somebody made a variable of this name: `self.w`, of the name "w"."""
        tail = name.rpartition(".")[2]
        return tail != name and any(made_variable(tail, self.frame))

    def _variable_not_read(self) -> Explanation:
        facts, name = self.facts, self.name
        for when, _, thread, label in reversed(facts.missed_readings(self.uid)):
            state = facts.state_at(when)
            if state is None or when > self.made:
                continue
            if state.what in ("pause", "stop_recording"):
                reason = Reason.PAUSED if state.what == "pause" else Reason.STOP_RECORDING
                how = "while the tape was paused" if state.what == "pause" else "inside tape.stop_recording()"
                return self.no(
                    reason,
                    f"{name} was read only {how} (from {shown(state.where)}): the tape saw nothing of it.",
                    "Move what should be differentiated out of there.",
                    where=state.where,
                )
            if state.what == "start" and state.thread != thread:
                return self.no(
                    Reason.OTHER_THREAD,
                    f"{name} was read in thread '{label}'; the tape records the thread that opened it, and no other.",
                    "Open a tape in each thread, or hand the context over: "
                    "pool.submit(contextvars.copy_context().run, f, …).",
                )
            if state.what == "start":
                return self.no(
                    Reason.STOP_RECORDING,
                    f"{name} was read where nothing is recorded: in tf.init_scope or another asyncio task.",
                    "Compute inside the tape's block.",
                )
        twin = next((v for v in facts.variables.values() if v.name == self.source.name and v.uid != self.uid), None)
        if twin is not None and self.source.name != "Variable:0":
            return self.no(
                Reason.SAME_NAME,
                f"The tape followed another variable that is also called '{twin.name}': a copy, or "
                "the model before it was built again.",
                "Use the variable of the model that computed the target.",
            )
        found = self._computed_early() or self._of_breaks() or self._of_breaks(guess=True)
        if found is not None:
            return found
        count = len(facts.variables)
        others = f"; it followed {count} other variable{'s' if count > 1 else ''}" if count else ""
        return self.no(
            Reason.NEVER_READ,
            f"No op read {name} while the tape was recording{others}.",
            f"Use {name} inside the block, in what {self.target} is computed from.",
        )

    def _computed_early(self) -> Explanation | None:
        """Something between source and target was computed before the tape began."""
        facts = self.facts
        behind, _ = facts.behind(self.uids)
        early: list[tuple[str, Line | None]] = []
        if self.frame is not None and self.python and self.target != "the target":
            scope = {**self.frame.f_globals, **self.frame.f_locals}
            for name in built_from(self.target, self.python, self.frame):
                value = scope.get(name)
                if type(value) is not Tensor or value.uid >= facts.began or value.uid in facts.tracked:
                    continue
                if not facts.logged or value.uid in behind:
                    early.append((name, assignments(name, self.frame)[0][0]))
        if early:
            name, where = early[-1]
            return self.no(
                Reason.BEFORE_TAPE,
                f"{name}, which {self.target} is made from, was computed before the tape's block began.",
                f"Move `{statement_at(where) or name}` into the block.",
                where=where,
            )
        return None

    def _of_breaks(self, guess: bool = False) -> Explanation | None:
        """The tape did not record for a while, and the target is made from something computed then."""
        facts = self.facts
        open_ends = self._open_ends()
        for event, end in facts.breaks():
            inside = [uid for uid in open_ends if event.when < uid < end]
            unexplained = not facts.complete or not any(u in facts.tracked for u in self.uids)
            if inside or (guess and unexplained and self.made > end):
                reason = Reason.PAUSED if event.what == "pause" else Reason.STOP_RECORDING
                how = "while the tape was paused" if event.what == "pause" else "inside tape.stop_recording()"
                return self.no(
                    reason,
                    f"What {self.target} is made from was computed {how} (from {shown(event.where)}).",
                    "Move what should be differentiated out of there.",
                    where=event.where,
                    certain=bool(inside),
                )
        return None

    # -- reasons at the ends of paths --------------------------------------------------------------------------------
    def _open_ends(self) -> list[int]:
        """What the targets are made from and no record tells more about."""
        behind, _ = self.facts.behind(self.uids)
        return [u for u in behind if u not in self.facts.producer and u not in self.facts.tracked]

    def _of_the_ends(self) -> Explanation | None:
        """No chain of ops leads to the target: where did the value go instead?"""
        facts = self.facts
        made = facts.made_from(self.uid)
        behind, plain = facts.behind(self.uids)
        for event in facts.events:
            if event.what == "assign" and event.uid in made and event.other in behind and event.when < self.made:
                return self._stored(event)
        broken = self._of_breaks()
        if broken is not None:
            return broken
        unseen = [uid for uid in self._open_ends() if uid > facts.began]  # made in the block, nobody knows how
        known = facts.complete and not unseen
        branches = {e.uid: e for e in facts.events if e.what == "bool()" and e.when < self.made and e.uid in made}
        ends = [
            n
            for n in facts.nodes
            if not n.op.differentiable and n.outputs[0] < self.made and not made.isdisjoint(n.inputs)
        ]
        candidates: list[tuple[int, Any]] = []
        for node in ends:
            if node.outputs[0] not in branches and not known:
                candidates.append((node.outputs[0], node))
        possible = {"assign": not facts.complete, "bool()": False}
        for event in facts.events:
            if event.uid in made and event.when < self.made and possible.get(event.what, not known or plain):
                candidates.append((event.when, event))
        if candidates:
            latest = max([u for u in unseen if u <= self.made], default=self.made)
            _, best = max([c for c in candidates if c[0] <= latest] or candidates, key=lambda c: c[0])
            certain = facts.complete and len(candidates) == 1
            if isinstance(best, Node):
                first = facts.path(self.uid, best.inputs, differentiable=False) or []
                position = next(i for i, uid in enumerate(best.inputs) if uid in made)
                return self._blocked(best, position, [*first, (best, position)], certain=certain)
            return self._stored(best, certain) if best.what == "assign" else self._left(best, certain)
        return self._branch(list(branches.values())) or self._of_breaks(guess=True)

    def _branch(self, decisions: list[Any]) -> Explanation | None:
        if not decisions:
            return None
        event = decisions[0]
        return self.no(
            Reason.BRANCH_ONLY,
            f"{self.name} decided at {shown(event.where)} which branch runs, and its value went no "
            "further: the target jumps where the decision changes, and is constant in between.",
            "Blend the branches: w = tf.sigmoid(k * x); y = w * a + (1 - w) * b.",
            where=event.where,
            path=self.facts.path(self.uid, [event.uid], differentiable=False) or (),
        )

    def _stored(self, event: Any, certain: bool = True) -> Explanation:
        variable = self.facts.variables.get(event.other)
        name = variable.name.removesuffix(":0") if variable is not None else "a variable"
        name = (variable is not None and name_of(variable, self.frame)) or name
        return self.no(
            Reason.STATE,
            f"The value was stored in {name} at {shown(event.where)}; reading a variable gives its "
            "value, not the history of what was assigned.",
            "Compute the target from the tensor itself, and assign after that.",
            where=event.where,
            certain=certain,
            path=self.facts.path(self.uid, [event.uid], differentiable=False) or (),
        )

    def _left(self, event: Any, certain: bool) -> Explanation:
        calls = [call for call in calls_at(event.where) if call[0] in ("np", "numpy", "onp", "math")]
        advice = "Stay with tensors until the target is computed; convert a copy for printing."
        through = event.what
        if any(function == "numpy_function" for _, function in calls_at(event.where)):
            through, advice = "tf.numpy_function", "Use tf.py_function, or write it with tf functions."
        elif calls:
            module, function = calls[0]
            through = f"{module}.{function}" if event.what == "NumPy" else through
            same = tensor_function(function)
            advice = f"Use {same} in place of {module}.{function}: the tape can follow it." if same else advice
        return self.no(
            Reason.LEFT_LIBRARY,
            f"The value left the library through {through} at {shown(event.where)}; what comes back is a constant.",
            advice,
            where=event.where,
            certain=certain,
            path=self.facts.path(self.uid, [event.uid], differentiable=False) or (),
        )

    def _unrelated(self) -> Explanation:
        facts = self.facts
        uses = len({node.outputs for node, _ in facts.consumers.get(self.uid, ())})
        other = [e for e in facts.log if e.what == "watch" and e.uid == self.uid]
        began = next((e for e in facts.log if e.what == "start"), None)
        if other and began is not None and other[-1].thread != began.thread:
            return self.no(
                Reason.OTHER_THREAD,
                f"{self.name} was watched in another thread than the one that opened the tape, "
                "and only that one is recorded.",
                "Open a tape in the thread that computes.",
            )
        late = bool(other) and not any(uid > other[0].when for uid in self.uids)
        if late:
            return self.no(
                Reason.WATCHED_LATE,
                f"{self.target} was computed before tape.watch({self.name}) was called.",
                "Call tape.watch before the first op that should be followed.",
            )
        if not uses:
            text = f"{self.name} is followed, and no op of the tape used it."
            if threading.active_count() > 1:
                text += " Ops that ran in another thread are not recorded."
        else:
            text = f"{uses} op{'s' if uses > 1 else ''} used {self.name}; none of them leads to {self.target}."
        if not is_differentiable(array_of(self.targets[0])):
            return self.no(Reason.DTYPE, f"{self.target} is {dtype_of(array_of(self.targets[0])).name}.")
        return self.no(
            Reason.UNRELATED,
            text,
            f"If that is intended: unconnected_gradients='zero' gives zeros in place of None. "
            f"If not, look for where {self.target} should have used it.",
        )


def _leaves_by_positions(node: Node, following: Node, position: int) -> bool:
    """Whether a path goes on, at an input of the following op, from integers that an op gives beside its values."""
    if len(node.outputs) < 2:
        return False
    taken = node.outputs.index(following.inputs[position])
    return bool(node.dtype[taken].kind in "iub")


# -- words -----------------------------------------------------------------------------------------------------------
_LIKELY = "This is the likeliest reading of what was recorded; GradientTape(lines=True) sees more."
INSTEAD = {
    "indices": "Positions have no derivative; weights have: multiply by tf.nn.softmax(scores) in place of picking.",
    "condition": "A condition is a step; blend: w = tf.sigmoid(k * x); y = w * a + (1 - w) * b.",
}
"""What to use in place of an input without a derivative, by its name. An op's own advice is in its declaration."""

_OF_NUMPY = {
    "amax": "tf.reduce_max",
    "amin": "tf.reduce_min",
    "array": "tf.stack",
    "asarray": "tf.convert_to_tensor",
    "clip": "tf.clip_by_value",
    "dot": "tf.tensordot",
    "fabs": "tf.abs",
    "float32": "tf.cast",
    "hstack": "tf.concat",
    "inner": "tf.tensordot",
    "std": "tf.math.reduce_std",
    "var": "tf.math.reduce_variance",
    "vstack": "tf.concat",
}
"""NumPy's functions that are no primitives under that name."""


def shown_op(op: Any) -> str:
    """The name under which users know a primitive."""
    if op.name == "getitem":
        return "[…]"
    return str(op.names[0].rpartition(".")[2] if op.names else op.name)


def tensor_function(name: str) -> str:
    """The function of this library that does what NumPy's function of this name does; empty if there is none."""
    if name in _OF_NUMPY:
        return _OF_NUMPY[name]
    if name in registry and registry[name].names:
        return f"tf.{registry[name].names[0]}"
    root = sys.modules["gradtape"]
    for prefix, room in (("tf", root), ("tf.math", root.math), ("tf.linalg", root.linalg)):
        if callable(getattr(room, name, None)):
            return f"{prefix}.{name}"
    return ""


def dtype_of_numpy(dtype: Any) -> str:
    """The name of a record's dtype."""
    first = dtype[0] if type(dtype) is tuple else dtype
    return str(getattr(first, "name", first))
