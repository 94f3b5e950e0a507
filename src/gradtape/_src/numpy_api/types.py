"""The dtypes of NumPy's functions: defaults of Python numbers, promotion, conversion."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.conversion import convert, is_library
from gradtape._src.dtypes import DType, as_dtype
from gradtape._src.tensor import Tensor
from gradtape._src.tf import array
from gradtape._src.tf.array import cast
from gradtape._src.variable import Variable

bool_, object_, string_, unicode_ = np.bool_, np.object_, np.bytes_, np.str_
int8, int16, int32, int64, int_ = np.int8, np.int16, np.int32, np.int64, np.int64
uint8, uint16, uint32, uint64 = np.uint8, np.uint16, np.uint32, np.uint64
float16, float32, float64, float_ = np.float16, np.float32, np.float64, np.float64
complex64, complex128, complex_ = np.complex64, np.complex128, np.complex128
inexact, ndarray = np.inexact, Tensor
pi, e, inf, newaxis = np.pi, np.e, np.inf, None


def _numpys(dtype: Any) -> Any:
    return dtype.as_numpy_dtype if isinstance(dtype, DType) else dtype


def finfo(dtype: Any) -> Any:
    """The limits of a floating type, as NumPy describes them.

    >>> float(finfo(as_dtype("float32")).eps)
    1.1920928955078125e-07
    """
    return np.finfo(_numpys(dtype))


def iinfo(int_type: Any) -> Any:
    """The limits of an integer type, as NumPy describes them.

    >>> iinfo(as_dtype("int8")).max
    127
    """
    return np.iinfo(_numpys(int_type))


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a dtype is of a kind.

    >>> issubdtype(as_dtype("float32"), np.floating)
    True
    """
    return bool(np.issubdtype(_numpys(arg1), _numpys(arg2)))


_NARROW = {"float64": "float32", "int64": "int32", "complex128": "complex64"}


_preferences = {"float32": False}
"""The settings of `experimental_enable_numpy_behavior`."""


def prefer_float32(preferred: bool) -> None:
    """Set whether Python's numbers have 32 bits in NumPy's functions instead of 64."""
    _preferences["float32"] = preferred


def default_dtype(kind: type) -> np.dtype[Any]:
    """The dtype of Python's numbers of a kind: int64, float64, complex128, or half the width if this is preferred."""
    found = np.dtype(kind)
    return np.dtype(_NARROW.get(found.name, found.name)) if _preferences["float32"] else found


def wanted_dtype(dtype: Any) -> DType:
    """A dtype argument: NumPy's defaults for Python's `float`, `int` and `complex`, TensorFlow's dtypes for others."""
    if isinstance(dtype, type) and dtype in (float, int, complex):
        return as_dtype(default_dtype(dtype))
    return as_dtype(dtype)


def is_weak(value: object) -> bool:
    """Whether a value is a Python number, which takes the dtype of other operands."""
    return isinstance(value, (int, float, complex)) and not hasattr(value, "dtype")


def sizes(x: Tensor) -> list[Any]:
    """The dimensions of a tensor."""
    return list(x.shape.as_list())


def _parts(value: Any) -> list[Any]:
    """The parts that determine the dtype of a value: dtypes, and Python numbers, which are weak."""
    if isinstance(value, (list, tuple)):
        return [part for each in value for part in _parts(each)]
    if is_weak(value):
        return [value]
    if isinstance(value, (Tensor, Variable)):
        return [value.dtype.numpy_dtype]
    if isinstance(value, DType):
        return [value.numpy_dtype]
    if isinstance(value, (type, np.dtype)):
        return [np.dtype(value)]
    if isinstance(value, str):
        return [_named(value)]
    return [convert(value).dtype.numpy_dtype if is_library(value) else np.asarray(value).dtype]


def _named(text: str) -> np.dtype[Any]:
    try:
        return as_dtype(text).numpy_dtype
    except TypeError:
        return np.dtype(object)


def numpy_result_type(*values: Any) -> np.dtype[Any]:
    """NumPy's dtype for these values and dtypes; Python numbers are weak."""
    parts = [part for value in values for part in _parts(value)]
    if not parts:
        return default_dtype(float)
    found = np.result_type(*parts)
    if all(not isinstance(part, np.dtype) for part in parts):
        return default_dtype(found.type)
    return found


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype that NumPy gives to a combination of arrays, numbers and dtypes.

    >>> import gradtape as tf
    >>> import numpy as np
    >>> tf.experimental.numpy.result_type(np.int32, np.float32)
    tf.float64
    """
    return as_dtype(numpy_result_type(*arrays_and_dtypes))


def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """The dtype that holds the values of both.

    >>> import gradtape as tf
    >>> import numpy as np
    >>> tf.experimental.numpy.promote_types(np.int8, np.uint8)
    dtype('int16')
    """
    return np.promote_types(as_dtype(type1).numpy_dtype, as_dtype(type2).numpy_dtype)


def tensor(value: Any, dtype: Any = None) -> Tensor:
    """Convert a value to a tensor, Python numbers with NumPy's dtypes."""
    if isinstance(value, Tensor):
        found = value
    elif isinstance(value, Variable):
        found = value.value()
    elif isinstance(value, (list, tuple)) and is_library(value):
        wanted = numpy_result_type(value)
        return array.stack([tensor(each, dtype or wanted) for each in value])
    elif is_library(value) or isinstance(value, (np.ndarray, np.generic)):
        found = convert(value)
    elif dtype is not None:
        return convert(np.asarray(value).astype(as_dtype(dtype).numpy_dtype))
    else:
        plain = np.asarray(value)
        kinds = {"i": int, "f": float, "c": complex}
        found = convert(plain.astype(default_dtype(kinds[plain.dtype.kind])) if plain.dtype.kind in kinds else value)
    return found if dtype is None else cast(found, dtype)


def promoted(*values: Any, dtype: Any = None) -> list[Tensor]:
    """Convert values to tensors of one dtype."""
    wanted = as_dtype(numpy_result_type(*values) if dtype is None else dtype)
    return [tensor(value, wanted) for value in values]


def floating(x: Tensor) -> Tensor:
    """Cast integers and booleans to the default floating dtype."""
    if x.dtype.is_integer or x.dtype.is_bool:
        return cast(x, default_dtype(float))
    return x


def isscalar(num: Any) -> bool:
    """Whether a value is a number and no array of one dimension or more.

    >>> import gradtape as tf
    >>> tf.experimental.numpy.isscalar(3)
    True
    """
    return num.shape.rank == 0 if isinstance(num, (Tensor, Variable)) else bool(np.isscalar(num))
