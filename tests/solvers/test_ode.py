"""Initial value problems: values, and derivatives by the discrete and the continuous adjoint."""

from __future__ import annotations

import numpy as np
import pytest

import gradtape as tf

WAYS = [(adjoint, method) for adjoint in ("discrete", "continuous") for method in ("dopri5", "rk4")]
RATE, START, TIMES = 0.5, 2.0, np.linspace(0.2, 2.0, 5)


def exact(rate, y0, t):
    return y0 * tf.exp(-rate * (tf.sin(t) - tf.sin(t[0])))


def integrated(rate, y0, t, **options):
    return tf.autodiff.odeint(
        lambda t, y, rate: -rate * y * tf.cos(t), y0, t, rate, substeps=20, rtol=1e-10, atol=1e-12, **options
    )


def derivatives(function, **options):
    """A loss, its gradients, and the gradients of their sum of squares."""
    sources = [tf.constant(RATE, tf.float64), tf.constant(START, tf.float64), tf.constant(TIMES)]
    with tf.GradientTape() as outer:
        outer.watch(sources)
        with tf.GradientTape() as inner:
            inner.watch(sources)
            loss = tf.reduce_sum(function(*sources, **options) ** 2)
        first = inner.gradient(loss, sources)
        total = sum(tf.reduce_sum(g * g) for g in first)
    return [loss, *first, *outer.gradient(total, sources)]


@pytest.mark.parametrize(("adjoint", "method"), WAYS)
def test_two_orders_of_derivatives_by_parameters_the_start_and_times(adjoint, method):
    for got, want in zip(derivatives(integrated, adjoint=adjoint, method=method), derivatives(exact), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("adjoint", ["discrete", "continuous"])
@pytest.mark.parametrize("jit", [None, False, True])
def test_equal_steps_to_infinity_are_an_error(adjoint, jit):
    def end(y0):
        return tf.autodiff.odeint(lambda t, y: y * y, y0, [0.0, 2.0], method="rk4", substeps=50, adjoint=adjoint)

    call = end if jit is None else tf.function(end, jit_compile=jit)
    np.testing.assert_allclose(call(tf.constant(0.25, tf.float64)), [0.25, 0.5], rtol=1e-6)
    with pytest.raises(tf.errors.ConvergenceError, match=r"is left is 0\.46 after 27 .* Take shorter steps") as caught:
        call(tf.constant(1.0, tf.float64))
    assert caught.value.iterations == 27


@pytest.mark.parametrize("adjoint", ["discrete", "continuous"])
def test_forward_mode(adjoint):
    rate = tf.constant(RATE, tf.float64)
    with tf.autodiff.ForwardAccumulator(rate, tf.ones([], tf.float64)) as acc:
        y = integrated(rate, tf.constant(START, tf.float64), tf.constant(TIMES), adjoint=adjoint)
    np.testing.assert_allclose(acc.jvp(y), -(np.sin(TIMES) - np.sin(TIMES[0])) * y, rtol=1e-5, atol=1e-7)


def test_the_discrete_adjoint_is_the_gradient_of_the_steps_taken():
    """Of few and inexact steps, too: to the precision of the dtype."""

    def loss(rate):
        y0 = tf.constant([1.0, 0.5], tf.float64)
        return tf.reduce_sum(tf.autodiff.odeint(pendulum, y0, [0.0, 1.0, 3.0], rate, method="rk4", substeps=3) ** 2)

    def by_hand(rate):
        y, total = tf.constant([1.0, 0.5], tf.float64), tf.constant(1.25, tf.float64)
        for start, end in ((0.0, 1.0), (1.0, 3.0)):
            h = (end - start) / 3
            for i in range(3):
                t = start + i * h
                k1 = pendulum(t, y, rate)
                k2 = pendulum(t + h / 2, y + h / 2 * k1, rate)
                k3 = pendulum(t + h / 2, y + h / 2 * k2, rate)
                y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + pendulum(t + h, y + h * k3, rate))
            total += tf.reduce_sum(y**2)
        return total

    results = []
    for f in (loss, by_hand):
        rate = tf.Variable(2.0, dtype=tf.float64)
        with tf.GradientTape() as tape:
            y = f(rate)
        results.append((float(y), float(tape.gradient(y, rate))))
    np.testing.assert_allclose(*results, rtol=1e-12)


