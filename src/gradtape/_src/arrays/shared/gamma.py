"""The gamma and beta functions, their derivatives and their incomplete forms, in float64."""

from __future__ import annotations

from functools import cache
from math import comb, factorial, inf, log, nan, pi, sqrt
from typing import Any

import numpy as np

from gradtape._src.arrays.shared import special_tables as table
from gradtape._src.arrays.shared.frames import (
    Array,
    Pieces,
    gauss_legendre,
    in_float64,
    jumps_at_zero,
    polynomial,
    ratio,
)

_HALF_LOG_TWO_PI = 0.5 * log(2 * pi)
_DIGAMMA_ZERO = (1.4616321449683622, 9.549995429965697e-17)
_NO_FRACTION = 2.0**52  # all numbers of this size are integers, so that all negative ones are poles


# -- gamma -----------------------------------------------------------------------------------------------------------
def _stirling_remainder(x: Array) -> Array:
    """log gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 8."""
    inverse = 1 / x
    return inverse * ratio(inverse * inverse, table.STIRLING)


def _lgamma_positive(xp: Any, x: Array) -> Array:
    return xp.piecewise(
        x,
        [
            (x < 0.5, lambda x: x * ratio(x + 0.5, table.LGAMMA1) - xp.log(x)),
            ((x >= 0.5) & (x < 1.5), lambda x: (x - 1) * ratio(x - 0.5, table.LGAMMA1)),
            ((x >= 1.5) & (x < 2.5), lambda x: (x - 2) * ratio(x - 2, table.LGAMMA2)),
            ((x >= 2.5) & (x < 4.5), lambda x: ratio(x - 3, table.LGAMMA3)),
            ((x >= 4.5) & (x < 8), lambda x: ratio(x - 4.5, table.LGAMMA6)),
            (x >= 8, lambda x: (x - 0.5) * (xp.log(x) - 1) + (_HALF_LOG_TWO_PI - 0.5) + _stirling_remainder(x)),
        ],
    )


@in_float64
def lgamma(xp: Any, x: Array) -> Array:
    """Log |gamma(x)|: reflected for negative numbers, infinite at the poles."""

    def reflected(x: Array) -> Array:
        return xp.log(pi / xp.absolute(x * xp.sin(pi * (x - xp.rint(x))))) - _lgamma_positive(xp, -x)

    return xp.piecewise(
        x,
        [
            (x > 0, lambda x: _lgamma_positive(xp, x)),
            ((x < 0) & (x > -_NO_FRACTION), reflected),
            ((x == 0) | (x <= -_NO_FRACTION), inf),
        ],
    )


def _digamma_positive(xp: Any, x: Array) -> Array:
    def root(x: Array) -> Array:
        return ((x - _DIGAMMA_ZERO[0]) - _DIGAMMA_ZERO[1]) * ratio(x - 1, table.DIGAMMA1)

    def high(x: Array) -> Array:
        inverse = 1 / x
        return xp.log(x) - inverse * (0.5 + inverse * ratio(inverse * inverse, table.DIGAMMA8))

    return xp.piecewise(
        x,
        [
            (x < 1, lambda x: root(x + 1) - 1 / x),
            ((x >= 1) & (x < 2), root),
            ((x >= 2) & (x < 4), lambda x: ratio(x - 2, table.DIGAMMA2)),
            ((x >= 4) & (x < 8), lambda x: ratio(x - 4, table.DIGAMMA4)),
            (x >= 8, high),
        ],
    )


@in_float64
@jumps_at_zero
def digamma(xp: Any, x: Array) -> Array:
    """NaN at the poles, whose two sides disagree."""

    def reflected(x: Array) -> Array:
        part = x - xp.rint(x)
        return _digamma_positive(xp, 1 - x) - xp.where(part == 0, nan, pi / xp.tan(pi * part))

    return xp.piecewise(x, [(x > 0, lambda x: _digamma_positive(xp, x)), ((x < 0) & xp.isfinite(x), reflected)])


