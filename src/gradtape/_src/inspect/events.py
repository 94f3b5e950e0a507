"""What a tape knows beside its records: every op of its block with the user's line, and what happened between ops.

A plain tape has its records (also those of ops without a derivative, where a path ends) and a short log of events. A
tape with `lines=True` has a witness too: a recorder that follows every tensor, so that it also sees what the tape was
not told to follow, or was told not to record. Nothing here holds an array.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src.autodiff.gradient_tape import Event, _user_frame, answers
from gradtape._src.core.tape import Record, Recorder, unrecorded_reads

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import GradientTape
    from gradtape._src.core.primitive import Op

Line = tuple[str, int]
Shape = tuple[int, ...]

MOST_OPS = 100_000
"""How many ops a witness remembers."""


class Node(NamedTuple):
    """One op call, without values."""

    op: Op
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    dtype: Any
    recorded: bool  # by the tape itself, and not only seen by its witness
    where: Line | None
    shapes: tuple[Shape, ...]

    def carries(self, position: int) -> bool:
        """Whether there is a derivative for the input at this position."""
        rules = self.op.rules
        if self.op.name == "numpy_function":  # its rule says None to everything
            return False
        return self.op.vjp_all is not None or (bool(rules) and rules[min(position, len(rules) - 1)] is not None)


# -- the witness -----------------------------------------------------------------------------------------------------
class _Everything(dict[int, Any]):
    """Holds nothing, and says that it holds every uid."""

    def __contains__(self, uid: object) -> bool:
        return True

    def __getitem__(self, uid: int) -> Any:
        return ()

    def __setitem__(self, uid: int, shape: Any) -> None:
        pass


class Witness(Recorder):
    """Sees every op of the block, whatever the tape follows."""

    __slots__ = ("lines", "seen", "shapes")

    def __init__(self) -> None:
        super().__init__()
        self.tracked = _Everything()
        self.append = self._see
        self.seen: list[Any] = []
        self.lines: list[Line | None] = []
        self.shapes: list[tuple[Shape, ...]] = []

    def _see(self, record: Any) -> bool:
        if len(self.seen) >= MOST_OPS:
            return False
        op, inputs, output, _, _, dtype = Record.of(record)
        frame = _user_frame()
        self.seen.append((op, inputs, output, dtype))
        self.lines.append(None if frame is None else (frame.f_code.co_filename, frame.f_lineno))
        self.shapes.append(())
        return True

    def on_output(self, outputs: Any) -> None:
        tensors = outputs if type(outputs) is tuple else (outputs,)
        self.shapes[-1] = tuple(tuple(t.array.shape) for t in tensors)


def observe(tape: GradientTape, recording: Recorder) -> None:
    """Give a tape that was made with `lines` its witness; `reset` does not blind it."""
    if tape.options.get("lines") and tape._witness is None:
        tape._witness = Witness()


def lines_of(tape: GradientTape) -> dict[int, Line]:
    """The user's file and line of every op that a tape with `lines=True` saw, by the uid of the (first) output."""
    witness = tape._witness
    if not isinstance(witness, Witness):
        return {}
    return {_outputs(r[2])[0]: line for r, line in zip(witness.seen, witness.lines, strict=True) if line is not None}


