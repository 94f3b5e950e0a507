"""Keras' optimizers with gradtape: they also accept plain variables, and keep sparse gradients sparse."""

from __future__ import annotations

import warnings
from typing import Any

from keras.src import tree
from keras.src.distribution import distribution_lib
from keras.src.optimizers import base_optimizer

from gradtape._src.checkpoint.tracking import attributes_of
from gradtape._src.conversion import convert
from gradtape._src.distribute.context import get_replica_context, has_strategy
from gradtape._src.distribute.reduction import ReduceOp
from gradtape._src.dtensor.layout import Layout
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.inspect.explain import NO_SOURCES, why_none
from gradtape._src.keras_backend.core import cast, dense
from gradtape._src.tf import clip
from gradtape._src.variable import Variable, copies_of, is_distributed, unwrapped

_NO_VALUE = object()


class Optimizer(base_optimizer.BaseOptimizer):
    """Keras' optimizer for variables of Keras and of gradtape."""

    def __setattr__(self, name: str, value: Any) -> None:
        if getattr(self, name, _NO_VALUE) is not value:  # `self.x = self.x` has no effect, not even on a property
            super().__setattr__(name, value)

    def _trackable_children(self) -> dict[str, Any]:
        """The attributes that checkpoints save."""
        return attributes_of(self)

    def _var_key(self, variable: Any) -> int:
        found = unwrapped(variable)
        found = getattr(found, "container", found)
        if isinstance(found, Variable) and is_distributed(found):
            return copies_of(found)[0].uid
        # By reference: a program with the slots of one variable is specific to it, see `VariableParam`.
        return found.ref().deref().uid if isinstance(found, Variable) else id(variable)

    def add_variable(self, *args: Any, layout: Any = None, name: Any = None, **options: Any) -> Any:
        """Create a variable of the optimizer's state.

        If a layout map has an entry for it, that decides its layout; otherwise it is sharded like the variable of the
        model, which may be a `DVariable`.
        """
        distribution = distribution_lib.distribution()
        own = None if distribution is None else distribution.get_tensor_layout(f"{self.name}/{name}")
        if isinstance(layout, Layout):
            layout = layout.sharding
        return super().add_variable(*args, layout=layout if own is None else own, name=name, **options)

    def assign(self, variable: Any, value: Any) -> None:
        variable.assign(dense(_like(variable, value)))  # zeros in rows without a slice

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
        if self.loss_scale_factor is not None:  # Keras uses an operator for it, which slices do not have
            grads = [convert(g) if isinstance(g, IndexedSlices) else g for g in grads]
        super().apply(grads, trainable_variables)

    def apply_gradients(self, grads_and_vars: Any) -> Any:
        """Apply gradients to variables, as Keras does; explain why there are none of both."""
        pairs = list(grads_and_vars)
        if not pairs:
            raise ValueError(f"No gradients provided for any variable. There are no variables, either. {NO_SOURCES}")
        return super().apply_gradients(pairs)

    def _filter_empty_gradients(self, grads: Any, vars: Any) -> Any:
        """Raise Keras' error for variables without gradients, or its warning, with the tape's explanation."""
        grads, vars = list(grads), list(vars)
        lost = [unwrapped(v) for g, v in zip(grads, vars, strict=True) if g is None]
        why = why_none(lost, most=3) if lost else ""
        if not why:
            return super()._filter_empty_gradients(grads, vars)
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                found = super()._filter_empty_gradients(grads, vars)
        except ValueError as error:
            raise ValueError(f"{error}\n{why}") from None
        for each in caught:
            warnings.warn(f"{each.message}\n{why}", each.category, stacklevel=4)
        return found

    def _backend_update_step(self, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
        """In a replica of a strategy: sum the gradients of all replicas, then update every copy."""
        context = get_replica_context()
        if not has_strategy() or context is None:
            super()._backend_update_step(grads, trainable_variables, learning_rate)
            return
        present = [g for g in grads if g is not None]
        total = iter(context.all_reduce(ReduceOp.SUM, present))
        summed = [None if g is None else next(total) for g in grads]
        self._in_all_replicas(self._update_copies, summed, trainable_variables, learning_rate)

    def _update_copies(self, strategy: Any, grads: Any, trainable_variables: Any, learning_rate: Any) -> None:
        for g, variable in zip(grads, trainable_variables, strict=True):
            if g is not None:
                strategy.extended.update(
                    variable, lambda copy, g, rate: self.update_step(g, copy, rate), args=(g, learning_rate)
                )

    def _apply_weight_decay(self, variables: Any) -> None:
        context = get_replica_context()
        if self.weight_decay is None or not has_strategy() or context is None:
            super()._apply_weight_decay(variables)
            return
        self._in_all_replicas(self._decay_copies, variables)

    def _decay_copies(self, strategy: Any, variables: Any) -> None:
        for variable in variables:
            if self._use_weight_decay(variable):
                strategy.extended.update(variable, self._decay)

    def _decay(self, variable: Any) -> None:
        variable.assign_sub(
            variable * cast(self.weight_decay, variable.dtype) * cast(self.learning_rate, variable.dtype)
        )

    def _in_all_replicas(self, function: Any, *args: Any) -> None:
        """Call a function across replicas, after all of them have arrived."""
        context = get_replica_context()
        assert context is not None
        args = tuple(tree.map_structure(unwrapped, arg) for arg in args)
        context.merge_call(function, args=args)

    def _clip_by_norm(self, values: Any, axes: Any = None) -> Any:
        return clip.clip_by_norm(values, self.clipnorm, axes)

    def _backend_increment_gradient_accumulators(self, grads: Any, acc_grads: Any) -> None:
        for gradient, total in zip(grads, acc_grads, strict=True):
            self.assign_add(total, gradient)


def _like(variable: Any, value: Any) -> Any:
    """A new value, or rows of it, in the dtype of the variable; scalars are broadcast to its shape."""
    found = unwrapped(variable)
    dtype = found.dtype if isinstance(found, Variable) else variable.dtype
    return cast(value, dtype)
