"""Linear algebra: factorisations put together again, solutions put in, derivatives to second order, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays as np_arrays

import gradtape as tf
from gradtape._src.arrays import numpy_namespace as kernels
from gradtape.testing import check_gradients

L = tf.linalg
InvalidArgument = tf.errors.InvalidArgumentError
DTYPES = ["float32", "float64", "complex64", "complex128"]
CLOSE = {"float32": 2e-4, "float64": 1e-9, "complex64": 2e-4, "complex128": 1e-9}


def numbers(*shape: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    values = rng.normal(size=shape)
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(size=shape)
    return values.astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def regular(n: int, *lead: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Well-conditioned square matrices."""
    return (numbers(*lead, n, n, dtype=dtype, seed=seed) + 3 * np.sqrt(n) * np.eye(n)).astype(dtype)


def positive(n: int, *lead: int, dtype: str = "float64", seed: int = 0) -> np.ndarray:
    """Hermitian positive definite matrices with eigenvalues that lie apart."""
    a = numbers(*lead, n, n, dtype=dtype, seed=seed)
    return (a @ adjoint(a) + np.diag(np.arange(1, n + 1))).astype(dtype)


def near(got: Any, want: Any, tolerance: float) -> None:
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape
    scale = 1 + np.max(np.abs(want), initial=0)
    assert np.max(np.abs(got - want), initial=0) <= tolerance * scale


def hermitian(x: Any) -> Any:
    """The Hermitian part, so that a numeric difference stays Hermitian."""
    return 0.5 * (x + L.adjoint(x))


# -- put together again ------------------------------------------------------------------------------------------------
shapes = st.tuples(st.integers(1, 6), st.integers(1, 6))
leads = st.sampled_from([(), (2,), (2, 1)])
elements = st.floats(-10, 10, width=32)


@st.composite
def matrices(draw: Any, square: bool = False) -> np.ndarray:
    m, n = draw(shapes)
    lead = draw(leads)
    return draw(np_arrays(np.float64, (*lead, m, m if square else n), elements=elements))


@given(matrices(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_qr(x: np.ndarray, full: bool):
    q, r = L.qr(x, full_matrices=full)
    near(q @ r, x, 1e-12)
    gram = L.matmul(q, q, adjoint_a=True)
    near(gram, np.broadcast_to(np.eye(q.shape[-1]), gram.shape), 1e-12)
    near(r, np.triu(r), 0)


@given(matrices(), st.booleans())
@settings(max_examples=60, deadline=None)
def test_svd(x: np.ndarray, full: bool):
    s, u, v = (np.asarray(a) for a in L.svd(x, full_matrices=full))
    k = s.shape[-1]
    near((u[..., :k] * s[..., None, :]) @ adjoint(v[..., :k]), x, 1e-12)
    assert np.all(s[..., :-1] >= s[..., 1:])
    assert np.all(s >= 0)
    near(L.svd(x, compute_uv=False), s, 1e-12)
    assert u.shape[-1] == (x.shape[-2] if full else k)
    assert v.shape[-1] == (x.shape[-1] if full else k)


@given(matrices(square=True))
@settings(max_examples=60, deadline=None)
def test_eigh(x: np.ndarray):
    x = x + adjoint(x)
    e, v = L.eigh(x)
    near((v * e[..., None, :]) @ L.adjoint(v), x, 1e-12)
    assert np.all(np.diff(np.asarray(e)) >= 0)
    near(L.eigvalsh(x), e, 1e-12)


@given(matrices(square=True))
@settings(max_examples=60, deadline=None)
def test_cholesky(x: np.ndarray):
    a = x @ adjoint(x) + np.eye(x.shape[-1])
    factor = np.asarray(L.cholesky(a))
    near(factor @ adjoint(factor), a, 1e-11)
    near(factor, np.tril(factor), 0)
    near(L.logdet(a), np.linalg.slogdet(a)[1], 1e-9)


@given(matrices(square=True))
@settings(max_examples=60, deadline=None)
def test_lu(x: np.ndarray):
    x = x + 100 * np.eye(x.shape[-1])[::-1]  # large off the diagonal: rows have to be swapped
    lu, p = L.lu(x)
    assert p.dtype == tf.int32
    near(L.lu_reconstruct(lu, p), x, 1e-12)
    near(L.lu_matrix_inverse(lu, p), np.linalg.inv(x), 1e-9)
    rhs = np.ones((*x.shape[:-1], 2))
    near(x @ np.asarray(L.lu_solve(lu, p, rhs)), rhs, 1e-9)
    assert np.max(np.abs(np.tril(lu, -1)), initial=0) <= 1  # the largest element of a column is its pivot


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 40, 130])
def test_factorisations_in_every_dtype(dtype: str, n: int):
    close = CLOSE[dtype] * n
    a, h = regular(n, 2, dtype=dtype), positive(n, 2, dtype=dtype)
    pairs = (*L.slogdet(a), *L.qr(a), *L.eigh(h))
    for out in (L.inv(a), L.det(h[:, :1, :1]), L.cholesky(h), L.lu(a).lu, L.expm(a), *pairs):
        assert out.dtype.name == dtype
    near(L.inv(a) @ a, np.broadcast_to(np.eye(n), a.shape), close)
    near(L.inv(a, adjoint=True), adjoint(np.asarray(L.inv(a))), 0)
    near(L.lu_reconstruct(*L.lu(a)), a, close)
    e, v = L.eigh(h)
    near(h @ v, v * e[..., None, :], close)
    e, v = L.eig(a)
    assert e.dtype == v.dtype == (tf.complex128 if dtype in ("float64", "complex128") else tf.complex64)
    near(a.astype(v.dtype.as_numpy_dtype) @ v, v * e[..., None, :], close)
    near(np.sort_complex(L.eigvals(a)), np.sort_complex(e), close)
    s, u, v = L.svd(a)
    assert s.dtype == (tf.float64 if dtype in ("float64", "complex128") else tf.float32)
    near((u * tf.cast(s, dtype)[..., None, :]) @ L.adjoint(v), a, close)
    root = np.asarray(L.sqrtm(a))
    near(root @ root, a, close)
    near(L.sqrtm(h) @ L.sqrtm(h), h, close)
    if dtype.startswith("complex"):
        near(L.expm(L.logm(h)), h, close * n)
        near(L.expm(L.logm(a)), a, close * n)


