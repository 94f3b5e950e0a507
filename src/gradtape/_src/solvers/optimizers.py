"""Second-order optimizers of variables: L-BFGS, Newton-CG and Levenberg-Marquardt, with a report on each run.

They follow SciPy's algorithms step by step (`L-BFGS-B` without bounds, `Newton-CG`, MINPACK's `lmder`): from the same
point they compute the same iterates, up to rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.conversion import convert
from gradtape._src.solvers.levenberg_marquardt import Problem, fit
from gradtape._src.solvers.line_search import search
from gradtape._src.solvers.vectors import check_not_negative, check_positive, check_whole
from gradtape._src.variable import Variable, all_unwrapped, unwrapped

Array = Any
_EPS = float(np.finfo(np.float64).eps)


class Step(NamedTuple):
    """One row of a report: the loss and the largest entry of the gradient after an iteration."""

    iteration: int
    loss: float
    gradient: float
    step: float


class ConvergenceReport:
    """The report of an optimizer: whether it converged, why it stopped, and what it did in each iteration.

    >>> x = tf.Variable([3.0, -1.0])
    >>> report = tf.train.LBFGS().minimize(lambda: tf.reduce_sum((x - 1.0) ** 2), [x])
    >>> report.converged, report.iterations
    (True, 2)
    """

    def __init__(self, method: str) -> None:
        self.method = method
        self.converged = False
        """Whether a convergence criterion is met."""
        self.reason = "it has not run"
        """Why it stopped, as text."""
        self.evaluations = 0
        """The number of evaluations of the loss."""
        self.products = 0
        """The number of products with the Hessian."""
        self.history: list[Step] = []
        """A row for the start and for each iteration."""

    @property
    def iterations(self) -> int:
        """The number of iterations.

        >>> x = tf.Variable([3.0, -1.0])
        >>> tf.train.LBFGS().minimize(lambda: tf.reduce_sum((x - 1.0) ** 2), [x]).iterations
        2
        """
        return self.history[-1].iteration if self.history else 0

    @property
    def loss(self) -> float:
        """The loss at the end; for Levenberg-Marquardt, half the sum of squares.

        >>> x = tf.Variable([3.0, -1.0])
        >>> tf.train.LBFGS().minimize(lambda: tf.reduce_sum((x - 1.0) ** 2), [x]).loss < 1e-9
        True
        """
        return self.history[-1].loss if self.history else math.nan

    @property
    def gradient_norm(self) -> float:
        """The largest entry of the gradient at the end.

        >>> x = tf.Variable([3.0, -1.0])
        >>> tf.train.LBFGS().minimize(lambda: tf.reduce_sum((x - 1.0) ** 2), [x]).gradient_norm < 1e-5
        True
        """
        return self.history[-1].gradient if self.history else math.nan

    def check(self) -> ConvergenceReport:
        """Raise `tf.errors.ConvergenceError` unless the optimizer converged; otherwise return the report.

        >>> x = tf.Variable([3.0, -1.0])
        >>> tf.train.LBFGS().minimize(lambda: tf.reduce_sum((x - 1.0) ** 2), [x]).check().converged
        True
        """
        if self.converged:
            return self
        raise errors.ConvergenceError(
            None,
            None,
            f"{self.method} did not converge: {self.reason}. The largest element of the gradient is "
            f"{self.gradient_norm:.3g} after {self.iterations} iterations. Allow more iterations (maxiter) or a "
            "larger gradient (gtol), use float64, or start from another point.",
            residual=self.gradient_norm,
            iterations=self.iterations,
        )

    def __repr__(self) -> str:
        word = "converged" if self.converged else "did not converge"
        return (
            f"<{self.method} {word} after {self.iterations} iterations and {self.evaluations} evaluations: "
            f"{self.reason}; loss {self.loss:.6g}, gradient {self.gradient_norm:.3g}>"
        )

    def table(self) -> str:
        """Return all iterations as text.

        >>> x = tf.Variable([3.0, -1.0])
        >>> report = tf.train.NewtonCG().minimize(lambda: tf.reduce_sum((x - 1.0) ** 2), [x])
        >>> print(report.table().splitlines()[0])
        iteration             loss   gradient       step
        """
        lines = [f"{'iteration':>9} {'loss':>16} {'gradient':>10} {'step':>10}"]
        lines += [f"{s.iteration:9d} {s.loss:16.9g} {s.gradient:10.3g} {s.step:10.3g}" for s in self.history]
        return "\n".join(lines)


class _Parameters:
    """Variables as one float64 vector."""

    def __init__(self, var_list: Any, loss: Callable[[], Any], optimizer: str) -> None:
        if current_graph() is not None:
            raise RuntimeError(
                f"tf.train.{optimizer}.minimize needs concrete values to know when to stop, and cannot be traced: "
                "call it outside tf.function. The loss can be a tf.function."
            )
        if not callable(loss):
            raise TypeError(f"The loss must be a function without arguments; received {loss!r}.")
        given = _watched(loss) if var_list is None else _flat(var_list)
        self.variables = list({id(v): v for v in given}.values())
        if not self.variables:
            raise ValueError("No variables provided: pass them as var_list, or let the loss use trainable variables.")
        for variable in self.variables:
            if not isinstance(variable, Variable) or not variable.dtype.is_floating:
                raise TypeError(f"var_list must contain floating-point tf.Variables; received {variable!r}.")
        self.shapes = [tuple(v.shape) for v in self.variables]
        self.ends = np.cumsum([math.prod(shape) for shape in self.shapes])

    def vector(self) -> Array:
        return self.ravel([v.numpy() for v in self.variables])

    def ravel(self, parts: Sequence[Any]) -> Array:
        arrays = [
            np.zeros(shape) if p is None else np.asarray(convert(p).numpy(), np.float64)
            for p, shape in zip(parts, self.shapes, strict=True)
        ]
        return np.concatenate([a.reshape(-1) for a in arrays])

    def unravel(self, x: Array) -> list[Array]:
        parts = np.split(x, self.ends[:-1])
        return [
            p.reshape(shape).astype(v.dtype.as_numpy_dtype)
            for p, shape, v in zip(parts, self.shapes, self.variables, strict=True)
        ]

    def assign(self, x: Array) -> None:
        for variable, value in zip(self.variables, self.unravel(x), strict=True):
            variable.assign(value)


def _flat(var_list: Any) -> list[Any]:
    """The variables of a list, or one variable; those of Keras are replaced by the ones they wrap."""
    one = unwrapped(var_list)
    return [one] if isinstance(one, Variable) else all_unwrapped(list(var_list))


def _watched(loss: Callable[[], Any]) -> list[Variable]:
    with Tape() as tape:
        loss()
    return list(tape.watched_variables())


class _Loss:
    """The loss and its gradient as functions of a vector, which is assigned to the variables."""

    def __init__(self, loss: Callable[[], Any], parameters: _Parameters, report: ConvergenceReport) -> None:
        self.loss, self.parameters, self.report = loss, parameters, report

    def __call__(self, x: Array) -> tuple[float, Array]:
        self.parameters.assign(x)
        self.report.evaluations += 1
        with Tape() as tape:
            tape.watch(self.parameters.variables)
            value = convert(self.loss())
        _check_scalar(value)
        found = tape.gradient(value, self.parameters.variables)
        _check_connected(found, self.parameters.variables)
        return float(value.numpy()), self.parameters.ravel(found)

    def with_products(self, x: Array) -> tuple[float, Array, Callable[[Array], Array]]:
        """The loss and gradient, and a function for products with the Hessian."""
        self.parameters.assign(x)
        variables = self.parameters.variables
        with Tape(persistent=True) as outer:
            outer.watch(variables)
            with Tape() as inner:
                inner.watch(variables)
                value = convert(self.loss())
            _check_scalar(value)
            grads = [None if g is None else convert(g) for g in inner.gradient(value, variables)]
        _check_connected(grads, variables)
        known = [g for g in grads if g is not None]

        def product(v: Array) -> Array:
            self.report.products += 1
            directions = [convert(p) for p in self.parameters.unravel(v)]
            found = iter(outer.jvp(known, variables, directions, unconnected_gradients="zero"))
            return self.parameters.ravel([None if g is None else next(found) for g in grads])

        return float(value.numpy()), self.parameters.ravel(grads), product


def _check_scalar(value: Any) -> None:
    if value.shape.rank != 0:
        raise ValueError(f"The loss must be a scalar, but has the shape {value.shape}. Use tf.reduce_mean.")
    _check_real(value, "loss")


def _check_real(value: Any, what: str) -> None:
    if value.dtype.is_complex:
        raise TypeError(f"The {what} must be real, but the dtype is {value.dtype.name}. Use tf.abs or tf.math.real.")
    if not (value.dtype.is_floating or value.dtype.is_integer):
        raise TypeError(f"The {what} must consist of real numbers; received {value.dtype.name}.")


def _check_connected(gradients: Sequence[Any], variables: Sequence[Variable], what: str = "loss does") -> None:
    if all(g is None for g in gradients):
        names = ", ".join([v.name for v in variables])
        raise ValueError(
            f"No gradients provided for any variable: the {what} not depend on {names}. Use the variables inside the "
            "function, with differentiable ops."
        )


def _columns(block: Any, variable: Variable, rows: int) -> Array:
    """The columns of a Jacobian for a variable, zeros if the residuals do not depend on it."""
    if block is None:
        return np.zeros((rows, variable.numpy().size))
    return np.asarray(block.numpy(), np.float64).reshape(rows, variable.numpy().size)


def _tolerances(**given: Any) -> list[float]:
    """Tolerances as floats; 0 switches a criterion off."""
    for name, value in given.items():
        check_not_negative(name, value)
    return [float(value) for value in given.values()]


class _Optimizer:
    """Base class of the optimizers: variables always end at the last accepted point, even after an error."""

    def minimize(self, loss: Callable[[], Any], var_list: Any = None) -> ConvergenceReport:
        """Change the variables until the loss is smallest.

        If the loss raises an error, or the program is interrupted, the variables have their values of the last
        iteration.

        Args:
          loss: A function without arguments that returns a scalar.
          var_list: The variables; those that the loss uses, by default.
        """
        name = type(self).__name__
        parameters, report = _Parameters(var_list, loss, name), ConvergenceReport(f"tf.train.{name}")
        accepted = [parameters.vector()]
        try:
            self._run(_Loss(loss, parameters, report), accepted, report)
        finally:
            parameters.assign(accepted[0])
        return report

    def _run(self, loss: _Loss, accepted: list[Array], report: ConvergenceReport) -> None:
        raise NotImplementedError


class LBFGS(_Optimizer):
    """Minimize a loss with L-BFGS and the line search of Moré and Thuente: SciPy's `L-BFGS-B`, without bounds.

    Args:
      history_size: The number of previous steps that describe the curvature.
      maxiter: The maximum number of iterations.
      gtol: Converged if no element of the gradient is larger.
      ftol: The optimizer has converged if an iteration reduces the loss by less than this fraction of it.
      maxls: The maximum number of evaluations in one line search.

    >>> import gradtape as tf
    >>> x = tf.Variable([-1.2, 1.0], dtype=tf.float64)
    >>> rosenbrock = lambda: 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2
    >>> tf.train.LBFGS().minimize(rosenbrock, [x]).converged
    True
    >>> x.numpy().round(4).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self, history_size: int = 10, maxiter: int = 15000, gtol: float = 1e-5, ftol: float = 2.2e-9, maxls: int = 20
    ) -> None:
        check_whole("history_size", history_size, 1)
        check_whole("maxiter", maxiter, 0)
        check_whole("maxls", maxls, 1)
        self.history_size, self.maxiter, self.maxls = history_size, maxiter, maxls
        self.gtol, self.ftol = _tolerances(gtol=gtol, ftol=ftol)

    def _run(self, loss: _Loss, accepted: list[Array], report: ConvergenceReport) -> None:
        x = accepted[0]
        f, g = loss(x)
        report.history.append(Step(0, f, _largest(g), 0.0))
        pairs: list[tuple[Array, Array]] = []
        k = 0
        while not self._ended(report, f, g, k):
            d = -_inverse_hessian_product(g, pairs)
            found = self._line(loss, x, f, g, d, first=k == 0)
            if found is None:
                if not pairs:
                    report.reason = "the line search found no smaller loss along the gradient"
                    return
                pairs = []  # restart with the gradient
                continue
            new, f_new, g_new, step = found
            k += 1
            s, y = new - x, g_new - g
            accepted[0] = x = new
            change, f, g = f - f_new, f_new, g_new
            report.history.append(Step(k, f, _largest(g), step))
            if change <= self.ftol * max(abs(f + change), abs(f), 1.0) and _largest(g) > self.gtol:
                report.converged, report.reason = True, "the loss no longer decreases (ftol)"
                return
            if s @ y > _EPS * -(d @ (g - y)) * step:
                pairs = [*pairs[-(self.history_size - 1) :], (s, y)] if self.history_size > 1 else [(s, y)]

    def _ended(self, report: ConvergenceReport, f: float, g: Array, k: int) -> bool:
        if not math.isfinite(f) or not np.isfinite(g).all():
            report.reason = "the loss or its gradient is not finite"
        elif _largest(g) <= self.gtol:
            report.converged, report.reason = True, "the gradient is small (gtol)"
        elif k >= self.maxiter:
            report.reason = f"the limit of {self.maxiter} iterations was reached"
        else:
            return False
        return True

    def _line(self, loss: _Loss, x: Array, f: float, g: Array, d: Array, first: bool) -> Any:
        slope = float(g @ d)
        if slope >= 0:
            return None
        results: dict[float, tuple[float, Array]] = {}

        def evaluate(step: float) -> tuple[float, float]:
            results[step] = loss(x + step * d)
            return results[step][0], float(results[step][1] @ d)

        start = min(1.0 / float(np.linalg.norm(d)), 1e10) if first else 1.0
        found = search(evaluate, f, slope, start, decrease=1e-3, curvature=0.9, most=self.maxls)
        if found.message and (found.step not in results or not found.value < f):  # false for NaN
            return None
        f_new, g_new = results[found.step]
        return x + found.step * d, f_new, g_new, found.step


