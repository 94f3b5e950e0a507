"""`tf.tpu.experimental`: local TPUs, through JAX."""

from __future__ import annotations

from typing import Any

from gradtape._src.devices import logical_devices
from gradtape._src.distribute.cluster_resolver import TPUClusterResolver

__all__ = ["initialize_tpu_system", "shutdown_tpu_system"]


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
