"""Abstract evaluation: what a rule, or a kernel that runs on zeros, says of the results is what they are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from op_table import ROWS, Sample

import gradtape as tf
from gradtape._src.arrays import abstract, numpy_namespace
from gradtape._src.arrays.dimensions import evaluated, variable

SAMPLES = [
    (name, sample)
    for name, row in ROWS.items()
    for sample in (*row.samples, *row.complex_samples)
    if row.function is None and hasattr(numpy_namespace, name) and name not in ("unique", "unique_with_counts")
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
    jax = pytest.importorskip("jax")
    from gradtape._src.arrays.xla import xla_namespace

    specs = [a if a is None or a.dtype.kind in "iub" else spec(a) for a in sample.args]
    places = [i for i, a in enumerate(specs) if hasattr(a, "shape")]

    def filled(*arrays: Any) -> Any:
        given = list(specs)
        for i, array in zip(places, arrays, strict=True):
            given[i] = array
        return getattr(xla_namespace, name)(*given, **sample.attrs)

    structs = [jax.ShapeDtypeStruct(specs[i].shape, specs[i].dtype) for i in places]
    assert abstract._evaluated(name, tuple(specs), sample.attrs) == abstract._specs_of(jax.eval_shape(filled, *structs))


@pytest.mark.parametrize(("name", "sample"), SAMPLES, ids=lambda value: value if isinstance(value, str) else "")
def test_unknown_sizes_give_the_shapes_of_every_size(name: str, sample: Sample) -> None:
    """Each size of an axis becomes a dimension, wherever it occurs: the shape is right for larger sizes too."""
    for n in {n for a in sample.args if a is not None for n in a.shape if n > 1}:
        unknown = [a if a is None else _with(a, n, variable("d0")) for a in sample.args]
        try:
            _, found = abstract._evaluated(name, tuple(unknown), sample.attrs)
        except Exception:
            continue  # the function is traced for each size
        for size in (n, n + 1, n + 7):
            specs = tuple([a if a is None else _with(a, n, size) for a in sample.args])
            try:
                _, expected = abstract._evaluated(name, specs, sample.attrs)
            except Exception:
                assert size != n
                continue
            assert [evaluated(shape, {"d0": size}) for shape, _ in found] == [shape for shape, _ in expected]


def _with(array: Any, n: int, size: Any) -> Any:
    return SimpleNamespace(shape=tuple([size if m == n else m for m in array.shape]), dtype=array.dtype)


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
