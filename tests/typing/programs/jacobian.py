"""Derivatives have the structure of the sources."""

from __future__ import annotations

from typing import Any

from typing_extensions import assert_type

import gradtape as tf

x = tf.constant([1.0, 2.0])
w, b = tf.Variable([[1.0, 2.0]]), tf.Variable(1.0)

with tf.GradientTape(persistent=True) as tape:
    assert_type(tape, tf.GradientTape)
    tape.watch(x)
    y = tf.tanh(w * x + b)
    loss = tf.reduce_sum(y)

one = tape.gradient(loss, x)
assert_type(one, tf.Tensor | Any)
print(0.1 * one)
assert_type(tf.convert_to_tensor(one), tf.Tensor)
dw, db = tape.gradient(loss, [w, b])
assert_type(tape.gradient(loss, [w, b]), list[tf.Tensor | Any])
assert_type(tape.gradient(loss, (w, x)), tuple[tf.Tensor | Any, ...])
by_name = tape.gradient(loss, {"w": w, "b": b})
assert_type(by_name, dict[str, tf.Tensor | Any])
print(sorted(by_name), by_name["w"] + 1.0)
print(dw + 1.0, db * 2.0)

jacobian = tape.jacobian(y, x)
print(jacobian.shape, jacobian.numpy().sum())
jw, jb = tape.jacobian(y, (w, b))

with tf.autodiff.ForwardAccumulator(primals=x, tangents=tf.ones_like(x)) as forward:
    z = tf.sin(x)
print(forward.jvp(z))
print(tape.watched_variables()[0].name)
assert_type(tape.hvp(loss, x, tf.ones_like(x)), tf.Tensor | Any)
assert_type(tape.hessian(loss, x), tf.Tensor | Any)
print(tape.explain(loss, x).connected, tape.explain(loss, [w, b]).missing)
