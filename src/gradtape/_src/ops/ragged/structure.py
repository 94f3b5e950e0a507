"""Ragged tensors as arguments of ops and as structures: flattened into tensors and rebuilt."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.conversion import convert, defers_to, register_converter, wrap
from gradtape._src.core.composites import NotDenseError, register_gradient, register_structure
from gradtape._src.ops.ragged import partition as partitions
from gradtape._src.ops.ragged.partition import RowPartition, SymbolicPartition
from gradtape._src.ops.ragged.tensor import RaggedTensor, count_of, from_partitions
from gradtape._src.tensor import Tensor


def _refuse(value: RaggedTensor) -> NoReturn:
    raise NotDenseError(
        value, "a ragged tensor is not converted to a tensor automatically. Use to_tensor() to pad its rows."
    )


def _rebuilt(like: Any, parts: list[Any]) -> Any:
    """Rebuild a ragged tensor from its flat values and row splits, which may also be placeholders for tensors."""
    flat, *splits = parts
    if not isinstance(flat, Tensor) or not all(isinstance(one, Tensor) for one in splits):
        return RaggedParts(flat, splits)
    found = like._partitions if isinstance(like, RaggedTensor) else [None] * len(splits)
    return from_partitions(flat, [_partition_like(*pair) for pair in zip(found, splits, strict=True)])


def _partition_like(old: RowPartition | None, splits: Tensor) -> RowPartition:
    """Return the partition of row splits; reuse an existing one that has the same splits, with what it has cached."""
    if old is not None and splits is old.row_splits:
        return old
    if not is_known(splits):
        return SymbolicPartition(splits, None if old is None else old.uniform)
    new = RowPartition(partitions.known(splits))
    same = old is not None and old.uniform is not None and bool((new.lengths == old.uniform).all())
    return RowPartition(new.splits, old.uniform) if old is not None and same else new


class RaggedParts:
    """Placeholder for a ragged tensor whose parts are not tensors, such as specifications."""

    def __init__(self, flat_values: Any, nested_row_splits: list[Any]) -> None:
        self.flat_values, self.nested_row_splits = flat_values, nested_row_splits

    def __repr__(self) -> str:
        return f"RaggedTensor(flat_values={self.flat_values!r}, nested_row_splits={self.nested_row_splits!r})"


register_converter(RaggedTensor, _refuse)
defers_to.add(RaggedTensor)


def _sizes(r: RaggedTensor) -> nest.Sizes:
    """Calls of one trace have the same number of rows, of any lengths."""
    inner = [(0,)] * (r.ragged_rank - 1)
    return nest.Sizes(((0,), (), *inner), tuple([partition.uniform for partition in r._partitions]))


nest.register_composite(RaggedTensor, lambda r: (r.flat_values, *r.nested_row_splits), _rebuilt, _sizes)
nest.register_composite(RaggedParts, lambda p: (p.flat_values, *p.nested_row_splits), _rebuilt)


def _example(parts: list[Any], places: list[int]) -> list[Any]:
    """Return valid row splits: all values in the last row."""
    flat, *nested = parts
    if 0 in places and len(nested) not in places:  # as many values as the known rows have
        flat = wrap(np.resize(flat.array, (int(nested[-1].array[-1]), *flat.array.shape[1:])))
    fitting = [flat]
    for i, splits in enumerate(nested):
        size = count_of(nested[i + 1]) - 1 if i + 1 < len(nested) else count_of(flat)
        numbers = np.zeros(splits.array.shape, splits.array.dtype)
        numbers[-1:] = size
        fitting.append(wrap(numbers) if i + 1 in places else splits)
    return fitting


register_structure(RaggedTensor, lambda r: r.nested_row_splits, _example)
register_gradient(RaggedTensor, lambda r: r.flat_values, lambda r, g: r._with_flat(convert(g)))
