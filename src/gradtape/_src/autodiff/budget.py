"""`GradientTape(memory_limit=…)`: keep the saved values that fit, and compute the others again when they are read.

A tape with a limit records how each value was computed: the op, its operands and its static arguments. The records hold
handles instead of tensors. While what is kept exceeds the limit, the value is dropped that costs the fewest seconds of
recomputation per byte: its own time and that of the dropped values around it, which would have to be computed together
with it. Reading a dropped value computes it from the nearest values that are kept; what later records need is kept
again, as far as it fits. So no part of the program has to be marked, and the backward pass gets the same bits.

Operands from outside of the tape (data, constants, random numbers) cannot be computed again: they are kept, or, with
`spill="disk"`, written to a file.
"""

from __future__ import annotations

import math
import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from gradtape._src.core.observe import Observer
from gradtape._src.core.primitive import Op
from gradtape._src.core.tape import saved_by_slot, use_recorders
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import CONSTANT, Tensor, tensor_slot

UNITS = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
BOOKKEEPING = 1500
"""Bytes that a record takes, with what is noted of its op. They count, but a quarter of the limit is for values."""

NEIGHBORS = 64
"""How many dropped values around a value are counted for its cost."""

DISK_SPEED = 1e9
"""Bytes a second to a file and back, to compare with recomputation."""


