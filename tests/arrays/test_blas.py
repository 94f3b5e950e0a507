"""The number of BLAS threads: one for small products, and as before afterwards."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from gradtape._src.arrays.numpy import blas, core

count_threads, set_threads = blas._control() or (None, None)
needs_openblas = pytest.mark.skipif(count_threads is None, reason="this NumPy has another BLAS library")


@pytest.fixture
def _two():
    before = count_threads()
    set_threads(2)
    yield
    set_threads(before)


@needs_openblas
@pytest.mark.usefixtures("_two")
def test_a_call_alone_has_one_thread_and_leaves_the_number_as_it_was():
    assert blas.alone(count_threads) == 1
    assert blas.alone(blas.alone, count_threads) == 1
    assert count_threads() == 2
    with pytest.raises(ZeroDivisionError):
        blas.alone(lambda: 1 / 0)
    assert count_threads() == 2


@needs_openblas
@pytest.mark.usefixtures("_two")
@pytest.mark.parametrize(("count", "seen"), [(10, 2), (2**18, 2), (2**20, 1), (2**24, 2)])
def test_products_of_medium_size_run_alone(count, seen, monkeypatch):
    monkeypatch.setattr(blas, "SEVERAL", True)
    assert blas.by_size(lambda: count)(count_threads)() == seen


PROGRAM = """
import numpy as np
from gradtape._src.arrays.numpy import blas, core, neural
seen, alone = [], blas.alone
blas.alone = lambda function, *args, **options: seen.append(function.__name__) or alone(function, *args, **options)
x = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
for options in ({}, {"adjoint_x": True}, {"adjoint_y": True}):
    a, b = x.T if "adjoint_x" in options else x, x.T if "adjoint_y" in options else x
    np.testing.assert_allclose(core.matmul(x, x, **options), a @ b, rtol=1e-4, atol=1e-4)
core.matmul(x[:8], x[:, :8])
core.matmul(np.stack([x[:8]] * 100), np.stack([x[:, :8]] * 100))
core.matmul(np.tile(x, (8, 8)), np.tile(x, (8, 8)))
image, filters = x.reshape(1, 32, 32, 16), x[:, :36].reshape(3, 3, 16, 32)
neural.conv(image, filters, strides=(1, 1), dilations=(1, 1), padding=((1, 1), (1, 1)))
print(blas.SEVERAL, *seen)
"""


@needs_openblas
@pytest.mark.parametrize(("threads", "printed"), [("1", "False"), ("2", "True matmul matmul matmul run conv")])
def test_which_products_run_alone(threads, printed):
    environment = {**os.environ, "OMP_NUM_THREADS": threads}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == printed


@needs_openblas
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1024, 256, 256), (1001, 300, 257), (40, 3000, 520), (260, 1200, 64)])
def test_large_products_in_parts(shape, dtype, monkeypatch):
    monkeypatch.setattr(blas.threads, "_chosen", 3)
    rows, inner, columns = shape
    r = np.random.default_rng(0)
    for adjoint_x, adjoint_y in ((False, False), (True, False), (False, True), (True, True)):
        a, b = r.standard_normal((rows, inner)).astype(dtype), r.standard_normal((inner, columns)).astype(dtype)
        x = np.ascontiguousarray(a.T) if adjoint_x else a
        y = np.ascontiguousarray(b.T) if adjoint_y else b
        assert blas.parts(rows * inner * columns) == 3
        # Which rounding a part has depends on the processor's kernels; the bound of any order of adding does not.
        expected, bound = a.astype(np.float64) @ b, inner * np.finfo(dtype).eps * (np.abs(a) @ np.abs(b))
        found = core._product_by_size(x, y, adjoint_x, adjoint_y, None)
        assert found.dtype == dtype
        assert (np.abs(found - expected) <= bound).all()
        memory = np.empty_like(found)
        assert core._product_by_size(x, y, adjoint_x, adjoint_y, memory) is memory
        np.testing.assert_array_equal(memory, found)


@needs_openblas
def test_shapes_that_do_not_fit_raise_in_large_products():
    with pytest.raises(ValueError, match=r"not aligned|mismatch"):
        core._product_by_size(np.ones((1024, 256)), np.ones((255, 256)), False, False, None)


def test_without_openblas_products_run_as_they_are(monkeypatch):
    monkeypatch.setattr(blas, "_control", lambda: None)
    assert blas.alone(np.dot, np.ones(3), np.ones(3)) == 3


# -- products of few columns -----------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(10_000, 20), (2501, 7), (999, 1), (20_000, 33)])
def test_tall_products(shape, dtype):
    r = np.random.default_rng(0)
    x, y = r.standard_normal(shape).astype(dtype), r.standard_normal((shape[0], 30)).astype(dtype)
    wide = x.T.astype(np.float64) @ y.astype(np.float64)
    found = core.matmul(x, y, adjoint_x=True)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wide, rtol=0, atol=1e-3 if dtype is np.float32 else 1e-11)
    with pytest.raises(ValueError, match=r"not aligned|mismatch"):
        core.matmul(x, y[1:], adjoint_x=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "shape", [(3, 1, 1), (16, 64, 64), (4, 127, 129), (4, 128, 128), (4, 129, 128), (5, 0, 3), (0, 4, 6)]
)
def test_products_of_a_transposed_matrix_have_the_same_bits_by_dot_and_matmul(shape, dtype):
    """`matmul` takes one for small results and the other for large ones."""
    rows, m, n = shape
    r = np.random.default_rng(0)
    x, y = r.standard_normal((rows, m)).astype(dtype), r.standard_normal((rows, n)).astype(dtype)
    out = np.empty((m, n), dtype)
    for found in (core.matmul(x, y, adjoint_x=True), core.matmul(x, y, adjoint_x=True, out=out)):
        assert found.flags.c_contiguous
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, np.matmul(x.T, y))
    found = core.matmul(x, np.ascontiguousarray(y.T), adjoint_x=True, adjoint_y=True)
    np.testing.assert_allclose(found, np.matmul(x.T, y), rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (5, 4), (40_000, 3), (20, 30, 8), (3, 0, 2), (4, 0)])
def test_sums_over_rows(shape, dtype):
    x = np.random.default_rng(0).standard_normal(shape).astype(dtype)
    axis = tuple(range(len(shape) - 1))
    wide = x.astype(np.float64).sum(axis)
    tolerance = {"rtol": 0, "atol": 1e-3 if dtype is np.float32 else 1e-11}
    for kernel, scale in ((core.sum, 1), (core.mean, np.prod(shape[:-1]))):
        if scale:
            found = kernel(x, axis=axis)
            assert (found.dtype, found.shape) == (dtype, shape[-1:])
            np.testing.assert_allclose(found, wide / scale, **tolerance)
            assert kernel(x, axis=axis, keepdims=True).shape == (1,) * len(axis) + shape[-1:]
    np.testing.assert_array_equal(core.sum(x[:, ::-1], axis=axis).shape, shape[-1:])
    infinite = np.full(shape, np.inf, dtype)
    if x.size:
        assert np.isposinf(core.sum(infinite, axis=axis)).all()
