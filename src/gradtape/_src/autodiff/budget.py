"""`GradientTape(memory_limit=…)`: keep the saved values that fit into memory, and recompute the others when they are
read.

The records are divided into segments (`segments.py`). While the kept values exceed the limit, the segment whose
recomputation takes the fewest seconds per byte is dropped: its records get placeholders, and of its values only those
that later segments use remain. Reading a placeholder recomputes the segment. Once all segments are dropped, neighbors
are merged. So no part of the program has to be marked, and the backward pass computes the same bits.

Operands from outside of the tape (data, constants, random numbers) cannot be recomputed: they are kept, or with
`spill="disk"`, written to a file.
"""

from __future__ import annotations

import bisect
import math
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src.autodiff.host_values import HostValues, Several
from gradtape._src.autodiff.recording import Recording
from gradtape._src.autodiff.segments import (
    Segment,
    Window,
    best_cut,
    first_output,
    inputs_of,
    key_of,
    needed,
    run,
    saved_tensors,
)
from gradtape._src.core.observe import Observer
from gradtape._src.devices import memory_of_device
from gradtape._src.memory import return_freed_memory
from gradtape._src.tensor import CONSTANT, Tensor, tensor_slot

_NOTHING: tuple[()] = ()
UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
BOOKKEEPING = 520
"""The bytes of a record, with its op's bookkeeping. They count, but a quarter of the limit is reserved for values."""

FEW_BYTES = 64
"""The size up to which arrays that are kept for recomputation are not counted."""

RETURNED = 2**20
"""The bytes by which arrays have to give way to records before freed memory is returned to the system."""

_last_counts: dict[int, int] = {}
"""By limit, the number of records of the last tape: the next step of a training loop has as many. Without their memory
from the beginning, no freed memory has to be returned to the system while they are recorded, and mapped again.
"""
_MANY = 64

DISK_SPEED = 1e9
"""Bytes per second for writing and reading files, to compare with recomputation."""


def parse_limit(limit: Any) -> int:
    """The bytes of a limit: a number, a string such as "2GB", or a share of the memory of the device, such as "25%"."""
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z%]*)\s*", limit)
        unit = match[2].upper() or "B" if match else ""
        try:
            if match and unit == "%":
                return int(float(match[1]) / 100 * memory_of_device())
            if match and unit in UNITS:
                return int(float(match[1]) * UNITS[unit])
        except ValueError:
            pass
    elif isinstance(limit, (int, float, np.integer)) and not isinstance(limit, bool) and limit >= 0 and limit % 1 == 0:
        return int(limit)
    raise ValueError(
        "memory_limit must be a whole number of bytes, a string such as '2GB' or '512MiB', or a percentage such as "
        f"'25%'; received {limit!r}."
    )


class Outcome(NamedTuple):
    """The effect of a memory limit: bytes, counts and seconds."""

    limit: int
    kept: int
    peak: int
    dropped: int
    recomputed: int
    seconds: float
    spilled: int


