"""Replicas: the code of each runs in its own thread, one thread at a time.

Replica 0 runs first, up to its next `merge_call` or its end, then replica 1, and so on. When all of them wait, the
merge function runs once, in the thread that called `run`, and they continue in the same order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from gradtape._src import nest
from gradtape._src.active import active
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.custom_gradient import custom_gradient
from gradtape._src.conversion import convert
from gradtape._src.core.tape import active_recorders, use_recorders
from gradtape._src.devices import identity
from gradtape._src.distribute import reduction
from gradtape._src.distribute.context import Mode, mode
from gradtape._src.distribute.values import PerReplica, regroup, select
from gradtape._src.function.modes import traced_for
from gradtape._src.graph import lanes
from gradtape._src.graph.trace import Trace
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.interrupts import setting
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.distribute.strategy import Strategy


class ReplicaContext:
    """The replica that code in `strategy.run` runs on, and how it communicates with the others.

    >>> import gradtape as tf
    >>> strategy = tf.distribute.MirroredStrategy(["/CPU:0"])
    >>> def replica():
    ...     context = tf.distribute.get_replica_context()
    ...     return context.all_reduce("sum", tf.constant(2.0))
    >>> float(strategy.run(replica))
    2.0

    >>> strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    >>> def step(x):
    ...     context = tf.distribute.get_replica_context()
    ...     print(context.num_replicas_in_sync, context.strategy is strategy, context.devices)
    ...     total = context.merge_call(lambda strategy, v: strategy.reduce("SUM", v, axis=None), args=(x,))
    ...     return context.replica_id_in_sync_group, context.all_gather(x, axis=0), total
    >>> _, gathered, total = strategy.run(step, args=(tf.constant([1.0, 2.0]),))
    1 True ('/job:localhost/replica:0/task:0/device:CPU:0',)
    >>> gathered.numpy().tolist(), total.numpy().tolist()
    ([1.0, 2.0], [1.0, 2.0])
    """

    def __init__(self, strategy: Strategy, replica_id_in_sync_group: Any, thread: _Thread | None = None) -> None:
        self._strategy, self._id, self._thread = strategy, replica_id_in_sync_group, thread

    @property
    def strategy(self) -> Strategy:
        """The strategy whose `run` this is."""
        return self._strategy

    @property
    def num_replicas_in_sync(self) -> int:
        """The number of replicas."""
        return self._strategy.num_replicas_in_sync

    @property
    def replica_id_in_sync_group(self) -> Any:
        """The number of this replica: in `run` a scalar tensor."""
        return self._id if self._id is not None else convert(self._strategy.extended.first_replica + self.number)

    @property
    def number(self) -> int:
        """The number of this replica among those of its process."""
        return 0 if self._thread is None else self._thread.number

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of this replica."""
        return (self._strategy.extended.worker_devices[self.number],)

    def merge_call(self, merge_fn: Callable[..., Any], args: Sequence[Any] = (), kwargs: Any = None) -> Any:
        """Call `merge_fn(strategy, *args, **kwargs)` once for all replicas, after every one of them has arrived here.

        The arguments of `merge_fn` contain the values of all replicas. Each replica gets its part of the result.
        """
        self._require_here()
        kwargs = {} if kwargs is None else dict(kwargs)
        if self._thread is not None:
            return self._thread.merge(merge_fn, tuple(args), kwargs)
        with setting(mode, Mode(self._strategy)):
            return select(0, merge_fn(self._strategy, *args, **kwargs))

    def shared(self, create: Callable[[], Any]) -> Any:
        """Return what replica 0 creates, to all of them: the others get its objects in the order of creation."""
        return create() if self._thread is None else self._thread.shared(create)

    def all_reduce(self, reduce_op: Any, value: Any, options: Any = None) -> Any:
        """Compute the sum or mean of every leaf of `value` over all replicas, for each of them.

        This is differentiable: the gradient is the same reduction of the upstream gradients of all replicas.
        """
        self._require_here()
        op = reduction.as_reduce_op(reduce_op)
        flat = nest.flatten(value)
        for leaf in flat:
            leaf.dtype  # noqa: B018 - a Python number has none, and TensorFlow refuses it in this way
        if any(isinstance(leaf, IndexedSlices) for leaf in flat):
            return nest.pack_sequence_as(value, self._reduced(op, flat))

        @custom_gradient
        def reduce(*tensors: Any) -> Any:
            def gradient(*upstream: Any) -> Any:
                grads = self.all_reduce(op, list(upstream))
                return grads[0] if len(grads) == 1 else grads

            return self._reduced(op, list(tensors)), gradient

        return nest.pack_sequence_as(value, reduce(*flat)) if flat else value

    def _reduced(self, op: reduction.ReduceOp, flat: list[Any]) -> list[Any]:
        def merged(strategy: Strategy, *values: Any) -> list[Any]:
            return [strategy.extended.all_reduced(op, value) for value in values]

        return [_here(value) for value in self.merge_call(merged, args=tuple(map(_own, flat)))]

    def all_gather(self, value: Any, axis: int, options: Any = None) -> Any:
        """Concatenate the values of all replicas along an axis, for each of them; each leaf of a structure separately.

        The gradient is this replica's part of the sum of all upstream gradients.
        """
        self._require_here()
        if any(isinstance(leaf, IndexedSlices) for leaf in nest.flatten(value)):
            raise NotImplementedError("all_gather does not support IndexedSlices. Gather their values and indices.")
        return nest.map_structure(lambda leaf: self._gathered(convert(leaf), axis), value)

    def _gathered(self, value: Tensor, axis: int) -> Any:
        @custom_gradient
        def gather(x: Tensor) -> Any:
            def merged(strategy: Strategy, parts: Any) -> Any:
                tensors = PerReplica([select(i, parts) for i in range(strategy.extended.local_replicas)])
                whole = strategy.extended.gathered(tensors, axis)
                return whole, strategy.extended.all_sizes([t.shape[axis] for t in tensors.parts])

            whole, sizes = self.merge_call(merged, args=(_own(x),))
            number = self._strategy.extended.first_replica + self.number
            before = sum(sizes[:number])

            def gradient(upstream: Any) -> Any:
                total = self.all_reduce(reduction.ReduceOp.SUM, upstream)
                return reduction.slice_along(total, axis, before, before + sizes[number])

            return _here(whole), gradient

        return gather(value)

    def _require_here(self) -> None:
        found = mode.get()
        if found is not None and found.replica is not self:
            raise RuntimeError(
                "Need to be inside `call_for_each_replica()`: a method of a `ReplicaContext` was called outside "
                "the replica it belongs to."
            )


