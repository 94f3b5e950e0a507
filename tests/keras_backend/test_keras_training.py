"""Compiled training with Keras: equal to eager training and to Keras on JAX, with all that `fit` can do."""

from __future__ import annotations

import importlib.util
import logging
import os
import subprocess
import sys

import numpy as np
import pytest

import gradtape as tf

if importlib.util.find_spec("keras") is None or importlib.util.find_spec("jax") is None:
    pytest.skip("Keras or JAX is not installed", allow_module_level=True)

import keras_models

keras = tf.keras
layers, optimizers = keras.layers, keras.optimizers

rng = np.random.default_rng(0)
X = rng.normal(size=(40, 4)).astype("float32")
Y = (X @ np.arange(1, 5, dtype="float32"))[:, None]
CLASSES = rng.integers(0, 3, 40)
SEQUENCES = rng.normal(size=(40, 6, 4)).astype("float32")
SEQUENCES[:20, 4:] = 0  # masked


@pytest.fixture(autouse=True)
def _no_falling_back(caplog):
    """No step may quietly run eagerly instead, but where a test asks for it."""
    with caplog.at_level(logging.WARNING, "tensorflow"):
        yield
    said = [r.getMessage() for r in caplog.get_records("call") if "could not be compiled" in r.getMessage()]
    caplog.clear()
    assert not said


def both(make, fit=None, **options):
    """Train eagerly and compiled from the same seed; the compiled model, after histories were found to be equal."""
    histories, models = [], []
    for run_eagerly in (True, False):
        keras.backend.clear_session()
        keras.utils.set_random_seed(5)
        model = make()
        model.compile(**{"optimizer": optimizers.SGD(0.05), "loss": "mse", **_fresh(options)}, run_eagerly=run_eagerly)
        train = fit or (lambda m: m.fit(X, Y, batch_size=16, epochs=2, verbose=0))
        histories.append(train(model).history)
        models.append(model)
    eager, compiled = histories
    assert list(eager) == list(compiled)
    for name in eager:
        np.testing.assert_allclose(compiled[name], eager[name], rtol=2e-4, atol=1e-6, err_msg=name)
    for a, b in zip(*[m.get_weights() for m in models], strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-3, atol=1e-5)
    return models[1]


def _fresh(options):
    """An optimizer belongs to one model: where a function is given, it makes one."""
    return {name: value() if name == "optimizer" else value for name, value in options.items()}


def small(*more):
    return lambda: keras.Sequential(
        [keras.Input((4,)), layers.Dense(6, activation="tanh"), *[m() for m in more], layers.Dense(1)]
    )


# -- eager and compiled ----------------------------------------------------------------------------------------------
def classifier(*stack):
    return keras.Sequential([*stack, layers.Dense(3, activation="softmax")])


def test_a_network_with_dropout_batch_normalization_and_metrics():
    def make():
        return classifier(
            keras.Input((4,)), layers.Dense(6, activation="relu"), layers.BatchNormalization(), layers.Dropout(0.4)
        )

    model = both(
        make,
        lambda m: m.fit(X, CLASSES, batch_size=16, epochs=3, validation_split=0.25, verbose=0),
        loss="sparse_categorical_crossentropy",
        metrics=["accuracy"],
    )
    assert float(np.std(model.layers[1].moving_mean)) > 0
    np.testing.assert_allclose(model.predict(X, verbose=0), model(X, training=False), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_a_convolutional_network():
    def make():
        convolution = layers.Conv2D(4, 3, activation="relu")
        return classifier(keras.Input((6, 6, 2)), convolution, layers.MaxPooling2D(), layers.Flatten())

    pictures = np.random.default_rng(1).normal(size=(40, 6, 6, 2)).astype("float32")
    fit = lambda m: m.fit(pictures, CLASSES, batch_size=20, epochs=2, verbose=0)  # noqa: E731
    both(make, fit, loss="sparse_categorical_crossentropy")


def test_recurrent_networks_with_masks_are_loops():
    def make():
        masked = layers.Masking()
        return classifier(
            keras.Input((6, 4)), masked, layers.LSTM(5, return_sequences=True), layers.Bidirectional(layers.GRU(3))
        )

    fit = lambda m: m.fit(SEQUENCES, CLASSES, batch_size=20, epochs=2, verbose=0)  # noqa: E731
    model = both(make, fit, loss="sparse_categorical_crossentropy")
    assert _nodes(model).count("scan") == 6, "three loops, and three for their gradients"


def _nodes(model):
    (concrete,) = model.train_function._one._functions
    return [node.name for node in concrete.graph.nodes]


@pytest.mark.slow
def test_the_state_of_a_recurrent_network_is_kept():
    def make():
        recurrent = layers.SimpleRNN(3, stateful=True, return_sequences=True)
        return keras.Sequential(
            [keras.Input(batch_shape=(10, 6, 4)), recurrent, layers.GRU(2, go_backwards=True), layers.Dense(1)]
        )

    both(make, lambda m: m.fit(SEQUENCES, Y, batch_size=10, epochs=2, shuffle=False, verbose=0))


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras', when the last batches are fewer
def test_several_batches_in_one_program():
    """Batches that are alike go round in a loop; what is left at the end of an epoch has programs of its own."""
    model = both(
        small(lambda: layers.Dropout(0.3)), lambda m: m.fit(X, Y, batch_size=6, verbose=0), steps_per_execution=3
    )
    (together,) = model.train_function._several._functions
    assert "scan" in [node.name for node in together.graph.nodes]
    assert model.train_function._one.experimental_get_tracing_count() == 1
    np.testing.assert_allclose(model.predict(X, batch_size=6, verbose=0), model(X), rtol=1e-4, atol=1e-6)


def test_a_partial_batch_is_one_more_trace():
    model = small()()
    model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=16, epochs=3, verbose=0)
    assert model.train_function._one.experimental_get_tracing_count() == 2
    model.fit(X, Y, batch_size=16, epochs=1, verbose=0)
    assert model.train_function._one.experimental_get_tracing_count() == 2


