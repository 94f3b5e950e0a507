"""A training loop over variables and a module."""

from __future__ import annotations

from typing import Any

import numpy as np
from typing_extensions import assert_type

import gradtape as tf


class Linear(tf.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.kernel = tf.Variable(tf.random.normal([inputs, outputs], stddev=0.1), name="kernel")
        self.bias = tf.Variable(tf.zeros([outputs]), name="bias")

    def __call__(self, x: tf.Tensor) -> tf.Tensor:
        return x @ self.kernel + self.bias


def loss_of(model: Linear, x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(model(x) - y))


def train(steps: int) -> list[float]:
    rng = np.random.default_rng(0)
    x = tf.constant(rng.normal(size=(32, 3)), tf.float32)
    y = tf.reduce_sum(x, axis=1, keepdims=True)
    model = Linear(3, 1)
    losses: list[float] = []
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = loss_of(model, x, y)
        assert_type(loss, tf.Tensor)
        gradients = tape.gradient(loss, model.trainable_variables)
        assert_type(gradients, tuple[tf.Tensor | Any, ...])
        clipped, norm = tf.clip_by_global_norm(gradients, 1.0)
        assert_type(norm, tf.Tensor)
        for variable, gradient in zip(model.trainable_variables, clipped, strict=True):
            if gradient is not None:
                variable.assign_sub(0.1 * gradient)
        losses.append(float(loss))
    return losses


print(train(3)[-1] < train(1)[0])
