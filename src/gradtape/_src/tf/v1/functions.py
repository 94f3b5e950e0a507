"""Functions of `tf.compat.v1` whose arguments or results differ from those of TensorFlow 2."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, indexing, linalg, math, random
from gradtape._src.tf.array import cast

__all__ = [
    "arg_max",
    "arg_min",
    "argmax",
    "argmin",
    "batch_gather",
    "clip_by_average_norm",
    "count_nonzero",
    "div",
    "expand_dims",
    "gather",
    "multinomial",
    "norm",
    "reduce_all",
    "reduce_any",
    "reduce_join",
    "reduce_logsumexp",
    "reduce_max",
    "reduce_mean",
    "reduce_min",
    "reduce_prod",
    "reduce_sum",
    "scatter_add",
    "scatter_div",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_nd_add",
    "scatter_nd_sub",
    "scatter_nd_update",
    "scatter_sub",
    "scatter_update",
    "setdiff1d",
    "sparse_to_dense",
    "squeeze",
    "string_split",
    "to_bfloat16",
    "to_complex64",
    "to_complex128",
    "to_double",
    "to_float",
    "to_int32",
    "to_int64",
    "where",
]


def renamed(new: Any, old: Any, name: str, old_name: str) -> Any:
    """An argument with two names; raises ValueError if both are given."""
    if new is not None and old is not None:
        raise ValueError(f"Cannot specify both '{name}' and '{old_name}'")
    return old if new is None else new


# -- reductions ------------------------------------------------------------------------------------------------------
def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a reduction also accept `reduction_indices` for `axis`, and `keep_dims` for `keepdims`."""

    @functools.wraps(function)
    def reduce(
        input_tensor: Any,
        axis: Any = None,
        keepdims: Any = None,
        name: str | None = None,
        reduction_indices: Any = None,
        keep_dims: Any = None,
    ) -> Any:
        axis = renamed(axis, reduction_indices, "axis", "reduction_indices")
        keep = renamed(keepdims, keep_dims, "keepdims", "keep_dims")
        return function(input_tensor, axis=axis, keepdims=bool(keep))

    return reduce


reduce_sum, reduce_mean, reduce_prod = (
    _reduction(math.reduce_sum),
    _reduction(math.reduce_mean),
    _reduction(math.reduce_prod),
)
reduce_max, reduce_min = _reduction(math.reduce_max), _reduction(math.reduce_min)
reduce_all, reduce_any = _reduction(math.reduce_all), _reduction(math.reduce_any)
reduce_logsumexp = _reduction(math.reduce_logsumexp)


def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: Any = None,
    dtype: Any = "int64",
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: Any = None,
    input: Any = None,
) -> Any:
    """How many elements are not zero.

    >>> int(count_nonzero([1, 0, 2]))
    2
    """
    values = renamed(input, input_tensor, "input", "input_tensor")
    axis = renamed(axis, reduction_indices, "axis", "reduction_indices")
    keep = renamed(keepdims, keep_dims, "keepdims", "keep_dims")
    return math.count_nonzero(values, axis=axis, keepdims=bool(keep), dtype=dtype)


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: Any = None,
    name: str | None = None,
    keep_dims: Any = None,
) -> Any:
    """The norm of vectors or matrices."""
    return linalg.norm(tensor, ord=ord, axis=axis, keepdims=bool(renamed(keepdims, keep_dims, "keepdims", "keep_dims")))


def argmax(
    input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = "int64"
) -> Any:
    """Where the largest element is along an axis (0)."""
    axis = renamed(axis, dimension, "axis", "dimension")
    return math.argmax(input, axis=0 if axis is None else axis, output_type=as_dtype(output_type))


def arg_max(input: Any, dimension: Any, output_type: Any = "int64", name: str | None = None) -> Any:
    """Where the largest element is along an axis."""
    return math.argmax(input, axis=dimension, output_type=as_dtype(output_type))


def arg_min(input: Any, dimension: Any, output_type: Any = "int64", name: str | None = None) -> Any:
    """Where the smallest element is along an axis."""
    return math.argmin(input, axis=dimension, output_type=as_dtype(output_type))


def argmin(
    input: Any, axis: Any = None, name: str | None = None, dimension: Any = None, output_type: Any = "int64"
) -> Any:
    """Where the smallest element is along an axis (0)."""
    axis = renamed(axis, dimension, "axis", "dimension")
    return math.argmin(input, axis=0 if axis is None else axis, output_type=as_dtype(output_type))