# The numbers B(2k) / (2k)! of the Euler-Maclaurin formula.
_EULER_MACLAURIN = (
    1 / 12,
    -1 / 720,
    1 / 30240,
    -1 / 1209600,
    1 / 47900160,
    -691 / 1307674368000,
    1 / 74724249600,
    -3617 / 10670622842880000,
    43867 / 5109094217170944000,
    -174611 / 802857662698291200000,
    77683 / 14101100039391805440000,
    -236364091 / 1693824136731743669452800000,
)
_DIRECT_TERMS = 12


def _hurwitz(xp: Any, s: Array, q: Array) -> Array:
    """The sum of (q + k)**-s over k >= 0, for s > 1 and q > 0: some terms, then Euler and Maclaurin."""
    head = xp.power(q, -s)
    total = head + xp.power(q + 1, -s)
    for k in range(2, _DIRECT_TERMS):
        total += xp.power(q + k, -s)
    a = q + _DIRECT_TERMS
    last = xp.power(a, -s)
    tail = a / (s - 1) + 0.5
    factor, inverse = s / a, 1 / (a * a)
    for k, c in enumerate(_EULER_MACLAURIN):
        tail += c * factor
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) * inverse
    # Where the first term is 0 or infinite the others add nothing but NaN.
    return xp.where((head == 0) | xp.isinf(head), head, total + xp.where(last == 0, 0, last * tail))


@in_float64
@jumps_at_zero
def zeta(xp: Any, s: Array, q: Array) -> Array:
    def positive(s: Array, q: Array) -> Array:
        return _hurwitz(xp, s, q)

    def negative(s: Array, q: Array) -> Array:
        """For integer s: the terms left of 0 are a sum of the same kind in reverse."""
        below = xp.floor(q)
        part = xp.where(q == below, nan, q - below)  # in (0, 1)
        sign = xp.where(xp.fmod(s, 2) == 0, 1.0, -1.0)
        return positive(s, part) + sign * (positive(s, 1 - part) - positive(s, 1 - q))

    whole = (s == xp.floor(s)) & (s > 1)
    even = whole & ((xp.fmod(s, 2) == 0) | xp.isinf(s))
    pole = (q <= 0) & (q == xp.floor(q))
    pieces = [
        (s == 1, inf),
        ((s > 1) & (q > 0), positive),
        (whole & (q < 0) & ~pole, negative),
        (even & pole, inf),
    ]
    return xp.piecewise(s, pieces, q, idle=(2.0, 1.0))


@cache
def _factorials() -> Array:
    return np.array([float(factorial(n)) for n in range(171)])


@in_float64
@jumps_at_zero
def polygamma(xp: Any, n: Array, x: Array) -> Array:
    def higher(n: Array, x: Array) -> Array:
        whole = xp.minimum(n, 171).astype(np.int64)
        size = xp.where(whole > 170, inf, xp.from_numpy(_factorials())[xp.minimum(whole, 170)])
        value = zeta(xp, n + 1, x)
        return xp.where(whole % 2 == 1, 1.0, -1.0) * (size * value)  # NaN for the largest orders: infinity times 0

    whole = (n == xp.floor(n)) & (n > 0)
    return xp.piecewise(n, [(n == 0, lambda n, x: digamma(xp, x)), (whole, higher)], x, idle=(1.0, 1.0))


# -- the incomplete gamma functions ----------------------------------------------------------------------------------
# A Taylor polynomial in the parameter a, lowest power first, is called a jet.
_MANY = 100.0  # from this parameter on, integration is faster than a series and as exact
_HUGE = 1e24  # from here on the normal distribution is as accurate, and float64's resolution too coarse for more
_TINY = 2.2250738585072014e-308  # below it numbers are denormal
_IDLE = (4.0, 4.0)  # where the series and the fraction end soon
_SERIES = [1 / (2 * k + 3) for k in range(17)]


