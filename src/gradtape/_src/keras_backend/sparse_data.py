"""Sparse data for `fit`, `evaluate` and `predict`: what other packages call sparse, and batches of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from keras.src import tree
from keras.src.trainers.data_adapters import data_adapter_utils
from keras.src.trainers.data_adapters.py_dataset_adapter import PyDataset

from gradtape._src.keras_backend.core import shape
from gradtape._src.keras_backend.sparse import elements_of, take_rows
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor


def is_sparse_data(x: Any) -> bool:
    if x is None or isinstance(x, (np.ndarray, Tensor)):
        return False
    return isinstance(x, SparseTensor) or data_adapter_utils.is_scipy_sparse(x) or data_adapter_utils.is_jax_sparse(x)


def has_sparse_data(structure: Any) -> bool:
    return any(is_sparse_data(leaf) for leaf in tree.flatten(structure))


def as_sparse_tensor(x: Any) -> SparseTensor:
    """SciPy's and JAX's sparse arrays as a `tf.SparseTensor`."""
    if isinstance(x, SparseTensor):
        return x
    if data_adapter_utils.is_scipy_sparse(x):
        found = x.tocoo()
        where, values = np.column_stack([found.row, found.col]), found.data
    else:  # filled up to its capacity with coordinates that lie outside
        where, values = np.asarray(x.indices), np.asarray(x.data)
        inside = (where < x.shape).all(axis=1)
        where, values = where[inside], values[inside]
    return elements_of(where.astype(np.int64), values, tuple(x.shape))


class SparseBatches(PyDataset):
    """Data of which some are sparse, in batches of rows, in an order that each epoch may draw anew."""

    def __init__(self, data: tuple[Any, ...], batch_size: int, shuffle: bool) -> None:
        super().__init__()
        self._data = tree.map_structure(lambda x: as_sparse_tensor(x) if is_sparse_data(x) else x, data)
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
        return tree.map_structure(
            lambda x: take_rows(x, rows) if isinstance(x, SparseTensor) else np.asarray(x)[rows], self._data
        )

    def on_epoch_begin(self) -> None:
        if self._shuffle:
            np.random.shuffle(self._order)
