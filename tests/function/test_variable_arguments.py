"""Variables among the arguments of a `tf.function`: traced for their kind, not for each of them."""

from __future__ import annotations

import gc
import sys
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("jax")

import gradtape as tf
from gradtape._src.graph.tiers import wait_for_compiler


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def traces(f):
    return f.experimental_get_tracing_count()


# -- what is traced --------------------------------------------------------------------------------------------------
def test_one_trace_for_variables_that_are_alike():
    f = tf.function(lambda v: 2.0 * v)
    variables = [tf.Variable(float(i), name=f"v{i}") for i in range(7)]
    assert [float(f(v)) for v in variables] == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0]
    variables[3].assign(50.0)
    assert float(f(variables[3])) == 100.0
    assert traces(f) == 1


@pytest.mark.parametrize("other", [tf.Variable([1.0, 2.0]), tf.Variable(2, dtype=tf.int32), tf.Variable(2.0, False)])
def test_another_trace_for_another_kind(other):
    f = tf.function(lambda v: v + v)
    assert float(f(tf.Variable(4.0))) == 8.0
    np.testing.assert_array_equal(f(other).numpy(), 2 * other.numpy())
    assert traces(f) == 2


def test_names_and_constraints_are_no_kinds():
    f = tf.function(lambda v: 2.0 * v)
    for facts in ({}, {"name": "n"}, {"constraint": abs}, {"aggregation": tf.VariableAggregation.SUM}):
        assert float(f(tf.Variable(3.0, **facts))) == 6.0
    assert traces(f) == 1


def test_a_variable_is_no_tensor():
    f = tf.function(lambda v: 2.0 * v)
    assert float(f(tf.Variable(3.0))) == float(f(tf.constant(3.0))) == 6.0
    assert traces(f) == 2


def test_arguments_that_are_one_variable():
    @tf.function
    def f(v, w):
        v.assign_add(1.0)
        w.assign(w * 3.0)
        return v + w

    a, b, c = tf.Variable(2.0), tf.Variable(3.0), tf.Variable(4.0)
    assert (float(f(a, b)), float(a), float(b)) == (12.0, 3.0, 9.0)
    assert (float(f(a, a)), float(a)) == (24.0, 12.0)
    assert (float(f(c, b)), float(c), float(b)) == (32.0, 5.0, 27.0)
    assert (float(f(c, c)), float(c)) == (36.0, 18.0)
    assert traces(f) == 2


def test_structures_and_keywords():
    f = tf.function(lambda d, *, k: d["x"][0] * k)
    a, b, c = tf.Variable(1.0), tf.Variable(5.0), tf.Variable(7.0)
    assert float(f({"x": [a]}, k=b)) == 5.0
    assert float(f({"x": [b]}, k=c)) == 35.0
    assert traces(f) == 1


def test_a_default_that_is_a_variable():
    default = tf.Variable(7.0)

    @tf.function
    def f(x, v=default):
        return x * v

    x = tf.constant(2.0)
    assert (float(f(x)), float(f(x, v=tf.Variable(3.0))), traces(f)) == (14.0, 6.0, 1)


def test_methods():
    class Doubler:
        @tf.function
        def __call__(self, v):
            return v.assign(2.0 * v)

    double, a, b = Doubler(), tf.Variable(1.0), tf.Variable(2.0)
    assert (float(double(a)), float(double(b)), float(a), float(b)) == (2.0, 4.0, 2.0, 4.0)
    assert double.__call__.experimental_get_tracing_count() == 1


def test_a_shape_that_is_not_declared():
    f = tf.function(lambda v: v.assign(tf.concat([v, v], 0)))
    a, b = (tf.Variable(value, shape=[None]) for value in ([1.0], [2.0, 3.0]))
    assert f(a).numpy().tolist() == [1.0, 1.0]
    assert f(b).numpy().tolist() == [2.0, 3.0, 2.0, 3.0]
    assert f(a).numpy().tolist() == [1.0] * 4
    assert a.numpy().tolist() == [1.0] * 4


