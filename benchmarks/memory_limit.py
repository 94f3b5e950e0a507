"""Gradients within a memory limit: a tape with `memory_limit` beside checkpoints that were placed by hand.

    python -m benchmarks.memory_limit                              # gradtape, and the peers if this Python has them
    BENCH_TORCH=~/t/bin/python BENCH_JAX=~/j/bin/python python -m benchmarks.memory_limit
    python -m benchmarks.memory_limit --small

Programs: a recurrent network of 10,000 steps, and 100 convolutions with residual connections. gradtape runs without a
limit and with 1/2, 1/4 and 1/8 of the memory that it took. PyTorch uses `torch.utils.checkpoint` and JAX
`jax.checkpoint`, every sqrt(n) steps. Each run is a process of its own: the memory is the peak of the process over what
it had before the first step, the time is processor seconds of one gradient.
"""

from __future__ import annotations

import json
import math
import os
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

SIZES = {"rnn": (10_000, 32, 256), "residual": (100, 8, 16)}
SMALL = {"rnn": (200, 32, 256), "residual": (20, 8, 16)}


def _data(program: str, small: bool) -> tuple[int, dict[str, Any]]:
    steps, batch, width = (SMALL if small else SIZES)[program]
    rng = np.random.default_rng(0)
    if program == "rnn":
        return steps, {
            "w": (rng.normal(size=(width, width)) / width**0.5).astype("f"),
            "b": np.zeros(width, "f"),
            "x": rng.normal(size=(steps, 1, width)).astype("f"),
            "h": np.zeros((batch, width), "f"),
        }
    return steps, {
        "f": (rng.normal(size=(steps, 3, 3, width, width)) * 0.03).astype("f"),
        "h": rng.normal(size=(batch, 24, 24, width)).astype("f"),
    }


def _rss() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _measured(run: Any) -> dict[str, Any]:
    """The peak over what the process has now, processor seconds, and a checksum of the gradient."""
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")  # forget the peak of the start
    before, began = _rss(), time.process_time()
    gradient = run()
    seconds = time.process_time() - began
    with open("/proc/self/status") as file:
        peak = next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM"))
    return {"peak": peak - before, "seconds": seconds, "sum": float(np.abs(np.asarray(gradient, "float64")).sum())}


def _gradtape(program: str, small: bool, limit: int | None) -> dict[str, Any]:
    import gradtape as tf

    steps, data = _data(program, small)
    parts = {name: tf.Variable(value) if name in "wbf" else tf.constant(value) for name, value in data.items()}

    def loss(count: int) -> Any:
        h = parts["h"]
        for i in range(count):
            if program == "rnn":
                h = tf.tanh(h @ parts["w"] + parts["x"][i] + parts["b"])
            else:
                h = h + tf.nn.relu(tf.nn.conv2d(h, parts["f"][i], 1, "SAME"))
        return tf.reduce_mean(h * h)

    tapes = []

    def run(count: int = steps, **options: Any) -> Any:
        with tf.GradientTape(**options) as tape:
            y = loss(count)
        tapes[:] = [tape]
        return tape.gradient(y, parts["w" if program == "rnn" else "f"])

    run(2)
    found = _measured(lambda: run(**({} if limit is None else {"memory_limit": limit})))
    if limit is not None:
        found["recomputed"] = tapes[0].memory_report().limit.recomputed
    return found


def _torch(program: str, small: bool, limit: int | None) -> dict[str, Any]:
    import torch
    from torch.utils.checkpoint import checkpoint

    torch.set_num_threads(1)
    steps, data = _data(program, small)
    parts = {name: torch.tensor(value, requires_grad=name in "wbf") for name, value in data.items()}
    length = math.isqrt(steps)
    if program == "residual":
        parts["h"] = parts["h"].permute(0, 3, 1, 2).contiguous()

    def segment(h: Any, first: int, last: int) -> Any:
        for i in range(first, last):
            if program == "rnn":
                h = torch.tanh(h @ parts["w"] + parts["x"][i] + parts["b"])
            else:
                filters = parts["f"][i].permute(3, 2, 0, 1)
                h = h + torch.relu(torch.nn.functional.conv2d(h, filters, padding="same"))
        return h

    def run(count: int = steps) -> Any:
        h = parts["h"]
        for first in range(0, count, length):
            last = min(first + length, count)
            h = segment(h, first, last) if limit is None else checkpoint(segment, h, first, last, use_reentrant=False)
        (h * h).mean().backward()
        return parts["w" if program == "rnn" else "f"].grad

    run(2)
    for part in parts.values():
        part.grad = None
    return _measured(run)