def pendulum(t, y, rate):
    return tf.stack([y[1], -rate * tf.sin(y[0])])


@pytest.mark.parametrize("adjoint", ["discrete", "continuous"])
def test_variables_structures_and_backwards_in_time(adjoint):
    w = tf.Variable(np.array([[0.1, -1.0], [1.0, 0.1]]))

    def rotate(t, y):
        z = tf.linalg.matvec(w, tf.stack([y["a"], y["b"]]))
        return {"a": z[0], "b": z[1]}

    with tf.GradientTape() as tape:
        y0 = {"a": tf.constant(1.0, tf.float64), "b": tf.constant(0.0, tf.float64)}
        y = tf.autodiff.odeint(rotate, y0, [1.0, 0.5, 0.0], adjoint=adjoint)
        loss = y["a"][-1] + 2.0 * y["b"][-1]
    with tf.GradientTape() as reference:
        z = tf.linalg.matvec(tf.linalg.expm(-w), tf.constant([1.0, 0.0], tf.float64))
        expected = z[0] + 2.0 * z[1]
    np.testing.assert_allclose(loss, expected, rtol=1e-6)
    np.testing.assert_allclose(tape.gradient(loss, w), reference.gradient(expected, w), rtol=1e-5, atol=1e-6)


def gradients(y0, w, adjoint, method):
    with tf.GradientTape() as tape:
        tape.watch(y0)
        y = tf.autodiff.odeint(
            lambda t, y: tf.tanh(tf.linalg.matvec(w, y)) - 0.1 * t * y,
            y0, [0.0, 0.7, 1.5], adjoint=adjoint, method=method, substeps=3, max_steps=40,
        )  # fmt: skip
        loss = tf.reduce_sum(y**2)
    return [loss, *tape.gradient(loss, [y0, w])]


