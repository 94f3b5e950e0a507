"""From anything a user may pass to a tensor: TensorFlow's dtype inference, conversions and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape.dtypes import DType, as_dtype, dtype_of
from gradtape.tensor import CONSTANT, Array, Tensor, uids

Converter = Callable[[Any], Tensor]

converters: dict[type, Converter] = {}
"""How each library type (Variable, IndexedSlices, …) becomes a tensor; the rooms above register themselves."""

pack: list[Callable[[list[Any]], Tensor]] = []
"""Holds the op that stacks a list with tensors in it, once `ops` is loaded."""

_FLOAT32, _INT32, _INT64 = np.dtype(np.float32), np.dtype(np.int32), np.dtype(np.int64)
_BOOL, _COMPLEX128, _OBJECT = np.dtype(np.bool_), np.dtype(np.complex128), np.dtype(np.object_)
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1
_PYTHON_DEFAULT = {float: _FLOAT32, bool: _BOOL, complex: _COMPLEX128}


place: Callable[[ndarray], Array] | None = None
"""Puts new NumPy arrays on the device that is chosen, once somebody has chosen one."""


def placed(array: Array) -> Array:
    """An array that nobody else will write to, on the device where new arrays go."""
    return array if place is None or type(array) is not ndarray else place(array)


def wrap(array: Array) -> Tensor:
    """A new tensor around an array that nobody else will write to."""
    tensor = Tensor()
    tensor.array = array if place is None or type(array) is not ndarray else place(array)
    tensor.uid = next(uids)
    return tensor


def constant_operand(array: Array) -> Tensor:
    """A tensor that no tape needs to know: it stands for a Python or NumPy operand."""
    tensor = Tensor()
    tensor.array = array
    tensor.uid = CONSTANT
    return tensor


def register_converter(kind: type, converter: Converter) -> None:
    """Teach `convert` a new class (subclasses are found through their bases)."""
    converters[kind] = converter


def register_tensor_conversion_function(base_type: Any, conversion_func: Any, priority: int = 100) -> None:
    """Teach the library to take objects of a class of yours as tensors.

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
    """The registered conversion for this value's class, or None."""
    for base in type(value).__mro__:
        found = converters.get(base)
        if found is not None:
            return found
    return None


def convert(value: Any, dtype: Any = None, dtype_hint: Any = None, *, name: str = "value") -> Tensor:
    """`convert_to_tensor`: a tensor as it is, library objects through their converter, lists with tensors packed."""
    if type(value) is not Tensor:
        converter = converter_of(value)
        if converter is not None:
            value = converter(value)
        elif isinstance(value, (list, tuple)) and pack and _holds_tensor(value):
            value = pack[0](list(_common_dtype(value, dtype)))
    if isinstance(value, Tensor):
        if dtype is not None and as_dtype(dtype) != value.dtype:
            raise ValueError(
                f"Tensor conversion requested dtype {as_dtype(dtype).name} for Tensor with dtype {value.dtype.name}: "
                f"{value!r}. Use tf.cast to change a tensor's dtype."
            )
        return value
    if dtype is None and dtype_hint is not None:
        try:
            return wrap(array_from(value, as_dtype(dtype_hint)))
        except (TypeError, ValueError):
            pass
    return wrap(array_from(value, None if dtype is None else as_dtype(dtype)))


def operand(value: Any, dtype: DType | None = None) -> Tensor:
    """One operand of an op: like `convert`, but plain values become constants that tapes need not follow.

    NumPy arrays are copied here too: the record may keep the operand, and a tensor never changes.
    """
    if isinstance(value, Tensor):
        return value
    kind = type(value)
    if kind is float or kind is int or kind is bool or isinstance(value, (ndarray, np.generic)):
        return constant_operand(placed(array_from(value, dtype)))
    converter = converter_of(value)
    if converter is not None:
        return converter(value)
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        return convert(value, dtype)
    return constant_operand(placed(array_from(value, dtype)))


