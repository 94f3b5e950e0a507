"""custom_gradient, recompute_grad, grad_pass_through, stop_gradient: gradients that the user decides."""

from __future__ import annotations

import re

import numpy as np
import pytest

import gradtape as tf

c = tf.constant


def grad(f, *sources, n=1, **kwargs):
    """The n-th derivative of f(*sources) with respect to the first source, or all gradients for n = 1."""
    sources = [c(s) if isinstance(s, float) else s for s in sources]
    if n > 1:
        with tf.GradientTape() as tape:
            tape.watch(sources[0])
            g = grad(f, *sources, n=n - 1, **kwargs)
            g = g[0] if isinstance(g, list) else g
        return tape.gradient(g, sources[0])
    with tf.GradientTape() as tape:
        tape.watch(sources)
        y = f(*sources, **kwargs)
    return tape.gradient(y, sources)


@tf.custom_gradient
def log1pexp(x):
    """A docstring."""
    e = tf.exp(x)
    return tf.math.log(1 + e), lambda upstream: upstream * (1 - 1 / (1 + e))


def test_the_known_example():
    assert float(log1pexp(c(100.0))) == np.inf
    assert float(grad(log1pexp, 100.0)[0]) == 1.0
    assert float(grad(log1pexp, 1.0)[0]) == pytest.approx(0.7310586)
    assert float(grad(log1pexp, 1.0, n=2)) == pytest.approx(0.19661194)


def test_decorations():
    assert log1pexp.__name__ == "log1pexp"
    assert log1pexp.__doc__ == "A docstring."
    assert callable(log1pexp.__wrapped__)

    @tf.custom_gradient()
    def called(x):
        return x * 2.0, lambda g: g * 10.0

    @tf.custom_gradient
    def bare(x):
        return x * 2.0, lambda g: g * 10.0

    for f in (called, bare, tf.custom_gradient(lambda x: (x * 2.0, lambda g: g * 10.0))):
        assert float(f(c(3.0))) == 6.0
        assert float(grad(f, 3.0)[0]) == 10.0


def test_methods():
    class Layer:
        scale = 7.0

        @tf.custom_gradient
        def __call__(self, x):
            return x * 1.0, lambda g: g * self.scale

        @tf.custom_gradient
        def scaled(self, x):
            """A docstring."""
            return x * 1.0, lambda g: g * self.scale

        @staticmethod
        @tf.custom_gradient
        def fixed(x):
            return x * 1.0, lambda g: g * 9.0

    layer = Layer()
    assert [float(grad(f, 2.0)[0]) for f in (layer, layer.scaled, layer.fixed)] == [7.0, 7.0, 9.0]
    assert layer.scaled.__name__ == "scaled"
    assert Layer.scaled.__doc__ == "A docstring."


