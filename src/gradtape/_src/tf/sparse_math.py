"""Arithmetic with sparse tensors: sums, products, reductions, counts and segments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.core.composites import hosted
from gradtape._src.dtypes import float32
from gradtape._src.ops import array, index, math
from gradtape._src.ops.ragged.partition import known
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import segments
from gradtape._src.tf.array import cast, concat as concat_dense, stop_gradient
from gradtape._src.tf.sparse_shaping import (
    checked_sparse,
    coordinates,
    flat_positions,
    make_sparse,
    pick,
    placed,
    retain,
    sizes_of,
    unflatten,
    where_of_union,
)


# -- sums ------------------------------------------------------------------------------------------------------------
@hosted
def add(a: Any, b: Any, threshold: Any = 0) -> Any:
    """Add two tensors, of which one or both are sparse; if one is dense, so is the result.

    Sums of two elements whose magnitude is below the threshold are dropped; elements of only one tensor are kept.

    >>> import gradtape as tf
    >>> s = tf.sparse.from_dense([[0.0, 1.0]])
    >>> tf.sparse.add(s, s).values.numpy().tolist()
    [2.0]
    """
    if not isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        raise TypeError("At least one input should be SparseTensor; do you mean to use tf.add()?")
    if isinstance(a, SparseTensor) and isinstance(b, SparseTensor):
        return _sparse_sum(a, b, threshold)
    sparse, dense = (a, b) if isinstance(a, SparseTensor) else (b, a)
    return _sum_with_dense(sparse, convert(dense, None if isinstance(dense, Tensor) else sparse.dtype))


def _sparse_sum(a: SparseTensor, b: SparseTensor, threshold: Any) -> SparseTensor:
    limit = convert(threshold, a.values.dtype.real_dtype if not isinstance(threshold, Tensor) else None)
    where, first, second = where_of_union(a, b, "SparseAdd")
    values = placed(concat_dense([a.values, b.values], 0), np.concatenate([first, second]), len(where))
    total = make_sparse(where, values, sizes_of(a))
    least = known(limit)
    if not least:
        return total
    kept = np.abs(known(values)) >= least
    kept[np.setxor1d(first, second)] = True
    return retain(total, kept)


def _sum_with_dense(sparse: SparseTensor, dense: Tensor) -> Tensor:
    sizes = tuple(sizes_of(sparse).tolist())
    if len(sizes) != len(dense.array.shape):
        raise errors.invalid_argument(
            f"Two operands have different ranks; received: {len(sizes)} and {len(dense.array.shape)}",
            "SparseTensorDenseAdd",
        )
    for i, (n, m) in enumerate(zip(sizes, dense.array.shape, strict=True)):
        if n != m:
            raise errors.invalid_argument(
                f"Dimension {i} does not equal (no broadcasting is supported): sparse side {n} vs dense side {m}",
                "SparseTensorDenseAdd",
            )
    scattered = index.scatter_nd(sparse.values, sparse.indices, shape=sizes, batch_dims=0)
    total: Tensor = math.add(dense, scattered)
    return total


@hosted
def maximum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """Compute the maximum of two sparse tensors at every position where one has an element; missing ones are 0.

    >>> a, b = tf.sparse.from_dense([1, 0, -3]), tf.sparse.from_dense([0, 5, 0])
    >>> tf.sparse.to_dense(tf.sparse.maximum(a, b)).numpy().tolist()
    [1, 5, 0]
    """
    return _elementwise(math.maximum, sp_a, sp_b, "SparseSparseMaximum")


@hosted
def minimum(sp_a: SparseTensor, sp_b: SparseTensor, name: str | None = None) -> SparseTensor:
    """Compute the minimum of two sparse tensors at every position where one has an element; missing ones are 0.

    >>> a, b = tf.sparse.from_dense([1, 0, -3]), tf.sparse.from_dense([0, 5, 0])
    >>> tf.sparse.to_dense(tf.sparse.minimum(a, b)).numpy().tolist()
    [0, 0, -3]
    """
    return _elementwise(math.minimum, sp_a, sp_b, "SparseSparseMinimum")


def _elementwise(function: Any, a: Any, b: Any, op: str) -> SparseTensor:
    for one in (a, b):
        if not isinstance(one, SparseTensor):
            raise AttributeError(f"'{type(one).__name__}' object has no attribute 'indices': it is not sparse.")
    if a.dtype.name == "string" or a.dtype.is_bool:
        raise errors.unsupported_dtype(op, a.dtype, "fiu")
    where, first, second = where_of_union(a, b, op)
    values = function(placed(a.values, first, len(where)), placed(b.values, second, len(where)))
    return make_sparse(where, values, sizes_of(a))


# -- reductions ------------------------------------------------------------------------------------------------------
@hosted
def reduce_sum(
    sp_input: SparseTensor,
    axis: Any = None,
    keepdims: bool | None = None,
    output_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Compute the sum of the elements along axes, all by default; dense, or sparse with `output_is_sparse`.

    >>> import gradtape as tf
    >>> tf.sparse.reduce_sum(tf.sparse.from_dense([[1, 0, 1], [0, 1, 0]]), 1).numpy().tolist()
    [2, 1]
    """
    return _reduced(segments.unsorted_segment_sum, sp_input, axis, keepdims, output_is_sparse, "SparseReduceSum")


