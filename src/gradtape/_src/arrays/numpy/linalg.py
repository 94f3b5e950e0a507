"""Factorisations and solvers for stacks of matrices: the last two axes are a matrix, the others are batch axes.

They use LAPACK where NumPy provides it. What it lacks (triangular and tridiagonal systems, LU, functions of matrices)
is implemented here in blocks, so that most of the time is spent in matrix products.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.shared.linalg import adjoint as adjoint_of, of_eigenvalues, reduce_cyclically
from gradtape._src.interrupts import float_errors_ignored

Array = Any

_BLOCK = 48  # below this size LAPACK's overhead outweighs the savings of splitting a triangle


# -- inverses and determinants ---------------------------------------------------------------------------------------
def inv(x: Array) -> Array:
    try:
        result = np.linalg.inv(x)
    except np.linalg.LinAlgError:
        raise errors.refused_value(f"Input is not invertible.{_which_singular(x)}", "MatrixInverse") from None
    if _begins_with_nan(x):
        raise errors.refused_value("Input is not invertible. It begins with nan.", "MatrixInverse")
    return result


def _begins_with_nan(x: Array) -> bool:
    """Whether the first pivot is nan, which TensorFlow treats as zero; nan elsewhere makes the result nan."""
    return bool(x.size and np.isnan(x[..., 0, 0]).any())


def _which_singular(x: Array) -> str:
    """The position of the singular matrix in a stack, for messages."""
    if x.ndim == 2:
        return ""
    singular = np.argwhere(np.linalg.slogdet(x)[0] == 0)
    return f" The matrix at position {singular[0].tolist()} is singular." if len(singular) else ""


# -- linear systems --------------------------------------------------------------------------------------------------
def solve(x: Array, y: Array, *, adjoint: bool = False) -> Array:
    """Solve x z = y, or x^H z = y, for z."""
    try:
        result = np.linalg.solve(adjoint_of(np, x) if adjoint else x, y)
    except np.linalg.LinAlgError:
        raise errors.refused_value(f"Input matrix is not invertible.{_which_singular(x)}", "MatrixSolve") from None
    if _begins_with_nan(x):
        raise errors.refused_value("Input matrix is not invertible. It begins with nan.", "MatrixSolve")
    return result


def triangular_solve(x: Array, y: Array, *, lower: bool = True, adjoint: bool = False) -> Array:
    """Solve t z = y (or t^H z = y) for z, where t is one triangle of x; the other one is not read."""
    if adjoint:
        x, lower = adjoint_of(np, x), not lower
    if x.shape[-1] == 0 or y.shape[-1] == 0:
        return np.zeros((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), *y.shape[-2:]), y.dtype)
    if lower:  # reversed in both axes, a lower triangle is an upper one
        return _solve_upper(x[..., ::-1, ::-1], y[..., ::-1, :])[..., ::-1, :]
    return _solve_upper(x, y)


def _solve_upper(x: Array, y: Array) -> Array:
    """Recursion on halves: solve for the lower half of the unknowns, subtract it, then solve for the upper half."""
    n = x.shape[-1]
    if n <= _BLOCK:
        # LU of an upper triangle eliminates nothing: no row is swapped, and only back substitution runs.
        try:
            return np.linalg.solve(np.triu(x), y)
        except np.linalg.LinAlgError:  # a zero on the diagonal: inf and nan, as in TensorFlow
            return _substitute_upper(x, y)
    half = n // 2
    bottom = _solve_upper(x[..., half:, half:], y[..., half:, :])
    top = _solve_upper(x[..., :half, :half], y[..., :half, :] - np.matmul(x[..., :half, half:], bottom))
    return np.concatenate([top, bottom], -2)


def _substitute_upper(x: Array, y: Array) -> Array:
    n = x.shape[-1]
    result = np.zeros((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), *y.shape[-2:]), y.dtype)
    with float_errors_ignored():
        for i in range(n - 1, -1, -1):
            known = np.matmul(x[..., i : i + 1, i + 1 :], result[..., i + 1 :, :])[..., 0, :]
            result[..., i, :] = (y[..., i, :] - known) / x[..., i, i, None]
    return result


def tridiagonal_solve(x: Array, y: Array) -> Array:
    """Solve tridiagonal systems.

    x [..., 3, n] contains the superdiagonal (without its last element), the diagonal, and the subdiagonal (without its
    first element). If the diagonal dominates, no row has to be swapped, and all rows are reduced together; otherwise
    elimination proceeds row by row.
    """
    n, columns = x.shape[-1], y.shape[-1]
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    count = math.prod(lead)
    bands = np.broadcast_to(x, (*lead, 3, n)).reshape(count, 3, n)
    upper, main, lower = (bands[:, i].T[:, :, None] for i in range(3))  # [n, batch, 1]: each step accesses one row
    right = np.broadcast_to(y, (*lead, n, columns)).reshape(count, n, columns).transpose(1, 0, 2).copy()
    before, after = lower.copy(), upper.copy()
    before[:1], after[-1:] = 0, 0
    size = np.absolute(main)
    if np.all(size >= np.absolute(before) + np.absolute(after)) and np.all(size > 0):
        found = reduce_cyclically(np, before, main, after, right)
    else:
        found = _eliminate(before, main, after, right)
    return found.transpose(1, 0, 2).reshape(*lead, n, columns)


def _eliminate(lower: Array, main: Array, upper: Array, right: Array) -> Array:
    """Gaussian elimination with row swaps, after which there are two elements above the diagonal."""
    n = len(main)
    rows = []  # of the upper triangle: the diagonal and the two elements right of it
    with float_errors_ignored():
        if n:
            first, second, third = main[0], upper[0], np.zeros_like(main[0])
        for i in range(n - 1):
            below = (lower[i + 1], main[i + 1], upper[i + 1])
            swap = np.absolute(below[0]) > np.absolute(first)
            own = (first, second, third)
            above = tuple(np.where(swap, b, a) for a, b in zip(own, below, strict=True))
            under = tuple(np.where(swap, a, b) for a, b in zip(own, below, strict=True))
            top, bottom = np.where(swap, right[i + 1], right[i]), np.where(swap, right[i], right[i + 1])
            factor = under[0] / above[0]
            rows.append(above)
            right[i], right[i + 1] = top, bottom - factor * top
            first, second = under[1] - factor * above[1], under[2] - factor * above[2]
            third = np.zeros_like(first)
        if n:
            right[n - 1] /= first
        for i in range(n - 2, -1, -1):
            a, b, c = rows[i]
            known = b * right[i + 1] + (c * right[i + 2] if i + 2 < n else 0)
            right[i] = (right[i] - known) / a
    return right


# -- factorisations --------------------------------------------------------------------------------------------------
def cholesky(x: Array) -> Array:
    """The lower triangular factor; reads only the lower triangle of x."""
    try:
        return np.linalg.cholesky(x)
    except np.linalg.LinAlgError:
        raise errors.refused_value(
            "Cholesky decomposition was not successful. The input might not be valid. It must be Hermitian and "
            "positive definite: adding a small multiple of the identity often helps.",
            "Cholesky",
        ) from None


def lu(x: Array) -> tuple[Array, Array]:
    """Both triangles in one matrix, and the permutation of rows: the triangles' product is x[p]."""
    n = x.shape[-1]
    if _begins_with_nan(x):
        raise errors.refused_value("Input is not invertible. It begins with nan.", "Lu")
    stack = np.array(x.reshape(-1, n, n)) if x.size else np.zeros((math.prod(x.shape[:-2]), n, n), x.dtype)
    order = np.tile(np.arange(n, dtype=np.int32), (len(stack), 1))
    every = np.arange(len(stack))
    for start in range(0, n, 32):  # a panel of columns, then everything right of it by matrix products
        end = min(start + 32, n)
        for j in range(start, end):
            pivot = np.argmax(np.absolute(stack[:, j:, j]), axis=1) + j
            _swap_rows(stack, every, j, pivot)
            _swap_rows(order, every, j, pivot)
            if not np.all(stack[:, j, j]):
                raise errors.refused_value("Input is not invertible.", "Lu")
            stack[:, j + 1 :, j] /= stack[:, j, j, None]
            stack[:, j + 1 :, j + 1 : end] -= stack[:, j + 1 :, j, None] * stack[:, j, None, j + 1 : end]
        if end < n:
            unit = np.tril(stack[:, start:end, start:end], -1) + np.eye(end - start, dtype=x.dtype)
            stack[:, start:end, end:] = triangular_solve(unit, stack[:, start:end, end:])
            stack[:, end:, end:] -= np.matmul(stack[:, end:, start:end], stack[:, start:end, end:])
    return stack.reshape(x.shape), order.reshape(x.shape[:-1])


