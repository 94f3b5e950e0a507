"""Branches, loops, maps, folds, TensorArray: values, structures, gradients through them."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import gradtape as tf
from gradtape._src import devices
from gradtape.testing import check_gradients

Invalid = tf.errors.InvalidArgumentError
c = tf.constant


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def plain(structure):
    return tf.nest.map_structure(lambda t: t.numpy().tolist(), structure)


# -- branches ----------------------------------------------------------------------------------------------------------
def test_cond():
    assert tf.cond(c(True), lambda: 1, lambda: 2) == 1
    assert tf.cond(c(0), lambda: 1, lambda: 2) == 2
    assert tf.cond(False, lambda: 1, lambda: None) is None
    assert tf.cond(True, lambda: [3], lambda: [4]) == [3]
    assert plain(tf.cond(True, lambda: (c(1), [c(2)]), lambda: 0)) == (1, [2])
    x = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = tf.cond(x > 0, lambda: x * x, lambda: -x)
    assert tape.gradient(y, x).numpy() == 6
    check_gradients(lambda a: tf.cond(a[0] > a[1], lambda: a**3, lambda: tf.sin(a)), numbers(2))


def test_case():
    x = c(3)
    branches = [(x < 2, lambda: c(1)), (x < 5, lambda: c(2))]
    assert tf.case(branches).numpy() == 2
    assert tf.case([(x > 9, lambda: c(1))], default=lambda: c(0)).numpy() == 0
    assert tf.case([(x > 1, lambda: [c(1)])], strict=True)[0].numpy() == 1
    assert tf.case(collections.OrderedDict([(c(True).ref(), lambda: 7)])) == 7
    assert tf.case({c(True).ref(): lambda: 7}, exclusive=True) == 7


def test_switch_case():
    branches = [lambda: c(10), lambda: c(20)]
    assert tf.switch_case(c(1), branches).numpy() == 20
    assert tf.switch_case(c(5), branches).numpy() == 20
    assert tf.switch_case(c(-1), branches, default=lambda: c(0)).numpy() == 0
    assert tf.switch_case(c(1, tf.int64), {1: branches[0], 0: branches[1]}).numpy() == 10
    assert tf.switch_case(c(0), [(1, branches[0]), (0, branches[1])]).numpy() == 20


# -- the loop ----------------------------------------------------------------------------------------------------------
def test_while_loop():
    assert plain(tf.while_loop(lambda i: i < 3, lambda i: (i + 1,), (0,))) == (3,)
    assert plain(tf.while_loop(lambda i: i < 3, lambda i: [i + 1], [c(0)])) == [3]
    assert plain(tf.while_loop(lambda i: i < 3, lambda i: i + 1, [c(0)])) == [3]
    assert tf.while_loop(lambda i: i < 3, lambda i: i + 1, c(0)).numpy() == 3
    assert plain(tf.while_loop(lambda i: True, lambda i: (i + 1,), (c(0),), maximum_iterations=4)) == (4,)
    assert plain(tf.while_loop(lambda i: False, lambda i: (i + 1,), (5,))) == (5,)
    start = (c(0), {"a": c(1), "b": (c(2),)})
    nested = tf.while_loop(lambda i, s: i < 2, lambda i, s: (i + 1, {"a": s["a"] + 1, "b": (s["b"][0],)}), start)
    assert plain(nested) == (2, {"a": 3, "b": (2,)})
    grown = tf.while_loop(
        lambda x: tf.size(x) < 3, lambda x: (tf.concat([x, x], 0),), (c([0]),), (tf.TensorShape([None]),)
    )
    assert grown[0].shape == (4,)


def test_while_loop_is_differentiable():
    def power(x, n):
        return tf.while_loop(lambda i, p: i < n, lambda i, p: (i + 1, p * x), (c(0), tf.ones_like(x)))[1]

    check_gradients(lambda x: power(x, 4), numbers(3))
    x = tf.Variable(2.0)
    with tf.GradientTape() as tape:
        y = power(x, 3)
    assert tape.gradient(y, x).numpy() == 12


# -- one function, many rows -------------------------------------------------------------------------------------------
def test_map_fn():
    assert plain(tf.map_fn(lambda r: r[0] * r[1], c([[1, 2], [3, 4]]))) == [2, 12]
    assert plain(tf.map_fn(lambda r: tf.cast(r, tf.float32) / 2, c([1, 2]), fn_output_signature=tf.float32)) == [0.5, 1]
    assert plain(tf.map_fn(lambda r: tf.cast(r, tf.float32), c([1]), dtype=tf.float32)) == [1]
    pair = (c([1, 2]), c([4, 5]))
    got = tf.map_fn(lambda r: (r[0] + r[1], r[0]), pair, fn_output_signature=(tf.int32, tf.int32))
    assert plain(got) == ([5, 7], [1, 2])
    assert plain(tf.map_fn(lambda r: {"s": r["x"] + 1}, {"x": c([1, 2])}, fn_output_signature={"s": tf.int32})) == {
        "s": [2, 3]
    }
    assert tf.map_fn(lambda r: r, tf.zeros([0, 3])).shape == (0,)
    spec = tf.TensorSpec([2], tf.float32)
    assert tf.map_fn(lambda r: tf.stack([r, r]), tf.zeros([0]), fn_output_signature=spec).shape == (0, 2)
    check_gradients(lambda a: tf.map_fn(lambda r: tf.reduce_sum(r) * tf.sin(r), a), numbers(3, 2))


def test_folds():
    def step(a, x):
        return a * 2 + x

    x = c([1, 2, 3])
    assert tf.foldl(step, x).numpy() == 11
    assert tf.foldr(step, x).numpy() == 17
    assert tf.foldl(step, x, initializer=10).numpy() == 91
    assert tf.foldl(lambda a, r: a + r[0] * r[1], (x, x), initializer=0).numpy() == 14
    assert plain(tf.foldl(lambda a, r: (a[0] + r, a[1] * r), x, initializer=(0, 1))) == (6, 6)
    assert tf.foldl(step, tf.zeros([0]), initializer=1.0).numpy() == 1
    start = numbers(2, seed=1)
    check_gradients(lambda a, b: tf.foldl(lambda s, r: tf.tanh(s * r), a, initializer=b), numbers(4, 2), start)
    check_gradients(lambda a: tf.foldr(lambda s, r: s * r + r, a), numbers(4, 2))


def test_scan():
    x = c([1, 2, 3])
    assert plain(tf.scan(lambda a, r: a + r, x)) == [1, 3, 6]
    assert plain(tf.scan(lambda a, r: a + r, x, initializer=10)) == [11, 13, 16]
    assert plain(tf.scan(lambda a, r: a + r, x, reverse=True)) == [6, 5, 3]
    fibonacci = tf.scan(lambda a, _: (a[1], a[0] + a[1]), tf.zeros([4]), initializer=(c(0), c(1)))
    assert plain(fibonacci) == ([1, 1, 2, 3], [1, 2, 3, 5])
    assert tf.scan(lambda a, r: a + r, tf.zeros([0]), initializer=tf.zeros([2])).shape == (0, 2)
    start = numbers(2, seed=1)
    check_gradients(lambda a, b: tf.scan(lambda s, r: tf.sin(s) * r, a, initializer=b), numbers(4, 2), start)
    check_gradients(lambda a: tf.scan(lambda s, r: s * r, a, reverse=True), numbers(4))


# -- vectorized_map ----------------------------------------------------------------------------------------------------
W = numbers(3, 3, seed=9)

FUNCTIONS = {
    "elementwise": lambda r: tf.sin(r) * r + 2.0,
    "reductions": lambda r: tf.reduce_sum(r**2) - tf.reduce_max(r),
    "matvec": lambda r: tf.linalg.matvec(W, tf.tanh(r)),
    "outer": lambda r: r[:, None] * r[None, :],
    "slices": lambda r: r[1:] - r[:-1],
    "concat": lambda r: tf.concat([r, r * r, tf.ones_like(r)], 0),
    "stack": lambda r: tf.stack([r, tf.zeros([3], r.dtype)]),
    "gather": lambda r: tf.gather(r, [2, 0, 0]),
    "where": lambda r: tf.where(r > 0, r, 0.1 * r),
    "softmax": lambda r: tf.nn.softmax(r),
    "transpose": lambda r: tf.transpose(tf.reshape(r, [3, 1])),
    "tile": lambda r: tf.tile(r, [2]),
    "pad": lambda r: tf.pad(r, [[1, 2]], "REFLECT"),
    "scan": lambda r: tf.cumsum(r) * tf.math.cumprod(r),
    "segments": lambda r: tf.math.unsorted_segment_max(r, [1, 0, 1], 2),
    "structure": lambda r: {"a": r * 2, "b": (tf.reduce_sum(r),)},
    "constant": lambda r: tf.constant([1.0, 2.0], tf.float64),
    "scatter": lambda r: tf.tensor_scatter_nd_update(r, [[1]], r[:1]),
    "sort": lambda r: tf.sort(r),
    "argmax": lambda r: tf.cast(tf.argmax(r), r.dtype) * r,
    "solve": lambda r: tf.linalg.solve(W + 5 * tf.eye(3, dtype=tf.float64), r[:, None]),
    "looks": lambda r: r * 2 if r[0] > 0 else r * r,
    "numpy": lambda r: r * float(np.sum(r.numpy())),
    "loop": lambda r: tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * r), (c(0), r))[1],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_vectorized_map_is_a_loop(name):
    fn, x = FUNCTIONS[name], tf.Variable(numbers(4, 3))
    with tf.GradientTape() as tape:
        got = tf.vectorized_map(fn, x.value())
    with tf.GradientTape() as loop:
        rows = [fn(r) for r in tf.unstack(x)]
        expected = tf.nest.map_structure(lambda *column: tf.stack(column), *rows)
    tf.nest.map_structure(lambda a, b: np.testing.assert_allclose(a.numpy(), b.numpy()), got, expected)
    first, second = tape.gradient(got, x), loop.gradient(expected, x)
    if name == "constant":
        assert first is None
        assert second is None
    else:
        np.testing.assert_allclose(first.numpy(), second.numpy())


@pytest.mark.parametrize("name", [n for n in FUNCTIONS if n not in ("looks", "numpy", "constant")])
def test_vectorized_map_needs_no_loop(name):
    calls = []

    def counted(r):
        calls.append(r)
        return FUNCTIONS[name](r)

    tf.vectorized_map(counted, tf.constant(numbers(4, 3)), fallback_to_while_loop=False)
    assert len(calls) == 1


def test_vectorized_map_derivatives():
    def f(a, w):
        return tf.vectorized_map(lambda r: tf.tanh(tf.linalg.matvec(w, r)) * r[0], a)

    check_gradients(f, numbers(4, 3), W)


def test_vectorized_map_nests_and_takes_derivatives_inside():
    x = tf.constant(numbers(2, 3))
    inner = tf.vectorized_map(lambda row: tf.vectorized_map(lambda e: e * tf.reduce_sum(row), row), x)
    np.testing.assert_allclose(inner.numpy(), x.numpy() * x.numpy().sum(1, keepdims=True))

    def gradient(row):
        with tf.GradientTape() as tape:
            tape.watch(row)
            y = tf.reduce_sum(row**3)
        return tape.gradient(y, row)

    np.testing.assert_allclose(tf.vectorized_map(gradient, x, fallback_to_while_loop=False).numpy(), 3 * x.numpy() ** 2)
    w = tf.Variable(numbers(3, seed=1))

    def for_each_example(row):
        with tf.GradientTape() as tape:
            y = tf.nn.relu(tf.tensordot(row, w, 1)) ** 2 + tf.reduce_max(w * row)
        return tape.gradient(y, w)

    got = tf.vectorized_map(for_each_example, x, fallback_to_while_loop=False)
    np.testing.assert_allclose(got.numpy(), tf.stack([for_each_example(r) for r in x]).numpy())

    def of_gradients(x):  # a tape inside, a tape outside, and one more around both
        return tf.vectorized_map(lambda r: gradient(r) * tf.reduce_sum(w * r), x)

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        got = of_gradients(x)
    with tf.GradientTape(persistent=True) as loop:
        loop.watch(x)
        expected = 3 * x**2 * tf.reduce_sum(w * x, axis=1, keepdims=True)
    for source in (x, w):
        np.testing.assert_allclose(tape.gradient(got, source).numpy(), loop.gradient(expected, source).numpy())


def test_vectorized_map_of_jacobians_and_custom_gradients():
    x = tf.constant(numbers(2, 3))

    def jacobian(row):
        with tf.GradientTape() as tape:
            tape.watch(row)
            y = row**2 * tf.reduce_sum(row)
        return tape.jacobian(y, row)

    np.testing.assert_allclose(tf.vectorized_map(jacobian, x).numpy(), tf.stack([jacobian(r) for r in x]).numpy())

    @tf.custom_gradient
    def doubled(v):
        return v * v, lambda upstream: 2 * upstream * v * 2

    def gradient(row):
        with tf.GradientTape() as tape:
            tape.watch(row)
            y = doubled(row)
        return tape.gradient(y, row)

    np.testing.assert_allclose(tf.vectorized_map(gradient, x).numpy(), 4 * x.numpy())
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.vectorized_map(doubled, x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 4 * x.numpy())


def test_vectorized_map_under_forward_mode():
    x, t = numbers(4, 3), numbers(4, 3, seed=1)
    primal = tf.constant(x)
    with tf.autodiff.ForwardAccumulator(primal, tf.constant(t)) as acc:
        y = tf.vectorized_map(lambda r: tf.sin(r) * tf.reduce_sum(r), primal)
    expected = np.cos(x) * t * x.sum(1, keepdims=True) + np.sin(x) * t.sum(1, keepdims=True)
    np.testing.assert_allclose(acc.jvp(y).numpy(), expected)


def test_vectorized_map_structures():
    a, b = c([1, 2, 3]), c([4, 5, 6])
    assert plain(tf.vectorized_map(lambda r: (r[0] + r[1], r[0]), (a, b))) == ([5, 7, 9], [1, 2, 3])
    assert plain(tf.vectorized_map(lambda r: r[0] + r[1], (a, c([4])))) == [5, 6, 7]
    assert tf.vectorized_map(lambda r: None, a) is None
    assert plain(tf.vectorized_map(lambda r: 3.0, a)) == [3, 3, 3]
    assert tf.vectorized_map(lambda r: r * 2, tf.zeros([0, 2])).shape == (0, 2)
    with pytest.raises(ValueError, match="rows"):
        tf.vectorized_map(lambda r: r[0], (a, c([4, 5])))
    with pytest.raises(ValueError, match="at least one axis"):
        tf.vectorized_map(lambda r: r, c(1.0))
    with pytest.raises(ValueError, match="fallback_to_while_loop=False"):
        tf.vectorized_map(lambda r: r if r > 1 else -r, a, fallback_to_while_loop=False)
    with pytest.raises(ZeroDivisionError):
        tf.vectorized_map(lambda r: r * (1 / 0), a)


def test_vectorized_map_does_not_put_batches_into_variables():
    v = tf.Variable([0.0, 0.0])
    tf.vectorized_map(lambda r: v.assign(r), tf.constant([[1.0, 2.0], [3.0, 4.0]]))
    assert v.numpy().tolist() == [3, 4]


# -- TensorArray -------------------------------------------------------------------------------------------------------
def array(n=3, **options):
    return tf.TensorArray(tf.float32, size=n, **options)


def test_tensor_array():
    ta = array().write(0, 1.0).write(1, 2.0).write(2, 3.0)
    assert plain(ta.stack()) == [1, 2, 3]
    assert plain(ta.gather([2, 0])) == [3, 1]
    assert ta.size().numpy() == len(ta) == 3
    assert plain(array().write(0, [1.0, 2.0]).stack()) == [[1, 2], [0, 0], [0, 0]]
    assert plain(array(element_shape=[2]).stack()) == [[0, 0]] * 3
    assert plain(array(0, dynamic_size=True).write(2, 1.0).stack()) == [0, 0, 1]
    assert plain(array().unstack([1.0, 2.0, 3.0]).read(1)) == 2
    assert plain(array(1, dynamic_size=True).unstack([1.0, 2.0]).stack()) == [1, 2]
    assert plain(array().scatter([2, 0, 1], [1.0, 2.0, 3.0]).stack()) == [2, 3, 1]
    assert plain(array(2, infer_shape=False).write(0, [1.0]).write(1, [2.0, 3.0]).concat()) == [1, 2, 3]
    assert plain(array(2, infer_shape=False).split([1.0, 2.0, 3.0], [1, 2]).read(1)) == [2, 3]
    assert plain(array().unstack([1.0, 2.0, 3.0]).identity().stack()) == [1, 2, 3]
    assert array().close() is None
    ta = array().write(0, [1.0, 2.0])
    assert (ta.dtype, ta.dynamic_size, ta.element_shape.as_list(), ta.handle) == (tf.float32, False, [2], None)


def test_tensor_array_writes_in_place_and_returns_itself():
    first = array(clear_after_read=False, element_shape=[])
    assert first.write(0, 1.0) is first
    first.write(1, 2.0)  # without taking the result up, as eager TensorFlow allows
    assert plain(first.stack())[:2] == [1.0, 2.0]
    twin = first.identity()
    twin.write(0, 9.0)
    assert plain(first.read(0)) == 1.0


def test_tensor_array_in_a_loop_is_differentiable():
    def squares(x):
        def body(i, ta):
            return i + 1, ta.write(i, x[i] ** 2 * x[0])

        ta = tf.TensorArray(x.dtype, size=3)
        return tf.while_loop(lambda i, ta: i < 3, body, (c(0), ta))[1].stack()

    check_gradients(squares, numbers(3))
    check_gradients(lambda x: tf.TensorArray(x.dtype, size=3).unstack(x).gather([2, 0]) ** 2, numbers(3, 2))
    x = tf.Variable([1.0, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = array().write(0, x[0]).write(2, x[1] * 2).stack()
    assert tape.gradient(y, x).numpy().tolist() == [1, 2, 0]


def read_twice():
    ta = array().write(0, 1.0)
    ta.read(0)
    ta.read(0)


REFUSED = [
    (lambda: tf.cond(True, 1, lambda: 2), TypeError, "'true_fn' must be callable."),
    (lambda: tf.cond(True, lambda: 1), TypeError, "'false_fn' argument required"),
    (lambda: tf.cond(c([True, False]), lambda: 1, lambda: 2), ValueError, "ambiguous"),
    (lambda: tf.case([(c(False), lambda: 1)]), Invalid, "None of conditions evaluated as True"),
    (lambda: tf.case([(c(True), lambda: 1)] * 2, default=lambda: 3, exclusive=True), Invalid, "more than 1 conditions"),
    (lambda: tf.case({c(True).ref(): lambda: 1}), ValueError, "Unordered dictionaries"),
    (lambda: tf.case(3), TypeError, "must be a list, tuple, or dict"),
    (lambda: tf.case([3]), TypeError, "2-tuple"),
    (lambda: tf.case([(True, lambda: 1)]), TypeError, "pred must be a Tensor"),
    (lambda: tf.case([(c(1), lambda: 1)]), TypeError, "type bool"),
    (lambda: tf.case([(c(True), 1)]), TypeError, "must be callable"),
    (lambda: tf.switch_case(1, [lambda: 1]), TypeError, "'branch_index' must be a Tensor"),
    (lambda: tf.switch_case(c(1.0), [lambda: 1]), TypeError, "integer Tensor"),
    (lambda: tf.switch_case(c(1), []), ValueError, "at least one item"),
    (lambda: tf.switch_case(c(1), {0: lambda: 1, 3: lambda: 2}), ValueError, "contiguous range"),
    (lambda: tf.while_loop(1, lambda i: i, (c(0),)), TypeError, "'cond' must be callable."),
    (lambda: tf.while_loop(lambda i: True, 1, (c(0),)), TypeError, "'body' must be callable."),
    (lambda: tf.while_loop(lambda: True, lambda: 1, ()), ValueError, "'loop_vars' must be provided."),
    (lambda: tf.while_loop(lambda i: i < 2, lambda i: (i + 1, i), (c(0),)), ValueError, "nested structure"),
    (lambda: tf.while_loop(lambda i: i < 1, lambda i: i, (c(0),), parallel_iterations=0), TypeError, "positive"),
    (lambda: tf.while_loop(lambda i: True, lambda i: i, (c(0),), maximum_iterations=[4]), ValueError, "scalar"),
    (lambda: tf.while_loop(lambda i: True, lambda i: i, (c(0),), (tf.TensorShape([2]),)), ValueError, "invariant"),
    (lambda: tf.map_fn(3, c([1.0])), TypeError, "callable"),
    (lambda: tf.map_fn(lambda r: r, c(1.0)), ValueError, "1\\+ dimensional"),
    (lambda: tf.map_fn(lambda r: r, []), ValueError, "does not contain any Tensors"),
    (lambda: tf.map_fn(lambda r: r[0], (c([1, 2]), c([1]))), ValueError, "Dimensions 2 and 1"),
    (lambda: tf.map_fn(lambda r: tf.cast(r, tf.float32), c([1])), Invalid, "dtype is int32 but .* dtype float32"),
    (lambda: tf.map_fn(lambda r: tf.range(r), c([1, 2])), ValueError, "Incompatible shape for value"),
    (lambda: tf.map_fn(lambda r: (r, r), c([1, 2])), ValueError, "nested structure"),
    (lambda: tf.foldl(lambda a, r: a, tf.zeros([0])), tf.errors.OutOfRangeError, "index 0"),
    (lambda: tf.scan(3, tf.zeros([1])), TypeError, "callable"),
    (lambda: tf.scan(lambda a, r: (a, a), tf.zeros([2]), initializer=0.0), ValueError, "nested structure"),
    (lambda: tf.scan(lambda a, r: c(1), tf.zeros([2])), Invalid, "dtype is float32"),
    (lambda: tf.group(1, foo=2), ValueError, "Unknown keyword"),
    (lambda: tf.TensorArray(tf.float32), ValueError, "Size must be declared"),
    (lambda: array().stack(), ValueError, "partially known TensorShape"),
    (lambda: array().write(3, 1.0), tf.errors.OutOfRangeError, "not resizeable and size is: 3"),
    (lambda: array().write(-1, 1.0), tf.errors.OutOfRangeError, "negative indices"),
    (lambda: array().read(5), tf.errors.OutOfRangeError, "array size is: 3"),
    (read_twice, Invalid, "Could not read index 0 twice"),
    (lambda: array().write(0, c(1)), Invalid, "dtype is float32 but .* dtype int32"),
    (lambda: array().write(0, [1.0]).write(1, [1.0, 2.0]), ValueError, "Incompatible shape for value"),
    (lambda: array(2).unstack([1.0, 2.0, 3.0]), ValueError, "Cannot unstack 3 tensors"),
    (lambda: array(2).split([1.0, 2.0, 3.0], [1, 1]), Invalid, "sum of lengths"),
    (lambda: array().grad("x"), tf.errors.UnimplementedError, "not supported"),
]


@pytest.mark.parametrize(("call", "error", "says"), REFUSED)
def test_refusals(call, error, says):
    with pytest.raises(error, match=says):
        call()


def test_what_eager_code_has_done_already():
    assert tf.no_op() is None
    assert tf.group(c(1), c(2)) is None
    one, none = tf.tuple([c(1), None])
    assert one.numpy() == 1
    assert none is None
    assert tf.timestamp().dtype == tf.float64


def test_a_loop_that_runs_eagerly_leaves_numbers_as_they_are():
    """The first call of the body gets Python's numbers, so that their dtype follows from what they are added to."""
    steps, total = tf.while_loop(lambda i, n: i < 3, lambda i, n: (i + 1, n + tf.constant(0.5)), (0, 0))
    assert (steps.dtype, total.dtype) == (tf.int32, tf.float32)
    assert (steps.numpy(), total.numpy()) == (3, 1.5)
    seen = []
    result = tf.while_loop(lambda i: i < 1, lambda i: seen.append(type(i)) or i + 1, (0,))
    assert seen == [int]
    assert isinstance(result[0], tf.Tensor)
    pytest.importorskip("keras")
    _, total = tf.keras.ops.while_loop(lambda i, n: i < 3, lambda i, n: (i + 1, n + tf.constant(0.5)), (0, 0))
    assert isinstance(total, tf.Tensor)
    assert total.numpy() == 1.5


