"""Random programs with state, for tests that compare executors: what `random_graphs.py` leaves out.

A program is a function of two tensors, which is called several times with other values and sizes: it assigns to
variables in loops and branches, draws random numbers, calls other functions, has gradients of its own, mixes dtypes,
and computes with strings, ragged tensors and arrays that grow. A session calls it, and returns all results, gradients
or tangents, and the values of the variables. Sessions start from the same state, and give the same results on all
executors.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import gradtape as tf

Step = Callable[["State", Any, Any], Any]
"""Takes the state, a vector and a number; returns a vector of any length but 0."""


class State:
    """What a program changes: variables, a generator of random numbers, and a log of calls of Python.

    Eagerly, the tangent of a custom gradient comes from its forward code, and in a function from its gradient, as in
    TensorFlow: with tangents both have to agree.
    """

    def __init__(self) -> None:
        self.total = tf.Variable(0.25)
        self.weights = tf.Variable([0.5, -0.3, 0.8])
        self.count = tf.Variable(0, dtype=tf.int64)
        self.word = tf.Variable("")
        self.table = tf.Variable(tf.zeros([4, 2]))
        self.generator = tf.random.Generator.from_seed(5)
        self.calls: list[float] = []
        self.has_own_slopes = True  # whether the gradients of custom gradients differ from the derivatives

    def values(self) -> list[Any]:
        """The values of all variables, and what Python was called with."""
        variables = (self.total, self.weights, self.count, self.word, self.table, self.generator.state)
        return [*[np.asarray(v) for v in variables], np.asarray(self.calls)]


def _count_of(x: Any, most: int = 3) -> Any:
    """A number between 1 and `most` that depends on values."""
    return tf.cast(tf.abs(tf.reduce_sum(tf.sin(x)) * 7.0), tf.int32) % most + 1


# -- steps -----------------------------------------------------------------------------------------------------------
def _assign_in_loop(draw: random.Random) -> Step:
    rate, kind = draw.uniform(0.1, 0.5), draw.choice(["add", "assign", "rows"])

    def step(state: State, x: Any, y: Any) -> Any:
        def body(i: Any, z: Any) -> Any:
            if kind == "rows":
                state.table.scatter_nd_add([[i % 4]], tf.reshape(tf.stack([z[0], y]), [1, 2]))
                return i + 1, tf.sin(z) + state.table[i % 4, 0] * rate
            change = state.total.assign_add if kind == "add" else state.total.assign
            return i + 1, tf.sin(z) * change(tf.tanh(tf.reduce_sum(z)) * rate)

        return tf.while_loop(lambda i, _: i < _count_of(x), body, (0, x))[1]

    return step


def _assign_in_branch(draw: random.Random) -> Step:
    limit = draw.uniform(-0.5, 0.5)

    def step(state: State, x: Any, y: Any) -> Any:
        def more() -> Any:
            state.weights.assign(tf.tanh(state.weights + y))
            return x * tf.reduce_sum(state.weights)

        def less() -> Any:
            state.count.assign_add(2)
            return tf.concat([x, tf.sin(x[:1])], 0)

        return tf.cond(tf.reduce_sum(tf.cos(x)) > limit, more, less)

    return step


def _random(draw: random.Random) -> Step:
    kind = draw.choice(["normal", "uniform", "integers", "shuffle", "dropout", "loop"])

    def step(state: State, x: Any, y: Any) -> Any:
        if kind == "integers":
            return x + tf.cast(state.generator.uniform(tf.shape(x), 0, 3, tf.int32), x.dtype) * 0.1
        if kind == "shuffle":
            return tf.random.experimental.stateless_shuffle(x, seed=[seed, 1])
        if kind == "dropout":
            return tf.nn.experimental.stateless_dropout(x, 0.25, seed=[seed, 2]) * 0.5
        if kind == "loop":
            add = lambda i, z: (i + 1, z + state.generator.normal([]) * 0.1)  # noqa: E731
            return tf.while_loop(lambda i, _: i < _count_of(x), add, (0, x))[1]
        return x * getattr(state.generator, kind)(tf.shape(x))

    seed = draw.randrange(100)
    return step


def _call(draw: random.Random) -> Step:
    scale, kind = draw.uniform(0.2, 0.8), draw.choice(["plain", "state", "nested", "tape", "jvp"])

    @tf.function
    def inner(state: State, x: Any, y: Any) -> Any:
        if kind == "state":
            state.total.assign(state.total * scale)
            return tf.sin(x) * state.total
        return tf.sin(x) * scale + y

    @tf.function
    def middle(state: State, x: Any, y: Any) -> Any:
        return inner(state, inner(state, x, y), y) * 0.7

    def step(state: State, x: Any, y: Any) -> Any:
        if kind == "nested":
            return middle(state, x, y)
        if kind == "tape":
            with tf.GradientTape() as tape:
                tape.watch(x)
                z = tf.reduce_sum(inner(state, x, y) ** 2)
            return tape.gradient(z, x)
        if kind == "jvp":
            with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
                z = inner(state, x, y) * x
            return accumulator.jvp(z)
        return inner(state, x, y)

    return step


def _custom(draw: random.Random) -> Step:
    factor, kind = draw.uniform(0.5, 1.5), draw.choice(["plain", "variable", "recompute"])

    def step(state: State, x: Any, y: Any) -> Any:
        slope = factor if state.has_own_slopes else 1.0

        @tf.custom_gradient
        def plain(z: Any) -> Any:
            return tf.sin(z), lambda g: g * tf.cos(z) * slope

        @tf.custom_gradient
        def with_variable(z: Any) -> Any:
            value = tf.identity(state.total)  # the backward pass would read what is assigned later

            def backward(g: Any, variables: Any = None) -> Any:
                return g * value * slope, [tf.reduce_sum(g * z) * slope]

            return z * state.total, backward

        if kind == "recompute":
            return tf.recompute_grad(lambda z: tf.sin(z) * tf.tanh(z))(x)
        return (plain if kind == "plain" else with_variable)(x)

    return step


def _mixed(draw: random.Random) -> Step:
    dtype, kind = draw.choice([tf.float32, tf.float16, tf.bfloat16]), draw.choice(["cast", "integers", "complex"])

    def step(state: State, x: Any, y: Any) -> Any:
        if kind == "integers":
            n = tf.cast(x * 4.0, tf.int8)
            return x * tf.cast(tf.bitwise.bitwise_and(n, tf.constant(3, tf.int8)), x.dtype) * 0.3 + tf.sin(x)
        if kind == "complex":
            z = tf.complex(x, tf.sin(x) * y)
            return tf.abs(z * z + tf.complex(tf.ones_like(x), x)) * 0.3
        return tf.cast(tf.cast(x * 0.5, dtype) * tf.cast(2.0, dtype), x.dtype) + tf.sin(x)

    return step


def _text(draw: random.Random) -> Step:
    kind = draw.choice(["length", "variable", "loop", "split"])

    def step(state: State, x: Any, y: Any) -> Any:
        texts = tf.strings.as_string(tf.cast(x * 5.0, tf.int32))
        if kind == "length":
            return x * tf.cast(tf.strings.length(texts), x.dtype) * 0.3
        if kind == "split":
            joined = tf.strings.reduce_join(texts, separator=",")
            return tf.strings.to_number(tf.strings.split(joined, ","), x.dtype) * 0.1 + x * y
        if kind == "loop":
            join = lambda i, s: (i + 1, tf.strings.join([s, texts[0]]))  # noqa: E731
            word = tf.while_loop(lambda i, _: i < _count_of(x), join, (0, tf.constant("")))[1]
            return x * tf.cast(tf.strings.length(word), x.dtype) * 0.2
        state.word.assign(tf.strings.substr(state.word + texts[0], 0, 8))
        return x + tf.cast(tf.strings.length(state.word), x.dtype) * 0.1

    return step


def _ragged(draw: random.Random) -> Step:
    kind = draw.choice(["rows", "mask", "map", "concat"])

    def step(state: State, x: Any, y: Any) -> Any:
        cut = tf.minimum(_count_of(x), tf.size(x))
        rows = tf.RaggedTensor.from_row_lengths(tf.sin(x), tf.stack([cut, tf.size(x) - cut]))
        if kind == "rows":
            return tf.reduce_sum(rows * y, axis=1)
        if kind == "map":
            return tf.map_fn(lambda row: tf.reduce_sum(row) * y, rows, fn_output_signature=x.dtype)
        if kind == "concat":
            return tf.concat([rows, rows * 0.5], 1).flat_values
        return tf.reshape(tf.ragged.boolean_mask(tf.stack([x, x * y]), tf.stack([x > -9.0, x > 0.1])).flat_values, [-1])

    return step


def _grow(draw: random.Random) -> Step:
    kind = draw.choice(["array", "list", "rows", "break"])

    def step(state: State, x: Any, y: Any) -> Any:
        if kind == "list":
            body = lambda i, z: (i + 1, tf.concat([z, tf.sin(z[-1:]) * y], 0))  # noqa: E731
            invariants = (tf.TensorShape([]), tf.TensorShape([None]))
            return tf.while_loop(lambda i, _: i < _count_of(x), body, (0, x), shape_invariants=invariants)[1]
        if kind == "break":
            test = lambda i, z: tf.logical_and(i < 5, tf.reduce_sum(tf.abs(z)) < 4.0)  # noqa: E731
            return tf.while_loop(test, lambda i, z: (i + 1, z * 1.3 + 0.1), (0, x))[1]
        array = tf.TensorArray(x.dtype, size=0, dynamic_size=True, infer_shape=kind == "array")

        def write(i: Any, a: Any) -> Any:
            return i + 1, a.write(i, x[: tf.minimum(i + 1, tf.size(x))] * y if kind == "rows" else x[0] * y)

        array = tf.while_loop(lambda i, _: i < _count_of(x), write, (0, array))[1]
        return array.concat() if kind == "rows" else array.stack()

    return step


def _shapes(draw: random.Random) -> Step:
    limit, kind = draw.uniform(-0.4, 0.4), draw.choice(["mask", "unique", "partition", "repeat", "top", "switch"])

    def step(state: State, x: Any, y: Any) -> Any:
        kept = tf.concat([tf.boolean_mask(x, tf.sin(x) > limit), x[:1] * y], 0)
        if kind == "mask":
            return kept
        if kind == "unique":
            values, places = tf.unique(tf.cast(x * 2.0, tf.int32))
            return tf.cast(values, x.dtype) * 0.2 + tf.math.unsorted_segment_sum(x, places, tf.size(values))
        if kind == "partition":
            return tf.concat(tf.dynamic_partition(x, tf.cast(x > limit, tf.int32), 2), 0)
        if kind == "repeat":
            return tf.repeat(x[:3], tf.cast(x[:3] > limit, tf.int32) + 1)
        if kind == "top":
            return tf.math.top_k(kept, tf.minimum(tf.size(kept), 2))[0]
        return tf.switch_case(_count_of(x) - 1, [lambda: x, lambda: kept, lambda: x[:1] * y])

    return step


def _effects(draw: random.Random) -> Step:
    kind = draw.choice(["python", "numpy", "check"])

    def step(state: State, x: Any, y: Any) -> Any:
        if kind == "check":
            tf.debugging.assert_less(tf.reduce_max(tf.abs(tf.sin(x))), 2.0)
            return tf.gather(x, tf.range(tf.size(x))[::-1])

        def note(z: Any) -> Any:
            state.calls.append(float(np.sum(np.asarray(z))))
            return z * 0.5

        # Its gradient would call it again: the tape sees the argument without its history.
        call = tf.py_function if kind == "python" else tf.numpy_function
        noted = call(note, [tf.stop_gradient(tf.reduce_sum(tf.sin(x)))], tf.TensorSpec([], x.dtype))
        return x * tf.stop_gradient(noted)

    return step


KINDS: dict[str, Callable[[random.Random], Step]] = {
    "assign in a loop": _assign_in_loop,
    "assign in a branch": _assign_in_branch,
    "random": _random,
    "call": _call,
    "custom gradient": _custom,
    "mixed dtypes": _mixed,
    "text": _text,
    "ragged": _ragged,
    "grow": _grow,
    "shapes": _shapes,
    "effects": _effects,
}


class Session(NamedTuple):
    """A program: its function, what it is called with, and the names of its steps."""

    run: Callable[[State, Any, Any], Any]
    calls: list[tuple[np.ndarray, float]]
    names: list[str]


def random_session(seed: int) -> Session:
    """The program of a seed."""
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    names = [draw.choice(sorted(KINDS)) for _ in range(draw.randint(1, 4))]
    steps = [KINDS[name](draw) for name in names]

    def run(state: State, x: Any, y: Any) -> Any:
        total = tf.reduce_sum(state.weights) * y + state.total
        for step in steps:
            x = tf.tanh(step(state, x, y))
            total += tf.reduce_sum(tf.sin(x + 0.3))
        return total, x

    sizes = [draw.randint(2, 5) for _ in range(2)]
    calls = [(rng.uniform(-1.5, 1.5, sizes[i % 2]).astype("f"), float(rng.uniform(0.3, 1.2))) for i in range(4)]
    return Session(run, calls, names)


def _dense(gradients: Any) -> list[Any]:
    return [tf.convert_to_tensor(g) for g in gradients]


def results(session: Session, decorate: Callable[[Any], Any], inside: bool, order: int) -> list[Any]:
    """What the calls of a session return, with gradients, tangents, and the values of the variables.

    Derivatives are computed inside or outside of the function; of second order if `order` is 2.
    """
    tf.random.set_seed(7)
    state = State()
    state.has_own_slopes = order > 0

    def slopes(f: Callable[..., Any], x: Any, y: Any) -> Any:
        sources = [x, y, state.total, state.weights]
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            total, out = f(state, x, y)
        return (
            total,
            out,
            [tf.convert_to_tensor(g) for g in tape.gradient(total, sources, unconnected_gradients="zero")],
        )

    def second(f: Callable[..., Any], x: Any, y: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch([x, y])
            total, out, first = slopes(f, x, y)
            size = tf.add_n([tf.reduce_sum(tf.sin(g)) for g in first])
        return (
            total,
            out,
            first,
            [tf.convert_to_tensor(g) for g in outer.gradient(size, [x, y], unconnected_gradients="zero")],
        )

    def forward(f: Callable[..., Any], x: Any, y: Any) -> Any:
        with tf.autodiff.ForwardAccumulator([x, y], [tf.ones_like(x), tf.ones_like(y)]) as accumulator:
            total, out = f(state, x, y)
        return total, out, accumulator.jvp(total, unconnected_gradients="zero")

    compute = {0: forward, 1: slopes, 2: second}[order]
    whole = decorate(lambda x, y: compute(session.run, x, y)) if inside else None
    part = None if inside else decorate(lambda state, x, y: session.run(state, x, y))
    found: list[Any] = []
    for x, y in session.calls:
        given = (tf.constant(x), tf.constant(y))
        found += tf.nest.flatten(whole(*given) if part is None else compute(part, *given))
    return [*[np.asarray(each) for each in found], *state.values()]


def difference(seed: int, decorate: Callable[[Any], Any]) -> str:
    """What differs between eager code and an executor for the session of a seed; "" if nothing does."""
    session = random_session(seed)
    for order in (0, 1, 2):
        expected = results(session, lambda f: f, True, order)
        for inside in (True, False):
            found = results(session, decorate, inside, order)
            where = f"seed {seed} ({', '.join(session.names)}), order {order}, {'inside' if inside else 'outside'}"
            for i, (a, b) in enumerate(zip(found, expected, strict=True)):
                if a.dtype.kind == "O" or a.shape != b.shape:
                    same = a.shape == b.shape and a.tolist() == b.tolist()
                else:
                    same = np.allclose(a, b, rtol=2e-3, atol=2e-4, equal_nan=True)
                if not same:
                    return f"{where}: result {i} is {a} instead of {b}"
    return ""
