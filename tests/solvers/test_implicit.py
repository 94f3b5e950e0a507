"""Derivatives of what solvers find: roots, fixed points, minima, and solvers of users."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

RNG = np.random.default_rng(0)
MATRIX = RNG.normal(size=(4, 4)) / 4
POINT = np.arange(4.0) / 5
JITS = [False, True]


def contraction(x, b, matrix=MATRIX):
    return tf.tanh(tf.linalg.matvec(tf.cast(matrix, x.dtype), x)) + b


def contraction_jacobian(x):
    slope = 1 - np.tanh(MATRIX @ x) ** 2
    return np.linalg.inv(np.eye(4) - slope[:, None] * MATRIX)


SOLVERS = {
    "root newton": lambda b, **o: tf.autodiff.root(lambda x, b: x - contraction(x, b), tf.zeros_like(b), b, **o).x,
    "root krylov": lambda b, **o: (
        tf.autodiff.root(lambda x, b: x - contraction(x, b), tf.zeros_like(b), b, method="krylov", **o).x
    ),
    "anderson": lambda b, **o: tf.autodiff.fixed_point(contraction, tf.zeros_like(b), b, **o).x,
    "iteration": lambda b, **o: tf.autodiff.fixed_point(contraction, tf.zeros_like(b), b, method="iteration", **o).x,
}


@pytest.mark.parametrize("linear_solver", ["dense", "gmres"])
@pytest.mark.parametrize("name", SOLVERS)
def test_jacobians_equal_the_formula(name, linear_solver):
    b = tf.constant(POINT)
    with tf.GradientTape() as tape:
        tape.watch(b)
        x = SOLVERS[name](b, linear_solver=linear_solver)
    np.testing.assert_allclose(x, contraction(x, b), atol=1e-10)
    np.testing.assert_allclose(tape.jacobian(x, b), contraction_jacobian(x.numpy()), atol=1e-8)


@pytest.mark.parametrize("linear_solver", ["dense", "gmres"])
def test_forward_mode_and_second_order(linear_solver):
    b, t = tf.constant(POINT), tf.constant([1.0, -1.0, 0.5, 2.0], tf.float64)

    def loss(b):
        return tf.reduce_sum(
            tf.autodiff.fixed_point(contraction, tf.zeros_like(b), b, linear_solver=linear_solver).x ** 3
        )

    with tf.autodiff.ForwardAccumulator(b, t) as outer:
        with tf.GradientTape() as tape:
            tape.watch(b)
            y = loss(b)
        g = tape.gradient(y, b)
    np.testing.assert_allclose(outer.jvp(y), np.sum(g * t), rtol=1e-8)
    numeric = (gradient_of(loss, b + 1e-5 * t) - gradient_of(loss, b - 1e-5 * t)) / 2e-5
    np.testing.assert_allclose(outer.jvp(g), numeric, rtol=1e-5)
    with tf.GradientTape() as tape:
        tape.watch(b)
        y = loss(b)
    hessian = tape.hessian(y, b).numpy()
    np.testing.assert_allclose(hessian @ t.numpy(), numeric, rtol=1e-5)
    np.testing.assert_allclose(hessian, hessian.T, atol=1e-8)


def gradient_of(f, x):
    x = tf.convert_to_tensor(x)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape.gradient(y, x)


@pytest.mark.parametrize("method", ["lbfgs", "newton"])
@pytest.mark.parametrize("linear_solver", ["dense", "cg"])
def test_minimum_of_a_quartic(method, linear_solver):
    a = tf.constant([1.0, -2.0, 0.5], tf.float64)

    def solution(a):
        def energy(x, a):
            return tf.reduce_sum((x - a) ** 4 + (x + 1.0) ** 2 + 0.3 * x * tf.roll(x, 1, 0))

        return tf.autodiff.minimize(energy, tf.zeros(3, tf.float64), a, method=method, linear_solver=linear_solver).x

    with tf.GradientTape() as tape:
        tape.watch(a)
        x = solution(a)
    j = tape.jacobian(x, a).numpy()
    numeric = np.stack([(solution(a + 1e-4 * e) - solution(a - 1e-4 * e)) / 2e-4 for e in np.eye(3)], 1)
    np.testing.assert_allclose(j, numeric, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("linear_solver", ["dense", "gmres"])
def test_in_functions_as_in_eager_code(jit, linear_solver):
    b = tf.constant(POINT)

    def loss(b):
        return tf.reduce_sum(
            tf.autodiff.fixed_point(contraction, tf.zeros_like(b), b, linear_solver=linear_solver).x ** 3
        )

    def both(b):
        with tf.GradientTape() as outer:
            outer.watch(b)
            g = gradient_of(loss, b)
        return g, outer.gradient(g, b)

    expected = both(b)
    inside = tf.function(both, jit_compile=jit)(b)
    compiled = tf.function(loss, jit_compile=jit)
    with tf.GradientTape() as outer:
        outer.watch(b)
        g = gradient_of(compiled, b)
    around = g, outer.gradient(g, b)
    for found in (inside, around):
        for got, want in zip(found, expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-7)


@pytest.mark.parametrize("method", ["newton", "krylov"])
def test_batches_are_solved_and_differentiated_row_by_row(method):
    a = tf.constant([[1.0, 4.0], [9.0, 16.0], [2.0, 0.5]], tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(a)
        found = tf.autodiff.root(lambda x, a: x * x - a, tf.ones_like(a), a, batch_dims=1, method=method)
    assert found.residual.shape == (3,)
    np.testing.assert_allclose(found.x, np.sqrt(a), rtol=1e-8)
    np.testing.assert_allclose(tape.gradient(found.x, a), 0.5 / np.sqrt(a), rtol=1e-8)


def test_minima_of_a_batch_with_two_axes():
    a = tf.constant(RNG.normal(size=(2, 3, 4)))
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = tf.autodiff.minimize(
            lambda x, a: tf.reduce_sum(tf.cosh(x - 2.0 * a), -1), tf.zeros_like(a), a, batch_dims=2
        ).x
    np.testing.assert_allclose(x, 2 * a, atol=1e-6)
    np.testing.assert_allclose(tape.gradient(x, a), np.full((2, 3, 4), 2.0), rtol=1e-8)


def test_structures_and_arguments_that_are_passed_twice():
    a = tf.Variable(3.0, dtype=tf.float64)

    def equations(x, parameters):
        return {"u": x["u"] ** 2 - parameters["a"], "v": x["v"] * x["u"] - parameters["b"]}

    with tf.GradientTape() as tape:
        start = {"u": tf.ones([], tf.float64), "v": tf.ones([], tf.float64)}
        x = tf.autodiff.root(equations, start, ({"a": a, "b": tf.convert_to_tensor(a)},)).x
    assert float(x["v"]) == pytest.approx(3**0.5)
    assert float(tape.gradient([x["u"], x["v"]], a)) == pytest.approx(2 * 0.5 / 3**0.5)


def test_variables_and_tensors_from_outside_have_gradients():
    w, c = tf.Variable(0.5, dtype=tf.float64), tf.constant(0.3, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(c)
        shift = c * c  # a result of the tape, not a source
        x = tf.autodiff.fixed_point(lambda x: tf.cos(w * x) + shift, tf.constant(1.0, tf.float64)).x
        before = len(tape.records)
    assert before == 3  # square, the read of the variable's op, one op for all iterations
    of_w, of_c = tape.gradient(x, [w, c])
    sine = np.sin(0.5 * float(x))
    assert float(of_w) == pytest.approx(-sine * float(x) / (1 + 0.5 * sine), rel=1e-8)
    assert float(of_c) == pytest.approx(0.6 / (1 + 0.5 * sine), rel=1e-8)


@pytest.mark.parametrize("traced", [False, True])
def test_a_compiled_function_inside_of_the_equation_uses_tensors_from_outside(traced):
    b, w = tf.constant([0.1, 0.2], tf.float64), tf.Variable(0.5, dtype=tf.float64)
    step = tf.function(lambda x, c: tf.cos(x) * w + c, jit_compile=False)

    def gradients(b, step):
        with tf.GradientTape() as tape:
            tape.watch(b)
            c = b * 2.0
            x = tf.autodiff.fixed_point(lambda x: step(x, c), tf.zeros_like(b)).x
        return tape.gradient(x, [b, w])

    found = (tf.function(gradients, jit_compile=False) if traced else gradients)(b, step)
    for got, want in zip(found, gradients(b, lambda x, c: tf.cos(x) * w + c), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10)


def test_views_of_the_tape_name_the_solver():
    a = tf.Variable([2.0, 3.0])
    with tf.GradientTape(persistent=True) as tape:
        x = tf.autodiff.root(lambda x: x**3 - a, tf.ones(2)).x
    assert "implicit" in str(tape.summary())
    assert tape.sparsity(x, a).dense_ops == ("implicit",)
    with tf.GradientTape(memory_limit=64) as limited:
        y = tf.autodiff.root(lambda x: x**3 - a, tf.ones(2)).x
    np.testing.assert_array_equal(limited.gradient(y, a), tape.gradient(x, a))


def test_a_keras_like_layer_that_is_an_equilibrium_trains():
    w = tf.Variable(RNG.normal(size=(4, 4)) / 8)
    data, goal = tf.constant(RNG.normal(size=(6, 4))), tf.constant(RNG.normal(size=(6, 4)) / 2)
    losses = []
    for _ in range(10):
        with tf.GradientTape() as tape:
            z = tf.autodiff.fixed_point(lambda z, x: tf.tanh(z @ w + x), tf.zeros_like(data), data, batch_dims=1).x
            loss = tf.reduce_mean((z - goal) ** 2)
        w.assign_sub(0.3 * tape.gradient(loss, w))
        losses.append(float(loss))
    assert losses[-1] < losses[0]


FAR = {
    "newton": lambda x0: tf.autodiff.root(lambda x: x**3 - 8.0, x0).x - 1.0,
    "krylov": lambda x0: tf.autodiff.root(lambda x: x**3 - 8.0, x0, method="krylov", batch_dims=0).x - 1.0,
    "anderson": lambda x0: tf.autodiff.fixed_point(lambda x: tf.sqrt(x + 2.0), x0).x - 1.0,
    "iteration": lambda x0: tf.autodiff.fixed_point(lambda x: 0.5 * x + 0.5, x0, method="iteration").x,
    "lbfgs": lambda x0: tf.autodiff.minimize(lambda x: tf.reduce_sum((x - 1.0) ** 2 + (x - 1.0) ** 4), x0).x,
    "newton_minimum": lambda x0: (
        tf.autodiff.minimize(lambda x: tf.reduce_sum((x - 1.0) ** 2 + (x - 1.0) ** 4), x0, method="newton").x
    ),
}


@pytest.mark.parametrize(("dtype", "start", "tol"), [("float32", 300.0, 1e-4), ("float64", 1e5, 1e-9)])
@pytest.mark.parametrize("jit", [None, *JITS])
@pytest.mark.parametrize("name", FAR)
def test_solutions_from_far_away(name, jit, dtype, start, tol):
    """A residual that is small relative to that at the start may be large relative to the solution."""
    solve = FAR[name] if jit is None else tf.function(FAR[name], jit_compile=jit)
    np.testing.assert_allclose(solve(tf.constant([start, 1.5], dtype)), [1.0, 1.0], atol=tol)


TURN = np.array([[np.cos(1.0), -np.sin(1.0)], [np.sin(1.0), np.cos(1.0)]])

NOT_CONTRACTIONS = {
    "a reflection": (lambda x, a: a - x, 0.5),
    "a growing line": (lambda x, a: a - 3.0 * x, 0.25),
    "a growing spiral": (lambda x, a: a + tf.linalg.matvec(1.1 * TURN, x), np.linalg.inv(np.eye(2) - 1.1 * TURN)),
}


@pytest.mark.parametrize("name", NOT_CONTRACTIONS)
@pytest.mark.parametrize("jit", [None, *JITS])
def test_fixed_points_of_functions_that_are_not_contractions(name, jit):
    """The plain iteration circles or diverges there; combinations of its points meet in the fixed point."""
    function, factor = NOT_CONTRACTIONS[name]
    a = tf.constant([1.0, -2.0], tf.float64)
    factor = factor * np.eye(2) if np.ndim(factor) == 0 else factor

    def solution(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            found = tf.autodiff.fixed_point(function, tf.zeros_like(a) + 0.3, a, maxiter=10)
        return found.x, tape.jacobian(found.x, a)

    x, jacobian = (solution if jit is None else tf.function(solution, jit_compile=jit))(a)
    np.testing.assert_allclose(x, factor @ a.numpy(), rtol=1e-9)
    np.testing.assert_allclose(jacobian, factor, rtol=1e-9)


@pytest.mark.parametrize(("dtype", "tol"), [("float32", 5e-3), ("float64", 6e-6)])
def test_the_default_tolerance(dtype, tol):
    """As documented: a residual of half of it passes, and changes the derivative of a root by less; twice does not."""

    def solver(factor):
        @tf.autodiff.implicit(lambda x, a: x * x - a)
        def inexact(x, a):
            return tf.sqrt(a + factor * tol * 2.0)

        return inexact

    a = tf.constant(2.0, dtype)
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = solver(0.5)(tf.constant(1.0, dtype), a)
    np.testing.assert_allclose(tape.gradient(x, a), 0.5 / np.sqrt(2.0), rtol=0.5 * tol)
    with pytest.raises(tf.errors.ConvergenceError):
        solver(2.0)(tf.constant(1.0, dtype), a)


def test_a_solver_in_numpy():
    @tf.autodiff.implicit(lambda x, a: tf.linalg.matvec(a, x) - 1.0)
    def solve(x, a):
        return tf.constant(np.linalg.solve(a.numpy(), np.ones(3)))

    a = tf.constant(np.eye(3) + RNG.normal(size=(3, 3)) / 5)
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = solve(tf.zeros(3, tf.float64), a)
    with tf.GradientTape() as reference:
        reference.watch(a)
        y = tf.linalg.solve(a, tf.ones([3, 1], tf.float64))
    np.testing.assert_allclose(tape.gradient(x, a), reference.gradient(y, a), rtol=1e-10)


@pytest.mark.parametrize(
    "solve",
    [
        lambda x: tf.autodiff.root(lambda x: 2.0 * x, x),
        lambda x: tf.autodiff.fixed_point(lambda x: 0.5 * x, x),
        lambda x: tf.autodiff.fixed_point(lambda x: 0.5 * x, x, method="iteration"),
        lambda x: tf.autodiff.minimize(lambda x: tf.reduce_sum(x**2), x),
        lambda x: tf.autodiff.minimize(lambda x: tf.reduce_sum(x**2), x, method="newton"),
    ],
)
def test_no_unknowns(solve):
    found = solve(tf.zeros([0]))
    assert found.x.shape == (0,)
    assert float(found.residual) == 0.0


def test_float32():
    a = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(a)
        x = tf.autodiff.root(lambda x: x**3 - a, tf.constant(1.0)).x
    assert x.dtype == tf.float32
    assert float(tape.gradient(x, a)) == pytest.approx(2 ** (1 / 3) / 6, rel=1e-5)


@pytest.mark.parametrize("jit", [None, *JITS])
def test_an_iteration_without_an_end_is_an_error_that_says_what_to_do(jit):
    def solve():
        return tf.autodiff.root(tf.exp, tf.constant(1.0), maxiter=5).x

    with pytest.raises(tf.errors.ConvergenceError, match=r"residual is 0.0183 after 5 iterations.*maxiter") as caught:
        (solve if jit is None else tf.function(solve, jit_compile=jit))()
    assert caught.value.iterations == 5
    assert caught.value.residual == pytest.approx(np.exp(-4), rel=1e-3)


def test_a_solver_of_the_user_that_stops_early_is_an_error():
    @tf.autodiff.implicit(lambda x, a: x * x - a)
    def lazy(x, a):
        return 0.5 * (x + a / x)

    with pytest.raises(tf.errors.ConvergenceError, match=r"lazy .* did not converge"):
        lazy(tf.constant(1.0), tf.constant(30.0))


def test_one_problem_of_a_batch_that_does_not_converge_is_counted():
    with pytest.raises(tf.errors.ConvergenceError, match="in 1 of 3 problems"):
        tf.autodiff.root(lambda x, a: x * x - a, tf.ones(3), tf.constant([1.0, 4.0, -1.0]), batch_dims=1, maxiter=30)


OF_ARGUMENTS = {
    "newton": lambda x, a: tf.autodiff.root(lambda x, a: x**3 + x - a, x, a).x,
    "krylov": lambda x, a: tf.autodiff.root(lambda x, a: x**3 + x - a, x, a, method="krylov").x,
    "anderson": lambda x, a: tf.autodiff.fixed_point(lambda x, a: tf.cos(x) ** 2 * a / 3.0, x, a).x,
    "iteration": lambda x, a: (
        tf.autodiff.fixed_point(lambda x, a: tf.cos(x) ** 2 * a / 9.0, x, a, method="iteration").x
    ),
    "lbfgs": lambda x, a: tf.autodiff.minimize(lambda x, a: tf.reduce_sum((x - a) ** 4 + x**2), x, a).x,
    "newton's minimum": lambda x, a: (
        tf.autodiff.minimize(lambda x, a: tf.reduce_sum((x - a) ** 4 + x**2), x, a, method="newton").x
    ),
    "a solver of the user": tf.autodiff.implicit(lambda x, a: tf.reduce_sum((x - a**2) ** 2), "minimum")(
        lambda x, a: a**2
    ),
    "products": tf.autodiff.implicit(lambda x, a: x**2 - a**2, linear_solver="gmres")(lambda x, a: a),
}


@pytest.mark.parametrize("jit", JITS)
@pytest.mark.parametrize("name", OF_ARGUMENTS)
def test_initial_guesses_that_are_arguments_of_a_function(name, jit):
    """Their values are unknown while solvers evaluate the equation there, without a recorder."""

    def both(x, a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            found = OF_ARGUMENTS[name](x, a)
            y = tf.reduce_sum(found**3)
        return found, tape.gradient(y, a)

    x, a = tf.constant([1.0, 0.5], tf.float64), tf.constant([2.0, 1.5], tf.float64)
    for found, expected in zip(tf.function(both, jit_compile=jit)(x, a), both(x, a), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-7)


@pytest.mark.parametrize("jit", [None, *JITS])
def test_tolerances_can_be_tensors_of_any_dtype(jit):
    def solve(tol):
        return tf.autodiff.root(lambda x: x**3 - 2.0, tf.constant(1.0, tf.float64), tol=tol).residual

    run = solve if jit is None else tf.function(solve, jit_compile=jit)
    assert 1e-12 < abs(float(run(tf.constant(1e-1, tf.float32)))) <= 0.1
    assert abs(float(run(tf.constant(1e-12, tf.float64)))) <= 1e-12


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tf.autodiff.root(lambda x: x, 1), TypeError, "real floating-point tensors; received int32"),
        (lambda: tf.autodiff.root(lambda x: x, tf.constant(1j)), TypeError, "received complex128"),
        (lambda: tf.autodiff.root(lambda x: x[:1], tf.ones(2)), ValueError, r"shape and dtype of x0, \(2,\)"),
        (lambda: tf.autodiff.root(3, tf.ones(2)), TypeError, "should be callable"),
        (
            lambda: tf.autodiff.root(lambda x: x, tf.ones(2), method="hybr"),
            ValueError,
            "method must be one of 'newton'",
        ),
        (
            lambda: tf.autodiff.root(lambda x: x, tf.ones(2), linear_solver="lu"),
            ValueError,
            "linear_solver must be one of 'auto'",
        ),
        (lambda: tf.autodiff.root(lambda x: x, tf.ones(2), batch_dims=2), ValueError, "batch_dims=2"),
        (lambda: tf.autodiff.root(lambda x: x, []), ValueError, "x0 contains no tensors"),
        (lambda: tf.autodiff.minimize(lambda x: x, tf.ones(2)), ValueError, "must return a scalar"),
        (lambda: tf.autodiff.implicit(lambda x: x, "maximum"), ValueError, "kind must be one of 'root'"),
        (lambda: tf.autodiff.implicit(None), TypeError, "should be callable"),
        (lambda: tf.autodiff.implicit(tf.sin)(3), TypeError, r"decorates a solver.*received 3"),
        (lambda: tf.autodiff.implicit(tf.sin, tol="a"), TypeError, "tol must be a number; received 'a'"),
        (lambda: tf.autodiff.implicit(tf.sin, linear_tol=-1.0), ValueError, "linear_tol must not be negative"),
        (lambda: tf.autodiff.implicit(tf.sin, linear_maxiter=0), ValueError, "linear_maxiter must be at least 1"),
        (lambda: tf.autodiff.implicit(tf.sin, batch_dims=-1), ValueError, "batch_dims must be at least 0"),
        (lambda: tf.autodiff.root(tf.sin, tf.ones(2), tol="a"), TypeError, "tol must be a number; received 'a'"),
        (lambda: tf.autodiff.root(tf.sin, tf.ones(2), tol=-1), ValueError, "tol must not be negative; received -1"),
        (
            lambda: tf.autodiff.root(tf.sin, tf.ones(2), tol=np.nan),
            ValueError,
            "must not be negative; received nan",
        ),
        (lambda: tf.autodiff.root(tf.sin, tf.ones(2), tol=1j), TypeError, "tol must be a number"),
        (lambda: tf.autodiff.root(tf.sin, tf.ones(2), tol=tf.constant("a")), TypeError, "tol must be a number"),
        (lambda: tf.autodiff.root(tf.sin, tf.ones(2), batch_dims="a"), TypeError, "batch_dims must be an integer"),
        (lambda: tf.autodiff.root(tf.sin, tf.ones(2), batch_dims=-1), ValueError, "batch_dims must be at least 0"),
        (
            lambda: tf.autodiff.minimize(lambda x: tf.cast(tf.reduce_sum(x), tf.int32), tf.ones(2)),
            TypeError,
            "must return real floating-point numbers; received int32",
        ),
        (lambda: tf.autodiff.minimize(lambda x: "a", tf.ones(2)), TypeError, "received string"),
        (lambda: tf.autodiff.minimize(lambda x: x.numpy().sum(), tf.ones(2)), ValueError, "does not depend on x0"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()
