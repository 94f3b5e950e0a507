"""Helpers of string functions: reading inputs, creating results, rows of ragged tensors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import NeedsEagerError, in_graph
from gradtape._src.arrays.symbolic import is_known, only_eager
from gradtape._src.conversion import convert, has_dtype, operand, wrap
from gradtape._src.dtypes import DType, string
from gradtape._src.memory import LazyArray
from gradtape._src.tensor import LazyTensor, Tensor
from gradtape._src.text.packed import Packed

FEW = 64
"""The number of strings up to which they are processed one by one and not packed, because NumPy does not pay off."""

Function = TypeVar("Function", bound=Callable[..., Any])


def is_ragged(value: Any) -> bool:
    """Whether a value is a ragged tensor."""
    return hasattr(type(value), "with_flat_values")


def elementwise(function: Function) -> Function:
    """Make a string function also map the values of a ragged tensor."""

    @functools.wraps(function)
    def mapped(input: Any, *args: Any, **kwargs: Any) -> Any:
        if is_ragged(input):
            return input.with_flat_values(function(input.flat_values, *args, **kwargs))
        try:
            return function(input, *args, **kwargs)
        except NeedsEagerError as error:
            return in_graph(f"strings.{function.__name__}", (input, *args), kwargs, error, function)

    return mapped  # type: ignore[return-value]


def known(tensor: Tensor) -> ndarray:
    """The array of a tensor; if it is unknown, in a trace, the function runs eagerly."""
    if not is_known(tensor):
        raise only_eager(TypeError("An op on strings cannot be part of a compiled program: XLA supports only numbers."))
    return np.asarray(tensor.array)


def input_of(value: Any, dtype: DType, op: str, number: int = 0) -> Tensor:
    """An input of an op that accepts only one dtype."""
    tensor = operand(value, None if has_dtype(value) else dtype)
    if tensor.dtype != dtype:
        raise errors.invalid_argument(
            f"cannot compute {op} as input #{number}(zero-based) was expected to be a {dtype.word} tensor but is a "
            f"{tensor.dtype.word} tensor",
            op,
        )
    return tensor


def texts_of(value: Any, op: str, number: int = 0) -> ndarray:
    """The array of an input that must contain strings."""
    return known(input_of(value, string, op, number))


def converted_texts(value: Any, argument: str = "") -> ndarray:
    """The array of an argument that is converted to strings before any op runs."""
    try:
        return known(convert(value, string))
    except ValueError as error:
        raise ValueError(f"{argument}: {error}" if argument else str(error)) from None


class Texts:
    """The strings of a tensor: one by one in `rows`, or `packed`, whichever a function needs."""

    __slots__ = ("_packed", "_rows", "_tensor", "shape", "size")

    def __init__(self, tensor: Tensor) -> None:
        self._packed: Packed | None = tensor.__dict__.get("packed")
        self._tensor = tensor
        self.shape: tuple[int, ...]
        self._rows: list[bytes] | None
        if self._packed is None:
            array = known(tensor)
            self._rows, self.shape, self.size = flat(array), array.shape, array.size
        else:
            self._rows, self.shape, self.size = None, tuple([n or 0 for n in tensor.shape.as_list()]), len(self._packed)

    @property
    def is_large(self) -> bool:
        """Whether to compute with packed strings."""
        return self.size > FEW

    @property
    def rows(self) -> list[bytes]:
        """The strings one by one."""
        if self._rows is None:
            assert self._packed is not None
            self._rows = self._packed.rows
        return self._rows

    @property
    def packed(self) -> Packed:
        """The strings in one buffer, which the tensor keeps."""
        if self._packed is None:
            self._packed = Packed(self.rows)
            if self.is_large:
                self._tensor.__dict__["packed"] = self._packed
        return self._packed


def texts_in(value: Any, op: str, number: int = 0) -> Texts:
    """The strings of an input that must contain strings."""
    return Texts(input_of(value, string, op, number))


def converted(value: Any, argument: str = "") -> Texts:
    """The strings of an argument that is converted to strings before any op runs."""
    try:
        return Texts(convert(value, string))
    except ValueError as error:
        raise ValueError(f"{argument}: {error}" if argument else str(error)) from None


def packed_tensor(texts: Packed, shape: Sequence[int]) -> Tensor:
    """A tensor of packed strings: Python objects are created when its elements are read."""
    if len(texts) <= FEW:
        return string_tensor(texts.rows, shape)
    tensor = LazyTensor.of(LazyArray(tuple(shape), np.dtype(object), (texts,), _unpacked))
    tensor.__dict__["packed"] = texts
    return tensor


def _unpacked(shape: Sequence[int], texts: Packed) -> ndarray:
    return string_array(texts.rows, shape)


def flat(texts: ndarray) -> list[bytes]:
    found: list[bytes] = texts.ravel().tolist()
    return found


def string_array(texts: Sequence[bytes], shape: Sequence[int]) -> ndarray:
    """An array of strings with a shape."""
    found = np.empty(len(texts), object)
    found[:] = texts
    return found.reshape(shape)


def string_tensor(texts: Sequence[bytes], shape: Sequence[int]) -> Tensor:
    """A tensor of strings with a shape."""
    return wrap(string_array(texts, shape))


def ragged_rows(values: Tensor, lengths: Any, shape: Sequence[int]) -> Any:
    """Ragged rows instead of the elements of a tensor with this shape: for a scalar, the values themselves."""
    from gradtape._src.ops.ragged import RaggedTensor

    if not shape:
        return values
    found: Any = RaggedTensor.from_row_lengths(values, wrap(np.asarray(lengths, np.int64)), validate=False)
    for axis in range(len(shape) - 1, 0, -1):
        rows = int(np.prod(shape[:axis]))
        found = RaggedTensor.from_uniform_row_length(found, shape[axis], nrows=rows, validate=False)
    return found


def nested_rows(function: Callable[..., Any], value: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function that returns a ragged row for each string on the values of a ragged tensor."""
    return value.with_flat_values(function(value.flat_values, *args, **kwargs))
