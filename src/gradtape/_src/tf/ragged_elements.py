"""TensorArray elements of different shapes in a program: one tensor with all values, and one with the shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.checks import checked
from gradtape._src.arrays.dimension import maximum
from gradtape._src.arrays.symbolic import Symbolic, as_value, sizes_from, sizes_of, zeros
from gradtape._src.conversion import wrap
from gradtape._src.errors import invalid_argument
from gradtape._src.ops import array, index, reduce
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import stack

_INT64 = np.dtype(np.int64)


class RaggedElements(NamedTuple):
    """The concatenated values of all elements, and the shape of each as a row. All elements have the same rank."""

    flat: Tensor
    shapes: Tensor

    @classmethod
    def of(cls, elements: list[Tensor | None], count: Any, rank: int, dtype: Any) -> RaggedElements:
        """The first of `count` elements; None, for elements that were not written, is empty."""
        whole = cls(wrap(np.zeros(0, dtype)), wrap(zeros((count, rank), _INT64)))
        for i, element in enumerate(elements):
            if element is not None:
                whole = whole.write(wrap(np.asarray(i)), element)
        return whole

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.shapes.array.shape[0]

    def extended(self, at: Tensor) -> RaggedElements:
        """Extend by empty elements up to an index."""
        return self._replace(shapes=extended(self.shapes, at))

    def write(self, at: Tensor, element: Tensor) -> RaggedElements:
        """Replace the element at an index."""
        start, end = self._bounds(at)
        size = element.array.size
        parts = [_part(self.flat, 0, start), array.reshape(element, shape=(size,)), _part(self.flat, end, None)]
        shape = array.reshape(wrap(sizes_of(element.array.shape, _INT64)), shape=(1, len(element.array.shape)))
        shapes = index.replace_nd(self.shapes, shape, array.reshape(at, shape=(1, 1)))
        return RaggedElements(array.concatenate(*parts, axis=0), shapes)

    def read(self, at: Tensor) -> Tensor:
        """The element at an index."""
        start, end = self._bounds(at)
        shape = index.take(self.shapes, at, axis=0, batch_dims=0)
        element: Tensor = array.reshape(_part(self.flat, start, end), shape=_sizes(shape))
        return element

    def stack(self) -> Tensor:
        """Stack all elements, which have the shape of the first one."""
        first = self._first_shape("Tried to stack elements of an empty list with non-fully-defined element_shape.")
        whole: Tensor = array.reshape(self.flat, shape=(self.size, *first))
        return whole

    def concat(self) -> Tensor:
        """Concatenate the elements along their first axis; the other sizes are those of the first element."""
        lengths = self.shapes[:, 0]
        total = _sizes(array.reshape(reduce.sum_(lengths, axis=(0,), keepdims=False), shape=(1,)))
        first = self._first_shape(
            "All except the first dimension must be fully defined when concating an empty tensor list."
        )
        whole: Tensor = array.reshape(self.flat, shape=(*total, *first[1:]))
        return whole

    def _first_shape(self, sentence: str) -> tuple[Any, ...]:
        """The shape of the first element; raises InvalidArgumentError with this message if there is none."""
        first = checked(_THERE, wrap(np.asarray(0)), size=self.size, sentence=sentence)
        return _sizes(index.take(self.shapes, first, axis=0, batch_dims=0))

    def _bounds(self, at: Tensor) -> tuple[Any, Any]:
        """The start and the end of the values of an element."""
        counts = reduce.prod(self.shapes, axis=(1,), keepdims=False)
        ends = reduce.cumsum(counts, axis=0, exclusive=False, reverse=False)
        end = index.take(ends, at, axis=0, batch_dims=0)
        start = end - index.take(counts, at, axis=0, batch_dims=0)
        first, last = _sizes(stack([start, end]))
        return first, last


def _empty(at: Any, size: int, sentence: str) -> Exception:
    return invalid_argument(f"{sentence} Write an element first, or pass element_shape.")


_THERE = index.WITHIN._replace(error=_empty)


def extended(whole: Tensor, at: Tensor) -> Tensor:
    """Pad the elements with zeros up to an index."""
    size = whole.array.shape[0]
    place = sizes_from(at.array).item() if type(at.array) is Symbolic else int(at.array)
    missing = maximum(size, place + 1) - size
    rank = len(whole.array.shape)
    padded: Tensor = array.pad(_of_program(whole), before=(0,) * rank, after=(missing, *[0] * (rank - 1)))
    return padded


def _part(flat: Tensor, start: Any, end: Any) -> Tensor:
    part: Tensor = array.getitem(_of_program(flat), index=(slice(start, end),))
    return part


def _of_program(tensor: Tensor) -> Tensor:
    """Make a tensor a value of the program, so that unknown sizes can be used with it."""
    if type(tensor.array) is Symbolic:
        return tensor
    inside = Tensor()
    inside.array, inside.uid = as_value(tensor.array), tensor.uid
    return inside


def _sizes(vector: Tensor) -> tuple[Any, ...]:
    """Integers as sizes: ints if they are known."""
    found = sizes_from(vector.array) if type(vector.array) is Symbolic else vector.array
    return tuple([n if type(n) is not np.int64 else int(n) for n in found])
