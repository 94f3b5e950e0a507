"""Code shared by the examples: arguments, a progress bar, the digits, Adam, and saving the picture."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import gradtape as tf

DATA = Path(__file__).parent / "data"


def arguments(description: str | None, steps: int = 1, quick: int = 1, saves: bool = False) -> argparse.Namespace:
    """The arguments of every example: `--steps N`, `--quick` (only `quick` steps), `--out DIR`, `--seed N`.

    An example that `saves` its training also has `--checkpoints DIR`.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--steps", type=int, metavar="N", help=f"number of training steps (default: {steps})")
    parser.add_argument("--quick", action="store_true", help=f"run only {quick} steps")
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="DIR", help="directory for the picture (default: current directory)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of all random numbers (default: 0)")
    if saves:
        parser.add_argument(
            "--checkpoints", type=Path, metavar="DIR", help="save checkpoints there, and resume from them"
        )
    chosen = parser.parse_args()
    if chosen.steps is None:
        chosen.steps = quick if chosen.quick else steps
    if chosen.steps < 1:
        parser.error(f"--steps must be at least 1, got {chosen.steps}")
    return chosen


class Progress:
    """Count to `total` with a progress bar on a terminal; elsewhere, print a line now and then.

    for step in (bar := Progress(1000)):
        ...
        bar.note = f"loss {loss:.3f}"
    """

    def __init__(self, total: int, name: str = "step") -> None:
        self.total = total
        self.name = name
        self.note = ""
        self.seconds = 0.0

    def __iter__(self) -> Iterator[int]:
        start = drawn = time.perf_counter()
        terminal = sys.stdout.isatty()
        for step in range(1, self.total + 1):
            yield step
            now = time.perf_counter()
            self.seconds = now - start
            last = step == self.total
            message = f"{self.name} {step:{len(str(self.total))}d}/{self.total}   {self.note}"
            if terminal and (last or now - drawn > 0.1):
                done = 24 * step // self.total
                bar = f"[{'#' * done}{'.' * (24 - done)}] {message}   {self.seconds:.0f} s"
                print(f"\r\x1b[K{bar}", end="\n" if last else "", flush=True)
                drawn = now
            elif not terminal and (last or step == 1 or 8 * step // self.total > 8 * (step - 1) // self.total):
                print(message.rstrip(), flush=True)


def dense(rng: np.random.Generator, inputs: int, outputs: int) -> list[tf.Variable]:
    """Weights and bias of one layer, `x @ weights + bias`; the random weights preserve the scale of the activations."""
    weights = rng.normal(0.0, inputs**-0.5, (inputs, outputs))
    return [tf.Variable(weights, dtype=tf.float32), tf.Variable(tf.zeros(outputs))]


class Adam:
    """The Adam optimizer: each step depends on running means of the gradient and of its square."""

    def __init__(self, variables: list[tf.Variable], rate: float = 0.001, beta1: float = 0.9, beta2: float = 0.999):
        self.variables = variables
        self.rate, self.beta1, self.beta2 = rate, beta1, beta2
        self.means = [tf.zeros_like(v) for v in variables]
        self.squares = [tf.zeros_like(v) for v in variables]
        self.steps = 0

    def apply(self, gradients: list[tf.Tensor]) -> None:
        """Move every variable one step against its gradient."""
        self.steps += 1
        rate = self.rate * (1 - self.beta2**self.steps) ** 0.5 / (1 - self.beta1**self.steps)
        for i, (variable, gradient) in enumerate(zip(self.variables, gradients, strict=True)):
            self.means[i] = self.beta1 * self.means[i] + (1 - self.beta1) * gradient
            self.squares[i] = self.beta2 * self.squares[i] + (1 - self.beta2) * gradient * gradient
            variable.assign_sub(rate * self.means[i] / (tf.sqrt(self.squares[i]) + 1e-7))


def load_digits(rng: np.random.Generator, training: int = 1400) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """The bundled digits, shuffled: (images, labels) for training and for testing. Images are 8 x 8, from 0 to 1."""
    data = np.load(DATA / "digits.npz")
    order = rng.permutation(len(data["labels"]))
    images = data["images"][order].astype(np.float32) / 16
    labels = data["labels"][order].astype(np.int64)
    return (images[:training], labels[:training]), (images[training:], labels[training:])


def get_pyplot() -> Any:
    """Matplotlib's pyplot, drawing only to files; None, with a message, if it is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        print("No picture: Matplotlib is not installed. To get one: pip install 'gradtape[viz]'")
        return None
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def save_picture(figure: Any, directory: Path, name: str) -> Path:
    """Save a figure as `directory/name`, print its path, and close it."""
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / name
    figure.savefig(path, dpi=120)
    pyplot.close(figure)
    print(f"Picture saved to {path}.")
    return path
