"""Keras' layers for text and categories, and TensorFlow's pages on text with a few lines of data."""

from __future__ import annotations

import re
import string

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("keras")
from gradtape.keras import layers

GOOD = ["A great movie, I loved it!<br />Really wonderful", "wonderful acting and great story", "I loved every minute"]
BAD = ["A terrible movie; I hated it.", "boring, terrible acting<br />awful", "I hated every minute, awful"]
TEXTS, LABELS = (GOOD + BAD) * 4, np.array([1.0] * 3 + [0.0] * 3, np.float32).repeat(1).tolist() * 4
LYRICS = "the quick brown fox jumps over the lazy dog and runs away from the lazy dog. " * 6


def standardize(texts):
    clean = tf.strings.regex_replace(tf.strings.lower(texts), "<br />", " ")
    return tf.strings.regex_replace(clean, f"[{re.escape(string.punctuation)}]", "")


def test_text_classification():
    """https://www.tensorflow.org/tutorials/keras/text_classification"""
    tf.keras.utils.set_random_seed(0)
    raw = tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).batch(8)
    vectorize = layers.TextVectorization(standardize=standardize, max_tokens=100, output_sequence_length=10)
    vectorize.adapt(raw.map(lambda text, label: text))
    assert vectorize.get_vocabulary()[:2] == ["", "[UNK]"]
    train = raw.map(lambda text, label: (vectorize(tf.expand_dims(text, -1)), label)).cache()
    assert train.element_spec[0].shape.as_list() == [None, 10]
    model = tf.keras.Sequential(
        [layers.Embedding(101, 8), layers.GlobalAveragePooling1D(), layers.Dense(1, activation="sigmoid")]
    )
    model.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    model.optimizer.learning_rate = 0.1
    model.fit(train, epochs=5, shuffle=False, verbose=0)
    # The whole model takes texts.
    whole = tf.keras.Sequential([vectorize, model])
    whole.compile("adam", "binary_crossentropy", metrics=["accuracy"])
    assert whole.evaluate(raw, verbose=0, return_dict=True)["accuracy"] == 1.0
    good, bad = whole.predict(tf.constant(["What a wonderful story", "awful, boring"]), verbose=0).ravel()
    assert good > 0.5 > bad
    texts = tf.keras.Input((1,), dtype="string")
    functional = tf.keras.Model(texts, model(vectorize(texts)))
    assert functional.predict(np.array([["great"], ["awful"]], object), verbose=0).ravel().argmax() == 0