def operands(x: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Two operands: a tensor decides the dtype of a plain value beside it, otherwise the first one does."""
    # The common cases first: a variable or a plain number beside a tensor (benchmarks: rnn, mlp32).
    if type(x) is Tensor:
        converter = converters.get(type(y))
        if converter is not None:
            return x, converter(y)
        if type(y) is float or type(y) is int:
            return x, number_beside(y, x.array)
    elif type(y) is Tensor:
        converter = converters.get(type(x))
        if converter is not None:
            return converter(x), y
        if type(x) is float or type(x) is int:
            return number_beside(x, y.array), y
    x_known, y_known = _is_library(x), _is_library(y)
    if x_known or not y_known:
        first = operand(x)
        return first, operand(y, None if y_known else first.dtype)
    second = operand(y)
    return operand(x, second.dtype), second


_numbers: dict[tuple[type, float, Any], Tensor] = {}


def number_beside(number: float, array: Array) -> Tensor:
    """A Python number in the dtype of the array beside it. Programs repeat their numbers, so the last ones are kept."""
    key = (type(number), number, array.dtype)
    found = _numbers.get(key)
    if found is None or not number:  # 0.0 and -0.0 are the same key
        found = constant_operand(array_from(number, dtype_of(array)))
        if len(_numbers) >= 1000:
            _numbers.clear()
        _numbers[key] = found
    return found


def _is_library(value: Any) -> bool:
    return (
        isinstance(value, Tensor)
        or converter_of(value) is not None
        or (isinstance(value, (list, tuple)) and _holds_tensor(value))
    )


def _holds_tensor(values: list[Any] | tuple[Any, ...]) -> bool:
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, (list, tuple)):
            stack.extend(value)
        elif isinstance(value, Tensor) or converter_of(value) is not None:
            return True
    return False


def _common_dtype(values: Any, dtype: Any) -> Any:
    """Plain members of a list with tensors in it take the tensors' dtype, as TensorFlow's auto-packing does."""
    if dtype is None:
        stack = list(values)
        while stack and dtype is None:
            value = stack.pop(0)
            if isinstance(value, (list, tuple)):
                stack.extend(value)
            elif isinstance(value, Tensor):
                dtype = value.dtype
            elif (converter := converter_of(value)) is not None:
                dtype = converter(value).dtype
    for value in values:
        if isinstance(value, (list, tuple)):
            yield convert(list(value), dtype) if _holds_tensor(value) else wrap(array_from(value, as_dtype(dtype)))
        else:
            yield convert(value, dtype)


def array_from(value: Any, dtype: DType | None = None) -> ndarray:
    """A fresh NumPy array of a plain value, with TensorFlow's dtype inference (float32, int32) and errors."""
    kind = type(value)
    if kind is float or kind is bool:
        if dtype is None:
            return np.array(value, _PYTHON_DEFAULT[kind])
        return _scalar_array(value, dtype)
    if kind is int:
        if dtype is None:
            return np.array(value, _int_dtype(value, value))
        return _scalar_array(value, dtype)
    if isinstance(value, (ndarray, np.generic)):
        return _from_numpy(value, dtype)
    if value is None:
        raise ValueError("Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.")
    if isinstance(value, (str, bytes, complex)):
        return _scalar_array(value, dtype) if dtype is not None else _inferred([value], value)
    if isinstance(value, (list, tuple, range)):
        return _from_sequence(value, dtype)
    if hasattr(value, "__array__") or hasattr(value, "__dlpack__") or hasattr(value, "__array_interface__"):
        found = np.asarray(value) if hasattr(value, "__array__") else np.from_dlpack(value)
        return _from_numpy(found, dtype)
    if hasattr(value, "as_list"):  # a TensorShape
        return np.array(value.as_list(), _INT32 if dtype is None else dtype.numpy_dtype)
    if isinstance(value, DType):
        return np.array(value.as_datatype_enum, _INT32)
    raise ValueError(f"Attempt to convert a value ({value!r}) with an unsupported type ({kind}) to a Tensor.")


def _int_dtype(low: int, high: int) -> np.dtype[Any]:
    if low >= _INT32_MIN and high <= _INT32_MAX:
        return _INT32
    if low >= -(2**63) and high < 2**63:
        return _INT64
    raise ValueError("Can't convert Python sequence with out-of-range integer to Tensor.")


def _cannot(value: Any, dtype: DType) -> TypeError:
    return TypeError(f"Cannot convert {value} to EagerTensor of dtype {dtype.name}")


def _scalar_array(value: Any, dtype: DType) -> ndarray:
    """One Python scalar in a requested dtype; a conversion that would lose its kind is refused."""
    if dtype.is_floating:
        return np.array(value, dtype.numpy_dtype) if type(value) in _NUMBERS else _refused(value, dtype)
    _check_kind(value, type(value), dtype)
    if dtype.name == "string":
        return np.array(value.encode() if isinstance(value, str) else value, _OBJECT)
    try:
        return np.array(value, dtype.numpy_dtype)
    except OverflowError:
        raise _cannot(value, dtype) from None


_NUMBERS = frozenset({bool, int, float})


def _refused(value: Any, dtype: DType) -> ndarray:
    raise _cannot(value, dtype)


def _check_kind(value: Any, kind: type, dtype: DType) -> None:
    text = kind is str or kind is bytes
    if text != (dtype.name == "string"):
        raise _cannot(value, dtype)
    if text or dtype.is_complex or (kind is bool and (dtype.is_floating or dtype.is_bool or dtype.is_integer)):
        return
    if kind is complex or (kind is float and not dtype.is_floating) or dtype.is_bool:
        raise _cannot(value, dtype)


def _from_numpy(value: Any, dtype: DType | None) -> ndarray:
    if value.dtype.kind in "US":
        value = np.array([_to_bytes(v) for v in np.ravel(value)], _OBJECT).reshape(np.shape(value))
    elif value.dtype.kind == "O":
        if not all(isinstance(v, (str, bytes)) for v in np.ravel(value)):
            return _from_sequence(np.asarray(value).tolist(), dtype)
        value = np.array([_to_bytes(v) for v in np.ravel(value)], _OBJECT).reshape(np.shape(value))
    if dtype is None:
        try:
            dtype = dtype_of(value)  # its NumPy dtype is the canonical object, which the hot path compares by identity
        except TypeError as error:
            raise ValueError(
                f"Failed to convert a NumPy array to a Tensor (Unsupported numpy type: {value.dtype})."
            ) from error
    if (value.dtype.kind == "O") != (dtype.name == "string"):
        raise _cannot(value, dtype)
    if value.dtype.kind == "c" and not dtype.is_complex:
        raise _cannot(value, dtype)
    return _copy(value, dtype.numpy_dtype)


_ALIGNED = 2**15
"""Bytes from which on a copy begins where a compiled program can use it as it is: at a multiple of 64."""


def _copy(value: Any, dtype: np.dtype[Any]) -> ndarray:
    if value.nbytes < _ALIGNED or dtype.kind == "O":
        return np.array(value, dtype, order="C")
    room = np.empty(value.size * dtype.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    result = room[start : start + value.size * dtype.itemsize].view(dtype).reshape(value.shape)
    np.copyto(result, value, casting="unsafe")
    return result


def _to_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _from_sequence(value: Any, dtype: DType | None) -> ndarray:
    if isinstance(value, range):
        value = list(value)
    leaves: list[Any] = []
    stack = [value]
    while stack:  # order does not matter: only kinds, extremes and the first odd one are asked for
        item = stack.pop()
        if isinstance(item, (list, tuple)):
            stack.extend(item)
        else:
            leaves.append(item)
    kinds = set(map(type, leaves))
    if kinds & {type(None)}:
        raise ValueError("Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.")
    for kind in kinds:
        if not issubclass(kind, (bool, int, float, complex, str, bytes, np.generic, ndarray)) and not hasattr(
            kind, "__array__"
        ):
            odd = next(leaf for leaf in leaves if type(leaf) is kind)
            raise ValueError(f"Attempt to convert a value ({odd!r}) with an unsupported type ({kind}) to a Tensor.")
    if dtype is None:
        return _inferred(leaves, value)
    for leaf in leaves:
        if type(leaf) in (bool, int, float, complex, str, bytes):
            _check_kind(leaf, type(leaf), dtype)
    try:
        if dtype.name == "string":
            raw = np.array(value, np.object_)
            return np.array([_to_bytes(v) for v in raw.ravel()], _OBJECT).reshape(raw.shape)
        return np.array(value, dtype.numpy_dtype)
    except OverflowError:
        raise _cannot(value, dtype) from None
    except ValueError as error:
        raise _ragged(error) from None


def _ragged(error: ValueError) -> ValueError:
    if "inhomogeneous" in str(error) or "sequence" in str(error):
        return ValueError("Can't convert non-rectangular Python sequence to Tensor.")
    return error


def _first(value: Any) -> Any:
    while isinstance(value, (list, tuple)):
        value = value[0]
    return value


def _inferred(leaves: list[Any], value: Any) -> ndarray:
    """The dtype that TensorFlow infers: one kind only, except that ints beside floats become floats."""
    kinds = set(map(type, leaves))
    python = {k for k in kinds if k in (bool, int, float, complex, str, bytes)}
    text = bool(kinds & {str, bytes})
    mixed = len(python) > 1 and python != {int, float} and python != {str, bytes}
    if mixed and complex in python and python <= {int, float, complex}:
        mixed = type(_first(value)) is not complex  # a complex number in front takes real ones along
    if mixed or (text and kinds - {str, bytes}):
        raise ValueError("Can't convert Python sequence with mixed types to Tensor.")
    try:
        if text:
            raw = np.array(value, np.object_)
            return np.array([_to_bytes(v) for v in raw.ravel()], _OBJECT).reshape(raw.shape)
        if python == kinds:
            if complex in kinds:
                return np.array(value, _COMPLEX128)
            if float in kinds or not kinds:
                return np.array(value, _FLOAT32)
            if bool in kinds:
                return np.array(value, _BOOL)
            return np.array(value, _int_dtype(min(leaves), max(leaves)))
        found = np.array(value)
    except ValueError as error:
        raise _ragged(error) from None
    if found.dtype.kind in "OUS":
        raise ValueError("Can't convert non-rectangular Python sequence to Tensor.")
    return found
