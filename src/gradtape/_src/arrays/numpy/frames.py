"""How shared kernels run on NumPy: in blocks that stay in the cache, each formula only where its condition is true."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import ml_dtypes
import numpy as np

from gradtape._src.arrays.numpy.blocks import BLOCK, elementwise
from gradtape._src.arrays.shared.frames import Pieces

Array = Any
Kernel = Callable[..., Array]


def in_float64(function: Kernel) -> Kernel:
    """Run a function of flat float64 arrays on operands of any shape and floating dtype, in blocks."""
    flushes = getattr(function, "flushes", False)

    @wraps(function)
    def kernel(*operands: Array, **attrs: Any) -> Array:
        # A Python number takes the dtype of the arrays, as in NumPy.
        dtype = next((a.dtype for a in operands if hasattr(a, "dtype")), np.dtype(np.float64))
        arrays = [np.asarray(a.real if getattr(a, "dtype", dtype).kind == "c" else a) for a in operands]
        shape = arrays[0].shape if len(arrays) == 1 else np.broadcast_shapes(*(a.shape for a in arrays))
        flat = [np.ravel(a if a.shape == shape else np.broadcast_to(a, shape)) for a in arrays]
        kept = dtype if dtype.kind in "fV" else np.dtype(np.float64)
        size = flat[0].size

        def block(*parts: Array) -> Array:
            if flushes:
                parts = tuple([flushed(part) for part in parts])
            return function(*[part.astype(np.float64) for part in parts], **attrs).astype(kept, copy=False)

        return (block(*flat) if size <= BLOCK else elementwise(block, flat)).reshape(shape)

    return kernel


def at_least_float32(function: Kernel) -> Kernel:
    """Run a function on one array of any floating dtype, which the result has too: in blocks,
    16-bit ones in float32.
    """

    @wraps(function)
    def kernel(x: Array) -> Array:
        if x.dtype.kind not in "fV":
            return function(x)
        if x.dtype.itemsize == 2:
            return kernel(x.astype(np.float32)).astype(x.dtype)
        return function(x) if x.size <= BLOCK else elementwise(function, (x,))

    return kernel


def piecewise(x: Array, pieces: Pieces, *others: Array, idle: Sequence[float] | None = None) -> Array:
    """Evaluate each formula where its condition is true; NaN where none is."""
    result = np.full(x.shape, np.nan)
    for where, formula in pieces:
        if not callable(formula):
            result[where] = formula
        elif where.all():
            result = formula(x, *others)
        elif where.any():
            result[where] = formula(x[where], *(a[where] for a in others))
    return result


def while_loop(goes_on: Callable[[Any], Any], step: Callable[[Any], Any], state: Any) -> Any:
    """Run a loop: the final state."""
    while goes_on(state):
        state = step(state)
    return state


_TINY: Any = {"f": np.float32(2.0**-126), "E": ml_dtypes.bfloat16(2.0**-126), "d": np.float64(2.0**-1022)}
"""The smallest normal numbers. float16 needs none: it is computed in float32."""


def is_zero(x: Array) -> Array:
    """Whether x is 0 for XLA's programs and TensorFlow's kernels, which flush denormal numbers."""
    if x.dtype.kind == "c":
        return is_zero(x.real) & is_zero(x.imag)
    tiny = _TINY.get(x.dtype.char)
    return np.equal(x, 0) if tiny is None else np.less(np.absolute(x), tiny)


def flushed(x: Array) -> Array:
    """x with 0 instead of denormal numbers: for functions that jump at 0. Arithmetic and comparisons keep them."""
    tiny = _TINY.get(x.dtype.char) if hasattr(x, "dtype") else None  # Python numbers are not denormal
    if tiny is None or not x.size:
        return x
    size = np.absolute(x)
    if not np.fmin.reduce(size, None) < tiny:  # a NumPy scalar for 0-d arrays; false for NaN
        return x
    return np.where(size < tiny, np.copysign(tiny.dtype.type(0), x), x)


def zero_where(zero: Array, value: Array) -> Array:
    """The value, and 0 where `zero` is true."""
    return np.where(zero, np.zeros((), value.dtype), value) if zero.any() else value
