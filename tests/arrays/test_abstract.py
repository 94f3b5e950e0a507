"""Abstract evaluation: what a rule, or a kernel that runs on zeros, says of the results is what they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from op_table import ROWS, Sample

import gradtape as tf
from gradtape._src.arrays import abstract, numpy_namespace
from gradtape._src.arrays.symbolic import _SHAPED_BY_VALUES

SAMPLES = [
    (name, sample)
    for name, row in ROWS.items()
    for sample in (*row.samples, *row.complex_samples)
    if row.function is None and hasattr(numpy_namespace, name) and name not in _SHAPED_BY_VALUES
]


def spec(array: Any) -> Any:
    return SimpleNamespace(shape=array.shape, dtype=array.dtype) if hasattr(array, "shape") else array


def described(result: Any) -> list[tuple[tuple[int, ...], Any]]:
    return [(x.shape, x.dtype) for x in (result if type(result) in (tuple, list) else [result])]


@pytest.mark.parametrize(("name", "sample"), SAMPLES, ids=lambda value: value if isinstance(value, str) else "")
def test_shapes_and_dtypes_are_those_of_the_kernel(name: str, sample: Sample) -> None:
    specs = tuple([a if a is None or a.dtype.kind in "iub" else spec(a) for a in sample.args])
    several, found = abstract._evaluated(name, specs, sample.attrs)
    with np.errstate(all="ignore"):
        result = getattr(numpy_namespace, name)(*sample.args, **sample.attrs)
    assert list(found) == described(result)
    assert several == (type(result) in (tuple, list))


@pytest.mark.parametrize(("name", "sample"), SAMPLES[::4], ids=lambda value: value if isinstance(value, str) else "")
def test_jax_says_the_same(name: str, sample: Sample) -> None:
    pytest.importorskip("jax")
    specs = tuple([a if a is None or a.dtype.kind in "iub" else spec(a) for a in sample.args])
    assert abstract._evaluated(name, specs, sample.attrs) == abstract._evaluated_by_jax(name, specs, sample.attrs)


def test_arguments_that_do_not_fit_raise_the_error_of_the_kernel() -> None:
    with pytest.raises(ValueError, match=r"[Mm]atrix size-incompatible|Dimensions must be equal"):
        tf.function(lambda x, y: x @ y)(tf.ones([2, 3]), tf.ones([2, 3]))
    with pytest.raises(ValueError, match=r"[Ii]ncompatible shapes|Dimensions must be equal"):
        tf.function(lambda x, y: x + y)(tf.ones([2, 3]), tf.ones([2, 4]))


def test_results_whose_shapes_depend_on_values_are_not_traced() -> None:
    f = tf.function(lambda x: tf.unique(x)[0])
    assert f(tf.constant([1.0, 2.0, 1.0])).numpy().tolist() == [1.0, 2.0]
    assert f(tf.constant([3.0, 3.0, 3.0])).numpy().tolist() == [3.0]
    with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="depends on values"):
        tf.function(lambda x: tf.unique(x)[0], jit_compile=True)(tf.constant([1.0, 2.0, 1.0]))
