"""Elementwise primitives beyond arithmetic: activations, error functions, the gamma family, Bessel functions.

As in `math`, each line is the differential of the function. Derivatives of every order come from here, because each
rule is made of functions of this table: lgamma leads to digamma, digamma to polygamma, a Bessel function to the next.
"""

from __future__ import annotations

from math import comb, pi, sqrt
from typing import Any

from gradtape._src.arrays.shared import bessel, elementwise, gamma, integrals
from gradtape._src.arrays.shared.elementwise import GELU_SCALE, GELU_TANH, SELU_ALPHA, SELU_SCALE
from gradtape._src.core.dispatch import binary, primitive, unary
from gradtape._src.ops.math import zero

_HALF_SQRT_PI = sqrt(pi) / 2
_BELL = 1 / sqrt(2 * pi)


# -- activations -----------------------------------------------------------------------------------------------------
# The derivative of relu6 is 0 at 0 and at 6.
relu6 = unary(
    "relu6", lambda g, out, xp: xp.gate(xp.gate(g, out), 6 - out), kinds="fiu", kernel=elementwise.relu6,
    names=("nn.relu6",), doc="x between 0 and 6, else the nearer of the two.", category="activation",
)  # fmt: skip
elu = unary(
    "elu", lambda g, out, xp: xp.where(xp.less(out, 0), g * (out + 1), g), kinds="f", kernel=elementwise.elu,
    names=("nn.elu",), doc="x where x is positive, exp(x) - 1 elsewhere.", category="activation",
)  # fmt: skip
selu = unary(
    "selu", lambda g, out, xp: xp.where(xp.less(out, 0), g * (out + SELU_SCALE * SELU_ALPHA), g * SELU_SCALE),
    kinds="f", kernel=elementwise.selu,
    names=("nn.selu",), doc="elu with the scales that keep mean and variance.", category="activation",
)  # fmt: skip
softsign = unary(
    "softsign", lambda g, x, xp: g / xp.square(1 + xp.absolute(x)), kinds="f", kernel=elementwise.softsign,
    names=("math.softsign",), doc="x / (1 + |x|).", category="activation",
)  # fmt: skip


def _leaky_relu_dx(g, x, xp, alpha):
    """g where x is positive, else alpha g: alpha at 0."""
    passed = xp.gate(g, x)
    rest = g - passed
    rest *= alpha
    rest += passed
    return rest


leaky_relu = primitive(
    "leaky_relu", ("x",), _leaky_relu_dx, elementwise=True, kinds="f", kernel=elementwise.leaky_relu,
    names=("nn.leaky_relu",), doc="x where x is positive, alpha x elsewhere.", category="activation",
)  # fmt: skip


def _silu_dx(g, x, xp):
    """g (s + x s (1 - s)), computed in place where possible."""
    s = xp.sigmoid(x)
    slope = x * s
    slope -= slope * s
    slope += s
    return g * slope


silu = unary(
    "silu", _silu_dx, kernel=elementwise.silu,
    names=("nn.silu",), doc="x sigmoid(x).", category="activation",
)  # fmt: skip
gelu = unary(
    "gelu", lambda g, x, xp: g * xp.gelu_slope(x), kinds="f", kernel=elementwise.gelu,
    names=("nn.gelu",), doc="x times the probability that a standard normal variable is below x.",
    category="activation",
)  # fmt: skip


def _gelu_slope_dx(g, x, xp):
    """g (2 - x²) φ(x); φ comes first, so that only the largest x overflow, as in TensorFlow."""
    x = GELU_SCALE * x
    bell = (GELU_SCALE * _BELL) * xp.exp(-0.5 * (x * x))
    return g * (2 * bell - 0.5 * (bell * (x + x) * x))


gelu_slope = unary(
    "gelu_slope", _gelu_slope_dx, kinds="f", kernel=elementwise.gelu_slope,
    doc="The derivative of gelu.", category="activation",
)  # fmt: skip


gelu_tanh = unary(
    "gelu_tanh", lambda g, x, xp: g * xp.gelu_tanh_slope(x), kinds="f",
    doc="gelu by a formula with tanh.", category="activation",
)  # fmt: skip


def _gelu_tanh_slope_dx(g, x, xp):
    """gelu = x (1 + t) / 2 with t = tanh(u) has the second derivative (1 - t²) (u' + x (u'' / 2 - t u'²))."""
    scale, cubic = GELU_TANH
    t = xp.tanh(x * (scale + (cubic * scale) * x * x))
    slope, bend = scale + (3 * cubic * scale) * x * x, (6 * cubic * scale) * x
    return g * (1 - t * t) * (slope + x * (0.5 * bend - t * slope * slope))


