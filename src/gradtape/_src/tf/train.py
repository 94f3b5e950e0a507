"""`tf.train`: checkpoints and records, in TensorFlow's formats; averages of variables; threads that stop together."""

from __future__ import annotations

from gradtape._src import checkpoint
from gradtape._src.checkpoint import *  # noqa: F403 - all that it lists
from gradtape._src.tf.coordinator import Coordinator
from gradtape._src.tf.v1.train import ExponentialMovingAverage

__all__ = [*checkpoint.__all__, "Coordinator", "ExponentialMovingAverage"]
