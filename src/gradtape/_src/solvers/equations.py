"""Roots, fixed points and minima: solvers with derivatives by the implicit function theorem."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from gradtape._src import nest
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.conversion import convert
from gradtape._src.core import tape as stack
from gradtape._src.ops.array import identity
from gradtape._src.solvers.convergence import require_convergence
from gradtape._src.solvers.implicit import (
    LINEAR_SOLVERS,
    Residual,
    Rule,
    check_choice,
    defined_by,
    jacobian_of,
    problem,
    scalar_value,
)
from gradtape._src.solvers.linear import gmres
from gradtape._src.solvers.vectors import (
    Layout,
    as_tuple,
    check_not_negative,
    check_whole,
    column,
    dot,
    epsilon,
    length,
    norm,
)
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.control_flow import while_loop
from gradtape._src.tf.decompositions import eigh
from gradtape._src.tf.linalg import matmul, matrix_transpose, matvec
from gradtape._src.tf.linear_systems import solve as dense_solve
from gradtape._src.tf.math import logical_and, maximum, minimum, reduce_any, reduce_max, reduce_sum


class Solution(NamedTuple):
    """The result of a solver, with SciPy's names.

    >>> found = tf.autodiff.root(lambda x: x**3 - 8.0, tf.constant(1.0))
    >>> float(found.x), int(found.nit)
    (2.0, 4)
    """

    x: Any
    """The solution, in the structure of `x0`. Only this is differentiable."""
    residual: Tensor
    """The norm of the equation's left side at the solution (one number for each problem)."""
    nit: Tensor
    """The number of iterations."""


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    *,
    method: str = "newton",
    tol: float | None = None,
    maxiter: int = 50,
    batch_dims: int = 0,
    linear_solver: str = "auto",
) -> Solution:
    """Find x with `fun(x, *args) = 0`; differentiable with respect to `args` and everything `fun` closes over.

    Args:
      fun: A function that returns tensors with the structure and shapes of `x0`.
      x0: The initial guess: a tensor, or a structure of tensors.
      args: A tuple of further arguments of `fun` (a single argument can be passed alone, as in SciPy).
      method: `"newton"` (with the Jacobian as a matrix) or `"krylov"` (by products, for many unknowns).
      tol: The tolerance for the norm of `fun`; the default is the precision of the dtype to the power 3/4, times
        1 plus the norm at `x0`.
      maxiter: The number of iterations after which it raises `tf.errors.ConvergenceError`.
      batch_dims: The number of leading axes of `x0` that index independent problems.
      linear_solver: See `tf.autodiff.implicit`.

    >>> import gradtape as tf
    >>> a = tf.Variable(2.0)
    >>> with tf.GradientTape() as tape:
    ...     x = tf.autodiff.root(lambda x: x**3 - a, tf.constant(1.0)).x
    >>> round(float(x), 4), round(float(tape.gradient(x, a)), 4)
    (1.2599, 0.21)
    """
    check_choice("method", method, ("newton", "krylov"))
    direction = _newton_direction if method == "newton" else _krylov_direction

    def iterate(residual: Residual, x: Tensor, inputs: list[Tensor], limit: Tensor, batch: int, most: Tensor) -> Any:
        def body(x: Tensor, r: Tensor, k: Tensor) -> Any:
            step = direction(residual, x, r, inputs, batch)
            x, r = _backtracked(residual, x, r, step, inputs, norm(r) <= limit)
            return x, r, k + 1

        start = (x, residual(x, inputs), array.constant(0))
        return while_loop(lambda x, r, k: _goes_on(r, limit, k, most), body, start)

    rule = Rule(linear_solver, batch_dims, False, None, None)
    return _solved(fun, "root", x0, args, rule, iterate, tol, maxiter, f"tf.autodiff.root with method={method!r}")


