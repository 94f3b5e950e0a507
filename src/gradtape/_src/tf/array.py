"""Functions at TensorFlow's root that make, shape, join and look up tensors."""

from __future__ import annotations

import builtins
import math as _math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from gradtape._src import devices, errors
from gradtape._src.arrays import common_namespace, numpy_namespace
from gradtape._src.arrays.dimensions import broadcast_shapes, is_dimension, is_same, is_same_shape, variables_in
from gradtape._src.arrays.graph_ops import NeedsEagerError, collector, in_graph
from gradtape._src.arrays.symbolic import (
    Symbolic,
    allows_dynamic_shapes,
    arange,
    as_value,
    call,
    current_graph,
    filled,
    is_known,
    number,
    sizes_of,
    unknown_shape,
)
from gradtape._src.conversion import (
    array_from,
    cast as cast_tensor,
    convert,
    holds_tensor,
    is_library,
    operand,
    operands,
    wrap,
)
from gradtape._src.core.composites import NotDenseError, call_on_composites, dispatched, is_composite
from gradtape._src.dtypes import DType, as_dtype, float32, int64
from gradtape._src.indexed_slices import IndexedSlices, map_values
from gradtape._src.literals import cannot_convert
from gradtape._src.ops import array, index, math, reduce
from gradtape._src.ops.indexing import boolean_mask as _boolean_mask
from gradtape._src.ops.sparse_tensor import SparseTensor, map_values as map_sparse
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import (
    Axes,
    as_int,
    element_type,
    extent,
    index_operand,
    index_type,
    integer,
    integers,
    shape_of,
    static,
    static_shape,
    tensor_or,
    truth,
)
from gradtape._src.variable import Variable, read, unwrapped

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

newaxis = None


