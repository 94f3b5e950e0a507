"""Fit a curve to noisy points: the smallest possible training loop.

    python examples/linear_regression.py

The model is linear in its four weights: y = w0 + w1 x + w2 x^2 + w3 x^3. Each step does three things: it computes the
loss while a tape records, computes the gradient with the tape, and moves the weights a little against the gradient.
Because the model is linear, the best weights are also known in closed form, and the loop converges to them.
"""

import numpy as np
from common import Progress, arguments, get_pyplot, save_picture

import gradtape as tf

TRUE_WEIGHTS = np.array([0.5, -1.0, -0.8, 1.6])
RATE = 0.1


def model(weights: tf.Variable, x: tf.Tensor) -> tf.Tensor:
    powers = tf.stack([x**0, x, x**2, x**3], axis=1)
    return tf.linalg.matvec(powers, weights)


def main() -> None:
    options = arguments(__doc__, steps=1000, quick=400)
    rng = np.random.default_rng(options.seed)
    points = rng.uniform(-1.5, 1.5, 80)
    noisy = np.polynomial.Polynomial(TRUE_WEIGHTS)(points) + rng.normal(0.0, 0.3, 80)
    x, y = tf.constant(points, tf.float32), tf.constant(noisy, tf.float32)

    weights = tf.Variable(tf.zeros(4))
    history, losses = [weights.numpy()], []
    for _ in (bar := Progress(options.steps)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(weights, x) - y) ** 2)
        gradient = tape.gradient(loss, weights)
        weights.assign_sub(RATE * gradient)
        losses.append(float(loss))
        history.append(weights.numpy())
        bar.note = f"loss {losses[-1]:.5f}"

    best = np.polynomial.Polynomial.fit(points, noisy, 3).convert().coef
    print(f"\n{'':12}     w0      w1      w2      w3")
    for name, row in [("true", TRUE_WEIGHTS), ("closed form", best), ("gradient descent", weights.numpy())]:
        print(f"{name:12}" + "".join(f"{value:8.3f}" for value in row))
    print(f"Largest difference from the closed form: {np.abs(weights.numpy() - best).max():.1e}")
    draw(options.out, points, noisy, history, losses, best)


def draw(out, points, noisy, history, losses, best) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    grid = np.linspace(-1.6, 1.6, 200)
    left.plot(points, noisy, "o", color="0.6", markersize=4, label="data")
    shown = [step for step in (0, 3, 10, 30, 100, len(losses)) if step <= len(losses)]
    for step, color in zip(shown, pyplot.cm.viridis(np.linspace(0.95, 0.1, len(shown))), strict=True):
        left.plot(
            grid,
            np.polynomial.Polynomial(history[step])(grid),
            color=color,
            label=f"after {step} steps" if step else "at the start",
        )
    left.plot(grid, np.polynomial.Polynomial(best)(grid), "k:", label="closed form")
    left.set(title="The fitted curve during training", xlabel="x", ylabel="y")
    left.legend(fontsize=8)
    floor = np.mean((np.polynomial.Polynomial(best)(points) - noisy) ** 2)
    right.loglog(np.arange(1, len(losses) + 1), losses, color="tab:blue", label="loss")
    right.axhline(floor, color="black", linestyle=":", label=f"least squares: {floor:.4f}")
    right.set(title="The loss", xlabel="step", ylabel="mean squared error")
    right.legend()
    right.grid(alpha=0.3, which="both")
    save_picture(figure, out, "linear_regression.png")


if __name__ == "__main__":
    main()
