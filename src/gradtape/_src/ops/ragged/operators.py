"""Elementwise ops and Python's operators on ragged tensors: broadcasting of rows, then the op on the flat values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy import ndarray

from gradtape._src import errors
from gradtape._src.arrays.graph_ops import kept_in_graph
from gradtape._src.conversion import constant_operand, has_dtype, operand
from gradtape._src.core.composites import register_handler
from gradtape._src.core.primitive import registry
from gradtape._src.ops import array, math, operators
from gradtape._src.ops.ragged.indexing import get_item
from gradtape._src.ops.ragged.partition import RowPartition, of_lengths, uniform_rows
from gradtape._src.ops.ragged.tensor import RaggedTensor, from_partitions, take_rows
from gradtape._src.tensor import Tensor

_F = TypeVar("_F", bound=Callable[..., Any])


# -- broadcasting ----------------------------------------------------------------------------------------------------
class _Operand(NamedTuple):
    """An operand during broadcasting: its partitions from the second axis on, and its flat values."""

    rows: int
    partitions: list[RowPartition]
    flat: Tensor


def partition_dtype(operands: Sequence[Any]) -> Any:
    """Return the dtype of the row splits of all ragged operands."""
    found = {x._partition.dtype for x in operands if type(x) is RaggedTensor}
    if len(found) > 1:
        raise ValueError(
            "Input RaggedTensors have mismatched row_splits dtypes; use RaggedTensor.with_row_splits_dtype() to "
            "convert them to compatible dtypes."
        )
    return found.pop()


def elementwise(call: Callable[..., Any], *operands: Any, **kwargs: Any) -> Any:
    """Apply an elementwise op to ragged and other operands, broadcast to one shape."""
    flats, found = broadcast(*operands)
    return from_partitions(call(*flats, **kwargs), found)


def broadcast(*operands: Any) -> tuple[list[Any], list[RowPartition]]:
    """Broadcast operands; return their flat values and the common partitions. Scalars are not expanded."""
    first = next(x for x in operands if type(x) is RaggedTensor)
    operands = tuple([_repeated_column(x, first) if type(x) is Tensor else x for x in operands])
    if all(_fits(x, first) for x in operands):
        return [x.flat_values if type(x) is RaggedTensor else x for x in operands], first._partitions
    return _broadcast_rows([_as_operand(x, first) for x in operands], partition_dtype(operands))


def _repeated_column(x: Tensor, first: RaggedTensor) -> Any:
    """Repeat a column operand over the elements of each row; return other operands unchanged.

    The general code below handles every shape, but takes several more passes (benchmark: softmax of ragged rows).
    """
    partition = first._partition
    if x.array.shape != (partition.count, 1) or type(first._values) is RaggedTensor or partition.uniform is not None:
        return x
    if len(first._values.array.shape) != 1:
        return x
    column = array.reshape(x, shape=(partition.count,))
    return first._with_flat(take_rows(column, partition.rowids))


def _fits(x: Any, first: RaggedTensor) -> bool:
    """Return whether the flat values can be combined directly: x is a scalar or has the same rows."""
    if type(x) is RaggedTensor:
        if x._partition.dtype != first._partition.dtype:
            partition_dtype((x, first))
        mine, others = x._partitions, first._partitions
        return (
            len(mine) == len(others)
            and all(a.matches(b) for a, b in zip(mine, others, strict=True))
            and len(x.flat_values.array.shape) == len(first.flat_values.array.shape)
        )
    return isinstance(x, (int, float, complex, str, bytes, np.generic)) or (type(x) is Tensor and not x.array.shape)


def _as_operand(x: Any, first: RaggedTensor) -> Any:
    if type(x) is RaggedTensor:
        return x
    return operand(x, None if has_dtype(x) else first.dtype)


def _broadcast_rows(operands: Sequence[Any], dtype: Any) -> tuple[list[Any], list[RowPartition]]:
    """Broadcast operands with different rows: gather their values into the rows of the result."""
    ranks = [len(x.shape) for x in operands]
    rank = max(ranks)
    ragged = max(rank - n + x.ragged_rank for x, n in zip(operands, ranks, strict=True) if type(x) is RaggedTensor)
    aligned = [_aligned(x, rank, ragged, dtype) for x in operands]
    count = max(x.rows for x in aligned)
    rows = [_grown(x.rows, count) for x in aligned]
    found = []
    for axis in range(ragged):
        level = [x.partitions[axis] for x in aligned]
        partition, rows = _broadcast_level(level, rows, dtype)
        found.append(partition)
    return [_placed(x.flat, row) for x, row in zip(aligned, rows, strict=True)], found


def _aligned(x: Any, rank: int, ragged: int, dtype: Any) -> _Operand:
    """Convert an operand to `rank` axes, of which the first `ragged` after the outermost one are partitions."""
    missing = rank - len(x.shape)
    found = x._partitions if type(x) is RaggedTensor else []
    flat = x.flat_values if type(x) is RaggedTensor else x
    if missing and found:
        found = [uniform_rows(found[0].count if i == missing - 1 else 1, 1, dtype) for i in range(missing)] + found
    elif missing:
        flat = array.reshape(flat, shape=((1,) * missing + tuple(flat.array.shape)))
    count = found[0].count if found else flat.array.shape[0]
    while len(found) < ragged:  # dense axes that are ragged in another operand
        size, *inner = flat.array.shape[1:]
        found = [*found, uniform_rows(size, flat.array.shape[0], dtype)]
        flat = array.reshape(flat, shape=(flat.array.shape[0] * size, *inner))
    return _Operand(count, found, flat)


def _grown(have: int, count: int) -> ndarray:
    """Return the row of an operand for each row of the result."""
    if have == count:
        return np.arange(count)
    if have != 1:
        raise _incompatible(f"{have} rows and {count} rows")
    return np.zeros(count, np.intp)


def _broadcast_level(
    level: Sequence[RowPartition], rows: list[ndarray], dtype: Any
) -> tuple[RowPartition, list[ndarray]]:
    """Broadcast one axis; return its partition and the positions of the elements of each operand."""
    lengths = [partition.lengths[row] for partition, row in zip(level, rows, strict=True)]
    widens = [partition.uniform == 1 for partition in level]
    fixed = [i for i, one in enumerate(widens) if not one] or [0]
    target = lengths[fixed[0]]
    for i in fixed[1:]:
        if not np.array_equal(lengths[i], target):
            raise _incompatible(f"row lengths {target.tolist()} and {lengths[i].tolist()}")
    uniform = next((level[i].uniform for i in fixed if level[i].uniform is not None), None)
    new = of_lengths(target.astype(dtype), uniform if all(level[i].uniform is not None for i in fixed) else None)
    where = []
    for partition, row, one in zip(level, rows, widens, strict=True):
        starts = np.repeat(partition.starts[row], target)
        where.append(starts if one else starts + new.offsets)
    for partition in level:  # reuse an operand's partition if it equals that of the result: it caches what it computed
        if partition.uniform == new.uniform and partition.matches(new):
            return partition, where
    return new, where


def _placed(flat: Tensor, rows: ndarray) -> Tensor:
    """Gather the values of an operand at the positions of the result."""
    count = flat.array.shape[0]
    if len(rows) == count and (rows == np.arange(count)).all():
        return flat
    found: Tensor = take_rows(flat, rows)
    return found


def _incompatible(received: str) -> Exception:
    return errors.refused_value(
        "Unable to broadcast: dimension size mismatch in dimension. Ragged rows must have equal lengths, or one of "
        f"them a uniform length of 1. Received {received}."
    )


# -- the table of ops ------------------------------------------------------------------------------------------------
table: dict[str, Callable[..., Any]] = {}
"""Implementations for ragged arguments by op name. Each is called with the dense implementation and the arguments."""


def register(*names: str) -> Callable[[_F], _F]:
    """Register a function under the names of the ops that it implements."""

    def enter(function: _F) -> _F:
        table.update(dict.fromkeys(names, function))
        return function

    return enter


def call_on_ragged(name: str, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call an op that has a ragged argument; elementwise primitives need no entry in the table."""
    if name in table:
        return table[name](call, *args, **kwargs)
    if name in registry and registry[name].elementwise:
        kwargs.pop("name", None)
        return elementwise(call, *args, *kwargs.values())
    raise


