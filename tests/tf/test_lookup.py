"""`tf.lookup`: what the conformance programs leave out: errors, checkpoints, copies, modules and functions."""

from __future__ import annotations

import copy

import pytest

import gradtape as tf

EXPERIMENTAL = tf.lookup.experimental


def words(*keys, dtype="int64"):
    return tf.lookup.KeyValueTensorInitializer(list(keys), tf.range(len(keys), dtype=dtype))


def line_table(path, *columns, default=-1, **options):
    return tf.lookup.StaticHashTable(tf.lookup.TextFileInitializer(str(path), *columns, **options), default)


WHOLE, NUMBER = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER


def test_static_tables_look_up_dense_sparse_and_ragged_keys():
    table = tf.lookup.StaticHashTable(words("a", "b"), -1)
    sparse = tf.SparseTensor([[0, 1]], ["b"], [1, 2])
    assert table[sparse].values.numpy().tolist() == [1]
    assert table.lookup(tf.ragged.constant([["b", "?"], ["a"]])).to_list() == [[1, -1], [0]]
    keys, values = table.export()
    assert dict(zip(keys.numpy().tolist(), values.numpy().tolist(), strict=True)) == {b"a": 0, b"b": 1}


@pytest.mark.parametrize(
    ("make", "kind", "sentence"),
    [
        (
            lambda: tf.lookup.StaticHashTable(words("a", "a"), -1),
            tf.errors.FailedPreconditionError,
            "HashTable has diff",
        ),
        (lambda: tf.lookup.StaticHashTable(words("a"), "x"), TypeError, "Cannot convert 'x'"),
        (lambda: tf.lookup.StaticHashTable(words("a"), [1, 2]), ValueError, "Shapes"),
        (lambda: tf.lookup.StaticVocabularyTable(words("a"), 0), ValueError, "`num_oov_buckets` must be > 0"),
        (lambda: tf.lookup.StaticVocabularyTable(words("a", dtype="int32"), 1), TypeError, "Invalid `value_dtype`"),
        (lambda: EXPERIMENTAL.MutableHashTable(tf.float32, tf.int64, 0), tf.errors.NotFoundError, "Could not find dev"),
        (
            lambda: EXPERIMENTAL.DenseHashTable(tf.string, tf.int64, -1, "", ""),
            tf.errors.InvalidArgumentError,
            "Empty and deleted keys cannot be equal",
        ),
        (
            lambda: EXPERIMENTAL.DenseHashTable(tf.string, tf.int64, -1, "", "$", initial_num_buckets=5),
            tf.errors.InvalidArgumentError,
            "Number of buckets must be at least 4 and a power of 2, got: 5",
        ),
    ],
)
def test_tables_that_cannot_be_made(make, kind, sentence):
    with pytest.raises(kind, match=f"^{sentence}"):
        make()


def test_text_files(tmp_path):
    path = tmp_path / "words.txt"
    path.write_bytes(b"a\t1\r\nb\t2\nc\t3")
    assert line_table(path, tf.string, 0, tf.int64, 1).lookup(tf.constant(["b", "?"])).numpy().tolist() == [2, -1]
    named = line_table(path, tf.int64, NUMBER, tf.string, 0, default="?")
    assert named[tf.constant([2, 7], tf.int64)].numpy().tolist() == [b"c", b"?"]
    assert line_table(path, tf.string, WHOLE, tf.int64, NUMBER, vocab_size=2, value_index_offset=5).export()[
        1
    ].numpy().tolist() == [5, 6]
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected at least 6 got 2"):
        line_table(path, tf.string, 0, tf.int64, 5)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^Field a in line 0 is not a valid int64"):
        line_table(path, tf.int64, 0, tf.int64, 1)
    with pytest.raises(tf.errors.NotFoundError):
        line_table(tmp_path / "missing", tf.string, 0, tf.int64, 1)
    path.write_bytes(b"a\n\nb\n")
    with pytest.raises(tf.errors.InvalidArgumentError, match="empty line found at position 3"):
        line_table(path, tf.string, WHOLE, tf.int64, NUMBER)


def test_vectors_and_defaults_of_mutable_tables():
    table = EXPERIMENTAL.MutableHashTable(tf.int64, tf.float32, [0.0, 0.0])
    table.insert([1, 5], [[1.0, 2.0], [3.0, 4.0]])
    assert table.lookup([[5], [2]]).numpy().tolist() == [[[3.0, 4.0]], [[0.0, 0.0]]]
    assert table.lookup([9, 5], dynamic_default_values=[[7.0, 7.0], [8.0, 8.0]]).numpy().tolist() == [[7, 7], [3, 4]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected shape \[1,2\] for value, got \[1,3\]"):
        table.insert([1], [[1.0, 2.0, 3.0]])


def test_a_dense_table_has_tensorflows_buckets():
    table = EXPERIMENTAL.DenseHashTable(tf.int64, tf.int64, -1, 0, -1, initial_num_buckets=8)
    table.insert([9, 1, 17, 4, 100], [1, 2, 3, 4, 5])
    assert table.export()[0].numpy().ravel().tolist() == [0, 9, 1, 0, 17, 4, 0, 100]
    table.insert(list(range(1, 9)), [0] * 8)
    assert len(table.export()[0]) == 16
    pairs = EXPERIMENTAL.DenseHashTable(tf.int64, tf.int64, -1, [0, 0], [-1, -1])
    pairs.insert([[1, 2]], [5])
    assert pairs.lookup([[1, 2], [2, 1]]).numpy().tolist() == [5, -1]


def test_checkpoints_save_tables_that_change(tmp_path):
    table = EXPERIMENTAL.MutableHashTable(tf.string, tf.int64, -1)
    dense = EXPERIMENTAL.DenseHashTable(tf.string, tf.float32, [0.0, 0.0], "", "$", initial_num_buckets=8)
    table.insert(["a", "b"], [1, 2])
    dense.insert(["x"], [[1.0, 2.0]])
    path = tf.train.Checkpoint(table=table, dense=dense).save(str(tmp_path / "tables"))
    shapes = dict(tf.train.list_variables(path))
    assert shapes["table/.ATTRIBUTES/table-keys"] == [2]
    assert shapes["dense/.ATTRIBUTES/table-values"] == [8, 2]
    table.insert(["a", "c"], [7, 8])
    dense.remove(tf.constant(["x"]))
    tf.train.Checkpoint(table=table, dense=dense).restore(path).assert_consumed()
    assert table.lookup(["a", "b", "c"]).numpy().tolist() == [1, 2, -1]
    assert dense.lookup(["x"]).numpy().tolist() == [[1.0, 2.0]]


def test_modules_functions_and_copies():
    class Words(tf.Module):
        def __init__(self):
            super().__init__()
            self.static = tf.lookup.StaticHashTable(words("a", "b"), -1)
            self.counts = EXPERIMENTAL.MutableHashTable(tf.int64, tf.int64, 0)

        @tf.function
        def count(self, keys):
            ids = self.static.lookup(keys)
            self.counts.insert(ids, self.counts.lookup(ids) + 1)
            return ids

    module = Words()
    assert module.variables == ()
    for text in ("a", "b", "a", "?"):
        module.count(tf.constant([text]))
    assert module.counts.lookup([0, 1, -1]).numpy().tolist() == [2, 1, 1]
    other = copy.deepcopy(module.counts)
    other.insert([0], [9])
    assert module.counts.lookup([0]).numpy().tolist() == [2]
