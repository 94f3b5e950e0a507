"""Factorisations and solvers on JAX arrays: see arrays/numpy/linalg.py for the meaning of each function.

Matrices that a function rejects (singular, not positive definite, not finite) raise the NumPy engine's errors:
immediately for concrete arrays, and after a compiled program has run on the CPU (checks.py). On a GPU the results of
such a matrix are inf or nan, and other matrices of the stack are unaffected.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from gradtape._src.arrays.numpy.linalg import PADE, PADE_REACH
from gradtape._src.arrays.shared.linalg import adjoint as adjoint_of, of_eigenvalues, reduce_cyclically
from gradtape._src.arrays.xla.checks import refuse

Array = Any


def _all_finite(x: Array) -> Array:
    return jnp.all(jnp.isfinite(x), axis=(-2, -1))


# -- inverses and determinants ---------------------------------------------------------------------------------------
def inv(x: Array) -> Array:
    eye = jnp.broadcast_to(jnp.eye(x.shape[-1], dtype=x.dtype), x.shape)
    result, singular = _solve(x, eye)
    refuse("inv", singular)
    return result


# -- linear systems --------------------------------------------------------------------------------------------------
def solve(x: Array, y: Array, *, adjoint: bool = False) -> Array:
    result, singular = _solve(adjoint_of(jnp, x) if adjoint else x, y)
    refuse("solve", singular)
    return result


def _solve(x: Array, y: Array) -> tuple[Array, Array]:
    """The solution, and whether each matrix is singular."""
    packed, _, order = lax.linalg.lu(jnp.asarray(x))
    lead = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    packed = jnp.broadcast_to(packed, (*lead, *x.shape[-2:]))
    right = jnp.broadcast_to(y, (*lead, *y.shape[-2:]))
    right = jnp.take_along_axis(right, jnp.broadcast_to(order, (*lead, x.shape[-1]))[..., None], axis=-2)
    half = lax.linalg.triangular_solve(packed, right, left_side=True, lower=True, unit_diagonal=True)
    result = lax.linalg.triangular_solve(packed, half, left_side=True, lower=False)
    return result, _zero_pivot(packed, x)


def _zero_pivot(packed: Array, x: Array) -> Array:
    """Whether a pivot is zero, or the first is nan, which TensorFlow treats as zero."""
    zero = jnp.any(jnp.diagonal(packed, axis1=-2, axis2=-1) == 0, axis=-1)
    return zero | jnp.isnan(x[..., 0, 0]) if x.shape[-1] else zero


def triangular_solve(x: Array, y: Array, *, lower: bool = True, adjoint: bool = False) -> Array:
    lead = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return lax.linalg.triangular_solve(
        jnp.broadcast_to(x, (*lead, *x.shape[-2:])),
        jnp.broadcast_to(y, (*lead, *y.shape[-2:])),
        left_side=True,
        lower=lower,
        transpose_a=adjoint,
        conjugate_a=adjoint,
    )


def tridiagonal_solve(x: Array, y: Array) -> Array:
    n, columns = x.shape[-1], y.shape[-1]
    lead = jnp.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    right = jnp.moveaxis(jnp.broadcast_to(y, (*lead, n, columns)), -2, 0)
    bands = jnp.moveaxis(jnp.broadcast_to(x, (*lead, 3, n)), (-2, -1), (0, 1))[..., None]  # [3, n, ..., 1]
    rows = jnp.arange(n).reshape(n, *[1] * (len(lead) + 1))
    upper, main, lower = bands[0] * (rows < n - 1), bands[1], bands[2] * (rows > 0)
    if not right.size:
        return jnp.moveaxis(right, 0, -2)
    size = jnp.absolute(main)
    dominant = jnp.all((size >= jnp.absolute(lower) + jnp.absolute(upper)) & (size > 0))
    found = lax.cond(dominant, partial(reduce_cyclically, jnp), _eliminate, lower, main, upper, right)
    return jnp.moveaxis(found, 0, -2)


def _eliminate(lower: Array, main: Array, upper: Array, right: Array) -> Array:
    """Gaussian elimination with row swaps, after which there are two elements above the diagonal."""

    def forward(row: Any, below: Any) -> Any:
        swap = jnp.absolute(below[0]) > jnp.absolute(row[0])
        pivot = tuple(jnp.where(swap, b, a) for a, b in zip(row, below, strict=True))
        other = tuple(jnp.where(swap, a, b) for a, b in zip(row, below, strict=True))
        factor = other[0] / pivot[0]
        _, second, third, known = (b - factor * a for a, b in zip(pivot, other, strict=True))
        return (second, third, jnp.zeros_like(third), known), pivot

    def backward(solved: Any, row: Any) -> Any:
        (next_one, after_next), (first, second, third, known) = solved, row
        found = (known - second * next_one - third * after_next) / first
        return (found, next_one), found

    nothing = jnp.zeros_like(main)
    below = (lower[1:], main[1:], upper[1:], right[1:])
    last, rows = lax.scan(forward, (main[0], upper[0], nothing[0], right[0]), below)
    bottom = last[3] / last[0]
    _, found = lax.scan(backward, (bottom, jnp.zeros_like(bottom)), rows, reverse=True)
    return jnp.concatenate([found, bottom[None]])


# -- factorisations --------------------------------------------------------------------------------------------------
def cholesky(x: Array) -> Array:
    factor = lax.linalg.cholesky(jnp.asarray(x), symmetrize_input=False)
    refuse("cholesky", jnp.any(jnp.isnan(factor), axis=(-2, -1)) & ~jnp.any(jnp.isnan(jnp.tril(x)), axis=(-2, -1)))
    return factor


def lu(x: Array) -> tuple[Array, Array]:
    x = jnp.asarray(x)
    if x.dtype.kind == "c":
        packed, order = _lu_by_size(x)
    else:
        wide = x if x.dtype in (np.float32, np.float64) else x.astype(np.float32)  # as LAPACK supports
        packed, _, order = lax.linalg.lu(wide)
        packed = packed.astype(x.dtype)
    refuse("lu", _zero_pivot(packed, x))
    return packed, order.astype(np.int32)


def _lu_by_size(x: Array) -> tuple[Array, Array]:
    """Column by column, for complex numbers: LAPACK selects pivots by the sum of their parts, not by magnitude."""
    n = x.shape[-1]
    at = jnp.arange(n)

    def step(j: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        packed, order = state
        column = jnp.where(at >= j, jnp.absolute(packed[..., j]), -1)
        pivot = jnp.argmax(column, axis=-1)[..., None]
        swapped = jnp.where(at == j, pivot, jnp.where(at == pivot, j, at))
        packed = jnp.take_along_axis(packed, swapped[..., None], axis=-2)
        order = jnp.take_along_axis(order, swapped, axis=-1)
        row, column = packed[..., j, :], packed[..., j]
        factor = jnp.where(at > j, column / row[..., j, None], 0)
        packed = packed.at[..., j].set(jnp.where(at > j, factor, column))
        return packed - factor[..., None] * jnp.where(at > j, row, 0)[..., None, :], order

    order = jnp.broadcast_to(at.astype(np.int32), x.shape[:-1])
    return lax.fori_loop(0, n, step, (x, order)) if x.size else (x, order)


def eigh(x: Array) -> tuple[Array, Array]:
    lower = jnp.tril(x)
    refuse("eigh", jnp.any(jnp.isnan(lower), axis=(-2, -1)))
    usable = _all_finite(lower)
    values, vectors = jnp.linalg.eigh(jnp.where(usable[..., None, None], lower, 0), UPLO="L", symmetrize_input=False)
    values = jnp.where(usable[..., None], values, np.nan)
    return values.astype(x.dtype), jnp.where(usable[..., None, None], vectors, np.nan)


def eigvalsh(x: Array) -> Array:
    return eigh(x)[0]  # XLA drops the unused vectors


def eig(x: Array) -> tuple[Array, Array]:
    refuse("eig", ~_all_finite(x))
    values, vectors = jnp.linalg.eig(x)
    return values, vectors


def eigvals(x: Array) -> Array:
    refuse("eig", ~_all_finite(x))
    return jnp.linalg.eigvals(x)


def svd(x: Array, *, full_matrices: bool = False) -> tuple[Array, Array, Array]:
    usable = _all_finite(x)[..., None, None]
    u, s, vh = jnp.linalg.svd(jnp.where(usable, x, 0), full_matrices=full_matrices)
    return (
        jnp.where(usable[..., 0], s, np.nan),
        jnp.where(usable, u, np.nan),
        jnp.where(usable, adjoint_of(jnp, vh), np.nan),
    )


def svdvals(x: Array) -> Array:
    usable = _all_finite(x)[..., None, None]
    return jnp.where(usable[..., 0], jnp.linalg.svd(jnp.where(usable, x, 0), compute_uv=False), np.nan)


# -- functions of matrices -------------------------------------------------------------------------------------------
def expm(x: Array) -> Array:
    """The NumPy engine's formula, always with the longest approximant: the choice would depend on values."""
    if not x.size:
        return jnp.asarray(x)
    order, bound = max(PADE_REACH[x.real.dtype.itemsize].items())
    norm = jnp.max(jnp.sum(jnp.absolute(x), axis=-2), axis=-1)
    finite = jnp.isfinite(norm)
    squarings = jnp.ceil(jnp.log2(jnp.maximum(jnp.where(finite, norm, 0) / bound, 1)))
    scaled = jnp.where(finite[..., None, None], x * jnp.exp2(-squarings)[..., None, None], 0)
    odd, even = _pade_parts(scaled, PADE[order])
    start, _ = _solve(even - odd, even + odd)

    def square(i: Any, result: Array) -> Array:
        return jnp.where((i < squarings)[..., None, None], jnp.matmul(result, result), result)

    result = lax.fori_loop(0, jnp.max(squarings).astype(int), square, start)
    return jnp.where(finite[..., None, None], result, np.nan)


