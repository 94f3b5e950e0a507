"""Functions of TensorFlow's root that repeat, pad, reorder and slice tensors."""

from __future__ import annotations

import builtins
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, checked, verify
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import (
    Symbolic,
    allows_dynamic_shapes,
    as_value,
    call,
    current_graph,
    is_known,
    sizes_from,
    unknown_shape,
)
from gradtape._src.conversion import array_from, converter_of, is_library, operand, wrap
from gradtape._src.core.composites import dispatched, is_composite
from gradtape._src.dtypes import as_dtype, bool as bool_
from gradtape._src.graph.calls import joined
from gradtape._src.ops import array, index, math, reduce, scatter
from gradtape._src.ops.indexing import no_position
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.tf.arguments import (
    Axes,
    as_int,
    choice,
    element_type,
    index_operand,
    index_type,
    integers,
    shape_of,
    static,
)
from gradtape._src.tf.array import cast, positions, stack
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def picked(x: Tensor, positions: Any, axis: int) -> Tensor:
    """Slices along an axis, with a dense gradient (a lookup along the first axis alone would have a sparse one)."""
    result: Tensor = index.take(array.identity(x) if axis == 0 else x, positions, axis=axis, batch_dims=0)
    return result


# -- repeating -------------------------------------------------------------------------------------------------------
@dispatched
def tile(input: TensorLike, multiples: TensorLike, name: str | None = None) -> Tensor:
    """Repeat the tensor `multiples[i]` times along axis i.

    >>> tf.tile([1, 2], [2]).numpy().tolist()
    [1, 2, 1, 2]
    """
    x, plain = operand(input), integers(multiples, "Tile", "Tmultiples")
    have = tuple(x.array.shape)
    if np.ndim(plain) != 1:
        raise errors.invalid_argument(
            f"Expected multiples to be 1-D, but got shape {errors.brackets(np.shape(plain))}", "Tile"
        )
    times = shape_of(plain)
    if len(times) != len(have):
        raise errors.invalid_argument(
            f"Expected multiples argument to be a vector of length {len(have)} but got length {len(times)}", "Tile"
        )
    for i, n in enumerate(times):
        if n < 0:
            raise errors.refused_value(f"Expected multiples[{i}] >= 0, but got {n}", "Tile")
    # Every axis gets a new one before it, which is then broadcast: the transpose is the engine's un-broadcasting.
    apart = tuple(n for size in have for n in (1, size))
    wide = tuple(n for k, size in zip(times, have, strict=True) for n in (k, size))
    stretched = array.broadcast_to(array.reshape(x, shape=apart), shape=wide)
    result: Tensor = array.reshape(stretched, shape=tuple(k * n for k, n in zip(times, have, strict=True)))
    return result


