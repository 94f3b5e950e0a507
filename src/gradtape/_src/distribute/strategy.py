"""Strategies: their replicas and devices, and what is created in a scope."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from typing import Any

from gradtape._src import nest
from gradtape._src.arrays.symbolic import current_graph, inside_eager_function
from gradtape._src.core.tape import active_recorders, use_recorders
from gradtape._src.data.dataset import Dataset
from gradtape._src.devices import Device, device_scope, get_engine, logical_cpu, logical_devices, parse
from gradtape._src.distribute import reduction, variables
from gradtape._src.distribute.context import (
    Mode,
    mode,
    register_default_strategy,
    require_cross_replica,
    require_same,
)
from gradtape._src.distribute.input import DistributedDataset, InputContext, InputOptions, InputReplicationMode
from gradtape._src.distribute.reduction import ReduceOp, as_reduce_op
from gradtape._src.distribute.replica import ReplicaContext, run_replicas
from gradtape._src.distribute.values import PerReplica, local_structures, regroup, select
from gradtape._src.function.function import Function
from gradtape._src.function.modes import traced_for
from gradtape._src.function.python_code import converted
from gradtape._src.graph import lanes
from gradtape._src.graph.trace import Trace
from gradtape._src.interrupts import setting, settings
from gradtape._src.variable import Variable, copies_of, is_distributed, variable_maker


@dataclass(frozen=True)
class ValueContext:
    """The argument of the function passed to `experimental_distribute_values_from_function`: which replica this is.

    >>> import gradtape as tf
    >>> tf.distribute.experimental.ValueContext(1, 4).replica_id_in_sync_group
    1
    """

    replica_id_in_sync_group: int = 0
    num_replicas_in_sync: int = 1

    def __str__(self) -> str:
        return (
            f"tf.distribute.ValueContext(replica id {self.replica_id_in_sync_group},  total replicas in sync: "
            f"{self.num_replicas_in_sync})"
        )


@dataclass(frozen=True)
class RunOptions:
    """Options of `run` on TPUs, which are accepted and have no effect.

    >>> strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    >>> int(strategy.run(lambda: tf.constant(3), options=tf.distribute.RunOptions()))
    3
    """

    experimental_enable_dynamic_batch_size: bool = True
    experimental_bucketizing_dynamic_shape: bool = False
    experimental_xla_options: Any = None


_MOST_COMPILED = 32
"""The number of functions whose `run` a strategy compiles by itself."""


class _Scope:
    """The context manager of `strategy.scope()`."""

    def __init__(self, strategy: Strategy) -> None:
        self._strategy = strategy
        self._entered: list[AbstractContextManager[Any]] = []

    def __enter__(self) -> Strategy:
        found = mode.get()
        if found is not None and found.strategy.extended.is_distributed:
            if found.replica is not None:
                require_cross_replica(self._strategy)
            require_same(found.strategy, self._strategy)
        inside = self._strategy.extended.scope_block()
        inside.__enter__()
        self._entered.append(inside)
        return self._strategy

    def __exit__(self, *error: Any) -> None:
        self._entered.pop().__exit__(*error)


class Strategy:
    """A way to run a program on several replicas that share variables.

    `MirroredStrategy`, `OneDeviceStrategy` and `MultiWorkerMirroredStrategy` are strategies. Otherwise the default
    strategy is active, which has one replica.

    >>> strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    >>> strategy.num_replicas_in_sync, strategy.cluster_resolver
    (1, None)
    >>> with strategy.scope():
    ...     v = tf.Variable(2.0)
    >>> result = strategy.run(lambda: v * 3.0)
    >>> [float(x) for x in strategy.experimental_local_results(result)]
    [6.0]
    >>> dataset = strategy.distribute_datasets_from_function(lambda context: tf.data.Dataset.range(2).batch(2))
    >>> next(iter(dataset)).numpy().tolist()
    [0, 1]
    """

    extended: StrategyExtended

    def __init__(self, extended: StrategyExtended) -> None:
        self.extended = extended
        self._compiled: dict[tuple[int, ...], tuple[Any, Function]] = {}
        extended.attach(self)

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas that gradients are aggregated over."""
        return self.extended.num_replicas

    @property
    def cluster_resolver(self) -> Any:
        """The description of the cluster; None on one machine."""
        return None

    def replica_context(self) -> ReplicaContext:
        """The context of the only replica, for code outside of `run`."""
        return ReplicaContext(self, 0)

    def scope(self) -> Any:
        """Make this strategy active in a `with` block; variables created there get a copy for each replica.

        >>> import gradtape as tf
        >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
        >>> with strategy.scope():
        ...     v = tf.Variable(1.0)
        >>> len(strategy.experimental_local_results(v))
        1
        """
        return _Scope(self)

    def run(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, options: Any = None) -> Any:
        """Call a function in every replica. Results that differ between replicas are returned as a `PerReplica`.

        Each replica gets its own part of the `PerReplica` values in the arguments.

        >>> import gradtape as tf
        >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
        >>> strategy.experimental_local_results(strategy.run(lambda x: x + 1, args=(tf.constant(1),)))[0].numpy()
        np.int32(2)
        """
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"positional args must be a list or tuple, got {type(args)}")
        require_cross_replica(self)
        kwargs = {} if kwargs is None else kwargs
        if current_graph() is not None and callable(fn):
            fn = converted(fn, True)
        elif self.extended.wraps and (isinstance(fn, Function) or (inside_eager_function() and callable(fn))):
            compiled = self._compiled_run(fn)
            if compiled is not None:
                with self.scope():
                    return compiled(tuple(args), kwargs)
        with self.scope():  # which a subclass may extend, as by a `tf.variable_creator_scope`
            return self.extended.run(fn, tuple(args), kwargs)

    def _compiled_run(self, fn: Any) -> Function | None:
        """`run` of a `tf.function`, or inside one that runs eagerly because it reads a dataset, as a separate function,
        so that all replicas are one program. None for code that is different in every call.
        """
        code = getattr(fn, "python_function", fn)
        parts = (getattr(code, "__code__", code), getattr(code, "__self__", None), getattr(code, "__defaults__", None))
        held = (*parts, *[_content_of(cell) for cell in getattr(code, "__closure__", None) or ()])
        key = tuple(map(id, held))
        if key not in self._compiled:
            if len(self._compiled) >= _MOST_COMPILED:
                return None
            is_declared = getattr(fn, "input_signature", None) is not None
            replica = fn if is_declared else converted(code, True)  # it compares the arguments with its signature

            def run(args: tuple[Any, ...], kwargs: Any) -> Any:
                return self.extended.run(replica, args, kwargs)

            self._compiled[key] = (held, Function(run, autograph=False))
        return self._compiled[key][1]

    def reduce(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """Compute the sum or mean of a value over replicas and, unless `axis` is None, over an axis of its parts.

        >>> import gradtape as tf
        >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
        >>> strategy.reduce("sum", strategy.run(lambda: tf.constant([1.0, 2.0])), axis=0).numpy()
        np.float32(3.0)
        """
        op = as_reduce_op(reduce_op)
        require_cross_replica(self)
        if axis is None:
            return nest.map_structure(lambda leaf: self.extended.reduced(op, leaf), value)
        parts = [select(i, _parts_of(value)) for i in range(self.extended.local_replicas)]
        return self.extended.across(op, parts, axis)

    def gather(self, value: Any, axis: int) -> Any:
        """Concatenate the parts of a value along an axis.

        >>> import gradtape as tf
        >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
        >>> strategy.gather(strategy.run(lambda: tf.constant([1, 2])), axis=0).numpy()
        array([1, 2], dtype=int32)
        """
        found = mode.get()
        if found is not None and found.replica is not None and found.strategy.extended.is_distributed:
            raise RuntimeError(
                "tf.distribute.Strategy.gather method requires cross-replica context, use "
                "get_replica_context().all_gather() instead"
            )
        require_cross_replica(self)
        return nest.map_structure(lambda leaf: self.extended.gathered(leaf, axis), value)

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """Return the values of the replicas in this process, as a tuple."""
        return local_structures(value, self.extended.local_replicas)

    unwrap = experimental_local_results  # its original name

    def experimental_distribute_values_from_function(self, value_fn: Callable[[ValueContext], Any]) -> Any:
        """Call a function for each replica, and return the results as a `PerReplica`.

        >>> import gradtape as tf
        >>> tf.distribute.get_strategy().experimental_distribute_values_from_function(lambda context: 5)
        5
        """
        require_cross_replica(self)
        numbers = range(self.extended.local_replicas)
        first = self.extended.first_replica
        values = [value_fn(ValueContext(first + i, self.num_replicas_in_sync)) for i in numbers]
        if not self.extended.wraps:
            return values[0]
        return regroup(values, self.extended.devices, always=True)

    # -- input -------------------------------------------------------------------------------------------------------
    def experimental_distribute_dataset(self, dataset: Dataset, options: InputOptions | None = None) -> Any:
        """Distribute a dataset of global batches: each replica gets its part.

        >>> import gradtape as tf
        >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
        >>> data = strategy.experimental_distribute_dataset(tf.data.Dataset.range(4).batch(2))
        >>> [strategy.experimental_local_results(batch)[0].numpy().tolist() for batch in data]
        [[0, 1], [2, 3]]
        """
        require_cross_replica(self)
        return self.extended.distribute_dataset(dataset, options)

    def distribute_datasets_from_function(
        self, dataset_fn: Callable[[InputContext], Dataset], options: InputOptions | None = None
    ) -> Any:
        """Create a dataset with a function, for this process, whose batches go to the replicas in turn.

        >>> strategy = tf.distribute.OneDeviceStrategy("CPU:0")
        >>> dataset = strategy.experimental_distribute_datasets_from_function(lambda context: tf.data.Dataset.range(2))
        >>> [int(x) for x in dataset]
        [0, 1]
        """
        require_cross_replica(self)
        return self.extended.datasets_from_function(dataset_fn, options)

    experimental_distribute_datasets_from_function = distribute_datasets_from_function


def _content_of(cell: Any) -> Any:
    """The value of a variable of an outer function; None if it is unbound."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _parts_of(value: Any) -> Any:
    """The copies of a variable as a `PerReplica`."""
    return PerReplica(copies_of(value)) if isinstance(value, Variable) and is_distributed(value) else value


class StrategyExtended:
    """The parts of a strategy that libraries use.

    >>> strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    >>> extended = strategy.extended
    >>> extended.worker_devices, extended.parameter_devices
    (('/job:localhost/replica:0/task:0/device:CPU:0',), ('/job:localhost/replica:0/task:0/device:CPU:0',))
    >>> extended.experimental_require_static_shapes
    False
    >>> with strategy.scope():
    ...     v = tf.Variable(1.0)
    ...     with extended.colocate_vars_with(v):
    ...         slot = tf.Variable(0.0)
    >>> extended.variable_created_in_scope(v), extended.value_container(v) is v
    (True, True)
    >>> _ = extended.update(v, lambda copy, x: copy.assign(x), args=(5.0,))
    >>> float(v)
    5.0
    >>> float(extended.reduce_to("SUM", tf.constant(3.0), destinations=v))
    3.0
    >>> [float(x) for x in extended.batch_reduce_to("SUM", [(tf.constant(3.0), v), (tf.constant(4.0), v)])]
    [3.0, 4.0]
    """

    is_distributed = True  # whether this is a strategy other than the default
    wraps = True  # whether values of replicas are `PerReplica`s, even of one replica

    def __init__(self, devices: Sequence[Device]) -> None:
        self.devices = tuple(devices)

    def attach(self, strategy: Strategy) -> None:
        """Set the strategy that this belongs to."""
        self._strategy = strategy

    # -- replicas ----------------------------------------------------------------------------------------------------
    @property
    def num_replicas(self) -> int:
        """The number of replicas on all machines."""
        return self.local_replicas

    @property
    def local_replicas(self) -> int:
        """The number of replicas in this process."""
        return len(self.devices)

    @property
    def first_replica(self) -> int:
        """The number of the first replica in this process."""
        return 0

    @property
    def layout(self) -> lanes.Layout:
        """The layout of the replicas, for graphs that they are traced into."""
        return lanes.Layout(self.devices)

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The names of the devices that replicas run on."""
        return tuple(device.name for device in self.devices)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The names of the devices that hold variables."""
        return tuple(device.name for device in self.parameter_places)

    @property
    def parameter_places(self) -> tuple[Device, ...]:
        """The devices with copies of variables."""
        return self.devices

    def placing(self, device: Device) -> AbstractContextManager[Any]:
        """Context in which new tensors are on the device of a replica; logical CPUs share NumPy."""
        if device.kind == "CPU" and get_engine() == "numpy":
            return setting(logical_cpu, device.number)
        return device_scope(device.name)

    def scope_block(self) -> AbstractContextManager[Any]:
        """The context that a scope enters."""
        return settings((variable_maker, variables.make), (mode, Mode(self._strategy)))

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        """Call a function in every replica."""
        return regroup(run_replicas(self._strategy, fn, args, kwargs), self.devices)

    def call_for_each_replica(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """The old name of `strategy.run`."""
        return self._strategy.run(fn, args, kwargs)

    # -- reducing ----------------------------------------------------------------------------------------------------
    def reduced(self, op: ReduceOp, value: Any) -> Any:
        """One leaf, reduced over the replicas."""
        if isinstance(value, PerReplica):
            return self.across(op, value.parts, None)
        if isinstance(value, Variable) and is_distributed(value):
            if isinstance(value, variables.SyncOnReadVariable):
                return self.across(op, [copy.read_value() for copy in copies_of(value)], None)
            assert op is ReduceOp.MEAN, f"{value!r} is the same in all replicas and cannot be summed over them."
            return value.read_value()
        if op is ReduceOp.SUM and self.num_replicas > 1:
            raise ValueError(
                f"A non-DistributedValues value {value!s} cannot be reduced with the given reduce op {op}. It is the "
                "same for all replicas: pass a tensor that every replica has computed, as tf.constant does in `run`."
            )
        return value

    def all_reduced(self, op: ReduceOp, value: Any) -> Any:
        """The result of `all_reduce`: the reduction of the values of all replicas."""
        return self.across(op, value.parts if isinstance(value, PerReplica) else [value], None)

    def across(self, op: ReduceOp, parts: Sequence[Any], axis: Any) -> Any:
        """Reduce the parts of the replicas of this process with those of all others."""
        if axis is None:
            return reduction.reduced(op, parts, self.layout)
        return reduction.reduced_over_axis(op, parts, axis, self.layout)

    def gathered(self, value: Any, axis: int) -> Any:
        """Concatenate the parts of a value along an axis."""
        return reduction.concatenated(value.parts, axis, self.layout) if isinstance(value, PerReplica) else value

    def all_sizes(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The sizes in all replicas, from those in this process."""
        return tuple(sizes)

    def initial_value(self, value: Any) -> Any:
        """The initial value of all copies of a new variable."""
        return value

    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any, options: Any = None) -> Any:
        """Compute the sum or mean of a value over replicas, on the devices of a variable that is updated with it."""
        require_cross_replica(self._strategy)
        return self.reduced(as_reduce_op(reduce_op), value)

    def batch_reduce_to(self, reduce_op: Any, value_destination_pairs: Any, options: Any = None) -> list[Any]:
        """Apply `reduce_to` to several values."""
        return [self.reduce_to(reduce_op, value, destinations) for value, destinations in value_destination_pairs]

    def broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        """Copy a tensor to the devices of all replicas."""
        return tensor

    # -- variables ---------------------------------------------------------------------------------------------------
    def update(
        self, var: Any, fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None, group: bool = True
    ) -> Any:
        """Call `fn(copy, *args, **kwargs)` for every copy of a variable; in a replica, after all have arrived."""
        kwargs = {} if kwargs is None else kwargs
        found = mode.get()
        if found is not None and found.replica is not None and found.strategy is self._strategy:

            def merged(strategy: Strategy, *args: Any, **kwargs: Any) -> Any:
                return strategy.extended.update(var, fn, args, kwargs, group)

            return found.replica.merge_call(merged, tuple(args), kwargs)
        require_cross_replica(self._strategy)
        assert isinstance(var, Variable), f"`update` takes a variable. Received: {var!r}"
        copies = copies_of(var)
        results, ranges = [], []
        for number, copy in enumerate(copies):
            start = lanes.position()
            with setting(mode, Mode(self._strategy, None, number)):
                results.append(fn(copy, *select(number, tuple(args)), **select(number, kwargs)))
            ranges.append((start, lanes.position()))
        lanes.mark_each(self.layout, ranges)
        if group:
            return None
        return tuple(results) if len(results) > 1 else results[0]

    def colocate_vars_with(self, colocate_with_variable: Any) -> AbstractContextManager[Any]:
        """Create variables in a `with` block as everywhere in the scope: all of them have copies."""
        block: AbstractContextManager[Any] = self._strategy.scope()
        return block

    def variable_created_in_scope(self, v: Any) -> bool:
        """Return whether a variable was created in this strategy's scope."""
        return getattr(v, "distribute_strategy", None) is self._strategy

    def value_container(self, value: Any) -> Any:
        """Return the distributed variable that a copy belongs to; anything else is returned unchanged."""
        return getattr(value, "container", value)

    def non_slot_devices(self, var_list: Any) -> tuple[str, ...]:
        """The devices of values that belong to no variable."""
        return self.parameter_devices

    # -- input -------------------------------------------------------------------------------------------------------
    def input_context(self) -> InputContext:
        """The argument of a function that creates the dataset of this process."""
        return InputContext(1, 0, self.num_replicas)

    def distribute_dataset(self, dataset: Dataset, options: InputOptions | None) -> Any:
        """A dataset whose batches are divided among the replicas."""
        if options is not None and options.experimental_replication_mode is InputReplicationMode.PER_REPLICA:
            raise NotImplementedError(
                "InputReplicationMode.PER_REPLICA is only supported in `distribute_datasets_from_function`."
            )
        return DistributedDataset.dividing(dataset, self._strategy, options)

    def datasets_from_function(self, dataset_fn: Callable[[InputContext], Dataset], options: Any) -> Any:
        """A dataset whose batches go to one replica after the other, or a dataset for each replica."""
        if options is None or options.experimental_replication_mode is InputReplicationMode.PER_WORKER:
            return DistributedDataset.in_turn([dataset_fn(self.input_context())], self._strategy)
        numbers = range(self.first_replica, self.first_replica + self.local_replicas)
        contexts = [InputContext(self.num_replicas, i, self.num_replicas) for i in numbers]
        return DistributedDataset.in_turn([dataset_fn(context) for context in contexts], self._strategy)

    @property
    def experimental_require_static_shapes(self) -> bool:
        """Whether shapes must be known, which is False."""
        return False

    @property
    def should_checkpoint(self) -> bool:
        """Whether this process writes checkpoints."""
        return self.first_replica == 0

    @property
    def should_save_summary(self) -> bool:
        """Whether this process writes summaries."""
        return self.first_replica == 0


