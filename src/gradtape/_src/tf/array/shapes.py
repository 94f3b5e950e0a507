"""Shapes and sizes; reshape, join and split tensors."""

from __future__ import annotations

import builtins
import math as _math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.dimensions import (
    broadcast_shapes,
    is_dimension,
    is_same,
    is_same_shape,
    may_be,
    may_have_shape,
    variables_in,
)
from gradtape._src.arrays.graph_ops import NeedsEagerError, collector, in_graph
from gradtape._src.arrays.lazy import Lazy
from gradtape._src.arrays.symbolic import (
    Symbolic,
    allows_dynamic_shapes,
    call,
    current_graph,
    is_known,
    number,
    sizes_of,
    unknown_shape,
)
from gradtape._src.conversion import array_from, convert, has_dtype, is_library, operand, operands, wrap
from gradtape._src.core.composites import NotDenseError, call_on_composites, dispatched
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops import array, math, reduce
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import (
    Axes,
    as_int,
    element_type,
    index_type,
    integer,
    integers,
    shape_of,
    static,
    truth,
)
from gradtape._src.tf.array.conversion import cast
from gradtape._src.variable import Variable

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


# -- shapes and sizes ------------------------------------------------------------------------------------------------
@dispatched
def shape(input: TensorLike | SparseTensor, out_type: Any = "int32", name: str | None = None) -> Tensor:
    """Return the shape as a tensor.

    >>> tf.shape([[1, 2, 3]]).numpy().tolist()
    [1, 3]
    """
    if type(input) is SparseTensor:
        return cast(input.dense_shape, out_type)
    return wrap(sizes_of(operand(input).array.shape, index_type(out_type, "Shape")))


@dispatched
def size(input: TensorLike | SparseTensor, out_type: Any = "int32", name: str | None = None) -> Tensor:
    """Return the number of elements as a tensor.

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
    """Return the number of axes as a tensor.

    >>> tf.rank([[1, 2], [3, 4]]).numpy().item()
    2
    """
    if type(input) is SparseTensor:
        return size(input.dense_shape)
    return wrap(np.array(len(operand(input).array.shape), np.int32))


def broadcast_static_shape(shape_x: TensorShape, shape_y: TensorShape) -> TensorShape:
    """Return the shape of an elementwise op on two shapes.

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
        # An unknown length next to a length other than 1 can only be that length, or 1.
        result.append(m if n == 1 else n if m == 1 else n if m is None else m)
    return TensorShape(result)


