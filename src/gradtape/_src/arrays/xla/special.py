"""Special functions on JAX arrays: see numpy_engine/special.py for what each function means.

What XLA has as an instruction (error functions, Bessel's I0 and I1) runs in the array's own dtype. The rest is computed
in float64 from the NumPy engine's tables, because XLA's own gamma family and integrals differ at poles and infinities
or lose digits near zeros. Numbers too small for a dtype's full precision are 0 on XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce, wraps
from math import comb, factorial, log, pi, sqrt
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from gradtape._src.arrays.numpy import special_tables as table
from gradtape._src.arrays.numpy.special import (
    DIGAMMA_ZERO,
    EULER_MACLAURIN,
    EXPINT_ZERO,
    GELU_SCALE,
    GELU_TANH,
    HUGE,
    J0_ZEROS,
    J1_ZERO,
    NO_FRACTION,
    SELU_ALPHA,
    SELU_SCALE,
)
from gradtape._src.arrays.xla.core import sigmoid as _sigmoid

Array = Any
Kernel = Callable[..., Array]
Pieces = Sequence[tuple[Array, Callable[..., Array]]]

_HALF_LOG_TWO_PI = 0.5 * log(2 * pi)
_FACTORIALS = np.array([float(factorial(n)) for n in range(171)])


# -- the frame every kernel runs in ----------------------------------------------------------------------------------
def _in_float64(function: Kernel) -> Kernel:
    """A kernel written for float64 arrays of one shape, for operands of any shapes and floating dtype."""

    @wraps(function)
    def kernel(*operands: Array, **attrs: Any) -> Array:
        dtype = next((a.dtype for a in operands if hasattr(a, "dtype")), np.dtype(np.float64))
        wide = jnp.broadcast_arrays(*(jnp.asarray(a, np.float64) for a in operands))
        return function(*wide, **attrs).astype(dtype)

    return kernel


def _in_single(function: Kernel) -> Kernel:
    """A kernel for one array of any dtype that keeps the dtype: 16 bits are computed in 32."""

    @wraps(function)
    def kernel(x: Array) -> Array:
        x = jnp.asarray(x)
        few = jnp.issubdtype(x.dtype, jnp.floating) and x.dtype.itemsize == 2
        return function(x.astype(np.float32)).astype(x.dtype) if few else function(x)

    return kernel


def _piecewise(x: Array, pieces: Pieces, *others: Array) -> Array:
    """Each formula where its condition holds; NaN where none does."""
    result = jnp.full(x.shape, np.nan)
    for where, formula in pieces:
        result = jnp.where(where, formula(x, *others), result)
    return result


def _piecewise_loops(operands: Sequence[Array], idle: Sequence[float], pieces: Pieces) -> Array:
    """The same for formulas that iterate: none runs for nobody, and elsewhere it gets numbers it has done with soon."""
    result = jnp.full(operands[0].shape, np.nan)
    for where, formula in pieces:

        def fill(result: Array, where: Array = where, formula: Callable[..., Array] = formula) -> Array:
            inputs = [jnp.where(where, a, number) for a, number in zip(operands, idle, strict=True)]
            return jnp.where(where, formula(*inputs), result)

        result = lax.cond(jnp.any(where), fill, lambda result: result, result)
    return result


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    result = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        result = (result + c) * x
    return result + coefficients[0]


def _ratio(x: Array, pair: Sequence[Sequence[float]]) -> Array:
    result = _polynomial(x, pair[0])
    return result / _polynomial(x, pair[1]) if len(pair) > 1 else result


# -- the error function and the normal distribution ------------------------------------------------------------------
erf = _in_single(jax.scipy.special.erf)
erfc = _in_single(jax.scipy.special.erfc)
erfinv = _in_single(jax.scipy.special.erfinv)
ndtri = _in_single(jax.scipy.special.ndtri)


@_in_single
def erfcinv(x: Array) -> Array:
    return -sqrt(0.5) * ndtri(0.5 * x)


@_in_single
def ndtr(x: Array) -> Array:
    return 0.5 * erfc(-sqrt(0.5) * x)


# -- activations -----------------------------------------------------------------------------------------------------
@_in_single
def gelu(x: Array) -> Array:
    return x * ndtr(GELU_SCALE * x)


@_in_single
def gelu_slope(x: Array) -> Array:
    x = GELU_SCALE * x
    bell = (1 / sqrt(2 * pi)) * jnp.exp(-0.5 * x * x)
    return ndtr(x) + x * bell


# With t = tanh(u), (1 + t) / 2 is 1 / (1 + exp(-2 u)): one exponential, where XLA's tanh is a polynomial of many terms.
# The square of an inverse root is a division in two instructions of a GPU, and exact to float32's last bits.
def _gelu_share(x: Array) -> Array:
    scale, cubic = GELU_TANH
    root = lax.rsqrt(1 + jnp.exp(-2 * scale * x * (1 + cubic * x * x)))
    return root * root


@_in_single
def gelu_tanh(x: Array) -> Array:
    return x * _gelu_share(x)


@_in_single
def gelu_tanh_slope(x: Array) -> Array:
    scale, cubic = GELU_TANH
    x = jnp.clip(x, -40, 40)  # 0 or 1 beyond, and infinity must not meet 0
    share = _gelu_share(x)
    return share + (share - share * share) * x * (2 * scale + (6 * cubic * scale) * x * x)


@_in_single
def silu(x: Array) -> Array:
    return x * _sigmoid(x)


def relu6(x: Array) -> Array:
    return jnp.minimum(jnp.maximum(x, 0), 6)


def leaky_relu(x: Array, *, alpha: float) -> Array:
    x = jnp.asarray(x)
    return jnp.maximum(x, alpha * x) if 0 <= alpha <= 1 else jnp.where(x > 0, x, alpha * x)


@_in_single
def elu(x: Array) -> Array:
    return jnp.maximum(x, 0) + jnp.expm1(jnp.minimum(x, 0))


@_in_single
def selu(x: Array) -> Array:
    return SELU_SCALE * jnp.maximum(x, 0) + (SELU_SCALE * SELU_ALPHA) * jnp.expm1(jnp.minimum(x, 0))


def softsign(x: Array) -> Array:
    return x / (1 + jnp.absolute(x))


# -- products and quotients that are 0 where a factor is -------------------------------------------------------------
def divide_no_nan(x: Array, y: Array) -> Array:
    return jnp.where(y == 0, 0, jnp.divide(x, y))


def xlogy(x: Array, y: Array) -> Array:
    return jnp.where(x == 0, 0, x * jnp.log(y))


def xlog1py(x: Array, y: Array) -> Array:
    return jnp.where(x == 0, 0, x * jnp.log1p(y))


def xdivy(x: Array, y: Array) -> Array:
    return jnp.where(x == 0, 0, jnp.divide(x, y))


def truncate_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu":
        # XLA's compiler dies of a division of constants by zero.
        return lax.div(*jnp.broadcast_arrays(x, jnp.where(y == 0, jnp.ones((), y.dtype), y)))
    return jnp.trunc(jnp.divide(x, y))


# -- gamma -----------------------------------------------------------------------------------------------------------
def _stirling_remainder(x: Array) -> Array:
    """log gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 8."""
    inverse = 1 / x
    return inverse * _ratio(inverse * inverse, table.STIRLING)


def _lgamma_positive(x: Array) -> Array:
    return _piecewise(
        x,
        [
            (x < 0.5, lambda x: x * _ratio(x + 0.5, table.LGAMMA1) - jnp.log(x)),
            ((x >= 0.5) & (x < 1.5), lambda x: (x - 1) * _ratio(x - 0.5, table.LGAMMA1)),
            ((x >= 1.5) & (x < 2.5), lambda x: (x - 2) * _ratio(x - 2, table.LGAMMA2)),
            ((x >= 2.5) & (x < 4.5), lambda x: _ratio(x - 3, table.LGAMMA3)),
            ((x >= 4.5) & (x < 8), lambda x: _ratio(x - 4.5, table.LGAMMA6)),
            (x >= 8, lambda x: (x - 0.5) * (jnp.log(x) - 1) + (_HALF_LOG_TWO_PI - 0.5) + _stirling_remainder(x)),
        ],
    )


@_in_float64
def lgamma(x: Array) -> Array:
    def reflected(x: Array) -> Array:
        return jnp.log(pi / jnp.absolute(x * jnp.sin(pi * (x - jnp.rint(x))))) - _lgamma_positive(-x)

    return _piecewise(
        x,
        [
            (x > 0, _lgamma_positive),
            ((x < 0) & (x > -NO_FRACTION), reflected),
            ((x == 0) | (x <= -NO_FRACTION), lambda x: np.inf),
        ],
    )


def _digamma_positive(x: Array) -> Array:
    def root(x: Array) -> Array:
        return ((x - DIGAMMA_ZERO[0]) - DIGAMMA_ZERO[1]) * _ratio(x - 1, table.DIGAMMA1)

    def high(x: Array) -> Array:
        inverse = 1 / x
        return jnp.log(x) - inverse * (0.5 + inverse * _ratio(inverse * inverse, table.DIGAMMA8))

    return _piecewise(
        x,
        [
            (x < 1, lambda x: root(x + 1) - 1 / x),
            ((x >= 1) & (x < 2), root),
            ((x >= 2) & (x < 4), lambda x: _ratio(x - 2, table.DIGAMMA2)),
            ((x >= 4) & (x < 8), lambda x: _ratio(x - 4, table.DIGAMMA4)),
            (x >= 8, high),
        ],
    )


@_in_float64
def digamma(x: Array) -> Array:
    def reflected(x: Array) -> Array:
        part = x - jnp.rint(x)
        return _digamma_positive(1 - x) - jnp.where(part == 0, np.nan, pi / jnp.tan(pi * part))

    return _piecewise(x, [(x > 0, _digamma_positive), ((x < 0) & jnp.isfinite(x), reflected)])


_DIRECT_TERMS = 12


def _hurwitz(s: Array, q: Array) -> Array:
    """The sum of (q + k)**-s over k >= 0, for s > 1 and q > 0: some terms, then Euler and Maclaurin."""
    head = jnp.power(q, -s)
    total = head
    for k in range(1, _DIRECT_TERMS):
        total += jnp.power(q + k, -s)
    a = q + _DIRECT_TERMS
    last = jnp.power(a, -s)
    tail = a / (s - 1) + 0.5
    factor, inverse = s / a, 1 / (a * a)
    for k, c in enumerate(EULER_MACLAURIN):
        tail += c * factor
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) * inverse
    # Where the first term is 0 or infinite the others add nothing but NaN.
    return jnp.where((head == 0) | jnp.isinf(head), head, total + jnp.where(last == 0, 0, last * tail))


@_in_float64
def zeta(s: Array, q: Array) -> Array:
    def negative(s: Array, q: Array) -> Array:
        """For whole s: the terms left of 0 are a sum of the same kind, read backwards."""
        below = jnp.floor(q)
        part = jnp.where(q == below, np.nan, q - below)  # in (0, 1)
        sign = jnp.where(jnp.fmod(s, 2) == 0, 1.0, -1.0)
        return _hurwitz(s, part) + sign * (_hurwitz(s, 1 - part) - _hurwitz(s, 1 - q))

    whole = (s == jnp.floor(s)) & (s > 1)
    even = whole & ((jnp.fmod(s, 2) == 0) | jnp.isinf(s))
    pole = (q <= 0) & (q == jnp.floor(q))
    return _piecewise_loops(
        (s, q),
        (2.0, 1.0),
        [
            (s == 1, lambda s, q: np.inf),
            ((s > 1) & (q > 0), _hurwitz),
            (whole & (q < 0) & ~pole, negative),
            (even & pole, lambda s, q: np.inf),
        ],
    )


@_in_float64
def polygamma(n: Array, x: Array) -> Array:
    def higher(n: Array, x: Array) -> Array:
        whole = jnp.minimum(n, 171).astype(np.int64)
        size = jnp.where(whole > 170, np.inf, jnp.asarray(_FACTORIALS)[jnp.minimum(whole, 170)])
        value = zeta(n + 1, x)
        return jnp.where(whole % 2 == 1, 1.0, -1.0) * (size * value)

    whole = (n == jnp.floor(n)) & (n > 0)
    return _piecewise_loops((n, x), (1.0, 1.0), [(n == 0, lambda n, x: digamma(x)), (whole, higher)])


# -- the incomplete gamma functions ----------------------------------------------------------------------------------
# A Taylor polynomial in the parameter a, lowest power first, is called a jet.
_MANY = 100.0  # from this parameter on, integration is faster than a series and as exact
_IDLE = (4.0, 4.0)  # where the series and the fraction end soon


def _excess(u: Array, ratio: Array) -> Array:
    """u - log(1 + u), without cancellation near 0; `ratio` is 1 + u, which may be known better than that sum."""
    r = u / (2 + u)
    square = r * r
    near = r * u - 2 * r * square * _polynomial(square, [1 / (2 * k + 3) for k in range(17)])
    return jnp.where(jnp.absolute(u) < 0.5, near, u - jnp.log(ratio))


def _stirling_factor(a: Array) -> Array:
    """The logarithm of gamma(a) over Stirling's formula."""
    low = _lgamma_positive(a) - ((a - 0.5) * jnp.log(a) - a + _HALF_LOG_TWO_PI)
    return jnp.where(a < 8, low, _stirling_remainder(a))


