"""Inverses, determinants, factorisations and functions of matrices: TensorFlow's names over the primitives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known, unknown_shape
from gradtape._src.conversion import convert, has_dtype, operand
from gradtape._src.dtypes import as_dtype
from gradtape._src.ops import array, factorisations, linalg, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import choice, flag, index_type, same_dtype, static, truth
from gradtape._src.tf.diagonals import diag, diag_part
from gradtape._src.tf.matrices import adjoint_of, checked_matrix, constant_like, index_last, real_part, via_float32

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

_FLOAT32 = np.dtype(np.float32)


class LogMatrixDeterminant(NamedTuple):
    """The result of `slogdet`."""

    sign: Tensor
    log_abs_determinant: Tensor


class Qr(NamedTuple):
    """The result of `qr`."""

    q: Tensor
    r: Tensor


class Lu(NamedTuple):
    """The result of `lu`."""

    lu: Tensor
    p: Tensor


# -- inverses and determinants ---------------------------------------------------------------------------------------
def inv(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Compute the inverse of square matrices, or of their adjoints.

    >>> tf.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    result: Tensor = via_float32(factorisations.inv, checked_matrix(operand(input), "MatrixInverse"))
    return adjoint_of(result) if flag(adjoint, "adjoint") else result


def det(input: TensorLike, name: str | None = None) -> Tensor:
    """Compute the determinant.

    >>> tf.linalg.det([[4.0, 1.0], [2.0, 3.0]]).numpy().round(4).item()
    10.0
    """
    return via_float32(factorisations.det, checked_matrix(operand(input), "MatrixDeterminant"))


def slogdet(input: TensorLike, name: str | None = None) -> LogMatrixDeterminant:
    """Compute the sign of the determinant and the logarithm of its absolute value, without overflow.

    >>> sign, log = tf.linalg.slogdet([[0.0, 2.0], [1.0, 0.0]])
    >>> float(sign), round(float(log), 4)
    (-1.0, 0.6931)
    """
    return LogMatrixDeterminant(
        *via_float32(factorisations.slogdet, checked_matrix(operand(input), "LogMatrixDeterminant"))
    )


def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Compute the logarithm of the determinant of Hermitian positive definite matrices.

    >>> print(tf.linalg.logdet([[2.0, 0.0], [0.0, 3.0]]).numpy().round(4))
    1.7918
    """
    factor = real_part(diag_part(cholesky(matrix)))
    total = reduce.sum_(math.log(factor), axis=(len(factor.array.shape) - 1,), keepdims=False)
    return 2.0 * total


# -- factorisations --------------------------------------------------------------------------------------------------
def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """Compute the lower triangular L with L L^H = input, for Hermitian positive definite matrices.

    >>> tf.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).numpy().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    return via_float32(factorisations.cholesky, checked_matrix(operand(input), "Cholesky"))


def lu(input: TensorLike, output_idx_type: Any = "int32", name: str | None = None) -> Lu:
    """Compute an LU decomposition with row swaps: both triangles in one matrix, and the order of the rows.

    >>> factors, rows = tf.linalg.lu([[1.0, 2.0], [4.0, 3.0]])
    >>> factors.numpy().tolist(), rows.numpy().tolist()
    ([[4.0, 3.0], [0.25, 1.25]], [1, 0])
    """
    wanted = index_type(output_idx_type, "Lu", "output_idx_type")
    factors, order = via_float32(factorisations.lu, checked_matrix(operand(input), "Lu"))
    return Lu(factors, order if order.array.dtype == wanted else array.discrete_cast(order, dtype=wanted))


def qr(input: TensorLike, full_matrices: bool = False, name: str | None = None) -> Qr:
    """Compute a QR decomposition: orthonormal columns times an upper triangular matrix.

    >>> q, r = tf.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> (q @ r).numpy().round(5).tolist()
    [[3.0, 1.0], [4.0, 2.0]]
    """
    x = checked_matrix(operand(input), "Qr", square=False)
    return Qr(*via_float32(factorisations.qr, x, full_matrices=flag(full_matrices, "full_matrices")))


def eigh(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Compute the eigenvalues (ascending) and eigenvectors (columns) of Hermitian matrices, using the lower triangle.

    >>> values, vectors = tf.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> values.numpy().round(5).tolist()
    [1.0, 3.0]
    """
    values, vectors = via_float32(factorisations.eigh, checked_matrix(operand(tensor), "SelfAdjointEigV2"))
    return values, vectors