def fixed_point(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    *,
    method: str = "anderson",
    tol: float | None = None,
    maxiter: int = 500,
    batch_dims: int = 0,
    linear_solver: str = "auto",
) -> Solution:
    """Find x with `fun(x, *args) = x`; differentiable with respect to `args` and everything `fun` closes over.

    Args:
      fun: A function that returns tensors with the structure and shapes of `x0`.
      x0: The initial guess: a tensor, or a structure of tensors.
      args: A tuple of further arguments of `fun` (a single argument can be passed alone, as in SciPy).
      method: `"iteration"` (call `fun` again and again) or `"anderson"` (the same, accelerated by the last five
        results).
      tol: The tolerance for the norm of `x - fun(x)`; the default is the precision of the dtype to the power
        3/4, times 1 plus the norm at `x0`.
      maxiter: The number of iterations after which it raises `tf.errors.ConvergenceError`.
      batch_dims: The number of leading axes of `x0` that index independent problems.
      linear_solver: See `tf.autodiff.implicit`.

    >>> import gradtape as tf
    >>> w = tf.Variable(0.5)
    >>> with tf.GradientTape() as tape:
    ...     x = tf.autodiff.fixed_point(lambda x: tf.cos(w * x), tf.constant(1.0)).x
    >>> round(float(x), 4), round(float(tape.gradient(x, w)), 4)
    (0.9004, -0.3218)
    """
    check_choice("method", method, ("anderson", "iteration"))
    iterate = _anderson() if method == "anderson" else _plain_iteration()
    rule = Rule(linear_solver, batch_dims, False, None, None)
    return _solved(
        fun, "fixed_point", x0, args, rule, iterate, tol, maxiter, f"tf.autodiff.fixed_point with method={method!r}"
    )


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    *,
    method: str = "lbfgs",
    tol: float | None = None,
    maxiter: int = 500,
    batch_dims: int = 0,
    linear_solver: str = "auto",
) -> Solution:
    """Find x that minimizes `fun(x, *args)`; differentiable with respect to `args` and everything `fun` closes over.

    To train a model, use `tf.train.LBFGS`; this function is for problems inside a model, whose solution is
    differentiated.

    Args:
      fun: Returns a scalar; with `batch_dims`, one number for each problem.
      x0: The initial guess: a tensor, or a structure of tensors.
      args: A tuple of further arguments of `fun` (a single argument can be passed alone, as in SciPy).
      method: `"lbfgs"`, or `"newton"` with the Hessian as a matrix, shifted where it is not positive definite.
      tol: The tolerance for the norm of the gradient; the default is the precision of the dtype to the power 2/3,
        times 1 plus the norm at `x0`.
      maxiter: The number of iterations after which it raises `tf.errors.ConvergenceError`.
      batch_dims: The number of leading axes of `x0` that index independent problems.
      linear_solver: See `tf.autodiff.implicit`; iterative solves of a minimum are by conjugate gradients.

    >>> import gradtape as tf
    >>> a = tf.Variable([1.0, 2.0])
    >>> with tf.GradientTape() as tape:
    ...     x = tf.autodiff.minimize(lambda x: tf.reduce_sum((x - a) ** 4 + (x - a) ** 2), tf.zeros(2)).x
    >>> x.numpy().round(3).tolist(), tape.gradient(x, a).numpy().round(3).tolist()
    ([1.0, 2.0], [1.0, 1.0])
    """
    check_choice("method", method, ("lbfgs", "newton"))
    layout = Layout(x0, batch_dims)
    value = _objective(fun, layout, args)
    iterate = _lbfgs(value) if method == "lbfgs" else _newton_minimum(value)
    rule = Rule(linear_solver, batch_dims, True, None, None)
    name = f"tf.autodiff.minimize with method={method!r}"
    return _solved(fun, "minimum", x0, args, rule, iterate, tol, maxiter, name, power=2 / 3)


