"""Linear and quadratic programs: an interior-point method, and derivatives from the optimality conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.checks import Rule, verify
from gradtape._src.conversion import convert
from gradtape._src.core import tape as stack
from gradtape._src.solvers.convergence import require_convergence
from gradtape._src.solvers.implicit import Rule as ImplicitRule, defined_by
from gradtape._src.solvers.vectors import check_not_negative, check_whole, column, epsilon, length
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.control_flow import while_loop
from gradtape._src.tf.decompositions import eigvalsh
from gradtape._src.tf.diagonals import diag
from gradtape._src.tf.linalg import matmul, matrix_transpose, matvec
from gradtape._src.tf.linear_systems import solve as dense_solve
from gradtape._src.tf.math import (
    logical_and,
    maximum,
    minimum,
    reduce_all,
    reduce_any,
    reduce_max,
    reduce_min,
    reduce_sum,
)

if TYPE_CHECKING:
    from gradtape._src.typing import TensorLike


class Program(NamedTuple):
    """The solution of a quadratic or linear program. All parts are differentiable.

    >>> found = tf.autodiff.solve_qp(tf.eye(2), [-1.0, -3.0], G=tf.eye(2), h=[2.0, 2.0])
    >>> found.x.numpy().round(4).tolist(), found.inequality_multipliers.numpy().round(4).tolist()
    ([1.0, 2.0], [0.0, 1.0])
    """

    x: Tensor
    """The minimizer."""
    inequality_multipliers: Tensor
    """One number for each inequality: the decrease of the minimum per increase of its bound h; 0 if
    it is not active.
    """
    equality_multipliers: Tensor
    """One number for each equation: the decrease of the minimum per increase of its right-hand side b."""


def solve_qp(
    Q: TensorLike,
    c: TensorLike,
    A: TensorLike | None = None,
    b: TensorLike | None = None,
    G: TensorLike | None = None,
    h: TensorLike | None = None,
    *,
    tol: float = 1e-9,
    maxiter: int = 60,
) -> Program:
    """Minimize ½ x·Qx + c·x subject to A x = b and G x <= h; differentiable with respect to all of these.

    A primal-dual interior-point method finds the solution, in float64. The derivatives, of any order and in both modes,
    come from the optimality conditions. They exist if the solution is unique and every active inequality has a nonzero
    multiplier; otherwise the linear system of the derivative is singular.

    Args:
      Q: A symmetric positive semidefinite matrix.
      c: A vector. All arguments can have an additional first axis, for a batch of programs.
      A: The matrix of the equations, with linearly independent rows.
      b: Their right sides.
      G: The matrix of the inequalities.
      h: Their right sides; infinity where there is no bound.
      tol: How accurately the optimality conditions must hold, relative to the sizes of their terms.
      maxiter: The number of iterations after which it raises `tf.errors.ConvergenceError`: the constraints may
        contradict each other, or the objective may have no minimum.

    >>> import gradtape as tf
    >>> c = tf.Variable([-1.0, -3.0])
    >>> with tf.GradientTape() as tape:
    ...     x = tf.autodiff.solve_qp(tf.eye(2), c, G=tf.eye(2), h=[2.0, 2.0]).x
    >>> x.numpy().round(4).tolist(), (tape.jacobian(x, c).numpy().round(4) + 0.0).tolist()
    ([1.0, 2.0], [[-1.0, 0.0], [0.0, 0.0]])
    """
    given = _prepared(Q, c, A, b, G, h)
    _check_convex(given.q)
    return _solved(given, convert(c), "tf.autodiff.solve_qp", tol, maxiter)


def solve_lp(
    c: TensorLike,
    A: TensorLike | None = None,
    b: TensorLike | None = None,
    G: TensorLike | None = None,
    h: TensorLike | None = None,
    *,
    tol: float = 1e-9,
    maxiter: int = 60,
) -> Program:
    """Minimize c·x subject to A x = b and G x <= h; the result is differentiable with respect to all of these.

    The solution of a linear program is a vertex, which moves with A, b, G and h; its derivative with respect to c is
    zero. See `tf.autodiff.solve_qp` for the arguments.

    >>> import gradtape as tf
    >>> h = tf.Variable([3.0, 0.0, 0.0])
    >>> with tf.GradientTape() as tape:
    ...     x = tf.autodiff.solve_lp([-1.0, -2.0], G=[[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], h=h).x
    >>> x.numpy().round(3).tolist(), (tape.jacobian(x, h).numpy().round(3) + 0.0).tolist()
    ([0.0, 3.0], [[0.0, -1.0, 0.0], [1.0, 1.0, 0.0]])
    """
    vector = convert(c)
    size = vector.array.shape[-1] if vector.array.shape else 0
    given = _prepared(array.zeros([size, size], vector.dtype), vector, A, b, G, h)
    return _solved(given, vector, "tf.autodiff.solve_lp", tol, maxiter)


# -- arguments -------------------------------------------------------------------------------------------------------
class _Data(NamedTuple):
    """A batch of programs; absent constraints are matrices without rows."""

    q: Tensor
    c: Tensor
    a: Tensor
    b: Tensor
    g: Tensor
    h: Tensor


def _prepared(Q: Any, c: Any, A: Any, b: Any, G: Any, h: Any) -> _Data:
    """Validate all arguments, and give them one batch axis."""
    vector = convert(c)
    if vector.dtype.name not in ("float32", "float64"):
        raise TypeError(
            f"The arguments must be float32 or float64; received c of dtype {vector.dtype.name}. Use tf.cast first."
        )
    if len(vector.array.shape) not in (1, 2):
        raise ValueError(f"c must be a vector or a batch of vectors; received the shape {vector.shape}.")
    for first, second, names in ((A, b, "A and b"), (G, h, "G and h")):
        if (first is None) != (second is None):
            raise ValueError(f"Pass both {names}, or none of them.")
    n = length(vector)
    empty, none = array.zeros([0, n], vector.dtype), array.zeros([0], vector.dtype)
    pairs = [(Q, vector), (empty, none) if A is None else (A, b), (empty, none) if G is None else (G, h)]
    tensors = [t for m, v in pairs for t in (_part(m, 2, vector), _part(v, 1, vector))]
    batch = next((n for n in (length(t, 0) for t in tensors) if n != 1), 1)
    for name, matrix, right in (("Q", 0, 1), ("A", 2, 3), ("G", 4, 5)):
        rows, columns = tensors[matrix].shape[1:]
        if columns != n or rows != tensors[right].shape[1]:
            raise ValueError(
                f"{name} must have a column for each of the {n} unknowns and a row for each element of its vector; "
                f"received {name} of shape {tensors[matrix].shape[1:]} and a vector of {tensors[right].shape[1]} "
                "elements."
            )
    data = _Data(*[array.broadcast_to(t, [batch, *t.shape[1:]]) for t in tensors])
    if m := length(data.h):
        is_bound = data.h < np.inf
        data = data._replace(
            g=array.where(is_bound[..., None], data.g, array.zeros([m, n], vector.dtype)),
            h=array.where(is_bound, data.h, 1.0),
        )
    return data._replace(q=0.5 * (data.q + matrix_transpose(data.q)))  # all that the objective depends on


def _part(value: Any, rank: int, like: Tensor) -> Tensor:
    if not isinstance(value, Tensor) and np.iscomplexobj(value):
        raise TypeError(f"The arguments must be real; received {value!r}.")
    tensor = convert(value) if isinstance(value, Tensor) else convert(value, None, like.dtype)
    if tensor.dtype != like.dtype:
        raise ValueError(f"All arguments must have the same dtype; received {tensor.dtype.name} and {like.dtype.name}.")
    if len(tensor.array.shape) not in (rank, rank + 1):
        raise ValueError(f"Expected {rank} axes, or one more for a batch; received the shape {tensor.shape}.")
    return tensor[None] if len(tensor.array.shape) == rank else tensor


def _check_convex(q: Tensor) -> None:
    """Check that no direction has a negative curvature, beyond rounding errors of a product such as L Lᵀ."""
    n = length(q)
    if not n:
        return
    with stack.use_recorders(()):
        lowest = eigvalsh(q)[:, 0]
        limit = reduce_max(abs(q), [-2, -1]) * (-10.0 * n * epsilon(q))
    verify(_CONVEX, lowest.array, limit.array)


def _is_not_convex(xp: Any, lowest: Any, limit: Any) -> Any:
    return lowest < limit


def _not_convex_error(lowest: Any, limit: Any) -> Exception:
    return errors.refused_value(
        f"tf.autodiff.solve_qp needs a positive semidefinite Q; an eigenvalue is {float(np.min(lowest)):.3g}. "
        "Otherwise the optimality conditions hold at points that are not minima.",
        "SolveQP",
    )


_CONVEX = Rule(_is_not_convex, _not_convex_error, always=True, needed=True)


# -- the solution ----------------------------------------------------------------------------------------------------
def _solved(data: _Data, like: Tensor, what: str, tol: float, maxiter: int) -> Program:
    n, p, m = (length(t) for t in (data.c, data.b, data.h))
    check_whole("maxiter", maxiter, 0)
    check_not_negative("tol", tol)
    with stack.use_recorders(()):
        wide = _Data(*[array.cast(t, "float64") for t in data])
        x, y, z = _interior_point(wide, tol, maxiter, what) if m else _equations(wide, tol, what)
        found = array.cast(array.concat([x, z, y], -1), data.c.dtype)

    def conditions(u: Tensor, given: list[Tensor]) -> Tensor:
        """Stationarity, complementary slackness and the equations."""
        q, c, a, b, g, h = given
        x, z, y = array.split(u, [n, m, p], -1)
        gradient = matvec(q, x) + c + matvec(g, z, transpose_a=True) + matvec(a, y, transpose_a=True)
        return array.concat([gradient, z * (matvec(g, x) - h), matvec(a, x) - b], -1)

    solution = defined_by(conditions, found, list(data), ImplicitRule("dense", 1, False, None, None))
    if len(like.array.shape) == 1 and length(solution, 0) == 1:
        solution = solution[0]
    x, z, y = array.split(solution, [n, m, p], -1)
    return Program(x, z, y)


def _equations(given: _Data, tol: float, what: str) -> tuple[Tensor, Tensor, Tensor]:
    """The solution without inequalities: of one linear system, which is shifted so that it is never singular."""
    n = length(given.c)
    if not n:
        return given.c, given.b, given.h
    data, scales = _scaled(given)
    curvature = _nonzero(_largest(data.q, (-2, -1)))
    system = _blocks(data.q / curvature[:, None, None], data.a)
    right = array.concat([-data.c / column(curvature), data.b], -1)
    shifts = array.concat([array.ones_like(data.c), -array.ones_like(data.b)], -1)
    shifted = system + 1e-10 * diag(shifts)
    solution = array.zeros_like(right)
    for _ in range(3):
        solution = solution + dense_solve(shifted, column(right - matvec(system, solution)))[..., 0]
    error = _largest(right - matvec(system, solution), (-1,))
    require_convergence(error, tol * _nonzero(_largest(right, (-1,))), array.constant(3), what, _ADVICE)
    y = solution[..., n:] * column(curvature * scales.objective) / scales.a
    return solution[..., :n], y, given.h


def _blocks(q: Tensor, a: Tensor) -> Tensor:
    """[[q, aᵀ], [a, 0]]."""
    p = length(a, -2)
    corner = array.zeros([length(a, 0), p, p], a.dtype)
    return array.concat([array.concat([q, matrix_transpose(a)], -1), array.concat([a, corner], -1)], -2)


class _Point(NamedTuple):
    """An interior point: unknowns, multipliers of equations and inequalities, slacks."""

    x: Tensor
    y: Tensor
    z: Tensor
    s: Tensor


class _Scales(NamedTuple):
    """What the sizes of a program are: of the objective's gradient, of unknowns, of rows of the constraints."""

    objective: Tensor
    unknowns: Tensor
    a: Tensor
    g: Tensor


def _scaled(data: _Data) -> tuple[_Data, _Scales]:
    """The same program with rows and an objective of size 1: units must not matter."""
    rows = [_nonzero(_largest(m, (-1,)))[..., None] for m in (data.a, data.g)]
    a, g = data.a / rows[0], data.g / rows[1]
    b, h = data.b / rows[0][..., 0], data.h / rows[1][..., 0]
    curvature, slope = _largest(data.q, (-2, -1)), _largest(data.c, (-1,))
    alone = array.where(curvature > 0, slope / _nonzero(curvature), 0.0)  # without constraints
    unknowns = _nonzero(maximum(alone, maximum(_largest(b, (-1,)), _largest(h, (-1,)))))
    objective = _nonzero(array.where(slope > 0, slope, curvature * unknowns))
    q, c = data.q / objective[:, None, None], data.c / column(objective)
    return _Data(q, c, a, b, g, h), _Scales(objective, unknowns, rows[0][..., 0], rows[1][..., 0])


def _largest(t: Tensor, axes: tuple[int, ...]) -> Tensor:
    """The largest size of a number along axes; 0 if there is none."""
    sizes = abs(t)
    if any(length(t, axis) == 0 for axis in axes):
        return reduce_sum(sizes, list(axes))
    return reduce_max(sizes, list(axes))


def _nonzero(t: Tensor) -> Tensor:
    return array.where(t > 0, t, array.ones_like(t))


_SMALL = 1e-12
"""Numbers below this fraction of the program's sizes need not be accurate relative to themselves."""


def _error(data: _Data, unknowns: Tensor, point: _Point) -> Tensor:
    """By how much the optimality conditions are violated, relative to the sizes of their terms.

    The sizes of unknowns that a program without a solution may have do not count.
    """
    dual, equations, inequalities = _residuals(data, point)
    curvature, slope = _largest(data.q, (-2, -1)) * unknowns, _largest(data.c, (-1,))
    size = minimum(_largest(point.x, (-1,)), unknowns)
    gradient = maximum(slope, minimum(_largest(matvec(data.q, point.x), (-1,)), curvature))
    gradient = _nonzero(maximum(gradient, _SMALL * maximum(slope, curvature)))

    def sizes(right: Tensor) -> Tensor:
        return maximum(abs(right) + column(size), column(_SMALL * unknowns))

    slacks = sizes(data.h)
    parts = [
        dual / column(gradient),
        equations / sizes(data.b),
        inequalities / slacks,
        point.z * point.s / (slacks * column(gradient)),
    ]
    return _largest(array.concat(parts, -1), (-1,))


def _interior_point(given: _Data, tol: float, maxiter: int, what: str) -> tuple[Tensor, Tensor, Tensor]:
    """Mehrotra's method: steps to the optimality conditions, corrected towards the central path."""
    data, scales = _scaled(given)
    start = _Point(
        array.zeros_like(data.c),
        array.zeros_like(data.b),
        array.ones_like(data.h),
        maximum(abs(data.h), column(scales.unknowns)),
    )

    def body(point: _Point, k: Tensor) -> tuple[_Point, Tensor]:
        done = _error(data, scales.unknowns, point) <= tol
        moved = _moved(data, point)
        kept = [array.where(column(done), old, new) for old, new in zip(point, moved, strict=True)]
        return _Point(*kept), k + 1

    def unfinished(point: _Point, k: Tensor) -> Tensor:
        found = _error(data, scales.unknowns, point)
        return logical_and(reduce_any(found > tol), reduce_all(found < 1e30))  # otherwise it has diverged

    point, k = while_loop(
        unfinished,
        body,
        (start, array.constant(0)),
        maximum_iterations=maxiter,
    )
    found = _error(data, scales.unknowns, point)
    require_convergence(found, array.cast(tol, found.dtype), k, what, _ADVICE)
    factor = column(scales.objective)
    return point.x, point.y * factor / scales.a, point.z * factor / scales.g


_ADVICE = (
    "Check that some point satisfies all constraints and that the objective is bounded below. If so, allow more "
    "iterations (maxiter), or a larger tol."
)


def _residuals(data: _Data, point: _Point) -> tuple[Tensor, Tensor, Tensor]:
    x, y, z, s = point
    gradient = matvec(data.q, x) + data.c
    dual = gradient + matvec(data.a, y, transpose_a=True) + matvec(data.g, z, transpose_a=True)
    return dual, matvec(data.a, x) - data.b, matvec(data.g, x) + s - data.h


def _moved(data: _Data, point: _Point) -> _Point:
    z, s = point.z, point.s
    n, m = length(point.x), length(z)
    residuals = _residuals(data, point)
    weights = z / s
    matrix = data.q + matmul(data.g * weights[..., None], data.g, transpose_a=True)
    system = _blocks(matrix, data.a)
    # Late steps weight active inequalities by 1e9 and more, and equations may repeat each other. A multiple of the
    # identity, within rounding errors, makes the system nonsingular; refinement takes back most of what it changes.
    shift = column(1e-12 + epsilon(data.q) * reduce_max(abs(matrix), [-2, -1]))
    shifts = array.concat([array.zeros_like(point.x) + shift, array.zeros_like(point.y) - 1e-12], -1)
    shifted = system + diag(shifts)

    def direction(target: Tensor) -> _Point:
        """Newton's step towards z·s = target."""
        dual, primal, slack = residuals
        shift = weights * slack + (target - z * s) / s
        right = array.concat([-dual - matvec(data.g, shift, transpose_a=True), -primal], -1)
        solution = dense_solve(shifted, column(right))[..., 0]
        solution = solution + dense_solve(shifted, column(right - matvec(system, solution)))[..., 0]
        dx, dy = solution[..., :n], solution[..., n:]
        dz = weights * matvec(data.g, dx) + shift
        ds = (target - z * s - s * dz) / z
        return _Point(dx, dy, dz, ds)

    mean = reduce_sum(z * s, -1) / float(m)
    ahead = direction(array.zeros_like(z))
    share = column(_to_the_border(point, ahead, 1.0))
    reached = reduce_sum((z + share * ahead.z) * (s + share * ahead.s), -1) / float(m)
    center = (reached / mean) ** 3 * mean
    step = direction(column(center) - ahead.z * ahead.s)
    share = column(_to_the_border(point, step, 0.99))
    return _Point(*[old + share * new for old, new in zip(point, step, strict=True)])


def _to_the_border(point: _Point, step: _Point, part: float) -> Tensor:
    """The largest fraction of a step, at most 1, after which multipliers and slacks are still positive."""
    values, changes = array.concat([point.z, point.s], -1), array.concat([step.z, step.s], -1)
    falling = changes < 0
    ratios = array.where(falling, -values / array.where(falling, changes, -1.0), 1e30)
    nearest = reduce_min(ratios, -1) * part
    return array.where(nearest < 1.0, nearest, array.ones_like(nearest))


__all__ = ["Program", "solve_lp", "solve_qp"]
