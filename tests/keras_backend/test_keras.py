"""Keras 3 on gradtape: how it comes in, and the patterns of TensorFlow's users with tapes, models and `fit`."""

from __future__ import annotations

import functools
import importlib.util
import os
import pkgutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import gradtape as tf
from gradtape._src import conversion
from gradtape._src.hooks import keras as keras_hook

if importlib.util.find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

# Keras' own remarks, on what these tests do on purpose.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Your input ran out of data"),
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed"),
]

keras_backend = importlib.import_module("gradtape._src.keras_backend")
keras = tf.keras
layers = keras.layers


@pytest.fixture(autouse=True)
def _seeded():
    keras.utils.set_random_seed(7)


def data(rows=64, features=3, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, features)).astype("float32")
    y = (x @ np.arange(1, features + 1, dtype="float32") + 0.5)[:, None]
    return x, y


# -- how Keras comes in ----------------------------------------------------------------------------------------------
def python(code, *arguments, **environment):
    environment = {**os.environ, **environment}
    code = textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, *arguments, "-c", code], capture_output=True, text=True, env=environment, timeout=240
    )
    return done.stdout.strip() if not done.returncode else f"failed: {done.stderr.strip().splitlines()[-1]}"


def test_gradtape_alone_never_imports_keras():
    assert python("import gradtape, sys; print('keras' in sys.modules)") == "False"


@pytest.mark.slow
@pytest.mark.parametrize(
    "code",
    [
        "import gradtape as tf; keras = tf.keras",
        "from gradtape import keras",
        "import gradtape.keras as keras",
        "from gradtape.keras.layers import Dense; from gradtape import keras; assert Dense is keras.layers.Dense",
        "import gradtape; gradtape.install_as_tensorflow(); from tensorflow import keras",
        "import gradtape; gradtape.install_as_tensorflow(); import keras",
        "import gradtape; gradtape.install_as_tensorflow(); from tensorflow.keras import models; import keras",
    ],
)
def test_every_way_in_gives_keras_on_gradtape(code):
    code += "; import gradtape; print(keras.config.backend(), isinstance(keras.ops.ones(2), gradtape.Tensor))"
    name = "tensorflow" if "install_as_tensorflow" in code else "gradtape"  # what such programs compare with
    assert python(code, KERAS_BACKEND="") == f"{name} True"


@pytest.mark.slow
def test_preprocessing_layers_under_tensorflows_name():
    """A trace is gradtape's own there: Keras does not go looking for a graph of TensorFlow's."""
    code = """
        import gradtape
        gradtape.install_as_tensorflow()
        import tensorflow as tf
        model = tf.keras.Sequential([tf.keras.layers.Rescaling(2.0), tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        model.fit(tf.ones([4, 3]), tf.ones([4, 1]), verbose=0)
        print(model.layers[0](tf.ones([2])).numpy().tolist(), model.predict(tf.zeros([1, 3]), verbose=0).shape)
    """
    assert python(code) == "[2.0, 2.0] (1, 1)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "chosen", "file", "backend"),
    [
        ("import gradtape, keras", "gradtape", None, "gradtape"),
        ("import gradtape as tf; import keras", "", None, "gradtape"),  # the default is TensorFlow, which is not there
        ("import gradtape as tf; import keras", "tensorflow", "jax", "gradtape"),
        ("import gradtape as tf; import keras", "numpy", "tensorflow", "numpy"),
        ("import gradtape as tf; import keras", "", "numpy", "numpy"),
        ("import _gradtape_keras, keras", "gradtape", None, "gradtape"),  # what Python does when it starts
        ("import _gradtape_keras, keras, gradtape", "", "tensorflow", "gradtape"),
        ("import _gradtape_keras, keras, gradtape", "", "numpy", "numpy"),
        ("import _gradtape_keras, gradtape, keras", "", "tensorflow", "gradtape"),
    ],
)
def test_a_choice_is_left_alone_and_the_default_is_not(code, chosen, file, backend, tmp_path):
    if file is not None:
        (tmp_path / "keras.json").write_text(f'{{"backend": "{file}"}}')
    code = f"{code}, os; print(keras.config.backend(), os.environ['KERAS_BACKEND'])"
    said = python(code, KERAS_BACKEND=chosen, KERAS_HOME=str(tmp_path))
    assert said == f"{backend} {chosen}".strip()


def test_importing_gradtape_leaves_the_import_system_alone():
    code = """
        import _gradtape_keras, sys
        before = list(sys.meta_path)
        import gradtape
        print(sys.meta_path == before, "gradtape._src.hooks.keras" in sys.modules)
    """
    assert python(code) == "True False"


