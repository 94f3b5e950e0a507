"""`tf.linalg`: inverses, linear systems, factorisations, functions of matrices, diagonals and bands."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, checked
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import current_graph, is_known, unknown_shape
from gradtape._src.autodiff.custom_gradient import custom_gradient
from gradtape._src.conversion import constant_operand, convert, hinted_operands, is_library, operand, operands
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.ops import array, factorisations, index, linalg, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import (
    allowed_text,
    choice,
    flag,
    index_type,
    integer,
    integers,
    same_dtype,
    scalar_operand,
    static,
    truth,
)
from gradtape._src.tf.array import cast, positions
from gradtape._src.tf.control_flow import while_loop
from gradtape._src.tf.indexing import PERMUTATION

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


class CGState(NamedTuple):
    """The result of `experimental.conjugate_gradient`."""

    i: Tensor
    x: Tensor
    r: Tensor
    p: Tensor
    gamma: Tensor


# -- reading arguments -----------------------------------------------------------------------------------------------
def _checked(x: Tensor, op: str, *, square: bool = True) -> Tensor:
    """A stack of matrices of floating or complex numbers, or TensorFlow's error."""
    shape = x.array.shape
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise errors.unsupported_dtype(op, x.dtype, "fc")
    if len(shape) < 2:
        raise errors.invalid_argument(
            f"Input tensor 0 must have rank >= 2, got {len(shape)}. Received shape {errors.brackets(shape)}.", op
        )
    if square and shape[-1] != shape[-2]:
        raise errors.invalid_argument(f"Input matrix must be square. Received shape {errors.brackets(shape)}.", op)
    return x


def _widened(function: Callable[..., Any], *given: Tensor, **attrs: Any) -> Any:
    """Run a primitive; float16 and bfloat16, for which there are no factorisations, by way of float32."""
    narrow = given[0].array.dtype
    if narrow.itemsize > 2:
        return function(*given, **attrs)
    result = function(*(array.astype(x, dtype=_FLOAT32, source=narrow) for x in given), **attrs)

    def back(x: Tensor) -> Tensor:
        floating = x.array.dtype == _FLOAT32
        return array.astype(x, dtype=narrow, source=_FLOAT32) if floating else x

    return tuple(map(back, result)) if isinstance(result, tuple) else back(result)


def _pair(matrix: Any, rhs: Any, op: str) -> tuple[Tensor, Tensor]:
    x, y = operands(matrix, rhs)
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes(op, x.dtype, y.dtype)
    return x, y


def _slices(x: Tensor, *last: Any) -> Tensor:
    """x with an index for its last axes."""
    lead = (slice(None),) * (len(x.array.shape) - len(last))
    return array.getitem(x, index=(*lead, *last))


def _plain(x: Tensor, value: Any) -> Tensor:
    """A constant of x's dtype."""
    return constant_operand(np.asarray(value, x.array.dtype))


def _adjoint(x: Tensor) -> Tensor:
    rank = len(x.array.shape)
    flipped: Tensor = array.transpose(x, perm=(*range(rank - 2), rank - 1, rank - 2))
    return math.conj(flipped) if x.dtype.is_complex else flipped


def _real(x: Tensor) -> Tensor:
    return math.real(x) if x.dtype.is_complex else x


def _matmul(x: Tensor, y: Tensor, adjoint_x: bool = False, adjoint_y: bool = False) -> Tensor:
    return linalg.matmul(x, y, adjoint_x=adjoint_x, adjoint_y=adjoint_y)


