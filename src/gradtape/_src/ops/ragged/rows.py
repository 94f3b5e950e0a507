"""The rows of a ragged tensor, and a ragged tensor of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src.ops import array
from gradtape._src.ops.ragged.partition import of_lengths
from gradtape._src.ops.ragged.tensor import RaggedTensor, count_of, from_partitions
from gradtape._src.tensor import Tensor, uids


class RaggedRow(Tensor):
    """A row of a ragged tensor: a tensor, except that rows of different lengths can be batched."""

    __slots__ = ()


def rows_of_ragged(x: RaggedTensor) -> list[Any]:
    """Return the rows of a ragged tensor, as RaggedRows where they are tensors."""
    return [_marked(row) if isinstance(row, Tensor) else row for row in x]


def _marked(row: Tensor) -> RaggedRow:
    marked = RaggedRow()
    marked.array, marked.uid = row.array, next(uids)
    return marked


def stacked(rows: Sequence[Any], ragged_rank: int = 1, row_splits_dtype: Any = np.int64) -> RaggedTensor:
    """Stack (ragged) tensors of equal rank along a new first axis, with a given number of ragged dimensions."""
    depth = max(ragged_rank, *[row.ragged_rank + 1 if isinstance(row, RaggedTensor) else 1 for row in rows])
    values = _joined(rows, depth - 1, row_splits_dtype)
    counts = np.array([count_of(row) for row in rows], row_splits_dtype)
    result: RaggedTensor = from_partitions(values, [of_lengths(counts)])
    return result


def _joined(rows: Sequence[Any], depth: int, dtype: Any) -> Any:
    """Concatenate tensors with `depth` ragged dimensions each."""
    if not depth:
        return rows[0] if len(rows) == 1 else array.concatenate(*rows, axis=0)
    ragged = [
        row
        if isinstance(row, RaggedTensor)
        else RaggedTensor.from_tensor(row, ragged_rank=depth, row_splits_dtype=dtype)
        for row in rows
    ]
    lengths = np.concatenate([row._partition.lengths for row in ragged]).astype(dtype)
    return from_partitions(_joined([row._values for row in ragged], depth - 1, dtype), [of_lengths(lengths)])
