"""Bend a plate: fourth derivatives of a network with `tape.biharmonic`.

    python examples/bending_plate.py

A square plate that rests on its edges bends under its weight according to the biharmonic equation: the Laplacian of the
Laplacian of the deflection equals the load, and the Laplacian is 0 at the edges. Nested tapes would need four levels
for this; `tape.biharmonic` takes one forward pass in Taylor mode, and an outer tape differentiates it with respect to
the weights. L-BFGS minimizes the residual at the points of a grid. The exact deflection of the center is 0.004062 (for
load, size and stiffness 1).
"""

import numpy as np
from common import arguments, dense, get_pyplot, save_picture

import gradtape as tf

KNOWN = 0.00406235
HIDDEN = 24
GRID = 15


class Plate:
    """The deflection at points of the unit square: a network times a factor that is 0 at the edges."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.variables = [tf.Variable(tf.cast(v, tf.float64)) for v in (*dense(rng, 2, HIDDEN), *dense(rng, HIDDEN, 1))]

    def __call__(self, points: tf.Tensor) -> tf.Tensor:
        w1, b1, w2, b2 = self.variables
        hidden = tf.tanh(tf.matmul(2 * points - 1, w1) + b1)
        inside = tf.reduce_prod(points * (1 - points), axis=1)
        return 0.1 * inside * (tf.matmul(hidden, w2) + b2)[:, 0]


def missing(plate: Plate, points: tf.Tensor, edges: tf.Tensor) -> tf.Tensor:
    """The mean square of biharmonic(u) - 1 inside, and of laplacian(u) at the edges."""
    with tf.GradientTape() as tape:
        tape.watch(points)
        u = plate(points)
    load = tape.biharmonic(u, points, batch=True)
    with tf.GradientTape() as tape:
        tape.watch(edges)
        u = plate(edges)
    moment = tape.laplacian(u, edges, batch=True)
    return tf.reduce_mean((load - 1.0) ** 2) + 100.0 * tf.reduce_mean(moment**2)


def main() -> None:
    options = arguments(__doc__, steps=400, quick=150)
    plate = Plate(np.random.default_rng(options.seed))
    nodes = (np.polynomial.legendre.leggauss(GRID)[0] + 1) / 2
    points = tf.constant(np.stack(np.meshgrid(nodes, nodes), axis=-1).reshape(-1, 2))
    sides = [np.stack([nodes, np.full(GRID, side)], axis=-1) for side in (0.0, 1.0)]
    edges = tf.constant(np.concatenate([*sides, *[side[:, ::-1] for side in sides]]))
    loss = tf.function(lambda: missing(plate, points, edges))
    report = tf.train.LBFGS(maxiter=options.steps).minimize(loss, plate.variables)
    print(report)

    middle = float(plate(tf.constant([[0.5, 0.5]], tf.float64))[0])
    print(f"\nDeflection at the center: {middle:.6f} (exact: {KNOWN:.6f}).")
    print(f"Relative error: {100 * abs(middle / KNOWN - 1):.2f} %")
    draw(options.out, plate, [step.loss for step in report.history])


def draw(out, plate, losses) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    xs, ys = np.meshgrid(np.linspace(0, 1, 81), np.linspace(0, 1, 81))
    points = tf.constant(np.stack([xs, ys], axis=-1).reshape(-1, 2))
    u = plate(points).numpy().reshape(xs.shape)
    figure = pyplot.figure(figsize=(11, 4.2), layout="constrained")
    surface = figure.add_subplot(1, 2, 1, projection="3d")
    surface.plot_surface(xs, ys, -1e3 * u, cmap="viridis", linewidth=0, antialiased=True)
    surface.set(title="Deflection of the plate (times 1000)", xlabel="x", ylabel="y")
    curve = figure.add_subplot(1, 2, 2)
    curve.semilogy(losses)
    curve.set(title="Residual of the equation", xlabel="iteration", ylabel="mean squares")
    curve.grid(alpha=0.3)
    save_picture(figure, out, "bending_plate.png")


if __name__ == "__main__":
    main()
