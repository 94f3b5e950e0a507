"""`tf.train.experimental`: Python's own state in checkpoints."""

from __future__ import annotations

from gradtape._src.checkpoint.checkpoint import PythonState as PythonState

__all__ = [
    "PythonState",
]