def _largest(g: Array) -> float:
    return float(np.abs(g).max()) if g.size else 0.0


def _inverse_hessian_product(g: Array, pairs: Sequence[tuple[Array, Array]]) -> Array:
    """L-BFGS's approximation of H⁻¹ g from the last steps and gradient differences."""
    q, alphas = g.copy(), []
    for s, y in reversed(pairs):
        alpha = s @ q / (s @ y)
        alphas.append(alpha)
        q -= alpha * y
    if pairs:
        s, y = pairs[-1]
        q *= (s @ y) / (y @ y)
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - y @ q / (s @ y)) * s
    return q


class NewtonCG(_Optimizer):
    """Minimize a loss with Newton's method, computing the steps with conjugate gradients: SciPy's `Newton-CG`.

    The Hessian is never built: its products with vectors come from one recorded gradient, in forward mode.

    Args:
      maxiter: The maximum number of iterations; by default, 200 times the number of variable elements.
      xtol: Converged if the mean change of an element is smaller.
      gtol: Converged if no element of the gradient is larger; not used by default, as in SciPy.

    >>> import gradtape as tf
    >>> x = tf.Variable([-1.2, 1.0], dtype=tf.float64)
    >>> rosenbrock = lambda: 100.0 * (x[1] - x[0] ** 2) ** 2 + (1.0 - x[0]) ** 2
    >>> tf.train.NewtonCG().minimize(rosenbrock, [x]).converged
    True
    >>> x.numpy().round(4).tolist()
    [1.0, 1.0]
    """

    def __init__(self, maxiter: int | None = None, xtol: float = 1e-5, gtol: float = 0.0) -> None:
        if maxiter is not None:
            check_whole("maxiter", maxiter, 0)
        self.maxiter = maxiter
        self.xtol, self.gtol = _tolerances(xtol=xtol, gtol=gtol)

    def _run(self, loss: _Loss, accepted: list[Array], report: ConvergenceReport) -> None:
        x = accepted[0]
        most = 200 * x.size if self.maxiter is None else self.maxiter
        f, g, product = loss.with_products(x)
        report.evaluations += 1
        report.history.append(Step(0, f, _largest(g), 0.0))
        before: float | None = None
        if not x.size:
            report.converged, report.reason = True, "the gradient is small (gtol)"
            return
        for k in range(1, most + 1):
            if not math.isfinite(f) or not np.isfinite(g).all():
                report.reason = "the loss or its gradient is not finite"
                return
            d = _newton_direction(g, product)
            if d is None:
                report.reason = "conjugate gradients did not converge; the Hessian is not positive definite"
                return
            if not d.any():
                report.history.append(Step(k, f, _largest(g), 0.0))
                report.converged, report.reason = self._without_curvature(g, product)
                return
            found = _wolfe(loss, x, f, g, d, before)
            if found is None:
                if _largest(g) <= max(self.gtol, 1e-7):
                    report.converged, report.reason = True, "the gradient is small, and no step reduces the loss"
                else:
                    report.reason = "the line search found no smaller loss"
                return
            step, f_new = found
            accepted[0] = x = x + step * d
            before, f = f, f_new
            f, g, product = loss.with_products(x)
            report.history.append(Step(k, f, _largest(g), step))
            if np.abs(step * d).sum() <= x.size * self.xtol:
                report.converged, report.reason = True, "the variables no longer change (xtol)"
                return
            if _largest(g) <= self.gtol:
                report.converged, report.reason = True, "the gradient is small (gtol)"
                return
        report.reason = f"the limit of {most} iterations was reached"

    def _without_curvature(self, g: Array, product: Callable[[Array], Array]) -> tuple[bool, str]:
        """Whether the curvature is small because the gradient is; a plane has none, either, and no minimum."""
        is_flat = abs(float(g @ product(g))) <= 3 * _EPS * float(g @ g)
        if is_flat and _largest(g) > max(self.gtol, 1e-7):
            return False, "the loss has a slope, but no curvature: it may not have a minimum"
        return True, "the curvature is below the precision"


