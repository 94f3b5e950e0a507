"""Ragged ops on values that no tape can see copy whole rows: the same results as with a lookup per element."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.ops.ragged.row_copies import copied_rows, is_plain

RAGGED_OPS = {
    "concat": lambda r: tf.concat([r, r * 2, r], axis=1),
    "stack": lambda r: tf.stack([r, r * 2], axis=1),
    "gather": lambda r: tf.gather(r, np.arange(int(r.nrows()))[::-1].repeat(2)),
    "tile": lambda r: tf.tile(r, [2, 3] + [1] * (len(r.shape) - 2)),
    "tile 0": lambda r: tf.tile(r, [1, 0] + [1] * (len(r.shape) - 2)),
    "reverse": lambda r: tf.reverse(r, [1]),
    "reverse rows": lambda r: tf.reverse(r, [0]),
    "slice": lambda r: r[:, 1:3],
    "slice from the end": lambda r: r[:, -2:],
    "slice to the end": lambda r: r[:, :-1],
    "slice with a step": lambda r: r[:, ::2],
    "rows": lambda r: r[::-2],
    "sum": lambda r: tf.reduce_sum(r, axis=1),
    "sum, kept": lambda r: tf.reduce_sum(r, axis=-1, keepdims=True),
    "prod": lambda r: tf.reduce_prod(r, axis=1),
    "max": lambda r: tf.reduce_max(r, axis=1),
    "min": lambda r: tf.reduce_min(r, axis=1),
    "mean": lambda r: tf.reduce_mean(r, axis=1),
    "softmax": lambda r: tf.nn.softmax(r),
}
LENGTHS = {"some empty": [3, 0, 9, 1, 0], "full": [2, 5, 1], "one long": [1, 1, 1, 40], "one row": [4], "none": []}


def copied_by_slices(source, starts, lengths):
    parts = [source[a : a + n] for a, n in zip(starts, lengths, strict=True)]
    return np.concatenate([source[:0], *parts])


@pytest.mark.parametrize("dtype", ["float32", "int8", "bool", "complex128"])
@pytest.mark.parametrize("inner", [(), (2,), (0,), (3, 1)])
def test_rows_are_copied_as_slices_are(dtype, inner):
    rng = np.random.default_rng(0)
    for case in range(60):
        source = (rng.normal(size=(rng.integers(1, 60), *inner)) * 50).astype(dtype)
        if case % 3 == 0:
            source = source[::-1]
        starts = rng.integers(0, len(source) + 1, rng.integers(0, 12))
        room = len(source) - starts
        lengths = np.where(rng.random(len(starts)) < 0.3, np.minimum(room, 2), rng.integers(0, room + 1))
        found = copied_rows(source, starts, lengths)
        assert found.dtype == source.dtype
        np.testing.assert_array_equal(found, copied_by_slices(source, starts, lengths))


def test_copies_of_many_rows_are_made_in_blocks():
    rng = np.random.default_rng(1)
    source = rng.normal(size=5000)
    starts = rng.integers(0, 5000, 3000)
    for lengths in (rng.integers(0, 200, 3000), rng.integers(0, 1000, 3000) // 990 * 300 + 3):  # many long rows, some
        sizes = np.minimum(lengths, 5000 - starts)
        np.testing.assert_array_equal(copied_rows(source, starts, sizes), copied_by_slices(source, starts, sizes))


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("name", RAGGED_OPS)
@pytest.mark.parametrize("inner", [(), (2,)])
def test_results_are_those_within_a_tape(name, lengths, inner):
    values = np.random.default_rng(0).normal(size=(sum(lengths), *inner)).astype(np.float32)
    rows = tf.RaggedTensor.from_row_lengths(tf.constant(values), np.array(lengths, np.int64))
    op = RAGGED_OPS[name]
    assert is_plain(rows.flat_values)
    plain = op(rows)
    with tf.GradientTape() as tape:
        tape.watch(rows.flat_values)
        assert not is_plain(rows.flat_values)
        recorded = op(rows)
    same = np.testing.assert_array_equal if name not in ("sum", "sum, kept", "mean", "prod", "softmax") else close
    if isinstance(recorded, tf.RaggedTensor):
        assert plain.shape.as_list() == recorded.shape.as_list()
        for mine, other in zip(plain.nested_row_splits, recorded.nested_row_splits, strict=True):
            np.testing.assert_array_equal(mine.numpy(), other.numpy())
        plain, recorded = plain.flat_values, recorded.flat_values
    assert plain.dtype == recorded.dtype
    same(plain.numpy(), recorded.numpy())


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["int32", "int64", "uint8", "float16", "float64"])
def test_reductions_keep_the_dtype(dtype):
    rows = tf.ragged.constant([[1, 2], [3], [4, 5, 6]], dtype)
    for reduce, expected in ((tf.reduce_sum, [3, 3, 15]), (tf.reduce_prod, [2, 3, 120]), (tf.reduce_max, [2, 3, 6])):
        found = reduce(rows, axis=1)
        assert found.dtype == dtype
        assert found.numpy().tolist() == expected


def test_kernel_wrappers_see_the_ops():
    rows = tf.ragged.constant([[1.0, float("inf")], [2.0]])
    tf.debugging.enable_check_numerics()
    try:
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.nn.softmax(rows)
    finally:
        tf.debugging.disable_check_numerics()


def test_uniform_rows_have_splits_when_they_are_read():
    rows = tf.expand_dims(tf.ragged.constant([[1], [2, 3]]), 1)
    assert "splits" not in rows._partition.__dict__
    assert rows.shape.as_list() == [2, 1, None]
    assert rows.row_splits.numpy().tolist() == [0, 1, 2]
    assert rows.to_list() == [[[1]], [[2, 3]]]