def _solved(
    fun: Callable[..., Any],
    kind: str,
    x0: Any,
    args: Any,
    rule: Rule,
    iterate: Callable[..., Any],
    tol: float | None,
    maxiter: int,
    what: str,
    power: float = 0.75,
) -> Solution:
    """Iterate without recording, check the residual, and record the solution as defined by the equation."""
    check_choice("linear_solver", rule.method, LINEAR_SOLVERS)
    check_whole("maxiter", maxiter, 0)
    if tol is not None:
        check_not_negative("tol", tol)
    if not callable(fun):
        raise TypeError(f"fun should be callable: received {fun!r}.")
    layout = Layout(x0, rule.batch_dims)
    residual, inputs = problem(fun, kind, layout, args)
    with stack.use_recorders(()):
        start = layout.ravel(nest.map_structure(convert, x0))
        scale = norm(residual(start, inputs)) + 1.0
        limit = (
            scale * epsilon(start) ** power if tol is None else array.zeros_like(scale) + array.cast(tol, scale.dtype)
        )
        x, r, k = iterate(residual, start, inputs, limit, rule.batch_dims, array.constant(maxiter))
        require_convergence(norm(r), limit, k, what, _ADVICE)
        if tol is None:
            x, r, k = _closer(functools.partial(iterate, residual), x, r, k, inputs, epsilon(x) ** power, rule)
        size = norm(r)
    if layout.batch_dims:
        size = array.reshape(size, layout.batch)
    return Solution(layout.unravel(defined_by(residual, x, inputs, rule)), size, k)


_AT_ONCE, _FEWER = 30, 0.01
"""So many more iterations have to reduce the residual to this fraction."""


def _closer(
    iterate: Callable[..., Any], x: Tensor, r: Tensor, k: Tensor, inputs: list[Tensor], share: float, rule: Rule
) -> tuple[Tensor, Tensor, Tensor]:
    """Go on while that helps, until the residual is small relative to what it is here: far from the solution, where the
    iteration may have begun, it can be so large that a small part of it says nothing.
    """

    def goal(size: Tensor) -> Tensor:
        return maximum(share * (1.0 + size), _FEWER * size)

    def body(x: Tensor, r: Tensor, k: Tensor, limit: Tensor) -> tuple[Tensor, ...]:
        size = norm(r)
        limit = array.where(unfinished(size, limit), goal(size), size)
        closer, found, more = iterate(x, inputs, limit, rule.batch_dims, array.constant(_AT_ONCE))
        better = norm(found) < size
        limit = array.where(limit < size, limit, array.zeros_like(limit))  # finished problems stay finished
        return array.where(column(better), closer, x), array.where(column(better), found, r), k + more, limit

    def unfinished(size: Tensor, limit: Tensor) -> Tensor:
        return logical_and(size <= limit, size > share * (1.0 + size))

    start = (x, r, k, norm(r))
    x, r, k, _ = while_loop(lambda x, r, k, limit: reduce_any(unfinished(norm(r), limit)), body, start)
    return x, r, k


def _goes_on(r: Tensor, limit: Tensor, k: Tensor, most: Tensor) -> Tensor:
    return logical_and(reduce_any(norm(r) > limit), k < most)


_ADVICE = (
    "Start closer to the solution, allow more iterations (maxiter) or a larger residual (tol), or use float64. If "
    "there is no solution, there is no derivative either."
)


# -- roots -----------------------------------------------------------------------------------------------------------
def _newton_direction(residual: Residual, x: Tensor, r: Tensor, inputs: list[Tensor], batch: int) -> Tensor:
    jacobian = jacobian_of(residual, x, inputs, batch)
    # Within rounding errors; a step with a singular Jacobian is then too long instead of failing.
    shift = maximum(reduce_max(abs(jacobian), [-2, -1], keepdims=True) * epsilon(x), 1e-30)
    return -dense_solve(jacobian + shift * array.eye(length(x), dtype=x.dtype), column(r))[..., 0]


def _krylov_direction(residual: Residual, x: Tensor, r: Tensor, inputs: list[Tensor], batch: int) -> Tensor:
    with Tape(persistent=True, watch_accessed_variables=False) as tape:
        own = identity(x)
        tape.watch(own)
        found = residual(own, inputs)
    return gmres(lambda t: tape.jvp(found, own, t), -r, tol=1e-3)


def _backtracked(
    residual: Residual, x: Tensor, r: Tensor, step: Tensor, inputs: list[Tensor], done: Tensor
) -> tuple[Tensor, Tensor]:
    """Take the step, halved until the residual decreases; problems that have converged do not move."""
    before = norm(r)
    shares = array.where(done, array.zeros_like(before), array.ones_like(before))

    def too_long(shares: Tensor, r: Tensor) -> Tensor:
        shorter = norm(r) <= (1.0 - 1e-4 * shares) * before
        return logical_and(logical_and(~shorter, shares > 2.0**-12), ~done)

    def halve(shares: Tensor, r: Tensor) -> tuple[Tensor, Tensor]:
        shares = array.where(too_long(shares, r), shares * 0.5, shares)
        return shares, residual(x + column(shares) * step, inputs)

    start = (shares, residual(x + column(shares) * step, inputs))
    shares, found = while_loop(lambda s, r: reduce_any(too_long(s, r)), halve, start)
    return x + column(shares) * step, found


