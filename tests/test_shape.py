"""gradtape._src.shape: TensorShape and TensorSpec."""

from __future__ import annotations

import copy
import pickle
import re
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, strategies as st

from gradtape import dtypes
from gradtape._src.shape import TensorShape, TensorSpec, as_shape, known_shape, unknown_shape

DIMS = st.none() | st.lists(st.none() | st.integers(0, 4), max_size=4).map(tuple)


@pytest.mark.parametrize(
    ("dims", "expected"),
    [
        (None, None),
        ((), []),
        ([2, None], [2, None]),
        ((2, 3), [2, 3]),
        (3, [3]),
        (np.int64(3), [3]),
        (np.array(3), [3]),
        (np.array([2, 3]), [2, 3]),
        ([np.int32(2), True], [2, 1]),
        (range(3), [0, 1, 2]),
        pytest.param((n for n in (1, 2)), [1, 2], id="generator"),
        (TensorShape([1, None]), [1, None]),
    ],
    ids=repr,
)
def test_construction(dims, expected):
    shape = TensorShape(dims)
    assert shape.dims == expected
    assert shape.rank == shape.ndims == (None if expected is None else len(expected))
    assert all(type(d) in (int, type(None)) for d in shape.dims or ())


@pytest.mark.parametrize(
    ("dims", "error", "message"),
    [
        ([-1], ValueError, "Dimension -1 must be >= 0"),
        ((2, -2), ValueError, "Dimension -2 must be >= 0"),
        (-3, ValueError, "Dimension -3 must be >= 0"),
        (
            [1.5],
            TypeError,
            "Dimension value must be integer or None or have an __index__ method, "
            "got value '1.5' with type '<class 'float'>'",
        ),
        ([[1]], TypeError, "Dimension value must be integer or None"),
        (2.5, TypeError, "Dimension value must be integer or None"),
        ("ab", TypeError, "Failed to convert ''ab'' to a shape: ''a'' could not be converted to a dimension."),
        (np.array([1.0]), TypeError, "Failed to convert 'array([1.])' to a shape"),
    ],
    ids=repr,
)
def test_construction_errors(dims, error, message):
    with pytest.raises(error) as caught:
        TensorShape(dims)
    assert str(caught.value).startswith(message)


def test_helpers():
    assert known_shape((2, 3)) == TensorShape([2, 3])
    shape = TensorShape([1])
    assert as_shape(shape) is shape
    assert as_shape(None) == unknown_shape()
    assert unknown_shape(2).as_list() == [None, None]


def test_text_forms():
    for dims, short, long in [
        ((2, 3), "(2, 3)", "TensorShape([2, 3])"),
        ((2,), "(2,)", "TensorShape([2])"),
        ((), "()", "TensorShape([])"),
        ((None,), "(None,)", "TensorShape([None])"),
        (None, "<unknown>", "TensorShape(None)"),
    ]:
        assert (str(TensorShape(dims)), repr(TensorShape(dims))) == (short, long)


def test_sequence_protocol():
    shape = TensorShape((2, None, 4))
    assert list(shape) == [2, None, 4]
    assert tuple(reversed(shape)) == (4, None, 2)
    assert len(shape) == 3
    assert 4 in shape
    assert (shape[0], shape[1], shape[-1], shape[np.int64(0)]) == (2, None, 4, 2)
    assert isinstance(shape[1:], TensorShape)
    assert (shape[1:], shape[::-1], shape[::2]) == ([None, 4], [4, None, 2], [2, 4])
    with pytest.raises(IndexError):
        shape[5]
    with pytest.raises(TypeError):
        shape["a"]


def test_unknown_rank():
    shape = TensorShape(None)
    assert not shape
    assert TensorShape(())
    assert shape[0] is None
    assert shape[1:3] == [None, None]
    assert shape[:2] == [None, None]
    assert shape[3:1] == []
    for key in (slice(1, None), slice(None, -1), slice(-1, 2)):
        assert shape[key].rank is None
    for call, message in [
        (lambda: len(shape), "Cannot take the length of shape with unknown rank."),
        (lambda: list(shape), "Cannot iterate over a shape with unknown rank."),
        (shape.as_list, "as_list() is not defined on an unknown TensorShape."),
        (lambda: shape[::2], "Steps are not yet handled"),
        (shape.assert_is_fully_defined, "Shape <unknown> is not fully defined"),
    ]:
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            call()


