"""Observers of ops: one protocol for tapes, `explain`, the search for NaN, the profiler and traces.

    on_op      an op has run, and is recorded           while the observer is an active recorder (`core/tape.py`)
    on_call    a traced function was called
    on_read    a variable was read
    on_escape  a value left the recorded ops
    on_vjp     the backward pass has computed one step   while a backward pass runs with this observer

Kernels can be wrapped as well, for every op of every thread: to time them, or to check every result, whether or not a
tape is active.

`in_rule` tells an observer of ops whether an op is a step of a rule: while a pass with an observer computes a vjp, or
forward mode a jvp.

Without observers this costs nothing: an op visits the active recorders anyway, the backward pass has a separate loop
for observers, and a wrapped kernel replaces the plain one (benchmark: views).
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
"""Whether a rule computes a derivative here. Set only if an observer may read it; false in gradients of the user."""


class Observer:
    """Base class of observers; each method does nothing unless a subclass overrides it."""

    __slots__ = ()

    may_raise: bool = False
    """Whether `on_vjp` may raise: then the backward pass frees no records, so the tape is unchanged after an error."""

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        """Called after an op: with its record, its input tensors (none for a whole program) and its output tensors."""

    def on_call(self, record: Any) -> None:
        """Called after a call of a traced function, with its record."""

    def on_vjp(self, record: Record, gs: Sequence[Any], results: dict[int, Any]) -> None:
        """Called after the backward pass has processed a record.

        `gs` are the cotangents of its outputs (None for an output without one), `results` the cotangents of its inputs
        by uid, as far as they are summed.
        """

    def on_read(self, variable: Any) -> None:
        """Called when a variable that is not tracked yet is read."""

    def on_escape(self, event: str, uid: int, other: int = 0) -> None:
        """Called when a value leaves the recorded ops: to Python or NumPy, a branch, or a variable (`other`)."""


class Observers(Observer):
    """Several observers of a backward pass."""

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
    """The primitives whose NumPy kernel is set as an attribute."""
    return [op for op in registry.values() if op.kernel is not None]


def numpy_kernel(op: Op) -> Kernel:
    """The NumPy kernel of a primitive; an elementwise one runs in blocks once there are large arrays."""
    kernel: Kernel = getattr(numpy_namespace, op.name)
    return _blockwise(kernel) if _large_arrays and op.elementwise else kernel


_blockwise = cache(blockwise)
"""One function for each kernel, so that kernels can be compared."""


_large_arrays: list[None] = []


def has_large_arrays() -> bool:
    """Whether elementwise kernels and rules run in blocks."""
    return bool(_large_arrays)


def expect_large_arrays() -> None:
    """From now on, run elementwise kernels and rules on large arrays in blocks.

    Programs without large arrays call the kernels directly, because a test of the size takes a tenth of a small op.
    """
    _large_arrays[:] = [None]
    with _lock:
        _set_kernels()


def wrap_kernels(key: str, around: KernelWrapper | None) -> None:
    """Run every kernel as `around(op, kernel)`; None removes the wrapper of this key.

    Setting the same wrapper twice has no effect, so that an interrupted change can be repeated.
    """
    with _lock:
        if around is not None:
            _wrappers[key] = around
        else:
            _wrappers.pop(key, None)
        _set_kernels()


def are_kernels_wrapped() -> bool:
    """Whether any wrapper is set around kernels."""
    return bool(_wrappers)


def _set_kernels() -> None:
    ops = with_kernel()
    kernels = [wrapped(op, numpy_kernel(op)) for op in ops]
    recorders = [recorder(op) for op in ops]
    new = {"kernel": kernels, "recorder": recorders, "recorder_of_two": [*map(recorder_of_two, recorders)]}
    setting = [map(vars(Op)[name].__set__, ops, values) for name, values in new.items()]
    any(chain(*setting))  # one call of C code, so that no signal handler runs in between


def recorder(op: Op) -> Kernel:
    """The kernel of a primitive on lazy arrays: with wrappers it computes immediately, so that they get values."""
    kernel: Kernel = getattr(lazy_namespace, op.name)
    return wrapped(op, computing(kernel)) if _wrappers else kernel


def recorder_of_two(recorder: Kernel) -> Kernel:
    """A kernel of two arrays without static arguments."""
    return getattr(recorder, "of_two", recorder)


def wrapped(op: Op, kernel: Kernel) -> Kernel:
    """A kernel inside the wrappers that are set."""
    for around in _wrappers.values():
        kernel = around(op, kernel)
    return kernel
