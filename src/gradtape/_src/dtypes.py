"""TensorFlow's dtypes, as objects that wrap NumPy's."""

from __future__ import annotations

import builtins
from typing import Any, NoReturn

import ml_dtypes
import numpy as np

# NumPy's own functions do not support bfloat16 and smaller dtypes.
finfo: Any = ml_dtypes.finfo
_iinfo: Any = ml_dtypes.iinfo


class DType:
    """The type of a tensor's elements; there is one object for each type, such as `float32`.

    It is equal to everything that names the same type: NumPy's dtypes and scalar types, names, TensorFlow's numbers.

    >>> tf.float32 == np.float32, tf.float32 == "float32", tf.float32 == tf.float64
    (True, True, False)
    >>> tf.float32, str(tf.float32), tf.complex64.real_dtype
    (tf.float32, "<dtype: 'float32'>", tf.float32)

    >>> tf.float32.is_compatible_with("float32"), tf.int8.min
    (True, -128)
    """

    # Plain slots rather than properties: these are read on the path of every op.
    __slots__ = (
        "as_datatype_enum",
        "as_numpy_dtype",
        "base_dtype",
        "is_bool",
        "is_complex",
        "is_floating",
        "is_integer",
        "is_numeric",
        "is_numpy_compatible",
        "is_quantized",
        "is_unsigned",
        "name",
        "numpy_dtype",
        "real_dtype",
        "size",
        "word",
    )

    name: str
    word: str
    as_datatype_enum: int
    as_numpy_dtype: Any
    numpy_dtype: np.dtype[Any]
    base_dtype: DType
    real_dtype: DType
    size: int
    is_bool: builtins.bool
    is_complex: builtins.bool
    is_floating: builtins.bool
    is_integer: builtins.bool
    is_numeric: builtins.bool
    is_numpy_compatible: builtins.bool
    is_quantized: builtins.bool
    is_unsigned: builtins.bool

    def __new__(cls, type_enum: Any) -> DType:
        return as_dtype(type_enum)

    @property
    def min(self) -> Any:
        """The least finite value: a Python int, or a scalar of a floating type."""
        return self._extreme("min", "minimum")

    @property
    def max(self) -> Any:
        """The greatest finite value: a Python int, or a scalar of a floating type.

        >>> tf.int8.max, float(tf.float32.max)
        (127, 3.4028234663852886e+38)
        """
        return self._extreme("max", "maximum")

    def _extreme(self, which: str, noun: str) -> Any:
        if self.is_floating:
            return getattr(finfo(self.as_numpy_dtype), which)
        if self.is_integer:
            return int(getattr(_iinfo(self.as_numpy_dtype), which))
        kind = "" if not self.is_numpy_compatible else " with quantized type" if self.is_quantized else " with type"
        raise TypeError(f"Cannot find {noun} value of {self}{kind and f'{kind} {self}'}.")

    @property
    def limits(self) -> tuple[Any, Any]:
        """The range of intensities in an image of this dtype.

        >>> tf.uint8.limits, tf.float32.limits
        ((0, 255), (0, 1))
        """
        if self is float32 or self is float64:
            return 0, 1
        if self.is_bool:
            return 0, True
        if self.is_integer and self.is_numeric:
            return 0, self.max
        raise ValueError(f"{self} does not have defined limits.")

    def is_compatible_with(self, other: Any) -> builtins.bool:
        """Return whether `other` names this dtype."""
        return as_dtype(other) is self

    def __eq__(self, other: object) -> builtins.bool:
        if other is self:
            return True
        if other is None or type(other) is DType:
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    # One object per dtype, so identity is a correct hash; it is C code, and dtypes are keys of hot tables.
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __str__(self) -> str:
        return f"<dtype: '{self.name}'>"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{self!r} is immutable: cannot set {name!r}.")

    def __getattr__(self, name: str) -> NoReturn:
        # Reached only by what no slot holds: a missing name, or the NumPy type of a dtype that has none.
        if name in DType.__slots__:
            raise AttributeError(f"{self!r} has no NumPy type.")
        raise AttributeError(f"'DType' object has no attribute {name!r}")


_BY_NUMPY: dict[Any, DType] = {}
_BY_ANY: dict[Any, DType] = {}
_BY_ENUM: dict[int, DType] = {}  # separate from the others, where np.float16(1) would be found as number 1


def _declare(
    name: str, enum: int, numpy_type: Any, kind: str, word: str | None = None, numeric: builtins.bool = True
) -> DType:
    """A new dtype. `kind` is one of float, int, uint, complex, bool, string, quantized, handle."""
    self: DType = object.__new__(DType)
    attributes = {
        "name": name,
        "word": word or name,
        "as_datatype_enum": enum,
        "base_dtype": self,
        "real_dtype": self,
        "size": 0,
        "is_bool": kind == "bool",
        "is_complex": kind == "complex",
        "is_floating": kind == "float",
        "is_integer": kind in ("int", "uint"),
        "is_unsigned": kind == "uint",
        "is_quantized": kind == "quantized",
        "is_numeric": numeric and kind in ("float", "int", "uint", "complex", "quantized"),
        "is_numpy_compatible": numpy_type is not None,
    }
    if numpy_type is not None:
        numpy_dtype = np.dtype(numpy_type)
        attributes["as_numpy_dtype"] = numpy_dtype if kind == "quantized" else numpy_type
        attributes["numpy_dtype"] = numpy_dtype
        attributes["size"] = 0 if kind == "string" else numpy_dtype.itemsize
        if kind != "quantized":
            _BY_NUMPY[numpy_dtype] = _BY_ANY[numpy_dtype] = _BY_ANY[numpy_dtype.type] = self
    for attribute, value in attributes.items():
        object.__setattr__(self, attribute, value)
    _BY_ANY[name] = _BY_ANY[self.word] = _BY_ENUM[enum] = self
    return self


