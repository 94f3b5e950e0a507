"""`MultiWorkerMirroredStrategy`: replicas in several processes, which communicate through `jax.distributed`.

Every process runs the same program. A reduction is first computed over the replicas of this process, and then over
processes: by NCCL between GPUs, by Gloo between CPUs. It happens when it is called, so a `tf.function` that reduces
over processes runs eagerly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src import nest, processes
from gradtape._src.arrays.symbolic import current_graph, only_eager
from gradtape._src.conversion import convert, wrap
from gradtape._src.devices import Device, logical_devices
from gradtape._src.distribute import reduction
from gradtape._src.distribute.cluster_resolver import ClusterResolver, TFConfigClusterResolver
from gradtape._src.distribute.input import InputContext
from gradtape._src.distribute.reduction import ReduceOp
from gradtape._src.distribute.strategy import MirroredExtended, Strategy
from gradtape._src.distribute.values import PerReplica, UnevenPerReplica
from gradtape._src.graph.lanes import Layout
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.tensor import Tensor


class WorkersExtended(MirroredExtended):
    """The replicas of this process, among those of others."""

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
                if isinstance(leaf, UnevenPerReplica):  # every process knows this, and does the same
                    raise only_eager(
                        ValueError(
                            "Replicas in several processes with different numbers of rows cannot be compiled into "
                            "one program. `batch(..., drop_remainder=True)` drops such a batch."
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
        return reduction.divided(summed, int(_of_all_workers(convert(np.int64(rows))).sum()))

    def reduced(self, op: ReduceOp, value: Any) -> Any:
        return super().reduced(op, self._as_part(value))

    def gathered(self, value: Any, axis: int) -> Any:
        value = self._as_part(value)
        local = super().gathered(value, axis)
        if self._workers == 1 or not isinstance(value, PerReplica) or current_graph() is not None:
            return local
        return self._joined(local, axis)

    def _as_part(self, value: Any) -> Any:
        """Treat the result of the only replica of this process as its part of the results of all processes."""
        alone = self.local_replicas == 1 and self._workers > 1
        return PerReplica([value]) if alone and isinstance(value, (Tensor, IndexedSlices)) else value

    def _joined(self, part: Tensor, axis: int) -> Tensor:
        """Concatenate the parts of all processes along an axis, along which sizes may differ."""
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
        """The initial value of the first process, which all copies of a variable start with."""
        if self._workers == 1:
            return value
        first = _of_all_workers(wrap(np.asarray(value)))[0]
        return np.asarray(first)


def _of_all_workers(tensor: Tensor) -> np.ndarray:
    """Stack the tensors of all processes along a new first axis."""
    if current_graph() is not None:
        raise only_eager(RuntimeError("A reduction over several processes runs when it is called."))
    if not (tensor.dtype.is_numeric or tensor.dtype.is_bool):
        raise TypeError(
            f"Value passed to parameter 'input' has DataType {tensor.dtype.name} not in list of allowed values: "
            "processes exchange numbers. Gather indices of a vocabulary that all of them have, or use files."
        )
    from jax.experimental import multihost_utils

    found = processes.together(lambda: multihost_utils.process_allgather(np.asarray(tensor.array), tiled=False))
    return np.asarray(found)


class MultiWorkerMirroredStrategy(Strategy):
    """`MirroredStrategy` over the devices of several processes, which TF_CONFIG names.

    `gradtape launch --nproc 4 train.py` starts the processes on one machine. With one process, or without TF_CONFIG,
    this is a MirroredStrategy. Every process runs the same program, and must create the strategy before its first
    tensor.

    >>> import gradtape as tf
    >>> tf.distribute.MultiWorkerMirroredStrategy().num_replicas_in_sync >= 1
    True
    """

    def __init__(self, cluster_resolver: ClusterResolver | None = None, communication_options: Any = None) -> None:
        self._resolver = cluster_resolver or TFConfigClusterResolver()
        addresses, worker = _workers_of(self._resolver)
        if len(addresses) > 1:
            processes.connect(addresses, worker)
        devices = logical_devices("GPU") or logical_devices("CPU")
        super().__init__(WorkersExtended(devices, max(1, len(addresses)), worker))

    @property
    def cluster_resolver(self) -> ClusterResolver:
        return self._resolver


def _workers_of(resolver: ClusterResolver) -> tuple[list[str], int]:
    """The addresses of the workers, chief first, and the index of this process."""
    spec = resolver.cluster_spec()
    tasks = [(job, i) for job in ("chief", "worker") if job in spec.jobs for i in spec.task_indices(job)]
    if not tasks:
        return [], 0
    mine = (resolver.task_type, resolver.task_id)
    if mine not in tasks:
        wrong = f"`task_type` {resolver.task_type!r} not found in cluster_spec."
        if resolver.task_type in ("chief", "worker") and resolver.task_type in spec.jobs:
            wrong = f"The `task_id` {resolver.task_id} exceeds the maximum id of {resolver.task_type}."
        raise ValueError(
            f"{wrong} A MultiWorkerMirroredStrategy runs in the tasks {tasks} of the cluster: TF_CONFIG must name "
            "one of them under 'task'."
        )
    return [spec.task_address(job, i) for job, i in tasks], tasks.index(mine)
