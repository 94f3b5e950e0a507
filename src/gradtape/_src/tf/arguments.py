"""Parse TensorFlow's arguments: axes, shapes, flags and dtypes, as ints, lists, arrays or tensors.

TensorFlow has two kinds of arguments. Inputs of an op are converted to tensors: a failed conversion is a ValueError or
TypeError, a tensor with the wrong dtype an InvalidArgumentError. Attributes of an op are Python values: the wrong class
is a TypeError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.dimensions import contains_dimension, is_dimension, is_known_shape
from gradtape._src.arrays.symbolic import (
    Symbolic,
    allows_dynamic_shapes,
    current_graph,
    is_known,
    only_eager,
    sizes_from,
)
from gradtape._src.conversion import (
    array_from,
    constant_operand,
    converter_of,
    has_dtype,
    holds_tensor,
    is_library,
    operand,
    placed,
)
from gradtape._src.dtypes import DType, as_dtype, int32
from gradtape._src.literals import cannot_convert
from gradtape._src.ops import array
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor

Axes = tuple[int, ...]

_LONG = 2**63
_INT = {int}
_INDEX_DTYPES = {np.dtype(np.int32), np.dtype(np.int64)}


def static(value: Any) -> Any:
    """Convert a tensor, variable or shape to a NumPy or Python value, where a plain value is expected."""
    if isinstance(value, Tensor):
        extents = getattr(value.array, "extents", None)  # integers computed from unknown dimensions
        return _numbers(value) if extents is None else extents
    if isinstance(value, TensorShape):
        return value.as_list()
    converter = converter_of(value)
    return value if converter is None else _numbers(converter(value))


def _numbers(tensor: Tensor) -> Any:
    if not is_known(tensor):
        symbol = tensor.array
        if (
            type(symbol) is Symbolic
            and allows_dynamic_shapes()
            and symbol.dtype.kind in "iu"
            and _has_known_length(symbol)
        ):
            return sizes_from(symbol)
        raise only_eager(
            errors.OperatorNotAllowedInGraphError(
                f"An argument that determines a shape must be known while a tf.function is traced, but {tensor!r} "
                "is computed by the function. Pass Python numbers (each new number causes a new trace), or results "
                "of tf.shape."
            )
        )
    return np.asarray(tensor.array)


def _has_known_length(array: Symbolic) -> bool:
    return len(array.shape) <= 1 and is_known_shape(array.shape)


# -- inputs: converted to tensors ------------------------------------------------------------------------------------
def integers(value: Any, op: str, attr: str = "Tidx", *, fixed: bool = False) -> Any:
    """An integer input (sizes, axes, indices) whose values are needed: an array, or a list that contains dimensions.

    `fixed` is for inputs that are always int32, for which TensorFlow's errors name no attribute.
    """
    kind = type(value)
    if kind is list or kind is tuple:  # the most common cases
        if set(map(type, value)) == _INT:
            return array_from(value)
    elif kind is np.ndarray and value.dtype in _INDEX_DTYPES:
        return value
    elif kind is np.ndarray and value.dtype == object and contains_dimension(value.ravel()):
        return value.tolist()
    if isinstance(value, TensorShape):
        value = value.as_list()
    if isinstance(value, (list, tuple)) and any(is_dimension(v) for v in value):
        return value
    if isinstance(value, (list, tuple)) and holds_tensor(value):
        if attr in _INT32_BY_DEFAULT and not fixed:
            value = [_as_int32(v) for v in value]
        found = [integers(v, op, attr, fixed=fixed) for v in value]
        return [n.item() if isinstance(n, np.ndarray) and n.dtype == object and not n.ndim else n for n in found]
    if is_dimension(value):
        return value
    if isinstance(value, Tensor) or converter_of(value) is not None:
        dtype = operand(value).dtype
        if dtype.name not in ("int32", "int64"):
            if fixed:
                raise errors.invalid_argument(
                    f"cannot compute {op} as an input was expected to be a int32 tensor but is a {dtype.word} tensor",
                    op,
                )
            raise errors.unsupported_dtype(op, dtype, "int32, int64", attr)
        return static(value)
    return _plain_integers(value, op, attr, fixed)


_INT32_BY_DEFAULT = frozenset({"Tdim", "Tidx", "Tmultiples", "Tpaddings", "Tperm", "Tshape", "index_type"})
"""Attributes that TensorFlow sets to int32 if a list has no dtype: it casts the tensors in the list."""


def _as_int32(value: Any) -> Any:
    """Cast a floating-point tensor in a list of sizes; anything else unchanged."""
    if isinstance(value, Tensor) and value.dtype.is_floating:
        return array.astype(value, dtype=np.dtype(np.int32), source=value.array.dtype)
    return value


def _plain_integers(value: Any, op: str, attr: str, fixed: bool) -> np.ndarray:
    if isinstance(value, (np.ndarray, np.generic)) and (fixed or value.dtype.kind not in "Mm"):
        return np.asarray(value) if value.dtype in (np.int32, np.int64) else array_from(value, int32)
    found = array_from(value)
    kind = found.dtype.kind
    if kind in "iub" or not found.size:
        return found.astype(np.int64 if kind == "i" and found.dtype.itemsize > 4 else np.int32)
    if fixed or (kind == "f" and not found.ndim):
        raise cannot_convert(value, int32)
    raise errors.unsupported_dtype(op, as_dtype(found.dtype), "int32, int64", attr)


def shape_of(shape: Any, op: str = "Reshape", attr: str = "Tshape", *, fixed: bool = False) -> Axes:
    """A shape argument as a tuple of ints.

    >>> shape_of(3), shape_of([2, 4])
    ((3,), (2, 4))
    """
    if type(shape) is tuple or type(shape) is list:
        plain = [*map(type, shape)].count(int) == len(shape)
        if plain and (not shape or (min(shape) >= -_LONG and max(shape) < _LONG)):
            return tuple(shape)
    found = integers(shape, op, attr, fixed=fixed)
    if isinstance(found, np.ndarray):
        if found.ndim > 1:
            raise errors.invalid_argument(f"sizes must be a vector, got shape {errors.brackets(found.shape)}", op)
        return tuple(found.reshape(-1).tolist())
    return (found,) if is_dimension(found) else tuple(_one(n, op) for n in found)


def _one(value: Any, op: str) -> int:
    """The only integer or dimension of a scalar array."""
    found = np.asarray(value)
    if found.ndim:
        raise errors.invalid_argument(
            f"Expected a scalar, but got a tensor of shape {errors.brackets(found.shape)}", op
        )
    plain: int = found.item()
    return plain


def index_operand(
    value: Any, op: str, attr: str = "Tindices", allowed: str = "int32, int64", *, empty: bool = True
) -> Tensor:
    """An integer input whose values may be unknown. With `empty`, an empty list counts as integers."""
    x = operand(value) if is_library(value) or not empty else constant_operand(placed(_plain_indices(value)))
    if x.dtype.word not in allowed.split(", "):
        raise errors.unsupported_dtype(op, x.dtype, allowed, attr)
    return x


def _plain_indices(value: Any) -> np.ndarray:
    found = array_from(value)
    if isinstance(value, (np.ndarray, np.generic)) and found.dtype.kind == "f":
        return found.astype(np.int32)
    if found.dtype.kind == "b" or not found.size:
        return found.astype(np.int32)
    if found.dtype.kind == "f" and not found.ndim:
        raise cannot_convert(value, int32)
    return found


def integer(value: Any, op: str = "Reshape", attr: str = "Tidx", *, fixed: bool = False, vector: bool = False) -> int:
    """An input that is one integer; with `vector`, also a vector with one element."""
    if type(value) is int and -_LONG <= value < _LONG:
        return value
    found = integers(value, op, attr, fixed=fixed)
    return _one(np.reshape(found, ()) if vector and np.shape(found) == (1,) else found, op)


def axes_of(axis: Any, rank: int, op: str = "Sum") -> Axes:
    """An axis argument as sorted non-negative ints; None means all of them."""
    if axis is None:
        return tuple(range(rank))
    if type(axis) is int:
        return (axis_of(axis, rank, op),)
    if (type(axis) is tuple or type(axis) is list) and all(type(a) is int for a in axis):
        given: Any = axis
    else:
        found = integers(axis, op)
        given = found.reshape(-1).tolist() if isinstance(found, np.ndarray) else [_one(a, op) for a in found]
    axes = sorted(axis_of(a, rank, op) for a in given)
    if len(set(axes)) < len(axes):
        twice = next(a for a in axes if axes.count(a) > 1)
        raise errors.refused_value(f"Invalid reduction arguments: Axes contains duplicate dimension: {twice}", op)
    return tuple(axes)


def axis_of(axis: Any, rank: int, op: str = "Sum") -> int:
    """Convert an axis to a non-negative int."""
    a = integer(axis, op)
    if not -rank <= a < rank:
        raise errors.invalid_argument(f"Invalid reduction dimension ({a} for input with {rank} dimension(s)", op)
    return a + rank if a < 0 else a


# -- attributes: Python values ---------------------------------------------------------------------------------------
def truth(value: Any) -> bool:
    """The truth value of any Python object that has one."""
    if type(value) is bool:
        return value
    if isinstance(value, np.ndarray) and value.size > 1:
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous. Use a.any() or a.all(). "
            f"Received an array of shape {value.shape} where True or False is expected."
        )
    return bool(value)


def flag(value: Any, name: str, default: bool = False) -> bool:
    """An attribute that is True or False, and not merely truthy."""
    if type(value) is bool:
        return value
    if value is None:
        return default
    raise TypeError(f"Expected bool for argument '{name}' not {value!r}.")


def required_flag(value: Any, name: str) -> bool:
    """An attribute without a default that is True or False."""
    if type(value) is bool:
        return value
    raise TypeError(f"Expected bool for argument '{name}' not {value!r}.")


def as_int(value: Any, name: str, default: int | None = None) -> int:
    """An attribute that is an int; fractions are truncated."""
    if type(value) is int and -_LONG <= value < _LONG:
        return value
    if value is None and default is not None:
        return default
    if isinstance(value, Tensor) and value.dtype.is_integer and not value.array.shape:
        value = static(value)
    kind = type(value)
    if issubclass(kind, (int, float, np.integer, np.floating)) or (isinstance(value, np.ndarray) and not value.ndim):
        try:
            found = int(value)
        except (TypeError, ValueError, OverflowError):
            pass
        else:
            if -_LONG <= found < _LONG:
                return found
            raise OverflowError(f"Python int too large to convert to C long: the argument '{name}' is {value!r}.")
    if is_dimension(value):
        return value
    raise TypeError(f"Expected int for argument '{name}' not {value!r}.")


def number(value: Any, name: str) -> float:
    """An attribute that is a float."""
    if isinstance(value, (float, int, np.integer, np.floating)):
        return float(value)
    raise TypeError(f"Expected float for argument '{name}' not {value!r}.")


def text(value: Any, name: str) -> str:
    """An attribute that is a string."""
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, str):
        return value
    raise TypeError(f"Expected string for argument '{name}' not {value!r}.")


def text_bytes(value: Any, name: str) -> bytes:
    """An attribute that is a string, as bytes, which may be invalid UTF-8."""
    return value if isinstance(value, bytes) else text(value, name).encode()


def choice(value: Any, name: str, options: tuple[str, ...], sentence: str = "") -> str:
    """A string that Python code compares with the valid ones."""
    if isinstance(value, str) and value in options:
        return value
    kind = TypeError if isinstance(value, Tensor) or converter_of(value) is not None else ValueError
    raise kind(f"{sentence} Argument `{name}` must be one of {options}. Received: {value!r}.".lstrip())


def allowed_text(value: Any, name: str, options: tuple[str, ...], op: str, default: str = "") -> str:
    """An attribute that is one of the strings that an op allows."""
    if value is None and default:
        return default
    found = text(value, name)
    if found not in options:
        listed = ", ".join(f'"{option}"' for option in options)
        raise errors.invalid_argument(
            f"Value for attr '{name}' of \"{found}\" is not in the list of allowed values: {listed}", op
        )
    return found


def scalar_operand(value: Any, dtype: DType, op: str, name: str) -> Tensor:
    """An input that is a scalar of a certain dtype."""
    x = operand(value, None if has_dtype(value) else dtype)
    if x.dtype != dtype:
        raise errors.invalid_argument(
            f"cannot compute {op} as {name} was expected to be a {dtype.word} tensor but is a {x.dtype.word} tensor", op
        )
    if x.array.shape:
        raise errors.invalid_argument(f"{name} must be a scalar, received shape {errors.brackets(x.array.shape)}", op)
    return x


def same_dtype(value: Any, dtype: DType, op: str, name: str) -> Tensor:
    """An input with the dtype of another one: plain values are converted, tensors must have it."""
    x = operand(value, None if has_dtype(value) else dtype)
    if x.dtype != dtype:
        raise errors.invalid_argument(
            f"cannot compute {op} as {name} was expected to be a {dtype.word} tensor but is a {x.dtype.word} tensor", op
        )
    return x


def static_shape(shape: Any) -> Axes:
    """A shape that is needed before any op runs: TensorFlow creates a TensorShape, with that class's errors."""
    if isinstance(shape, Tensor):
        shape = static(shape)
    sizes = (shape if isinstance(shape, TensorShape) else TensorShape(shape)).as_list()
    if None in sizes:
        raise ValueError(f"Expected a shape without unknown dimensions, but got {shape!r}.")
    return tuple(n for n in sizes if n is not None)


