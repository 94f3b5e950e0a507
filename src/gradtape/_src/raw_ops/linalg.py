"""Raw ops of matrices: products, decompositions, solvers, diagonals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.raw_ops.derivative import vjp
from gradtape._src.tf import array, decompositions, diagonals, linalg, linear_systems
from gradtape._src.tf.arguments import static

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradtape._src.tensor import Tensor


def _batch_matmul(x: Any, y: Any, adj_x: bool, adj_y: bool) -> Tensor:
    return linalg.matmul(x, y, adjoint_a=adj_x, adjoint_b=adj_y)


def _batch_matmul_of_type(x: Any, y: Any, Tout: Any, adj_x: bool, adj_y: bool) -> Tensor:
    return _batch_matmul(array.cast(x, Tout), array.cast(y, Tout), adj_x, adj_y)


def _matmul(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Tensor:
    return linalg.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _sparse_matmul(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Tensor:
    return _matmul(array.cast(a, "float32"), array.cast(b, "float32"), transpose_a, transpose_b)


def _svd(input: Any, compute_uv: bool, full_matrices: bool) -> tuple[Tensor, Tensor, Tensor]:
    if compute_uv:
        s, u, v = decompositions.svd(input, full_matrices)
        return s, u, v
    none = array.zeros([], input.dtype)
    return decompositions.svd(input, compute_uv=False), none, none


def _self_adjoint_eig(input: Any, compute_v: bool) -> tuple[Tensor, Tensor]:
    if compute_v:
        e, v = decompositions.eigh(input)
        return e, v
    return decompositions.eigvalsh(input), array.zeros([], input.dtype)


def _eig(input: Any, Tout: Any, compute_v: bool) -> tuple[Tensor, Tensor]:
    if compute_v:
        e, v = decompositions.eig(input)
        return array.cast(e, Tout), array.cast(v, Tout)
    return array.cast(decompositions.eigvals(input), Tout), array.zeros([], Tout)


def _diagonal(diagonal: Any) -> Tensor:
    return diagonals.diag(diagonal)


def _band_diag(diagonal: Any, k: Any, num_rows: Any, num_cols: Any, padding_value: Any, align: str) -> Tensor:
    return diagonals.diag(diagonal, "diag", k, num_rows, num_cols, padding_value, align)


def _band_part(input: Any, k: Any, padding_value: Any, align: str) -> Tensor:
    return diagonals.diag_part(input, "diag_part", k, padding_value, align)


def _tridiagonal(superdiag: Any, maindiag: Any, subdiag: Any, rhs: Any) -> Tensor:
    diagonals = tuple(array.squeeze(each, [-2]) for each in (superdiag, maindiag, subdiag))
    return linear_systems.tridiagonal_matmul(diagonals, rhs, diagonals_format="sequence")


def _least_squares(matrix: Any, rhs: Any, l2_regularizer: Any, fast: bool) -> Tensor:
    return linear_systems.lstsq(matrix, rhs, float(np.asarray(static(l2_regularizer))), fast)


def _cholesky_grad(l: Any, grad: Any) -> Tensor:  # noqa: E741 - TensorFlow's name
    return vjp(decompositions.cholesky, (linalg.matmul(l, l, adjoint_b=True),), grad)[0]


OPS: dict[str, Callable[..., Any]] = {
    # -- products
    "BatchMatMul": _batch_matmul,
    "BatchMatMulV2": _batch_matmul,
    "BatchMatMulV3": _batch_matmul_of_type,
    "Einsum": lambda inputs, equation: linalg.einsum(equation, *inputs),
    "MatMul": _matmul,
    "SparseMatMul": _sparse_matmul,
    "TridiagonalMatMul": _tridiagonal,
    # -- decompositions and functions of matrices
    "Cholesky": decompositions.cholesky,
    "CholeskyGrad": _cholesky_grad,
    "Eig": _eig,
    "LogMatrixDeterminant": decompositions.slogdet,
    "Lu": lambda input, output_idx_type: decompositions.lu(input, output_idx_type),
    "MatrixDeterminant": decompositions.det,
    "MatrixLogarithm": decompositions.logm,
    "MatrixSquareRoot": decompositions.sqrtm,
    "Qr": lambda input, full_matrices: decompositions.qr(input, full_matrices),
    "SelfAdjointEigV2": _self_adjoint_eig,
    "Svd": _svd,
    # -- solvers
    "BandedTriangularSolve": linear_systems.banded_triangular_solve,
    "MatrixInverse": decompositions.inv,
    "MatrixSolve": linear_systems.solve,
    "MatrixSolveLs": _least_squares,
    "MatrixTriangularSolve": linear_systems.triangular_solve,
    "TridiagonalSolve": lambda diagonals, rhs, partial_pivoting, perturb_singular: linear_systems.tridiagonal_solve(
        diagonals, rhs, partial_pivoting=partial_pivoting, perturb_singular=perturb_singular
    ),
    # -- diagonals
    "Diag": diagonals.tensor_diag,
    "DiagPart": diagonals.tensor_diag_part,
    "MatrixBandPart": diagonals.band_part,
    "MatrixDiag": _diagonal,
    "MatrixDiagPart": lambda input: diagonals.diag_part(input),
    "MatrixDiagPartV2": lambda input, k, padding_value: _band_part(input, k, padding_value, "LEFT_LEFT"),
    "MatrixDiagPartV3": _band_part,
    "MatrixDiagV2": lambda diagonal, k, num_rows, num_cols, padding_value: _band_diag(
        diagonal, k, num_rows, num_cols, padding_value, "LEFT_LEFT"
    ),
    "MatrixDiagV3": _band_diag,
    "MatrixSetDiag": lambda input, diagonal: diagonals.set_diag(input, diagonal),
    "MatrixSetDiagV2": lambda input, diagonal, k: diagonals.set_diag(input, diagonal, k=k, align="LEFT_LEFT"),
    "MatrixSetDiagV3": lambda input, diagonal, k, align: diagonals.set_diag(input, diagonal, k=k, align=align),
}
