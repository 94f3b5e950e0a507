"""gradtape.nest: tf.nest."""

from __future__ import annotations

import collections
import dataclasses
import types
from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradtape._src import nest

Point = collections.namedtuple("Point", "u v")
AgainPoint = collections.namedtuple("Point", "u v")
Other = collections.namedtuple("Other", "u v")


class SubPoint(Point):
    pass


class MyList(list):
    pass


class MyTuple(tuple):
    pass


class Frozen(Mapping):
    def __init__(self, pairs):
        self.inner = dict(pairs)

    def __getitem__(self, key):
        return self.inner[key]

    def __iter__(self):
        return iter(self.inner)

    def __len__(self):
        return len(self.inner)


class Row(Sequence):
    def __init__(self, items):
        self.items = list(items)

    def __getitem__(self, key):
        return self.items[key]

    def __len__(self):
        return len(self.items)

    def __eq__(self, other):
        return self.items == other.items


LEAVES = st.none() | st.integers() | st.text(max_size=3) | st.booleans()
STRUCTURES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=2), inner, max_size=4)
        | st.dictionaries(st.integers(), inner, max_size=3).map(collections.OrderedDict)
        | st.builds(Point, inner, inner)
        | st.lists(inner, max_size=3).map(MyList)
    ),
    max_leaves=20,
)


def walk(structure):
    """The leaves, by the plainest recursion: what flatten is held against."""
    if isinstance(structure, dict):
        return [leaf for key in sorted(structure) for leaf in walk(structure[key])]
    if isinstance(structure, (list, tuple)):
        return [leaf for item in structure for leaf in walk(item)]
    return [structure]


@given(STRUCTURES)
def test_flatten_lists_the_leaves(structure):
    assert nest.flatten(structure) == nest.flatten(structure, expand_composites=True) == walk(structure)


@given(STRUCTURES)
def test_pack_undoes_flatten(structure):
    again = nest.pack_sequence_as(structure, nest.flatten(structure))
    assert again == structure
    assert repr(again) == repr(structure)  # the same types, and keys in the same order
    nest.assert_same_structure(structure, again)


@given(STRUCTURES)
def test_flatten_undoes_pack(structure):
    leaves = list(range(len(nest.flatten(structure))))
    packed = nest.pack_sequence_as(structure, leaves)
    assert nest.flatten(packed) == leaves
    nest.assert_same_structure(structure, packed)


@given(STRUCTURES)
def test_map_structure_maps_the_leaves(structure):
    pairs = nest.map_structure(lambda a, b: {a, b}, structure, structure)  # a set is a leaf
    assert nest.flatten(pairs) == [{leaf} for leaf in walk(structure)]


@given(STRUCTURES, STRUCTURES)
def test_same_structure_is_what_maps_together(one, two):
    try:
        nest.assert_same_structure(one, two, check_types=False)
    except ValueError as error:
        assert str(error).startswith("The two structures don't have the same nested structure.")  # noqa: PT017
    else:
        assert len(walk(one)) == len(walk(two))


@pytest.mark.parametrize(
    "leaf",
    [None, 5, "text", b"bytes", np.ones(2), {1, 2}, frozenset([1]), (n for n in (1, 2)), object(), int],
    ids=lambda leaf: type(leaf).__name__,
)
def test_leaves(leaf):
    assert not nest.is_nested(leaf)
    flat = nest.flatten(leaf)
    assert len(flat) == 1
    assert flat[0] is leaf
    assert nest.pack_sequence_as(leaf, ["new"]) == "new"
    assert nest.flatten([leaf, (leaf,)])[1] is leaf


