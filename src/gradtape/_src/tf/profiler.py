"""Profiles of programs: JAX's profiler, whose files TensorBoard's profile plugin and Perfetto can read."""

from __future__ import annotations

from contextlib import nullcontext
from types import TracebackType
from typing import Any, NamedTuple

from gradtape._src import errors
from gradtape._src.interrupts import guarded

__all__ = ["Profile", "ProfilerOptions", "Trace", "start", "stop"]


class ProfilerOptions(NamedTuple):
    """Options of a profile: the detail of host, Python and device events, and when it begins.

    >>> ProfilerOptions(host_tracer_level=2, python_tracer_level=1).python_tracer_level
    1
    """

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: int | None = None


def _jax_profiler() -> Any:
    try:
        import jax.profiler
    except ImportError as error:
        raise errors.UnavailableError(
            None, None, f"Profiling needs JAX, which is not installed: {errors.install('xla')}"
        ) from error
    return jax.profiler


_running: list[str] = []


def start(logdir: str, options: ProfilerOptions | None = None) -> None:
    """Begin a profile, which `stop` writes to the folder `logdir`.

    >>> import gradtape as tf
    >>> tf.profiler.experimental.stop()
    Traceback (most recent call last):
    gradtape.errors.UnavailableError: Cannot export profiling results. No profiler is running.
    """
    if _running:
        raise errors.AlreadyExistsError(None, None, "Another profiler is running. Call tf.profiler.experimental.stop.")
    profiler, chosen = _jax_profiler(), ProfilerOptions() if options is None else options
    own = profiler.ProfileOptions()
    own.host_tracer_level, own.python_tracer_level = chosen.host_tracer_level, chosen.python_tracer_level
    own.device_tracer_level = chosen.device_tracer_level
    profiler.start_trace(logdir, profiler_options=own)
    _running.append(logdir)


def stop(save: bool = True) -> None:
    """Stop the profile, and write it."""
    if not _running:
        raise errors.UnavailableError(None, None, "Cannot export profiling results. No profiler is running.")
    _running.clear()
    _jax_profiler().stop_trace()


class Profile:
    """A profile of a `with` block.

    >>> profile = Profile("logs")
    """

    def __init__(self, logdir: str, options: ProfilerOptions | None = None) -> None:
        self._logdir, self._options = logdir, options

    def __enter__(self) -> None:
        start(self._logdir, self._options)

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stop()


class Trace:
    """A name for a `with` block, shown in a profile; `step_num` and other keywords are shown with it.

    >>> with Trace("train", step_num=1):
    ...     pass
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name, self._details = name, kwargs
        self._block: Any = nullcontext()

    def __enter__(self) -> Trace:
        if _running:
            self._block = _jax_profiler().TraceAnnotation(self._name, **self._details)
        self._block.__enter__()
        return self

    def set_metadata(self, **kwargs: Any) -> None:
        """Add more keywords to the block."""
        self._details.update(kwargs)

    @guarded
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, trace)
