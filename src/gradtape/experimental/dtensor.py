"""`tf.experimental.dtensor`: global tensors that XLA divides over a mesh of devices."""

import typing as _typing

from gradtape._src.dtensor import (
    MATCH as MATCH,
    UNSHARDED as UNSHARDED,
    DTensorCheckpoint as DTensorCheckpoint,
    DTensorDataset as DTensorDataset,
    DVariable as DVariable,
    Layout as Layout,
    Mesh as Mesh,
    barrier as barrier,
    call_with_layout as call_with_layout,
    check_layout as check_layout,
    client_id as client_id,
    copy_to_mesh as copy_to_mesh,
    create_distributed_mesh as create_distributed_mesh,
    create_mesh as create_mesh,
    default_mesh as default_mesh,
    fetch_layout as fetch_layout,
    get_default_mesh as get_default_mesh,
    initialize_accelerator_system as initialize_accelerator_system,
    is_dtensor as is_dtensor,
    num_clients as num_clients,
    num_global_devices as num_global_devices,
    num_local_devices as num_local_devices,
    pack as pack,
    preferred_device_type as preferred_device_type,
    relayout as relayout,
    relayout_like as relayout_like,
    run_on as run_on,
    shutdown_accelerator_system as shutdown_accelerator_system,
    unpack as unpack,
)

if not _typing.TYPE_CHECKING:
    from gradtape._src.lazy_names import of_public as _of_public

    __getattr__ = _of_public(__name__)
