"""Batched: an array of any engine with a hidden leading axis, so that one backward pass carries many cotangents.

A formula sees one row (shape, operators, axes). A primitive may have a batching rule (`op.batch`); without one it runs
once for each row.

Block-diagonal batches. The Jacobian of a target with a leading axis of length B has B times K rows, and row (b, k)
starts with a cotangent that is zero except at position b of that axis. As long as ops treat the positions of that axis
separately, everything off the diagonal stays zero, and only the diagonal is computed: the array has shape [K, B, ...]
instead of [B * K, B, ...]. An op that mixes positions, and has no rule for it, gets the full rows.

Row index. Slicing and padding that axis moves positions: position p then belongs to another row. If cotangents that
were moved differently are added, such as those of x[1:] and x[:-1], the batch keeps both terms: a band of a matrix
instead of the whole matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays import attach_operators, common_namespace, namespace_of, register_namespace
from gradtape._src.arrays.base import Interpreter
from gradtape._src.arrays.row_index import RowIndex, assigned, rows_from
from gradtape._src.arrays.symbolic import Symbolic, filled, zeros
from gradtape._src.memory import LazyArray
from gradtape._src.tensor import Tensor

Shape = tuple[int, ...]

batch_rules: dict[str, Callable[..., Any]] = {
    "barrier": lambda xp, size, batched, x, after: xp.barrier(
        x if batched[0] else xp.broadcast_to(x, shape=(size, *x.shape)), after
    )
}
"""Primitive -> its batching rule(xp, size, flags, *arrays, **attrs), where flags say which arrays are batched."""

block_diagonal_rules: dict[str, Callable[..., Any]] = {}
"""Primitive -> its block-diagonal rule(xp, level, operands, **attrs), which returns a Batched or None (full rows)."""


LAZY_BYTES = 2**16
"""The size in bytes from which on an array becomes lazy: it is computed when it is read."""


def is_worth_delaying(shape: Shape, dtype: np.dtype[Any], arrays: Sequence[Any]) -> bool:
    """Whether a large array that is computed from these small ones should be lazy.

    The small ones are NumPy arrays, or values of a program that is being traced, whose caller may compute the large
    one.
    """
    kinds = {type(a.array if type(a) is Tensor else a) for a in arrays}
    if kinds == {np.ndarray}:
        kinds = {type(a) for a in arrays}  # not for recorded tensors, because the computation must be recorded
    known = all(type(n) is int for n in shape)
    return known and kinds <= {np.ndarray, Symbolic} and dtype.itemsize * math.prod(shape) >= LAZY_BYTES


class Batched:
    """Rows of equal shape, stacked along a hidden first axis.

    See the module for `block_diagonal` and `row_index`; `more` are further terms of a sum, each with its own row index.
    Instead of an array it may have a lazy array, which is computed when `array` is read.
    """

    __slots__ = ("array", "block_diagonal", "lazy", "level", "more", "row_index")
    __array_ufunc__ = None  # NumPy's operators defer to these

    def __init__(
        self,
        array: Any,
        level: int,
        block_diagonal: bool = False,
        row_index: RowIndex | None = None,
        more: tuple[Batched, ...] = (),
    ) -> None:
        self.lazy: LazyArray | None = None
        if type(array) is LazyArray:
            self.lazy = array
        else:
            self.array = array
        self.level, self.block_diagonal, self.row_index, self.more = level, block_diagonal, row_index, more

    def __getattr__(self, name: str) -> Any:
        if name != "array" or self.lazy is None:
            raise AttributeError(f"'Batched' object has no attribute '{name}'")
        self.array, self.lazy = self.lazy.write(), None
        return self.array

    @property
    def shape(self) -> Shape:
        """The shape of one row."""
        return tuple(_shape(self.lazy or self.array)[1:])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return _dtype(self.lazy or self.array)

    @property
    def batch_size(self) -> int:
        """The number of rows."""
        rows: int = _shape(self.lazy or self.array)[0]
        if not self.block_diagonal:
            return rows
        return rows * (self.shape[0] if self.row_index is None else self.row_index.size)

    def rows(self) -> Any:
        """All rows: an array [rows, *shape] of the engine of `array`."""
        return self._lazy_rows().write() if self.block_diagonal else self.array

    def as_lazy(self) -> LazyArray | None:
        """The rows as a lazy array, if they are large and computed from smaller arrays."""
        lazy = self._lazy_rows() if self.block_diagonal else self.lazy
        if lazy is None or not is_worth_delaying(lazy.shape, lazy.dtype, lazy.arrays):
            return None
        return lazy

    def _lazy_rows(self) -> LazyArray:
        parts = [(part.array, _row_index(part)) for part in self.parts()]
        arrays = tuple([assigned(array, index) for array, index in parts])
        return LazyArray((self.batch_size, *self.shape), self.dtype, arrays, rows_from([index for _, index in parts]))

    def mapped(self, function: Callable[[Any], Any]) -> Batched:
        """The batch, with a function applied to its arrays."""
        more = tuple([part.mapped(function) for part in self.more])
        return Batched(function(self.array), self.level, self.block_diagonal, self.row_index, more)

    def parts(self) -> list[Batched]:
        """The terms of this sum, each with its row index."""
        return [Batched(self.array, self.level, True, self.row_index), *self.more] if self.more else [self]

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise EscapeError("a batch of values has no single NumPy value")

    def __repr__(self) -> str:
        return f"Batched({self.batch_size} rows of shape {self.shape}, {self.dtype})"


class EscapeError(TypeError):
    """A batched computation read a value; the caller that created the batch falls back to a loop."""


def _shape(array: Any) -> Shape:
    return tuple(array.shape)


def _row_index(rows: Batched) -> RowIndex:
    return rows.row_index or RowIndex.each(rows.shape[0])


class BatchedNamespace(Interpreter):
    """The primitives over batches."""

    rank = 4

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return apply(name, args, attrs)

    def is_complex(self, x: Any) -> bool:
        return bool(_dtype(x).kind == "c")  # x may be a saved tensor, without a batch

    def zeros(self, shape: Shape, dtype: Any) -> Any:
        return zeros(shape, dtype)  # unbatched zeros work with any batch

    def ones_like(self, x: Any) -> Any:
        return filled(x.shape, x.dtype, 1)

    def zeros_like(self, x: Any) -> Any:
        return zeros(x.shape, x.dtype)

    def from_numpy(self, x: Any) -> Any:
        return x


batched_namespace: Any = BatchedNamespace()
register_namespace(Batched, batched_namespace)


def apply(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run a primitive on batched operands: by its block-diagonal rule, its batching rule, or row by row."""
    level = 0
    for a in args:  # loops, not generators (benchmark: hess)
        if type(a) is Batched and a.level > level:
            level = a.level
    if not level:  # a rule computes with saved values only
        return getattr(common_namespace(args), name)(*args, **attrs)
    batched = [type(a) is Batched and a.level == level for a in args]
    rows = [a for a in args if type(a) is Batched and a.level == level]
    for a in rows:
        if a.block_diagonal:
            result = _apply_block_diagonal(name, level, args, attrs, rows)
            if result is not None:
                return result
            break
    arrays = [a.rows() if b else a for a, b in zip(args, batched, strict=True)]
    size = next(_shape(a)[0] for a, b in zip(arrays, batched, strict=True) if b)
    xp = common_namespace(arrays)
    rule = batch_rules.get(name)
    result = rule(xp, size, batched, *arrays, **attrs) if rule is not None else None
    if result is None:
        result = loop(xp, name, size, batched, arrays, attrs)
    return tuple(Batched(r, level) for r in result) if type(result) is tuple else Batched(result, level)


