"""The backend that Keras 3 loads; users import `gradtape.keras`."""

from __future__ import annotations

from gradtape._src.hooks import keras as keras_hook

keras_hook.claim()

try:
    import keras  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "keras":
        raise
    raise ModuleNotFoundError(
        "gradtape.keras needs Keras 3, which is not installed: pip install 'gradtape[keras]'", name="keras"
    ) from None
