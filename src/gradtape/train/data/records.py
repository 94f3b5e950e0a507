"""TFRecord files: records of bytes, each with its length and two checksums."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from types import TracebackType
from typing import IO, Any

import numpy as np

from gradtape import errors
from gradtape.conversion import convert
from gradtape.tensor import Tensor
from gradtape.train.checksum import crc32c, masked

_HEADER = struct.Struct("<QI")
_WAYS = ("", "GZIP", "ZLIB")


def opened(path: str, compression: str) -> IO[bytes]:
    """A file to read, whatever its compression is."""
    if compression not in _WAYS:
        raise errors.invalid_argument(f"Unsupported compression_type: {compression}. One of {_WAYS[1:]}, or none.")
    try:
        if compression == "GZIP":
            return gzip.open(path, "rb")  # type: ignore[return-value]
        file = open(path, "rb")  # noqa: SIM115 - the caller closes it
    except FileNotFoundError:
        raise errors.NotFoundError(None, None, f"{path}; No such file or directory [Op:IteratorGetNext]") from None
    except IsADirectoryError:
        raise errors.FailedPreconditionError(None, None, f"{path}; Is a directory [Op:IteratorGetNext]") from None
    if compression != "ZLIB":
        return file
    import io

    with file:
        return io.BytesIO(zlib.decompress(file.read()))


def lost(message: str) -> errors.DataLossError:
    return errors.DataLossError(None, None, f"{message} [Op:IteratorGetNext]")


def read_records(path: str, compression: str = "") -> Iterator[bytes]:
    """The records of a file."""
    with opened(path, compression) as file:
        at = 0
        while header := file.read(12):
            if len(header) < 12:
                raise lost(f"truncated record at {at}")
            length, checksum = _HEADER.unpack(header)
            if masked(crc32c(header[:8])) != checksum:
                hint = " (Is this even a TFRecord file?)" if not at else ""
                raise lost(f"corrupted record at {at}{hint}")
            data, footer = file.read(length), file.read(4)
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
    """How a TFRecord file is written: `compression_type` is "", "GZIP" or "ZLIB"."""

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


class TFRecordWriter:
    """Writes records of bytes to a TFRecord file.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "some.tfrecord")
    >>> with TFRecordWriter(path) as writer:
    ...     writer.write(b"first")
    >>> list(read_records(path))
    [b'first']
    """

    def __init__(self, path: Any, options: TFRecordOptions | str | None = None) -> None:
        chosen = options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)
        level = -1 if chosen.compression_level is None else chosen.compression_level
        name = os.fspath(path)
        try:
            self._file: Any = open(name, "wb")  # noqa: SIM115 - close() closes it
        except FileNotFoundError:
            raise errors.NotFoundError(None, None, f"{name}; No such file or directory") from None
        self._packer: Any = None
        if chosen.compression_type:
            bits = 31 if chosen.compression_type == "GZIP" else 15
            self._packer = zlib.compressobj(level, zlib.DEFLATED, bits)

    def write(self, record: Any) -> None:
        """Add a record: bytes, a str or a scalar string tensor."""
        if isinstance(record, Tensor):
            record = np.asarray(record.array).item()
        if isinstance(record, str):
            record = record.encode()
        if not isinstance(record, (bytes, bytearray, memoryview)):
            raise TypeError(f"A record is a string of bytes, got {type(record).__name__}.")
        data = framed(bytes(record))
        self._file.write(data if self._packer is None else self._packer.compress(data))

    def flush(self) -> None:
        """Let everything that was written reach the file."""
        if self._packer is not None:
            self._file.write(self._packer.flush(zlib.Z_SYNC_FLUSH))
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        if not self._file.closed:
            if self._packer is not None:
                self._file.write(self._packer.flush())
            self._file.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
