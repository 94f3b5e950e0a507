"""`tf.types`: classes for annotations."""

from gradtape.types import experimental as experimental