def test_equality_and_hash():
    shape = TensorShape((2, 3))
    for same in ([2, 3], (2, 3), TensorShape([2, 3]), np.array([2, 3])):
        assert shape == same
        assert not shape != same  # noqa: SIM202
    for other in ([2], [2, 4], None, TensorShape(None), "ab", 5, object(), [2, "a"], [2, -4], (2.0, 3)):
        assert shape != other
        assert not shape == other  # noqa: SIM201
    assert (2, 3) == shape  # noqa: SIM300
    assert TensorShape([2, None]) == [2, None]
    assert TensorShape([5]) == 5
    assert TensorShape(None) == None == TensorShape(None)  # noqa: E711
    assert {shape: "found"}[(2, 3)] == "found"


def test_numpy_takes_it_for_a_shape():
    shape = TensorShape([2, 3])
    assert np.zeros(shape).shape == (2, 3)
    assert np.zeros(6).reshape(shape).shape == (2, 3)
    assert np.broadcast_to(1, shape).shape == (2, 3)
    assert np.array(shape).tolist() == [2, 3]


def test_joining():
    shape = TensorShape((2, 3))
    for four in ([4], (4,), 4, TensorShape([4])):
        assert shape + four == shape.concatenate(four) == [2, 3, 4]
        assert four + shape == [4, 2, 3]
        assert isinstance(four + shape, TensorShape)
    assert (shape + None).rank is None
    assert (TensorShape(None) + shape).rank is None


