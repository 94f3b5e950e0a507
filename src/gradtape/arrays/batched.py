"""Batched: an array of any engine with a hidden leading axis, so that one sweep carries many cotangents.

What a formula sees (shape, operators, axes) is one row. Every primitive says how it works on a batch (`op.batch`);
one that does not is looped over, row by row, for that one op.

`aligned` rows. The Jacobian of a target with a leading axis of length B has B times K rows, and row (b, k) starts
with a cotangent that is zero except at position b of that axis. As long as ops treat the positions of that axis
separately, everything off the diagonal stays zero, and only the diagonal is computed: the array holds [K, B, ...]
where the rows would be [B * K, B, ...]. An op that mixes positions without knowing better gets the rows written out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradtape.arrays import attach_operators, common_namespace, namespace_of, register_namespace

Shape = tuple[int, ...]

batch_rules: dict[str, Callable[..., Any]] = {}
"""Primitive -> how to run it on a batch: rule(xp, size, flags, *arrays, **attrs), flags saying which are batched."""

aligned_rules: dict[str, Callable[..., Any]] = {}
"""Primitive -> how to run it on aligned rows: rule(xp, *operands, **attrs), or None to have them written out."""


class Batched:
    """Rows of equal shape, stacked along a hidden first axis (see the module for `aligned`)."""

    __slots__ = ("aligned", "array", "level")
    __array_ufunc__ = None  # NumPy's operators give way to these

    def __init__(self, array: Any, level: int, aligned: bool = False) -> None:
        self.array, self.level, self.aligned = array, level, aligned

    @property
    def shape(self) -> Shape:
        """The shape of one row."""
        return tuple(_shape(self.array)[1:])

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def dtype(self) -> Any:
        return _dtype(self.array)

    @property
    def batch_size(self) -> int:
        """How many rows there are."""
        rows: int = _shape(self.array)[0]
        return rows * self.shape[0] if self.aligned else rows

    def rows(self) -> Any:
        """All rows, written out: an array [rows, *shape] of the engine underneath."""
        if not self.aligned:
            return self.array
        xp = namespace_of(self.array)
        count, size, *rest = _shape(self.array)
        by_position = xp.transpose(self.array, perm=(1, 0, *range(2, 2 + len(rest))))  # [B, K, ...]
        diagonal = np.eye(size, dtype=bool).reshape(size, 1, size, *[1] * len(rest))
        spread = xp.reshape(by_position, shape=(size, count, 1, *rest))
        full = xp.where(diagonal, spread, xp.zeros((1,), self.dtype))
        return xp.reshape(full, shape=(size * count, size, *rest))

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise EscapeError("a batch of values has no single NumPy value")

    def __repr__(self) -> str:
        return f"Batched({self.batch_size} rows of shape {self.shape}, {self.dtype})"


class EscapeError(TypeError):
    """A value was asked for in the middle of a batched computation; whoever batched it falls back to a loop."""


def _shape(array: Any) -> Shape:
    return tuple(array.shape)


class BatchedNamespace:
    """The primitives over batches."""

    rank = 4

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)

        def call(*args: Any, **attrs: Any) -> Any:
            return apply(name, args, attrs)

        setattr(self, name, call)
        return call

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
    if any(a.aligned for a, b in zip(args, batched, strict=True) if b):
        rule = aligned_rules.get(name)
        inner = common_namespace([a.array if b else a for a, b in zip(args, batched, strict=True)])
        result = rule(inner, level, args, **attrs) if rule is not None else None
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


def elementwise_aligned(name: str) -> Callable[..., Any]:
    """Aligned rows stay aligned where an elementwise op leaves the first axis alone.

    Rules are linear in what is batched, so the zeros off the diagonal stay zeros.
    """

    def rule(xp: Any, level: int, operands: tuple[Any, ...], **attrs: Any) -> Any:
        shape, arrays = None, []
        for a in operands:
            if type(a) is Batched and a.level == level:
                if not a.aligned or (shape is not None and a.shape != shape):
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
        return Batched(result, level, aligned=True)

    return rule


def _operator(name: str, swapped: bool = False) -> Callable[[Any, Any], Any]:
    def method(self: Any, other: Any) -> Any:
        known = isinstance(other, (int, float, complex, np.ndarray, np.generic, Batched)) or hasattr(other, "uid")
        if not known and not 0 < namespace_of(other).rank < batched_namespace.rank:  # nor an array of another engine
            return NotImplemented
        return apply(name, (other, self) if swapped else (self, other), {})

    return method


attach_operators(Batched, _operator, lambda name: lambda self: apply(name, (self,), {}))
