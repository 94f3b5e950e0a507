"""`tf.linalg`: products and norms, and the functions of `decompositions`, `linear_systems` and `diagonals`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.dimensions import is_same_shape
from gradtape._src.conversion import convert, hinted_operands, is_library, operand, operands, wrap
from gradtape._src.core.composites import NotDenseError, call_on_composites
from gradtape._src.core.primitive import narrowed, widened
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.lazy_names import getattr_of, homes_of
from gradtape._src.ops import array, linalg, math, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf import math as tfmath
from gradtape._src.tf.arguments import axes_of, axis_of, flag, integer, integers, static, truth
from gradtape._src.tf.array import cast, eye as eye, transpose

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike

l2_normalize = tfmath.l2_normalize


def matmul(
    a: TensorLike,
    b: TensorLike,
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
    """Compute the matrix product over the last two axes; the others broadcast.

    With `output_type`, products and sums are computed in that dtype, such as int8 times int8 in int32; the dtypes of
    the operands may then differ.

    >>> tf.matmul([[1.0, 2.0]], [[3.0], [4.0]]).numpy().item()
    11.0
    """
    if output_type is not None:
        a, b = _operands_of_product(a, b, as_dtype(output_type))
    if transpose_a is False and transpose_b is False and adjoint_a is False and adjoint_b is False:
        return linalg.plain_matmul(a, b)
    transpose_a, transpose_b = flag(transpose_a, "transpose_a"), flag(transpose_b, "transpose_b")
    adjoint_a, adjoint_b = flag(adjoint_a, "adjoint_a"), flag(adjoint_b, "adjoint_b")
    if transpose_a and adjoint_a:
        raise ValueError("Only one of `transpose_a` and `adjoint_a` can be True. Received both.")
    if transpose_b and adjoint_b:
        raise ValueError("Only one of `transpose_b` and `adjoint_b` can be True. Received both.")
    try:
        x, y = hinted_operands(a, b)
    except NotDenseError:
        return call_on_composites("matmul", matmul, (a, b, transpose_a, transpose_b, adjoint_a, adjoint_b), {})
    if x.dtype.is_complex:  # only then the transpose is not the adjoint
        x = matrix_transpose(x) if transpose_a else x
        y = matrix_transpose(y) if transpose_b else y
    else:
        adjoint_a, adjoint_b = adjoint_a or transpose_a, adjoint_b or transpose_b
    return linalg.matmul(x, y, adjoint_x=adjoint_a, adjoint_y=adjoint_b)


def _operands_of_product(a: Any, b: Any, wanted: DType) -> list[Any]:
    """The operands of a product that is computed in another dtype."""
    x, y = (operand(a), operand(b)) if isinstance(a, Tensor) and isinstance(b, Tensor) else hinted_operands(a, b)
    return [t if t.dtype == wanted else cast(t, wanted) for t in (x, y)]


def matvec(
    a: TensorLike,
    b: TensorLike,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """Multiply a matrix by a vector.

    >>> tf.linalg.matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).numpy().tolist()
    [3.0, 7.0]
    """
    x, y = hinted_operands(a, b)
    column = array.reshape(y, shape=(*y.array.shape, 1))
    product = matmul(x, column, transpose_a=transpose_a, adjoint_a=adjoint_a)
    result: Tensor = array.reshape(product, shape=product.array.shape[:-1])
    return result


def matrix_transpose(a: TensorLike, name: str = "matrix_transpose", conjugate: bool = False) -> Tensor:
    """Swap the last two axes.

    >>> tf.linalg.matrix_transpose([[1, 2, 3], [4, 5, 6]]).numpy().tolist()
    [[1, 4], [2, 5], [3, 6]]
    """
    x = operand(a)
    rank = len(x.array.shape)
    if rank < 2:
        raise ValueError(f"Argument `a` should be a (batch) matrix with rank >= 2.  Received `a` = {x!r}")
    return transpose(x, (*range(rank - 2), rank - 1, rank - 2), conjugate=truth(conjugate))


def adjoint(matrix: TensorLike, name: str | None = None) -> Tensor:
    """Compute the conjugate transpose of the last two axes.

    >>> tf.linalg.adjoint([[1 + 1j, 2j]]).numpy().tolist()
    [[(1-1j)], [-2j]]
    """
    return matrix_transpose(matrix, conjugate=True)


def tensordot(a: TensorLike, b: TensorLike, axes: Any, name: str | None = None) -> Tensor:
    """Compute the sum of products over pairs of axes.

    >>> tf.tensordot([[1.0, 2.0]], [[3.0], [4.0]], 1).numpy().tolist()
    [[11.0]]
    """
    x, y = hinted_operands(a, b)
    over_x, over_y = _contracted(x, y, axes)
    if not is_same_shape([x.array.shape[i] for i in over_x], [y.array.shape[i] for i in over_y]):
        raise errors.invalid_argument(
            f"Matrix size-incompatible: In[0]: {errors.brackets(x.array.shape)}, In[1]: "
            f"{errors.brackets(y.array.shape)} over axes {over_x} and {over_y}",
            "MatMul",
        )
    free_x = [i for i in range(len(x.array.shape)) if i not in over_x]
    free_y = [i for i in range(len(y.array.shape)) if i not in over_y]
    sizes_x, sizes_y = [x.array.shape[i] for i in free_x], [y.array.shape[i] for i in free_y]
    inner = prod(x.array.shape[i] for i in over_x)
    left = array.reshape(array.transpose(x, perm=(*free_x, *over_x)), shape=(prod(sizes_x), inner))
    right = array.reshape(array.transpose(y, perm=(*over_y, *free_y)), shape=(inner, prod(sizes_y)))
    result: Tensor = array.reshape(linalg.matmul(left, right), shape=(*sizes_x, *sizes_y))
    return result


def _contracted(x: Tensor, y: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    """The axes of each operand that `tensordot` sums over."""
    rank_x, rank_y = len(x.array.shape), len(y.array.shape)
    if isinstance(axes, (list, tuple)) and not (len(axes) == 2 and all(np.ndim(static(part)) == 0 for part in axes)):
        if len(axes) != 2:
            raise ValueError(f"`axes` must be an integer or have length 2. Received {axes}.")
        first, second = ([integer(i, "Tensordot") for i in _vector(part)] for part in axes)
    elif isinstance(axes, (list, tuple)):
        first, second = ([integer(i, "Tensordot")] for i in axes)
    else:
        found = integers(axes, "Tensordot", fixed=True)
        if np.ndim(found) == 0:
            count = int(found)
            if count < 0:
                raise ValueError(f"`axes` must be at least 0. Received: {axes}.")
            if count > rank_x:
                raise ValueError(
                    f"`axes` must not be larger than the number of dimensions of tensor {x!r}. Received {axes}, vs "
                    f"tensor dimensions {rank_x}."
                )
            found = [range(rank_x - count, rank_x), range(count)]
        if len(found) != 2:
            raise ValueError(f"`axes` must be an integer or have length 2. Received {axes!r}.")
        first, second = (np.atleast_1d(part).tolist() for part in found)
    if len(first) != len(second):
        raise ValueError(
            f"Different number of contraction axes `a` and `b`, {len(first)} != {len(second)}. Received {axes}."
        )
    return _existing(first, rank_x, "a"), _existing(second, rank_y, "b")


def _vector(part: Any) -> Any:
    return np.atleast_1d(integers(part, "Tensordot", fixed=True)) if is_library(part) else (
        part if isinstance(part, (list, tuple)) else [part]
    )  # fmt: skip


def _existing(axes: list[int], rank: int, name: str) -> list[int]:
    for i in axes:
        if not -rank <= i < rank:
            raise IndexError(f"list index out of range: `{name}` has {rank} dimensions, but `axes` names {i}.")
    positive = [i % rank for i in axes]
    if len(set(positive)) < len(positive):
        raise ValueError(f"`axes` names a dimension of `{name}` twice: {axes}.")
    return positive


def einsum(equation: str, *inputs: Any, **kwargs: Any) -> Tensor:
    """Compute sums of products in Einstein notation.

    >>> tf.einsum("ij,jk->ik", [[1.0, 2.0]], [[3.0], [4.0]]).numpy().tolist()
    [[11.0]]
    """
    if not isinstance(equation, str):
        raise TypeError(f"Expected a string for argument 'equation', but got {equation!r}.")
    strange = set(kwargs) - {"optimize", "name"}
    if strange:
        raise TypeError(
            f"Invalid keyword arguments for einsum: {', '.join(sorted(strange))}. Expected: name, optimize."
        )
    operands_ = [operand(x) for x in inputs[:1]]
    operands_ += [operand(x, operands_[0].dtype) for x in inputs[1:]]
    for x in operands_[1:]:
        if x.array.dtype != operands_[0].array.dtype:
            raise errors.mismatched_dtypes("Einsum", operands_[0].dtype, x.dtype)
    full = linalg.full_equation(equation, [x.array.shape for x in operands_])
    if operands_[0].array.dtype.kind in "bO":
        raise errors.no_kernel("Einsum", operands_[0].dtype)
    result: Tensor = linalg.einsum(*operands_, equation=full)
    return result


def norm(
    tensor: TensorLike, ord: Any = "euclidean", axis: Any = None, keepdims: bool | None = None, name: str | None = None
) -> Tensor:
    """Compute a vector norm (of any order) or, over two axes, a matrix norm.

    >>> tf.norm([3.0, 4.0]).numpy().item()
    5.0
    """
    x, keep, plain = operand(tensor), truth(keepdims), _norm_axis(axis)
    result: Tensor = narrowed(_norm(widened(x), ord, plain, keep), x.array.dtype)
    return result


def _norm(x: Tensor, ord: Any, plain: Any, keep: bool) -> Any:
    rank = len(x.array.shape)
    if x.array.dtype.kind not in "fcV":
        kind = TypeError if x.array.dtype.kind in "bO" else errors.refused_dtype
        raise kind(f"tf.norm takes floating and complex numbers; received {x.dtype.name}: use tf.cast first.")
    _check_order(ord, plain)
    if isinstance(plain, tuple):
        return _matrix_norm(x, ord, axes_in_order(plain, rank), keep)
    axes = axes_of(plain, rank, "Norm")
    if ord in ("fro", "euclidean", 2, 2.0):
        if ord == "fro":
            raise ValueError("'ord' must be a supported vector norm, got fro. Pass two axes for a matrix norm.")
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


def _norm_axis(axis: Any) -> Any:
    """None, an int or a pair of ints."""
    if axis is None:
        return None
    sentence = f"'axis' must be None, an integer, or a tuple of 2 unique integers, got {axis!r}"
    pair = isinstance(axis, (list, tuple))
    try:
        if pair:
            plain: Any = tuple(int(np.asarray(static(a)).item().__index__()) for a in axis)
        else:
            plain = int(np.asarray(static(axis)).item().__index__())
    except (TypeError, ValueError, AttributeError):
        raise ValueError(sentence) from None
    if pair and (len(plain) != 2 or plain[0] == plain[1]):
        raise ValueError(sentence)
    return plain


def _check_order(ord: Any, axis: Any) -> None:
    sentence = f"'ord' must be a supported {'matrix' if isinstance(axis, tuple) else 'vector'} norm, got {ord!r}."
    if isinstance(ord, (str, bytes)):
        if ord not in ("fro", "euclidean"):
            raise ValueError(sentence)
    elif isinstance(ord, Tensor) or ord is None or not isinstance(ord, (int, float, np.number, list, tuple, complex)):
        raise TypeError(f"{sentence} Pass a Python number or a name.")
    elif not isinstance(ord, (int, float, np.number)):
        raise ValueError(sentence)


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
        from gradtape._src.tf.decompositions import svd

        values = svd(array.transpose(x, perm=(*others, *axes)), compute_uv=False)
        largest = reduce.max_(values, axis=(len(others),), keepdims=False)
        return array.reshape(largest, shape=shape)
    raise ValueError(f"'ord' must be a supported matrix norm in ['euclidean', 'fro', 1, 2, inf], got {ord}.")


def _euclidean(x: Tensor, axes: tuple[int, ...], keep: bool) -> Tensor:
    """The root of the sum of squares; complex, with imaginary part 0, for complex numbers, as in TensorFlow."""
    if not x.dtype.is_complex:
        return tfmath.reduce_euclidean_norm(x, axes, keep)
    return math.sqrt(reduce.sum_(x * math.conj(x), axis=axes, keepdims=keep))


def normalize(
    tensor: TensorLike, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Divide a tensor by its norm; also returns the norm (with its axes kept).

    >>> tf.linalg.normalize([0.0, 4.0])[0].numpy().tolist()
    [0.0, 1.0]
    """
    x = operand(tensor)
    y = widened(x)
    length = norm(y, ord, axis, keepdims=True)
    if length.array.dtype != y.array.dtype:
        length = array.astype(length, dtype=y.array.dtype, source=length.array.dtype)
    return narrowed(y / length, x.array.dtype), narrowed(length, x.array.dtype)


