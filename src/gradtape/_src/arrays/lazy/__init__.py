"""Lazy arrays: an engine whose ops are recorded, and run together when a value is needed.

`trace.py` records, `programs.py` looks recorded traces up and runs them, `calls.py` numbers the kinds of calls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gradtape._src.arrays import attach_operators, register_namespace
from gradtape._src.arrays.base import Interpreter
from gradtape._src.arrays.lazy.compilers import register_compiler as register_compiler
from gradtape._src.arrays.lazy.trace import (
    Lazy as Lazy,
    assigned as assigned,
    call_of as call_of,
    constant,
    current_device,
    end_step as end_step,
    is_result_of as is_result_of,
    lazy_array as lazy_array,
    record,
    recorder_of,
    settled as settled,
)
from gradtape._src.devices import register_lazy_arrays


class LazyNamespace(Interpreter):
    """The functions of every engine; each call is added to the trace."""

    rank = 1.5

    def find(self, name: str) -> Callable[..., Any]:
        return recorder_of(name)

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return record(name, args, attrs)

    def zeros(self, shape: tuple[int, ...], dtype: Any) -> Any:
        return constant(shape, _number(0, np.dtype(dtype)))

    def ones_like(self, x: Any) -> Any:
        return _filled(x, 1)

    def zeros_like(self, x: Any) -> Any:
        return _filled(x, 0)

    def from_numpy(self, x: Any) -> Any:
        """Create the array on the device of the last op; an op moves it to the device of its other operands."""
        return placed(x, current_device())

    def alongside(self, x: Any, y: Any) -> Any:
        """An array on the device of a lazy one."""
        device = y.spec.device
        if type(x) is Lazy and x.spec.device is device:
            return x
        return placed(settled(x), device)


def placed(value: Any, device: Any) -> Lazy:
    """Convert an array of an engine to a lazy array on a device."""
    if device is None:
        return lazy_array(np.asarray(value))
    import jax

    return lazy_array(jax.device_put(value, device), device)


def computing(function: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function of lazy arrays compute its results before it returns."""

    def call(*args: Any, **attrs: Any) -> Any:
        result = function(*args, **attrs)
        for array in result if type(result) is tuple else (result,):
            settled(array, "an observer looks at it")
        return result

    return call


def are_colocated(arrays: Sequence[Any]) -> bool:
    """Whether arrays are lazy and on one device; NumPy integers, booleans and scalars need not be moved."""
    first = arrays[0] if arrays else None
    if type(first) is not Lazy:
        return False
    device = first.spec.device
    for array in arrays:
        if type(array) is Lazy:
            if array.spec.device is not device:
                return False
        elif type(array) is not np.ndarray or (array.shape and array.dtype.kind not in "iub"):
            return False
    return True


def is_lazy_on_host(array: Any) -> bool:
    """Whether an array is lazy, and NumPy computes it."""
    return type(array) is Lazy and array.spec.device is None


def _filled(x: Any, number: int) -> Any:
    """A constant with the shape, dtype and device of an array, which the program creates."""
    if type(x) is not Lazy:
        return np.full(x.shape, number, x.dtype)
    return constant(x.shape, _number(number, x.dtype), x.spec.device)


@cache
def _number(number: int, dtype: Any) -> np.ndarray:
    """One object for each number, so that a program can tell that it has not changed."""
    return np.full((), number, dtype)


lazy_namespace: Any = LazyNamespace()
register_namespace(Lazy, lazy_namespace)
register_lazy_arrays(Lazy, lazy_array)


_OPERANDS = (int, float, complex, np.ndarray, np.generic)


def _operator(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    function = getattr(lazy_namespace, name)

    def method(self: Any, other: Any) -> Any:
        if type(other) is not Lazy and not isinstance(other, _OPERANDS) and not hasattr(other, "devices"):
            return NotImplemented
        return function(other, self) if swapped else function(self, other)

    return method


attach_operators(Lazy, _operator, lambda name: getattr(lazy_namespace, name))