def _swap_rows(stack: Array, every: Array, j: int, pivot: Array) -> None:
    kept = stack[every, pivot]
    stack[every, pivot] = stack[:, j]
    stack[:, j] = kept


def eigh(x: Array) -> tuple[Array, Array]:
    """Eigenvalues (ascending) and eigenvectors of Hermitian matrices; reads only the lower triangle of x."""
    if not np.all(np.isfinite(x)):
        lower, n = _without_nan(x), x.shape[-1]
        found = _row_by_row(np.linalg.eigh, lower, [((n,), x.real.dtype), ((n, n), x.dtype)])
        return found[0].astype(x.dtype, copy=False), found[1]
    values, vectors = np.linalg.eigh(x)
    return values.astype(x.dtype, copy=False), vectors


def eigvalsh(x: Array) -> Array:
    if not np.all(np.isfinite(x)):
        return eigh(x)[0]
    return np.linalg.eigvalsh(x).astype(x.dtype, copy=False)


def _without_nan(x: Array) -> Array:
    """The lower triangles; nan raises an error, and a matrix with inf has nan eigenvalues."""
    lower = np.tril(x)
    if np.isnan(lower).any():
        raise errors.refused_value(
            "Self-adjoint eigen decomposition was not successful. The input might not be valid. It holds nan.",
            "SelfAdjointEigV2",
        )
    return lower


