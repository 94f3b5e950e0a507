"""What Keras learns of a layer without running it: shapes with unknown sizes, no effects, no traces left behind."""

from __future__ import annotations

import importlib.util
import re
import sys

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.function import modes

if importlib.util.find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

keras = tf.keras
layers = keras.layers
core = importlib.import_module("gradtape._src.keras_backend.core")
X = np.arange(6, dtype="float32").reshape(2, 3)
Y = X.sum(1)  # what a layer of ones makes of it


def dense(units=2):
    return layers.Dense(units, kernel_initializer="ones")


def layer_of(call, table=True):
    """A layer with a table of weights, and this for its `call`."""

    class Layer(layers.Layer):
        def build(self, input_shape):
            self.table = self.add_weight(shape=(10, 4), initializer="ones", name="table") if table else None

    Layer.call = call
    return Layer()


@pytest.fixture(params=["jax", "no jax"])
def engine(request, monkeypatch):
    """With a compiler, and as if there were none."""
    if request.param == "no jax":
        monkeypatch.setattr(modes, "can_compile", lambda: False)
        monkeypatch.setitem(sys.modules, "jax", None)
    return request.param


# -- compiled functions in models ------------------------------------------------------------------------------------
class DecoratedCall(keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = dense()

    @tf.function
    def call(self, x, training=False):
        y = self.layer(x)
        return y + 100.0 if training else y


class DecoratedHelper(keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = dense()

    @tf.function
    def encode(self, x):
        return self.layer(x)

    def call(self, x):
        return self.encode(x)


class FunctionOfMethod(keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = dense()
        self.function = tf.function(self.encode)

    def encode(self, x):
        return self.layer(x)

    def call(self, x):
        return self.function(x)


class DecoratedLayer(layers.Layer):
    def build(self, input_shape):
        self.w = self.add_weight(shape=(input_shape[-1], 2), initializer="ones")

    @tf.function
    def call(self, x):
        return x @ self.w


class Holder(keras.Model):
    def __init__(self):
        super().__init__()
        self.layer = DecoratedLayer()

    def call(self, x):
        return self.layer(x)


class VariableInCall(keras.Model):
    def __init__(self):
        super().__init__()
        self.w = None

    @tf.function
    def call(self, x):
        if self.w is None:
            self.w = tf.Variable(tf.ones([3, 2]))
        return x @ self.w


def functional():
    x = layers.Input((3,))
    return keras.Model(x, DecoratedLayer()(x))


def of_lambda():
    w = tf.Variable(tf.ones([3, 2]))
    function = tf.function(lambda x: x @ w)
    x = layers.Input((3,))
    model = keras.Model(x, layers.Lambda(function)(x))
    model.w = w
    return model


def within_a_function():
    """A model that is called for the first time inside of a function."""
    model = Holder()
    tf.function(lambda x: model(x))(tf.constant(X))
    return model


@pytest.mark.parametrize(
    "make",
    [
        DecoratedCall, DecoratedHelper, FunctionOfMethod, DecoratedLayer, Holder, VariableInCall, functional, of_lambda,
        within_a_function,
    ],
)  # fmt: skip
def test_functions_in_models_see_the_weights(make):
    """No trace is kept that was made while Keras inferred shapes: the weights had no values then."""
    model = make()
    for scale in (1.0, 3.0):
        for x in (X, X + 1, X[:1]):
            y = scale * x.sum(1)
            np.testing.assert_allclose(model(tf.constant(x)), np.stack([y, y], 1), rtol=1e-6)
        for weight in model.weights or [model.w]:
            weight.assign(weight * 3.0)


def test_gradients_and_modes_of_a_decorated_call():
    model = DecoratedCall()
    for training in (False, True):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model(tf.constant(X), training=training))
        assert float(loss) == 2 * Y.sum() + 400 * training
        kernel, bias = tape.gradient(loss, model.trainable_variables)
        np.testing.assert_allclose(kernel, np.stack([X.sum(0)] * 2, 1))
        assert bias.numpy().tolist() == [2.0, 2.0]


def test_training_a_model_of_compiled_parts():
    class Model(DecoratedHelper):
        @tf.function
        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(y - self(x)))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            return {"error": loss}

        @tf.function
        def test_step(self, data):
            return {"error": tf.reduce_mean(tf.square(data[1] - self(data[0])))}

        @tf.function
        def predict_step(self, data):
            return 2.0 * self(data)

    ones = np.ones((2, 2), "float32")
    for kind in (Model, DecoratedHelper):
        model = kind()
        model.compile(keras.optimizers.SGD(0.01), "mse")
        (errors,) = model.fit(X, ones, epochs=3, verbose=0).history.values()
        assert errors == pytest.approx([62.5, 32.98263, 17.57778], rel=1e-5)  # TensorFlow's, without the decorators
        (error,) = model.evaluate(X, ones, verbose=0, return_dict=True).values()
        assert error == pytest.approx(9.535611, rel=1e-5)
        predicted = model(tf.constant(X)) * (2.0 if kind is Model else 1.0)
        np.testing.assert_allclose(model.predict(X, verbose=0), predicted, rtol=1e-5)


def test_mixed_precision_and_random_parts():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.layer = layers.Dense(2, dtype="mixed_float16", kernel_initializer="ones")
            self.drop = layers.Dropout(0.5, dtype="mixed_float16")

        @tf.function
        def call(self, x, training=False):
            return self.drop(self.layer(x), training=training)

    model = Model()
    y = model(tf.constant(X))
    assert y.dtype == tf.float16
    assert y.numpy().tolist() == [[3.0, 3.0], [12.0, 12.0]]
    ones = tf.ones([64, 3])
    assert np.any(model(ones, training=True).numpy() != model(ones, training=True).numpy())


def test_a_stateless_call_leaves_no_trace_behind():
    model = Holder()
    model(tf.constant(X[:1]))
    y, _ = model.stateless_call([2.0 * v for v in model.trainable_variables], [], tf.constant(X))
    assert y.numpy().tolist() == [[6.0, 6.0], [24.0, 24.0]]
    assert model(tf.constant(X)).numpy().tolist() == [[3.0, 3.0], [12.0, 12.0]]


# -- effects ---------------------------------------------------------------------------------------------------------
def test_shape_inference_has_no_effects(engine, capsys):
    count = tf.Variable(0)
    calls = []

    def call(self, x):
        calls.append(tuple(x.shape))
        count.assign_add(1)
        tf.print("seen", tf.reduce_sum(x), output_stream=sys.stdout)
        tf.debugging.assert_positive(x)
        tf.debugging.Assert(tf.reduce_all(x > 0), [x])
        return x + 0.0 * tf.random.normal(tf.shape(x))

    tf.random.set_seed(1)
    first = tf.random.uniform([2]).numpy()
    tf.random.set_seed(1)
    x = layers.Input((3,))
    model = keras.Model(x, layer_of(call)(x))
    assert int(count) == 0
    assert capsys.readouterr().out == ""
    assert tf.random.uniform([2]).numpy().tolist() == first.tolist()
    assert calls == [(None, 3)]
    model(tf.constant(X + 1))
    assert int(count) == 1
    assert capsys.readouterr().out == "seen 21\n"


def test_checks_of_values_wait_for_values():
    x = layers.Input((2, 2))
    model = keras.Model(x, layer_of(lambda self, x: tf.linalg.inv(x))(x))
    assert model(2.0 * tf.eye(2)[None]).numpy().tolist() == [[[0.5, 0.0], [0.0, 0.5]]]


# -- shapes ----------------------------------------------------------------------------------------------------------
def halves(x):
    n = tf.shape(x)[0] // 2
    return x[:n] + x[n:]


def heads(x):
    rows, length = tf.shape(x)[0], tf.shape(x)[1]
    y = tf.transpose(tf.reshape(x, [rows, length, 2, 2]), [0, 2, 1, 3])
    y = tf.matmul(tf.nn.softmax(tf.matmul(y, y, transpose_b=True)), y)
    return tf.reshape(tf.transpose(y, [0, 2, 1, 3]), [rows, -1, 4])


def own_gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x**2)
    return tape.gradient(y, x)


