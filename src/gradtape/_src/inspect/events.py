"""What a tape knows besides its records: every op of its block with the user's line, and events between ops.

A plain tape has its records (including ops without a derivative, where a path ends) and a short log of events. A tape
with `lines=True` also has an op logger: a recorder that tracks every tensor, and so sees ops that the tape does not
record. Nothing here keeps arrays alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src.autodiff.recording import Event, gradient_calls
from gradtape._src.call_sites import Line, scope, user_line
from gradtape._src.core.tape import Record, Recorder, unrecorded_reads

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape
    from gradtape._src.core.primitive import Op
    from gradtape._src.graph.traced import Traced

Shape = tuple[int, ...]

MOST_OPS = 100_000
"""The largest number of ops in an op logger."""


class OpEvent(NamedTuple):
    """One op call, without values."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: Any
    recorded: bool  # by the tape itself, not only by its op logger
    where: Line | None
    shapes: tuple[Shape, ...]
    scope: str = ""

    def carries(self, position: int) -> bool:
        """Whether the input at this position has a derivative."""
        rules = self.op.rules
        if self.op.name == "numpy_function":  # its rule returns None for every input
            return False
        return self.op.vjp_all is not None or (bool(rules) and rules[min(position, len(rules) - 1)] is not None)


# -- the op logger ---------------------------------------------------------------------------------------------------
class _Everything(dict[int, Any]):
    """An empty dictionary that contains every uid."""

    def __contains__(self, uid: object) -> bool:
        return True

    def __getitem__(self, uid: int) -> Any:
        return ()

    def __setitem__(self, uid: int, shape: Any) -> None:
        pass


class LoggedOp(NamedTuple):
    """An op of the block, without values."""

    op: Op
    inputs: tuple[int, ...]
    output: Any
    dtype: Any
    line: Line | None
    shapes: tuple[Shape, ...]
    scope: str


class OpLogger(Recorder):
    """Logs every op of the block with the user's line, whatever the tape tracks."""

    __slots__ = ("ops",)

    def __init__(self) -> None:
        super().__init__()
        self.tracked = _Everything()
        self.append = _report_every_op
        self.ops: list[LoggedOp] = []

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        if len(self.ops) < MOST_OPS:
            op, uids, output, _, _, dtype = Record.of(record)
            shapes = tuple([tuple(t.array.shape) for t in (outputs if type(outputs) is tuple else (outputs,))])
            self.ops.append(LoggedOp(op, uids, output, dtype, user_line(), shapes, scope()))


def _report_every_op(record: Any) -> bool:
    return True  # on_op follows


def lines_of(tape: Tape) -> dict[int, Line]:
    """The user's file and line of every op that a tape with `lines=True` has logged, by the uid of its first output."""
    logger = tape._op_logger
    if not isinstance(logger, OpLogger):
        return {}
    return {_outputs(logged.output)[0]: logged.line for logged in logger.ops if logged.line is not None}


def scopes_of(tape: Tape) -> dict[int, str]:
    """The scopes (layers, `tf.name_scope`) of every op that a tape with `lines=True` has logged, by
    its first output.
    """
    logger = tape._op_logger
    if not isinstance(logger, OpLogger):
        return {}
    return {_outputs(logged.output)[0]: logged.scope for logged in logger.ops if logged.scope}


# -- the ops as a graph ----------------------------------------------------------------------------------------------
class OpGraph:
    """Ops, with the values that they take and compute: those of a tape, or of the trace of a function."""

    tracked: dict[int, Any]
    functions: dict[int, Traced]  # what calls of functions run, by the uid of their first output

    def __init__(self, nodes: list[OpEvent]) -> None:
        self.nodes = nodes
        self.producer = {uid: node for node in nodes for uid in node.outputs}
        self.consumers: dict[int, list[tuple[OpEvent, int]]] = {}
        for node in nodes:
            for position, uid in enumerate(node.inputs):
                self.consumers.setdefault(uid, []).append((node, position))

    def path(self, source: int, targets: Iterable[int], *, differentiable: bool) -> list[tuple[OpEvent, int]] | None:
        """A shortest chain of (op, position of the input) from the source to a target, or None."""
        after: dict[int, tuple[OpEvent, int, int]] = {}  # by uid: op, input position, output that leads on
        frontier = list(dict.fromkeys(targets))
        seen = set(frontier)
        while frontier and source not in seen:
            found: list[int] = []
            for uid in frontier:
                node = self.producer.get(uid)
                if node is None or (differentiable and (not node.recorded or not node.op.differentiable)):
                    continue
                for position, given in enumerate(node.inputs):
                    if given in seen or not given:
                        continue
                    if differentiable and (given not in self.tracked or not self.carries(node, position)):
                        continue
                    seen.add(given)
                    after[given] = (node, position, uid)
                    found.append(given)
            frontier = found
        if source not in seen:
            return None
        steps = []
        while source in after:
            node, position, source = after[source]
            steps.append((node, position))
        return steps

    def carries(self, node: OpEvent, position: int) -> bool:
        """Whether the input of an op at this position has a derivative: for a call, within the function."""
        if not node.carries(position):
            return False
        traced = self.functions.get(node.outputs[0])
        return traced is None or FunctionOps(traced).path_from(position, differentiable=True) is not None

    def behind(self, targets: Iterable[int]) -> tuple[set[int], bool]:
        """All values that the targets were computed from, and whether a plain number or array was among them."""
        seen, stack, plain = set(targets), list(targets), False
        while stack:
            node = self.producer.get(stack.pop())
            for uid in node.inputs if node is not None else ():
                if not uid:
                    plain = True
                elif uid not in seen:
                    seen.add(uid)
                    stack.append(uid)
        return seen, plain

    def made_from(self, source: int) -> set[int]:
        """All values that were computed from the source, with or without derivatives."""
        made = {source}
        for node in self.nodes:
            if not made.isdisjoint(node.inputs):
                made.update(node.outputs)
        return made


