"""Special functions that NumPy lacks: error functions, the gamma and beta families, Bessel functions, integrals.

Every function is computed in float64, from rational approximations of our own (see `special_tables`), series and
continued fractions, whole arrays at a time; the lower dtypes are rounded from that. Where speed matters most (erf and
gelu in float32) there is a float32 path as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, wraps
from math import factorial, log, pi, sqrt
from typing import Any

import numpy as np

from gradtape._src.arrays.numpy import special_tables as table
from gradtape._src.arrays.numpy.core import sigmoid as _sigmoid

Array = Any
Kernel = Callable[..., Array]
Pieces = Sequence[tuple[Array, Callable[..., Array]]]

_BLOCK = 8192  # elements at a time: a block and its temporaries stay in the processor's cache
_HALF_LOG_TWO_PI = 0.5 * log(2 * pi)
_SQRT_HALF = sqrt(0.5)
_FLOAT32 = np.dtype(np.float32)


# -- the frame every kernel runs in ----------------------------------------------------------------------------------
def _in_float64(function: Kernel) -> Kernel:
    """A kernel written for flat float64 arrays, for operands of any shape and floating dtype, in blocks."""

    @wraps(function)
    def kernel(*operands: Array, **attrs: Any) -> Array:
        # A Python number takes the dtype of the arrays beside it, as everywhere in NumPy.
        dtype = next((a.dtype for a in operands if hasattr(a, "dtype")), np.dtype(np.float64))
        arrays = [np.asarray(a.real if getattr(a, "dtype", dtype).kind == "c" else a) for a in operands]
        shape = arrays[0].shape if len(arrays) == 1 else np.broadcast_shapes(*(a.shape for a in arrays))
        flat = [np.ravel(a if a.shape == shape else np.broadcast_to(a, shape)) for a in arrays]
        size = flat[0].size
        result = np.empty(size, dtype if dtype.kind in "fV" else np.float64)
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            result[start:stop] = function(*(a[start:stop].astype(np.float64) for a in flat), **attrs)
        return result.reshape(shape)

    return kernel


def _in_blocks(function: Kernel) -> Kernel:
    """A kernel for one array of any floating dtype that keeps the dtype: large arrays in blocks, 16 bits by 32."""

    @wraps(function)
    def kernel(x: Array) -> Array:
        if x.dtype.kind not in "fV":
            return function(x)
        if x.dtype.itemsize == 2:
            return kernel(x.astype(np.float32)).astype(x.dtype)
        if x.size <= 2 * _BLOCK:
            return function(x)
        flat = np.ravel(x)
        result = np.empty_like(flat)
        for start in range(0, flat.size, _BLOCK):
            result[start : start + _BLOCK] = function(flat[start : start + _BLOCK])
        return result.reshape(x.shape)

    return kernel


def _piecewise(x: Array, pieces: Pieces, *others: Array) -> Array:
    """Each formula where its condition holds; NaN where none does."""
    result = np.full(x.shape, np.nan)
    for where, formula in pieces:
        if where.all():
            result = formula(x, *others)
        elif where.any():
            result[where] = formula(x[where], *(a[where] for a in others))
    return result


def _polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    result = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        result += c
        result *= x
    result += coefficients[0]
    return result


def _ratio(x: Array, pair: Sequence[Sequence[float]]) -> Array:
    result = _polynomial(x, pair[0])
    if len(pair) > 1:
        result /= _polynomial(x, pair[1])
    return result


def _odd(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """f(-x) = -f(x), from f on positive numbers."""
    return lambda x: np.copysign(function(np.absolute(x)), x)


# -- the error function and the normal distribution ------------------------------------------------------------------
def _exp_minus_square(x: Array) -> Array:
    """exp(-x²) to full precision: x² is split, because its rounding error would be blown up by the exponential."""
    high = np.rint(x * 16) / 16
    return np.exp(-high * high) * np.exp((high - x) * (high + x))


def _erf_low(x: Array) -> Array:
    return x * _ratio(x * x, table.ERF)


def _erfcx(x: Array) -> Array:
    """exp(x²) erfc(x) for x >= 0.5."""
    return _piecewise(
        x,
        [
            (x < 2, lambda x: _ratio(x, table.ERFCX_LOW)),
            ((x >= 2) & (x < 6), lambda x: _ratio(x, table.ERFCX_MID)),
            (x >= 6, lambda x: _ratio(1 / (x * x), table.ERFCX_HIGH) / x),
        ],
    )


def _erfc_high(x: Array) -> Array:
    x = np.minimum(x, 28.0)  # it is 0 from there on
    return _exp_minus_square(x) * _erfcx(x)


@_in_float64
def _erf_64(x: Array) -> Array:
    size = np.absolute(x)
    return _piecewise(
        x, [(size < 1, _erf_low), ((size >= 1) & (size < 6), _odd(lambda x: 1 - _erfc_high(x))), (size >= 6, np.sign)]
    )


def erf(x: Array) -> Array:
    return _erf_32(x) if x.dtype == _FLOAT32 else _erf_64(x)


@_in_blocks
def _erf_32(x: Array) -> Array:
    clipped = np.clip(x, -3.925, 3.925)
    return np.clip(clipped * _ratio(clipped * clipped, table.ERF32), -1, 1)


@_in_float64
def erfc(x: Array) -> Array:
    return _piecewise(
        x,
        [
            (np.absolute(x) < 0.5, lambda x: 1 - _erf_low(x)),
            (x >= 0.5, _erfc_high),
            (x <= -0.5, lambda x: 2 - _erfc_high(-x)),
        ],
    )


def _erfcinv_tail(y: Array) -> Array:
    """The x whose erfc is y, for 0 <= y <= 0.25."""
    r = np.sqrt(-np.log(y))
    return _piecewise(
        r,
        [
            (r < 2.2, lambda r: _ratio(r, table.ERFCINV_A)),
            ((r >= 2.2) & (r < 6.2), lambda r: _ratio(r, table.ERFCINV_B)),
            ((r >= 6.2) & (r < 30), lambda r: _ratio(r, table.ERFCINV_C)),
            (r >= 30, np.positive),  # only y = 0
        ],
    )


def _erfinv_low(x: Array) -> Array:
    return x * _ratio(0.5625 - x * x, table.ERFINV)


@_in_float64
def erfinv(x: Array) -> Array:
    size = np.absolute(x)
    return _piecewise(
        x,
        [(size <= 0.75, _erfinv_low), ((size > 0.75) & (size <= 1), _odd(lambda x: _erfcinv_tail(1 - x)))],
    )


@_in_float64
def erfcinv(x: Array) -> Array:
    return _piecewise(
        x,
        [
            ((x >= 0) & (x < 0.25), _erfcinv_tail),
            ((x >= 0.25) & (x <= 1.75), lambda x: _erfinv_low(1 - x)),
            ((x > 1.75) & (x <= 2), lambda x: -_erfcinv_tail(2 - x)),
        ],
    )


@_in_float64
def ndtri(x: Array) -> Array:
    """The normal distribution's quantile."""
    return sqrt(2) * _piecewise(
        x,
        [
            ((x >= 0) & (x < 0.125), lambda p: -_erfcinv_tail(2 * p)),
            ((x >= 0.125) & (x <= 0.875), lambda p: _erfinv_low(2 * p - 1)),
            ((x > 0.875) & (x <= 1), lambda p: _erfcinv_tail(2 * (1 - p))),
        ],
    )


