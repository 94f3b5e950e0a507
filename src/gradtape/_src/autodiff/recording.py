"""The recording of a tape: its records, the uids it tracks, and the summary that remains when records are freed."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple
from weakref import ref

from numpy import ndarray

from gradtape._src.arrays.lazy import lazy_array
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.call_sites import Line, line_of_escape
from gradtape._src.core.observe import Observer
from gradtape._src.core.tape import Recorder
from gradtape._src.devices import placement
from gradtape._src.tensor import Tensor, is_differentiable, next_uid
from gradtape._src.variable import Variable, peek

LIMIT = 10_000
"""The largest number of ops, shapes and events in the summary of a freed recording."""


class Event(NamedTuple):
    """An event other than an op: its kind, its time (uids only grow), its tensors and its line."""

    what: str
    when: int
    uid: int = 0
    other: int = 0
    where: Line | None = None
    thread: int = 0


gradient_calls: deque[tuple[int, int, str, Line]] = deque(maxlen=32)
"""The last gradient calls of all tapes: the first two numbers enclose the uids of the results; method; line."""


_NOTHING: frozenset[int] = frozenset()


class Rewritten(NamedTuple):
    """A formula that was recorded as one op (`graph/rewrites`).

    inside   uids of the values within the formula, which that op does not compute
    outputs  uids of its results
    record   the last op of the formula, as it would have been recorded
    """

    inside: frozenset[int]
    outputs: frozenset[int]
    record: Any


class Recording(Recorder):
    """The records of a tape, and the uids and variables that it tracks."""

    __slots__ = (
        "budget",
        "calls",
        "consumed",
        "events",
        "lazy",
        "observer",
        "persistent",
        "rewritten",
        "roots",
        "size",
        "sources",
        "unreached",
        "unwatched",
        "variables",
        "watch_accessed",
    )

    def __init__(self, watch_accessed: bool, persistent: bool = False) -> None:
        super().__init__()
        self.watch_accessed = watch_accessed
        self.persistent = persistent
        self.budget: Any = None  # of a tape with `memory_limit`
        self.consumed = False  # a backward pass is freeing the records it has used
        self.roots: set[int] = set()
        self.variables: dict[int, Variable] = {}
        self.unwatched: set[int] = set()  # variables that were read while they were not watched
        self.events: list[Event] = []  # events for `explain`, without ops
        self.calls: list[tuple[Any, Any, Any]] = []  # of functions: uids of inputs and outputs, and what was traced
        self.unreached: list[Any] = []  # records that the last, freeing pass did not reach, latest first
        self.sources: frozenset[int] = _NOTHING  # of the last backward pass
        self.size = 0  # the number of records when it began
        self.observer: Observer | None = None
        self.rewritten: list[Rewritten] = []
        self.lazy = placement.lazy  # whether the arrays that it tracks become lazy

    def copy(self) -> Recording:
        """A new recording with the same records."""
        other = Recording(self.watch_accessed, self.persistent)
        other.records.extend(self.records)
        other.tracked.update(self.tracked)
        other.roots, other.variables, other.may_raise = set(self.roots), dict(self.variables), self.may_raise
        other.unwatched = set(self.unwatched)
        other.rewritten = list(self.rewritten)
        return other

    def observe(self, observer: Observer) -> None:
        """Notify an observer of every op that is recorded from now on."""
        append = self.records.append

        def append_and_report(record: Any) -> bool:
            append(record)
            return True  # on_op follows

        self.append, self.observer = append_and_report, observer

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        if self.observer is not None:
            self.observer.on_op(record, inputs, outputs)

    def on_call(self, record: Any) -> None:
        _, inputs, outputs, _, attrs, _ = record
        derivative = attrs.get("derivative")
        traced = attrs.get("traced") if derivative is None else derivative.traced
        if traced is not None and len(self.calls) < LIMIT:
            self.calls.append((inputs, outputs, ref(traced)))

    def on_read(self, variable: Variable) -> None:
        if self.watch_accessed and variable.trainable:
            self.track(variable)
        else:
            self.unwatched.add(variable.uid)

    def track(self, source: Tensor | Variable) -> None:
        """Track a tensor or variable: record the ops on it from now on."""
        uid = source.uid
        if isinstance(source, Variable):
            self.variables.setdefault(uid, source)
            source = peek(source)
        value = source.array
        if is_differentiable(value) and uid not in self.tracked:
            if self.lazy and type(value) is ndarray and type(source) is Tensor and current_graph() is None:
                source.array = lazy_array(value)
            self.tracked[uid] = tuple(value.shape)
            self.roots.add(uid)  # a recorded op's result that is watched later is not a root

    def detach_reads(self, uid: int) -> None:
        """Detach a variable from the ops that read it before it was watched."""
        if uid not in self.unwatched:
            return
        self.unwatched.discard(uid)
        other = next_uid()
        for i, record in enumerate(self.records):
            op, inputs, *rest = record
            if inputs == uid if type(inputs) is int else uid in inputs:
                inputs = other if type(inputs) is int else tuple([other if u == uid else u for u in inputs])
                self.records[i] = (op, inputs, *rest)

    def on_escape(self, event: str, uid: int, other: int = 0) -> None:
        if (uid in self.tracked or self._is_untracked_output(uid)) and len(self.events) < LIMIT:
            where = line_of_escape(event)
            if where is not None:
                self.events.append(Event(event, next_uid(), uid, other, where))

    def _is_untracked_output(self, uid: int) -> bool:
        """Whether this is the result of a recent op without a derivative, as in `if x > 0`."""
        return any(record[2] == uid for record in self.records[-8:])

    def summarise(self) -> Recording:
        """Free the records; keep what `explain` needs: no values, and at most `LIMIT` items of each kind."""
        if not self.consumed:
            self.size = len(self.records)
            self.unreached = self.records[-1 : -LIMIT - 1 : -1]
        if self.unreached:
            self.unreached = [(r[0], r[1], r[2], (), None, r[5]) for r in self.unreached[:LIMIT]]
        self.consumed = True
        self.records.clear()
        self.rewritten.clear()
        if len(self.tracked) > LIMIT:
            self.tracked = {uid: self.tracked[uid] for uid, _ in zip(self.roots, range(LIMIT), strict=False)}
        return self

    def drop_ends(self, cotangents: dict[int, Any]) -> None:
        """Drop the cotangents of results of ops without a derivative, so that `explain` still knows these ops."""
        wanted = [uid for uid in cotangents if uid not in self.tracked]
        for record in reversed(self.records):
            if record[2] in wanted and not record[0].differentiable:
                del cotangents[record[2]]

    # -- lookups of a gradient call ----------------------------------------------------------------------------------
    def use_formulas(self, sources: frozenset[int]) -> None:
        """Restore the original records of rewritten formulas that contain a source."""
        wanted = [not each.inside.isdisjoint(sources) for each in self.rewritten]
        if not any(wanted):
            return
        formulas = [each for each, is_wanted in zip(self.rewritten, wanted, strict=True) if is_wanted]
        self.rewritten = [each for each, is_wanted in zip(self.rewritten, wanted, strict=True) if not is_wanted]
        for found in formulas:
            places = [i for i, record in enumerate(self.records) if not found.outputs.isdisjoint(_as_tuple(record[2]))]
            if places:
                self.records[places[-1]] = found.record
                for i in reversed(places[:-1]):
                    del self.records[i]

    def shapes_between(self, sources: frozenset[int]) -> dict[int, tuple[int, ...]]:
        """The shapes of values that depend on a source: no others need a cotangent."""
        if self.rewritten:
            self.use_formulas(sources)
        if self.roots <= sources:
            return self.tracked
        reached = set(sources)
        for record in self.records:
            inputs = record[1]
            if inputs in reached if type(inputs) is int else not reached.isdisjoint(inputs):
                output = record[2]
                if type(output) is tuple:
                    reached.update(output)
                else:
                    reached.add(output)
        return {uid: self.tracked[uid] for uid in reached if uid in self.tracked}

    def refuse_unregistered(self, targets: list[Any]) -> None:
        """Raise an error for targets whose ops TensorFlow refuses to differentiate."""
        uids = {target.uid for target in targets}
        for op, _, output, *_ in self.records:
            if op.unregistered and output in uids:
                raise LookupError(
                    f"gradient registry has no entry for: {op.tf_name}. Its result is not a smooth function of its "
                    "input; use it to choose between values (tf.where), not as a target."
                )

    def grouped_outputs(self) -> frozenset[int]:
        """The uids of outputs of functions and of ops with several outputs: gradients of their integers are zeros."""
        several = [
            output
            for op, _, output, *_ in self.records
            if op.outputs > 0 and op.differentiable and (op.args or op.tf_name == "PartitionedCall")
        ]
        return frozenset().union(*several)


def _as_tuple(output: Any) -> tuple[int, ...]:
    return output if type(output) is tuple else (output,)
