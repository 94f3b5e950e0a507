"""Factors of K-FAC and influence functions."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

RNG = np.random.default_rng(0)


def test_factors_of_a_linear_layer_with_one_example_are_its_fisher_matrix():
    w, x = tf.Variable(RNG.normal(size=(3, 2))), tf.constant(RNG.normal(size=(1, 3)))
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(tf.reduce_sum((x @ w) ** 3, -1))
    [factors] = tf.autodiff.kfac_factors(tape, loss, [w])
    g = tape.gradient(loss, w).numpy().reshape(-1)
    np.testing.assert_allclose(np.kron(factors.inputs, factors.outputs), np.outer(g, g), rtol=1e-10)


def test_factors_of_a_convolution_are_those_of_its_patches():
    kernel = tf.Variable(RNG.normal(size=(3, 2, 2, 4)))
    x = tf.constant(RNG.normal(size=(2, 6, 5, 2)))
    with tf.GradientTape(persistent=True) as tape:
        y = tf.nn.conv2d(x, kernel, strides=[2, 1], padding="SAME")
        loss = tf.reduce_sum(tf.sin(y))
    [factors] = tf.autodiff.kfac_factors(tape, loss, [kernel], reduction="sum")
    patches = tf.image.extract_patches(x, [1, 3, 2, 1], [1, 2, 1, 1], [1, 1, 1, 1], "SAME").numpy().reshape(-1, 12)
    np.testing.assert_allclose(factors.inputs, patches.T @ patches / 2, rtol=1e-10)
    g = tape.gradient(loss, y).numpy().reshape(-1, 4)
    np.testing.assert_allclose(factors.outputs, g.T @ g / len(g), rtol=1e-10)


def test_layers_of_a_keras_model():
    keras = pytest.importorskip("keras")
    del keras
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((4,)), layers.Dense(3, activation="tanh"), layers.ReLU(), layers.Dense(2)]
    )
    x = tf.constant(RNG.normal(size=(6, 4)), tf.float32)
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(tf.reduce_sum(model(x) ** 2, -1))
    first, nothing, last = tf.autodiff.kfac_factors(tape, loss, model.layers)
    assert nothing is None
    rows = np.concatenate([x, np.ones((6, 1))], 1)
    np.testing.assert_allclose(first.inputs, rows.T @ rows / 6, rtol=1e-5)
    g = 2 * model(x).numpy()
    np.testing.assert_allclose(last.outputs, g.T @ g / 6, rtol=1e-4)


def test_influence_predicts_what_removing_an_example_does():
    x, noise = RNG.normal(size=(40, 3)), RNG.normal(size=40)
    y = x @ np.array([1.0, -2.0, 0.5]) + 0.3 * noise
    test_x, test_y = RNG.normal(size=3), 1.0

    def fit(keep):
        return np.linalg.lstsq(x[keep], y[keep], rcond=None)[0]

    w = tf.Variable(fit(slice(None)))
    with tf.GradientTape(persistent=True) as tape:
        losses = (tf.linalg.matvec(x, w) - y) ** 2
        test = (tf.tensordot(test_x, w, 1) - test_y) ** 2
    scores = tf.autodiff.influence(tape, losses, test, w, damping=0.0, tol=1e-12).numpy()
    changes = []
    for i in range(40):
        without = fit(np.arange(40) != i)
        changes.append((test_x @ without - test_y) ** 2 - float(test))
    assert np.corrcoef(-scores / 40, changes)[0, 1] > 0.99


def test_mistakes():
    w = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        losses = -(w**2)
        test = tf.reduce_sum(w)
    with pytest.raises(tf.errors.ConvergenceError, match=r"not positive definite.*damping"):
        tf.autodiff.influence(tape, losses, test, w)
    with pytest.raises(ValueError, match="losses must be a vector"):
        tf.autodiff.influence(tape, test, test, w)
    with pytest.raises(ValueError, match="reduction must be 'mean' or 'sum'"):
        tf.autodiff.kfac_factors(tape, test, [], reduction="max")
    with pytest.raises(ValueError, match="no product or convolution with the kernel"):
        tf.autodiff.kfac_factors(tape, test, [w])


@pytest.mark.parametrize("form", ["array", "transposed inputs", "transposed kernel", "another dtype"])
def test_factors_of_other_products(form):
    x, w = RNG.normal(size=(8, 3)), tf.Variable(RNG.normal(size=(3, 2)))
    if form == "transposed kernel":
        w = tf.Variable(RNG.normal(size=(2, 3)))
    with tf.GradientTape(persistent=True) as tape:
        if form == "array":
            y = x @ w
        elif form == "transposed inputs":
            y = tf.matmul(x.T, w, transpose_a=True)
        elif form == "transposed kernel":
            y = tf.matmul(x, w, transpose_b=True)
        else:
            y = tf.cast(tf.constant(x, tf.float16) @ tf.cast(w, tf.float16), tf.float64)
        loss = tf.reduce_mean(tf.reduce_sum(tf.sin(y), 1))
    [factors] = tf.autodiff.kfac_factors(tape, loss, [w])
    g, tolerance = np.cos(y.numpy()), 1e-2 if form == "another dtype" else 1e-10
    np.testing.assert_allclose(factors.inputs, x.T @ x / 8, atol=tolerance)
    np.testing.assert_allclose(factors.outputs, g.T @ g / 8, atol=tolerance)
    assert factors.inputs.dtype == (tf.float32 if form == "another dtype" else tf.float64)


def test_layers_that_have_no_factors():
    w = tf.Variable(RNG.normal(size=(3, 2)))
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(tf.einsum("ab,bc->ac", tf.ones((4, 3), tf.float64), w) ** 2)
    with pytest.raises(ValueError, match=r"the kernel of 'Variable:0'\. It is used by einsum"):
        tf.autodiff.kfac_factors(tape, loss, [w])
    with pytest.raises(TypeError, match="layers must be a list of layers or kernels"):
        tf.autodiff.kfac_factors(tape, loss, w)
