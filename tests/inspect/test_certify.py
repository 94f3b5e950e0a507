"""`certify`: the bounds contain the errors, over the op table and on random programs, with exact oracles."""

from __future__ import annotations

import math
import operator
from fractions import Fraction

import numpy as np
import pytest
from op_table import ROWS

import gradtape as tf
from gradtape._src import nest
from gradtape._src.arrays import numpy_namespace
from gradtape._src.inspect.rounding.enclosures import ACCURACY, MONOTONE, rules
from gradtape._src.inspect.rounding.interval import Interval, as_interval, outward
from gradtape.testing import certify

TABLE = [name for name, row in ROWS.items() if row.differentiable and row.error is None]


# -- the op table ----------------------------------------------------------------------------------------------------
def _check_sample(row, sample):
    """The error of float32, by a run in float64 on the same numbers, is within the bounds."""
    floats = [i for i, a in enumerate(sample.args) if a.dtype.kind == "f" and i not in row.constants]
    if not floats:
        return None
    narrow = [a.astype("float32") if a.dtype.kind == "f" else a for a in sample.args]

    def function(given):
        def f(*moving):
            args = list(given)
            for i, tensor in zip(floats, moving, strict=True):
                args[i] = tensor
            return [y for y in nest.flatten(row.call(*args, **sample.attrs)) if y.dtype.is_floating]

        return f

    found = certify(function([tf.constant(a) for a in narrow]), *[narrow[i] for i in floats])
    wide = [tf.constant(a.astype("float64") if a.dtype.kind == "f" else a) for a in narrow]
    sources = [wide[i] for i in floats]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        values = function(wide)(*sources)
    exact = [*values, *tape.gradient(values, sources)]
    gradient, error = (list(x) if len(floats) > 1 else [x] for x in (found.gradient, found.gradient_error))
    for got, bound, wanted in zip([*found.value, *gradient], [*found.value_error, *error], exact, strict=True):
        if wanted is not None and got is not None:
            wanted = np.asarray(tf.convert_to_tensor(wanted))
            size = np.abs(wanted) + np.max(np.abs(wanted), initial=0)
            off = np.abs(np.asarray(got, np.float64) - wanted)
            assert np.all((off <= bound + 1e-13 * size) | ~np.isfinite(wanted)), (off, bound)
    return found


@pytest.mark.parametrize("name", TABLE)
def test_bounds_contain_the_error_of_float32(name):
    _check_sample(ROWS[name], ROWS[name].samples[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_bounds_contain_the_error_of_every_sample(name):
    for sample in ROWS[name].samples[1:]:
        _check_sample(ROWS[name], sample)


def test_most_primitives_are_proved():
    """A primitive that loses its rule shows here."""
    proved = [name for name in TABLE if name in rules]
    assert len(proved) >= 100
    assert {"matmul", "conv", "softmax", "sparse_cross_entropy", "standardize", "max_pool", "gelu"} <= set(proved)


# -- exact arithmetic ------------------------------------------------------------------------------------------------
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv]


def _random_program(rng, length):
    """Steps (operator, place, place) over a list that begins with the arguments and two constants."""
    return [
        (OPERATORS[rng.integers(4)], int(rng.integers(4 + i)), int(rng.integers(4 + i)))
        for i in range(length)
    ]  # fmt: skip


def _run(program, values):
    for step, i, j in program:
        values.append(step(values[i], values[j]))
    return values[-1]


class _Dual:
    """A number and its derivative, as fractions."""

    def __init__(self, value, slope):
        self.value, self.slope = value, slope

    def __add__(self, other):
        return _Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other):
        return _Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other):
        return _Dual(self.value * other.value, self.slope * other.value + self.value * other.slope)

    def __truediv__(self, other):
        slope = (self.slope * other.value - self.value * other.slope) / (other.value * other.value)
        return _Dual(self.value / other.value, slope)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("seed", range(40))
