"""`tf.xla.experimental`: functions for programs that XLA compiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradtape._src import nest
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.conversion import convert
from gradtape._src.function.function import function
from gradtape._src.interrupts import contextmanager

__all__ = ["compile", "jit_scope"]


def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> Any:
    """Compile a function and call it; its results, in a list, or in their structure if they are nested.

    Args:
      computation: A function of tensors.
      inputs: Its arguments.

    >>> import gradtape as tf
    >>> [float(x) for x in tf.xla.experimental.compile(lambda x: x * 2.0, [tf.constant(2.0)])]
    [4.0]
    """
    compiled = function(computation, jit_compile=True)
    results = compiled(*[convert(x) for x in inputs or ()])
    if results is None:
        return []
    is_flat = not nest.is_nested(results) or not (isinstance(results, dict) or any(map(nest.is_nested, results)))
    return list(nest.flatten(results)) if is_flat else results


@contextmanager
def jit_scope(compile_ops: Any = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """A block inside of a `tf.function` whose ops XLA may compile. The whole function is compiled here.

    Args:
      compile_ops: Accepted for compatibility.
      separate_compiled_gradients: Accepted for compatibility.

    >>> import gradtape as tf
    >>> @tf.function
    ... def f(x):
    ...     with tf.xla.experimental.jit_scope():
    ...         return x + 1.0
    >>> float(f(tf.constant(1.0)))
    2.0
    """
    if current_graph() is None:
        raise RuntimeError(
            "xla.experimental.jit_scope is not supported when eager execution is enabled. Try use it inside "
            "tf.function."
        )
    yield
