"""`tf.linalg`: products and norms; what `decompositions` has is found here too."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from gradtape import errors
from gradtape.api import math as tfmath
from gradtape.api.arguments import axes_of, axis_of, integer, static
from gradtape.api.array import eye as eye, transpose
from gradtape.api.decompositions import (
    band_part as band_part,
    banded_triangular_solve as banded_triangular_solve,
    cholesky as cholesky,
    cholesky_solve as cholesky_solve,
    conjugate_gradient as _conjugate_gradient,
    cross as cross,
    det as det,
    diag as diag,
    diag_part as diag_part,
    eig as eig,
    eigh as eigh,
    eigh_tridiagonal as eigh_tridiagonal,
    eigvals as eigvals,
    eigvalsh as eigvalsh,
    expm as expm,
    inv as inv,
    logdet as logdet,
    logm as logm,
    lstsq as lstsq,
    lu as lu,
    lu_matrix_inverse as lu_matrix_inverse,
    lu_reconstruct as lu_reconstruct,
    lu_solve as lu_solve,
    matrix_rank as matrix_rank,
    pinv as pinv,
    qr as qr,
    set_diag as set_diag,
    slogdet as slogdet,
    solve as solve,
    sqrtm as sqrtm,
    svd as svd,
    tensor_diag as tensor_diag,
    tensor_diag_part as tensor_diag_part,
    trace as trace,
    triangular_solve as triangular_solve,
    tridiagonal_matmul as tridiagonal_matmul,
    tridiagonal_solve as tridiagonal_solve,
)
from gradtape.conversion import convert, operand, operands, wrap
from gradtape.indexed_slices import IndexedSlices
from gradtape.ops import array, linalg, math, reduce
from gradtape.tensor import Tensor

l2_normalize = tfmath.l2_normalize
experimental = ModuleType(f"{__name__}.experimental", "Iterative solvers.")
experimental.conjugate_gradient = _conjugate_gradient  # type: ignore[attr-defined]


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    output_type: Any = None,
    grad_a: bool = False,
    grad_b: bool = False,
    name: str | None = None,
) -> Tensor:
    """The matrix product over the last two axes; the others broadcast.

    >>> matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy().item()
    11.0
    """
    if not (transpose_a or transpose_b or adjoint_a or adjoint_b):
        return linalg.plain_matmul(a, b)
    if transpose_a and adjoint_a:
        raise ValueError("Only one of `transpose_a` and `adjoint_a` can be True. Received both.")
    if transpose_b and adjoint_b:
        raise ValueError("Only one of `transpose_b` and `adjoint_b` can be True. Received both.")
    x, y = operands(a, b)
    if x.dtype.is_complex:  # only there a transpose is not an adjoint
        x = matrix_transpose(x) if transpose_a else x
        y = matrix_transpose(y) if transpose_b else y
    else:
        adjoint_a, adjoint_b = adjoint_a or transpose_a, adjoint_b or transpose_b
    return linalg.matmul(x, y, adjoint_x=adjoint_a, adjoint_y=adjoint_b)


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """A matrix times a vector."""
    x, y = operands(a, b)
    column = array.reshape(y, shape=(*y.array.shape, 1))
    product = matmul(x, column, transpose_a=transpose_a, adjoint_a=adjoint_a)
    result: Tensor = array.reshape(product, shape=product.array.shape[:-1])
    return result


def matrix_transpose(a: Any, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """The last two axes swapped."""
    x = operand(a)
    rank = len(x.array.shape)
    if rank < 2:
        raise ValueError(f"Argument `a` should be a (batch) matrix with rank >= 2.  Received `a` = {x!r}")
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2), conjugate=conjugate)


def adjoint(matrix: Any, name: str | None = None) -> Tensor:
    """The conjugate transpose of the last two axes."""
    return matrix_transpose(matrix, conjugate=True)


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over pairs of axes.

    >>> tensordot([[1.0, 2.0]], [[3.0], [4.0]], 1).numpy().tolist()
    [[11.0]]
    """
    x, y = operands(a, b)
    plain = static(axes)
    rank_x, rank_y = len(x.array.shape), len(y.array.shape)
    if np.ndim(plain) == 0:
        count = integer(plain)
        pairs = (list(range(rank_x - count, rank_x)), list(range(count)))
    else:
        first, second = ([integer(i) for i in np.atleast_1d(static(given))] for given in plain)
        pairs = (first, second)
    over_x = [axis_of(i, rank_x, "Tensordot") for i in pairs[0]]
    over_y = [axis_of(i, rank_y, "Tensordot") for i in pairs[1]]
    if [x.array.shape[i] for i in over_x] != [y.array.shape[i] for i in over_y]:
        raise errors.invalid_argument(
            f"Matrix size-incompatible: In[0]: {errors.brackets(x.array.shape)}, In[1]: "
            f"{errors.brackets(y.array.shape)} over axes {over_x} and {over_y}",
            "MatMul",
        )
    free_x = [i for i in range(rank_x) if i not in over_x]
    free_y = [i for i in range(rank_y) if i not in over_y]
    inner = int(np.prod([x.array.shape[i] for i in over_x], dtype=int))
    left = array.reshape(array.transpose(x, perm=(*free_x, *over_x)), shape=(-1 if inner else 0, inner))
    right = array.reshape(array.transpose(y, perm=(*over_y, *free_y)), shape=(inner, -1 if inner else 0))
    shape = (*(x.array.shape[i] for i in free_x), *(y.array.shape[i] for i in free_y))
    result: Tensor = array.reshape(linalg.matmul(left, right), shape=shape)
    return result


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Sums of products by index letters, any equation.

    >>> einsum("ij,jk->ik", [[1.0, 2.0]], [[3.0], [4.0]]).numpy().tolist()
    [[11.0]]
    """
    operands_ = [operand(inputs[0])]
    operands_ += [operand(x, operands_[0].dtype) for x in inputs[1:]]
    for x in operands_[1:]:
        if x.array.dtype != operands_[0].array.dtype:
            raise errors.mismatched_dtypes("Einsum", operands_[0].dtype, x.dtype)
    full = linalg.full_equation(equation, [len(x.array.shape) for x in operands_])
    result: Tensor = linalg.einsum(*operands_, equation=full)
    return result


def norm(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None, name: str | None = None
) -> Tensor:
    """A vector norm (any order) or, over two axes, a matrix norm.

    >>> norm([3.0, 4.0]).numpy().item()
    5.0
    """
    x = operand(tensor)
    keep = bool(keepdims)
    rank = len(x.array.shape)
    plain = static(axis)
    if plain is not None and np.ndim(plain) == 1:
        if len(plain) != 2 or integer(plain[0]) == integer(plain[1]):
            raise ValueError(f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis}")
        return _matrix_norm(x, ord, axes_in_order(plain, rank), keep)
    axes = axes_of(plain, rank, "Norm")
    if ord in ("fro", "euclidean", 2, 2.0):
        if ord == "fro":
            raise ValueError("'ord' must be a supported vector norm, got fro. Give two axes for a matrix norm.")
        return _euclidean(x, axes, keep) if rank else math.absolute(x)
    size = math.absolute(x)
    if ord == np.inf:
        return reduce.max_(size, axis=axes, keepdims=keep)
    if ord == 1:
        return reduce.sum_(size, axis=axes, keepdims=keep)
    if not isinstance(ord, (int, float)) or ord <= 0:
        raise ValueError(f"'ord' must be a supported vector norm, got {ord}.")
    powers = reduce.sum_(size ** float(ord), axis=axes, keepdims=keep)
    return powers ** (1.0 / ord)


def axes_in_order(axis: Any, rank: int) -> tuple[int, int]:
    first, second = (axis_of(integer(a), rank, "Norm") for a in axis)
    return first, second


def _matrix_norm(x: Tensor, ord: Any, axes: tuple[int, int], keep: bool) -> Tensor:
    rows, columns = axes
    if ord in ("fro", "euclidean"):
        return _euclidean(x, axes, keep)
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.array.shape) if keep or i not in axes)
    if ord in (1, np.inf):
        over, then = (rows, columns) if ord == 1 else (columns, rows)
        sums = reduce.sum_(math.absolute(x), axis=(over,), keepdims=True)
        result: Tensor = reduce.max_(sums, axis=(then,), keepdims=True)
        return array.reshape(result, shape=shape)
    if ord == 2:
        others = tuple(i for i in range(len(x.array.shape)) if i not in axes)
        values = svd(array.transpose(x, perm=(*others, *axes)), compute_uv=False)
        largest = reduce.max_(values, axis=(len(others),), keepdims=False)
        return array.reshape(largest, shape=shape)
    raise ValueError(f"'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got {ord}.")


def _euclidean(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The root of the sum of squares; complex, with imaginary part 0, for complex numbers, as in TensorFlow."""
    if not x.dtype.is_complex:
        return tfmath.reduce_euclidean_norm(x, axes, keep)
    return math.sqrt(reduce.sum_(x * math.conj(x), axis=axes, keepdims=keep))


