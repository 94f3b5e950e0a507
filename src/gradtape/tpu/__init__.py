"""`tf.tpu`: TPUs."""

import typing as _typing

from gradtape._src.tf.tpu_names import (
    XLAOptions as XLAOptions,
)
from gradtape.tpu import experimental as experimental

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
