"""Positions along axes, and masks made of them, where sizes may be unknown while a function is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.arrays.dimensions import is_dimension, is_known_shape
from gradtape._src.arrays.symbolic import arange, call


def positions(count: Any, dtype: Any) -> Any:
    """The integers below a count: an array or, where the count is unknown, a part of the program."""
    return arange(0, count, 1, dtype) if is_dimension(count) else np.arange(count, dtype=dtype)


def compared_positions(rows: Any, columns: Any, relation: str) -> Any:
    """A matrix of booleans: whether the number of the row has a relation to that of the column."""
    if is_known_shape((rows, columns)):
        mask: Any = getattr(np, relation)(np.arange(rows)[:, None], np.arange(columns))
        return mask
    upright = call("reshape", (positions(rows, np.int64),), {"shape": (rows, 1)})
    return call(relation, (upright, positions(columns, np.int64)), {})
