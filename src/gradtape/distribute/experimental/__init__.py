"""The names in `tf.distribute.experimental`."""

import typing as _typing

from gradtape._src.distribute.experimental import (
    CentralStorageStrategy as CentralStorageStrategy,
    CollectiveCommunication as CollectiveCommunication,
    CommunicationImplementation as CommunicationImplementation,
    CommunicationOptions as CommunicationOptions,
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
    ParameterServerStrategy as ParameterServerStrategy,
    PreemptionCheckpointHandler as PreemptionCheckpointHandler,
    PreemptionWatcher as PreemptionWatcher,
    TerminationConfig as TerminationConfig,
    TPUStrategy as TPUStrategy,
    ValueContext as ValueContext,
)
from gradtape.distribute.experimental import coordinator as coordinator, partitioners as partitioners

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
