"""`tf.distribute.experimental`: names that TensorFlow keeps apart."""

from gradtape._src.distribute.experimental import (
    CollectiveCommunication as CollectiveCommunication,
    CommunicationImplementation as CommunicationImplementation,
    CommunicationOptions as CommunicationOptions,
    MultiWorkerMirroredStrategy as MultiWorkerMirroredStrategy,
    TPUStrategy as TPUStrategy,
    ValueContext as ValueContext,
)