def _own(value: Any) -> Any:
    """A value as a new object, so that replicas that share it can be told apart."""
    if isinstance(value, IndexedSlices):
        return IndexedSlices(value.values, value.indices, value.dense_shape)
    copy = Tensor()
    tensor = convert(value)
    copy.array, copy.uid = tensor.array, tensor.uid
    return copy


def _here(value: Any) -> Any:
    """A value that was computed for all replicas, on the device of this one."""
    return value if isinstance(value, IndexedSlices) else identity(value)


# -- threads ---------------------------------------------------------------------------------------------------------
class _Abandoned(BaseException):
    """Ends the thread of a replica after its `run` has failed elsewhere."""


class _Thread:
    """One replica in one `run`."""

    def __init__(self, number: int, body: Callable[[], Any], created: list[Any]) -> None:
        self.number, self._body = number, body
        self._created, self._found = created, 0  # the objects of replica 0, and how many of them this one has
        self._context = copy_context()
        self._graph = current_graph()
        self._resume, self._paused = threading.Semaphore(0), threading.Semaphore(0)
        self._abandoned = False
        self.ended, self.result = False, None
        self.error: BaseException | None = None
        self.merging: tuple[Any, ...] | None = None  # the merge function and its arguments
        self._merged: Any = None
        self._thread: threading.Thread | None = None

    # -- in the thread that called `run` -----------------------------------------------------------------------------
    def proceed(self, merged: Any = None) -> None:
        """Run the replica up to its next `merge_call`, or to its end."""
        self._merged, self.merging = merged, None
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"replica {self.number}", daemon=True)
            self._thread.start()
        else:
            self._resume.release()
        self._paused.acquire()

    def abandon(self) -> None:
        """End the replica where it waits."""
        if self._thread is not None and not self.ended:
            self._abandoned = True
            self._resume.release()

    # -- in the replica's thread -------------------------------------------------------------------------------------
    def _run(self) -> None:
        try:
            self.result = self._context.run(self._body)
        except BaseException as error:  # raised again by `run`
            self.error = error
        self.ended = True
        self._paused.release()

    def shared(self, create: Callable[[], Any]) -> Any:
        """What replica 0 creates, or has created, at this point."""
        self._found += 1
        if self.number == 0:
            self._created.append(create())
        elif self._found > len(self._created):
            raise RuntimeError(
                f"Tried to create variable number {self._found} of replica {self.number}, which replica 0 has not "
                "created. All replicas must create the same variables, in the same order."
            )
        return self._created[self._found - 1]

    def merge(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Wait until all replicas have called this."""
        if current_graph() is not self._graph:
            raise RuntimeError(
                "`merge_call` called while defining a new graph or a tf.function. This can often happen if the "
                "function `fn` passed to `strategy.run()` contains a nested `@tf.function`, and the nested "
                "`@tf.function` contains a synchronization point, such as aggregating gradients (e.g, "
                "optimizer.apply_gradients), or if the function `fn` uses a control flow statement which contains a "
                "synchronization point in the body. Move the synchronization out of it."
            )
        self.merging = (function, args, kwargs)
        if not self._abandoned:  # in a `finally` block of a replica that is ending there is nothing to wait for
            self._paused.release()
            self._resume.acquire()
        if self._abandoned:
            raise _Abandoned
        return self._merged


def run_replicas(strategy: Strategy, function: Callable[..., Any], args: Any, kwargs: Any) -> list[Any]:
    """Call a function in each replica of a strategy, and return the results."""
    traces = tuple(recorder for recorder in active_recorders() if isinstance(recorder, Trace))
    devices = strategy.extended.devices
    threads: list[_Thread] = []

    def body(number: int) -> Callable[[], Any]:
        def replica() -> Any:
            context = ReplicaContext(strategy, None, threads[number])
            active.set(None)  # tapes around `run` do not record what replicas do; the trace of a function does
            mode.set(Mode(strategy, context))
            traced_for.set((id(strategy), number))
            with use_recorders(traces), strategy.extended.placing(devices[number]):
                return function(*select(number, args), **select(number, kwargs))

        return replica

    created: list[Any] = []
    threads.extend(_Thread(number, body(number), created) for number in range(len(devices)))
    try:
        merged: list[Any] = [None] * len(threads)
        while True:
            ranges = []
            for thread, result in zip(threads, merged, strict=True):
                start = lanes.position()
                thread.proceed(result)
                if thread.error is not None:
                    raise thread.error
                ranges.append((start, lanes.position()))
            lanes.mark_each(strategy.extended.layout, ranges)
            if all(map(_has_ended, threads)):
                return [thread.result for thread in threads]
            merged = _merged(strategy, threads)
    finally:
        for thread in threads:
            thread.abandon()


def _has_ended(thread: _Thread) -> bool:
    return thread.ended


def _merged(strategy: Strategy, threads: Sequence[_Thread]) -> list[Any]:
    """Run the merge function of all replicas; return the part of its result for each of them."""
    if any(thread.ended for thread in threads):
        raise RuntimeError("Some replicas made a different number of replica_context().merge_call() calls.")
    calls = [thread.merging for thread in threads if thread.merging is not None]
    function = calls[0][0]
    devices = strategy.extended.devices
    args = tuple(regroup(parts, devices) for parts in zip(*[call[1] for call in calls], strict=True))
    kwargs = {name: regroup([call[2][name] for call in calls], devices) for name in calls[0][2]}
    with setting(mode, Mode(strategy)):
        result = function(strategy, *args, **kwargs)
    return [select(i, result) for i in range(len(threads))]
