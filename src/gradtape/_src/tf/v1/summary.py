"""`tf.compat.v1.summary`: summaries as strings, and their messages."""

from __future__ import annotations

import functools
import re
import sys
import threading
import time
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import default_graph, graph_for_ops, is_known
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats.event import (
    Event,
    SessionLog,
    Summary,
    SummaryDescription,
    SummaryMetadata,
    TaggedRunMetadata,
)
from gradtape._src.formats.event_file import EventFile, read_events
from gradtape._src.formats.file_systems import path_text
from gradtape._src.formats.media import encode_png, encode_wav
from gradtape._src.formats.tensor_proto import serialized
from gradtape._src.formats.tfrecord import as_record
from gradtape._src.interrupts import setting
from gradtape._src.tensor import Tensor
from gradtape._src.tf import summary
from gradtape._src.tf.array import expand_dims
from gradtape._src.tf.python_functions import numpy_function
from gradtape._src.tf.summary_writer import current_writer, get_step
from gradtape._src.tf.v1.train import get_global_step
from gradtape._src.variable import name_prefix

__all__ = [
    "Event",
    "FileWriter",
    "FileWriterCache",
    "SessionLog",
    "Summary",
    "SummaryDescription",
    "TaggedRunMetadata",
    "audio",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "summary_iterator",
    "tensor_summary",
    "text",
]


def as_bytes(message: Any) -> bytes:
    """A message of any implementation of protocol buffers, or what a session returned, as bytes."""
    if hasattr(message, "SerializeToString"):
        return bytes(message.SerializeToString())
    return bytes(message.item() if isinstance(message, np.ndarray) else message)


class FileWriter:
    """Writes the summaries that sessions compute to an event file. RuntimeError in eager code."""

    def __init__(
        self,
        logdir: Any,
        graph: Any = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        graph_def: Any = None,
        filename_suffix: str | None = None,
        session: Any = None,
    ) -> None:
        if default_graph() is None and graph is None and session is None:
            raise RuntimeError(
                "v1.summary.FileWriter is not compatible with eager execution. Use "
                "`tf.summary.create_file_writer`, which writes files that TensorBoard can read too."
            )
        self._folder = path_text(logdir)
        self._file = EventFile(self._folder, max_queue, flush_secs, filename_suffix or ".v2")
        if graph is not None or graph_def is not None:
            self.add_graph(graph, graph_def=graph_def)

    def get_logdir(self) -> str:
        """The folder."""
        return self._folder

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write a summary: a message, or its bytes, which a session returned."""
        data = summary if isinstance(summary, bytes) else as_bytes(summary)
        message = Summary.FromString(data)
        self.add_event(Event(wall_time=time.time(), step=int(global_step or 0), summary=message))

    def add_event(self, event: Any) -> None:
        """Write an event."""
        self._file.add(as_bytes(event))

    def add_graph(self, graph: Any = None, global_step: Any = None, graph_def: Any = None) -> None:
        """Write a graph, or its message."""
        if graph is not None and graph_def is not None:
            raise ValueError("Please pass only graph, or graph_def (deprecated), but not both.")
        given = graph_def if graph is None else graph
        if hasattr(given, "as_graph_def"):
            given = given.as_graph_def()
        elif not hasattr(given, "SerializeToString"):
            raise TypeError(f"The passed graph must be an instance of `Graph` or `GraphDef`, got {type(given)}.")
        message = as_bytes(given)
        self.add_event(Event(wall_time=time.time(), step=int(global_step or 0), graph_def=message))

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Write a log of a session."""
        message = SessionLog.FromString(as_bytes(session_log))
        self.add_event(Event(wall_time=time.time(), step=int(global_step or 0), session_log=message))

    def add_run_metadata(self, run_metadata: Any, tag: str, global_step: Any = None) -> None:
        """No effect: runs leave no metadata."""

    def flush(self) -> None:
        """Write what is waiting."""
        self._file.flush()

    def close(self) -> None:
        """Write what is waiting, and close the file."""
        self._file.close()

    def reopen(self) -> None:
        """No effect: an event file is not closed before the writer is."""

    def __enter__(self) -> FileWriter:
        return self

    def __exit__(self, *failure: Any) -> None:
        self.close()


