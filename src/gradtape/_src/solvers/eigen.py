"""Eigenvalues and eigenvectors of symmetric matrices, differentiable even where eigenvalues coincide."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, verify
from gradtape._src.autodiff.one_op import one_op
from gradtape._src.conversion import convert
from gradtape._src.core import tape as stack
from gradtape._src.solvers.vectors import check_not_negative, epsilon, length
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array, decompositions, diagonals
from gradtape._src.tf.linalg import matmul, matrix_transpose
from gradtape._src.tf.math import reduce_max

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


def eigh(tensor: TensorLike, *, tol: float | None = None) -> tuple[Tensor, Tensor]:
    """Compute eigenvalues (ascending) and eigenvectors of symmetric matrices, with derivatives that are always finite.

    `tf.linalg.eigh` divides by the differences between eigenvalues, so its gradients are infinite or NaN if two
    coincide. The eigenvectors of equal eigenvalues are an arbitrary basis of their eigenspace, and only functions of
    that space have a derivative: sums over equal eigenvalues, projections, distances between spaces. For these
    functions, the rule that the basis does not rotate within a group of equal eigenvalues is correct. A gradient that
    depends on the choice of basis raises `tf.errors.InvalidArgumentError`. If all eigenvalues differ, the derivatives
    are those of `tf.linalg.eigh`.

    Both triangles of the matrix are read; the symmetric part is decomposed.

    Args:
      tensor: Symmetric matrices, real, along the last two axes.
      tol: Eigenvalues count as equal if their difference is at most this fraction of the largest; the default is the
        precision of the dtype to the power 2/3.

    >>> import gradtape as tf
    >>> a = tf.Variable(np.diag([2.0, 2.0, 5.0]))
    >>> with tf.GradientTape() as tape:
    ...     values, vectors = tf.autodiff.eigh(a)
    ...     projection = vectors[:, :2] @ tf.transpose(vectors[:, :2])
    ...     y = projection[0, 2] + values[0] + values[1]
    >>> tape.gradient(y, a).numpy().round(3).tolist()
    [[1.0, 0.0, -0.167], [0.0, 1.0, 0.0], [-0.167, 0.0, 0.0]]
    """
    a = convert(tensor)
    if a.dtype.name not in ("float32", "float64"):
        raise TypeError(f"tf.autodiff.eigh takes float32 and float64 matrices; received {a.dtype.name}.")
    shape = a.array.shape
    if len(shape) < 2 or shape[-1] != shape[-2]:
        raise ValueError(f"tf.autodiff.eigh takes square matrices; received the shape {tuple(shape)}.")
    if tol is not None:
        check_not_negative("tol", tol)
    symmetric = 0.5 * (a + matrix_transpose(a))
    with stack.use_recorders(()):
        values, vectors = decompositions.eigh(symmetric)
    share = epsilon(a) ** (2 / 3) if tol is None else tol
    found = one_op([symmetric], [values, vectors], functools.partial(_vjp, share), "autodiff_eigh")
    return found[0], found[1]


def _vjp(share: float, inputs: list[Tensor], outputs: list[Tensor], g: list[Tensor], needed: list[bool]) -> list[Any]:
    values, vectors = outputs
    gaps = values[..., None, :] - values[..., :, None]
    largest = reduce_max(abs(values), -1)[..., None, None]
    equal = abs(gaps) <= share * largest
    inverse = array.where(equal, 0.0, 1.0 / array.where(equal, 1.0, gaps))
    turns = matmul(vectors, g[1], transpose_a=True)
    _check_choice_of_basis(turns, g[0], equal, share)
    middle = inverse * turns + diagonals.diag(g[0])
    found = matmul(matmul(vectors, middle), vectors, transpose_b=True)
    return [0.5 * (found + matrix_transpose(found))]


def _check_choice_of_basis(turns: Tensor, weights: Tensor, equal: Tensor, share: float) -> None:
    """Check that the derivative by rotations within a group of equal eigenvalues is zero, and that all eigenvalues of a
    group have the same weight: which of them increases depends on the basis.
    """
    size = length(turns)
    if not size:
        return
    margin = size * 10 * max(epsilon(turns) ** 0.5, share)
    differences = weights[..., None, :] - weights[..., :, None]
    parts = (
        (turns - matrix_transpose(turns), turns, _BY_TURNING),
        (differences, weights[..., None], _BY_WEIGHTS),
    )
    for each, scale, how in parts:
        found = reduce_max(abs(array.where(equal, each, 0.0)), [-2, -1])
        limit = reduce_max(abs(scale), [-2, -1]) * margin
        verify(_RULE, found.array, limit.array, how=how)


_BY_TURNING = "rotating the basis of equal eigenvalues changes the target, by {:.3g} per radian"
_BY_WEIGHTS = "it differs by {:.3g} between equal eigenvalues, and which of them increases is a matter of that choice"


def _depends(xp: Any, found: Any, limit: Any, **_: Any) -> Any:
    return xp.logical_not(found <= limit)


def _error(found: Any, limit: Any, *, how: str) -> Exception:
    return errors.refused_value(
        "The gradient depends on the choice of eigenvectors where eigenvalues coincide: "
        f"{how.format(float(np.max(found)))}, so there is no derivative. Use functions of the whole space (a "
        "projection, a sum over equal eigenvalues), or pass a smaller tol if the eigenvalues are different.",
        "SelfAdjointEigV2",
    )


_RULE = Rule(_depends, _error, always=True, needed=True)

__all__ = ["eigh"]
