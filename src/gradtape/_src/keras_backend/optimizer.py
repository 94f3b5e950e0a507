"""Keras' optimizers with gradtape: they accept plain variables too, and keep sparse gradients sparse."""

from __future__ import annotations

from typing import Any

from keras.src.optimizers import base_optimizer

from gradtape._src.checkpoint.tracking import attributes_of
from gradtape._src.conversion import convert
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.keras_backend.core import cast, dense
from gradtape._src.tf import clip
from gradtape._src.variable import Variable, unwrapped


class Optimizer(base_optimizer.BaseOptimizer):
    """Keras' optimizer over Keras' and gradtape's variables."""

    def _trackable_children(self) -> dict[str, Any]:
        """What checkpoints save of it."""
        return attributes_of(self)

    def _var_key(self, variable: Any) -> int:
        found = unwrapped(variable)
        # By its reference: a program with the slots of one variable is used for that one only, see `VariableParam`.
        return found.ref().deref().uid if isinstance(found, Variable) else id(variable)

    def assign(self, variable: Any, value: Any) -> None:
        variable.assign(dense(_like(variable, value)))  # the rows that slices leave out are zero

    def assign_add(self, variable: Any, value: Any) -> None:
        if isinstance(value, IndexedSlices):
            unwrapped(variable).scatter_add(_like(variable, value))
        else:
            variable.assign_add(_like(variable, value))

    def assign_sub(self, variable: Any, value: Any) -> None:
        if isinstance(value, IndexedSlices):
            unwrapped(variable).scatter_sub(_like(variable, value))
        else:
            variable.assign_sub(_like(variable, value))

    def apply(self, grads: Any, trainable_variables: Any = None) -> None:
        if self.loss_scale_factor is not None:  # Keras divides by an operator, which slices have not
            grads = [convert(g) if isinstance(g, IndexedSlices) else g for g in grads]
        super().apply(grads, trainable_variables)

    def _clip_by_norm(self, values: Any, axes: Any = None) -> Any:
        return clip.clip_by_norm(values, self.clipnorm, axes)

    def _backend_increment_gradient_accumulators(self, grads: Any, acc_grads: Any) -> None:
        for gradient, total in zip(grads, acc_grads, strict=True):
            self.assign_add(total, gradient)


def _like(variable: Any, value: Any) -> Any:
    """A new value, or rows of it, in the variable's dtype and, for a number, shape."""
    found = unwrapped(variable)
    dtype = found.dtype if isinstance(found, Variable) else variable.dtype
    return cast(value, dtype)