def _gamma_density(a: Array, x: Array) -> Array:
    """x**a exp(-x) / gamma(a)."""

    def low(a: Array, x: Array) -> Array:
        x = jnp.minimum(x, 800.0)  # the exponential is 0 beyond, and the power must stay finite
        return jnp.power(x, a) * jnp.exp(-x) * a * jnp.exp(-a * _ratio(a + 0.5, table.LGAMMA1))

    def middle(a: Array, x: Array) -> Array:
        return jnp.exp(a * jnp.log(x) - x - _lgamma_positive(a))

    def high(a: Array, x: Array) -> Array:
        return jnp.sqrt(a / (2 * pi)) * jnp.exp(-a * _excess((x - a) / a, x / a) - _stirling_remainder(a))

    return _piecewise(a, [(a < 0.5, low), ((a >= 0.5) & (a < 8), middle), (a >= 8, high)], x)


def _density_jet(a: Array, x: Array, order: int) -> list[Array]:
    """The jet of x**a exp(-x) / gamma(a)."""
    # The derivatives of its logarithm.
    slopes = [jnp.log(x) - _digamma_positive(a), *(-polygamma(float(k), a) for k in range(1, order))]
    jet = [_gamma_density(a, x)]
    for n in range(1, order + 1):
        jet.append(sum((k + 1) * (slopes[k] / factorial(k + 1)) * jet[n - 1 - k] for k in range(n)) / n)
    return jet


