"""Solvers with derivatives and second-order optimizers: gradtape beside jaxopt, diffrax, torchdiffeq and SciPy.

    python -m benchmarks.solvers                                   # gradtape, and the peers that this Python has
    BENCH_PEERS=~/peers/bin/python python -m benchmarks.solvers    # the peers of another Python

For each problem the value and its gradient, which must agree, and the best time of one evaluation, in
milliseconds. Programs of JAX, and of gradtape's `tf.function`, are compiled; that is not counted.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import best

Call = Callable[[], tuple[float, float]]
"""Returns the loss, and the sum of squares of its gradient."""

RNG = np.random.default_rng(0)
SIZE = 50
MATRIX = RNG.normal(size=(SIZE, SIZE)) / SIZE**0.5 / 2
SHIFT = RNG.normal(size=SIZE)
HIDDEN = 32
WEIGHTS = [RNG.normal(size=(2, HIDDEN)) / 2, RNG.normal(size=(HIDDEN, 2)) / 8]
TIMES = np.linspace(0.0, 5.0, 20)
START = np.array([2.0, 0.0])
UNKNOWNS, BOUNDS = 20, 20
_ROOT = RNG.normal(size=(UNKNOWNS, UNKNOWNS))
QUADRATIC, LINEAR = _ROOT @ _ROOT.T / UNKNOWNS + np.eye(UNKNOWNS), RNG.normal(size=UNKNOWNS)
SIDES, LIMITS = RNG.normal(size=(BOUNDS, UNKNOWNS)), RNG.uniform(0.1, 0.5, BOUNDS)
ROSENBROCK = np.tile([-1.2, 1.0], 25)


# -- gradtape --------------------------------------------------------------------------------------------------------
def _of_tape(loss: Callable[[Any], Any], x: Any, compiled: bool) -> Call:
    import gradtape as tf

    def both(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loss(x)
        return y, tape.gradient(y, x)

    call = tf.function(both, jit_compile=True) if compiled else both
    t = tf.nest.map_structure(tf.constant, x)

    def run() -> tuple[float, float]:
        y, g = call(t)
        return float(y), float(sum(np.sum(np.square(part)) for part in tf.nest.flatten(g)))

    return run


def gradtape_calls() -> dict[tuple[str, str], Call]:
    """By problem and way."""
    import gradtape as tf

    def equilibrium(b: Any) -> Any:
        step = lambda x, b: tf.tanh(tf.linalg.matvec(MATRIX, x)) + b  # noqa: E731
        return tf.reduce_sum(tf.autodiff.root(lambda x, b: x - step(x, b), tf.zeros_like(b), b).x ** 2)

    def spiral(adjoint: str) -> Callable[[Any], Any]:
        def loss(w: Any) -> Any:
            def field(t: Any, y: Any, a: Any, b: Any) -> Any:
                return tf.linalg.matvec(b, tf.tanh(tf.linalg.matvec(a, y**3, transpose_a=True)), transpose_a=True)

            y = tf.autodiff.odeint(field, START, TIMES, tuple(w), rtol=1e-6, atol=1e-8, adjoint=adjoint, max_steps=200)
            return tf.reduce_sum(y**2)

        return loss

    def program(c: Any) -> Any:
        return tf.reduce_sum(tf.autodiff.solve_qp(QUADRATIC, c, G=SIDES, h=LIMITS).x ** 2)

    calls: dict[tuple[str, str], Call] = {}
    for way, compiled in (("gradtape", False), ("gradtape, tf.function", True)):
        calls["root", way] = _of_tape(equilibrium, SHIFT, compiled)
        calls["ode, discrete", way] = _of_tape(spiral("discrete"), WEIGHTS, compiled)
        calls["qp", way] = _of_tape(program, LINEAR, compiled)
    calls["ode, continuous", "gradtape"] = _of_tape(spiral("continuous"), WEIGHTS, False)

    @tf.function(jit_compile=False)
    def rosenbrock(x: Any) -> Any:
        return tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    x = tf.Variable(ROSENBROCK)

    def lbfgs() -> tuple[float, float]:
        x.assign(ROSENBROCK)
        report = tf.train.LBFGS(gtol=1e-6, ftol=0.0).minimize(lambda: rosenbrock(x), [x])
        return 0.0, float(report.iterations > 0)

    @tf.function(jit_compile=True)
    def whole_loop(start: Any) -> Any:
        return tf.autodiff.minimize(rosenbrock.python_function, start, tol=1e-6).nit

    start = tf.constant(ROSENBROCK)
    calls["l-bfgs", "gradtape"] = lbfgs
    calls["l-bfgs", "gradtape, compiled loop"] = lambda: (0.0, float(whole_loop(start) > 0))
    return calls


# -- peers -----------------------------------------------------------------------------------------------------------
def jax_calls() -> dict[tuple[str, str], Call]:
    """jaxopt and diffrax, compiled."""
    import jax

    jax.config.update("jax_enable_x64", True)
    import diffrax
    import jax.numpy as jnp
    import jaxopt
    import optimistix

    def of(loss: Callable[[Any], Any], x: Any) -> Call:
        call = jax.jit(jax.value_and_grad(loss))

        def run() -> tuple[float, float]:
            y, g = call(x)
            return float(y), float(sum(np.sum(np.square(part)) for part in jax.tree.leaves(g)))

        return run

    def equilibrium(b: Any) -> Any:
        solver = optimistix.Newton(rtol=1e-12, atol=1e-12)
        found = optimistix.root_find(lambda x, b: x - jnp.tanh(MATRIX @ x) - b, solver, jnp.zeros_like(b), args=b)
        return jnp.sum(found.value**2)

    def spiral(adjoint: Any) -> Callable[[Any], Any]:
        def loss(w: Any) -> Any:
            field = lambda t, y, w: jnp.tanh((y**3) @ w[0]) @ w[1]  # noqa: E731
            found = diffrax.diffeqsolve(
                diffrax.ODETerm(field), diffrax.Dopri5(), TIMES[0], TIMES[-1], None, jnp.asarray(START), w,
                saveat=diffrax.SaveAt(ts=TIMES), adjoint=adjoint, max_steps=200,
                stepsize_controller=diffrax.PIDController(rtol=1e-6, atol=1e-8),
            )  # fmt: skip
            return jnp.sum(found.ys**2)

        return loss

    def program(c: Any) -> Any:
        solver = jaxopt.OSQP(tol=1e-9, maxiter=20000)
        found = solver.run(params_obj=(QUADRATIC, c), params_eq=None, params_ineq=(SIDES, LIMITS)).params
        return jnp.sum(found.primal**2)

    weights = [jnp.asarray(w) for w in WEIGHTS]

    def rosenbrock(x: Any) -> Any:
        return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)

    solver = jaxopt.LBFGS(rosenbrock, maxiter=500, tol=1e-6)
    run = jax.jit(solver.run)

    def lbfgs() -> tuple[float, float]:
        return 0.0, float(run(jnp.asarray(ROSENBROCK)).state.iter_num > 0)

    return {
        ("root", "optimistix"): of(equilibrium, jnp.asarray(SHIFT)),
        ("ode, discrete", "diffrax"): of(spiral(diffrax.RecursiveCheckpointAdjoint()), weights),
        ("ode, continuous", "diffrax"): of(spiral(diffrax.BacksolveAdjoint()), weights),
        ("qp", "jaxopt"): of(program, jnp.asarray(LINEAR)),
        ("l-bfgs", "jaxopt"): lbfgs,
    }


def torch_calls() -> dict[tuple[str, str], Call]:
    """torchdiffeq, and PyTorch's L-BFGS."""
    import torch
    import torchdiffeq

    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)

    class Field(torch.nn.Module):  # type: ignore[misc, name-defined, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = (torch.nn.Parameter(torch.tensor(w)) for w in WEIGHTS)

        def forward(self, t: Any, y: Any) -> Any:
            return torch.tanh((y**3) @ self.a) @ self.b

    field = Field()

    def of(solve: Any) -> Call:
        def run() -> tuple[float, float]:
            field.zero_grad()
            y = solve(field, torch.tensor(START), torch.tensor(TIMES), rtol=1e-6, atol=1e-8, method="dopri5")
            loss = (y**2).sum()
            loss.backward()
            return float(loss), float(sum((p.grad**2).sum() for p in field.parameters()))

        return run

    def lbfgs() -> tuple[float, float]:
        x = torch.tensor(ROSENBROCK, requires_grad=True)
        optimizer = torch.optim.LBFGS(
            [x], max_iter=500, history_size=10, tolerance_grad=1e-6, tolerance_change=0.0, line_search_fn="strong_wolfe"
        )

        def closure() -> Any:
            optimizer.zero_grad()
            loss = (100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        return 0.0, 1.0

    return {
        ("ode, discrete", "torchdiffeq"): of(torchdiffeq.odeint),
        ("ode, continuous", "torchdiffeq"): of(torchdiffeq.odeint_adjoint),
        ("l-bfgs", "PyTorch"): lbfgs,
    }


LIBRARIES = {"gradtape": gradtape_calls, "jax": jax_calls, "torch": torch_calls}
NEEDS = {"gradtape": ("gradtape",), "jax": ("jaxopt", "diffrax", "optimistix"), "torch": ("torchdiffeq",)}


def measure(library: str) -> list[dict[str, Any]]:
    """The rows of one library, in this process."""
    if any(importlib.util.find_spec(name) is None for name in NEEDS[library]):
        return []
    rows = []
    for (problem, way), call in LIBRARIES[library]().items():
        loss, gradient = call()
        rows.append({"problem": problem, "way": way, "loss": loss, "gradient": gradient, "ms": 1e3 * best(call)})
    return rows


def main() -> None:
    """Print a table of all libraries."""
    if len(sys.argv) > 1:
        print(json.dumps(measure(sys.argv[1])))
        return
    rows = []
    for library in LIBRARIES:
        python = sys.executable if library == "gradtape" else os.environ.get("BENCH_PEERS", sys.executable)
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        command = [python, "-m", "benchmarks.solvers", library]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if done.returncode:
            print(f"{library}: {done.stderr.strip().splitlines()[-1]}")
        else:
            rows += json.loads(done.stdout.splitlines()[-1])
    for problem in dict.fromkeys(row["problem"] for row in rows):
        for row in (row for row in rows if row["problem"] == problem):
            print(f"{problem:16} {row['way']:24} {row['ms']:9.2f} ms   {row['loss']:.8g}   {row['gradient']:.8g}")


if __name__ == "__main__":
    main()
