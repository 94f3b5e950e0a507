"""TFRecord files as `tf.compat.v1` reads them: record by record, in a loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradtape._src.data import TFRecordDataset

__all__ = ["TFRecordCompressionType", "tf_record_iterator"]


class TFRecordCompressionType:
    """How the records of a file are compressed."""

    NONE, ZLIB, GZIP = 0, 1, 2


def tf_record_iterator(path: str, options: Any = None) -> Iterator[bytes]:
    """The records of a file, one after another.

    Args:
      path: The path of the file.
      options: `TFRecordOptions`, or one of the constants of `TFRecordCompressionType`.

    >>> import gradtape as tf, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "data")
    >>> with tf.io.TFRecordWriter(path) as writer:
    ...     writer.write(b"one")
    >>> list(tf.compat.v1.python_io.tf_record_iterator(path))
    [b'one']
    """
    kind = getattr(options, "compression_type", options) or ""
    kind = kind if isinstance(kind, str) else ("", "ZLIB", "GZIP")[kind]
    for record in TFRecordDataset(path, kind):
        yield record.numpy()