def eig(x: Array) -> tuple[Array, Array]:
    """Complex eigenvalues and eigenvectors (of length 1), also for real matrices."""
    _check_spectrum(x, "Eigen", "Eig")
    values, vectors = np.linalg.eig(x)
    dtype = np.result_type(x.dtype, np.complex64)
    return values.astype(dtype, copy=False), vectors.astype(dtype, copy=False)


def eigvals(x: Array) -> Array:
    _check_spectrum(x, "Eigen", "Eig")
    return np.linalg.eigvals(x).astype(np.result_type(x.dtype, np.complex64), copy=False)


def _check_spectrum(x: Array, kind: str, op: str) -> None:
    if not np.all(np.isfinite(x)):
        raise errors.refused_value(
            f"{kind} decomposition was not successful. The input might not be valid. It holds inf or nan.", op
        )


def svd(x: Array, *, full_matrices: bool = False) -> tuple[Array, Array, Array]:
    """Singular values (descending), left and right singular vectors as columns."""
    try:
        u, s, vh = np.linalg.svd(x, full_matrices=full_matrices)
    except np.linalg.LinAlgError:  # a matrix contains nan or inf: nan for that one, as in TensorFlow
        return _row_by_row(lambda a: svd(a, full_matrices=full_matrices), x, _svd_shapes(x, full_matrices))
    return s, u, adjoint_of(np, vh)


def _svd_shapes(x: Array, full_matrices: bool) -> list[tuple[tuple[int, ...], Any]]:
    m, n = x.shape[-2:]
    k = min(m, n)
    return [((k,), x.real.dtype), ((m, m if full_matrices else k), x.dtype), ((n, n if full_matrices else k), x.dtype)]


def svdvals(x: Array) -> Array:
    try:
        return np.linalg.svd(x, compute_uv=False)
    except np.linalg.LinAlgError:
        return _row_by_row(lambda a: (svdvals(a),), x, _svd_shapes(x, False)[:1])[0]


def _row_by_row(function: Any, x: Array, shapes: list[tuple[tuple[int, ...], Any]]) -> tuple[Array, ...]:
    """Apply a function to each matrix, so that a failing one does not affect the others; its result is nan."""
    results = tuple(np.full((*x.shape[:-2], *shape), np.nan, dtype) for shape, dtype in shapes)
    for index in np.ndindex(*x.shape[:-2]):
        if np.all(np.isfinite(x[index])):
            for result, value in zip(results, function(x[index]), strict=True):
                result[index] = value
    return results


