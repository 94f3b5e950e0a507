"""The inputs of the workloads: the same numbers for every library."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

Array = np.ndarray

RATE = 0.01
"""The step size of the training steps."""

CHAIN_LENGTH = 500
CHAIN_FACTOR = 1.001


def _normal(rng: np.random.Generator, *shape: int, scale: float = 0.1) -> Array:
    return (rng.normal(size=shape) * scale).astype(np.float32)


def mlp(batch: int) -> tuple[Array, Array, list[Array]]:
    """Images, labels, and the parameters of a network 784-256-256-10: three matrices, then three biases."""
    rng = np.random.default_rng(0)
    images, labels = _normal(rng, batch, 784, scale=1.0), rng.integers(0, 10, batch)
    sizes = [784, 256, 256, 10]
    matrices = [_normal(rng, i, o, scale=i**-0.5) for i, o in pairwise(sizes)]
    return images, labels, matrices + [np.zeros(n, np.float32) for n in sizes[1:]]


def rnn() -> tuple[Array, list[Array]]:
    """100 steps of 16 sequences with 64 features, and the parameters of a plain recurrent cell of width 64."""
    rng = np.random.default_rng(1)
    return _normal(rng, 100, 16, 64), [_normal(rng, 64, 64), _normal(rng, 64, 64), _normal(rng, 64)]


def cnn() -> tuple[Array, Array, list[Array]]:
    """32 images of 28 x 28, labels, and two kernels, a matrix and a bias (channels last)."""
    rng = np.random.default_rng(2)
    parameters = [_normal(rng, 3, 3, 1, 32), _normal(rng, 3, 3, 32, 64), _normal(rng, 1600, 10), _normal(rng, 10)]
    return _normal(rng, 32, 28, 28, 1), rng.integers(0, 10, 32), parameters


def jac() -> tuple[Array, Array, Array]:
    """Three matrices a, b, c: the Jacobian is that of tanh(tanh(a b) c) with respect to b, 512 x 8192 numbers."""
    rng = np.random.default_rng(3)
    return _normal(rng, 8, 64), _normal(rng, 64, 128), _normal(rng, 128, 64)


def hess() -> Array:
    """A point in 200 dimensions: the Hessian is that of Rosenbrock's function."""
    return _normal(np.random.default_rng(4), 200)


def pinn(count: int) -> tuple[Array, list[Array]]:
    """Points (t, x), and the parameters of a network 2-20-…-20-1 of eight hidden layers: matrix, bias, …"""
    rng = np.random.default_rng(5)
    sizes = [2, *[20] * 8, 1]
    pairs = [(_normal(rng, i, o, scale=i**-0.5), np.zeros(o, np.float32)) for i, o in pairwise(sizes)]
    return rng.uniform(size=(count, 2)).astype(np.float32), [p for pair in pairs for p in pair]
