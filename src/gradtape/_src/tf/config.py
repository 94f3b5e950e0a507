"""`tf.config`: engines, devices, and what happens when a gradient is None."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any, NamedTuple

from gradtape._src import devices as _devices
from gradtape._src.arrays.lazy import end_step
from gradtape._src.compilation_cache import store_in
from gradtape._src.devices import jax_devices
from gradtape._src.function.modes import (
    enable_op_determinism,
    functions_run_eagerly as functions_run_eagerly,
    get_jit,
    run_functions_eagerly as run_functions_eagerly,
    set_jit,
)
from gradtape._src.inspect import explain as _explain
from gradtape._src.inspect.graph_mode import GraphModeReport, report
from gradtape._src.jax_setup import configure
from gradtape._src.lazy_names import of_public
from gradtape._src.threads import set_limit


class PhysicalDevice(NamedTuple):
    """A device of this machine, as `tf.config.list_physical_devices` lists it.

    >>> tf.config.list_physical_devices("CPU")[0]
    PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that tensors can be placed on with `tf.device(name)`.

    >>> tf.config.list_logical_devices("CPU")[0]
    LogicalDevice(name='/device:CPU:0', device_type='CPU')
    """

    name: str
    device_type: str


class LogicalDeviceConfiguration(NamedTuple):
    """One of the logical devices that `tf.config.set_logical_device_configuration` divides a device into.

    >>> tf.config.LogicalDeviceConfiguration(memory_limit=1024).memory_limit
    1024
    """

    memory_limit: Any = None
    experimental_priority: Any = None
    experimental_device_ordinal: Any = None


_CPU = PhysicalDevice("/physical_device:CPU:0", "CPU")


# -- gradients that are None -----------------------------------------------------------------------------------------
def set_none_policy(policy: str) -> None:
    """Set what happens when a gradient or a Jacobian is None.

    "none", the default, does nothing, as in TensorFlow. "warn" issues a one-line warning with the reason; "raise"
    raises a `ValueError` with the complete explanation. With either of these, tapes created from then on record the
    line of every op. With `unconnected_gradients="zero"` there is no `None`, and nothing is reported.

    >>> import gradtape as tf
    >>> tf.config.set_none_policy("raise")
    >>> x = tf.constant(3.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> tape.gradient(y, x)
    Traceback (most recent call last):
    ...
    ValueError: GradientTape.gradient has no gradient (the none policy is 'raise').
    x: no gradient: the tape does not watch it
    ...
    >>> tf.config.set_none_policy("none")
    """
    _explain.set_policy(policy)


def get_none_policy() -> str:
    """Return what happens when a gradient is None: "none", "warn" or "raise".

    >>> tf.config.get_none_policy()
    'none'
    """
    return _explain.policy()


# -- engines ---------------------------------------------------------------------------------------------------------
def set_engine(name: str) -> None:
    """Set the engine of new tensors on the CPU: "numpy", the default, or "xla", which uses JAX arrays.

    This function is not in TensorFlow. The environment variable GRADTAPE_ENGINE sets the default for a process.
    Existing tensors do not change, and you can combine tensors of both engines.

    >>> import gradtape as tf
    >>> tf.config.set_engine("numpy")
    >>> tf.config.get_engine()
    'numpy'
    """
    _devices.set_engine(name)


def get_engine() -> str:
    """Return the engine of new tensors on the CPU: "numpy" or "xla".

    >>> tf.config.get_engine()
    'numpy'
    """
    return _devices.get_engine()


# -- eager code as graphs --------------------------------------------------------------------------------------------
def set_graph_mode(mode: str) -> None:
    """Set whether eager code is recorded and runs from graphs: "auto", "off", or "accelerators", the default.

    With "auto", ops on tensors created from now on are recorded. They run together when Python needs a value
    (`numpy()`, `float`, `print`, `if`) or when a training step ends; a sequence that was recorded before runs as one
    program. "accelerators" does this only on GPUs and TPUs. What this thread has recorded runs when the mode changes.
    This function is not in TensorFlow. The environment variable GRADTAPE_LAZY sets "auto" (1) or "off" (0) for a
    process.

    >>> import gradtape as tf
    >>> tf.config.set_graph_mode("auto")
    >>> x = tf.constant([1.0, 2.0])
    >>> y = tf.exp(x) * 0.0 + x  # recorded
    >>> y.numpy()  # computed
    array([1., 2.], dtype=float32)
    >>> tf.config.set_graph_mode("accelerators")
    """
    _devices.set_graph_mode(mode)
    end_step("the graph mode changes", least=1)


def get_graph_mode() -> str:
    """Return where eager code is recorded and runs from graphs: "auto", "off" or "accelerators".

    >>> import gradtape as tf
    >>> tf.config.get_graph_mode()
    'accelerators'
    """
    return _devices.get_graph_mode()


def graph_mode_report() -> GraphModeReport:
    """Report the programs recorded from eager code: where they were cut, how often they ran, why they were compiled.

    Print the report, or look at its `programs`. This function is not in TensorFlow.

    >>> import gradtape as tf
    >>> tf.config.set_graph_mode("auto")
    >>> for _ in range(3):
    ...     loss = float(tf.reduce_sum(tf.square(tf.constant([1.0, 2.0]))))
    >>> tf.config.graph_mode_report().programs[-1].runs
    3
    >>> tf.config.set_graph_mode("accelerators")
    """
    return report()


# -- devices ---------------------------------------------------------------------------------------------------------
def set_compilation_cache(folder: str | None) -> None:
    """Store compiled programs in this directory, so that the next run of a script does not compile them again.

    By default, programs are stored in the user's cache directory (`~/.cache/gradtape` on Linux, at most 1 GB); the
    environment variable GRADTAPE_CACHE names another directory, or is "off". None keeps programs in memory only.

    >>> import gradtape as tf
    >>> tf.config.set_compilation_cache(None)
    """
    configure()
    import jax

    store_in(folder, jax.config, min_seconds=0.0)


def set_compiler_options(options: dict[str, Any] | None) -> None:
    """Pass options to XLA for every program that is compiled from now on, by their names in XLA.

    None removes them. This function is not in TensorFlow; the environment variable XLA_FLAGS sets options for a
    process.

    >>> import gradtape as tf
    >>> tf.config.set_compiler_options({"xla_cpu_enable_fast_math": False})
    >>> tf.function(lambda x: x * 2.0)(tf.constant(3.0)).numpy()
    np.float32(6.0)
    >>> tf.config.set_compiler_options(None)
    """
    from gradtape._src.graph.options import compiler_options

    compiler_options.clear()
    compiler_options.update(options or {})


def list_physical_devices(device_type: str | None = None) -> list[Any]:
    """List the devices of this machine that ops can run on: the CPU and, if JAX is installed, the devices it finds.

    Listing only CPUs does not import JAX.

    >>> tf.config.list_physical_devices("CPU")
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """
    found = [_CPU] if device_type in (None, "CPU") else []
    for kind in ("GPU", "TPU"):
        if device_type in (None, kind):
            found += [PhysicalDevice(f"/physical_device:{kind}:{i}", kind) for i in range(len(jax_devices(kind)))]
    return found


def list_logical_devices(device_type: str | None = None) -> list[Any]:
    """List the devices under the names that ops use.

    >>> tf.config.list_logical_devices("CPU")
    [LogicalDevice(name='/device:CPU:0', device_type='CPU')]
    """
    found = _devices.logical_devices(device_type)
    return [LogicalDevice(f"/device:{device.kind}:{device.number}", device.kind) for device in found]


def get_visible_devices(device_type: str | None = None) -> list[Any]:
    """Return the devices that are used.

    >>> [d.device_type for d in tf.config.get_visible_devices("CPU")]
    ['CPU']
    """
    return [device for device in list_physical_devices(device_type) if device.name not in _devices.hidden()]


def set_visible_devices(devices: Any, device_type: str | None = None) -> None:
    """Set the devices to use; the CPU cannot be excluded.

    >>> tf.config.set_visible_devices([], "GPU")
    """
    one = isinstance(devices, PhysicalDevice) or not isinstance(devices, (list, tuple))
    visible = [devices] if one else list(devices)
    for device in visible:
        _check(device)
        if device_type is not None and device.device_type != device_type:
            raise ValueError(f"Unrecognized device: {device!r}. It is not of the type {device_type!r}.")
    if _CPU not in visible and device_type in (None, "CPU") and (device_type == "CPU" or not visible):
        raise ValueError("The CPU cannot be made invisible: eager computation on NumPy runs on it.")
    others = list_physical_devices(device_type) if device_type != "CPU" else []
    _devices.hide({d.name for d in others if d not in visible and d != _CPU}, device_type)


def get_soft_device_placement() -> bool:
    """Return whether ops that name a nonexistent device run on the CPU.

    >>> tf.config.get_soft_device_placement()
    True
    """
    return _devices.soft_placement()


def set_soft_device_placement(enabled: bool) -> None:
    """Set whether ops that name a nonexistent device run on the CPU or raise an error.

    >>> before = tf.config.get_soft_device_placement()
    >>> tf.config.set_soft_device_placement(True)
    >>> with tf.device("/GPU:7"):
    ...     x = tf.constant(1.0)
    >>> tf.config.set_soft_device_placement(before)
    """
    _devices.set_soft_placement(enabled)


def get_logical_device_configuration(device: Any) -> Any:
    """Return how a device is divided into logical devices; None if it is not divided.

    >>> cpu, *_ = tf.config.list_physical_devices("CPU")
    >>> tf.config.get_logical_device_configuration(cpu) is None
    True
    """
    _check(device)
    count = _devices.cpu_count() if device == _CPU else None
    return None if count is None else [LogicalDeviceConfiguration()] * count


def set_logical_device_configuration(device: Any, logical_devices: Any) -> None:
    """Divide the CPU into several logical devices, for tests; call it before JAX is used.

    JAX exposes every GPU as one device. The environment variable XLA_PYTHON_CLIENT_MEM_FRACTION limits its memory.

    >>> cpu, *_ = tf.config.list_physical_devices("CPU")
    >>> parts = [tf.config.LogicalDeviceConfiguration()] * 2
    >>> callable(tf.config.set_logical_device_configuration)
    True
    """
    _check(device)
    configurations = list(logical_devices)
    if device != _CPU:
        if len(configurations) == 1 and configurations[0].memory_limit is None:
            return
        raise ValueError(
            f"{device.name} cannot be divided or limited: JAX exposes every GPU as one device. The environment "
            "variable XLA_PYTHON_CLIENT_MEM_FRACTION limits its memory."
        )
    if any(each.memory_limit is not None for each in configurations):
        raise ValueError("Setting memory limit on CPU virtual devices is currently not supported")
    _devices.split_cpu(len(configurations))


def get_memory_growth(device: Any) -> bool:
    """Return whether memory is allocated as needed: always, unless XLA_PYTHON_CLIENT_PREALLOCATE is set.

    >>> cpu, *_ = tf.config.list_physical_devices("CPU")
    >>> tf.config.experimental.get_memory_growth(cpu)
    True
    """
    return _grows(device)


def _grows(device: Any) -> bool:
    _check(device)
    return device == _CPU or os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE", "false").lower() in ("false", "0")


def set_memory_growth(device: Any, enable: bool) -> None:
    """Allocate memory as needed, which is always the case.

    >>> for gpu in tf.config.list_physical_devices("GPU"):
    ...     tf.config.experimental.set_memory_growth(gpu, True)
    """
    if bool(enable) == _grows(device):
        return
    raise ValueError(
        f"set_memory_growth({device.name!r}, {enable}) is not possible: CPU memory is always allocated as needed, "
        "and GPU memory too unless the environment variable XLA_PYTHON_CLIENT_PREALLOCATE is 'true' when JAX "
        "starts."
    )


def get_memory_info(device: str) -> dict[str, int]:
    """Return the bytes used by arrays on a GPU, now and at the peak: {"current": ..., "peak": ...}.

    >>> tf.config.experimental.get_memory_info("CPU:0")
    Traceback (most recent call last):
        ...
    ValueError: Memory use is not available for 'CPU:0', only for an accelerator, such as 'GPU:0'.
    """
    parsed = _devices.parse(device)
    stats = None if parsed is None or parsed.kind == "CPU" else _devices.jax_device(parsed).memory_stats()
    if stats is None:
        raise ValueError(f"Memory use is not available for {device!r}, only for an accelerator, such as 'GPU:0'.")
    return {"current": int(stats["bytes_in_use"]), "peak": int(stats["peak_bytes_in_use"])}


def get_device_details(device: Any) -> dict[str, Any]:
    """Return details of a physical device: for a GPU its name and, for NVIDIA GPUs, the compute capability.

    >>> cpu, *_ = tf.config.list_physical_devices("CPU")
    >>> tf.config.experimental.get_device_details(cpu)
    {}
    """
    _check(device)
    if device == _CPU:
        return {}
    found = jax_devices(device.device_type)[int(device.name.rsplit(":", 1)[1])]
    details: dict[str, Any] = {"device_name": found.device_kind}
    capability = getattr(found, "compute_capability", None)
    if capability:
        details["compute_capability"] = tuple(int(n) for n in str(capability).split("."))
    return details


def get_device_policy() -> str:
    """Return what happens when an op gets tensors on two devices.

    >>> tf.config.experimental.get_device_policy()
    'silent'
    """
    return _devices.policy()


def set_device_policy(device_policy: str | None) -> None:
    """Set what happens when an op gets tensors on two devices.

    "silent", the default, copies tensors to the accelerator. "warn" also warns. "explicit" raises an error; so does
    "silent_for_int32", except for int32 tensors. None restores the default.

    >>> tf.config.experimental.set_device_policy(tf.config.experimental.get_device_policy())
    """
    _devices.set_policy(device_policy)


def _check(device: Any) -> None:
    there = [_CPU]
    if device not in there and getattr(device, "device_type", None) in ("GPU", "TPU"):
        there += list_physical_devices(device.device_type)
    if device not in there:
        raise ValueError(f"Unrecognized device: {device!r}. This machine has {list_physical_devices()}.")


# -- functions ---------------------------------------------------------------------------------------------------------
optimizer = ModuleType("gradtape.config.optimizer", "How functions are optimised, and what runs them.")
_options: dict[str, Any] = {}


def _get_experimental_options() -> dict[str, Any]:
    """The options that were set. They are stored for programs that read them; XLA's own passes are used."""
    return dict(_options)


def _set_experimental_options(options: dict[str, Any]) -> None:
    """Store options of TensorFlow's graph optimizer, which gradtape does not have."""
    _options.update(options)


for _name, _function in {
    "get_experimental_options": _get_experimental_options,
    "set_experimental_options": _set_experimental_options,
    "get_jit": get_jit,
    "set_jit": set_jit,
}.items():
    _function.__name__ = _function.__qualname__ = _name
    setattr(optimizer, _name, _function)


# -- threads ---------------------------------------------------------------------------------------------------------
_threads = {"inter_op": 0, "intra_op": 0}


def _threads_of(which: str) -> tuple[Any, Any]:
    def get() -> int:
        """Return the value that was set last; 0 leaves the choice to the underlying library.

        >>> tf.config.threading.get_intra_op_parallelism_threads()
        0
        """
        return _threads[which]

    def set_(num_threads: int) -> None:
        """Set a number of threads.

        Ops on large NumPy arrays use at most the number set with `set_intra_op_parallelism_threads`. BLAS and XLA have
        their own settings (`OMP_NUM_THREADS`); the number of `inter_op` threads has no effect.

        >>> tf.config.threading.set_intra_op_parallelism_threads(0)
        """
        _threads[which] = int(num_threads)
        if which == "intra_op":
            set_limit(_threads[which])

    return get, set_


threading = ModuleType("gradtape.config.threading", "How many threads ops may use.")
for _which in _threads:
    for _verb, _function in zip(("get", "set"), _threads_of(_which), strict=True):
        _function.__name__ = _function.__qualname__ = f"{_verb}_{_which}_parallelism_threads"
        setattr(threading, _function.__name__, _function)


# -- switches of TensorFlow's runtime --------------------------------------------------------------------------------
_switches = {"synchronous": True, "tensor_float_32": True}


def get_synchronous_execution() -> bool:
    """Return whether ops wait for their results; the results are the same.

    >>> tf.config.experimental.get_synchronous_execution()
    True
    """
    return _switches["synchronous"]


def set_synchronous_execution(enable: bool | None) -> None:
    """Do nothing: ops are finished when they return.

    >>> tf.config.experimental.set_synchronous_execution(True)
    """
    _switches["synchronous"] = enable is not False


def tensor_float_32_execution_enabled() -> bool:
    """Return whether GPUs may multiply float32 matrices with fewer bits.

    >>> tf.config.experimental.tensor_float_32_execution_enabled()
    True
    """
    return _switches["tensor_float_32"]


def enable_tensor_float_32_execution(enabled: bool) -> None:
    """Set whether GPUs may multiply float32 matrices with fewer bits.

    >>> tf.config.experimental.enable_tensor_float_32_execution(False)
    >>> tf.config.experimental.tensor_float_32_execution_enabled()
    False
    >>> tf.config.experimental.enable_tensor_float_32_execution(True)
    """
    _switches["tensor_float_32"] = bool(enabled)
    if _devices.has_jax():
        import jax

        jax.config.update("jax_default_matmul_precision", None if enabled else "highest")


def get_memory_usage(device: str) -> int:
    """Return the memory in use on a GPU, in bytes.

    >>> tf.config.experimental.get_memory_usage("CPU:0")
    Traceback (most recent call last):
        ...
    ValueError: Memory use is not available for 'CPU:0', only for an accelerator, such as 'GPU:0'.
    """
    return int(get_memory_info(device)["current"])


def reset_memory_stats(device: str) -> None:
    """Do nothing: JAX cannot reset the peak memory.

    >>> tf.config.experimental.reset_memory_stats("CPU:0")
    """


def enable_mlir_bridge() -> None:
    """Do nothing; accepted for compatibility.

    >>> tf.config.experimental.enable_mlir_bridge()
    """


def disable_mlir_bridge() -> None:
    """Do nothing; accepted for compatibility.

    >>> tf.config.experimental.disable_mlir_bridge()
    """


# -- under their old names -------------------------------------------------------------------------------------------
experimental_run_functions_eagerly, experimental_functions_run_eagerly = run_functions_eagerly, functions_run_eagerly
experimental = ModuleType("gradtape.config.experimental", "What has moved up since, and what has not yet.")
for _space in (experimental, optimizer, threading):
    _space.__dict__["__getattr__"] = of_public(_space.__name__)
for _name in ("list_physical_devices", "list_logical_devices", "get_visible_devices", "set_visible_devices"):
    setattr(experimental, _name, globals()[_name])
for _old, _new in {
    "VirtualDeviceConfiguration": LogicalDeviceConfiguration,
    "get_virtual_device_configuration": get_logical_device_configuration,
    "set_virtual_device_configuration": set_logical_device_configuration,
}.items():
    setattr(experimental, _old, _new)
for _name in (
    "disable_mlir_bridge",
    "enable_mlir_bridge",
    "enable_tensor_float_32_execution",
    "get_device_details",
    "get_device_policy",
    "get_memory_growth",
    "get_memory_info",
    "get_memory_usage",
    "get_synchronous_execution",
    "reset_memory_stats",
    "set_device_policy",
    "set_memory_growth",
    "set_synchronous_execution",
    "tensor_float_32_execution_enabled",
):
    setattr(experimental, _name, globals()[_name])
setattr(experimental, "enable_op_determinism", enable_op_determinism)  # noqa: B010 - modules have no such attribute


def experimental_connect_to_cluster(
    cluster_spec_or_resolver: Any,
    job_name: str = "localhost",
    task_index: int = 0,
    protocol: str | None = None,
    make_master_device_default: bool = True,
    cluster_device_filters: Any = None,
) -> None:
    """Do nothing for a cluster of this process alone; raise RuntimeError for one with other servers.

    Args:
      cluster_spec_or_resolver: A `ClusterSpec`, or a resolver that has one.
      job_name: No effect.
      task_index: No effect.
      protocol: No effect.
      make_master_device_default: No effect.
      cluster_device_filters: No effect.

    >>> tf.config.experimental_connect_to_cluster(tf.train.ClusterSpec({}))
    """
    given = cluster_spec_or_resolver
    spec = given if not hasattr(given, "cluster_spec") else given.cluster_spec()
    tasks = sum(spec.num_tasks(job) for job in spec.jobs) if spec is not None else 0
    if tasks > 1:
        raise RuntimeError(
            f"The cluster has {tasks} tasks, but gradtape has no servers to connect to: every process runs the "
            "program. Start them with `gradtape launch`, and use a MultiWorkerMirroredStrategy."
        )


def experimental_connect_to_host(remote_host: str | None = None, job_name: str = "worker") -> None:
    """Raise RuntimeError: there are no servers to connect to.

    Args:
      remote_host: Where a server would be.
      job_name: What it would be called.

    >>> tf.config.experimental_connect_to_host("localhost:1234")
    Traceback (most recent call last):
        ...
    RuntimeError: gradtape has no servers to connect to: every process runs the program. Start several of them with...
    """
    if remote_host is None:
        raise ValueError("Must provide at least one remote_host")
    raise RuntimeError(
        "gradtape has no servers to connect to: every process runs the program. Start several of them with "
        "`gradtape launch`, and use a MultiWorkerMirroredStrategy."
    )


__all__ = [
    "LogicalDevice",
    "LogicalDeviceConfiguration",
    "PhysicalDevice",
    "experimental",
    "experimental_connect_to_cluster",
    "experimental_connect_to_host",
    "experimental_functions_run_eagerly",
    "experimental_run_functions_eagerly",
    "functions_run_eagerly",
    "get_engine",
    "get_graph_mode",
    "get_logical_device_configuration",
    "get_none_policy",
    "get_soft_device_placement",
    "get_visible_devices",
    "graph_mode_report",
    "list_logical_devices",
    "list_physical_devices",
    "optimizer",
    "run_functions_eagerly",
    "set_compilation_cache",
    "set_compiler_options",
    "set_engine",
    "set_graph_mode",
    "set_logical_device_configuration",
    "set_none_policy",
    "set_soft_device_placement",
    "set_visible_devices",
    "threading",
]
