"""Neural primitives that are worth fusing: hot, or numerically delicate as separate ops."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.half import generic_in_float32
from gradtape._src.arrays.symbolic import number
from gradtape._src.core.dispatch import linear, primitive
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.structure import mixes_axis, mixes_last, unchanged
from gradtape._src.ops.batching import broadcast_rows, shift_axis


def _softmax_dx(g, out, xp, axis, half):
    """out (g - <g, out>), in place as far as it goes."""
    out = _shares(out, xp, axis) if half else out
    part = g - xp.sum(g * out, axis=(axis,), keepdims=True)
    part *= out
    return part


def _log_softmax_dx(g, out, xp, axis, half):
    """g - exp(out) sum(g), in place as far as it goes."""
    shares = _shares(xp.exp(out), xp, axis) if half else xp.exp(out)
    part = -xp.sum(g, axis=(axis,), keepdims=True) * shares
    part += g
    return part


def _shares(x: Any, xp: Any, axis: int) -> Any:
    """Round so that the sum is 1 again: otherwise all gradients would have the same bias, and so would their sums."""
    return x / xp.sum(x, axis=(axis,), keepdims=True)


softmax = primitive(
    "softmax", ("x",), _softmax_dx, batch=shift_axis("softmax"), wide=True,
    names=("math.softmax",), doc="exp(x) / sum(exp(x)) along an axis.",
    structure=mixes_axis, category="activation", hazards=("softmax",),
)  # fmt: skip
log_softmax = primitive(
    "log_softmax", ("x",), _log_softmax_dx, batch=shift_axis("log_softmax"), wide=True,
    names=("math.log_softmax",), doc="The logarithm of softmax, without overflow.",
    structure=mixes_axis, category="activation",
    hazards=("softmax",),
)  # fmt: skip


pinned = linear(  # identity that is computed once: XLA must not recompute it in every consumer
    "pinned",
    lambda g: g,
    tf_name="Identity",
    batch=lambda xp, size, batched, x: xp.pinned(x),
    structure=unchanged,
    category="shape",
    doc="The same numbers; a program keeps them in memory.",
)


def _standardize_vjp(xp, g, needs, x, out, inverse, epsilon, centered=True):
    """The inverse standard deviation is an output as well: only a second derivative has a cotangent for it."""
    first, second = g
    last, count = len(out.shape) - 1, number(out.shape[-1], numpy_dtype(out))
    result = None
    if first is not None:
        along = xp.pinned(xp.sum(first * out, axis=(last,), keepdims=True)) / count
        if centered:
            mean = xp.pinned(xp.sum(first, axis=(last,), keepdims=True)) / count
            result = (first - mean - out * along) * inverse
        else:
            result = (first - out * along) * inverse
    if second is not None:
        bend = out * (second * inverse * inverse / (-1.0 * count))
        result = bend if result is None else result + bend
    return [result]


# Rows with mean 0 and variance 1, and the inverse of their standard deviation; not `centered`: rows whose squares have
# the mean 1.
standardize = primitive(
    "standardize",
    ("x",),
    vjp_all=_standardize_vjp,
    vjp_all_saves=(1, 2),
    vjp_all_zeros=False,
    outputs=2,
    tf_name="LayerNorm",
    wide=True,
    batch=lambda xp, size, batched, x, **attrs: xp.standardize(x, **attrs),
    structure=mixes_last,
    category="reduction",
    doc="Rows with mean 0 and variance 1, and the inverse of their standard deviation.",
)


def _rows(name: str) -> Any:
    """The batching rule of an op on (logits, labels): the hidden axis becomes one more axis of rows."""

    def rule(xp: Any, size: int, batched: list[bool], logits: Any, labels: Any) -> Any:
        return getattr(xp, name)(
            broadcast_rows(xp, size, batched[0], logits), broadcast_rows(xp, size, batched[1], labels)
        )

    return rule


def _sparse_vjp(xp, g, needs, logits, labels, loss, slope):
    """The gradient is an output as well: its cotangent belongs to the second derivative."""
    first, second = g
    last = len(labels.shape)
    result = None
    if first is not None:
        result = xp.reshape(first, shape=(*first.shape, 1)) * slope
    if second is not None:
        p = slope + xp.one_hot(labels, depth=slope.shape[-1], dtype=numpy_dtype(slope))
        weighted = second * p
        bend = weighted - p * xp.sum(weighted, axis=(last,), keepdims=True)
        result = bend if result is None else result + bend
    return [result, None]


sparse_cross_entropy = primitive(
    "sparse_cross_entropy", ("logits", "labels"), vjp_all=_sparse_vjp, vjp_all_saves=(1, 3), vjp_all_zeros=False,
    outputs=2, tf_name="SparseSoftmaxCrossEntropyWithLogits", wide=True, batch=_rows("sparse_cross_entropy"),
    doc="The cross entropy of logits and class numbers.",
    structure=mixes_last, category="reduction", hazards=("softmax",),
)  # fmt: skip
one_hot = primitive(
    "one_hot", ("indices",), tf_name="OneHot", batch=lambda xp, size, batched, x, **attrs: xp.one_hot(x, **attrs),
    names=("one_hot",), doc="1 at the position that each index names, 0 elsewhere.", category="indexing",
    instead="one_hot takes integers; use tf.nn.softmax(k * x) for weights that can be trained.",
)  # fmt: skip


@generic_in_float32
def _cross_entropy_kernel(xp, logits, labels):
    last = len(logits.shape) - 1
    return -xp.sum(labels * xp.log_softmax(logits, axis=last), axis=(last,), keepdims=False)


def _cross_entropy_dlogits(g, logits, labels, xp):
    last = len(logits.shape) - 1
    inner = namespace_of(logits)
    slope = inner.softmax(logits, axis=last) - labels  # as in TensorFlow: the labels of a row are assumed to sum to one
    return xp.reshape(g, shape=(*g.shape, 1)) * slope


cross_entropy = primitive(
    "cross_entropy", ("logits", "labels"), _cross_entropy_dlogits,
    lambda g, logits, xp: -xp.reshape(g, shape=(*g.shape, 1)) * _log_softmax_last(logits),
    tf_name="SoftmaxCrossEntropyWithLogits", wide=True, kernel=_cross_entropy_kernel, batch=_rows("cross_entropy"),
    doc="The cross entropy of logits and probabilities.",
    structure=mixes_last, category="reduction", hazards=("softmax",),
)  # fmt: skip


def _log_softmax_last(logits: Any) -> Any:
    return namespace_of(logits).log_softmax(logits, axis=len(logits.shape) - 1)