gelu_tanh_slope = unary(
    "gelu_tanh_slope", _gelu_tanh_slope_dx, kinds="f",
    doc="The derivative of gelu_tanh.", category="activation",
)  # fmt: skip


# -- products and quotients that are 0 where a factor is -------------------------------------------------------------
def _is_nonzero(x: Any, xp: Any) -> Any:
    """1, or 0 where x is 0: the slope of x f(y) by x is f(y), which TensorFlow treats as 0 at x = 0 for all y."""
    x = xp.stop_gradient(x)
    return xp.where(xp.equal(xp.sign(x), 0), 0, 1 + zero(x, xp))


xlogy = binary(
    "xlogy", lambda g, x, y, xp: g * xp.xlogy(_is_nonzero(x, xp), y), lambda g, x, y, xp: g * xp.xdivy(x, y),
    kinds="fc", kernel=elementwise.xlogy,
    names=("math.xlogy",), doc="Compute x log(y), and 0 where x is 0.",
    example=("tf.math.xlogy([0.0, 2.0], [0.0, 3.0])", "[0.     2.1972]"), hazards=("log",),
)  # fmt: skip
xlog1py = binary(
    "xlog1py", lambda g, x, y, xp: g * xp.xlog1py(_is_nonzero(x, xp), y), lambda g, x, y, xp: g * xp.xdivy(x, 1 + y),
    kinds="fc", kernel=elementwise.xlog1py,
    names=("math.xlog1py",), doc="Compute x log(1 + y), and 0 where x is 0.",
    example=("tf.math.xlog1py([0.0, 2.0], [-1.0, 1.0])", "[0.     1.3863]"), hazards=("log",),
)  # fmt: skip
xdivy = binary(
    "xdivy", lambda g, x, y, xp: g * xp.xdivy(_is_nonzero(x, xp), y), lambda g, out, y, xp: -g * xp.xdivy(out, y),
    kinds="fc", kernel=elementwise.xdivy,
    names=("math.xdivy",), doc="Compute x / y, and 0 where x is 0.",
    example=("tf.math.xdivy([0.0, 1.0], [0.0, 4.0])", "[0.   0.25]"), hazards=("division",),
)  # fmt: skip
truncate_divide = binary(
    "truncate_divide", None, None, tf_name="TruncateDiv", kinds="fciu",
    doc="x / y, rounded towards 0; no gradient.", hazards=("division",),
    instead="Use x / y; to round and still learn, tf.grad_pass_through(tf.floor)(x / y).",
)  # fmt: skip
nextafter = binary(
    "nextafter", lambda g: g, zero, tf_name="NextAfter", kinds="f",
    names=("math.nextafter",), doc="The next number after x in the direction of y.",
)  # fmt: skip

# -- the error function and the normal distribution ------------------------------------------------------------------
erf = unary(
    "erf", lambda g, x, xp: g * (xp.exp(-xp.square(x)) * (1 / _HALF_SQRT_PI)), kinds="f",
    names=("math.erf",), doc="Compute the error function.", example=("tf.math.erf([0.0, 1.0])", "[0.     0.8427]"),
    sparse=True,
)  # fmt: skip
erfc = unary(
    "erfc", lambda g, x, xp: -g * (xp.exp(-xp.square(x)) * (1 / _HALF_SQRT_PI)), kinds="f",
    names=("math.erfc",), doc="Compute 1 - erf(x), accurately for large x.",
    example=("tf.math.erfc([0.0, 1.0])", "[1.     0.1573]"),
)  # fmt: skip
erfinv = unary(
    "erfinv", lambda g, out, xp: g * (_HALF_SQRT_PI * xp.exp(out * out)), kinds="f",
    names=("math.erfinv",),
    doc="Compute the inverse of erf.", example=("tf.math.erfinv([0.0, 0.5])", "[0.     0.4769]"),
    hazards=("pole",),
)  # fmt: skip
erfcinv = unary(
    "erfcinv", lambda g, out, xp: -g * (_HALF_SQRT_PI * xp.exp(out * out)), kinds="f",
    names=("math.erfcinv",), doc="The inverse of erfc.", hazards=("pole",),
)  # fmt: skip
ndtr = unary(
    "ndtr", lambda g, x, xp: g * (_BELL * xp.exp(-0.5 * x * x)), kinds="f",
    doc="The probability that a standard normal variable is below x.",
)  # fmt: skip
ndtri = unary(
    "ndtri", lambda g, out, xp: g * (sqrt(2 * pi) * xp.exp(0.5 * out * out)), kinds="f",
    names=("math.ndtri",), doc="Compute the quantile function of the standard normal distribution.",
    example=("tf.math.ndtri([0.5, 0.9])", "[0.     1.2816]"), hazards=("pole",),
)  # fmt: skip

