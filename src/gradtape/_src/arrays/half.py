"""float16 and bfloat16: sums and products of many elements are computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

Array = Any

HALF = frozenset({"e", "E"})
"""NumPy's dtype characters of float16 and bfloat16."""

FLOAT32 = np.dtype(np.float32)
_WIDEST = {"i": np.dtype(np.int64), "u": np.dtype(np.uint64)}


def is_half(dtype: Any) -> bool:
    """Whether a dtype is float16 or bfloat16."""
    return dtype.char in HALF


def sum_dtype(dtype: Any) -> Any:
    """The dtype of a sum: float32 for float16 and bfloat16, otherwise the dtype itself."""
    return FLOAT32 if dtype.char in HALF else dtype


def mean_dtype(dtype: Any) -> Any:
    """The dtype of the sum in a mean: for integers, the widest of their kind, as in TensorFlow."""
    return _WIDEST.get(dtype.kind) or sum_dtype(dtype)


def widened(x: Array) -> Array:
    """A half-precision array as float32; any other array unchanged."""
    dtype = getattr(x, "dtype", None)
    return x if dtype is None or dtype.char not in HALF else x.astype(FLOAT32)


def in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Make a kernel compute half-precision operands in float32; its first operand determines the dtype."""

    @wraps(kernel)
    def call(x: Array, *others: Array, **attrs: Any) -> Any:
        dtype = x.dtype
        if dtype.char not in HALF:
            return kernel(x, *others, **attrs)
        result = kernel(x.astype(FLOAT32), *map(widened, others), **attrs)
        return tuple([r.astype(dtype) for r in result]) if type(result) is tuple else result.astype(dtype)

    return call


def generic_in_float32(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """`in_float32` for a generic kernel over `xp`."""

    @wraps(kernel)
    def call(xp: Any, *arrays: Array, **attrs: Any) -> Any:
        dtype = arrays[0].dtype
        if dtype.char not in HALF:
            return kernel(xp, *arrays, **attrs)
        wide = [xp.astype(x, dtype=FLOAT32, source=x.dtype) if x.dtype.char in HALF else x for x in arrays]
        return xp.astype(kernel(xp, *wide, **attrs), dtype=dtype, source=FLOAT32)

    return call
