"""Feature crosses: all combinations of the elements in corresponding rows of several tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, wrap
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.ops.ragged import RaggedTensor, from_partitions
from gradtape._src.ops.ragged.partition import RowPartition, known, of_lengths, uniform_rows
from gradtape._src.ops.sparse_tensor import SparseTensor
from gradtape._src.text.hashing import fingerprint64
from gradtape._src.tf.sparse_shaping import coordinates, make_sparse, sizes_of

DEFAULT_KEY = 0xDECAFCAFFE
_MULTIPLIER = np.uint64(0xC6A4A7935BD1E995)


class _Column(NamedTuple):
    """One of the tensors: its rows, and the elements of all rows."""

    rows: RowPartition
    values: ndarray


def ragged_cross(inputs: Any, separator: bytes = b"_X_") -> RaggedTensor:
    """The joined strings of all combinations of the elements in a row."""
    columns = _columns(inputs, "tf.ragged.cross")
    partition, places = _combinations(columns)
    parts = [_texts(column.values[place]) for column, place in zip(columns, places, strict=True)]
    joined = np.empty(partition.size, object)
    joined[:] = [separator.join(words) for words in zip(*parts, strict=True)] if parts else []
    result: RaggedTensor = from_partitions(wrap(joined), [partition])
    return result


def ragged_cross_hashed(inputs: Any, num_buckets: Any, hash_key: Any) -> RaggedTensor:
    """The hashes of all combinations of the elements in a row."""
    columns = _columns(inputs, "tf.ragged.cross")
    partition, places = _combinations(columns)
    total = np.full(partition.size, DEFAULT_KEY if hash_key is None else int(hash_key), np.uint64)
    for column, place in zip(columns, places, strict=True):
        total = _hash_of_two(total, _fingerprints(column.values)[place])
    buckets = int(num_buckets) or 2**63 - 1
    hashes = (total % np.uint64(buckets)).astype(np.int64)
    result: RaggedTensor = from_partitions(wrap(hashes), [partition])
    return result


def as_sparse(x: RaggedTensor) -> SparseTensor:
    """The combinations as a sparse matrix."""
    partition = x._partition
    where = np.stack([partition.rowids, partition.offsets], axis=1)
    return make_sparse(where, x.flat_values, [partition.count, partition.longest])


def _columns(inputs: Any, function: str) -> list[_Column]:
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"Inputs must be a list. Received {inputs!r}.")
    columns = [_column(one, i, function) for i, one in enumerate(inputs)]
    for i, column in enumerate(columns[1:], 1):
        if column.rows.count != columns[0].rows.count:
            raise errors.invalid_argument(
                f"inputs must all have the same batch dimension size: Expected batch size {columns[0].rows.count} got "
                f"{column.rows.count} at inputs[{i}]",
                "RaggedCross",
            )
    return columns


def _column(x: Any, number: int, function: str) -> _Column:
    if isinstance(x, SparseTensor):
        rows, values = coordinates(x)[:, 0], known(x.values)
        partition = of_lengths(np.bincount(rows, minlength=int(sizes_of(x)[0])).astype(np.int64))
        rank = len(sizes_of(x))
    elif isinstance(x, RaggedTensor):
        partition, values, rank = x._partition, known(x.flat_values), len(x.shape)
    else:
        dense = known(convert(x))
        rank = dense.ndim
        if rank == 2:
            partition, values = uniform_rows(dense.shape[1], dense.shape[0]), dense.reshape(-1)
    if rank != 2:
        raise ValueError(f"{function} only supports inputs with rank=2. Received rank {rank} in inputs[{number}].")
    if values.dtype.kind not in "iuO":
        raise ValueError(f"Unexpected dtype for inputs[{number}]: {values.dtype}. Expected integers or strings.")
    return _Column(partition, values)


def _combinations(columns: Sequence[_Column]) -> tuple[RowPartition, list[ndarray]]:
    """The rows of the result, and the index of each combination's element in every column; the last varies fastest."""
    if not columns:
        return of_lengths(np.zeros(0, np.int64)), []
    lengths = np.prod([column.rows.lengths for column in columns], axis=0).astype(np.int64)
    partition = of_lengths(lengths)
    rows, left, places = partition.rowids, partition.offsets, []
    for column in reversed(columns):
        each = np.maximum(column.rows.lengths[rows], 1)
        places.append(column.rows.starts[rows] + left % each)
        left = left // each
    return partition, places[::-1]


def _texts(values: ndarray) -> list[bytes]:
    return values.tolist() if values.dtype.kind == "O" else [b"%d" % number for number in values.tolist()]


def _fingerprints(values: ndarray) -> ndarray:
    """Integers unchanged, and the fingerprints of strings."""
    return fingerprint64(values.tolist()) if values.dtype.kind == "O" else values.astype(np.int64).view(np.uint64)


def _hash_of_two(a: ndarray, b: ndarray) -> ndarray:
    """TensorFlow's hash of two fingerprints."""
    with float_errors_ignored():
        result = a ^ _MULTIPLIER
        result ^= _mixed(b * _MULTIPLIER) * _MULTIPLIER
        result *= _MULTIPLIER
        return _mixed(_mixed(result) * _MULTIPLIER)


def _mixed(x: ndarray) -> ndarray:
    return x ^ (x >> np.uint64(47))