# -- functions of matrices -------------------------------------------------------------------------------------------
# Coefficients of the Padé approximants of exp, and the 1-norms up to which each is exact to rounding (Higham 2005).
PADE: dict[int, tuple[float, ...]] = {
    3: (120, 60, 12, 1),
    5: (30240, 15120, 3360, 420, 30, 1),
    7: (17297280, 8648640, 1995840, 277200, 25200, 1512, 56, 1),
    9: (17643225600, 8821612800, 2075673600, 302702400, 30270240, 2162160, 110880, 3960, 90, 1),
    13: (
        64764752532480000,
        32382376266240000,
        7771770303897600,
        1187353796428800,
        129060195264000,
        10559470521600,
        670442572800,
        33522128640,
        1323241920,
        40840800,
        960960,
        16380,
        182,
        1,
    ),
}
PADE_REACH = {
    4: {3: 0.4258730016922831, 5: 1.880152677804762, 7: 3.92572478313866},
    8: {
        3: 0.01495585217958292,
        5: 0.253939833006323,
        7: 0.9504178996162932,
        9: 2.097847961257068,
        13: 5.371920351148152,
    },
}


def expm(x: Array) -> Array:
    """The matrix exponential: a Padé approximant of x / 2^s, squared s times."""
    if not x.size:
        return x.copy()
    norm = np.max(np.sum(np.absolute(x), axis=-2), axis=-1)
    largest = float(np.max(norm))
    if not math.isfinite(largest):
        finite = np.isfinite(norm)[..., None, None]
        return np.where(finite, expm(np.where(finite, x, 0)), np.nan) if np.any(finite) else np.full_like(x, np.nan)
    reach = PADE_REACH[x.real.dtype.itemsize]
    order = next((m for m, bound in reach.items() if largest <= bound), max(reach))
    squarings = np.ceil(np.log2(np.maximum(norm / reach[order], 1))).astype(int)
    scaled = x * np.exp2(-squarings).astype(x.real.dtype)[..., None, None]
    odd, even = _pade_parts(scaled, PADE[order])
    result = np.linalg.solve(even - odd, even + odd)
    for i in range(int(np.max(squarings))):
        squared = np.matmul(result, result)
        result = squared if squarings.ndim == 0 else np.where((i < squarings)[..., None, None], squared, result)
    return result


def _pade_parts(x: Array, b: tuple[float, ...]) -> tuple[Array, Array]:
    """The odd and the even part of the polynomial with coefficients b."""
    eye = np.eye(x.shape[-1], dtype=x.dtype)
    x2 = np.matmul(x, x)
    if len(b) == 14:  # two halves of degree 6, so that three powers suffice
        x4 = np.matmul(x2, x2)
        x6 = np.matmul(x4, x2)
        odd = np.matmul(x6, b[13] * x6 + b[11] * x4 + b[9] * x2) + b[7] * x6 + b[5] * x4 + b[3] * x2 + b[1] * eye
        even = np.matmul(x6, b[12] * x6 + b[10] * x4 + b[8] * x2) + b[6] * x6 + b[4] * x4 + b[2] * x2 + b[0] * eye
        return np.matmul(x, odd), even
    odd, even, power = b[1] * eye, b[0] * eye, eye
    for k in range(2, len(b), 2):
        power = np.matmul(power, x2) if k > 2 else x2
        even = even + b[k] * power
        odd = odd + b[k + 1] * power
    return np.matmul(x, odd), even


def sqrtm(x: Array) -> Array:
    """The principal square root; nan if a real matrix has no real one."""
    return _in_double(_sqrtm, x)


def logm(x: Array) -> Array:
    """The principal logarithm; nan if it does not exist."""
    return _in_double(_logm, x)


def _in_double(function: Any, x: Array) -> Array:
    """Run a function in double precision, because iterations lose digits; matrices that are not finite give nan."""
    if not x.size:
        return x.copy()
    wide = x.reshape(-1, *x.shape[-2:]).astype(np.result_type(x.dtype, np.float64), copy=False)
    result = np.full_like(wide, np.nan)
    usable = np.all(np.isfinite(wide), axis=(1, 2))
    if np.any(usable):
        with float_errors_ignored():
            result[usable] = function(wide[usable])
    return result.astype(x.dtype, copy=False).reshape(x.shape)


