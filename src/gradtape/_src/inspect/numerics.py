"""Where NaN and Inf come from: `GradientTape(check_numerics=True)`, `tape.nan_origin` and `enable_check_numerics`.

Three ways to look, and what each costs:

    GradientTape(check_numerics=True)   looks at the result of every op of its block and at every cotangent of its walks
                                        back, and raises at the first that is not finite. It notes the user's lines.
    tape.nan_origin(target)             looks afterwards at what a tape recorded, and runs nothing of the user's again.
    debugging.enable_check_numerics()   looks at every op of every thread, with and without a tape.

All three are silent until a number is bad, and cost nothing while nobody asks for them: forward they are recorders like
a tape, on the way back they stand in the place of the list of records. The causes are in `causes`.
"""

from __future__ import annotations

import html
import sys
import textwrap
import threading
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.autodiff.arguments import array_of, check_differentiable, components, leaves, seed_cotangents
from gradtape._src.autodiff.gradient_tape import _OURS, GradientTape, _reachable
from gradtape._src.core import dispatch, jvp as forward, tape as stack
from gradtape._src.core.fast import backward
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import Record, Recorder, active_recorders
from gradtape._src.core.zero_preserving import concrete, zero_preserving
from gradtape._src.inspect.causes import (
    Cause,
    Operand,
    Step,
    backward_cause,
    first_bad,
    forward_cause,
    operand,
    recomputed,
)
from gradtape._src.inspect.events import Line, Witness, _Everything, _outputs, lines_of
from gradtape._src.inspect.source import shown, statement_at
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.core.primitive import Op


@dataclass(frozen=True, repr=False)
class Origin:
    """Where the first NaN or Inf came from; false where everything is finite.

    `op` is the op's name, `position` its place on the tape, `where` the user's file and line (where the tape noted it),
    `forward` whether it was the op itself or its derivative, `operands` what is known of the numbers.
    """

    op: str | None
    where: Line | None
    forward: bool
    cause: Cause | None
    operands: tuple[Operand, ...]
    message: str
    position: int | None = None
    note: str = ""

    def __bool__(self) -> bool:
        return self.cause is not None

    @property
    def headline(self) -> str:
        """One line: what happened where."""
        place = shown(self.where)
        if not place and self.position is not None:
            place = f"op {self.position} of the tape"
        return f"{self.message} ({place})" if place else self.message

    def _rows(self) -> Iterator[tuple[str, str]]:
        if self.where is not None and (text := statement_at(self.where)):
            yield "line", f"{shown(self.where)}  {text}"
        if self.cause is not None:
            yield "cause", f"{self.cause.sentence} [{self.cause.name}]"
        for found in self.operands:
            yield "", str(found)
        if self.cause is not None:
            yield "fix", self.cause.advice
        if self.note:
            yield "note", self.note

    def __str__(self) -> str:
        lines = [self.headline]
        for label, text in self._rows():
            head = f"  {label + ':' if label else '':<7}"
            lines += textwrap.wrap(text, 110, initial_indent=head, subsequent_indent=" " * 9, break_on_hyphens=False)
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td style='text-align:left;vertical-align:top;opacity:.6;padding:1px 8px'>{html.escape(label)}</td>"
            f"<td style='text-align:left;padding:1px 8px'>{html.escape(text)}</td></tr>"
            for label, text in self._rows()
        )
        colour = "#c62828" if self else "#2e7d32"
        return (
            f"<div style='border-left:4px solid {colour};padding:4px 10px;margin:4px 0;font-size:13px'>"
            f"<b>{html.escape(self.headline)}</b><table style='border:0;margin:2px 0'>{rows}</table></div>"
        )


class NumericsError(errors.InvalidArgumentError):
    """A number became NaN or infinite while somebody was checking; `origin` says where and why."""

    origin: Origin


def _error(origin: Origin, text: str = "") -> NumericsError:
    error = NumericsError(None, None, text or str(origin))
    error.origin = origin
    return error