def test_low_precision_goes_through_float32():
    for dtype in (tf.float16, tf.bfloat16):
        x = tf.constant([[4.0, 1.0], [1.0, 3.0]], dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(L.inv(x)) + L.det(x) + L.slogdet(x)[1] + L.cholesky(x)[0, 0]
        assert y.dtype == dtype
        assert tape.gradient(y, x).dtype == dtype
    assert L.eigvals(tf.eye(2, dtype=tf.float16)).dtype == tf.complex64


# -- systems -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("adjoint_", [False, True])
@pytest.mark.parametrize("n", [1, 4, 47, 120])
def test_solves(dtype: str, adjoint_: bool, n: int):
    a, b = regular(n, 2, dtype=dtype), numbers(2, n, 3, dtype=dtype)
    close = CLOSE[dtype] * n

    def image(matrix: np.ndarray, x: Any) -> np.ndarray:
        return (adjoint(matrix) if adjoint_ else matrix) @ np.asarray(x)

    near(image(a, L.solve(a, b, adjoint=adjoint_)), b, close)
    for lower in (True, False):
        triangle = np.tril(a) if lower else np.triu(a)
        near(image(triangle, L.triangular_solve(a, b, lower=lower, adjoint=adjoint_)), b, close)
    h = positive(n, 2, dtype=dtype)
    near(h @ np.asarray(L.cholesky_solve(L.cholesky(h), b)), b, close * 10)


@pytest.mark.parametrize("n", [20, 100])
@pytest.mark.parametrize("lower", [True, False])
def test_triangular_solve_is_as_exact_as_substitution(n: int, lower: bool):
    """Every element of the residual is small beside the terms it is a sum of, also where diagonals are small."""
    a = numbers(n, n) + np.diag(np.logspace(0, -3, n))
    a = np.tril(a) if lower else np.triu(a)
    b = numbers(n, 2)
    x = np.asarray(L.triangular_solve(a, b, lower=lower))
    assert np.all(np.abs(a @ x - b) <= 1e-15 * n * (np.abs(a) @ np.abs(x) + np.abs(b)))


def test_triangular_solve_broadcasts_and_divides_by_zero_as_tensorflow_does():
    a, b = regular(3, 2), numbers(4, 1, 3, 2)
    got = L.triangular_solve(a, b)
    assert got.shape == (4, 2, 3, 2)
    near(np.tril(a) @ np.asarray(got), np.broadcast_to(b, (4, 2, 3, 2)), 1e-12)
    np.testing.assert_array_equal(L.triangular_solve(np.zeros((2, 2)), np.ones((2, 1))), [[np.inf], [np.nan]])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(4, 4), (6, 3), (3, 6)])
def test_least_squares(dtype: str, shape: tuple[int, int]):
    a, b = numbers(2, *shape, dtype=dtype), numbers(2, shape[0], 2, dtype=dtype)
    want = np.linalg.pinv(a) @ b
    near(L.lstsq(a, b, fast=False), want, CLOSE[dtype] * 10)
    near(L.pinv(a), np.linalg.pinv(a), CLOSE[dtype] * 10)
    if shape[0] != shape[1]:
        near(L.lstsq(a, b), want, CLOSE[dtype] * 100)
    ridge = np.linalg.solve(adjoint(a) @ a + 0.5 * np.eye(shape[1]), adjoint(a) @ b)
    near(L.lstsq(a, b, l2_regularizer=0.5), ridge, CLOSE[dtype] * 10)


def test_pinv_with_real_singular_values_cut_off():
    a = np.array([[2.0, 0.3, 0.1], [0.2, 1.0, 0.4], [0.5, 0.1, 0.3]])
    near(L.pinv(a, rcond=0.4), np.linalg.pinv(a, rcond=0.4), 1e-12)
    check_gradients(lambda x: L.pinv(x, rcond=0.4), a, order=1)


def test_pinv_of_deficient_matrices_and_rcond():
    near(L.pinv([[1.0, 1.0], [1.0, 1.0]]), np.full((2, 2), 0.25), 1e-6)
    near(L.pinv(np.zeros((2, 3))), np.zeros((3, 2)), 0)
    a = np.array([[[1.0, 2.0], [3.0, 4.0]]] * 2)
    got = np.asarray(L.pinv(a, rcond=[0.5, 0.0]))
    near(got[1], np.linalg.inv(a[0]), 1e-12)
    assert np.linalg.matrix_rank(got[0]) == 1


