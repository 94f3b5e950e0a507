"""Event files: an append-only list of `Event`s, framed like a TFRecord file.

Appends are crash-safe: pending records are written in one call, which is undone if the disk is full. So however the
process ends, the file contains whole records; a reader stops at a truncated one. Each writer has its own file, also in
a forked child.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import struct
import time
import weakref
from collections.abc import Iterator

from gradtape._src import errors, forks
from gradtape._src.formats.atomic import named_errors
from gradtape._src.formats.crc32c import crc32c_small, masked
from gradtape._src.formats.event import Event
from gradtape._src.formats.protobuf import encode, varint
from gradtape._src.formats.tfrecord import records_in

__all__ = ["EventFile", "event_files", "read_events"]

_OP = "CreateSummaryFileWriter"
_numbers = itertools.count()
_lengths: dict[int, bytes] = {}
"""Length -> the header of a record, cached because its checksum takes as long as that of a small record."""

_SCALAR = struct.Struct("<f")
_TIME = struct.Struct("<cd")


def framed(record: bytes) -> bytes:
    """A small record with its length and checksums; large ones use NumPy."""
    length = len(record)
    header = _lengths.get(length)
    if header is None:
        number = length.to_bytes(8, "little")
        header = number + masked(crc32c_small(number)).to_bytes(4, "little")
        if len(_lengths) < 4096:
            _lengths[length] = header
    checksum = crc32c_small(record)
    return header + record + (((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


class EventFile:
    """A new event file in a folder, which is made if it is missing.

    Records are written when `max_queue` of them are pending or `flush_seconds` have passed, and at the end of the
    process.

    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> file = EventFile(folder)
    >>> file.add_scalar("loss", 0.5, step=3)
    >>> file.close()
    >>> [event.step for path in event_files(folder) for event in read_events(path)]
    [0, 3]
    """

    def __init__(
        self, logdir: str, max_queue: int = 10, flush_seconds: float = 120.0, suffix: str = ".v2", op: str = _OP
    ) -> None:
        self._logdir, self._suffix, self._op = logdir, suffix, op
        self._max_queue, self._flush_seconds = max_queue, flush_seconds
        self._lock = forks.lock()
        self._heads: dict[tuple[str, str | None], tuple[bytes, bytes]] = {}
        self._pending: list[bytes] = []
        self._open()

    def _open(self) -> None:
        with named_errors(self._logdir, self._op):
            os.makedirs(self._logdir, exist_ok=True)
            number = next(_numbers)
            name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{number}"
            self.path = os.path.join(self._logdir, name + self._suffix)
            self._handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        self._generation, self._size, self._written_at = forks.generation, 0, time.time()
        self._finalizer = weakref.finalize(self, _close, self._handle, self._pending, forks.generation)
        self._pending.append(framed(Event(
            wall_time=float(int(time.time())), file_version="brain.Event:2", source_metadata={"writer": "gradtape"}
        ).SerializeToString()))  # fmt: skip
        self.flush()

    def add(self, event: bytes) -> None:
        """Append an event: the bytes of an `Event`."""
        record = framed(event)
        with self._lock:
            if self._generation != forks.generation:
                self._begin_child()
            self._pending.append(record)
            if len(self._pending) > self._max_queue or time.time() - self._written_at > self._flush_seconds:
                self._write()

    def add_summary(self, summary: bytes, step: int) -> None:
        """Append the bytes of a `Summary`."""
        self.add(_stamp(step) + b"*" + varint(len(summary)) + summary)

    def add_scalar(self, tag: str, value: float, step: int, description: str | None = None) -> None:
        """Append a number in the format of TensorBoard's scalar plugin; the constant parts are encoded once."""
        key = tag, description
        parts = self._heads.get(key)
        if parts is None:
            parts = self._heads[key] = _around_scalar(tag, description)
        self.add(_stamp(step) + parts[0] + _SCALAR.pack(value) + parts[1])

    def flush(self) -> None:
        """Write all pending records to the file."""
        with self._lock:
            if self._generation == forks.generation:
                self._write()

    def close(self) -> None:
        """Write pending records and close the file."""
        with self._lock:
            if self._generation == forks.generation and self._finalizer.alive:
                try:
                    self._write()
                finally:
                    self._finalizer()

    def _write(self) -> None:
        """Write the pending records in one call; if they do not fit on the disk, write none and keep all pending."""
        data = b"".join(self._pending)
        self._written_at = time.time()
        with named_errors(self.path, self._op):
            try:
                _write_all(self._handle, data)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._handle, self._size)
                raise
        self._size += len(data)
        self._pending.clear()

    def _begin_child(self) -> None:
        """In a forked child, start a new file; the parent's file and pending records belong to the parent."""
        self._finalizer.detach()
        os.close(self._handle)
        self._pending = []
        self._lock.release()
        try:
            self._open()
        finally:
            self._lock.acquire()


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _close(handle: int, pending: list[bytes], generation: int) -> None:
    """Write pending records when a file is garbage-collected or the process ends."""
    with contextlib.suppress(OSError):
        if pending and generation == forks.generation:
            _write_all(handle, b"".join(pending))
            pending.clear()
        os.close(handle)


def _stamp(step: int) -> bytes:
    """The first fields of an event: its time and its step."""
    stamp = _TIME.pack(b"\t", time.time())
    if 0 < step < 128:
        return stamp + bytes((16, step))
    return stamp + b"\x10" + varint(step) if step else stamp


def _around_scalar(tag: str, description: str | None) -> tuple[bytes, bytes]:
    """The bytes of a summary before and after the number in it."""
    plugin = [(1, [(1, b"scalars")]), (3, description.encode() if description else None)]
    number = encode([(1, 1), (2, b""), (4, b"NUMB")])
    value = encode([(1, tag.encode()), (8, number), (9, encode(plugin))])
    summary = encode([(5, encode([(1, value)]))])
    at = summary.rindex(number) + number.index(b"NUMB")
    return summary[:at], summary[at + 4 :]


# -- reading ---------------------------------------------------------------------------------------------------------
def event_files(folder: str) -> list[str]:
    """The event files of a folder, oldest first."""
    names = [name for name in os.listdir(folder) if "tfevents" in name]
    return [os.path.join(folder, name) for name in sorted(names)]


def read_events(path: str) -> Iterator[Event]:
    """The events of a file, up to the first truncated or damaged record."""
    with contextlib.suppress(errors.DataLossError):
        for record in records_in(open(path, "rb")):  # noqa: SIM115 - records_in closes it
            yield Event.FromString(record)
