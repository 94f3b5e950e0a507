"""Objects of another library (Keras) that keep their value in a `tf.Variable`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_variable_of: dict[type, Callable[[Any], Any]] = {}


def register_wrapper(cls: type, variable_of: Callable[[Any], Any]) -> None:
    """Treat objects of exactly this class as the variable (or, before it exists, the tensor) that they contain."""
    _variable_of[cls] = variable_of


def unwrapped(value: Any) -> Any:
    """The variable in an object of a registered class; any other value unchanged."""
    variable_of = _variable_of.get(type(value))
    return value if variable_of is None else variable_of(value)


def all_unwrapped(values: list[Any]) -> list[Any]:
    """`unwrapped` for each of them; the list itself while no class is registered."""
    return [unwrapped(value) for value in values] if _variable_of else values
