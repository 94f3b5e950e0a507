"""`tf.audio`: sound files."""

from gradtape._src.tf.audio import (
    decode_wav as decode_wav,
    encode_wav as encode_wav,
)