def dense(bands: np.ndarray) -> np.ndarray:
    n = bands.shape[-1]
    result = np.zeros((*bands.shape[:-2], n, n), bands.dtype)
    for i in range(n):
        result[..., i, i] = bands[..., 1, i]
        if i + 1 < n:
            result[..., i, i + 1] = bands[..., 0, i]
            result[..., i + 1, i] = bands[..., 2, i + 1]
    return result


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 9])
@pytest.mark.parametrize("dominant", [False, True])
def test_tridiagonal(dtype: str, n: int, dominant: bool):
    bands, rhs = numbers(2, 3, n, dtype=dtype, seed=n), numbers(2, n, 2, dtype=dtype)
    if dominant:
        bands[:, 1] += 10
    full = dense(bands)
    x = np.asarray(L.tridiagonal_solve(bands, rhs))
    near(full @ x, rhs, CLOSE[dtype] * 100)
    near(L.tridiagonal_matmul(bands, rhs), full @ rhs, CLOSE[dtype])
    near(L.tridiagonal_solve(full, rhs, diagonals_format="matrix"), x, CLOSE[dtype] * 100)
    parts = (bands[:, 0, :-1], bands[:, 1], bands[:, 2, 1:])
    near(L.tridiagonal_solve(parts, rhs, diagonals_format="sequence"), x, CLOSE[dtype] * 100)
    near(L.tridiagonal_solve(bands, rhs[..., 0]), x[..., 0], CLOSE[dtype] * 100)
    near(L.tridiagonal_solve(bands, adjoint(rhs), transpose_rhs=True, conjugate_rhs=True), x, CLOSE[dtype] * 100)


@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("adjoint_", [True, False])
def test_banded_triangular(lower: bool, adjoint_: bool):
    bands, rhs = numbers(2, 3, 5) + 2, numbers(2, 5, 1)
    matrix = L.diag(bands, k=(-2, 0) if lower else (0, 2), align="LEFT_RIGHT")
    want = L.triangular_solve(matrix, rhs, lower=lower, adjoint=adjoint_)
    near(L.banded_triangular_solve(bands, rhs, lower=lower, adjoint=adjoint_), want, 1e-12)


def test_eigh_tridiagonal():
    main, side = numbers(6), numbers(5, seed=1)
    full = np.diag(main) + np.diag(side, 1) + np.diag(side, -1)
    e, v = L.eigh_tridiagonal(main, side, eigvals_only=False)
    near(full @ v, v * e, 1e-12)
    near(L.eigh_tridiagonal(main, side, select="i", select_range=(1, 3)), np.linalg.eigvalsh(full)[1:4], 1e-12)
    inside = L.eigh_tridiagonal(main, side, select="v", select_range=(-1.0, 1.0))
    near(inside, [x for x in np.linalg.eigvalsh(full) if -1 < x <= 1], 1e-12)


class Scaled:
    """An operator that is only ever multiplied with."""

    is_self_adjoint = is_positive_definite = True

    def __init__(self, diagonal: np.ndarray) -> None:
        self.diagonal = tf.constant(diagonal)

    def matvec(self, x: Any) -> Any:
        return self.diagonal * x


@pytest.mark.parametrize("dtype", DTYPES)
def test_conjugate_gradient(dtype: str):
    a, b = positive(5, dtype=dtype), numbers(2, 5, dtype=dtype)
    state = L.experimental.conjugate_gradient(a, b, tol=1e-6, max_iter=40)
    near(state.x, np.linalg.solve(a, b.T).T, max(CLOSE[dtype], 1e-5))
    assert 0 < int(state.i) <= 40
    again = L.experimental.conjugate_gradient(a, b, x=state.x, tol=1e-3)
    assert int(again.i) == 0
    diagonal = np.arange(1.0, 6.0).astype(dtype)
    found = L.experimental.conjugate_gradient(Scaled(diagonal), b, preconditioner=Scaled(1 / diagonal), tol=1e-6)
    assert int(found.i) == 1
    near(found.x, b / diagonal, CLOSE[dtype])


def test_conjugate_gradient_refuses_other_operators():
    operator = Scaled(np.ones(2))
    operator.is_self_adjoint = False
    with pytest.raises(ValueError, match="self-adjoint, positive definite"):
        L.experimental.conjugate_gradient(operator, [1.0, 1.0])


# -- functions of matrices ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [0.0, 1e-3, 0.1, 0.5, 1.5, 4.0, 30.0])
def test_expm(dtype: str, size: float):
    x = (numbers(3, 4, 4, dtype=dtype) * size / 3).astype(dtype)
    e, v = np.linalg.eig(x.astype(np.complex128))
    want = (v * np.exp(e)[:, None, :]) @ np.linalg.inv(v)
    near(L.expm(x), want if dtype.startswith("complex") else want.real, CLOSE[dtype])
    near(L.expm(x)[1], L.expm(x[1]), CLOSE[dtype])  # another norm beside it changes nothing


def test_expm_of_what_is_not_finite():
    x = np.zeros((2, 2, 2))
    x[0, 0, 0] = np.inf
    got = np.asarray(L.expm(x))
    assert np.all(np.isnan(got[0]))
    near(got[1], np.eye(2), 0)


def test_sqrtm_special_cases():
    near(L.sqrtm([[1.0, 1.0], [1.0, 1.0]]), np.full((2, 2), 0.5**0.5), 1e-6)
    near(L.sqrtm(np.zeros((2, 2))), np.zeros((2, 2)), 0)
    near(L.sqrtm([[1.0, 1.0], [0.0, 0.0]]), [[1.0, 1.0], [0.0, 0.0]], 1e-6)  # singular, not symmetric
    near(L.sqrtm([[4.0, 1.0], [0.0, 4.0]]), [[2.0, 0.25], [0.0, 2.0]], 1e-6)  # one eigenvector only
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    near(L.sqrtm(turn) @ L.sqrtm(turn), turn, 1e-12)
    assert np.all(np.isnan(L.sqrtm(-np.eye(2))))
    assert np.all(np.isnan(L.sqrtm([[0.0, 1.0], [0.0, 0.0]])))
    negative = np.array([[-1.0, 2.0], [0.0, -3.0]], np.complex128)
    near(L.sqrtm(negative) @ L.sqrtm(negative), negative, 1e-12)
    mixed = np.stack([np.array([[1.0, 1.0], [0.0, 0.0]]), regular(2), np.full((2, 2), np.nan), -np.eye(2)])
    got = np.asarray(L.sqrtm(mixed))
    near(got[0] @ got[0], mixed[0], 1e-12)
    near(got[1] @ got[1], mixed[1], 1e-12)
    assert np.all(np.isnan(got[2:]))