def _apply_block_diagonal(
    name: str, level: int, args: tuple[Any, ...], attrs: dict[str, Any], rows: list[Batched]
) -> Any:
    """The result of the block-diagonal rule, or None if the full rows are needed."""
    rule = block_diagonal_rules.get(name)
    if rule is None:
        return None
    for a in rows:
        if a.row_index is not None or a.more:
            break
    else:
        return _by_rule(rule, level, args, attrs)
    if len(rows) == 1:
        (moved,) = rows
        results = [
            _by_rule(rule, level, tuple([part if a is moved else a for a in args]), attrs, part.row_index)
            for part in moved.parts()
        ]
        if any(r is None or type(r) is tuple for r in results):
            return None
        return _sum_of(results)
    if len(rows) == len(args) == 2 and name in ("add", "subtract") and all(a.block_diagonal for a in rows):
        x, y = rows
        if x.shape == y.shape and _shape(x.array)[0] == _shape(y.array)[0]:
            return _sum_of([*x.parts(), *(y if name == "add" else apply("negative", (y,), {})).parts()])
    return None


def _by_rule(
    rule: Callable[..., Any],
    level: int,
    args: tuple[Any, ...],
    attrs: dict[str, Any],
    row_index: RowIndex | None = None,
) -> Any:
    inner = common_namespace([a.array if type(a) is Batched and a.level == level else a for a in args])
    result = rule(inner, level, args, **attrs)
    if row_index is not None and type(result) is Batched:
        assert result.block_diagonal, "a rule ignored the row index"
        result.row_index = result.row_index or row_index
    return result