# -- fixed points ----------------------------------------------------------------------------------------------------
def _plain_iteration() -> Callable[..., Any]:
    def iterate(residual: Residual, x: Tensor, inputs: list[Tensor], limit: Tensor, batch: int, most: Tensor) -> Any:
        def body(x: Tensor, r: Tensor, k: Tensor) -> Any:
            x = array.where(column(norm(r) > limit), x - r, x)
            return x, residual(x, inputs), k + 1

        start = (x, residual(x, inputs), array.constant(0))
        return while_loop(lambda x, r, k: _goes_on(r, limit, k, most), body, start)

    return iterate


_DEPTH = 5
_GROWTH = 10.0


def _anderson() -> Callable[..., Any]:
    """Anderson acceleration: the combination of recent points whose residuals nearly cancel, mapped by fun.

    If a residual grows a lot, earlier points are dropped, and the next step is one of the plain iteration. It may grow
    somewhat: where the plain iteration diverges or circles, the next combination still finds the fixed point.
    """

    def iterate(residual: Residual, x: Tensor, inputs: list[Tensor], limit: Tensor, batch: int, most: Tensor) -> Any:
        def body(x: Tensor, r: Tensor, k: Tensor, age: Tensor, xs: Tensor, rs: Tensor) -> Any:
            xs, rs = (array.concat([old[..., 1:, :], new[..., None, :]], -2) for old, new in ((xs, x), (rs, r)))
            filled = array.cast(array.range(_DEPTH, dtype=r.dtype) >= _DEPTH - 1.0 - column(age), r.dtype)
            weights = _anderson_weights(rs * column(filled), filled)
            mixed = reduce_sum(column(weights) * (xs - rs), -2)
            x = array.where(column(norm(r) > limit), mixed, x)
            new = residual(x, inputs)
            return x, new, k + 1, array.where(norm(new) < _GROWTH * norm(r), age + 1.0, 0.0), xs, rs

        history = array.stack([array.zeros_like(x)] * _DEPTH, -2)
        start = (x, residual(x, inputs), array.constant(0), array.zeros_like(norm(x)), history, history)
        found = while_loop(lambda x, r, k, age, xs, rs: _goes_on(r, limit, k, most), body, start)
        return found[:3]

    return iterate


def _anderson_weights(rs: Tensor, filled: Tensor) -> Tensor:
    """Weights with sum 1 that minimize the combined residual; 0 for empty slots."""
    gram = matmul(rs, rs, transpose_b=True)
    trace = reduce_sum(rs * rs, [-2, -1])[..., None, None]
    ridge = trace * (10 * epsilon(rs)) + 1e-30
    system = gram + array.eye(_DEPTH, dtype=rs.dtype) * (ridge + column(1.0 - filled) * (trace + 1e-30))
    weights = dense_solve(system, column(filled))[..., 0] * filled
    return weights / reduce_sum(weights, -1, keepdims=True)


# -- minima ----------------------------------------------------------------------------------------------------------
Value = Callable[[Tensor], Tensor]


def _objective(fun: Callable[..., Any], layout: Layout, args: Any) -> Value:
    def value(x: Tensor) -> Tensor:
        found = scalar_value(fun(layout.unravel(x), *as_tuple(args)), layout)
        return array.reshape(found, [-1]) if layout.batch_dims else found

    return value