CONDITIONS = {
    "list": lambda i: [i < 3],
    "tuple": lambda i: (i < 3,),
    "vector": lambda i: tf.reshape(i < 3, [1]),
    "list of Python": lambda i: [bool(i < 3)],
}


@pytest.mark.parametrize("limit", [None, 5, 2])
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_in_a_list(name, limit):
    """The truth of a list is that of its element: a list with False in it does not loop for ever."""
    (i,) = tf.while_loop(CONDITIONS[name], lambda i: [i + 1], [tf.constant(0)], maximum_iterations=limit)
    assert i.numpy().item() == (2 if limit == 2 else 3)


def test_limited_loops_need_a_bool():
    def loop(condition):
        return tf.while_loop(condition, lambda i: [i + 1], [tf.constant(0)], maximum_iterations=3)

    with pytest.raises(tf.errors.InvalidArgumentError):
        loop(lambda i: 3 - i)
    with pytest.raises(TypeError):
        loop(lambda i: "")
    with pytest.raises(ValueError, match="unsupported type"):
        loop(lambda i: None)


def test_a_list_limits_no_loop():
    def loop(most):
        return tf.while_loop(lambda i: i < 9, lambda i: [i + 1], [tf.constant(0)], maximum_iterations=[most])

    for run in (loop, tf.function(loop)):
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError)):
            run(tf.constant(3))


def test_symbolic_tensors_are_no_arrays_beside_meshes(monkeypatch):
    monkeypatch.setitem(devices.sharded_meshes, object(), object())
    with pytest.raises(NotImplementedError, match="Cannot convert a symbolic"):
        tf.function(lambda x: np.asarray(x), autograph=False)(tf.constant(1.0))