MOST_PARTS = 8
"""The maximum number of terms with different row indices; for more, the batch is converted to full rows."""


def _sum_of(parts: list[Batched]) -> Batched | None:
    """A sum of block-diagonal batches: terms whose row indices agree, or complement each other, are added."""
    sums: list[Batched] = []
    for part in parts:
        for i, there in enumerate(sums):
            row_index = _row_index(there).joined(_row_index(part))
            if row_index is not None:
                sums[i] = Batched(there.array + part.array, part.level, True, row_index)
                break
        else:
            sums.append(part)
    if len(sums) > min(MOST_PARTS, _row_index(sums[0]).size // 2):
        return None
    first, *more = sums
    return Batched(first.array, first.level, True, first.row_index, tuple(more))


def loop(xp: Any, name: str, size: int, batched: list[bool], arrays: list[Any], attrs: dict[str, Any]) -> Any:
    """The fallback for every primitive: run it for each row, and stack the results."""
    function = getattr(xp, name)
    results = [
        function(*(xp.getitem(a, index=(i,)) if b else a for a, b in zip(arrays, batched, strict=True)), **attrs)
        for i in range(size)
    ]
    if not results:  # no rows: the shape of a row comes from a row of zeros
        row = function(
            *(np.zeros(_shape(a)[1:], _dtype(a)) if b else a for a, b in zip(arrays, batched, strict=True)), **attrs
        )
        return (
            tuple(np.zeros((0, *r.shape), _dtype(r)) for r in row)
            if type(row) is tuple
            else np.zeros((0, *row.shape), _dtype(row))
        )
    if type(results[0]) is tuple:
        return tuple(xp.stack(*column, axis=0) for column in zip(*results, strict=True))
    return xp.stack(*results, axis=0)


def _dtype(array: Any) -> Any:
    return getattr(array.dtype, "numpy_dtype", array.dtype)


# -- the rule of every elementwise primitive -------------------------------------------------------------------------
def elementwise_rule(name: str) -> Callable[..., Any]:
    """Align rows: a batched operand of lower rank gets axes of length 1 after the hidden one."""

    def rule(xp: Any, size: int, batched: list[bool], *arrays: Any, **attrs: Any) -> Any:
        rank = max(
            len(np.shape(a)) if isinstance(a, (int, float)) else len(a.shape) - b
            for a, b in zip(arrays, batched, strict=True)
        )
        lifted = [_lift(xp, a, rank) if b else a for a, b in zip(arrays, batched, strict=True)]
        return getattr(xp, name)(*lifted, **attrs)

    return rule


def _lift(xp: Any, array: Any, rank: int) -> Any:
    size, *row = _shape(array)
    missing = rank - len(row)
    return xp.reshape(array, shape=(size, *[1] * missing, *row)) if missing > 0 else array


def elementwise_block_diagonal(name: str) -> Callable[..., Any]:
    """A batch stays block-diagonal if an elementwise op does not broadcast its first axis.

    Derivative rules are linear in the batched operand, so the zeros off the diagonal stay zeros.
    """

    def rule(xp: Any, level: int, operands: tuple[Any, ...], **attrs: Any) -> Any:
        shape, arrays = None, []
        for a in operands:
            if type(a) is Batched and a.level == level:
                if not a.block_diagonal or (shape is not None and a.shape != shape):
                    return None
                shape = a.shape
                arrays.append(a.array)
            else:
                arrays.append(a)
        assert shape is not None
        for a in operands:
            if not (type(a) is Batched and a.level == level) and len(getattr(a, "shape", ())) > len(shape):
                return None
        result = getattr(xp, name)(*arrays, **attrs)
        if tuple(result.shape[1:])[:1] != shape[:1] or len(result.shape) != len(shape) + 1:
            return None
        return Batched(result, level, block_diagonal=True)

    return rule


def _operator(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        known = isinstance(other, (int, float, complex, np.ndarray, np.generic, Batched)) or hasattr(other, "uid")
        if not known and not 0 < namespace_of(other).rank < batched_namespace.rank:  # or an array of another engine
            return NotImplemented
        return apply(name, (other, self) if swapped else (self, other), {})

    return method


attach_operators(Batched, _operator, lambda name: lambda self: apply(name, (self,), {}))
