"""Conversion between ragged and dense tensors: the positions of elements of rows in a dense tensor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.conversion import convert, operand, wrap
from gradtape._src.ops import array, index
from gradtape._src.ops.ragged import partition as partitions
from gradtape._src.ops.ragged.partition import RowPartition
from gradtape._src.shape import as_shape
from gradtape._src.tensor import Tensor

Divided = tuple[Tensor, list[RowPartition]]
"""Flat values and the partitions of their rows, the outermost first."""


def take(values: Tensor, where: ndarray) -> Tensor:
    """Return rows of a tensor by index."""
    rows: Tensor = index.take(values, wrap(np.ascontiguousarray(where)), axis=0, batch_dims=0)
    return rows


def divided(x: Tensor, lengths: Any, padding: Any, ragged_rank: int, dtype: np.dtype[Any]) -> Divided:
    """Divide a tensor into rows of given lengths, or without their padding."""
    sizes = tuple(x.array.shape)
    if len(sizes) < 2:
        raise ValueError(
            "The rank of a RaggedTensor must be greater than 1, i.e., a list of scalars won't have ragged dimensions. "
            f"Received argument `tensor` with rank {len(sizes)}."
        )
    if len(sizes) < ragged_rank + 1:
        raise ValueError(f"Shape {x.shape} must have rank at least {ragged_rank + 1}")
    outer = ragged_rank - 1  # dimensions that stay uniform; the rows are those of the last one
    rows = int(np.prod(sizes[:ragged_rank]))
    flat = array.reshape(x, shape=(rows * sizes[ragged_rank], *sizes[ragged_rank + 1 :]))
    if padding is not None:
        lengths = _unpadded_lengths(x, padding, ragged_rank)
    if lengths is None:
        partition = partitions.uniform_rows(sizes[ragged_rank], rows, dtype)
    else:
        partition, kept = _first_elements(lengths, rows, sizes[ragged_rank], dtype)
        flat = take(flat, kept)
    uniform = [partitions.uniform_rows(sizes[i + 1], int(np.prod(sizes[: i + 1])), dtype) for i in range(outer)]
    return flat, [*uniform, partition]


def _first_elements(lengths: Any, rows: int, size: int, dtype: np.dtype[Any]) -> tuple[RowPartition, ndarray]:
    """Return the partition of the first elements of rows of equal size, and the positions of these elements."""
    counts = lengths if isinstance(lengths, ndarray) else partitions.numbers(lengths, "lengths")
    if counts.shape != (rows,):
        raise ValueError(f"Shapes {(rows, size)} and {(len(counts), size)} are incompatible: each row needs a length.")
    partition = partitions.of_lengths(np.clip(counts, 0, size).astype(dtype))
    return partition, partition.rowids * size + partition.offsets


def _unpadded_lengths(x: Tensor, padding: Any, ragged_rank: int) -> ndarray:
    """Return the length of each row up to its last element that is not padding."""
    value = convert(padding, x.dtype)
    inner = tuple(x.array.shape[ragged_rank + 1 :])
    if tuple(value.array.shape) != inner:
        raise ValueError(
            f"Shapes {value.shape} and {inner} are incompatible: padding must have the shape of an element."
        )
    differs = partitions.known(x) != partitions.known(value)
    differs = differs.reshape(-1, x.array.shape[ragged_rank], int(np.prod(inner))).any(axis=2)
    if not differs.size:
        return np.zeros(len(differs), np.int64)
    last = differs.shape[1] - np.argmax(differs[:, ::-1], axis=1)
    return np.where(differs.any(axis=1), last, 0)


def divided_by_nested_lengths(x: Tensor, lengths: Sequence[Any], dtype: np.dtype[Any]) -> Divided:
    """Divide a tensor into nested rows, given the lengths at each level."""
    found = []
    for i, one in enumerate(lengths):
        sizes = tuple(x.array.shape)
        if len(sizes) < 2:
            raise ValueError(f"Shape {x.shape} must have rank at least {len(lengths) + 1 - i}")
        partition, kept = _first_elements(one, sizes[0], sizes[1], dtype)
        x = take(array.reshape(x, shape=(sizes[0] * sizes[1], *sizes[2:])), kept)
        found.append(partition)
    return x, found


def dense_shape(need: tuple[int, ...], shape: Any) -> tuple[int, ...]:
    """Return the shape of the dense tensor; None becomes the size that the rows need."""
    if shape is None:
        return need
    given = as_shape(partitions.known(shape).tolist() if isinstance(shape, Tensor) else shape)
    if given.rank is None:
        return need
    if given.rank != len(need):
        word = errors.brackets(tuple("?" if n is None else n for n in given))
        raise errors.refused_value(
            f"rt_input.shape and shape={word} are incompatible: rt_input.rank = {len(need)} but shape.rank = "
            f"{given.rank}",
            "RaggedTensorToTensor",
        )
    return tuple([n if size is None or size < 0 else size for n, size in zip(need, given, strict=True)])


def default_of(flat: Tensor, default_value: Any) -> Tensor:
    """Return the padding value."""
    if default_value is None:
        return operand(np.array(b"" if flat.dtype.name == "string" else 0, flat.array.dtype))
    default = convert(default_value, None if isinstance(default_value, Tensor) else flat.dtype)
    if default.dtype != flat.dtype:
        raise ValueError(
            f"Tensor conversion requested dtype {flat.dtype.name} for Tensor with dtype {default.dtype.name}: "
            "default_value must have the dtype of the values."
        )
    have = tuple(default.array.shape)
    if len(have) >= len(flat.array.shape):
        raise errors.refused_value(
            f"default_value.shape={errors.brackets(have)} and rt_input.flat_values.shape="
            f"{errors.brackets(flat.array.shape)} are incompatible: default_value.rank = {len(have)}  must be less "
            f"than rt_input.flat_values.rank = {len(flat.array.shape)}",
            "RaggedTensorToTensor",
        )
    return default


def dense_positions(found: Sequence[RowPartition], sizes: tuple[int, ...]) -> tuple[ndarray, ndarray | None]:
    """Return the positions of the flat values in a dense tensor, and which of them fit into it (None: all)."""
    where = np.arange(found[0].count)
    fits, cut = where < sizes[0], sizes[0] < found[0].count
    for partition, size in zip(found, sizes[1:], strict=True):
        cut = cut or size < partition.longest
        first = where * size - partition.starts
        where = np.repeat(first, partition.lengths) + np.arange(partition.size)
        if cut:
            before = fits if len(fits) == partition.count else np.ones(partition.count, bool)
            fits = np.repeat(before, partition.lengths) & (partition.offsets < size)
    return where, np.flatnonzero(fits) if cut else None
