"""The functions of TensorFlow's private `util.nest` that libraries call: traversals with paths, and shallow structures.

Each one behaves as in TensorFlow. Paths consist of the fields of named tuples, the keys of mappings and the indices of
sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gradtape._src import nest

__all__ = [
    "assert_shallow_structure",
    "flatten_up_to",
    "flatten_with_joined_string_paths",
    "flatten_with_tuple_paths",
    "get_traverse_shallow_structure",
    "is_mapping",
    "is_named_tuple",
    "items",
    "map_structure_up_to",
    "map_structure_with_tuple_paths",
    "map_structure_with_tuple_paths_up_to",
    "rebuilt",
    "values",
    "yield_flat_paths",
]

Path = tuple[Any, ...]


# -- one level of a structure ------------------------------------------------------------------------------------------
def is_mapping(value: Any) -> bool:
    """Whether a structure is a mapping."""
    return isinstance(value, Mapping)


def is_named_tuple(instance: Any, strict: bool = False) -> bool:
    """Whether a value is a named tuple; with `strict`, of a class that `collections.namedtuple` made."""
    kind = type(instance)
    return isinstance(instance, tuple) and hasattr(kind, "_fields") and (not strict or kind.__base__ is tuple)


def items(structure: Any) -> Iterator[tuple[Any, Any]]:
    """The parts of a structure with their keys, those of a mapping in sorted order.

    >>> list(items({"b": 1, "a": 2})), list(items([3, 4]))
    ([('a', 2), ('b', 1)], [(0, 3), (1, 4)])
    """
    if is_mapping(structure):
        return ((key, structure[key]) for key in sorted(structure))
    if is_named_tuple(structure):
        return ((field, getattr(structure, field)) for field in structure._fields)
    return enumerate(structure)


def values(structure: Any) -> Iterator[Any]:
    """The parts of a structure."""
    return (value for _, value in items(structure))


def rebuilt(instance: Any, args: Any) -> Any:
    """A structure of the same kind with other parts, which are in the order of `items`.

    >>> rebuilt({"b": 1, "a": 2}, [3, 4])
    {'b': 4, 'a': 3}
    """
    one_level = [_Part() for _ in items(instance)]
    return nest.pack_sequence_as(_like(instance, one_level), list(args))


class _Part:
    """A leaf that replaces a part of a structure."""


def _like(instance: Any, parts: list[Any]) -> Any:
    if is_mapping(instance):
        pairs = dict(zip(sorted(instance), parts, strict=True))
        return {key: pairs[key] for key in instance} if type(instance) is dict else type(instance)(pairs)
    return type(instance)(*parts) if is_named_tuple(instance) else type(instance)(parts)


# -- paths -------------------------------------------------------------------------------------------------------------
def _walk(structure: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    if not nest.is_nested(structure):
        yield path, structure
        return
    for key, part in items(structure):
        yield from _walk(part, (*path, key))


def yield_flat_paths(nest: Any, expand_composites: bool = False) -> Iterator[Path]:
    """The path of each leaf.

    >>> list(yield_flat_paths({"a": [1, 2]}))
    [('a', 0), ('a', 1)]
    """
    return (path for path, _ in _walk(nest))


def flatten_with_tuple_paths(structure: Any, expand_composites: bool = False) -> list[tuple[Path, Any]]:
    """The leaves of a structure, each with its path.

    >>> flatten_with_tuple_paths({"a": [1, 2]})
    [(('a', 0), 1), (('a', 1), 2)]
    """
    return list(_walk(structure))


def flatten_with_joined_string_paths(
    structure: Any, separator: str = "/", expand_composites: bool = False
) -> list[tuple[str, Any]]:
    """The leaves of a structure, each with the keys and numbers that lead to it.

    >>> flatten_with_joined_string_paths({"a": [1, 2]})
    [('a/0', 1), ('a/1', 2)]
    """
    return [(separator.join(map(str, path)), leaf) for path, leaf in _walk(structure)]


def map_structure_with_tuple_paths(func: Callable[..., Any], *structure: Any, **options: Any) -> Any:
    """A function of the path and of the leaves of structures.

    >>> map_structure_with_tuple_paths(lambda path, x: (len(path), x), [1, [2]])
    [(1, 1), [(2, 2)]]
    """
    return map_structure_with_tuple_paths_up_to(structure[0], func, *structure, **options)


def map_structure_with_tuple_paths_up_to(
    shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **options: Any
) -> Any:
    """A function of the path and of the parts of structures in the places of the leaves of a shallower one.

    >>> map_structure_with_tuple_paths_up_to({"a": 0}, lambda path, part: (path, part), {"a": [1, 2]})
    {'a': (('a',), [1, 2])}
    """
    columns = [flatten_up_to(shallow_tree, tree, **options) for tree in inputs]
    paths = [path for path, _ in _walk(shallow_tree)]
    results = [func(path, *parts) for path, *parts in zip(paths, *columns, strict=True)]
    return nest.pack_sequence_as(shallow_tree, results)


# -- shallow structures ------------------------------------------------------------------------------------------------
def assert_shallow_structure(
    shallow_tree: Any, input_tree: Any, check_types: bool = True, expand_composites: bool = False
) -> None:
    """Raise an error if a structure is not the upper part of another one."""
    flatten_up_to(shallow_tree, input_tree, check_types)


def flatten_up_to(shallow_tree: Any, input_tree: Any, check_types: bool = True, **options: Any) -> list[Any]:
    """The parts of a structure in the places of the leaves of a shallower one.

    >>> flatten_up_to([0, {"a": 0}], [[1, 2], {"a": (3, 4)}])
    [[1, 2], (3, 4)]
    """
    if not nest.is_nested(shallow_tree):
        return [input_tree]
    _check_shallow(shallow_tree, input_tree, check_types)
    pairs = zip(values(shallow_tree), values(input_tree), strict=True)
    return [leaf for shallow, part in pairs for leaf in flatten_up_to(shallow, part, check_types)]


def _check_shallow(shallow_tree: Any, input_tree: Any, check_types: bool) -> None:
    if not nest.is_nested(input_tree):
        raise TypeError(
            f"If shallow structure is a sequence, input must also be a sequence. Input has type: {type(input_tree)}."
        )
    if check_types and type(input_tree) is not type(shallow_tree) and not _may_stand_for(shallow_tree, input_tree):
        raise TypeError(
            "The two structures don't have the same sequence type. Input structure has type "
            f"{type(input_tree)}, while shallow structure has type {type(shallow_tree)}."
        )
    if len(shallow_tree) != len(input_tree):
        raise ValueError(
            f"The two structures don't have the same sequence length. Input structure has length {len(input_tree)}, "
            f"while shallow structure has length {len(shallow_tree)}."
        )
    if is_mapping(shallow_tree) and set(shallow_tree) != set(input_tree):
        raise ValueError(
            "The two structures don't have the same keys. Input structure has keys "
            f"{sorted(input_tree)}, while shallow structure has keys {sorted(shallow_tree)}."
        )


def _may_stand_for(one: Any, other: Any) -> bool:
    """Whether structures have the same type: mappings of any class, or named tuples with the same name and fields."""
    if is_mapping(one) or is_mapping(other):
        return is_mapping(one) and is_mapping(other)
    if is_named_tuple(one) and is_named_tuple(other):
        return type(one).__name__ == type(other).__name__ and type(one)._fields == type(other)._fields
    return False


def map_structure_up_to(shallow_tree: Any, func: Callable[..., Any], *inputs: Any, **options: Any) -> Any:
    """A function over the parts of structures in the places of the leaves of a shallower one.

    >>> map_structure_up_to([0, 0], len, [[1, 2], [3]])
    [2, 1]
    """
    if not inputs:
        raise ValueError("Argument `inputs` is empty. Cannot map over no sequences.")
    return map_structure_with_tuple_paths_up_to(shallow_tree, lambda _, *parts: func(*parts), *inputs, **options)


def get_traverse_shallow_structure(
    traverse_fn: Callable[[Any], Any], structure: Any, expand_composites: bool = False
) -> Any:
    """A structure of booleans: True where a function says that a part is to be entered, and it has no parts.

    >>> get_traverse_shallow_structure(lambda s: not isinstance(s, tuple), {"a": (1, 2), "b": [3]})
    {'a': False, 'b': [True]}
    """
    wanted = traverse_fn(structure)
    if not nest.is_nested(structure):
        if not isinstance(wanted, bool):
            raise TypeError(f"traverse_fn returned structure: {wanted} for non-structure: {structure}.")
        return wanted
    if isinstance(wanted, bool):
        if not wanted:
            return False
        return rebuilt(structure, [get_traverse_shallow_structure(traverse_fn, part) for part in values(structure)])
    levels = []
    for enter, part in zip(values(wanted), values(structure), strict=True):
        if not isinstance(enter, bool):
            raise TypeError(f"traverse_fn didn't return a depth=1 structure of bools. saw: {wanted} for {structure}.")
        levels.append(get_traverse_shallow_structure(traverse_fn, part) if enter else False)
    return rebuilt(structure, levels)
