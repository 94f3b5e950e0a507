"""What a call of a compiled function costs beside its program: python -m benchmarks.call_overhead

A function that adds to 100 variables, against `jax.jit` with the same 100 arrays as donated arguments: the program is
the same, what differs is Python's work around it. The two take turns in one process.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks import budgets

COUNT = 100
ROUNDS, CALLS = 40, 200


def steps(count: int = COUNT) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """One step of gradtape, and one of JAX."""
    import jax

    import gradtape as tf

    variables = [tf.Variable(np.zeros(8, np.float32)) for _ in range(count)]
    x = tf.constant(np.ones(8, np.float32))

    @tf.function(jit_compile=True)
    def assign(x: Any) -> Any:
        for v in variables:
            v.assign_add(x)
        return x

    def add(arrays: list[Any], x: Any) -> Any:
        return [a + x for a in arrays], x

    jitted = jax.jit(add, donate_argnums=0)
    state = [jax.device_put(np.zeros(8, np.float32)) for _ in range(count)]
    given = np.ones(8, np.float32)

    def jax_step() -> Any:
        state[:], result = jitted(list(state), given)
        return np.asarray(result)

    return lambda: assign(x), jax_step


def measure() -> dict[str, float]:
    """Seconds of a call with each: the best of many."""
    mine, theirs = steps()
    best = {"gradtape.function": float("inf"), "jax.jit": float("inf")}
    for step in (mine, theirs):
        step()
    for _ in range(ROUNDS):
        for name, step in (("gradtape.function", mine), ("jax.jit", theirs)):
            for _ in range(CALLS):
                start = time.perf_counter()
                step()
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def verdict(measured: dict[str, float]) -> budgets.Verdict:
    """The difference against its budget."""
    more, limit = measured["gradtape.function"] - measured["jax.jit"], budgets.CALL_SECONDS
    return budgets.Verdict(
        f"call with {COUNT} variables",
        f"<= {limit * 1e6:.0f} µs more than jax.jit",
        f"{more * 1e6:.1f} µs",
        more <= limit,
    )


def line(measured: dict[str, float]) -> str:
    """The numbers as text."""
    times = ", ".join(f"{name} {seconds * 1e6:.1f} µs" for name, seconds in measured.items())
    return f"call with {COUNT} variables: {times}"


def main() -> None:
    measured = measure()
    found = verdict(measured)
    print(line(measured))
    print(f"{found.measured} more ({found.budget}: {'met' if found.met else 'not met'})")


if __name__ == "__main__":
    main()
