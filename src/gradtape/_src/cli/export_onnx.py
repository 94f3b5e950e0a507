"""Export a model to ONNX: one or several nodes for each op of its program. Needs the package `onnx`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.cli.exported_model import ExportedModel, is_bfloat16
from gradtape._src.formats import atomic
from gradtape._src.graph.program import Program

__all__ = ["write"]

_OPSET = 18
_SAME = {
    "absolute": "Abs", "add": "Add", "arccos": "Acos", "arccosh": "Acosh", "arcsin": "Asin", "arcsinh": "Asinh",
    "arctan": "Atan", "arctanh": "Atanh", "ceil": "Ceil", "cos": "Cos", "cosh": "Cosh", "divide": "Div", "elu": "Elu",
    "equal": "Equal", "erf": "Erf", "exp": "Exp", "floor": "Floor", "greater": "Greater",
    "greater_equal": "GreaterOrEqual", "guarantee_const": "Identity", "identity": "Identity", "isinf": "IsInf",
    "isnan": "IsNaN", "less": "Less", "less_equal": "LessOrEqual", "log": "Log", "logical_and": "And",
    "logical_not": "Not", "logical_or": "Or", "logical_xor": "Xor", "maximum": "Max", "minimum": "Min",
    "multiply": "Mul", "negative": "Neg", "power": "Pow", "reciprocal": "Reciprocal", "relu": "Relu", "rint": "Round",
    "selu": "Selu", "sigmoid": "Sigmoid", "sign": "Sign", "sin": "Sin", "sinh": "Sinh", "softplus": "Softplus",
    "softsign": "Softsign", "sqrt": "Sqrt", "stop_gradient": "Identity", "subtract": "Sub", "tan": "Tan",
    "tanh": "Tanh", "where": "Where",
}  # fmt: skip
"""Ops that correspond to one ONNX node with the same arguments."""

_REDUCTIONS = {"max": "ReduceMax", "mean": "ReduceMean", "min": "ReduceMin", "prod": "ReduceProd", "sum": "ReduceSum"}


def write(model: ExportedModel, output: str) -> None:
    """Write the file, after validation by the package."""
    try:
        import onnx  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        raise ImportError("the package onnx is not installed: pip install 'gradtape[onnx]'") from None
    made = _Graph(onnx, model).model()
    onnx.checker.check_model(made, full_check=True)
    data = made.SerializeToString()
    atomic.write(output, lambda file: file.write(data))


class _Graph:
    """Collects the nodes of a graph."""

    def __init__(self, onnx: Any, model: ExportedModel) -> None:
        self.onnx, self._model = onnx, model
        self.helper = onnx.helper
        self.names: dict[int, str] = {}
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.sizes: dict[str, tuple[str, int]] = {}
        self._count = 0

    def model(self) -> Any:
        """The ModelProto."""
        model = self._model
        inputs = []
        for name, symbol in model.input_symbols().items():
            self.names[id(symbol)] = name
            inputs.append(self.helper.make_tensor_value_info(name, self.kind(symbol.dtype), _shape(symbol.shape)))
            for axis, n in enumerate(symbol.shape):
                if is_dimension(n):
                    self.sizes.setdefault(str(n), (name, axis))
        for key, (name, value) in model.weights().items():
            self.names[key] = name
            stored = np.asarray(value, np.float32) if is_bfloat16(value.dtype) else value
            self.initializers.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(stored), name))
        self.add_program(model.program)
        outputs = []
        for name, out in zip(model.outputs, model.program.outputs, strict=False):
            self.node("Identity", [self.value(out)], [name])
            outputs.append(self.helper.make_tensor_value_info(name, self.kind(out.dtype), _shape(out.shape)))
        graph = self.helper.make_graph(self.nodes, model.name, inputs, outputs, self.initializers)
        opset = [self.helper.make_opsetid("", _OPSET)]
        return self.helper.make_model(graph, opset_imports=opset, ir_version=9, producer_name="gradtape")

    def kind(self, dtype: Any) -> int:
        """ONNX's number of a dtype; bfloat16, which few runtimes support, is computed in float32."""
        return int(self.helper.np_dtype_to_tensor_dtype(np.dtype(np.float32 if is_bfloat16(dtype) else dtype)))

    def add_program(self, program: Program) -> None:
        """Add the nodes of a program whose feeds have names."""
        for node in program.nodes:
            self._add(node)

    def _add(self, node: Node) -> None:
        if node.name in _SAME:
            found = [self.node(_SAME[node.name], [self.value(a, node.outputs[0].dtype) for a in node.args])]
        elif node.name in _REDUCTIONS:
            found = [self._reduction(node)]
        elif node.name in _RULES:
            result = _RULES[node.name](self, node)
            found = [result] if isinstance(result, str) else list(result)
        else:
            raise NotImplementedError(f"there is no ONNX node for the op {node.name!r}")
        for out, name in zip(node.outputs, found, strict=True):
            self.names[id(out)] = self._rounded(name) if is_bfloat16(out.dtype) else name

    def _rounded(self, name: str) -> str:
        """A float32 value, rounded to bfloat16."""
        kinds = self.onnx.TensorProto
        return self.node("Cast", [self.node("Cast", [name], to=kinds.BFLOAT16)], to=kinds.FLOAT)

    def node(self, op: str, inputs: Sequence[str], outputs: Sequence[str] | None = None, **attrs: Any) -> str:
        """Add a node; return the name of its first output."""
        names = list(outputs) if outputs is not None else [self.name(op)]
        self.nodes.append(self.helper.make_node(op, list(inputs), names, **attrs))
        return names[0]

    def name(self, stem: str) -> str:
        """A new name."""
        self._count += 1
        return f"{stem.lower()}_{self._count}"

    def value(self, value: Any, dtype: Any = None) -> str:
        """The name of a value; a constant is added."""
        if type(value) is Symbolic:
            if id(value) not in self.names:
                raise NotImplementedError("a size depends on the values of inputs")
            return self.names[id(value)]
        found = np.asarray(value)
        return self.constant(
            found if dtype is None or found.dtype.kind == "b" or np.shape(value) else found.astype(dtype)
        )

    def constant(self, value: Any) -> str:
        """The name of a constant."""
        name = self.name("constant")
        value = np.asarray(value, np.float32) if is_bfloat16(np.asarray(value).dtype) else value
        self.initializers.append(
            self.onnx.numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)
        )
        return name

    def integers(self, sizes: Sequence[Any]) -> str:
        """A vector of sizes, some of which may be unknown dimensions."""
        if not any(map(is_dimension, sizes)):
            return self.constant(np.array(sizes, np.int64))
        parts = [self._size(n) if is_dimension(n) else self.constant(np.array([n], np.int64)) for n in sizes]
        return self.node("Concat", parts, axis=0) if len(parts) > 1 else parts[0]

    def _size(self, dimension: Any) -> str:
        text = str(dimension)
        if text in self.sizes:
            source, axis = self.sizes[text]
            shape = self.node("Shape", [source])
            return self.node("Gather", [shape, self.constant(np.array([axis], np.int64))], axis=0)
        raise NotImplementedError(f"the size {text} is computed from those of inputs")

    def _reduction(self, node: Node) -> str:
        axes = self.constant(np.array(node.attrs["axis"], np.int64))
        given = [self.value(node.args[0]), axes]
        return self.node(_REDUCTIONS[node.name], given, keepdims=int(bool(node.attrs["keepdims"])))


