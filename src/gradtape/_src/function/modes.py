"""Whether functions are compiled or run eagerly, and whether code runs inside a trace."""

from __future__ import annotations

import functools
import importlib.util
import os
from contextvars import ContextVar
from typing import Any

from gradtape._src import forks
from gradtape._src.active import active
from gradtape._src.arrays.symbolic import current_graph, graph_traced, is_known
from gradtape._src.call_sites import logger
from gradtape._src.errors import install
from gradtape._src.interrupts import guarded, settings
from gradtape._src.tensor import Tensor

_requested = [False]  # the last argument of `run_functions_eagerly`
_inspected = [False]  # whether an observer needs every op, which compiled programs do not report
eagerly = [False]
"""Whether functions run eagerly: by request, or because a forked child cannot compile."""

traced_for: ContextVar[Any] = ContextVar("gradtape_traced_for", default=None)
"""What programs are specific to besides their arguments: a replica of a distribution strategy, or None."""

_JIT = {"xla": "autoclustering", "numpy": "", "auto": "auto"}  # names of the executors in `get_jit`
_jit = [os.environ.get("GRADTAPE_JIT", "auto")]
if _jit[0] not in _JIT:
    raise ValueError(f"The environment variable GRADTAPE_JIT must be 'xla', 'numpy' or 'auto'. Received {_jit[0]!r}.")
_deterministic = [False]
_warnings: set[str] = set()


@functools.cache
def can_compile() -> bool:
    """Whether the extra `xla` is installed. Imports nothing."""
    return importlib.util.find_spec("jax") is not None


def set_jit(enabled: Any) -> None:
    """Choose the executor of functions without `jit_compile`: XLA (True), NumPy (False), or the faster one ("auto").

    "auto", the default, runs the first calls of a function on NumPy while XLA compiles it, and then measures both. It
    applies to functions that are traced from now on. The environment variable GRADTAPE_JIT sets the default of a
    program: "auto", "xla" or "numpy".

    >>> import gradtape as tf
    >>> tf.config.optimizer.set_jit(False)
    >>> tf.config.optimizer.set_jit("auto")
    """
    if enabled not in (True, False, "autoclustering", "auto"):
        raise ValueError(f"set_jit takes True, False, 'autoclustering' or 'auto'. Received {enabled!r}.")
    _jit[0] = "auto" if enabled == "auto" else "xla" if enabled else "numpy"


def get_jit() -> str:
    """Return the choice of `set_jit`: "autoclustering" for XLA, "" for NumPy, or "auto"."""
    return _JIT[_jit[0]]


def executor_of(jit_compile: bool | None) -> str:
    """The executor of functions with this `jit_compile`: "xla", "numpy", or "auto"."""
    if not can_compile():
        if jit_compile:
            warn_once(f"jit_compile=True needs JAX, which is not installed ({install('xla')}): functions run on NumPy.")
        return "numpy"
    if jit_compile is None:
        return _jit[0]
    return "xla" if jit_compile else "numpy"


def enable_op_determinism() -> None:
    """Make every run of a program compute the same bits.

    Functions without `jit_compile` then run on XLA from their first call, or on NumPy if JAX is not installed. Without
    this setting, measured times determine when a function switches from NumPy to XLA.

    >>> import gradtape as tf
    >>> tf.config.experimental.enable_op_determinism()
    >>> tf.config.optimizer.set_jit("auto")
    """
    _deterministic[0] = True
    if _jit[0] == "auto":
        _jit[0] = "xla"


def is_op_determinism_enabled() -> bool:
    """Whether `enable_op_determinism` was called last."""
    return _deterministic[0]


def disable_op_determinism() -> None:
    """Undo `enable_op_determinism`: measured times again choose the executor of functions."""
    if _deterministic[0] and _jit[0] == "xla":
        _jit[0] = os.environ.get("GRADTAPE_JIT", "auto")
    _deterministic[0] = False


def run_functions_eagerly(run_eagerly: bool) -> None:
    """Set whether every `tf.function` runs its code as written, op by op, so that you can debug it or print values.

    >>> import gradtape as tf
    >>> tf.config.run_functions_eagerly(True)
    >>> tf.config.functions_run_eagerly()
    True
    >>> tf.config.run_functions_eagerly(False)
    """
    _requested[0] = bool(run_eagerly)
    _choose()


def inspect_functions(inspected: bool) -> None:
    """Run functions eagerly while an observer needs every op of every thread."""
    _inspected[0] = inspected
    _choose()


class inspecting_functions:
    """Context in which functions run eagerly."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _inspected[0]
        inspect_functions(True)

    @guarded
    def __exit__(self, kind: object, error: object, trace: object) -> None:
        inspect_functions(self._before)


def _choose() -> None:
    eagerly[0] = _requested[0] or _inspected[0] or bool(forks.without_xla)


def functions_run_eagerly() -> bool:
    """Return whether functions run eagerly; also True in a forked child, in which nothing can be compiled.

    >>> tf.config.experimental_functions_run_eagerly()
    False
    """
    return eagerly[0]


def _begin_child() -> None:
    """Run functions eagerly in a forked child, if XLA was running before the fork."""
    if forks.without_xla:
        eagerly[0] = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


def inside_function() -> bool:
    """Return whether the code is being traced for compilation.

    >>> tf.inside_function()
    False
    """
    return current_graph() is not None


def is_symbolic_tensor(tensor: Any) -> bool:
    """Return whether a tensor has no value yet, because the function that computes it is being traced.

    >>> import gradtape as tf
    >>> tf.is_symbolic_tensor(tf.constant(1.0))
    False
    """
    return isinstance(tensor, Tensor) and not is_known(tensor)


def init_scope() -> settings:
    """Leave all tapes and traced functions: the code in this block runs immediately, once, and is not recorded.

    >>> import gradtape as tf
    >>> @tf.function
    ... def f(x):
    ...     with tf.init_scope():
    ...         print(tf.executing_eagerly())
    ...     return x
    >>> _ = f(tf.constant(1.0))
    True
    """
    return settings((graph_traced, None), (active, None))


def warn_not_compiled() -> None:
    """Warn once that functions run eagerly, unless that was requested."""
    if forks.without_xla and not _requested[0]:
        warn_once(f"tf.function runs its code eagerly, on NumPy. {forks.ADVICE}")


def warn_once(message: str, about: Any = None) -> None:
    """Log a warning unless it, or one about the same object, was logged before."""
    key = message if about is None else str(id(about))
    if key not in _warnings:
        _warnings.add(key)
        logger().warning(message)
