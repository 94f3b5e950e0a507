"""Strategies with variables in one place: `CentralStorageStrategy`, and parameter servers, which are unsupported."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from gradtape._src import errors
from gradtape._src.devices import CPU, Device, logical_devices
from gradtape._src.distribute.strategy import MirroredExtended, Strategy, device_of, devices_of

__all__ = ["ClusterCoordinator", "PerWorkerValue", "RemoteValue", "experimental_get_current_worker_index"]


class CentralExtended(MirroredExtended):
    """Replicas on several devices, and variables on one."""

    def __init__(self, devices: Sequence[Device], place: Device) -> None:
        super().__init__(devices)
        self._place = place

    @property
    def parameter_places(self) -> tuple[Device, ...]:
        return (self._place,)


class CentralStorageStrategy(Strategy):
    """Replicas on several devices of one machine that share one copy of every variable on `parameter_device`.

    Assignments in replicas are aggregated before they are applied.

    >>> import gradtape as tf
    >>> strategy = tf.distribute.experimental.CentralStorageStrategy(["/CPU:0"], "/CPU:0")
    >>> with strategy.scope():
    ...     v = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    >>> _ = strategy.run(lambda: v.assign_add(tf.constant(2.0)))
    >>> float(v)
    3.0
    """

    def __init__(self, compute_devices: Any = None, parameter_device: Any = None) -> None:
        devices = devices_of(compute_devices) if compute_devices else logical_devices("GPU") or [CPU]
        alone = devices[0] if len(devices) == 1 else CPU
        super().__init__(CentralExtended(devices, device_of(parameter_device) if parameter_device else alone))


def _refuse(name: str) -> NoReturn:
    raise errors.UnimplementedError(
        None,
        None,
        f"{name}: gradtape has no parameter servers, because XLA programs cannot express workers that update "
        "variables at different times. Use tf.distribute.MultiWorkerMirroredStrategy, which trains synchronously "
        "on the same cluster; for variables that are too large for one device use "
        "tf.keras.distribution.ModelParallel or tf.experimental.dtensor.",
    )


class ParameterServerStrategy(Strategy):
    """Not supported, because it is asynchronous; the constructor raises an error that says what to use instead.

    >>> spec = tf.train.ClusterSpec({"ps": ["host:2222"], "worker": ["host:2223"]})
    >>> tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.SimpleClusterResolver(spec))
    Traceback (most recent call last):
        ...
    gradtape.errors.UnimplementedError: ParameterServerStrategy: gradtape has no parameter servers,...
    """

    def __init__(self, cluster_resolver: Any, variable_partitioner: Any = None) -> None:
        _refuse("ParameterServerStrategy")


class ClusterCoordinator:
    """Not supported, like `ParameterServerStrategy`, whose steps it schedules; the constructor raises an error."""

    def __init__(self, strategy: Any) -> None:
        _refuse("ClusterCoordinator")


class RemoteValue:
    """The class of what `ClusterCoordinator.schedule` would return."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("RemoteValue")


class PerWorkerValue:
    """The class of what `ClusterCoordinator.create_per_worker_dataset` would return."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse("PerWorkerValue")


def experimental_get_current_worker_index() -> NoReturn:
    """Raise an error: there is no coordinator that schedules code on workers."""
    raise RuntimeError(
        "Cannot retrieve the worker index. `get_worker_idx_and_num_workers` should be called from within a tf.function "
        "being executed on a worker. gradtape has no coordinator."
    )
