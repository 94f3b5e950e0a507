"""LevelDB's sorted tables of keys and values: blocks with checksums of their own."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from gradtape._src.formats.crc32c import crc32c, masked, unmasked
from gradtape._src.formats.protobuf import read_varint, varint

_MAGIC = 0xDB4775248B80FB57  # the last eight bytes of a table
_FOOTER = 48  # bytes: two handles of at most 20 bytes each, and the magic number
_TRAILER = 5  # bytes after a block: its compression, and a checksum
_BLOCK = 256 * 1024  # bytes at which a block is closed
_RESTART = 16  # the interval of keys that are written in full


def written(rows: Iterable[tuple[bytes, bytes]]) -> Iterator[bytes]:
    """The pieces of a table: blocks of sorted rows, and an index block with their positions."""
    handles: list[tuple[bytes, bytes]] = []
    offset = 0

    def placed(block: bytes) -> bytes:
        nonlocal offset
        handle = varint(offset) + varint(len(block))
        offset += len(block) + _TRAILER
        return handle

    last, block = b"", _BlockWriter(_RESTART)
    for key, value in rows:
        if len(block) >= _BLOCK:
            content = block.finished()
            handles.append((_between(last, key), placed(content)))
            yield _sealed(content)
            block = _BlockWriter(_RESTART)
        block.add(key, value)
        last = key
    content = block.finished()
    handles.append((_after(last), placed(content)))
    yield _sealed(content)

    content = _BlockWriter(1).finished()  # the empty metaindex block
    footer = placed(content)
    yield _sealed(content)
    block = _BlockWriter(1)
    for row in handles:
        block.add(*row)
    content = block.finished()
    footer += placed(content)
    yield _sealed(content)
    yield footer.ljust(_FOOTER - 8, b"\0") + _MAGIC.to_bytes(8, "little")


class _BlockWriter:
    """Rows with sorted keys; a key is stored as its difference to the one before, except for every n-th."""

    def __init__(self, restart: int) -> None:
        self._restart, self._data, self._starts, self._count, self._last = restart, bytearray(), [0], 0, b""

    def __len__(self) -> int:
        return len(self._data) + 4 * len(self._starts) + 4

    def add(self, key: bytes, value: bytes) -> None:
        shared = 0
        if self._count == self._restart:
            self._starts.append(len(self._data))
            self._count = 0
        else:
            shared = _common(self._last, key)
        self._data += varint(shared) + varint(len(key) - shared) + varint(len(value)) + key[shared:] + value
        self._last = key
        self._count += 1

    def finished(self) -> bytes:
        return bytes(self._data) + struct.pack(f"<{len(self._starts) + 1}I", *self._starts, len(self._starts))


def _sealed(block: bytes) -> bytes:
    kind = b"\0"  # not compressed
    return block + kind + struct.pack("<I", masked(crc32c(kind, crc32c(block))))


def _common(a: bytes, b: bytes) -> int:
    """The length of the common prefix of two keys."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def _between(low: bytes, high: bytes) -> bytes:
    """A short key that is at least `low`, and less than `high`."""
    at = _common(low, high)
    if at < min(len(low), len(high)) and low[at] + 1 < high[at]:
        return low[:at] + bytes([low[at] + 1])
    return low


def _after(key: bytes) -> bytes:
    """A short key that is at least `key`."""
    at = next((i for i, byte in enumerate(key) if byte != 255), None)
    return key if at is None else key[:at] + bytes([key[at] + 1])


def blocks(table: bytes) -> list[bytes]:
    """The handles of a table's blocks, in order. ValueError if it is no table.

    >>> table = b"".join(written([(b"a", b"1"), (b"b", b"2")]))
    >>> [rows(table, handle) for handle in blocks(table)]
    [[(b'a', b'1'), (b'b', b'2')]]
    """
    if len(table) < _FOOTER:
        raise ValueError("file is too short to be an sstable")
    footer = table[-_FOOTER:]
    if int.from_bytes(footer[-8:], "little") != _MAGIC:
        raise ValueError("not an sstable (bad magic number)")
    _, at = read_varint(footer)
    _, at = read_varint(footer, at)  # the metaindex block is not needed
    handles = [handle for _, handle in rows(table, footer[at:])]
    end = 0
    for handle in handles:
        offset, size = _extent(handle)
        if offset < end:  # a small file could refer to one block any number of times
            raise ValueError("blocks overlap")
        end = offset + size
    return handles


def rows(table: bytes, handle: bytes) -> list[tuple[bytes, bytes]]:
    """The keys and values of a block. ValueError if it is damaged."""
    block = _block(table, handle)
    restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 - 4 * restarts
    if end < 0:
        raise ValueError("bad block contents")
    found: list[tuple[bytes, bytes]] = []
    at, key, length = 0, b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        different, at = read_varint(block, at)
        size, at = read_varint(block, at)
        if shared > len(key) or at + different + size > end:
            raise ValueError("bad entry in block")
        length += shared + different
        if length > _RESTART * len(block):  # similar keys could need any amount of memory
            raise ValueError("keys are longer than a block of this size can hold")
        key = key[:shared] + block[at : at + different]
        at += different + size
        found.append((key, block[at - size : at]))
    return found


def _extent(handle: bytes) -> tuple[int, int]:
    """The start of a block, and its size."""
    offset, at = read_varint(handle)
    size, _ = read_varint(handle, at)
    return offset, size


def _block(table: bytes, handle: bytes) -> bytes:
    """A block of a table, after a check of its checksum."""
    offset, size = _extent(handle)
    end = offset + size
    block, trailer = table[offset:end], table[end : end + _TRAILER]
    if len(block) < size or len(trailer) < _TRAILER:
        raise ValueError("truncated block read")
    if unmasked(int.from_bytes(trailer[1:], "little")) != crc32c(trailer[:1], crc32c(block)):
        raise ValueError("block checksum mismatch")
    if trailer[0] == 0:
        return block
    if trailer[0] == 1:
        return _unsnappy(block)
    raise ValueError("bad block type")


def _unsnappy(data: bytes) -> bytes:
    """Decompress Snappy: literal bytes, and copies of earlier output."""
    size, at = read_varint(data)
    out = bytearray()
    while at < len(data):
        tag = data[at]
        kind, length = tag & 3, (tag >> 2) + 1
        at += 1
        if kind == 0:
            if length > 60:
                extra = length - 60
                length = int.from_bytes(data[at : at + extra], "little") + 1
                at += extra
            out += data[at : at + length]
            at += length
            continue
        if kind == 1:
            length = (tag >> 2 & 7) + 4
            distance = (tag >> 5) << 8 | int.from_bytes(data[at : at + 1], "little")
            at += 1
        else:
            extra = 2 if kind == 2 else 4
            distance = int.from_bytes(data[at : at + extra], "little")
            at += extra
        if not 0 < distance <= len(out) or len(out) > size:
            break
        piece = out[-distance:][:length]
        out += (piece * -(-length // len(piece)))[:length]  # a copy may overlap itself
    if at != len(data) or len(out) != size:
        raise ValueError("corrupted compressed block contents")
    return bytes(out)
