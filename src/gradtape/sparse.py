"""`tf.sparse`: the class, and conversions from and to dense tensors."""

from gradtape._src.tf.sparse import (
    SparseTensor as SparseTensor,
    from_dense as from_dense,
    to_dense as to_dense,
)
