"""A layer defined by an equation: a network whose hidden state is a fixed point (a deep equilibrium model).

The hidden state of the layer is the fixed point of z = tanh(z W + x U + b), like a network with infinitely many equal
layers. A solver finds it. The gradient does not go through the iterations of the solver, only through the equation: the
tape records one op.

    python examples/equilibrium.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import Progress, arguments, get_pyplot, save_picture

import gradtape as tf

UNITS = 16


def main() -> None:
    args = arguments(__doc__, steps=150, quick=40)
    rng = np.random.default_rng(args.seed)
    x = tf.constant(rng.uniform(-3.0, 3.0, (128, 1)), tf.float32)
    y = tf.sin(2.0 * x) + 0.3 * x
    w = tf.Variable(rng.normal(0.0, 0.3 / UNITS**0.5, (UNITS, UNITS)), dtype=tf.float32)
    u, b = tf.Variable(rng.normal(size=(1, UNITS)), dtype=tf.float32), tf.Variable(tf.zeros(UNITS))
    v = tf.Variable(rng.normal(0.0, 0.1, (UNITS, 1)), dtype=tf.float32)
    variables, iterations, losses = [w, u, b, v], [], []

    def predict(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        start = tf.zeros([x.shape[0], UNITS])
        bounded = 0.9 * w / tf.maximum(1.0, tf.norm(w))  # a contraction, so there is exactly one fixed point
        found = tf.autodiff.fixed_point(lambda z: tf.tanh(z @ bounded + x @ u + b), start, batch_dims=1)
        return found.x @ v, found.nit

    moments = [(np.zeros(p.shape, "float32"), np.zeros(p.shape, "float32")) for p in variables]
    for step in (bar := Progress(args.steps)):
        with tf.GradientTape() as tape:
            outputs, count = predict(x)
            loss = tf.reduce_mean((outputs - y) ** 2)
        for i, (p, g) in enumerate(zip(variables, tape.gradient(loss, variables), strict=True)):
            first, second = 0.9 * moments[i][0] + 0.1 * g.numpy(), 0.99 * moments[i][1] + 0.01 * g.numpy() ** 2
            moments[i] = (first, second)
            p.assign_sub(0.02 * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8))
        losses.append(float(loss))
        iterations.append(int(count))
        bar.note = f"loss {losses[-1]:.4f}, {iterations[-1]} iterations"
    print(f"Loss: {losses[0]:.3f} before, {losses[-1]:.4f} after")
    grid = np.linspace(-3.0, 3.0, 200, dtype="float32")[:, None]
    draw(x.numpy(), y.numpy(), grid, predict(tf.constant(grid))[0].numpy(), losses, iterations, args.out)


def draw(
    x: np.ndarray,
    y: np.ndarray,
    grid: np.ndarray,
    outputs: np.ndarray,
    losses: list[float],
    iterations: list[int],
    out: Path,
) -> None:
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 3.8), layout="constrained")
    axes[0].plot(x, y, ".", grid, outputs)
    axes[0].set(title="The data and the network")
    axes[1].semilogy(losses)
    axes[1].set(title="The loss", xlabel="step")
    axes[2].plot(iterations)
    axes[2].set(title="Solver iterations", xlabel="step")
    save_picture(figure, out, "equilibrium.png")


if __name__ == "__main__":
    main()
