"""The concrete functions of a function, by the keys of their arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradtape._src.function.arguments import key_for_these
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.variable import Variable


class Cache:
    """Concrete functions by key.

    A function that takes any variables is stored under the key of its arguments; if its code also reaches one of them
    in another way, under a key for exactly these variables. A function with unknown dimensions is stored under the key
    of each size that was called.
    """

    __slots__ = ("_by_key",)

    def __init__(self) -> None:
        self._by_key: dict[Any, ConcreteFunction] = {}

    def find(self, key: Any, variable_args: Sequence[Variable]) -> ConcreteFunction | None:
        """The function for these arguments; None if there is none."""
        found = self._by_key.get(key)
        if variable_args and (found is None or not found.matches(variable_args)):
            found = self._by_key.get(key_for_these(key, variable_args))
        return found

    def add(self, concrete: ConcreteFunction, key: Any, variable_args: Sequence[Variable]) -> None:
        """Add a function for arguments with this key."""
        if variable_args:
            self._by_key[key_for_these(key, variable_args)] = concrete
        if not concrete.graph.also_captured:
            self._by_key[key] = concrete

    def replace(self, old: ConcreteFunction, new: ConcreteFunction) -> None:
        """Replace a function under all of its keys."""
        for key in self._keys(old):
            self._by_key[key] = new

    def remove(self, concrete: ConcreteFunction) -> None:
        """Remove a function, so that calls trace again."""
        for key in self._keys(concrete):
            self._by_key.pop(key, None)

    def _keys(self, concrete: ConcreteFunction) -> list[Any]:
        return [key for key, found in list(self._by_key.items()) if found is concrete]

    def functions(self) -> list[ConcreteFunction]:
        """All functions, without repetitions."""
        return list(dict.fromkeys(self._by_key.values()))
