"""`GradientTape(profile=True)` and `tape.profile()`: where time is spent, by op and by line of the user's code.

Two kinds of time are measured:

    forward   the time inside an op's kernel, from call to return. Kernels are wrapped while a profiled tape records, so
              the rest of the library and the user's own Python code are not included; `elsewhere` is the wall time of
              the recording outside of the kernels of recorded ops.
    backward  the time of one step of the backward pass: an op's rules, un-broadcasting and accumulation. If the pass is
              itself recorded (for a second derivative), this includes the recording.

A custom gradient has no kernel, and so no forward time: the ops of its body are measured one by one. Forward mode
(`jvp`, `hvp`) and the second backward pass of a `hessian` are not measured.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src import forks
from gradtape._src.core.fast.calls import write_vjps
from gradtape._src.core.observe import Observer, wrap_kernels
from gradtape._src.core.tape import Record
from gradtape._src.inspect.op_names import shown_op
from gradtape._src.inspect.op_table import array_bytes, op_table
from gradtape._src.inspect.tables import Column, Report, Table, bytes_text, line_text, plural, shape_text, time_text

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape
    from gradtape._src.core.primitive import Op

_now = time.perf_counter_ns


# -- measuring -------------------------------------------------------------------------------------------------------
class _Clock(threading.local):
    """The kernel that ran last in this thread, and the total time of kernels."""

    last: tuple[Any, int, int] | None = None
    total = 0


_clock = _Clock()
_lock = forks.lock()
_measuring: set[int] = set()  # ids of the profilers whose tapes record


def _measured(op: Op, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **attrs: Any) -> Any:
        start = _now()
        result = kernel(*args, **attrs)
        end = _now()
        _clock.last = (op, start, end)
        _clock.total += end - start
        return result

    return run


def _measure(profiler: int, on: bool) -> None:
    """Wrap the kernels when the first profiled tape begins, and unwrap them when the last one ends.

    Calling it twice has no further effect, so that an interrupted change can be repeated.
    """
    with _lock:
        (_measuring.add if on else _measuring.discard)(profiler)
        if _measuring != {profiler} - (set() if on else {profiler}):
            return  # others still measure
        wrap_kernels("profile", _measured if on else None)


class Span(NamedTuple):
    """The interval of one op, forward or backward, in nanoseconds of a monotonic clock."""

    uid: int  # of the (first) output
    op: str
    start: int
    end: int
    thread: int


class Profiler(Observer):
    """The measurements of one recording. It holds no arrays, and outlives the records."""

    def __init__(self, recording: Any) -> None:
        self._roots: set[int] = recording.roots
        self._owners: set[int] = set()
        self.forward: list[Span] = []
        self.backward: list[list[Span]] = []  # of every backward pass
        self.blocks: list[tuple[int, int]] = []  # the intervals in which the tape recorded
        self.saved: dict[int, int] = {}
        self.unrecorded = 0  # time in kernels of ops that the tape did not record
        self._began: tuple[int, int] | None = None
        self._taken = 0

    def enter(self) -> None:
        _measure(id(self), True)
        self._began, self._taken = (_now(), _clock.total), 0

    def leave(self) -> None:
        _measure(id(self), False)
        if self._began is not None:
            start, total = self._began
            self.blocks.append((start, _now()))
            self.unrecorded += max(0, _clock.total - total - self._taken)
            self._began = None

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        op, _, output, values, _, _ = Record.of(record)
        uid = output[0] if type(output) is tuple else output
        self.saved[uid] = self._new_bytes(values)
        last = _clock.last
        if last is not None and last[0] is op:
            _, start, end = last
            self.forward.append(Span(uid, shown_op(op), start, end, threading.get_ident()))
            self._taken += end - start

    def _new_bytes(self, values: tuple[Any, ...]) -> int:
        """Bytes that were not saved before and belong neither to variables nor to watched tensors; see `Row.saved`."""
        size = 0
        for value in values:
            if value is not None and value.uid not in self._roots:
                owner, nbytes = array_bytes(value.array)
                if owner not in self._owners:
                    self._owners.add(owner)
                    size += nbytes
        return size

    def backward_pass(self, records: list[Any]) -> _Timer:
        """The observer of a backward pass that is about to begin."""
        timer = _Timer(records)
        self.backward.append(timer.spans)
        return timer

    def times(self) -> tuple[dict[int, int], dict[int, int]]:
        """Nanoseconds by uid: forward, and backward in all passes together."""
        forward = {span.uid: span.end - span.start for span in self.forward}
        backward: dict[int, int] = {}
        for spans in self.backward:
            for span in spans:
                backward[span.uid] = backward.get(span.uid, 0) + span.end - span.start
        return forward, backward


class _Timer(Observer):
    """Measures the steps of one backward pass, each from the end of the previous one."""

    __slots__ = ("_started", "_thread", "spans")

    def __init__(self, records: list[Any]) -> None:
        for op in {record[0] for record in records}:
            if op.vjps is None and op.vjp_all is None:
                write_vjps(op)  # happens once in a program: not part of the cost of this pass
        self.spans: list[Span] = []
        self._thread, self._started = threading.get_ident(), _now()

    def on_vjp(self, record: Record, gs: Sequence[Any], results: dict[int, Any]) -> None:
        output = record.output
        uid = output[0] if type(output) is tuple else output
        self.spans.append(Span(uid, shown_op(record.op), self._started, _now(), self._thread))
        self._started = _now()


# -- the report ------------------------------------------------------------------------------------------------------
class ProfileEntry(NamedTuple):
    """The cost of one kind of op, or of one line: calls and nanoseconds."""

    what: str
    calls: int
    forward: int
    backward: int
    saved: int

    @property
    def total(self) -> int:
        return self.forward + self.backward


def profile(tape: Tape) -> Profile:
    """See `GradientTape.profile`."""
    if tape._profiler is None:
        advice = "Create it with GradientTape(profile=True) and run the block again."
        if tape.options.get("profile"):
            advice = "It has not recorded anything yet."
        raise RuntimeError(f"This tape was not profiled. {advice}")
    return Profile(tape)


class Profile(Report):
    """The tables of `tape.profile()`."""

    max_rows = 20

    def __init__(self, tape: Tape) -> None:
        profiler: Profiler = tape._profiler
        facts = op_table(tape)
        self.rows = facts.rows
        """A row for each op, as in `tape.summary()`."""
        self._profiler, self._lines = profiler, {row.outputs[0]: row.line for row in facts.rows}
        self._remark = facts.remark
        self.forward = sum(span.end - span.start for span in profiler.forward)
        """Nanoseconds in kernels of recorded ops."""
        self.backward = sum(span.end - span.start for spans in profiler.backward for span in spans)
        """Nanoseconds in backward passes."""
        self.walks = len(profiler.backward)
        recorded = sum(end - start for start, end in profiler.blocks)
        self.elsewhere = max(0, recorded - self.forward) if profiler.blocks else 0
        """Nanoseconds of the recording in the library, the user's Python code and ops that were not recorded."""
        self.by_op = self._entries([(row, row.op) for row in facts.rows])
        self.by_line = self._entries([(row, row.line) for row in facts.rows if row.line is not None])

    def _entries(self, keyed: list[tuple[Any, Any]]) -> list[ProfileEntry]:
        totals: dict[Any, list[int]] = {}
        for row, key in keyed:
            total = totals.setdefault(key, [0, 0, 0, 0])
            for i, n in enumerate((1, row.forward, row.backward, row.saved)):
                total[i] += n or 0
        entries = [
            ProfileEntry(key if isinstance(key, str) else line_text(key), *numbers) for key, numbers in totals.items()
        ]
        return sorted(entries, key=lambda e: (-e.total, e.what))

    def tables(self) -> list[Table]:
        walks = f" ({self.walks} walks)" if self.walks > 1 else ""
        elsewhere = f"{time_text(self.elsewhere)} elsewhere in the block" if self._profiler.blocks else ""
        unrecorded = self._profiler.unrecorded
        if unrecorded and elsewhere:
            elsewhere += f" (including {time_text(unrecorded)} in ops that were not recorded)"
        remarks = [
            f"{time_text(self.forward)} forward in kernels, {time_text(self.backward)} backward{walks}"
            + (f", {elsewhere}." if elsewhere else ".")
        ]
        if self._remark:
            remarks.append(self._remark)
        both = [self._table("Time by op", "op", self.by_op, [] if self.by_line else remarks)]
        if self.by_line:
            both.append(self._table("Time by line", "line", self.by_line, remarks))
        return both

    def _table(self, title: str, what: str, entries: list[ProfileEntry], remarks: list[str]) -> Table:
        numbers = ("calls", "forward", "backward", "total", "share", "saved")
        columns = [Column(what), *[Column(heading, True) for heading in numbers]]
        whole = self.forward + self.backward or 1
        cells = [
            [
                e.what,
                str(e.calls),
                *[time_text(t or None) for t in (e.forward, e.backward, e.total)],
                f"{100 * e.total / whole:.1f}%",
                bytes_text(e.saved),
            ]
            for e in entries
        ]
        return Table(f"{title}: {plural(len(self.rows), 'op')}", columns, cells, remarks)

    # -- Chrome's format ---------------------------------------------------------------------------------------------
    def trace(self) -> dict[str, Any]:
        """The measurements as Chrome's trace event format: complete events, in microseconds."""
        profiler, process = self._profiler, os.getpid()
        spans = [*profiler.forward, *[s for walk in profiler.backward for s in walk]]
        starts = [start for start, _ in profiler.blocks] + [span.start for span in spans]
        origin = min(starts, default=0)
        shapes = {row.outputs[0]: row for row in self.rows}

        def event(name: str, kind: str, start: int, end: int, thread: int, args: dict[str, Any]) -> dict[str, Any]:
            return {
                "name": name,
                "cat": kind,
                "ph": "X",
                "ts": (start - origin) / 1e3,
                "dur": (end - start) / 1e3,
                "pid": process,
                "tid": thread,
                "args": args,
            }

        def facts(span: Span) -> dict[str, Any]:
            row, line = shapes.get(span.uid), self._lines.get(span.uid)
            args: dict[str, Any] = {}
            if row is not None:
                args = {"index": row.index, "output": ", ".join(map(shape_text, row.shapes))}
            return args if line is None else {**args, "line": f"{line[0]}:{line[1]}"}

        threads = {t: i for i, t in enumerate(dict.fromkeys(span.thread for span in spans))}
        found = [{"name": "process_name", "ph": "M", "ts": 0, "pid": process, "tid": 0, "args": {"name": "gradtape"}}]
        found += [event("recording", "tape", start, end, 0, {}) for start, end in profiler.blocks]
        found += [event(s.op, "forward", s.start, s.end, threads[s.thread], facts(s)) for s in profiler.forward]
        for i, walk in enumerate(profiler.backward):
            if walk:
                thread = threads[walk[0].thread]
                found.append(event(f"backward pass {i + 1}", "tape", walk[0].start, walk[-1].end, thread, {}))
            found += [event(s.op, "backward", s.start, s.end, threads[s.thread], facts(s)) for s in walk]
        return {"traceEvents": found, "displayTimeUnit": "ms"}

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the trace as a file for chrome://tracing or ui.perfetto.dev, and return its path."""
        Path(path).write_text(json.dumps(self.trace()), "utf-8")
        return os.fspath(path)
