"""Gradients through an ODE solver: fit the rates of a predator-prey model to noisy counts.

The Lotka-Volterra equations have four rates. The loss compares the solution with the data; its gradient with respect to
the rates goes through all steps of the solver, which are one op on the tape. L-BFGS minimizes the loss.

    python examples/predator_prey.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from common import arguments, get_pyplot, save_picture

import gradtape as tf

RATES = np.array([1.1, 0.4, 0.4, 0.1])
START = np.array([10.0, 5.0])


def change(t: tf.Tensor, y: tf.Tensor, logs: tf.Tensor) -> tf.Tensor:
    """The rate of change of both populations; the rates are given by their logarithms, so they are positive."""
    birth, eaten, death, growth = tf.unstack(tf.exp(logs))
    prey, predators = y[0], y[1]
    return tf.stack([birth * prey - eaten * prey * predators, growth * prey * predators - death * predators])


def solution(logs: tf.Tensor, times: np.ndarray) -> tf.Tensor:
    return tf.autodiff.odeint(change, tf.constant(START), times, logs, rtol=1e-6, atol=1e-8)


def main() -> None:
    args = arguments(__doc__, steps=60, quick=60)
    rng = np.random.default_rng(args.seed)
    times = np.linspace(0.0, 12.0, 31)
    exact = solution(tf.constant(np.log(RATES)), times).numpy()
    data = exact * np.exp(0.05 * rng.normal(size=exact.shape))
    logs = tf.Variable(np.log(RATES * np.array([1.3, 0.8, 1.3, 0.8])))
    before = logs.numpy()

    def loss() -> tf.Tensor:
        return tf.reduce_mean((tf.math.log(solution(logs, times)) - np.log(data)) ** 2)

    report = tf.train.LBFGS(maxiter=args.steps).minimize(loss, [logs])
    print(report.table())
    found = np.exp(logs.numpy())
    print(f"Rates: {np.round(found, 3)} (true values: {RATES}).")
    print(f"Largest relative error of a rate: {np.abs(found / RATES - 1).max():.3f}")
    draw(times, data, before, logs.numpy(), args.out)


def draw(times: np.ndarray, data: np.ndarray, before: np.ndarray, after: np.ndarray, out: Path) -> None:
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, axis = pyplot.subplots(figsize=(8, 3.6), layout="constrained")
    fine = np.linspace(times[0], times[-1], 300)
    for logs, style, word in ((before, ":", "before"), (after, "-", "fitted")):
        y = solution(tf.constant(logs), fine).numpy()
        axis.plot(fine, y[:, 0], style, color="tab:blue", label=f"prey, {word}")
        axis.plot(fine, y[:, 1], style, color="tab:red", label=f"predators, {word}")
    axis.plot(times, data[:, 0], "o", color="tab:blue", markersize=3)
    axis.plot(times, data[:, 1], "o", color="tab:red", markersize=3)
    axis.set(xlabel="time", ylabel="count")
    axis.legend(fontsize=8)
    save_picture(figure, out, "predator_prey.png")


if __name__ == "__main__":
    main()
