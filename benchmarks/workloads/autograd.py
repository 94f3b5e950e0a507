"""autograd, the tape over NumPy that came before: what its rules cover."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np

from benchmarks import data
from benchmarks.workloads import Work


class Workloads:
    def __init__(self, library: str) -> None:
        del library

    def chain(self) -> Work:
        x, factor = np.ones(8, np.float32), np.float32(data.CHAIN_FACTOR)

        def total(x: Any) -> Any:
            for _ in range(data.CHAIN_LENGTH):
                x = anp.tanh(x * factor)
            return anp.sum(x)

        gradient = autograd.grad(total)
        return _reading(lambda: [gradient(x)])

    def rnn(self) -> Work:
        inputs, parameters = data.rnn()

        def total(parameters: list[Any]) -> Any:
            h = np.zeros((16, 64), np.float32)
            for x in inputs:
                h = anp.tanh(anp.dot(x, parameters[0]) + anp.dot(h, parameters[1]) + parameters[2])
            return anp.sum(h * h)

        gradient = autograd.grad(total)
        return _reading(lambda: gradient(parameters))

    def jac(self) -> Work:
        a, b, c = data.jac()
        jacobian = autograd.jacobian(lambda b: anp.tanh(anp.dot(anp.tanh(anp.dot(a, b)), c)))
        return _reading(lambda: [jacobian(b)])

    def hess(self) -> Work:
        x = data.hess()
        hessian = autograd.hessian(lambda x: anp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))
        return _reading(lambda: [hessian(x)])


def _reading(step: Callable[[], list[Any]]) -> Work:
    return Work(step, step)