def _pade_parts(x: Array, b: tuple[float, ...]) -> tuple[Array, Array]:
    """The odd and the even part of the polynomial with coefficients b, by Horner's scheme in x²."""
    eye = jnp.eye(x.shape[-1], dtype=x.dtype)
    square = jnp.matmul(x, x)
    odd, even = b[-1] * eye, b[-2] * eye
    for k in range(len(b) - 3, 0, -2):
        odd, even = jnp.matmul(odd, square) + b[k] * eye, jnp.matmul(even, square) + b[k - 1] * eye
    return jnp.matmul(x, odd), even


def sqrtm(x: Array) -> Array:
    return _in_double(_sqrtm, x)


def logm(x: Array) -> Array:
    return _in_double(_logm, x)


def _in_double(function: Callable[[Array], Array], x: Array) -> Array:
    """Iterations lose digits, so they run in double precision; matrices that are not finite give nan."""
    if not x.size:
        return jnp.asarray(x)
    wide = x.reshape(-1, *x.shape[-2:]).astype(jnp.result_type(x.dtype, np.float64))
    usable = _all_finite(wide)[:, None, None]
    result = jnp.where(usable, function(jnp.where(usable, wide, jnp.eye(x.shape[-1], dtype=wide.dtype))), np.nan)
    return result.astype(x.dtype).reshape(x.shape)