def _jax(program: str, small: bool, limit: int | None) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    steps, data = _data(program, small)
    length = max(n for n in range(1, math.isqrt(steps) + 1) if steps % n == 0)

    def step(weights: Any, h: Any, each: Any) -> Any:
        if program == "rnn":
            return jnp.tanh(h @ weights["w"] + each + weights["b"])
        numbers = ("NHWC", "HWIO", "NHWC")
        return h + jax.nn.relu(jax.lax.conv_general_dilated(h, each, (1, 1), "SAME", dimension_numbers=numbers))

    def loss(weights: Any) -> Any:
        def segment(h: Any, part: Any) -> Any:
            return jax.lax.scan(lambda h, each: (step(weights, h, each), None), h, part)[0], None

        body = segment if limit is None else jax.checkpoint(segment)
        rows = weights["f"] if program == "residual" else data["x"]
        h, _ = jax.lax.scan(body, data["h"], rows.reshape(steps // length, length, *rows.shape[1:]))
        return (h * h).mean()

    name = "w" if program == "rnn" else "f"
    weights = {key: value for key, value in data.items() if key in "wbf"}
    compiled = jax.jit(jax.grad(loss)).lower(weights).compile()
    return _measured(lambda: jax.block_until_ready(compiled(weights)[name]))


def _started(library: str, program: str, small: bool, limit: int | None) -> dict[str, Any]:
    python = sys.executable if library == "gradtape" else os.environ.get(f"BENCH_{library.upper()}", sys.executable)
    alone = {"OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    command = [python, "-m", "benchmarks.memory_limit", "--worker", library, program, str(limit)]
    done = subprocess.run(
        [*command, *(["--small"] if small else [])], capture_output=True, text=True, env={**os.environ, **alone}
    )
    lines = done.stdout.strip().splitlines()
    found: dict[str, Any] = json.loads(lines[-1]) if lines else {"missing": done.stderr.strip().splitlines()[-1]}
    return found


def _worker(library: str, program: str, limit: str, small: bool) -> None:
    run = {"gradtape": _gradtape, "torch": _torch, "jax": _jax}[library]
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps(run(program, small, None if limit == "None" else int(limit))))


def main() -> None:
    arguments = sys.argv[1:]
    small = "--small" in arguments
    if "--worker" in arguments:
        _worker(arguments[1], arguments[2], arguments[3], small)
        return
    for program in SIZES:
        print(program, flush=True)
        plain = _started("gradtape", program, small, None)
        rows = [("gradtape", plain)]
        for divisor in (2, 4, 8):
            limit = plain["peak"] // divisor
            rows.append((f"gradtape, limit 1/{divisor}", _started("gradtape", program, small, limit)))
        for library in ("torch", "jax"):
            rows.append((library, _started(library, program, small, None)))
            rows.append((f"{library}, checkpoints", _started(library, program, small, 1)))
        for name, found in rows:
            if "missing" in found:
                print(f"  {name:22} ({found['missing']})", flush=True)
                continue
            again = f", {found['recomputed']} ops run again" if "recomputed" in found else ""
            same = "" if found["sum"] == plain["sum"] else f", differs by {abs(found['sum'] / plain['sum'] - 1):.0e}"
            text = f"peak {found['peak'] / 1e6:7.1f} MB, {found['seconds']:6.2f} s{again}{same}"
            print(f"  {name:22} {text}", flush=True)


if __name__ == "__main__":
    main()
