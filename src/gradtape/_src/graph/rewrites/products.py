"""Compute parts of a product as products.

Queries, keys and values are often one product that is split. Its parts are strided, so that ops that use them copy them
first; separate products are contiguous. The rest of a program does not change, and the parts of the weights are small.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.core.primitive import Op
from gradtape._src.graph.rewrites import sources
from gradtape._src.graph.rewrites.sources import Path
from gradtape._src.ops import array, linalg
from gradtape._src.tensor import Tensor

MANY = 4096
"""The number of rows from which on parts are computed as products: below, one product and a copy are faster."""

SMALLEST = 256
"""The smallest number of columns of a part: narrower products do not use the whole chip."""


def instead(op: Op, inputs: Sequence[Tensor], attrs: dict[str, Any]) -> tuple[Tensor, ...] | None:
    """Products with parts of the weights instead of parts of a product, if the pattern matches."""
    (whole,) = inputs
    shape = tuple(whole.array.shape)
    if attrs["axis"] != len(shape) - 1 or not is_known_shape(shape) or prod(shape[:-1]) < MANY:
        return None
    if min(attrs["sizes"], default=0) < SMALLEST or not sources.is_worthwhile(whole.array):
        return None
    path = Path()
    call = path.call(whole, "matmul")
    if call is None or len(call.args[1].shape) != 2 or call.attrs.get("adjoint_x"):
        return None
    x, weights = call.args
    if not path.leads_back_to(x, weights):
        return None
    by_rows = bool(call.attrs.get("adjoint_y"))
    parts = array.split(weights.tensor(), axis=0 if by_rows else 1, sizes=attrs["sizes"])
    made = tuple([linalg.matmul(x.tensor(), part, adjoint_x=False, adjoint_y=by_rows) for part in parts])
    path.replaced(op, inputs, attrs, made)
    return made
