"""`tf.compat.v1.train`: the global step, learning rates that decay, and averages of variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.symbolic import current_graph, default_graph, graph_for_ops
from gradtape._src.conversion import convert
from gradtape._src.function.modes import init_scope
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math
from gradtape._src.tf.array import cast, where
from gradtape._src.variable import Variable

__all__ = [
    "ExponentialMovingAverage",
    "assert_global_step",
    "cosine_decay",
    "cosine_decay_restarts",
    "create_global_step",
    "exponential_decay",
    "get_global_step",
    "get_or_create_global_step",
    "global_step",
    "inverse_time_decay",
    "linear_cosine_decay",
    "natural_exp_decay",
    "piecewise_constant",
    "piecewise_constant_decay",
    "polynomial_decay",
]

# -- the global step -------------------------------------------------------------------------------------------------
_steps: list[Variable] = []
_KEY = "global_step"


def _found(graph: Any) -> list[Any]:
    """The global step, from a collection of the graph."""
    builder = graph or default_graph()
    return _steps if builder is None or current_graph() is not None else builder.get_collection_ref(_KEY)


def get_global_step(graph: Any = None) -> Variable | None:
    """The global step, or None before it is created."""
    found = _found(graph)
    return found[0] if found else None


def create_global_step(graph: Any = None) -> Variable:
    """The global step, an int64 variable that begins at zero. ValueError if there is one."""
    found = _found(graph)
    if found:
        raise ValueError('"global_step" already exists.')
    with init_scope():
        step = Variable(np.int64(0), trainable=False, name="global_step")
    found.append(step)
    return step


def get_or_create_global_step(graph: Any = None) -> Variable:
    """The global step, created if there is none.

    >>> get_or_create_global_step().name
    'global_step:0'
    """
    found = get_global_step()
    return create_global_step() if found is None else found


def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The number in a global step."""
    if sess is not None and hasattr(sess, "run"):
        return int(sess.run(global_step_tensor))
    return int(convert(global_step_tensor).numpy())


def assert_global_step(global_step_tensor: Any) -> None:
    """TypeError if a variable cannot be a global step: it has to be a whole number."""
    if not global_step_tensor.dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {global_step_tensor.dtype}')
    if tuple(global_step_tensor.shape) != ():
        raise TypeError(f'Existing "global_step" is not scalar: {global_step_tensor.shape}')


# -- learning rates --------------------------------------------------------------------------------------------------
def _decayed(step: Any, rate: Callable[[Tensor], Tensor], dtype: Any = "float32") -> Any:
    """A function that computes the rate at the current step, as in TensorFlow's eager mode; in a graph, the rate as a
    tensor.
    """
    if step is None:
        raise ValueError("global_step is required for learning rate decay.")
    graph = graph_for_ops()
    if graph is not None:
        return graph.record(lambda now: rate(cast(convert(now), dtype)), (step,), {}, "decayed_learning_rate")
    return lambda: rate(cast(convert(step() if callable(step) else step), dtype))


def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """learning_rate * decay_rate ^ (step / decay_steps), as a function.

    >>> float(exponential_decay(1.0, 10, 10, 0.5)())
    0.5
    """

    def rate(step: Tensor) -> Any:
        exponent = step / decay_steps
        return learning_rate * math.pow(convert(decay_rate, "float32"), math.floor(exponent) if staircase else exponent)

    return _decayed(global_step, rate)


def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """learning_rate * exp(-decay_rate * step / decay_steps), as a function.

    >>> round(float(natural_exp_decay(1.0, 10, 10, 1.0)()), 4)
    0.3679
    """

    def rate(step: Tensor) -> Any:
        exponent = step / decay_steps
        return learning_rate * math.exp(-decay_rate * (math.floor(exponent) if staircase else exponent))

    return _decayed(global_step, rate)


def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """learning_rate / (1 + decay_rate * step / decay_steps), as a function.

    >>> float(inverse_time_decay(1.0, 10, 10, 1.0)())
    0.5
    """

    def rate(step: Tensor) -> Any:
        time = step / decay_steps
        return learning_rate / (1.0 + decay_rate * (math.floor(time) if staircase else time))

    return _decayed(global_step, rate)


def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """From learning_rate to end_learning_rate in decay_steps, along a power, as a function.

    >>> float(polynomial_decay(1.0, 5, 10, 0.0)())
    0.5
    """

    def rate(step: Tensor) -> Any:
        steps = convert(decay_steps, "float32")
        if cycle:
            steps = steps * math.maximum(1.0, math.ceil(step / steps))
        else:
            step = math.minimum(step, steps)
        left = math.pow(1.0 - step / steps, convert(power, "float32"))
        return (learning_rate - end_learning_rate) * left + end_learning_rate

    return _decayed(global_step, rate)