def _either(where: Array, one: Callable[[Array], Array], other: Callable[[Array], Array], a: Array) -> Array:
    """`one` of the matrices where a condition is true, else `other`; not computed if unnecessary."""
    return lax.cond(jnp.all(where), one, lambda a: jnp.where(where[:, None, None], one(a), other(a)), a)


def _is_hermitian(a: Array) -> Array:
    return jnp.all(a == adjoint_of(jnp, a), axis=(1, 2))


def _sqrtm(a: Array) -> Array:
    return _either(_is_hermitian(a), lambda a: of_eigenvalues(jnp, jnp.sqrt, a), _sqrtm_general, a)


def _sqrtm_general(a: Array) -> Array:
    root, converged = _sqrtm_by_iteration(a)
    return _either(converged, lambda _: root, _sqrtm_by_eigenvectors, a)


def _sqrtm_by_iteration(a: Array) -> tuple[Array, Array]:
    """Denman and Beavers' iteration in its product form, scaled by determinants, and where it converged."""
    n, eye = a.shape[-1], jnp.eye(a.shape[-1], dtype=a.dtype)

    def step(state: Any) -> Any:
        count, m, root, far, moving = state
        inverse = jnp.linalg.inv(m)
        scale = jnp.where(far, jnp.exp(jnp.linalg.slogdet(m)[1] / -(2 * n)), 1)[:, None, None]
        next_root = 0.5 * scale * jnp.matmul(root, eye + inverse / scale**2)
        next_m = 0.5 * (eye + 0.5 * (scale**2 * m + inverse / scale**2))
        distance = jnp.max(jnp.absolute(next_m - eye), axis=(1, 2))
        held = moving[:, None, None]
        still = moving & jnp.isfinite(distance) & (distance > 8 * np.finfo(np.float64).eps * n)
        return count + 1, jnp.where(held, next_m, m), jnp.where(held, next_root, root), far & (distance > 0.01), still

    every = jnp.ones(len(a), bool)
    *_, root, _, moving = lax.while_loop(lambda s: (s[0] < 60) & jnp.any(s[4]), step, (0, a, a, every, every))
    wrong = jnp.max(jnp.absolute(jnp.matmul(root, root) - a), axis=(1, 2))
    return root, ~moving & (wrong <= 1e-8 * jnp.max(jnp.absolute(a), axis=(1, 2)))


