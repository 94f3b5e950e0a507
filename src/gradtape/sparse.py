"""`tf.sparse`: coordinates and values, as far as tapes meet them: from a dense tensor, to one, and the class itself."""

from gradtape._src.tf.sparse import (
    SparseTensor as SparseTensor,
    from_dense as from_dense,
    to_dense as to_dense,
)
