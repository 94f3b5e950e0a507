"""Problems with sparse derivatives, written once over the functions that gradtape and JAX have in common.

Each gives a function of a vector (or of several arrays), and a point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np


class Functions(NamedTuple):
    """What the problems are written in."""

    concat: Callable[[Any], Any]
    stack: Callable[[Any], Any]  # along a new last axis
    roll: Callable[[Any, int, int], Any]
    gather: Callable[[Any, Any], Any]
    reshape: Callable[[Any, tuple[int, ...]], Any]
    sum: Callable[[Any], Any]
    sum_last: Callable[[Any], Any]
    sin: Callable[[Any], Any]


def gradtape_functions() -> Functions:
    import gradtape as tf

    return Functions(
        lambda parts: tf.concat(parts, 0),
        lambda parts: tf.stack(parts, -1),
        tf.roll,
        tf.gather,
        tf.reshape,
        tf.reduce_sum,
        lambda x: tf.reduce_sum(x, -1),
        tf.sin,
    )


def jax_functions() -> Functions:
    import jax.numpy as jnp

    return Functions(
        jnp.concatenate,
        lambda parts: jnp.stack(parts, -1),
        jnp.roll,
        lambda x, index: x[index],
        jnp.reshape,
        jnp.sum,
        lambda x: jnp.sum(x, -1),
        jnp.sin,
    )


def tridiagonal(f: Functions, n: int) -> tuple[Any, np.ndarray]:
    """Second differences of a nonlinear function, with ends that are held."""

    def residual(x: Any) -> Any:
        inner = x[2:] - 2.0 * x[1:-1] * x[1:-1] + x[:-2]
        return f.concat([2.0 * x[:1], inner, 2.0 * x[-1:]])

    return residual, np.linspace(0.1, 1.0, n)


def burgers(f: Functions, n: int) -> tuple[Any, np.ndarray]:
    """An implicit step of Burgers' equation on a circle: u_t + u u_x = 0.01 u_xx."""
    h, dt = 1.0 / n, 0.5 / n
    before = np.sin(2 * np.pi * np.arange(n) / n)

    def residual(u: Any) -> Any:
        left, right = f.roll(u, 1, 0), f.roll(u, -1, 0)
        slope, bend = (right - left) / (2 * h), (right - 2.0 * u + left) / h**2
        return u - before + dt * (u * slope - 0.01 * bend)

    return residual, before + 0.1


def brusselator(f: Functions, n: int) -> tuple[Any, np.ndarray]:
    """The right side of the two-dimensional Brusselator on an n x n torus: two species in each cell."""
    alpha = 10.0 * n * n

    def laplacian(u: Any) -> Any:
        return f.roll(u, 1, 0) + f.roll(u, -1, 0) + f.roll(u, 1, 1) + f.roll(u, -1, 1) - 4.0 * u

    def right_side(state: Any) -> Any:
        cells = f.reshape(state, (n, n, 2))
        u, v = cells[:, :, 0], cells[:, :, 1]
        du = 1.0 + u * u * v - 4.4 * u + alpha * laplacian(u)
        dv = 3.4 * u - u * u * v + alpha * laplacian(v)
        return f.reshape(f.stack([du, dv]), (2 * n * n,))

    grid = (np.arange(n) + 0.5) / n
    u = 22.0 * (grid * (1 - grid))[:, None] ** 1.5 + 0 * grid
    v = 27.0 * (grid * (1 - grid))[None, :] ** 1.5 + 0 * grid[:, None]
    return right_side, np.stack([u, v], -1).reshape(-1) + 0.1


def bundle_adjustment(f: Functions, points: int) -> tuple[Any, np.ndarray]:
    """Errors of projected points: cameras with 9 parameters, points with 3, each point seen by four cameras."""
    rng = np.random.default_rng(0)
    cameras = max(points // 50, 4)
    of_point = np.repeat(np.arange(points), 4)
    of_camera = (of_point * 7 + np.tile(np.arange(4), points)) % cameras
    observed = rng.normal(size=(4 * points, 2))

    def residual(x: Any) -> Any:
        camera = f.gather(f.reshape(x[: 9 * cameras], (cameras, 9)), of_camera)
        point = f.gather(f.reshape(x[9 * cameras :], (points, 3)), of_point)
        p = [point[:, i] for i in range(3)]
        r = [camera[:, i] for i in range(3)]
        turned = [  # a small rotation: p + r x p
            p[0] + r[1] * p[2] - r[2] * p[1] + camera[:, 3],
            p[1] + r[2] * p[0] - r[0] * p[2] + camera[:, 4],
            p[2] + r[0] * p[1] - r[1] * p[0] + camera[:, 5],
        ]
        a, b = -turned[0] / turned[2], -turned[1] / turned[2]
        square = a * a + b * b
        scale = camera[:, 6] * (1.0 + camera[:, 7] * square + camera[:, 8] * square * square)
        return f.reshape(f.stack([scale * a, scale * b]) - observed, (8 * points,))

    start = np.concatenate([rng.normal(size=9 * cameras) * 0.1 + np.tile([0, 0, 0, 0, 0, 5, 1, 0, 0], cameras),
                            rng.normal(size=3 * points)])  # fmt: skip
    return residual, start


def optimal_control(f: Functions, steps: int) -> tuple[Any, np.ndarray]:
    """The Lagrangian-like objective of a pendulum that a torque swings up: angle, speed and torque at each step.

    The dynamics are a penalty, so that the problem has a Hessian of all 3 * steps variables.
    """
    dt = 5.0 / steps

    def objective(z: Any) -> Any:
        state = f.reshape(z, (steps, 3))
        angle, speed, torque = state[:, 0], state[:, 1], state[:, 2]
        push = torque - f.sin(angle)
        gap = angle[1:] - angle[:-1] - dt * 0.5 * (speed[1:] + speed[:-1])
        jump = speed[1:] - speed[:-1] - dt * 0.5 * (push[1:] + push[:-1])
        ends = angle[0] * angle[0] + speed[0] * speed[0] + (angle[-1] - np.pi) ** 2 + speed[-1] * speed[-1]
        return f.sum(torque * torque) * dt + 1e3 * (f.sum(gap * gap) + f.sum(jump * jump)) + 1e2 * ends

    return objective, np.linspace(0.0, 1.0, 3 * steps)


# name: how it is made, the size for a check against dense derivatives, the size to measure, the order of derivative
PROBLEMS: dict[str, tuple[Callable[[Functions, int], tuple[Any, np.ndarray]], int, int, int]] = {
    "tridiagonal": (tridiagonal, 12, 100_000, 1),
    "burgers": (burgers, 12, 100_000, 1),
    "brusselator": (brusselator, 5, 100, 1),
    "bundle adjustment": (bundle_adjustment, 12, 2_000, 1),
    "optimal control": (optimal_control, 8, 33_334, 2),
}