def _sqrtm_by_eigenvectors(a: Array) -> Array:
    """For singular matrices and complex ones with negative eigenvalues."""
    values, vectors = jnp.linalg.eig(a)
    flipped = jnp.swapaxes(vectors, 1, 2)
    root = jnp.swapaxes(_solve(flipped, jnp.sqrt(values)[:, :, None] * flipped)[0], 1, 2)
    good = _largest(jnp.matmul(root, root) - a) <= 1e-6 * _largest(a)
    if a.dtype.kind != "c":
        good &= _largest(root.imag) <= 1e-8 * _largest(root)
        root = root.real
    return jnp.where(good[:, None, None], root, np.nan)


def _largest(a: Array) -> Array:
    return jnp.max(jnp.absolute(a), axis=(1, 2))


def _logm(a: Array) -> Array:
    return _either(_is_hermitian(a), lambda a: of_eigenvalues(jnp, jnp.log, a), _logm_by_roots, a)


def _logm_by_roots(a: Array) -> Array:
    """Square roots until a matrix is near 1, then the logarithm's Padé approximant as a sum of fractions."""
    eye = jnp.eye(a.shape[-1], dtype=a.dtype)

    def is_far(a: Array, roots: Array) -> Array:
        return (jnp.max(jnp.sum(jnp.absolute(a - eye), axis=1), axis=1) > 0.25) & (roots <= 100)

    def step(state: tuple[Array, Array]) -> tuple[Array, Array]:
        a, roots = state
        far = is_far(a, roots)
        return jnp.where(far[:, None, None], _sqrtm(a), a), roots + far

    start = (a, jnp.zeros(len(a), int))
    near, roots = lax.while_loop(lambda state: jnp.any(is_far(*state)), step, start)
    x = near - eye
    nodes, weights = np.polynomial.legendre.leggauss(8)
    total = jnp.zeros_like(a)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        total += weight * _solve(eye + node * x, x)[0]
    return jnp.where((roots <= 100)[:, None, None], total * 2.0 ** roots[:, None, None], np.nan)
