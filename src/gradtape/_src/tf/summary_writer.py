"""The writers of `tf.summary`: the default writer, its step, and whether it records."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from gradtape._src import errors
from gradtape._src.arrays.symbolic import current_graph, is_known
from gradtape._src.conversion import convert, wrap
from gradtape._src.formats.event_file import EventFile
from gradtape._src.interrupts import contextmanager, setting
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, name_prefix

__all__ = [
    "SummaryWriter",
    "create_file_writer",
    "create_noop_writer",
    "flush",
    "get_step",
    "record_if",
    "set_step",
    "should_record_summaries",
]

_writer: ContextVar[FileWriter | None] = ContextVar("gradtape_summary_writer", default=None)
_step: ContextVar[Any] = ContextVar("gradtape_summary_step", default=None)
_condition: ContextVar[Any] = ContextVar("gradtape_summary_condition", default=True)

current_writer: Callable[[], FileWriter | None] = _writer.get


class SummaryWriter:
    """The base class of the writers that `create_file_writer` and `create_noop_writer` return.

    >>> import tempfile
    >>> writer = tf.summary.create_file_writer(tempfile.mkdtemp())
    >>> isinstance(writer, tf.summary.SummaryWriter)
    True
    >>> with writer.as_default(step=1):
    ...     written = tf.summary.scalar("loss", 0.5)
    >>> bool(written)
    True
    >>> writer.init()
    >>> writer.flush()
    >>> writer.close()
    """

    def set_as_default(self, step: Any = None) -> None:
        """Write all summaries from here on to this writer."""
        raise NotImplementedError

    def as_default(self, step: Any = None) -> Any:
        """Write the summaries of a `with` block to this writer; `step` is their step."""
        raise NotImplementedError

    def init(self) -> None:
        """Do nothing: a writer is ready when it is created."""
        raise NotImplementedError

    def flush(self) -> None:
        """Write pending summaries to the file."""
        raise NotImplementedError

    def close(self) -> None:
        """Write pending summaries and close the writer."""
        raise NotImplementedError


class NoopWriter(SummaryWriter):
    """A writer without effect."""

    def set_as_default(self, step: Any = None) -> None:
        """Change nothing."""

    @contextmanager
    def as_default(self, step: Any = None) -> Iterator[None]:
        """Change nothing for a `with` block."""
        yield

    def init(self) -> None:
        """Do nothing."""

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class FileWriter(SummaryWriter):
    """A writer of summaries to an event file."""

    def __init__(self, file: EventFile) -> None:
        self._file: EventFile | None = file

    def _check_open(self) -> None:
        if self._file is None:
            raise RuntimeError(f"SummaryWriter {self!r} is already closed. Create another one with create_file_writer.")

    def set_as_default(self, step: Any = None) -> None:
        """Write all summaries from here on to this writer."""
        self._check_open()
        _writer.set(self)
        if step is not None:
            set_step(step)

    @contextmanager
    def as_default(self, step: Any = None) -> Iterator[FileWriter]:
        """Write the summaries of a `with` block to this writer; `step` is their step."""
        self._check_open()
        with setting(_writer, self):
            if step is None:
                yield self
            else:
                with setting(_step, step):
                    yield self

    def init(self) -> None:
        """Do nothing: a writer is ready when it is created."""
        self._check_open()

    def flush(self) -> None:
        """Let every summary reach the file; inside a function, whenever it runs."""
        if current_graph() is not None:
            _at_every_call(self.flush)
        elif self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Write pending summaries and close the writer."""
        if current_graph() is not None:
            _at_every_call(self.close)
        elif self._file is not None:
            file, self._file = self._file, None
            file.close()

    @property
    def file(self) -> EventFile:
        """The event file."""
        if self._file is None:
            raise errors.NotFoundError(
                None, None, "Resource SummaryWriterInterface does not exist. [Op:WriteSummary]: the writer is closed."
            )
        return self._file

    def write_scalar(self, tag: str, value: float, step: Any, description: str | None) -> Tensor:
        """The fast path of `tf.summary.scalar`, in eager code."""
        if _condition.get() is not True and not _records():
            return wrap(_FALSE)
        number = step if type(step) is int else step_value(step)
        self.file.add_scalar(tag, value, number, description)
        return wrap(_TRUE)


_TRUE, _FALSE = convert(True).array, convert(False).array


def _at_every_call(function: Callable[[], None]) -> None:
    from gradtape._src.graph.host_calls import effect

    effect(function, [])


# -- steps and conditions --------------------------------------------------------------------------------------------
def set_step(step: Any) -> None:
    """Set the default step of summaries; a variable is read again for each summary.

    >>> import gradtape as tf
    >>> tf.summary.experimental.set_step(5)
    >>> tf.summary.experimental.get_step()
    5
    >>> tf.summary.experimental.set_step(None)
    """
    _step.set(step)


def get_step() -> Any:
    """Return the step set by `set_step` or `as_default`, or None.

    >>> import gradtape as tf
    >>> tf.summary.experimental.get_step() is None
    True
    """
    return _step.get()


def _step_tensor(step: Any) -> Any:
    """The step as an int, or as a tensor whose value is not known yet."""
    given = _step.get() if step is None else step
    if given is None:
        raise ValueError(
            "No step set. Please specify one either through the `step` argument or through "
            "tf.summary.experimental.set_step()"
        )
    if isinstance(given, (bool, str, bytes, float)):
        raise TypeError(f"Cannot convert {given!r} to EagerTensor of dtype int64: a step must be an integer.")
    tensor = convert(given.read_value() if isinstance(given, Variable) else given, "int64")
    if is_known(tensor):
        if tensor.array.size != 1:
            raise ValueError(f"Argument `step` must be a scalar. Received step with shape {tensor.shape}.")
        return int(tensor.numpy().reshape(()))
    return tensor


