"""Conversion of anything that a user may pass to a tensor, with TensorFlow's dtype inference and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.calls import calls
from gradtape._src.devices import place, place_result, placement
from gradtape._src.dtypes import DType, as_dtype, dtype_of
from gradtape._src.literals import array_from as array_from
from gradtape._src.shape import TensorShape, unknown_kinds
from gradtape._src.tensor import CONSTANT, Array, Tensor, uids

Converter = Callable[[Any], Tensor]

converters: dict[type, Converter] = {}
"""How objects of each library type (Variable, IndexedSlices, …) become tensors; upper layers register theirs."""

defers_to: set[type] = set()
"""Classes whose operators take precedence over the tensor's, also as right operands."""


def placed(array: Array) -> Array:
    """An array that nothing else writes to, on the device for new arrays."""
    if not placement.places:
        return array
    return place(array) if type(array) is ndarray else place_result(array)


def wrap(array: Array) -> Tensor:
    """A new tensor with an array that nothing else writes to."""
    tensor = Tensor()
    if placement.places:
        array = place(array) if type(array) is ndarray else place_result(array)
    tensor.array = array
    tensor.uid = next(uids)
    return tensor


def constant_operand(array: Array) -> Tensor:
    """A tensor for a Python or NumPy operand, which tapes do not track."""
    tensor = Tensor()
    tensor.array = array
    tensor.uid = CONSTANT
    return tensor


def register_converter(kind: type, converter: Converter) -> None:
    """Register a converter for a class and its subclasses."""
    converters[kind] = converter


def register_tensor_conversion_function(base_type: Any, conversion_func: Any, priority: int = 100) -> None:
    """Register a function that converts objects of a class to tensors.

    `conversion_func(value, dtype=None, name=None, as_ref=False)` returns a tensor, or NotImplemented.

    >>> import gradtape as tf
    >>> class Celsius:
    ...     def __init__(self, degrees):
    ...         self.degrees = degrees
    >>> tf.register_tensor_conversion_function(Celsius, lambda c, **options: tf.constant(c.degrees))
    >>> float(tf.constant(1.0) + Celsius(20.0))
    21.0
    """
    if not callable(conversion_func):
        raise TypeError(f"Argument `conversion_func` must be callable. Received {conversion_func!r}.")
    for kind in base_type if isinstance(base_type, tuple) else (base_type,):
        register_converter(kind, lambda value: convert(conversion_func(value, dtype=None, name=None, as_ref=False)))


def converter_of(value: Any) -> Converter | None:
    """The registered converter for this value's class, or None."""
    return _converter_for(type(value))


def _converter_for(kind: type) -> Converter | None:
    for base in kind.__mro__:
        found = converters.get(base)
        if found is not None:
            return found
    return None


def convert(value: Any, dtype: Any = None, dtype_hint: Any = None, *, name: str = "value") -> Tensor:
    """`convert_to_tensor`: tensors unchanged, other objects by their converters, lists with tensors packed."""
    if type(value) is not Tensor:
        converter = converter_of(value)
        if converter is not None:
            value = converter(value)
        elif isinstance(value, (list, tuple)) and holds_tensor(value):
            value = _packed(value, dtype, dtype_hint)
    if isinstance(value, Tensor):
        if dtype is not None and as_dtype(dtype) != value.dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {as_dtype(dtype).name} for Tensor with dtype {value.dtype.name}: "
                f"{value!r}. Use tf.cast to change a tensor's dtype."
            )
        return value
    if dtype is None and dtype_hint is not None:
        hint = as_dtype(dtype_hint)
        try:
            return wrap(_array(value, hint))
        except (TypeError, ValueError):
            pass
    return wrap(_array(value, None if dtype is None else as_dtype(dtype)))


def _array(value: Any, dtype: DType | None) -> ndarray:
    """`array_from`, with integers for shapes and empty ranges."""
    if isinstance(value, TensorShape):
        if not value.is_fully_defined():
            raise ValueError(f"Cannot convert a partially known TensorShape {value} to a Tensor.")
        if dtype is not None and dtype.name not in ("int32", "int64"):
            raise TypeError(
                f"Cannot convert TensorShape {value} to dtype {dtype}. Allowed dtypes are tf.int32 and tf.int64."
            )
        return np.array(value.as_list(), np.int32 if dtype is None else dtype.numpy_dtype)
    if type(value) is range and not value and dtype is None:
        return np.zeros(0, np.int32)
    return array_from(value, dtype)


def operand(value: Any, dtype: DType | None = None) -> Tensor:
    """Convert one operand of an op: like `convert`, but plain values become constants that tapes do not track.

    NumPy arrays are copied as well: the record may keep the operand, and a tensor never changes.
    """
    if isinstance(value, Tensor):
        if type(value) is not Tensor:
            value.check_operand()
        return value
    kind = type(value)
    if kind is float or kind is int or kind is bool:  # not placed on a device: it moves to that of the other operand
        return constant_operand(array_from(value, dtype))
    if kind in converters:  # no search (benchmark: pinn)
        return converters[kind](value)
    if isinstance(value, (ndarray, np.generic)):
        return constant_operand(placed(array_from(value, dtype)))
    converter = converter_of(value)
    if converter is not None:
        return converter(value)
    if isinstance(value, (list, tuple)) and holds_tensor(value):
        return convert(value, dtype)
    return constant_operand(placed(_array(value, dtype)))


def operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Convert two operands: a tensor decides the dtype of a plain value, otherwise the first one does."""
    # The most common cases first: tensors, variables and plain numbers (benchmarks: rnn, mlp32, pinn).
    if type(x) in converters:
        x = converters[type(x)](x)
    if type(y) in converters:
        y = converters[type(y)](y)
    if type(x) is Tensor:
        if type(y) is Tensor:
            return x, y
        if type(y) is float or type(y) is int:
            return x, number_beside(y, x.array)
    elif type(y) is Tensor and (type(x) is float or type(x) is int):
        return number_beside(x, y.array), y
    if has_dtype(x) or not has_dtype(y):
        first = operand(x)
        return first, operand(y, None if has_dtype(y) else first.dtype)
    second = operand(y)
    return operand(x, second.dtype), second


def hinted_operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Convert two operands: y to the dtype of x if possible, otherwise to its own, which the op then rejects."""
    first = operand(x)
    if not has_dtype(y):
        try:
            return first, operand(y, first.dtype)
        except (TypeError, ValueError):
            pass
    return first, operand(y)


_numbers: dict[tuple[type, float, Any], Tensor] = {}


def number_beside(number: float, array: Array) -> Tensor:
    """A Python number in the dtype of an array. Programs repeat their numbers, so recent ones are cached."""
    key = (type(number), number, array.dtype)
    found = _numbers.get(key)
    if found is None or not number:  # 0.0 and -0.0 are the same key
        found = constant_operand(array_from(number, dtype_of(array)))
        if len(_numbers) >= 1000:
            _numbers.clear()
        _numbers[key] = found
    return found


def has_dtype(value: Any) -> bool:
    """Whether a value is a tensor, or an object that becomes one: it keeps its dtype beside any other operand.

    A list takes the given dtype, even if it contains tensors, which are cast.
    """
    return isinstance(value, Tensor) or converter_of(value) is not None


def is_library(value: Any) -> bool:
    """Whether a value is a tensor, or an object or list that an op converts to one."""
    return has_dtype(value) or (isinstance(value, (list, tuple)) and holds_tensor(value))


def holds_tensor(values: list[Any] | tuple[Any, ...]) -> bool:
    """Whether a nested list contains a tensor, a variable or another object of the library."""
    stack: list[Any] = [values]
    while stack:
        items = stack.pop()
        for kind in set(map(type, items)):  # long lists have few classes
            if kind is float or kind is int:
                continue
            if issubclass(kind, (list, tuple)):
                stack.extend([item for item in items if type(item) is kind])
            elif issubclass(kind, Tensor) or _converter_for(kind) is not None:
                return True
    return False


def _stack(values: list[Any]) -> Tensor:
    """Stack tensors of the same shape along a new first axis."""
    have = values[0].array.shape
    for i, value in enumerate(values):
        shape = value.array.shape
        if shape != have and unknown_kinds.isdisjoint(map(type, (*have, *shape))):
            raise errors.invalid_argument(
                f"Shapes of all inputs must match: values[0].shape = {errors.brackets(have)} != values[{i}].shape = "
                f"{errors.brackets(value.array.shape)}",
                "Pack",
            )
    result: Tensor = calls["stack"](*values, axis=0)
    return result


def cast(x: Tensor, dtype: DType) -> Tensor:
    """Cast a tensor to any dtype."""
    have = x.dtype
    if have is dtype:
        return x
    if have.is_floating and dtype.is_floating:
        narrowed: Tensor = calls["astype"](x, dtype=dtype.numpy_dtype, source=have.numpy_dtype)
        return narrowed
    if "string" in (have.name, dtype.name):
        raise errors.UnimplementedError(None, None, f"Cast {have.name} to {dtype.name} is not supported [Op:Cast]")
    if (dtype.is_floating or dtype.is_complex) and (have.is_floating or have.is_complex):
        result: Tensor = calls["astype"](x, dtype=dtype.numpy_dtype, source=have.numpy_dtype)
    else:
        result = calls["discrete_cast"](x, dtype=dtype.numpy_dtype)
    return result


def _packed(values: Any, dtype: Any, hint: Any) -> Tensor:
    """Pack a list with tensors into one tensor, with the dtype of the hint if possible."""
    if dtype is None and hint is not None:
        try:
            return _stack(list(_common_dtype(values, hint)))
        except (TypeError, ValueError):
            pass
    return _stack(list(_common_dtype(values, dtype)))


def _common_dtype(values: Any, dtype: Any) -> Iterator[Tensor]:
    """The members of a list with tensors, cast as in TensorFlow's auto-packing: all take the first tensor's dtype.

    If another dtype is given, the tensors are cast to it.
    """
    inferred = _first_dtype(values)
    wanted = inferred if dtype is None else as_dtype(dtype)
    for value in values:
        if isinstance(value, (list, tuple)):
            packed = holds_tensor(value)
            yield _stack(list(_common_dtype(value, wanted))) if packed else wrap(array_from(value, wanted))
            continue
        tensor = convert(value) if isinstance(value, Tensor) or converter_of(value) is not None else None
        if tensor is None:
            yield wrap(array_from(value, wanted))
        elif tensor.dtype == wanted:
            yield tensor
        elif wanted == inferred:
            raise errors.mismatched_dtypes("Pack", wanted, tensor.dtype)
        else:
            yield cast(tensor, wanted)


def _first_dtype(values: Any) -> DType:
    """The dtype of the first tensor in a nested list."""
    stack = list(values)
    while True:
        value = stack.pop(0)
        if isinstance(value, (list, tuple)):
            stack[:0] = value
        elif isinstance(value, Tensor):
            return value.dtype
        elif (converter := converter_of(value)) is not None:
            return converter(value).dtype
