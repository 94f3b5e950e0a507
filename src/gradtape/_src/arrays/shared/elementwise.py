"""Activations, products and quotients that are 0 where a factor is 0, bit shifts."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

import numpy as np

from gradtape._src.arrays.shared.frames import Array, at_least_float32

_FLOAT32 = np.dtype(np.float32)

# -- activations -----------------------------------------------------------------------------------------------------
# TensorFlow's gelu rounds one constant of each formula to float32 for all dtypes; so does this, to be equal in float64
# as well. (With 1 and 0.044715 the results would be exact.)
GELU_SCALE = sqrt(2) * float(np.float32(sqrt(0.5)))
GELU_TANH = (sqrt(2 / pi), float(np.float32(0.044715)))
SELU_SCALE, SELU_ALPHA = 1.0507009873554805, 1.6732632423543772


def softplus(xp: Any, x: Array) -> Array:
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.absolute(x)))


def relu6(xp: Any, x: Array) -> Array:
    return xp.minimum(xp.maximum(x, 0), 6)


def leaky_relu(xp: Any, x: Array, *, alpha: float) -> Array:
    below = x * x.dtype.type(alpha)  # a Python number would widen bfloat16
    return xp.maximum(x, below) if 0 <= alpha <= 1 else xp.where(x > 0, x, below)


@at_least_float32
def elu(xp: Any, x: Array) -> Array:
    return xp.maximum(x, 0) + xp.expm1(xp.minimum(x, 0))


@at_least_float32
def selu(xp: Any, x: Array) -> Array:
    return SELU_SCALE * xp.maximum(x, 0) + (SELU_SCALE * SELU_ALPHA) * xp.expm1(xp.minimum(x, 0))


def softsign(xp: Any, x: Array) -> Array:
    return x / (1 + xp.absolute(x))


@at_least_float32
def silu(xp: Any, x: Array) -> Array:
    return x * xp.sigmoid(x)


@at_least_float32
def gelu(xp: Any, x: Array) -> Array:
    return x * xp.ndtr(x if x.dtype == _FLOAT32 else GELU_SCALE * x)  # at minus infinity NaN, as TensorFlow's


@at_least_float32
def gelu_slope(xp: Any, x: Array) -> Array:
    """The derivative of gelu: Φ(x) + x φ(x)."""
    x = x if x.dtype == _FLOAT32 else GELU_SCALE * x
    bell = xp.exp(-0.5 * x * x)
    bell *= 1 / sqrt(2 * pi)
    bell *= x  # at infinity NaN, as TensorFlow's
    return xp.ndtr(x) + bell


# -- products and quotients that are 0 where a factor is -------------------------------------------------------------
def multiply_no_nan(xp: Any, x: Array, y: Array) -> Array:
    return xp.zero_where(xp.equal(y, 0), xp.multiply(x, y))


def divide_no_nan(xp: Any, x: Array, y: Array) -> Array:
    return xp.zero_where(xp.is_zero(y), xp.divide(x, y))


def xlogy(xp: Any, x: Array, y: Array) -> Array:
    return xp.zero_where(xp.is_zero(x), x * xp.log(y))


def xlog1py(xp: Any, x: Array, y: Array) -> Array:
    return xp.zero_where(xp.is_zero(x), x * xp.log1p(y))


def xdivy(xp: Any, x: Array, y: Array) -> Array:
    return xp.zero_where(xp.is_zero(x), xp.divide(x, y))


# -- integers --------------------------------------------------------------------------------------------------------
def floor_divide(xp: Any, x: Array, y: Array) -> Array:
    """Round the quotient towards minus infinity; for floating-point numbers, too, so that 1.0 // 0.1 is 10."""
    return x // y if x.dtype.kind in "iu" else xp.floor(xp.divide(x, y))


def shift_left(xp: Any, x: Array, y: Array) -> Array:
    """Shift within the width of the dtype: larger shifts are clipped, as in TensorFlow."""
    return xp.left_shift(x, xp.clip(y, 0, x.dtype.itemsize * 8 - 1))


def shift_right(xp: Any, x: Array, y: Array) -> Array:
    return xp.right_shift(x, xp.clip(y, 0, x.dtype.itemsize * 8 - 1))


# -- parts of complex functions, for the engines' own kernels: `xp` is the library, numpy or jax.numpy -----------------
def complex_rsqrt(xp: Any, x: Array, y: Array, size: Array) -> tuple[Array, Array]:
    """The parts of 1 / sqrt(x + iy), as in TensorFlow: on the branch cut -0j is treated as +0j, at infinity it is 0."""
    root = xp.sqrt(0.5 * (xp.absolute(x) + size))
    large, small = root / size, y / (2 * root * size)
    right, infinite = x >= 0, xp.isinf(x) | xp.isinf(y)
    real = xp.where(right, large, xp.absolute(small))
    imag = xp.where(right, -small, xp.where(y < 0, large, -large))
    real, imag = xp.where(infinite, 0, real), xp.where(infinite, 0, imag)
    return xp.where(size == 0, np.inf, real), xp.where(size == 0, np.nan, imag)