@pytest.mark.parametrize(("adjoint", "method"), WAYS)
@pytest.mark.parametrize("jit", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_in_functions_as_in_eager_code(adjoint, method, jit):
    w, y0 = tf.Variable(np.array([[0.3, -1.0], [0.8, 0.2]])), tf.constant([1.0, -0.5], tf.float64)
    compiled = tf.function(lambda y0: gradients(y0, w, adjoint, method), jit_compile=jit)
    for got, want in zip(compiled(y0), gradients(y0, w, adjoint, method), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_one_program_of_xla():
    w, y0 = tf.Variable(np.array([[0.3, -1.0], [0.8, 0.2]])), tf.constant([1.0, -0.5], tf.float64)
    compiled = tf.function(lambda y0: gradients(y0, w, "discrete", "rk4"), jit_compile=True)
    for got, want in zip(compiled(y0), gradients(y0, w, "discrete", "rk4"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_derivatives_outside_of_a_function_to_second_order():
    w, y0 = tf.Variable(np.array([[0.3, -1.0], [0.8, 0.2]])), tf.constant([1.0, -0.5], tf.float64)

    def loss(y0):
        field = lambda t, y: tf.tanh(tf.linalg.matvec(w, y))  # noqa: E731
        return tf.reduce_sum(tf.autodiff.odeint(field, y0, [0.0, 1.0], method="rk4", substeps=3) ** 3)

    found = []
    for f in (loss, tf.function(loss, jit_compile=False)):
        with tf.GradientTape() as tape:
            tape.watch(y0)
            y = f(y0)
        found.append(tape.hessian(y, y0).numpy())
    np.testing.assert_allclose(*found, rtol=1e-9)


def test_many_times_cost_no_more_steps():
    calls = []

    def field(t, y):
        calls.append(1)
        return tf.cos(t) * tf.ones_like(y)

    counts = []
    for t in ([0.0, 6.0], np.linspace(0.0, 6.0, 200)):
        calls.clear()
        y = tf.autodiff.odeint(field, tf.zeros(1, tf.float64), t)
        counts.append(len(calls))
        np.testing.assert_allclose(y[:, 0], np.sin(t), atol=1e-6)
    assert counts[0] == counts[1]


def test_float32():
    y = tf.autodiff.odeint(lambda t, y: -y, tf.constant(1.0), [0.0, 1.0])
    assert y.dtype == tf.float32
    assert float(y[1]) == pytest.approx(np.exp(-1), rel=1e-4)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_half_precision(dtype):
    y = tf.autodiff.odeint(lambda t, y: -y, tf.constant(1.0, dtype), [0.0, 1.0])
    assert y.dtype == dtype
    assert float(y[1]) == pytest.approx(np.exp(-1), rel=2e-2)


def test_a_state_without_elements():
    assert tf.autodiff.odeint(lambda t, y: -y, tf.zeros([0]), [0.0, 1.0]).shape == (2, 0)


@pytest.mark.parametrize("compiled", [False, True])
def test_an_equation_that_does_not_come_to_the_end(compiled):
    def explode():
        return tf.autodiff.odeint(lambda t, y: y * y, tf.constant(1.0, tf.float64), [0.0, 2.0], max_steps=30)

    with pytest.raises(tf.errors.ConvergenceError, match=r"fraction of the interval that is left is 0.5.*max_steps"):
        (tf.function(explode, jit_compile=False) if compiled else explode)()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda f: tf.autodiff.odeint(f, 1, [0.0, 1.0]), TypeError, "y0 must consist of real floating-point tensors"),
        (lambda f: tf.autodiff.odeint(f, 1.0, [0.0]), ValueError, "at least two times"),
        (
            lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0, 1.0]),
            ValueError,
            "must be finite, and strictly increasing or strictly decreasing",
        ),
        (
            lambda f: tf.autodiff.odeint(f, 1.0, tf.constant([0.0, 1.0], tf.float64)),
            ValueError,
            "t must have the dtype of y0",
        ),
        (
            lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0], method="euler"),
            ValueError,
            "method must be one of 'dopri5'",
        ),
        (
            lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0], adjoint="none"),
            ValueError,
            "adjoint must be one of 'discrete'",
        ),
        (lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0], method="rk4", substeps=0), ValueError, "substeps must be at"),
        (lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0], max_steps=1.5), TypeError, "max_steps must be an integer"),
        (lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0], rtol=-1.0), ValueError, "rtol must not be negative"),
        (lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0], rtol="a"), TypeError, "rtol must be a number; received 'a'"),
        (lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0], atol=np.nan), ValueError, "atol must not be negative"),
        (lambda f: tf.autodiff.odeint(f, 1.0, [0.0, 1.0 + 1j]), TypeError, "t must consist of real numbers"),
        (lambda f: tf.autodiff.odeint(f, 1.0, ["a", "b"]), TypeError, "real numbers; received string"),
        (lambda f: tf.autodiff.odeint(f, 1.0, [0.0, np.inf]), ValueError, "must be finite"),
        (lambda f: tf.autodiff.odeint(lambda t, y: y[None], 1.0, [0.0, 1.0]), ValueError, "shape and dtype of y0"),
        (lambda f: tf.autodiff.odeint(None, 1.0, [0.0, 1.0]), TypeError, "func should be callable"),
        (lambda f: tf.autodiff.odeint(lambda t, y: [y, y], 1.0, [0.0, 1.0]), (ValueError, TypeError), "structure"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call(lambda t, y: -y)
