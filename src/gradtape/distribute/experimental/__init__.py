"""`tf.distribute.experimental`: names that TensorFlow keeps apart."""

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
