"""`MultiWorkerMirroredStrategy`: replicas in several processes, which communicate through `jax.distributed`.

Every process runs the same program. A reduction is one over the replicas of this process, and then one over processes:
by NCCL between GPUs, by Gloo between CPUs. It takes place when it is called, so a `tf.function` that reduces over
processes runs its code eagerly.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.symbolic import current_graph, only_eager
from gradtape._src.conversion import convert, wrap
from gradtape._src.devices import Device, has_jax, logical_devices
from gradtape._src.distribute import coordinator, reduction
from gradtape._src.distribute.cluster_resolver import ClusterResolver, TFConfigClusterResolver
from gradtape._src.distribute.input import InputContext
from gradtape._src.distribute.reduction import ReduceOp
from gradtape._src.distribute.strategy import MirroredExtended, Strategy
from gradtape._src.distribute.values import PerReplica, UnevenPerReplica
from gradtape._src.graph.lanes import Layout, unavailable
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.jax_setup import configure
from gradtape._src.tensor import Tensor

HEARTBEAT = 10
"""Seconds after which a process that has not been heard of is lost."""

_PATIENCE = 300
"""Seconds in which all processes have to start."""

_PORT = "gradtape/coordinator"
"""The key of the service under which its port for connections is."""

_held: list[Any] = []
"""The connection to the process of the service, and the process, if this one has started it."""


class WorkersExtended(MirroredExtended):
    """Replicas of this process among those of others."""

    def __init__(self, devices: Sequence[Device], workers: int, worker: int) -> None:
        super().__init__(devices)
        self._workers, self._worker = workers, worker

    @property
    def num_replicas(self) -> int:
        return self._workers * self.local_replicas

    @property
    def first_replica(self) -> int:
        return self._worker * self.local_replicas

    def input_context(self) -> InputContext:
        return InputContext(self._workers, self._worker, self.num_replicas)

    @property
    def layout(self) -> Layout:
        return Layout(self.devices, self._workers, self._worker)

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        if current_graph() is not None:
            for leaf in nest.flatten((args, kwargs)):
                if isinstance(leaf, UnevenPerReplica):  # every process knows that it is, and does the same
                    raise only_eager(
                        ValueError(
                            "Replicas in several processes that get different numbers of rows cannot be one program. "
                            "`batch(..., drop_remainder=True)` leaves such a batch out."
                        )
                    )
        return super().run(fn, args, kwargs)

    def across(self, op: ReduceOp, parts: Sequence[Any], axis: Any) -> Any:
        if self._workers == 1 or current_graph() is not None:
            return super().across(op, parts, axis)
        total = super().across(ReduceOp.SUM, parts, axis)
        if isinstance(total, IndexedSlices):
            values, indices = self._joined(convert(total.values), 0), self._joined(convert(total.indices), 0)
            values = values / self.num_replicas if op is ReduceOp.MEAN else values
            return IndexedSlices(values, indices, total.dense_shape)
        gathered = _of_all_workers(total)
        summed = convert(gathered.sum(axis=0).astype(gathered.dtype))
        if op is ReduceOp.SUM:
            return summed
        if axis is None:
            return summed / self.num_replicas
        rows = sum(reduction.rows_of(convert(part), axis) for part in parts)
        return summed / float(_of_all_workers(convert(np.int64(rows))).sum())

    def reduced(self, op: ReduceOp, value: Any) -> Any:
        return super().reduced(op, self._as_part(value))

    def gathered(self, value: Any, axis: int) -> Any:
        value = self._as_part(value)
        local = super().gathered(value, axis)
        if self._workers == 1 or not isinstance(value, PerReplica) or current_graph() is not None:
            return local
        return self._joined(local, axis)

    def _as_part(self, value: Any) -> Any:
        """What the only replica of this process returned is a part of what all processes have."""
        alone = self.local_replicas == 1 and self._workers > 1
        return PerReplica([value]) if alone and isinstance(value, (Tensor, IndexedSlices)) else value

    def _joined(self, part: Tensor, axis: int) -> Tensor:
        """The parts of all processes along an axis, on which their sizes may differ."""
        axis = axis % part.ndim
        sizes = _of_all_workers(convert(np.int64(part.array.shape[axis])))
        padding = [(0, int(sizes.max()) - part.array.shape[axis] if i == axis else 0) for i in range(part.ndim)]
        padded = _of_all_workers(wrap(np.pad(np.asarray(part.array), padding)))
        pieces = [np.take(whole, range(int(size)), axis) for whole, size in zip(padded, sizes, strict=True)]
        return wrap(np.concatenate(pieces, axis))

    def all_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        if self._workers == 1:
            return tuple(sizes)
        if current_graph() is not None:  # replicas of one program have the same shapes
            return tuple(sizes) * self._workers
        return tuple(int(n) for n in _of_all_workers(convert(np.array(sizes, np.int64))).flat)

    def initial_value(self, value: Any) -> Any:
        """The value that the first process has: every copy of a variable begins with that."""
        if self._workers == 1:
            return value
        first = _of_all_workers(wrap(np.asarray(value)))[0]
        return np.asarray(first)


def _of_all_workers(tensor: Tensor) -> np.ndarray:
    """The tensors of all processes, along a new first axis."""
    if current_graph() is not None:
        raise only_eager(RuntimeError("A reduction over several processes takes place when it is called."))
    from jax.experimental import multihost_utils

    try:
        return np.asarray(multihost_utils.process_allgather(np.asarray(tensor.array), tiled=False))
    except Exception as error:
        raise unavailable(error) from error


class MultiWorkerMirroredStrategy(Strategy):
    """`MirroredStrategy` over the devices of several processes, which TF_CONFIG names.

    `gradtape launch --nproc 4 train.py` starts the processes of one machine. With one process, or without TF_CONFIG, it
    is a MirroredStrategy. Every process runs the same program, and creates this strategy before its first tensor.

    >>> import gradtape as tf
    >>> tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync >= 1
    True
    """

    def __init__(self, cluster_resolver: ClusterResolver | None = None, communication_options: Any = None) -> None:
        self._resolver = cluster_resolver or TFConfigClusterResolver()
        addresses, worker = _workers_of(self._resolver)
        if len(addresses) > 1:
            _connect(addresses, worker)
        devices = logical_devices("GPU") or logical_devices("CPU")
        super().__init__(WorkersExtended(devices, max(1, len(addresses)), worker))

    @property
    def cluster_resolver(self) -> ClusterResolver:
        return self._resolver


def _workers_of(resolver: ClusterResolver) -> tuple[list[str], int]:
    """The addresses of the processes that train, the chief first, and which one this is."""
    spec = resolver.cluster_spec()
    tasks = [(job, i) for job in ("chief", "worker") if job in spec.jobs for i in spec.task_indices(job)]
    if not tasks:
        return [], 0
    mine = (resolver.task_type, resolver.task_id)
    if mine not in tasks:
        raise ValueError(
            f"Unexpected task_type {resolver.task_type!r} with index {resolver.task_id!r}: a "
            f"MultiWorkerMirroredStrategy runs in the tasks {tasks} of the cluster. TF_CONFIG has to name one of them "
            "under 'task'."
        )
    return [spec.task_address(job, i) for job, i in tasks], tasks.index(mine)


def _connect(addresses: Sequence[str], worker: int) -> None:
    if not has_jax():
        raise ImportError("Several processes need JAX, which is not installed: pip install 'gradtape[xla]'.")
    configure()
    import jax

    if jax.distributed.is_initialized():
        return
    settings: Any = jax.config
    settings.update("jax_cpu_collectives_implementation", "gloo")
    try:
        _join(addresses, worker)
    except RuntimeError as error:
        raise RuntimeError(
            "Collective ops must be configured at program startup. Create the MultiWorkerMirroredStrategy before the "
            f"first tensor that JAX computes. JAX says: {error}"
        ) from None


def _join(addresses: Sequence[str], worker: int) -> None:
    """What `jax.distributed.initialize` does, with the service in a process of its own: see `coordinator.py`."""
    import jax
    from jax._src import distributed, xla_bridge
    from jaxlib import _jax

    if xla_bridge.backends_are_initialized():
        raise RuntimeError("it has computed something.")
    state: Any = distributed.global_state
    try:
        client = _jax.get_distributed_runtime_client(
            addresses[0],
            worker,
            init_timeout=_PATIENCE,
            use_compression=True,
            heartbeat_timeout=HEARTBEAT,
            shutdown_timeout=HEARTBEAT,
        )
        fields = (state.client, state.coordinator_address, state.num_processes, state.process_id)
        assert fields[0] is None
    except (AttributeError, TypeError):  # another version of JAX
        jax.distributed.initialize(addresses[0], len(addresses), worker, heartbeat_timeout_seconds=HEARTBEAT)
        return
    port = _start_service(addresses) if worker == 0 else ""
    client.connect()
    state.client, state.coordinator_address = client, addresses[0]
    state.num_processes, state.process_id = len(addresses), worker
    if worker == 0:
        client.key_value_set(_PORT, port)
    with suppress(OSError):  # then the service ends with the first process
        where = (addresses[0].rsplit(":", 1)[0], int(client.blocking_key_value_get(_PORT, 1000 * HEARTBEAT)))
        _held.append(socket.create_connection(where, HEARTBEAT))


def _start_service(addresses: Sequence[str]) -> str:
    """Start the process of the service; the port that processes hold a connection to."""
    port = addresses[0].rsplit(":", 1)[1]
    arguments = [coordinator.__file__, f"[::]:{port}", str(len(addresses)), str(HEARTBEAT)]
    service = subprocess.Popen(
        [sys.executable, *arguments],
        stdin=subprocess.PIPE,  # which the system closes when this process ends
        stdout=subprocess.PIPE,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        text=True,
        start_new_session=True,  # an interrupt of the terminal is not for it
    )
    assert service.stdout is not None
    found = service.stdout.readline().strip()
    if not found:
        raise RuntimeError(f"its coordination service does not start on port {port}.")
    _held.append(service)
    return found


# -- what processes tell one another ---------------------------------------------------------------------------------
def client() -> Any:
    """The connection to the service that all processes share; None in a process that is alone."""
    if "jax" not in sys.modules:
        return None
    from jax._src import distributed

    return distributed.global_state.client


def number() -> int:
    """The number of this process."""
    if client() is None:
        return 0
    import jax

    return int(jax.process_index())


def publish(key: str, value: str) -> None:
    """Let all processes read a value; the first one that is published stays."""
    with suppress(Exception):  # there is one
        client().key_value_set(key, value)


def published(key: str) -> str | None:
    """A value that a process has published."""
    try:
        return str(client().key_value_try_get(key))
    except Exception:  # there is none
        return None


def wait_for_all(name: str) -> None:
    """Until all processes are here."""
    if client() is not None:
        client().wait_at_barrier(name.replace("/", "_"), 1000 * _PATIENCE)
