"""`tf.tpu.experimental`: TPUs, which gradtape reaches through JAX, on this machine only."""

from gradtape._src.tf.tpu import (
    initialize_tpu_system as initialize_tpu_system,
    shutdown_tpu_system as shutdown_tpu_system,
)
