"""`tf.SparseTensor`: what TensorFlow 2.21 keeps sparse stays sparse, and what it refuses is refused. Never dense."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf


def sparse(dtype=tf.float32):
    return tf.SparseTensor([[0, 1], [2, 0]], tf.cast([3.0, -4.0], dtype), [3, 2])


def parts(x):
    assert isinstance(x, tf.SparseTensor)
    return x.dtype.name, x.indices.numpy().tolist(), x.values.numpy().tolist(), x.dense_shape.numpy().tolist()


MAPPED = {
    "abs": [3.0, 4.0],
    "asinh": [1.8184464592320668, -2.0947125472611012],
    "atan": [1.2490457723982544, -1.3258176636680326],
    "bessel_i0e": [0.24300035, 0.20700192],
    "bessel_i1e": [0.19682671, -0.17875084],
    "erf": [0.9999779095030014, -0.9999999845827421],
    "negative": [-3.0, 4.0],
    "sign": [1.0, -1.0],
    "sin": [0.1411200080598672, 0.7568024953079282],
    "square": [9.0, 16.0],
    "tan": [-0.1425465430742778, -1.1578212823495775],
    "tanh": [0.9950547536867305, -0.999329299739067],
}


@pytest.mark.parametrize("name", MAPPED)
def test_functions_of_the_values(name):
    dtype, where, values, shape = parts(getattr(tf.math, name)(sparse()))
    assert (dtype, where, shape) == ("float32", [[0, 1], [2, 0]], [3, 2])
    np.testing.assert_allclose(values, MAPPED[name], rtol=2e-6)


@pytest.mark.parametrize("name", ["asin", "atanh", "sqrt"])
def test_functions_that_are_not_defined_there(name):
    _, _, values, _ = parts(getattr(tf.math, name)(sparse()))
    assert np.isnan(values).any()


def test_casts_and_copies():
    assert parts(tf.cast(sparse(), tf.int32)) == ("int32", [[0, 1], [2, 0]], [3, -4], [3, 2])
    assert parts(tf.cast(sparse(), tf.complex64))[2] == [3, -4]
    for function in (tf.identity, tf.stop_gradient):
        assert parts(function(sparse())) == parts(sparse())
    assert parts(tf.function(tf.square)(sparse()))[2] == [9.0, 16.0]


def test_questions():
    x = sparse()
    assert tf.is_tensor(x)
    assert tf.get_static_value(x) is None
    assert (tf.shape(x).numpy().tolist(), tf.size(x).numpy(), tf.rank(x).numpy()) == ([3, 2], 6, 2)
    assert tf.shape(x, tf.int64).dtype is tf.int64
    assert x._type_spec == tf.SparseTensorSpec([3, 2], tf.float32)
    x.set_shape([None, 2])
    with pytest.raises(ValueError, match="not compatible"):
        x.set_shape([2, 2])
    assert str(x).startswith("SparseTensor(indices=tf.Tensor(")


def test_operators():
    dense = tf.fill([3, 2], 2.0)
    for product in (sparse() * dense, dense * sparse(), tf.Variable(dense) * sparse(), sparse() * 2.0):
        assert parts(product)[2] == [6.0, -8.0]
    for quotient in (sparse() / dense, sparse() / 2.0, tf.divide(sparse(), dense)):
        assert parts(quotient)[2] == [1.5, -2.0]


DENSE = tf.ones([3, 2])
REFUSED = {
    "+": lambda s: s + DENSE,
    "+ behind": lambda s: DENSE + s,
    "-": lambda s: DENSE - s,
    "/": lambda s: DENSE / s,
    "@": lambda s: s @ tf.transpose(DENSE),
    "@ behind": lambda s: tf.transpose(DENSE) @ s,
    "* of two": lambda s: s * s,
    "convert_to_tensor": tf.convert_to_tensor,
    "constant": tf.constant,
    "Variable": tf.Variable,
    "assign": lambda s: tf.Variable(DENSE).assign(s),
    "exp": tf.exp,
    "cos": tf.cos,
    "sigmoid": tf.sigmoid,
    "relu": tf.nn.relu,
    "softmax": tf.nn.softmax,
    "reduce_sum": tf.reduce_sum,
    "reduce_max": lambda s: tf.reduce_max(s, 0),
    "matmul": lambda s: tf.matmul(s, tf.transpose(DENSE)),
    "multiply": lambda s: tf.multiply(s, DENSE),
    "maximum": lambda s: tf.maximum(s, 0.0),
    "equal": lambda s: tf.equal(s, DENSE),
    "concat": lambda s: tf.concat([s, s], 0),
    "stack": lambda s: tf.stack([s, s]),
    "gather": lambda s: tf.gather(s, [0]),
    "where": lambda s: tf.where(tf.constant(True), s, DENSE),
    "einsum": lambda s: tf.einsum("ij->ji", s),
    "reshape": lambda s: tf.reshape(s, [-1]),
    "transpose": tf.transpose,
    "expand_dims": lambda s: tf.expand_dims(s, 0),
    "ones_like": tf.ones_like,
    "zeros_like": tf.zeros_like,
    "saturate_cast": lambda s: tf.saturate_cast(s, tf.uint8),
    "boolean_mask": lambda s: tf.boolean_mask(s, [True, False, True]),
    "dropout": lambda s: tf.nn.dropout(s, 0.5),
    "scan": lambda s: tf.scan(lambda a, r: a, s, initializer=0.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_nothing_becomes_dense_by_itself(name):
    with pytest.raises(ValueError, match=r"(?s)Attempt to convert a value .* with an unsupported type .*SparseTensor"):
        REFUSED[name](sparse())


def test_gradients_reach_the_values():
    v = tf.Variable([3.0, -4.0])
    for function, want in {tf.square: [6.0, -8.0], tf.abs: [1.0, -1.0], tf.negative: [-1.0, -1.0]}.items():
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(function(sparse().with_values(v * 1.0)).values)
        assert tape.gradient(y, v).numpy().tolist() == want
    with tf.GradientTape() as tape:
        y = tf.reduce_sum((DENSE * 2.0 * tf.cast(sparse().with_values(v * 1.0), tf.float32)).values)
    assert tape.gradient(y, v).numpy().tolist() == [2.0, 2.0]


# -- rows ------------------------------------------------------------------------------------------------------------
def test_map_fn_goes_through_sparse_rows():
    s = sparse()
    assert parts(tf.map_fn(lambda row: row, s)) == parts(s)
    sums = tf.map_fn(lambda row: tf.reduce_sum(row.values), s, fn_output_signature=tf.float32)
    assert sums.numpy().tolist() == [3.0, 0.0, -4.0]
    both = tf.map_fn(lambda p: tf.sparse.to_dense(p[0]) + p[1], (s, DENSE), fn_output_signature=tf.float32)
    assert both.numpy().tolist() == [[1.0, 4.0], [1.0, 1.0], [-3.0, 1.0]]
    doubled = tf.map_fn(lambda row: row * 2.0, s, fn_output_signature=tf.SparseTensorSpec([None], tf.float32))
    assert parts(doubled)[2] == [6.0, -8.0]
    made = tf.map_fn(tf.sparse.from_dense, DENSE, fn_output_signature=tf.SparseTensorSpec([2], tf.float32))
    assert parts(made)[1] == [[0, 0], [0, 1], [1, 0], [1, 1], [2, 0], [2, 1]]
    with pytest.raises(ValueError, match="Expected `fn` to return a:\n    SparseTensorSpec"):
        tf.map_fn(lambda row: row.values, s)
    with pytest.raises(ValueError, match="Dimensions 3 and 2 are not compatible"):
        tf.map_fn(lambda p: p, (s, tf.ones([2])))
    v = tf.Variable([3.0, -4.0])
    with tf.GradientTape() as tape:
        rows = tf.map_fn(
            lambda row: tf.reduce_sum(row.values**2), s.with_values(v * 1.0), fn_output_signature=tf.float32
        )
        y = tf.reduce_sum(rows)
    assert tape.gradient(y, v).numpy().tolist() == [6.0, -8.0]


def test_specs():
    spec = tf.SparseTensorSpec([None, 2])
    assert repr(spec) == "SparseTensorSpec(TensorShape([None, 2]), tf.float32)"
    assert (spec.dtype, spec.rank, spec.value_type) == (tf.float32, 2, tf.SparseTensor)
    assert spec == tf.SparseTensorSpec([None, 2], "float32") != tf.SparseTensorSpec([None, 2], "int32")
    assert len({spec, tf.SparseTensorSpec([None, 2]), tf.SparseTensorSpec([3, 2])}) == 2
    assert spec.is_compatible_with(sparse())
    assert not tf.SparseTensorSpec([4, 2]).is_compatible_with(sparse())
    assert not spec.is_compatible_with(DENSE)
    assert tf.SparseTensorSpec() == tf.SparseTensorSpec(None)
    assert tf.SparseTensorSpec([3, 2]).most_specific_compatible_type(tf.SparseTensorSpec([4, 2])) == spec
    with pytest.raises(ValueError, match="No TypeSpec is compatible"):
        spec.most_specific_compatible_type(tf.SparseTensorSpec([3, 2], tf.int32))


# -- datasets --------------------------------------------------------------------------------------------------------
S = tf.SparseTensor([[0, 1], [2, 0], [2, 1]], [3.0, -4.0, 5.0], [4, 2])
ROWS = [([[1]], [3.0], [2]), ([], [], [2]), ([[0], [1]], [-4.0, 5.0], [2]), ([], [], [2])]
Dataset = tf.data.Dataset


def shown(x):
    if isinstance(x, dict):
        return {key: shown(part) for key, part in x.items()}
    if isinstance(x, (list, tuple)):
        return [shown(part) for part in x]
    return parts(x)[1:] if isinstance(x, tf.SparseTensor) else x.numpy().tolist()


def test_rows_of_sparse_tensors_are_sparse():
    rows = Dataset.from_tensor_slices(S)
    assert shown(list(rows)) == ROWS
    assert (len(rows), rows.element_spec) == (4, tf.SparseTensorSpec([2], tf.float32))
    pairs = Dataset.from_tensor_slices({"a": S, "b": [1, 2, 3, 4], "none": None})
    assert [(shown(p["a"]), int(p["b"]), p["none"]) for p in pairs] == [
        (row, i + 1, None) for i, row in enumerate(ROWS)
    ]
    assert parts(next(iter(Dataset.from_tensors(S)))) == parts(S)
    assert Dataset.from_tensors(S).element_spec == tf.SparseTensorSpec([4, 2], tf.float32)


def test_batches_of_sparse_tensors():
    rows = Dataset.from_tensor_slices((S, [1, 2, 3, 4]))
    first, second = rows.batch(3)
    assert shown(first) == [([[0, 1], [2, 0], [2, 1]], [3.0, -4.0, 5.0], [3, 2]), [1, 2, 3]]
    assert shown(second) == [([], [], [1, 2]), [4]]
    assert rows.batch(3).element_spec[0] == tf.SparseTensorSpec([None, 2])
    assert rows.batch(3, drop_remainder=True).element_spec[0] == tf.SparseTensorSpec([3, 2])
    assert shown([x for x, _ in rows.batch(3).unbatch()]) == ROWS
    assert shown([x for x, _ in rows.batch(3).rebatch(2)]) == [
        ([[0, 1]], [3.0], [2, 2]),
        ([[0, 0], [0, 1]], [-4.0, 5.0], [2, 2]),
    ]
    (whole,) = Dataset.from_tensor_slices(S).batch(2).batch(2)
    assert shown(whole) == ([[0, 0, 1], [1, 0, 0], [1, 0, 1]], [3.0, -4.0, 5.0], [2, 2, 2])
    (ragged,) = Dataset.range(1, 4).map(lambda i: tf.sparse.from_dense(tf.ones([i]))).batch(3)
    assert shown(ragged)[::2] == ([[0, 0], [1, 0], [1, 1], [2, 0], [2, 1], [2, 2]], [3, 3])


def test_functions_of_sparse_elements():
    rows = Dataset.from_tensor_slices(S)
    assert shown(list(rows.map(tf.sparse.to_dense))) == [[0.0, 3.0], [0.0, 0.0], [-4.0, 5.0], [0.0, 0.0]]
    assert rows.map(lambda x: tf.square(x)).element_spec == tf.SparseTensorSpec([2], tf.float32)
    assert rows.map(lambda x: x.values).element_spec == tf.TensorSpec([None], tf.float32)
    assert shown(list(rows.filter(lambda x: tf.size(x.values) > 0))) == [ROWS[0], ROWS[2]]
    assert float(rows.reduce(0.0, lambda total, x: total + tf.reduce_sum(x.values))) == 4.0
    assert shown(list(rows.window(2).flat_map(lambda w: w.batch(2))))[0] == ([[0, 1]], [3.0], [2, 2])
    assert shown(list(rows.shuffle(4).repeat(2).take(8).prefetch(2).batch(8)))[0][2] == [8, 2]
    assert [x.tolist() for x in rows.as_numpy_iterator()] == [[0.0, 3.0], [0.0, 0.0], [-4.0, 5.0], [0.0, 0.0]]
    signature = tf.SparseTensorSpec([4, 2], tf.float32)
    generated = Dataset.from_generator(lambda: iter([S, S]), output_signature=signature)
    assert [parts(x) for x in generated] == [parts(S)] * 2
    assert generated.element_spec == signature
    with pytest.raises(tf.errors.InvalidArgumentError, match="did not match the expected structure"):
        list(Dataset.from_generator(lambda: iter([tf.ones([4, 2])]), output_signature=signature))
    with pytest.raises(tf.errors.InvalidArgumentError, match="where an element of shape"):
        list(Dataset.from_generator(lambda: iter([sparse()]), output_signature=signature))


def test_sparse_elements_in_files(tmp_path):
    rows = Dataset.from_tensor_slices((S, ["a", "b", "c", "d"]))
    cached = rows.cache(str(tmp_path / "cache"))
    for _ in range(2):
        assert shown([x for x, _ in cached]) == ROWS
    rows.save(tmp_path / "saved")
    loaded = Dataset.load(tmp_path / "saved")
    assert shown([x for x, _ in loaded]) == ROWS
    assert loaded.element_spec == rows.element_spec
    dense = Dataset.from_tensors((tf.ones([2]), "a")).cache(str(tmp_path / "cache"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Component 0 has another type"):
        list(dense)


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: tf.SparseTensor([[1]], [2.0], [3]), tf.errors.InvalidArgumentError, "should be > 1, but saw rank: 1"),
        (lambda: tf.SparseTensor(np.zeros((1, 0), int), [2.0], np.zeros(0, int)), ValueError, "for rank >= 1"),
        (lambda: tf.SparseTensor([[1, 0], [0, 1]], [1.0, 2.0], [2, 2]), tf.errors.InvalidArgumentError,
         r"indices\[1\] = \[0,1\] is out of order"),
        (lambda: tf.SparseTensor([[0, 0], [0, 0]], [1.0, 2.0], [2, 2]), tf.errors.InvalidArgumentError,
         r"indices\[1\] = \[0,0\] is repeated"),
        (lambda: tf.SparseTensor([[5, 0]], [1.0], [2, 2]), tf.errors.InvalidArgumentError,
         r"indices\[0\] = \[5,0\] is out of bounds: need 0 <= index < \[2,2\]"),
        (lambda: (S, [1, 2, 3]), ValueError, "Dimensions 4 and 3 are not compatible"),
    ],
)  # fmt: skip
def test_sparse_tensors_without_rows(make, error, match):
    with pytest.raises(error, match=match):
        list(Dataset.from_tensor_slices(make()))


def test_sparse_elements_are_not_padded():
    rows = Dataset.from_tensor_slices(S)
    for call in (
        lambda: rows.padded_batch(2),
        lambda: list(rows.bucket_by_sequence_length(lambda x: tf.size(x.values), [2], [2, 2])),
    ):
        with pytest.raises(TypeError, match="only supported for datasets that produce tensor elements"):
            call()


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda s: tf.sparse.reduce_sum(s, 0) ** 2, [2.0, 4.0, 6.0]),
        (lambda s: tf.sparse.transpose(s).values * [1.0, 10.0, 100.0], [1.0, 100.0, 10.0]),
        (lambda s: tf.sparse.add(s, s).values ** 2, [8.0, 16.0, 24.0]),
        (lambda s: tf.sparse.concat(1, [s, s]).values, [2.0, 2.0, 2.0]),
        (lambda s: tf.sparse.slice(s, [0, 0], [1, 3]).values ** 2, [2.0, 4.0, 0.0]),
        (lambda s: tf.sparse.reduce_max(s, 1), [0.0, 1.0, 1.0]),
        (lambda s: tf.sparse.fill_empty_rows(s, 9.0)[0].values, [1.0, 1.0, 1.0]),
        (lambda s: tf.sparse.sparse_dense_matmul(s, tf.constant([[1.0], [2.0], [3.0]])), [1.0, 3.0, 2.0]),
    ],
)
def test_gradients_flow_through_the_values(f, expected):
    v = tf.constant([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        tape.watch(v)
        y = f(tf.SparseTensor([[0, 0], [0, 2], [1, 1]], v, [2, 3]))
    assert tf.convert_to_tensor(tape.gradient(y, v)).numpy().tolist() == pytest.approx(expected)


def test_a_sparse_tensor_is_no_source_or_target():
    s = tf.sparse.from_dense([1.0, 0.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(s)
        y = tf.sparse.to_dense(s)
    assert tape.gradient(y, s.values).numpy().tolist() == [1.0]
    for target, source in ((y, s), (s, s.values)):
        with pytest.raises(ValueError, match="Type SparseTensor is not supported"):
            tape.gradient(target, source)


def test_shapes_may_be_larger_than_64_bits():
    s = tf.SparseTensor([[2**40, 1], [0, 2**40]], [1.0, 2.0], [2**41, 2**41])
    assert tf.sparse.add(s, s).values.numpy().tolist() == [4.0, 2.0]
    assert tf.sparse.reorder(s).values.numpy().tolist() == [2.0, 1.0]
