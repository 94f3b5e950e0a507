"""Keras in the scope of a `tf.distribute` strategy: steps in every replica, losses, batch normalization."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from keras.src import tree

from gradtape._src.distribute.context import get_strategy, has_strategy
from gradtape._src.distribute.input import part_of
from gradtape._src.distribute.strategy import Strategy
from gradtape._src.distribute.values import PerReplica
from gradtape._src.graph import lanes
from gradtape._src.ops import reduce
from gradtape._src.tensor import Tensor


def scale_loss_for_distribution(value: Any) -> Any:
    """The contribution of one replica to the mean of a loss over all replicas."""
    replicas = get_strategy().num_replicas_in_sync
    return value * (1.0 / replicas) if replicas > 1 else value


def unscale_loss_for_distribution(value: Any) -> Any:
    """The mean of a loss over the batch of one replica, from its contribution."""
    replicas = get_strategy().num_replicas_in_sync
    return value * float(replicas) if replicas > 1 else value


def empty_as_zero(reduce_values: Callable[..., Any]) -> Callable[..., Any]:
    """Keras' reduction of losses, with a loss of 0 for a replica without rows in the last batch."""

    @functools.wraps(reduce_values)
    def reduced(values: Any, sample_weight: Any = None, reduction: Any = "sum_over_batch_size") -> Any:
        if tuple(values.shape) == (0,) and reduction not in (None, "none") and has_strategy():
            return reduce.sum_(values, axis=(0,))
        return reduce_values(values, sample_weight, reduction)

    return reduced


def allow_synchronized(layer: type) -> None:
    """Make batch normalization accept `synchronized=True`, which Keras allows only for TensorFlow."""
    initialise: Callable[..., None] = vars(layer)["__init__"]
    parameters = inspect.signature(initialise)

    @functools.wraps(initialise)
    def initialise_synchronized(self: Any, *args: Any, **kwargs: Any) -> None:
        given = parameters.bind(self, *args, **kwargs)
        synchronized = given.arguments.pop("synchronized", False)
        initialise(*given.args, **given.kwargs)
        self.synchronized = synchronized

    initialise_synchronized.__signature__ = parameters  # type: ignore[attr-defined]  # Keras reads the arguments from it
    type.__setattr__(layer, "__init__", initialise_synchronized)


class ReplicatedStep:
    """A step on a global batch: each replica gets its rows.

    The result is that of the first replica or, with `all_results`, the results of all replicas along their first axis.
    """

    is_replicated = True

    def __init__(self, step: Callable[[Any], Any], strategy: Strategy, all_results: bool) -> None:
        self._step, self._strategy, self._all_results = step, strategy, all_results
        functools.update_wrapper(self, step)

    def is_uneven(self, batches: Any) -> bool:
        """Whether replicas in other processes get more or fewer rows than these, so that they cannot be one program."""
        layout = self._strategy.extended.layout
        rows = [np.shape(leaf)[0] for leaf in tree.flatten(batches) if leaf is not None]
        return layout.workers > 1 and any(count % layout.total for count in rows)

    def __call__(self, batch: Any) -> Any:
        extended = self._strategy.extended
        first, total = extended.first_replica, extended.num_replicas

        def per_replica(leaf: Any) -> Any:
            if leaf is None:
                return None
            start = lanes.position()
            parts = [part_of(leaf, first + i, total) for i in range(extended.local_replicas)]
            lanes.mark(extended.layout, "split", start, parts, leaf)
            return PerReplica(parts)

        with self._strategy.scope():
            results = extended.run(self._step, (tree.map_structure(per_replica, batch),), {})
        return tree.map_structure(self._joined, results)

    def _joined(self, result: Any) -> Any:
        parts = result.parts if isinstance(result, PerReplica) else (result,)
        is_divided = isinstance(result, PerReplica) or self._strategy.extended.layout.workers > 1
        if self._all_results and is_divided and all(isinstance(part, Tensor) for part in parts):
            return self._strategy.gather(result, axis=0)
        return parts[0]
