"""The XLA engine under `jax.jit`: every row of the op table gives the NumPy engine's values when it is traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
from op_table import ROWS, Row, Sample

import gradtape as tf
import gradtape._src.arrays.xla  # tracers get their namespace, and JAX its 64-bit types
from gradtape._src.conversion import wrap

NOT_COMPILED: dict[str, str] = {
    "unique": "the number of distinct values is the shape of the result",
    "unique_with_counts": "the number of distinct values is the shape of the result",
    "check_numerics": "raises for some values: in a tf.function a call back to Python does (test_compiled.py)",
    "numpy_function": "the user's Python code: in a tf.function a call back does (test_staged_control_flow.py)",
}
"""Primitive -> why it cannot be part of a compiled program."""


@pytest.fixture(autouse=True, scope="module")
def _compile_fast():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


COMPILED = sorted(name for name in ROWS if name not in NOT_COMPILED)


def _values(row: Row, sample: Sample, arrays: Any) -> list[Any]:
    """The arrays that a row's function gives for arrays of some engine."""
    out = row.call(*(wrap(a) for a in arrays), **sample.attrs)
    return [tf.convert_to_tensor(part).array for part in tf.nest.flatten(out)]


def _compiled(row: Row, samples: tuple[Sample, ...]) -> list[list[Any]]:
    """The values of all samples, from one program: compiling takes most of the time."""

    def program(operands: list[tuple[Any, ...]]) -> list[list[Any]]:
        return [_values(row, sample, arrays) for sample, arrays in zip(samples, operands, strict=True)]

    results: list[list[Any]] = jax.jit(program)([sample.args for sample in samples])
    return results


@pytest.mark.parametrize("name", COMPILED)
def test_values(name: str):
    row = ROWS[name]
    samples = row.samples + row.complex_samples
    for i, (sample, compiled) in enumerate(zip(samples, _compiled(row, samples), strict=True)):
        for ours, theirs in zip(compiled, _values(row, sample, sample.args), strict=True):
            assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), f"sample {i}"
            if theirs.dtype.kind in "fc":
                np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, err_msg=f"sample {i}")
            else:
                np.testing.assert_array_equal(ours, theirs, err_msg=f"sample {i}")


@pytest.mark.parametrize("name", sorted(NOT_COMPILED))
def test_what_is_not_compiled_says_so(name: str):
    with pytest.raises(Exception, match=r"(?i)concrete|traced|compiled"):
        _compiled(ROWS[name], ROWS[name].samples)