# -- looking at numbers ----------------------------------------------------------------------------------------------
def _array(value: Any) -> Any:
    """The NumPy array in a cotangent or tensor of any kind, or None."""
    return concrete(value.values if type(value) is SparseCotangent else value)


def _is_bad(value: Any) -> bool:
    array = _array(value)
    return array is not None and array.dtype.kind not in "biuOSU" and not np.isfinite(array).all()


def _named(op: Op, inputs: list[Any], outputs: list[Any]) -> tuple[Operand, ...]:
    """Operands by the names in the op's declaration."""
    names = op.args if len(op.args) == len(inputs) else [f"input {i}" for i in range(len(inputs))]
    results = ["result"] if len(outputs) == 1 else [f"result {i}" for i in range(len(outputs))]
    found = [operand(n, v) for n, v in zip([*names, *results], [*inputs, *outputs], strict=True) if v is not None]
    return tuple(o for o in found if o is not None)


def _word(array: Any) -> str:
    at = first_bad(array)
    if at is None:
        return "NaN or Inf"
    number = array[at]
    return "NaN" if np.isnan(number) else "-Inf" if array.dtype.kind != "c" and number < 0 else "Inf"


def _forward_origin(
    op: Op,
    inputs: list[Any],
    outputs: list[Any],
    attrs: dict[str, Any],
    where: Line | None,
    position: int | None = None,
) -> Origin:
    """What an op did that gave something bad; inputs and outputs are NumPy arrays, or None."""
    output = next(a for a in outputs if a is not None and _is_bad(a))
    cause = forward_cause(op, inputs, output, attrs)
    at = first_bad(output)
    message = f"{op.name} gave {_word(output)}"
    if op.elementwise and len(op.args) == len(inputs) and at is not None and all(a is not None for a in inputs):
        numbers = ", ".join(f"{np.broadcast_to(a, output.shape)[at]:.6g}" for a in inputs if a.dtype.kind in "fiu")
        message = f"{op.name}({numbers}) gave {_word(output)}" if numbers else message
    if at:
        message += f" at {list(at)}"
    return Origin(op.name, where, True, cause, _named(op, inputs, outputs), message, position)


# -- forward: an op looks bad the moment it has run ------------------------------------------------------------------
_RULES = (backward.__file__, forward.__file__)
_DISPATCH = dispatch.__file__


def _within_rule() -> bool:
    """Whether the op is part of a derivative: what a rule makes on the way may be infinite, its result is judged."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file in _RULES:
            return True
        if not file.startswith(_OURS):
            return False
        frame = frame.f_back
    return False


def _operands_of_call() -> list[Any]:
    """The arrays that went into the op that is just being noted: its call is still on the stack, and holds them."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename != _DISPATCH:
        frame = frame.f_back
    if frame is None:
        return []
    scope = frame.f_locals
    tensors = scope["inputs"] if "inputs" in scope else [scope[name] for name in ("x", "y") if name in scope]
    return [_array(t) if isinstance(t, Tensor) else None for t in tensors]


def _user_line() -> Line | None:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OURS):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def _judge(record: Any, outputs: Any) -> Origin | None:
    """What is wrong with the result of an op that has just run, if anything."""
    results = outputs if type(outputs) is tuple else (outputs,)
    if not any(_is_bad(t) for t in results) or _within_rule():
        return None
    op, inputs, _, _, attrs, _ = Record.of(record)
    arrays = _operands_of_call()
    if len(arrays) != len(inputs):
        arrays = [None] * len(inputs)
    return _forward_origin(op, arrays, [_array(t) for t in results], attrs, _user_line())


