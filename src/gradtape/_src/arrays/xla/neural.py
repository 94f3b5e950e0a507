"""Convolution, pooling, softmax and attention on JAX arrays: see arrays/numpy/neural.py for the meaning of each
function.

A convolution and each of its two transposes is one convolution of XLA, which cuDNN or oneDNN runs; pooling is one
`reduce_window`. Kernels with several steps are jitted, so that eager code runs them in one call.
"""

from __future__ import annotations

from functools import lru_cache, partial
from itertools import product
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradtape._src.arrays.half import in_float32, sum_dtype, widened  # XLA converts while it reads, without a copy
from gradtape._src.arrays.numpy.neural import conv_sizes

Array = Any
Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]
_Shaped: Any = jax.ShapeDtypeStruct

_WINDOW = ("strides", "dilations", "padding")


# -- convolution and its two transposes ------------------------------------------------------------------------------
def _letters(first: str, last: str, rank: int) -> str:
    """Names of axes in XLA's notation: `first`, the spatial axes, `last`."""
    return first + "0123456789"[:rank] + last


@partial(jax.jit, static_argnames=(*_WINDOW, "groups"))
def conv(x: Array, y: Array, *, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int = 1) -> Array:
    images = _letters("N", "C", len(strides))
    return lax.conv_general_dilated(
        x,
        y,
        strides,
        padding,
        rhs_dilation=dilations,
        dimension_numbers=(images, _letters("", "IO", len(strides)), images),
        feature_group_count=groups,
    )