def test_logm_special_cases():
    near(L.logm(tf.eye(2, dtype=tf.complex64)), np.zeros((2, 2)), 0)
    near(L.logm(np.array([[2.0, 1.0], [0.0, 2.0]], np.complex128)), [[np.log(2), 0.5], [0.0, np.log(2)]], 1e-12)
    near(L.expm(L.logm(-np.eye(2, dtype=np.complex128))), -np.eye(2), 1e-12)
    assert not np.any(np.isfinite(L.logm(np.zeros((2, 2), np.complex64))))


# -- diagonals and bands -----------------------------------------------------------------------------------------------
alignments = st.sampled_from(["LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT"])


@given(st.integers(1, 5), st.integers(1, 5), st.data(), alignments)
@settings(max_examples=80, deadline=None)
def test_diagonals(rows: int, columns: int, data: Any, align: str):
    low = data.draw(st.integers(1 - rows, columns - 1))
    high = data.draw(st.integers(low, columns - 1))
    x = np.arange(1, 2 * rows * columns + 1).reshape(2, rows, columns)
    part = L.diag_part(x, k=(low, high), align=align, padding_value=-1)
    for i, k in enumerate(range(high, low - 1, -1)):
        line = np.asarray(part)[0, i] if low != high else np.asarray(part)[0]
        want = np.diagonal(x[0], k)
        at = 0 if (align.split("_")[k < 0]) == "LEFT" else len(line) - len(want)
        np.testing.assert_array_equal(line[at : at + len(want)], want)
        assert np.sum(line == -1) == len(line) - len(want)
    offset = np.arange(columns) - np.arange(rows)[:, None]
    band = (offset >= low) & (offset <= high)
    np.testing.assert_array_equal(L.set_diag(np.zeros_like(x), part, k=(low, high), align=align), np.where(band, x, 0))
    try:
        back = L.diag(part, k=(low, high), num_rows=rows, num_cols=columns, align=align, padding_value=7)
    except InvalidArgument:
        pass  # a size that the diagonals themselves do not need
    else:
        np.testing.assert_array_equal(back, np.where(band, x, 7))


def test_small_ones():
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(L.trace(x), np.trace(x, axis1=1, axis2=2))
    np.testing.assert_array_equal(L.band_part(x, 1, 0), np.tril(x) - np.tril(x, -2))
    np.testing.assert_array_equal(L.band_part(x > 0, -1, 0), np.tril(x) > 0)
    np.testing.assert_array_equal(L.cross(x[..., :3], x[..., 1:]), np.cross(x[..., :3], x[..., 1:]))
    diagonal = L.tensor_diag(x[0])
    assert diagonal.shape == (3, 4, 3, 4)
    np.testing.assert_array_equal(L.tensor_diag_part(diagonal), x[0])
    assert int(L.matrix_rank(np.ones((3, 2)))) == 1
    np.testing.assert_array_equal(L.matrix_rank([np.eye(2), np.zeros((2, 2))]), [2, 0])
    assert int(L.matrix_rank(np.diag([3.0, 1.0]), tol=2.0)) == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms(dtype: str):
    x = numbers(2, 3, 4, dtype=dtype)
    for order in ("fro", 1, 2, np.inf):
        got = L.norm(x, ord=order, axis=(-2, -1), keepdims=True)
        near(got, np.linalg.norm(x, ord=order, axis=(-2, -1), keepdims=True), CLOSE[dtype])
        near(L.norm(x, ord=order, axis=(2, 0)), np.linalg.norm(x, ord=order, axis=(2, 0)), CLOSE[dtype])
    unit, length = L.normalize(x, axis=1)
    near(unit * length, x, CLOSE[dtype])
    near(L.norm(unit, axis=1), np.ones((2, 4)), CLOSE[dtype])
    assert L.norm(x).dtype.name == dtype


def test_names_at_the_root():
    assert tf.eig is L.eig
    assert tf.eigvals is L.eigvals
    assert tf.matrix_square_root is L.sqrtm
    assert tf.norm is L.norm
    assert tf.eye is L.eye
    assert type(L.qr(np.eye(2))).__name__ == "Qr"
    assert L.slogdet(np.eye(2))._fields == ("sign", "log_abs_determinant")
    assert L.lu(np.eye(2))._fields == ("lu", "p")


@pytest.mark.parametrize("n", [0, 2])
def test_empty(n: int):
    x = tf.zeros([0, n, n], tf.float64)
    assert L.inv(x).shape == (0, n, n)
    assert L.det(x).shape == (0,)
    assert L.lu(x).p.shape == (0, n)
    assert L.eigh(x)[0].shape == (0, n)
    assert L.expm(x).shape == L.sqrtm(x).shape == L.cholesky(x).shape == (0, n, n)
    assert float(L.det(tf.zeros([0, 0]))) == 1.0
    assert L.qr(tf.zeros([3, 0])).q.shape == (3, 0)
    assert L.svd(tf.zeros([2, 0]))[1].shape == (2, 0)
    assert L.solve(tf.zeros([0, 0]), tf.zeros([0, 3])).shape == (0, 3)
    assert L.triangular_solve(tf.zeros([0, 0]), tf.zeros([0, 3])).shape == (0, 3)