class Checker(Witness):
    """The witness of a tape with `check_numerics=True`: it notes lines, and raises where a result is not finite."""

    __slots__ = ("_pending", "_recording")

    def __init__(self) -> None:
        super().__init__()
        self.append = self._take
        self._pending: Any = None
        self._recording = 0

    def attend(self, recording: Recorder) -> None:
        """Check while this recording is active: what runs in a pause is none of the tape's business."""
        self._recording = id(recording)  # not the recording itself, whose values must be free to go

    def _take(self, record: Any) -> bool:
        self._pending = record, self._see(record)
        return True

    def on_output(self, outputs: Any) -> None:
        (record, seen), self._pending = self._pending, None
        if seen:
            super().on_output(outputs)
        recorders = active_recorders()
        if not any(id(recorder) == self._recording for recorder in recorders):
            return
        origin = _judge(record, outputs)
        if origin is not None:
            for recorder in recorders:  # who heard of the op before: it has not happened
                if recorder.records and recorder.records[-1][2] == record[2]:
                    recorder.records.pop()
            raise _error(origin)


def observe(tape: GradientTape, recording: Recorder) -> None:
    """Prepare a tape that was made with `check_numerics=True`."""
    GradientTape._on_sweep = _on_sweep
    witness = tape._witness
    if not isinstance(witness, Checker):
        tape._witness = witness = Checker()
    witness.attend(recording)


# -- backward: a cotangent becomes bad in one step -------------------------------------------------------------------
class _Walk:
    """In the place of a list of records that are walked back: looks at what each step has made, before the next."""

    def __init__(
        self,
        records: Any,
        count: int,
        history: list[Any],
        cotangents: dict[int, Any],
        where: Callable[[], dict[int, Line]],
        shapes: dict[int, tuple[int, ...]],
        fail: Callable[[Origin, Any], Exception],
    ) -> None:
        self._records, self._position, self._history, self._cotangents = records, count, history, cotangents
        self._where, self._shapes, self._fail = where, shapes, fail
        self._last: Any = None
        for d in cotangents.values():
            if _is_bad(d):
                message = f"the upstream gradient (output_gradients) has {_word(_array(d))}"
                found = operand("output_gradients", _array(d))
                raise fail(Origin(None, None, False, Cause.BAD_INPUT, (found,) if found else (), message), d)

    def __bool__(self) -> bool:
        if self._last is not None:
            self._look()
        return bool(self._records)

    def pop(self) -> Any:
        record = self._records.pop()
        self._position -= 1
        arrived = [self._cotangents.get(uid) for uid in _outputs(record[2])]
        self._last = (Record.of(record), arrived) if any(d is not None for d in arrived) else None
        return record

    def _look(self) -> None:
        record, arrived = self._last
        self._last = None
        for uid in dict.fromkeys(record.inputs):
            c = self._cotangents.get(uid)
            if uid in self._shapes and c is not None and _is_bad(c):
                origin = self._origin(record, arrived, uid, c)
                raise self._fail(origin, c)

    def _origin(self, record: Any, arrived: list[Any], uid: int, c: Any) -> Origin:
        op, inputs, output, values, attrs, _ = record
        incoming = [_array(d) for d in arrived if d is not None]
        d = incoming[0] if len(incoming) == 1 else np.concatenate([a.ravel() for a in incoming if a is not None])
        position, cause, by_zero = 0, Cause.UNKNOWN, False
        places = [i for i, each in enumerate(inputs) if each == uid]
        for position in places:
            if op.vjp_all is None and op.rules[position] is None:
                continue
            cause, by_zero = backward_cause(Step(op, position, values, attrs, d, _array(c)))
            if cause not in (Cause.OVERFLOW, Cause.LOW_PRECISION):
                break
        lines = self._where()
        note = ""
        if by_zero:
            mask = self._mask_after(output)
            if mask is not None:
                cause = Cause.MASKED_BRANCH
                place = shown(lines.get(_outputs(mask[2])[0]))
                note = f"The zeros come from tf.where at {place}." if place else "The zeros come from tf.where."
        elif cause is Cause.INFINITE_SLOPE and op.name == "sqrt" and self._made_by(inputs[0], "sum"):
            note = "The square root of a sum: this is the norm of a vector of zeros."
        name = op.args[position] if position < len(op.args) else f"input {position}"
        message = f"the derivative of {op.name} gave {_word(_array(c))} for its {name}, from a finite cotangent"
        at = first_bad(_array(c))
        if at:
            message += f", at {list(at)}"
        slots = [*op.args, "result"] if len(op.args) == len(inputs) else []
        found = [operand("cotangent in", d)]
        found += [operand(n, v) for n, v in zip(slots, values, strict=False) if v is not None]
        found.append(operand("cotangent out", _array(c)))
        first = _outputs(output)[0]
        saved = tuple(o for o in found if o is not None)
        return Origin(op.name, lines.get(first), False, cause, saved, message, self._position, note)

    def _mask_after(self, output: Any) -> Any:
        """The first `where` that takes what was made from this output."""
        made = set(_outputs(output))
        for record in self._history[self._position + 1 :]:
            if not made.isdisjoint(Record.of(record).inputs):
                if record[0].name == "where":
                    return record
                made.update(_outputs(record[2]))
        return None

    def _made_by(self, uid: int, name: str) -> bool:
        return any(record[0].name == name and record[2] == uid for record in self._history[: self._position])


