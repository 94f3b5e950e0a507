"""SavedModels of Keras models: `model.export`, `ExportArchive`, `tf.saved_model.save`, `TFSMLayer`."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("jax")
pytest.importorskip("keras")
layers = tf.keras.layers


@pytest.fixture(scope="module")
def model():
    tf.keras.utils.set_random_seed(0)
    inputs = layers.Input((4,), name="features")
    hidden = layers.Dropout(0.5)(layers.Dense(5, activation="tanh")(inputs))
    return tf.keras.Model(inputs, layers.Dense(2)(hidden))


@pytest.fixture(scope="module")
def folder(model, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("keras") / "m")
    model.export(path, verbose=False)
    return path


def sample(rows):
    return tf.constant(np.random.default_rng(rows).normal(size=(rows, 4)).astype("float32"))


def test_export(model, folder):
    loaded = tf.saved_model.load(folder)
    assert sorted(loaded.signatures) == ["serve", "serving_default"]
    assert [v.name for v in loaded.variables] == [f"{v.path}:0" for v in model.variables]
    for rows in (1, 3):
        expected = model(sample(rows))
        np.testing.assert_allclose(loaded.serve(sample(rows)), expected, rtol=1e-5)
        found = loaded.signatures["serving_default"](features=sample(rows))
        np.testing.assert_allclose(found["output_0"], expected, rtol=1e-5)


def test_a_layer_of_a_saved_model_can_be_trained(model, folder):
    layer = layers.TFSMLayer(folder)
    assert len(layer.trainable_weights) == 4
    other = tf.keras.Sequential([layers.Input((4,)), layer])
    np.testing.assert_allclose(other(sample(2)), model(sample(2)), rtol=1e-5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(sample(3)) ** 2)
    gradients = tape.gradient(loss, layer.trainable_weights)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(sample(3)) ** 2)
    for one, expected in zip(gradients, tape.gradient(loss, model.trainable_variables), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)
    before = [v.numpy().copy() for v in layer.trainable_weights]
    tf.keras.optimizers.SGD(0.1).apply_gradients(zip(gradients, layer.trainable_weights, strict=True))
    assert not np.allclose(before[0], layer._reloaded_obj.variables[0].numpy())


def test_save_has_the_signature_of_the_model(model, tmp_path):
    tf.saved_model.save(model, str(tmp_path / "m"))
    served = tf.saved_model.load(str(tmp_path / "m")).signatures["serving_default"]
    assert served.structured_input_signature[1]["inputs"].shape == [None, 4]
    np.testing.assert_allclose(served(inputs=sample(2))["output_0"], model(sample(2)), rtol=1e-5)


def test_archive(model, tmp_path, capsys):
    archive = tf.keras.export.ExportArchive()
    archive.track(model)
    with pytest.raises(ValueError, match="No endpoints"):
        archive.write_out(str(tmp_path / "m"))
    spec = [tf.keras.InputSpec(shape=(None, 4), dtype="float32")]
    archive.add_endpoint("twice", lambda x: model(x) * 2.0, input_signature=spec)
    archive.add_variable_collection("kernels", [v for v in model.variables if "kernel" in v.path])
    with pytest.raises(ValueError, match="already taken"):
        archive.add_endpoint("twice", model, input_signature=spec)
    with pytest.raises(ValueError, match="you must provide an `input_signature`"):
        archive.add_endpoint("other", len)
    archive.write_out(str(tmp_path / "m"))
    assert "Endpoint 'twice'" in capsys.readouterr().out
    loaded = tf.saved_model.load(str(tmp_path / "m"))
    assert len(loaded.kernels) == 2
    np.testing.assert_allclose(loaded.twice(sample(2)), model(sample(2)) * 2.0, rtol=1e-5)
