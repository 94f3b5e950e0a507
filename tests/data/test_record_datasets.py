"""Datasets of `tf.data.experimental` that parse, group or query; the cases are those of TensorFlow's own tests."""

from __future__ import annotations

import sqlite3

import numpy as np
import pytest

import gradtape as tf

experimental = tf.data.experimental


def example(number, text):
    feature = {
        "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[number])),
        "text": tf.train.Feature(bytes_list=tf.train.BytesList(value=[text])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


FEATURES = {"number": tf.io.FixedLenFeature([], tf.int64), "text": tf.io.FixedLenFeature([], tf.string)}


# -- groups ------------------------------------------------------------------------------------------------------------
def test_elements_of_a_key_are_reduced():
    mean = experimental.Reducer(
        lambda key: (0.0, 0.0),
        lambda state, x: (state[0] + tf.cast(x, tf.float32), state[1] + 1.0),
        lambda total, count: total / count,
    )
    dataset = tf.data.Dataset.range(9, -1, -1).apply(experimental.group_by_reducer(lambda x: x % 2, mean))
    assert dataset.element_spec == tf.TensorSpec([], tf.float32)
    assert [float(x) for x in dataset] == [4.0, 5.0]  # in the order of the keys
    joined = experimental.Reducer(
        lambda key: tf.constant(""), lambda state, pair: tf.strings.join([state, pair[0]]), lambda state: state
    )
    pairs = tf.data.Dataset.zip((tf.data.Dataset.from_tensor_slices(list("abcd")), tf.data.Dataset.range(4)))
    dataset = pairs.apply(experimental.group_by_reducer(lambda letter, i: i % 2, joined))
    assert [x.numpy() for x in dataset] == [b"ac", b"bd"]


@pytest.mark.parametrize("key", [lambda x: tf.cast(x, tf.int32), lambda x: tf.stack([x, x])])
def test_keys_are_int64_scalars(key):
    nothing = experimental.Reducer(lambda key: 0, lambda state, x: state, lambda state: state)
    with pytest.raises(ValueError, match=r"`key_func` must return a single tf\.int64 tensor"):
        list(tf.data.Dataset.range(2).apply(experimental.group_by_reducer(key, nothing)))


# -- sparse batches ----------------------------------------------------------------------------------------------------
def test_rows_of_different_sizes_become_sparse_batches():
    dataset = tf.data.Dataset.from_tensor_slices([3, 0, 2, 5]).map(lambda n: tf.fill([n], n))
    batches = list(dataset.apply(experimental.dense_to_sparse_batch(2, [12])))
    assert [batch.dense_shape.numpy().tolist() for batch in batches] == [[2, 12], [2, 12]]
    assert batches[0].indices.numpy().tolist() == [[0, 0], [0, 1], [0, 2]]
    assert batches[1].values.numpy().tolist() == [2, 2, 5, 5, 5, 5, 5]
    square = tf.data.Dataset.range(3).map(lambda n: tf.fill([n, n], n))
    (batch,) = square.apply(experimental.dense_to_sparse_batch(4, [5, None]))
    assert batch.dense_shape.numpy().tolist() == [3, 5, 2]
    assert batch.indices.numpy()[-1].tolist() == [2, 1, 1]


@pytest.mark.parametrize(
    ("row_shape", "error", "words"),
    [([2], tf.errors.DataLossError, "larger than the row shape"),
     ([2, 2], tf.errors.InvalidArgumentError, "incompatible with the row shape")],
)  # fmt: skip
def test_rows_that_do_not_fit(row_shape, error, words):
    dataset = tf.data.Dataset.from_tensors(tf.zeros([3]))
    with pytest.raises(error, match=words):
        list(dataset.apply(experimental.dense_to_sparse_batch(2, row_shape)))


# -- examples ----------------------------------------------------------------------------------------------------------
@pytest.fixture
def records(tmp_path):
    for part in range(2):
        with tf.io.TFRecordWriter(str(tmp_path / f"part-{part}")) as writer:
            for i in range(3):
                writer.write(example(10 * part + i, b"%d" % i))
    return str(tmp_path / "part-*")


def test_batches_of_features_of_files(records):
    dataset = experimental.make_batched_features_dataset(records, 4, FEATURES, num_epochs=1, shuffle=False)
    batches = list(dataset)
    assert [batch["number"].numpy().tolist() for batch in batches] == [[0, 1, 2, 10], [11, 12]]
    assert batches[0]["text"].numpy().tolist() == [b"0", b"1", b"2", b"0"]
    labelled = experimental.make_batched_features_dataset(records, 2, FEATURES, label_key="number", shuffle_seed=1)
    features, label = next(iter(labelled))
    assert list(features) == ["text"]
    assert label.shape == [2]
    shuffled = experimental.make_batched_features_dataset(records, 6, FEATURES, num_epochs=2, drop_final_batch=True)
    assert sorted(np.concatenate([batch["number"] for batch in shuffled])) == sorted(2 * [0, 1, 2, 10, 11, 12])
    with pytest.raises(ValueError, match=r"`label_key` provided \('missing'\) must be one of the `features` keys"):
        experimental.make_batched_features_dataset(records, 2, FEATURES, label_key="missing")


def test_examples_are_parsed_in_batches(records):
    parse = experimental.parse_example_dataset(FEATURES)
    (batch,) = tf.data.TFRecordDataset(tf.io.gfile.glob(records)).batch(6).apply(parse)
    assert batch["number"].numpy().tolist() == [0, 1, 2, 10, 11, 12]
    with pytest.raises(TypeError, match="a dataset of vectors of strings"):
        tf.data.Dataset.range(2).batch(2).apply(parse)
    with pytest.raises(ValueError, match="Argument `features` is required"):
        experimental.parse_example_dataset(None)


# -- tables ------------------------------------------------------------------------------------------------------------
@pytest.fixture
def base(tmp_path):
    path = str(tmp_path / "people.db")
    with sqlite3.connect(path) as base:
        base.execute("CREATE TABLE people (name TEXT, age INTEGER, height REAL, data BLOB)")
        rows = [("Ada", 36, 1.65, b"\x00"), (None, 2**62 + 1, None, None)]
        base.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)
    base.close()
    return path


def test_rows_of_a_table(base):
    types = (tf.string, tf.int64, tf.float64, tf.string)
    dataset = experimental.SqlDataset("sqlite", base, "SELECT * FROM people", types)
    assert [tuple(x.numpy() for x in row) for row in dataset.repeat(2)] == 2 * [
        (b"Ada", 36, 1.65, b"\x00"),
        (b"", 2**62 + 1, 0.0, b""),
    ]
    assert dataset.element_spec[1] == tf.TensorSpec([], tf.int64)
    (row,) = experimental.SqlDataset("sqlite", base, "SELECT age > 10 FROM people LIMIT 1", (tf.bool,))
    assert bool(row[0])


@pytest.mark.parametrize(
    ("driver", "query", "types", "error", "words"),
    [
        ("mysql", "SELECT 1", (tf.int32,), tf.errors.InvalidArgumentError, "database type, mysql, is not supported"),
        ("sqlite", "SELEC 1", (tf.int32,), tf.errors.UnknownError, "syntax error"),
        ("sqlite", "SELECT 1", (tf.int32, tf.int32), tf.errors.InvalidArgumentError, r"columns in query \(1\) must"),
        ("sqlite", "SELECT 1", (tf.complex64,), tf.errors.UnimplementedError, "is not a type of a column"),
    ],
)
def test_mistakes_in_queries(base, driver, query, types, error, words):
    with pytest.raises(error, match=words):
        list(experimental.SqlDataset(driver, base, query, types))