def test_random_programs_with_fractions(seed, dtype):
    rng = np.random.default_rng(seed)
    program = _random_program(rng, 12)
    x, y = rng.uniform(0.5, 2, 2).astype(dtype)
    constants = [0.75, -1.5]

    def exact(slopes):
        values = [_Dual(Fraction(float(v)), Fraction(s)) for v, s in zip([x, y, *constants], slopes, strict=True)]
        return _run(program, values)

    try:
        slopes = [exact([1, 0, 0, 0]).slope, exact([0, 1, 0, 0]).slope]
        value = exact([0, 0, 0, 0]).value
    except ZeroDivisionError:
        return
    numbers = [tf.constant(c, dtype) for c in constants]
    found = certify(lambda a, b: _run(program, [a, b, *numbers]), x, y)
    assert found.proved
    off = abs(Fraction(float(found.value)) - value) if np.isfinite(found.value) else 0
    assert off <= Fraction(float(found.value_error)) if np.isfinite(found.value_error) else True
    for slope, got, bound, ends in zip(slopes, found.gradient, found.gradient_error, found.enclosure, strict=True):
        if got is None:
            assert slope == 0
            continue
        if np.isfinite(bound):
            assert abs(Fraction(float(got)) - slope) <= Fraction(float(bound))
        assert ends[0] == -np.inf or Fraction(float(ends[0])) <= slope
        assert ends[1] == np.inf or slope <= Fraction(float(ends[1]))


@pytest.mark.parametrize("name", [n for n in MONOTONE if hasattr(np, n)])
def test_functions_are_as_exact_as_assumed(name):
    """Against NumPy's extended precision, where the machine has it."""
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("there is no extended precision here")
    low, high = MONOTONE[name].get("domain", (-20.0, 20.0))
    x = np.random.default_rng(0).uniform(max(low, -20.0), min(high, 20.0), 500)
    exact = getattr(np, name)(x.astype(np.longdouble))
    off = np.abs(getattr(numpy_namespace, name)(x) - exact) / np.abs(exact) * 2.0**52
    assert np.max(off) < ACCURACY.get(name, 4.0) - 1


@pytest.mark.parametrize(("name", "reference"), [("erf", math.erf), ("erfc", math.erfc)])
def test_our_functions_are_as_exact_as_assumed(name, reference):
    x = np.random.default_rng(0).uniform(-4, 4, 500)
    exact = np.array([reference(each) for each in x])
    off = np.abs(getattr(numpy_namespace, name)(x) - exact) / np.abs(exact) * 2.0**52
    assert np.max(off) < ACCURACY[name] - 2


@pytest.mark.parametrize("f", [
    lambda x, m: m.exp(m.sin(x)) / x, lambda x, m: m.log(x) * m.sqrt(x) - m.cos(x) * x,
    lambda x, m: m.tanh(x) / (1 + m.exp(-x)),
])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_in_extended_precision(f, dtype):
    if np.finfo(np.longdouble).nmant < 60:
        pytest.skip("there is no extended precision here")
    x = np.linspace(0.3, 3, 23).astype(dtype)
    names = type("m", (), {n: getattr(tf.math, n) for n in ("exp", "sin", "cos", "log", "sqrt", "tanh")})
    found = certify(lambda x: f(x, names), x)
    exact = f(x.astype(np.longdouble), np)
    assert found.proved
    assert np.all(np.abs(found.value.numpy() - exact) <= found.value_error)
    assert np.max(found.value_error) < (1e-5 if dtype == "float32" else 1e-13)


# -- what is reported ------------------------------------------------------------------------------------------------
def test_cancellation_is_found_with_its_line():
    def f(x):
        small = 1.0 - tf.cos(x)
        return small / x**2

    found = certify(f, 1e-3)
    worst = found.losses[0]
    assert worst.op == "subtract"
    assert not worst.backward
    assert worst.lost > 5
    assert worst.condition > 1e5
    assert worst.line[0] == __file__
    assert worst.line[1] == f.__code__.co_firstlineno + 1
    assert found.digits < 1
    assert found.proved
    low, high = found.enclosure
    assert low <= -1e-3 / 12 <= high
    assert high - low < 1e-5
    assert "Most digits are lost in subtract" in str(found)
    assert "<table" in found._repr_html_()
    assert found.to_svg().startswith("<svg ")


def test_more_digits_in_float64():
    f = lambda x: tf.reduce_sum(tf.nn.softmax(tf.tanh(x)) ** 2)  # noqa: E731
    x = np.linspace(-1, 1, 8)
    single, double = certify(f, x.astype("float32")), certify(f, x)
    assert 6 < single.digits < 8 < 12 < double.digits


