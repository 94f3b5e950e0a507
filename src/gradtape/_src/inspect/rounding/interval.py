"""Intervals of real numbers, in double precision and rounded outward.

For each element, an interval has two numbers that enclose the exact value. Every operation returns an interval that
contains the results for all numbers in its operands: NumPy rounds to nearest, so each end is moved by more than the
possible error. Unknown ends are infinite.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src.arrays.half import is_half

EPS = 2.0**-52
"""The distance from 1 to the next number in double precision: at least twice the relative error of a rounding."""

TINY = 2.0**-1074
"""The smallest number: the absolute error of results so small that they have fewer digits."""

Array = np.ndarray


class Interval:
    """Lower and upper ends of each element; those of integers and booleans have the dtype of the elements, and those of
    complex numbers are complex: their real and their imaginary parts are ends of the parts.

    `pool` is the interval that the elements come from, if an op only moved or selected them: two elements of one pool
    can be recognised as the same.
    """

    __slots__ = ("_is_ordered", "_pool", "hi", "lo")
    __array_ufunc__ = None

    def __init__(self, lo: Any, hi: Any, pool: Interval | None = None) -> None:
        self.lo, self.hi, self._pool = np.asarray(lo), np.asarray(hi), pool
        self._is_ordered: bool | None = None

    @property
    def pool(self) -> Interval:
        """The interval that the elements come from: another one, or this one."""
        return self._pool or self

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of both ends."""
        return self.lo.shape

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self.lo.size)

    @property
    def is_complex(self) -> bool:
        """Whether it encloses complex numbers."""
        return self.lo.dtype.kind == "c"

    @property
    def parts(self) -> tuple[Interval, Interval]:
        """The intervals of the real and of the imaginary part."""
        return Interval(self.lo.real, self.hi.real), Interval(self.lo.imag, self.hi.imag)

    @property
    def magnitude(self) -> Array:
        """The largest absolute value of each element."""
        return np.maximum(np.abs(self.lo), np.abs(self.hi))

    @property
    def middle(self) -> Array:
        """The midpoint; 0 if an end is infinite."""
        if self.is_complex:
            return _joined(*[part.middle for part in self.parts])
        middle = self.lo + 0.5 * (self.hi - self.lo)
        return np.where(np.isfinite(middle), middle, 0.0)

    @property
    def radius(self) -> Array:
        """The distance of the ends from the midpoint, rounded up."""
        if self.is_complex:
            return _up(_up(np.hypot(*[part.radius for part in self.parts])))
        middle = self.middle
        return _up(np.maximum(self.hi - middle, middle - self.lo))

    def is_point(self) -> bool:
        """Whether every element is a single number."""
        return bool(np.array_equal(self.lo, self.hi))

    def is_ordered(self) -> bool:
        """Whether any two elements are known to be equal or in a certain order."""
        if self._is_ordered is None:
            lo, hi = self.lo.ravel(), self.hi.ravel()
            order = np.argsort(lo, kind="stable")
            lo, hi = lo[order], hi[order]
            same = (lo[:-1] == hi[:-1]) & (lo[1:] == hi[1:]) & (lo[:-1] == lo[1:])
            self._is_ordered = bool(np.all((np.maximum.accumulate(hi)[:-1] < lo[1:]) | same)) if lo.size > 1 else True
        return self._is_ordered

    def is_same(self, other: Interval) -> Array | None:
        """Where both are the same element of one pool; None if that is unknown."""
        if self.pool is not other.pool or not self.pool.is_ordered():
            return None
        return np.asarray((self.lo == other.lo) & (self.hi == other.hi))

    def distance(self, value: Array) -> Array:
        """The largest possible error of a computed value, rounded up; infinite if it is unknown."""
        if self.is_complex:
            parts = zip(self.parts, (np.real(value), np.imag(value)), strict=True)
            far = np.hypot(*[part.distance(number) for part, number in parts])
            return np.where(far == 0, 0.0, _up(_up(far)))
        value = np.asarray(value, np.float64)
        far = np.maximum(np.abs(value - self.lo), np.abs(value - self.hi))
        same = (self.lo == value) & (self.hi == value)  # including infinities
        return np.where(same, 0.0, np.where(np.isnan(far), np.inf, _up(far)))

    # -- arithmetic --------------------------------------------------------------------------------------------------
    def __neg__(self) -> Interval:
        return Interval(-self.hi, -self.lo)

    def __add__(self, other: Any) -> Interval:
        other = as_interval(other)
        return Interval(_sum(self.lo, other.lo, -np.inf), _sum(self.hi, other.hi, np.inf))

    def __sub__(self, other: Any) -> Interval:
        other = as_interval(other)
        found = self + -other
        same = self.is_same(other)
        return found if same is None else Interval(np.where(same, 0.0, found.lo), np.where(same, 0.0, found.hi))

    def __mul__(self, other: Any) -> Interval:
        other = as_interval(other)
        ends = [a * b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        lo, hi = _extremes(ends)
        found = outward(lo, hi)
        exact = (_is_unit(self) | _is_unit(other)) & ~np.isnan(lo)  # 0 times an infinite end is unknown
        return Interval(np.where(exact, lo, found.lo), np.where(exact, hi, found.hi))

    def __truediv__(self, other: Any) -> Interval:
        other = as_interval(other)
        ends = [a / b for a in (self.lo, self.hi) for b in (other.lo, other.hi)]
        lo, hi = _extremes(ends)
        spans = (other.lo <= 0) & (other.hi >= 0)
        return outward(np.where(spans, -np.inf, lo), np.where(spans, np.inf, hi))

    __radd__ = __add__
    __rmul__ = __mul__

    def __rsub__(self, other: Any) -> Interval:
        return as_interval(other) - self

    def __rtruediv__(self, other: Any) -> Interval:
        return as_interval(other) / self

    def clipped(self, lo: float, hi: float) -> Interval:
        """The intersection with an interval that is known to contain the exact value."""
        return Interval(np.clip(self.lo, lo, hi), np.clip(self.hi, lo, hi))


def as_interval(value: Any) -> Interval:
    """A number or an array as an interval of width 0; floating-point ones in double precision."""
    if isinstance(value, Interval):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "f" or is_half(array.dtype):
        array = array.astype(np.float64)
    elif array.dtype.kind == "c":
        array = array.astype(np.complex128)
    return Interval(array, array)


def joined(real: Interval, imaginary: Interval) -> Interval:
    """The complex interval with these parts."""
    return Interval(_joined(real.lo, imaginary.lo), _joined(real.hi, imaginary.hi))


def _joined(real: Array, imaginary: Array) -> Array:
    """Complex numbers with these parts; a sum would turn infinite parts into NaN."""
    found = np.empty(np.broadcast_shapes(np.shape(real), np.shape(imaginary)), np.complex128)
    found.real, found.imag = real, imaginary
    return found


def outward(lo: Any, hi: Any, ulps: float = 1.0) -> Interval:
    """An interval around two computed ends, which are accurate to this number of units in the last place."""
    scale, tiny = (ulps + 1) * EPS, (ulps + 1) * TINY
    low, high = lo - (scale * np.abs(lo) + tiny), hi + (scale * np.abs(hi) + tiny)
    return Interval(np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high))