# -- one replica -----------------------------------------------------------------------------------------------------
class SingleExtended(StrategyExtended):
    """One replica, whose values are plain tensors and plain variables."""

    wraps = False

    def scope_block(self) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(settings((variable_maker, None), (mode, Mode(self._strategy))))
        stack.enter_context(device_scope(self.devices[0].name))
        return stack

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        context = ReplicaContext(self._strategy, None)
        with settings((mode, Mode(self._strategy, context))), device_scope(self.devices[0].name):
            return fn(*select(0, args), **select(0, kwargs))

    def update(self, var: Any, fn: Any, args: Any = (), kwargs: Any = None, group: bool = True) -> Any:
        require_cross_replica(self._strategy)
        with setting(mode, Mode(self._strategy, None, 0)):
            result = fn(var, *args, **({} if kwargs is None else kwargs))
        return None if group else result

    def distribute_dataset(self, dataset: Dataset, options: Any) -> Any:
        return dataset

    def datasets_from_function(self, dataset_fn: Callable[[InputContext], Dataset], options: Any) -> Any:
        return dataset_fn(self.input_context())


class DefaultExtended(SingleExtended):
    """Code without a strategy."""

    is_distributed = False

    def scope_block(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        with setting(mode, Mode(self._strategy, ReplicaContext(self._strategy, 0))):
            return fn(*args, **kwargs)

    @property
    def worker_devices(self) -> Any:
        raise RuntimeError("worker_devices() method unsupported by default tf.distribute.Strategy.")


class DefaultStrategy(Strategy):
    """The strategy outside of every scope: one replica."""

    def __init__(self) -> None:
        super().__init__(DefaultExtended([Device("CPU", 0)]))


register_default_strategy(DefaultStrategy)


class OneDeviceStrategy(Strategy):
    """One replica on one device: values and variables are plain tensors and variables there.

    >>> import gradtape as tf
    >>> tf.distribute.OneDeviceStrategy("/CPU:0").run(lambda: tf.constant(1.0) + 1.0).numpy()
    np.float32(2.0)
    """

    def __init__(self, device: Any) -> None:
        super().__init__(SingleExtended([device_of(device)]))


# -- several replicas ------------------------------------------------------------------------------------------------
class MirroredExtended(StrategyExtended):
    """Replicas of one process."""

    def __init__(self, devices: Sequence[Device], cross_device_ops: Any = None) -> None:
        super().__init__(devices)
        self.cross_device_ops = cross_device_ops

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> Any:
        if self.local_replicas > 1:
            return super().run(fn, args, kwargs)
        context = ReplicaContext(self._strategy, None)
        traces = [recorder for recorder in active_recorders() if isinstance(recorder, Trace)]
        inside = settings((mode, Mode(self._strategy, context)), (traced_for, (id(self._strategy), 0)))
        with inside, use_recorders(traces), self.placing(self.devices[0]):
            return regroup([fn(*select(0, args), **select(0, kwargs))], self.devices)


class MirroredStrategy(Strategy):
    """Replicas on several devices of one machine, with a copy of every variable on each.

    Without `devices`, it uses all GPUs or, if there are none, all logical CPUs. XLA and NumPy compute the reductions;
    `cross_device_ops` is accepted and has no effect.

    >>> import gradtape as tf
    >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
    >>> with strategy.scope():
    ...     v = tf.Variable(1.0, aggregation=tf.VariableAggregation.SUM)
    >>> _ = strategy.run(lambda: v.assign_add(tf.constant(2.0)))
    >>> float(v)
    3.0
    """

    def __init__(self, devices: Any = None, cross_device_ops: Any = None) -> None:
        super().__init__(MirroredExtended(devices_of(devices), cross_device_ops))


class TPUStrategy(Strategy):
    """`MirroredStrategy` over the TPU cores of this machine.

    >>> tf.distribute.TPUStrategy()
    Traceback (most recent call last):
        ...
    RuntimeError: TPUStrategy finds no TPU: gradtape uses TPUs through JAX, which finds none on this machine....
    """

    def __init__(
        self, tpu_cluster_resolver: Any = None, experimental_device_assignment: Any = None, **options: Any
    ) -> None:
        found = logical_devices("TPU")
        if not found:
            raise RuntimeError(
                "TPUStrategy finds no TPU: gradtape uses TPUs through JAX, which finds none on this machine. "
                "tf.distribute.MirroredStrategy() runs the same program on GPUs or on the CPU."
            )
        super().__init__(MirroredExtended(found))
        self._resolver = tpu_cluster_resolver

    @property
    def cluster_resolver(self) -> Any:
        return self._resolver


def devices_of(devices: Any) -> list[Device]:
    """The devices with these names; by default all GPUs or all logical CPUs."""
    if not devices:
        return logical_devices("GPU") or logical_devices("CPU")
    if isinstance(devices, str):
        devices = [devices]
    names = [_name(device) for device in devices]
    whole = [name.startswith("/job:") for name in names]
    if any(whole) and not all(whole):
        raise RuntimeError("In-graph multi-worker training with `MirroredStrategy` is not supported in eager mode.")
    found = [device_of(name) for name in names]
    full = tuple(device.name for device in found)
    assert len(set(found)) == len(found), f"No duplicates allowed in `devices` argument: {full}"
    return found


def _name(device: Any) -> str:
    return str(device.to_string() if hasattr(device, "to_string") else getattr(device, "name", device))


def device_of(device: Any) -> Device:
    """The device with this name."""
    name = _name(device)
    found = parse(name)
    if found is None or found.kind not in ("CPU", "GPU", "TPU"):
        raise ValueError(f"Unknown attribute '{name}' is encountered while parsing the device spec: '{name}'.")
    return found
