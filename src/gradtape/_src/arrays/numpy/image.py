"""Resizing: a linear map along one axis, from a few weighted neighbors for every position of the result.

Positions and weights are computed in single precision like in TensorFlow's kernels: half-pixel centers, kernels that
are widened for shrinking with antialiasing, a table of 1024 steps for plain bicubic interpolation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

Array = Any
_f = np.float32
_TINY = 1000 * float(np.finfo(np.float32).tiny)  # weights are not divided by totals below this


# -- kernels: radius and weight at a distance ------------------------------------------------------------------------
def _triangle(x: Array) -> Array:
    return np.maximum(1 - x, 0)


def _keys_cubic(x: Array) -> Array:
    near = ((1.5 * x - 2.5) * x) * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


def _mitchell_cubic(x: Array) -> Array:
    near = ((7 / 6 * x - 2) * x) * x + 8 / 9
    far = ((-7 / 18 * x + 2) * x - 10 / 3) * x + 16 / 9
    return np.where(x >= 2, 0, np.where(x >= 1, far, near))


def _gaussian(x: Array) -> Array:
    return np.where(x >= 1.5, 0, np.exp(-x * x / (2 * 0.5 * 0.5)))


def _lanczos(radius: float) -> Callable[[Array], Array]:
    def weight(x: Array) -> Array:
        safe = np.where(x > 1e-3, x, 1)
        wave = radius * np.sin(np.pi * safe) * np.sin(np.pi * safe / radius) / (np.pi * np.pi * safe * safe)
        return np.where(x > radius, 0, np.where(x <= 1e-3, 1, wave))

    return weight


_KERNELS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "bilinear": (1.0, _triangle),
    "bicubic": (2.0, _keys_cubic),
    "mitchellcubic": (2.0, _mitchell_cubic),
    "gaussian": (1.5, _gaussian),
    "lanczos3": (3.0, _lanczos(3.0)),
    "lanczos5": (5.0, _lanczos(5.0)),
}


# -- taps: the source positions and weights for every position of the result -----------------------------------------
@lru_cache(maxsize=64)
def taps(size: int, wanted: int, method: str, antialias: bool) -> tuple[Array, Array]:
    """Indices and weights [wanted, taps] of a resize from `size` to `wanted`."""
    step = _f(size) / _f(wanted)
    out = np.arange(wanted, dtype=_f)
    if method == "nearest":
        index = np.minimum(np.floor((out + _f(0.5)) * step).astype(np.int64), size - 1)[:, None]
        weights = np.ones((wanted, 1))
    elif method == "area":
        index, weights = _area_taps(size, step, out)
    elif antialias or method not in ("bilinear", "bicubic"):
        index, weights = _kernel_taps(size, wanted, method, antialias, out)
    elif method == "bilinear":
        at = (out + _f(0.5)) * step - _f(0.5)
        floor = np.floor(at)
        part = (at - floor).astype(np.float64)
        low, high = np.maximum(floor, 0), np.minimum(np.ceil(at), size - 1)
        index, weights = np.stack([low, high], 1).astype(np.int64), np.stack([1 - part, part], 1)
    else:
        index, weights = _table_taps(size, step, out)
    index.setflags(write=False)
    weights.setflags(write=False)
    return index, weights


def _area_taps(size: int, step: Any, out: Array) -> tuple[Array, Array]:
    """Every source pixel is weighted by the part of it that the result's pixel covers."""
    first, last = out * step, (out + 1) * step
    start, end = np.floor(first).astype(np.int64), np.ceil(last).astype(np.int64)
    at = start[:, None] + np.arange(int(np.max(end - start, initial=1)))
    low, high = np.maximum(at, first[:, None]), np.minimum(at + 1, last[:, None])
    return np.minimum(at, size - 1), np.maximum(high - low, 0).astype(np.float64) / float(step)


def _kernel_taps(size: int, wanted: int, method: str, antialias: bool, out: Array) -> tuple[Array, Array]:
    radius, kernel = _KERNELS[method]
    inverse = _f(1) / (_f(wanted) / _f(size))
    widened = max(float(inverse), 1.0) if antialias else 1.0
    at = (out + _f(0.5)) * inverse
    reach = radius * widened
    start = np.clip(np.ceil(at - _f(reach) - _f(0.5)), 0, size - 1).astype(np.int64)
    end = np.clip(np.floor(at + _f(reach) - _f(0.5)), 0, size - 1).astype(np.int64)
    index = start[:, None] + np.arange(int(np.max(end - start, initial=0)) + 1)
    weights = kernel(np.abs((index + _f(0.5)) - at[:, None].astype(np.float64)) / widened)
    weights = np.where(index <= end[:, None], weights, 0)
    return np.minimum(index, size - 1), _to_one(weights)


