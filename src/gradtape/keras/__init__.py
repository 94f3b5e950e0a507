"""Keras 3 on gradtape: real layers, models and optimizers over gradtape's tensors, variables and tapes.

`gradtape.keras` is Keras itself, as TensorFlow has it: `gradtape.keras.layers.Dense` is `keras.layers.Dense`. Every
name below it is Keras' own: the backend lives in `gradtape._src.keras_backend`, and no file may be put beside this one.

>>> import gradtape as tf
>>> layer = tf.keras.layers.Dense(2, kernel_initializer="ones")
>>> layer(tf.constant([[1.0, 2.0]])).numpy().tolist()
[[3.0, 3.0]]
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import Any as _Any

import gradtape._src.keras_backend as _backend  # noqa: F401 - with which Keras is imported
from gradtape._src.hooks.keras import PUBLIC as _PUBLIC


def __getattr__(name: str) -> _Any:
    public = _import_module(_PUBLIC)
    if hasattr(public, name):
        return getattr(public, name)
    if not name.startswith("_"):
        try:
            return _import_module(f"{_PUBLIC}.{name}")
        except ModuleNotFoundError:
            pass
    raise AttributeError(f"module 'keras' has no attribute {name!r}")


def __dir__() -> list[str]:
    return dir(_import_module(_PUBLIC))
