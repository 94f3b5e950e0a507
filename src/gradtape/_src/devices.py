"""Devices and engines: the device of new arrays, and ops with operands on two devices.

The CPU is NumPy's, unless the default engine is XLA; everything else is JAX's. A device is chosen for a `with` block,
for one thread or task at a time; new arrays go there, and ops run where their inputs are. Outside of such blocks, new
floating-point arrays go to the first GPU or TPU, if there is one; integers, booleans and strings stay with NumPy, as
TensorFlow keeps int32 on the host. JAX is imported when a device needs it.

This is a layer below tensors: it moves them with the primitive `transfer`, which tapes record.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src import errors, forks, processes, threads
from gradtape._src.call_sites import logger
from gradtape._src.calls import calls
from gradtape._src.interrupts import graph_traced, setting
from gradtape._src.jax_setup import configure
from gradtape._src.uids import CONSTANT

if TYPE_CHECKING:
    from gradtape._src.core.primitive import Op
    from gradtape._src.tensor import Tensor


class Device(NamedTuple):
    """A device, in TensorFlow's terms."""

    kind: str
    number: int

    @property
    def name(self) -> str:
        return f"/job:localhost/replica:0/task:0/device:{self.kind}:{self.number}"


CPU = Device("CPU", 0)
_BACKENDS = {"CPU": "cpu", "GPU": "gpu", "TPU": "tpu"}
_SPEC = r"(/?job:(?P<job>\w+))?(/?replica:\d+)?(/?task:\d+)?/?(device:)?((?P<kind>[a-z_]+)(:(?P<index>\d+|\*))?)?"
"""A device spec. `re` compiles it on first use, which takes 1 ms (benchmark `import`), and caches it."""


def parse(spec: str) -> Device | None:
    """The device that a string names; None if it names none, as "" and "/job:localhost" do.

    >>> parse("/GPU:1"), parse("cpu"), parse("/job:localhost/replica:0/task:0/device:GPU:0"), parse("")
    (Device(kind='GPU', number=1), Device(kind='CPU', number=0), Device(kind='GPU', number=0), None)
    """
    found = re.fullmatch(_SPEC, spec, re.IGNORECASE)
    if found is None:
        raise ValueError(f"Unknown attribute '{spec}' is encountered while parsing the device spec: '{spec}'.")
    if found["kind"] is None:
        return None
    index = found["index"]
    return Device(found["kind"].upper(), int(index) if index and index != "*" else 0)


# -- available devices -----------------------------------------------------------------------------------------------
_hidden: set[str] = set()
"""Names of physical devices that are invisible."""

_cpu_count: list[int] = []
"""The number of logical CPUs, if it was set."""


def has_jax() -> bool:
    """Whether JAX is installed. Does not import it."""
    return importlib.util.find_spec("jax") is not None


def require_jax(what: str) -> None:
    """Raise an error that names the command to install JAX, unless it is installed."""
    if not has_jax():
        raise ImportError(f"{what} needs JAX, which is not installed: {errors.install('xla')}", name="jax")


def _search(find: Callable[[], list[Any]]) -> list[Any]:
    """Call JAX, which takes a lock: Python 3.14 leaves it locked if a signal arrives on this thread just then."""
    return threads.apart(find) if sys.version_info >= (3, 14) else find()


def jax_devices(kind: str, everywhere: bool = False) -> list[Any]:
    """JAX's devices of one kind, of this process or of all; none without JAX. Initializes JAX."""
    if kind not in _BACKENDS or not has_jax():
        return []
    configure()
    import jax

    try:
        return list(
            _search(functools.partial(jax.devices if everywhere else jax.local_devices, backend=_BACKENDS[kind]))
        )
    except RuntimeError:  # raised if there is none
        return []


