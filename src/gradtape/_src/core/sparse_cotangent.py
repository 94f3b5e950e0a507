"""The sparse cotangent of a lookup in a table."""

from __future__ import annotations

from typing import Any

from gradtape._src.arrays import common_namespace


class SparseCotangent:
    """`values` at `indices` of the first axis of an array with this `shape`; values at equal indices are summed.

    A sum of sparse cotangents is sparse; a sum with a dense one is dense. The parts are arrays, or tensors if the
    backward pass is recorded.
    """

    __slots__ = ("indices", "shape", "values")
    __array_ufunc__ = None  # NumPy's operators defer to these

    def __init__(self, values: Any, indices: Any, shape: tuple[int, ...]) -> None:
        self.values, self.indices, self.shape = values, indices, shape

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    def dense(self) -> Any:
        """The cotangent as a dense array."""
        return common_namespace((self.values, self.indices)).add_rows(self.values, self.indices, shape=self.shape)

    def __add__(self, other: Any) -> Any:
        if type(other) is not SparseCotangent:
            return self.dense() + other
        values = common_namespace((self.values, other.values)).concatenate(self.values, other.values, axis=0)
        indices = common_namespace((self.indices, other.indices)).concatenate(self.indices, other.indices, axis=0)
        return SparseCotangent(values, indices, self.shape)

    def __radd__(self, other: Any) -> Any:
        return other + self.dense()
