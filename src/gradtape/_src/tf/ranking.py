"""The largest entries of an axis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import has_dtype, operand as to_tensor, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops import array, index, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import as_int, axis_of, flag, index_operand, index_type as integer_type, integer

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


class TopKV2(NamedTuple):
    """The largest entries of the last axis, and their indices."""

    values: Any
    indices: Any


def top_k(
    input: TensorLike, k: Any = 1, sorted: bool = True, index_type: Any = "int32", name: str | None = None
) -> TopKV2:
    """Find the k largest elements along the last axis, largest first; for ties, the lower index comes first.

    >>> values, indices = tf.nn.top_k([1.0, 4.0, 3.0, 4.0], 3)
    >>> values.numpy().tolist(), indices.numpy().tolist()
    ([4.0, 4.0, 3.0], [1, 3, 2])
    """
    x, count, descending = to_tensor(input), integer(k, "TopKV2", "Tk"), flag(sorted, "sorted", True)
    dtype = integer_type(index_type, "TopKV2", "index_type", allowed="int16, int32, int64")
    if x.array.dtype.kind in "bcO":
        raise errors.unsupported_dtype("TopKV2", x.dtype, "fiu")
    shape = tuple(x.array.shape)
    if x.dtype.is_bool or x.dtype.is_complex or x.dtype.name == "string":
        raise errors.unsupported_dtype("TopKV2", x.dtype)
    if not shape:
        raise errors.invalid_argument("input must be >= 1-D, got shape []", "TopKV2")
    if count < 0:
        raise errors.invalid_argument(f"Need k >= 0, got {count}", "TopKV2")
    if shape[-1] < count:
        raise errors.invalid_argument(f"input must have at least k columns. Had {shape[-1]}, needed {count}", "TopKV2")
    del descending  # sorted or not: the largest always come first
    return TopKV2(*reduce.top_k(x, axis=len(shape) - 1, k=count, descending=True, dtype=dtype))


def approx_max_k(
    operand: Any,
    k: Any,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the k largest elements along an axis; exactly, because an approximation would not be faster here.

    >>> values, indices = tf.math.approx_max_k([3.0, 9.0, 1.0, 7.0], k=2)
    >>> values.numpy().tolist(), indices.numpy().tolist()
    ([9.0, 7.0], [1, 3])
    """
    return _along(operand, k, reduction_dimension, largest=True)


def approx_min_k(
    operand: Any,
    k: Any,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Find the k smallest elements along an axis.

    >>> values, indices = tf.math.approx_min_k([3.0, 9.0, 1.0, 7.0], k=2)
    >>> values.numpy().tolist(), indices.numpy().tolist()
    ([1.0, 3.0], [2, 0])
    """
    return _along(operand, k, reduction_dimension, largest=False)


def _along(x: Any, k: Any, axis: int, *, largest: bool) -> tuple[Tensor, Tensor]:
    x, count = to_tensor(x), as_int(k, "k")
    at = axis_of(axis, len(x.array.shape), "ApproxTopK")
    have = x.array.shape[at]
    if not 0 <= count <= have:
        raise errors.invalid_argument(f"input must have at least k columns. Had {have}, needed {count}", "ApproxTopK")
    values, indices = reduce.top_k(x, axis=at, k=count, descending=largest, dtype=np.dtype(np.int32))
    return values, indices


def in_top_k(targets: TensorLike, predictions: TensorLike, k: Any, name: str | None = None) -> Tensor:
    """Return whether the prediction for each row's target is among the k largest; ties count as included.

    >>> tf.nn.in_top_k([1, 0], [[0.1, 0.9], [0.2, 0.8]], 1).numpy().tolist()
    [True, False]
    """
    rows = index_operand(targets, "InTopKV2", "T")
    columns = to_tensor(predictions, None if has_dtype(predictions) else as_dtype("float32"))
    if columns.dtype.name != "float32":
        raise ValueError(
            f"Tensor conversion requested dtype float32 for Tensor with dtype {columns.dtype.name}: {columns!r}"
        )
    most = integer(k, "InTopKV2", fixed=True)
    wanted, scores = rows.array, columns.array
    if scores.ndim != 2:
        raise errors.invalid_argument(f"predictions must be 2-dimensional. Received shape {scores.shape}", "InTopKV2")
    if wanted.ndim != 1:
        raise errors.invalid_argument(f"targets must be 1-dimensional. Received shape {wanted.shape}", "InTopKV2")
    count, classes = scores.shape
    if count != wanted.shape[0]:
        raise errors.invalid_argument(
            f"First dimension of predictions {count} must match length of targets {wanted.shape[0]}", "InTopKV2"
        )
    known = math.logical_and(math.greater_equal(rows, 0), math.less(rows, classes))
    if not classes:
        return known
    places = array.reshape(math.where(known, rows, np.zeros((), wanted.dtype)), shape=(count, 1))
    chosen = index.take_along_axis(columns, places, axis=1)
    larger = reduce.sum_(wrap(math.greater(columns, chosen).array.astype(np.int32)), axis=(1,))
    finite = reduce.all_(math.isfinite(columns), axis=(1,))
    result: Tensor = math.logical_and(math.logical_and(known, finite), math.less(larger, most))
    return result
