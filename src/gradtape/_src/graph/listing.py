"""The operations of a graph as TensorFlow lists them.

A node of a graph has constants and static arguments of its own, variables are inputs, and results have no nodes. In
TensorFlow all of these are operations: constants (`add/y`), reads and assignments of variables, and an `Identity` for
each result. Names are those that TensorFlow gives by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import Feed, Graph, Node, Symbolic
from gradtape._src.core.primitive import registry
from gradtape._src.graph.checks import programs_in

_TYPES = {
    "inline": "PartitionedCall",
    "check": "Assert",
    "assume": "Assert",
    "host_effect": "EagerPyFunc",
    "host_function": "EagerPyFunc",
    "argwhere": "Where",
    "arange": "Range",
    "extents": "Shape",
    "size_of": "Shape",
    "astype": "Cast",
    "advanced_state": "RngReadAndSkip",
    "stream_of_state": "Bitcast",
    "random_normal": "StatelessRandomNormalV2",
    "random_uniform": "StatelessRandomUniformV2",
    "random_truncated": "StatelessTruncatedNormalV2",
    "random_integers": "StatelessRandomUniformFullIntV2",
    "random_range": "StatelessRandomUniformIntV2",
}
"""TensorFlow's names of nodes that are not primitives."""

_LOOPS = ("scan", "loop", "dynamic_loop")

_NAMES = {
    "AddV2": "add",
    "Mul": "mul",
    "Sub": "sub",
    "RealDiv": "truediv",
    "Pow": "pow",
    "FloorMod": "mod",
    "FloorDiv": "floordiv",
    "Transpose": "transpose",
    "ConcatV2": "concat",
    "Pack": "stack",
    "Unpack": "unstack",
    "Split": "split",
    "SplitV": "split",
    "StridedSlice": "strided_slice",
    "OneHot": "one_hot",
    "Einsum": "einsum/Einsum",
    "Range": "range",
    "MaxPool": "MaxPool2d",
    "If": "cond",
    "StatelessIf": "cond",
    "Case": "switch_case",
    "StatelessCase": "switch_case",
    "While": "while",
    "StatelessWhile": "while",
}
"""Names of operations that are not called like their type."""

_OPERANDS = {
    "Conv2D": ("input", "filter"),
    "BiasAdd": ("value", "bias"),
    "GatherNd": ("params", "indices"),
    "GatherV2": ("params", "indices"),
    "MatMul": ("a", "b"),
    "SelectV2": ("condition", "t", "e"),
    "TensorScatterUpdate": ("tensor", "updates", "indices"),
    "UnsortedSegmentSum": ("data", "segment_ids"),
}
"""The names of operands, which name the constants among them; by default, x and y."""


class Listed(NamedTuple):
    """An operation.

    inputs   the names of the tensors it takes
    outputs  the values of its results
    node     the node that it stands for, if any
    value    the value of a constant
    """

    name: str
    type: str
    inputs: tuple[str, ...]
    outputs: tuple[Symbolic, ...]
    node: Node | None = None
    value: Any = None


def type_of(node: Node) -> str:
    """TensorFlow's name of the op of a node."""
    name = node.attrs["of"] if node.name == "dynamic" else node.name
    if name in _LOOPS or name == "switch":
        kind = "While" if name in _LOOPS else "If" if _has_two_branches(node) else "Case"
        return f"Stateless{kind}" if not any(program.has_effects for program in programs_in(node)) else kind
    op = registry.get(name)
    return _TYPES.get(name, name) if op is None else op.tf_name


def _has_two_branches(node: Node) -> bool:
    """Whether a node chooses by a condition, which its graph casts to the number of the branch."""
    index = node.args[0]
    maker = index.graph.maker(index) if type(index) is Symbolic else None
    return len(node.attrs["branches"]) == 2 and maker is not None and maker.attrs.get("source") == np.dtype(bool)


def static_inputs(node: Node) -> list[tuple[str, Any]]:
    """Static arguments of a node that are inputs of TensorFlow's op, with the names of these constants."""
    rule = None if node.name == "dynamic" else _STATIC.get(type_of(node))
    return [] if rule is None else rule(node)


def _reduced(node: Node) -> list[tuple[str, Any]]:
    axes = node.attrs["axis"]
    is_whole = type(axes) is tuple and len(axes) == len(node.args[0].shape)
    return [("Const" if is_whole else "/reduction_indices", _sizes(axes))]


def _static(label: str, key: str) -> Callable[[Node], list[tuple[str, Any]]]:
    return lambda node: [(f"/{label}", _sizes(node.attrs[key]))] if key in node.attrs else []


def _split(node: Node) -> list[tuple[str, Any]]:
    return [("Const", _sizes(node.attrs["sizes"])), ("/split_dim", _sizes(node.attrs["axis"]))]


