"""`gradtape export`: models in other forms compute the same."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.cli.main import main

pytest.importorskip("jax")
keras = pytest.importorskip("keras") and tf.keras
MODELS = Path(__file__).parent.parent / "saved_model" / "models"


def dense():
    inputs = keras.layers.Input((6,), name="features")
    hidden = keras.layers.Dense(5, activation="gelu")(inputs)
    return keras.Model(inputs, keras.layers.Dense(3, activation="softmax")(keras.layers.LayerNormalization()(hidden)))


def image():
    layers = keras.layers
    parts = [layers.Input((8, 8, 2)), layers.Conv2D(4, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(),
             layers.MaxPooling2D(), layers.DepthwiseConv2D(3, strides=2), layers.AveragePooling2D(1), layers.Flatten(),
             layers.Dense(2)]  # fmt: skip
    return keras.Sequential(parts)


def sequence():
    layers = keras.layers
    return keras.Sequential(
        [layers.Input((4, 3)), layers.Bidirectional(layers.LSTM(3, return_sequences=True)), layers.GRU(2)]
    )


@pytest.fixture(
    params=[dense, pytest.param(image, marks=pytest.mark.slow), pytest.param(sequence, marks=pytest.mark.slow)]
)
def saved(request, tmp_path):
    keras.utils.set_random_seed(1)
    model = request.param()
    model.save(str(tmp_path / "m.keras"))
    x = np.random.default_rng(0).normal(size=(3, *model.inputs[0].shape[1:])).astype("float32")
    return tmp_path, x, np.asarray(model(x, training=False))


def loaded(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numpy_code(saved):
    folder, x, expected = saved
    assert main(["export", str(folder / "m.keras"), "--to", "numpy", "-o", str(folder / "code.py")]) == 0
    assert "gradtape" not in (folder / "code.py").read_text().split('"""', 2)[2]
    predict = loaded(folder / "code.py").predict
    for rows in (3, 1):
        np.testing.assert_allclose(predict(x[:rows])["output_0"], expected[:rows], rtol=1e-5, atol=1e-6)


def test_numpy_code_needs_numpy_alone(tmp_path):
    assert main(["export", str(MODELS / "affine"), "--to", "numpy", "-o", str(tmp_path / "code.py")]) == 0
    code = "import code_, sys; print(code_.predict([[1, 2, 3]])['output_0'].shape, 'gradtape' in sys.modules)"
    (tmp_path / "code.py").rename(tmp_path / "code_.py")
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["(1,", "2)", "False"]


def test_savedmodel_and_stablehlo(saved):
    folder, x, expected = saved
    assert main(["export", str(folder / "m.keras"), "--to", "savedmodel", "-o", str(folder / "sm")]) == 0
    np.testing.assert_allclose(tf.saved_model.load(str(folder / "sm")).serve(x), expected, rtol=1e-5, atol=1e-6)
    assert main(["export", str(folder / "m.keras"), "--to", "stablehlo", "-o", str(folder / "hlo")]) == 0
    described = json.loads((folder / "hlo" / "signature.json").read_text())
    with np.load(folder / "hlo" / "weights.npz") as weights:
        assert sorted(described["weights"]) == sorted(weights.files)
    assert "stablehlo" in (folder / "hlo" / "module.mlir").read_text()
    assert b"/gradtape/" not in (folder / "hlo" / "module.stablehlo").read_bytes()


def test_onnx(saved):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, x, expected = saved
    assert main(["export", str(folder / "m.keras"), "--to", "onnx", "-o", str(folder / "m.onnx")]) == 0
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    (given,) = session.get_inputs()
    for rows in (3, 1):
        (found,) = session.run(None, {given.name: x[:rows]})
        np.testing.assert_allclose(found, expected[:rows], rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def half(tmp_path_factory):
    """A model that computes in bfloat16, with an input and what it gives."""
    folder = tmp_path_factory.mktemp("half")
    tf.keras.mixed_precision.set_global_policy("mixed_bfloat16")
    try:
        inputs = tf.keras.layers.Input((6,))
        hidden = tf.keras.layers.Dense(16, activation="tanh")(inputs)
        model = tf.keras.Model(inputs, tf.keras.layers.Dense(3, dtype="float32")(hidden))
    finally:
        tf.keras.mixed_precision.set_global_policy("float32")
    model.save(folder / "m.keras")
    x = np.random.default_rng(0).normal(size=(5, 6)).astype("float32")
    return folder, x, np.asarray(model(x))


def test_numpy_code_in_bfloat16(half):
    """Every op rounds, as in the model: the results are the same."""
    folder, x, expected = half
    assert main(["export", str(folder / "m.keras"), "--to", "numpy", "-o", str(folder / "code.py")]) == 0
    np.testing.assert_allclose(loaded(folder / "code.py").predict(x)["output_0"], expected, rtol=1e-5, atol=1e-6)


def test_onnx_in_bfloat16(half):
    onnxruntime = pytest.importorskip("onnxruntime")
    folder, x, expected = half
    assert main(["export", str(folder / "m.keras"), "--to", "onnx", "-o", str(folder / "m.onnx")]) == 0
    session = onnxruntime.InferenceSession(str(folder / "m.onnx"))
    (found,) = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02)


def test_what_cannot_be_exported(tmp_path, capsys):
    assert main(["export", str(MODELS / "vocabulary"), "--to", "numpy", "-o", str(tmp_path / "v.py")]) == 1
    assert "cannot be exported as numpy" in capsys.readouterr().err
    assert main(["export", str(MODELS / "affine"), "--to", "numpy", "--signature", "other"]) == 1
    assert "has no signature 'other'; choose from serving_default" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "none"), "--to", "numpy"]) == 1
    assert "is neither a SavedModel nor" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_check_lists_what_a_model_needs(capsys):
    assert main(["check", str(MODELS / "vocabulary")]) == 0
    text = capsys.readouterr().out
    assert "15 ops: 15 supported, 0 missing" in text
    assert "words  string (None,)" in text
    assert main(["check", str(MODELS / "affine"), "--json"]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["missing"] == []
    assert report["ops"]["MatMul"] == 1


def test_check_names_what_is_missing(tmp_path, capsys):
    (tmp_path / "m").mkdir()
    data = (MODELS / "affine" / "saved_model.pb").read_bytes()
    (tmp_path / "m" / "saved_model.pb").write_bytes(data.replace(b"\x12\x04Tanh", b"\x12\x04Tamh"))
    assert main(["check", str(tmp_path / "m")]) == 1
    assert "Tamh" in capsys.readouterr().out
    (tmp_path / "m" / "saved_model.pb").write_bytes(data[:100])
    assert main(["check", str(tmp_path / "m")]) == 1
    assert "cannot read" in capsys.readouterr().err
