"""The XLA engine against the NumPy engine: every row of the op table gives the same values and derivatives on both.

What differs for a reason is data: the tables below.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
from op_table import ROWS, Row, Sample, batch_row

import gradtape as tf
from gradtape._src.arrays import batched, lazy as lazy_arrays, numpy_namespace
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.xla import xla_namespace
from gradtape._src.conversion import wrap
from gradtape._src.tensor import Tensor
from gradtape.dtypes import as_dtype


@pytest.fixture(autouse=True, scope="module")
def _compile_fast():
    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


NO_KERNEL: dict[str, str] = {
    "custom_gradient": "a record of what the user's function did, op by op",
    "numpy_function": "the user's Python code",
}
"""Primitive -> why no engine has a kernel for it."""

LOOKS_AT_VALUES: dict[str, str] = {
    "unique": "how many numbers occur is not known before",
    "unique_with_counts": "how many numbers occur is not known before",
    "check_numerics": "raises an error for some values; a compiled program cannot",
}
"""Primitive -> why it cannot be traced: its shape, or whether it fails, depends on values."""

LEAVES = {"transfer"}
"""Primitives whose purpose it is to take an array to another engine."""

COSTLY = {
    "betainc", "ctc", "expm", "igamma", "igamma_a", "igammac", "logm", "polygamma", "sqrtm", "tridiagonal_solve",
    "zeta",
}  # fmt: skip
"""Primitives that take XLA long to compile: half of the time of all. Their values are in test_engines_compiled.py."""


def _marks(row: Row) -> tuple[pytest.MarkDecorator, ...]:
    return (pytest.mark.slow,) if row.name in COSTLY else ()


CASES = [
    pytest.param(row, samples[0], id=f"{row.name}-{kind}", marks=_marks(row))
    for row in ROWS.values()
    for kind, samples in (("real", row.samples), ("complex", row.complex_samples))
    if samples and row.name not in NO_KERNEL
]
"""One sample of each kind: the values of all of them are in test_engines_compiled.py."""

FIRST = [
    pytest.param(row, row.samples[0], id=row.name, marks=_marks(row))
    for row in ROWS.values()
    if row.name not in NO_KERNEL
]


def _on_xla(array: np.ndarray) -> Any:
    return array if array.dtype.kind in "OSU" else jnp.asarray(array)


def _flat(value: Any) -> list[Any]:
    return [part for part in tf.nest.flatten(value) if part is not None]


def _is_followed(t: Tensor) -> bool:
    return t.dtype.is_floating or t.dtype.is_complex


def _derivatives(row: Row, sample: Sample, place: Any) -> list[np.ndarray | None]:
    """The values of a row and its gradient on one engine; second derivatives are in test_compiled.py."""
    xs = [wrap(place(a)) for a in sample.args]
    followed = [x for x in xs if _is_followed(x)]
    with tf.GradientTape() as tape:
        tape.watch(followed)
        y = row.call(*xs, **sample.attrs)
        weighted = [t * _weights(t) for t in _flat(y) if _is_followed(t)]
    found: list[Any] = []
    if row.differentiable and row.error is None and weighted and followed:
        found = [None if d is None else tf.convert_to_tensor(d) for d in tape.gradient(weighted, followed)]
    if row.name not in LEAVES and place is _on_xla and any(isinstance(x.array, jax.Array) for x in xs):
        # A kernel or a rule that quietly computes with NumPy would be none of this engine.
        for part in (*_flat(y), *[d for d in found if d is not None]):
            assert isinstance(part.array, jax.Array), f"{row.name} gave {type(part.array)}"
    return [None if d is None else np.asarray(tf.convert_to_tensor(d).array) for d in (*_flat(y), *found)]


def _weights(t: Tensor) -> np.ndarray:
    """Cotangents that are not all ones."""
    count = int(np.prod(t.shape.as_list()))
    return (0.5 + np.arange(count) / (count + 1)).reshape(t.shape.as_list()).astype(t.dtype.as_numpy_dtype)


def _same(ours: list[Any], theirs: list[Any], rtol: float = 2e-6, atol: float = 1e-9) -> None:
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert (a is None) == (b is None)
        if a is None:
            continue
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        if a.dtype.kind in "fcV":
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(a.astype(wide), b.astype(wide), rtol=rtol, atol=atol)
        else:
            np.testing.assert_array_equal(a, b)


# -- the table -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("row", "sample"), CASES)
def test_values_and_derivatives(row: Row, sample: Sample):
    _same(_derivatives(row, sample, _on_xla), _derivatives(row, sample, lambda a: a))


@pytest.mark.parametrize("name", sorted(ROWS))
def test_every_primitive_has_a_kernel(name: str):
    assert hasattr(xla_namespace, name) != (name in NO_KERNEL)


@pytest.mark.parametrize(("row", "sample"), FIRST)
def test_arrays_of_both_engines_mix(row: Row, sample: Sample):
    """In every position a NumPy array goes with JAX's, as the constants of a program do."""
    if row.function is not None or len(sample.args) < 2:
        pytest.skip("one operand")
    expected = [np.asarray(part.array) for part in _flat(row.call(*map(wrap, sample.args), **sample.attrs))]
    for here in range(len(sample.args)):
        xs = [wrap(_on_xla(a) if i == here else a) for i, a in enumerate(sample.args)]
        found = [part.array for part in _flat(row.call(*xs, **sample.attrs))]
        assert all(isinstance(a, jax.Array) for a in found)
        _same([np.asarray(a) for a in found], expected)


