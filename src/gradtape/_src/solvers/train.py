"""`tf.train`: checkpoints and records, in TensorFlow's formats; averages of variables; second-order optimizers."""

from __future__ import annotations

from gradtape._src.lazy_names import getattr_of, homes_of
from gradtape._src.tf import train
from gradtape._src.tf.train import *  # noqa: F403 - all that it lists

_LAZY = homes_of(("solvers.optimizers", "ConvergenceReport LBFGS LevenbergMarquardt NewtonCG"))

__getattr__ = getattr_of(__name__, _LAZY)

__all__ = [*train.__all__, *_LAZY]


def __dir__() -> list[str]:
    return list(__all__)
