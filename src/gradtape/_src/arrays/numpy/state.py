"""Update parts of a variable's value: functions from the old value to the new one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.half import in_float32

Array = Any

_CHANGES: dict[str, Any] = {
    "add": np.add.at,
    "subtract": np.subtract.at,
    "multiply": np.multiply.at,
    "divide": np.divide.at,
    "maximum": np.maximum.at,
    "minimum": np.minimum.at,
    "set": np.ndarray.__setitem__,
}


@in_float32
def update_at(x: Array, indices: Array, updates: Array, *, how: str, batch_dims: int = 0) -> Array:
    """Update x with `updates` at `indices`, whose last axis has coordinates; repeated indices are applied in turn."""
    result = np.array(x)
    lead = np.ix_(*(np.arange(n) for n in indices.shape[:batch_dims]))
    extra = indices.ndim - 1 - batch_dims
    grids = tuple(g.reshape(g.shape + (1,) * extra) for g in lead)
    _CHANGES[how](result, (*grids, *np.moveaxis(indices, -1, 0)), updates)
    return result


def set_slice(x: Array, part: Array, *positions: Array, index: tuple[Any, ...]) -> Array:
    """x with a new value at a basic index, in which an Ellipsis stands for each of the positions."""
    result = np.array(x)
    result[filled_index(index, positions)] = part
    return result


def filled_index(index: tuple[Any, ...], positions: Sequence[Array]) -> tuple[Any, ...]:
    """The index with the positions filled in."""
    remaining = iter(positions)
    return tuple([next(remaining) if part is Ellipsis else part for part in index])