def test_dropout_draws_new_numbers_in_every_call():
    class Noisy(keras.Model):
        def __init__(self):
            super().__init__()
            self.dropout = layers.Dropout(0.5, seed=3)

        def call(self, x):
            return self.dropout(x, training=True)

    model = Noisy()
    model.compile("sgd", "mse")
    first, second = (model.predict(np.ones((2, 50), "float32"), verbose=0) for _ in range(2))
    assert (first != second).any()


# -- optimizers and callbacks ----------------------------------------------------------------------------------------
@pytest.mark.slow
def test_a_schedule_and_moving_averages():
    schedule = optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    model = both(small(), optimizer=lambda: optimizers.Adam(schedule, use_ema=True, ema_overwrite_frequency=3))
    assert int(model.optimizer.iterations) == 6
    np.testing.assert_allclose(float(model.optimizer.learning_rate), 0.1 * 0.5**3, rtol=1e-5)


@pytest.mark.slow
def test_gradients_are_accumulated():
    both(small(), optimizer=lambda: optimizers.Adam(0.01, gradient_accumulation_steps=2, global_clipnorm=1.0))


@pytest.mark.slow
def test_the_loss_is_scaled():
    model = both(small(), optimizer=lambda: optimizers.LossScaleOptimizer(optimizers.SGD(0.01), dynamic_growth_steps=4))
    assert float(model.optimizer.dynamic_scale) == 2.0**16, "doubled once in six steps"


@pytest.mark.slow
def test_callbacks_change_the_learning_rate():
    seen = []

    def fit(model):
        callback = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.5)
        history = model.fit(X, Y, batch_size=20, epochs=3, verbose=0, callbacks=[callback])
        seen.append(model.train_function)
        return history

    model = both(small(), fit)
    np.testing.assert_allclose(float(model.optimizer.learning_rate), 0.05 / 8, rtol=1e-6)
    assert seen[-1]._one.experimental_get_tracing_count() == 1


def test_embeddings_are_updated_by_rows():
    tokens = np.random.default_rng(2).integers(0, 30, (40, 5))

    def make():
        return keras.Sequential([layers.Embedding(30, 4), layers.GlobalAveragePooling1D(), layers.Dense(1)])

    fit = lambda m: m.fit(tokens, Y, batch_size=20, epochs=2, verbose=0)  # noqa: E731
    both(make, fit, optimizer=lambda: optimizers.Adam(0.01))


def test_optimizers_find_the_slots_of_a_variable_that_is_passed():
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    optimizer = optimizers.SGD(0.1, momentum=0.9)
    optimizer.build([a, b])
    step = tf.function(lambda v: optimizer.apply_gradients([(tf.constant(1.0), v)]))
    step(a), step(b), step(b)
    np.testing.assert_allclose([float(a), float(b)], [1.9, 2.71], rtol=1e-6)


# -- steps of one's own ----------------------------------------------------------------------------------------------
class Penalty(layers.Layer):
    def call(self, x):
        self.add_loss(0.1 * keras.ops.mean(x**2))
        return x


@pytest.mark.slow
def test_losses_of_layers_and_sample_weights():
    weights = np.linspace(0.0, 1.0, 40)
    fit = lambda m: m.fit(X, Y, batch_size=20, epochs=2, sample_weight=weights, verbose=0)  # noqa: E731
    both(small(Penalty), fit, weighted_metrics=["mae"])


