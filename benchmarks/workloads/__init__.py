"""The workloads, one file for each family of libraries. A library without a method for a workload is left out of it."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple

WORKS = {
    "chain": "1000 small ops one after the other, 8 numbers each: forward and gradient",
    "mlp32": "training step of a 784-256-256-10 network, batch 32",
    "mlp512": "the same, batch 512",
    "rnn": "100 steps of a recurrent cell (batch 16, width 64): forward and gradient",
    "cnn": "two convolutions with pooling and a dense layer, batch 32: forward and gradient",
    "jac": "Jacobian of two dense layers, 512 outputs by 8192 parameters",
    "hess": "Hessian of Rosenbrock's function in 200 dimensions",
    "perex": "per-example gradients of the 784-256-256-10 network, batch 64",
    "pinn": "training step of a physics-informed network: 8 layers of 20, 1,000 points, second derivatives, Adam",
    "pinn10k": "the same, 10,000 points",
}

FAMILIES = {
    "gradtape": "tape",
    "gradtape.function": "tape",
    "gradtape.numpy": "tape",
    "gradtape.xla": "tape",
    "gradtape.bare": "bare",
    "numpy": "hand",
    "tensorflow": "tape",
    "tensorflow.function": "tape",
    "torch": "torch",
    "jax.jit": "jax",
    "autograd": "autograd",
}
"""Each library, and the file that has its programs."""


class Work(NamedTuple):
    """What is timed, and what is compared between libraries before that (lists of NumPy arrays)."""

    step: Callable[[], Any]
    result: Callable[[], list[Any]]


def build(library: str, work: str) -> Work | None:
    """A workload of a library, ready to run in this process; None where the library has no program for it."""
    workloads = import_module(f"benchmarks.workloads.{FAMILIES[library]}").Workloads(library)
    method = getattr(workloads, work, None)
    return None if method is None else method()