def test_unknown_dimensions_beside_a_variable():
    f = tf.function(lambda v, x: tf.reduce_sum(v * x), reduce_retracing=True)
    got = [float(f(tf.Variable(2.0), tf.ones([n]))) for n in range(1, 6)]
    assert got == [2.0, 4.0, 6.0, 8.0, 10.0]
    assert traces(f) == 2
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = f(v, tf.ones([9]))
    assert float(tape.gradient(y, v)) == 9.0


def test_what_the_code_sees_is_the_variable_of_the_trace():
    seen = []

    @tf.function
    def f(v):
        seen.append((v.name, v.shape, v.dtype, v.trainable, repr(v)))
        return v + 0.0

    f(tf.Variable(1.0, name="first")), f(tf.Variable(2.0, name="second"))
    assert seen == [("first:0", (), tf.float32, True, "<tf.Variable 'first:0' shape=() dtype=float32>")]


def test_what_an_assignment_returns_can_be_passed():
    f = tf.function(lambda v: v.assign_add(1.0))
    a = tf.Variable(2.0)
    assert (float(f(a.assign(5.0))), float(f(a)), float(a), traces(f)) == (6.0, 7.0, 7.0, 1)


def test_a_function_of_a_function():
    g = tf.function(lambda v: v.assign_add(1.0))

    @tf.function
    def f(v, w):
        g(v), g(w)
        return v + w

    a, b = tf.Variable(2.0), tf.Variable(3.0)
    assert (float(f(a, b)), float(f(b, a)), float(a), float(b), traces(f)) == (7.0, 9.0, 4.0, 5.0, 1)


def test_a_variable_that_begins_with_the_value_of_another():
    made = []

    @tf.function
    def f(v):
        if not made:
            made.append(tf.Variable(v + 1.0))
        return made[0] * v

    assert (float(f(tf.Variable(1.0))), float(f(tf.Variable(4.0))), traces(f)) == (2.0, 8.0, 2)


# -- assignments -----------------------------------------------------------------------------------------------------
def test_assignments_go_to_the_variable_that_is_passed():
    @tf.function
    def f(v, x):
        v.assign_add(x)
        return tf.reduce_sum(v)

    a, b = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    for _ in range(3):
        f(a, tf.ones([2])), f(b, 2.0 * tf.ones([2]))
    assert (a.numpy().tolist(), b.numpy().tolist(), traces(f)) == ([4.0, 5.0], [9.0, 10.0], 1)
    held = a.read_value()
    f(a, tf.ones([2]))
    assert held.numpy().tolist() == [4.0, 5.0]


def test_branches_and_loops_that_assign():
    @tf.function
    def f(v, up, n):
        tf.cond(up, lambda: v.assign_add(1.0), lambda: v.assign_sub(1.0))
        for _ in tf.range(n):
            v.assign(2.0 * v)
        return v + 0.0

    a, b = tf.Variable(2.0), tf.Variable(3.0)
    assert float(f(a, tf.constant(True), tf.constant(3))) == float(a) == 24.0
    assert float(f(b, tf.constant(False), tf.constant(2))) == float(b) == 8.0
    assert traces(f) == 1


def test_threads_that_pass_one_variable():
    f = tf.function(lambda v: v.assign_add(tf.ones([100])))
    total = tf.function(lambda v, w: tf.reduce_sum(v) + tf.reduce_sum(w))
    v, w = tf.Variable(tf.zeros([100])), tf.Variable(tf.zeros([100]))
    interval = sys.getswitchinterval()
    sys.setswitchinterval(interval / 1000)

    def work(number):
        for _ in range(20):
            f(w if number % 2 else v)
            assert float(total(v, w)) % 100 == 0

    try:
        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
    finally:
        sys.setswitchinterval(interval)
    assert v.numpy().tolist() == w.numpy().tolist() == [60.0] * 100
    assert (traces(f), traces(total)) == (1, 1)


