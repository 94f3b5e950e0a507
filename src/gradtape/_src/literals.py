"""Arrays from plain Python and NumPy values, with TensorFlow's dtype inference, conversions and errors.

The first element of a nested sequence decides the inferred dtype: float32, int32 (int64 if a number needs it), bool,
string, complex128; NumPy's float64 and float16 scalars keep their precision. A requested dtype is tried first;
otherwise the inferred array is cast to it, if that keeps the kind of number.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, takewhile
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.dtypes import DType, dtype_of
from gradtape._src.interrupts import float_errors_ignored, graph_traced
from gradtape._src.memory import MAPPED, prepare

_FLOAT32, _FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
_INT32, _INT64, _BOOL, _OBJECT = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.bool_), np.dtype(np.object_)
_INT32_MIN, _INT32_MAX = -(2**31), 2**31 - 1

_MIXED = "Can't convert Python sequence with mixed types to Tensor."
_RAGGED = "Can't convert non-rectangular Python sequence to Tensor."
_OUT_OF_RANGE = "Can't convert Python sequence with out-of-range integer to Tensor."
_OUT_OF_DOUBLE = "Can't convert Python sequence with a value out of range for a double-precision float."
_FOUND_FLOAT = "Can't convert Python sequence with floating point values to integer Tensor."
_UNICODE = "Error converting unicode string while converting Python sequence to Tensor."
_MOST_AXES = 64  # NumPy's limit; a list that contains itself never ends


def array_from(value: Any, dtype: DType | None = None) -> ndarray:
    """A fresh NumPy array of a plain value, with TensorFlow's dtype inference (float32, int32) and errors."""
    kind = type(value)
    if kind is float and dtype is None and -3e38 < value < 3e38:
        return np.array(value, _FLOAT32)
    if kind is float or kind is int or kind is bool:
        found = _number(value, kind, dtype)
        return _from_plain(value, dtype) if found is None else found
    if kind is list or kind is tuple:
        found = _numbers(value, dtype)
        return _from_plain(value, dtype) if found is None else found
    if isinstance(value, (ndarray, np.generic)):
        return _from_numpy(value, dtype)
    if hasattr(kind, "__tf_tensor__"):  # TensorFlow's protocol for third-party classes
        return _from_numpy(np.asarray(value.__tf_tensor__(dtype)), dtype)
    if hasattr(kind, "__array__"):
        return _from_numpy(np.asarray(value), dtype)
    if not isinstance(value, type) and (hasattr(value, "__array_interface__") or hasattr(value, "__dlpack__")):
        return _from_numpy(np.from_dlpack(value) if hasattr(value, "__dlpack__") else np.asarray(value), dtype)
    return _from_plain(value, dtype)


def _number(value: Any, kind: type, dtype: DType | None) -> ndarray | None:
    """The common cases of one Python number; None for the general conversion."""
    if dtype is None:
        if kind is int:
            return np.array(value, _int_dtype(value, value))
        return np.array(value, _BOOL) if kind is bool else None if abs(value) > 3e38 else np.array(value, _FLOAT32)
    try:
        if (dtype.is_floating and kind is not bool) or (dtype.is_integer and kind is int):
            return np.array(value, dtype.numpy_dtype)
    except (OverflowError, TypeError):
        pass
    return None


def _numbers(value: Any, dtype: DType | None) -> ndarray | None:
    """The common cases of nested lists: numbers of one class in range, strings. None for the general conversion."""
    shape = [len(value)]
    kinds = set(map(type, value))
    while kinds == _LIST and len(shape) < 4:
        lengths = set(map(len, value))
        if len(lengths) > 1:
            return None
        shape.append(lengths.pop())
        value = list(chain.from_iterable(value))
        kinds = set(map(type, value))
    target = None if dtype is None else dtype.numpy_dtype
    if kinds == _FLOAT and (target is None or target is _FLOAT32 or target is _FLOAT64):
        if target is not _FLOAT64 and not (max(value) < 3e38 and min(value) > -3e38):
            return None
        found = np.array(value, target or _FLOAT32)
    elif kinds == _INT and (target is None or target in _ANY_INT32):
        if min(value) < _INT32_MIN or max(value) > _INT32_MAX:
            return None
        found = np.array(value, target or _INT32)
    elif kinds == _TRUTH and (target is None or target is _BOOL):
        found = np.array(value, _BOOL)
    elif kinds in (_STR, _BYTES) and (target is None or target is _OBJECT):
        found = _texts(value, (len(value),))
    else:
        return None
    return found if len(shape) == 1 else found.reshape(shape)


