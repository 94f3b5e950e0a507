"""Backward passes on lazy arrays are recorded once for all tapes of the same structure (benchmark: gpu/naive_gpt).

What a pass adds to a trace depends on the ops of the records, their static arguments, how they are connected, and on
shapes and dtypes. The first pass of a structure is recorded as a block (`arrays/lazy/blocks.py`), on arrays that have
no values; all passes add this block. There is none where a rule needs a value, or is a function of the user's.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numpy import ndarray

from gradtape._src.arrays.lazy import Lazy
from gradtape._src.arrays.lazy.blocks import Block, NoBlockError, Pattern, block_of, recorded
from gradtape._src.arrays.lazy.calls import UnknownKindError, are_quick, frozen, spec_of
from gradtape._src.arrays.lazy.programs import Table
from gradtape._src.core.fast.backward import Cotangents, Shapes, backward_pass
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.interrupts import graph_traced
from gradtape._src.tensor import Tensor


class Task(NamedTuple):
    """The arguments of a backward pass, as for `backward_pass`; sources are uids."""

    records: list[Any]
    shapes: Shapes
    cotangents: Cotangents
    sources: Sequence[int]
    kept: frozenset[int]


def known_backward_pass(task: Task, *, release: bool, unreached: list[Any] | None) -> Cotangents | None:
    """Compute the cotangents of the sources; None if `backward_pass` has to do it."""
    structure = _structure(task)
    if structure is None:
        return None
    key, arrays, device = structure
    try:
        found = _known.get(key)
    except TypeError:  # a list among the static arguments
        return None
    known: _Pass = _recorded(key, task, arrays, device) if found is None else found[0]
    known.runs += 1
    if known.block is None:
        return None
    made = known.block.add(arrays, device)
    records = task.records
    if unreached is not None:
        unreached += [(*records[i][:3], (), *records[i][4:]) for i in known.unreached]
    if release:
        records.clear()
    return {uid: part.of(arrays, made) for uid, part in zip(task.sources, known.results, strict=True) if part}


class _Pass:
    """The backward passes of all tapes with one structure.

    block      their calls; None where they are not a block
    results    for each source, where its cotangent is
    unreached  the places of the records without a cotangent, the last one first
    runs       how many there were
    """

    __slots__ = ("block", "results", "runs", "unreached")

    def __init__(self, block: Block | None, results: Sequence[Any] = (), unreached: Sequence[int] = ()) -> None:
        self.block, self.results, self.unreached, self.runs = block, results, unreached, 0


_known = Table()


class _Place(NamedTuple):
    """Where a cotangent is: among the arrays that a pass takes, or behind these, among the results of its block.

    shape  of an array on the host that it is in another shape
    """

    number: int
    shape: tuple[int, ...] | None = None

    def of(self, arrays: Sequence[Any], made: Sequence[Any]) -> Any:
        """The cotangent."""
        if self.number >= len(arrays):
            return made[self.number - len(arrays)]
        found = arrays[self.number]
        return found if self.shape is None else found.reshape(self.shape)


class _SparsePlace(NamedTuple):
    """The same for a sparse cotangent."""

    values: _Place
    indices: _Place
    shape: tuple[int, ...]

    def of(self, arrays: Sequence[Any], made: Sequence[Any]) -> Any:
        """The cotangent."""
        return SparseCotangent(self.values.of(arrays, made), self.indices.of(arrays, made), self.shape)


# -- what the calls of a pass depend on ------------------------------------------------------------------------------
def _structure(task: Task) -> tuple[Any, list[Any], Any] | None:
    """A key for what a pass depends on besides values, its arrays, and their device; None where these are not lazy.

    Uids become numbers, in the order in which they come. The part of a cotangent has its spec, that of a source whether
    it is kept, and that of a record begins with its op.
    """
    arrays = [*task.cotangents.values()]
    if not arrays or type(arrays[0]) is not Lazy or graph_traced.get() is not None:
        return None
    device = arrays[0].spec.device
    numbers: dict[int, int] = defaultdict(itertools.count().__next__)
    parts: list[Any] = []
    for uid, g in task.cotangents.items():
        if type(g) is not Lazy or g.spec.device is not device:
            return None
        parts += (numbers[uid], g.spec)
    kept = task.kept
    for uid in task.sources:
        parts += (numbers[uid], uid in kept)
    if not _add_records(task.records, numbers, parts, arrays, device):
        return None
    return (tuple(parts), tuple(map(task.shapes.get, numbers)), len(task.sources)), arrays, device


def _add_records(records: list[Any], numbers: dict[int, int], parts: list[Any], arrays: list[Any], device: Any) -> bool:
    """Add the parts of records and the arrays that they save; False where that is not possible."""
    for op, inputs, output, values, attrs, dtype in records:  # no call for each (benchmark: gpu/naive_gpt)
        if type(inputs) is int:
            parts += (op, numbers[inputs], numbers[output], dtype)
        elif type(output) is tuple or len(inputs) > 2:
            outputs = output if type(output) is tuple else (output,)
            parts += (op, tuple([numbers[uid] for uid in inputs]), tuple([numbers[uid] for uid in outputs]), dtype)
        elif len(inputs) == 2:
            parts += (op, numbers[inputs[0]], numbers[inputs[1]], numbers[output], dtype)
        else:
            parts += (op, numbers[inputs[0]] if inputs else (), numbers[output], dtype)
        for value in values if type(values) is tuple else (values,):
            if value is None:
                parts.append(None)
                continue
            array = value.array
            if type(array) is Lazy and (spec := array.spec).device is device:
                parts.append(spec)
            elif type(array) is ndarray and array.dtype.kind != "O":
                parts.append((array.shape, array.dtype))
            else:
                return False
            arrays.append(array)
        if attrs:
            static = attrs.values()
            types = tuple(map(type, static))
            if types in _QUICK_TYPES and "index" not in attrs:
                parts += (*attrs, *static, types)
            elif (others := _frozen(attrs, types)) is None:
                return False
            else:
                parts += others
    return True


_QUICK_TYPES: set[tuple[type, ...]] = set()
"""Types of static arguments that differ where their types do, or are equal."""


def _frozen(attrs: dict[str, Any], types: tuple[type, ...]) -> tuple[Any, ...] | None:
    """Static arguments as parts of a key; None if they are not hashable."""
    if are_quick(attrs):
        if float not in types:
            _QUICK_TYPES.add(types)
        return (*attrs, *attrs.values(), types)
    try:
        return "", frozen(attrs)
    except UnknownKindError:
        return None


# -- the first pass of a structure -----------------------------------------------------------------------------------
def _recorded(key: Any, task: Task, arrays: list[Any], device: Any) -> _Pass:
    """Record the block of a structure."""

    def run(pattern: Pattern) -> tuple[list[Any], list[int], list[Any]]:
        given = iter(pattern.arrays)
        start = dict(zip(task.cotangents, given, strict=False))
        records = [_with_arrays(record, given) for record in task.records]
        unreached: list[Any] = []
        found = backward_pass(
            records, task.shapes, start, kept=task.kept, traced=False, release=True, unreached=unreached
        )
        return *_places(pattern, [found.get(uid) for uid in task.sources], arrays), unreached

    specs = [a.spec if type(a) is Lazy else spec_of(a.shape, a.dtype, device) for a in arrays]
    found = None if any(record[0].trusted for record in task.records) else recorded(run, specs, device)
    known = _Pass(None)
    if found is not None:
        (results, wanted, unreached), pattern = found
        numbers = {record[2]: i for i, record in enumerate(task.records)}
        known = _Pass(block_of(pattern, wanted), results, [numbers[record[2]] for record in unreached])
    _known.add(key, known, known)
    return known


def _with_arrays(record: Any, arrays: Iterator[Lazy]) -> Any:
    """A record with other arrays as its saved values."""
    op, inputs, output, values, attrs, dtype = record
    saved: Any = [None if value is None else Tensor() for value in (values if type(values) is tuple else (values,))]
    for tensor in saved:
        if tensor is not None:
            tensor.array, tensor.uid = next(arrays), 0
    return op, inputs, output, tuple(saved) if type(values) is tuple else saved[0], attrs, dtype


def _places(pattern: Pattern, found: list[Any], arrays: list[Any]) -> tuple[list[Any], list[int]]:
    """Where cotangents are, and the numbers of the results of the pattern among them."""
    wanted: dict[int, int] = {}

    def place(array: Any) -> _Place:
        number = pattern.number(array)
        if number is None or (number < len(arrays) and type(arrays[number]) is not Lazy):
            raise NoBlockError("a cotangent that no call computes")
        return _Place(number if number < len(arrays) else wanted.setdefault(number, len(arrays) + len(wanted)))

    def place_of_indices(array: Any) -> _Place:
        number = pattern.number(array)
        origin = pattern.operand_of(array, "reshape") if number is None or number >= len(arrays) else number
        if origin is not None and origin < len(arrays) and type(arrays[origin]) is ndarray:
            return _Place(origin, tuple(array.shape))  # those on the host stay there
        if any(type(a) is ndarray and a.shape for a in arrays):
            raise NoBlockError("indices that may be on the host")
        return place(array)

    places: list[Any] = []
    for g in found:
        if type(g) is SparseCotangent:
            places.append(_SparsePlace(place(g.values), place_of_indices(g.indices), g.shape))
        else:
            places.append(None if g is None else place(g))
    return places, [*wanted]
