"""The tape as a recorder: its `with` block, `watch`, `pause`, `reset` and `stop_recording`.

`gradient_tape.py` adds the derivatives.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Mapping
from threading import get_ident
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from gradtape._src.arrays.lazy import end_step
from gradtape._src.autodiff.arguments import array_of, components, leaves
from gradtape._src.autodiff.recording import LIMIT, Recording
from gradtape._src.autodiff.settings import settings
from gradtape._src.call_sites import UNKNOWN, Line, is_library, user_line, warn_per_call_site
from gradtape._src.core import tape as stack
from gradtape._src.core.tape import Record, Recorder
from gradtape._src.devices import placement
from gradtape._src.interrupts import guarded
from gradtape._src.tensor import Tensor, is_differentiable, next_uid
from gradtape._src.variable import Variable

T = TypeVar("T", bound="RecordingTape")


class RecordingTape:
    """A tape without derivatives: the recording of the ops inside its `with` block, and its state."""

    # Attributes that most tapes never set have defaults in the class: every training step creates a tape.
    _summary: Recording | None = None  # the summary of freed records
    _discarded: tuple[Recording, ...] = ()  # what `reset` discarded
    _op_logger: Recorder | None = None  # observes every op of the block, with `lines=True`
    _recording: Recording | None = None
    _active = False
    _paused = False
    _blocks: tuple[str, ...] = ()  # the open `with` blocks, of recordings and pauses
    _stops = 0  # the number of open stop_recording blocks
    _variables: Mapping[int, Variable] = MappingProxyType({})  # the watched ones, once the records are freed
    _used_at: Line | None = None  # file and line of the gradient call that used up the tape
    options: Mapping[str, Any] = MappingProxyType({})  # the options that TensorFlow does not have
    _budget: Any = None  # with `memory_limit`: see autodiff/budget.py
    _profiler: Any = None  # with `profile=True`: see inspect/profile.py
    _warns_while_active = True  # whether a gradient call inside the block warns
    _observes_backward = False  # whether `_backward_observer` returns an observer for every pass

    def __init__(
        self,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        *,
        check_numerics: bool = False,
        strong_zeros: bool = False,
        profile: bool = False,
        lines: bool | None = None,
        graph: bool = False,
        memory_limit: int | str | None = None,
        spill: str | None = None,
        digests: bool = False,
        **unknown: NoReturn,
    ) -> None:
        if unknown:
            raise _unknown_argument(next(iter(unknown)))
        self._persistent = bool(persistent)
        self._watch_accessed = bool(watch_accessed_variables)
        if lines is None:
            lines = settings.none_policy != "none"
        if check_numerics or strong_zeros or profile or lines or graph or digests:
            chosen = {
                "check_numerics": check_numerics,
                "strong_zeros": strong_zeros,
                "profile": profile,
                "lines": lines,
                "graph": graph,
                "digests": digests,
            }
            self.options = {name: value for name, value in chosen.items() if value}
        if memory_limit is not None or spill is not None:
            self._budget = _budget_of(memory_limit, spill, self.options)
            self.options = {**self.options, "memory_limit": self._budget.limit}
        self._log: list[Any] = []  # fields of events: recording starts and stops, tensors are watched

    # -- recording ---------------------------------------------------------------------------------------------------
    # A signal may interrupt any of this: see `gradtape._src.interrupts` for the rules.
    def __enter__(self: T) -> T:
        if self._paused:  # `with tape.pause():` - the block is the pause
            self._blocks += ("pause",)
            return self
        if self._active:
            raise ValueError("Tape is still recording, This can happen if you try to re-enter an already-active tape.")
        if (placement.places or self.options) and stack.active_stack() is None:
            end_step("a new tape begins")
        try:
            self._blocks += ("record",)
            self._start()
            stack.open_tapes.add(id(self))
            if self._op_logger is not None:
                stack.start(self._op_logger)
            return self
        except BaseException:
            self._abandon()
            self._blocks = self._blocks[:-1]
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            if self._blocks and self._blocks[-1] == "pause":
                if self._paused:
                    self.resume()
            else:
                self._paused = False
                stack.open_tapes.discard(id(self))
                if self._op_logger is not None:
                    stack.stop(self._op_logger)
                if self._active:
                    self._stop("exit")
        except BaseException:
            if self._blocks and self._blocks[-1] == "pause":
                self._recover()
            else:
                self._abandon()
            raise
        finally:
            self._blocks = self._blocks[:-1]

    def _start(self) -> None:
        if self._recording is None:
            self._recording = Recording(self._watch_accessed, self._persistent)
            if self.options:
                self._recording.lazy = "graph" in self.options
                self._observe(self._recording)
        stack.start(self._recording)
        self._active = True
        if self._profiler is not None:
            self._profiler.enter()
        if len(self._log) < LIMIT:
            self._log.append(("start", next_uid(), 0, 0, None, get_ident()))

    def _stop(self, why: str) -> None:
        assert self._recording is not None
        stack.stop(self._recording)
        self._active = False
        if self._profiler is not None:
            self._profiler.leave()
        if len(self._log) < LIMIT:
            self._log.append((why, next_uid(), 0, 0, None if why == "exit" else user_line() or UNKNOWN))

    def _abandon(self) -> None:
        """End a block that was interrupted on entry or exit."""
        stack.open_tapes.discard(id(self))
        for recorder in (self._op_logger, self._recording):
            if recorder is not None:
                stack.stop(recorder)
        self._active = self._paused = False
        if self._profiler is not None:
            self._profiler.leave()

    def _recover(self) -> None:
        """Resume recording if a switch between recording and not recording was interrupted."""
        if self._recording is not None:
            stack.stop(self._recording)
        self._active = self._paused = False
        self._start()

    def _state(self) -> str:
        if self._active:
            return "recording"
        if self._paused:
            return "paused"
        if self._recording is not None:
            return "stopped inside stop_recording()" if self._stops else "not recording: its `with` block has ended"
        return "used up" if self._used_at else "new: it was never entered"

    def watch(self, tensor: Any) -> None:
        """Watch a tensor or variable, or every one in a structure of them.

        >>> import gradtape as tf
        >>> x = tf.constant(2.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x**3
        >>> float(tape.gradient(y, x))
        12.0
        """
        sources = [part for leaf in leaves(tensor) for part in components(leaf)]
        for source in sources:
            if not isinstance(source, (Tensor, Variable)):
                raise ValueError(
                    f"Passed in object {source} of type '{type(source).__name__}', not tf.Tensor or tf.Variable or "
                    "ExtensionType. A tape can watch only tensors and variables: convert it with tf.constant or "
                    "tf.Variable."
                )
        recording = self._recording
        if recording is None:
            raise RuntimeError(
                f"GradientTape.watch was called on a tape that is {self._state()}. Call it inside the tape's `with` "
                "block."
            )
        for source in sources:
            if not is_differentiable(array_of(source)):
                warn_per_call_site(
                    "The dtype of the watched tensor must be floating (e.g. tf.float32), got %r", source.dtype, most=5
                )
            if isinstance(source, Variable) and source.uid not in recording.tracked:
                recording.detach_reads(source.uid)
            recording.track(source)
        if len(self._log) < LIMIT:
            if not sources:
                self._log.append(("watched nothing", next_uid(), 0, 0, user_line() or UNKNOWN))
            for source in sources:
                self._log.append(("watch", next_uid(), source.uid, 0, None, get_ident()))

    def stop_recording(self) -> _Stopped:
        """Stop recording on this tape inside a `with` block; other tapes still record. Blocks can be nested.

        >>> import gradtape as tf
        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     with tape.stop_recording():
        ...         weight = x * x
        ...     y = weight * x
        >>> float(tape.gradient(y, x))
        4.0
        """
        return _Stopped(self)

    def pause(self: T) -> T:
        """Stop recording until `resume`, or to the end of a `with tape.pause():` block. Returns the tape itself.

        >>> import gradtape as tf
        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        ...     with tape.pause():
        ...         print("y is", float(y * 1.0))
        ...     z = y * x
        y is 4.0
        >>> float(tape.gradient(z, x))
        12.0
        """
        if not self._active:
            raise ValueError(f"pause() needs a tape that is recording, but this tape is {self._state()}.")
        try:
            self._stop("pause")
            self._paused = True
            return self
        except BaseException:
            self._recover()
            raise

    def resume(self) -> None:
        """Resume recording after `pause`.

        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.pause()
        ...     scale = tf.reduce_max(tf.abs(x))
        ...     tape.resume()
        ...     y = scale * x
        <tf.GradientTape: 0 ops, 0 B saved, paused>
        >>> tape.gradient(y, x).numpy()
        np.float32(2.0)
        """
        if not self._paused:
            raise ValueError(f"resume() needs a tape that was paused, but this tape is {self._state()}.")
        try:
            self._paused = False
            self._start()
        except BaseException:
            self._recover()
            raise

    def reset(self) -> None:
        """Discard all recorded ops and all watched tensors, and continue recording.

        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        ...     tape.reset()
        ...     z = 3.0 * x
        >>> tape.gradient([y, z], x).numpy()
        np.float32(3.0)
        """
        if not self._active:
            raise ValueError(f"Tape is not recording. It is {self._state()}.")
        try:
            self._stop("reset")
            if self._recording is not None:
                self._discarded = (*self._discarded[-9:], self._recording.summarise())
            self._recording = None
            self._start()
        except BaseException:
            if self._recording is not None and self._recording.consumed:
                self._recording = None
            self._recover()
            raise

    def watched_variables(self) -> tuple[Variable, ...]:
        """Return the variables this tape watches, in the order of their creation.

        >>> w, b = tf.Variable(2.0, name="w"), tf.Variable(1.0, name="b")
        >>> with tf.GradientTape() as tape:
        ...     y = w * 3.0
        >>> [v.name for v in tape.watched_variables()]
        ['w:0']
        """
        watched = self._variables if self._recording is None else self._recording.variables
        return tuple(v for _, v in sorted(watched.items()))

    @property
    def records(self) -> list[Record]:
        """The ops recorded so far, in order.

        >>> x = tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = tf.exp(x * x)
        >>> len(tape.records)
        2
        """
        return [] if self._recording is None else [Record.of(record) for record in self._recording.records]

    # -- derivatives ------------------------------------------------------------------------------------------------
    def _require_record(self) -> Recording:
        if self._recording is None:
            if self._used_at is None:
                first = "This tape was never entered: open it with `with tape:` first."
            else:
                where = ":".join(map(str, self._used_at))
                first = f"It was used at {where}. Create it with persistent=True to compute more than one gradient."
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients (or jacobians). "
                + first
            )
        return self._recording

    def _use_up(self) -> None:
        if self._recording is not None:
            self._variables = self._recording.variables
            self._summary = self._recording.summarise()
            if self._budget is not None:
                self._budget.clear()
        self._recording = None
        caller = sys._getframe(2).f_back  # the caller of the method: skip this frame and the end of the gradient call
        if caller is not None and not is_library(file := caller.f_code.co_filename):
            self._used_at = (file, caller.f_lineno)  # the common case, without a search (benchmark: mlp32)
        else:
            self._used_at = user_line() or UNKNOWN

    def _observe(self, recording: Recording) -> None:
        """Set up the options of this tape for a new recording."""


# Unknown arguments are accepted only for a better error; they are not part of the signature.
_known = [p for p in inspect.signature(RecordingTape.__init__).parameters.values() if p.kind is not p.VAR_KEYWORD]
setattr(RecordingTape.__init__, "__signature__", inspect.Signature(_known, return_annotation=None))  # noqa: B010 - for mypy


def _unknown_argument(name: str) -> TypeError:
    """Python's error for an unknown argument, with the closest name that exists."""
    import difflib

    known = list(inspect.signature(RecordingTape).parameters)
    close = difflib.get_close_matches(name, known, 1)
    advice = f"Did you mean '{close[0]}'?" if close else f"Its arguments are {', '.join(known)}."
    return TypeError(f"GradientTape.__init__() got an unexpected keyword argument '{name}'. {advice}")


def _budget_of(limit: Any, spill: Any, options: Mapping[str, Any]) -> Any:
    """The budget of a tape with a `memory_limit`."""
    from gradtape._src.autodiff.budget import Budget, parse_limit

    if spill not in (None, "disk", "host"):
        raise ValueError(f"spill must be None, 'disk' or 'host'; received {spill!r}.")
    if limit is None:
        raise ValueError("spill needs a memory_limit, such as memory_limit='2GB'.")
    for name in ("profile", "check_numerics", "graph"):
        if name in options:
            raise ValueError(f"memory_limit cannot be used together with {name}=True: both observe every op.")
    return Budget(parse_limit(limit), spill)


class _Stopped(contextlib.ContextDecorator):
    """The context manager of `stop_recording`."""

    def __init__(self, tape: RecordingTape) -> None:
        self._tape = tape

    def _recreate_cm(self) -> _Stopped:
        return _Stopped(self._tape)

    def __enter__(self) -> None:
        tape = self._tape
        if tape._recording is None and not tape._stops:
            raise RuntimeError("Trying to stop recording a tape which is not recording.")
        if not tape._active and not tape._stops and not tape._paused:
            raise ValueError(f"Tape is not recording. It is {tape._state()}.")
        self._before = tape._stops
        self._was_active = tape._active
        try:
            if self._was_active:
                tape._stop("stop_recording")
            tape._stops = self._before + 1
        except BaseException:
            self._recover()
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            tape = self._tape
            tape._stops = self._before
            if self._was_active:
                if tape._active:
                    raise ValueError(
                        "Tape is still recording, This can happen if you try to re-enter an already-active tape."
                    )
                tape._start()
        except BaseException:
            self._recover()
            raise

    def _recover(self) -> None:
        self._tape._stops = self._before
        if self._was_active:
            self._tape._recover()
