"""Recognise layer and RMS normalization that is written as separate ops.

(x - mean) / sqrt(variance + epsilon) and its derivative read x a dozen times, the primitive `standardize` reads it
twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.lazy import Lazy
from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.core.primitive import Op
from gradtape._src.graph.rewrites import sources
from gradtape._src.graph.rewrites.sources import Path, Value
from gradtape._src.ops import nn
from gradtape._src.tensor import Tensor

_FLOAT32 = np.dtype(np.float32)
_ROOTS = frozenset({"rsqrt", "sqrt"})


def instead(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> Tensor | None:
    """Normalized rows instead of a division by the standard deviation, if the formula matches."""
    x, y = inputs
    if op.name == "multiply" and _is_column(x.array, y.array):
        x, y = y, x
    if not _is_column(y.array, x.array) or not sources.is_worthwhile(x.array):
        return None
    if not sources.is_result_of(y.array, _ROOTS):
        return None
    path = Path()
    root = path.call(y, "rsqrt" if op.name == "multiply" else "sqrt")
    shifted = None if root is None else path.call(root.args[0], "add")
    if shifted is None:
        return None
    for square, number in (shifted.args, shifted.args[::-1]):
        epsilon = path.number(number)
        if epsilon is not None and (found := _rows(path, Value(x.array, x.uid), square)) is not None:
            rows, centered = found
            if not path.leads_back_to(rows):
                return None
            out: Tensor = nn.standardize(rows.tensor(), epsilon=epsilon, **({} if centered else {"centered": False}))[0]
            path.replaced(op, inputs, attrs, [out])
            return out
    return None


def _is_column(y: Any, x: Any) -> bool:
    """Whether y has one number for each row of x."""
    return (
        (type(y) is Lazy or type(y) is Symbolic)
        and y.dtype == _FLOAT32
        and len(y.shape) == len(x.shape) > 0
        and type(y.shape[-1]) is int
        and y.shape[-1] == 1 != x.shape[-1]
        and y.shape[:-1] == x.shape[:-1]
    )


def _rows(path: Path, x: Value, square: Value) -> tuple[Value, bool] | None:
    """The rows that x and the mean of squares (or the variance) come from, and whether the mean was subtracted."""
    call = path.call(square, "mean", "variance")
    if call is None or not _is_by_row(call.attrs, x):
        return None
    source = _centered(path, x)
    if call.name == "variance":
        return (source, True) if source is not None and call.args[0].array is source.array else None
    inner = path.call(call.args[0], "multiply", "square", "squared_difference")
    if inner is None:
        return None
    if inner.name == "squared_difference":
        mean = path.call(inner.args[1], "mean")
        if source is None or mean is None or inner.args[0].array is not source.array:
            return None
        return (source, True) if mean.args[0].array is source.array and _is_by_row(mean.attrs, source) else None
    is_square = inner.name == "square" or (inner.name == "multiply" and inner.args[0].array is inner.args[1].array)
    if not is_square:
        return None
    if inner.args[0].array is x.array:
        return (x, False) if source is None else (source, True)
    other = _centered(path, inner.args[0])  # the same difference, computed twice
    return (source, True) if source is not None and other is not None and other.array is source.array else None


def _centered(path: Path, x: Value) -> Value | None:
    """The value whose row means were subtracted to get x; None if x is something else."""
    call = path.call(x, "subtract")
    if call is None or call.args[0].shape != x.shape:
        return None
    rows, mean = call.args
    found = sources.call_of(mean.array, ("mean",))
    if found is None or found[1][0] is not rows.array or not _is_by_row(found[2], rows) or path.call(mean) is None:
        return None
    return rows


def _is_by_row(attrs: dict[str, Any], x: Value) -> bool:
    """Whether a reduction is over the last axis, with keepdims."""
    return attrs.get("axis") == (len(x.shape) - 1,) and bool(attrs.get("keepdims"))
