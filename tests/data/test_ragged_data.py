"""Ragged tensors in datasets."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

ROWS = [[1, 2], [], [3], [4, 5, 6]]


def lists(dataset):
    return [batch.to_list() for batch in dataset]


def test_rows_are_tensors_and_batches_ragged():
    dataset = tf.data.Dataset.from_tensor_slices(tf.ragged.constant(ROWS))
    assert dataset.element_spec == tf.RaggedTensorSpec([None], tf.int32, ragged_rank=0)
    assert [row.numpy().tolist() for row in dataset] == ROWS
    assert lists(dataset.batch(3)) == [ROWS[:3], ROWS[3:]]
    assert dataset.batch(3).element_spec.shape.as_list() == [None, None]
    assert lists(dataset.filter(lambda x: tf.size(x) > 0).batch(2)) == [[[1, 2], [3]], [[4, 5, 6]]]
    assert lists(tf.data.Dataset.from_tensors(tf.ragged.constant(ROWS)).unbatch().batch(4)) == [ROWS]


def test_rows_beside_other_components():
    dataset = tf.data.Dataset.from_tensor_slices(({"x": tf.ragged.constant(ROWS)}, [0, 1, 0, 1]))
    features, labels = next(iter(dataset.shuffle(4, seed=1).batch(4)))
    assert sorted(features["x"].to_list()) == sorted(ROWS)
    assert sorted(labels.numpy().tolist()) == [0, 0, 1, 1]


def test_after_a_function_rows_need_ragged_batch():
    dataset = tf.data.Dataset.from_tensor_slices(tf.ragged.constant(ROWS)).map(lambda x: x + 1)
    assert isinstance(dataset.element_spec, tf.TensorSpec)
    with pytest.raises(tf.errors.InvalidArgumentError):
        list(dataset.batch(4))
    assert lists(dataset.ragged_batch(3)) == [[[2, 3], [], [4]], [[5, 6, 7]]]
    assert lists(dataset.apply(tf.data.experimental.dense_to_ragged_batch(3, drop_remainder=True))) == [
        [[2, 3], [], [4]]
    ]


def test_known_sizes_stay_dense_in_ragged_batches():
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(6).reshape(3, 2))
    assert next(iter(dataset.ragged_batch(3))).shape == [3, 2]
    grown = tf.data.Dataset.range(1, 4).map(lambda n: tf.ones([n, 2]))
    batch = next(iter(grown.ragged_batch(3, row_splits_dtype=tf.int32)))
    assert batch.shape.as_list() == [3, None, 2]
    assert batch.row_splits.numpy().tolist() == [0, 1, 3, 6]


def test_functions_take_ragged_batches():
    dataset = tf.data.Dataset.from_tensor_slices(tf.ragged.constant(ROWS)).batch(2)
    assert [x.numpy().tolist() for x in dataset.map(lambda r: tf.reduce_sum(r, axis=1))] == [[3, 0], [3, 15]]
    assert lists(dataset.map(lambda r: r * 2)) == [[[2, 4], []], [[6], [8, 10, 12]]]
