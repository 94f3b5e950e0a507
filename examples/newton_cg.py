"""Newton's method without a Hessian: Hessian-vector products, for SciPy's optimizers.

    python examples/newton_cg.py

Newton's method solves a linear system with the Hessian. For 650 weights, the Hessian is a matrix of 422,500 numbers;
but conjugate gradients solve the system using only Hessian-vector products, and `tape.hvp` computes each of those for
the cost of a few gradients. Here, one tape provides `scipy.optimize.minimize` with value, gradient and product. Without
SciPy (pip install scipy), the example uses a small Newton-CG of its own.
"""

import importlib.util
import time

import numpy as np
from common import Progress, arguments, get_pyplot, load_digits, save_picture

import gradtape as tf


class Objective:
    """A function of one vector, its gradient and its Hessian-vector product, recorded once for each point."""

    def __init__(self, function, start: np.ndarray) -> None:
        self.function = function
        self.start = start
        self.point = None
        self.began = None
        self.trace = []  # (seconds, value) of every point visited
        self.path = []

    def _record(self, point: np.ndarray) -> None:
        if self.point is None or not np.array_equal(point, self.point):
            self.point = np.array(point)
            self.x = tf.Variable(point, dtype=tf.float64)
            with tf.GradientTape(persistent=True) as self.tape:
                self.y = self.function(self.x)

    def value(self, point: np.ndarray) -> float:
        self._record(point)
        return float(self.y)

    def gradient(self, point: np.ndarray) -> np.ndarray:
        self._record(point)
        return self.tape.gradient(self.y, self.x).numpy()

    def product(self, point: np.ndarray, vector: np.ndarray) -> np.ndarray:
        """The Hessian at a point, times a vector."""
        self._record(point)
        return self.tape.hvp(self.y, self.x, tf.constant(vector)).numpy()

    def visited(self, point: np.ndarray) -> None:
        """Record the position, the value and the time."""
        if self.began is None:
            self.began = time.process_time()
        self.trace.append((time.process_time() - self.began, self.value(point)))
        self.path.append(np.array(point))


def gradient_descent(objective: Objective, rate: float, steps: int, name: str) -> None:
    point = objective.start.copy()
    objective.visited(point)
    for _ in (bar := Progress(steps, name=name)):
        point = point - rate * objective.gradient(point)
        objective.visited(point)
        bar.note = f"value {objective.trace[-1][1]:.6f}"


def newton(objective: Objective) -> None:
    """Newton-CG: SciPy's if it is installed."""
    if importlib.util.find_spec("scipy") is None:
        own_newton_cg(objective)
        return
    from scipy.optimize import minimize

    objective.visited(objective.start)
    minimize(
        objective.value, objective.start, jac=objective.gradient, hessp=objective.product,
        method="trust-ncg", callback=objective.visited, options={"gtol": 1e-7, "maxiter": 200},
    )  # fmt: skip


def own_newton_cg(objective: Objective, steps: int = 200) -> None:
    """Conjugate gradients for the direction, backtracking for the step length."""
    point = objective.start.copy()
    objective.visited(point)
    for _ in range(steps):
        gradient = objective.gradient(point)
        size = np.linalg.norm(gradient)
        if size < 1e-7:
            return
        direction, rest = np.zeros_like(point), -gradient
        search = rest
        for _ in range(2 * len(point)):
            product = objective.product(point, search)
            curvature = search @ product
            if curvature <= 0:  # negative curvature: use the direction found so far
                direction = direction if direction.any() else search
                break
            length = rest @ rest / curvature
            direction, new = direction + length * search, rest - length * product
            search, rest = new + (new @ new) / (rest @ rest) * search, new
            if np.linalg.norm(rest) < min(0.5, size**0.5) * size:
                break
        value, step = objective.value(point), 1.0
        while objective.value(point + step * direction) > value + 1e-4 * step * (gradient @ direction) and step > 1e-9:
            step /= 2
        point = point + step * direction
        objective.visited(point)


def rosenbrock(p: tf.Variable) -> tf.Tensor:
    """A curved, narrow valley; the minimum is at (1, 1)."""
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


def softmax_regression(images: np.ndarray, labels: np.ndarray):
    """The loss of a linear classifier of digits, a function of its 64 x 10 weights and 10 biases."""
    x, y = tf.constant(images, tf.float64), tf.constant(labels)

    def loss(p: tf.Variable) -> tf.Tensor:
        logits = tf.matmul(x, tf.reshape(p[:640], [64, 10])) + p[640:]
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        return tf.reduce_mean(losses) + 1e-4 * tf.reduce_sum(p**2)

    return loss


def main() -> None:
    options = arguments(__doc__, steps=1500, quick=200)
    rng = np.random.default_rng(options.seed)
    (images, labels), _ = load_digits(rng)
    digits = softmax_regression(images.reshape(-1, 64), labels)
    if importlib.util.find_spec("scipy") is None:
        print("SciPy is not installed (pip install scipy): using the example's own Newton-CG.")

    results = {}
    for name, function, start, rate in [
        ("Rosenbrock", rosenbrock, np.array([-1.2, 1.0]), 0.0015),
        ("digits", digits, np.zeros(650), 1.0),
    ]:
        slow = Objective(function, start)
        gradient_descent(slow, rate, options.steps, name=f"gradient descent, {name}: step")
        fast = Objective(function, start)
        newton(fast)
        results[name] = slow, fast

    print(f"\n{'':12}{'method':20}{'steps':>7}{'seconds':>9}{'value':>14}{'|gradient|':>12}")
    for name, pair in results.items():
        for method, objective in zip(("gradient descent", "Newton-CG"), pair, strict=True):
            size = np.linalg.norm(objective.gradient(objective.path[-1]))
            seconds, value = objective.trace[-1]
            print(f"{name:12}{method:20}{len(objective.path) - 1:7d}{seconds:9.2f}{value:14.8f}{size:12.1e}")
    draw(options.out, results)


def draw(out, results) -> None:
    if (pyplot := get_pyplot()) is None:
        return
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 4.8), layout="constrained")
    x, y = np.meshgrid(np.linspace(-1.6, 1.4, 200), np.linspace(-0.6, 1.8, 200))
    left.contourf(x, y, np.log10((1 - x) ** 2 + 100 * (y - x**2) ** 2 + 1e-3), levels=20, cmap="Greys", alpha=0.7)
    methods = [("gradient descent", "tab:orange", ","), ("Newton-CG", "tab:blue", ".")]
    for (name, color, marker), objective in zip(methods, results["Rosenbrock"], strict=True):
        path = np.array(objective.path)
        left.plot(*path.T, marker=marker, color=color, linewidth=1.2, label=f"{name}: {len(path) - 1} steps")
    left.plot(1, 1, "*", color="tab:red", markersize=14, label="minimum")
    left.set(title="Rosenbrock's valley", xlabel="x", ylabel="y")
    left.legend(loc="lower left", fontsize=9)

    lowest = min(value for _, value in results["digits"][1].trace)
    for (name, color, marker), objective in zip(methods, results["digits"], strict=True):
        above = [(seconds, value - lowest) for seconds, value in objective.trace if value > lowest]
        right.semilogy(
            *np.transpose(above), marker=marker, color=color, label=f"{name}: {len(objective.path) - 1} steps"
        )
    right.set(
        title="Digits: a linear classifier, 650 weights",
        xlabel="seconds",
        ylabel="loss above the minimum",
    )
    right.legend()
    right.grid(alpha=0.3)
    save_picture(figure, out, "newton_cg.png")


if __name__ == "__main__":
    main()
