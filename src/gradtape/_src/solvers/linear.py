"""Linear systems given by matrix-vector products: GMRES and conjugate gradients over batches of vectors."""

from __future__ import annotations

from collections.abc import Callable

from gradtape._src.solvers.convergence import require_convergence
from gradtape._src.solvers.vectors import column, dot, epsilon, length, norm
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.control_flow import while_loop
from gradtape._src.tf.decompositions import pinv
from gradtape._src.tf.linalg import matvec
from gradtape._src.tf.math import maximum, reduce_any

Product = Callable[[Tensor], Tensor]

RESTART = 20
"""The number of products before GMRES restarts."""


def _limit(b: Tensor, tol: float | None) -> Tensor:
    relative = epsilon(b) ** (2 / 3) if tol is None else array.cast(tol, b.dtype)
    smallest = float(b.dtype.as_numpy_dtype(1e-30))
    return maximum(norm(b) * relative, smallest)


def gmres(product: Product, b: Tensor, tol: float | None = None, maxiter: int = 50) -> Tensor:
    """Solve A x = b, where `product(x)` is A x; `maxiter` is the number of restarts, each after at most 20 products."""
    limit = _limit(b, tol)
    steps = min(RESTART, length(b))

    def body(x: Tensor, r: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x = x + _arnoldi_step(product, r, steps)
        return x, b - product(x), k + 1

    start = (array.zeros_like(b), b, array.constant(0))
    x, r, k = while_loop(lambda x, r, k: reduce_any(norm(r) > limit), body, start, maximum_iterations=maxiter)
    require_convergence(norm(r), limit, k, "GMRES for the derivative of an implicit function", _ADVICE)
    return x


def _arnoldi_step(product: Product, r: Tensor, steps: int) -> Tensor:
    """The minimizer of the residual over the Krylov space of r."""
    beta = norm(r)
    basis = [_divided(r, beta)]
    columns = []
    for j in range(steps):
        w = product(basis[j])
        entries = []
        for v in basis:  # modified Gram-Schmidt
            entries.append(dot(v, w))
            w = w - column(entries[-1]) * v
        length = norm(w)
        columns.append([*entries, length, *[array.zeros_like(length)] * (steps - 1 - j)])
        basis.append(_divided(w, length))
    hessenberg = array.stack([array.stack(entries, -1) for entries in columns], -1)
    first = array.stack([beta, *[array.zeros_like(beta)] * steps], -1)
    y = matvec(pinv(hessenberg), first)
    return matvec(array.stack(basis[:-1], -1), y)


def _divided(x: Tensor, length: Tensor) -> Tensor:
    safe = array.where(length > 0, length, array.ones_like(length))
    return x / column(safe)


def conjugate_gradients(product: Product, b: Tensor, tol: float | None = None, maxiter: int = 1000) -> Tensor:
    """Solve A x = b for a symmetric positive definite A."""
    limit = _limit(b, tol)

    def body(x: Tensor, r: Tensor, p: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        q = product(p)
        square = dot(r, r)
        curvature = dot(p, q)
        step = array.where(square > 0, square / array.where(curvature != 0, curvature, 1.0), 0.0)
        x, r = x + column(step) * p, r - column(step) * q
        return (
            x,
            r,
            r + column(array.where(square > 0, dot(r, r) / array.where(square > 0, square, 1.0), 0.0)) * p,
            k + 1,
        )

    start = (array.zeros_like(b), b, b, array.constant(0))
    x, r, _, k = while_loop(lambda x, r, p, k: reduce_any(norm(r) > limit), body, start, maximum_iterations=maxiter)
    require_convergence(norm(r), limit, k, "Conjugate gradients for the derivative of an implicit function", _ADVICE)
    return x


_ADVICE = (
    "The Jacobian at the solution may be singular, or the solution not accurate enough: solve to a smaller tol, or "
    'use linear_solver="dense".'
)
