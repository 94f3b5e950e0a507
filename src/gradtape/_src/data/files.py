"""Datasets of the contents of files: lines, records of fixed length, TFRecords."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import wrap
from gradtape._src.data import transforms
from gradtape._src.data.core import Elements, Pipeline, Run, as_int
from gradtape._src.data.dataset import Dataset
from gradtape._src.formats.tfrecord import file_names, lines_in, opened, read_records, read_up_to
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor

Reader = Callable[[str], Iterator[bytes]]


class FileDataset(Dataset):
    """A dataset of what a reader finds in files."""

    def _read(self, kind: str, filenames: Any, num_parallel_reads: Any, reader: Reader) -> None:
        given = filenames if isinstance(filenames, Dataset) else Dataset.from_tensor_slices(file_names(filenames))
        names = replace(given._pipeline, elements=lambda run: run.own_files(given._pipeline.elements(run.inner())))

        def contents(name: Tensor) -> Dataset:
            (path,) = file_names(name)
            return Dataset._of(_contents(kind, lambda: reader(path)))

        if num_parallel_reads is None:
            pipeline = transforms.flat_map(names, contents)
        else:
            pipeline = transforms.interleaved(names, contents, num_parallel_reads, 1, kind)
        self._pipeline = Pipeline(kind, pipeline.elements, _text_spec, reads_files=lambda: True)


def _text_spec() -> TensorSpec:
    return TensorSpec((), "string")


def _contents(kind: str, read: Callable[[], Iterator[bytes]]) -> Pipeline:
    def elements(run: Run) -> Elements:
        return map(_text, read())

    return Pipeline(kind, elements, _text_spec)


def _text(data: bytes) -> Tensor:
    value = np.empty((), object)
    value[()] = data
    return wrap(value)


class TextLineDataset(FileDataset):
    """A dataset of the lines of text files, without line ends. `compression_type` is "", "GZIP" or "ZLIB".

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "lines.txt")
    >>> with open(path, "w") as file:
    ...     print("first", "second", sep=chr(10), file=file)
    >>> list(tf.data.TextLineDataset(path).as_numpy_iterator())
    [b'first', b'second']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        def reader(path: str) -> Iterator[bytes]:
            with opened(path, compression_type or "") as file:
                yield from lines_in(file)

        self._read("TextLineDatasetV2", filenames, num_parallel_reads, reader)


class FixedLengthRecordDataset(FileDataset):
    """A dataset of fixed-length records from files, without the header and footer of each file.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "records")
    >>> tf.io.write_file(path, b"HEADaabbcc")
    >>> list(tf.data.FixedLengthRecordDataset(path, record_bytes=2, header_bytes=4).as_numpy_iterator())
    [b'aa', b'bb', b'cc']
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        size = as_int(record_bytes, "record_bytes")
        header, footer = as_int(header_bytes or 0, "header_bytes"), as_int(footer_bytes or 0, "footer_bytes")
        if size < 1:
            raise errors.invalid_argument("`record_bytes` must be > 0", "FixedLengthRecordDatasetV2")

        for name, value in {"header_bytes": header, "footer_bytes": footer}.items():
            if value < 0:
                raise errors.invalid_argument(f"`{name}` must be >= 0", "FixedLengthRecordDatasetV2")

        def reader(path: str) -> Iterator[bytes]:
            with opened(path, compression_type or "") as file:
                if not compression_type and file.seekable():
                    check(path, file.seek(0, os.SEEK_END))
                    file.seek(0)
                have = len(read_up_to(file, header))
                waiting = read_up_to(file, footer)  # it is not the footer as long as more data comes after it
                have += len(waiting)
                for record in iter(functools.partial(read_up_to, file, size), b""):
                    have += len(record)
                    if len(record) < size:
                        break
                    waiting += record
                    yield waiting[:size]
                    waiting = waiting[size:]
                check(path, have)

        def check(path: str, length: int) -> None:
            body = length - header - footer
            if body < 0 or body % size:
                kind = errors.DataLossError if compression_type else errors.InvalidArgumentError
                message = (
                    f'Excluding the header ({header} bytes) and footer ({footer} bytes), input file "{path}" has body '
                    f"length {body} bytes, which is not an exact multiple of the record length ({size} bytes). "
                    "[Op:IteratorGetNext]"
                )
                raise kind(None, None, message)

        self._read("FixedLengthRecordDatasetV2", filenames, num_parallel_reads, reader)


class TFRecordDataset(FileDataset):
    """A dataset of the records in TFRecord files, as strings; parse them with `tf.io.parse_single_example`.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    >>> with tf.io.TFRecordWriter(path) as writer:
    ...     writer.write(b"record")
    >>> list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    [b'record']
    """

    def __init__(
        self,
        filenames: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        num_parallel_reads: Any = None,
        name: str | None = None,
    ) -> None:
        self._read(
            "TFRecordDatasetV2", filenames, num_parallel_reads, lambda path: read_records(path, compression_type or "")
        )
