"""Fourier transforms and frames: linear primitives, each with its transpose.

For a complex op the transpose is the adjoint: TensorFlow's cotangent of z is the derivative by the real part plus i
times the derivative by the imaginary part, so that a linear map A has the rule "A's conjugate transpose".
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape._src.arrays.dimension import maximum
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.core.dispatch import linear
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.structure import mixes_axis, moves, scatters
from gradtape._src.ops.batching import shift_axis


def _points(shape: Any, axis: tuple[int, ...]) -> int:
    return math.prod(shape[a] for a in axis)


def _fft_transpose(g, x_shape, xp, axis, inverse):
    back = xp.fft(g, axis=axis, inverse=not inverse)
    n = _points(x_shape, axis)
    return back / n if inverse else back * n


fft = linear(
    "fft",
    _fft_transpose,
    tf_name="FFT",
    batch=shift_axis("fft"),
    structure=mixes_axis,
    category="linear algebra",
    names=("signal.fft",),
    doc="The Fourier transform over some axes, or its inverse.",
)


def _half_weights(g: Any, axis: int, length: int, inner: float) -> Any:
    """The weight of each bin: 1 at both ends, and `inner` in between, for the bin and its mirror image."""
    weights = np.full(length // 2 + 1, inner)
    weights[0] = 1
    if length % 2 == 0:
        weights[-1] = 1
    shape = [1] * len(g.shape)
    shape[axis] = len(weights)
    return weights.reshape(shape).astype(numpy_dtype(g))


def _rfft_transpose(g, x_shape, xp, axis):
    length = x_shape[axis[-1]]
    once = g * _half_weights(g, axis[-1], length, 0.5)
    return xp.irfft(once, axis=axis, length=length) * _points(x_shape, axis)


def _irfft_transpose(g, xp, axis, length):
    bins = xp.rfft(g, axis=axis)
    return bins * _half_weights(bins, axis[-1], length, 2) / _points(g.shape, axis)


rfft = linear(
    "rfft",
    _rfft_transpose,
    tf_name="RFFT",
    batch=shift_axis("rfft"),
    structure=mixes_axis,
    category="linear algebra",
    names=("signal.rfft",),
    doc="The Fourier transform of real numbers.",
)
irfft = linear(
    "irfft",
    _irfft_transpose,
    tf_name="IRFFT",
    batch=shift_axis("irfft"),
    structure=mixes_axis,
    category="linear algebra",
    names=("signal.irfft",),
    doc="Real numbers from half a spectrum.",
)

frame = linear(
    "frame",
    lambda g, x_shape, xp, axis, step: xp.overlap_add(g, axis=axis, step=step, size=x_shape[axis]),
    batch=shift_axis("frame"),
    structure=moves,
    category="indexing",
    names=("signal.frame",),
    doc="Windows of an axis, a step apart.",
)


def _overlap_add_transpose(g, x_shape, xp, axis, step):
    frames, length = x_shape[axis], x_shape[axis + 1]
    have, need = g.shape[axis], (frames - 1) * step + length
    rank = len(g.shape)
    missing = maximum(need - have, 0)
    if is_dimension(missing) or missing:  # what is beyond the end has no cotangent
        g = xp.pad(g, before=(0,) * rank, after=tuple(missing if i == axis else 0 for i in range(rank)))
    if is_dimension(missing) or have > need:
        g = xp.getitem(g, index=(slice(None),) * axis + (slice(0, maximum(need, 0)),))
    return xp.frame(g, axis=axis, length=length, step=step)


overlap_add = linear(
    "overlap_add",
    _overlap_add_transpose,
    batch=shift_axis("overlap_add"),
    structure=scatters,
    category="indexing",
    doc="Frames laid a step apart and added up.",
)
