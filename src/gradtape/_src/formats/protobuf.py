"""The wire format of protocol buffers: messages as numbered fields, without their schemas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

Message: TypeAlias = list[tuple[int, Any]]
"""Fields `(number, value)` in order.

A value is an int, a `Fixed32` or `Fixed64`, bytes, or, for writing, the fields of a nested message.
"""

_VARINT, _FIXED64, _BYTES, _GROUP, _END, _FIXED32 = range(6)  # wire types
_DEEPEST = 100  # nested groups


class Fixed32(int):
    """A number that takes four bytes on the wire, whatever its value."""


class Fixed64(int):
    """A number that takes eight bytes on the wire, whatever its value."""


def encode(message: Message) -> bytes:
    """The bytes of a message. Fields whose value is None are left out.

    >>> encode([(1, 150), (2, b"hi"), (3, [(1, None), (2, 7)])]).hex(" ")
    '08 96 01 12 02 68 69 1a 02 10 07'
    """
    parts = []
    for number, value in message:
        if value is None:
            continue
        if isinstance(value, Fixed32):
            parts += [varint(number << 3 | _FIXED32), value.to_bytes(4, "little")]
        elif isinstance(value, Fixed64):
            parts += [varint(number << 3 | _FIXED64), value.to_bytes(8, "little")]
        elif isinstance(value, int):
            parts += [varint(number << 3 | _VARINT), varint(value)]
        else:
            data = value if isinstance(value, bytes) else encode(value)
            parts += [varint(number << 3 | _BYTES), varint(len(data)), data]
    return b"".join(parts)


def decode(data: bytes) -> Message:
    """The fields of a message; messages within it stay bytes, as nothing on the wire tells the two apart.

    >>> decode(bytes.fromhex("089601 12026869"))
    [(1, 150), (2, b'hi')]
    >>> decode(bytes.fromhex("0896"))
    Traceback (most recent call last):
    ...
    ValueError: The bytes end within the number at byte 1.
    """
    return list(fields(data))


def fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message one by one. Groups, which are obsolete, are skipped."""
    at = 0
    groups: list[int] = []
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 2**29:
            raise ValueError(f"There is no field with the number {number} (byte {start}).")
        if kind == _GROUP:
            groups.append(number)
            if len(groups) > _DEEPEST:
                raise ValueError(f"Groups are nested more than {_DEEPEST} times (byte {start}).")
            continue
        if kind == _END:
            if not groups or groups.pop() != number:
                raise ValueError(f"The group {number} ends, but has not begun (byte {start}).")
            continue
        value, at = _value(data, at, number, kind)
        if not groups:
            yield number, value
    if groups:
        raise ValueError(f"The group {groups[-1]} does not end.")


def _value(data: bytes, at: int, number: int, kind: int) -> tuple[Any, int]:
    """The value of a field that starts at `at`, and its end."""
    if kind == _VARINT:
        return read_varint(data, at)
    if kind == _BYTES:
        size, at = read_varint(data, at)
    elif kind in (_FIXED32, _FIXED64):
        size = 4 if kind == _FIXED32 else 8
    else:
        raise ValueError(f"Field {number} has the unknown wire type {kind} (before byte {at}).")
    content = data[at : at + size]
    if len(content) < size:
        raise ValueError(f"Field {number} should have {size} bytes, but only {len(content)} are present.")
    if kind == _BYTES:
        return content, at + size
    fixed = Fixed32 if kind == _FIXED32 else Fixed64
    return fixed.from_bytes(content, "little"), at + size


# -- fields of a kind: ValueError if the message has another kind there ----------------------------------------------
def number_in(message: Mapping[int, Any], field: int) -> int:
    """A nonnegative number; 0 if it is missing."""
    value = message.get(field, 0)
    if not isinstance(value, int) or value >= 2**63:
        raise ValueError(f"Field {field} should be a nonnegative number.")
    return value


def bytes_in(message: Mapping[int, Any], field: int) -> bytes:
    """The bytes of a message or of a string; empty if it is missing."""
    value = message.get(field, b"")
    if not isinstance(value, bytes):
        raise ValueError(f"Field {field} should be a message.")
    return value


def text_in(message: Mapping[int, Any], field: int) -> str:
    """A text; empty if it is missing."""
    return bytes_in(message, field).decode()


def messages_in(message: Iterable[tuple[int, Any]], field: int) -> list[Message]:
    """The messages of a repeated field."""
    return [decode(bytes_in({field: value}, field)) for number, value in message if number == field]


def varint(value: int) -> bytes:
    """A whole number in groups of seven bits, the lowest first; a negative one as its 64 bits.

    >>> varint(300).hex(" "), len(varint(-1))
    ('ac 02', 10)
    """
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"A varint has at most 64 bits: {value} is too large.")
    value &= 2**64 - 1
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def read_varint(data: bytes, start: int = 0) -> tuple[int, int]:
    """The varint that begins at `start`, and where it ends.

    >>> read_varint(bytes.fromhex("ac02ff"))
    (300, 2)
    """
    value = 0
    for count in range(10):
        at = start + count
        if at >= len(data):
            raise ValueError(f"The bytes end within the number at byte {start}.")
        value |= (data[at] & 127) << 7 * count
        if data[at] < 128:
            break
    else:
        value = 2**64
    if value >= 2**64:
        raise ValueError(f"The number at byte {start} has more than 64 bits.")
    return value, at + 1
