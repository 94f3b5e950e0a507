"""`tf.sets`: operations on the sets that the rows of tensors are."""

from gradtape._src.tf.sets import (
    difference as difference,
    intersection as intersection,
    size as size,
    union as union,
)
