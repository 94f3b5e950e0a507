"""Elementwise functions, reductions, shaping, lookups and products.

Most are NumPy's own. The others follow the same conventions: `axis` is a tuple of non-negative ints (an int if only one
axis makes sense), shapes are tuples, and the result has TensorFlow's dtype.
"""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Sequence
from functools import lru_cache
from math import prod as prod_of
from typing import Any

import numpy as np

from gradtape._src import memory, threads
from gradtape._src.arrays.half import HALF, in_float32, mean_dtype, sum_dtype, widened
from gradtape._src.arrays.numpy import blas
from gradtape._src.arrays.numpy.blas import ALONE, ALWAYS_ALONE, SEVERAL
from gradtape._src.arrays.numpy.blocks import LARGE, by_rows
from gradtape._src.arrays.numpy.frames import flushed
from gradtape._src.arrays.shared.elementwise import complex_rsqrt
from gradtape._src.processes import put

Array = Any
Axes = tuple[int, ...]

# NumPy's reductions, untyped: its annotations differ between versions.
_sum: Any = np.add.reduce
_product: Any = np.multiply.reduce
_any: Any = np.logical_or.reduce
_all: Any = np.logical_and.reduce

_FLOAT32 = np.dtype(np.float32)

# Ufuncs take twice as long with a Python number as with an array, if arrays are small (benchmark: mlp32).
_ZERO, _ONE, _FORTY = np.zeros((), np.float32), np.ones((), np.float32), np.full((), 40, np.float32)


# -- elementwise -----------------------------------------------------------------------------------------------------
def sign(x: Array) -> Array:
    if x.dtype.kind != "c":
        return np.sign(flushed(x))
    if np.isfinite(size := np.absolute(x)).all():
        return np.sign(x)
    unit = complex(x.real / size, x.imag / size).astype(x.dtype, copy=False)
    unit = np.where(np.isinf(size), x.dtype.type(complex_nan), unit)
    return np.where(size == 0, x.dtype.type(0), unit)


def floor(x: Array) -> Array:
    return np.floor(flushed(x))


def ceil(x: Array) -> Array:
    return np.ceil(flushed(x))


def mod(x: Array, y: Array) -> Array:
    return np.mod(x, flushed(y))


def fmod(x: Array, y: Array) -> Array:
    return np.fmod(x, flushed(y))


def arctan2(x: Array, y: Array) -> Array:
    return np.arctan2(x, flushed(y))


complex_nan = builtins.complex(np.nan, np.nan)


def power(x: Array, y: Array) -> Array:
    """x**y, with faster formulas for common exponents."""
    if x.dtype.kind == "c":
        result = np.power(x, y)
        if x.all():
            return result
        nothing = np.equal(x, 0) & np.equal(y, 0)  # exp(0 log 0), as in TensorFlow
        return np.where(nothing, result.dtype.type(complex_nan), result)
    if not y.ndim and y.dtype.kind in "fiu":
        exponent = y.item()
        if exponent == 2:
            return np.square(x)
        if exponent == 1:
            return np.positive(x)
        if exponent == 3:
            return x * x * x
        if exponent == 0.5:
            return np.sqrt(x)
        if exponent == -1 and x.dtype.kind != "i":
            return np.reciprocal(x)
    return np.power(x, y)


def reciprocal(x: Array) -> Array:
    if x.dtype.kind == "c":
        return _complex_reciprocal(x)
    return np.reciprocal(x) if x.dtype.kind in "fV" else np.divide(1, x).astype(x.dtype)


def _complex_reciprocal(x: Array) -> Array:
    """1 / x with the limits of C's complex division: 0 at infinity, infinite at 0."""
    result = np.reciprocal(x)
    if np.isnan(result).any():
        infinite, at_zero = np.isinf(x), np.equal(x, 0)
        real = np.where(infinite, 0, np.where(at_zero, np.copysign(np.inf, x.real), result.real))
        result = complex(real, np.where(infinite, 0, result.imag))
    return result


def log1p(x: Array) -> Array:
    return _complex_log1p(x) if x.dtype.kind == "c" else np.log1p(x)


def _complex_log1p(z: Array) -> Array:
    """log(1 + z), with an accurate real part where |1 + z| is close to 1; NumPy adds 1 to z first."""
    result, wide = np.log1p(z), z.astype(np.complex128, copy=False)
    over = wide.real * (2 + wide.real) + wide.imag * wide.imag  # |1 + z|² - 1
    close = np.less(np.absolute(over), 0.5)
    return complex(np.where(close, 0.5 * np.log1p(np.where(close, over, 0)), result.real), result.imag).astype(z.dtype)


