"""Threads for work on large arrays: NumPy's loops release the interpreter lock, so that they run on several cores.

`run(work, count)` calls `work(0)` … `work(count - 1)`, in any order, on the calling thread and on helpers. Helpers
start with the first job and wait for the next one. A forked child starts without helpers and creates its own.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from gradtape._src import forks

if TYPE_CHECKING:
    from queue import SimpleQueue

T = TypeVar("T")

MOST = 16
"""The largest number of threads: beyond it, memory is the limit."""

_chosen = 0

background: list[None] = []
"""An entry for each running thread of the package that does not read variables: see `Storage.update_in_place`."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=background.clear)


def set_limit(count: int) -> None:
    """Use at most this many threads; 0 means `OMP_NUM_THREADS`, or else the number of cores."""
    global _chosen
    _chosen = count


def limit() -> int:
    """The number of threads of a job, including the calling one."""
    if _chosen > 0:
        return min(_chosen, MOST)
    given = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if given.isdecimal() and int(given) > 0:
        return min(int(given), MOST)
    return min(_cores(), MOST)


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class _Job:
    """Calls of a function that several threads share."""

    def __init__(self, work: Callable[[int], Any], count: int, helpers: int) -> None:
        self._work, self._count = work, count
        self._contexts = [contextvars.copy_context() for _ in range(helpers)]
        self._numbers = itertools.count()
        self._lock = threading.Lock()
        self._helpers, self._closed = 0, False
        self._done = threading.Lock()
        self._done.acquire()
        self.error: BaseException | None = None

    def run_share(self) -> None:
        """Make calls until there are none left."""
        for i in self._numbers:
            if i >= self._count:
                return
            self._work(i)

    def help(self) -> None:
        """Take part in the job, in a helper, with the caller's handling of floating-point errors."""
        with self._lock:
            if self._closed:
                return
            self._helpers += 1
            context = self._contexts.pop()
        try:
            context.run(self.run_share)
        except BaseException as error:
            self.error, self._count = error, 0
        with self._lock:
            self._helpers -= 1
            if self._is_over():
                self._done.release()

    def _is_over(self) -> bool:
        return self._closed and not self._helpers

    def finish(self) -> None:
        """Wait for helpers that still work. Those that have not begun will not.

        On a busy machine they find the job in their queue much later, so it drops its references to arrays and tapes.
        """
        self._count = 0
        with self._lock:
            self._closed, waits = True, self._helpers > 0
        if waits:
            self._done.acquire()
        self._work = _no_work
        self._contexts.clear()


def _no_work(_: int) -> None:
    """The work of a finished job."""


class _Pool:
    """The helpers, and the queue of jobs."""

    def __init__(self) -> None:
        from queue import SimpleQueue  # imported with the first job, not with the package

        self.generation = forks.generation
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._size = 0

    def offer(self, job: _Job, helpers: int) -> None:
        """Let this many helpers take part in a job."""
        while self._size < helpers:
            self._size += 1
            threading.Thread(target=self._help, name=f"gradtape-helper-{self._size}", daemon=True).start()
        for _ in range(helpers):
            self._jobs.put(job)

    def _help(self) -> None:
        background.append(None)
        while True:
            self._jobs.get().help()


_pool: _Pool | None = None


def run(work: Callable[[int], Any], count: int) -> None:
    """Call `work` with the numbers below `count`, on all threads. An exception in one of them stops the others."""
    global _pool
    helpers = min(limit(), count) - 1
    if helpers < 1:
        for i in range(count):
            work(i)
        return
    pool = _pool
    if pool is None or pool.generation != forks.generation:
        pool = _pool = _Pool()
    job = _Job(work, count, helpers)
    try:
        pool.offer(job, helpers)
        job.run_share()
    finally:
        job.finish()
    if job.error is not None:
        raise job.error


def start(thread: threading.Thread) -> None:
    """Start a thread. Exceptions that a signal handler raises meanwhile propagate.

    `Thread.start` may replace them by a KeyError or RuntimeError of its own.
    """
    handled = sys.exc_info()[1]
    try:
        thread.start()
    except (KeyError, RuntimeError) as error:
        if error.__context__ is None or error.__context__ is handled:
            raise
        raise error.__context__ from None


class _Errand:
    """One call of a function in a new thread."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function, self._context = function, contextvars.copy_context()
        self.result: Any = None
        self.error: BaseException | None = None
        self._done = threading.Lock()
        self._done.acquire()

    def start(self) -> None:
        """Start the thread."""
        start(threading.Thread(target=self._run, name="gradtape-errand"))

    def _run(self) -> None:
        background.append(None)
        try:
            self.result = self._context.run(self._function)
        except BaseException as error:
            self.error = error
        finally:
            background.pop()
            self._done.release()

    def wait(self) -> None:
        """Wait until it is done. Python regards a thread as ended after an interrupted `join`, and does not wait at
        exit.
        """
        self._done.acquire()


def apart(function: Callable[[], T]) -> T:
    """Call a function on a thread without signal handlers: on another one, if this is the main thread.

    For code that does not survive an exception in the middle. If a handler raises, it does so while the main thread
    waits; the function runs to its end, and its result is dropped.
    """
    if threading.current_thread() is not threading.main_thread():
        return function()
    errand = _Errand(function)
    errand.start()
    errand.wait()
    if errand.error is not None:
        raise errand.error
    result: T = errand.result
    return result
