"""`tf.xla.experimental`: parts of a program that XLA compiles."""

from gradtape._src.tf.xla import (
    compile as compile,
    jit_scope as jit_scope,
)
