"""`tf.tpu`: TPUs."""

from gradtape._src.tf import tpu as experimental

__all__ = ["experimental"]
