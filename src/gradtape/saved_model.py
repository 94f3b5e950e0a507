"""`tf.saved_model`: save objects with their functions, load what was saved."""

import typing as _typing

from gradtape._src.saved_model.public import (
    Asset as Asset,
    LoadOptions as LoadOptions,
    SaveOptions as SaveOptions,
    contains_saved_model as contains_saved_model,
    load as load,
    save as save,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
