"""Reading TensorFlow's arguments: axes, shapes and dtypes that may come as ints, lists, arrays or tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape import errors
from gradtape.arrays.dimensions import is_dimension
from gradtape.arrays.symbolic import is_known
from gradtape.conversion import converter_of
from gradtape.dtypes import DType, as_dtype
from gradtape.shape import TensorShape
from gradtape.tensor import Tensor

Axes = tuple[int, ...]


def static(value: Any) -> Any:
    """A tensor, variable or shape given where a plain value is wanted, as NumPy or Python has it."""
    if isinstance(value, Tensor):
        extents = getattr(value.array, "extents", None)  # integers that were computed from unknown dimensions
        return _numbers(value) if extents is None else extents
    if isinstance(value, TensorShape):
        return value.as_list()
    converter = converter_of(value)
    return value if converter is None else _numbers(converter(value))


def _numbers(tensor: Tensor) -> Any:
    if not is_known(tensor):
        raise errors.OperatorNotAllowedInGraphError(
            f"An argument that decides about shapes must be known while a tf.function is traced, but {tensor!r} is "
            "computed by the function. Pass Python numbers (each of them is traced anew), or what tf.shape gives."
        )
    return np.asarray(tensor.array)


def shape_of(shape: Any) -> Axes:
    """A shape argument as a tuple of ints.

    >>> shape_of(3), shape_of([2, 4])
    ((3,), (2, 4))
    """
    if type(shape) is tuple and all(type(n) is int for n in shape):
        return shape
    plain = static(shape)
    if plain is None:
        raise ValueError("Attempt to convert a value (None) with an unsupported type (<class 'NoneType'>) to a Tensor.")
    if not isinstance(plain, (list, tuple)) and np.ndim(plain) == 0:
        return (integer(plain),)
    return tuple(integer(static(n)) for n in plain)


def integer(value: Any) -> int:
    """An int, from anything that is one."""
    plain = static(value)
    if isinstance(plain, np.ndarray) and plain.dtype == object and not plain.ndim:
        plain = plain.item()
    if is_dimension(plain):
        return plain
    try:
        return int(plain.__index__()) if not isinstance(plain, np.ndarray) else int(plain.item().__index__())
    except (AttributeError, TypeError, ValueError):
        raise TypeError(f"Expected an integer, but received {value!r} of type {type(value).__name__}.") from None


def axes_of(axis: Any, rank: int, op: str = "Sum") -> Axes:
    """An axis argument as sorted non-negative ints; None means all of them."""
    if axis is None:
        return tuple(range(rank))
    if type(axis) is int:
        return (axis_of(axis, rank, op),)
    plain = static(axis)
    given = [integer(a) for a in plain] if np.ndim(plain) else [integer(plain)]
    axes = sorted(axis_of(a, rank, op) for a in given)
    if len(set(axes)) < len(axes):
        twice = next(a for a in axes if axes.count(a) > 1)
        raise errors.invalid_argument(f"Invalid reduction arguments: Axes contains duplicate dimension: {twice}", op)
    return tuple(axes)


def axis_of(axis: Any, rank: int, op: str = "Sum") -> int:
    """One axis as a non-negative int."""
    a = axis if type(axis) is int else integer(axis)
    if not -rank <= a < rank:
        raise errors.invalid_argument(f"Invalid reduction dimension ({a} for input with {rank} dimension(s)", op)
    return a + rank if a < 0 else a


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's dtype of a dtype argument."""
    return as_dtype(dtype).numpy_dtype


def dtype_or(dtype: Any, otherwise: DType) -> DType:
    """A dtype argument, or what stands for None."""
    return otherwise if dtype is None else as_dtype(dtype)
