"""One epoch of Keras' `fit` on each of its backends, side by side: python -m benchmarks.keras_fit [MODEL...]

Every backend has a process of its own on the same core, starts from the same weights and sees the same batches. They
take turns after the first epoch, which compiles; the best epoch counts. Losses of the first epoch are compared.

gradtape and JAX run in this Python. TensorFlow and PyTorch are found as in `python -m benchmarks`: BENCH_TENSORFLOW,
BENCH_TORCH and BENCH_PEERS name Pythons that have them and Keras.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
MODELS = {
    "mlp": "784-128-10 with Adam, 100 batches of 64",
    "cnn": "two convolutions of 28x28 pictures, pooling, a dense layer, Adam, 32 batches of 32",
}
WAYS = {  # the column, Keras' backend, and what is said to `compile`
    "gradtape eager": ("gradtape", {"run_eagerly": True}),
    "gradtape": ("gradtape", {}),
    "jax": ("jax", {}),
    "tensorflow eager": ("tensorflow", {"run_eagerly": True}),
    "tensorflow": ("tensorflow", {}),
    "torch": ("torch", {}),
}
BUDGETS = (("gradtape eager", "tensorflow eager", 1 / 5), ("gradtape", "jax", 1.1))
"""The first one's time is at most so many times the second one's."""


# -- in the process of one backend -----------------------------------------------------------------------------------
def _model(keras: Any, name: str) -> tuple[Any, tuple[int, ...], int, int]:
    """A model, the shape of an example, how many examples there are, and how many make a batch."""
    layers = keras.layers
    if name == "mlp":
        stack = [keras.Input((784,)), layers.Dense(128, activation="relu"), layers.Dense(10)]
        return keras.Sequential(stack), (784,), 6400, 64
    stack = [
        keras.Input((28, 28, 1)),
        layers.Conv2D(8, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Conv2D(16, 3, activation="relu"),
        layers.MaxPooling2D(),
        layers.Flatten(),
        layers.Dense(10),
    ]
    return keras.Sequential(stack), (28, 28, 1), 1024, 32


def _work(way: str, name: str) -> None:
    """Say the loss of the first epoch, then for each line that is read the seconds of one more."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {int(os.environ.get("BENCH_CORE", max(os.sched_getaffinity(0))))})
    answers, sys.stdout = sys.stdout, sys.stderr
    backend, options = WAYS[way]
    os.environ["KERAS_BACKEND"] = backend
    if backend == "gradtape":
        import gradtape  # noqa: F401 - lets Keras find it
    import keras

    model, shape, count, batch = _model(keras, name)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(scale=0.05, size=w.shape).astype("float32") for w in model.get_weights()])
    x, y = rng.normal(size=(count, *shape)).astype("float32"), rng.integers(0, 10, count)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"], **options)

    def epoch() -> float:
        return float(model.fit(x, y, batch_size=batch, verbose=0, shuffle=False).history["loss"][0])

    print(json.dumps({"loss": epoch()}), file=answers, flush=True)
    for _ in sys.stdin:
        start = time.perf_counter()
        epoch()
        print(json.dumps({"seconds": time.perf_counter() - start}), file=answers, flush=True)


# -- the race --------------------------------------------------------------------------------------------------------
class _Runner:
    """The process of one backend, which waits for its turn."""

    def __init__(self, way: str, name: str, python: str) -> None:
        from benchmarks.race import _ALONE

        self.best = float("inf")
        command = [python, "-m", "benchmarks.keras_fit", "--work", way, name]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **_ALONE},
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.loss = self._answer().get("loss")

    def _answer(self) -> dict[str, float]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {}

    def turn(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        self.best = min(self.best, self._answer()["seconds"])

    def end(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate()


def race(name: str, pythons: dict[str, str], rounds: int) -> dict[str, float]:
    """The best epoch of each way, in seconds."""
    with contextlib.ExitStack() as stack:
        runners: dict[str, _Runner] = {}
        for way, (backend, _) in WAYS.items():
            if backend not in pythons:
                continue
            runner = _Runner(way, name, pythons[backend])
            stack.callback(runner.end)
            if runner.loss is None:
                print(f"{way} is left out of {name}: its process ended", file=sys.stderr)
            else:
                runners[way] = runner
        losses = {way: runner.loss for way, runner in runners.items()}
        if max(losses.values()) - min(losses.values()) > 1e-3:
            raise SystemExit(f"{name}: the losses of the first epoch differ: {losses}")
        for _ in range(rounds):
            for runner in runners.values():
                runner.turn()
        return {way: runner.best for way, runner in runners.items()}


def _pythons() -> dict[str, str]:
    from benchmarks import libraries

    found, absent = libraries.find()
    print(*absent, sep="\n", file=sys.stderr)
    here = {"gradtape": sys.executable}
    return {m: found[m].python for m in ("jax", "tensorflow", "torch") if m in found} | here


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.keras_fit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="*", choices=[[], *MODELS], help="mlp, cnn (both if none is named)")
    parser.add_argument("--rounds", type=int, default=7, help="turns of each backend (default 7)")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return _work(*arguments.work)
    pythons = _pythons()
    for name in arguments.model or MODELS:
        times = race(name, pythons, arguments.rounds)
        print(f"\n{name}: {MODELS[name]}")
        for way, seconds in times.items():
            ratios = "  ".join(f"{seconds / times[mine]:6.2f} x {mine}" for mine in list(WAYS)[:2] if mine in times)
            print(f"  {way:<17}{seconds * 1e3:9.1f} ms  {ratios}")
        for mine, peer, limit in BUDGETS:
            if mine in times and peer in times:
                ratio = times[mine] / times[peer]
                verdict = "met" if ratio <= limit else "not met"
                print(f"  {mine} <= {limit:g} x {peer}: {ratio:.2f} x, {verdict}")
    return None


if __name__ == "__main__":
    main()
