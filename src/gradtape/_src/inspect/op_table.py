"""The data of all tables and pictures of a tape: a row for each op, and the arrays that the tape keeps alive.

A tape that records or is persistent has all records. One that is used up has freed them; the table then shows what its
op logger (`lines=True`, `profile=True`) or its summary has, and `OpTable.remark` says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src.autodiff.arguments import leaves
from gradtape._src.autodiff.budget import Dropped
from gradtape._src.call_sites import Line
from gradtape._src.core.tape import Record
from gradtape._src.dtypes import as_dtype
from gradtape._src.inspect import events
from gradtape._src.inspect.op_names import shown_op
from gradtape._src.inspect.tables import line_text
from gradtape._src.tensor import CONSTANT, Tensor
from gradtape._src.variable import Variable, peek, unwrapped

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape
    from gradtape._src.autodiff.recording import Recording

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One op of a tape. Times are in nanoseconds; unknown values are None."""

    index: int
    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shapes: tuple[Shape | None, ...]
    dtypes: tuple[str, ...]
    saved: int | None
    """Bytes that this op was the first to save for the backward pass, without variables and watched tensors."""
    forward: int | None
    backward: int | None
    line: Line | None
    used: bool | None
    """Whether the target depends on it; None without a target."""
    differentiable: bool
    attrs: str
    scope: str = ""
    """The Keras layer or `tf.name_scope` in which it ran, on a tape with `lines=True`."""


@dataclass(frozen=True, slots=True)
class Source:
    """An operand of the ops of a tape that no op of the tape computed."""

    key: str
    kind: str  # variable, watched, constant
    name: str
    shape: Shape | None
    dtype: str
    nbytes: int | None


@dataclass(slots=True)
class Holding:
    """An array that the tape keeps alive: the memory that it occupies, counted once."""

    nbytes: int
    kind: str  # result (of an op of this tape), input (data, constants), variable, watched
    index: int  # the first op that saved it
    op: str
    line: Line | None
    shape: Shape
    dtype: str
    users: int = 1


@dataclass(slots=True)
class OpTable:
    """The data of a tape, for all views."""

    rows: list[Row]
    sources: dict[int, Source]  # by uid
    constants: dict[tuple[int, int], Source]  # of Python and NumPy operands, by (op, position)
    holdings: list[Holding]
    targets: list[int]
    requested: list[int]
    state: str
    remark: str = ""
    profiled: bool = False
    names: dict[int, str] = field(default_factory=dict)


def op_table(tape: Tape, target: Any = None, sources: Any = None, names: dict[int, str] | None = None) -> OpTable:
    """Read a tape, in any state."""
    names = {**(names or {}), **_structure_names(target), **_structure_names(sources)}
    targets, requested = _uids(target, "target"), _uids(sources, "sources")
    lines = events.lines_of(tape)
    known = _freed(tape) if tape._recording is None else _recorded(tape, tape._recording, lines)
    rows = _rows(tape, known, lines, _used(known.records, targets) if targets else None)
    found, constants = _sources(known.records, rows, known.variables, known.roots, known.shapes, names)
    return OpTable(
        rows,
        found,
        constants,
        known.holdings,
        targets,
        requested,
        tape._state(),
        known.remark,
        tape._profiler is not None,
        names,
    )


class _Known(NamedTuple):
    """The facts about the ops of a tape."""

    records: list[Any]
    variables: dict[int, Variable]
    roots: set[int]
    shapes: dict[int, Shape]
    saved: list[int | None]
    holdings: list[Holding]
    remark: str


def _recorded(tape: Tape, recording: Recording, lines: dict[int, Line]) -> _Known:
    """The facts about a tape with records."""
    records = [Record.of(record) for record in recording.records]
    holdings = holdings_of(tape, lines)
    saved: list[int | None] = [0] * len(records)
    for holding in holdings:
        if holding.kind in ("result", "input"):
            saved[holding.index] = (saved[holding.index] or 0) + holding.nbytes
    shapes = {**_seen_shapes(tape), **recording.tracked}
    for record in records:
        for value in record.values:
            if value is not None and value.uid not in shapes:
                shapes[value.uid] = tuple(value.array.shape)
    return _Known(records, recording.variables, recording.roots, shapes, saved, holdings, "")


