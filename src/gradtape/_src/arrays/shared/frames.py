"""Building blocks of shared kernels: the dtype to compute in, piecewise formulas, polynomials.

A shared kernel is a function of `xp` and arrays. The engine decides how it runs: `in_float64` and `at_least_float32`,
which make a function for any dtype of a marked kernel, `xp.piecewise`, `xp.while_loop` and `xp.zero_where` are in
`numpy/frames.py` and `xla/frames.py`. `x += y` changes a NumPy array in place and makes a new JAX array: arrays that
are still needed must not be changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

Array = Any
Kernel = Callable[..., Array]
Pieces = Sequence[tuple[Array, Any]]
"""Conditions, each with a formula (a function of arrays, or a number) that applies where it is true."""


def in_float64(function: Kernel) -> Kernel:
    """Mark a kernel for float64 arrays of one shape: an engine runs it on any floating dtype."""
    function.frame = "in_float64"  # type: ignore[attr-defined]
    return function


def jumps_at_zero(function: Kernel) -> Kernel:
    """Mark such a kernel as discontinuous at 0: denormal numbers are 0 for it, as in TensorFlow and XLA."""
    function.flushes = True  # type: ignore[attr-defined]
    return function


def at_least_float32(function: Kernel) -> Kernel:
    """Mark a kernel of one array that keeps its dtype: an engine computes 16-bit numbers in float32."""
    function.frame = "at_least_float32"  # type: ignore[attr-defined]
    return function


def polynomial(x: Array, coefficients: Sequence[float]) -> Array:
    """A polynomial, lowest power first, by Horner's scheme."""
    result = x * coefficients[-1]
    for c in coefficients[-2:0:-1]:
        result += c
        result *= x
    result += coefficients[0]
    return result


def ratio(x: Array, pair: Sequence[Sequence[float]]) -> Array:
    """A rational function, or a polynomial without a denominator: an entry of `special_tables`."""
    result = polynomial(x, pair[0])
    if len(pair) > 1:
        result /= polynomial(x, pair[1])
    return result


def odd(xp: Any, function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """The odd extension of a function on positive numbers: f(-x) = -f(x)."""
    return lambda x: xp.copysign(function(xp.absolute(x)), x)


@cache
def gauss_legendre() -> tuple[Array, Array]:
    """Nodes and weights of a quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(64)
    return (nodes + 1) / 2, weights / 2
