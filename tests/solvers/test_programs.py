"""Linear and quadratic programs, eigenvectors of equal eigenvalues, and relaxations of sorting."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf
from gradtape._src.devices import get_graph_mode

RNG = np.random.default_rng(3)
N, P, M = 5, 2, 6


def program(seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(N, N))
    x = rng.normal(size=N)
    a, g = rng.normal(size=(P, N)), rng.normal(size=(M, N))
    return [root @ root.T + np.eye(N), rng.normal(size=N) * 3, a, a @ x, g, g @ x + rng.uniform(0.05, 0.5, M)]


def test_a_quadratic_program_fulfils_its_optimality_conditions():
    q, c, a, b, g, h = program()
    x, z, y = (np.asarray(t) for t in tf.autodiff.solve_qp(q, c, a, b, g, h))
    np.testing.assert_allclose(q @ x + c + g.T @ z + a.T @ y, 0, atol=1e-7)
    np.testing.assert_allclose(a @ x, b, atol=1e-8)
    assert (g @ x <= h + 1e-8).all()
    assert (z >= 0).all()
    assert (z > 1e-3).sum() > 0  # some inequality is active, or the test shows nothing
    np.testing.assert_allclose(z * (g @ x - h), 0, atol=1e-7)


def test_gradients_by_all_parts_equal_finite_differences():
    parts = [tf.constant(p) for p in program()]
    weights = RNG.normal(size=N)

    def loss(*parts):
        q, *rest = parts
        return tf.reduce_sum(tf.autodiff.solve_qp(0.5 * (q + tf.transpose(q)), *rest, tol=1e-12).x * weights)

    with tf.GradientTape() as tape:
        tape.watch(parts)
        y = loss(*parts)
    for i, gradient in enumerate(tape.gradient(y, parts)):
        direction = RNG.normal(size=parts[i].shape)
        ends = [loss(*parts[:i], parts[i] + s * 1e-5 * direction, *parts[i + 1 :]) for s in (1, -1)]
        assert np.sum(gradient * direction) == pytest.approx(float(ends[0] - ends[1]) / 2e-5, rel=1e-4, abs=1e-6)


def test_second_order_and_forward_mode_of_a_program():
    q, c, a, b, g, h = program()
    c, t = tf.constant(c), tf.constant(RNG.normal(size=N))

    def gradient(c):
        with tf.GradientTape() as tape:
            tape.watch(c)
            y = tf.reduce_sum(
                tf.autodiff.solve_qp(q * (1 + 0.1 * tf.reduce_sum(c**2)), c, a, b, g, h, tol=1e-12).x ** 3
            )
        return y, tape.gradient(y, c)

    with tf.autodiff.ForwardAccumulator(c, t) as acc:
        y, first = gradient(c)
    assert float(acc.jvp(y)) == pytest.approx(np.sum(first * t), rel=1e-8)
    numeric = (gradient(c + 1e-5 * t)[1] - gradient(c - 1e-5 * t)[1]) / 2e-5
    np.testing.assert_allclose(acc.jvp(first), numeric, rtol=1e-4, atol=1e-6)


def test_batches_and_functions():
    several = [np.stack(parts) for parts in zip(*[program(seed) for seed in range(3)], strict=True)]
    together = tf.autodiff.solve_qp(*several).x
    alone = [tf.autodiff.solve_qp(*program(seed)).x for seed in range(3)]
    np.testing.assert_allclose(together, alone, atol=1e-6)

    def gradient(c):
        with tf.GradientTape() as tape:
            tape.watch(c)
            y = tf.reduce_sum(tf.autodiff.solve_qp(several[0], c, *several[2:]).x ** 2)
        return tape.gradient(y, c)

    c = tf.constant(several[1])
    np.testing.assert_allclose(tf.function(gradient, jit_compile=False)(c), gradient(c), rtol=1e-6)


@pytest.mark.slow
def test_a_program_of_xla():
    q, c, a, b, g, h = program()
    compiled = tf.function(lambda c: tf.autodiff.solve_qp(q, c, a, b, g, h).x, jit_compile=True)
    np.testing.assert_allclose(compiled(tf.constant(c)), tf.autodiff.solve_qp(q, c, a, b, g, h).x, atol=1e-6)


def test_linear_programs_equal_scipys():
    scipy = pytest.importorskip("scipy.optimize")
    _, c, a, b, g, h = program(1)
    box, ones = np.concatenate([g, np.eye(N), -np.eye(N)]), np.concatenate([h, np.full(2 * N, 3.0)])
    found = tf.autodiff.solve_lp(c, a, b, box, ones).x
    expected = scipy.linprog(c, box, ones, a, b, bounds=(None, None)).x
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_equations_only_and_float32():
    q, c, a, b, _, _ = (np.asarray(p, np.float32) for p in program())
    x = tf.autodiff.solve_qp(q, c, a, b).x
    assert x.dtype == tf.float32
    np.testing.assert_allclose(a @ x.numpy(), b, atol=1e-4)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: tf.autodiff.solve_lp([1.0], G=[[1.0], [-1.0]], h=[-1.0, -1.0]),
            tf.errors.ConvergenceError,
            "solve_lp did not converge.*satisfies all constraints",
        ),
        (
            lambda: tf.autodiff.solve_qp(np.eye(2), [1.0, 1.0], A=[[1.0, 0.0], [1.0, 0.0]], b=[1.0, 2.0]),
            tf.errors.ConvergenceError,
            "solve_qp did not converge.*satisfies all constraints",
        ),
        (lambda: tf.autodiff.solve_lp([-1.0, -1.0]), tf.errors.ConvergenceError, "solve_lp.*bounded below"),
        (lambda: tf.autodiff.solve_qp(np.eye(1), [np.nan]), tf.errors.ConvergenceError, "the residual is nan"),
        (lambda: tf.autodiff.solve_lp([1.0], maxiter=1.5), TypeError, "maxiter must be an integer; received 1.5"),
        (lambda: tf.autodiff.solve_lp([-1.0], G=[[-1.0]], h=[0.0]), tf.errors.ConvergenceError, "bounded below"),
        (lambda: tf.autodiff.solve_qp([[1.0]], [1.0], A=[[1.0]]), ValueError, "Pass both A and b"),
        (lambda: tf.autodiff.solve_qp(tf.eye(2), [1.0]), ValueError, "Q must have a column for each of the 1 unknowns"),
        (
            lambda: tf.autodiff.solve_qp([[1.0, 0.0], [0.0, -2.0]], [1.0, 1.0]),
            tf.errors.InvalidArgumentError,
            "positive semidefinite Q; an eigenvalue is -2",
        ),
        (lambda: tf.autodiff.solve_qp(np.eye(1) * 1j, [1.0]), TypeError, "The arguments must be real"),
        (lambda: tf.autodiff.solve_qp(np.eye(1), [1.0], tol="a"), TypeError, "tol must be a number"),
        (lambda: tf.autodiff.solve_lp([1.0], tol=-1.0), ValueError, "tol must not be negative"),
        (
            lambda: tf.autodiff.solve_qp(
                np.eye(2), [1.0, 1.0], A=[[1.0, 0.0], [1.0, 0.0]], b=[1.0, 2.0], G=np.eye(2), h=[9.0, 9.0]
            ),
            tf.errors.ConvergenceError,
            "solve_qp did not converge.*satisfies all constraints",
        ),
        (lambda: tf.autodiff.solve_qp([[1]], [1]), TypeError, "must be float32 or float64; received c of dtype int32"),
        (
            lambda: tf.autodiff.solve_qp([[1.0]], tf.constant([1.0], tf.float64)[None, None]),
            ValueError,
            "c must be a vector or a batch of vectors",
        ),
    ],
)
def test_mistakes_in_programs(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_solution_without_a_derivative_says_so():
    """Three constraints meet at a vertex of a plane."""
    h = tf.Variable([1.0, 1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.autodiff.solve_lp([-1.0, -1.0], G=[[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], h=h).x)
    np.testing.assert_allclose(y, 2.0, atol=1e-6)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"has no derivative here: the Jacobian .* is singular"):
        tape.gradient(y, h)


def test_programs_without_a_unique_solution():
    """Equations that repeat each other, and an objective that is constant along an edge."""
    equations, right = [[1.0, 0.0], [1.0, 0.0]], [1.0, 1.0]
    found = tf.autodiff.solve_qp(np.eye(2), [-1.0, -3.0], A=equations, b=right, G=np.eye(2), h=[2.0, 2.0])
    np.testing.assert_allclose(found.x, [1.0, 2.0], atol=1e-6)
    sides = np.concatenate([-np.eye(2), -np.ones((1, 2))])
    x = tf.autodiff.solve_lp(np.ones(2), G=sides, h=[0.0, 0.0, -1.0]).x.numpy()
    np.testing.assert_allclose(x.sum(), 1.0)
    assert (x >= 0.0).all()


@pytest.mark.parametrize("jit", [False, True])
def test_a_program_that_is_not_convex_in_a_function(jit):
    solve = tf.function(lambda q: tf.autodiff.solve_qp(q, [1.0, 1.0], G=np.eye(2), h=[1.0, 1.0]).x, jit_compile=jit)
    factor = tf.constant([[1.0, 2.0], [3.0, 6.0]])
    solve(factor @ tf.transpose(factor) + tf.eye(2))
    with pytest.raises(tf.errors.InvalidArgumentError, match="positive semidefinite"):
        solve(-tf.eye(2))


def test_random_linear_programs_equal_scipys():
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(1)
    for _ in range(20):
        n, m = rng.integers(2, 12), rng.integers(3, 20)
        g, inside = rng.normal(size=(m, n)), rng.normal(size=n)
        h, c = g @ inside + rng.uniform(0, 1, m), -g.T @ rng.uniform(0, 1, m)
        best = optimize.linprog(c, g, h, bounds=(None, None)).fun
        x = tf.autodiff.solve_lp(c, G=g, h=h).x.numpy()
        np.testing.assert_allclose(x @ c, best, rtol=1e-6, atol=1e-6)
        assert (g @ x <= h + 1e-7).all()


@pytest.mark.parametrize("size", [1e-8, 1e-4, 1e6])
@pytest.mark.parametrize("of", ["objective", "unknowns", "inequalities", "equations"])
def test_units_do_not_matter(of, size):
    """The tolerance is relative to what is compared: small programs are solved as accurately as others."""
    q, c, a, b, g, h = program()
    x = tf.autodiff.solve_qp(q, c, a, b, g, h).x
    scaled = {
        "objective": (q * size, c * size, a, b, g, h),
        "unknowns": (q, c * size, a, b * size, g, h * size),
        "inequalities": (q, c, a, b, g * size, h * size),
        "equations": (q, c, a * size, b * size, g, h),
    }[of]
    with tf.GradientTape() as tape:
        watched = tf.constant(scaled[1])
        tape.watch(watched)
        found = tf.autodiff.solve_qp(scaled[0], watched, *scaled[2:])
        total = tf.reduce_sum(found.x)
    np.testing.assert_allclose(found.x * (1.0 / size if of == "unknowns" else 1.0), x, rtol=1e-6, atol=1e-7)
    x, z, y = (part.numpy() for part in found)
    residual = scaled[0] @ x + scaled[1] + scaled[4].T @ z + scaled[2].T @ y
    np.testing.assert_allclose(residual / np.abs(scaled[1]).max(), 0.0, atol=1e-7)
    assert np.isfinite(tape.gradient(total, watched)).all()


@pytest.mark.parametrize("size", [1e-9, 1e-3, 1e5])
def test_linear_programs_of_any_size(size):
    g, h, c = np.array([[1.0, 1.0], [-1.0, 0.0], [0.0, -1.0]]), np.array([3.0, 0.0, 0.0]), np.array([-1.0, -2.0])
    np.testing.assert_allclose(tf.autodiff.solve_lp(c * size, G=g, h=h).x, [0.0, 3.0], atol=1e-7)
    np.testing.assert_allclose(tf.autodiff.solve_lp(c, G=g, h=h * size).x / size, [0.0, 3.0], atol=1e-7)
    np.testing.assert_allclose(tf.autodiff.solve_lp(c * size, A=np.eye(2) / size, b=h[:2]).x, [3.0 * size, 0.0])


@pytest.mark.parametrize("far", [1e6, 1e12, np.inf])
def test_bounds_far_away(far):
    """They make the others no less accurate; an infinite one is none."""
    h = tf.constant([0.5, far])
    with tf.GradientTape() as tape:
        tape.watch(h)
        found = tf.autodiff.solve_qp(np.eye(2, dtype="f"), np.array([-1.0, -3.0], "f"), G=np.eye(2, dtype="f"), h=h)
        total = tf.reduce_sum(found.x)
    np.testing.assert_allclose(found.x, [0.5, 3.0], rtol=1e-6)
    np.testing.assert_allclose(found.inequality_multipliers, [0.5, 0.0], atol=1e-6)
    np.testing.assert_allclose(tape.gradient(total, h), [1.0, 0.0], atol=1e-6)


def test_only_the_symmetric_part_of_the_matrix_counts():
    q, c = np.array([[2.0, 1.0], [0.0, 1.0]]), [1.0, 0.5]
    found = tf.autodiff.solve_qp(q, c).x
    np.testing.assert_allclose(found, np.linalg.solve((q + q.T) / 2, [-1.0, -0.5]))
    np.testing.assert_allclose(tf.autodiff.solve_qp(q, c, G=np.eye(2), h=[9.0, 9.0]).x, found, atol=1e-7)


def test_a_batch_without_programs_and_a_program_without_unknowns():
    assert tf.autodiff.solve_qp(np.eye(2), np.zeros((0, 2)), G=np.eye(2), h=[1.0, 1.0]).x.shape == (0, 2)
    assert tf.autodiff.solve_qp(np.zeros((0, 0)), np.zeros(0)).x.shape == (0,)


@pytest.mark.parametrize("mode", ["off", "auto"])
def test_the_strength_of_relaxations_on_another_engine(mode):
    pytest.importorskip("jax")
    before = get_graph_mode()
    tf.config.set_engine("xla")
    tf.config.set_graph_mode(mode)
    try:
        found = tf.autodiff.soft_rank(tf.constant([3.0, 1.0, 2.0]), regularization_strength=tf.constant(2.0) * 0.05)
        np.testing.assert_allclose(found, [3.0, 1.0, 2.0], rtol=1e-5)
    finally:
        tf.config.set_engine("numpy")
        tf.config.set_graph_mode(before)


@pytest.mark.parametrize("jit", [False, True])
def test_the_strength_of_relaxations_can_be_traced(jit):
    x, s = tf.constant([3.0, 1.0, 2.0]), tf.constant(2.0)

    def both(x, s):
        with tf.GradientTape() as tape:
            tape.watch(s)
            y = tf.reduce_sum(tf.autodiff.soft_rank(x, regularization_strength=s) * [1.0, 2.0, 4.0])
            y += tf.reduce_sum(tf.autodiff.soft_top_k(x, np.int64(1), temperature=s) * [1.0, 2.0, 4.0])
        return y, tape.gradient(y, s)

    np.testing.assert_allclose(tf.function(both, jit_compile=jit)(x, s), both(x, s), rtol=1e-5)


# -- eigenvectors ------------------------------------------------------------------------------------------------------
def degenerate():
    basis = np.linalg.qr(RNG.normal(size=(4, 4)))[0]
    return basis @ np.diag([1.0, 2.0, 2.0, 5.0]) @ basis.T


def invariant(a):
    """A function of the space of the two equal eigenvalues, and of their sum."""
    values, vectors = tf.autodiff.eigh(a)
    space = vectors[:, 1:3]
    weights = np.arange(16.0).reshape(4, 4)
    return tf.reduce_sum(space @ tf.transpose(space) * weights) + tf.sin(values[1] + values[2]) + values[0] * values[3]


def test_equal_eigenvalues_have_the_right_gradient():
    a = tf.constant(degenerate())
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = invariant(a)
    gradient = tape.gradient(y, a).numpy()
    assert np.isfinite(gradient).all()
    for _ in range(5):
        e = RNG.normal(size=(4, 4))
        numeric = float(invariant(a + 1e-6 * e) - invariant(a - 1e-6 * e)) / 2e-6
        assert np.sum(gradient * e) == pytest.approx(numeric, rel=1e-5)


def test_forward_mode_where_eigenvalues_are_equal():
    a, t = tf.constant(degenerate()), tf.constant(RNG.normal(size=(4, 4)))
    with tf.autodiff.ForwardAccumulator(a, t) as acc:
        z = invariant(a)
    with tf.GradientTape() as tape:
        tape.watch(a)
        y = invariant(a)
    assert float(acc.jvp(z)) == pytest.approx(np.sum(tape.gradient(y, a) * t), rel=1e-10)


def test_different_eigenvalues_have_the_derivatives_of_linalg():
    a = tf.constant(RNG.normal(size=(2, 3, 3)))
    a = a + tf.linalg.matrix_transpose(a)
    weights = RNG.normal(size=(2, 3, 3))

    def loss(decompose, a):
        values, vectors = decompose(a)
        return tf.reduce_sum(vectors**2 * weights) + tf.reduce_sum(values**3)

    found = []
    for decompose in (tf.autodiff.eigh, tf.linalg.eigh):
        with tf.GradientTape() as outer:
            outer.watch(a)
            with tf.GradientTape() as tape:
                tape.watch(a)
                y = loss(decompose, a)
            g = tape.gradient(y, a)
            g = 0.5 * (g + tf.linalg.matrix_transpose(g))  # linalg's stands in the lower triangle
            total = tf.reduce_sum(g**2)
        second = outer.gradient(total, a)
        found.append((g, 0.5 * (second + tf.linalg.matrix_transpose(second))))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-8)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-7)


@pytest.mark.parametrize("jit", [None, False, True])
def test_one_of_several_equal_eigenvalues_has_no_derivative(jit):
    """Their sum has one. Which of them a change of the matrix increases depends on the basis."""

    def gradient(a, weights):
        with tf.GradientTape() as tape:
            tape.watch(a)
            y = tf.reduce_sum(tf.autodiff.eigh(a)[0] * weights)
        return tape.gradient(y, a)

    call = gradient if jit is None else tf.function(gradient, jit_compile=jit)
    a = tf.constant(degenerate())
    assert tf.reduce_all(tf.math.is_finite(call(a, tf.constant([1.0, 2.0, 2.0, 3.0], tf.float64))))
    with pytest.raises(tf.errors.InvalidArgumentError, match="it differs by 1 between equal eigenvalues"):
        call(a, tf.constant([0.0, 0.0, 1.0, 0.0], tf.float64))


@pytest.mark.parametrize("jit", [None, False, True])
def test_a_gradient_that_depends_on_the_basis_is_an_error(jit):
    def gradient(a):
        with tf.GradientTape() as tape:
            tape.watch(a)
            _, vectors = tf.autodiff.eigh(a)
            y = tf.reduce_sum(vectors[:, 1] * np.array([1.0, 2.0, 3.0, 4.0]))
        return tape.gradient(y, a)

    with pytest.raises(tf.errors.InvalidArgumentError, match="depends on the choice of eigenvectors"):
        (gradient if jit is None else tf.function(gradient, jit_compile=jit))(tf.constant(degenerate()))


def test_mistakes_of_eigh():
    with pytest.raises(ValueError, match="square matrices"):
        tf.autodiff.eigh(tf.zeros([2, 3]))
    with pytest.raises(TypeError, match="received complex64"):
        tf.autodiff.eigh(tf.eye(2, dtype=tf.complex64))
    with pytest.raises(ValueError, match="tol must not be negative; received nan"):
        tf.autodiff.eigh(tf.eye(2), tol=np.nan)
    with pytest.raises(TypeError, match="tol must be a number; received 'a'"):
        tf.autodiff.eigh(tf.eye(2), tol="a")


def test_eigh_of_matrices_without_elements():
    a = tf.Variable(tf.zeros([2, 0, 0]))
    with tf.GradientTape() as tape:
        values, vectors = tf.autodiff.eigh(a)
        y = tf.reduce_sum(values) + tf.reduce_sum(vectors)
    assert tape.gradient(y, a).shape == (2, 0, 0)


# -- sorting -----------------------------------------------------------------------------------------------------------
def numeric_jacobian(f, x):
    steps = 1e-6 * np.eye(len(x))
    return np.stack([(f(tf.constant(x + s)).numpy() - f(tf.constant(x - s)).numpy()) / 2e-6 for s in steps], -1)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: tf.autodiff.soft_sort(x, regularization_strength=1.5),
        lambda x: tf.autodiff.soft_sort(x, direction="DESCENDING", regularization_strength=0.7),
        lambda x: tf.autodiff.soft_rank(x, regularization_strength=1.5),
        lambda x: tf.autodiff.soft_rank(x, direction="DESCENDING", regularization_strength=0.7),
        lambda x: tf.autodiff.soft_top_k(x, 2, temperature=0.7),
    ],
)
def test_jacobians_of_relaxations(f):
    x = np.array([0.3, 2.0, 1.1, -0.4, 1.7])
    t = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(t)
        y = f(t)
    np.testing.assert_allclose(tape.jacobian(y, t), numeric_jacobian(f, x), atol=1e-7)
    np.testing.assert_allclose(tf.function(f, jit_compile=False)(t), y, rtol=1e-12)
    np.testing.assert_allclose(tf.function(f, jit_compile=True)(t), y, rtol=1e-9)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("strength", [1e-3, 1e-8, 1e-30])
def test_small_strengths_leave_all_digits(dtype, strength):
    values = tf.constant(RNG.normal(size=(2, 30)), dtype)
    found = tf.autodiff.soft_sort(values, regularization_strength=strength)
    np.testing.assert_array_equal(found, np.sort(values))
    if strength < 1e-3:
        ranks = tf.autodiff.soft_rank(values, regularization_strength=strength)
        np.testing.assert_array_equal(ranks, np.argsort(np.argsort(values)) + 1)


def test_limits_axes_and_sums():
    x = RNG.normal(size=(3, 6))
    np.testing.assert_allclose(tf.autodiff.soft_sort(x, axis=0, regularization_strength=1e-6), np.sort(x, 0), atol=1e-5)
    ranks = tf.autodiff.soft_rank(x, regularization_strength=1e-6)
    np.testing.assert_allclose(ranks, np.argsort(np.argsort(x)) + 1.0, atol=1e-5)
    falling = tf.autodiff.soft_rank(x, direction="DESCENDING", regularization_strength=1e-6)
    np.testing.assert_allclose(falling, 7.0 - ranks, atol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(tf.autodiff.soft_rank(x), -1), [21.0] * 3)
    weights = tf.autodiff.soft_top_k(x, 2, axis=0, temperature=1e-2).numpy()
    np.testing.assert_allclose(weights.sum(0), 2.0)
    np.testing.assert_allclose(weights.round(), np.argsort(np.argsort(-x, 0), 0) < 2)


def test_top_k_depends_on_differences_alone():
    x = np.array([0.0, 1.0, 2.0, 5.0], np.float32)
    near, far = (tf.autodiff.soft_top_k(x + shift, 2) for shift in (0.0, 2.0**20))
    np.testing.assert_allclose(far, near, rtol=1e-6)
    np.testing.assert_allclose(tf.autodiff.soft_top_k([0.0, 1.0, 1e6], 2)[:2], tf.sigmoid([-0.5, 0.5]), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_top_k_of_values_that_are_far_apart(dtype):
    """Weights of 0 and 1 have the derivative 0; it does not matter how far apart the values are."""
    large = 1e4 if dtype == "float16" else 1e30
    x = tf.Variable([large, -large, 0.0], dtype=dtype)
    with tf.GradientTape(persistent=True) as tape:
        y = tf.autodiff.soft_top_k(x, 1)
        z = tf.autodiff.soft_top_k(tf.gather(x, [2, 2, 1]), 1)
    assert y.numpy().tolist() == [1.0, 0.0, 0.0]
    assert not np.any(tape.jacobian(y, x))
    np.testing.assert_allclose(tf.cast(z, tf.float64), [0.5, 0.5, 0.0], atol=2e-2)
    np.testing.assert_allclose(tf.cast(tape.jacobian(z, x), tf.float64), np.zeros((3, 3)), atol=2e-2)


@pytest.mark.parametrize("temperature", [1e-4, 1e-2, 1.0, 1e3])
def test_weights_of_top_k_add_up(temperature):
    values = np.random.default_rng(0).normal(size=(3, 1000))
    weights = tf.autodiff.soft_top_k(values, 30, temperature=temperature).numpy()
    np.testing.assert_allclose(weights.sum(-1), 30.0)
    if temperature < 1e-3:
        np.testing.assert_allclose(np.sort(weights, -1)[:, -30:], 1.0, atol=0.5)


def test_second_order_of_top_k():
    x = tf.constant([0.3, 2.0, 1.1, -0.4])
    x = tf.cast(x, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.autodiff.soft_top_k(x, 2) ** 3)
    hessian = tape.hessian(y, x).numpy()

    def gradient(x):
        x = tf.constant(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.autodiff.soft_top_k(x, 2) ** 3)
        return tape.gradient(y, x)

    np.testing.assert_allclose(hessian, numeric_jacobian(gradient, x.numpy()), atol=1e-6)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tf.autodiff.soft_sort([1, 2]), TypeError, "must be floating-point; received int32"),
        (lambda: tf.autodiff.soft_sort(1.0), ValueError, "at least one axis"),
        (lambda: tf.autodiff.soft_sort([1.0], regularization_strength=0.0), ValueError, "must be positive"),
        (
            lambda: tf.autodiff.soft_rank([1.0], regularization_strength="1"),
            TypeError,
            "regularization_strength must be a number; received '1'",
        ),
        (lambda: tf.autodiff.soft_top_k([1.0, 2.0], 1, temperature=tf.constant(-1.0)), ValueError, "must be positive"),
        (lambda: tf.autodiff.soft_rank([1.0], direction="up"), ValueError, "direction must be one of 'ASCENDING'"),
        (lambda: tf.autodiff.soft_top_k([1.0, 2.0], 2), ValueError, "k must be an integer between 1 and 1"),
        (
            lambda: tf.autodiff.soft_top_k([1.0, 2.0, np.nan], 1),
            tf.errors.ConvergenceError,
            "Check that all values are finite",
        ),
    ],
)
def test_mistakes_in_sorting(call, error, message):
    with pytest.raises(error, match=message):
        call()