def eigvalsh(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Compute the eigenvalues (ascending) of Hermitian matrices, using the lower triangle.

    >>> print(tf.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]]).numpy().round(4))
    [1. 3.]
    """
    return via_float32(factorisations.eigvalsh, checked_matrix(operand(tensor), "SelfAdjointEigV2"))


def eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Compute the complex eigenvalues and eigenvectors (columns of length 1) of square matrices.

    >>> values, vectors = tf.eig([[0.0, 1.0], [-1.0, 0.0]])
    >>> sorted(values.numpy().imag.tolist())
    [-1.0, 1.0]
    """
    values, vectors = factorisations.eig(_single(checked_matrix(operand(tensor), "Eig")))
    return values, vectors


def eigvals(tensor: TensorLike, name: str | None = None) -> Tensor:
    """Compute the complex eigenvalues of square matrices.

    >>> values = tf.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]]).numpy()
    >>> sorted(values.imag.round(4).tolist())
    [-1.0, 1.0]
    """
    return factorisations.eigvals(_single(checked_matrix(operand(tensor), "Eig")))


def _single(x: Tensor) -> Tensor:
    """Cast to float32 at least: there are no complex numbers with fewer bits."""
    narrow = x.array.dtype
    return array.astype(x, dtype=_FLOAT32, source=narrow) if narrow.itemsize <= 2 else x


def svd(tensor: TensorLike, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Compute singular values (descending), left and right singular vectors (columns): tensor = u diag(s) v^H.

    >>> tf.linalg.svd([[3.0, 0.0], [0.0, 4.0]], compute_uv=False).numpy().tolist()
    [4.0, 3.0]
    """
    x = checked_matrix(operand(tensor), "Svd", square=False)
    full = flag(full_matrices, "full_matrices")
    if flag(compute_uv, "compute_uv", True):
        return via_float32(factorisations.svd, x, full_matrices=full)
    return via_float32(factorisations.svdvals, x)


def pinv(a: TensorLike, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Compute the pseudo-inverse; singular values up to `rcond` times the largest count as 0.

    >>> tf.linalg.pinv([[1.0], [1.0]]).numpy().round(5).tolist()
    [[0.5, 0.5]]
    """
    x = operand(a)
    _check_matrix(x)
    if rcond is None:
        rcond = 10.0 * max(x.array.shape[-2:]) * _epsilon(x)
    else:
        rcond = convert(rcond, None if has_dtype(rcond) else x.dtype.real_dtype)
        if rcond.dtype != x.dtype.real_dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {x.dtype.real_dtype.name} for Tensor with dtype "
                f"{rcond.dtype.name}: {rcond!r}"
            )
        if (
            rcond.array.shape != x.array.shape[: len(rcond.array.shape)]
            or len(rcond.array.shape) > len(x.array.shape) - 2
        ):
            raise ValueError(f"The shape of rcond {rcond.shape} is not compatible with the batch shape {x.shape}.")
    truth(validate_args)
    ratio = np.asarray(static(rcond), np.float64)
    return _cut_pinv(x, ratio) if _cuts(x, ratio) else via_float32(factorisations.pinv, x, rcond=ratio)


