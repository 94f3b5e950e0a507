"""Functions that matrix functions share: checks of arguments, and small products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src import errors
from gradtape._src.conversion import constant_operand, operands
from gradtape._src.ops import array, math
from gradtape._src.tensor import Tensor

_FLOAT32 = np.dtype(np.float32)


def checked_matrix(x: Tensor, op: str, *, square: bool = True) -> Tensor:
    """A stack of floating-point or complex matrices; raises TensorFlow's error for others."""
    shape = x.array.shape
    if not (x.dtype.is_floating or x.dtype.is_complex):
        raise errors.unsupported_dtype(op, x.dtype, "fc")
    if len(shape) < 2:
        raise errors.invalid_argument(
            f"Input tensor 0 must have rank >= 2, got {len(shape)}. Received shape {errors.brackets(shape)}.", op
        )
    if square and shape[-1] != shape[-2]:
        raise errors.invalid_argument(f"Input matrix must be square. Received shape {errors.brackets(shape)}.", op)
    return x


def via_float32(function: Callable[..., Any], *given: Tensor, **attrs: Any) -> Any:
    """Run a primitive; in float32 for float16 and bfloat16, for which there are no factorisations."""
    narrow = given[0].array.dtype
    if narrow.itemsize > 2:
        return function(*given, **attrs)
    result = function(*(array.astype(x, dtype=_FLOAT32, source=narrow) for x in given), **attrs)

    def back(x: Tensor) -> Tensor:
        floating = x.array.dtype == _FLOAT32
        return array.astype(x, dtype=narrow, source=_FLOAT32) if floating else x

    return tuple(map(back, result)) if isinstance(result, tuple) else back(result)


def same_dtype_operands(matrix: Any, rhs: Any, op: str) -> tuple[Tensor, Tensor]:
    x, y = operands(matrix, rhs)
    if x.array.dtype != y.array.dtype:
        raise errors.mismatched_dtypes(op, x.dtype, y.dtype)
    return x, y


def index_last(x: Tensor, *last: Any) -> Tensor:
    """x with an index for its last axes."""
    lead = (slice(None),) * (len(x.array.shape) - len(last))
    return array.getitem(x, index=(*lead, *last))


def constant_like(x: Tensor, value: Any) -> Tensor:
    """A constant with x's dtype."""
    return constant_operand(np.asarray(value, x.array.dtype))


def adjoint_of(x: Tensor) -> Tensor:
    rank = len(x.array.shape)
    flipped: Tensor = array.transpose(x, perm=(*range(rank - 2), rank - 1, rank - 2))
    return math.conj(flipped) if x.dtype.is_complex else flipped


def real_part(x: Tensor) -> Tensor:
    return math.real(x) if x.dtype.is_complex else x