def repeat(input: TensorLike, repeats: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Repeat every element, or slice along an axis, `repeats` times; without an axis, the tensor is flattened.

    >>> tf.repeat([3, 4], [1, 2], axis=0).numpy().tolist()
    [3, 4, 4]
    """
    x = operand(input)
    if axis is None or not x.array.shape:
        x = array.reshape(x, shape=(-1,) if x.array.shape else (1,))
    at = 0 if axis is None else _axis_of_repeat(axis, len(x.array.shape))
    given = operand(repeats)
    if (
        type(given.array) is Symbolic
        and allows_dynamic_shapes()
        and given.dtype.is_integer
        and len(given.array.shape) <= 1
    ):
        return _dynamic_repeat(x, given, at)
    if not is_known(given):
        raise unknown_shape("tf.repeat", "Pass `repeats` as numbers, or use tf.gather with the indices.", "Repeat")
    have, counts = tuple(x.array.shape), np.asarray(given.array)
    if not counts.size and not is_library(repeats):
        counts = counts.astype(np.int32)
    if counts.dtype.kind == "b" and not is_library(repeats):
        counts = counts.astype(np.int32)
    if counts.dtype.kind not in "iu":
        raise TypeError(
            f"Argument `tensor` (name: repeats) must be of type integer. Received `tensor` = {counts} of dtype: "
            f"{as_dtype(counts.dtype)!r}"
        )
    if counts.ndim > 1:
        raise ValueError(f"repeats must be a scalar or a vector, got the shape {counts.shape}.")
    if counts.size == 1:
        times = int(counts.reshape(-1)[0])
        if times < 0:
            raise _no_count(counts, at)
        stretched = array.broadcast_to(
            array.reshape(x, shape=(*have[: at + 1], 1, *have[at + 1 :])),
            shape=(*have[: at + 1], times, *have[at + 1 :]),
        )
        result: Tensor = array.reshape(stretched, shape=(*have[:at], have[at] * times, *have[at + 1 :]))
        return result
    if counts.size != have[at]:
        raise ValueError(f"Dimensions {have[at]} and {counts.size} are not compatible")
    return picked(x, np.repeat(np.arange(have[at]), np.maximum(counts, 0)), at)  # negative counts are 0


def _axis_of_repeat(axis: Any, rank: int) -> int:
    if not isinstance(axis, (int, np.integer)) or isinstance(axis, bool):
        raise TypeError(f"axis must be an int; got {type(axis).__name__}.")
    if not -rank <= axis < rank:
        raise ValueError(f"axis={axis} out of bounds: expected {-rank}<=axis<{rank}")
    return int(axis) + rank if axis < 0 else int(axis)


def _dynamic_repeat(x: Tensor, counts: Tensor, at: int) -> Tensor:
    """`repeat` for counts that only the running program knows."""
    if tuple(counts.array.shape) in ((), (1,)):
        counts = wrap(verify(_COUNT, counts.array, axis=at))
    each = array.broadcast_to(counts, shape=(x.array.shape[at],))
    return picked(x, call("repeated_places", (each.array,), {}), at)


def _no_count(count: Any, axis: int) -> Exception:
    return errors.refused_value(f"Expected multiples[{axis + 1}] >= 0, but got {count.min()}", "Tile")


_COUNT = Rule(lambda xp, count, axis: count < 0, _no_count)  # in a count for each element, negative ones are 0


def meshgrid(*args: Any, **kwargs: Any) -> list[Tensor]:
    """Create coordinate grids: one tensor for each vector, all with the shape that they span.

    >>> [g.numpy().tolist() for g in tf.meshgrid([1, 2], [3, 4])]
    [[[1, 2], [1, 2]], [[3, 3], [4, 4]]]
    """
    indexing = kwargs.pop("indexing", "xy")
    kwargs.pop("name", None)
    if kwargs:
        raise TypeError(f"'{next(iter(kwargs))}' is an invalid keyword argument for this function")
    choice(indexing, "indexing", ("xy", "ij"), "Argument `indexing` parameter must be either 'xy' or 'ij'.")
    vectors = [array.reshape(operand(a), shape=(-1,)) for a in args]
    if not vectors:
        return []
    for v in vectors[1:]:  # like x * ones, where booleans go with every dtype
        if v.array.dtype != vectors[0].array.dtype and "b" not in (v.array.dtype.kind, vectors[0].array.dtype.kind):
            raise errors.mismatched_dtypes("Mul", v.dtype, vectors[0].dtype)
    places = list(builtins.range(len(vectors)))
    if indexing == "xy" and len(vectors) > 1:
        places[0], places[1] = 1, 0
    shape = [0] * len(vectors)
    for v, place in zip(vectors, places, strict=True):
        shape[place] = v.array.shape[0]
    grids = []
    for v, place in zip(vectors, places, strict=True):
        lying = tuple(n if i == place else 1 for i, n in enumerate(shape))
        grids.append(array.broadcast_to(array.reshape(v, shape=lying), shape=tuple(shape)))
    return grids


# -- padding ---------------------------------------------------------------------------------------------------------
def pad(
    tensor: TensorLike, paddings: TensorLike, mode: str = "CONSTANT", constant_values: Any = 0, name: str | None = None
) -> Tensor:
    """Pad every axis at both ends, with a constant or a mirror image of the elements.

    >>> tf.pad([1, 2, 3], [[1, 2]]).numpy().tolist()
    [0, 1, 2, 3, 0, 0]
    >>> tf.pad([1, 2, 3], [[1, 2]], "REFLECT").numpy().tolist()
    [2, 1, 2, 3, 2, 1]
    >>> tf.pad([1, 2, 3], [[1, 2]], "SYMMETRIC").numpy().tolist()
    [1, 1, 2, 3, 3, 2]
    """
    if not isinstance(mode, str):
        raise TypeError(f"Expected a string for argument 'mode', but got {mode!r}.")
    kind = mode.upper()
    op = "PadV2" if kind == "CONSTANT" else "MirrorPad"
    x, widths = operand(tensor), np.asarray(integers(paddings, op, "Tpaddings"))
    if kind not in ("CONSTANT", "REFLECT", "SYMMETRIC"):
        raise ValueError(
            'Value of argument `mode` expected to be one of "CONSTANT", "REFLECT", or "SYMMETRIC". '
            f"Received `mode` = {mode}"
        )
    have = tuple(x.array.shape)
    if not have and not widths.size:
        return array.identity(x)
    if widths.shape != (len(have), 2):
        raise errors.invalid_argument(
            f"The first dimension of paddings must be the rank of inputs{errors.brackets(widths.shape)} "
            f"{errors.brackets(have)}",
            op,
        )
    before, after = shape_of(widths[:, 0]), shape_of(widths[:, 1])
    for b, a in zip(before, after, strict=True):
        if b < 0 or a < 0:
            raise errors.invalid_argument(f"Paddings must be non-negative: {b} {a}", op)
    if kind == "CONSTANT":
        return _pad_constant(x, before, after, constant_values)
    return _pad_mirror(x, before, after, int(kind == "REFLECT"))


def _pad_constant(x: Tensor, before: Axes, after: Axes, value: Any) -> Tensor:
    if x.array.dtype.kind == "O":
        filling = b"" if value == 0 else np.asarray(operand(value).array).item()
        texts = np.asarray(x.array)
        padded_texts = np.full([a + n + b for a, n, b in zip(before, texts.shape, after, strict=True)], filling, object)
        padded_texts[tuple([np.s_[a : a + n] for a, n in zip(before, texts.shape, strict=True)])] = texts
        return wrap(padded_texts)
    padded: Tensor = array.pad(x, before=before, after=after)
    if not isinstance(value, (Tensor, Variable, np.ndarray)) and value == 0:
        return padded
    inside = np.zeros(padded.array.shape, np.bool_)
    inside[tuple(builtins.slice(b, b + n) for b, n in zip(before, x.array.shape, strict=True))] = True
    filled: Tensor = math.where(inside, padded, array.stop_gradient(operand(value, x.dtype)))
    return filled


def _pad_mirror(x: Tensor, before: Axes, after: Axes, skip: int) -> Tensor:
    """Pad with reflections, axis by axis; REFLECT skips the border itself (`skip`)."""
    have = tuple(x.array.shape)
    for b, a, n in zip(before, after, have, strict=True):
        if b > n - skip or a > n - skip:
            sentence = (
                f"paddings must be less than the dimension size: {b}, {a} not less than {n}"
                if skip
                else f"paddings must be no greater than the dimension size: {b}, {a} greater than {n}"
            )
            if len(have) > 5:  # TensorFlow reports this first
                raise errors.UnimplementedError(None, None, f"inputs rank not in [0,5]: {len(have)} [Op:MirrorPad]")
            raise errors.refused_value(sentence, "MirrorPad")
    for axis, (b, a, n) in enumerate(zip(before, after, have, strict=True)):
        if b or a:
            line = np.arange(n)
            positions = np.concatenate([line[skip : skip + b][::-1], line, line[n - skip - a : n - skip][::-1]])
            x = picked(x, positions, axis)
    return x


# -- reordering ------------------------------------------------------------------------------------------------------
def roll(input: TensorLike, shift: TensorLike, axis: Any, name: str | None = None) -> Tensor:
    """Shift elements along axes, cyclically.

    >>> tf.roll([1, 2, 3, 4], 1, 0).numpy().tolist()
    [4, 1, 2, 3]
    """
    x, given = operand(input), index_operand(shift, "Roll", "Tshift", empty=False)
    axes = shape_of(index_operand(axis, "Roll", "Taxis", empty=False))
    if not is_known(given):
        return _rolled(x, given, axes)
    shifts = shape_of(given)
    rank = len(x.array.shape)
    if not rank:
        raise errors.invalid_argument("input must be 1-D or higher", "Roll")
    if len(shifts) != len(axes):
        raise errors.invalid_argument("shift and axis must have the same size", "Roll")
    for a in axes:
        if not -rank <= a < rank:
            raise errors.refused_value(f"axis {a} is out of range", "Roll")
    total: dict[int, int] = {}
    for s, a in zip(shifts, axes, strict=True):  # shifts along the same axis are summed
        total[a % rank] = total.get(a % rank, 0) + s
    result: Tensor = array.roll(x, shift=tuple(total.values()), axis=tuple(total))
    return result


def _rolled(x: Tensor, shift: Tensor, axes: Axes) -> Tensor:
    """`roll` by unknown shifts: a lookup along each axis."""
    shifts = array.reshape(shift, shape=(-1,))
    if shifts.array.shape != (len(axes),):
        raise errors.invalid_argument("shift and axis must have the same size", "Roll")
    for i, axis in enumerate(axes):
        size = x.array.shape[axis]
        positions = np.arange(size, dtype=shifts.array.dtype) - shifts[i]
        x = picked(x, math.mod(positions, size), axis % len(x.array.shape))
    return x


def reverse_sequence(
    input: TensorLike, seq_lengths: TensorLike, seq_axis: Any = None, batch_axis: Any = None, name: str | None = None
) -> Tensor:
    """Reverse the first `seq_lengths[i]` elements of row i.

    >>> tf.reverse_sequence([[1, 2, 3], [4, 5, 6]], [2, 3], seq_axis=1, batch_axis=0).numpy().tolist()
    [[2, 1, 3], [6, 5, 4]]
    """
    if seq_axis is None:
        raise TypeError("Expected int for argument 'seq_dim' not None.")
    x, lengths = operand(input), index_operand(seq_lengths, "ReverseSequence", "Tlen")
    have, along, batch = tuple(x.array.shape), as_int(seq_axis, "seq_dim"), as_int(batch_axis, "batch_dim", 0)
    for axis, word in ((along, "seq_dim"), (batch, "batch_dim")):
        if not 0 <= axis < len(have):
            raise errors.invalid_argument(f"Invalid {word} {axis}", "ReverseSequence")
    if along == batch:
        raise errors.invalid_argument(f"batch_dim == seq_dim == {along}", "ReverseSequence")
    if tuple(lengths.array.shape) != (have[batch],):
        raise errors.invalid_argument(
            f"Length of seq_lengths != input.dims({batch}), ({lengths.array.size} vs. {have[batch]})", "ReverseSequence"
        )
    lengths = checked(_LENGTHS, lengths, size=have[along], axis=along)
    steps, ends = np.arange(have[along], dtype=lengths.array.dtype), lengths[:, None]
    positions = math.where(math.less(steps, ends), ends - 1 - steps, steps)
    order = (batch, along, *(i for i in builtins.range(len(have)) if i not in (batch, along)))
    back = tuple(order.index(i) for i in builtins.range(len(have)))
    turned = index.take(array.transpose(x, perm=order), positions, axis=1, batch_dims=1)
    result: Tensor = array.transpose(turned, perm=back)
    return result


def _wrong_length(xp: Any, lengths: Any, size: int, **_: Any) -> Any:
    return (lengths < 0) | (lengths > size)


def _not_a_length(lengths: Any, size: int, axis: int) -> Exception:
    (*_, i) = at = index.first_place(_wrong_length(np, lengths, size))
    sentence = f"seq_lens({i}) < 0" if lengths[tuple(at)] < 0 else f"seq_lens({i}) > input.dims({axis})"
    return errors.invalid_argument(sentence, "ReverseSequence")


_LENGTHS = Rule(_wrong_length, _not_a_length, lambda interval, size, axis: interval[0] >= 0 and interval[1] <= size)


# -- slices ----------------------------------------------------------------------------------------------------------
def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Tensor:
    """Return a block, given where it begins and its size along every axis (-1: up to the end).

    >>> tf.slice([[1, 2, 3], [4, 5, 6]], [0, 1], [-1, 2]).numpy().tolist()
    [[2, 3], [5, 6]]
    """
    x, sizes = operand(input_), shape_of(size, "Slice", "Index", fixed=True)
    have = tuple(x.array.shape)
    if is_library(begin) and not is_known(given := operand(begin)):
        return _sliced(x, given, sizes)
    starts = shape_of(begin, "Slice", "Index", fixed=True)
    if not len(starts) == len(sizes) == len(have):
        raise errors.invalid_argument(
            f"Expected begin and size arguments to be 1-D tensors of size {len(have)}, but got shapes "
            f"[{len(starts)}] and [{len(sizes)}] instead.",
            "Slice",
        )
    for b, s, n in zip(starts, sizes, have, strict=True):
        if not (0 <= b <= n and (s == -1 or 0 <= s <= n - b)):
            if current_graph() is not None and all(0 <= s <= n for s, n in zip(sizes, have, strict=True)):
                return _sliced(x, wrap(as_value(np.array(starts, np.int64))), sizes)  # rejected when it runs
            raise _no_block(np.array(starts), sizes, have)
    parts = [builtins.slice(b, n if s == -1 else b + s) for b, s, n in zip(starts, sizes, have, strict=True)]
    result: Tensor = array.getitem(x, index=tuple(parts))
    return result


def _sliced(x: Tensor, begin: Tensor, sizes: Axes) -> Tensor:
    """`slice` from unknown positions, along each axis that is not taken as a whole."""
    have = tuple(x.array.shape)
    if not tuple(begin.array.shape) == (len(sizes),) == (len(have),):
        raise errors.invalid_argument(
            f"Expected begin and size arguments to be 1-D tensors of size {len(have)}, but got shapes "
            f"{errors.brackets(begin.array.shape)} and [{len(sizes)}] instead.",
            "Slice",
        )
    if -1 in sizes and allows_dynamic_shapes():
        starts = sizes_from(begin.array).tolist()
        parts = [builtins.slice(b, n if s == -1 else b + s) for b, s, n in zip(starts, sizes, have, strict=True)]
        result: Tensor = array.getitem(x, index=tuple(parts))
        return result
    if -1 in sizes:
        raise unknown_shape("tf.slice", "Give its size along every axis: -1 is not a number.", "Slice")
    begin = checked(_BLOCK, begin, sizes=sizes, shape=have)
    for axis, (size, n) in enumerate(zip(sizes, have, strict=True)):
        if size != n:
            x = picked(x, begin[axis] + np.arange(size, dtype=begin.array.dtype), axis)
    return x


def _not_a_block(xp: Any, begin: Any, sizes: Axes, shape: Axes) -> Any:
    return (begin < 0) | (begin > np.subtract(shape, sizes))


def _no_block(begin: Any, sizes: Axes, shape: Axes) -> Exception:
    for row in begin.reshape(-1, len(shape)).tolist():
        for i, (b, s, n) in enumerate(zip(row, sizes, shape, strict=True)):
            if not 0 <= b <= n:
                return errors.refused_value(f"Expected begin[{i}] in [0, {n}], but got {b}", "Slice")
            if s != -1 and not 0 <= s <= n - b:
                return errors.refused_value(f"Expected size[{i}] in [0, {n - b}], but got {s}", "Slice")
    raise AssertionError("the block lies inside")


_BLOCK = Rule(_not_a_block, _no_block)


def _position(begin: Any, step: Any, size: Any, axis: int) -> Any:
    """A single position of an axis, which disappears."""
    if step < 0:
        raise errors.invalid_argument("only stride 1 allowed on non-range indexing.", "StridedSlice")
    if not -size <= begin < size:
        raise no_position(np.asarray(begin), size, axis)
    return begin


def strided_slice(
    input_: Any,
    begin: Any,
    end: Any,
    strides: Any = None,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    var: Any = None,
    name: str | None = None,
) -> Tensor:
    """Do what `x[begin:end:strides]` does; bit i of a mask changes the meaning of entry i.

    `begin_mask` and `end_mask` ignore the entry and slice from the start or to the end, `ellipsis_mask` stands for all
    remaining axes, `new_axis_mask` inserts an axis of length 1, and `shrink_axis_mask` selects one position and removes
    its axis.

    >>> tf.strided_slice([1, 2, 3, 4, 5], [0], [5], [2]).numpy().tolist()
    [1, 3, 5]
    """
    x = operand(input_)
    starts, ends = (_slice_ends(given) for given in (begin, end))
    steps = (1,) * len(starts) if strides is None else _slice_ends(strides)
    begin_mask, end_mask = as_int(begin_mask, "begin_mask", 0), as_int(end_mask, "end_mask", 0)
    ellipsis_mask, new_axis_mask = as_int(ellipsis_mask, "ellipsis_mask", 0), as_int(new_axis_mask, "new_axis_mask", 0)
    shrink_axis_mask = as_int(shrink_axis_mask, "shrink_axis_mask", 0)
    have = tuple(x.array.shape)
    if not len(starts) == len(ends) == len(steps):
        raise errors.invalid_argument(
            f"Expected begin, end, and strides to be 1D equal size tensors, but got shapes [{len(starts)}], "
            f"[{len(ends)}], and [{len(steps)}] instead.",
            "StridedSlice",
        )
    if ellipsis_mask & (ellipsis_mask - 1):
        raise errors.invalid_argument("Multiple ellipses in slice spec not allowed", "StridedSlice")
    parts: list[Any] = []
    axis = 0
    for i, (b, e, s) in enumerate(zip(starts, ends, steps, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            later = sum(not new_axis_mask >> j & 1 for j in builtins.range(i + 1, len(starts)))
            rest = max(len(have) - axis - later, 0)
            parts += [builtins.slice(None)] * rest
            axis += rest
        elif new_axis_mask & bit:
            parts.append(None)
        elif axis >= len(have):
            raise errors.invalid_argument(
                f"Index out of range using input dim {axis}; input has only {len(have)} dims", "StridedSlice"
            )
        elif s == 0:
            raise errors.invalid_argument(f"strides[{i}] must be non-zero", "StridedSlice")
        else:
            whole = builtins.slice(None if begin_mask & bit else b, None if end_mask & bit else e, s)
            parts.append(_position(b, s, have[axis], axis) if shrink_axis_mask & bit else whole)
            axis += 1
    result: Tensor = array.getitem(x, index=tuple(parts))
    return result


def _slice_ends(given: Any) -> Axes:
    found = integers(given, "StridedSlice", "Index", fixed=True)
    if np.ndim(found) != 1:
        raise errors.invalid_argument(
            f"Expected begin, end, and strides to be 1D equal size tensors, but got shape "
            f"{errors.brackets(np.shape(found))}",
            "StridedSlice",
        )
    return shape_of(found)


# -- masks, several tensors -----------------------------------------------------------------------------------------
def sequence_mask(lengths: TensorLike, maxlen: Any = None, dtype: Any = bool_, name: str | None = None) -> Tensor:
    """Return a mask that is true for the first `lengths[i]` positions of row i.

    >>> tf.sequence_mask([1, 3], 4).numpy().astype(int).tolist()
    [[1, 0, 0, 0], [1, 1, 1, 0]]
    """
    given = operand(lengths)
    if given.dtype.name == "string":
        raise errors.UnimplementedError(None, None, "Cast string to int64 is not supported [Op:Cast]")
    wanted = as_dtype("bool" if dtype is None else dtype)
    if wanted.name == "string":
        raise errors.UnimplementedError(None, None, "Cast bool to string is not supported [Op:Cast]")
    if given.dtype.is_bool or given.dtype.is_complex:
        given = cast(given, "int64")
    if maxlen is None:
        if type(given.array) is Symbolic and allows_dynamic_shapes():
            whole = cast(given, "int64") if not given.dtype.is_integer else given
            most = reduce.max_(whole, axis=tuple(builtins.range(len(whole.array.shape))))
            return sequence_mask(whole, math.maximum(most, np.zeros((), most.array.dtype)), wanted)
        if not is_known(given):
            raise unknown_shape("tf.sequence_mask", "Pass maxlen.")
        counts = np.asarray(given.array)
        longest: Any = max(counts.max(initial=0), 0) if counts.size else 0
    else:
        longest = np.asarray(static(maxlen) if is_library(maxlen) or is_dimension(maxlen) else array_from(maxlen))
        if longest.dtype == object and not longest.ndim and is_dimension(longest.item()):
            mask = math.less(positions(longest.item(), given.array.dtype), given[..., None])
            return mask if wanted.is_bool else cast(mask, wanted)
        if longest.dtype.kind in "iu" and not given.dtype.is_integer:
            given = cast(given, "int64")  # lengths are compared in the dtype of maxlen: fractions are truncated
        if longest.dtype.kind not in "iuf":
            raise TypeError(f"Expected an integer for argument 'maxlen', but got {maxlen!r}.")
        if not longest.ndim and (longest < 0 or longest != longest):
            raise errors.invalid_argument(f"maxlen must be a non-negative number, got {longest}", "Range")
        if longest.ndim:
            raise ValueError(
                f"Argument `maxlen` must be scalar for sequence_mask, received `maxlen` = {longest} with shape "
                f"'{longest.shape}' instead"
            )
    mask = math.less(np.arange(float(longest)).astype(given.array.dtype), given[..., None])
    return mask if wanted.is_bool else wrap(mask.array.astype(wanted.numpy_dtype))


def parallel_stack(values: TensorLike, name: str = "parallel_stack") -> Tensor:
    """Stack tensors along a new first axis. Eager tensors are already computed, so nothing runs in parallel.

    >>> tf.parallel_stack([[1, 2], [3, 4]]).numpy().tolist()
    [[1, 2], [3, 4]]
    """
    return stack(values, axis=0)


def shape_n(input: TensorLike, out_type: Any = "int32", name: str | None = None) -> list[Tensor]:
    """Return the shapes of several tensors.

    >>> [s.numpy().tolist() for s in tf.shape_n([tf.zeros([2]), tf.zeros([3, 4])])]
    [[2], [3, 4]]
    """
    kind = index_type(out_type, "ShapeN")
    return [wrap(np.array(operand(x).array.shape, kind)) for x in _listed(input, "ShapeN")]


def identity_n(input: TensorLike, name: str | None = None) -> list[Tensor]:
    """Copy the tensors.

    >>> [t.numpy() for t in tf.identity_n([1.0, 2.0])]
    [np.float32(1.0), np.float32(2.0)]
    """
    tensors = [operand(x) for x in _listed(input, "IdentityN")]
    return joined([array.identity(x) for x in tensors], [x for x in tensors if is_differentiable(x.array)])


def _listed(values: Any, op: str) -> list[Any]:
    """The members of a list argument; there must be at least one."""
    if (
        isinstance(values, (str, dict))
        or not hasattr(values, "__iter__")
        or np.shape(getattr(values, "array", [0])) == ()
    ):
        raise TypeError(f"Expected list for 'input' argument to '{op}' Op, not {values!r}.")
    found = list(values)
    if not found:
        raise errors.invalid_argument("Value for attr 'N' of 0 must be at least minimum 1", op)
    return found


def guarantee_const(input: TensorLike, name: str | None = None) -> Tensor:
    """Return the same values; TensorFlow has no gradient for this op.

    >>> tf.guarantee_const([1.0, 2.0]).numpy().tolist()
    [1.0, 2.0]
    """
    result: Tensor = scatter.guarantee_const(operand(input))
    return result


def get_static_value(tensor: TensorLike | SparseTensor, partial: bool = False) -> Any:
    """Return the value of a tensor as a NumPy array, or None if it is not known while a function is traced.

    A variable has no static value. Anything that is not a tensor is returned unchanged.

    >>> tf.get_static_value(tf.constant([1, 2])), tf.get_static_value([1, 2])
    (array([1, 2], dtype=int32), [1, 2])
    """
    if isinstance(tensor, Variable) or is_composite(tensor):
        return None
    if not isinstance(tensor, Tensor):
        return tensor if converter_of(tensor) is None else None
    return np.array(tensor.array)[()] if is_known(tensor) else None


@dispatched
def bitcast(input: TensorLike, type: Any, name: str | None = None) -> Tensor:
    """Reinterpret the same bytes as another dtype.

    >>> hex(tf.bitcast(1.0, "uint32").numpy().item())
    '0x3f800000'
    """
    x, wanted = operand(input), element_type(type)
    for dtype in (x.dtype, wanted):
        if dtype.is_bool or dtype.name == "string":
            raise errors.unsupported_dtype("Bitcast", dtype)
    have, want = x.array.dtype.itemsize, wanted.numpy_dtype.itemsize
    if want > have:
        last = x.array.shape[-1] if x.array.shape else None
        if last is None or last * have != want:
            raise errors.invalid_argument(
                f"Cannot bitcast from {x.dtype.name} to {wanted.name}: the last axis should have {want // have} "
                f"elements, but the shape is {errors.brackets(x.array.shape)}",
                "Bitcast",
            )
    result: Tensor = scatter.bitcast(x, dtype=wanted.numpy_dtype)
    return result


_FLAT_INDEX = index.WITHIN._replace(
    error=lambda flat, size: errors.invalid_argument("index is out of bound as with dims", "UnravelIndex")
)


def unravel_index(indices: TensorLike, dims: Any, name: str | None = None) -> Tensor:
    """Convert flat indices to coordinates: one row for each axis.

    >>> tf.unravel_index([1, 5], [2, 3]).numpy().tolist()
    [[0, 1], [1, 2]]
    """
    flat = index_operand(indices, "UnravelIndex", "Tidx", empty=False)
    sizes = shape_of(dims, "UnravelIndex", "Tidx", fixed=True)
    if np.ndim(static(dims)) != 1:
        raise errors.invalid_argument("The dims should be a vector", "UnravelIndex")
    if any(n == 0 for n in sizes):
        raise errors.invalid_argument("input dims cannot contain a dim of zero", "UnravelIndex")
    flat = checked(_FLAT_INDEX, flat, size=prod(sizes))
    coordinates = []
    for n in reversed(sizes):
        coordinates.append(math.mod(flat, n))
        flat = math.floor_divide(flat, n)
    return stack(coordinates[::-1], axis=0)
