"""Named tensors in files, in the format of TensorFlow's checkpoints.

`{prefix}.data-00000-of-00001` contains the values, one after the other. `{prefix}.index` has the position of each value
by name: a sorted table in LevelDB's format, whose blocks have their own checksums.
"""

from __future__ import annotations

import contextlib
import difflib
import glob
import itertools
import json
import math
import os
import re
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.dtypes import DType, as_dtype, dtype_of, string
from gradtape._src.formats import leveldb as table
from gradtape._src.formats.atomic import (
    Staged,
    alone_in,
    flush_folder,
    named_errors,
    publish,
    remove,
    remove_abandoned,
    write as write_file,
)
from gradtape._src.formats.crc32c import crc32c, masked, unmasked
from gradtape._src.formats.protobuf import (
    Fixed32,
    Message,
    bytes_in,
    decode,
    encode,
    messages_in,
    number_in,
    read_varint,
    varint,
)
from gradtape._src.formats.tensor_proto import shaped

T = TypeVar("T")

_HEADER_KEY = b""
_VERSION = 1  # of the format
_RANK = 254  # the largest rank of a tensor in TensorFlow


def write(prefix: str, tensors: Mapping[str, ndarray]) -> None:
    """Write arrays by name, so that TensorFlow reads them; strings are arrays of bytes objects.

    Writing is atomic: if anything fails, older files of the same prefix do not change.

    >>> import tempfile
    >>> prefix = os.path.join(tempfile.mkdtemp(), "values")
    >>> write(prefix, {"w": np.eye(2, dtype=np.float32), "name": np.array(b"digits", object)})
    >>> Reader(prefix).get("w")
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    prefix = os.fspath(prefix)
    if "" in tensors:
        raise ValueError("A tensor needs a name to be saved: '' is reserved for the header of the file.")
    folder = os.path.dirname(prefix) or "."
    with named_errors(prefix):
        os.makedirs(folder, exist_ok=True)
    with Staged(folder, like=_shard(prefix, 0, 1)) as values:
        entries = _write_values(values.file, tensors)
        values.flush()
        with alone_in(folder):
            remove_abandoned(folder)
            publish(
                values,
                lambda shard: _shard(prefix, shard, shard + 1),
                f"{prefix}.index",
                lambda shard: table.written(_index_rows(entries, shard)),
                lambda: shards_of(prefix),
            )


class Slices(NamedTuple):
    """The parts of a tensor in a process: the whole shape, and for each part (start, length) by axis."""

    shape: tuple[int, ...]
    parts: list[tuple[tuple[tuple[int, int], ...], ndarray]]


class Group(NamedTuple):
    """Processes that write a checkpoint together: how many, which one this is, and how they exchange bytes."""

    processes: int
    number: int
    exchange: Callable[[str, bytes], list[bytes]]

    def agree(self, stage: str, work: Callable[[], bytes]) -> list[bytes]:
        """Return the results of a stage in all processes. If it fails in one, all of them raise an error."""
        failure: Exception | None = None
        try:
            content = b"+" + work()
        except Exception as error:
            failure, content = error, b"-" + str(error).encode()
        told = self.exchange(stage, content)
        if failure is not None:
            raise failure
        failed = [f"process {i}: {each[1:].decode()}" for i, each in enumerate(told) if each.startswith(b"-")]
        if failed:
            raise errors.AbortedError(
                None,
                None,
                "The checkpoint is not written, because another process has failed to write its part. "
                + "; ".join(failed),
            )
        return [each[1:] for each in told]


def write_together(prefix: str, tensors: Mapping[str, ndarray | Slices], group: Group) -> None:
    """Write the arrays of several processes to one checkpoint: a file with values for each process, and one index.

    Each process passes its own arrays, and its parts of divided ones. TensorFlow can read the result.

    All processes must call this. The index is written last, when all values are on disk: without it there is no
    checkpoint. If one process fails, for example because its disk is full, all of them raise an error, and an older
    checkpoint with the same prefix does not change.
    """
    folder = os.path.dirname(prefix) or "."
    opened: list[Staged] = []
    with ExitStack() as files:

        def open_file() -> bytes:
            os.makedirs(folder, exist_ok=True)
            opened.append(files.enter_context(Staged(folder, like=_shard(prefix, 0, 1))))
            return str(_first_free(prefix, group.processes)).encode() if group.number == 0 else b""

        first = int(group.agree("opened", open_file)[0])
        (values,) = opened
        told = group.agree("values", lambda: _write_part(values, tensors, first + group.number))
        shards = [_shard(prefix, first + i, first + group.processes) for i in range(group.processes)]

        def move() -> bytes:
            values.move(shards[group.number])
            flush_folder(folder)
            return b""

        def write_index() -> bytes:
            if group.number == 0:
                rows = _joint_rows([json.loads(each) for each in told], first + group.processes)
                write_file(f"{prefix}.index", lambda file: file.writelines(table.written(rows)))
            return b""

        try:
            group.agree("moved", move)
            group.agree("written", write_index)
        except errors.UnavailableError:  # the first process, which writes the index, may have finished
            raise
        except Exception:
            remove(shards[group.number])
            raise
    if group.number == 0:
        with contextlib.suppress(OSError):
            for path in set(shards_of(prefix)) - set(shards):
                remove(path)


def _first_free(prefix: str, count: int) -> int:
    """The first of `count` consecutive shard numbers whose names are free, so that an older index keeps its values."""

    def is_free(first: int) -> bool:
        return not any(os.path.lexists(_shard(prefix, first + i, first + count)) for i in range(count))

    return next(filter(is_free, itertools.count(step=count)))


def _write_part(values: Staged, tensors: Mapping[str, ndarray | Slices], shard: int) -> bytes:
    """Write the values of a process to its shard. Returns their entries for the index."""
    own = {name.encode(): value for name, value in tensors.items() if not isinstance(value, Slices)}
    divided = {name: value for name, value in tensors.items() if isinstance(value, Slices)}
    parts = {
        _slice_key(name.encode(), extents): part for name, value in divided.items() for extents, part in value.parts
    }
    entries = _write_values(values.file, {**own, **parts})
    values.flush()
    rows = [[key.hex(), encode([*before, (3, shard or None), *after]).hex()] for key, before, after in entries]
    wholes = {name: [value.shape, [extents for extents, _ in value.parts]] for name, value in divided.items()}
    return json.dumps([rows, wholes, _enums(divided)]).encode()


def _enums(divided: Mapping[str, Slices]) -> dict[str, int]:
    """The dtype numbers of divided tensors."""
    return {name: dtype_of(value.parts[0][1]).as_datatype_enum for name, value in divided.items() if value.parts}


def _joint_rows(told: list[Any], count: int) -> list[tuple[bytes, bytes]]:
    """The rows of the index, from the entries of all processes."""
    rows = {bytes.fromhex(key): bytes.fromhex(entry) for each in told for key, entry in each[0]}
    enums = {name: number for each in told for name, number in each[2].items()}
    for name in {name for each in told for name in each[1]}:
        found = [each[1][name] for each in told if name in each[1]]
        shape: Message = [(2, [(1, n or None)]) for n in found[0][0]]
        extents = sorted({tuple(map(tuple, e)) for _, all_extents in found for e in all_extents})
        slices: Message = [(7, [(1, [(1, start or None), (2, length)]) for start, length in e]) for e in extents]
        rows[name.encode()] = encode([(1, enums[name]), (2, shape), *slices])
    rows[_HEADER_KEY] = encode([(1, count), (3, [(1, _VERSION)])])
    return sorted(rows.items())


def _write_values(file: Any, tensors: Mapping[Any, ndarray]) -> list[tuple[bytes, Message, Message]]:
    """Write the values one after the other. Returns the key of each, and its entry before and after the shard."""
    entries = []
    offset = 0
    for name, array in sorted(tensors.items()):
        key = name if isinstance(name, bytes) else name.encode()
        dtype, shape, pieces, checksum = _stored(key.decode("utf-8", "replace"), array)
        file.writelines(pieces)
        size = sum(map(len, pieces))
        entries.append((
            key,
            [(1, dtype.as_datatype_enum), (2, [(2, [(1, n or None)]) for n in shape])],
            [(4, offset or None), (5, size or None), (6, Fixed32(masked(checksum)))],
        ))  # fmt: skip
        offset += size
    return entries


def _index_rows(entries: list[tuple[bytes, Message, Message]], shard: int) -> Iterator[tuple[bytes, bytes]]:
    """The rows of an index for values in this shard, which is the last one."""
    yield _HEADER_KEY, encode([(1, shard + 1), (3, [(1, _VERSION)])])
    for key, before, after in entries:
        yield key, encode([*before, (3, shard or None), *after])


_SHARD = re.compile(r"\.data-\d{5}-of-\d{5}")


def shards_of(prefix: str) -> list[str]:
    """The value files of a prefix."""
    return [path for path in glob.glob(f"{glob.escape(prefix)}.data-*") if _SHARD.fullmatch(path[len(prefix) :])]


def delete(prefix: str) -> None:
    """Remove a checkpoint, the index first: an index without values would look like a checkpoint."""
    for path in (f"{prefix}.index", *shards_of(prefix)):
        remove(path)


class Reader:
    """The tensors of a checkpoint. The index is read immediately, a value on demand.

    >>> import tempfile
    >>> prefix = os.path.join(tempfile.mkdtemp(), "values")
    >>> write(prefix, {"b": np.zeros(3, np.int8), "a": np.ones((2, 4))})
    >>> reader = Reader(prefix)
    >>> reader.keys(), reader.shape("a"), reader.dtype("b"), "c" in reader
    (['a', 'b'], (2, 4), dtype('int8'), False)
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = os.fspath(prefix)
        path = f"{self.prefix}.index"
        try:
            with open(path, "rb") as file:
                found = os.fstat(file.fileno())
                self._version = _version(found)
                index = file.read(found.st_size)  # a link to a device would never end
        except (FileNotFoundError, NotADirectoryError, ValueError):  # ValueError: a zero byte in the name
            raise _no_checkpoint(self.prefix) from None
        except OSError as error:
            with named_errors(path):
                raise error
        try:
            rows = dict(_rows(index, path))
            header = _Header.read(rows.pop(_HEADER_KEY, None), path)
            self._entries = {key: _Entry.read(key, row) for key, row in rows.items()}
        except ValueError as error:
            raise damaged(str(error), path) from None
        if header.needed > _VERSION:
            raise errors.invalid_argument(
                f"Checkpoint min consumer version {header.needed} above current version {_VERSION}. {path} was written "
                "by a newer TensorFlow: write it again with an older one."
            )
        self._shards = header.shards
        self._swapped = header.big != (sys.byteorder == "big")
        pieces = {_slice_key(key, extents) for key, entry in self._entries.items() for extents in entry.slices}
        self._names = {_name(key): key for key in self._entries if key not in pieces}

    def is_outdated(self) -> bool:
        """Whether the checkpoint has been replaced since its index was read."""
        try:
            return self._version != _version(os.stat(f"{self.prefix}.index"))
        except OSError:
            return False

    def keys(self) -> list[str]:
        """The names of the tensors, sorted."""
        return list(self._names)

    def __contains__(self, key: object) -> bool:
        return key in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def shape(self, key: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return self._entry(key)[1].shape

    def dtype(self, key: str) -> np.dtype[Any]:
        """The NumPy dtype of a tensor; `object` for strings, and plain integers for quantized values."""
        key_, entry = self._entry(key)
        return _numpy_dtype(key_, entry)

    def get(self, key: str) -> ndarray:
        """The value of a tensor, in an array of its own."""
        key_, entry = self._entry(key)
        if not entry.slices:
            return self._value(key_, entry)
        dtype = _numpy_dtype(key_, entry)
        count = math.prod(entry.shape)
        if count * (1 if dtype.hasobject else dtype.itemsize) > self._held():
            pieces = [self._entries.get(_slice_key(key_, extents)) for extents in entry.slices]
            raise self._too_few_slices(key, entry, count - sum(math.prod(piece.shape) for piece in pieces if piece))
        whole = self._shaped(key_, entry, np.empty(count, dtype))
        missing = np.ones(entry.shape, bool)
        for extents in entry.slices:
            piece_key = _slice_key(key_, extents)
            piece = self._entries.get(piece_key)
            if piece is None or piece.dtype != entry.dtype or len(extents) != len(entry.shape):
                raise damaged(f"A slice of the tensor {key} is missing or has another type", f"{self.prefix}.index")
            # A length of -1 means the whole dimension.
            place = tuple(slice(start, None if n < 0 else start + n) for start, n in extents)
            if whole[place].shape != piece.shape:
                raise damaged(f"A slice of the tensor {key} does not have its shape", f"{self.prefix}.index")
            whole[place] = self._value(piece_key, piece)
            missing[place] = False
        if missing.any():
            raise self._too_few_slices(key, entry, int(missing.sum()))
        return whole

    def _held(self) -> int:
        """The total size of the value files in bytes."""
        return sum(os.path.getsize(path) for path in shards_of(self.prefix))

    def _too_few_slices(self, key: str, entry: _Entry, missing: int) -> errors.InvalidArgumentError:
        spec = ":".join("-" for _ in entry.shape)
        return errors.invalid_argument(
            f"Does not have sufficient slices for partitioned tensor {key} to restore in slice_spec: {spec}. "
            f"{missing} of its {math.prod(entry.shape)} values are in no slice of {self.prefix}: save the variable "
            "again, with all its parts."
        )

    def _entry(self, key: str) -> tuple[bytes, _Entry]:
        try:
            found = self._names[key]
        except KeyError:
            close = difflib.get_close_matches(str(key), self._names, 3)
            like = f"Did you mean {' or '.join(repr(name) for name in close)}? " if close else ""
            message = (
                f"Key {key} not found in checkpoint. {like}tf.train.list_variables({self.prefix!r}) lists all keys."
            )
            raise errors.NotFoundError(None, None, message) from None
        return found, self._entries[found]

    def _value(self, key: bytes, entry: _Entry) -> ndarray:
        dtype = _numpy_dtype(key, entry)
        if dtype.hasobject:
            return self._strings(key, entry)
        expected = math.prod(entry.shape) * dtype.itemsize
        if entry.size != expected:
            raise damaged(
                f"Invalid size in bundle entry: key {_name(key)}; stored size {entry.size}; expected size {expected}",
                f"{self.prefix}.index",
            )
        data = self._bytes(entry)
        self._check(entry, crc32c(data))
        array = self._shaped(key, entry, data != 0 if dtype.kind == "b" else data.view(dtype))
        return array.byteswap(inplace=True) if self._swapped else array

    def _strings(self, key: bytes, entry: _Entry) -> ndarray:
        """Lengths, their checksum, and the strings one after the other."""
        data = self._bytes(entry).tobytes()
        path = _shard(self.prefix, entry.shard, self._shards)
        wrong_size = f"Invalid size in bundle entry: key {_name(key)}; stored size {entry.size}; expected size"
        at, lengths, count = 0, [], math.prod(entry.shape)
        if count + 4 > len(data):
            raise damaged(f"{wrong_size} is at least {count + 4}", f"{self.prefix}.index")
        try:
            for _ in range(count):
                length, at = read_varint(data, at)
                lengths.append(length)
            (stored,) = struct.unpack_from("<I", data, at)
        except (ValueError, struct.error) as error:
            raise damaged(f"The lengths of the strings of {_name(key)} cannot be read: {error}", path) from None
        checksum = crc32c(_lengths(lengths))
        if unmasked(stored) != checksum:
            sentence = f"The length checksum does not match: expected {unmasked(stored)} but actual is {checksum}"
            raise damaged(sentence, path)
        ends = list(itertools.accumulate(lengths, initial=at + 4))
        if ends[-1] != len(data):
            raise damaged(f"{wrong_size} {ends[-1]}", f"{self.prefix}.index")
        self._check(entry, crc32c(data[at:], checksum))
        array = np.empty(count, object)
        array[:] = [data[start:end] for start, end in itertools.pairwise(ends)]
        return self._shaped(key, entry, array)

    def _shaped(self, key: bytes, entry: _Entry, array: ndarray) -> ndarray:
        try:
            return shaped(array, entry.shape)
        except ValueError as error:
            raise damaged(f"Entry for key {_name(key)} not usable: {error}", f"{self.prefix}.index") from None

    def _bytes(self, entry: _Entry) -> ndarray:
        path = _shard(self.prefix, entry.shard, self._shards)
        try:
            with open(path, "rb") as file:
                held = os.fstat(file.fileno()).st_size
                if held >= entry.offset + entry.size:  # otherwise a damaged entry could need any amount of memory
                    data = np.empty(entry.size, np.uint8)
                    file.seek(entry.offset)
                    if file.readinto(data.data) == entry.size:
                        return data
        except FileNotFoundError:
            message = f"{path}; No such file or directory. It belongs to the index file next to it: copy both together."
            raise errors.NotFoundError(None, None, message) from None
        raise errors.OutOfRangeError(
            None,
            None,
            f"Read less bytes than requested. {path} has {held} bytes, but the index refers to bytes {entry.offset} "
            f"to {entry.offset + entry.size}: the file is truncated. Copy it again, or use an earlier checkpoint.",
        )

    def _check(self, entry: _Entry, checksum: int) -> None:
        if checksum != unmasked(entry.checksum):
            raise damaged(
                f"TensorBundle at {self.prefix} shard {entry.shard} ({entry.size} bytes): Checksum does not match: "
                f"stored {unmasked(entry.checksum)} vs. calculated on the restored bytes {checksum}",
                _shard(self.prefix, entry.shard, self._shards),
            )


def _version(file: os.stat_result) -> tuple[int, int, int]:
    """A value that changes when a file is replaced."""
    return file.st_ino, file.st_mtime_ns, file.st_size


_ATTEMPTS = 100  # to read a checkpoint that is replaced repeatedly


def read(prefix: str, use: Callable[[Reader], T]) -> T:
    """Return a function's result for the reader of a checkpoint; retry if the checkpoint is replaced while it reads.

    The checksums in the index identify its values: what is read without an error is consistent.
    """
    for _ in range(_ATTEMPTS):
        reader = Reader(prefix)
        try:
            return use(reader)
        except errors.OpError:
            if not reader.is_outdated():
                raise
    return use(Reader(prefix))


# -- values ----------------------------------------------------------------------------------------------------------
class _Header(NamedTuple):
    """The header of the index."""

    shards: int
    big: bool  # whether the byte order is big-endian
    needed: int  # the version that a reader must support

    @classmethod
    def read(cls, row: bytes | None, path: str) -> _Header:
        if row is None:
            raise ValueError(_newer(path, "there is no header entry"))
        try:
            fields = dict(decode(row))
            return cls(
                number_in(fields, 1), bool(number_in(fields, 2)), number_in(dict(decode(bytes_in(fields, 3))), 2)
            )
        except ValueError as error:
            raise ValueError(_newer(path, "unable to parse header", str(error))) from None


class _Entry(NamedTuple):
    """The index entry of a tensor."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    size: int
    checksum: int
    slices: list[tuple[tuple[int, int], ...]]  # (start, length) in each dimension

    @classmethod
    def read(cls, key: bytes, row: bytes) -> _Entry:
        try:
            fields = decode(row)
            last = dict(fields)
            shape = tuple(number_in(dict(dim), 1) for dim in messages_in(decode(bytes_in(last, 2)), 2))
            slices = [tuple(map(_extent, messages_in(part, 1))) for part in messages_in(fields, 7)]
            shard, offset, size, checksum = (number_in(last, field) for field in (3, 4, 5, 6))
            if len(shape) > _RANK or any(len(extents) != len(shape) for extents in slices):
                raise ValueError(f"A tensor can have at most {_RANK} dimensions, and its slices the same number.")
            return cls(number_in(last, 1), shape, shard, offset, size, checksum, slices)
        except ValueError as error:
            raise ValueError(f"Entry for key {_name(key)} not parseable. {error}") from None


def _extent(message: Message) -> tuple[int, int]:
    fields = dict(message)
    return number_in(fields, 1), number_in(fields, 2) if 2 in fields else -1


def _stored(name: str, array: Any) -> tuple[DType, tuple[int, ...], list[Any], int]:
    """The dtype and the shape of an array, and its serialized bytes with their checksum."""
    array = np.asarray(array)
    try:
        dtype = dtype_of(array)
    except TypeError as error:
        raise TypeError(f"The tensor {name} cannot be saved: {error}") from None
    if dtype is string:
        strings = [_string(name, value) for value in array.reshape(-1).tolist()]
        lengths = [len(value) for value in strings]
        checksum = crc32c(_lengths(lengths))
        body = b"".join([struct.pack("<I", masked(checksum)), *strings])
        return dtype, array.shape, [b"".join(map(varint, lengths)), body], crc32c(body, checksum)
    flat = np.ascontiguousarray(array, dtype.numpy_dtype).reshape(-1)
    data = (flat.byteswap() if sys.byteorder == "big" else flat).view(np.uint8)
    return dtype, array.shape, [data], crc32c(data)


def _string(name: str, value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise TypeError(f"The tensor {name} cannot be saved: strings must be bytes, but it contains {value!r}.")


def _lengths(lengths: list[int]) -> bytes:
    """The bytes of the checksum of string lengths."""
    return b"".join(n.to_bytes(4 if n < 2**32 else 8, "little") for n in lengths)


def _numpy_dtype(key: bytes, entry: _Entry) -> np.dtype[Any]:
    try:
        dtype = as_dtype(entry.dtype)
        numpy_dtype = dtype.numpy_dtype
    except (TypeError, AttributeError):
        raise errors.UnimplementedError(
            None,
            None,
            f"The tensor {_name(key)} has TensorFlow's dtype number {entry.dtype}, which gradtape does not support: "
            "skip this key.",
        ) from None
    return numpy_dtype[0] if dtype.is_quantized else numpy_dtype  # stored as plain integers


def _shard(prefix: str, number: int, count: int) -> str:
    return f"{prefix}.data-{number:05d}-of-{count:05d}"


def _name(key: bytes) -> str:
    return key.decode(errors="surrogateescape")


def _slice_key(key: bytes, extents: tuple[tuple[int, int], ...]) -> bytes:
    """The key of a part of a tensor: it sorts as (0, its key, number of dimensions, starts and lengths)."""
    escaped = b"".join({0: b"\0\xff", 255: b"\xff\0"}.get(byte, bytes([byte])) for byte in key)
    numbers = b"".join(_ordered(start) + _ordered(length) for start, length in extents)
    rank = len(extents)
    return b"".join([b"\0", escaped, b"\0\1", bytes([1, rank]) if rank else b"\0", numbers])


def _ordered(number: int) -> bytes:
    """A number as bytes that sort like it: a unary count of the bytes, a zero, and the number.

    For negative numbers all bits are inverted, including the sign in the first bit.
    """
    size = (number if number >= 0 else ~number).bit_length() // 7 + 1
    ones = (1 << 7 * size) * ((1 << size) - 1)  # in the first `size` bits
    return ((number ^ ones) & ((1 << 8 * size) - 1)).to_bytes(size, "big")


# -- the index -------------------------------------------------------------------------------------------------------
def _rows(index: bytes, path: str) -> Iterator[tuple[bytes, bytes]]:
    for number, handle in enumerate(table.blocks(index)):
        try:
            rows = table.rows(index, handle)
        except ValueError as error:
            if number == 0:
                raise ValueError(_newer(path, "failed to seek to header entry", str(error))) from None
            raise
        yield from rows


# -- messages: TensorFlow's sentence first, then a hint ---------------------------------------------------------------
def _newer(path: str, what: str, why: str = "") -> str:
    return (
        f"Unable to read file ({path}). Perhaps the file is corrupt or was produced by a newer version of TensorFlow "
        f"with format changes ({what}){why and f': {why}'}"
    )


def damaged(sentence: str, path: str) -> errors.DataLossError:
    message = f"{sentence.removesuffix('.')}. {path} is damaged: copy it again, or use an earlier checkpoint."
    return errors.DataLossError(None, None, message)


def _no_checkpoint(prefix: str) -> errors.NotFoundError:
    folder, name = os.path.split(prefix)
    ending = ".index"
    try:
        there = sorted(file.removesuffix(ending) for file in os.listdir(folder or ".") if file.endswith(ending))
    except OSError:
        there = []
    if name.endswith(ending) and name.removesuffix(ending) in there:
        help_ = f"Give the path without {ending!r}."
    elif os.path.isdir(prefix):
        help_ = "This is a directory: tf.train.latest_checkpoint returns the path of the latest checkpoint in it."
    elif there:
        shown = ", ".join(map(repr, there[:5])) + (", ..." if len(there) > 5 else "")
        help_ = f"The checkpoints in that directory are {shown}."
    else:
        help_ = f"There is no checkpoint in the directory {folder or '.'!r}."
    message = f"Unsuccessful TensorSliceReader constructor: Failed to find any matching files for {prefix}. {help_}"
    return errors.NotFoundError(None, None, message)