def extent(value: Any, name: str, op: str) -> int:
    """A length, as a Python integer or an integer tensor."""
    if isinstance(value, Tensor) or converter_of(value) is not None:
        if not operand(value).dtype.is_integer:
            raise TypeError(
                f"Expected an integer for argument '{name}', but got a tensor of {operand(value).dtype.name}."
            )
        return _one(static(value), op)
    if is_dimension(value):
        return value
    if isinstance(value, np.ndarray) and not value.ndim and value.dtype.kind in "iu":
        value = value.item()
    if isinstance(value, (int, np.integer)) and -_LONG <= value < _LONG:
        return int(value)
    kind = OverflowError if isinstance(value, int) else TypeError
    raise kind(f"Expected an integer for argument '{name}', but got {value!r}.")


def count_of(value: Any, name: str) -> int:
    """An int32 scalar input (a length, a step): other shapes and dtypes are not converted."""
    if type(value) is int and -_LONG <= value < _LONG:
        return value
    if is_dimension(value):
        return value
    if is_library(value):
        x = operand(value)
        if x.dtype.name not in ("int32", "int64"):
            raise ValueError(
                f"Tensor conversion requested dtype int32 for Tensor with dtype {x.dtype.name}: {x!r}. It is the "
                f"argument '{name}'."
            )
        found = np.asarray(static(x))
    else:
        found = array_from(value)
        if not found.ndim and found.dtype.kind not in "iub":
            raise cannot_convert(value, int32)
    if found.ndim:
        raise ValueError(f"Shape must be rank 0 but is rank {found.ndim} for argument '{name}'. Received: {value!r}")
    plain: int = found.item()
    return plain if is_dimension(plain) else int(plain)