def _on_sweep(
    tape: GradientTape, recording: Any, shapes: dict[int, tuple[int, ...]], cotangents: dict[int, Any], watch: Any
) -> Callable[[list[Any]], Any] | None:
    """How a walk back is watched: None if nobody checks numbers here."""
    everywhere = _everywhere.enabled
    around = any(isinstance(recorder, Checker) for recorder in active_recorders())
    if not (everywhere or around or "check_numerics" in tape.options):
        return None

    def checked(records: list[Any]) -> _Walk:
        history = recording.records
        fail = _everywhere_error if everywhere else lambda origin, value: _error(origin)
        inner = records if watch is None else watch(records)
        return _Walk(inner, len(records), list(history), cotangents, lambda: lines_of(tape), shapes, fail)

    return checked


# -- after the fact --------------------------------------------------------------------------------------------------
def nan_origin(tape: GradientTape, target: Any, sources: Any = None) -> Origin:
    """The first op that made NaN or Inf on the way to the target, or on the way back to the sources.

    Looks at what the tape saved and computes again what it did not; nothing of the user's code runs, and the tape can
    be asked the same question, and others, afterwards. Where the target is finite the walk back is searched: without
    `sources`, to everything that is watched. With `lines=True` or `check_numerics=True` the tape knows the line too.

    >>> import gradtape as tf
    >>> x = tf.Variable([0.0, 4.0])
    >>> with tf.GradientTape(lines=True) as tape:
    ...     y = tf.reduce_sum(tf.where(x > 0, x**0.5, 0.0))
    >>> origin = tape.nan_origin(y, x)
    >>> origin.op, origin.forward, origin.cause.name
    ('power', False, 'MASKED_BRANCH')
    >>> float(y), bool(tape.nan_origin(y * 0, x))
    (2.0, False)
    """
    recording = tape._require_record()
    targets = [part for leaf in leaves(target) for part in components(leaf)]
    flat = [] if sources is None else leaves(sources)
    check_differentiable("target", targets)
    check_differentiable("sources", flat)
    lines = lines_of(tape)
    records = [Record.of(record) for record in recording.records]
    with float_errors_ignored(), stack.use_recorders(()):
        if any(_is_bad(array_of(t)) for t in targets):
            return _search_forward(records, targets, flat, recording.variables, lines)
        origin = _search_backward(tape, recording, targets, flat if sources is not None else None, lines)
        if origin is not None:
            return origin
        hidden = _search_forward(records, targets, flat, recording.variables, lines)
    note = f"On the way {hidden.headline}, but it reaches neither the target nor a gradient." if hidden else ""
    return Origin(None, None, True, None, (), "everything is finite, forward and backward", None, note)


