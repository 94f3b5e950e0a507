"""Linear systems: dense, triangular, tridiagonal, banded, by a factorisation, and by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import checked
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import constant_operand, hinted_operands, operand
from gradtape._src.ops import array, factorisations, index, linalg, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.arguments import choice, flag, scalar_operand, truth
from gradtape._src.tf.control_flow import while_loop
from gradtape._src.tf.decompositions import cholesky, pinv
from gradtape._src.tf.diagonals import band_part, diag, diag_part, set_diag
from gradtape._src.tf.indexing import PERMUTATION
from gradtape._src.tf.matrices import (
    checked_matrix,
    constant_like,
    index_last,
    same_dtype_operands,
    via_float32,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


class CGState(NamedTuple):
    """The result of `experimental.conjugate_gradient`."""

    i: Tensor
    x: Tensor
    r: Tensor
    p: Tensor
    gamma: Tensor


def _matmul(x: Tensor, y: Tensor, adjoint_x: bool = False, adjoint_y: bool = False) -> Tensor:
    return linalg.matmul(x, y, adjoint_x=adjoint_x, adjoint_y=adjoint_y)


# -- linear systems --------------------------------------------------------------------------------------------------
def solve(matrix: TensorLike, rhs: TensorLike, adjoint: bool = False, name: str | None = None) -> Tensor:
    """Solve matrix x = rhs for x.

    >>> tf.linalg.solve([[2.0, 0.0], [0.0, 4.0]], [[2.0], [2.0]]).numpy().tolist()
    [[1.0], [0.5]]
    """
    x, y = same_dtype_operands(matrix, rhs, "MatrixSolve")
    checked_matrix(x, "MatrixSolve")
    a, b = x.array.shape, y.array.shape
    if len(a) != len(b):
        raise errors.invalid_argument(
            f"All input tensors must have the same rank. Received shapes {errors.brackets(a)} and "
            f"{errors.brackets(b)}; pass a vector as a matrix with one column.",
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
    return via_float32(factorisations.solve, x, y, adjoint=flag(adjoint, "adjoint"))


def triangular_solve(
    matrix: TensorLike, rhs: TensorLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve matrix x = rhs for x, using only one triangle of the matrix; batch axes broadcast.

    >>> tf.linalg.triangular_solve([[2.0, 9.0], [1.0, 4.0]], [[2.0], [5.0]]).numpy().tolist()
    [[1.0], [1.0]]
    """
    x, y = same_dtype_operands(matrix, rhs, "MatrixTriangularSolve")
    a, b = x.array.shape, y.array.shape
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise errors.unsupported_dtype("MatrixTriangularSolve", x.dtype)
    for position, shape in enumerate((a, b)):
        if len(shape) < 2:
            raise errors.invalid_argument(
                f"In[{position}] ndims must be >= 2: {len(shape)}. Pass a vector as a matrix with one column.",
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
    return via_float32(factorisations.triangular_solve, x, y, lower=below, adjoint=conjugate)


def _broadcast_batches(a: tuple[int, ...], b: tuple[int, ...], op: str) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(a[:-2], b[:-2])
    except ValueError:
        raise errors.invalid_argument(
            f"In[0] and In[1] must have compatible batch dimensions: {errors.brackets(a)} vs. {errors.brackets(b)}", op
        ) from None


def cholesky_solve(chol: Any, rhs: TensorLike, name: str | None = None) -> Tensor:
    """Solve A x = rhs, given the Cholesky factor of A.

    >>> chol = tf.linalg.cholesky([[4.0, 0.0], [0.0, 1.0]])
    >>> tf.linalg.cholesky_solve(chol, [[8.0], [3.0]]).numpy().tolist()
    [[2.0], [3.0]]
    """
    x, y = same_dtype_operands(chol, rhs, "MatrixTriangularSolve")
    return triangular_solve(x, triangular_solve(x, y), adjoint=True)


def lstsq(
    matrix: TensorLike, rhs: TensorLike, l2_regularizer: Any = 0.0, fast: bool = True, name: str | None = None
) -> Tensor:
    """Solve a least-squares problem: find the x that minimizes |matrix x - rhs|² + l2_regularizer |x|².

    `fast` solves the normal equations. Otherwise a pseudo-inverse is used, which accepts matrices of any rank, gives
    the x of smallest norm and, as in TensorFlow, ignores the regularizer.

    >>> print(tf.linalg.lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [[1.0], [3.0], [5.0]]).numpy().round(4))
    [[1.]
     [2.]]
    """
    x, y = same_dtype_operands(matrix, rhs, "MatrixSolveLs")
    checked_matrix(x, "MatrixSolveLs", square=False)
    if len(y.array.shape) < 2 or x.array.shape[-2] != y.array.shape[-2]:
        raise errors.invalid_argument(
            f"Matrix size-incompatible: In[0]: {errors.brackets(x.array.shape)}, In[1]: "
            f"{errors.brackets(y.array.shape)}. Both must have the same number of rows.",
            "MatrixSolveLs",
        )
    strength = scalar_operand(l2_regularizer, x.dtype.real_dtype, "MatrixSolveLs", "l2_regularizer")
    if fast is not True and not truth(fast):
        return _matmul(pinv(x), y)
    rows, columns = x.array.shape[-2:]
    tall = rows >= columns
    gram = _matmul(x, x, adjoint_x=True) if tall else _matmul(x, x, adjoint_y=True)
    if not is_known(strength):
        gram = gram + np.eye(min(rows, columns)).astype(x.array.dtype) * strength.array.astype(x.array.dtype)
    elif np.any(np.asarray(strength.array)):
        gram = gram + constant_like(x, np.eye(min(rows, columns)) * np.asarray(strength.array))
    factor = cholesky(gram)
    if tall:
        return cholesky_solve(factor, _matmul(x, y, adjoint_x=True))
    return _matmul(x, cholesky_solve(factor, y), adjoint_x=True)


_FORMATS = ("compact", "sequence", "matrix")


def _bands(diagonals: Any, diagonals_format: str) -> Tensor:
    """Tridiagonal matrices in compact format: [..., 3, n] with superdiagonal, diagonal, subdiagonal."""
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
    """Solve tridiagonal systems, in time proportional to their size.

    Rows are always swapped if that is more accurate; `partial_pivoting` has no effect.

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
    result: Tensor = via_float32(factorisations.tridiagonal_solve, bands, y)
    return array.reshape(result, shape=result.array.shape[:-1]) if vector else result


def tridiagonal_matmul(
    diagonals: TensorLike, rhs: TensorLike, diagonals_format: str = "compact", name: str | None = None
) -> Tensor:
    """Multiply tridiagonal matrices by matrices.

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
        array.reshape(index_last(bands, i, slice(None)), shape=(*bands.array.shape[:-2], -1, 1)) for i in range(3)
    )
    none = (0,) * rank
    one = (*none[:-2], min(y.array.shape[-2], 1), 0)
    after = array.pad(index_last(y, slice(1, None), slice(None)), before=none, after=one)
    before = array.pad(index_last(y, slice(None, -1), slice(None)), before=one, after=none)
    return upper * after + main * y + lower * before