_LIST, _FLOAT, _INT, _TRUTH, _STR, _BYTES = {list}, {float}, {int}, {bool}, {str}, {bytes}
_ANY_INT32 = {_INT32, _INT64, _FLOAT32, _FLOAT64}  # dtypes that can represent every 32-bit number, or round it


def _int_dtype(low: int, high: int) -> np.dtype[Any]:
    if low >= _INT32_MIN and high <= _INT32_MAX:
        return _INT32
    if low >= -(2**63) and high < 2**63:
        return _INT64
    raise _unsupported(_OUT_OF_RANGE)


def cannot_convert(value: Any, dtype: DType) -> TypeError:
    """The error for a value whose kind does not fit a dtype."""
    return TypeError(f"Cannot convert {value!r} to EagerTensor of dtype {dtype.word}")


def unsupported_value(value: Any, alone: bool = True) -> ValueError:
    """What is said of a value that is no number, text or sequence; `alone`: it is not an element of a sequence."""
    sentence = f"Attempt to convert a value ({value!r}) with an unsupported type ({type(value)}) to a Tensor."
    return ValueError(sentence) if value is None and alone else _unsupported(sentence)


def _unsupported(sentence: str) -> ValueError:
    """A ValueError about a value, which is a TypeError while a function is traced."""
    error = ValueError(sentence)
    error.when_traced = TypeError  # type: ignore[attr-defined]
    return error


# -- Python values ---------------------------------------------------------------------------------------------------
_KINDS: dict[type, str] = {}
"""A letter for each class of scalars: b bool, B NumPy's bool, i int, f float, c complex, s string, x others."""

_ACCEPTED = {"f": "fib", "i": "ib", "c": "cfib", "s": "s", "b": "bB"}
"""The scalars that a target accepts, by the letter of its own kind."""

_TRIED_FIRST = {
    "float32": "f",
    "float64": "f",
    "float16": "f",
    "int32": "i",
    "int64": "i",
    "uint64": "i",
    "complex128": "c",
    "string": "s",
    "bool": "b",
}


def _kind(cls: type) -> str:
    found = _KINDS.get(cls)
    if found is None:
        kinds = ((bool, "b"), (np.bool_, "B"), ((int, np.integer), "i"), ((float, np.floating), "f"))
        rest: tuple[Any, ...] = (((complex, np.complexfloating), "c"), ((str, bytes), "s"))
        found = next((letter for kind, letter in (*kinds, *rest) if issubclass(cls, kind)), "x")
        _KINDS[cls] = found
    return found


def _from_plain(value: Any, dtype: DType | None) -> ndarray:
    """An array from a number, a string or a nested sequence."""
    shape, first = _extent(value)
    if 0 in shape:
        return np.zeros(shape, _FLOAT32 if dtype is None else dtype.numpy_dtype)
    letter = _kind(type(first))
    if letter == "x":
        raise unsupported_value(first, alone=not shape)
    leaves, letters = _leaves(value, shape)
    wanted = None if dtype is None else _first_try(dtype, letters)
    if dtype is not None and wanted is not None and _problem(letters, wanted) is None:
        try:
            return _block(leaves, shape, wanted, dtype.numpy_dtype)
        except ValueError:
            if dtype.name in ("uint64", "string"):
                raise
    found = _inferred(leaves, shape, letters, letter, first, dtype is not None)
    if dtype is None or found.dtype == dtype.numpy_dtype:
        return found
    if not _keeps_kind(found.dtype.kind, dtype):
        raise cannot_convert(value, dtype)
    with float_errors_ignored():
        return found.astype(dtype.numpy_dtype)


def _first_try(dtype: DType, letters: set[str]) -> str | None:
    """The letter of a dtype that is tried before the inferred one. While a function is traced, True is 1 in each."""
    if dtype.name in _TRIED_FIRST or "b" not in letters or graph_traced.get() is None:
        return _TRIED_FIRST.get(dtype.name)
    return "f" if dtype.is_floating else "c" if dtype.is_complex else "i"


