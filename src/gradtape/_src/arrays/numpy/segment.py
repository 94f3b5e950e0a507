"""Segments, scatters and scans for which NumPy has no single function."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.arrays.half import widened
from gradtape._src.arrays.numpy.core import run_starts
from gradtape._src.interrupts import float_errors_ignored

Array = Any
Axes = tuple[int, ...]


# -- segments --------------------------------------------------------------------------------------------------------
def segment_max(x: Array, ids: Array, *, count: int, gaps: bool = False) -> Array:
    """The largest of the rows with each id; an id without rows gets the lowest number, or 0 if `gaps`."""
    return _segment_extreme(np.maximum, x, ids, count, _edge(x.dtype, low=True), gaps)


def segment_min(x: Array, ids: Array, *, count: int, gaps: bool = False) -> Array:
    return _segment_extreme(np.minimum, x, ids, count, _edge(x.dtype, low=False), gaps)


def _segment_extreme(ufunc: np.ufunc, x: Array, ids: Array, count: int, edge: Any, gaps: bool) -> Array:
    """The extreme of each segment. Sorted by id, segments are runs, which are reduced in one pass."""
    result = np.full((count, *x.shape[1:]), 0 if gaps else edge, x.dtype)
    if ids.size:
        starts = run_starts(ids)
        if starts is None:
            order = np.argsort(ids, kind="stable")
            x, ids = x[order], ids[order]
            starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]]))
        result[ids[starts]] = ufunc(ufunc.reduceat(x, starts, axis=0), np.asarray(edge, x.dtype))
    return result


def _edge(dtype: Any, low: bool) -> Any:
    """The lowest or highest finite number of a dtype."""
    if dtype.kind in "iu":
        info: Any = np.iinfo(dtype)
    elif dtype.kind == "f":
        info = np.finfo(dtype)
    else:
        import ml_dtypes

        info = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    return info.min if low else info.max


# -- scatters --------------------------------------------------------------------------------------------------------
def scatter_max(x: Array, updates: Array, indices: Array) -> Array:
    """x with the larger of its own and the updates' elements at `indices` (whose last axis holds coordinates)."""
    return _scatter_extreme(np.maximum, x, updates, indices)


def scatter_min(x: Array, updates: Array, indices: Array) -> Array:
    return _scatter_extreme(np.minimum, x, updates, indices)


def _scatter_extreme(ufunc: np.ufunc, x: Array, updates: Array, indices: Array) -> Array:
    result = np.array(x)
    ufunc.at(result, tuple(np.moveaxis(indices, -1, 0)), updates)
    return result


# -- scans -----------------------------------------------------------------------------------------------------------
def cumulative_logsumexp(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    """The logarithm of cumulative sums of exp(x); -inf for empty sums."""
    return _running_log(widened(x), axis, exclusive, reverse).astype(x.dtype, copy=False)


def _running_log(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    if not x.shape[axis]:
        return x
    x = np.moveaxis(x, axis, 0)
    if reverse:
        x = x[::-1]
    with float_errors_ignored():
        result = np.logaddexp.accumulate(x, axis=0)
    if exclusive:
        result = np.concatenate([np.full_like(result[:1], -np.inf), result[:-1]])
    return np.moveaxis(result[::-1] if reverse else result, 0, axis)


# -- bits and order --------------------------------------------------------------------------------------------------
def bitcast(x: Array, *, dtype: Any) -> Array:
    """Reinterpret the bytes as another dtype; the last axis appears or disappears if sizes differ."""
    x = np.ascontiguousarray(x).reshape(x.shape)  # scalars have no axes
    if dtype.itemsize == x.dtype.itemsize:
        return x.view(dtype)
    if dtype.itemsize < x.dtype.itemsize:
        return x.reshape(*x.shape, 1).view(dtype)
    return x.view(dtype).reshape(x.shape[:-1])


def searchsorted(rows: Array, values: Array, *, side: Any) -> Array:
    """The position at which each value would be inserted to keep its row sorted; NaN goes to the end of that side."""
    result = np.empty(values.shape, np.int64)
    for at in np.ndindex(rows.shape[:-1]):
        result[at] = np.searchsorted(rows[at], values[at], side)
    if values.dtype.kind in "fV":
        result[np.isnan(values)] = 0 if side == "left" else rows.shape[-1]
    return result


def _unique_texts(x: Array) -> tuple[Array, Array, Array]:
    """`unique` for strings, by a dict, which needs no order."""
    texts = x.tolist()
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    found = np.empty(len(places), object)
    found[:] = list(places)
    where = np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
    return found, where, np.bincount(where, minlength=len(places))


def unique(x: Array) -> tuple[Array, Array, Array]:
    """The unique elements in the order of first occurrence, the index of each element among them, and their counts."""
    if x.dtype.kind == "O":
        return _unique_texts(x)
    _, first, inverse, count = np.unique(x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False)
    order = np.argsort(first, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    return x[first[order]], place[inverse.reshape(-1)], count[order]
