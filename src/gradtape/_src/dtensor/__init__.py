"""`tf.experimental.dtensor`: global tensors that are divided over a mesh of devices, by XLA."""

from __future__ import annotations

from gradtape._src.dtensor.api import (
    DTensorCheckpoint as DTensorCheckpoint,
    DTensorDataset as DTensorDataset,
    DVariable as DVariable,
    call_with_layout as call_with_layout,
    check_layout as check_layout,
    copy_to_mesh as copy_to_mesh,
    create_mesh as create_mesh,
    default_mesh as default_mesh,
    fetch_layout as fetch_layout,
    get_default_mesh as get_default_mesh,
    is_dtensor as is_dtensor,
    num_global_devices as num_global_devices,
    num_local_devices as num_local_devices,
    pack as pack,
    preferred_device_type as preferred_device_type,
    relayout as relayout,
    relayout_like as relayout_like,
    unpack as unpack,
)
from gradtape._src.dtensor.layout import (
    MATCH as MATCH,
    UNSHARDED as UNSHARDED,
    Layout as Layout,
    Mesh as Mesh,
)

__all__ = [
    "MATCH",
    "UNSHARDED",
    "DTensorCheckpoint",
    "DTensorDataset",
    "DVariable",
    "Layout",
    "Mesh",
    "call_with_layout",
    "check_layout",
    "copy_to_mesh",
    "create_mesh",
    "default_mesh",
    "fetch_layout",
    "get_default_mesh",
    "is_dtensor",
    "num_global_devices",
    "num_local_devices",
    "pack",
    "preferred_device_type",
    "relayout",
    "relayout_like",
    "unpack",
]
