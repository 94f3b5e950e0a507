"""`tf.saved_model`: load models that gradtape or TensorFlow has saved."""

from __future__ import annotations

from gradtape._src.saved_model.load import (
    Asset as Asset,
    LoadOptions as LoadOptions,
    contains_saved_model as contains_saved_model,
    load as load,
)

__all__ = ["Asset", "LoadOptions", "contains_saved_model", "load"]
