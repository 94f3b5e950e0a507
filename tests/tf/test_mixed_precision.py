"""Low precision through tapes, and the scale that keeps small gradients from vanishing."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

import gradtape as tf

WAYS = ["eager"] + (["compiled"] if importlib.util.find_spec("jax") else [])


def in_way(way):
    return tf.function if way == "compiled" else lambda f: f


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_float32_variables_with_low_precision_in_between(way, dtype):
    w = tf.Variable([[0.5, -1.0], [2.0, 0.25]])
    x = tf.constant([[1.0, 2.0]], dtype)

    @in_way(way)
    def slope():
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.cast(tf.matmul(x, tf.cast(w, dtype)) ** 2, tf.float32))
        return tape.gradient(y, w)

    found = slope()
    assert found.dtype == tf.float32
    np.testing.assert_allclose(found, [[9.0, -1.0], [18.0, -2.0]], rtol=2e-2)


def test_a_scale_saves_gradients_that_float16_would_lose():
    w = tf.Variable(1.0)
    scale = tf.mixed_precision.LossScale(initial_scale=2.0**14)
    found = []
    for scaled in (lambda x: x, scale.get_scaled_loss):
        with tf.GradientTape() as tape:
            loss = scaled(tf.cast(w, tf.float16) * tf.constant(1e-4, tf.float16)) * tf.constant(1e-4, tf.float16)
        found.append(tape.gradient(loss, w))
    assert float(found[0]) == 0.0
    assert float(scale.get_unscaled_gradients(found[1:])[0]) == pytest.approx(1e-8, rel=0.05)


@pytest.mark.parametrize("way", WAYS)
def test_steps_that_overflow_are_left_out_and_counted(way):
    w = tf.Variable([1.0, 2.0])
    scale = tf.mixed_precision.LossScale(1024.0, dynamic_growth_steps=2)

    @in_way(way)
    def step(factor):
        with tf.GradientTape() as tape:
            loss = scale.scale_loss(tf.reduce_sum(tf.cast(w, tf.float16) ** 2)) * tf.cast(factor, tf.float16)
        gradients = scale.get_unscaled_gradients(tape.gradient(loss, [w]))
        return scale.apply(gradients, lambda g: w.assign_sub(0.25 * g[0]))

    made = [bool(step(tf.constant(f))) for f in (1.0, 1.0, 1e30, 1.0, 1.0)]
    assert made == [True, True, False, True, True]
    np.testing.assert_allclose(w, [0.0625, 0.125])
    assert (float(scale.loss_scale), int(scale.skipped)) == (2048.0, 1)
    assert len(scale.variables) == 3


def test_none_and_slices_pass_through():
    scale = tf.mixed_precision.LossScale(4.0, dynamic=False)
    rows = tf.IndexedSlices(tf.constant([[8.0]]), tf.constant([1]), tf.constant([3, 1]))
    nothing, found = scale.get_unscaled_gradients([None, rows])
    assert nothing is None
    assert float(found.values[0, 0]) == 2.0
    assert bool(scale.apply([None, rows], lambda g: None))
    assert float(scale.scale_loss(lambda: tf.constant(2.0))()) == 8.0
    assert float(scale.loss_scale) == 4.0


def test_refusals():
    with pytest.raises(ValueError, match="positive"):
        tf.mixed_precision.LossScale(0.0)
    with pytest.raises(ValueError, match="at least 1"):
        tf.mixed_precision.LossScale(dynamic_growth_steps=0)
