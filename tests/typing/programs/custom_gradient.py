"""A gradient of the user's own."""

from __future__ import annotations

from collections.abc import Callable

from typing_extensions import assert_type

import gradtape as tf


@tf.custom_gradient
def log1pexp(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    e = tf.exp(x)

    def grad(upstream: tf.Tensor) -> tf.Tensor:
        return upstream * (1 - 1 / (1 + e))

    return tf.math.log(1 + e), grad


x = tf.constant(100.0)
with tf.GradientTape() as tape:
    tape.watch(x)
    y = log1pexp(x)
print(tape.gradient(y, x))

rounded = tf.grad_pass_through(tf.round)
print(rounded(x))
assert_type(tf.stop_gradient(x), tf.Tensor)