def _freed(tape: Tape) -> _Known:
    """The facts about a tape that has freed its records."""
    facts, profiler = events.Facts(tape), tape._profiler
    nodes = [node for node in facts.nodes if node.recorded]
    records: list[Any] = [(n.op, n.inputs, n.outputs, (), {}, n.dtype) for n in nodes]
    shapes = dict(facts.tracked)
    for node in nodes:
        shapes.update(zip(node.outputs, node.shapes, strict=False))
    kept = {} if profiler is None else profiler.saved
    saved = [kept.get(node.outputs[0]) for node in nodes]
    remark = _what_is_missing(tape, facts.complete, len(nodes))
    return _Known(records, facts.variables, set(facts.roots), shapes, saved, [], remark)


def _rows(tape: Tape, known: _Known, lines: dict[int, Line], used: set[int] | None) -> list[Row]:
    forward, backward = ({}, {}) if tape._profiler is None else tape._profiler.times()
    scopes = events.scopes_of(tape)
    rows = []
    for i, (op, inputs, output, _, attrs, dtype) in enumerate(known.records):
        outputs = output if type(output) is tuple else (output,)
        dtypes = dtype if type(dtype) is tuple else (dtype,)
        rows.append(
            Row(
                i,
                shown_op(op),
                tuple(inputs),
                outputs,
                tuple([known.shapes.get(uid) for uid in outputs]),
                tuple([_dtype_name(d) for d in dtypes]),
                known.saved[i],
                forward.get(outputs[0]),
                backward.get(outputs[0]),
                lines.get(outputs[0]),
                None if used is None else i in used,
                op.differentiable,
                _attrs_text(attrs),
                scopes.get(outputs[0], ""),
            )
        )
    return rows


def _seen_shapes(tape: Tape) -> dict[int, Shape]:
    """The shapes of results that the tape does not track, from its op logger."""
    logger = tape._op_logger
    if not isinstance(logger, events.OpLogger):
        return {}
    shapes: dict[int, Shape] = {}
    for logged in logger.ops:
        output = logged.output
        shapes.update(zip(output if type(output) is tuple else (output,), logged.shapes, strict=False))
    return shapes


def _what_is_missing(tape: Tape, complete: bool, known: int) -> str:
    if tape._used_at is None or complete:
        return ""
    where = line_text(tape._used_at)
    rest = f"; only the {known} ops that the backward pass did not reach are still known" if known else ""
    return (
        f"This tape was used up at {where} and has freed its records{rest}. Look at it before calling gradient(), "
        "or create it with persistent=True (which keeps everything), lines=True or profile=True (which keep a "
        "summary)."
    )


def _uids(structure: Any, what: str) -> list[int]:
    if structure is None:
        return []
    flat = leaves(structure)
    for leaf in flat:
        if not isinstance(leaf, (Tensor, Variable)):
            raise TypeError(f"`{what}` should be Tensors or Variables, but received {leaf!r}.")
    return [leaf.uid for leaf in flat]


def _structure_names(structure: Any) -> dict[int, str]:
    """The keys of a dictionary as names of its values: `sources={"w": w}`."""
    if not isinstance(structure, dict):
        return {}
    values = {k: unwrapped(v) for k, v in structure.items()}
    return {v.uid: str(k) for k, v in values.items() if isinstance(v, (Tensor, Variable))}


def _used(records: list[Any], targets: list[int]) -> set[int]:
    """The positions of the ops that the targets were computed by."""
    wanted, used = set(targets), set()
    for i in range(len(records) - 1, -1, -1):
        _, inputs, output, *_ = records[i]
        outputs = output if type(output) is tuple else (output,)
        if not wanted.isdisjoint(outputs):
            used.add(i)
            wanted.update(uid for uid in inputs if uid != CONSTANT)
    return used


def _dtype_name(dtype: Any) -> str:
    try:
        return as_dtype(dtype).name
    except TypeError:
        return str(dtype)


def _attrs_text(attrs: dict[str, Any]) -> str:
    """The static arguments in short: only numbers, words and tuples of them are worth showing."""
    parts = []
    for name, value in attrs.items():
        plain = isinstance(value, (bool, int, float, str, np.dtype)) or (
            isinstance(value, (tuple, list)) and all(isinstance(v, (bool, int, float, str)) for v in value)
        )
        if plain and value is not False:
            text = str(value)
            parts.append(f"{name}={text if len(text) <= 40 else text[:39] + '…'}")
    return ", ".join(parts)


