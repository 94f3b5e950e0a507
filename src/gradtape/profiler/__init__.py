"""`tf.profiler`: profiles of what runs."""

from gradtape.profiler import experimental as experimental
