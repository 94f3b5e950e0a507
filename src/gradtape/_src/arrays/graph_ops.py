"""Ops between programs: what XLA has no place for, and a graph in a file has.

A function that is saved may use strings, tables, and shapes that depend on values. While it is traced for a file, an op
that only eager execution can do becomes a node of the graph, and its results are inputs of the program after it. The
code that finds that it needs eager execution calls `in_graph` with its name and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

from gradtape._src.interrupts import graph_traced, setting

_F = TypeVar("_F", bound=Callable[..., Any])


class NeedsEagerError(BaseException):
    """A function that is being traced does something that only works eagerly: it will run eagerly.

    Not an Exception, so that code of the user, or of Keras, that catches errors does not catch it. `reason` is the
    error for a function that must not run eagerly (`jit_compile=True`).
    """

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


_rules: dict[str, Callable[..., Any]] = {}


def register_rule(name: str, rule: Callable[..., Any]) -> None:
    """Register `rule(collector, *args, **kwargs)`, which adds ops and returns what the function of this name would."""
    _rules[name] = rule


_collector: ContextVar[Any] = ContextVar("gradtape_graph_ops", default=None)
collector: Callable[[], Any] = _collector.get
"""What collects the ops of the function that is traced for a file; None if there is none."""


def collecting(target: Any) -> setting[Any]:
    """Within the block functions are traced for a file, and their ops go to this collector."""
    return setting(_collector, target)


OnHost = Callable[[Callable[..., Any], Sequence[Any], Mapping[str, Any], BaseException, bool], Any]
"""What adds a function to a graph that runs on NumPy, as one node which calls it; it raises the error if it cannot."""

_on_host: list[OnHost] = []


def register_on_host(on_host: OnHost) -> None:
    """Register what adds a function to a graph as a call of it."""
    _on_host.append(on_host)


def in_graph(
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    error: BaseException,
    function: Callable[..., Any] | None = None,
    changes: bool = False,
) -> Any:
    """A function as ops of the graph in a file or, where no file is made, as a call of it; the error otherwise.

    `changes`: the function returns nothing, and is called for what it changes.
    """
    target = _collector.get()
    if target is None and function is not None:
        for on_host in _on_host:
            return on_host(function, args, kwargs, error, changes)
    if target is None or name not in _rules or graph_traced.get() is not target.graph:
        raise error
    return _rules[name](target, *args, **kwargs)


def raise_for_call(error: TypeError) -> None:
    """Raise the error of arguments that do not fit as one of the call, not of the function behind it."""
    if error.__traceback__ is not None and error.__traceback__.tb_next is None:
        raise TypeError(*error.args) from None


def kept_in_graph(name: str, changes: bool = False) -> Callable[[_F], _F]:
    """Let a function that needs eager execution be ops of the graph in a file, by the rule of this name, and a call of
    it in graphs that run on NumPy.
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
