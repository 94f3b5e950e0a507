"""Keys of recorded programs: equal for records of the same ops on the same shapes, wherever their values are.

A plan of a sparse derivative holds for every record with the key it was made from. Besides ops, shapes and attributes,
a key covers what a pattern takes from constants: integers, which may select elements, and where floats are zero.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.symbolic import Symbolic
from gradtape._src.core.tape import Record

_PLAIN = (int, float, complex, str, bytes, bool, type(None), np.dtype, np.generic)
_OF_ONE_RUN = ("body",)  # numbers of tensors
_MOST_CONSTANTS = 1000


class ProgramKeys:
    """Computes keys, and remembers the constants that it has read."""

    def __init__(self) -> None:
        self._constants: dict[int, Hashable] = {}

    def key(self, recording: Any, targets: Sequence[Any], sources: Sequence[Any]) -> int:
        """The key of the ops that depend on the sources."""
        numbers: dict[int, int] = {}
        for source in sources:
            numbers.setdefault(source.uid, len(numbers))
        ops = []
        for plain in recording.records:
            record = Record.of(plain)
            given = tuple([numbers.get(uid, -1) for uid in record.inputs])
            if max(given, default=-1) < 0:
                continue
            outputs = record.output if type(record.output) is tuple else (record.output,)
            for uid in outputs:
                numbers[uid] = len(numbers)
            shapes = tuple([recording.tracked.get(uid) for uid in outputs])
            constants = tuple([self._constant(record, slot, given) for slot in range(len(record.values))])
            ops.append((record.op.name, given, shapes, _frozen(record.attrs), constants))
        ends = tuple([None if target is None else numbers.get(target.uid, -1) for target in targets])
        return hash((tuple(ops), ends))

    def _constant(self, record: Record, slot: int, given: tuple[int, ...]) -> Hashable:
        saved = record.values[slot]
        if saved is None or slot >= len(given) or given[slot] >= 0:
            return None
        uid = record.inputs[slot]
        if not uid:  # an array, which has no number
            return _selection(saved.array)
        if uid not in self._constants:
            if len(self._constants) >= _MOST_CONSTANTS:
                self._constants.clear()
            self._constants[uid] = _selection(saved.array)
        return self._constants[uid]


def _selection(array: Any) -> Hashable:
    """What a pattern may take from a constant: integers, or where floats are zero; None if there are no zeros."""
    if type(array) in (Symbolic, Batched):
        return None
    values = np.asarray(array)
    if values.dtype.kind in "iub":
        return hash(values.tobytes())  # constants may be large
    if values.dtype.kind == "O":
        return None
    zeros = values == 0
    return hash(np.packbits(zeros).tobytes()) if zeros.any() else None


def _frozen(value: Any) -> Hashable:
    """An attribute as something to compare: user objects, which may be new in each run, by their class alone."""
    if isinstance(value, dict):
        return tuple([(name, _frozen(each)) for name, each in value.items() if name not in _OF_ONE_RUN])
    if isinstance(value, (list, tuple)):
        return tuple([_frozen(each) for each in value])
    if isinstance(value, slice):
        return (_frozen(value.start), _frozen(value.stop), _frozen(value.step))
    if isinstance(value, np.ndarray):
        return (value.shape, hash(value.tobytes()))
    return value if isinstance(value, _PLAIN) else type(value).__qualname__


__all__ = ["ProgramKeys"]
