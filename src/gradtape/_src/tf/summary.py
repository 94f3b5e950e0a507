"""`tf.summary`: numbers, histograms, images, text and audio in event files, which TensorBoard reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.formats.media import encode_png, encode_wav
from gradtape._src.formats.protobuf import Message, encode
from gradtape._src.formats.tensor_proto import serialized
from gradtape._src.formats.tfrecord import as_record
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import Tensor
from gradtape._src.tf import summary_experimental as experimental
from gradtape._src.tf.array import cast
from gradtape._src.tf.io import convert_image_dtype
from gradtape._src.tf.summary_graph import graph as graph, trace_export, trace_off, trace_on
from gradtape._src.tf.summary_writer import (
    SummaryWriter,
    create_file_writer,
    create_noop_writer,
    current_writer,
    flush,
    record,
    record_if,
    should_record_summaries,
    tag_of,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

__all__ = [
    "SummaryWriter",
    "audio",
    "create_file_writer",
    "create_noop_writer",
    "experimental",
    "flush",
    "graph",
    "histogram",
    "image",
    "record_if",
    "scalar",
    "should_record_summaries",
    "text",
    "trace_export",
    "trace_off",
    "trace_on",
    "write",
]


def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> Tensor:
    """Write a number, as float32. Returns True if it was written, False without a writer.

    >>> import gradtape as tf, tempfile
    >>> writer = tf.summary.create_file_writer(tempfile.mkdtemp())
    >>> with writer.as_default():
    ...     written = tf.summary.scalar("loss", 0.5, step=1)
    >>> bool(written)
    True
    """
    tag = tag_of(name, "scalar_summary")
    if type(data) is not float:
        data = operand(data)
        if data.array.shape != ():
            raise ValueError(
                f"Expected scalar shape, saw shape: {data.shape}. Reduce it first, or use tf.summary.histogram."
            )
        data = cast(data, "float32")
    writer = current_writer()
    if writer is not None and current_graph() is None:  # the fast path
        return writer.write_scalar(tag, float(data), step, description)
    return record(writer, step, _of(data), lambda value: _encoded(tag, serialized(value), "scalars", b"", description))


def _of(data: Any) -> Callable[[], Tensor]:
    return lambda: convert(data, "float32")


def _encoded(tag: str, tensor: bytes, plugin: str, content: bytes, description: str | None) -> bytes:
    """A summary with one value, as bytes."""
    metadata: Message = [(1, [(1, plugin.encode()), (2, content or None)])]
    if description:
        metadata.append((3, description.encode()))
    return encode([(1, [(1, tag.encode()), (8, tensor), (9, metadata)])])


# -- histograms ------------------------------------------------------------------------------------------------------
def histogram(
    name: str, data: TensorLike, step: Any = None, buckets: Any = None, description: str | None = None
) -> Tensor:
    """Write the histogram of a tensor's values, in 30 (or `buckets`) buckets of equal width.

    >>> import gradtape as tf, tempfile
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     written = tf.summary.histogram("weights", [0.0, 1.0, 1.0, 2.0], step=1)
    >>> bool(written)
    True
    """
    tag, count = tag_of(name, "histogram_summary"), 30 if buckets is None else max(0, int(buckets))

    def summary(values: Tensor) -> bytes:
        rows = wrap(_counted(np.ravel(np.asarray(values.numpy(), np.float64)), count))
        return _encoded(tag, serialized(rows), "histograms", b"", description)

    return record(current_writer(), step, lambda: cast(operand(data), "float64"), summary)


def _counted(values: ndarray, count: int) -> ndarray:
    """Rows of left edge, right edge and count; if all values are equal, they are in the last bucket."""
    if not values.size or not count:
        return np.zeros((count, 3))
    low, high = values.min(), values.max()
    if low == high:
        counts = np.zeros(count)
        counts[-1] = values.size
        return np.stack([np.full(count, low), np.full(count, low), counts], 1)
    with float_errors_ignored():
        width = (high - low) / count
        edges = low + width * np.arange(count + 1)
        places = np.floor((values - low) / width)
    edges[0], edges[-1] = low, high
    places = np.minimum(places[np.isfinite(places)], count - 1).astype(np.int64)
    return np.stack([edges[:-1], edges[1:], np.bincount(places, minlength=count)], 1)


# -- images ----------------------------------------------------------------------------------------------------------
def image(
    name: str, data: TensorLike, step: Any = None, max_outputs: Any = 3, description: str | None = None
) -> Tensor:
    """Write the first `max_outputs` images of a batch [images, height, width, channels] as PNG files.

    Floating-point pixels must be between 0 and 1; other values are clipped.

    >>> import gradtape as tf, tempfile
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     written = tf.summary.image("noise", tf.random.uniform([1, 8, 8, 3]), step=1)
    >>> bool(written)
    True
    """
    tag = tag_of(name, "image_summary")

    def pixels() -> Tensor:
        images = operand(data)
        _check_rank(images, 4, "[images, height, width, channels]")
        _check_count(max_outputs)
        return images

    def summary(images: Tensor) -> bytes:
        values = convert_image_dtype(images, "uint8", saturate=True).numpy()
        if values.shape[3] not in (1, 2, 3, 4):
            raise errors.invalid_argument(f"image must have 1, 2, 3, or 4 channels, got {values.shape[3]}", "EncodePng")
        sizes = [str(values.shape[2]).encode(), str(values.shape[1]).encode()]
        texts = [*sizes, *[encode_png(picture) for picture in values[: int(max_outputs)]]]
        return _encoded(tag, _strings(texts, (len(texts),)), "images", b"", description)

    return record(current_writer(), step, pixels, summary)


def _check_rank(tensor: Tensor, rank: int, axes: str) -> None:
    if len(tensor.array.shape) != rank:
        raise ValueError(
            f"Tensor  must have rank {rank}.  Received rank {len(tensor.array.shape)}, shape {tensor.shape}. Its axes "
            f"are {axes}."
        )


def _check_count(max_outputs: Any) -> None:
    if int(max_outputs) < 0:
        raise errors.invalid_argument(
            f"\nCondition x >= 0 did not hold element-wise:\nx (shape=() dtype=int32) = \n{max_outputs}: max_outputs "
            "is the number of items to write."
        )


def _strings(texts: list[bytes], shape: tuple[int, ...]) -> bytes:
    array = np.empty(len(texts), object)
    array[:] = texts
    return serialized(wrap(array.reshape(shape)))


# -- texts and sounds ------------------------------------------------------------------------------------------------
def text(name: str, data: Any, step: Any = None, description: str | None = None) -> Tensor:
    """Write text, which TensorBoard shows as Markdown: a string or a tensor of strings.

    >>> import gradtape as tf, tempfile
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     written = tf.summary.text("note", "a *first* run", step=1)
    >>> bool(written)
    True
    """
    tag, tensor = tag_of(name, "text_summary"), convert(data)
    if tensor.dtype.name != "string":
        raise TypeError(f"tensor must be of type tf.string; got {tensor.dtype!r}. Use tf.summary.scalar for numbers.")
    return record(
        current_writer(), step, lambda: tensor, lambda t: _encoded(tag, serialized(t), "text", b"", description)
    )


def audio(
    name: str,
    data: TensorLike,
    sample_rate: Any,
    step: Any = None,
    max_outputs: Any = 3,
    encoding: str | None = None,
    description: str | None = None,
) -> Tensor:
    """Write the first `max_outputs` clips of a batch [clips, time, channels] of float32 between -1 and 1, as WAV.

    >>> import gradtape as tf, tempfile
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     written = tf.summary.audio("beep", tf.sin(tf.range(800.0))[None, :, None], 8000, step=1)
    >>> bool(written)
    True
    """
    if encoding not in (None, "wav"):
        raise ValueError(f"Unknown encoding: {encoding!r}. Use 'wav'.")
    tag, rate = tag_of(name, "audio_summary"), int(np.asarray(operand(sample_rate).array))

    def sounds() -> Tensor:
        samples = operand(data)
        _check_rank(samples, 3, "[sounds, time, channels]")
        _check_count(max_outputs)
        if samples.dtype.name != "float32":
            raise errors.invalid_argument(
                "cannot compute EncodeWav as input #0(zero-based) was expected to be a float tensor but is a "
                f"{samples.dtype.word} tensor",
                "EncodeWav",
            )
        return samples

    def summary(samples: Tensor) -> bytes:
        files = [encode_wav(sound, rate) for sound in samples.numpy()[: int(max_outputs)]]
        texts = [part for file in files for part in (file, b"")]  # each with an empty label
        return _encoded(tag, _strings(texts, (len(files), 2)), "audio", b"\x10\x0b", description)

    return record(current_writer(), step, sounds, summary)


# -- anything --------------------------------------------------------------------------------------------------------
def write(tag: str, tensor: Any, step: Any = None, metadata: Any = None, name: str | None = None) -> Tensor:
    """Write a tensor for the TensorBoard plugin named in `metadata`. If it is a function, it is called when needed.

    >>> import gradtape as tf, tempfile
    >>> with tf.summary.create_file_writer(tempfile.mkdtemp()).as_default():
    ...     written = tf.summary.write("counts", [1, 2, 3], step=1)
    >>> bool(written)
    True
    """
    if metadata is None:
        described = b""
    elif isinstance(metadata, (bytes, str, Tensor)):
        described = as_record(convert(metadata, "string"))
    elif hasattr(metadata, "SerializeToString"):
        described = metadata.SerializeToString()
    else:
        raise TypeError(f"Cannot convert {metadata!r} to EagerTensor of dtype string: pass a SummaryMetadata.")

    def summary(value: Tensor) -> bytes:
        return encode([(1, [(1, tag.encode()), (8, serialized(value)), (9, described or None)])])

    return record(current_writer(), step, lambda: operand(tensor() if callable(tensor) else tensor), summary)
