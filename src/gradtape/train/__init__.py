"""`tf.train`: checkpoints, in TensorFlow's format."""

from __future__ import annotations

from gradtape.train import experimental as experimental
from gradtape.train.checkpoint import Checkpoint as Checkpoint, CheckpointOptions as CheckpointOptions
from gradtape.train.manager import CheckpointManager as CheckpointManager
from gradtape.train.reading import (
    list_variables as list_variables,
    load_checkpoint as load_checkpoint,
    load_variable as load_variable,
)
from gradtape.train.state import (
    checkpoints_iterator as checkpoints_iterator,
    get_checkpoint_state as get_checkpoint_state,
    latest_checkpoint as latest_checkpoint,
)