# -- making ----------------------------------------------------------------------------------------------------------
def constant(value: TensorLike, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """A tensor with a copy of a Python or NumPy value.

    >>> tf.constant([1, 2]).dtype, tf.constant(0.5).dtype
    (tf.int32, tf.float32)
    """
    if isinstance(value, Tensor):
        if dtype is not None and as_dtype(dtype) != value.dtype:
            raise TypeError(
                f"Expected tensor {value!r} with dtype {as_dtype(dtype)!r}, but got dtype {value.dtype!r}. "
                "Use tf.cast to change it."
            )
        tensor = value
    else:
        if isinstance(value, Variable):
            current = read(value)
            value = np.asarray(current.array) if is_known(current) else current
        elif isinstance(value, (list, tuple)) and holds_tensor(value):
            raise ValueError(
                "TypeError: Scalar tensor has no `len()`: tf.constant takes plain values. tf.stack or "
                "tf.convert_to_tensor packs a list of tensors."
            )
        wanted = None if dtype is None else as_dtype(dtype)
        tensor = convert(value, wanted) if isinstance(value, Tensor) else wrap(array_from(value, wanted))
    if shape is None:
        return tensor
    sizes = static_shape(shape)
    have, size = tensor.array.size, _math.prod(sizes)
    if have == size:
        return tensor if tensor.array.shape == sizes else wrap(tensor.array.reshape(sizes))
    if have == 1 and size >= 2**62:
        raise ValueError(f"Can't convert Python sequence with out-of-range integer to Tensor: shape {sizes}")
    if have == 1:
        return wrap(np.full(sizes, tensor.array.ravel()[0], tensor.array.dtype))
    raise TypeError(
        f"Eager execution of tf.constant with unsupported shape. Tensor {value!r} (converted from {value!r}) has "
        f"{have} elements, but got `shape` {sizes} with {size} elements)."
    )


def convert_to_tensor(value: TensorLike, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Tensor:
    """Convert a value to a tensor; a tensor is returned unchanged.

    >>> tf.convert_to_tensor([1.0, tf.constant(2.0)]).numpy().tolist()
    [1.0, 2.0]
    """
    if dtype_hint is not None:
        dtype_hint = as_dtype(dtype_hint)
    if isinstance(value, Variable):
        tensor = value.value()
        return convert(tensor, dtype)
    return convert(value, dtype, dtype_hint)


@overload
def cast(x: TensorLike, dtype: Any, name: str | None = None) -> Tensor: ...
@overload
def cast(x: SparseTensor, dtype: Any, name: str | None = None) -> SparseTensor: ...
@overload
def cast(x: IndexedSlices, dtype: Any, name: str | None = None) -> IndexedSlices: ...
def cast(x: TensorLike | SparseTensor | IndexedSlices, dtype: Any, name: str | None = None) -> Any:
    """Convert to another dtype. Conversion to integers truncates towards zero; integers wrap around in a smaller dtype.

    Floating-point numbers beyond the range of an integer dtype become its largest or smallest number, and NaN 0.

    >>> tf.cast([1.7, -1.7, 300.0], "int8").numpy().tolist()
    [1, -1, 127]
    """
    wanted = as_dtype(dtype)
    if type(x) is Tensor:
        return cast_tensor(x, wanted)
    if isinstance(x, (IndexedSlices, SparseTensor)):
        over: Any = map_values if isinstance(x, IndexedSlices) else map_sparse
        return over(lambda t: cast(t, wanted), x)
    try:
        tensor = convert(x)
    except NotDenseError:
        return call_on_composites("cast", cast, (x, dtype), {})
    if tensor.dtype == wanted:
        return tensor if not isinstance(x, Variable) else x.value()
    return cast_tensor(tensor, wanted)


@dispatched
def saturate_cast(value: TensorLike, dtype: Any, name: str | None = None) -> Tensor:
    """Convert to another dtype, after clipping to the range of that dtype.

    For complex numbers each part is clipped, or only the real part if the new dtype is real.

    >>> tf.saturate_cast([300.0, -1.0, 7.5], "uint8").numpy().tolist()
    [255, 0, 7]
    """
    tensor, wanted = convert(value), as_dtype(dtype)
    if tensor.dtype.is_complex:
        parts = math.real(tensor), math.imag(tensor)
        if not wanted.is_complex:
            tensor = parts[0]
        elif tensor.dtype.size > wanted.size:
            limited = [saturate_cast(part, wanted.real_dtype) for part in parts]
            pair: Tensor = math.complex_(*limited)
            return pair
        else:
            return cast(tensor, wanted)
    low, high = _shared_limits(tensor.dtype, wanted.real_dtype)
    result: Tensor = cast(math.maximum(math.minimum(tensor, high), low), wanted)
    return result


def _shared_limits(have: DType, wanted: DType) -> tuple[Any, Any]:
    """The least and the greatest number of one real dtype that lie in the range of another, as numbers of the first."""
    ends = [[float(v) if t.is_floating else v for v in (t.min, t.max)] for t in (have, wanted)]
    limits = [builtins.max(ends[0][0], ends[1][0]), builtins.min(ends[0][1], ends[1][1])]
    if not have.is_floating:
        return int(limits[0]), int(limits[1])
    kind = have.as_numpy_dtype
    low, high = (kind(float(limit)) for limit in limits)  # which may round to a number beyond the range
    low = np.nextafter(low, kind(0)) if float(low) < wanted.min else low
    high = np.nextafter(high, kind(0)) if float(high) > wanted.max else high
    return low, high


@dispatched
def zeros(shape: Any, dtype: Any = float32, name: str | None = None, layout: Any = None) -> Tensor:
    """A tensor of zeros.

    >>> tf.zeros([2, 3], tf.int32).numpy().tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    return fill_with(0, shape, dtype)


@dispatched
def ones(shape: Any, dtype: Any = float32, name: str | None = None, layout: Any = None) -> Tensor:
    """A tensor of ones.

    >>> tf.ones([2, 3], tf.int32).numpy().tolist()
    [[1, 1, 1], [1, 1, 1]]
    """
    return fill_with(1, shape, dtype)


def fill_with(value: int, shape: Any, dtype: Any) -> Tensor:
    kind, sizes = element_type(dtype), _lengths(shape, fixed=True)
    if kind.name == "string":
        if value:
            raise cannot_convert(value, kind)
        return wrap(np.full(sizes, b"", object))
    try:
        return wrap(filled(sizes, kind.numpy_dtype, value))
    except (MemoryError, ValueError, OverflowError):
        raise errors.out_of_memory(sizes, kind, "Fill") from None


def _lengths(shape: Any, *, fixed: bool = False) -> Axes:
    """The shape of a new tensor: no length is negative."""
    wanted = shape_of(_collected(shape) if fixed else shape, "Fill", "index_type", fixed=fixed)
    for n in wanted:
        if n < 0:
            raise errors.invalid_argument(f"Dimension {n} must be >= 0", "Fill")
    return wanted


def _collected(shape: Any) -> Any:
    """TensorFlow makes a TensorShape of an iterable first, so that bytes, sets and empty dicts are shapes as well."""
    if isinstance(shape, (bytes, set, frozenset)) or (isinstance(shape, dict) and not shape):
        return list(shape)
    return shape


@dispatched
def fill(dims: Any, value: TensorLike, name: str | None = None, layout: Any = None) -> Tensor:
    """A tensor filled with one value, which has a gradient.

    >>> tf.fill([2], 7).numpy().tolist()
    [7, 7]
    """
    scalar = operand(value)
    if tuple(scalar.array.shape) == (1,):
        scalar = array.reshape(scalar, shape=())
    if scalar.array.shape:
        raise errors.invalid_argument(
            f"value must be a scalar, got shape {errors.brackets(scalar.array.shape)}", "Fill"
        )
    result: Tensor = array.broadcast_to(scalar, shape=_lengths(dims))
    return result


@dispatched
def zeros_like(input: TensorLike, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Zeros with the shape of another tensor.

    >>> tf.zeros_like([[5.0, 6.0]]).numpy().tolist()
    [[0.0, 0.0]]
    """
    return _like(0, input, dtype)


@dispatched
def ones_like(input: TensorLike, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Ones with the shape of another tensor.

    >>> tf.ones_like([[5, 6]]).numpy().tolist()
    [[1, 1]]
    """
    return _like(1, input, dtype)


def _like(value: int, input: Any, dtype: Any) -> Tensor:
    x = operand(input)
    kind = x.dtype if dtype is None else element_type(dtype)
    if value and dtype is None and kind.name == "string":
        raise errors.unsupported_dtype("OnesLike", kind, "fciub")
    return fill_with(value, tuple(x.array.shape), kind)


def eye(
    num_rows: Any, num_columns: Any = None, batch_shape: Any = None, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """The identity matrix, or a batch of them.

    >>> tf.linalg.eye(2, 3).numpy().tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    rows = extent(num_rows, "num_rows", "Fill")
    columns = rows if num_columns is None else extent(num_columns, "num_columns", "Fill")
    kind = element_type(dtype)
    if kind.name == "string":
        raise cannot_convert(1, kind)
    if is_dimension(rows) or is_dimension(columns):
        unit = cast(math.equal(expand_dims(positions(rows), 1), positions(columns)), kind)
        return unit if batch_shape is None else broadcast_to(unit, (*shape_of(batch_shape), rows, columns))
    if not is_library(batch_shape) and not hasattr(batch_shape, "__iter__") and batch_shape is not None:
        raise TypeError(f"Expected a list of ints for argument 'batch_shape', but got {batch_shape!r}.")
    batch = () if batch_shape is None else shape_of(_collected(batch_shape), "Fill", "index_type")
    for n in (*batch, rows, columns):
        if n < 0:
            raise errors.invalid_argument(f"Dimension {n} must be >= 0", "Fill")
    try:
        matrix = np.eye(rows, columns, dtype=kind.numpy_dtype)
        return wrap(np.array(np.broadcast_to(matrix, (*batch, *matrix.shape))) if batch else matrix)
    except (MemoryError, ValueError):
        raise errors.out_of_memory((*batch, rows, columns), kind, "Fill") from None


def positions(count: Any, dtype: Any = np.int32) -> Tensor:
    """The numbers from 0 up to a count, which may be an unknown dimension."""
    return wrap(arange(0, count, 1, dtype) if is_dimension(count) else np.arange(count, dtype=dtype))


def range(
    start: TensorLike, limit: Any = None, delta: TensorLike = 1, dtype: Any = None, name: str = "range"
) -> Tensor:
    """Numbers from start (0) up to limit, in steps of delta.

    >>> tf.range(5, 0, -2).numpy().tolist()
    [5, 3, 1]
    """
    if limit is None:
        start, limit = 0, start
    kind = None if dtype is None else as_dtype(dtype)
    parts = [convert(p, kind) if kind is not None and not is_library(p) else convert(p) for p in (start, limit, delta)]
    for part in parts:
        if kind is not None and "string" in (part.dtype.name, kind.name) and part.dtype != kind:
            raise errors.UnimplementedError(
                None, None, f"Cast {part.dtype.name} to {kind.name} is not supported [Op:Cast]"
            )
    parts = [array.reshape(part, shape=()) if tuple(part.array.shape) == (1,) else part for part in parts]
    for word, part in zip(("start", "limit", "delta"), parts, strict=True):
        if part.array.shape:
            raise errors.invalid_argument(
                f"{word} must be a scalar, not shape {errors.brackets(part.array.shape)}", "Range"
            )
    if kind is None:
        order = ["int32", "int64", "float32", "float64"]
        for part in parts:
            if part.dtype.name not in order and part.dtype.name not in ("float16", "bfloat16"):
                raise TypeError(f"tf.range takes {', '.join(order)}; received {part.dtype.name}.")
        kind = as_dtype(builtins.max((p.dtype.name for p in parts), key=lambda n: order.index(n) if n in order else -1))
    if not (kind.is_integer or kind.is_floating):
        raise errors.unsupported_dtype("Range", kind, "fi", "Tidx")
    if not all(map(is_known, parts)) and kind.is_integer and (allows_dynamic_shapes() or _have_extents(parts)):
        first, last, step = (integer(p) for p in parts)
        return wrap(arange(first, last, step, kind.numpy_dtype))
    if not all(map(is_known, parts)):
        error = unknown_shape(
            "tf.range",
            "Pass Python numbers, or what tf.shape gives. In a `for` over tf.range tensors will do.",
            "Range",
        )
        counted: Tensor = in_graph("range", (*parts, kind), {}, error)
        return counted
    first, last, step = (np.asarray(p.array).real.astype(kind.numpy_dtype).item() for p in parts)
    _check_range(first, last, step)
    numbers = np.arange(first, last, step, dtype=np.float64 if kind.is_floating else kind.numpy_dtype)
    return wrap(numbers.astype(kind.numpy_dtype))


def _have_extents(parts: Sequence[Tensor]) -> bool:
    """Whether integers that are not known are dimensions."""
    return any(getattr(part.array, "extents", None) is not None for part in parts)


def _check_range(first: Any, last: Any, step: Any) -> None:
    """A range must be finite, and go from its start to its limit."""
    if first != first or last != last or step != step:
        raise errors.invalid_argument(f"Requires finite numbers: {first}, {last}, {step}", "Range")
    if step == 0:
        raise errors.invalid_argument("Requires delta != 0: 0", "Range")
    if (step > 0 and first > last) or (step < 0 and first < last):
        sign = "<=" if step > 0 else ">="
        raise errors.invalid_argument(
            f"Requires start {sign} limit when delta {'>' if step > 0 else '<'} 0: {first}/{last}", "Range"
        )


def linspace(start: TensorLike, stop: TensorLike, num: Any, name: str | None = None, axis: int = 0) -> Tensor:
    """`num` evenly spaced values, both ends included.

    >>> tf.linspace(0.0, 1.0, 5).numpy().tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    first = operand(start)
    last = convert(stop, first.dtype)
    if first.dtype.is_integer:
        first, last = cast(first, "float64"), cast(last, "float64")
    if not (first.dtype.is_floating or first.dtype.is_complex):
        raise TypeError(f"tf.linspace takes floating or integer numbers; received {first.dtype.name}.")
    count, axis = integer(num, "LinSpace", fixed=True), integer(axis, "ExpandDims", "Tdim")
    if count < 0:
        raise errors.invalid_argument(f"Requires num > 0: {count}", "LinSpace")
    shape = broadcast_shapes(first.array.shape, last.array.shape)
    rank = len(shape)
    if not -rank - 1 <= axis <= rank:
        raise errors.invalid_argument(
            f"Tried to expand dim index {axis} for tensor with {rank} dimensions.", "ExpandDims"
        )
    at = axis + rank + 1 if axis < 0 else axis
    first, last = (expand_dims(array.broadcast_to(end, shape=shape), at) for end in (first, last))
    gaps = max(count - 1, 1)
    inner = np.arange(1, gaps).astype(first.array.dtype).reshape([-1 if i == at else 1 for i in _places(shape)])
    ends = first, first + (last - first) / gaps * inner, last  # exact at both ends, also beside infinity
    result: Tensor = array.getitem(
        array.concatenate(*ends, axis=at),
        index=tuple(slice(0, count) if i == at else slice(None) for i in _places(shape)),
    )
    return result


def _places(shape: Axes) -> builtins.range:
    """The axes that there are with one more."""
    return builtins.range(len(shape) + 1)


@dispatched
def one_hot(
    indices: TensorLike,
    depth: Any,
    on_value: Any = None,
    off_value: Any = None,
    axis: Any = None,
    dtype: Any = None,
    name: str | None = None,
) -> Tensor:
    """One-hot encoding along a new axis (the last by default): `on_value` at the index, `off_value` elsewhere.

    >>> tf.one_hot([0, 2], 3).numpy().tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    places = index_operand(tensor_or(indices, int64), "OneHot", "TI", "uint8, int8, int32, int64")
    if dtype is None and on_value is not None and off_value is not None:
        on_kind, off_kind = convert(on_value).dtype, convert(off_value).dtype
        if on_kind != off_kind:
            raise TypeError(f"dtype {on_kind!r} of on_value does not match dtype {off_kind!r} of off_value")
    given = on_value if on_value is not None else off_value
    kind = as_dtype(dtype) if dtype is not None else float32 if given is None else convert(given).dtype
    on, off = (_hot_value(1, "on", on_value, kind), _hot_value(0, "off", off_value, kind))
    size, at, rank = integer(depth, "OneHot", fixed=True), as_int(axis, "axis", -1), len(places.array.shape)
    if size < 0:
        raise errors.invalid_argument(f"depth must be non-negative, got: {size}", "OneHot")
    if not -1 <= at <= rank:
        refuse = errors.invalid_argument if at < 0 else errors.refused_value
        raise refuse(f"Expected axis to be -1 or between [0, {rank + 1}).  But received: {at}", "OneHot")
    if is_dimension(size):
        places = wrap(as_value(places.array))
    xp = common_namespace([places.array, on, off])
    hot = xp.where(xp.one_hot(places.array, depth=size, dtype=np.dtype(np.bool_)), on, off)
    before = rank if at < 0 else at
    order = (*builtins.range(before), rank, *builtins.range(before, rank))
    return wrap(hot if before == rank else xp.transpose(hot, perm=order))


def _hot_value(otherwise: int, word: str, given: Any, kind: DType) -> Any:
    if is_library(given) and operand(given).dtype != kind:
        raise TypeError(f"dtype {operand(given).dtype!r} of {word}_value does not match dtype parameter {kind!r}")
    value = convert(otherwise if given is None else given, kind).array
    if value.shape:
        raise errors.invalid_argument(
            f"{word}_value must be a scalar, but got: {errors.brackets(value.shape)}", "OneHot"
        )
    return value


@overload
def identity(input: TensorLike, name: str | None = None) -> Tensor: ...
@overload
def identity(input: SparseTensor, name: str | None = None) -> SparseTensor: ...
@overload
def identity(input: IndexedSlices, name: str | None = None) -> IndexedSlices: ...
@dispatched
def identity(input: Any, name: str | None = None) -> Any:
    """A copy of the tensor; within `tf.device`, on that device.

    >>> v = tf.Variable(1.0)
    >>> copy = tf.identity(v)
    >>> _ = v.assign(2.0)
    >>> copy.numpy()
    np.float32(1.0)
    """
    if type(input) is SparseTensor:
        return map_sparse(identity, input)
    return map_values(array.identity if not devices.placement.places else _identity, input)


def _identity(x: Any) -> Tensor:
    return devices.identity(operand(x))


@overload
def stop_gradient(input: TensorLike | IndexedSlices, name: str | None = None) -> Tensor: ...
@overload
def stop_gradient(input: SparseTensor, name: str | None = None) -> SparseTensor: ...
@dispatched
def stop_gradient(input: Any, name: str | None = None) -> Any:
    """The same values, with no gradient.

    >>> x = tf.Variable(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * tf.stop_gradient(x)
    >>> tape.gradient(y, x).numpy()
    np.float32(3.0)
    """
    if type(input) is SparseTensor:
        return map_sparse(stop_gradient, input)
    result: Tensor = array.stop_gradient(operand(input))
    return result


# -- shapes and sizes ------------------------------------------------------------------------------------------------
@dispatched
def shape(input: TensorLike | SparseTensor, out_type: Any = "int32", name: str | None = None) -> Tensor:
    """The shape as a tensor.

    >>> tf.shape([[1, 2, 3]]).numpy().tolist()
    [1, 3]
    """
    if type(input) is SparseTensor:
        return cast(input.dense_shape, out_type)
    return wrap(sizes_of(operand(input).array.shape, index_type(out_type, "Shape")))


@dispatched
def size(input: TensorLike | SparseTensor, out_type: Any = "int32", name: str | None = None) -> Tensor:
    """The number of elements as a tensor.

    >>> tf.size([[1, 2, 3]]).numpy().item()
    3
    """
    if type(input) is SparseTensor:
        return reduce.prod(cast(input.dense_shape, out_type), axis=(0,))
    found, count = element_type("int32" if out_type is None else out_type), _math.prod(operand(input).array.shape)
    if found.name == "string":
        raise TypeError(f"Cannot convert {count} to EagerTensor of dtype string")
    return wrap(number(count, found.numpy_dtype) if is_dimension(count) else np.array(count, found.numpy_dtype))


@dispatched
def rank(input: TensorLike | SparseTensor, name: str | None = None) -> Tensor:
    """The number of axes as a tensor.

    >>> tf.rank([[1, 2], [3, 4]]).numpy().item()
    2
    """
    if type(input) is SparseTensor:
        return size(input.dense_shape)
    return wrap(np.array(len(operand(input).array.shape), np.int32))


def is_tensor(x: TensorLike | SparseTensor | IndexedSlices) -> bool:
    """Whether x is a tensor, dense or sparse, a variable, or IndexedSlices.

    >>> tf.is_tensor(tf.constant(1)), tf.is_tensor(np.ones(2))
    (True, False)
    """
    value = unwrapped(x)
    return isinstance(value, (Tensor, Variable, IndexedSlices)) or is_composite(value)


def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """The shape of an elementwise op on two shapes.

    >>> tf.broadcast_static_shape(tf.TensorShape([2, 1]), tf.TensorShape([3]))
    TensorShape([2, 3])
    """
    for word, given in (("shape_x", shape_x), ("shape_y", shape_y)):
        if not isinstance(given, TensorShape):
            raise TypeError(
                f"Expected a TensorShape for argument '{word}', but got {given!r}. Use tf.TensorShape(...)."
            )
    first, second = shape_x, shape_y
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
    """The shape of an elementwise op on two shapes, as a tensor.

    >>> tf.broadcast_dynamic_shape([2, 1], [1, 3]).numpy().tolist()
    [2, 3]
    """
    first, second = (integers(shape, "BroadcastArgs", "T", fixed=True) for shape in (shape_x, shape_y))
    for given in (first, second):
        if np.ndim(given) != 1:
            raise errors.invalid_argument(
                f"In[0] and In[1] must be vectors, got shape {errors.brackets(np.shape(given))}", "BroadcastArgs"
            )
    x, y = shape_of(first), shape_of(second)
    wide = any(getattr(given, "dtype", None) == np.int64 for given in (first, second))
    try:
        return wrap(np.array(np.broadcast_shapes(x, y), np.int64 if wide else np.int32))
    except ValueError:
        raise errors.incompatible_shapes("BroadcastArgs", x, y) from None


def ensure_shape(x: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """Returns x, after checking that its shape is compatible.

    >>> tf.ensure_shape([[1, 2]], [None, 2]).numpy().tolist()
    [[1, 2]]
    """
    x = operand(x)
    if not TensorShape(shape).is_compatible_with(x.shape):
        raise errors.invalid_argument(
            f"Shape of tensor input {errors.brackets(x.array.shape)} is not compatible with expected shape "
            f"{errors.brackets('?' if n is None else n for n in TensorShape(shape).as_list())}.",
            "EnsureShape",
        )
    result: Tensor = array.identity(x)
    return result


def _vector_of_sizes(shape: Any, op: str, attr: str) -> Axes:
    """A shape argument that must be a vector: one number alone is not a shape."""
    if type(shape) is not tuple and type(shape) is not list:
        found = integers(shape, op, attr)
        if np.ndim(found) != 1:
            raise errors.invalid_argument(f"sizes input must be 1-D, not {errors.brackets(np.shape(found))}", op)
        shape = found
    return shape_of(shape, op, attr)


# -- shaping ---------------------------------------------------------------------------------------------------------
def reshape(tensor: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """Change the shape; one dimension may be -1, and is inferred.

    >>> tf.reshape([1, 2, 3, 4], [2, -1]).numpy().tolist()
    [[1, 2], [3, 4]]
    """
    try:
        x = tensor if type(tensor) is Tensor else operand(tensor)
        wanted, have = shape_of(_without_minus_one(shape, x)), _math.prod(x.array.shape)
    except NotDenseError:
        return call_on_composites("reshape", reshape, (tensor, shape), {})
    except NeedsEagerError as error:
        reshaped: Tensor = in_graph("reshape", (tensor, shape), {}, error)
        return reshaped
    for i, n in enumerate(wanted):
        if n < -1:
            raise errors.invalid_argument(f"Size {i} must be non-negative, not {n}", "Reshape")
    if wanted.count(-1) > 1:
        raise errors.invalid_argument("Only one input size may be -1, not both.", "Reshape")
    if -1 in wanted:
        known = _math.prod(n for n in wanted if n != -1)
        if known == 0 == have:  # any length would do
            if type(x.array) is Symbolic and _has_shape(x, wanted):  # TensorFlow's graphs omit such a reshape
                return x
            # the length that fits the lengths other than 0
            have, known = (_math.prod(n for n in ns if n > 0) for ns in (x.array.shape, wanted))
        if known == 0 or (not (is_dimension(known) or is_dimension(have)) and have % known):
            raise errors.invalid_argument(
                f"Input to reshape is a tensor with {have} values, but the requested shape requires a multiple of "
                f"{known}",
                "Reshape",
            )
        wanted = tuple(have // known if n == -1 else n for n in wanted)
    elif (count := _math.prod(wanted)) != have and not _may_be_equal(count, have) and not _is_collected(count - have):
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {have} values, but the requested shape has {_math.prod(wanted)}",
            "Reshape",
        )
    if type(x.array) is Symbolic and _is_collected(_math.prod(wanted) - _math.prod(x.array.shape)):
        return _reshaped_in_graph(x, shape)
    result: Tensor = array.reshape(x, shape=wanted)
    return result


def _has_shape(x: Tensor, wanted: Sequence[int]) -> bool:
    """Whether a tensor has a shape in which -1 stands for any length."""
    shape = x.array.shape
    return len(shape) == len(wanted) and all(n in (-1, m) for n, m in zip(wanted, shape, strict=True))


def _reshaped_in_graph(x: Tensor, shape: Any) -> Tensor:
    error = unknown_shape("tf.reshape", "Give the dimensions numbers that it can divide.", "Reshape")
    result: Tensor = in_graph("reshape", (x, shape), {}, error)
    return result


def _is_collected(difference: Any) -> bool:
    """Whether sizes may differ or not, and the function is traced for a file, whose graph can check it."""
    return collector() is not None and is_dimension(difference)


def _without_minus_one(shape: Any, x: Tensor) -> Any:
    """A shape that the running program computes, where -1 is the size that is left over."""
    if not isinstance(shape, Tensor) or type(shape.array) is not Symbolic or shape.array.extents is not None:
        return shape
    if not allows_dynamic_shapes() or not shape.dtype.is_integer:
        return shape
    known = reduce.prod(math.where(math.equal(shape, -1), 1, shape), axis=(0,))
    left = math.floor_divide(size(x, shape.dtype), math.maximum(known, 1))
    return math.where(math.equal(shape, -1), left, shape)


def _may_be_equal(count: Any, other: Any) -> bool:
    """Whether two sizes depend on values, so that the running program knows whether they are equal."""
    return any(v.least == 0 for v in variables_in((count, other)).values())


def transpose(
    a: TensorLike, perm: TensorLike | None = None, conjugate: bool = False, name: str = "transpose"
) -> Tensor:
    """Permute the axes; reverse them by default.

    >>> tf.transpose([[1, 2, 3], [4, 5, 6]]).numpy().tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    x = operand(a)
    rank = len(x.array.shape)
    order = tuple(reversed(builtins.range(rank))) if perm is None else _vector_of_sizes(perm, "Transpose", "Tperm")
    order = tuple(p + rank if p < 0 else p for p in order)
    if len(order) != rank:
        raise errors.invalid_argument(
            f"transpose expects a vector of size {rank}. But input(1) is a vector of size {len(order)}", "Transpose"
        )
    for p in order:
        if not 0 <= p < rank:
            raise errors.invalid_argument(f"{p} is out of range [0 .. {rank})", "Transpose")
    missing = [i for i in builtins.range(rank) if i not in order]
    if missing:
        given = ",".join(map(str, order))
        raise errors.refused_value(f"{missing[0]} is missing from {{{given}}}.", "Transpose")
    result: Tensor = array.transpose(x, perm=order)
    return math.conj(result) if truth(conjugate) and x.dtype.is_complex else result


def expand_dims(input: TensorLike, axis: Any, name: str | None = None) -> Tensor:
    """Insert an axis of length 1.

    >>> tf.expand_dims([1, 2, 3], axis=0).shape
    TensorShape([1, 3])
    """
    try:
        x = operand(input)
    except NotDenseError:
        return call_on_composites("expand_dims", expand_dims, (input, axis), {})
    have, at = tuple(x.array.shape), integer(axis, "ExpandDims", "Tdim", vector=True)
    if not -len(have) - 1 <= at <= len(have):
        raise errors.invalid_argument(
            f"Tried to expand dim index {at} for tensor with {len(have)} dimensions.", "ExpandDims"
        )
    at = at + len(have) + 1 if at < 0 else at
    result: Tensor = array.reshape(x, shape=(*have[:at], 1, *have[at:]))
    return result


@dispatched
def squeeze(input: TensorLike, axis: Any = None, name: str | None = None) -> Tensor:
    """Remove axes of length 1: all of them, or the given ones.

    >>> tf.squeeze(tf.zeros([1, 3, 1])).shape, tf.squeeze(tf.zeros([1, 3, 1]), axis=0).shape
    (TensorShape([3]), TensorShape([3, 1]))
    """
    x = operand(input)
    have = tuple(x.array.shape)
    if axis is None or (isinstance(axis, (list, tuple)) and not axis):
        drop = [i for i, n in enumerate(have) if n == 1]
    else:
        drop = []
        if isinstance(axis, Tensor):
            raise TypeError(f"Expected list for 'axis' argument to 'squeeze' Op, not {axis!r}.")
        for a in axis if isinstance(axis, (list, tuple, builtins.range)) else [axis]:
            a = as_int(a, "squeeze_dims")
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


@dispatched
def broadcast_to(input: TensorLike, shape: Any, name: str | None = None) -> Tensor:
    """Broadcast to a larger shape, as elementwise ops do implicitly.

    >>> tf.broadcast_to([1, 2], [2, 2]).numpy().tolist()
    [[1, 2], [1, 2]]
    """
    x, wanted = operand(input), _vector_of_sizes(shape, "BroadcastTo", "Tidx")
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


@dispatched
def reverse(tensor: TensorLike, axis: Any, name: str | None = None) -> Tensor:
    """Reverse the order of elements along axes.

    >>> tf.reverse([[1, 2], [3, 4]], axis=[1]).numpy().tolist()
    [[2, 1], [4, 3]]
    """
    x = operand(tensor)
    plain = integers(axis, "ReverseV2")
    rank = len(x.array.shape)
    if (not rank or 0 in x.array.shape) and current_graph() is None:  # only functions look at the axes then
        return array.identity(x)
    if np.ndim(plain) != 1:
        raise errors.invalid_argument(f"'dims' must be 1-dimension, not {np.ndim(plain)}", "ReverseV2")
    axes = shape_of(plain)
    for i, a in enumerate(axes):
        if not -rank <= a < rank:
            raise errors.invalid_argument(f"'axis'[{i}] = {a} is out of valid range [0, {rank - 1}]", "ReverseV2")
        if a % rank in [b % rank for b in axes[:i]]:
            raise errors.invalid_argument(f"axis {a % rank} specified more than once.", "ReverseV2")
    result: Tensor = array.flip(x, axis=tuple(a % rank for a in axes))
    return result


def concat(values: TensorLike, axis: Any, name: str = "concat") -> Tensor:
    """Concatenate tensors along an axis.

    >>> tf.concat([[1, 2], [3]], 0).numpy().tolist()
    [1, 2, 3]
    """
    if not isinstance(values, (list, tuple)):
        values = [values]
    if not values:
        raise errors.invalid_argument("ConcatOp : Expected at least one tensor to concatenate, got none", "ConcatV2")
    try:
        tensors = _one_dtype(values, "ConcatV2")
    except NotDenseError:
        return call_on_composites("concat", concat, (values, axis), {})
    rank = len(tensors[0].array.shape)
    at = integer(axis, "ConcatV2", vector=True)
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
        if any(not is_same(n, m) for j, (n, m) in enumerate(zip(have, first, strict=True)) if j != at):
            raise errors.invalid_argument(
                f"ConcatOp : Dimension mismatch in dimension: shape[0] = {errors.brackets(first)} vs. "
                f"shape[{i}] = {errors.brackets(have)}",
                "ConcatV2",
            )
    result: Tensor = tensors[0] if len(tensors) == 1 else array.concatenate(*tensors, axis=at)
    return array.identity(result) if len(tensors) == 1 else result


def _one_dtype(values: Sequence[Any], op: str) -> list[Tensor]:
    """Tensors of one dtype: plain members take the first tensor's or, without one, that of the first member."""
    known = next((v.dtype for v in values if isinstance(v, (Tensor, Variable))), None)
    tensors = []
    for v in values:
        tensors.append(convert(v) if isinstance(v, (Tensor, Variable)) else operand(v, known))
        known = known or tensors[0].dtype
    for t in tensors[1:]:
        if t.array.dtype != tensors[0].array.dtype:
            raise errors.mismatched_dtypes(op, tensors[0].dtype, t.dtype)
    return tensors


@dispatched
def stack(values: TensorLike, axis: Any = 0, name: str = "stack") -> Tensor:
    """Stack tensors of one shape along a new axis.

    >>> tf.stack([[1, 2], [3, 4]], axis=1).numpy().tolist()
    [[1, 3], [2, 4]]
    """
    at = as_int(axis, "axis")
    if not at and not isinstance(values, (Tensor, Variable)):
        try:
            return convert(values)  # a list of plain values is a constant
        except (TypeError, ValueError):
            pass
    if not isinstance(values, (list, tuple)):
        values = _members(values)
    if not values:
        raise IndexError("list index out of range: tf.stack needs at least one tensor where the axis is not 0.")
    tensors = _one_dtype(values, "Pack")
    have = tensors[0].array.shape
    for i, t in enumerate(tensors):
        if not is_same_shape(t.array.shape, have):
            raise errors.invalid_argument(
                f"Shapes of all inputs must match: values[0].shape = {errors.brackets(have)} != values[{i}].shape = "
                f"{errors.brackets(t.array.shape)}",
                "Pack",
            )
    if not -len(have) - 1 <= at <= len(have):
        raise ValueError(f"Argument `axis` = {at} not in range [{-len(have) - 1}, {len(have) + 1})")
    result: Tensor = array.stack(*tensors, axis=at + len(have) + 1 if at < 0 else at)
    return result


def _members(values: Any) -> list[Any]:
    """What a tensor or another sequence has along its first axis."""
    if isinstance(values, (str, bytes, dict, np.generic)) or not hasattr(values, "__getitem__"):
        raise TypeError(f"Expected a list of tensors to stack, but got {values!r} of class {type(values).__name__}.")
    if isinstance(values, np.ndarray) and not values.ndim:
        raise TypeError("Expected a list of tensors to stack, but got an array without axes.")
    return list(values)


@dispatched
def unstack(value: TensorLike, num: int | None = None, axis: Any = 0, name: str = "unstack") -> list[Tensor]:
    """The slices along an axis, as a list.

    >>> [row.numpy().tolist() for row in tf.unstack([[1, 2], [3, 4]])]
    [[1, 2], [3, 4]]
    """
    x = operand(value)
    rank, at = len(x.array.shape), as_int(axis, "axis", 0)
    count = None if num is None else as_int(num, "num")
    if not rank and num is not None:
        raise errors.invalid_argument("Input must have at least 1 dimension, got shape []", "Unpack")
    if not -rank <= at < rank:
        kind = ValueError if num is None else errors.invalid_argument
        raise kind(f"Argument `axis` = {at} not in range [{-rank}, {rank})")
    at += rank if at < 0 else 0
    if count is not None and count != x.array.shape[at]:
        raise errors.invalid_argument(
            f"Input shape axis {at} must equal {count}, got shape {errors.brackets(x.array.shape)}", "Unpack"
        )
    return list(array.unstack(x, axis=at))


@dispatched
def split(
    value: TensorLike, num_or_size_splits: Any, axis: Any = 0, num: Any = None, name: str = "split"
) -> list[Tensor]:
    """Split along an axis, into equal parts or parts of the given sizes.

    >>> [part.numpy().tolist() for part in tf.split([1, 2, 3, 4, 5], [2, 3])]
    [[1, 2], [3, 4, 5]]
    """
    x = operand(value)
    rank, at = len(x.array.shape), integer(axis, "Split", fixed=True)
    if not -rank <= at < rank:
        raise errors.invalid_argument(f"-input rank({-rank}) <= split_dim < input rank ({rank}), but got {at}", "Split")
    at += rank if at < 0 else 0
    total, plain = x.array.shape[at], _split_sizes(num_or_size_splits)
    if np.ndim(plain) == 0:
        pieces = int(plain)
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
        sizes = shape_of(plain, "SplitV", "Tlen")
        if num is not None and as_int(num, "num_split") != len(sizes):
            raise errors.invalid_argument(
                f"size of the split_tensor must match num_split: {len(sizes)} sizes for num={num!r}", "SplitV"
            )
        if not sizes:
            raise errors.invalid_argument("Value for attr 'num_split' of 0 must be at least minimum 1", "SplitV")
        if sizes.count(-1) > 1:
            raise errors.invalid_argument("There can only be one -1 in the input.", "SplitV")
        if -1 in sizes:
            rest = total - sum(n for n in sizes if n != -1)
            sizes = tuple(rest if n == -1 else n for n in sizes)
        if (sum(sizes) != total and not _may_be_equal(sum(sizes), total)) or any(n < 0 for n in sizes):
            raise errors.invalid_argument(
                f"Determined shape must either match input shape along split_dim exactly if fully specified, or be "
                f"less than the size of the input along split_dim if not fully specified.  Got: {sum(sizes)}",
                "SplitV",
            )
    return list(array.split(x, sizes=sizes, axis=at))


def _split_sizes(given: Any) -> Any:
    """How to split: a number of pieces as an int, or their sizes as a vector."""
    if isinstance(given, (int, np.integer)):
        if not -(2**31) <= given < 2**31:
            raise ValueError(f"Can't convert Python sequence with out-of-range integer to Tensor: {given}")
        return given
    if is_dimension(given):
        return given
    plain = isinstance(given, (list, tuple))
    if not plain and np.ndim(static(given) if is_library(given) else array_from(given)) == 0:
        raise ValueError(
            "Rank-0 tensors are not supported as the num_or_size_splits argument to split. Argument provided: "
            f"{given!r}. Pass a Python int."
        )
    return integers(given, "SplitV", "Tlen")


@dispatched
def where(
    condition: TensorLike, x: TensorLike | None = None, y: TensorLike | None = None, name: str | None = None
) -> Tensor:
    """x where the condition is true, y elsewhere; without x and y, the coordinates where it is true.

    >>> tf.where([True, False], [1, 2], [10, 20]).numpy().tolist()
    [1, 20]
    """
    if x is None and y is None:
        truth = operand(condition)
        if not truth.array.shape:
            raise errors.refused_value("WhereOp : Unhandled input dimensions: 0 (the condition is a scalar)", "Where")
        if truth.dtype.name == "string":
            raise errors.invalid_argument("WhereOp : Unhandled input: the condition is a string tensor.", "Where")
        if type(truth.array) is Symbolic and allows_dynamic_shapes():
            return wrap(call("argwhere", (truth.array,), {}))
        if not is_known(truth):
            raise unknown_shape(
                "tf.where(condition)",
                "Use tf.where(condition, x, y), or tf.argsort to bring the places forward.",
                "Where",
            )
        there = numpy_namespace.astype(np.asarray(truth.array), dtype=np.dtype(np.bool_))
        return wrap(np.argwhere(there).astype(np.int64))
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    truth = operand(condition, None if is_library(condition) else as_dtype("bool"))
    if not truth.dtype.is_bool:
        if current_graph() is None and (isinstance(x, list) or isinstance(y, list)):
            raise ValueError(
                f"Tensor conversion requested dtype bool for Tensor with dtype {truth.dtype.name}: {truth!r}. "
                "A comparison (x != 0) makes a condition of it."
            )
        raise errors.refused_dtype(
            f"cannot compute SelectV2 as input #0(zero-based) was expected to be a bool tensor but is a "
            f"{truth.dtype.word} tensor. A comparison (x != 0) makes a condition of it.",
            "SelectV2",
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
    params: TensorLike,
    indices: TensorLike,
    validate_indices: Any = None,
    axis: Any = None,
    batch_dims: int = 0,
    name: str | None = None,
) -> Tensor:
    """Gather slices along an axis; for the first axis the gradient is sparse.

    >>> tf.gather([10, 20, 30], [2, 0]).numpy().tolist()
    [30, 10]
    """
    try:
        x, where = operand(params), index_operand(indices, "GatherV2", "Tindices", "int16, int32, int64", empty=False)
    except NotDenseError:
        return call_on_composites("gather", gather, (params, indices, None, axis, batch_dims), {})
    rank, depth = len(x.array.shape), len(where.array.shape)
    if not rank:
        raise errors.invalid_argument("params must be at least 1 dimensional", "GatherV2")
    lead = as_int(batch_dims, "batch_dims", 0)
    lead += depth if lead < 0 else 0
    if isinstance(axis, bool):
        raise errors.unsupported_dtype("GatherV2", as_dtype("bool"), "int32, int64", "Taxis")
    at = lead if axis is None else integer(axis, "GatherV2", "Taxis")
    if at == 0:  # TensorFlow does not look at batch_dims then
        lead = 0
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
        if not is_same(x.array.shape[i], where.array.shape[i]):
            raise errors.invalid_argument(
                f"params.shape[{i}]: {x.array.shape[i]} should be equal to indices.shape[{i}]: {where.array.shape[i]}",
                "GatherV2",
            )
    result: Tensor = index.checked_take(x, where, at, lead)
    return result


@dispatched
def gather_nd(
    params: TensorLike, indices: TensorLike, batch_dims: int = 0, name: str | None = None, bad_indices_policy: str = ""
) -> Tensor:
    """Elements or slices at coordinates (the last axis of indices); with the policy IGNORE, zeros for those outside.

    >>> tf.gather_nd([[1, 2], [3, 4]], [[0, 1], [1, 0]]).numpy().tolist()
    [2, 3]
    """
    x, where = operand(params), index_operand(indices, "GatherNd", "Tindices", "int16, int32, int64", empty=False)
    batch_dims = _batch_dims(batch_dims)
    if not where.array.shape:
        raise errors.invalid_argument("indices must be at least a vector", "GatherNd")
    _check_batch_dims(x.array.shape, where.array.shape, batch_dims)
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


def _batch_dims(given: Any) -> int:
    plain = static(given)
    if isinstance(plain, np.ndarray) and not plain.ndim:
        plain = plain.item()
    if not isinstance(plain, (int, np.integer)) and not is_dimension(plain):
        raise TypeError(f"Expected an integer for argument 'batch_dims', but got {given!r}.")
    if plain < 0:
        raise ValueError(f"tf.gather_nd does not allow negative batch_dims. Received {plain}.")
    return plain


def _check_batch_dims(params: tuple[int, ...], indices: tuple[int, ...], batch_dims: int) -> None:
    """Whether the first axes of what `gather_nd` gets can walk together."""
    for name, shape in (("indices", indices), ("params", params)):
        if batch_dims and batch_dims >= len(shape):
            raise ValueError(f"Argument `batch_dims` = {batch_dims} must be less than rank(`{name}`) = {len(shape)}")
    if params[:batch_dims] != indices[:batch_dims]:
        requested = _math.prod((*params[:batch_dims], *indices[batch_dims:]))
        raise errors.invalid_argument(
            f"Input to reshape is a tensor with {_math.prod(indices)} values, but the requested shape has {requested}: "
            f"the first {batch_dims} dimensions of indices {errors.brackets(indices)} and of params "
            f"{errors.brackets(params)} must be equal",
            "Reshape",
        )


def boolean_mask(tensor: TensorLike, mask: TensorLike, axis: Any = None, name: str = "boolean_mask") -> Tensor:
    """The elements where a mask is true.

    >>> tf.boolean_mask([10, 20, 30], [True, False, True]).numpy().tolist()
    [10, 30]
    """
    return _boolean_mask(tensor, mask, None if axis is None else extent(axis, "axis", "Where"))


def moveaxis_last(x: Tensor, axis: int) -> Tensor:
    """One axis moved to the end."""
    rank = len(x.array.shape)
    if axis == rank - 1:
        return x
    result: Tensor = array.transpose(x, perm=(*(i for i in builtins.range(rank) if i != axis), axis))
    return result


@dispatched
def complex(real: TensorLike, imag: TensorLike, name: str | None = None) -> Tensor:
    """Complex numbers from their real and imaginary parts, both float32 or both float64.

    >>> tf.complex(1.0, -2.0).numpy().item()
    (1-2j)
    """
    x, y = operand(real), operand(imag)
    if x.dtype != y.dtype or x.dtype.name not in ("float32", "float64"):
        raise TypeError(
            f"The `real` and `imag` components have incorrect types: {x.dtype.name} {y.dtype.name}. They must be "
            "consistent, and one of [tf.float32, tf.float64]"
        )
    result: Tensor = math.complex_(x, y)
    return result
