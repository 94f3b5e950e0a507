"""Bessel functions of integer order, in float64."""

from __future__ import annotations

from math import factorial, pi
from typing import Any

from gradtape._src.arrays.shared import special_tables as table
from gradtape._src.arrays.shared.frames import Array, in_float64, ratio

_J0_ZEROS = ((5.783185962946784, 4.123247343506204e-16), (30.471262343662087, -2.366534485750659e-16))  # squared
_J1_ZERO = (14.681970642123893, -9.858177825793294e-17)


# -- I ---------------------------------------------------------------------------------------------------------------
@in_float64
def bessel_i0e(xp: Any, x: Array) -> Array:
    x = xp.absolute(x)
    return xp.piecewise(
        x,
        [
            (x <= 8, lambda x: xp.exp(-x) * ratio(x * x / 4, table.I0_LOW)),
            (x > 8, lambda x: ratio(1 / x - 0.0625, table.I0_HIGH) / xp.sqrt(x)),
        ],
    )


@in_float64
def bessel_i1e(xp: Any, x: Array) -> Array:
    size = xp.absolute(x)
    value = xp.piecewise(
        size,
        [
            (size <= 8, lambda x: x * xp.exp(-x) * ratio(x * x / 4, table.I1_LOW)),
            (size > 8, lambda x: ratio(1 / x - 0.0625, table.I1_HIGH) / xp.sqrt(x)),
        ],
    )
    return xp.copysign(value, x)


def _unscale(xp: Any, value: Array, x: Array) -> Array:
    """A value times exp(|x|), in two factors: the product can be finite where the exponential overflows."""
    half = xp.exp(0.5 * xp.absolute(x))
    return xp.where(xp.isinf(x), xp.copysign(float("inf"), value), value * half * half)


@in_float64
def bessel_i0(xp: Any, x: Array) -> Array:
    return _unscale(xp, bessel_i0e(xp, x), x)


@in_float64
def bessel_i1(xp: Any, x: Array) -> Array:
    return _unscale(xp, bessel_i1e(xp, x), x)


def _power_series(xp: Any, x: Array, quarter: Array, order: int, terms: int) -> Array:
    """The sum over k of (x / 2)**order quarter**k / (k! (k + order)!)."""

    def step(state: Any) -> Any:
        k, term, total = state
        term *= quarter
        term /= k * (k + order)
        total += term
        return k + 1, term, total

    first = (x / 2) ** order / factorial(order)
    return xp.while_loop(lambda s: s[0] < terms, step, (1, first, first.copy()))[2]


@in_float64
def bessel_in(xp: Any, x: Array, *, order: int, scaled: bool) -> Array:
    """I of integer order from 2 on: the power series near 0, the recurrence where it is stable."""

    def series(x: Array) -> Array:
        return xp.exp(-xp.absolute(x)) * _power_series(xp, x, x * x / 4, order, 60 + order)

    def recurrence(x: Array) -> Array:
        before, now = bessel_i0e(xp, x), bessel_i1e(xp, x)
        for k in range(1, order):
            before, now = now, before - 2 * k / x * now
        return now

    near = xp.absolute(x) < max(20, order * order / 2)
    value = xp.piecewise(x, [(near, series), (~near, recurrence)])
    return value if scaled else _unscale(xp, value, x)