def _inferred(leaves: Any, shape: list[int], letters: set[str], letter: str, first: Any, requested: bool) -> ndarray:
    """The array with the dtype of the first element; doubles and long integers if it will be cast."""
    target: np.dtype[Any] = _FLOAT64 if requested else _FLOAT32
    if letter == "f":
        if isinstance(first, (np.float64, np.float16)):
            target = first.dtype
    elif letter == "i" and _problem(letters, "i") == _FOUND_FLOAT:
        for leaf in takewhile(lambda leaf: _kind(type(leaf)) != "f", leaves):
            _int_dtype(leaf, leaf)  # integers before the first float must be in range
    elif letter == "i":
        target = _INT64
    else:
        target = np.dtype({"c": np.complex128, "s": np.object_}.get(letter, np.bool_))
    wanted = "f" if target.kind == "f" else "b" if letter == "B" else letter
    problem = _problem(letters, wanted)
    if problem is not None:
        raise _unsupported(problem)
    found = _block(leaves, shape, wanted, target)
    if wanted == "i" and not requested:
        return found.astype(_int_dtype(int(found.min()), int(found.max())), copy=False)
    if target == _FLOAT32 and np.isinf(found).any() and not np.array_equal(np.isinf(found), np.isinf(
        _block(leaves, shape, "f", _FLOAT64)
    )):  # fmt: skip
        raise _unsupported(_OUT_OF_DOUBLE)
    return found


def _problem(letters: set[str], wanted: str) -> str | None:
    """The error for scalars of these kinds in a tensor of the wanted kind, None if they fit."""
    strangers = letters.difference(_ACCEPTED[wanted])
    if not strangers:
        return None
    return _FOUND_FLOAT if wanted == "i" and strangers == {"f"} else _MIXED


def _block(leaves: Any, shape: list[int], wanted: str, target: np.dtype[Any]) -> ndarray:
    """Scalars that fit the target, as an array with a shape."""
    if wanted == "s":
        return _texts(leaves, tuple(shape))
    try:
        with float_errors_ignored():
            if wanted == "i" and target != np.uint64:  # out of range ones wrap around, as in a cast
                return np.array(leaves, _INT64).astype(target, copy=False).reshape(shape)
            return np.array(leaves, target).reshape(shape)
    except OverflowError:
        raise _unsupported(_OUT_OF_RANGE if wanted == "i" else _OUT_OF_DOUBLE) from None


def _texts(leaves: Any, shape: tuple[int, ...]) -> ndarray:
    found = np.empty(len(leaves), _OBJECT)
    try:
        kinds = set(map(type, leaves))
        if kinds == _STR:
            found[:] = list(map(str.encode, leaves))
        elif kinds == _BYTES:
            found[:] = leaves
        else:
            found[:] = [leaf.encode() if isinstance(leaf, str) else bytes(leaf) for leaf in leaves]
    except UnicodeEncodeError:
        raise ValueError(_UNICODE) from None
    return found.reshape(shape)


def _keeps_kind(kind: str, dtype: DType) -> bool:
    """Whether numbers of NumPy's kind may be cast to a dtype: integers to any wider kind, floats to floats."""
    if kind == "i":
        return dtype.is_integer or dtype.is_floating or dtype.is_complex
    return (kind == "f" and (dtype.is_floating or dtype.is_complex)) or (kind == "c" and dtype.is_complex)


def _is_sequence(value: Any) -> bool:
    if isinstance(value, (list, tuple, range, ndarray)):
        return True
    kind = type(value)
    if isinstance(value, (str, bytes, Mapping, np.generic, type)):
        return False
    return any("__getitem__" in base.__dict__ for base in kind.__mro__) and hasattr(kind, "__len__")


def _extent(value: Any) -> tuple[list[int], Any]:
    """Shape and first scalar of a nested sequence, as far as first elements tell."""
    shape: list[int] = []
    while True:
        if isinstance(value, ndarray) and not value.ndim:
            value = value[()]
        if not _is_sequence(value):
            return shape, value
        if hasattr(type(value), "__array__") and not isinstance(value, ndarray):
            value = np.asarray(value)
            continue
        shape.append(len(value))
        if not shape[-1]:
            return shape, None
        if len(shape) > _MOST_AXES:
            raise ValueError(f"{_RAGGED} It has more than {_MOST_AXES} levels.")
        try:
            value = value[0]
        except (KeyError, TypeError):
            value = next(iter(value))


