"""The Python code of a function: its conversion for tracing, its call, and the errors of graphs."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

from gradtape._src import errors, nest
from gradtape._src.arrays.graph_ops import for_all_sizes
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.conversion import convert
from gradtape._src.interrupts import contextmanager
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable


def call_python(function: Callable[..., Any], autograph: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run the code of a function eagerly, or in the trace that is active."""
    code = function if current_graph() is None else converted(function, autograph)
    return as_results(code(*args, **kwargs), function)


def converted(function: Callable[..., Any], autograph: bool) -> Callable[..., Any]:
    """The function, converted by AutoGraph if requested and possible."""
    if not autograph:
        return function
    from gradtape._src.function import autograph as autographs

    return autographs.converted(function)


def as_results(structure: Any, function: Callable[..., Any]) -> Any:
    """Convert the results of a function to tensors."""

    def as_tensor(value: Any) -> Any:
        if value is None or isinstance(value, Tensor):
            return value
        try:
            return value.value() if isinstance(value, Variable) else convert(value)
        except (TypeError, ValueError):
            raise TypeError(
                "To be compatible with tf.function, Python functions must return zero or more Tensors or "
                f"ExtensionTypes or None values; in compilation of {function}, found return value of type "
                f"{type(value).__name__}, which is not a Tensor or ExtensionType."
            ) from None

    return nest.map_structure(as_tensor, structure, expand_composites=True)


def weak_method(function: Callable[..., Any], instance: Any) -> Callable[..., Any]:
    """A method of an object that it does not keep alive."""
    reference = weakref.ref(instance)

    @functools.wraps(function)
    def method(*args: Any, **kwargs: Any) -> Any:
        return function(reference(), *args, **kwargs)

    parameters = inspect.signature(function)
    method.__signature__ = parameters.replace(parameters=[*parameters.parameters.values()][1:])  # type: ignore[attr-defined]
    method.__wrapped_method__ = (function, reference)  # type: ignore[attr-defined]
    return method


@contextmanager
def graph_errors(known: bool = True) -> Iterator[None]:
    """Raise TensorFlow's exception classes while tracing: ValueError or TypeError instead of InvalidArgumentError, and
    TypeError for a value that is not a tensor.

    Errors that TensorFlow raises when the program runs do not change: errors about values and, if shapes are not
    `known`, about shapes. Empty arguments are traced separately here, and not in TensorFlow.
    """
    try:
        yield
    except (errors.OpError, ValueError) as error:
        other = as_graph_error(error)
        if other is error or not (known or isinstance(other, TypeError)):
            raise
        raise other from None


_LIBRARIES = frozenset({__name__.partition(".")[0], "numpy", "jax"})


def raising_module(error: BaseException) -> str:
    """The package whose code has raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else str(trace.tb_frame.f_globals.get("__name__", "")).partition(".")[0]


def is_raised_by_op(error: BaseException) -> bool:
    """Whether an op has refused its arguments, rather than code of the user."""
    return not isinstance(error, errors.OpError) and raising_module(error) in _LIBRARIES


def as_graph_error(error: Exception) -> Exception:
    """The error that TensorFlow raises instead of this one in a trace."""
    kind = getattr(error, "when_traced", None)
    if kind is None:
        return error
    message = error.message if isinstance(error, errors.OpError) else str(error)
    given = (None, None, message) if issubclass(kind, errors.OpError) else (message,)
    traced = kind(*given).with_traceback(error.__traceback__)
    return for_all_sizes(traced) if kind is TypeError else traced  # it is about dtypes