def _cuts(x: Tensor, rcond: Any) -> bool:
    """Whether rcond removes singular values that are not zero up to rounding (or may, if they are unknown)."""
    if not is_known(x):
        return bool(np.any(rcond > 10.0 * max(x.array.shape[-2:]) * _epsilon(x)))
    try:
        values = np.linalg.svd(np.asarray(x.array).astype(np.result_type(x.array.dtype, np.float32)), compute_uv=False)
    except np.linalg.LinAlgError:  # it contains nan, and so does the inverse
        return False
    if not values.size:
        return False
    top = values[..., :1]
    noise = 10.0 * max(x.array.shape[-2:]) * _epsilon(x)
    return bool(np.any((values <= top * rcond[..., None]) & (values > top * noise)))


def _cut_pinv(x: Tensor, rcond: Any) -> Tensor:
    """The pseudo-inverse if rcond removes real singular values: the rank is not x's, so factors are differentiated."""
    s, u, v = svd(x)
    kept = math.greater(s, index_last(s, slice(0, 1)) * constant_like(s, rcond[..., None]))
    inverse = math.where(kept, 1 / math.where(kept, s, 1), 0)
    weights = array.reshape(inverse, shape=(*inverse.array.shape[:-1], 1, inverse.array.shape[-1]))
    if x.dtype.is_complex:
        weights = array.astype(weights, dtype=x.array.dtype, source=weights.array.dtype)
    return linalg.matmul(v * weights, u, adjoint_y=True)


