"""Keras layers in graphs of TensorFlow 1."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("keras")

v1 = tf.compat.v1
LAYERS = {
    "Activation": (lambda k: k.Activation("relu"), [3]),
    "BatchNormalization": (lambda k: k.BatchNormalization(), [3]),
    "Conv2D": (lambda k: k.Conv2D(2, 3), [5, 5, 1]),
    "Dense": (lambda k: k.Dense(2), [3]),
    "Flatten": (lambda k: k.Flatten(), [2, 3]),
    "GRU": (lambda k: k.GRU(2), [4, 3]),
    "LSTM": (lambda k: k.LSTM(2), [4, 3]),
    "LayerNormalization": (lambda k: k.LayerNormalization(), [3]),
    "MaxPooling2D": (lambda k: k.MaxPooling2D(), [4, 4, 1]),
    "Reshape": (lambda k: k.Reshape([6]), [2, 3]),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_computes_what_it_computes_eagerly(name: str):
    make, shape = LAYERS[name]
    given = np.random.default_rng(0).normal(size=[2, *shape]).astype(np.float32)
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [None, *shape])
        layer = make(tf.keras.layers)
        y = layer(x)
        gradient = tf.gradients(tf.reduce_sum(y**2), x)[0]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            values, slopes = session.run([y, gradient], {x: given})
            weights = session.run([variable.value for variable in layer.weights])
    eager = make(tf.keras.layers)
    eager.build([None, *shape])
    eager.set_weights(weights)
    source = tf.constant(given)
    with tf.GradientTape() as tape:
        tape.watch(source)
        expected = eager(source)
        total = tf.reduce_sum(expected**2)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(slopes, tape.gradient(total, source), rtol=1e-4, atol=1e-5)
    assert y.shape.as_list() == [None, *expected.shape[1:]]


def test_a_model_trains():
    layers, rng = tf.keras.layers, np.random.default_rng(0)
    images = rng.normal(size=[64, 6, 6, 1]).astype(np.float32)
    labels = images.mean(axis=(1, 2))
    tf.keras.utils.set_random_seed(0)
    with tf.Graph().as_default():
        x, t = v1.placeholder(tf.float32, [None, 6, 6, 1]), v1.placeholder(tf.float32, [None, 1])
        normalize = layers.BatchNormalization()
        model = tf.keras.Sequential(
            [layers.Conv2D(4, 3), normalize, layers.ReLU(), layers.Flatten(), layers.Dropout(0.1), layers.Dense(1)]
        )
        loss = tf.reduce_mean((model(x, training=True) - t) ** 2)
        step = v1.train.AdamOptimizer(0.01).minimize(loss)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            losses = [float(session.run([loss, step], {x: images, t: labels})[0]) for _ in range(60)]
            mean = session.run(normalize.moving_mean.value)
    assert losses[-1] < losses[0] / 5
    assert np.abs(mean).max() > 1e-3


def test_a_call_is_one_operation():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [None, 3])
        before = len(graph.get_operations())
        y = tf.keras.layers.Dense(2, name="scores")(x)
        calls = [op for op in graph.get_operations()[before:] if x in op.inputs]
    assert y.name == "scores:0"
    assert len(calls) == 1


def test_layers_outside_of_graphs_are_unchanged():
    layer = tf.keras.layers.Dense(2)
    with tf.Graph().as_default():
        pass
    assert layer(tf.ones([1, 3])).shape == (1, 2)
