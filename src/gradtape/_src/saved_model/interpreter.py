"""Run graphs op by op, through the table of raw ops: they are differentiable like any other code.

A function of a graph is planned when it is first called: its nodes in an order that respects data and control inputs,
each with its op, inputs and attrs. Running it calls the implementations in that order.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src import errors
from gradtape._src.arrays.seeds import OpStreams, drawing_from
from gradtape._src.autodiff.custom_gradient import custom_gradient
from gradtape._src.conversion import convert
from gradtape._src.dtypes import as_dtype
from gradtape._src.raw_ops.definition import Attr, Definition
from gradtape._src.raw_ops.table import RawOp, raw_op
from gradtape._src.saved_model.connections import CONTROL_FLOW, connecting, reaching
from gradtape._src.saved_model.messages import Function, Graph, Node, OpDefinition, attr_value
from gradtape._src.saved_model.programs import ATTR, GRADIENT, StoredProgram
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Source(NamedTuple):
    """The source of an input: an output of a node (by its flat index), or an argument (`node` is empty)."""

    node: str
    place: int


class Step(NamedTuple):
    """A node that is ready to run."""

    name: str
    sources: list[Source]
    run: Callable[[list[Any], dict[str, list[Any]]], list[Any]]


class Plan(NamedTuple):
    """A function that is ready to run."""

    steps: list[Step]
    results: list[Source]


class Captured(NamedTuple):
    """A tensor that a gradient captures: its name in the function that computes it."""

    tensor: str
    function: str


class RegisteredGradient(NamedTuple):
    """The gradient function of a custom-gradient op: its name, its captures, and its signatures in the file."""

    name: str
    bound: Callable[[], list[Any]]
    input_signature: bytes
    output_signature: bytes


class Library:
    """The functions of a SavedModel's graph, and the definitions of its ops."""

    def __init__(self, graph: Graph, ops: dict[str, OpDefinition], path: str) -> None:
        self.graph, self.ops, self.path = graph, ops, path
        self.gradients: dict[str, Callable[..., Any]] = {}
        self.registered: dict[str, RegisteredGradient] = {}
        self.captures: dict[str, list[str]] = {}
        self._functions: dict[str, GraphFunction] = {}

    def function(self, name: str) -> GraphFunction:
        """The function with this name."""
        if name not in self._functions:
            if name not in self.graph.functions:
                raise errors.NotFoundError(None, None, f"The file {self.path} has no function {name!r}.")
            self._functions[name] = GraphFunction(self, name)
        return self._functions[name]

    def constant(self, name: str) -> Tensor:
        """The value of a constant of the outer graph."""
        node = self.graph.nodes.get(name)
        if node is None or node.op != "Const" or "value" not in node.attrs:
            raise ValueError(f"The file {self.path} has no constant {name!r}.")
        value = attr_value(node.attrs["value"])
        if not isinstance(value, Tensor):
            raise ValueError(f"The constant {name!r} of the file {self.path} has no value.")
        return value


class GraphFunction:
    """A function of a graph: it takes and returns flat lists of tensors and handles."""

    def __init__(self, library: Library, name: str) -> None:
        self.library, self.name = library, name
        self.definition = library.graph.functions[name]
        self.arguments = [arg.name for arg in self.definition.signature.inputs]

    @functools.cached_property
    def plan(self) -> Plan:
        """The steps, planned on the first call."""
        return Planner(self).plan()

    @functools.cached_property
    def reaching(self) -> frozenset[int]:
        """The arguments that a result depends on through differentiable ops."""
        return reaching(self.definition, self.arguments, self.library.function)

    @functools.cached_property
    def has_stored_programs(self) -> bool:
        """Whether programs that gradtape has saved are among its nodes, or those of functions that it calls."""
        for node in self.definition.nodes.values():
            if node.op == "XlaCallModule":
                return True
            callee = attr_value(node.attrs["f"]) if "f" in node.attrs else None
            if isinstance(callee, Function) and self.library.function(callee.name).has_stored_programs:
                return True
        return False

    def __call__(self, *inputs: Any) -> list[Any]:
        if len(inputs) != len(self.arguments):
            raise errors.invalid_argument(
                f"The function {self.name} takes {len(self.arguments)} inputs, received {len(inputs)}."
            )
        plan = self.plan
        values: dict[str, list[Any]] = {"": list(inputs)}
        for step in plan.steps:
            values[step.name] = step.run([values[node][index] for node, index in step.sources], values)
        return [values[node][index] for node, index in plan.results]


