"""The optimizers of `tf.tpu.experimental.embedding`: settings, and the state that belongs to a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from gradtape._src.tf.initializers import constant_initializer

__all__ = ["FTRL", "SGD", "Adagrad", "AdagradMomentum", "Adam", "CustomCombiner", "CustomOptimizer", "WithSlots"]


class WithSlots:
    """Settings with slots: variables of the shape of the table. Equal settings are equal."""

    def __init__(self, slot_variable_creation_fn: Any = None) -> None:
        if slot_variable_creation_fn is not None and not callable(slot_variable_creation_fn):
            raise ValueError(
                "Argument `slot_variable_creation_fn` must be either None or a callable. Received: "
                f"{slot_variable_creation_fn}"
            )
        self.slot_variable_creation_fn = slot_variable_creation_fn

    def _slot_names(self) -> list[str]:
        return []

    def _slot_initializers(self) -> list[Any]:
        return []

    def _create_slots(self, table: Any, variable_creator: Callable[[str, Any], Any]) -> dict[str, Any]:
        """The variables of a table's slots by name, made by the user's function or by `variable_creator`."""
        names, initializers = self._slot_names(), self._slot_initializers()
        if self.slot_variable_creation_fn is not None:
            made: dict[str, Any] = self.slot_variable_creation_fn(table, names, initializers)
            return made
        return {name: variable_creator(name, value) for name, value in zip(names, initializers, strict=True)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash(tuple(vars(self).items()))


class Optimizer(WithSlots):
    """The settings that all optimizers have."""

    _SLOTS: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        learning_rate: float | Callable[[], float],
        use_gradient_accumulation: bool = True,
        clip_weight_min: float | None = None,
        clip_weight_max: float | None = None,
        weight_decay_factor: float | None = None,
        multiply_weight_decay_factor_by_learning_rate: bool | None = None,
        clipvalue: tuple[float, float] | float | None = None,
        slot_variable_creation_fn: Any = None,
        low_dimensional_packing_status: bool = False,
    ) -> None:
        super().__init__(slot_variable_creation_fn)
        if not use_gradient_accumulation and clipvalue is not None:
            raise ValueError(
                "When `use_gradient_accumulation` is False, gradient clipping cannot be used and `clipvalue` should be "
                f"left as None. Received value {clipvalue} for argument `clipvalue`."
            )
        limits: tuple[float | None, float | None] = (None, None)
        if clipvalue is not None:
            limits = clipvalue if isinstance(clipvalue, tuple) else (-1.0 * clipvalue, clipvalue)
        self.learning_rate = learning_rate
        self.use_gradient_accumulation = use_gradient_accumulation
        self.clip_weight_min, self.clip_weight_max = clip_weight_min, clip_weight_max
        self.clip_gradient_min, self.clip_gradient_max = limits
        self.weight_decay_factor = weight_decay_factor
        self.multiply_weight_decay_factor_by_learning_rate = multiply_weight_decay_factor_by_learning_rate
        self.low_dimensional_packing_status = low_dimensional_packing_status

    def _slot_names(self) -> list[str]:
        return list(self._SLOTS)

    def _slot_initializers(self) -> list[Any]:
        """The first slot of Adagrad and FTRL has an initial value; the others are 0."""
        first = getattr(self, "initial_accumulator_value", 0.0)
        return [constant_initializer(first if i == 0 else 0.0) for i in range(len(self._SLOTS))]


class SGD(Optimizer):
    """Gradient descent.

    Args:
      learning_rate: A number, or a function that returns one.
      use_gradient_accumulation: Whether gradients of equal ids are added before the update.
      clip_weight_min: A lower limit of the table's values.
      clip_weight_max: An upper limit of the table's values.
      weight_decay_factor: The factor of weight decay, or None.
      multiply_weight_decay_factor_by_learning_rate: Whether weight decay is multiplied by the learning rate.
      clipvalue: A limit of the gradients' absolute values, or a pair of limits.
      low_dimensional_packing_status: Accepted for compatibility: how TPUs store narrow tables.

    >>> tf.tpu.experimental.embedding.SGD(0.1, clipvalue=2.0).clip_gradient_min
    -2.0
    """

    def __init__(
        self,
        learning_rate: float | Callable[[], float] = 0.01,
        use_gradient_accumulation: bool = True,
        clip_weight_min: float | None = None,
        clip_weight_max: float | None = None,
        weight_decay_factor: float | None = None,
        multiply_weight_decay_factor_by_learning_rate: bool | None = None,
        clipvalue: tuple[float, float] | float | None = None,
        low_dimensional_packing_status: bool = False,
    ) -> None:
        super().__init__(
            learning_rate,
            use_gradient_accumulation,
            clip_weight_min,
            clip_weight_max,
            weight_decay_factor,
            multiply_weight_decay_factor_by_learning_rate,
            clipvalue,
            None,
            low_dimensional_packing_status,
        )


class Adagrad(Optimizer):
    """Adagrad, with the slot `accumulators`.

    Args:
      learning_rate: A number, or a function that returns one.
      initial_accumulator_value: The initial value of the slot, a positive number.
      use_gradient_accumulation: Whether gradients of equal ids are added before the update.
      clip_weight_min: A lower limit of the table's values.
      clip_weight_max: An upper limit of the table's values.
      weight_decay_factor: The factor of weight decay, or None.
      multiply_weight_decay_factor_by_learning_rate: Whether weight decay is multiplied by the learning rate.
      slot_variable_creation_fn: A function of the table's variable, the slots' names and their initializers, which
        returns the slots by name.
      clipvalue: A limit of the gradients' absolute values, or a pair of limits.
      low_dimensional_packing_status: Accepted for compatibility: how TPUs store narrow tables.

    >>> tf.tpu.experimental.embedding.Adagrad(0.1).initial_accumulator_value
    0.1
    """

    _SLOTS = ("accumulators",)

    def __init__(
        self,
        learning_rate: float | Callable[[], float] = 0.001,
        initial_accumulator_value: float = 0.1,
        use_gradient_accumulation: bool = True,
        clip_weight_min: float | None = None,
        clip_weight_max: float | None = None,
        weight_decay_factor: float | None = None,
        multiply_weight_decay_factor_by_learning_rate: bool | None = None,
        slot_variable_creation_fn: Any = None,
        clipvalue: tuple[float, float] | float | None = None,
        low_dimensional_packing_status: bool = False,
    ) -> None:
        super().__init__(
            learning_rate,
            use_gradient_accumulation,
            clip_weight_min,
            clip_weight_max,
            weight_decay_factor,
            multiply_weight_decay_factor_by_learning_rate,
            clipvalue,
            slot_variable_creation_fn,
            low_dimensional_packing_status,
        )
        self.initial_accumulator_value = _positive_accumulator(initial_accumulator_value)


class AdagradMomentum(Optimizer):
    """Adagrad with momentum, with the slots `accumulators` and `momenta`.

    Args:
      learning_rate: A number, or a function that returns one.
      momentum: The decay of the moving average of the updates.
      use_nesterov: Whether the momentum is Nesterov's.
      exponent: The exponent of the accumulator's root, a positive number.
      beta2: The decay of the accumulator; 1 for a sum.
      epsilon: A positive number that is added to the root.
      use_gradient_accumulation: Whether gradients of equal ids are added before the update.
      clip_weight_min: A lower limit of the table's values.
      clip_weight_max: An upper limit of the table's values.
      weight_decay_factor: The factor of weight decay, or None.
      multiply_weight_decay_factor_by_learning_rate: Whether weight decay is multiplied by the learning rate.
      slot_variable_creation_fn: A function of the table's variable, the slots' names and their initializers, which
        returns the slots by name.
      clipvalue: A limit of the gradients' absolute values, or a pair of limits.
      low_dimensional_packing_status: Accepted for compatibility: how TPUs store narrow tables.

    >>> tf.tpu.experimental.embedding.AdagradMomentum(momentum=0.9).exponent
    2
    """

    _SLOTS = ("accumulators", "momenta")

    def __init__(
        self,
        learning_rate: float | Callable[[], float] = 0.001,
        momentum: float = 0.0,
        use_nesterov: bool = False,
        exponent: float = 2,
        beta2: float = 1,
        epsilon: float = 1e-10,
        use_gradient_accumulation: bool = True,
        clip_weight_min: float | None = None,
        clip_weight_max: float | None = None,
        weight_decay_factor: float | None = None,
        multiply_weight_decay_factor_by_learning_rate: bool | None = None,
        slot_variable_creation_fn: Any = None,
        clipvalue: tuple[float, float] | float | None = None,
        low_dimensional_packing_status: bool = False,
    ) -> None:
        super().__init__(
            learning_rate,
            use_gradient_accumulation,
            clip_weight_min,
            clip_weight_max,
            weight_decay_factor,
            multiply_weight_decay_factor_by_learning_rate,
            clipvalue,
            slot_variable_creation_fn,
            low_dimensional_packing_status,
        )
        if epsilon <= 0:
            raise ValueError(f"Adagrad momentum: epsilon must be positive. Received: {epsilon}")
        if exponent <= 0:
            raise ValueError(f"Adagrad momentum: Precondition exponent must >0. Received: {exponent}")
        self.momentum, self.use_nesterov, self.exponent = momentum, use_nesterov, exponent
        self.beta2, self.epsilon = beta2, epsilon


class FTRL(Optimizer):
    """FTRL, with the slots `accumulators` and `linears`.

    Args:
      learning_rate: A number, or a function that returns one.
      learning_rate_power: The exponent of the accumulator, at most 0.
      l1_regularization_strength: The factor of the absolute values.
      l2_regularization_strength: The factor of the squares.
      beta: A number that is added to the learning rate's denominator.
      initial_accumulator_value: The initial value of the first slot, a positive number.
      use_gradient_accumulation: Whether gradients of equal ids are added before the update.
      clip_weight_min: A lower limit of the table's values.
      clip_weight_max: An upper limit of the table's values.
      weight_decay_factor: The factor of weight decay, or None.
      multiply_weight_decay_factor_by_learning_rate: Whether weight decay is multiplied by the learning rate.
      slot_variable_creation_fn: A function of the table's variable, the slots' names and their initializers, which
        returns the slots by name.
      clipvalue: A limit of the gradients' absolute values, or a pair of limits.
      multiply_linear_by_learning_rate: Whether the slot `linears` is multiplied by the learning rate.
      allow_zero_accumulator: Whether an accumulator may be 0.
      low_dimensional_packing_status: Accepted for compatibility: how TPUs store narrow tables.

    >>> tf.tpu.experimental.embedding.FTRL(0.1).learning_rate_power
    -0.5
    """

    _SLOTS = ("accumulators", "linears")

    def __init__(
        self,
        learning_rate: float | Callable[[], float] = 0.001,
        learning_rate_power: float = -0.5,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        beta: float = 0.0,
        initial_accumulator_value: float = 0.1,
        use_gradient_accumulation: bool = True,
        clip_weight_min: float | None = None,
        clip_weight_max: float | None = None,
        weight_decay_factor: float | None = None,
        multiply_weight_decay_factor_by_learning_rate: bool | None = None,
        slot_variable_creation_fn: Any = None,
        clipvalue: tuple[float, float] | float | None = None,
        multiply_linear_by_learning_rate: bool = False,
        allow_zero_accumulator: bool = False,
        low_dimensional_packing_status: bool = False,
    ) -> None:
        super().__init__(
            learning_rate,
            use_gradient_accumulation,
            clip_weight_min,
            clip_weight_max,
            weight_decay_factor,
            multiply_weight_decay_factor_by_learning_rate,
            clipvalue,
            slot_variable_creation_fn,
            low_dimensional_packing_status,
        )
        self.initial_accumulator_value = _positive_accumulator(initial_accumulator_value)
        self.learning_rate_power, self.beta = learning_rate_power, beta
        self.l1_regularization_strength = l1_regularization_strength
        self.l2_regularization_strength = l2_regularization_strength
        self.multiply_linear_by_learning_rate = multiply_linear_by_learning_rate
        self.allow_zero_accumulator = allow_zero_accumulator


class Adam(Optimizer):
    """Adam, with the slots `momenta` and `velocities`.

    Args:
      learning_rate: A number, or a function that returns one.
      beta_1: The decay of the first moment, at least 0 and less than 1.
      beta_2: The decay of the second moment, at least 0 and less than 1.
      epsilon: A positive number in the denominator.
      lazy_adam: Whether only the rows that occur in a step are updated.
      sum_inside_sqrt: Whether epsilon is added inside the square root.
      use_gradient_accumulation: Whether gradients of equal ids are added before the update.
      clip_weight_min: A lower limit of the table's values.
      clip_weight_max: An upper limit of the table's values.
      weight_decay_factor: The factor of weight decay, or None.
      multiply_weight_decay_factor_by_learning_rate: Whether weight decay is multiplied by the learning rate.
      slot_variable_creation_fn: A function of the table's variable, the slots' names and their initializers, which
        returns the slots by name.
      clipvalue: A limit of the gradients' absolute values, or a pair of limits.
      low_dimensional_packing_status: Accepted for compatibility: how TPUs store narrow tables.

    >>> tf.tpu.experimental.embedding.Adam(0.1) == tf.tpu.experimental.embedding.Adam(0.1)
    True
    """

    _SLOTS = ("momenta", "velocities")

    def __init__(
        self,
        learning_rate: float | Callable[[], float] = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-07,
        lazy_adam: bool = True,
        sum_inside_sqrt: bool = True,
        use_gradient_accumulation: bool = True,
        clip_weight_min: float | None = None,
        clip_weight_max: float | None = None,
        weight_decay_factor: float | None = None,
        multiply_weight_decay_factor_by_learning_rate: bool | None = None,
        slot_variable_creation_fn: Any = None,
        clipvalue: tuple[float, float] | float | None = None,
        low_dimensional_packing_status: bool = False,
    ) -> None:
        super().__init__(
            learning_rate,
            use_gradient_accumulation,
            clip_weight_min,
            clip_weight_max,
            weight_decay_factor,
            multiply_weight_decay_factor_by_learning_rate,
            clipvalue,
            slot_variable_creation_fn,
            low_dimensional_packing_status,
        )
        for name, value in (("beta_1", beta_1), ("beta_2", beta_2)):
            if not 0.0 <= value < 1.0:
                raise ValueError(f"Argument `{name}` must be >= 0 and < 1. Received: {value}.")
        if epsilon <= 0.0:
            raise ValueError(f"epsilon must be positive; got {epsilon}.")
        if not use_gradient_accumulation and not lazy_adam:
            raise ValueError(
                "When disabling lazy Adam (`lazy_adam=False`), gradient accumulation must be used. Set "
                "`use_gradient_accumulation` to True."
            )
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.lazy_adam, self.sum_inside_sqrt = lazy_adam, sum_inside_sqrt


class CustomOptimizer(Optimizer):
    """An optimizer that is given by a function; only TPUs run it.

    Args:
      custom_computation: A function of the gradient, the table, the slots, the learning rate and the
        hyperparameters, which returns the new table and the new slots.
      learning_rate: A number, or a function that returns one.
      slot_names: The names of the slots.
      slot_initializers: An initializer for each slot.
      hyperparameters: Numbers, or functions that return one.
      slot_dims: The rank of each slot: 1 or 2.

    >>> tf.tpu.experimental.embedding.CustomOptimizer(
    ...     lambda g, table, *rest: table - g, hyperparameters=[0.9]
    ... ).hyperparameters
    (0.9,)
    """

    def __init__(
        self,
        custom_computation: Callable[..., Any],
        learning_rate: float | Callable[[], float] = 0.01,
        slot_names: Sequence[str] | None = None,
        slot_initializers: Sequence[Any] | None = None,
        hyperparameters: Sequence[Any] | None = None,
        slot_dims: Sequence[int] | None = None,
    ) -> None:
        super().__init__(learning_rate, use_gradient_accumulation=False)
        self._names, self._initializers = tuple(slot_names or ()), tuple(slot_initializers or ())
        self._dims, self._hyperparameters = tuple(slot_dims or ()), tuple(hyperparameters or ())
        self._custom_computation = custom_computation
        count = len(self._names)
        if count != len(self._initializers):
            raise ValueError(
                f"The number of slot_names ({count}) must match the number of slot_initializers "
                f"({len(self._initializers)})."
            )
        if self._dims and len(self._dims) != count:
            raise ValueError(
                f"The number of slot_dims ({len(self._dims)}) must match the number of slot_names ({count})."
            )
        for name, dim in zip(self._names, self._dims, strict=False):
            if dim not in (1, 2):
                raise ValueError(f"Unsupported slot dim '{dim}' for slot '{name}'. Only 1D and 2D are supported.")

    def _slot_names(self) -> list[str]:
        return list(self._names)

    def _slot_initializers(self) -> list[Any]:
        return list(self._initializers)

    @property
    def custom_computation(self) -> Callable[..., Any]:
        """The function that updates a table."""
        return self._custom_computation

    @property
    def hyperparameters(self) -> tuple[Any, ...]:
        """The numbers that the function takes."""
        return self._hyperparameters

    @property
    def slot_dims(self) -> tuple[int, ...]:
        """The rank of each slot."""
        return self._dims


class CustomCombiner(WithSlots):
    """A combiner that is given by a function; only TPUs run it.

    Args:
      combiner_computation: A function of the number of ids, their rows and the weights, which returns one row.
      max_valency: The largest number of ids.
      num_weights: The number of trainable weights.
      initializer: The initializer of the weights.
      combiner_weights_learning_rate: The learning rate of the weights.

    >>> tf.tpu.experimental.embedding.CustomCombiner(lambda n, rows: tf.reduce_max(rows, 0), max_valency=8).max_valency
    8
    """

    CUSTOM_COMBINER_SLOT_NAME = "custom_combiner_variables"

    def __init__(
        self,
        combiner_computation: Callable[..., Any],
        max_valency: int,
        num_weights: int = 0,
        initializer: Any = None,
        combiner_weights_learning_rate: float | Callable[[], float] = 0.01,
    ) -> None:
        super().__init__()
        if num_weights > 0 and initializer is None:
            raise ValueError("When `num_weights` is greater than 0, `initializer` must be set.")
        self.combiner = f"custom_combiner_{hash(combiner_computation)}"
        self.combiner_computation = combiner_computation
        self.max_valency, self.num_weights, self.initializer = max_valency, num_weights, initializer
        self.combiner_weights_learning_rate = combiner_weights_learning_rate

    def _slot_names(self) -> list[str]:
        return [self.CUSTOM_COMBINER_SLOT_NAME] if self.num_weights > 0 else []

    def _slot_initializers(self) -> list[Any]:
        return [self.initializer] if self.num_weights > 0 else []

    def __str__(self) -> str:
        return self.combiner


def _positive_accumulator(value: float) -> float:
    if value <= 0:
        raise ValueError(f"Argument `initial_accumulator_value` must be a positive float. Received: {value}")
    return value
