"""Batching in its shortest form: the reference that batches (`arrays/batched.py`) are tested against.

`vmap` runs a function for each row of its batched arguments and stacks the results. `Batched` instead computes all rows
with one call of each kernel. A Jacobian is the backward pass mapped over the unit cotangents of its target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.core.vjp import Cotangents, Shapes, backward_pass


def vmap(function: Callable[..., Any], arrays: Sequence[Any], batched: Sequence[bool]) -> Any:
    """Map a function over rows: `batched` says which arguments have rows along their first axis."""
    size = next(len(array) for array, is_batched in zip(arrays, batched, strict=True) if is_batched)
    results = [
        function(*[array[row] if is_batched else array for array, is_batched in zip(arrays, batched, strict=True)])
        for row in range(size)
    ]
    if isinstance(results[0], tuple):
        return tuple(np.stack(parts) for parts in zip(*results, strict=True))
    return np.stack(results)


def jacobian(records: Sequence[Any], shapes: Shapes, target: Any, sources: Sequence[int]) -> Cotangents:
    """The derivatives of every component of a tensor by the sources: uid -> array with shape [*target, *source]."""

    def row(unit: Any) -> tuple[Any, ...]:
        found = backward_pass(records, shapes, {target.uid: unit}, kept=frozenset(sources), traced=False)
        return tuple([found.get(uid, np.zeros(shapes[uid], unit.dtype)) for uid in sources])

    shape, size = target.array.shape, target.array.size
    units = np.eye(size, dtype=target.array.dtype).reshape((size, *shape))
    rows = vmap(row, [units], [True])
    return {uid: part.reshape((*shape, *shapes[uid])) for uid, part in zip(sources, rows, strict=True)}