def test_variables_structures_and_output_gradients():
    w = tf.Variable([[1.0, 2.0], [3.0, 4.0]])
    found = certify(lambda p, n: p["x"] @ w * float(n), {"x": np.ones([3, 2], "float32"), "w": w}, 2)
    assert found.gradient[0]["x"].shape == (3, 2)
    assert found.gradient[0]["w"] is not None
    assert found.gradient[1] is None
    assert found.gradient_error[1] is None
    doubled = certify(lambda x: x * x, 3.0, output_gradients=tf.constant(2.0))
    assert float(doubled.gradient) == 12.0
    assert doubled.gradient_error < 1e-14


def test_functions_nested_tapes_and_custom_gradients():
    @tf.custom_gradient
    def cube(x):
        return x * x * x, lambda g: g * 3.0 * x * x

    @tf.function
    def slope(x):
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = cube(x)
        return inner.gradient(y, x)

    x = tf.constant(1.25)
    with tf.GradientTape() as outer:
        outer.watch(x)
        found = certify(slope, x)
    assert float(found.gradient) == 7.5
    assert found.proved
    assert found.gradient_error < 1e-5
    assert len(outer.summary()) == 0


def test_gathered_rows():
    found = certify(lambda table: tf.reduce_sum(tf.gather(table, [1, 1, 0]) ** 2), np.full([3, 2], 0.1, "float32"))
    exact = 2 * float(np.float32(0.1)) * np.array([[1, 1], [2, 2], [0, 0]])
    assert found.proved
    assert np.all(np.abs(np.asarray(found.gradient) - exact) <= found.gradient_error)


def test_branches_that_rounding_decides():
    """Which side of 0 the exact number is on is not known: the gradient may be either."""
    found = certify(lambda x: tf.nn.relu(tf.sin(x) / tf.sin(x) - 1.0 + 0.0 * x), np.float64(0.7))
    assert found.gradient_error >= 0
    tie = certify(lambda x: tf.where(x * (1 / x) > 1.0, 2.0 * x, 3.0 * x), np.float64(3.1))
    low, high = tie.enclosure
    assert low <= 2
    assert high >= 3
    assert tie.gradient_error >= 1


OF_COMPLEX_NUMBERS = {
    "parts": lambda x: tf.reduce_sum(tf.abs(tf.complex(x, x + 1.0)) ** 2),
    "quotient": lambda x: tf.reduce_sum(tf.abs(tf.complex(x, x + 1.0) / tf.complex(x * x, 1.0 - x))),
    "no nan": lambda x: tf.reduce_sum(tf.abs(tf.math.divide_no_nan(tf.complex(x, x), tf.complex(x * x, x)))),
    "power": lambda x: tf.reduce_sum(tf.math.imag(tf.exp(tf.complex(x, 2.0 * x)))),
    "square": lambda x: tf.reduce_sum(tf.math.real(tf.square(tf.complex(x, 2.0 * x)))),
    "conjugate": lambda x: tf.reduce_sum(tf.math.imag(tf.math.conj(tf.complex(x, x * x)) * tf.complex(x, -x))),
    "mean": lambda x: tf.abs(tf.reduce_mean(tf.complex(x, x * x))),
    "moves": lambda x: tf.reduce_sum(tf.abs(tf.transpose(tf.concat([tf.complex(x, x), tf.complex(x, -x)], 0))[1:])),
    "pad": lambda x: tf.reduce_sum(tf.abs(tf.pad(tf.complex(x, x), [[1, 1], [0, 0]], constant_values=2.0))),
    "adjoint": lambda x: tf.reduce_sum(
        tf.abs(tf.matmul(tf.complex(x, 2.0 * x), tf.complex(x * x, -x), adjoint_b=True)) ** 2
    ),
    "adjoint first": lambda x: tf.reduce_sum(
        tf.math.real(tf.matmul(tf.complex(x, 2.0 * x), tf.complex(x * x, -x), adjoint_a=True)) * x
    ),
}
ESTIMATED_OF_COMPLEX_NUMBERS = {
    "fft": lambda x: tf.reduce_sum(tf.math.real(tf.signal.fft(tf.complex(x, 2.0 * x))) ** 2),
    "rfft": lambda x: tf.reduce_sum(tf.abs(tf.signal.rfft(x))),
    "sqrt": lambda x: tf.reduce_sum(tf.math.real(tf.sqrt(tf.complex(x, x)))),
    "angle": lambda x: tf.reduce_sum(tf.math.angle(tf.complex(x, 1.0 + x))),
}


