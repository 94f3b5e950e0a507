"""Ops on composite tensors (ragged, sparse), which consist of several tensors.

Dense arguments need no lookup. The conversion of a composite tensor raises `NotDenseError`; the op catches it and
passes its name and arguments to the handler of that class, which has a table of ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial, wraps
from typing import Any, TypeVar

from gradtape._src.arrays.graph_ops import NeedsEagerError, in_graph, raise_for_call
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.interrupts import graph_traced

Handler = Callable[[str, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""Computes an op with composite arguments from its name, its call on dense arguments, and the arguments."""

_F = TypeVar("_F", bound=Callable[..., Any])

_handlers: dict[type, Handler] = {}

_gradients: dict[type, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {}
_loaders: list[Callable[[], Any]] = []


def register_handler(kind: type, handler: Handler) -> None:
    """Register the handler that computes ops on a class of composite tensors."""
    _handlers[kind] = handler


def is_composite(value: Any) -> bool:
    """Whether a value is a ragged or sparse tensor."""
    return type(value) in _handlers


def register_gradient(
    kind: type, differentiable_part: Callable[[Any], Any], with_gradient: Callable[[Any, Any], Any]
) -> None:
    """Make a class differentiable: register its differentiable part, and the inverse, for gradients."""
    _gradients[kind] = (differentiable_part, with_gradient)


def differentiable_part(value: Any) -> Any:
    """The component of a composite tensor that gradients flow through; any other value unchanged."""
    found = _gradients.get(type(value))
    return value if found is None else found[0](value)


def with_gradient(value: Any, gradient: Any) -> Any:
    """The composite gradient of a composite tensor, from the gradient of its differentiable part."""
    found = _gradients.get(type(value))
    return gradient if found is None or gradient is None else found[1](value, gradient)


def register_loader(load: Callable[[], Any]) -> None:
    """Register a function that completes the tables of ops. It runs before the first op on a composite tensor."""
    _loaders.append(load)


class NotDenseError(ValueError):
    """A composite tensor was passed as a dense one. Ops catch most of these, so the message is made on demand."""

    def __init__(self, value: Any, advice: str = "") -> None:
        super().__init__(value, advice)
        self.value, self.advice = value, advice

    def __str__(self) -> str:
        if not self.advice:  # constructed from a message, as Keras does to extend one
            return str(self.value)
        kind = type(self.value).__name__
        return f"TypeError: object of type '{kind}' has no len(): {self.advice} Received {self.value!r}."


def call_on_composites(name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run an op with the handler of the first composite tensor among its arguments.

    Used in an `except` clause: without such an argument, the error is raised again.
    """
    while _loaders:
        _loaders.pop()()
    for value in _members((*args, *kwargs.values())):
        handler = _handlers.get(type(value))
        if handler is not None:
            try:
                return handler(name, call, args, kwargs)
            except NeedsEagerError as error:
                run = partial(_handled, handler, name, call)
                return in_graph(name, args, kwargs, error, run)
            except Exception as error:
                raise error from None  # the failed conversion means nothing to the user
    raise


def _handled(handler: Handler, name: str, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return handler(name, call, args, kwargs)


Example = Callable[[list[Any], list[int]], list[Any]]
"""Makes an example from components: changes those at certain positions so that they are consistent."""

_structures: dict[type, tuple[Callable[[Any], Iterable[Any]], Example]] = {}


def register_structure(kind: type, tensors: Callable[[Any], Iterable[Any]], example: Example) -> None:
    """Register the components of a class that determine shapes (row splits, coordinates), and how to make an example.

    Functions are called with the example to infer the shapes of their results.
    """
    _structures[kind] = tensors, example


def valid_example(value: Any, parts: list[Any], places: list[int]) -> list[Any]:
    """The components of an example of a value: those at `places` are adapted to the others."""
    found = _structures.get(type(value))
    return parts if found is None or not places else found[1](parts, places)


def hosted(function: _F) -> _F:
    """Make a function of composite tensors one node of a graph if row splits or coordinates are symbolic there.

    Its code needs their values, so the program calls it. In files, its rule is also named after the class or the
    module: `RaggedTensor.to_tensor`, `sparse_math.bincount`.
    """
    name = function.__name__
    rule = function.__qualname__ if "." in function.__qualname__ else f"{function.__module__.rsplit('.', 1)[-1]}.{name}"

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if graph_traced.get() is None:
            return function(*args, **kwargs)
        try:
            if any(map(_has_unknown_structure, _members((*args, *kwargs.values())))):
                raise NeedsEagerError(ValueError(f"The shape of the result of {name} depends on values."))
            return function(*args, **kwargs)
        except NeedsEagerError as error:
            return in_graph(rule, args, kwargs, error, function)

    return call  # type: ignore[return-value]


def _has_unknown_structure(value: Any) -> bool:
    found = _structures.get(type(value))
    return found is not None and not all(is_known(tensor) for tensor in found[0](value))


def _members(values: Any) -> Iterator[Any]:
    """The arguments, with lists of tensors flattened."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _members(value)
        else:
            yield value


def dispatched(function: _F) -> _F:
    """Make a function accept composite tensors: tables of ops have it under its own name."""
    name = function.__name__

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except NotDenseError:
            return call_on_composites(name, function, args, kwargs)
        except NeedsEagerError as error:
            return in_graph(name, args, kwargs, error, call)
        except TypeError as error:
            raise_for_call(error)
            raise

    return call  # type: ignore[return-value]