@_in_float64
def _ndtr_64(x: Array) -> Array:
    def tail(x: Array) -> Array:
        x = np.minimum(x, 40.0)
        high = np.rint(x * 16) / 16  # as in _exp_minus_square, but of x itself: x / sqrt(2) is rounded
        bell = np.exp(-0.5 * high * high) * np.exp(0.5 * (high - x) * (high + x))
        return 0.5 * bell * _erfcx(_SQRT_HALF * x)

    return _piecewise(
        x,
        [
            (np.absolute(x) < 0.75, lambda x: 0.5 + 0.5 * _erf_low(_SQRT_HALF * x)),
            (x <= -0.75, lambda x: tail(-x)),
            (x >= 0.75, lambda x: 1 - tail(x)),
        ],
    )


def _ndtr_parts_32(x: Array) -> tuple[Array, Array]:
    """The normal distribution function and exp(-x²/2) in float32, exact in the left tail too."""
    size = np.minimum(np.absolute(x), 15)
    bell = np.exp(-0.5 * size * size)
    t = np.reciprocal(1 + 0.35 * size)
    tail = _polynomial(t, table.NDTR32[0])
    tail *= t
    tail *= bell
    # Without np.where, which costs more than all the rest where signs are random.
    return np.copysign(tail, -x) + ~np.signbit(x), bell


def ndtr(x: Array) -> Array:
    """The normal distribution function."""
    return _ndtr_parts_32(x)[0] if x.dtype == _FLOAT32 else _ndtr_64(x)


# -- activations -----------------------------------------------------------------------------------------------------
# TensorFlow's gelu rounds one constant of each formula to float32 whatever the dtype; so do these, to be equal to it in
# float64 as well. (With 1 and 0.044715 they would be exact.)
GELU_SCALE = sqrt(2) * float(np.float32(sqrt(0.5)))
GELU_TANH = (sqrt(2 / pi), float(np.float32(0.044715)))


@_in_blocks
def gelu(x: Array) -> Array:
    return x * ndtr(x if x.dtype == _FLOAT32 else GELU_SCALE * x)  # at minus infinity NaN, as TensorFlow's


@_in_blocks
def gelu_slope(x: Array) -> Array:
    """The derivative of gelu: Φ(x) + x φ(x)."""
    if x.dtype == _FLOAT32:
        cumulative, bell = _ndtr_parts_32(x)
    else:
        x = GELU_SCALE * x
        cumulative, bell = _ndtr_64(x), np.exp(-0.5 * x * x)
    bell *= 1 / sqrt(2 * pi)
    bell *= x  # at infinity NaN, as TensorFlow's
    return cumulative + bell


@_in_blocks
def gelu_tanh(x: Array) -> Array:
    """gelu by a formula with tanh."""
    scale, cubic = GELU_TANH
    inner = x * x
    inner *= cubic
    inner += 1
    inner *= x
    inner *= scale
    inner = np.tanh(inner)
    inner += 1
    inner *= 0.5 * x
    return inner


@_in_blocks
def gelu_tanh_slope(x: Array) -> Array:
    """The derivative of gelu_tanh: (1 + t + x (1 - t²) u') / 2 with t = tanh(u)."""
    scale, cubic = GELU_TANH
    x = np.clip(x, -40, 40)  # 0 or 1 beyond, and infinity must not meet 0
    square = x * x
    t = np.tanh(x * (scale + (cubic * scale) * square))
    slope = square
    slope *= 3 * cubic * scale
    slope += scale
    slope *= x
    slope -= slope * t * t
    slope += t
    slope += 1
    slope *= 0.5
    return slope


@_in_blocks
def silu(x: Array) -> Array:
    return np.multiply(x, _sigmoid(x))


def relu6(x: Array) -> Array:
    return np.minimum(np.maximum(x, 0), 6)


