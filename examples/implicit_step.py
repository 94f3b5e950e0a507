"""Implicit time steps of a reaction-diffusion equation: Newton's method with a sparse Jacobian (needs SciPy).

The Brusselator on a torus has two species in each cell. Diffusion makes it stiff, so each step is implicit: Newton's
method solves for the next state, using the Jacobian of all cells. Each cell depends only on its four neighbors. The
tape finds this sparsity pattern once; the plan then computes the whole matrix in a few passes at every iteration.

    python examples/implicit_step.py
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import arguments, get_pyplot, save_picture

import gradtape as tf

try:
    from scipy.sparse.linalg import spsolve
except ImportError:
    sys.exit("This example needs SciPy: pip install scipy")

DT = 0.1


def laplacian(u: tf.Tensor) -> tf.Tensor:
    around = tf.roll(u, 1, 0) + tf.roll(u, -1, 0) + tf.roll(u, 1, 1) + tf.roll(u, -1, 1)
    return around - 4.0 * u


def speed(state: tf.Tensor, n: int) -> tf.Tensor:
    """The rate of change of both species in each cell."""
    cells = tf.reshape(state, [n, n, 2])
    u, v = cells[:, :, 0], cells[:, :, 1]
    reaction = u * u * v
    du = 1.0 + reaction - 4.4 * u + 0.02 * n * n * laplacian(u)
    dv = 3.4 * u - reaction + 0.02 * n * n * laplacian(v)
    return tf.reshape(tf.stack([du, dv], -1), [-1])


def solve(state: tf.Variable, before: np.ndarray, n: int, plan: Any) -> tuple[Any, int, float]:
    """One implicit step with Newton's method: the plan, the number of iterations, and the residual."""
    for iteration in range(20):
        with tf.GradientTape(persistent=True) as tape:
            residual = state - before - DT * speed(state, n)
        error = float(tf.reduce_max(tf.abs(residual)))
        if plan is None:
            plan = tape.sparsity(residual, state, format="scipy")
            print(plan)
        if error < 1e-10:
            return plan, iteration, error
        state.assign_sub(spsolve(tape.jacobian(residual, state, sparse=plan).tocsc(), residual.numpy()))
    raise RuntimeError(f"Newton's method did not converge: the residual is {error:.1e} after 20 iterations.")


def main() -> None:
    args = arguments(__doc__, steps=10, quick=3)
    n = 16 if args.quick else 64
    grid = (np.arange(n) + 0.5) / n
    u, v = 22 * (grid * (1 - grid))[:, None] ** 1.5, 27 * (grid * (1 - grid))[None, :] ** 1.5
    before = np.stack(np.broadcast_arrays(u, v), -1).reshape(-1)
    state, plan, began, pictures = tf.Variable(before), None, time.perf_counter(), [before]
    for step in range(1, args.steps + 1):
        plan, iterations, error = solve(state, before, n, plan)
        before = state.numpy()
        pictures.append(before)
        print(f"step {step}: {iterations} iterations, residual {error:.0e}, mean of u {before[::2].mean():.3f}")
    seconds = time.perf_counter() - began
    print(f"{args.steps} steps of {2 * n * n} unknowns in {seconds:.1f} s. Largest residual of the last: {error:.1e}")
    draw(plan, pictures, n, args.out)


def draw(plan: Any, pictures: list[np.ndarray], n: int, out: Path) -> None:
    pyplot = get_pyplot()
    if pyplot is None:
        return
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.2), layout="constrained")
    axes[0].scatter(plan.columns, plan.rows, c=plan.color_of_entries(), s=2, cmap="tab10")
    axes[0].invert_yaxis()
    axes[0].set(title=f"The Jacobian: {plan.nnz} entries, {plan.passes} passes", aspect="equal")
    for axis, picture, when in ((axes[1], pictures[0], "at the start"), (axes[2], pictures[-1], "at the end")):
        shown = axis.imshow(picture[::2].reshape(n, n), cmap="viridis")
        axis.set(title=f"u {when}")
        figure.colorbar(shown, ax=axis)
    save_picture(figure, out, "implicit_step.png")


if __name__ == "__main__":
    main()
