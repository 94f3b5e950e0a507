"""`tf.xla`: what XLA compiles."""

from gradtape.xla import experimental as experimental