def leaky_relu(x: Array, *, alpha: float) -> Array:
    below = x * x.dtype.type(alpha)  # a Python number would widen bfloat16
    return np.maximum(x, below) if 0 <= alpha <= 1 else np.where(x > 0, x, below)


@_in_blocks
def elu(x: Array) -> Array:
    return np.maximum(x, 0) + np.expm1(np.minimum(x, 0))


SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


@_in_blocks
def selu(x: Array) -> Array:
    return SELU_SCALE * np.maximum(x, 0) + (SELU_SCALE * SELU_ALPHA) * np.expm1(np.minimum(x, 0))


def softsign(x: Array) -> Array:
    return x / (1 + np.absolute(x))


# -- products and quotients that are 0 where a factor is -------------------------------------------------------------
def _where_zero(zero: Array, value: Array) -> Array:
    """The value, and 0 where `zero` holds."""
    if not np.any(zero):
        return value
    return np.where(zero, np.zeros((), value.dtype), value)


def divide_no_nan(x: Array, y: Array) -> Array:
    return _where_zero(np.equal(y, 0), np.divide(x, y))


def xlogy(x: Array, y: Array) -> Array:
    return _where_zero(np.equal(x, 0), x * np.log(y))


def xlog1py(x: Array, y: Array) -> Array:
    return _where_zero(np.equal(x, 0), x * np.log1p(y))


def xdivy(x: Array, y: Array) -> Array:
    return _where_zero(np.equal(x, 0), np.divide(x, y))


def truncate_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.trunc(np.divide(x, y))
    quotient = np.floor_divide(x, y)  # no floating point on the way: int64 does not fit
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)


# -- gamma -----------------------------------------------------------------------------------------------------------
DIGAMMA_ZERO = (1.4616321449683622, 9.549995429965697e-17)


def _stirling_remainder(x: Array) -> Array:
    """log gamma(x) - ((x - 1/2) log x - x + log(2 pi) / 2), for x >= 8."""
    inverse = 1 / x
    return inverse * _ratio(inverse * inverse, table.STIRLING)


def _lgamma_positive(x: Array) -> Array:
    return _piecewise(
        x,
        [
            (x < 0.5, lambda x: x * _ratio(x + 0.5, table.LGAMMA1) - np.log(x)),
            ((x >= 0.5) & (x < 1.5), lambda x: (x - 1) * _ratio(x - 0.5, table.LGAMMA1)),
            ((x >= 1.5) & (x < 2.5), lambda x: (x - 2) * _ratio(x - 2, table.LGAMMA2)),
            ((x >= 2.5) & (x < 4.5), lambda x: _ratio(x - 3, table.LGAMMA3)),
            ((x >= 4.5) & (x < 8), lambda x: _ratio(x - 4.5, table.LGAMMA6)),
            (x >= 8, lambda x: (x - 0.5) * (np.log(x) - 1) + (_HALF_LOG_TWO_PI - 0.5) + _stirling_remainder(x)),
        ],
    )


NO_FRACTION = 2.0**52  # every number of this size is whole, so that all negative ones are poles


def _lgamma_64(x: Array) -> Array:
    """Log |gamma(x)|: reflected for negative numbers, infinite at the poles."""

    def reflected(x: Array) -> Array:
        return np.log(pi / np.absolute(x * np.sin(pi * (x - np.rint(x))))) - _lgamma_positive(-x)

    return _piecewise(
        x,
        [
            (x > 0, _lgamma_positive),
            ((x < 0) & (x > -NO_FRACTION), reflected),
            ((x == 0) | (x <= -NO_FRACTION), lambda x: np.full(x.shape, np.inf)),
        ],
    )


lgamma = _in_float64(_lgamma_64)


def _digamma_positive(x: Array) -> Array:
    def root(x: Array) -> Array:
        return ((x - DIGAMMA_ZERO[0]) - DIGAMMA_ZERO[1]) * _ratio(x - 1, table.DIGAMMA1)

    def high(x: Array) -> Array:
        inverse = 1 / x
        return np.log(x) - inverse * (0.5 + inverse * _ratio(inverse * inverse, table.DIGAMMA8))

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


def _digamma_64(x: Array) -> Array:
    """NaN at the poles, whose two sides disagree."""

    def reflected(x: Array) -> Array:
        part = x - np.rint(x)
        return _digamma_positive(1 - x) - np.where(part == 0, np.nan, pi / np.tan(pi * part))

    return _piecewise(x, [(x > 0, _digamma_positive), ((x < 0) & np.isfinite(x), reflected)])


digamma = _in_float64(_digamma_64)

