"""Export a model as Python code that needs only NumPy: the graph executor's program, including its kernels."""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import Node, Symbolic
from gradtape._src.cli.exported_model import ExportedModel, is_bfloat16
from gradtape._src.formats import atomic
from gradtape._src.graph.program import Program, _replaying

__all__ = ["source_of", "write"]


def write(model: ExportedModel, output: str) -> None:
    """Write the code, and the weights next to it."""
    stem = output.removesuffix(".py")
    weights: dict[str, Any] = dict(model.weights().values())
    weights = {name: np.asarray(v, np.float32) if is_bfloat16(v.dtype) else v for name, v in weights.items()}
    code = source_of(model, os.path.basename(stem) + ".npz")
    atomic.write(stem + ".npz", lambda file: np.savez(file, **weights))
    atomic.write(output, lambda file: file.write(code.encode()))


def source_of(model: ExportedModel, weights: str) -> str:
    """The source of the module."""
    writer = _Writer()
    names = {key: f"w[{name!r}]" for key, (name, _) in model.weights().items()}
    inputs = model.input_symbols()
    names |= {id(symbol): _identifier(name) for name, symbol in inputs.items()}
    lines = writer.body(model.program, names)
    results = [writer.value(out, names) for out in model.program.outputs[: len(model.outputs)]]
    given = [f"    {_identifier(n)} = np.asarray({_identifier(n)}, {_dtype(s.dtype)})" for n, s in inputs.items()]
    sizes = [f"    {n} = {_identifier(name)}.shape[{axis}]" for n, (name, axis) in _sizes(inputs).items()]
    described = "\n".join(f"    {name}: {spec.dtype.name} {spec.shape}" for name, spec in model.inputs.items())
    returned = ", ".join(f"{name!r}: {result}" for name, result in zip(model.outputs, results, strict=True))
    kernels = "\n\n\n".join(textwrap.dedent(_HELPERS[name]).strip() for name in writer.helpers())
    return _MODULE.format(
        name=model.name, weights=weights, kernels=f"{kernels}\n\n\n" if kernels else "",
        bodies="".join(f"{body}\n\n\n" for body in writer.bodies),
        arguments=", ".join(_identifier(n) for n in inputs), described=described,
        lines="\n".join([*given, *sizes, *lines]), returned=returned,
    )  # fmt: skip


_MODULE = '''\
"""The model {name}, written by gradtape. It needs only NumPy; the weights are in {weights}, next to this file."""

import math
import os

import numpy as np

with np.load(os.path.join(os.path.dirname(os.path.abspath(__file__)), {weights!r})) as file:
    w = dict(file)


{kernels}{bodies}def predict({arguments}):
    """The results of the model by name, as arrays.

{described}
    """
{lines}
    return {{{returned}}}
'''


def _identifier(name: str) -> str:
    found = re.sub(r"\W", "_", name)
    return f"x_{found}" if found[:1].isdigit() or re.fullmatch(r"[vwds]\d*|np|math|os", found) else found


def _sizes(inputs: dict[str, Symbolic]) -> dict[str, tuple[str, int]]:
    """The input and axis whose size each unknown dimension is."""
    found: dict[str, tuple[str, int]] = {}
    for name, symbol in inputs.items():
        for axis, n in enumerate(symbol.shape):
            if is_dimension(n):
                found.setdefault(str(n), (name, axis))
    return found


def _dtype(dtype: Any) -> str:
    """The name of a dtype; bfloat16, which NumPy lacks, is stored as float32."""
    name = "float32" if is_bfloat16(dtype) else np.dtype(dtype).name
    if name not in np.sctypeDict:
        raise NotImplementedError(f"NumPy does not have {name}")
    return f"np.{'bool_' if name == 'bool' else name}"