class Planner:
    """Orders the nodes of a function, and prepares them."""

    def __init__(self, function: GraphFunction) -> None:
        self.function, self.library = function, function.library
        self.nodes = function.definition.nodes
        self._places = {name: i for i, name in enumerate(function.arguments)}

    def plan(self) -> Plan:
        """The steps of the nodes that the results, or effects, need."""
        definition = self.function.definition
        results = []
        for output in definition.signature.outputs:
            if output.name not in definition.results:
                raise self._damaged(f"its output {output.name!r} is not produced by any node")
            results.append(self.source(definition.results[output.name]))
        captured = [self.flat_source(name) for name in self.library.captures.get(self.function.name, [])]
        wanted = [source.node for source in (*results, *captured)] + list(definition.control_results.values())
        return Plan([self._step(self.nodes[name]) for name in self._ordered(wanted)], results)

    def _ordered(self, wanted: Sequence[str]) -> list[str]:
        """The nodes that are needed, after the nodes that they need; without recursion, because graphs are deep."""
        order: list[str] = []
        state: dict[str, bool] = {}  # False while its inputs are visited
        stack = [(name, False) for name in reversed(wanted) if name]
        while stack:
            name, ready = stack.pop()
            if ready:
                state[name] = True
                order.append(name)
                continue
            if name in state:
                if not state[name]:
                    raise self._damaged(f"the node {name!r} depends on itself")
                continue
            state[name] = False
            stack.append((name, True))
            for needed in self._needs(name):
                if state.get(needed) is False:
                    raise self._damaged(f"the node {needed!r} depends on itself")
                if needed not in state:
                    stack.append((needed, False))
        return order

    def _needs(self, name: str) -> list[str]:
        if name not in self.nodes:
            raise self._damaged(f"there is no node {name!r}")
        node = self.nodes[name]
        data = [each.split(":")[0] for each in node.inputs]
        return [each for each in (*data, *node.control_inputs) if each not in self._places]

    def source(self, reference: str) -> Source:
        """Parse `argument`, or `node:output:i`."""
        name, _, rest = reference.partition(":")
        if name in self._places and not rest.partition(":")[0]:
            return Source("", self._places[name])
        if name not in self.nodes:
            raise self._damaged(f"there is no node {name!r}")
        output, _, number = rest.partition(":")
        node = self.nodes[name]
        start = 0
        for each, count in self._outputs(node):
            if each == output:
                index = int(number or 0)
                if not 0 <= index < count:
                    raise self._damaged(f"{reference!r} is not among the {count} tensors of {output!r}")
                return Source(name, start + index)
            start += count
        raise self._damaged(f"the op {node.op} has no output {output!r}")

    def flat_source(self, reference: str) -> Source:
        """Parse `argument:0`, or `node:i`, where i counts all outputs."""
        name, _, number = reference.partition(":")
        return Source("", self._places[name]) if name in self._places else Source(name, int(number or 0))

    def _outputs(self, node: Node) -> list[tuple[str, int]]:
        """The outputs of a node, with the number of tensors of each."""
        op = raw_op(node.op)
        if op is not None:
            return [(o.name, self._count(node, o.number, o.type if o.is_list else "")) for o in op.definition.outputs]
        if node.op in self.library.ops:
            found = self.library.ops[node.op].outputs
            return [(o.name, self._count(node, o.number_attr, o.type_list_attr)) for o in found]
        raise self._missing(node)

    def _count(self, node: Node, number: str, types: str) -> int:
        value = self._attr(node, number or types) if number or types else 1
        count = len(value) if isinstance(value, list) else value
        if not isinstance(count, int) or count < 0:
            raise self._damaged(f"the node {node.name!r} has no attr {number or types!r}")
        return count

    def _attr(self, node: Node, name: str) -> Any:
        """The value of an attr in the file, or its default."""
        if name in node.attrs:
            return attr_value(node.attrs[name])
        op = self.library.ops.get(node.op)
        return attr_value(op.defaults[name]) if op is not None and name in op.defaults else None

    # -- a step ------------------------------------------------------------------------------------------------------
    def _step(self, node: Node) -> Step:
        sources = [self.source(each) for each in node.inputs]
        if node.op == "Const":
            value = self._attr(node, "value")
            if not isinstance(value, Tensor):
                raise self._damaged(f"the constant {node.name!r} has no value")
            return Step(node.name, [], lambda inputs, values: [value])
        if node.op == "XlaCallModule" and ATTR in node.attrs:
            program = StoredProgram(self._attr(node, ATTR), self._attr(node, "version"))
            return Step(node.name, sources, lambda inputs, values: list(program(inputs)))
        op = raw_op(node.op)
        if op is None:
            raise self._missing(node)
        attrs = self._attrs(node, op)
        groups = self._groups(node, op.definition, len(sources))
        gradient = self._attr(node, "_gradient_op_type")
        if node.op == "IdentityN" and isinstance(gradient, bytes) and not gradient.decode().startswith(GRADIENT):
            return Step(node.name, sources, self._custom_gradient(gradient.decode()))

        def run(inputs: list[Any], values: dict[str, list[Any]]) -> list[Any]:
            return _flat(op.definition, op.run([_grouped(inputs, group) for group in groups], attrs))

        if "seed2" in attrs:
            return Step(node.name, sources, _drawing(run))
        return Step(node.name, sources, connecting(run, node.op, attrs) if node.op in CONTROL_FLOW else run)

    def _attrs(self, node: Node, op: RawOp) -> dict[str, Any]:
        """The attrs that the implementation takes, and those that must have their default values."""
        fixed = {attr.name for attr in op.fixed}
        found = {}
        for attr in op.definition.attrs:
            if attr.name in op.attrs or attr.name in fixed:
                value = self._attr(node, attr.node_name)
                if value is None and attr.required:
                    raise self._damaged(f"the node {node.name!r} ({node.op}) lacks the attr {attr.node_name!r}")
                found[attr.name] = attr.default if value is None else self._value(attr, value)
        return found

    def _value(self, attr: Attr, value: Any) -> Any:
        """The value of an attr in the form that Python code passes."""
        kind = attr.kind
        if kind.startswith("list("):
            if not isinstance(value, list):
                raise self._damaged(f"the attr {attr.node_name!r} is not a list")
            return [self._value(attr._replace(kind=kind[5:-1]), each) for each in value]
        wanted: dict[str, type | tuple[type, ...]] = {
            "string": bytes, "int": int, "float": (float, int), "bool": bool, "type": int, "shape": TensorShape,
            "tensor": Tensor, "func": Function,
        }  # fmt: skip
        if not isinstance(value, wanted[kind]):
            raise self._damaged(f"the attr {attr.node_name!r} is not a {kind}")
        if isinstance(value, bytes):
            return value.decode(errors="surrogateescape")
        if kind == "type":
            return as_dtype(value)
        return self.library.function(value.name) if isinstance(value, Function) else value

    def _groups(self, node: Node, definition: Definition, given: int) -> list[int | tuple[int, int]]:
        """For each input of the op, its position among the tensors, or the positions of a list."""
        groups: list[int | tuple[int, int]] = []
        start = 0
        for each in definition.inputs:
            if each.number or each.is_list:
                count = self._count(node, each.number, each.type if each.is_list else "")
                groups.append((start, start + count))
                start += count
            else:
                groups.append(start)
                start += 1
        if start != given:
            raise self._damaged(f"the node {node.name!r} ({node.op}) has {given} inputs, expected {start}")
        return groups

    def _custom_gradient(self, kind: str) -> Callable[[list[Any], dict[str, list[Any]]], list[Any]]:
        """An identity op whose gradient is a function of the file."""
        library = self.library

        def run(inputs: list[Any], values: dict[str, list[Any]]) -> list[Any]:
            gradient = library.gradients.get(kind)
            lookup = functools.partial(self._captured, values)

            @custom_gradient
            def identity(*xs: Any) -> Any:
                def vjp(*g: Any) -> Any:
                    if gradient is None:
                        raise LookupError(
                            f"No gradient defined for operation 'IdentityN' (op type: {kind}): the file {library.path} "
                            "was saved without experimental_custom_gradients."
                        )
                    return gradient(lookup, *g)

                return [convert(x) for x in xs], vjp

            found = identity(*inputs)
            return list(found) if isinstance(found, (list, tuple)) else [found]

        return run

    def _captured(self, values: dict[str, list[Any]], reference: str) -> Any:
        node, index = self.flat_source(reference)
        return values[node][index]

    # -- errors ------------------------------------------------------------------------------------------------------
    def _missing(self, node: Node) -> Exception:
        definition = self.library.ops.get(node.op)
        signature = f" with the signature {definition}" if definition is not None else ""
        return errors.NotFoundError(
            None,
            None,
            f"Op type not registered '{node.op}'{signature}: it is not in gradtape. The node {node.name!r} of the "
            f"function {self.function.name!r} in {self.library.path} needs it.",
        )

    def _damaged(self, why: str) -> ValueError:
        return ValueError(f"The function {self.function.name!r} of {self.library.path} is damaged: {why}.")


def _drawing(run: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """A random op with its own stream, which continues from call to call."""
    streams = OpStreams()

    def draw(inputs: list[Any], values: dict[str, list[Any]]) -> list[Any]:
        with drawing_from(streams):
            return run(inputs, values)

    return draw


def _grouped(inputs: list[Any], group: int | tuple[int, int]) -> Any:
    return inputs[group] if isinstance(group, int) else inputs[group[0] : group[1]]


def _flat(definition: Definition, found: Any) -> list[Any]:
    """Flatten the result of an implementation into a list of outputs."""
    outputs = definition.outputs
    if not outputs:
        return []
    if len(outputs) == 1:
        return list(found) if outputs[0].number or outputs[0].is_list else [found]
    flat: list[Any] = []
    for output, value in zip(outputs, found, strict=True):
        flat += list(value) if output.number or output.is_list else [value]
    return flat
