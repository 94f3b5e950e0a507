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
from gradtape._src.graph.fusion import FUSED, fuse
from gradtape._src.graph.passes import optimise
from gradtape._src.graph.program import is_pure

SIZE = blocks.LARGE + 1234
NUMBERS = np.random.default_rng(0).standard_normal(SIZE).astype(np.float32) * 3


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
    code = fuse(optimise(program.nodes, program.outputs, is_pure)["dead code"], program.sizes)
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


def test_operands_of_other_shapes_are_not_fused():
    x = tf.constant(NUMBERS[: 400 * 330].reshape(400, 330))
    assert groups_of(lambda x: tf.tanh(x + x[0]) * 2.0, x) == [["tanh", "multiply"]]
    assert groups_of(lambda x: tf.tanh(x) * np.float32(NUMBERS[:330]), x) == []  # a constant array


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
        patch.setattr(blocks, "SHARE", 1)
        found = program_of(gradients, *tensors).on_numpy(*arrays)
    assert [bits(a) for a in found] == expected
    assert [bits(a) for a in arrays] == [bits(t) for t in tensors]  # arguments are as they were


def test_the_source_shows_fused_ops():
    program = program_of(lambda x: tf.tanh(x) * 2.0 + x, tf.constant(NUMBERS))
    program.on_numpy  # noqa: B018 - a cached property
    listing = program.executable.listing()
    assert "fused_0" in listing
    assert "tanh(a0)" in listing
    assert listing.index("tanh(a0)") < listing.index("fused(a0)")


def test_values_inside_a_group_take_no_memory():
    def chain(x: Any) -> Any:
        for _ in range(8):
            x = tf.tanh(x) * 1.5
        return x

    program = program_of(chain, tf.constant(NUMBERS))
    program.on_numpy  # noqa: B018 - a cached property
    assert program.executable.peak == NUMBERS.nbytes
