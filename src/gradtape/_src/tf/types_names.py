"""`tf.types`: classes for annotations."""

from gradtape._src.tf import types as experimental

__all__ = ["experimental"]
