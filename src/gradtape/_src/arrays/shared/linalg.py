"""Compositions of linear algebra: the last two axes are a matrix, the others are batch."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from typing import Any

import numpy as np

Array = Any


def det(xp: Any, x: Array) -> Array:
    return xp.library.linalg.det(x)


def slogdet(xp: Any, x: Array) -> tuple[Array, Array]:
    """Sign and logarithm of the absolute value, both with x's dtype as in TensorFlow."""
    sign, log = xp.library.linalg.slogdet(x)
    return xp.library.asarray(sign, dtype=x.dtype), xp.library.asarray(log, dtype=x.dtype)


def qr(xp: Any, x: Array, *, full_matrices: bool = False) -> tuple[Array, Array]:
    q, r = xp.library.linalg.qr(x, mode="complete" if full_matrices else "reduced")
    return q, r


def pinv(xp: Any, x: Array, *, rcond: Any) -> Array:
    """The pseudo-inverse; singular values up to rcond times the largest are treated as 0."""
    s, u, v = xp.svd(x)
    if not s.size:
        return xp.zeros((*x.shape[:-2], x.shape[-1], x.shape[-2]), x.dtype)
    keep = ~(s <= xp.library.asarray(rcond, dtype=s.dtype)[..., None] * s[..., :1])  # nan stays
    inverse = xp.where(keep, 1 / xp.where(keep, s, 1), 0)
    return xp.matmul(v * inverse[..., None, :], u, adjoint_y=True)


# -- parts of the engines' own kernels: `xp` is the library, numpy or jax.numpy ----------------------------------------
def adjoint(xp: Any, x: Array) -> Array:
    """The conjugate transpose."""
    flipped = xp.swapaxes(x, -1, -2)
    return xp.conjugate(flipped) if x.dtype.kind == "c" else flipped


def reduce_cyclically(xp: Any, lower: Array, main: Array, upper: Array, right: Array) -> Array:
    """Solve tridiagonal systems by cyclic reduction: each step eliminates neighbors at a distance that doubles."""
    n, distance = len(main), 1

    def moved(x: Array, by: int, fill: int = 0) -> Array:
        edge = xp.full((distance, *x.shape[1:]), fill, x.dtype)
        return xp.concatenate([edge, x[:-by]] if by > 0 else [x[-by:], edge])

    while distance < n:
        down, up = distance, -distance
        above, below = -lower / moved(main, down, 1), -upper / moved(main, up, 1)
        main = main + above * moved(upper, down) + below * moved(lower, up)
        right = right + above * moved(right, down) + below * moved(right, up)
        lower, upper = above * moved(lower, down), below * moved(upper, up)
        distance *= 2
    return right / main


def of_eigenvalues(xp: Any, function: Callable[[Array], Array], a: Array) -> Array:
    """A function of Hermitian matrices; nan for matrices on whose spectrum it is not finite."""
    values, vectors = xp.linalg.eigh(a)
    largest = xp.max(xp.absolute(values), axis=-1, keepdims=True)
    noise = a.shape[-1] * np.finfo(np.float64).eps * largest
    values = xp.where(xp.absolute(values) <= noise, 0, values).astype(a.dtype)
    found = function(values)  # nan for negative real numbers
    result = xp.matmul(vectors * found[:, None, :], adjoint(xp, vectors))
    return xp.where(xp.isfinite(found).all(axis=-1)[:, None, None], result, nan)