def _sources(
    records: list[Any],
    rows: list[Row],
    variables: dict[int, Variable],
    roots: Any,
    shapes: dict[int, Shape],
    names: dict[int, str],
) -> tuple[dict[int, Source], dict[tuple[int, int], Source]]:
    made = {uid for row in rows for uid in row.outputs}
    found: dict[int, Source] = {}
    constants: dict[tuple[int, int], Source] = {}
    for i, row in enumerate(rows):
        values = records[i][3]
        for position, uid in enumerate(row.inputs):
            if uid in made or uid in found:
                continue
            value = values[position] if position < len(values) else None
            if uid == CONSTANT:
                constants[i, position] = _source(f"c{i}.{position}", "constant", "", value, None)
            elif uid in variables:
                variable = variables[uid]
                name = variable.name.removesuffix(":0")
                name = names.get(uid, name) if name == "Variable" else name
                found[uid] = _source(f"v{uid}", "variable", name, peek(variable), None)
            else:
                kind = "watched" if uid in roots else "constant"
                found[uid] = _source(f"t{uid}", kind, names.get(uid, ""), value, shapes.get(uid))
    return found, constants


def _source(key: str, kind: str, name: str, value: Any, shape: Shape | None) -> Source:
    if value is None:
        return Source(key, kind, name or kind, shape, "", None)
    array = value.array
    if not name and kind == "constant" and isinstance(array, np.ndarray) and array.ndim == 0:
        name = f"{array[()]:.6g}" if array.dtype.kind in "fiu" else str(array[()])
    return Source(key, kind, name or kind, tuple(array.shape), _dtype_name(array.dtype), array_bytes(array)[1])


# -- memory ----------------------------------------------------------------------------------------------------------
def array_bytes(array: Any) -> tuple[int, int]:
    """The identity and the size of the memory of an array: for a view, that of its base."""
    while not isinstance(array, np.ndarray) and isinstance(getattr(array, "array", None), (np.ndarray, Tensor)):
        array = array.array  # a batch, or a tensor inside it
    while isinstance(array, np.ndarray) and isinstance(array.base, np.ndarray):
        array = array.base
    return id(array), int(getattr(array, "nbytes", 0))


def holdings_of(tape: Tape, lines: dict[int, Line] | None = None) -> list[Holding]:
    """The arrays that the records of a tape keep alive, without repetitions, in the order in which they were saved."""
    recording = tape._recording
    if recording is None:
        return []
    variables, roots = recording.variables, recording.roots
    current = {array_bytes(peek(variable).array)[0] for variable in variables.values()}
    made: set[int] = set()
    found: dict[int, Holding] = {}
    for i, (op, _, output, values, attrs, _) in enumerate(map(Record.of, recording.records)):
        outputs = output if type(output) is tuple else (output,)
        made.update(outputs)
        for value in (*values, *_held_by(attrs)):
            if value is None:
                continue
            tensor = isinstance(value, Tensor)
            if type(value) is Dropped and value.kept is None:  # dropped because of a memory limit
                continue
            array = value.array if tensor else value
            uid = value.uid if tensor else CONSTANT
            owner, size = array_bytes(array)
            held = found.get(owner)
            if held is not None:
                held.users += 1
                if uid in roots and uid not in variables:
                    held.kind = "watched"  # found earlier through a view of it
                continue
            if owner in current:
                kind = "variable"
            elif uid in roots and uid not in variables:
                kind = "watched"
            else:
                kind = "result" if uid in made else "input"
            line = None if lines is None else lines.get(outputs[0])
            found[owner] = Holding(size, kind, i, shown_op(op), line, tuple(array.shape), _dtype_name(array.dtype))
    return list(found.values())


def _held_by(attrs: dict[str, Any]) -> list[Any]:
    """Tensors and arrays in static arguments, and in the closure of a user's gradient function."""
    found: list[Any] = []
    for value in attrs.values():
        function = getattr(value, "grad_fn", value)
        cells = getattr(function, "__closure__", None) or ()
        for kept in (value, *[cell.cell_contents for cell in cells if _filled(cell)]):
            found += [
                v for v in (kept if isinstance(kept, (list, tuple)) else (kept,)) if isinstance(v, (Tensor, np.ndarray))
            ]
    return found


def _filled(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
