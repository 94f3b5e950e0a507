"""`tf.compat.v1.train.*Optimizer`: TensorFlow 1's optimizers, in eager code and in functions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

from gradtape._src import nest
from gradtape._src.arrays.symbolic import graph_for_ops
from gradtape._src.conversion import convert
from gradtape._src.function.modes import init_scope
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.inspect.gradient_tape import GradientTape
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math
from gradtape._src.tf.array import cast, fill, gather, size
from gradtape._src.tf.indexing import tensor_scatter_nd_add, tensor_scatter_nd_update, unique
from gradtape._src.tf.segments import unsorted_segment_sum
from gradtape._src.variable import Variable

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "FtrlOptimizer",
    "GradientDescentOptimizer",
    "MomentumOptimizer",
    "Optimizer",
    "ProximalAdagradOptimizer",
    "ProximalGradientDescentOptimizer",
    "RMSPropOptimizer",
]


class Optimizer:
    """The base class: a subclass defines its slots, and how a gradient updates them and the variable.

    `_update(var, g, slots)` takes tensors and returns the new values. A sparse gradient, whose indices are unique by
    then, changes only its rows: `_update` gets these rows.
    """

    GATE_NONE, GATE_OP, GATE_GRAPH = 0, 1, 2
    _slot_values: ClassVar[dict[str, float]] = {}  # by name of a slot, its initial value

    def __init__(self, use_locking: bool, name: str) -> None:
        if not name:
            raise ValueError("Must specify the optimizer name")
        self._use_locking, self._name = use_locking, name
        self._slots: dict[str, dict[int, Variable]] = {}
        self._kept: list[Variable] = []  # variables with slots: kept alive, so that their ids stay unique
        self._names: dict[str, int] = {}

    def get_name(self) -> str:
        """The optimizer's name."""
        return self._name

    # -- slots -------------------------------------------------------------------------------------------------------
    def get_slot_names(self) -> list[str]:
        """The names of the slots that were created."""
        return sorted(self._slots)

    def get_slot(self, var: Variable, name: str) -> Variable | None:
        """A variable of the optimizer for one of the model; None if there is none."""
        return self._slots.get(name, {}).get(id(var))

    def variables(self) -> list[Variable]:
        """The variables of the optimizer, in the order of their names."""
        slots = [slot for slots in self._slots.values() for slot in slots.values()]
        return sorted([*self._extra_variables(), *slots], key=lambda variable: variable.name)

    def _extra_variables(self) -> list[Variable]:
        return []

    def _first_values(self) -> dict[str, float]:
        return self._slot_values

    def _slots_of(self, var: Variable) -> dict[str, Variable]:
        found = {}
        for name, value in self._first_values().items():
            slots = self._slots.setdefault(name, {})
            if id(var) not in slots:
                with init_scope():
                    slots[id(var)] = Variable(
                        fill(var.shape, cast(convert(value), var.dtype)), trainable=False, name=self._slot_name(var)
                    )
                self._kept.append(var)
            found[name] = slots[id(var)]
        return found

    def _slot_name(self, var: Variable) -> str:
        base = f"{var.name.partition(':')[0]}/{self._name}"
        count = self._names[base] = self._names.get(base, -1) + 1
        return f"{base}_{count}" if count else base

    # -- gradients ---------------------------------------------------------------------------------------------------
    def minimize(
        self,
        loss: Any,
        global_step: Variable | None = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """Compute the gradients of a function without arguments, and apply them. In a graph the loss is a tensor, and
        the result an operation that does so.
        """
        pairs = self.compute_gradients(loss, var_list, grad_loss=grad_loss)
        if all(g is None for g, _ in pairs):
            variables = [variable.name for _, variable in pairs]
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {variables} and loss {loss}."
            )
        return self.apply_gradients(pairs, global_step, name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Variable]]:
        """The gradients of a function without arguments, each with its variable; in a graph those of a tensor."""
        graph = graph_for_ops()
        if graph is not None:
            variables = graph.get_collection("trainable_variables") if var_list is None else nest.flatten(var_list)
            if not variables:
                raise ValueError("No variables to optimize.")
            value = loss() if callable(loss) else loss
            slopes = graph.gradients(value, variables, grad_loss, None, "none", "gradients")
            return list(zip(slopes, variables, strict=True))
        if not callable(loss):
            raise RuntimeError(
                "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled. "
                "Pass a lambda, or compute gradients with a tf.GradientTape and use apply_gradients."
            )
        with GradientTape() as tape:
            if var_list is not None:
                tape.watch(list(var_list() if callable(var_list) else var_list))
            value = loss()
        wanted = var_list() if callable(var_list) else var_list
        variables = list(tape.watched_variables() if wanted is None else wanted)
        return list(zip(tape.gradient(value, variables, grad_loss), variables, strict=True))

    def apply_gradients(
        self, grads_and_vars: Iterable[Sequence[Any]], global_step: Variable | None = None, name: str | None = None
    ) -> Any:
        """Change variables by their gradients; a variable without one stays."""
        pairs = [(g, variable) for g, variable in grads_and_vars]
        if not pairs:
            raise ValueError("No variables provided.")
        if all(g is None for g, _ in pairs):
            raise ValueError(f"No gradients provided for any variable: {[variable.name for _, variable in pairs]}.")
        self._prepare([variable for g, variable in pairs if g is not None])
        graph = graph_for_ops()
        if graph is None:
            self._apply_all([g for g, _ in pairs], [variable for _, variable in pairs], global_step)
            return global_step
        targets = [graph.target(variable) for _, variable in pairs]
        step = None if global_step is None else graph.target(global_step)
        op = graph.record(self._apply_all, ([g for g, _ in pairs], targets, step), {}, name or self._name)
        graph.add_to_collection("train_op", op)
        return op

    def _apply_all(self, gradients: list[Any], variables: list[Any], global_step: Any) -> None:
        """Apply gradients to variables, and count the step."""
        for g, variable in zip(gradients, variables, strict=True):
            if isinstance(g, IndexedSlices):
                self._apply_rows(variable, *_distinct(g))
            elif g is not None:
                self._apply(variable, convert(g))
        self._finish()
        if global_step is not None:
            global_step.assign_add(cast(convert(1), global_step.dtype))

    def _prepare(self, variables: list[Variable]) -> None:
        """Create what is needed before gradients are applied."""
        for variable in variables:
            self._slots_of(variable)

    def _finish(self) -> None:
        """Update what changes once for all variables."""

    def _apply(self, var: Variable, g: Tensor) -> None:
        slots = self._slots_of(var)
        value, changed = self._update(var.read_value(), g, {name: slot.read_value() for name, slot in slots.items()})
        for name, new in changed.items():
            slots[name].assign(new)
        var.assign(value)

    def _apply_rows(self, var: Variable, indices: Tensor, g: Tensor) -> None:
        slots = self._slots_of(var)
        rows = {name: gather(slot.read_value(), indices) for name, slot in slots.items()}
        value, changed = self._update(gather(var.read_value(), indices), g, rows)
        places = indices[:, None]
        for name, new in changed.items():
            slots[name].assign(tensor_scatter_nd_update(slots[name].read_value(), places, new))
        var.assign(tensor_scatter_nd_update(var.read_value(), places, value))

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        raise NotImplementedError

    @staticmethod
    def _number(value: Any, like: Tensor) -> Tensor:
        """A hyperparameter, which may be a function, in the dtype of a variable."""
        return cast(convert(value() if callable(value) else value), like.dtype)


