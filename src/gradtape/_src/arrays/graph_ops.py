"""Ops between programs: what XLA cannot compile, but a graph in a file can contain.

A function that is saved may use strings, tables, and shapes that depend on values. While it is traced for a file, an op
that needs eager execution becomes a node of the graph, and its results are inputs of the program after it. Such an op
calls `in_graph` with its name and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from gradtape._src.interrupts import graph_traced, setting

_F = TypeVar("_F", bound=Callable[..., Any])


class NeedsEagerError(BaseException):
    """A function that is being traced needs eager execution, and will run eagerly.

    Not an Exception, so that code of the user, or of Keras, that catches errors does not catch it. `reason` is the
    error for a function that must not run eagerly (`jit_compile=True`).
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def for_all_sizes(error: Exception) -> Exception:
    """Mark an error of a trace that occurs whatever the unknown sizes are: the function does not run eagerly then."""
    error.occurs_for_all_sizes = True  # type: ignore[attr-defined]
    return error


_rules: dict[str, Callable[..., Any]] = {}


def register_rule(name: str, rule: Callable[..., Any]) -> None:
    """Register `rule(collector, *args, **kwargs)`, which adds ops and returns the results of the function."""
    _rules[name] = rule


_collector: ContextVar[Any] = ContextVar("gradtape_graph_ops", default=None)
collector: Callable[[], Any] = _collector.get
"""The collector of ops of the function that is traced for a file; None if there is none."""


def collecting(target: Any) -> setting[Any]:
    """Context in which functions are traced for a file, and their ops are added to this collector."""
    return setting(_collector, target)


OnHost = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any], BaseException, bool], Any]
"""Adds a function as one node to a graph that runs on NumPy; raises the given error if that is impossible."""

_on_host: list[OnHost] = []


def register_on_host(on_host: OnHost) -> None:
    """Register the function that adds a call as a node of a graph."""
    _on_host.append(on_host)


def in_graph(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: BaseException,
    function: Callable[..., Any] | None = None,
    changes: bool = False,
) -> Any:
    """Add a function to the graph: as ops if it is traced for a file, else as a call; otherwise raise the error.

    With `changes` the function is called for its side effects, and returns nothing.
    """
    target = _collector.get()
    if target is None and function is not None:
        for on_host in _on_host:
            return on_host(function, args, kwargs, error, changes)
    if target is None or name not in _rules or graph_traced.get() is not target.graph:
        raise error
    return _rules[name](target, *args, **kwargs)


def raise_for_call(error: TypeError) -> None:
    """Raise the error of invalid arguments as one of the call, not of the function behind it."""
    if error.__traceback__ is not None and error.__traceback__.tb_next is None:
        raise TypeError(*error.args) from None


def kept_in_graph(name: str, changes: bool = False) -> Callable[[_F], _F]:
    """Decorate a function that needs eager execution: in a graph for a file it becomes ops, by the rule with this name;
    in graphs that run on NumPy, a call.
    """

    def decorate(function: _F) -> _F:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except NeedsEagerError as error:
                return in_graph(name, args, kwargs, error, function, changes)
            except TypeError as error:
                raise_for_call(error)
                raise

        return call  # type: ignore[return-value]

    return decorate
