"""Segments, scatters and scans on JAX arrays: see arrays/numpy/segment.py for the meaning of each function."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradtape._src.arrays.half import widened
from gradtape._src.arrays.xla.core import concrete_only, coordinates, shifted_scan

Array = Any


# -- segments --------------------------------------------------------------------------------------------------------
def segment_max(x: Array, ids: Array, *, count: int, gaps: bool = False) -> Array:
    found = jnp.maximum(jax.ops.segment_max(x, ids, num_segments=count), _edge(x.dtype, "min"))
    return _without_gaps(found, ids, count) if gaps else found


def segment_min(x: Array, ids: Array, *, count: int, gaps: bool = False) -> Array:
    found = jnp.minimum(jax.ops.segment_min(x, ids, num_segments=count), _edge(x.dtype, "max"))
    return _without_gaps(found, ids, count) if gaps else found


def _without_gaps(found: Array, ids: Array, count: int) -> Array:
    """Zeros for ids without rows."""
    rows = jax.ops.segment_sum(jnp.ones(ids.shape, np.int32), ids, num_segments=count)
    return jnp.where(jnp.reshape(rows > 0, (count,) + (1,) * (found.ndim - 1)), found, 0)


def _edge(dtype: Any, which: str) -> Any:
    """The lowest or highest finite number of a dtype, as a scalar of that dtype."""
    limits_of: Any = jnp.iinfo if dtype.kind in "iu" else jnp.finfo
    limits = limits_of(dtype)
    return np.asarray(getattr(limits, which), dtype)


# -- scatters --------------------------------------------------------------------------------------------------------
def scatter_max(x: Array, updates: Array, indices: Array) -> Array:
    return jnp.asarray(x).at[coordinates(indices)].max(updates)


def scatter_min(x: Array, updates: Array, indices: Array) -> Array:
    return jnp.asarray(x).at[coordinates(indices)].min(updates)


# -- scans -----------------------------------------------------------------------------------------------------------
def cumulative_logsumexp(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    return _running_log(widened(x), axis, exclusive, reverse).astype(x.dtype)


def _running_log(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    return shifted_scan(lax.cumlogsumexp(x, axis=axis, reverse=reverse), -np.inf, axis, exclusive, reverse)


# -- bits and order --------------------------------------------------------------------------------------------------
def bitcast(x: Array, *, dtype: Any) -> Array:
    """XLA supports all dtypes but complex ones, which are converted as bytes."""
    if x.dtype.kind != "c" != dtype.kind:
        return lax.bitcast_convert_type(x, dtype)
    numbers = jnp.stack([jnp.real(x), jnp.imag(x)], axis=-1) if x.dtype.kind == "c" else x
    raw = lax.bitcast_convert_type(numbers, np.uint8)
    shape = x.shape[:-1] if dtype.itemsize > x.dtype.itemsize else x.shape
    if dtype.itemsize < x.dtype.itemsize:
        shape = (*shape, x.dtype.itemsize // dtype.itemsize)
    if dtype.kind == "c":
        part = np.dtype(np.float32 if dtype.itemsize == 8 else np.float64)
        pairs = lax.bitcast_convert_type(jnp.reshape(raw, (*shape, 2, part.itemsize)), part)
        return lax.complex(pairs[..., 0], pairs[..., 1])
    return lax.bitcast_convert_type(jnp.reshape(raw, (*shape, *[dtype.itemsize][: dtype.itemsize > 1])), dtype)


def searchsorted(rows: Array, values: Array, *, side: str) -> Array:
    def one(row: Array, requested: Array) -> Array:
        return jnp.searchsorted(row, requested, side=side)

    flat, wanted = jnp.reshape(rows, (-1, rows.shape[-1])), jnp.reshape(values, (-1, values.shape[-1]))
    found = jnp.reshape(jax.vmap(one)(flat, wanted), values.shape).astype(np.int64)
    if values.dtype.kind not in "fV":
        return found
    return jnp.where(jnp.isnan(values), 0 if side == "left" else rows.shape[-1], found)


def unique(x: Array) -> tuple[Array, Array, Array]:
    concrete_only(x, "unique")
    _, first, inverse, count = jnp.unique(
        x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
    )
    order = jnp.argsort(first, stable=True)
    place = jnp.argsort(order, stable=True)
    return x[first[order]], place[jnp.ravel(inverse)], count[order]