def _distinct(g: IndexedSlices) -> tuple[Tensor, Tensor]:
    """Unique indices, and the sums of the rows for them."""
    indices, places = unique(g.indices)
    count = indices.shape[0]
    return indices, unsorted_segment_sum(g.values, places, size(indices) if count is None else count)


class GradientDescentOptimizer(Optimizer):
    """var -= learning_rate * g.

    >>> import gradtape as tf
    >>> v = tf.Variable(1.0)
    >>> _ = tf.compat.v1.train.GradientDescentOptimizer(0.25).minimize(lambda: v * v)
    >>> float(v)
    0.5
    """

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._rate = learning_rate

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        return var - self._number(self._rate, var) * g, {}


class MomentumOptimizer(Optimizer):
    """Gradient descent along a sum of gradients that fades, or Nesterov's variant of it."""

    _slot_values: ClassVar[dict[str, float]] = {"momentum": 0.0}

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._rate, self._momentum, self._nesterov = learning_rate, momentum, use_nesterov

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        momentum = self._number(self._momentum, var)
        total = momentum * slots["momentum"] + g
        step = g + momentum * total if self._nesterov else total
        return var - self._number(self._rate, var) * step, {"momentum": total}


class AdagradOptimizer(Optimizer):
    """Gradient descent with a rate for each element: less where gradients were large."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._rate, self._start = learning_rate, initial_accumulator_value

    def _first_values(self) -> dict[str, float]:
        return {"accumulator": self._start}

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        total = slots["accumulator"] + g * g
        return var - self._number(self._rate, var) * g / math.sqrt(total), {"accumulator": total}


class AdadeltaOptimizer(Optimizer):
    """Steps in the size of earlier steps, divided by the size of gradients."""

    _slot_values: ClassVar[dict[str, float]] = {"accum": 0.0, "accum_update": 0.0}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._rate, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        rho, epsilon = self._number(self._rho, var), self._number(self._epsilon, var)
        squares = rho * slots["accum"] + (1.0 - rho) * g * g
        step = math.sqrt(slots["accum_update"] + epsilon) * math.rsqrt(squares + epsilon) * g
        steps = rho * slots["accum_update"] + (1.0 - rho) * step * step
        return var - self._number(self._rate, var) * step, {"accum": squares, "accum_update": steps}


class RMSPropOptimizer(Optimizer):
    """Gradient descent divided by the size of recent gradients, with momentum; `centered` subtracts their mean."""

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._rate, self._decay, self._momentum = learning_rate, decay, momentum
        self._epsilon, self._centered = epsilon, centered

    def _first_values(self) -> dict[str, float]:
        return {"rms": 1.0, **({"mg": 0.0} if self._centered else {}), "momentum": 0.0}

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        decay = self._number(self._decay, var)
        squares = decay * slots["rms"] + (1.0 - decay) * g * g
        changed = {"rms": squares}
        size = squares
        if self._centered:
            changed["mg"] = decay * slots["mg"] + (1.0 - decay) * g
            size = squares - changed["mg"] * changed["mg"]
        rate, epsilon = self._number(self._rate, var), self._number(self._epsilon, var)
        step = self._number(self._momentum, var) * slots["momentum"] + rate * g * math.rsqrt(size + epsilon)
        return var - step, {**changed, "momentum": step}


class FtrlOptimizer(Optimizer):
    """Follow the regularized leader: weights stay zero while `l1_regularization_strength` outweighs their gradients."""

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float | None = None,
    ) -> None:
        if learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        super().__init__(use_locking, name)
        self._rate, self._power, self._start = learning_rate, learning_rate_power, initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength
        self._shrinkage, self._beta = l2_shrinkage_regularization_strength, beta or 0.0

    def _first_values(self) -> dict[str, float]:
        return {"accum": self._start, "linear": 0.0}

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        rate = self._number(self._rate, var)
        l1, l2 = self._number(self._l1, var), self._number(self._l2, var) + self._number(self._beta, var) / (2.0 * rate)
        shrunk = g + 2.0 * self._number(self._shrinkage, var) * var if self._shrinkage else g
        total = slots["accum"] + g * g
        power = self._number(-self._power, var)
        sigma = (math.pow(total, power) - math.pow(slots["accum"], power)) / rate
        linear = slots["linear"] + shrunk - sigma * var
        quadratic = math.pow(total, power) / rate + 2.0 * l2
        bounded = math.minimum(math.maximum(linear, -l1), l1)
        return (bounded - linear) / quadratic, {"accum": total, "linear": linear}


class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent, with weights drawn to zero by l1 and l2 penalties."""

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ) -> None:
        super().__init__(use_locking, name)
        self._rate = learning_rate
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _proximal(self, moved: Tensor, rate: Tensor) -> Tensor:
        l1, l2 = self._number(self._l1, moved), self._number(self._l2, moved)
        result: Tensor = math.sign(moved) * math.maximum(math.abs(moved) - rate * l1, 0.0) / (1.0 + rate * l2)
        return result

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        rate = self._number(self._rate, var)
        return self._proximal(var - rate * g, rate), {}


