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


# -- ops -------------------------------------------------------------------------------------------------------------
ROWS = [[1.0, 2.0], [3.0]]
COLUMN = [[1.0], [2.0]]


def shown(value):
    """A tensor as plain values, rounded, with its dtype."""
    plain = value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()

    def rounded(x):
        return [rounded(y) for y in x] if isinstance(x, list) else round(x, 4) if isinstance(x, float) else x

    return rounded(plain), value.dtype.name


@pytest.mark.parametrize(
    ("name", "rows", "options", "expected"),  # the results of TensorFlow 2.21
    [
        ("absolute", ROWS, {}, (ROWS, "float32")),
        ("sqrt", [[1, 4], [0]], {}, ([[1.0, 2.0], [0.0]], "float32")),
        ("exp", [[True], [False, True]], {}, ([[2.7183], [1.0, 2.7183]], "float32")),
        ("sign", ROWS, {}, ([[1.0, 1.0], [1.0]], "float32")),
        ("leaky_relu", [[-1.0, 2.0], [3.0]], {}, ([[-0.2, 2.0], [3.0]], "float32")),
        ("softmax", [[1.0, 2.0], [3.0]], {}, ([[0.2689, 0.7311], [1.0]], "float32")),
        ("ones_like", ROWS, {}, ([[1.0, 1.0], [1.0]], "float32")),
        ("zeros_like", ROWS, {"dtype": "int32"}, ([[0, 0], [0]], "int32")),
        ("expand_dims", ROWS, {"axis": -1}, ([[[1.0], [2.0]], [[3.0]]], "float32")),
        ("expand_dims", ROWS, {"axis": (0, -1)}, ([[[[1.0], [2.0]], [[3.0]]]], "float32")),
        ("flip", ROWS, {"axis": 1}, ([[2.0, 1.0], [3.0]], "float32")),
        ("cumsum", ROWS, {"axis": 1}, ([[1.0, 3.0], [3.0]], "float32")),
        ("ravel", ROWS, {}, ([1.0, 2.0, 3.0], "float32")),
        ("sum", ROWS, {}, (6.0, "float32")),
        ("sum", ROWS, {"axis": 1}, ([3.0, 3.0], "float32")),
        ("sum", ROWS, {"axis": 0}, ([4.0, 2.0], "float32")),
        ("sum", ROWS, {"axis": 1, "keepdims": True}, ([[3.0], [3.0]], "float32")),
        ("sum", [[True, True], [False]], {"axis": 1}, ([2, 0], "int32")),
        ("mean", [[1, 2], [0]], {"axis": -1}, ([1.5, 0.0], "float32")),
        ("max", ROWS, {"axis": 1}, ([2.0, 3.0], "float32")),
        ("amin", ROWS, {"axis": 0}, ([1.0, 2.0], "float32")),
        ("prod", ROWS, {"axis": 1}, ([2.0, 3.0], "float32")),
        ("any", [[True, False], [False]], {"axis": 1}, ([True, False], "bool")),
        ("all", [[True, False], [True]], {"axis": 1}, ([False, True], "bool")),
        ("std", ROWS, {"axis": 1}, ([0.5, 0.0], "float32")),
        ("var", ROWS, {}, (0.6667, "float32")),
        ("logsumexp", ROWS, {"axis": 1}, ([2.3133, 3.0], "float32")),
        ("digitize", ROWS, {"bins": [1.5, 2.5]}, ([[0, 1], [2]], "int32")),
    ],
)
def test_ops_of_one_ragged_tensor(name, rows, options, expected):
    assert shown(getattr(tf.keras.ops, name)(tf.ragged.constant(rows), **options)) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add", [[2.0, 3.0], [5.0]]),
        ("multiply", [[1.0, 2.0], [6.0]]),
        ("divide", [[1.0, 2.0], [1.5]]),
        ("maximum", [[1.0, 2.0], [3.0]]),
        ("power", [[1.0, 2.0], [9.0]]),
        ("arctan2", [[0.7854, 1.1071], [0.9828]]),
        ("greater", [[False, True], [True]]),
        ("isclose", [[True, False], [False]]),
    ],
)
def test_a_dense_operand_is_broadcast_to_the_rows(name, expected):
    found = getattr(tf.keras.ops, name)(tf.ragged.constant(ROWS), tf.constant(COLUMN))
    assert shown(found)[0] == expected