def normalize(tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """A tensor divided by its norm, and that norm (with its axes kept).

    >>> normalize([0.0, 4.0])[0].numpy().tolist()
    [0.0, 1.0]
    """
    x = operand(tensor)
    length = norm(x, ord, axis, keepdims=True)
    if length.array.dtype != x.array.dtype:
        length = array.astype(length, dtype=x.array.dtype, source=length.array.dtype)
    return x / length, length


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """The norm of all tensors together; None entries are skipped.

    >>> global_norm([[3.0], None, [4.0]]).numpy().item()
    5.0
    """
    if isinstance(t_list, (Tensor, str)) or not hasattr(t_list, "__iter__"):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {t_list!r}.")
    values = [t.values if isinstance(t, IndexedSlices) else convert(t) for t in t_list if t is not None]
    if not values:
        return wrap(np.zeros((), np.float32))
    total = None
    for v in values:
        axes = tuple(range(len(v.array.shape)))
        part = reduce.sum_(math.square(v), axis=axes, keepdims=False)
        total = part if total is None else total + part
    result: Tensor = math.sqrt(total)
    return result


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
__all__ = [
    "adjoint",
    "band_part",
    "banded_triangular_solve",
    "cholesky",
    "cholesky_solve",
    "cross",
    "det",
    "diag",
    "diag_part",
    "eig",
    "eigh",
    "eigh_tridiagonal",
    "eigvals",
    "eigvalsh",
    "einsum",
    "experimental",
    "expm",
    "eye",
    "global_norm",
    "inv",
    "l2_normalize",
    "logdet",
    "logm",
    "lstsq",
    "lu",
    "lu_matrix_inverse",
    "lu_reconstruct",
    "lu_solve",
    "matmul",
    "matrix_rank",
    "matrix_transpose",
    "matvec",
    "norm",
    "normalize",
    "pinv",
    "qr",
    "set_diag",
    "slogdet",
    "solve",
    "sqrtm",
    "svd",
    "tensor_diag",
    "tensor_diag_part",
    "tensordot",
    "trace",
    "triangular_solve",
    "tridiagonal_matmul",
    "tridiagonal_solve",
]


def __dir__() -> list[str]:
    return list(__all__)
