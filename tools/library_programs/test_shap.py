"""shap: the Gradient and Deep explainers on TensorFlow models: explanations add up to the change of the output."""

from __future__ import annotations

import numpy as np
import pytest
import shap
import tensorflow as tf

RNG = np.random.default_rng(0)
BACKGROUND = RNG.normal(size=(20, 6)).astype(np.float32)
POINTS = RNG.normal(size=(4, 6)).astype(np.float32)


def dense(*layers, outputs=2):
    tf.keras.utils.set_random_seed(1)
    body = [tf.keras.layers.Dense(5, activation=a) for a in layers]
    return tf.keras.Sequential([tf.keras.layers.Input((6,)), *body, tf.keras.layers.Dense(outputs)])


def adds_up(values, model, points, background, tolerance):
    values = np.asarray(values)
    axes = tuple(range(1, values.ndim - 1))
    total = model(points).numpy() - model(background).numpy().mean(axis=0)
    np.testing.assert_allclose(values.sum(axis=axes), total, atol=tolerance)


@pytest.mark.parametrize("activation", ["relu", "tanh", "sigmoid", "elu", "softplus"])
def test_gradient_explainer(activation):
    model = dense(activation)
    explainer = shap.GradientExplainer(model, BACKGROUND)
    values = explainer.shap_values(POINTS, nsamples=2000, rseed=0)
    adds_up(values, model, POINTS, BACKGROUND, 0.15)


def test_gradient_explainer_of_the_highest_outputs():
    model = dense("tanh", outputs=3)
    values, indexes = shap.GradientExplainer(model, BACKGROUND).shap_values(POINTS, ranked_outputs=2, nsamples=50)
    assert np.asarray(values).shape == (4, 6, 2)
    np.testing.assert_array_equal(indexes[:, 0], np.argmax(model(POINTS).numpy(), axis=1))


def test_gradient_explainer_of_an_image_model():
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [layers.Input((6, 6, 1)), layers.Conv2D(3, 3, activation="relu"), layers.Flatten(), layers.Dense(2)]
    )
    images = RNG.normal(size=(10, 6, 6, 1)).astype(np.float32)
    values = shap.GradientExplainer(model, images).shap_values(images[:2], nsamples=400, rseed=0)
    assert np.asarray(values).shape == (2, 6, 6, 1, 2)
    adds_up(values, model, images[:2], images, 0.2)


@pytest.mark.parametrize("layers", [("relu",), ("tanh",), ("sigmoid", "relu"), ("relu", "relu")])
def test_deep_explainer(layers):
    model = dense(*layers)
    explainer = shap.DeepExplainer(model, BACKGROUND)
    values = explainer.shap_values(POINTS, check_additivity=True)
    adds_up(values, model, POINTS, BACKGROUND, 1e-2)


def test_deep_explainer_of_an_image_model():
    tf.keras.utils.set_random_seed(1)
    layers = tf.keras.layers
    model = tf.keras.Sequential(
        [
            layers.Input((6, 6, 1)),
            layers.Conv2D(3, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(2),
        ]
    )
    images = RNG.normal(size=(8, 6, 6, 1)).astype(np.float32)
    values = shap.DeepExplainer(model, images).shap_values(images[:2], check_additivity=False)
    adds_up(values, model, images[:2], images, 0.05)


def test_model_agnostic_explainers():
    model = dense("tanh", outputs=1)
    explainer = shap.KernelExplainer(lambda x: model(x.astype(np.float32)).numpy()[:, 0], BACKGROUND)
    values = explainer.shap_values(POINTS, nsamples=100, silent=True)
    total = model(POINTS).numpy()[:, 0] - model(BACKGROUND).numpy().mean()
    np.testing.assert_allclose(values.sum(axis=1), total, atol=1e-3)
