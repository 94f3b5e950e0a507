"""`tf.audio`: sound files."""

import typing as _typing

from gradtape._src.tf.audio import (
    decode_wav as decode_wav,
    encode_wav as encode_wav,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
