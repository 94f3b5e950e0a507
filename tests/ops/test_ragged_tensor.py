"""Ragged tensors: partitions, conversions, indexing and broadcasting."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import gradtape as tf

R = tf.RaggedTensor
ROWS = [[3, 1], [], [4, 1, 5]]
V = [3, 1, 4, 1, 5]


@pytest.mark.parametrize(
    "make",
    [
        lambda: R.from_row_splits(V, [0, 2, 2, 5]),
        lambda: R.from_row_lengths(V, [2, 0, 3]),
        lambda: R.from_row_starts(V, [0, 2, 2]),
        lambda: R.from_row_limits(V, [2, 2, 5]),
        lambda: R.from_value_rowids(V, [0, 0, 2, 2, 2]),
        lambda: tf.ragged.constant(ROWS),
    ],
)
def test_every_encoding_has_the_same_rows(make):
    r = make()
    assert r.to_list() == ROWS
    assert r.row_splits.numpy().tolist() == [0, 2, 2, 5]
    assert r.row_lengths().numpy().tolist() == [2, 0, 3]
    assert r.row_starts().numpy().tolist() == [0, 2, 2]
    assert r.row_limits().numpy().tolist() == [2, 2, 5]
    assert r.value_rowids().numpy().tolist() == [0, 0, 2, 2, 2]
    assert int(r.nrows()) == 3


def test_wrong_partitions_have_tensorflows_errors():
    with pytest.raises(tf.errors.InvalidArgumentError, match="do not form a valid RaggedTensor"):
        R.from_row_splits(V, [0, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="monotonic"):
        R.from_row_splits(V, [0, 3, 2, 5])
    with pytest.raises(tf.errors.InvalidArgumentError, match="RowPartition"):
        R.from_row_lengths(V, [6, -1])
    with pytest.raises(ValueError, match=r"row_splits tensor may not be empty"):
        R.from_row_splits(V, [])
    with pytest.raises(ValueError, match="must equal nvals=5"):
        R.from_uniform_row_length(V, 2)
    with pytest.raises(ValueError, match="constructor is private"):
        R(V, [0, 5])


def test_row_splits_keep_their_dtype():
    r = R.from_row_splits(V, np.array([0, 5], np.int32))
    assert r.row_splits.dtype == tf.int32
    assert r.with_row_splits_dtype(tf.int64).row_splits.dtype == tf.int64
    with pytest.raises(ValueError, match="mismatched row_splits dtypes"):
        r + r.with_row_splits_dtype(tf.int64)


def test_to_tensor_pads_and_cuts():
    r = tf.ragged.constant([[[1, 2], [3]], [], [[4, 5, 6]]])
    assert r.to_tensor().shape == [3, 2, 3]
    assert r.to_tensor(9, shape=[2, None, 2]).numpy().tolist() == [[[1, 2], [3, 9]], [[9, 9], [9, 9]]]
    assert tf.ragged.constant([["a"], []]).to_tensor().numpy().tolist() == [[b"a"], [b""]]


def test_the_gradient_flows_through_to_tensor():
    v = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = R.from_row_lengths(v, [1, 0, 2]).to_tensor(7.0) ** 2
    assert tf.convert_to_tensor(tape.gradient(y, v)).numpy().tolist() == [2.0, 4.0, 6.0]


@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
@pytest.mark.parametrize("start", [None, 0, 1, -1, -2, 5, -5])
@pytest.mark.parametrize("stop", [None, 0, 1, -1, -2, 5, -5])
def test_slices_of_rows_and_columns_are_those_of_lists(start, stop, step):
    rows = [[1, 2, 3], [4], [], [5, 6], [7, 8, 9, 10]]
    r, key = tf.ragged.constant(rows), slice(start, stop, step)
    assert r[key].to_list() == rows[key]
    assert r[:, key].to_list() == [row[key] for row in rows]


def test_index_errors():
    r = tf.ragged.constant(ROWS)
    with pytest.raises(IndexError, match="Row key 3 out of bounds"):
        r[3]
    with pytest.raises(tf.errors.InvalidArgumentError):
        r[-4]
    with pytest.raises(ValueError, match="Cannot index into an inner ragged dimension"):
        r[:, 0]
    with pytest.raises(TypeError, match="Only integers"):
        r["a"]


def test_rows_broadcast_where_a_length_is_uniformly_1():
    r = tf.ragged.constant(ROWS)
    assert (r + tf.constant([[10], [20], [30]])).to_list() == [[13, 11], [], [34, 31, 35]]
    assert (tf.constant([[[1]], [[2]]]) * r).to_list() == [ROWS, [[6, 2], [], [8, 2, 10]]]
    n = tf.ragged.constant([[[1, 2], [3]], [[4]]])
    assert (n + tf.constant([[[100]], [[200]]])).to_list() == [[[101, 102], [103]], [[204]]]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unable to broadcast"):
        r + tf.constant([1, 2])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Unable to broadcast"):
        n * tf.ragged.constant([[[2], [3]], [[4]]])


def test_operators_are_those_of_tensors_on_either_side():
    r = tf.ragged.constant([[1.0, 2.0], [4.0]])
    t = tf.constant([[2.0], [8.0]])
    for op in ("__add__", "__sub__", "__mul__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__lt__"):
        assert getattr(r, op)(t).flat_values.numpy().tolist() == getattr(
            r.flat_values, op)(tf.constant([2.0, 2.0, 8.0])).numpy().tolist()  # fmt: skip
    assert (t - r).to_list() == [[1.0, 0.0], [4.0]]
    assert (2.0**r).to_list() == [[2.0, 4.0], [16.0]]
    assert (t // r).to_list() == [[2.0, 1.0], [2.0]]
    assert (np.float32(1) - r).to_list() == [[0.0, -1.0], [-3.0]]
    assert (t == r).to_list() == [[False, True], [False]]
    assert (~(r > 1.5)).to_list() == [[True, False], [False]]
    assert (r == None) is False  # noqa: E711 - the operator


def test_it_is_no_dense_tensor():
    r = tf.ragged.constant(ROWS)
    with pytest.raises(ValueError, match="has no len"):
        tf.convert_to_tensor(r)
    for function in (bool, hash, len):
        with pytest.raises(TypeError):
            function(r)


def test_nest_takes_it_apart_and_pickle_puts_it_together():
    r = tf.ragged.constant([[[1], []], [[2, 3]]])
    assert tf.nest.flatten(r)[0] is r
    flat, outer, inner = tf.nest.flatten(r, expand_composites=True)
    assert flat is r.flat_values
    assert outer is r.row_splits
    assert inner is r.values.row_splits
    doubled = tf.nest.map_structure(lambda t: t, r, expand_composites=True)
    assert doubled.to_list() == r.to_list()
    assert pickle.loads(pickle.dumps(r)).to_list() == r.to_list()


def test_the_specification():
    spec = tf.RaggedTensorSpec([None, None], tf.int32)
    r = tf.ragged.constant(ROWS)
    assert repr(spec) == "RaggedTensorSpec(TensorShape([None, None]), tf.int32, 1, tf.int64)"
    assert spec.is_compatible_with(r)
    assert not tf.RaggedTensorSpec([None, None]).is_compatible_with(r)
    assert tf.RaggedTensorSpec.from_value(r) == tf.RaggedTensorSpec([3, None], tf.int32)
    assert pickle.loads(pickle.dumps(spec)) == spec
    with pytest.raises(ValueError, match="must be less than rank"):
        tf.RaggedTensorSpec([2, 2], tf.int32, ragged_rank=3)