# -- shapes and selections -------------------------------------------------------------------------------------------
def expand_dims(input: Any, axis: Any = None, name: str | None = None, dim: Any = None) -> Any:
    """Put in an axis of length one."""
    axis = renamed(axis, dim, "axis", "dim")
    if axis is None:
        raise ValueError("Must specify an axis argument to tf.expand_dims()")
    return array.expand_dims(input, axis)


def squeeze(input: Any, axis: Any = None, name: str | None = None, squeeze_dims: Any = None) -> Any:
    """Take out axes of length one."""
    axis = renamed(axis, squeeze_dims, "axis", "squeeze_dims")
    return array.squeeze(input, None if axis is None else list(np.atleast_1d(axis).tolist()))


def where(condition: Any, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """Elements of `x` where a condition holds, otherwise of `y`; a vector of conditions selects rows.

    >>> where([True, False], [[1, 2], [3, 4]], [[5, 6], [7, 8]]).numpy().tolist()
    [[1, 2], [7, 8]]
    """
    if x is None and y is None:
        return array.where(condition)
    if x is None or y is None:
        raise ValueError("x and y must both be non-None or both be None.")
    chosen, one, other = operand(condition), operand(x), operand(y)
    rank = len(one.array.shape)
    if len(chosen.array.shape) == 1 and rank > 1:
        chosen = array.reshape(chosen, [-1, *[1] * (rank - 1)])
    return array.where(chosen, one, other)


def gather(
    params: Any,
    indices: Any,
    validate_indices: Any = None,
    name: str | None = None,
    axis: Any = None,
    batch_dims: int = 0,
) -> Any:
    """Rows, or parts along another axis, by their numbers."""
    return array.gather(params, indices, axis=batch_dims if axis is None else axis, batch_dims=batch_dims)


def batch_gather(params: Any, indices: Any, name: str | None = None) -> Any:
    """Elements by their numbers, within each row."""
    places = operand(indices)
    batch = len(places.array.shape) - 1
    return array.gather(params, places, axis=batch, batch_dims=batch)


def sparse_to_dense(
    sparse_indices: Any,
    output_shape: Any,
    sparse_values: Any,
    default_value: Any = 0,
    validate_indices: bool = True,
    name: str | None = None,
) -> Tensor:
    """A dense tensor with values at some places."""
    values = operand(sparse_values)
    places = operand(sparse_indices)
    base = array.fill(output_shape, cast(operand(default_value), values.dtype))
    rank = len(base.array.shape)
    flat = array.reshape(places, [-1, rank])
    return indexing.tensor_scatter_nd_update(base, flat, values + array.zeros(flat.shape[:1], values.dtype))


class ListDiff(NamedTuple):
    """The elements of a list that are not in another one, and their places."""

    out: Tensor
    idx: Tensor


def setdiff1d(x: Any, y: Any, index_dtype: Any = "int32", name: str | None = None) -> ListDiff:
    """The elements of a vector that are not in another one, and where they are.

    >>> setdiff1d([1, 2, 3], [2]).out.numpy().tolist()
    [1, 3]
    """
    one = convert(x)
    other = convert(y, one.dtype)
    if type(one.array) is Symbolic or type(other.array) is Symbolic:
        found = math.reduce_any(math.equal(array.expand_dims(one, 1), other), 1)
        left = array.squeeze(array.where(math.logical_not(found)), 1)
        return ListDiff(array.gather(one, left), cast(left, index_dtype))
    values, others = np.asarray(one.array), np.asarray(other.array)
    places = np.flatnonzero(~np.isin(values, others))
    return ListDiff(wrap(values[places]), wrap(places.astype(as_dtype(index_dtype).numpy_dtype)))


def string_split(
    source: Any,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: str = " ",
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> Any:
    """Texts in parts; as a SparseTensor or, with `result_type="RaggedTensor"`, as a RaggedTensor.

    A separator of several characters splits at each of them.
    """
    separators = renamed(sep, None, "sep", "delimiter")
    marks = (delimiter if separators is None else separators).encode()
    texts = np.asarray(convert(source).array)
    if texts.ndim != 1:
        raise ValueError(f"Shape must be rank 1 but is rank {texts.ndim}.")
    rows = [_parts(text, marks, skip_empty) for text in texts]
    if result_type == "RaggedTensor":
        from gradtape._src.ops.ragged.tensor import RaggedTensor

        lengths = convert([len(row) for row in rows], "int64")
        return RaggedTensor.from_row_lengths(_texts([part for row in rows for part in row]), lengths)
    indices = [(i, k) for i, row in enumerate(rows) for k in range(len(row))]
    shape = [len(rows), max(map(len, rows), default=0)]
    flat = _texts([part for row in rows for part in row])
    return SparseTensor(np.array(indices, np.int64).reshape(-1, 2), flat, np.array(shape, np.int64))


def _parts(text: bytes, marks: bytes, skip_empty: bool) -> list[bytes]:
    if not marks:
        return [bytes([byte]) for byte in text]
    for mark in marks[1:]:
        text = text.replace(bytes([mark]), marks[:1])
    return [part for part in text.split(marks[:1]) if part or not skip_empty]


def _texts(parts: list[bytes]) -> Tensor:
    values = np.empty(len(parts), object)
    values[:] = parts
    return wrap(values)


def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: Any = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: Any = None,
) -> Any:
    """Texts along an axis as one."""
    from gradtape._src.tf import strings

    axis = renamed(axis, reduction_indices, "axis", "reduction_indices")
    keep = renamed(keepdims, keep_dims, "keepdims", "keep_dims")
    return strings.reduce_join(inputs, axis=axis, keepdims=bool(keep), separator=separator)


# -- arithmetic ------------------------------------------------------------------------------------------------------
def div(x: Any, y: Any, name: str | None = None) -> Any:
    """x / y; of integers rounded down, as Python 2 does.

    >>> int(div(-7, 2))
    -4
    """
    one = operand(x)
    return math.floordiv(one, y) if one.dtype.is_integer else math.divide(one, y)


def _to(dtype: str) -> Callable[..., Tensor]:
    def convert_to(x: Any, name: str = "") -> Tensor:
        return cast(x, dtype)

    convert_to.__doc__ = f"`tf.cast(x, tf.{dtype})`."
    return convert_to


to_float, to_double, to_bfloat16 = _to("float32"), _to("float64"), _to("bfloat16")
to_int32, to_int64, to_complex64, to_complex128 = _to("int32"), _to("int64"), _to("complex64"), _to("complex128")


def clip_by_average_norm(t: Any, clip_norm: Any, name: str | None = None) -> Tensor:
    """A tensor whose norm, divided by the number of elements, is `clip_norm` at most."""
    values = operand(t)
    limit = cast(operand(clip_norm), values.dtype)
    count = cast(array.size(values), values.dtype)
    inverse = math.rsqrt(math.reduce_sum(values * values))
    result: Tensor = values * limit * math.minimum(inverse * count, 1.0 / limit)
    return result


def multinomial(
    logits: Any, num_samples: Any, seed: Any = None, name: str | None = None, output_dtype: Any = None
) -> Tensor:
    """Draws from distributions given by logits: `tf.random.categorical`."""
    drawn: Tensor = random.categorical(logits, num_samples, output_dtype or "int64", seed)
    return drawn


# -- parts of variables ----------------------------------------------------------------------------------------------
def _scatter(method: str, what: str) -> Callable[..., Any]:
    def scatter(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
        places = convert(indices)
        values = convert(updates, ref.dtype)
        rows = array.broadcast_to(values, [*places.shape, *ref.shape[1:]])
        return getattr(ref, method)(IndexedSlices(rows, places))

    scatter.__doc__ = f"{what} rows of a variable."
    return scatter


scatter_update, scatter_add = _scatter("scatter_update", "Replace"), _scatter("scatter_add", "Add to")
scatter_sub, scatter_mul = _scatter("scatter_sub", "Subtract from"), _scatter("scatter_mul", "Multiply")
scatter_div, scatter_max = _scatter("scatter_div", "Divide"), _scatter("scatter_max", "Take the maximum with")
scatter_min = _scatter("scatter_min", "Take the minimum with")


def _scatter_nd(method: str, what: str) -> Callable[..., Any]:
    def scatter_nd(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
        return getattr(ref, method)(indices, updates)

    scatter_nd.__doc__ = f"{what} parts of a variable."
    return scatter_nd


scatter_nd_update, scatter_nd_add = _scatter_nd("scatter_nd_update", "Replace"), _scatter_nd("scatter_nd_add", "Add to")
scatter_nd_sub = _scatter_nd("scatter_nd_sub", "Subtract from")
