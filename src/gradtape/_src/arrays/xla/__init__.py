"""The XLA engine: JAX arrays and tracers, with the same functions under the same names as the NumPy engine.

The package is imported with the first JAX array or compiled function; `jax_setup` says which of JAX's settings change.
"""

from __future__ import annotations

import os
from typing import Any

import jax
import numpy as np

from gradtape._src import forks
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
for _kind in (jax.Array, jax.core.Tracer):  # nothing is computed here: a forked child may be the first to import this
    register_namespace(_kind, xla_namespace)


def in_memory(value: Any) -> Any:
    """An array as NumPy's, in a process without XLA's threads: what is not in its memory by now will never be."""
    if not isinstance(value, jax.Array):
        return value
    array: Any = value
    if array.is_ready() and all(device.platform == "cpu" for device in array.devices()):
        return np.asarray(array)
    raise RuntimeError(f"A value is not in the memory of this process. {forks.ADVICE}")


class _WithoutThreads(Interpreter):
    """The functions for JAX's arrays in a forked child: NumPy's."""

    rank = 1

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return getattr(numpy_namespace, name)(*map(in_memory, args), **attrs)


def _begin_child() -> None:
    if forks.without_xla:
        for kind in [kind for kind, found in namespaces.items() if found is xla_namespace]:
            register_namespace(kind, _WithoutThreads())


_begin_child()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