class FileWriterCache:
    """One `FileWriter` per folder."""

    _writers: typing.ClassVar[dict[str, FileWriter]] = {}
    _lock = threading.RLock()

    @staticmethod
    def clear() -> None:
        """Close all writers, and forget them."""
        with FileWriterCache._lock:
            for writer in FileWriterCache._writers.values():
                writer.close()
            FileWriterCache._writers.clear()

    @staticmethod
    def get(logdir: Any) -> FileWriter:
        """The writer of a folder, created with the default graph when it is first needed."""
        with FileWriterCache._lock:
            if logdir not in FileWriterCache._writers:
                FileWriterCache._writers[logdir] = FileWriter(logdir, graph=default_graph())
            return FileWriterCache._writers[logdir]


# -- where a summary goes ---------------------------------------------------------------------------------------------
def _emit(make: Callable[..., Tensor], name: str, values: Iterable[Any], collections: Any) -> Tensor:
    """A summary as a string: of a tensor of the default graph, which a session computes, or of one with a value."""
    graph = graph_for_ops()

    def compute(*tensors: Tensor) -> Any:
        return numpy_function(lambda *arrays: make(*arrays).numpy(), list(tensors), "string")

    if graph is None:
        tensors = [operand(value) for value in values]
        return make(*tensors) if all(map(is_known, tensors)) else compute(*tensors)
    result: Any = graph.record_python(compute, tuple(values), {}, "string", name)
    result.set_shape([])
    for key in ("summaries",) if collections is None else collections:
        graph.add_to_collection(key, result)
    return result


def _step_of_writer() -> Any:
    """The step at which summaries go to the writer of TensorFlow 2; None, with a warning, if they cannot."""
    if default_graph() is not None:
        return None
    without = "Cannot activate TF2 compatibility support for TF1 summary ops: "
    if current_writer() is None:
        warnings.warn(f"{without}default summary writer not found.", stacklevel=3)
        return None
    step = get_step()
    step = get_global_step() if step is None else step
    if step is None:
        warnings.warn(
            f"{without}global step not set. To set step for summary writer, use "
            "`tf.summary.SummaryWriter.as_default(step=_)`, `tf.summary.experimental.set_step()` or "
            "`tf.compat.v1.train.create_global_step()`.",
            stacklevel=3,
        )
    return step


def _forwarded(write: Callable[..., Any], tag: str, *values: Any, **options: Any) -> Tensor:
    """Write a summary of TensorFlow 2 under this tag; the result is an empty string, which can be merged."""
    with setting(name_prefix, ""):
        write(tag, *values, **options)
    return convert(b"")


def _text(values: list[Any]) -> Tensor:
    """A summary as a scalar string."""
    array = np.empty((), object)
    array[()] = Summary(value=values).SerializeToString()
    return wrap(array)


def _tag(name: str, family: str | None) -> str:
    """The tag: the name in its scopes, and in its family twice, which groups it in TensorBoard."""
    cleaned = re.sub(r"[^-/\w.]", "_", name).lstrip("/")
    scope = name_prefix.get()
    return f"{family}/{scope}{family}/{cleaned}" if family else f"{scope}{cleaned}"


# -- kinds of summaries ------------------------------------------------------------------------------------------------
def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A number as a summary in a string; with a default writer of `tf.summary` that has a step, it goes there instead.

    >>> import gradtape as tf, tempfile
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default(step=1):
    ...     written = tf.compat.v1.summary.scalar("loss", 0.5)
    >>> written.numpy()
    b''
    """
    tag, step = _tag(name, family), _step_of_writer()
    if step is not None:
        return _forwarded(summary.scalar, tag, tensor, step=step)

    def make(value: Any) -> Tensor:
        number = operand(value).numpy()
        if number.shape != ():
            raise errors.invalid_argument(
                f"tags and values are not the same shape: [] != {errors.brackets(number.shape)} (tag '{tag}')",
                "ScalarSummary",
            )
        return _text([Summary.Value(tag=tag, simple_value=float(number))])

    return _emit(make, name, [tensor], collections)


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """The histogram of a tensor's values as a summary in a string, or written as `scalar` does."""
    tag, step = _tag(name, family), _step_of_writer()
    if step is not None:
        return _forwarded(summary.histogram, tag, values, step=step)
    return _emit(lambda array: _histogram(tag, array), name, [values], collections)


