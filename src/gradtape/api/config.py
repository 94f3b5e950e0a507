"""`tf.config`: devices, and what happens when a gradient is None."""

from __future__ import annotations

from collections import namedtuple
from types import ModuleType
from typing import Any

from gradtape.lens import explain as _explain

PhysicalDevice = namedtuple("PhysicalDevice", ["name", "device_type"])
LogicalDevice = namedtuple("LogicalDevice", ["name", "device_type"])
LogicalDeviceConfiguration = namedtuple(
    "LogicalDeviceConfiguration",
    ["memory_limit", "experimental_priority", "experimental_device_ordinal"],
    defaults=(None, None, None),
)

_CPU = PhysicalDevice("/physical_device:CPU:0", "CPU")
_LOGICAL_CPU = LogicalDevice("/device:CPU:0", "CPU")


# -- functions ---------------------------------------------------------------------------------------------------------
_eagerly: list[bool] = [False]


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Whether `tf.function` runs its code as written. In this version it always does; the choice is remembered.

    >>> run_functions_eagerly(True)
    >>> functions_run_eagerly()
    True
    >>> run_functions_eagerly(False)
    """
    _eagerly[0] = bool(run_eagerly)


def functions_run_eagerly() -> bool:
    """What `run_functions_eagerly` was last told."""
    return _eagerly[0]


# -- gradients that are None -----------------------------------------------------------------------------------------
def set_none_policy(policy: str) -> None:
    """Say what happens when `gradient` or a Jacobian has no answer for a source and would give None.

    "none" is TensorFlow's silence, and the default. "warn" warns in one line with the reason, "raise" raises a
    `ValueError` with the whole explanation. Under both, tapes that are made from then on note the line of every op.
    Zeros that are asked for (`unconnected_gradients="zero"`) are no surprise, and nothing is said.

    >>> import gradtape as tf
    >>> tf.config.set_none_policy("raise")
    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, x)
    Traceback (most recent call last):
    ...
    ValueError: GradientTape.gradient has no gradient (the none policy is 'raise').
    x: no gradient: the tape was not told to follow it
    ...
    >>> tf.config.set_none_policy("none")
    """
    _explain.set_policy(policy)


def get_none_policy() -> str:
    """What happens when a gradient is None: "none", "warn" or "raise".

    >>> get_none_policy()
    'none'
    """
    return _explain.policy()


# -- devices ---------------------------------------------------------------------------------------------------------
def list_physical_devices(device_type: str | None = None) -> list[Any]:
    """The devices of this machine that ops can run on: with the NumPy engine, its CPU.

    >>> list_physical_devices("CPU")
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    >>> list_physical_devices("GPU")
    []
    """
    return [_CPU] if device_type in (None, "CPU") else []


def list_logical_devices(device_type: str | None = None) -> list[Any]:
    """The devices as ops name them."""
    return [_LOGICAL_CPU] if device_type in (None, "CPU") else []


def get_visible_devices(device_type: str | None = None) -> list[Any]:
    """The devices that are used: all of them."""
    return list_physical_devices(device_type)


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Choose the devices to use. The CPU cannot be left out; an empty list of GPUs is what there is.

    >>> set_visible_devices([], "GPU")
    """
    asked = (
        list(devices) if isinstance(devices, (list, tuple)) and not isinstance(devices, PhysicalDevice) else [devices]
    )
    for device in asked:
        _check(device)
    if not asked and device_type in (None, "CPU"):
        raise ValueError("The CPU cannot be made invisible: eager computation on NumPy runs on it.")


def get_memory_growth(device: Any) -> bool:
    """Whether memory is taken as it is needed: on the CPU always."""
    _check(device)
    return True


def set_memory_growth(device: Any, enable: bool) -> None:
    """Take memory as it is needed. That is what the CPU does; it cannot be told not to."""
    _check(device)
    if not enable:
        raise ValueError(
            "Memory of the CPU is always taken as it is needed: set_memory_growth(device, False) cannot be."
        )


def _check(device: Any) -> None:
    if device not in (_CPU, _LOGICAL_CPU):
        raise ValueError(f"Unrecognized device: {device!r}. This machine has {[_CPU]}.")


# -- under their old names -------------------------------------------------------------------------------------------
experimental = ModuleType("gradtape.config.experimental", "Names that have moved up since.")
for _name in ("list_physical_devices", "list_logical_devices", "get_visible_devices", "set_visible_devices"):
    setattr(experimental, _name, globals()[_name])
experimental.get_memory_growth = get_memory_growth  # type: ignore[attr-defined]
experimental.set_memory_growth = set_memory_growth  # type: ignore[attr-defined]
del get_memory_growth, set_memory_growth