def test_gradtape_is_imported_for_keras_only_where_it_is_wanted(monkeypatch, tmp_path):
    before = list(sys.meta_path)
    hook = importlib.import_module("_gradtape_keras")
    sys.meta_path[:] = before
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    for chosen, file, backend in [
        ("jax", '{"backend": "torch"}', "jax"),
        ("", '{"backend": "torch"}', "torch"),
        ("", '{"floatx": "float64"}', "tensorflow"),
        ("", "damaged", "tensorflow"),
        ("", "[]", "tensorflow"),
        ("", None, "tensorflow"),
    ]:
        monkeypatch.setenv("KERAS_BACKEND", chosen)
        (tmp_path / "keras.json").unlink(missing_ok=True)
        if file is not None:
            (tmp_path / "keras.json").write_text(file)
        assert hook.chosen_backend() == backend
        assert hook.is_wanted() == (backend == "tensorflow")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    (tmp_path / "tensorflow.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    assert not hook.is_wanted(), "a TensorFlow that is installed is what was chosen"
    assert keras_hook.backend_for("tensorflow") == ("gradtape" if keras_hook._preferred_by else "tensorflow")


@pytest.mark.slow
def test_a_choice_of_another_backend_ends_where_gradtape_keras_is_imported():
    own = "import gradtape, os; print(gradtape.keras.config.backend(), os.environ['KERAS_BACKEND'])"
    assert python(own, KERAS_BACKEND="numpy") == "gradtape numpy", "other processes are not told"


@pytest.mark.slow
def test_a_keras_that_runs_on_something_else_is_refused():
    said = python("import keras, gradtape; gradtape.keras", KERAS_BACKEND="numpy")
    assert said.startswith("failed: ImportError: Keras is already imported, with its numpy backend")


@pytest.mark.slow
def test_versions_that_were_not_tested_are_refused():
    code = """
        from gradtape._src.hooks import keras
        keras.TESTED = ("2.99",)
        import gradtape.keras
    """
    said = python(code)
    assert said.startswith("failed: ImportError: This version of gradtape runs Keras 2.99.*, but Keras 3.")
    assert "pip install 'gradtape[keras]'" in said


@pytest.mark.slow
def test_without_keras_it_says_how_to_install_it():
    code = """
        import sys
        class Hidden:
            def find_spec(self, name, path=None, target=None):
                if name == "keras":
                    raise ModuleNotFoundError("No module named 'keras'", name="keras")
        sys.meta_path.insert(0, Hidden())
        import gradtape
        gradtape.keras
    """
    assert "pip install 'gradtape[keras]'" in python(code)


def test_names_are_keras_own_and_some_of_its_past():
    from gradtape.keras import backend
    from gradtape.keras.layers import Dense

    assert Dense is layers.Dense
    assert float(backend.mean(tf.constant([1.0, 3.0]))) == 2.0
    assert "Sequential" in dir(tf.keras)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = tf.keras.nothing


# Recorded from TensorFlow 2.21: functions of `keras.backend`, which Keras writes in terms of TensorFlow.
BACKEND = {
    "concatenate": (lambda K, x: K.concatenate([x, x]), [[1.0, 2.0, 1.0, 2.0], [3.0, 4.0, 3.0, 4.0]]),
    "repeat_elements": (lambda K, x: K.repeat_elements(x, 2, 1), [[1.0, 1.0, 2.0, 2.0], [3.0, 3.0, 4.0, 4.0]]),
    "conv1d": (lambda K, x: K.conv1d(x[:, :, None], tf.ones([2, 1, 1])), [[[3.0]], [[7.0]]]),
    "conv2d": (lambda K, x: K.conv2d(x[None, :, :, None], tf.ones([2, 2, 1, 1])), [[[[10.0]]]]),
    "rnn": (
        lambda K, x: K.rnn(lambda x, s: (x + s[0], [x + s[0]]), x[:, :, None], [tf.zeros([2, 1])])[0],
        [[3.0], [7.0]],
    ),
    "update": (lambda K, x: K.update(tf.Variable(x), -x), [[-1.0, -2.0], [-3.0, -4.0]]),
    "update_add": (lambda K, x: K.update_add(tf.Variable(x), x), [[2.0, 4.0], [6.0, 8.0]]),
    "switch": (lambda K, x: K.switch(tf.constant(True), lambda: x, lambda: -x), [[1.0, 2.0], [3.0, 4.0]]),
    "eval": (lambda K, x: K.eval(x * 2), [[2.0, 4.0], [6.0, 8.0]]),
    "random_normal_variable": (lambda K, x: tf.shape(K.random_normal_variable((2,), 0.0, 1.0)), [2]),
    "int_shape": (lambda K, x: K.int_shape(x), [2, 2]),
}


@pytest.mark.parametrize("name", BACKEND)
def test_functions_of_keras_past(name):
    call, wanted = BACKEND[name]
    assert np.asarray(call(keras.backend, tf.constant([[1.0, 2.0], [3.0, 4.0]]))).tolist() == wanted


def test_every_public_name_of_keras_is_keras_own():
    """Whatever gradtape's own modules are called: all that TensorFlow's `tf.keras` has is found, and is the same."""
    for module in pkgutil.iter_modules(keras_backend.__path__, "gradtape._src.keras_backend."):
        importlib.import_module(module.name)
    assert [path.name for path in Path(tf.keras.__file__).parent.glob("*.py")] == ["__init__.py"]
    root = importlib.import_module(keras_hook.PUBLIC)
    modules = {"": root} | {
        module.name.removeprefix(root.__name__): importlib.import_module(module.name)
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}.")
    }
    names = 0
    for path, module in modules.items():
        shown = functools.reduce(getattr, path.split(".")[1:], tf.keras)
        assert importlib.import_module(f"gradtape.keras{path}") is shown
        for name in [name for name in dir(module) if not name.startswith("__") or name == "__version__"]:
            assert getattr(shown, name) is getattr(module, name), f"tf.keras{path}.{name}"
            names += 1
    assert names > 1600
    assert {".datasets.mnist", ".backend", ".optimizers.legacy", ".preprocessing.image"} <= modules.keys()


