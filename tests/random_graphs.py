"""Random programs by seed, for tests that compare executors: static ones, ones with control flow, and dynamic ones.

A program is a list of steps that were drawn while it ran once, on a stack of tensors. Every step is smooth where it is
used and keeps numbers small, so that first and second derivatives can be compared to many digits.
"""

from __future__ import annotations

import random
from collections.abc import Callable
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


def random_program(seed: int) -> RandomProgram:
    """The program of a seed; every fourth one has shapes that depend on values."""
    draw = random.Random(seed)
    is_dynamic = seed % 4 == 3
    kinds = DYNAMIC if is_dynamic else KINDS
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

    return RandomProgram(run, arguments, is_dynamic and "dynamic" in names, names)


def with_derivatives(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same arguments: the value, the gradients, and a derivative of the gradients."""

    def derived(*args: Any) -> Any:
        with tf.GradientTape() as second:
            second.watch(args)
            with tf.GradientTape() as first:
                first.watch(args)
                y = run(*args)
            slopes = first.gradient(y, args, unconnected_gradients="zero")
            total = tf.add_n([tf.reduce_sum(tf.sin(g)) for g in slopes])
        bends = second.gradient(total, args, unconnected_gradients="zero")
        return y, *[tf.convert_to_tensor(g) for g in (*slopes, *bends)]

    return derived


def disagreement(seed: int, with_xla: bool = True) -> str:
    """What differs between eager code, the NumPy executor and XLA for the program of a seed; "" if nothing does.

    A compiled function whose calls run eagerly, all or some, would be compared with itself: that is reported, too.
    """
    program = random_program(seed)
    args = [tf.constant(a) for a in program.arguments]
    derived = with_derivatives(program.run)
    expected = tf.nest.flatten(derived(*args))
    outside = tf.function(program.run, jit_compile=False)
    runs = {"tapes outside": with_derivatives(outside), "NumPy": tf.function(derived, jit_compile=False)}
    if with_xla and not program.is_dynamic:
        runs["XLA"] = tf.function(derived, jit_compile=True)
    for name, run in [*runs.items(), *runs.items()]:  # the first call on NumPy runs node by node
        for found, wanted in zip(tf.nest.flatten(run(*args)), expected, strict=True):
            if not np.allclose(found, wanted, rtol=1e-8, atol=1e-9):
                return f"seed {seed} ({', '.join(program.names)}) by {name}: {found} instead of {wanted}"
    functions = [outside, *[run for run in runs.values() if hasattr(run, "summary")]]
    eager = [line for f in functions for line in f.summary().splitlines() if " eagerly. " in line]
    return f"seed {seed} ({', '.join(program.names)}): {eager[0]}" if eager else ""
