"""Derivatives of solutions by the implicit function theorem.

A solution x of F(x, θ) = 0 has the derivative dx = -(∂F/∂x)⁻¹ (∂F/∂θ) dθ, however it was computed. The solver's ops are
not recorded: tapes record one op, whose vjp evaluates F once and solves one linear system.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradtape._src import errors, nest
from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.autodiff.one_op import captured, one_op
from gradtape._src.conversion import convert
from gradtape._src.core import tape as stack
from gradtape._src.ops.array import identity
from gradtape._src.solvers.convergence import require_convergence
from gradtape._src.solvers.linear import conjugate_gradients, gmres
from gradtape._src.solvers.vectors import (
    Layout,
    as_tuple,
    check_not_negative,
    check_whole,
    differentiable_leaves,
    epsilon,
    norm,
)
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.linear_systems import solve as dense_solve
from gradtape._src.variable import Variable, read

Residual = Callable[[Tensor, list[Tensor]], Tensor]
"""F on vectors: a function of the unknowns, and of the tensors that the solution depends on."""

DENSE_LIMIT = 1000
"""The number of unknowns up to which the Jacobian is computed as a matrix."""

KINDS = ("root", "fixed_point", "minimum")
LINEAR_SOLVERS = ("auto", "dense", "gmres", "cg")


class Rule(NamedTuple):
    """How linear systems are solved: the method, the number of batch axes, the tolerance."""

    method: str
    batch_dims: int
    symmetric: bool
    tol: float | None
    maxiter: int | None


def implicit(
    function: Callable[..., Any],
    kind: str = "root",
    *,
    linear_solver: str = "auto",
    tol: float | None = None,
    linear_tol: float | None = None,
    linear_maxiter: int | None = None,
    batch_dims: int = 0,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a solver `solver(x0, *args)` so that its result is differentiated as the solution of an equation.

    The solver can be anything: a loop, SciPy, a lookup table. Tapes do not record what it does. Its result can be
    differentiated, to any order and in both modes, with respect to the tensors in `args` and the tensors and variables
    that `function` closes over. The initial guess, `x0`, has no gradient. Arguments and result can be nested
    structures.

    Args:
      function: `function(x, *args)`, which defines the solution x: with `kind="root"` it is zero, with `"fixed_point"`
        it returns x itself, with `"minimum"` it is a scalar that x minimizes (one for each problem of a batch).
      kind: One of these three.
      linear_solver: How to solve the linear system of the derivative: `"dense"` builds the Jacobian; `"gmres"` or
        `"cg"` (symmetric) use only its products; `"auto"` is dense for up to 1000 unknowns.
      tol: A residual larger than `tol * (1 + the residual at x0)` raises `tf.errors.ConvergenceError`. The default is
        the cube root of the precision, 5e-3 for float32 and 6e-6 for float64: above what common solvers leave when
        they stop, and below what they leave when they fail. `float("inf")` disables the check.
      linear_tol: The relative residual of iterative linear solvers; the default is the precision to the power 2/3.
      linear_maxiter: The maximum number of iterations of iterative linear solvers.
      batch_dims: The number of leading axes, in all tensors of the solution, that index independent problems.

    >>> import gradtape as tf
    >>> @tf.autodiff.implicit(lambda x, a: x * x - a)
    ... def square_root(x, a):
    ...     for _ in range(20):
    ...         x = 0.5 * (x + a / x)
    ...     return x
    >>> a = tf.Variable(4.0)
    >>> with tf.GradientTape() as tape:
    ...     x = square_root(tf.constant(1.0), a)
    >>> float(x), float(tape.gradient(x, a)), len(tape.records)
    (2.0, 0.25, 0)
    """
    check_choice("kind", kind, KINDS)
    check_choice("linear_solver", linear_solver, LINEAR_SOLVERS)
    if not callable(function):
        raise TypeError(f"function should be callable: received {function!r}.")
    for name, value in (("tol", tol), ("linear_tol", linear_tol)):
        if value is not None:
            check_not_negative(name, value)
    if linear_maxiter is not None:
        check_whole("linear_maxiter", linear_maxiter, 1)
    check_whole("batch_dims", batch_dims, 0)
    rule = Rule(linear_solver, batch_dims, kind == "minimum", linear_tol, linear_maxiter)

    def decorate(solver: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(solver):
            raise TypeError(f"tf.autodiff.implicit decorates a solver, solver(x0, *args): received {solver!r}.")

        @functools.wraps(solver)
        def solved(x0: Any, *args: Any) -> Any:
            layout = Layout(x0, batch_dims)
            residual, inputs = problem(function, kind, layout, args)
            with stack.use_recorders(()):
                values = nest.map_structure(convert, x0)
                x = layout.ravel(solver(values, *args), f"The result of {getattr(solver, '__name__', solver)}")
                start = residual(layout.ravel(values), inputs)
                found = residual(x, inputs)
                limit = (norm(start) + 1.0) * array.cast(epsilon(x) ** (1 / 3) if tol is None else tol, x.dtype)
                require_convergence(norm(found), limit, array.constant(1), f"{_name(solver)} (calls)", _ADVICE)
            return layout.unravel(defined_by(residual, x, inputs, rule))

        return solved

    return decorate


_ADVICE = (
    "Let the solver run longer or to a smaller tolerance, or pass a larger tol to tf.autodiff.implicit. The "
    "derivatives assume an exact solution and would be wrong here."
)


def _name(solver: Any) -> str:
    return str(getattr(solver, "__name__", type(solver).__name__))


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise ValueError unless an argument is one of the choices."""
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, choices))}; received {value!r}.")


def problem(function: Callable[..., Any], kind: str, layout: Layout, args: Any) -> tuple[Residual, list[Tensor]]:
    """The equation as a function of vectors, and the tensors among its arguments."""
    inputs, places, leaves = differentiable_leaves(as_tuple(args))

    def call(x: Tensor, tensors: Sequence[Tensor]) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        return function(layout.unravel(x), *nest.pack_sequence_as(as_tuple(args), given))

    def root(x: Tensor, tensors: list[Tensor]) -> Tensor:
        return layout.ravel(call(x, tensors))

    def fixed_point(x: Tensor, tensors: list[Tensor]) -> Tensor:
        return x - layout.ravel(call(x, tensors))

    def gradient(x: Tensor, tensors: list[Tensor]) -> Tensor:
        with Tape() as tape:
            own = identity(x)
            tape.watch(own)
            value = scalar_value(call(own, tensors), layout)
        found = tape.gradient(value, own)
        if found is None:
            raise ValueError(
                "The function to minimize does not depend on x0. Compute its result from its first argument, with "
                "differentiable ops."
            )
        return found

    return {"root": root, "fixed_point": fixed_point, "minimum": gradient}[kind], inputs


def scalar_value(value: Any, layout: Layout) -> Tensor:
    """Check the objective of a minimization: one number for each problem."""
    tensor = convert(value)
    if not tensor.dtype.is_floating:
        raise TypeError(
            f"The function to minimize must return real floating-point numbers; received {tensor.dtype.name}."
        )
    if tuple(tensor.array.shape) != layout.batch:
        wanted = f"one number for each problem, of shape {layout.batch}" if layout.batch else "a scalar"
        raise ValueError(f"The function to minimize must return {wanted}; received the shape {tensor.shape}.")
    return tensor


# -- the op ----------------------------------------------------------------------------------------------------------
def defined_by(residual: Residual, x: Tensor, inputs: Sequence[Tensor], rule: Rule) -> Tensor:
    """Record a solution as one op of the inputs, and of the tensors that the residual captures."""
    if stack.active_stack() is None:
        return x
    tensors, variables = captured(lambda: residual(identity(x), list(inputs)), inputs, x)
    if not inputs and not tensors and not variables:
        return x
    vjp = functools.partial(_vjp, residual, rule, tensors, variables)
    everything = [*inputs, *tensors, *[read(v) for v in variables]]
    return one_op(everything, [x], vjp, "implicit")[0]


def _vjp(
    residual: Residual,
    rule: Rule,
    tensors: list[Tensor],
    variables: list[Variable],
    inputs: list[Tensor],
    outputs: list[Tensor],
    g: list[Tensor],
    needed: list[bool],
) -> list[Any]:
    """Solve (∂F/∂x)ᵀ u = -g, then u ∂F/∂θ is the gradient."""
    count = len(inputs) - len(tensors) - len(variables)
    x, own = outputs[0], [identity(t) for t in inputs[:count]]  # copies, because a tensor may be passed twice
    sources: list[Any] = [*own, *tensors, *variables]
    wanted = [i for i, need in enumerate(needed) if need]
    u = _solve_transposed(residual, rule, x, own, g[0])
    with Tape(watch_accessed_variables=False) as tape:
        tape.watch([sources[i] for i in wanted])
        r = residual(x, own)
    found = tape.gradient(r, [sources[i] for i in wanted], output_gradients=u, unconnected_gradients="zero")
    gradients: list[Any] = [None] * len(inputs)
    for i, gradient in zip(wanted, found, strict=True):
        gradients[i] = gradient
    return gradients


_SINGULAR = (
    "The solution has no derivative here: the Jacobian of the equation that defines it is singular, because other "
    "solutions are nearby, or because more constraints are active than unknowns are left."
)


def _solve_transposed(residual: Residual, rule: Rule, x: Tensor, inputs: list[Tensor], g: Tensor) -> Tensor:
    size = x.array.shape[-1]
    method = rule.method
    if method == "auto":
        method = "dense" if type(size) is int and size <= DENSE_LIMIT else "cg" if rule.symmetric else "gmres"
    if method == "dense":
        jacobian = jacobian_of(residual, x, inputs, rule.batch_dims)
        try:
            return -dense_solve(jacobian, g[..., None], adjoint=True)[..., 0]
        except errors.InvalidArgumentError as error:
            raise errors.InvalidArgumentError(None, None, f"{_SINGULAR} {error.message}") from None
    return _solve_by_products(residual, rule._replace(method=method), x, inputs, g)


def jacobian_of(residual: Residual, x: Tensor, inputs: list[Tensor], batch_dims: int) -> Tensor:
    """The Jacobian of the residual by x as a matrix, or as a batch of matrices."""
    with Tape() as tape:
        own = identity(x)
        tape.watch(own)
        r = residual(own, inputs)
    if not batch_dims:
        found = tape.jacobian(r, own, unconnected_gradients="zero")
    else:
        found = tape.batch_jacobian(r, own, unconnected_gradients="zero")
    assert found is not None
    return found


def _solve_by_products(residual: Residual, rule: Rule, x: Tensor, inputs: list[Tensor], g: Tensor) -> Tensor:
    """Solve the system with products of the Jacobian; the result is again the solution of a linear
    equation, as one op.
    """

    def transposed(u: Tensor, given: list[Tensor]) -> Tensor:
        """(∂F/∂x)ᵀ u + g, whose root is u."""
        g, x, *rest = given
        with Tape(watch_accessed_variables=False) as tape:
            own = identity(x)
            tape.watch(own)
            r = residual(own, rest)
        product = tape.gradient(r, own, output_gradients=u, unconnected_gradients="zero")
        assert product is not None
        return product + g

    with stack.use_recorders(()):
        with Tape(persistent=True, watch_accessed_variables=False) as tape:
            own = identity(x)
            tape.watch(own)
            r = residual(own, inputs)

        def product(u: Tensor) -> Tensor:
            found = tape.gradient(r, own, output_gradients=u, unconnected_gradients="zero")
            assert found is not None
            return found

        solver = conjugate_gradients if rule.method == "cg" else gmres
        options: dict[str, Any] = {} if rule.maxiter is None else {"maxiter": rule.maxiter}
        u = solver(product, -g, tol=rule.tol, **options)
    return defined_by(transposed, u, [g, x, *inputs], rule)