# -- tapes -----------------------------------------------------------------------------------------------------------
def test_a_tape_outside_follows_the_variable_that_is_passed():
    f = tf.function(lambda v: v * v * v)
    a, b = tf.Variable([1.0, 2.0], name="a"), tf.Variable([3.0, 4.0], name="b")
    f(a)
    with tf.GradientTape(persistent=True) as outer:
        with tf.GradientTape(persistent=True) as tape:
            y = f(b)
        slope = tape.gradient(y, b)
    assert [v.name for v in tape.watched_variables()] == ["b:0"]
    assert tape.gradient(y, a) is None
    assert slope.numpy().tolist() == [27.0, 48.0]
    assert tape.jacobian(y, b).numpy().tolist() == [[27.0, 0.0], [0.0, 48.0]]
    assert outer.gradient(slope, b).numpy().tolist() == [18.0, 24.0]
    assert outer.jacobian(slope, b).numpy().tolist() == [[18.0, 0.0], [0.0, 24.0]]
    with tf.autodiff.ForwardAccumulator(b, tf.ones([2])) as forward:
        y = f(b)
    assert forward.jvp(y).numpy().tolist() == [27.0, 48.0]
    assert traces(f) == 1


def test_a_tape_outside_follows_arguments_and_own_variables():
    w = tf.Variable(10.0, name="w")
    f = tf.function(lambda u, v: w * u * v)
    a, b, c = (tf.Variable(x, name=n) for x, n in ((2.0, "a"), (3.0, "b"), (5.0, "c")))
    f(a, b)
    with tf.GradientTape() as tape:
        y = f(c, a)
    assert sorted(v.name for v in tape.watched_variables()) == ["a:0", "c:0", "w:0"]
    assert [float(g) for g in tape.gradient(y, [w, c, a])] == [10.0, 20.0, 50.0]
    with tf.GradientTape() as tape:
        y = f(b, b)
    assert float(tape.gradient(y, b)) == 60.0
    assert traces(f) == 2


def test_what_is_passed_is_watched_even_if_it_is_not_read():
    f = tf.function(lambda v, w: 2.0 * w)
    a, b = tf.Variable(1.0, name="a"), tf.Variable(2.0, name="b")
    with tf.GradientTape() as tape:
        y = f(a, b)
    assert sorted(v.name for v in tape.watched_variables()) == ["a:0", "b:0"]
    assert tape.gradient(y, [a, b])[0] is None


def test_a_tape_inside():
    @tf.function
    def step(v):
        with tf.GradientTape() as tape:
            y = v * v
        slope = tape.gradient(y, tape.watched_variables())[0]
        v.assign_sub(0.5 * slope)
        return slope

    a, b = tf.Variable(2.0), tf.Variable(3.0)
    assert (float(step(a)), float(step(b)), float(a), float(b), traces(step)) == (4.0, 6.0, 0.0, 0.0, 1)