# -- derivatives -------------------------------------------------------------------------------------------------------
def _gauge_free_svd(x: Any, full: bool = False) -> list[Any]:
    """What does not depend on the free phases (and, of the further columns, the free basis) of singular vectors."""
    s, u, v = L.svd(x, full_matrices=full)
    k = s.shape[-1]
    thin_u, thin_v = u[..., :k], v[..., :k]
    parts = [s, tf.abs(thin_u) ** 2, tf.abs(thin_v) ** 2,
             (thin_u * tf.cast(tf.sqrt(s), x.dtype)[..., None, :]) @ L.adjoint(thin_v)]  # fmt: skip
    return parts + [w[..., k:] @ L.adjoint(w[..., k:]) for w in (u, v) if w.shape[-1] > k]


def _gauge_free_eigh(x: Any) -> list[Any]:
    e, v = L.eigh(x)
    return [e, tf.abs(v) ** 2]


def _gauge_free_eig(x: Any) -> list[Any]:
    e, v = L.eig(x)
    return [e, tf.abs(v) ** 2]


PERMUTATION = [2, 0, 1]
CASES: dict[str, tuple[Callable[..., Any], Callable[[str], tuple[np.ndarray, ...]]]] = {
    "inv": (L.inv, lambda t: (regular(3, 2, dtype=t),)),
    "inv_adjoint": (lambda a: L.inv(a, adjoint=True), lambda t: (regular(3, dtype=t),)),
    "det": (L.det, lambda t: (regular(3, 2, dtype=t),)),
    "slogdet": (L.slogdet, lambda t: (regular(3, 2, dtype=t),)),
    "logdet": (lambda a: L.logdet(hermitian(a)), lambda t: (positive(3, 2, dtype=t),)),
    "solve": (L.solve, lambda t: (regular(3, 2, dtype=t), numbers(2, 3, 2, dtype=t))),
    "solve_adjoint": (
        lambda a, b: L.solve(a, b, adjoint=True), lambda t: (regular(3, dtype=t), numbers(3, 2, dtype=t))),
    "triangular": (L.triangular_solve, lambda t: (regular(3, 2, dtype=t), numbers(3, 2, dtype=t))),
    "triangular_upper": (
        lambda a, b: L.triangular_solve(a, b, lower=False),
        lambda t: (regular(3, dtype=t), numbers(2, 3, 2, dtype=t))),
    "triangular_adjoint": (
        lambda a, b: L.triangular_solve(a, b, adjoint=True), lambda t: (regular(3, dtype=t), numbers(3, 2, dtype=t))),
    "cholesky": (lambda a: L.cholesky(hermitian(a)), lambda t: (positive(3, 2, dtype=t),)),
    "cholesky_solve": (L.cholesky_solve, lambda t: (regular(3, dtype=t), numbers(3, 2, dtype=t))),
    "lstsq_tall": (L.lstsq, lambda t: (numbers(4, 2, dtype=t), numbers(4, 1, dtype=t, seed=1))),
    "lstsq_wide": (L.lstsq, lambda t: (numbers(2, 4, dtype=t), numbers(2, 1, dtype=t, seed=1))),
    "lstsq_ridge": (
        lambda a, b: L.lstsq(a, b, l2_regularizer=0.5),
        lambda t: (numbers(4, 2, dtype=t), numbers(4, 1, dtype=t, seed=1))),
    "lstsq_slow": (
        lambda a, b: L.lstsq(a, b, fast=False), lambda t: (numbers(4, 2, dtype=t), numbers(4, 1, dtype=t, seed=1))),
    "qr_square": (L.qr, lambda t: (numbers(3, 3, dtype=t),)),
    "qr_tall": (L.qr, lambda t: (numbers(2, 4, 3, dtype=t),)),
    "qr_wide": (L.qr, lambda t: (numbers(2, 4, dtype=t),)),
    "qr_wide_full": (lambda a: L.qr(a, full_matrices=True), lambda t: (numbers(2, 4, dtype=t),)),
    "qr_wide_q": (lambda a: L.qr(a).q, lambda t: (numbers(2, 4, dtype=t),)),
    "eigh": (_gauge_free_eigh, lambda t: (positive(3, dtype=t),)),
    "eigvalsh": (L.eigvalsh, lambda t: (positive(3, 2, dtype=t),)),
    "eig": (_gauge_free_eig, lambda t: (numbers(3, 3, dtype=t, seed=3),)),
    "eigvals": (L.eigvals, lambda t: (numbers(3, 3, dtype=t, seed=3),)),
    "svd_square": (_gauge_free_svd, lambda t: (numbers(3, 3, dtype=t),)),
    "svd_tall": (_gauge_free_svd, lambda t: (numbers(4, 2, dtype=t),)),
    "svd_wide": (_gauge_free_svd, lambda t: (numbers(2, 3, dtype=t),)),
    "svd_tall_full": (lambda a: _gauge_free_svd(a, True), lambda t: (numbers(4, 2, dtype=t),)),
    "svd_wide_full": (lambda a: _gauge_free_svd(a, True), lambda t: (numbers(2, 4, dtype=t),)),
    "svdvals": (lambda a: L.svd(a, compute_uv=False), lambda t: (numbers(2, 3, 2, dtype=t),)),
    "pinv_tall": (L.pinv, lambda t: (numbers(3, 2, dtype=t),)),
    "pinv_wide": (L.pinv, lambda t: (numbers(2, 3, dtype=t),)),
    "expm": (L.expm, lambda t: (numbers(2, 3, 3, dtype=t),)),
    "expm_large": (L.expm, lambda t: (3 * numbers(2, 2, dtype=t),)),
    "sqrtm": (L.sqrtm, lambda t: (regular(3, 2, dtype=t),)),
    "sqrtm_hermitian": (L.sqrtm, lambda t: (positive(2, dtype=t),)),
    "tridiagonal_solve": (
        L.tridiagonal_solve, lambda t: (numbers(2, 3, 4, dtype=t, seed=4), numbers(2, 4, 2, dtype=t))),
    "tridiagonal_dominant": (L.tridiagonal_solve, lambda t: (
        numbers(3, 4, dtype=t) + np.array([[0], [9], [0]]), numbers(4, dtype=t))),
    "tridiagonal_matmul": (L.tridiagonal_matmul, lambda t: (numbers(2, 3, 4, dtype=t), numbers(2, 4, 2, dtype=t))),
    "banded": (L.banded_triangular_solve, lambda t: (numbers(2, 4, dtype=t) + 2, numbers(4, 1, dtype=t))),
    "lu_solve": (
        lambda a, b: L.lu_solve(a, PERMUTATION, b), lambda t: (regular(3, dtype=t), numbers(3, 2, dtype=t))),
    "lu_reconstruct": (lambda a: L.lu_reconstruct(a, PERMUTATION), lambda t: (regular(3, dtype=t),)),
    "diag": (lambda a: L.diag(a, k=(-1, 1)), lambda t: (numbers(2, 3, 3, dtype=t),)),
    "diag_part": (lambda a: L.diag_part(a, k=(-1, 2)), lambda t: (numbers(2, 3, 4, dtype=t),)),
    "set_diag": (
        lambda a, b: L.set_diag(a, b, k=(0, 1)), lambda t: (numbers(2, 3, 4, dtype=t), numbers(2, 2, 3, dtype=t))),
    "band_part": (lambda a: L.band_part(a, 1, 0), lambda t: (numbers(2, 3, 4, dtype=t),)),
    "trace": (L.trace, lambda t: (numbers(2, 3, 4, dtype=t),)),
    "norm_2": (lambda a: L.norm(a, ord=2, axis=(0, 2)), lambda t: (numbers(2, 2, 3, dtype=t),)),
    "normalize": (lambda a: L.normalize(a, axis=1), lambda t: (numbers(2, 3, dtype=t),)),
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("case", CASES)
def test_derivatives(case: str, dtype: str):
    """Numeric to second order; recorded, batched and forward sweeps against the plain one."""
    function, make = CASES[case]
    check_gradients(function, *make(dtype), order=2)


def test_derivatives_of_real_ones():
    check_gradients(L.cross, numbers(2, 3), numbers(2, 3, seed=1), order=2)
    check_gradients(L.eigh_tridiagonal, numbers(4), numbers(3, seed=1), order=2)


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    x = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x)


