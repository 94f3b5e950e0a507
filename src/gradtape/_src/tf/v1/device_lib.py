"""The devices of this machine, as TensorFlow's `device_lib` lists them."""

from __future__ import annotations

from typing import NamedTuple

from gradtape._src import devices

__all__ = ["list_local_devices"]


class DeviceAttributes(NamedTuple):
    """A device: its name, its kind, its memory in bytes (0 if unknown), and a description."""

    name: str
    device_type: str
    memory_limit: int = 0
    physical_device_desc: str = ""


def list_local_devices(session_config: object = None) -> list[DeviceAttributes]:
    """The devices that ops can run on.

    >>> list_local_devices()[0].name
    '/device:CPU:0'
    """
    found = []
    for kind in ("CPU", "GPU"):
        for i, device in enumerate(devices.logical_devices(kind)):
            found.append(DeviceAttributes(f"/device:{kind}:{i}", kind, 0, f"device: {i}, name: {device.name}"))
    return found
