"""Loops whose variables change their shapes: traced once, equal to eager code in values and in every derivative."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.function.eager import EagerFunction

VALUES = [1.1, -0.7, 0.4, 0.9]
VECTOR = tf.TensorShape([None])
free = tf.autograph.experimental.set_loop_options


def while_loop(x: Any, n: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.concat([y, tf.sin(y[-1:]) * x[1]], 0)

    _, y = tf.while_loop(lambda i, _: i < n, body, (0, x[:1]), shape_invariants=(tf.TensorShape([]), VECTOR))
    return y * x[0]


def matrices(x: Any, n: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, tf.concat([y, tf.tanh(y[-1:] @ tf.matmul(y, y, transpose_a=True))], 0)

    shapes = tf.TensorShape([]), tf.TensorShape([None, 4])
    return tf.while_loop(lambda i, _: i < n, body, (0, x[None]), shape_invariants=shapes)[1]


def shrinking(x: Any, n: Any) -> Any:
    y = tf.concat([x, x], 0)
    while tf.size(y) > n + 4:
        free(shape_invariants=[(y, VECTOR)])
        y = tf.sin(y[1:]) * y[0]
    return y


def masked(x: Any, n: Any) -> Any:
    y = x
    for _ in tf.range(n):
        free(shape_invariants=[(y, VECTOR)])
        y = tf.boolean_mask(y * y, tf.range(tf.size(y)) > 0)
    return y


def from_nothing(x: Any, n: Any) -> Any:
    y = tf.zeros([0])
    for i in tf.range(n):
        free(shape_invariants=[(y, VECTOR)])
        y = tf.concat([y, [x[0] * x[1] ** 2 * tf.cast(i, tf.float32)]], 0)
    return y


def over_rows(x: Any, n: Any) -> Any:
    y = x[:1]
    for row in x:
        free(shape_invariants=[(y, VECTOR)])
        y = tf.concat([y, y[-1:] * row], 0)
    return y


def two_variables(x: Any, n: Any) -> Any:
    y, z = x[:1], x[1:2]
    for _ in tf.range(n):
        free(shape_invariants=[(y, VECTOR), (z, VECTOR)])
        y = tf.concat([y, y[-1:] * z[-1:]], 0)
        z = tf.concat([z, y[:1]], 0)
    return y + z


def swapped(x: Any, n: Any) -> Any:
    y, z = x[:1], x[1:3]
    for _ in tf.range(n):
        free(shape_invariants=[(y, VECTOR), (z, VECTOR)])
        y, z = tf.sin(z), tf.concat([y, x[:1]], 0)
    return tf.concat([y, z], 0)


def nested(x: Any, n: Any) -> Any:
    y = x[:1]
    for i in tf.range(n):
        free(shape_invariants=[(y, VECTOR)])
        z = y
        for _ in tf.range(i):
            free(shape_invariants=[(z, VECTOR)])
            z = tf.concat([z, x[1:2] * tf.reduce_sum(z)], 0)
        y = tf.concat([z, x[:1]], 0)
    return tf.sin(y)


def with_a_branch(x: Any, n: Any) -> Any:
    y = x[:1]
    for i in tf.range(n):
        free(shape_invariants=[(y, VECTOR)])
        if i % 2 == 0:
            y = tf.concat([y, x[1:2] * tf.reduce_sum(y)], 0)
    return tf.sin(y)


def with_break(x: Any, n: Any) -> Any:
    y = x[:1]
    for i in tf.range(10):
        free(shape_invariants=[(y, VECTOR)])
        y = tf.concat([y, x[1:2] * tf.reduce_sum(y)], 0)
        if i >= n:
            break
    return tf.sin(y)


def doubling(x: Any, n: Any) -> Any:
    y, i = x[:1], tf.constant(0)
    while tf.reduce_sum(y) < 50.0 and i < n:
        free(shape_invariants=[(y, VECTOR)])
        y = tf.concat([y, y * 2], 0)
        i += 1
    return y * x[1]


def growing_array(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[])
    i, a = tf.constant(0), x[0]
    while i < n:
        a = tf.sin(a) * x[1]
        array = array.write(i, a * x[2])
        i += 1
    return array.stack()


def array_of_rows(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=1, dynamic_size=True, element_shape=[2])
    _, array = tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a.write(i + 1, x[:2] * x[1])), (0, array))
    return array.concat()


def rows_of_different_lengths(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=1, dynamic_size=True, infer_shape=False).write(0, x[:1])
    for i in tf.range(n):
        array = array.write(i + 1, x[: i + 1] * x[0])
    return array.concat()


def reading_what_was_written(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False).write(0, x[0])
    for i in tf.range(n):
        array = array.write(i + 1, tf.sin(array.read(i)) * x[1])
    return array.stack()


def reading_different_lengths(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, 1, True, infer_shape=False, clear_after_read=False).write(0, x[:1])
    for i in tf.range(n):
        array = array.write(i + 1, tf.concat([array.read(i), x[1:2] * x[0]], 0))
    return array.read(n) * tf.cast(array.size(), tf.float32)


def array_of_unknown_size(x: Any, n: Any) -> Any:
    array = tf.TensorArray(tf.float32, size=n + 1, element_shape=[])
    for i in tf.range(n + 1):
        array = array.write(i, x[0] ** 2 * tf.cast(i, tf.float32))
    return array.stack()


LOOPS = [while_loop, matrices, shrinking, nested, two_variables, growing_array, rows_of_different_lengths]
"""Loops whose derivatives of all kinds are compared."""
OTHERS = [masked, from_nothing, over_rows, swapped, with_a_branch, with_break, doubling, array_of_rows]
OTHERS += [reading_what_was_written, reading_different_lengths, array_of_unknown_size]


def check_traced(function: Any) -> None:
    assert not any(isinstance(concrete, EagerFunction) for concrete in function.traces())
    assert function.experimental_get_tracing_count() == 1


def check_equal(found: Any, expected: Any) -> None:
    assert (found is None) == (expected is None)
    if found is not None:
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("program", [*LOOPS, *OTHERS], ids=lambda program: program.__name__)
def test_values_and_gradients_are_those_of_eager_code(program: Callable[..., Any]) -> None:
    function, x = tf.function(program), tf.constant(VALUES)
    for n in (2, 3, 0):
        found = []
        for run in (function, program):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = run(x, tf.constant(n))
            found.append((y, tape.gradient(y, x)))
        for a, b in zip(*found, strict=True):
            check_equal(a, tf.zeros_like(x) if b is None else b)  # an empty result is connected where it was traced
    check_traced(function)


def derivatives(run: Callable[..., Any], x: Any, n: Any) -> list[Any]:
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(x)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = run(x, n)
            total = tf.reduce_sum(y**2)
        slope = tape.gradient(total, x)
    with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 2.0, -1.0, 0.5])) as accumulator:
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = run(x, n)
            total = tf.reduce_sum(y**2)
        product = accumulator.jvp(inner.gradient(total, x))
    return [tape.jacobian(y, x), outer.jacobian(slope, x), accumulator.jvp(y), product]


@pytest.mark.parametrize("program", LOOPS, ids=lambda program: program.__name__)
def test_derivatives_of_any_order_and_mode(program: Callable[..., Any]) -> None:
    function, x, n = tf.function(program), tf.constant(VALUES), tf.constant(3)
    for found, expected in zip(derivatives(function, x, n), derivatives(program, x, n), strict=True):
        check_equal(found, expected)
    check_traced(function)


def test_tapes_inside() -> None:
    @tf.function
    def inside(x, n):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = while_loop(x, n)
        return tape.gradient(y, x), tape.jacobian(y, x)

    x = tf.constant(VALUES)
    for n in (1, 3):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = while_loop(x, tf.constant(n))
        slope, jacobian = inside(x, tf.constant(n))
        check_equal(slope, tape.gradient(y, x))
        check_equal(jacobian, tape.jacobian(y, x))
    check_traced(inside)


def test_variables_are_assigned_in_every_iteration() -> None:
    v = tf.Variable(1.0)

    @tf.function
    def grow(x, n):
        y = x[:1]
        for _ in tf.range(n):
            free(shape_invariants=[(y, VECTOR)])
            y = tf.concat([y, y[-1:] * v], 0)
            v.assign_add(1.0)
        return y

    with tf.GradientTape() as tape:
        y = grow(tf.ones([2]), tf.constant(3))
    assert y.numpy().tolist() == [1.0, 1.0, 2.0, 6.0]
    assert float(v) == 4.0
    assert float(tape.gradient(y, v)) == 15.0
    check_traced(grow)


def test_sizes_that_no_argument_declares_may_change() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None]), tf.TensorSpec([], tf.int32)])
    def grow(x, n):
        for _ in tf.range(n):
            x = tf.concat([x, x[-1:] * 2.0], 0)
        return x

    assert grow(tf.constant([1.0, 2.0]), tf.constant(2)).numpy().tolist() == [1.0, 2.0, 4.0, 8.0]
    assert grow(tf.constant([3.0]), tf.constant(1)).numpy().tolist() == [3.0, 6.0]
    check_traced(grow)


def test_a_loop_that_keeps_its_shapes_can_be_compiled() -> None:
    @tf.function
    def unchanged(x, n):
        for _ in tf.range(n):
            free(shape_invariants=[(x, VECTOR)])
            x = tf.sin(x)
        return x

    unchanged(tf.ones([2]), tf.constant(2))
    assert not unchanged.traces()[0].graph.needs_numpy


def test_random_numbers_are_those_of_a_loop_without_changing_shapes() -> None:
    def numbers(grows: bool) -> Any:
        @tf.function
        def draw(n):
            y, last = tf.zeros([0]), tf.zeros([1])
            for _ in tf.range(n):
                free(shape_invariants=[(y, VECTOR)])
                last = tf.random.normal([1])
                if grows:
                    y = tf.concat([y, last], 0)
            return last

        tf.random.set_seed(7)
        return draw(tf.constant(3)).numpy().tolist(), draw(tf.constant(2)).numpy().tolist()

    assert numbers(True) == numbers(False)


def test_errors() -> None:
    @tf.function
    def undeclared(x, n):
        for _ in tf.range(n):
            x = tf.concat([x, x], 0)
        return x

    with pytest.raises(ValueError, match="shape invariants"):
        undeclared(tf.ones([2]), tf.constant(2))

    @tf.function
    def empty(n):
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, infer_shape=False)
        for i in tf.range(n):
            array = array.write(i, tf.ones([i]))
        return array.concat()

    assert empty(tf.constant(3)).shape == (3,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="concating an empty tensor list"):
        empty(tf.constant(0))

    @tf.function
    def first(n):
        array = tf.TensorArray(tf.float32, size=0, dynamic_size=True)
        for i in tf.range(n):
            array = array.write(i, 1.0)
        return array.read(0)

    assert float(first(tf.constant(2))) == 1.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="Trying to access element 0 in a list with 0 elements"):
        first(tf.constant(0))


# -- loops over nothing ------------------------------------------------------------------------------------------------
def _read_at(x, i):
    return tf.gather_nd(x, [[i]])[0]


def _elements_of(x, i):
    return tf.TensorArray(tf.float32, tf.shape(x)[0], clear_after_read=False).unstack(x).read(i)


@pytest.mark.parametrize("compiled", [None, True])
@pytest.mark.parametrize("read", [_read_at, tf.gather, _elements_of])
def test_a_loop_that_never_runs_may_read_an_empty_tensor(read, compiled):
    @tf.function(jit_compile=compiled)
    def total(x):
        found = tf.zeros([2])
        for i in tf.range(tf.shape(x)[0]):
            found += read(x, i)
        return found

    assert total(tf.zeros([0, 2])).numpy().tolist() == [0.0, 0.0]
    assert total(tf.ones([3, 2])).numpy().tolist() == [3.0, 3.0]


@pytest.mark.parametrize("call", [lambda f: f, tf.function])
def test_an_empty_tensor_has_nothing_to_gather(call):
    with pytest.raises(tf.errors.InvalidArgumentError, match="Requested more than 0 entries, but params is empty"):
        call(lambda x: tf.gather_nd(x, [[0]]))(tf.zeros([0, 2]))
