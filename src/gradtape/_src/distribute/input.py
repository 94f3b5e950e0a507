"""Datasets whose batches are divided among replicas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import islice, zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.conversion import convert, wrap
from gradtape._src.data.core import INFINITE, FileShard, Pipeline, Run
from gradtape._src.data.dataset import Dataset
from gradtape._src.data.experimental import AutoShardPolicy
from gradtape._src.data.iterator import Optional, OwnedIterator, next_of, refuse_tracing
from gradtape._src.distribute.values import PerReplica, PerReplicaSpec, UnevenPerReplica
from gradtape._src.ops.ragged.tensor import RaggedTensor
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.distribute.strategy import Strategy


class InputReplicationMode(Enum):
    """How often the function of `distribute_datasets_from_function` is called.

    >>> tf.distribute.InputReplicationMode.PER_WORKER.name
    'PER_WORKER'
    """

    PER_WORKER = "PER_WORKER"
    PER_REPLICA = "PER_REPLICA"


@dataclass(frozen=True)
class InputOptions:
    """TensorFlow's options for distributed datasets. Elements are computed when they are read.

    >>> import gradtape as tf
    >>> tf.distribute.InputOptions().experimental_fetch_to_device
    True
    """

    experimental_fetch_to_device: bool = True
    experimental_replication_mode: InputReplicationMode = InputReplicationMode.PER_WORKER
    experimental_place_dataset_on_device: bool = False
    experimental_per_replica_buffer_size: int = 1


class InputContext:
    """The argument of a function that creates a dataset: the number of pipelines, and the number of this one.

    >>> import gradtape as tf
    >>> tf.distribute.InputContext(num_replicas_in_sync=4).get_per_replica_batch_size(32)
    8

    >>> context = tf.distribute.InputContext(num_input_pipelines=2, input_pipeline_id=1, num_replicas_in_sync=8)
    >>> context.num_input_pipelines, context.input_pipeline_id, context.num_replicas_in_sync
    (2, 1, 8)
    """

    __slots__ = ("_input_pipeline_id", "_num_input_pipelines", "_num_replicas_in_sync")

    def __init__(self, num_input_pipelines: int = 1, input_pipeline_id: int = 0, num_replicas_in_sync: int = 1) -> None:
        self._num_input_pipelines = num_input_pipelines
        self._input_pipeline_id = input_pipeline_id
        self._num_replicas_in_sync = num_replicas_in_sync

    @property
    def num_input_pipelines(self) -> int:
        """The number of datasets, one for each process."""
        return self._num_input_pipelines

    @property
    def input_pipeline_id(self) -> int:
        """The number of this dataset."""
        return self._input_pipeline_id

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""
        return self._num_replicas_in_sync

    def get_per_replica_batch_size(self, global_batch_size: int) -> int:
        """Return the number of rows per replica in a global batch; raises ValueError unless it divides evenly."""
        if global_batch_size % self._num_replicas_in_sync:
            raise ValueError(
                f"The `global_batch_size` {global_batch_size} is not divisible by `num_replicas_in_sync` "
                f"{self._num_replicas_in_sync} "
            )
        return global_batch_size // self._num_replicas_in_sync

    def __str__(self) -> str:
        return (
            f"tf.distribute.InputContext(input pipeline id {self._input_pipeline_id}, total: "
            f"{self._num_input_pipelines})"
        )


class DistributedIterator:
    """An iterator over a distributed dataset.

    With several replicas, its elements hold a `PerReplica` for every tensor; with one, the tensors themselves.

    >>> strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    >>> dataset = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
    >>> dataset.element_spec
    TensorSpec(shape=(None,), dtype=tf.int64, name=None)
    >>> iterator = iter(dataset)
    >>> iterator.element_spec == dataset.element_spec
    True
    >>> iterator.get_next().numpy().tolist()
    [0, 1]
    >>> bool(iterator.get_next_as_optional().has_value()), bool(iterator.get_next_as_optional().has_value())
    (True, False)
    """

    def __init__(self, dataset: DistributedDataset) -> None:
        refuse_tracing()
        self._dataset, self._batches = dataset, dataset.steps()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        refuse_tracing()
        return next(self._batches)

    def get_next(self) -> Any:
        """Return the next element; raises OutOfRangeError at the end."""
        return next_of(self)

    def get_next_as_optional(self) -> Optional:
        """Return the next element, if there is one."""
        end = object()
        return Optional([element for element in (next(self, end),) if element is not end])

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of the elements."""
        return self._dataset.element_spec


