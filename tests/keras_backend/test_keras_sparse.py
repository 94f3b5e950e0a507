"""Sparse tensors in Keras: the same numbers as dense ones give, without ever writing these out where nothing asks."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import gradtape as tf
from gradtape._src import conversion

if importlib.util.find_spec("keras") is None:
    pytest.skip("Keras is not installed", allow_module_level=True)

keras = tf.keras
layers, ops = keras.layers, keras.ops
backend = importlib.import_module("keras.src.backend")
core = importlib.import_module("gradtape._src.keras_backend.core")


def sparse(seed=0, shape=(4, 5), dtype="float64", share=0.4):
    rng = np.random.default_rng(seed)
    return tf.sparse.from_dense((4 * rng.normal(size=shape)).astype(dtype) * (rng.random(shape) < share))


def slices(seed=0, indices=(3, 0, 3), shape=(4, 5)):
    rows = np.random.default_rng(seed).normal(size=(len(indices), *shape[1:]))
    return tf.IndexedSlices(tf.constant(rows), tf.constant(indices), tf.constant(shape))


def full(x):
    return backend.convert_to_numpy(x)


def is_sparse(x):
    return isinstance(x, (tf.SparseTensor, tf.IndexedSlices))


@pytest.fixture
def nothing_is_written_out(monkeypatch):
    """Makes a conversion to a dense tensor an error."""

    def refuse(x):
        raise ValueError("Attempt to convert a value")

    monkeypatch.setattr(core, "to_dense", refuse)
    monkeypatch.delitem(conversion.converters, tf.IndexedSlices)


UNARY = {
    "negative": lambda x: ops.negative(x),
    "square": lambda x: ops.square(x),
    "tanh": lambda x: ops.tanh(x),
    "expm1": lambda x: ops.expm1(x),
    "sign": lambda x: ops.sign(x),
    "round": lambda x: ops.round(x, 1),
    "sum over rows": lambda x: ops.sum(x, axis=1),
    "mean": lambda x: ops.mean(x, axis=-1, keepdims=True),
    "scaled": lambda x: ops.divide(ops.multiply(2, x), 3.0),
    "times dense": lambda x: ops.multiply(x, tf.constant(np.arange(20.0).reshape(4, 5))),
    "times a row": lambda x: ops.multiply(tf.constant(np.arange(5.0)), x),
    "over dense": lambda x: ops.divide(x, tf.constant(np.arange(1.0, 21.0).reshape(4, 5))),
}
ELEMENTS_ONLY = {
    "reshape": lambda x: ops.reshape(x, (2, -1)),
    "transpose": lambda x: ops.transpose(x),
    "expand and squeeze": lambda x: ops.squeeze(ops.expand_dims(x, 1), 1),
    "sum of all": lambda x: ops.sum(x),
    "sum over columns": lambda x: ops.sum(x, axis=0),
    "broadcast": lambda x: ops.add(x, ops.expand_dims(x, 1)),
    "concatenate": lambda x: ops.concatenate([x, ops.negative(x)], axis=-1),
    "product": lambda x: ops.matmul(x, ops.transpose(x)),
    "vector": lambda x: ops.matmul(x, ops.sum(x, axis=0)),
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("make", [sparse, slices])
def test_functions_of_one_tensor_keep_it_sparse(name, make, request):
    x = make()
    expected = full(UNARY[name](tf.constant(full(x))))
    request.getfixturevalue("nothing_is_written_out")
    found = UNARY[name](x)
    assert is_sparse(found)
    request.getfixturevalue("monkeypatch").undo()
    np.testing.assert_allclose(full(found), expected, rtol=1e-12)


def test_what_is_not_zero_at_zero_is_written_out(request):
    x, y = sparse(), slices()
    np.testing.assert_allclose(ops.exp(x), np.exp(full(x)), rtol=1e-12)
    np.testing.assert_allclose(ops.add(y, 1.0), full(y) + 1.0, rtol=1e-12)
    request.getfixturevalue("nothing_is_written_out")
    for function in (lambda: ops.exp(x), lambda: ops.add(y, 1.0)):
        with pytest.raises(ValueError, match="Attempt to convert a value"):
            function()


@pytest.mark.parametrize("name", ELEMENTS_ONLY)
def test_elements_move_and_meet(name, request):
    x = sparse()
    expected = full(ELEMENTS_ONLY[name](tf.constant(full(x))))
    request.getfixturevalue("nothing_is_written_out")
    found = ELEMENTS_ONLY[name](x)
    assert isinstance(found, tf.SparseTensor)
    request.getfixturevalue("monkeypatch").undo()
    np.testing.assert_allclose(full(found), expected, rtol=1e-12)


@pytest.mark.parametrize("name", ["add", "subtract", "maximum", "minimum", "fmax", "multiply"])
def test_functions_of_two_unite_or_intersect(name, request):
    function = getattr(ops, name)
    pairs = [(sparse(0), sparse(1)), (slices(0), slices(1, indices=(1, 3, 1)))]
    expected = [full(function(tf.constant(full(x)), tf.constant(full(y)))) for x, y in pairs]
    request.getfixturevalue("nothing_is_written_out")
    found = [function(x, y) for x, y in pairs]
    request.getfixturevalue("monkeypatch").undo()
    for result, (x, _), wanted in zip(found, pairs, expected, strict=True):
        assert type(result) is type(x)
        np.testing.assert_allclose(full(result), wanted, rtol=1e-12)


@pytest.mark.parametrize("make", [sparse, slices])
def test_quotients_have_values_where_the_divisor_has_none(make):
    divisor = np.arange(20.0).reshape(4, 5)
    divisor[2, 2] = np.nan
    for by in (divisor, 0.0, np.array([0.0, 1.0, 2.0, 3.0, 4.0])):
        with np.errstate(all="ignore"):
            expected = full(make()) / by
        np.testing.assert_allclose(full(ops.divide(make(), tf.constant(by))), expected)
    assert not is_sparse(ops.divide(2.0, make()))
    assert not is_sparse(ops.divide(make(), make()))


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32", "int8"])
@pytest.mark.parametrize("rank", [2, 3, 4])
def test_products_of_matrices(dtype, rank):
    lead = (2, 3)[: rank - 2]
    x, y = sparse(0, (*lead, 4, 5), dtype), sparse(1, (*lead, 5, 3), dtype)
    wide = "int32" if dtype == "int8" else dtype
    expected = np.matmul(full(x).astype(wide), full(y).astype(wide))
    both = ops.matmul(x, y)
    assert isinstance(both, tf.SparseTensor)
    assert both.dtype.name == wide
    for product in (both, ops.matmul(x, full(y)), ops.matmul(full(x), y)):
        np.testing.assert_allclose(full(product), expected, rtol=1e-2 if dtype == "float16" else 1e-5, atol=1e-2)


def test_a_product_broadcasts_and_checks_its_shapes():
    x, y = sparse(0, (2, 1, 4, 5)), sparse(1, (3, 5, 2))
    np.testing.assert_allclose(full(ops.matmul(x, y)), full(x) @ full(y), rtol=1e-12)
    with pytest.raises(ValueError, match=r"must have the same size. Received: x1.shape=\(4, 5\), x2.shape=\(4, 5\)"):
        ops.matmul(sparse(0), sparse(1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: ops.matmul(x, w),
        lambda x, w: ops.matmul(ops.transpose(w), ops.transpose(x)),
        lambda x, w: ops.matmul(ops.matmul(x, ops.transpose(x)), w[:4]),
        lambda x, w: ops.sum(ops.multiply(ops.tanh(x), w[:4, :1]), axis=0),
        lambda x, w: ops.mean(ops.square(ops.add(x, ops.multiply(x, 2.0)))),
        lambda x, w: ops.exp(ops.concatenate([x, ops.divide(x, w[:4, :1])], axis=1)),
    ],
)
def test_tapes_differentiate_by_values_and_by_what_they_meet(function):
    values, where = tf.Variable(sparse().values), sparse().indices
    weights = tf.Variable(np.random.default_rng(2).normal(size=(5, 3)))

    def gradients(convert):
        with tf.GradientTape() as tape:
            result = function(convert(tf.SparseTensor(where, values, (4, 5))), weights.value())
            loss = tf.reduce_sum(backend.convert_to_tensor(result, sparse=False) ** 2)
        return [full(g) for g in tape.gradient(loss, [values, weights], unconnected_gradients="zero")]

    for found, expected in zip(gradients(lambda x: x), gradients(tf.sparse.to_dense), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert np.any(gradients(lambda x: x)[0])


def test_counting_and_hot_vectors():
    x = np.array([[3, 0, 3], [1, -1, 2]])
    for axis in (-1, 0, 1):
        hot = ops.one_hot(x, 4, axis=axis, sparse=True)
        assert isinstance(hot, tf.SparseTensor)
        np.testing.assert_array_equal(full(hot), ops.one_hot(x, 4, axis=axis))
    np.testing.assert_array_equal(full(ops.multi_hot(x, 4, sparse=True)), ops.multi_hot(x, 4))
    weights = np.arange(6.0).reshape(2, 3)
    for given in (None, weights):
        counts = ops.bincount(np.abs(x), weights=given, minlength=6, sparse=True)
        np.testing.assert_array_equal(full(counts), ops.bincount(np.abs(x), weights=given, minlength=6))
    some = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [2, 3, 3], (2, 3))  # numbers that are left out do not count
    for given in (weights, tf.sparse.from_dense(weights)):
        counts = ops.bincount(some, weights=given)
        np.testing.assert_array_equal(full(counts), [[0, 0, 1, 0], [0, 0, 0, 8]])
    with pytest.raises(ValueError, match="must not have negative elements"):
        ops.bincount(x, sparse=True)


def test_truths_and_single_elements():
    for x in (sparse(), ops.sum(sparse())):
        found = ops.signbit(x)
        assert isinstance(found, tf.SparseTensor)
        np.testing.assert_array_equal(full(found), np.signbit(full(x)))
    np.testing.assert_array_equal(full(ops.maximum(ops.signbit(x), ops.signbit(x))), np.signbit(full(x)))


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match=r"same shape, except for axis 0. Received: shapes \[\(4, 5\), \(5, 4\)\]"):
        ops.concatenate([sparse(), ops.transpose(sparse())], axis=0)


def test_conversions():
    x = sparse()
    assert ops.is_tensor(x)
    assert ops.shape(x) == (4, 5)
    assert ops.convert_to_tensor(x) is x
    assert ops.convert_to_tensor(x, dtype="float32").dtype == tf.float32
    assert ops.cast(x, "int32").values.dtype == tf.int32
    dense = ops.convert_to_tensor(x, sparse=False)
    assert isinstance(dense, tf.Tensor)
    np.testing.assert_array_equal(dense, full(x))
    np.testing.assert_array_equal(full((x * 2.0) / np.arange(1.0, 6.0)), full(x) * 2 / np.arange(1, 6))


def test_what_a_function_says_of_its_result_is_what_it_gives():
    def function(x, y):
        return ops.add(x, x), ops.add(x, y), ops.multiply(x, y), ops.exp(x), ops.matmul(x, ops.transpose(x))

    spec = backend.compute_output_spec(
        function, keras.KerasTensor((None, 5), sparse=True), keras.KerasTensor((None, 5))
    )
    found = function(sparse(dtype="float32"), ops.ones((4, 5)))
    assert [s.sparse for s in spec] == [is_sparse(result) for result in found] == [True, False, True, False, True]
    assert [s.shape for s in spec] == [(None, 5)] * 4 + [(None, None)]


def test_a_functional_model_takes_sparse_inputs():
    inputs = keras.Input((5,), sparse=True)
    hidden = layers.Dense(3, activation="tanh")(layers.Add()([inputs, inputs]))
    model = keras.Model(inputs, layers.Dense(1)(hidden))
    assert inputs.sparse
    x = sparse(dtype="float32")
    np.testing.assert_allclose(model(x), model(full(x)), rtol=1e-5)
    again = keras.Model.from_config(model.get_config())
    assert again.inputs[0].sparse


def test_the_gradient_of_a_kernel_by_sparse_inputs_is_in_rows():
    x = tf.SparseTensor([[0, 1], [1, 700]], [2.0, 3.0], (2, 1000))
    layer = layers.Dense(4, kernel_initializer="ones")
    layer.build((2, 1000))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x))
    gradient = tape.gradient(loss, layer.kernel)
    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.indices.numpy().tolist() == [1, 700]
    np.testing.assert_array_equal(gradient.values, [[2.0] * 4, [3.0] * 4])


def kinds_of_data():
    x = full(sparse(0, (10, 6), "float32"))
    yield "sparse tensor", tf.sparse.from_dense(x)
    scipy = pytest.importorskip("scipy.sparse")
    yield "scipy", scipy.csr_matrix(x)


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_training_on_sparse_data_is_training_on_dense_data(run_eagerly):
    y = np.random.default_rng(1).normal(size=(10, 1)).astype("float32")

    def trained(x):
        keras.utils.set_random_seed(0)
        model = keras.Sequential([layers.Dense(4, activation="tanh"), layers.Dense(1)])
        model.compile(keras.optimizers.Adam(0.1), "mse", run_eagerly=run_eagerly)
        model.fit(x, y, batch_size=4, epochs=3, shuffle=False, verbose=0)
        return [*model.get_weights(), model.predict(x, verbose=0), model.evaluate(x, y, verbose=0)]

    data = dict(kinds_of_data())
    expected = trained(full(data["sparse tensor"]))
    for x in data.values():
        for found, wanted in zip(trained(x), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_shuffled_batches_keep_rows_and_targets_together():
    from gradtape._src.keras_backend.sparse_data import SparseBatches

    x = sparse(0, (7, 3))
    rows = SparseBatches((x, full(x).sum(axis=1)), batch_size=3, shuffle=True)
    rows.on_epoch_begin()
    batches = [rows[i] for i in range(rows.num_batches)]
    assert [len(y) for _, y in batches] == [3, 3, 1]
    for part, y in batches:
        np.testing.assert_allclose(full(part).sum(axis=1), y, rtol=1e-12)
    with pytest.raises(ValueError, match=r"ambiguous. Received: arrays of \[4, 7\] rows"):
        SparseBatches((x, np.zeros(4)), batch_size=3, shuffle=False)


@pytest.mark.parametrize("name", ["Adadelta", "Adafactor", "AdamW", "SGD"])
@pytest.mark.parametrize("options", [{}, {"loss_scale_factor": 2.0}])
def test_optimizers_take_rows(name, options):
    def moved(gradient):
        table = tf.Variable(tf.ones((4, 5), tf.float64))
        optimizer = getattr(keras.optimizers, name)(0.1, **options)
        for _ in range(3):
            optimizer.apply_gradients([(gradient, table)])
        return table.numpy()

    np.testing.assert_allclose(moved(slices()), moved(tf.convert_to_tensor(slices())), rtol=1e-6)


def test_values_go_through_a_compiled_function():
    x = sparse()
    found = tf.function(lambda x: ops.multiply(ops.tanh(x), 2.0))(x)
    assert isinstance(found, tf.SparseTensor)
    np.testing.assert_allclose(full(found), 2 * np.tanh(full(x)), rtol=1e-12)


def test_the_legacy_backend_knows_sparse_tensors():
    assert tf.keras.backend.is_sparse(tf.sparse.from_dense([[0.0, 1.0]]))
    assert not tf.keras.backend.is_sparse(tf.constant([[0.0, 1.0]]))


@pytest.mark.parametrize(
    "name", ["Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Ftrl", "Lion", "Nadam", "RMSprop", "SGD"]
)
def test_optimizers_add_up_rows_with_the_same_index(name):
    start = np.random.default_rng(1).normal(size=(4, 5))
    tables = [tf.Variable(start), tf.Variable(start)]
    for table, gradient in zip(tables, [slices(), tf.convert_to_tensor(slices())], strict=True):
        optimizer = getattr(keras.optimizers, name)(0.1)
        for _ in range(2):
            optimizer.apply_gradients([(gradient, table)])
    assert np.abs(tables[0] - start)[3].min() > 0
    np.testing.assert_allclose(tables[0], tables[1], rtol=1e-6)
