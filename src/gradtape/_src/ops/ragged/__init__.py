"""Ragged tensors: the class, its row partitions, indexing and operators."""

from __future__ import annotations

from gradtape._src.ops.ragged.operators import (
    elementwise as elementwise,
    register as register,
)
from gradtape._src.ops.ragged.partition import RowPartition as RowPartition
from gradtape._src.ops.ragged.structure import RaggedParts as RaggedParts
from gradtape._src.ops.ragged.tensor import (
    RaggedTensor as RaggedTensor,
    RaggedTensorSpec as RaggedTensorSpec,
    count_of as count_of,
    from_partitions as from_partitions,
    take_ranges as take_ranges,
    take_rows as take_rows,
)
