"""Random programs, shapes and indices: whatever is composed, the derivatives agree with numeric differences."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings, strategies as st
from hypothesis.extra import numpy as npst
from random_programs import programs

import gradtape as tf
from gradtape.testing import check_gradients


@settings(max_examples=150)
@given(programs())
def test_random_programs_to_second_order(example):
    program, args = example
    check_gradients(program, *args, order=2, modes=("reverse", "recorded", "forward"), rtol=2e-5, atol=1e-6)


@settings(max_examples=100)
@given(programs())
def test_jacobians_of_random_programs(example):
    program, args = example
    check_gradients(program, *args, order=2, modes=("jacobian", "batched"))


@settings(max_examples=40)
@given(programs(steps=4))
def test_third_derivatives_of_random_programs(example):
    program, args = example
    check_gradients(program, *args, order=3, modes=("reverse",), rtol=1e-4, atol=1e-5)


@settings(max_examples=60)
@given(programs())
def test_hessian_is_symmetric_and_the_same_every_way(example):
    """Jacobian of gradient, reverse over reverse, forward over reverse."""
    program, args = example
    xs = [tf.constant(a) for a in args]
    with tf.GradientTape(persistent=True) as outer:
        outer.watch(xs)
        with tf.GradientTape() as inner:
            inner.watch(xs)
            loss = tf.reduce_sum(tf.sin(program(*xs)))
        gradients = inner.gradient(loss, xs, unconnected_gradients="zero")
        gradients = [tf.convert_to_tensor(g) for g in gradients]  # lookups give IndexedSlices

    def assembled(**how: Any) -> np.ndarray:
        blocks = [[outer.jacobian(g, x, unconnected_gradients="zero", **how).numpy() for x in xs] for g in gradients]
        return np.block([[b.reshape(a.size, -1) for b in row] for a, row in zip(args, blocks, strict=True)])

    hessian, by_rows = assembled(), assembled(experimental_use_pfor=False)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-9)
    np.testing.assert_allclose(hessian, by_rows, atol=1e-12)
    direction = [np.cos(np.arange(a.size)).reshape(a.shape) for a in args]
    with tf.autodiff.ForwardAccumulator(xs, [tf.constant(t) for t in direction]) as accumulator:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            loss = tf.reduce_sum(tf.sin(program(*xs)))
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, xs, unconnected_gradients="zero")]
    pushed = np.concatenate([np.ravel(accumulator.jvp(g, unconnected_gradients="zero")) for g in gradients])
    np.testing.assert_allclose(pushed, hessian @ np.concatenate([t.ravel() for t in direction]), atol=1e-9)


@settings(max_examples=60)
@given(programs(steps=5))
def test_jacobians_can_be_differentiated(example):
    """The gradient of a projection of a Jacobian, and the Jacobian of one, are the same with and without rows."""
    program, args = example
    xs = [tf.constant(a) for a in args]
    found = []
    for together in (True, False):
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(xs)
            with tf.GradientTape(persistent=True) as inner:
                inner.watch(xs)
                y = tf.sin(program(*xs))
            how = {"unconnected_gradients": "zero", "experimental_use_pfor": together}
            jacobian = inner.jacobian(y, xs[0], **how)
            weights = np.cos(np.arange(jacobian.numpy().size)).reshape(jacobian.shape)
            loss = tf.reduce_sum(jacobian * weights)
        gradients = outer.gradient(loss, xs, unconnected_gradients="zero")
        second = outer.jacobian(jacobian, xs[0], **how)
        found.append([np.asarray(tf.convert_to_tensor(t)) for t in (jacobian, second, *gradients)])
    for rows, one_by_one in zip(*found, strict=True):
        np.testing.assert_allclose(rows, one_by_one, atol=1e-10)


# -- broadcasting --------------------------------------------------------------------------------
@settings(max_examples=150)
@given(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=4, min_side=0, max_side=3))
def test_broadcasting_is_undone(shapes):
    """The gradient of x in x * y has x's shape: what was repeated is summed."""
    (a, b), out = shapes.input_shapes, shapes.result_shape
    x, y = (np.random.default_rng(i).uniform(0.5, 2, s) for i, s in enumerate((a, b)))
    upstream = np.random.default_rng(2).uniform(0.5, 2, out)
    for function, of_x, of_y in [
        (tf.multiply, upstream * y, upstream * x),
        (tf.add, upstream, upstream),
        (tf.divide, upstream / y, -upstream * x / y**2),
    ]:
        xs = [tf.constant(x), tf.constant(y)]
        with tf.GradientTape() as tape:
            tape.watch(xs)
            z = function(*xs)
        assert tuple(z.shape) == out
        found = tape.gradient(z, xs, output_gradients=upstream)
        for g, full, shape in zip(found, (of_x, of_y), (a, b), strict=True):
            assert tuple(g.shape) == shape
            np.testing.assert_allclose(g, summed_to(full, shape), rtol=1e-12)