def test_ops_of_several_ragged_tensors():
    ops, x, y = tf.keras.ops, tf.ragged.constant(ROWS), tf.ragged.constant([[4], [5, 6]])
    assert shown(ops.concatenate([x, y], axis=1)) == ([[1.0, 2.0, 4.0], [3.0, 5.0, 6.0]], "float32")
    assert shown(ops.stack([x, x], axis=-1)) == ([[[1.0, 1.0], [2.0, 2.0]], [[3.0, 3.0]]], "float32")
    assert shown(ops.where(x > 1.0, x, 0)) == ([[0.0, 2.0], [3.0]], "float32")
    assert [part.to_list() for part in ops.split(x, 2)] == [[[1.0, 2.0]], [[3.0]]]
    assert shown(ops.add(x, x)) == ([[2.0, 4.0], [6.0]], "float32")
    with pytest.raises(tf.errors.InvalidArgumentError):
        ops.arctan2(x, y)


def test_mistakes_with_dense_tensors_stay_as_they_are():
    with pytest.raises(ValueError, match="axis"):
        tf.keras.ops.sum(tf.constant(1.0), axis=3)


def test_the_gradient_of_an_op():
    x = tf.ragged.constant(ROWS)
    with tf.GradientTape() as tape:
        tape.watch(x.flat_values)
        loss = tf.reduce_sum(tf.keras.ops.mean(tf.keras.ops.square(x), axis=1))
    assert tape.gradient(loss, x.flat_values).numpy().tolist() == [1.0, 2.0, 6.0]


# -- layers and models -----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("LayerNormalization", [[[0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]),
        ("UnitNormalization", [[[0.7071, 0.7071]], [[0.7071, 0.7071], [0.7071, 0.7071]]]),
        ("Softmax", [[[0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]]]),
        ("GlobalAveragePooling1D", [[1.0, 1.0], [1.0, 1.0]]),
        ("GlobalMaxPooling1D", [[1.0, 1.0], [1.0, 1.0]]),
    ],
)
def test_layers_over_the_last_axis(layer, expected):
    x = tf.RaggedTensor.from_row_splits(tf.ones([3, 2]), [0, 1, 3])
    assert shown(getattr(tf.keras.layers, layer)()(x))[0] == expected


def ragged_model():
    words = tf.keras.Input((None,), ragged=True, dtype="int32")
    rows = tf.keras.layers.Embedding(10, 4, embeddings_initializer=tf.keras.initializers.Constant(0.1))(words)
    y = tf.keras.layers.Dense(1, kernel_initializer="ones")(tf.keras.ops.mean(rows, axis=1))
    return tf.keras.Model(words, y)


IDS = tf.ragged.constant([[1, 2, 3], [4], [5, 6], [7]])
TARGETS = [[1.0], [2.0], [3.0], [4.0]]


@pytest.mark.parametrize("as_dataset", [False, True])
def test_a_model_with_a_ragged_input(as_dataset, tmp_path):
    model = ragged_model()
    assert model.inputs[0].ragged
    model.compile("sgd", "mse")
    targets = tf.constant(TARGETS)
    data = (tf.data.Dataset.from_tensor_slices((IDS, targets)).batch(2),) if as_dataset else (IDS, targets)
    history = model.fit(*data, epochs=2, batch_size=None if as_dataset else 2, shuffle=False, verbose=0)
    assert history.history["loss"] == pytest.approx([5.58933, 4.8793], abs=1e-4)  # those of TensorFlow 2.21
    predicted = model.predict(IDS, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = tf.keras.models.load_model(tmp_path / "model.keras")
    assert loaded.inputs[0].ragged
    assert loaded(IDS).numpy() == pytest.approx(predicted)


def test_results_of_prediction_may_be_ragged():
    words = tf.keras.Input((None,), ragged=True, dtype="int32")
    model = tf.keras.Model(words, tf.keras.layers.Embedding(10, 1, embeddings_initializer="ones")(words))
    found = model.predict(IDS, batch_size=2, verbose=0)
    assert isinstance(found, tf.RaggedTensor)
    assert found.to_list() == [[[1.0], [1.0], [1.0]], [[1.0]], [[1.0], [1.0]], [[1.0]]]


def test_batches_of_different_lengths_give_a_ragged_result():
    model = tf.keras.Sequential([tf.keras.Input((None,)), tf.keras.layers.Rescaling(2.0)])
    batches = tf.data.Dataset.from_generator(
        lambda: iter([[[1.0, 2.0]], [[3.0]]]), output_signature=tf.TensorSpec([1, None])
    )
    batches = batches.apply(tf.data.experimental.assert_cardinality(2))
    found = model.predict(batches, verbose=0)
    assert found.to_list() == [[2.0, 4.0], [6.0]]
