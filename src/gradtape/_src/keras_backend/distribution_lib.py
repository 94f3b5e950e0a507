"""Keras' distribution interface, for one process with one device."""

from __future__ import annotations

from typing import Any, NoReturn


def list_devices(device_type: str | None = None) -> list[str]:
    return ["cpu:0"] if device_type in (None, "cpu") else []


def get_device_count(device_type: str | None = None) -> int:
    return len(list_devices(device_type))


def num_processes() -> int:
    return 1


def process_id() -> int:
    return 0


def distribute_value(value: Any, tensor_layout: Any) -> NoReturn:
    _refuse()


def distribute_tensor(tensor: Any, layout: Any) -> NoReturn:
    _refuse()


def initialize(job_addresses: Any, num_processes: Any, process_id: Any) -> None:
    if num_processes not in (None, 1):
        _refuse()


def _to_backend_mesh(device_mesh: Any) -> NoReturn:
    _refuse()


def _to_backend_layout(tensor_layout: Any) -> NoReturn:
    _refuse()


def _refuse() -> NoReturn:
    raise NotImplementedError(
        "Keras on gradtape runs in one process on one device: tensors cannot be laid out over a mesh. "
        "Leave keras.distribution out, or run this model with KERAS_BACKEND=jax."
    )