# -- gamma and beta --------------------------------------------------------------------------------------------------
lgamma = unary(
    "lgamma", lambda g, x, xp: g * xp.digamma(x), kinds="f", kernel=gamma.lgamma,
    names=("math.lgamma",), doc="Compute the logarithm of |gamma(x)|.",
    example=("tf.math.lgamma([1.0, 4.0])", "[-0.      1.7918]"), hazards=("pole",),
)  # fmt: skip
digamma = unary(
    "digamma", lambda g, x, xp: g * xp.polygamma(1.0, x), kinds="f", kernel=gamma.digamma,
    names=("math.digamma",), doc="Compute the derivative of lgamma.",
    example=("tf.math.digamma([1.0, 2.0])", "[-0.5772  0.4228]"), hazards=("pole",),
)  # fmt: skip
# The order of polygamma and the exponent of zeta have no derivative here, as in TensorFlow.
polygamma = binary(
    "polygamma", None, lambda g, x, y, xp: g * xp.polygamma(x + 1, y), kinds="f", kernel=gamma.polygamma,
    names=("math.polygamma",), doc="The derivative of order x of digamma, at y.", hazards=("pole",),
)  # fmt: skip
zeta = binary(
    "zeta", None, lambda g, x, y, xp: -g * (x * xp.zeta(x + 1, y)), kinds="f", kernel=gamma.zeta,
    names=("math.zeta",), doc="The sum of (y + k) ** -x over k >= 0.", hazards=("pole",),
)  # fmt: skip


def _gamma_density(x: Any, y: Any, xp: Any) -> Any:
    """The derivative of igamma(x, y) by y."""
    return xp.exp((x - 1) * xp.log(y) - y - xp.lgamma(x))


igamma = binary(
    "igamma", lambda g, x, y, xp: g * xp.igamma_a(x, y, order=1), lambda g, x, y, xp: g * _gamma_density(x, y, xp),
    kinds="f", kernel=gamma.igamma,
    names=("math.igamma",), doc="The regularised lower incomplete gamma function P(x, y).",
)  # fmt: skip
igammac = binary(
    "igammac", lambda g, x, y, xp: -g * xp.igamma_a(x, y, order=1), lambda g, x, y, xp: -g * _gamma_density(x, y, xp),
    kinds="f", kernel=gamma.igammac,
    names=("math.igammac",), doc="The regularised upper incomplete gamma function Q(x, y).",
)  # fmt: skip


def _igamma_a_dx(g, a, x, xp, order):
    """The derivative of the density by a, `order` times: a Bell polynomial in the derivatives of its logarithm."""
    slopes = [xp.log(x) - xp.digamma(a)] + [-xp.polygamma(float(k), a) for k in range(1, order)]
    bells: list[Any] = [1.0]
    for n in range(order):
        bells.append(sum(comb(n, k) * bells[n - k] * slopes[k] for k in range(n + 1)))
    return g * (_gamma_density(a, x, xp) * bells[order])


igamma_a = primitive(
    "igamma_a", ("a", "x"), lambda g, a, x, xp, order: g * xp.igamma_a(a, x, order=order + 1), _igamma_a_dx,
    tf_name="IgammaGradA", elementwise=True, kinds="f", kernel=gamma.igamma_a,
    doc="A derivative of igamma with respect to its first argument.",
)  # fmt: skip


def _betainc_dx(g, a, b, x, xp):
    logarithm = xp.lgamma(a + b) - xp.lgamma(a) - xp.lgamma(b)
    return g * xp.exp(xp.xlogy(a - 1, x) + xp.xlog1py(b - 1, -x) + logarithm)


# TensorFlow has no derivative of betainc by its parameters.
betainc = primitive(
    "betainc", ("a", "b", "x"), None, None, _betainc_dx, elementwise=True, kinds="f", kernel=gamma.betainc,
    names=("math.betainc",), doc="The regularised incomplete beta function.",
)  # fmt: skip

