"""Special functions with a formulation of their own for NumPy: error functions and gelu, fast in float32.

The float64 forms use rational approximations of our own (see `special_tables`). All other special functions are in
`shared/`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import pi, sqrt

import numpy as np

from gradtape._src.arrays.numpy.frames import at_least_float32, in_float64, piecewise
from gradtape._src.arrays.shared import special_tables as table
from gradtape._src.arrays.shared.elementwise import GELU_SCALE, GELU_TANH
from gradtape._src.arrays.shared.frames import Array, Kernel, ratio

_SQRT_HALF = sqrt(0.5)
_FLOAT32 = np.dtype(np.float32)
_TAIL_ENDS = 15.0  # beyond, the density is 0 in float32


def _odd(function: Kernel) -> Kernel:
    """Extend f from positive numbers to an odd function."""
    return lambda x: np.copysign(function(np.absolute(x)), x)


# -- the error function and the normal distribution ------------------------------------------------------------------
def _exp_minus_square(x: Array) -> Array:
    """exp(-x²) to full precision: x² is split, because the exponential would amplify its rounding error."""
    high = np.rint(x * 16) / 16
    return np.exp(-high * high) * np.exp((high - x) * (high + x))


def _erf_low(x: Array) -> Array:
    return x * ratio(x * x, table.ERF)


def _erfcx(x: Array) -> Array:
    """exp(x²) erfc(x) for x >= 0.5."""
    return piecewise(
        x,
        [
            (x < 2, lambda x: ratio(x, table.ERFCX_LOW)),
            ((x >= 2) & (x < 6), lambda x: ratio(x, table.ERFCX_MID)),
            (x >= 6, lambda x: ratio(1 / (x * x), table.ERFCX_HIGH) / x),
        ],
    )


def _erfc_high(x: Array) -> Array:
    x = np.minimum(x, 28.0)  # beyond, it is 0
    return _exp_minus_square(x) * _erfcx(x)


@in_float64
def _erf_64(x: Array) -> Array:
    size = np.absolute(x)
    return piecewise(
        x, [(size < 1, _erf_low), ((size >= 1) & (size < 6), _odd(lambda x: 1 - _erfc_high(x))), (size >= 6, np.sign)]
    )


def erf(x: Array) -> Array:
    return _erf_32(x) if x.dtype == _FLOAT32 else _erf_64(x)


@at_least_float32
def _erf_32(x: Array) -> Array:
    clipped = np.clip(x, -3.925, 3.925)
    return np.clip(clipped * ratio(clipped * clipped, table.ERF32), -1, 1)


@in_float64
def erfc(x: Array) -> Array:
    return piecewise(
        x,
        [
            (np.absolute(x) < 0.5, lambda x: 1 - _erf_low(x)),
            (x >= 0.5, _erfc_high),
            (x <= -0.5, lambda x: 2 - _erfc_high(-x)),
        ],
    )


def _erfcinv_tail(y: Array) -> Array:
    """Return the x whose erfc is y, for 0 <= y <= 0.25."""
    r = np.sqrt(-np.log(y))
    return piecewise(
        r,
        [
            (r < 2.2, lambda r: ratio(r, table.ERFCINV_A)),
            ((r >= 2.2) & (r < 6.2), lambda r: ratio(r, table.ERFCINV_B)),
            ((r >= 6.2) & (r < 30), lambda r: ratio(r, table.ERFCINV_C)),
            (r >= 30, np.positive),  # only y = 0
        ],
    )


def _erfinv_low(x: Array) -> Array:
    return x * ratio(0.5625 - x * x, table.ERFINV)


@in_float64
def erfinv(x: Array) -> Array:
    size = np.absolute(x)
    return piecewise(
        x,
        [(size <= 0.75, _erfinv_low), ((size > 0.75) & (size <= 1), _odd(lambda x: _erfcinv_tail(1 - x)))],
    )


@in_float64
def erfcinv(x: Array) -> Array:
    return piecewise(
        x,
        [
            ((x >= 0) & (x < 0.25), _erfcinv_tail),
            ((x >= 0.25) & (x <= 1.75), lambda x: _erfinv_low(1 - x)),
            ((x > 1.75) & (x <= 2), lambda x: -_erfcinv_tail(2 - x)),
        ],
    )


@in_float64
def ndtri(x: Array) -> Array:
    """Quantile function of the normal distribution."""
    return sqrt(2) * piecewise(
        x,
        [
            ((x >= 0) & (x < 0.125), lambda p: -_erfcinv_tail(2 * p)),
            ((x >= 0.125) & (x <= 0.875), lambda p: _erfinv_low(2 * p - 1)),
            ((x > 0.875) & (x <= 1), lambda p: _erfcinv_tail(2 * (1 - p))),
        ],
    )


@in_float64
def _ndtr_64(x: Array) -> Array:
    def tail(x: Array) -> Array:
        x = np.minimum(x, 40.0)
        high = np.rint(x * 16) / 16  # as in _exp_minus_square, but of x itself: x / sqrt(2) is rounded
        bell = np.exp(-0.5 * high * high) * np.exp(0.5 * (high - x) * (high + x))
        return 0.5 * bell * _erfcx(_SQRT_HALF * x)

    return piecewise(
        x,
        [
            (np.absolute(x) < 0.75, lambda x: 0.5 + 0.5 * _erf_low(_SQRT_HALF * x)),
            (x <= -0.75, lambda x: tail(-x)),
            (x >= 0.75, lambda x: 1 - tail(x)),
        ],
    )


def _ndtr_parts_32(x: Array) -> tuple[Array, Array]:
    """Normal distribution function and density in float32, accurate in the left tail, too.

    The tail is the density times a ratio whose numerator has one degree less than its denominator.
    """
    if not x.ndim:  # NumPy returns scalars for 0-d arrays
        result, density = _ndtr_parts_32(np.reshape(x, 1))
        return result.reshape(()), density.reshape(())
    size = np.absolute(x)
    if not np.maximum.reduce(size, axis=None, initial=0) <= _TAIL_ENDS:  # or it is NaN
        np.minimum(size, _TAIL_ENDS, out=size)
    tail = _monic(size, table.NDTR32[0])
    tail /= _monic(size, table.NDTR32[1])
    density = np.square(size, out=size)
    density *= -0.5
    np.exp(density, out=density)  # exp2 takes half as long, but its scale is a second rounding, which tails show
    density *= 1 / sqrt(2 * pi)
    tail *= density
    # 1 - tail for positive x, tail for negative: |1 - tail| and |0 - tail|, without branches, which cost more.
    result = np.greater_equal(x, 0).astype(np.float32)
    result -= tail
    return np.absolute(result, out=result), density


def _monic(x: Array, coefficients: Sequence[float]) -> Array:
    """Evaluate a monic polynomial, lowest power first, without the leading 1."""
    result = x + coefficients[-1]
    for c in coefficients[-2::-1]:
        result *= x
        result += c
    return result


def ndtr(x: Array) -> Array:
    """The normal distribution function."""
    return _ndtr_parts_32(x)[0] if x.dtype == _FLOAT32 else _ndtr_64(x)


# -- gelu ------------------------------------------------------------------------------------------------------------
@at_least_float32
def gelu(x: Array) -> Array:
    """x Φ(x)."""
    result = _ndtr_parts_32(x)[0] if x.dtype == _FLOAT32 else _ndtr_64(GELU_SCALE * x)
    result *= x  # at minus infinity NaN, as TensorFlow's
    return result


@at_least_float32
def gelu_slope(x: Array) -> Array:
    """The derivative of gelu: Φ(x) + x φ(x)."""
    if x.dtype == _FLOAT32:
        slope, density = _ndtr_parts_32(x)
    else:
        x = GELU_SCALE * x
        slope, density = _ndtr_64(x), np.exp(-0.5 * x * x)
        density *= 1 / sqrt(2 * pi)
    density *= x  # at infinity NaN, as TensorFlow's
    slope += density
    return slope


def gelu_and_slope(x: Array, out: tuple[Array | None, Array | None] = (None, None)) -> tuple[Array, Array]:
    """gelu and its derivative in float32 or float64, which share the normal distribution function."""
    if x.dtype == _FLOAT32:
        slope, density = _ndtr_parts_32(x)
        value = np.multiply(slope, x, out[0])
        density *= x
    else:
        scaled = GELU_SCALE * x
        slope, density = _ndtr_64(scaled), np.exp(-0.5 * scaled * scaled)
        value = np.multiply(slope, x, out[0])
        density *= 1 / sqrt(2 * pi)
        density *= scaled
    return value, np.add(slope, density, slope if out[1] is None else out[1])


@at_least_float32
def gelu_tanh(x: Array) -> Array:
    """gelu, by its tanh approximation."""
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


@at_least_float32
def gelu_tanh_slope(x: Array) -> Array:
    """The derivative of gelu_tanh: (1 + t + x (1 - t²) u') / 2 with t = tanh(u)."""
    scale, cubic = GELU_TANH
    x = np.clip(x, -40, 40)  # 0 or 1 beyond, and infinity must not be multiplied by 0
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


# -- integers --------------------------------------------------------------------------------------------------------
def truncate_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.trunc(np.divide(x, y))
    quotient = np.floor_divide(x, y)  # without floating point: int64 does not fit
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)
