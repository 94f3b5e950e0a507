"""The variance as one primitive, whose derivative depends only on its input."""

from __future__ import annotations

import math

from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.half import generic_in_float32
from gradtape._src.arrays.symbolic import number
from gradtape._src.core.dispatch import primitive
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.structure import reduces
from gradtape._src.ops.batching import shift_axis


@generic_in_float32
def _variance(xp, x, *, axis, constant_mean, keepdims=False):
    return xp.mean(xp.squared_difference(x, xp.mean(x, axis=axis, keepdims=True)), axis=axis, keepdims=keepdims)


def _variance_dx(g, x, xp, axis, constant_mean):
    """2 (x - mean) / n: the variance is minimal at the mean, so the mean's derivative does not contribute.

    With `constant_mean` it does not contribute to higher derivatives either, which are exact otherwise.
    """
    shape = tuple(x.shape)
    count = max(math.prod(shape[i] for i in axis), 1)
    # g is the smaller one
    each = 2 * g / number(count, numpy_dtype(g)) if is_dimension(count) else g * (2 / count)
    factor = xp.reshape(each, shape=tuple(1 if i in axis else n for i, n in enumerate(shape)))
    of_x = namespace_of(x)
    mean = of_x.mean(x, axis=axis, keepdims=True)
    return factor * (x - (of_x.stop_gradient(mean) if constant_mean else mean))


variance = primitive(
    "variance",
    ("x",),
    _variance_dx,
    kernel=_variance,
    batch=shift_axis("variance"),
    wide=True,
    structure=reduces,
    category="reduction",
    hazards=("sum", "empty"),
    doc="The variance over some axes.",
)