def piecewise_constant(x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None) -> Any:
    """values[i] while x is above boundaries[i - 1] and at most boundaries[i], as a function.

    >>> float(piecewise_constant(7, [5, 15], [1.0, 0.5, 0.1])())
    0.5
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")

    def rate() -> Tensor:
        at = convert(x() if callable(x) else x)
        found = convert(values[0])
        for boundary, value in zip(boundaries, values[1:], strict=True):
            found = where(at > cast(convert(boundary), at.dtype), convert(value), found)
        return found

    return rate


piecewise_constant_decay = piecewise_constant


def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: float = 0.0, name: str | None = None
) -> Any:
    """From learning_rate to alpha times it in decay_steps, along a cosine, as a function.

    >>> round(float(cosine_decay(1.0, 5, 10)()), 4)
    0.5
    """

    def rate(step: Tensor) -> Any:
        done = math.minimum(step, float(decay_steps)) / float(decay_steps)
        return learning_rate * ((1.0 - alpha) * 0.5 * (1.0 + math.cos(np.float32(np.pi) * done)) + alpha)

    return _decayed(global_step, rate)


def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """A line to zero times a cosine of num_periods periods, as a function."""

    def rate(step: Tensor) -> Any:
        done = math.minimum(step, float(decay_steps)) / float(decay_steps)
        cosine = 0.5 * (1.0 + math.cos(np.float32(2.0 * np.pi * num_periods) * done))
        return learning_rate * ((alpha + 1.0 - done) * cosine + beta)

    return _decayed(global_step, rate)


def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Any:
    """Cosine decays one after the other, each t_mul as long and m_mul as high as the last one, as a function."""

    def rate(step: Tensor) -> Any:
        done = step / float(first_decay_steps)
        if t_mul == 1.0:
            period: Any = math.floor(done)
            inside = done - period
        else:
            period = math.floor(math.log(1.0 - done * (1.0 - t_mul)) / np.log(t_mul))
            start = (1.0 - math.pow(convert(t_mul, "float32"), period)) / (1.0 - t_mul)
            inside = (done - start) / math.pow(convert(t_mul, "float32"), period)
        height = 0.5 * math.pow(convert(m_mul, "float32"), period) * (1.0 + math.cos(np.float32(np.pi) * inside))
        return learning_rate * ((1.0 - alpha) * height + alpha)

    return _decayed(global_step, rate)


# -- averages --------------------------------------------------------------------------------------------------------
class ExponentialMovingAverage:
    """Exponential moving averages of variables: average = decay * average + (1 - decay) * variable.

    With `num_updates`, the decay is at most (1 + num_updates) / (10 + num_updates). As in TensorFlow, `zero_debias` has
    no effect on averages of variables.

    >>> import gradtape as tf
    >>> v = tf.Variable(1.0)
    >>> ema = tf.train.ExponentialMovingAverage(decay=0.5)
    >>> _ = ema.apply([v])
    >>> _ = v.assign(3.0), ema.apply([v])
    >>> float(ema.average(v))
    2.0

    >>> v = tf.Variable(1.0, name="v")
    >>> average = tf.train.ExponentialMovingAverage(decay=0.5)
    >>> average.apply([v])
    >>> average.name, average.average_name(v)
    ('ExponentialMovingAverage', 'v/ExponentialMovingAverage')
    >>> sorted(average.variables_to_restore([v]))
    ['v/ExponentialMovingAverage']
    """

    def __init__(
        self,
        decay: float,
        num_updates: Any = None,
        zero_debias: bool = False,
        name: str = "ExponentialMovingAverage",
    ) -> None:
        self._decay, self._num_updates, self._name = decay, num_updates, name
        self._averages: dict[int, Variable] = {}
        self._kept: list[Any] = []

    @property
    def name(self) -> str:
        """The name, which is part of the averages' names."""
        return self._name

    def apply(self, var_list: Sequence[Any] | None = None) -> None:
        """Update the averages of variables; the first time, an average is the variable's value."""
        for variable in var_list or ():
            if variable.dtype.name not in ("bfloat16", "float16", "float32", "float64"):
                raise TypeError(f"The variables must be half, float, or double: {variable.name}")
            average = self._averages.get(id(variable))
            if average is None:
                average = self._create(variable)
            decay = self._decay_for(variable)
            average.assign_sub((average.read_value() - variable) * cast(1.0 - decay, variable.dtype))

    def _decay_for(self, variable: Any) -> Tensor:
        decay = convert(self._decay, "float32")
        if self._num_updates is not None:
            updates = cast(convert(self._num_updates), "float32")
            decay = math.minimum(decay, (1.0 + updates) / (10.0 + updates))
        return decay

    def _create(self, variable: Any) -> Variable:
        with init_scope():
            value = variable.read_value() if isinstance(variable, Variable) else convert(variable)
            name = self.average_name(variable)
            made = self._averages[id(variable)] = Variable(value, trainable=False, name=name)
        self._kept.append(variable)
        return made

    def average(self, var: Any) -> Any:
        """Return the average of a variable; None if there is none."""
        return self._averages.get(id(var))

    def average_name(self, var: Any) -> str:
        """Return the name of the average of a variable."""
        return f"{var.name.partition(':')[0]}/{self._name}"

    def variables_to_restore(self, moving_avg_variables: Any = None) -> dict[str, Any]:
        """Map names in a checkpoint to variables to restore: averages for the variables that have one."""
        return {self.average_name(variable): variable for variable in moving_avg_variables or self._kept}
