"""`tf.train.experimental`: Python's own state in checkpoints."""

from gradtape._src.checkpoint.experimental import (
    PythonState as PythonState,
)