def _padded(node: Node) -> list[tuple[str, Any]]:
    pairs = tuple(zip(node.attrs["before"], node.attrs["after"], strict=True))
    known = not any(is_dimension(n) for pair in pairs for n in pair)
    return [("/paddings", np.asarray(pairs, np.int32).reshape(-1, 2))] if known else []


def _sliced(node: Node) -> list[tuple[str, Any]]:
    index = node.attrs["index"]
    begin: list[Any] = []
    end: list[Any] = []
    strides: list[Any] = []
    for entry in index if isinstance(index, tuple) else (index,):
        if isinstance(entry, slice):
            first, last, step = entry.start or 0, entry.stop or 0, entry.step or 1
        elif isinstance(entry, (int, np.integer)):
            first, last, step = entry, entry + 1, 1
        else:  # a new axis, or all axes in between
            first, last, step = 0, 0, 1
        for numbers, n in zip((begin, end, strides), (first, last, step), strict=True):
            numbers.append(-1 if is_dimension(n) else n)
    parts = zip(("/stack", "/stack_1", "/stack_2"), (begin, end, strides), strict=True)
    return [(label, np.asarray(numbers, np.int32)) for label, numbers in parts]


_STATIC: dict[str, Callable[[Node], list[tuple[str, Any]]]] = {
    **dict.fromkeys(("Sum", "Mean", "Prod", "Max", "Min", "Any", "All"), _reduced),
    **dict.fromkeys(("ArgMax", "ArgMin"), _static("dimension", "axis")),
    **dict.fromkeys(("ConcatV2", "ReverseV2", "GatherV2", "Cumsum", "Cumprod"), _static("axis", "axis")),
    **dict.fromkeys(("Reshape", "BroadcastTo"), _static("shape", "shape")),
    "Transpose": _static("perm", "perm"),
    "TopKV2": _static("k", "k"),
    "OneHot": _static("depth", "depth"),
    "SplitV": _split,
    "Pad": _padded,
    "StridedSlice": _sliced,
}
"""The rules of `static_inputs`, by TensorFlow's name of the op."""


def _sizes(value: Any) -> Any:
    """A static argument as a constant: an axis, axes, or a shape with -1 for unknown sizes."""
    if type(value) is tuple:
        return np.asarray([-1 if is_dimension(n) else n for n in value], np.int32)
    return np.asarray(-1 if is_dimension(value) else value, np.int32)


class Results(NamedTuple):
    """What a complete graph returns: the values of its results, and the variables that it assigns with new values."""

    values: Sequence[Any]
    assigned: Sequence[tuple[Any, Any]]


