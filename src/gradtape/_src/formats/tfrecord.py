"""TFRecord files: records of bytes, each with its length and two checksums."""

from __future__ import annotations

import functools
import io
import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import convert
from gradtape._src.formats.atomic import named_errors, open_to_read
from gradtape._src.formats.crc32c import crc32c, masked
from gradtape._src.tensor import Tensor

_HEADER = struct.Struct("<QI")
_WAYS = {"": 0, "GZIP": 31, "ZLIB": 15}  # zlib's window sizes for the kinds of compression
_PIECE = 2**20  # bytes that are read first: the length in a damaged file may be wrong
_OP = "IteratorGetNext"


def opened(path: str, compression: str) -> IO[bytes]:
    """Open a file for reading, with this compression."""
    if compression not in _WAYS:
        raise errors.invalid_argument(
            f"Unsupported compression_type: {compression}. Use one of {tuple(_WAYS)[1:]}, or none."
        )
    file = open_to_read(path, _OP)
    return io.BufferedReader(_Inflated(file, path, compression), _PIECE) if compression else file


class _Inflated(io.RawIOBase):
    """The content of a compressed file, decompressed in pieces. GZIP may have several members."""

    def __init__(self, file: IO[bytes], path: str, compression: str) -> None:
        self._file, self._path, self._compression = file, path, compression
        self._inflate: Any = None
        self._waiting = b""  # read, but not yet decompressed

    def readable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()
        super().close()

    def readinto(self, buffer: Any) -> int:
        while True:
            if not self._waiting:
                self._waiting = self._file.read(_PIECE // 16)
            if self._inflate is None or self._inflate.eof:
                if not self._waiting:
                    return 0
                if self._inflate is not None and self._compression == "ZLIB":
                    raise lost(f"{self._path} has extra bytes after the end of the compressed data")
                self._inflate = zlib.decompressobj(_WAYS[self._compression])
            elif not self._waiting:
                raise lost(f"{self._path} is truncated: the end of the compressed data is missing")
            data = self._next(len(buffer))
            if data:
                buffer[: len(data)] = data
                return len(data)

    def _next(self, size: int) -> bytes:
        try:
            data: bytes = self._inflate.decompress(self._waiting, size)
        except zlib.error as error:
            why = str(error).replace("Error ", "error ").replace(" while decompressing data", "")
            raise lost(f"inflate() failed with {why}. {self._path} is damaged, or not {self._compression}") from None
        self._waiting = self._inflate.unused_data if self._inflate.eof else self._inflate.unconsumed_tail
        return data


def lost(message: str) -> errors.DataLossError:
    return errors.DataLossError(None, None, f"{message} [Op:{_OP}]")


def read_up_to(file: IO[bytes], size: int) -> bytes:
    """At most this many bytes, or the rest of the file; memory grows with the actual content only."""
    data = file.read(min(size, _PIECE))
    if len(data) == size:
        return data
    pieces = [data]
    have = len(data)
    try:
        while data and have < size:
            data = file.read(min(size - have, have))
            pieces.append(data)
            have += len(data)
        return b"".join(pieces)
    except MemoryError:
        raise _too_large(f"A record of {size} bytes") from None


def lines_in(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, without line ends."""
    while True:
        try:
            line = file.readline()
        except MemoryError:
            raise _too_large("A line") from None
        if not line:
            return
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _too_large(what: str) -> errors.ResourceExhaustedError:
    return errors.ResourceExhaustedError(None, None, f"{what} does not fit into memory [Op:{_OP}]")


def read_records(path: str, compression: str = "") -> Iterator[bytes]:
    """The records of a file."""
    return records_in(opened(path, compression))


def records_in(opened_file: IO[bytes]) -> Iterator[bytes]:
    """The records of an open file."""
    with opened_file as file:
        at = 0
        for header in iter(functools.partial(read_up_to, file, 12), b""):
            if len(header) < 12:
                raise lost(f"truncated record at {at}")
            length, checksum = _HEADER.unpack(header)
            if masked(crc32c(header[:8])) != checksum:
                hint = " (Is this even a TFRecord file?)" if not at else ""
                raise lost(f"corrupted record at {at}{hint}")
            data, footer = read_up_to(file, length), file.read(4)
            if len(data) < length or len(footer) < 4:
                raise lost(f"truncated record at {at}' failed with Read less bytes than requested")
            if masked(crc32c(data)) != int.from_bytes(footer, "little"):
                raise lost(f"corrupted record at {at + 12}")
            yield data
            at += 16 + length


def framed(record: bytes) -> bytes:
    """A record with its length and its checksums."""
    length = struct.pack("<Q", len(record))
    return b"".join([length, masked(crc32c(length)).to_bytes(4, "little"), record,
                     masked(crc32c(record)).to_bytes(4, "little")])  # fmt: skip


class TFRecordOptions:
    """How a TFRecord file is written: `compression_type` is "", "GZIP" or "ZLIB".

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
    >>> with tf.io.TFRecordWriter(path, tf.io.TFRecordOptions(compression_type="GZIP")) as writer:
    ...     writer.write(b"record")
    >>> list(tf.data.TFRecordDataset(path, "GZIP").as_numpy_iterator())
    [b'record']
    """

    def __init__(
        self,
        compression_type: str | None = None,
        flush_mode: Any = None,
        input_buffer_size: Any = None,
        output_buffer_size: Any = None,
        window_bits: Any = None,
        compression_level: int | None = None,
        compression_method: Any = None,
        mem_level: Any = None,
        compression_strategy: Any = None,
    ) -> None:
        self.compression_type = compression_type or ""
        self.compression_level = compression_level
        if self.compression_type not in _WAYS:
            raise ValueError(f'Not a valid compression_type: "{compression_type}"')


class RecordStream:
    """Writes records to an open file."""

    def __init__(self, file: IO[bytes], compression: str, level: int | None = None) -> None:
        self.file = file
        self._packer: Any = None
        if compression:
            self._packer = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, _WAYS[compression])

    def write(self, record: bytes) -> None:
        data = framed(record)
        self.file.write(data if self._packer is None else self._packer.compress(data))

    def flush(self) -> None:
        if self._packer is not None:
            self.file.write(self._packer.flush(zlib.Z_SYNC_FLUSH))
        self.file.flush()

    def finish(self) -> None:
        if self._packer is not None:
            self.file.write(self._packer.flush())


def as_record(value: Any) -> bytes:
    """Bytes, a str or a scalar string tensor as bytes."""
    if isinstance(value, Tensor):
        value = np.asarray(value.array).item()
    if isinstance(value, str):
        value = value.encode()
    if not isinstance(value, (bytes, bytearray, memoryview)):
        raise TypeError(f"A record must be bytes, got {type(value).__name__}.")
    return bytes(value)


class TFRecordWriter:
    """Writes records of bytes to a TFRecord file.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "some.tfrecord")
    >>> with tf.io.TFRecordWriter(path) as writer:
    ...     writer.write(b"first")
    >>> list(tf.data.TFRecordDataset(path).as_numpy_iterator())
    [b'first']

    >>> writer = tf.io.TFRecordWriter(path)
    >>> writer.write(b"again")
    >>> writer.flush()
    >>> writer.close()
    """

    _stream: RecordStream | None = None

    def __init__(self, path: Any, options: TFRecordOptions | str | None = None) -> None:
        chosen = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
        self._name = os.fspath(path)
        with named_errors(self._name):
            file = open(self._name, "wb")  # noqa: SIM115 - close() closes it
        self._stream = RecordStream(file, chosen.compression_type, chosen.compression_level)

    def _opened(self) -> RecordStream:
        if self._stream is None:
            raise errors.FailedPreconditionError(None, None, f"Writer is closed. {self._name} was written before.")
        return self._stream

    def write(self, record: Any) -> None:
        """Add a record: bytes, a str or a scalar string tensor."""
        stream, data = self._opened(), as_record(record)
        with named_errors(self._name):
            stream.write(data)

    def flush(self) -> None:
        """Write buffered records to the file."""
        stream = self._opened()
        with named_errors(self._name):
            stream.flush()

    def close(self) -> None:
        """Close the file."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with named_errors(self._name), stream.file:
                stream.finish()

    def __del__(self) -> None:
        self.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.close()


def file_names(filenames: Any) -> list[str]:
    """Names of files as strings: one, a list or a tensor of them, of any shape."""
    if isinstance(filenames, os.PathLike):
        filenames = os.fspath(filenames)
    if isinstance(filenames, (list, tuple)):
        filenames = [os.fspath(name) if isinstance(name, os.PathLike) else name for name in filenames]
    tensor = convert(filenames)
    if tensor.dtype.name != "string":
        raise TypeError(f"The `filenames` argument must contain `tf.string` elements. Got `{tensor.dtype!r}` elements.")
    return [os.fsdecode(name) for name in np.ravel(np.asarray(tensor.array))]