def rsqrt(x: Array) -> Array:
    return _complex_rsqrt(x) if x.dtype.kind == "c" else np.reciprocal(np.sqrt(x))


def _complex_rsqrt(z: Array) -> Array:
    x, y = z.real, z.imag
    if ((x > 0) | (y != 0)).all() and np.isfinite(z).all():
        return np.reciprocal(np.sqrt(z))
    return complex(*complex_rsqrt(np, x, y, np.absolute(z))).astype(z.dtype, copy=False)


def sigmoid(x: Array) -> Array:
    """exp(x) / (1 + exp(x)), exact at both ends: from 40 on (11 in half precision) it is 1."""
    if x.dtype.kind == "c":
        positive = x.real >= 0
        small = np.exp(np.where(positive, -x, x))
        return np.where(positive, 1, small).astype(x.dtype, copy=False) / (1 + small)
    if x.dtype is _FLOAT32:
        if x.size < 4096:
            e = np.exp(np.minimum(x, _FORTY))
            return e / (e + _ONE)
        e = np.clip(x, -np.inf, 40)  # on many numbers faster than a minimum
        np.exp(e, out=e)
        return np.divide(e, e + _ONE, out=e)
    e = np.exp(np.minimum(x, 11 if x.dtype.char in HALF else 40))
    return e / (e + 1)


def relu(x: Array) -> Array:
    if x.size < 1024 or not x.flags.c_contiguous:
        return np.maximum(x, _ZERO if x.dtype is _FLOAT32 else 0)
    out = np.zeros(x.shape, x.dtype)  # half the time with an array instead of a number (benchmarks: mlp32, cnn)
    return np.maximum(x, out, out=out)


def gate(x: Array, y: Array) -> Array:
    """x where y is positive, 0 elsewhere."""
    # A product with booleans would cast them as well, in small pieces (benchmarks: mlp32, cnn).
    ones = np.greater(y, _ZERO if y.dtype is _FLOAT32 else 0).astype(x.dtype)
    return np.multiply(x, ones, ones if ones.shape == x.shape != () else None)


def squared_difference(x: Array, y: Array) -> Array:
    if x.dtype is _FLOAT32:
        return np.square(np.subtract(x, y))
    difference = np.subtract(widened(x), widened(y))
    square = np.multiply(difference, np.conjugate(difference)) if x.dtype.kind == "c" else np.square(difference)
    return square.astype(x.dtype, copy=False)


def is_complex(x: Array) -> bool:
    return bool(x.dtype.kind == "c")


def conj(x: Array) -> Array:
    return np.conjugate(x) if x.dtype.kind == "c" else x


def real(x: Array) -> Array:
    return x.real.copy() if x.dtype.kind == "c" else x


def imag(x: Array) -> Array:
    return x.imag.copy() if x.dtype.kind == "c" else np.zeros_like(x)


def angle(x: Array) -> Array:
    return np.arctan2(x.imag, x.real)


def complex(x: Array, y: Array) -> Array:
    result: Any = np.empty(np.broadcast_shapes(x.shape, y.shape), np.result_type(x.dtype, np.complex64))
    result.real, result.imag = x, y  # by parts: 1j * inf would be NaN
    return result


def where(condition: Array, x: Array, y: Array) -> Array:
    dtype = getattr(x if hasattr(x, "dtype") else y, "dtype", None)
    if type(condition) is np.ndarray and condition.size >= _UNPREDICTABLE and condition.dtype.kind == "b":
        bits = _BITS.get(getattr(dtype, "char", ""))
        if bits is not None and builtins.all(not hasattr(a, "dtype") or a.dtype == dtype for a in (x, y)):
            return _chosen(condition, np.asarray(x, dtype), np.asarray(y, dtype), bits)
    result: Any = np.where(condition, x, y)
    return result if result.dtype is dtype or dtype is None or result.dtype == dtype else result.astype(dtype)


_BITS = {"f": np.dtype(np.int32), "d": np.dtype(np.int64)}

_UNPREDICTABLE = 4096
"""The size from which on `where` combines bits: NumPy branches on each condition, which is slower on a CPU."""


def _chosen(condition: Array, x: Array, y: Array, bits: Any) -> Array:
    """x where the condition is true, else y, computed from their bits: y ^ ((x ^ y) & -condition)."""
    result = np.empty(np.broadcast_shapes(condition.shape, x.shape, y.shape), x.dtype)
    mask = np.negative(condition.view(np.int8)).astype(bits)
    out, x, y = (a.view(bits) for a in (result, x, y))
    if not y.ndim and not y:
        np.bitwise_and(x, mask, out=out)
    else:
        np.bitwise_xor(x, y, out=out)
        np.bitwise_and(out, mask, out=out)
        np.bitwise_xor(out, y, out=out)
    return result


