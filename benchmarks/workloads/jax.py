"""JAX under `jit`: a compiled program, where the others run op by op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import data
from benchmarks.workloads import Work


def _losses(logits: Any, labels: Any) -> Any:
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), labels[..., None], -1)[..., 0]


def _network(x: Any, parameters: list[Any]) -> Any:
    for i in range(3):
        x = x @ parameters[i] + parameters[3 + i]
        if i < 2:
            x = jax.nn.relu(x)
    return x


def _loss(parameters: list[Any], x: Any, y: Any) -> Any:
    return jnp.mean(_losses(_network(x, parameters), y))


class Workloads:
    def __init__(self, library: str) -> None:
        del library

    def chain(self) -> Work:
        factor = jnp.float32(data.CHAIN_FACTOR)

        def total(x: Any) -> Any:
            for _ in range(data.CHAIN_LENGTH):
                x = jnp.tanh(x * factor)
            return x.sum()

        gradient, x = jax.jit(jax.grad(total)), jnp.ones(8)
        return _reading(lambda: [gradient(x)])

    def _training(self, batch: int) -> Work:
        images, labels, initial = data.mlp(batch)
        x, y = jnp.array(images), jnp.array(labels)
        state = [jnp.array(p) for p in initial]

        slopes = jax.value_and_grad(_loss)

        def update(parameters: list[Any], x: Any, y: Any) -> Any:
            loss, gradients = slopes(parameters, x, y)
            return loss, [p - data.RATE * g for p, g in zip(parameters, gradients, strict=True)]

        update = jax.jit(update, donate_argnums=0)

        def step() -> float:
            loss, state[:] = update(list(state), x, y)
            return float(loss)

        return Work(step, lambda: [np.array(g) for g in slopes(state, x, y)[1]])

    def mlp32(self) -> Work:
        return self._training(32)

    def mlp512(self) -> Work:
        return self._training(512)

    def rnn(self) -> Work:
        inputs, initial = data.rnn()
        xs, parameters = jnp.array(inputs), [jnp.array(p) for p in initial]

        def total(parameters: list[Any]) -> Any:
            h = jnp.zeros((16, 64))
            for i in range(len(inputs)):
                h = jnp.tanh(xs[i] @ parameters[0] + h @ parameters[1] + parameters[2])
            return (h * h).sum()

        gradient = jax.jit(jax.grad(total))
        return _reading(lambda: gradient(parameters))

    def cnn(self) -> Work:
        images, labels, initial = data.cnn()
        x, y, parameters = jnp.array(images), jnp.array(labels), [jnp.array(p) for p in initial]

        def block(h: Any, kernel: Any) -> Any:
            layout = ("NHWC", "HWIO", "NHWC")
            h = jax.nn.relu(jax.lax.conv_general_dilated(h, kernel, (1, 1), "VALID", dimension_numbers=layout))
            return jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")

        def loss(parameters: list[Any]) -> Any:
            h = block(block(x, parameters[0]), parameters[1])
            return jnp.mean(_losses(h.reshape(32, -1) @ parameters[2] + parameters[3], y))

        gradient = jax.jit(jax.grad(loss))
        return _reading(lambda: gradient(parameters))

    def jac(self) -> Work:
        a, b, c = map(jnp.array, data.jac())
        jacobian = jax.jit(jax.jacrev(lambda b: jnp.tanh(jnp.tanh(a @ b) @ c)))
        return _reading(lambda: [jacobian(b)])

    def hess(self) -> Work:
        x = jnp.array(data.hess())
        hessian = jax.jit(jax.hessian(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()))
        return _reading(lambda: [hessian(x)])

    def perex(self) -> Work:
        images, labels, initial = data.mlp(64)
        x, y, parameters = jnp.array(images), jnp.array(labels), [jnp.array(p) for p in initial]
        gradients = jax.jit(jax.vmap(jax.grad(_loss), (None, 0, 0)))
        return _reading(lambda: gradients(parameters, x, y))


def _reading(step: Callable[[], Any]) -> Work:
    """A step whose derivatives are read by NumPy each time, without a copy where JAX gives them so."""

    def run() -> list[Any]:
        return [np.asarray(g) for g in step()]

    return Work(run, run)