def summed_to(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    array = array.sum(axis=tuple(range(array.ndim - len(shape))))
    return array.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1 and array.shape[i] != 1), keepdims=True)


@settings(max_examples=80)
@given(npst.mutually_broadcastable_shapes(num_shapes=3, max_dims=3, min_side=1, max_side=3))
def test_where_broadcasts_three_ways(shapes):
    c, x, y = shapes.input_shapes
    random = np.random.default_rng(0)
    condition = random.uniform(size=c) > 0.5
    xs = [tf.constant(random.uniform(size=x)), tf.constant(random.uniform(size=y))]
    upstream = random.uniform(size=shapes.result_shape)
    with tf.GradientTape() as tape:
        tape.watch(xs)
        z = tf.where(condition, *xs)
    found = tape.gradient(z, xs, output_gradients=upstream)
    np.testing.assert_allclose(found[0], summed_to(np.where(condition, upstream, 0), x), rtol=1e-12)
    np.testing.assert_allclose(found[1], summed_to(np.where(condition, 0, upstream), y), rtol=1e-12)


@settings(max_examples=60)
@given(npst.mutually_broadcastable_shapes(num_shapes=2, max_dims=2, max_side=3), st.booleans(), st.booleans())
def test_stacks_of_matrices_broadcast(shapes, transpose_x, transpose_y):
    stacks = shapes.input_shapes
    x_shape = (*stacks[0], 3, 2) if transpose_x else (*stacks[0], 2, 3)
    y_shape = (*stacks[1], 2, 3) if transpose_y else (*stacks[1], 3, 2)
    random = np.random.default_rng(0)
    x, y = random.uniform(-1, 1, x_shape), random.uniform(-1, 1, y_shape)
    check_gradients(
        lambda x, y: tf.matmul(x, y, transpose_a=transpose_x, transpose_b=transpose_y), x, y,
        modes=("recorded", "batched", "forward"),
    )  # fmt: skip
    upstream = random.uniform(-1, 1, (*shapes.result_shape, 2, 2))
    xs = [tf.constant(x), tf.constant(y)]
    with tf.GradientTape() as tape:
        tape.watch(xs)
        z = tf.matmul(*xs, transpose_a=transpose_x, transpose_b=transpose_y)
    found = tape.gradient(z, xs, output_gradients=upstream)
    left = np.swapaxes(x, -1, -2) if transpose_x else x
    right = np.swapaxes(y, -1, -2) if transpose_y else y
    of_left, of_right = upstream @ np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2) @ upstream
    of_x = np.swapaxes(of_left, -1, -2) if transpose_x else of_left
    of_y = np.swapaxes(of_right, -1, -2) if transpose_y else of_right
    np.testing.assert_allclose(found[0], summed_to(of_x, x_shape), atol=1e-12)
    np.testing.assert_allclose(found[1], summed_to(of_y, y_shape), atol=1e-12)


