"""Random programs: a Hypothesis strategy, shared by the tests of derivatives and by the test of the reference core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.extra import numpy as npst

import gradtape as tf

settings.register_profile(
    "gradtape", derandomize=True, deadline=None, database=None, suppress_health_check=list(HealthCheck)
)
settings.load_profile("gradtape")

# A step takes the stack of tensors made so far and adds one to it. Every function is smooth where it is used and keeps
# numbers small, so that differences can be trusted: kinks are moved out of the way by `clear`.
AWAY = 0.000371


def clear(x: Any) -> Any:
    """Numbers with the same signs, none of them near 0; the jump lies where no argument is drawn."""
    return x + tf.sign(x + AWAY) * 0.5


ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "tanh": tf.tanh,
    "sin": tf.sin,
    "sigmoid": tf.sigmoid,
    "softplus": tf.math.softplus,
    "atan": tf.atan,
    "square": lambda x: tf.square(tf.tanh(x)),
    "sqrt": lambda x: tf.sqrt(1.5 + tf.sin(x)),
    "log": lambda x: tf.math.log(2.0 + tf.tanh(x)),
    "exp": lambda x: tf.exp(tf.sin(x)) * 0.5,
    "reciprocal": lambda x: 1.0 / (2.0 + tf.cos(x)),
    "relu": lambda x: tf.nn.relu(clear(x)),
    "abs": lambda x: tf.abs(clear(x)),
    "power": lambda x: (1.5 + tf.sin(x)) ** 2.5,
    "negative": lambda x: -x,
    "identity": tf.identity,
}
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: tf.sin(x) * y,
    "divide": lambda x, y: x / (2.0 + tf.tanh(y)),
    "atan2": lambda x, y: tf.atan2(tf.sin(x), 2.0 + tf.cos(y)),
    "where": lambda x, y: tf.where(x + y > AWAY, tf.sin(x), tf.cos(y)),
    "maximum": lambda x, y: tf.maximum(x, x + clear(y - x)),
    "squared_difference": lambda x, y: tf.math.squared_difference(tf.sin(x), tf.cos(y)),
}


def reduce(draw: Any, x: Any) -> Any:
    rank = len(x.shape)
    axes = draw(st.lists(st.integers(0, rank - 1), max_size=rank, unique=True)) if rank else []
    name = draw(st.sampled_from(["sum", "mean", "logsumexp", "prod"]))
    keepdims = draw(st.booleans())
    function = getattr(tf, f"reduce_{name}")
    return function(tf.sin(x) if name == "prod" else x, axis=axes or None, keepdims=keepdims)


def shape_anew(draw: Any, x: Any) -> Any:
    rank, size = len(x.shape), int(np.prod(x.shape))
    choice = draw(st.sampled_from(["flatten", "transpose", "expand", "reverse", "cumsum", "softmax", "split", "tile"]))
    if choice == "flatten":
        return tf.reshape(x, [-1])
    if choice == "transpose":
        return tf.transpose(x, draw(st.permutations(range(rank))))
    if choice == "expand":
        return tf.expand_dims(x, draw(st.integers(0, rank))) if rank < 3 else x
    if not rank or not size:
        return x
    axis = draw(st.integers(0, rank - 1))
    if choice == "reverse":
        return tf.reverse(x, [axis])
    if choice == "cumsum":
        return tf.cumsum(x, axis=axis, exclusive=draw(st.booleans()), reverse=draw(st.booleans())) * 0.5
    if choice == "softmax":
        return tf.nn.softmax(x, axis=axis)
    if choice == "split":
        cut = draw(st.integers(0, x.shape[axis]))
        return tf.concat(tf.split(x, [cut, x.shape[axis] - cut], axis=axis)[::-1], axis=axis)
    return tf.concat([x, tf.sin(x)], axis=axis) if size <= 12 else x


def look_up(draw: Any, x: Any) -> Any:
    rank = len(x.shape)
    if not rank or not x.shape[0]:
        return x
    if draw(st.booleans()):
        return tf.gather(x, draw(st.lists(st.integers(0, x.shape[0] - 1), min_size=1, max_size=3)), axis=0)
    return x[draw(npst.basic_indices(tuple(x.shape), max_dims=3, allow_newaxis=True))]


def multiply_matrices(draw: Any, x: Any) -> Any:
    if len(x.shape) < 2:
        return tf.einsum("a,b->ab", x, tf.sin(x)) if len(x.shape) == 1 and x.shape[0] <= 4 else x
    return tf.matmul(tf.tanh(x), x, transpose_b=True) / (1.0 + x.shape[-1])


@st.composite
def programs(draw: Any, steps: int = 6) -> tuple[Callable[..., Any], list[np.ndarray]]:
    """A program and its arguments. Drawing runs the program once, so that every step fits the shapes it meets."""
    shape = st.sampled_from([(), (2,), (3,), (2, 3), (1, 3), (2, 1), (2, 2, 2)])
    elements = st.floats(-1.5, 1.5).map(lambda v: round(v, 3))
    args = [draw(npst.arrays(np.float64, draw(shape), elements=elements)) for _ in range(draw(st.integers(1, 3)))]
    recipe: list[Callable[[list[Any]], Any]] = []
    stack = [tf.constant(a) for a in args]
    for _ in range(draw(st.integers(1, steps))):
        at = draw(st.integers(0, len(stack) - 1))
        kind = draw(st.sampled_from(["elementwise", "binary", "reduce", "shape", "look up", "matrices"]))
        if kind == "elementwise":
            name = draw(st.sampled_from(sorted(ELEMENTWISE)))
            step = _on(at, ELEMENTWISE[name])
        elif kind == "binary":
            fitting = [i for i, t in enumerate(stack) if _broadcasts(t, stack[at])]
            name = draw(st.sampled_from(sorted(BINARY)))
            step = _on_two(at, draw(st.sampled_from(fitting)), BINARY[name])
        else:
            # What the step does to this shape is drawn now, and repeated whenever the program runs.
            record: list[Any] = []
            act = {"reduce": reduce, "shape": shape_anew, "look up": look_up, "matrices": multiply_matrices}[kind]
            act(_recording(draw, record), stack[at])
            step = _replayed(at, act, record)
        result = step(stack)
        if not 0 < np.prod(result.shape, dtype=int) <= 24:  # means of nothing are NaN
            continue
        recipe.append(step)
        stack.append(result)

    def program(*given: Any) -> Any:
        values = list(given)
        for step in recipe:
            values.append(step(values))
        return values[-1]

    return program, args


def _on(at: int, function: Callable[[Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda stack: function(stack[at])


def _on_two(at: int, other: int, function: Callable[[Any, Any], Any]) -> Callable[[list[Any]], Any]:
    return lambda stack: function(stack[at], stack[other])


def _recording(draw: Any, record: list[Any]) -> Callable[[Any], Any]:
    def drawn(strategy: Any) -> Any:
        record.append(draw(strategy))
        return record[-1]

    return drawn


def _replayed(at: int, act: Callable[[Any, Any], Any], record: list[Any]) -> Callable[[list[Any]], Any]:
    def step(stack: list[Any]) -> Any:
        choices = iter(record)
        return act(lambda strategy: next(choices), stack[at])

    return step


def _broadcasts(x: Any, y: Any) -> bool:
    try:
        np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    except ValueError:
        return False
    return True
