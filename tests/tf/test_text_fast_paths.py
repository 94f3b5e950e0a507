"""What is computed for many texts in one step is what is computed one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import gradtape as tf

RNG = np.random.default_rng(0)
WORDS = ["", "a", "bc", "déf", "日本語", "x" * 20, "é"]


def texts(count):
    return [WORDS[i] for i in RNG.integers(0, len(WORDS), count)]


@pytest.mark.parametrize("width", [1, 2, 3, 5])
@pytest.mark.parametrize("separator", ["", " ", "--"])
def test_ngrams_of_ragged_rows(width, separator):
    rows = [texts(n) for n in (4, 0, 1, 7, 2)]
    expected = [[separator.join(row[i : i + width]).encode() for i in range(len(row) - width + 1)] for row in rows]
    assert tf.strings.ngrams(tf.ragged.constant(rows), width, separator).to_list() == expected


@pytest.mark.parametrize("shape", [(3, 4), (2, 2, 3), (5,), (0, 4), (3, 0)])
def test_ngrams_of_dense_rows(shape):
    data = np.array(texts(int(np.prod(shape))), object).reshape(shape)
    found = tf.strings.ngrams(tf.constant(data, tf.string), 2)
    assert found.shape == (*shape[:-1], max(0, shape[-1] - 1))
    rows = data.reshape(-1, shape[-1]).tolist() if data.size else []
    expected = [f"{a} {b}".encode() for row in rows for a, b in itertools.pairwise(row)]
    assert found.numpy().ravel().tolist() == expected


def test_characters():
    rows = texts(50)
    assert tf.strings.length(rows, "UTF8_CHAR").numpy().tolist() == [len(row) for row in rows]
    long = [row + "éa" for row in rows]
    found = tf.strings.substr(long, 1, 2, "UTF8_CHAR").numpy().tolist()
    assert found == [row[1:3].encode() for row in long]


def test_characters_of_texts_that_are_no_utf8():
    rows = [b"\xff\x80a", "é".encode(), b"\0\x80"]
    assert tf.strings.length(rows, "UTF8_CHAR").numpy().tolist() == [2, 1, 1]
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of range"):
        tf.strings.substr(["éé", "é"], 2, 1, "UTF8_CHAR")
    assert tf.strings.substr(["é\0é", "éa"], 1, 1, "UTF8_CHAR").numpy().tolist() == [b"\0", b"a"]


def test_records_without_quotes_are_those_with_quotes():
    plain = ["1,2.5,a", "3,,b c", ",4,"]
    quoted = ['"1","2.5","a"', '"3","","b c"', '"","4",""']
    defaults = [[7], [0.5], ["?"]]
    for ours, theirs in zip(tf.io.decode_csv(plain, defaults), tf.io.decode_csv(quoted, defaults), strict=True):
        assert ours.numpy().tolist() == theirs.numpy().tolist()


@pytest.mark.parametrize("records", [["1,2", "3"], ["1,2,3", "4"], ["1", "2,3,4"], ["1,2", ""]])
def test_records_with_another_number_of_fields(records):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expect 2 fields"):
        tf.io.decode_csv(records, [[0], [0]])


@pytest.mark.parametrize("keys", [[0, 1, 2, 3], [5, 1, 9, -4], [7], []])
@pytest.mark.parametrize("dtype", [tf.int64, tf.int32])
def test_numbers_as_keys(keys, dtype):
    values = [f"v{key}" for key in keys]
    initializer = tf.lookup.KeyValueTensorInitializer(tf.constant(keys, dtype), tf.constant(values, tf.string))
    table = tf.lookup.StaticHashTable(initializer, "?")
    wanted = [[0, 1, 5], [9, 100, -4], [7, -100, 2]]
    known = dict(zip(keys, values, strict=True))
    expected = [[known.get(n, "?").encode() for n in row] for row in wanted]
    assert table.lookup(tf.constant(wanted, dtype)).numpy().tolist() == expected


def test_products_of_rows():
    r = tf.ragged.constant([[2.0, 3.0], [], [-1.0, 0.0], [4.0]])
    assert tf.reduce_prod(r, axis=1).numpy().tolist() == [6.0, 1.0, 0.0, 4.0]
    assert tf.reduce_prod(tf.ragged.constant([[], []], tf.float32), axis=1).numpy().tolist() == [1.0, 1.0]
    with tf.GradientTape() as tape:
        tape.watch(r)
        y = tf.reduce_prod(r, axis=1)
    assert y.numpy().tolist() == [6.0, 1.0, 0.0, 4.0]
    assert tape.gradient(y, r).to_list() == [[3.0, 2.0], [], [0.0, -1.0], [1.0]]


@pytest.mark.parametrize("counts", [[1, 3], [2, 2], [1, 0], [3, 1]])
def test_tiles(counts):
    rows = [[1, 2], [], [3], [4, 5, 6]]
    expected = [row * counts[1] for row in rows] * counts[0]
    assert tf.tile(tf.ragged.constant(rows), counts).to_list() == expected