float32 = _declare("float32", 1, np.float32, "float", word="float")
float64 = _declare("float64", 2, np.float64, "float", word="double")
int32 = _declare("int32", 3, np.int32, "int")
uint8 = _declare("uint8", 4, np.uint8, "uint")
int16 = _declare("int16", 5, np.int16, "int")
int8 = _declare("int8", 6, np.int8, "int")
string = _declare("string", 7, object, "string")
complex64 = _declare("complex64", 8, np.complex64, "complex")
int64 = _declare("int64", 9, np.int64, "int")
bool = _declare("bool", 10, np.bool_, "bool")
qint8 = _declare("qint8", 11, [("qint8", np.int8)], "quantized")
quint8 = _declare("quint8", 12, [("quint8", np.uint8)], "quantized")
qint32 = _declare("qint32", 13, [("qint32", np.int32)], "quantized")
bfloat16 = _declare("bfloat16", 14, ml_dtypes.bfloat16, "float")
qint16 = _declare("qint16", 15, [("qint16", np.int16)], "quantized")
quint16 = _declare("quint16", 16, [("quint16", np.uint16)], "quantized")
uint16 = _declare("uint16", 17, np.uint16, "uint")
complex128 = _declare("complex128", 18, np.complex128, "complex")
float16 = _declare("float16", 19, np.float16, "float", word="half")
resource = _declare("resource", 20, None, "handle")
variant = _declare("variant", 21, None, "handle")
uint32 = _declare("uint32", 22, np.uint32, "uint")
uint64 = _declare("uint64", 23, np.uint64, "uint")
# TensorFlow does not count the following types of less than two bytes as numeric.
float8_e5m2 = _declare("float8_e5m2", 24, ml_dtypes.float8_e5m2, "float", numeric=False)
float8_e4m3fn = _declare("float8_e4m3fn", 25, ml_dtypes.float8_e4m3fn, "float", numeric=False)
float8_e4m3fnuz = _declare("float8_e4m3fnuz", 26, ml_dtypes.float8_e4m3fnuz, "float", numeric=False)
float8_e4m3b11fnuz = _declare("float8_e4m3b11fnuz", 27, ml_dtypes.float8_e4m3b11fnuz, "float", numeric=False)
float8_e5m2fnuz = _declare("float8_e5m2fnuz", 28, ml_dtypes.float8_e5m2fnuz, "float", numeric=False)
int4 = _declare("int4", 29, ml_dtypes.int4, "int", numeric=False)
uint4 = _declare("uint4", 30, ml_dtypes.uint4, "uint", numeric=False)

half = float16
double = float64

object.__setattr__(complex64, "real_dtype", float32)
object.__setattr__(complex128, "real_dtype", float64)

_BY_ANY.update({float: float32, builtins.bool: bool, object: string, np.str_: string, np.bytes_: string})
for _code in "bhilqBHILQ":  # C's integer types: NumPy has two scalar types for one width
    _BY_ANY.setdefault(np.dtype(_code).type, _BY_NUMPY[np.dtype(_code)])

_HINTS: dict[Any, str] = {
    int: " Use tf.int32 or tf.int64.",
    complex: " Use tf.complex64 or tf.complex128.",
    str: " Use tf.string.",
    bytes: " Use tf.string.",
}


def as_dtype(type_value: Any) -> DType:
    """Return the dtype for a DType, a name, a NumPy dtype or scalar type, or TensorFlow's number.

    >>> tf.as_dtype("half"), tf.as_dtype(np.int8), tf.as_dtype(float), tf.as_dtype(np.dtype("U3"))
    (tf.float16, tf.int8, tf.float32, tf.string)
    """
    if type(type_value) is DType:
        return type_value
    try:
        return _BY_ANY[type_value]
    except (KeyError, TypeError):  # unknown, or unhashable
        pass
    found: DType | None = None
    if isinstance(type_value, int):
        found = _BY_ENUM.get(type_value)
    else:
        numpy_dtype = type_value if isinstance(type_value, np.dtype) else getattr(type_value, "dtype", None)
        if isinstance(numpy_dtype, np.dtype):
            found = _uncommon(numpy_dtype)
    if found is not None:
        return found
    hint = _HINTS.get(type_value, "") if isinstance(type_value, type) else ""
    raise TypeError(f"Cannot convert the argument `type_value`: {type_value!r} to a TensorFlow DType.{hint}")


def dtype_of(array: Any) -> DType:
    """The dtype of an array of any engine.

    >>> dtype_of(np.zeros(2)), dtype_of(np.array(["a", "bc"]))
    (tf.float64, tf.string)
    """
    try:
        return _BY_NUMPY[array.dtype]
    except KeyError:
        pass
    found = _uncommon(array.dtype)
    if found is None:
        raise TypeError(f"Cannot convert the argument `type_value`: {array.dtype!r} to a TensorFlow DType.")
    return found


def _uncommon(numpy_dtype: np.dtype[Any]) -> DType | None:
    """The dtype for strings of any width and for numbers with the other byte order."""
    if numpy_dtype.kind in "SUT":
        return string
    return _BY_NUMPY.get(numpy_dtype) or _BY_NUMPY.get(numpy_dtype.newbyteorder("="))
