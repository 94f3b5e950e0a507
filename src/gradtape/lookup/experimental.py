"""`tf.lookup.experimental`: mutable tables."""

import typing as _typing

from gradtape._src.tf.lookup.experimental import (
    DenseHashTable as DenseHashTable,
    MutableHashTable as MutableHashTable,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