def parse_limit(limit: Any) -> int:
    """Bytes of a limit: a number, a text such as "2GB", or a share of the machine's memory such as "25%"."""
    if isinstance(limit, str):
        match = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z%]*)\s*", limit)
        unit = match[2].upper() or "B" if match else ""
        try:
            if match and unit == "%":
                return int(float(match[1]) / 100 * os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
            if match and unit in UNITS:
                return int(float(match[1]) * UNITS[unit])
        except ValueError:
            pass
    elif isinstance(limit, (int, float)) and not isinstance(limit, bool) and limit >= 0 and float(limit).is_integer():
        return int(limit)
    raise ValueError(
        f"memory_limit is a whole number of bytes, a text such as '2GB' or '512MiB', or a share such as '25%'; "
        f"received {limit!r}."
    )


class Outcome(NamedTuple):
    """What a limit did: bytes, counts and seconds."""

    limit: int
    kept: int
    peak: int
    dropped: int
    recomputed: int
    seconds: float
    spilled: int


class Step:
    """How some outputs were computed.

    An operand is the uid of another output, or an array from outside of the tape. `cost` counts seconds from the
    nearest saved values on, whose uids are in `near`.
    """

    __slots__ = ("attrs", "cost", "near", "op", "operands", "output")

    def __init__(self, op: Op, operands: tuple[Any, ...], attrs: dict[str, Any], output: Any) -> None:
        self.op, self.operands, self.attrs, self.output = op, operands, attrs, output
        self.cost = 0.0
        self.near: tuple[int, ...] = ()

    @property
    def outputs(self) -> tuple[int, ...]:
        return (self.output,) if type(self.output) is int else self.output

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Its results once more: the same call with the same arrays, which nothing records."""
        with use_recorders(()), float_errors_ignored():
            found = self.op.call(*[_constant(array) for array in arrays], **self.attrs)
        return tuple([t.array for t in found]) if type(found) is tuple else (found.array,)


def _constant(array: Any) -> Tensor:
    tensor = Tensor()
    tensor.array, tensor.uid = array, CONSTANT
    return tensor


class Value:
    """A saved value: its array, if it is kept, and how it was computed (None: outside of the tape)."""

    __slots__ = ("array", "children", "handle", "nbytes", "path", "pinned", "read_at", "step", "uid")

    def __init__(self, uid: int, array: Any, step: Step | None) -> None:
        self.uid, self.step, self.nbytes = uid, step, array.nbytes
        self.array: Any = None
        self.children: tuple[int, ...] = ()
        self.read_at = 0  # when it was last needed
        self.handle: Any = None  # a weak reference to the one that records hold
        self.path: str | None = None
        self.pinned = 0

    @property
    def cost(self) -> float:
        return 0.0 if self.step is None else self.step.cost

    @property
    def parents(self) -> tuple[int, ...]:
        """The saved values that it is computed from."""
        return () if self.step is None else self.step.near

    @property
    def is_missing(self) -> bool:
        return self.array is None and self.path is None


class Saved(Tensor):
    """What a record holds of a value: a tensor whose array is kept somewhere, or computed when it is read."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        budget, value, _ = tensor_slot.__get__(self)
        return budget.read(value)

    @property
    def kept(self) -> Any:
        """The array, if it is kept."""
        return tensor_slot.__get__(self)[1].array

    def __del__(self) -> None:
        budget, value, _ = tensor_slot.__get__(self)
        budget.release(value)


class Budget:
    """The values of one tape, and how much of them is kept."""

    def __init__(self, limit: int, spill: str | None) -> None:
        self.limit, self.spill = limit, spill
        self.steps: dict[int, Step] = {}
        self.values: dict[int, Value] = {}
        self.kept = self.peak = self.dropped = self.recomputed = self.spilled = self._records = 0
        self.seconds = 0.0
        self._droppable: dict[int, Value] = {}
        self._tick = 0
        self._costs: dict[Any, float] = {}
        self._clock = perf_counter()
        self._folder: str | None = None
        self._recordings = 0

    @property
    def outcome(self) -> Outcome:
        return Outcome(self.limit, self.kept, self.peak, self.dropped, self.recomputed, self.seconds, self.spilled)

    def clear(self) -> None:
        """Forget how values were computed, if no other tape has records of them. Counts stay."""
        if self._recordings == 1:
            self.steps.clear()
            self.values.clear()
            self._droppable.clear()

    def attach(self, recording: Any) -> None:
        """Record for this budget from now on."""
        self._recordings += 1
        recording.observe(_Attached(self, recording.records, recording.roots))
        self._clock = perf_counter()

    # -- recording -----------------------------------------------------------------------------------------------------
    def add(self, records: list[Any], roots: set[int], inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Take over the last record: handles instead of its tensors, and how its outputs were computed."""
        op, uids, output, values, attrs, dtype = records[-1]
        saved = saved_by_slot(op, values) if type(values) is not tuple else values
        if op.differentiable and inputs:
            self._add_step(op, inputs, outputs, attrs, roots, saved)
        handles = [None if t is None or t.uid in roots else self._handle(t) for t in saved]
        handles = [t if h is None else h for h, t in zip(handles, saved, strict=True)]
        form = tuple(handles) if type(values) is tuple else next(h for h in handles if h is not None)
        records[-1] = (op, uids, output, form, attrs, dtype)
        self._records += 1
        self._enforce()
        self._clock = perf_counter()

    def _add_step(
        self,
        op: Op,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        attrs: dict[str, Any],
        roots: set[int],
        saved: Sequence[Any],
    ) -> None:
        """Note how outputs were computed, unless that needs a large operand that nothing else keeps."""
        if op.kernel is None or any(type(t.array) is not np.ndarray for t in (*inputs, *outputs)):
            return
        size = sum(t.array.nbytes for t in outputs)
        operands: list[Any] = []
        for i, t in enumerate(inputs):
            if t.uid in self.steps:
                operands.append(t.uid)
            elif t.uid in roots or t.array.base is not None or t.array.nbytes <= max(size // 2, 64):
                operands.append(t.array)
            elif i < len(saved) and saved[i] is not None and t.uid != CONSTANT:
                self._add_outside(t)
                operands.append(t.uid)
            else:
                return
        step = Step(
            op, tuple(operands), attrs, outputs[0].uid if len(outputs) == 1 else tuple([t.uid for t in outputs])
        )
        key = (op.name, size, inputs[0].array.shape)
        own = self._costs[key] = min(self._costs.get(key, math.inf), perf_counter() - self._clock)
        self._locate(step, own)
        for out in outputs:
            self.steps[out.uid] = step

    def _locate(self, step: Step, own: float) -> None:
        """Where a step stands: the saved values before it, and the seconds from there on."""
        near: dict[int, None] = {}
        step.cost = own
        for uid in step.operands:
            if type(uid) is not int:
                continue
            if uid in self.values:
                near[uid] = None
            else:
                before = self.steps[uid]
                near.update(dict.fromkeys(before.near))
                step.cost += before.cost
        step.near = tuple(near)[-8:]

    def _add_outside(self, tensor: Any) -> None:
        """A value from outside of the tape that a record saves: it cannot be computed again."""
        if tensor.uid not in self.values:
            self.values[tensor.uid] = Value(tensor.uid, tensor.array, None)

    def _handle(self, tensor: Any) -> Any:
        """What a record holds in place of a tensor; None for one that stays as it is."""
        value = self.values.get(tensor.uid)
        if value is None:
            step = self.steps.get(tensor.uid)
            if step is None:
                return None
            value = self.values[tensor.uid] = Value(tensor.uid, tensor.array, step)
            for uid in step.near:
                self.values[uid].children = (*self.values[uid].children[-8:], tensor.uid)
        handle = None if value.handle is None else value.handle()
        if handle is None:
            source = self._source_of_view(value, tensor.array)
            handle = Saved()
            tensor_slot.__set__(handle, (self, value, source))
            handle.uid = value.uid
            value.handle = weakref.ref(handle)
            if source is None and value.array is None:
                self._keep(value, tensor.array)
        return handle

    def _source_of_view(self, value: Value, array: Any) -> Any:
        """The handle of the value that a view is a view of: the view takes no memory, and is made again when read."""
        step, base = value.step, array.base
        if base is None or step is None or len(step.operands) != 1 or type(step.operands[0]) is not int:
            return None
        if type(base) is not np.ndarray or step.op.name != "reshape" or not base.flags.owndata:
            return None
        tensor = _constant(base)
        tensor.uid = step.operands[0]
        made = self.steps.get(tensor.uid)
        if made is None or made.op.moves_only:  # a view of a view: its own bytes count
            return None
        return self._handle(tensor)

    # -- keeping and dropping ----------------------------------------------------------------------------------------
    def _keep(self, value: Value, array: Any) -> None:
        value.array = array
        self._tick += 1
        value.read_at = self._tick
        self.kept += value.nbytes
        self.peak = max(self.peak, self.kept)
        if value.nbytes and (value.step is not None or self.spill is not None):
            self._droppable[value.uid] = value

    def _seconds(self, value: Value) -> float:
        """The time to compute it again, with the dropped values before it and those that are computed from it."""
        seconds, seen = value.cost, {value.uid}
        for pending, before in ((list(value.parents), True), (list(value.children), False)):
            while pending and len(seen) < NEIGHBORS:
                uid = pending.pop()
                near = self.values[uid]
                if uid not in seen and near.is_missing and (before or near.handle is not None):
                    seen.add(uid)
                    seconds += near.cost
                    pending += near.parents if before else near.children
        return seconds

    def _score(self, value: Value) -> float:
        """Seconds per byte, less for what has not been needed for long."""
        seconds = self._seconds(value) if value.step is not None else math.inf
        if self.spill is not None:
            seconds = min(seconds, value.nbytes / DISK_SPEED)
        return seconds / value.nbytes / (self._tick - value.read_at + 1)

    def _enforce(self) -> None:
        """Drop values if what is kept exceeds the limit, a tenth of them together, the cheapest first.

        Dropping a value makes its neighbors more expensive: they wait for the next round.
        """
        room = max(self.limit - self._records * BOOKKEEPING, self.limit // 4)
        while self.kept > room:
            candidates = [value for value in self._droppable.values() if not value.pinned]
            if not candidates:
                return
            touched: set[int] = set()
            for value in sorted(candidates, key=self._score):
                if self.kept <= 0.9 * room:
                    break
                if value.uid not in touched:
                    touched.update(value.parents, value.children)
                    self._drop(value)

    def _drop(self, value: Value) -> None:
        slow = value.step is None or (self.spill is not None and self._seconds(value) * DISK_SPEED > value.nbytes)
        if slow and value.path is None:
            value.path = self._write(value)
        self._forget(value)
        self.dropped += 1

    def _forget(self, value: Value) -> None:
        value.array = None
        self.kept -= value.nbytes
        self._droppable.pop(value.uid, None)

    def _write(self, value: Value) -> str:
        if self._folder is None:
            self._folder = tempfile.mkdtemp(prefix="gradtape-")
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = os.path.join(self._folder, f"{value.uid}.npy")
        np.save(path, value.array)
        self.spilled += value.nbytes
        return path

    def release(self, value: Value) -> None:
        """No record needs a value any more."""
        value.handle = None
        if value.array is not None:
            self._forget(value)
        if value.path is not None:
            os.unlink(value.path)
            value.path = None

    # -- reading -------------------------------------------------------------------------------------------------------
    def read(self, value: Value) -> Any:
        """The array of a value: as it is kept, from the file, or computed again."""
        if value.array is not None:
            self._tick += 1
            value.read_at = self._tick
            return value.array
        if value.path is not None:
            return self._again(value, np.load(value.path))
        began = perf_counter()
        array = self._recompute(value)
        self.seconds += perf_counter() - began
        return array

    def _again(self, value: Value, array: Any) -> Any:
        self._keep(value, array)
        value.pinned += 1
        self._enforce()
        value.pinned -= 1
        return array

    def _recompute(self, target: Value) -> Any:
        """Compute a value from the nearest ones that are kept; those in between stay as far as records need them."""
        steps, sources = self._missing(target)
        uses: dict[int, int] = {}
        for step in steps:
            for uid in step.operands:
                if type(uid) is int:
                    uses[uid] = uses.get(uid, 0) + 1
        uses[target.uid] = uses.get(target.uid, 0) + 1
        arrays = {source.uid: self.read(source) for source in sources}
        for source in sources:
            source.pinned += 1
        try:
            for step in steps:
                results = step.run([arrays[u] if type(u) is int else u for u in step.operands])
                self.recomputed += 1
                for uid, array in zip(step.outputs, results, strict=True):
                    if uid in uses:
                        arrays[uid] = array
                    self._keep_again(uid, array)
                for uid in step.operands:
                    if type(uid) is int:
                        uses[uid] -= 1
                        if not uses[uid]:
                            del arrays[uid]
        finally:
            for source in sources:
                source.pinned -= 1
        return arrays[target.uid]

    def _keep_again(self, uid: int, array: Any) -> None:
        value = self.values.get(uid)
        handle = None if value is None or value.handle is None else value.handle()
        if value is None or handle is None or value.array is not None:
            return
        if tensor_slot.__get__(handle)[2] is None:  # a view is made again when it is read
            self._again(value, array)

    def _missing(self, target: Value) -> tuple[list[Step], list[Value]]:
        """The steps that compute a value, in order, and the values at which they begin."""
        steps: dict[int, Step] = {}  # by the first output: uids only grow, so that their order is that of the program
        sources: dict[int, Value] = {}
        pending = [target.uid]
        while pending:
            uid = pending.pop()
            value = self.values.get(uid)
            if value is not None and value is not target and (value.array is not None or value.path is not None):
                sources[uid] = value
                continue
            step = self.steps[uid]
            if step.outputs[0] not in steps:
                steps[step.outputs[0]] = step
                pending += [operand for operand in step.operands if type(operand) is int]
        return [steps[uid] for uid in sorted(steps)], list(sources.values())


class _Attached(Observer):
    """The observer of one recording that belongs to a budget."""

    __slots__ = ("_budget", "_records", "_roots")

    def __init__(self, budget: Budget, records: list[Any], roots: set[int]) -> None:
        self._budget, self._records, self._roots = budget, records, roots

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        self._budget.add(self._records, self._roots, inputs, outputs if type(outputs) is tuple else (outputs,))