# The numbers B(2k) / (2k)! of the Euler-Maclaurin formula.
EULER_MACLAURIN = (
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


def _hurwitz(s: Array, q: Array) -> Array:
    """The sum of (q + k)**-s over k >= 0, for s > 1 and q > 0: some terms, then Euler and Maclaurin."""
    total = np.power(q, -s)
    head = total.copy()
    for k in range(1, _DIRECT_TERMS):
        total += np.power(q + k, -s)
    a = q + _DIRECT_TERMS
    last = np.power(a, -s)
    tail = a / (s - 1) + 0.5
    factor, inverse = s / a, 1 / (a * a)
    for k, c in enumerate(EULER_MACLAURIN):
        tail += c * factor
        factor *= (s + 2 * k + 1) * (s + 2 * k + 2) * inverse
    # Where the first term is 0 or infinite the others add nothing but NaN.
    return np.where((head == 0) | np.isinf(head), head, total + np.where(last == 0, 0, last * tail))


def _zeta_64(s: Array, q: Array) -> Array:
    def negative(s: Array, q: Array) -> Array:
        """For whole s: the terms left of 0 are a sum of the same kind, read backwards."""
        below = np.floor(q)
        part = np.where(q == below, np.nan, q - below)  # in (0, 1)
        sign = np.where(np.fmod(s, 2) == 0, 1.0, -1.0)
        return _hurwitz(s, part) + sign * (_hurwitz(s, 1 - part) - _hurwitz(s, 1 - q))

    whole = (s == np.floor(s)) & (s > 1)
    even = whole & ((np.fmod(s, 2) == 0) | np.isinf(s))
    pole = (q <= 0) & (q == np.floor(q))
    return _piecewise(
        s,
        [
            (s == 1, lambda s, q: np.full(s.shape, np.inf)),
            ((s > 1) & (q > 0), _hurwitz),
            (whole & (q < 0) & ~pole, negative),
            (even & pole, lambda s, q: np.full(s.shape, np.inf)),
        ],
        q,
    )


zeta = _in_float64(_zeta_64)


@cache
def _factorials() -> Array:
    return np.array([float(factorial(n)) for n in range(171)])


def _polygamma_64(n: Array, x: Array) -> Array:
    def higher(n: Array, x: Array) -> Array:
        whole = np.minimum(n, 171).astype(np.int64)
        size = np.where(whole > 170, np.inf, _factorials()[np.minimum(whole, 170)])
        value = _zeta_64(n + 1, x)
        return np.where(whole % 2 == 1, 1.0, -1.0) * (size * value)  # of the largest orders NaN: infinity times 0

    whole = n == np.floor(n)
    return _piecewise(n, [(n == 0, lambda n, x: _digamma_64(x)), (whole & (n > 0), higher)], x)


polygamma = _in_float64(_polygamma_64)


# -- the incomplete gamma functions ----------------------------------------------------------------------------------
_MANY = 100.0  # from this parameter on, integration is faster than a series and as exact


def _excess(u: Array, ratio: Array) -> Array:
    """u - log(1 + u), without cancellation near 0; `ratio` is 1 + u, which may be known better than that sum."""

    def near(u: Array, ratio: Array) -> Array:
        r = u / (2 + u)
        square = r * r
        return r * u - 2 * r * square * _polynomial(square, [1 / (2 * k + 3) for k in range(17)])

    close = np.absolute(u) < 0.5
    return _piecewise(u, [(close, near), (~close, lambda u, ratio: u - np.log(ratio))], ratio)


def _stirling_factor(a: Array) -> Array:
    """The logarithm of gamma(a) over Stirling's formula."""
    return _piecewise(
        a,
        [
            (a < 8, lambda a: _lgamma_positive(a) - ((a - 0.5) * np.log(a) - a + _HALF_LOG_TWO_PI)),
            (a >= 8, _stirling_remainder),
        ],
    )


def _gamma_density(a: Array, x: Array) -> Array:
    """x**a exp(-x) / gamma(a)."""

    def low(a: Array, x: Array) -> Array:
        x = np.minimum(x, 800.0)  # the exponential is 0 beyond, and the power must stay finite
        return np.power(x, a) * np.exp(-x) * a * np.exp(-a * _ratio_lgamma_one(a))

    def middle(a: Array, x: Array) -> Array:
        return np.exp(a * np.log(x) - x - _lgamma_positive(a))

    def high(a: Array, x: Array) -> Array:
        return np.sqrt(a / (2 * pi)) * np.exp(-a * _excess((x - a) / a, x / a) - _stirling_remainder(a))

    return _piecewise(a, [(a < 0.5, low), ((a >= 0.5) & (a < 8), middle), (a >= 8, high)], x)


def _ratio_lgamma_one(a: Array) -> Array:
    """log gamma(1 + a) / a, for a < 0.5."""
    return _ratio(a + 0.5, table.LGAMMA1)


def _shape_slopes(a: Array, x: Array, order: int) -> list[Array]:
    """The derivatives of log(x**a exp(-x) / gamma(a)) with respect to a, from the first to `order`."""
    return [np.log(x) - _digamma_positive(a)] + [-_polygamma_64(np.full(a.shape, float(k)), a) for k in range(1, order)]


def _density_jet(a: Array, x: Array, order: int, shift: int = 0) -> list[Array]:
    """Taylor coefficients in a of x**a exp(-x) / gamma(a + shift), for a shift of 0 or 1."""
    jet = [_gamma_density(a, x) / a if shift else _gamma_density(a, x)]
    if order:
        slopes = [slope / factorial(k + 1) for k, slope in enumerate(_shape_slopes(a + shift, x, order))]
        for n in range(1, order + 1):
            jet.append(sum((k + 1) * slopes[k] * jet[n - 1 - k] for k in range(n)) / n)
    return jet


def _jet_product(p: list[Array], q: list[Array]) -> list[Array]:
    return [sum(p[k] * q[n - k] for k in range(n + 1)) for n in range(len(p))]


def _jet_quotient(p: list[Array], q: list[Array]) -> list[Array]:
    result: list[Array] = []
    for n in range(len(p)):
        result.append((p[n] - sum(result[k] * q[n - k] for k in range(n))) / q[0])
    return result


def _lower_series(a: Array, x: Array, order: int) -> Array:
    """A derivative with respect to a of P(a, x): the power series, each term a Taylor polynomial in a.

    The density is that of gamma(a + 1), so that nothing is divided by a, which may be small.
    """
    term = [np.ones_like(a)] + [np.zeros_like(a) for _ in range(order)]
    total = [t.copy() for t in term]
    for n in range(1, 10000):
        for t in term:
            t *= x
        _divide_by_shifted(term, a + n)
        for s, t in zip(total, term, strict=True):
            s += t
        if np.all(np.absolute(term[order]) <= 1e-17 * np.absolute(total[order])):
            break
    return factorial(order) * _jet_product(total, _density_jet(a, x, order, shift=1))[order]


def _divide_by_shifted(jet: list[Array], c: Array) -> None:
    """Divide a Taylor polynomial in e by c + e, in place."""
    jet[0] /= c
    for k in range(1, len(jet)):
        jet[k] -= jet[k - 1]
        jet[k] /= c


def _upper_fraction(a: Array, x: Array, order: int) -> Array:
    """A derivative with respect to a of Q(a, x): the continued fraction, its convergents Taylor polynomials in a."""
    zero, one = np.zeros_like(a), np.ones_like(a)
    # A(n) = b(n) A(n-1) - n (n - a) A(n-2), with b(n) = x + 2n + 1 - a; B likewise.
    before = [[zero] * (order + 1), [one] + [zero] * order]  # A, B at -1 ...
    b = x + 1 - a
    now = [[one] + [zero] * order, [b] + ([-one] if order else []) + [zero] * max(order - 1, 0)]  # ... and at 0
    value = now[0]
    settled = np.zeros(a.shape, bool)
    for n in range(1, 10000):
        b = x + (2 * n + 1) - a
        c = n * (n - a)
        for i in (0, 1):
            new = []
            for k in range(order + 1):
                t = b * now[i][k] - c * before[i][k]
                if k:
                    t = t - now[i][k - 1] + n * before[i][k - 1]
                new.append(t)
            before[i], now[i] = now[i], new
        scale = 1 / now[1][0]  # convergents grow without limit
        now = [[t * scale for t in jet] for jet in now]
        before = [[t * scale for t in jet] for jet in before]
        if n % 4 == 0:  # what has converged is kept as it is: going on would only add rounding errors
            last, value = value, [np.where(settled, v, t) for v, t in zip(value, _jet_quotient(*now), strict=True)]
            settled |= np.absolute(value[order] - last[order]) <= 2e-16 * np.absolute(value[order])
            if settled.all():
                break
    return factorial(order) * _jet_product(value, _density_jet(a, x, order))[order]


@cache
def _gauss_legendre() -> tuple[Array, Array]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1) / 2, weights / 2


