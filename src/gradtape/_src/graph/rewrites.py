"""Recognises attention that is written out while a function is traced.

Tutorials and papers write attention as two products with a softmax between them. A GPU has one operation for the three,
which never writes the weights of all pairs of positions. When the second product is traced, what its first operand was
made of is already in the graph: if that is a softmax of a product, scaled and perhaps causal, the primitive `attention`
is traced in its place. Ops that only the weights needed are then unused, and not in the program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.symbolic import Graph, Node, Symbolic, current_graph
from gradtape._src.core.primitive import Op
from gradtape._src.core.tape import active_recorders
from gradtape._src.devices import jax_devices
from gradtape._src.ops import array
from gradtape._src.ops.attention import attention
from gradtape._src.tensor import Tensor

FAR = -1e9
"""A score so low, or lower, that nothing is left of it in a softmax."""


def instead(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Tensor | None:
    """What to run in the place of an op in a trace: attention for its last product, else nothing."""
    if op.name not in ("einsum", "matmul") or len(inputs) != 2:
        return None
    shares, values = inputs
    graph, dtype = current_graph(), shares.array.dtype
    if graph is None or type(shares.array) is not Symbolic or dtype.itemsize != 2 or not is_worthwhile():
        return None
    found = _scores(graph, shares.array)
    if found is None or found.dtype != dtype or values.array.dtype != dtype:
        return None
    queries, keys = _operands(graph, found.product)
    if queries is None or keys is None:
        return None
    axes = _axes(found, op.name, attrs, len(shares.array.shape))
    if axes is None:
        return None
    *perms, back = axes
    given = (queries, keys, values)
    fronts = [
        tuple(x.array.shape[i] for i in perm[:-2]) if len(x.array.shape) == len(perm) else None
        for x, perm in zip(given, perms, strict=True)
    ]
    if None in fronts or len({*fronts}) != 1:  # one of them is broadcast
        return None
    operands = [_transposed(x, perm) for x, perm in zip(given, perms, strict=True)]
    out: Tensor = attention(*operands, scale=found.scale, causal=found.causal)[0]
    return _transposed(out, back)


def is_worthwhile() -> bool:
    """Whether there is a GPU."""
    return bool(jax_devices("GPU"))


class _Found(NamedTuple):
    product: Node
    scale: float
    causal: bool
    dtype: Any


def _scores(graph: Graph, shares: Symbolic) -> _Found | None:
    """The product that a softmax is of, and what happened to it on the way there."""
    node = _made(graph, shares)
    if node is not None and node.name == "astype":
        node = _made(graph, node.args[0])
    if node is None or node.name != "softmax" or node.attrs["axis"] != len(shares.shape) - 1:
        return None
    node = _made(graph, node.args[0])
    causal, scale = False, 1.0
    if node is not None and node.name == "where":
        allowed, scores, fill = node.args
        if not _is_causal(graph, allowed, scores) or (far := _number(fill)) is None or far > FAR:
            return None
        causal, node = True, _made(graph, scores)
    while node is not None and node.name in ("astype", "multiply", "divide"):
        scores = node.args[0]
        if node.name != "astype":
            if (number := _number(node.args[1])) is None:
                number, scores = _number(node.args[0]), node.args[1]
                if number is None or node.name == "divide":
                    return None
            scale = scale * number if node.name == "multiply" else scale / number
        node = _made(graph, scores)
    if node is None or node.name not in ("einsum", "matmul") or len(node.args) != 2:
        return None
    return _Found(node, scale, causal, node.outputs[0].dtype)


def _made(graph: Graph, value: Any) -> Node | None:
    """The node that a value comes from, if that was not long ago."""
    return next((node for node in reversed(graph.nodes[-64:]) if any(out is value for out in node.outputs)), None)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, (int, float, np.generic, np.ndarray)) and np.size(value) == 1 else None


def _is_causal(graph: Graph, allowed: Any, scores: Any) -> bool:
    """Whether a condition is known, and says that no position sees one that comes after it."""
    if type(allowed) is Symbolic:
        allowed = next((f.value for f in graph.feeds if f.symbol is allowed and f.kind == "array"), None)
    if type(scores) is not Symbolic or allowed is None or type(allowed) is Symbolic:
        return False
    (rows, columns), known = scores.shape[-2:], np.asarray(allowed)
    alike = known.shape[-2:] == (rows, columns) and known.size == rows * columns  # the same for all in front
    return alike and np.array_equal(known.reshape(rows, columns), np.tri(rows, columns))


def _operands(graph: Graph, product: Node) -> tuple[Tensor | None, Tensor | None]:
    """The tensors that were multiplied: they are saved where the product was recorded."""
    for recorder in active_recorders():
        for op, _, output, values, _, _ in reversed(recorder.records[-64:]):
            if op.name == product.name and len(values) > 1 and graph.arrays.get(output) is product.outputs[0]:
                return values[0], values[1]
    return None, None


def _axes(found: _Found, name: str, attrs: dict[str, Any], rank: int) -> list[tuple[int, ...]] | None:
    """How queries, keys and values are turned to [..., positions, features], and the result to what is wanted."""
    first, second = _letters(found.product.name, found.product.attrs, rank), _letters(name, attrs, rank)
    if first is None or second is None:
        return None
    (q, k, scores), (shares, v, out) = first, second
    if len(scores) < 2 or len(shares) != len(scores) or len({*shares}) != len(shares):
        return None
    same = dict(zip(shares, scores, strict=True))
    fresh = iter("ABCDEFGHIJKLMNOPQRSTUVWXYZ")  # not in `scores`, whose equation has small letters
    v, out = ["".join([same[c] if c in same else same.setdefault(c, next(fresh)) for c in term]) for term in (v, out)]
    front, row, column = scores[:-2], scores[-2], scores[-1]
    feature, value = {*q} - {*scores}, {*v} - {*scores}
    if len(feature) != 1 or len(value) != 1:
        return None
    wanted = [front + row + min(feature), front + column + min(feature), front + column + min(value)]
    for have, want in zip((q, k, v), wanted, strict=True):
        if sorted(have) != sorted(want):
            return None
    result = front + row + min(value)
    if sorted(out) != sorted(result):
        return None
    perms = [tuple(have.index(c) for c in want) for have, want in zip((q, k, v), wanted, strict=True)]
    return [*perms, tuple(result.index(c) for c in out)]


def _letters(name: str, attrs: dict[str, Any], rank: int) -> tuple[str, str, str] | None:
    """A product as an equation: the letters of its operands and of its result."""
    if name == "einsum":
        terms, result = attrs["equation"].split("->")
        x, y = terms.split(",")
        return (x, y, result) if (x + y + result).islower() and (x + y + result).isalpha() else None
    front = "abcdefghijklmnop"[: rank - 2]
    x = front + ("wu" if attrs.get("adjoint_x") else "uw")
    y = front + ("vw" if attrs.get("adjoint_y") else "wv")
    return x, y, front + "uv"


def _transposed(x: Tensor, perm: tuple[int, ...]) -> Tensor:
    return x if perm == tuple(range(len(perm))) else array.transpose(x, perm=perm)
