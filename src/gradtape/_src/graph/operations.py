"""Graphs as users of TensorFlow see them: a list of operations, and the message `GraphDef`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.symbolic import Graph, Symbolic, current_graph, no_value
from gradtape._src.autodiff.gradient_overrides import check_map, registered
from gradtape._src.conversion import wrap
from gradtape._src.core.tape import Record
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats.event import FunctionDef, GraphDef, NodeDef, OpDef
from gradtape._src.graph.graph_def import function_def, graph_def, named_outputs, node_def
from gradtape._src.graph.listing import Listed, Listing, Results, static_inputs
from gradtape._src.interrupts import contextmanager
from gradtape._src.tensor import Tensor


class Operation:
    """An operation of a graph: its name, TensorFlow's name of the op, and its input and output tensors.

    >>> import gradtape as tf
    >>> graph = tf.function(lambda x: x * x).get_concrete_function(tf.constant(2.0)).graph
    >>> [(op.name, op.type) for op in graph.get_operations()]
    [('x', 'Placeholder'), ('mul', 'Mul'), ('Identity', 'Identity')]
    """

    record: Record | None = None  # its record on the tape, while its gradient function is called
    device = ""

    def __init__(self, graph: FuncGraph, listed: Listed) -> None:
        self.graph, self._listed = graph, listed
        self.name, self.type, self.node = listed.name, listed.type, listed.node

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors it takes: values of the graph, and constants."""
        return self.graph.tensors_into(self._listed)

    @property
    def outputs(self) -> list[Tensor]:
        """The tensors it returns."""
        return [self.graph.tensor_of(symbol) for symbol in self._listed.outputs]

    @property
    def control_inputs(self) -> list[Operation]:
        """No operations: nodes are in the order in which they run."""
        return []

    def values(self) -> tuple[Tensor, ...]:
        """The tensors it returns."""
        return tuple(self.outputs)

    @property
    def op_def(self) -> OpDef:
        """The message `OpDef`, with the name of the op."""
        return OpDef(name=self.type)

    @property
    def node_def(self) -> NodeDef:
        """The message `NodeDef`."""
        return node_def(self._listed)

    def get_attr(self, name: str) -> Any:
        """The value of an attribute."""
        attrs = self.node_def.attr
        if name == "T" and self._listed.outputs:
            return as_dtype(self._listed.outputs[0].dtype)
        if name not in attrs:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.")
        return as_dtype(attrs[name].type) if name == "dtype" else getattr(attrs[name], _KINDS.get(name, "func"))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Operation) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> Any:
        outputs = self._listed.outputs
        return id(outputs[0]) if outputs else (id(self.graph), self.name)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


_KINDS = {"shape": "shape", "_output_shapes": "shape", "value": "tensor"}
"""The fields of attributes that are not functions."""


class FuncGraph(Graph):
    """The graph of a function."""

    _gradient_maps: tuple[tuple[int, int, dict[str, str]], ...] = ()  # first node, end, and names
    _tracked = -1  # the size of `arrays` when `_uids` was made from it
    _listed: tuple[Any, Listing] | None = None  # what the listing depends on, and the listing

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

    argument_names: Sequence[str] = ()
    results: Results | None = None  # of a complete graph
    building_function = True
    finalized = False

    def complete(self, traced: Any) -> None:
        """End the trace: the arguments of the call are released, and the results are among the operations."""
        self.watched, self.concrete = (), no_value
        assigned = [(state.variable, state.reading.array) for state in traced.state]
        self.results = Results([t.array for t in traced.outputs], assigned)

    @property
    def listing(self) -> Listing:
        """Its operations as TensorFlow lists them."""
        size = (len(self.feeds), len(self.nodes), self.results is not None, tuple(self.argument_names))
        if self._listed is None or self._listed[0] != size:
            constants = self.__dict__.setdefault("_constants", {})
            made = Listing(self, self.feeds, self.nodes, self._names_of_arguments(), self.results, constants)
            self._listed = (size, made)
        return self._listed[1]

    def _names_of_arguments(self) -> list[str]:
        count = sum(feed.kind == "argument" for feed in self.feeds)
        known = self.argument_names
        return [known[i] if i < len(known) else f"args_{i}" for i in range(count)]

    def get_operations(self) -> list[Operation]:
        """The operations in the order in which they run: inputs, constants, nodes and results."""
        return [Operation(self, listed) for listed in self.listing.operations]

    def operation_of(self, symbol: Symbolic) -> Operation:
        """The operation that a value is an output of."""
        for listed in self.listing.operations:
            if any(output is symbol for output in listed.outputs):
                return Operation(self, listed)
        return Operation(self, Listed(f"{self.name}/input", "Const", (), (symbol,)))

    def consumers(self, symbol: Symbolic) -> list[Operation]:
        """The operations that take a value, repeated if they take it more than once."""
        name = self.name_of(symbol)
        return [Operation(self, each) for each in self.listing.operations for taken in each.inputs if taken == name]

    def tensors_into(self, listed: Listed) -> tuple[Tensor, ...]:
        """The tensors that an operation takes; handles of variables are not tensors."""
        if listed.node is None or current_graph() is not self:
            symbols = {name: symbol for each in self.listing.operations for name, symbol in named_outputs(each)}
            return tuple([self.tensor_of(symbols[name]) for name in listed.inputs if name in symbols])
        static = [value for _, value in static_inputs(listed.node)]
        return tuple([self.tensor_of(arg) for arg in (*listed.node.args, *static)])

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
        return self.listing.names.get(id(symbol), f"{self.name}/input:0")

    def names(self) -> dict[int, str]:
        return self.listing.names

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation of this name."""
        for listed in self.listing.operations:
            if listed.name == name:
                return Operation(self, listed)
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

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The operation or the tensor of a name; an operation or a tensor as it is."""
        if not isinstance(obj, str):
            return obj
        if ":" in obj and allow_tensor:
            return self.get_tensor_by_name(obj)
        if not allow_operation:
            raise ValueError(f"The name '{obj}' looks like an operation, but it is not allowed here.")
        return self.get_operation_by_name(obj)

    @property
    def version(self) -> int:
        """The number of its operations."""
        return len(self.listing.operations)

    @property
    def inputs(self) -> list[Tensor]:
        """The arguments."""
        return [wrap(feed.symbol) for feed in self.feeds if feed.kind == "argument"]

    @property
    def outputs(self) -> list[Tensor]:
        """The results, once the graph is complete."""
        return [wrap(symbol) for symbol in self.listing.results]

    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> GraphDef:
        """The graph as the message `GraphDef`: a node for each operation, and functions for branches and loops.

        >>> import gradtape as tf
        >>> graph = tf.function(lambda x: x * x).get_concrete_function(tf.constant(2.0)).graph
        >>> [node.op for node in graph.as_graph_def().node]
        ['Placeholder', 'Mul', 'Identity']
        """
        return graph_def(self.listing)

    def function_def(self, name: str) -> FunctionDef:
        """The graph as the message `FunctionDef`."""
        return function_def(name, self.listing, [])