# -- Bessel functions ------------------------------------------------------------------------------------------------
# I and J by the mean of their neighbours, not by I0 - I1 / x: that is right at 0 as well, in every order.
bessel_i0 = unary(
    "bessel_i0", lambda g, x, xp: g * xp.bessel_i1(x), kinds="f", kernel=bessel.bessel_i0,
    names=("math.bessel_i0", "math.special.bessel_i0"),
    doc="Compute the modified Bessel function of the first kind, of order 0.",
    example=("tf.math.bessel_i0([0.0, 1.0])", "[1.     1.2661]"),
)  # fmt: skip
bessel_i1 = unary(
    "bessel_i1", lambda g, x, xp: g * (0.5 * (xp.bessel_i0(x) + xp.bessel_in(x, order=2, scaled=False))), kinds="f",
    kernel=bessel.bessel_i1,
    names=("math.bessel_i1", "math.special.bessel_i1"),
    doc="Compute the modified Bessel function of the first kind, of order 1.",
    example=("tf.math.bessel_i1([0.0, 1.0])", "[0.     0.5652]"),
)  # fmt: skip
bessel_i0e = unary(
    "bessel_i0e", lambda g, x, out, xp: g * (xp.bessel_i1e(x) - xp.sign(x) * out), kinds="f", kernel=bessel.bessel_i0e,
    names=("math.bessel_i0e", "math.special.bessel_i0e"),
    doc="Compute bessel_i0(x) exp(-|x|), which does not overflow.",
    example=("tf.math.bessel_i0e([0.0, 1.0])", "[1.     0.4658]"), sparse=True,
)  # fmt: skip
bessel_i1e = unary(
    "bessel_i1e",
    lambda g, x, out, xp: g * (0.5 * (xp.bessel_i0e(x) + xp.bessel_in(x, order=2, scaled=True)) - xp.sign(x) * out),
    kinds="f", kernel=bessel.bessel_i1e,
    names=("math.bessel_i1e", "math.special.bessel_i1e"),
    doc="Compute bessel_i1(x) exp(-|x|), which does not overflow.",
    example=("tf.math.bessel_i1e([0.0, 1.0])", "[0.     0.2079]"), sparse=True,
)  # fmt: skip


def _neighbours_i(x: Any, xp: Any, order: int, scaled: bool) -> tuple[Any, Any]:
    first = xp.bessel_i1e if scaled else xp.bessel_i1
    below = first(x) if order == 2 else xp.bessel_in(x, order=order - 1, scaled=scaled)
    return below, xp.bessel_in(x, order=order + 1, scaled=scaled)


def _bessel_in_dx(g, x, out, xp, order, scaled):
    below, above = _neighbours_i(x, xp, order, scaled)
    slope = 0.5 * (below + above)
    return g * (slope - xp.sign(x) * out if scaled else slope)


bessel_in = primitive(
    "bessel_in", ("x",), _bessel_in_dx, elementwise=True, kinds="f", kernel=bessel.bessel_in,
    doc="The modified Bessel function of the first kind, of a whole order from 2 on.",
)  # fmt: skip
bessel_k0 = unary(
    "bessel_k0", lambda g, x, xp: -g * xp.bessel_k1(x), kinds="f", kernel=bessel.bessel_k0,
    names=("math.special.bessel_k0",), doc="The modified Bessel function of the second kind, of order 0.",
)  # fmt: skip
bessel_k1 = unary(
    "bessel_k1", lambda g, x, out, xp: -g * (xp.bessel_k0(x) + out / x), kinds="f", kernel=bessel.bessel_k1,
    names=("math.special.bessel_k1",), doc="The modified Bessel function of the second kind, of order 1.",
)  # fmt: skip
bessel_k0e = unary(
    "bessel_k0e", lambda g, x, out, xp: g * (out - xp.bessel_k1e(x)), kinds="f", kernel=bessel.bessel_k0e,
    names=("math.special.bessel_k0e",), doc="bessel_k0(x) times exp(x), which does not underflow.",
)  # fmt: skip
bessel_k1e = unary(
    "bessel_k1e", lambda g, x, out, xp: g * (out * (1 - 1 / x) - xp.bessel_k0e(x)), kinds="f",
    kernel=bessel.bessel_k1e,
    names=("math.special.bessel_k1e",), doc="bessel_k1(x) times exp(x), which does not underflow.",
)  # fmt: skip
bessel_j0 = unary(
    "bessel_j0", lambda g, x, xp: -g * xp.bessel_j1(x), kinds="f", kernel=bessel.bessel_j0,
    names=("math.special.bessel_j0",), doc="The Bessel function of the first kind, of order 0.",
)  # fmt: skip
bessel_j1 = unary(
    "bessel_j1", lambda g, x, xp: g * (0.5 * (xp.bessel_j0(x) - xp.bessel_jn(x, order=2))), kinds="f",
    kernel=bessel.bessel_j1,
    names=("math.special.bessel_j1",), doc="The Bessel function of the first kind, of order 1.",
)  # fmt: skip


