"""`tf.summary`: numbers, histograms, images, text and audio in event files, which TensorBoard reads."""

import typing as _typing

from gradtape._src.tf.summary import (
    SummaryWriter as SummaryWriter,
    audio as audio,
    create_file_writer as create_file_writer,
    create_noop_writer as create_noop_writer,
    flush as flush,
    graph as graph,
    histogram as histogram,
    image as image,
    record_if as record_if,
    scalar as scalar,
    should_record_summaries as should_record_summaries,
    text as text,
    trace_export as trace_export,
    trace_off as trace_off,
    trace_on as trace_on,
    write as write,
)
from gradtape.summary import experimental as experimental

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
