"""Every primitive of the op table in a function where an axis has a size that depends on values."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from op_table import ROWS, Row, Sample

import gradtape as tf

EAGER = {
    "conv": "the size of a kernel decides how its gradient is computed",
    "conv_input_grad": "the size of a kernel decides how its gradient is computed",
    "ctc": "the gradient is a loop over times, which is unrolled",
    "custom_gradient": "a Jacobian calls a function of the user's once for each row",
    "numpy_function": "what it returns may have any number of axes",
    "svd": "the gradient of a square matrix is another one than that of a wide or a tall one",
    "svdvals": "the gradient of a square matrix is another one than that of a wide or a tall one",
    "unstack": "the number of results has to be known",
}
"""Primitives with samples that run eagerly, and why."""


def _cases() -> list[Any]:
    """A row, a sample, and a size: axes of this size are the ones whose size depends on values."""
    cases = []
    for name, row in ROWS.items():
        for number, sample in enumerate(row.samples[:2]):
            for size in sorted({a.shape[0] for a in sample.args if a.ndim}):
                cases.append(pytest.param(row, sample, size, id=f"{name}-{number}-{size}"))
    return cases


def _masked(row: Row, sample: Sample, size: int) -> Callable[..., Any]:
    """A function of a mask and the sample's operands: what the primitive returns for the elements in the mask."""
    cut = {i for i, a in enumerate(sample.args) if a.ndim and a.shape[0] == size}

    def run(mask: Any, *args: Any) -> list[Any]:
        given = [tf.boolean_mask(a, mask) if i in cut else a for i, a in enumerate(args)]
        return tf.nest.flatten(row.call(*given, **sample.attrs))

    return run


def _total(results: list[Any]) -> Any:
    floats = [tf.cast(y, tf.float64) for y in results if y.dtype.is_floating]
    return tf.add_n([tf.reduce_sum(tf.sin(y)) for y in floats]) if floats else tf.constant(0.0, tf.float64)


def _gradients(run: Callable[..., Any], mask: Any, args: list[Any], sources: list[Any]) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(sources)
        results = run(mask, *args)
        total = _total(results)
    return results, tape.gradient(total, sources, unconnected_gradients="zero")


def _second_gradients(run: Callable[..., Any], mask: Any, args: list[Any], sources: list[Any]) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(sources)
        _, slopes = _gradients(run, mask, args, sources)
        total = _total([tf.convert_to_tensor(g) for g in slopes])
    return slopes, tape.gradient(total, sources, unconnected_gradients="zero")


def _tangents(run: Callable[..., Any], mask: Any, args: list[Any], sources: list[Any]) -> Any:
    with tf.autodiff.ForwardAccumulator(sources, [tf.ones_like(x) * 0.3 for x in sources]) as accumulator:
        results = [y for y in run(mask, *args) if y.dtype.is_floating]
    return accumulator.jvp(results, unconnected_gradients="zero")


def _jacobians(run: Callable[..., Any], mask: Any, args: list[Any], sources: list[Any]) -> Any:
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        results = [y for y in run(mask, *args) if y.dtype.is_floating]
    return [tape.jacobian(y, sources, unconnected_gradients="zero") for y in results]


def _check(row: Row, sample: Sample, size: int, derivatives: Callable[..., Any]) -> None:
    """A function gives what eager code gives, and does not run eagerly."""
    run = _masked(row, sample, size)
    sources = [i for i, a in enumerate(sample.args) if a.dtype.kind == "f" and i not in row.constants]

    def compute(mask: Any, *args: Any) -> Any:
        if not sources or not row.differentiable:
            return run(mask, *args)
        return derivatives(run, mask, args, [args[i] for i in sources])

    operands = [tf.constant([True] * size), *map(tf.constant, sample.args)]
    function = tf.function(compute, jit_compile=False)
    try:
        expected = compute(*operands)
    except LookupError as error:  # an op without a gradient
        with pytest.raises(LookupError, match=re.escape(str(error))):
            function(*operands)
        return
    found = function(*operands)
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        if b.dtype != tf.string:
            np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-9)
    eager = [line for line in function.summary().splitlines() if " eagerly. " in line]
    assert not eager or row.name in EAGER, eager


@pytest.mark.parametrize(("row", "sample", "size"), _cases())
def test_values_and_gradients(row: Row, sample: Sample, size: int) -> None:
    _check(row, sample, size, _gradients)


@pytest.mark.slow
@pytest.mark.parametrize("derivatives", [_second_gradients, _tangents, _jacobians])
@pytest.mark.parametrize(("row", "sample", "size"), _cases())
def test_other_derivatives(row: Row, sample: Sample, size: int, derivatives: Callable[..., Any]) -> None:
    if row.order > 1 or derivatives is not _second_gradients:
        _check(row, sample, size, derivatives)


def test_only_what_runs_eagerly_is_listed() -> None:
    """A primitive that is traced in all its samples is not on the list."""
    for name in EAGER:
        row = ROWS[name]
        every = [case.values for case in _cases() if case.values[0] is row]
        assert any(_runs_eagerly(*case) for case in every), name


def _runs_eagerly(row: Row, sample: Sample, size: int) -> bool:
    run = _masked(row, sample, size)
    sources = [i for i, a in enumerate(sample.args) if a.dtype.kind == "f" and i not in row.constants]
    functions = [
        tf.function(lambda mask, *args, d=d: d(run, mask, args, [args[i] for i in sources]), jit_compile=False)
        for d in (_gradients, _second_gradients, _jacobians)
    ]
    for function in functions:
        function(tf.constant([True] * size), *map(tf.constant, sample.args))
    return any(" eagerly. " in function.summary() for function in functions)