class Listing:
    """The operations of a graph in order, and the names of its values.

    While a graph is traced, operations are only added at the end, so names do not change.
    """

    def __init__(
        self,
        graph: Graph,
        feeds: Sequence[Feed],
        nodes: Sequence[Node],
        arguments: Sequence[str],
        results: Results | None,
        constants: dict[Any, Symbolic],
    ) -> None:
        self.operations: list[Listed] = []
        self.names: dict[int, str] = {}
        self.results: list[Symbolic] = []
        self._graph, self._constants = graph, constants
        self._counts: dict[str, int] = {}
        self._resources: dict[int, str] = {}  # the names of variables' handles, by uid
        given = iter(arguments)
        for feed in feeds:
            if feed.kind == "argument":
                self._add(next(given, "args_0"), "Placeholder", (), (feed.symbol,))
        self._feeds = {id(feed.symbol): feed for feed in feeds if feed.kind != "argument"}
        for node in nodes:
            self._add_node(node)
        for feed in list(self._feeds.values()):
            self._add_feed(feed, "")
        if results is not None:
            self._finish(results)

    @classmethod
    def of_program(cls, program: Any) -> Listing:
        """The operations of a branch or a loop body: all of its inputs are arguments."""
        feeds = [Feed("argument", None, feed.symbol) for feed in program.feeds]
        names = [f"args_{i}" for i in range(len(feeds))]
        return cls(program.graph, feeds, program.nodes, names, Results(program.outputs, ()), {})

    def _add(self, name: str, *rest: Any) -> Listed:
        listed = Listed(self._unique(name), *rest)
        self.operations.append(listed)
        for i, output in enumerate(listed.outputs):
            self.names[id(output)] = f"{listed.name}:{i}"
        return listed

    def _unique(self, name: str) -> str:
        """A name that is new, with a number if it is taken; as in TensorFlow, `X` and `x` are the same."""
        key = name.lower()
        if key not in self._counts:
            self._counts[key] = 0
            return name
        while True:
            self._counts[key] += 1
            found = f"{name}_{self._counts[key]}"
            if found.lower() not in self._counts:
                self._counts[found.lower()] = 0
                return found

    def _add_node(self, node: Node) -> None:
        kind = type_of(node)
        scope = self._peek(_NAMES.get(kind, kind))
        labels = _OPERANDS.get(kind, ("x", "y"))
        inputs = []
        for i, operand in enumerate(node.args):
            if type(operand) is not Symbolic:
                label = labels[i] if i < len(labels) else f"values_{i}"
                operand = self._constant(f"{scope}/{label}", node, label, operand)
            elif id(operand) in self._feeds:
                self._add_feed(self._feeds[id(operand)], f"{scope}/")
            inputs.append(self.names.get(id(operand), ""))
        for label, value in static_inputs(node):
            name = f"{scope}{label}" if label.startswith("/") else label
            inputs.append(self.names[id(self._constant(name, node, label, value))])
        self._add(_NAMES.get(kind, kind), kind, tuple(inputs), node.outputs, node)

    def _peek(self, name: str) -> str:
        """The name that the next operation of this name gets."""
        counts = dict(self._counts)
        found = self._unique(name)
        self._counts = counts
        return found

    def constant_of(self, node: Node, label: str, value: Any) -> Symbolic:
        """The value that stands for a constant operand of a node, the same each time."""
        key = (id(node.outputs[0]) if node.outputs else id(node), label)
        found = self._constants.get(key)
        if found is None:
            array = np.asarray(value)
            found = self._constants[key] = Symbolic(self._graph, array.shape, array.dtype)
        return found

    def _constant(self, name: str, node: Node, label: str, value: Any) -> Symbolic:
        symbol = self.constant_of(node, label, value)
        self._add(name, "Const", (), (symbol,), None, np.asarray(value))
        return symbol

    def _add_feed(self, feed: Feed, scope: str) -> None:
        """Add an input that is not an argument, where it is used first."""
        del self._feeds[id(feed.symbol)]
        if feed.kind == "variable":
            handle = self._handle(feed.value, f"{scope}ReadVariableOp")
            self._add(f"{scope}ReadVariableOp", "ReadVariableOp", (handle,), (feed.symbol,))
        elif feed.kind == "array":
            value = feed.value if isinstance(feed.value, np.ndarray) else None
            self._add("Const", "Const", (), (feed.symbol,), None, value)
        else:
            self._add("Placeholder", "Placeholder", (), (feed.symbol,))

    def _handle(self, variable: Any, scope: str) -> str:
        """The name of the input that is a variable's handle."""
        if variable.uid not in self._resources:
            listed = self._add(f"{scope}/resource", "Placeholder", (), ())
            self._resources[variable.uid] = f"{listed.name}:0"
        return self._resources[variable.uid]

    def _finish(self, results: Results) -> None:
        for variable, value in results.assigned:
            handle = self._handle(variable, "AssignVariableOp")
            self._add("AssignVariableOp", "AssignVariableOp", (handle, self._named(variable.uid, value)), ())
        for i, value in enumerate(results.values):
            key = ("result", i)
            value = value if type(value) is Symbolic else np.asarray(value)
            symbol = self._constants.get(key)
            if symbol is None:
                symbol = self._constants[key] = Symbolic(self._graph, tuple(value.shape), value.dtype)
            self._add("Identity", "Identity", (self._named(key, value),), (symbol,))
            self.results.append(symbol)
        if self._resources or any(node.attrs and node.attrs.get("effect") for node in self._graph.nodes):
            self._add("NoOp", "NoOp", (), ())

    def _named(self, key: Any, value: Any) -> str:
        """The name of a value, for which a constant is added if it is one."""
        if type(value) is not Symbolic:
            key = ("constant", key)
            if key not in self._constants:
                self._constants[key] = Symbolic(self._graph, tuple(value.shape), value.dtype)
            self._add("Const", "Const", (), (self._constants[key],), None, np.asarray(value))
            value = self._constants[key]
        return self.names.get(id(value), "")


def functions_in(operations: Sequence[Listed]) -> Iterator[tuple[Listed, str, Any]]:
    """The programs that operations run: the operation, TensorFlow's name of the attribute, and the program."""
    for operation in operations:
        if operation.node is not None:
            for label, program in _programs(operation.type, operation.node):
                yield operation, label, program


def _programs(kind: str, node: Node) -> list[tuple[str, Any]]:
    """The programs of a node with the names of TensorFlow's attributes."""
    attrs = node.attrs
    if kind.endswith("While"):
        found = [("cond", attrs.get("test")), ("body", attrs.get("body"))]
        return [(label, program) for label, program in found if program is not None]
    programs = programs_in(node)
    if kind.endswith("If"):  # the branch of number 0 is that of False
        return [("then_branch", programs[1]), ("else_branch", programs[0])]
    if kind == "PartitionedCall":
        return [("f", program) for program in programs]
    return [(f"branches_{i}", program) for i, program in enumerate(programs)]