class DistributedDataset:
    """A dataset for several replicas: every element has a part for each replica.

    >>> import gradtape as tf
    >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
    >>> data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
    >>> isinstance(data, tf.distribute.DistributedDataset)
    True
    """

    def __init__(
        self, datasets: Sequence[Dataset], strategy: Strategy, divides: bool, policy: Any = AutoShardPolicy.DATA
    ) -> None:
        self._datasets, self._dataset = tuple(datasets), datasets[0]
        self._strategy, self._divides, self._policy = strategy, divides, policy

    @classmethod
    def dividing(cls, dataset: Dataset, strategy: Strategy, options: Any = None) -> DistributedDataset:
        """Every batch of the dataset is a global one, which is divided among replicas."""
        _require_dataset(dataset)
        specs = [leaf for leaf in nest.flatten(dataset.element_spec, True) if isinstance(leaf, TensorSpec)]
        if any(spec.shape.rank == 0 for spec in specs):
            raise IndexError(
                "list index out of range: the dataset has elements without a batch dimension, which cannot be divided "
                "among replicas. Call dataset.batch(global_batch_size) first."
            )
        return cls([dataset], strategy, True, _policy_for(dataset, strategy.extended.layout.workers))

    @classmethod
    def in_turn(cls, datasets: Sequence[Dataset], strategy: Strategy) -> DistributedDataset:
        """Batches go to one replica after the other; of several datasets, each replica has its own."""
        for dataset in datasets:
            _require_dataset(dataset)
        return cls(datasets, strategy, False)

    def __iter__(self) -> Iterator[Any]:
        return DistributedIterator(self)

    def reduce(self, initial_state: Any, reduce_fn: Callable[[Any, Any], Any]) -> Any:
        """Fold the elements: `reduce_fn(state, element)` returns the next state; the last one is returned.

        >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
        >>> data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(10).batch(4))
        >>> int(data.reduce(np.int64(0), lambda state, x: state + strategy.reduce("SUM", x, axis=0)))
        45
        """
        state = nest.map_structure(convert, initial_state)
        for element in self:
            following = reduce_fn(state, element)
            nest.assert_same_structure(state, following)
            state = nest.map_structure(convert, following)
        return state

    def steps(self) -> Iterator[Any]:
        """The elements for all replicas of this process, one for each step."""
        if not self._divides:
            return self._taken_in_turn()
        return self._divided() if self._policy is AutoShardPolicy.DATA else self._of_worker()

    def _of_worker(self) -> Iterator[Any]:
        """Elements from batches that this worker has read itself, and uses alone: those of its files, or all.

        A batch of the dataset has the rows of one step of all replicas, so it lasts for as many steps as there are
        workers. Workers whose rows end get empty batches until all have ended, because they train in step.
        """
        extended = self._strategy.extended
        count = extended.local_replicas
        layout = extended.layout
        files = FileShard(layout.workers, layout.worker) if self._policy is AutoShardPolicy.FILE else None
        steps = _steps(OwnedIterator(self._dataset._pipeline, files), extended.num_replicas, count)
        empty: Any = None
        while True:
            step = next(steps, None)
            rows = [0] * count if step is None else [_rows(part) for part in step]
            sizes = extended.all_sizes(rows)
            if not any(sizes):
                return
            empty = empty or _empty(self._dataset.element_spec if step is None else step[0])
            parts = [empty] * count if step is None else step
            yield self._per_replica(parts, PerReplica if len(set(sizes)) == 1 else UnevenPerReplica)

    def _divided(self) -> Iterator[Any]:
        extended = self._strategy.extended
        for batch in self._dataset:
            parts = partial(part_of, replicas=extended.num_replicas)
            numbers = range(extended.first_replica, extended.first_replica + extended.local_replicas)
            uneven = extended.layout.workers > 1 and any(
                _row_count(leaf) % extended.num_replicas for leaf in nest.flatten(batch)
            )
            kind = UnevenPerReplica if uneven else PerReplica
            yield self._per_replica([nest.map_structure(partial(parts, replica=i), batch) for i in numbers], kind)

    def _taken_in_turn(self) -> Iterator[Any]:
        """Elements from batches that this worker has created itself.

        If workers may have different numbers of batches or rows, they exchange them, because they train in step.
        """
        extended = self._strategy.extended
        steps = self._batches_in_turn()
        together = extended.layout.workers > 1 and not self._is_endless
        while True:
            step = next(steps, None)
            if step is None and not together:
                return
            step = [None] * extended.local_replicas if step is None else step
            empty = _empty(next((part for part in step if part is not None), self._dataset.element_spec))
            parts = [empty if part is None else part for part in step]
            sizes = extended.all_sizes([_rows(part) for part in parts]) if together else (1,)
            if not any(sizes):
                return
            yield self._per_replica(parts, PerReplica if len(set(sizes)) == 1 else UnevenPerReplica)

    def _batches_in_turn(self) -> Iterator[list[Any]]:
        """One batch for each replica of this process; None for those without one."""
        count = self._strategy.extended.local_replicas
        if len(self._datasets) > 1:
            yield from map(list, zip_longest(*self._datasets))
            return
        batches = iter(self._dataset)
        while step := list(islice(batches, count)):
            yield [*step, *[None] * (count - len(step))]

    @property
    def _is_endless(self) -> bool:
        """Whether every worker has a batch with the same shapes in every step."""
        endless = all(int(dataset.cardinality()) == INFINITE for dataset in self._datasets)
        return endless and all(spec.shape.is_fully_defined() for spec in nest.flatten(self._dataset.element_spec, True))

    def _per_replica(self, parts: list[Any], kind: type[PerReplica] = PerReplica) -> Any:
        leaves = [nest.flatten(part) for part in parts]
        devices = self._strategy.extended.devices
        together = [kind(leaf, devices) for leaf in zip(*leaves, strict=True)]
        return nest.pack_sequence_as(parts[0], [leaf.values[0] for leaf in together] if self._alone else together)

    @property
    def _alone(self) -> bool:
        """Whether there is only one replica, which gets tensors instead of a `PerReplica`, as in TensorFlow."""
        return self._strategy.extended.num_replicas == 1

    def __len__(self) -> int:
        if self._divides and self._policy is not AutoShardPolicy.DATA:
            raise TypeError("The dataset length is unknown.")
        return len(self._dataset) if self._divides else -(-len(self._dataset) // self._strategy.extended.local_replicas)

    @property
    def cardinality(self) -> Any:
        """The number of elements, if it is known."""
        return self._dataset.cardinality

    @property
    def element_spec(self) -> Any:
        """Shapes and dtypes of the elements, for each replica.

        >>> strategy = tf.distribute.MirroredStrategy(["CPU:0"])
        >>> strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2)).element_spec
        TensorSpec(shape=(None,), dtype=tf.int64, name=None)
        """
        count, total = self._strategy.extended.local_replicas, self._strategy.extended.num_replicas

        def of(spec: Any) -> Any:
            part = _part_spec(spec, total) if self._divides else spec
            return part if self._alone else PerReplicaSpec(*[part] * count)

        return nest.map_structure(of, self._dataset.element_spec)


def _require_dataset(value: Any) -> None:
    if not isinstance(value, Dataset):
        raise AttributeError(
            f"{type(value).__name__!r} object has no attribute 'element_spec': only a tf.data.Dataset can be "
            "distributed, such as tf.data.Dataset.from_tensor_slices(x).batch(global_batch_size)."
        )


def _policy_for(dataset: Dataset, workers: int) -> AutoShardPolicy:
    """The policy for sharing a dataset among workers, from its options; AUTO is FILE if it reads files."""
    policy = _declared(dataset)
    if workers == 1:
        return AutoShardPolicy.DATA
    if policy is AutoShardPolicy.AUTO:
        return AutoShardPolicy.FILE if dataset._pipeline.reads_files() else AutoShardPolicy.DATA
    if policy is AutoShardPolicy.FILE and not dataset._pipeline.reads_files():
        raise errors.NotFoundError(
            None,
            None,
            f"Found an unshardable source dataset: {dataset!r} does not read files. Set "
            "`options.experimental_distribute.auto_shard_policy` to tf.data.experimental.AutoShardPolicy.DATA.",
        )
    return AutoShardPolicy.DATA if policy is AutoShardPolicy.HINT else policy


def _declared(dataset: Dataset) -> AutoShardPolicy:
    """The policy in the options of a dataset."""
    options: Any = dataset.options()
    return AutoShardPolicy(options.experimental_distribute.auto_shard_policy or AutoShardPolicy.AUTO)


def batches_of_worker(dataset: Any, strategy: Strategy) -> Any:
    """A dataset of global batches for `fit`, in which this worker uses only the rows that it has read itself.

    The other parts repeat these rows and are not used. The last steps, in which workers have different numbers of rows,
    are dropped. A dataset that all workers read in the same way, and any other object, is returned unchanged.
    """
    workers = strategy.extended.layout.workers
    if workers == 1 or not isinstance(dataset, Dataset):
        return dataset
    if _declared(dataset) not in (AutoShardPolicy.FILE, AutoShardPolicy.OFF):
        return dataset
    divided = DistributedDataset.dividing(dataset, strategy)

    def whole(leaf: Any) -> Any:
        return wrap(np.concatenate([np.asarray(part.array) for part in leaf.parts] * workers))

    def elements(run: Run) -> Iterator[Any]:
        for element in divided.steps():
            if not isinstance(nest.flatten(element)[0], UnevenPerReplica):
                yield nest.map_structure(whole, element)

    return Dataset._of(Pipeline("_BatchesOfWorker", elements, lambda: dataset.element_spec), dataset.options())


def _steps(batches: Iterator[Any], replicas: int, count: int) -> Iterator[list[Any]]:
    """The parts of `count` replicas for each step, from batches with rows for `replicas` replicas."""
    for batch in batches:
        parts = [nest.map_structure(partial(part_of, replica=i, replicas=replicas), batch) for i in range(replicas)]
        yield from (parts[i : i + count] for i in range(0, replicas, count))


def _rows(element: Any) -> int:
    return int(_row_count(nest.flatten(element)[0]))


def _row_count(leaf: Any) -> Any:
    """The number of rows of a part of a batch, a tensor or a ragged tensor."""
    return leaf.nrows().array if isinstance(leaf, RaggedTensor) else leaf.array.shape[0]


def _empty(like: Any) -> Any:
    """An element without rows, with the structure of an element or a specification."""

    def of(leaf: Any) -> Any:
        if not isinstance(leaf, TensorSpec):
            return leaf[:0]
        return wrap(np.zeros([0, *(n or 0 for n in leaf.shape.as_list()[1:])], leaf.dtype.numpy_dtype))

    return nest.map_structure(of, like)


def _part_spec(spec: Any, replicas: int) -> Any:
    if not isinstance(spec, TensorSpec) or not spec.shape.rank:
        return spec
    rows = spec.shape[0]
    part = rows // replicas if rows is not None and rows % replicas == 0 else None
    return TensorSpec([part, *spec.shape[1:]], spec.dtype)


def part_of(leaf: Any, replica: int, replicas: int) -> Any:
    """The part of a global batch for one replica: the last ones may have fewer rows."""
    if hasattr(leaf, "_rows_in_dataset"):
        items = leaf._rows_in_dataset()
        size = -(-len(items) // replicas)
        part = items[replica * size : (replica + 1) * size]
        return leaf._joined_in_dataset(part) if part else leaf._joined_in_dataset([], like=leaf)
    if not isinstance(leaf, (Tensor, RaggedTensor)):
        raise TypeError(f"A batch of {type(leaf).__name__} cannot be divided among replicas: {leaf!r}.")
    size = -(-_row_count(leaf) // replicas)
    rows: Any = leaf
    return rows[replica * size : (replica + 1) * size]
