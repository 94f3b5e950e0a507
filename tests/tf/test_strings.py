"""`tf.strings`: values and errors that TensorFlow has recorded, hashes, speed paths that must agree, ragged input."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tf_cases import strings as cases

import gradtape as tf

RECORDED = json.loads((Path(__file__).parents[1] / "recorded" / "strings_tensorflow.json").read_text("utf-8"))


def difference(recorded, received):
    """None, or what differs. Of an error the class and the beginning of the text count."""
    if isinstance(recorded, dict) and isinstance(received, dict):
        same = recorded["error"] == received["error"] and received["says"].startswith(recorded["says"])
        return None if same else (recorded, received)
    return None if recorded == received else (recorded, received)


@pytest.mark.parametrize("number", range(len(cases.EXPRESSIONS)), ids=lambda i: cases.EXPRESSIONS[i][:60])
def test_expression(number):
    expression = cases.EXPRESSIONS[number]
    assert difference(RECORDED["expressions"][number], cases.outcome(expression, tf)) is None, expression


@pytest.mark.parametrize("number", range(len(cases.PATTERNS)), ids=lambda i: cases.PATTERNS[i])
def test_pattern(number):
    found = cases.matched(cases.PATTERNS[number], tf)
    assert [difference(*pair) for pair in zip(RECORDED["patterns"][number], found, strict=True)] == [None] * 3


@pytest.mark.parametrize("number", range(len(cases.HASHES)), ids=lambda i: cases.HASHES[i])
def test_hashes_are_tensorflows(number):
    assert cases.hashes(cases.HASHES[number], tf) == RECORDED["hashes"][number]


# -- what the record does not show -----------------------------------------------------------------------------------
def test_elementwise_functions_map_the_values_of_ragged_tensors():
    x = tf.ragged.constant([["A b", "c"], []], dtype=tf.string)
    assert tf.strings.lower(x).to_list() == [[b"a b", b"c"], []]
    assert tf.strings.length(x).to_list() == [[3, 1], []]
    assert tf.strings.split(x).to_list() == [[[b"A", b"b"], [b"c"]], []]
    assert tf.strings.join([x, "!"]).to_list() == [[b"A b!", b"c!"], []]
    assert tf.strings.regex_replace(x, "[a-z]", "-").to_list() == [[b"A -", b"-"], []]


@pytest.mark.parametrize("between", [b"\x80", b"\0", b"", "é"])
def test_separators_are_any_bytes(between):
    texts, wanted = (
        tf.constant(["a", "b"]),
        (between.encode() if isinstance(between, str) else between).join([b"a", b"b"]),
    )
    assert tf.strings.join(["a", "b"], between).numpy() == wanted
    assert tf.strings.reduce_join(texts, separator=between).numpy() == wanted
    assert tf.strings.ngrams(texts, 2, between).numpy().tolist() == [wanted]
    assert tf.strings.unsorted_segment_join(texts, [0, 0], 1, between).numpy().tolist() == [wanted]


def test_reduce_join_of_ragged_tensors():
    x = tf.ragged.constant([["a", "b", "c"], ["d"], []], dtype=tf.string)
    assert tf.strings.reduce_join(x, axis=-1, separator="+").numpy().tolist() == [b"a+b+c", b"d", b""]
    assert tf.strings.reduce_join(x, axis=0).numpy().tolist() == [b"ad", b"b", b"c"]
    assert tf.strings.reduce_join(x).numpy() == b"abcd"
    assert tf.strings.reduce_join(x, axis=1, keepdims=True).numpy().tolist() == [[b"abc"], [b"d"], [b""]]


@pytest.mark.parametrize(
    "pattern", ["[aeiou]", r"\s+", r"(\w)(\d)", "^the|end$", r"\bto\b", "(?m)^b", "x{2,3}?", "[^a-z]+"]
)
def test_one_pass_over_all_texts_agrees_with_one_text_at_a_time(pattern):
    texts = ["the end", "", "go to a1b2", "to\nbe xxxx", "END the", "a\tb  c"]
    whole = tf.strings.regex_replace(texts, pattern, r"<\0>").numpy().tolist()
    assert whole == [tf.strings.regex_replace(text, pattern, r"<\0>").numpy() for text in texts]
    # A text beyond ASCII is matched as Unicode, one after the other.
    assert tf.strings.regex_replace([*texts, "é"], pattern, r"<\0>").numpy().tolist()[:-1] == whole


def test_functions_with_strings_run_and_datasets_map_them():
    @tf.function
    def shout(x):
        return tf.strings.join([tf.strings.upper(x), "!"])

    assert shout(tf.constant(["a", "b"])).numpy().tolist() == [b"A!", b"B!"]
    words = tf.data.Dataset.from_tensor_slices(["a b", "c"]).map(tf.strings.split)
    assert words.element_spec.shape.as_list() == [None]
    assert [row.tolist() for row in words.padded_batch(2).as_numpy_iterator()] == [[[b"a", b"b"], [b"c", b""]]]


def test_numbers_from_text_are_constants_for_a_tape():
    x = tf.Variable([1.5, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(x * tf.strings.to_number(tf.strings.as_string(x)))
    assert tape.gradient(y, x).numpy().tolist() == [1.5, 2.0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_many_numbers_are_read_as_each_one_is(dtype):
    rng = np.random.default_rng(0)
    texts = [f"{x:.{n % 7}f}" for n, x in enumerate(rng.normal(0, 1000, 300))]
    texts += ["-0", "+7", ".5", "-.25", "3.", "123456789012345", "0.000000000000001", "16777217.0", "0.1"]
    many = tf.strings.to_number(texts, dtype).numpy()
    each = np.array([tf.strings.to_number(text, dtype).numpy() for text in texts])
    assert many.tobytes() == each.tobytes()
    for odd in ("1e3", " 4 ", "nan", "0x10", "1234567890123456789"):  # which need another way for all of them
        assert tf.strings.to_number([*texts, odd], dtype).numpy()[:-1].tobytes() == each.tobytes()
    for wrong in ("1-2", "1.2.3", "", "-", ".", "1 2", "+-1", "1_0"):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"could not correctly convert string: "):
            tf.strings.to_number([*texts, wrong], dtype)


def test_many_integers_are_read_as_each_one_is():
    texts = [str(n) for n in range(-100, 100)] + ["-2147483648", "2147483647", "+5", "007"]
    assert tf.strings.to_number(texts, "int32").numpy().tolist() == [int(text) for text in texts]
    for wrong in ("2147483648", "1.5", "", "1 2", "5-", "0x1"):
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.strings.to_number([*texts, wrong], "int32")


@pytest.mark.parametrize("separator", ["", ",", " ", ", "])
def test_many_texts_are_split_as_each_one_is(separator):
    rng = np.random.default_rng(1)
    texts = ["".join(rng.choice(list("ab ,\t\n\x1f"), rng.integers(0, 9))) for _ in range(200)]
    many = tf.strings.split(texts, separator).to_list()
    assert many == [tf.strings.split(text, separator).numpy().tolist() for text in texts]


def test_ops_that_move_elements_move_strings():
    assert tf.scatter_nd([[0], [2], [0]], ["p", "q", "r"], [3]).numpy().tolist() == [b"pr", b"", b"q"]
    assert tf.dynamic_stitch([[0, 2], [1]], [["a", "c"], ["b"]]).numpy().tolist() == [b"a", b"b", b"c"]
    padded = tf.pad([["a"]], [[0, 1], [1, 0]]).numpy()
    assert padded.tolist() == [[b"", b"a"], [b"", b""]]
    assert {type(text) for text in padded.ravel()} == {bytes}


def test_edit_distance():
    guess = tf.SparseTensor([[0, 0, 0], [1, 0, 0], [1, 0, 1]], ["a", "b", "x"], [2, 1, 2])
    truth = tf.SparseTensor([[0, 1, 0], [1, 0, 0], [1, 0, 1], [1, 1, 0]], ["a", "b", "c", "a"], [2, 2, 2])
    assert tf.edit_distance(guess, truth).numpy().tolist() == [[float("inf"), 1.0], [0.5, 1.0]]
    assert tf.edit_distance(guess, truth, normalize=False).numpy().tolist() == [[1.0, 1.0], [1.0, 1.0]]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"^Expected truth and hypothesis to have matching ranks"):
        tf.edit_distance(guess, tf.SparseTensor([[0, 0]], ["a"], [1, 1]))
