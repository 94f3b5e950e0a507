"""`tf.train.experimental`: Python's own state in checkpoints."""

from __future__ import annotations

from gradtape.train.checkpoint import PythonState as PythonState