def _newton_direction(g: Array, product: Callable[[Array], Array]) -> Array | None:
    """Run conjugate gradients for H d = -g until the residual is small enough, or the curvature is negative.

    The direction is zero if the curvature is below the precision, and None if the residual stays too large.
    """
    b = -g
    size = float(np.abs(b).sum())
    enough = min(0.5, math.sqrt(size)) * size
    d, r = np.zeros_like(b), -b
    p, square = b.copy(), float(b @ b)
    for i in range(20 * b.size):
        if np.abs(r).sum() <= enough:
            return d
        q = product(p)
        curvature = float(p @ q)
        if 0 <= curvature <= 3 * _EPS:
            return d
        if curvature < 0:
            return d if i else square / -curvature * b
        d = d + square / curvature * p
        r = r + square / curvature * q
        new = float(r @ r)
        p, square = -r + new / square * p, new
    return None


def _wolfe(loss: _Loss, x: Array, f: float, g: Array, d: Array, before: float | None) -> tuple[float, float] | None:
    """A step along d that satisfies Wolfe's conditions, and the loss there; None if none was found."""
    slope = float(g @ d)
    if slope >= 0:
        return None
    start = 1.0
    if before is not None:
        start = min(1.0, 1.01 * 2.0 * (f - before) / slope)
        start = start if start > 0 else 1.0

    def evaluate(step: float) -> tuple[float, float]:
        value, gradient = loss(x + step * d)
        return value, float(gradient @ d)

    found = search(evaluate, f, slope, start, tolerance=1e-14, smallest=1e-8, largest=50.0, most=100)
    return (found.step, found.value) if not found.message or found.value < f else None  # false for NaN


