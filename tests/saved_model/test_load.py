"""`tf.saved_model.load`: models that TensorFlow has saved give what they gave there (`make.py` and `record.py` wrote them)."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf

HERE = Path(__file__).parent
MODELS = HERE / "models"
NAMES = sorted(path.stem for path in MODELS.glob("*.json"))


@pytest.fixture(scope="module")
def check():
    """The script that compares a module's results with a record."""
    before = list(sys.path)
    import check as script

    sys.path[:] = before
    script.TF, script.IS_TENSORFLOW, script.QUICK = tf, False, False
    return script


@pytest.fixture(scope="module", autouse=True)
def scripts():
    sys.path.insert(0, str(HERE))
    yield
    sys.path.remove(str(HERE))
    for name in ("check", "golden"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", NAMES)
def test_model(check, name):
    """Attributes, variables, signatures, outputs, gradients, second derivatives, assignments and refused calls."""
    problems, parts, known = check.check(MODELS / f"{name}.json")
    assert not problems
    assert parts > 10
    assert not known


@pytest.mark.parametrize("name", ["control_flow", "custom_gradient", "nested", "structured", "vocabulary"])
def test_a_model_saved_again_is_the_same(check, name, tmp_path):
    pytest.importorskip("jax")
    loaded = tf.saved_model.load(str(MODELS / name))
    tf.saved_model.save(loaded, str(tmp_path / name), signatures=loaded.signatures)
    for ending in ("json", "npz"):
        shutil.copy(MODELS / f"{name}.{ending}", tmp_path)
    problems, parts, _ = check.check(tmp_path / f"{name}.json")
    assert not problems
    assert parts > 10


@pytest.fixture
def affine():
    return tf.saved_model.load(str(MODELS / "affine"))


@pytest.fixture
def copied(tmp_path):
    """A model that can be changed."""

    def copy(name, change=lambda data: data):
        folder = tmp_path / name
        shutil.copytree(MODELS / name, folder)
        file = folder / "saved_model.pb"
        file.write_bytes(change(file.read_bytes()))
        return str(folder)

    return copy


def test_inside_a_function(affine):
    x = tf.ones([2, int(affine.w.shape[0])])

    @tf.function
    def f(x):
        return affine.f(x) * 2.0

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        compiled, plain = f(x), affine.f(x) * 2.0
    np.testing.assert_allclose(compiled, plain, rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(compiled, affine.w), tape.gradient(plain, affine.w), rtol=1e-4)


def test_variables_train_and_are_tracked(affine, tmp_path):
    optimizer_step = 0.1
    x = tf.ones([2, int(affine.w.shape[0])])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(affine.f(x) ** 2)
    affine.w.assign_sub(optimizer_step * tape.gradient(loss, affine.w))
    assert float(tf.reduce_sum(affine.f(x) ** 2)) != float(loss)
    path = tf.train.Checkpoint(model=affine).save(str(tmp_path / "checkpoint"))
    assert any(name.startswith("model/w") for name, _ in tf.train.list_variables(path))


def test_concrete_functions(affine):
    concrete = affine.f.get_concrete_function()
    assert concrete in affine.f.concrete_functions
    assert {v.name for v in concrete.trainable_variables} <= {affine.w.name, affine.b.name}
    spec = affine.signatures["serving_default"].structured_input_signature[1]
    (name,) = spec
    x = tf.ones([3, spec[name].shape[1]])
    by_name, by_place = affine.signatures["serving_default"](**{name: x}), affine.signatures["serving_default"](x)
    assert by_name.keys() == by_place.keys()
    with pytest.raises(TypeError, match="missing required arguments"):
        affine.signatures["serving_default"]()
    with pytest.raises(TypeError, match="unexpected keyword arguments"):
        affine.signatures["serving_default"](**{name: x, "more": x})
    with pytest.raises(TypeError, match="positional arguments"):
        affine.signatures["serving_default"](x, x)


def test_what_is_missing():
    with pytest.raises(OSError, match="SavedModel file does not exist at"):
        tf.saved_model.load("no/such/folder")
    assert tf.saved_model.contains_saved_model(str(MODELS / "affine"))
    assert not tf.saved_model.contains_saved_model(str(MODELS))
    with pytest.raises(ValueError, match="incompatible argument to `tags`"):
        tf.saved_model.load(str(MODELS / "affine"), tags="train")
    assert tf.saved_model.load(str(MODELS / "affine"), tags=["serve"]) is not None


def test_an_op_that_is_missing_is_named(copied):
    folder = copied("affine", lambda data: data.replace(b"Tanh", b"Sanh"))
    model = tf.saved_model.load(folder)
    with pytest.raises(
        tf.errors.NotFoundError, match=r"Op type not registered 'Sanh' with the signature Sanh\(x:T\)"
    ) as e:
        model.f(tf.ones([2, int(model.w.shape[0])]))
    assert "saved_model.pb" in str(e.value)


def test_an_asset_stays_in_its_folder(copied):
    folder = copied("vocabulary", lambda data: data.replace(b"prices.tsv", b"../rce.tsv"))
    with pytest.raises(OSError, match="outside the directory `assets`"):
        tf.saved_model.load(folder)


def test_a_damaged_file_is_named(copied):
    for i, change in enumerate((lambda data: data[:-200], lambda data: b"\xff" * 10, lambda data: b"")):
        folder = copied("affine", change)
        with pytest.raises(OSError, match="Cannot parse file"):
            tf.saved_model.load(folder)
        shutil.rmtree(folder)
        assert i < 3


def test_mutated_files(copied, check):
    """A named error or a result: no other exception, no hang."""
    chooser = random.Random(5)
    record = check.golden.Record(MODELS / "nested.json")
    for _ in range(60):

        def change(data):
            found = bytearray(data)
            for _ in range(chooser.choice([1, 2, 4])):
                found[chooser.randrange(len(found))] = chooser.randrange(256)
            return bytes(found)

        folder = copied("nested", change)
        try:
            model = tf.saved_model.load(folder)
            entry = chooser.choice(record.tree["calls"])
            function = check.golden.find(model, entry["function"])
            function(
                *check.golden.rebuild(tf, record, entry["args"]), **check.golden.rebuild(tf, record, entry["kwargs"])
            )
        except (OSError, ValueError, TypeError, AttributeError, tf.errors.OpError) as error:
            assert str(error)
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_thousand_damaged_models(tmp_path):
    """In a process of its own, as a crash of XLA would end this one."""
    pytest.importorskip("jax")
    module = tf.Module()
    module.w = tf.Variable([1.0, 2.0])
    spec = tf.TensorSpec([None, 2], tf.float32, name="x")
    module.f = tf.function(lambda x: tf.tanh(x * module.w), input_signature=[spec])
    tf.saved_model.save(module, str(tmp_path / "own"))
    script = Path(__file__).parent / "fuzz.py"
    folders = [str(path) for path in sorted(MODELS.iterdir()) if path.is_dir()] + [str(tmp_path / "own")]
    found = subprocess.run([sys.executable, str(script), "1000", "7", *folders], capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "1000 damaged" in found.stdout


def test_a_session_model_is_refused(copied):
    with pytest.raises(OSError, match="gradtape does not support TensorFlow 1 graphs"):
        tf.saved_model.load(copied("affine", lambda data: _without_objects(data)))


def _without_objects(data):
    from gradtape._src.formats.protobuf import decode, encode

    message = decode(data)
    kept = [(n, encode([(m, v) for m, v in decode(value) if m != 7]) if n == 2 else value) for n, value in message]
    return encode(kept)
