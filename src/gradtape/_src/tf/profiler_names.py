"""`tf.profiler`: profiles of programs."""

from gradtape._src.tf import profiler as experimental

__all__ = ["experimental"]