def test_third_order():
    x = tf.constant([[4.0, 1.0], [1.0, 3.0]], tf.float64)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as middle:
            middle.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(L.cholesky(x)) + tf.reduce_sum(L.expm(0.1 * x)) + tf.reduce_sum(L.sqrtm(x))
            first = inner.gradient(y, x)
        second = middle.gradient(first, x)
    assert np.all(np.isfinite(outer.gradient(second, x)))


# -- conventions and degenerate cases ----------------------------------------------------------------------------------
def test_conventions():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    near(gradient(L.cholesky, a), [[0.20634446, 0.17462216], [0.17462216, 0.30151134]], 1e-8)  # symmetric
    near(gradient(lambda x: L.eigvalsh(x)[0], a), [[0.2763932, 0.0], [-0.89442719, 0.7236068]], 1e-8)  # lower triangle
    near(gradient(lambda x: L.slogdet(x)[0], a), np.zeros((2, 2)), 0)
    assert gradient(lambda x: tf.cast(L.matrix_rank(x), tf.float64), a) is None


def test_degenerate_spectra_have_finite_derivatives():
    eye = np.eye(3)
    for function in (
        lambda x: L.eigh(x)[1] ** 2,
        lambda x: L.svd(x)[1] ** 2 + L.svd(x)[2],
        lambda x: L.svd(x, compute_uv=False),
        lambda x: tf.math.real(L.eigvals(x)),
    ):
        assert np.all(np.isfinite(gradient(function, eye)))
    assert np.all(np.isfinite(gradient(lambda x: L.svd(x)[1], np.zeros((3, 2)))))
    near(gradient(L.pinv, eye), -np.ones((3, 3)), 1e-12)  # equal singular values do no harm there

    x = tf.constant(eye)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(L.eigh(x)[1] ** 2)
        first = inner.gradient(y, x)
    assert np.all(np.isfinite(outer.gradient(first, x)))


def test_length_of_a_cotangent_is_only_a_factor():
    x = tf.constant(numbers(3, 3))
    for function in (L.expm, lambda a: L.sqrtm(a @ tf.transpose(a) + tf.eye(3, dtype=tf.float64))):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = function(x)
        seed = numbers(3, 3, seed=1)
        plain = tape.gradient(y, x, output_gradients=tf.constant(seed))
        large = tape.gradient(y, x, output_gradients=tf.constant(seed * 1e12))
        near(large / 1e12, plain, 1e-12)
        near(tape.gradient(y, x, output_gradients=tf.zeros([3, 3], tf.float64)), np.zeros((3, 3)), 0)