# -- inverses and determinants ---------------------------------------------------------------------------------------
def inv(input: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The inverse of square matrices, or of their adjoints.

    >>> tf.linalg.inv([[2.0, 0.0], [0.0, 4.0]]).numpy().tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    result: Tensor = _widened(factorisations.inv, _checked(operand(input), "MatrixInverse"))
    return _adjoint(result) if flag(adjoint, "adjoint") else result


def det(input: TensorLike, name: str | None = None) -> Tensor:
    """The determinant.

    >>> tf.linalg.det([[4.0, 1.0], [2.0, 3.0]]).numpy().round(4).item()
    10.0
    """
    return _widened(factorisations.det, _checked(operand(input), "MatrixDeterminant"))


def slogdet(input: TensorLike, name: str | None = None) -> LogMatrixDeterminant:
    """The sign of the determinant and the logarithm of its absolute value, without overflow.

    >>> sign, log = tf.linalg.slogdet([[0.0, 2.0], [1.0, 0.0]])
    >>> float(sign), round(float(log), 4)
    (-1.0, 0.6931)
    """
    return LogMatrixDeterminant(*_widened(factorisations.slogdet, _checked(operand(input), "LogMatrixDeterminant")))


def logdet(matrix: TensorLike, name: str | None = None) -> Tensor:
    """The logarithm of the determinant of Hermitian positive definite matrices.

    >>> print(tf.linalg.logdet([[2.0, 0.0], [0.0, 3.0]]).numpy().round(4))
    1.7918
    """
    factor = _real(diag_part(cholesky(matrix)))
    total = reduce.sum_(math.log(factor), axis=(len(factor.array.shape) - 1,), keepdims=False)
    return 2.0 * total


# -- linear systems --------------------------------------------------------------------------------------------------
def solve(matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """The solution x of matrix x = rhs.

    >>> tf.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [2.0]]).numpy().tolist()
    [[1.0], [0.5]]
    """
    x, y = _pair(matrix, rhs, "MatrixSolve")
    _checked(x, "MatrixSolve")
    a, b = x.array.shape, y.array.shape
    if len(a) != len(b):
        raise errors.invalid_argument(
            f"All input tensors must have the same rank. Received shapes {errors.brackets(a)} and "
            f"{errors.brackets(b)}; a vector is given as a matrix with one column.",
            "MatrixSolve",
        )
    if a[:-2] != b[:-2]:
        raise errors.invalid_argument(
            f"All input tensors must have the same outer dimensions. Received shapes {errors.brackets(a)} and "
            f"{errors.brackets(b)}.",
            "MatrixSolve",
        )
    if a[-1] != b[-2]:
        raise errors.invalid_argument(
            f"Input matrix and rhs are incompatible. Received shapes {errors.brackets(a)} and {errors.brackets(b)}.",
            "MatrixSolve",
        )
    return _widened(factorisations.solve, x, y, adjoint=flag(adjoint, "adjoint"))


def triangular_solve(
    matrix: TensorLike, rhs: TensorLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """The solution x of matrix x = rhs, where only one triangle of the matrix is read; batch axes broadcast.

    >>> tf.linalg.triangular_solve([[2.0, 9.0], [1.0, 4.0]], [[2.0], [5.0]]).numpy().tolist()
    [[1.0], [1.0]]
    """
    x, y = _pair(matrix, rhs, "MatrixTriangularSolve")
    a, b = x.array.shape, y.array.shape
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise errors.unsupported_dtype("MatrixTriangularSolve", x.dtype)
    for position, shape in enumerate((a, b)):
        if len(shape) < 2:
            raise errors.invalid_argument(
                f"In[{position}] ndims must be >= 2: {len(shape)}. A vector is given as a matrix with one column.",
                "MatrixTriangularSolve",
            )
    if a[-1] != a[-2]:
        raise errors.invalid_argument(
            f"In[0] matrices in the last dimensions must be square ({a[-1]} =/= {a[-2]})", "MatrixTriangularSolve"
        )
    if a[-1] != b[-2]:
        raise errors.invalid_argument(
            f"In[0] mismatch In[1] shape: {a[-1]} vs. {b[-2]}: {errors.brackets(a)} {errors.brackets(b)}",
            "MatrixTriangularSolve",
        )
    _broadcast_batches(a, b, "MatrixTriangularSolve")
    below, conjugate = flag(lower, "lower", True), flag(adjoint, "adjoint")
    return _widened(factorisations.triangular_solve, x, y, lower=below, adjoint=conjugate)


def _broadcast_batches(a: tuple[int, ...], b: tuple[int, ...], op: str) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise errors.invalid_argument(
            f"In[0] and In[1] must have compatible batch dimensions: {errors.brackets(a)} vs. {errors.brackets(b)}", op
        ) from None


def cholesky_solve(chol: Any, rhs: TensorLike, name: str | None = None) -> Tensor:
    """The solution x of A x = rhs, given the Cholesky factor of A.

    >>> chol = tf.linalg.cholesky([[4.0, 0.0], [0.0, 1.0]])
    >>> tf.linalg.cholesky_solve(chol, [[8.0], [3.0]]).numpy().tolist()
    [[2.0], [3.0]]
    """
    x, y = _pair(chol, rhs, "MatrixTriangularSolve")
    return triangular_solve(x, triangular_solve(x, y), adjoint=True)


def _real_dtype(x: Tensor) -> DType:
    return x.dtype.real_dtype


def lstsq(
    matrix: TensorLike, rhs: TensorLike, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """Least squares: the x that minimizes |matrix x - rhs|² + l2_regularizer |x|².

    `fast` solves the normal equations; otherwise a pseudo-inverse is used, which takes matrices of any rank, gives
    the shortest x, and ignores the regularizer, as in TensorFlow.

    >>> print(tf.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [[1.0], [3.0], [5.0]]).numpy().round(4))
    [[1.]
     [2.]]
    """
    x, y = _pair(matrix, rhs, "MatrixSolveLs")
    _checked(x, "MatrixSolveLs", square=False)
    if len(y.array.shape) < 2 or x.array.shape[-2] != y.array.shape[-2]:
        raise errors.invalid_argument(
            f"Matrix size-incompatible: In[0]: {errors.brackets(x.array.shape)}, In[1]: "
            f"{errors.brackets(y.array.shape)}. Both must have the same number of rows.",
            "MatrixSolveLs",
        )
    strength = scalar_operand(l2_regularizer, _real_dtype(x), "MatrixSolveLs", "l2_regularizer")
    if fast is not True and not truth(fast):
        return _matmul(pinv(x), y)
    rows, columns = x.array.shape[-2:]
    tall = rows >= columns
    gram = _matmul(x, x, adjoint_x=True) if tall else _matmul(x, x, adjoint_y=True)
    if not is_known(strength):
        gram = gram + np.eye(min(rows, columns)).astype(x.array.dtype) * strength.array.astype(x.array.dtype)
    elif np.any(np.asarray(strength.array)):
        gram = gram + _plain(x, np.eye(min(rows, columns)) * np.asarray(strength.array))
    factor = cholesky(gram)
    if tall:
        return cholesky_solve(factor, _matmul(x, y, adjoint_x=True))
    return _matmul(x, cholesky_solve(factor, y), adjoint_x=True)


_FORMATS = ("compact", "sequence", "matrix")


def _bands(diagonals: Any, diagonals_format: str) -> Tensor:
    """Tridiagonal matrices in compact form: [..., 3, n] with superdiagonal, diagonal, subdiagonal."""
    choice(diagonals_format, "diagonals_format", _FORMATS, "Unrecognized diagonals_format.")
    if diagonals_format == "compact":
        compact = operand(diagonals)
    elif diagonals_format == "matrix":
        x = operand(diagonals)
        if len(x.array.shape) < 2 or x.array.shape[-1] != x.array.shape[-2]:
            raise ValueError(f"Expected last two dimensions of diagonals to be same, got shape {x.array.shape}")
        n = x.array.shape[-1]
        if n == 1:
            zero = x * 0
            compact = array.concatenate(zero, x, zero, axis=len(x.array.shape) - 2)
        else:
            compact = diag_part(x, k=(-1, 1), align="LEFT_RIGHT")
    else:
        if not isinstance(diagonals, (list, tuple)) or len(diagonals) != 3:
            raise ValueError("Expected diagonals to be a sequence of length 3.")
        upper, main, lower = (operand(d) for d in diagonals)
        n, rank = main.array.shape[-1], len(main.array.shape)
        none = (0,) * (rank - 1)
        if upper.array.shape[-1] == n - 1:
            upper = array.pad(upper, before=(0,) * rank, after=(*none, 1))
        if lower.array.shape[-1] == n - 1:
            lower = array.pad(lower, before=(*none, 1), after=(0,) * rank)
        for band in (upper, lower):
            if band.array.shape != main.array.shape:
                raise ValueError(
                    f"Expected superdiagonal and subdiagonal of length {n} or {n - 1}, got {band.array.shape[-1]}."
                )
        compact = array.stack(upper, main, lower, axis=rank - 1)
    shape = compact.array.shape
    if len(shape) < 2:
        raise ValueError(f"Expected diagonals to have rank at least 2, got {len(shape)}")
    if shape[-2] != 3:
        raise ValueError(f"Expected 3 diagonals got {shape[-2]}")
    return compact


def tridiagonal_solve(
    diagonals: TensorLike,
    rhs: TensorLike,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """The solution of tridiagonal systems, in time proportional to their size.

    Rows are always swapped where that is more accurate; `partial_pivoting` has no effect.

    >>> tf.linalg.tridiagonal_solve(
    ...     [[1.0, 1.0, 0.0], [4.0, 4.0, 4.0], [0.0, 1.0, 1.0]], [5.0, 6.0, 5.0]
    ... ).numpy().tolist()
    [1.0, 1.0, 1.0]
    """
    bands = _bands(diagonals, diagonals_format)
    y = operand(rhs, bands.dtype)
    if bands.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes("TridiagonalSolve", bands.dtype, y.dtype)
    rank, got = len(bands.array.shape), len(y.array.shape)
    if got not in (rank, rank - 1):
        raise ValueError(f"Expected the rank of rhs to be {rank - 1} or {rank}, got {got}")
    if bands.array.shape[:-2] != y.array.shape[: rank - 2]:
        raise ValueError(f"Batch shapes {bands.array.shape[:-2]} and {y.array.shape[: rank - 2]} are incompatible")
    if perturb_singular and not partial_pivoting:
        raise ValueError("partial_pivoting must be True if perturb_singular is True.")
    vector = got == rank - 1
    if vector:
        y = array.reshape(y, shape=(*y.array.shape, 1))
    elif transpose_rhs:
        y = array.transpose(y, perm=(*range(rank - 2), rank - 1, rank - 2))
    y = math.conj(y) if conjugate_rhs else y
    if bands.array.shape[-1] != y.array.shape[-2]:
        raise ValueError(
            "Expected number of left-hand sided and right-hand sides to be equal, got "
            f"{bands.array.shape[-1]} and {y.array.shape[-2]}"
        )
    result: Tensor = _widened(factorisations.tridiagonal_solve, bands, y)
    return array.reshape(result, shape=result.array.shape[:-1]) if vector else result


def tridiagonal_matmul(
    diagonals: TensorLike, rhs: TensorLike, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """Tridiagonal matrices times matrices.

    >>> tf.linalg.tridiagonal_matmul([[1, 1, 0], [4, 4, 4], [0, 1, 1]], [[1], [1], [1]]).numpy().tolist()
    [[5], [6], [5]]
    """
    bands = _bands(diagonals, diagonals_format)
    y = operand(rhs, bands.dtype)
    if bands.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes("TridiagonalMatMul", bands.dtype, y.dtype)
    rank = len(bands.array.shape)
    if len(y.array.shape) != rank:
        raise errors.invalid_argument("All input tensors must have the same rank.", "TridiagonalMatMul")
    if bands.array.shape[-1] != y.array.shape[-2]:
        raise errors.invalid_argument(
            f"Input matrix and rhs are incompatible. Received shapes {errors.brackets(bands.array.shape)} and "
            f"{errors.brackets(y.array.shape)}.",
            "TridiagonalMatMul",
        )
    upper, main, lower = (
        array.reshape(_slices(bands, i, slice(None)), shape=(*bands.array.shape[:-2], -1, 1)) for i in range(3)
    )
    none = (0,) * rank
    one = (*none[:-2], min(y.array.shape[-2], 1), 0)
    after = array.pad(_slices(y, slice(1, None), slice(None)), before=none, after=one)
    before = array.pad(_slices(y, slice(None, -1), slice(None)), before=one, after=none)
    return upper * after + main * y + lower * before


def banded_triangular_solve(
    bands: Any, rhs: TensorLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """The solution of triangular systems given by their bands [..., k, n] (alignment 'LEFT_RIGHT').

    >>> tf.linalg.banded_triangular_solve(
    ...     [[2.0, 3.0, 4.0], [1.0, 2.0, 3.0]], [[1.0], [1.0], [1.0]]
    ... ).numpy().ravel().tolist()
    [0.5, 0.0, 0.25]
    """
    x, y = _pair(bands, rhs, "BandedTriangularSolve")
    for position, value in enumerate((x, y)):
        if len(value.array.shape) < 2:
            raise errors.invalid_argument(
                f"In[{position}] ndims must be >= 2: {len(value.array.shape)}", "BandedTriangularSolve"
            )
    count, n = x.array.shape[-2:]
    if not 1 <= count <= n:
        raise errors.invalid_argument(f"Number of bands {count} must be between 1 and {n}", "BandedTriangularSolve")
    lower, adjoint = flag(lower, "lower", True), flag(adjoint, "adjoint")
    band = (1 - count, 0) if lower else (0, count - 1)
    if count == 1:
        matrix = diag(_slices(x, 0, slice(None)))
    else:
        matrix = diag(x, k=band, num_rows=n, num_cols=n, align="LEFT_RIGHT")
    return triangular_solve(matrix, y, lower=lower, adjoint=adjoint)


def lu_solve(
    lower_upper: Any, perm: TensorLike, rhs: TensorLike, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The solution x of A x = rhs, given the LU factors of A.

    >>> print(tf.linalg.lu_solve(*tf.linalg.lu([[2.0, 1.0], [1.0, 3.0]]), [[3.0], [4.0]]).numpy().round(4))
    [[1.]
     [1.]]
    """
    x, order = operand(lower_upper), operand(perm)
    _check_lu(x, order)
    y = hinted_operands(x, rhs)[1]
    if len(y.array.shape) < 2:
        raise ValueError(f"Input `rhs` must have at least 2 dimensions. Received: {len(y.array.shape)}.")
    if y.array.shape[-2] != x.array.shape[-1]:
        raise ValueError(
            f"Input `lower_upper` of shape {x.array.shape} and input `rhs` of shape {y.array.shape} do not fit."
        )
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes("MatrixTriangularSolve", x.dtype, y.dtype)
    truth(validate_args)
    lead = _broadcast_batches(x.array.shape, y.array.shape, "MatrixTriangularSolve")
    y = array.broadcast_to(y, shape=(*lead, *y.array.shape[-2:]))
    rows = array.broadcast_to(order, shape=(*lead, order.array.shape[-1]))
    permuted = index.take(y, rows, axis=len(lead), batch_dims=len(lead))
    return triangular_solve(x, triangular_solve(_unit_lower(x), permuted), lower=False)


def lu_matrix_inverse(
    lower_upper: Any, perm: TensorLike, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """The inverse of A, given its LU factors.

    >>> print(tf.linalg.lu_matrix_inverse(*tf.linalg.lu([[2.0, 0.0], [0.0, 4.0]])).numpy().round(4))
    [[0.5  0.  ]
     [0.   0.25]]
    """
    x = operand(lower_upper)
    _check_lu(x, operand(perm))
    eye = np.broadcast_to(np.eye(x.array.shape[-1], dtype=x.array.dtype), x.array.shape)
    return lu_solve(x, perm, constant_operand(eye), validate_args)


def lu_reconstruct(lower_upper: Any, perm: TensorLike, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The matrix A, given its LU factors.

    >>> tf.linalg.lu_reconstruct(*tf.linalg.lu([[1.0, 2.0], [4.0, 3.0]])).numpy().tolist()
    [[1.0, 2.0], [4.0, 3.0]]
    """
    x, order = operand(lower_upper), operand(perm)
    _check_lu(x, order)
    truth(validate_args)
    product = _matmul(_unit_lower(x), band_part(x, 0, -1))
    lead = len(product.array.shape) - 2
    order = checked(PERMUTATION, order)
    inverse = reduce.argsort(array.broadcast_to(order, shape=product.array.shape[:-1]), axis=lead)
    return index.take(product, inverse, axis=lead, batch_dims=lead)


def _unit_lower(x: Tensor) -> Tensor:
    return set_diag(band_part(x, -1, 0), constant_operand(np.ones(x.array.shape[:-1], x.array.dtype)))


def _check_lu(x: Tensor, perm: Tensor) -> None:
    shape = x.array.shape
    if len(shape) < 2:
        raise ValueError(f"Input `lower_upper` must have at least 2 dimensions. Received: {len(shape)}.")
    if shape[-1] != shape[-2]:
        raise ValueError(f"Input `lower_upper` must be (batches of) square matrices. Received shape {shape}.")
    if len(perm.array.shape) != len(shape) - 1:
        raise ValueError(f"`rank(lower_upper)` must equal `rank(perm) + 1`. Received {shape} and {perm.array.shape}.")
    if perm.dtype.name not in ("int32", "int64"):
        raise errors.unsupported_dtype("InvertPermutation", perm.dtype, "int32, int64")
    if perm.array.shape[-1:] != shape[-1:]:
        raise ValueError(f"Input `perm` must have length {shape[-1]}. Received shape {perm.array.shape}.")


# -- factorisations --------------------------------------------------------------------------------------------------
def cholesky(input: TensorLike, name: str | None = None) -> Tensor:
    """The lower triangular L with L L^H = input, for Hermitian positive definite matrices.

    >>> tf.linalg.cholesky([[4.0, 2.0], [2.0, 5.0]]).numpy().tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    return _widened(factorisations.cholesky, _checked(operand(input), "Cholesky"))


def lu(input: TensorLike, output_idx_type: Any = "int32", name: str | None = None) -> Lu:
    """LU with row swaps: both triangles in one matrix (the lower one has ones on its diagonal), and the rows' order.

    >>> factors, rows = tf.linalg.lu([[1.0, 2.0], [4.0, 3.0]])
    >>> factors.numpy().tolist(), rows.numpy().tolist()
    ([[4.0, 3.0], [0.25, 1.25]], [1, 0])
    """
    wanted = index_type(output_idx_type, "Lu", "output_idx_type")
    factors, order = _widened(factorisations.lu, _checked(operand(input), "Lu"))
    return Lu(factors, order if order.array.dtype == wanted else array.discrete_cast(order, dtype=wanted))


def qr(input: TensorLike, full_matrices: bool = False, name: str | None = None) -> Qr:
    """QR: orthonormal columns times an upper triangle.

    >>> q, r = tf.linalg.qr([[3.0, 1.0], [4.0, 2.0]])
    >>> (q @ r).numpy().round(5).tolist()
    [[3.0, 1.0], [4.0, 2.0]]
    """
    x = _checked(operand(input), "Qr", square=False)
    return Qr(*_widened(factorisations.qr, x, full_matrices=flag(full_matrices, "full_matrices")))


def eigh(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Eigenvalues (ascending) and eigenvectors (columns) of Hermitian matrices, read from the lower triangle.

    >>> values, vectors = tf.linalg.eigh([[2.0, 1.0], [1.0, 2.0]])
    >>> values.numpy().round(5).tolist()
    [1.0, 3.0]
    """
    values, vectors = _widened(factorisations.eigh, _checked(operand(tensor), "SelfAdjointEigV2"))
    return values, vectors


def eigvalsh(tensor: TensorLike, name: str | None = None) -> Tensor:
    """The eigenvalues (ascending) of Hermitian matrices, read from the lower triangle.

    >>> print(tf.linalg.eigvalsh([[2.0, 1.0], [1.0, 2.0]]).numpy().round(4))
    [1. 3.]
    """
    return _widened(factorisations.eigvalsh, _checked(operand(tensor), "SelfAdjointEigV2"))


def eig(tensor: TensorLike, name: str | None = None) -> tuple[Tensor, Tensor]:
    """Complex eigenvalues and eigenvectors (columns of length 1) of square matrices.

    >>> values, vectors = tf.eig([[0.0, 1.0], [-1.0, 0.0]])
    >>> sorted(values.numpy().imag.tolist())
    [-1.0, 1.0]
    """
    values, vectors = factorisations.eig(_single(_checked(operand(tensor), "Eig")))
    return values, vectors


def eigvals(tensor: TensorLike, name: str | None = None) -> Tensor:
    """The complex eigenvalues of square matrices.

    >>> values = tf.linalg.eigvals([[0.0, -1.0], [1.0, 0.0]]).numpy()
    >>> sorted(values.imag.round(4).tolist())
    [-1.0, 1.0]
    """
    return factorisations.eigvals(_single(_checked(operand(tensor), "Eig")))


def _single(x: Tensor) -> Tensor:
    """At least float32: there are no complex numbers of fewer bits."""
    narrow = x.array.dtype
    return array.astype(x, dtype=_FLOAT32, source=narrow) if narrow.itemsize <= 2 else x


def svd(tensor: TensorLike, full_matrices: bool = False, compute_uv: bool = True, name: str | None = None) -> Any:
    """Singular values (descending), left and right singular vectors (columns): tensor = u diag(s) v^H.

    >>> tf.linalg.svd([[3.0, 0.0], [0.0, 4.0]], compute_uv=False).numpy().tolist()
    [4.0, 3.0]
    """
    x = _checked(operand(tensor), "Svd", square=False)
    full = flag(full_matrices, "full_matrices")
    if flag(compute_uv, "compute_uv", True):
        return _widened(factorisations.svd, x, full_matrices=full)
    return _widened(factorisations.svdvals, x)


def pinv(a: TensorLike, rcond: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """The pseudo-inverse; singular values up to `rcond` times the largest count as 0.

    >>> tf.linalg.pinv([[1.0], [1.0]]).numpy().round(5).tolist()
    [[0.5, 0.5]]
    """
    x = operand(a)
    _check_matrix(x)
    if rcond is None:
        rcond = 10.0 * max(x.array.shape[-2:]) * _epsilon(x)
    else:
        rcond = convert(rcond, None if is_library(rcond) else x.dtype.real_dtype)
        if rcond.dtype != x.dtype.real_dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {x.dtype.real_dtype.name} for Tensor with dtype "
                f"{rcond.dtype.name}: {rcond!r}"
            )
        if (
            rcond.array.shape != x.array.shape[: len(rcond.array.shape)]
            or len(rcond.array.shape) > len(x.array.shape) - 2
        ):
            raise ValueError(f"Dimensions of rcond {rcond.shape} and of the batch of {x.shape} do not fit.")
    truth(validate_args)
    ratio = np.asarray(static(rcond), np.float64)
    return _cut_pinv(x, ratio) if _cuts(x, ratio) else _widened(factorisations.pinv, x, rcond=ratio)


def _cuts(x: Tensor, rcond: Any) -> bool:
    """Whether rcond leaves out singular values that are not zero but for rounding (or may, if they are unknown)."""
    if not is_known(x):
        return bool(np.any(rcond > 10.0 * max(x.array.shape[-2:]) * _epsilon(x)))
    try:
        values = np.linalg.svd(np.asarray(x.array).astype(np.result_type(x.array.dtype, np.float32)), compute_uv=False)
    except np.linalg.LinAlgError:  # nan in it: so is the inverse
        return False
    if not values.size:
        return False
    top = values[..., :1]
    noise = 10.0 * max(x.array.shape[-2:]) * _epsilon(x)
    return bool(np.any((values <= top * rcond[..., None]) & (values > top * noise)))


def _cut_pinv(x: Tensor, rcond: Any) -> Tensor:
    """With real singular values cut off the rank is not x's own: the derivative goes through the factors."""
    s, u, v = svd(x)
    kept = math.greater(s, _slices(s, slice(0, 1)) * _plain(s, rcond[..., None]))
    inverse = math.where(kept, 1 / math.where(kept, s, 1), 0)
    weights = array.reshape(inverse, shape=(*inverse.array.shape[:-1], 1, inverse.array.shape[-1]))
    if x.dtype.is_complex:
        weights = array.astype(weights, dtype=x.array.dtype, source=weights.array.dtype)
    return linalg.matmul(v * weights, u, adjoint_y=True)


def matrix_rank(a: TensorLike, tol: Any = None, validate_args: bool = False, name: str | None = None) -> Tensor:
    """How many singular values are above `tol` (by default what rounding can make of 0).

    A `tol` with axes is compared with the singular values as it is: give it a last axis of size 1.

    >>> tf.linalg.matrix_rank([[1.0, 2.0], [2.0, 4.0]]).numpy().item()
    1
    """
    x = convert(a, dtype_hint="float32")
    if not x.dtype.is_floating:
        raise TypeError(f"Input `a` must have `float`-like `dtype` (saw {x.dtype.name}).")
    _check_matrix(x)
    s = _widened(factorisations.svdvals, x)
    if tol is None:
        largest = _slices(s, slice(0, 1))
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
    """Eigenvalues (and vectors) of the Hermitian tridiagonal matrix with diagonal alpha and superdiagonal beta.

    `select` "a" takes all, "i" those with indices in `select_range`, "v" those in the interval [low, high], which is
    widened by what rounding can do to an eigenvalue.

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
    values = _real(values)
    if select != "a":
        low, high = (np.asarray(static(v)).item() for v in static(select_range))
        if select == "v" and not is_known(values):
            raise unknown_shape("tf.linalg.eigh_tridiagonal with select='v'", "Use select='i' or 'a'.")
        picked = (
            _within_indices(values, low, high) if select == "i" else _within_interval(main, side, values, low, high)
        )
        values = _slices(values, picked)
        vectors = None if vectors is None else _slices(vectors, picked)
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
    bound = np.max(np.absolute(np.asarray(main.array)) + reach, initial=0)  # of all eigenvalues, by Gershgorin
    slack = 2.1 * len(known) * np.finfo(known.dtype).eps * bound
    return np.flatnonzero((known >= low - slack) & (known <= high + slack))


# -- functions of matrices -------------------------------------------------------------------------------------------
def expm(input: TensorLike, name: str | None = None) -> Tensor:
    """The matrix exponential.

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
    return _widened(factorisations.expm, _checked(x, "MatrixExponential"))


def sqrtm(input: TensorLike, name: str | None = None) -> Tensor:
    """The principal square root of matrices.

    >>> tf.matrix_square_root([[4.0, 0.0], [0.0, 9.0]]).numpy().tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return _widened(factorisations.sqrtm, _checked(operand(input), "MatrixSquareRoot"))


def logm(input: TensorLike, name: str | None = None) -> Tensor:
    """The principal logarithm of complex matrices.

    >>> print(tf.linalg.logm(tf.constant([[1.0, 0.0], [0.0, 2.0]], tf.complex64)).numpy().round(4))
    [[0.    +0.j 0.    +0.j]
     [0.    +0.j 0.6931+0.j]]
    """
    x = _checked(operand(input), "MatrixLogarithm")
    if not x.dtype.is_complex:
        raise errors.unsupported_dtype("MatrixLogarithm", x.dtype)
    return factorisations.logm(x)


# -- diagonals and bands ---------------------------------------------------------------------------------------------
_ALIGNMENTS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")


def _band(k: Any, op: str) -> tuple[int, int]:
    """The lowest and highest diagonal of an argument k: one, or two that are in order."""
    plain = np.asarray(integers(k, op, "k", fixed=True))
    if plain.ndim > 1 or plain.size not in (1, 2):
        raise errors.invalid_argument(
            f"diag_index must be a scalar or vector, received shape: {errors.brackets(plain.shape)}", op
        )
    low, high = int(plain.ravel()[0]), int(plain.ravel()[-1])
    if low > high:
        raise errors.invalid_argument(f"lower_diag_index must not be larger than upper_diag_index: {low} > {high}", op)
    return low, high


def _alignment(align: Any, op: str) -> str:
    return allowed_text(align, "align", _ALIGNMENTS, op, "RIGHT_LEFT")


def _check_bounds(low: int, high: int, rows: int, columns: int, op: str) -> None:
    for word, k in (("lower", low), ("upper", high)):
        if not (-rows < k < columns or k == 0):
            raise errors.invalid_argument(
                f"{word}_diag_index is out of bound: {k}. It must be between {-rows} and {columns}", op
            )


def _places(low: int, high: int, rows: int, columns: int, align: str) -> tuple[Any, Any, Any, Any, int]:
    """Where the elements of the diagonals low..high stand: (which diagonal, position in it, row, column), and how long
    the longest diagonal is. The first diagonal is the highest; shorter ones are padded on the side `align` says.
    """
    upper, lower = align.split("_")
    lengths = {k: max(0, min(rows + min(0, k), columns - max(0, k))) for k in range(low, high + 1)}
    longest = max(lengths.values())
    which: list[Any] = []
    position: list[Any] = []
    row: list[Any] = []
    column: list[Any] = []
    for i, k in enumerate(range(high, low - 1, -1)):
        along = np.arange(lengths[k])
        side = upper if k >= 0 else lower
        which.append(np.full(lengths[k], i))
        position.append(along + (longest - lengths[k] if side == "RIGHT" else 0))
        row.append(along - min(0, k))
        column.append(along + max(0, k))
    return np.concatenate(which), np.concatenate(position), np.concatenate(row), np.concatenate(column), longest


def diag(
    diagonal: TensorLike,
    name: str = "diag",
    k: Any = 0,
    num_rows: Any = -1,
    num_cols: Any = -1,
    padding_value: Any = 0,
    align: str = "RIGHT_LEFT",
) -> Tensor:
    """Matrices with given diagonals: the main one, diagonal k, or all from k[0] to k[1] (the highest first).

    >>> tf.linalg.diag([1, 2], k=1).numpy().tolist()
    [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    """
    x, op = operand(diagonal), "MatrixDiagV3"
    low, high = _band(k, op)
    align = _alignment(align, op)
    shape = x.array.shape
    if not shape:
        raise errors.invalid_argument("diagonal must be at least 1-dim, received shape: []", op)
    many = low != high
    if many and (len(shape) < 2 or shape[-2] != high - low + 1):
        raise errors.invalid_argument(
            "The number of diagonals provided in the input does not match the lower_diag_index and upper_diag_index "
            f"range. Received shape {errors.brackets(shape)} for diagonals {low} to {high}.",
            op,
        )
    lead, length = shape[: -2 if many else -1], shape[-1]
    rows, columns = _matrix_size(integer(num_rows), integer(num_cols), length, low, high, op)
    which, position, row, column, _ = _places(low, high, rows, columns, align)
    values = _slices(x, which, position) if many else _slices(x, position)
    at = (*(slice(None) for _ in lead), row, column)
    result: Tensor = array.setitem(values, index=at, shape=(*lead, rows, columns))
    padding = _padding(x, padding_value, op)
    if not padding.any():
        return result
    inside = np.zeros((rows, columns), bool)
    inside[row, column] = True
    return math.where(inside, result, _plain(x, padding))


def _matrix_size(rows: int, columns: int, length: int, low: int, high: int, op: str) -> tuple[int, int]:
    """The size of matrices with diagonals of a length; -1 stands for the least number of rows or columns."""
    least_rows, least_columns = length - min(high, 0), length + max(low, 0)
    if rows == -1 and columns == -1:
        rows = columns = max(least_rows, least_columns)
    rows = least_rows if rows == -1 else rows
    columns = least_columns if columns == -1 else columns
    if rows < least_rows:
        raise errors.invalid_argument(f"The number of rows is too small. Received {rows}, needs {least_rows}.", op)
    if columns < least_columns:
        raise errors.invalid_argument(
            f"The number of columns is too small. Received {columns}, needs {least_columns}.", op
        )
    if rows != least_rows and columns != least_columns:
        raise errors.invalid_argument(
            f"The number of rows or columns is not consistent with the specified d_lower, d_upper, and diagonal. "
            f"Received {rows} rows and {columns} columns for diagonals of length {length}.",
            op,
        )
    return rows, columns


def diag_part(
    input: TensorLike, name: str = "diag_part", k: Any = 0, padding_value: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """The main diagonal of matrices, diagonal k, or all from k[0] to k[1] (the highest first, padded to equal length).

    >>> tf.linalg.diag_part([[1, 2], [3, 4]]).numpy().tolist()
    [1, 4]
    """
    x, op = operand(input), "MatrixDiagPartV3"
    low, high = _band(k, op)
    align = _alignment(align, op)
    shape = _at_least_matrix(x, op)
    rows, columns = shape[-2:]
    _check_bounds(low, high, rows, columns, op)
    which, position, row, column, longest = _places(low, high, rows, columns, align)
    values = _slices(x, row, column)
    if low == high:
        return values
    lead = shape[:-2]
    at = (*(slice(None) for _ in lead), which, position)
    result: Tensor = array.setitem(values, index=at, shape=(*lead, high - low + 1, longest))
    padding = _padding(x, padding_value, op)
    if not padding.any():
        return result
    inside = np.zeros((high - low + 1, longest), bool)
    inside[which, position] = True
    return math.where(inside, result, _plain(x, padding))


def _padding(x: Tensor, value: Any, op: str) -> Any:
    return static(scalar_operand(value, x.dtype, op, "padding_value"))


def _at_least_matrix(x: Tensor, op: str) -> tuple[int, ...]:
    shape = x.array.shape
    if len(shape) < 2:
        found = (
            errors.refused_value if op == "MatrixBandPart" else errors.invalid_argument
        )  # what its trace does not ask
        raise found(f"input must be at least 2-dim, received shape: {errors.brackets(shape)}", op)
    return tuple(shape)


def set_diag(
    input: TensorLike, diagonal: TensorLike, name: str = "set_diag", k: Any = 0, align: str = "RIGHT_LEFT"
) -> Tensor:
    """Matrices with diagonals replaced: the main one, diagonal k, or all from k[0] to k[1].

    >>> tf.linalg.set_diag([[1, 2], [3, 4]], [0, 0]).numpy().tolist()
    [[0, 2], [3, 0]]
    """
    op = "MatrixSetDiagV3"
    x, d = _pair(input, diagonal, op)
    low, high = _band(k, op)
    align = _alignment(align, op)
    shape = _at_least_matrix(x, op)
    lead, (rows, columns) = shape[:-2], shape[-2:]
    _check_bounds(low, high, rows, columns, op)
    which, position, row, column, longest = _places(low, high, rows, columns, align)
    many = low != high
    expected = (*lead, high - low + 1, longest) if many else (*lead, longest)
    if d.array.shape != expected:
        raise errors.invalid_argument(
            "Either first dimensions of diagonal don't match input.shape[:-2], or diagonal.shape[:-1] is not equal to "
            f"the longests diagonal in range [lower_diag_index:upper_diag_index]. Input shape: {errors.brackets(shape)}"
            f", diagonal shape: {errors.brackets(d.array.shape)}, expected diagonal shape: {errors.brackets(expected)}",
            op,
        )
    values = _slices(d, which, position) if many else _slices(d, position)
    at = (*(slice(None) for _ in lead), row, column)
    inside = np.zeros((rows, columns), bool)
    inside[row, column] = True
    return math.where(inside, array.setitem(values, index=at, shape=shape), x)


def band_part(input: TensorLike, num_lower: Any, num_upper: Any, name: str | None = None) -> Tensor:
    """Matrices with zeros outside a band: `num_lower` diagonals below the main one, `num_upper` above; -1 for all.

    >>> tf.linalg.band_part([[1, 2], [3, 4]], 0, -1).numpy().tolist()
    [[1, 2], [0, 4]]
    """
    x = operand(input)
    shape = _at_least_matrix(x, "MatrixBandPart")
    rows, columns = shape[-2:]
    below = _reach(num_lower, rows, "num_lower", "rows")
    above = _reach(num_upper, columns, "num_upper", "columns")
    if not (type(below) is type(above) is int) or is_dimension(rows) or is_dimension(columns):
        distance = positions(columns) - array.reshape(positions(rows), shape=(rows, 1))
        reaches = math.logical_or(below < 0, math.greater_equal(distance, -below))
        return math.where(
            math.logical_and(reaches, math.logical_or(above < 0, math.less_equal(distance, above))), x, _plain(x, 0)
        )
    offset = np.arange(columns) - np.arange(rows)[:, None]
    inside = ((below < 0) | (offset >= -below)) & ((above < 0) | (offset <= above))
    return math.where(inside, x, _plain(x, 0))


def _reach(number: Any, size: int, word: str, lines: str) -> Any:
    """How many diagonals are kept: a number or, where only the program knows it, a tensor of the dtype of positions."""
    if isinstance(number, Tensor) and not is_known(number):
        return cast(checked(_BAND, number, size=size, word=word, lines=lines), "int32")
    count = integer(number, "MatrixBandPart", "Tindex")
    if count > size:
        raise _too_many_bands(np.asarray(count), size, word, lines)
    return count


def _too_many_bands(number: Any, size: int, word: str, lines: str) -> errors.InvalidArgumentError:
    return errors.refused_value(
        f"{word} must be negative or less or equal to number of {lines} ({size}) got: {number.max()}", "MatrixBandPart"
    )


_BAND = Rule(lambda xp, number, size, **_: number > size, _too_many_bands)


def trace(x: TensorLike, name: str | None = None) -> Tensor:
    """The sum of the main diagonal.

    >>> tf.linalg.trace([[1.0, 2.0], [3.0, 4.0]]).numpy().item()
    5.0
    """
    diagonal = diag_part(x)
    return reduce.sum_(diagonal, axis=(len(diagonal.array.shape) - 1,), keepdims=False)


def tensor_diag(diagonal: TensorLike, name: str | None = None) -> Tensor:
    """A tensor of twice the rank, zero except where both halves of an index are equal.

    >>> tf.linalg.tensor_diag([1, 2]).numpy().tolist()
    [[1, 0], [0, 2]]
    """
    x = _diagonal_operand(diagonal, "Diag")
    shape = tuple(x.array.shape)
    if not shape:
        raise _half_or(x, "Diag", "Input must be at least rank 1, got 0")
    flat = array.reshape(x, shape=(int(np.prod(shape, dtype=int)),))
    return array.reshape(diag(flat), shape=(*shape, *shape))


def tensor_diag_part(input: TensorLike, name: str | None = None) -> Tensor:
    """The elements whose index has two equal halves: the inverse of `tensor_diag`.

    >>> tf.linalg.tensor_diag_part([[1, 0], [0, 2]]).numpy().tolist()
    [1, 2]
    """
    x = _diagonal_operand(input, "DiagPart")
    shape = tuple(x.array.shape)
    half = len(shape) // 2
    if not shape and x.dtype.name != "bfloat16" and current_graph() is None:
        return _scalar_itself(x)
    if not shape or len(shape) % 2:
        raise _half_or(
            x, "DiagPart", f"The rank of the tensor should be even and positive, got shape {errors.brackets(shape)}"
        )
    for i in range(half):
        if shape[i] != shape[i + half]:
            raise _half_or(
                x, "DiagPart", f"Invalid shape {errors.brackets(shape)}: dimensions {i} and {i + half} do not match."
            )
    size = int(np.prod(shape[:half], dtype=int))
    return array.reshape(diag_part(array.reshape(x, shape=(size, size))), shape=shape[:half])


@custom_gradient
def _scalar_itself(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """A scalar counts as its diagonal in eager code only: TensorFlow refuses it in functions, and its gradient."""

    def refused(g: Tensor) -> Tensor:
        return tensor_diag(g)

    return array.identity(x), refused


def _diagonal_operand(value: Any, op: str) -> Tensor:
    x = operand(value)
    if not (x.dtype.is_floating or x.dtype.is_complex or x.dtype.name in ("int32", "int64")):
        raise errors.unsupported_dtype(op, x.dtype)
    return x


def _half_or(x: Tensor, op: str, message: str) -> errors.OpError:
    """TensorFlow finds out first that it has no kernel for bfloat16."""
    half = x.dtype.name == "bfloat16"
    return errors.no_kernel(op, x.dtype, traced=ValueError) if half else errors.invalid_argument(message, op)


def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Tensor:
    """The cross product of vectors of three elements along the last axis.

    >>> tf.linalg.cross([1, 0, 0], [0, 1, 0]).numpy().tolist()
    [0, 0, 1]
    """
    x, y = _pair(a, b, "Cross")
    if x.dtype.is_complex or x.dtype.is_bool:
        raise errors.unsupported_dtype("Cross", x.dtype)
    first, second = x.array.shape, y.array.shape
    if first != second:
        raise errors.invalid_argument(
            f"Both inputs must be of same shape: {errors.brackets(first)} vs. {errors.brackets(second)}", "Cross"
        )
    if not first:
        raise errors.invalid_argument("Input must be at least 1D[]", "Cross")
    if first[-1] != 3:
        raise errors.failed_precondition(
            f"Cross-products are only defined for 3-element vectors. Received shape {errors.brackets(first)}.", "Cross"
        )
    next_, after = np.array([1, 2, 0]), np.array([2, 0, 1])
    return _slices(x, next_) * _slices(y, after) - _slices(x, after) * _slices(y, next_)


# -- iterative -------------------------------------------------------------------------------------------------------
def conjugate_gradient(
    operator: TensorLike,
    rhs: TensorLike,
    preconditioner: Any = None,
    x: TensorLike | None = None,
    tol: float = 1e-5,
    max_iter: int = 20,
    name: str = "conjugate_gradient",
) -> CGState:
    """The solution of A x = rhs for a self-adjoint, positive definite A that is only ever multiplied with.

    `operator` is a matrix, or an object with a method `matvec` (and, if it has them, `is_self_adjoint` and
    `is_positive_definite` that are true). It ends when the residual is down to `tol` times the right side, or after
    `max_iter` steps.

    >>> conjugate_gradient([[4.0, 1.0], [1.0, 3.0]], [5.0, 4.0]).x.numpy().round(4).tolist()
    [1.0, 1.0]
    """
    for fact in ("is_self_adjoint", "is_positive_definite"):
        if hasattr(operator, "matvec") and not getattr(operator, fact, True):
            raise ValueError("Expected a self-adjoint, positive definite operator.")
    apply, precondition = _action(operator), _action(preconditioner)
    right = operand(rhs)
    start = apply(right) if x is None else apply(operand(x, right.dtype))  # for its shape, which may be broadcast
    shape = np.broadcast_shapes(start.array.shape, right.array.shape)
    residual = array.broadcast_to(right, shape=shape) if right.array.shape != shape else right
    limit = _length(residual) * tol
    guess = residual * 0 if x is None else operand(x, right.dtype)
    residual = residual if x is None else residual - start
    direction = precondition(residual)

    def goes_on(state: CGState) -> Tensor:
        far: Tensor = math.greater(_length(state.r), limit)
        axes = tuple(range(len(far.array.shape)))
        result: Tensor = reduce.any_(far, axis=axes, keepdims=False)
        return result

    def improved(state: CGState) -> tuple[CGState]:
        image = apply(state.p)
        step = _as_column(state.gamma / _dot(state.p, image))
        rest = state.r - step * image
        towards = precondition(rest)
        gamma = _dot(rest, towards)
        onwards = towards + _as_column(gamma / state.gamma) * state.p
        return (CGState(state.i + 1, state.x + step * state.p, rest, onwards, gamma),)

    first = CGState(operand(np.int32(0)), guess, residual, direction, _dot(residual, direction))
    (last,) = while_loop(goes_on, improved, (first,), maximum_iterations=max_iter)
    return CGState(*last)


def _length(x: Tensor) -> Tensor:
    result: Tensor = math.sqrt(math.real(_dot(x, x)) if x.dtype.is_complex else _dot(x, x))
    return result


def _action(operator: Any) -> Callable[[Tensor], Tensor]:
    """Multiplication by an operator, a matrix, or nothing."""
    if operator is None:
        return lambda v: v
    if hasattr(operator, "matvec"):
        return operator.matvec
    matrix = operand(operator)

    def times(v: Tensor) -> Tensor:
        column = _matmul(matrix, array.reshape(v, shape=(*v.array.shape, 1)))
        return array.reshape(column, shape=column.array.shape[:-1])

    return times


def _dot(x: Tensor, y: Tensor) -> Tensor:
    product = math.conj(x) * y
    return reduce.sum_(product, axis=(len(product.array.shape) - 1,), keepdims=False)


def _as_column(x: Tensor) -> Tensor:
    return array.reshape(x, shape=(*x.array.shape, 1))


experimental = ModuleType("gradtape._src.tf.linalg.experimental", "Iterative solvers.")
experimental.conjugate_gradient = conjugate_gradient  # type: ignore[attr-defined]
