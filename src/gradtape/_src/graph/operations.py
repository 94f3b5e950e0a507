"""Graphs as TensorFlow's users look at them: a list of operations, and the message `GraphDef`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradtape._src.arrays.symbolic import Graph, Node, Symbolic
from gradtape._src.conversion import wrap
from gradtape._src.core.primitive import registry
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats.event import AttrValue, GraphDef, NodeDef, shape_proto
from gradtape._src.tensor import Tensor

_PROGRAMS = {
    "inline": "PartitionedCall",
    "switch": "Case",
    "scan": "While",
    "loop": "While",
    "dynamic_loop": "While",
    "check": "Assert",
    "host_effect": "EagerPyFunc",
    "host_function": "EagerPyFunc",
    "argwhere": "Where",
    "arange": "Range",
    "extents": "Shape",
    "size_of": "Shape",
    "assume": "Assert",
}
"""What TensorFlow calls nodes that are no primitives."""

_FEEDS = {"argument": "Placeholder", "variable": "ReadVariableOp", "array": "Const", "per_call": "Placeholder"}


class Operation:
    """A node of a graph: its name, TensorFlow's name of the op, and the tensors that go in and come out.

    >>> import gradtape as tf
    >>> graph = tf.function(lambda x: x * x).get_concrete_function(tf.constant(2.0)).graph
    >>> [(op.name, op.type) for op in graph.get_operations()]
    [('args_0', 'Placeholder'), ('multiply', 'Mul')]
    """

    def __init__(self, graph: FuncGraph, type: str, inputs: Any, outputs: Any, names: dict[int, str]) -> None:
        self.graph, self.type = graph, type
        self.name = names[id(outputs[0])].partition(":")[0]
        self._inputs, self._outputs = inputs, outputs
        self._input_names = [names[id(symbol)].removesuffix(":0") for symbol in inputs]

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors it takes."""
        return tuple([wrap(symbol) for symbol in self._inputs])

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors it returns."""
        return [wrap(symbol) for symbol in self._outputs]

    def values(self) -> tuple[Tensor, ...]:
        """The tensors it returns."""
        return tuple(self.outputs)

    @property
    def op_def(self) -> str:
        """TensorFlow's name of the op."""
        return self.type

    @property
    def node_def(self) -> NodeDef:
        """The message `NodeDef`."""
        attrs = {}
        if self._outputs:
            first = self._outputs[0]
            attrs["dtype"] = AttrValue(type=as_dtype(first.dtype).as_datatype_enum)
            attrs["_output_shapes"] = AttrValue(
                shape=shape_proto(n if isinstance(n, int) else None for n in first.shape)
            )
        return NodeDef(name=self.name, op=self.type, input=self._input_names, attr=attrs)

    def get_attr(self, name: str) -> Any:
        """The value of an attribute."""
        if name not in ("T", "dtype") or not self._outputs:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        return as_dtype(self._outputs[0].dtype)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


class FuncGraph(Graph):
    """The graph of a function."""

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """A name that this has not returned before: with a number, if it has. Case makes no difference."""
        used: dict[str, int] = self.__dict__.setdefault("_unique_names", {})
        base = key = name.lower()
        number = used.get(key, 0)
        if mark_as_used:
            used[key] = number + 1
        while key in used and number:
            key = f"{base}_{number}"
            number += 1
        if key == base:
            return name
        if mark_as_used:
            used[key] = 1
        return f"{name}_{number - 1}"

    def get_operations(self) -> list[Operation]:
        """The inputs and the nodes, in the order in which they run."""
        return list(self._operations())

    def _operations(self) -> Iterator[Operation]:
        names = self.names()
        for feed in self.feeds:
            yield Operation(self, _FEEDS[feed.kind], (), (feed.symbol,), names)
        for node in self.nodes:
            yield Operation(self, type_of(node), [a for a in node.args if type(a) is Symbolic], node.outputs, names)

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation of this name."""
        for operation in self._operations():
            if operation.name == name:
                return operation
        raise KeyError(f"The name '{name}' refers to an Operation not in the graph.")

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor of this name: that of its operation, and the number of the output."""
        operation, colon, number = name.partition(":")
        if not colon or not number.isdecimal():
            raise ValueError(
                f"The name '{name}' looks like an operation. Tensors have the form '<op_name>:<output_index>'."
            )
        outputs = self.get_operation_by_name(operation).outputs
        if int(number) >= len(outputs):
            raise KeyError(
                f"The name '{name}' refers to a Tensor which does not exist: '{operation}' has {len(outputs)}."
            )
        return outputs[int(number)]

    @property
    def inputs(self) -> list[Tensor]:
        """The arguments."""
        return [wrap(feed.symbol) for feed in self.feeds if feed.kind == "argument"]

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> GraphDef:
        """The graph as the message `GraphDef`: a node for each input and each op, with dtypes and shapes.

        >>> import gradtape as tf
        >>> graph = tf.function(lambda x: x * x).get_concrete_function(tf.constant(2.0)).graph
        >>> [node.op for node in graph.as_graph_def().node]
        ['Placeholder', 'Mul']
        """
        return GraphDef(node=[operation.node_def for operation in self._operations()])


def type_of(node: Node) -> str:
    """TensorFlow's name of the op that a node is."""
    name = node.attrs["of"] if node.name == "dynamic" else node.name
    op = registry.get(name)
    return _PROGRAMS.get(name, name) if op is None else op.tf_name
