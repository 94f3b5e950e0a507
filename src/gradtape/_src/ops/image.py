"""Resizing along one axis: a linear primitive and its transpose."""

from __future__ import annotations

from gradtape._src.core.dispatch import linear
from gradtape._src.core.structure import matrix_along_axis
from gradtape._src.ops.batching import shift_axis

resample = linear(
    "resample",
    lambda g, x_shape, xp, axis, method, antialias: xp.unsample(
        g, axis=axis, size=x_shape[axis], method=method, antialias=antialias
    ),
    tf_name="ScaleAndTranslate",
    batch=shift_axis("resample"),
    structure=matrix_along_axis,
    category="linear algebra",
    doc="An axis of an image resized.",
)
unsample = linear(
    "unsample",
    lambda g, x_shape, xp, axis, method, antialias: xp.resample(
        g, axis=axis, size=x_shape[axis], method=method, antialias=antialias
    ),
    tf_name="ScaleAndTranslateGrad",
    batch=shift_axis("unsample"),
    structure=matrix_along_axis,
    category="linear algebra",
    doc="The transpose of resample.",
)