def _shape(shape: Sequence[Any]) -> list[Any]:
    return [str(n) if is_dimension(n) else int(n) for n in shape]


# -- rules -----------------------------------------------------------------------------------------------------------
Rule = Callable[[_Graph, Node], Any]


def _matmul(graph: _Graph, node: Node) -> str:
    names = []
    for key, value in zip(("adjoint_x", "adjoint_y"), node.args, strict=True):
        name, rank = graph.value(value), len(value.shape)
        if node.attrs.get(key):
            name = graph.node("Transpose", [name], perm=[*range(rank - 2), rank - 1, rank - 2])
        names.append(name)
    return graph.node("MatMul", names)


def _channels_first(graph: _Graph, name: str, rank: int) -> str:
    return graph.node("Transpose", [name], perm=[0, rank - 1, *range(1, rank - 1)])


def _channels_last(graph: _Graph, name: str, rank: int) -> str:
    return graph.node("Transpose", [name], perm=[0, *range(2, rank), 1])


def _pads(padding: Any) -> list[int]:
    return [*(int(a) for a, _ in padding), *(int(b) for _, b in padding)]


def _conv(graph: _Graph, node: Node) -> str:
    x, kernel = node.args
    rank, k = len(x.shape), node.attrs
    weights = graph.node("Transpose", [graph.value(kernel)], perm=[rank - 1, rank - 2, *range(rank - 2)])
    found = graph.node(
        "Conv", [_channels_first(graph, graph.value(x), rank), weights], strides=list(k["strides"]),
        dilations=list(k["dilations"]), pads=_pads(k["padding"]), group=int(k["groups"]),
    )  # fmt: skip
    return _channels_last(graph, found, rank)


