"""Derivatives of high order: Taylor mode beside nested tapes, and JAX's jet beside nested grad.

    python -m benchmarks.taylor                                   # gradtape, and JAX if this Python has it
    BENCH_JAX=~/jax/bin/python python -m benchmarks.taylor        # JAX of another Python
    python -m benchmarks.taylor --small                           # small sizes, to see that all is well

The network has four layers of 64 with tanh. Each library runs in a process of its own; times are milliseconds, the
best of one second. gradtape runs under tf.function and eagerly, JAX is compiled (not counted).
"""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from typing import Any

import numpy as np

from benchmarks.timing import best

WIDTHS = (64, 64, 64)
ORDERS = (2, 4, 6, 8)


def _weights(inputs: int) -> list[np.ndarray]:
    r = np.random.default_rng(0)
    sizes = (inputs, *WIDTHS, 1)
    return [r.normal(size=(a, b)) / np.sqrt(a) for a, b in itertools.pairwise(sizes)]


def _network(weights: Any, tanh: Any, x: Any) -> Any:
    for w in weights[:-1]:
        x = tanh(x @ w)
    return x @ weights[-1]


def _gradtape(points: int, dimension: int, seconds: float, orders: tuple[int, ...] = ORDERS) -> dict[str, Any]:
    import gradtape as tf

    def taylor(x: Any, weights: Any, order: int) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = _network(weights, tf.tanh, x)
        return tape.taylor(y, x, order)[order]

    def nested(x: Any, weights: Any, order: int) -> Any:
        if order == 0:
            return _network(weights, tf.tanh, x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = nested(x, weights, order - 1)
        return tape.gradient(y, x)

    def laplacian(x: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = _network(weights, tf.tanh, x)[:, 0]
        return tape.laplacian(y, x, batch=True)

    def trace(x: Any, weights: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = _network(weights, tf.tanh, x)
            g = tape.gradient(y, x)
        return tf.linalg.trace(outer.batch_jacobian(g, x))

    def biharmonic(x: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = _network(weights, tf.tanh, x)[:, 0]
        return tape.biharmonic(y, x, batch=True)

    found: dict[str, Any] = {}

    def measure(name: str, function: Any, x: Any, weights: Any, *args: Any) -> None:
        compiled = tf.function(lambda x: function(x, weights, *args))
        for _ in range(3):
            value = compiled(x)
        found[name] = {
            "eager": 1e3 * best(lambda: function(x, weights, *args).numpy(), seconds),
            "compiled": 1e3 * best(lambda: compiled(x).numpy(), seconds),
            "sum": float(tf.reduce_sum(value)),
        }

    line, plane = _points(points, 1), _points(points, dimension)
    flat, deep = [tf.constant(w) for w in _weights(1)], [tf.constant(w) for w in _weights(dimension)]
    for order in orders:
        measure(f"derivative {order}", taylor, tf.constant(line), flat, order)
        measure(f"derivative {order}, nested", nested, tf.constant(line), flat, order)
    measure("laplacian", laplacian, tf.constant(plane), deep)
    measure("laplacian, nested", trace, tf.constant(plane), deep)
    few = [tf.constant(w) for w in _weights(3)]
    measure("biharmonic", biharmonic, tf.constant(_points(points, 3)), few)
    return found


def _jax(points: int, dimension: int, seconds: float) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp
    from jax.experimental.jet import jet

    jax.config.update("jax_enable_x64", True)

    def of(weights: Any) -> Any:
        return lambda x: _network(weights, jnp.tanh, x)

    def taylor(x: Any, weights: Any, order: int) -> Any:
        series = [jnp.ones_like(x)] + [jnp.zeros_like(x)] * (order - 1)
        return jet(of(weights), (x,), (series,))[1][-1]

    def nested(x: Any, weights: Any, order: int) -> Any:
        function = lambda t: of(weights)(t[None])[0]  # noqa: E731
        for _ in range(order):
            function = jax.grad(function)
        return jax.vmap(function)(x[:, 0])

    def laplacian(x: Any, weights: Any) -> Any:
        """Second derivatives along all axes, as jet computes them."""
        second = lambda e: jet(of(weights), (x,), ([jnp.broadcast_to(e, x.shape), jnp.zeros_like(x)],))[1][1]  # noqa: E731
        return jax.vmap(second)(jnp.eye(x.shape[1])).sum(0)[:, 0]

    def trace(x: Any, weights: Any) -> Any:
        return jax.vmap(lambda p: jnp.trace(jax.hessian(lambda q: of(weights)(q[None])[0, 0])(p)))(x)

    found: dict[str, Any] = {}

    def measure(name: str, function: Any, x: Any, weights: Any, *args: Any) -> None:
        compiled = jax.jit(lambda x: function(x, weights, *args))
        value = compiled(x)
        found[name] = {
            "compiled": 1e3 * best(lambda: jax.block_until_ready(compiled(x)), seconds),
            "sum": float(value.sum()),
        }

    line, plane = jnp.asarray(_points(points, 1)), jnp.asarray(_points(points, dimension))
    for order in ORDERS:
        measure(f"derivative {order}", taylor, line, _weights(1), order)
        if order <= 6:  # compiling the eighth takes minutes
            measure(f"derivative {order}, nested", nested, line, _weights(1), order)
    measure("laplacian", laplacian, plane, _weights(dimension))
    measure("laplacian, nested", trace, plane, _weights(dimension))
    return found


def _points(points: int, dimension: int) -> np.ndarray:
    return np.random.default_rng(1).uniform(-1, 1, size=(points, dimension))


LIBRARIES = {"gradtape": _gradtape, "jax": _jax}


def _run(python: str, library: str, small: bool) -> dict[str, Any] | None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    environment["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    command = [python, "-m", "benchmarks.taylor", "--of", library, *(["--small"] if small else [])]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    return json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def main() -> None:
    small = "--small" in sys.argv
    sizes = (50, 4, 0.05) if small else (1000, 16, 1.0)
    if "--of" in sys.argv:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(LIBRARIES[sys.argv[sys.argv.index("--of") + 1]](*sizes)))
        return
    ours = _run(sys.executable, "gradtape", small)
    if ours is None:
        raise SystemExit("gradtape failed: python -m benchmarks.taylor --of gradtape")
    theirs = _run(os.environ.get("BENCH_JAX", sys.executable), "jax", small) or {}
    print(f"{'':24}{'eager':>10}{'function':>10}{'JAX':>10}   ms, {sizes[0]} points")
    for name, row in ours.items():
        peer = theirs.get(name)
        if peer is not None and not np.isclose(peer["sum"], row["sum"], rtol=1e-6):
            raise SystemExit(f"{name}: {row['sum']} here, {peer['sum']} in JAX")
        print(f"{name:24}{row['eager']:10.2f}{row['compiled']:10.2f}" + (f"{peer['compiled']:10.2f}" if peer else ""))


if __name__ == "__main__":
    main()