class _Writer:
    """Writes programs as statements."""

    def __init__(self) -> None:
        self.bodies: list[str] = []
        self._used: set[str] = set()
        self._count = 0

    def helpers(self) -> list[str]:
        """The kernels that the statements call, and those that these call."""
        wanted = set(self._used)
        while True:
            more = {h for h in _HELPERS for name in wanted if re.search(rf"\b{h}\(", _HELPERS[name])} | wanted
            if more == wanted:
                return [name for name in _HELPERS if name in wanted]
            wanted = more

    def body(self, program: Program, names: dict[int, str]) -> list[str]:
        """The statements of a program; `names` has values by the ids of their symbols."""
        lines = []
        for node in program.nodes:
            for out in node.outputs:
                names[id(out)] = f"v{self._count}"
                self._count += 1
            targets = ", ".join(names[id(out)] for out in node.outputs)
            lines.append(f"    {targets} = {self._call(node, names)}")
            halves = [names[id(out)] for out in node.outputs if is_bfloat16(out.dtype)]
            lines += [f"    {name} = {self._rounded(name)}" for name in halves]
        return lines

    def _rounded(self, name: str) -> str:
        self._used.add("bfloat16")
        return f"bfloat16({name})"

    def value(self, value: Any, names: dict[int, str]) -> str:
        """A value as an expression."""
        if type(value) is Symbolic:
            if id(value) not in names:
                raise NotImplementedError("a size depends on the values of inputs")
            return names[id(value)]
        found = np.asarray(value)
        if found.size <= 16:
            text = repr(found.tolist()).replace("inf", "np.inf").replace("nan", "np.nan")
            return f"np.array({text}, {_dtype(found.dtype)})"
        raise NotImplementedError("a constant within the program is too large")

    def _call(self, node: Node, names: dict[int, str]) -> str:
        if node.name == "scan":
            return self._scan(node, names)
        if node.name == "inline":
            return self._inlined(node, names)
        arguments = [self.value(a, names) for a in node.args]
        kernel = getattr(_replaying, node.name, None)
        if isinstance(kernel, np.ufunc):
            return f"np.{kernel.__name__}({', '.join(arguments)})"
        attrs = {key: value for key, value in node.attrs.items() if not callable(value)}
        if node.name in _EXPRESSIONS:
            found: str = _EXPRESSIONS[node.name](arguments, attrs, node)
            self._used |= {name for name in _HELPERS if re.search(rf"\b{name}\(", found)}
            return found
        raise NotImplementedError(f"there is no NumPy code for the op {node.name!r}")

    def _function(self, program: Program, name: str) -> None:
        """A program as a function of its feeds."""
        names = {id(feed.symbol): f"a{i}" for i, feed in enumerate(program.feeds)}
        given = ", ".join(names.values())
        lines = self.body(program, names)
        results = "".join(f"{self.value(out, names)}, " for out in program.outputs)
        self.bodies.append("\n".join([f"def {name}({given}):", *lines, f"    return ({results})"]))

    def _inlined(self, node: Node, names: dict[int, str]) -> str:
        name = f"part_{len(self.bodies)}_{self._count}"
        self._function(node.attrs["program"], name)
        return f"{name}({', '.join(self.value(a, names) for a in node.args)})"

    def _scan(self, node: Node, names: dict[int, str]) -> str:
        """A loop over rows: the function of one step takes its feeds by name."""
        body, carried, scanned = node.attrs["body"], node.attrs["carried"], node.attrs["scanned"]
        name = f"step_{self._count}"
        self._function(body, name)
        values = [self.value(a, names) for a in node.args]
        explicit = [body.explicit_number(feed) for feed in body.feeds]
        order = [f"g[{n}]" if n is not None else "next(o)" for n in explicit]
        self._used.add("scan")
        step = f"lambda g, o: {name}({', '.join(order)})"
        parts = [values[:carried], values[carried : carried + scanned], values[carried + scanned :]]
        lists = [f"[{', '.join(part)}]" for part in parts]
        length, reverse = _text(node.attrs["length"]), node.attrs["reverse"]
        call = f"scan({step}, {', '.join(lists)}, {length}, {reverse})"
        return call if len(node.outputs) > 1 else f"{call}[0]"


def _text(value: Any) -> str:
    """A static argument as an expression, in which sizes may be names of dimensions."""
    if isinstance(value, (tuple, list)):
        return f"({''.join(f'{_text(v)}, ' for v in value)})"
    if isinstance(value, slice):
        return f"slice({_text(value.start)}, {_text(value.stop)}, {_text(value.step)})"
    if is_dimension(value):
        return str(value).replace("floordiv(", "_floordiv(").replace("mod(", "_mod(")
    if isinstance(value, np.dtype):
        return _dtype(value)
    if isinstance(value, (np.integer, np.floating)):
        return repr(value.item())
    return repr(value)


Expression = Callable[[Sequence[str], dict[str, Any], Node], str]


def _plain(form: str) -> Expression:
    """An expression: `{0}`, `{1}` are arguments, `{name}` static ones."""
    return lambda a, k, node: form.format(*a, **{key: _text(value) for key, value in k.items()})


def _matmul(a: Sequence[str], k: dict[str, Any], node: Node) -> str:
    x, y = (f"np.conj(np.swapaxes({v}, -1, -2))" if k.get(f"adjoint_{n}") else v for n, v in zip("xy", a, strict=True))
    return f"np.matmul({x}, {y})"


def _cast(a: Sequence[str], k: dict[str, Any], node: Node) -> str:
    return f"np.asarray({a[0]}).astype({_dtype(node.outputs[0].dtype)})"


