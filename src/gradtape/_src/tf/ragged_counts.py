"""Counts of the integers in the rows of ragged tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape._src.conversion import operand, wrap
from gradtape._src.ops.ragged import RaggedTensor, register
from gradtape._src.tensor import Tensor
from gradtape._src.tf.array import reshape
from gradtape._src.tf.string_arrays import known


@register("bincount")
def bincount(
    call: Callable[..., Tensor],
    arr: Any,
    weights: Any = None,
    minlength: Any = None,
    maxlength: Any = None,
    dtype: Any = "int32",
    name: str | None = None,
    axis: Any = None,
    binary_output: bool = False,
) -> Tensor:
    """`tf.math.bincount` of a ragged matrix: of all its integers or, with axis=-1, of each row."""
    values = operand(arr.flat_values)
    given = weights.flat_values if isinstance(weights, RaggedTensor) else weights
    whole = call(values, given, minlength, maxlength, dtype, axis=0, binary_output=binary_output)
    if axis != -1:
        return whole
    # Every row has its own block of counts; too large numbers are counted in one position after all blocks.
    length, rows, numbers = len(whole), int(known(arr.nrows())), known(values)
    count = rows * length
    places = np.where(numbers < length, numbers + length * known(arr.value_rowids()), count)
    found = call(wrap(places), given, count + 1, count + 1, dtype, binary_output=binary_output)
    return reshape(found[:count], [rows, length])