def _tail_integral(a: Array, x: Array, order: int) -> Array:
    """For large a: the integral of the density's derivative over the tail beyond x, away from the mode.

    The tail is P for x < a and Q otherwise; it is cut where the density has fallen by exp(-40).
    """
    nodes, weights = _gauss_legendre()
    scale, side = np.sqrt(a), np.where(x < a, -1.0, 1.0)
    stretch = x / a
    steep = np.absolute(scale * (stretch - 1) / stretch)  # minus the slope of the log density at x, per `scale`
    width = 80 / (steep + np.sqrt(steep * steep + 80 / (stretch * stretch)))
    width = np.where(side < 0, np.minimum(width, x / scale), width * (1 + width / (2 * scale * stretch)))
    t = x[:, None] + (side * scale * width)[:, None] * nodes
    u = (t - a[:, None]) / a[:, None]
    density = np.exp(-a[:, None] * _excess(u, t / a[:, None]) - _stirling_remainder(a)[:, None]) / (1 + u)
    if order:
        inverse = 1 / a
        correction = inverse * (0.5 + inverse * _ratio(inverse * inverse, table.DIGAMMA8))
        slopes = [np.log1p(u) + correction[:, None]]
        slopes += [-_polygamma_64(np.full(a.shape, float(k)), a)[:, None] for k in range(1, order)]
        bells: list[Array] = [np.ones_like(u)]  # the complete Bell polynomials of the slopes
        for n in range(order):
            bells.append(sum(_choose(n, k) * bells[n - k] * slopes[k] for k in range(n + 1)))
        density = density * bells[order]
    return (density @ weights) * width / sqrt(2 * pi)


def _choose(n: int, k: int) -> int:
    return factorial(n) // (factorial(k) * factorial(n - k))


def _upper_small(a: Array, x: Array) -> Array:
    """Q(a, x) for small a and x, where 1 - P would cancel."""
    total, power = np.zeros_like(x), np.ones_like(x)
    for n in range(1, 60):
        power *= -x / n
        total += power / (a + n)
    exponent = a * np.log(x) - a * _piecewise(
        a, [(a < 0.5, _ratio_lgamma_one), (a >= 0.5, lambda a: _lgamma_positive(1 + a) / a)]
    )
    return -np.expm1(exponent) - a * np.exp(exponent) * total


HUGE = 1e24  # from this parameter on, the normal distribution is as exact, and a step of float64 too coarse for more


def _igamma_edges(a: Array, x: Array, upper: bool) -> tuple[Array, Pieces]:
    """Where the general formulas hold, and the limits elsewhere."""
    nothing, everything = (1.0, 0.0) if upper else (0.0, 1.0)
    lost, gone, huge, infinite, inside = _igamma_regions(a, x)

    def bell(a: Array, x: Array) -> Array:
        z = (x - a) / np.sqrt(a)
        return _ndtr_64(-z if upper else z)

    return inside, [
        (lost, lambda a, x: np.full(a.shape, nothing)),
        (gone, lambda a, x: np.full(a.shape, everything)),
        (huge, bell),
        (infinite, lambda a, x: np.zeros_like(a)),
        ((x == 0) & ((a > 0) | (not upper)), lambda a, x: np.full(a.shape, nothing)),
    ]