def _pool(op: str, **attrs: Any) -> Rule:
    def rule(graph: _Graph, node: Node) -> str:
        rank, k = len(node.args[0].shape), node.attrs
        found = graph.node(
            op, [_channels_first(graph, graph.value(node.args[0]), rank)], kernel_shape=list(k["window"]),
            strides=list(k["strides"]), pads=_pads(k["padding"]), **attrs,
        )  # fmt: skip
        return _channels_last(graph, found, rank)

    return rule


def _gelu(graph: _Graph, node: Node) -> str:
    x, dtype = graph.value(node.args[0]), node.outputs[0].dtype
    inner = graph.node("Erf", [graph.node("Mul", [x, graph.constant(np.asarray(0.5**0.5, dtype))])])
    half = graph.node("Mul", [x, graph.constant(np.asarray(0.5, dtype))])
    return graph.node("Mul", [half, graph.node("Add", [inner, graph.constant(np.asarray(1, dtype))])])


def _gelu_tanh(graph: _Graph, node: Node) -> str:
    x, dtype = graph.value(node.args[0]), node.outputs[0].dtype

    def number(value: float) -> str:
        return graph.constant(np.asarray(value, dtype))

    cube = graph.node("Mul", [graph.node("Mul", [x, graph.node("Mul", [x, x])]), number(0.044715)])
    inner = graph.node("Tanh", [graph.node("Mul", [graph.node("Add", [x, cube]), number((2 / np.pi) ** 0.5)])])
    return graph.node("Mul", [graph.node("Mul", [x, number(0.5)]), graph.node("Add", [inner, number(1)])])


def _variance(graph: _Graph, node: Node) -> str:
    x, axes = graph.value(node.args[0]), graph.constant(np.array(node.attrs["axis"], np.int64))
    centred = graph.node("Sub", [x, graph.node("ReduceMean", [x, axes], keepdims=1)])
    return graph.node("ReduceMean", [graph.node("Mul", [centred, centred]), axes], keepdims=int(node.attrs["keepdims"]))


def _getitem(graph: _Graph, node: Node) -> str:
    """Slices by numbers, followed by positions and new axes."""
    name, shape = graph.value(node.args[0]), node.args[0].shape
    starts: list[Any] = []
    ends: list[Any] = []
    axes: list[int] = []
    steps: list[int] = []
    drop: list[int] = []
    new: list[int] = []
    axis = 0
    for place, part in enumerate(node.attrs["index"]):
        if part is None:
            new.append(place - len(drop))
            continue
        if isinstance(part, slice):
            if part != slice(None):
                step = part.step or 1
                starts.append(part.start if part.start is not None else (0 if step > 0 else 2**31))
                ends.append(part.stop if part.stop is not None else (2**31 if step > 0 else -(2**31)))
                axes.append(axis)
                steps.append(step)
        else:
            drop.append(axis)
            starts.append(part)
            ends.append(part + 1 if part != -1 else 2**31)
            axes.append(axis)
            steps.append(1)
        axis += 1
    if any(is_dimension(n) for n in (*starts, *ends)) or axis > len(shape):
        raise NotImplementedError("an index depends on the sizes of inputs")
    if axes:
        name = graph.node(
            "Slice", [name, *(graph.constant(np.array(v, np.int64)) for v in (starts, ends, axes, steps))]
        )
    if drop:
        name = graph.node("Squeeze", [name, graph.constant(np.array(drop, np.int64))])
    return graph.node("Unsqueeze", [name, graph.constant(np.array(new, np.int64))]) if new else name


