"""Batched: an array of any engine with a hidden leading axis, so that one sweep carries many cotangents.

What a formula sees (shape, operators, axes) is one row. Every primitive says how it works on a batch (`op.batch`);
one that does not is looped over, row by row, for that one op.

`aligned` rows. The Jacobian of a target with a leading axis of length B has B times K rows, and row (b, k) starts
with a cotangent that is zero except at position b of that axis. As long as ops treat the positions of that axis
separately, everything off the diagonal stays zero, and only the diagonal is computed: the array holds [K, B, ...]
where the rows would be [B * K, B, ...]. An op that mixes positions without knowing better gets the rows written out.

`Owners`. Slices and paddings of that axis move positions: afterwards position p belongs to the rows of another b. Where
cotangents meet that were moved differently, as those of x[1:] and x[:-1] do, both are kept: a band of a matrix instead
of the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays import attach_operators, common_namespace, namespace_of, register_namespace
from gradtape._src.arrays.base import Interpreter
from gradtape._src.arrays.owners import RowIndex, owned, rows_of
from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.memory import LazyArray
from gradtape._src.tensor import Tensor

Shape = tuple[int, ...]

batch_rules: dict[str, Callable[..., Any]] = {}
"""Primitive -> how to run it on a batch: rule(xp, size, flags, *arrays, **attrs), flags saying which are batched."""

block_diagonal_rules: dict[str, Callable[..., Any]] = {}
"""Primitive -> how to run it on aligned rows: rule(xp, *operands, **attrs), or None to have them written out."""


WORTH_A_RECIPE = 2**16
"""Bytes from which on an array is worth a recipe."""


def is_worth_a_recipe(shape: Shape, dtype: np.dtype[Any], arrays: Sequence[Any]) -> bool:
    """Whether an array that is made of these should be left unwritten for now.

    The small ones are NumPy's, or values of a program that is being traced: whoever calls that may write the large one.
    """
    kinds = {type(a.array if type(a) is Tensor else a) for a in arrays}
    if kinds == {np.ndarray}:
        kinds = {type(a) for a in arrays}  # recorded tensors: the way that their values went is to be recorded too
    known = all(type(n) is int for n in shape)
    return known and kinds <= {np.ndarray, Symbolic} and dtype.itemsize * math.prod(shape) >= WORTH_A_RECIPE


class Batched:
    """Rows of equal shape, stacked along a hidden first axis.

    See the module for `aligned` and `owners`; `more` are further aligned rows, with owners of their own, to be added.
    Instead of an array there may be a recipe for one, which is followed when somebody reads the array.
    """

    __slots__ = ("array", "block_diagonal", "level", "more", "owners", "recipe")
    __array_ufunc__ = None  # NumPy's operators give way to these

    def __init__(
        self,
        array: Any,
        level: int,
        block_diagonal: bool = False,
        owners: RowIndex | None = None,
        more: tuple[Batched, ...] = (),
    ) -> None:
        self.recipe: LazyArray | None = None
        if type(array) is LazyArray:
            self.recipe = array
        else:
            self.array = array
        self.level, self.block_diagonal, self.owners, self.more = level, block_diagonal, owners, more

    def __getattr__(self, name: str) -> Any:
        if name != "array" or self.recipe is None:
            raise AttributeError(f"'Batched' object has no attribute '{name}'")
        self.array, self.recipe = self.recipe.write(), None
        return self.array

    @property
    def shape(self) -> Shape:
        """The shape of one row."""
        return tuple(_shape(self.recipe or self.array)[1:])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return _dtype(self.recipe or self.array)

    @property
    def batch_size(self) -> int:
        """How many rows there are."""
        rows: int = _shape(self.recipe or self.array)[0]
        if not self.block_diagonal:
            return rows
        return rows * (self.shape[0] if self.owners is None else self.owners.size)

    def rows(self) -> Any:
        """All rows, written out: an array [rows, *shape] of the engine underneath."""
        return self._aligned_recipe().write() if self.block_diagonal else self.array

    def as_recipe(self) -> LazyArray | None:
        """How to write the rows, if they are large and made of less."""
        recipe = self._aligned_recipe() if self.block_diagonal else self.recipe
        if recipe is None or not is_worth_a_recipe(recipe.shape, recipe.dtype, recipe.arrays):
            return None
        return recipe

    def _aligned_recipe(self) -> LazyArray:
        parts = [(part.array, _owners(part)) for part in self.parts()]
        arrays = tuple([owned(array, owners) for array, owners in parts])
        return LazyArray((self.batch_size, *self.shape), self.dtype, arrays, rows_of([owners for _, owners in parts]))

    def mapped(self, function: Callable[[Any], Any]) -> Batched:
        """The same rows of another kind of array."""
        more = tuple([part.mapped(function) for part in self.more])
        return Batched(function(self.array), self.level, self.block_diagonal, self.owners, more)

    def parts(self) -> list[Batched]:
        """Aligned rows whose sum this is, each with owners of its own."""
        return [Batched(self.array, self.level, True, self.owners), *self.more] if self.more else [self]

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise EscapeError("a batch of values has no single NumPy value")

    def __repr__(self) -> str:
        return f"Batched({self.batch_size} rows of shape {self.shape}, {self.dtype})"


class EscapeError(TypeError):
    """A value was asked for in the middle of a batched computation; whoever batched it falls back to a loop."""


def _shape(array: Any) -> Shape:
    return tuple(array.shape)


def _owners(rows: Batched) -> RowIndex:
    return rows.owners or RowIndex.each(rows.shape[0])


class BatchedNamespace(Interpreter):
    """The primitives over batches."""

    rank = 4

    def interpret(self, name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
        return apply(name, args, attrs)

    def is_complex(self, x: Any) -> bool:
        return bool(_dtype(x).kind == "c")  # x may be a saved tensor, without a batch

    def zeros(self, shape: Shape, dtype: Any) -> Any:
        return np.zeros(shape, dtype)  # unbatched zeros go with any batch

    def ones_like(self, x: Any) -> Any:
        return np.ones(x.shape, x.dtype)

    def zeros_like(self, x: Any) -> Any:
        return np.zeros(x.shape, x.dtype)

    def from_numpy(self, x: Any) -> Any:
        return x


batched_namespace: Any = BatchedNamespace()
register_namespace(Batched, batched_namespace)


def apply(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> Any:
    """Run a primitive where some operands are batched: by its aligned rule, its batch rule, or row by row."""
    level = max((a.level for a in args if type(a) is Batched), default=0)
    if not level:  # a rule works on saved values alone, for a moment
        return getattr(common_namespace(args), name)(*args, **attrs)
    batched = [type(a) is Batched and a.level == level for a in args]
    if any(a.block_diagonal for a, b in zip(args, batched, strict=True) if b):
        result = _apply_aligned(name, level, args, attrs, [a for a, b in zip(args, batched, strict=True) if b])
        if result is not None:
            return result
    arrays = [a.rows() if b else a for a, b in zip(args, batched, strict=True)]
    size = next(_shape(a)[0] for a, b in zip(arrays, batched, strict=True) if b)
    xp = common_namespace(arrays)
    rule = batch_rules.get(name)
    result = rule(xp, size, batched, *arrays, **attrs) if rule is not None else None
    if result is None:
        result = loop(xp, name, size, batched, arrays, attrs)
    return tuple(Batched(r, level) for r in result) if type(result) is tuple else Batched(result, level)


def _apply_aligned(name: str, level: int, args: tuple[Any, ...], attrs: dict[str, Any], rows: list[Batched]) -> Any:
    """What the aligned rule makes of it, or None if the rows have to be written out."""
    rule = block_diagonal_rules.get(name)
    if rule is None:
        return None
    if all(a.owners is None and not a.more for a in rows):
        return _by_rule(rule, level, args, attrs)
    if len(rows) == 1:
        (moved,) = rows
        results = [
            _by_rule(rule, level, tuple([part if a is moved else a for a in args]), attrs, part.owners)
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
    rule: Callable[..., Any], level: int, args: tuple[Any, ...], attrs: dict[str, Any], owners: RowIndex | None = None
) -> Any:
    inner = common_namespace([a.array if type(a) is Batched and a.level == level else a for a in args])
    result = rule(inner, level, args, **attrs)
    if owners is not None and type(result) is Batched:
        assert result.block_diagonal, "a rule took moved positions for unmoved ones"
        result.owners = result.owners or owners
    return result


MOST_PARTS = 8
"""How many aligned rows with owners of their own are kept before all rows are written out."""


def _sum_of(parts: list[Batched]) -> Batched | None:
    """A sum of aligned rows: those that have the same owners, or fill each other's gaps, become one."""
    sums: list[Batched] = []
    for part in parts:
        for i, there in enumerate(sums):
            owners = _owners(there).joined(_owners(part))
            if owners is not None:
                sums[i] = Batched(there.array + part.array, part.level, True, owners)
                break
        else:
            sums.append(part)
    if len(sums) > min(MOST_PARTS, _owners(sums[0]).size // 2):
        return None
    first, *more = sums
    return Batched(first.array, first.level, True, first.owners, tuple(more))


def loop(xp: Any, name: str, size: int, batched: list[bool], arrays: list[Any], attrs: dict[str, Any]) -> Any:
    """The fallback that never fails: each row on its own, then stacked."""
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
    """Line the rows up: a batched operand of lower rank gets axes of length 1 after the hidden one."""

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
    """Aligned rows stay aligned where an elementwise op leaves the first axis alone.

    Rules are linear in what is batched, so the zeros off the diagonal stay zeros.
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
        if not known and not 0 < namespace_of(other).rank < batched_namespace.rank:  # nor an array of another engine
            return NotImplemented
        return apply(name, (other, self) if swapped else (self, other), {})

    return method


attach_operators(Batched, _operator, lambda name: lambda self: apply(name, (self,), {}))
