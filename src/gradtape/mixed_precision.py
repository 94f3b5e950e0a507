"""Loss scaling: float16 gradients that do not underflow."""

from gradtape._src.tf.mixed_precision import (
    LossScale as LossScale,
)
