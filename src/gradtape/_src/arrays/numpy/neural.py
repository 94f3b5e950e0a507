"""Convolution, pooling and attention: views and BLAS calls.

Images are [batch, *space, channels], filters [*window, channels of a group, out channels]; output channels are ordered
by group. `padding` has a pair for each spatial axis. Loops are over the taps of a window, never over positions.

A convolution is a product of two matrices, one of which (the columns: every window written out) is created in pieces,
so that it stays in the cache. If the contiguous runs inside a window are short (few channels), the columns are
transposed, taps first: then the runs are the rows of an image (benchmark: cnn).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from gradtape._src.arrays.dimension import maximum
from gradtape._src.arrays.half import HALF, in_float32, widened
from gradtape._src.arrays.numpy.blas import by_size

Array = Any
Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]

_PIECE = 1 << 18  # elements of the columns at a time, so that they fit into the cache
_KEPT = 1 << 24  # bytes that a thread keeps for its next columns
_SHORT = 16  # elements: shorter runs are dominated by overhead


def conv_sizes(sizes: Sizes, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Sizes:
    """The number of positions of a window along each spatial axis."""
    return tuple(
        maximum((n + low + high - (k - 1) * d - 1) // s + 1, 0)
        for n, k, s, d, (low, high) in zip(sizes, window, strides, dilations, padding, strict=True)
    )


def _padded(x: Array, padding: Pairs, value: Any = 0) -> Array:
    if not any(low or high for low, high in padding):
        return x
    shape = (x.shape[0], *(n + low + high for n, (low, high) in zip(x.shape[1:-1], padding, strict=True)), x.shape[-1])
    result = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    result[(slice(None), *(slice(low, low + n) for n, (low, _) in zip(x.shape[1:-1], padding, strict=True)))] = x
    return result


def _windows(x: Array, window: Sizes, out: Sizes, strides: Sizes, dilations: Sizes) -> Array:
    """A view [batch, *out, *window, ...] of [batch, *space, ...]: every window of an image that is already padded."""
    rank = len(window)
    space = x.strides[1 : 1 + rank]
    steps = (
        x.strides[0],
        *(step * s for step, s in zip(space, strides, strict=True)),
        *(step * d for step, d in zip(space, dilations, strict=True)),
        *x.strides[1 + rank :],
    )
    return as_strided(x, (x.shape[0], *out, *window, *x.shape[1 + rank :]), steps, writeable=False)


def _taps(
    sizes: Sizes, window: Sizes, out: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs
) -> Iterator[tuple[Sizes, tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap of a window, in row-major order: the tap, the positions whose tap lies inside, and where it lies."""
    axes = []
    for n, k, m, s, d, (low, _) in zip(sizes, window, out, strides, dilations, padding, strict=True):
        spans = []
        for i in range(k):
            offset = i * d - low
            first, last = max(0, -(offset // s)), min(m, (n - 1 - offset) // s + 1)
            if first < last:
                spans.append((i, slice(first, last), slice(first * s + offset, (last - 1) * s + offset + 1, s)))
        axes.append(spans)
    for spans_of_tap in product(*axes):
        tap, positions, places = zip(*spans_of_tap, strict=True) if spans_of_tap else ((), (), ())
        yield tap, (slice(None), *positions), (slice(None), *places)


def _pieces(batch: int, out: Sizes, each: int) -> Iterator[tuple[slice, slice]]:
    """Divide [batch, *out] into pieces whose columns (`each` elements per position) fit into the cache."""
    image = prod(out) * each
    if image <= _PIECE or not out:
        count = max(_PIECE // max(image, 1), 1)
        for n in range(0, batch, count):
            yield slice(n, n + count), slice(None)
        return
    rows = max(_PIECE // max(image // out[0], 1), 1)
    for n in range(batch):
        for row in range(0, out[0], rows):
            yield slice(n, n + 1), slice(row, row + rows)


# -- convolution and its two transposes ------------------------------------------------------------------------------
def _multiplications(x: Array, y: Array, **geometry: Any) -> int:
    """The approximate number of multiplications in one call of BLAS for a convolution."""
    return int(min(_PIECE, 9 * x.size) * y.shape[-1])


@in_float32
@by_size(_multiplications)
def conv(x: Array, y: Array, *, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int = 1) -> Array:
    """Convolve the images x with the filters y."""
    window, depth, channels = y.shape[:-2], y.shape[-2], y.shape[-1]
    batch, sizes = x.shape[0], x.shape[1:-1]
    out = conv_sizes(sizes, window, strides, dilations, padding)
    if groups > 1:
        if depth == 1:
            return _depthwise(x, y, out, strides, dilations, padding, groups)
        return _grouped(x, y, out, strides, dilations, padding, groups)
    x = _padded(x, padding)
    count = prod(window)
    matrix = y.reshape(count * depth, channels)
    if count == 1 and out == x.shape[1:-1]:
        return np.dot(x.reshape(-1, depth), matrix).reshape(batch, *out, channels)
    result = np.empty((batch, *out, channels), x.dtype)
    view = _windows(x, window, out, strides, dilations)
    taps_first = _taps_first(window, depth, dilations)
    for items, rows in _pieces(batch, out, count * depth):
        part = result[items, rows] if out else result[items]
        np.matmul(
            _columns(view[items, rows] if out else view[items], len(out), taps_first),
            matrix,
            out=part.reshape(-1, channels),
        )
    return result


def _taps_first(window: Sizes, depth: int, dilations: Sizes) -> bool:
    """Whether the runs inside a window are too short to be copied one by one."""
    return prod(window) > 1 and (window[-1] if dilations[-1] == 1 else 1) * depth < _SHORT


def _columns(view: Array, rank: int, taps_first: bool) -> Array:
    """Windows [batch, *out, *window, depth] as a matrix [positions, taps * depth], valid until the next call."""
    positions, taps = prod(view.shape[: rank + 1]), prod(view.shape[rank + 1 :])
    if taps_first:
        view = view.transpose(*range(rank + 1, view.ndim), *range(rank + 1))
    room = _room(positions * taps, view.dtype)
    np.copyto(room.reshape(view.shape), view)
    return room.reshape(taps, positions).T if taps_first else room.reshape(positions, taps)


_scratch = threading.local()


def _room(size: int, dtype: Any) -> Array:
    """Memory of this thread that is reused: page faults of new memory cost more than filling it."""
    need = size * dtype.itemsize
    have = getattr(_scratch, "bytes", None)
    if have is None or have.size < need:
        have = np.empty(need, np.uint8)
        if need <= _KEPT:
            _scratch.bytes = have
    return have[:need].view(dtype)


@in_float32
@by_size(_multiplications)
def conv_input_grad(
    z: Array, y: Array, *, shape: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int = 1
) -> Array:
    """The transpose of `conv` in x: from outputs z through the filters y to images of `shape` (spatial sizes)."""
    window, depth, channels = y.shape[:-2], y.shape[-2], y.shape[-1]
    batch, out = z.shape[0], z.shape[1:-1]
    taps = list(_taps(shape, window, out, strides, dilations, padding))
    if groups > 1:
        if depth == 1:
            return _depthwise_input(z, y, shape, taps, strides, groups)
        return _grouped_input(z, y, shape, taps, groups)
    if prod(window) == 1 and out == shape and not any(low for low, _ in padding):
        return np.dot(z.reshape(-1, channels), y.reshape(depth, channels).T).reshape(batch, *shape, depth)
    if depth < _SHORT // 2:  # products with few columns are slow: all taps in one product, channels first
        result = np.zeros((depth, batch, *shape), z.dtype)
        matrix = y.reshape(prod(window) * depth, channels)
        products = np.matmul(matrix, z.reshape(-1, channels).T).reshape(*window, depth, batch, *out)
        for tap, positions, places in taps:
            result[(slice(None), *places)] += products[tap][(slice(None), *positions)]
        return np.ascontiguousarray(np.moveaxis(result, 0, -1))
    result = np.zeros((batch, *shape, depth), z.dtype)
    step = max(_PIECE // max(prod(out) * (depth + channels), 1), 1)
    for n in range(0, batch, step):
        rows = z[n : n + step].reshape(-1, channels)
        into, form = result[n : n + step], (-1, *out, depth)
        for tap, positions, places in taps:
            into[places] += np.dot(rows, y[tap].T).reshape(form)[positions]
    return result


@in_float32
@by_size(_multiplications)
def conv_filter_grad(
    x: Array, z: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int = 1
) -> Array:
    """The transpose of `conv` in y: correlate the images x with the outputs z, for each tap of a window."""
    batch, out, channels = x.shape[0], z.shape[1:-1], z.shape[-1]
    depth = x.shape[-1] // groups
    if groups > 1:
        if depth == 1:
            return _depthwise_filter(x, z, window, strides, dilations, padding, groups)
        return _grouped_filter(x, z, window, strides, dilations, padding, groups)
    x = _padded(x, padding)
    count = prod(window)
    if count == 1 and out == x.shape[1:-1]:
        return np.dot(x.reshape(-1, depth).T, z.reshape(-1, channels)).reshape(*window, depth, channels)
    view = _windows(x, window, out, strides, dilations)
    taps_first = _taps_first(window, depth, dilations)
    result = np.zeros((count * depth, channels), x.dtype)
    for items, rows in _pieces(batch, out, count * depth):
        columns = _columns(view[items, rows] if out else view[items], len(out), taps_first)
        result += np.dot(columns.T, (z[items, rows] if out else z[items]).reshape(-1, channels))
    return result.reshape(*window, depth, channels)


# -- groups: each has its own channels; with one channel per group there is no matrix product ------------------------
def _by_group(x: Array, groups: int) -> Array:
    """Reshape [..., groups * c] to [..., groups, c]."""
    return x.reshape(*x.shape[:-1], groups, x.shape[-1] // groups)


def _filters(y: Array, groups: int) -> Array:
    """Reshape filters [*window, c, groups * o] to one matrix [taps * c, o] for each group."""
    split = np.moveaxis(_by_group(y, groups), -2, 0)
    return split.reshape(groups, -1, split.shape[-1])


def _grouped_columns(
    x: Array, window: Sizes, out: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int
) -> Array:
    view = _windows(_by_group(_padded(x, padding), groups), window, out, strides, dilations)
    columns = np.ascontiguousarray(np.moveaxis(view, -2, 0))
    return columns.reshape(groups, x.shape[0] * prod(out), prod(window) * (x.shape[-1] // groups))


def _grouped(x: Array, y: Array, out: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int) -> Array:
    columns = _grouped_columns(x, y.shape[:-2], out, strides, dilations, padding, groups)
    result = np.matmul(columns, _filters(y, groups))
    return np.moveaxis(result, 0, 1).reshape(x.shape[0], *out, y.shape[-1])


def _grouped_input(z: Array, y: Array, shape: Sizes, taps: Any, groups: int) -> Array:
    batch, out = z.shape[0], z.shape[1:-1]
    rows = np.ascontiguousarray(np.moveaxis(_by_group(z, groups), -2, 0)).reshape(groups, -1, z.shape[-1] // groups)
    filters = np.moveaxis(_by_group(y, groups), -2, 0)  # [groups, *window, c, o]
    result = np.zeros((groups, batch, *shape, y.shape[-2]), z.dtype)
    form = (groups, batch, *out, y.shape[-2])
    for tap, positions, places in taps:
        part = np.matmul(rows, np.swapaxes(filters[(slice(None), *tap)], -1, -2)).reshape(form)
        result[(slice(None), *places)] += part[(slice(None), *positions)]
    return np.moveaxis(result, 0, -2).reshape(batch, *shape, groups * y.shape[-2])


def _grouped_filter(
    x: Array, z: Array, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int
) -> Array:
    out, depth = z.shape[1:-1], x.shape[-1] // groups
    columns = _grouped_columns(x, window, out, strides, dilations, padding, groups)
    rows = np.moveaxis(_by_group(z, groups), -2, 0).reshape(groups, -1, z.shape[-1] // groups)
    result = np.matmul(np.swapaxes(columns, -1, -2), rows)  # [groups, taps * c, o]
    return np.moveaxis(result, 0, 1).reshape(*window, depth, z.shape[-1])


# Depthwise: a tap is an elementwise product, not a matrix product. With several filters per channel, repeat channels.
def _depthwise(x: Array, y: Array, out: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int) -> Array:
    channels = y.shape[-1]
    if channels > groups:
        x = np.repeat(x, channels // groups, axis=-1)
    result = np.zeros((x.shape[0], *out, channels), x.dtype)
    taps = list(_taps(x.shape[1:-1], y.shape[:-2], out, strides, dilations, padding))
    _add_products(result, x, y, taps, strides[-1] == 1)
    return result


def _depthwise_input(z: Array, y: Array, shape: Sizes, taps: Any, strides: Sizes, groups: int) -> Array:
    result = np.zeros((z.shape[0], *shape, z.shape[-1]), z.dtype)
    _add_products(result, z, y, [(tap, places, positions) for tap, positions, places in taps], strides[-1] == 1)
    many = z.shape[-1] // groups
    if many == 1:
        return result
    total = result[..., ::many].copy()
    for i in range(1, many):
        total += result[..., i::many]
    return total


def _add_products(result: Array, x: Array, y: Array, taps: Any, in_rows: bool) -> None:
    """result[into] += x[source] * y[tap] for every tap, some images at a time so that they stay in the cache.

    If neighbors in a row remain neighbors (`in_rows`), a row with its channels is one contiguous run: the filter is
    repeated along it, because a run of channels alone is too short.
    """
    filters = y.reshape(*y.shape[:-2], y.shape[-1])
    x = np.ascontiguousarray(x)
    step = max(_PIECE // max(prod(result.shape[1:]), 1), 1)
    for n in range(0, len(x), step):
        image, total = x[n : n + step], result[n : n + step]
        for tap, into, source in taps:
            a, b, f = image[source], total[into], filters[tap]
            if in_rows:
                merged = (*a.shape[:-2], a.shape[-2] * a.shape[-1])
                a, b, f = a.reshape(merged), b.reshape(merged), np.tile(f, a.shape[-2])
            product = _room(a.size, a.dtype).reshape(a.shape)
            b += np.multiply(a, f, out=product)


def _depthwise_filter(
    x: Array, z: Array, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int
) -> Array:
    out, channels = z.shape[1:-1], z.shape[-1]
    if channels > groups:
        x = np.repeat(x, channels // groups, axis=-1)
    result = np.zeros((*window, channels), x.dtype)
    axes = "abcdefgh"[: x.ndim - 1]
    for tap, positions, places in _taps(x.shape[1:-1], window, out, strides, dilations, padding):
        result[tap] = np.einsum(f"{axes}z,{axes}z->z", x[places], z[positions])
    return result.reshape(*window, 1, channels)


# -- windows as patches ----------------------------------------------------------------------------------------------
def conv_patches(x: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    """Every window of the images: [batch, *out, *window, channels], padded with zeros."""
    out = conv_sizes(x.shape[1:-1], window, strides, dilations, padding)
    return np.array(_windows(_padded(x, padding), window, out, strides, dilations), order="C")


@in_float32
def conv_patches_grad(
    x: Array, *, shape: Sizes, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs
) -> Array:
    """The transpose of `conv_patches`: add windows to images of `shape` (spatial sizes)."""
    rank = len(window)
    result = np.zeros((x.shape[0], *shape, x.shape[-1]), x.dtype)
    for tap, positions, places in _taps(shape, window, x.shape[1 : 1 + rank], strides, dilations, padding):
        result[places] += x[(slice(None),) * (rank + 1) + tap][positions]
    return result


# -- pooling ---------------------------------------------------------------------------------------------------------
@in_float32
def sum_pool(x: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    """The sum of every window, computed one spatial axis at a time."""
    return _pool(np.add, 0, x, window, strides, dilations, padding)


def max_pool(x: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    """The maximum of every window, computed one spatial axis at a time."""
    return _pool(np.maximum, _lowest(x), x, window, strides, dilations, padding)


def _lowest(x: Array) -> Any:
    return np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf


def _pool(ufunc: Any, start: Any, x: Array, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    out = conv_sizes(x.shape[1:-1], window, strides, dilations, padding)
    for axis, facts in enumerate(zip(x.shape[1:-1], window, out, strides, dilations, padding, strict=True)):
        n, k, m, s, d, pair = facts
        if k == 1 and s == 1 and pair == (0, 0):
            continue
        lead = (slice(None),) * axis
        result: Array = None
        for _, positions, places in _taps((n,), (k,), (m,), (s,), (d,), (pair,)):
            source, into = x[(*lead, *places)], (*lead, *positions)
            if result is None:
                if positions[1] == slice(0, m) and k > 1:  # the first tap of every window initializes the result
                    result = source
                    continue
                result = np.full((*x.shape[: axis + 1], m, *x.shape[axis + 2 :]), start, x.dtype)
            if not result.flags.owndata:
                result = ufunc(result, source) if positions[1] == slice(0, m) else np.array(result, order="C")
                if positions[1] == slice(0, m):
                    continue
            ufunc(result[into], source, out=result[into])
        x = np.full((*x.shape[: axis + 1], m, *x.shape[axis + 2 :]), start, x.dtype) if result is None else result
    return x if x.flags.owndata else np.array(x, order="C")


@in_float32
def sum_unpool(x: Array, *, shape: Sizes, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    """The transpose of `sum_pool`: the value of every window is added to all of its positions."""
    for axis, facts in enumerate(zip(shape, window, x.shape[1:-1], strides, dilations, padding, strict=True)):
        n, k, m, s, d, pair = facts
        if k == 1 and s == 1 and pair == (0, 0):
            continue
        lead = (slice(None),) * axis
        result = np.zeros((*x.shape[: axis + 1], n, *x.shape[axis + 2 :]), x.dtype)
        for _, positions, places in _taps((n,), (k,), (m,), (s,), (d,), (pair,)):
            result[(*lead, *places)] += x[(*lead, *positions)]
        x = result
    return x


@in_float32
def max_unpool(
    z: Array, x: Array, top: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs
) -> Array:
    """Zeros like x with z added where each window of x has its first maximum (`top` has the maxima).

    z may have leading axes before those of x: rows with the same positions.
    """
    lead = (slice(None),) * (z.ndim - x.ndim)
    shape = z.shape[: z.ndim - x.ndim] + x.shape
    apart = all((k - 1) * d < s for k, s, d in zip(window, strides, dilations, strict=True))
    tiles = apart and all(
        k == s and d == 1 and pair == (0, 0) and n == k * m
        for n, m, k, s, d, pair in zip(x.shape[1:-1], top.shape[1:-1], window, strides, dilations, padding, strict=True)
    )
    result = np.empty(shape, z.dtype) if tiles else np.zeros(shape, z.dtype)
    for hit, positions, places in _first_hits(x, top, window, strides, dilations, padding):
        if apart:
            np.multiply(z[lead + positions], hit, out=result[lead + places])
        else:
            result[lead + places] += z[lead + positions] * hit
    return result


def max_pick(
    z: Array, x: Array, top: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs
) -> Array:
    """The transpose of `max_unpool`: z where each window of x has its first maximum."""
    lead = (slice(None),) * (z.ndim - x.ndim)
    result = np.zeros(z.shape[: z.ndim - x.ndim] + top.shape, z.dtype)
    for hit, positions, places in _first_hits(x, top, window, strides, dilations, padding):
        result[lead + positions] += z[lead + places] * hit
    return result


def max_position(x: Array, top: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    """The position of the first maximum of each window of x, as an index into one image with its channels."""
    places_of = np.arange(prod(x.shape[1:]), dtype=np.int64).reshape(1, *x.shape[1:])
    result = np.zeros(top.shape, np.int64)
    for hit, positions, places in _first_hits(x, top, window, strides, dilations, padding):
        result[positions] += places_of[places] * hit
    return result


def _first_hits(
    x: Array, top: Array, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs
) -> Iterator[tuple[Array, tuple[slice, ...], tuple[slice, ...]]]:
    """For each tap, the windows whose first maximum is there."""
    free = np.ones(top.shape, bool)
    for _, positions, places in _taps(x.shape[1:-1], window, top.shape[1:-1], strides, dilations, padding):
        hit = x[places] == top[positions]
        hit &= free[positions]
        free[positions] ^= hit
        yield hit, positions, places


# -- attention -------------------------------------------------------------------------------------------------------
def attention(q: Array, k: Array, v: Array, mask: Array = None, *, scale: float, causal: bool) -> tuple[Array, Array]:
    """softmax(q kᵀ scale + mask) v over the last two axes, and the logarithm of the softmax denominators.

    A boolean mask selects the positions to attend to; a position without any returns zeros. From the second result, the
    gradient recomputes the weights, which are not saved.
    """
    if q.dtype.char in HALF:
        out, total = attention(widened(q), widened(k), widened(v), widened(mask), scale=scale, causal=causal)
        return out.astype(q.dtype), total
    weights = _scores(q, k, mask, scale, causal)
    top = np.maximum.reduce(weights, axis=-1, keepdims=True, initial=-np.inf)
    masked_out = np.isneginf(top)
    if masked_out.any():
        top[masked_out] = 0
    weights -= top
    np.exp(weights, out=weights)
    total = np.add.reduce(weights, axis=-1, keepdims=True)
    total[masked_out] = np.inf
    out = np.matmul(weights, v)
    out /= total
    return out, np.squeeze(np.log(total) + top, -1)


def attention_gradient(
    d: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    kept: Array,
    mask: Array = None,
    *,
    scale: float,
    causal: bool,
    with_scores: bool = False,
) -> tuple[Array, ...]:
    """The cotangents of q, k and v (and, if requested, the scores); `out` and `kept` are the results of `attention`.

    d may have leading axes before those of q: rows that share the weights.
    """
    attrs: dict[str, Any] = {"scale": scale, "causal": causal, "with_scores": with_scores}
    if q.dtype.char in HALF:
        wide = attention_gradient(*map(widened, (d, q, k, v, out, kept, mask)), **attrs)
        return tuple(part.astype(q.dtype) for part in wide)
    weights = kept
    if kept.ndim < q.ndim:
        weights = _scores(q, k, mask, scale, causal)
        weights -= kept[..., None]
        np.exp(weights, out=weights)
        if mask is not None and mask.dtype.kind == "f":  # a large number in the mask absorbs small ones in the sum
            total = np.add.reduce(weights, axis=-1, keepdims=True)
            weights /= np.where(total == 0, total.dtype.type(1), total)
    scores = np.matmul(d, np.swapaxes(v, -1, -2))
    scores -= np.add.reduce(d * out, axis=-1, keepdims=True)
    scores *= weights
    dq = np.matmul(scores, k)
    dk = np.matmul(np.swapaxes(scores, -1, -2), q)
    dq *= scale
    dk *= scale
    found = (dq, dk, np.matmul(np.swapaxes(weights, -1, -2), d))
    return (*found, scores) if with_scores else found


def _scores(q: Array, k: Array, mask: Array, scale: float, causal: bool) -> Array:
    scores = np.matmul(q * q.dtype.type(scale), np.swapaxes(k, -1, -2))
    if causal:
        rows, columns = scores.shape[-2:]
        np.copyto(scores, -np.inf, where=np.arange(columns) > np.arange(rows)[:, None])
    if mask is not None:
        if mask.dtype.kind == "b":
            np.copyto(scores, -np.inf, where=~mask)
        else:
            scores += mask
    return scores