def astype(x: Array, *, dtype: Any, source: Any = None) -> Array:
    """A cast: to integers by truncation and saturation, to booleans by comparison with 0, from complex to real numbers
    by taking the real part.
    """
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    if dtype.kind in "iu" and x.dtype.kind not in "iub":
        return _saturated(x, dtype)
    if dtype.kind == "b":
        return np.not_equal(flushed(x), 0)
    return x.astype(dtype)


def _saturated(x: Array, dtype: Any) -> Array:
    """Cast floating-point numbers to integers: out of range ones saturate, NaN becomes 0."""
    below, above = _bounds(dtype)
    if x.size == 1:
        low = high = float(x.item())
    elif x.size:
        low, high = float(np.minimum.reduce(x, None)), float(np.maximum.reduce(x, None))
    else:
        low = high = 0.0
    return x.astype(dtype) if below < low and high < above else _repaired(x, dtype)  # false for NaN


@lru_cache(None)
def _bounds(dtype: Any) -> tuple[int, int]:
    """The integers just outside of the range of a dtype: numbers between them are in range once they are truncated."""
    limits: Any = np.iinfo(dtype)
    return int(limits.min) - 1, int(limits.max) + 1


def _repaired(x: Array, dtype: Any) -> Array:
    limits: Any = np.iinfo(dtype)
    wide = x.astype(np.float64)  # has every limit of up to 53 bits, and the next power of two for the others
    if dtype.itemsize < 8:
        result = np.clip(wide, limits.min, limits.max).astype(dtype)
    else:
        above = wide >= limits.max
        result = np.where(above | (wide < limits.min), 0, wide).astype(dtype)
        result = np.where(above, limits.max, np.where(wide <= limits.min, limits.min, result))
    nan = np.isnan(wide)
    return np.where(nan, dtype.type(0), result) if nan.any() else result


def identity(x: Array) -> Array:
    return x


