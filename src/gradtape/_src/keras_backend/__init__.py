"""The backend that Keras 3 loads; users import `gradtape.keras`."""

from __future__ import annotations

import os
import sys

from gradtape._src import call_sites
from gradtape._src.errors import install
from gradtape._src.hooks import keras as keras_hook

keras_hook.claim()

try:
    import keras
except ModuleNotFoundError as error:
    if error.name != "keras":
        raise
    raise ModuleNotFoundError(
        f"gradtape.keras needs Keras 3, which is not installed: {install('keras')}", name="keras"
    ) from None


def _layers() -> str:
    """The layers that are being called, outermost first: `model/dense`."""
    scopes = sys.modules.get("keras.src.backend.common.name_scope")
    return "" if scopes is None else str(scopes.current_path())


call_sites.hidden.append(os.path.dirname(str(keras.__file__)) + os.sep)
call_sites.scope_finders.append(_layers)
