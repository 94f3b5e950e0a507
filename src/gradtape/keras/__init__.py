"""Keras 3 on gradtape: real layers, models and optimizers over gradtape's tensors, variables and tapes.

`gradtape.keras` is Keras itself, as TensorFlow has it: `gradtape.keras.layers.Dense` is `keras.layers.Dense`. The
modules of this package are the backend that Keras asks for; users do not need them.

>>> import gradtape as tf
>>> layer = tf.keras.layers.Dense(2, kernel_initializer="ones")
>>> layer(tf.constant([[1.0, 2.0]])).numpy().tolist()
[[3.0, 3.0]]
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from gradtape import keras_hook

keras_hook.claim()

try:
    import keras  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "keras":
        raise
    raise ModuleNotFoundError(
        "gradtape.keras needs Keras 3, which is not installed: pip install 'gradtape[keras]'", name="keras"
    ) from None


def __getattr__(name: str) -> Any:
    public = import_module(keras_hook.PUBLIC)
    if hasattr(public, name):
        return getattr(public, name)
    if not name.startswith("_"):
        try:
            return import_module(f"{keras_hook.PUBLIC}.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module 'keras' has no attribute {name!r}")


def __dir__() -> list[str]:
    return dir(import_module(keras_hook.PUBLIC))
