"""Branches, loops and maps: what goes in decides what comes out."""

from __future__ import annotations

from typing import NamedTuple

from typing_extensions import assert_type

import gradtape as tf

x = tf.constant([1.0, 2.0, 3.0])

assert_type(tf.cond(x[0] > 0, lambda: x * 2.0, lambda: -x), tf.Tensor)
pair = tf.cond(x[0] > 0, lambda: (x, -x), lambda: (-x, x))
assert_type(pair, tuple[tf.Tensor, tf.Tensor])
assert_type(tf.case([(x[0] > 5, lambda: x * 2.0), (x[0] > 0, lambda: -x)], default=lambda: x), tf.Tensor)
assert_type(tf.switch_case(tf.constant(1), [lambda: x * 2.0, lambda: -x]), tf.Tensor)
assert_type(tf.switch_case(tf.constant(1), {0: lambda: (x, x), 1: lambda: (-x, x)}), tuple[tf.Tensor, tf.Tensor])

i, total = tf.while_loop(lambda i, _: i < 3, lambda i, total: (i + 1, total + x[i]), (0, tf.constant(0.0)))
assert_type(total, tf.Tensor)
assert_type(tf.while_loop(lambda i: i < 3, lambda i: [i + 1], [tf.constant(0)]), list[tf.Tensor])
print(int(i), float(total))


class State(NamedTuple):
    """What a loop carries."""

    position: tf.Tensor
    speed: tf.Tensor


def fall(state: State, row: tf.Tensor) -> State:
    return State(state.position + state.speed, state.speed + row)


def combined(a: tuple[tf.Tensor, tf.Tensor], b: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
    return a[0] + b[0], a[1] * b[1]


# structures of tensors come out of loops in their own type
state = State(tf.constant(0.0), tf.constant(1.0))
count, last = tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, fall(s, x[0])), (0, state))
assert_type(count, tf.Tensor)
assert_type(last, State)
count, first_of_pair, (left, right) = tf.while_loop(
    lambda i, a, b: i < 3, lambda i, a, b: (i + 1, b[0], (a, b[1])), (0, x, (x, -x))
)
assert_type(left, tf.Tensor)
carried = {"sum": tf.constant(0.0), "product": tf.constant(1.0)}
assert_type(
    tf.while_loop(lambda c: c["sum"] < 3.0, lambda c: {**c, "sum": c["sum"] + 1.0}, carried), dict[str, tf.Tensor]
)
assert_type(tf.foldl(fall, x, initializer=state), State)
assert_type(tf.foldr(fall, x, state).speed, tf.Tensor)
assert_type(tf.scan(fall, x, initializer=state), State)
assert_type(tf.scan(combined, (x, x)), tuple[tf.Tensor, tf.Tensor])
assert_type(tf.scan(lambda total, pair: total + pair[0] * pair[1], (x, x), initializer=0.0), tf.Tensor)
assert_type(tf.case([(x[0] > 5, lambda: state), (x[0] > 0, lambda: state)]), State)
assert_type(tf.switch_case(tf.constant(0), [lambda: [x], lambda: [-x]]), list[tf.Tensor])


def square(row: tf.Tensor) -> tf.Tensor:
    return row * row


def neighbours(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return row - 1.0, row + 1.0


assert_type(tf.map_fn(square, x), tf.Tensor)
both = tf.map_fn(neighbours, x, fn_output_signature=(tf.float32, tf.float32))
assert_type(both, tuple[tf.Tensor, tf.Tensor])
assert_type(tf.vectorized_map(square, x), tf.Tensor)


def crossed(rows: dict[str, tf.Tensor]) -> State:
    return State(rows["speed"], rows["position"])


assert_type(tf.vectorized_map(crossed, {"position": x, "speed": -x}), State)
assert_type(tf.scan(lambda total, row: total + row, x), tf.Tensor)
assert_type(tf.foldl(lambda total, row: total + row, x, initializer=0.0), tf.Tensor)

assert_type(tf.py_function(lambda x: x * x, [x], tf.float32), tf.Tensor)
first, second = tf.py_function(lambda x: (x, x + 1.0), [x], [tf.float32, tf.float32])
assert_type(first, tf.Tensor)
assert_type(tf.numpy_function(lambda x: x * x, [x], tf.float32), tf.Tensor)