def logical_devices(kind: str | None = None) -> list[Device]:
    """The devices for ops. For kind "CPU", JAX is not initialized."""
    if kind == "CPU" and "jax" not in sys.modules:
        return [Device("CPU", i) for i in range(cpu_count() or 1)]
    count = len(jax_devices("CPU")) or cpu_count() or 1
    found = [Device("CPU", i) for i in range(count)] if kind in (None, "CPU") else []
    for other in ("GPU", "TPU"):
        if kind in (None, other):
            found += [
                Device(other, i)
                for i in range(len(jax_devices(other)))
                if f"/physical_device:{other}:{i}" not in _hidden
            ]
    return found


def hide(names: set[str], kind: str | None) -> None:
    """Make physical devices of a kind (None: of every kind) invisible, and all others of that kind visible."""
    kept = {name for name in _hidden if kind is not None and f":{kind}:" not in name}
    _hidden.clear()
    _hidden.update(kept | names)
    _forget_default()


def hidden() -> set[str]:
    return set(_hidden)


def split_cpu(count: int) -> None:
    """Divide the CPU into several logical devices; with JAX, only before it is initialized."""
    if count == (cpu_count() or 1):
        return
    if not has_jax():  # NumPy computes for all of them
        _cpu_count[:] = [count]
        return
    import jax

    setting: Any = jax.config
    try:
        setting.update("jax_num_cpu_devices", count)
    except RuntimeError:
        raise RuntimeError("Virtual devices cannot be modified after being initialized") from None
    _cpu_count[:] = [count]


def cpu_count() -> int | None:
    """The number of logical CPUs, if it was set, or None."""
    return _cpu_count[0] if _cpu_count else None


# -- choosing --------------------------------------------------------------------------------------------------------
_NOT_CHOSEN = object()
chosen_device: ContextVar[Any] = ContextVar("gradtape_device", default=_NOT_CHOSEN)
"""A JAX device, or None for NumPy."""

logical_cpu: ContextVar[int] = ContextVar("gradtape_logical_cpu", default=0)
"""The current logical CPU. All of them use NumPy and host memory, and differ only in name."""

_UNDECIDED = object()
_default_target: Any = None  # _UNDECIDED: there may be an accelerator, and no array was placed yet
_soft_placement = True
_engine = "numpy"


def _may_have_accelerator() -> bool:
    """Whether JAX may find a GPU or TPU, or another default was set. Imports nothing."""
    named = os.environ.get("GRADTAPE_DEVICE")
    if named is not None:
        return (parse(named) or CPU) != CPU
    if os.environ.get("JAX_PLATFORMS", "").lower() == "cpu" or not has_jax():
        return False
    return any(importlib.util.find_spec(name) is not None for name in ("jax_plugins", "libtpu"))


def _decided() -> Any:
    """The default device of new arrays: the one that GRADTAPE_DEVICE names, or the first accelerator."""
    global _default_target
    named = os.environ.get("GRADTAPE_DEVICE")
    if named is not None:
        _default_target = find(parse(named) or CPU)
    else:
        there = [device for kind in ("GPU", "TPU") for device in logical_devices(kind)]
        _default_target = find(there[0]) if there else None
    if _default_target is None and not sharded_meshes and not placement.lazy:
        placement.places = False
    return _default_target


def _forget_default() -> None:
    """Decide again when the next array is placed."""
    global _default_target
    if _engine == "numpy" and _may_have_accelerator():
        _default_target = _UNDECIDED
        placement.places = placement.several = True


def default_device() -> Device:
    """The device of new floating-point tensors outside of `tf.device`; initializes JAX if there may
    be an accelerator.
    """
    target = _decided() if _default_target is _UNDECIDED else _default_target
    return CPU if target is None else _device_behind(target)


sharded_meshes: dict[Any, Any] = {}
"""JAX meshes with tensors of `tf.experimental.dtensor`, and the corresponding meshes there."""


def register_mesh(jax_mesh: Any, mesh: Any) -> None:
    """Allow tensors to be sharded over a mesh."""
    sharded_meshes[jax_mesh] = mesh
    use_several()


def mesh_of(array: Any) -> Any:
    """The mesh of `tf.experimental.dtensor` that an array is on; None for other arrays."""
    return sharded_meshes.get(getattr(getattr(array, "sharding", None), "mesh", None)) if sharded_meshes else None


