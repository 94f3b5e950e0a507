"""The objects of a checkpoint: variables, found from an object along names, as in TensorFlow.

A checkpoint tracks variables, lists, tuples and dicts, and objects with a method `_trackable_children()` that returns
their parts by name, as in `tf.Module`, `tf.train.Checkpoint` and the layers, models and optimizers of Keras.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.formats.protobuf import Message, decode, encode, messages_in, number_in, text_in
from gradtape._src.variable import Variable, deferred_restores, unwrapped

GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
"""The key of the description of objects in a checkpoint."""

VALUE = "VARIABLE_VALUE"
STATE = "py_state"
TABLE = "table"


def parts_of(value: Any) -> dict[str, Any] | None:
    """The parts of an object by name, or None if a checkpoint does not track it."""
    value = unwrapped(value)
    if isinstance(value, Variable):
        return {}
    if isinstance(value, (list, tuple)):
        return {str(i): part for i, part in enumerate(value) if is_trackable(part)}
    if isinstance(value, Mapping):
        return _parts_of_dict(value)
    if isinstance(value, type) or not hasattr(value, "_trackable_children"):
        return None
    parts: dict[str, Any] = value._trackable_children()
    return parts


def is_trackable(value: Any) -> bool:
    """Whether a checkpoint tracks an object."""
    value = unwrapped(value)
    return isinstance(value, (Variable, list, tuple, Mapping)) or (
        not isinstance(value, type) and hasattr(value, "_trackable_children")
    )


def attributes_of(value: Any) -> dict[str, Any]:
    """The attributes of an object that a checkpoint tracks."""
    return {name: part for name, part in vars(value).items() if is_trackable(part)}


def _parts_of_dict(value: Mapping[Any, Any]) -> dict[str, Any]:
    parts = {key: part for key, part in value.items() if is_trackable(part)}
    if not all(isinstance(key, str) for key in parts):
        raise ValueError(
            f"Unable to save the object {value!r} (a dictionary wrapper constructed automatically on attribute "
            "assignment). The wrapped dictionary contains a non-string key which maps to a trackable object or mutable "
            "data structure.\n\nIf you don't need this dictionary checkpointed, wrap it in a non-trackable object; it "
            "will be subsequently ignored."
        )
    return parts


class Found(NamedTuple):
    """An object, the names on the path to it, and the numbers of its parts."""

    value: Any
    path: tuple[str, ...]
    parts: dict[str, int]

    @property
    def key(self) -> str:
        """The prefix of the keys of its values: names separated by `/`, with `.S` instead of slashes in names."""
        return "/".join(name.replace(".", "..").replace("/", ".S") for name in self.path)


def objects_below(root: Any) -> list[Found]:
    """All objects that are reachable from an object, itself first, without repetitions, by the shortest paths."""
    found = [Found(unwrapped(root), (), {})]
    numbers = {id(unwrapped(root)): 0}
    for value, path, parts in found:  # grows in the loop
        for name, part in (parts_of(value) or {}).items():
            part = unwrapped(part)
            number = numbers.get(id(part))
            if number is None:
                number = numbers[id(part)] = len(found)
                found.append(Found(part, (*path, name), {}))
            parts[name] = number
    return found


# -- the description in the file -------------------------------------------------------------------------------------
class ObjectNode(NamedTuple):
    """A node of a checkpoint: the numbers of its parts by name; the full name and the key of each of its values."""

    parts: dict[str, int]
    values: dict[str, tuple[str, str]]


def described(found: list[Found], keys: list[dict[str, tuple[str, str]]]) -> bytes:
    """The objects as TensorFlow's `TrackableObjectGraph`; `keys` has (full name, key) of each object's values."""
    holding = [bool(values) for values in keys]
    changed = True
    while changed:  # parts come after their owners, except in cycles: usually two rounds
        changed = False
        for i in reversed(range(len(found))):
            if not holding[i] and any(holding[number] for number in found[i].parts.values()):
                holding[i] = changed = True
    nodes: Message = []
    for thing, values, holds in zip(found, keys, holding, strict=True):
        node: Message = [(1, [(1, number or None), (2, name.encode())]) for name, number in thing.parts.items()]
        for name, (full, key) in values.items():
            node.append((2, [(1, name.encode()), (2, full.encode()), (3, key.encode())]))
        node.append((5, [(1, 1 if holds else None)]))
        nodes.append((1, node))
    return encode(nodes)


def read_description(data: Any) -> list[ObjectNode]:
    """The objects of a checkpoint. Raises ValueError if this is not such a description."""
    if not isinstance(data, bytes):
        raise ValueError(f"The description of the objects should be a string, but is {data!r}.")
    nodes = [_node(message) for message in messages_in(decode(data), 1)]
    if not nodes or any(part >= len(nodes) for node in nodes for part in node.parts.values()):
        raise ValueError("The description of the objects refers to an object that does not exist.")
    return nodes


def _node(message: Message) -> ObjectNode:
    parts = map(dict, messages_in(message, 1))
    values = map(dict, messages_in(message, 2))
    return ObjectNode(
        {text_in(part, 2): number_in(part, 1) for part in parts},
        {text_in(value, 1): (text_in(value, 2), text_in(value, 3)) for value in values},
    )


def resume() -> None:
    """Assign values of deferred restores to objects that exist now."""
    for look in tuple(deferred_restores):
        look()


def resume_at(owner: Any, name: str) -> None:
    """Assign values to a new attribute; if a value does not match, the attribute is not set.

    While a function is traced nothing is assigned: a variable has no value yet, and its first read restores it.
    """
    if current_graph() is not None:
        return
    try:
        resume()
    except Exception:
        object.__delattr__(owner, name)
        raise


_LONGEST = 64  # names that lead to an object in a message


class Names:
    """The paths to the objects of a checkpoint, for messages."""

    def __init__(self, nodes: list[ObjectNode]) -> None:
        self._from: dict[int, tuple[int, str]] = {0: (0, "(root)")}
        order = [0]
        for number in order:  # grows in the loop
            for name, part in nodes[number].parts.items():
                if part not in self._from:
                    self._from[part] = (number, name)
                    order.append(part)

    def __getitem__(self, number: int) -> str:
        if number not in self._from:
            return f"(node {number})"
        names: list[str] = []
        while number and len(names) < _LONGEST:
            number, name = self._from[number]
            names.append(name)
        names.append("..." if number else "(root)")
        return ".".join(reversed(names))
