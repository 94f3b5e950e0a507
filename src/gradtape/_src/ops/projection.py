"""The cross entropy of logits that are a product: x w + bias.

With many classes the logits are the largest array of a model. This primitive computes loss and gradient in blocks of
rows, so that the logits of all rows never exist together. The last axis of x is features; w is [features, classes], or
[classes, features] if it is `adjoint`. Logits are rounded as in the formula: to the dtype of the product, then to
`dtype`, that of the loss, if it differs. `rows` is the largest number of rows in a block, if a memory limit sets one.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.core.dispatch import primitive, register_function
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.structure import OpCall
from gradtape._src.ops import nn as nn  # sparse_cross_entropy, of a rule
from gradtape._src.ops.batching import broadcast_rows

BLOCK_ROWS = 256
"""The number of rows that NumPy computes at a time."""


def _logits(xp: Any, x: Any, w: Any, bias: Any, adjoint: bool, dtype: Any = None) -> Any:
    logits = xp.matmul(x, w, adjoint_x=False, adjoint_y=adjoint)
    if bias:
        logits = logits + bias[0]
    return logits if dtype is None else _cast(logits, dtype)


def _cast(x: Any, dtype: Any) -> Any:
    have = numpy_dtype(x)
    return x if have == dtype else namespace_of(x).astype(x, dtype=dtype, source=have)


def _loss_kernel(
    xp: Any, x: Any, w: Any, labels: Any, *bias: Any, adjoint: bool, dtype: Any = None, rows: int | None = None
) -> Any:
    flat, numbers = x.reshape(labels.size, x.shape[-1]), labels.reshape(-1)
    losses = np.zeros(numbers.shape, dtype or x.dtype)
    each = min(rows or BLOCK_ROWS, BLOCK_ROWS)
    for i in range(0, len(numbers), each):
        part = slice(i, i + each)
        losses[part] = xp.sparse_cross_entropy(_logits(xp, flat[part], w, bias, adjoint, dtype), numbers[part])[0]
    return losses.reshape(labels.shape)


def _gradient_kernel(xp: Any, *arrays: Any, **attrs: Any) -> Any:
    return _both_kernel(xp, *arrays, **attrs)[1:]


def _both_kernel(
    xp: Any, g: Any, x: Any, w: Any, labels: Any, *bias: Any, adjoint: bool, dtype: Any = None, rows: int | None = None
) -> Any:
    """The losses, and the cotangents of x, w and perhaps the bias."""
    flat, numbers, scale = x.reshape(labels.size, x.shape[-1]), labels.reshape(-1), g.reshape(-1)
    wide = np.dtype(np.float32) if x.dtype.itemsize == 2 else x.dtype
    losses, dx = np.zeros(numbers.shape, dtype or x.dtype), np.zeros(flat.shape, x.dtype)
    dw, db = np.zeros(w.shape, wide), [np.zeros(b.shape, wide) for b in bias]
    each = min(rows or BLOCK_ROWS, BLOCK_ROWS)
    for i in range(0, len(numbers), each):
        part = slice(i, i + each)
        losses[part], slope = xp.sparse_cross_entropy(_logits(xp, flat[part], w, bias, adjoint, dtype), numbers[part])
        dz = (scale[part, None] * slope).astype(x.dtype)
        dx[part] = xp.matmul(dz, w, adjoint_x=False, adjoint_y=not adjoint)
        pair = (dz, flat[part]) if adjoint else (flat[part], dz)
        dw += xp.matmul(*[a.astype(wide, copy=False) for a in pair], adjoint_x=True, adjoint_y=False)
        for total in db:
            total += dz.astype(wide, copy=False).sum(0)
    return (losses.reshape(labels.shape), dx.reshape(x.shape), dw.astype(w.dtype), *[b.astype(x.dtype) for b in db])


def _loss_vjp(xp, g, needs, *saved, **attrs):
    x, w, labels, *bias = saved[: len(needs)]
    found = xp.projected_cross_entropy_gradient(g, x, w, labels, *bias, **attrs)
    return [found[0], found[1], None, *found[2:]]


def _gradient_vjp(_, cotangents, needs, *saved, adjoint, dtype=None, rows=None):
    """The derivative of <a, dx> + <b, dw> + <c, dbias>.

    With u = a w + x b + c, which has the shape of the logits, that sum is <u, g s>, where s, the slope, is the softmax
    p minus one at the label. The logits get g p (u - <p, u>).
    """
    g, x, w, labels, *bias = saved[: len(needs)]
    a, b, *c = cotangents
    xp = common_namespace([t for t in (*cotangents, g, x, w, *bias) if t is not None])
    last = len(x.shape) - 1
    narrow = numpy_dtype(x)

    def product(first: Any, second: Any, adjoint_second: bool) -> Any:
        return xp.matmul(first, second, adjoint_x=False, adjoint_y=adjoint_second)

    def sums(t: Any) -> Any:
        return xp.sum(t, axis=(last,), keepdims=True)

    def towards_weights(dz: Any, rows: Any) -> Any:
        flat = [xp.reshape(t, shape=(prod(t.shape[:-1]), t.shape[-1])) for t in ((dz, rows) if adjoint else (rows, dz))]
        return xp.matmul(*flat, adjoint_x=True, adjoint_y=False)

    terms = [
        None if a is None else product(a, w, adjoint),
        None if b is None else product(x, b, adjoint),
        c[0] if c and c[0] is not None else None,
    ]
    known = [_cast(t, dtype or narrow) for t in terms if t is not None]
    if not known:
        return [None] * len(needs)
    u = sum(known[1:], known[0])
    logits = _logits(xp, x, w, bias, adjoint, dtype)
    slope = namespace_of(logits).sparse_cross_entropy(logits, labels)[1]
    p = slope + xp.one_hot(labels, depth=slope.shape[-1], dtype=numpy_dtype(slope))
    column = xp.reshape(g, shape=(*g.shape, 1))
    dz = _cast(column * slope, narrow)
    bent = _cast(column * p * (u - sums(p * u)), narrow)
    dx, dw = product(bent, w, not adjoint), towards_weights(bent, x)
    if b is not None:
        dx = dx + product(dz, b, not adjoint)
    if a is not None:
        dw = dw + towards_weights(dz, a)
    result = [xp.reshape(sums(u * slope), shape=tuple(g.shape)), dx, dw, None]
    return [*result, xp.sum(bent, axis=tuple(range(last)), keepdims=False)][: len(needs)]


def _rows(xp: Any, size: int, batched: list[bool], *arrays: Any) -> tuple[Any, ...]:
    """Operands with the hidden axis, and one more axis for the rows."""
    x, w, labels, *bias = [broadcast_rows(xp, size, b, a) for a, b in zip(arrays, batched, strict=True)]
    flat = xp.reshape(x, shape=(size, prod(x.shape[1:-1]), x.shape[-1]))
    numbers = xp.reshape(labels, shape=tuple(flat.shape[:2]))
    return x, w, labels, flat, numbers, [xp.reshape(b, shape=(size, 1, b.shape[-1])) for b in bias]


def _loss_batch(
    xp: Any, size: int, batched: list[bool], *arrays: Any, adjoint: bool, dtype: Any = None, rows: int | None = None
) -> Any:
    _, w, labels, flat, numbers, bias = _rows(xp, size, batched, *arrays)
    loss = xp.sparse_cross_entropy(_logits(xp, flat, w, bias, adjoint, dtype), numbers)[0]
    return xp.reshape(loss, shape=tuple(labels.shape))


def _gradient_batch(xp: Any, size: int, batched: list[bool], *arrays: Any, **attrs: Any) -> Any:
    return _both_batch(xp, size, batched, *arrays, **attrs)[1:]


def _both_batch(
    xp: Any,
    size: int,
    batched: list[bool],
    g: Any,
    *arrays: Any,
    adjoint: bool,
    dtype: Any = None,
    rows: int | None = None,
) -> Any:
    g = broadcast_rows(xp, size, batched[0], g)
    x, w, labels, flat, numbers, bias = _rows(xp, size, batched[1:], *arrays)
    loss, slope = xp.sparse_cross_entropy(_logits(xp, flat, w, bias, adjoint, dtype), numbers)
    dz = _cast(xp.reshape(g, shape=(*numbers.shape, 1)) * slope, numpy_dtype(x))
    dx = xp.reshape(xp.matmul(dz, w, adjoint_x=False, adjoint_y=not adjoint), shape=tuple(x.shape))
    dw = xp.matmul(*((dz, flat) if adjoint else (flat, dz)), adjoint_x=True, adjoint_y=False)
    db = [xp.sum(dz, axis=(1,), keepdims=False) for _ in bias]
    return (xp.reshape(loss, shape=tuple(labels.shape)), dx, dw, *db)


def _structure(call: OpCall) -> Any:
    """Losses and cotangents of x depend on their own row and on all weights; cotangents of weights on everything."""
    sets, position = call.sets, call.op.args.index("x")
    rows = [ids for ids in call.ids[:position] if ids is not None]
    if (x := call.ids[position]) is not None:
        rows.append(sets.union_over(x, (x.ndim - 1,)))
    weights = [ids.reshape(-1) for ids in call.ids[position + 1 :] if ids is not None]
    if weights:
        rows.append(sets.union_over(np.concatenate(weights), (0,)))
    own = sets.union(*rows)
    if not call.op.outputs:
        return np.broadcast_to(own, call.shape)
    everything = sets.union_over(own.reshape(-1), (0,))
    of_x, *of_weights = call.outputs
    return (
        np.broadcast_to(own[..., None] if own.ndim else own, of_x),
        *[np.broadcast_to(everything, shape) for shape in of_weights],
    )


projected_cross_entropy = primitive(
    "projected_cross_entropy",
    ("x", "w", "labels", "bias"),
    vjp_all=_loss_vjp,
    vjp_all_saves=range(4),
    kernel=_loss_kernel,
    tf_name="ProjectedSparseSoftmaxCrossEntropy",
    batch=_loss_batch,
    category="reduction",
    hazards=("softmax",),
    doc="The cross entropy of the logits x w + bias and class numbers.",
    structure=_structure,
)
projected_cross_entropy_gradient = primitive(
    "projected_cross_entropy_gradient",
    ("g", "x", "w", "labels", "bias"),
    vjp_all=_gradient_vjp,
    vjp_all_saves=range(5),
    vjp_all_zeros=False,
    outputs=-1,
    kernel=_gradient_kernel,
    tf_name="ProjectedSparseSoftmaxCrossEntropyGrad",
    batch=_gradient_batch,
    category="reduction",
    doc="The derivatives of projected_cross_entropy with respect to x, w and the bias.",
    structure=_structure,
)


def _both(g: Any, x: Any, w: Any, labels: Any, *bias: Any, **attrs: Any) -> tuple[Any, ...]:
    loss = projected_cross_entropy(x, w, labels, *bias, **attrs)
    return (loss, *projected_cross_entropy_gradient(g, x, w, labels, *bias, **attrs))


register_function("projected_cross_entropy_both", arrays=_both_kernel, batches=_both_batch, tensors=_both)
"""The loss and its derivatives: a program that needs both computes the logits once (`graph/merges.py`)."""
