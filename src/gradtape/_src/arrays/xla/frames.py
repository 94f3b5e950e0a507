"""How shared kernels run on XLA: every formula runs on whole arrays, without reading values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import while_loop  # noqa: F401 - a function of the namespace

from gradtape._src.arrays.shared.frames import Pieces

Array = Any
Kernel = Callable[..., Array]


def in_float64(function: Kernel) -> Kernel:
    """Run a function of float64 arrays of one shape on operands with any shapes and floating dtypes."""

    @wraps(function)
    def kernel(*operands: Array, **attrs: Any) -> Array:
        dtype = next((a.dtype for a in operands if hasattr(a, "dtype")), np.dtype(np.float64))
        wide = jnp.broadcast_arrays(*(jnp.asarray(a, np.float64) for a in operands))
        return function(*wide, **attrs).astype(dtype)

    return kernel


def at_least_float32(function: Kernel) -> Kernel:
    """Run a function on one array of any floating dtype, which the result has too: 16-bit numbers in float32."""

    @wraps(function)
    def kernel(x: Array) -> Array:
        x = jnp.asarray(x)
        few = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize == 2
        return function(x.astype(np.float32)).astype(x.dtype) if few else function(x)

    return kernel


def piecewise(x: Array, pieces: Pieces, *others: Array, idle: Sequence[float] | None = None) -> Array:
    """Select the result of each formula where its condition is true; NaN where none is.

    A formula that iterates needs `idle` operands, for which it ends soon: it gets them where its condition is false,
    and does not run at all if the condition is false everywhere.
    """
    operands = (x, *others)
    result = jnp.full(x.shape, np.nan)
    for where, formula in pieces:
        if not callable(formula):
            result = jnp.where(where, formula, result)
        elif idle is None:
            result = jnp.where(where, formula(*operands), result)
        else:
            result = _filled(result, where, formula, operands, idle)
    return result


def _filled(result: Array, where: Array, formula: Kernel, operands: Sequence[Array], idle: Sequence[float]) -> Array:
    def fill(result: Array) -> Array:
        inputs = [jnp.where(where, a, number) for a, number in zip(operands, idle, strict=True)]
        return jnp.where(where, formula(*inputs), result)

    return lax.cond(jnp.any(where), fill, lambda result: result, result)


def is_zero(x: Array) -> Array:
    """Whether x is 0. Programs on a CPU flush denormal numbers."""
    if x.dtype.name == "bfloat16":  # `equal` compares the bits
        return jnp.absolute(x) <= 0
    return jnp.equal(x, 0)


def zero_where(zero: Array, value: Array) -> Array:
    """The value, and 0 where `zero` is true."""
    return jnp.where(zero, 0, value)