# -- indexing ------------------------------------------------------------------------------------
@st.composite
def shapes_and_indices(draw: Any) -> tuple[tuple[int, ...], Any]:
    shape = draw(npst.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    return shape, draw(npst.basic_indices(shape, allow_newaxis=True, allow_ellipsis=True))


@settings(max_examples=250)
@given(shapes_and_indices())
def test_gradient_of_an_index_is_a_scatter(example):
    shape, index = example
    values = np.arange(np.prod(shape), dtype=np.float64).reshape(shape)
    x = tf.constant(values)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x[index]
    np.testing.assert_array_equal(y.numpy(), values[index])
    upstream = np.arange(1.0, values[index].size + 1).reshape(values[index].shape)
    expected = np.zeros(shape)
    expected[index] = upstream
    np.testing.assert_array_equal(tape.gradient(y, x, output_gradients=upstream), expected)
    assume(0 < values[index].size <= 16)
    jacobian = tape.jacobian(y, x)
    positions = values[index].astype(int)
    np.testing.assert_array_equal(jacobian, np.eye(values.size)[positions].reshape(*positions.shape, *shape))


@settings(max_examples=100)
@given(st.data())
def test_gradient_of_a_lookup_adds_up_at_equal_indices(data):
    shape = data.draw(npst.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    axis = data.draw(st.integers(0, len(shape) - 1))
    indices = data.draw(npst.arrays(np.int32, npst.array_shapes(min_dims=0, max_dims=2, max_side=3),
                                    elements=st.integers(0, shape[axis] - 1)))  # fmt: skip
    x = tf.constant(np.random.default_rng(0).uniform(size=shape))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.gather(x, indices, axis=axis)
    np.testing.assert_array_equal(y, np.take(x.numpy(), indices, axis))
    upstream = np.random.default_rng(1).uniform(size=y.shape)
    expected = np.zeros(shape)
    rows = np.moveaxis(expected, axis, 0)
    flat = upstream.reshape(*shape[:axis], indices.size, *shape[axis + 1 :])
    np.add.at(rows, indices.ravel(), np.moveaxis(flat, axis, 0))
    found = tape.gradient(y, x, output_gradients=upstream)
    np.testing.assert_allclose(tf.convert_to_tensor(found), expected, rtol=1e-12)


@settings(max_examples=60)
@given(npst.arrays(np.bool_, npst.array_shapes(max_dims=2, max_side=4)), st.integers(0, 2))
def test_gradient_of_a_mask_is_the_mask(mask, more):
    x = tf.constant(np.random.default_rng(0).uniform(size=(*mask.shape, *[2] * more)))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.boolean_mask(x, mask)
    np.testing.assert_array_equal(y, x.numpy()[mask])
    expected = np.broadcast_to(mask.reshape(*mask.shape, *[1] * more), x.shape).astype(np.float64)
    np.testing.assert_array_equal(tf.convert_to_tensor(tape.gradient(y, x)), expected)


# -- structures ----------------------------------------------------------------------------------
def arrays(max_dims: int) -> Any:
    shapes = npst.array_shapes(min_dims=0, max_dims=max_dims, max_side=2)
    return npst.arrays(np.float64, shapes, elements=st.floats(-2, 2))


def structures(leaves: Any) -> Any:
    return st.recursive(
        leaves,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=3)
            | st.lists(inner, min_size=1, max_size=3).map(tuple)
            | st.dictionaries(st.sampled_from("abc"), inner, min_size=1, max_size=3)
        ),
        max_leaves=6,
    )


@settings(max_examples=80)
@given(structures(arrays(2)))
def test_gradients_have_the_structure_of_the_sources(structure):
    sources = tf.nest.map_structure(tf.constant, structure)
    with tf.GradientTape() as tape:
        tape.watch(sources)
        targets = tf.nest.map_structure(lambda x: tf.square(x) * 3.0, sources)
    found = tape.gradient(targets, sources)
    tf.nest.assert_same_structure(found, structure)
    for g, x in zip(tf.nest.flatten(found), tf.nest.flatten(structure), strict=True):
        np.testing.assert_allclose(g, 6 * x)


@settings(max_examples=30)
@given(structures(arrays(1)))
def test_check_gradients_takes_structures(structure):
    def f(s: Any) -> Any:
        total = sum(tf.reduce_sum(tf.sin(x)) for x in tf.nest.flatten(s))
        return {"total": total, "each": tf.nest.map_structure(lambda x: x * total, s)}

    check_gradients(f, structure, modes=("reverse", "forward"), order=1)
