"""Batches of rows in one pass: how many fit in memory, their cotangents, and zeros for unconnected sources."""

from __future__ import annotations

import math
from typing import Any

from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.autodiff.arguments import UnconnectedGradients, array_of, as_tensor
from gradtape._src.conversion import wrap
from gradtape._src.core.tape import clock
from gradtape._src.memory import LazyArray
from gradtape._src.tensor import Tensor
from gradtape._src.variable import Variable, unwrapped

next_level = clock

ROWS_BUDGET = 256 * 2**20
"""The bytes that the rows of one backward pass may take, which determine the chunks of a Jacobian."""


def only_tensor(name: str, value: Any) -> Any:
    value = unwrapped(value)
    if not isinstance(value, (Tensor, Variable)):
        raise TypeError(f"`{name}` should be one Tensor or Variable, but received {value!r}.")
    return value


def check_batch(target: Any, source: Any) -> None:
    """Raise TensorFlow's errors unless target and source are batches of the same size."""
    shape, x_shape = tuple(array_of(target).shape), tuple(array_of(source).shape)
    for have in (shape, x_shape):
        if len(have) < 2:
            raise ValueError(f"Shape {have} must have rank at least 2")
    if shape[0] != x_shape[0]:
        raise ValueError(f"Need first dimension of target shape ({shape}) and source shape ({x_shape}) to match.")


def chunks(total: int, unit_bytes: int, requested: int | None) -> list[tuple[int, int]]:
    """Split `total` units of work into spans of the requested size, or of the size that the budget allows."""
    size = requested if requested is not None and requested > 0 else max(1, ROWS_BUDGET // max(unit_bytes, 1))
    return [(i, min(i + size, total)) for i in range(0, total, size)] or [(0, 0)]


def row_bytes(recording: Any, sources: list[Any], itemsize: int) -> int:
    """The memory of one row: its part of the results, and twice the largest intermediate cotangent.

    It is 0 if sizes are unknown: then all rows are computed together.
    """
    graph = current_graph()
    if graph is not None and graph.polymorphic:
        return 0
    largest = max((math.prod(shape) for shape in recording.tracked.values()), default=0)
    return itemsize * (sum(math.prod(array_of(s).shape) for s in sources) + 2 * largest)


def rows_of(cotangent: Any, seed: Batched) -> Any:
    """The cotangents of a source as an array [rows, ...] or a lazy array.

    A cotangent that is the same for every row is not a batch.
    """
    if cotangent is None:
        return None
    if type(cotangent) is Batched:
        return cotangent.as_lazy() or cotangent.rows()
    return namespace_of(cotangent).broadcast_to(cotangent, shape=(seed.batch_size, *cotangent.shape))


def reshaped(rows: Any, shape: tuple[int, ...]) -> Any:
    """Reshape rows, or a lazy array of them."""
    return rows.reshaped(shape) if type(rows) is LazyArray else namespace_of(rows).reshape(rows, shape=shape)


def joined(blocks: list[Any], axis: int) -> Any:
    """Concatenate blocks of rows; a single block may stay lazy."""
    if len(blocks) == 1:
        return blocks[0]
    arrays = [block.write() if type(block) is LazyArray else block for block in blocks]
    return namespace_of(arrays[0]).concatenate(*arrays, axis=axis)


def or_zeros(result: Any, shape: tuple[int, ...], source: Any, policy: UnconnectedGradients) -> Any:
    if result is not None:
        return as_tensor(result)
    if policy.value == "none":
        return None
    value = array_of(source)
    xp = namespace_of(value)
    return wrap(xp.broadcast_to(xp.zeros_like(value), shape=(*shape, *value.shape)))
