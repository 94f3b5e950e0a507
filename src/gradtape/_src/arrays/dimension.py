"""Symbolic dimensions: integer polynomials in variables such as d0, with quotients, remainders and maxima.

Two dimensions are equal if they are the same polynomial. A comparison is decided if it follows from the smallest
possible sizes of the variables; otherwise it raises an error.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, NamedTuple

from gradtape._src.interrupts import setting

Atom = Any
"""A variable, or a `_Function`."""

Monomial = tuple[Atom, ...]
"""A product of atoms, in a fixed order."""


class UnknownDimensionError(Exception):
    """Something cannot be traced with unknown dimensions: it has to be traced again for known ones."""


class DimensionVariable(NamedTuple):
    """An unknown size: its name, and its lower bound."""

    name: str
    least: int

    def __str__(self) -> str:
        return self.name


class _Function(NamedTuple):
    """A function of two sizes that is not a polynomial."""

    name: str
    left: Any
    right: Any

    def __str__(self) -> str:
        return f"{self.name}({self.left}, {self.right})"


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "max": lambda a, b: maximum(a, b),
    "min": lambda a, b: -maximum(-a, -b),
}


class Dimension:
    """A polynomial: coefficients by monomial. A constant one is always an int, never a `Dimension`."""

    __slots__ = ("_hash", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        self.terms = terms
        self._hash = hash(frozenset(terms.items()))

    # -- arithmetic --------------------------------------------------------------------------------------------------
    def __add__(self, other: Any) -> Any:
        if (terms := _terms(other)) is None:
            return NotImplemented
        total = dict(self.terms)
        for monomial, count in terms.items():
            total[monomial] = total.get(monomial, 0) + count
        return _simplest(total)

    def __mul__(self, other: Any) -> Any:
        if (terms := _terms(other)) is None:
            return NotImplemented
        total: dict[Monomial, int] = {}
        for a, m in self.terms.items():
            for b, n in terms.items():
                both = tuple(sorted((*a, *b), key=str))
                total[both] = total.get(both, 0) + m * n
        return _simplest(total)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Dimension:
        return self

    def __sub__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else self + -1 * other

    def __rsub__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else -1 * self + other

    def __pow__(self, power: int) -> Any:
        result: Any = 1
        for _ in range(operator.index(power)):
            result = self * result
        return result

    def __floordiv__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _divided(self, other)[0]

    def __rfloordiv__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _divided(other, self)[0]

    def __mod__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _divided(self, other)[1]

    def __rmod__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _divided(other, self)[1]

    def __divmod__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _divided(self, other)

    def __abs__(self) -> Any:
        return maximum(self, -self)

    # -- comparisons -------------------------------------------------------------------------------------------------
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dimension) and self._hash == other._hash and self.terms == other.terms

    def __hash__(self) -> int:
        return self._hash

    def __ge__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _at_least(self, other)

    def __le__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else _at_least(other, self)

    def __gt__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else not _at_least(other, self)

    def __lt__(self, other: Any) -> Any:
        return NotImplemented if _terms(other) is None else not _at_least(self, other)

    def __bool__(self) -> bool:
        low, high = bounds(self)
        if low > 0 or high < 0 or (low == 0 and _assumed(self - 1)):
            return True
        raise _undecided(f"{self} != 0")

    # -- numbers -----------------------------------------------------------------------------------------------------
    def __index__(self) -> int:
        raise UnknownDimensionError(f"The size of the dimension {self} is unknown while a function is traced.")

    def evaluated(self, sizes: Mapping[str, Any]) -> Any:
        """The number for these sizes of variables; a dimension if some are missing."""
        total: Any = 0
        for monomial, count in self.terms.items():
            product: Any = count
            for atom in monomial:
                product = product * _evaluated(atom, sizes)
            total = product + total
        return total

    def is_variable(self) -> bool:
        """Whether it is one variable alone."""
        ((monomial, count), *others) = self.terms.items()
        return count == 1 and not others and len(monomial) == 1 and type(monomial[0]) is DimensionVariable

    def variables(self) -> Iterator[DimensionVariable]:
        """The variables in it, with repetitions."""
        for monomial in self.terms:
            for atom in monomial:
                if type(atom) is DimensionVariable:
                    yield atom
                else:
                    for side in (atom.left, atom.right):
                        yield from side.variables() if type(side) is Dimension else ()

    def __str__(self) -> str:
        """The dimension as a Python expression."""
        return " + ".join([_text(monomial, count) for monomial, count in self.terms.items()]).replace("+ -", "- ")

    __repr__ = __str__

    def __deepcopy__(self, memo: Any) -> Dimension:
        return self


def variable(name: str, least: int = 1) -> Dimension:
    """The dimension with this name: a size of at least `least`."""
    return Dimension({(DimensionVariable(name, least),): 1})


def maximum(a: Any, b: Any) -> Any:
    """The larger of two sizes."""
    if type(a) is not Dimension and type(b) is not Dimension:
        return max(a, b)
    found = _known_at_least(a, b)
    if found is None and _known_at_least(b, a):
        return b
    if found is None:
        return _of_atom(_Function("max", *sorted((a, b), key=str)))
    return a if found else b


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two sizes."""
    return -maximum(-a, -b)


