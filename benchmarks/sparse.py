"""Sparse Jacobians and Hessians: gradtape beside asdex and sparsejac, which are for JAX.

    python -m benchmarks.sparse                                   # gradtape, and the peers if this Python has them
    BENCH_JAX=~/jax/bin/python python -m benchmarks.sparse        # the peers of another Python
    python -m benchmarks.sparse --small                           # small sizes, to see that all is well

For each problem: the colors, the time to find pattern and coloring, and the best time of one evaluation, with the
record; for gradtape, eagerly, in a tf.function on NumPy and in one for XLA. Compiling is not counted. sparsejac finds
no patterns: it gets asdex's. Each library runs in a process of its own, one after the other.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.sparse_problems import PROBLEMS, gradtape_functions, jax_functions
from benchmarks.timing import best

LIBRARIES = ("gradtape", "asdex", "sparsejac")


def _gradtape(make: Any, size: int, order: int, seconds: float = 2.0) -> dict[str, Any]:
    import gradtape as tf

    function, start = make(gradtape_functions(), size)
    x = tf.Variable(start)

    def record() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            y = function(x)
        return tape, y

    record()[0].sparsity(tf.reduce_sum(x), x)  # what is loaded at the first use
    tape, y = record()
    began = time.perf_counter()
    plan = tape.sparsity(y, x, order=order)
    planned = time.perf_counter() - began

    def evaluate() -> Any:
        tape, y = record()
        return (tape.jacobian if order == 1 else tape.hessian)(y, x, sparse=plan)

    total = float(np.sum(np.asarray(evaluate().values) ** 2))
    return {
        "colors": plan.passes,
        "plan": planned,
        "evaluate": best(evaluate, seconds),
        "sum": total,
        "entries": plan.nnz,
        **_compiled(tf, evaluate, total, seconds),
    }


def _compiled(tf: Any, evaluate: Any, total: float, seconds: float) -> dict[str, Any]:
    """The time of the same evaluation inside a function: on NumPy, and compiled if JAX is installed."""
    found = {}
    for name, jit in (("function", False), ("xla", True)):
        if jit and importlib.util.find_spec("jax") is None:
            continue
        call = tf.function(lambda: evaluate().values, jit_compile=jit)
        values = np.asarray(call())
        if not np.isclose(np.sum(values**2), total, rtol=1e-6):
            raise AssertionError(f"jit_compile={jit} gives other numbers")
        found[name] = best(lambda call=call: np.asarray(call()), seconds)
    return found


def _asdex(make: Any, size: int, order: int) -> dict[str, Any]:
    import asdex
    import jax

    jax.config.update("jax_enable_x64", True)
    function, start = make(jax_functions(), size)
    began = time.perf_counter()
    coloring = (asdex.jacobian_coloring if order == 1 else asdex.hessian_coloring)(function, start)
    planned = time.perf_counter() - began
    from_coloring = asdex.jacobian_from_coloring if order == 1 else asdex.hessian_from_coloring
    compiled = jax.jit(from_coloring(function, coloring))
    found = compiled(start)
    total = float(np.sum(np.asarray(found.data) ** 2))
    evaluate = best(lambda: jax.block_until_ready(compiled(start)))
    return {
        "colors": coloring.num_colors,
        "plan": planned,
        "evaluate": evaluate,
        "sum": total,
        "entries": len(found.data),
    }


def _sparsejac(make: Any, size: int, order: int) -> dict[str, Any]:
    import asdex
    import jax
    import sparsejac

    if order == 2:
        return {"missing": "it has no Hessians"}
    jax.config.update("jax_enable_x64", True)
    function, start = make(jax_functions(), size)
    pattern = asdex.jacobian_sparsity(function, start).to_bcoo()
    began = time.perf_counter()
    derivative = (sparsejac.jacfwd if pattern.shape[0] >= pattern.shape[1] else sparsejac.jacrev)(function, pattern)
    planned = time.perf_counter() - began
    compiled = jax.jit(derivative)
    found = compiled(start)
    total = float(np.sum(np.asarray(found.data) ** 2))
    evaluate = best(lambda: jax.block_until_ready(compiled(start)))
    return {"colors": None, "plan": planned, "evaluate": evaluate, "sum": total, "entries": len(found.data)}


def _worker(library: str, name: str, small: bool) -> None:
    make, little, large, order = PROBLEMS[name]
    run = {"gradtape": _gradtape, "asdex": _asdex, "sparsejac": _sparsejac}[library]
    try:
        print(json.dumps(run(make, little if small else large, order)))
    except ImportError as error:
        print(json.dumps({"missing": str(error)}))


def _measured(library: str, name: str, small: bool) -> dict[str, Any]:
    python = sys.executable if library == "gradtape" else os.environ.get("BENCH_JAX", sys.executable)
    command = [python, "-m", "benchmarks.sparse", "--worker", library, name, *(["--small"] if small else [])]
    alone = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **alone}, timeout=300)
    except subprocess.TimeoutExpired:
        return {"missing": "not done after 300 s"}
    lines = done.stdout.strip().splitlines()
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {"missing": done.stderr.strip().splitlines()[-1]}
    return found


_SHOWN = {"function": "in a function on NumPy", "xla": "compiled"}


def _shown(found: dict[str, Any]) -> str:
    if "missing" in found:
        return f"({found['missing']})"
    colors = "" if found["colors"] is None else f"{found['colors']} colors, "
    inside = "".join([f", {_SHOWN[n]} {found[n] * 1e3:.1f} ms" for n in ("function", "xla") if n in found])
    return f"{colors}plan {found['plan']:.2f} s, evaluation {found['evaluate'] * 1e3:.1f} ms{inside}"


def main() -> None:
    arguments = sys.argv[1:]
    small = "--small" in arguments
    if "--worker" in arguments:
        _worker(*arguments[1:3], small)
        return
    for name in PROBLEMS:
        results = {library: _measured(library, name, small) for library in LIBRARIES}
        entries = results["gradtape"].get("entries")
        print(f"{name}: {entries} entries")
        for library, found in results.items():
            print(f"  {library:10} {_shown(found)}")
            if "sum" in found and not np.isclose(found["sum"], results["gradtape"]["sum"], rtol=1e-6):
                print(f"  {library} gives other numbers: {found['sum']} and {results['gradtape']['sum']}")


if __name__ == "__main__":
    main()
