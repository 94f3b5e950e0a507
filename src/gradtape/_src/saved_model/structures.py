"""Structures in a SavedModel's file: arguments and results as nests of specs and Python values."""

from __future__ import annotations

import struct
from collections import namedtuple
from typing import Any, cast

from gradtape._src.dtypes import as_dtype, int64
from gradtape._src.formats.protobuf import Fixed64
from gradtape._src.formats.tensor_proto import parsed
from gradtape._src.ops.ragged import RaggedTensorSpec
from gradtape._src.ops.sparse_tensor import SparseTensorSpec
from gradtape._src.saved_model.messages import Fields, integer, mapping, read, shape_of, text
from gradtape._src.shape import TensorShape, TensorSpec

_DEEPEST = 100


def structure(data: bytes, depth: int = 0) -> Any:
    """The structure that a StructuredValue describes."""
    if depth > _DEEPEST:
        raise ValueError(f"structures are nested more than {_DEEPEST} times")
    message = read(data)
    for number, values in message.items():
        value = values[-1]
        if number in _SEQUENCES:
            items = [structure(each, depth + 1) for each in read(value).get(1, [])]
            return _SEQUENCES[number](items)
        if number == 53:
            return {key: structure(each, depth + 1) for key, each in mapping(read(value), 1).items()}
        if number == 54:
            return _named_tuple(read(value), depth)
        if number == 34:
            return _type_spec(read(value), depth)
        if number in _LEAVES:
            return _LEAVES[number](message)
        raise ValueError(f"a structure of the unknown type {number}")
    return None


def _named_tuple(message: Fields, depth: int) -> Any:
    pairs = [read(each) for each in message.get(2, [])]
    kind = cast("Any", namedtuple)(text(message, 1), [text(pair, 1) for pair in pairs])
    return kind(*(structure(pair.get(2, [b""])[-1], depth + 1) for pair in pairs))


def _float(message: Fields) -> float:
    value = message[11][-1]
    if not isinstance(value, Fixed64):
        raise ValueError("field 11 should be a floating number")
    return float(struct.unpack("<d", int(value).to_bytes(8, "little"))[0])


def _zigzag(message: Fields) -> int:
    value = message[12][-1]
    if not isinstance(value, int):
        raise ValueError("field 12 should be a number")
    return (value >> 1) ^ -(value & 1)


def _tensor_spec(message: Fields, number: int = 33) -> TensorSpec:
    spec = read(message[number][-1])
    return TensorSpec(shape_of(spec.get(2, [b""])[-1]), as_dtype(integer(spec, 3)), text(spec, 1) or None)


def _type_spec(message: Fields, depth: int) -> Any:
    kind = integer(message, 1)
    state = structure(message.get(2, [b""])[-1], depth + 1)
    if kind == 1:
        return SparseTensorSpec(*state)
    if kind == 3:
        shape, dtype, ragged_rank, splits = state[:4]
        return RaggedTensorSpec(shape, dtype, ragged_rank, splits)
    raise ValueError(f"arguments of type {text(message, 3) or kind} are not supported")


def components(spec: Any) -> list[TensorSpec]:
    """The tensors that a spec consists of: for a ragged tensor its values and its row splits, outermost first."""
    if isinstance(spec, RaggedTensorSpec):
        sizes = spec.shape.as_list() if spec.shape.rank is not None else None
        inner = TensorShape(None) if sizes is None else TensorShape([None, *sizes[spec.ragged_rank + 1 :]])
        rows = None if sizes is None or sizes[0] is None else sizes[0] + 1
        splits = [TensorSpec([rows if i == 0 else None], spec.row_splits_dtype) for i in range(spec.ragged_rank)]
        return [TensorSpec(inner, spec.dtype), *splits]
    if isinstance(spec, SparseTensorSpec):
        rank = spec.shape.rank
        return [TensorSpec([None, rank], int64), TensorSpec([None], spec.dtype), TensorSpec([rank], int64)]
    return [spec]


_SEQUENCES: dict[int, Any] = {51: list, 52: tuple}
_LEAVES: dict[int, Any] = {
    1: lambda message: None,
    11: _float,
    12: _zigzag,
    13: lambda message: text(message, 13),
    14: lambda message: bool(integer(message, 14)),
    31: lambda message: shape_of(message[31][-1]),
    32: lambda message: as_dtype(integer(message, 32)),
    33: _tensor_spec,
    35: lambda message: _tensor_spec(message, 35),
    55: lambda message: parsed(message[55][-1]),
    56: lambda message: parsed(message[56][-1]).numpy(),
}

__all__ = ["components", "structure"]