def marked(x):
    rows = tf.shape(x)[0]
    return tf.tensor_scatter_nd_update(x, tf.stack([tf.range(rows), 0 * tf.range(rows)], 1), tf.ones([rows]))


# Recorded from TensorFlow 2.21: the shape of the input without its batch, what the layer computes, the shape of that.
SHAPES = {
    "reshape to 84": ((4,), lambda s, x: tf.reshape(x, [-1, 84]), (None, 84)),
    "reshape to 121": ((4,), lambda s, x: tf.reshape(x, [-1, 121]), (None, 121)),
    "reshape by shape": ((4,), lambda s, x: tf.reshape(x, [tf.shape(x)[0], 2, 2]), (None, 2, 2)),
    "reshape by concat": ((4,), lambda s, x: tf.reshape(x, tf.concat([tf.shape(x)[:1], [2, 2]], 0)), (None, 2, 2)),
    "reshape by as_list": ((4,), lambda s, x: tf.reshape(x, [-1, x.shape.as_list()[1] // 2, 2]), (None, 2, 2)),
    "shape is None": ((4,), lambda s, x: x[:, :1] if x.shape[0] is None else x[:, :2], (None, 1)),
    "shape or tf.shape": ((4,), lambda s, x: tf.reshape(x, [x.shape[0] or tf.shape(x)[0], 4, 1]), (None, 4, 1)),
    "zeros": ((4,), lambda s, x: tf.zeros([tf.shape(x)[0], 3]), (None, 3)),
    "fill": ((4,), lambda s, x: tf.fill([tf.shape(x)[0], 2], 1.5), (None, 2)),
    "tile": ((4,), lambda s, x: tf.tile([[1.0, 2.0]], [tf.shape(x)[0], 1]), (None, 2)),
    "repeat": ((4,), lambda s, x: tf.repeat([[1.0, 2.0]], tf.shape(x)[0], axis=0), (None, 2)),
    "range": ((4,), lambda s, x: tf.range(tf.shape(x)[0])[:, None] + tf.cast(x, tf.int32), (None, 4)),
    "broadcast": ((4,), lambda s, x: tf.broadcast_to(s.table[:1], tf.shape(x)) + x, (None, 4)),
    "eye": ((4,), lambda s, x: tf.eye(4, batch_shape=[tf.shape(x)[0]]) @ x[:, :, None], (None, 4, 1)),
    "random": ((4,), lambda s, x: x + tf.random.normal([tf.shape(x)[0], 1]), (None, 4)),
    "split": ((4,), lambda s, x: tf.subtract(*tf.split(x, 2, axis=0)), (None, 4)),
    "halves": ((4,), lambda s, x: halves(x), (None, 4)),
    "strided": ((4,), lambda s, x: x[::2, 1:3], (None, 2)),
    "gram": ((4,), lambda s, x: tf.matmul(x, x, transpose_b=True), (None, None)),
    "positions": ((None, 4), lambda s, x: x + s.table[: tf.shape(x)[1]], (None, None, 4)),
    "lookup": ((None, 4), lambda s, x: x + tf.gather(s.table, tf.range(tf.shape(x)[1])), (None, None, 4)),
    "causal": ((None, 4), lambda s, x: tf.linalg.band_part(tf.ones([tf.shape(x)[1]] * 2), -1, 0) @ x, (None, None, 4)),
    "heads": ((None, 4), lambda s, x: heads(x), (None, None, 4)),
    "last": ((None, 4), lambda s, x: x[:, -1], (None, 4)),
    "images": ((None, None, 3), lambda s, x: tf.image.resize(x, [4, 4]), (None, 4, 4, 3)),
    "larger": ((None, None, 3), lambda s, x: tf.image.resize(x, 2 * tf.shape(x)[1:3]), (None, None, None, 3)),
    "cond": ((4,), lambda s, x: tf.cond(tf.reduce_sum(x) > 0, lambda: x + 1.0, lambda: x - 1.0), (None, 4)),
    "while": ((4,), lambda s, x: tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2), [0, x])[1], (None, 4)),
    "map": ((4,), lambda s, x: tf.map_fn(lambda row: 2 * row, x), (None, 4)),
    "vectorized": ((4,), lambda s, x: tf.vectorized_map(lambda row: 2 * row, x), (None, 4)),
    "scatter": ((4,), lambda s, x: marked(x), (None, 4)),
    "gradient": ((4,), lambda s, x: own_gradient(x), (None, 4)),
    "size": ((4,), lambda s, x: x / tf.cast(tf.size(x), tf.float32), (None, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_of_unknown_sizes(name, engine):
    inputs, call, wanted = SHAPES[name]
    layer = layer_of(call)
    x = layers.Input(inputs)
    y = layer(x)
    assert y.shape == wanted
    rows = {"reshape to 84": 21, "reshape to 121": 121}.get(name, 4)
    value = tf.ones([rows, *[5 if n is None else n for n in inputs]])
    result = keras.Model(x, y)(value)
    assert all(n in (None, m) for n, m in zip(wanted, result.shape, strict=True)) or name == "shape is None"


def test_an_error_is_said_for_sizes_that_have_a_number(engine):
    for call in (lambda s, x: x @ tf.ones([3, 2]), lambda s, x: x + tf.ones([3])):
        with pytest.raises(ValueError, match=r"(?s)Exception encountered when calling .*Error encountered:.*\[7,4\]"):
            layer_of(call)(layers.Input((4,)))


# -- errors ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda s, x: x @ tf.ones([3, 2]), tf.errors.InvalidArgumentError, "Matrix size-incompatible"),
        (lambda s, x: tf.linalg.inv(0.0 * tf.eye(2) * x[0, 0]), tf.errors.InvalidArgumentError, "not invertible"),
        (lambda s, x: layers.Embedding(3, 2)(tf.constant([[5]])), tf.errors.InvalidArgumentError, r"\[0,0\] = 5"),
        (lambda s, x: tf.io.read_file("/nowhere/at/all"), tf.errors.NotFoundError, "/nowhere"),
    ],
)  # fmt: skip
def test_errors_keep_their_class_in_layers(call, kind, message):
    """Keras makes an error again with a longer message: one of TensorFlow's classes stays one."""
    layer = layer_of(call)
    layer.build((2, 4))
    with pytest.raises(kind, match=rf"(?s)Exception encountered when calling \w+\.call\(\).*{message}") as caught:
        layer(tf.ones([2, 4]))
    assert re.search(r"• \w+=tf.Tensor\(shape=\(., .\), dtype=", caught.value.message)
    assert caught.value.node_def is caught.value.op is None


def test_errors_keep_their_class_while_shapes_are_inferred():
    def call(self, x):
        raise tf.errors.NotFoundError(None, None, "no such file")

    with pytest.raises(tf.errors.NotFoundError, match=r"(?s)Could not automatically infer.*no such file"):
        layer_of(call)(layers.Input((4,)))
