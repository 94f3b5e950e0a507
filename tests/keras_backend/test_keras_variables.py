"""Variables of Keras are accepted where TensorFlow's are."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("keras")

X = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]], np.float32)


@pytest.fixture
def model():
    return tf.keras.Sequential([tf.keras.Input([2]), tf.keras.layers.Dense(1)])


def loss_of(model):
    return tf.reduce_mean((model(X) - X[:, :1] + 2.0) ** 2)


@pytest.mark.parametrize("name", ["LBFGS", "NewtonCG", "LevenbergMarquardt"])
def test_optimizers_minimize_over_them(name, model):
    def residuals():
        return tf.reshape(model(X) - X[:, :1] + 2.0, [-1])

    loss = residuals if name == "LevenbergMarquardt" else lambda: loss_of(model)
    report = getattr(tf.train, name)().minimize(loss, model.trainable_variables)
    assert report.converged
    np.testing.assert_allclose(np.ravel(model.layers[0].kernel), [1.0, 0.0], atol=1e-3)
    np.testing.assert_allclose(model.layers[0].bias, [-2.0], atol=1e-3)


def test_functions_take_them(model):
    kernel, bias = model.trainable_variables
    double = tf.function(lambda w: w * 2.0)
    np.testing.assert_array_equal(double(kernel), kernel.numpy() * 2.0)
    np.testing.assert_array_equal(double(bias), bias.numpy() * 2.0)
    count = double.experimental_get_tracing_count()
    kernel.assign(kernel + 1.0)
    np.testing.assert_array_equal(double(kernel), kernel.numpy() * 2.0)
    assert double.experimental_get_tracing_count() == count
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(double(kernel))
    np.testing.assert_array_equal(tape.gradient(y, kernel), [[2.0], [2.0]])


def test_symbolic_gradients_are_with_respect_to_them(model):
    kernel, bias = model.trainable_variables
    with tf.GradientTape() as tape:
        loss = loss_of(model)
    expected = tape.gradient(loss, [kernel, bias])
    found = tf.function(lambda: tf.gradients(loss_of(model), [kernel, bias]))()
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)
    (hessian,) = tf.function(lambda: tf.hessians(loss_of(model), [bias]))()
    np.testing.assert_allclose(hessian, [[2.0]])


@pytest.mark.parametrize("base", [tf.keras.layers.Layer, tf.keras.Model, tf.keras.optimizers.SGD])
def test_setting_an_attribute_to_its_value_has_no_effect(base):
    class Titled(base):
        @property
        def title(self):
            return "a title"

    instance = Titled()
    instance.title = instance.title
    with pytest.raises(AttributeError):
        instance.title = "another"


def test_a_model_that_is_trainable_keeps_its_frozen_layers():
    frozen, other = tf.keras.layers.Dense(2), tf.keras.layers.Dense(1)
    model = tf.keras.Sequential([tf.keras.Input([2]), frozen, other])
    frozen.trainable = False
    model.trainable = True  # as it is: no effect on its layers, as in TensorFlow
    assert not frozen.trainable
    model.trainable = False
    model.trainable = True
    assert frozen.trainable
