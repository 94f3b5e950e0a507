"""`tf.xla`: what XLA compiles."""

from gradtape._src.tf import xla as experimental

__all__ = ["experimental"]