# -- reductions and scans --------------------------------------------------------------------------------------------
def sum(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    dtype = x.dtype
    if len(axis) == x.ndim - 1 and axis and axis[-1] == x.ndim - 2 and dtype.char in "fd":
        return _sum_of_rows(x, keepdims)
    if dtype is _FLOAT32:
        return _sum(x, axis, None, None, keepdims)
    wide = sum_dtype(dtype)
    total = _sum(x, axis, wide, None, keepdims)
    return total if wide is dtype else total.astype(dtype)


_ROWS = 2**14


def _sum_of_rows(x: Array, keepdims: bool = False) -> Array:
    """The sum along all axes but the last: a product with ones takes a tenth of the time of NumPy's sum."""
    rows = x if x.ndim == 2 else x.reshape(prod_of(x.shape[:-1]), x.shape[-1])  # x may be empty
    total = _dot(_ones(builtins.min(len(rows), _ROWS), x.dtype), rows[:_ROWS])
    for start in range(_ROWS, len(rows), _ROWS):
        part = rows[start : start + _ROWS]
        total += _dot(_ones(len(part), x.dtype), part)
    return total.reshape((1,) * (x.ndim - 1) + total.shape) if keepdims else total


def prod(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    if x.dtype is _FLOAT32:
        return _product(x, axis, None, None, keepdims)
    wide = sum_dtype(x.dtype)
    product = _product(x, axis, wide, None, keepdims)
    return product if wide is x.dtype else product.astype(x.dtype)


def mean(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    """The mean in x's own dtype; for integers, with TensorFlow's integer division."""
    count = 1
    for i in axis:
        count *= x.shape[i]
    if x.dtype is _FLOAT32:  # the most common case (benchmark: mlp32)
        if x.ndim == 1 == len(axis) and count <= _FEW and not keepdims:
            return x.dot(_ones(count, _FLOAT32)) / count
        return sum(x, axis=axis, keepdims=keepdims) / count
    dtype = x.dtype
    wide = dtype if x.size >= _MANY and _sums_fit(x, count) else mean_dtype(dtype)
    total = _sum(x, axis, wide, None, keepdims)
    if dtype.kind in "iu":
        return _truncated_quotient(total, count).astype(dtype) if count else total.astype(dtype)
    # A NumPy scalar of the same dtype, so that low precision is not promoted; the mean of no elements is NaN.
    return (total / total.dtype.type(count)).astype(dtype, copy=False)


_MANY = 4096
"""The number of integers from which on it pays to check whether a sum needs a wider dtype, which is slower."""


def _sums_fit(x: Array, count: int) -> bool:
    """Whether the sum of any `count` elements, 32-bit integers, fits into their own dtype."""
    if x.dtype != np.int32:
        return False
    return builtins.max(abs(int(np.minimum.reduce(x, None))), int(np.maximum.reduce(x, None))) * count < 2**31


def _truncated_quotient(x: Array, count: int) -> Array:
    """Divide integers by a positive number, rounding towards zero."""
    divisor = x.dtype.type(count)
    quotient = x // divisor
    return quotient + ((x < 0) & (quotient * divisor != x)) if x.dtype.kind == "i" else quotient


def max(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return _extreme(np.maximum, x, axis, keepdims, low=True)


def min(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return _extreme(np.minimum, x, axis, keepdims, low=False)


def _extreme(ufunc: np.ufunc, x: Array, axis: Axes, keepdims: bool, low: bool) -> Array:
    if x.size:
        return ufunc.reduce(x, axis=axis, keepdims=keepdims)
    if x.dtype.kind in "iu":
        info = np.iinfo(x.dtype)
        start: Any = info.min if low else info.max
    else:
        start = -np.inf if low else np.inf
    return ufunc.reduce(x, axis=axis, keepdims=keepdims, initial=start)


def any(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return _any(x, axis=axis, keepdims=keepdims)


def all(x: Array, *, axis: Axes, keepdims: bool = False) -> Array:
    return _all(x, axis=axis, keepdims=keepdims)


def argmax(x: Array, *, axis: int) -> Array:
    found = x.argmax(axis)
    return np.where(np.isnan(x), x.dtype.type(-np.inf), x).argmax(axis) if _finds_nan(x, found, axis) else found


def argmin(x: Array, *, axis: int) -> Array:
    found = x.argmin(axis)
    return np.where(np.isnan(x), x.dtype.type(np.inf), x).argmin(axis) if _finds_nan(x, found, axis) else found


def _finds_nan(x: Array, places: Array, axis: int) -> bool:
    """Whether one of the extremes is NaN: NumPy returns the first NaN, TensorFlow ignores them."""
    if x.dtype.kind not in "fV":
        return False
    if x.ndim == 1:
        return bool((value := x[places]) != value)
    if x.ndim == 2:
        others = np.arange(places.size)
        extremes = x[others, places] if axis else x[places, others]
    else:
        extremes = np.take_along_axis(x, np.expand_dims(places, axis), axis)
    return bool(np.isnan(extremes).any())


def argsort(x: Array, *, axis: int, descending: bool = False) -> Array:
    """The stable order: equal elements keep their order in both directions. NaN is larger than every number."""
    if x.dtype.kind == "V":  # bfloat16 does not sort NaN
        x = x.astype(np.float32)
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    flipped = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(flipped, axis)


def cumsum(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    return _scan(np.add, 0, x, axis, exclusive, reverse)


def cumprod(x: Array, *, axis: int, exclusive: bool = False, reverse: bool = False) -> Array:
    return _scan(np.multiply, 1, x, axis, exclusive, reverse)


def _scan(ufunc: np.ufunc, start: int, x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    if reverse:
        x = np.flip(x, axis)
    result = ufunc.accumulate(x, axis=axis, dtype=sum_dtype(x.dtype)).astype(x.dtype, copy=False)
    if exclusive:
        head = np.full_like(np.take(x, [0], axis), start) if x.shape[axis] else x
        result = np.concatenate([head, np.delete(result, -1, axis)], axis) if x.shape[axis] else result
    return np.flip(result, axis) if reverse else result


# -- shaping ---------------------------------------------------------------------------------------------------------
def reshape(x: Array, *, shape: Axes) -> Array:
    return x.reshape(shape)


def transpose(x: Array, *, perm: Axes) -> Array:
    return x.transpose(perm)


def broadcast_to(x: Array, *, shape: Axes) -> Array:
    if (size := prod_of(shape)) > 4096:
        if size >= LARGE:
            memory.prepare(size * x.itemsize)
        return np.broadcast_to(x, shape)
    result = np.empty(shape, x.dtype)  # copying a small array is faster than a view with NumPy's broadcast_to
    result[...] = x
    return result


def concatenate(*xs: Array, axis: int, sizes: Axes = ()) -> Array:
    return np.concatenate(xs, axis)


def stack(*xs: Array, axis: int) -> Array:
    return np.stack(xs, axis)


def unstack(x: Array, *, axis: int) -> tuple[Array, ...]:
    return tuple(np.moveaxis(x, axis, 0))


def split(x: Array, *, sizes: Axes, axis: int) -> tuple[Array, ...]:
    return tuple(np.split(x, np.cumsum(sizes)[:-1], axis))


def pad(x: Array, *, before: Axes, after: Axes) -> Array:
    """Pad x with zeros."""
    shape = tuple(b + n + a for b, n, a in zip(before, x.shape, after, strict=True))
    result = np.zeros(shape, x.dtype)
    result[tuple(slice(b, b + n) for b, n in zip(before, x.shape, strict=True))] = x
    return result


def flip(x: Array, *, axis: Axes) -> Array:
    return np.flip(x, axis)


def roll(x: Array, *, shift: Axes, axis: Axes) -> Array:
    return np.roll(x, shift, axis)


def getitem(x: Array, *, index: tuple[Any, ...]) -> Array:
    return x[index]


def setitem(x: Array, *, index: tuple[Any, ...], shape: Axes) -> Array:
    """Zeros of `shape` with x at `index`: the transpose of `getitem`."""
    result = np.zeros(shape, x.dtype)
    result[index] = x
    return result


# -- indexing --------------------------------------------------------------------------------------------------------
def take(x: Array, indices: Array, *, axis: int, batch_dims: int = 0) -> Array:
    """Take elements of x along `axis`; the first `batch_dims` axes of x and indices are batch axes."""
    if not batch_dims:
        return np.take(x, indices, axis)
    lead = np.ix_(*(np.arange(n) for n in x.shape[:batch_dims]))
    extra = indices.ndim - batch_dims
    x = np.moveaxis(x, axis, batch_dims)
    grids = tuple(g.reshape(g.shape + (1,) * extra) for g in lead)
    picked = x[(*grids, indices)]
    between = range(batch_dims, batch_dims + extra)
    return np.moveaxis(picked, list(between), [axis + i for i in range(extra)])


@in_float32
def add_rows(values: Array, indices: Array, *, shape: Axes) -> Array:
    """Zeros of `shape` with `values` added at `indices` of the first axis; repeated indices are summed, negative ones
    ignored.
    """
    result = np.zeros(shape, values.dtype)
    if indices.size and indices.dtype.kind == "i" and np.minimum.reduce(indices, None) < 0:
        kept = indices >= 0
        indices, values = indices[kept], values[kept]
    starts = run_starts(indices)
    if starts is None:
        np.add.at(result, indices, values)
    else:
        result[indices[starts]] = np.add.reduceat(values, starts, axis=0)
    return result


def run_starts(ids: Array) -> Array | None:
    """The starts of runs of equal ids, if a vector of ids is sorted and has few runs; otherwise None.

    Runs are reduced in one pass, several times as fast as one element after the other (benchmark: ragged reductions).
    """
    if ids.ndim != 1 or ids.size < _FEW or ids[0] > ids[_FEW // 2] or ids[_FEW // 2] > ids[-1]:
        return None
    later = ids[1:]
    if not (later >= ids[:-1]).all():
        return None
    starts = np.flatnonzero(later != ids[:-1]) + 1
    return np.concatenate([[0], starts]) if 2 * starts.size < ids.size else None


_FEW = 64


def gather_nd(x: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    if not indices.shape[-1]:  # coordinates of length 0 select the whole tensor
        batch, rest = x.shape[:batch_dims], x.shape[batch_dims:]
        lifted = x.reshape(*batch, *[1] * (indices.ndim - 1 - batch_dims), *rest)
        return np.broadcast_to(lifted, (*indices.shape[:-1], *rest))
    lead = np.ix_(*(np.arange(n) for n in x.shape[:batch_dims]))
    extra = indices.ndim - 1 - batch_dims
    grids = tuple(g.reshape(g.shape + (1,) * extra) for g in lead)
    return x[(*grids, *np.moveaxis(indices, -1, 0))]


@in_float32
def scatter_nd(updates: Array, indices: Array, *, shape: Axes, batch_dims: int = 0) -> Array:
    """Zeros (or empty strings) of `shape` with `updates` added at `indices`, whose last axis has coordinates."""
    result = np.zeros(shape, updates.dtype) if updates.dtype.kind != "O" else np.full(shape, b"", object)
    lead = np.ix_(*(np.arange(n) for n in shape[:batch_dims]))
    extra = indices.ndim - 1 - batch_dims
    grids = tuple(g.reshape(g.shape + (1,) * extra) for g in lead)
    where_to = (*grids, *np.moveaxis(indices, -1, 0))
    if where_to:
        np.add.at(result, where_to, updates)
    else:  # coordinates of length 0 select the whole tensor
        result += np.add.reduce(updates.reshape((-1, *shape)), axis=0)
    return result


def replace_nd(x: Array, updates: Array, indices: Array) -> Array:
    """x with `updates` written at `indices`; the last one of repeated indices wins."""
    result = np.array(x)
    result[tuple(np.moveaxis(indices, -1, 0))] = updates
    return result


def one_hot(indices: Array, *, depth: int, dtype: Any) -> Array:
    return (indices[..., None] == np.arange(depth)).astype(dtype)


def take_along_axis(x: Array, indices: Array, *, axis: int) -> Array:
    return np.take_along_axis(x, indices, axis)


@in_float32
def put_along_axis(x: Array, indices: Array, *, axis: int, size: int) -> Array:
    """Zeros with x added at `indices` along `axis`: the transpose of `take_along_axis`."""
    shape = [*x.shape]
    shape[axis] = size
    result = np.zeros(shape, x.dtype)
    grid = list(np.ix_(*(np.arange(n) for n in indices.shape)))
    grid[axis] = indices
    np.add.at(result, tuple(grid), x)
    return result


# -- neural ----------------------------------------------------------------------------------------------------------
def softmax(x: Array, *, axis: int) -> Array:
    if x.size >= LARGE and axis in (-1, x.ndim - 1):
        return by_rows(_softmax, x)
    return _softmax(x, axis)


def _softmax(x: Array, axis: int = -1) -> Array:
    dtype = x.dtype
    if dtype is not _FLOAT32:
        x = widened(x)
    e = np.exp(x - _top(x, axis))
    e /= np.add.reduce(e, axis=axis, dtype=e.dtype, keepdims=True)
    return e if e.dtype is dtype else e.astype(dtype)


def log_softmax(x: Array, *, axis: int) -> Array:
    if x.size >= LARGE and axis in (-1, x.ndim - 1):
        return by_rows(_log_softmax, x)
    return _log_softmax(x, axis)


def _log_softmax(x: Array, axis: int = -1) -> Array:
    dtype = x.dtype
    if dtype is not _FLOAT32:
        x = widened(x)
    shifted = x - _top(x, axis)
    shifted -= np.log(np.add.reduce(np.exp(shifted), axis=axis, dtype=shifted.dtype, keepdims=True))
    return shifted if shifted.dtype is dtype else shifted.astype(dtype)


def _top(x: Array, axis: int) -> Array:
    return np.maximum.reduce(x, axis=axis, keepdims=True) if x.size else 0


def pinned(x: Array) -> Array:
    return x


def barrier(x: Array, after: Array) -> Array:
    """Return the first operand after the second one is computed. XLA does not merge computations across it."""
    return x


def standardize(x: Array, *, epsilon: float, centered: bool = True) -> tuple[Array, Array]:
    """Rows minus their mean, divided by their standard deviation, and the inverse of the latter.

    If not `centered`: rows divided by their root mean square.
    """
    wide = widened(x)
    count = wide.dtype.type(x.shape[-1])
    out = wide - (np.add.reduce(wide, -1, keepdims=True) / count if centered else wide.dtype.type(0))
    inverse = 1 / np.sqrt(np.add.reduce(out * out, -1, keepdims=True) / count + wide.dtype.type(epsilon))
    out *= inverse
    return out.astype(x.dtype, copy=False), inverse.astype(x.dtype, copy=False)


def sparse_cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """-log_softmax(logits) at the label of each row, and its gradient: softmax(logits), minus one at the label."""
    if logits.dtype is not _FLOAT32 and logits.dtype.char in HALF:
        loss, slope = sparse_cross_entropy(logits.astype(_FLOAT32), labels)
        return loss.astype(logits.dtype), slope.astype(logits.dtype)
    if logits.ndim != 2:
        loss, slope = sparse_cross_entropy(logits.reshape(-1, logits.shape[-1]), labels.reshape(-1))
        return loss.reshape(labels.shape), slope.reshape(logits.shape)
    # In short rows, NumPy finds the position of the largest number much faster than the number itself, and indexing
    # with one array is five times as fast as with two (benchmarks: mlp32, mlp512).
    count, classes = logits.shape
    starts = _starts(count, classes) if count <= _FEW else np.arange(0, count * classes, classes)
    top = logits.reshape(-1)[starts + logits.argmax(1)]
    slope = np.subtract(logits, top[:, None], order="C")
    dtype, flat = slope.dtype, slope.reshape(-1)
    at = starts + (labels if labels.dtype.kind == "i" else labels.astype(np.intp))
    shifted = flat[at]
    np.exp(slope, slope)
    short = dtype is _FLOAT32 and classes <= _FEW
    total = _dot(slope, _ones(classes, dtype)) if short else np.add.reduce(slope, 1, dtype)
    np.divide(slope, total[:, None], slope)
    chosen = flat[at]
    chosen -= _ONE if dtype is _FLOAT32 else 1
    flat[at] = chosen
    loss = np.log(total)
    np.subtract(loss, shifted, loss)
    return loss, slope


def sum_rows(x: Array) -> Array:
    """The sum along the first axis."""
    if x.ndim == 2 and x.dtype is _FLOAT32:
        # Small arrays use the method of `_sum_of_rows`: gradients of biases (benchmark: rnn).
        return _ones(len(x), _FLOAT32).dot(x) if x.size < _ONE_THREAD else _sum_of_rows(x)
    return sum(x, axis=(0,))


def _one_thread_dot(x: Array, y: Array) -> Array:
    """A product with a vector, which takes no longer than starting the threads of BLAS."""
    return blas.alone(np.dot, x, y)


_dot: Any = _one_thread_dot if SEVERAL else np.dot

_ONE_THREAD = 9216
"""The number of elements of a matrix from which on OpenBLAS starts threads for its product with a vector."""


_FEW = 1024
"""The largest number of elements that a product with ones sums, which starts sooner than NumPy's sum."""


@lru_cache(maxsize=16)
def _ones(count: int, dtype: Any) -> Array:
    return np.ones(count, dtype)


@lru_cache(maxsize=16)
def _starts(count: int, length: int) -> Array:
    """The offsets of rows."""
    return np.arange(0, count * length, length)


# -- linear algebra --------------------------------------------------------------------------------------------------
def _multiplications(x: Array, y: Array, adjoint_y: bool) -> int:
    """The number of multiplications in one call of BLAS for a matrix product."""
    if x.ndim < 2 or y.ndim < 2:
        return 0
    rows = x.shape[-1] * x.shape[-2] if x.ndim > 2 < y.ndim else x.size
    return int(rows * y.shape[-2 if adjoint_y else -1])


_FILLED = 2**14
"""The number of elements of a product from which on `matmul` is faster than `dot`, which zeroes its result first."""


def matmul(
    x: Array,
    y: Array,
    *,
    adjoint_x: bool = False,
    adjoint_y: bool = False,
    out: Array | None = None,
    threads_are_set: bool = False,
) -> Array:
    """The matrix product over the last two axes; a stack times one matrix is a single BLAS call.

    The product of two matrices may be written to `out`; what is returned counts. Unless BLAS's `threads_are_set`, it
    uses one for all but large products: see `blas.py`. Small ones are decided here (benchmarks: rnn, mlp32).
    """
    if x.ndim == 2 == y.ndim and (x.dtype is _FLOAT32 or x.dtype.char in "fd"):
        if SEVERAL and not threads_are_set and (x.shape[1] if adjoint_x else len(x)) * y.size > ALWAYS_ALONE:
            return _product_by_size(x, y, adjoint_x, adjoint_y, out)
        if adjoint_x:
            if len(x) > _TALL and not adjoint_y and _is_tall(x, y):
                return _tall_product(x, y)
            y = y.T if adjoint_y else y
            if out is None:
                return np.matmul(x.T, y) if x.shape[1] * y.shape[1] > _FILLED else x.T.dot(y)
            return np.matmul(x.T, y, out)
        if adjoint_y and 8 <= len(x) <= 64 and len(y) >= 256 <= x.shape[1] and x.dtype is _FLOAT32:
            # A few rows times the transpose of a larger matrix: OpenBLAS takes up to twice as long as for the product
            # of the matrix and the rows, turned round (benchmark: mlp32).
            return y.dot(x.T).T.copy()
        return x.dot(y.T if adjoint_y else y, out)  # faster to call than np.dot and np.matmul (benchmark: rnn)
    if SEVERAL and not threads_are_set and ALWAYS_ALONE < _multiplications(x, y, adjoint_y) < ALONE:
        return blas.alone(matmul, x, y, adjoint_x=adjoint_x, adjoint_y=adjoint_y, threads_are_set=True)
    if x.dtype.char in HALF:
        wide = matmul(x.astype(np.float32), y.astype(np.float32), adjoint_x=adjoint_x, adjoint_y=adjoint_y)
        return wide.astype(x.dtype)
    if x.ndim < 2 or y.ndim < 2:
        raise ValueError("matmul multiplies matrices")
    if adjoint_x:
        x = conj(np.swapaxes(x, -1, -2))
    if adjoint_y:
        y = conj(np.swapaxes(y, -1, -2))
    if x.ndim > 2 and y.ndim == 2 and x.size and x.flags.c_contiguous:
        return np.matmul(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[-1])
    return np.matmul(x, y)


def _product_by_size(x: Array, y: Array, adjoint_x: bool, adjoint_y: bool, out: Array | None) -> Array:
    """A matrix product for which BLAS would use threads: on one thread or, if it is large, divided among ours."""
    a, b = x.T if adjoint_x else x, y.T if adjoint_y else y
    work = a.size * b.shape[1]
    parts = blas.parts(work)
    if parts > 1 and a.shape[1] == len(b) and builtins.max(len(a), b.shape[1]) >= parts * _TILE:
        return _product_in_parts(a, b, parts, out)
    options: dict[str, Any] = {"adjoint_x": adjoint_x, "adjoint_y": adjoint_y, "out": out, "threads_are_set": True}
    return blas.alone(matmul, x, y, **options) if work < ALONE else matmul(x, y, **options)


def _product_in_parts(a: Array, b: Array, parts: int, out: Array | None) -> Array:
    """Divide a product among threads, by rows or by columns."""
    result = np.empty((len(a), b.shape[1]), np.result_type(a, b)) if out is None else out
    rows, columns = result.shape
    wide = result.dtype == _FLOAT32 and columns >= builtins.max(rows, parts * _TILE)
    by_rows = rows >= parts * _TILE and not wide
    length = rows if by_rows else columns
    tiles = -(-length // _TILE)
    ends = [builtins.min(i * tiles // parts * _TILE, length) for i in range(parts + 1)]
    count = builtins.min(threads.limit(), parts)
    each = parts // count

    def multiply_part(i: int) -> None:
        # Threads take numbers in turn, and should not write next to each other: it takes 7 % longer.
        k = i % count * each + i // count if i < count * each else i
        part = slice(ends[k], ends[k + 1])
        if by_rows:
            np.matmul(a[part], b, result[part])
        else:
            np.matmul(a, b[:, part], result[:, part])

    blas.alone(threads.run, multiply_part, parts)
    return result


_TILE = 64
"""Parts have a multiple of this number of rows or columns: BLAS is slower for the remainder at an edge.

Each part packs the operand that is not divided once more. Four parts of a product of two float32 matrices of 1,024 rows
take 1.10 times its CPU time by rows and 1.03 times by columns (times a transpose: 1.12 and 1.04); in float64, whose
blocks are smaller, 1.02 and 1.08.
"""

_SMALL, _TALL = 10**6, 900
"""The multiplications of a small product, and the number of rows up to which a product of few columns is small."""


def _is_tall(x: Array, y: Array) -> bool:
    """Whether two matrices have few columns, and so many rows that their product is not small."""
    columns = x.shape[1] * y.shape[1]
    return len(x) == len(y) and columns <= _FEW and len(x) * columns > _SMALL


def _tall_product(x: Array, y: Array) -> Array:
    """The product of the transpose of a tall matrix with a tall matrix, both with few columns, in blocks of rows.

    OpenBLAS has a faster kernel for products of up to a million multiplications (benchmark: pinn).
    """
    count = -(-x.size * y.shape[1] // _SMALL)
    ends = [i * len(x) // count for i in range(count + 1)]
    total = np.matmul(x[: ends[1]].T, y[: ends[1]])
    for start, stop in itertools.pairwise(ends[1:]):
        total += np.matmul(x[start:stop].T, y[start:stop])
    return total


def einsum(*xs: Array, equation: str) -> Array:
    """An einsum; three and more operands are contracted in a good order."""
    if xs[0].dtype.char in HALF:
        return np.einsum(equation, *(x.astype(np.float32) for x in xs), optimize=True).astype(xs[0].dtype)
    return np.einsum(equation, *xs, optimize=len(xs) > 1)


def zeros(shape: Sequence[int], dtype: Any) -> Array:
    if prod_of(shape) >= LARGE:
        memory.prepare(2**20)
    return np.zeros(shape, dtype)


def zeros_like(x: Array) -> Array:
    return np.zeros_like(x)


def ones_like(x: Array) -> Array:
    result = np.empty(x.shape, x.dtype)  # np.ones_like is slow, and every gradient starts here
    result.fill(1)
    return result


def from_numpy(x: Array) -> Array:
    """A NumPy array as an array of this engine."""
    return x


def alongside(x: Array, y: Array) -> Array:
    """x as an array of the engine, and on the device, of y."""
    return x if type(x) is np.ndarray else np.asarray(x)


def transfer(x: Array, *, device: Any, source: Any) -> Array:
    """x on another device: a JAX device, or None for NumPy; `source` is its own device."""
    return x if device is None else put(x, device)
