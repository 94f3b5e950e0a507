"""Convolution, pooling, losses and attention on XLA: odd geometries, ties and low precision against NumPy, and what is
asked of a compiled program: one convolution for a convolution, nothing written that need not be.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import gradtape as tf
from gradtape._src.arrays import numpy_namespace as on_numpy
from gradtape._src.arrays.xla import neural, xla_namespace as on_xla
from gradtape._src.conversion import wrap
from gradtape.testing import check_gradients

TOLERANCE = {8: 1e-11, 4: 2e-5, 2: 8e-2}


def same(name: str, *arrays: Any, **attrs: Any) -> Any:
    """Run a kernel on both engines, with one operand left to NumPy, and compare."""
    theirs = getattr(on_numpy, name)(*arrays, **attrs)
    ours = getattr(on_xla, name)(jnp.asarray(arrays[0]), *arrays[1:], **attrs)
    for a, b in zip(ours, theirs, strict=True) if isinstance(theirs, tuple) else [(ours, theirs)]:
        assert isinstance(a, jax.Array)
        assert (a.shape, a.dtype) == (b.shape, b.dtype), (name, attrs)
        tolerance = TOLERANCE[b.dtype.itemsize] * max(np.abs(b.astype(np.float64)).max(initial=0), 1)
        np.testing.assert_allclose(
            np.asarray(a).astype(np.float64), b.astype(np.float64), rtol=0, atol=tolerance, err_msg=f"{name} {attrs}"
        )
    return theirs


GEOMETRIES = [  # batch, sizes, window, strides, dilations, padding, groups, channels of a group in and out
    (2, (5, 6), (3, 2), (2, 3), (1, 2), ((2, 0), (0, 2)), 1, 2, 3),
    (1, (6, 5), (2, 2), (3, 3), (1, 1), ((0, 0), (1, 1)), 3, 2, 2),  # a stride that passes places by
    (2, (4, 4), (3, 3), (1, 2), (2, 1), ((2, 2), (1, 0)), 2, 1, 2),
    (2, (7,), (3,), (2,), (2,), ((0, 1),), 1, 1, 1),
    (1, (3, 4, 3), (2, 1, 2), (1, 2, 1), (1, 1, 2), ((0, 0), (0, 0), (1, 1)), 2, 1, 1),
    (1, (2, 2), (3, 3), (1, 1), (1, 1), ((0, 0), (0, 0)), 2, 2, 1),  # a window that fits nowhere
    (0, (4, 4), (2, 2), (1, 1), (1, 1), ((0, 0), (0, 0)), 1, 2, 2),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16])
def test_convolutions(geometry, dtype):
    batch, sizes, window, strides, dilations, padding, groups, depth, wide = geometry
    random = np.random.default_rng(0)
    how = {"strides": strides, "dilations": dilations, "padding": padding, "groups": groups}
    x = random.normal(size=(batch, *sizes, groups * depth)).astype(dtype)
    y = random.normal(size=(*window, depth, groups * wide)).astype(dtype)
    z = same("conv", x, y, **how)
    same("conv_input_grad", z, y, shape=sizes, **how)
    same("conv_filter_grad", x, z, window=window, **how)


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.int32, ml_dtypes.bfloat16])
def test_pools_with_ties(geometry, dtype):
    batch, sizes, window, strides, dilations, padding, *_ = geometry
    random = np.random.default_rng(1)
    how = {"window": window, "strides": strides, "dilations": dilations, "padding": padding}
    x = random.integers(-1, 2, (batch, *sizes, 2)).astype(dtype)
    if dtype is np.float64:
        x[random.random(x.shape) < 0.3] = -np.inf  # as low as what is padded, and yet a maximum
    top = on_numpy.max_pool(x, **how)
    np.testing.assert_array_equal(on_xla.max_pool(jnp.asarray(x), **how), top)
    same("max_position", x, top, **how)
    cotangents = np.float32 if dtype is np.int32 else dtype
    for rows in ((), (2,)):
        same("max_unpool", random.integers(-3, 4, (*rows, *top.shape)).astype(cotangents), x, top, **how)
        same("max_pick", random.integers(-3, 4, (*rows, *x.shape)).astype(cotangents), x, top, **how)
    z = random.integers(-3, 4, top.shape).astype(cotangents)
    same("sum_unpool", z, shape=sizes, **how)
    finite = random.integers(-3, 4, x.shape).astype(dtype)
    same("sum_pool", finite, **how)
    patches = same("conv_patches", finite, **how)
    same("conv_patches_grad", patches.astype(cotangents), shape=sizes, **how)


def test_the_maximum_of_nan_is_nan_and_gives_nothing_back():
    how = {"window": (2,), "strides": (2,), "dilations": (1,), "padding": ((0, 0),)}
    x = np.array([1.0, np.nan, 3.0, 2.0]).reshape(1, 4, 1)
    top = on_xla.max_pool(jnp.asarray(x), **how)
    assert np.isnan(top[0, 0, 0])
    back = on_xla.max_unpool(jnp.ones((1, 2, 1)), x, top, **how)
    np.testing.assert_array_equal(np.ravel(back), [0, 0, 1, 0])


def operations(function: Any, *arrays: Any) -> list[str]:
    """The operations of the program that JAX hands to XLA."""
    return re.findall(r"stablehlo\.(\w+)", jax.jit(function).lower(*arrays).as_text())


def test_a_convolution_is_one_convolution():
    how = {"strides": (2, 2), "dilations": (1, 1), "padding": ((1, 1), (0, 1)), "groups": 2}
    x, y = jnp.ones((2, 6, 6, 4), jnp.bfloat16), jnp.ones((3, 3, 2, 6), jnp.bfloat16)
    z = on_xla.conv(x, y, **how)
    programs = [
        operations(lambda x, y: on_xla.conv(x, y, **how), x, y),
        operations(lambda z, y: on_xla.conv_input_grad(z, y, shape=(6, 6), **how), z, y),
        operations(lambda x, z: on_xla.conv_filter_grad(x, z, window=(3, 3), **how), x, z),
    ]
    for program in programs:
        assert program.count("convolution") == 1
        assert "convert" not in program  # no copies in float32
    how = {"window": (2, 2), "strides": (2, 2), "dilations": (1, 1), "padding": ((0, 0), (0, 0))}
    for name in ("max_pool", "sum_pool"):
        assert operations(lambda x, name=name: getattr(on_xla, name)(x, **how), x).count("reduce_window") == 1


# -- losses --------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_softmax_and_cross_entropy_of_any_dtype(dtype):
    x = np.random.default_rng(0).normal(size=(3, 5), scale=3).astype(dtype)
    same("softmax", x, axis=0)
    same("log_softmax", x, axis=1)
    loss, slope = same("sparse_cross_entropy", x, np.array([4, 0, 2], np.int32))
    assert loss.dtype == slope.dtype == dtype
    same("softmax", x[:0], axis=0)


def test_a_label_that_is_no_class_gives_nan_for_its_row():
    loss, slope = on_xla.sparse_cross_entropy(jnp.zeros((3, 2)), np.array([0, 2, -1]))
    np.testing.assert_array_equal(np.isnan(loss), [False, True, True])
    np.testing.assert_array_equal(np.isnan(slope).all(1), [False, True, True])


def test_cross_entropy_writes_one_array_as_large_as_the_logits():
    """A loss and its gradient in one program: the slope and the softmax are never written."""
    logits, labels = jnp.ones((64, 1000), jnp.float32), jnp.zeros(64, jnp.int32)

    def gradient(logits: Any, labels: Any) -> Any:
        x = wrap(logits)
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(wrap(labels), x))
        return tape.gradient(loss, x).array

    memory = jax.jit(gradient).lower(logits, labels).compile().memory_analysis()
    assert memory.temp_size_in_bytes < 1.1 * logits.nbytes


# -- attention -----------------------------------------------------------------------------------
def attention_by_hand(q: Any, k: Any, v: Any, allowed: Any = True, added: Any = 0.0, scale: Any = None) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale) + added
    e = np.where(allowed, np.exp(scores - scores.max(-1, keepdims=True)), 0)
    total = e.sum(-1, keepdims=True)
    return (e / np.where(total == 0, 1, total)) @ v


def heads(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


PLACES = {"NumPy": lambda a: a, "XLA": jnp.asarray}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_attention_against_numpy(place):
    q, k, v = heads(2, 3, 4, 5, seed=0), heads(2, 3, 6, 5, seed=1), heads(2, 3, 6, 2, seed=2)
    attend = tf.nn.scaled_dot_product_attention
    given = [wrap(place(a)) for a in (q, k, v)]
    look, added = np.random.default_rng(3).random((4, 6)) < 0.6, heads(3, 1, 6, seed=4)
    look[1] = False
    np.testing.assert_allclose(attend(*given), attention_by_hand(q, k, v), rtol=1e-12)
    np.testing.assert_allclose(attend(*given, scale=0.3), attention_by_hand(q, k, v, scale=0.3), rtol=1e-12)
    np.testing.assert_allclose(
        attend(*given, is_causal=True), attention_by_hand(q, k, v, np.tri(4, 6, dtype=bool)), rtol=1e-12
    )
    np.testing.assert_allclose(attend(*given, mask=added), attention_by_hand(q, k, v, added=added), rtol=1e-12)
    blind = attend(*given, mask=look)
    np.testing.assert_allclose(blind, attention_by_hand(q, k, v, look), rtol=1e-12)
    np.testing.assert_array_equal(np.asarray(blind)[:, :, 1], 0)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
@pytest.mark.parametrize("mask", [np.array([[True], [False]]), np.array([[0.0], [-np.inf]])], ids=["looks", "adds"])
def test_nothing_to_look_at_gives_nothing_back(place, mask):
    given = [wrap(place(heads(2, 3, seed=i))) for i in range(3)]
    with tf.GradientTape() as tape:
        tape.watch(given)
        out = tf.nn.scaled_dot_product_attention(*given, mask=mask)
    np.testing.assert_array_equal(out[1], 0)
    gradients = [np.asarray(g) for g in tape.gradient(out, given)]
    assert all(np.isfinite(g).all() for g in gradients)
    np.testing.assert_array_equal(gradients[0][1], 0)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_axes_in_front_are_broadcast(place):
    q, k, v = heads(2, 3, 4, 5, seed=0), heads(1, 6, 5, seed=1), heads(6, 2, seed=2)
    look = np.random.default_rng(3).random((5, 1, 1, 4, 6)) < 0.6
    given = [wrap(place(a)) for a in (q, k, v)]
    with tf.GradientTape() as tape:
        tape.watch(given)
        out = tf.nn.scaled_dot_product_attention(*given, mask=look)
    np.testing.assert_allclose(out, attention_by_hand(q, k, v, look), rtol=1e-12)
    assert [tuple(g.shape) for g in tape.gradient(out, given)] == [q.shape, k.shape, v.shape]


def test_attention_keeps_no_weights_on_numpy():
    q = tf.constant(heads(2, 64, 8, seed=0))
    with tf.GradientTape() as tape:
        tape.watch(q)
        tf.nn.scaled_dot_product_attention(q, q, q, is_causal=True)
    (record,) = tape.records
    assert sum(value.array.size for value in record.values) == 4 * 2 * 64 * 8 + 2 * 64


def test_a_learned_scale_and_a_learned_bias():
    q, k, v, bias = heads(2, 3, 2, seed=0), heads(2, 3, 2, seed=1), heads(2, 3, 2, seed=2), heads(1, 3, seed=3)

    def attend(q: Any, scale: Any, bias: Any) -> Any:
        return tf.nn.scaled_dot_product_attention(q, k, v, mask=bias, scale=scale)

    check_gradients(attend, q, np.array(0.7), bias)


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_large_number_in_a_mask_does_not_spoil_the_gradient(place):
    """Equal scores of -1e9 are weights of one half, also where the logarithm of 2 is lost beside them."""
    q, v = heads(1, 2, seed=0).astype(np.float32), wrap(place(heads(2, 2, seed=1).astype(np.float32)))
    far = np.full((1, 2), -1e9, np.float32)
    with tf.GradientTape() as tape:
        tape.watch(v)
        out = tf.nn.scaled_dot_product_attention(wrap(place(q)), wrap(place(np.ones((2, 2), np.float32))), v, mask=far)
    np.testing.assert_allclose(tape.gradient(out, v), 0.5, rtol=1e-6)


def test_gradients_of_each_example_share_nothing_but_the_op():
    """The rows of a Jacobian that is block-diagonal in the batch stay short."""
    q = tf.constant(heads(3, 4, 2, seed=0))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(q)
        out = tf.nn.scaled_dot_product_attention(q, q, q, is_causal=True)
        loss = tf.reduce_sum(out * out, axis=[1, 2])
    one_by_one = [tape.gradient(loss, q, output_gradients=tf.one_hot(i, 3, dtype=tf.float64)) for i in range(3)]
    np.testing.assert_allclose(tape.batch_gradient(loss, q), np.stack(one_by_one), rtol=1e-10)


def test_what_numpy_kept_serves_xla():
    """The cotangent alone may be on the device."""
    q, k, v, d = (heads(2, 4, 3, seed=i) for i in range(4))
    for mask in ([], [np.tri(4, dtype=bool)], [heads(4, 4, seed=5)]):
        out, kept = on_numpy.attention(q, k, v, *mask, scale=0.5, causal=False)
        expected = on_numpy.attention_gradient(d, q, k, v, out, kept, *mask, scale=0.5, causal=False)
        found = on_xla.attention_gradient(jnp.asarray(d), q, k, v, out, kept, *mask, scale=0.5, causal=False)
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_attention_of_few_bits_sums_in_more(dtype):
    """Scores of a hundred apart by little: rounded to few bits they would all be the same."""
    q, k, v = (heads(2, 6, 8, seed=i).astype(dtype) for i in range(3))
    wide = [a.astype(np.float64) for a in (q, k, v)]
    expected = attention_by_hand(*wide, scale=3.0)
    for place in PLACES.values():
        out, _ = (on_xla if place is jnp.asarray else on_numpy).attention(place(q), k, v, scale=3.0, causal=False)
        assert out.dtype == dtype
        np.testing.assert_allclose(np.asarray(out).astype(np.float64), expected, atol=3e-2)


BAD = [
    (((2, 3), (2, 4), (2, 4)), {}, r"Incompatible shapes: \[2,3\] vs\. \[2,4\]"),
    (((2, 3), (4, 3), (5, 3)), {}, r"Incompatible shapes: \[4,3\] vs\. \[5,3\]"),
    (((3,), (4, 3), (4, 3)), {}, r"Incompatible shapes: \[3\]"),
    (((2, 2, 3), (3, 4, 3), (4, 3)), {}, "do not broadcast"),
    (((2, 3), (4, 3), (4, 3)), {"mask": np.ones((3, 4), bool)}, r"\[2,4\] vs\. \[3,4\]"),
]


@pytest.mark.parametrize(("shapes", "more", "says"), BAD)
def test_operands_that_do_not_fit(shapes, more, says):
    with pytest.raises(tf.errors.InvalidArgumentError, match=says):
        tf.nn.scaled_dot_product_attention(*(tf.ones(s) for s in shapes), **more)


def test_dtypes_that_do_not_fit():
    x, y = tf.ones([2, 2]), tf.ones([2, 2], tf.float64)
    for given, mask in (((x, y, x), None), ((x, x, y), None), ((x, x, x), y)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"tf\.cast"):
            tf.nn.scaled_dot_product_attention(*given, mask=mask)
    with pytest.raises(tf.errors.InvalidArgumentError, match="int32"):
        tf.nn.scaled_dot_product_attention(*[tf.ones([2, 2], tf.int32)] * 3)


def test_without_cudnn_there_is_no_flash_attention():
    q = jnp.ones((2, 4, 64, 64), jnp.bfloat16)
    flash = neural._has_flash(q, q, q, None, 0.125, True)
    _, kept = on_xla.attention(q, q, q, scale=0.125, causal=True)
    assert flash == (jax.default_backend() == "gpu") == (kept.ndim == 3)


# -- what a GPU computes in another way -----------------------------------------------------------
def as_on_a_gpu(monkeypatch, name, *arrays, **attrs):
    """A kernel with the formulas for GPUs, op by op: what is compiled already knows where it runs."""
    monkeypatch.setattr(neural, "_on_gpu", lambda x: True)
    return getattr(neural, name).__wrapped__(*map(jnp.asarray, arrays), **attrs)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_rows_are_standardized(monkeypatch, dtype):
    x = np.random.default_rng(1).normal(size=(4, 3, 64)) * 3 + 100
    x[0, 0], x[0, 1] = 7, np.linspace(-1e3, 1e3, 64)
    x = x.astype(dtype)
    wide = x.astype(np.float64)
    spread = np.sqrt(wide.var(-1, keepdims=True) + 1e-3)
    rounding = 40 * float(ml_dtypes.finfo(dtype).eps) + 2e-5
    for out, inverse in (
        same("standardize", x, epsilon=1e-3),
        as_on_a_gpu(monkeypatch, "standardize", x, epsilon=1e-3),
    ):
        np.testing.assert_allclose(np.float64(inverse), 1 / spread, rtol=rounding)
        np.testing.assert_allclose(np.float64(out), (wide - wide.mean(-1, keepdims=True)) / spread, atol=rounding)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, ml_dtypes.bfloat16])
def test_shares_and_losses_on_a_gpu(monkeypatch, dtype):
    x = (np.random.default_rng(2).normal(size=(3, 50)) * 20).astype(dtype)
    x[0] += dtype(1000)  # far from 0, and no further apart
    labels, close = np.array([4, 0, 49], np.int32), {"rtol": 1e-5, "atol": TOLERANCE[x.dtype.itemsize] / 10}
    for axis in (0, 1):
        found, expected = as_on_a_gpu(monkeypatch, "softmax", x, axis=axis), on_numpy.softmax(x, axis=axis)
        np.testing.assert_allclose(np.float64(found), np.float64(expected), **close)
    for found, expected in zip(
        as_on_a_gpu(monkeypatch, "sparse_cross_entropy", x, labels),
        on_numpy.sparse_cross_entropy(x, labels),
        strict=True,
    ):
        np.testing.assert_allclose(np.float64(found), np.float64(expected), **close)
    loss, slope = as_on_a_gpu(monkeypatch, "sparse_cross_entropy", jnp.zeros((3, 2), dtype), np.array([0, 2, -1]))
    assert np.isnan(np.float64(loss)).tolist() == [False, True, True]
    assert np.isnan(np.float64(slope)).any(1).tolist() == [False, True, True]


def test_layer_normalization():
    x = np.random.default_rng(3).normal(size=(5, 8))
    scale, offset = np.linspace(0.5, 2, 8), np.linspace(-1, 1, 8)
    expected = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * scale + offset
    np.testing.assert_allclose(tf.nn.layer_normalization(x, scale, offset), expected, rtol=1e-12)
    np.testing.assert_allclose(tf.nn.layer_normalization(x), (expected - offset) / scale, rtol=1e-10)
    check_gradients(tf.nn.layer_normalization, x, scale, offset)
    compiled = tf.function(tf.nn.layer_normalization)
    np.testing.assert_allclose(compiled(x, scale, offset), expected, rtol=1e-12)
    assert tf.nn.layer_normalization(tf.ones((2, 3), tf.bfloat16)).dtype == tf.bfloat16
