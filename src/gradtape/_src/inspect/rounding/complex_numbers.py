"""Enclosures of complex numbers: rectangles, whose real and imaginary parts are intervals.

The ends of such an interval are complex. Arithmetic is that of the parts, with the rules for real numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src.inspect.rounding.enclosures import MOVES, SUMS, Call, complex_rules, of, rules, square
from gradtape._src.inspect.rounding.interval import Interval, as_interval, choose, joined

Parts = tuple[Interval, Interval]


def _of_parts(*names: str) -> Callable[[Callable[..., Parts]], Callable[..., Parts]]:
    """Register a rule for the real and the imaginary part of a result, from those of the operands."""

    def declare(function: Callable[..., Parts]) -> Callable[..., Parts]:
        def enclosure(call: Call, *xs: Interval) -> Interval:
            return joined(*function(*[_parts(x) for x in xs]))

        complex_rules.update(dict.fromkeys(names, enclosure))
        return function

    return declare


def _parts(x: Interval) -> Parts:
    return x.parts if x.is_complex else (x, as_interval(np.zeros(x.shape)))


complex_rules.update({name: rules[name] for name in MOVES if name not in ("real", "conj")})
_of_parts("add")(lambda x, y: (x[0] + y[0], x[1] + y[1]))
_of_parts("subtract")(lambda x, y: (x[0] - y[0], x[1] - y[1]))
_of_parts("negative")(lambda x: (-x[0], -x[1]))
_of_parts("conj")(lambda x: (x[0], -x[1]))


@_of_parts("multiply", "multiply_no_nan")
def _product(x: Parts, y: Parts) -> Parts:
    return x[0] * y[0] - x[1] * y[1], x[0] * y[1] + x[1] * y[0]


@_of_parts("square")
def _square(x: Parts) -> Parts:
    return square(x[0]) - square(x[1]), x[0] * x[1] * 2.0


@_of_parts("divide")
def _quotient(x: Parts, y: Parts) -> Parts:
    size = square(y[0]) + square(y[1])
    return (x[0] * y[0] + x[1] * y[1]) / size, (x[1] * y[0] - x[0] * y[1]) / size


@_of_parts("divide_no_nan")
def _quotient_or_zero(x: Parts, y: Parts) -> Parts:
    """0 where the denominator is 0; unknown where it may be."""
    is_zero = np.logical_and.reduce([end == 0 for part in y for end in (part.lo, part.hi)])
    found = _quotient(x, y)
    first, second = [Interval(np.where(is_zero, 0.0, part.lo), np.where(is_zero, 0.0, part.hi)) for part in found]
    return first, second


@_of_parts("exp")
def _exp(x: Parts) -> Parts:
    size = of("exp", x[0])
    return size * of("cos", x[1]), size * of("sin", x[1])


complex_rules.update(
    complex=lambda call, x, y: joined(x, y),
    real=lambda call, x: x.parts[0],
    imag=lambda call, x: x.parts[1],
    absolute=lambda call, x: of("sqrt", square(x.parts[0]) + square(x.parts[1])),
)


def _where(call: Call, condition: Interval, x: Interval, y: Interval) -> Interval:
    return joined(*[choose(condition, a, b) for a, b in zip(_parts(x), _parts(y), strict=True)])


def _sum(call: Call, x: Interval) -> Interval:
    rule: Any = rules[call.op.name]
    return joined(*[rule(call, part) for part in x.parts])


def _cast(call: Call, x: Interval) -> Interval:
    first, second = _parts(x)
    return joined(first, second) if np.dtype(call.attrs["dtype"]).kind == "c" else first


def _matmul(call: Call, x: Interval, y: Interval) -> Interval:
    """Adjoint operands are conjugated."""
    a, b = _parts(x), _parts(y)
    signs = [-1.0 if call.attrs.get(name) else 1.0 for name in ("adjoint_x", "adjoint_y")]
    product: Any = rules["matmul"]
    real = product(call, a[0], b[0]) - product(call, a[1], b[1]) * (signs[0] * signs[1])
    return joined(real, product(call, a[0], b[1]) * signs[1] + product(call, a[1], b[0]) * signs[0])


complex_rules.update(dict.fromkeys(SUMS, _sum), astype=_cast, matmul=_matmul, where=_where)