@hosted
def reduce_max(
    sp_input: SparseTensor,
    axis: Any = None,
    keepdims: bool | None = None,
    output_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Compute the maximum of the elements along axes; missing ones do not count, and if all are missing it is 0.

    >>> tf.sparse.reduce_max(tf.sparse.from_dense([[1, 3], [0, 2]]), axis=1).numpy().tolist()
    [3, 2]
    """
    return _reduced(segments.unsorted_segment_max, sp_input, axis, keepdims, output_is_sparse, "SparseReduceMax")


def _reduced(segment: Any, x: Any, axis: Any, keepdims: Any, output_is_sparse: bool, op: str) -> Any:
    if not isinstance(x, SparseTensor):
        raise AttributeError(f"'{type(x).__name__}' object has no attribute 'indices': {op} takes a sparse tensor.")
    op += "Sparse" if output_is_sparse else ""
    if x.dtype.name == "string" or x.dtype.is_bool:
        raise errors.unsupported_dtype(op, x.dtype, "fciu")
    sizes, where = sizes_of(x), coordinates(x)
    dropped = _dropped_axes(axis, len(sizes), op)
    kept = [d for d in range(len(sizes)) if d not in dropped]
    inner = sizes[kept]
    groups, number = np.unique(flat_positions(where[:, kept], inner), return_inverse=True)
    values = segment(x.values, wrap(number.reshape(-1).astype(np.int64)), len(groups))
    left = unflatten(groups, inner)
    if keepdims:
        whole = np.zeros((len(left), len(sizes)), np.int64)
        whole[:, kept] = left
        left, inner = whole, np.array([1 if d in dropped else n for d, n in enumerate(sizes)], np.int64)
    if output_is_sparse:
        return make_sparse(left, values, inner)
    shape = tuple(int(n) for n in inner)
    flat = index.add_rows(values, wrap(groups.astype(np.int64)), shape=(int(np.prod(shape)),))
    dense: Tensor = array.reshape(flat, shape=shape)
    return dense


def _dropped_axes(axis: Any, rank: int, op: str) -> set[int]:
    if axis is None:
        return set(range(rank))
    places = set()
    for one in known(convert(axis, dtype_hint="int32")).reshape(-1).tolist():
        if not -rank <= one < rank:
            raise errors.refused_value(f"Invalid reduction dimension {one}, for input with {rank} dimensions.", op)
        places.add(int(one) % rank)
    return places


@hosted
def softmax(sp_input: SparseTensor, name: str | None = None) -> SparseTensor:
    """Compute softmax along the last axis, over the elements that are present.

    >>> import gradtape as tf
    >>> tf.sparse.softmax(tf.sparse.from_dense([[1.0, 0.0], [2.0, 2.0]])).values.numpy().tolist()
    [1.0, 0.5, 0.5]
    """
    where, sizes = coordinates(checked_sparse(sp_input)), sizes_of(sp_input)
    if not sp_input.dtype.is_floating:
        raise errors.unsupported_dtype("SparseSoftmax", sp_input.dtype, "half, float, double")
    if len(sizes) < 2:
        shape = ",".join(map(str, sizes.tolist()))
        raise errors.refused_value(f"Input should have rank >= 2, but received shape: {shape}", "SparseSoftmax")
    groups, number = np.unique(flat_positions(where[:, :-1], sizes[:-1]), return_inverse=True)
    ids = wrap(number.reshape(-1).astype(np.int64))
    largest = stop_gradient(segments.unsorted_segment_max(sp_input.values, ids, len(groups)))
    powers = math.exp(math.subtract(sp_input.values, pick(largest, known(ids))))
    totals = segments.unsorted_segment_sum(powers, ids, len(groups))
    return sp_input.with_values(math.divide(powers, pick(totals, known(ids))))


# -- products --------------------------------------------------------------------------------------------------------
@hosted
def sparse_dense_matmul(
    sp_a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False, name: str | None = None
) -> Tensor:
    """Compute the product of two matrices, one of them sparse.

    >>> import gradtape as tf
    >>> tf.sparse.sparse_dense_matmul(tf.sparse.from_dense([[0.0, 2.0]]), [[1.0], [10.0]]).numpy().tolist()
    [[20.0]]
    """
    if isinstance(b, SparseTensor) and not isinstance(sp_a, SparseTensor):
        dense = _matrix(convert(sp_a), adjoint_a, "a")
        # (d s)ᵀ = sᵀ dᵀ
        return array.transpose(_product(b, array.transpose(dense, perm=(1, 0)), not adjoint_b, adjoint_b), perm=(1, 0))
    checked_sparse(sp_a)
    if isinstance(b, SparseTensor):
        raise TypeError("tf.sparse.sparse_dense_matmul takes one sparse matrix. Convert the other with to_dense.")
    other = convert(b, None if isinstance(b, Tensor) else sp_a.dtype)
    if other.dtype != sp_a.dtype:
        raise errors.mismatched_dtypes("SparseTensorDenseMatMul", sp_a.dtype, other.dtype)
    return _product(sp_a, _matrix(other, adjoint_b, "b"), adjoint_a, adjoint_a)


def _matrix(x: Tensor, adjoint: bool, name: str) -> Tensor:
    if len(x.array.shape) != 2:
        raise errors.invalid_argument(f"Tensor '{name}' is not a matrix", "SparseTensorDenseMatMul")
    if not adjoint:
        return x
    turned: Tensor = array.transpose(x, perm=(1, 0))
    return math.conj(turned) if x.dtype.is_complex else turned


def _product(sparse: SparseTensor, dense: Tensor, swap: bool, conjugate: bool) -> Tensor:
    """Multiply a sparse matrix, optionally transposed and conjugated, by a dense one."""
    where, sizes = coordinates(sparse), sizes_of(sparse).tolist()
    if len(sizes) != 2:
        raise errors.invalid_argument("Tensor 'a_shape' must have 2 elements", "SparseTensorDenseMatMul")
    rows, columns = (where[:, 1], where[:, 0]) if swap else (where[:, 0], where[:, 1])
    height, width = sizes[::-1] if swap else sizes
    if width != dense.array.shape[0]:
        raise errors.invalid_argument(
            f"Cannot multiply A and B because inner dimension does not match: {width} vs. {dense.array.shape[0]}.  Did "
            f"you forget a transpose?  Dimensions of A: [{height}, {width}).  Dimensions of B: "
            f"{errors.brackets(dense.array.shape)}",
            "SparseTensorDenseMatMul",
        )
    for word, given, limit in (("k", columns, width), ("m", rows, height)):
        wrong = np.flatnonzero((given < 0) | (given >= limit))
        if len(wrong):
            at = int(wrong[0])
            raise errors.refused_value(
                f"{word} ({given[at]}) from index[{at},{int(word == 'k')}] out of bounds (>={limit})",
                "SparseTensorDenseMatMul",
            )
    values = math.conj(sparse.values) if conjugate and sparse.dtype.is_complex else sparse.values
    terms = math.multiply(array.reshape(values, shape=(-1, 1)), pick(dense, columns))
    result: Tensor = index.add_rows(terms, wrap(rows.copy()), shape=(height, dense.array.shape[1]))
    return result


# -- segments --------------------------------------------------------------------------------------------------------
@hosted
def segment_sum(
    data: Any,
    indices: Any,
    segment_ids: Any,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Compute the sum of some rows for each segment, and 0 for segments without rows.

    >>> import gradtape as tf
    >>> tf.sparse.segment_sum([[1.0], [2.0], [4.0]], [0, 2, 2], [0, 0, 1]).numpy().tolist()
    [[5.0], [4.0]]
    """
    return _in_segments(data, indices, segment_ids, num_segments, sparse_gradient, "SparseSegmentSum")[0]


@hosted
def segment_mean(
    data: Any,
    indices: Any,
    segment_ids: Any,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Compute the mean of some rows for each segment, and 0 for segments without rows.

    >>> tf.sparse.segment_mean([[1.0], [3.0], [9.0]], indices=[0, 1], segment_ids=[0, 0]).numpy().tolist()
    [[2.0]]
    """
    total, counts = _in_segments(data, indices, segment_ids, num_segments, sparse_gradient, "SparseSegmentMean")
    return _divided(total, np.maximum(counts, 1))


@hosted
def segment_sqrt_n(
    data: Any,
    indices: Any,
    segment_ids: Any,
    num_segments: Any = None,
    name: str | None = None,
    sparse_gradient: bool = False,
) -> Tensor:
    """Compute the sum of some rows for each segment, divided by the square root of their number.

    >>> tf.sparse.segment_sqrt_n([[2.0], [2.0]] * 2, indices=[0, 1, 2, 3], segment_ids=[0, 0, 0, 0]).numpy().tolist()
    [[4.0]]
    """
    total, counts = _in_segments(data, indices, segment_ids, num_segments, sparse_gradient, "SparseSegmentSqrtN")
    return _divided(total, np.sqrt(np.maximum(counts, 1)))


def _divided(total: Tensor, by: ndarray) -> Tensor:
    divisor = by.astype(total.array.dtype).reshape(-1, *[1] * (len(total.array.shape) - 1))
    return math.divide(total, operand(divisor))


def _in_segments(
    data: Any, indices: Any, segment_ids: Any, num_segments: Any, sparse_gradient: Any, op: str
) -> tuple[Tensor, ndarray]:
    """The sums of the segments, and the number of rows in each."""
    x = convert(data)
    rows = known(convert(indices, dtype_hint="int32"))
    ids = known(convert(segment_ids, dtype_hint="int32"))
    op += "" if num_segments is None else "WithNumSegments"
    if rows.shape != ids.shape:
        raise errors.invalid_argument("segment_ids and indices should have same size.", op)
    _check_segments(rows, ids, x.array.shape[0], op)
    count = int(ids[-1]) + 1 if len(ids) else 0
    if num_segments is not None:
        most = int(known(convert(num_segments)))
        if count > most:
            raise errors.refused_value("segment ids must be < num_segments", op)
        count = most
    chosen = pick(x, rows, sparse_gradient)
    total: Tensor = index.add_rows(chosen, wrap(ids.astype(np.int64)), shape=(count, *x.array.shape[1:]))
    return total, np.bincount(ids, minlength=count)


def _check_segments(rows: ndarray, ids: ndarray, size: int, op: str) -> None:
    if (ids < 0).any():
        raise errors.refused_value("segment ids must be >= 0", op)
    if (np.diff(ids) < 0).any():
        raise errors.refused_value("segment ids are not increasing", op)
    wrong = np.flatnonzero((rows < 0) | (rows >= size))
    if len(wrong):
        at = int(wrong[0])
        raise errors.refused_value(f"Bad: indices[{at}] == {rows[at]} out of range [0, {size})", op)


# -- counts ----------------------------------------------------------------------------------------------------------
@hosted
def bincount(
    values: Any,
    weights: Any = None,
    axis: Any = 0,
    minlength: Any = None,
    maxlength: Any = None,
    binary_output: bool = False,
    name: str | None = None,
) -> SparseTensor:
    """Count how often each number occurs, or sum its weights; with axis -1, in each row.

    >>> import gradtape as tf
    >>> tf.sparse.bincount([1, 1, 3]).indices.numpy().tolist()
    [[1], [3]]
    """
    place = 0 if axis is None else int(axis)
    if place not in (0, -1):
        raise ValueError(f"Unsupported value for argument axis={axis}. Only 0 and -1 are currently supported.")
    if binary_output and weights is not None:
        raise ValueError("Arguments `binary_output` and `weights` are mutually exclusive. Please specify only one.")
    numbers, rows, height = _counted(values, place)
    amounts = None if weights is None else _weights(weights, values, numbers)
    if (numbers < 0).any():
        raise errors.refused_value("Input values must all be non-negative", "DenseCountSparseOutput")
    width = int(numbers.max()) + 1 if len(numbers) else 0
    width = max(width, 0 if minlength is None else int(known(convert(minlength))))
    width = width if maxlength is None else min(width, int(known(convert(maxlength))))
    kept = np.flatnonzero(numbers < width)
    shape = [width] if height is None else [height, width]
    columns = numbers[kept, None] if height is None else np.stack([rows[kept], numbers[kept]], axis=1)
    groups, number = np.unique(flat_positions(columns, shape), return_inverse=True)
    where = unflatten(groups, shape)
    if amounts is not None:
        return make_sparse(where, placed(pick(amounts, kept), number.reshape(-1), len(groups)), shape)
    counts = np.bincount(number.reshape(-1), minlength=len(groups)).astype(numbers.dtype)
    return make_sparse(where, wrap(np.minimum(counts, 1) if binary_output else counts), shape)


def _counted(values: Any, axis: int) -> tuple[ndarray, ndarray, int | None]:
    """The numbers to count, the row of each, and the number of rows; None if rows are irrelevant."""
    flat, rows, height = values, None, None
    if isinstance(values, SparseTensor):
        flat = values.values
        rows, height = coordinates(values)[:, 0], int(sizes_of(values)[0])
    elif hasattr(values, "row_splits"):
        flat, rows, height = values.flat_values, known(values.value_rowids()), int(known(values.nrows()))
    x = convert(flat)
    if x.dtype.name not in ("int32", "int64"):
        raise errors.unsupported_dtype("DenseCountSparseOutput", x.dtype, "int32, int64")
    numbers = known(x)
    if rows is None and axis == -1 and numbers.ndim not in (1, 2):
        got = errors.brackets(numbers.shape)
        raise errors.invalid_argument(
            f"Input must be a 1 or 2-dimensional tensor. Got: {got}", "DenseCountSparseOutput"
        )
    if rows is None and numbers.ndim == 2 and axis == -1:
        rows, height = np.repeat(np.arange(len(numbers)), numbers.shape[1]), len(numbers)
    if axis == 0 or rows is None:
        return numbers.reshape(-1), np.zeros(numbers.size, np.int64), None
    return numbers.reshape(-1), rows, height


def _weights(weights: Any, values: Any, numbers: ndarray) -> Tensor:
    given = weights.values if isinstance(weights, SparseTensor) else getattr(weights, "flat_values", weights)
    amounts = convert(given)
    if int(np.prod(amounts.array.shape)) != len(numbers):
        shape = getattr(values, "shape", np.shape(values))
        raise errors.invalid_argument(
            f"Weights and data must have the same shape. Weight shape: {errors.brackets(amounts.array.shape)}; data "
            f"shape: {errors.brackets(tuple(shape))}",
            "DenseCountSparseOutput",
        )
    flat: Tensor = array.reshape(amounts, shape=(-1,))
    return flat


@hosted
def to_indicator(sp_input: SparseTensor, vocab_size: Any, name: str | None = None) -> Tensor:
    """Return a dense boolean tensor that says which numbers occur in each row.

    >>> import gradtape as tf
    >>> tf.sparse.to_indicator(tf.SparseTensor([[0, 0], [1, 1]], [2, 0], [2, 3]), 3).numpy().tolist()
    [[False, False, True], [True, False, False]]
    """
    where, sizes = coordinates(checked_sparse(sp_input)), sizes_of(sp_input)
    numbers, width = known(cast(sp_input.values, "int64")), int(known(convert(vocab_size)))
    shape = (*sizes[:-1].tolist(), width)
    if ((numbers < 0) | (numbers >= width)).any():
        raise errors.invalid_argument(
            f"Indices are not valid (out of bounds).  Shape: {errors.brackets(shape)}", "SparseToDense"
        )
    there = np.zeros(shape, bool)
    there[(*where[:, :-1].T, numbers)] = True
    return wrap(there)


def eye(num_rows: Any, num_columns: Any = None, dtype: Any = float32, name: str | None = None) -> SparseTensor:
    """Create an identity matrix, as a sparse tensor.

    >>> tf.sparse.to_dense(tf.sparse.eye(2)).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    rows = int(known(convert(num_rows)))
    columns = rows if num_columns is None else int(known(convert(num_columns)))
    diagonal = np.arange(min(rows, columns))
    ones = cast(wrap(np.ones(len(diagonal), np.int32)), dtype)
    return make_sparse(np.stack([diagonal, diagonal], axis=1), ones, [rows, columns])
