"""The backward pass that runs gives the reference's cotangents, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from op_table import ROWS, Row, Sample
from random_programs import programs

import gradtape as tf
from gradtape._src.core.fast.backward import backward_pass as fast_pass
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.vjp import backward_pass
from gradtape._src.core.vmap import jacobian

SAMPLES = [
    pytest.param(row, sample, id=f"{row.name}-{i}")
    for row in ROWS.values()
    if row.differentiable and row.error is None
    for i, sample in enumerate(row.samples + row.complex_samples)
]


def bits(g: Any) -> Any:
    """A cotangent as something that compares exactly."""
    if isinstance(g, SparseCotangent):
        return "rows", bits(g.values), bits(g.indices), g.shape
    array = np.asarray(getattr(g, "array", g))
    return array.dtype.name, array.shape, array.tobytes()


def both_passes(function: Any, args: list[Any], traced: bool) -> tuple[dict[int, Any], dict[int, Any]]:
    """The cotangents of all sources, by the pass that runs and by the reference."""
    tensors = [tf.constant(a) for a in args]
    with tf.GradientTape() as tape:
        for t in tensors:
            if t.dtype.is_floating or t.dtype.is_complex:
                tape.watch(t)
        outputs = [y for y in tf.nest.flatten(function(*tensors)) if y.dtype.is_floating or y.dtype.is_complex]
    recording = tape._recording
    seeds = {y.uid: y * 0 + tf.cast(1.5, y.dtype) for y in outputs if y.uid in recording.tracked}
    if not traced:
        seeds = {uid: g.array for uid, g in seeds.items()}
    options = {"kept": frozenset(list(seeds)[:1]), "traced": traced}
    fast = fast_pass(list(recording.records), recording.tracked, dict(seeds), release=False, **options)
    slow = backward_pass(recording.records, recording.tracked, dict(seeds), **options)
    return fast, slow


def assert_equal_bits(fast: dict[int, Any], slow: dict[int, Any]) -> None:
    assert {uid: bits(g) for uid, g in fast.items()} == {uid: bits(g) for uid, g in slow.items()}


@pytest.mark.parametrize("traced", [False, True], ids=["arrays", "recorded"])
@pytest.mark.parametrize(("row", "sample"), SAMPLES)
def test_op_table(row: Row, sample: Sample, traced: bool):
    function = row.function or row.op.call
    for dtype in ("float64", *row.low_precision):
        args = [
            a.astype(np.dtype(tf.as_dtype(dtype).as_numpy_dtype)) if a.dtype.kind == "f" else a for a in sample.args
        ]
        assert_equal_bits(*both_passes(lambda *xs: function(*xs, **sample.attrs), args, traced))


@settings(deadline=None, max_examples=40)
@given(example=programs())
@pytest.mark.parametrize("traced", [False, True], ids=["arrays", "recorded"])
def test_random_programs(traced, example):
    function, args = example
    for dtype in ("float32", "float16"):
        assert_equal_bits(*both_passes(function, [np.asarray(a, dtype) for a in args], traced))


@settings(deadline=None, max_examples=40)
@given(example=programs())
def test_jacobians_of_random_programs(example):
    """One backward pass over a batch of rows gives what the reference gives row by row."""
    function, args = example
    tensors = [tf.constant(np.asarray(a, "float64")) for a in args]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        y = function(*tensors)
    recording = tape._recording
    if y.uid not in recording.tracked:
        return
    expected = jacobian(list(recording.records), recording.tracked, y, [t.uid for t in tensors])
    found = tape.jacobian(y, tensors, unconnected_gradients="zero")
    for t, j in zip(tensors, found, strict=True):
        np.testing.assert_allclose(j, expected[t.uid], rtol=1e-12, atol=1e-13)


def test_sparse_cotangents():
    table, places = np.arange(12, dtype=np.float32).reshape(4, 3), tf.constant([1, 1, 3])

    def function(x: Any) -> Any:
        return tf.gather(x, places), tf.gather(x, places) * 2.0, x * 3.0

    assert_equal_bits(*both_passes(function, [table], False))


def test_several_uses_in_half_precision_are_rounded_once():
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=50).astype(np.float16) for _ in range(8)]
    fast, slow = both_passes(lambda x: [x * w for w in weights], [weights[0]], False)
    assert_equal_bits(fast, slow)
    terms = [np.float16(1.5) * w for w in reversed(weights)]
    once, often = sum(t.astype(np.float32) for t in terms).astype(np.float16), sum(terms)
    assert bits(once) in map(bits, slow.values())
    assert bits(often) != bits(once)
