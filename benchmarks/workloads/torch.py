"""PyTorch: eager autograd, and torch.func for Jacobians, Hessians and per-example gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from benchmarks import data
from benchmarks.workloads import Work


def _leaf(value: Any) -> Any:
    return torch.tensor(value, requires_grad=True)


def _network(x: Any, parameters: list[Any]) -> Any:
    for i in range(3):
        x = x @ parameters[i] + parameters[3 + i]
        if i < 2:
            x = torch.relu(x)
    return x


class Workloads:
    def __init__(self, library: str) -> None:
        del library
        torch.set_num_threads(1)

    def chain(self) -> Work:
        x, factor = _leaf(np.ones(8, np.float32)), torch.tensor(data.CHAIN_FACTOR)

        def step() -> Any:
            y = x
            for _ in range(data.CHAIN_LENGTH):
                y = torch.tanh(y * factor)
            return torch.autograd.grad(y.sum(), [x])

        return _reading(step)

    def _training(self, batch: int) -> Work:
        images, labels, initial = data.mlp(batch)
        parameters, x, y = [_leaf(p) for p in initial], torch.tensor(images), torch.tensor(labels)

        def slopes() -> Any:
            loss = F.cross_entropy(_network(x, parameters), y)
            return loss, torch.autograd.grad(loss, parameters)

        def step() -> float:
            loss, gradients = slopes()
            with torch.no_grad():
                for p, g in zip(parameters, gradients, strict=True):
                    p.sub_(g, alpha=data.RATE)
            return float(loss.item())

        return Work(step, lambda: [g.numpy() for g in slopes()[1]])

    def mlp32(self) -> Work:
        return self._training(32)

    def mlp512(self) -> Work:
        return self._training(512)

    def rnn(self) -> Work:
        inputs, initial = data.rnn()
        parameters, steps = [_leaf(p) for p in initial], [torch.tensor(x) for x in inputs]

        def step() -> Any:
            h = torch.zeros(16, 64)
            for x in steps:
                h = torch.tanh(x @ parameters[0] + h @ parameters[1] + parameters[2])
            return torch.autograd.grad((h * h).sum(), parameters)

        return _reading(step)

    def cnn(self) -> Work:
        # Channels come first here, so kernels, images and the rows of the matrix stand in another order.
        images, labels, (first, second, matrix, bias) = data.cnn()
        rows = np.arange(1600).reshape(5, 5, 64).transpose(2, 0, 1).ravel()
        initial = [first.transpose(3, 2, 0, 1).copy(), second.transpose(3, 2, 0, 1).copy(), matrix[rows], bias]
        parameters = [_leaf(p) for p in initial]
        x, y = torch.tensor(images.transpose(0, 3, 1, 2).copy()), torch.tensor(labels)

        def step() -> Any:
            h = F.max_pool2d(F.relu(F.conv2d(x, parameters[0])), 2)
            h = F.max_pool2d(F.relu(F.conv2d(h, parameters[1])), 2)
            return torch.autograd.grad(
                F.cross_entropy(h.reshape(32, -1) @ parameters[2] + parameters[3], y), parameters
            )

        def result() -> list[Any]:
            k1, k2, m, b = (g.numpy() for g in step())
            return [k1.transpose(2, 3, 1, 0), k2.transpose(2, 3, 1, 0), m[np.argsort(rows)], b]

        return Work(step, result)

    def jac(self) -> Work:
        a, b, c = map(torch.tensor, data.jac())
        jacobian = torch.func.jacrev(lambda b: torch.tanh(torch.tanh(a @ b) @ c))
        return _reading(lambda: [jacobian(b)])

    def hess(self) -> Work:
        x = torch.tensor(data.hess())
        hessian = torch.func.hessian(lambda x: (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())
        return _reading(lambda: [hessian(x)])

    def perex(self) -> Work:
        images, labels, initial = data.mlp(64)
        parameters, x, y = [torch.tensor(p) for p in initial], torch.tensor(images), torch.tensor(labels)

        def loss(parameters: list[Any], x: Any, y: Any) -> Any:
            return F.cross_entropy(_network(x, parameters)[None], y[None])

        gradients = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
        return _reading(lambda: gradients(parameters, x, y))


def _reading(step: Callable[[], Any]) -> Work:
    return Work(step, lambda: [g.detach().numpy() for g in step()])
