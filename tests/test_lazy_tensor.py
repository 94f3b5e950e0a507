"""Large results that are made of small arrays: written when they are read, and tensors like all others."""

from __future__ import annotations

import copy
import pickle
import threading
import tracemalloc

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.tensor import LazyTensor, Tensor

rng = np.random.default_rng(3)
X, W = rng.normal(size=(8, 64)).astype(np.float32), rng.normal(size=(64, 32)).astype(np.float32)
EXAMPLES = np.einsum("bi,bj->bij", X, (1 - np.tanh(X @ W) ** 2))  # gradients of the sum of tanh(x w), one for each x


def per_example():
    w = tf.Variable(W)
    with tf.GradientTape() as tape:
        losses = tf.reduce_sum(tf.tanh(tf.constant(X) @ w), axis=1)
    return tape.batch_gradient(losses, w)


def band():
    x = tf.constant(np.linspace(0.0, 1.0, 200, dtype=np.float32))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.pad((x[1:] - x[:-1]) ** 2, [[0, 1]])
    return tape.jacobian(y, x)


def band_by_hand():
    x = np.linspace(0.0, 1.0, 200, dtype=np.float32)
    step = np.append(2 * (x[1:] - x[:-1]), 0)
    return np.diag(-step) + np.diag(step[:-1], 1)


def test_an_engine_that_was_used_before_does_not_matter():
    pytest.importorskip("jax")
    tf.config.set_engine("xla")
    assert type(per_example()) is Tensor
    tf.config.set_engine("numpy")
    assert type(per_example()) is LazyTensor


@pytest.mark.parametrize(("make", "expected"), [(per_example, EXAMPLES), (band, band_by_hand())])
def test_it_knows_what_it_is_before_it_is_written(make, expected):
    found = make()
    assert type(found) is LazyTensor
    assert isinstance(found, tf.Tensor)
    assert tf.is_tensor(found)
    assert found.shape == expected.shape
    assert (found.dtype, found.ndim) == (tf.float32, expected.ndim)
    assert found.device.endswith("CPU:0")
    assert type(found) is LazyTensor  # nobody has asked for a number yet
    assert len(found) == len(expected)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_every_reading_is_an_array_of_its_own():
    found = per_example()
    first, second = found.numpy(), found.numpy()
    first[:] = 0
    np.testing.assert_allclose(second, EXAMPLES, rtol=1e-5, atol=1e-6)
    second[:] = 1
    np.testing.assert_allclose(found.numpy(), EXAMPLES, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found * 1.0, EXAMPLES, rtol=1e-5, atol=1e-6)


USES = {
    "operator": lambda t: (t * 2.0).numpy() / 2,
    "operator from the left": lambda t: (2.0 * t).numpy() / 2,
    "op": lambda t: tf.abs(t).numpy() * np.sign(EXAMPLES),
    "reduction": lambda t: np.broadcast_to(tf.reduce_mean(t), EXAMPLES.shape) - np.mean(EXAMPLES) + EXAMPLES,
    "slice": lambda t: np.concatenate([t[:3].numpy(), t[3:].numpy()]),
    "iteration": lambda t: np.stack([row.numpy() for row in t]),
    "array": lambda t: np.asarray(t),
    "variable": lambda t: tf.Variable(t).numpy(),
    "conversion": lambda t: tf.convert_to_tensor(t).numpy(),
    "identity": lambda t: tf.identity(t).numpy(),
    "cast": lambda t: tf.cast(t, tf.float64).numpy(),
    "stack": lambda t: tf.stack([t, t])[0].numpy(),
    "pickle": lambda t: pickle.loads(pickle.dumps(t)).numpy(),
    "copy": lambda t: copy.deepcopy(t).numpy(),
    "dlpack": lambda t: np.from_dlpack(t),
    "condition": lambda t: tf.where(t > 0, t, t).numpy(),
    "function": lambda t: tf.function(lambda x: x + 0.0)(t).numpy(),
    "branch": lambda t: tf.cond(tf.constant(True), lambda: t * 1.0, lambda: t).numpy(),
    "map": lambda t: tf.vectorized_map(lambda row: row * 1.0, t).numpy(),
    "clip": lambda t: tf.clip_by_global_norm([t], 1e6)[0][0].numpy(),
    "structure": lambda t: tf.nest.map_structure(lambda x: x + 0.0, {"a": [t]})["a"][0].numpy(),
    "dataset": lambda t: np.stack([row.numpy() for row in tf.data.Dataset.from_tensor_slices(t)]),
}


@pytest.mark.parametrize("use", USES)
def test_it_is_a_tensor_like_all_others(use):
    found = per_example()
    assert type(found) is LazyTensor
    np.testing.assert_allclose(USES[use](found), EXAMPLES, rtol=1e-4, atol=1e-5)
    assert "shape=(8, 64, 32), dtype=float32, numpy=" in repr(found)
    assert type(found) is Tensor  # somebody has read it, and it was written once


def test_a_tape_follows_it():
    found = per_example()
    with tf.GradientTape() as tape:
        tape.watch(found)
        y = tf.reduce_sum(found * found)
    np.testing.assert_allclose(tape.gradient(y, found), 2 * EXAMPLES, rtol=1e-4, atol=1e-5)


