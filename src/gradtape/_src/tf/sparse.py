"""`tf.sparse`: sparse tensors, and functions of them."""

from __future__ import annotations

from typing import Any

from gradtape._src.core.composites import hosted
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


@hosted
def cross(inputs: Any, name: str | None = None, separator: Any = None) -> SparseTensor:
    """Return every combination of the elements in a row of several matrices, as strings.

    >>> import gradtape as tf
    >>> s = tf.sparse.from_dense([["a", ""], ["b", "c"]])
    >>> tf.sparse.cross([s, [["d"], ["e"]]]).values.numpy().tolist()
    [b'a_X_d', b'b_X_e', b'c_X_e']
    """
    from gradtape._src.tf import crosses

    word = "_X_" if separator is None else separator
    return crosses.as_sparse(crosses.ragged_cross(inputs, word if isinstance(word, bytes) else str(word).encode()))


@hosted
def cross_hashed(inputs: Any, num_buckets: Any = 0, hash_key: Any = None, name: str | None = None) -> SparseTensor:
    """Return every combination of the elements in a row of several matrices, as TensorFlow's hashes.

    >>> import gradtape as tf
    >>> tf.sparse.cross_hashed([[["a"]], [["d"]]], num_buckets=100).values.numpy().tolist()
    [82]
    """
    from gradtape._src.tf import crosses

    return crosses.as_sparse(crosses.ragged_cross_hashed(inputs, num_buckets, hash_key))


__all__ = [
    "SparseTensor",
    "add",
    "bincount",
    "concat",
    "cross",
    "cross_hashed",
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