def banded_triangular_solve(
    bands: Any, rhs: TensorLike, lower: bool = True, adjoint: bool = False, name: str | None = None
) -> Tensor:
    """Solve triangular systems given by their bands [..., k, n] (alignment 'LEFT_RIGHT').

    >>> tf.linalg.banded_triangular_solve(
    ...     [[2.0, 3.0, 4.0], [1.0, 2.0, 3.0]], [[1.0], [1.0], [1.0]]
    ... ).numpy().ravel().tolist()
    [0.5, 0.0, 0.25]
    """
    x, y = same_dtype_operands(bands, rhs, "BandedTriangularSolve")
    for position, value in enumerate((x, y)):
        if len(value.array.shape) < 2:
            raise errors.invalid_argument(
                f"In[{position}] ndims must be >= 2: {len(value.array.shape)}", "BandedTriangularSolve"
            )
    count, n = x.array.shape[-2:]
    if not count:
        raise errors.invalid_argument(f"Number of bands {count} must be between 1 and {n}", "BandedTriangularSolve")
    lower, adjoint = flag(lower, "lower", True), flag(adjoint, "adjoint")
    x = x if count <= n else index_last(x, slice(n) if lower else slice(count - n, None), slice(None))  # bands outside
    band = (1 - x.array.shape[-2], 0) if lower else (0, x.array.shape[-2] - 1)
    if band == (0, 0):
        matrix = diag(index_last(x, 0, slice(None)))
    else:
        matrix = diag(x, k=band, num_rows=n, num_cols=n, align="LEFT_RIGHT")
    return triangular_solve(matrix, y, lower=lower, adjoint=adjoint)


def lu_solve(
    lower_upper: Any, perm: TensorLike, rhs: TensorLike, validate_args: bool = False, name: str | None = None
) -> Tensor:
    """Solve A x = rhs, given the LU factors of A.

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
            f"Input `lower_upper` of shape {x.array.shape} is not compatible with input `rhs` of shape {y.array.shape}."
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
    """Compute the inverse of A, given its LU factors.

    >>> print(tf.linalg.lu_matrix_inverse(*tf.linalg.lu([[2.0, 0.0], [0.0, 4.0]])).numpy().round(4))
    [[0.5  0.  ]
     [0.   0.25]]
    """
    x = operand(lower_upper)
    _check_lu(x, operand(perm))
    eye = np.broadcast_to(np.eye(x.array.shape[-1], dtype=x.array.dtype), x.array.shape)
    return lu_solve(x, perm, constant_operand(eye), validate_args)


def lu_reconstruct(lower_upper: Any, perm: TensorLike, validate_args: bool = False, name: str | None = None) -> Tensor:
    """Compute the matrix A, given its LU factors.

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
    """Solve A x = rhs for a self-adjoint, positive definite A, using only products with A.

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
    """Multiplication by an operator or a matrix; the identity for None."""
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