def require_one_mesh(op: str, arrays: Any) -> None:
    """Raise TensorFlow's error for arrays on different meshes. Lazy arrays are not computed."""
    there = [bare for array in arrays if not _is_pending(bare := _bare(array))]
    found = [mesh for array in there if (mesh := mesh_of(array)) is not None]
    if any(mesh != found[0] for mesh in found):
        meshes = ", ".join(sorted({mesh.to_string() for mesh in found}))
        raise errors.UnknownError(
            None,
            None,
            f"{op}: 'tf_device.cluster' op failed during mesh propagation. All inputs to `tf_device.Cluster` must have "
            f"same mesh configuration. The inputs are on the meshes {meshes}. Copy them to one of these first: "
            "dtensor.copy_to_mesh(x, layout).",
        )


def use_several() -> None:
    """From now on move inputs of ops and programs to a common device: there are arrays on several devices."""
    placement.places = placement.several = True


def readable(array: Any) -> Any:
    """An XLA array for NumPy; raises an error for a shard of a tensor on a mesh."""
    if sharded_meshes and not getattr(array, "is_fully_replicated", True) and mesh_of(array) is not None:
        raise errors.UnimplementedError(
            None,
            None,
            "Trying to copy a non-single-device and non-replicated DTensor is not supported. "
            f"The tensor has the shape {tuple(array.shape)} and is divided over {array.sharding.spec}: use "
            "dtensor.relayout(x, dtensor.Layout.replicated(mesh, rank)) first, or dtensor.unpack(x).",
        )
    # Other processes read sharded arrays as well; a lazy array belongs to this one.
    if not getattr(array, "is_fully_addressable", True) and not array.is_fully_replicated:
        from jax.experimental import multihost_utils

        return np.asarray(processes.together(lambda: multihost_utils.process_allgather(array, tiled=True)))
    return np.asarray(array)


def set_soft_placement(enabled: bool) -> None:
    global _soft_placement
    _soft_placement = bool(enabled)


def soft_placement() -> bool:
    return _soft_placement


def jax_device(device: Device) -> Any:
    """The JAX device of a device, None for NumPy; raises TensorFlow's error if it does not exist."""
    if device == CPU and _engine == "numpy":
        return None
    if device.kind == "CPU" and device.number < (cpu_count() or 1) and not has_jax():
        return None
    if f"/physical_device:{device.kind}:{device.number}" not in _hidden:
        found = jax_devices(device.kind)
        if device.number < len(found):
            return found[device.number]
    there = logical_devices()
    kinds = dict.fromkeys(d.kind for d in there)
    advice = (
        (
            "gradtape uses other devices through JAX, which finds none of this kind: pip install 'jax[cuda12]' adds "
            "support for NVIDIA GPUs."
        )
        if has_jax()
        else f"Devices other than the CPU need JAX: {errors.install('xla')}."
    )
    raise errors.InvalidArgumentError(
        None,
        None,
        f"Could not satisfy device specification '{device.name}'. enable_soft_placement={int(_soft_placement)}. "
        f"Supported device types [{', '.join(kinds)}]. All available devices "
        f"[{', '.join(d.name for d in there)}]. {advice} tf.config.set_soft_device_placement(True) runs such code "
        "on the CPU instead.",
    )


def find(device: Device) -> Any:
    """The JAX device of a device, or the CPU if it does not exist and soft placement is enabled."""
    try:
        return jax_device(device)
    except errors.InvalidArgumentError:
        if not _soft_placement:
            raise
        return jax_device(CPU)


class device_scope(setting[Any]):
    """Context that sets the device of new tensors. None overrides the blocks around it."""

    def __init__(self, device_name: Any) -> None:
        if callable(device_name):
            raise RuntimeError("tf.device does not support functions when eager execution is enabled.")
        if hasattr(device_name, "to_string"):
            device_name = device_name.to_string()
        self._given_name = device_name
        self._device = parse(device_name) if isinstance(device_name, str) and device_name else None
        super().__init__(chosen_device, _NOT_CHOSEN)

    def __enter__(self) -> None:
        # As in TensorFlow, other objects are rejected when it is entered.
        if self._given_name is not None and not isinstance(self._given_name, str):
            raise ValueError(f"Expected device name argument to be a string, None or DeviceSpec: {self._given_name!r}.")
        if self._device is not None:
            self._value = find(self._device)
            _install(self._value)
        elif self._given_name is not None:  # a name without a device has no effect
            self._value = chosen_device.get()
        super().__enter__()


