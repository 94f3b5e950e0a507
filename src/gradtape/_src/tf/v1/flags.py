"""`tf.compat.v1.flags`: absl's flags, as in TensorFlow."""

from __future__ import annotations

import importlib
from typing import Any


def absl(name: str) -> Any:
    """A module of absl, or an ImportError with advice."""
    try:
        return importlib.import_module(f"absl.{name}")
    except ImportError as error:
        raise ImportError(
            f"tf.compat.v1.{name} needs absl, which is not installed: pip install absl-py (Keras installs it too)"
        ) from error


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(absl("flags"), name)