# -- batches ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("row", "sample"), FIRST)
def test_batch_rules(row: Row, sample: Sample):
    """A batch of all operands, and of the first alone."""
    if row.name in LOOKS_AT_VALUES or row.name in LEAVES or any(a.dtype.kind in "OSU" for a in sample.args):
        pytest.skip("has no batches on an engine")
    if row.function is not None or not sample.args:
        pytest.skip("no kernel of arrays alone")
    rows = [np.stack([batch_row(row, a, i).astype(a.dtype) for i in range(2)]) for a in sample.args]
    many = getattr(batched.batched_namespace, row.name)
    for flags in {(True,) * len(rows), (True, *[False] * (len(rows) - 1))}:
        found = []
        for place in (_on_xla, np.asarray):
            operands = [Batched(place(r), 1) if flag else place(r[0]) for r, flag in zip(rows, flags, strict=True)]
            result = many(*operands, **sample.attrs)
            parts = result if isinstance(result, tuple) else (result,)
            found.append([np.asarray(part.array if type(part) is Batched else part) for part in parts])
        _same(*found)


# -- tracing ---------------------------------------------------------------------------------------------------------
def _traced(row: Row, sample: Sample) -> Any:
    kernel = getattr(xla_namespace, row.name)
    return jax.jit(lambda *arrays: kernel(*arrays, **sample.attrs))(*sample.args)


@pytest.mark.parametrize("name", sorted(LOOKS_AT_VALUES))
def test_what_cannot_be_traced_says_so(name: str):
    with pytest.raises((ValueError, TypeError)) as caught:
        _traced(ROWS[name], ROWS[name].samples[0])
    if name.startswith("unique"):
        assert "depends on the values" in str(caught.value)
    if name == "check_numerics":
        assert "inside jax.jit" in str(caught.value)


# -- dtypes ----------------------------------------------------------------------------------------------------------
def _cast(array: np.ndarray, dtype: Any) -> np.ndarray:
    return array.astype(dtype) if array.dtype.kind == "f" else array


@pytest.mark.parametrize(("row", "sample"), FIRST)
def test_low_precision(row: Row, sample: Sample):
    """The dtypes of all results are NumPy's, and the values as near as the dtype allows."""
    if row.function is not None or {"dtype", "device"} & set(sample.attrs) or row.name in LOOKS_AT_VALUES:
        pytest.skip("not a kernel of one dtype")
    kernel = getattr(xla_namespace, row.name)
    given = {d: tuple(_cast(a, as_dtype(d).as_numpy_dtype) for a in sample.args) for d in row.low_precision}
    ours = jax.jit(lambda given: {d: _flat(kernel(*args, **sample.attrs)) for d, args in given.items()})(given)
    for dtype, args in given.items():
        theirs = row.call(*map(wrap, args), **sample.attrs)
        loose = {"float32": 1e-4, "float16": 2e-2, "bfloat16": 1e-1}[dtype]
        _same([np.asarray(a) for a in ours[dtype]], [t.array for t in _flat(theirs)], rtol=loose, atol=loose)