# -- K ---------------------------------------------------------------------------------------------------------------
@in_float64
def bessel_k0e(xp: Any, x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        return xp.exp(x) * (ratio(square, table.K0_LOW) - xp.log(x / 2) * ratio(square / 4, table.I0_LOW))

    return xp.piecewise(x, [((x >= 0) & (x <= 2), low), (x > 2, lambda x: ratio(1 / x, table.K0_HIGH) / xp.sqrt(x))])


@in_float64
def bessel_k1e(xp: Any, x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        logarithmic = xp.log(x / 2) * (x * ratio(square / 4, table.I1_LOW))
        return xp.exp(x) * (xp.where(x == 0, 0, logarithmic) + ratio(square, table.K1_LOW) / x)

    return xp.piecewise(x, [((x >= 0) & (x <= 2), low), (x > 2, lambda x: ratio(1 / x, table.K1_HIGH) / xp.sqrt(x))])


@in_float64
def bessel_k0(xp: Any, x: Array) -> Array:
    return bessel_k0e(xp, x) * xp.exp(-x)


@in_float64
def bessel_k1(xp: Any, x: Array) -> Array:
    return bessel_k1e(xp, x) * xp.exp(-x)


# -- J and Y ---------------------------------------------------------------------------------------------------------
def _waves(xp: Any, x: Array, p: Any, q: Any) -> tuple[Array, ...]:
    """For x >= 5 the slowly varying P and Q of the asymptotic form, its amplitude, and the sine and cosine of x."""
    inverse = 1 / x
    variable = 25 * inverse * inverse
    return ratio(variable, p), ratio(variable, q) * inverse, xp.sqrt(inverse / pi), xp.sin(x), xp.cos(x)


@in_float64
def bessel_j0(xp: Any, x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        (first, first_rest), (second, second_rest) = _J0_ZEROS
        zeros = ((square - first) - first_rest) * ((square - second) - second_rest)
        return zeros * ratio(square, table.J0_LOW)

    def high(x: Array) -> Array:
        p, q, size, sine, cosine = _waves(xp, x, table.P0, table.Q0)
        return size * (p * (cosine + sine) - q * (sine - cosine))

    x = xp.absolute(x)
    return xp.piecewise(x, [(x <= 5, low), ((x > 5) & xp.isfinite(x), high), (xp.isinf(x), 0.0)])


@in_float64
def bessel_j1(xp: Any, x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        return x * ((square - _J1_ZERO[0]) - _J1_ZERO[1]) * ratio(square, table.J1_LOW)

    def high(x: Array) -> Array:
        p, q, size, sine, cosine = _waves(xp, xp.absolute(x), table.P1, table.Q1)
        return xp.sign(x) * size * (p * (sine - cosine) + q * (sine + cosine))

    size = xp.absolute(x)
    return xp.piecewise(x, [(size <= 5, low), ((size > 5) & xp.isfinite(x), high), (xp.isinf(x), 0.0)])


@in_float64
def bessel_jn(xp: Any, x: Array, *, order: int) -> Array:
    """J of integer order from 2 on: the power series near 0, the recurrence where it is stable."""

    def series(x: Array) -> Array:
        return _power_series(xp, x, -x * x / 4, order, 30 + 2 * order)

    def recurrence(x: Array) -> Array:
        before, now = bessel_j0(xp, x), bessel_j1(xp, x)
        for k in range(1, order):
            before, now = now, 2 * k / x * now - before
        return now

    near = xp.absolute(x) < order + 1
    return xp.piecewise(x, [(near, series), (~near, recurrence)])


@in_float64
def bessel_y0(xp: Any, x: Array) -> Array:
    def low(x: Array) -> Array:
        return ratio(x * x, table.Y0_LOW) + 2 / pi * xp.log(x) * bessel_j0(xp, x)

    def high(x: Array) -> Array:
        p, q, size, sine, cosine = _waves(xp, x, table.P0, table.Q0)
        return size * (p * (sine - cosine) + q * (cosine + sine))

    return xp.piecewise(x, [((x >= 0) & (x <= 5), low), ((x > 5) & xp.isfinite(x), high), (xp.isposinf(x), 0.0)])


@in_float64
def bessel_y1(xp: Any, x: Array) -> Array:
    def low(x: Array) -> Array:
        logarithmic = xp.where(x == 0, 0, xp.log(x) * bessel_j1(xp, x))
        return x * ratio(x * x, table.Y1_LOW) + 2 / pi * (logarithmic - 1 / x)

    def high(x: Array) -> Array:
        p, q, size, sine, cosine = _waves(xp, x, table.P1, table.Q1)
        return size * (q * (sine - cosine) - p * (sine + cosine))

    return xp.piecewise(x, [((x >= 0) & (x <= 5), low), ((x > 5) & xp.isfinite(x), high), (xp.isposinf(x), 0.0)])
