"""`tf.nn.isotonic_regression`: values, blocks and gradients that TensorFlow gives."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

X = [3.0, 1.0, 2.0, 2.0, 5.0, 4.0]


def test_decreasing_and_increasing():
    values, blocks = tf.nn.isotonic_regression([X])
    np.testing.assert_allclose(values, [[3.0, 2.8, 2.8, 2.8, 2.8, 2.8]], rtol=1e-6)
    assert blocks.numpy().tolist() == [[0, 1, 1, 1, 1, 1]]
    values, blocks = tf.nn.isotonic_regression([X], decreasing=False)
    np.testing.assert_allclose(values, [[2.0, 2.0, 2.0, 2.0, 4.5, 4.5]], rtol=1e-6)
    assert blocks.numpy().tolist() == [[0, 0, 1, 2, 3, 3]]


def test_another_axis():
    values, blocks = tf.nn.isotonic_regression([[3.0, 1.0], [2.0, 2.0], [5.0, 4.0]], axis=0)
    np.testing.assert_allclose(values, [[10 / 3, 7 / 3]] * 3, rtol=1e-6)
    assert blocks.numpy().tolist() == [[0, 0]] * 3


@pytest.mark.parametrize(("given", "result"), [("float16", "float16"), ("int16", "float32"), ("int32", "float64")])
def test_dtypes(given, result):
    assert tf.nn.isotonic_regression(tf.cast(X, given)).output.dtype == result


def test_edges():
    assert tf.nn.isotonic_regression(tf.zeros([2, 0])).segments.shape == [2, 0]
    assert tf.nn.isotonic_regression(3.0).output.numpy() == 3.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in the list of allowed values"):
        tf.nn.isotonic_regression([True])
    with pytest.raises(tf.errors.InvalidArgumentError):
        tf.nn.isotonic_regression(X, axis=2)


@pytest.mark.parametrize("traced", [False, True])
def test_gradient_is_the_mean_of_a_block(traced):
    x = tf.constant(X)
    f = tf.function(tf.nn.isotonic_regression) if traced else tf.nn.isotonic_regression
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)[0]
    g = tape.gradient(y, x, output_gradients=tf.range(6.0))
    np.testing.assert_allclose(g, [0.0, 3.0, 3.0, 3.0, 3.0, 3.0], rtol=1e-6)
