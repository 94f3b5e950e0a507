"""Programs as straight-line NumPy: the passes, the memory of results, and the same numbers as eagerly and as by XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from op_table import ROWS
from random_programs import programs

import gradtape as tf
from gradtape._src.arrays import numpy_namespace
from gradtape._src.function import modes
from gradtape._src.graph import numpy_executor
from gradtape._src.graph.numpy_executor import ALLOCATING
from gradtape._src.graph.passes import optimise
from gradtape._src.graph.program import is_pure

pytest.importorskip("jax")


def source_of(function: Any, *args: Any) -> str:
    """The Python code that runs a function on NumPy."""
    traced = tf.function(function, jit_compile=False).get_concrete_function(*args)._traced
    traced.plain.on_numpy  # noqa: B018 - a cached property
    return traced.plain.executable.source


def ops_of(function: Any, *args: Any) -> list[str]:
    """The names of the ops that run, after all passes."""
    program = tf.function(function, jit_compile=False).get_concrete_function(*args)._traced.plain
    return [node.name for node in optimise(program.nodes, program.outputs, is_pure)["dead code"].nodes]


X = np.linspace(-2.0, 2.0, 2048).astype(np.float32).reshape(64, 32)


# -- passes ----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, y: tf.negative(-x), []),
        (lambda x, y: x + (-y), ["subtract"]),
        (lambda x, y: (-x) + y, ["subtract"]),
        (lambda x, y: x - (-y), ["add"]),
        (lambda x, y: (-x) * (-y), ["multiply"]),
        (lambda x, y: (-x) * y + x, ["multiply", "subtract"]),
        (lambda x, y: x - (-(x * y)), ["multiply", "add"]),
        (lambda x, y: (-x) - y, ["negative", "subtract"]),
        (lambda x, y: (-x) - x, ["add", "negative"]),
        (lambda x, y: ((-x) - x) * (-y), ["add", "multiply"]),
        (lambda x, y: (x * -y) + (-y * x), ["multiply", "add", "negative"]),
        (lambda x, y: (-x) + (-y), ["negative", "subtract"]),
        (lambda x, y: tf.square(-x), ["square"]),
        (lambda x, y: tf.reduce_sum(-x) + 1.0, ["negative", "sum", "add"]),
        (lambda x, y: tf.exp(-x), ["negative", "exp"]),
        (lambda x, y: x * 1.0, []),
        (lambda x, y: x / 1.0, []),
        (lambda x, y: tf.identity(tf.stop_gradient(x)), []),
        (lambda x, y: tf.reshape(tf.reshape(x, [-1]), x.shape), []),
        (lambda x, y: tf.tanh(x) * tf.tanh(x), ["tanh", "multiply"]),
        (lambda x, y: x * y + y * x, ["multiply", "add"]),
        (lambda x, y: tf.exp(x)[0] * 0.0 + tf.exp(x)[1], ["exp", "getitem", "multiply", "getitem", "add"]),
    ],
)
def test_passes_remove_what_is_not_needed(function, expected):
    x, y = tf.constant(X), tf.constant(X[::-1].copy())
    assert ops_of(function, x, y) == expected
    with np.errstate(all="ignore"):
        found = tf.function(function, jit_compile=False)(x, y)
    np.testing.assert_array_equal(found, function(x, y))


def _ops_with_constants(function: Any, *args: Any) -> list[str]:
    """The names of the ops that run, if passes know the arrays that the program captured."""
    program = tf.function(function, jit_compile=False).get_concrete_function(*args)._traced.plain
    captured = {id(feed.symbol): feed.value for feed in program.feeds if feed.kind == "array"}
    return [node.name for node in optimise(program.nodes, program.outputs, is_pure, captured)["dead code"].nodes]


def _gradient_of(loss: Any) -> Any:
    def gradient(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = loss(x)
        return tape.gradient(y, x)

    return gradient


EQUAL, ONES = tf.fill(X.shape, 3.0), tf.ones(X.shape)
ZEROS = tf.constant(np.where(X > 0, 0.0, -0.0), tf.float32)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (_gradient_of(lambda x: tf.reduce_sum(tf.exp(x))), ["exp"]),  # without a product with ones
        (_gradient_of(lambda x: tf.reduce_sum(tf.sin(-x))), ["negative", "cos", "negative"]),
        (_gradient_of(lambda x: tf.reduce_mean(tf.exp(x))), ["exp", "multiply"]),
        (lambda x: tf.exp(x) * ONES, ["exp"]),
        (lambda x: ONES * tf.exp(x), ["exp"]),
        (lambda x: tf.exp(x) / ONES, ["exp"]),
        (lambda x: ONES / tf.exp(x), ["exp", "divide"]),
        (lambda x: x[:1] * ONES, ["getitem", "multiply"]),  # the constant has the shape of the result
        (lambda x: x * -EQUAL + EQUAL, ["multiply", "add"]),
        (lambda x: -EQUAL - x * EQUAL, ["multiply", "subtract"]),
        (lambda x: (EQUAL - x) - (-EQUAL), ["subtract", "subtract"]),
        (lambda x: x * (EQUAL * ONES), ["multiply"]),
        (lambda x: tf.matmul(x * ONES, EQUAL, transpose_b=True), ["matmul"]),
        (lambda x: x * ZEROS, ["multiply"]),  # zeros of both signs
        (lambda x: x + ZEROS * 2.0, ["add"]),
    ],
)
def test_constants_of_equal_elements_are_numbers(function, expected):
    x = tf.constant(X)
    assert _ops_with_constants(function, x) == expected
    compiled = tf.function(function, jit_compile=False)
    for _ in range(2):
        found = compiled(x)
        assert found.shape == function(x).shape
        np.testing.assert_array_equal(found, function(x))
        np.testing.assert_array_equal(np.signbit(found), np.signbit(function(x)))


POOLED = {
    "tiles": {"ksize": 2, "strides": 2, "padding": "VALID"},
    "edges": {"ksize": 2, "strides": 2, "padding": "SAME"},
    "gaps": {"ksize": 2, "strides": 3, "padding": "VALID"},
}


def _pooled(x: Any, w: Any, ksize: int, strides: int, padding: str) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.nn.max_pool2d(tf.nn.relu(x), ksize, strides, padding)
        loss = tf.reduce_sum(y * w)
    return [y, tape.gradient(loss, x)]


@pytest.mark.parametrize("how", POOLED.values(), ids=POOLED)
def test_maxima_of_windows_are_taken_before_relu(how: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    special = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 1e-45, -1e-45, np.inf, -np.inf, np.nan]
    x = tf.constant(rng.choice(special, [3, 7, 8, 5]).astype(np.float32))
    w = tf.constant(rng.choice(special, _pooled(x, x[:, :1, :1], **how)[0].shape).astype(np.float32))
    ops = ops_of(lambda x, w: _pooled(x, w, **how), x, w)
    assert ops.index("max_pool") < ops.index("relu")
    assert ops.index("gate") < ops.index("max_unpool")
    function = tf.function(lambda x, w: _pooled(x, w, **how), jit_compile=False)
    with np.errstate(all="ignore"):
        for _ in range(2):
            for found, expected in zip(function(x, w), _pooled(x, w, **how), strict=True):
                np.testing.assert_array_equal(found, expected)
                known = ~np.isnan(expected)
                np.testing.assert_array_equal(np.signbit(found)[known], np.signbit(expected)[known])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: _pooled(x, 2.0, 3, 2, "VALID"),  # overlapping windows
        lambda x: (lambda r: [r, tf.nn.max_pool2d(r, 2, 2, "VALID")])(tf.nn.relu(x)),
        lambda x: (lambda r: tf.nn.max_pool2d(r, 2, 2, "VALID") + tf.nn.avg_pool2d(r, 2, 2, "VALID"))(tf.nn.relu(x)),
        lambda x: (lambda r: [tf.nn.max_pool2d(r, size, size, "VALID") for size in (2, 4)])(tf.nn.relu(x)),
    ],
    ids=["overlapping", "returned", "used", "twice"],
)
def test_relu_stays_before_maxima_where_it_is_needed(function: Callable[..., Any]) -> None:
    x = tf.constant(X.reshape(2, 16, 16, 4))
    ops = ops_of(function, x)
    assert ops.index("relu") < ops.index("max_pool")
    for found, expected in zip(tf.function(function, jit_compile=False)(x), function(x), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_only_equal_ops_are_shared():
    big = np.arange(3000)
    other = big.copy()
    other[1500] = 7  # where NumPy's repr has dots
    x = tf.constant(np.arange(3000.0))

    @tf.function(jit_compile=False)
    def f(x):
        y, z = tf.gather(x, big), tf.gather(x, other)
        return y[1500], z[1500], x[1:2] + x[1:3][:1], x * 0.0, x * -0.0

    first, second, third, zeros, negative = f(x)
    assert (float(first), float(second), float(third[0])) == (1500.0, 7.0, 2.0)
    assert not np.signbit(zeros).any()
    assert np.signbit(negative).all()


def test_complex_numbers_and_integers_are_left_alone():
    assert ops_of(lambda x: tf.negative(-x), tf.constant([1, 2])) == ["negative", "negative"]
    assert ops_of(lambda x: x * 1, tf.constant([1 + 2j])) == ["multiply"]


def test_effects_are_neither_shared_nor_removed(capfd):
    @tf.function(jit_compile=False)
    def f(x):
        tf.print("a", x)
        tf.print("a", x)
        return x + 1.0

    assert float(f(tf.constant(1.0))) == 2.0
    assert capfd.readouterr().err.count("a 1") == 2


def test_checks_raise():
    f = tf.function(lambda x, i: tf.gather(x, i), jit_compile=False)
    x = tf.constant([1.0, 2.0])
    assert float(f(x, tf.constant(1))) == 2.0
    with pytest.raises(tf.errors.InvalidArgumentError, match="not in"):
        f(x, tf.constant(2))


def test_signs_of_zeros_are_those_of_eager_code():
    def f(x, y):
        both = tf.stack([x, y])[None]
        sums = (-x - y, (-x) + (-y), tf.reduce_sum(-both), ((-both) @ tf.ones([2, 1]))[0, 0], x * 0.0, (-x) * 0.0)
        return [1.0 / s for s in sums]

    args = tf.constant(1.0), tf.constant(-1.0)
    assert [float(v) for v in tf.function(f, jit_compile=False)(*args)] == [float(v) for v in f(*args)]


def test_a_failing_callback_raises_in_its_own_call():
    def fail(x):
        raise ZeroDivisionError("callback")

    v = tf.Variable(5.0)

    @tf.function(jit_compile=False)
    def bad():
        v.assign(tf.numpy_function(fail, [v], tf.TensorSpec([], tf.float32)))

    @tf.function(jit_compile=False)
    def good():
        return tf.numpy_function(lambda x: x, [v], tf.TensorSpec([], tf.float32))

    for _ in range(3):
        with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError: callback"):
            bad()
        assert float(good()) == 5.0
    assert float(v) == 5.0


# -- memory ----------------------------------------------------------------------------------------------------------
def test_ops_write_into_operands_that_end():
    code = source_of(lambda x: tf.tanh(tf.exp(x) + 1.0) * 2.0, tf.constant(X))
    assert code.count("out=") == 3
    assert code.count("out=a0") == 0  # not into an argument


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (tf.exp(x), tf.exp(x) * 2.0),  # the first is an output
        lambda x: (lambda y: (tf.transpose(y), y + 1.0))(tf.exp(x)),  # a view of it is
        lambda x: (lambda y: tf.reduce_sum(y[1:] * 2.0) + tf.reduce_sum(y + 1.0))(tf.exp(x)),
        lambda x: (lambda y: tf.reshape(y, [-1]) * tf.reshape(tf.tanh(y), [-1]))(tf.exp(x)),
        lambda x: tf.broadcast_to(tf.exp(x[:1]), x.shape) + tf.exp(x[:1]),
        lambda x: tf.concat([x, -x], 0) * tf.concat([x, -x], 0),
    ],
)
def test_memory_in_use_is_not_written_to(function):
    x = tf.constant(X)
    found = tf.function(function, jit_compile=False)(x)
    for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(function(x)), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(x, X)


@pytest.mark.parametrize("name", sorted(ALLOCATING))
def test_kernels_that_allocate(name):
    samples = ROWS[name].samples
    assert samples
    for sample in samples:
        out = getattr(numpy_namespace, name)(*sample.args, **sample.attrs)
        assert isinstance(out, (np.ndarray, np.generic))  # NumPy gives scalars where arrays have no axes
        assert not any(np.shares_memory(out, a) for a in sample.args if isinstance(a, np.ndarray))


def test_results_get_memory_that_was_released():
    def function(x, y):
        a = tf.tanh(x) @ y
        b = tf.reduce_sum(a)
        return tf.exp(x) * b

    x = X[:32]
    assert ", out=v" in source_of(function, x, x).split("exp_")[1].split("\n")[0]
    np.testing.assert_array_equal(tf.function(function, jit_compile=False)(x, x), function(tf.constant(x), x))


def test_a_product_is_not_written_into_memory_of_another_order():
    def function(x, y):
        a = tf.transpose(x) + tf.transpose(y)  # NumPy keeps the order of its operands
        b = tf.reduce_sum(a)
        return (x @ y) * b

    x = X[:32]
    assert "matmul" in source_of(function, x, x)
    np.testing.assert_array_equal(tf.function(function, jit_compile=False)(x, x), function(tf.constant(x), x))


def test_results_have_memory_of_their_own():
    v = tf.Variable(X)
    f = tf.function(lambda x: (x, tf.reshape(x, [-1]), v + 0.0, v.read_value(), tf.constant([1.0])), jit_compile=False)
    x = tf.constant(X)
    results = f(x)
    v.assign_add(tf.ones_like(v))
    for found in results[:4]:
        np.testing.assert_array_equal(tf.reshape(found, [-1]), X.ravel())
    arrays = [t.array for t in (*results, x)] + [v.numpy()]
    for i, a in enumerate(arrays):
        assert not any(np.shares_memory(a, b) for b in arrays[:i])


def test_variables_are_numpy_arrays_again():
    v = tf.Variable([1.0, 2.0])
    by_xla = tf.function(lambda: v.assign_add([1.0, 1.0]), jit_compile=True)
    on_numpy = tf.function(lambda: v.assign_add([1.0, 1.0]), jit_compile=False)
    for f in (by_xla, on_numpy, by_xla, on_numpy):
        f()
    assert type(v.storage.tensor.array) is np.ndarray
    v.assign_add([1.0, 1.0])
    assert v.numpy().tolist() == [6.0, 7.0]


def test_scalars_among_several_results_are_arrays():
    v, w = tf.Variable(0.0), tf.Variable([0.0])

    @tf.function(jit_compile=False)
    def f(x):
        v.assign(tf.unstack(x * 2.0)[0])
        w.assign(x[1:])
        return tf.unstack(x)

    assert [float(part) for part in f(tf.constant([1.0, 2.0]))] == [1.0, 2.0]
    assert (float(v), w.numpy().tolist()) == (2.0, [2.0])


def test_jacobians_of_no_rows():
    f = tf.function(lambda x: x * x, jit_compile=False)
    x = tf.zeros([0, 3])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    assert tape.jacobian(y, x).shape == (0, 3, 0, 3)


def test_a_name_may_have_any_character():
    def f(x):
        return x + 1.0

    f.__name__ = 'a\\ "b"'
    assert float(tf.function(f, jit_compile=False)(tf.constant(1.0))) == 2.0


def test_variables_of_the_xla_engine_stay_there():
    tf.config.set_engine("xla")
    try:
        v = tf.Variable(1.0)
        tf.function(lambda: v.assign_add(1.0), jit_compile=False)()
        assert type(v.storage.newest()) is not np.ndarray
        assert float(v) == 2.0
    finally:
        tf.config.set_engine("numpy")


def test_variables_change_all_or_none():
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(0.0)

    @tf.function(jit_compile=False)
    def f(i):
        v.assign(v * 2.0)
        w.assign_add(tf.gather(v, i))

    f(tf.constant(1))
    assert (v.numpy().tolist(), float(w)) == ([2.0, 4.0], 4.0)
    with pytest.raises(tf.errors.InvalidArgumentError):
        f(tf.constant(5))
    assert (v.numpy().tolist(), float(w)) == ([2.0, 4.0], 4.0)


# -- which executor --------------------------------------------------------------------------------------------------
def test_set_jit_is_for_functions_that_do_not_say(monkeypatch):
    monkeypatch.setattr(modes, "_jit", ["auto"])

    def executors() -> list[str]:
        functions = [tf.function(lambda x: x + 1.0, jit_compile=given) for given in (None, True, False)]
        return [f.get_concrete_function(tf.constant(1.0)).graph.executor for f in functions]

    assert executors() == ["auto", "xla", "numpy"]
    assert tf.config.optimizer.get_jit() == "auto"
    tf.config.optimizer.set_jit(False)
    assert tf.config.optimizer.get_jit() == ""
    assert executors() == ["numpy", "xla", "numpy"]
    tf.config.optimizer.set_jit(True)
    assert tf.config.optimizer.get_jit() == "autoclustering"
    assert executors() == ["xla", "xla", "numpy"]
    with pytest.raises(ValueError, match="set_jit takes"):
        tf.config.optimizer.set_jit("fast")


# -- the same numbers ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("row", [row for row in ROWS.values() if row.samples], ids=lambda row: row.name)
def test_op_table(row):
    sample = row.samples[0]
    function, args = row.function or row.op.call, [tf.constant(a) for a in sample.args]
    compiled = tf.function(lambda *xs: function(*xs, **sample.attrs), jit_compile=False, autograph=False)
    expected = tf.nest.flatten(function(*args, **sample.attrs))
    for found, value in zip(tf.nest.flatten(compiled(*args)), expected, strict=True):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)


@settings(deadline=None, max_examples=40)
@given(example=programs())
def test_passes_and_memory_change_no_bit(example):
    """Of gradients too, and with arrays of every size in released memory."""
    function, args = example
    tensors = [tf.constant(np.asarray(a, "float32")) for a in args]

    def gradients(*xs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(xs)
            y = function(*xs)
        return y, *tape.gradient(y, xs, unconnected_gradients="zero")

    program = tf.function(gradients, jit_compile=False).get_concrete_function(*tensors)._traced.plain
    arrays = [x.numpy() for x in tensors]
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(numpy_executor, "_IN_PLACE_BYTES", 1)
        for found, expected in zip(program.on_numpy(*arrays), program.replay(*arrays, xp=numpy_namespace), strict=True):
            assert np.asarray(found).tobytes() == np.asarray(expected).tobytes()


# -- programs ------------------------------------------------------------------------------------------------
@settings(deadline=None, max_examples=60)
@given(example=programs())
def test_random_programs_agree_with_eager(example):
    """Values, gradients and second derivatives, inside and outside of the function."""
    function, args = example
    tensors = [tf.constant(np.asarray(a, "float64")) for a in args]
    compiled = tf.function(function, jit_compile=False)

    def gradients(f: Any) -> list[Any]:
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(tensors)
            with tf.GradientTape() as tape:
                tape.watch(tensors)
                y = f(*tensors)
            first = tape.gradient(y, tensors, unconnected_gradients="zero")
            total = tf.add_n([tf.reduce_sum(tf.sin(g)) for g in first])
        second = outer.gradient(total, tensors, unconnected_gradients="zero")
        return [tf.convert_to_tensor(g) for g in (y, *first, *second)]

    expected = gradients(function)
    inside = tf.function(lambda: gradients(function), jit_compile=False)
    for found in (gradients(compiled), inside()):
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_training_is_the_same_as_by_xla():
    def train(jit_compile: bool) -> list[np.ndarray]:
        w, b = tf.Variable(X[:32, :4] / 4), tf.Variable(np.zeros(4, np.float32))

        @tf.function(jit_compile=jit_compile)
        def step(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(tf.tanh(x @ w + b) - 0.5))
            for v, g in zip((w, b), tape.gradient(loss, [w, b]), strict=True):
                v.assign_sub(0.1 * g)
            return loss

        losses = [step(tf.constant(X)).numpy() for _ in range(10)]
        return [np.array(losses), w.numpy(), b.numpy()]

    for a, b in zip(train(False), train(True), strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


JUMPS: dict[str, Callable[..., Any]] = {
    "sign": tf.sign,
    "floor": tf.floor,
    "ceil": tf.math.ceil,
    "cast": lambda x: tf.cast(x, tf.bool),
    "floormod": lambda x: tf.math.floormod(tf.ones_like(x), x),
    "xdivy": lambda x: tf.math.xdivy(x, tf.zeros_like(x)),
    "divide_no_nan": lambda x: tf.math.divide_no_nan(tf.ones_like(x), x),
    "xlogy": lambda x: tf.math.xlogy(x, tf.zeros_like(x)),
    "zero_fraction": tf.math.zero_fraction,
}


@pytest.mark.parametrize("name", JUMPS)
def test_functions_that_jump_at_0_take_denormal_numbers_for_0(name: str) -> None:
    """As XLA's programs do on a processor, and TensorFlow's kernels: a result must not depend on the executor."""
    function = JUMPS[name]
    for dtype, small in (("float32", 1e-40), ("float64", 1e-310), ("bfloat16", 1e-40)):
        x = tf.constant([small, -small, 0.0, 1.5, -2.5], dtype)
        zero = tf.constant([0.0, 0.0, 0.0, 1.5, -2.5], dtype)
        results = [function(zero), function(x), *(tf.function(function, jit_compile=c)(x) for c in (False, True))]
        expected, *found = [np.abs(tf.cast(y, "float64")) for y in results]
        for y in found:
            np.testing.assert_array_equal(y, expected)


SPECIAL_JUMPS: dict[str, Callable[..., Any]] = {
    "digamma": tf.math.digamma,
    "igamma": lambda x: tf.math.igamma(x, tf.ones_like(x)),
    "igammac": lambda x: tf.math.igammac(x, tf.ones_like(x)),
    "zeta": lambda x: tf.math.zeta(2.5 * tf.ones_like(x), x),
    "polygamma": lambda x: tf.math.polygamma(tf.ones_like(x), x),
    "betainc": lambda x: tf.math.betainc(x, tf.ones_like(x), 0.5 * tf.ones_like(x)),
}


@pytest.mark.parametrize("name", SPECIAL_JUMPS)
def test_special_functions_that_jump_at_0_take_denormal_numbers_for_0(name: str) -> None:
    function = SPECIAL_JUMPS[name]
    for dtype, small in (("float32", 1e-40), ("float64", 1e-310), ("bfloat16", 1e-40)):
        x, zero = tf.constant([small, -small, 1.5], dtype), tf.constant([0.0, -0.0, 1.5], dtype)
        np.testing.assert_array_equal(tf.cast(function(x), "float64"), tf.cast(function(zero), "float64"))
    if name == "digamma":  # the others take long to compile
        x, zero = tf.constant([1e-40, 1.5]), tf.constant([0.0, 1.5])
        np.testing.assert_allclose(tf.function(function, jit_compile=True)(x), function(zero), rtol=1e-6)


def test_log1p_of_real_numbers_writes_into_memory_of_its_operand() -> None:
    """It is a ufunc for them; for complex numbers, which lose digits in NumPy's, it is not."""

    @tf.function(jit_compile=False)
    def f(x: Any) -> Any:
        return tf.math.log1p(tf.exp(x))

    real = tf.ones([64, 32])
    for x in (real, tf.cast(real, tf.complex64)):
        for _ in range(2):
            np.testing.assert_allclose(f(x), np.log1p(np.exp(x.numpy())), rtol=1e-6)
    assert "log1p(v1, out=v1)  # float32" in f.summary(detailed=True)
    assert "log1p(v1)  # complex64" in f.summary(detailed=True)


