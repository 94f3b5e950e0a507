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


@pytest.mark.parametrize("delimiter", [",", "|"])
@pytest.mark.parametrize("missing", ["", "NA"])
def test_many_records(delimiter, missing):
    plain = [delimiter.join([str(i), missing if i % 7 == 0 else f"{i / 8}", f"n{i}"]) for i in range(200)]
    quoted = [delimiter.join(f'"{field}"' for field in row.split(delimiter)) for row in plain]
    settings = {"record_defaults": [[7], [0.5], ["?"]], "field_delim": delimiter, "na_value": missing}
    for ours, theirs in zip(tf.io.decode_csv(plain, **settings), tf.io.decode_csv(quoted, **settings), strict=True):
        assert ours.numpy().tolist() == theirs.numpy().tolist()
    (column,) = tf.io.decode_csv([f"{i}" for i in range(200)], [tf.constant([], tf.int64)])
    assert column.numpy().tolist() == list(range(200))


def test_the_record_of_a_wrong_number_is_named():
    records = [f"{i},{i}" for i in range(100)]
    records[70] = "1,x"
    with pytest.raises(tf.errors.InvalidArgumentError, match="Field 1 in record 70 is not a valid int32: x"):
        tf.io.decode_csv(records, [[0], [0]])


@pytest.mark.parametrize("copies", [1, 40])
@pytest.mark.parametrize("records", [["1,2", "3"], ["1,2,3", "4"], ["1", "2,3,4"], ["1,2", ""]])
def test_records_with_another_number_of_fields(records, copies):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Expect 2 fields"):
        tf.io.decode_csv(records * copies, [[0], [0]])


CLASSES = ["[aeiou]", "[^a-d ]", "[a-c]+", r"\s", r"\s+", r"\d", r"\W+", "a", " +", "[[:punct:]]", "-", r"\.", "x{2}"]
REWRITES = ["", "-", "xyz", r"\\", r"<\0>", r"\1"]


@pytest.mark.parametrize("pattern", CLASSES)
@pytest.mark.parametrize("rewrite", REWRITES)
def test_classes_of_characters_are_replaced(pattern, rewrite):
    rows = ["".join(RNG.choice(list("abcdexy 12.-!\n_"), RNG.integers(0, 12))) for _ in range(200)]
    expected = [tf.strings.regex_replace(row, pattern, rewrite).numpy() for row in rows]
    found = tf.strings.regex_replace(rows, pattern, rewrite)
    assert tf.strings.length(found).numpy().tolist() == list(map(len, expected))
    assert tf.strings.join([found, "."]).numpy().tolist() == [row + b"." for row in expected]
    assert found.numpy().tolist() == expected


@pytest.mark.parametrize("other", ["é a", "a\0b"])
def test_classes_of_characters_beside_other_texts(other):
    found = tf.strings.regex_replace(["a b"] * 100 + [other], "[^a]", "-").numpy().tolist()
    assert found == [b"a--"] * 100 + [b"--a" if other == "é a" else b"a--"]


@pytest.mark.parametrize("texts", [["5", "-3", "+7"], ["12345678", "-12345678", "0"], ["-0.5", "+1.25", "-20"]])
def test_signs_of_many_numbers(texts):
    found = tf.strings.to_number(texts * 50, tf.float64)
    assert found.numpy().tolist() == [float(text) for text in texts] * 50
    assert np.signbit(tf.strings.to_number(["-0.0"] * 100).numpy()).all()
    if "." not in texts[0]:
        assert tf.strings.to_number(texts * 50, tf.int64).numpy().tolist() == [int(text) for text in texts] * 50


@pytest.mark.parametrize("text", ["", "-", "1.", ".", "123456789", "1.123456789", "x"])
def test_numbers_that_are_read_one_by_one(text):
    try:
        expected = tf.strings.to_number([text], tf.float64).numpy().tolist() * 2
    except tf.errors.InvalidArgumentError:
        with pytest.raises(tf.errors.InvalidArgumentError, match="could not correctly convert string"):
            tf.strings.to_number(["1"] * 100 + [text], tf.float64)
    else:
        assert tf.strings.to_number(["1"] * 100 + [text] * 2, tf.float64).numpy().tolist()[100:] == expected


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