_EXPRESSIONS: dict[str, Expression] = {
    "matmul": _matmul, "astype": _cast, "discrete_cast": _cast,
    "identity": _plain("{0}"), "stop_gradient": _plain("{0}"), "guarantee_const": _plain("{0}"),
    "relu": _plain("np.maximum({0}, 0)"), "relu6": _plain("np.clip({0}, 0, 6)"), "sigmoid": _plain("sigmoid({0})"),
    "silu": _plain("{0} * sigmoid({0})"), "softplus": _plain("np.logaddexp({0}, 0).astype({0}.dtype)"),
    "softsign": _plain("{0} / (1 + np.abs({0}))"),
    "elu": _plain("np.where({0} > 0, {0}, np.expm1(np.minimum({0}, 0)))"),
    "selu": _plain("selu({0})"), "leaky_relu": _plain("np.where({0} > 0, {0}, {0} * np.asarray({alpha}, {0}.dtype))"),
    "gelu": _plain("{0} * 0.5 * (1 + erf({0} * 0.7071067811865476))"),
    "gelu_tanh": _plain("gelu_tanh({0})"), "erf": _plain("erf({0})"), "erfc": _plain("1 - erf({0})"),
    "softmax": _plain("softmax({0}, {axis})"), "log_softmax": _plain("log_softmax({0}, {axis})"),
    "rsqrt": _plain("1 / np.sqrt({0})"), "reciprocal": _plain("1 / {0}"), "sign": _plain("np.sign({0})"),
    "power": _plain("np.power({0}, {1})"), "floor_divide": _plain("np.floor_divide({0}, {1})"),
    "squared_difference": _plain("np.square({0} - {1})"),
    "mean": _plain("np.mean({0}, axis={axis}, keepdims={keepdims}, dtype={0}.dtype)"),
    "sum": _plain("np.sum({0}, axis={axis}, keepdims={keepdims}, dtype={0}.dtype)"),
    "prod": _plain("np.prod({0}, axis={axis}, keepdims={keepdims}, dtype={0}.dtype)"),
    "max": _plain("np.max({0}, axis={axis}, keepdims={keepdims})"),
    "min": _plain("np.min({0}, axis={axis}, keepdims={keepdims})"),
    "all": _plain("np.all({0}, axis={axis}, keepdims={keepdims})"),
    "any": _plain("np.any({0}, axis={axis}, keepdims={keepdims})"),
    "variance": _plain("np.var({0}, axis={axis}, keepdims={keepdims}, dtype={0}.dtype)"),
    "argmax": lambda a, k, node: f"np.argmax({a[0]}, axis={_text(k['axis'])}).astype({_dtype(node.outputs[0].dtype)})",
    "argmin": lambda a, k, node: f"np.argmin({a[0]}, axis={_text(k['axis'])}).astype({_dtype(node.outputs[0].dtype)})",
    "cumsum": _plain("np.cumsum({0}, axis={axis})"),
    "einsum": lambda a, k, node: f"np.einsum({k['equation']!r}, {', '.join(a)}, optimize=True)",
    "reshape": _plain("np.reshape({0}, {shape})"), "transpose": _plain("np.transpose({0}, {perm})"),
    "broadcast_to": _plain("np.broadcast_to({0}, {shape})"), "flip": _plain("np.flip({0}, {axis})"),
    "concatenate": lambda a, k, node: f"np.concatenate([{', '.join(a)}], axis={_text(k['axis'])})",
    "stack": lambda a, k, node: f"np.stack([{', '.join(a)}], axis={_text(k['axis'])})",
    "getitem": lambda a, k, node: f"{a[0]}[{_text(tuple(k['index']))}]",
    "split": lambda a, k, node: (
        f"np.split({a[0]}, {np.cumsum(k['sizes'])[:-1].tolist()}, axis={_text(k['axis'])})"
        + ("" if len(node.outputs) > 1 else "[0]")
    ),
    "unstack": lambda a, k, node: (
        f"list(np.moveaxis({a[0]}, {_text(k['axis'])}, 0))" + ("" if len(node.outputs) > 1 else "[0]")
    ),
    "take": lambda a, k, node: f"take({a[0]}, {a[1]}, {_text(k['axis'])}, {_text(k.get('batch_dims', 0))})",
    "where": _plain("np.where({0}, {1}, {2})"), "one_hot": _plain("np.eye({depth}, dtype={dtype})[{0}]"),
    "pad": lambda a, k, node: f"np.pad({a[0]}, {_text(k.get('padding', k.get('paddings', k.get('widths'))))})",
    "conv": _plain("conv({0}, {1}, {strides}, {dilations}, {padding}, {groups})"),
    "max_pool": _plain("pool({0}, {window}, {strides}, {dilations}, {padding}, np.max, -np.inf)"),
    "avg_pool": _plain("average_pool({0}, {window}, {strides}, {dilations}, {padding})"),
    "arange": _plain("({first} + {step} * np.arange({count})).astype({dtype})"),
    "extents": _plain("np.array({values}, {dtype}).reshape({shape})"),
}  # fmt: skip

