"""Sparsity patterns contain every derivative that is not zero, for each primitive, and nothing else for most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from op_table import ROWS, Row, Sample
from random_programs import programs

import gradtape as tf
from gradtape._src.core.index_sets import IndexSets
from gradtape._src.core.primitive import registry
from gradtape._src.core.structure import Propagation, dense

SAMPLES = [
    pytest.param(row, sample, id=f"{row.name}-{i}")
    for row in ROWS.values()
    if row.differentiable and row.error is None
    for i, sample in enumerate(row.samples + row.complex_samples)
]

# Whose derivative is zero at places that the structure does not tell: it depends on values (an order, a maximum, a
# sign, equal operands), on a triangle of a factorisation, or on where a window ends.
LARGER = {
    "attention", "attention_gradient", "cholesky", "complex", "conv", "conv_filter_grad", "ctc", "eigh",
    "eigvalsh", "gate", "max", "max_and_position", "max_pick", "max_pool", "max_unpool", "maximum", "min",
    "minimum", "mod", "nextafter", "projected_cross_entropy_gradient",
    "qr", "relu", "relu6", "rfft", "rgb_to_hsv", "scatter_max", "scatter_min", "segment_max",
    "segment_min", "sign", "slogdet", "squared_difference", "top_k", "triangular_solve", "tridiagonal_solve",
    "variance", "weighted_scan",
}  # fmt: skip


def patterns(function: Any, args: list[np.ndarray]) -> list[tuple[Any, Any]]:
    """For each output: its global and its local pattern, each with where the Jacobian is not zero."""
    tensors = [tf.constant(a) for a in args]
    sources = [t for t in tensors if t.dtype.is_floating or t.dtype.is_complex]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        outputs = [y for y in tf.nest.flatten(function(*tensors)) if y.dtype.is_floating or y.dtype.is_complex]
    expected = {}
    for y in outputs:
        parts = [
            np.reshape(tape.jacobian(y, s, unconnected_gradients="zero"), (int(tf.size(y)), int(tf.size(s))))
            for s in sources
        ]
        expected[y.uid] = np.concatenate(parts, 1) != 0
    return [
        (pattern, expected[y.uid])
        for local in (False, True)
        for y, pattern in zip(outputs, by_structure(tape._recording, outputs, sources, local), strict=True)
    ]


def by_structure(recording: Any, outputs: list[Any], sources: list[Any], local: bool) -> list[np.ndarray]:
    sizes = [int(tf.size(s)) for s in sources]
    sets = IndexSets(max(sum(sizes), 1))
    ids = {s.uid: sets.units(sum(sizes[:i]), tuple(s.shape)) for i, s in enumerate(sources)}
    propagation = Propagation(sets, recording.tracked, local)
    propagation.run(recording.records, ids)
    found = []
    for y in outputs:
        items, owners = sets.members(np.asarray(propagation.ids.get(y.uid, np.zeros(tuple(y.shape), np.int64))))
        pattern = np.zeros((int(tf.size(y)), sum(sizes)), bool)
        pattern[owners, items] = True
        found.append(pattern)
    return found


@pytest.mark.parametrize(("row", "sample"), SAMPLES)
def test_op_table(row: Row, sample: Sample):
    function = row.function or row.op.call
    for pattern, nonzero in patterns(lambda *xs: function(*xs, **sample.attrs), list(sample.args)):
        assert not (nonzero & ~pattern).any(), "a derivative outside of the pattern"
        if row.name not in LARGER and row.op.structure is not dense:
            assert not (pattern & ~nonzero).any(), "the pattern is larger than need be"


@settings(deadline=None, max_examples=25)
@given(example=programs())
def test_random_programs(example):
    function, args = example
    for pattern, nonzero in patterns(function, [np.asarray(a, "float64") for a in args]):
        assert not (nonzero & ~pattern).any()


def test_every_primitive_declares_its_structure():
    """Or is elementwise, or has no derivative."""
    missing = [
        op.name
        for op in registry.values()
        if op.differentiable and op.structure is None and not (op.elementwise or op.category == "elementwise")
    ]
    assert set(missing) <= {"bitcast", "unique", "unique_with_counts", "dense_bincount"}, "their rules raise"
