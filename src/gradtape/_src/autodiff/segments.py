"""Segments of a recording: consecutive records that a memory limit drops, and recomputes, together.

A segment ends where few bytes are live. Values that later segments use are kept, so that each segment can be recomputed
without the others. Neighboring segments can be merged, which frees the values in between: a merged segment is a tree,
and is split again if recomputing it needs too much memory.

Uids increase in program order.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeAlias

import numpy as np
from numpy import ndarray

from gradtape._src.core.primitive import Op
from gradtape._src.core.tape import use_recorders
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import CONSTANT, Tensor

_FLOAT32 = np.dtype("float32")
_NOTHING: tuple[()] = ()


Step: TypeAlias = tuple[Op, tuple[Any, ...], dict[str, Any], tuple[int, ...], Any]
"""An op to recompute: op, operands (the uid of another value, or an array), attrs, outputs and their dtype."""


class Segment:
    """Consecutive records: `place` is the index of the first of them, `start` and `end` are the uids of outputs.

    own         bytes of each value that is computed here and saved, here or later, unless it is merged
    outside     operands from outside of the tape: by the first output of an op, all of its operands
    data        bytes of saved values from outside of the tape, which cannot be recomputed
    seconds     the time to recompute it
    is_dropped  whether its records have placeholders instead of its values
    score       seconds of recomputation per byte of the next step of dropping
    """

    __slots__ = (
        "children",
        "data",
        "end",
        "is_dropped",
        "outside",
        "own",
        "pins",
        "place",
        "records",
        "score",
        "seconds",
        "start",
    )

    def __init__(self, place: int, records: list[Any], outside: dict[int, tuple[Any, ...]]) -> None:
        self.place, self.records, self.outside = place, records, outside
        self.start, self.end = (first_output(records[0]), outputs_of(records[-1])[-1]) if records else (0, 0)
        self.own: dict[int, int] = {}
        self.data: dict[int, int] = {}
        self.seconds = self.score = 0.0
        self.pins = 0
        self.is_dropped = False
        self.children: tuple[Segment, Segment] | None = None

    @staticmethod
    def merged(left: Segment, right: Segment) -> Segment:
        """Merge two dropped neighbors."""
        both = Segment(left.place, [], {})
        both.start, both.end = left.start, right.end
        both.children, both.is_dropped = (left, right), True
        both.seconds = left.seconds + right.seconds
        both.data = {**right.data, **left.data}
        return both

    @property
    def values(self) -> dict[int, int]:
        """The bytes of each value that is computed here and saved, here or later."""
        if self.children is None:
            return self.own
        return {uid: nbytes for leaf in self.leaves() for uid, nbytes in leaf.own.items()}

    @property
    def owned(self) -> set[int]:
        """Its values, and the data that no earlier segment has."""
        return {*self.values, *[key for key, nbytes in self.data.items() if nbytes]}

    def leaf_of(self, uid: int) -> Segment:
        """The segment in the tree that contains a uid."""
        segment = self
        while segment.children is not None:
            left, right = segment.children
            segment = right if uid >= right.start else left
        return segment

    def leaves(self) -> Iterator[Segment]:
        """The segments that it was merged from, in order."""
        pending = [self]
        while pending:
            segment = pending.pop()
            if segment.children is None:
                yield segment
            else:
                pending += reversed(segment.children)

    def forget_saved(self) -> None:
        """Release the values that its records save."""
        for leaf in self.leaves():
            leaf.records = [r if r[3] is _NOTHING else (r[0], r[1], r[2], _NOTHING, r[4], r[5]) for r in leaf.records]

    def steps(self) -> list[Step]:
        """Its ops, in order."""
        found = []
        for leaf in self.leaves():
            outside = leaf.outside
            for op, inputs, output, _, attrs, dtype in leaf.records:
                outputs = output if type(output) is tuple else (output,)
                operands = outside.get(outputs[0]) or ((inputs,) if type(inputs) is int else inputs)
                found.append((op, operands, attrs, outputs, dtype))
        return found


def outputs_of(record: Any) -> tuple[int, ...]:
    output = record[2]
    return output if type(output) is tuple else (output,)


def first_output(record: Any) -> int:
    return outputs_of(record)[0]


def inputs_of(record: Any) -> tuple[int, ...]:
    uids = record[1]
    return (uids,) if type(uids) is int else uids


def saved_tensors(record: Any) -> Iterable[Any]:
    """The values that a record saves."""
    values = record[3]
    return [t for t in values if t is not None] if type(values) is tuple else (values,)


# -- where a segment ends ----------------------------------------------------------------------------------------------
def best_cut(records: Sequence[Any], saved: Mapping[int, Any], inside: Container[int]) -> int:
    """The number of records to put into a segment: it ends in the later half, where the fewest bytes are live.

    Live values, of those `inside` the records, have to be saved. If there are none, all records belong to the segment.
    """
    begin = len(records) // 2
    made: dict[int, int] = {}
    last_use: dict[int, int] = {}
    for i, record in enumerate(records[begin:]):
        inputs, output = record[1], record[2]
        for uid in (inputs,) if type(inputs) is int else inputs:
            if uid in inside:
                last_use[uid] = i
        if type(output) is int:
            made[output] = i
        else:
            made.update(dict.fromkeys(output, i))
    change = [0.0] * (len(records) - begin + 1)
    for uid, last in last_use.items():
        nbytes = float(saved[uid].array.nbytes) if uid in saved else 1e30
        change[made.get(uid, 0)] += nbytes
        change[last] -= nbytes
    live = list(accumulate(change))
    places = range(len(records) - begin - 1)
    best = min(places, key=lambda i: (live[i], -i), default=None)
    return len(records) if best is None or live[best] >= 1e29 else begin + best + 1


# -- recomputation -----------------------------------------------------------------------------------------------------
def needed(
    steps: Sequence[Step], wanted: Iterable[int], is_available: Callable[[int], bool]
) -> list[tuple[Step, list[int]]]:
    """The steps that compute the wanted values from available ones, in order, each with the values that are not needed
    after it.
    """
    missing = set(wanted)
    used: set[int] = set()
    found = []
    for step in reversed(steps):
        _, operands, _, outputs, _ = step
        if not missing.isdisjoint(outputs):
            last = [uid for uid in outputs if uid not in used]
            for uid in operands:
                if type(uid) is int and uid not in used:
                    used.add(uid)
                    if not is_available(uid):
                        missing.add(uid)
                        last.append(uid)
            found.append((step, last))
    return found[::-1]


def run(
    steps: Sequence[tuple[Step, list[int]]],
    wanted: Collection[int],
    roots: Mapping[int, Any],
    read: Callable[[int], Any],
) -> dict[int, Any]:
    """Run steps again, with the same kernels and unrecorded; return the wanted arrays."""
    found: dict[int, Any] = {}
    made: dict[int, Any] = {**roots}
    given: Any
    array: Any
    with use_recorders(()), float_errors_ignored():
        for (op, operands, attrs, outputs, dtype), last in steps:
            given = [u if type(u) is not int else made[u] if u in made else read(u) for u in operands]
            array = None
            if dtype is _FLOAT32:
                kernel: Any = op.kernel
                array = kernel(*given, **attrs) if attrs else kernel(*given)
            if type(array) is ndarray and array.dtype is dtype:
                made[outputs[0]] = array
            else:
                made.update(zip(outputs, _results(op, given, attrs), strict=True))
            for uid in last:
                array = made.pop(uid, None)
                if uid in wanted and array is not None:
                    found[uid] = array
            given = array = None  # what is not in `made` is free while the next step runs
    return found


def _results(op: Op, given: list[Any], attrs: dict[str, Any]) -> Sequence[Any]:
    """The results of an op for these arrays, which may need conversion: from its call."""
    found = op.call(*[constant(array) for array in given], **attrs)
    return [t.array for t in found] if type(found) is tuple else (found.array,)


# -- the end of a recording --------------------------------------------------------------------------------------------
class Window:
    """The last records of a recording, which do not belong to a segment yet."""

    __slots__ = ("clocks", "inside", "nbytes", "outside", "place", "saved")

    def __init__(self, place: int) -> None:
        self.place = place
        self.inside: set[int] = set()  # values that are computed in it, and can be recomputed
        self.outside: dict[int, tuple[Any, ...]] = {}
        self.saved: dict[int, Any] = {}  # tensors that its records save, by `key_of`
        self.nbytes = 0  # of the saved tensors
        self.clocks: list[float] = []  # the start time, and the end time of each op


def key_of(tensor: Any) -> int:
    """A number for a saved tensor: constants all have the same uid."""
    return tensor.uid if tensor.uid != CONSTANT else -id(tensor.array)


def constant(value: Any) -> Tensor:
    """A tensor that no tape tracks."""
    tensor = Tensor()
    tensor.array, tensor.uid = value, CONSTANT
    return tensor
