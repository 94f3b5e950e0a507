"""Keras' distribution interface: meshes of JAX devices, over which XLA shards arrays and programs."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src.backend.common import global_state

from gradtape._src import processes
from gradtape._src.calls import calls
from gradtape._src.conversion import convert, wrap
from gradtape._src.devices import jax_devices, logical_devices, require_jax, use_several
from gradtape._src.tensor import Tensor


def list_devices(device_type: str | None = None) -> list[str]:
    kinds = ("TPU", "GPU", "CPU") if device_type is None else (device_type.upper(),)
    if processes.count() > 1:
        everywhere = next((kind for kind in kinds if jax_devices(kind, everywhere=True)), "CPU")
        return [f"{everywhere.lower()}:{i}" for i in range(len(jax_devices(everywhere, everywhere=True)))]
    found = next((devices for kind in kinds if (devices := logical_devices(kind))), [])
    return [f"{device.kind.lower()}:{device.number}" for device in found]


def get_device_count(device_type: str | None = None) -> int:
    return len(list_devices(device_type))


def num_processes() -> int:
    return processes.count()


def process_id() -> int:
    return processes.number()


def initialize(job_addresses: Any, num_processes: Any, process_id: Any) -> None:
    """Connect this process to others; meshes then have the devices of all of them.

    `job_addresses` is the address of the first process, or the addresses of all of them, separated by commas.
    """
    addresses = [each.strip() for each in (job_addresses or "").split(",") if each.strip()]
    count = len(addresses) if num_processes is None else int(num_processes)
    if count <= 1:
        return
    if not addresses or process_id is None:
        raise ValueError(
            f"keras.distribution.initialize of {count} processes needs `job_addresses`, the first of which is the "
            f"coordinator's, and `process_id`. Received: job_addresses={job_addresses!r}, process_id={process_id!r}."
        )
    processes.connect([addresses[0]] * count, int(process_id))


def distribute_tensor(tensor: Any, layout: Any) -> Tensor:
    """Shard a tensor over the devices of a mesh; in a function, XLA is told to shard it.

    With several processes, the value of the first one is used: each of them draws initial values of weights.
    """
    found = convert(tensor)
    if processes.count() > 1 and isinstance(found.array, np.ndarray):
        found = _of_first_process(found)
    return divided(found, layout)


def divided(tensor: Tensor, layout: Any) -> Tensor:
    """Shard a tensor over the devices of a mesh. With several processes, all of them have its value."""
    sharding = getattr(layout, "backend_layout", layout)
    current = getattr(tensor.array, "sharding", None)
    if current is not None and current.is_equivalent_to(sharding, len(tensor.array.shape)):
        return tensor
    result: Tensor = calls["transfer"](tensor, device=sharding, source=current)
    return result


distribute_value = distribute_tensor


def distribute_batch(tensor: Tensor) -> Tensor:
    """Shard a part of a batch in the layout of the active distribution for data; replicate it if it does not divide
    evenly. With several processes, each has its own rows, and the batch consists of all of them.
    """
    distribution = global_state.get_global_attribute("distribution")
    if distribution is None or not isinstance(tensor, Tensor):
        return tensor
    from jax.sharding import NamedSharding, PartitionSpec

    shape = tuple(tensor.array.shape)
    sharding = distribution.get_data_layout(shape).backend_layout
    if processes.count() > 1 and getattr(tensor.array, "sharding", None) != sharding:
        return _of_all_processes(tensor, sharding)
    parts = [1 if axis is None else sharding.mesh.shape[axis] for axis in sharding.spec]
    if any(size % count for size, count in zip(shape, parts, strict=False)):
        sharding = NamedSharding(sharding.mesh, PartitionSpec())
    return distribute_tensor(tensor, sharding)


def _of_first_process(tensor: Tensor) -> Tensor:
    from jax.experimental import multihost_utils

    return wrap(np.asarray(multihost_utils.broadcast_one_to_all(np.asarray(tensor.array))))


def _of_all_processes(tensor: Tensor, sharding: Any) -> Tensor:
    import jax

    return wrap(jax.make_array_from_process_local_data(sharding, np.asarray(tensor.array)))


def layout_of_variable(variable: Any) -> Any:
    """The layout of the active distribution for a new variable, or None."""
    distribution = global_state.get_global_attribute("distribution")
    return None if distribution is None else distribution.get_variable_layout(variable)


def _to_backend_device(device_name: Any) -> Any:
    kind, _, number = str(device_name).partition(":")
    found = jax_devices(kind.upper(), everywhere=processes.count() > 1)
    if int(number or 0) >= len(found):
        raise ValueError(f"Device not found: {device_name}. This process has {list_devices(kind)}.")
    return found[int(number or 0)]


def _to_backend_mesh(device_mesh: Any) -> Any:
    require_jax("keras.distribution")
    from jax.sharding import Mesh

    use_several()
    devices = [_to_backend_device(device) for device in device_mesh.devices.flatten()]
    grid = np.empty(len(devices), object)
    grid[:] = devices
    return Mesh(grid.reshape(device_mesh.devices.shape), device_mesh.axis_names)


def _to_backend_layout(tensor_layout: Any) -> Any:
    from jax.sharding import NamedSharding, PartitionSpec

    if tensor_layout.device_mesh is None:
        raise ValueError("Cannot create sharding when device mesh is not set for TensorLayout.")
    return NamedSharding(tensor_layout.device_mesh.backend_mesh, PartitionSpec(*tensor_layout.axes))
