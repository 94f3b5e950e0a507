"""Functions traced once for arguments with unknown dimensions: the same values and gradients for every size."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

rng = np.random.default_rng(7)

I = tf.errors.InvalidArgumentError  # noqa: E741


def normal(*shape):
    return tf.constant(rng.normal(size=shape).astype(np.float32))


W, B, V, K = normal(6, 5), normal(5), normal(5, 3), normal(3, 3, 2, 4)


def counted(function):
    """A function that counts how often its Python code runs."""

    def run(*args):
        run.count += 1
        return function(*args)

    run.count = 0
    return run


def tape_inside(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_mean(tf.nn.softmax(x @ W) ** 2)
    return tape.gradient(y, x)


def rows_one_by_one(x):
    total = tf.zeros([6])
    for row in x:
        total = total + row * row
    return total


def rows_by_number(x):
    total = tf.zeros([6])
    for i in tf.range(tf.shape(x)[0]):
        total = total + x[i] * x[i]
    return total


BATCH, IMAGES, SEQUENCES = [None, 6], [None, 8, 8, 2], [None, None, 6]
CASES = {
    "dense": (BATCH, lambda x: tf.nn.relu(x @ W + B) @ V),
    "sum": (BATCH, lambda x: tf.reduce_sum(x * x)),
    "sum_axis": (BATCH, lambda x: tf.reduce_sum(x * x, 0)),
    "mean": (BATCH, lambda x: tf.reduce_mean(x * x)),
    "mean_axis": (BATCH, lambda x: tf.reduce_mean(x * x, 0)),
    "max": (BATCH, lambda x: tf.reduce_max(x, 0)),
    "variance": (BATCH, lambda x: tf.math.reduce_variance(x, 0)),
    "softmax_first_axis": (BATCH, lambda x: tf.nn.softmax(x, axis=0)),
    "cross_entropy": (
        BATCH,
        lambda x: tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(tf.nn.softmax(-x), x)),
    ),
    "sparse_cross_entropy": (
        BATCH,
        lambda x: tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.argmax(x, 1), x)),
    ),
    "broadcasting": (BATCH, lambda x: x * x[0] + x[:, :1]),
    "all_pairs": (BATCH, lambda x: x[:, None, :] - x[None]),
    "concat": (BATCH, lambda x: tf.concat([x, x * 2, tf.ones([2, 6])], 0) ** 2),
    "stack": (BATCH, lambda x: tf.stack([x, x * x], 1)),
    "slices": (BATCH, lambda x: (x[1:] - x[:-1]) * x[-1] + x[::-1][1:]),
    "split": (BATCH, lambda x: tf.split(x, 3, axis=1)[1] ** 2),
    "gather": (BATCH, lambda x: tf.gather(x, [0, 0, 1]) ** 2),
    "where": (BATCH, lambda x: tf.where(x > 0, x, tf.zeros_like(x)) * x),
    "einsum": (BATCH, lambda x: tf.einsum("bi,bj->ij", x, x)),
    "cumsum": (BATCH, lambda x: tf.cumsum(x * x, exclusive=True)),
    "sort": (BATCH, lambda x: tf.sort(x, axis=0) ** 2),
    "tile": (BATCH, lambda x: tf.tile(x[:1], [tf.shape(x)[0], 1]) * x),
    "reshape_rest": (BATCH, lambda x: tf.reshape(x, [-1, 2, 3]) ** 2),
    "reshape_flat": (BATCH, lambda x: tf.reshape(x, [-1]) ** 2),
    "reshape_by_shape": (BATCH, lambda x: tf.reshape(x, [tf.shape(x)[0] * 2, 3]) ** 2),
    "reshape_by_concat": (BATCH, lambda x: tf.reshape(x, tf.concat([tf.shape(x)[:1], [2, 3]], 0)) ** 2),
    "reshape_by_product": (SEQUENCES, lambda x: tf.reshape(x, [tf.reduce_prod(tf.shape(x)[:-1]), 6]) ** 2),
    "divided_by_shape": (BATCH, lambda x: tf.reduce_sum(x * x) / tf.cast(tf.shape(x)[0], tf.float32)),
    "divided_by_size": (BATCH, lambda x: tf.reduce_sum(x * x) / tf.cast(tf.size(x), tf.float32)),
    "new_by_shape": (BATCH, lambda x: x * tf.fill([tf.shape(x)[0], 6], 2.0) + tf.ones(tf.shape(x))),
    "range": (BATCH, lambda x: x * tf.cast(tf.range(tf.shape(x)[0]), tf.float32)[:, None]),
    "eye": (BATCH, lambda x: tf.eye(tf.shape(x)[0]) @ x),
    "branch": (BATCH, lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: x * x, lambda: -x)),
    "map_fn": (BATCH, lambda x: tf.map_fn(lambda r: r * r, x)),
    "while_loop": (BATCH, lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), (0, x))[1]),
    "tape_inside": (BATCH, tape_inside),
    "rows": (BATCH, rows_one_by_one),
    "rows_by_number": (BATCH, rows_by_number),
    "convolution": (IMAGES, lambda x: tf.nn.conv2d(x, K, 2, "SAME")),
    "network": (
        IMAGES,
        lambda x: (
            tf.reshape(tf.nn.max_pool2d(tf.nn.relu(tf.nn.conv2d(x, K, 1, "SAME")), 2, 2, "SAME"), [-1, 64])
            @ tf.ones([64, 3])
        ),
    ),
    "attention": (SEQUENCES, lambda x: tf.nn.softmax(tf.matmul(x, x, transpose_b=True) / 2.5) @ x),
    "causal": (
        SEQUENCES,
        lambda x: (
            tf.matmul(x, x, transpose_b=True) * tf.linalg.band_part(tf.ones([tf.shape(x)[1], tf.shape(x)[1]]), -1, 0)
        ),
    ),
    "heads": (
        SEQUENCES,
        lambda x: tf.transpose(tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], 2, 3]), [0, 2, 1, 3]) ** 2,
    ),
}
SIZES = ((4, 5), (2, 3), (3, 3), (1, 4))


@pytest.mark.parametrize("name", CASES)
def test_one_trace_serves_every_size(name):
    shape, function = CASES[name]
    compiled = tf.function(function, input_signature=[tf.TensorSpec(shape)])
    for sizes in SIZES if name != "slices" and name != "gather" else SIZES[:3]:
        x = normal(*[sizes[i] if n is None else n for i, n in enumerate(shape)])
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y, expected = compiled(x), function(x)
        np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)
        gradient, right = (tf.convert_to_tensor(tape.gradient(t, x)) for t in (y, expected))
        np.testing.assert_allclose(gradient, right, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(compiled(x), expected, rtol=1e-4, atol=1e-4)
    assert compiled.experimental_get_tracing_count() == 1


def test_a_shape_shows_none_and_tf_shape_is_traced():
    seen = []

    @tf.function(input_signature=[tf.TensorSpec([None, 3])])
    def f(x):
        seen.append((x.shape, (x @ tf.ones([3, 2])).shape, tf.concat([x, x], 0).shape))
        with pytest.raises(TypeError, match="len is not well defined"):
            len(x)
        return tf.shape(x), tf.shape(x)[0] * 2, tf.size(x)

    for n in (2, 5):
        shape, double, size = f(tf.ones([n, 3]))
        assert (shape.numpy().tolist(), int(double), int(size)) == ([n, 3], 2 * n, 3 * n)
    assert seen == [(tf.TensorShape([None, 3]), tf.TensorShape([None, 2]), tf.TensorShape([None, 3]))]
    concrete = f.get_concrete_function()
    assert concrete.structured_input_signature[0][0].shape == tf.TensorShape([None, 3])
    assert concrete.structured_outputs[0].shape == tf.TensorShape([2])
    assert f.experimental_get_tracing_count() == 1


def test_reduce_retracing_generalises_at_the_second_shape():
    g = counted(lambda x, y: tf.reduce_sum(x @ y))
    f = tf.function(g, reduce_retracing=True)
    y = normal(3, 2)
    for n, traces in ((1, 1), (2, 2), (3, 2), (7, 2), (1, 2)):
        x = normal(n, 3)
        np.testing.assert_allclose(f(x, y), tf.reduce_sum(x @ y), rtol=1e-4, atol=1e-5)
        assert g.count == f.experimental_get_tracing_count() == traces
    assert "float32[None,3]" in f.pretty_printed_concrete_signatures()
    assert f.pretty_printed_concrete_signatures().count("Returns") == 2


def test_another_rank_or_dtype_is_another_trace():
    g = counted(lambda x: x + x)
    f = tf.function(g, reduce_retracing=True)
    for x in (tf.ones([1]), tf.ones([2]), tf.ones([2, 2]), tf.ones([3, 2]), tf.constant([1, 2])):
        assert f(x).shape == x.shape
    assert g.count == 5


def test_a_training_step_with_batches_of_every_size():
    w, b = tf.Variable(normal(784, 10) * 0.01), tf.Variable(tf.zeros([10]))
    start = w.numpy(), b.numpy()

    def step(x, labels):
        with tf.GradientTape() as tape:
            logits = x @ w + b
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        for v, g in zip((w, b), tape.gradient(loss, (w, b)), strict=True):
            v.assign_sub(0.1 * g)
        return loss

    batches = [(normal(n, 784), tf.constant(rng.integers(0, 10, n))) for n in (32, 32, 7, 1, 20)]
    expected = [float(step(x, y)) for x, y in batches]
    right = w.numpy(), b.numpy()
    w.assign(start[0])
    b.assign(start[1])
    g = counted(step)
    signature = [tf.TensorSpec([None, 784]), tf.TensorSpec([None], tf.int64)]
    compiled = tf.function(g, input_signature=signature)
    np.testing.assert_allclose([float(compiled(x, y)) for x, y in batches], expected, rtol=1e-4)
    np.testing.assert_allclose(w, right[0], rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(b, right[1], rtol=1e-3, atol=1e-5)
    assert g.count == 1


def test_gradients_of_variables_through_a_tape_outside():
    w = tf.Variable(normal(6, 5))
    g = counted(lambda x: tf.reduce_mean(tf.nn.softmax(x @ w) ** 2))
    f = tf.function(g, input_signature=[tf.TensorSpec([None, 6])])
    for n in (3, 1, 8):
        x = normal(n, 6)
        with tf.GradientTape() as tape:
            y = f(x)
        with tf.GradientTape() as plain:
            expected = tf.reduce_mean(tf.nn.softmax(x @ w) ** 2)
        np.testing.assert_allclose(tape.gradient(y, w), plain.gradient(expected, w), rtol=1e-4, atol=1e-6)
    assert g.count == 1


def test_sparse_gradients_of_a_table_that_is_an_argument():
    f = tf.function(lambda table, at: tf.gather(table, at) ** 2, input_signature=[
        tf.TensorSpec([None, 3]), tf.TensorSpec([None], tf.int32),
    ])  # fmt: skip
    for rows, at in ((4, [0, 1, 1]), (6, [5, 5])):
        table = normal(rows, 3)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(table)
            y, expected = f(table, tf.constant(at)), tf.gather(table, at) ** 2
        slices = tape.gradient(y, table)
        assert isinstance(slices, tf.IndexedSlices)
        assert slices.dense_shape.numpy().tolist() == [rows, 3]
        right = tf.convert_to_tensor(tape.gradient(expected, table))
        np.testing.assert_allclose(tf.convert_to_tensor(slices), right, rtol=1e-5)
    assert f.experimental_get_tracing_count() == 1


def test_second_derivatives_and_jacobians():
    g = counted(lambda x: tf.reduce_mean(tf.tanh(x @ W) ** 2, 1))
    f = tf.function(g, input_signature=[tf.TensorSpec([None, 6])])
    for n in (3, 2, 4):
        x = normal(n, 6)

        def hessian_row(h, x=x):
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = h(x)
                slope = inner.gradient(y, x)
            return outer.gradient(slope, x)

        np.testing.assert_allclose(hessian_row(f), hessian_row(g), rtol=1e-3, atol=1e-4)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y, expected = f(x), tf.reduce_mean(tf.tanh(x @ W) ** 2, 1)
        np.testing.assert_allclose(tape.jacobian(y, x), tape.jacobian(expected, x), rtol=1e-3, atol=1e-5)
    assert f.experimental_get_tracing_count() == 1


def test_get_concrete_function_takes_every_size_and_serves_calls():
    g = counted(lambda x: x * tf.cast(tf.shape(x)[0], tf.float32))
    f = tf.function(g)
    concrete = f.get_concrete_function(tf.TensorSpec([None], tf.float32))
    assert concrete is f.get_concrete_function(tf.TensorSpec([None], tf.float32))
    assert concrete.pretty_printed_signature(False).endswith("(float32[None])")
    for n in (1, 2, 5):
        assert concrete(tf.ones([n])).numpy().tolist() == [n] * n
        assert f(tf.ones([n])).numpy().tolist() == [n] * n
    assert g.count == 1
    assert concrete(tf.ones([2, 2])).numpy().tolist() == [[2.0, 2.0]] * 2  # TensorFlow takes other ranks, too


def test_a_concrete_function_within_another_function():
    inner = tf.function(lambda x: tf.reduce_sum(x * x) / tf.cast(tf.size(x), tf.float32))
    mean_square = inner.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))
    outer = tf.function(lambda x: mean_square(x[1:]) * 3.0, input_signature=[tf.TensorSpec([None, 2])])
    known = tf.function(lambda x: mean_square(x[1:]) * 3.0)
    for n in (3, 5):
        x = normal(n, 2)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            results = [outer(x), known(x), tf.reduce_mean(x[1:] ** 2) * 3.0]
        for y in results[:2]:
            np.testing.assert_allclose(y, results[2], rtol=1e-5)
            np.testing.assert_allclose(tape.gradient(y, x), tape.gradient(results[2], x), rtol=1e-5)
    assert inner.experimental_get_tracing_count() == 1


def test_lengths_that_turn_out_to_differ_are_told_apart():
    g = counted(lambda x, y: tf.concat([x, y], 0) ** 2)
    f = tf.function(g, input_signature=[tf.TensorSpec([None])] * 2)
    for n, m in ((2, 2), (3, 3), (2, 3), (5, 1), (4, 4)):
        x, y = normal(n), normal(m)
        np.testing.assert_allclose(f(x, y), tf.concat([x, y], 0) ** 2, rtol=1e-6)
    assert g.count == 2


def test_an_inner_dimension_that_two_arguments_share():
    f = tf.function(lambda x, y: x @ y, input_signature=[tf.TensorSpec([None, None])] * 2)
    for n, k, m in ((2, 3, 4), (1, 5, 2), (3, 2, 2)):
        x, y = normal(n, k), normal(k, m)
        np.testing.assert_allclose(f(x, y), x @ y, rtol=1e-5)
    assert f.experimental_get_tracing_count() == 1


def test_an_empty_batch_is_a_trace_of_its_own():
    g = counted(lambda x: tf.reduce_sum(x, 0))
    f = tf.function(g, input_signature=[tf.TensorSpec([None, 2])])
    assert f(tf.ones([3, 2])).numpy().tolist() == [3.0, 3.0]
    assert f(tf.ones([0, 2])).numpy().tolist() == [0.0, 0.0]
    assert g.count == 2


def test_code_that_needs_the_number_is_traced_for_each_size():
    def rows(x):
        return tf.add_n([x[i] * float(i) for i in range(len(x))])

    f = tf.function(rows, input_signature=[tf.TensorSpec([None, 2])], autograph=False)
    concrete = tf.function(rows, autograph=False).get_concrete_function(tf.TensorSpec([None, 2]))
    for n in (2, 3, 2):
        x = normal(n, 2)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            results = [f(x), concrete(x), rows(x)]
        for y in results[:2]:
            np.testing.assert_allclose(y, results[2], rtol=1e-5)
            np.testing.assert_allclose(tape.gradient(y, x), tape.gradient(results[2], x), rtol=1e-5)
    assert f.experimental_get_tracing_count() == 2


def test_a_derivative_that_needs_the_number_is_traced_for_each_size():
    @tf.custom_gradient
    def scaled(x):
        def gradient(d):
            return d * float(np.zeros(tuple(d.shape)).size)  # NumPy has to know how many there are

        return x * 2.0, gradient

    f = tf.function(lambda x: scaled(x), input_signature=[tf.TensorSpec([None])])
    assert f(tf.ones([2])).numpy().tolist() == [2.0, 2.0]
    assert f.experimental_get_tracing_count() == 1
    for n in (2, 3, 3):
        x = tf.ones([n])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert tape.gradient(y, x).numpy().tolist() == [float(n)] * n
    assert f.experimental_get_tracing_count() == 3


def test_an_error_of_the_code_itself_is_what_is_raised():
    f = tf.function(lambda x: x @ tf.ones([4, 4]), input_signature=[tf.TensorSpec([None, 3])])
    with pytest.raises(ValueError, match=r"\[2,3\], In\[1\]: \[4,4\]"):
        f(tf.ones([2, 3]))


GIVEN = tf.Variable(tf.zeros([4]))
MISFITS = {
    "scatter": lambda u, i: GIVEN.scatter_add(tf.IndexedSlices(u, i)),
    "scatter_nd": lambda u, i: tf.scatter_nd(i[:, None], u, [4]),
    "segments": lambda u, i: tf.math.unsorted_segment_sum(u, i, 4),
    "concat": lambda u, i: tf.concat([u[None], tf.cast(i, tf.float32)[None]], 0),
    "dot": lambda u, i: tf.tensordot(u, tf.cast(i, tf.float32), 1),
    "add": lambda u, i: u + tf.cast(i, tf.float32),
    "where": lambda u, i: tf.where(i > 0, u, -u),
    "stack": lambda u, i: tf.stack([u, tf.cast(i, tf.float32)]),
    "reshape": lambda u, i: tf.reshape(u, [2, 1]),
    "assign": lambda u, i: GIVEN.assign(u),
}


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("name", MISFITS)
def test_sizes_that_do_not_fit(name, known):
    """Where other sizes might have fitted it is an error of the run, as in TensorFlow, and not of the trace."""
    shapes = [[3], [2]] if known else [[None], [None]]
    signature = [tf.TensorSpec(shapes[0]), tf.TensorSpec(shapes[1], tf.int32)]
    with pytest.raises(ValueError if known else tf.errors.InvalidArgumentError):
        tf.function(MISFITS[name], input_signature=signature)(tf.ones([3]), tf.constant([0, 1]))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, y: x + y, ValueError),
        (lambda x, y: tf.concat([x, y], 0), ValueError),
        (lambda x, y: x @ tf.transpose(y), ValueError),
        (lambda x, y: x @ y, tf.errors.InvalidArgumentError),
    ],
    ids=["add", "concat", "transposed", "matmul"],
)
def test_shapes_that_fit_for_no_size(function, expected):
    f = tf.function(function, input_signature=[tf.TensorSpec([None, 3]), tf.TensorSpec([None, 4])])
    with pytest.raises(expected):
        f(tf.ones([2, 3]), tf.ones([2, 4]))


def test_variables_of_the_first_call():
    class Layer:
        kernel = None

        @tf.function(input_signature=[tf.TensorSpec([None, 3])])
        def __call__(self, x):
            if self.kernel is None:
                self.kernel = tf.Variable(tf.ones([3, 2]))
            return x @ self.kernel

    layer = Layer()
    for n in (2, 4):
        assert layer(tf.ones([n, 3])).numpy().tolist() == [[3.0, 3.0]] * n


def test_python_functions_inside_are_called_with_each_size():
    f = tf.function(
        lambda x: tf.numpy_function(lambda a: a + 1, [x], tf.float32), input_signature=[tf.TensorSpec([None])]
    )
    for n in (2, 3):
        assert f(tf.zeros([n])).numpy().tolist() == [1.0] * n


def test_known_shapes_are_not_generalised():
    g = counted(lambda x: x + 1.0)
    f = tf.function(g)
    for n in (1, 2, 3):
        assert f(tf.zeros([n])).shape == [n]
    assert g.count == 3
    assert not any(concrete.graph.polymorphic for concrete in f._functions)


def test_a_function_that_runs_eagerly_takes_calls_after_specifications():
    f = tf.function(lambda x: tf.boolean_mask(x, x > 0))
    assert f.get_concrete_function(tf.TensorSpec([None], tf.float32))(tf.constant([1.0, -1.0])).numpy().tolist() == [
        1.0
    ]
    assert f(tf.constant([-1.0, 2.0])).numpy().tolist() == [2.0]


@pytest.mark.parametrize("autograph", [True, False])
def test_an_error_of_the_code_for_an_unknown_dimension(autograph):
    def check(x):
        if not x.shape.is_fully_defined():
            raise ValueError(f"The size must be known: {x.shape}")

    @tf.function(autograph=autograph)
    def program(x):
        check(x)
        return x + 1.0

    with pytest.raises(ValueError, match=r"The size must be known: \(None, 2\)"):
        program.get_concrete_function(tf.TensorSpec([None, 2]))
    assert program.get_concrete_function(tf.TensorSpec([3, 2]))(tf.ones([3, 2])).shape == [3, 2]


def test_a_size_that_the_code_needs():
    """The width is not declared, but only one fits: the function is traced for it, and for any number of rows."""
    mean = tf.constant([0.5, 1.0, 1.5, 2.0])

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def centered(x):
        kind = tf.one_hot(tf.cast(x[:, -1], tf.int32), 2)
        return tf.concat([x[:, :-1], kind], 1) - mean

    concrete = centered.get_concrete_function()
    assert concrete.structured_outputs.shape.as_list() == [None, 4]
    for rows in (1, 5):
        x = tf.concat([tf.ones([rows, 2]), tf.zeros([rows, 1])], 1)
        np.testing.assert_array_equal(concrete(x), [[0.5, 0.0, -0.5, -2.0]] * rows)
    assert centered.experimental_get_tracing_count() == 1
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="Incompatible shapes"):
        concrete(tf.ones([2, 5]))


def test_sizes_that_cannot_fit():
    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def impossible(x):
        return tf.concat([x, x], 0) + tf.ones([5])

    with pytest.raises(ValueError, match="Incompatible shapes"):
        impossible(tf.ones([2]))


# -- sizes that are terms in others ------------------------------------------------------------------------------------
def split_like(x, example):
    """The rows of x as the first two axes of an example: there are as many as it has places."""
    return tf.reshape(x, tf.concat([tf.shape(example)[:2], tf.shape(x)[1:]], 0))


@pytest.mark.parametrize("known", [False, True])
def test_a_size_that_is_a_product_of_others(known):
    f = tf.function(split_like)
    shapes = ((None, 2, 2), (None, 3)) if known else ((None, None, None), (None, None))
    concrete = f.get_concrete_function(*map(tf.TensorSpec, shapes))
    assert concrete.output_shapes.as_list() == ([None, 3, 2, 2] if known else [None] * 4)
    for rows in (2, 4):
        assert concrete(tf.ones([rows * 3, 2, 2]), tf.ones([rows, 3])).shape == [rows, 3, 2, 2]
    x = tf.constant(np.arange(24.0, dtype=np.float32).reshape(6, 2, 2))
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(concrete(x, tf.ones([2, 3])) ** 2)
    np.testing.assert_allclose(tape.gradient(loss, x), 2 * x.numpy())
    assert f.experimental_get_tracing_count() == 1


def test_sizes_that_are_no_such_product_are_an_error_of_the_call():
    concrete = tf.function(split_like).get_concrete_function(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 3]))
    with pytest.raises(I, match="Input to reshape is a tensor with 10 values, but the requested shape has 12"):
        concrete(tf.ones([5, 2]), tf.ones([2, 3]))


def test_the_number_of_rows_that_a_reshape_needs():
    concrete = tf.function(lambda x: tf.reshape(x, [3, 4])).get_concrete_function(tf.TensorSpec([None, 2]))
    (declared,), _ = concrete.structured_input_signature
    assert declared.shape.as_list() == [None, 2]
    assert concrete(tf.ones([6, 2])).shape == [3, 4]
    with pytest.raises(I, match="8 values, but the requested shape has 12"):
        concrete(tf.ones([4, 2]))


def test_shapes_that_fit_for_no_size_of_the_unknown_dimensions_are_errors_of_the_trace():
    f = tf.function(lambda x, y: x + y)
    with pytest.raises(ValueError, match=r"Dimensions must be equal|Incompatible shapes"):
        f.get_concrete_function(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 3]))


def test_what_fits_for_no_unknown_size_is_found_out_by_calls():
    """As in TensorFlow, whose graph does not compare the number of elements of shapes that are not known."""

    @tf.function
    def doubled(x):
        return tf.reshape(x, [2 * tf.shape(x)[0], tf.shape(x)[1]])

    concrete = doubled.get_concrete_function(tf.TensorSpec([None, None]))
    with pytest.raises(I, match="Input to reshape is a tensor with 6 values, but the requested shape has 12"):
        concrete(tf.ones([2, 3]))


def test_a_function_that_is_traced_for_each_size_shows_no_sizes_of_its_results():
    concrete = tf.function(lambda x: tf.add_n(list(x)), autograph=False).get_concrete_function(tf.TensorSpec([None, 2]))
    assert concrete.output_shapes.as_list() == [None]
    assert concrete(tf.ones([3, 2])).numpy().tolist() == [3.0, 3.0]
