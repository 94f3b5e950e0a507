"""`tf.saved_model.save`: what is saved is loaded again; `write.py` and `read_back.py` do the same with TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("jax")


class Model(tf.Module):
    def __init__(self):
        super().__init__(name="model")
        self.layers = [tf.Variable(np.float32([[1, 2], [3, 4]]), name="w"), tf.Variable([0.5, -0.5], name="b")]
        self.options = {"scale": tf.Variable(2.0, trainable=False, name="scale")}
        self.steps = tf.Variable(np.int64(3), trainable=False, name="steps")

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def call(self, x):
        return tf.tanh(x @ self.layers[0] + self.layers[1]) * self.options["scale"]

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def step(self, x):
        self.steps.assign_add(1)
        self.options["scale"].assign(tf.reduce_sum(x))
        return {"steps": self.steps.read_value(), "scale": self.options["scale"] * 1.0, "rows": tf.shape(x)[0]}


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    model, folder = Model(), tmp_path_factory.mktemp("saved") / "model"
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.call, "step": model.step})
    return model, folder


def second_order(function, x, w):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
            loss = tf.reduce_sum(y * y)
        first = tape.gradient(loss, [x, w])
        square = tf.reduce_sum(first[0] ** 2)
    return [y, *first, *outer.gradient(square, [x, w])]


@pytest.mark.parametrize("rows", [1, 3])
def test_values_and_derivatives(saved, rows):
    model, folder = saved
    loaded = tf.saved_model.load(str(folder))
    x = tf.constant(np.random.default_rng(rows).normal(size=(rows, 2)).astype("float32"))
    expected = second_order(model.call, x, model.layers[0])
    for one, other in zip(second_order(loaded.call, x, loaded.layers[0]), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(loaded.signatures["serving_default"](x=x)["output_0"], expected[0], rtol=1e-5)


def test_variables_change(saved):
    loaded = tf.saved_model.load(str(saved[1]))
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    found = loaded.step(x)
    assert {key: value.numpy().item() for key, value in found.items()} == {"steps": 4, "scale": 10.0, "rows": 2}
    assert loaded.steps.numpy() == 4
    assert loaded.options["scale"].numpy() == 10.0
    assert not loaded.steps.trainable
    assert [v.name for v in loaded.layers] == ["w:0", "b:0"]
    with pytest.raises(TypeError):
        loaded.call(tf.zeros([2, 3]))


def test_no_gradient_flows_through_an_assignment(saved):
    loaded = tf.saved_model.load(str(saved[1]))
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = loaded.step(x)["scale"]
    assert not np.any(tape.gradient(y, x, unconnected_gradients="zero"))


def test_inside_a_function(saved):
    loaded = tf.saved_model.load(str(saved[1]))
    x = tf.constant([[1.0, 2.0]])
    np.testing.assert_allclose(tf.function(lambda x: loaded.call(x) + 1.0)(x), loaded.call(x) + 1.0, rtol=1e-5)


def test_loops_and_custom_gradients(tmp_path):
    @tf.custom_gradient
    def clipped(x):
        return tf.identity(x), lambda g: tf.clip_by_value(g, -1.0, 1.0)

    module = tf.Module()
    module.w = tf.Variable(0.5)

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def run(x):
        for _ in tf.range(tf.shape(x)[0]):
            x = x * module.w + 1.0
        return clipped(x) * 5.0

    module.run = run
    tf.saved_model.save(module, str(tmp_path / "loop"))
    loaded = tf.saved_model.load(str(tmp_path / "loop"))
    x = tf.constant([1.0, 2.0, 3.0])
    gradients = []
    for owner in (module, loaded):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = owner.run(x)
        gradients.append([y, *tape.gradient(y, [x, owner.w])])
    for one, other in zip(*gradients, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    np.testing.assert_allclose(gradients[0][1], [0.125] * 3)


def test_the_file_names_no_path_of_this_machine(saved):
    data = (saved[1] / "saved_model.pb").read_bytes()
    assert b"/gradtape/" not in data
    assert str(saved[1].parent).encode() not in data
    assert sorted(path.name for path in saved[1].iterdir()) == [
        "assets",
        "fingerprint.pb",
        "saved_model.pb",
        "variables",
    ]


def test_saving_over_another_one(tmp_path):
    module = tf.Module()
    module.v = tf.Variable([1.0, 2.0])
    for value in ([1.0, 2.0], [3.0, 4.0]):
        module.v.assign(value)
        tf.saved_model.save(module, str(tmp_path / "m"))
        assert tf.saved_model.load(str(tmp_path / "m")).v.numpy().tolist() == value
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_what_cannot_be_saved(tmp_path):
    module = tf.Module()
    outside = tf.Variable(1.0)
    spec = [tf.TensorSpec([None], tf.float32)]
    module.f = tf.function(lambda x: x * outside, input_signature=spec)
    with pytest.raises(AssertionError, match="untracked"):
        tf.saved_model.save(module, str(tmp_path / "m"))
    module.f = tf.function(lambda x: x + tf.random.normal([1]), input_signature=spec)
    with pytest.raises(tf.errors.UnimplementedError, match="random numbers"):
        tf.saved_model.save(module, str(tmp_path / "m"))
    module.f = tf.function(tf.strings.upper, input_signature=[tf.TensorSpec([None], tf.string)])
    with pytest.raises(tf.errors.UnimplementedError, match="XLA cannot run it"):
        tf.saved_model.save(module, str(tmp_path / "m"))
    with pytest.raises(ValueError, match="Expected an object of type `Trackable`"):
        tf.saved_model.save(3, str(tmp_path / "m"))
    del module.f
    with pytest.raises(ValueError, match="Expected a TensorFlow function for which to generate a signature"):
        tf.saved_model.save(module, str(tmp_path / "m"), signatures=len)
    with pytest.raises(TypeError, match="unexpected keyword"):
        tf.saved_model.SaveOptions(what=1)
    assert not list(tmp_path.iterdir())
