"""Segments and scans, against loops written out in NumPy; derivatives against numbers."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf
from gradtape.testing import check_gradients

Invalid = tf.errors.InvalidArgumentError
LOWEST = float(np.finfo(np.float32).min)

REDUCTIONS = {
    "sum": (lambda rows: rows.sum(0), 0),
    "mean": (lambda rows: rows.mean(0), 0),
    "prod": (lambda rows: rows.prod(0), 1),
    "max": (lambda rows: rows.max(0), 0),
    "min": (lambda rows: rows.min(0), 0),
}


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def by_hand(reduce, empty, x, ids, count):
    rows = [x[np.asarray(ids) == i] for i in range(count)]
    return np.array([reduce(r) if len(r) else np.full(x.shape[1:], empty) for r in rows])


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape", [(6,), (6, 2), (6, 2, 3)])
def test_segments_in_order(name, shape):
    reduce, empty = REDUCTIONS[name]
    x, ids = numbers(*shape), [0, 0, 0, 2, 2, 5]
    function = getattr(tf.math, f"segment_{name}")
    np.testing.assert_allclose(function(x, ids).numpy(), by_hand(reduce, empty, x, ids, 6))
    check_gradients(lambda a: function(a, ids) ** 2, x)


@pytest.mark.parametrize("name", [*REDUCTIONS, "sqrt_n"])
@pytest.mark.parametrize("shape", [(7,), (7, 2)])
def test_segments_in_any_order(name, shape):
    reduce, empty = REDUCTIONS.get(name, (lambda rows: rows.sum(0) / np.sqrt(len(rows)), 0))
    if name in ("max", "min"):
        empty = {"max": np.finfo(float).min, "min": np.finfo(float).max}[name]
    x, ids = numbers(*shape), [3, 0, -1, 3, 1, 3, -7]
    function = getattr(tf.math, f"unsorted_segment_{name}")
    np.testing.assert_allclose(function(x, ids, 5).numpy(), by_hand(reduce, empty, x, ids, 5))
    check_gradients(lambda a: tf.tanh(tf.gather(function(a, ids, 5), [0, 1, 3])), x)


def test_ids_with_several_axes():
    x = numbers(2, 3, 2)
    ids = np.array([[0, 1, -1], [1, 1, 0]])
    expected = by_hand(lambda rows: rows.sum(0), 0, x.reshape(6, 2), ids.reshape(-1), 2)
    np.testing.assert_allclose(tf.math.unsorted_segment_sum(x, ids, 2).numpy(), expected)
    check_gradients(lambda a: tf.math.unsorted_segment_mean(a, ids, 2) ** 2, x)
    assert tf.math.unsorted_segment_sum(3.0, 0, 2).numpy().tolist() == [3, 0]


def test_ties_share_and_dropped_rows_get_nothing():
    x = tf.Variable([2.0, 2.0, 1.0, 9.0])
    for function in (tf.math.unsorted_segment_max, tf.math.unsorted_segment_min):
        with tf.GradientTape() as tape:
            y = function(x, [0, 0, 1, -1], 3)[:2]
        assert tape.gradient(y, x).numpy().tolist() == [0.5, 0.5, 1, 0]


@pytest.mark.parametrize("zeros", [(), (0,), (0, 1), (0, 1, 2), (4,)])
def test_products_are_exact_at_zeros_to_second_order(zeros):
    x = numbers(8)
    x[list(zeros)] = 0
    ids = [0, 0, 0, 0, 1, 1, 1, 3]
    check_gradients(lambda a: tf.math.segment_prod(a, ids), x)
    check_gradients(lambda a: tf.math.unsorted_segment_prod(a, [2, -1, 2, 0, 0, 2, 2, 0], 4), x)


def test_dtypes():
    assert tf.math.segment_mean([3, 2], [0, 0]).numpy().tolist() == [2]
    assert tf.math.segment_mean(tf.constant([-3, -2], tf.int8), [0, 0]).numpy().tolist() == [-2]
    for unsigned in (tf.uint8, tf.uint16, tf.uint32, tf.uint64):
        mean = tf.math.segment_mean(tf.constant([1, 2, 6, 200, 203], unsigned), [0, 0, 1, 3, 3])
        assert (mean.numpy().tolist(), mean.dtype) == ([1, 6, 0, 73 if unsigned == tf.uint8 else 201], unsigned)
    assert tf.math.segment_max([1, 2], [0, 2]).numpy().tolist() == [1, 0, 2]
    assert tf.math.unsorted_segment_min([1, 2], [0, 2], 4).numpy().tolist() == [1, 2**31 - 1, 2, 2**31 - 1]
    assert tf.math.unsorted_segment_max([1.0, 2.0], [0, 2], 3).numpy().tolist() == [1, LOWEST, 2]
    assert tf.math.unsorted_segment_mean([1, 2, 4], [1, 0, 0], 2).dtype == tf.float64
    for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64):
        x = tf.constant([1.0, 3.0, 2.0], dtype)
        for name in REDUCTIONS:
            assert getattr(tf.math, f"segment_{name}")(x, tf.constant([0, 0, 1], tf.int64)).dtype == dtype
            assert getattr(tf.math, f"unsorted_segment_{name}")(x, [1, 1, 0], 2).dtype == dtype
    got = tf.math.unsorted_segment_sum(tf.constant([1j, 2 + 0j]), [0, 0], tf.constant(2, tf.int64))
    assert got.numpy().tolist() == [2 + 1j, 0]


def test_empty():
    none, ids = tf.zeros([0, 2]), tf.zeros([0], tf.int32)
    for name in REDUCTIONS:
        assert getattr(tf.math, f"segment_{name}")(none, ids).shape == (0, 2)
        assert getattr(tf.math, f"unsorted_segment_{name}")(none, ids, 3).shape == (3, 2)
    with tf.GradientTape() as tape:
        tape.watch(none)
        y = tf.math.unsorted_segment_max(none, ids, 3)
    assert tape.gradient(y, none).shape == (0, 2)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: tf.math.segment_sum([1.0, 2.0, 3.0], [1, 0, 2]), "not increasing"),
        (lambda: tf.math.segment_sum([1.0, 2.0], [-1, 0]), "Segment id -1 out of range"),
        (lambda: tf.math.segment_sum([1.0, 2.0], [0]), "same size as dimension 0"),
        (lambda: tf.math.segment_sum([[1.0]], [[0]]), "should be a vector"),
        (lambda: tf.math.segment_sum(1.0, [0]), "at least rank 1"),
        (lambda: tf.math.segment_sum([1.0], [0.0]), "not in the list of allowed values"),
        (lambda: tf.math.segment_max([1j], [0]), "not in the list of allowed values"),
        (lambda: tf.math.unsorted_segment_sum([1.0, 2.0], [0, 5], 3), r"segment_ids\[1\] = 5 is out of range \[0, 3\)"),
        (lambda: tf.math.unsorted_segment_sum([[1.0]], [0, 1], 3), "does not start with"),
        (lambda: tf.math.unsorted_segment_sum([1.0], [0], -1), "must not be negative"),
        (lambda: tf.math.unsorted_segment_sum([1.0], [0], [2]), "should be a scalar"),
        (lambda: tf.math.unsorted_segment_sqrt_n([1], [0], 2), "not in the list of allowed values"),
        (lambda: tf.math.cumulative_logsumexp([1, 2]), "not in the list of allowed values"),
        (lambda: tf.math.cumulative_logsumexp([1.0], axis=2), "scan axis"),
    ],
)
def test_refusals(call, says):
    with pytest.raises(Invalid, match=says):
        call()


# -- scans -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_cumulative_logsumexp(exclusive, reverse):
    x = numbers(3, 5)
    for axis in (0, 1, -1):
        sums = tf.cumsum(np.exp(x), axis, exclusive, reverse).numpy()
        with np.errstate(divide="ignore"):
            expected = np.log(sums)
        got = tf.math.cumulative_logsumexp(x, axis, exclusive, reverse)
        np.testing.assert_allclose(got.numpy(), expected)
    check_gradients(lambda a: tf.exp(tf.math.cumulative_logsumexp(a, 1, exclusive, reverse)), x)


def test_cumulative_logsumexp_is_stable():
    x = tf.Variable([1000.0, 0.0, -1000.0, 1000.0])
    with tf.GradientTape() as tape:
        y = tf.math.cumulative_logsumexp(x)
    np.testing.assert_allclose(y.numpy(), [1000, 1000, 1000, 1000 + np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [3.5, 0, 0, 0.5], rtol=1e-4)
    x = tf.Variable([-np.inf, 2.0, 3.0])
    with tf.GradientTape() as tape:
        y = tf.math.cumulative_logsumexp(x)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), [0, 1.268941, 0.731059], rtol=1e-5)
    assert tf.math.cumulative_logsumexp(tf.zeros([0])).shape == (0,)
    assert tf.math.cumulative_logsumexp(tf.constant([1.0, 2.0], tf.bfloat16)).dtype == tf.bfloat16


def test_cumprod_is_tensorflows():
    x = tf.Variable([2.0, 3.0, 4.0])
    zero = tf.Variable([0.0, 3.0, 4.0])
    with tf.GradientTape(persistent=True) as tape:
        y, z = tf.math.cumprod(x), tf.math.cumprod(zero)
    assert tape.gradient(y, x).numpy().tolist() == [16, 10, 6]
    assert tape.gradient(z, zero).numpy().tolist() == [0, 0, 0]
    for flags in ((False, False), (True, False), (False, True), (True, True)):
        check_gradients(lambda a, flags=flags: tf.math.cumprod(a, 1, *flags), numbers(2, 4))


@pytest.mark.parametrize(
    ("flags", "first", "second"),
    [
        ({}, [1.5 - 1j, 1 + 2j, 0, 0], [0.2 - 1.2j, 2.6 + 2.4j, 0, 0]),
        ({"exclusive": True}, [1.5 - 1j, 1 + 2j, 0, 0], [0.2 - 1.2j, 2.6 + 2.4j, 0, 0]),
        ({"reverse": True}, [0, 0, 0, 1], [0, 0, 0, 0]),
    ],
)
def test_cumprod_of_complex_numbers_is_tensorflows(flags, first, second):
    """Recorded from TensorFlow 2.21, which conjugates nothing here."""
    x = tf.constant([1 + 2j, 0.5 - 1j, 0, 2j], tf.complex64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.math.cumprod(x, **flags)
        slope = inner.gradient(y, x)
    np.testing.assert_allclose(slope, first, atol=1e-6)
    np.testing.assert_allclose(outer.gradient(slope, x), second, atol=1e-6)


def test_reduce_prod_is_exact_at_zeros_to_second_order():
    check_gradients(lambda a: tf.reduce_prod(a), [0.0, 3.0, 0.0])
    check_gradients(lambda a: tf.reduce_prod(a, 1), [[0.0, 3.0, 2.0], [1.0, 2.0, 0.5]])


def test_accumulate_n():
    x = numbers(2, 3)
    np.testing.assert_allclose(tf.math.accumulate_n([x, x, x]).numpy(), 3 * x)
    check_gradients(lambda a, b: tf.math.accumulate_n([a, b, a]) ** 2, x, x + 1)
    for bad in ([], [tf.ones([2]), tf.ones([3])], [tf.ones([2]), tf.ones([2], tf.int32)], tf.ones([2])):
        with pytest.raises(ValueError, match=r"same dtype and shape|not compatible"):
            tf.math.accumulate_n(bad)


@pytest.mark.parametrize("shape", [(500,), (500, 3)])
@pytest.mark.parametrize("order", ["sorted", "random", "with gaps"])
def test_runs_of_equal_ids_are_reduced_as_single_rows_are(shape, order):
    rng = np.random.default_rng(0)
    ids = np.sort(rng.integers(0, 40, 500)) * (2 if order == "with gaps" else 1)
    ids = rng.permutation(ids) if order == "random" else ids
    x = rng.integers(-9, 9, shape).astype(np.float32)
    total, largest = np.zeros((80, *shape[1:]), np.float32), np.full((80, *shape[1:]), np.finfo(np.float32).min)
    np.add.at(total, ids, x)
    np.maximum.at(largest, ids, x)
    np.testing.assert_array_equal(tf.math.unsorted_segment_sum(x, ids, 80), total)
    np.testing.assert_array_equal(tf.math.unsorted_segment_max(x, ids, 80), largest)