def set_engine(name: str) -> None:
    """Choose the engine for tensors on the CPU: "numpy" or "xla"."""
    global _engine, _default_target
    if name not in ("numpy", "xla"):
        raise ValueError(f"Unknown engine: {name!r}. Use 'numpy' or 'xla'.")
    if name == "xla":
        require_jax("The XLA engine")
        _default_target = jax_devices("CPU")[0]
        _install(_default_target)
        _engine = name
    else:
        _default_target, _engine = None, name
        _forget_default()


def memory_of_device() -> int:
    """The bytes of memory of the device of new arrays: those that JAX may use of an accelerator, or the machine's."""
    device = chosen()
    stats = None if device is None or device.platform == "cpu" else device.memory_stats()
    nbytes = (stats or {}).get("bytes_limit", 0)
    return int(nbytes) or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def get_engine() -> str:
    return _engine


# -- placement -------------------------------------------------------------------------------------------------------
class _Placement:
    """Flags for the hot path: whether arrays have to be placed, or moved to a common device, at all."""

    __slots__ = ("lazy", "places", "several")

    def __init__(self) -> None:
        self.places = False  # whether new arrays may belong on a JAX device, or are lazy
        self.several = False  # whether there may be arrays on several devices
        self.lazy = False  # whether new arrays on the CPU are lazy


placement = _Placement()


def _install(target: Any) -> None:
    """From now on place new arrays, and move inputs to a common device if there is a second one."""
    if target is not None:
        placement.places = True
        if target.platform != "cpu" or target.id:
            placement.several = True


def chosen() -> Any:
    """The device of new arrays: a JAX device, or None for NumPy."""
    target = chosen_device.get()
    if target is _NOT_CHOSEN:
        target = _default_target
        if target is _UNDECIDED:
            return None if forks.without_xla else _decided()
    return target


def place(value: Any) -> Any:
    """Move a NumPy array to the chosen device. Strings are not moved, nor are constants of a compiled program.

    Without a chosen device, integers and booleans also stay on the host.
    """
    kind = value.dtype.kind
    if kind in "iub" and _engine == "numpy" and chosen_device.get() is _NOT_CHOSEN:
        return value
    if kind == "O" or value.dtype.names is not None or graph_traced.get() is not None:
        return value
    target = chosen()
    if target is None or forks.without_xla:
        return _lazy_form(value, None) if placement.lazy and chosen_device.get() in (_NOT_CHOSEN, None) else value
    import jax

    return _lazy_form(jax.device_put(value, target), target)


def is_jax_array(value: Any) -> bool:
    """Whether this is a JAX array with values, which arrays in a user's own jax.jit do not have."""
    jax: Any = sys.modules.get("jax")
    kind = getattr(jax, "Array", None)  # None also while another thread imports JAX
    return kind is not None and isinstance(value, kind) and not isinstance(value, jax.core.Tracer)


def place_result(value: Any) -> Any:
    """Make the result of an engine other than NumPy lazy, if new arrays on its device are."""
    if _graph_mode == "off" or type(value) is _lazy.kind or not is_jax_array(value):
        return value
    found = value.devices()
    return _lazy_form(value, next(iter(found))) if len(found) == 1 else value


# -- lazy arrays -----------------------------------------------------------------------------------------------------
GRAPH_MODES = ("accelerators", "auto", "off")


class _Lazy:
    """What `arrays/lazy` registers: the class of lazy arrays, and a function that makes one from an
    array and a device.
    """

    kind: Any = None
    make: Any = None


_lazy = _Lazy()