def _igamma_regions(a: Array, x: Array) -> tuple[Array, ...]:
    """Where P is below the smallest number, where Q is, where a is huge, both infinite, and the rest of a, x > 0."""
    positive = (a > 0) & (x > 0)
    lost = positive & (a >= 50) & (x < 1e-8 * a)
    gone = positive & (x > 1e8 * np.maximum(a, 1))
    infinite = positive & np.isinf(a) & np.isinf(x)
    huge = positive & (a > HUGE) & ~lost & ~gone & ~infinite
    return lost, gone, huge, infinite, positive & ~lost & ~gone & ~huge & ~infinite


@_in_float64
def igamma(a: Array, x: Array) -> Array:
    """The regularised lower incomplete gamma function P(a, x)."""
    inside, edges = _igamma_edges(a, x, upper=False)
    large = inside & (a >= _MANY)
    series = inside & ~large & ((x <= 1) | (x <= a))
    return _piecewise(
        a,
        [
            *edges,
            (series, lambda a, x: _lower_series(a, x, 0)),
            (inside & ~large & ~series, lambda a, x: 1 - _upper_fraction(a, x, 0)),
            (large & (x < a), lambda a, x: _tail_integral(a, x, 0)),
            (large & (x >= a), lambda a, x: 1 - _tail_integral(a, x, 0)),
        ],
        x,
    )


@_in_float64
def igammac(a: Array, x: Array) -> Array:
    """The regularised upper incomplete gamma function Q(a, x)."""
    inside, edges = _igamma_edges(a, x, upper=True)
    large = inside & (a >= _MANY)
    inside = inside & ~large
    small = inside & (x <= 1.1)
    tiny = small & (np.where(x < 0.5, -0.4 / np.log(np.minimum(x, 0.5)), x / 1.1) >= a)
    fraction = inside & (x > 1.1) & (x >= a)
    return _piecewise(
        a,
        [
            *edges,
            (tiny, _upper_small),
            (fraction, lambda a, x: _upper_fraction(a, x, 0)),
            (inside & ~tiny & ~fraction, lambda a, x: 1 - _lower_series(a, x, 0)),
            (large & (x < a), lambda a, x: 1 - _tail_integral(a, x, 0)),
            (large & (x >= a), lambda a, x: _tail_integral(a, x, 0)),
        ],
        x,
    )


@_in_float64
def igamma_a(a: Array, x: Array, *, order: int) -> Array:
    """The derivative of P(a, x) with respect to a, `order` times."""
    *flat, inside = _igamma_regions(a, x)
    large = inside & (a >= _MANY)
    series = inside & ~large & ((x <= 1) | (x <= a + 1))
    return _piecewise(
        a,
        [
            (np.logical_or.reduce([x == 0, *flat]), lambda a, x: np.zeros_like(a)),
            (series, lambda a, x: _lower_series(a, x, order)),
            (inside & ~large & ~series, lambda a, x: -_upper_fraction(a, x, order)),
            (large & (x < a), lambda a, x: _tail_integral(a, x, order)),
            (large & (x >= a), lambda a, x: -_tail_integral(a, x, order)),
        ],
        x,
    )


# -- the incomplete beta function ------------------------------------------------------------------------------------
def _beta_density(a: Array, b: Array, x: Array) -> Array:
    """x**a (1 - x)**b / beta(a, b), around the mean, where no large terms cancel."""
    total = a + b
    u = (x * b - (1 - x) * a) / a  # x / mean - 1
    v = ((1 - x) * a - x * b) / b
    exponent = a * _excess(u, x / a * total) + b * _excess(v, (1 - x) / b * total)
    exponent += _stirling_factor(a) + _stirling_factor(b) - _stirling_factor(total)
    return np.sqrt(a / (2 * pi) * (b / total)) * np.exp(-exponent)


def _beta_fraction(a: Array, b: Array, x: Array) -> Array:
    """I(x; a, b) for x below the mean, by Lentz's evaluation of the continued fraction."""
    tiny = 1e-300
    c = np.ones_like(x)
    d = 1 / (1 - (a + b) * x / (a + 1))
    result, settled = d.copy(), np.zeros(x.shape, bool)
    for m in range(1, 20000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for numerator in (even, odd):
            d = 1 + numerator * d
            c = 1 + numerator / c
            d = 1 / np.where(d == 0, tiny, d)
            c = np.where(c == 0, tiny, c)
            step = c * d
            result *= np.where(settled, 1, step)
        settled |= np.absolute(step - 1) <= 2e-16
        if settled.all():
            break
    return result * _beta_density(a, b, x) / a


@_in_float64
def betainc(a: Array, b: Array, x: Array) -> Array:
    """The regularised incomplete beta function."""
    good = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b)
    low = good & (x > 0) & (x * (a + b + 2) < a + 1)
    high = good & (x < 1) & (x > 0) & ~low
    return _piecewise(
        a,
        [
            (good & (x == 0), lambda a, b, x: np.zeros_like(x)),
            (good & (x == 1), lambda a, b, x: np.ones_like(x)),
            (low, _beta_fraction),
            (high, lambda a, b, x: 1 - _beta_fraction(b, a, 1 - x)),
        ],
        b,
        x,
    )


# -- Bessel functions ------------------------------------------------------------------------------------------------
J0_ZEROS = ((5.783185962946784, 4.123247343506204e-16), (30.471262343662087, -2.366534485750659e-16))  # squared
J1_ZERO = (14.681970642123893, -9.858177825793294e-17)


def _i0e(x: Array) -> Array:
    x = np.absolute(x)
    return _piecewise(
        x,
        [
            (x <= 8, lambda x: np.exp(-x) * _ratio(x * x / 4, table.I0_LOW)),
            (x > 8, lambda x: _ratio(1 / x - 0.0625, table.I0_HIGH) / np.sqrt(x)),
        ],
    )


