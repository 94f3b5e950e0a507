"""Forked children: processes that begin as a copy of another, in which only one of its threads exists.

A lock that another thread held is locked for ever there, so the locks of the package are made here and are new in a
child. XLA's threads are missing too: a program that needs one would wait for it without an end. In the child of a
process in which XLA was running, programs therefore run on NumPy (compile/program.py).
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from typing import Any

_locks: weakref.WeakSet[Any] = weakref.WeakSet()

without_xla: list[None] = []
"""Has an entry in a process that was forked from one in which XLA was running."""

generation = 0
"""How many times this process and those that it comes from were forked: another number in a child."""

ADVICE = (
    "This process was forked from one in which XLA was running; XLA's threads do not exist here. Start processes "
    "with multiprocessing.get_context('spawn') instead."
)


class _Lock(type(threading.RLock())):  # type: ignore[misc] # the class of C: others cannot be derived from
    """A lock that a signal does not leave locked before a block begins.

    Since Python 3.14 the interpreter looks for signals between an `__enter__` that is written in C and the block. It
    does not before the block if `__enter__` is written in Python, and storing a slice is one instruction: what a
    handler raises while it waits leaves the lock as it was.
    """

    def __enter__(self) -> bool:
        acquired = [False]
        acquired[:] = map(self.acquire, _ONCE)
        return acquired[0]


_ONCE = (True,)


def lock() -> Any:
    """A lock that is not locked in a forked child."""
    made = _Lock() if sys.version_info >= (3, 14) else threading.Lock()
    _locks.add(made)
    return made


def rlock() -> Any:
    """A reentrant lock that is not locked in a forked child."""
    made = _Lock() if sys.version_info >= (3, 14) else threading.RLock()
    _locks.add(made)
    return made


def _xla_is_running() -> bool:
    """Whether JAX has begun to use a device; nothing is imported to find out."""
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
