"""Write the messages of a SavedModel: nodes, functions, ops, structures."""

from __future__ import annotations

import functools
import struct
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.conversion import wrap
from gradtape._src.dtypes import DType
from gradtape._src.formats.protobuf import Fixed64, Message
from gradtape._src.ops.ragged import RaggedTensorSpec
from gradtape._src.ops.sparse_tensor import SparseTensorSpec
from gradtape._src.raw_ops.definition import definition
from gradtape._src.saved_model.export import Body, Exported, Op, Program, Value
from gradtape._src.saved_model.programs import ATTR, GRADIENT
from gradtape._src.saved_model.structures import components
from gradtape._src.shape import TensorShape, TensorSpec
from gradtape._src.tensor import Tensor
from gradtape._src.variable import StreamState, Variable

RESOURCE = 20
"""The number of the dtype of handles."""

_INT32, _INT64 = 3, 9

STRING = 7
"""The number of the dtype of strings."""


def text(value: str) -> bytes:
    return value.encode()


def shape_proto(shape: TensorShape) -> Message:
    """A TensorShapeProto."""
    if shape.rank is None:
        return [(3, 1)]
    return [(2, [(1, -1 if n is None else n)]) for n in shape.as_list()]


def entry(field: int, key: str, value: Any) -> tuple[int, Any]:
    """An entry of a map field."""
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
    """A FunctionDef; `controls` are nodes that run even if no result needs them."""
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


