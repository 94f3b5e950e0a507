"""Sets and dictionaries of objects that are compared by identity: TensorFlow's private `object_identity`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping, MutableSet
from typing import Any


class ObjectIdentityDictionary(MutableMapping[Any, Any]):
    """A dictionary whose keys are compared by identity, so that tensors and lists may be keys.

    >>> key = [1]
    >>> found = ObjectIdentityDictionary({})
    >>> found[key] = "a"
    >>> key in found, [1] in found
    (True, False)
    """

    __slots__ = ("_storage",)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._storage: dict[int, tuple[Any, Any]] = {}
        self.update(*args, **kwargs)

    def __getitem__(self, key: Any) -> Any:
        try:
            return self._storage[id(key)][1]
        except KeyError:
            raise KeyError(key) from None

    def __setitem__(self, key: Any, value: Any) -> None:
        self._storage[id(key)] = key, value

    def __delitem__(self, key: Any) -> None:
        self[key]
        del self._storage[id(key)]

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._storage.values())

    def __len__(self) -> int:
        return len(self._storage)

    def __repr__(self) -> str:
        return f"ObjectIdentityDictionary({list(self.items())!r})"


class ObjectIdentitySet(MutableSet[Any]):
    """A set whose members are compared by identity.

    >>> member = [1]
    >>> found = ObjectIdentitySet([member, [1]])
    >>> len(found), member in found, [1] in found
    (2, True, False)
    """

    __slots__ = ("_storage",)

    def __init__(self, *args: Iterable[Any]) -> None:
        self._storage = {id(member): member for members in args for member in members}

    def __contains__(self, member: Any) -> bool:
        return id(member) in self._storage

    def __iter__(self) -> Iterator[Any]:
        return iter(self._storage.values())

    def __len__(self) -> int:
        return len(self._storage)

    def add(self, member: Any) -> None:
        """Add a member."""
        self._storage[id(member)] = member

    def discard(self, member: Any) -> None:
        """Remove a member if it is there."""
        self._storage.pop(id(member), None)

    def update(self, items: Iterable[Any]) -> None:
        """Add several members."""
        for member in items:
            self.add(member)

    def intersection(self, items: Iterable[Any]) -> ObjectIdentitySet:
        """Return the members that are also in `items`."""
        return ObjectIdentitySet(member for member in items if member in self)

    def difference(self, items: Iterable[Any]) -> ObjectIdentitySet:
        """Return the members that are not in `items`."""
        others = ObjectIdentitySet(items)
        return ObjectIdentitySet(member for member in self if member not in others)

    def __repr__(self) -> str:
        return f"ObjectIdentitySet({list(self)!r})"
