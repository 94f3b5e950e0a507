"""Messages of a SavedModel, to be written: nodes, functions, ops, structures."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from gradtape._src.dtypes import DType
from gradtape._src.formats.protobuf import Fixed64, Message
from gradtape._src.saved_model.export import Exported, Value
from gradtape._src.saved_model.programs import ATTR, GRADIENT
from gradtape._src.shape import TensorShape, TensorSpec

RESOURCE = 20
"""The number of the type of handles."""


def text(value: str) -> bytes:
    return value.encode()


def shape_proto(shape: TensorShape) -> Message:
    """A TensorShapeProto."""
    if shape.rank is None:
        return [(3, 1)]
    return [(2, [(1, -1 if n is None else n)]) for n in shape.as_list()]


def entry(field: int, key: str, value: Any) -> tuple[int, Any]:
    """An entry of a map."""
    return field, [(1, text(key)), (2, value)]


# -- attrs -----------------------------------------------------------------------------------------------------------
def type_attr(number: int) -> Message:
    return [(6, number)]


def types_attr(numbers: list[int]) -> Message:
    return [(1, [(6, number) for number in numbers])]


def shapes_attr(shapes: list[TensorShape]) -> Message:
    return [(1, [(7, shape_proto(shape)) for shape in shapes])]


def function_attr(name: str) -> Message:
    return [(10, [(1, text(name))])]


def node(name: str, op: str, inputs: list[str], attrs: dict[str, Message]) -> Message:
    """A NodeDef."""
    return [
        (1, text(name)),
        (2, text(op)),
        *((3, text(each)) for each in inputs),
        *(entry(5, key, value) for key, value in attrs.items()),
    ]


def arg(name: str, number: int) -> Message:
    """An ArgDef of a function."""
    return [(1, text(name)), (3, number)]


def function(
    name: str,
    inputs: list[Message],
    outputs: list[Message],
    nodes: list[Message],
    results: dict[str, str],
    controls: list[str],
) -> Message:
    """A FunctionDef; `controls` are nodes that run although no result needs them."""
    signature: Message = [
        (1, text(name)),
        *((2, each) for each in inputs),
        *((3, each) for each in outputs),
        (17, 1),
        *((20, text(each)) for each in controls),
    ]
    return [
        (1, signature),
        *((3, each) for each in nodes),
        *(entry(4, key, text(value)) for key, value in results.items()),
        *(entry(6, each, text(each)) for each in controls),
    ]


def program_function(name: str, inputs: list[Value], found: Exported) -> Message:
    """A FunctionDef that runs an exported program: inputs, then handles of variables."""
    handles = found.captured
    places = {id(variable): f"variable_{i}" for i, variable in enumerate(handles)}
    nodes, reads = [], []
    for i, variable in enumerate(found.variables):
        dtype = {"dtype": type_attr(variable.dtype.as_datatype_enum)}
        nodes.append(node(f"read_{i}", "ReadVariableOp", [places[id(variable)]], dtype))
        reads.append(f"read_{i}:value:0")
    types = [value.dtype.as_datatype_enum for value in found.outputs]
    given = [*(f"input_{i}" for i in found.arguments), *reads]
    attrs = {ATTR: [(2, found.stored)]}
    nodes.append(call_module("program", found.module, found.version, given, found.inputs, found.outputs, attrs))
    count = len(found.outputs) - len(found.assigned)
    controls = []
    for i, variable in enumerate(found.assigned):
        dtype = {"dtype": type_attr(variable.dtype.as_datatype_enum)}
        origin = [places[id(variable)], f"program:output:{count + i}", *(f"^read_{j}" for j in range(len(reads)))]
        nodes.append(node(f"assign_{i}", "AssignVariableOp", origin, dtype))
        controls.append(f"assign_{i}")
    sources = _tied(name, found, given, nodes)
    results = {}
    for i, source in enumerate(sources):
        waits = [f"^{each}" for each in controls]
        nodes.append(node(f"result_{i}", "Identity", [source, *waits], {"T": type_attr(types[i])}))
        results[f"output_{i}"] = f"result_{i}:output:0"
    arguments = [arg(f"input_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(inputs)]
    arguments += [arg(places[id(variable)], RESOURCE) for variable in handles]
    outputs = [arg(f"output_{i}", types[i]) for i in range(count)]
    return function(name, arguments, outputs, nodes, results, ["program", *controls])


def _tied(name: str, found: Exported, given: list[str], nodes: list[Message]) -> list[str]:
    """The results of the program; those that have a gradient go through an op that says which function it is."""
    count = len(found.outputs) - len(found.assigned)
    sources = [f"program:output:{i}" for i in range(count)]
    if found.backward is None:
        return sources
    floats, passed = _differentiable(found.outputs[:count]), _differentiable(found.inputs)
    tied = [*(sources[i] for i in floats), *(given[i] for i in passed)]
    values = [*(found.outputs[i] for i in floats), *(found.inputs[i] for i in passed)]
    numbers = [value.dtype.as_datatype_enum for value in values]
    kind = {"T": types_attr(numbers), "_gradient_op_type": [(2, text(GRADIENT + name))]}
    nodes.append(node("with_gradient", "IdentityN", tied, kind))
    for place, i in enumerate(floats):
        sources[i] = f"with_gradient:output:{place}"
    return sources


def call_module(
    name: str, module: bytes, version: int, inputs: list[str], given: list[Value], results: list[Value],
    attrs: dict[str, Message],
) -> Message:  # fmt: skip
    """A node that runs StableHLO."""
    return node(name, "XlaCallModule", inputs, {
        "version": [(3, version)],
        "module": [(2, module)],
        "Sout": shapes_attr([value.shape for value in results]),
        "Tin": types_attr([value.dtype.as_datatype_enum for value in given]),
        "Tout": types_attr([value.dtype.as_datatype_enum for value in results]),
        "platforms": [(1, [(2, b"CPU"), (2, b"CUDA")])],
        **attrs,
    })  # fmt: skip


def _differentiable(values: list[Value]) -> list[int]:
    return [i for i, value in enumerate(values) if value.dtype.is_floating or value.dtype.is_complex]


class Gradient(NamedTuple):
    """The gradient of a program in TensorFlow: its function, the tensors of the forward function that it captures, and
    what it takes and returns.
    """

    function: Message
    captured: list[str]
    inputs: list[TensorSpec]
    outputs: list[TensorSpec | None]


def gradient_function(name: str, found: Exported, backward: bytes) -> Gradient:
    """The function that TensorFlow calls with cotangents of floating results, and of inputs that are passed on."""
    count = len(found.outputs) - len(found.assigned)
    floats, passed = _differentiable(found.outputs[:count]), _differentiable(found.inputs)
    taken = [*(found.outputs[i] for i in floats), *(found.inputs[i] for i in passed)]
    reads = [f"read_{i}:0" for i in range(len(found.variables))]
    captured = [*(f"input_{i}:0" for i in found.arguments), *reads]
    inputs = [*(f"captured_{i}" for i in range(len(found.inputs))), *(f"g_{i}" for i in range(len(floats)))]
    given = [*found.inputs, *(found.outputs[i] for i in floats)]
    results = [found.inputs[i] for i in passed]
    nodes = [call_module("backward", backward, found.version, inputs, given, results, {})]
    arguments = [arg(f"g_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(taken)]
    arguments += [arg(f"captured_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(found.inputs)]
    outputs = [arg(f"output_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(results)]
    returned = {f"output_{i}": f"backward:output:{i}" for i in range(len(results))}
    made = function(name, arguments, outputs, nodes, returned, ["backward"])
    specs = [TensorSpec(value.shape, value.dtype, f"result_grads_{i}") for i, value in enumerate(taken)]
    shown: list[TensorSpec | None] = [None] * len(floats)
    shown += [TensorSpec(value.shape, value.dtype) for value in results]
    return Gradient(made, captured, specs, shown)


def program_op() -> Message:
    """The OpDef of XlaCallModule, as far as graphs need it."""
    attrs = {
        "version": "int", "module": "string", "Sout": "list(shape)", "Tin": "list(type)", "Tout": "list(type)",
        "platforms": "list(string)",
    }  # fmt: skip
    return [
        (1, b"XlaCallModule"),
        (2, [(1, b"args"), (6, b"Tin")]),
        (3, [(1, b"output"), (6, b"Tout")]),
        *((4, [(1, text(name)), (2, text(kind))]) for name, kind in attrs.items()),
        (17, 1),
    ]


# -- the outer graph, for sessions and servers -------------------------------------------------------------------------
def placeholder(name: str, dtype: int, shape: TensorShape) -> Message:
    return node(name, "Placeholder", [], {"dtype": type_attr(dtype), "shape": [(7, shape_proto(shape))]})


def strings(name: str, values: list[str]) -> Message:
    """A constant with a vector of strings."""
    tensor: Message = [(1, 7), (2, [(2, [(1, len(values))])]), *((8, text(each)) for each in values)]
    return node(name, "Const", [], {"dtype": type_attr(7), "value": [(8, tensor)]})


def handle(name: str, dtype: int, shape: TensorShape) -> Message:
    """The handle of a variable."""
    attrs = {"dtype": type_attr(dtype), "shape": [(7, shape_proto(shape))], "shared_name": [(2, text(name))]}
    return node(name, "VarHandleOp", [], attrs)


def call(name: str, function_name: str, inputs: list[str], tin: list[int], tout: list[int]) -> Message:
    """A node that calls a function."""
    attrs = {"Tin": types_attr(tin), "Tout": types_attr(tout), "f": function_attr(function_name)}
    return node(name, "StatefulPartitionedCall", inputs, attrs)


def signature_nodes(
    key: str, name: str, specs: dict[str, TensorSpec], outputs: dict[str, TensorSpec], captured: list[str]
) -> list[Message]:
    """Placeholders of a signature, and the call of its function."""
    made = [placeholder(f"{key}_{arg}", spec.dtype.as_datatype_enum, spec.shape) for arg, spec in specs.items()]
    tin = [spec.dtype.as_datatype_enum for spec in specs.values()] + [RESOURCE] * len(captured)
    tout = [spec.dtype.as_datatype_enum for spec in outputs.values()]
    return [*made, call(f"call_{key}", name, [*(f"{key}_{arg}" for arg in specs), *captured], tin, tout)]


def signature(key: str, specs: dict[str, TensorSpec], outputs: dict[str, TensorSpec]) -> Message:
    """A SignatureDef."""
    return [
        *(entry(1, arg, tensor_info(f"{key}_{arg}:0", spec)) for arg, spec in specs.items()),
        *(entry(2, result, tensor_info(f"call_{key}:{i}", spec)) for i, (result, spec) in enumerate(outputs.items())),
        (3, b"tensorflow/serving/predict"),
    ]


def tensor_info(name: str, spec: TensorSpec) -> Message:
    return [(1, text(name)), (2, spec.dtype.as_datatype_enum), (3, shape_proto(spec.shape))]


# -- structures ------------------------------------------------------------------------------------------------------
def structured(value: Any) -> Message:
    """A StructuredValue."""
    if value is None:
        return [(1, [])]
    if isinstance(value, TensorSpec):
        named: Message = [(1, text(value.name))] if value.name else []
        return [(33, [*named, (2, shape_proto(value.shape)), (3, value.dtype.as_datatype_enum)])]
    if isinstance(value, bool):
        return [(14, int(value))]
    if isinstance(value, int):
        return [(12, (value << 1) ^ (value >> 63) if value < 0 else value << 1)]
    if isinstance(value, float):
        return [(11, Fixed64.from_bytes(struct.pack("<d", value), "little"))]
    if isinstance(value, str):
        return [(13, text(value))]
    if isinstance(value, DType):
        return [(32, value.as_datatype_enum)]
    if isinstance(value, dict):
        return [(53, [entry(1, str(key), structured(each)) for key, each in value.items()])]
    if hasattr(value, "_fields"):
        pairs = [(2, [(1, text(key)), (2, structured(each))]) for key, each in zip(value._fields, value, strict=True)]
        return [(54, [(1, text(type(value).__name__)), *pairs])]
    if isinstance(value, (list, tuple)):
        return [(51 if isinstance(value, list) else 52, [(1, structured(each)) for each in value])]
    raise ValueError(f"A SavedModel cannot describe {value!r}, an argument or result of a function that is saved.")
