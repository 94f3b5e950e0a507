"""Neural primitives that are worth fusing: hot, or numerically delicate when written out."""

from __future__ import annotations

from typing import Any

from gradtape.arrays import namespace_of
from gradtape.engine.dispatch import primitive
from gradtape.ops.batching import shift_axis, spread


def _softmax_dx(d, out, xp, axis):  # type: ignore[no-untyped-def]
    weighted = d * out
    return weighted - out * xp.sum(weighted, axis=(axis,), keepdims=True)


softmax = primitive("softmax", ("x",), _softmax_dx, batch=shift_axis("softmax"))
log_softmax = primitive(
    "log_softmax",
    ("x",),
    lambda d, out, xp, axis: d - xp.exp(out) * xp.sum(d, axis=(axis,), keepdims=True),
    batch=shift_axis("log_softmax"),
)


def _rows(name: str) -> Any:
    """The batch rule of an op on (logits, labels): the hidden axis is one more axis of rows."""

    def rule(xp: Any, size: int, batched: list[bool], logits: Any, labels: Any) -> Any:
        return getattr(xp, name)(spread(xp, size, batched[0], logits), spread(xp, size, batched[1], labels))

    return rule


sparse_cross_entropy = primitive(
    "sparse_cross_entropy",
    ("logits", "labels"),
    lambda d, logits, labels, xp: xp.reshape(d, shape=(*d.shape, 1)) * _slope(logits, labels),
    None,
    tf_name="SparseSoftmaxCrossEntropyWithLogits",
    batch=_rows("sparse_cross_entropy"),
)


def _slope(logits: Any, labels: Any) -> Any:
    return namespace_of(logits).sparse_cross_entropy_slope(logits, labels)


def _slope_dx(d, logits, xp):  # type: ignore[no-untyped-def]
    p = namespace_of(logits).softmax(logits, axis=len(logits.shape) - 1)
    weighted = d * p
    return weighted - p * xp.sum(weighted, axis=(len(logits.shape) - 1,), keepdims=True)


sparse_cross_entropy_slope = primitive(
    "sparse_cross_entropy_slope",
    ("logits", "labels"),
    _slope_dx,
    None,
    tf_name="SparseSoftmaxCrossEntropyWithLogits",
    batch=_rows("sparse_cross_entropy_slope"),
)


def _cross_entropy_kernel(xp, logits, labels):  # type: ignore[no-untyped-def]
    last = len(logits.shape) - 1
    return -xp.sum(labels * xp.log_softmax(logits, axis=last), axis=(last,), keepdims=False)


def _cross_entropy_dlogits(d, logits, labels, xp):  # type: ignore[no-untyped-def]
    last = len(logits.shape) - 1
    inner = namespace_of(logits)
    slope = inner.softmax(logits, axis=last) * inner.sum(labels, axis=(last,), keepdims=True) - labels
    return xp.reshape(d, shape=(*d.shape, 1)) * slope


cross_entropy = primitive(
    "cross_entropy",
    ("logits", "labels"),
    _cross_entropy_dlogits,
    lambda d, logits, xp: -xp.reshape(d, shape=(*d.shape, 1)) * _log_softmax_last(logits),
    tf_name="SoftmaxCrossEntropyWithLogits",
    kernel=_cross_entropy_kernel,
    batch=_rows("cross_entropy"),
)


def _log_softmax_last(logits: Any) -> Any:
    return namespace_of(logits).log_softmax(logits, axis=len(logits.shape) - 1)