# -- everything together ---------------------------------------------------------------------------------------------
class Facts:
    """What is known of a tape, recording, finished or used up: a graph of ops, and when what happened."""

    def __init__(self, tape: GradientTape) -> None:
        recording = tape._recording
        self.tape = tape
        self.live = recording is not None
        self.log = [Event(*fields) for fields in tape._log]
        self.forgotten = tape._forgotten
        known = recording or tape._skeleton
        self.tracked: dict[int, Shape] = {} if known is None else known.tracked
        self.roots: frozenset[int] = frozenset() if known is None else frozenset(known.roots)
        self.variables: dict[int, Any] = {} if known is None else known.variables
        self.events: list[Event] = [] if known is None else list(known.events)
        self.asked: frozenset[int] = frozenset() if known is None else known.asked
        records: list[Any] = []
        if known is not None:
            records = known.records if self.live else known.unreached[::-1]
        self.complete = self.live or (known is not None and len(records) == known.size)
        self.nodes = self._nodes(records)
        self.producer = {uid: node for node in self.nodes for uid in node.outputs}
        self.consumers: dict[int, list[tuple[Node, int]]] = {}
        for node in self.nodes:
            for position, uid in enumerate(node.inputs):
                self.consumers.setdefault(uid, []).append((node, position))

    def _nodes(self, records: list[Any]) -> list[Node]:
        known: dict[int, Node] = {}
        for op, inputs, output, _, _, dtype in map(Record.of, records):
            outputs = _outputs(output)
            shapes = tuple(self.tracked.get(uid, ()) for uid in outputs) if op.differentiable else ()
            known[outputs[0]] = Node(op, inputs, outputs, dtype, True, None, shapes)
        witness = self.tape._witness
        self.witnessed = isinstance(witness, Witness) and len(witness.seen) < MOST_OPS
        if isinstance(witness, Witness):
            for (op, inputs, output, dtype), line, shapes in zip(
                witness.seen, witness.lines, witness.shapes, strict=True
            ):
                outputs = _outputs(output)
                recorded = outputs[0] in known or any(uid in self.tracked for uid in outputs)
                known[outputs[0]] = Node(op, inputs, outputs, dtype, recorded, line, shapes)
            self.complete = self.complete or self.witnessed
        return [known[uid] for uid in sorted(known)]

    # -- when --------------------------------------------------------------------------------------------------------
    @property
    def began(self) -> int:
        """The uid at which the tape began to record."""
        return next((event.when for event in self.log if event.what == "start"), 0)

    def state_at(self, uid: int) -> Event | None:
        """The last thing that happened to the tape before this uid was given: None is before it began."""
        found = None
        for event in self.log:
            if event.when > uid:
                break
            if event.what in ("start", "exit", "pause", "stop_recording", "reset", "question"):
                found = event
        return found

    def breaks(self) -> list[tuple[Event, int]]:
        """The times within the block in which the tape did not record: how each began, and the uid of its end."""
        states = [event for event in self.log if event.what not in ("watch", "watched nothing")]
        return [
            (a, b.when) for a, b in pairwise(states) if a.what in ("pause", "stop_recording") and b.when > a.when + 1
        ]

    def missed_readings(self, uid: int) -> list[tuple[int, int, int, str]]:
        """Readings of a variable that no tape saw, after this tape had begun."""
        return [m for m in list(unrecorded_reads) if m[1] == uid and m[0] >= self.began]

    def answer_with(self, uid: int) -> tuple[str, Line] | None:
        """The method and line of the question of some tape whose answer this tensor is."""
        for first, last, method, where in list(answers):
            if first <= uid <= last:
                return method, where
        return None

    # -- the graph ---------------------------------------------------------------------------------------------------
    def path(self, source: int, targets: Iterable[int], *, differentiable: bool) -> list[tuple[Node, int]] | None:
        """A shortest chain of (op, position of the input) from the source to a target, or None."""
        after: dict[int, tuple[Node, int, int]] = {}  # uid -> the op that takes it, where, and which output goes on
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
                    if differentiable and (given not in self.tracked or not node.carries(position)):
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

    def behind(self, targets: Iterable[int]) -> tuple[set[int], bool]:
        """Everything the targets were made from, and whether a plain number or array was among it."""
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
        """Everything that was made from the source, whether or not derivatives come through."""
        made = {source}
        for node in self.nodes:
            if not made.isdisjoint(node.inputs):
                made.update(node.outputs)
        return made


def _outputs(output: Any) -> tuple[int, ...]:
    return output if type(output) is tuple else (output,)
