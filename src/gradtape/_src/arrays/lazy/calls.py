"""Kinds of calls: a primitive, its static arguments, and the shapes and dtypes of its operands have a number.

Shapes and dtypes of results are inferred once for each kind, by `arrays/abstract.py`, which raises what the kernel
raises for operands that do not fit. A trace then consists of integers.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from gradtape._src import forks
from gradtape._src.arrays.abstract import infer

Shape = tuple[int, ...]


class Spec:
    """Shape, dtype and device of an array: one object for each, so that dictionaries find it by identity.

    device  None for the memory of the processor, where NumPy computes, or a device of JAX's
    """

    __slots__ = ("device", "dtype", "nbytes", "shape")

    def __init__(self, shape: Shape, dtype: Any, device: Any) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self.nbytes = int(np.prod(shape, dtype=np.int64)) * int(dtype.itemsize)

    def __repr__(self) -> str:
        return f"Spec({self.dtype}{list(self.shape)})"


_specs: dict[Any, Spec] = {}


def spec_of(shape: Shape, dtype: Any, device: Any) -> Spec:
    """The object for a shape, a dtype and a device."""
    key = (shape, dtype, device)
    found = _specs.get(key)
    if found is None:
        found = _specs.setdefault(key, Spec(shape, dtype, device))
    return found


class Body(NamedTuple):
    """The calls of a block (`blocks.py`). Its arrays are numbered from 0; results of its calls have the next numbers.

    codes    the number of the kind of each call, its operands and its results
    results  the numbers of the results of the block
    """

    codes: tuple[tuple[int, ...], ...]
    results: tuple[int, ...]


class Kind(NamedTuple):
    """A call without the values of its operands.

    operands  one entry for each argument: a Spec for an array, a tuple with the value of a number otherwise
    outputs   shapes, dtypes and device of its results
    several   whether it returns a tuple
    body      the calls, if it is a block
    """

    number: int
    name: str
    operands: tuple[Any, ...]
    attrs: dict[str, Any]
    outputs: tuple[Spec, ...]
    several: bool
    body: Body | None = None


kinds: list[Kind] = []
"""By number."""

_numbers: dict[Any, Kind] = {}
_lock = forks.lock()


class UnknownKindError(TypeError):
    """A call has an argument that cannot be part of a trace: it runs immediately."""


def kind_of(name: str, operands: tuple[Any, ...], attrs: dict[str, Any], device: Any) -> Kind:
    """The kind of a call; raises the kernel's error if operands are incompatible."""
    key = (name, tuple([_key(operand) for operand in operands]), frozen(attrs), device)
    found = _numbers.get(key)
    if found is None:
        several, specs = infer(name, tuple([_example(operand) for operand in operands]), attrs)
        outputs = tuple([spec_of(shape, dtype, device) for shape, dtype in specs])
        if any(spec.dtype.kind == "O" for spec in outputs):
            raise UnknownKindError(name)
        found = _add(key, name, operands, attrs, outputs, several)
    return found


def block_kind(operands: tuple[Spec, ...], outputs: tuple[Spec, ...], body: Body) -> Kind:
    """The kind of a block."""
    key = (operands, outputs, body)
    found = _numbers.get(key)
    return _add(key, "block", operands, {}, outputs, True, body) if found is None else found


def _add(key: Any, *parts: Any) -> Kind:
    with _lock:
        found = _numbers.get(key)
        if found is None:
            found = Kind(len(kinds), *parts)
            kinds.append(found)
            _numbers[key] = found
    return found


def _key(operand: Any) -> Any:
    return operand if type(operand) is Spec else (type(operand[0]), repr(operand[0]))


def _example(operand: Any) -> Any:
    return operand if type(operand) is Spec else operand[0]


_PLAIN = frozenset({int, bool, str, type(None), type(Ellipsis), bytes})


def frozen(value: Any) -> Any:
    """A key for static arguments that also differs if only types do: 1, 1.0 and True are equal in Python.

    Raises UnknownKindError for objects that cannot be compared by identity.
    """
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind is tuple or kind is list:
        return kind, tuple([frozen(v) for v in value])
    if kind is dict:
        return tuple([(k, frozen(v)) for k, v in value.items()])
    if kind is slice:
        return kind, frozen((value.start, value.stop, value.step))
    if kind is float or kind is complex or isinstance(value, np.generic):
        return kind, repr(value)
    if isinstance(value, (np.dtype, type)):
        return value
    if kind is np.ndarray and value.nbytes <= 256 and value.dtype.kind != "O":
        return kind, value.shape, value.dtype, value.tobytes()
    raise UnknownKindError(f"a static argument of {kind.__name__}")


_DTYPES = [*"efdFDbBhHiIlLqQ?", ml_dtypes.bfloat16]
_QUICK = frozenset({int, bool, str, tuple, type(None), *[type(np.dtype(t)) for t in _DTYPES]})
"""Types of static arguments that differ where their types do, or are equal: calls with others have no fast path."""


def are_quick(attrs: dict[str, Any]) -> bool:
    """Whether static arguments and their types are a unique key."""
    values = [v for v in attrs.values() if type(v) is not float or not v or v != v]  # 0.0 and -0.0 are the same key
    return "index" not in attrs and _QUICK.issuperset(map(type, values))
