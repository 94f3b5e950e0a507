"""A signal at every place of a program where Python can notice one, in order, without a clock.

CPython notes a signal when it arrives and runs its handler at the next of a few places: when a function begins, after
a call of something that is written in C, when a loop goes back. Where the handler raises, the exception appears there:
also between the two halves of a `with` statement, inside `__enter__`, before the first line of `__exit__`.

`every_interrupt(action)` runs an action again and again. In the first run the signal arrives at the first such place,
in the second at the second, until a run ends before its signal. The arrival is real: `PyErr_SetInterruptEx` does what
the system does, and it is called from C between two instructions of the action, so that nothing else notices first.
"""

from __future__ import annotations

import ctypes
import functools
import opcode
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gradtape

SIGNAL = signal.SIGUSR1
PACKAGE = str(Path(gradtape.__file__).parent)
TESTS = str(Path(__file__).parent)
_NOTICING = frozenset(
    code
    for name, code in opcode.opmap.items()
    if name.startswith(("CALL", "JUMP_BACKWARD")) and "INTRINSIC" not in name
)


class Interrupt(BaseException):
    """What the handler raises."""


class _Untraced:
    """An argument of `_arrive`: converting it to C ends the tracing."""

    from_param = sys.settrace


_arrive = ctypes.pythonapi.PyErr_SetInterruptEx
_arrive.argtypes = [ctypes.c_int, _Untraced, ctypes.py_object, ctypes.py_object, ctypes.py_object]
_arrive.restype = {}.get  # type: ignore[assignment] # what a trace function returns, in C: None


class _Tracer:
    """Counts the places where the interpreter looks for signals, and lets one arrive at the chosen place.

    The trace function of the chosen event is a C function: no instruction of this class comes between the arrival and
    the action's own next look, and that is not traced any more.
    """

    def __init__(self, chosen: int, files: tuple[str, ...]) -> None:
        self.chosen, self.files, self.count, self.where = chosen, files, 0, ""
        self._armed = functools.partial(_arrive, SIGNAL, None)

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if event == "call":
            if not frame.f_code.co_filename.startswith(self.files):
                return None
            # A frame that has no trace function yet gives its first instructions without events from Python 3.12 on.
            frame.f_trace, frame.f_trace_lines, frame.f_trace_opcodes = self, False, True
            return self._place(frame)
        if event == "opcode" and frame.f_code.co_code[frame.f_lasti] in _NOTICING:
            return self._place(frame)
        return self

    def _place(self, frame: Any) -> Any:
        self.count += 1
        if self.count != self.chosen:
            return self
        self.where = f"{frame.f_code.co_filename}:{frame.f_lineno} {frame.f_code.co_name}"
        sys.settrace(self._armed)  # the next event of whatever kind
        return self._armed


def interrupted_at(place: int, action: Callable[[], Any], files: tuple[str, ...] = ()) -> tuple[bool, str]:
    """Run the action with a signal arriving at a place: whether it was interrupted, and where."""
    tracer = _Tracer(place, (PACKAGE, TESTS, *files))

    def handler(number: int, frame: Any) -> None:
        raise Interrupt

    before = signal.signal(SIGNAL, handler)
    try:
        try:
            sys.settrace(tracer)
            action()
        finally:
            sys.settrace(None)
    except Interrupt:
        return True, tracer.where
    finally:
        signal.signal(SIGNAL, before)
    return tracer.count >= place, tracer.where


def every_interrupt(action: Callable[[], Any], step: int = 1, files: tuple[str, ...] = ()) -> Iterator[str]:
    """Interrupt the action everywhere, one place after the other (or every `step`-th); yields where, after each."""
    place = 1
    while True:
        interrupted, where = interrupted_at(place, action, files)
        if not interrupted:
            return
        yield where
        place += step
