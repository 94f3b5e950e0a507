"""Functions that are defined by integrals, in float64."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi
from typing import Any

from gradtape._src.arrays.shared import special_tables as table
from gradtape._src.arrays.shared.frames import Array, in_float64, odd, ratio

_EXPINT_ZERO = (0.3725074107813666, 1.3140183414386028e-17)


@in_float64
def dawsn(xp: Any, x: Array) -> Array:
    """Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x."""
    size = xp.absolute(x)
    return xp.piecewise(
        x,
        [
            (size <= 2, lambda x: x * ratio(x * x, table.DAWSN_A)),
            ((size > 2) & (size <= 4), lambda x: ratio(xp.absolute(x) - 3, table.DAWSN_B) / x),
            ((size > 4) & (size <= 7), lambda x: ratio(xp.absolute(x) - 5.5, table.DAWSN_C) / x),
            (size > 7, lambda x: ratio(1 / (x * x), table.DAWSN_D) / x),
        ],
    )


@in_float64
def expint(xp: Any, x: Array) -> Array:
    """The exponential integral Ei, of positive numbers."""

    def low(x: Array) -> Array:
        distance = (x - _EXPINT_ZERO[0]) - _EXPINT_ZERO[1]
        close = xp.absolute(distance) < 0.1
        near = xp.log1p(xp.where(close, distance, 0) / _EXPINT_ZERO[0])
        logarithm = xp.where(close, near, xp.log(x / _EXPINT_ZERO[0]))
        return distance * ratio(6 - x, table.EI_A) + logarithm

    def scaled(formula: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def whole(x: Array) -> Array:
            half = xp.exp(0.5 * x)  # the quotient can be finite where the exponential is not
            return half / x * formula(x) * half

        return whole

    return xp.piecewise(
        x,
        [
            ((x >= 0) & (x <= 6), low),
            ((x > 6) & (x <= 10), scaled(lambda x: ratio(x, table.EI_B))),
            ((x > 10) & (x <= 20), scaled(lambda x: ratio(x, table.EI_C))),
            ((x > 20) & (x <= 40), scaled(lambda x: ratio(1 / x - 0.025, table.EI_D))),
            ((x > 40) & (x < 1000), scaled(lambda x: ratio(1 / x, table.EI_E))),
            (x >= 1000, inf),
        ],
    )


def _fresnel_parts(xp: Any, x: Array) -> tuple[Array, Array, Array, Array]:
    """The auxiliary functions f and g at x >= 1.6, and the sine and cosine of pi x² / 2."""
    inverse = 1 / x
    square = inverse * inverse
    f = ratio(square, table.FRESNEL_F) * inverse / pi
    g = ratio(square, table.FRESNEL_G) * square * inverse / (pi * pi)
    # x² modulo 4 from two halves of x, so that the angle is exact however large x is.
    high = xp.floor(x * 64) / 64
    low = x - high
    turn = xp.fmod(high * high, 4) + xp.fmod(2 * high * low, 4) + low * low
    angle = pi / 2 * (turn - 4 * xp.rint(turn / 4))
    return f, g, xp.sin(angle), xp.cos(angle)


def _fresnel(xp: Any, x: Array, near: Callable[[Array], Array], far: Callable[[Array], Array]) -> Array:
    size = xp.absolute(x)
    return xp.piecewise(
        x,
        [
            (size <= 1.6, near),
            ((size > 1.6) & (size < 1e8), odd(xp, far)),
            (size >= 1e8, lambda x: xp.copysign(0.5, x)),
        ],
    )


@in_float64
def fresnel_sin(xp: Any, x: Array) -> Array:
    def far(x: Array) -> Array:
        f, g, sine, cosine = _fresnel_parts(xp, x)
        return 0.5 - f * cosine - g * sine

    return _fresnel(xp, x, lambda x: x * x * x * ratio(xp.square(x * x), table.FRESNEL_S), far)


@in_float64
def fresnel_cos(xp: Any, x: Array) -> Array:
    def far(x: Array) -> Array:
        f, g, sine, cosine = _fresnel_parts(xp, x)
        return 0.5 + f * sine - g * cosine

    return _fresnel(xp, x, lambda x: x * ratio(xp.square(x * x), table.FRESNEL_C), far)


@in_float64
def spence(xp: Any, x: Array) -> Array:
    """The dilogarithm of 1 - x."""

    def middle(x: Array) -> Array:
        return (1 - x) * ratio(x - 0.5, table.SPENCE)

    def low(x: Array) -> Array:
        return pi * pi / 6 - xp.where(x == 0, 0, xp.log(x) * xp.log1p(-x)) - middle(1 - x)

    def high(x: Array) -> Array:
        return -0.5 * xp.square(xp.log(x)) - low(1 / x)

    return xp.piecewise(x, [((x >= 0) & (x < 0.5), low), ((x >= 0.5) & (x <= 2), middle), (x > 2, high)])
