"""The XLA engine: JAX arrays and tracers, with the same functions under the same names as the NumPy engine.

It is imported with the first JAX array or compiled function; `jax_setup` says which of JAX's settings change.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from gradtape._src import forks, processes
from gradtape._src.arrays import namespaces, numpy_namespace, register_namespace
from gradtape._src.arrays.base import Engine, Interpreter
from gradtape._src.jax_setup import configure

configure()

from gradtape._src.arrays.xla import (  # noqa: E402 - arrays made at import have the 64-bit types
    control,
    core,
    frames,
    image,
    linalg,
    neural,
    random,
    segment,
    signal,
    special,
    state,
)

_MODULES = (core, frames, special, linalg, neural, signal, image, random, segment, state, control)
xla_namespace: Any = Engine("XLA", jax.numpy, *_MODULES, rank=1)
for _kind in (jax.Array, jax.core.Tracer):  # computes nothing: a forked child may be the first to import this
    register_namespace(_kind, xla_namespace)


class _OfSeveralProcesses(Interpreter):
    """The functions for JAX arrays in a process that is connected to others.

    Processes may compute an array that is divided among them together, so ops on it wait in a way that notices a lost
    process (see `processes/peers.py`).
    """

    rank = 0.9  # below that of traced values, on which ops do not wait

    def find(self, name: str) -> Callable[..., Any]:
        function = getattr(xla_namespace, name)
        if not callable(function):
            return function

        def call(*args: Any, **attrs: Any) -> Any:
            if processes.is_of_several(args):
                return processes.together(lambda: jax.block_until_ready(function(*args, **attrs)))
            return function(*args, **attrs)

        return call


def _begin_connection() -> None:
    for kind in [kind for kind, found in namespaces.items() if found is xla_namespace]:
        if not issubclass(kind, jax.core.Tracer):
            register_namespace(kind, _of_several_processes)


_of_several_processes: Any = _OfSeveralProcesses()
processes.when_connected(_begin_connection)


def in_memory(value: Any) -> Any:
    """Convert to a NumPy array, in a process without XLA's threads: values that are not computed by
    now never will be.
    """
    if not isinstance(value, jax.Array):
        return value
    array: Any = value
    if array.is_ready() and all(device.platform == "cpu" for device in array.devices()):
        return np.asarray(array)
    raise RuntimeError(f"A value is not in the memory of this process. {forks.ADVICE}")


class _WithoutThreads(Interpreter):
    """The functions for JAX arrays in a forked child: NumPy's."""

    rank = 1

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return getattr(numpy_namespace, name)(*map(in_memory, args), **attrs)


def _begin_child() -> None:
    if forks.without_xla:
        for kind in [k for k, found in namespaces.items() if found in (xla_namespace, _of_several_processes)]:
            register_namespace(kind, _WithoutThreads())


_begin_child()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