@pytest.mark.parametrize(
    ("structure", "flat"),
    [
        ([], []),
        ({}, []),
        ([None, [], {}], [None]),
        ({"b": 1, "a": [2, (3, {"z": 4})]}, [2, 3, 4, 1]),
        (collections.defaultdict(list, {"b": 1, "a": 2}), [2, 1]),
        (collections.OrderedDict(b=1, a=2), [2, 1]),
        (types.MappingProxyType({"b": 1, "a": 2}), [2, 1]),
        (collections.UserDict(b=1, a=2), [2, 1]),
        (collections.ChainMap({"b": 1}, {"a": 2}), [2, 1]),
        (collections.Counter("aab"), [2, 1]),
        (Frozen({"b": 1, "a": 2}), [2, 1]),
        ({2: "x", 1: "y"}, ["y", "x"]),
        (Point(1, [2]), [1, 2]),
        (SubPoint(1, [2]), [1, 2]),
        (MyTuple([1, [2]]), [1, 2]),
        (Row([1, [2]]), [1, 2]),
        (collections.deque([1, 2]), [1, 2]),
        (collections.UserList([1, 2]), [1, 2]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_structures_flatten_and_come_back(structure, flat):
    assert nest.is_nested(structure)
    assert nest.flatten(structure) == flat
    again = nest.pack_sequence_as(structure, flat)
    assert type(again) is type(structure)
    assert again == structure
    assert nest.flatten(again) == flat


def test_views_and_ranges_become_lists():
    values = {"b": 1, "a": 2}.values()
    assert nest.flatten(values) == [1, 2]
    assert nest.pack_sequence_as(values, [3, 4]) == [3, 4]
    assert nest.flatten(range(3)) == [0, 1, 2]
    assert nest.pack_sequence_as(range(2), [3, 4]) == [3, 4]


def test_default_factory_and_key_order_survive():
    packed = nest.pack_sequence_as(collections.defaultdict(list, {"b": 1, "a": 2}), [3, 4])
    assert packed.default_factory is list
    assert list(packed.items()) == [("b", 4), ("a", 3)]


def test_results_are_new_objects():
    structure, leaves = [1, 2], [3, 4]
    assert nest.flatten(structure) is not structure
    assert nest.pack_sequence_as(structure, leaves) is not leaves


def test_attrs_classes():
    attr = pytest.importorskip("attr")

    @attr.s
    class Plain:
        x = attr.ib()
        y = attr.ib()

    @attr.s(slots=True, frozen=True, kw_only=True)
    class Strict:
        x = attr.ib()
        _y = attr.ib()
        z = attr.ib(init=False, default=7)

    for structure, flat in [(Plain(1, [2]), [1, 2]), (Strict(x=1, y=[2]), [1, 2, 7])]:
        assert nest.is_nested(structure)
        assert nest.flatten(structure) == flat
        assert nest.pack_sequence_as(structure, flat) == structure
        assert nest.flatten(nest.map_structure(lambda n: n + 1, structure)) == [n + 1 for n in flat]


def test_dataclasses_are_leaves_unless_they_say_how():
    @dataclasses.dataclass
    class Silent:
        a: int

    @dataclasses.dataclass
    class Telling:
        a: int
        b: int

        def __tf_flatten__(self):
            return ("metadata",), (self.b, self.a)

        @classmethod
        def __tf_unflatten__(cls, metadata, components):
            assert metadata == ("metadata",)
            b, a = components
            return cls(a, b)

    assert nest.flatten(Silent(1)) == [Silent(1)]
    assert nest.flatten(Telling(1, 2)) == [2, 1]
    assert nest.pack_sequence_as(Telling(1, 2), [8, 9]) == Telling(9, 8)
    assert nest.map_structure(lambda x, y: x + y, Telling(1, 2), Telling(3, 4)) == Telling(4, 6)


def test_composites_open_on_request_only():
    class Pair:
        def __init__(self, x, y):
            self.x, self.y = x, y

    pair = Pair(1, [2])
    assert nest.flatten(pair, expand_composites=True) == [pair]  # a leaf so far, and seen as one
    nest.register_composite(Pair, lambda p: (p.x, p.y), lambda p, parts: Pair(*parts))
    assert nest.flatten([pair, 3]) == [pair, 3]
    assert not nest.is_nested(pair)
    for structure, flat in [(pair, [1, 2]), ([pair, 3], [1, 2, 3]), ([pair], [1, 2])]:
        assert nest.flatten(structure, expand_composites=True) == flat
    packed = nest.pack_sequence_as([pair, 3], [4, 5, 6], expand_composites=True)
    assert (packed[0].x, packed[0].y, packed[1]) == (4, [5], 6)
    doubled = nest.map_structure(lambda n: 2 * n, pair, expand_composites=True)
    assert (doubled.x, doubled.y) == (2, [4])
    nest.assert_same_structure([pair], [1])
    with pytest.raises(ValueError, match="is a sequence, while substructure"):
        nest.assert_same_structure([pair], [1], expand_composites=True)
    with pytest.raises(ValueError, match="same number of elements"):
        nest.assert_same_structure([pair], [Pair(1, [2, 3])], expand_composites=True)


def test_unsortable_keys():
    with pytest.raises(TypeError, match=r"sortable keys, got \[1, 'a'\]"):
        nest.flatten({1: 1, "a": 2})


@pytest.mark.parametrize(
    ("structure", "flat", "error", "message"),
    [
        (
            [1, [2]],
            [3],
            ValueError,
            "Could not pack sequence. Structure had 2 atoms, but flat_sequence had 1 items.  "
            "Structure: [1, [2]], flat_sequence: [3].",
        ),
        (
            [1, [2]],
            [3, 4, 5],
            ValueError,
            "Could not pack sequence. Structure had 2 atoms, but flat_sequence had 3 items.",
        ),
        ([0, 0], [1], ValueError, "Could not pack sequence. Structure had 2 atoms, but flat_sequence had 1 items."),
        ([], [1], ValueError, "Could not pack sequence. Structure had 0 atoms, but flat_sequence had 1 items."),
        (
            1,
            [3, 4],
            ValueError,
            "The target structure is of type `<class 'int'>`\n  1\nHowever the input is a sequence",
        ),
        (1, [], ValueError, "The target structure is of type `<class 'int'>`"),
        (
            1,
            3,
            TypeError,
            "Attempted to pack value:\n  3\ninto a structure, but found incompatible type `<class 'int'>`",
        ),
        ([1, 2], "ab", TypeError, "Attempted to pack value:\n  ab"),
        ([1, 2], np.ones(2), TypeError, "Attempted to pack value:"),
        ([1, 2], {3, 4}, TypeError, "Attempted to pack value:"),
        ([1, 2], {"a": 1, "b": 2}, TypeError, "Attempted to pack value:"),
    ],
)
def test_pack_errors(structure, flat, error, message):
    with pytest.raises(error) as caught:
        nest.pack_sequence_as(structure, flat)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("flat", [(3, 4), range(3, 5), collections.deque([3, 4]), {"a": 3, "b": 4}.values()], ids=repr)
def test_pack_takes_any_sequence(flat):
    assert nest.pack_sequence_as([1, 2], flat) == [3, 4]
    assert nest.pack_sequence_as([1, (2,)], flat) == [3, (4,)]


def test_map_structure():
    a, b = {"x": [1, 2], "y": (3,)}, {"x": [10, 20], "y": (30,)}
    assert nest.map_structure(lambda p: p * 2, a) == {"x": [2, 4], "y": (6,)}
    assert nest.map_structure(lambda p, q: p + q, a, b) == {"x": [11, 22], "y": (33,)}
    assert nest.map_structure(lambda *p: sum(p), [1], [2], [3], [4]) == [10]
    assert nest.map_structure(lambda p, q: p + q, [1], (1,), check_types=False) == [2]
    assert nest.map_structure(lambda p, q: p + q, {"b": 1, "a": 2}, collections.OrderedDict(a=20, b=10)) == {
        "b": 11,
        "a": 22,
    }
    assert nest.map_structure(lambda p: None, Point(1, [2])) == Point(None, [None])
    assert nest.map_structure(lambda p, q: p + q, 1, 2) == 3
    assert nest.map_structure(lambda p: p, []) == []


def test_map_structure_errors():
    with pytest.raises(TypeError, match="func must be callable, got: 5"):
        nest.map_structure(5, [1])
    with pytest.raises(ValueError, match="Must provide at least one structure"):
        nest.map_structure(lambda p: p)
    with pytest.raises(
        ValueError, match="Only valid keyword arguments are `check_types` and `expand_composites`, not: `foo`"
    ):
        nest.map_structure(lambda p: p, [1], foo=1)
    with pytest.raises(ValueError, match="same number of elements"):
        nest.map_structure(lambda p, q: p, [1], [1, 2])

    def stop(leaf):
        raise StopIteration

    with pytest.raises(StopIteration):
        nest.map_structure(stop, [1, [2]])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ([1, {"a": 2}], [3, {"a": 4}]),
        (None, 5),
        ([], []),
        ({"a": 1, "b": 2}, {"b": 1, "a": 2}),
        pytest.param({"a": 1}, Frozen({"a": 1}), id="mapping"),
        ([1], MyList([1])),
        (Point(1, 2), AgainPoint(1, 2)),
    ],
    ids=repr,
)
def test_same_structure(one, two):
    nest.assert_same_structure(one, two)
    nest.assert_same_structure(two, one)


@pytest.mark.parametrize(
    ("one", "two", "error", "reason"),
    [
        ([1], [2, 3], ValueError, "The two structures don't have the same number of elements."),
        (
            [1, [2, 3]],
            [1, [2]],
            ValueError,
            "First structure: type=list str=[2, 3]. Second structure: type=list str=[2]",
        ),
        (
            [1],
            1,
            ValueError,
            'Substructure "type=list str=[1]" is a sequence, while substructure "type=int str=1" is not',
        ),
        (
            1,
            [1],
            ValueError,
            'Substructure "type=list str=[1]" is a sequence, while substructure "type=int str=1" is not',
        ),
        ([[]], [1], ValueError, 'Substructure "type=list str=[]" is a sequence'),
        ([1, [2]], [[1], 2, 3], ValueError, 'Substructure "type=list str=[1]" is a sequence'),
        ([1], (2,), TypeError, "First structure type=list str=[1] has type list"),
        ([], (), TypeError, "while second structure type=tuple str=() has type tuple"),
        ((1,), MyTuple((1,)), TypeError, "has type MyTuple"),
        (Point(1, 2), Other(1, 2), TypeError, "has type Point, while second structure type=Other"),
        (Point(1, 2), SubPoint(1, 2), TypeError, "has type SubPoint"),
        ({"a": 1}, [1], TypeError, "has type dict"),
        (
            {"a": 1},
            {"b": 1},
            ValueError,
            "The two dictionaries don't have the same set of keys. First structure has keys type=list str=['a'], "
            "while second structure has keys type=list str=['b']",
        ),
    ],
)
def test_different_structure(one, two, error, reason):
    with pytest.raises(error) as caught:
        nest.assert_same_structure(one, two)
    assert str(caught.value).startswith(
        "The two structures don't have the same nested structure.\n\nFirst structure: type="
    )
    assert reason in str(caught.value)
    if error is TypeError:
        nest.assert_same_structure(one, two, check_types=False)


def test_the_whole_message():
    with pytest.raises(ValueError, match="same nested structure") as caught:
        nest.assert_same_structure([1, {"a": [2]}], [1, {"a": 2}])
    assert str(caught.value) == (
        "The two structures don't have the same nested structure.\n\n"
        "First structure: type=list str=[1, {'a': [2]}]\n\n"
        "Second structure: type=list str=[1, {'a': 2}]\n\n"
        'More specifically: Substructure "type=list str=[2]" is a sequence, '
        'while substructure "type=int str=2" is not\n'
        "Entire first structure:\n[., {'a': [.]}]\nEntire second structure:\n[., {'a': .}]"
    )


def test_keys_alone_may_differ_without_types():
    nest.assert_same_structure({"a": 1}, {"b": 1}, check_types=False)


def test_depth_costs_no_recursion():
    deep, other = 1, 2
    for _ in range(20_000):
        deep, other = [deep], [other]
    assert nest.flatten(deep) == [1]
    assert nest.flatten(nest.pack_sequence_as(deep, [5])) == [5]
    assert nest.flatten(nest.map_structure(lambda a, b: a + b, deep, other)) == [3]


def test_a_list_in_itself():
    loop = []
    loop.append(loop)
    with pytest.raises(RecursionError, match="contains itself"):
        nest.flatten(loop)


def test_many_types_are_not_kept(monkeypatch):
    monkeypatch.setattr(nest, "_MAX_TYPES", 50)
    for n in range(200):
        leaf = type(f"Leaf{n}", (), {})()
        assert nest.flatten([leaf, (leaf,)]) == [leaf, leaf]
    assert len(nest._NODES) <= 50
    assert nest._SOLID <= nest._LEAVES <= set(nest._NODES)
