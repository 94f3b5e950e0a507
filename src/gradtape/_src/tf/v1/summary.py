"""`tf.compat.v1.summary`: summaries as strings, and their messages."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradtape._src.arrays.symbolic import default_graph, graph_for_ops
from gradtape._src.conversion import convert, operand, wrap
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
from gradtape._src.formats.media import encode_png
from gradtape._src.formats.tensor_proto import serialized
from gradtape._src.formats.tfrecord import as_record
from gradtape._src.tensor import Tensor
from gradtape._src.tf.io import convert_image_dtype
from gradtape._src.tf.python_functions import numpy_function
from gradtape._src.variable import name_prefix

__all__ = [
    "Event",
    "FileWriter",
    "SessionLog",
    "Summary",
    "SummaryDescription",
    "TaggedRunMetadata",
    "histogram",
    "image",
    "merge",
    "merge_all",
    "scalar",
    "summary_iterator",
    "tensor_summary",
]


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
        if graph is not None:
            self.add_graph(graph)

    def get_logdir(self) -> str:
        """The folder."""
        return self._folder

    def add_summary(self, summary: Any, global_step: Any = None) -> None:
        """Write a summary: a message, or its bytes, which a session returned."""
        message = summary if isinstance(summary, Summary) else Summary.FromString(bytes(summary))
        self.add_event(Event(wall_time=time.time(), step=int(global_step or 0), summary=message))

    def add_event(self, event: Any) -> None:
        """Write an event."""
        self._file.add(event.SerializeToString())

    def add_graph(self, graph: Any, global_step: Any = None, graph_def: Any = None) -> None:
        """Write a graph."""
        message = (graph_def or graph.as_graph_def()).SerializeToString()
        self.add_event(Event(wall_time=time.time(), step=int(global_step or 0), graph_def=message))

    def add_session_log(self, session_log: Any, global_step: Any = None) -> None:
        """Write a log of a session."""
        self.add_event(Event(wall_time=time.time(), step=int(global_step or 0), session_log=session_log))

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


def _in_graph(make: Callable[..., Tensor], name: str, values: Iterable[Any], collections: Any) -> Any:
    """A summary as a tensor of the default graph, which a session computes; None in eager code."""
    graph = graph_for_ops()
    if graph is None:
        return None

    def compute(*tensors: Tensor) -> Any:
        return numpy_function(lambda *arrays: make(*arrays).numpy(), list(tensors), "string")

    result = graph.record_python(compute, tuple(values), {}, "string", name)
    result.set_shape([])
    for key in ("summaries",) if collections is None else collections:
        graph.add_to_collection(key, result)
    return result


def _text(values: list[Any]) -> Tensor:
    """A summary as a scalar string."""
    array = np.empty((), object)
    array[()] = Summary(value=values).SerializeToString()
    return wrap(array)


def scalar(name: str, tensor: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """A number as a summary in a string.

    >>> scalar("a", 2.5).numpy()
    b'\\n\\x08\\n\\x01a\\x15\\x00\\x00 @'
    """
    tag = _tag(name, family)

    def make(value: Any) -> Tensor:
        return _text([Summary.Value(tag=tag, simple_value=float(operand(value).numpy()))])

    found = _in_graph(make, name, [tensor], collections)
    return make(tensor) if found is None else found


def _tag(name: str, family: str | None) -> str:
    return f"{family}/{family}/{name}" if family else f"{name_prefix.get()}{name}"


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """The histogram of a tensor's values as a summary in a string."""
    tag = _tag(name, family)
    found = _in_graph(lambda array: _histogram(tag, array), name, [values], collections)
    return _histogram(tag, values) if found is None else found


def _histogram(tag: str, values: Any) -> Tensor:
    numbers = np.ravel(np.asarray(operand(values).numpy(), np.float64))
    counts, edges = np.histogram(numbers, 30) if numbers.size else (np.zeros(1), np.zeros(2))
    message = {
        "min": float(numbers.min()) if numbers.size else 0.0,
        "max": float(numbers.max()) if numbers.size else 0.0,
        "num": float(numbers.size),
        "sum": float(numbers.sum()),
        "sum_squares": float((numbers**2).sum()),
        "bucket_limit": edges[1:].tolist(),
        "bucket": counts.astype(float).tolist(),
    }
    return _text([Summary.Value(tag=tag, histo=message)])


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """Images [images, height, width, channels] as a summary in a string."""
    prefix = _tag(name, family)
    found = _in_graph(lambda array: _images(prefix, array, max_outputs), name, [tensor], collections)
    return _images(prefix, tensor, max_outputs) if found is None else found


def _images(prefix: str, tensor: Any, max_outputs: int) -> Tensor:
    pixels = convert_image_dtype(operand(tensor), "uint8", saturate=True).numpy()
    values = []
    for i, picture in enumerate(pixels[:max_outputs]):
        tag = f"{prefix}/image" + (f"/{i}" if max_outputs > 1 else "")
        height, width, channels = picture.shape
        file = {"height": height, "width": width, "colorspace": channels, "encoded_image_string": encode_png(picture)}
        values.append(Summary.Value(tag=tag, image=file))
    return _text(values)


def tensor_summary(name: str, tensor: Any, summary_description: Any = None, summary_metadata: Any = None,
                   **kwargs: Any) -> Tensor:  # fmt: skip
    """Any tensor as a summary in a string."""
    value = Summary.Value(tag=name, metadata=summary_metadata or SummaryMetadata())
    value.tensor.MergeFromString(serialized(convert(tensor)))
    return _text([value])


def merge(inputs: Iterable[Any], collections: Any = None, name: str | None = None) -> Tensor:
    """Several summaries in strings as one."""
    given = list(inputs)
    found = _in_graph(lambda *texts: _merged(texts), name or "Merge/MergeSummary", given, collections or ())
    return _merged(given) if found is None else found


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
