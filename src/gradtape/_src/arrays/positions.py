"""Positions along axes, and masks made from them; sizes may be unknown while a function is traced."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src.arrays.dimensions import is_dimension, is_known_shape
from gradtape._src.arrays.symbolic import arange, call


def positions(count: Any, dtype: Any) -> Any:
    """The integers below a count: an array or, if the count is unknown, a value of the program."""
    return arange(0, count, 1, dtype) if is_dimension(count) else np.arange(count, dtype=dtype)


def compared_positions(rows: Any, columns: Any, relation: str) -> Any:
    """A boolean matrix: whether the index of the row has a relation to that of the column."""
    if is_known_shape((rows, columns)):
        mask: Any = getattr(np, relation)(np.arange(rows)[:, None], np.arange(columns))
        return mask
    upright = call("reshape", (positions(rows, np.int64),), {"shape": (rows, 1)})
    return call(relation, (upright, positions(columns, np.int64)), {})
