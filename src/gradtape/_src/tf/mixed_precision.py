"""Loss scaling: avoid underflow of float16 gradients.

float16 has no numbers below 6e-8, and many gradients are smaller. bfloat16 has float32's range and needs no scaling.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src.conversion import convert
from gradtape._src.indexed_slices import IndexedSlices, map_values
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math
from gradtape._src.tf.array import cast, where
from gradtape._src.tf.control_flow import cond
from gradtape._src.variable import Variable

_LARGEST = 2.0**127


class LossScale:
    """A dynamic loss scale for training loops with a tape.

    Steps whose gradients are not finite are skipped, counted, and halve the scale; after many finite steps it doubles.
    The methods have the names of Keras' LossScaleOptimizer too.

    >>> import gradtape as tf
    >>> w = tf.Variable([1.0, 2.0])
    >>> scale = LossScale(initial_scale=1024.0)
    >>> with tf.GradientTape() as tape:
    ...     loss = tf.reduce_sum(tf.cast(w, tf.float16) ** 2)
    ...     scaled = scale.scale_loss(loss)
    >>> gradients = scale.get_unscaled_gradients(tape.gradient(scaled, [w]))
    >>> bool(scale.apply(gradients, lambda gs: w.assign_sub(0.5 * gs[0])))
    True
    >>> w.numpy().tolist(), int(scale.skipped)
    ([0.0, 0.0], 0)
    """

    def __init__(
        self, initial_scale: float = 2.0**15, dynamic_growth_steps: int = 2000, dynamic: bool = True, name: str = ""
    ) -> None:
        if not 0 < initial_scale < np.inf:
            raise ValueError(f"initial_scale must be a positive number. Received {initial_scale!r}.")
        if dynamic_growth_steps < 1:
            raise ValueError(f"dynamic_growth_steps must be at least 1. Received {dynamic_growth_steps!r}.")
        self._dynamic, self._growth = dynamic, int(dynamic_growth_steps)
        self._scale = Variable(np.float32(initial_scale), trainable=False, name=name + "loss_scale")
        self._good = Variable(np.int64(0), trainable=False, name=name + "good_steps")
        self._skipped = Variable(np.int64(0), trainable=False, name=name + "skipped_steps")

    def _trackable_children(self) -> dict[str, Any]:
        """The state that checkpoints save."""
        return {"_scale": self._scale, "_good": self._good, "_skipped": self._skipped}

    @property
    def loss_scale(self) -> Tensor:
        """The current scale of the loss."""
        return self._scale.value()

    @property
    def skipped(self) -> Tensor:
        """The number of steps that were skipped because their gradients overflowed."""
        return self._skipped.value()

    @property
    def variables(self) -> list[Variable]:
        """The scale and its counters, for checkpoints."""
        return [self._scale, self._good, self._skipped]

    def scale_loss(self, loss: Any) -> Any:
        """The loss times the scale; for a function that returns a loss, such a function."""
        if callable(loss) and not isinstance(loss, (Tensor, Variable)):
            return lambda: self.scale_loss(loss())
        loss = convert(loss)
        return loss * cast(self._scale, loss.dtype)

    get_scaled_loss = scale_loss

    def get_unscaled_gradients(self, grads: Any) -> list[Any]:
        """The gradients of a scaled loss, divided by the scale; None stays None, IndexedSlices stay sparse."""
        inverse = 1.0 / self._scale.value()
        return [None if g is None else map_values(lambda v: v * cast(inverse, v.dtype), g) for g in grads]

    def apply(self, gradients: Any, update: Callable[[list[Any]], Any]) -> Tensor:
        """Call `update(gradients)` if all are finite, otherwise skip the step. Return whether it was called."""
        there = [g.values if isinstance(g, IndexedSlices) else g for g in gradients if g is not None]
        finite = convert(True)
        for g in there:
            finite = math.logical_and(finite, math.reduce_all(math.is_finite(g)))

        def go() -> Tensor:
            update(list(gradients))
            if self._dynamic:
                grown = self._good + 1 >= self._growth
                self._scale.assign(where(grown, math.minimum(self._scale * 2.0, _LARGEST), self._scale.value()))
                self._good.assign(where(grown, convert(np.int64(0)), self._good + 1))
            return convert(True)

        def skip() -> Tensor:
            self._skipped.assign_add(1)
            if self._dynamic:
                self._scale.assign(math.maximum(self._scale / 2.0, 1.0))
                self._good.assign(0)
            return convert(False)

        return cond(finite, go, skip)


__all__ = [
    "LossScale",
]