def bounds(value: Any) -> tuple[float, float]:
    """The lower and the upper bound of a size."""
    if type(value) is not Dimension:
        return value, value
    low = high = 0.0
    for monomial, count in value.terms.items():
        least, most = 1.0, 1.0
        for atom in monomial:
            a, b = _bounds_of(atom)
            products = [_product(x, y) for x in (least, most) for y in (a, b)]
            least, most = min(products), max(products)
        ends = _product(count, least), _product(count, most)
        low, high = low + min(ends), high + max(ends)
    return low, high


def _product(x: float, y: float) -> float:
    return 0.0 if x == 0 or y == 0 else x * y  # 0 times infinity is 0 here, not NaN


def _bounds_of(atom: Atom) -> tuple[float, float]:
    if type(atom) is DimensionVariable:
        return atom.least, float("inf")
    left, right = bounds(atom.left), bounds(atom.right)
    if atom.name == "max":
        return max(left[0], right[0]), max(left[1], right[1])
    if right[0] <= 0:
        return float("-inf"), float("inf")
    if atom.name == "mod":
        return 0, right[1] - 1
    quotients = [_product(x, 1 / y) // 1 if abs(x) != float("inf") else x for x in left for y in right]
    return min(quotients), max(quotients)


def _at_least(a: Any, b: Any) -> bool:
    found = _known_at_least(a, b)
    if found is None:
        found = _assumed(a - b)
    if found is None:
        raise _undecided(f"{a} >= {b}")
    return found


def _known_at_least(a: Any, b: Any) -> bool | None:
    low, high = bounds(a - b)
    return True if low >= 0 else False if high < 0 else None


Assume = Callable[[Dimension, bool], bool]
"""A function that assumes that a dimension is at least 0 (or below), and returns whether that is allowed."""

_assume: list[Assume] = []
_LARGE = 1 << 62


def register_assume(assume: Assume) -> None:
    """Register `assume`: undecided comparisons take the result for large sizes, which the program checks later."""
    _assume.append(assume)


def _assumed(difference: Dimension) -> bool | None:
    """Whether a dimension is at least 0 for large sizes; None if that is undecided, or assumptions are not allowed."""
    low, high = bounds(difference)
    answer: bool | None = high == float("inf")
    if answer == (low == float("-inf")):
        answer = None if answer else _limit(difference)
    return answer if answer is not None and any(assume(difference, answer) for assume in _assume) else None


def _limit(difference: Dimension) -> bool | None:
    """Whether a bounded dimension, such as min(8, n) - 1, is at least 0 for large sizes; None if it has no limit."""
    atoms = [atom for monomial in difference.terms for atom in monomial]
    if any(type(atom) is _Function and atom.name != "max" for atom in atoms):
        return None
    found = difference.evaluated({v.name: _LARGE for v in difference.variables()})
    return found >= 0 if type(found) is int else None


_equal: list[Callable[[Any], bool]] = []
_collected: ContextVar[list[tuple[Any, Any]] | None] = ContextVar("gradtape_equal_sizes", default=None)


_unequal: ContextVar[list[Dimension] | None] = ContextVar("gradtape_unequal_sizes", default=None)


def register_assume_equal(assume: Callable[[Any], bool]) -> None:
    """Register `assume`: sizes that depend on values may be assumed equal, which the program checks."""
    _equal.append(assume)


def is_same(a: Any, b: Any) -> bool:
    """Whether two sizes are equal; if they depend on values this is assumed, where that is allowed."""
    if a == b:
        return True
    difference = a - b
    if not depends_on_values(difference):
        unequal = _unequal.get()
        if unequal is not None and type(difference) is Dimension:
            unequal.append(difference)
        return False
    low, high = bounds(difference)
    if low > 0 or high < 0:
        return False
    return _taken_as_same(a, b)


def is_repeatable(n: Any, size: Any) -> bool:
    """Whether an axis of n elements has this size or can be broadcast to it, because it has one element.

    If n depends on values and the size is known, either is assumed: n is a root of (n - 1) * (n - size).
    """
    if n == 1 or n == size:
        return True
    if not depends_on_values(n) or type(size) is not int or size < 2:
        return is_same(n, size)
    low, high = bounds(n)
    return (low <= 1 <= high or low <= size <= high) and _taken_as_same((n - 1) * n, (n - 1) * size)


def depends_on_values(size: Any) -> bool:
    """Whether a size depends on values, so that it may be 0."""
    return type(size) is Dimension and any(v.least == 0 for v in size.variables())


def _taken_as_same(a: Any, b: Any) -> bool:
    pairs = _collected.get()
    if pairs is None:
        return assume_same([(a, b)])
    pairs.append((a, b))
    return True


def assume_same(pairs: Sequence[tuple[Any, Any]]) -> bool:
    """Assume that the sizes of each pair are equal; return whether that is allowed."""
    return all(any(assume(a - b) for assume in _equal) for a, b in pairs)


def collecting_pairs(pairs: list[tuple[Any, Any]]) -> setting[list[tuple[Any, Any]] | None]:
    """Context in which sizes that are assumed to be equal are added to this list instead of being checked."""
    return setting(_collected, pairs)


def collecting_unequal(differences: list[Dimension]) -> setting[list[Dimension] | None]:
    """Context in which differences of sizes that are not known to be equal are added to this list."""
    return setting(_unequal, differences)


def root(difference: Dimension) -> tuple[str, Any] | None:
    """The name of a variable in a difference, and the size for which it is 0: a number, or a term in the others.

    None where there is none that is at least 1 for all sizes of the others.
    """
    variables = sorted(set(difference.variables()))
    for name, _ in variables:
        size = _number_for_zero(difference, name) if len(variables) == 1 else _term_for_zero(difference, name)
        if size is not None and bounds(size)[0] >= 1:
            return name, size
    return None


def _number_for_zero(difference: Dimension, name: str) -> int | None:
    """The size of the only variable for which a difference is 0, where it is linear in it."""
    first, slope = (difference.evaluated({name: 1}), difference.evaluated({name: 2}) - difference.evaluated({name: 1}))
    size: int = 1 - first // slope if slope else 0
    return size if difference.evaluated({name: size}) == 0 else None


def _term_for_zero(difference: Dimension, name: str) -> Any:
    """The size of a variable for which a difference is 0, where it is linear in it and can be divided by its factor."""
    factor: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for monomial, count in difference.terms.items():
        others = tuple([atom for atom in monomial if type(atom) is not DimensionVariable or atom.name != name])
        if len(monomial) - len(others) > 1 or name in {other.name for other in Dimension({others: 1}).variables()}:
            return None  # it is squared, or within a quotient
        (rest if others == monomial else factor)[others] = -count if others == monomial else count
    slope, term = _simplest(factor), _simplest(rest)
    size, remainder = _divided(term, slope) if bounds(slope)[0] >= 0 else _divided(-term, -slope)
    return size if type(remainder) is int and remainder == 0 else None


def _undecided(statement: str) -> UnknownDimensionError:
    return UnknownDimensionError(f"Cannot tell whether {statement} while a function is traced.")


def _terms(value: Any) -> Mapping[Monomial, int] | None:
    """The polynomial of a size; None for other values."""
    if type(value) is Dimension:
        return value.terms
    try:
        number = operator.index(value)
    except TypeError:
        return None
    return {(): number} if number else {}


def _simplest(terms: dict[Monomial, int]) -> Any:
    """An int if nothing is unknown, otherwise a dimension whose terms are in canonical order."""
    left = {monomial: count for monomial, count in terms.items() if count}
    if not left.keys() - {()}:
        return left.get((), 0)
    return Dimension({key: left[key] for key in sorted(left, key=lambda key: (not key, str(key)))})


def _of_atom(atom: Atom) -> Dimension:
    return Dimension({(atom,): 1})


def _divided(a: Any, b: Any) -> tuple[Any, Any]:
    """Quotient and remainder: exact for the terms that the divisor divides, atoms for the rest."""
    divisor = _terms(b)
    if not divisor:
        raise ZeroDivisionError("division by zero")
    if a == b:
        return 1, 0
    whole: Any = 0
    rest: Any = 0
    for monomial, count in (_terms(a) or {}).items():
        quotient = _exact(monomial, count, divisor)
        if quotient is None:
            rest = rest + _simplest({monomial: count})
        else:
            whole = whole + quotient
    low, high = bounds(rest)
    if low >= 0 and high < bounds(b)[0]:
        return whole, rest
    return whole + _of_atom(_Function("floordiv", rest, b)), _of_atom(_Function("mod", rest, b))


def _exact(monomial: Monomial, count: int, divisor: Mapping[Monomial, int]) -> Any:
    """The quotient of a term and a divisor with one term; None if there is a remainder."""
    if len(divisor) != 1:
        return None
    ((atoms, number),) = divisor.items()
    left = list(monomial)
    for atom in atoms:
        if atom not in left:
            return None
        left.remove(atom)
    return _simplest({tuple(left): count // number}) if count % number == 0 else None


def _evaluated(atom: Atom, sizes: Mapping[str, Any]) -> Any:
    if type(atom) is DimensionVariable:
        return sizes.get(atom.name, _of_atom(atom))
    sides = [side.evaluated(sizes) if type(side) is Dimension else side for side in (atom.left, atom.right)]
    return FUNCTIONS[atom.name](*sides)


def _text(monomial: Monomial, count: int) -> str:
    if not monomial:
        return str(count)
    product = "*".join(map(str, monomial))
    return product if count == 1 else f"-{product}" if count == -1 else f"{count}*{product}"
