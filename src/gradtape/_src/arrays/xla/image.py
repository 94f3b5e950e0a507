"""Resizing on JAX arrays: see arrays/numpy/image.py for the meaning of each function, and for the weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradtape._src.arrays.numpy.image import is_dense, taps, taps_back, weight_matrix

Array = Any
_FACTS = ("axis", "size", "method", "antialias")


@partial(jax.jit, static_argnames=_FACTS)
def resample(x: Array, *, axis: int, size: int, method: str, antialias: bool = False) -> Array:
    have = x.shape[axis]
    index, weights = taps(have, size, method, antialias)
    if method == "nearest":
        return jnp.take(x, index[:, 0], axis)
    if is_dense(index, have):
        return _along(weight_matrix(have, size, method, antialias), x, axis)
    return _weighed(x, axis, index, weights)


@partial(jax.jit, static_argnames=_FACTS)
def unsample(x: Array, *, axis: int, size: int, method: str, antialias: bool = False) -> Array:
    have = x.shape[axis]
    index, weights = taps_back(size, have, method, antialias)
    if is_dense(index, have):
        return _along(weight_matrix(size, have, method, antialias).T, x, axis)
    return _weighed(x, axis, index, weights)


def _sum_type(x: Array) -> Any:
    return np.float32 if x.dtype.itemsize < 4 else x.dtype


def _weighed(x: Array, axis: int, index: Array, weights: Array) -> Array:
    """One lookup for each tap; XLA sums them in one pass."""
    expanded = (slice(None),) + (None,) * (x.ndim - axis - 1)
    dtype = _sum_type(x)
    parts = [
        jnp.take(x, index[:, k], axis).astype(dtype) * weights[:, k].astype(dtype)[expanded]
        for k in range(index.shape[1])
    ]
    return sum(parts[1:], parts[0]).astype(x.dtype)


def _along(matrix: Array, x: Array, axis: int) -> Array:
    """One product; weights are not rounded to fewer bits than the sums."""
    dtype = _sum_type(x)
    product = jnp.tensordot(matrix.astype(dtype), x.astype(dtype), (1, axis), precision=lax.Precision.HIGHEST)
    return jnp.moveaxis(product, 0, axis).astype(x.dtype)
