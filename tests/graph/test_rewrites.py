"""Norms, losses and parts of products that are written out: one op where that is what they are."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

pytest.importorskip("jax")
from gradtape._src.arrays.lazy.calls import kinds
from gradtape._src.graph import merges, options
from gradtape._src.graph.rewrites import losses, products, sources

rng = np.random.default_rng(11)


@pytest.fixture(autouse=True)
def worthwhile(monkeypatch):
    monkeypatch.setattr(sources, "is_worthwhile", lambda array: True)
    monkeypatch.setattr(losses, "LARGE", 1)
    monkeypatch.setattr(products, "MANY", 1)
    monkeypatch.setattr(products, "SMALLEST", 1)


def numbers(*shape, dtype=tf.float32):
    return tf.constant(rng.normal(size=shape), dtype)


def nodes(function, *given):
    return [node.name for node in function.get_concrete_function(*given)._traced.plain.nodes]


def with_slopes(run):
    def both(*given):
        with tf.GradientTape() as tape:
            tape.watch(given)
            out = run(*given)
            value = tf.reduce_sum(tf.sin(tf.cast(out, tf.float32)))
        return out, tape.gradient(value, given)

    return both


def check(run, given, name, present=True, tolerance=2e-5, jit=(False, True)):
    """Function, program of XLA and lazy arrays against eager code; whether the op is in the programs."""
    run = with_slopes(run)
    expected = [np.asarray(x, float) for x in tf.nest.flatten(run(*given))]

    def compare(found):
        for a, b in zip(tf.nest.flatten(found), expected, strict=True):
            np.testing.assert_allclose(np.asarray(a, float), b, rtol=tolerance, atol=tolerance)

    for compiled in [tf.function(run, jit_compile=j) for j in jit]:
        assert (name in nodes(compiled, *given)) == present
        compare(compiled(*given))
    tf.config.set_graph_mode("auto")
    try:
        found = run(*[tf.constant(x.numpy(), x.dtype) for x in given])
        recorded = {kinds[a.code[0]].name for a in tf.nest.flatten(found)[0].array.trace.results if a.code}
        compare(found)
    finally:
        tf.config.set_graph_mode("accelerators")
    assert (name in recorded) == present


# -- norms -----------------------------------------------------------------------------------------------------------
def centered(x):
    return x - tf.reduce_mean(x, -1, keepdims=True)


def layer_norm(x, gain):
    c = centered(x)
    return c * tf.math.rsqrt(tf.reduce_mean(c * c, -1, keepdims=True) + 1e-5) * gain


def with_moments(x, gain):
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return (x - mean) / tf.sqrt(variance + 1e-3) * gain


def with_variance(x, gain):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    return gain * (tf.math.rsqrt(1e-5 + tf.math.reduce_variance(x, -1, keepdims=True)) * (x - mean))


def with_squares(x, gain):
    c = centered(x)
    return gain * (c / tf.sqrt(tf.reduce_mean(tf.square(c), -1, keepdims=True) + 1e-5))


def with_squared_difference(x, gain):
    mean = tf.reduce_mean(x, -1, keepdims=True)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), -1, keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 1e-5) * gain


def rms_norm(x, gain):
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6) * gain


NORMS = [layer_norm, with_moments, with_variance, with_squares, with_squared_difference, rms_norm]


@pytest.mark.parametrize("norm", NORMS)
def test_norms(norm):
    check(norm, [numbers(2, 3, 8), numbers(8)], "standardize")


def over_another_axis(x, gain):
    c = x - tf.reduce_mean(x, 1, keepdims=True)
    return c * tf.math.rsqrt(tf.reduce_mean(c * c, -1, keepdims=True) + 1e-5) * gain


def of_another_value(x, gain):
    c = centered(x)
    return tf.sin(c) * tf.math.rsqrt(tf.reduce_mean(c * c, -1, keepdims=True) + 1e-5) * gain


def by_the_sum(x, gain):
    c = centered(x)
    return c * tf.math.rsqrt(tf.reduce_sum(c * c, -1, keepdims=True) + 1e-5) * gain


def with_a_stop(x, gain):
    c = x - tf.stop_gradient(tf.reduce_mean(x, -1, keepdims=True))
    _, variance = tf.nn.moments(x, [-1], keepdims=True)
    return c * tf.math.rsqrt(variance + 1e-5) * gain


def with_a_trained_epsilon(x, gain):
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + gain[0] ** 2) * gain


@pytest.mark.parametrize("norm", [of_another_value, by_the_sum, with_a_stop, with_a_trained_epsilon])
def test_what_is_no_norm(norm):
    check(norm, [numbers(2, 3, 8), numbers(8)], "standardize", present=False, jit=(False,))


def test_the_mean_of_another_axis_is_no_centre():
    """What is left is the RMS norm of the difference."""
    check(over_another_axis, [numbers(2, 3, 8), numbers(8)], "standardize", jit=(False,))


def test_derivatives_inside_a_norm():
    def run(x):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            c = centered(x)
            inverse = tf.math.rsqrt(tf.reduce_mean(c * c, -1, keepdims=True) + 1e-5)
            value = tf.reduce_sum(tf.sin(c * inverse))
        return tape.gradient(value, x), tape.gradient(value, c), tape.gradient(value, inverse)

    x = numbers(3, 8)
    for found, expected in zip(tf.function(run)(x), run(x), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


# -- losses ----------------------------------------------------------------------------------------------------------
LABELS = tf.constant(rng.integers(0, 7, (3, 5)))


def entropy(logits, labels=LABELS):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)


def tied(x, w):
    return entropy(tf.matmul(x, w, transpose_b=True))


def untied(x, w):
    return entropy(x @ tf.transpose(w))


def with_bias(x, w):
    return entropy(tf.matmul(x, w, transpose_b=True) + w[:, 0])


def reshaped(x, w):
    logits = tf.matmul(x, w, transpose_b=True)
    return entropy(tf.reshape(logits, (-1, 7)), tf.reshape(LABELS, [-1]))


def wide_loss(x, w):
    return entropy(tf.cast(tf.matmul(x, w, transpose_b=True), tf.float32))


@pytest.mark.parametrize("loss", [tied, untied, with_bias, reshaped])
def test_losses_of_projections(loss, monkeypatch):
    from gradtape._src.arrays.xla import neural
    from gradtape._src.ops import projection

    monkeypatch.setattr(neural, "BLOCK_BYTES", 4 * 7 * 4)  # four rows: the last block is not full
    monkeypatch.setattr(neural, "TILE", 4)
    monkeypatch.setattr(projection, "BLOCK_ROWS", 4)
    given = [numbers(3, 5, 4), numbers(7, 4)]
    check(loss, given, "projected_cross_entropy")


def test_a_loss_in_bfloat16():
    given = [numbers(3, 5, 4, dtype=tf.bfloat16), numbers(7, 4, dtype=tf.bfloat16)]
    check(wide_loss, given, "projected_cross_entropy", tolerance=0.05)


def squared(x, w):
    return entropy(tf.matmul(x, w, transpose_b=True) ** 2)


def test_a_loss_of_something_else():
    check(squared, [numbers(3, 5, 4), numbers(7, 4)], "projected_cross_entropy", present=False, jit=(False,))


def mean_and_slopes(x, w):
    with tf.GradientTape() as tape:
        tape.watch([x, w])
        loss = tf.reduce_mean(tied(x, w))
    return [loss, *tape.gradient(loss, [x, w])]


@pytest.mark.parametrize("jit", [False, True])
def test_a_loss_and_its_gradient_are_one_op(jit):
    given = [numbers(3, 5, 4), numbers(7, 4)]
    compiled = tf.function(mean_and_slopes, jit_compile=jit)
    assert [name for name in nodes(compiled, *given) if name.startswith("projected")] == [merges.BOTH]
    for found, expected in zip(compiled(*given), mean_and_slopes(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_gradient_that_depends_on_the_loss_comes_after_it():
    def run(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            value = tf.reduce_sum(tied(x, w) ** 2)
        return tape.gradient(value, [x, w])

    given = [numbers(3, 5, 4), numbers(7, 4)]
    compiled = tf.function(run)
    assert [n for n in nodes(compiled, *given) if n.startswith("projected")] == [merges.LOSS, merges.GRADIENT]
    for found, expected in zip(compiled(*given), run(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_the_second_derivative_of_a_loss():
    def run(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            loss, dx, dw = mean_and_slopes(x, w)
            value = tf.reduce_sum(dx**2) + tf.reduce_sum(dw**3) + loss**2
        return tape.gradient(value, [x, w])

    given = [numbers(3, 5, 4), numbers(7, 4)]
    for found, expected in zip(tf.function(run)(*given), run(*given), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_rows_of_losses():
    """Per-example gradients: the batch rule."""
    x, w = numbers(3, 5, 4), numbers(7, 4)

    def run(x, w):
        with tf.GradientTape() as tape:
            tape.watch([x, w])
            each = tf.reduce_sum(tied(x, w), 1)
        return tape.jacobian(each, [x, w])

    for found, expected in zip(tf.function(run)(x, w), run(x, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_labels_that_are_no_class():
    x, w = numbers(2, 4), numbers(7, 4)
    run = tf.function(lambda labels: entropy(tf.matmul(x, w, transpose_b=True), labels))
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside the valid range"):
        run(tf.constant([1, 9]))


# -- parts of products -----------------------------------------------------------------------------------------------
def parts(x, w):
    a, b, c = tf.split(x @ w, [2, 3, 4], -1)
    return tf.concat([tf.sin(a), b * 2, c[..., :2]], -1)


def parts_of_rows(x, w):
    a, b = tf.split(tf.matmul(x, w, transpose_b=True), 2, -1)
    return a * b


def test_parts_of_a_product():
    given = [numbers(2, 5, 4), numbers(4, 9)]
    compiled = tf.function(parts)
    assert nodes(compiled, *given).count("matmul") == 3
    check(parts, given, "split")
    check(parts_of_rows, [numbers(5, 4), numbers(6, 4)], "split")


def test_options_are_for_large_products(monkeypatch):
    run = tf.function(lambda x, w: x @ w)
    given = [numbers(8, 4, dtype=tf.bfloat16), numbers(4, 8, dtype=tf.bfloat16)]
    program = run.get_concrete_function(*given)._traced.plain
    monkeypatch.setattr(options, "jax_devices", lambda kind: [kind])
    assert options.options_for(program.nodes) is None
    monkeypatch.setattr(options, "LARGE", 64)
    assert options.options_for(program.nodes) == {"xla_gpu_dot_merger_threshold_mb": 0}
    monkeypatch.setitem(options.compiler_options, "xla_gpu_dot_merger_threshold_mb", 32)
    assert options.options_for(program.nodes) == {"xla_gpu_dot_merger_threshold_mb": 32}
