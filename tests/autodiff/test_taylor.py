"""Taylor mode, Laplacians and biharmonics, against nested tapes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from op_table import ROWS

import gradtape as tf
from gradtape._src.autodiff import rows
from gradtape._src.core.primitive import registry

R = np.random.default_rng(5)
W = tf.Variable(R.normal(size=(3, 8)) / 2)
B = tf.Variable(R.normal(size=8) / 4)
V = tf.Variable(R.normal(size=(8, 1)) / 2)
X = R.normal(size=(5, 3))


def network(x):
    return (tf.tanh(x @ W + B) @ V)[:, 0]


def with_softmax(x):
    """An op whose forward rule is transposed."""
    return tf.reduce_logsumexp(tf.nn.softmax(x @ W + B) @ V, axis=-1)


def recorded(function, x, persistent=False):
    with tf.GradientTape(persistent=persistent) as tape:
        tape.watch(x)
        y = function(x)
    return tape, y


def nested(function, x, order):
    """Derivatives of a function that treats the numbers of x separately."""
    if order == 0:
        return function(x)
    tape, y = recorded(lambda x: nested(function, x, order - 1), x)
    return tape.gradient(y, x)


def hessians(function, x):
    """One for each point of x."""
    with tf.GradientTape() as outer:
        outer.watch(x)
        tape, y = recorded(function, x)
        g = tape.gradient(y, x)
    return outer.batch_jacobian(g, x).numpy()


@pytest.mark.parametrize(
    "function",
    [
        tf.sin,
        lambda x: tf.exp(-x * x) / (2.0 + tf.cos(x)),
        lambda x: (x + 3.0) ** 2.5 + x**3,
        lambda x: tf.math.lgamma(x + 3.0) * tf.nn.gelu(x),
        lambda x: tf.where(x > 0.0, tf.sqrt(tf.abs(x) + 1.0), tf.math.log1p(x * x)),
    ],
)
def test_derivatives_of_nested_tapes(function):
    x = tf.constant([0.3, -0.7, 1.1], tf.float64)
    tape, y = recorded(function, x)
    found = tape.taylor(y, x, order=6)
    assert len(found) == 7
    for n, d in enumerate(found):
        np.testing.assert_allclose(d, nested(function, x, n), rtol=1e-9)


def test_high_orders_are_exact():
    """The derivatives of exp are exp, and those of 1 / (1 - x) are n! / (1 - x)^(n + 1)."""
    x = tf.constant(0.25, tf.float64)
    tape, y = recorded(lambda x: [tf.exp(x), 1.0 / (1.0 - x)], x)
    exponential, geometric = tape.taylor(y, x, order=40)
    np.testing.assert_allclose(exponential, np.full(41, np.exp(0.25)), rtol=1e-12)
    factorials = np.cumprod(np.concatenate([[1.0], np.arange(1.0, 41.0)]))
    np.testing.assert_allclose(geometric, factorials / 0.75 ** np.arange(1, 42), rtol=1e-12)


def test_directions_of_several_sources():
    x, y = tf.Variable([1.0, 2.0], dtype=tf.float64), tf.Variable(3.0, dtype=tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        z = tf.reduce_sum(x**2) * y
    steps = [tf.constant([1.0, -1.0], tf.float64), tf.constant(2.0, tf.float64)]
    first, second, third = tape.taylor(z, [x, y], 3, steps)[1:]
    # z(t) = ((1 + t)² + (2 - t)²) (3 + 2 t) = 15 + 4 t + 2 t² + 4 t³
    np.testing.assert_allclose([first, second, third], [4.0, 4.0, 24.0])
    np.testing.assert_allclose(tape.jvp(z, [x, y], steps), first)


def test_a_source_that_is_the_result_of_an_op():
    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        u = x * x
        y = u**3
    assert [float(d) for d in tape.taylor(y, u, 3)] == [64.0, 48.0, 24.0, 6.0]
    assert [float(d) for d in tape.taylor(u, u, 2)] == [4.0, 1.0, 0.0]


@pytest.mark.parametrize("function", [tf.tanh, tf.exp, tf.sin, lambda x: x * x])
def test_sources_of_which_one_is_computed_from_the_other(function):
    x, move = tf.constant(0.3, tf.float64), tf.constant(0.0, tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        u = function(x)
        y = u * u * x
    with tf.GradientTape() as line:
        line.watch(move)
        at = x + move
        v = (function(at) + 0.5 * move) ** 2 * at
    steps = [tf.constant(1.0, tf.float64), tf.constant(0.5, tf.float64)]
    np.testing.assert_allclose(tape.taylor(y, [x, u], 4, steps), line.taylor(v, move, 4), rtol=1e-12)


def test_operands_that_are_repeated():
    t, x = tf.constant(0.5, tf.float64), tf.constant([[0.25, 1.0, 3.0]], tf.float64)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(t)
        y = [x + t, x - t, x * t, x / t, tf.maximum(x, t), tf.where(x > 0.5, x, t), tf.reduce_sum(tf.sin(x + t))]
    for found, value in zip(tape.taylor(y, t, 3), y, strict=True):
        assert [d.shape for d in found] == [value.shape] * 4
    np.testing.assert_allclose(tape.taylor(y[0], t, 1)[1], [[1.0, 1.0, 1.0]])
    np.testing.assert_allclose(tape.taylor(y[-1], t, 2)[2], -np.sum(np.sin(x.numpy() + 0.5)))


def test_a_source_without_elements():
    x, points = tf.Variable(np.zeros(0)), tf.Variable(np.zeros((3, 0)))
    with tf.GradientTape(persistent=True) as tape:
        y, rows = tf.reduce_sum(x**4), tf.reduce_sum(tf.sin(points), 1)
    assert float(tape.laplacian(y, x)) == 0.0
    assert float(tape.biharmonic(y, x)) == 0.0
    assert tape.laplacian(rows, points, batch=True).numpy().tolist() == [0.0] * 3
    assert tape.laplacian(rows, x) is None


def test_targets_that_do_not_depend_on_the_source():
    x = tf.constant(2.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = {"constant": tf.constant(3.0), "linear": 2.0 * x}
    found = tape.taylor(y, x, 2)
    assert [None if d is None else float(d) for d in found["constant"]] == [3.0, None, None]
    assert [float(d) for d in found["linear"]] == [4.0, 2.0, 0.0]
    assert [float(d) for d in tape.taylor(y["constant"], x, 2, unconnected_gradients="zero")] == [3.0, 0.0, 0.0]
    assert tape.laplacian(y["constant"], x) is None
    assert float(tape.laplacian(y["linear"], x)) == 0.0
    assert float(tape.biharmonic(y["linear"], x)) == 0.0
    assert float(tape.biharmonic(y["constant"], x, unconnected_gradients="zero")) == 0.0


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "complex128"])
def test_dtypes(dtype):
    x = tf.cast(tf.constant([0.5, 1.5]), dtype)
    tape, y = recorded(lambda x: tf.sin(x) * x, x)
    found = tape.taylor(y, x, 3)
    assert {d.dtype.name for d in found} == {dtype}
    value = np.array([0.5, 1.5])
    third = -3 * np.sin(value) - value * np.cos(value)
    tolerance = {"float16": 2e-2, "bfloat16": 1e-1}.get(dtype, 1e-5)
    np.testing.assert_allclose(tf.cast(tf.math.real(found[3]), tf.float64), third, rtol=tolerance)


@pytest.mark.parametrize("function", [network, with_softmax])
def test_laplacian_and_biharmonic(function):
    x = tf.constant(X)
    tape, y = recorded(function, x, persistent=True)
    traces = np.trace(hessians(function, x), axis1=1, axis2=2)
    np.testing.assert_allclose(tape.laplacian(y, x, batch=True), traces, rtol=1e-9)
    twice = recorded(lambda x: laplacian_of(function, x), x)
    expected = twice[0].laplacian(twice[1], x, batch=True)
    np.testing.assert_allclose(tape.biharmonic(y, x, batch=True), expected, rtol=1e-8)


def laplacian_of(function, x):
    tape, y = recorded(function, x)
    return tape.laplacian(y, x, batch=True)


def test_laplacian_of_all_numbers():
    x = tf.constant(X)
    tape, y = recorded(lambda x: tf.reduce_sum(network(x) ** 2), x, persistent=True)
    full = tape.hessian(y, x).numpy().reshape(15, 15)
    np.testing.assert_allclose(tape.laplacian(y, x), np.trace(full), rtol=1e-10)


def test_directions_in_chunks(monkeypatch):
    x = tf.constant(X)
    tape, y = recorded(network, x, persistent=True)
    second, fourth = tape.laplacian(y, x, batch=True), tape.biharmonic(y, x, batch=True)
    monkeypatch.setattr(rows, "ROWS_BUDGET", 1)
    np.testing.assert_allclose(tape.laplacian(y, x, batch=True), second, rtol=1e-12)
    np.testing.assert_allclose(tape.biharmonic(y, x, batch=True), fourth, rtol=1e-10)


# -- under other tapes, and in functions -----------------------------------------------------------------------------
def residual(function, x):
    """u_xx + u_xxxx along a direction, and the Laplacian: what a physics-informed loss differentiates by weights."""
    tape, y = recorded(function, x, persistent=True)
    found = tape.taylor(y, x, 4)
    return tf.reduce_mean((found[2] + 0.1 * found[4] + tape.laplacian(y, x, batch=True)) ** 2)


def residual_by_tapes(function, x):
    def slope(function):
        def along(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return tf.reduce_sum(tape.gradient(y, x), axis=1)

        return along

    second = slope(slope(function))
    parts = []
    for i in range(3):

        def line(x, i=i):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = function(x)
            return tape.gradient(y, x)[:, i]

        with tf.GradientTape() as tape:
            tape.watch(x)
            y = line(x)
        parts.append(tape.gradient(y, x)[:, i])
    return tf.reduce_mean((second(x) + 0.1 * slope(slope(second))(x) + tf.add_n(parts)) ** 2)


@pytest.mark.parametrize("function", [network, with_softmax])
def test_gradients_of_derivatives(function):
    x = tf.constant(X)
    found = []
    for loss_of in (residual, residual_by_tapes):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = loss_of(function, x)
        found.append([loss, *tape.gradient(loss, [W, B, V, x])])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("jit", [False, True])
def test_in_a_function(jit):
    x = tf.constant(X)

    @tf.function(jit_compile=jit)
    def step(x):
        with tf.GradientTape() as tape:
            loss = residual(network, x)
        return loss, tape.gradient(loss, W)

    with tf.GradientTape() as tape:
        loss = residual(network, x)
    expected = loss, tape.gradient(loss, W)
    for _ in range(2):
        for one, other in zip(step(x), expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8)


WRAPPERS = {
    "numpy": tf.function(jit_compile=False),
    "xla": tf.function(jit_compile=True),
    "function in a function": lambda f: tf.function(lambda x: tf.function(f)(x)),
    "unknown sizes": tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float64)]),
    "recompute_grad": tf.recompute_grad,
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("function", [network, with_softmax])
def test_calls_of_functions(function, wrapper):
    """A call is one op on the tape: Taylor mode goes through the ops inside."""
    x = tf.constant(X)
    wrapped = WRAPPERS[wrapper](function)
    tape, y = recorded(wrapped, x, persistent=True)
    plain, expected = recorded(function, x, persistent=True)
    for source in (x, W, B):
        for one, other in zip(tape.taylor(y, source, 4), plain.taylor(expected, source, 4), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(tape.laplacian(y, x, batch=True), plain.laplacian(expected, x, batch=True), rtol=1e-9)
    np.testing.assert_allclose(tape.biharmonic(y, x, batch=True), plain.biharmonic(expected, x, batch=True), rtol=1e-9)


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_gradients_of_derivatives_of_functions(wrapper):
    x = tf.constant(X)
    found = []
    for function in (network, WRAPPERS[wrapper](network)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = residual(function, x)
        found.append([loss, *tape.gradient(loss, [W, B, V, x])])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-11)


ROWS_OF_CALLS = [
    row
    for row in ROWS.values()
    if row.differentiable and row.error is None and row.samples and row.name != "attention_gradient"
]
"""The last one is tested below."""


@pytest.mark.parametrize("row", ROWS_OF_CALLS, ids=lambda row: row.name)
def test_calls_over_the_op_table(row):
    """What a compiled function returns for gradients is enough for Taylor mode, and for second derivatives."""
    sample = row.samples[0]
    xs = [tf.constant(a) for a in sample.args]
    moving = [i for i, x in enumerate(xs) if x.dtype.is_floating and i not in row.constants]
    found = []
    for wrapped in (tf.function(jit_compile=False, autograph=False), lambda f: f):
        function = wrapped(lambda *xs: row.call(*xs, **sample.attrs))
        t = tf.constant(0.0, tf.float64)
        with tf.GradientTape() as outer:
            outer.watch(t)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(t)
                ys = function(*[x + tf.cast(t, x.dtype) * 0.7 if i in moving else x for i, x in enumerate(xs)])
                y = weighted(tf.nest.flatten(ys))
            first = tape.gradient(y, t, unconnected_gradients="zero")
        second = [] if row.order < 2 else [outer.gradient(first, t, unconnected_gradients="zero")]
        found.append([*tape.taylor(y, t, 3, unconnected_gradients="zero"), *second])
    np.testing.assert_allclose(*found, rtol=1e-6, atol=1e-6 * max(1.0, np.max(np.abs(found[1]))))


CLOSED_FORMS = {
    "exp": (lambda x: tf.exp(2.0 * x), lambda x, k: 2.0**k * np.exp(2.0 * x)),
    "reciprocal": (lambda x: 1.0 / (1.0 - x), lambda x, k: math.factorial(k) / (1.0 - x) ** (k + 1)),
    "sin": (tf.sin, lambda x, k: np.sin(x + k * np.pi / 2)),
    "power": (lambda x: x**5, lambda x, k: math.perm(5, k) * x ** (5 - k) if k <= 5 else 0.0 * x),
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("name", CLOSED_FORMS)
def test_calls_at_high_orders(name, wrapper):
    function, derivative = CLOSED_FORMS[name]
    x = tf.constant(np.linspace(-0.6, 0.5, 6).reshape(2, 3))
    tape, y = recorded(WRAPPERS[wrapper](function), x)
    for k, found in enumerate(tape.taylor(y, x, 6)):
        np.testing.assert_allclose(found, derivative(x.numpy(), k), rtol=1e-9, atol=1e-9)


ROWS_OF_HIGH_ORDERS = [row for row in ROWS_OF_CALLS if row.name in registry and registry[row.name].elementwise]


@pytest.mark.parametrize("row", ROWS_OF_HIGH_ORDERS, ids=lambda row: row.name)
def test_calls_at_high_orders_over_the_op_table(row):
    """All samples of elementwise ops: what a program returns is enough for orders 4 to 6, too."""
    for sample in row.samples:
        called, expected = [
            along_a_line(row, sample, wrapped, 6)
            for wrapped in (tf.function(jit_compile=False, autograph=False), lambda f: f)
        ]
        for one, other in zip(called, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-10)


def along_a_line(row, sample, wrapped, order):
    xs = [tf.constant(a) for a in sample.args]
    moving = [i for i, x in enumerate(xs) if x.dtype.is_floating and i not in row.constants]
    function = wrapped(lambda *xs: row.call(*xs, **sample.attrs))
    t = tf.constant(0.0, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(t)
        ys = function(*[x + tf.cast(t, x.dtype) * 0.3 if i in moving else x for i, x in enumerate(xs)])
        y = weighted(tf.nest.flatten(ys))
    return tape.taylor(y, t, order, unconnected_gradients="zero")


ROWS_OF_SEVERAL = [
    row
    for row in ROWS_OF_CALLS
    if row.order >= 2 and sum(np.asarray(a).dtype.kind == "f" for a in row.samples[0].args) > len(row.constants) + 1
]


@pytest.mark.parametrize("row", ROWS_OF_SEVERAL, ids=lambda row: row.name)
def test_one_operand_varies_over_the_op_table(row):
    """The others are constants, of which a tape saves only what the rules of the op need."""
    sample = row.samples[0]
    xs = [tf.constant(a) for a in sample.args]
    for moving in (i for i, x in enumerate(xs) if x.dtype.is_floating and i not in row.constants):
        t = tf.constant(0.0, tf.float64)
        with tf.GradientTape() as outer:
            outer.watch(t)
            with tf.GradientTape(persistent=True) as tape:
                tape.watch(t)
                shifted = xs[moving] + tf.cast(t, xs[moving].dtype) * 0.7
                y = weighted(tf.nest.flatten(row.call(*xs[:moving], shifted, *xs[moving + 1 :], **sample.attrs)))
            first = tape.gradient(y, t, unconnected_gradients="zero")
        second = outer.gradient(first, t, unconnected_gradients="zero")
        found = tape.taylor(y, t, 2, unconnected_gradients="zero")
        expected = [y, first, second]
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6 * max(1.0, np.max(np.abs(expected))))


@pytest.mark.parametrize("jit", [None, False])
@pytest.mark.parametrize(
    "function",
    [
        lambda c, x: tf.concat([c, x, c[:, :1]], 1),
        lambda c, x: tf.stack([x, c], 2),
        lambda c, x: tf.tensor_scatter_nd_update(c, [[1], [0]], x),
    ],
    ids=["concat", "stack", "replace"],
)
def test_joined_with_a_constant(function, jit):
    c, x = (tf.constant(R.normal(size=(2, 3))) for _ in range(2))

    def cube(x):
        return tf.reduce_sum(function(c, x) ** 3)

    tape, y = recorded(cube if jit is None else tf.function(cube, jit_compile=jit), x, persistent=True)
    direction = tf.ones_like(x)
    np.testing.assert_allclose(tape.taylor(y, x, 2, direction)[2], 6 * np.sum(x.numpy()))
    np.testing.assert_allclose(tape.laplacian(y, x), 6 * np.sum(x.numpy()))


def weighted(results):
    total = tf.zeros([], tf.float64)
    for y in results:
        if y.dtype.is_floating or y.dtype.is_complex:
            weights = np.linspace(0.5, 1.5, int(tf.size(y))).reshape(y.shape)
            total += tf.reduce_sum(tf.cast(tf.math.real(y), tf.float64) * weights)
    return total


def test_an_operand_that_a_program_did_not_return():
    q = tf.constant(R.normal(size=(1, 2, 3, 4)))

    @tf.function(autograph=False)
    def slope(g):
        out, kept = registry["attention"].call(q + g, q, q, scale=0.5, causal=False)
        return registry["attention_gradient"].call(g, q, q, q, out, kept, scale=0.5, causal=False, with_scores=False)[0]

    tape, y = recorded(slope, tf.ones_like(q), persistent=True)
    with pytest.raises(NotImplementedError, match="an operand of ScaledDotProductAttention that a compiled function"):
        tape.taylor(y, q, 2)


@pytest.mark.parametrize(
    ("function", "op"),
    [
        (tf.function(lambda x: tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * x), [0, x])[1]), "Scan"),
        (tf.function(lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: x * x, lambda: x)), "Case"),
        (lambda x: tf.autodiff.root(lambda y: y**3 - x, x).x, "Implicit"),
    ],
)
def test_programs_that_are_one_op_are_refused(function, op):
    x = tf.constant(2.0, tf.float64)
    tape, y = recorded(function, x, persistent=True)
    with pytest.raises(NotImplementedError, match=rf"this tape recorded a single op \({op}\)"):
        tape.taylor(y, x, 2)
    assert tape.gradient(y, x) is not None, "the tape is as it was"


def test_an_opaque_custom_gradient_is_refused():
    @tf.custom_gradient
    def square(x):
        return tf.constant(x.numpy() ** 2), lambda g: 2.0 * g * x

    x = tf.constant(2.0)
    tape, y = recorded(square, x, persistent=True)
    with pytest.raises(NotImplementedError, match=r"body of this tf.custom_gradient was not recorded"):
        tape.taylor(y, x, 2)
    assert float(tape.gradient(y, x)) == 4.0


def test_recompute_grad_in_a_compiled_function_is_refused():
    x = tf.constant(X)
    tape, y = recorded(tf.function(tf.recompute_grad(network)), x, persistent=True)
    with pytest.raises(NotImplementedError, match=r"tf.recompute_grad in a compiled function"):
        tape.taylor(y, x, 2)
    assert tape.gradient(y, x) is not None


def test_a_python_function_is_recorded():
    x = tf.constant(2.0)
    tape, y = recorded(tf.function(lambda x: tf.py_function(lambda x: x**3, [x], tf.float32)), x)
    assert [float(d) for d in tape.taylor(y, x, 3)] == [8.0, 12.0, 12.0, 6.0]


def test_custom_gradients_differentiate_their_body():
    @tf.custom_gradient
    def cube(x):
        return x * x * x, lambda g: 3.0 * g * x * x

    x = tf.constant(2.0)
    tape, y = recorded(lambda x: cube(x) + x**2, x)
    assert [float(d) for d in tape.taylor(y, x, 3)] == [12.0, 16.0, 14.0, 6.0]


def test_a_tape_is_used_up():
    x = tf.constant(2.0)
    for call in (
        lambda tape, y: tape.taylor(y, x, 1),
        lambda tape, y: tape.laplacian(y, x),
        lambda tape, y: tape.biharmonic(y, x),
    ):
        tape, y = recorded(lambda x: x * x, x)
        call(tape, y)
        with pytest.raises(RuntimeError, match="can only be used to compute one set of gradients"):
            call(tape, y)


def test_a_memory_limit():
    x = tf.constant(X)
    with tf.GradientTape(memory_limit=2**20) as tape:
        tape.watch(x)
        y = network(x)
    tape_without, y_without = recorded(network, x)
    np.testing.assert_array_equal(tape.taylor(y, x, 3)[3], tape_without.taylor(y_without, x, 3)[3])


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda tape, y, x: tape.taylor(y, x, -1), ValueError, "`order` is between 0 and 170; received -1"),
        (lambda tape, y, x: tape.taylor(y, x, 171), ValueError, "received 171"),
        (lambda tape, y, x: tape.taylor(y, x, 2.0), TypeError, "`order` must be an int, the number of derivatives"),
        (lambda tape, y, x: tape.taylor(y, x, True), TypeError, "an int, .*; received True"),
        (lambda tape, y, x: tape.taylor(y, 3.0, 1), TypeError, "`sources` should be one Tensor or Variable"),
        (lambda tape, y, x: tape.taylor(3.0, x, 1), TypeError, "`target` should be one Tensor or Variable"),
        (
            lambda tape, y, x: tape.taylor(y, x, 1, tf.ones([2], tf.float64)),
            ValueError,
            "must have the shape of its source",
        ),
        (lambda tape, y, x: tape.taylor(y, x, 1, [x]), (ValueError, TypeError), "structure"),
        (lambda tape, y, x: tape.taylor(y, x, 1, 1j * np.ones(x.shape)), TypeError, "source must be real"),
        (lambda tape, y, x: tape.jvp(y, x, 1j * np.ones(x.shape)), TypeError, "source must be real"),
        (
            lambda tape, y, x: tape.laplacian(y[:2], x, batch=True),
            ValueError,
            "target and source must have the same first dimension",
        ),
        (lambda tape, y, x: tape.laplacian(y, tf.constant([1, 2])), ValueError, "its dtype is int32"),
    ],
)
def test_bad_arguments(call, error, text):
    x = tf.constant(X)
    tape, y = recorded(network, x, persistent=True)
    with pytest.raises(error, match=text):
        call(tape, y, x)
    assert tape.gradient(y, x) is not None