def test_reading_it_is_noticed():
    found = per_example()
    with tf.GradientTape() as tape:
        tape.watch(found)
        y = tf.constant(found.numpy()) * 2.0
    assert tape.gradient(y, found) is None
    assert ".numpy()" in str(tape.explain(y, found))


def test_what_nobody_reads_is_never_written():
    x, w = tf.constant(rng.normal(size=(256, 512)).astype(np.float32)), tf.Variable(np.ones((512, 256), np.float32))
    tracemalloc.start()
    try:
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(tf.tanh(x @ w), axis=1)
        found = tape.batch_gradient(losses, w)
        assert found.shape == (256, 512, 256)  # 128 MB
        assert tracemalloc.get_traced_memory()[1] < 8e6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("_", range(20))
def test_threads_read_the_same(_):
    found, sums = per_example(), []
    ways = [lambda: float(tf.reduce_sum(found)), lambda: float(found.numpy().sum())]
    threads = [threading.Thread(target=lambda way=way: sums.append(way())) for way in ways * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_allclose(sums, [EXAMPLES.sum()] * 8, rtol=1e-3)


def test_variables_that_change_afterwards_do_not_matter():
    x, w = tf.Variable(X), tf.Variable(W)
    with tf.GradientTape() as tape:
        losses = tf.reduce_sum(tf.tanh(x @ w), axis=1)
    found = tape.batch_gradient(losses, w)
    for v in (x, w):
        v.assign_add(tf.ones_like(v))
        v.assign_add(tf.ones_like(v))
    np.testing.assert_allclose(found.numpy(), EXAMPLES, rtol=1e-5, atol=1e-6)


# -- results of compiled functions -----------------------------------------------------------------
def hessian_of_a_chain(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)
        slope = inner.gradient(y, x)
    return y, outer.jacobian(slope, x)


CHAIN = tf.constant(np.linspace(-1.0, 1.0, 200))


def test_a_function_gives_the_parts_of_a_large_result():
    pytest.importorskip("jax")
    compiled = tf.function(hessian_of_a_chain)
    expected = hessian_of_a_chain(CHAIN)[1].numpy()
    for scale in (1.0, 2.0):
        y, found = compiled(CHAIN * scale)
        assert type(found) is LazyTensor
        assert type(y) is Tensor
        value, want = hessian_of_a_chain(CHAIN * scale)
        np.testing.assert_allclose(y, value, rtol=1e-9)
        np.testing.assert_allclose(found.numpy(), want.numpy(), rtol=1e-9, atol=1e-9)
    again = compiled(CHAIN)[1]
    np.testing.assert_allclose(again * 1.0, expected, rtol=1e-9, atol=1e-9)
    assert compiled.experimental_get_tracing_count() == 1
    assert "values in parts" in compiled.summary()


def test_per_example_gradients_of_a_function():
    pytest.importorskip("jax")
    w, shift = tf.Variable(W), tf.constant(X)

    @tf.function
    def step(x, scale):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum(tf.tanh(x @ w), axis=1)
        found = tape.batch_gradient(losses, w)
        w.assign_add(scale * tf.reduce_mean(found, axis=0))  # the function reads it too
        return found, tape.watched_variables()[0] is w, {"again": found, "other": losses}

    found, same, more = step(shift, tf.constant(0.0))
    assert type(found) is type(more["again"]) is LazyTensor
    assert bool(same)
    np.testing.assert_allclose(found.numpy(), EXAMPLES, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(more["again"].numpy(), EXAMPLES, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(more["other"], np.tanh(X @ W).sum(1), rtol=1e-4, atol=1e-4)
    kept = step(shift, tf.constant(0.5))[0]
    step(shift, tf.constant(0.5))
    np.testing.assert_allclose(kept.numpy(), EXAMPLES, rtol=1e-4, atol=1e-5)  # from before w changed
    assert not np.allclose(w.numpy(), W)


def test_a_tape_outside_follows_the_large_result():
    pytest.importorskip("jax")
    compiled = tf.function(hessian_of_a_chain)
    slopes = []
    for run in (hessian_of_a_chain, compiled):
        with tf.GradientTape() as tape:
            tape.watch(CHAIN)
            value = tf.reduce_sum(run(CHAIN)[1] ** 2)
        slopes.append(tape.gradient(value, CHAIN).numpy())
    np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-8, atol=1e-8)


def test_a_large_result_within_functions():
    pytest.importorskip("jax")
    inner = tf.function(hessian_of_a_chain)

    @tf.function
    def outer(x):
        found = inner(x)[1]
        if tf.reduce_sum(x) > 1e9:
            found = -found
        return found, tf.linalg.trace(found)

    expected = hessian_of_a_chain(CHAIN)[1].numpy()
    found, trace = outer(CHAIN)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(trace, np.trace(expected), rtol=1e-9)


def test_a_function_of_unknown_dimensions_writes_it_itself():
    pytest.importorskip("jax")
    compiled = tf.function(hessian_of_a_chain, input_signature=[tf.TensorSpec([None], tf.float64)])
    for size in (150, 200):
        x = tf.constant(np.linspace(-1.0, 1.0, size))
        np.testing.assert_allclose(compiled(x)[1].numpy(), hessian_of_a_chain(x)[1].numpy(), rtol=1e-9, atol=1e-9)