def global_norm(t_list: Any, name: str | None = None) -> Tensor:
    """Compute the norm of all tensors together; None entries are skipped.

    >>> tf.linalg.global_norm([[3.0], None, [4.0]]).numpy().item()
    5.0
    """
    if not isinstance(t_list, Sequence) or isinstance(t_list, (str, bytes)):
        raise TypeError(f"`t_list` should be a sequence of tensors. Received {t_list!r}.")
    values = [t.values if isinstance(t, IndexedSlices) else convert(t) for t in t_list if t is not None]
    if not values:
        return wrap(np.zeros((), np.float32))
    wide = [widened(v) for v in values]
    total = functools.reduce(math.add, [_sum_of_squares(v) for v in wide])
    result: Tensor = narrowed(math.sqrt(total), values[0].dtype.numpy_dtype)
    return result


def _sum_of_squares(x: Tensor) -> Tensor:
    return reduce.sum_(x * x, axis=tuple(range(len(x.array.shape))), keepdims=False)


def cross(a: TensorLike, b: TensorLike, name: str | None = None) -> Tensor:
    """Compute the cross product of vectors of three elements along the last axis.

    >>> tf.linalg.cross([1, 0, 0], [0, 1, 0]).numpy().tolist()
    [0, 0, 1]
    """
    x, y = operands(a, b)
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes("Cross", x.dtype, y.dtype)
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
    after, before = (..., np.array([1, 2, 0])), (..., np.array([2, 0, 1]))
    return array.getitem(x, index=after) * array.getitem(y, index=before) - array.getitem(
        x, index=before
    ) * array.getitem(y, index=after)