def _excess(xp: Any, u: Array, one_more: Array) -> Array:
    """u - log(1 + u), without cancellation near 0; `one_more` is 1 + u, possibly more accurate than that sum."""

    def near(u: Array, _: Array) -> Array:
        r = u / (2 + u)
        square = r * r
        return r * u - 2 * r * square * polynomial(square, _SERIES)

    close = xp.absolute(u) < 0.5
    return xp.piecewise(u, [(close, near), (~close, lambda u, one_more: u - xp.log(one_more))], one_more)


def _stirling_factor(xp: Any, a: Array) -> Array:
    """The logarithm of gamma(a) over Stirling's formula."""
    return xp.piecewise(
        a,
        [
            (a < 8, lambda a: _lgamma_positive(xp, a) - ((a - 0.5) * xp.log(a) - a + _HALF_LOG_TWO_PI)),
            (a >= 8, _stirling_remainder),
        ],
    )


def _gamma_density(xp: Any, a: Array, x: Array) -> Array:
    """x**a exp(-x) / gamma(a)."""

    def low(a: Array, x: Array) -> Array:
        x = xp.minimum(x, 800.0)  # the exponential is 0 beyond, and the power must stay finite
        return xp.power(x, a) * xp.exp(-x) * a * xp.exp(-a * _lgamma_of_one_more(a))

    def middle(a: Array, x: Array) -> Array:
        return xp.exp(a * xp.log(x) - x - _lgamma_positive(xp, a))

    def high(a: Array, x: Array) -> Array:
        return xp.sqrt(a / (2 * pi)) * xp.exp(-a * _excess(xp, (x - a) / a, x / a) - _stirling_remainder(a))

    return xp.piecewise(a, [(a < 0.5, low), ((a >= 0.5) & (a < 8), middle), (a >= 8, high)], x)


def _lgamma_of_one_more(a: Array) -> Array:
    """log gamma(1 + a) / a, for a < 0.5."""
    return ratio(a + 0.5, table.LGAMMA1)


def _polygamma_of_order(xp: Any, order: int, a: Array) -> Array:
    return polygamma(xp, float(order) * xp.ones_like(a), a)


def _density_jet(xp: Any, a: Array, x: Array, order: int, shift: int = 0) -> list[Array]:
    """The jet of x**a exp(-x) / gamma(a + shift), for a shift of 0 or 1."""
    density = _gamma_density(xp, a, x)
    jet = [density / a if shift else density]
    if order:
        moved = a + shift
        slopes = [xp.log(x) - _digamma_positive(xp, moved)]  # the derivatives of its logarithm, over factorials
        slopes += [-_polygamma_of_order(xp, k, moved) / factorial(k + 1) for k in range(1, order)]
        for n in range(1, order + 1):
            jet.append(sum((k + 1) * slopes[k] * jet[n - 1 - k] for k in range(n)) / n)
    return jet


def _coefficient(p: list[Array], q: list[Array], order: int) -> Array:
    """A coefficient of the product of two jets."""
    return sum(p[k] * q[order - k] for k in range(order + 1))


def _lower_series(xp: Any, a: Array, x: Array, order: int) -> Array:
    """A derivative of P(a, x) with respect to a: the power series, with a jet for each term.

    The density is that of gamma(a + 1), so that nothing is divided by a, which may be small.
    """

    def step(state: Any) -> Any:
        n, term, total = state
        c = a + n
        for k in range(order + 1):  # the jet times x, over c + e, where e is the variable of jets
            term[k] *= x
            if k:
                term[k] -= term[k - 1]
            term[k] /= c
            total[k] += term[k]
        return n + 1, term, total

    def goes_on(state: Any) -> Any:
        n, term, total = state
        return (n < 10000) & (xp.absolute(term[order]) > 1e-17 * xp.absolute(total[order])).any()

    first = (1, *([xp.ones_like(a)] + [xp.zeros_like(a) for _ in range(order)] for _ in range(2)))
    _, _, total = xp.while_loop(goes_on, step, step(first))
    return factorial(order) * _coefficient(total, _density_jet(xp, a, x, order, shift=1), order)