def plain_number(value: Any, name: str) -> float:
    """A number that Python code compares: an int or float, or a scalar tensor."""
    plain = static(value)
    if isinstance(plain, np.ndarray) and plain.ndim:
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous: expected one number for argument "
            f"'{name}', but got {value!r}."
        )
    if isinstance(plain, np.ndarray) and plain.dtype.kind in "fiuV":
        plain = plain.item()
    if not isinstance(plain, (int, float, np.integer, np.floating)):
        raise TypeError(f"Expected a number for argument '{name}', but got {value!r}.")
    try:
        return float(plain)
    except OverflowError:
        raise ValueError(f"The argument '{name}' is out of range: {value!r}") from None


def element_type(dtype: Any) -> DType:
    """The dtype argument of a function that creates tensors."""
    found = as_dtype(dtype)
    if not found.is_numpy_compatible or found.is_quantized:
        raise TypeError(f"Cannot create a tensor of {found!r}.")
    return found


def index_type(
    dtype: Any, op: str, attr: str = "out_type", default: str = "int32", allowed: str = "int32, int64"
) -> np.dtype[Any]:
    """An attribute that is a dtype of indices or sizes."""
    found = as_dtype(default if dtype is None else dtype)
    if found.name not in allowed.split(", "):
        raise errors.unsupported_dtype(op, found, allowed, attr)
    return found.numpy_dtype


def tensor_or(value: Any, dtype: DType, kept: Sequence[str] = ()) -> Tensor:
    """An operand; plain values take this dtype if they can, as in TensorFlow's ops with a default dtype.

    In a function, arrays with the dtypes in `kept` keep them.
    """
    if is_library(value) or isinstance(value, np.generic):
        return operand(value)
    if isinstance(value, np.ndarray) and value.dtype.name in kept and current_graph() is not None:
        return operand(value)
    try:
        return operand(value, dtype)
    except (TypeError, ValueError):
        return operand(value)


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of a dtype argument."""
    return as_dtype(dtype).numpy_dtype


def dtype_or(dtype: Any, otherwise: DType) -> DType:
    """A dtype argument, or its default for None."""
    return otherwise if dtype is None else as_dtype(dtype)


def scan_axis(axis: Any, rank: int, op: str) -> int:
    """The axis of a scan, as a non-negative int."""
    at = integer(axis, op)
    if not -rank <= at < rank:
        raise errors.refused_value(f"ScanOp: Expected scan axis in the range [{-rank}, {rank}), but got {at}", op)
    return at + rank if at < 0 else at
