"""New tensors: `tf.constant`, `tf.zeros`, `tf.range`, `tf.one_hot`."""

from __future__ import annotations

import builtins
import math as _math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import common_namespace
from gradtape._src.arrays.dimensions import broadcast_shapes, is_dimension
from gradtape._src.arrays.graph_ops import in_graph
from gradtape._src.arrays.symbolic import allows_dynamic_shapes, arange, as_value, filled, is_known, unknown_shape
from gradtape._src.conversion import array_from, convert, holds_tensor, is_library, operand, wrap
from gradtape._src.core.composites import dispatched
from gradtape._src.devices import move
from gradtape._src.dtypes import DType, as_dtype, float32, int64
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.literals import cannot_convert
from gradtape._src.ops import array, math
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import (
    Axes,
    as_int,
    element_type,
    extent,
    index_operand,
    integer,
    shape_of,
    static_shape,
    tensor_or,
)
from gradtape._src.tf.array.conversion import cast
from gradtape._src.tf.array.shapes import broadcast_to, expand_dims
from gradtape._src.variable import Variable, read

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def constant(value: TensorLike, dtype: Any = None, shape: Any = None, name: str = "Const") -> Tensor:
    """Create a tensor with a copy of a Python or NumPy value.

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
                "TypeError: Scalar tensor has no `len()`: tf.constant takes plain values. Use tf.stack or "
                "tf.convert_to_tensor for a list of tensors."
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


@dispatched
def zeros(shape: Any, dtype: Any = float32, name: str | None = None, layout: Any = None) -> Tensor:
    """Create a tensor of zeros.

    >>> tf.zeros([2, 3], tf.int32).numpy().tolist()
    [[0, 0, 0], [0, 0, 0]]
    """
    return fill_with(0, shape, dtype)


@dispatched
def ones(shape: Any, dtype: Any = float32, name: str | None = None, layout: Any = None) -> Tensor:
    """Create a tensor of ones.

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
    """The shape of a new tensor, without negative lengths."""
    wanted = shape_of(_collected(shape) if fixed else shape, "Fill", "index_type", fixed=fixed)
    for n in wanted:
        if n < 0:
            raise errors.invalid_argument(f"Dimension {n} must be >= 0", "Fill")
    return wanted


def _collected(shape: Any) -> Any:
    """TensorFlow first converts iterables to a TensorShape, so that bytes, sets and empty dicts are shapes as well."""
    if isinstance(shape, (bytes, set, frozenset)) or (isinstance(shape, dict) and not shape):
        return list(shape)
    return shape


@dispatched
def fill(dims: Any, value: TensorLike, name: str | None = None, layout: Any = None) -> Tensor:
    """Create a tensor filled with one value, which has a gradient.

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
    """Create a tensor of zeros with the shape of another tensor.

    >>> tf.zeros_like([[5.0, 6.0]]).numpy().tolist()
    [[0.0, 0.0]]
    """
    return _like(0, input, dtype)


@dispatched
def ones_like(input: TensorLike, dtype: Any = None, name: str | None = None, layout: Any = None) -> Tensor:
    """Create a tensor of ones with the shape of another tensor.

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
    """Create an identity matrix, or a batch of them.

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
    """The numbers below a count, which may be an unknown dimension."""
    return wrap(arange(0, count, 1, dtype) if is_dimension(count) else np.arange(count, dtype=dtype))


def range(
    start: TensorLike, limit: Any = None, delta: TensorLike = 1, dtype: Any = None, name: str = "range"
) -> Tensor:
    """Return numbers from start (0) up to limit, in steps of delta.

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
        order = ["int32", "int64", "float16", "bfloat16", "float32", "float64"]
        for part in parts:
            if part.dtype.name not in order:
                raise TypeError(f"tf.range takes {', '.join(order)}; received {part.dtype.name}.")
        kind = as_dtype(builtins.max((part.dtype.name for part in parts), key=order.index))
    if not (kind.is_integer or kind.is_floating):
        raise errors.unsupported_dtype("Range", kind, "fi", "Tidx")
    if not all(map(is_known, parts)) and kind.is_integer and (allows_dynamic_shapes() or _have_extents(parts)):
        first, last, step = (integer(p) for p in parts)
        return wrap(arange(first, last, step, kind.numpy_dtype))
    if not all(map(is_known, parts)):
        error = unknown_shape(
            "tf.range",
            "Pass Python numbers, or results of tf.shape. In a `for` over tf.range, tensors work too.",
            "Range",
        )
        counted: Tensor = in_graph("range", (*parts, kind), {}, error)
        return counted
    return wrap(_numbers(*[np.asarray(p.array).real.astype(kind.numpy_dtype) for p in parts]))


def _numbers(start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
    """The numbers of a range, in the dtype of the ends."""
    first, last, step = start.item(), limit.item(), delta.item()
    _check_range(first, last, step)
    if start.dtype.kind in "iu":
        return np.arange(first, last, step, dtype=start.dtype)
    with float_errors_ignored():  # the length is computed in the dtype, as TensorFlow does: 0.3 / 0.1 is 3
        count = float(np.ceil(np.abs((limit - start) / delta)))
    return (first + step * np.arange(count, dtype=np.float64)).astype(start.dtype)


def _have_extents(parts: Sequence[Tensor]) -> bool:
    """Whether unknown integers are dimensions."""
    return any(getattr(part.array, "extents", None) is not None for part in parts)


def _check_range(first: Any, last: Any, step: Any) -> None:
    """Check that a range is finite, and leads from its start to its limit."""
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
    """Return `num` evenly spaced values, including both ends.

    >>> tf.linspace(0.0, 1.0, 5).numpy().tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    first = operand(start)
    last = convert(stop, first.dtype)
    if first.dtype.is_integer:
        wide = "float32" if first.dtype.size < 4 else "float64"
        first, last = cast(first, wide), cast(last, wide)
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
    ends = first, first + (last - first) / gaps * inner, last  # exact at both ends, also with infinity
    result: Tensor = array.getitem(
        array.concatenate(*ends, axis=at),
        index=tuple(slice(0, count) if i == at else slice(None) for i in _places(shape)),
    )
    return result


def _places(shape: Axes) -> builtins.range:
    """The axes, and one more."""
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
    """Encode indices as one-hot vectors along a new axis (default: last): `on_value` at the index, else `off_value`.

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
    if on.dtype.kind == "O":
        places = move(places, None)  # strings are on the host
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
