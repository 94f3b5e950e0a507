"""Results of sessions: arrays, and tuples of arrays for composite tensors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import nest
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf.v1.graphs.tensors import Operation

__all__ = ["IndexedSlicesValue", "SparseTensorValue"]


class SparseTensorValue(NamedTuple):
    """The arrays of a sparse tensor: what a session returns, and what is fed for one."""

    indices: Any
    values: Any
    dense_shape: Any


class IndexedSlicesValue(NamedTuple):
    """The arrays of `IndexedSlices`: what a session returns."""

    values: Any
    indices: Any
    dense_shape: Any


def as_value(fetch: Any, results: Iterator[Tensor]) -> Any:
    """The value that is returned for a fetch, from as many results as it has tensors."""
    if isinstance(fetch, Operation):
        return None
    if isinstance(fetch, IndexedSlices):
        values, indices = next(results).numpy(), next(results).numpy()
        return IndexedSlicesValue(values, indices, None if fetch.dense_shape is None else next(results).numpy())
    if isinstance(fetch, SparseTensor):
        return SparseTensorValue(*[next(results).numpy() for _ in range(3)])
    if hasattr(fetch, "row_splits"):
        leaves = [next(results) for _ in nest.flatten(fetch, expand_composites=True)]
        return nest.pack_sequence_as(fetch, leaves, expand_composites=True)
    value = next(results).numpy()
    return value.item() if isinstance(value, np.ndarray) and value.dtype.kind == "O" and not value.ndim else value