register_handler(RaggedTensor, call_on_ragged)


# -- operators -------------------------------------------------------------------------------------------------------
def _binary(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: RaggedTensor, other: Any) -> Any:
        return elementwise(function, self, other)

    return method


def _reflected(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: RaggedTensor, other: Any) -> Any:
        flats, found = broadcast(self, other)
        right, left = flats
        return from_partitions(function(left if isinstance(left, Tensor) else constant(left, right), right), found)

    return method


def constant(value: Any, beside: Tensor) -> Tensor:
    """Convert a number or string to the dtype of the other operand's values."""
    return constant_operand(operand(value, beside.dtype).array)


def _equality(function: Callable[..., Any], otherwise: bool) -> Callable[..., Any]:
    """== and !=: with None a Python bool, else elementwise."""

    def method(self: RaggedTensor, other: Any) -> Any:
        return otherwise if other is None else elementwise(function, self, other)

    return method


def _unary(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: RaggedTensor) -> Any:
        return self._with_flat(function(self.flat_values))

    return method


def attach(kind: type) -> None:
    """Add TensorFlow's operators to the class of ragged tensors."""
    for name, function in operators.BINARY.items():
        if name != "matmul":
            setattr(kind, f"__{name}__", kept_in_graph(name)(_binary(function)))
            setattr(kind, f"__r{name}__", kept_in_graph(name)(_reflected(function)))
    for name, function in operators.COMPARISON.items():
        setattr(kind, f"__{name}__", kept_in_graph(name)(_binary(function)))
    others = {
        "eq": kept_in_graph("equal")(_equality(math.equal, False)),
        "ne": kept_in_graph("not_equal")(_equality(math.not_equal, True)),
        "neg": _unary(math.negative),
        "abs": _unary(math.absolute),
        "invert": _unary(lambda x: ~x),
        "getitem": get_item,
    }
    for name, function in others.items():
        setattr(kind, f"__{name}__", function)


attach(RaggedTensor)