class _Writer:
    """Writes the steps of a function as nodes."""

    def __init__(self, name: str, body: Body) -> None:
        self.name, self.body = name, body
        self.handles = {id(variable): f"variable_{i}" for i, variable in enumerate(body.variables)}
        self.objects = {id(each): f"object_{i}" for i, each in enumerate(body.objects)}
        self.values = {i: f"input_{i}" for i in range(len(body.inputs))}
        self.flat = {i: f"input_{i}:0" for i in range(len(body.inputs))}
        self.nodes: list[Message] = []
        self.controls: list[str] = []
        self.gradients: list[Gradient] = []
        self.reads: dict[int, str] = {}
        self.stored: dict[int, str] = {}  # the sources of the values of variables and states

    def function(self) -> Message:
        """The FunctionDef: inputs, handles of variables, then those of other objects."""
        body = self.body
        for variable in body.variables:
            if any(variable is each for step in body.programs for each in step.exported.variables):
                self._read(variable)
        for state in body.streams:
            self._draw(state)
        for step in body.steps:
            self._program(step) if isinstance(step, Program) else self._op(step)
        results = {}
        for i, (result, value) in enumerate(zip(body.results, body.outputs, strict=True)):
            waits = [f"^{each}" for each in self.controls if each.startswith("assign")]
            kind = {"T": type_attr(value.dtype.as_datatype_enum)}
            self.nodes.append(node(f"result_{i}", "Identity", [self._source(result), *waits], kind))
            results[f"output_{i}"] = f"result_{i}:output:0"
        arguments = [arg(f"input_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(body.inputs)]
        arguments += [arg(self.handles[id(variable)], RESOURCE) for variable in body.variables]
        arguments += [arg(self.objects[id(each)], handle_type(each)) for each in body.objects]
        outputs = [arg(f"output_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(body.outputs)]
        return function(self.name, arguments, outputs, self.nodes, results, self.controls)

    def _read(self, variable: Variable) -> None:
        name = f"read_{len(self.reads)}"
        kind = {"dtype": type_attr(variable.dtype.as_datatype_enum)}
        self.nodes.append(node(name, "ReadVariableOp", [self.handles[id(variable)]], kind))
        self.reads[id(variable)] = name
        self.stored[id(variable)] = f"{name}:value:0"

    def _draw(self, state: StreamState) -> None:
        """A new state for the stream of a random op, from an op with its seeds, which continues from call to call."""
        name = f"stream_{len(self.stored)}"
        bounds = [wrap(np.array(each, np.int64)) for each in (-(2**63), 2**63 - 1)]
        given = [constant(f"{name}_shape", wrap(np.array([3], np.int32)))]
        given += [constant(f"{name}_{word}", bound) for word, bound in zip(("low", "high"), bounds, strict=True)]
        first, second = state.seeds_of_op or (0, 0)
        attrs: dict[str, Message] = {"seed": [(3, first)], "seed2": [(3, second)]}
        attrs |= {"Tout": type_attr(_INT64), "T": type_attr(_INT32)}
        sources = [f"{name}_{word}:output:0" for word in ("shape", "low", "high")]
        self.nodes += [*given, node(name, "RandomUniformInt", sources, attrs)]
        self.controls.append(name)
        self.stored[id(state)] = f"{name}:output:0"

    def _source(self, value: Any) -> str:
        """The node that outputs a value; a node is added for a constant."""
        if isinstance(value, int):
            return self.values[value]
        if isinstance(value, Tensor):
            name = f"constant_{len(self.nodes)}"
            self.nodes.append(constant(name, value))
            return f"{name}:output:0"
        return self.objects[id(value)]

    def _op(self, step: Op) -> None:
        spec = definition(step.name)
        name = f"op_{len(self.nodes)}"
        given = [step.inputs[each.name] for each in spec.inputs]
        sources = [self._source(each) for value in given for each in (value if isinstance(value, list) else [value])]
        self.nodes.append(node(name, step.name, sources, self._attrs(step)))
        self.controls.append(name)
        place = 0
        for output in spec.outputs:
            count = len(step.results) if output.number else 1
            for i in range(count):
                self.values[step.results[place]] = f"{name}:{output.name}:{i}"
                self.flat[step.results[place]] = f"{name}:{place}"
                place += 1

    def _attrs(self, step: Op) -> dict[str, Message]:
        """The attrs of an op: the given ones, and those that follow from its inputs."""
        spec = definition(step.name)
        found = {
            attr.node_name: attr_of(attr.kind, step.attrs[attr.name]) for attr in spec.attrs if attr.name in step.attrs
        }
        for each in spec.inputs:
            value = step.inputs[each.name]
            if each.number:
                found[each.number] = [(3, len(value))]
            first = value[0] if isinstance(value, list) else value
            if each.type not in _TYPES:
                found[each.type] = type_attr(self._dtype(first))
        if step.name.startswith("LookupTableFind"):
            table = step.inputs["table_handle"]
            found |= {"Tin": type_attr(table.key_dtype.as_datatype_enum)}
        return found

    def _dtype(self, value: Any) -> int:
        if isinstance(value, Tensor):
            return value.dtype.as_datatype_enum
        return self.dtypes[value].as_datatype_enum if isinstance(value, int) else handle_type(value)

    @functools.cached_property
    def dtypes(self) -> dict[int, DType]:
        """The dtypes of the function's values."""
        return self.body.dtypes

    def _program(self, step: Program) -> None:
        found, number = step.exported, sum(each.startswith("program") for each in self.controls)
        name = f"program_{number}"
        stored = [self.stored[id(variable)] for variable in found.variables]
        given = [*(self._source(each) for each in found.arguments), *stored]
        attrs = {ATTR: [(2, found.stored)]}
        self.nodes.append(call_module(name, found.module, found.version, given, found.inputs, found.outputs, attrs))
        self.controls.append(name)
        count = len(step.results)
        for i, variable in enumerate(found.assigned):
            if isinstance(variable, StreamState):
                continue
            kind = {"dtype": type_attr(variable.dtype.as_datatype_enum)}
            waits = [f"^{each}" for each in self.reads.values()]
            origin = [self.handles[id(variable)], f"{name}:output:{count + i}", *waits]
            self.nodes.append(node(f"assign_{i}", "AssignVariableOp", origin, kind))
            self.controls.append(f"assign_{i}")
        for i, result in enumerate(self._tied(name, found, given)):
            self.values[step.results[i]] = result
            self.flat[step.results[i]] = _flat(result)
        numbers = [each if isinstance(each, int) else None for each in found.arguments]
        flat = [_flat(source) if i is None else self.flat[i] for i, source in zip(numbers, given, strict=False)]
        captured = [*flat, *map(_flat, stored)]
        if found.backward is not None:
            self.gradients.append(_gradient(f"{self.name}_{name}", found, found.backward, captured))

    def _tied(self, name: str, found: Exported, given: list[str]) -> list[str]:
        """The results of a program; if it has a gradient, they pass through an op that names the gradient function."""
        count = len(found.outputs) - len(found.assigned)
        sources = [f"{name}:output:{i}" for i in range(count)]
        if found.backward is None:
            return sources
        floats, passed = _differentiable(found.outputs[:count]), _differentiable(found.inputs)
        tied = [*(sources[i] for i in floats), *(given[i] for i in passed)]
        values = [*(found.outputs[i] for i in floats), *(found.inputs[i] for i in passed)]
        numbers = [value.dtype.as_datatype_enum for value in values]
        kind = {"T": types_attr(numbers), "_gradient_op_type": [(2, text(f"{GRADIENT}{self.name}_{name}"))]}
        self.nodes.append(node(f"{name}_with_gradient", "IdentityN", tied, kind))
        for place, i in enumerate(floats):
            sources[i] = f"{name}_with_gradient:output:{place}"
        return sources


def _flat(source: str) -> str:
    """An output of a node with one output argument, in the form of names of captured tensors."""
    name, _, place = source.split(":")
    return f"{name}:{place}"


_TYPES = frozenset({"string", "resource", "variant", "bool", "int32", "int64", "float32", "float64", "uint8"})
"""Dtypes of inputs that are not attrs."""


def handle_type(value: Any) -> int:
    """The dtype in which a function takes an object: a handle, the path of an asset, a constant."""
    if isinstance(value, Tensor):
        return value.dtype.as_datatype_enum
    return STRING if hasattr(value, "asset_path") else RESOURCE


def body_function(name: str, body: Body) -> tuple[Message, list[Gradient]]:
    """A FunctionDef, and the gradients of its programs."""
    writer = _Writer(name, body)
    return writer.function(), writer.gradients


def constant(name: str, value: Tensor) -> Message:
    """A node with a value."""
    found = np.asarray(value.array)
    kind = value.dtype.as_datatype_enum
    return node(name, "Const", [], {"dtype": type_attr(kind), "value": [(8, tensor_proto(found, kind))]})


def tensor_proto(value: np.ndarray, kind: int) -> Message:
    """A TensorProto."""
    proto: Message = [(1, kind), (2, [(2, [(1, n)]) for n in value.shape])]
    if value.dtype.kind == "O":
        return [*proto, *((8, each) for each in value.ravel().tolist())]
    return [*proto, (4, np.ascontiguousarray(value).tobytes())]


def attr_of(kind: str, value: Any) -> Message:
    """An AttrValue of an op."""
    if kind == "type":
        return type_attr(value.as_datatype_enum)
    if kind == "string":
        return [(2, text(value))]
    if kind == "list(int)":
        return [(1, [(3, int(each)) for each in value])]
    if kind == "list(string)":
        return [(1, [(2, text(each)) for each in value])]
    return [(5 if kind == "bool" else 3, int(value))]


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
    """The gradient of a program in TensorFlow: the type of its op, its function, the tensors of the forward function
    that the function captures, and its signature.
    """

    kind: str
    name: str
    function: Message
    captured: list[str]
    inputs: list[TensorSpec]
    outputs: list[TensorSpec | None]


def _gradient(of: str, found: Exported, backward: bytes, captured: list[str]) -> Gradient:
    """The function that TensorFlow calls with cotangents of floating results, and of inputs that are passed through."""
    count = len(found.outputs) - len(found.assigned)
    floats, passed = _differentiable(found.outputs[:count]), _differentiable(found.inputs)
    taken = [*(found.outputs[i] for i in floats), *(found.inputs[i] for i in passed)]
    inputs = [*(f"captured_{i}" for i in range(len(found.inputs))), *(f"g_{i}" for i in range(len(floats)))]
    given = [*found.inputs, *(found.outputs[i] for i in floats)]
    results = [found.inputs[i] for i in passed]
    nodes = [call_module("backward", backward, found.version, inputs, given, results, {})]
    arguments = [arg(f"g_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(taken)]
    arguments += [arg(f"captured_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(found.inputs)]
    outputs = [arg(f"output_{i}", value.dtype.as_datatype_enum) for i, value in enumerate(results)]
    returned = {f"output_{i}": f"backward:output:{i}" for i in range(len(results))}
    name = f"{of}_gradient"
    made = function(name, arguments, outputs, nodes, returned, ["backward"])
    specs = [TensorSpec(value.shape, value.dtype, f"result_grads_{i}") for i, value in enumerate(taken)]
    shown: list[TensorSpec | None] = [None] * len(floats)
    shown += [TensorSpec(value.shape, value.dtype) for value in results]
    return Gradient(f"{GRADIENT}{of}", name, made, captured, specs, shown)


def program_op() -> Message:
    """The parts of XlaCallModule's OpDef that graphs need."""
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


def rank_functions(
    name: str, given: list[int], number: int, kinds: list[int], parts: list[tuple[str, list[int]]], types: list[int]
) -> list[Message]:
    """A function that calls one of several functions, with the same arguments, by the rank of an input; and these.

    `parts` are names of functions, and the captured objects that they take.
    """
    inputs = [f"input_{i}" for i in range(len(given))]
    captured = [f"captured_{i}" for i in range(len(kinds))]
    arguments = [arg(each, kind) for each, kind in zip([*inputs, *captured], [*given, *kinds], strict=True)]
    outputs = [arg(f"output_{i}", kind) for i, kind in enumerate(types)]
    made = []
    for rank, (callee, places) in enumerate(parts):
        tin = [*given, *(kinds[i] for i in places)]
        inner = call("call", callee, [*inputs, *(captured[i] for i in places)], tin, types)
        results = {f"output_{i}": f"call:output:{i}" for i in range(len(types))}
        made.append(function(f"{name}_rank_{rank}", arguments, outputs, [inner], results, ["call"]))
    branches: Message = [(1, [(9, [(1, text(f"{name}_rank_{rank}"))]) for rank in range(len(parts))])]
    nodes = [
        node("rank", "Rank", [inputs[number]], {"T": type_attr(given[number])}),
        node("case", "Case", ["rank:output:0", *inputs, *captured], {
            "Tin": types_attr([*given, *kinds]), "Tout": types_attr(types), "branches": branches,
            "output_shapes": shapes_attr([TensorShape(None)] * len(types)),
        }),
    ]  # fmt: skip
    results = {f"output_{i}": f"case:output:{i}" for i in range(len(types))}
    return [*made, function(name, arguments, outputs, nodes, results, ["case"])]


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
    key: str, name: str, specs: dict[str, TensorSpec], outputs: dict[str, TensorSpec], captured: list[tuple[str, int]]
) -> list[Message]:
    """Placeholders of a signature, and the call of its function."""
    made = [placeholder(f"{key}_{arg}", spec.dtype.as_datatype_enum, spec.shape) for arg, spec in specs.items()]
    tin = [spec.dtype.as_datatype_enum for spec in specs.values()] + [kind for _, kind in captured]
    tout = [part.dtype.as_datatype_enum for spec in outputs.values() for part in components(spec)]
    return [
        *made,
        call(f"call_{key}", name, [*(f"{key}_{arg}" for arg in specs), *(name for name, _ in captured)], tin, tout),
    ]


def signature(key: str, specs: dict[str, TensorSpec], outputs: dict[str, TensorSpec]) -> Message:
    """A SignatureDef."""
    return [
        *(entry(1, arg, tensor_info(f"{key}_{arg}:0", spec)) for arg, spec in specs.items()),
        *_output_infos(f"call_{key}", outputs),
        (3, b"tensorflow/serving/predict"),
    ]


def _output_infos(call_name: str, outputs: dict[str, Any]) -> Message:
    """The results of a call by name: TensorInfos, with components for composite tensors."""
    found: Message = []
    place = 0
    for name, spec in outputs.items():
        parts = components(spec)
        infos = [tensor_info(f"{call_name}:{place + i}", part) for i, part in enumerate(parts)]
        place += len(parts)
        if isinstance(spec, RaggedTensorSpec):
            found.append(entry(2, name, [(5, [(1, type_spec(spec)), *((2, info) for info in infos)])]))
        elif isinstance(spec, SparseTensorSpec):
            names = [(number, text(f"{call_name}:{place - 3 + i}")) for number, i in ((1, 1), (2, 0), (3, 2))]
            kind = [(2, spec.dtype.as_datatype_enum), (3, shape_proto(spec.shape))]
            found.append(entry(2, name, [*kind, (4, names)]))
        else:
            found.append(entry(2, name, infos[0]))
    return found


def tensor_info(name: str, spec: TensorSpec) -> Message:
    return [(1, text(name)), (2, spec.dtype.as_datatype_enum), (3, shape_proto(spec.shape))]


# -- structures ------------------------------------------------------------------------------------------------------
def type_spec(spec: RaggedTensorSpec | SparseTensorSpec) -> Message:
    """A TypeSpecProto of a composite tensor."""
    if isinstance(spec, SparseTensorSpec):
        state: tuple[Any, ...] = (spec.shape, spec.dtype)
        return [(1, 1), (2, structured(state)), (3, b"SparseTensorSpec"), (4, 3)]
    state = (spec.shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    return [(1, 3), (2, structured(state)), (3, b"RaggedTensorSpec"), (4, spec.ragged_rank + 1)]


def structured(value: Any) -> Message:
    """A StructuredValue."""
    if value is None:
        return [(1, [])]
    if isinstance(value, TensorSpec):
        named: Message = [(1, text(value.name))] if value.name else []
        return [(33, [*named, (2, shape_proto(value.shape)), (3, value.dtype.as_datatype_enum)])]
    if isinstance(value, (RaggedTensorSpec, SparseTensorSpec)):
        return [(34, type_spec(value))]
    if isinstance(value, TensorShape):
        return [(31, shape_proto(value))]
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
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = [(2, [(1, text(key)), (2, structured(each))]) for key, each in zip(value._fields, value, strict=True)]
        return [(54, [(1, text(type(value).__name__)), *pairs])]
    if isinstance(value, (list, tuple)):
        return [(51 if isinstance(value, list) else 52, [(1, structured(each)) for each in value])]
    raise ValueError(f"A SavedModel cannot describe {value!r}, an argument or result of a function that is saved.")
