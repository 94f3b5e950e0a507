"""`tf.profiler`: profiles of what runs."""

from gradtape._src.tf import profiler as experimental

__all__ = ["experimental"]
