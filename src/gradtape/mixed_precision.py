"""Loss scaling: avoid underflow of float16 gradients."""

import typing as _typing

from gradtape._src.tf.mixed_precision import (
    LossScale as LossScale,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
