"""The Levenberg-Marquardt method as described by Moré (1978): a trust region radius determines the damping."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.interrupts import float_errors_ignored

Array = Any
_EPS = float(np.finfo(np.float64).eps)
_TINY = float(np.finfo(np.float64).tiny)


class Problem(NamedTuple):
    """The residuals and their Jacobian as functions of a vector, a callback for each step, and the
    stopping criteria.
    """

    residuals: Callable[[Array], Array]
    jacobian: Callable[[Array], Array]
    on_step: Callable[[Array, int, float, float, float], None]
    ftol: float
    xtol: float
    gtol: float
    factor: float
    most: int


class _State:
    """A point with its residuals, and the scale of the variables."""

    def __init__(self, problem: Problem, x: Array) -> None:
        self.x, self.f = x, problem.residuals(x)
        self.norm = float(np.linalg.norm(self.f))
        self.evaluations, self.iteration = 1, 0
        self.damping = 0.0
        self.scale = np.ones_like(x)
        self.radius = 0.0


def fit(problem: Problem, x: Array) -> tuple[bool, str]:
    """Iterate from x; return whether it converged, and why it stopped."""
    state = _State(problem, x)
    if state.f.size < x.size:
        raise ValueError(
            f"Levenberg-Marquardt needs at least as many residuals as unknowns; received {state.f.size} for "
            f"{x.size}. Use tf.train.LBFGS."
        )
    if not np.isfinite(state.f).all():
        problem.on_step(x, 0, math.nan, math.nan, 0.0)
        return False, "the residuals at the start are not finite"
    while True:
        jacobian = problem.jacobian(state.x)
        gradient = jacobian.T @ state.f
        lengths = np.linalg.norm(jacobian, axis=0)
        if state.iteration == 0:
            state.scale = np.where(lengths == 0, 1.0, lengths)
            state.radius = problem.factor * float(np.linalg.norm(state.scale * x)) or problem.factor
            problem.on_step(x, 0, 0.5 * state.norm**2, _largest(gradient), 0.0)
        cosines = np.abs(gradient) / np.where(lengths == 0, 1.0, lengths) / (state.norm or 1.0)
        if _largest(cosines) <= problem.gtol:
            return True, "the residuals are orthogonal to the Jacobian (gtol)"
        state.scale = np.maximum(state.scale, lengths)
        found = _inner(problem, state, jacobian)
        if found is not None:
            return found


def _largest(values: Array) -> float:
    return float(np.abs(values).max()) if values.size else 0.0


def _inner(problem: Problem, state: _State, jacobian: Array) -> tuple[bool, str] | None:
    """Try steps with ever smaller radii until one decreases the residuals."""
    while True:
        step, state.damping = _damped_step(jacobian, state.f, state.scale, state.radius, state.damping)
        length = float(np.linalg.norm(state.scale * step))
        if state.iteration == 0:
            state.radius = min(state.radius, length)
        new = problem.residuals(state.x + step)
        state.evaluations += 1
        norm = float(np.linalg.norm(new)) if np.isfinite(new).all() else math.inf
        actual, predicted, ratio = _reductions(state, jacobian, step, length, norm)
        if ratio >= 1e-4:
            state.x, state.f, state.norm = state.x + step, new, norm
            state.iteration += 1
            problem.on_step(state.x, state.iteration, 0.5 * norm**2, _largest(jacobian.T @ new), length)
        reason = _ended(problem, state, actual, predicted, ratio)
        if reason is not None:
            return reason
        if ratio >= 1e-4:
            return None


def _reductions(state: _State, jacobian: Array, step: Array, length: float, norm: float) -> tuple[float, float, float]:
    """The actual and the predicted relative reduction, and their ratio. Updates the radius."""
    actual = 1.0 - (norm / state.norm) ** 2 if 0.1 * norm < state.norm else -1.0
    linear = (float(np.linalg.norm(jacobian @ step)) / state.norm) ** 2 if state.norm else 0.0
    damped = state.damping * (length / state.norm) ** 2 if state.norm else 0.0
    predicted, slope = linear + 2.0 * damped, -(linear + damped)
    ratio = actual / predicted if predicted else 0.0
    if ratio <= 0.25:
        share = 0.5 if actual >= 0 else 0.5 * slope / (slope + 0.5 * actual)
        if 0.1 * norm >= state.norm or share < 0.1:
            share = 0.1
        state.radius = share * min(state.radius, length / 0.1)
        state.damping /= share
    elif state.damping == 0 or ratio >= 0.75:
        state.radius = length / 0.5
        state.damping *= 0.5
    return actual, predicted, ratio


def _ended(problem: Problem, state: _State, actual: float, predicted: float, ratio: float) -> tuple[bool, str] | None:
    size = float(np.linalg.norm(state.scale * state.x))
    if abs(actual) <= problem.ftol and predicted <= problem.ftol and 0.5 * ratio <= 1.0:
        return True, "the sum of squares no longer decreases (ftol)"
    if state.radius <= problem.xtol * size:
        return True, "the variables no longer change (xtol)"
    if state.evaluations >= problem.most:
        return False, f"the limit of {problem.most} evaluations was reached"
    if abs(actual) <= _EPS and predicted <= _EPS and 0.5 * ratio <= 1.0:
        return True, "the sum of squares cannot decrease further (ftol is below the precision)"
    if state.radius <= _EPS * size:
        return True, "the variables cannot get closer (xtol is below the precision)"
    return None


def _damped_step(jacobian: Array, f: Array, scale: Array, radius: float, damping: float) -> tuple[Array, float]:
    """The step that minimizes |J p + f|² + damping |D p|², with a damping such that |D p| is about the radius."""
    size = scale.size
    step, regular = _gauss_newton_step(jacobian, f)
    length = float(np.linalg.norm(scale * step))
    excess = length - radius
    if excess <= 0.1 * radius:
        return step, 0.0
    low = 0.0
    if regular:
        low = excess / radius / _squared_slope(jacobian, scale, scale * (scale * step / length))
    gradient = float(np.linalg.norm(jacobian.T @ f / scale))
    high = gradient / radius or _TINY / min(radius, 0.1)
    damping = min(max(damping, low), high) or gradient / length
    for count in range(10):
        damping = damping or max(_TINY, 0.001 * high)
        stacked = np.concatenate([jacobian, math.sqrt(damping) * np.diag(scale)])
        step = np.linalg.lstsq(stacked, np.concatenate([-f, np.zeros(size)]), rcond=None)[0]
        length = float(np.linalg.norm(scale * step))
        before, excess = excess, length - radius
        if abs(excess) <= 0.1 * radius or (low == 0 and excess <= before and before < 0) or count == 9:
            break
        correction = excess / radius / _squared_slope(stacked, scale, scale * (scale * step / length))
        if excess > 0:
            low = max(low, damping)
        elif excess < 0:
            high = min(high, damping)
        damping = max(low, damping + correction)
    return step, damping


def _gauss_newton_step(jacobian: Array, f: Array) -> tuple[Array, bool]:
    """The step without damping, and whether the Jacobian has full rank.

    As in MINPACK, the rank counts as full unless a pivot is exactly zero: with a pivot that is only almost zero, the
    step is so long that a damping is chosen.
    """
    orthogonal, triangle = np.linalg.qr(jacobian)
    if (np.diag(triangle) != 0).all():
        with float_errors_ignored():
            step = np.linalg.solve(triangle, -(orthogonal.T @ f))
        if np.isfinite(step).all():
            return step, True
    return np.linalg.lstsq(jacobian, -f, rcond=_EPS * max(jacobian.shape))[0], False


def _squared_slope(matrix: Array, scale: Array, vector: Array) -> float:
    """|R⁻ᵀ v|² for the triangular factor R of a matrix."""
    triangle: Array = np.linalg.qr(matrix, mode="r")
    return float(np.sum(np.linalg.solve(triangle.T, vector) ** 2))
