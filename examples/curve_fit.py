"""Second-order optimizers: fit a sum of two exponentials with L-BFGS, Newton-CG and Levenberg-Marquardt.

All three find the same minimum; gradient descent would need tens of thousands of steps, because the two decay rates are
similar. Each optimizer returns a report.

    python examples/curve_fit.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, get_pyplot, save_picture

import gradtape as tf

TRUTH = np.array([2.0, 1.3, 1.0, 0.2])
START = np.array([1.0, 1.0, 1.0, 0.1])


def main() -> None:
    args = arguments(__doc__, steps=500, quick=500)
    rng = np.random.default_rng(args.seed)
    t = np.linspace(0.0, 8.0, 60)
    data = TRUTH[0] * np.exp(-TRUTH[1] * t) + TRUTH[2] * np.exp(-TRUTH[3] * t) + 0.02 * rng.normal(size=t.size)
    x = tf.Variable(START)

    def residuals() -> tf.Tensor:
        return x[0] * tf.exp(-x[1] * t) + x[2] * tf.exp(-x[3] * t) - data

    def loss() -> tf.Tensor:
        return 0.5 * tf.reduce_sum(residuals() ** 2)

    reports, found = {}, []
    optimizers: list[tuple[Any, Any]] = [
        (tf.train.LBFGS(maxiter=args.steps, gtol=1e-8, ftol=0.0), loss),
        (tf.train.NewtonCG(maxiter=args.steps, xtol=1e-10), loss),
        (tf.train.LevenbergMarquardt(), residuals),
    ]
    for optimizer, function in optimizers:
        x.assign(START)
        report = optimizer.minimize(function, [x])
        reports[type(optimizer).__name__] = report
        found.append(x.numpy())
        print(report)
    print(f"Amplitudes and rates: {np.round(found[0], 3)} (true values: {TRUTH}).")
    print(f"Largest difference between the optimizers: {np.ptp(found, axis=0).max():.1e}")
    draw(t, data, found[0], reports, args.out)


def draw(t: np.ndarray, data: np.ndarray, x: np.ndarray, reports: dict[str, Any], out: Path) -> None:
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    axes[0].plot(t, data, "o", markersize=3)
    axes[0].plot(t, x[0] * np.exp(-x[1] * t) + x[2] * np.exp(-x[3] * t))
    axes[0].set(title="The data and the fitted curve", xlabel="time")
    least = min(report.loss for report in reports.values())
    for name, report in reports.items():
        axes[1].semilogy([step.loss - least + 1e-16 for step in report.history], label=name)
    axes[1].set(title="The loss above its minimum", xlabel="iteration")
    axes[1].legend()
    save_picture(figure, out, "curve_fit.png")


if __name__ == "__main__":
    main()