@pytest.mark.parametrize("name", ["solve", "triangular_solve"])
def test_a_jacobian_factors_one_matrix_once(name: str, monkeypatch: pytest.MonkeyPatch):
    seen: list[tuple[int, ...]] = []
    kernel = getattr(kernels, name)

    def spy(x: np.ndarray, y: np.ndarray, **attrs: Any) -> np.ndarray:
        seen.append(x.shape)
        return kernel(x, y, **attrs)

    a, b = tf.constant(regular(3)), tf.constant(numbers(3, 2))
    with tf.GradientTape() as tape:
        tape.watch(b)
        y = getattr(L, name)(a, b)
    monkeypatch.setattr(kernels, name, spy)
    jacobian = tape.jacobian(y, b)
    assert jacobian.shape == (3, 2, 3, 2)
    assert seen == [(3, 3)]


# -- refusals ----------------------------------------------------------------------------------------------------------
REFUSED: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: L.inv(tf.ones([2, 2])), InvalidArgument, r"Input is not invertible\..*\[Op:MatrixInverse\]"),
    (lambda: L.inv(tf.zeros([2, 3, 3])), InvalidArgument, r"position \[0\] is singular"),
    (lambda: L.inv(tf.ones([2, 3])), InvalidArgument, "Input matrix must be square"),
    (lambda: L.inv(tf.ones([2])), InvalidArgument, "must have rank >= 2, got 1"),
    (lambda: L.inv([[1, 2], [3, 4]]), InvalidArgument, "Value for attr 'T' of int32"),
    (lambda: L.det(tf.ones([2, 3])), InvalidArgument, r"square.*\[Op:MatrixDeterminant\]"),
    (lambda: L.solve(tf.ones([2, 2]), tf.ones([2, 1])), InvalidArgument, "Input matrix is not invertible"),
    (lambda: L.solve(tf.eye(2), tf.ones([2])), InvalidArgument, "must have the same rank"),
    (lambda: L.solve(tf.eye(2), tf.ones([3, 1])), InvalidArgument, "matrix and rhs are incompatible"),
    (lambda: L.solve(tf.eye(2)[None], tf.ones([3, 2, 1])), InvalidArgument, "same outer dimensions"),
    (lambda: L.solve(tf.eye(2), tf.eye(2, dtype=tf.float64)), InvalidArgument, "cannot compute MatrixSolve"),
    (lambda: L.triangular_solve(tf.eye(2), tf.ones([3, 1])), InvalidArgument, "2 vs. 3"),
    (lambda: L.triangular_solve(tf.ones([2, 3]), tf.ones([2, 1])), InvalidArgument, "must be square"),
    (lambda: L.triangular_solve(tf.eye(2), tf.ones([2])), InvalidArgument, "ndims must be >= 2"),
    (lambda: L.cholesky(-tf.eye(2)), InvalidArgument, "Cholesky decomposition was not successful. The input might"),
    (lambda: L.lu(tf.ones([2, 2])), InvalidArgument, r"Input is not invertible\. \[Op:Lu\]"),
    (lambda: L.eigh([[np.nan, 1.0], [1.0, 1.0]]), InvalidArgument, "Self-adjoint eigen decomposition was not"),
    (lambda: L.eig([[np.inf, 1.0], [1.0, 1.0]]), InvalidArgument, "Eigen decomposition was not successful"),
    (lambda: L.inv([[np.nan, 2.0], [2.0, 1.0]]), InvalidArgument, "Input is not invertible"),
    (lambda: L.solve([[np.nan, 2.0], [2.0, 1.0]], tf.ones([2, 1])), InvalidArgument, "Input matrix is not invertible"),
    (lambda: L.lu([[np.nan, 2.0], [2.0, 1.0]]), InvalidArgument, "Input is not invertible"),
    (lambda: L.qr(tf.ones([2])), InvalidArgument, "rank >= 2"),
    (lambda: L.lstsq(tf.ones([3, 2]), tf.ones([2, 1])), InvalidArgument, "size-incompatible"),
    (lambda: L.pinv(tf.ones([2])), ValueError, "at least 2 dimensions"),
    (lambda: L.pinv(tf.ones([2, 2], tf.int32)), TypeError, "`float`-like"),
    (lambda: L.expm(tf.eye(2, dtype=tf.int32)), ValueError, "does not support matrices of type"),
    (lambda: L.logm(tf.eye(2)), InvalidArgument, "Value for attr 'T' of float"),
    (lambda: L.cross([1.0, 2.0], [1.0, 2.0]), tf.errors.FailedPreconditionError, "3-element vectors"),
    (lambda: L.cross(tf.ones([2, 3]), tf.ones([3])), InvalidArgument, "same shape"),
    (lambda: L.diag(1.0), InvalidArgument, "at least 1-dim"),
    (lambda: L.diag([1.0, 2.0], num_rows=1, num_cols=1), InvalidArgument, "number of rows is too small"),
    (lambda: L.diag([[1.0, 2.0]], k=(-1, 1)), InvalidArgument, "number of diagonals provided"),
    (lambda: L.diag_part(tf.eye(2), k=5), InvalidArgument, "out of bound: 5"),
    (lambda: L.diag_part(tf.eye(2), k=(1, 0)), InvalidArgument, "must not be larger"),
    (lambda: L.diag_part(tf.eye(2), align="UP"), InvalidArgument, "align"),
    (lambda: L.set_diag(tf.eye(3), [1.0, 2.0]), InvalidArgument, "expected diagonal shape"),
    (lambda: L.band_part(tf.eye(3), 5, 0), InvalidArgument, "num_lower must be negative"),
    (lambda: L.tensor_diag_part(tf.ones([2, 3])), InvalidArgument, "do not match"),
    (lambda: L.norm(tf.eye(2), ord="nuc", axis=[0, 1]), ValueError, "supported matrix norm"),
    (lambda: L.norm(tf.eye(2), axis=[0, 0]), ValueError, "2 unique integers"),
    (lambda: L.tridiagonal_solve(tf.ones([2, 3]), tf.ones([3])), ValueError, "Expected 3 diagonals got 2"),
    (lambda: L.tridiagonal_solve(tf.ones([3, 3]), tf.ones([3]), "other"), ValueError, "Unrecognized"),
    (lambda: L.banded_triangular_solve(tf.ones([2, 3]), tf.ones([3])), InvalidArgument, "ndims must be >= 2"),
]


