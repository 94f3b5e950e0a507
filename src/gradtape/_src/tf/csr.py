"""Products of sparse matrices, under the name of TensorFlow's private module for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.conversion import convert
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.tensor import Tensor
from gradtape._src.tf import linalg
from gradtape._src.tf.array import gather, transpose
from gradtape._src.tf.segments import unsorted_segment_sum
from gradtape._src.tf.sparse_dense import to_dense
from gradtape._src.tf.sparse_math import sparse_dense_matmul
from gradtape._src.tf.sparse_shaping import reorder

__all__ = ["CSRSparseMatrix", "matmul"]


class CSRSparseMatrix:
    """A sparse matrix, or a batch of them, made of a dense or a sparse tensor.

    >>> import gradtape as tf
    >>> a = CSRSparseMatrix(tf.constant([[0.0, 2.0], [1.0, 0.0]]))
    >>> matmul(a, a).to_dense().numpy().tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """

    def __init__(self, value: Any, indices: Any = None, name: str | None = None) -> None:
        from gradtape._src.tf.sparse_dense import from_dense

        self._value = reorder(value) if isinstance(value, SparseTensor) else from_dense(convert(value))

    @property
    def shape(self) -> Any:
        return self._value.shape

    @property
    def dtype(self) -> Any:
        return self._value.dtype

    def to_dense(self) -> Tensor:
        """The same matrix as a tensor."""
        found: Tensor = to_dense(self._value)
        return found

    def to_sparse_tensor(self) -> SparseTensor:
        """The same matrix in coordinate format."""
        return self._value

    def nnz(self) -> int:
        """The number of elements."""
        return len(self._value.values)


def matmul(a: Any, b: Any, **options: Any) -> Any:
    """The product of two matrices, one of which is sparse: sparse if both are. Differentiable by the values."""
    if isinstance(a, CSRSparseMatrix) and isinstance(b, CSRSparseMatrix):
        return CSRSparseMatrix(_product(a.to_sparse_tensor(), b.to_sparse_tensor()))
    if isinstance(a, CSRSparseMatrix):
        if len(a.shape) == 2:
            return sparse_dense_matmul(a.to_sparse_tensor(), b)
        return linalg.matmul(a.to_dense(), b)
    if len(b.shape) == 2:
        return transpose(sparse_dense_matmul(b.to_sparse_tensor(), transpose(convert(a)), adjoint_a=True))
    return linalg.matmul(a, b.to_dense())


def _product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Multiply every element of `a` by the row of `b` that its column selects, and sum results at equal positions."""
    ia, ib = a.indices.numpy(), b.indices.numpy()
    batch = ia.shape[1] - 2
    shape = [*[int(n) for n in a.dense_shape.numpy()[:-1]], int(b.dense_shape.numpy()[-1])]
    rows_of_b = np.ravel_multi_index(ib[:, :-1].T, b.dense_shape.numpy()[:-1])  # sorted, as `b` is
    wanted = np.ravel_multi_index(
        [*ia[:, :batch].T, ia[:, -1]], [*a.dense_shape.numpy()[:batch], int(b.dense_shape.numpy()[-2])]
    )
    first, last = np.searchsorted(rows_of_b, wanted, "left"), np.searchsorted(rows_of_b, wanted, "right")
    counts = last - first
    left = np.repeat(np.arange(len(ia)), counts)
    right = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
    places = np.ravel_multi_index([*ia[left, :-1].T, ib[right, -1]], shape) if len(left) else np.zeros(0, np.int64)
    found, inverse = np.unique(places, return_inverse=True)
    products = gather(a.values, left) * gather(b.values, right)
    values = unsorted_segment_sum(products, inverse, len(found))
    return SparseTensor(np.stack(np.unravel_index(found, shape), axis=1).astype(np.int64), values, shape)