def _sqrtm(a: Array) -> Array:
    if np.array_equal(a, adjoint_of(np, a)):
        return of_eigenvalues(np, np.sqrt, a)
    root = _sqrtm_by_iteration(a)
    if root is not None:
        return root
    if len(a) > 1:  # one of them does not converge: find out which
        return np.concatenate([_sqrtm(a[i : i + 1]) for i in range(len(a))])
    return _sqrtm_by_eigenvectors(a[0])[None]


def _sqrtm_by_iteration(a: Array) -> Array | None:
    """Denman and Beavers' iteration in product form, scaled by determinants; None if it does not converge."""
    n, eye = a.shape[-1], np.eye(a.shape[-1], dtype=a.dtype)
    m, root, far = a, a, True
    for _ in range(60):
        try:
            inverse = np.linalg.inv(m)
        except np.linalg.LinAlgError:
            return None
        scale = np.exp(np.linalg.slogdet(m)[1] / -(2 * n))[:, None, None] if far else np.ones((1, 1, 1))
        if not np.all(np.isfinite(scale) & (scale > 0)):
            return None
        root = 0.5 * scale * np.matmul(root, eye + inverse / scale**2)
        m = 0.5 * (eye + 0.5 * (scale**2 * m + inverse / scale**2))
        distance = float(np.max(np.absolute(m - eye)))
        if not math.isfinite(distance):
            return None
        far = far and distance > 0.01
        if distance <= 8 * np.finfo(np.float64).eps * n:
            wrong = np.max(np.absolute(np.matmul(root, root) - a), axis=(1, 2))
            return root if np.all(wrong <= 1e-8 * np.max(np.absolute(a), axis=(1, 2))) else None
    return None


def _sqrtm_by_eigenvectors(a: Array) -> Array:
    """The square root of singular matrices, and of complex ones with negative eigenvalues."""
    try:
        values, vectors = np.linalg.eig(a)
        roots = np.sqrt(values.astype(np.complex128))
        root = np.linalg.solve(vectors.T, (vectors * roots).T).T
    except np.linalg.LinAlgError:
        return np.full_like(a, np.nan)
    size = float(np.max(np.absolute(a), initial=0))
    fits = np.max(np.absolute(np.matmul(root, root) - a), initial=0) <= 1e-6 * size
    if a.dtype.kind == "c":
        return root if fits else np.full_like(a, np.nan)
    real = np.max(np.absolute(root.imag), initial=0) <= 1e-8 * np.max(np.absolute(root), initial=0)
    return root.real if fits and real else np.full_like(a, np.nan)


def _logm(a: Array) -> Array:
    if np.array_equal(a, adjoint_of(np, a)):
        return of_eigenvalues(np, np.log, a)
    values, vectors = np.linalg.eig(a)
    good = (np.linalg.cond(vectors) < 1e4) & np.all(values != 0, axis=-1)
    result = np.empty_like(a)
    if np.any(good):  # row form of vectors diag(log) vectors^-1
        scaled = vectors[good] * np.log(values[good].astype(a.dtype))[:, None, :]
        result[good] = np.swapaxes(np.linalg.solve(np.swapaxes(vectors[good], 1, 2), np.swapaxes(scaled, 1, 2)), 1, 2)
    for i in np.flatnonzero(~good):  # eigenvectors that almost coincide
        result[i] = _logm_by_roots(a[i])
    return result


def _logm_by_roots(a: Array) -> Array:
    """Take square roots until the matrix is close to 1, then the Padé approximant of log as partial fractions."""
    eye, roots = np.eye(len(a), dtype=a.dtype), 0
    while np.max(np.sum(np.absolute(a - eye), axis=0)) > 0.25:
        if roots > 100 or not np.all(np.isfinite(a)):
            return np.full_like(a, np.nan)
        a, roots = _sqrtm(a[None])[0], roots + 1
    x = a - eye
    nodes, weights = np.polynomial.legendre.leggauss(8)
    result = np.zeros_like(a)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        result += weight * np.linalg.solve(eye + node * x, x)
    return result * 2.0**roots
