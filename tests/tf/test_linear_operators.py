"""Linear operators do what their matrices do."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

L = tf.linalg
RNG = np.random.default_rng(0)
M = RNG.normal(size=(3, 3)) + 3 * np.eye(3)
SPD = M @ M.T
BATCH = RNG.normal(size=(2, 3, 3)) + 3 * np.eye(3)

OPERATORS = {
    "full": lambda: L.LinearOperatorFullMatrix(M),
    "full batch": lambda: L.LinearOperatorFullMatrix(BATCH),
    "positive definite": lambda: L.LinearOperatorFullMatrix(SPD, is_self_adjoint=True, is_positive_definite=True),
    "lower": lambda: L.LinearOperatorLowerTriangular(M),
    "lower batch": lambda: L.LinearOperatorLowerTriangular(BATCH),
    "diag": lambda: L.LinearOperatorDiag(M[0]),
    "diag batch": lambda: L.LinearOperatorDiag(BATCH[:, 0]),
    "complex diag": lambda: L.LinearOperatorDiag(M[0] + 1j * M[1]),
    "identity": lambda: L.LinearOperatorIdentity(3, dtype=tf.float64),
    "identity batch": lambda: L.LinearOperatorIdentity(3, [2], dtype=tf.float64),
    "scaled": lambda: L.LinearOperatorScaledIdentity(3, tf.constant(2.5, tf.float64)),
    "scaled batch": lambda: L.LinearOperatorScaledIdentity(3, M[0]),
    "blocks": lambda: L.LinearOperatorBlockDiag([L.LinearOperatorFullMatrix(M), L.LinearOperatorDiag(M[1])]),
    "kronecker": lambda: L.LinearOperatorKronecker([L.LinearOperatorFullMatrix(M), L.LinearOperatorFullMatrix(SPD)]),
    "composition": lambda: L.LinearOperatorFullMatrix(M).matmul(L.LinearOperatorDiag(M[1])),
    "adjoint": lambda: L.LinearOperatorFullMatrix(M).adjoint(),
    "inverse": lambda: L.LinearOperatorFullMatrix(M).inverse(),
    "update": lambda: L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(np.abs(M[0]) + 1), M[:, :2]),
    "scaled update": lambda: L.LinearOperatorLowRankUpdate(
        L.LinearOperatorFullMatrix(M), M[:, :2], diag_update=[2.0, 3.0], v=SPD[:, :2] / 10
    ),
    "householder": lambda: L.LinearOperatorHouseholder(M[0]),
    "permutation": lambda: L.LinearOperatorPermutation([2, 0, 1], dtype=tf.float64),
    "tridiag": lambda: L.LinearOperatorTridiag(np.array([[1.0, 2, 0], [7, 8, 9], [0, 3, 4]])),
    "tridiag matrix": lambda: L.LinearOperatorTridiag(M, diagonals_format="matrix"),
    "toeplitz": lambda: L.LinearOperatorToeplitz(np.array([5.0, 2, 1]), np.array([5.0, 3, 4])),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator_is_its_matrix(name):
    a = OPERATORS[name]()
    dense = a.to_dense().numpy()
    n = dense.shape[-1]
    x = tf.constant(np.arange(2.0 * n).reshape(n, 2) + 1, a.dtype)
    assert a.shape == dense.shape
    assert a.shape_tensor().numpy().tolist() == list(dense.shape)
    close = lambda ours, theirs: np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-8)  # noqa: E731
    conjugate = np.conj(np.swapaxes(dense, -1, -2))
    close(a.matmul(x), dense @ x.numpy())
    close(a.matmul(x, adjoint=True), conjugate @ x.numpy())
    close(a.matmul(tf.linalg.adjoint(x), adjoint_arg=True), dense @ x.numpy())
    close(a.matvec(x[:, 0]), dense @ x.numpy()[:, 0])
    close(a.solve(x), np.linalg.solve(dense, x.numpy()))
    close(a.solve(x, adjoint=True), np.linalg.solve(conjugate, x.numpy()))
    close(a.solvevec(x[:, 0]), np.linalg.solve(dense, x.numpy())[..., 0])
    close(a.inverse().to_dense(), np.linalg.inv(dense))
    close(a.adjoint().to_dense(), conjugate)
    close(a.determinant(), np.linalg.det(dense))
    close(a.log_abs_determinant(), np.linalg.slogdet(dense)[1])
    close(a.diag_part(), np.diagonal(dense, axis1=-2, axis2=-1))
    close(a.trace(), np.trace(dense, axis1=-2, axis2=-1))
    close(a.add_to_tensor(tf.ones(dense.shape, a.dtype)), dense + 1)
    if a.is_self_adjoint:
        close(np.sort(a.eigvals(), axis=-1), np.linalg.eigvalsh(dense))


def test_zeros():
    a = L.LinearOperatorZeros(2, 3)
    assert a.matmul(tf.ones([3, 4])).numpy().tolist() == [[0.0] * 4] * 2
    assert a.adjoint().shape == (3, 2)
    assert not a.is_square
    with pytest.raises(NotImplementedError, match="singular"):
        a.solve(tf.ones([2, 1]))
    with pytest.raises(NotImplementedError, match="not be square"):
        a.determinant()


def test_cholesky_and_assertions():
    a = OPERATORS["positive definite"]()
    factor = a.cholesky()
    np.testing.assert_allclose(factor.matmul(factor.adjoint()).to_dense(), SPD, rtol=1e-10)
    a.assert_positive_definite()
    a.assert_self_adjoint()
    a.assert_non_singular()
    with pytest.raises(tf.errors.InvalidArgumentError, match="not positive definite"):
        L.LinearOperatorFullMatrix(-SPD).assert_positive_definite()
    with pytest.raises(tf.errors.InvalidArgumentError, match="adjoint"):
        L.LinearOperatorFullMatrix(M).assert_self_adjoint()
    with pytest.raises(ValueError, match="Not a positive definite"):
        L.LinearOperatorFullMatrix(M).cholesky()


def test_gradients_flow_to_variables():
    v = tf.Variable(M)
    with tf.GradientTape() as tape:
        a = L.LinearOperatorLowerTriangular(v)
        loss = tf.reduce_sum(a.solvevec(tf.constant([1.0, 2.0, 3.0], tf.float64))) + a.log_abs_determinant()
    gradient = tape.gradient(loss, v).numpy()
    assert np.all(np.triu(gradient, 1) == 0)
    h = 1e-6
    for i, j in ((0, 0), (2, 1)):
        step = np.zeros((3, 3))
        step[i, j] = h

        def value(m):
            low = np.tril(m)
            return np.linalg.solve(low, [1.0, 2.0, 3.0]).sum() + np.linalg.slogdet(low)[1]

        assert gradient[i, j] == pytest.approx((value(M + step) - value(M - step)) / (2 * h), rel=1e-5)


def test_a_class_of_ones_own():
    class Doubling(L.LinearOperator):
        def __init__(self, n):
            self.n = n
            super().__init__(tf.float32, is_square=True)

        def _shape(self):
            return tf.TensorShape([self.n, self.n])

        def _matmul(self, x, adjoint=False, adjoint_arg=False):
            return 2.0 * (tf.linalg.adjoint(x) if adjoint_arg else x)

    a = Doubling(3)
    assert a.to_dense().numpy().tolist() == (2 * np.eye(3)).tolist()
    assert float(a.determinant()) == pytest.approx(8.0)
    assert (a @ a).matvec([1.0, 2.0, 3.0]).numpy().tolist() == [4.0, 8.0, 12.0]


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: L.LinearOperatorFullMatrix([1.0]), ValueError, "at least 2 dimensions"),
        (lambda: L.LinearOperatorDiag(1.0), ValueError, "at least 1 dimension"),
        (lambda: L.LinearOperatorFullMatrix(M).matmul(tf.ones([3, 1])), TypeError, "dtype"),
        (lambda: L.LinearOperatorFullMatrix(M).matmul(L.LinearOperatorIdentity(2)), ValueError, "incompatible"),
        (lambda: L.LinearOperatorComposition([]), ValueError, "non-empty"),
        (lambda: L.LinearOperatorIdentity(-1), ValueError, "non-negative"),
        (lambda: L.LinearOperatorFullMatrix(M, is_positive_definite=True, is_non_singular=False), ValueError, "always"),
        (lambda: L.LinearOperatorTridiag(M, diagonals_format="x"), ValueError, "must be one of"),
        (lambda: L.LinearOperatorFullMatrix(M).eigvals(), NotImplementedError, "self-adjoint"),
    ],
)
def test_errors(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_operators_inside_functions():
    @tf.function
    def f(x, y):
        return L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(x), y).solvevec(x)

    x, y = tf.constant(np.abs(M[0]) + 1), tf.constant(M[:, :1])
    np.testing.assert_allclose(f(x, y), np.linalg.solve(np.diag(x) + y.numpy() @ y.numpy().T, x), rtol=1e-10)
