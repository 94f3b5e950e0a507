"""Branches and loops of compiled programs: the same values and derivatives as Python's own control flow."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("jax")

import gradtape as tf
from gradtape._src.graph.control_flow import loops


def derivatives(f, values, order):
    """f and its derivatives up to an order, each summed before the next."""
    xs = [tf.constant(v, tf.float64) for v in values]
    tapes = [tf.GradientTape() for _ in range(order)]
    for tape in tapes:
        tape.__enter__()
        tape.watch(xs)
    found = [f(*xs)]
    results = list(found)
    for tape in reversed(tapes):
        tape.__exit__(None, None, None)
        found = tape.gradient(found, xs, unconnected_gradients="zero")
        results += found
    return [np.asarray(r) for r in results]


def same(staged, plain, *values, order=2):
    for a, b in zip(derivatives(tf.function(staged), values, order), derivatives(plain, values, order), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


# -- branches --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("values", [(3.0, 2.0), (2.0, 3.0)])
def test_cond_to_third_order(values):
    def staged(x, y):
        return tf.cond(x > y, lambda: x * x * tf.sin(y), lambda: x * y * y)

    same(staged, lambda x, y: x * x * tf.sin(y) if x > y else x * y * y, *values, order=3)


@pytest.mark.parametrize("value", [0.5, 1.5, 2.5])
def test_case_and_switch_case(value):
    def staged(x):
        first = tf.case([(x < 1.0, lambda: x**2), (x < 2.0, lambda: x**3)], default=lambda: tf.exp(x))
        return first * tf.switch_case(tf.cast(x, tf.int32), [lambda: x, lambda: tf.sin(x)], default=lambda: x * x)

    def plain(x):
        first = x**2 if x < 1.0 else x**3 if x < 2.0 else tf.exp(x)
        return first * (x if int(x) == 0 else tf.sin(x) if int(x) == 1 else x * x)

    same(staged, plain, value)


def test_a_branch_inside_of_a_branch_and_structures():
    def staged(x):
        def outer():
            return {"a": tf.cond(x > 2.0, lambda: x * 3.0, lambda: x * x), "b": (x, None)}

        result = tf.cond(x > 1.0, outer, lambda: {"a": -x, "b": (x * 2.0, None)})
        assert result["b"][1] is None
        return result["a"] * result["b"][0]

    for value, expected in ((3.0, 27.0), (1.5, 1.5**3), (0.5, -0.5)):
        assert float(tf.function(staged)(tf.constant(value))) == pytest.approx(expected)
    same(staged, lambda x: x**3, 1.5)


def test_variables_assigned_in_a_branch():
    v, w = tf.Variable(1.0), tf.Variable(10.0)

    @tf.function
    def step(x):
        def add():
            v.assign_add(x)
            return v.value()

        def other():
            w.assign(x * 2.0)
            return w.value()

        return tf.cond(x > 0.0, add, other)

    assert float(step(tf.constant(2.0))) == 3.0
    assert (float(v), float(w)) == (3.0, 10.0)
    assert float(step(tf.constant(-2.0))) == -4.0
    assert (float(v), float(w)) == (3.0, -4.0)


def test_gradient_of_a_variable_in_a_branch():
    v = tf.Variable(3.0)
    f = tf.function(lambda x: tf.cond(x > 0.0, lambda: v * v * x, lambda: x))
    for value, expected in ((2.0, [12.0, 9.0]), (-1.0, [0.0, 1.0])):
        x = tf.constant(value)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert [float(g) for g in tape.gradient(y, [v, x])] == expected


def test_branches_must_agree():
    x = tf.constant(1.0)
    with pytest.raises(TypeError, match="same dtype"):
        tf.function(lambda x: tf.cond(x > 0.0, lambda: x, lambda: tf.cast(x, tf.int32)))(x)
    with pytest.raises(ValueError, match="same shape"):
        tf.function(lambda x: tf.cond(x > 0.0, lambda: tf.stack([x, x]), lambda: x), jit_compile=True)(x)
    with pytest.raises(TypeError, match="returns a string"):
        tf.function(lambda x: tf.cond(x > 0.0, lambda: "up", lambda: "down"), jit_compile=True)(x)
    with pytest.raises(TypeError, match="structure"):
        tf.function(lambda x: tf.cond(x > 0.0, lambda: (x, x), lambda: [x]))(x)


# -- loops -----------------------------------------------------------------------------------------------------------
def test_a_loop_with_a_counter_to_third_order():
    def staged(x, w):
        def body(i, c):
            return i + 1, tf.sin(c * w) + x

        return tf.while_loop(lambda i, c: i < 4, body, (tf.constant(0), x * w))[1] ** 2

    def plain(x, w):
        c = x * w
        for _ in range(4):
            c = tf.sin(c * w) + x
        return c**2

    same(staged, plain, 1.2, 0.7, order=3)


def growing(x, w):
    c = x * w
    while c < 20.0:
        c = c * w + x
    return c * c


def staged_growing(x, w):
    return tf.while_loop(lambda c: c < 20.0, lambda c: (c * w + x,), (x * w,))[0] ** 2


def test_a_loop_of_unknown_length():
    same(staged_growing, growing, 1.2, 1.7)


def test_a_loop_that_remembers_only_some_turns(monkeypatch):
    """What lies between is computed again; here 16 places for 36 turns."""
    monkeypatch.setattr(loops, "_KEPT_BYTES", 1)

    def slowly(x, w):
        c = x
        while c < 20.0:
            c = c * w + tf.sin(x) * 0.1
        return c

    def staged(x, w):
        return tf.while_loop(lambda c: c < 20.0, lambda c: (c * w + tf.sin(x) * 0.1,), (x,))[0]

    same(staged, slowly, 0.5, 1.08, order=1)


def test_a_bound():
    def staged(x):
        return tf.while_loop(lambda c: c < 1e9, lambda c: (c * x,), (x,), maximum_iterations=3)[0]

    same(staged, lambda x: x**4, 1.3)


def test_no_turn_at_all():
    def staged(x):
        return (
            tf.while_loop(lambda c: c > 5.0, lambda c: (c * x,), (x,))[0]
            + tf.while_loop(lambda i, c: i < 0, lambda i, c: (i + 1, c * x), (tf.constant(0), x))[1]
        )

    same(staged, lambda x: 2.0 * x, 1.5)


def test_a_branch_in_a_loop_and_a_loop_in_a_branch():
    def staged(x):
        def body(i, c):
            return i + 1, tf.cond(c > 2.0, lambda: c / x, lambda: c * x + 1.0)

        def loop():
            return tf.while_loop(lambda i, c: i < 5, body, (tf.constant(0), x))[1]

        return tf.cond(x > 0.0, loop, lambda: -x)

    def plain(x):
        c = x
        for _ in range(5):
            c = c / x if c > 2.0 else c * x + 1.0
        return c

    same(staged, plain, 1.4)


def test_variables_assigned_in_a_loop():
    v = tf.Variable(1.0)
    turns = tf.Variable(0)

    @tf.function
    def f(x, limit):
        def body(c):
            v.assign(v * 2.0)
            turns.assign_add(1)
            return (c + x * v,)

        return tf.while_loop(lambda c: c < limit, body, (x,))[0]

    assert float(f(tf.constant(1.0), tf.constant(10.0))) == 15.0
    assert (float(v), int(turns)) == (8.0, 3)


def test_scan_map_fold_and_their_derivatives():
    def staged(x, w):
        a = tf.scan(lambda c, e: c * e * w + 1.0, x)
        b = tf.scan(lambda c, e: tf.sin(c) + e, x, initializer=w, reverse=True)
        c = tf.map_fn(lambda r: r * r * w, x)
        return a * b + c + tf.foldl(lambda a, e: a * 0.5 + e, x) * tf.foldr(lambda a, e: a * e, x, initializer=w)

    f = tf.function(staged)
    x, w = tf.constant([1.0, 2.0, 0.5], tf.float64), tf.constant(0.7, tf.float64)
    np.testing.assert_allclose(f(x, w), staged(x, w), rtol=1e-12)
    same(staged, staged, [1.0, 2.0, 0.5], 0.7)


def test_the_gradient_of_a_weight_used_in_every_turn_is_a_sum():
    w = tf.Variable(tf.eye(3, dtype=tf.float64) * 0.5)
    x = tf.constant(np.arange(12.0).reshape(4, 3) / 10)

    def run(x):
        def cell(h, row):
            return tf.tanh(tf.linalg.matvec(w, h) + row)

        return tf.reduce_sum(tf.scan(cell, x, initializer=tf.zeros(3, tf.float64)) ** 2)

    gradients = []
    for f in (run, tf.function(run)):
        with tf.GradientTape() as tape:
            y = f(x)
        gradients.append(tape.gradient(y, w))
    np.testing.assert_allclose(*gradients, rtol=1e-10)


def test_jacobians_through_branches_and_loops():
    def run(x):
        looped = tf.while_loop(lambda i, c: i < 3, lambda i, c: (i + 1, tf.sin(c) * x), (tf.constant(0), x))[1]
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: looped * x, lambda: x) + tf.scan(lambda a, e: a * e, x)

    x = tf.constant([0.5, 1.0, 1.5], tf.float64)
    found = []
    for f in (run, tf.function(run)):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        found.append([tape.jacobian(y, x), tape.jvp(y, x, tf.ones(3, tf.float64))])

    @tf.function
    def inside(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = run(x)
        return tape.jacobian(y, x)

    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-10)
    np.testing.assert_allclose(found[0][0], inside(x), rtol=1e-10)


def test_random_numbers_differ_in_every_turn_and_every_call():
    @tf.function
    def draw(n):
        _, numbers = tf.while_loop(
            lambda i, t: i < n,
            lambda i, t: (i + 1, tf.tensor_scatter_nd_update(t, [[i]], [tf.random.uniform([])])),
            (tf.constant(0), tf.zeros(5)),
        )
        return numbers

    tf.random.set_seed(3)
    first, second = draw(tf.constant(5)).numpy(), draw(tf.constant(5)).numpy()
    assert len({*first.tolist(), *second.tolist()}) == 10
    tf.random.set_seed(3)
    np.testing.assert_array_equal(draw(tf.constant(5)), first)


def test_a_loop_keeps_dtypes_and_shapes():
    x = tf.constant(1.0)
    with pytest.raises(TypeError, match="dtype float32, but has dtype int32"):
        tf.function(lambda x: tf.while_loop(lambda c: c < 3.0, lambda c: (tf.cast(c, tf.int32),), (x,)))(x)
    with pytest.raises(ValueError, match="shape"):
        tf.function(lambda x: tf.while_loop(lambda c: c[0] < 3.0, lambda c: (tf.concat([c, c], 0),), (x[None],)))(x)


# -- tensor arrays ---------------------------------------------------------------------------------------------------
def test_tensor_arrays_in_loops():
    @tf.function
    def f(x, n):
        ta = tf.TensorArray(tf.float64, size=4)
        _, ta, _ = tf.while_loop(
            lambda i, ta, s: i < n, lambda i, ta, s: (i + 1, ta.write(i, s * x), s * x), (tf.constant(0), ta, x)
        )
        return ta.stack() * ta.read(n - 1)

    x = tf.constant([1.0, 2.0], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, tf.constant(3))
    np.testing.assert_allclose(y, [[1.0, 64.0], [1.0, 128.0], [1.0, 256.0], [0.0, 0.0]])
    powers = np.array([6.0, 7.0, 8.0])[:, None]
    np.testing.assert_allclose(tape.gradient(y, x), (powers * np.array([1.0, 2.0]) ** (powers - 1)).sum(0))


def test_a_growing_tensor_array_is_not_compiled_in_a_loop_of_unknown_length():
    @tf.function(jit_compile=True)
    def f(n):
        ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[])
        return tf.while_loop(lambda i, ta: i < n, lambda i, ta: (i + 1, ta.write(i, 1.0)), (tf.constant(0), ta))[0]

    with pytest.raises(ValueError, match="dynamic_size"):
        f(tf.constant(3))


def test_a_tensor_from_outside_that_a_branch_or_a_loop_uses():
    """Also where the function was traced before any tape followed the tensor."""
    c = tf.constant(3.0)
    f = tf.function(
        lambda x: (
            tf.cond(x > 0.0, lambda: x * c * c, lambda: x) + tf.scan(lambda a, e: a * c + e, x[None] * [1.0, 1.0])[1]
        )
    )
    x = tf.constant(2.0)
    f(x)
    with tf.GradientTape() as tape:
        tape.watch(c)
        y = f(x)
    assert (float(y), float(tape.gradient(y, c))) == (26.0, 14.0)


# -- effects ---------------------------------------------------------------------------------------------------------
def test_prints_come_in_order_at_every_call(capfd):
    @tf.function
    def f(x):
        tf.print("before", x)
        y = tf.while_loop(lambda c: c < 8.0, lambda c: (_shown(c) * 2.0,), (x,))[0]
        tf.print("after", y)
        return y

    def _shown(c):
        tf.print("in", c)
        return c

    f(tf.constant(2.0))
    f(tf.constant(4.0))
    assert capfd.readouterr().err.split("\n")[:-1] == [
        "before 2",
        "in 2",
        "in 4",
        "after 8",
        "before 4",
        "in 4",
        "after 8",
    ]


def test_assertions_raise_when_the_program_runs():
    v = tf.Variable(1.0)

    @tf.function
    def f(x):
        tf.debugging.Assert(x > 0.0, [x])
        return v.assign_add(x)

    f(tf.constant(1.0))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[-1\]"):
        f(tf.constant(-1.0))
    assert float(f(tf.constant(1.0))) > 0


def test_python_functions_inside_of_programs():
    @tf.function
    def f(x):
        spec = tf.TensorSpec([2], tf.float64)
        return tf.py_function(lambda a: a**3, [x], spec) + tf.numpy_function(lambda a: np.sort(a), [x], spec)

    x = tf.constant([3.0, 2.0], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        slope = tape.gradient(y, x)
    np.testing.assert_allclose(y, [29.0, 11.0])
    np.testing.assert_allclose(slope, [27.0, 12.0])
    np.testing.assert_allclose(outer.gradient(slope, x), [18.0, 12.0])
    assert "runs eagerly" not in f.summary()
    for wanted in (tf.float64, tf.TensorSpec([], tf.float64)):
        failing = tf.function(lambda x, t=wanted: tf.numpy_function(lambda a: int(a) / 0, [1], t) + x)
        with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError"):
            failing(tf.constant(1.0, tf.float64))


# -- tf.gradients ----------------------------------------------------------------------------------------------------
def test_gradients_and_hessians_inside_of_a_function():
    @tf.function
    def f(x, z):
        y = x**2 * z
        stopped = tf.gradients(y * x, x, stop_gradients=[y])
        return tf.gradients(y, [x, z]), stopped, tf.gradients(z, x, unconnected_gradients="zero"), tf.hessians(y, x)

    (dx, dz), (stopped,), (nothing,), (hessian,) = f(tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]))
    np.testing.assert_allclose(dx, [6.0, 16.0])
    np.testing.assert_allclose(dz, [1.0, 4.0])
    np.testing.assert_allclose(stopped, [3.0, 16.0])
    np.testing.assert_allclose(nothing, [0.0, 0.0])
    np.testing.assert_allclose(hessian, [[6.0, 0.0], [0.0, 8.0]])
    with pytest.raises(RuntimeError, match="eager"):
        tf.gradients(tf.constant(1.0), tf.constant(1.0))


def test_conjugate_gradients_in_a_function():
    rng = np.random.default_rng(0)
    q = rng.normal(size=(6, 6)).astype(np.float32)
    a = tf.Variable(q @ q.T + 6 * np.eye(6, dtype=np.float32))
    b = tf.constant(rng.normal(size=(2, 6)).astype(np.float32))

    def solved(b):
        return tf.linalg.experimental.conjugate_gradient(a, b, tol=1e-6, max_iter=20)

    found = []
    for solve in (solved, tf.function(solved)):
        with tf.GradientTape() as tape:
            tape.watch(b)
            state = solve(b)
            y = tf.reduce_sum(state.x**2)
        found.append([state.i, state.x, *tape.gradient(y, [a, b])])
    for eager, compiled in zip(*found, strict=True):
        np.testing.assert_allclose(compiled, eager, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(found[1][1], np.linalg.solve(a.numpy(), b.numpy().T).T, rtol=1e-4, atol=1e-5)


def _assigned_in_a_branch(v, m):
    tf.cond(tf.reduce_sum(m) > 0, lambda: v.assign(m), lambda: v.read_value())


def _assigned_in_a_loop(v, m):
    tf.while_loop(lambda i: i < 2, lambda i: (v.assign(m), i + 1)[1:], [tf.constant(0)])


def _assigned_in_a_scan(v, m):
    tf.scan(lambda total, x: (v.assign(m), total + x)[1], tf.ones([3]), 0.0)


def _assigned_what_a_branch_chose(v, m):
    chosen = tf.cond(m[0] > 0, lambda: m, v.read_value)
    tf.cond(m[0] > 0, lambda: v.assign(chosen), lambda: v.read_value())


@pytest.mark.parametrize(
    "assign", [_assigned_in_a_branch, _assigned_in_a_loop, _assigned_in_a_scan, _assigned_what_a_branch_chose]
)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_value_from_outside_is_assigned_inside(assign, jit_compile):
    """As it is, without an op in the branch or the body that computes with it."""
    v, x = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])

    @tf.function(jit_compile=jit_compile)
    def program():
        m = x * 2.0
        assign(v, m)
        return v.read_value() * 3.0

    with tf.GradientTape() as tape:
        y = program()
    assert y.numpy().tolist() == [18.0, 24.0]
    assert v.numpy().tolist() == [6.0, 8.0]
    by_x, by_v = tape.gradient(y, [x, v])
    assert by_x is None
    assert by_v.numpy().tolist() == [3.0, 3.0]