def matrix_rank(a: TensorLike, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Count the singular values above `tol` (by default, those that rounding cannot have turned from 0).

    A `tol` with axes is compared with the singular values directly, so it needs a last axis of size 1.

    >>> tf.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).numpy().item()
    1
    """
    x = convert(a, dtype_hint="float32")
    if not x.dtype.is_floating:
        raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {x.dtype.name}).")
    _check_matrix(x)
    s = via_float32(factorisations.svdvals, x)
    if tol is None:
        largest = index_last(s, slice(0, 1))
        limit = largest * (max(x.array.shape[-2:]) * _epsilon(x))
    else:
        limit = same_dtype(tol, s.dtype, "Greater", "tol")
    count = array.discrete_cast(math.greater(s, limit), dtype=np.dtype(np.int32))
    return reduce.sum_(count, axis=(len(s.array.shape) - 1,), keepdims=False)


def _check_matrix(x: Tensor) -> None:
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {x.dtype.name}).")
    if len(x.array.shape) < 2:
        raise ValueError(f"Input `a` must have at least 2 dimensions (saw: {len(x.array.shape)}).")


def _epsilon(x: Tensor) -> float:
    kind = x.array.dtype
    return float(np.finfo(kind if kind.itemsize > 2 else _FLOAT32).eps)


def eigh_tridiagonal(
    alpha: TensorLike,
    beta: TensorLike,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Any = None,
    tol: Any = None,
    name: str | None = None,
) -> Any:
    """Compute eigenvalues (and vectors) of Hermitian tridiagonal matrices with diagonal alpha and superdiagonal beta.

    `select` "a" returns all eigenvalues, "i" those with indices in `select_range`, "v" those in the interval [low,
    high], which is widened to allow for rounding.

    >>> print(tf.linalg.eigh_tridiagonal([2.0, 2.0], [1.0]).numpy().round(4))
    [1. 3.]
    """
    main, side = operand(alpha), operand(beta)
    if main.array.dtype != side.array.dtype:
        raise ValueError(f"'alpha' and 'beta' must have the same type. Received {main.dtype.name}, {side.dtype.name}.")
    choice(select, "select", ("a", "i", "v"))
    for word, vector in (("alpha", main), ("beta", side)):
        if len(vector.array.shape) != 1:
            raise ValueError(f"'{word}' must be a vector. Received shape {vector.shape}.")
    if side.array.shape[0] != max(main.array.shape[0] - 1, 0):
        raise errors.invalid_argument(
            f"'beta' must be one element shorter than 'alpha'. Received {side.shape} and {main.shape}."
        )
    if select != "a" and select_range is None:
        raise TypeError(f"'NoneType' object is not subscriptable: `select_range` must be given when select={select!r}.")
    # eigh reads the lower triangle: the subdiagonal is the conjugate of beta.
    matrix = diag(main) + diag(math.conj(side), k=-1)
    if truth(eigvals_only):
        values = eigvalsh(matrix)
        vectors = None
    else:
        values, vectors = eigh(matrix)
    values = real_part(values)
    if select != "a":
        low, high = (np.asarray(static(v)).item() for v in static(select_range))
        if select == "v" and not is_known(values):
            raise unknown_shape("tf.linalg.eigh_tridiagonal with select='v'", "Use select='i' or 'a'.")
        picked = (
            _within_indices(values, low, high) if select == "i" else _within_interval(main, side, values, low, high)
        )
        values = index_last(values, picked)
        vectors = None if vectors is None else index_last(vectors, picked)
    return values if vectors is None else (values, vectors)


def _within_indices(values: Tensor, low: Any, high: Any) -> Any:
    if not (isinstance(low, int) and isinstance(high, int)):
        raise errors.mismatched_dtypes("LessEqual", as_dtype("int32"), as_dtype("float32"))
    if low > high:
        raise errors.refused_value(
            f"Got empty index range in select_range. Condition x <= y did not hold: {low}, {high}"
        )
    count = values.array.shape[-1]
    if low < 0 or high >= count:
        raise errors.refused_value(f"select_range {[low, high]} does not lie within the {count} eigenvalues")
    return np.arange(low, high + 1)


def _within_interval(main: Tensor, side: Tensor, values: Tensor, low: Any, high: Any) -> Any:
    if not low < high:
        raise errors.refused_value(f"Got empty interval in select_range. Condition x < y did not hold: {low}, {high}")
    known, sides = np.asarray(values.array), np.absolute(np.asarray(side.array))
    reach = np.concatenate([sides, [0]]) + np.concatenate([[0], sides])
    bound = np.max(np.absolute(np.asarray(main.array)) + reach, initial=0)  # on all eigenvalues, by Gershgorin
    slack = 2.1 * len(known) * np.finfo(known.dtype).eps * bound
    return np.flatnonzero((known >= low - slack) & (known <= high + slack))


# -- functions of matrices -------------------------------------------------------------------------------------------
def expm(input: TensorLike, name: str | None = None) -> Tensor:
    """Compute the matrix exponential.

    >>> tf.linalg.expm([[0.0, 1.0], [0.0, 0.0]]).numpy().tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    x = operand(input)
    if len(x.array.shape) < 2:
        raise errors.invalid_argument(
            f"Input tensor 0 must have rank >= 2, got {len(x.array.shape)}", "MatrixExponential"
        )
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise ValueError(f"tf.linalg.expm does not support matrices of type {x.dtype!r}")
    if tuple(x.array.shape[-2:]) == (0, 0):
        return array.identity(x)
    return via_float32(factorisations.expm, checked_matrix(x, "MatrixExponential"))


def sqrtm(input: TensorLike, name: str | None = None) -> Tensor:
    """Compute the principal square root of matrices.

    >>> tf.matrix_square_root([[4.0, 0.0], [0.0, 9.0]]).numpy().tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return via_float32(factorisations.sqrtm, checked_matrix(operand(input), "MatrixSquareRoot"))


def logm(input: TensorLike, name: str | None = None) -> Tensor:
    """Compute the principal logarithm of complex matrices.

    >>> print(tf.linalg.logm(tf.constant([[1.0, 0.0], [0.0, 2.0]], tf.complex64)).numpy().round(4))
    [[0.    +0.j 0.    +0.j]
     [0.    +0.j 0.6931+0.j]]
    """
    x = checked_matrix(operand(input), "MatrixLogarithm")
    if not x.dtype.is_complex:
        raise errors.unsupported_dtype("MatrixLogarithm", x.dtype)
    return factorisations.logm(x)
