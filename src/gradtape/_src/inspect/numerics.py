"""Where NaN and Inf come from: `GradientTape(check_numerics=True)`, `tape.nan_origin` and `enable_check_numerics`.

There are three ways to find out:

    GradientTape(check_numerics=True)   checks the result of every op of its block and every cotangent of its backward
                                        passes, and raises an error at the first that is not finite. It logs lines.
    tape.nan_origin(target)             checks the records of a tape afterwards, without running the user's code again.
    debugging.enable_check_numerics()   checks every op of every thread, with and without a tape.

They have no effect until a value is bad, and no cost while they are off: they are observers of ops and of backward
passes, and the last one wraps kernels (`core/observe.py`). For the causes see `causes`.
"""

from __future__ import annotations

import html
import textwrap
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.autodiff.arguments import array_of, check_differentiable, components, leaves, seed_cotangents
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.autodiff.recording import Recording
from gradtape._src.autodiff.settings import settings
from gradtape._src.call_sites import Line, is_library, user_line
from gradtape._src.core import tape as stack
from gradtape._src.core.fast import backward
from gradtape._src.core.observe import Observer, in_rule, wrap_kernels
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import Record, Recorder, active_recorders
from gradtape._src.core.zero_preserving import concrete, zero_preserving
from gradtape._src.function import modes
from gradtape._src.inspect.causes import (
    BackwardStep,
    Cause,
    Operand,
    backward_cause,
    first_bad,
    forward_cause,
    operand,
    recomputed,
)
from gradtape._src.inspect.events import OpLogger, _outputs, lines_of
from gradtape._src.inspect.op_names import op_shown_as, shown_op
from gradtape._src.inspect.source import shown, statement_at
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.variable import Variable, peek

if TYPE_CHECKING:
    from gradtape._src.core.primitive import Op