# -- operators and decompositions: loaded when they are first used -----------------------------------------------------
_LAZY = homes_of(
    (
        "tf.linear_operator",
        "LinearOperator LinearOperatorAdjoint LinearOperatorComposition LinearOperatorFullMatrix "
        "LinearOperatorInversion LinearOperatorLowerTriangular",
    ),
    (
        "tf.linear_operators",
        "LinearOperatorBlockDiag LinearOperatorDiag LinearOperatorHouseholder LinearOperatorIdentity "
        "LinearOperatorKronecker LinearOperatorLowRankUpdate LinearOperatorPermutation "
        "LinearOperatorScaledIdentity LinearOperatorToeplitz LinearOperatorTridiag LinearOperatorZeros",
    ),
)
"""Names that `gradtape.linalg` imports on first use."""

_HOMES = homes_of(
    (
        "tf.decompositions",
        "cholesky det eig eigh eigh_tridiagonal eigvals eigvalsh expm inv logdet logm lu matrix_rank pinv qr slogdet "
        "sqrtm svd",
    ),
    ("tf.diagonals", "band_part diag diag_part set_diag tensor_diag tensor_diag_part trace"),
    (
        "tf.linear_systems",
        "banded_triangular_solve cholesky_solve experimental lstsq lu_matrix_inverse lu_reconstruct lu_solve solve "
        "triangular_solve tridiagonal_matmul tridiagonal_solve",
    ),
)

