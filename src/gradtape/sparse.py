"""`tf.sparse`: sparse tensors, and functions of them."""

import typing as _typing

from gradtape._src.tf.sparse import (
    SparseTensor as SparseTensor,
    add as add,
    bincount as bincount,
    concat as concat,
    cross as cross,
    cross_hashed as cross_hashed,
    expand_dims as expand_dims,
    eye as eye,
    fill_empty_rows as fill_empty_rows,
    from_dense as from_dense,
    map_values as map_values,
    mask as mask,
    maximum as maximum,
    minimum as minimum,
    reduce_max as reduce_max,
    reduce_sum as reduce_sum,
    reorder as reorder,
    reset_shape as reset_shape,
    reshape as reshape,
    retain as retain,
    segment_mean as segment_mean,
    segment_sqrt_n as segment_sqrt_n,
    segment_sum as segment_sum,
    slice as slice,
    softmax as softmax,
    sparse_dense_matmul as sparse_dense_matmul,
    split as split,
    to_dense as to_dense,
    to_indicator as to_indicator,
    transpose as transpose,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
