"""Functions whose rows depend on values, saved and loaded: counts, dense tensors, n-grams, Keras' TextVectorization."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

TEXTS = ["the movie was great", "a bad movie", "great great film!", "", "unseen Bad"]
STRINGS = [tf.TensorSpec([None], tf.string)]


def _lengths(texts):
    """The lengths of the words of each text, as a ragged tensor."""
    words = tf.strings.split(texts)
    return words.with_flat_values(tf.strings.length(words.flat_values))


def _weighted(texts):
    lengths = _lengths(texts)
    return tf.math.bincount(lengths, weights=tf.cast(lengths, tf.float32) * 0.5, minlength=6, maxlength=6, axis=-1)


FUNCTIONS = {
    "counts": lambda x: tf.math.bincount(_lengths(x), minlength=6, maxlength=6, dtype=tf.float32, axis=-1),
    "counts_of_open_size": lambda x: tf.math.bincount(_lengths(x), axis=-1),
    "counts_with_least": lambda x: tf.math.bincount(_lengths(x), minlength=20, axis=-1, binary_output=True),
    "counts_with_most": lambda x: tf.math.bincount(_lengths(x), maxlength=5, axis=-1),
    "counts_of_all": lambda x: tf.math.bincount(_lengths(x)),
    "counts_of_a_vector": lambda x: tf.math.bincount(tf.strings.length(x)),
    "weights": _weighted,
    "dense": lambda x: _lengths(x).to_tensor(),
    "dense_texts": lambda x: tf.strings.split(x).to_tensor("-"),
    "dense_cut": lambda x: _lengths(x).to_tensor(-1, shape=[None, 2]),
    "dense_wide": lambda x: _lengths(x).to_tensor(shape=[7, 9]),
    "ngrams": lambda x: tf.strings.ngrams(tf.strings.split(x), 2).to_tensor(),
    "padded_ngrams": lambda x: tf.strings.ngrams(tf.strings.split(x), (1, 3), "_", ("<", ">"), 1).to_tensor(),
    "short_ngrams": lambda x: tf.strings.ngrams(tf.strings.split(x), 4, preserve_short_sequences=True).to_tensor(),
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    """All functions in one SavedModel."""
    module = tf.Module()
    for name, function in FUNCTIONS.items():
        setattr(module, name, tf.function(function, input_signature=STRINGS))
    folder = str(tmp_path_factory.mktemp("ragged") / "m")
    tf.saved_model.save(module, folder)
    return tf.saved_model.load(folder)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_ragged_tensors(loaded, name):
    for count in (5, 1, 3):
        given = tf.constant(TEXTS[:count])
        found, expected = getattr(loaded, name)(given), FUNCTIONS[name](given)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_dense_rows_are_differentiable_once_loaded(tmp_path):
    module = tf.Module()
    rows = tf.RaggedTensorSpec([None, None], tf.float32)
    module.f = tf.function(lambda r: tf.square(r.to_tensor()), input_signature=[rows])
    tf.saved_model.save(module, str(tmp_path / "m"))
    values = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = tf.saved_model.load(str(tmp_path / "m")).f(tf.RaggedTensor.from_row_splits(values, [0, 2, 2, 3]))
    assert y.numpy().tolist() == [[1, 4], [0, 0], [9, 0]]
    assert tape.gradient(y, values).numpy().tolist() == [2, 4, 6]


def test_sparse_counts_are_refused_by_name(tmp_path):
    """`tf.sparse.bincount` is another function than `tf.math.bincount`, and has no rule."""
    module = tf.Module()
    module.f = tf.function(
        lambda x: tf.sparse.to_dense(tf.sparse.bincount(_lengths(x), axis=-1)), input_signature=STRINGS
    )
    with pytest.raises(tf.errors.UnimplementedError, match="'<lambda>' cannot be saved.*the result of bincount"):
        tf.saved_model.save(module, str(tmp_path / "m"))
    assert not list(tmp_path.iterdir())


MODES = {
    "tf_idf": {"output_mode": "tf_idf"},
    "multi_hot": {"output_mode": "multi_hot"},
    "int": {},
    "length": {"output_sequence_length": 3},
    "ngrams": {"ngrams": 2},
}


@pytest.mark.parametrize("mode", MODES)
def test_text_vectorization(tmp_path, mode):
    layer = tf.keras.layers.TextVectorization(**MODES[mode])
    layer.adapt(TEXTS[:3])
    module = tf.Module()
    module.layer = layer
    run = tf.function(lambda texts: {"result": layer(texts)}, input_signature=STRINGS)
    tf.saved_model.save(module, str(tmp_path / "m"), signatures=run)
    signature = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    for count in (5, 1, 3):
        given = tf.constant(TEXTS[:count])
        np.testing.assert_allclose(signature(given)["result"].numpy(), np.asarray(layer(given)), rtol=1e-6)
