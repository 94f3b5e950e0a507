"""Convolution and pooling: linear maps of images (and of filters), closed under differentiation.

The three primitives `conv`, `conv_input_grad` and `conv_filter_grad` are one trilinear form <z, conv(x, y)>, as
functions of two of its three arguments. The derivative of each is one of the others, so derivatives of every order are
composed of these three.

Layouts are those of the kernels: images [batch, *space, channels], filters [*window, channels of a group, out
channels].
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from gradtape._src.arrays import namespace_of, numpy_namespace
from gradtape._src.arrays.batched import Batched
from gradtape._src.core.dispatch import linear, primitive
from gradtape._src.core.structure import OpCall, contraction, moves, scattered, scatters
from gradtape._src.ops.batching import broadcast_rows


# -- convolution -----------------------------------------------------------------------------------------------------
def _conv_dx(g, y, x_shape, xp, strides, dilations, padding, groups):
    return xp.conv_input_grad(
        g, y, shape=x_shape[1:-1], strides=strides, dilations=dilations, padding=padding, groups=groups
    )


def _conv_dy(g, x, y_shape, xp, strides, dilations, padding, groups):
    return xp.conv_filter_grad(
        x, g, window=y_shape[:-2], strides=strides, dilations=dilations, padding=padding, groups=groups
    )


def _input_dz(g, y, xp, strides, dilations, padding, groups):
    return xp.conv(g, y, strides=strides, dilations=dilations, padding=padding, groups=groups)


def _input_dy(g, z, y_shape, xp, strides, dilations, padding, groups):
    return xp.conv_filter_grad(
        g, z, window=y_shape[:-2], strides=strides, dilations=dilations, padding=padding, groups=groups
    )


def _filter_dx(g, z, x_shape, xp, strides, dilations, padding, groups):
    return xp.conv_input_grad(
        z, g, shape=x_shape[1:-1], strides=strides, dilations=dilations, padding=padding, groups=groups
    )


def _filter_dz(g, x, xp, strides, dilations, padding, groups):
    return xp.conv(x, g, strides=strides, dilations=dilations, padding=padding, groups=groups)


# A hidden axis goes where the matrix product has room for it: for images into the batch, for filters into the output
# channels (or the depth), and if both have one, into the groups.
def _into_batch(xp: Any, x: Any) -> Any:
    return xp.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _out_of_batch(xp: Any, x: Any, size: int) -> Any:
    return xp.reshape(x, shape=(size, x.shape[0] // max(size, 1), *x.shape[1:]))


def _into_channels(xp: Any, x: Any, groups: int) -> Any:
    """Move the hidden axis into the channels: [hidden, ..., groups * c] to [..., groups * hidden * c]."""
    size, *middle, channels = x.shape
    rank = len(middle)
    split = xp.reshape(x, shape=(size, *middle, groups, channels // groups))
    moved = xp.transpose(split, perm=(*range(1, rank + 2), 0, rank + 2))
    return xp.reshape(moved, shape=(*middle, size * channels))


def _out_of_channels(xp: Any, x: Any, size: int, groups: int) -> Any:
    """Move the hidden axis out of the channels: [..., groups * hidden * c] to [hidden, ..., groups * c]."""
    *middle, channels = x.shape
    rank = len(middle)
    split = xp.reshape(x, shape=(*middle, groups, size, channels // groups // size))
    moved = xp.transpose(split, perm=(rank + 1, *range(rank + 1), rank + 2))
    return xp.reshape(moved, shape=(size, *middle, channels // size))


def _into_depth(xp: Any, y: Any) -> Any:
    """Move the hidden axis of filters into the depth: [hidden, *window, c, o] to [*window, hidden * c, o]."""
    size, *window, depth, channels = y.shape
    rank = len(window)
    moved = xp.transpose(y, perm=(*range(1, rank + 1), 0, rank + 1, rank + 2))
    return xp.reshape(moved, shape=(*window, size * depth, channels))


def _out_of_depth(xp: Any, y: Any, size: int) -> Any:
    *window, depth, channels = y.shape
    rank = len(window)
    split = xp.reshape(y, shape=(*window, size, depth // size, channels))
    return xp.transpose(split, perm=(rank, *range(rank), rank + 1, rank + 2))


def _in_groups(function: Any, xp: Any, size: int, x: Any, y: Any, groups: int, attrs: dict[str, Any]) -> Any:
    result = function(_into_channels(xp, x, 1), _into_channels(xp, y, 1), groups=size * groups, **attrs)
    return _out_of_channels(xp, result, size, 1)


def _conv_batch(xp: Any, size: int, batched: list[bool], x: Any, y: Any, *, groups: int, **attrs: Any) -> Any:
    if not size:
        return None
    if not batched[1]:
        return _out_of_batch(xp, xp.conv(_into_batch(xp, x), y, groups=groups, **attrs), size)
    if not batched[0]:
        return _out_of_channels(xp, xp.conv(x, _into_channels(xp, y, groups), groups=groups, **attrs), size, groups)
    return _in_groups(xp.conv, xp, size, x, y, groups, attrs)


def _input_batch(xp: Any, size: int, batched: list[bool], z: Any, y: Any, *, groups: int, **attrs: Any) -> Any:
    if not size:
        return None
    if not batched[1]:
        return _out_of_batch(xp, xp.conv_input_grad(_into_batch(xp, z), y, groups=groups, **attrs), size)
    if not batched[0]:
        return _out_of_channels(xp, xp.conv_input_grad(z, _into_depth(xp, y), groups=groups, **attrs), size, groups)
    return _in_groups(xp.conv_input_grad, xp, size, z, y, groups, attrs)


def _filter_batch(xp: Any, size: int, batched: list[bool], x: Any, z: Any, *, groups: int, **attrs: Any) -> Any:
    if not size:
        return None
    if not batched[0]:
        wide = xp.conv_filter_grad(x, _into_channels(xp, z, groups), groups=groups, **attrs)
        return _out_of_channels(xp, wide, size, groups)
    if not batched[1]:
        return _out_of_depth(xp, xp.conv_filter_grad(_into_channels(xp, x, groups), z, groups=groups, **attrs), size)
    return _in_groups(xp.conv_filter_grad, xp, size, x, z, groups, attrs)


# Block-diagonal batches: convolution keeps batch positions separate.
def _keeps_images_apart(name: str) -> Any:
    def rule(xp: Any, level: int, operands: tuple[Any, ...], **attrs: Any) -> Any:
        x, *others = operands
        if type(x) is not Batched or not x.block_diagonal or not x.array.shape[0]:
            return None
        if any(type(o) is Batched for o in others):
            return None
        result = getattr(xp, name)(_into_batch(xp, x.array), *others, **attrs)
        return Batched(_out_of_batch(xp, result, x.array.shape[0]), level, block_diagonal=True)

    return rule


def _filter_block_diagonal(xp: Any, level: int, operands: tuple[Any, ...], *, groups: int, **attrs: Any) -> Any:
    """One gradient of the filters for each image: images become groups."""
    x, z = operands
    if type(x) is Batched or not z.block_diagonal or z.row_index is not None or not z.array.shape[0]:
        return None
    count, images, *out, channels = z.array.shape
    rank = len(out)
    apart = xp.transpose(x, perm=(*range(1, rank + 1), 0, rank + 1))
    apart = xp.reshape(apart, shape=(1, *apart.shape[:rank], images * x.shape[-1]))
    split = xp.reshape(z.array, shape=(count, images, *out, groups, channels // groups))
    split = xp.transpose(split, perm=(*range(2, rank + 2), 1, rank + 2, 0, rank + 3))  # [*out, image, group, row, c]
    split = xp.reshape(split, shape=(1, *out, images * count * channels))
    wide = xp.conv_filter_grad(apart, split, groups=images * groups, **attrs)
    *front, _ = wide.shape
    kept = len(front)
    wide = xp.reshape(wide, shape=(*front, images, groups, count, channels // groups))
    wide = xp.transpose(wide, perm=(kept, kept + 2, *range(kept), kept + 1, kept + 3))
    return Batched(xp.reshape(wide, shape=(images * count, *front, channels)), level)


# -- index sets: the elements in a window ----------------------------------------------------------------------------
def _how(call: OpCall, window: Any) -> dict[str, Any]:
    return {"window": window, **{name: call.attrs[name] for name in ("strides", "dilations", "padding")}}


def _patches(call: OpCall, images: Any, window: Any, groups: int) -> Any:
    """The windows of images as [positions, window, group, channel of the group]."""
    found = numpy_namespace.conv_patches(images, **_how(call, window))
    count = prod(window)
    return found.reshape(found.size // max(count * images.shape[-1], 1), count, groups, images.shape[-1] // groups)


def _filters(call: OpCall, y: Any) -> Any:
    """Filters as [window, channel of a group, group, channel]."""
    groups = call.attrs["groups"]
    return None if y is None else y.reshape(prod(y.shape[:-2]), y.shape[-2], groups, y.shape[-1] // groups)


def _by_position(call: OpCall, z: Any) -> Any:
    """Outputs as [positions, group, channel]."""
    groups = call.attrs["groups"]
    return None if z is None else z.reshape(prod(z.shape[:-1]), groups, z.shape[-1] // groups)


def _conv_structure(call: OpCall) -> Any:
    (x, y), groups = call.ids, call.attrs["groups"]
    window = (call.shapes[1] or ())[:-2]
    factors = [None, _filters(call, call.value(1) if y is None else None)]
    ids = [None if x is None else _patches(call, x, window, groups), _filters(call, y)]
    shape = (prod(call.shape[:-1]), groups, call.shape[-1] // groups)
    return contraction(call.sets, "pwgc,wcgo->pgo", ids, factors, shape).reshape(call.shape)


def _input_structure(call: OpCall) -> Any:
    (z, y), groups = call.ids, call.attrs["groups"]
    window = (call.shapes[1] or ())[:-2]
    places = _patches(call, np.arange(1, prod(call.shape) + 1).reshape(call.shape), window, groups)
    factors = [None, _filters(call, call.value(1) if y is None else None)]
    ids = [_by_position(call, z), _filters(call, y)]
    return scattered(call, contraction(call.sets, "pgo,wcgo->pwgc", ids, factors, places.shape), places)


def _filter_structure(call: OpCall) -> Any:
    (x, z), groups = call.ids, call.attrs["groups"]
    *window, depth, channels = call.shape
    ids = [None if x is None else _patches(call, x, tuple(window), groups), _by_position(call, z)]
    shape = (prod(window), depth, groups, channels // groups)
    return contraction(call.sets, "pwgc,pgo->wcgo", ids, [None, None], shape).reshape(call.shape)


def _window_structure(call: OpCall) -> Any:
    """One element of each window, or the union of all of them, for each channel."""
    window = call.attrs["window"]
    found = numpy_namespace.conv_patches(call.dense_input(0), **_how(call, window))
    rank = len(window)
    merged = call.sets.union_over(found, range(rank + 1, 2 * rank + 1))
    return (merged, *[call.empty(i) for i in range(1, call.op.outputs)]) if call.op.outputs else merged


def _unwindow_structure(call: OpCall) -> Any:
    """The transpose: an element goes to all positions of its window, or to one of them."""
    window, z = call.attrs["window"], call.dense_input(0)
    places = np.arange(1, prod(call.shape) + 1).reshape(call.shape)
    places = numpy_namespace.conv_patches(places, **_how(call, window))
    own = z.reshape(*z.shape[:-1], *[1] * len(window), z.shape[-1])
    return scattered(call, np.broadcast_to(own, places.shape), places)


conv = primitive(
    "conv",
    ("x", "y"),
    _conv_dx,
    _conv_dy,
    tf_name="Conv2D",
    batch=_conv_batch,
    block_diagonal=_keeps_images_apart("conv"),
    multilinear=True,
    structure=_conv_structure,
    category="linear algebra",
    hazards=("product",),
    nan_free=True,
    doc="Convolution of images with filters.",
)
conv_input_grad = primitive(
    "conv_input_grad",
    ("z", "y"),
    _input_dz,
    _input_dy,
    tf_name="Conv2DBackpropInput",
    batch=_input_batch,
    block_diagonal=_keeps_images_apart("conv_input_grad"),
    multilinear=True,
    structure=_input_structure,
    category="linear algebra",
    doc="The transpose of conv with respect to the images.",
)
conv_filter_grad = primitive(
    "conv_filter_grad",
    ("x", "z"),
    _filter_dx,
    _filter_dz,
    tf_name="Conv2DBackpropFilter",
    batch=_filter_batch,
    block_diagonal=_filter_block_diagonal,
    multilinear=True,
    structure=_filter_structure,
    category="linear algebra",
    doc="The transpose of conv with respect to the filters.",
)


# -- one tensor: windows, sums of windows ----------------------------------------------------------------------------
def _images(name: str) -> Any:
    """The batching rule of a map of images: the hidden axis becomes more images."""

    def rule(xp: Any, size: int, batched: list[bool], x: Any, **attrs: Any) -> Any:
        return _out_of_batch(xp, getattr(xp, name)(_into_batch(xp, x), **attrs), size) if size else None

    return rule


def _back(name: str) -> Any:
    """The transpose of a map of images, which needs the shape of its result."""

    def rule(g, x_shape, xp, window, strides, dilations, padding):
        return getattr(xp, name)(
            g, shape=x_shape[1:-1], window=window, strides=strides, dilations=dilations, padding=padding
        )

    return rule


def _forth(name: str) -> Any:
    def rule(g, xp, window, strides, dilations, padding):
        return getattr(xp, name)(g, window=window, strides=strides, dilations=dilations, padding=padding)

    return rule


def _of_images(name: str, transpose: Any, tf_name: str, structure: Any, **facts: Any) -> Any:
    rules = {"batch": _images(name), "block_diagonal": _keeps_images_apart(name), "structure": structure}
    return linear(name, transpose, tf_name=tf_name, category="linear algebra", **rules, **facts)


def _counts(sizes: Any, dtype: Any, how: dict[str, Any]) -> Any:
    """The number of elements in each window, without padding."""
    if not any(low or high for low, high in how["padding"]):
        return dtype.type(prod(how["window"]))
    return numpy_namespace.sum_pool(np.ones((1, *sizes, 1), dtype), **how)


def _average(xp: Any, x: Any, **how: Any) -> Any:
    return xp.divide(xp.sum_pool(x, **how), _counts(x.shape[1:-1], x.dtype, how))


def _average_grad(xp: Any, z: Any, *, shape: Any, **how: Any) -> Any:
    return xp.sum_unpool(xp.divide(z, _counts(shape, z.dtype, how)), shape=shape, **how)


conv_patches = _of_images(
    "conv_patches",
    _back("conv_patches_grad"),
    "ExtractImagePatches",
    moves,
    doc="The patches that a filter sees.",
)
conv_patches_grad = _of_images(
    "conv_patches_grad",
    _forth("conv_patches"),
    "ExtractImagePatchesGrad",
    scatters,
    doc="The transpose of conv_patches.",
)
sum_pool = _of_images(
    "sum_pool",
    _back("sum_unpool"),
    "AvgPool",
    _window_structure,
    doc="Sums over windows.",
)
sum_unpool = _of_images(
    "sum_unpool",
    _forth("sum_pool"),
    "AvgPoolGrad",
    _unwindow_structure,
    doc="The transpose of sum_pool.",
)
avg_pool = _of_images(
    "avg_pool",
    _back("avg_unpool"),
    "AvgPool",
    _window_structure,
    kernel=_average,
    doc="Means over windows.",
)
avg_unpool = _of_images(
    "avg_unpool",
    _forth("avg_pool"),
    "AvgPoolGrad",
    _unwindow_structure,
    kernel=_average_grad,
    doc="The transpose of avg_pool.",
)


# -- maxima of windows -----------------------------------------------------------------------------------------------
def _max_dx(g, x, out, xp, window, strides, dilations, padding):
    """The cotangent goes to the first of equal maxima, in row-major order."""
    return xp.max_unpool(g, x, out, window=window, strides=strides, dilations=dilations, padding=padding)


def _positions_batch(name: str) -> Any:
    """z may have leading axes before those of x: the positions of maxima are computed once for all of them."""

    def rule(xp: Any, size: int, batched: list[bool], z: Any, x: Any, top: Any, **attrs: Any) -> Any:
        if not batched[1] and not batched[2]:
            return getattr(xp, name)(z, x, top, **attrs)
        if not size or len(z.shape) - batched[0] != len(x.shape) - batched[1]:
            return None
        rows = [_into_batch(xp, broadcast_rows(xp, size, b, a)) for a, b in zip((z, x, top), batched, strict=True)]
        return _out_of_batch(xp, getattr(xp, name)(*rows, **attrs), size)

    return rule


def _positions_block_diagonal(name: str) -> Any:
    def rule(xp: Any, level: int, operands: tuple[Any, ...], **attrs: Any) -> Any:
        z, x, top = operands
        if type(x) is Batched or type(top) is Batched:
            return None
        return Batched(getattr(xp, name)(z.array, x, top, **attrs), level, block_diagonal=True)

    return rule


def _pick(g, x, top, xp, window, strides, dilations, padding):
    return xp.max_pick(g, x, top, window=window, strides=strides, dilations=dilations, padding=padding)


def _unpick(g, x, top, xp, window, strides, dilations, padding):
    return xp.max_unpool(g, x, top, window=window, strides=strides, dilations=dilations, padding=padding)


def _nothing(g, x, top, xp, window, strides, dilations, padding):
    return xp.max_unpool(g * 0, x, top, window=window, strides=strides, dilations=dilations, padding=padding)


# The position of a maximum is locally constant in x: the last two have zero gradients by x.
max_pool = primitive(
    "max_pool",
    ("x",),
    _max_dx,
    tf_name="MaxPool",
    batch=_images("max_pool"),
    jvp=lambda given, values, attrs, tangents: namespace_of(given[0]).max_pick(given[0], *values, **attrs),
    structure=_window_structure,
    category="linear algebra",
    names=("nn.max_pool",),
    doc="The largest number of each window.",
)
max_unpool = primitive(
    "max_unpool",
    ("z", "x", "top"),
    _pick,
    lambda g: g * 0,
    None,
    tf_name="MaxPoolGrad",
    batch=_positions_batch("max_unpool"),
    block_diagonal=_positions_block_diagonal("max_unpool"),
    structure=_unwindow_structure,
    category="linear algebra",
    doc="Zeros, with numbers added where the largest of each window was.",
)
max_pick = primitive(
    "max_pick",
    ("z", "x", "top"),
    _unpick,
    _nothing,
    None,
    tf_name="MaxPoolGradGrad",
    batch=_positions_batch("max_pick"),
    block_diagonal=_positions_block_diagonal("max_pick"),
    structure=_window_structure,
    category="linear algebra",
    doc="The numbers at the positions of the largest of each window.",
)


def _max_position_batch(xp, size, batched, x, top, **attrs):
    if not size:
        return None
    rows = [_into_batch(xp, broadcast_rows(xp, size, b, a)) for a, b in zip((x, top), batched, strict=True)]
    return _out_of_batch(xp, xp.max_position(*rows, **attrs), size)


max_position = primitive(
    "max_position",
    ("x", "top"),
    tf_name="MaxPoolWithArgmax",
    batch=_max_position_batch,
    category="linear algebra",
    instead="Positions have no derivative, but the values do: tf.reduce_max, tf.math.top_k(x).values.",
    names=("math.top_k",),
    doc="The position of the largest number of each window.",
)


def _max_and_position_kernel(xp, x, *, within_batch, dtype, **how):
    """The position in an image or, with `within_batch`, in the whole batch."""
    top = xp.max_pool(x, **how)
    where = xp.max_position(x, top, **how)
    if within_batch:
        images = np.arange(x.shape[0], dtype=np.int64) * prod(x.shape[1:])
        where = where + images.reshape(-1, *[1] * (len(where.shape) - 1))
    return top, xp.astype(where, dtype=dtype, source=where.dtype)


def _max_and_position_batch(xp, size, batched, x, *, within_batch, **attrs):
    if within_batch or not size:
        return None
    parts = xp.max_and_position(_into_batch(xp, x), within_batch=False, **attrs)
    return tuple(_out_of_batch(xp, part, size) for part in parts)


def _max_and_position_jvp(given, values, attrs, tangents):
    how = {name: attrs[name] for name in ("window", "strides", "dilations", "padding")}
    return namespace_of(given[0]).max_pick(given[0], *values[:2], **how), None


max_and_position = primitive(
    "max_and_position",
    ("x",),
    lambda g, x, out0, xp, window, strides, dilations, padding: xp.max_unpool(
        g[0], x, out0, window=window, strides=strides, dilations=dilations, padding=padding
    ),
    tf_name="MaxPoolWithArgmax",
    outputs=2,
    kernel=_max_and_position_kernel,
    batch=_max_and_position_batch,
    jvp=_max_and_position_jvp,
    structure=_window_structure,
    category="linear algebra",
    doc="The largest number of each window, and its position.",
)
