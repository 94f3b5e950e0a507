"""`tf.train.Coordinator`: threads that stop together."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

from gradtape._src import errors
from gradtape._src.interrupts import contextmanager

__all__ = ["Coordinator"]

_POLL = 0.01
"""Seconds between two looks at running threads."""


class Coordinator:
    """Stop several threads together: each of them calls `should_stop`, and any of them may call `request_stop`.

    An exception that is passed to `request_stop`, or raised within `stop_on_exception`, is raised again by `join`.
    Exceptions of `clean_stop_exception_types`, by default `tf.errors.OutOfRangeError`, only stop the threads.

    >>> import threading
    >>> coordinator = tf.train.Coordinator()
    >>> steps = []
    >>> def work():
    ...     while not coordinator.should_stop():
    ...         steps.append(1)
    ...         if len(steps) == 3:
    ...             coordinator.request_stop()
    >>> thread = threading.Thread(target=work)
    >>> thread.start()
    >>> coordinator.join([thread])
    >>> len(steps), coordinator.joined
    (3, True)

    >>> coordinator.clear_stop()
    >>> coordinator.register_thread(threading.Thread(target=print))
    >>> with coordinator.stop_on_exception():
    ...     raise ValueError("wrong")
    >>> coordinator.wait_for_stop(timeout=1.0)
    True
    >>> coordinator.raise_requested_exception()
    Traceback (most recent call last):
    ValueError: wrong
    """

    def __init__(self, clean_stop_exception_types: Any = None) -> None:
        clean = (errors.OutOfRangeError,) if clean_stop_exception_types is None else clean_stop_exception_types
        self._clean: tuple[type[BaseException], ...] = tuple(clean)
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._error: BaseException | None = None
        self._joined = False
        self._registered: set[threading.Thread] = set()

    @property
    def joined(self) -> bool:
        """Whether `join` has returned since the last `clear_stop`."""
        return self._joined

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop. `ex` is an exception, or what `sys.exc_info()` returns.

        The first exception is raised by `join`, or here if the threads have been joined.
        """
        error = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            if error is not None and not isinstance(error, self._clean):
                if self._joined:
                    raise error
                if not self._stopped.is_set() and self._error is None:
                    self._error = error
            self._stopped.set()

    def clear_stop(self) -> None:
        """Forget a request to stop and its exception: `should_stop` is false again."""
        with self._lock:
            self._joined, self._error = False, None
            self._stopped.clear()

    def should_stop(self) -> bool:
        """Return whether a stop was requested."""
        return self._stopped.is_set()

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Request a stop where the block raises an exception, which does not leave the block."""
        try:
            yield
        except BaseException:
            self.request_stop(ex=sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is requested, or for some seconds; return whether it was."""
        return self._stopped.wait(timeout)

    def register_thread(self, thread: threading.Thread) -> None:
        """Add a thread that `join` waits for."""
        with self._lock:
            self._registered.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until all threads have ended; once a stop is requested, for `stop_grace_period_secs` at most.

        Then raises the exception that was passed to `request_stop`, or `RuntimeError` if threads are still running and
        `ignore_live_threads` is false.
        """
        with self._lock:
            waited = [*self._registered.union(threads or ())]
        while _are_running(waited) and not self._stopped.wait(_POLL):
            pass
        deadline = time.monotonic() + stop_grace_period_secs
        for thread in waited:
            thread.join(max(0.0, deadline - time.monotonic()))
        left = " ".join(thread.name for thread in waited if thread.is_alive())
        with self._lock:
            self._joined = True
            self._registered.clear()
            if self._error is not None:
                raise self._error
        if left and not ignore_live_threads:
            raise RuntimeError(f"Coordinator stopped with threads still running: {left}")

    def raise_requested_exception(self) -> None:
        """Raise the exception that was passed to `request_stop`, if there is one."""
        with self._lock:
            if self._error is not None:
                raise self._error


def _are_running(threads: list[threading.Thread]) -> bool:
    return any(thread.is_alive() for thread in threads)