def _is_pending(array: Any) -> bool:
    """Whether this is a lazy array without a value."""
    return type(array) is _lazy.kind and array.value is None


_graph_mode = "accelerators"


def register_lazy_arrays(kind: type, make: Any) -> None:
    """Register the class of lazy arrays, and `make(array, device)`."""
    _lazy.kind, _lazy.make = kind, make


def _lazy_form(value: Any, device: Any) -> Any:
    """An array as a lazy array, if the graph mode says so for its device."""
    if _lazy.make is None or _graph_mode == "off" or (_graph_mode != "auto" and _is_processor(device)):
        return value
    return _lazy.make(value, device)


def _is_processor(device: Any) -> bool:
    return device is None or device.platform == "cpu"


def set_graph_mode(mode: str) -> None:
    """Choose where new arrays are lazy: on accelerators, everywhere ("auto") or nowhere ("off")."""
    global _graph_mode
    if mode not in GRAPH_MODES:
        raise ValueError(f"Unknown graph mode: {mode!r}. Use 'auto', 'off' or 'accelerators'.")
    _graph_mode = mode
    placement.lazy = mode == "auto"
    if placement.lazy:
        placement.places = True
    elif _default_target is None and not sharded_meshes and not placement.several:
        placement.places = False


def get_graph_mode() -> str:
    return _graph_mode


def _graph_mode_of_environment() -> None:
    named = os.environ.get("GRADTAPE_LAZY")
    if named is not None:
        if named not in ("0", "1"):
            raise ValueError(f"The environment variable GRADTAPE_LAZY must be '0' or '1'. Received {named!r}.")
        set_graph_mode("auto" if named == "1" else "off")


def move(x: Tensor, target: Any) -> Tensor:
    """Copy a tensor to a device, which tapes record; a tensor that is there already is returned unchanged."""
    source = _device_of(x.array)
    if source is _NOWHERE or source == target or _bare(x.array).dtype.kind == "O":
        return x
    result: Tensor = calls["transfer"](x, device=target, source=source)
    return result


def identity(x: Tensor) -> Tensor:
    """`tf.identity`: a new tensor, on the chosen device, if there is one."""
    target = chosen_device.get()
    moved = x if target is _NOT_CHOSEN else move(x, target)
    result: Tensor = calls["identity"](x) if moved is x else moved
    return result


# -- operands on two devices -----------------------------------------------------------------------------------------
_NOWHERE = object()
"""The device of arrays that are not on one device: values that are being traced, arrays on several devices."""

POLICIES = ("silent", "silent_for_int32", "warn", "explicit")
_policy = "silent"


def set_policy(name: str | None) -> None:
    global _policy
    if name is not None and name not in POLICIES:
        raise ValueError(f"{name!r} is not a valid policy name. Use one of {', '.join(map(repr, POLICIES))}.")
    _policy = name or "silent"


def policy() -> str:
    return _policy


def _bare(value: Any) -> Any:
    """The array inside a tensor or a batch."""
    while type(value) is not ndarray and hasattr(value, "array"):
        value = value.array
    return value


def _device_of(value: Any) -> Any:
    """The device of an array: None for NumPy, a JAX device, or _NOWHERE."""
    value = _bare(value)
    if type(value) is ndarray:
        return None
    if not hasattr(value, "devices"):
        return _NOWHERE
    found = value.devices()
    return next(iter(found)) if len(found) == 1 else _NOWHERE