@functools.cache
def _limits() -> np.ndarray:
    """TensorFlow's limits of buckets: powers of 1.1 from 1e-12 to 1e20 on both sides of 0."""
    powers, limit = [], 1.0e-12
    while limit < 1.0e20:
        powers.append(limit)
        limit *= 1.1
    powers.append(sys.float_info.max)
    return np.array([*(-each for each in reversed(powers)), 0.0, *powers])


def _histogram(tag: str, values: Any) -> Tensor:
    numbers, limits = np.ravel(np.asarray(operand(values).numpy(), np.float64)), _limits()
    for word, found in (("Nan", np.isnan), ("Infinity", np.isinf)):
        if found(numbers).any():
            raise errors.invalid_argument(f"{word} in summary histogram for: {tag}", "HistogramSummary")
    counts = np.bincount(np.searchsorted(limits, numbers, "right").clip(max=limits.size - 1), minlength=limits.size)
    # of several empty buckets in a row, only the last is kept
    kept = (counts > 0) | np.append(counts[1:] > 0, True)
    highest = sys.float_info.max
    message = {
        "min": float(numbers.min(initial=highest)),
        "max": float(numbers.max(initial=-highest)),
        "num": float(numbers.size),
        "sum": float(numbers.sum()),
        "sum_squares": float((numbers**2).sum()),
        "bucket_limit": limits[kept].tolist(),
        "bucket": counts[kept].astype(float).tolist(),
    }
    return _text([Summary.Value(tag=tag, histo=message)])


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """Images [images, height, width, channels] as a summary in a string, or written as `scalar` does.

    Floating-point images are scaled, each for itself, so that the largest value is 255; with negative values 0 is 128.
    """
    tag, step = _tag(name, family), _step_of_writer()
    if step is not None:
        return _forwarded(summary.image, tag, tensor, step=step, max_outputs=max_outputs)
    return _emit(lambda array: _images(tag, array, max_outputs), name, [tensor], collections)


def _images(prefix: str, tensor: Any, max_outputs: int) -> Tensor:
    pixels = operand(tensor).numpy()
    if pixels.ndim != 4 or pixels.shape[3] not in (1, 3, 4):
        shape = ",".join(map(str, pixels.shape))
        raise errors.invalid_argument(f"Tensor must be 4-D with last dim 1, 3, or 4, not [{shape}]", "ImageSummary")
    values = []
    for i, picture in enumerate(pixels[:max_outputs]):
        height, width, channels = picture.shape
        encoded = encode_png(picture if picture.dtype == np.uint8 else _scaled(picture))
        file = {"height": height, "width": width, "colorspace": channels, "encoded_image_string": encoded}
        values.append(Summary.Value(tag=_numbered(f"{prefix}/image", i, max_outputs), image=file))
    return _text(values)


def _numbered(tag: str, i: int, count: int) -> str:
    return f"{tag}/{i}" if count > 1 else tag


def _scaled(picture: np.ndarray) -> np.ndarray:
    """The pixels of an image as bytes; those with NaN or infinity are red."""
    values = picture if picture.dtype == np.float64 else picture.astype(np.float32)
    finite = np.isfinite(values).all(axis=2)
    shown = values[finite]
    low, high = (shown.min(), shown.max()) if shown.size else (0.0, 0.0)
    offset, largest = (128, max(abs(low), abs(high))) if low < 0 else (0, high)
    scale = np.float32(0 if largest < 1e-6 else (127 if low < 0 else 255) / largest)
    result = np.empty(values.shape, np.uint8)
    result[:] = (255, 0, 0, 255)[: values.shape[2]]
    result[finite] = (shown * scale + offset).astype(np.uint8)
    return result


