"""Tensors as messages: TensorFlow's `TensorProto`, as in `tf.io.serialize_tensor`."""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, wrap
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.formats.protobuf import Fixed32, Fixed64, Message, decode, encode, messages_in, read_varint
from gradtape._src.tensor import Tensor

_OP = "ParseTensor"
_LARGEST = 2**31
"""The largest size in bytes to which values are repeated to fill a shape: TensorFlow's limit for a message."""

_SHOWN = 200  # bytes of a message in an error


def serialized(tensor: Any) -> bytes:
    """A tensor as bytes.

    >>> parsed(serialized([1, 2])).numpy().tolist()
    [1, 2]
    """
    value = convert(tensor)
    array = np.asarray(value.array)
    shape: Message = [(2, [(1, size)]) for size in array.shape]
    message: Message = [(1, value.dtype.as_datatype_enum), (2, shape)]
    if value.dtype.name == "string":
        message += [(8, bytes(text)) for text in array.ravel()]
    else:
        message.append((4, np.ascontiguousarray(array).tobytes()))
    return encode(message)


def parsed(data: bytes, wanted: DType | None = None) -> Tensor:
    """Parse a serialized tensor, also with values that are listed one by one."""
    try:
        message = decode(data)
        fields: dict[int, list[Any]] = {}
        for number, value in message:
            fields.setdefault(number, []).append(value)
    except ValueError:
        text = base64.b64encode(data[:_SHOWN]).decode() + ("..." if len(data) > _SHOWN else "")
        raise errors.refused_value(f"Could not parse `serialized` as TensorProto, base64: {text}", _OP) from None
    try:
        dtype = as_dtype([number for number in fields.get(1, []) if type(number) is int][-1])
    except (IndexError, TypeError):
        raise _unparsable("it has no dtype") from None
    if wanted is not None and dtype is not wanted:
        raise errors.refused_value(f"Type mismatch between parsed tensor ({dtype.word}) and dtype ({wanted.word})", _OP)
    if dtype.is_quantized or dtype.name in ("resource", "variant"):
        raise _unparsable(f"gradtape does not support tensors of {dtype.name}")
    try:
        return wrap(_array(fields, dtype))
    except ValueError as error:
        raise _unparsable(str(error)) from None


def _unparsable(why: str) -> errors.InvalidArgumentError:
    return errors.refused_value(f"Cannot parse tensor from proto: {why}", _OP)


def _array(fields: dict[int, list[Any]], dtype: DType) -> ndarray:
    shape = _shape(b"".join(value for value in fields.get(2, []) if isinstance(value, bytes)))
    count = math.prod(shape)
    for content in reversed(fields.get(4, [])):  # all values in one piece
        if not content or not isinstance(content, bytes):
            continue
        if dtype.name == "string" or len(content) != count * dtype.numpy_dtype.itemsize:
            raise ValueError(
                f"{len(content)} bytes do not hold {dtype.name} values of the shape {errors.brackets(shape)}"
            )
        if dtype.is_bool:
            return shaped(np.frombuffer(content, np.uint8) != 0, shape)
        return shaped(np.frombuffer(content, dtype.numpy_dtype), shape).copy()
    values = _listed(fields, dtype)[:count]
    if len(values) == count:
        return shaped(values, shape)
    if count * values.itemsize > _LARGEST:
        raise ValueError(f"{len(values)} values should fill the shape {errors.brackets(shape)}")
    whole = np.empty(count, values.dtype)
    whole[: len(values)] = values
    whole[len(values) :] = values[-1] if len(values) else b"" if dtype.name == "string" else 0
    return shaped(whole, shape)


def _shape(message: bytes) -> tuple[int, ...]:
    sizes = []
    for dimension in messages_in(decode(message), 2):
        size = dict(dimension).get(1, 0)
        if not isinstance(size, int) or size >= 2**63:
            raise ValueError("a dimension is negative")
        sizes.append(size)
    return tuple(sizes)


def shaped(array: ndarray, shape: tuple[int, ...]) -> ndarray:
    """An array with the shape given in a file. ValueError if arrays cannot have it, even empty ones."""
    try:
        return array.reshape(shape)
    except ValueError:
        sizes = errors.brackets(shape[:10]) + ("..." if len(shape) > 10 else "")
        raise ValueError(f"no array of {array.size} values has the shape {sizes} ({len(shape)} dimensions)") from None


# -- values one by one -----------------------------------------------------------------------------------------------
_FIELDS = {
    "float32": 5, "float64": 6, "int32": 7, "int16": 7, "int8": 7, "uint16": 7, "uint8": 7, "int4": 7, "uint4": 7,
    "string": 8, "complex64": 9, "int64": 10, "bool": 11, "complex128": 12, "float16": 13, "bfloat16": 13,
    "uint32": 16, "uint64": 17,
}  # fmt: skip
_BYTES = 18  # the field of all dtypes whose values take a byte, and that are not above


def _listed(fields: dict[int, list[Any]], dtype: DType) -> ndarray:
    """The values that are listed in the field of their dtype."""
    number = _FIELDS.get(dtype.name, _BYTES)
    values, kind = fields.get(number, []), dtype.numpy_dtype
    if number == 8:
        texts = [value for value in values if isinstance(value, bytes)]
        array = np.empty(len(texts), object)
        array[:] = texts
        return array
    if number in (5, 6, 9, 12):  # complex numbers are pairs
        raw = b"".join(map(_fixed, values))
        return np.frombuffer(raw[: len(raw) // kind.itemsize * kind.itemsize], kind).copy()
    if number == _BYTES:
        return np.frombuffer(b"".join(value for value in values if isinstance(value, bytes)), np.uint8).view(kind)
    numbers = np.array(varints(values), np.int64)
    if number == 13:  # the bits of half-precision numbers
        return numbers.astype(np.uint16).view(kind)
    return numbers.astype(kind)


def _fixed(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.to_bytes(4 if isinstance(value, Fixed32) else 8, "little") if type(value) is not int else b""


_FEW = 64  # bytes up to which a loop is faster than arrays


def varints(values: list[Any]) -> list[int]:
    """Whole numbers with a sign, given one by one or packed into bytes.

    >>> varints([3, b"\\x01\\xac\\x02", 2**64 - 1])
    [3, 1, 300, -1]
    """
    found: list[int] = []
    for value in values:
        if isinstance(value, bytes):
            found += _unpacked(value) if len(value) <= _FEW else _many_unpacked(value).tolist()
        elif not isinstance(value, (Fixed32, Fixed64)):
            found.append(value - 2**64 if value >= 2**63 else value)
    return found


def _unpacked(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, at = read_varint(data, at)
        found.append(number - 2**64 if number >= 2**63 else number)
    return found


def _many_unpacked(data: bytes) -> ndarray:
    """The same for many numbers, with whole arrays."""
    groups = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(groups < 128)
    if not ends.size or ends[-1] != groups.size - 1:
        raise ValueError("The bytes end within a number.")
    starts = np.append(0, ends[:-1] + 1)
    sizes = ends - starts + 1
    if sizes.max() > 10 or np.any(groups[ends[sizes == 10]] > 1):
        raise ValueError("A number has more than 64 bits.")
    numbers = np.zeros(ends.size, np.uint64)
    for place in range(int(sizes.max())):
        longer = sizes > place
        numbers[longer] |= (groups[starts[longer] + place] & 127).astype(np.uint64) << np.uint64(7 * place)
    return numbers.view(np.int64)