@pytest.mark.slow
@pytest.mark.parametrize("package", ["gradtape", "tensorflow"])
def test_every_form_of_import(package):
    code = f"""
        import gradtape
        gradtape.install_as_tensorflow()
        import {package}.keras.layers as L
        from {package}.keras import backend as K, datasets, layers, utils
        from {package}.keras.datasets import mnist
        from {package}.keras.datasets.cifar10 import load_data
        from {package}.keras.layers import Dense
        from {package}.keras.optimizers.legacy import Adam
        import {package}.keras.applications.vgg16, {package}.keras.datasets.fashion_mnist
        import {package} as tf, keras
        assert L is layers and L.Dense is Dense is keras.layers.Dense
        assert datasets.mnist.load_data is mnist.load_data is tf.keras.datasets.mnist.load_data
        assert load_data is keras.datasets.cifar10.load_data and K is tf.keras.backend
        print(tf.keras.__version__ == keras.__version__, mnist.load_data.__module__)
    """
    assert python(code) == "True keras.src.datasets.mnist"


# -- variables and tapes ---------------------------------------------------------------------------------------------
def test_a_layers_variables_are_watched_sources():
    layer = layers.Dense(2, kernel_initializer="ones")
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x) ** 2)
    kernel, bias = tape.gradient(loss, layer.trainable_variables)
    np.testing.assert_allclose(kernel, [[6.0, 6.0], [12.0, 12.0]])
    np.testing.assert_allclose(bias, [6.0, 6.0])
    assert [v.name for v in tape.watched_variables()] == [f"{v.path}:0" for v in layer.trainable_variables]


def test_what_variables_show_is_what_tensorflows_do():
    """Recorded: where Keras gives a TensorShape with TensorFlow, where a tuple, and which dtypes have 64 bits."""
    layer, x = layers.Dense(2), layers.Input((4,))
    model = keras.Model(x, layer(x))
    optimizer = keras.optimizers.Adam(0.5)
    optimizer.build(model.trainable_variables)
    for variable in (keras.Variable(np.ones((4, 2))), layer.kernel, model.weights[0], optimizer.variables[2]):
        assert type(variable.shape) is tf.TensorShape
        assert variable.shape == [4, 2] == variable.shape.as_list()
        assert variable.shape.rank == 2
        assert variable.shape.num_elements() == np.prod(variable.shape) == 8
        assert type(keras.ops.shape(variable)) is tuple
    for shape in (x.shape, model.output_shape, layer.compute_output_shape((None, 4))):
        assert type(shape) is tuple
    assert optimizer.iterations.dtype == "int64"
    assert type(optimizer.iterations.numpy()) is np.int64
    assert int(optimizer.iterations + tf.constant(1, tf.int64)) == 1
    assert type(optimizer.learning_rate.numpy()) is np.float32
    mean = keras.metrics.Mean()
    mean.update_state([1.0, 2.0])
    assert f"{mean.result():.2f} {mean.result()}" == "1.50 1.5"
    assert f"{keras.Variable(1.5, name='v')}" == "<Variable path=v, shape=(), dtype=float32, value=1.5>"


def test_symbolic_inputs_beside_tensors():
    x = layers.Input((3,))
    for y in (tf.ones([3]) * x, x * tf.ones([3]), tf.ones([3]) - x, tf.ones([3]) / x, tf.ones([3]) ** x):
        assert y.shape == (None, 3)
    for call in (
        tf.reduce_mean,
        tf.shape,
        tf.convert_to_tensor,
        lambda x: tf.concat([x, x], 0),
        tf.Variable,
        lambda x: tf.ones([3]) > x,
    ):
        with pytest.raises(ValueError, match="A KerasTensor cannot be used as input to a TensorFlow function"):
            call(x)


def test_datasets_are_split():
    left, right = keras.utils.split_dataset(tf.data.Dataset.range(10), left_size=0.8)
    assert [int(n) for n in left] == list(range(8))
    left, right = keras.utils.split_dataset(np.arange(10), right_size=3)
    assert [int(n) for n in right] == [7, 8, 9]