@partial(jax.jit, static_argnames=(*_WINDOW, "shape", "groups"))
def conv_input_grad(
    z: Array, y: Array, *, shape: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int = 1
) -> Array:
    """Convolve the outputs, dilated by the strides, with the flipped filters."""
    rank = len(strides)
    images, filters = _letters("N", "C", rank), _letters("", "OI", rank)
    if groups > 1:  # [*window, c, groups * o] -> [*window, groups * c, o]
        split = y.reshape(*y.shape[:-1], groups, y.shape[-1] // groups)
        y = jnp.swapaxes(split, -2, -3).reshape(*y.shape[:-2], groups * y.shape[-2], -1)
    return lax.conv_general_dilated(
        z,
        lax.rev(y, range(rank)),
        (1,) * rank,
        _outward(z.shape[1:-1], shape, y.shape[:-2], strides, dilations, padding),
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=(images, filters, images),
        feature_group_count=groups,
    )


@partial(jax.jit, static_argnames=(*_WINDOW, "window", "groups"))
def conv_filter_grad(
    x: Array, z: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs, groups: int = 1
) -> Array:
    """Convolve the images with the outputs, which are a filter with a tap at every position; the batch is summed."""
    rank = len(strides)
    ends = tuple(
        (low, (k - 1) * d + _dilated_length(m, s) - n - low)
        for n, m, k, s, d, (low, _) in zip(
            x.shape[1:-1], z.shape[1:-1], window, strides, dilations, padding, strict=True
        )
    )
    if not prod(z.shape):  # no positions to sum over
        return jnp.zeros((*window, x.shape[-1] // groups, z.shape[-1]), x.dtype)
    return lax.conv_general_dilated(
        x,
        z,
        dilations,
        ends,
        rhs_dilation=strides,
        dimension_numbers=(_letters("C", "N", rank), _letters("I", "O", rank), _letters("", "NC", rank)),
        batch_group_count=groups,
    )


def _dilated_length(count: int, stride: int) -> int:
    """The dilated length of `count` positions with a stride."""
    return (count - 1) * stride + 1 if count else 0


def _outward(out: Sizes, shape: Sizes, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Pairs:
    """The padding of dilated outputs with which all windows that contain a position of `shape` are inside."""
    pairs = []
    for m, n, k, s, d, (low, _) in zip(out, shape, window, strides, dilations, padding, strict=True):
        reach = (k - 1) * d
        pairs.append((reach - low, n - _dilated_length(m, s) + low))
    return tuple(pairs)


# -- windows as patches ----------------------------------------------------------------------------------------------
def _padded(x: Array, padding: Pairs, value: Any) -> Array:
    lead = x.ndim - len(padding) - 1
    config = [(0, 0, 0)] * lead + [(low, high, 0) for low, high in padding] + [(0, 0, 0)]
    return lax.pad(x, jnp.asarray(value, x.dtype), config)


def _cropped(x: Array, padding: Pairs) -> Array:
    """The transpose of `_padded`."""
    for axis, (low, high) in enumerate(padding, x.ndim - len(padding) - 1):
        x = lax.slice_in_dim(x, low, x.shape[axis] - high, axis=axis)
    return x


def _pick(x: Array, axis: int, start: int, count: int, stride: int) -> Array:
    """`count` positions of one axis, a stride apart."""
    return lax.slice_in_dim(x, start, start + _dilated_length(count, stride), stride, axis)


def _put(x: Array, axis: int, start: int, size: int, stride: int) -> Array:
    """The transpose of `_pick`: zeros of `size` along an axis, with x at these positions."""
    config = [(0, 0, 0)] * x.ndim
    config[axis] = (start, size - start - _dilated_length(x.shape[axis], stride), stride - 1)
    return lax.pad(x, np.zeros((), x.dtype), config)


@partial(jax.jit, static_argnames=(*_WINDOW, "window"))
def conv_patches(x: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    """Take the taps of one spatial axis after the other, each as a slice."""
    rank = len(window)
    out = conv_sizes(x.shape[1:-1], window, strides, dilations, padding)
    x = _padded(x, padding, 0)
    if not prod(out):
        return jnp.zeros((x.shape[0], *out, *window, x.shape[-1]), x.dtype)
    for axis, (k, m, s, d) in enumerate(zip(window, out, strides, dilations, strict=True), 1):
        x = jnp.stack([_pick(x, axis, i * d, m, s) for i in range(k)], axis=rank + axis)
    return x


@partial(jax.jit, static_argnames=(*_WINDOW, "shape", "window"))
@in_float32
def conv_patches_grad(
    x: Array, *, shape: Sizes, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs
) -> Array:
    rank = len(window)
    full = _full(shape, padding)
    if not x.size:
        return jnp.zeros((x.shape[0], *shape, x.shape[-1]), x.dtype)
    for axis, (n, k, s, d) in enumerate(zip(full, window, strides, dilations, strict=True), 1):
        taps = jnp.moveaxis(x, rank + 1, 0)
        x = sum(_put(taps[i], axis, i * d, n, s) for i in range(k))
    return _cropped(x, padding)


def _full(shape: Sizes, padding: Pairs) -> Sizes:
    return tuple(low + n + high for n, (low, high) in zip(shape, padding, strict=True))


# -- pooling ---------------------------------------------------------------------------------------------------------
def _pool(function: Any, start: Any, x: Array, window: Sizes, strides: Sizes, dilations: Sizes, padding: Any) -> Array:
    return lax.reduce_window(
        x,
        np.asarray(start, x.dtype)[()],
        function,
        (1, *window, 1),
        (1, *strides, 1),
        ((0, 0), *padding, (0, 0)),
        window_dilation=(1, *dilations, 1),
    )


@partial(jax.jit, static_argnames=(*_WINDOW, "window"))
@in_float32
def sum_pool(x: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    return _pool(lax.add, 0, x, window, strides, dilations, padding)


@partial(jax.jit, static_argnames=(*_WINDOW, "window"))
def max_pool(x: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    return _pool(lax.max, _lowest(x), x, window, strides, dilations, padding)


def _lowest(x: Array) -> Any:
    return -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min


@partial(jax.jit, static_argnames=(*_WINDOW, "shape", "window"))
@in_float32
def sum_unpool(x: Array, *, shape: Sizes, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    """Sum over windows of the values, dilated by the strides."""
    around = _outward(x.shape[1:-1], shape, window, strides, dilations, padding)
    config = [(low, high, s - 1) for (low, high), s in zip(around, strides, strict=True)]
    dilated = lax.pad(x, np.zeros((), x.dtype), [(0, 0, 0), *config, (0, 0, 0)])
    ones, none = (1,) * len(window), ((0, 0),) * len(window)
    return _pool(lax.add, 0, dilated, window, ones, dilations, none)


# The position of a maximum is the number of its tap. There is a term for each tap, and XLA sums them in one pass.
@partial(jax.jit, static_argnames=(*_WINDOW, "window"))
@in_float32
def max_unpool(
    z: Array, x: Array, top: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs
) -> Array:
    lead = z.shape[: z.ndim - x.ndim]
    if not z.size:
        return jnp.zeros((*lead, *x.shape), z.dtype)
    place, full = _first_hit(x, top, window, strides, dilations, padding), _full(x.shape[1:-1], padding)
    total: Array = 0
    for number, tap in enumerate(product(*map(range, window))):
        part = jnp.where(place == number, z, 0)
        for axis, (i, n, s, d) in enumerate(zip(tap, full, strides, dilations, strict=True), len(lead) + 1):
            part = _put(part, axis, i * d, n, s)
        total = total + part
    return _cropped(total, padding)


@partial(jax.jit, static_argnames=(*_WINDOW, "window"))
def max_pick(
    z: Array, x: Array, top: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs
) -> Array:
    lead = z.shape[: z.ndim - x.ndim]
    result = jnp.zeros((*lead, *top.shape), z.dtype)
    if not result.size:
        return result
    place, z = _first_hit(x, top, window, strides, dilations, padding), _padded(z, padding, 0)
    for number, tap in enumerate(product(*map(range, window))):
        part = _at_tap(z, tap, len(lead) + 1, top.shape[1:-1], strides, dilations)
        result = jnp.where(place == number, part, result)
    return result


@partial(jax.jit, static_argnames=(*_WINDOW, "window"))
def max_position(x: Array, top: Array, *, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    if not top.size:
        return jnp.zeros(top.shape, np.int64)
    place = _first_hit(x, top, window, strides, dilations, padding).astype(np.int64)
    taps = jnp.unravel_index(jnp.minimum(place, prod(window) - 1), window)
    position: Array = 0
    for axis, (n, i, s, d, (low, _)) in enumerate(
        zip(x.shape[1:-1], taps, strides, dilations, padding, strict=True), 1
    ):
        position = position * n + lax.broadcasted_iota(np.int64, top.shape, axis) * s + i * d - low
    position = position * x.shape[-1] + lax.broadcasted_iota(np.int64, top.shape, top.ndim - 1)
    return jnp.where(place < prod(window), position, 0)


def _first_hit(x: Array, top: Array, window: Sizes, strides: Sizes, dilations: Sizes, padding: Pairs) -> Array:
    """The number of the first tap with the maximum; the number of taps if there is none (it is NaN)."""
    sizes, out = x.shape[1:-1], top.shape[1:-1]
    x = _padded(x, padding, 0)
    taps = list(product(*map(range, window)))
    place = jnp.full(top.shape, len(taps), np.int32)
    for number, tap in reversed(list(enumerate(taps))):
        hit = _at_tap(x, tap, 1, out, strides, dilations) == top
        for axis, (i, n, m, s, d, (low, _)) in enumerate(
            zip(tap, sizes, out, strides, dilations, padding, strict=True), 1
        ):
            at = np.arange(m) * s + i * d - low
            inside = (at >= 0) & (at < n)
            if not inside.all():  # padding does not belong to the image
                hit &= inside.reshape(-1, *[1] * (top.ndim - axis - 1))
        place = jnp.where(hit, number, place)
    return place


def _at_tap(x: Array, tap: Sizes, first: int, out: Sizes, strides: Sizes, dilations: Sizes) -> Array:
    """The element of every window at one of its taps; `first` is the first spatial axis."""
    for axis, (i, m, s, d) in enumerate(zip(tap, out, strides, dilations, strict=True), first):
        x = _pick(x, axis, i * d, m, s)
    return x


# -- softmax ---------------------------------------------------------------------------------------------------------
# Sums and exponentials are computed at least in float32; if results are as narrow as operands, XLA rounds while it
# writes them.
@partial(jax.jit, static_argnames="axis")
def softmax(x: Array, *, axis: int) -> Array:
    wide = widened(x)
    top = _top(wide, axis)
    e = jnp.exp(wide - top)
    total = jnp.sum(e, axis=axis, keepdims=True)
    if not _on_gpu(x) or x.dtype.itemsize == 8:
        return (e / total).astype(x.dtype)
    # The two numbers of a row are stored: every use of the result, such as the gradient, computes it from x in one
    # pass. XLA would fuse the sums into that pass, whose kernel then has too few registers. And a difference of
    # logarithms costs a GPU less than a quotient.
    top, scale = lax.optimization_barrier((top, jnp.log(total)))
    return jnp.exp(wide - top - scale).astype(x.dtype)


@partial(jax.jit, static_argnames="axis")
def log_softmax(x: Array, *, axis: int) -> Array:
    wide = widened(x)
    shifted = wide - _top(wide, axis)
    return (shifted - jnp.log(jnp.sum(jnp.exp(shifted), axis=axis, keepdims=True))).astype(x.dtype)


@partial(jax.jit, static_argnames=("epsilon", "centered"))
def standardize(x: Array, *, epsilon: float, centered: bool = True) -> tuple[Array, Array]:
    wide = widened(x)
    mean, inverse = _row_statistics(wide, epsilon, centered, _on_gpu(x) and x.size > 0)
    return ((wide - mean if centered else wide) * inverse).astype(x.dtype), inverse.astype(x.dtype)


def _row_statistics(wide: Array, epsilon: float, centered: bool, on_gpu: bool) -> tuple[Array, Array]:
    """The mean of each row (0 if it is not subtracted) and the inverse of its standard deviation."""
    if not centered:
        inverse = lax.rsqrt(jnp.mean(wide * wide, axis=-1, keepdims=True) + epsilon)
        return np.float32(0), lax.optimization_barrier(inverse) if on_gpu else inverse
    if not on_gpu:
        mean = jnp.mean(wide, axis=-1, keepdims=True)
        return mean, lax.rsqrt(jnp.mean((wide - mean) ** 2, axis=-1, keepdims=True) + epsilon)
    # One pass for both sums, of differences from an element of the row: however far from 0 the row is, and even if that
    # element is far from the others, only a few last bits cancel. As in softmax the two results are stored: the
    # gradients of what comes before and after use them instead of sums.
    near = wide - wide[..., :1]
    first, second = (jnp.mean(v, axis=-1, keepdims=True) for v in (near, near * near))
    mean = first + wide[..., :1]
    inverse = lax.rsqrt(jnp.maximum(second - first * first, 0) + epsilon)
    return lax.optimization_barrier((mean, inverse))


def pinned(x: Array) -> Array:
    return lax.optimization_barrier(x) if _on_gpu(x) else x


def barrier(x: Array, after: Array) -> Array:
    held: Array = lax.optimization_barrier((x, after))[0]
    return held


def _top(x: Array, axis: int) -> Array:
    return jnp.max(x, axis=axis, keepdims=True, initial=None if x.size else -np.inf)


@jax.jit
def sparse_cross_entropy(logits: Array, labels: Array) -> tuple[Array, Array]:
    """The gradient selects labels by comparison, which XLA fuses with the rest; an invalid label gives NaN.

    It is as narrow as the logits. A compiled program never stores it: the backward pass multiplies it by a number for
    each row, and both are computed in one pass over the logits.
    """
    classes = logits.shape[-1]
    wide = widened(logits)
    top = _top(wide, -1)
    e = jnp.exp(wide - top)
    total = jnp.where((labels >= 0) & (labels < classes), jnp.sum(e, axis=-1), np.nan)
    picked = jnp.take_along_axis(logits, labels[..., None], -1, mode="clip").astype(wide.dtype) - top
    if _on_gpu(logits) and wide.dtype.itemsize == 4:  # as in softmax
        shares = jnp.exp(wide - top - jnp.log(total)[..., None])
    else:
        shares = e / total[..., None]
    slope = shares - (labels[..., None] == lax.iota(labels.dtype, classes))
    return (jnp.log(total) - picked[..., 0]).astype(logits.dtype), slope.astype(logits.dtype)


# -- the cross entropy of a projection, in blocks of rows ------------------------------------------------------------
def projected_cross_entropy(
    x: Array, w: Array, labels: Array, bias: Array = None, *, adjoint: bool, dtype: Any = None, rows: int | None = None
) -> Array:
    return _projected_loss(x, w, labels, bias, adjoint, np.dtype(dtype or x.dtype), rows)


def projected_cross_entropy_gradient(
    g: Array,
    x: Array,
    w: Array,
    labels: Array,
    bias: Array = None,
    *,
    adjoint: bool,
    dtype: Any = None,
    rows: int | None = None,
) -> tuple[Array, ...]:
    return _projected_gradient(g, x, w, labels, bias, adjoint, np.dtype(dtype or x.dtype), rows)[1:]


def projected_cross_entropy_both(
    g: Array,
    x: Array,
    w: Array,
    labels: Array,
    bias: Array = None,
    *,
    adjoint: bool,
    dtype: Any = None,
    rows: int | None = None,
) -> tuple[Array, ...]:
    return _projected_gradient(g, x, w, labels, bias, adjoint, np.dtype(dtype or x.dtype), rows)


@partial(jax.jit, static_argnums=(4, 5, 6))
def _projected_loss(x: Array, w: Array, labels: Array, bias: Array, adjoint: bool, dtype: Any, most: Any) -> Array:
    rows, count, kept = _in_blocks((x, labels), (1, 0), w.shape[0 if adjoint else 1], most)

    def block(_: Any, given: Any) -> tuple[None, Array]:
        x, labels = given
        return None, _loss_and_slope(x, w, labels, bias, adjoint, dtype)[0]

    losses = lax.scan(block, None, rows)[1] if count > 1 else block(None, [r[0] for r in rows])[1]
    return losses.reshape(-1)[:kept].reshape(labels.shape)


@partial(jax.jit, static_argnums=(5, 6, 7))
def _projected_gradient(
    g: Array, x: Array, w: Array, labels: Array, bias: Array, adjoint: bool, dtype: Any = None, most: int | None = None
) -> tuple[Array, ...]:
    """The losses, and the cotangents of x, w and the bias, if any: logits are computed once, a block at a time."""
    wide = sum_dtype(x.dtype)
    rows, count, kept = _in_blocks((x, labels, g), (1, 0, 0), w.shape[0 if adjoint else 1], most)

    def block(sums: Any, given: Any) -> tuple[Any, Any]:
        x, labels, g = given
        loss, slope = _loss_and_slope(x, w, labels, bias, adjoint, dtype)
        dz = (g.astype(slope.dtype)[:, None] * slope).astype(x.dtype)
        dx = jnp.matmul(dz, w if adjoint else w.T)
        left, right = (dz, x) if adjoint else (x, dz)
        found = [lax.dot_general(left, right, (((0,), (0,)), ((), ())), preferred_element_type=wide)]
        if bias is not None:
            found.append(jnp.sum(dz.astype(wide), axis=0))
        return [a + b for a, b in zip(sums, found, strict=True)], (loss, dx)

    sums = [jnp.zeros(a.shape, wide) for a in (w, bias) if a is not None]
    if count > 1:
        sums, (losses, dx) = lax.scan(block, sums, rows)
    else:
        sums, (losses, dx) = block(sums, [r[0] for r in rows])
    dx = dx.reshape(-1, x.shape[-1])[:kept].reshape(x.shape)
    found = [total.astype(a.dtype) for total, a in zip(sums, (w, bias), strict=False)]
    return (losses.reshape(-1)[:kept].reshape(labels.shape), dx, *found)


def _loss_and_slope(x: Array, w: Array, labels: Array, bias: Array, adjoint: bool, dtype: Any) -> tuple[Array, Array]:
    """The loss and gradient of a block of rows, rounded like the formula: to the product's dtype,
    then to the loss's.
    """
    logits = jnp.matmul(x, w.T if adjoint else w)
    if bias is not None:
        logits = logits + bias
    return sparse_cross_entropy(logits.astype(dtype), labels)


BLOCK_BYTES = 2**29
"""The approximate number of bytes of logits in a block: enough to occupy the chip."""


def _in_blocks(arrays: tuple[Array, ...], inner: Sizes, classes: int, most: int | None) -> tuple[list[Array], int, int]:
    """Divide arrays of rows, whose last `inner` axes are within a row, into blocks, of at most so many rows if a number
    is given; the numbers of blocks and rows.

    The last block is padded with rows of zeros.
    """
    flat = [a.reshape(-1, *a.shape[a.ndim - n :]) for a, n in zip(arrays, inner, strict=True)]
    rows = flat[0].shape[0]
    each = rows_of_block(rows, classes, flat[0].dtype.itemsize)
    each = each if most is None else max(min(each, most), 1)
    count = -(-max(rows, 1) // each)
    if each * count > rows:
        flat = [jnp.pad(a, [(0, each * count - rows), *[(0, 0)] * (a.ndim - 1)]) for a in flat]
    return [a.reshape(count, each, *a.shape[1:]) for a in flat], count, rows


def rows_of_block(rows: int, classes: int, itemsize: int) -> int:
    """The number of rows of a block: a multiple of a tile of the matrix units, and a divisor of all rows if there is
    one that is not far below the maximum.
    """
    most = max(BLOCK_BYTES // max(classes * itemsize, 1), 1)
    if rows <= most:
        return max(rows, 1)
    largest = max(most // TILE, 1) * TILE
    return next((n for n in range(largest, largest // 2, -TILE) if rows % n == 0), largest)


TILE = 256


# -- attention -------------------------------------------------------------------------------------------------------
# Residuals of the gradient: for cuDNN's flash attention the logarithm of the softmax denominators, which has one axis
# less than q; otherwise the weights themselves, because XLA has stored them anyway.
def attention(q: Array, k: Array, v: Array, mask: Array = None, *, scale: float, causal: bool) -> tuple[Array, Array]:
    compute = _flash if _has_flash(q, k, v, mask, scale, causal) else _attention
    return compute(q, k, v, mask, scale, causal)


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
    if kept.ndim < q.ndim and not with_scores and _has_flash(q, k, v, mask, scale, causal):
        return _flash_gradient(d, q, k, v, out, kept, mask, scale, causal)
    return _attention_gradient(d, q, k, v, out, kept, mask, scale, causal, with_scores)


@partial(jax.jit, static_argnums=(4, 5))
def _attention(q: Array, k: Array, v: Array, mask: Array, scale: float, causal: bool) -> tuple[Array, Array]:
    scores = _scores(q, k, mask, scale, causal)
    if mask is None:
        weights = softmax(scores, axis=-1)
    else:  # all positions may be masked: no weights, and no NaN
        top = jnp.max(scores, axis=-1, keepdims=True, initial=-np.inf)
        e = jnp.exp(scores - jnp.where(jnp.isneginf(top), 0, top))
        weights = _shares(e)
    weights = weights.astype(q.dtype)
    return jnp.matmul(weights, v), weights


@partial(jax.jit, static_argnums=(7, 8, 9))
def _attention_gradient(
    d: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    kept: Array,
    mask: Array,
    scale: float,
    causal: bool,
    with_scores: bool,
) -> tuple[Array, ...]:
    weights = kept
    if kept.ndim < q.ndim:
        weights = jnp.exp(_scores(q, k, mask, scale, causal) - kept[..., None])
        if mask is not None and mask.dtype != bool:  # a large number in the mask absorbs small ones in the sum
            weights = _shares(weights)
    wide = sum_dtype(q.dtype)
    towards = jnp.matmul(d, jnp.swapaxes(v, -1, -2), preferred_element_type=wide)
    mean = jnp.sum(d.astype(wide) * out.astype(wide), axis=-1, keepdims=True)
    scores = weights.astype(wide) * (towards - mean)
    scaled = (scores * scale).astype(q.dtype)
    dv = jnp.matmul(jnp.swapaxes(weights.astype(q.dtype), -1, -2), d)
    found = (jnp.matmul(scaled, k), jnp.matmul(jnp.swapaxes(scaled, -1, -2), q), dv)
    return (*found, scores.astype(q.dtype)) if with_scores else found


def _shares(x: Array) -> Array:
    """Normalize each row by its sum; zeros if that is zero."""
    total = jnp.sum(x, axis=-1, keepdims=True)
    return x / jnp.where(total == 0, 1, total)


def _scores(q: Array, k: Array, mask: Array, scale: float, causal: bool) -> Array:
    scores = jnp.matmul(q, jnp.swapaxes(k, -1, -2), preferred_element_type=sum_dtype(q.dtype)) * scale
    if mask is not None and mask.dtype != bool:
        scores = scores + mask.astype(scores.dtype)
    rows, columns = scores.shape[-2:]
    allowed = mask if mask is not None and mask.dtype == bool else None
    if causal:
        before = lax.broadcasted_iota(np.int32, (rows, columns), 0) >= lax.broadcasted_iota(
            np.int32, (rows, columns), 1
        )
        allowed = before if allowed is None else before & allowed
    return scores if allowed is None else jnp.where(allowed, scores, -np.inf)


# -- cuDNN's flash attention -----------------------------------------------------------------------------------------
# JAX has its gradient only as a vjp function that holds the residuals. That function is a pytree: operands, the result,
# and the one array that is saved. Its structure depends on shapes alone, so the gradient can be rebuilt from these
# arrays wherever they come from.
def _has_flash(q: Array, k: Array, v: Array, mask: Array, scale: float, causal: bool) -> bool:
    """Whether cuDNN is available and supports these operands."""
    if q.dtype not in (jnp.float16, jnp.bfloat16) or (mask is not None and mask.dtype != bool):
        return False
    if not q.size or not k.size or not all(map(_on_gpu, (q, k, v))):
        return False
    return _flash_form(q.shape, k.shape, v.shape, mask is not None, q.dtype, scale, causal) is not None


def _on_gpu(x: Array) -> bool:
    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        return all(device.platform == "gpu" for device in x.devices())
    device = getattr(jax.config, "jax_default_device", None)
    return (jax.default_backend() if device is None else getattr(device, "platform", device)) in ("gpu", "cuda")


_Q, _K, _V, _OUT, _KEPT, _BIAS, _EMPTY = range(7)  # the kinds of leaves of the gradient


@lru_cache(maxsize=256)
def _flash_form(
    q: Sizes, k: Sizes, v: Sizes, masked: bool, dtype: Any, scale: float, causal: bool
) -> tuple[Any, list[int]] | None:
    """The pytree structure of the gradient and the kinds of its leaves; None if cuDNN does not support these shapes."""
    batch, heads, rows, _ = _four(q)
    known = [(b, t, n, f) for b, n, t, f in map(_four, (q, k, v))]
    known += [(batch, heads, rows, k[-2])] if masked else []
    found: list[Any] = []

    def probe(q: Array, k: Array, v: Array, *bias: Array) -> list[Array]:
        out, vjp = _flash_vjp(q, k, v, *bias, scale=scale, causal=causal)
        leaves, tree = jax.tree.flatten(vjp)
        roles = {id(a): role for a, role in zip((q, k, v, out, *bias), (_Q, _K, _V, _OUT, _BIAS), strict=False)}
        found.append((tree, [roles.get(id(leaf), _EMPTY if leaf.shape == (0,) else _KEPT) for leaf in leaves]))
        return leaves

    try:
        leaves = jax.eval_shape(probe, *(_Shaped(shape, dtype) for shape in known))
    except (NotImplementedError, RuntimeError, ValueError):  # an unsupported shape, or no cuDNN
        return None
    tree, roles = found[0]
    kept = [leaf.shape for leaf, role in zip(leaves, roles, strict=True) if role == _KEPT]
    return (tree, roles) if kept == [(batch, heads, rows)] else None


def _flash_vjp(q: Array, k: Array, v: Array, bias: Array = None, *, scale: float, causal: bool) -> tuple[Array, Any]:
    def attend(q: Array, k: Array, v: Array) -> Array:
        return jax.nn.dot_product_attention(q, k, v, bias, scale=scale, is_causal=causal, implementation="cudnn")

    return jax.vjp(attend, q, k, v)


def _four(shape: Sizes) -> Sizes:
    """Exactly two leading axes: batch and heads."""
    *lead, rows, features = shape
    return (prod(lead[:-1]), lead[-1] if lead else 1, rows, features)


def _heads_behind(x: Array) -> Array:
    """Transpose [..., heads, positions, features] to JAX's layout, [batch, positions, heads, features].

    If a transpose had moved the heads to the front, XLA cancels the two.
    """
    return jnp.swapaxes(x.reshape(_four(x.shape)), 1, 2)


def _bias(mask: Array, q: Array, k: Array) -> Array:
    """A boolean mask as numbers to be added, which is the only kind that cuDNN supports."""
    full = jnp.broadcast_to(mask, (*q.shape[:-1], k.shape[-2]))
    return jnp.where(full, 0, _FORBIDDEN[q.dtype.name]).astype(q.dtype).reshape(*_four(q.shape)[:3], k.shape[-2])


_FORBIDDEN = {"float16": -(2.0**15), "bfloat16": -(2.0**60)}  # far below every score, and far from infinity


@partial(jax.jit, static_argnums=(4, 5))
def _flash(q: Array, k: Array, v: Array, mask: Array, scale: float, causal: bool) -> tuple[Array, Array]:
    bias = [] if mask is None else [_bias(mask, q, k)]
    out, vjp = _flash_vjp(*map(_heads_behind, (q, k, v)), *bias, scale=scale, causal=causal)
    form = _flash_form(q.shape, k.shape, v.shape, mask is not None, q.dtype, scale, causal)
    assert form is not None
    kept = jax.tree.leaves(vjp)[form[1].index(_KEPT)]
    out = jnp.swapaxes(out, 1, 2).reshape(*q.shape[:-1], v.shape[-1])
    return _unless_blind(out, mask), kept.reshape(q.shape[:-1])


@partial(jax.jit, static_argnums=(7, 8))
def _flash_gradient(
    d: Array, q: Array, k: Array, v: Array, out: Array, kept: Array, mask: Array, scale: float, causal: bool
) -> tuple[Array, ...]:
    lead = d.shape[: d.ndim - q.ndim]
    if lead:
        q, k, v, out, kept = (jnp.broadcast_to(x, (*lead, *x.shape)) for x in (q, k, v, out, kept))
    form = _flash_form(q.shape, k.shape, v.shape, mask is not None, q.dtype, scale, causal)
    assert form is not None
    tree, roles = form
    known = dict(zip((_Q, _K, _V, _OUT), map(_heads_behind, (q, k, v, out)), strict=True))
    known |= {_KEPT: kept.reshape(_four(q.shape)[:3]), _EMPTY: jnp.zeros((0,), q.dtype)}
    if mask is not None:
        known[_BIAS] = _bias(mask, q, k)
    vjp = jax.tree.unflatten(tree, [known[role] for role in roles])
    found = vjp(_heads_behind(_unless_blind(d, mask)))
    return tuple(jnp.swapaxes(part, 1, 2).reshape(x.shape) for part, x in zip(found, (q, k, v), strict=True))


def _unless_blind(x: Array, mask: Array) -> Array:
    """Zeros for positions that are fully masked."""
    return x if mask is None else jnp.where(jnp.any(mask, axis=-1, keepdims=True), x, 0)