def colocate(op: Op, tensors: Any) -> Any:
    """Move all inputs of an op to one device, unless the policy requires explicit copies.

    The first accelerator among their devices is used. Python values, and JAX arrays that are not committed to a device,
    can be used on any device.
    """
    homes = [_device_of(t.array) for t in tensors]
    if sharded_meshes:
        require_one_mesh(op.tf_name, [t.array for t in tensors])
    bound = [
        i
        for i, (home, t) in enumerate(zip(homes, tensors, strict=True))
        if t.uid != CONSTANT and home is not _NOWHERE and (home is None or _bare(t.array).committed)
    ]
    if not bound:
        return tensors
    names = [device_name(t.array) for t in tensors]
    leader = min(bound, key=lambda i: (":CPU:" in names[i], i))
    if homes[leader] is None and chosen() is not None:  # logical CPUs share NumPy arrays
        return tensors
    together = list(tensors)
    for i, t in enumerate(tensors):
        if names[i] == names[leader] or homes[i] is _NOWHERE or _bare(t.array).dtype.kind == "O":
            continue
        if i in bound:
            _follow_policy(op, t, i, names[i], names[leader])
            together[i] = move(t, homes[leader])
        elif homes[i] is not None:  # NumPy arrays need no copy
            together[i] = move(t, homes[leader])
    return tensors if all(new is old for new, old in zip(together, tensors, strict=True)) else together


def beside_strings(tensors: Any) -> Any:
    """Move the inputs of an op to the host if one of them consists of strings, which no other device has."""
    if not any(_bare(t.array).dtype.kind == "O" for t in tensors):
        return tensors
    together = [move(t, None) for t in tensors]
    return tensors if all(new is old for new, old in zip(together, tensors, strict=True)) else together


def on_same_devices(arrays: list[Any]) -> list[Any]:
    """Move the inputs of a program to one set of devices: that of the first array on several, or one device.

    NumPy arrays, and JAX arrays that are not committed to a device, need no copy.
    """
    bound = [array for array in arrays if hasattr(array, "sharding") and array.committed]
    if not bound:
        return arrays
    if sharded_meshes:
        require_one_mesh("PartitionedCall", bound)
    widest = max(bound, key=lambda array: len(array.sharding.device_set)).sharding
    if all(array.sharding.device_set == widest.device_set for array in bound):
        return arrays
    import jax

    whole = jax.sharding.PartitionSpec()
    target = jax.sharding.NamedSharding(widest.mesh, whole) if len(widest.device_set) > 1 else widest

    def moved(array: Any) -> Any:
        apart = hasattr(array, "sharding") and array.committed and array.sharding.device_set != widest.device_set
        return jax.device_put(array, target) if apart else array

    return list(map(moved, arrays))


def _follow_policy(op: Op, tensor: Tensor, position: int, actual: str, expected: str) -> None:
    if _policy == "silent" or (_policy == "silent_for_int32" and tensor.dtype.name == "int32"):
        return
    what = f"{op.tf_name} as input #{position} was expected to be on {expected} but is actually on {actual}"
    if _policy == "warn":
        logger().warning("before computing %s. This triggers a copy which can be a performance bottleneck.", what)
        return
    raise errors.invalid_argument(
        f"Tensors on conflicting devices: cannot compute {what} (operation running on {expected}) Tensors can be "
        "copied explicitly using: `with tf.device(device_name): x = tf.identity(x)` or transparently copied by using "
        "tf.config.experimental.set_device_policy('silent'). Copying tensors between devices may slow down your model",
        op.tf_name,
    )


# -- methods of tensors ----------------------------------------------------------------------------------------------
def device_name(array: Any) -> str:
    """TensorFlow's name of the device of an array; "" if it is unknown, or not a single device."""
    array = _bare(array)
    if type(array) is ndarray:
        return Device("CPU", logical_cpu.get()).name
    found: Any = array.devices() if hasattr(array, "devices") else ()
    if len(found) != 1:
        return ""
    (device,) = found
    return Device("CPU", logical_cpu.get()).name if device is None else _device_behind(device).name


def _device_behind(device: Any) -> Device:
    """JAX's device in TensorFlow's terms."""
    return Device({"cpu": "CPU", "tpu": "TPU"}.get(device.platform, "GPU"), device.id)


def to_cpu(x: Tensor) -> Tensor:
    """Copy a tensor to host memory."""
    return move(x, jax_device(CPU))


def to_gpu(x: Tensor, index: int = 0) -> Tensor:
    """Copy a tensor to a GPU."""
    found = jax_device(Device("GPU", index))
    _install(found)
    return move(x, found)


_forget_default()
_graph_mode_of_environment()
