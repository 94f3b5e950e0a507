"""`tf.compat.v1.summary`: summaries as strings, and the messages they are made of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.formats.event import (
    Event,
    SessionLog,
    Summary,
    SummaryDescription,
    SummaryMetadata,
    TaggedRunMetadata,
)
from gradtape._src.formats.event_file import read_events
from gradtape._src.formats.file_systems import path_text
from gradtape._src.formats.media import encode_png
from gradtape._src.formats.tensor_proto import serialized
from gradtape._src.formats.tfrecord import as_record
from gradtape._src.tensor import Tensor
from gradtape._src.tf.io import convert_image_dtype

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
    """RuntimeError: it writes what sessions compute. Use `tf.summary.create_file_writer`."""

    def __init__(self, logdir: Any, graph: Any = None, **kwargs: Any) -> None:
        raise RuntimeError(
            "v1.summary.FileWriter is not compatible with eager execution. Use `tf.summary.create_file_writer`, which "
            "writes files that TensorBoard reads as well."
        )


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
    return _text([Summary.Value(tag=_tag(name, family), simple_value=float(operand(tensor).numpy()))])


def _tag(name: str, family: str | None) -> str:
    return f"{family}/{family}/{name}" if family else name


def histogram(name: str, values: Any, collections: Any = None, family: str | None = None) -> Tensor:
    """The histogram of a tensor's values as a summary in a string."""
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
    return _text([Summary.Value(tag=_tag(name, family), histo=message)])


def image(name: str, tensor: Any, max_outputs: int = 3, collections: Any = None, family: str | None = None) -> Tensor:
    """Images [images, height, width, channels] as a summary in a string."""
    pixels = convert_image_dtype(operand(tensor), "uint8", saturate=True).numpy()
    values = []
    for i, picture in enumerate(pixels[:max_outputs]):
        tag = f"{_tag(name, family)}/image" + (f"/{i}" if max_outputs > 1 else "")
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
    return _text([value for text in inputs for value in Summary.FromString(as_record(operand(text))).value])


def merge_all(key: Any = None, scope: Any = None, name: str | None = None) -> None:
    """None: eager code has no collections of summaries."""


def summary_iterator(path: Any) -> Iterator[Event]:
    """The events of an event file, one by one."""
    return read_events(path_text(path))