class TwoModels(keras.Model):
    """No `call`, two optimizers that are built by the first step: as the tutorials of GANs have it."""

    def __init__(self):
        super().__init__()
        self.maker = keras.Sequential([layers.Dense(4)])
        self.critic = keras.Sequential([layers.Dense(5, activation="tanh"), layers.Dropout(0.2), layers.Dense(1)])
        self.seeds = keras.random.SeedGenerator(4)
        self.of_maker, self.of_critic = optimizers.SGD(0.1), optimizers.SGD(0.1)
        self.seen = keras.metrics.Mean(name="seen")

    @property
    def metrics(self):
        return [self.seen]

    def train_step(self, real):
        noise = keras.random.normal((tf.shape(real)[0], 3), seed=self.seeds)
        with tf.GradientTape() as first, tf.GradientTape() as second:
            made = self.critic(self.maker(noise))
            deceived = tf.reduce_mean(tf.nn.softplus(-made))
            caught = tf.reduce_mean(tf.nn.softplus(made) + tf.nn.softplus(-self.critic(real)))
        for tape, loss, model, optimizer in (
            (first, deceived, self.maker, self.of_maker),
            (second, caught, self.critic, self.of_critic),
        ):
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        self.seen.update_state(deceived)
        return {"seen": self.seen.result()}


@pytest.mark.slow
def test_two_models_under_tapes_without_a_call():
    both(TwoModels, lambda m: m.fit(X, batch_size=20, epochs=2, verbose=0))


def test_predicting_with_a_model_that_was_not_built():
    model = keras.Sequential([layers.Dense(3), layers.Dense(2)])
    found = model.predict(X, batch_size=16, verbose=0)
    np.testing.assert_allclose(found, model(X), rtol=1e-4, atol=1e-5)


def test_control_flow_of_keras_is_a_part_of_the_program():
    ops, x = keras.ops, tf.reshape(tf.range(20.0), (4, 5))

    def everything(i):
        return (
            ops.cond(i > 0, lambda: x, lambda: -x),
            ops.switch(i, [lambda a: a + 1, lambda a: a * 2], x),
            ops.while_loop(lambda k, v: k < i, lambda k, v: (k + 1, v * 2), (0, x))[1],
            ops.fori_loop(0, i, lambda k, v: v + 1, x),
            ops.scan(lambda carry, row: (carry + row, carry), x[0], x)[1],
            ops.map(lambda row: row * 2, x),
            ops.slice(x, [ops.minimum(i, 2), 1], [2, 3]),
            ops.slice_update(x, [i, i], ops.ones((2, 2))),
        )

    compiled = tf.function(everything, autograph=False)
    for i in (0, 1, 9):
        for found, expected in zip(compiled(tf.constant(i)), everything(tf.constant(i)), strict=True):
            np.testing.assert_allclose(found, expected)
    assert compiled.experimental_get_tracing_count() == 1


# -- what is compiled, and what is not -------------------------------------------------------------------------------
@pytest.mark.parametrize("jit_compile", [True, False])
def test_both_values_of_jit_compile_mean_xla(jit_compile):
    seen = []

    class Model(keras.Sequential):
        def train_step(self, data):
            seen.append(tf.executing_eagerly())
            return super().train_step(data)

    model = Model([keras.Input((4,)), layers.Dense(1)])
    model.compile("sgd", "mse", jit_compile=jit_compile)
    model.fit(X, Y, batch_size=10, epochs=2, verbose=0)
    assert seen == [False]
    model.compile("sgd", "mse", run_eagerly=True)
    model.fit(X, Y, batch_size=20, verbose=0)
    assert seen == [False, True, True]


class Curious(layers.Layer):
    def call(self, x):
        return x * 2 if float(keras.ops.mean(x)) > 0 else x


def test_a_layer_that_looks_at_values_runs_eagerly_and_says_so_once(caplog):
    model = both(small(Curious))
    said = [r.getMessage() for r in caplog.records if "could not be compiled" in r.getMessage()]
    assert len(said) == 1
    assert "runs eagerly" in said[0]
    assert "Curious.call" in said[0]
    model.fit(X, Y, verbose=0)
    assert len([r for r in caplog.records if "could not be compiled" in r.getMessage()]) == 1
    caplog.clear()


def test_mistakes_are_raised_as_what_they_are():
    class Wrong(layers.Layer):
        def call(self, x):
            raise KeyError("nothing of that name")

    class Model(keras.Model):
        def train_step(self, data):
            return {"loss": Wrong()(data[0])}

    model = Model()
    model.compile("sgd")
    with pytest.raises(KeyError, match="nothing of that name"):
        model.fit(X, Y, verbose=0)


def test_functions_may_be_told_to_run_eagerly():
    seen = []

    class Model(keras.Sequential):
        def test_step(self, data):
            seen.append(tf.executing_eagerly())
            return super().test_step(data)

    model = Model([keras.Input((4,)), layers.Dense(1)])
    model.compile("sgd", "mse")
    tf.config.run_functions_eagerly(True)
    try:
        model.evaluate(X, Y, batch_size=20, verbose=0)
    finally:
        tf.config.run_functions_eagerly(False)
    assert seen == [True, True]


