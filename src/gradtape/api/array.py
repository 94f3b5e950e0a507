"""Functions at TensorFlow's root that make, shape, join and look up tensors."""

from __future__ import annotations

import builtins
import math as _math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape import conversion, errors
from gradtape.api.arguments import Axes, dtype_or, integer, numpy_dtype, shape_of, static
from gradtape.arrays import common_namespace
from gradtape.arrays.dimensions import broadcast_shapes, is_dimension
from gradtape.arrays.symbolic import arange, filled, is_known, number, sizes_of
from gradtape.compile import devices
from gradtape.conversion import array_from, convert, operand, operands, wrap
from gradtape.dtypes import as_dtype, float32
from gradtape.indexed_slices import IndexedSlices, map_values
from gradtape.ops import array, index, math, reduce
from gradtape.ops.indexing import boolean_mask as _boolean_mask
from gradtape.shape import TensorShape
from gradtape.tensor import Tensor
from gradtape.variable import Variable, held

newaxis = None


# -- making ----------------------------------------------------------------------------------------------------------
def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """A tensor of a Python or NumPy value (copied).

    >>> constant([1, 2]).dtype, constant(0.5).dtype
    (tf.int32, tf.float32)
    """
    if isinstance(value, Tensor):
        if dtype is not None and as_dtype(dtype) != value.dtype:
            raise TypeError(
                f"Expected tensor {value!r} with dtype {as_dtype(dtype)!r}, but got dtype {value.dtype!r}. "
                "Use tf.cast to change it."
            )
        tensor = value
    elif isinstance(value, Variable):
        tensor = convert(value, dtype)
    else:
        if isinstance(value, (list, tuple)) and any(isinstance(v, Tensor) for v in value):
            raise TypeError(
                "Scalar tensor has no `len()`: tf.constant takes plain values. tf.stack or tf.convert_to_tensor "
                "packs a list of tensors."
            )
        tensor = wrap(array_from(value, None if dtype is None else as_dtype(dtype)))
    if shape is None:
        return tensor
    wanted = shape_of(shape)
    have, size = tensor.array.size, _math.prod(wanted)
    if have == size:
        return tensor if tensor.array.shape == wanted else wrap(tensor.array.reshape(wanted))
    if have == 1:
        return wrap(np.full(wanted, tensor.array.ravel()[0], tensor.array.dtype))
    raise TypeError(
        f"Eager execution of tf.constant with unsupported shape. Tensor {value!r} (converted from {value!r}) has "
        f"{have} elements, but got `shape` {wanted} with {size} elements)."
    )