def _bessel_jn_dx(g, x, xp, order):
    below = xp.bessel_j1(x) if order == 2 else xp.bessel_jn(x, order=order - 1)
    return g * (0.5 * (below - xp.bessel_jn(x, order=order + 1)))


bessel_jn = primitive(
    "bessel_jn", ("x",), _bessel_jn_dx, elementwise=True, kinds="f", kernel=bessel.bessel_jn,
    doc="The Bessel function of the first kind, of a whole order from 2 on.",
)  # fmt: skip
bessel_y0 = unary(
    "bessel_y0", lambda g, x, xp: -g * xp.bessel_y1(x), kinds="f", kernel=bessel.bessel_y0,
    names=("math.special.bessel_y0",), doc="The Bessel function of the second kind, of order 0.",
)  # fmt: skip
bessel_y1 = unary(
    "bessel_y1", lambda g, x, out, xp: g * (xp.bessel_y0(x) - out / x), kinds="f", kernel=bessel.bessel_y1,
    names=("math.special.bessel_y1",), doc="The Bessel function of the second kind, of order 1.",
)  # fmt: skip


# -- integrals: the derivative is the integrand ----------------------------------------------------------------------
def _dawsn_dx(g, x, out, xp):
    """1 - 2 x out; for large x its asymptotic series, -(u + 3 u² + 15 u³ + ...) in u = 1 / (2 x²)."""
    far = xp.greater(xp.absolute(x), 20)
    inverse = 1 / xp.where(far, x, 20)
    u = 0.5 * (inverse * inverse)
    series: Any = 1
    for n in range(17, 1, -2):
        series = 1 + n * (u * series)
    close = xp.where(far, 0, x)
    return g * xp.where(far, -u * series, 1 - 2 * (close * out))


dawsn = unary(
    "dawsn", _dawsn_dx, kinds="f", kernel=integrals.dawsn,
    names=("math.special.dawsn",), doc="Dawson's integral: exp(-x * x) times the integral of exp(t * t) from 0 to x.",
)  # fmt: skip
expint = unary(
    "expint", lambda g, x, xp: g * (xp.exp(x) / x), kinds="f", kernel=integrals.expint,
    names=("math.special.expint",), doc="The exponential integral Ei, for x > 0.",
)  # fmt: skip
fresnel_sin = unary(
    "fresnel_sin", lambda g, x, xp: g * xp.sin((pi / 2) * (x * x)), kinds="f", kernel=integrals.fresnel_sin,
    names=("math.special.fresnel_sin",), doc="The integral of sin(pi t * t / 2) from 0 to x.",
)  # fmt: skip
fresnel_cos = unary(
    "fresnel_cos", lambda g, x, xp: g * xp.cos((pi / 2) * (x * x)), kinds="f", kernel=integrals.fresnel_cos,
    names=("math.special.fresnel_cos",), doc="The integral of cos(pi t * t / 2) from 0 to x.",
)  # fmt: skip


def _spence_dx(g, x, xp):
    """log(x) / (1 - x); near 1 its Taylor polynomial, so that further derivatives neither cancel nor fail."""
    u = x - 1
    near = xp.less(xp.absolute(u), 0.02)
    close = xp.where(near, u, 0)
    series: Any = 1 / 10
    for n in range(9, 0, -1):
        series = 1 / n - close * series
    away = xp.where(near, 2, x)
    return g * xp.where(near, -series, xp.log(away) / (1 - away))


spence = unary(
    "spence", _spence_dx, kinds="f", kernel=integrals.spence,
    names=("math.special.spence",), doc="The dilogarithm of 1 - x, for x >= 0.",
)  # fmt: skip

# -- bits ------------------------------------------------------------------------------------------------------------
shift_left = binary(
    "shift_left", None, None, tf_name="LeftShift", kinds="iu", kernel=elementwise.shift_left,
    doc="The bits moved up.",
)  # fmt: skip
shift_right = binary(
    "shift_right", None, None, tf_name="RightShift", kinds="iu", kernel=elementwise.shift_right,
    doc="The bits moved down.",
)  # fmt: skip