def test_watching_before_build_finds_nothing():
    """A layer has no variables before it is built: what is watched then is an empty list, and gradients are None."""
    layer = layers.Dense(1)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(layer.variables)
        loss = tf.reduce_sum(layer(tf.ones((1, 2))))
    assert len(layer.variables) == 2
    assert tape.gradient(loss, layer.variables) == [None, None]


def test_watching_after_build():
    layer = layers.Dense(1)
    layer.build((None, 2))
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(layer.kernel)
        loss = tf.reduce_sum(layer(tf.ones((3, 2))))
    kernel, bias = tape.gradient(loss, layer.variables)
    np.testing.assert_allclose(kernel, [[3.0], [3.0]])
    assert bias is None


def test_a_variable_as_target_and_single_source():
    v = keras.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = v * 3.0
    np.testing.assert_allclose(tape.gradient(v, v), [1.0, 1.0])
    np.testing.assert_allclose(tape.gradient(y, v, output_gradients=[1.0, 10.0]), [3.0, 30.0])
    np.testing.assert_allclose(tape.jacobian(y, v), np.eye(2) * 3)
    np.testing.assert_allclose(tape.jacobian(v, v), np.eye(2))
    np.testing.assert_allclose(tape.jvp(y, v, [1.0, 2.0]), [3.0, 6.0])
    np.testing.assert_allclose(tape.batch_gradient(y, v), np.eye(2) * 3)


def test_jacobian_of_an_output_by_the_weights():
    layer = layers.Dense(3, activation="tanh")
    x = tf.constant(data(5)[0])
    with tf.GradientTape(persistent=True) as tape:
        y = layer(x)
    kernel, bias = tape.jacobian(y, layer.trainable_variables)
    assert kernel.shape == (5, 3, 3, 3)
    assert bias.shape == (5, 3, 3)
    slope = 1 - y.numpy() ** 2
    np.testing.assert_allclose(bias, slope[:, :, None] * np.eye(3), atol=1e-6)
    expected = np.einsum("bi,bj,jk->bjik", x.numpy(), slope, np.eye(3))
    np.testing.assert_allclose(kernel, expected, atol=1e-6)


def test_hessians_and_forward_mode():
    v = keras.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(v * v * v)
    np.testing.assert_allclose(tape.hessian(y, v), np.diag([6.0, 12.0]))
    with tf.autodiff.ForwardAccumulator(v, tf.constant([1.0, 0.0])) as forward:
        y = v * v
    np.testing.assert_allclose(forward.jvp(y), [2.0, 0.0])


def test_views_take_keras_variables():
    layer = layers.Dense(1)
    layer.build((None, 2))
    with tf.GradientTape(persistent=True) as tape:
        y = tf.stop_gradient(layer(tf.ones((1, 2))))
    assert tape.gradient(y, layer.kernel) is None
    assert "stop_gradient" in str(tape.explain(y, layer.kernel))
    assert tf.is_tensor(layer.kernel)


def test_custom_gradients_know_keras_variables():
    v = keras.Variable(2.0)

    @tf.custom_gradient
    def doubled(x):
        return x * 2.0, lambda upstream: upstream * 100.0

    with tf.GradientTape() as tape:
        y = doubled(v)
    assert float(tape.gradient(y, v)) == 100.0


def test_a_division_by_zero_that_gives_zero_has_no_gradient():
    x, y = tf.Variable([1.0, 2.0]), tf.Variable([0.0, 2.0])
    with tf.GradientTape() as tape:
        quotient = keras.ops.divide_no_nan(x, y)
    by_x, by_y = tape.gradient(quotient, [x, y])
    np.testing.assert_array_equal(by_x, [0.0, 0.5])
    np.testing.assert_array_equal(by_y, [0.0, -0.5])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(("axis", "low", "high"), [(None, 3.0, 1.0), (1, [1.0, 2.0], [1.0, 0.0])])
