"""`tf.saved_model`: save objects with their functions, load what was saved."""

from __future__ import annotations

from gradtape._src.saved_model.load import (
    Asset as Asset,
    LoadOptions as LoadOptions,
    contains_saved_model as contains_saved_model,
    load as load,
)
from gradtape._src.saved_model.save import SaveOptions as SaveOptions, save as save

__all__ = ["Asset", "LoadOptions", "SaveOptions", "contains_saved_model", "load", "save"]