def test_recomputed_methods():
    class Layer(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable(2.0)

        @tf.recompute_grad
        def squared(self, x):
            """A docstring."""
            return x * x * self.w

        @classmethod
        @tf.recompute_grad
        def cubed(cls, x):
            return x**3

    layer = Layer()
    assert type(Layer.__dict__["squared"]) is type(tf.custom_gradient(lambda x: (x, lambda g: g)))
    assert (Layer.squared.__doc__, layer.squared.__name__) == ("A docstring.", "squared")
    for f in (layer.squared, tf.function(layer.squared)):
        x = c(3.0)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        assert [float(g) for g in tape.gradient(y, [x, layer.w])] == [12.0, 9.0]
    assert float(grad(Layer.cubed, 2.0)[0]) == 12.0


def test_the_result_is_a_new_tensor():
    @tf.custom_gradient
    def same(x):
        return x, lambda g: g * 3.0

    x = c(2.0)
    y = same(x)
    assert y is not x
    assert float(grad(same, 2.0)[0]) == 3.0

    @tf.custom_gradient
    def number(x):
        return 5.0, lambda g: g * 2.0

    assert isinstance(number(x), tf.Tensor)
    assert float(grad(number, 2.0)[0]) == 2.0


def test_without_a_tape_only_the_value_is_computed():
    calls = []

    @tf.custom_gradient
    def f(x):
        return x * 2.0, lambda g: calls.append(g)

    assert float(f(c(3.0))) == 6.0
    assert calls == []


# -- outputs and upstream gradients ----------------------------------------------------------------
def test_upstream_gradients_of_structures():
    seen = []

    @tf.custom_gradient
    def f(x):
        def back(*upstream):
            seen.append([float(u) for u in upstream])
            return sum(upstream) * 1.0

        return {"z": x * 1.0, "a": [x * 2.0, (x * 3.0,)]}, back

    x = c(1.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        out = f(x)
        y = out["z"] * 10.0 + out["a"][0] * 100.0
    assert set(out) == {"z", "a"}
    assert isinstance(out["a"][1], tuple)
    assert float(tape.gradient(y, x)) == 110.0
    assert seen == [[100.0, 0.0, 10.0]]  # sorted keys; zeros for what was not used
    assert float(tape.gradient(out["a"][1][0], x)) == 1.0


def test_unused_outputs_get_zeros_of_their_shape():
    shapes = []

    @tf.custom_gradient
    def f(x):
        def back(da, db):
            shapes.append((da.shape.as_list(), db.shape.as_list(), db.dtype.name))
            return da

        return (x * 1.0, tf.zeros([2, 3], tf.float64)), back

    x = c([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y, _ = f(x)
    tape.gradient(y, x)
    assert shapes == [([2], [2, 3], "float64")]


def test_a_function_that_is_not_on_the_path_is_not_asked():
    @tf.custom_gradient
    def f(x):
        def back(g):
            raise AssertionError("asked")

        return x * 1.0, back

    x = c(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        f(x)
        y = x * 3.0
    assert float(tape.gradient(y, x)) == 3.0


# -- arguments -------------------------------------------------------------------------------------
def test_one_gradient_for_every_argument():
    @tf.custom_gradient
    def f(x, pair, k, table):
        def back(g):
            return g * 1.0, [g * 2.0, g * 3.0], None, {"a": g * 4.0, "b": g * 5.0}

        return x + pair[0] + pair[1] * k + table["b"] + table["a"], back

    x, p, q, a, b = (c(float(i)) for i in range(5))
    with tf.GradientTape() as tape:
        tape.watch([x, p, q, a, b])
        y = f(x, [p, q], 2.0, {"b": b, "a": a})
    assert [float(g) for g in tape.gradient(y, [x, p, q, a, b])] == [1.0, 2.0, 3.0, 4.0, 5.0]


@pytest.mark.parametrize(("count", "result"), [(1, lambda g: g), (3, lambda g: (g, g, g)), (1, lambda g: [g])])
def test_a_wrong_number_of_gradients(count, result):
    @tf.custom_gradient
    def f(x, y):
        return x * y, result

    sentence = f"custom_gradient function expected to return 2 gradients, but returned {count} instead."
    with pytest.raises(ValueError, match=re.escape(sentence)):
        grad(f, 1.0, 2.0)


def test_keyword_arguments_are_no_inputs():
    x, k = c(2.0), c(5.0)

    @tf.custom_gradient
    def f(x, k=1.0):
        return x * k, lambda g: g * k

    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, k])
        y = f(x, k=k)
    assert float(tape.gradient(y, x)) == 5.0
    assert tape.gradient(y, k) is None


def test_no_arguments_at_all():
    @tf.custom_gradient
    def f():
        return c(3.0), lambda g: None

    x = c(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f() * x
    assert float(tape.gradient(y, x)) == 3.0


def test_the_same_argument_twice():
    @tf.custom_gradient
    def f(x, y):
        return x * y, lambda g: (g * 10.0, g * 100.0)

    x = c(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = f(x, x)
    assert float(tape.gradient(z, x)) == 110.0


def test_none_ends_a_path():
    @tf.custom_gradient
    def f(x, y):
        return x * y, lambda g: (None, g * x)

    dx, dy = grad(f, 2.0, 3.0)
    assert dx is None
    assert float(dy) == 2.0


def test_gradients_that_are_plain_numbers_or_arrays():
    @tf.custom_gradient
    def f(x):
        return x * 1.0, lambda g: np.array([7.0, 8.0], np.float32)

    assert grad(f, c([1.0, 2.0]))[0].numpy().tolist() == [7.0, 8.0]

    @tf.custom_gradient
    def g(x):
        return x * 1.0, lambda g: 7.0

    x = c(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = g(x * 3.0)
    assert float(tape.gradient(y, x)) == 21.0


def test_sparse_gradients():
    @tf.custom_gradient
    def f(x):
        def back(g):
            return tf.IndexedSlices(g * tf.ones([1, 2]), c([1]), c([3, 2]))

        return tf.reduce_sum(x), back

    found = grad(f, tf.ones([3, 2]))[0]
    assert isinstance(found, tf.IndexedSlices)
    assert tf.convert_to_tensor(found).numpy().tolist() == [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]]


# -- misuse ----------------------------------------------------------------------------------------
def test_functions_that_return_something_else():
    with pytest.raises(TypeError, match=r"Cannot iterate over a scalar tensor\.|cannot unpack"):
        tf.custom_gradient(lambda x: x)(c(1.0))
    with pytest.raises(TypeError, match="unsupported callable"):
        tf.custom_gradient(lambda x: (x, 3.0))(c(1.0))


def test_exceptions_pass_through():
    @tf.custom_gradient
    def f(x):
        def back(g):
            raise ArithmeticError("no")

        return x * 1.0, back

    with pytest.raises(ArithmeticError, match="no"):
        grad(f, 1.0)

    @tf.custom_gradient
    def g(x):
        raise ArithmeticError("at once")

    with pytest.raises(ArithmeticError, match="at once"), tf.GradientTape() as tape:
        g(c(1.0))
    x = c(2.0)  # and nothing is left recording
    with tape:
        tape.watch(x)
        y = x * x
    assert float(tape.gradient(y, x)) == 4.0


# -- variables -------------------------------------------------------------------------------------
def test_variables_that_the_function_reads():
    w, u = tf.Variable(3.0, name="w"), tf.Variable(5.0, name="u")
    seen = []

    @tf.custom_gradient
    def f(x):
        def back(g, variables=None):
            seen.append([v.name for v in variables])
            return g * 1.0, [g * 10.0, None]

        return x * w * u, back

    x = c(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    dx, dw, du = tape.gradient(y, [x, w, u])
    assert (float(dx), float(dw), du) == (1.0, 10.0, None)
    assert seen == [["w:0", "u:0"]]


@pytest.mark.parametrize(
    "back",
    [lambda g, *, variables: (g, [g]), lambda g, **kwargs: (g, [g for _ in kwargs["variables"]])],
)
def test_ways_to_take_variables(back):
    w = tf.Variable(3.0)
    f = tf.custom_gradient(lambda x: (x * w, back))
    x = c(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert [float(g) for g in tape.gradient(y, [x, w])] == [1.0, 1.0]


def test_variables_must_be_taken():
    w = tf.Variable(3.0, name="w")
    f = tf.custom_gradient(lambda x: (x * w, lambda g: g))
    sentence = (
        "@tf.custom_gradient grad_fn must accept keyword argument 'variables', since function uses variables: "
        "[<tf.Variable 'w:0'"
    )
    with pytest.raises(TypeError, match=re.escape(sentence)), tf.GradientTape():
        f(c(2.0))


def test_every_variable_needs_a_gradient():
    w = tf.Variable(3.0)
    for returned in (lambda g: (g, []), lambda g: (g, [g, g]), lambda g: (g, None)):
        f = tf.custom_gradient(lambda x, r=returned: (x * w, lambda g, variables=None: r(g)))
        with pytest.raises(ValueError, match=r"Must return gradient for each variable from @custom_gradient grad_fn\."):
            grad(f, 1.0)


def test_variables_that_do_not_count():
    frozen, w = tf.Variable(3.0, trainable=False), tf.Variable(4.0)

    @tf.custom_gradient
    def f(x, w):
        return x * frozen * w, lambda g: (g * 1.0, g * 2.0)

    x = c(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, w)  # an argument has a slot of its own
    assert [float(g) for g in tape.gradient(y, [x, w])] == [1.0, 2.0]

    @tf.custom_gradient
    def g(x):
        return x * 2.0, lambda g, variables=None: g * 5.0 if variables is None else 1 / 0

    assert float(grad(g, 1.0)[0]) == 5.0


# -- higher orders ---------------------------------------------------------------------------------
def test_second_order_goes_through_the_gradient_function():
    @tf.custom_gradient
    def cube(x):
        return x * x * x, lambda g: g * 3.0 * x * x

    assert float(grad(cube, 2.0, n=2)) == 12.0
    assert float(grad(cube, 2.0, n=3)) == 6.0


def test_a_constant_gradient_has_no_second_order():
    @tf.custom_gradient
    def f(x):
        return x * x, lambda g: c(5.0)

    assert float(grad(f, 2.0)[0]) == 5.0
    assert grad(f, 2.0, n=2) is None


def test_a_nested_custom_gradient_decides_the_second_order():
    @tf.custom_gradient
    def f(x):
        @tf.custom_gradient
        def slope(x):
            return 2.0 * x, lambda g: g * 1000.0

        return x * x, lambda g: g * slope(x)

    assert float(grad(f, 2.0)[0]) == 4.0
    assert float(grad(f, 2.0, n=2)) == 1000.0


def test_second_order_with_respect_to_captured_tensors_and_keywords():
    k = c(5.0)

    @tf.custom_gradient
    def f(x, scale=None):
        return x * scale, lambda g: g * scale * k

    x, scale = c(2.0), c(3.0)
    with tf.GradientTape(persistent=True) as outer:
        outer.watch([k, scale])
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = f(x, scale=scale)
        g = inner.gradient(y, x)
    assert float(outer.gradient(g, k)) == 3.0
    assert float(outer.gradient(g, scale)) == 5.0


def test_inside_a_longer_program():
    @tf.custom_gradient
    def clipped(x):
        return x * 1.0, lambda g: tf.clip_by_value(g, -1.0, 1.0)

    x = c([0.1, 5.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(clipped(x * 2.0) ** 2)
    assert tape.gradient(y, x).numpy() == pytest.approx([0.8, 2.0])


def test_numpy_inside():
    @tf.custom_gradient
    def f(x):
        value = np.sin(x.numpy())
        return c(value), lambda g: g.numpy() * np.cos(x.numpy())

    assert grad(f, c([0.5, 1.0]))[0].numpy() == pytest.approx(np.cos([0.5, 1.0]))


# -- stop_gradient ---------------------------------------------------------------------------------
def test_stop_gradient():
    x = c(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        alone = tf.stop_gradient(x)
        y = tf.stop_gradient(x) * x
    assert tape.gradient(alone, x) is None
    assert float(tape.gradient(y, x)) == 3.0
    assert tf.stop_gradient([1.0, 2.0]).numpy().tolist() == [1.0, 2.0]
    assert float(tf.stop_gradient(tf.Variable(2.0))) == 2.0
    assert float(tf.stop_gradient(input=x, name="n")) == 3.0


# -- recompute_grad --------------------------------------------------------------------------------
def test_recompute_grad_runs_the_function_again():
    calls = []

    @tf.recompute_grad
    def cube(x):
        """Three times."""
        calls.append(1)
        return x**3

    assert cube.__name__ == "cube"
    assert callable(cube.__wrapped__)
    assert float(grad(cube, 3.0)[0]) == 27.0
    assert len(calls) == 2
    assert float(grad(cube, 3.0, n=2)) == 18.0


def test_recompute_grad_keeps_nothing_of_the_body():
    x = c([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.recompute_grad(lambda x: tf.exp(tf.tanh(tf.sin(x))))(x)
    assert [record.op.name for record in tape.records] == ["custom_gradient"]
    expected = x.numpy()
    with tf.GradientTape() as plain:
        plain.watch(x)
        z = tf.exp(tf.tanh(tf.sin(x)))
    expected = plain.gradient(z, x).numpy()
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), expected, rtol=1e-6)


def test_recompute_grad_with_variables_keywords_and_several_results():
    w = tf.Variable(2.0)

    @tf.recompute_grad
    def f(x, y, scale=1.0):
        return x * y * w * scale, x + y

    x, y = c(3.0), c(5.0)
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        a, b = f(x, y, scale=10.0)
    assert [float(g) for g in tape.gradient([a, b], [x, y, w])] == [101.0, 61.0, 150.0]


def test_recompute_grad_with_the_same_argument_twice():
    f = tf.recompute_grad(lambda x, y: x * x * y)
    x = c(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = f(x, x)
    assert float(tape.gradient(z, x)) == 27.0


def test_recompute_grad_with_arguments_that_are_no_tensors():
    f = tf.recompute_grad(lambda x, n, names: x**n)
    x = c(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, 2.0, 1.0)
    assert float(tape.gradient(y, x)) == 6.0


# -- grad_pass_through -----------------------------------------------------------------------------
def test_grad_pass_through():
    floor = tf.grad_pass_through(tf.floor)
    x = c(2.7)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = floor(x) * 3.0
    assert float(y) == 6.0
    assert float(tape.gradient(y, x)) == 3.0


def test_grad_pass_through_of_an_assignment():
    v, z, w = tf.Variable(1.0, name="x"), tf.Variable(3.0, name="z"), tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = tf.grad_pass_through(v.assign)(z**2)
        total = y * 1.0
    assert float(v) == 9.0
    dz, dw = tape.gradient(total, [z, w])
    assert float(dz) == 6.0
    assert dw is None


def test_grad_pass_through_needs_one_result_for_each_argument():
    f = tf.grad_pass_through(lambda x, y: x + y)
    with pytest.raises(ValueError, match="expected to return 2 gradients, but returned 1 instead"):
        grad(f, 1.0, 2.0)


def test_grad_pass_through_gives_nothing_to_variables():
    w = tf.Variable(4.0)
    f = tf.grad_pass_through(lambda x: x * w)
    x = c(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    dx, dw = tape.gradient(y, [x, w])
    assert float(dx) == 1.0
    assert dw is None


# -- tf.gradients ----------------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["gradients", "hessians"])
def test_functions_of_graphs_point_to_the_tape(name):
    with pytest.raises(RuntimeError, match="is not supported when eager execution is enabled") as error:
        getattr(tf, name)(c(1.0), c(1.0))
    assert "tf.GradientTape" in str(error.value)


@pytest.mark.parametrize(
    ("returned", "error", "sentence"),
    [
        (lambda x: 2 * x, TypeError, "Cannot iterate over a scalar tensor. .* returned <tf.Tensor"),
        (lambda x: (2 * x, None), TypeError, "unsupported callable: f returned None"),
        (lambda x: (2 * x, x, x), ValueError, r"too many values to unpack \(expected 2.*\). .* `return y, grad`"),
        (lambda x: None, TypeError, "cannot unpack non-iterable NoneType object. .*: f returned None"),
    ],
)
def test_a_function_without_a_gradient_function_is_refused(returned, error, sentence):
    def f(x):
        return returned(x)

    with pytest.raises(error, match=sentence):
        tf.custom_gradient(f)(tf.constant(1.0))


# -- errors in functions ---------------------------------------------------------------------------------------------
def test_a_tape_of_a_custom_gradient_is_used_once_in_nested_loops():
    """The derivative of a loop that nobody asks for does not call the gradient function again."""
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def cube(x):
        v.assign(x)
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(v)
            y = v * v * v
        return y, lambda dy, variables=None: (dy * tape.gradient(y, v), [None] * len(variables or ()))

    def step(i, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = cube(x)
        return i + 1, x + 0.1 * tape.gradient(y, x)

    def climb(i, x):
        return i + 1, tf.while_loop(lambda j, _: j < 3, step, [0, x])[1]

    def climb_far(i, x):
        return i + 1, tf.while_loop(lambda _, x: x < 1.0, climb, [0, x])[1]

    expected = 0.5
    for _ in range(6):
        expected += 0.1 * 3.0 * expected**2
    assert expected > 1.0
    for body, times in ((climb, 2), (climb_far, 1)):
        found = tf.function(lambda x, b=body, n=times: tf.while_loop(lambda i, _: i < n, b, [0, x])[1])(
            tf.constant(0.5)
        )
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_gradient_function_that_raises_in_a_loop_is_not_called_for_the_result():
    @tf.custom_gradient
    def doubled(x):
        def grad(dy):
            raise ValueError("no gradient here")

        return x * 2.0, grad

    @tf.function
    def run(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, doubled(x)), [0, x])[1]
        return y, tape

    @tf.function
    def gradient(x):
        y, tape = run.python_function(x)
        return tape.gradient(y, x)

    assert float(tf.function(lambda x: run.python_function(x)[0])(tf.constant(1.0))) == 4.0
    with pytest.raises(ValueError, match="no gradient here"):
        gradient(tf.constant(1.0))
