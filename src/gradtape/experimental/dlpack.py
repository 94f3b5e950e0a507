"""`tf.experimental.dlpack`: share the memory of a tensor with another library."""

from gradtape._src.tf.dlpack import (
    from_dlpack as from_dlpack,
    to_dlpack as to_dlpack,
)
