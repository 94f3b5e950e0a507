"""Sparse, ragged and string data for `fit`, `evaluate` and `predict`, and batches of their rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import tree
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDataset

from gradtape._src.conversion import convert, wrap
from gradtape._src.dtypes import string
from gradtape._src.keras_backend.core import shape
from gradtape._src.keras_backend.sparse import elements_of, take_rows
from gradtape._src.ops.ragged import RaggedTensor
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import gather


def is_sparse_data(x: Any) -> bool:
    if x is None or isinstance(x, (np.ndarray, Tensor)):
        return False
    return isinstance(x, SparseTensor) or data_adapter_utils.is_scipy_sparse(x) or data_adapter_utils.is_jax_sparse(x)


def is_text(x: Any) -> bool:
    """Whether data are strings: a string tensor, or an array of Python strings."""
    array = x.array if isinstance(x, Tensor) else x
    return isinstance(array, np.ndarray) and array.dtype.kind in "OUS"


def is_for_host(structure: Any) -> bool:
    """Whether steps on these data run eagerly: sparse, ragged, or string data."""
    return any(
        is_sparse_data(leaf) or is_text(leaf) or isinstance(leaf, RaggedTensor) for leaf in tree.flatten(structure)
    )


def as_sparse_tensor(x: Any) -> SparseTensor:
    """Convert sparse arrays of SciPy and JAX to a `tf.SparseTensor`."""
    if isinstance(x, SparseTensor):
        return x
    if data_adapter_utils.is_scipy_sparse(x):
        found = x.tocoo()
        where, values = np.column_stack([found.row, found.col]), found.data
    else:  # padded to its capacity with coordinates out of range
        where, values = np.asarray(x.indices), np.asarray(x.data)
        inside = (where < x.shape).all(axis=1)
        where, values = where[inside], values[inside]
    return elements_of(where.astype(np.int64), values, tuple(x.shape))


def _as_data(x: Any) -> Any:
    if is_text(x):
        return convert(x, string)
    return as_sparse_tensor(x) if is_sparse_data(x) else x


def _rows(x: Any, rows: np.ndarray) -> Any:
    if isinstance(x, SparseTensor):
        return take_rows(x, rows)
    if isinstance(x, RaggedTensor):
        ragged: Any = x  # type checkers expect a dense tensor here
        return gather(ragged, rows)
    return wrap(x.array[rows]) if is_text(x) else np.asarray(x)[rows]


class SparseBatches(PyDataset):
    """Batches of data of which some are sparse, ragged or strings; each epoch may shuffle them."""

    def __init__(self, data: tuple[Any, ...], batch_size: int, shuffle: bool) -> None:
        super().__init__()
        self._data = tree.map_structure(_as_data, data)
        counts = {shape(x)[0] for x in tree.flatten(self._data)}
        if len(counts) > 1:
            raise ValueError(f"Data cardinality is ambiguous. Received: arrays of {sorted(counts)} rows.")
        self._count, self._batch_size, self._shuffle = counts.pop(), batch_size, shuffle
        self._order = np.arange(self._count)

    @property
    def num_batches(self) -> int:
        return -(-self._count // self._batch_size)

    def __getitem__(self, number: int) -> Any:
        rows = self._order[number * self._batch_size : (number + 1) * self._batch_size]
        return tree.map_structure(lambda x: _rows(x, rows), self._data)

    def on_epoch_begin(self) -> None:
        if self._shuffle:
            np.random.shuffle(self._order)
