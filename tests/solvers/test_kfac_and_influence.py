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
    with pytest.raises(ValueError, match="reduction must be one of 'mean', 'sum'"):
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
        loss = tf.reduce_sum(tf.einsum("ab,bc->a", tf.ones((4, 3), tf.float64), w) ** 2)
    with pytest.raises(ValueError, match=r"the kernel of 'Variable:0'\. It is used by einsum"):
        tf.autodiff.kfac_factors(tape, loss, [w])
    with pytest.raises(TypeError, match="layers must be a list of layers or kernels"):
        tf.autodiff.kfac_factors(tape, loss, w)


@pytest.mark.parametrize(
    ("equation", "shape", "kernel"),
    [
        ("ab,bc->ac", (5, 3), (3, 2)),
        ("abc,cd->abd", (5, 4, 3), (3, 2)),
        ("abc,cde->abde", (5, 4, 3), (3, 2, 2)),
        ("abcd,cde->abe", (5, 4, 3, 2), (3, 2, 2)),
        ("abc,dc->adb", (5, 4, 3), (2, 3)),
    ],
)
def test_factors_of_einsum_equal_those_of_a_matrix_product(equation, shape, kernel):
    """Also where kernels have more than two axes, as in attention."""
    x, w = RNG.normal(size=shape), tf.Variable(RNG.normal(size=kernel))
    with tf.GradientTape(persistent=True) as tape:
        y = tf.einsum(equation, x, w)
        loss = tf.reduce_mean(tf.reduce_sum(tf.sin(y), list(range(1, len(y.shape)))))
    [factors] = tf.autodiff.kfac_factors(tape, loss, [w])
    summed = [label for label in equation.split(",")[1].split("->")[0] if label in equation.split(",")[0]]
    size = int(np.prod([kernel[equation.split(",")[1].index(label)] for label in summed]))
    moved = np.einsum(f"{equation.split(',')[0]}->{_others(equation)}{''.join(summed)}", x).reshape(-1, size)
    matrix = tf.Variable(np.einsum(f"{_kernel(equation)}->{''.join(summed)}{_free(equation)}", w).reshape(size, -1))
    with tf.GradientTape(persistent=True) as tape:
        z = moved @ matrix
        loss = tf.reduce_sum(tf.sin(z)) / shape[0]
    [expected] = tf.autodiff.kfac_factors(tape, loss, [matrix], reduction="sum")
    np.testing.assert_allclose(factors.inputs, expected.inputs * len(moved) / shape[0], rtol=1e-10)
    np.testing.assert_allclose(factors.outputs, expected.outputs * shape[0] ** 2, rtol=1e-10)


def _kernel(equation):
    return equation.split(",")[1].split("->")[0]


def _free(equation):
    return "".join(label for label in _kernel(equation) if label not in equation.split(",")[0])


def _others(equation):
    return "".join(label for label in equation.split(",")[0] if label not in _kernel(equation))


def test_a_layer_of_keras_that_is_an_einsum():
    keras = pytest.importorskip("keras")
    layer = keras.layers.EinsumDense("abc,cd->abd", output_shape=(None, 2), bias_axes="d")
    x = tf.constant(RNG.normal(size=(5, 4, 3)), tf.float32)
    layer(x)
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(layer(x) ** 2)
    [factors] = tf.autodiff.kfac_factors(tape, loss, [layer])
    [of_kernel] = tf.autodiff.kfac_factors(tape, loss, [layer.trainable_variables[0]])
    rows = np.concatenate([x.numpy().reshape(-1, 3), np.ones((20, 1))], 1)
    np.testing.assert_allclose(of_kernel.inputs, (rows.T @ rows / 5)[:3, :3], rtol=1e-5)
    np.testing.assert_allclose(factors.inputs, rows.T @ rows / 5, rtol=1e-5)
    assert factors.outputs.shape == (2, 2)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"damping": "a"}, TypeError, "damping must be a number; received 'a'"),
        ({"damping": np.nan}, ValueError, "damping must be a number; received nan"),
        ({"tol": -1}, ValueError, "tol must not be negative"),
        ({"maxiter": 0}, ValueError, "maxiter must be at least 1"),
        ({"losses": np.ones(2)}, TypeError, "`losses` should be one Tensor or Variable"),
        ({"test_loss": tf.ones(2)}, ValueError, r"test_loss must be a scalar; received the shape \(2,\)"),
        ({"test_loss": None}, TypeError, "`test_loss` should be one Tensor or Variable"),
        ({"sources": tf.Variable(1.0)}, ValueError, "does not depend on the sources"),
        ({"tape": None}, TypeError, "needs the GradientTape that recorded the losses"),
    ],
)
def test_mistakes_of_influence(given, error, message):
    w, data = tf.Variable(2.0), tf.constant([1.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        losses, test = (w - data) ** 2, (w - 3.0) ** 2
    with pytest.raises(error, match=message):
        tf.autodiff.influence(**{"tape": tape, "losses": losses, "test_loss": test, "sources": w, **given})


def test_mistakes_in_layers():
    keras = pytest.importorskip("keras")
    w = tf.Variable([[1.0], [2.0]])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.ones((3, 2)) @ w
        loss = tf.reduce_mean(y**2)
    with pytest.raises(TypeError, match="layers must contain layers or kernels; received 'a'"):
        tf.autodiff.kfac_factors(tape, loss, ["a"])
    with pytest.raises(ValueError, match="has no weights yet: call it before"):
        tf.autodiff.kfac_factors(tape, loss, [keras.layers.Dense(2)])
    with pytest.raises(ValueError, match="loss must be a scalar"):
        tf.autodiff.kfac_factors(tape, y, [w])
    with pytest.raises(TypeError, match="needs the GradientTape"):
        tf.autodiff.kfac_factors(None, loss, [w])
    compiled = tf.function(lambda: tf.reduce_mean(tf.ones((3, 2)) @ w))
    with tf.GradientTape(persistent=True) as tape:
        loss = compiled()
    with pytest.raises(ValueError, match=r"Record the call of the model, outside tf\.function"):
        tf.autodiff.kfac_factors(tape, loss, [w])
