"""Records, and the stack of recorders that ops add them to.

A record is a plain tuple, because one is made for every op (benchmark: chain):

    op      the primitive
    inputs  uid of each input (0 for a Python or NumPy operand)
    output  uid of the output, or a tuple of uids where the primitive has several outputs
    values  the saved tensors by position: inputs first, then outputs; None where no rule needs the value
    attrs   the primitive's static arguments
    dtype   NumPy's dtype of the output, or a tuple of them

For primitives declared by `unary`, inputs is one uid and values one tensor, without tuples around them. Off the hot
path, read records through `Record.of`, which gives every record the same form and names its parts.

A recorder is an observer with `tracked` (uid -> shape of what it tracks) and `append(record)`: a tape appends to its
list, a forward accumulator computes tangents immediately. If `append` returns True, `on_op` is called with the tensors
of the op: views use it to find the lines, times and NaN of ops, at no cost for a plain tape.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from gradtape._src import tensor
from gradtape._src.active import Stack, active, active_stack as active_stack
from gradtape._src.core.observe import Observer
from gradtape._src.interrupts import guarded, setting

if TYPE_CHECKING:
    from gradtape._src.core.primitive import Op


class Record(NamedTuple):
    """One op call, as a tape keeps it."""

    op: Op
    inputs: tuple[int, ...]
    output: Any  # an int, or a tuple of them
    values: tuple[Any, ...]
    attrs: dict[str, Any]
    dtype: Any

    @classmethod
    def of(cls, record: Any) -> Record:
        """Convert a record of a tape to the general form, with tuples everywhere."""
        op, inputs, output, values, attrs, dtype = record
        if type(inputs) is int:
            inputs, values = (inputs,), saved_by_slot(op, values)
        return cls(op, inputs, output, values, attrs, dtype)


def saved_by_slot(op: Op, value: Any) -> tuple[Any, ...]:
    """The saved values of an op with one input, by position."""
    if type(value) is tuple:
        return value
    return (value, None) if 0 in op.saves else (None, value)


class Recorder(Observer):
    """An observer that ops visit: it tracks uids, and gets records."""

    __slots__ = ("append", "born", "may_raise", "records", "tracked")

    tracked: dict[int, tuple[int, ...]]
    append: Callable[[Any], Any]
    may_raise: bool  # whether some record's rule may raise (user code, singular matrices)
    budget: Any = None  # if the tape has a memory limit
    persistent: bool = False  # whether several gradients may be computed from the records
    pushes: ClassVar[bool] = False  # whether `append` computes with the outputs of the op, as in forward mode

    def __init__(self) -> None:
        self.records: list[Any] = []
        self.append = self.records.append
        self.tracked = {}
        self.born = 0  # when recording first began: see `clock`
        self.may_raise = False


clock: Callable[[], int] = itertools.count(1).__next__
"""Numbers batches and recorders: a recorder with a higher number than a batch started inside it."""


def link(recorder: Recorder, around: Stack) -> Stack:
    """A stack with one more recorder, whose `tracked` and `append` must not be replaced after this."""
    return (recorder.tracked, recorder.append, recorder, around)


def active_recorders() -> tuple[Recorder, ...]:
    """The active recorders, innermost first. Outer recorders record what inner ones compute."""
    recorders, stack = [], active_stack()
    while stack is not None:
        _, _, recorder, stack = stack
        recorders.append(recorder)
    if recorders and type(recorders[-1]) is _Nesting:
        return recorders[-1].recorders
    return tuple(recorders)


open_tapes: set[int] = set()
"""The ids of tapes of any thread that record or pause. While there is one, reads of variables that no tape records are
logged, so that `explain` can report them."""

unrecorded_reads: deque[tuple[int, int, int, str]] = deque(maxlen=1000)
"""Reads of variables that no tape recorded: the time (a uid), the variable's uid, the thread and its name."""


def add_unrecorded_read(variable: Any) -> None:
    """Log a read of a variable without an active recorder, while some tape is open."""
    thread = threading.current_thread()
    unrecorded_reads.append((tensor.next_uid(), variable.uid, thread.ident or 0, thread.name))


def start(recorder: Recorder) -> None:
    """Push a recorder: it observes every op of this thread or task."""
    if not recorder.born:
        recorder.born = clock()
    stack = active_stack()
    if recorder.pushes or (stack is not None and _nesting(stack) is not None):
        active.set(_stack_of((recorder, *active_recorders())))
    else:
        active.set((recorder.tracked, recorder.append, recorder, stack))  # `link`, inlined (benchmark: mlp32)


def stop(recorder: Recorder) -> None:
    """Remove a recorder from any position of the stack."""
    stack = active_stack()
    if stack is not None and stack[2] is recorder and (stack[3] is None or _nesting(stack) is None):
        active.set(stack[3])
    else:
        active.set(_stack_of([r for r in active_recorders() if r is not recorder]))


class started:
    """Context in which an additional recorder observes every op of this thread or task."""

    __slots__ = ("_recorder",)

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    def __enter__(self) -> None:
        try:
            start(self._recorder)
        except BaseException:
            stop(self._recorder)
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            stop(self._recorder)
        except BaseException:
            stop(self._recorder)
            raise


def use_recorders(recorders: Sequence[Recorder]) -> setting[Stack]:
    """Context in which only these recorders observe ops."""
    return setting(active, _stack_of(recorders))


def _stack_of(recorders: Sequence[Recorder]) -> Stack:
    """A stack of these recorders, innermost first.

    An accumulator computes with the outputs of an op while the op is being recorded, and outer recorders record that:
    they must track the outputs first. So with an accumulator, ops visit the outermost recorder first; the end of the
    stack keeps the order of nesting.
    """
    pushing = any(recorder.pushes for recorder in recorders)
    stack: Stack = link(_Nesting(tuple(recorders)), None) if pushing else None
    for recorder in recorders if pushing else reversed(recorders):
        stack = link(recorder, stack)
    return stack


class _Nesting(Recorder):
    """The end of a stack whose recorders are visited from outermost to innermost: it tracks nothing."""

    __slots__ = ("recorders",)

    def __init__(self, recorders: tuple[Recorder, ...]) -> None:
        super().__init__()
        self.recorders = recorders


def _nesting(stack: Stack) -> tuple[Recorder, ...] | None:
    """The recorders of such a stack, innermost first."""
    while stack is not None:
        _, _, recorder, stack = stack
        if stack is None and type(recorder) is _Nesting:
            return recorder.recorders
    return None
