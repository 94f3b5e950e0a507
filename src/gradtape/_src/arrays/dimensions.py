"""Dimensions that are not known while a function is traced: variables such as d0, and expressions in them.

Shapes of symbolic arrays hold a `Dimension` where others hold ints, and so do the static arguments of nodes, where a
shape is one. When a program is made for certain sizes they are evaluated: nothing of them is left in the program.
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
from gradtape._src.interrupts import is_interrupt
from gradtape._src.shape import unknown_kinds

Sizes = tuple[tuple[str, Any], ...]
"""The size of each variable, by its name: an int or, where a program is a part of another one, a dimension of that."""

_kinds = unknown_kinds
"""The classes of dimensions: ours and, while a program is exported, JAX's."""

_kinds.add(Dimension)


def register_kind(kind: type) -> None:
    """Declare that instances of a class are dimensions without a number, too."""
    _kinds.add(kind)


def is_dimension(value: Any) -> bool:
    """Whether this is a dimension without a number."""
    return type(value) in _kinds


def is_known_shape(shape: Sequence[Any]) -> bool:
    """Whether every dimension is a number."""
    return not any(type(n) in _kinds for n in shape)


def contains_dimension(values: Iterable[Any]) -> bool:
    """Whether there is a dimension without a number among static arguments, also within tuples and slices."""
    return next(dimensions_in(values), None) is not None


def dimensions_in(values: Iterable[Any]) -> Iterator[Any]:
    """The dimensions without a number among static arguments, also within tuples and slices."""
    for value in values:
        if isinstance(value, (tuple, list)):
            yield from dimensions_in(value)
        elif type(value) is slice:
            yield from dimensions_in((value.start, value.stop, value.step))
        elif type(value) in _kinds:
            yield value


def variables_in(values: Iterable[Any]) -> dict[str, DimensionVariable]:
    """The variables in the dimensions among static arguments, by their names."""
    return {v.name: v for n in dimensions_in(values) if type(n) is Dimension for v in n.variables()}


@functools.cache
def variable(name: str) -> Any:
    """The dimension of this name: a size of at least 1."""
    return _variable(name)


_dynamic_names = itertools.count()


def dynamic_variable() -> Any:
    """A new dimension that a running program finds out: a size that depends on values, and may be 0."""
    return _variable(f"n{next(_dynamic_names)}", least=0)


class DynamicSize:
    """Stands in an inferred shape for a size that depends on values; the same one for the same size."""


class DynamicSizeError(Exception):
    """A size that depends on values is not what a trace has assumed: the call has to run eagerly."""


class DynamicOpError(DynamicSizeError):
    """What a kernel says of sizes that depend on values: eager code has better words for it."""


# -- numbers instead of dimensions -----------------------------------------------------------------------------------
def evaluated(value: Any, sizes: Mapping[str, Any]) -> Any:
    """A static argument with numbers for its dimensions; programs in it with numbers for theirs."""
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
    """A shape with these sizes for its dimensions; as it is where there are none."""
    return evaluated(tuple(shape), dict(sizes)) if sizes else tuple(shape)


# -- values of which the dimensions are known ------------------------------------------------------------------------
_ARITHMETIC = {"add", "subtract", "multiply", "floor_divide", "mod", "negative", "sum", "prod", "cumsum"}
_SHAPING = {"identity", "stop_gradient", "reshape", "transpose", "broadcast_to", "concatenate", "stack", "unstack"}
_LOOKUPS = {"getitem", "split", "take", "gather_nd", "flip", "pad", "maximum", "minimum"}
_CASTS = {"astype", "discrete_cast"}
_REDUCTIONS = {"sum": np.add.reduce, "prod": np.multiply.reduce}  # kernels choose a dtype to add up in
_FOLLOWED = frozenset(_ARITHMETIC | _SHAPING | _LOOKUPS | _CASTS)


def followed(name: str, args: Sequence[Any], attrs: Mapping[str, Any], kernel: Any) -> Any:
    """What a function does to integers that are dimensions: `tf.shape(x)[0] * 2` can be a part of a shape again.

    None where they are no integers any more, or where only the running program can tell.
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
    except Exception as error:  # a comparison that has no answer yet: the program will have one
        if is_interrupt(error):
            raise
        return None


def broadcast_shapes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The shape of an elementwise function of arrays of these shapes; ValueError where they do not fit."""
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
    """Whether two shapes are the same; sizes that depend on values are assumed to be, and the program checks it."""
    return a == b or (len(a) == len(b) and all(map(is_same, a, b)))


def extents_of(shape: Sequence[Any]) -> np.ndarray:
    """A shape as an array whose elements may be dimensions."""
    array = np.empty(len(shape), object)
    array[:] = shape
    return array
