"""How ops are observed: one protocol for tapes, `explain`, the search for NaN, the profiler and traces.

    on_op      an op has run, and is recorded           while the observer is an active recorder (`core/tape.py`)
    on_read    a variable was read
    on_escape  a value went where no op is recorded
    on_vjp     the backward pass has computed one step   while a backward pass runs with this observer

Kernels can be wrapped too, which every op of every thread then goes through: to measure them, or to look at every
result whether or not a tape is active.

`in_rule` tells an observer of ops whether an op is a step of a rule: while a pass with an observer computes a vjp, or
forward mode a jvp.

Observation costs nothing while it is not used: an op visits the active recorders anyway, the backward pass has a
separate loop for observers, and a wrapped kernel replaces the plain one (benchmark: views).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from gradtape._src import forks
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.lazy import computing, lazy_namespace
from gradtape._src.arrays.numpy.blocks import blockwise
from gradtape._src.core.primitive import Op, registry

if TYPE_CHECKING:
    from gradtape._src.core.tape import Record

Kernel = Callable[..., Any]
KernelWrapper = Callable[[Op, Kernel], Kernel]

in_rule: ContextVar[bool] = ContextVar("gradtape_in_rule", default=False)
"""Whether a rule computes a derivative here. Set only if something may observe it; false in gradients of the user's."""


class Observer:
    """What can be observed; each method does nothing until a subclass overrides it."""

    __slots__ = ()

    may_raise: bool = False
    """Whether `on_vjp` may raise: then the backward pass frees no records, and the tape is as before after an error."""

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        """An op has run: its record, its input tensors (none for a whole program) and its output tensor or tensors."""

    def on_vjp(self, record: Record, gs: Sequence[Any], results: dict[int, Any]) -> None:
        """The backward pass has processed a record.

        `gs` are the cotangents of its outputs (None for an output without one), `results` those of its inputs by uid,
        summed up so far.
        """

    def on_read(self, variable: Any) -> None:
        """A variable that is not tracked yet was read."""

    def on_escape(self, event: str, uid: int, other: int = 0) -> None:
        """A value went where no op is recorded: to Python or NumPy, into a branch, into a variable (`other`)."""


class Observers(Observer):
    """Several observers of one backward pass."""

    __slots__ = ("_observers", "may_raise")

    def __init__(self, observers: Iterable[Observer]) -> None:
        self._observers = tuple(observers)
        self.may_raise = any(observer.may_raise for observer in self._observers)

    def on_vjp(self, record: Record, gs: Sequence[Any], results: dict[int, Any]) -> None:
        for observer in self._observers:
            observer.on_vjp(record, gs, results)


# -- kernels ---------------------------------------------------------------------------------------------------------
_wrappers: dict[str, KernelWrapper] = {}
_lock = forks.lock()


def with_kernel() -> list[Op]:
    """The primitives whose NumPy kernel is an attribute, where calls find it."""
    return [op for op in registry.values() if op.kernel is not None]


def numpy_kernel(op: Op) -> Kernel:
    """The kernel of a primitive on NumPy; of an elementwise one in blocks, once there are large arrays."""
    kernel: Kernel = getattr(numpy_namespace, op.name)
    return _blockwise(kernel) if _large_arrays and op.elementwise else kernel


_blockwise = cache(blockwise)
"""One function for each kernel: comparisons tell whether a kernel is the one that it was."""


_large_arrays: list[None] = []


def has_large_arrays() -> bool:
    """Whether elementwise kernels and rules run in blocks."""
    return bool(_large_arrays)


def expect_large_arrays() -> None:
    """Let the elementwise kernels and rules run in blocks where arrays are large, from now on.

    Programs without large arrays call the kernels themselves: to look at a size costs as much as a tenth of a small op.
    """
    _large_arrays[:] = [None]
    with _lock:
        _set_kernels()


def wrap_kernels(key: str, around: KernelWrapper | None) -> None:
    """Let every kernel run as `around(op, kernel)`; None takes away what was set for this key.

    Setting the same twice is the same as once, so that a change that was interrupted can be made again.
    """
    with _lock:
        if around is not None:
            _wrappers[key] = around
        else:
            _wrappers.pop(key, None)
        _set_kernels()


def are_kernels_wrapped() -> bool:
    """Whether something looks at the operands or results of every kernel."""
    return bool(_wrappers)


def _set_kernels() -> None:
    ops = with_kernel()
    kernels = [wrapped(op, numpy_kernel(op)) for op in ops]
    recorders = [recorder(op) for op in ops]
    new = {"kernel": kernels, "recorder": recorders, "recorder_of_two": [*map(recorder_of_two, recorders)]}
    setting = [map(vars(Op)[name].__set__, ops, values) for name, values in new.items()]
    any(chain(*setting))  # one call of C code: no signal handler runs in between


def recorder(op: Op) -> Kernel:
    """The kernel of a primitive on lazy arrays: with wrappers it computes, so that they see what they look at."""
    kernel: Kernel = getattr(lazy_namespace, op.name)
    return wrapped(op, computing(kernel)) if _wrappers else kernel


def recorder_of_two(recorder: Kernel) -> Kernel:
    """What is called with two arrays and no static arguments."""
    return getattr(recorder, "of_two", recorder)


def wrapped(op: Op, kernel: Kernel) -> Kernel:
    """A kernel with the wrappers that are set around it."""
    for around in _wrappers.values():
        kernel = around(op, kernel)
    return kernel
