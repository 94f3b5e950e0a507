"""JAX with the settings that gradtape needs; `configure` runs before JAX is first used.

These settings affect the whole process, and other programs that use JAX: 64-bit types, so that TensorFlow's float64 and
int64 are supported; GPU memory that is allocated when it is needed; compiled programs stored on disk
(`compilation_cache`); and CPU programs that run in the calling thread, because their results are NumPy arrays that the
caller waits for, and waking up another thread costs 7 microseconds a call (benchmark: hess). JAX's environment
variables for the last three take precedence.
"""

from __future__ import annotations

import functools
import os
from typing import Any


@functools.cache
def configure() -> None:
    """Import and set up JAX, once."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    import jax

    from gradtape._src import compilation_cache

    settings: Any = jax.config
    settings.update("jax_enable_x64", True)
    if "JAX_CPU_ENABLE_ASYNC_DISPATCH" not in os.environ:
        settings.update("jax_cpu_enable_async_dispatch", False)
    compilation_cache.use_default(settings)
