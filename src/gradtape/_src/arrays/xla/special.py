"""Special functions that are an XLA instruction, or a JAX function that runs in the array's own dtype.

All others are in `shared/`, in float64: XLA's own gamma functions and integrals differ at poles and infinities, or lose
accuracy near zeros. Denormal numbers are 0 on XLA.
"""

from __future__ import annotations

from math import sqrt

import jax
import jax.numpy as jnp
from jax import lax

from gradtape._src.arrays.shared.elementwise import GELU_TANH
from gradtape._src.arrays.shared.frames import Array
from gradtape._src.arrays.xla.frames import at_least_float32

# -- the error function and the normal distribution ------------------------------------------------------------------
erf = at_least_float32(jax.scipy.special.erf)
erfc = at_least_float32(jax.scipy.special.erfc)
erfinv = at_least_float32(jax.scipy.special.erfinv)
ndtri = at_least_float32(jax.scipy.special.ndtri)


@at_least_float32
def erfcinv(x: Array) -> Array:
    return -sqrt(0.5) * ndtri(0.5 * x)


@at_least_float32
def ndtr(x: Array) -> Array:
    return 0.5 * erfc(-sqrt(0.5) * x)


# -- gelu ------------------------------------------------------------------------------------------------------------
# With t = tanh(u), (1 + t) / 2 is 1 / (1 + exp(-2 u)): one exponential, where XLA's tanh is a polynomial of many terms.
# The square of a reciprocal square root is a division in two GPU instructions, exact to float32's last bits.
def _gelu_share(x: Array) -> Array:
    scale, cubic = GELU_TANH
    root = lax.rsqrt(1 + jnp.exp(-2 * scale * x * (1 + cubic * x * x)))
    return root * root


@at_least_float32
def gelu_tanh(x: Array) -> Array:
    return x * _gelu_share(x)


@at_least_float32
def gelu_tanh_slope(x: Array) -> Array:
    scale, cubic = GELU_TANH
    x = jnp.clip(x, -40, 40)  # 0 or 1 beyond, and infinity must not be multiplied by 0
    share = _gelu_share(x)
    return share + (share - share * share) * x * (2 * scale + (6 * cubic * scale) * x * x)


# -- integers --------------------------------------------------------------------------------------------------------
def truncate_divide(x: Array, y: Array) -> Array:
    if x.dtype.kind in "iu":
        # XLA's compiler crashes on a division of constants by zero.
        return lax.div(*jnp.broadcast_arrays(x, jnp.where(y == 0, jnp.ones((), y.dtype), y)))
    return jnp.trunc(jnp.divide(x, y))


# -- Bessel functions and integrals ----------------------------------------------------------------------------------
bessel_i0e = at_least_float32(lax.bessel_i0e)
bessel_i1e = at_least_float32(lax.bessel_i1e)


@at_least_float32
def fresnel_sin(x: Array) -> Array:
    return jax.scipy.special.fresnel(x)[0]


@at_least_float32
def fresnel_cos(x: Array) -> Array:
    return jax.scipy.special.fresnel(x)[1]
