"""The context of one gradient call."""

from __future__ import annotations

from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.recording import gradient_calls
from gradtape._src.autodiff.recording_tape import RecordingTape
from gradtape._src.call_sites import UNKNOWN, user_line, warn_per_call_site
from gradtape._src.core import tape as stack
from gradtape._src.interrupts import guarded
from gradtape._src.tensor import next_uid


class GradientCall:
    """The context of one gradient call: the backward pass may be recorded, and the call may use up the tape."""

    __slots__ = ("_first", "_method", "_tape", "_was_active")

    def __init__(self, tape: RecordingTape, method: str) -> None:
        self._tape, self._method = tape, method

    def __enter__(self) -> bool:
        tape = self._tape
        self._was_active = tape._active
        if self._was_active and tape._persistent and tape._warns_while_active:
            warn_per_call_site(
                "Calling GradientTape.%s on a persistent tape inside its context is significantly less efficient than "
                "calling it outside the context (the gradient ops are recorded too, which costs time and memory). Do "
                "it only to get higher-order derivatives; otherwise use stop_recording.",
                self._method,
                most=1,
            )
        try:
            if self._was_active and not tape._persistent:
                tape._stop("gradient call")
            if tape._op_logger is not None:  # it logs the ops of the program, not those of the backward pass
                stack.stop(tape._op_logger)
            self._first = next_uid()
            # Solvers trace without a recorder.
            return stack.active_stack() is not None or current_graph() is not None
        except BaseException:
            self._recover()
            raise

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        try:
            tape = self._tape
            if kind is not None:
                self._recover()
                return
            if not tape._persistent:
                tape._use_up()
            if tape._op_logger is not None and "record" in tape._blocks:
                stack.start(tape._op_logger)
            where = user_line() if tape._used_at is None else tape._used_at
            gradient_calls.append((self._first, next_uid(), self._method, where or UNKNOWN))
        except BaseException:
            self._recover()
            raise

    def _recover(self) -> None:
        """After an error, restore the tape, or mark it as used up if the backward pass was freeing its records."""
        tape = self._tape
        if tape._recording is not None and tape._recording.consumed:
            tape._use_up()
        elif tape._recording is not None and self._was_active and not tape._persistent:
            tape._recover()
        if tape._op_logger is not None and "record" in tape._blocks:
            stack.stop(tape._op_logger)
            stack.start(tape._op_logger)