@pytest.mark.parametrize(("call", "error", "says"), REFUSED)
def test_refused(call: Callable[[], Any], error: type[Exception], says: str):
    with pytest.raises(error, match=says):
        call()


def test_refused_when_a_gradient_is_asked_for():
    with pytest.raises(InvalidArgument, match="Input is not invertible"):
        gradient(L.det, [[1.0, 2.0], [2.0, 4.0]])
    with pytest.raises(LookupError, match="no entry for: Lu"):
        gradient(lambda x: L.lu(x)[0], [[4.0, 1.0], [1.0, 3.0]])
    with pytest.raises(LookupError, match="no entry for: MatrixLogarithm"):
        gradient(lambda x: tf.math.real(L.logm(tf.cast(x, tf.complex64))), [[4.0, 1.0], [1.0, 3.0]])
    with pytest.raises(NotImplementedError, match="nrows > ncols"):
        gradient(lambda x: L.qr(x, full_matrices=True)[1], numbers(4, 2))


def test_svd_of_what_is_not_finite_spoils_nothing_else():
    x = numbers(2, 3, 2)
    x[0, 0, 0] = np.nan
    s, u, v = L.svd(x)
    assert np.all(np.isnan(s[0]))
    near((u[1] * s[1]) @ tf.transpose(v[1]), x[1], 1e-12)
    near(L.svd(x, compute_uv=False)[1], s[1], 1e-12)


@pytest.mark.parametrize("rows", [1, 7, 8, 64, 65])
@pytest.mark.parametrize("inner", [255, 256])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_times_a_transposed_matrix(rows, inner, dtype):
    """Few rows are multiplied the other way round: the same numbers in the same layout."""
    x, y = numbers(rows, inner, dtype=dtype), numbers(300, inner, dtype=dtype, seed=1)
    product = kernels.matmul(x, y, adjoint_y=True)
    assert product.shape == (rows, 300)
    assert product.dtype == dtype
    assert product.flags.c_contiguous
    np.testing.assert_allclose(product, x.astype("float64") @ y.astype("float64").T, atol=100 * CLOSE[dtype], rtol=0)


# -- products in another dtype ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("x", "y", "wanted"),
    [
        ("int8", "int8", "int32"),
        ("uint8", "int8", "int32"),
        ("bfloat16", "bfloat16", "float32"),
        ("float16", "float16", "float32"),
    ],
)
def test_output_type_is_the_dtype_of_the_product(x: str, y: str, wanted: str):
    a, b = tf.constant([[100, 101]], x), tf.constant([[2], [3]], y)
    for result in (
        tf.matmul(a, b, output_type=wanted),
        tf.matmul(tf.transpose(a), tf.transpose(b), transpose_a=True, transpose_b=True, output_type=wanted),
        tf.matmul(a[None], b[None], output_type=tf.as_dtype(wanted))[0],
    ):
        assert result.dtype == wanted
        assert result.numpy().tolist() == [[503]]


def test_the_gradient_of_a_product_in_another_dtype():
    a = tf.constant([[1.0, 2.0]], tf.bfloat16)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(a)
        y = tf.matmul(a, [[3.0], [4.0]], output_type=tf.float32)
    assert tape.gradient(y, a).dtype == tf.bfloat16
    assert tape.gradient(y, a).numpy().astype(float).tolist() == [[3.0, 4.0]]


@pytest.mark.parametrize("mode", ["eager", "compiled"])
def test_matrices_that_are_not_finite(mode):
    """As TensorFlow 2.21: nan in the first pivot is refused, elsewhere it stays; eigh reads one triangle."""
    run = (lambda f: f) if mode == "eager" else (lambda f: tf.function(f, autograph=False))
    infinite = tf.constant([[[1.0, 0.0], [0.0, 5.0]], [[np.inf, 2.0], [2.0, 1.0]]])
    values, vectors = run(L.eigh)(infinite)
    np.testing.assert_allclose(values, [[1.0, 5.0], [np.nan, np.nan]])
    assert np.isnan(vectors.numpy()).any(axis=(1, 2)).tolist() == [False, True]
    upper = tf.constant([[1.0, np.nan], [2.0, 1.0]])
    np.testing.assert_allclose(run(L.eigvalsh)(upper), [-1.0, 3.0], rtol=1e-6)
    with pytest.raises(InvalidArgument, match="Self-adjoint eigen decomposition was not successful"):
        run(L.eigvalsh)(tf.transpose(upper))
    assert np.isnan(run(L.inv)(upper)).any()
    with pytest.raises(InvalidArgument, match="Input is not invertible"):
        run(L.inv)(tf.constant([[np.nan, 2.0], [2.0, 1.0]]))
    for bad in (np.nan, np.inf):
        assert np.isnan(run(L.pinv)(tf.constant([[bad, 1.0], [1.0, 2.0]]))).all()