def test_rows_of_a_table():
    f = tf.function(lambda table, i: tf.reduce_sum(tf.gather(table, i) ** 2))
    a, b = tf.Variable(tf.ones([4, 2])), tf.Variable(3.0 * tf.ones([4, 2]))
    f(a, tf.constant([0, 1]))
    with tf.GradientTape() as tape:
        y = f(b, tf.constant([1, 1]))
    slices = tape.gradient(y, b)
    assert isinstance(slices, tf.IndexedSlices)
    assert tf.convert_to_tensor(slices).numpy().tolist() == [[0.0, 0.0], [12.0, 12.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_custom_gradient_that_reads_an_argument_on_the_way_back():
    @tf.function
    def f(v, x):
        @tf.custom_gradient
        def op(x):
            def grad(dy, variables=None):
                return (2.0 * dy * v, [None] * len(variables)) if variables else 2.0 * dy * v

            return 3.0 * x, grad

        return op(x)

    x, a, b = tf.Variable(1.0), tf.Variable(2.0), tf.Variable(5.0)
    for v in (a, b):
        with tf.GradientTape() as tape:
            y = f(v, x)
        assert float(tape.gradient(y, x)) == 2.0 * float(v)
    assert traces(f) == 1


# -- variables that the code knows by itself -------------------------------------------------------------------------
def test_an_argument_that_the_function_reads_by_itself():
    a, b, c = tf.Variable(2.0), tf.Variable(3.0), tf.Variable(5.0)
    f = tf.function(lambda v: a * v)
    assert [float(f(v)) for v in (a, b, c, a, b)] == [4.0, 6.0, 10.0, 4.0, 6.0]
    assert traces(f) == 2
    with tf.GradientTape() as tape:
        y = f(a)
    assert float(tape.gradient(y, a)) == 4.0
    with tf.GradientTape() as tape:
        y = f(b)
    assert [float(g) for g in tape.gradient(y, [a, b])] == [3.0, 2.0]


@pytest.mark.parametrize("first", [0, 1])
def test_an_argument_that_the_function_assigns_by_itself(first):
    a, b = tf.Variable(2.0), tf.Variable(3.0)

    @tf.function
    def f(v):
        v.assign_add(10.0)
        a.assign_add(1.0)
        return v + 100.0 * a

    order = [a, b] if first == 0 else [b, a]
    want = {0: [13 + 1300.0, 13 + 1400.0], 1: [13 + 300.0, 14 + 1400.0]}[first]
    assert [float(f(v)) for v in order] == want
    assert float(f(b)) == 23 + 100 * float(a)
    assert traces(f) == 2


def test_gradients_by_an_argument_of_what_the_function_reads_by_itself():
    a, b = tf.Variable(2.0), tf.Variable(3.0)

    @tf.function
    def f(variables):
        with tf.GradientTape() as tape:
            y = a * a
        return tape.gradient(y, variables, unconnected_gradients="zero")

    assert [float(f([v])[0]) for v in (a, b, a)] == [4.0, 0.0, 4.0]


def test_unknown_dimensions_and_an_argument_that_the_function_reads_by_itself():
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    f = tf.function(lambda v, x: tf.reduce_sum(a * v * x), reduce_retracing=True)
    for v in (a, b):
        assert [float(f(v, tf.ones([n]))) for n in (1, 2, 3, 4)] == [2.0 * float(v) * n for n in (1, 2, 3, 4)]


def test_code_that_asks_which_variable_it_is():
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    a.factor, b.factor = 10.0, 20.0
    slots = {a.ref(): tf.Variable(100.0), b.ref(): tf.Variable(200.0)}

    def by_value(v):
        with tf.init_scope():
            return v.numpy() + 0.0 * v

    def called_back(v):
        return tf.py_function(lambda: 2.0 * v.read_value(), [], tf.TensorSpec([], tf.float32))

    for python, want in (
        (lambda v: v * slots[v.ref()], [200.0, 600.0]),
        (lambda v: v * v.factor, [20.0, 60.0]),
        (by_value, [2.0, 3.0]),
        (called_back, [4.0, 6.0]),
    ):
        f = tf.function(python)
        for _ in range(2):
            assert [float(f(v)) for v in (a, b)] == want
        assert traces(f) == 2


def test_attributes_that_no_variable_has():
    with pytest.raises(AttributeError, match="'Variable' object has no attribute 'colour'"):
        tf.function(lambda v: v.colour)(tf.Variable(1.0))


def test_an_argument_that_is_kept_and_gone():
    kept = []

    @tf.function
    def f(v):
        kept.append(v)
        return v + 1.0

    v = tf.Variable(2.0, name="gone")
    f(v)
    assert float(kept[0]) == 2.0
    kept[0].assign(3.0)
    assert float(v) == 3.0
    assert float(tf.function(lambda v: v + 1.0)(kept[0])) == 4.0
    del v
    gc.collect()
    with pytest.raises(tf.errors.FailedPreconditionError, match="'gone:0' no longer exists"):
        kept[0].numpy()


# -- concrete functions ----------------------------------------------------------------------------------------------
def test_concrete_functions_take_other_variables():
    f = tf.function(lambda v: v.assign(2.0 * v))
    a, b = tf.Variable(1.0), tf.Variable(5.0)
    double = f.get_concrete_function(a)
    assert (float(double(b)), float(double(a)), float(double(b))) == (10.0, 2.0, 20.0)
    assert (float(a), float(b), double.variables, traces(f)) == (2.0, 20.0, (), 1)
    (spec,) = double.structured_input_signature[0]
    assert repr(spec) == "VariableSpec(shape=(), dtype=tf.float32, trainable=True, alias_id=0)"
    assert double.pretty_printed_signature(False).endswith("(Variable(float32[]))")


def test_concrete_functions_say_what_they_take():
    double = tf.function(lambda v: 2.0 * v).get_concrete_function(tf.Variable(1.0))
    with pytest.raises(
        TypeError, match=r"Binding inputs to tf\.function failed due to .missing a required argument: 'v'"
    ):
        double()
    with pytest.raises(TypeError, match=r"received a variable of shape \(1,\)"):
        double(tf.Variable([1.0]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"but takes a tf\.Variable"):
        double(tf.constant(1.0))
    assert float(double(tf.Variable(3.0, trainable=False))) == 6.0


def test_concrete_functions_and_variables_that_are_one():
    f = tf.function(lambda v, w: v.assign_add(w))
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    apart, same = f.get_concrete_function(a, b), f.get_concrete_function(a, a)
    assert (float(apart(a, b)), float(same(a, a)), float(apart(b, b)), float(same(a, b))) == (5.0, 10.0, 6.0, 16.0)
    assert traces(f) == 2
    del f
    gc.collect()
    assert float(apart(a, a)) == 32.0


def test_concrete_functions_and_their_own_variables():
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    f = tf.function(lambda v: a.assign_add(v))
    add = f.get_concrete_function(b)
    assert (float(add(b)), float(add(a)), add.variables[0] is a) == (5.0, 10.0, True)


def test_concrete_functions_within_functions():
    w = tf.Variable(10.0)

    @tf.function
    def grow(v, x):
        v.assign_add(1.0)
        w.assign_add(1.0)
        return v * v * x

    a, b, x = tf.Variable(2.0), tf.Variable(3.0), tf.constant(2.0)
    concrete = grow.get_concrete_function(a, x)

    @tf.function
    def f(v, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = concrete(v, x)
            v.assign(100.0)
        return y + v, tape.gradient(y, [v, x])

    total, slopes = f(b, x)
    assert (float(total), [float(s) for s in slopes]) == (132.0, [16.0, 16.0])
    assert (float(a), float(b), float(w)) == (2.0, 100.0, 11.0)
    total, slopes = f(a, x)
    assert (float(total), [float(s) for s in slopes]) == (118.0, [12.0, 9.0])
    assert traces(f) == 1


# -- memory ----------------------------------------------------------------------------------------------------------
def test_a_function_does_not_keep_what_it_was_traced_with(no_collector):
    @tf.function
    def f(v, x):
        v.assign_add(x)
        return tf.reduce_sum(v * v)

    v, x = tf.Variable(tf.ones([1000])), tf.Variable(tf.ones([1000])).read_value()
    with tf.GradientTape() as tape:
        y = f(v, x)
    tape.gradient(y, v)
    f.get_concrete_function(v, x)
    gone = [weakref.ref(thing) for thing in (v, x.array)]
    del v, x, tape, y
    assert [reference() for reference in gone] == [None, None]
    assert float(f(tf.Variable(tf.zeros([1000])), tf.ones([1000]))) == 1000.0
    assert traces(f) == 1


def test_variables_that_come_and_go_leave_nothing(no_collector):
    f = tf.function(lambda v: tf.reduce_sum(v.assign_add(tf.ones([50]))))

    zeros = np.zeros(50, np.float32)

    def step():
        v = tf.Variable(zeros)
        with tf.GradientTape() as tape:
            y = f(v)
        assert tape.gradient(y, v).numpy().tolist() == [1.0] * 50

    growth = [20]
    while growth[-1] >= 20 and len(growth) < 60:  # until free lists and the list of the last gradients are full, and
        wait_for_compiler()  # XLA has compiled
        blocks = sys.getallocatedblocks()
        for _ in range(200):
            step()
        growth.append(sys.getallocatedblocks() - blocks)
    assert growth[-1] < 20, growth
