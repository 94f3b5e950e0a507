"""Forked children: processes that start as a copy of another one, with only one of its threads.

A lock that another thread held stays locked in the child, so the locks of the package are created here and are new in a
child. XLA's threads are missing as well: a program that needs one would wait forever. If XLA was running before the
fork, programs in the child run on NumPy (graph/program.py).
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()

without_xla: list[None] = []
"""Not empty in a process that was forked while XLA was running."""

generation = 0
"""The number of forks that led to this process: different in a child."""

ADVICE = (
    "This process was forked from one in which XLA was running; XLA's threads do not exist here. Start processes "
    "with multiprocessing.get_context('spawn') instead."
)


class _Lock(type(threading.RLock())):  # type: ignore[misc] # the C class: others cannot be subclassed
    """A lock that a signal does not leave locked before a block begins.

    Since Python 3.14 the interpreter checks for signals between an `__enter__` that is written in C and the block. It
    does not if `__enter__` is written in Python, and storing a slice is one instruction: if a handler raises while it
    waits, the lock is unchanged.
    """

    def __enter__(self) -> bool:
        acquired = [False]
        acquired[:] = map(self.acquire, _ONCE)
        return acquired[0]


_ONCE = (True,)


def lock() -> Any:
    """A lock that is new in a forked child."""
    made = _Lock() if sys.version_info >= (3, 14) else threading.Lock()
    _locks.add(made)
    return made


def rlock() -> Any:
    """A reentrant lock that is new in a forked child."""
    made = _Lock() if sys.version_info >= (3, 14) else threading.RLock()
    _locks.add(made)
    return made


def _xla_is_running() -> bool:
    """Whether JAX uses a device. Imports nothing."""
    bridge = sys.modules.get("jax._src.xla_bridge")
    return bridge is not None and bool(getattr(bridge, "backends_are_initialized", lambda: True)())


def _begin_child() -> None:
    global generation
    generation += 1
    for each in _locks:
        each._at_fork_reinit()
    if not without_xla and _xla_is_running():
        without_xla.append(None)


if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_begin_child)
