"""Everything inside `tf.function`: compiled code gives the values and the derivatives of eager code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
from op_table import ROWS, Row, Sample

import gradtape as tf


@pytest.fixture(autouse=True, scope="module")
def _compile_fast():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def assert_same(compiled: Any, eager: Any, rtol: float = 1e-9, atol: float = 1e-10) -> None:
    """Equal structures, dtypes, shapes and, but for the last digits, numbers."""
    tf.nest.assert_same_structure(compiled, eager, expand_composites=True)
    ours, theirs = (tf.nest.flatten(value, expand_composites=True) for value in (compiled, eager))
    for a, b in zip(ours, theirs, strict=True):
        if a is None or b is None:
            assert a is b
            continue
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        a, b = a.numpy(), b.numpy()
        if b.dtype.kind in "fc":
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(a, b)


# -- the op table ----------------------------------------------------------------------------------------------------
NOT_COMPILED: dict[str, str] = {
    "unique": "the number of distinct values is the shape of the result",
    "unique_with_counts": "the number of distinct values is the shape of the result",
}
"""Primitive -> why it cannot be part of a compiled function."""


def weighted(tensors: list[Any]) -> Any:
    """A number that every element of every tensor has a weight of its own in."""
    total = tf.zeros((), tf.float64)
    for k, y in enumerate(tensors):
        if y is None or not (y.dtype.is_floating or y.dtype.is_complex):
            continue
        weights = np.cos(np.arange(y.shape.num_elements()) + k).reshape(y.shape.as_list())
        total += tf.reduce_sum(tf.cast(tf.math.real(y), tf.float64) * weights)
        if y.dtype.is_complex:
            total += tf.reduce_sum(tf.cast(tf.math.imag(y), tf.float64) * (weights + 0.5))
    return total


def derivatives(row: Row, samples: list[Sample], wrapped: Any) -> Any:
    """Values of all samples; first derivatives of one sample by tapes inside and outside; the second by both."""
    first = next((i for i, s in enumerate(samples) if s.args and s.args[0].size), 0)
    differentiable = row.differentiable and row.error is None

    @wrapped
    def function(operands: list[Any]) -> Any:
        values = [
            tf.nest.flatten(row.call(*xs, **sample.attrs))
            for i, (sample, xs) in enumerate(zip(samples, operands, strict=True))
            if i != first
        ]
        with tf.GradientTape() as inside:
            xs = operands[first]
            watched = floating(row, xs) if differentiable else []
            inside.watch(watched)
            ys = tf.nest.flatten(row.call(*xs, **samples[first].attrs))
            total = weighted(ys)
        return values, ys, inside.gradient(total, watched) if watched else []

    operands = [[tf.constant(a) for a in sample.args] for sample in samples]
    watched = floating(row, operands[first]) if differentiable else []
    with tf.GradientTape(persistent=True) as outside:
        outside.watch(watched)
        values, ys, gradients = function(operands)
        total, second = weighted(ys), weighted(gradients)
    if not watched:
        return values, ys
    results = [values, ys, gradients, outside.gradient(total, watched)]
    if row.order >= 2:
        results.append(outside.gradient(second, watched, unconnected_gradients="zero"))
    return results


def floating(row: Row, tensors: list[Any]) -> list[Any]:
    return [
        t for i, t in enumerate(tensors) if i not in row.constants and (t.dtype.is_floating or t.dtype.is_complex)
    ]


@pytest.mark.parametrize("name", sorted(set(ROWS) - set(NOT_COMPILED)))
def test_primitive(name: str):
    row = ROWS[name]
    for samples in (row.samples, row.complex_samples):
        if samples:
            samples = list(samples)
            assert_same(derivatives(row, samples, tf.function(autograph=False)), derivatives(row, samples, lambda f: f))