def test_fake_quantization_has_gradients_for_its_range(axis, low, high, compiled):
    x = tf.constant([[-1.0, 5.1], [0.3, -2.0], [70.0, -3.0], [10.2, 63.0]])
    least, most = tf.constant(-0.1, shape=np.shape(low)), tf.constant(63.4, shape=np.shape(high))

    def quantized():
        with tf.GradientTape() as tape:
            tape.watch([x, least, most])
            y = keras.quantizers.fake_quant_with_min_max_vars(x, least, most, num_bits=7, axis=axis)
        return y, *tape.gradient(y, [x, least, most])

    y, *gradients = tf.function(quantized)() if compiled else quantized()
    # 7 bits from -0.1 to 63.4 are steps of 0.5 from 0 to 63.5
    np.testing.assert_allclose(y, [[0.0, 5.0], [0.5, 0.0], [63.5, 0.0], [10.0, 63.0]])
    np.testing.assert_array_equal(gradients[0], [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    np.testing.assert_array_equal(gradients[1], low)
    np.testing.assert_array_equal(gradients[2], high)


def test_two_models_under_one_tape():
    encoder, decoder = layers.Dense(2, use_bias=False), layers.Dense(3, use_bias=False)
    x = tf.constant(data(4)[0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((decoder(encoder(x)) - x) ** 2)
    of_both = tape.gradient(loss, [encoder.trainable_variables, decoder.trainable_variables])
    assert [[tuple(g.shape) for g in part] for part in of_both] == [[(3, 2)], [(2, 3)]]
    e, d = encoder.kernel.numpy(), decoder.kernel.numpy()
    residual = 2 * (x.numpy() @ e @ d - x.numpy()) / x.numpy().size
    np.testing.assert_allclose(of_both[1][0], (x.numpy() @ e).T @ residual, rtol=1e-4, atol=1e-6)


def test_shared_layers_add_up():
    shared = layers.Dense(1, use_bias=False, kernel_initializer="ones")
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(shared(tf.constant([[2.0]])) * shared(tf.constant([[3.0]])))
    np.testing.assert_allclose(tape.gradient(y, shared.kernel), [[12.0]])


def test_predict_has_no_gradient_and_calling_has():
    model = keras.Sequential([layers.Dense(1)])
    x = tf.constant(data(4)[0])
    model(x)
    with tf.GradientTape(persistent=True) as tape:
        predicted = tf.reduce_sum(tf.constant(model.predict(x, verbose=0)))
        called = tf.reduce_sum(model(x))
    assert tape.gradient(predicted, model.trainable_variables) == [None, None]
    assert all(g is not None for g in tape.gradient(called, model.trainable_variables))


def test_stateless_calls_differentiate_too():
    model = keras.Sequential([keras.Input((2,)), layers.Dense(1, use_bias=False)])
    values = [tf.constant([[1.0], [2.0]])]
    with tf.GradientTape() as tape:
        tape.watch(values)
        y, _ = model.stateless_call(values, [], tf.constant([[3.0, 4.0]]))
    assert float(tf.reduce_sum(y)) == 11.0
    np.testing.assert_allclose(tape.gradient(y, values)[0], [[3.0], [4.0]])


# -- training loops --------------------------------------------------------------------------------------------------
def test_regression_with_a_tape_and_plain_variables():
    x, y = data()
    w, b = tf.Variable(tf.zeros((3, 1))), tf.Variable(0.0)
    optimizer = keras.optimizers.Adam(0.1)
    for _ in range(300):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((x @ w + b - y) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, [w, b]), [w, b], strict=True))
    np.testing.assert_allclose(w.numpy().ravel(), [1.0, 2.0, 3.0], atol=0.02)
    assert int(optimizer.iterations) == 300


def test_a_custom_training_step_with_adam():
    x, y = data()
    model = keras.Sequential([layers.Dense(16, activation="relu"), layers.Dense(1)])
    optimizer, loss_of = keras.optimizers.Adam(0.05), keras.losses.MeanSquaredError()
    tracker = keras.metrics.Mean()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        tracker.update_state(loss)
        return loss

    losses = [float(step(tf.constant(x), tf.constant(y))) for _ in range(100)]
    assert losses[-1] < 0.05 * losses[0]
    np.testing.assert_allclose(float(tracker.result()), np.mean(losses), rtol=1e-5)


def test_an_overridden_train_step():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = layers.Dense(1)
            self.seen = keras.metrics.Mean(name="seen")

        def call(self, x):
            return self.dense(x)

        def train_step(self, data):
            x, y = data
            with tf.GradientTape() as tape:
                y_pred = self(x, training=True)
                loss = self.compute_loss(y=y, y_pred=y_pred)
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            self.seen.update_state(loss)
            return {"seen": self.seen.result()}

    x, y = data()
    model = Model()
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
    history = model.fit(x, y, epochs=5, verbose=0).history
    assert set(history) == {"seen"}
    assert history["seen"][-1] < 0.1 * history["seen"][0]


@pytest.mark.parametrize("steps_per_execution", [1, 3])
def test_fit_evaluate_predict(steps_per_execution, capsys):
    x, y = data(70)
    model = keras.Sequential([keras.Input((3,)), layers.Dense(8, activation="relu"), layers.Dense(1)])
    model.compile("adam", "mse", metrics=["mae"], steps_per_execution=steps_per_execution, jit_compile=False)
    seen = []
    notes = keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(sorted(logs)))
    history = model.fit(x, y, epochs=3, batch_size=16, validation_split=0.2, callbacks=[notes], verbose=2).history
    assert seen == [["loss", "mae", "val_loss", "val_mae"]] * 3
    assert history["loss"][-1] < history["loss"][0]
    assert "Epoch 3/3" in capsys.readouterr().out
    loss, mae = model.evaluate(x, y, verbose=0)
    predicted = model.predict(x, verbose=0)
    np.testing.assert_allclose(loss, np.mean((predicted - y) ** 2), rtol=1e-4)
    np.testing.assert_allclose(mae, np.mean(np.abs(predicted - y)), rtol=1e-4)
    assert isinstance(predicted, np.ndarray)
    np.testing.assert_allclose(predicted, model.predict_on_batch(x), rtol=1e-5)


def test_single_batches():
    x, y = data()
    model = keras.Sequential([layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    first = model.train_on_batch(x, y)
    for _ in range(20):
        last = model.train_on_batch(x, y, return_dict=True)
    assert last["loss"] < 0.1 * first
    assert model.test_on_batch(x, y) <= last["loss"]


def test_generators_and_py_datasets():
    x, y = data()

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 4

        def __getitem__(self, i):
            return x[i * 16 : i * 16 + 16], y[i * 16 : i * 16 + 16]

    def generator():
        while True:
            yield x[:16], y[:16]

    model = keras.Sequential([layers.Dense(1)])
    model.compile("adam", "mse")
    assert len(model.fit(Batches(), epochs=2, verbose=0).history["loss"]) == 2
    assert len(model.fit(generator(), steps_per_epoch=3, epochs=2, verbose=0).history["loss"]) == 2
    assert model.predict(Batches(), verbose=0).shape == (64, 1)


def test_frozen_layers_do_not_learn():
    x, y = data()
    model = keras.Sequential([keras.Input((3,)), layers.Dense(4), layers.Dense(1)])
    model.layers[0].trainable = False
    model.compile(keras.optimizers.SGD(0.05), "mse")
    before = [w.copy() for w in model.get_weights()]
    model.fit(x, y, verbose=0)
    after = model.get_weights()
    np.testing.assert_array_equal(before[0], after[0])
    assert not np.array_equal(before[2], after[2])


def test_add_loss_and_regularizers():
    class Active(layers.Layer):
        def call(self, x):
            self.add_loss(0.5 * tf.reduce_mean(x**2))
            return x

    x = tf.ones((2, 3))
    model = keras.Sequential([Active(), layers.Dense(1, kernel_initializer="ones", kernel_regularizer="l2")])
    model(x)
    np.testing.assert_allclose(sum(float(loss) for loss in model.losses), 0.5 + 0.01 * 3)


def test_gradient_accumulation_is_one_large_batch():
    x, y = data(8)

    def trained(**options):
        keras.utils.set_random_seed(3)
        model = keras.Sequential([keras.Input((3,)), layers.Dense(1)])
        model.compile(keras.optimizers.SGD(0.1, **options), "mse")
        size = 8 // options.get("gradient_accumulation_steps", 1)
        model.fit(x, y, batch_size=size, shuffle=False, verbose=0)
        return model.get_weights()

    for whole, parts in zip(trained(), trained(gradient_accumulation_steps=4), strict=True):
        np.testing.assert_allclose(whole, parts, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("clip", [{"clipnorm": 0.1}, {"global_clipnorm": 0.1}, {"clipvalue": 0.1}])
def test_clipping_arguments(clip):
    v = tf.Variable([3.0, -4.0])
    keras.optimizers.SGD(1.0, **clip).apply_gradients([(tf.constant([30.0, -40.0]), v)])
    moved = np.array([3.0, -4.0]) - v.numpy()
    np.testing.assert_allclose(moved, [0.1, -0.1] if "clipvalue" in clip else [0.06, -0.08], rtol=1e-5)


# -- embeddings, sequences, precision --------------------------------------------------------------------------------
def test_embeddings_have_sparse_gradients_that_optimizers_take():
    table = layers.Embedding(10, 2, embeddings_initializer="ones")
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(table(tf.constant([[1, 1, 3]])) * 2.0)
    gradient = tape.gradient(loss, table.embeddings)
    assert isinstance(gradient, tf.IndexedSlices)
    expected = np.ones((10, 2), "float32")
    expected[1] -= 0.1 * 4
    expected[3] -= 0.1 * 2
    keras.optimizers.SGD(0.1).apply_gradients([(gradient, table.embeddings)])
    np.testing.assert_allclose(table.embeddings.numpy(), expected, rtol=1e-6)


def test_plain_descent_touches_only_the_rows(monkeypatch):
    table = tf.Variable(tf.ones((5, 2)))
    rows = tf.IndexedSlices(tf.ones((2, 2)), tf.constant([1, 1]), tf.constant([5, 2]))
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build([table])
    monkeypatch.delitem(conversion.converters, tf.IndexedSlices)  # nothing can make a dense tensor of them now
    optimizer.apply_gradients([(rows, table)])
    np.testing.assert_allclose(table.numpy()[:, 0], [1.0, 0.0, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop", "Adagrad", "Adamax", "Nadam", "Ftrl", "Lion"])
def test_sparse_gradients_do_what_dense_ones_do(name):
    def trained(dense):
        table = tf.Variable(tf.ones((5, 2)))
        optimizer = getattr(keras.optimizers, name)(0.1)
        for _ in range(3):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.gather(table, [0, 2, 2]) ** 2)
            gradient = tape.gradient(loss, table)
            assert isinstance(gradient, tf.IndexedSlices)
            optimizer.apply_gradients([(tf.convert_to_tensor(gradient) if dense else gradient, table)])
        return table.numpy()

    np.testing.assert_allclose(trained(dense=False), trained(dense=True), rtol=1e-6)


def test_masks_hide_padding():
    model = keras.Sequential([layers.Embedding(10, 4, mask_zero=True), layers.LSTM(3)])
    whole, padded = model(np.array([[1, 2]])), model(np.array([[1, 2, 0, 0]]))
    np.testing.assert_allclose(whole, padded, atol=1e-6)


@pytest.mark.parametrize("cell", ["LSTM", "GRU", "SimpleRNN"])
def test_recurrent_layers_learn(cell):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 6, 2)).astype("float32")
    y = x.sum(axis=(1, 2), keepdims=True)[:, 0]
    model = keras.Sequential([getattr(layers, cell)(8), layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.02), "mse")
    history = model.fit(x, y, epochs=15, verbose=0).history["loss"]
    assert history[-1] < 0.5 * history[0]


def test_recurrent_outputs_step_by_step():
    layer = layers.SimpleRNN(2, return_sequences=True, return_state=True)
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 4, 2)).astype("float32"))
    outputs, state = layer(x)
    h = np.zeros((3, 2), "float32")
    kernel, recurrent, bias = layer.get_weights()
    for t in range(4):
        h = np.tanh(x.numpy()[:, t] @ kernel + h @ recurrent + bias)
        np.testing.assert_allclose(outputs[:, t], h, atol=1e-5)
    np.testing.assert_allclose(state, h, atol=1e-5)


