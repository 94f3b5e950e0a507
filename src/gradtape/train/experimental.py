"""`tf.train.experimental`: Python's own state in checkpoints."""

import typing as _typing

from gradtape._src.checkpoint.experimental import (
    PythonState as PythonState,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
