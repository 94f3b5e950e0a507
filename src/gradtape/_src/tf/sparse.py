"""`tf.sparse`: sparse tensors, and functions of them."""

from __future__ import annotations

from gradtape._src.ops.sparse_tensor import SparseTensor as SparseTensor
from gradtape._src.tf.sparse_dense import from_dense as from_dense, to_dense as to_dense
from gradtape._src.tf.sparse_math import (
    add as add,
    bincount as bincount,
    eye as eye,
    maximum as maximum,
    minimum as minimum,
    reduce_max as reduce_max,
    reduce_sum as reduce_sum,
    segment_mean as segment_mean,
    segment_sqrt_n as segment_sqrt_n,
    segment_sum as segment_sum,
    softmax as softmax,
    sparse_dense_matmul as sparse_dense_matmul,
    to_indicator as to_indicator,
)
from gradtape._src.tf.sparse_shaping import (
    concat as concat,
    expand_dims as expand_dims,
    fill_empty_rows as fill_empty_rows,
    map_values as map_values,
    mask as mask,
    reorder as reorder,
    reset_shape as reset_shape,
    reshape as reshape,
    retain as retain,
    slice as slice,
    split as split,
    transpose as transpose,
)

__all__ = [
    "SparseTensor",
    "add",
    "bincount",
    "concat",
    "expand_dims",
    "eye",
    "fill_empty_rows",
    "from_dense",
    "map_values",
    "mask",
    "maximum",
    "minimum",
    "reduce_max",
    "reduce_sum",
    "reorder",
    "reset_shape",
    "reshape",
    "retain",
    "segment_mean",
    "segment_sqrt_n",
    "segment_sum",
    "slice",
    "softmax",
    "sparse_dense_matmul",
    "split",
    "to_dense",
    "to_indicator",
    "transpose",
]


def __dir__() -> list[str]:
    return list(__all__)
