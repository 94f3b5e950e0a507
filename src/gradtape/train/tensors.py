"""Tensors as messages: TensorFlow's `TensorProto`, which `tf.io.serialize_tensor` writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape import errors
from gradtape.conversion import convert, wrap
from gradtape.dtypes import DType, as_dtype
from gradtape.tensor import Tensor
from gradtape.train.wire import Message, decode, encode


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


def parsed(data: bytes) -> Tensor:
    """The tensor that bytes describe; values that are listed one by one are understood as well."""
    try:
        return _parsed(decode(bytes(data)))
    except (ValueError, TypeError, KeyError) as error:
        raise errors.invalid_argument(f"Could not parse tensor from bytes: {error}", "ParseTensor") from None


def _parsed(message: Message) -> Tensor:
    fields: dict[int, list[Any]] = {}
    for number, value in message:
        fields.setdefault(number, []).append(value)
    dtype: DType = as_dtype(fields[1][0])
    sizes = [dict(decode(dim)).get(1, 0) for number, dim in decode(fields.get(2, [b""])[0]) if number == 2]
    if dtype.name == "string":
        values = np.empty(len(fields.get(8, ())), object)
        values[:] = fields.get(8, [])
    elif 4 in fields:
        values = np.frombuffer(fields[4][0], dtype.numpy_dtype).copy()
    else:
        values = _listed(fields, dtype)
    count = int(np.prod(sizes, dtype=np.int64))
    if values.size < count:  # the last value stands for all that follow
        last = values[-1:] if values.size else np.zeros(1, values.dtype)
        values = np.concatenate([values, np.repeat(last, count - values.size)])
    return wrap(values.reshape(sizes))


_LISTS = {5: "<f4", 6: "<f8", 7: "int", 10: "int", 11: "int", 16: "int", 17: "int"}


def _listed(fields: dict[int, list[Any]], dtype: DType) -> Any:
    """Values in lists of floats, doubles or integers."""
    for number, kind in _LISTS.items():
        if number in fields:
            if kind == "int":
                return np.array(varints(fields[number]), np.int64).astype(dtype.numpy_dtype)
            raw = b"".join(
                v if isinstance(v, bytes) else int(v).to_bytes(int(kind[-1]), "little") for v in fields[number]
            )
            return np.frombuffer(raw, kind).astype(dtype.numpy_dtype)
    return np.zeros(0, dtype.numpy_dtype)


def varints(values: list[Any]) -> list[int]:
    """Whole numbers with a sign, given one by one or packed into bytes."""
    from gradtape.train.wire import read_varint

    found: list[int] = []
    for value in values:
        if isinstance(value, bytes):
            at = 0
            while at < len(value):
                number, at = read_varint(value, at)
                found.append(number)
        else:
            found.append(int(value))
    return [n - 2**64 if n >= 2**63 else n for n in found]