def _i1e(x: Array) -> Array:
    def positive(x: Array) -> Array:
        return _piecewise(
            x,
            [
                (x <= 8, lambda x: x * np.exp(-x) * _ratio(x * x / 4, table.I1_LOW)),
                (x > 8, lambda x: _ratio(1 / x - 0.0625, table.I1_HIGH) / np.sqrt(x)),
            ],
        )

    return np.copysign(positive(np.absolute(x)), x)


def _unscale(value: Array, x: Array) -> Array:
    """A value times exp(|x|), in two halves: the product can be finite where the exponential is not."""
    half = np.exp(0.5 * np.absolute(x))
    return np.where(np.isinf(x), np.copysign(np.inf, value), value * half * half)


bessel_i0e = _in_float64(_i0e)
bessel_i1e = _in_float64(_i1e)


@_in_float64
def bessel_i0(x: Array) -> Array:
    return _unscale(_i0e(x), x)


@_in_float64
def bessel_i1(x: Array) -> Array:
    return _unscale(_i1e(x), x)


@_in_float64
def bessel_in(x: Array, *, order: int, scaled: bool) -> Array:
    """I of a whole order from 2 on: the power series near 0, the recurrence where it is stable."""

    def series(x: Array) -> Array:
        quarter = x * x / 4
        term = np.power(x / 2, order) / factorial(order)
        total = term.copy()
        for k in range(1, 60 + order):
            term = term * quarter / (k * (k + order))
            total += term
        return np.exp(-np.absolute(x)) * total

    def recurrence(x: Array) -> Array:
        before, now = _i0e(x), _i1e(x)
        for k in range(1, order):
            before, now = now, before - 2 * k / x * now
        return now

    near = np.absolute(x) < max(20, order * order / 2)
    value = _piecewise(x, [(near, series), (~near, recurrence)])
    return value if scaled else _unscale(value, x)


