"""`tf.tpu`: TPUs."""

from gradtape.tpu import experimental as experimental