def _lbfgs(value: Value, depth: int = 10) -> Callable[..., Any]:
    def iterate(residual: Residual, x: Tensor, inputs: list[Tensor], limit: Tensor, batch: int, most: Tensor) -> Any:
        def body(x: Tensor, g: Tensor, k: Tensor, s: Tensor, y: Tensor, rho: Tensor) -> Any:
            step = -_two_loops(g, s, y, rho, depth)
            step = array.where(column(dot(step, g) < 0), step, -g)
            first = minimum(1.0, 1.0 / maximum(norm(g), 1e-30))
            step = array.where(k > 0, step, column(first) * step)
            moved = _armijo(value, x, g, step, norm(g) <= limit)
            new = residual(moved, inputs)
            ds, dy = moved - x, new - g
            curvature = dot(ds, dy)
            keeps = curvature > epsilon(x) * dot(dy, dy)
            inverse = array.where(keeps, 1.0 / array.where(keeps, curvature, 1.0), 0.0)
            s, y = (array.concat([h[..., 1:, :], d[..., None, :]], -2) for h, d in ((s, ds), (y, dy)))
            return moved, new, k + 1, s, y, array.concat([rho[..., 1:], inverse[..., None]], -1)

        history = array.stack([array.zeros_like(x)] * depth, -2)
        start = (x, residual(x, inputs), array.constant(0), history, history, array.zeros_like(norm(history)))
        found = while_loop(lambda x, g, k, s, y, rho: _goes_on(g, limit, k, most), body, start)
        return found[:3]

    return iterate


def _two_loops(g: Tensor, s: Tensor, y: Tensor, rho: Tensor, depth: int) -> Tensor:
    """The inverse Hessian of L-BFGS times the gradient; pairs with rho = 0 are ignored."""
    q, alphas = g, []
    for i in range(depth - 1, -1, -1):
        alpha = rho[..., i] * dot(s[..., i, :], q)
        alphas.append(alpha)
        q = q - column(alpha) * y[..., i, :]
    last, length = rho[..., -1], dot(y[..., -1, :], y[..., -1, :])
    known = logical_and(last > 0, length > 0)
    scale = array.where(known, 1.0 / array.where(known, last * length, 1.0), 1.0)
    q = column(scale) * q
    for i, alpha in zip(range(depth), reversed(alphas), strict=True):
        beta = rho[..., i] * dot(y[..., i, :], q)
        q = q + column(alpha - beta) * s[..., i, :]
    return q


def _armijo(value: Value, x: Tensor, g: Tensor, step: Tensor, done: Tensor) -> Tensor:
    """Shorten the step until the value decreases enough; near the minimum, up to rounding errors."""
    before, slope = value(x), dot(g, step)
    slack = epsilon(x) * 10 * abs(before)
    shares = array.where(done, array.zeros_like(before), array.ones_like(before))

    def too_long(shares: Tensor, found: Tensor) -> Tensor:
        lower = found <= before + 1e-4 * shares * slope + slack
        return logical_and(logical_and(~lower, shares > 2.0**-30), ~done)

    def halve(shares: Tensor, found: Tensor) -> tuple[Tensor, Tensor]:
        shares = array.where(too_long(shares, found), shares * 0.5, shares)
        return shares, value(x + column(shares) * step)

    start = (shares, value(x + column(shares) * step))
    shares, _ = while_loop(lambda s, found: reduce_any(too_long(s, found)), halve, start)
    return x + column(shares) * step


def _newton_minimum(value: Value) -> Callable[..., Any]:
    def iterate(residual: Residual, x: Tensor, inputs: list[Tensor], limit: Tensor, batch: int, most: Tensor) -> Any:
        def body(x: Tensor, g: Tensor, k: Tensor) -> Any:
            step = _descent(jacobian_of(residual, x, inputs, batch), g)
            moved = _armijo(value, x, g, step, norm(g) <= limit)
            return moved, residual(moved, inputs), k + 1

        start = (x, residual(x, inputs), array.constant(0))
        return while_loop(lambda x, g, k: _goes_on(g, limit, k, most), body, start)

    return iterate


def _descent(hessian: Tensor, g: Tensor) -> Tensor:
    """Newton's step with the absolute eigenvalues of the Hessian: a descent direction even if it is indefinite."""
    values, vectors = eigh(0.5 * (hessian + matrix_transpose(hessian)))
    sizes = abs(values)
    floor = maximum(reduce_max(sizes, -1, keepdims=True) * epsilon(g), 1e-30)
    return -matvec(vectors, matvec(vectors, g, transpose_a=True) / maximum(sizes, floor))


__all__ = ["Solution", "fixed_point", "minimize", "root"]