def _jet_times_density(jet: Sequence[Array], a: Array, x: Array, order: int) -> Array:
    """The derivative of the given order of a jet times the density."""
    density = _density_jet(a, x, order)
    return factorial(order) * sum(jet[k] * density[order - k] for k in range(order + 1))


def _lower_series(a: Array, x: Array, order: int) -> Array:
    """A derivative with respect to a of P(a, x): the power series, each term a jet."""

    def divided(jet: Sequence[Array], c: Array) -> list[Array]:
        """A jet over c + e, where e is the variable of jets."""
        result = [jet[0] / c]
        for part in jet[1:]:
            result.append((part - result[-1]) / c)
        return result

    def step(state: Any) -> Any:
        n, term, total = state
        term = divided([t * x for t in term], a + n)
        return n + 1, term, [s + t for s, t in zip(total, term, strict=True)]

    def goes_on(state: Any) -> Array:
        n, term, total = state
        return (n < 10000) & jnp.any(jnp.absolute(term[order]) > 1e-17 * jnp.absolute(total[order]))

    first = divided([jnp.ones_like(a)] + [jnp.zeros_like(a)] * order, a)
    _, _, total = lax.while_loop(goes_on, step, (1, first, first))
    return _jet_times_density(total, a, x, order)


def _upper_fraction(a: Array, x: Array, order: int) -> Array:
    """A derivative with respect to a of Q(a, x): the continued fraction, its convergents A / B quotients of jets."""
    zero, one = jnp.zeros_like(a), jnp.ones_like(a)

    def advance(n: Any, before: list[Array], now: list[Array]) -> list[Array]:
        """A(n) = b(n) A(n-1) - n (n - a) A(n-2), with b(n) = x + 2n + 1 - a; B likewise."""
        b, c = x + (2 * n + 1) - a, n * (n - a)
        return [
            b * now[k] - c * before[k] + (n * before[k - 1] - now[k - 1] if k else 0)  # a moves as well
            for k in range(order + 1)
        ]

    def quotient(p: list[Array], q: list[Array]) -> list[Array]:
        result: list[Array] = []
        for n in range(order + 1):
            result.append((p[n] - sum(result[k] * q[n - k] for k in range(n))) / q[0])
        return result

    def step(state: Any) -> Any:
        n, before, now, value, settled = state
        for _ in range(4):
            before, now = now, [advance(n, old, new) for old, new in zip(before, now, strict=True)]
            scale = 1 / now[1][0]  # convergents grow without limit
            before, now = ([[t * scale for t in jet] for jet in pair] for pair in (before, now))
            n = n + 1
        # What has converged is kept as it is: going on would only add rounding errors.
        new = [jnp.where(settled, v, t) for v, t in zip(value, quotient(*now), strict=True)]
        close = jnp.absolute(new[order] - value[order]) <= 2e-16 * jnp.absolute(new[order])
        return n, before, now, new, settled | close

    start = [one] + [zero] * order
    linear = [x + 1 - a, -one, *[zero] * order][: order + 1]
    state = (1, [[zero] * (order + 1), start], [start, linear], start, jnp.zeros(a.shape, bool))
    *_, value, _ = lax.while_loop(lambda s: (s[0] < 10000) & ~jnp.all(s[4]), step, state)
    return _jet_times_density(value, a, x, order)