def test_elements():
    assert TensorShape((2, 3)).num_elements() == 6
    assert TensorShape(()).num_elements() == 1
    assert TensorShape((0, 3)).num_elements() == 0
    assert TensorShape((2, None)).num_elements() is None
    assert TensorShape(None).num_elements() is None
    assert [TensorShape(d).is_fully_defined() for d in ((), (2, 3), (2, None), None)] == [True, True, False, False]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.assert_has_rank(3), "Shape (2, 3) must have rank 3"),
        (lambda s: s.with_rank(3), "Shape (2, 3) must have rank 3"),
        (lambda s: s.with_rank_at_least(3), "Shape (2, 3) must have rank at least 3"),
        (lambda s: s.with_rank_at_most(1), "Shape (2, 3) must have rank at most 1"),
        (lambda s: s.assert_same_rank([2]), "Shapes (2, 3) and (2,) must have the same rank"),
        (lambda s: s.assert_is_compatible_with([2, 4]), "Shapes (2, 3) and [2, 4] are incompatible"),
        (lambda s: s.merge_with([2, 4]), "Shapes (2, 3) and (2, 4) are not compatible"),
        (lambda s: s.merge_with([2]), "Shapes (2, 3) and (2,) are not compatible"),
        (lambda s: (s[:1] + unknown_shape(1)).assert_is_fully_defined(), "Shape (2, None) is not fully defined"),
    ],
)
def test_failed_claims(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call(TensorShape((2, 3)))


def test_claims_that_hold():
    shape = TensorShape((2, 3))
    shape.assert_has_rank(2)
    shape.assert_same_rank(None)
    shape.assert_is_fully_defined()
    shape.assert_is_compatible_with([None, 3])
    TensorShape(None).assert_has_rank(7)
    assert shape.with_rank(2) is shape.with_rank_at_least(1) is shape.with_rank_at_most(2) is shape
    assert TensorShape(None).with_rank(2) == [None, None]
    assert TensorShape(None).with_rank_at_least(2).rank is None


@given(DIMS, DIMS)
def test_merge_and_cover(one, two):
    a, b = TensorShape(one), TensorShape(two)
    cover = a.most_specific_compatible_shape(b)
    assert cover == b.most_specific_compatible_shape(a)
    assert a.is_subtype_of(cover)
    assert b.is_subtype_of(cover)
    assert a.is_compatible_with(b) == b.is_compatible_with(a)
    if a.is_compatible_with(b):
        merged = a.merge_with(b)
        assert merged == b.merge_with(a)
        assert merged.is_subtype_of(a)
        assert merged.is_subtype_of(b)
    assert a.is_subtype_of(b) == (cover == b)


@given(DIMS)
def test_copies(dims):
    shape = TensorShape(dims)
    assert copy.copy(shape) == copy.deepcopy(shape) == pickle.loads(pickle.dumps(shape)) == shape
    assert hash(TensorShape(dims)) == hash(shape) == hash(dims)


def test_common_supertype():
    assert TensorShape([1]).most_specific_common_supertype([TensorShape([2]), TensorShape([1])]) == [None]
    assert TensorShape([1]).most_specific_common_supertype([5]) is None
    assert not TensorShape([1]).is_subtype_of((1,))


def test_spec_text_and_attributes():
    assert (
        repr(TensorSpec([None])) == str(TensorSpec([None])) == "TensorSpec(shape=(None,), dtype=tf.float32, name=None)"
    )
    assert repr(TensorSpec(None)) == "TensorSpec(shape=<unknown>, dtype=tf.float32, name=None)"
    spec = TensorSpec([2, None], "float64", name="a")
    assert (spec.shape, spec.dtype, spec.name) == (TensorShape([2, None]), dtypes.float64, "a")
    assert repr(spec) == "TensorSpec(shape=(2, None), dtype=tf.float64, name='a')"
    with pytest.raises(TypeError, match="Cannot convert the argument"):
        TensorSpec([2], None)


def test_spec_equality():
    assert TensorSpec([2]) == TensorSpec([2])
    assert hash(TensorSpec([2])) == hash(TensorSpec([2]))
    for other in (TensorSpec([3]), TensorSpec([2], dtypes.int32), TensorSpec([2], name="a"), 5):
        assert TensorSpec([2]) != other
    spec = TensorSpec([None, 1], dtypes.int8, "n")
    assert copy.deepcopy(spec) == pickle.loads(pickle.dumps(spec)) == spec


def test_spec_from_others():
    tensor = SimpleNamespace(shape=TensorShape([1]), dtype=dtypes.int32)
    assert TensorSpec.from_tensor(tensor, name="q") == TensorSpec([1], dtypes.int32, "q")
    for other in (np.ones(1), 5.0):
        with pytest.raises(ValueError, match=r"`tensor` should be a tf\.Tensor, but got type <class '.*'>\."):
            TensorSpec.from_tensor(other)
    assert TensorSpec.from_spec(TensorSpec([1], name="a")).name == "a"
    assert TensorSpec.from_spec(TensorSpec([1], name="a"), name="b").name == "b"


def test_spec_compatibility():
    tensor = SimpleNamespace(shape=TensorShape([2]), dtype=dtypes.float32)
    assert TensorSpec([None]).is_compatible_with(tensor)
    assert not TensorSpec([3]).is_compatible_with(tensor)
    assert not TensorSpec([2], dtypes.float64).is_compatible_with(tensor)
    assert TensorSpec([4], name="a").is_compatible_with(TensorSpec([None], name="b"))
    for other in ([1.0, 2.0], np.ones(2, np.float32), 5.0, object()):
        assert not TensorSpec([None]).is_compatible_with(other)


def test_spec_subtypes_and_cover():
    assert TensorSpec([4]).is_subtype_of(TensorSpec([None], name="a"))
    assert not TensorSpec([4], name="a").is_subtype_of(TensorSpec([None]))
    assert not TensorSpec([4]).is_subtype_of(TensorSpec([None], dtypes.int32))
    assert not TensorSpec([4]).is_subtype_of(5)
    assert TensorSpec([4]).most_specific_compatible_type(TensorSpec([5])) == TensorSpec([None])
    assert TensorSpec([4]).most_specific_compatible_type(TensorSpec([5, 1])) == TensorSpec(None)
    for other in (TensorSpec([4], dtypes.int32), TensorSpec([4], name="a"), 5):
        assert TensorSpec([4]).most_specific_common_supertype([other]) is None
        with pytest.raises(ValueError, match="No TypeSpec is compatible with both TensorSpec"):
            TensorSpec([4]).most_specific_compatible_type(other)
