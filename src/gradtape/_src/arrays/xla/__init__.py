"""The XLA engine: JAX arrays and tracers, with the same functions under the same names as the NumPy engine.

Nothing imports this package until a device, a compiled function or `config` asks for it. Importing it turns on JAX's
64-bit types, because TensorFlow's float64 and int64 are what they say, and lets programs on the processor run in the
thread that calls them: their results are NumPy arrays, which somebody waits for, and another thread would only have to
be woken up (7 microseconds a call; benchmark: hess).
"""

from __future__ import annotations

import os
from typing import Any

# GPU memory is taken as it is needed, not most of it at once; who sets the variable decides.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

import jax
import numpy as np

from gradtape._src import forks
from gradtape._src.arrays import numpy_namespace, register_namespace
from gradtape._src.arrays.base import Engine, Interpreter

_settings: Any = jax.config
_settings.update("jax_enable_x64", True)
if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ:  # who sets the variable decides
    _settings.update("jax_cpu_enable_async_dispatch", False)

from gradtape._src.arrays.xla import (  # noqa: E402 - arrays made at import have the 64-bit types
    control,
    core,
    image,
    linalg,
    neural,
    random,
    segment,
    signal,
    special,
    state,
)

_MODULES = (core, special, linalg, neural, signal, image, random, segment, state, control)
xla_namespace: Any = Engine("XLA", jax.numpy, *_MODULES, rank=1)
_ARRAYS: tuple[Any, ...] = (jax.Array, type(jax.numpy.zeros(())))

for _kind in (*_ARRAYS, jax.core.Tracer):
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
        for kind in _ARRAYS:
            register_namespace(kind, _WithoutThreads())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)
