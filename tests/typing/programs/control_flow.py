"""Branches, loops and maps: what goes in decides what comes out."""

from __future__ import annotations

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


def square(row: tf.Tensor) -> tf.Tensor:
    return row * row


def neighbours(row: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return row - 1.0, row + 1.0


assert_type(tf.map_fn(square, x), tf.Tensor)
both = tf.map_fn(neighbours, x, fn_output_signature=(tf.float32, tf.float32))
assert_type(both, tuple[tf.Tensor, tf.Tensor])
assert_type(tf.vectorized_map(square, x), tf.Tensor)
assert_type(tf.scan(lambda total, row: total + row, x), tf.Tensor)
assert_type(tf.foldl(lambda total, row: total + row, x, initializer=0.0), tf.Tensor)

assert_type(tf.py_function(lambda x: x * x, [x], tf.float32), tf.Tensor)
first, second = tf.py_function(lambda x: (x, x + 1.0), [x], [tf.float32, tf.float32])
assert_type(first, tf.Tensor)
assert_type(tf.numpy_function(lambda x: x * x, [x], tf.float32), tf.Tensor)
