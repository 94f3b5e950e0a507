"""What a compiled program does besides computing: calls of Python functions, in the order of the code, at every run.

A program cannot raise: it would leave variables behind whose memory it was given. A check that fails is noted, the
program goes on to its end, and whoever called it raises.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape import errors, nest
from gradtape.arrays import generic_kernels
from gradtape.arrays.symbolic import Node, current_graph
from gradtape.conversion import convert
from gradtape.tensor import Tensor

_failures: deque[Exception] = deque()


def host_call(function: Callable[..., None], *tensors: Any) -> None:
    """Let the program that is being traced call a function with the values of these tensors, as NumPy arrays."""
    graph = current_graph()
    assert graph is not None
    arrays = tuple([graph.own(convert(t).array) for t in tensors])
    graph.nodes.append(Node("host_call", arrays, {"effect": function}, ()))


def check(condition: Tensor, data: Any) -> None:
    """Let the program that is being traced fail where a condition does not hold; the error shows the data."""
    leaves = [leaf for leaf in nest.flatten(data) if leaf is not None]
    tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor) and leaf.array.dtype.kind != "O"]

    def look(holds: Any, *values: Any) -> None:
        if not np.all(holds):
            remaining = iter(values)
            shown = [next(remaining) if any(leaf is t for t in tensors) else leaf for leaf in leaves]
            _failures.append(errors.invalid_argument(" ".join(["assertion failed:", *[f"[{x}]" for x in shown]])))

    host_call(look, condition, *tensors)


def raise_failure() -> None:
    """Raise for the first check that failed in a program which has just run."""
    import jax

    jax.effects_barrier()  # type: ignore[no-untyped-call]
    if _failures:
        failure = _failures.popleft()
        _failures.clear()
        raise failure


def _host_call(xp: Any, *arrays: Any, effect: Callable[..., None]) -> tuple[()]:
    from jax.experimental import io_callback

    def run(*values: Any) -> None:
        effect(*[np.asarray(value) for value in values])

    io_callback(run, None, *arrays, ordered=True)
    return ()


generic_kernels["host_call"] = _host_call