def _jet_quotient(p: list[Array], q: list[Array]) -> list[Array]:
    result: list[Array] = []
    for n in range(len(p)):
        result.append((p[n] - sum(result[k] * q[n - k] for k in range(n))) / q[0])
    return result


def _upper_fraction(xp: Any, a: Array, x: Array, order: int) -> Array:
    """A derivative with respect to a of Q(a, x): the continued fraction, its convergents A / B quotients of jets."""

    def step(state: Any) -> Any:
        n, before, now, value, settled = state
        for _ in range(4):  # A(n) = b A(n-1) - c A(n-2), B likewise
            b, c = x + (2 * n + 1) - a, n * (n - a)
            new: list[list[Array]] = [[], []]
            for jet, last, older in zip(new, now, before, strict=True):
                for k in range(order + 1):
                    t = b * last[k] - c * older[k]
                    if k:  # b and c depend on a
                        t = t - last[k - 1] + n * older[k - 1]
                    jet.append(t)
            before, now, n = now, new, n + 1
        scale = 1 / now[1][0]  # convergents grow without limit
        before = [[t * scale for t in jet] for jet in before]
        now = [[t * scale for t in jet] for jet in now]
        # Converged values are not updated: that would only add rounding errors.
        found = [xp.where(settled, v, t) for v, t in zip(value, _jet_quotient(*now), strict=True)]
        close = xp.absolute(found[order] - value[order]) <= 2e-16 * xp.absolute(found[order])
        return n, before, now, found, settled | close

    zero, one = xp.zeros_like(a), xp.ones_like(a)
    start = [one] + [zero] * order
    linear = [x + 1 - a, -one, *[zero] * order][: order + 1]
    state = (1, [[zero] * (order + 1), start], [start, linear], start, xp.zeros(a.shape, bool))
    *_, value, _ = xp.while_loop(lambda s: (s[0] < 10000) & ~s[4].all(), step, state)
    return factorial(order) * _coefficient(value, _density_jet(xp, a, x, order), order)


def _tail_integral(xp: Any, a: Array, x: Array, order: int) -> Array:
    """For large a: the integral of the density's derivative over the tail beyond x, away from the mode.

    The tail is P for x < a and Q otherwise; it is cut where the density has fallen by exp(-40).
    """
    nodes, weights = gauss_legendre()
    scale, side = xp.sqrt(a), xp.where(x < a, -1.0, 1.0)
    stretch = x / a
    steep = xp.absolute(scale * (stretch - 1) / stretch)  # minus the slope of the log density at x, per `scale`
    width = 80 / (steep + xp.sqrt(steep * steep + 80 / (stretch * stretch)))
    width = xp.where(side < 0, xp.minimum(width, x / scale), width * (1 + width / (2 * scale * stretch)))
    t = x[..., None] + (side * scale * width)[..., None] * nodes
    u = (t - a[..., None]) / a[..., None]
    excess = _excess(xp, u, t / a[..., None])
    density = xp.exp(-a[..., None] * excess - _stirling_remainder(a)[..., None]) / (1 + u)
    if order:
        inverse = 1 / a
        correction = inverse * (0.5 + inverse * ratio(inverse * inverse, table.DIGAMMA8))
        slopes = [xp.log1p(u) + correction[..., None]]
        slopes += [-_polygamma_of_order(xp, k, a)[..., None] for k in range(1, order)]
        bells: list[Array] = [xp.ones_like(u)]  # the complete Bell polynomials of the slopes
        for n in range(order):
            bells.append(sum(comb(n, k) * bells[n - k] * slopes[k] for k in range(n + 1)))
        density = density * bells[order]
    return (density @ weights) * width / sqrt(2 * pi)