@pytest.mark.parametrize(
    ("row", "dtype"), [pytest.param(r, d, id=f"{r.name}-{d}") for r in ROWS.values() for d in r.integers]
)
def test_integers(row: Row, dtype: str):
    args = [(np.abs(a * 3) + 1).astype(dtype) if a.dtype.kind == "f" else a for a in row.samples[0].args]
    ours, theirs = (
        _flat(row.call(*[wrap(place(a)) for a in args], **row.samples[0].attrs)) for place in (_on_xla, lambda a: a)
    )
    _same([np.asarray(t.array) for t in ours], [np.asarray(t.array) for t in theirs])


CASTS = ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
         "uint64", "bool", "complex64", "complex128"]  # fmt: skip


@pytest.mark.parametrize("target", CASTS)
@pytest.mark.parametrize("source", ["float32", "float64", "bfloat16", "int32", "int64", "uint8", "bool", "complex64"])
def test_casts(source: str, target: str):
    """Towards zero, and what does not fit is the last number that does."""
    values = np.array([0.0, -0.7, 0.7, 1.5, -1.5, 2.5, 100.9, -100.9, 40000.0, -40000.0, 3e9, -3e9, 1e19, -1e19])
    if source.startswith(("float", "bfloat", "complex")):
        values = np.append(values, [np.nan, np.inf, -np.inf])
    with np.errstate(all="ignore"):
        given = numpy_namespace.astype(values, dtype=as_dtype(source).numpy_dtype)
        theirs = numpy_namespace.astype(given, dtype=as_dtype(target).numpy_dtype)
    ours = np.asarray(xla_namespace.astype(jnp.asarray(given), dtype=as_dtype(target).numpy_dtype))
    _same([ours], [theirs])


# -- indices ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "index",
    [
        (0,), (-1,), (slice(None),), (slice(1, 3),), (slice(None, None, 2),), (slice(None, None, -1),), (..., 0),
        (slice(3, 0, -2), ..., None), (None, 1, slice(0, 0)), (slice(5, 2),), (1, slice(None, None, 3), -2), (),
        (slice(-3, None), None, slice(None, -1, 2), 0), (slice(0, 100),), (..., slice(1, None), None),
    ],
    ids=str,
)  # fmt: skip
def test_slices(index: tuple[Any, ...]):
    x = np.arange(4 * 5 * 3, dtype=np.float32).reshape(4, 5, 3)
    part = x[index]
    _same([np.asarray(xla_namespace.getitem(jnp.asarray(x), index=index))], [part])
    back = np.asarray(xla_namespace.setitem(jnp.asarray(part), index=index, shape=x.shape))
    _same([back], [numpy_namespace.setitem(part, index=index, shape=x.shape)])


def test_labels_out_of_range_give_nan():
    loss, _ = xla_namespace.sparse_cross_entropy(jnp.ones((3, 2)), jnp.array([0, 2, -1]))
    assert np.isnan(loss).tolist() == [False, True, True]


# -- the sweep -------------------------------------------------------------------------------------------------------
def test_strong_zeros():
    for place in (_on_xla, lambda a: a):
        x = wrap(place(np.array([0.0, 4.0], np.float32)))
        w = wrap(place(np.array([[np.inf, 1.0], [2.0, 3.0]], np.float32)))
        with tf.GradientTape(persistent=True, strong_zeros=True) as tape:
            tape.watch([x, w])
            y = tf.where(x > 0.0, x**0.5, 0.0)
            z = tf.matmul(w, tf.where(x > 0.0, x, 0.0)[:, None])[1]
        assert tape.gradient(y, x).numpy().tolist() == [0.0, 0.25]
        assert tape.gradient(z, x).numpy().tolist() == [0.0, 3.0]