@pytest.mark.parametrize("name", [*OF_COMPLEX_NUMBERS, *ESTIMATED_OF_COMPLEX_NUMBERS])
def test_complex_numbers(name):
    """Arithmetic of complex numbers is proved; Fourier transforms and other functions are estimated."""
    f = {**OF_COMPLEX_NUMBERS, **ESTIMATED_OF_COMPLEX_NUMBERS}[name]
    point = np.random.default_rng(3).normal(size=(4, 4)).astype(np.float32)
    found = certify(f, point)
    exact = tf.constant(point.astype(np.float64))
    with tf.GradientTape() as tape:
        tape.watch(exact)
        value = f(exact)
    gradient = tape.gradient(value, exact).numpy()
    assert (np.abs(np.asarray(found.gradient, np.float64) - gradient) <= found.gradient_error + 1e-12).all()
    assert abs(float(found.value) - float(value)) <= float(found.value_error) + 1e-12
    assert found.digits > 5
    assert found.proved == (name in OF_COMPLEX_NUMBERS), found.estimated


def test_estimates_are_named():
    found = certify(lambda x: tf.reduce_sum(tf.linalg.inv(x)), np.array([[2.0, 1.0], [0.5, 3.0]], "float32"))
    assert not found.proved
    assert found.estimated == ("inv",)
    assert "Estimated, not proved: inv." in str(found)


def test_wrong_arguments():
    with pytest.raises(TypeError, match=r"takes a function.*Received 3"):
        certify(3, 1.0)
    with pytest.raises(ValueError, match="real floating dtype"):
        certify(lambda x: x, np.array([1, 2]))
    with pytest.raises(TypeError, match="a result of dtype string"):
        certify(lambda x: "a", 1.0)
    with pytest.raises(ValueError, match="no arguments"):
        certify(lambda: tf.constant(1.0))
    with pytest.raises(RuntimeError, match="traced"):
        tf.function(lambda x: certify(tf.sin, x).value, autograph=False)(tf.constant(1.0))


def test_state_after_an_error():
    def failing(x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        certify(failing, 1.0)
    assert not tf.config.functions_run_eagerly()
    tf.debugging.enable_check_numerics()
    try:
        certify(tf.sin, 1.0)
        with pytest.raises(tf.errors.InvalidArgumentError):
            tf.function(tf.math.log)(tf.constant(0.0))
    finally:
        tf.debugging.disable_check_numerics()


# -- intervals -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("seed", range(30))
def test_interval_arithmetic_with_fractions(seed):
    rng = np.random.default_rng(seed)
    for step in OPERATORS:
        a, b = np.sort(rng.normal(size=2)), np.sort(rng.normal(size=2))
        found = step(Interval(a[0], a[1]), Interval(b[0], b[1]))
        for x in (a[0], a[1], a.mean()):
            for y in (b[0], b[1], b.mean()):
                exact = step(Fraction(x), Fraction(y))
                assert np.isinf(found.lo) or Fraction(float(found.lo)) <= exact
                assert np.isinf(found.hi) or exact <= Fraction(float(found.hi))


def test_exact_sums_have_no_width():
    six = as_interval(6.0)
    assert (six - six).is_point()
    assert (as_interval(0.5) + 0.25).is_point()
    assert (as_interval(0.1) * 1.0).is_point()
    assert not (as_interval(0.1) + 0.2).is_point()


def test_order():
    assert Interval([1.0, 3.0, 5.0], [2.0, 4.0, 6.0]).is_ordered()
    assert not Interval([1.0, 1.5], [2.0, 4.0]).is_ordered()
    assert Interval([1.0, 1.0], [1.0, 1.0]).is_ordered()
    assert not Interval([0.0, 1.0, 2.0], [9.0, 1.0, 2.0]).is_ordered()


def test_ends_beyond_the_largest_number():
    largest = np.finfo(np.float64).max
    total = as_interval(largest) + largest
    assert total.lo == largest  # the exact sum is finite
    assert total.hi == np.inf
    total = as_interval(-largest) - largest
    assert (total.lo, total.hi) == (-np.inf, -largest)


def test_zero_times_an_infinite_end_is_unknown():
    product = as_interval(0.0) * Interval(-np.inf, np.inf)
    assert (product.lo, product.hi) == (-np.inf, np.inf)


def test_subnormal_results_have_room_for_all_ulps():
    tiny = 2.0**-1074
    found = outward(np.float64(8 * tiny), np.float64(8 * tiny), ulps=4)
    assert found.lo <= 4 * tiny
    assert found.hi >= 12 * tiny