@dataclass(frozen=True, repr=False)
class Origin:
    """The origin of the first NaN or Inf; false if everything is finite.

    `op` is the name of the op, `position` its position on the tape, `where` the user's file and line (if the tape logs
    lines), `forward` whether the op itself or its derivative is the origin, `operands` the summaries of its operands.
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
        """One line: what happened, and where."""
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


def _error(origin: Origin, text: str = "") -> errors.NumericsError:
    error = errors.NumericsError(None, None, text or str(origin))
    error.origin = origin
    return error


# -- values ----------------------------------------------------------------------------------------------------------
def _array(value: Any) -> Any:
    """The NumPy array in a cotangent or tensor of any kind, or None."""
    return concrete(value.values if type(value) is SparseCotangent else value)


def _is_bad(value: Any) -> bool:
    array = _array(value)
    return (
        isinstance(array, (np.ndarray, np.generic))
        and array.dtype.kind not in "biuOSU"
        and not np.isfinite(array).all()
    )


def _named(op: Op, inputs: list[Any], outputs: list[Any]) -> tuple[Operand, ...]:
    """Operands by their names in the declaration of the op."""
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
    """The origin in an op that returned something bad; inputs and outputs are NumPy arrays, or None."""
    output = next(a for a in outputs if a is not None and _is_bad(a))
    cause = forward_cause(op, inputs, output, attrs)
    at = first_bad(output)
    message = f"{shown_op(op)} gave {_word(output)}"
    if op.elementwise and len(op.args) == len(inputs) and at is not None and all(a is not None for a in inputs):
        numbers = ", ".join(f"{np.broadcast_to(a, output.shape)[at]:.6g}" for a in inputs if a.dtype.kind in "fiu")
        message = f"{shown_op(op)}({numbers}) gave {_word(output)}" if numbers else message
    if at:
        message += f" at {list(at)}"
    return Origin(shown_op(op), where, True, cause, _named(op, inputs, outputs), message, position)


# -- forward: the result of an op is bad -----------------------------------------------------------------------------
def _judge(op: Op, inputs: Sequence[Any], outputs: Sequence[Any], attrs: dict[str, Any]) -> Origin | None:
    """What is wrong with the results of an op that has just run, if anything. Its values are arrays or tensors.

    In a derivative only the final result counts, which `_BackwardChecker` checks: inside a rule values may be infinite.
    """
    if in_rule.get() or not any(_is_bad(t) for t in outputs):
        return None
    return _forward_origin(op, [_array(t) for t in inputs], [_array(t) for t in outputs], attrs, user_line())


class Checker(OpLogger):
    """The op logger of a tape with `check_numerics=True`: it raises an error if a result is not finite."""

    __slots__ = ("_recording",)

    def __init__(self) -> None:
        super().__init__()
        settings.checks_numerics = True
        self._recording = 0

    def attend(self, recording: Recorder) -> None:
        """Check while this recording is active, and not while its tape is paused."""
        self._recording = id(recording)  # not the recording itself, which would keep its values alive

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        super().on_op(record, inputs, outputs)
        recorders = active_recorders()
        if not any(id(recorder) == self._recording for recorder in recorders):
            return
        op, uids, _, _, attrs, _ = Record.of(record)
        results = outputs if type(outputs) is tuple else (outputs,)
        origin = _judge(op, inputs or [None] * len(uids), results, attrs)
        if origin is not None:
            for recorder in recorders:  # undo the op in the recorders that have recorded it
                if recorder.records and recorder.records[-1][2] == record[2]:
                    recorder.records.pop()
            raise _error(origin)


# -- backward: a step makes a cotangent bad --------------------------------------------------------------------------
class _BackwardChecker(Observer):
    """Checks the results of each step of a backward pass."""

    may_raise = True

    def __init__(
        self,
        recording: Recording,
        shapes: dict[int, tuple[int, ...]],
        cotangents: dict[int, Any],
        where: Callable[[], dict[int, Line]],
        fail: Callable[[Origin, Any], Exception],
    ) -> None:
        self._history, self._shapes, self._where, self._fail = recording.records, shapes, where, fail
        for g in cotangents.values():
            if _is_bad(g):
                message = f"the upstream gradient (output_gradients) has {_word(_array(g))}"
                found = operand("output_gradients", _array(g))
                raise fail(Origin(None, None, False, Cause.BAD_INPUT, (found,) if found else (), message), g)

    def on_vjp(self, record: Record, gs: Sequence[Any], results: dict[int, Any]) -> None:
        for uid, c in results.items():
            if _is_bad(c):
                raise self._fail(self._origin(record, gs, uid, c), c)

    def _origin(self, record: Record, gs: Sequence[Any], uid: int, c: Any) -> Origin:
        op, inputs, output, values, attrs, _ = record
        incoming = [_array(g) for g in gs if g is not None]
        g = incoming[0] if len(incoming) == 1 else np.concatenate([a.ravel() for a in incoming if a is not None])
        place = next(i for i, other in enumerate(self._history) if other[2] == output)
        position, cause, by_zero = 0, Cause.UNKNOWN, False
        places = [i for i, each in enumerate(inputs) if each == uid]
        for position in places:
            if op.vjp_all is None and op.rules[position] is None:
                continue
            cause, by_zero = backward_cause(BackwardStep(op, position, values, attrs, g, _array(c)))
            if cause not in (Cause.OVERFLOW, Cause.LOW_PRECISION):
                break
        lines = self._where()
        note = ""
        if by_zero:
            mask = self._mask_after(place, output)
            if mask is not None:
                cause = Cause.MASKED_BRANCH
                line = shown(lines.get(_outputs(mask[2])[0]))
                note = f"The zeros come from tf.where at {line}." if line else "The zeros come from tf.where."
        elif cause is Cause.INFINITE_SLOPE and op.name == "sqrt" and self._made_by(place, inputs[0], "sum"):
            note = "The square root of a sum: this is the norm of a vector of zeros."
        name = op.args[position] if position < len(op.args) else f"input {position}"
        message = (
            f"the derivative of {shown_op(op)} is {_word(_array(c))} for its {name}, although the cotangent is finite"
        )
        at = first_bad(_array(c))
        if at:
            message += f", at {list(at)}"
        slots = [*op.args, "result"] if len(op.args) == len(inputs) else []
        found = [operand("cotangent in", g)]
        found += [operand(n, v) for n, v in zip(slots, values, strict=False) if v is not None]
        found.append(operand("cotangent out", _array(c)))
        first = _outputs(output)[0]
        saved = tuple(o for o in found if o is not None)
        return Origin(shown_op(op), lines.get(first), False, cause, saved, message, place, note)

    def _mask_after(self, place: int, output: Any) -> Any:
        """The first `where` with an operand that was computed from this output."""
        made = set(_outputs(output))
        for record in self._history[place + 1 :]:
            if not made.isdisjoint(Record.of(record).inputs):
                if record[0].name == "where":
                    return record
                made.update(_outputs(record[2]))
        return None

    def _made_by(self, place: int, uid: int, name: str) -> bool:
        return any(record[0].name == name and record[2] == uid for record in self._history[:place])


def backward_checker(
    tape: Tape, recording: Recording, shapes: dict[int, tuple[int, ...]], cotangents: dict[int, Any]
) -> Observer | None:
    """The observer of a backward pass whose cotangents have to be finite; None if there is no check."""
    around = any(isinstance(recorder, Checker) for recorder in active_recorders())
    if not (_everywhere.enabled or around or "check_numerics" in tape.options):
        return None
    fail = _everywhere_error if _everywhere.enabled else lambda origin, value: _error(origin)
    return _BackwardChecker(recording, shapes, cotangents, lambda: lines_of(tape), fail)


# -- afterwards --------------------------------------------------------------------------------------------------------
def nan_origin(tape: Tape, target: Any, sources: Any = None) -> Origin:
    """See `GradientTape.nan_origin`."""
    recording = tape._recording
    if recording is None and tape._used_at is not None:
        where = ":".join(map(str, tape._used_at))
        raise RuntimeError(
            f"The tape freed its recorded values at {where}. Call nan_origin before the gradient, or create the "
            "tape with persistent=True."
        )
    recording = tape._require_record()
    targets = [part for leaf in leaves(target) for part in components(leaf)]
    flat = [] if sources is None else leaves(sources)
    check_differentiable("target", targets)
    check_differentiable("sources", flat)
    lines = lines_of(tape)
    records = [Record.of(record) for record in recording.records]
    with float_errors_ignored(), stack.use_recorders(()):
        if any(map(_is_bad, map(array_of, targets))):
            return _search_forward(records, targets, flat, recording.variables, lines)
        origin = _search_backward(tape, recording, targets, flat if sources is not None else None, lines)
        if origin is not None:
            return origin
        hidden = _search_forward(records, targets, flat, recording.variables, lines)
    note = (
        f"An intermediate result: {hidden.headline}, but it reaches neither the target nor a gradient."
        if hidden
        else ""
    )
    return Origin(None, None, True, None, (), "everything is finite, forward and backward", None, note)


_UNSAVED = "The tape did not save all operands: an op before this one may have been the first."


def _search_forward(
    records: list[Any], targets: list[Any], sources: list[Any], variables: dict[int, Variable], lines: dict[int, Line]
) -> Origin:
    """The first bad result on the way to the targets. Values are saved ones, or recomputed."""
    needed = _leading_to(records, targets)
    known: dict[int, Any] = {v.uid: _array(peek(v)) for v in variables.values()}
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
            message = f"{shown_op(op)} received {_word(taken)}"
            return Origin(shown_op(op), where, True, Cause.BAD_INPUT, _named(op, arrays, results), message, place)
    return _origin_outside(targets)


def _leading_to(records: list[Any], targets: list[Any]) -> list[Any]:
    """The records that targets depend on, last first."""
    wanted = {t.uid for t in targets}
    needed = []
    for record in reversed(records):
        if not wanted.isdisjoint(_outputs(record[2])):
            wanted.update(record[1])
            needed.append(record)
    return needed


def _origin_outside(targets: list[Any]) -> Origin:
    """The origin if no op of the tape made a bad value: a target was bad already, or all is finite."""
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
        f"the target has {_word(_array(array_of(bad)))}, but no op on this tape produced it",
    )


def _search_backward(
    tape: Tape, recording: Any, targets: list[Any], sources: list[Any] | None, lines: dict[int, Line]
) -> Origin | None:
    """Run a backward pass and check every step; the tape is not used up."""
    uids = frozenset(recording.roots) if sources is None else frozenset(s.uid for s in sources)
    shapes = recording.shapes_between(uids)
    cotangents = seed_cotangents(targets, [None] * len(targets), sources or [], False)
    if "strong_zeros" in tape.options:
        cotangents.update({uid: zero_preserving(g) for uid, g in cotangents.items()})
    try:
        backward.backward_pass(
            recording.records,
            shapes,
            cotangents,
            kept=uids - recording.roots,
            traced=False,
            release=False,
            observer=_BackwardChecker(recording, shapes, cotangents, lambda: lines, lambda o, value: _error(o)),
        )
    except errors.NumericsError as error:
        return error.origin
    return None


# -- every op of every thread ----------------------------------------------------------------------------------------
class _Everywhere:
    """The check of every op of every thread."""

    enabled = False
    stack_height: int | None = 30
    path_length: int | None = 50


_everywhere = _Everywhere()


def _checked(op: Op, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel that raises an error if its result is not finite."""
    if op.moves_only:  # bad elements of its result come from its operands
        return kernel

    def run(*arrays: Any, **attrs: Any) -> Any:
        value = kernel(*arrays, **attrs)
        results = value if type(value) is tuple else (value,)
        origin = _judge(op, arrays, results, attrs)
        if origin is not None:
            slot = next(i for i, result in enumerate(results) if _is_bad(result))
            raise _error(origin, _everywhere_text(origin, op.tf_name, results[slot], slot, len(results)))
        return value

    return run


def enable_check_numerics(stack_height_limit: int | None = 30, path_length_limit: int | None = 50) -> None:
    """See `gradtape.debugging.enable_check_numerics`."""
    _everywhere.enabled = settings.checks_numerics = True
    modes.inspect_functions(True)
    _everywhere.stack_height, _everywhere.path_length = stack_height_limit, path_length_limit
    wrap_kernels("check_numerics", _checked)


def disable_check_numerics() -> None:
    """See `gradtape.debugging.disable_check_numerics`."""
    _everywhere.enabled = False
    modes.inspect_functions(False)
    wrap_kernels("check_numerics", None)


def _everywhere_error(origin: Origin, value: Any) -> errors.NumericsError:
    op = None if origin.op is None else op_shown_as(origin.op)
    name = "output_gradients" if op is None else f"{op.tf_name}Grad"
    return _error(origin, _everywhere_text(origin, name, value, 0, 1))


def _everywhere_text(origin: Origin, name: str, value: Any, slot: int, count: int) -> str:
    """TensorFlow's message first, then ours, then the stack of the user's code."""
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
    frames = [f for f in traceback.extract_stack() if not is_library(f.filename)]
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
