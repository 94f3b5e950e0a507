"""Unknown dimensions while a function is traced: variables such as d0, and expressions of them.

Shapes of symbolic arrays may contain a `Dimension` instead of an int, and so may static arguments of nodes. When a
program is made for certain sizes, they are evaluated: the program contains none.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.dimension import (
    Dimension,
    DimensionVariable,
    UnknownDimensionError as UnknownDimensionError,
    depends_on_values as depends_on_values,
    is_repeatable as is_repeatable,
    is_same as is_same,
    variable as _variable,
)
from gradtape._src.arrays.graph_ops import collector
from gradtape._src.interrupts import is_interrupt
from gradtape._src.shape import TensorShape, unknown_kinds

Sizes = tuple[tuple[str, Any], ...]
"""The size of each variable, by name: an int or, if a program is inlined into another one, a dimension of that."""

_kinds = unknown_kinds
"""The classes of symbolic dimensions: ours and, while a program is exported, JAX's."""

_kinds.add(Dimension)


def register_kind(kind: type) -> None:
    """Register a class of symbolic dimensions."""
    _kinds.add(kind)


def is_dimension(value: Any) -> bool:
    """Whether this is a symbolic dimension."""
    return type(value) in _kinds


def is_variable(value: Any) -> bool:
    """Whether this is a dimension without a number that is no sum, product or quotient of others."""
    return type(value) is Dimension and value.is_variable()


def is_known_shape(shape: Sequence[Any]) -> bool:
    """Whether every dimension is a number."""
    return not any(type(n) in _kinds for n in shape)


def contains_dimension(values: Iterable[Any]) -> bool:
    """Whether static arguments contain a symbolic dimension, also within tuples and slices."""
    return next(dimensions_in(values), None) is not None


def dimensions_in(values: Iterable[Any]) -> Iterator[Any]:
    """The symbolic dimensions among static arguments, also within tuples and slices."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from dimensions_in(value)
        elif type(value) is slice:
            yield from dimensions_in((value.start, value.stop, value.step))
        elif type(value) in _kinds:
            yield value


def variables_in(values: Iterable[Any]) -> dict[str, DimensionVariable]:
    """The variables of the dimensions among static arguments, by name."""
    return {v.name: v for n in dimensions_in(values) if type(n) is Dimension for v in n.variables()}


@functools.cache
def variable(name: str) -> Any:
    """The dimension with this name: a size of at least 1."""
    return _variable(name)


_dynamic_names = itertools.count()


def dynamic_variable() -> Any:
    """A new dimension that only the running program knows: a size that depends on values, and may be 0."""
    return _variable(f"n{next(_dynamic_names)}", least=0)


class DynamicSize:
    """A placeholder in an inferred shape for a size that depends on values; equal sizes share one."""


class DynamicSizeError(Exception):
    """A size that depends on values differs from what the trace has assumed: the call has to run eagerly."""


class DynamicOpError(DynamicSizeError):
    """A kernel has rejected sizes that depend on values: eager execution raises a better error."""


# -- numbers instead of dimensions -----------------------------------------------------------------------------------
def evaluated(value: Any, sizes: Mapping[str, Any]) -> Any:
    """A static argument with numbers for its dimensions, including those of programs inside it."""
    kind = type(value)
    if kind is Dimension:
        return value.evaluated(sizes)
    if kind is tuple or kind is list:
        return kind([evaluated(v, sizes) for v in value])
    if kind is slice:
        return slice(*[evaluated(v, sizes) for v in (value.start, value.stop, value.step)])
    if hasattr(value, "with_sizes"):
        return value.with_sizes(tuple(sizes.items()))
    return value


def sized(shape: Sequence[Any], sizes: Sizes) -> tuple[Any, ...]:
    """A shape with these sizes for its dimensions; unchanged if it has none."""
    return evaluated(tuple(shape), dict(sizes)) if sizes else tuple(shape)


# -- values with known dimensions ------------------------------------------------------------------------------------
_ARITHMETIC = {"add", "subtract", "multiply", "floor_divide", "mod", "negative", "sum", "prod", "cumsum"}
_SHAPING = {"identity", "stop_gradient", "reshape", "transpose", "broadcast_to", "concatenate", "stack", "unstack"}
_LOOKUPS = {"getitem", "split", "take", "gather_nd", "flip", "pad", "maximum", "minimum"}
_CASTS = {"astype", "discrete_cast"}
_REDUCTIONS = {"sum": np.add.reduce, "prod": np.multiply.reduce}  # kernels choose another dtype for sums
_FOLLOWED = frozenset(_ARITHMETIC | _SHAPING | _LOOKUPS | _CASTS)


def followed(name: str, args: Sequence[Any], attrs: Mapping[str, Any], kernel: Any) -> Any:
    """The result of a function on integers that are dimensions: `tf.shape(x)[0] * 2` can be part of a shape again.

    None if the result is not an integer, or only the running program knows it.
    """
    if name not in _FOLLOWED or not any(getattr(a, "extents", None) is not None for a in args):
        return None
    values = []
    for a in args:
        known = getattr(a, "extents", a)
        if known is None:
            return None
        values.append(known)
    if name in _CASTS:
        return values[0] if attrs["dtype"].kind in "iu" else None
    try:
        if name in _REDUCTIONS:
            return np.asarray(_REDUCTIONS[name](*values, **attrs), object)
        return kernel(*values, **attrs)
    except Exception as error:  # an undecided comparison, which the program will decide
        if is_interrupt(error):
            raise
        return None


def broadcast_shapes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The broadcast of these shapes; ValueError if they are incompatible."""
    if all(map(is_known_shape, shapes)):
        return np.broadcast_shapes(*map(tuple, shapes))
    rank = max(map(len, shapes))
    result: list[Any] = [1] * rank
    for shape in shapes:
        for axis, n in enumerate(shape, rank - len(shape)):
            have = result[axis]
            known, other = (n, have) if type(n) is int else (have, n)
            if known != 1 and not is_repeatable(other, known):
                raise ValueError(f"shapes {shapes} are not compatible")
            if n != 1 and (have == 1 or type(n) is int):
                result[axis] = n
    return tuple(result)


def is_same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Whether two shapes are equal; sizes that depend on values are assumed equal, which the program checks."""
    return a == b or (len(a) == len(b) and all(map(is_same, a, b)))


def may_be(n: Any, size: int | None) -> bool:
    """Whether a dimension has a size, or any for None: the program checks what a trace cannot tell, a file does not."""
    return size is None or is_same(n, size) or (is_dimension(n) and collector() is not None)


def may_have_shape(have: Sequence[Any], wanted: TensorShape) -> bool:
    """Whether an array has a shape that may be known in part; as `may_be`."""
    return wanted.rank is None or (wanted.rank == len(have) and all(map(may_be, have, wanted.as_list())))


def extents_of(shape: Sequence[Any]) -> np.ndarray:
    """A shape as an array, whose elements may be dimensions."""
    array = np.empty(len(shape), object)
    array[:] = shape
    return array