def _table_taps(size: int, step: Any, out: Array) -> tuple[Array, Array]:
    """Four cubic weights, at distances rounded to 1/1024; neighbors beyond the border have weight 0."""
    at = (out + _f(0.5)) * step - _f(0.5)
    floor = np.floor(at)
    part = np.rint((at - floor) * _f(1024)) / 1024
    index = floor.astype(np.int64)[:, None] + np.arange(-1, 3)
    weights = _keys_cubic(np.stack([1 + part, part, 1 - part, 2 - part], 1).astype(np.float64))
    weights = np.where((index >= 0) & (index < size), weights, 0)
    return np.clip(index, 0, size - 1), _to_one(weights)


def _to_one(weights: Array) -> Array:
    total = weights.sum(1, keepdims=True)
    return weights / np.where(np.abs(total) >= _TINY, total, 1)


@lru_cache(maxsize=64)
def taps_back(size: int, wanted: int, method: str, antialias: bool) -> tuple[Array, Array]:
    """The taps of the transpose: the result positions that each of `size` source positions contributes to."""
    index, weights = taps(size, wanted, method, antialias)
    used = weights != 0
    to = np.broadcast_to(np.arange(wanted)[:, None], index.shape)[used]
    source, weight = index[used], weights[used]
    order = np.argsort(source, kind="stable")
    source, to, weight = source[order], to[order], weight[order]
    counts = np.bincount(source, minlength=size)
    place = np.arange(len(source)) - np.repeat(np.cumsum(counts) - counts, counts)
    width = max(int(counts.max(initial=0)), 1)
    back, back_weights = np.zeros((size, width), np.int64), np.zeros((size, width))
    back[source, place], back_weights[source, place] = to, weight
    return back, back_weights


@lru_cache(maxsize=64)
def weight_matrix(size: int, wanted: int, method: str, antialias: bool) -> Array:
    index, weights = taps(size, wanted, method, antialias)
    result = np.zeros((wanted, size))
    np.add.at(result, (np.arange(wanted)[:, None], index), weights)
    result.setflags(write=False)
    return result


# -- the map and its transpose ---------------------------------------------------------------------------------------
def resample(x: Array, *, axis: int, size: int, method: str, antialias: bool = False) -> Array:
    """Resize one axis to `size`."""
    have = x.shape[axis]
    index, weights = taps(have, size, method, antialias)
    if method == "nearest":
        return np.take(x, index[:, 0], axis)
    if x.dtype.itemsize < 4:
        return resample(x.astype(_f), axis=axis, size=size, method=method, antialias=antialias).astype(x.dtype)
    if is_dense(index, have):
        return _along(weight_matrix(have, size, method, antialias).astype(x.dtype), x, axis)
    return _weighed(x, axis, index, weights)


def unsample(x: Array, *, axis: int, size: int, method: str, antialias: bool = False) -> Array:
    """The transpose of `resample`, from the result to `size` source positions."""
    have = x.shape[axis]
    if x.dtype.itemsize < 4:
        return unsample(x.astype(_f), axis=axis, size=size, method=method, antialias=antialias).astype(x.dtype)
    index, weights = taps_back(size, have, method, antialias)
    if is_dense(index, have):
        return _along(weight_matrix(size, have, method, antialias).T.astype(x.dtype), x, axis)
    return _weighed(x, axis, index, weights)


def _weighed(x: Array, axis: int, index: Array, weights: Array) -> Array:
    """Sum over taps, one pass for each: the source elements times their weights."""
    expanded = (slice(None),) + (None,) * (x.ndim - axis - 1)
    weights = weights.astype(x.dtype)
    result = np.take(x, index[:, 0], axis)
    result *= weights[:, 0][expanded]
    for k in range(1, index.shape[1]):
        part = np.take(x, index[:, k], axis)
        part *= weights[:, k][expanded]
        result += part
    return result


def is_dense(index: Array, size: int) -> bool:
    """Whether a product with the whole matrix is cheaper than one pass for each tap."""
    return bool(index.shape[1] * 16 >= size)


def _along(matrix: Array, x: Array, axis: int) -> Array:
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    flat = x.reshape(int(np.prod(lead)), x.shape[axis], int(np.prod(rest)))
    return np.matmul(matrix, flat).reshape(*lead, len(matrix), *rest)