def test_sparse_cotangents_stay_sparse():
    x = wrap(jnp.arange(6.0).reshape(3, 2))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.gather(x, [0, 2, 0]) * 2.0
    d = tape.gradient(y, x)
    assert isinstance(d, tf.IndexedSlices)
    assert isinstance(d.values.array, jax.Array)
    assert tf.convert_to_tensor(d).numpy().tolist() == [[4.0, 4.0], [0.0, 0.0], [2.0, 2.0]]


def test_jacobians():
    for place in (_on_xla, lambda a: a):
        x = wrap(place(np.array([[1.0, 2.0], [3.0, 4.0]])))
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.tanh(x) * x
            loss = tf.reduce_sum(tf.exp(x[0]) * x[1])
        found = [
            tape.jacobian(y, x),
            tape.batch_jacobian(y, x),
            tape.hessian(loss, x),
            tape.jacobian(y, x, mode="forward"),
        ]
        if place is _on_xla:
            assert all(isinstance(t.array, jax.Array) for t in found)
            ours = [np.asarray(t.array) for t in found]
    _same(ours, [t.array for t in found])


# -- strings, which only the host has ----------------------------------------------------------------------------------
WORDS, TABLE = np.array(["a", "b", "c", "d"], object), np.array([["a", "b"], ["c", "d"]], object)
BESIDE_STRINGS = {
    "gather": lambda at: tf.gather(WORDS, at([2, 0])),
    "gather, axis": lambda at: tf.gather(TABLE, at([1]), axis=1),
    "gather, batch": lambda at: tf.gather(TABLE, at([[1], [0]]), batch_dims=1),
    "gather_nd": lambda at: tf.gather_nd(TABLE, at([[0, 1], [1, 0]])),
    "where": lambda at: tf.where(at([True, False, True, False]), WORDS, "x"),
    "where, of numbers": lambda at: tf.where(at([1, 2]) > 1, "a", "b"),
    "boolean_mask": lambda at: tf.boolean_mask(WORDS, at([True, False, True, False])),
    "index": lambda at: tf.constant(WORDS)[at(1)],
    "slice": lambda at: tf.constant(WORDS)[at(1) : at(3)],
    "tensor_scatter_nd_update": lambda at: tf.tensor_scatter_nd_update(WORDS, at([[1]]), ["z"]),
    "scatter_nd": lambda at: tf.scatter_nd(at([[1]]), tf.constant(["z"]), [3]),
    "dynamic_partition": lambda at: tf.dynamic_partition(WORDS, tf.cast(at([0, 1, 0, 1]), tf.int32), 2),
    "one_hot": lambda at: tf.one_hot(at([0, 2]), 3, on_value="y", off_value="n", dtype=tf.string),
    "repeat": lambda at: tf.repeat(WORDS, at([1, 2, 0, 1])),
    "reshape": lambda at: tf.reshape(WORDS, at([2, 2])),
    "unsorted_segment_join": lambda at: tf.strings.unsorted_segment_join(WORDS, at([0, 1, 0, 1]), 2),
    "sparse": lambda at: tf.sparse.to_dense(tf.SparseTensor(tf.cast(at([[0], [2]]), tf.int64), ["a", "b"], [3])),
    "lookup": lambda at: tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.cast(at([1, 2]), tf.int64), tf.constant(["u", "v"])), "w"
    )[tf.cast(at([2, 3]), tf.int64)],
}


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", BESIDE_STRINGS)
def test_ops_on_strings_move_other_inputs_to_the_host(name, lazy):
    def on_xla(values: Any) -> Tensor:
        array = jnp.asarray(values)
        return wrap(lazy_arrays.placed(array, jax.devices()[0]) if lazy else array)

    found, expected = (tf.nest.flatten(BESIDE_STRINGS[name](at)) for at in (on_xla, tf.constant))
    assert [np.asarray(t).tolist() for t in found] == [np.asarray(t).tolist() for t in expected]