class Dropped(Tensor):
    """A placeholder in a record: its array is recomputed when it is read, unless it is kept."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        budget: Budget = tensor_slot.__get__(self)
        return budget.read(self.uid)

    @property
    def kept(self) -> Any:
        """Its array, if it is kept."""
        return tensor_slot.__get__(self).arrays.get(self.uid)

    def fill(self) -> None:
        """Turn into a tensor with an array."""
        tensor_slot.__set__(self, self.array)
        self.__class__ = Tensor  # type: ignore[assignment]


class Budget:
    """The segments of one tape, and the memory of their kept values."""

    def __init__(self, limit: int, spill: str | None) -> None:
        self.limit = limit
        self.spill = spill
        self.to_files = spill == "disk"
        self.kept = self.peak = self.dropped = self.recomputed = self.spilled = 0
        self.seconds = 0.0
        self.arrays: dict[int, Any] = {}
        """Values that later segments use, and recomputed values."""
        self.roots: dict[int, Any] = {}
        """The arrays of variables and watched tensors when they were first read."""
        self.opaque: set[int] = set()
        """Values that were computed on the tape and cannot be recomputed."""
        self._data: dict[int, int] = {}  # sizes of arrays that cannot be recomputed, by id
        self.largest = self.segment_bytes = self.window_bytes = 0
        """Bytes of the largest result, of a segment, and of the records that are not yet in a segment."""
        self._records = 0  # the largest number of records so far
        self._expected = _last_counts.get(limit, 0)
        self._segments: list[Segment] = []
        self._last_use: dict[int, int] = {}  # by value of a segment: the end of the last segment that uses it
        self._restored: list[Segment] = []
        self._is_running = False  # whether ops are being recomputed
        self._placeholders: dict[int, weakref.ref[Dropped]] = {}
        self._files: dict[int, str] = {}
        self._folder: str | None = None
        self._costs: dict[Any, float] = {}
        self._attached: list[weakref.ref[_Attached]] = []
        self.plans: list[Any] = []
        """The plans for programs: one for each backward pass in a function, or on lazy arrays."""
        self._returned = self._room(0)  # the memory for values when freed memory was last returned to the system
        self.set_largest(0)

    def on_device(self, nbytes: int) -> None:
        """Count bytes of saved values on a device."""
        self.peak = max(self.peak, self.kept + nbytes)

    def limit_of_call(self) -> int:
        """The limit in bytes for a call of a function: the remaining memory, rounded down to a half, a quarter, … of
        the limit, because the function's derivative is traced for each of them.
        """
        left, limit = self.limit - self.kept, self.limit
        while limit > max(left, 1):
            limit //= 2
        return limit

    def add_plan(self, plan: Any) -> None:
        """A backward pass of a program is within the limit by a plan, or as near as one can get."""
        self.plans.append(plan)
        self.peak = max(self.peak, self.kept + plan.peak)
        self.dropped += sum(len(unit.replaced) for unit in plan.units)
        self.recomputed += sum(len(unit.steps) for unit in plan.units) + plan.loop_ops
        self.seconds += plan.seconds

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.limit, self.kept, self.peak, self.dropped, self.recomputed, self.seconds, self.spilled)

    def set_largest(self, nbytes: int) -> None:
        """Set the size of a segment from the size of a value: several values, but a small part of
        the available memory.
        """
        self.largest = nbytes
        self.segment_bytes = min(max(6 * nbytes, self.limit // 64), max(self._room(0), 0) // 12)
        self.window_bytes = self.segment_bytes * 4 // 3

    def attach(self, recording: Recording) -> None:
        """Record within this budget from now on."""
        self._release(-1)
        for existing in self._existing():
            existing.seal_all()
        attached = _Attached(self, recording)
        self._attached = [*[ref for ref in self._attached if ref() is not None], weakref.ref(attached)]
        if self.spill == "host":
            recording.observe(Several(HostValues(self, recording), attached))
        else:
            recording.observe(attached)

    def _existing(self) -> list[_Attached]:
        return [attached for ref in self._attached if (attached := ref()) is not None and attached.records]

    def clear(self) -> None:
        """Drop all state that no recording needs. Counts remain."""
        if len(_last_counts) > _MANY:
            _last_counts.clear()
        _last_counts[self.limit] = self._expected = self._records
        self._release(-1)

    def _release(self, position: int) -> None:
        """Free the segments after a uid and after the last record: a backward pass has used them."""
        position = max([position, *[first_output(attached.records[-1]) for attached in self._existing()]])
        for ref in self._attached:
            if (attached := ref()) is not None:
                attached.release()
        used = [segment for segment in self._segments if segment.start > position]
        for segment in reversed(used):
            segment.forget_saved()
            placeholders = [self._placeholders.get(uid, _nothing)() for uid in segment.owned]
            for placeholder in placeholders:
                if type(placeholder) is Dropped:  # another tape has saved it
                    placeholder.fill()
        while self._segments and self._segments[-1].start > position:
            self._forget(self._segments.pop())
        if self._segments:
            self._set_score(len(self._segments) - 1)

    def _forget(self, segment: Segment) -> None:
        """Free the values of a segment."""
        is_dropped, files = segment.is_dropped, self._files
        self.kept -= sum([n for uid, n in segment.values.items() if not is_dropped or uid in self.arrays])
        self.kept -= sum([n for key, n in segment.data.items() if not is_dropped or key not in files])
        owned = segment.owned
        for key in owned:
            self.arrays.pop(key, None)
            self._last_use.pop(key, None)
            self._placeholders.pop(key, None)
            if key in files:
                os.unlink(files.pop(key))
        if any(segment.data.values()):
            self._data = {memory: key for memory, key in self._data.items() if key not in owned}
        if segment in self._restored:
            self._restored.remove(segment)

    # -- recording -----------------------------------------------------------------------------------------------------
    def add(self, segment: Segment, inputs: dict[int, Any]) -> None:
        """Add a segment, with the arrays that it uses from earlier segments."""
        for uid, array in inputs.items():
            self._use(uid, array, segment.end)
        self._segments.append(segment)
        self.grow(sum(segment.values.values()) + sum(segment.data.values()))
        self._set_score(len(self._segments) - 1)

    def hold(self, key: int, memory: Any) -> int:
        """The bytes of an array that cannot be recomputed; 0 if it is counted already."""
        if id(memory) in self._data:
            return 0
        self._data[id(memory)] = key
        return getattr(memory, "nbytes", 0)

    def grow(self, nbytes: int) -> None:
        """Count more bytes of kept values."""
        self.kept += nbytes
        if self.kept > self.peak:
            self.peak = self.kept

    def _use(self, uid: int, array: Any, end: int) -> None:
        """Keep a value of an earlier segment that another segment uses."""
        place = self._place_of(uid)
        owner = self._segments[place]
        values = owner.leaf_of(uid).own
        was_kept = uid in values and (not owner.is_dropped or uid in self.arrays)
        if not was_kept:
            self.grow(values.setdefault(uid, array.nbytes))
        self.arrays[uid] = array
        self._last_use[uid] = max(end, self._last_use.get(uid, 0))
        self._set_score(place)

    def seconds_of(self, records: Sequence[Any], clocks: Sequence[float], shapes: Mapping[int, Any]) -> float:
        """The duration of ops. For those with the same name and shape the minimum counts: others include other work."""
        total, costs = 0.0, self._costs
        for record, began, ended in zip(records, clocks, clocks[1:], strict=False):
            output = record[2]
            key = (record[0].name, shapes.get(output if type(output) is int else output[0]))
            seconds = ended - began
            least = costs.get(key)
            if least is None or seconds < least:
                costs[key] = least = seconds
            total += least
        return total

    def owns(self, uid: int) -> bool:
        """Whether the value of a uid is computed in a segment."""
        place = self._place_of(uid)
        return place >= 0 and uid <= self._segments[place].end

    def _place_of(self, uid: int) -> int:
        """The index of the segment that contains a uid, if there is one."""
        return bisect.bisect_right(self._segments, uid, key=_start) - 1

    def _room(self, more: int) -> int:
        """The bytes available for values: the limit minus the records, and the operands and results of the largest op.

        A backward pass frees records, but Python does not use their memory for arrays.
        """
        self._records = max(self._records, sum([len(attached.records) for attached in self._existing()]))
        count = max(self._records, self._expected)
        room = max(self.limit - count * BOOKKEEPING, self.limit // 4)
        return room - (3 * self.largest if 18 * self.largest < room else 0) - more

    def enforce(self, more: int) -> None:
        """Drop values until the kept ones, and some additional bytes, fit."""
        self._make_room(more)
        self.set_largest(self.largest)
        room = self._room(0)
        if self._returned - room > max(self.limit // 64, RETURNED):  # records take the memory that arrays leave
            return_freed_memory()
            self._returned = room

    def _make_room(self, more: int) -> None:
        """Drop the cheapest segments until some additional bytes fit."""
        room = self._room(more)
        while self.kept > room and self._drop_restored(-1):
            pass
        while self.kept > room and self._segments:
            segment = min(self._segments, key=self._price)
            if segment.score == math.inf:
                break
            place = self._segments.index(segment)
            if segment.is_dropped:
                self._merge(place)
            else:
                self._drop(place)

    def _price(self, segment: Segment) -> float:
        """The score of a segment. Merging one that the backward pass reaches soon costs more: what is merged far from
        it is split again when there is more room.
        """
        if not segment.is_dropped:
            return segment.score
        first, last = self._segments[0].start, self._segments[-1].end
        return segment.score * math.sqrt((last - first + 1) / (last - segment.start + 1))

    # -- dropping ------------------------------------------------------------------------------------------------------
    def _set_score(self, place: int) -> None:
        """Compute the seconds per byte of dropping a segment or, if it is dropped, of merging it with the next one."""
        segment = self._segments[place]
        after = self._segments[place + 1] if place + 1 < len(self._segments) else None
        segment.score = math.inf
        if segment.pins:
            return
        if not segment.is_dropped:
            nbytes = sum(self._unused_after(segment, segment.end).values())
            seconds = segment.seconds
            if self.to_files:
                nbytes += sum(segment.data.values())
                seconds = min(seconds, nbytes / DISK_SPEED)
            segment.score = seconds / nbytes if nbytes else 0.0
        elif after is not None and after.is_dropped and not after.pins:
            unused = self._unused_after(segment, after.end)
            nbytes = sum([n for uid, n in unused.items() if uid in self.arrays])
            is_small = sum(segment.values.values()) + sum(after.values.values()) <= self.segment_bytes
            segment.score = (0.0 if is_small else segment.seconds + after.seconds) / max(nbytes, 1)

    def _unused_after(self, segment: Segment, end: int) -> dict[int, int]:
        """The bytes of the values that are not used after a uid."""
        last_use = self._last_use
        return {uid: n for uid, n in segment.values.items() if last_use.get(uid, 0) <= end}

    def _drop(self, place: int) -> None:
        """Put placeholders into the records of a segment, and free values that no later segment uses."""
        segment = self._segments[place]
        unused = self._unused_after(segment, segment.end)
        nbytes = sum(unused.values())
        if self.to_files:
            self._spill(segment, [*unused] if nbytes < segment.seconds * DISK_SPEED else [])
        for attached in self._existing():
            segment.records = self._with_placeholders(segment, attached.records)
        segment.is_dropped = True
        self.kept -= nbytes
        self.dropped += len(unused)
        for uid in unused:
            self.arrays.pop(uid, None)
        self._set_score(place)
        if place:
            self._set_score(place - 1)

    def _with_placeholders(self, segment: Segment, records: list[Any]) -> list[Any]:
        """The records of a segment with placeholders; also replaces them in recordings."""
        place, count = segment.place, len(segment.records)
        if place >= len(records) or first_output(records[place]) != segment.start:
            firsts = [first_output(record) for record in records]
            place = firsts.index(segment.start) if segment.start in firsts else len(records)
        found = []
        made: dict[int, Any] = {}
        for record in segment.records:
            op, uids, output, values, attrs, dtype = record
            if values is not _NOTHING:
                for t in values if type(values) is tuple else (values,):
                    if t is not None and t.uid not in made and (other := self._placeholder(t, segment)) is not t:
                        made[t.uid] = other
                if type(values) is tuple:
                    values = tuple([t if t is None else made.get(t.uid, t) for t in values])
                else:
                    values = made.get(values.uid, values)
                record = (op, uids, output, values, attrs, dtype)
            found.append(record)
        if [record[2] for record in records[place : place + count]] == [record[2] for record in found]:
            records[place : place + count] = found
        return found

    def _placeholder(self, tensor: Any, segment: Segment) -> Any:
        """A placeholder for a value that a segment saves, if the value can be dropped; others unchanged."""
        uid = tensor.uid
        if type(tensor) is Dropped or uid in self.roots:
            return tensor
        if uid not in segment.own and uid not in self._files:
            place = self._place_of(uid)
            if uid == CONSTANT or place < 0 or uid not in self._segments[place].leaf_of(uid).own:
                return tensor
        placeholder = self._placeholders.get(uid, _nothing)()
        if placeholder is None:
            placeholder = Dropped()
            tensor_slot.__set__(placeholder, self)
            placeholder.uid = uid
            self._placeholders[uid] = weakref.ref(placeholder)
        return placeholder

    def _merge(self, place: int) -> None:
        """Merge a dropped segment with the next one, and free values that only that one uses."""
        left, right = self._segments[place : place + 2]
        both = Segment.merged(left, right)
        self._segments[place : place + 2] = [both]
        self._free(self._unused_after(left, right.end))
        self._set_score(place)
        if place:
            self._set_score(place - 1)

    def _free(self, values: Mapping[int, int]) -> None:
        for uid, nbytes in values.items():
            if self.arrays.pop(uid, None) is not None:
                self.kept -= nbytes
                self.dropped += 1

    def _spill(self, segment: Segment, uids: list[int]) -> None:
        """Write values, and arrays that cannot be recomputed, to files."""
        arrays = {key_of(t): t.array for record in segment.records for t in saved_tensors(record)}
        for uid in (*uids, *segment.data):
            if uid > CONSTANT and uid in arrays:
                if uid not in self._files:
                    self._files[uid] = self._write(uid, arrays[uid])
                self.kept -= segment.data.get(uid, 0)

    def _write(self, uid: int, array: Any) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="gradtape-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = os.path.join(self._folder, f"{uid}.npy")
        np.save(path, array)
        self.spilled += array.nbytes
        return path

    # -- reading -------------------------------------------------------------------------------------------------------
    def read(self, uid: int) -> Any:
        """The array of a value: kept, read from a file, or recomputed."""
        array = self.arrays.get(uid)
        if array is not None:
            return array
        if uid in self.roots:
            return self.roots[uid]
        if uid in self._files:
            return np.load(self._files[uid])
        if self._is_running:
            return self._restore(uid)
        began, self._is_running = perf_counter(), True
        try:
            self._release(uid)
            return self._restore(uid)
        finally:
            self.seconds += perf_counter() - began
            self._is_running = False

    def _is_available(self, uid: int) -> bool:
        return uid in self.arrays or uid in self.roots or uid in self._files

    def _missing(self, segment: Segment) -> dict[int, int]:
        """The bytes of the values that have to be recomputed."""
        return {uid: n for uid, n in segment.values.items() if not self._is_available(uid)}

    def _restore(self, uid: int) -> Any:
        """Recompute the segment of a value; if it does not fit, the part that contains the value."""
        while uid not in self.arrays:
            place = self._place_of(uid)
            segment = self._segments[place]
            missing = self._missing(segment)
            more = sum(missing.values())
            while self.kept > self._room(more) and self._drop_restored(segment.start):
                pass
            if segment.children is not None and self.kept > self._room(more):
                self._split(place)
            else:
                self._run(segment, missing)
                self._restored.append(segment)
        return self.arrays[uid]

    def _run(self, segment: Segment, wanted: dict[int, int]) -> None:
        """Compute values of a segment, and keep them."""
        self._pin(segment, 1)
        try:
            self._make_room(sum(wanted.values()))
            steps = needed(segment.steps(), wanted, self._is_available)
            found = run(steps, wanted, self.roots, self.read)
        finally:
            self._pin(segment, -1)
        self.recomputed += len(steps)
        self.arrays.update(found)
        self.grow(sum(wanted.values()))

    def _pin(self, segment: Segment, change: int) -> None:
        """Temporarily prevent a segment from being dropped or merged."""
        segment.pins += change
        place = self._segments.index(segment)
        for each in range(max(place - 1, 0), place + 1):
            self._set_score(each)

    def _split(self, place: int) -> None:
        """Compute the values between the parts of a merged segment, which can then be recomputed one by one."""
        both = self._segments[place]
        assert both.children is not None
        left, _ = both.children
        self._segments[place : place + 1] = both.children
        self._set_score(place + 1)
        unused = self._unused_after(left, left.end)
        self._run(left, {uid: n for uid, n in self._missing(left).items() if uid not in unused})

    def _drop_restored(self, after: int) -> bool:
        """Drop the last recomputed segment, if it begins after a uid."""
        last = max(self._restored, key=_start, default=None)
        if last is None or last.start <= after or last.pins:
            return False
        self._restored.remove(last)
        self._free(self._unused_after(last, last.end))
        return True


def _nothing() -> None:
    """A dead reference."""


def _start(segment: Segment) -> int:
    return segment.start


def is_counted(operand: Any) -> bool:
    """Whether an operand is a large enough array that is not part of another one."""
    return type(operand) is ndarray and operand.base is None and operand.nbytes > FEW_BYTES


def _memory_of(array: Any) -> Any:
    """The array that owns the memory of an array: itself, or the base of a view."""
    return array if array.base is None else array.base


class _Attached(Observer):
    """The observer of one recording of a budget: it collects records until they form a segment."""

    __slots__ = ("__weakref__", "_arrays", "_budget", "_inputs", "_inside", "_roots", "_tracked", "_window", "records")

    def __init__(self, budget: Budget, recording: Recording) -> None:
        self._budget, self.records = budget, recording.records
        self._tracked, self._roots = recording.tracked, recording.roots
        self._arrays = budget.roots
        self._inputs: dict[int, Any] = {}  # arrays of earlier segments that the window uses
        self._open(Window(len(self.records)))
        self._window.clocks.append(perf_counter())

    def _open(self, window: Window) -> None:
        self._window, self._inside = window, window.inside

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        inside, known, roots = self._inside, self._inputs, self._arrays
        op, _, output, values, _, _ = record
        for t in inputs:
            uid = t.uid
            if uid not in inside and roots.get(uid) is not t.array and uid not in known:
                is_again = self._add_operands(record, inputs, outputs)
                break
        else:
            is_again = op.kernel is not None and op.differentiable
        if is_again and type(output) is int and type(outputs.array) is ndarray:
            inside.add(output)
            if outputs.array.nbytes > self._budget.largest:
                self._budget.set_largest(outputs.array.nbytes)
        else:
            self._add_outputs(outputs, is_again)
        window = self._window
        if values is not _NOTHING:
            saved = window.saved
            for t in values if type(values) is tuple else (values,):
                if t is not None and t.uid not in saved and t.uid not in roots:
                    self._save(t)
        window.clocks.append(perf_counter())
        if window.nbytes > self._budget.window_bytes:
            self._seal()

    def _add_outputs(self, outputs: Any, is_again: bool) -> None:
        """Note values that were computed, and whether they can be recomputed."""
        budget = self._budget
        for t in outputs if type(outputs) is tuple else (outputs,):
            array = t.array
            if type(array) is not ndarray:
                budget.opaque.add(t.uid)
                continue
            (self._inside if is_again else budget.opaque).add(t.uid)
            if array.nbytes > budget.largest:
                budget.set_largest(array.nbytes)

    def _save(self, tensor: Any) -> None:
        """Count a tensor that a record of the window saves, unless it is counted."""
        window, array = self._window, tensor.array
        key = key_of(tensor)
        if key in window.saved or type(array) is not ndarray:
            return
        window.saved[key] = tensor
        if key not in self._inputs:
            window.nbytes += array.nbytes
            self._budget.grow(array.nbytes)

    def release(self) -> None:
        """Drop the window if a backward pass has used its records."""
        if len(self.records) <= self._window.place:
            self._budget.kept -= self._window.nbytes
            self._open(Window(len(self.records)))
            self._window.clocks.append(perf_counter())
            self._inputs = {}

    def _add_operands(self, record: Any, inputs: Sequence[Any], outputs: Any) -> bool:
        """Note operands of an op that come from elsewhere; False if it cannot be recomputed."""
        op, _, output, values, _, _ = record
        for t in outputs if type(outputs) is tuple else (outputs,):
            if type(t.array) is not ndarray:
                return False
        inside, known, tracked = self._inside, self._inputs, self._tracked
        saved = values if type(values) is tuple else ()
        operands: list[Any] = []
        is_outside = False
        for t in inputs:
            operand, array = t.uid, t.array
            if type(array) is not ndarray:
                return False
            if operand not in inside:
                if operand == CONSTANT:
                    operand, is_outside = array, True
                elif operand in tracked and self._is_owned(operand):
                    known[operand] = array
                elif operand not in known:
                    uid, is_saved = operand, len(operands) < len(saved) and saved[len(operands)] is not None
                    operand = self._operand(uid, array, is_saved)
                    is_outside = is_outside or operand is not uid
            operands.append(operand)
        if op.kernel is None or not op.differentiable:
            return False
        if is_outside:
            self._window.outside[output if type(output) is int else output[0]] = tuple(operands)
            self._hold(operands)
        return True

    def _hold(self, operands: Sequence[Any]) -> None:
        """Count the arrays among operands, which are kept for recomputation."""
        for operand in operands:
            if is_counted(operand):
                self._window.nbytes += operand.nbytes
                self._budget.grow(operand.nbytes)

    def _is_owned(self, uid: int) -> bool:
        """Whether a tracked value was computed in an earlier segment, and can be recomputed."""
        return uid not in self._roots and uid not in self._budget.opaque and self._budget.owns(uid)

    def _operand(self, uid: int, array: Any, is_saved: bool) -> Any:
        """What an op is recomputed from, if not from a value of a segment: the uid of a value, or an array."""
        budget = self._budget
        if uid in self._roots:
            return uid if budget.roots.setdefault(uid, array) is array else array
        return uid if is_saved and budget.to_files else array  # it will be in a file

    # -- segments ------------------------------------------------------------------------------------------------------
    def seal_all(self) -> None:
        """Make a segment of the window, before another recording continues this one."""
        if len(self.records) > self._window.place:
            self._seal(len(self.records) - self._window.place)

    def _seal(self, count: int | None = None) -> None:
        """Make a segment of the first records of the window, by default up to the best position."""
        window, budget, known = self._window, self._budget, self._inputs
        records = self.records[window.place :]
        count = best_cut(records, window.saved, window.inside) if count is None else count
        inside = records[:count]
        cut = first_output(records[count]) if count < len(records) else math.inf
        before = {uid: operands for uid, operands in window.outside.items() if uid < cut}
        segment = Segment(window.place, inside, before)
        segment.seconds = budget.seconds_of(inside, window.clocks, self._tracked)
        self._count_values(segment, window)
        inputs = [uid for record in inside for uid in inputs_of(record) if uid in known] if known else ()
        budget.kept -= window.nbytes
        budget.add(segment, {uid: known[uid] for uid in inputs})
        self._begin(window, count, records[count:])
        budget.enforce(max(budget.window_bytes - self._window.nbytes, 0))
        self._window.clocks[-1] = perf_counter()

    def _count_values(self, segment: Segment, window: Window) -> None:
        """Count the bytes of saved values: several arrays that share memory count once."""
        budget, known, inside = self._budget, self._inputs, window.inside
        counted = {id(_memory_of(array)) for array in (*budget.roots.values(), *known.values())}
        for key, tensor in window.saved.items():
            if key in inside and key <= segment.end:
                memory = _memory_of(tensor.array)
                segment.own[key] = 0 if id(memory) in counted else getattr(memory, "nbytes", 0)
                counted.add(id(memory))
        if all(key in inside or key in known for key in window.saved):
            data: dict[int, Any] = {}
        else:
            others = [t for record in segment.records for t in saved_tensors(record)]
            data = {key_of(t): t.array for t in others if t.uid not in inside and t.uid not in known}
        held = [array for operands in segment.outside.values() for array in operands if is_counted(array)]
        data.update({-id(array): array for array in held})
        for key, array in data.items():
            if key not in budget.roots and type(array) is ndarray:
                memory = _memory_of(array)
                segment.data[key] = 0 if id(memory) in counted else budget.hold(key, memory)
                counted.add(id(memory))

    def _begin(self, window: Window, count: int, records: Sequence[Any]) -> None:
        """Begin a window with the records after a segment."""
        known, cut = self._inputs, first_output(records[0]) if records else math.inf
        rest = Window(window.place + count)
        rest.outside = {uid: operands for uid, operands in window.outside.items() if uid >= cut}
        rest.inside = {uid for uid in window.inside if uid >= cut}
        rest.clocks = window.clocks[count:]
        self._open(rest)
        self._inputs = {}
        for record in records:
            for uid in inputs_of(record):
                if uid in known:
                    self._inputs[uid] = known[uid]
                elif uid in window.inside and uid not in rest.inside:
                    self._inputs[uid] = window.saved[uid].array
        for held in rest.outside.values():
            self._hold(held)
        for record in records:
            for t in saved_tensors(record):
                if t.uid not in self._budget.roots:
                    self._save(t)
