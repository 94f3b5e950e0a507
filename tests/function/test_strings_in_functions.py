"""Strings and tables in functions: traced once, and run on NumPy with the ops of eager code."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.function.eager import EagerFunction

TEXTS = [(["Ab", "c"],), (["xx", "Ab"],)]
NUMBERS = [(["1", "2.5"],), (["-3", "4"],)]

PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "lower": (tf.strings.lower, TEXTS),
    "length": (lambda s: tf.strings.length(s) + 1, TEXTS),
    "join": (lambda s: tf.strings.join([s, "!"], "-"), TEXTS),
    "reduce_join": (lambda s: tf.strings.reduce_join(s, separator=" "), TEXTS),
    "operator": (lambda s: s + "x", TEXTS),
    "regex_replace": (lambda s: tf.strings.regex_replace(s, "[a-z]", "_"), TEXTS),
    "to_hash_bucket_fast": (lambda s: tf.strings.to_hash_bucket_fast(s, 10), TEXTS),
    "to_number": (lambda s: tf.strings.to_number(s) * 2, NUMBERS),
    "as_string": (lambda s: tf.strings.as_string(tf.strings.to_number(s) * 2), NUMBERS),
    "substr": (lambda s: tf.strings.substr(s, 0, 1), TEXTS),
    "equal": (lambda s: s == "Ab", TEXTS),
    "index": (lambda s: s[0], TEXTS),
    "gather": (lambda s: tf.gather(s, [1, 0]), TEXTS),
    "reshape": (lambda s: tf.reshape(s, [2, 1]), TEXTS),
    "stack": (lambda s: tf.stack([s, s]), TEXTS),
    "where": (lambda s: tf.where(s == "Ab", s, "none"), TEXTS),
    "boolean_mask": (lambda s: tf.boolean_mask(s, s == "Ab"), TEXTS),
    "branches": (lambda s: tf.cond(s[0] == "Ab", lambda: s, lambda: tf.strings.upper(s)), TEXTS),
}


def texts(value: Any) -> Any:
    return np.asarray(value).tolist()


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_are_those_of_eager_code(name: str) -> None:
    program, calls = PROGRAMS[name]
    function = tf.function(program)
    for (words,) in calls:
        found, expected = function(tf.constant(words)), program(tf.constant(words))
        assert found.dtype == expected.dtype
        assert texts(found) == texts(expected)
    assert function.experimental_get_tracing_count() == 1
    assert not any(isinstance(concrete, EagerFunction) for concrete in function.traces())


def test_tables() -> None:
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2]), -1)
    look_up = tf.function(lambda words: table.lookup(words) * 2)
    assert texts(look_up(tf.constant(["b", "z"]))) == [4, -2]
    assert texts(look_up(tf.constant(["a", "a"]))) == [2, 2]
    assert look_up.experimental_get_tracing_count() == 1


def test_tables_that_change_are_changed_by_calls_and_not_by_traces() -> None:
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)

    @tf.function
    def count(words):
        known = table.lookup(words)
        table.insert(words, known + 2)
        return table.lookup(words), table.size()

    concrete = count.get_concrete_function(tf.TensorSpec([2], tf.string))
    assert int(table.size()) == 0
    first, size = concrete(tf.constant(["a", "b"]))
    assert (texts(first), int(size)) == ([1, 1], 2)
    again, size = count(tf.constant(["a", "c"]))
    assert (texts(again), int(size)) == ([3, 1], 3)
    assert count.experimental_get_tracing_count() == 1


def test_gradients_of_numbers_beside_strings() -> None:
    @tf.function
    def scaled(x, words):
        return x * tf.cast(tf.strings.length(words), tf.float32)

    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = scaled(x, tf.constant(["aa", "bbb"]))
    assert texts(y) == [2.0, 6.0]
    assert texts(tape.gradient(y, x)) == [2.0, 3.0]


def test_python_functions_of_unknown_size() -> None:
    @tf.function
    def evens(x):
        def chosen(values):
            return values[values % 2 == 0]

        return tf.py_function(chosen, [x], tf.TensorSpec([None], tf.int32)) * 10

    assert texts(evens(tf.constant([1, 2, 4]))) == [20, 40]
    assert texts(evens(tf.constant([1, 3, 5]))) == []
    assert evens.experimental_get_tracing_count() == 1


def test_xla_refuses() -> None:
    pytest.importorskip("jax")
    with pytest.raises(TypeError, match="XLA supports only numbers"):
        tf.function(tf.strings.lower, jit_compile=True)(tf.constant("A"))


def returned(x: Any) -> Any:
    if x > 1.0:
        return "large"
    if x > 0.0:
        return tf.constant("small")
    return tf.strings.as_string(x)


def assigned(x: Any) -> Any:
    word, unchanged = "a", "u"
    if x > 0.0:
        word = "b"
    return tf.strings.join([word, unchanged])


def of_different_lengths(x: Any) -> Any:
    words = tf.constant(["none"])
    if x > 0.0:
        words = tf.strings.as_string([x, x + 1.0])
    return words


def expression(x: Any) -> Any:
    return tf.constant("yes") if x > 0.0 else tf.constant("no")


def joined(x: Any) -> Any:
    text = ""
    for i in tf.range(tf.cast(abs(x) * 2.0, tf.int32)):
        text = tf.strings.join([text, tf.strings.as_string(i)])
    return text


def collected(x: Any) -> Any:
    words = tf.constant(["first"])
    while tf.size(words) < tf.cast(x * 2.0, tf.int32):
        tf.autograph.experimental.set_loop_options(shape_invariants=[(words, tf.TensorShape([None]))])
        words = tf.concat([words, tf.strings.as_string([tf.size(words)])], 0)
    return words


def in_a_tensor_array(x: Any) -> Any:
    array = tf.TensorArray(tf.string, size=0, dynamic_size=True, element_shape=[])
    for i in tf.range(tf.cast(abs(x) * 2.0, tf.int32)):
        array = array.write(i, tf.strings.as_string(i))
    return array.size(), array.stack()


@pytest.mark.parametrize(
    "program", [returned, assigned, of_different_lengths, expression, joined, collected, in_a_tensor_array]
)
def test_strings_that_branches_and_loops_choose(program: Any) -> None:
    function = tf.function(program)
    for x in (2.0, 0.5, -1.0):
        pairs = zip(tf.nest.flatten(function(tf.constant(x))), tf.nest.flatten(program(tf.constant(x))), strict=True)
        for found, expected in pairs:
            assert texts(found) == texts(tf.convert_to_tensor(expected))
    assert function.experimental_get_tracing_count() == 1
    assert not any(isinstance(concrete, EagerFunction) for concrete in function.traces())


def test_a_string_that_both_branches_share_leaves_the_graph_to_xla() -> None:
    @tf.function
    def scaled(x):
        kind = "a"
        if x > 0.0:
            kind, y = "a", x * 2.0
        else:
            y = x
        return y if kind == "a" else x

    assert float(scaled(tf.constant(1.0))) == 2.0
    assert not scaled.traces()[0].graph.needs_numpy


def test_files_are_written_by_calls_and_not_by_traces(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"

    @tf.function
    def f(x: Any) -> Any:
        tf.io.write_file(str(path), "text")
        tf.io.write_file(str(tmp_path / "b.txt"), tf.strings.as_string(x))
        return x

    concrete = f.get_concrete_function(tf.TensorSpec([], tf.int32))
    assert not path.exists()
    for number in (1, 2):
        concrete(tf.constant(number))
        assert path.read_text() == "text"
        assert (tmp_path / "b.txt").read_text() == str(number)
        path.unlink()


def test_the_time_is_that_of_the_call() -> None:
    f = tf.function(lambda: tf.timestamp())
    first = float(f())
    assert float(f()) > first
    assert abs(first - time.time()) < 60


def test_pictures_and_tensors_become_texts() -> None:
    x = tf.reshape(tf.range(12), [2, 2, 3])

    @tf.function
    def f(x: Any) -> Any:
        picture = tf.cast(x, tf.uint8)
        return tf.io.encode_png(picture), tf.io.encode_jpeg(picture), tf.io.serialize_tensor(x)

    png, jpeg, text = f(x)
    np.testing.assert_array_equal(tf.io.decode_png(png), x)
    assert tf.io.decode_jpeg(jpeg).shape == (2, 2, 3)
    np.testing.assert_array_equal(tf.io.parse_tensor(text, tf.int32), x)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tf.strings.upper(["a"], encoding="latin"),
        lambda: tf.strings.regex_full_match(["a"], "("),
        lambda: tf.strings.regex_replace(["a"], "a{1001}", ""),
        lambda: tf.strings.substr(["hello", "w"], 3, 1),
        lambda: tf.strings.reduce_join([["a"]], axis=[0, 0]),
        lambda: tf.strings.to_hash_bucket_strong(["a"], 10, key=[1]),
        lambda: tf.strings.to_number(["a"]),
        lambda: tf.strings.unicode_decode([b"\xff"], "UTF-8", errors="strict"),
        lambda: tf.strings.unicode_decode(["a"], "nope"),
        lambda: tf.strings.unicode_encode([0xD800], "UTF-8", errors="strict"),
        lambda: tf.strings.unsorted_segment_join(["a", "b"], [0, 5], 2),
        lambda: tf.io.decode_base64(["!!"]),
        lambda: tf.io.decode_csv(["a"], [[0]]),
        lambda: tf.io.decode_csv(["1,2,3"], [[0], [7]]),
        lambda: tf.io.decode_csv(["1,"], [[0], tf.constant([], tf.int32)]),
        lambda: tf.io.decode_raw(["abc"], tf.int16),
        lambda: tf.io.decode_raw(["abcd", "efg"], tf.uint8),
        lambda: tf.io.decode_json_example("x"),
        lambda: tf.io.parse_tensor("abc", tf.int32),
        lambda: tf.io.parse_tensor(tf.io.serialize_tensor([1.0]), tf.int32),
        lambda: tf.io.parse_single_example(b"abc", {"a": tf.io.FixedLenFeature([], tf.int64)}),
        lambda: tf.io.parse_single_example(b"", {"a": tf.io.FixedLenFeature([], tf.int64)}),
        lambda: tf.audio.decode_wav(b"abc"),
        lambda: tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 1, 2]),
        lambda: tf.RaggedTensor.from_row_lengths([1, 2, 3], [1, -1, 3]),
        lambda: tf.RaggedTensor.from_value_rowids([1, 2, 3], [0, 2, 1]),
        lambda: tf.RaggedTensor.from_sparse(tf.sparse.from_dense([[0, 2], [3, 0]])),
        lambda: tf.ragged.constant([[1, 2], [3]]) + tf.ragged.constant([[1], [3]]),
        lambda: tf.concat([tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[4]])], axis=1),
        lambda: tf.squeeze(tf.ragged.constant([[1, 2], [3]]), [1]),
        lambda: tf.gather(tf.ragged.constant([[1, 2], [3]]), [5]),
        lambda: tf.gather_nd(tf.ragged.constant([[1, 2], [3]]), [[1, 1]]),
        lambda: tf.ragged.range([1, 2], [3, 5], 0),
        lambda: tf.sparse.from_dense(0.0),
        lambda: tf.sparse.split(tf.sparse.from_dense([[1, 0, 2]]), 5, 1),
        lambda: tf.sparse.concat(1, [tf.sparse.from_dense([[1, 0]]), tf.sparse.from_dense([[0], [3]])]),
        lambda: tf.sparse.reduce_sum(tf.sparse.from_dense([[1, 0]]), axis=5),
        lambda: tf.sparse.segment_sum([[1.0, 2.0]], [0, 2], [0, 1]),
        lambda: tf.sparse.segment_sum([[1.0, 2.0], [3.0, 4.0]], [0, 1], [1, 0]),
        lambda: tf.sparse.sparse_dense_matmul(tf.SparseTensor([[0, 5]], [1.0], [2, 2]), [[1.0], [2.0]]),
        lambda: tf.math.segment_sum([1.0, 2.0, 3.0], [0, 0]),
        lambda: tf.sets.size(tf.SparseTensor([[0]], [1], [2])),
    ],
)
def test_values_that_an_op_refuses_are_invalid_arguments_in_functions_too(call):
    with pytest.raises(tf.errors.InvalidArgumentError) as eager:
        call()
    with pytest.raises(tf.errors.InvalidArgumentError) as traced:
        tf.function(call)()
    assert str(traced.value) == str(eager.value)
