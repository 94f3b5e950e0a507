"""`tf.sets`: set operations on the rows of tensors."""

import typing as _typing

from gradtape._src.tf.sets import (
    difference as difference,
    intersection as intersection,
    size as size,
    union as union,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
