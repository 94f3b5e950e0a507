"""`tf.experimental.dlpack`: share the memory of a tensor with another library."""

import typing as _typing

from gradtape._src.tf.dlpack import (
    from_dlpack as from_dlpack,
    to_dlpack as to_dlpack,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
