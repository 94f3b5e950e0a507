"""Embeddings of sparse ids: rows of a table, combined for each row of ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.core.composites import hosted
from gradtape._src.ops import array, index, math
from gradtape._src.ops.ragged.partition import known
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import cast, where as where_dense
from gradtape._src.tf.embedding import embedding_lookup
from gradtape._src.tf.sparse_shaping import (
    coordinates,
    fill_empty_rows,
    flat_positions,
    make_sparse,
    retain,
    sizes_of,
    unflatten,
)
from gradtape._src.tf.special import divide_no_nan

_COMBINERS = ("mean", "sqrtn", "sum")


@hosted
def embedding_lookup_sparse(params: Any, sp_ids: Any, sp_weights: Any, combiner: Any, max_norm: Any) -> Tensor:
    """See `tf.nn.embedding_lookup_sparse`."""
    combiner = "mean" if combiner is None else combiner
    if combiner not in _COMBINERS:
        raise ValueError(f"combiner must be one of 'mean', 'sqrtn' or 'sum', got {combiner}")
    flat, ids = _ids_and_rows(sp_ids)
    weights = None if sp_weights is None else _weights_of(sp_weights, sp_ids)
    rows = embedding_lookup(params, flat, max_norm)
    count = int(ids[-1]) + 1 if len(ids) else 0
    where = wrap(ids.astype(np.int64))
    if weights is not None:
        column = cast(array.reshape(weights, shape=(-1, *[1] * (len(rows.array.shape) - 1))), rows.dtype)
        rows = math.multiply(rows, column)
    total: Tensor = index.add_rows(rows, where, shape=(count, *rows.array.shape[1:]))
    if combiner == "sum":
        return total
    one = operand(np.ones(len(ids), total.array.dtype)) if weights is None else cast(weights, total.dtype)
    amounts = one if combiner == "mean" else math.square(one)
    norm = index.add_rows(amounts, where, shape=(count,))
    norm = norm if combiner == "mean" else math.sqrt(norm)
    divisor = array.reshape(norm, shape=(-1, *[1] * (len(total.array.shape) - 1)))
    return divide_no_nan(total, divisor)


def _ids_and_rows(sp_ids: Any) -> tuple[Tensor, np.ndarray]:
    """The ids, and the row of each."""
    if isinstance(sp_ids, SparseTensor):
        return sp_ids.values, coordinates(sp_ids)[:, 0]
    if hasattr(sp_ids, "row_splits"):
        return sp_ids.flat_values, known(sp_ids.value_rowids())
    raise TypeError(f"sp_ids must be SparseTensor, got {type(sp_ids)}")


def _weights_of(sp_weights: Any, sp_ids: Any) -> Tensor:
    if isinstance(sp_weights, SparseTensor):
        weights = sp_weights.values
    elif hasattr(sp_weights, "row_splits"):
        weights = sp_weights.flat_values
    else:
        raise TypeError(f"sp_weights must be either None or SparseTensor, got {type(sp_weights)}")
    ids = _ids_and_rows(sp_ids)[0]
    if weights.array.shape != ids.array.shape:
        raise ValueError(f"Shapes {ids.shape} and {weights.shape} are incompatible: every id needs a weight.")
    return convert(weights)


@hosted
def safe_embedding_lookup_sparse(
    weights: Any, sparse_ids: SparseTensor, sparse_weights: Any, combiner: Any, default_id: Any, max_norm: Any
) -> Tensor:
    """See `tf.nn.safe_embedding_lookup_sparse`."""
    sizes = sizes_of(sparse_ids)
    outer = [int(n) for n in sizes[:-1]]
    ids = _as_matrix(sparse_ids)
    amounts = None if sparse_weights is None else _as_matrix(sparse_weights)
    kept = known(ids.values) >= 0
    if amounts is not None and combiner != "sum":
        kept &= known(amounts.values) > 0
    ids = retain(ids, kept)
    amounts = None if amounts is None else retain(amounts, kept)
    ids, empty = fill_empty_rows(ids, 0 if default_id is None else default_id)
    if amounts is not None:
        amounts, _ = fill_empty_rows(amounts, 1.0)
    result = embedding_lookup_sparse(weights, ids, amounts, combiner, max_norm)
    if default_id is None:
        hidden = array.reshape(empty, shape=(-1, *[1] * (len(result.array.shape) - 1)))
        result = where_dense(hidden, operand(np.zeros((), result.array.dtype)), result)
    found: Tensor = array.reshape(result, shape=(*outer, *result.array.shape[1:]))
    return found


def _as_matrix(x: SparseTensor) -> SparseTensor:
    """Merge all dimensions except the last one."""
    sizes, where = sizes_of(x), coordinates(x)
    rows = flat_positions(where[:, :-1], sizes[:-1])
    height = int(np.prod(sizes[:-1]))
    return make_sparse(np.stack([unflatten(rows, [height])[:, 0], where[:, -1]], axis=1), x.values, [height, sizes[-1]])
