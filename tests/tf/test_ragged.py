"""Ragged tensors with tapes, functions and structures."""

from __future__ import annotations

import pytest

import gradtape as tf


def ragged(values, splits=(0, 2, 4, 5)):
    return tf.RaggedTensor.from_row_splits(values, splits)


def gradient(f, values):
    v = tf.constant(values)
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = f(ragged(v))
    return tf.convert_to_tensor(tape.gradient(y, v)).numpy().tolist()


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda r: tf.reduce_sum(r * r, axis=1), [2, -4, 6, 6, 1]),
        (lambda r: tf.reduce_max(r, axis=1), [1, 0, 0.5, 0.5, 1]),  # equal ones share the gradient
        (lambda r: tf.reduce_mean(r, axis=0), [1 / 3, 0.5, 1 / 3, 0.5, 1 / 3]),
        (lambda r: r[:, :1].flat_values ** 2, [2, 0, 6, 0, 1]),
        (lambda r: tf.gather(r, [2, 0, 2]), [1, 1, 0, 0, 2]),
        (lambda r: tf.concat([r, 2 * r], 1), [3, 3, 3, 3, 3]),
        (lambda r: tf.where(r > 0, r, 5 * r), [1, 5, 1, 1, 1]),
        (lambda r: tf.cumsum(r, axis=1), [2, 1, 2, 1, 1]),
        (lambda r: r.to_tensor(), [1, 1, 1, 1, 1]),
        (lambda r: tf.nn.softmax(r), [0, 0, 0, 0, 0]),
    ],
)
def test_gradients_flow_through_the_values(f, expected):
    assert gradient(f, [1.0, -2.0, 3.0, 3.0, 0.5]) == pytest.approx(expected, abs=1e-6)


def test_a_ragged_tensor_is_source_target_and_upstream_gradient():
    r = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(r)
        y = r * r
        z = tf.exp(tf.constant([1.0]))
    assert tape.gradient(y, r).to_list() == [[2.0, 4.0], [], [6.0]]
    seeds = tf.ragged.constant([[1.0, 0.0], [], [5.0]])
    assert tape.gradient(y, {"r": r}, output_gradients=seeds)["r"].to_list() == [[2.0, 0.0], [], [30.0]]
    assert tape.gradient(y, r.flat_values).numpy().tolist() == [2.0, 4.0, 6.0]
    assert tape.gradient(z, r) is None


def test_a_function_takes_and_returns_ragged_tensors():
    @tf.function(input_signature=[tf.RaggedTensorSpec([None, None], tf.int32)])
    def f(r):
        return r * 2, tf.reduce_sum(r, axis=1)

    doubled, sums = f(tf.ragged.constant([[1, 2], [3]]))
    assert doubled.to_list() == [[2, 4], [6]]
    assert sums.numpy().tolist() == [3, 3]
    assert f(tf.ragged.constant([[], [7]], dtype=tf.int32))[0].to_list() == [[], [14]]
    with pytest.raises(TypeError, match="Can not cast"):
        f(tf.ragged.constant([[1.0]]))


def test_rows_of_constant_lengths_are_compiled():
    lengths = [1, 0, 2]

    @tf.function
    def f(v):
        return tf.reduce_sum(tf.RaggedTensor.from_row_lengths(v, lengths) ** 2.0, axis=1)

    assert f(tf.constant([1.0, 2.0, 3.0])).numpy().tolist() == [1.0, 0.0, 13.0]


def test_errors_do_not_mention_the_conversion_before():
    r = tf.ragged.constant([[1, 2], [3]])
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        tf.concat([r, r[:1]], 1)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([[1.0, 2.0], [], [3.0]], "[[1.000000, 2.000000], [], [3.000000]]"),
        ([["a"], ["b"]], "[['a'], ['b']]"),
        ([[[1, 2], [3]], []], "[[[1, 2], [3]], []]"),
        ([[True, False], []], "[[true, false], []]"),
        ([list(range(10))], "[[0, 1, 2, ..., 7, 8, 9]]"),
    ],
)
def test_print_shows_rows_with_commas(value, text, capsys):
    tf.print(tf.ragged.constant(value))
    assert capsys.readouterr().err == text + "\n"


def test_loops_and_assertions_take_ragged_tensors():
    r = tf.ragged.constant([[3, 1], []])
    _, doubled = tf.while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, tf.concat([x, x], 1)), [0, r])
    assert doubled.to_list() == [[3, 1] * 4, []]
    tf.debugging.assert_equal(r, r)
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.debugging.assert_less(r, r)
    assert [part.to_list() for part in tf.dynamic_partition(r, [1, 0], 2)] == [[[]], [[3, 1]]]
    mean, variance = tf.nn.moments(tf.ragged.constant([[1.0, 3.0], [5.0]]), [1])
    assert mean.numpy().tolist() == [2.0, 5.0]
    assert variance.numpy().tolist() == [1.0, 0.0]


def test_custom_gradients_of_ragged_tensors():
    seen = []

    @tf.custom_gradient
    def double(x):
        def grad(g):
            seen.append(g.to_list())
            return g * 3.0

        return x * 2.0, grad

    r = tf.ragged.constant([[1.0, 2.0], [], [3.0]])
    with tf.GradientTape() as tape:
        tape.watch(r)
        y = double(r)
    assert y.to_list() == [[2.0, 4.0], [], [6.0]]
    assert tape.gradient(y, r).to_list() == [[3.0, 3.0], [], [3.0]]
    assert seen == [[[1.0, 1.0], [], [1.0]]]


def test_lengths_of_stacked_vectors_are_shapes():
    assert tf.ragged.stack([[1, 2], [3]]).row_splits.dtype == tf.int32
    assert tf.ragged.stack([tf.ragged.constant([[1, 2]]), [[3]]]).row_splits.dtype == tf.int64
    assert tf.ragged.stack_dynamic_partitions([1, 2, 3], [0, 2, 0], 3).row_splits.dtype == tf.int32
    for dtype in (tf.int32, tf.int64):
        spec = tf.RaggedTensorSpec([None], tf.int32, row_splits_dtype=dtype)
        assert tf.map_fn(tf.range, tf.constant([2, 3]), fn_output_signature=spec).row_splits.dtype == dtype


def test_flat_values_of_other_sizes_are_not_mapped():
    with pytest.raises(ValueError, match=r"Got sizes: \{2, 3\}"):
        tf.ragged.map_flat_values(tf.add, tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[1], [3]]))
