"""Tiers: a program runs on NumPy immediately, and on XLA as soon as it is compiled and measures faster.

The first calls run on NumPy. When they have taken some of the time that XLA needs to compile the program, XLA compiles
it in a background thread; a program that keeps all cores busy waits longer. Then the executors take turns of a few
calls each, because on a busy machine times change from one second to the next, and the faster one runs the program
from then on. The one with the best time has to win most turns as well; until it does, the trial continues for a while.
A call runs on one executor only, so variables, side effects and random numbers are updated once.

The executors compute in different orders: the last digits may change when the executor does, and measured times decide
when that is. `tf.config.experimental.enable_op_determinism` keeps functions on XLA from the first call.
"""

from __future__ import annotations

import queue
import sys
import threading
from typing import TYPE_CHECKING, Any

from gradtape._src import forks
from gradtape._src.graph.replay import runs_on_all_cores
from gradtape._src.interrupts import is_interrupt
from gradtape._src.threads import background, start

if TYPE_CHECKING:
    from gradtape._src.graph.program import Program

_TURN = 3
"""The number of calls in a turn; the first one moves the variables' arrays and does not count."""

_TURNS, _MOST_TURNS = 6, 60
"""The smallest and largest number of turns; even numbers, so that both executors get as many."""

_TRIAL = 0.15
"""The duration of a trial in seconds: on a busy machine single calls of a millisecond are interrupted, few are not."""

_LEAD, _PATIENCE, _UNCLEAR_TURNS = 4, 10, 12
"""The lead in pairs of turns that the faster executor needs unless it won all, and how much longer a trial may take for
that: `_PATIENCE` times its duration, and at least `_UNCLEAR_TURNS`. On a quiet machine it leads from the start; on a
busy one, the best time of a few calls is a matter of chance.
"""

_SECONDS, _SECONDS_PER_NODE, _SECONDS_OF_IMPORT = 0.2, 0.005, 0.6
"""About what XLA takes to compile a program, and what importing JAX takes before the first one."""

_SHARE = 0.1
"""The share of that time after which compiling pays off, on a core that is idle. A program that runs on all cores waits
for the whole time, because compiling slows down its calls: a training step of 50 ms took 90 meanwhile.
"""

_LAUNCH = 8e-6
"""The time that XLA takes to launch any program: a faster one stays on NumPy, and JAX is not imported for it."""