def _reshape(graph: _Graph, node: Node) -> str:
    """A reshape; one unknown size is inferred."""
    sizes = list(node.attrs["shape"])
    unknown = [i for i, n in enumerate(sizes) if is_dimension(n)]
    if len(unknown) == 1:
        sizes[unknown[0]] = -1
    return graph.node("Reshape", [graph.value(node.args[0]), graph.integers(sizes)])


def _take(graph: _Graph, node: Node) -> str:
    if node.attrs.get("batch_dims"):
        raise NotImplementedError("there is no ONNX node for lookups in batches")
    return graph.node("Gather", [graph.value(node.args[0]), graph.value(node.args[1])], axis=int(node.attrs["axis"]))


def _split(graph: _Graph, node: Node) -> list[str]:
    names = [graph.name("split") for _ in node.outputs]
    sizes = graph.constant(np.array([out.shape[node.attrs["axis"]] for out in node.outputs], np.int64))
    graph.node("Split", [graph.value(node.args[0]), sizes], names, axis=int(node.attrs["axis"]))
    return names


def _unstack(graph: _Graph, node: Node) -> list[str]:
    axis, found = int(node.attrs["axis"]), []
    for i in range(len(node.outputs)):
        index = graph.constant(np.array(i, np.int64))
        found.append(graph.node("Gather", [graph.value(node.args[0]), index], axis=axis))
    return found


def _inline(graph: _Graph, node: Node) -> list[str]:
    program = node.attrs["program"]
    for feed, value in zip(program.feeds, node.args, strict=True):
        graph.names[id(feed.symbol)] = graph.value(value)
    graph.add_program(program)
    return [graph.value(out) for out in program.outputs]


def _scan(graph: _Graph, node: Node) -> list[str]:
    """A loop over rows, as ONNX's Scan: its body is a graph that may use outer values by name."""
    body, k = node.attrs["body"], node.attrs
    carried, scanned = k["carried"], k["scanned"]
    values = [graph.value(a) for a in node.args]
    outer, graph.nodes = graph.nodes, []
    others = iter(values[carried + scanned :])
    given: dict[int, str] = {}
    for feed in body.feeds:
        number = body.explicit_number(feed)
        graph.names[id(feed.symbol)] = next(others) if number is None else given.setdefault(number, graph.name("row"))
    if 0 in given:
        raise NotImplementedError("a loop counts its iterations")
    symbols = body.arguments()
    names = [given.get(i + 1) or graph.name("row") for i in range(carried + scanned)]
    inputs = [graph.helper.make_tensor_value_info(n, graph.kind(symbols[i + 1].dtype), _shape(symbols[i + 1].shape))
              for i, n in enumerate(names)]  # fmt: skip
    graph.add_program(body)
    results = [graph.node("Identity", [graph.value(out)]) for out in body.outputs]
    outputs = [graph.helper.make_tensor_value_info(name, graph.kind(out.dtype), _shape(out.shape))
               for name, out in zip(results, body.outputs, strict=True)]  # fmt: skip
    inner, graph.nodes = graph.helper.make_graph(graph.nodes, graph.name("step"), inputs, outputs), outer
    found = [graph.name("scan") for _ in node.outputs]
    ways = [int(bool(k["reverse"]))]
    graph.node("Scan", values[: carried + scanned], found, body=inner, num_scan_inputs=scanned,
               scan_input_directions=ways * scanned, scan_output_directions=ways * (len(found) - carried))  # fmt: skip
    return found


