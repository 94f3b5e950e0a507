"""Ragged tensors in Keras layers."""

from __future__ import annotations

import pytest

import gradtape as tf

pytest.importorskip("keras")


def test_embedding_of_ragged_ids_and_its_gradient():
    layer = tf.keras.layers.Embedding(4, 2, embeddings_initializer="ones")
    with tf.GradientTape() as tape:
        y = layer(tf.ragged.constant([[1, 2], [], [1]]))
        loss = tf.reduce_sum(y * y)
    assert y.shape.as_list() == [3, None, 2]
    gradient = tf.convert_to_tensor(tape.gradient(loss, layer.trainable_variables[0].value))
    assert gradient.numpy().tolist() == [[0.0, 0.0], [4.0, 4.0], [2.0, 2.0], [0.0, 0.0]]


def test_layers_that_compute_elementwise():
    r = tf.ragged.constant([[1.0, -2.0], [3.0]])
    layers = tf.keras.layers
    assert layers.ReLU()(r).to_list() == [[1.0, 0.0], [3.0]]
    assert layers.Add()([r, r]).to_list() == [[2.0, -4.0], [6.0]]
    assert tf.keras.ops.cast(r, "int32").to_list() == [[1, -2], [3]]
    assert tf.keras.ops.convert_to_numpy(r).tolist() == [[1.0, -2.0], [3.0, 0.0]]