class Tier:
    """Chooses the executor of a program.

    on_numpy    whether the next call runs on NumPy
    is_settled  whether the choice is final: calls are not timed any more
    reason      why the executor was chosen, for `Function.summary`
    """

    __slots__ = (
        "_best",
        "_calls",
        "_compiling",
        "_lead",
        "_lock",
        "_program",
        "_spent",
        "_turn_best",
        "_turns",
        "is_settled",
        "on_numpy",
        "reason",
    )

    def __init__(self, program: Program) -> None:
        self._program = program
        self.on_numpy, self.is_settled = True, False
        self.reason = "not called often enough to be worth compiling"
        self._best = {True: float("inf"), False: float("inf")}  # seconds, by whether on NumPy
        self._turn_best = dict(self._best)  # in the last turn of each
        self._lead = 0  # turns that NumPy has won, minus those that XLA has won
        self._spent, self._calls, self._turns, self._compiling = 0.0, 0, 0, False
        self._lock = forks.lock()

    def add(self, on_numpy: bool, seconds: float) -> None:
        """Add the duration of a call."""
        if self._turns:
            self._try(on_numpy, seconds)
            return
        self._calls += 1
        self._best[True] = seconds if self._calls <= 2 else min(self._best[True], seconds)  # 1st: writes code
        self._spent += seconds
        if not self._compiling and self._spent > self._worth_compiling():
            if self._best[True] < _LAUNCH:
                self._stay()
            else:
                self._compile()

    def _worth_compiling(self) -> float:
        """The seconds on NumPy after which XLA compiles the program."""
        program = self._program
        expected = _SECONDS + _SECONDS_PER_NODE * len(program.nodes)
        if "jax" not in sys.modules:
            expected += _SECONDS_OF_IMPORT
        return expected if any(runs_on_all_cores(node, program.sizes) for node in program.nodes) else _SHARE * expected

    def _try(self, on_numpy: bool, seconds: float) -> None:
        """Add the duration of a call while both executors are measured."""
        if on_numpy != self.on_numpy:
            return  # a call of another thread, which began before this turn
        self._calls += 1
        self._spent += seconds
        if self._calls > 1:
            self._best[on_numpy] = min(self._best[on_numpy], seconds)
            self._turn_best[on_numpy] = min(self._turn_best[on_numpy], seconds)
        if self._calls < _TURN:
            return
        if self._turns % 2 == 0:
            self._lead += 1 if self._turn_best[True] <= self._turn_best[False] else -1
        if self._has_tried_enough():
            self._settle()
        else:
            self._begin_turn(not on_numpy)

    def _has_tried_enough(self) -> bool:
        if self._turns % 2 or self._turns < _TURNS or not (self._spent >= _TRIAL or self._turns >= _MOST_TURNS):
            return False
        pairs = self._turns // 2
        lead = self._lead if self._best[True] <= self._best[False] else -self._lead
        if lead >= max(min(_LEAD, pairs), pairs / 2):  # it won three of four pairs
            return True
        is_over = self._spent >= _PATIENCE * _TRIAL and self._turns >= _UNCLEAR_TURNS
        return is_over or self._turns >= _PATIENCE * _MOST_TURNS

    def _begin_turn(self, on_numpy: bool) -> None:
        self.on_numpy = on_numpy
        self._turn_best[on_numpy] = float("inf")
        self._calls = 0
        self._turns += 1

    def _compile(self) -> None:
        with self._lock:
            if self._compiling:
                return
            self._compiling = True
        self.reason = "until XLA has compiled it"
        try:
            _compiler.submit(self._compiled)
        except BaseException:  # raised by a signal handler
            self._compiling = False
            raise

    def _compiled(self) -> None:
        """Compile the program in the background thread; the next calls try it."""
        program = self._program
        try:
            program.compile(program.modes[True])
        except Exception as error:
            if is_interrupt(error):
                raise
            self.reason = f"XLA did not compile it: {error}"
            self.is_settled = True
        else:
            self._best = {True: float("inf"), False: float("inf")}
            self._spent = 0.0
            self.reason = "both are being measured"
            self._begin_turn(on_numpy=False)

    def stay_on_numpy(self, reason: str) -> None:
        """Keep the program on NumPy, and give a reason."""
        self.on_numpy, self.is_settled, self.reason = True, True, reason

    def _stay(self) -> None:
        self.is_settled = True
        self.reason = f"NumPy takes {1e6 * self._best[True]:.2g} µs, less than XLA takes to launch a program"

    def _settle(self) -> None:
        self.on_numpy, self.is_settled = self._best[True] <= self._best[False], True
        numpy, xla = (f"{1e3 * self._best[kind]:.3g} ms" for kind in (True, False))
        self.reason = f"NumPy took {numpy}, XLA {xla}"


class _Compiler:
    """A background thread that compiles one program after the other; it ends when there are none left.

    When the process exits, it finishes the current program and drops the rest.
    """

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._lock = forks.lock()
        self._thread: threading.Thread | None = None
        self._generation = forks.generation

    def submit(self, compile_: Any) -> None:
        """Queue a program to be compiled."""
        with self._lock:
            if self._generation != forks.generation:  # a forked child does not have the thread
                self._thread, self._generation = None, forks.generation
                self._waiting = queue.SimpleQueue()
            self._waiting.put(compile_)
            if self._thread is None or not self._thread.is_alive():  # a signal may have interrupted its start
                self._thread = threading.Thread(target=self._run, name="gradtape-compiler")
                start(self._thread)

    def _run(self) -> None:
        background.append(None)
        while True:
            with self._lock:
                if self._waiting.empty() or not threading.main_thread().is_alive():
                    self._thread = None
                    background.pop()
                    return
                compile_ = self._waiting.get()
            compile_()

    def wait(self) -> None:
        """Wait until all queued programs are compiled."""
        thread = self._thread
        if thread is not None:
            thread.join()


_compiler = _Compiler()


def wait_for_compiler() -> None:
    """Wait until all programs that are queued for background compilation are compiled."""
    _compiler.wait()