def around(middle: Any, radius: Any) -> Interval:
    """An interval with this midpoint and radius."""
    return outward(middle - radius, middle + radius)


def hull(x: Interval, y: Interval) -> Interval:
    """The smallest interval that contains both."""
    return Interval(np.minimum(x.lo, y.lo), np.maximum(x.hi, y.hi))


def choose(condition: Interval, x: Interval, y: Interval) -> Interval:
    """x where the condition is true, y where it is false, and both where it is unknown."""
    both = hull(x, y)
    lo = np.where(condition.lo, x.lo, np.where(condition.hi, both.lo, y.lo))
    hi = np.where(condition.lo, x.hi, np.where(condition.hi, both.hi, y.hi))
    return Interval(lo, hi)


def unknown(shape: tuple[int, ...], dtype: Any = np.float64) -> Interval:
    """The interval of all numbers, of all complex ones for a complex dtype."""
    found = Interval(np.full(shape, -np.inf), np.full(shape, np.inf))
    return joined(found, found) if np.dtype(dtype).kind == "c" else found


def monotone(
    f: Callable[[Array], Array],
    x: Interval,
    *,
    rising: bool = True,
    domain: tuple[float, float] = (-np.inf, np.inf),
    bounds: tuple[float, float] = (-np.inf, np.inf),
    ulps: float = 4.0,
) -> Interval:
    """A function that is monotone on its domain, and whose kernel is accurate to `ulps` units in the last place.

    There are no values outside of the domain: an interval that extends beyond it is cut, and the result for one without
    a part in it is unknown.
    """
    ends = [f(np.clip(end, *domain)) for end in (x.lo, x.hi)]
    lo, hi = ends if rising else ends[::-1]
    found = outward(lo, hi, ulps).clipped(*bounds)
    outside = (x.hi < domain[0]) | (x.lo > domain[1])
    return Interval(np.where(outside, -np.inf, found.lo), np.where(outside, np.inf, found.hi))


def _extremes(ends: list[Array]) -> tuple[Array, Array]:
    """The smallest and the largest; NaN if one is NaN."""
    first, second, third, fourth = ends
    lo = np.minimum(np.minimum(first, second), np.minimum(third, fourth))
    return lo, np.maximum(np.maximum(first, second), np.maximum(third, fourth))


def _sum(x: Array, y: Array, direction: float) -> Array:
    """x + y, rounded in a direction; the rounding error of a sum of two numbers is a number itself."""
    total = x + y
    part = total - x
    error = (x - (total - part)) + (y - part)
    moved = np.nextafter(total, direction)
    exact = (error == 0) | ((error > 0) == (direction < 0)) & (error != 0)
    exact = np.where(np.isinf(total), np.isinf(x) | np.isinf(y), exact)  # finite numbers have a finite sum
    return np.where(np.isnan(total), direction, np.where(exact, total, moved))


def _is_unit(x: Interval) -> Array:
    """Whether it is a number whose products are exact: 0, 1 or -1."""
    return np.asarray((x.lo == x.hi) & ((x.lo == 0) | (np.abs(x.lo) == 1)))


def _up(x: Array) -> Array:
    return np.nextafter(x, np.inf)
