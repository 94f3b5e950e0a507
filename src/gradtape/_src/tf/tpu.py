"""`tf.tpu.experimental`: local TPUs, through JAX."""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import Any, NamedTuple

from gradtape._src.devices import logical_devices
from gradtape._src.distribute.cluster_resolver import TPUClusterResolver
from gradtape._src.tf import tpu_embedding as embedding

__all__ = [
    "DeviceOrderMode",
    "HardwareFeature",
    "TPUSystemMetadata",
    "embedding",
    "initialize_tpu_system",
    "shutdown_tpu_system",
]


class DeviceOrderMode(IntEnum):
    """How the cores of a replica are ordered.

    >>> tf.tpu.experimental.DeviceOrderMode.RING.value
    1
    """

    AUTO = 0
    RING = 1
    MESH = 2


class HardwareFeature:
    """What a TPU has for embeddings.

    Args:
      tpu_hardware_feature_proto: An object with `embedding_feature`, a number, and `num_embedding_devices_per_chip`.

    >>> tf.tpu.experimental.HardwareFeature.EmbeddingFeature.V2.value
    'V2'
    """

    class EmbeddingFeature(Enum):
        """The versions of the embedding engine."""

        UNSUPPORTED = "UNSUPPORTED"
        V1 = "V1"
        V2 = "V2"

    def __init__(self, tpu_hardware_feature_proto: Any) -> None:
        self.tpu_hardware_feature_proto = tpu_hardware_feature_proto

    @property
    def embedding_feature(self) -> EmbeddingFeature:
        """The version of the embedding engine."""
        versions = list(self.EmbeddingFeature)
        number = self.tpu_hardware_feature_proto.embedding_feature
        return versions[number] if 0 <= number < len(versions) else versions[0]

    @property
    def num_embedding_devices_per_chip(self) -> int:
        """The number of SparseCores of a chip."""
        return int(self.tpu_hardware_feature_proto.num_embedding_devices_per_chip)


class TPUSystemMetadata(NamedTuple):
    """The TPUs of a system: their numbers, topology and devices.

    >>> tf.tpu.experimental.TPUSystemMetadata(8, 1, 8, None, ()).num_cores
    8
    """

    num_cores: int
    num_hosts: int
    num_of_cores_per_host: int
    topology: Any
    devices: Any


def initialize_tpu_system(cluster_resolver: Any = None) -> Any:
    """Prepare the TPUs of this machine: JAX has done that. ValueError where there is none.

    Args:
      cluster_resolver: A `tf.distribute.cluster_resolver.TPUClusterResolver`.

    >>> import gradtape as tf
    >>> if tf.config.list_physical_devices("TPU"):
    ...     tf.tpu.experimental.initialize_tpu_system()
    """
    resolver = TPUClusterResolver() if cluster_resolver is None else cluster_resolver
    return resolver.num_accelerators()


def shutdown_tpu_system(cluster_resolver: Any = None) -> None:
    """Release the TPUs: JAX keeps them until the process ends, and this has no effect.

    Args:
      cluster_resolver: Accepted for compatibility.

    >>> import gradtape as tf
    >>> if tf.config.list_physical_devices("TPU"):
    ...     tf.tpu.experimental.shutdown_tpu_system()
    """
    if not logical_devices("TPU"):
        raise ValueError("Please provide a TPU Name to connect to.")