def _tail_integral(a: Array, x: Array, order: int) -> Array:
    """For large a: the integral of the density's derivative over the tail beyond x, away from the mode.

    The tail is P for x < a and Q otherwise; it is cut where the density has fallen by exp(-40).
    """
    nodes, weights = np.polynomial.legendre.leggauss(64)
    nodes, weights = (nodes + 1) / 2, weights / 2
    scale, side = jnp.sqrt(a), jnp.where(x < a, -1.0, 1.0)
    stretch = x / a
    steep = jnp.absolute(scale * (stretch - 1) / stretch)  # minus the slope of the log density at x, per `scale`
    width = 80 / (steep + jnp.sqrt(steep * steep + 80 / (stretch * stretch)))
    width = jnp.where(side < 0, jnp.minimum(width, x / scale), width * (1 + width / (2 * scale * stretch)))
    t = x[..., None] + (side * scale * width)[..., None] * nodes
    u = (t - a[..., None]) / a[..., None]
    density = jnp.exp(-a[..., None] * _excess(u, t / a[..., None]) - _stirling_remainder(a)[..., None]) / (1 + u)
    if order:
        inverse = 1 / a
        correction = inverse * (0.5 + inverse * _ratio(inverse * inverse, table.DIGAMMA8))
        slopes = [jnp.log1p(u) + correction[..., None]]
        slopes += [-polygamma(float(k), a)[..., None] for k in range(1, order)]
        bells: list[Array] = [jnp.ones_like(u)]  # the complete Bell polynomials of the slopes
        for n in range(order):
            bells.append(sum(comb(n, k) * bells[n - k] * slopes[k] for k in range(n + 1)))
        density = density * bells[order]
    return jnp.sum(density * weights, axis=-1) * width / sqrt(2 * pi)