if TYPE_CHECKING:
    from gradtape._src.tf.decompositions import (
        cholesky as cholesky,
        det as det,
        eig as eig,
        eigh as eigh,
        eigh_tridiagonal as eigh_tridiagonal,
        eigvals as eigvals,
        eigvalsh as eigvalsh,
        expm as expm,
        inv as inv,
        logdet as logdet,
        logm as logm,
        lu as lu,
        matrix_rank as matrix_rank,
        pinv as pinv,
        qr as qr,
        slogdet as slogdet,
        sqrtm as sqrtm,
        svd as svd,
    )
    from gradtape._src.tf.diagonals import (
        band_part as band_part,
        diag as diag,
        diag_part as diag_part,
        set_diag as set_diag,
        tensor_diag as tensor_diag,
        tensor_diag_part as tensor_diag_part,
        trace as trace,
    )
    from gradtape._src.tf.linear_operator import (
        LinearOperator as LinearOperator,
        LinearOperatorAdjoint as LinearOperatorAdjoint,
        LinearOperatorComposition as LinearOperatorComposition,
        LinearOperatorFullMatrix as LinearOperatorFullMatrix,
        LinearOperatorInversion as LinearOperatorInversion,
        LinearOperatorLowerTriangular as LinearOperatorLowerTriangular,
    )
    from gradtape._src.tf.linear_operators import (
        LinearOperatorBlockDiag as LinearOperatorBlockDiag,
        LinearOperatorDiag as LinearOperatorDiag,
        LinearOperatorHouseholder as LinearOperatorHouseholder,
        LinearOperatorIdentity as LinearOperatorIdentity,
        LinearOperatorKronecker as LinearOperatorKronecker,
        LinearOperatorLowRankUpdate as LinearOperatorLowRankUpdate,
        LinearOperatorPermutation as LinearOperatorPermutation,
        LinearOperatorScaledIdentity as LinearOperatorScaledIdentity,
        LinearOperatorToeplitz as LinearOperatorToeplitz,
        LinearOperatorTridiag as LinearOperatorTridiag,
        LinearOperatorZeros as LinearOperatorZeros,
    )
    from gradtape._src.tf.linear_systems import (
        banded_triangular_solve as banded_triangular_solve,
        cholesky_solve as cholesky_solve,
        experimental as experimental,
        lstsq as lstsq,
        lu_matrix_inverse as lu_matrix_inverse,
        lu_reconstruct as lu_reconstruct,
        lu_solve as lu_solve,
        solve as solve,
        triangular_solve as triangular_solve,
        tridiagonal_matmul as tridiagonal_matmul,
        tridiagonal_solve as tridiagonal_solve,
    )
else:  # type checkers would accept any misspelled name
    __getattr__ = getattr_of(__name__, _LAZY | _HOMES)


# -- the namespace: TensorFlow's names, and nothing else -------------------------------------------------------------
__all__ = [
    *_LAZY,
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