class ProximalAdagradOptimizer(ProximalGradientDescentOptimizer):
    """Adagrad, with weights drawn to zero by l1 and l2 penalties."""

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ) -> None:
        super().__init__(learning_rate, l1_regularization_strength, l2_regularization_strength, use_locking, name)
        self._start = initial_accumulator_value

    def _first_values(self) -> dict[str, float]:
        return {"accumulator": self._start}

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        total = slots["accumulator"] + g * g
        rate = self._number(self._rate, var) / math.sqrt(total)
        return self._proximal(var - rate * g, rate), {"accumulator": total}


class AdamOptimizer(Optimizer):
    """Adam; `epsilon` is added to the size of gradients before their bias is corrected ("epsilon hat" of the paper).

    A sparse gradient lets the moments of all rows fade, as TensorFlow's does.
    """

    _slot_values: ClassVar[dict[str, float]] = {"m": 0.0, "v": 0.0}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._rate, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon
        self._powers: tuple[Variable, Variable] | None = None

    def _extra_variables(self) -> list[Variable]:
        return list(self._powers or ())

    def _prepare(self, variables: list[Variable]) -> None:
        super()._prepare(variables)
        if self._powers is None:
            first = min(variables, key=lambda variable: variable.name)
            with init_scope():
                made = [
                    Variable(self._number(beta, first.read_value()), trainable=False, name=f"beta{i}_power")
                    for i, beta in ((1, self._beta1), (2, self._beta2))
                ]
            self._powers = made[0], made[1]

    def _step(self, var: Tensor, m: Tensor, v: Tensor) -> Tensor:
        assert self._powers is not None
        one, two = (cast(power.read_value(), var.dtype) for power in self._powers)
        rate = self._number(self._rate, var) * math.sqrt(1.0 - two) / (1.0 - one)
        result: Tensor = rate * m / (math.sqrt(v) + self._number(self._epsilon, var))
        return result

    def _update(self, var: Tensor, g: Tensor, slots: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        beta1, beta2 = self._number(self._beta1, var), self._number(self._beta2, var)
        m = slots["m"] + (g - slots["m"]) * (1.0 - beta1)
        v = slots["v"] + (g * g - slots["v"]) * (1.0 - beta2)
        return var - self._step(var, m, v), {"m": m, "v": v}

    def _apply_rows(self, var: Variable, indices: Tensor, g: Tensor) -> None:
        slots, value, places = self._slots_of(var), var.read_value(), indices[:, None]
        moments = []
        for slot, beta, change in ((slots["m"], self._beta1, g), (slots["v"], self._beta2, g * g)):
            factor = self._number(beta, value)
            faded = slot.read_value() * factor
            slot.assign(tensor_scatter_nd_add(faded, places, change * (1.0 - factor)))
            moments.append(slot.read_value())
        var.assign_sub(self._step(value, *moments))

    def _finish(self) -> None:
        assert self._powers is not None
        for power, beta in zip(self._powers, (self._beta1, self._beta2), strict=True):
            power.assign(power.read_value() * self._number(beta, power.read_value()))