def _upper_small(a: Array, x: Array) -> Array:
    """Q(a, x) for small a and x, where 1 - P would cancel."""

    def step(n: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        total, power = state
        power = power * (-x / n)
        return total + power / (a + n), power

    total, _ = lax.fori_loop(1, 60, step, (jnp.zeros_like(x), jnp.ones_like(x)))
    log_gamma = jnp.where(a < 0.5, _ratio(a + 0.5, table.LGAMMA1), _lgamma_positive(1 + a) / a)  # of 1 + a, over a
    exponent = a * jnp.log(x) - a * log_gamma
    return -jnp.expm1(exponent) - a * jnp.exp(exponent) * total


def _igamma_edges(a: Array, x: Array, upper: bool) -> tuple[Array, Pieces]:
    """Where the general formulas hold, and the limits elsewhere."""
    nothing, everything = (1.0, 0.0) if upper else (0.0, 1.0)
    lost, gone, huge, infinite, inside = _igamma_regions(a, x)
    return inside, [
        (lost, lambda a, x: nothing),
        (gone, lambda a, x: everything),
        (huge, lambda a, x: ndtr((a - x if upper else x - a) / jnp.sqrt(a))),
        (infinite, lambda a, x: 0.0),
        ((x == 0) & ((a > 0) | (not upper)), lambda a, x: nothing),
    ]


def _igamma_regions(a: Array, x: Array) -> tuple[Array, ...]:
    """Where P is below the smallest number, where Q is, where a is huge, both infinite, and the rest of a, x > 0."""
    positive = (a > 0) & (x > 0)
    lost = positive & (a >= 50) & (x < 1e-8 * a)
    gone = positive & (x > 1e8 * jnp.maximum(a, 1))
    infinite = positive & jnp.isinf(a) & jnp.isinf(x)
    huge = positive & (a > HUGE) & ~lost & ~gone & ~infinite
    return lost, gone, huge, infinite, positive & ~lost & ~gone & ~huge & ~infinite


@_in_float64
def igamma(a: Array, x: Array) -> Array:
    inside, edges = _igamma_edges(a, x, upper=False)
    large = inside & (a >= _MANY)
    series = inside & ~large & ((x <= 1) | (x <= a))
    return _piecewise_loops(
        (a, x),
        _IDLE,
        [
            *edges,
            (series, lambda a, x: _lower_series(a, x, 0)),
            (inside & ~large & ~series, lambda a, x: 1 - _upper_fraction(a, x, 0)),
            (large & (x < a), lambda a, x: _tail_integral(a, x, 0)),
            (large & (x >= a), lambda a, x: 1 - _tail_integral(a, x, 0)),
        ],
    )


@_in_float64
def igammac(a: Array, x: Array) -> Array:
    inside, edges = _igamma_edges(a, x, upper=True)
    large = inside & (a >= _MANY)
    inside = inside & ~large
    small = inside & (x <= 1.1)
    tiny = small & (jnp.where(x < 0.5, -0.4 / jnp.log(jnp.minimum(x, 0.5)), x / 1.1) >= a)
    fraction = inside & (x > 1.1) & (x >= a)
    return _piecewise_loops(
        (a, x),
        _IDLE,
        [
            *edges,
            (tiny, _upper_small),
            (fraction, lambda a, x: _upper_fraction(a, x, 0)),
            (inside & ~tiny & ~fraction, lambda a, x: 1 - _lower_series(a, x, 0)),
            (large & (x < a), lambda a, x: 1 - _tail_integral(a, x, 0)),
            (large & (x >= a), lambda a, x: _tail_integral(a, x, 0)),
        ],
    )


@_in_float64
def igamma_a(a: Array, x: Array, *, order: int) -> Array:
    *flat, inside = _igamma_regions(a, x)
    large = inside & (a >= _MANY)
    series = inside & ~large & ((x <= 1) | (x <= a + 1))
    return _piecewise_loops(
        (a, x),
        _IDLE,
        [
            (reduce(jnp.logical_or, [x == 0, *flat]), lambda a, x: 0.0),
            (series, lambda a, x: _lower_series(a, x, order)),
            (inside & ~large & ~series, lambda a, x: -_upper_fraction(a, x, order)),
            (large & (x < a), lambda a, x: _tail_integral(a, x, order)),
            (large & (x >= a), lambda a, x: -_tail_integral(a, x, order)),
        ],
    )


# -- the incomplete beta function ------------------------------------------------------------------------------------
def _beta_density(a: Array, b: Array, x: Array) -> Array:
    """x**a (1 - x)**b / beta(a, b), around the mean, where no large terms cancel."""
    total = a + b
    u = (x * b - (1 - x) * a) / a  # x / mean - 1
    v = ((1 - x) * a - x * b) / b
    exponent = a * _excess(u, x / a * total) + b * _excess(v, (1 - x) / b * total)
    exponent += _stirling_factor(a) + _stirling_factor(b) - _stirling_factor(total)
    return jnp.sqrt(a / (2 * pi) * (b / total)) * jnp.exp(-exponent)


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    """I(x; a, b) for x below the mean, by Lentz's evaluation of the continued fraction."""
    tiny = 1e-300

    def step(state: Any) -> Any:
        m, c, d, result, settled = state
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1 + numerator * d
            c = 1 + numerator / c
            d = 1 / jnp.where(d == 0, tiny, d)
            c = jnp.where(c == 0, tiny, c)
            change = c * d
            result = jnp.where(settled, result, result * change)
        return m + 1, c, d, result, settled | (jnp.absolute(change - 1) <= 2e-16)

    first = 1 / (1 - (a + b) * x / (a + 1))
    state = (1, jnp.ones_like(x), first, first, jnp.zeros(x.shape, bool))
    *_, result, _ = lax.while_loop(lambda s: (s[0] < 20000) & ~jnp.all(s[4]), step, state)
    return result * _beta_density(a, b, x) / a


@_in_float64
def betainc(a: Array, b: Array, x: Array) -> Array:
    good = (a > 0) & (b > 0) & jnp.isfinite(a) & jnp.isfinite(b)
    low = good & (x > 0) & (x * (a + b + 2) < a + 1)
    high = good & (x < 1) & (x > 0) & ~low
    return _piecewise_loops(
        (a, b, x),
        (1.0, 1.0, 0.5),
        [
            (good & (x == 0), lambda a, b, x: 0.0),
            (good & (x == 1), lambda a, b, x: 1.0),
            (low, _beta_fraction),
            (high, lambda a, b, x: 1 - _beta_fraction(b, a, 1 - x)),
        ],
    )


# -- Bessel functions ------------------------------------------------------------------------------------------------
bessel_i0e = _in_single(lax.bessel_i0e)
bessel_i1e = _in_single(lax.bessel_i1e)


def _unscale(value: Array, x: Array) -> Array:
    """A value times exp(|x|), in two halves: the product can be finite where the exponential is not."""
    half = jnp.exp(0.5 * jnp.absolute(x))
    return jnp.where(jnp.isinf(x), jnp.copysign(np.inf, value), value * half * half)


@_in_float64
def bessel_i0(x: Array) -> Array:
    return _unscale(bessel_i0e(x), x)


@_in_float64
def bessel_i1(x: Array) -> Array:
    return _unscale(bessel_i1e(x), x)


def _power_series(x: Array, quarter: Array, order: int, terms: int) -> Array:
    """The sum over k of (x / 2)**order quarter**k / (k! (k + order)!)."""

    def step(k: Any, state: tuple[Array, Array]) -> tuple[Array, Array]:
        term, total = state
        term = term * quarter / (k * (k + order))
        return term, total + term

    first = jnp.power(x / 2, order) / factorial(order)
    return lax.fori_loop(1, terms, step, (first, first))[1]


@_in_float64
def bessel_in(x: Array, *, order: int, scaled: bool) -> Array:
    def series(x: Array) -> Array:
        return jnp.exp(-jnp.absolute(x)) * _power_series(x, x * x / 4, order, 60 + order)

    def recurrence(x: Array) -> Array:
        before, now = bessel_i0e(x), bessel_i1e(x)
        for k in range(1, order):
            before, now = now, before - 2 * k / x * now
        return now

    near = jnp.absolute(x) < max(20, order * order / 2)
    value = jnp.where(near, series(x), recurrence(x))
    return value if scaled else _unscale(value, x)


@_in_float64
def bessel_k0e(x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        return jnp.exp(x) * (_ratio(square, table.K0_LOW) - jnp.log(x / 2) * _ratio(square / 4, table.I0_LOW))

    return _piecewise(x, [((x >= 0) & (x <= 2), low), (x > 2, lambda x: _ratio(1 / x, table.K0_HIGH) / jnp.sqrt(x))])


@_in_float64
def bessel_k1e(x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        logarithmic = jnp.log(x / 2) * (x * _ratio(square / 4, table.I1_LOW))
        return jnp.exp(x) * (jnp.where(x == 0, 0, logarithmic) + _ratio(square, table.K1_LOW) / x)

    return _piecewise(x, [((x >= 0) & (x <= 2), low), (x > 2, lambda x: _ratio(1 / x, table.K1_HIGH) / jnp.sqrt(x))])


@_in_float64
def bessel_k0(x: Array) -> Array:
    return bessel_k0e(x) * jnp.exp(-x)


@_in_float64
def bessel_k1(x: Array) -> Array:
    return bessel_k1e(x) * jnp.exp(-x)


def _waves(x: Array, p: Any, q: Any) -> tuple[Array, Array, Array]:
    """For x >= 5 the slowly varying P and Q of the asymptotic form, and its amplitude."""
    inverse = 1 / x
    variable = 25 * inverse * inverse
    return _ratio(variable, p), _ratio(variable, q) * inverse, jnp.sqrt(inverse / pi)


@_in_float64
def bessel_j0(x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        (first, first_rest), (second, second_rest) = J0_ZEROS
        zeros = ((square - first) - first_rest) * ((square - second) - second_rest)
        return zeros * _ratio(square, table.J0_LOW)

    def high(x: Array) -> Array:
        p, q, size = _waves(x, table.P0, table.Q0)
        sine, cosine = jnp.sin(x), jnp.cos(x)
        return size * (p * (cosine + sine) - q * (sine - cosine))

    x = jnp.absolute(x)
    return _piecewise(x, [(x <= 5, low), ((x > 5) & jnp.isfinite(x), high), (jnp.isinf(x), jnp.zeros_like)])


@_in_float64
def bessel_j1(x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        return x * ((square - J1_ZERO[0]) - J1_ZERO[1]) * _ratio(square, table.J1_LOW)

    def high(x: Array) -> Array:
        size_of_x = jnp.absolute(x)
        p, q, size = _waves(size_of_x, table.P1, table.Q1)
        sine, cosine = jnp.sin(size_of_x), jnp.cos(size_of_x)
        return jnp.sign(x) * size * (p * (sine - cosine) + q * (sine + cosine))

    size = jnp.absolute(x)
    return _piecewise(x, [(size <= 5, low), ((size > 5) & jnp.isfinite(x), high), (jnp.isinf(x), jnp.zeros_like)])


@_in_float64
def bessel_jn(x: Array, *, order: int) -> Array:
    def recurrence(x: Array) -> Array:
        before, now = bessel_j0(x), bessel_j1(x)
        for k in range(1, order):
            before, now = now, 2 * k / x * now - before
        return now

    series = _power_series(x, -x * x / 4, order, 30 + 2 * order)
    return jnp.where(jnp.absolute(x) < order + 1, series, recurrence(x))


@_in_float64
def bessel_y0(x: Array) -> Array:
    def high(x: Array) -> Array:
        p, q, size = _waves(x, table.P0, table.Q0)
        sine, cosine = jnp.sin(x), jnp.cos(x)
        return size * (p * (sine - cosine) + q * (cosine + sine))

    return _piecewise(
        x,
        [
            ((x >= 0) & (x <= 5), lambda x: _ratio(x * x, table.Y0_LOW) + 2 / pi * jnp.log(x) * bessel_j0(x)),
            ((x > 5) & jnp.isfinite(x), high),
            (jnp.isposinf(x), jnp.zeros_like),
        ],
    )


@_in_float64
def bessel_y1(x: Array) -> Array:
    def low(x: Array) -> Array:
        logarithmic = jnp.where(x == 0, 0, jnp.log(x) * bessel_j1(x))
        return x * _ratio(x * x, table.Y1_LOW) + 2 / pi * (logarithmic - 1 / x)

    def high(x: Array) -> Array:
        p, q, size = _waves(x, table.P1, table.Q1)
        sine, cosine = jnp.sin(x), jnp.cos(x)
        return size * (q * (sine - cosine) - p * (sine + cosine))

    return _piecewise(
        x, [((x >= 0) & (x <= 5), low), ((x > 5) & jnp.isfinite(x), high), (jnp.isposinf(x), jnp.zeros_like)]
    )


# -- integrals -------------------------------------------------------------------------------------------------------
@_in_float64
def dawsn(x: Array) -> Array:
    size = jnp.absolute(x)
    return _piecewise(
        x,
        [
            (size <= 2, lambda x: x * _ratio(x * x, table.DAWSN_A)),
            ((size > 2) & (size <= 4), lambda x: _ratio(jnp.absolute(x) - 3, table.DAWSN_B) / x),
            ((size > 4) & (size <= 7), lambda x: _ratio(jnp.absolute(x) - 5.5, table.DAWSN_C) / x),
            (size > 7, lambda x: _ratio(1 / (x * x), table.DAWSN_D) / x),
        ],
    )


@_in_float64
def expint(x: Array) -> Array:
    def low(x: Array) -> Array:
        distance = (x - EXPINT_ZERO[0]) - EXPINT_ZERO[1]
        close = jnp.absolute(distance) < 0.1
        near = jnp.log1p(jnp.where(close, distance, 0) / EXPINT_ZERO[0])
        logarithm = jnp.where(close, near, jnp.log(x / EXPINT_ZERO[0]))
        return distance * _ratio(6 - x, table.EI_A) + logarithm

    def scaled(formula: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def whole(x: Array) -> Array:
            half = jnp.exp(0.5 * x)  # the quotient can be finite where the exponential is not
            return half / x * formula(x) * half

        return whole

    return _piecewise(
        x,
        [
            ((x >= 0) & (x <= 6), low),
            ((x > 6) & (x <= 10), scaled(lambda x: _ratio(x, table.EI_B))),
            ((x > 10) & (x <= 20), scaled(lambda x: _ratio(x, table.EI_C))),
            ((x > 20) & (x <= 40), scaled(lambda x: _ratio(1 / x - 0.025, table.EI_D))),
            ((x > 40) & (x < 1000), scaled(lambda x: _ratio(1 / x, table.EI_E))),
            (x >= 1000, lambda x: np.inf),
        ],
    )


@_in_single
def fresnel_sin(x: Array) -> Array:
    return jax.scipy.special.fresnel(x)[0]


@_in_single
def fresnel_cos(x: Array) -> Array:
    return jax.scipy.special.fresnel(x)[1]


@_in_float64
def spence(x: Array) -> Array:
    def middle(x: Array) -> Array:
        return (1 - x) * _ratio(x - 0.5, table.SPENCE)

    def low(x: Array) -> Array:
        return pi * pi / 6 - jnp.where(x == 0, 0, jnp.log(x) * jnp.log1p(-x)) - middle(1 - x)

    def high(x: Array) -> Array:
        return -0.5 * jnp.square(jnp.log(x)) - low(1 / x)

    return _piecewise(x, [((x >= 0) & (x < 0.5), low), ((x >= 0.5) & (x <= 2), middle), (x > 2, high)])


# -- bits ------------------------------------------------------------------------------------------------------------
def shift_left(x: Array, y: Array) -> Array:
    return jnp.left_shift(x, jnp.clip(y, 0, x.dtype.itemsize * 8 - 1))


def shift_right(x: Array, y: Array) -> Array:
    return jnp.right_shift(x, jnp.clip(y, 0, x.dtype.itemsize * 8 - 1))
