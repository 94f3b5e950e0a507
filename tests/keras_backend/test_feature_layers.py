"""Keras 2's layers of feature columns, which programs get from `tf_keras`."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

keras = pytest.importorskip("keras")

from gradtape._src.keras_backend.feature_layers import DenseFeatures, SequenceFeatures  # noqa: E402

fc = tf.feature_column
FEATURES = {
    "x": tf.constant([[1.0], [2.0], [3.0]]),
    "y": tf.constant([[-1.0], [0.5], [2.0]]),
    "w": tf.constant([["a"], ["b"], ["z"]]),
}


def counting(shape, dtype=None):
    return tf.reshape(tf.range(float(np.prod(shape))), shape) / 10.0


def columns():
    words = fc.categorical_column_with_vocabulary_list("w", ["a", "b"])
    return [
        fc.numeric_column("x"),
        fc.bucketized_column(fc.numeric_column("y"), [0.0, 1.0]),
        fc.indicator_column(words),
        fc.embedding_column(fc.categorical_column_with_hash_bucket("w", 5), 3, initializer=counting),
    ]


# What tf_keras 2.21 gives on TensorFlow 2.21.
DENSE = [
    [1.2, 1.3, 1.4, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0],
    [0.6, 0.7, 0.8, 0.0, 1.0, 2.0, 0.0, 1.0, 0.0],
    [0.6, 0.7, 0.8, 0.0, 0.0, 3.0, 0.0, 0.0, 1.0],
]
GRADIENT = [[0.0] * 3, [0.0] * 3, [2.4, 2.8, 3.2], [0.0] * 3, [2.4, 2.6, 2.8]]


def test_dense_features_and_their_gradient():
    layer = DenseFeatures(columns())
    with tf.GradientTape() as tape:
        y = layer(FEATURES)
        loss = tf.reduce_sum(y**2)
    np.testing.assert_allclose(y, DENSE, rtol=1e-6)
    (gradient,) = tape.gradient(loss, layer.trainable_variables)
    np.testing.assert_allclose(tf.convert_to_tensor(gradient), GRADIENT, rtol=1e-6)
    np.testing.assert_allclose(tf.function(layer)(FEATURES), DENSE, rtol=1e-6)


def test_outputs_of_columns():
    found, given = {}, columns()
    DenseFeatures(given)(FEATURES, cols_to_output_tensors=found)
    np.testing.assert_array_equal(found[given[0]], FEATURES["x"])


def test_a_model_is_trained():
    model = keras.Sequential([DenseFeatures(columns()), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    data = tf.data.Dataset.from_tensor_slices((FEATURES, tf.constant([[1.0], [0.0], [1.0]]))).batch(2)
    losses = model.fit(data, epochs=3, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    assert model.predict(FEATURES, verbose=0).shape == (3, 1)


def test_a_configuration_gives_the_layer_again():
    layer = DenseFeatures(columns()[:3], name="features")
    again = DenseFeatures.from_config(layer.get_config())
    assert again.name == "features"
    np.testing.assert_array_equal(again(FEATURES), layer(FEATURES))


def test_sequences():
    layer = SequenceFeatures(
        [
            fc.sequence_numeric_column("s"),
            fc.indicator_column(fc.sequence_categorical_column_with_identity("i", 3)),
        ]
    )
    where = [[0, 0], [0, 1], [1, 0]]
    features = {
        "s": tf.SparseTensor(where, [1.0, 2.0, 3.0], [3, 2]),
        "i": tf.SparseTensor(where, [0, 1, 2], [3, 2]),
    }
    y, lengths = layer(features)
    expected = [[[1, 0, 0, 1], [0, 1, 0, 2]], [[0, 0, 1, 3], [0] * 4], [[0] * 4, [0] * 4]]
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_array_equal(lengths, [2, 1, 0])


def test_errors():
    with pytest.raises(ValueError, match="We expected a dictionary here"):
        DenseFeatures(columns())(tf.ones([2, 2]))
    with pytest.raises(ValueError, match="You can wrap a categorical column"):
        DenseFeatures([fc.categorical_column_with_identity("i", 3)])
    with pytest.raises(ValueError, match="must be a SequenceDenseColumn"):
        SequenceFeatures([fc.numeric_column("x")])
