"""The context of code: in a replica, across replicas, or outside of every strategy.

A mode consists of the active strategy and, in a replica, the replica. It is a context variable, so threads and tasks
have their own modes. Without one, the default strategy is active, in its only replica.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from gradtape._src.distribute.replica import ReplicaContext
    from gradtape._src.distribute.strategy import Strategy


class Mode(NamedTuple):
    """The active strategy and replica.

    strategy  the strategy
    replica   the context of the replica that runs; None across replicas
    update    in `extended.update`, the number of the replica whose copy is updated
    """

    strategy: Strategy
    replica: ReplicaContext | None = None
    update: int | None = None


mode: ContextVar[Mode | None] = ContextVar("gradtape_distribution", default=None)

_make_default: list[Callable[[], Strategy]] = []
_default: list[Strategy] = []


def register_default_strategy(make: Callable[[], Strategy]) -> None:
    """Register the function that creates the default strategy when it is first needed."""
    _make_default[:] = [make]


def default_strategy() -> Strategy:
    """The strategy of code outside of every scope: a single replica."""
    if not _default:
        _default.append(_make_default[0]())
    return _default[0]


def get_strategy() -> Strategy:
    """Return the active strategy; outside every scope the default one, which has one replica.

    >>> import gradtape as tf
    >>> tf.distribute.get_strategy().num_replicas_in_sync
    1
    """
    found = mode.get()
    return default_strategy() if found is None else found.strategy


def has_strategy() -> bool:
    """Return whether a strategy other than the default one is active.

    >>> import gradtape as tf
    >>> tf.distribute.has_strategy()
    False
    """
    return get_strategy() is not default_strategy()


def in_cross_replica_context() -> bool:
    """Return whether code runs across replicas: in a scope or in a `merge_call`, and not in `run`.

    >>> import gradtape as tf
    >>> with tf.distribute.MirroredStrategy(["/CPU:0"]).scope():
    ...     tf.distribute.in_cross_replica_context()
    True
    """
    found = mode.get()
    return found is not None and found.replica is None


def get_replica_context() -> ReplicaContext | None:
    """Return the context of the replica that runs this code; None across replicas.

    >>> import gradtape as tf
    >>> tf.distribute.get_replica_context().num_replicas_in_sync
    1
    """
    found = mode.get()
    return default_strategy().replica_context() if found is None else found.replica


def experimental_set_strategy(strategy: Strategy | None) -> None:
    """Make a strategy active, as its scope does, until this is called with None.

    >>> import gradtape as tf
    >>> tf.distribute.experimental_set_strategy(tf.distribute.OneDeviceStrategy("/CPU:0"))
    >>> tf.distribute.has_strategy()
    True
    >>> tf.distribute.experimental_set_strategy(None)
    """
    if _set:
        _set.pop().__exit__(None, None, None)
    elif mode.get() is not None:
        raise RuntimeError("Must not be called inside a `tf.distribute.Strategy` scope.")
    if strategy is not None:
        scope = strategy.scope()
        scope.__enter__()
        _set.append(scope)


_set: list[Any] = []


def require_cross_replica(strategy: Strategy) -> None:
    """Raise an error in a replica, and in the scope of another strategy."""
    found = mode.get()
    if found is None or found.strategy is default_strategy():
        return
    if found.replica is not None:
        raise RuntimeError("Method requires being in cross-replica context, use get_replica_context().merge_call()")
    require_same(found.strategy, strategy)


def require_same(active: Strategy, wanted: Strategy) -> None:
    """Raise an error unless both are the same strategy."""
    if active is not wanted:
        raise RuntimeError(f"Mixing different tf.distribute.Strategy objects: {active} is not {wanted}")