def test_without_jax_steps_run_on_numpy(monkeypatch):
    monkeypatch.setattr("gradtape._src.function.modes.can_compile", lambda: False)
    model = small()()
    model.compile("sgd", "mse")
    model.fit(X, Y, batch_size=20, verbose=0)
    (function,) = model.train_function._one._functions
    assert function.graph.executor == "numpy"


def test_memory_of_variables_is_reused(by_xla):
    """A compiled step writes new values of variables where the old ones were.

    Its first call copies them, and so does the first call with metrics that were reset: JAX runs Python code there.
    """
    model = small()()
    model.compile(optimizers.Adam(0.01), "mse")
    kernel, buffers = model.layers[0].kernel._value.storage, []
    keep = keras.callbacks.LambdaCallback(on_train_batch_begin=lambda batch, logs: buffers.append(kernel.newest()))
    model.fit(X, Y, batch_size=20, epochs=2, verbose=0, callbacks=[keep])
    copied = [n for n, buffer in enumerate(buffers) if not (hasattr(buffer, "is_deleted") and buffer.is_deleted())]
    assert copied == [0, len(buffers) // 2]
    model.train_on_batch(X[:20], Y[:20])
    model.train_on_batch(X[:20], Y[:20])
    before = kernel.newest()
    model.train_on_batch(X[:20], Y[:20])
    assert before.is_deleted()


# -- Keras on JAX ----------------------------------------------------------------------------------------------------
def computed(name, compiled):
    """What Keras computes on gradtape."""
    model, x, y, loss = keras_models.prepared(keras, name, run_eagerly=not compiled)
    x = tf.constant(x)

    def forward_and_gradients():
        forward = model(x, training=False)
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        return forward, tape.gradient(value, list(model.trainable_variables))

    saved = model.get_weights()
    run = tf.function(forward_and_gradients, autograph=False) if compiled else forward_and_gradients
    forward, gradients = run()
    model.set_weights(saved)
    found = {"forward": forward.numpy(), "losses": keras_models.losses_of(model, x, y)}
    return found | {f"gradient {i}": tf.convert_to_tensor(g).numpy() for i, g in enumerate(gradients)}


def recorded(name, values):
    return {key.partition("/")[2]: value for key, value in values.items() if key.startswith(f"{name}/")}


def assert_same(found, expected):
    assert set(found) == set(expected)
    for key, value in expected.items():
        largest = np.max(np.abs(value))
        np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=2e-5 * max(largest, 0.01), err_msg=key)


IN_A_HURRY = ("mlp", "lstm", "transformer")
COMPILED = [pytest.param(n, marks=() if n in IN_A_HURRY else pytest.mark.slow) for n in keras_models.MODELS]


@pytest.mark.parametrize("name", keras_models.MODELS)
def test_eagerly_as_keras_on_jax(name):
    assert_same(computed(name, compiled=False), recorded(name, np.load(keras_models.RECORD)))


@pytest.mark.parametrize("name", COMPILED)
def test_compiled_as_keras_on_jax(name):
    assert_same(computed(name, compiled=True), recorded(name, np.load(keras_models.RECORD)))


@pytest.mark.slow
def test_the_record_is_what_keras_computes_on_jax(tmp_path):
    path = tmp_path / "now.npz"
    quick = "--xla_backend_optimization_level=0"  # compiling takes most of the time
    environment = {**os.environ, "KERAS_BACKEND": "jax", "XLA_FLAGS": quick}
    subprocess.run([sys.executable, keras_models.__file__, str(path)], env=environment, check=True, timeout=600)
    now, before = dict(np.load(path)), dict(np.load(keras_models.RECORD))
    for name in keras_models.MODELS:
        assert_same(recorded(name, now), recorded(name, before))


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_the_order_of_batches_does_not_depend_on_whether_the_model_is_built(run_eagerly):
    x = np.arange(12, dtype=np.float32)[:, None]
    orders = []

    class Model(keras.Model):
        def call(self, inputs):
            return inputs * self.factor

        def build(self, shape):
            self.factor = self.add_weight(shape=(), initializer="ones")

        def train_step(self, data):
            tf.py_function(lambda values: seen.extend(values.numpy().ravel()), [data[0]], [])
            return super().train_step(data)

    model = Model()
    model.compile("sgd", "mse", run_eagerly=run_eagerly)
    for _ in range(2):
        seen = []
        np.random.seed(3)
        model.fit(x, x, batch_size=4, verbose=0)
        orders.append(seen[-12:])
    assert orders[0] == orders[1]
    assert sorted(orders[0]) == sorted(x.ravel())