def step_value(step: Any) -> int:
    """The step as a number."""
    value: int = _step_tensor(step)
    return value


def _condition_now() -> Any:
    given = _condition.get()
    return given() if callable(given) else given


def _records() -> bool:
    return bool(_condition_now())


@contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """Write the summaries of a `with` block only if a condition holds: a bool, a tensor or a function of either.

    >>> import gradtape as tf
    >>> with tf.summary.record_if(False):
    ...     tf.summary.should_record_summaries()
    False
    """
    with setting(_condition, condition):
        yield


def should_record_summaries() -> Any:
    """Return whether summaries are written: there is a writer, and `record_if` allows it.

    >>> import gradtape as tf
    >>> tf.summary.should_record_summaries()
    False
    """
    return False if _writer.get() is None else _condition_now()


# -- writing ---------------------------------------------------------------------------------------------------------
def tag_of(name: str | None, default: str) -> str:
    """The tag of a summary: its name behind the open name scopes."""
    if type(name) is not str:
        if name is not None and not isinstance(name, str):
            raise TypeError(
                f"expected string or bytes-like object, got {type(name).__name__!r}: a summary needs a name."
            )
        name = default if name is None else str(name)
    return name_prefix.get() + name


def record(
    writer: FileWriter | None, step: Any, data: Callable[[], Tensor], summary: Callable[[Tensor], bytes]
) -> Tensor:
    """Write the summary of a tensor. `data` gives the tensor if it is needed, `summary` the bytes of a `Summary`.

    Inside a function this happens whenever the function runs.
    """
    if step is not None:
        step = _step_tensor(step)
    if writer is None:
        return convert(False)
    condition = _condition_now()
    if current_graph() is not None:
        return _record_in_function(writer, step, condition, data, summary)
    if not condition:
        return convert(False)
    file = writer.file
    file.add_summary(summary(data()), _step_tensor(step))
    return convert(True)


def _record_in_function(
    writer: FileWriter, step: Any, condition: Any, data: Callable[[], Tensor], summary: Callable[[Tensor], bytes]
) -> Tensor:
    from gradtape._src.graph.host_calls import effect

    if isinstance(condition, Variable):
        condition = condition.read_value()
    if (not isinstance(condition, Tensor) or is_known(condition)) and not condition:
        return convert(False)
    given = [data(), _step_tensor(step), condition]
    unknown = [isinstance(value, Tensor) and not is_known(value) for value in given]

    def write(*values: Tensor) -> None:
        remaining = iter(values)
        now = [next(remaining) if is_new else value for value, is_new in zip(given, unknown, strict=True)]
        if bool(now[2]):
            writer.file.add_summary(summary(now[0]), int(now[1]))

    effect(write, [value for value, is_new in zip(given, unknown, strict=True) if is_new])
    return condition if unknown[2] else convert(True)


def flush(writer: Any = None, name: str | None = None) -> None:
    """Write the pending summaries of a writer, by default the current one, to its file.

    >>> import gradtape as tf
    >>> tf.summary.flush()
    """
    writer = _writer.get() if writer is None else writer
    if writer is None:
        return
    if not isinstance(writer, SummaryWriter):
        raise ValueError(f"Invalid argument to flush(): {writer!r}")
    writer.flush()


# -- making writers --------------------------------------------------------------------------------------------------
def create_file_writer(
    logdir: Any,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: str | None = None,
    experimental_trackable: bool = False,
    experimental_mesh: Any = None,
) -> SummaryWriter:
    """Create a writer for a new event file in the directory `logdir`.

    Summaries reach the file when `max_queue` (10) of them are pending or `flush_millis` (two minutes) have passed, at
    `flush`, and when the writer is closed or the process ends.

    >>> import gradtape as tf, tempfile
    >>> writer = tf.summary.create_file_writer(tempfile.mkdtemp())
    >>> with writer.as_default(step=1):
    ...     written = tf.summary.scalar("loss", 0.5)
    >>> writer.close()
    """
    if logdir is None:
        raise ValueError("Argument `logdir` cannot be None")
    for what, value in (("logdir", logdir), ("max_queue", max_queue), ("flush_millis", flush_millis)):
        if isinstance(value, Tensor) and not is_known(value):
            raise ValueError(
                f"Invalid graph Tensor argument '{what}={value}' to create_file_writer(): a writer is created once, so "
                "its arguments must be known outside of the function."
            )
    folder = _text(logdir, "logdir")
    suffix = ".v2" if filename_suffix is None else _text(filename_suffix, "filename_suffix")
    queue = 10 if max_queue is None else _number(max_queue)
    seconds = 120.0 if flush_millis is None else _number(flush_millis) / 1000
    return FileWriter(EventFile(folder, queue, seconds, suffix))


def create_noop_writer() -> SummaryWriter:
    """Create a writer that does nothing, for programs that write summaries on only one of their machines.

    >>> import gradtape as tf
    >>> with tf.summary.create_noop_writer().as_default():
    ...     bool(tf.summary.scalar("loss", 0.5, step=1))
    False
    """
    return NoopWriter()


def _text(value: Any, what: str) -> str:
    if isinstance(value, Tensor):
        value = value.numpy()
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"Cannot convert {value!r} to EagerTensor of dtype string: `{what}` must be a string.")
    return os.fsdecode(value)


def _number(value: Any) -> int:
    if isinstance(value, (str, bytes, float)):
        raise TypeError(f"Cannot convert {value!r} to EagerTensor of dtype int32")
    return int(value)
