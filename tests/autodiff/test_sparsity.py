"""Sparse Jacobians and Hessians equal dense ones, in few passes, wherever a tape works."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from op_table import ROWS
from random_programs import programs

import gradtape as tf
from gradtape._src.arrays import numpy_namespace
from gradtape._src.autodiff import sparse_plans
from gradtape._src.autodiff.coloring import (
    Pattern,
    color_acyclic,
    color_both,
    color_columns,
    color_symmetric,
    readable,
    substitution,
)
from gradtape._src.core.index_sets import IndexSets

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.sparse_problems import PROBLEMS, gradtape_functions


def chain(x: Any) -> Any:
    return tf.concat([x[:1] * 3.0, x[2:] - 2.0 * x[1:-1] ** 2 * tf.sin(x[2:]) + x[:-2], x[-1:]], 0)


def point(n: int = 9) -> tf.Variable:
    return tf.Variable(np.linspace(0.1, 1.0, n))


def dense(sparse: Any) -> np.ndarray:
    return tf.sparse.to_dense(sparse).numpy()


# -- problems of the benchmarks ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PROBLEMS)
def test_problems_of_the_benchmarks(name):
    make, size, _, order = PROBLEMS[name]
    function, start = make(gradtape_functions(), size)
    x = tf.Variable(start)
    with tf.GradientTape(persistent=True) as tape:
        y = function(x)
    derivative = tape.jacobian if order == 1 else tape.hessian
    expected = derivative(y, x).numpy()
    plan = tape.sparsity(y, x, order=order)
    np.testing.assert_allclose(dense(derivative(y, x, sparse=plan)), expected, rtol=1e-12, atol=1e-12)
    assert plan.passes < len(start)
    if order == 2:
        other = tape.sparsity(y, x, order=2, mode="acyclic")
        assert other.passes < plan.passes
        np.testing.assert_allclose(dense(tape.hessian(y, x, sparse=other)), expected, atol=1e-12 * np.max(expected))
    if order == 1:
        assert np.array_equal(plan.to_dense(), expected != 0)
        for mode in ("forward", "reverse", "both"):
            other = tape.sparsity(y, x, mode=mode)
            np.testing.assert_allclose(dense(tape.jacobian(y, x, sparse=other)), expected, rtol=1e-12, atol=1e-12)


def test_a_large_tridiagonal_matrix():
    x = tf.Variable(np.linspace(0.0, 1.0, 20_000))
    with tf.GradientTape(persistent=True) as tape:
        y = chain(x)
    plan = tape.sparsity(y, x, format="scipy")
    assert (plan.passes, plan.nnz) == (3, 3 * 20_000 - 4)
    j = tape.jacobian(y, x, sparse=plan)
    np.testing.assert_allclose(j @ np.ones(20_000), tape.jvp(y, x, np.ones(20_000)))


@settings(deadline=None, max_examples=20)
@given(example=programs())
def test_random_programs(example):
    function, args = example
    tensors = [tf.constant(np.asarray(a, "float64")) for a in args]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensors)
        y = function(*tensors)
        total = tf.reduce_sum(y * y)
    expected = tape.jacobian(y, tensors, unconnected_gradients="zero")
    found = tape.jacobian(y, tensors, unconnected_gradients="zero", sparse=True)
    for e, f in zip(expected, found, strict=True):
        np.testing.assert_allclose(dense(f), e, rtol=1e-10, atol=1e-12)
    expected = tape.hessian(total, tensors, unconnected_gradients="zero")
    found = tape.hessian(total, tensors, unconnected_gradients="zero", sparse=True)
    for e, f in zip(tf.nest.flatten(expected), [block for row in found for block in row], strict=True):
        np.testing.assert_allclose(dense(f), e, rtol=1e-8, atol=1e-9)


@settings(deadline=None, max_examples=15)
@given(example=programs(), dtype=st.sampled_from(["float32", "float64"]), seed=st.integers(0, 100))
def test_plans_of_random_programs_hold_at_other_points(example, dtype, seed):
    """Global patterns do: a plan from one point gives the dense derivatives at another one, in both directions."""
    function, args = example
    points = [np.asarray(a, dtype) for a in args]
    others = [np.random.default_rng(seed).uniform(-1.0, 1.0, a.shape).astype(dtype) for a in points]

    def recorded(values: Any) -> Any:
        tensors = [tf.constant(v) for v in values]
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(tensors)
            y = function(*tensors)
        return tape, y, tensors

    tape, y, tensors = recorded(points)
    plans = [tape.sparsity(y, tensors, mode=mode) for mode in ("forward", "reverse", "both")]
    tape, y, tensors = recorded(others)
    expected = tape.jacobian(y, tensors, unconnected_gradients="zero")
    for plan in plans:
        found = tape.jacobian(y, tensors, unconnected_gradients="zero", sparse=plan)
        for e, f in zip(expected, found, strict=True):
            assert f.dtype.name == dtype
            np.testing.assert_allclose(dense(f), e, rtol=1e-4, atol=1e-5)


SECOND_ORDER = [
    pytest.param(row, id=row.name)
    for row in ROWS.values()
    if row.differentiable and row.error is None
    if any(a.dtype.kind == "f" and i not in row.constants for i, a in enumerate(row.samples[0].args))
]


@pytest.mark.parametrize("row", SECOND_ORDER)
def test_hessians_over_the_op_table(row):
    """Rules of different ops give the gradients of each operand: the pattern need not come out symmetric."""
    sample = row.samples[0]
    args = [tf.constant(a) for a in sample.args]
    sources = [a for i, a in enumerate(args) if a.dtype.is_floating and i not in row.constants]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(sources)
        total = tf.zeros([], tf.float64)
        for y in tf.nest.flatten(row.call(*args, **sample.attrs)):
            if y.dtype.is_floating:
                weights = np.linspace(0.5, 1.5, int(tf.size(y))).reshape(y.shape)
                total += tf.reduce_sum(tf.sin(tf.cast(y, tf.float64)) * weights)
    blocks = tape.hessian(total, sources, unconnected_gradients="zero")
    expected = np.block([[np.reshape(b, (tf.size(s), -1)) for b in r] for r, s in zip(blocks, sources, strict=True)])
    is_symmetric = np.allclose(expected, expected.T, rtol=1e-6, atol=1e-6)
    for mode in ("symmetric", "forward", "acyclic") if is_symmetric else ("forward",):
        plan = tape.sparsity(total, sources, order=2, mode=mode)
        rows = tape.hessian(total, sources, unconnected_gradients="zero", sparse=plan)
        for e, f in zip(tf.nest.flatten(blocks), [block for row in rows for block in row], strict=True):
            scale = max(1.0, float(np.max(np.abs(e), initial=0.0)))
            np.testing.assert_allclose(dense(tf.sparse.reorder(f)), e, rtol=1e-7, atol=1e-7 * scale)


# -- results -----------------------------------------------------------------------------------------------------------
def test_formats_and_structures():
    x, w = point(3), tf.Variable(np.ones((2, 3)))
    with tf.GradientTape(persistent=True) as tape:
        y = tf.tanh(w * x)
    expected = tape.jacobian(y, {"w": w, "x": x})
    for name, j in tape.jacobian(y, {"w": w, "x": x}, sparse=True).items():
        assert j.shape == expected[name].shape
        np.testing.assert_allclose(dense(j), expected[name])
    by_scipy = tape.jacobian(y, [w, x], sparse="scipy")
    assert [j.shape for j in by_scipy] == [(6, 6), (6, 3)]
    np.testing.assert_allclose(by_scipy[1].toarray(), expected["x"].numpy().reshape(6, 3))


def test_scalars():
    x = tf.Variable(3.0)
    with tf.GradientTape(persistent=True) as tape:
        y = x**3
    assert float(tf.sparse.to_dense(tape.jacobian(y, x, sparse=True))) == 27.0
    assert float(tf.sparse.to_dense(tape.hessian(y, x, sparse=True))) == 18.0


def test_no_path():
    x, other = point(3), tf.Variable(1.0, dtype=tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        y, total = x * x, tf.reduce_sum(x * x)
    assert tape.jacobian(y, [x, other], sparse=True)[1] is None
    zeros = tape.jacobian(y, [x, other], unconnected_gradients="zero", sparse=True)[1]
    assert zeros.shape == [3]
    assert zeros.values.shape == [0]
    blocks = tape.hessian(total, [x, other], sparse=True)
    assert blocks[0][0] is not None
    assert blocks[0][1] is None
    assert blocks[1] == [None, None]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_sources_without_elements(shape):
    """What is connected has a matrix, also without elements; what is not has none."""
    x, other = tf.Variable(np.zeros(shape)), point(3)
    with tf.GradientTape(persistent=True) as tape:
        y, total = x * x, tf.reduce_sum(x * x)
    found, missing = tape.jacobian(y, [x, other], sparse=True)
    assert found.shape == (*shape, *shape)
    assert missing is None
    assert tape.jacobian(y, x, sparse="scipy").shape == (0, 0)
    assert tape.hessian(total, x, sparse=True).shape == (*shape, *shape)
    assert tape.jacobian(y, [], sparse=True) == []


@pytest.mark.parametrize("jit", [None, False, True])
@pytest.mark.parametrize("mode", ["forward", "reverse", "both"])
def test_each_result_has_the_dtype_of_its_source(mode, jit):
    narrow, wide = tf.Variable([1.0, 2.0, 3.0]), tf.Variable([1.0, 2.0, 3.0], dtype=tf.float64)

    def both() -> Any:
        with tf.GradientTape(persistent=True) as tape:
            y = tf.cast(narrow, tf.float64) ** 2 * wide
            total = tf.reduce_sum(y)
        plan = tape.sparsity(y, [narrow, wide], mode=mode)
        jacobians = tape.jacobian(y, [narrow, wide], sparse=plan)
        hessians = tape.hessian(total, [narrow, wide], sparse=True)
        return [j.values for j in jacobians], [[h.values for h in row] for row in hessians]

    found = both() if jit is None else tf.function(both, jit_compile=jit)()
    assert [j.dtype.name for j in found[0]] == ["float32", "float64"]
    assert [[h.dtype.name for h in row] for row in found[1]] == [["float32", "float64"]] * 2
    np.testing.assert_allclose(found[0][0], [2.0, 8.0, 18.0])
    np.testing.assert_allclose(found[1][0][1], [2.0, 4.0, 6.0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision(dtype):
    x = tf.Variable([1.0, 2.0, 3.0], dtype=dtype)
    with tf.GradientTape(persistent=True) as tape:
        y = x * tf.roll(x, 1, 0)
        total = tf.reduce_sum(x * x * x)
    found = tape.jacobian(y, x, sparse=True)
    assert found.dtype.name == dtype
    np.testing.assert_array_equal(dense(tf.sparse.reorder(found)), tape.jacobian(y, x))
    np.testing.assert_array_equal(tape.jacobian(y, x, sparse="scipy").toarray(), np.asarray(tape.jacobian(y, x), "f"))
    for mode in ("symmetric", "acyclic"):
        plan = tape.sparsity(total, x, order=2, mode=mode)
        np.testing.assert_array_equal(tape.hessian(total, x, sparse=plan).values, [6.0, 12.0, 18.0])


def test_a_plan_is_used_again_and_checked():
    x = point()
    with tf.GradientTape() as tape:
        y = chain(x)
    plan = tape.sparsity(y, x)
    assert tape.gradient(y, x) is not None, "a plan does not use up the tape"
    x.assign(x * 2.0)
    with tf.GradientTape(persistent=True) as tape:
        y, short = chain(x), chain(x[1:])
        total = tf.reduce_sum(y)
    np.testing.assert_allclose(dense(tape.jacobian(y, x, sparse=plan)), tape.jacobian(y, x))
    with pytest.raises(ValueError, match=r"target of shape \(9,\).*received \(8,\)"):
        tape.jacobian(short, x, sparse=plan)
    with pytest.raises(ValueError, match=r"order=1, for tape\.jacobian"):
        tape.hessian(total, x, sparse=plan)
    assert str(plan) == "<sparsity of a 9 x 9 Jacobian: 23 entries, 3 reverse passes>"
    assert plan.bound == 3
    assert plan.to_svg().count("<rect") == 24


def entries_with(plan, f, shape=(6,)):
    """The Jacobian by a plan and the dense one."""
    x = tf.constant(np.linspace(0.1, 1.0, 6).reshape(shape))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    if plan is None:
        return tape.sparsity(y, x, batch=len(shape) > 1)
    jacobian = tape.batch_jacobian if plan.batch else tape.jacobian
    return dense(jacobian(y, x, sparse=plan)), jacobian(y, x).numpy()


EYE, ONES = np.eye(6), np.ones((6, 6))
PROGRAMS = {
    # The program of the plan, one whose entries it contains, and one with others.
    "ops": (lambda x: x[1:] ** 3 - x[:-1], lambda x: x[:-1] ** 3 - x[1:], lambda x: x[1:] * tf.reduce_sum(x)),
    "indices": (
        lambda x: tf.gather(x, [0, 1, 2]) ** 2,
        lambda x: x[:3] ** 2,
        lambda x: tf.gather(x, [0, 1, 3]) ** 2,
    ),
    "zeros": (
        lambda x: tf.linalg.matvec(EYE, x),
        lambda x: tf.linalg.matvec(3.0 * EYE, x),
        lambda x: tf.linalg.matvec(ONES, x),
    ),
    "factors": (lambda x: np.arange(6.0) * x, lambda x: np.arange(6.0) * x**2, lambda x: np.ones(6) * x),
    "functions": (tf.function(lambda x: x[1:] * x[:-1]), lambda x: x[:-1] * x[1:], tf.function(lambda x: x[1:] * x[0])),
    "attributes": (lambda x: x[::2], lambda x: 2.0 * x[::2], lambda x: x[1::2]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_plan_for_another_program_is_used_only_if_it_contains_all_entries(name):
    own, covered, other = PROGRAMS[name]
    plan = entries_with(None, own)
    for f in (own, covered, own, covered):
        np.testing.assert_allclose(*entries_with(plan, f), rtol=1e-12)
    with pytest.raises(ValueError, match="This plan was made for another program: here, entry"):
        entries_with(plan, other)
    np.testing.assert_allclose(*entries_with(plan, own), rtol=1e-12)


def test_the_plan_of_a_batch_for_another_program():
    plan = entries_with(None, lambda x: x * tf.roll(x, 1, 1), (2, 3))
    np.testing.assert_allclose(*entries_with(plan, tf.sin, (2, 3)), rtol=1e-12)
    with pytest.raises(ValueError, match="made for another program"):
        entries_with(plan, lambda x: x * tf.reduce_sum(x, 1, keepdims=True), (2, 3))


def test_the_plan_of_a_hessian_for_another_program():
    x = tf.Variable(np.linspace(0.1, 1.0, 6))
    with tf.GradientTape(persistent=True) as tape:
        chained, dense_one = tf.reduce_sum(x[1:] ** 2 * x[:-1]), tf.reduce_sum(x) ** 3
    for mode in ("symmetric", "forward", "acyclic"):
        plan = tape.sparsity(chained, x, order=2, mode=mode)
        with pytest.raises(ValueError, match=r"entry .* of the Hessian"):
            tape.hessian(dense_one, x, sparse=plan)
        np.testing.assert_allclose(dense(tape.hessian(chained, x, sparse=plan)), tape.hessian(chained, x))


def test_branches_in_python_and_local_plans():
    """A local plan holds where it was made; a program that takes another branch there is another program."""

    def f(x, flipped=False):
        return tf.where(x > 0.5, x, tf.zeros_like(x)) * (tf.reverse(x, [0]) if flipped else 1.0)

    x = tf.constant(np.linspace(0.1, 1.0, 6))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = f(x), f(x, True)
    plan = tape.sparsity(y, x, local=True)
    np.testing.assert_allclose(dense(tape.jacobian(y, x, sparse=plan)), tape.jacobian(y, x))
    with pytest.raises(ValueError, match="made for another program"):
        tape.jacobian(z, x, sparse=plan)


def test_patterns_are_not_found_again_for_the_same_program(monkeypatch):
    plan = entries_with(None, PROGRAMS["indices"][0])
    monkeypatch.setattr(sparse_plans, "_find_pattern", None)
    entries_with(plan, PROGRAMS["indices"][0])
    with pytest.raises(TypeError):
        entries_with(plan, PROGRAMS["indices"][2])


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda t, y, x: t.jacobian(y, x, sparse="coo"), ValueError, "sparse must be True, 'tensor', 'scipy'"),
        (lambda t, y, x: t.jacobian(y, x, sparse=np.ones(3)), ValueError, "sparse must be True, 'tensor', 'scipy'"),
        (lambda t, y, x: t.jacobian(y, x, sparse=1), ValueError, "sparse must be True, .*; received 1"),
        (lambda t, y, x: t.sparsity(y, x, mode="sideways"), ValueError, "Unknown value for mode: 'sideways'"),
        (lambda t, y, x: t.sparsity(y, x, format="coo"), ValueError, "Unknown format"),
        (lambda t, y, x: t.sparsity(y, x, order=3), ValueError, "order must be 1 .a Jacobian. or 2"),
        (lambda t, y, x: t.sparsity(y, x, mode="symmetric"), ValueError, "not supported for derivatives of order 1"),
        (lambda t, y, x: t.sparsity(tf.reduce_sum(y), x, order=2, mode="reverse"), ValueError, "order 2"),
        (lambda t, y, x: t.sparsity(y, x, mode="acyclic"), ValueError, "not supported for derivatives of order 1"),
        (lambda t, y, x: t.sparsity(y, x, batch=True), ValueError, r"Shape \(9,\) must have rank at least 2"),
        (
            lambda t, y, x: t.sparsity(y, [x, x], batch=True),
            ValueError,
            "one source; received order=1 and 2 sources",
        ),
        (lambda t, y, x: t.batch_jacobian(y, x, sparse=True), ValueError, "must have rank at least 2"),
        (lambda t, y, x: t.jacobian(y, x, sparse=t.sparsity(tf.reduce_sum(y), x, order=2)), ValueError, "order=2, for"),
        (lambda t, y, x: t.sparsity(tf.cast(y, tf.complex128), x), TypeError, "complex128"),
        (lambda t, y, x: t.sparsity([y, y], x), TypeError, "`target` should be one Tensor"),
    ],
)
def test_bad_arguments(call, error, says):
    x = point()
    with tf.GradientTape() as tape:
        y = chain(x)
        with pytest.raises(error, match=says):
            call(tape, y, x)
    assert tape.gradient(y, x) is not None


def test_scipy_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.sparse", None)
    x = point()
    with tf.GradientTape(persistent=True) as tape:
        y = chain(x)
    with pytest.raises(ImportError, match="pip install scipy"):
        tape.jacobian(y, x, sparse="scipy")
    assert tape.jacobian(y, x, sparse=True) is not None


def test_a_dense_matrix_is_refused_before_memory_is_full():
    sets = IndexSets(1000, limit=8000)
    ids = sets.units(0, (1000,))
    for shift in (1, 2):
        ids = sets.union(ids, np.roll(ids, shift))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="this Jacobian is not sparse"):
        sets.union(ids, np.roll(ids, 9))


# -- what counts as structure ------------------------------------------------------------------------------------------
def nnz(function: Any, x: Any, **options: Any) -> int:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.sparsity(y, x, **options).nnz


def test_constants_count_and_values_do_not():
    x = tf.constant([1.0, -2.0, 3.0])
    mask, matrix = np.array([1.0, 0.0, 1.0], np.float32), np.eye(3, k=1, dtype=np.float32)
    assert nnz(lambda x: x * mask, x) == 2
    assert nnz(lambda x: tf.linalg.matvec(tf.constant(matrix), x), x) == 2
    assert nnz(lambda x: tf.gather(x, tf.range(1, 3)), x) == 2
    w = tf.Variable(mask)  # another point may have other values
    assert nnz(lambda x: x * w, x) == 3
    for chosen in (
        lambda x: x * tf.cast(x > 0, tf.float32),
        lambda x: tf.where(tf.logical_and(x > 0, x < 2), x * x, 0.0),
        lambda x: tf.nn.relu(x),
    ):
        assert nnz(chosen, x) == 3
        assert nnz(chosen, x, local=True) < 3
    assert nnz(lambda x: tf.gather(x, tf.argsort(x)), x) == 9
    assert nnz(lambda x: tf.sort(x), x) == 9
    assert nnz(lambda x: tf.sort(x), x, local=True) == 3
    assert nnz(lambda x: tf.reduce_max(x)[None], x) == 3
    assert nnz(lambda x: tf.reduce_max(x)[None], x, local=True) == 1


def test_a_stencil_with_zeros():
    x = tf.constant(np.arange(36.0).reshape(1, 6, 6, 1))
    cross = np.array([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]).reshape(3, 3, 1, 1)
    assert nnz(lambda x: tf.nn.conv2d(x, tf.constant(cross), 1, "SAME"), x) == 36 * 5 - 4 * 6


def test_ops_without_known_structure_are_named():
    @tf.custom_gradient
    def double(x):
        return 2.0 * x, lambda g: 2.0 * g

    x = point(4)
    with tf.GradientTape(persistent=True) as tape:
        y = double(x) * x
    plan = tape.sparsity(y, x)
    assert plan.dense_ops == ("custom_gradient",)
    assert plan.mode == "reverse"
    np.testing.assert_allclose(dense(tape.jacobian(y, x, sparse=plan)), tape.jacobian(y, x))


# -- batches -----------------------------------------------------------------------------------------------------------
def in_rows(x: Any) -> Any:
    """Of each row of a matrix a few products, and the sum."""
    return tf.concat([tf.sin(x[:, 1:]) * x[:, :-1] ** 2, tf.reduce_sum(x, 1, keepdims=True)], 1)


def mixed_rows(x: Any) -> Any:
    return in_rows(x) + tf.reduce_mean(x**2, 0, keepdims=True)


def matrices(n: int = 4) -> tf.Variable:
    return tf.Variable(np.random.default_rng(2).normal(size=(n, 6)))


@pytest.mark.parametrize("function", [in_rows, mixed_rows, lambda x: tf.reshape(in_rows(x)[:, :4], (-1, 2, 2))])
def test_jacobians_of_a_batch(function):
    x = matrices()
    with tf.GradientTape(persistent=True) as tape:
        y = function(x)
    expected = tape.batch_jacobian(y, x).numpy()
    found = tape.batch_jacobian(y, x, sparse=True)
    assert found.shape == expected.shape
    np.testing.assert_allclose(dense(found), expected)
    plan = tape.sparsity(y, x, batch=True, mode="reverse")
    assert plan.passes < expected[0].size // 6
    np.testing.assert_allclose(dense(tape.batch_jacobian(y, x, sparse=plan)), expected)


def test_modes_and_formats_of_a_batch():
    x = matrices()
    with tf.GradientTape(persistent=True) as tape:
        y, mixed = in_rows(x), mixed_rows(x)
    expected = tape.batch_jacobian(y, x).numpy()
    plans = {mode: tape.sparsity(y, x, batch=True, mode=mode) for mode in ("reverse", "forward", "both")}
    assert [plan.passes for plan in plans.values()] == [3, 6, 3]
    assert repr(plans["reverse"]) == "<sparsity of a 6 x 6 Jacobian (4 of them): 64 entries, 3 reverse passes>"
    for plan in plans.values():
        np.testing.assert_allclose(dense(tape.batch_jacobian(y, x, sparse=plan)), expected)
    blocks = tape.batch_jacobian(y, x, sparse="scipy").toarray().reshape(4, 6, 4, 6)
    np.testing.assert_allclose(np.stack([blocks[i, :, i] for i in range(4)]), expected)
    assert np.count_nonzero(blocks) == np.count_nonzero(expected)
    with pytest.raises(
        ValueError, match=r"mode='forward' is not supported for a batch whose examples depend on each other"
    ):
        tape.sparsity(mixed, x, batch=True, mode="forward")
    with pytest.raises(ValueError, match=r"made with batch=True, for tape.batch_jacobian, not tape.jacobian"):
        tape.jacobian(y, x, sparse=plans["reverse"])
    with pytest.raises(ValueError, match=r"made with batch=False, for tape.jacobian, not tape.batch_jacobian"):
        tape.batch_jacobian(y, x, sparse=tape.sparsity(y, x))


def test_a_batch_without_examples_or_without_a_path():
    x, y = matrices(0), tf.zeros((4, 2), tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        z = in_rows(x)
    assert tape.batch_jacobian(z, x, sparse=True).shape == (0, 6, 6)
    found = tape.batch_jacobian(y, matrices(), sparse=True)
    assert (found.shape, len(found.values)) == ((4, 2, 6), 0)


def test_batches_under_other_tapes_and_in_functions():
    def norm(x: Any, sparse: bool) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = in_rows(x)
        found = tape.batch_jacobian(y, x, sparse=sparse)
        return tf.reduce_sum((found.values if sparse else found) ** 2)

    x = tf.constant(matrices())
    slopes = []
    for function in (norm, tf.function(norm)):
        for sparse in (False, True):
            with tf.GradientTape() as outer:
                outer.watch(x)
                value = function(x, sparse)
            slopes.append([value, outer.gradient(value, x)])
    for other in slopes[1:]:
        for one, expected in zip(other, slopes[0], strict=True):
            np.testing.assert_allclose(one, expected)


# -- nested tapes and functions ----------------------------------------------------------------------------------------
def test_outer_tapes_differentiate_the_entries():
    def norm(x: Any, sparse: bool, order: int) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = chain(x) if order == 1 else tf.reduce_sum(chain(x) ** 2)
        derivative = (tape.jacobian if order == 1 else tape.hessian)(y, x, sparse=sparse)
        return tf.reduce_sum((derivative.values if sparse else derivative) ** 2)

    x = tf.constant(point())
    for order in (1, 2):
        slopes = []
        for sparse in (False, True):
            with tf.GradientTape() as outer:
                outer.watch(x)
                value = norm(x, sparse, order)
            slopes.append(outer.gradient(value, x))
        np.testing.assert_allclose(*slopes)


def test_gradients_of_inner_tapes_have_a_pattern():
    x = point()
    with tf.GradientTape(persistent=True) as outer:
        with tf.GradientTape() as inner:
            y = tf.reduce_sum(chain(x) ** 2)
        slope = inner.gradient(y, x)
    expected = outer.jacobian(slope, x).numpy()
    assert np.array_equal(outer.sparsity(slope, x).to_dense(), expected != 0)


def test_calls_of_functions_have_the_pattern_of_what_they_do():
    x, compiled = point(), tf.function(chain)
    with tf.GradientTape(persistent=True) as tape:
        y, total = compiled(x), tf.reduce_sum(compiled(x) ** 2)
    expected, hessian = tape.jacobian(y, x).numpy(), tape.hessian(total, x).numpy()
    assert np.array_equal(tape.sparsity(y, x).to_dense(), expected != 0)
    assert np.array_equal(tape.sparsity(total, x, order=2).to_dense(), hessian != 0)
    for mode in ("forward", "reverse"):
        np.testing.assert_allclose(dense(tape.jacobian(y, x, sparse=tape.sparsity(y, x, mode=mode))), expected)
    np.testing.assert_allclose(dense(tape.hessian(total, x, sparse=True)), hessian, atol=1e-12)


def test_inside_a_function():
    @tf.function
    def both(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = chain(x)
            total = tf.reduce_sum(y**2)
        return tape.jacobian(y, x, sparse=True), tape.hessian(total, x, sparse=True)

    x = tf.constant(point())
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = chain(x)
        total = tf.reduce_sum(y**2)
    first, second = both(x)
    np.testing.assert_allclose(dense(first), tape.jacobian(y, x))
    np.testing.assert_allclose(dense(second), tape.hessian(total, x), atol=1e-12)


def test_scipy_inside_a_function_is_refused():
    @tf.function
    def jacobian(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = chain(x)
        return tape.jacobian(y, x, sparse="scipy")

    with pytest.raises(TypeError, match="Use sparse=True"):
        jacobian(tf.constant(point()))


# -- coloring --------------------------------------------------------------------------------------------------------
@st.composite
def patterns(draw: Any, symmetric: bool = False) -> Pattern:
    n, m = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    density, seed = draw(st.floats(0, 0.6)), draw(st.integers(0, 2**20))
    mask = np.random.default_rng(seed).random((n, n if symmetric else m)) < density
    mask = mask | mask.T if symmetric else mask
    if draw(st.booleans()):
        mask[0] = True
        mask[:, 0] = True
    return Pattern(*np.nonzero(mask), mask.shape)


@settings(deadline=None, max_examples=40)
@given(pattern=patterns())
def test_columns_of_one_color_have_no_common_row(pattern):
    assert readable(pattern, color_columns(pattern)).all()
    full, of_rows, of_columns = color_both(pattern)
    inside = full[pattern.rows]
    assert readable(pattern.where(~inside), of_columns).all()
    assert readable(pattern.where(inside).transposed(), of_rows).all()


@settings(deadline=None, max_examples=40)
@given(pattern=patterns(symmetric=True))
def test_entries_of_symmetric_matrices_can_be_read_at_one_of_two_places(pattern):
    colors = color_symmetric(pattern)
    alone = readable(pattern, colors)
    mirror = {(i, j): k for k, (i, j) in enumerate(zip(pattern.rows, pattern.columns, strict=True))}
    for k, (i, j) in enumerate(zip(pattern.rows, pattern.columns, strict=True)):
        assert alone[k] or alone[mirror[j, i]]
    assert colors.max(initial=0) <= color_columns(pattern).max(initial=0)


@settings(deadline=None, max_examples=40)
@given(pattern=patterns(symmetric=True), seed=st.integers(0, 1000))
def test_entries_of_symmetric_matrices_follow_from_sums_over_trees(pattern, seed):
    colors = color_acyclic(pattern)
    off = pattern.rows != pattern.columns
    assert (colors[pattern.rows[off]] != colors[pattern.columns[off]]).all()
    matrix = np.zeros(pattern.shape)
    matrix[pattern.rows, pattern.columns] = np.random.default_rng(seed).integers(1, 100, len(pattern.rows))
    matrix = matrix + matrix.T
    sums = matrix @ (colors[:, None] == np.arange(colors.max() + 1))
    found = substitution(pattern, colors)
    read = sums[found.position, found.color]
    entries = found.entries(numpy_namespace, read, read.dtype)
    np.testing.assert_array_equal(entries, matrix[pattern.rows, pattern.columns])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_an_acyclic_coloring_under_other_tapes_and_in_functions(dtype):
    def norm(x: Any, mode: str) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sin(x[1:]) * x[:-1] ** 2)
        plan = tape.sparsity(y, x, order=2, mode=mode)
        assert plan.passes == (2 if mode == "acyclic" else 3)
        return tf.reduce_sum(tape.hessian(y, x, sparse=plan).values ** 2)

    x = tf.constant(np.linspace(0.1, 1.0, 9, dtype=dtype))
    slopes = []
    for function in (norm, tf.function(norm)):
        for mode in ("symmetric", "acyclic"):
            with tf.GradientTape() as outer:
                outer.watch(x)
                value = function(x, mode)
            assert value.dtype.name == dtype
            slopes.append([value, outer.gradient(value, x)])
    for other in slopes[1:]:
        for one, expected in zip(other, slopes[0], strict=True):
            np.testing.assert_allclose(one, expected, rtol=1e-5 if dtype == "float32" else 1e-12)


def test_an_arrow_needs_both_directions():
    x = point(30)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.concat([tf.reduce_sum(x * x)[None], x[1:] * x[0]], 0)
    plan = tape.sparsity(y, x)
    assert (plan.mode, plan.passes) == ("both", 3)
    np.testing.assert_allclose(dense(tape.jacobian(y, x, sparse=plan)), tape.jacobian(y, x))
    with tf.GradientTape(persistent=True) as tape:
        total = tf.reduce_sum(x[1:] ** 3) * x[0]
    arrow = tape.sparsity(total, x, order=2)
    assert arrow.passes == 2, "a star coloring"
    np.testing.assert_allclose(dense(tape.hessian(total, x, sparse=arrow)), tape.hessian(total, x))


def test_the_hessian_of_a_lookup():
    x = point(5)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(tf.gather(x, [1, 2, 2]) ** 3)
    np.testing.assert_allclose(tape.hessian(y, x), np.diag(6 * x.numpy() * [0, 1, 2, 0, 0]))


def test_a_function_that_keeps_integers_of_a_loop() -> None:
    @tf.function
    def f(x: Any) -> Any:
        _, y = tf.while_loop(
            lambda i, y: tf.reduce_sum(y) + tf.cast(i, tf.float32) < 5.0,
            lambda i, y: (i + 1, tf.tanh(y) * x + 1.0),
            [tf.constant(0), x],
        )
        return y

    x = tf.constant([0.5, -0.3, 1.2])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = f(x)
    found = tf.sparse.to_dense(tape.jacobian(y, x, sparse=True))
    np.testing.assert_allclose(found, tape.jacobian(y, x))
