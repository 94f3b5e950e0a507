"""Solve a differential equation with a network: second derivatives from nested tapes.

    python examples/physics_informed.py

Burgers' equation, u_t + u u_x = nu u_xx, makes a sine wave steepen into a front. A network is trained to satisfy it at
random points: it sees only the equation, never a solution. Nested tapes compute u_x, u_t and u_xx at every point, and
the outermost tape the gradient of the squared residual with respect to the weights. This equation happens to have an
exact solution (by Cole and Hopf), so we can measure the error.
"""

import numpy as np
from common import Adam, Progress, arguments, dense, get_pyplot, save_picture

import gradtape as tf

VISCOSITY = 0.05
POINTS = 400
HIDDEN = 24


class Solution:
    """u(x, t): the initial wave plus a network, times a factor that makes it exact at t = 0 and at both ends."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.variables = [*dense(rng, 2, HIDDEN), *dense(rng, HIDDEN, HIDDEN), *dense(rng, HIDDEN, 1)]

    def __call__(self, x: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
        w1, b1, w2, b2, w3, b3 = self.variables
        hidden = tf.tanh(tf.matmul(tf.concat([2 * x, 2 * t], axis=1), w1) + b1)
        hidden = tf.tanh(tf.matmul(hidden, w2) + b2)
        return -tf.sin(np.pi * x) + t * (1 - x**2) * (tf.matmul(hidden, w3) + b3)


def residual(solution: Solution, x: tf.Tensor, t: tf.Tensor) -> tf.Tensor:
    """The residual of the equation at each point: u_t + u u_x - nu u_xx."""
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as first:
            first.watch([x, t])
            u = solution(x, t)
        u_x, u_t = first.gradient(u, [x, t])
    u_xx = second.gradient(u_x, x)
    return u_t + u * u_x - VISCOSITY * u_xx


def exact(x: np.ndarray, t: np.ndarray) -> np.ndarray:
    """The exact solution by the Cole-Hopf transform: two integrals, computed with Gauss-Hermite quadrature."""
    nodes, weights = np.polynomial.hermite.hermgauss(100)
    y = x[..., None] - np.sqrt(4 * VISCOSITY * t[..., None]) * nodes
    f = weights * np.exp(-np.cos(np.pi * y) / (2 * np.pi * VISCOSITY))
    return -(np.sin(np.pi * y) * f).sum(axis=-1) / f.sum(axis=-1)


def main() -> None:
    options = arguments(__doc__, steps=3000, quick=800)
    rng = np.random.default_rng(options.seed)
    solution = Solution(rng)
    optimizer = Adam(solution.variables)

    losses = []
    for step in (bar := Progress(options.steps)):
        x = tf.constant(rng.uniform(-1, 1, (POINTS, 1)), tf.float32)
        t = tf.constant(rng.uniform(0, 1, (POINTS, 1)), tf.float32)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(residual(solution, x, t) ** 2)
        optimizer.rate = 0.01 * (1 - 0.98 * step / options.steps)
        optimizer.apply(tape.gradient(loss, solution.variables))
        losses.append(float(loss))
        bar.note = f"mean squared residual {losses[-1]:.2e}"

    xs, ts = np.meshgrid(np.linspace(-1, 1, 201), np.linspace(0, 1, 101))
    columns = (tf.constant(v.reshape(-1, 1), tf.float32) for v in (xs, ts))
    found = solution(*columns).numpy().reshape(xs.shape)
    truth = exact(xs, ts)
    error = np.linalg.norm(found - truth) / np.linalg.norm(truth)
    print(f"\nRelative error of the solution: {100 * error:.2f} %")
    draw(options.out, xs, ts, found, truth, losses)


def draw(out, xs, ts, found, truth, losses) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    (field, curves), (error, loss) = axes
    shades = field.pcolormesh(ts, xs, found, cmap="RdBu_r", vmin=-1, vmax=1, shading="gouraud")
    figure.colorbar(shades, ax=field, label="u")
    field.set(title="The network's u(x, t)", xlabel="t", ylabel="x")
    for row, color in zip((0, 25, 50, 100), pyplot.cm.viridis((0.0, 0.3, 0.6, 0.85)), strict=True):
        curves.plot(xs[row], truth[row], color=color, linewidth=4, alpha=0.35)
        curves.plot(xs[row], found[row], color=color, label=f"t = {ts[row, 0]:.2f}")
    curves.plot([], [], color="0.4", linewidth=4, alpha=0.35, label="exact")
    curves.set(title="A wave steepens into a front", xlabel="x", ylabel="u")
    curves.legend(fontsize=8)
    curves.grid(alpha=0.3)
    shades = error.pcolormesh(ts, xs, np.abs(found - truth), cmap="magma", shading="gouraud")
    figure.colorbar(shades, ax=error, label="|error|")
    error.set(title="Distance from the exact solution", xlabel="t", ylabel="x")
    loss.semilogy(np.arange(1, len(losses) + 1), losses, linewidth=0.8)
    loss.set(title="Residual of the equation", xlabel="step", ylabel="mean squared residual")
    loss.grid(alpha=0.3)
    save_picture(figure, out, "physics_informed.png")


if __name__ == "__main__":
    main()