def test_generation_with_an_rnn():
    """https://www.tensorflow.org/text/tutorials/text_generation"""
    tf.keras.utils.set_random_seed(1)
    vocabulary = sorted(set(LYRICS))
    ids_from_chars = layers.StringLookup(vocabulary=vocabulary, mask_token=None)
    chars_from_ids = layers.StringLookup(vocabulary=ids_from_chars.get_vocabulary(), invert=True, mask_token=None)
    ids = ids_from_chars(tf.strings.unicode_split(LYRICS, "UTF-8"))
    assert tf.strings.reduce_join(chars_from_ids(ids), axis=-1).numpy() == LYRICS.encode()
    sequences = tf.data.Dataset.from_tensor_slices(ids).batch(31, drop_remainder=True)
    batches = sequences.map(lambda row: (row[:-1], row[1:])).batch(7, drop_remainder=True)

    class Generator(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.embedding = layers.Embedding(len(ids_from_chars.get_vocabulary()), 16)
            self.gru = layers.GRU(48, return_sequences=True, return_state=True)
            self.dense = layers.Dense(len(ids_from_chars.get_vocabulary()))

        def call(self, inputs, states=None, return_state=False, training=False):
            x, states = self.gru(self.embedding(inputs), initial_state=states, training=training)
            return (self.dense(x), states) if return_state else self.dense(x)

    model = Generator()
    model.compile(tf.keras.optimizers.Adam(0.03), tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    losses = model.fit(batches, epochs=12, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < 0.7 * losses[0]
    states, next_char, result = None, tf.constant(["the l"]), []
    for _ in range(5):
        chars = ids_from_chars(tf.strings.unicode_split(next_char, "UTF-8")).to_tensor()
        logits, states = model(inputs=chars, states=states, return_state=True)
        next_char = chars_from_ids(tf.argmax(logits[:, -1, :], axis=-1))
        result.append(next_char)
    assert len(tf.strings.join(result)[0].numpy()) == 5


def test_feature_space():
    space = tf.keras.utils.FeatureSpace(
        features={
            "age": tf.keras.utils.FeatureSpace.float_normalized(),
            "sex": tf.keras.utils.FeatureSpace.string_categorical(num_oov_indices=0),
            "kind": tf.keras.utils.FeatureSpace.integer_categorical(num_oov_indices=1),
            "name": tf.keras.utils.FeatureSpace.string_hashed(num_bins=8),
        },
        crosses=[tf.keras.utils.FeatureSpace.cross(feature_names=("sex", "kind"), crossing_dim=16)],
        output_mode="concat",
    )
    rows = {"age": [1.0, 2.0, 3.0, 4.0], "sex": ["m", "f"] * 2, "kind": [0, 1, 2, 0], "name": list("abcd")}
    data = tf.data.Dataset.from_tensor_slices(rows)
    space.adapt(data.batch(2))
    encoded = next(iter(data.batch(4).map(space)))
    assert encoded.shape == (4, 1 + 2 + 4 + 8 + 16)
    np.testing.assert_allclose(tf.reduce_sum(encoded, axis=0)[0], 0, atol=1e-6)


def test_layers_take_ragged_and_sparse_texts():
    lookup = layers.StringLookup(vocabulary=["a", "b"])
    assert lookup(tf.ragged.constant([["a", "?"], ["b"]])).to_list() == [[1, 0], [2]]
    sparse = lookup(tf.SparseTensor([[0, 1]], ["b"], [1, 2]))
    assert sparse.values.numpy().tolist() == [2]
    counted = layers.TextVectorization(vocabulary=["a", "b"], output_mode="count")
    assert counted(["a a c", "b"]).numpy().tolist() == [[1, 2, 0], [0, 0, 1]]
    crossed = layers.HashedCrossing(num_bins=5)((tf.constant(["A", "B", "A"]), tf.constant([101] * 3)))
    assert crossed.numpy().tolist() == [1, 4, 1]


def test_word2vec():
    """https://www.tensorflow.org/text/tutorials/word2vec"""
    tf.keras.utils.set_random_seed(2)
    lines = tf.data.Dataset.from_tensor_slices(["The wide road shimmered in the hot sun"] * 12)
    vectorize = layers.TextVectorization(standardize=standardize, max_tokens=20, output_sequence_length=8)
    vectorize.adapt(lines.batch(4))
    sequences = list(lines.batch(4).map(vectorize).unbatch().as_numpy_iterator())
    table = tf.keras.preprocessing.sequence.make_sampling_table(20, sampling_factor=1.0)
    targets, contexts, labels = [], [], []
    for sequence in sequences:
        pairs, _ = tf.keras.preprocessing.sequence.skipgrams(
            sequence, vocabulary_size=20, sampling_table=table, window_size=2, negative_samples=0, seed=1
        )
        for target, context in pairs:
            true = tf.expand_dims(tf.constant([context], dtype="int64"), 1)
            negative, _, _ = tf.random.log_uniform_candidate_sampler(
                true_classes=true, num_true=1, num_sampled=4, unique=True, range_max=20, seed=42
            )
            targets.append(target)
            contexts.append(tf.concat([tf.squeeze(true, 1), negative], 0))
            labels.append(tf.constant([1] + [0] * 4, dtype="int64"))
    data = tf.data.Dataset.from_tensor_slices(((targets, tf.stack(contexts)), tf.stack(labels))).batch(32)

    class Word2Vec(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.target_embedding = layers.Embedding(20, 8, name="w2v_embedding")
            self.context_embedding = layers.Embedding(20, 8)

        def call(self, pair):
            target, context = pair
            return tf.einsum("be,bce->bc", self.target_embedding(target), self.context_embedding(context))

    model = Word2Vec()
    model.compile(tf.keras.optimizers.Adam(0.05), tf.keras.losses.CategoricalCrossentropy(from_logits=True))
    losses = model.fit(data, epochs=8, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < 0.6 * losses[0]
    assert model.get_layer("w2v_embedding").get_weights()[0].shape == (20, 8)


def test_a_recurrent_model_of_texts_whose_length_is_unknown():
    vectorize = layers.TextVectorization(vocabulary=["good", "bad", "film"])
    model = tf.keras.Sequential([vectorize, layers.Embedding(5, 4, mask_zero=True), layers.LSTM(3), layers.Dense(1)])
    model.compile("adam", "mse")
    data = tf.data.Dataset.from_tensor_slices((["good film", "bad", "film bad film", "good"], [1.0, 0.0, 0.0, 1.0]))
    history = model.fit(data.batch(2, drop_remainder=True), epochs=1, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"][0])
