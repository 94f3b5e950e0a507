"""gradtape and TensorFlow: the same program, eager or under `function`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks import data
from benchmarks.workloads import Work


class Workloads:
    def __init__(self, library: str) -> None:
        module, _, compiled = library.partition(".")
        self.tf = import_module(module)
        self.function: Callable[..., Any] = self.tf.function if compiled else lambda f: f
        if compiled in ("numpy", "xla"):  # one executor of gradtape's alone
            self.function = self.tf.function(jit_compile=compiled == "xla")

    def chain(self) -> Work:
        tf = self.tf
        x, factor = tf.constant(np.ones(8, np.float32)), tf.constant(np.float32(data.CHAIN_FACTOR))

        @self.function
        def step(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = x
                for _ in range(data.CHAIN_LENGTH):
                    y = tf.tanh(y * factor)
                total = tf.reduce_sum(y)
            return tape.gradient(total, x)

        return _reading(lambda: [step(x)])

    def _network(self, x: Any, parameters: list[Any]) -> Any:
        tf = self.tf
        for i in range(3):
            x = tf.matmul(x, parameters[i]) + parameters[3 + i]
            if i < 2:
                x = tf.nn.relu(x)
        return x

    def _losses(self, logits: Any, labels: Any) -> Any:
        return self.tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)

    def _training(self, batch: int) -> Work:
        tf = self.tf
        images, labels, initial = data.mlp(batch)
        parameters = [tf.Variable(p) for p in initial]

        def slopes(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(self._losses(self._network(x, parameters), y))
            return loss, tape.gradient(loss, parameters)

        @self.function
        def step(x: Any, y: Any) -> Any:
            loss, gradients = slopes(x, y)
            for p, g in zip(parameters, gradients, strict=True):
                p.assign_sub(data.RATE * g)
            return loss

        x, y = tf.constant(images), tf.constant(labels)
        return Work(lambda: float(step(x, y).numpy()), lambda: [g.numpy() for g in slopes(x, y)[1]])

    def mlp32(self) -> Work:
        return self._training(32)

    def mlp512(self) -> Work:
        return self._training(512)

    def rnn(self) -> Work:
        tf = self.tf
        inputs, initial = data.rnn()
        parameters, steps = [tf.Variable(p) for p in initial], [tf.constant(x) for x in inputs]

        @self.function
        def step() -> Any:
            with tf.GradientTape() as tape:
                h = tf.zeros((16, 64))
                for x in steps:
                    h = tf.tanh(tf.matmul(x, parameters[0]) + tf.matmul(h, parameters[1]) + parameters[2])
                total = tf.reduce_sum(h * h)
            return tape.gradient(total, parameters)

        return _reading(step)

    def cnn(self) -> Work:
        tf = self.tf
        images, labels, initial = data.cnn()
        parameters = [tf.Variable(p) for p in initial]

        def block(h: Any, kernel: Any) -> Any:
            return tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(h, kernel, 1, "VALID")), 2, 2, "VALID")

        @self.function
        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                h = block(block(x, parameters[0]), parameters[1])
                logits = tf.matmul(tf.reshape(h, (32, 1600)), parameters[2]) + parameters[3]
                loss = tf.reduce_mean(self._losses(logits, y))
            return tape.gradient(loss, parameters)

        x, y = tf.constant(images), tf.constant(labels)
        return _reading(lambda: step(x, y))

    def jac(self) -> Work:
        tf = self.tf
        a, b, c = data.jac()
        a, b, c = tf.constant(a), tf.Variable(b), tf.Variable(c)

        @self.function
        def step() -> Any:
            with tf.GradientTape() as tape:
                y = tf.tanh(tf.matmul(tf.tanh(tf.matmul(a, b)), c))
            return tape.jacobian(y, b)

        return _reading(lambda: [step()])

    def hess(self) -> Work:
        tf = self.tf

        @self.function
        def step(x: Any) -> Any:
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = tf.reduce_sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)
                slope = inner.gradient(y, x)
            return outer.jacobian(slope, x)

        x = tf.constant(data.hess())
        return _reading(lambda: [step(x)])

    def perex(self) -> Work:
        tf = self.tf
        images, labels, initial = data.mlp(64)
        parameters = [tf.Variable(p) for p in initial]

        @self.function
        def step(x: Any, y: Any) -> Any:
            with tf.GradientTape() as tape:
                losses = self._losses(self._network(x, parameters), y)
            return tape.jacobian(losses, parameters)

        x, y = tf.constant(images), tf.constant(labels)
        return _reading(lambda: step(x, y))

    def pinn(self) -> Work:
        return self._physics(1_000)

    def pinn10k(self) -> Work:
        return self._physics(10_000)

    def _physics(self, count: int) -> Work:
        tf = self.tf
        points, initial = data.pinn(count)
        xy, parameters = tf.constant(points), [tf.Variable(p) for p in initial]
        means, squares = ([tf.Variable(np.zeros_like(p)) for p in initial] for _ in range(2))

        def residual() -> Any:
            t, x = xy[:, :1], xy[:, 1:]
            with tf.GradientTape(persistent=True) as second:
                second.watch(x)
                with tf.GradientTape(persistent=True) as first:
                    first.watch([t, x])
                    u = tf.concat([t, x], 1)
                    for i in range(0, len(parameters) - 2, 2):
                        u = tf.tanh(tf.matmul(u, parameters[i]) + parameters[i + 1])
                    u = tf.matmul(u, parameters[-2]) + parameters[-1]
                u_t, u_x = first.gradient(u, [t, x])
            return u_t + u * u_x - 0.003 * second.gradient(u_x, x)

        @self.function
        def step() -> Any:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(residual()))
            gradients = tape.gradient(loss, parameters)
            for p, m, s, g in zip(parameters, means, squares, gradients, strict=True):
                m.assign(0.9 * m + 0.1 * g)
                s.assign(0.999 * s + 0.001 * g * g)
                p.assign_sub(1e-3 * m / (tf.sqrt(s) + 1e-7))
            return loss

        return Work(lambda: step().numpy(), lambda: [step().numpy()])


def _reading(step: Callable[[], list[Any]]) -> Work:
    """A step whose derivatives are read by NumPy each time, as whoever wants to see them does."""

    def run() -> list[Any]:
        return [g.numpy() for g in step()]

    return Work(run, run)