def broadcast_dynamic_shape(shape_x: Any, shape_y: Any) -> Tensor:
    """Return the shape of an elementwise op on two shapes, as a tensor.

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
    """Return x after checking that its shape is compatible.

    >>> tf.ensure_shape([[1, 2]], [None, 2]).numpy().tolist()
    [[1, 2]]
    """
    x, wanted = operand(x), TensorShape(shape)
    have = tuple(x.array.shape)
    if not may_have_shape(have, wanted):
        raise errors.invalid_argument(
            f"Shape of tensor input {errors.brackets(have)} is not compatible with expected shape "
            f"{errors.brackets('?' if n is None else n for n in wanted.as_list())}.",
            "EnsureShape",
        )
    known = have
    if wanted.rank is not None and collector() is None:
        known = tuple([n if size is None else size for n, size in zip(have, wanted.as_list(), strict=True)])
    result: Tensor = array.identity(x) if known == have else array.reshape(x, shape=known)
    return result


def _is_one(n: Any) -> bool:
    """Whether a dimension is 1; if that is unknown, the program is for sizes other than 1, and checks it."""
    return n == 1 or (is_dimension(n) and collector() is None and not n >= 2)


def _vector_of_sizes(shape: Any, op: str, attr: str) -> Axes:
    """A shape argument that has to be a vector: a scalar is not a shape."""
    if type(shape) is not tuple and type(shape) is not list:
        found = integers(shape, op, attr)
        if np.ndim(found) != 1:
            raise errors.invalid_argument(f"sizes input must be 1-D, not {errors.brackets(np.shape(found))}", op)
        shape = found
    return shape_of(shape, op, attr)


# -- shaping ---------------------------------------------------------------------------------------------------------
_SIZED = frozenset({np.ndarray, Lazy})
"""Types of arrays without unknown dimensions."""


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
    if type(x.array) in _SIZED and min(wanted, default=0) >= 0 and _math.prod(wanted) == have:  # the most common case
        plain: Tensor = array.reshape(x, shape=wanted)
        return plain
    for i, n in enumerate(wanted):
        if n < -1:
            raise errors.invalid_argument(f"Size {i} must be non-negative, not {n}", "Reshape")
    if wanted.count(-1) > 1:
        raise errors.invalid_argument("Only one input size may be -1, not both.", "Reshape")
    if -1 in wanted:
        known = _math.prod(n for n in wanted if n != -1)
        if known == 0 == have:  # any length would fit
            if type(x.array) is Symbolic and _has_shape(x, wanted):  # TensorFlow's graphs omit such a reshape
                return x
            # the length that fits the nonzero lengths
            have, known = (_math.prod(n for n in ns if n > 0) for ns in (x.array.shape, wanted))
        if known == 0 or (not (is_dimension(known) or is_dimension(have)) and have % known):
            raise errors.invalid_argument(
                f"Input to reshape is a tensor with {have} values, but the requested shape requires a multiple of "
                f"{known}",
                "Reshape",
            )
        wanted = tuple(have // known if n == -1 else n for n in wanted)
    elif (count := _math.prod(wanted)) != have and not (
        _may_be_equal(count, have) or _is_collected(count - have) or is_same(count, have)
    ):
        raise _not_so_many(have, count)
    if type(x.array) is Symbolic and _is_collected(_math.prod(wanted) - _math.prod(x.array.shape)):
        return _reshaped_in_graph(x, shape)
    result: Tensor = array.reshape(x, shape=wanted)
    return result


def _not_so_many(have: Any, count: Any) -> Exception:
    """The error for another number of elements: while a function is traced TensorFlow compares known ones only."""
    refused = errors.refused_value if is_dimension(count) or is_dimension(have) else errors.invalid_argument
    return refused(f"Input to reshape is a tensor with {have} values, but the requested shape has {count}", "Reshape")


def _has_shape(x: Tensor, wanted: Sequence[int]) -> bool:
    """Whether a tensor has a shape, in which -1 matches any length."""
    shape = x.array.shape
    return len(shape) == len(wanted) and all(n in (-1, m) for n, m in zip(wanted, shape, strict=True))


def _reshaped_in_graph(x: Tensor, shape: Any) -> Tensor:
    error = unknown_shape("tf.reshape", "Use known dimensions that can be divided.", "Reshape")
    result: Tensor = in_graph("reshape", (x, shape), {}, error)
    return result


def _is_collected(difference: Any) -> bool:
    """Whether sizes may differ, and the function is traced for a file, whose graph can check them."""
    return collector() is not None and is_dimension(difference)


def _without_minus_one(shape: Any, x: Tensor) -> Any:
    """A shape computed by the running program, with -1 replaced by the remaining size."""
    if not isinstance(shape, Tensor) or type(shape.array) is not Symbolic or shape.array.extents is not None:
        return shape
    if not allows_dynamic_shapes() or not shape.dtype.is_integer:
        return shape
    known = reduce.prod(math.where(math.equal(shape, -1), 1, shape), axis=(0,))
    left = math.floor_divide(size(x, shape.dtype), math.maximum(known, 1))
    return math.where(math.equal(shape, -1), left, shape)


def _may_be_equal(count: Any, other: Any) -> bool:
    """Whether two sizes depend on values, so that only the running program knows whether they are equal."""
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
    order = tuple([p + rank if p < 0 else p for p in order])
    if len(order) != rank:
        raise errors.invalid_argument(
            f"transpose expects a vector of size {rank}. But input(1) is a vector of size {len(order)}", "Transpose"
        )
    for p in order:
        if not 0 <= p < rank:
            raise errors.invalid_argument(f"{p} is out of range [0 .. {rank})", "Transpose")
    if len({*order}) < rank:
        missing = [i for i in builtins.range(rank) if i not in order]
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
        drop = [i for i, n in enumerate(have) if _is_one(n)]
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
        if not may_be(have[i], 1):
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
    if (not rank or 0 in x.array.shape) and current_graph() is None:  # only functions check the axes in this case
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
    """Convert members to tensors of one dtype: that of the first tensor or, without one, of the first member."""
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
        except NotDenseError:
            raise
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
    """The members of a tensor or another sequence, along its first axis."""
    if isinstance(values, (str, bytes, dict, np.generic)) or not hasattr(values, "__getitem__"):
        raise TypeError(f"Expected a list of tensors to stack, but got {values!r} of class {type(values).__name__}.")
    if isinstance(values, np.ndarray) and not values.ndim:
        raise TypeError("Expected a list of tensors to stack, but got an array without axes.")
    return list(values)


@dispatched
def unstack(value: TensorLike, num: int | None = None, axis: Any = 0, name: str = "unstack") -> list[Tensor]:
    """Return the slices along an axis, as a list.

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
    """How to split: the number of pieces as an int, or their sizes as a vector."""
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
    """Select x where the condition is true and y elsewhere; without x and y, return the coordinates where it is true.

    >>> tf.where([True, False], [1, 2], [10, 20]).numpy().tolist()
    [1, 20]
    """
    if x is None and y is None:
        return _places(condition)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    truth = operand(condition, None if has_dtype(condition) else as_dtype("bool"))
    if not truth.dtype.is_bool:
        raise _not_a_condition(truth, converted=isinstance(x, list) or isinstance(y, list))
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


def _places(condition: TensorLike) -> Tensor:
    """The coordinates where a condition is true, or an element is not 0."""
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
            "Use tf.where(condition, x, y), or tf.argsort to move the positions to the front.",
            "Where",
        )
    values = np.asarray(truth.array)
    there = values if values.dtype.kind == "c" else numpy_namespace.astype(values, dtype=np.dtype(np.bool_))
    return wrap(np.argwhere(there).astype(np.int64))


def _not_a_condition(truth: Tensor, converted: bool) -> Exception:
    """The error for a condition that is not boolean; TensorFlow first converts it if a branch is a list."""
    if converted and current_graph() is None:
        return ValueError(
            f"Tensor conversion requested dtype bool for Tensor with dtype {truth.dtype.name}: {truth!r}. Use a "
            "comparison (x != 0)."
        )
    return errors.refused_dtype(
        "cannot compute SelectV2 as input #0(zero-based) was expected to be a bool tensor but is a "
        f"{truth.dtype.word} tensor. Use a comparison (x != 0).",
        "SelectV2",
    )


def moveaxis_last(x: Tensor, axis: int) -> Tensor:
    """Move one axis to the end."""
    rank = len(x.array.shape)
    if axis == rank - 1:
        return x
    result: Tensor = array.transpose(x, perm=(*(i for i in builtins.range(rank) if i != axis), axis))
    return result
