"""The names in `tf.distribute.experimental`."""

from __future__ import annotations

from gradtape._src.distribute import parameter_server as coordinator, partitioners as partitioners
from gradtape._src.distribute.cross_device_ops import (
    CommunicationImplementation as CommunicationImplementation,
    CommunicationOptions as CommunicationOptions,
)
from gradtape._src.distribute.parameter_server import (
    CentralStorageStrategy as CentralStorageStrategy,
    ParameterServerStrategy as ParameterServerStrategy,
)
from gradtape._src.distribute.preemption import (
    PreemptionCheckpointHandler as PreemptionCheckpointHandler,
    PreemptionWatcher as PreemptionWatcher,
    TerminationConfig as TerminationConfig,
)
from gradtape._src.distribute.strategy import TPUStrategy as TPUStrategy, ValueContext as ValueContext
from gradtape._src.distribute.workers import MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy

CollectiveCommunication = CommunicationImplementation

__all__ = [
    "CentralStorageStrategy",
    "CollectiveCommunication",
    "CommunicationImplementation",
    "CommunicationOptions",
    "MultiWorkerMirroredStrategy",
    "ParameterServerStrategy",
    "PreemptionCheckpointHandler",
    "PreemptionWatcher",
    "TPUStrategy",
    "TerminationConfig",
    "ValueContext",
    "coordinator",
    "partitioners",
]
