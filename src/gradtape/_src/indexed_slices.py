"""IndexedSlices: some rows of a tensor, such as the gradient of a lookup, which stays sparse until it is converted."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.conversion import convert
from gradtape._src.dtypes import DType
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor


class IndexedSlices:
    """Slices `values` of a tensor at positions `indices` along its first axis; slices at equal positions are added.

    >>> import gradtape as tf
    >>> rows = tf.IndexedSlices(tf.constant([[1.0], [2.0]]), tf.constant([2, 0]), tf.constant([3, 1]))
    >>> tf.convert_to_tensor(rows).numpy().ravel().tolist()
    [2.0, 0.0, 1.0]
    """

    __slots__ = ("__dict__", "__weakref__", "_dense_shape", "_indices", "_values")
    __array_priority__ = 200

    def __init__(self, values: Any, indices: Any, dense_shape: Any = None) -> None:
        self._values, self._indices, self._dense_shape = values, indices, dense_shape

    @property
    def values(self) -> Any:
        return self._values

    @property
    def indices(self) -> Any:
        return self._indices

    @property
    def dense_shape(self) -> Any:
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        if self._dense_shape is None:
            return TensorShape(None)
        sizes = convert(self._dense_shape)
        if len(sizes.array.shape) != 1 or not sizes.dtype.is_integer:
            raise ValueError(f"The dense_shape of IndexedSlices must be a vector of integers, got {sizes!r}")
        return TensorShape([int(n) for n in sizes.numpy()])

    @property
    def dtype(self) -> DType:
        dtype: DType = self._values.dtype
        return dtype

    @property
    def device(self) -> str:
        return str(self._values.device)

    def _facts(self) -> list[str]:
        """The number of slices, of all rows, and what a slice is."""
        values = convert(self._values)
        count, rows = values.shape[0], self.shape[0] if self._dense_shape is not None else None
        total = "" if rows is None else f" of {rows:,} rows"
        return [f"{count:,} slices{total}", f"slices of shape {tuple(values.shape[1:])}", values.dtype.name]

    def _repr_html_(self) -> str | None:
        values, indices = (convert(part).array for part in (self._values, self._indices))
        if not (type(values) is np.ndarray and type(indices) is np.ndarray):
            return None
        from gradtape._src.notebook import sparse_card

        return sparse_card("tf.IndexedSlices", indices, values, self._facts())

    def __neg__(self) -> IndexedSlices:
        return IndexedSlices(-self._values, self._indices, self._dense_shape)

    def __add__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, IndexedSlices) else convert(self) + other

    def __radd__(self, other: Any) -> Any:
        return NotImplemented if isinstance(other, IndexedSlices) else other + convert(self)

    def __str__(self) -> str:
        shape = "" if self._dense_shape is None else f", dense_shape={self._dense_shape!s}"
        return f"IndexedSlices(indices={self._indices!s}, values={self._values!s}{shape})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self._values, self._indices, self._dense_shape)

    @property
    def name(self) -> str:
        raise AttributeError("IndexedSlices.name is undefined when eager execution is enabled.")

    op = graph = name


def _unpickled(values: Any, indices: Any, dense_shape: Any) -> IndexedSlices:
    return IndexedSlices(values, indices, dense_shape)


nest.register_composite(
    IndexedSlices,
    lambda slices: [part for part in (slices.values, slices.indices, slices.dense_shape) if part is not None],
    lambda slices, parts: IndexedSlices(*parts),
)


def map_values(function: Any, slices: Any) -> Any:
    """Apply a function to a tensor, or to the values of slices, as TensorFlow's cast, identity and clips do."""
    if isinstance(slices, IndexedSlices):
        return IndexedSlices(function(slices.values), slices.indices, slices.dense_shape)
    return function(slices if isinstance(slices, Tensor) else convert(slices))
