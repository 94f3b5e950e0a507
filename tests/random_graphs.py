"""Random programs by seed, for tests that compare executors: static ones, ones with control flow, and dynamic ones.

A program is a list of steps that were drawn while it ran once, on a stack of tensors. Every step is smooth where it is
used and keeps numbers small, so that first and second derivatives can be compared to many digits.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from random_programs import AWAY, BINARY, ELEMENTWISE

import gradtape as tf

Step = Callable[[list[Any]], Any]
"""Makes a tensor of the stack."""

SHAPES = [(), (2,), (3,), (2, 3), (3, 2), (1, 3), (2, 2, 2)]
LARGEST = 48


class RandomProgram(NamedTuple):
    """A function of some arrays, and the arrays; `is_dynamic`: shapes depend on values, so that XLA has no program."""

    run: Callable[..., Any]
    arguments: list[np.ndarray]
    is_dynamic: bool
    names: list[str]


def _size(x: Any) -> int:
    return int(np.prod(x.shape, dtype=int))


def _elementwise(draw: random.Random, stack: list[Any], at: int) -> Step:
    function = ELEMENTWISE[draw.choice(sorted(ELEMENTWISE))]
    return lambda values: function(values[at])


def _binary(draw: random.Random, stack: list[Any], at: int) -> Step:
    function = BINARY[draw.choice(sorted(BINARY))]
    other = draw.choice([i for i, t in enumerate(stack) if _broadcasts(t, stack[at])])
    return lambda values: function(values[at], values[other])


def _broadcasts(x: Any, y: Any) -> bool:
    try:
        np.broadcast_shapes(tuple(x.shape), tuple(y.shape))
    except ValueError:
        return False
    return True


def _reduce(draw: random.Random, stack: list[Any], at: int) -> Step:
    rank = len(stack[at].shape)
    axes = draw.sample(range(rank), draw.randint(0, rank)) or None
    function = draw.choice([tf.reduce_sum, tf.reduce_mean, tf.reduce_logsumexp, tf.math.reduce_euclidean_norm])
    keepdims = draw.random() < 0.5
    return lambda values: function(values[at] + 3.0, axis=axes, keepdims=keepdims) * 0.2


def _move(draw: random.Random, stack: list[Any], at: int) -> Step:
    x = stack[at]
    rank = len(x.shape)
    perm = draw.sample(range(rank), rank)
    moves: list[Step] = [lambda v: tf.reshape(v[at], [-1]), lambda v: tf.transpose(v[at], perm)]
    if rank:
        axis = draw.randrange(rank)
        n = int(x.shape[axis])
        cut = draw.randint(0, n)
        moves += [
            lambda v: tf.reverse(v[at], [axis]),
            lambda v: tf.cumsum(v[at], axis=axis) * 0.5,
            lambda v: tf.nn.softmax(v[at], axis=axis),
            lambda v: tf.concat(tf.split(v[at], [cut, n - cut], axis)[::-1], axis),
            lambda v: tf.roll(v[at], cut, axis),
            lambda v: tf.concat([v[at], tf.sin(v[at])], axis),
            lambda v: tf.stack([v[at], v[at] * 0.5], axis),
            lambda v: tf.pad(v[at], [[1, 0]] * rank),
            lambda v: tf.repeat(v[at], 2, axis),
            lambda v: tf.expand_dims(v[at], axis),
        ]
    return draw.choice(moves)


def _look_up(draw: random.Random, stack: list[Any], at: int) -> Step:
    x = stack[at]
    if not x.shape.rank:
        return lambda v: tf.fill([2], v[at])
    n = int(x.shape[0])
    where = [draw.randrange(n) for _ in range(draw.randint(1, 3))]
    start, step = draw.randrange(n), draw.choice([1, 2, -1])
    return draw.choice(
        [
            lambda v: tf.gather(v[at], where),
            lambda v: v[at][start:] if step > 0 else v[at][::-1],
            lambda v: v[at][..., ::step],
            lambda v: tf.tensor_scatter_nd_add(v[at], [[i] for i in where], tf.gather(tf.sin(v[at]), where)),
            lambda v: tf.math.unsorted_segment_sum(v[at], [i % 2 for i in range(n)], 2),
        ]
    )


def _multiply(draw: random.Random, stack: list[Any], at: int) -> Step:
    rank = len(stack[at].shape)
    if rank < 2:
        return lambda v: tf.tensordot(tf.sin(v[at]), v[at], 0) * 0.5
    if draw.random() < 0.3 and rank == 2:
        return lambda v: tf.einsum("ab,cb->ac", tf.tanh(v[at]), v[at]) * 0.3
    return lambda v: tf.matmul(tf.tanh(v[at]), v[at], transpose_b=True) * 0.3


def _branch(draw: random.Random, stack: list[Any], at: int) -> Step:
    limit = draw.uniform(-1.0, 1.0)

    def step(v: list[Any]) -> Any:
        x = v[at]
        return tf.cond(tf.reduce_sum(tf.sin(x)) > limit + AWAY, lambda: tf.tanh(x) * 0.7, lambda: tf.cos(x) * x * 0.3)

    return step


def _loop(draw: random.Random, stack: list[Any], at: int) -> Step:
    count, kind = draw.randint(0, 3), draw.choice(["counted", "tested", "rows"])

    def body(i: Any, x: Any, v: list[Any]) -> Any:
        return i + 1, tf.sin(x) * 0.8 + tf.cast(i, x.dtype) * 0.1 * v[at]

    def step(v: list[Any]) -> Any:
        x = v[at]
        if kind == "rows" and x.shape.rank:
            return tf.map_fn(lambda row: tf.tanh(row) * tf.reduce_sum(row), x) * 0.3
        total = tf.reduce_sum(tf.abs(x)) if kind == "tested" else tf.constant(0.0, x.dtype)
        return tf.while_loop(
            lambda i, _: tf.cast(i, x.dtype) < count + total * 0.0, lambda i, y: body(i, y, v), (0, x)
        )[1]

    return step


def _dynamic(draw: random.Random, stack: list[Any], at: int) -> Step:
    limit, kind = draw.uniform(-0.5, 0.5) + AWAY, draw.choice(["mask", "where", "slice", "grow", "array", "partition"])

    def grow(x: Any) -> Any:
        loop = tf.while_loop(
            lambda i, y: i < tf.cast(tf.reduce_sum(tf.abs(tf.sin(x))), tf.int32) + 1,
            lambda i, y: (i + 1, tf.concat([y, tf.sin(y[:1]) * 0.5 + tf.reduce_mean(x)], 0)),
            (0, x),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape([None])),
        )
        return loop[1]

    def written(x: Any) -> Any:
        array = tf.TensorArray(x.dtype, size=1, dynamic_size=True, element_shape=[])
        count = tf.cast(tf.reduce_sum(tf.abs(tf.sin(x))), tf.int32) + 1
        body = lambda i, a: (i + 1, a.write(i, tf.reduce_sum(x) * tf.cast(i, x.dtype) * 0.1))  # noqa: E731
        return tf.while_loop(lambda i, _: i < count, body, (0, array))[1].stack()

    def step(v: list[Any]) -> Any:
        x = tf.reshape(v[at], [-1])
        mask = tf.sin(x) > limit
        if kind == "mask":
            return tf.concat([tf.boolean_mask(x, mask) * 0.5, x[:1]], 0)
        if kind == "where":
            return tf.concat([tf.gather_nd(tf.tanh(x), tf.where(mask)), x[:1]], 0)
        if kind == "slice":
            return x[: tf.reduce_sum(tf.cast(mask, tf.int32)) + 1] * 0.5
        if kind == "partition":
            return tf.concat(tf.dynamic_partition(tf.sin(x), tf.cast(mask, tf.int32), 2)[::-1], 0)
        return grow(x) if kind == "grow" else written(x)

    return step


def _more_dynamic(draw: random.Random, stack: list[Any], at: int) -> Step:
    """Sizes that depend on values in branches, loops, ragged tensors, and as numbers of repetitions and segments."""
    limit = draw.uniform(-0.5, 0.5) + AWAY
    kind = draw.choice(["branches", "loop", "rows", "ragged", "tile", "segments", "unique", "pad"])

    def loop(x: Any, mask: Any) -> Any:
        body = lambda i, y: (i + 1, tf.sin(y) * 0.5 + tf.reduce_sum(tf.boolean_mask(x, y > limit)))  # noqa: E731
        return tf.while_loop(lambda i, _: i < 2, body, (0, x))[1]

    def ragged(x: Any, mask: Any) -> Any:
        masks = tf.stack([mask, tf.logical_not(mask)])
        return tf.reduce_sum(tf.sin(tf.ragged.boolean_mask(tf.stack([x, x * 0.5]), masks)), axis=1)

    def branches(x: Any, mask: Any) -> Any:
        kept = lambda: tf.concat([tf.boolean_mask(x, mask) * 0.5, x[:1]], 0)  # noqa: E731
        return tf.cond(tf.reduce_sum(tf.cos(x)) > limit, kept, lambda: tf.sin(x))

    def step(v: list[Any]) -> Any:
        x = tf.reshape(v[at], [-1])
        mask = tf.sin(x) > limit
        count = tf.reduce_sum(tf.cast(mask, tf.int32)) + 1
        if kind == "tile":
            return tf.tile(tf.sin(x[:2]), [count])
        if kind == "pad":
            return tf.pad(tf.cos(x), [[count, 0]]) * 0.5
        if kind == "segments":
            return tf.math.unsorted_segment_sum(tf.sin(x), tf.cast(mask, tf.int32), count)
        if kind == "unique":
            places = tf.unique(tf.cast(mask, tf.int32))[0]
            return tf.gather(tf.concat([x, x[:1]], 0), places) * 0.7
        if kind == "rows":
            return tf.map_fn(lambda y: tf.reduce_sum(tf.boolean_mask(x, x < y)), tf.sin(x)) * 0.3
        return {"loop": loop, "ragged": ragged, "branches": branches}[kind](x, mask)

    return step


KINDS: dict[str, tuple[Callable[..., Step], int]] = {
    "elementwise": (_elementwise, 4),
    "binary": (_binary, 4),
    "reduce": (_reduce, 2),
    "move": (_move, 3),
    "look up": (_look_up, 2),
    "multiply": (_multiply, 2),
    "branch": (_branch, 1),
    "loop": (_loop, 1),
}
DYNAMIC = {**KINDS, "dynamic": (_dynamic, 4)}
ALL = {**DYNAMIC, "more dynamic": (_more_dynamic, 6)}
ALL_FROM = 10_000
"""From this seed on programs are drawn from all kinds of steps."""


def random_program(seed: int) -> RandomProgram:
    """The program of a seed; every fourth one has shapes that depend on values, and all from `ALL_FROM` on."""
    draw = random.Random(seed)
    kinds = ALL if seed >= ALL_FROM else DYNAMIC if seed % 4 == 3 else KINDS
    rng = np.random.default_rng(seed)
    arguments = [rng.uniform(-1.5, 1.5, draw.choice(SHAPES)) for _ in range(draw.randint(1, 2))]
    steps: list[Step] = []
    names: list[str] = []
    stack: list[Any] = [tf.constant(a) for a in arguments]
    while len(steps) < draw.randint(3, 8):
        (name,) = draw.choices(list(kinds), [weight for _, weight in kinds.values()])
        step = kinds[name][0](draw, stack, draw.randrange(len(stack)))
        result = step(stack)
        if 0 < _size(result) <= LARGEST and len(result.shape) <= 4:
            stack.append(result)
            steps.append(step)
            names.append(name)

    def run(*args: Any) -> Any:
        values = list(args)
        for step in steps:
            values.append(step(values))
        return tf.add_n([tf.reduce_sum(tf.sin(value)) for value in values[len(args) :]])

    return RandomProgram(run, arguments, not {"dynamic", "more dynamic"}.isdisjoint(names), names)


# -- derivatives -----------------------------------------------------------------------------------------------------
def _dense(values: Any) -> list[Any]:
    """Gradients as tensors: some are sparse."""
    return [tf.convert_to_tensor(value) for value in values]


def _directions(args: Any) -> list[Any]:
    """A tangent for each argument."""
    return [tf.cast(tf.reshape(tf.range(tf.size(a)), tf.shape(a)), a.dtype) * 0.3 - 0.4 for a in args]


def _gradients(run: Callable[..., Any], args: Any) -> tuple[Any, list[Any]]:
    with tf.GradientTape() as tape:
        tape.watch(args)
        y = run(*args)
    return y, _dense(tape.gradient(y, args, unconnected_gradients="zero"))


def _reverse_over_reverse(run: Callable[..., Any], args: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(args)
        y, slopes = _gradients(run, args)
        total = tf.add_n([tf.reduce_sum(tf.sin(g)) for g in slopes])
    return y, slopes, _dense(tape.gradient(total, args, unconnected_gradients="zero"))


def _forward(run: Callable[..., Any], args: Any) -> Any:
    with tf.autodiff.ForwardAccumulator([*args], _directions(args)) as accumulator:
        y = run(*args)
    return y, accumulator.jvp(y, unconnected_gradients="zero")


def _forward_over_reverse(run: Callable[..., Any], args: Any) -> Any:
    with tf.autodiff.ForwardAccumulator([*args], _directions(args)) as accumulator:
        y, slopes = _gradients(run, args)
    return y, accumulator.jvp(slopes, unconnected_gradients="zero")


def _reverse_over_forward(run: Callable[..., Any], args: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(args)
        y, slope = _forward(run, args)
    return y, slope, _dense(tape.gradient(slope, args, unconnected_gradients="zero"))


def _forward_over_forward(run: Callable[..., Any], args: Any) -> Any:
    with tf.autodiff.ForwardAccumulator([*args], _directions(args)) as accumulator:
        y, slope = _forward(run, args)
    return y, slope, accumulator.jvp(slope, unconnected_gradients="zero")


def _hessians(run: Callable[..., Any], args: Any) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(args)
        y, slopes = _gradients(run, args)
    return y, [tape.jacobian(g, a, unconnected_gradients="zero") for g in slopes for a in args]


DERIVATIVES: dict[str, Callable[[Callable[..., Any], Any], Any]] = {
    "reverse over reverse": _reverse_over_reverse,
    "forward": _forward,
    "forward over reverse": _forward_over_reverse,
    "reverse over forward": _reverse_over_forward,
    "forward over forward": _forward_over_forward,
    "hessians": _hessians,
}
"""What is computed of a program besides its value: derivatives by both modes, of both orders."""


# -- executors -------------------------------------------------------------------------------------------------------
def disagreement(seed: int, with_xla: bool = True) -> str:
    """What differs between eager code and executors for the program of a seed; "" if nothing does.

    Executors are NumPy with the derivatives inside of the function and outside, lazy arrays, and XLA, which takes
    long to compile and gets one kind of derivatives. A compiled function whose calls run eagerly, all or some, would be
    compared with itself: that is reported, too.
    """
    program = random_program(seed)
    names = list(DERIVATIVES)
    for i, name in enumerate(names):
        found = _difference(program, name, with_xla and i == seed % len(names))
        if found:
            return f"seed {seed} ({', '.join(program.names)}), {name} {found}"
    return ""


def _difference(program: RandomProgram, derivatives: str, with_xla: bool) -> str:
    args = tuple([tf.constant(a) for a in program.arguments])
    compute = DERIVATIVES[derivatives]

    def inside(*given: Any) -> Any:
        return compute(program.run, given)

    expected = tf.nest.flatten(inside(*args))
    outside = tf.function(program.run, jit_compile=False)
    functions = {"NumPy": tf.function(inside, jit_compile=False)}
    if with_xla and not program.is_dynamic:
        functions["XLA"] = tf.function(inside, jit_compile=True)
    runs: dict[str, Callable[[], Any]] = {"derivatives outside": lambda: compute(outside, args)}
    runs |= {name: partial(function, *args) for name, function in functions.items()}
    runs["lazy arrays"] = lambda: _lazily(inside, program.arguments)
    for name, run in [*runs.items(), *runs.items()]:  # the first call on NumPy runs node by node
        for found, wanted in zip(tf.nest.flatten(run()), expected, strict=True):
            if not np.allclose(found, wanted, rtol=1e-8, atol=1e-9):
                return f"by {name}: {found} instead of {wanted}"
    for function in (outside, *functions.values()):
        eager = [line for line in function.summary().splitlines() if " eagerly. " in line]
        if eager:
            return eager[0]
    return ""


def _lazily(function: Callable[..., Any], arguments: list[np.ndarray]) -> list[Any]:
    """What a function returns where ops are recorded, and run together when a value is needed."""
    before = tf.config.get_graph_mode()
    tf.config.set_graph_mode("auto")
    try:
        return [value.numpy() for value in tf.nest.flatten(function(*[tf.constant(a) for a in arguments]))]
    finally:
        tf.config.set_graph_mode(before)