_UNSAVED = "The tape did not save all operands: an op before this one may have been the first."


def _search_forward(
    records: list[Any], targets: list[Any], sources: list[Any], variables: dict[int, Variable], lines: dict[int, Line]
) -> Origin:
    """The first bad result on the way to the targets. Values come from what was saved, or are computed once more."""
    wanted = {t.uid for t in targets}
    needed = []
    for record in reversed(records):
        if not wanted.isdisjoint(_outputs(record[2])):
            wanted.update(record[1])
            needed.append(record)
    known: dict[int, Any] = {v.uid: _array(v._tensor) for v in variables.values()}
    for value in (*sources, *targets):
        known[value.uid] = _array(array_of(value))
    for _, inputs, output, values, _, _ in needed:
        for uid, value in zip((*inputs, *_outputs(output)), values, strict=False):
            if uid and value is not None:
                known[uid] = _array(value)
    places = {id(record): i for i, record in enumerate(records)}
    for record in reversed(needed):
        op, inputs, output, values, attrs, _ = record
        outputs = _outputs(output)
        arrays = [
            _array(values[i]) if i < len(values) and values[i] is not None else known.get(uid)
            for i, uid in enumerate(inputs)
        ]
        results = [known.get(uid) for uid in outputs]
        if any(r is None for r in results) and all(a is not None for a in arrays):
            again = recomputed(op, arrays, attrs)
            if again is not None and len(again) == len(outputs):
                results = [a if r is None else r for r, a in zip(results, again, strict=True)]
                known.update(zip(outputs, results, strict=True))
        where, place = lines.get(outputs[0]), places[id(record)]
        if any(r is not None and _is_bad(r) for r in results):
            note = _UNSAVED if any(a is None for a in arrays) else ""
            return replace(_forward_origin(op, arrays, results, attrs, where, place), note=note)
        taken = next((a for a in arrays if a is not None and _is_bad(a)), None)
        if taken is not None and all(r is None for r in results):
            message = f"{op.name} was given {_word(taken)}"
            return Origin(op.name, where, True, Cause.BAD_INPUT, _named(op, arrays, results), message, place)
    bad = next((t for t in targets if _is_bad(array_of(t))), None)
    if bad is None:
        return Origin(None, None, True, None, (), "every known value is finite")
    found = operand("target", _array(array_of(bad)))
    return Origin(
        None,
        None,
        True,
        Cause.BAD_INPUT,
        (found,) if found else (),
        f"the target has {_word(_array(array_of(bad)))}, and no op of this tape made it",
    )


def _search_backward(
    tape: GradientTape, recording: Any, targets: list[Any], sources: list[Any] | None, lines: dict[int, Line]
) -> Origin | None:
    """Walk back with an eye on every step; nothing is consumed."""
    uids = recording.roots if sources is None else frozenset(s.uid for s in sources)
    shapes = recording.tracked if recording.roots <= uids else _reachable(recording, frozenset(uids))
    cotangents = seed_cotangents(targets, [None] * len(targets), sources or [], False)
    if "strong_zeros" in tape.options:
        cotangents.update({uid: zero_preserving(d) for uid, d in cotangents.items()})
    history = list(recording.records)

    def watch(records: list[Any]) -> _Walk:
        return _Walk(records, len(records), history, cotangents, lambda: lines, shapes, lambda o, value: _error(o))

    try:
        backward.backward_pass(
            history[:],
            shapes,
            cotangents,
            kept=frozenset(uids) - recording.roots,
            traced=False,
            release=False,
            watch=watch,
        )
    except NumericsError as error:
        return error.origin
    return None


# -- every op of every thread ----------------------------------------------------------------------------------------
# Ops that only move numbers: whatever is bad in their result was bad before.
_MOVING = frozenset(
    {
        "concatenate",
        "reshape",
        "transpose",
        "getitem",
        "setitem",
        "stack",
        "unstack",
        "split",
        "maximum",
        "minimum",
        "identity",
        "stop_gradient",
        "take",
        "check_numerics",
    }
)


