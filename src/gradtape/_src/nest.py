"""Nested structures: lists, tuples, named tuples, mappings and attrs classes, with leaves of any kind.

Mappings are traversed in the order of their sorted keys. Everything else is a leaf: None, numbers, strings, arrays,
tensors, sets, generators. Every traversal has its own stack, so that deep structures need no recursion.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, MappingView, MutableMapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, NoReturn

_MAX_DEPTH = 100_000  # a list that contains itself ends here, instead of filling the memory
_MAX_TYPES = 10_000  # types made at run time must not be kept alive without bound
_END: Any = object()


def is_nested(structure: Any) -> bool:
    """Return whether this is a structure rather than a leaf.

    >>> tf.nest.is_nested([1]), tf.nest.is_nested({}), tf.nest.is_nested("abc"), tf.nest.is_nested(None)
    (True, True, False, False)
    """
    return _node_of(type(structure), False) is not None


def flatten(structure: Any, expand_composites: bool = False) -> list[Any]:
    """Return the leaves, in order. `expand_composites` also takes apart values made of tensors, such as IndexedSlices.

    >>> tf.nest.flatten({"b": 1, "a": [2, (3, None)]})
    [2, 3, None, 1]
    >>> tf.nest.flatten(5)
    [5]
    """
    leaves = _SOLID if expand_composites else _LEAVES
    kind = type(structure)
    if kind in leaves:
        return [structure]
    # The whole check of a flat list runs in C: tape.gradient flattens its targets and sources on every call.
    if (kind is list or kind is tuple) and leaves.issuperset(map(type, structure)):
        return list(structure)
    flat: list[Any] = []
    stack: list[Iterator[Any]] = [iter((structure,))]
    while stack:
        for item in stack[-1]:
            node = _node_of(type(item), expand_composites)
            if node is None:
                flat.append(item)
            else:
                _push(stack, iter(node.children(item)))
                break
        else:
            stack.pop()
    return flat


def pack_sequence_as(structure: Any, flat_sequence: Any, expand_composites: bool = False) -> Any:
    """Arrange the leaves in `flat_sequence` like `structure`.

    >>> tf.nest.pack_sequence_as({"b": 0, "a": [0, 0]}, [1, 2, 3])
    {'b': 3, 'a': [1, 2]}
    """
    if type(flat_sequence) is not list and type(flat_sequence) is not tuple:
        flat_sequence = _listed(flat_sequence)
    leaves = _SOLID if expand_composites else _LEAVES
    kind = type(structure)
    if (kind is list or kind is tuple) and leaves.issuperset(map(type, structure)):
        if len(structure) != len(flat_sequence):
            _fail_to_pack(structure, flat_sequence, expand_composites)
        return kind(flat_sequence)
    if _node_of(kind, expand_composites) is None:
        if len(flat_sequence) != 1:
            raise ValueError(
                f"The target structure is of type `{kind}`\n  {structure}\n"
                f"However the input is a sequence ({type(flat_sequence)}) of length {len(flat_sequence)}.\n"
                f"  {flat_sequence}\nnest cannot guarantee that it is safe to map one to the other."
            )
        return flat_sequence[0]
    values = iter(flat_sequence)
    packed = _pack(structure, values, expand_composites)
    if packed is _END or next(values, _END) is not _END:
        _fail_to_pack(structure, flat_sequence, expand_composites)
    return packed


def map_structure(
    func: Callable[..., Any],
    *structure: Any,
    check_types: bool = True,
    expand_composites: bool = False,
    **unknown: Any,
) -> Any:
    """Apply `func` to every leaf (or to corresponding leaves of several structures), and keep the structure.

    >>> tf.nest.map_structure(lambda x: x * 2, {"a": 1, "b": (2, 3)})
    {'a': 2, 'b': (4, 6)}
    >>> tf.nest.map_structure(lambda x, y: x + y, [1, 2], [10, 20])
    [11, 22]
    """
    if not callable(func):
        raise TypeError(f"func must be callable, got: {func}")
    if not structure:
        raise ValueError("Must provide at least one structure")
    if unknown:
        raise ValueError(
            "Only valid keyword arguments are `check_types` and `expand_composites`, not: "
            f"`{'`, `'.join(sorted(unknown))}`"
        )
    for other in structure[1:]:
        assert_same_structure(structure[0], other, check_types, expand_composites)
    flats = [flatten(one, expand_composites) for one in structure]
    # A list, so that a StopIteration out of `func` reaches the caller instead of ending the packing.
    results = [func(*leaves) for leaves in zip(*flats, strict=True)]
    return pack_sequence_as(structure[0], results, expand_composites)


def assert_same_structure(nest1: Any, nest2: Any, check_types: bool = True, expand_composites: bool = False) -> None:
    """Raise ValueError if the nesting differs, and TypeError if only the types of the structures differ.

    Any two mappings with the same keys match, and so do any two lists. `check_types=False` compares only the nesting.

    >>> tf.nest.assert_same_structure([1, {"a": 2}], [3, {"a": 4}])
    >>> tf.nest.assert_same_structure([1], (2,), check_types=False)
    """
    kind = type(nest1)
    if (
        kind is type(nest2)
        and (kind is list or kind is tuple)
        and len(nest1) == len(nest2)
        and _SOLID.issuperset(map(type, nest1))
        and _SOLID.issuperset(map(type, nest2))
    ):
        return
    try:
        _compare(nest1, nest2, check_types, expand_composites)
    except (_NestingMismatch, _TypeMismatch) as mismatch:
        text = (
            "The two structures don't have the same nested structure.\n\n"
            f"First structure: {_describe(nest1)}\n\nSecond structure: {_describe(nest2)}\n\n"
            f"More specifically: {mismatch}\n"
            f"Entire first structure:\n{_skeleton(nest1, expand_composites)}\n"
            f"Entire second structure:\n{_skeleton(nest2, expand_composites)}"
        )
        raise (TypeError if isinstance(mismatch, _TypeMismatch) else ValueError)(text) from None


class Sizes(NamedTuple):
    """The assumptions of a trace about a composite value.

    free   for each of its components, the axes whose sizes differ between calls of one trace
    facts  other properties that distinguish traces
    """

    free: tuple[tuple[int, ...], ...]
    facts: Any = None


def register_composite(
    kind: type,
    components: Callable[[Any], Iterable[Any]],
    rebuild: Callable[[Any, list[Any]], Any],
    sizes: Callable[[Any], Sizes] | None = None,
    description: Callable[[Any], Any] | None = None,
) -> None:
    """Let `expand_composites` take the values of a type apart, and put them together again like a template.

    `sizes` says which axes of the components may differ where functions are called: those of all others are fixed.
    `description` gives what a value is besides its components, hashable; None: nothing, or its text says it.

    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> register_composite(Pair, lambda pair: (pair.x, pair.y), lambda pair, xy: Pair(*xy))
    >>> flatten([Pair(1, 2), 3], expand_composites=True)
    [1, 2, 3]
    """
    _COMPOSITES[kind] = _Node(components, rebuild, description)
    if sizes is not None:
        _SIZES[kind] = sizes
    _SOLID.discard(kind)


def sizes_of(structure: Any) -> list[Sizes | None]:
    """For each value of a structure, the assumptions of a trace; None for values that are not composite."""
    if not _SIZES:
        return []
    values = flatten(structure)
    return [_SIZES[type(value)](value) if type(value) in _SIZES else None for value in values]


def free_axes(structure: Any) -> list[tuple[int, ...]]:
    """For each leaf of a structure, with composite values expanded, the axes whose sizes a trace does not assume."""
    found: list[tuple[int, ...]] = []
    for value, sizes in zip(flatten(structure), sizes_of(structure), strict=False):
        found += [()] * len(flatten(value, True)) if sizes is None else sizes.free
    return found


def is_composite(value: Any) -> bool:
    """Whether `expand_composites` expands a value."""
    return type(value) in _COMPOSITES


def description_of(value: Any) -> Any:
    """The description of a composite value besides its components, if its type was registered with one."""
    node = _COMPOSITES.get(type(value))
    return None if node is None or node.description is None else node.description(value)


# --- kinds of structures ----------------------------------------------------------------------------------------------


class _Node:
    """How one kind of structure is flattened, and rebuilt like a template."""

    __slots__ = ("children", "description", "rebuild")

    def __init__(
        self,
        children: Callable[[Any], Iterable[Any]],
        rebuild: Callable[[Any, list[Any]], Any],
        description: Callable[[Any], Any] | None = None,
    ) -> None:
        self.children = children
        self.rebuild = rebuild
        self.description = description


def _sorted_keys(mapping: Mapping[Any, Any]) -> list[Any]:
    try:
        return sorted(mapping)
    except TypeError as error:
        raise TypeError(f"nest only supports mappings with sortable keys, got {list(mapping)}: {error}.") from error


def _rebuild_mapping(template: Mapping[Any, Any], values: list[Any]) -> Any:
    by_key = dict(zip(_sorted_keys(template), values, strict=True))
    kind: Any = type(template)
    if kind is dict:
        return {key: by_key[key] for key in template}
    if isinstance(template, MutableMapping):
        rebuilt = kind(template.default_factory) if isinstance(template, defaultdict) else kind()
        for key in template:
            rebuilt[key] = by_key[key]
        return rebuilt
    pairs = [(key, by_key[key]) for key in template]
    try:
        return kind(pairs)
    except TypeError:  # a MappingProxyType, say, takes only a mapping
        return kind(dict(pairs))


def _attrs_fields(instance: Any) -> list[Any]:
    return [getattr(instance, field.name) for field in type(instance).__attrs_attrs__]


def _rebuild_attrs(template: Any, values: list[Any]) -> Any:
    kind = type(template)
    fields = list(zip(kind.__attrs_attrs__, values, strict=True))
    rebuilt = kind(**{field.alias: value for field, value in fields if field.init})
    for field, value in fields:
        if not field.init:
            object.__setattr__(rebuilt, field.name, value)  # the only way for a frozen class
    return rebuilt


_SEQUENCE = _Node(iter, lambda template, values: type(template)(values))
_NAMED_TUPLE = _Node(iter, lambda template, values: type(template)(*values))
_AS_LIST = _Node(iter, lambda template, values: values)
_MAPPING = _Node(lambda mapping: [mapping[key] for key in _sorted_keys(mapping)], _rebuild_mapping)
_ATTRS = _Node(_attrs_fields, _rebuild_attrs)
_CUSTOM = _Node(
    lambda instance: instance.__tf_flatten__()[1],
    lambda template, values: template.__tf_unflatten__(template.__tf_flatten__()[0], tuple(values)),
)

# By type, filled on demand. _SOLID has the types of leaves that expand_composites does not expand either.
_NODES: dict[type, _Node | None] = {}
_COMPOSITES: dict[type, _Node] = {}
_SIZES: dict[type, Callable[[Any], Sizes]] = {}
_LEAVES: set[type] = set()
_SOLID: set[type] = set()


def _node_of(kind: type, expand_composites: bool) -> _Node | None:
    if expand_composites and kind in _COMPOSITES:
        return _COMPOSITES[kind]
    try:
        return _NODES[kind]
    except KeyError:
        return _learn(kind)


def _learn(kind: type) -> _Node | None:
    if len(_NODES) >= _MAX_TYPES:
        _NODES.clear()
        _LEAVES.clear()
        _SOLID.clear()
    node = _NODES[kind] = _classify(kind)
    if node is None:
        _LEAVES.add(kind)
        if kind not in _COMPOSITES:
            _SOLID.add(kind)
    return node


def _classify(kind: type) -> _Node | None:
    if issubclass(kind, (str, bytes)):
        return None
    if hasattr(kind, "__tf_flatten__") and hasattr(kind, "__tf_unflatten__"):
        return _CUSTOM
    if hasattr(kind, "__attrs_attrs__"):
        return _ATTRS
    if issubclass(kind, Mapping):
        return _MAPPING
    if issubclass(kind, (MappingView, range)):
        return _AS_LIST
    if _is_named_tuple(kind):
        return _NAMED_TUPLE
    return _SEQUENCE if issubclass(kind, Sequence) else None


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _signature(named_tuple: Any) -> tuple[str, Any]:
    return named_tuple.__name__, named_tuple._fields


# --- traversals -------------------------------------------------------------------------------------------------------


def _push(stack: list[Any], frame: Any) -> None:
    if len(stack) > _MAX_DEPTH:
        raise RecursionError(f"The structure contains itself or is more than {_MAX_DEPTH} levels deep.")
    stack.append(frame)


def _pack(structure: Any, values: Iterator[Any], expand_composites: bool) -> Any:
    """`structure` with its leaves replaced by `values`, or _END where these are too few."""
    result: list[Any] = []
    stack: list[tuple[Any, Any, Iterator[Any], list[Any]]] = [(None, None, iter((structure,)), result)]
    while True:
        node, template, children, built = stack[-1]
        for child in children:
            child_node = _node_of(type(child), expand_composites)
            if child_node is not None:
                _push(stack, (child_node, child, iter(child_node.children(child)), []))
                break
            value = next(values, _END)
            if value is _END:
                return _END
            built.append(value)
        else:
            stack.pop()
            if not stack:
                return result[0]
            stack[-1][3].append(node.rebuild(template, built))


class _NestingMismatch(Exception):
    pass


class _TypeMismatch(Exception):
    pass


def _compare(nest1: Any, nest2: Any, check_types: bool, expand_composites: bool) -> None:
    stack: list[tuple[Any, Any, Iterator[Any], Iterator[Any]]] = [(None, None, iter((nest1,)), iter((nest2,)))]
    while stack:
        parent1, parent2, children1, children2 = stack[-1]
        one, two = next(children1, _END), next(children2, _END)
        if one is _END and two is _END:
            stack.pop()
            continue
        if one is _END or two is _END:
            raise _NestingMismatch(
                "The two structures don't have the same number of elements. "
                f"First structure: {_describe(parent1)}. Second structure: {_describe(parent2)}"
            )
        node1, node2 = _node_of(type(one), expand_composites), _node_of(type(two), expand_composites)
        if node1 is None and node2 is None:
            continue
        if node1 is None or node2 is None:
            nested, leaf = (one, two) if node2 is None else (two, one)
            raise _NestingMismatch(
                f'Substructure "{_describe(nested)}" is a sequence, while substructure "{_describe(leaf)}" is not'
            )
        if check_types:
            _compare_types(one, two)
        _push(stack, (one, two, iter(node1.children(one)), iter(node2.children(two))))


def _compare_types(one: Any, two: Any) -> None:
    kind1, kind2 = type(one), type(two)
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        if set(one) != set(two):
            raise _NestingMismatch(
                "The two dictionaries don't have the same set of keys. First structure has keys "
                f"{_describe(list(one))}, while second structure has keys {_describe(list(two))}"
            )
        return
    if kind1 is kind2 or (isinstance(one, list) and isinstance(two, list)):
        return
    # The declaration of a named tuple may have run twice, as in a reloaded module.
    if _is_named_tuple(kind1) and _is_named_tuple(kind2) and _signature(kind1) == _signature(kind2):
        return
    raise _TypeMismatch(
        "The two namedtuples don't have the same sequence type. "  # TensorFlow's message for all kinds
        f"First structure {_describe(one)} has type {kind1.__name__}, "
        f"while second structure {_describe(two)} has type {kind2.__name__}"
    )


def _listed(flat_sequence: Any) -> list[Any]:
    if _node_of(type(flat_sequence), False) is None or isinstance(flat_sequence, Mapping):
        raise TypeError(
            f"Attempted to pack value:\n  {flat_sequence}\n"
            f"into a structure, but found incompatible type `{type(flat_sequence)}` instead."
        )
    return list(flat_sequence)


def _fail_to_pack(structure: Any, flat_sequence: Any, expand_composites: bool) -> NoReturn:
    raise ValueError(
        f"Could not pack sequence. Structure had {len(flatten(structure, expand_composites))} atoms, but flat_sequence "
        f"had {len(flat_sequence)} items.  Structure: {structure}, flat_sequence: {flat_sequence}."
    )


class _Dot:
    def __repr__(self) -> str:
        return "."


def _skeleton(structure: Any, expand_composites: bool) -> str:
    try:
        return str(_pack(structure, repeat(_Dot()), expand_composites))
    except Exception:  # a class may reject such leaves; the error reported here matters more
        return str(structure)


def _describe(structure: Any) -> str:
    return f"type={type(structure).__name__} str={structure}"


__all__ = [
    "assert_same_structure",
    "flatten",
    "is_nested",
    "map_structure",
    "pack_sequence_as",
]