def convert_to_tensor(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Tensor:
    """A tensor of anything that can be one; a tensor as it is.

    >>> convert_to_tensor([1.0, constant(2.0)]).numpy().tolist()
    [1.0, 2.0]
    """
    if isinstance(value, Variable):
        tensor = value.value()
        return convert(tensor, dtype)
    return convert(value, dtype, dtype_hint)


def cast(x: Any, dtype: Any, name: str | None = None) -> Any:
    """The same numbers in another dtype.

    >>> cast([1.7, -1.7], "int32").numpy().tolist()
    [1, -1]
    """
    wanted = as_dtype(dtype)
    if isinstance(x, IndexedSlices):
        return map_values(lambda t: cast(t, wanted), x)
    tensor = convert(x) if not isinstance(x, Variable) else x.read()
    have = tensor.dtype
    if have == wanted:
        return tensor if not isinstance(x, Variable) else x.value()
    if "string" in (have.name, wanted.name):
        raise errors.UnimplementedError(None, None, f"Cast {have.name} to {wanted.name} is not supported [Op:Cast]")
    if (wanted.is_floating or wanted.is_complex) and (have.is_floating or have.is_complex):
        return array.astype(tensor, dtype=wanted.numpy_dtype, source=have.numpy_dtype)
    return array.discrete_cast(tensor, dtype=wanted.numpy_dtype)


def saturate_cast(value: Any, dtype: Any, name: str | None = None) -> Tensor:
    """A cast that stops at the ends of the new dtype's range instead of wrapping around."""
    tensor, wanted = convert(value), as_dtype(dtype)
    if tensor.dtype.is_complex or wanted.is_complex or wanted.is_bool:
        return cast(tensor, wanted)
    low, high = builtins.max(tensor.dtype.min, wanted.min), builtins.min(tensor.dtype.max, wanted.max)
    if tensor.dtype.is_floating and wanted.is_integer:  # a bound that rounds beyond the range is stepped back from
        kind = tensor.array.dtype.type
        low = low if int(kind(low)) >= wanted.min else np.nextafter(kind(low), kind(0))
        above = int(kind(high)) > wanted.max
        result = cast(
            math.maximum(math.minimum(tensor, np.nextafter(kind(high), kind(0)) if above else high), low), wanted
        )
        top = wrap(np.asarray(wanted.max, wanted.numpy_dtype))
        return math.where(math.greater_equal(tensor, kind(high)), top, result) if above else result
    clipped = math.maximum(math.minimum(tensor, high), low)
    return cast(clipped, wanted)


def zeros(shape: Any, dtype: Any = float32, name: str | None = None, layout: Any = None) -> Tensor:
    """Zeros of a shape."""
    return fill_with(0, shape, dtype)


def ones(shape: Any, dtype: Any = float32, name: str | None = None, layout: Any = None) -> Tensor:
    """Ones of a shape."""
    return fill_with(1, shape, dtype)


def fill_with(value: int, shape: Any, dtype: Any) -> Tensor:
    kind = as_dtype(dtype)
    if kind.name == "string":
        return wrap(np.full(_lengths(shape), b"" if value == 0 else b"1", object))
    return wrap(filled(_lengths(shape), kind.numpy_dtype, value))


def _lengths(shape: Any) -> Axes:
    """The shape of a new tensor: no length is negative."""
    wanted = shape_of(shape)
    for n in wanted:
        if n < 0:
            raise errors.invalid_argument(f"Dimension {n} must be >= 0", "Fill")
    return wanted


def fill(dims: Any, value: Any, name: str | None = None, layout: Any = None) -> Tensor:
    """A shape full of one value; the gradient flows to the value.

    >>> fill([2], 7).numpy().tolist()
    [7, 7]
    """
    scalar = operand(value)
    if scalar.array.shape:
        raise errors.invalid_argument(
            f"value must be a scalar, got shape {errors.brackets(scalar.array.shape)}", "Fill"
        )
    result: Tensor = array.broadcast_to(scalar, shape=_lengths(dims))
    return result


def zeros_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Zeros of another tensor's shape."""
    return _like(0, input, dtype)


def ones_like(input: Any, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Ones of another tensor's shape."""
    return _like(1, input, dtype)


def _like(value: int, input: Any, dtype: Any) -> Tensor:
    x = operand(input)
    return fill_with(value, tuple(x.array.shape), dtype_or(dtype, x.dtype))


def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """The identity matrix, or a batch of them."""
    rows = integer(num_rows)
    columns = rows if num_columns is None else integer(num_columns)
    if is_dimension(rows) or is_dimension(columns):
        unit = cast(math.equal(expand_dims(positions(rows), 1), positions(columns)), dtype)
        return unit if batch_shape is None else broadcast_to(unit, (*shape_of(batch_shape), rows, columns))
    matrix = np.eye(rows, columns, dtype=numpy_dtype(dtype))
    if batch_shape is None:
        return wrap(matrix)
    return wrap(np.array(np.broadcast_to(matrix, (*shape_of(batch_shape), *matrix.shape))))


def positions(count: Any, dtype: Any = np.int32) -> Tensor:
    """The numbers from 0 up to a count, which may be an unknown dimension."""
    return wrap(arange(0, count, 1, dtype) if is_dimension(count) else np.arange(count, dtype=dtype))


def range(start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range") -> Tensor:
    """Numbers from start (0) up to limit, in steps of delta.

    >>> range(5, 0, -2).numpy().tolist()
    [5, 3, 1]
    """
    if limit is None:
        start, limit = 0, start
    parts = [
        convert(p, dtype) if dtype is not None and not isinstance(p, Tensor) else convert(p)
        for p in (start, limit, delta)
    ]
    for word, part in zip(("start", "limit", "delta"), parts, strict=True):
        if part.array.shape:
            raise errors.invalid_argument(
                f"{word} must be a scalar, not shape {errors.brackets(part.array.shape)}", "Range"
            )
    if dtype is None:
        order = ["int32", "int64", "float32", "float64"]
        dtype = builtins.max((p.dtype.name for p in parts), key=lambda n: order.index(n) if n in order else -1)
    kind = as_dtype(dtype)
    if kind.is_integer and any(getattr(p.array, "extents", None) is not None for p in parts):
        first, last, step = (integer(p) for p in parts)
        return wrap(arange(first, last, step, kind.numpy_dtype))
    if not all(map(is_known, parts)):
        raise errors.unknown_shape(
            "tf.range",
            "Pass Python numbers, or what tf.shape gives. In a `for` over tf.range tensors will do.",
            "Range",
        )
    first, last, step = (np.asarray(p.array).astype(kind.numpy_dtype).item() for p in parts)
    if step == 0:
        raise errors.invalid_argument("Requires delta != 0: 0", "Range")
    if (step > 0 and first > last) or (step < 0 and first < last):
        sign = "<=" if step > 0 else ">="
        raise errors.invalid_argument(
            f"Requires start {sign} limit when delta {'>' if step > 0 else '<'} 0: {first}/{last}", "Range"
        )
    return wrap(
        np.arange(first, last, step, dtype=np.float64 if kind.is_floating else kind.numpy_dtype).astype(
            kind.numpy_dtype
        )
    )


def linspace(start: Any, stop: Any, num: Any, name: str | None = None, axis: int = 0) -> Tensor:
    """`num` evenly spaced values, both ends included."""
    first, last = operands(start, stop)
    if first.dtype.is_integer:
        first, last = cast(first, "float64"), cast(last, "float64")
    count = integer(num)
    if count < 0:
        raise errors.invalid_argument(f"Requires num > 0: {count}", "LinSpace")
    rank = len(broadcast_shapes(first.array.shape, last.array.shape))
    at = axis + rank + 1 if axis < 0 else axis
    steps = np.linspace(0, 1, count).astype(first.array.dtype)
    weights = steps.reshape([count if i == at else 1 for i in builtins.range(rank + 1)])
    first, last = expand_dims(first, at), expand_dims(last, at)
    result: Tensor = first * (1 - weights) + last * weights
    return result


def one_hot(
    indices: Any,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """On at the index, off elsewhere, along a new axis (the last by default).

    >>> one_hot([0, 2], 3).numpy().tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    places = operand(indices)
    if not places.dtype.is_integer:
        raise errors.unsupported_dtype("OneHot", places.dtype)
    if dtype is None and on_value is not None and off_value is not None:
        on_kind, off_kind = convert(on_value).dtype, convert(off_value).dtype
        if on_kind != off_kind:
            raise TypeError(f"dtype {on_kind!r} of on_value does not match dtype {off_kind!r} of off_value")
    given = on_value if on_value is not None else off_value
    kind = as_dtype(dtype) if dtype is not None else float32 if given is None else convert(given).dtype
    on = convert(1 if on_value is None else on_value, kind).array
    off = convert(0 if off_value is None else off_value, kind).array
    size, at, rank = integer(depth), -1 if axis is None else integer(axis), len(places.array.shape)
    if size < 0:
        raise errors.invalid_argument(f"depth must be non-negative, got: {size}", "OneHot")
    if not -1 <= at <= rank:
        raise errors.invalid_argument(
            f"Expected axis to be -1 or between [0, {rank + 1}).  But received: {at}", "OneHot"
        )
    xp = common_namespace([places.array, on, off])
    hot = xp.where(xp.one_hot(places.array, depth=size, dtype=np.dtype(np.bool_)), on, off)
    before = rank if at < 0 else at
    order = (*builtins.range(before), rank, *builtins.range(before, rank))
    return wrap(hot if before == rank else xp.transpose(hot, perm=order))


def identity(input: Any, name: str | None = None) -> Any:
    """The same values, as a tensor of its own; within `tf.device`, on that device."""
    return map_values(array.identity if conversion.place is None else _identity, input)


def _identity(x: Any) -> Tensor:
    return devices.identity(operand(x))


def stop_gradient(input: Any, name: str | None = None) -> Tensor:
    """The same values; no gradient flows back through."""
    result: Tensor = array.stop_gradient(operand(input))
    return result


# -- asking ----------------------------------------------------------------------------------------------------------
def shape(input: Any, out_type: Any = "int32", name: str | None = None) -> Tensor:
    """The shape as a tensor."""
    return wrap(sizes_of(operand(input).array.shape, numpy_dtype(out_type)))


def size(input: Any, out_type: Any = "int32", name: str | None = None) -> Tensor:
    """The number of elements as a tensor."""
    kind, count = numpy_dtype(out_type), _math.prod(operand(input).array.shape)
    return wrap(number(count, kind) if is_dimension(count) else np.array(count, kind))


def rank(input: Any, name: str | None = None) -> Tensor:
    """The number of axes as a tensor."""
    return wrap(np.array(len(operand(input).array.shape), np.int32))


def is_tensor(x: Any) -> bool:
    """Whether x is a tensor, a variable, or IndexedSlices."""
    return isinstance(held(x), (Tensor, Variable, IndexedSlices))


def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """The shape of an elementwise op on two shapes."""
    first, second = TensorShape(shape_x), TensorShape(shape_y)
    if first.rank is None or second.rank is None:
        return TensorShape(None)
    x, y = first.as_list(), second.as_list()
    rank = builtins.max(len(x), len(y))
    result = []
    for n, m in zip([1] * (rank - len(x)) + x, [1] * (rank - len(y)) + y, strict=True):
        if n is not None and m is not None and n != m and 1 not in (n, m):
            raise ValueError(
                "Incompatible shapes for broadcasting. Two shapes are compatible if for each dimension pair they are "
                f"either equal or one of them is 1. Received: {first} and {second}."
            )
        # An unknown length beside a length other than 1 can only be that length, or 1.
        result.append(m if n == 1 else n if m == 1 else n if m is None else m)
    return TensorShape(result)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """The shape of an elementwise op on two shapes, as a tensor."""
    x, y = shape_of(shape_x), shape_of(shape_y)
    try:
        return wrap(np.array(np.broadcast_shapes(x, y), np.int32))
    except ValueError:
        raise errors.incompatible_shapes("BroadcastArgs", x, y) from None


def ensure_shape(x: Any, shape: Any, name: str | None = None) -> Tensor:
    """x, after a check that its shape is compatible."""
    x = operand(x)
    if not TensorShape(shape).is_compatible_with(x.shape):
        raise errors.invalid_argument(
            f"Shape of tensor input {errors.brackets(x.array.shape)} is not compatible with expected shape "
            f"{errors.brackets('?' if n is None else n for n in TensorShape(shape).as_list())}.",
            "EnsureShape",
        )
    result: Tensor = array.identity(x)
    return result


# -- shaping ---------------------------------------------------------------------------------------------------------
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Tensor:
    """The same elements in another shape; one -1 stands for what is left over.

    >>> reshape([1, 2, 3, 4], [2, -1]).numpy().tolist()
    [[1, 2], [3, 4]]
    """
    x = tensor if type(tensor) is Tensor else operand(tensor)
    wanted, have = shape_of(shape), _math.prod(x.array.shape)
    for i, n in enumerate(wanted):
        if n < -1:
            raise errors.invalid_argument(f"Size {i} must be non-negative, not {n}", "Reshape")
    if wanted.count(-1) > 1:
        raise errors.invalid_argument("Only one input size may be -1, not both.", "Reshape")
    if -1 in wanted:
        known = _math.prod(n for n in wanted if n != -1)
        if known == 0 == have:  # any length would do: TensorFlow takes the one that fits the lengths other than 0
            have, known = (_math.prod(n for n in ns if n > 0) for ns in (x.array.shape, wanted))
        if known == 0 or have % known:
            raise errors.invalid_argument(
                f"Input to reshape is a tensor with {have} values, but the requested shape requires a multiple of "
                f"{known}",
                "Reshape",
            )
        wanted = tuple(have // known if n == -1 else n for n in wanted)
    elif _math.prod(wanted) != have:
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {have} values, but the requested shape has {_math.prod(wanted)}",
            "Reshape",
        )
    result: Tensor = array.reshape(x, shape=wanted)
    return result


def transpose(a: Any, perm: Any = None, conjugate: bool = False, name: str = "transpose") -> Tensor:
    """Axes in another order, the reverse by default."""
    x = operand(a)
    rank = len(x.array.shape)
    order = tuple(reversed(builtins.range(rank))) if perm is None else shape_of(perm)
    order = tuple(p + rank if p < 0 else p for p in order)
    if len(order) != rank:
        raise errors.invalid_argument(
            f"transpose expects a vector of size {rank}. But input(1) is a vector of size {len(order)}", "Transpose"
        )
    for p in order:
        if not 0 <= p < rank:
            raise errors.invalid_argument(f"{p} is out of range [0 .. {rank})", "Transpose")
    if sorted(order) != list(builtins.range(rank)):
        raise errors.invalid_argument(f"{errors.brackets(order)} is not a permutation of {rank} axes", "Transpose")
    result: Tensor = array.transpose(x, perm=order)
    return math.conj(result) if conjugate and x.dtype.is_complex else result


def expand_dims(input: Any, axis: Any, name: str | None = None) -> Tensor:
    """A new axis of length 1."""
    x = operand(input)
    have, at = tuple(x.array.shape), integer(axis)
    if not -len(have) - 1 <= at <= len(have):
        raise errors.invalid_argument(
            f"Tried to expand dim index {at} for tensor with {len(have)} dimensions.", "ExpandDims"
        )
    at = at + len(have) + 1 if at < 0 else at
    result: Tensor = array.reshape(x, shape=(*have[:at], 1, *have[at:]))
    return result


def squeeze(input: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Without axes of length 1: all of them, or just the given ones."""
    x = operand(input)
    have = tuple(x.array.shape)
    if axis is None or (isinstance(axis, (list, tuple)) and not axis):
        drop = [i for i, n in enumerate(have) if n == 1]
    else:
        drop = []
        for a in shape_of(axis):
            if not -len(have) <= a < len(have):
                raise errors.invalid_argument(
                    f"Tried to squeeze dim index {a} for tensor with {len(have)} dimensions.", "Squeeze"
                )
            drop.append(a % len(have))
    for i in drop:
        if have[i] != 1:
            raise errors.invalid_argument(
                f"Can not squeeze dim[{i}], expected a dimension of 1, got {have[i]}", "Squeeze"
            )
    result: Tensor = array.reshape(x, shape=tuple(n for i, n in enumerate(have) if i not in drop))
    return result


def broadcast_to(input: Any, shape: Any, name: str | None = None) -> Tensor:
    """Repeated to a larger shape, as elementwise ops do by themselves."""
    x, wanted = operand(input), shape_of(shape)
    if len(x.array.shape) > len(wanted):
        raise errors.invalid_argument(
            f"Rank of input ({len(x.array.shape)}) must be no greater than rank of output shape ({len(wanted)}).",
            "BroadcastTo",
        )
    try:
        fits = broadcast_shapes(x.array.shape, wanted) == wanted
    except ValueError:
        fits = False
    if not fits:
        raise errors.incompatible_shapes("BroadcastTo", x.array.shape, wanted)
    result: Tensor = array.broadcast_to(x, shape=wanted)
    return result


def reverse(tensor: Any, axis: Any, name: str | None = None) -> Tensor:
    """Backward along axes."""
    x = operand(tensor)
    plain = static(axis)
    if np.ndim(plain) == 0:
        raise errors.invalid_argument("'dims' must be 1-dimension, not 0", "ReverseV2")
    rank, axes = len(x.array.shape), shape_of(plain)
    for i, a in enumerate(axes):
        if not -rank <= a < rank:
            raise errors.invalid_argument(f"'axis'[{i}] = {a} is out of valid range [0, {rank - 1}]", "ReverseV2")
        if a % rank in [b % rank for b in axes[:i]]:
            raise errors.invalid_argument(f"axis {a % rank} specified more than once.", "ReverseV2")
    result: Tensor = array.flip(x, axis=tuple(a % rank for a in axes))
    return result


def concat(values: Any, axis: Any, name: str = "concat") -> Tensor:
    """Tensors end to end along an axis.

    >>> concat([[1, 2], [3]], 0).numpy().tolist()
    [1, 2, 3]
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    if not values:
        raise errors.invalid_argument("ConcatOp : Expected at least one tensor to concatenate, got none", "ConcatV2")
    tensors = _one_dtype(values, "ConcatV2")
    rank = len(tensors[0].array.shape)
    at = integer(axis)
    if not rank and len(tensors) > 1:
        raise errors.invalid_argument("ConcatOp : Can't concatenate scalars (use tf.stack instead)", "ConcatV2")
    if not -rank <= at < rank and len(tensors) > 1:
        raise errors.invalid_argument(
            f"ConcatOp : Expected concatenating dimensions in the range [{-rank}, {rank}), but got {at}", "ConcatV2"
        )
    at = at + rank if at < 0 else at
    first = tensors[0].array.shape
    for i, t in enumerate(tensors):
        have = t.array.shape
        if len(have) != rank:
            raise errors.invalid_argument(
                f"ConcatOp : Ranks of all input tensors should match: shape[0] = {errors.brackets(first)} vs. "
                f"shape[{i}] = {errors.brackets(have)}",
                "ConcatV2",
            )
        if any(n != m for j, (n, m) in enumerate(zip(have, first, strict=True)) if j != at):
            raise errors.invalid_argument(
                f"ConcatOp : Dimension mismatch in dimension: shape[0] = {errors.brackets(first)} vs. "
                f"shape[{i}] = {errors.brackets(have)}",
                "ConcatV2",
            )
    result: Tensor = tensors[0] if len(tensors) == 1 else array.concatenate(*tensors, axis=at)
    return array.identity(result) if len(tensors) == 1 else result


def _one_dtype(values: Sequence[Any], op: str) -> list[Tensor]:
    """Tensors of one dtype: plain members take the first tensor's."""
    known = next((v.dtype for v in values if isinstance(v, (Tensor, Variable))), None)
    tensors = [convert(v) if isinstance(v, (Tensor, Variable)) else operand(v, known) for v in values]
    for t in tensors[1:]:
        if t.array.dtype != tensors[0].array.dtype:
            raise errors.mismatched_dtypes(op, tensors[0].dtype, t.dtype)
    return tensors


def stack(values: Any, axis: Any = 0, name: str = "stack") -> Tensor:
    """Tensors of one shape along a new axis."""
    if isinstance(values, (Tensor, Variable)) or not isinstance(values, (list, tuple)):
        values = list(iter(values))
    if not values:
        return wrap(np.zeros(0, np.float32))
    tensors = _one_dtype(values, "Pack")
    have = tensors[0].array.shape
    for i, t in enumerate(tensors):
        if t.array.shape != have:
            raise errors.invalid_argument(
                f"Shapes of all inputs must match: values[0].shape = {errors.brackets(have)} != values[{i}].shape = "
                f"{errors.brackets(t.array.shape)}",
                "Pack",
            )
    at = integer(axis)
    if not -len(have) - 1 <= at <= len(have):
        raise ValueError(f"Argument `axis` = {at} not in range [{-len(have) - 1}, {len(have) + 1})")
    result: Tensor = array.stack(*tensors, axis=at + len(have) + 1 if at < 0 else at)
    return result


def unstack(value: Any, num: int | None = None, axis: Any = 0, name: str = "unstack") -> list[Tensor]:
    """The slices along an axis, as a list."""
    x = operand(value)
    rank, at = len(x.array.shape), integer(axis)
    if not -rank <= at < rank:
        raise ValueError(f"Argument `axis` = {at} not in range [{-rank}, {rank})")
    at += rank if at < 0 else 0
    if num is not None and num != x.array.shape[at]:
        raise errors.invalid_argument(
            f"Input shape axis {at} must equal {num}, got shape {errors.brackets(x.array.shape)}", "Unpack"
        )
    return list(array.unstack(x, axis=at))


def split(value: Any, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: str = "split") -> list[Tensor]:
    """Pieces along an axis: a number of equal ones, or of the given sizes."""
    x = operand(value)
    rank, at = len(x.array.shape), integer(axis)
    if not -rank <= at < rank:
        raise errors.invalid_argument(f"-input rank({-rank}) <= split_dim < input rank ({rank}), but got {at}", "Split")
    at += rank if at < 0 else 0
    total, plain = x.array.shape[at], static(num_or_size_splits)
    if np.ndim(plain) == 0:
        pieces = integer(plain)
        if pieces < 1:
            raise errors.invalid_argument(f"Value for attr 'num_split' of {pieces} must be at least minimum 1", "Split")
        if total % pieces:
            raise errors.invalid_argument(
                f"Number of ways to split should evenly divide the split dimension, but got split_dim {at} "
                f"(size = {total}) and num_split {pieces}",
                "Split",
            )
        sizes: Axes = (total // pieces,) * pieces
    else:
        sizes = tuple(integer(n) for n in plain)
        if sizes.count(-1) > 1:
            raise errors.invalid_argument("There can only be one -1 in the input.", "SplitV")
        if -1 in sizes:
            rest = total - sum(n for n in sizes if n != -1)
            sizes = tuple(rest if n == -1 else n for n in sizes)
        if sum(sizes) != total or any(n < 0 for n in sizes):
            raise errors.invalid_argument(
                f"Determined shape must either match input shape along split_dim exactly if fully specified, or be "
                f"less than the size of the input along split_dim if not fully specified.  Got: {sum(sizes)}",
                "SplitV",
            )
    return list(array.split(x, sizes=sizes, axis=at))


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """x where the condition holds, y elsewhere; without x and y the coordinates where it holds.

    >>> where([True, False], [1, 2], [10, 20]).numpy().tolist()
    [1, 20]
    """
    truth = operand(condition)
    if x is None and y is None:
        if not is_known(truth):
            raise errors.unknown_shape(
                "tf.where(condition)",
                "Use tf.where(condition, x, y), or tf.argsort to bring the places forward.",
                "Where",
            )
        return wrap(np.argwhere(np.asarray(truth.array)).astype(np.int64))
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    if not truth.dtype.is_bool:
        raise ValueError(
            f"Tensor conversion requested dtype bool for Tensor with dtype {truth.dtype.name}: {truth!r}. "
            "A comparison (x != 0) makes a condition of it."
        )
    x, y = operands(x, y)
    try:
        broadcast_shapes(truth.array.shape, x.array.shape, y.array.shape)
    except ValueError:
        shapes = [errors.brackets(t.array.shape) for t in (truth, x, y)]
        raise errors.invalid_argument(
            f"condition {shapes[0]}, then {shapes[1]}, and else {shapes[2]} must be broadcastable", "SelectV2"
        ) from None
    result: Tensor = math.where(truth, x, y)
    return result


# -- looking up ------------------------------------------------------------------------------------------------------
def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    """Slices of params at indices along an axis; its gradient is sparse along the first one.

    >>> gather([10, 20, 30], [2, 0]).numpy().tolist()
    [30, 10]
    """
    x, where = operand(params), operand(indices)
    if where.dtype.name not in ("int16", "int32", "int64"):
        raise errors.invalid_argument(
            f"Value for attr 'Tindices' of {where.dtype.word} is not in the list of allowed values: "
            "int16, int32, int64",
            "GatherV2",
        )
    rank, depth = len(x.array.shape), len(where.array.shape)
    if not rank:
        raise errors.invalid_argument("params must be at least 1 dimensional", "GatherV2")
    lead = integer(batch_dims)
    lead += depth if lead < 0 else 0
    at = lead if axis is None else integer(axis)
    if not -rank <= at < rank:
        raise errors.invalid_argument(
            f"Shape must be at least rank {at + 1 if at >= 0 else -at} but is rank {rank}", "GatherV2"
        )
    at += rank if at < 0 else 0
    if not 0 <= lead <= min(depth, at):
        raise errors.invalid_argument(
            f"batch_dims ({batch_dims}) must be less than or equal to axis ({at}) and the rank of indices ({depth})",
            "GatherV2",
        )
    for i in builtins.range(lead):
        if x.array.shape[i] != where.array.shape[i]:
            raise errors.invalid_argument(
                f"params.shape[{i}]: {x.array.shape[i]} should be equal to indices.shape[{i}]: {where.array.shape[i]}",
                "GatherV2",
            )
    result: Tensor = index.checked_take(x, where, at, lead)
    return result


def gather_nd(
    params: Any, indices: Any, batch_dims: int = 0, name: str | None = None, bad_indices_policy: str = ""
) -> Tensor:
    """Elements or slices at coordinates (the last axis of indices); with the policy IGNORE, zeros for those outside."""
    x, where = operand(params), operand(indices)
    if not where.dtype.is_integer:
        raise errors.unsupported_dtype("GatherNd", where.dtype)
    if not where.array.shape:
        raise errors.invalid_argument("indices must be at least a vector", "GatherNd")
    if bad_indices_policy == "IGNORE":
        sizes = np.array(x.array.shape[batch_dims : batch_dims + where.array.shape[-1]])
        within = math.logical_and(math.greater_equal(where, 0), math.less(where, sizes.astype(where.array.dtype)))
        inside = reduce.all_(within, axis=(len(where.array.shape) - 1,), keepdims=True)
        found = index.gather_nd(x, math.where(inside, where, 0), batch_dims=batch_dims)
        rest = len(found.array.shape) - len(where.array.shape) + 1
        kept = array.reshape(inside, shape=(*where.array.shape[:-1], *[1] * rest))
        return math.where(kept, found, np.zeros((), x.array.dtype))
    result: Tensor = index.checked_gather_nd(x, where, batch_dims)
    return result


def boolean_mask(tensor: Any, mask: Any, axis: Any = None, name: str = "boolean_mask") -> Tensor:
    """The elements where a mask holds."""
    return _boolean_mask(tensor, mask, None if axis is None else integer(axis))


def moveaxis_last(x: Tensor, axis: int) -> Tensor:
    """One axis moved to the end."""
    rank = len(x.array.shape)
    if axis == rank - 1:
        return x
    result: Tensor = array.transpose(x, perm=(*(i for i in builtins.range(rank) if i != axis), axis))
    return result


def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Complex numbers from their parts, which are both float32 or both float64.

    >>> complex(1.0, -2.0).numpy().item()
    (1-2j)
    """
    x, y = operands(real, imag)
    if x.dtype != y.dtype or x.dtype.name not in ("float32", "float64"):
        raise TypeError(
            f"The `real` and `imag` components have incorrect types: {x.dtype.name} {y.dtype.name}. They must be "
            "consistent, and one of [tf.float32, tf.float64]"
        )
    result: Tensor = math.complex_(x, y)
    return result
