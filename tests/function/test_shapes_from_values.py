"""Shapes that depend on values: functions are traced once, and run on NumPy with whatever sizes come out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.function.concrete import ConcreteFunction
from gradtape._src.function.eager import EagerFunction

VECTORS = [([1.0, -2.0, 3.0, 4.0],), ([-1.0, -2.0, 3.0, -4.0],), ([-1.0, -2.0, -3.0, -4.0],)]
"""Three, one and no positive elements."""

COUNTS = [([1.0, -2.0, 3.0, 4.0], 2), ([1.0, -2.0, 3.0, 4.0], 3), ([1.0, -2.0, 3.0, 4.0], 0)]
SCALAR = tf.TensorSpec([], tf.int32)
MASKS = [([1.0, -2.0, 3.0, 4.0], [2.0, 3.0, -1.0, 5.0]), ([-1.0, -2.0, 3.0, -4.0], [-1.0, 2.0, -3.0, -4.0])]
IDS = [([1.0, -2.0, 3.0, 4.0], [0, 0, 1, 1]), ([1.0, -2.0, 3.0, 4.0], [0, 1, 2, 3])]


def positive(x: Any) -> Any:
    return tf.boolean_mask(x, x > 0)


def outer(x: Any) -> Any:
    return x[:, None] * x[None, :]


PROGRAMS: dict[str, tuple[Any, list[Any]]] = {
    "boolean_mask": (lambda x: tf.reduce_sum(positive(x) ** 2), VECTORS),
    "index by a mask": (lambda x: x[x > 0] ** 2, VECTORS),
    "mask of rows": (lambda x: tf.boolean_mask(tf.reshape(x, [2, 2]), tf.reshape(x, [2, 2])[:, 0] > 0), VECTORS),
    "where": (lambda x: tf.cast(tf.where(x > 0), tf.float32) + x[0], VECTORS),
    "gather_nd of where": (lambda x: tf.gather_nd(x, tf.where(x > 0)) ** 3, VECTORS),
    "unique": (lambda x: x[0] * tf.cast(tf.unique(tf.cast(x > 0, tf.int32))[0], tf.float32), VECTORS),
    "unique_with_counts": (lambda x: tf.unique_with_counts(tf.cast(x > 0, tf.int32)), VECTORS),
    "dynamic_partition": (lambda x: tf.dynamic_partition(x**2, tf.cast(x > 0, tf.int32), 2), VECTORS),
    "mean": (lambda x: tf.reduce_mean(tf.boolean_mask(x, x > -3) ** 2), VECTORS),
    "softmax": (lambda x: tf.nn.softmax(positive(x)), VECTORS),
    "the same mask twice": (lambda x: positive(x) * tf.boolean_mask(2 * x, x > 0), VECTORS),
    "concat": (lambda x: tf.concat([positive(x), x], 0) ** 2, VECTORS),
    "broadcasting": (lambda x: outer(positive(x)), VECTORS),
    "matmul": (lambda x: tf.matmul(positive(x)[:, None], positive(x)[None, :]), VECTORS),
    "size": (lambda x: tf.cast(tf.size(positive(x)), tf.float32) * x, VECTORS),
    "sort": (lambda x: tf.sort(positive(x)), VECTORS),
    "argmax": (lambda x: x[tf.argmax(tf.boolean_mask(x, x > -9))], VECTORS),
    "map_fn": (lambda x: tf.map_fn(lambda a: a * a, tf.boolean_mask(x, x > -4)), VECTORS),
    "slice to": (lambda x, n: x[:n] ** 2, COUNTS),
    "slice from": (lambda x, n: x[n:] * 2, COUNTS),
    "tf.slice": (lambda x, n: tf.slice(x, [n], [-1]) ** 2, COUNTS),
    "range": (lambda x, n: tf.reduce_sum(tf.cast(tf.range(n), tf.float32)) * x, COUNTS),
    "zeros": (lambda x, n: tf.zeros([n, 2]) + x[0], COUNTS),
    "fill": (lambda x, n: tf.fill([n], x[0]), COUNTS),
    "tile": (lambda x, n: tf.tile(x, [n]) ** 2, COUNTS),
    "repeat": (lambda x, n: tf.repeat(x, n) ** 2, COUNTS),
    "repeat each": (lambda x, n: tf.repeat(x, n) ** 2, IDS),
    "pad": (lambda x, n: tf.pad(x, [[n, 1]]) ** 2, COUNTS),
    "reshape": (lambda x, n: tf.reshape(x, [n, -1]) ** 2, [([1.0, 2.0, 3.0, 4.0], n) for n in (1, 2, 4)]),
    "reshape by a vector": (
        lambda x, n: tf.reshape(x, n) ** 2,
        [([1.0, 2.0, 3.0, 4.0], n) for n in ([2, 2], [4, 1], [-1, 2])],
    ),
    "one_hot": (lambda x, n: tf.one_hot([0, 1], n) * x[0], COUNTS),
    "sequence_mask": (lambda x, n: tf.cast(tf.sequence_mask(n), tf.float32) * x[0], IDS),
    "segment_sum": (lambda x, n: tf.math.segment_sum(x, n) ** 2, IDS),
    "two masks added": (lambda x, y: positive(x) ** 2 + positive(y), MASKS),
    "two masks compared": (lambda x, y: tf.where(positive(x) > positive(y), positive(x) ** 2, positive(y)), MASKS),
    "two masks stacked": (lambda x, y: tf.stack([positive(x) ** 2, positive(y)]), MASKS),
    "two masks side by side": (lambda x, y: tf.concat([positive(x)[:, None] ** 2, positive(y)[:, None]], 1), MASKS),
    "a product of two masks": (lambda x, y: tf.tensordot(positive(x) ** 2, positive(y), 1), MASKS),
    "a matrix product of two masks": (lambda x, y: positive(x)[None, :] @ positive(y)[:, None], MASKS),
    "einsum of two masks": (lambda x, y: tf.einsum("i,i->i", positive(x) ** 2, positive(y)), MASKS),
    "a loss of two masks": (lambda x, y: tf.reduce_mean(tf.square(positive(x) - positive(y))), MASKS),
    "cross entropy of two masks": (
        lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(positive(y), positive(x)),
        MASKS,
    ),
    "scattered by another mask": (lambda x, y: tf.tensor_scatter_nd_add(x, tf.where(y > 0), positive(x) ** 2), MASKS),
    "segments of another mask": (
        lambda x, y: tf.math.unsorted_segment_sum(positive(x) ** 2, tf.where(y > 0)[:, 0], 4),
        MASKS,
    ),
    "a union of two masks": (
        lambda x, y: tf.concat([positive(x), positive(y)], 0) * positive(tf.concat([x, y], 0)),
        MASKS,
    ),
    "a slice by another mask": (lambda x, y: positive(x)[: tf.size(positive(y)) - 1] ** 2, MASKS),
    "sizes of two masks": (lambda x, y: tf.zeros([tf.size(positive(x)) + tf.size(positive(y))]) + x[0] ** 2, MASKS),
    "branches of different shapes": (lambda x: tf.cond(x[0] > 0, lambda: x[:2] ** 2, lambda: x[:3] * 2), VECTORS),
    "a branch with a mask": (lambda x: tf.cond(x[0] > 0, lambda: positive(x) ** 2, lambda: x[:1]), VECTORS),
}


def traced(function: Any) -> list[ConcreteFunction]:
    assert not any(isinstance(concrete, EagerFunction) for concrete in function.traces())
    assert function.experimental_get_tracing_count() == 1
    return function.traces()


def check_equal(found: Any, expected: Any) -> None:
    pairs = zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True)
    for a, b in pairs:
        assert (a is None) == (b is None)
        if b is not None:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(tf.convert_to_tensor(a), tf.convert_to_tensor(b), rtol=1e-6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_those_of_eager_code(name: str) -> None:
    program, calls = PROGRAMS[name]
    function = tf.function(program)
    for x, *others in calls:
        x, *others = tf.constant(x), *map(tf.constant, others)
        found = []
        for run in (function, program):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = run(x, *others)
            floats = [t for t in tf.nest.flatten(y) if t.dtype.is_floating]
            found.append((y, tape.gradient(floats, x) if floats else None))
        check_equal(*found)
    traced(function)


@pytest.mark.parametrize("name", PROGRAMS)
def test_forward_mode_inside(name: str) -> None:
    """Forward mode by accumulators and by tapes, whose records a trace has."""
    program, calls = PROGRAMS[name]

    def compute(x: Any, *others: Any) -> Any:
        direction = tf.constant([1.0, -0.5, 2.0, 0.25])  # a tangent whose values are known, where shapes are not
        with tf.GradientTape() as tape, tf.autodiff.ForwardAccumulator(x, direction) as accumulator:
            tape.watch(x)
            y = [t for t in tf.nest.flatten(program(x, *others)) if t.dtype.is_floating]
        by_tape = tape.jvp(y, x, direction, unconnected_gradients="zero")
        return y, accumulator.jvp(y, unconnected_gradients="zero"), by_tape

    function = tf.function(compute)
    for call in calls:
        given = [*map(tf.constant, call)]
        check_equal(function(*given), compute(*given))
    traced(function)


def test_constants_are_cut_by_sizes_that_depend_on_values() -> None:
    def compute(x: Any) -> Any:
        size = tf.size(positive(x))
        return tf.constant([1.0, 2.0, 3.0, 4.0])[:size], tf.reverse(tf.constant([1.0, 2.0, 3.0])[size:], [0])

    function = tf.function(compute)
    for (values,) in VECTORS:
        check_equal(function(tf.constant(values)), compute(tf.constant(values)))
    traced(function)


PYTHON = {
    "a known size": (lambda x: x, [4]),
    "values in a mask": (lambda x: tf.boolean_mask(x, x > 0), [None]),
    "no values": (lambda x: tf.boolean_mask(x, x > 9), [None]),
}


@pytest.mark.parametrize("name", PYTHON)
def test_jacobians_of_python_functions(name: str) -> None:
    """Each row of a Jacobian, and of its Jacobian, calls the gradient of the function for a row of cotangents."""
    pick, shape = PYTHON[name]

    def first(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.py_function(lambda v: tf.sin(v) * tf.reduce_sum(v), [pick(x)], tf.TensorSpec(shape, tf.float32))
        return tape.jacobian(y, x)

    def second(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            rows = first(x)
        return rows, tape.jacobian(rows, x)

    for compute in (first, second):
        function = tf.function(compute)
        for (values,) in VECTORS:
            check_equal(function(tf.constant(values)), compute(tf.constant(values)))
        traced(function)


def test_derivatives_of_any_order_and_mode() -> None:
    function = tf.function(lambda x: positive(x) ** 3)
    for (values,) in VECTORS:
        x = tf.constant(values)
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                y = function(x)
            slope = tape.gradient(y, x)
        mask = np.array(values) > 0
        np.testing.assert_allclose(slope, np.where(mask, 3 * np.square(values), 0))
        np.testing.assert_allclose(second.jacobian(slope, x), np.diag(np.where(mask, 6 * np.array(values), 0)))
        np.testing.assert_allclose(tape.jacobian(y, x), np.diag(3 * np.square(values))[mask])
        with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
            y = function(x)
        np.testing.assert_allclose(accumulator.jvp(y), 3 * np.square(values)[mask])
    traced(function)


def test_tapes_inside() -> None:
    @tf.function
    def slope(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(positive(x) ** 3)
        return tape.gradient(y, x)

    for (values,) in VECTORS:
        np.testing.assert_allclose(slope(tf.constant(values)), 3 * np.square(np.maximum(values, 0)))
    traced(slope)


def test_unknown_dimensions_as_well() -> None:
    function = tf.function(lambda x: positive(x) * tf.reduce_sum(x), input_signature=[tf.TensorSpec([None])])
    for values in ([1.0, -2.0, 3.0], [2.0, 1.0], [-1.0, 3.0, 4.0, 5.0]):
        expected = np.array(values)[np.array(values) > 0] * sum(values)
        np.testing.assert_allclose(function(tf.constant(values)), expected)
    traced(function)


def test_variables_are_updated_and_shapes_are_unknown_while_tracing() -> None:
    total, shapes = tf.Variable(0.0), []

    @tf.function
    def add(x):
        found = positive(x)
        shapes.append(found.shape.as_list())
        total.assign_add(tf.reduce_sum(found))
        return tf.shape(found)[0]

    counts = [int(add(tf.constant(values))) for (values,) in VECTORS]
    assert counts == [3, 1, 0]
    assert float(total) == 11.0
    assert shapes == [[None]]
    assert "shapes that depend on values" in add.summary()


def test_a_loop_over_what_is_left() -> None:
    @tf.function
    def add(x):
        total = 0.0
        for element in positive(x):
            total += element * element
        return total

    for (values,) in VECTORS:
        x = tf.constant(values)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = add(x)
        assert float(y) == sum(v * v for v in values if v > 0)
        np.testing.assert_allclose(tape.gradient(y, x), 2 * np.maximum(values, 0))


def test_a_function_in_a_function() -> None:
    inner = tf.function(positive)
    outside = tf.function(lambda x: inner(x) + 1.0)
    for (values,) in VECTORS:
        np.testing.assert_allclose(outside(tf.constant(values)), [v + 1 for v in values if v > 0])
    concrete = inner.get_concrete_function(tf.TensorSpec([4]))
    calling = tf.function(lambda x: concrete(x) * 2.0)
    for (values,) in VECTORS:
        np.testing.assert_allclose(calling(tf.constant(values)), [v * 2 for v in values if v > 0])


def test_sizes_that_a_trace_did_not_assume_run_eagerly() -> None:
    function = tf.function(lambda x, n: x[:n])
    x = tf.constant([1.0, 2.0, 3.0])
    assert function(x, tf.constant(2)).numpy().tolist() == [1.0, 2.0]
    assert function(x, tf.constant(-1)).numpy().tolist() == [1.0, 2.0]
    assert function(x, tf.constant(1)).numpy().tolist() == [1.0]


def test_two_sizes_that_differ_broadcast_or_raise_as_in_eager_code() -> None:
    function = tf.function(lambda x, y: positive(x) + positive(y))
    one, two, three = tf.constant([1.0, -1.0, -1.0]), tf.constant([2.0, 3.0, -1.0]), tf.constant([1.0, 2.0, 3.0])
    assert function(two, two).numpy().tolist() == [4.0, 6.0]
    assert function(one, two).numpy().tolist() == [3.0, 4.0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
        function(two, three)
    assert function(three, three).numpy().tolist() == [2.0, 4.0, 6.0]
    traced(function)


def test_second_derivatives_with_a_size_as_a_factor() -> None:
    function = tf.function(lambda x: tf.cast(tf.size(positive(x)), tf.float32) * x**2)
    x = tf.constant([1.0, -1.0, 2.0])
    with tf.GradientTape() as second:
        second.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        slope = tape.gradient(y, x)
    assert second.gradient(slope, x).numpy().tolist() == [4.0, 4.0, 4.0]
    traced(function)


def test_errors_are_those_of_eager_code() -> None:
    largest = tf.function(lambda x: tf.argmax(positive(x)))
    assert int(largest(tf.constant([1.0, 3.0]))) == 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="Reduction axis 0 is empty"):
        largest(tf.constant([-1.0, -3.0]))
    shaped = tf.function(lambda x, n: tf.reshape(x, [n, 2]))
    assert shaped(tf.ones([4]), tf.constant(2)).shape == (2, 2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Input to reshape is a tensor with 4 values"):
        shaped(tf.ones([4]), tf.constant(3))


def test_xla_refuses() -> None:
    pytest.importorskip("jax")
    with pytest.raises(ValueError, match="depends on values"):
        tf.function(positive, jit_compile=True)(tf.constant([1.0, -1.0]))


class TestEffectsHappenOnce:
    """A call whose sizes are not what the trace assumed runs eagerly: nothing that Python did may happen twice."""

    @staticmethod
    def _calls(body: Any) -> tuple[Any, list[int]]:
        seen: list[int] = []

        def note(n: Any) -> Any:
            seen.append(int(n))
            return n

        return tf.function(lambda x, n: body(x, n, note)), seen

    @pytest.mark.parametrize("n", [2, -1, 9])
    def test_of_a_call_before_a_slice(self, n: int) -> None:
        def body(x: Any, n: Any, note: Any) -> Any:
            n = tf.py_function(note, [n], SCALAR)
            return x[:n] + x[: tf.minimum(n, 4)]

        f, seen = self._calls(body)
        x = tf.constant([1.0, 2.0, 3.0, 4.0])
        np.testing.assert_array_equal(f(x, tf.constant(3)), [2.0, 4.0, 6.0])
        np.testing.assert_array_equal(f(x, tf.constant(n)), 2 * np.array([1.0, 2.0, 3.0, 4.0])[:n])
        assert seen == [3, n]

    @pytest.mark.parametrize("n", [2, -1])
    def test_a_check_that_needs_no_result_of_the_call_comes_before_it(self, n: int) -> None:
        def body(x: Any, n: Any, note: Any) -> Any:
            tf.py_function(note, [n], SCALAR)
            return x[:n] * 2

        f, seen = self._calls(body)
        x = tf.constant([1.0, 2.0, 3.0, 4.0])
        f(x, tf.constant(3))
        np.testing.assert_array_equal(f(x, tf.constant(n)), 2 * np.array([1.0, 2.0, 3.0, 4.0])[:n])
        assert seen == [3, n]
        assert not isinstance(f.get_concrete_function(x, tf.constant(1)), EagerFunction)

    def test_a_check_comes_before_the_call_with_all_that_it_needs(self) -> None:
        v, generator = tf.Variable(0.0), tf.random.Generator.from_seed(1)

        def body(x: Any, n: Any, note: Any) -> Any:
            tf.py_function(note, [n], SCALAR)
            v.assign_add(1.0)
            some, others = tf.boolean_mask(x, x > 1.5), tf.boolean_mask(x, x < tf.cast(n, x.dtype))
            return some + others, generator.uniform([])  # the trace takes their sizes to be equal

        f, seen = self._calls(body)
        x = tf.constant([1.0, 2.0, 3.0])
        again = tf.random.Generator.from_seed(1)
        for count, (n, total) in enumerate([(3, [3.0, 5.0]), (2, [3.0, 4.0]), (3, [3.0, 5.0])], 1):
            found, drawn = f(x, tf.constant(n))
            np.testing.assert_array_equal(found, total)
            assert len(seen) == float(v) == count
            assert float(drawn) == float(again.uniform([]))
        assert not isinstance(f.get_concrete_function(x, tf.constant(1)), EagerFunction)
        assert f.experimental_get_tracing_count() == 1

    def test_in_a_loop(self) -> None:
        def body(x: Any, n: Any, note: Any) -> Any:
            total = tf.constant(0.0)
            for i in tf.range(2):
                total += tf.reduce_sum(x[: n - 2 * i])
                tf.py_function(note, [i], SCALAR)
            return total

        f, seen = self._calls(body)
        x = tf.constant([1.0, 2.0, 3.0, 4.0])
        assert float(f(x, tf.constant(3))) == 7.0
        assert float(f(x, tf.constant(1))) == 7.0  # x[:1] and x[:-1]
        assert seen == [0, 1, 0, 1]

    def test_in_a_function_within(self) -> None:
        inner = tf.function(lambda x, n: x[:n])

        def body(x: Any, n: Any, note: Any) -> Any:
            tf.py_function(note, [n], SCALAR)
            return inner(x, n - 1)

        f, seen = self._calls(body)
        x = tf.constant([1.0, 2.0, 3.0, 4.0])
        for n in (3, -1):
            np.testing.assert_array_equal(f(x, tf.constant(n)), np.array([1.0, 2.0, 3.0, 4.0])[: n - 1])
        assert seen == [3, -1]

    def test_of_a_print_and_a_table(self, capfd: Any) -> None:
        table = tf.lookup.experimental.MutableHashTable(tf.int64, tf.int64, -1)

        @tf.function
        def f(x: Any, n: Any) -> Any:
            tf.print("n is", n)
            table.insert(tf.constant([1], tf.int64), table.lookup(tf.constant([1], tf.int64)) + 1)
            return tf.boolean_mask(x, x > 0)[:n] * 2

        x = tf.constant([1.0, -2.0, 3.0, 4.0])
        f(x, tf.constant(2))
        np.testing.assert_array_equal(f(x, tf.constant(-1)), [2.0, 6.0])
        assert capfd.readouterr().err == "n is 2\nn is -1\n"
        assert int(table.lookup(tf.constant([1], tf.int64))[0]) == 1

    def test_an_op_that_fails_after_a_call_raises(self) -> None:
        def body(x: Any, n: Any, note: Any) -> Any:
            tf.py_function(note, [n], SCALAR)
            return tf.reshape(x, [n, 3])

        f, seen = self._calls(body)
        with pytest.raises(tf.errors.InvalidArgumentError):
            f(tf.zeros([4]), tf.constant(2))
        assert seen == [2]

    def test_calls_beside_the_trace_draw_other_numbers(self) -> None:
        tf.random.set_seed(1)

        @tf.function
        def f(x: Any, n: Any) -> Any:
            return tf.random.uniform([4]) + 0 * x[0], x[:n]

        x = tf.constant([1.0, 2.0, 3.0, 4.0])
        drawn = [f(x, tf.constant(n))[0].numpy() for n in (2, -1, 3, -2)]
        assert len({a.tobytes() for a in drawn}) == 4


class TestDerivativesOfDerivatives:
    """What only a second derivative cannot trace is found out before the first program has run."""

    def test_a_loop_whose_rows_depend_on_values(self) -> None:
        @tf.function(jit_compile=False)
        def f(x: Any) -> Any:
            d = positive(x)
            total = tf.constant(0.0)
            for _ in tf.range(3):
                total += tf.reduce_sum(tf.concat([d, [0.5]], 0) ** 3)
            return total

        for (x,) in VECTORS:
            x = tf.constant(x)
            with tf.GradientTape() as outer:
                outer.watch(x)
                with tf.GradientTape() as inner:
                    inner.watch(x)
                    y = f(x)
                first = inner.gradient(y, x)
            np.testing.assert_allclose(first, np.where(x > 0, 9 * x.numpy() ** 2, 0))
            np.testing.assert_allclose(outer.gradient(first, x), np.where(x > 0, 18 * x.numpy(), 0))

    def test_a_loop_that_changes_shapes_in_branches(self) -> None:
        @tf.function(jit_compile=False)
        def f(x: Any) -> Any:
            d = positive(x)
            for e in x:
                d = tf.gather_nd(x, tf.where(x > e)) if e > 0.0 else tf.concat([d, x], 0)[:3] * e
            return tf.reduce_sum(d**2)

        for (x,) in VECTORS:
            found, expected = (self._second(g, tf.constant(x)) for g in (f, f.python_function))
            np.testing.assert_allclose(found, expected, rtol=1e-5)

    @staticmethod
    def _second(f: Any, x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = f(x)
            first = inner.gradient(y, x)
        return tf.convert_to_tensor(outer.gradient(first, x, unconnected_gradients="zero"))


class TestLoopsOverRows:
    """A loop of known length may carry values whose sizes depend on values, and change."""

    @staticmethod
    def _joined(x: Any) -> Any:
        d = positive(x)
        for e in x:
            d = tf.concat([d, x], 0)[:5] * e
        return d

    @staticmethod
    def _chosen(x: Any) -> Any:
        d = positive(x)
        for i in tf.range(3):
            if x[i] > 0.0:
                d = tf.boolean_mask(x, x < 0.0) * x[i]
        return d

    @staticmethod
    def _rows_with_masks(x: Any) -> Any:
        """The number of rows depends on values, and so does the size of what the derivative needs of each."""
        return tf.map_fn(lambda e: tf.reduce_sum(tf.sin(tf.boolean_mask(x, x < e))), positive(x))

    @pytest.mark.parametrize("name", ["_joined", "_chosen", "_rows_with_masks"])
    def test_they_are_traced(self, name: str) -> None:
        code = getattr(self, name)
        f = tf.function(code, jit_compile=False)
        for (x,) in VECTORS:
            x = tf.constant(x)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(x)
                found, expected = f(x), code(x)
            np.testing.assert_allclose(found, expected)
            gradients = [tape.gradient(y, x, unconnected_gradients="zero") for y in (found, expected)]
            np.testing.assert_allclose(*[tf.convert_to_tensor(g) for g in gradients], rtol=1e-6)
        assert f.experimental_get_tracing_count() == 1
        assert not isinstance(f.get_concrete_function(x), EagerFunction)


REPEATED = {
    "add": lambda x, y: x + y,
    "arctan2": lambda x, y: tf.atan2(y, x),
    "broadcast_to": lambda x, y: tf.broadcast_to(x, [3]) * y,
    "column": lambda x, y: x[:, None] * tf.ones([3, 3], x.dtype) + y,
    "slice": lambda x, y: x[:2] * 2.0 + y[:2],
}


@pytest.mark.parametrize("name", REPEATED)
def test_one_masked_value_is_repeated(name: str) -> None:
    """An axis with a known size may be combined with one value or with as many; the program finds out which."""

    def value(x: Any, y: Any) -> Any:
        return tf.reduce_sum(tf.sin(REPEATED[name](positive(x), y)))

    def slopes(run: Any, x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            z = run(x, y)
        return z, *tape.gradient(z, [x, y])

    f = tf.function(value)
    inside = tf.function(lambda x, y: slopes(value, x, y))
    y = tf.constant([0.3, -0.7, 1.2], tf.float64)
    for given in ([1.0, -2.0, 3.0, 4.0], [-1.0, -2.0, 3.0, -4.0]):
        x = tf.constant(given, tf.float64)
        expected = slopes(value, x, y)
        for found in (slopes(f, x, y), inside(x, y)):
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12)
    assert "eagerly" not in f.summary() + inside.summary()
    if name != "slice":
        with pytest.raises(tf.errors.InvalidArgumentError):
            f(tf.constant([1.0, 2.0, -1.0, -1.0], tf.float64), y)
        assert "Some calls of" in f.summary()


@pytest.mark.parametrize(
    "op",
    [
        lambda x: tf.math.segment_sum(x, [0, 0, 1]),
        lambda x: tf.math.unsorted_segment_sum(x, [1, 0, 1], 2),
        lambda x: tf.split(x, [1, 2])[1],
    ],
    ids=["segment_sum", "unsorted_segment_sum", "split"],
)
def test_known_parts_of_masked_values(op: Any) -> None:
    x = tf.constant([1.0, -2.0, 3.0, 4.0])
    f = tf.function(lambda x: op(positive(x)))
    np.testing.assert_allclose(f(x), op(positive(x)))
    assert "eagerly" not in f.summary()
    with pytest.raises(tf.errors.InvalidArgumentError):
        f(-x)


MISFITS: dict[str, Any] = {
    "ensure_shape": lambda x, n: tf.ensure_shape(x[:n], [2]),
    "ensure_shape of a sum": lambda x, n: tf.reduce_sum(tf.ensure_shape(x[:n], [2])),
    "ensure_shape in a branch": lambda x, n: tf.cond(n < 9, lambda: tf.ensure_shape(x[:n], [2]), lambda: x[:2]),
    "squeeze of an axis": lambda x, n: tf.squeeze(x[None, : n - 1], 1),
    "element_shape": lambda x, n: tf.TensorArray(tf.float32, 1, element_shape=[2]).write(0, x[:n]).stack(),
    "IndexedSlices": lambda x, n: tf.convert_to_tensor(tf.IndexedSlices(x[:n], tf.constant([0, 1]), tf.constant([3]))),
    "reshape": lambda x, n: tf.reshape(x[:n], [1, 2]),
    "sigmoid_cross_entropy": lambda x, n: tf.nn.sigmoid_cross_entropy_with_logits(x[:n], tf.ones([2])),
    "accumulate_n": lambda x, n: tf.math.accumulate_n([x[:n], tf.ones([2])]),
    "SparseTensor": lambda x, n: tf.sparse.to_dense(tf.SparseTensor([[0], [1]], x[:n], [3])),
}
"""Functions of three numbers and a size that takes 2 numbers only."""


@pytest.mark.parametrize("name", MISFITS)
def test_other_sizes_than_an_op_takes(name: str) -> None:
    x, f = tf.constant([3.0, 4.0, 5.0]), tf.function(MISFITS[name])
    two = tf.constant(2)
    np.testing.assert_allclose(f(x, two), MISFITS[name](x, two))
    for n in (1, 3):
        with pytest.raises(tf.errors.InvalidArgumentError):
            f(x, tf.constant(n))
    np.testing.assert_allclose(f(x, two), MISFITS[name](x, two))


def test_ensure_shape_makes_sizes_known() -> None:
    shapes = []

    @tf.function
    def f(x: Any, n: Any) -> Any:
        y = tf.ensure_shape(x[:n], [2])
        shapes.append(y.shape)
        return tf.zeros(y.shape) + y * y

    x = tf.constant([3.0, 4.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, tf.constant(2))
    assert shapes == [tf.TensorShape([2])]
    np.testing.assert_allclose(tape.gradient(y, x), [6.0, 8.0, 0.0])


def test_ensure_shape_of_a_declared_dimension() -> None:
    f = tf.function(lambda x: tf.ensure_shape(x, [2]) * 2, input_signature=[tf.TensorSpec([None])])
    np.testing.assert_allclose(f([1.0, 2.0]), [2.0, 4.0])
    with pytest.raises(tf.errors.InvalidArgumentError):
        f([1.0, 2.0, 3.0])


def test_squeeze_of_unknown_sizes() -> None:
    x = tf.constant([[3.0], [4.0], [5.0]])
    by_value = tf.function(lambda x, n: tf.squeeze(x[:n]) ** 2)
    declared = tf.function(lambda x: tf.squeeze(x) ** 2, input_signature=[tf.TensorSpec([None, 1])])
    retraced = tf.function(lambda x: tf.squeeze(x) ** 2, reduce_retracing=True)
    for n in (2, 1, 3, 1, 0, 2):
        for f in (lambda x, n=n: by_value(x, tf.constant(n)), lambda x, n=n: declared(x[:n]), retraced):
            given = x if f is not retraced else x[:n]
            with tf.GradientTape() as tape:
                tape.watch(given)
                y = f(given)
            expected = tf.squeeze(x[:n]) ** 2
            assert y.shape == expected.shape
            np.testing.assert_allclose(y, expected)
            slopes = np.zeros(given.shape)
            slopes[:n] = 2 * x[:n]
            np.testing.assert_allclose(tape.gradient(y, given), slopes)


def test_ranks_that_depend_on_values() -> None:
    f = tf.function(lambda x, n: tf.ones(tf.cast(x[:n], tf.int32)) + tf.ones([3, 3]))
    x = tf.constant([3.0, 3.0, 5.0])
    for n in (2, 1, 0, 2):
        np.testing.assert_allclose(f(x, tf.constant(n)), np.full([3, 3], 2.0))


MIXED = {
    "switch_case": lambda n: tf.switch_case(n, [lambda: tf.reduce_sum(tf.range(n)), lambda: 1.0]),
    "cond": lambda n: tf.cond(n > 1, lambda: tf.reduce_sum(tf.range(n)), lambda: 1.0),
    "case": lambda n: tf.case([(n > 1, lambda: tf.reduce_sum(tf.range(n)))], default=lambda: 1.0),
    "an op": lambda n: tf.reduce_sum(tf.range(n) > 0),
    "an op in a branch": lambda n: tf.cond(n > 1, lambda: tf.reduce_sum(tf.range(n)), lambda: tf.reduce_sum(n > 1)),
    "structures": lambda n: tf.cond(n > 1, lambda: tf.range(n), lambda: (1, 1)),
    "while_loop": lambda n: tf.while_loop(lambda i: i < 3, lambda i: tf.cast(tf.range(n)[0], tf.float32), [n]),
}


@pytest.mark.parametrize("name", MIXED)
def test_dtypes_are_checked_beside_unknown_sizes(name: str) -> None:
    with pytest.raises(TypeError):
        tf.function(MIXED[name])(tf.constant(2))


def test_dtypes_are_checked_beside_declared_dimensions() -> None:
    f = tf.function(lambda x: tf.reduce_sum(x > 0), input_signature=[tf.TensorSpec([None])])
    with pytest.raises(TypeError):
        f(tf.constant([1.0, 2.0]))
