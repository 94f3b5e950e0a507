"""Recognise the cross entropy of a projection to many classes.

The logits of a language model are its largest array, and their gradient is as large. If only the loss uses them, the
primitive `projected_cross_entropy` computes both in blocks of rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.core.dispatch import run
from gradtape._src.core.primitive import Op
from gradtape._src.graph.rewrites import sources
from gradtape._src.graph.rewrites.sources import Path, Value
from gradtape._src.ops import array
from gradtape._src.ops.projection import projected_cross_entropy
from gradtape._src.tensor import Tensor

LARGE = 2**26
"""The smallest number of logits: with fewer, one product is faster than several."""


def instead(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> tuple[Tensor, Tensor] | None:
    """The loss of a projection instead of the loss of its result, if the formula matches."""
    logits, labels = inputs
    shape = tuple(logits.array.shape)
    if not is_known_shape(shape) or prod(shape) < LARGE or not sources.is_worthwhile(logits.array):
        return None
    path = Path()
    found = _projection(path, logits)
    if found is None or not path.leads_back_to(found.x, found.w, *found.bias):
        return None
    x = found.x.tensor()
    wanted = (*shape[:-1], found.x.shape[-1])
    if found.x.shape != wanted:
        x = array.reshape(x, shape=wanted)
    dtype = logits.array.dtype
    static = {"adjoint": found.adjoint} if dtype == x.array.dtype else {"adjoint": found.adjoint, "dtype": dtype}
    loss: Tensor = projected_cross_entropy(x, found.w.tensor(), labels, *[b.tensor() for b in found.bias], **static)
    slope: Tensor = run(op, inputs, attrs, rewriting=False)[1]  # for derivatives; otherwise unused, and dropped
    path.replaced(op, inputs, attrs, [loss, slope])
    return loss, slope


class _Projection(NamedTuple):
    x: Value
    w: Value
    bias: tuple[Value, ...]
    adjoint: bool


def _projection(path: Path, logits: Tensor) -> _Projection | None:
    """The product that computed the logits, optionally with a bias, a reshape or a cast."""
    value: Value | Tensor = logits
    classes = logits.array.shape[-1]
    bias: tuple[Value, ...] = ()
    while (call := path.call(value, *_OPS)) is not None and call.shape[-1:] == (classes,):
        if call.name == "matmul":
            x, w = call.args
            is_plain = len(w.shape) == 2 and len(x.shape) > 1 and not call.attrs.get("adjoint_x")
            return _Projection(x, w, bias, bool(call.attrs.get("adjoint_y"))) if is_plain else None
        if call.name == "add" and not bias and value.array.dtype == call.args[0].array.dtype:
            pairs = [pair for pair in (call.args, call.args[::-1]) if pair[1].shape == (classes,)]
            if not pairs or pairs[0][0].shape != call.shape:
                return None
            value, bias = pairs[0][0], (pairs[0][1],)
        elif call.name == "reshape" or (call.name == "astype" and not bias):
            value = call.args[0]
        else:
            return None
    return None


_OPS = ("add", "astype", "matmul", "reshape")
