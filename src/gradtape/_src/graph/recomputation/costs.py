"""Estimates of the cost of ops, from their names and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.arrays.numpy import random
from gradtape._src.core.primitive import registry
from gradtape._src.graph.recomputation.plan import CHEAP, FIXED, PRODUCT, REDUCTION, VIEW, Block
from gradtape._src.ops.projection import BLOCK_ROWS

_VIEWS = frozenset({
    "broadcast_to", "expand_dims", "getitem", "identity", "pinned", "reshape", "split", "squeeze", "stop_gradient",
    "transpose",
})  # fmt: skip

_MOVES = frozenset({"astype", "barrier", "concatenate", "flip", "gate", "one_hot", "pad", "roll", "tile", "where"})

_REDUCTIONS = frozenset({
    "all", "any", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logsumexp", "max", "max_pool", "mean",
    "min", "prod", "softmax", "standardize", "sum", "take",
})  # fmt: skip


class Speed(NamedTuple):
    """The speed of a device: bytes read and written per second, operations per second; and the seconds of a launch."""

    nbytes: float
    operations: float
    launch: float


PROCESSOR = Speed(1e10, 5e10, 2e-6)
ACCELERATOR = Speed(3e12, 3e14, 3e-6)
"""Only the ratios matter: they decide which of two values is faster to recompute."""


def kind_of(name: str, is_pure: bool) -> int:
    """The kind of a step."""
    if not is_pure or vars(random).get(name) is not None:  # random numbers are saved
        return FIXED
    if name in _VIEWS:
        return VIEW
    op = registry.get(name)
    if name in _MOVES or "_vjp_" in name or (op is not None and op.elementwise):
        return CHEAP
    return REDUCTION if name in _REDUCTIONS else PRODUCT


def seconds_of(name: str, kind: int, operands: Sequence[Any], outputs: Sequence[Any], speed: Speed) -> float:
    """The estimated seconds of a step; operands and outputs have shapes and dtypes."""
    if kind == VIEW:
        return 0.0
    moved = sum(nbytes_of(x) for x in (*operands, *outputs))
    seconds = moved / speed.nbytes + speed.launch
    if kind == PRODUCT and operands:
        seconds += _operations(name, operands, outputs) / speed.operations
    return seconds


def blocks_of(name: str, operands: Sequence[Any], speed: Speed, compiled: bool) -> tuple[Block, ...]:
    """The sizes of blocks in which an op can run whose operands and results are not all of its memory: logits of a
    block of rows, and their derivatives. XLA's can be made smaller; NumPy's are, and smaller ones would round
    differently.
    """
    if not name.startswith("projected_cross_entropy"):
        return ()
    labels = next((i for i, x in enumerate(operands) if np.dtype(x.dtype).kind in "iu"), 0)
    if labels < 2:
        return ()
    x, w = operands[labels - 2 : labels]
    classes = max(w.shape, default=1) if w.shape[0] == x.shape[-1] == w.shape[-1] else prod(w.shape) // x.shape[-1]
    rows, itemsize = prod(x.shape[:-1]), int(np.dtype(x.dtype).itemsize)
    row_bytes = 2 * classes * itemsize
    if not compiled:
        return (Block(min(rows, BLOCK_ROWS), min(rows, BLOCK_ROWS) * row_bytes, 0.0),)
    from gradtape._src.arrays.xla.neural import TILE, rows_of_block

    first = most = rows_of_block(rows, classes, itemsize)
    found = [Block(first, first * row_bytes, 0.0)]
    while most > TILE:
        most = max(most // 2 // TILE, 1) * TILE
        more = -(-rows // most) - -(-rows // first)  # each block adds to the sums of the weights' cotangents
        found.append(Block(most, most * row_bytes, more * (8 * prod(w.shape) / speed.nbytes + speed.launch)))
    return tuple(found)


def _operations(name: str, operands: Sequence[Any], outputs: Sequence[Any]) -> float:
    """Multiplications and additions of a product: contracted axes are in both operands, and not in the result."""
    if name == "attention":
        return 4.0 * prod(operands[0].shape) * max(operands[0].shape[1:], default=1)
    sizes = sorted((prod(x.shape) for x in operands), reverse=True)[:2]
    result = prod(outputs[0].shape) if outputs else 1
    if name == "matmul" and len(operands[0].shape) >= 2:
        axis = -2 if "adjoint_x" in name else -1
        return 2.0 * result * float(operands[0].shape[axis])
    return 2.0 * sqrt(float(prod(sizes)) * max(result, 1))


def nbytes_of(x: Any) -> int:
    """The bytes of an array, or of something with a shape and a dtype."""
    return int(prod(x.shape)) * int(np.dtype(x.dtype).itemsize)
