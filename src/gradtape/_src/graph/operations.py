"""Graphs as users of TensorFlow see them: a list of operations, and the message `GraphDef`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import Graph, Node, Symbolic, current_graph
from gradtape._src.autodiff.gradient_overrides import check_map, registered
from gradtape._src.conversion import wrap
from gradtape._src.core.primitive import registry
from gradtape._src.core.tape import Record
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats.event import AttrValue, GraphDef, NodeDef, shape_proto
from gradtape._src.interrupts import contextmanager
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
"""TensorFlow's names of nodes that are not primitives."""

_FEEDS = {"argument": "Placeholder", "variable": "ReadVariableOp", "array": "Const", "per_call": "Placeholder"}


_STATIC_INPUTS = {
    **dict.fromkeys(("sum", "mean", "prod", "max", "min", "any", "all", "argmax", "argmin"), "axis"),
    **dict.fromkeys(("concatenate", "flip", "take", "cumsum", "cumprod"), "axis"),
    **dict.fromkeys(("reshape", "broadcast_to"), "shape"),
    "transpose": "perm",
}
"""Static arguments of primitives that are the last input of TensorFlow's op."""


class Operation:
    """A node of a graph: its name, TensorFlow's name of the op, and its input and output tensors.

    >>> import gradtape as tf
    >>> graph = tf.function(lambda x: x * x).get_concrete_function(tf.constant(2.0)).graph
    >>> [(op.name, op.type) for op in graph.get_operations()]
    [('args_0', 'Placeholder'), ('multiply', 'Mul')]
    """

    record: Record | None = None  # its record on the tape, while its gradient function is called

    def __init__(self, graph: FuncGraph, type: str, outputs: Sequence[Symbolic], node: Node | None) -> None:
        self.graph, self.type = graph, type
        self.name = graph.name_of(outputs[0]).partition(":")[0]
        self._outputs, self.node = outputs, node

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors it takes: values of the graph, and constants."""
        if self.node is None:
            return ()
        name, args, attrs, _ = self.node
        static = [_sizes(attrs[key])] if (key := _STATIC_INPUTS.get(name)) in attrs else []
        return tuple([self.graph.tensor_of(arg) for arg in (*args, *static)])

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors it returns."""
        return [self.graph.tensor_of(symbol) for symbol in self._outputs]

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
        first = self._outputs[0]
        sizes = [n if isinstance(n, int) else None for n in first.shape]
        attrs = {
            "dtype": AttrValue(type=as_dtype(first.dtype).as_datatype_enum),
            "_output_shapes": AttrValue(shape=shape_proto(sizes)),
        }
        args = () if self.node is None else self.node.args
        names = [self.graph.name_of(arg).removesuffix(":0") for arg in args if type(arg) is Symbolic]
        return NodeDef(name=self.name, op=self.type, input=names, attr=attrs)

    def get_attr(self, name: str) -> Any:
        """The value of an attribute."""
        if name not in ("T", "dtype"):
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        return as_dtype(self._outputs[0].dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self._outputs[0] is other._outputs[0]

    def __hash__(self) -> int:
        return id(self._outputs[0])

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


class FuncGraph(Graph):
    """The graph of a function."""

    _gradient_maps: tuple[tuple[int, int, dict[str, str]], ...] = ()  # first node, end, and names
    _tracked = -1  # the size of `arrays` when `_uids` was made from it
    _named = (-1, -1)  # the numbers of feeds and nodes in `_names_by_id`

    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """Return a name that is new in this graph, with a number if the name is taken. Names are case-insensitive."""
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

    def gradient_override_map(self, op_type_map: Any) -> Any:
        """Within the block, ops of these types use gradients that are registered under other names.

        It applies to `tf.gradients`, and not to tapes.

        Args:
          op_type_map: The types of ops, and the names that `tf.RegisterGradient` was called with.

        >>> import gradtape as tf
        >>> @tf.RegisterGradient("Doubled")
        ... def doubled(op, upstream):
        ...     return 2.0 * upstream
        >>> @tf.function
        ... def slope(x):
        ...     with x.graph.gradient_override_map({"Tanh": "Doubled"}):
        ...         y = tf.tanh(x)
        ...     return tf.gradients(y, x)[0]
        >>> float(slope(tf.constant(1.0)))
        2.0
        """
        check_map(op_type_map)
        return self._mapping_gradients(op_type_map)

    @contextmanager
    def _mapping_gradients(self, op_type_map: dict[str, str]) -> Iterator[None]:
        place = len(self._gradient_maps)
        try:
            self._gradient_maps += ((len(self.nodes), sys.maxsize, op_type_map),)
            yield
        finally:
            ended = (self._gradient_maps[place][0], len(self.nodes), op_type_map)
            self._gradient_maps = (*self._gradient_maps[:place], ended, *self._gradient_maps[place + 1 :])

    @property
    def mapped_gradient(self) -> Callable[[Operation], Callable[..., Any] | None] | None:
        """The gradient function that `gradient_override_map` has for an operation; None without such a map."""
        return self._mapped_gradient if self._gradient_maps else None

    def _mapped_gradient(self, operation: Operation) -> Callable[..., Any] | None:
        place = next(i for i, node in enumerate(self.nodes) if node is operation.node)
        for first, end, names in reversed(self._gradient_maps):  # an inner block begins later than those around it
            if first <= place < end and operation.type in names:
                return registered(names[operation.type], operation)
        return None

    def get_operations(self) -> list[Operation]:
        """The inputs and the nodes, in the order in which they run."""
        return list(self._operations())

    def _operations(self) -> Iterator[Operation]:
        for feed in self.feeds:
            yield Operation(self, _FEEDS[feed.kind], (feed.symbol,), None)
        for node in self.nodes:
            yield Operation(self, type_of(node), node.outputs, node)

    def operation_of(self, symbol: Symbolic) -> Operation:
        """The operation that a value is an output of."""
        node = self.maker(symbol)
        if node is not None:
            return Operation(self, type_of(node), node.outputs, node)
        kind = next((feed.kind for feed in self.feeds if feed.symbol is symbol), "array")
        return Operation(self, _FEEDS[kind], (symbol,), None)

    def consumers(self, symbol: Symbolic) -> list[Operation]:
        """The operations that take a value, repeated if they take it more than once."""
        users = [node for node in self.nodes for arg in node.args if arg is symbol]
        return [Operation(self, type_of(node), node.outputs, node) for node in users]

    def tensor_of(self, value: Any) -> Tensor:
        """The tensor of an operand or a result of a node: the one that a tape tracks, if there is one.

        While the graph is being traced, constants are values of the graph: they have names like all its tensors.
        """
        if type(value) is not Symbolic:
            array = np.asarray(value)
            return wrap(self.capture(array) if current_graph() is self else array)
        if self._tracked != len(self.arrays):
            self._uids = {id(array): uid for uid, array in self.arrays.items()}
            self._tracked = len(self.arrays)
        tensor = wrap(value)
        tensor.uid = self._uids.get(id(value), tensor.uid)
        return tensor

    def name_of(self, symbol: Symbolic) -> str:
        size = (len(self.feeds), len(self.nodes))
        if self._named != size:
            self._names_by_id, self._named = self.names(), size
        return self._names_by_id.get(id(symbol), f"{self.name}/input:0")

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation of this name."""
        for operation in self._operations():
            if operation.name == name:
                return operation
        raise KeyError(f"The name '{name}' refers to an Operation not in the graph.")

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor with this name: the name of its operation and the number of the output."""
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


def _sizes(value: Any) -> Any:
    """A static argument as a constant: an axis, axes, or a shape with -1 for unknown sizes."""
    return np.asarray([-1 if is_dimension(n) else n for n in value] if type(value) is tuple else value, np.int32)


def type_of(node: Node) -> str:
    """TensorFlow's name of the op of a node."""
    name = node.attrs["of"] if node.name == "dynamic" else node.name
    op = registry.get(name)
    return _PROGRAMS.get(name, name) if op is None else op.tf_name
