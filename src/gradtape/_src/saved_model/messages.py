"""Parse the messages of a `saved_model.pb`: graphs, functions, ops and objects, as plain records.

Field numbers are those of TensorFlow's schemas. Invalid data raise ValueError.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.formats.protobuf import Fixed32, fields
from gradtape._src.formats.tensor_proto import parsed, varints
from gradtape._src.shape import TensorShape

Fields = dict[int, list[Any]]


def read(data: Any) -> Fields:
    """Parse a message into number -> values."""
    if not isinstance(data, bytes):
        raise ValueError("a message is missing")
    found: Fields = {}
    for number, value in fields(data):
        found.setdefault(number, []).append(value)
    return found


def text(message: Fields, number: int) -> str:
    """A string field; empty if it is missing."""
    value = message.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} should be a text")
    return value.decode()


def texts(message: Fields, number: int) -> list[str]:
    """A repeated string field."""
    return [text({number: [value]}, number) for value in message.get(number, [])]


def integer(message: Fields, number: int) -> int:
    """A signed integer field; 0 if it is missing."""
    value = message.get(number, [0])[-1]
    if not isinstance(value, int):
        raise ValueError(f"field {number} should be a number")
    return value - 2**64 if value >= 2**63 else int(value)


def integers(message: Fields, number: int) -> list[int]:
    """A repeated field of signed integers, packed or not."""
    return [int(value) for value in varints(message.get(number, []))]


def mapping(message: Fields, number: int) -> dict[str, bytes]:
    """A map field from strings to messages."""
    found = {}
    for entry in message.get(number, []):
        pair = read(entry)
        found[text(pair, 1)] = _bytes(pair, 2)
    return found


def _bytes(message: Fields, number: int) -> bytes:
    value = message.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise ValueError(f"field {number} should be a message")
    return value


# -- values ----------------------------------------------------------------------------------------------------------
def shape_of(data: bytes) -> TensorShape:
    """A TensorShapeProto."""
    message = read(data)
    if integer(message, 3):
        return TensorShape(None)
    sizes = [integer(read(dim), 1) for dim in message.get(2, [])]
    return TensorShape([None if size < 0 else size for size in sizes])


def dtype_of(number: int) -> DType:
    """A DataType."""
    return as_dtype(number)


class Function(NamedTuple):
    """An attr that names a function of the library."""

    name: str


def attr_value(data: bytes) -> Any:
    """An AttrValue: bytes, numbers, booleans, dtypes (as their numbers), shapes, tensors, functions, lists."""
    message = read(data)
    for number in message:
        if number == 1:
            return _list_value(read(_bytes(message, 1)))
        return _one_value(number, message[number][-1])
    return None


def _one_value(number: int, value: Any) -> Any:
    if number == 4:
        return _float(value)
    if number in (3, 6):
        return integer({number: [value]}, number)
    if number == 5:
        return bool(value)
    if number == 7:
        return shape_of(value)
    if number == 8:
        return parsed(value)
    if number in (9, 10):
        return Function(text(read(value), 1))
    return value


def _list_value(message: Fields) -> list[Any]:
    for number, values in message.items():
        if number in (3, 5, 6):
            found = [integer({1: [value]}, 1) for value in integers(message, number)]
            return [bool(value) for value in found] if number == 5 else found
        if number == 4:
            packed = b"".join(value if isinstance(value, bytes) else value.to_bytes(4, "little") for value in values)
            return list(struct.unpack(f"<{len(packed) // 4}f", packed[: len(packed) // 4 * 4]))
        return [_one_value(number, value) for value in values]
    return []


def _float(value: Any) -> float:
    if not isinstance(value, Fixed32):
        raise ValueError("field 4 should be a floating number")
    return float(struct.unpack("<f", int(value).to_bytes(4, "little"))[0])


# -- graphs ----------------------------------------------------------------------------------------------------------
class Node(NamedTuple):
    """A NodeDef; the values of attrs are still bytes."""

    name: str
    op: str
    inputs: tuple[str, ...]
    control_inputs: tuple[str, ...]
    attrs: dict[str, bytes]


class Arg(NamedTuple):
    """An ArgDef."""

    name: str
    type: int
    type_attr: str
    number_attr: str
    type_list_attr: str


class OpDefinition(NamedTuple):
    """An OpDef of an op, or the signature of a function; `data` is the message."""

    name: str
    inputs: tuple[Arg, ...]
    outputs: tuple[Arg, ...]
    defaults: dict[str, bytes]
    data: bytes

    def __str__(self) -> str:
        def words(args: tuple[Arg, ...]) -> str:
            return ", ".join(f"{arg.name}:{arg.type_list_attr or arg.type_attr or arg.type}" for arg in args)

        return f"{self.name}({words(self.inputs)}) -> ({words(self.outputs)})"


class FunctionDefinition(NamedTuple):
    """A FunctionDef; `attrs` are fields that only matter when the function is saved again."""

    signature: OpDefinition
    nodes: dict[str, Node]
    results: dict[str, str]
    control_results: dict[str, str]
    attrs: list[tuple[int, bytes]]


class Graph(NamedTuple):
    """A GraphDef: its nodes, its functions, and the gradient functions of ops."""

    nodes: dict[str, Node]
    functions: dict[str, FunctionDefinition]
    gradients: dict[str, str]


def _node(data: bytes) -> Node:
    message = read(data)
    inputs = texts(message, 3)
    return Node(
        text(message, 1),
        text(message, 2),
        tuple(each for each in inputs if not each.startswith("^")),
        tuple(each[1:] for each in inputs if each.startswith("^")),
        mapping(message, 5),
    )


def _arg(data: bytes) -> Arg:
    message = read(data)
    return Arg(text(message, 1), integer(message, 3), text(message, 4), text(message, 5), text(message, 6))


def op_definition(data: bytes) -> OpDefinition:
    """An OpDef."""
    message = read(data)
    defaults = {}
    for attr in message.get(4, []):
        found = read(attr)
        if 3 in found:
            defaults[text(found, 1)] = _bytes(found, 3)
    inputs, outputs = (tuple(_arg(each) for each in message.get(number, [])) for number in (2, 3))
    return OpDefinition(text(message, 1), inputs, outputs, defaults, data)


def _function(data: bytes) -> FunctionDefinition:
    message = read(data)
    nodes = [_node(each) for each in message.get(3, [])]
    results = {name: value.decode() for name, value in mapping(message, 4).items()}
    control = {name: value.decode() for name, value in mapping(message, 6).items()}
    signature = op_definition(_bytes(message, 1))
    attrs = [(number, each) for number in (5, 7, 8) for each in message.get(number, [])]
    return FunctionDefinition(signature, {node.name: node for node in nodes}, results, control, attrs)


def graph_of(data: bytes) -> Graph:
    """A GraphDef."""
    message = read(data)
    library = read(_bytes(message, 2))
    functions = [_function(each) for each in library.get(1, [])]
    gradients = {}
    for each in library.get(3, []):
        registered = read(each)
        gradients[text(registered, 2)] = text(registered, 1)
    nodes = [_node(each) for each in message.get(1, [])]
    return Graph(
        {node.name: node for node in nodes},
        {function.signature.name: function for function in functions},
        gradients,
    )


# -- objects ---------------------------------------------------------------------------------------------------------
KINDS = {
    4: "user_object",
    5: "asset",
    6: "function",
    7: "variable",
    8: "bare_concrete_function",
    9: "constant",
    10: "resource",
    12: "captured_tensor",
}


class SavedObject(NamedTuple):
    """A SavedObject: its kind, the fields of that kind, and its parts by name."""

    kind: str
    message: Fields
    children: list[tuple[str, int]]


class ConcreteFunction(NamedTuple):
    """A SavedConcreteFunction."""

    bound_inputs: list[int]
    input_signature: bytes
    output_signature: bytes


def saved_object(data: bytes) -> SavedObject:
    """A SavedObject."""
    message = read(data)
    kind = next((number for number in message if number in KINDS), 4)
    children = [(text(ref, 2), integer(ref, 1)) for ref in map(read, message.get(1, []))]
    return SavedObject(KINDS[kind], read(_bytes(message, kind)), children)


class MetaGraph(NamedTuple):
    """The content of a SavedModel: one MetaGraphDef."""

    tags: list[str]
    version: str
    git_version: str
    ops: dict[str, OpDefinition]
    graph: Graph
    asset_files: list[str]
    objects: list[SavedObject]
    functions: dict[str, ConcreteFunction]


def meta_graph(data: bytes) -> MetaGraph:
    """The one MetaGraphDef of a SavedModel's file."""
    found = read(data).get(2, [])
    if not found:
        raise ValueError("it has no graph")
    message = read(found[0])
    info = read(_bytes(message, 1))
    ops = [op_definition(each) for each in read(_bytes(info, 2)).get(1, [])]
    objects = read(_bytes(message, 7))
    functions = {}
    for name, entry in mapping(objects, 2).items():
        concrete = read(entry)
        functions[name] = ConcreteFunction(integers(concrete, 2), _bytes(concrete, 3), _bytes(concrete, 4))
    return MetaGraph(
        texts(info, 4),
        text(info, 5),
        text(info, 6),
        {op.name: op for op in ops},
        graph_of(_bytes(message, 2)),
        [text(read(each), 2) for each in message.get(6, [])],
        [saved_object(each) for each in objects.get(1, [])],
        functions,
    )


def checkpoint_keys(data: bytes) -> dict[int, dict[str, str]]:
    """The keys in a TrackableObjectGraph: node -> name of a value -> its key in the checkpoint."""
    found: dict[int, dict[str, str]] = {}
    for i, node in enumerate(read(data).get(1, [])):
        for attribute in read(node).get(2, []):
            message = read(attribute)
            found.setdefault(i, {})[text(message, 1)] = text(message, 3)
    return found


__all__ = ["Fields", "MetaGraph", "attr_value", "checkpoint_keys", "meta_graph", "read"]