def _flip(graph: _Graph, node: Node) -> str:
    axes = [int(a) for a in node.attrs["axis"]]
    parts = [[-1] * len(axes), [-(2**31)] * len(axes), axes, [-1] * len(axes)]
    return graph.node("Slice", [graph.value(node.args[0]), *(graph.constant(np.array(p, np.int64)) for p in parts)])


def _joined(op: str) -> Rule:
    return lambda graph, node: graph.node(op, [graph.value(a) for a in node.args], axis=int(node.attrs["axis"]))


def _einsum(graph: _Graph, node: Node) -> str:
    return graph.node("Einsum", [graph.value(a) for a in node.args], equation=node.attrs["equation"])


def _composed(*ops: str) -> Rule:
    """A composition of nodes with one argument."""

    def rule(graph: _Graph, node: Node) -> str:
        name = graph.value(node.args[0])
        for op in ops:
            name = graph.node(op, [name])
        return name

    return rule


def _cast(graph: _Graph, node: Node) -> str:
    return graph.node("Cast", [graph.value(node.args[0])], to=graph.kind(node.outputs[0].dtype))


def _argmax(graph: _Graph, node: Node) -> str:
    found = graph.node("ArgMax", [graph.value(node.args[0])], axis=int(node.attrs["axis"]), keepdims=0)
    return graph.node("Cast", [found], to=graph.kind(node.outputs[0].dtype))


def _number(graph: _Graph, node: Node, value: float) -> str:
    """A number with the dtype of a result."""
    return graph.constant(np.asarray(value, node.outputs[0].dtype))


_RULES: dict[str, Rule] = {
    "matmul": _matmul, "conv": _conv, "max_pool": _pool("MaxPool"), "avg_pool": _pool("AveragePool"),
    "gelu": _gelu, "gelu_tanh": _gelu_tanh, "variance": _variance, "getitem": _getitem, "reshape": _reshape,
    "take": _take, "split": _split, "unstack": _unstack, "inline": _inline, "scan": _scan, "flip": _flip,
    "concatenate": _joined("Concat"), "einsum": _einsum, "astype": _cast, "discrete_cast": _cast,
    "rsqrt": _composed("Sqrt", "Reciprocal"),
    "square": lambda g, n: g.node("Mul", [g.value(n.args[0])] * 2),
    "silu": lambda g, n: g.node("Mul", [g.value(n.args[0]), g.node("Sigmoid", [g.value(n.args[0])])]),
    "relu6": lambda g, n: g.node("Clip", [g.value(n.args[0]), _number(g, n, 0), _number(g, n, 6)]),
    "erfc": lambda g, n: g.node("Sub", [_number(g, n, 1), g.node("Erf", [g.value(n.args[0])])]),
    "leaky_relu": lambda g, n: g.node("LeakyRelu", [g.value(n.args[0])], alpha=float(n.attrs["alpha"])),
    "softmax": lambda g, n: g.node("Softmax", [g.value(n.args[0])], axis=int(n.attrs["axis"])),
    "log_softmax": lambda g, n: g.node("LogSoftmax", [g.value(n.args[0])], axis=int(n.attrs["axis"])),
    "transpose": lambda g, n: g.node("Transpose", [g.value(n.args[0])], perm=[int(p) for p in n.attrs["perm"]]),
    "broadcast_to": lambda g, n: g.node("Expand", [g.value(n.args[0]), g.integers(n.attrs["shape"])]),
    "argmax": _argmax,
    "cumsum": lambda g, n: g.node("CumSum", [g.value(n.args[0]), g.constant(np.array(n.attrs["axis"], np.int64))]),
    "not_equal": lambda g, n: g.node("Not", [g.node("Equal", [g.value(a) for a in n.args])]),
    "squared_difference": lambda g, n: g.node("Pow", [g.node("Sub", [g.value(a) for a in n.args]),
                                                      _number(g, n, 2)]),
}  # fmt: skip
