"""Gauss-Newton products, and estimates of the Hessian's diagonal and trace."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

RNG = np.random.default_rng(0)
X, LABELS = tf.constant(RNG.normal(size=(20, 3))), tf.constant(RNG.integers(0, 2, 20))
START = [RNG.normal(size=(3, 4)), RNG.normal(size=(4, 2))]
VECTORS = [tf.constant(RNG.normal(size=(3, 4))), tf.constant(RNG.normal(size=(4, 2)))]


def cross_entropy(outputs):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(LABELS, outputs))


def recorded(weights, persistent=False):
    with tf.GradientTape(persistent=persistent) as tape:
        outputs = tf.tanh(X @ weights[0]) @ weights[1]
        loss = cross_entropy(outputs)
    return tape, outputs, loss


def dense(tape, outputs, loss, weights):
    """The Gauss-Newton matrix and the Hessian, computed as matrices."""
    j = np.concatenate([np.reshape(part, (40, -1)) for part in tape.jacobian(outputs, weights)], 1)
    copy = tf.constant(outputs.numpy())
    with tf.GradientTape() as other:
        other.watch(copy)
        again = cross_entropy(copy)
    h = other.hessian(again, copy).numpy().reshape(40, 40)
    blocks = tape.hessian(loss, weights)
    sizes = (12, 8)
    hessian = np.block([[np.reshape(blocks[i][k], (sizes[i], sizes[k])) for k in range(2)] for i in range(2)])
    return j.T @ h @ j, hessian


def flat(parts):
    return np.concatenate([np.reshape(p, -1) for p in parts])


def test_products_equal_those_of_the_matrix():
    weights = [tf.Variable(w) for w in START]
    tape, outputs, loss = recorded(weights, persistent=True)
    matrix, _ = dense(tape, outputs, loss, weights)
    found = tape.ggn_vp(loss, outputs, weights, VECTORS)
    np.testing.assert_allclose(flat(found), matrix @ flat(VECTORS), rtol=1e-10)
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-12)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12


def test_the_fisher_information_is_the_gauss_newton_matrix():
    """Of cross entropy by logits: the mean of g gᵀ over labels that the model draws."""
    weights = [tf.Variable(w) for w in START]
    tape, outputs, loss = recorded(weights, persistent=True)
    matrix, _ = dense(tape, outputs, loss, weights)
    p = tf.nn.softmax(outputs).numpy()
    fisher = np.zeros((20, 20))
    j = np.concatenate([np.reshape(part, (20, 2, -1)) for part in tape.jacobian(outputs, weights)], 2)
    for i in range(20):
        for label in range(2):
            g = (p[i] - np.eye(2)[label]) @ j[i]
            fisher += p[i, label] * np.outer(g, g) / 20
    np.testing.assert_allclose(matrix, fisher, atol=1e-12)


@pytest.mark.parametrize("jit", [False, True])
def test_in_a_function_and_under_a_tape(jit):
    weights = [tf.Variable(w) for w in START]

    def product():
        tape, outputs, loss = recorded(weights)
        return tape.ggn_vp(loss, outputs, weights, VECTORS)

    expected = product()
    for got, want in zip(tf.function(product, jit_compile=jit)(), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)
    with tf.GradientTape() as outer:
        total = tf.reduce_sum(product()[0] * VECTORS[0])
    derivative = outer.gradient(total, weights[1]).numpy()
    step = 1e-6 * np.eye(4, 2)
    values = []
    for sign in (1, -1):
        weights[1].assign(START[1] + sign * step)
        values.append(float(tf.reduce_sum(product()[0] * VECTORS[0])))
    assert np.sum(derivative * np.eye(4, 2)) == pytest.approx((values[0] - values[1]) / 2e-6, rel=1e-5)


def test_unused_sources_and_a_tape_that_is_used_up():
    weights, unused = [tf.Variable(w) for w in START], tf.Variable(1.0)
    tape, outputs, loss = recorded(weights)
    zero = tf.constant(1.0)
    assert tape.ggn_vp(loss, outputs, [*weights, unused], [*VECTORS, zero])[2] is None
    with pytest.raises(RuntimeError, match="one set of gradients"):
        tape.ggn_vp(loss, outputs, weights, VECTORS)


def test_estimates_agree_with_the_hessian_within_their_errors():
    weights = [tf.Variable(w) for w in START]
    tape, outputs, loss = recorded(weights, persistent=True)
    _, hessian = dense(tape, outputs, loss, weights)
    diagonal = tape.hessian_diagonal(loss, weights, samples=300)
    off = np.abs(flat(diagonal.value) - np.diag(hessian)) / flat(diagonal.error)
    assert off.max() < 4
    trace = tape.hessian_trace(loss, weights, samples=300)
    assert abs(trace.value - np.trace(hessian)) < 4 * trace.error
    better = tape.hessian_trace(loss, weights, samples=60, method="hutch++")
    assert better.value == pytest.approx(np.trace(hessian), abs=1e-8)  # the rank is within the sketch
    assert tape.hessian_trace(loss, weights, samples=5) == tape.hessian_trace(loss, weights, samples=5)


def test_float32_and_mistakes():
    x = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(x**3)
        z = tf.reduce_sum(x)
    value = tape.hessian_diagonal(y, x, samples=2).value
    assert value.dtype == tf.float32
    assert value.numpy().tolist() == [6.0, 12.0]
    with pytest.raises(ValueError, match="at least 2 samples"):
        tape.hessian_trace(y, x, samples=1)
    with pytest.raises(ValueError, match="'hutchinson' or 'hutch"):
        tape.hessian_trace(y, x, method="exact")
    with pytest.raises(ValueError, match="does not depend on the outputs"):
        tape.ggn_vp(y, z, x, x)
    with pytest.raises(ValueError, match="A tangent must have the shape of its source"):
        tape.ggn_vp(y, z, x, tf.zeros(3))

    with pytest.raises(ValueError, match="seed must be a nonnegative integer; received -1"):
        tape.hessian_trace(y, x, seed=-1)
    with pytest.raises(TypeError, match="A tangent of a float32 source must be real"):
        tape.ggn_vp(y, z, x, np.array([1j, 1.0]))
    assert tape.hessian_trace(y, [], samples=np.int64(3)).value == 0.0
    assert tape.hessian_diagonal(y, []).value == []

    def inside():
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(x**3)
        return tape.hessian_trace(y, x).value

    with pytest.raises(RuntimeError, match=r"outside tf\.function"):
        tf.function(inside, jit_compile=True)()


def test_estimates_of_complex_sources_are_refused():
    x = tf.Variable([1j, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(tf.abs(x) ** 2)
    with pytest.raises(TypeError, match="hessian_trace needs real sources; received complex128"):
        tape.hessian_trace(y, x)