def audio(
    name: str,
    tensor: Any,
    sample_rate: Any,
    max_outputs: int = 3,
    collections: Any = None,
    family: str | None = None,
) -> Tensor:
    """Clips [clips, time, channels] or [clips, time] as a summary in a string, or written as `scalar` does."""
    tag, step = _tag(name, family), _step_of_writer()
    if step is not None:
        clips = operand(tensor)
        clips = expand_dims(clips, 2) if clips.shape.rank == 2 else clips
        return _forwarded(summary.audio, tag, clips, sample_rate, step=step, max_outputs=max_outputs)
    return _emit(lambda clips, rate: _sounds(tag, clips, rate, max_outputs), name, [tensor, sample_rate], collections)


def _sounds(prefix: str, tensor: Any, sample_rate: Any, max_outputs: int) -> Tensor:
    clips, rate = operand(tensor).numpy(), float(operand(sample_rate).numpy())
    if clips.ndim not in (2, 3):
        raise errors.invalid_argument(
            f"Tensor must be 3-D or 2-D, got: {errors.brackets(clips.shape)}", "AudioSummaryV2"
        )
    values = []
    for i, clip in enumerate(clips[:max_outputs]):
        sound = clip.reshape(len(clip), -1).astype(np.float32)
        file = {
            "sample_rate": rate,
            "num_channels": sound.shape[1],
            "length_frames": len(sound),
            "encoded_audio_string": encode_wav(sound, int(rate)),
            "content_type": "audio/wav",
        }
        values.append(Summary.Value(tag=_numbered(f"{prefix}/audio", i, max_outputs), audio=file))
    return _text(values)


def text(name: str, tensor: Any, collections: Any = None) -> Tensor:
    """Strings as a summary in a string, or written as `scalar` does; TensorBoard shows them as Markdown."""
    given = tensor if hasattr(tensor, "dtype") else convert(tensor)
    if as_dtype(given.dtype).name != "string":
        raise ValueError(f"Expected tensor {given} to have dtype string, got {given.dtype!r}")
    step = _step_of_writer()
    if step is not None:
        summary.text(name, given, step=step)
        return convert(b"")
    metadata = SummaryMetadata(plugin_data={"plugin_name": "text"})
    return tensor_summary(name, given, summary_metadata=metadata, collections=collections)


def tensor_summary(
    name: str,
    tensor: Any,
    summary_description: Any = None,
    collections: Any = None,
    summary_metadata: Any = None,
    family: str | None = None,
    display_name: str | None = None,
) -> Tensor:
    """Any tensor as a summary in a string."""
    metadata = SummaryMetadata() if summary_metadata is None else summary_metadata
    if display_name is not None:
        metadata.display_name = display_name
    tag = _tag(name, family)

    def make(array: Any) -> Tensor:
        value = Summary.Value(tag=tag, metadata=metadata)
        value.tensor.MergeFromString(serialized(operand(array)))
        return _text([value])

    return _emit(make, name, [tensor], collections)


def merge(inputs: Iterable[Any], collections: Any = None, name: str | None = None) -> Tensor:
    """Several summaries in strings as one."""
    return _emit(lambda *texts: _merged(texts), name or "Merge/MergeSummary", list(inputs), collections or ())


def _merged(inputs: Iterable[Any]) -> Tensor:
    return _text([value for text in inputs for value in Summary.FromString(as_record(operand(text))).value])


def merge_all(key: Any = "summaries", scope: Any = None, name: str | None = None) -> Any:
    """All summaries of the default graph as one; None if there are none, as in eager code."""
    graph = default_graph()
    found = [] if graph is None else graph.get_collection(key, scope)
    return merge(found, name=name) if found else None


def summary_iterator(path: Any) -> Iterator[Event]:
    """The events of an event file, one by one."""
    return read_events(path_text(path))
