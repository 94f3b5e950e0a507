"""The other processes, as seen by one of those that train together: which are alive, and calls that all take part in.

A collective waits for the others in C++ code, where Python runs no signal handlers and nothing ends it: not if another
process hangs, nor if its machine is gone, because then no connection is closed. So a separate thread makes these calls.
The caller waits for it, and gives up when the coordination service has not heard from a process for a heartbeat. JAX
sends heartbeats from C++ threads, so long-running Python code in a process does not count as its end.
"""

from __future__ import annotations

import atexit
import ctypes
from collections.abc import Callable
from contextvars import copy_context
from queue import SimpleQueue
from threading import Event, Lock, Thread, current_thread
from typing import Any, TypeVar

from gradtape._src import errors
from gradtape._src.threads import background, start

T = TypeVar("T")

HEARTBEAT = 10
"""The seconds after which a process that has not been heard from is lost."""

_PAUSE = 1.0
"""The seconds between calls of the service, and between checks of its results."""


_LAST_WAIT = 5.0
"""The seconds that an exiting process waits for the last call of the service."""


class Call:
    """A function that another thread calls, and its outcome. The lock is held until then."""

    __slots__ = ("context", "done", "error", "function", "result")

    def __init__(self, function: Callable[[], Any]) -> None:
        self.function, self.context = function, copy_context()
        self.result: Any = None
        self.error: BaseException | None = None
        self.done = Lock()
        self.done.acquire()

    def run(self) -> None:
        """Call the function."""
        try:
            self.result = self.context.run(self.function)
        except BaseException as error:
            self.error = error
        finally:
            self.done.release()


class Peers:
    """This process's connection to the others."""

    def __init__(self, client: Any, count: int) -> None:
        self._client, self._count = client, count
        self._lost = ""
        self._calling = False
        self._calls: SimpleQueue[Call] = SimpleQueue()
        self._ended = Event()
        self._watcher = Thread(target=self._watch, name="gradtape-heartbeat", daemon=True)
        self._caller = Thread(target=self._make_calls, name="gradtape-collectives", daemon=True)
        for thread in (self._watcher, self._caller):
            start(thread)
        atexit.register(self._end)

    def _end(self) -> None:
        """Run before Python exits: if a call of the service returns in a thread afterwards, C++ aborts the process.

        The watcher returns as soon as the other processes have called. A call that still runs waits for a lost process:
        it must not return, as it would if the connection were deleted, so the connection is never deleted.
        """
        self._ended.set()
        self._watcher.join(_LAST_WAIT)
        if self._watcher.is_alive() or self._calling:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._client))

    def _watch(self) -> None:
        """Ask the service repeatedly which processes are alive. It returns when all of them have called."""
        background.append(None)
        everyone = range(self._count)
        while not self._ended.is_set():
            try:
                alive = self._client.get_live_nodes(list(everyone))
            except Exception as error:
                self._lost = f"the coordination service, which process 0 has started, does not answer: {error}"
                return
            gone = [str(i) for i in everyone if i not in alive]
            silent = f"process {', '.join(gone)} of {self._count} has not been heard of for {HEARTBEAT} seconds"
            self._lost = silent if gone else ""
            self._ended.wait(_PAUSE)

    def _make_calls(self) -> None:
        background.append(None)
        while True:
            call = self._calls.get()
            self._calling = True
            call.run()
            self._calling = False

    def together(self, function: Callable[[], T]) -> T:
        """Call a function that ends when all processes have called it; raises UnavailableError if one is lost.

        A signal does not end it, because the other processes wait for this one; a second signal does.
        """
        if current_thread() is self._caller:  # nested in another such call
            return function()
        call = Call(function)
        self._calls.put(call)
        try:
            self._wait(call)
        except errors.UnavailableError:
            raise
        except BaseException:
            self._wait(call)
            raise
        if call.error is not None:
            raise call.error
        result: T = call.result
        return result

    def _wait(self, call: Call) -> None:
        while not call.done.acquire(timeout=_PAUSE):
            if self._lost and not call.done.acquire(timeout=_PAUSE):  # it may have ended with an error in the meantime
                raise errors.lost_worker(self._lost)
