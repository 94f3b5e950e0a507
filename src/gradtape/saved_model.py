"""`tf.saved_model`: save objects with their functions, load what was saved."""

from gradtape._src.saved_model.public import (
    Asset as Asset,
    LoadOptions as LoadOptions,
    SaveOptions as SaveOptions,
    contains_saved_model as contains_saved_model,
    load as load,
    save as save,
)