_HELPERS = {
    "bfloat16": """
        def bfloat16(x):
            bits = np.asarray(x, np.float32).view(np.uint32)
            rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) & np.uint32(0xFFFF0000)
            return np.where(np.isnan(x), np.float32("nan"), rounded.view(np.float32))
    """,
    "_floordiv": """
        def _floordiv(a, b):
            return a // b
    """,
    "_mod": """
        def _mod(a, b):
            return a % b
    """,
    "erf": """
        def erf(x):
            return np.vectorize(math.erf, otypes=[float])(x).astype(x.dtype) if np.size(x) else x
    """,
    "sigmoid": """
        def sigmoid(x):
            e = np.exp(-np.abs(x))
            return (np.where(x >= 0, 1, e) / (1 + e)).astype(x.dtype)
    """,
    "selu": """
        def selu(x):
            negative = 1.6732632423543772 * np.expm1(np.minimum(x, 0))
            return (1.0507009873554805 * np.where(x > 0, x, negative)).astype(x.dtype)
    """,
    "gelu_tanh": """
        def gelu_tanh(x):
            return (0.5 * x * (1 + np.tanh(0.7978845608028654 * (x + 0.044715 * x**3)))).astype(x.dtype)
    """,
    "softmax": """
        def softmax(x, axis):
            e = np.exp(x - np.max(x, axis=axis, keepdims=True))
            return e / np.sum(e, axis=axis, keepdims=True)
    """,
    "log_softmax": """
        def log_softmax(x, axis):
            x = x - np.max(x, axis=axis, keepdims=True)
            return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))
    """,
    "take": """
        def take(x, indices, axis, batch_dims):
            if not batch_dims:
                return np.take(x, indices, axis=axis)
            rows = [take(a, b, axis - 1, batch_dims - 1) for a, b in zip(x, indices)]
            return np.stack(rows)
    """,
    "windows": """
        def windows(x, window, strides, dilations, padding, value):
            if any(a or b for a, b in padding):
                x = np.pad(x, ((0, 0), *padding, (0, 0)), constant_values=value)
            span = [(k - 1) * d + 1 for k, d in zip(window, dilations)]
            axes = tuple(range(1, len(window) + 1))
            found = np.lib.stride_tricks.sliding_window_view(x, span, axes)
            places = (slice(None), *(slice(None, None, s) for s in strides), slice(None))
            return found[(*places, *(slice(None, None, d) for d in dilations))]
    """,
    "conv": """
        def conv(x, kernel, strides, dilations, padding, groups):
            # [batch, places..., channels, window...] times [window..., channels, filters]
            rank = len(strides)
            found = windows(x, kernel.shape[:rank], strides, dilations, padding, 0)
            inside, filters = kernel.shape[-2], kernel.shape[-1] // groups
            found = np.moveaxis(found, rank + 1, -1)
            places = found.shape[: rank + 1]
            parts = []
            for g in range(groups):
                rows = found[..., g * inside : (g + 1) * inside].reshape(int(np.prod(places)), -1)
                parts.append(rows @ kernel[..., g * filters : (g + 1) * filters].reshape(-1, filters))
            return np.concatenate(parts, axis=-1).reshape(*places, -1)
    """,
    "pool": """
        def pool(x, window, strides, dilations, padding, reduce, value):
            found = windows(x, window, strides, dilations, padding, value)
            return reduce(found, axis=tuple(range(-len(window), 0)))
    """,
    "average_pool": """
        def average_pool(x, window, strides, dilations, padding):
            total = pool(x, window, strides, dilations, padding, np.sum, 0)
            count = pool(np.ones_like(x[:1, ..., :1]), window, strides, dilations, padding, np.sum, 0)
            return total / count
    """,
    "scan": """
        def scan(step, carry, rows, others, length, reverse):
            stacked = [None] * length
            for i in range(length):
                place = length - 1 - i if reverse else i
                found = step([np.int32(i), *carry, *[row[place] for row in rows]], iter(others))
                count = len(carry)
                carry, stacked[place] = list(found[:count]), found[count:]
            return (*carry, *[np.stack(part) for part in zip(*stacked)])
    """,
}
"""The source of kernels, by name."""
