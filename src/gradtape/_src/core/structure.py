"""Structural rules and their propagation over a tape: the elements of the sources that each element can depend on.

A structural rule maps the index sets of a primitive's inputs (`core/index_sets.py`) to those of its outputs. It is
declared with the primitive, as `structure=`, usually as one of the functions below. Elementwise primitives have theirs
by default; a primitive without a rule is treated as dense: each output depends on all inputs.

A global pattern holds at every point. It may use only values that are the same everywhere: a factor from outside of the
tape that is zero, and integers that select elements. A local pattern holds at the point of the record: there a zero
factor, or the branch of `where` that was not taken, removes a dependence.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.core.index_sets import Ids, IndexSets
from gradtape._src.core.primitive import Op, parameters
from gradtape._src.core.tape import Record
from gradtape._src.interrupts import float_errors_ignored

Shape = tuple[int, ...]
Rule = Callable[["OpCall"], Any]


class OpCall:
    """One record, as seen by a structural rule.

    `ids` are the index sets of the inputs, None for an input that does not depend on the sources.
    """

    __slots__ = (
        "attrs",
        "dtypes",
        "ids",
        "local",
        "op",
        "outputs",
        "propagation",
        "record",
        "sets",
        "shapes",
        "steady",
    )

    def __init__(self, record: Record, sets: IndexSets, ids: list[Ids | None], propagation: Propagation) -> None:
        self.op, self.record, self.attrs = record.op, record, record.attrs
        self.sets, self.ids, self.propagation, self.local = sets, ids, propagation, propagation.local
        outputs = record.output if type(record.output) is tuple else (record.output,)
        self.dtypes = record.dtype if type(record.dtype) is tuple else (record.dtype,)
        self.shapes = [self._shape_of(slot, uid) for slot, uid in enumerate(record.inputs)]
        self.outputs: list[Any] = [propagation.shape(uid) for uid in outputs]
        self.steady = [propagation.is_steady(uid) for uid in (*record.inputs, *outputs)]

    def _shape_of(self, slot: int, uid: int) -> Shape | None:
        shape = self.propagation.shape(uid)
        if shape is None and slot < len(self.record.values) and (saved := self.record.values[slot]) is not None:
            shape = tuple(saved.array.shape)
        return shape

    @property
    def shape(self) -> Shape:
        """The shape of the only output."""
        shape: Shape = self.outputs[0]
        return shape

    def value(self, slot: int) -> Any:
        """A saved value that the pattern may use: it is known, and constant or the pattern is `local`."""
        saved = self.record.values[slot] if slot < len(self.record.values) else None
        if saved is None or not (self.local or self.steady[slot]):
            return None
        array = saved.array
        return None if type(array) in (Symbolic, Batched) else np.asarray(array)

    def saved(self, name: str) -> Any:
        """`value` by its name in the declaration."""
        slot = self.op.slot(name)
        return None if slot is None else self.value(slot)

    def dense_input(self, position: int) -> Ids:
        """The sets of an input; empty sets if it does not depend on the sources."""
        ids = self.ids[position]
        return np.zeros(self.shapes[position] or (), np.int64) if ids is None else ids

    def empty(self, output: int = 0) -> Ids:
        return np.zeros(self.outputs[output] or (), np.int64)


# -- rules -----------------------------------------------------------------------------------------------------------
def elementwise(call: OpCall) -> Ids:
    """Each output depends on the elements at its own position; a zero factor removes the dependence."""
    parts = []
    for position, (ids, rule) in enumerate(zip(call.ids, call.op.rules, strict=True)):
        if ids is None or rule is None:
            continue
        ids = np.broadcast_to(ids, call.shape)
        factor = _factor(call, position, rule)
        parts.append(ids if factor is None else np.where(factor == 0, 0, ids))
    return call.sets.union(*parts) if parts else call.empty()


def _factor(call: OpCall, position: int, rule: Any) -> Any:
    """The derivative by one operand of an elementwise op, if the pattern may use its saved values; else None."""
    slots = [slot for slot in map(call.op.slot, parameters(rule)) if slot is not None]
    saved = [None] * len(call.steady)
    for slot in slots:
        saved[slot] = value = call.value(slot)
        if value is None:
            return None
    if not slots:
        return None
    one = np.ones(call.shape, call.dtypes[0])
    with float_errors_ignored():
        found = _vjp_of_input(call, position, one, call.shapes[position] or (), saved)
    return np.broadcast_to(found, call.shape)


def _vjp_of_input(call: OpCall, position: int, g: Any, shape: Shape, saved: list[Any]) -> Any:
    """The vjp of one input for a cotangent."""
    from gradtape._src.core.vjp import vjp_of_input

    return vjp_of_input(call.op, position, g, shape, saved, call.attrs, False)


def unchanged(call: OpCall) -> Ids:
    """The output has the same sets as the input."""
    return call.dense_input(0)


def dense(call: OpCall) -> Any:
    """Each output depends on all inputs."""
    call.propagation.dense_ops.append(call.op.name)
    known = [ids.reshape(-1) for ids in call.ids if ids is not None]
    everything = call.sets.union_over(np.concatenate(known), (0,)) if known else np.zeros((), np.int64)
    found = tuple(np.broadcast_to(everything, shape or ()) for shape in call.outputs)
    return found if call.op.outputs else found[0]


def moves(call: OpCall) -> Any:
    """The kernel rearranges elements, and fills in zeros: it rearranges sets in the same way."""
    operands = []
    for position, rule in enumerate(call.op.rules or [True] * len(call.ids)):
        if rule is not None:
            operands.append(call.dense_input(position))
        elif (value := call.value(position)) is not None:
            operands.append(value)
        else:
            return dense(call)  # the arrangement depends on the point
    return getattr(numpy_namespace, call.op.name)(*operands, **call.attrs)


def scatters(call: OpCall) -> Ids:
    """Zeros with elements added at some positions: the vjp rule, which gathers, tells where each element goes."""
    ids = call.ids[0]
    others = [i for i, rule in enumerate(call.op.rules) if rule is None]
    if ids is None or any(call.value(i) is None for i in others):
        return dense(call)
    places = np.arange(1, math.prod(call.shape) + 1).reshape(call.shape)
    saved = [call.value(slot) for slot in range(len(call.steady))]
    places = np.broadcast_to(_vjp_of_input(call, 0, places, ids.shape, saved), ids.shape)
    return scattered(call, ids, places)


def scattered(call: OpCall, ids: Ids, places: Any) -> Ids:
    """The union of the sets that are added at each position of the output; positions count from 1, 0 means none."""
    return call.sets.group(ids, places, math.prod(call.shape) + 1)[1:].reshape(call.shape)


def reduces(call: OpCall) -> Ids:
    """A reduction over axes: one output for each group."""
    ids = call.ids[0]
    return call.empty() if ids is None else call.sets.union_over(ids, call.attrs["axis"]).reshape(call.shape)


def picks_extreme(call: OpCall) -> Ids:
    """A reduction that selects one element of each group: locally, the one that is equal to the result."""
    ids, x, out = call.ids[0], call.value(0) if call.local else None, call.value(1) if call.local else None
    if ids is not None and x is not None and out is not None:
        axis = call.attrs["axis"]
        kept = out.reshape([1 if i in axis else n for i, n in enumerate(x.shape)])
        ids = np.where(x == kept, ids, 0)
    return call.empty() if ids is None else call.sets.union_over(ids, call.attrs["axis"]).reshape(call.shape)


def mixes_axis(call: OpCall) -> Any:
    """All elements along one or more axes depend on each other."""
    axis = call.attrs["axis"]
    return mixes(lambda call: (axis,) if isinstance(axis, int) else axis)(call)


def mixes(axes_of: Callable[[OpCall], Sequence[int]]) -> Rule:
    """All elements along some axes depend on each other; outputs may have other sizes there, or lack these axes."""

    def rule(call: OpCall) -> Any:
        rank = next(ids.ndim for ids in call.ids if ids is not None)
        axes = [a % rank for a in axes_of(call)]
        parts = [call.sets.union_over(ids, axes, keepdims=True) for ids in call.ids if ids is not None]
        merged = call.sets.union(*parts)
        reduced = merged.reshape([n for i, n in enumerate(merged.shape) if i not in axes])
        found = tuple(
            np.broadcast_to(merged if len(shape) == merged.ndim else reduced, shape) for shape in call.outputs
        )
        return found if call.op.outputs else found[0]

    return rule


mixes_last = mixes(lambda call: (-1,))


def scans(call: OpCall) -> Ids:
    """Cumulative sums and the like: an output depends on the elements before it."""
    axis, exclusive, reverse = (call.attrs[name] for name in ("axis", "exclusive", "reverse"))
    size = call.shape[axis]
    seen = np.tri(size, k=-1 if exclusive else 0, dtype=bool)
    seen = seen[::-1, ::-1] if reverse else seen
    return call.sets.union(*[along_axis(call, ids, axis, seen) for ids in call.ids if ids is not None])


def matrix_along_axis(call: OpCall) -> Ids:
    """A linear map along one axis, with the matrix that the kernel returns for unit vectors."""
    axis, ids = call.attrs["axis"], call.ids[0]
    if ids is None:
        return call.empty()
    matrix = getattr(numpy_namespace, call.op.name)(np.eye(ids.shape[axis]), **{**call.attrs, "axis": 0})
    return along_axis(call, ids, axis, matrix != 0)


def along_axis(call: OpCall, ids: Ids, axis: int, matrix: Any) -> Ids:
    """The sets after a boolean matrix [outputs, inputs] has mixed the elements of an axis."""
    front = np.moveaxis(ids, axis, 0)
    rest = front.shape[1:]
    rows, columns = np.nonzero(matrix)
    count = math.prod(rest)
    groups = rows[:, None] * count + np.arange(count)
    flat = call.sets.group(front.reshape(len(front), count)[columns], groups, len(matrix) * count)
    return np.moveaxis(flat.reshape(len(matrix), *rest), 0, axis)


def matrices(call: OpCall) -> Any:
    """Functions of matrices: each output depends on all elements of its matrix; leading axes are separate."""
    rank = len(call.shapes[0] or ())
    front = (call.shapes[0] or ())[: rank - 2]
    parts = [call.sets.union_over(ids, (ids.ndim - 2, ids.ndim - 1)) for ids in call.ids if ids is not None]
    merged = np.broadcast_to(call.sets.union(*parts), front)
    if any(shape[: len(front)] != front for shape in call.outputs):
        return dense(call)
    found = tuple(
        np.broadcast_to(merged.reshape((*front, *[1] * (len(shape) - len(front)))), shape) for shape in call.outputs
    )
    return found if call.op.outputs else found[0]


def solves(call: OpCall) -> Ids:
    """x⁻¹ y: an element depends on the whole matrix, and on its column of y."""
    x, y = call.ids
    parts = []
    if x is not None:
        parts.append(call.sets.union_over(x, (x.ndim - 2, x.ndim - 1), keepdims=True))
    if y is not None:
        parts.append(call.sets.union_over(y, (y.ndim - 2,), keepdims=True))
    return np.broadcast_to(call.sets.union(*parts), call.shape)


# -- sums of products ------------------------------------------------------------------------------------------------
def contraction(sets: IndexSets, equation: str, ids: Sequence[Ids | None], factors: Sequence[Any], shape: Shape) -> Ids:
    """The sets of an einsum with a result of this shape. `factors` are operands with usable zeros, or None."""
    inputs, output = equation.split("->")
    terms = inputs.split(",")
    sizes = _sizes(terms, [a if a is not None else f for a, f in zip(ids, factors, strict=True)])
    sizes.update(zip(output, shape, strict=True))
    parts = []
    for i, (term, own) in enumerate(zip(terms, ids, strict=True)):
        if own is not None:
            zeros = [(t, f) for j, (t, f) in enumerate(zip(terms, factors, strict=True)) if j != i and f is not None]
            zeros = [(t, f) for t, f in zeros if not np.all(f)]
            parts.append(_contracted(sets, term, own, output, zeros, sizes))
    return sets.union(*parts) if parts else np.zeros(shape, np.int64)


def _sizes(terms: Sequence[str], arrays: Sequence[Any]) -> dict[str, int]:
    """The size of each index; an axis of length 1 may be broadcast."""
    sizes: dict[str, int] = {}
    for term, array in zip(terms, arrays, strict=True):
        if array is not None:
            for label, n in zip(term, array.shape, strict=True):
                sizes[label] = max(sizes.get(label, 1), n)
    return sizes


def _contracted(
    sets: IndexSets, term: str, ids: Ids, output: str, zeros: Sequence[tuple[str, Any]], sizes: dict[str, int]
) -> Ids:
    """The dependence of the output on one operand, given the factors with zeros."""
    for i, label in enumerate(term):  # a repeated index is a diagonal
        if label in term[:i]:
            return _contracted(sets, *_on_diagonal(term, ids, label), output, zeros, sizes)
    kept = [(t, np.asarray(f != 0)) for t, f in zeros if set(t) & (set(term) - set(output))]
    if not kept:
        gone = [i for i, label in enumerate(term) if label not in output]
        merged = sets.union_over(ids, gone)
        left = [label for label in term if label in output]
        found = np.transpose(merged, [left.index(label) for label in output if label in left])
        found = found.reshape([found.shape[_left_of(output, left).index(c)] if c in left else 1 for c in output])
        return np.broadcast_to(_masked(found, output, zeros, sizes), tuple(sizes[c] for c in output))
    labels = list(dict.fromkeys([*kept[0][0], *term, *output]))
    mask_term, mask = kept[0]
    places = dict(zip(mask_term, np.nonzero(np.broadcast_to(mask, [sizes[c] for c in mask_term])), strict=True))
    others = [c for c in labels if c not in places and c in set(term) | set(output)]
    grid = np.indices([sizes[c] for c in others]).reshape(len(others), -1)
    count = len(next(iter(places.values())))
    at = {c: p[:, None] for c, p in places.items()} | {c: g[None, :] for c, g in zip(others, grid, strict=True)}
    shape = (count, grid.shape[1])
    own = tuple([np.broadcast_to(at[c] if n > 1 else 0, shape) for c, n in zip(term, ids.shape, strict=True)])
    target = np.zeros(shape, np.int64)
    for c in output:
        target = target * sizes[c] + at[c]
    flat = sets.group(ids[own], target, math.prod(sizes[c] for c in output))
    return flat.reshape([sizes[c] for c in output])


def _left_of(output: str, left: Sequence[str]) -> list[str]:
    """The indices of the output that an operand has, in the order of the output."""
    return [c for c in output if c in left]


def _masked(found: Ids, output: str, zeros: Sequence[tuple[str, Any]], sizes: dict[str, int]) -> Ids:
    """Remove what factors multiply by zero, for factors whose indices all occur in the output."""
    for term, factor in zeros:
        if set(term) <= set(output) and len(set(term)) == len(term):
            mask = np.transpose(factor != 0, [term.index(c) for c in output if c in term])
            inside = iter(mask.shape)
            found = np.where(mask.reshape([next(inside) if c in term else 1 for c in output]), found, 0)
    return found


def _on_diagonal(term: str, ids: Ids, label: str) -> tuple[str, Ids]:
    first, second = term.index(label), term.index(label, term.index(label) + 1)
    diagonal = np.diagonal(ids, axis1=first, axis2=second)
    rest = "".join(c for i, c in enumerate(term) if i not in (first, second))
    return rest + label, diagonal


# -- the pass over a tape --------------------------------------------------------------------------------------------
class Propagation:
    """The pass over records that finds the index sets of all tensors that depend on the sources."""

    def __init__(self, sets: IndexSets, shapes: Any, local: bool) -> None:
        self.sets, self.local = sets, local
        self._shapes = shapes
        self.ids: dict[int, Ids] = {}
        self.dense_ops: list[str] = []  # names of ops that were treated as dense
        self._leak = 2**63  # the first value that depends on the sources through a comparison or an index

    def shape(self, uid: int) -> Shape | None:
        """The shape of a tensor that the tape tracks."""
        return self._shapes.get(uid)

    def is_steady(self, uid: int) -> bool:
        """Whether a value is the same at every point: the tape does not track it, and it precedes any `x > 0`."""
        return uid < self._leak and self.shape(uid) is None and uid not in self.ids

    def run(self, records: Iterable[Any], sources: dict[int, Ids]) -> dict[int, Ids]:
        """The index sets of all tensors by uid, from those of the sources."""
        self.ids.update(sources)
        for record in records:
            record = Record.of(record)
            outputs = record.output if type(record.output) is tuple else (record.output,)
            ids = [self.ids.get(uid) for uid in record.inputs]
            if not record.op.differentiable or any(self.shape(uid) is None for uid in outputs):
                self._leak = min(self._leak, *outputs)
            if record.op.differentiable and any(own is not None for own in ids):
                found = self._apply(record, ids)
                for uid, own in zip(outputs, found, strict=True):
                    if uid in sources:  # the source is also the result of an op: unite both
                        own = self.sets.union(own, sources[uid])
                    if self.shape(uid) is not None:
                        self.ids[uid] = own
        return self.ids

    def _apply(self, record: Record, ids: list[Ids | None]) -> tuple[Ids, ...]:
        op: Op = record.op
        call = OpCall(record, self.sets, ids, self)
        rule = op.structure or (elementwise if op.elementwise or op.category == "elementwise" else dense)
        found = rule(call)
        return found if type(found) is tuple else (found,)