def _k0e(x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        return np.exp(x) * (_ratio(square, table.K0_LOW) - np.log(x / 2) * _ratio(square / 4, table.I0_LOW))

    return _piecewise(x, [((x >= 0) & (x <= 2), low), (x > 2, lambda x: _ratio(1 / x, table.K0_HIGH) / np.sqrt(x))])


def _k1e(x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        logarithmic = np.log(x / 2) * (x * _ratio(square / 4, table.I1_LOW))
        return np.exp(x) * (np.where(x == 0, 0, logarithmic) + _ratio(square, table.K1_LOW) / x)

    return _piecewise(x, [((x >= 0) & (x <= 2), low), (x > 2, lambda x: _ratio(1 / x, table.K1_HIGH) / np.sqrt(x))])


bessel_k0e = _in_float64(_k0e)
bessel_k1e = _in_float64(_k1e)


@_in_float64
def bessel_k0(x: Array) -> Array:
    return _k0e(x) * np.exp(-x)


@_in_float64
def bessel_k1(x: Array) -> Array:
    return _k1e(x) * np.exp(-x)


def _waves(x: Array, p: Any, q: Any) -> tuple[Array, Array, Array]:
    """The slowly varying P and Q of the asymptotic form, and its amplitude, for x >= 5."""
    inverse = 1 / x
    variable = 25 * inverse * inverse
    return _ratio(variable, p), _ratio(variable, q) * inverse, np.sqrt(inverse / pi)


def _j0(x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        (first, first_rest), (second, second_rest) = J0_ZEROS
        zeros = ((square - first) - first_rest) * ((square - second) - second_rest)
        return zeros * _ratio(square, table.J0_LOW)

    def high(x: Array) -> Array:
        p, q, size = _waves(x, table.P0, table.Q0)
        sine, cosine = np.sin(x), np.cos(x)
        return size * (p * (cosine + sine) - q * (sine - cosine))

    x = np.absolute(x)
    return _piecewise(x, [(x <= 5, low), ((x > 5) & np.isfinite(x), high), (np.isinf(x), np.zeros_like)])


def _j1(x: Array) -> Array:
    def low(x: Array) -> Array:
        square = x * x
        return x * ((square - J1_ZERO[0]) - J1_ZERO[1]) * _ratio(square, table.J1_LOW)

    def high(x: Array) -> Array:
        size_of_x = np.absolute(x)
        p, q, size = _waves(size_of_x, table.P1, table.Q1)
        sine, cosine = np.sin(size_of_x), np.cos(size_of_x)
        return np.sign(x) * size * (p * (sine - cosine) + q * (sine + cosine))

    size = np.absolute(x)
    return _piecewise(x, [(size <= 5, low), ((size > 5) & np.isfinite(x), high), (np.isinf(x), np.zeros_like)])


bessel_j0 = _in_float64(_j0)
bessel_j1 = _in_float64(_j1)


@_in_float64
def bessel_jn(x: Array, *, order: int) -> Array:
    """J of a whole order from 2 on: the power series near 0, the recurrence where it is stable."""

    def series(x: Array) -> Array:
        quarter = -x * x / 4
        term = np.power(x / 2, order) / factorial(order)
        total = term.copy()
        for k in range(1, 30 + 2 * order):
            term = term * quarter / (k * (k + order))
            total += term
        return total

    def recurrence(x: Array) -> Array:
        before, now = _j0(x), _j1(x)
        for k in range(1, order):
            before, now = now, 2 * k / x * now - before
        return now

    near = np.absolute(x) < order + 1
    return _piecewise(x, [(near, series), (~near, recurrence)])


@_in_float64
def bessel_y0(x: Array) -> Array:
    def high(x: Array) -> Array:
        p, q, size = _waves(x, table.P0, table.Q0)
        sine, cosine = np.sin(x), np.cos(x)
        return size * (p * (sine - cosine) + q * (cosine + sine))

    return _piecewise(
        x,
        [
            ((x >= 0) & (x <= 5), lambda x: _ratio(x * x, table.Y0_LOW) + 2 / pi * np.log(x) * _j0(x)),
            ((x > 5) & np.isfinite(x), high),
            (np.isposinf(x), np.zeros_like),
        ],
    )


@_in_float64
def bessel_y1(x: Array) -> Array:
    def low(x: Array) -> Array:
        logarithmic = np.where(x == 0, 0, np.log(x) * _j1(x))
        return x * _ratio(x * x, table.Y1_LOW) + 2 / pi * (logarithmic - 1 / x)

    def high(x: Array) -> Array:
        p, q, size = _waves(x, table.P1, table.Q1)
        sine, cosine = np.sin(x), np.cos(x)
        return size * (q * (sine - cosine) - p * (sine + cosine))

    return _piecewise(
        x, [((x >= 0) & (x <= 5), low), ((x > 5) & np.isfinite(x), high), (np.isposinf(x), np.zeros_like)]
    )


# -- integrals -------------------------------------------------------------------------------------------------------
@_in_float64
def dawsn(x: Array) -> Array:
    """Dawson's integral, exp(-x²) times the integral of exp(t²) from 0 to x."""
    size = np.absolute(x)
    return _piecewise(
        x,
        [
            (size <= 2, lambda x: x * _ratio(x * x, table.DAWSN_A)),
            ((size > 2) & (size <= 4), lambda x: _ratio(np.absolute(x) - 3, table.DAWSN_B) / x),
            ((size > 4) & (size <= 7), lambda x: _ratio(np.absolute(x) - 5.5, table.DAWSN_C) / x),
            (size > 7, lambda x: _ratio(1 / (x * x), table.DAWSN_D) / x),
        ],
    )


EXPINT_ZERO = (0.3725074107813666, 1.3140183414386028e-17)


@_in_float64
def expint(x: Array) -> Array:
    """The exponential integral Ei, of positive numbers."""

    def low(x: Array) -> Array:
        distance = (x - EXPINT_ZERO[0]) - EXPINT_ZERO[1]
        close = np.absolute(distance) < 0.1
        near = np.log1p(np.where(close, distance, 0) / EXPINT_ZERO[0])
        logarithm = np.where(close, near, np.log(x / EXPINT_ZERO[0]))
        return distance * _ratio(6 - x, table.EI_A) + logarithm

    def scaled(formula: Callable[[Array], Array]) -> Callable[[Array], Array]:
        def whole(x: Array) -> Array:
            half = np.exp(0.5 * x)  # the quotient can be finite where the exponential is not
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
            (x >= 1000, lambda x: np.full(x.shape, np.inf)),
        ],
    )


def _fresnel_parts(x: Array) -> tuple[Array, Array, Array, Array]:
    """The auxiliary functions f and g at x >= 1.6, and the sine and cosine of pi x² / 2."""
    inverse = 1 / x
    square = inverse * inverse
    f = _ratio(square, table.FRESNEL_F) * inverse / pi
    g = _ratio(square, table.FRESNEL_G) * square * inverse / (pi * pi)
    # x² modulo 4 from two halves of x, so that the angle is exact however large x is.
    high = np.floor(x * 64) / 64
    low = x - high
    turn = np.fmod(high * high, 4) + np.fmod(2 * high * low, 4) + low * low
    angle = pi / 2 * (turn - 4 * np.rint(turn / 4))
    return f, g, np.sin(angle), np.cos(angle)


def _fresnel(x: Array, near: Callable[[Array], Array], far: Callable[[Array], Array]) -> Array:
    size = np.absolute(x)
    return _piecewise(
        x,
        [
            (size <= 1.6, near),
            ((size > 1.6) & (size < 1e8), _odd(far)),
            (size >= 1e8, lambda x: np.copysign(0.5, x)),
        ],
    )


@_in_float64
def fresnel_sin(x: Array) -> Array:
    def far(x: Array) -> Array:
        f, g, sine, cosine = _fresnel_parts(x)
        return 0.5 - f * cosine - g * sine

    return _fresnel(x, lambda x: x * x * x * _ratio(np.square(x * x), table.FRESNEL_S), far)


@_in_float64
def fresnel_cos(x: Array) -> Array:
    def far(x: Array) -> Array:
        f, g, sine, cosine = _fresnel_parts(x)
        return 0.5 + f * sine - g * cosine

    return _fresnel(x, lambda x: x * _ratio(np.square(x * x), table.FRESNEL_C), far)


@_in_float64
def spence(x: Array) -> Array:
    """The dilogarithm of 1 - x."""

    def middle(x: Array) -> Array:
        return (1 - x) * _ratio(x - 0.5, table.SPENCE)

    def low(x: Array) -> Array:
        return pi * pi / 6 - np.where(x == 0, 0, np.log(x) * np.log1p(-x)) - middle(1 - x)

    def high(x: Array) -> Array:
        return -0.5 * np.square(np.log(x)) - low(1 / x)

    return _piecewise(x, [((x >= 0) & (x < 0.5), low), ((x >= 0.5) & (x <= 2), middle), (x > 2, high)])


# -- bits ------------------------------------------------------------------------------------------------------------
def shift_left(x: Array, y: Array) -> Array:
    """Shift within the width of the dtype: TensorFlow counts any further place as the last one."""
    return np.left_shift(x, np.clip(y, 0, x.dtype.itemsize * 8 - 1))


def shift_right(x: Array, y: Array) -> Array:
    return np.right_shift(x, np.clip(y, 0, x.dtype.itemsize * 8 - 1))