class _Everywhere(threading.local):
    """The checker of one thread, and the settings of all."""

    enabled = False
    stack_height: int | None = 30
    path_length: int | None = 50

    def __init__(self) -> None:
        self.checker = _ThreadChecker()


class _ThreadChecker(Recorder):
    """Follows every tensor, keeps nothing, and raises where a result is not finite."""

    __slots__ = ("_pending",)

    def __init__(self) -> None:
        super().__init__()
        self.tracked = _Everything()
        self.append = self._take
        self._pending: Any = None

    def _take(self, record: Any) -> bool:
        self._pending = record
        return record[0].name not in _MOVING

    def on_output(self, outputs: Any) -> None:
        record, self._pending = self._pending, None
        origin = _judge(record, outputs)
        if origin is not None:
            results = outputs if type(outputs) is tuple else (outputs,)
            slot = next(i for i, t in enumerate(results) if _is_bad(t))
            raise _error(origin, _everywhere_text(origin, record[0].tf_name, results[slot], slot, len(results)))


_everywhere = _Everywhere()


def _checked_stack() -> stack.Stack:
    """The recorders of this thread, with a checker before them: what it refuses has not happened for anybody."""
    return stack.link(_everywhere.checker, stack.active_stack())


def enable_check_numerics(stack_height_limit: int | None = 30, path_length_limit: int | None = 50) -> None:
    """See `gradtape.debugging.enable_check_numerics`."""
    _Everywhere.enabled = True
    _Everywhere.stack_height, _Everywhere.path_length = stack_height_limit, path_length_limit
    GradientTape._on_sweep = _on_sweep
    dispatch.replace_stack(_checked_stack)


def disable_check_numerics() -> None:
    """See `gradtape.debugging.disable_check_numerics`."""
    _Everywhere.enabled = False
    dispatch.replace_stack(None)


def _everywhere_error(origin: Origin, value: Any) -> NumericsError:
    from gradtape._src.core.primitive import registry

    name = f"{registry[origin.op].tf_name}Grad" if origin.op in registry else "output_gradients"
    return _error(origin, _everywhere_text(origin, name, value, 0, 1))


def _everywhere_text(origin: Origin, name: str, value: Any, slot: int, count: int) -> str:
    """TensorFlow's words first, then ours, then the way through the user's code."""
    array = _array(value)
    counts = [
        f"  # of {word} elements: {int(n)}"
        for word, n in (
            ("-Inf", (np.isinf(array) & (array.real < 0)).sum()),
            ("+Inf", (np.isinf(array) & ~(array.real < 0)).sum()),
            ("+NaN", np.isnan(array).sum()),
        )
        if n
    ]
    lines = [
        "",
        "",
        f'!!! Detected Infinity or NaN in output {slot} of eagerly-executing op "{name}" (# of outputs: {count}) !!!',
        f"  dtype: {array.dtype.name}",
        f"  shape: {array.shape}",
        *counts,
        "",
        str(origin),
    ]
    frames = [f for f in traceback.extract_stack() if not f.filename.startswith(_OURS)]
    limit = _everywhere.stack_height
    if frames and limit != 0:
        lines += ["", "  Call stack:"]
        if limit is not None and len(frames) > limit:
            lines.append(f"    + ... (Omitted {len(frames) - limit} frames)")
            frames = frames[-limit:]
        for frame in frames:
            lines.append(f"    + {_shortened(frame.filename)} (L{frame.lineno}) {frame.name}")
            if frame.line:
                lines.append(f"      |   {frame.line}")
    return "\n".join([*lines, ""])


def _shortened(path: str) -> str:
    limit = _everywhere.path_length
    return path if limit is None or len(path) <= limit else "..." + path[len(path) - limit :]
