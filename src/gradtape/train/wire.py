"""The wire format of protocol buffers: messages as numbered fields, without their schemas."""

from __future__ import annotations

from typing import Any, TypeAlias

Message: TypeAlias = list[tuple[int, Any]]
"""Fields `(number, value)` in their order.

A value is an int, a `Fixed32` or `Fixed64`, bytes, or, when a message is written, the fields of a message within it.
"""

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # the kinds of values on the wire


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
    message: Message = []
    at = 0
    while at < len(data):
        start = at
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 2**29:
            raise ValueError(f"There is no field with the number {number} (byte {start}).")
        if kind == _VARINT:
            value, at = read_varint(data, at)
            message.append((number, value))
            continue
        if kind == _BYTES:
            size, at = read_varint(data, at)
        elif kind in (_FIXED32, _FIXED64):
            size = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"Field {number} is of the unknown kind {kind} (byte {start}).")
        content = data[at : at + size]
        if len(content) < size:
            raise ValueError(f"Field {number} should have {size} bytes, of which {len(content)} are there.")
        at += size
        if kind == _BYTES:
            message.append((number, content))
        else:
            fixed = Fixed32 if kind == _FIXED32 else Fixed64
            message.append((number, fixed.from_bytes(content, "little")))
    return message


def varint(value: int) -> bytes:
    """A whole number in groups of seven bits, the lowest first; a negative one as its 64 bits.

    >>> varint(300).hex(" "), len(varint(-1))
    ('ac 02', 10)
    """
    if not -(2**63) <= value < 2**64:
        raise ValueError(f"A varint has at most 64 bits: {value} does not fit.")
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
