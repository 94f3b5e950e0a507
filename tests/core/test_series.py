"""Taylor mode gives the derivatives of nested tapes, for every primitive and for random programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from op_table import ROWS, Row, Sample
from random_programs import programs

import gradtape as tf

SAMPLES = [
    pytest.param(row, sample, id=f"{row.name}-{i}", marks=[pytest.mark.slow] if i > 1 else [])
    for row in ROWS.values()
    if row.differentiable and row.error is None
    for i, sample in enumerate(row.samples + row.complex_samples)
]


def along(function: Any, args: list[np.ndarray], order: int) -> tuple[list[Any], list[Any]]:
    """The derivatives of a weighted sum of the results along a direction: in Taylor mode, and by nested tapes."""
    r = np.random.default_rng(3)
    steps = [r.uniform(0.5, 1.5, a.shape).astype(a.dtype) if a.dtype.kind in "fc" else None for a in args]

    def at(t: Any) -> Any:
        moved = [tf.constant(a) if d is None else a + tf.cast(t, d.dtype) * d for a, d in zip(args, steps, strict=True)]
        total = tf.zeros([], tf.float64)
        for y in tf.nest.flatten(function(*moved)):
            if y.dtype.is_floating or y.dtype.is_complex:
                weights = np.linspace(0.5, 1.5, int(tf.size(y))).reshape(y.shape)
                total += tf.reduce_sum(tf.cast(tf.math.real(y), tf.float64) * weights)
                if y.dtype.is_complex:
                    total += 0.7 * tf.reduce_sum(tf.cast(tf.math.imag(y), tf.float64) * weights)
        return total

    t = tf.constant(0.0, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(t)
        y = at(t)
    found = tape.taylor(y, t, order, unconnected_gradients="zero")[1:]
    return [float(d) for d in found], [float(nested(at, t, n)) for n in range(1, order + 1)]


def nested(function: Any, t: Any, order: int) -> Any:
    if order == 0:
        return function(t)
    with tf.GradientTape() as tape:
        tape.watch(t)
        y = nested(function, t, order - 1)
    return tape.gradient(y, t, unconnected_gradients="zero")


@pytest.mark.parametrize(("row", "sample"), SAMPLES)
def test_op_table(row: Row, sample: Sample):
    function = row.function or row.op.call
    found, expected = along(lambda *xs: function(*xs, **sample.attrs), list(sample.args), 3)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.max(np.abs(expected))))


def of_all_operands(row: Row, sample: Sample, dtype: str) -> list[np.ndarray]:
    """The first and second derivatives of the floating results, along ones, of a call in some precision."""
    args = [tf.constant(a.astype(dtype) if a.dtype.kind == "f" else a) for a in sample.args]
    sources = [a for i, a in enumerate(args) if a.dtype.is_floating and i not in row.constants]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        found = tf.nest.flatten(row.call(*args, **sample.attrs))
        outputs = [y for y in found if y.dtype.is_floating]
    derivatives = tape.taylor(outputs, sources, 2, unconnected_gradients="zero")
    return [np.asarray(d, "float64") for each in derivatives for d in each]


LOW_PRECISION = [
    pytest.param(row, dtype, id=f"{row.name}-{dtype}")
    for row in ROWS.values()
    for dtype in ("float32", "float16")
    if row.differentiable and row.error is None and dtype in row.low_precision
    if any(a.dtype.kind == "f" for a in row.samples[0].args)
]


@pytest.mark.parametrize(("row", "dtype"), LOW_PRECISION)
def test_op_table_in_low_precision(row: Row, dtype: str):
    """Kernels of float32 have fast paths, which power series must not take."""
    sample = row.samples[0]
    tolerance = {"float32": 2e-3, "float16": 0.1}[dtype]
    pairs = zip(of_all_operands(row, sample, dtype), of_all_operands(row, sample, "float64"), strict=True)
    for found, expected in pairs:
        scale = max(1.0, float(np.max(np.abs(expected), initial=0)))
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * scale)


ORDER = 10
ELEMENTWISE = [
    pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.name in ("igamma", "igammac") else [])
    for row in ROWS.values()
    if row.op.elementwise and row.differentiable and row.error is None and not row.name.endswith("_sample")
]
"""Without random numbers, which are no smooth function of their parameters."""


@pytest.mark.parametrize("row", ELEMENTWISE)
def test_high_orders_of_elementwise_ops(row: Row):
    """The polynomial gives the function at a point nearby, as far as its last terms are small."""
    sample = next(s for s in row.samples if all(a.size for a in s.args))
    function = row.function or row.op.call
    moving = [a.dtype.kind == "f" and i not in row.constants for i, a in enumerate(sample.args)]
    r = np.random.default_rng(3)
    steps = [r.uniform(0.01, 0.03, a.shape) if moves else None for a, moves in zip(sample.args, moving, strict=True)]

    def at(t: Any) -> Any:
        moved = [tf.constant(a) if d is None else a + t * d for a, d in zip(sample.args, steps, strict=True)]
        return function(*moved, **sample.attrs)

    t = tf.constant(0.0, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(t)
        y = at(t)
    derivatives = [np.asarray(d) for d in tape.taylor(y, t, ORDER, unconnected_gradients="zero")]
    terms = [d / math.factorial(n) for n, d in enumerate(derivatives)]
    expected = np.asarray(at(tf.constant(1.0, tf.float64)))
    tail = 10 * (np.abs(terms[-1]) + np.abs(terms[-2]))
    assert np.all(np.abs(sum(terms) - expected) <= tail + 1e-12 * np.maximum(1.0, np.abs(expected)))
    assert np.all(tail <= 1e-6 * np.maximum(1.0, np.abs(expected))), "too long a step to show anything"


@settings(deadline=None, max_examples=25)
@given(example=programs())
def test_random_programs(example):
    function, args = example
    found, expected = along(function, [np.asarray(a, "float64") for a in args], 3)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