class FunctionOps(OpGraph):
    """The ops of a traced function."""

    def __init__(self, traced: Traced) -> None:
        self.tracked = traced.trace.tracked
        self.name = traced.graph.name
        self.inputs, self.outputs = traced.inner_uids(), [t.uid for t in traced.outputs]
        records = traced.trace.records
        super().__init__(list(events_of(records, self.tracked)))
        calls = {node.outputs[0]: traced_in(record.attrs) for node, record in zip(self.nodes, records, strict=True)}
        self.functions = {uid: found for uid, found in calls.items() if found is not None}

    def path_from(self, position: int, *, differentiable: bool) -> list[tuple[OpEvent, int]] | None:
        """A shortest chain from an input, which may be a captured value, to an output."""
        return self.path(self.inputs[position], self.outputs, differentiable=differentiable)


def traced_in(attrs: dict[str, Any]) -> Traced | None:
    """The function that a record calls; None for other ops."""
    derivative = attrs.get("derivative")
    return attrs.get("traced") if derivative is None else derivative.traced


def events_of(records: Iterable[Any], tracked: dict[int, Any]) -> Iterator[OpEvent]:
    """The ops of records, without values."""
    for op, inputs, output, _, _, dtype in map(Record.of, records):
        outputs = _outputs(output)
        shapes = tuple(tracked.get(uid, ()) for uid in outputs) if op.differentiable else ()
        yield OpEvent(op, inputs, outputs, dtype, True, None, shapes)


# -- all facts -------------------------------------------------------------------------------------------------------
class Facts(OpGraph):
    """The facts about a tape that records, has finished or is used up: a graph of ops, and times of events."""

    def __init__(self, tape: Tape) -> None:
        recording = tape._recording
        self.tape = tape
        self.functions: dict[int, Traced] = {}
        self.calls: list[tuple[tuple[int, ...], tuple[int, ...], Traced]] = []
        self.live = recording is not None
        self.log = [Event(*fields) for fields in tape._log]
        self.discarded = tape._discarded
        known = recording or tape._summary
        self.tracked: dict[int, Shape] = {} if known is None else known.tracked
        self.roots: frozenset[int] = frozenset() if known is None else frozenset(known.roots)
        self.variables: dict[int, Any] = {} if known is None else known.variables
        self.events: list[Event] = [] if known is None else list(known.events)
        self.sources: frozenset[int] = frozenset() if known is None else known.sources
        records: list[Any] = []
        if known is not None:
            records = known.records if self.live else known.unreached[::-1]
        self.complete = self.live or (known is not None and len(records) == known.size)
        for inputs, outputs, reference in () if known is None else known.calls:
            if outputs and (traced := reference()) is not None:
                self.functions[outputs[0]] = traced
                self.calls.append((inputs, outputs, traced))
        super().__init__(self._nodes(records))

    def _nodes(self, records: list[Any]) -> list[OpEvent]:
        known: dict[int, OpEvent] = {}
        known.update({node.outputs[0]: node for node in events_of(records, self.tracked)})
        logger = self.tape._op_logger
        self.logged = isinstance(logger, OpLogger) and len(logger.ops) < MOST_OPS
        if isinstance(logger, OpLogger):
            for op, inputs, output, dtype, line, shapes, place in logger.ops:
                outputs = _outputs(output)
                recorded = outputs[0] in known or any(uid in self.tracked for uid in outputs)
                known[outputs[0]] = OpEvent(op, inputs, outputs, dtype, recorded, line, shapes, place)
            self.complete = self.complete or self.logged
        return [known[uid] for uid in sorted(known)]

    # -- when --------------------------------------------------------------------------------------------------------
    @property
    def began(self) -> int:
        """The uid at which recording began."""
        return next((event.when for event in self.log if event.what == "start"), 0)

    def state_at(self, uid: int) -> Event | None:
        """The last event of the tape before this uid was assigned; None before it began."""
        found = None
        for event in self.log:
            if event.when > uid:
                break
            if event.what in ("start", "exit", "pause", "stop_recording", "reset", "gradient call"):
                found = event
        return found

    def breaks(self) -> list[tuple[Event, int]]:
        """The intervals within the block in which the tape did not record: how each began, and the uid of its end."""
        states = [event for event in self.log if event.what not in ("watch", "watched nothing")]
        return [
            (a, b.when) for a, b in pairwise(states) if a.what in ("pause", "stop_recording") and b.when > a.when + 1
        ]

    def missed_readings(self, uid: int) -> list[tuple[int, int, int, str]]:
        """Reads of a variable that no tape recorded, after this tape had begun."""
        return [m for m in list(unrecorded_reads) if m[1] == uid and m[0] >= self.began]

    def answer_with(self, uid: int) -> tuple[str, Line] | None:
        """The method and line of the gradient call, of any tape, that computed this tensor."""
        for first, last, method, where in list(gradient_calls):
            if first <= uid <= last:
                return method, where
        return None


def _outputs(output: Any) -> tuple[int, ...]:
    return output if type(output) is tuple else (output,)