def test_mixed_precision_keeps_variables_wide():
    x, y = data()
    model = keras.Sequential([keras.Input((3,)), layers.Dense(4, dtype="mixed_float16"), layers.Dense(1)])
    assert model.layers[0].compute_dtype == "float16"
    assert model.layers[0].kernel.dtype == "float32"
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.05), initial_scale=256.0), "mse")
    history = model.fit(x, y, epochs=20, verbose=0).history["loss"]
    assert history[-1] < 0.3 * history[0]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(model.layers[0](tf.constant(x)), tf.float32))
    assert tape.gradient(loss, model.layers[0].kernel).dtype == tf.float32


# -- shapes without values, saving -----------------------------------------------------------------------------------
def test_symbolic_shapes_with_unknown_batch_and_length():
    inputs = keras.Input((None, 4))
    assert layers.LSTM(3, return_sequences=True)(inputs).shape == (None, None, 3)

    class Own(layers.Layer):
        def call(self, x):
            return tf.reduce_sum(x, axis=1), tf.transpose(x, [0, 2, 1])

    total, turned = Own()(inputs)
    assert (total.shape, turned.shape) == ((None, 4), (None, 4, None))


def test_shape_inference_is_seen_by_no_tape_and_changes_nothing():
    class Counting(layers.Layer):
        def build(self, shape):
            self.calls = self.add_weight(shape=(), initializer="zeros", trainable=False)

        def call(self, x):
            self.calls.assign_add(1.0)
            return x * 2.0

    layer = Counting()
    with tf.GradientTape() as tape:
        layer(keras.Input((3,)))
    assert tape.records == []
    assert float(layer.calls) == 0.0
    layer(tf.ones((1, 3)))
    assert float(layer.calls) == 1.0


