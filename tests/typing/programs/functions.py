"""`tf.function` keeps the signature of what it decorates."""

from __future__ import annotations

from typing_extensions import assert_type

import gradtape as tf


@tf.function
def squared_error(x: tf.Tensor, y: tf.Tensor, *, scale: float = 1.0) -> tf.Tensor:
    return scale * tf.reduce_mean(tf.square(x - y))


@tf.function(jit_compile=True, reduce_retracing=True)
def step(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    return tf.sin(x), tf.cos(x)


class Model(tf.Module):
    @tf.function
    def apply(self, x: tf.Tensor, times: int) -> tf.Tensor:
        return x * float(times)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def serve(self, x: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"y": x + 1.0}


x = tf.constant([1.0, 2.0])
assert_type(squared_error(x, x, scale=2.0), tf.Tensor)
assert_type(step(x), tuple[tf.Tensor, tf.Tensor])
assert_type(Model().apply(x, 2), tf.Tensor)
assert_type(Model().serve(x), dict[str, tf.Tensor])
wrapped = tf.function(lambda x: x)
print(squared_error.get_concrete_function(x, x)(x, x), wrapped(x))
print(tf.cond(tf.reduce_sum(x) > 0, lambda: x, lambda: -x))
