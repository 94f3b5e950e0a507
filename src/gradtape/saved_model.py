"""`tf.saved_model`: load models that gradtape or TensorFlow has saved."""

from gradtape._src.saved_model.public import (
    Asset as Asset,
    LoadOptions as LoadOptions,
    contains_saved_model as contains_saved_model,
    load as load,
)