@pytest.mark.parametrize("name", ["model.keras", "model.h5", "model.weights.h5"])
def test_a_save_that_is_cut_off_leaves_the_old_file(tmp_path, monkeypatch, name):
    import h5py

    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), keras.layers.Dense(1)])
    save = model.save_weights if name == "model.weights.h5" else model.save
    save(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    create, left = h5py.Group.create_dataset, [2]

    def cut_off(*args, **options):
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return create(*args, **options)

    monkeypatch.setattr(h5py.Group, "create_dataset", cut_off)
    with pytest.raises(KeyboardInterrupt):
        save(tmp_path / name)
    assert (tmp_path / name).read_bytes() == before
    monkeypatch.undo()
    model.layers[0].bias.assign([1.0, 2.0])
    save(str(tmp_path / name))
    assert (tmp_path / name).read_bytes() != before
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(FileNotFoundError):  # as Keras says it
        model.save_weights(tmp_path / "missing" / "name.weights.h5")


def test_saving_and_loading(tmp_path):
    x, y = data()
    model = keras.Sequential([keras.Input((3,)), layers.Dense(4, activation="relu"), layers.Dense(1)])
    model.compile("adam", "mse")
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    again = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(model.predict(x, verbose=0), again.predict(x, verbose=0))
    np.testing.assert_allclose(model.train_on_batch(x, y), again.train_on_batch(x, y), rtol=1e-6)
    np.testing.assert_allclose(model.get_weights()[0], again.get_weights()[0], rtol=1e-6)  # the optimizer came along
    model.save_weights(tmp_path / "model.weights.h5")
    fresh = keras.models.clone_model(model)
    fresh.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(model.predict(x, verbose=0), fresh.predict(x, verbose=0))


@pytest.mark.slow
def test_files_are_read_by_other_backends(tmp_path):
    model = keras.Sequential([keras.Input((3,)), layers.Dense(2, activation="tanh")])
    model.save(tmp_path / "model.keras")
    code = """
        import keras, numpy as np, sys
        print(keras.config.backend(), keras.saving.load_model(sys.argv[1])(np.ones((1, 3), "float32")).tolist())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "model.keras")],
        capture_output=True,
        text=True,
        env={**os.environ, "KERAS_BACKEND": "numpy"},
        timeout=240,
        check=True,
    )
    name, _, values = done.stdout.strip().partition(" ")
    assert name == "numpy"
    np.testing.assert_allclose(np.array(eval(values)), model(np.ones((1, 3), "float32")), rtol=1e-5)


@pytest.mark.slow
def test_a_sample_of_keras_own_tests():
    """The whole of them, and what is excused, is for tests/keras_suite/run.py."""
    areas = ["losses", "regularizers", "constraints", "random", "layers/merging", "optimizers/adam_test.py"]
    command = [sys.executable, str(Path(__file__).parents[1] / "keras_suite" / "run.py"), *areas]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout
    assert "layers/merging" in done.stdout


def test_one_seed_for_keras_and_for_tensors():
    keras.utils.set_random_seed(3)
    first = tf.random.normal([3])
    keras.utils.set_random_seed(3)
    np.testing.assert_array_equal(tf.random.normal([3]), first)


@pytest.mark.parametrize(
    ("draw", "expected"),
    [  # what Keras 3 gives on TensorFlow 2.21, with seed 1337
        (lambda r, seed: r.normal([6], seed=seed), [0.6078, -0.88918, -0.28571, 0.19589, 0.43137, -1.28383]),
        (lambda r, seed: r.uniform([6], 1.0, 3.0, seed=seed), [2.11977, 1.80914, 2.88353, 2.69131, 1.79931, 1.89682]),
        (lambda r, seed: r.uniform([4], dtype="float16", seed=seed), [0.56543, 0.23926, 0.92871, 0.60938]),
        (lambda r, seed: r.truncated_normal([6], seed=seed), [0.6078, -0.88918, -0.28571, 0.19589, 1.6133, 0.80104]),
        (lambda r, seed: r.randint([6], 0, 100, seed=seed), [35, 85, 63, 4, 84, 58]),
        (lambda r, seed: r.categorical(np.array([[0.1, 0.5, 0.2]]), 6, seed=seed), [[1, 1, 0, 2, 0, 2]]),
        (lambda r, seed: r.gamma([6], 2.0, seed=seed), [0.55691, 0.64938, 1.13939, 2.38765, 2.05502, 4.49841]),
        (lambda r, seed: r.beta([6], 2.0, 3.0, seed=seed), [0.26633, 0.15442, 0.48489, 0.45773, 0.25543, 0.90148]),
        (lambda r, seed: r.binomial([6], 10, 0.3, seed=seed), [3, 3, 3, 4, 4, 4]),
        (lambda r, seed: r.shuffle(np.arange(8), seed=seed)[:6], [4, 1, 5, 7, 0, 6]),
        (lambda r, seed: r.dropout(np.ones(6, "float32"), 0.5, seed=seed), [2, 0, 2, 2, 0, 0]),
        (
            lambda r, seed: keras.initializers.GlorotUniform(seed=seed)((4, 5))[0],
            [0.09779, -0.15584, 0.7214, 0.56445, -0.16386],
        ),
        (
            lambda r, seed: keras.initializers.Orthogonal(seed=seed)((4, 5))[0],
            [0.41635, 0.29549, 0.51616, -0.03033, -0.68702],
        ),
    ],
)
def test_random_functions_give_the_numbers_of_keras_on_tensorflow(draw, expected):
    np.testing.assert_allclose(np.asarray(draw(keras.random, 1337), np.float64), expected, atol=1e-5)


def test_random_functions_follow_their_seeds():
    first = keras.random.normal((3,), seed=keras.random.SeedGenerator(5))
    again = keras.random.normal((3,), seed=keras.random.SeedGenerator(5))
    np.testing.assert_array_equal(first, again)
    dropped = layers.Dropout(0.5, seed=1)(tf.ones((1000,)), training=True).numpy()
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert 400 < np.count_nonzero(dropped) < 600


def test_names_of_keras_that_tensorflow_leaves_out():
    for name in ("mean_squared_error", "mean_absolute_error", "kl_divergence", "log_cosh"):
        assert getattr(tf.keras.losses, name) is getattr(keras.losses, name)
    assert tf.keras.metrics.mean_squared_error is tf.losses.mean_squared_error
