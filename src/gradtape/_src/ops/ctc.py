"""Connectionist temporal classification: the probability of a label sequence over all its alignments.

The states of a sequence are its labels with a blank before, between and after them: 2 L + 1. A path stays in a state,
moves to the next, or skips a blank between two different labels. All computations are in logarithms, for the whole
batch, one time step after the other.

The loss and its gradient are written over `xp`, so that a recorded backward pass records the recursion itself, and
derivatives of every order exist.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from gradtape._src.arrays import namespace_of
from gradtape._src.core.dispatch import primitive
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.structure import mixes
from gradtape._src.ops import nn as nn  # log_softmax, of a rule
from gradtape._src.ops.batching import broadcast_rows

_FORBIDDEN = -707.0  # log probability of a forbidden step, as in TensorFlow: impossible labels have equal losses
_NOWHERE = -1e5  # of a missing state


class _Lattice(NamedTuple):
    emissions: Any  # [time, batch, states]: log probability of each state's class
    states: Any  # [time, batch, states]: the class of each state
    skips: Any  # [batch, states]: the cost of coming from two states before
    start: Any  # [batch, states]
    end: Any  # [batch, states]
    running: Any  # [time, batch, 1]: whether the sequence continues


def _lattice(xp: Any, logits: Any, labels: Any, label_length: Any, logit_length: Any, blank: int) -> _Lattice:
    time, batch, _ = logits.shape
    width = 2 * labels.shape[1] + 1
    blanks = labels * 0 + blank
    pairs = xp.reshape(xp.stack(blanks, labels, axis=2), shape=(batch, width - 1))
    states = xp.concatenate(pairs, xp.getitem(blanks, index=(slice(None), slice(0, 1))), axis=1)
    wide = xp.broadcast_to(xp.reshape(states, shape=(1, batch, width)), shape=(time, batch, width))
    emissions = xp.take_along_axis(xp.log_softmax(logits, axis=2), wide, axis=2)
    zero = xp.getitem(emissions, index=(0,)) * 0
    place = xp.cumsum(states * 0 + 1, axis=1, exclusive=True, reverse=False)
    odd = xp.equal(xp.mod(place, 2), 1)
    first, rest = (xp.getitem(states, index=(slice(None), part)) for part in (slice(0, 2), slice(0, -2)))
    before = xp.concatenate(first, rest, axis=1)
    may_skip = xp.logical_and(odd, xp.not_equal(states, before))
    last = xp.reshape(label_length * 2, shape=(batch, 1))
    at_end = xp.logical_and(xp.less_equal(place, last), xp.greater_equal(place, last - 1))
    steps = xp.cumsum(xp.reshape(wide, shape=(time, batch * width)) * 0 + 1, axis=0, exclusive=True, reverse=False)
    steps = xp.getitem(xp.reshape(steps, shape=(time, batch, width)), index=(slice(None), slice(None), slice(0, 1)))
    return _Lattice(
        emissions,
        wide,
        xp.where(may_skip, zero, zero + _FORBIDDEN),
        xp.where(xp.less(place, 2), zero, zero + _FORBIDDEN),
        xp.where(at_end, zero, zero + _NOWHERE),
        xp.less(steps, xp.reshape(logit_length, shape=(1, batch, 1))),
    )


def _shifted(xp: Any, a: Any, by: int) -> Any:
    """Shift states by this number of positions (backward if negative), filling with impossible ones."""
    size = abs(by)
    inside = slice(0, -size) if by > 0 else slice(size, None)
    empty = xp.getitem(a, index=(slice(None), slice(0, size))) * 0 + _NOWHERE
    rest = xp.getitem(a, index=(slice(None), inside))
    return xp.concatenate(empty, rest, axis=1) if by > 0 else xp.concatenate(rest, empty, axis=1)


def _at(xp: Any, x: Any, t: int) -> Any:
    return xp.getitem(x, index=(t,))


def _log_add(xp: Any, a: Any, b: Any, c: Any) -> Any:
    top = xp.stop_gradient(xp.maximum(xp.maximum(a, b), c))
    return top + xp.log(xp.exp(a - top) + xp.exp(b - top) + xp.exp(c - top))


def _forward(xp: Any, lattice: _Lattice) -> list[Any]:
    """Log probability of every prefix that ends in each state, for each time step."""
    alpha = lattice.start + _at(xp, lattice.emissions, 0)
    found = [alpha]
    for t in range(1, lattice.emissions.shape[0]):
        come = _log_add(xp, alpha, _shifted(xp, alpha, 1), _shifted(xp, alpha, 2) + lattice.skips)
        alpha = xp.where(_at(xp, lattice.running, t), come + _at(xp, lattice.emissions, t), alpha)
        found.append(alpha)
    return found


def _backward(xp: Any, lattice: _Lattice) -> list[Any]:
    """Log probability of every suffix that starts after each state, for each time step."""
    beta = lattice.end
    found = [beta]
    for t in range(lattice.emissions.shape[0] - 1, 0, -1):
        ahead = beta + _at(xp, lattice.emissions, t)
        skipped = _shifted(xp, ahead + lattice.skips, -2)
        beta = xp.where(_at(xp, lattice.running, t), _log_add(xp, ahead, _shifted(xp, ahead, -1), skipped), beta)
        found.append(beta)
    return found[::-1]


def _loss(xp, logits, labels, label_length, logit_length, *, blank):
    lattice = _lattice(xp, logits, labels, label_length, logit_length, blank)
    return -xp.logsumexp(_forward(xp, lattice)[-1] + lattice.end, axis=(1,), keepdims=False)


def _dlogits(g, logits, labels, label_length, logit_length, out, xp, blank):
    """Softmax minus the probability of each class at each time, given the labels."""
    inner = namespace_of(logits)
    _, batch, classes = logits.shape
    lattice = _lattice(inner, logits, labels, label_length, logit_length, blank)
    alphas, betas = _forward(inner, lattice), _backward(inner, lattice)
    vjp_all = inner.stack(*alphas, axis=0) + inner.stack(*betas, axis=0)
    share = inner.exp(vjp_all + inner.reshape(out, shape=(1, batch, 1)))
    likely = inner.put_along_axis(share, lattice.states, axis=2, size=classes)
    mask = inner.astype(lattice.running, dtype=numpy_dtype(logits))
    return xp.reshape(g, shape=(1, batch, 1)) * ((inner.softmax(logits, axis=2) - likely) * mask)


def _ctc_batch(xp, size, batched, logits, labels, label_length, logit_length, *, blank):
    """The hidden axis is more sequences."""
    given = [
        broadcast_rows(xp, size, b, a)
        for a, b in zip((logits, labels, label_length, logit_length), batched, strict=True)
    ]
    time, batch, classes = given[0].shape[1:]
    logits = xp.reshape(xp.transpose(given[0], perm=(1, 0, 2, 3)), shape=(time, size * batch, classes))
    rest = [xp.reshape(a, shape=(size * batch, *a.shape[2:])) for a in given[1:]]
    return xp.reshape(xp.ctc(logits, *rest, blank=blank), shape=(size, batch))


ctc = primitive(
    "ctc",
    ("logits", "labels", "label_length", "logit_length"),
    _dlogits,
    None,
    None,
    None,
    tf_name="CTCLossV2",
    kernel=_loss,
    batch=_ctc_batch,
    structure=mixes(lambda call: (0, 2)),
    category="reduction",
    doc="The connectionist temporal classification loss.",
)
"""logits [time, batch, classes], labels [batch, width] -> the negative log probability of each sequence."""