def _upper_small(xp: Any, a: Array, x: Array) -> Array:
    """Q(a, x) for small a and x, where 1 - P would cancel."""
    minus = -x

    def step(state: Any) -> Any:
        n, total, power = state
        power *= minus / n
        total += power / (a + n)
        return n + 1, total, power

    _, total, _ = xp.while_loop(lambda s: s[0] < 60, step, (1, xp.zeros_like(x), xp.ones_like(x)))
    log_gamma = xp.piecewise(a, [(a < 0.5, _lgamma_of_one_more), (a >= 0.5, lambda a: _lgamma_positive(xp, 1 + a) / a)])
    exponent = a * xp.log(x) - a * log_gamma
    return -xp.expm1(exponent) - a * xp.exp(exponent) * total


def _igamma_regions(xp: Any, a: Array, x: Array) -> tuple[Array, ...]:
    """Conditions: P underflows, Q underflows, a is huge, both are infinite, and the remaining a, x > 0."""
    positive = (a >= _TINY) & (x > 0)  # smaller numbers have few digits or none, and 0 has no limit
    lost = positive & (a >= 50) & (x < 1e-8 * a)
    gone = positive & (x > 1e8 * xp.maximum(a, 1))
    infinite = positive & xp.isinf(a) & xp.isinf(x)
    huge = positive & (a > _HUGE) & ~lost & ~gone & ~infinite
    return lost, gone, huge, infinite, positive & ~lost & ~gone & ~huge & ~infinite


def _igamma_edges(xp: Any, a: Array, x: Array, upper: bool) -> tuple[Array, Pieces]:
    """Where the general formulas apply, and the limits elsewhere."""
    nothing, everything = (1.0, 0.0) if upper else (0.0, 1.0)
    lost, gone, huge, infinite, inside = _igamma_regions(xp, a, x)
    return inside, [
        (lost, nothing),
        (gone, everything),
        (huge, lambda a, x: xp.ndtr((a - x if upper else x - a) / xp.sqrt(a))),
        (infinite, 0.0),
        ((x == 0) & ((a > 0) | (not upper)), nothing),
    ]


@in_float64
@jumps_at_zero
def igamma(xp: Any, a: Array, x: Array) -> Array:
    """The regularised lower incomplete gamma function P(a, x)."""
    inside, edges = _igamma_edges(xp, a, x, upper=False)
    large = inside & (a >= _MANY)
    series = inside & ~large & ((x <= 1) | (x <= a))
    pieces = [
        *edges,
        (series, lambda a, x: _lower_series(xp, a, x, 0)),
        (inside & ~large & ~series, lambda a, x: 1 - _upper_fraction(xp, a, x, 0)),
        (large & (x < a), lambda a, x: _tail_integral(xp, a, x, 0)),
        (large & (x >= a), lambda a, x: 1 - _tail_integral(xp, a, x, 0)),
    ]
    return xp.piecewise(a, pieces, x, idle=_IDLE)


@in_float64
@jumps_at_zero
def igammac(xp: Any, a: Array, x: Array) -> Array:
    """The regularised upper incomplete gamma function Q(a, x)."""
    inside, edges = _igamma_edges(xp, a, x, upper=True)
    large = inside & (a >= _MANY)
    inside = inside & ~large
    small = inside & (x <= 1.1)
    tiny = small & (xp.where(x < 0.5, -0.4 / xp.log(xp.minimum(x, 0.5)), x / 1.1) >= a)
    fraction = inside & (x > 1.1) & (x >= a)
    pieces = [
        *edges,
        (tiny, lambda a, x: _upper_small(xp, a, x)),
        (fraction, lambda a, x: _upper_fraction(xp, a, x, 0)),
        (inside & ~tiny & ~fraction, lambda a, x: 1 - _lower_series(xp, a, x, 0)),
        (large & (x < a), lambda a, x: 1 - _tail_integral(xp, a, x, 0)),
        (large & (x >= a), lambda a, x: _tail_integral(xp, a, x, 0)),
    ]
    return xp.piecewise(a, pieces, x, idle=_IDLE)


