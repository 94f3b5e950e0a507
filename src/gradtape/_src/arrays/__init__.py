"""Engines. The type of an array decides which engine computes with it: `namespace_of` returns the engine's functions.

A namespace has one function for each primitive, under the primitive's name: NumPy's own function if there is one, a
kernel of the engine's module, or a kernel written once over `xp` for every engine.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from gradtape._src.arrays.base import Engine
from gradtape._src.arrays.numpy import core, frames, image, linalg, neural, random, segment, signal, special, state

numpy_namespace: Any = Engine("NumPy", np, core, frames, special, linalg, neural, signal, image, random, segment, state)


class _ByType(dict[type, Any]):
    """Namespaces by type of array. Subclasses have the namespace of their base; Python numbers and other types have
    NumPy's.

    The first JAX array imports the namespace for JAX.
    """

    def __missing__(self, kind: type) -> Any:
        if kind.__module__.startswith(("jax.", "jaxlib.")):
            from gradtape._src.arrays import xla  # noqa: F401 - registers its arrays

            if kind in self:
                return self[kind]
        self[kind] = found = next((self[base] for base in kind.__mro__[1:] if base in self), numpy_namespace)
        return found


namespaces = _ByType({np.ndarray: numpy_namespace})
for _scalar in {*np.sctypeDict.values(), ml_dtypes.bfloat16}:  # rules get NumPy scalars instead of 0-d arrays
    namespaces[_scalar] = numpy_namespace


def register_namespace(kind: type, namespace: Any) -> None:
    """Set the namespace of a type of array."""
    namespaces[kind] = namespace


def namespace_of(array: Any) -> Any:
    """The namespace of an array; Python scalars count as NumPy."""
    return namespaces[type(array)]


def common_namespace(arrays: Any) -> Any:
    """The namespace with the highest rank: it takes all of these arrays (a batch may contain any engine's arrays)."""
    best = numpy_namespace
    for array in arrays:
        found = namespaces[type(array)]
        if found is not best and found.rank > best.rank:
            best = found
    return best


_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "floordiv": "floor_divide",
    "mod": "mod",
    "pow": "power",
    "matmul": "matmul",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
}
_COMPARISONS = {
    "gt": "greater",
    "lt": "less",
    "ge": "greater_equal",
    "le": "less_equal",
    "eq": "equal",
    "ne": "not_equal",
}
_OF_ONE = {"neg": "negative", "invert": "invert", "abs": "absolute"}


def attach_operators(kind: type, binary: Callable[[str, bool], Any], unary: Callable[[str], Any]) -> None:
    """Add Python's operators to a class of arrays: `binary(name, swapped)` and `unary(name)` make the methods."""
    for symbol, name in {**_OPERATORS, **_COMPARISONS}.items():
        setattr(kind, f"__{symbol}__", binary(name, False))
        if symbol in _OPERATORS:
            setattr(kind, f"__r{symbol}__", binary(name, True))
    for symbol, name in _OF_ONE.items():
        setattr(kind, f"__{symbol}__", unary(name))
    setattr(kind, "__hash__", None)  # noqa: B010 - == is elementwise
