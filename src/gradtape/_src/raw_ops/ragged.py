"""Raw ops of ragged tensors, which are flat values and row partitions in graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.ops.ragged import RaggedTensor
from gradtape._src.tf import indexing
from gradtape._src.tf.arguments import static

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gradtape._src.tensor import Tensor


def _bincount(splits: Any, values: Any, size: Any, weights: Any, binary_output: bool) -> Tensor:
    op = "RaggedBincount"
    if is_known(splits):
        ends, count = np.asarray(splits.array), values.shape.num_elements()
        if not len(ends):
            raise errors.invalid_argument("Splits must be non-empty", op)
        if ends[0] != 0:
            raise errors.invalid_argument(f"Splits must start with 0, not with {ends[0]}", op)
        if ends[-1] != count:
            raise errors.invalid_argument(
                f"Splits must end with the number of values, got {ends[-1]} instead of {count}", op
            )
    if is_known(size) and np.asarray(size.array) < 0:
        raise errors.invalid_argument(f"size ({np.asarray(size.array)}) must be non-negative", op)
    rows = RaggedTensor.from_row_splits(values, splits)
    given = weights if weights.shape.num_elements() and not binary_output else None
    return indexing.bincount(rows, given, size, size, weights.dtype, axis=-1, binary_output=binary_output)


def _partitioned(values: Any, tensors: Sequence[Any], kinds: Sequence[str]) -> Any:
    """The ragged tensor of flat values and the partitions of its dimensions, outermost first."""
    found = values
    for i in reversed(range(len(tensors))):
        if kinds[i] == "ROW_SPLITS":
            found = RaggedTensor.from_row_splits(found, tensors[i])
        elif kinds[i] == "VALUE_ROWIDS" and i:
            found = RaggedTensor.from_value_rowids(found, tensors[i], _size(tensors[i - 1], kinds[i - 1]))
        elif kinds[i] != "FIRST_DIM_SIZE" or i:
            raise errors.invalid_argument(
                f"row_partition_types are ROW_SPLITS for every dimension, or FIRST_DIM_SIZE and then VALUE_ROWIDS. "
                f"Received: {list(kinds)}",
                "RaggedTensorToTensor",
            )
    return found


def _size(tensor: Any, kind: str) -> Any:
    """The number of values that a partition divides into rows; for the first dimension, its size."""
    if kind == "FIRST_DIM_SIZE":
        return tensor
    return tensor[-1] if kind == "ROW_SPLITS" else tensor.shape.num_elements()


def _to_tensor(
    shape: Any, values: Any, default_value: Any, row_partition_tensors: list[Any], row_partition_types: list[Any]
) -> Tensor:
    kinds = [kind.decode() if isinstance(kind, bytes) else kind for kind in row_partition_types]
    if len(kinds) != len(row_partition_tensors):
        raise errors.invalid_argument(
            f"{len(kinds)} row_partition_types do not fit {len(row_partition_tensors)} row_partition_tensors",
            "RaggedTensorToTensor",
        )
    rows = _partitioned(values, row_partition_tensors, kinds)
    if not isinstance(rows, RaggedTensor):
        raise errors.invalid_argument("row_partition_types must have a partition of rows", "RaggedTensorToTensor")
    sizes = np.asarray(static(shape)).tolist()
    wanted = [None if size < 0 else size for size in sizes] if isinstance(sizes, list) else None
    return rows.to_tensor(default_value, shape=wanted)


OPS: dict[str, Callable[..., Any]] = {"RaggedBincount": _bincount, "RaggedTensorToTensor": _to_tensor}