@in_float64
@jumps_at_zero
def igamma_a(xp: Any, a: Array, x: Array, *, order: int) -> Array:
    """The derivative of P(a, x) with respect to a, `order` times."""
    lost, gone, huge, infinite, inside = _igamma_regions(xp, a, x)
    large = inside & (a >= _MANY)
    series = inside & ~large & ((x <= 1) | (x <= a + 1))
    pieces = [
        ((x == 0) | lost | gone | huge | infinite, 0.0),
        (series, lambda a, x: _lower_series(xp, a, x, order)),
        (inside & ~large & ~series, lambda a, x: -_upper_fraction(xp, a, x, order)),
        (large & (x < a), lambda a, x: _tail_integral(xp, a, x, order)),
        (large & (x >= a), lambda a, x: -_tail_integral(xp, a, x, order)),
    ]
    return xp.piecewise(a, pieces, x, idle=_IDLE)


# -- the incomplete beta function ------------------------------------------------------------------------------------
def _beta_density(xp: Any, a: Array, b: Array, x: Array) -> Array:
    """x**a (1 - x)**b / beta(a, b), around the mean, where no large terms cancel."""
    total = a + b
    u = (x * b - (1 - x) * a) / a  # x / mean - 1
    v = ((1 - x) * a - x * b) / b
    exponent = a * _excess(xp, u, x / a * total) + b * _excess(xp, v, (1 - x) / b * total)
    exponent += _stirling_factor(xp, a) + _stirling_factor(xp, b) - _stirling_factor(xp, total)
    return xp.sqrt(a / (2 * pi) * (b / total)) * xp.exp(-exponent)


def _beta_fraction(xp: Any, a: Array, b: Array, x: Array) -> Array:
    """I(x; a, b) for x below the mean, by Lentz's evaluation of the continued fraction."""
    tiny, total = 1e-300, a + b

    def step(state: Any) -> Any:
        m, c, d, result, settled = state
        place = a + 2 * m
        even = m * (b - m) * x / ((place - 1) * place)
        odd = -(a + m) * (total + m) * x / (place * (place + 1))
        for numerator in (even, odd):
            d = 1 + numerator * d
            c = 1 + numerator / c
            d += tiny * (d == 0)
            c += tiny * (c == 0)
            d = 1 / d
            change = c * d
            result *= xp.where(settled, 1.0, change)
        return m + 1, c, d, result, settled | (xp.absolute(change - 1) <= 2e-16)

    first = 1 / (1 - total * x / (a + 1))
    state = (1, xp.ones_like(x), first, first.copy(), xp.zeros(x.shape, bool))
    *_, result, _ = xp.while_loop(lambda s: (s[0] < 20000) & ~s[4].all(), step, state)
    return result * _beta_density(xp, a, b, x) / a


@in_float64
@jumps_at_zero
def betainc(xp: Any, a: Array, b: Array, x: Array) -> Array:
    """The regularised incomplete beta function."""
    good = (a > 0) & (b > 0) & xp.isfinite(a) & xp.isfinite(b)
    low = good & (x > 0) & (x * (a + b + 2) < a + 1)
    high = good & (x < 1) & (x > 0) & ~low
    pieces = [
        (good & (x == 0), 0.0),
        (good & (x == 1), 1.0),
        (low, lambda a, b, x: _beta_fraction(xp, a, b, x)),
        (high, lambda a, b, x: 1 - _beta_fraction(xp, b, a, 1 - x)),
    ]
    return xp.piecewise(a, pieces, b, x, idle=(1.0, 1.0, 0.5))
