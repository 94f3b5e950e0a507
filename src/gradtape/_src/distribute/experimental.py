"""`tf.distribute.experimental`: names that TensorFlow keeps apart."""

from __future__ import annotations

from gradtape._src.distribute.cross_device_ops import (
    CommunicationImplementation as CommunicationImplementation,
    CommunicationOptions as CommunicationOptions,
)
from gradtape._src.distribute.strategy import TPUStrategy as TPUStrategy, ValueContext as ValueContext
from gradtape._src.distribute.workers import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy

CollectiveCommunication = CommunicationImplementation

__all__ = [
    "CollectiveCommunication",
    "CommunicationImplementation",
    "CommunicationOptions",
    "MultiWorkerMirroredStrategy",
    "TPUStrategy",
    "ValueContext",
]
