"""Tensors as protocol messages, and names of devices, for exchange with libraries."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.conversion import convert
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats.event import TensorProto
from gradtape._src.formats.tensor_proto import parsed, serialized

__all__ = ["DeviceSpec", "make_ndarray", "make_tensor_proto"]

_FIELDS = {
    "bfloat16": "half_val",
    "bool": "bool_val",
    "complex128": "dcomplex_val",
    "complex64": "scomplex_val",
    "float16": "half_val",
    "float32": "float_val",
    "float64": "double_val",
    "int64": "int64_val",
    "uint32": "uint32_val",
    "uint64": "uint64_val",
    **dict.fromkeys(("int8", "int16", "int32", "uint8", "uint16"), "int_val"),
}
"""The field for a single value and for fewer values than the shape has, by dtype; else the values are bytes."""
_NEVER_BYTES = ("complex64", "complex128", "uint16")


def make_tensor_proto(
    values: Any, dtype: Any = None, shape: Any = None, verify_shape: bool = False, allow_broadcast: bool = False
) -> TensorProto:
    """Convert an array to a `TensorProto` message.

    `shape` may have more elements than there are values: the last value stands for those that are left.

    >>> tf.make_tensor_proto([1.0, 2.0]).tensor_shape.dim[0].size
    2
    """
    if isinstance(values, TensorProto):
        return values
    if shape is not None and 0 in shape:
        values = np.empty(shape, as_dtype(dtype or "float32").numpy_dtype)
    array = np.asarray(convert(values, dtype).numpy())
    wanted = array.shape if shape is None else tuple(int(n) for n in shape)
    if shape is not None:
        _check_size(array, wanted, verify_shape, allow_broadcast)
    made = TensorProto.FromString(serialized(convert(array if array.ndim else array[()], dtype)))
    name, is_part = as_dtype(made.dtype).name, array.size != np.prod(wanted, dtype=np.int64)
    field = _FIELDS.get(name)
    if field is not None and (array.size == 1 or is_part or name in _NEVER_BYTES):
        made.ClearField("tensor_content")
        getattr(made, field).extend(_listed(array))
    if wanted != array.shape:
        made.tensor_shape.ClearField("dim")
        for size in wanted:
            made.tensor_shape.dim.add().size = size
    return made


def _check_size(array: ndarray, wanted: tuple[int, ...], verify_shape: bool, allow_broadcast: bool) -> None:
    size = int(np.prod(wanted, dtype=np.int64))
    if allow_broadcast and array.shape not in ((), (1,)) and array.size != size:
        raise TypeError(f"Expected Tensor's shape: {wanted}, but got {array.shape}.")
    if not allow_broadcast and verify_shape and array.shape != wanted:
        raise TypeError(f"Expected Tensor's shape: {wanted}, but got {array.shape}.")
    if not allow_broadcast and array.size > size:
        raise ValueError(f"Too many elements provided. Takes at most {size:d}, but got {array.size:d}")


def _listed(array: ndarray) -> list[Any]:
    """The values as a message lists them: halves as their bits, complex numbers as pairs."""
    if array.dtype.kind == "c":
        return array.reshape(-1).view(array.real.dtype).tolist()
    if array.dtype.itemsize == 2 and array.dtype.kind not in "iu":
        return array.reshape(-1).view(np.uint16).tolist()
    found: list[Any] = array.reshape(-1).tolist()
    return found


def make_ndarray(tensor: Any) -> ndarray:
    """Convert a `TensorProto` message to an array.

    >>> tf.make_ndarray(tf.make_tensor_proto([[1, 2]])).tolist()
    [[1, 2]]
    """
    found: Any = parsed(tensor.SerializeToString()).numpy()
    if isinstance(found, ndarray):
        return found
    array = np.empty((), object if isinstance(found, (bytes, str)) else np.asarray(found).dtype)
    array[()] = found
    return array


class DeviceSpec:
    """The parts of a device's name.

    >>> tf.DeviceSpec(job="worker", device_type="GPU", device_index=1).to_string()
    '/job:worker/device:GPU:1'
    >>> tf.DeviceSpec.from_string("/job:ps/task:2/device:CPU:0").task
    2

    >>> spec = tf.DeviceSpec(job="worker", replica=0, device_type="CPU", device_index=1)
    >>> spec.job, spec.replica, spec.device_type, spec.device_index
    ('worker', 0, 'CPU', 1)
    >>> spec.replace(device_index=0).to_string()
    '/job:worker/replica:0/device:CPU:0'
    >>> spec.make_merged_spec(tf.DeviceSpec(device_type="GPU")).to_string()
    '/job:worker/replica:0/device:GPU:1'
    >>> spec.parse_from_string("/job:ps/device:CPU:0").job
    'ps'
    """

    __slots__ = ("_device_index", "_device_type", "_job", "_replica", "_task")

    def __init__(
        self,
        job: Any = None,
        replica: Any = None,
        task: Any = None,
        device_type: Any = None,
        device_index: Any = None,
    ) -> None:
        self._job = None if job is None else str(job)
        self._replica, self._task, self._device_index = (None if n is None else int(n)
                                                         for n in (replica, task, device_index))  # fmt: skip
        kind = None if device_type is None else str(device_type)
        self._device_type = kind.upper() if kind is not None and kind.lower() in ("cpu", "gpu") else kind

    @property
    def job(self) -> str | None:
        """The name of the job."""
        return self._job

    @property
    def replica(self) -> int | None:
        """The number of the replica."""
        return self._replica

    @property
    def task(self) -> int | None:
        """The number of the task."""
        return self._task

    @property
    def device_type(self) -> str | None:
        """The kind of device, such as CPU."""
        return self._device_type

    @property
    def device_index(self) -> int | None:
        """The number of the device."""
        return self._device_index

    @classmethod
    def from_string(cls, spec: str) -> DeviceSpec:
        """Parse a device name; raises ValueError if it is not one."""
        parts: dict[str, Any] = {}
        for part in [piece for piece in spec.split("/") if piece]:
            key, *values = part.split(":")
            if "device_type" in parts and key not in ("job", "replica", "task"):
                raise ValueError(f"Multiple device types are not allowed while parsing the device spec: {spec}.")
            if key == "device" and len(values) in (1, 2):
                parts["device_type"] = values[0]
                parts["device_index"] = values[1] if len(values) == 2 and values[1] != "*" else None
            elif key in ("job", "replica", "task") and len(values) == 1:
                parts[key] = values[0]
            elif key.upper() in ("CPU", "GPU", "TPU") and len(values) < 2:
                parts["device_type"], parts["device_index"] = key, values[0] if values and values[0] != "*" else None
            else:
                raise ValueError(f"Unknown attribute '{key}' is encountered while parsing the device spec: '{spec}'.")
        return cls(**parts)

    def to_string(self) -> str:
        """Return the name."""
        text = "" if self._job is None else f"/job:{self._job}"
        text += "".join(f"/{k}:{v}" for k, v in (("replica", self._replica), ("task", self._task)) if v is not None)
        if self._device_type is not None:
            index = "*" if self._device_index is None else self._device_index
            text += f"/device:{self._device_type}:{index}"
        return text

    def _parts(self) -> dict[str, Any]:
        return {name[1:]: getattr(self, name) for name in DeviceSpec.__slots__}

    def replace(self, **kwargs: Any) -> DeviceSpec:
        """Return a copy with some parts replaced."""
        return DeviceSpec(**{**self._parts(), **kwargs})

    def make_merged_spec(self, dev: DeviceSpec) -> DeviceSpec:
        """Return the parts of another name, and those of this one for parts that the other lacks."""
        return self.replace(**{name: value for name, value in dev._parts().items() if value is not None})

    def parse_from_string(self, spec: str) -> DeviceSpec:
        """Parse a device name."""
        return DeviceSpec.from_string(spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(tuple(self._parts().values()))

    def __repr__(self) -> str:
        parts = (f"{name}={getattr(self, name)}" for name in ("job", "replica", "task", "device_type", "device_index"))
        return f"<DeviceSpec({', '.join(parts)})>"