class LevenbergMarquardt:
    """Minimize a sum of squares with the Levenberg-Marquardt method: MINPACK's, which SciPy calls `"lm"`.

    Args:
      maxiter: The maximum number of evaluations; by default, 100 times the number of variable elements plus 1.
      ftol: Converged if the predicted and the actual change of the sum are both smaller fractions of it.
      xtol: Converged if a step is a smaller fraction of the variables.
      gtol: Converged if the residuals are orthogonal to the columns of the Jacobian, up to this cosine.
      factor: The length of the first step is at most this multiple of the (scaled) variables.

    >>> import gradtape as tf
    >>> x = tf.Variable([-1.2, 1.0], dtype=tf.float64)
    >>> residuals = lambda: tf.stack([10.0 * (x[1] - x[0] ** 2), 1.0 - x[0]])
    >>> tf.train.LevenbergMarquardt().minimize(residuals, [x]).converged
    True
    >>> x.numpy().round(4).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self,
        maxiter: int | None = None,
        ftol: float = 1.49012e-8,
        xtol: float = 1.49012e-8,
        gtol: float = 0.0,
        factor: float = 100.0,
    ) -> None:
        if maxiter is not None:
            check_whole("maxiter", maxiter, 1)
        check_positive("factor", factor)
        self.maxiter, self.factor = maxiter, float(factor)
        self.ftol, self.xtol, self.gtol = _tolerances(ftol=ftol, xtol=xtol, gtol=gtol)

    def minimize(self, residuals: Callable[[], Any], var_list: Any = None) -> ConvergenceReport:
        """Change the variables to minimize the sum of squares of the residuals.

        Args:
          residuals: A function without arguments that returns a tensor with at least as many elements as the variables.
          var_list: The variables; by default, those that the function uses.
        """
        parameters = _Parameters(var_list, residuals, "LevenbergMarquardt")
        report = ConvergenceReport("tf.train.LevenbergMarquardt")
        accepted = [parameters.vector()]

        def values(x: Array) -> Array:
            parameters.assign(x)
            report.evaluations += 1
            found = convert(residuals())
            _check_real(found, "residuals")
            return np.asarray(found.numpy(), np.float64).reshape(-1)

        def jacobian(x: Array) -> Array:
            parameters.assign(x)
            with Tape() as tape:
                tape.watch(parameters.variables)
                found = convert(residuals())
            rows = math.prod(found.array.shape)
            blocks = tape.jacobian(found, parameters.variables)
            _check_connected(blocks, parameters.variables, "residuals do")
            return np.concatenate([_columns(b, v, rows) for b, v in zip(blocks, parameters.variables, strict=True)], 1)

        def on_step(x: Array, iteration: int, loss: float, gradient: float, step: float) -> None:
            accepted[0] = x
            report.history.append(Step(iteration, loss, gradient, step))

        most = 100 * (accepted[0].size + 1) if self.maxiter is None else self.maxiter
        problem = Problem(values, jacobian, on_step, self.ftol, self.xtol, self.gtol, self.factor, most)
        try:
            report.converged, report.reason = fit(problem, accepted[0])
        finally:
            parameters.assign(accepted[0])
        return report


__all__ = ["LBFGS", "ConvergenceReport", "LevenbergMarquardt", "NewtonCG"]