def _leaves(value: Any, shape: list[int]) -> tuple[Any, set[str]]:
    """All scalars of a nested sequence in order, and the letters of their kinds; rows must have equal lengths."""
    level: Any = [value]
    for size in shape:
        rows = [row if type(row) in (list, tuple) else _row(row) for row in level]
        if any(len(row) != size for row in rows):
            raise ValueError(_RAGGED)
        if len({getattr(row, "dtype", None) for row in rows}) == 1 and isinstance(rows[0], ndarray):
            return _stacked(rows, shape)
        level = list(chain.from_iterable(rows))
    if any(isinstance(leaf, ndarray) or hasattr(type(leaf), "__array__") for leaf in level if _kind(type(leaf)) == "x"):
        level = [np.asarray(leaf)[()] if _kind(type(leaf)) == "x" and hasattr(leaf, "__array__") else leaf
                 for leaf in level]  # fmt: skip
    return level, {_kind(cls) for cls in set(map(type, level))}


def _row(row: Any) -> Any:
    if not _is_sequence(row):
        raise ValueError(_RAGGED)
    if isinstance(row, ndarray) or hasattr(type(row), "__array__"):
        row = np.asarray(row)
        if not row.ndim:
            raise ValueError(_RAGGED)
        return row
    return list(row)


def _stacked(rows: list[ndarray], shape: list[int]) -> tuple[Any, set[str]]:
    """Concatenate rows that are arrays of one dtype, without a Python object for each element."""
    if len({row.shape for row in rows}) > 1 or rows[0].shape != tuple(shape[len(shape) - rows[0].ndim :]):
        raise ValueError(_RAGGED)
    flat = np.concatenate([row.reshape(-1) for row in rows])
    letter = {"b": "B", "i": "i", "u": "i", "f": "f", "c": "c", "U": "s", "S": "s"}.get(flat.dtype.kind)
    return (flat, {letter}) if letter else (flat.tolist(), {_kind(type(leaf)) for leaf in flat.tolist()})


# -- NumPy arrays ----------------------------------------------------------------------------------------------------
def _from_numpy(value: Any, dtype: DType | None) -> ndarray:
    value = np.asarray(value)
    if value.nbytes > MAPPED:
        prepare(value.nbytes)
    if value.dtype.kind in "USOT" and (dtype is None or dtype.name == "string"):
        return _text_array(value)
    if dtype is None:
        try:
            dtype = dtype_of(value)  # its NumPy dtype is the canonical object, which the hot path compares by identity
        except TypeError:
            raise _unsupported(
                f"Failed to convert a NumPy array to a Tensor (Unsupported numpy type: {_numpy_name(value)})."
            ) from None
    elif dtype.name == "string":
        return _text_array(value.astype(_OBJECT))
    try:
        return _copy(value, dtype.numpy_dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise type(error)(
            f"{error}. The NumPy array of dtype {value.dtype} does not convert to {dtype.name}."
        ) from None


def _numpy_name(value: ndarray) -> str:
    names = {"M": "NPY_DATETIME", "m": "NPY_TIMEDELTA", "V": "NPY_VOID", "g": "NPY_LONGDOUBLE", "G": "NPY_CLONGDOUBLE"}
    return names.get(value.dtype.char, value.dtype.name)


def _text_array(value: ndarray) -> ndarray:
    leaves = value.reshape(-1).tolist()
    for leaf in leaves:
        if not isinstance(leaf, (str, bytes)):
            raise _unsupported(
                f"Failed to convert a NumPy array to a Tensor (Unsupported object type {type(leaf).__name__})."
            )
    return _texts(leaves, value.shape)


_ALIGNED = 2**15
"""The size from which on a copy is aligned to 64 bytes, so that a compiled program can use it without a copy."""


def _copy(value: Any, dtype: np.dtype[Any]) -> ndarray:
    if value.nbytes < _ALIGNED or dtype.kind == "O" or value.dtype.kind == "O":
        return np.array(value, dtype, order="C")
    room = np.empty(value.size * dtype.itemsize + 64, np.uint8)
    start = -room.ctypes.data % 64
    result = room[start : start + value.size * dtype.itemsize].view(dtype).reshape(value.shape)
    np.copyto(result, value, casting="unsafe")
    return result
