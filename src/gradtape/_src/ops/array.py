"""Shaping: primitives that rearrange elements. All are linear, each with its transpose."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.batched import Batched, batch_rules
from gradtape._src.arrays.dimensions import contains_dimension, is_known_shape
from gradtape._src.arrays.row_index import RowIndex
from gradtape._src.arrays.symbolic import as_value
from gradtape._src.conversion import constant_operand, operand
from gradtape._src.core.dispatch import declare, linear, primitive, run
from gradtape._src.core.primitive import Op, numpy_dtype, registry
from gradtape._src.core.structure import OpCall, moves, unchanged
from gradtape._src.ops.batching import shift_axis

Axes = tuple[int, ...]


def _keep_block_diagonal(name: str, keeps: Any) -> Any:
    """The block-diagonal rule of a primitive of one tensor that keeps the first axis if `keeps(x, attrs)` is true."""

    def rule(xp: Any, level: int, operands: tuple[Any, ...], **attrs: Any) -> Any:
        (x,) = operands
        if not keeps(x, **attrs):
            return None
        size = x.array.shape[0]
        return Batched(batch_rules[name](xp, size, [True], x.array, **attrs), level, block_diagonal=True)

    return rule


def _move_block_diagonal(name: str, along_first: Any) -> Any:
    """The block-diagonal rule of a primitive of one tensor that moves positions and inserts zeros.

    `along_first(x, **attrs)` returns its effect along the first axis as a function of an array [positions], or None if
    it does more there than move positions.
    """

    def rule(xp: Any, level: int, operands: tuple[Any, ...], **attrs: Any) -> Any:
        (x,) = operands
        if not x.shape or type(x.shape[0]) is not int or contains_dimension(attrs.values()):
            return None
        how = along_first(x, **attrs)
        if how is None:
            return None
        row_index = (x.row_index or RowIndex.each(x.shape[0])).moved(how)
        return Batched(batch_rules[name](xp, x.array.shape[0], [True], x.array, **attrs), level, True, row_index)

    return rule


identity = linear(
    "identity",
    lambda g: g,
    batch=lambda xp, size, batched, x: x,
    block_diagonal=_keep_block_diagonal("identity", lambda x: True),
    structure=unchanged,
    category="shape",
    moves_only=True,
    names=("identity",),
    doc="The same numbers.",
)

transfer = linear(  # to another device; cotangents are moved back
    "transfer",
    lambda g, xp, device, source: xp.transfer(g, device=source, source=device),
    tf_name="Identity",
    batch=lambda xp, size, batched, x, device, source: xp.transfer(x, device=device, source=source),
    block_diagonal=_keep_block_diagonal("transfer", lambda x, device, source: True),
    structure=unchanged,
    category="shape",
    doc="The same numbers on another device.",
)

astype = linear(
    "astype",
    lambda g, xp, source: xp.astype(g, dtype=source, source=numpy_dtype(g)),
    tf_name="Cast",
    batch=lambda xp, size, batched, x, dtype, source=None: xp.astype(x, dtype=dtype, source=source),
    block_diagonal=_keep_block_diagonal("astype", lambda x, dtype, source=None: True),
    structure=unchanged,
    category="shape",
    names=("cast",),
    doc="The numbers in another floating or complex dtype.",
)
discrete_cast = primitive(  # a cast from or to integers or booleans, where every path ends
    "discrete_cast",
    ("x",),
    tf_name="Cast",
    kernel=lambda xp, x, dtype: xp.astype(x, dtype=dtype),
    batch=lambda xp, size, batched, x, dtype: xp.discrete_cast(x, dtype=dtype),
    category="shape",
    names=("cast",),
    doc="A cast from or to integers or booleans, which has no derivative.",
)
stop_gradient = primitive(
    "stop_gradient",
    ("x",),
    kernel=lambda xp, x: x,
    batch=lambda xp, size, batched, x: x,
    category="shape",
    moves_only=True,
    names=("stop_gradient",),
    doc="The same numbers, as a constant.",
)

reshape = linear(
    "reshape",
    lambda g, x_shape, xp: xp.reshape(g, shape=x_shape),
    batch=lambda xp, size, batched, x, shape: xp.reshape(x, shape=(size, *_settled(x.shape[1:], shape))),
    block_diagonal=_keep_block_diagonal("reshape", lambda x, shape: shape[:1] == x.shape[:1]),
    structure=moves,
    category="shape",
    moves_only=True,
    names=("reshape",),
    doc="The same numbers in another shape.",
)


def _settled(have: Axes, shape: Axes) -> Axes:
    """A shape with -1 replaced (for one row, without the hidden axis)."""
    if -1 not in shape:
        return shape
    known = math.prod(n for n in shape if n != -1)
    return tuple(math.prod(have) // known if n == -1 and known else max(n, 0) for n in shape)


transpose = linear(
    "transpose",
    lambda g, xp, perm: xp.transpose(g, perm=_inverse(perm)),
    batch=lambda xp, size, batched, x, perm: xp.transpose(x, perm=(0, *(p + 1 for p in perm))),
    block_diagonal=_keep_block_diagonal("transpose", lambda x, perm: perm[:1] == (0,)),
    structure=moves,
    category="shape",
    moves_only=True,
    names=("transpose",),
    doc="The axes in another order.",
)


def _inverse(perm: Axes) -> Axes:
    return tuple(perm.index(i) for i in range(len(perm)))


def _broadcast_batch(xp: Any, size: int, batched: list[bool], x: Any, *, shape: Axes) -> Any:
    row = tuple(x.shape)[1:]
    lifted = xp.reshape(x, shape=(size, *[1] * (len(shape) - len(row)), *row))
    return xp.broadcast_to(lifted, shape=(size, *shape))


_broadcast_to = linear(  # its transpose is the engine's un-broadcasting
    "broadcast_to",
    lambda g: g,
    batch=_broadcast_batch,
    block_diagonal=_keep_block_diagonal(
        "broadcast_to", lambda x, shape: len(shape) == len(x.shape) and shape[:1] == x.shape[:1]
    ),
    structure=moves,
    category="shape",
    names=("broadcast_to",),
    doc="The numbers, repeated to a larger shape.",
)


def _broadcast_call(x: Any, *, shape: Axes) -> Any:
    if is_known_shape(shape):
        return _broadcast_to(x, shape=shape)
    x = operand(x)
    if type(x.array) is np.ndarray:  # an unknown number of copies: the program makes them
        uid, x = x.uid, constant_operand(as_value(x.array))
        x.uid = uid
    return _broadcast_to(x, shape=shape)


broadcast_to = declare(registry["broadcast_to"], _broadcast_call)

pad = linear(
    "pad",
    lambda g, x_shape, xp, before: xp.getitem(
        g, index=tuple(slice(b, b + n) for b, n in zip(before, x_shape, strict=True))
    ),
    batch=lambda xp, size, batched, x, before, after: xp.pad(x, before=(0, *before), after=(0, *after)),
    block_diagonal=_move_block_diagonal("pad", lambda x, before, after: lambda of: np.pad(of, (before[0], after[0]))),
    structure=moves,
    category="shape",
    names=("pad",),
    doc="Zeros around an array.",
)

flip = linear(
    "flip",
    lambda g, xp, axis: xp.flip(g, axis=axis),
    tf_name="ReverseV2",
    batch=shift_axis("flip"),
    structure=moves,
    category="shape",
    doc="The numbers along some axes in reverse order.",
)
roll = linear(
    "roll",
    lambda g, xp, shift, axis: xp.roll(g, shift=tuple(-s for s in shift), axis=axis),
    batch=shift_axis("roll"),
    structure=moves,
    category="shape",
    names=("roll",),
    doc="The numbers along some axes moved on, the last ones to the front.",
)

unstack = linear(
    "unstack",
    lambda g, xp, axis: xp.stack(*g, axis=axis),
    tf_name="Unpack",
    outputs=-1,
    batch=shift_axis("unstack"),
    structure=moves,
    category="shape",
    moves_only=True,
    names=("unstack",),
    doc="The slices along an axis, one tensor each.",
)
split = linear(
    "split",
    lambda g, xp, axis: xp.concatenate(*g, axis=axis),
    tf_name="SplitV",
    outputs=-1,
    batch=shift_axis("split"),
    structure=moves,
    category="shape",
    moves_only=True,
    names=("split",),
    doc="Parts of an axis, of given sizes.",
)


# -- several operands: one rule for all inputs -----------------------------------------------------------------------
def _concatenate_vjp(xp: Any, g: Any, needs: list[Any], *saved: Any, axis: int, sizes: Axes) -> list[Any]:
    result, start = [], 0
    for shape, size in zip(needs, sizes, strict=True):
        index = (slice(None),) * axis + (slice(start, start + size),)
        result.append(None if shape is None else xp.getitem(g, index=index))
        start += size
    return result


def _stack_vjp(xp: Any, g: Any, needs: list[Any], *saved: Any, axis: int) -> list[Any]:
    return [None if shape is None else xp.getitem(g, index=(*[slice(None)] * axis, i)) for i, shape in enumerate(needs)]


def _together(name: str) -> Any:
    """The batching rule of concatenate and stack: every operand gets the hidden axis."""

    def rule(xp: Any, size: int, batched: list[bool], *xs: Any, axis: int, **attrs: Any) -> Any:
        rows = [x if b else xp.broadcast_to(x, shape=(size, *x.shape)) for x, b in zip(xs, batched, strict=True)]
        return getattr(xp, name)(*rows, axis=axis + 1, **attrs)

    return rule


def _join(call: OpCall) -> Any:
    """The index sets of concatenate and stack: empty ones for operands that do not depend on the sources."""
    axis, sizes = call.attrs["axis"], call.attrs.get("sizes")
    front, rest = call.shape[:axis], call.shape[axis + 1 :]
    operands = [
        np.zeros((*front, *(() if sizes is None else (sizes[i],)), *rest), np.int64) if ids is None else ids
        for i, ids in enumerate(call.ids)
    ]
    return getattr(numpy_namespace, call.op.name)(*operands, **call.attrs)


_concatenate = Op(
    "concatenate",
    (),
    (),
    vjp_all=_concatenate_vjp,
    tf_name="ConcatV2",
    linear=True,
    batch=_together("concatenate"),
    structure=_join,
    category="shape",
    moves_only=True,
    names=("concat",),
    doc="Arrays one after the other along an axis.",
)


def _concatenate_call(*inputs: Any, axis: int, sizes: Axes = ()) -> Any:
    tensors = [operand(x) for x in inputs]
    return run(_concatenate, tensors, {"axis": axis, "sizes": tuple(t.array.shape[axis] for t in tensors)})


concatenate = declare(_concatenate, _concatenate_call)
stack = primitive(
    "stack",
    (),
    vjp_all=_stack_vjp,
    tf_name="Pack",
    linear=True,
    batch=_together("stack"),
    structure=_join,
    category="shape",
    moves_only=True,
    names=("stack",),
    doc="Arrays along a new axis.",
)


# -- slices ----------------------------------------------------------------------------------------------------------
def _behind(index: Any) -> Any:
    return (slice(None), *index)


def _slice_first(x: Any, index: Any) -> Any:
    return (lambda of: of[index[0]]) if index and type(index[0]) is slice else None


def _fill_first(x: Any, index: Any, shape: Axes) -> Any:
    if not index or type(index[0]) is not slice:
        return None

    def how(of: np.ndarray) -> np.ndarray:
        moved = np.zeros(shape[0], of.dtype)
        moved[index[0]] = of
        return moved

    return how


getitem = linear(
    "getitem",
    lambda g, x_shape, xp, index: xp.setitem(g, index=index, shape=x_shape),
    tf_name="StridedSlice",
    batch=lambda xp, size, batched, x, index: xp.getitem(x, index=_behind(index)),
    block_diagonal=_move_block_diagonal("getitem", _slice_first),
    structure=moves,
    category="indexing",
    moves_only=True,
    doc="The part of an array that a basic index names.",
)
setitem = linear(
    "setitem",
    lambda g, xp, index: xp.getitem(g, index=index),
    tf_name="StridedSliceGrad",
    batch=lambda xp, size, batched, x, index, shape: xp.setitem(x, index=_behind(index), shape=(size, *shape)),
    block_diagonal=_move_block_diagonal("setitem", _fill_first),
    structure=moves,
    category="indexing",
    moves_only=True,
    doc="Zeros, with an array at the place that a basic index names.",
)
