"""Fused elementwise ops: the same bits as op by op, and only values that others use in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from random_programs import programs

import gradtape as tf
from gradtape._src import threads
from gradtape._src.arrays.numpy import blocks
from gradtape._src.graph import fusion
from gradtape._src.graph.fusion import FUSED, fuse, pair
from gradtape._src.graph.passes import optimise
from gradtape._src.graph.program import is_pure

SIZE = blocks.LARGE + 1234
NUMBERS = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32) * 3
MATRIX = NUMBERS[: 400 * 330].reshape(400, 330)


@pytest.fixture(params=[1, 2])
def _cores(request):
    threads.set_limit(request.param)
    yield
    threads.set_limit(0)


def bits(x: Any) -> bytes:
    return np.ascontiguousarray(x).view(np.uint8).tobytes()


def program_of(function: Any, *args: Any) -> Any:
    return tf.function(function, jit_compile=False).get_concrete_function(*args)._traced.plain


def groups_of(function: Any, *args: Any) -> list[list[str]]:
    """The names of the ops in each fused node."""
    program = program_of(function, *args)
    code = fuse(pair(optimise(program.nodes, program.outputs, is_pure)["dead code"], program.sizes), program.sizes)
    return [[inner.name for inner in node.attrs["code"].nodes] for node in code.nodes if node.name == FUSED]


def formula(x: Any) -> Any:
    return tf.tanh(x) * tf.exp(-x * x) + tf.nn.sigmoid(x) * x


def gradient(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(formula(x))
    return y, tape.gradient(y, x)


# -- which ops are fused ---------------------------------------------------------------------------------------------
def test_consecutive_elementwise_ops_of_one_shape_are_fused():
    x = tf.constant(NUMBERS)
    assert groups_of(lambda x: tf.tanh(x) * 2.0 + x, x) == [["tanh", "multiply", "add"]]
    assert groups_of(lambda x: tf.exp(tf.tanh(x) - tf.reduce_max(tf.tanh(x))), x) == [["subtract", "exp"]]
    assert groups_of(lambda x: tf.tanh(x), x) == []  # one op
    assert groups_of(lambda x: tf.tanh(x) * 2.0 + x, x[:1000]) == []  # small arrays


def test_operands_of_fused_ops_are_broadcast():
    x = tf.constant(MATRIX)
    assert groups_of(lambda x: tf.tanh(x + x[0]) * 2.0, x) == [["add", "tanh", "multiply"]]
    assert groups_of(lambda x: tf.tanh(x) * np.float32(NUMBERS[:330]), x) == [["tanh", "multiply"]]
    assert groups_of(lambda x: tf.tanh(x[:, :1] * x[0]) + x[1:2], x) == [["multiply", "tanh"]]  # a slice is between
    assert groups_of(lambda x: tf.tanh(x[0]) * tf.exp(x[1]), x) == []  # small arrays


def test_ops_of_different_shapes_are_fused_on_their_own():
    x, y = tf.constant(NUMBERS), tf.constant(NUMBERS[: blocks.LARGE])
    found = groups_of(lambda x, y: (tf.exp(tf.tanh(x)), tf.exp(tf.tanh(y))), x, y)
    assert found == [["tanh", "exp"], ["tanh", "exp"]]


# -- the same numbers ------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("_cores")
def test_values_and_gradients_have_the_bits_of_eager_ones():
    function = tf.function(gradient, jit_compile=False)
    x = tf.constant(NUMBERS)
    expected = [bits(t) for t in gradient(x)]
    for _ in range(3):  # the first call runs node by node
        assert [bits(t) for t in function(x)] == expected


@pytest.mark.usefixtures("_cores")
@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "complex64"])
def test_dtypes(dtype):
    def polynomial(x: Any) -> Any:
        y = (x * x + x) * x - x
        return y, tf.cast(y, "complex128"), y == x, tf.where(y == x, y, x)

    x = tf.cast(NUMBERS, dtype)
    function = tf.function(polynomial, jit_compile=False)
    for _ in range(2):
        assert [bits(t) for t in function(x)] == [bits(t) for t in polynomial(x)]


@pytest.mark.usefixtures("_cores")
def test_operands_with_other_orders_in_memory_and_numbers():
    base = NUMBERS[: 2 * (SIZE // 4)].reshape(2, -1)
    cases = [
        tf.transpose(tf.constant(NUMBERS[: 400 * 330].reshape(400, 330))),
        tf.broadcast_to(tf.constant(0.5), [SIZE]),
        tf.constant(np.repeat(base, 2, 1))[:, ::2],
        tf.reshape(tf.constant(NUMBERS[: 400 * 330]), [20, 20, 330]),
    ]
    scale = tf.constant(1.5)

    def scaled(x: Any, scale: Any) -> Any:
        return tf.tanh(x * scale) * x + scale

    for x in cases:
        function = tf.function(scaled, jit_compile=False)
        for _ in range(2):
            assert bits(function(x, scale)) == bits(scaled(x, scale))


BROADCAST = {
    "row": [(400, 330), (330,)],
    "row of a matrix": [(400, 330), (1, 330)],
    "column": [(400, 330), (400, 1)],
    "column and row": [(400, 1), (330,)],
    "one row": [(1, 140_000), (140_000,)],
    "two rows": [(2, 70_000), (70_000,)],
    "square": [(400, 400), (400,)],
    "rank 3": [(20, 20, 330), (20, 1, 330)],
    "rank 3 and matrix": [(20, 20, 330), (20, 330)],
    "rank 3 and column": [(20, 20, 330), (20, 1, 1)],
    "one element": [(400, 330), (1, 1)],
}


@pytest.mark.usefixtures("_cores")
@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("shapes", BROADCAST.values(), ids=BROADCAST)
def test_broadcast_operands_give_the_same_bits(shapes, is_constant):
    x, y = (np.resize(NUMBERS[i:], shape) for i, shape in enumerate(shapes))

    def layer(x: Any, y: Any) -> Any:
        z = tf.tanh(x + y)
        return z, z * y - tf.exp(z) / (y * y + 1.0), tf.where(z > y, y, x)

    def inner(x: Any) -> Any:
        return layer(x, y)

    function = tf.function(inner if is_constant else layer, jit_compile=False)
    args = [tf.constant(x)] if is_constant else [tf.constant(x), tf.constant(y)]
    expected = [bits(t) for t in layer(tf.constant(x), tf.constant(y))]
    for _ in range(2):
        assert [bits(t) for t in function(*args)] == expected


@pytest.mark.usefixtures("_cores")
def test_gradients_of_a_layer_with_a_bias():
    def step(x: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, b])
            y = tf.nn.gelu(x + b)
            loss = tf.reduce_sum(y * y)
        return y, *tape.gradient(loss, [x, b])

    x, b = tf.constant(MATRIX), tf.constant(NUMBERS[:330])
    groups = groups_of(step, x, b)
    assert groups[0][:3] == ["add", "gelu_and_slope", "multiply"]
    function = tf.function(step, jit_compile=False)
    for _ in range(2):
        assert [bits(t) for t in function(x, b)] == [bits(t) for t in step(x, b)]


# -- functions with their derivatives --------------------------------------------------------------------------------
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 3e38, -3e38, 15.5, -15.5, 7.0, -7.0])


def value_and_slope(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.gelu(x)
    return y, tape.gradient(y, x)


def names_of(function: Any, *args: Any) -> list[str]:
    """The names of the ops that run, with pairs as one op."""
    program = program_of(function, *args)
    return [node.name for node in pair(optimise(program.nodes, program.outputs, is_pure)["dead code"]).nodes]


@pytest.mark.usefixtures("_cores")
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("shape", [(), (0,), (13,), (40, 13), (SIZE,)])
def test_gelu_and_its_derivative_have_the_bits_of_both(dtype, shape):
    numbers = NUMBERS if shape == (SIZE,) else SPECIAL
    x = tf.cast(np.resize(numbers, shape), dtype)
    function = tf.function(value_and_slope, jit_compile=False)
    for _ in range(2):
        assert [bits(t) for t in function(x)] == [bits(t) for t in value_and_slope(x)]
    assert ("gelu_and_slope" in names_of(value_and_slope, x)) == (dtype in ("float32", "float64"))


def test_only_a_derivative_that_keeps_the_operand_is_computed_with_the_function():
    def later(x: Any) -> Any:
        x = x * 2.0
        y, slope = value_and_slope(x)
        return y * slope + x

    def earlier(x: Any) -> Any:
        x = x * 2.0
        y = tf.exp(x)
        return y, *value_and_slope(x)

    x = tf.constant(MATRIX)
    assert "gelu_and_slope" not in names_of(later, x)
    assert "gelu_and_slope" not in names_of(lambda x: (x * 2.0, *value_and_slope(x * 2.0)), x)  # it is an output
    assert "gelu_and_slope" in names_of(earlier, x)
    assert names_of(lambda x: value_and_slope(x)[0], x) == ["gelu"]
    assert "gelu" not in names_of(lambda x: value_and_slope(x)[1], x)  # which is not needed
    for function in (later, earlier):
        found = tf.nest.flatten(tf.function(function, jit_compile=False)(x))
        assert [bits(t) for t in found] == [bits(t) for t in tf.nest.flatten(function(x))]


def test_a_step_keeps_the_derivative_instead_of_the_operand():
    def loss(x: Any) -> Any:
        return tf.reduce_sum(tf.nn.gelu(tf.nn.gelu(x * 2.0) * 3.0))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loss(x)
        return tape.gradient(y, x)

    x = tf.constant(NUMBERS[:2048])
    program = program_of(step, x)
    program.on_numpy  # noqa: B018 - a cached property
    assert names_of(step, x).count("gelu_and_slope") == 1  # the last value of gelu is not needed
    assert program.executable.peak <= 4 * 2048 * 4


def test_pairs_in_programs_with_islands():
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.nn.gelu(x * 2.0 + 1.0)
            loss = tf.reduce_sum(tf.boolean_mask(y, y > 0.5))
        return tape.gradient(loss, x)

    function, x = tf.function(step), tf.constant(NUMBERS[:100])
    for _ in range(3):
        assert bits(function(x)) == bits(step(x))


# -- memory ----------------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("_cores")
def test_results_in_the_middle_own_their_memory():
    def several(x: Any) -> Any:
        a = tf.tanh(x)
        b = tf.identity(a) * 2.0
        return a, b, b + x, x

    function, x = tf.function(several, jit_compile=False), tf.constant(NUMBERS)
    for _ in range(2):
        found, expected = [t.numpy() for t in function(x)], [t.numpy() for t in several(x)]
        assert [bits(t) for t in found] == [bits(t) for t in expected]
        for i, array in enumerate(found):
            array[:] = 0
            assert all(np.any(other) for other in found[i + 1 :])
    np.testing.assert_array_equal(x, NUMBERS)


@pytest.mark.usefixtures("_cores")
def test_variables_are_updated_from_fused_ops():
    v, w = tf.Variable(NUMBERS), tf.Variable(NUMBERS)

    def step(v: Any) -> Any:
        v.assign_sub(0.1 * (v * v + 1.0))
        return tf.reduce_sum(v)

    function = tf.function(lambda: step(v), jit_compile=False)
    for _ in range(3):
        assert bits(function()) == bits(step(w))
        assert bits(v) == bits(w)


@settings(max_examples=150, deadline=None)
@given(example=programs())
def test_random_programs_have_the_same_bits_fused(example):
    function, args = example
    tensors = [tf.constant(np.asarray(a, "float32")) for a in args]

    def gradients(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = function(*xs)
        return y, *tape.gradient(y, xs, unconnected_gradients="zero")

    program = program_of(gradients, *tensors)
    arrays = [t.numpy() for t in tensors]
    expected = [bits(a) for a in program.on_numpy(*arrays)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fusion, "LARGE", 2)
        patch.setattr(blocks, "BLOCK", 2)
        patch.setattr(blocks, "SHARED_BLOCK", 2)
        patch.setattr(blocks, "SHARE", 1)
        found = program_of(gradients, *tensors).on_numpy(*arrays)
    assert [bits(a) for a in found] == expected
    assert [bits(a) for a in arrays] == [bits(t) for t in tensors]  # arguments are as they were


def test_the_source_shows_fused_ops_and_their_constants():
    program = program_of(lambda x: tf.tanh(x) * 2.0 + x, tf.constant(NUMBERS))
    program.on_numpy  # noqa: B018 - a cached property
    listing = program.executable.listing()
    assert "fused_0" in listing
    assert "tanh(a0)" in listing
    assert listing.index("tanh(a0)") < listing.index("fused(a0)")
    assert "multiply(v1, array(2., dtype=float32)" in listing


def test_values_inside_a_group_take_no_memory():
    def chain(x: Any) -> Any:
        for _ in range(8):
            x = tf.tanh(x) * 1.5
        return x

    program = program_of(chain, tf.constant(NUMBERS))
    program.on_numpy  # noqa: B018 - a cached property
    assert program.executable.peak == NUMBERS.nbytes
