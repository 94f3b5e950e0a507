"""`tf.xla.experimental`: functions for programs that XLA compiles."""

import typing as _typing

from gradtape._src.tf.xla import (
    compile as compile,
    jit_scope as jit_scope,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