def test_a_detailed_summary_shows_passes_memory_and_statements() -> None:
    @tf.function(jit_compile=False)
    def f(x: Any, w: Any) -> Any:
        return tf.reduce_sum(tf.tanh(x @ w + 0.5) * 2.0) + tf.reduce_sum(tf.tanh(x @ w + 0.5))

    x, w = tf.ones([64, 32]), tf.ones([32, 32])
    for _ in range(2):
        f(x, w)
    assert "nodes after each pass" not in f.summary()
    text = f.summary(detailed=True)
    assert "nodes after each pass: traced 10, common subexpressions 7, algebra 7, dead code 7" in text
    assert "memory: 16.0 kB at the peak, 2 results reuse memory of values that are no longer needed" in text
    assert "matmul(a0, a1, adjoint_x=False, adjoint_y=False)  # float32[64,32]" in text
    assert "tanh(v3, out=v3)  # float32[64,32]" in text


def test_programs_for_sizes_of_unknown_dimensions_reuse_memory() -> None:
    @tf.function(jit_compile=False, input_signature=[tf.TensorSpec([None, 32])])
    def f(x: Any) -> Any:
        return tf.exp(tf.tanh(x * 2.0) + 1.0)

    for _ in range(2):
        f(tf.ones([64, 32]))
    assert "3 results reuse memory of values that are no longer needed" in f.summary(detailed=True)
