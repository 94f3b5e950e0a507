"""`tf.tpu.experimental`: local TPUs, through JAX."""

import typing as _typing

from gradtape._src.tf.tpu import (
    DeviceOrderMode as DeviceOrderMode,
    HardwareFeature as HardwareFeature,
    TPUSystemMetadata as TPUSystemMetadata,
    initialize_tpu_system as initialize_tpu_system,
    shutdown_tpu_system as shutdown_tpu_system,
)
from gradtape.tpu.experimental import embedding as embedding

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
