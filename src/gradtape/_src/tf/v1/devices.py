"""`tf.compat.v1.DeviceSpec`, whose parts can be set."""

from __future__ import annotations

from typing import Any

from gradtape._src.tf import protos


def _part(name: str, doc: str) -> property:
    """A part of a device's name that can be set, converted as at the creation."""

    def set_part(self: DeviceSpec, value: Any) -> None:
        setattr(self, name, getattr(protos.DeviceSpec(**{name[1:]: value}), name))

    return property(lambda self: getattr(self, name), set_part, doc=doc)


class DeviceSpec(protos.DeviceSpec):
    """The parts of a device's name, which can be set.

    >>> spec = tf.compat.v1.DeviceSpec(job="worker", device_type="gpu")
    >>> spec.device_index = 1
    >>> spec.merge_from(tf.compat.v1.DeviceSpec(task=2))
    >>> spec.to_string()
    '/job:worker/task:2/device:GPU:1'
    """

    __slots__ = ()

    job = _part("_job", "The name of the job.")
    replica = _part("_replica", "The number of the replica.")
    task = _part("_task", "The number of the task.")
    device_type = _part("_device_type", "The kind of device, such as CPU.")
    device_index = _part("_device_index", "The number of the device.")

    def merge_from(self, dev: protos.DeviceSpec) -> None:
        """Take over the parts that another specification has."""
        for name in protos.DeviceSpec.__slots__:
            if getattr(dev, name) is not None:
                setattr(self, name, getattr(dev, name))

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Take the parts of a device's name, and return this specification."""
        new = protos.DeviceSpec.from_string(spec)
        for name in protos.DeviceSpec.__slots__:
            setattr(self, name, getattr(new, name))
        return self
