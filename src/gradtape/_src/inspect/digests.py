"""`tape.compare`: the first op at which two recordings differ.

A tape with `digests=True` keeps a digest of every result of its block, and of every cotangent of its backward passes:
shape, dtype, checksum, and up to 256 elements, always at the same positions. Digests are small, so that a run can be
compared with one on another machine through a file (`tape.save_digests`).
"""

from __future__ import annotations

import io
import json
import numbers
import os
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple
from zipfile import BadZipFile

import ml_dtypes
import numpy as np

from gradtape._src.autodiff.gradient_tape import Tape
from gradtape._src.call_sites import Line, shown_line
from gradtape._src.core.observe import Observer
from gradtape._src.core.primitive import Op, registry
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import Record
from gradtape._src.core.zero_preserving import concrete
from gradtape._src.dtypes import as_dtype
from gradtape._src.formats import atomic
from gradtape._src.inspect.events import OpLogger
from gradtape._src.inspect.op_names import shown_op
from gradtape._src.inspect.source import statement_at
from gradtape._src.inspect.tables import Column, Report, Table, plural
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import Tensor

SAMPLE = 256
"""The number of elements in a digest."""

ULPS = 100
"""Differences up to this many units in the last place of the largest number are rounding, unless `rtol` is given."""

FORMAT = "gradtape digests 2"


# -- digests ---------------------------------------------------------------------------------------------------------
class Digest(NamedTuple):
    """The digest of a value: `sample` are its elements at `places(size)`, in double precision."""

    shape: tuple[int, ...]
    dtype: str
    checksum: int
    largest: float
    sample: np.ndarray


class Producer(NamedTuple):
    """The op of a function that computes one of the values that its call returns."""

    op: int  # its position in the function
    is_used: bool  # whether another op of the function uses the value, and so contributes to its cotangent


class DigestRow(NamedTuple):
    """The digests of an op: of its results or, in the backward pass, of their cotangents."""

    op: str
    backward: bool
    whole: bool  # whether it is a whole program: a compiled function, a loop, a branch
    position: int  # of the op, among the rows of the forward pass
    line: str
    source: str
    values: tuple[Digest, ...]
    program: tuple[str, ...] = ()  # the ops of a function that was called, in order
    producers: tuple[Producer | None, ...] = ()  # for each value of a call, the op of the function that computes it

    def __str__(self) -> str:
        what = f"the cotangent of {self.op}" if self.backward else self.op
        return f"{what} ({self.line})" if self.line else what


@cache
def _eps(dtype: str) -> float:
    """The distance from 1 to the next number; 0 for other than floating dtypes."""
    try:
        kind = np.dtype(as_dtype(dtype).numpy_dtype)
    except TypeError:
        return 0.0
    return 0.0 if kind.kind in "biuOSU" else float(ml_dtypes.finfo(kind).eps)  # type: ignore[no-untyped-call]


@cache
def places(size: int) -> np.ndarray:
    """The positions of the elements in a digest: all, or the first, the last and others that depend
    only on the size.
    """
    if size <= SAMPLE:
        return np.arange(size)
    chosen = np.random.default_rng(size).choice(size - 2, SAMPLE - 2, replace=False) + 1
    return np.sort(np.concatenate([[0, size - 1], chosen]))


def digest(value: Any) -> Digest:
    """The digest of a tensor, an array or a cotangent."""
    array = concrete(value.dense() if type(value) is SparseCotangent else value)
    array = np.asarray(getattr(array, "array", array))
    data = np.ascontiguousarray(array)
    if data.dtype.kind in "OSU":
        checksum = zlib.crc32(repr(data.tolist()).encode())
        return Digest(data.shape, "string", checksum, 0.0, np.zeros(0))
    checksum = zlib.crc32(data.tobytes())
    wide = data.astype(np.complex128 if data.dtype.kind == "c" else np.float64).reshape(-1)
    finite = np.abs(wide[np.isfinite(wide)])
    return Digest(data.shape, data.dtype.name, checksum, float(finite.max(initial=0.0)), wide[places(wide.size)])


class DigestLogger(OpLogger):
    """The op logger of a tape with `digests=True`."""

    __slots__ = ("_positions", "rows")

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[DigestRow] = []
        self._positions: dict[int, int] = {}  # by uid of a result: the row of its op

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        count = len(self.ops)
        super().on_op(record, inputs, outputs)
        if len(self.ops) > count:
            results = outputs if type(outputs) is tuple else (outputs,)
            position = len(self.rows)
            self._positions.update({t.uid: position for t in results})
            row = _row(self.ops[-1].op, self.ops[-1].line, position, False, results)
            self.rows.append(row._replace(**_inside_of(Record.of(record))))

    def on_cotangents(self, record: Record, gs: Sequence[Any]) -> None:
        """Keep the digests of the cotangents of an op's results."""
        first = record.output[0] if type(record.output) is tuple else record.output
        position = self._positions.get(first, -1)
        row = _row(record.op, None, position, True, [g for g in gs if g is not None])
        forward = self.rows[position] if position >= 0 else row
        producers = tuple([p for p, g in zip(forward.producers, gs, strict=False) if g is not None])
        facts: dict[str, Any] = {
            "line": forward.line,
            "source": forward.source,
            "program": forward.program,
            "producers": producers,
        }
        self.rows.append(row._replace(**facts))


def _inside_of(record: Record) -> dict[str, Any]:
    """The ops of a function that was called, and those that compute its results and the values it saves."""
    derivative = record.attrs.get("derivative")
    if derivative is None:
        return {}
    names: list[str] = []
    made: dict[int, int] = {}
    used: set[int] = set()
    for plain in derivative.traced.trace.records:
        inside = Record.of(plain)
        outputs = inside.output if type(inside.output) is tuple else (inside.output,)
        made.update(dict.fromkeys(outputs, len(names)))
        used.update(inside.inputs)
        names.append(shown_op(inside.op))
    returned = [t.uid for t in (*derivative.traced.outputs, *derivative.residuals)]
    producers = tuple([Producer(made[uid], uid in used) if uid in made else None for uid in returned])
    return {"program": tuple(names), "producers": producers}


def _row(op: Op, line: Line | None, position: int, backward: bool, values: Sequence[Any]) -> DigestRow:
    whole = op.name not in registry
    digests = tuple(map(digest, values))
    return DigestRow(shown_op(op), backward, whole, position, shown_line(line), statement_at(line), digests)


class DigestObserver(Observer):
    """Adds the cotangents of a backward pass to the digests of its tape."""

    def __init__(self, logger: DigestLogger) -> None:
        self._logger = logger

    def on_vjp(self, record: Record, gs: Sequence[Any], results: dict[int, Any]) -> None:
        self._logger.on_cotangents(record, gs)


def rows_of(tape: Tape) -> list[DigestRow]:
    """The digests of a tape."""
    logger = tape._op_logger
    if isinstance(logger, DigestLogger):
        return logger.rows
    if "digests" in tape.options:
        return []  # its block was never entered
    raise ValueError(
        "The tape has no digests of its results. Create both tapes with GradientTape(digests=True) to compare them."
    )


# -- files -----------------------------------------------------------------------------------------------------------
def save_digests(tape: Tape, path: str | os.PathLike[str]) -> None:
    """See `GradientTape.save_digests`."""
    rows = rows_of(tape)
    described = [
        {
            "op": row.op, "backward": row.backward, "whole": row.whole, "position": row.position,
            "line": row.line, "source": row.source, "program": row.program, "producers": row.producers,
            "values": [[v.shape, v.dtype, v.checksum, v.largest, v.sample.size] for v in row.values],
        }
        for row in rows
    ]  # fmt: skip
    samples = [value.sample.astype(np.complex128) for row in rows for value in row.values]
    text = json.dumps({"format": FORMAT, "rows": described})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, text=np.array(text), samples=np.concatenate([np.zeros(0, complex), *samples]))
    atomic.write(os.fspath(path), lambda file: file.write(buffer.getvalue()))


def read_digests(path: str | os.PathLike[str]) -> list[DigestRow]:
    """The rows of a file that `save_digests` has written."""
    with open(path, "rb") as opened:
        data = io.BytesIO(opened.read())
    try:
        with np.load(data, allow_pickle=False) as file:
            found, samples = json.loads(str(file["text"])), file["samples"]
        if found["format"] != FORMAT:
            raise ValueError(f"its format is {found['format']!r}")
        return list(_rows(found["rows"], samples))
    except (
        BadZipFile,
        zlib.error,
        EOFError,
        LookupError,
        TypeError,
        ValueError,
        OSError,
        NotImplementedError,
    ) as error:
        raise ValueError(
            f"{os.fspath(path)} is not a file written by tape.save_digests ({type(error).__name__}: {error})."
        ) from None


def _rows(described: list[Any], samples: np.ndarray) -> Iterator[DigestRow]:
    start = 0
    for row in described:
        values = []
        for shape, dtype, checksum, largest, count in row["values"]:
            sample = samples[start : start + count]
            if sample.size != count or count < 0:
                raise ValueError("numbers are missing")
            start += count
            sample = sample if dtype.startswith("complex") else sample.real
            values.append(Digest(tuple(shape), dtype, checksum, float(largest), sample))
        facts = {name: row[name] for name in ("op", "backward", "whole", "position", "line", "source")}
        producers = tuple([None if each is None else Producer(*each) for each in row["producers"]])
        yield DigestRow(**facts, values=tuple(values), program=tuple(row["program"]), producers=producers)


# -- comparing -------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Difference:
    """One op at which two recordings differ.

    `kind` is "value", "shape", "dtype", "op" (another op ran) or "length" (one recording ends). `index` and
    `other_index` are the positions in the recordings, `relative` is the difference relative to the largest number,
    `mine` and `theirs` are the values at `element` of the flattened arrays, where they differ most.
    """

    kind: str
    index: int
    other_index: int
    op: str
    other_op: str
    line: str
    source: str
    relative: float
    element: int | None
    mine: complex | float | None
    theirs: complex | float | None

    def __str__(self) -> str:
        place = f" at {self.line}" if self.line else ""
        text = f"op {self.index}, {self.op}{place}: {self._what()}"
        return f"{text}\n  {self.source}" if self.source else text

    def _what(self) -> str:
        if self.kind == "op":
            return f"the other recording has {self.other_op} here"
        if self.kind == "length":
            return (
                "the other recording has ended"
                if self.other_op == ""
                else f"only the other recording has {self.other_op}"
            )
        if self.kind == "shape":
            return "the results have different shapes"
        if self.element is None:
            return "the results differ"
        return (
            f"{self.mine!r} and {self.theirs!r} at element {self.element}, a relative difference of {self.relative:.2g}"
        )


class Comparison(Report):
    """The result of `tape.compare`; true if all differences are rounding.

    `first` is the first op that differs by more than the tolerance, `first_bits` the first one with any different bit;
    None if there is none. `pairs` has the positions and the relative difference of each pair of ops.
    """

    max_rows = 40

    def __init__(
        self,
        rows: tuple[list[DigestRow], list[DigestRow]],
        pairs: list[tuple[int, int, float]],
        first: Difference | None,
        first_bits: Difference | None,
    ) -> None:
        self._rows, self.pairs, self.first, self.first_bits = rows, pairs, first, first_bits

    def __bool__(self) -> bool:
        return self.first is None

    def tables(self) -> list[Table]:
        mine, theirs = self._rows
        columns = [Column("#", True), Column("op"), Column("pass"), Column("difference", True), Column("line")]
        cells = [
            [str(i), mine[i].op if mine[i].op == theirs[j].op else f"{mine[i].op} / {theirs[j].op}",
             "backward" if mine[i].backward else "forward", "0" if not gap else f"{gap:.2g}", mine[i].line]
            for i, j, gap in self.pairs
        ]  # fmt: skip
        return [Table(self._title(), columns, cells, self._remarks())]

    def _title(self) -> str:
        count = plural(len(self.pairs), "op")
        return f"{count} compared: {'no difference beyond rounding' if self else 'they differ'}"

    def _remarks(self) -> Iterator[str]:
        if self.first is not None:
            yield f"First difference: {self.first}"
        if self.first_bits is not None and self.first_bits != self.first:
            yield f"First difference in any bit: {self.first_bits}"


def compare(tape: Tape, other: Any, rtol: Any, atol: Any) -> Comparison:
    """See `GradientTape.compare`."""
    if not isinstance(other, (Tape, str, os.PathLike)):
        raise TypeError(
            "compare takes another GradientTape(digests=True), or the path of a file written by tape.save_digests. "
            f"Received: {other!r}"
        )
    for tolerance in (atol,) if rtol is None else (rtol, atol):
        if isinstance(tolerance, bool) or not isinstance(tolerance, (numbers.Real, Tensor)):
            raise TypeError(f"Tolerances must be real numbers. Received: rtol={rtol!r}, atol={atol!r}")
        if not float(tolerance) >= 0:
            raise ValueError(f"Tolerances must not be negative. Received: rtol={rtol!r}, atol={atol!r}")
    theirs = rows_of(other) if isinstance(other, Tape) else read_digests(other)
    return _Walk(rows_of(tape), theirs, rtol, atol).run()


def _in_order(program: Sequence[str], ops: Sequence[str]) -> dict[int, int]:
    """The positions among `ops` of the ops of a program, which are there in the same order."""
    found, k = {}, 0
    for i, name in enumerate(program):
        at = next((j for j in range(k, len(ops)) if ops[j] == name), None)
        if at is not None:
            found[i], k = at, at + 1
    return found


class _Walk:
    """Compares two recordings in order."""

    def __init__(self, mine: list[DigestRow], theirs: list[DigestRow], rtol: float | None, atol: float) -> None:
        self.mine, self.theirs, self.rtol, self.atol = mine, theirs, rtol, atol
        self.pairs: list[tuple[int, int, float]] = []
        self.first: Difference | None = None
        self.bits: Difference | None = None
        self._eps = 0.0  # of the least precise dtype so far, whose rounding propagates
        self._spans: dict[int, range] = {}  # by position of a program: the positions of its ops in the other recording

    def run(self) -> Comparison:
        i = j = 0
        while self.first is None and (i < len(self.mine) or j < len(self.theirs)):
            if i == len(self.mine) or j == len(self.theirs):
                self.first = self._difference("length", i, j)
            elif self.mine[i].whole != self.theirs[j].whole and self.mine[i].backward == self.theirs[j].backward:
                i, j = self._program(i, j)
            else:
                self._pair(i, j)
                i, j = i + 1, j + 1
        return Comparison((self.mine, self.theirs), self.pairs, self.first, self.bits or self.first)

    def _pair(self, i: int, j: int) -> None:
        mine, theirs = self.mine[i], self.theirs[j]
        if (mine.op, mine.backward) != (theirs.op, theirs.backward):
            self.first = self._difference("op", i, j)
        elif [v.shape for v in mine.values] != [v.shape for v in theirs.values]:
            self.first = self._difference("shape", i, j)
        else:
            self._values(i, j, list(zip(mine.values, theirs.values, strict=True)))

    def _values(self, i: int, j: int, values: list[tuple[Digest, Digest]]) -> None:
        gaps = [self._gap(a, b) for a, b in values]
        worst = max(range(len(gaps)), key=lambda k: gaps[k][0], default=None)
        gap = 0.0 if worst is None else gaps[worst][0]
        self.pairs.append((i, j, gap))
        close = [self._is_close(a, b) for a, b in values]
        if worst is None or all(a.checksum == b.checksum and a.dtype == b.dtype for a, b in values):
            return
        found = self._difference("value", i, j, gap, gaps[worst][1], values[worst])
        if self.bits is None and any(a.checksum != b.checksum and a.dtype == b.dtype for a, b in values):
            self.bits = found
        if not all(close):
            self.first = found

    def _program(self, i: int, j: int) -> tuple[int, int]:
        """Match a program of one side with its ops on the other side, which include the program's results."""
        swapped = self.theirs[j].whole
        program, ops, start = (self.theirs[j], self.mine, i) if swapped else (self.mine[i], self.theirs, j)
        span = self._spans.get(program.position) if program.backward else None
        end = start
        while end < len(ops) and ops[end].backward == program.backward and (span is None or ops[end].position in span):
            end += 1
        found = self._inside(program, ops[start:end]) if program.program else self._alike(program, ops[start:end])
        if not program.backward:
            end = start + max([k for k, *_ in found], default=-1) + 1
            self._spans[program.position] = range(ops[start].position, ops[start].position + end - start)
        for k, gap, value, other in sorted(found, key=lambda each: each[0]):
            at = (start + k, j) if swapped else (i, start + k)
            self.pairs.append((*at, gap))
            if not self._is_close(value, other):
                pair = (other, value) if swapped else (value, other)
                self.first = self._difference("value", *at, gap, self._gap(*pair)[1], pair)
                break
        return (end, j + 1) if swapped else (i + 1, end)

    def _inside(self, call: DigestRow, ops: list[DigestRow]) -> list[tuple[int, float, Digest, Digest]]:
        """For each value that the call of a function returns, the op that computes it on the other side: position,
        difference, and both values.

        The other side has all ops of the function, and others that do not depend on its arguments, or that come later.
        If several have the same name, the most similar result is the right one; if none is close, the ops are
        counted. Values that no op of the function computes, such as factors of a derivative, are not compared.
        """
        counted = _in_order(call.program, [row.op for row in ops])
        found = []
        for value, producer in zip(call.values, call.producers, strict=True):
            if producer is None or (call.backward and producer.is_used):
                continue
            alike = [
                (self._gap(value, other)[0], k, other)
                for k, row in enumerate(ops)
                if row.op == call.program[producer.op]
                for other in row.values
                if other.shape == value.shape
            ]
            if not alike:
                continue
            place = counted.get(producer.op)
            gap, k, other = min(alike, key=lambda each: (each[0], each[1] != place, each[1]))
            if not self._is_close(value, other):
                gap, k, other = next((each for each in alike if each[1] == place), (gap, k, other))
            found.append((k, gap, value, other))
        return found

    def _alike(self, program: DigestRow, ops: list[DigestRow]) -> list[tuple[int, float, Digest, Digest]]:
        """For each result of a program, the op with the most similar result: position, difference, and both results.

        The results of a program include residuals, so values in its middle are compared as well.
        """
        found = []
        for value in program.values:
            alike = [
                (self._gap(value, other)[0], k, value, other)
                for k, row in enumerate(ops)
                for other in row.values
                if other.shape == value.shape
            ]
            if alike:
                gap, k, *both = min(alike, key=lambda each: each[:2])
                found.append((k, gap, *both))
        return found  # type: ignore[return-value]

    def _gap(self, a: Digest, b: Digest) -> tuple[float, int | None]:
        """The largest difference relative to the largest number, and its position."""
        if a.sample.size == 0 or a.sample.size != b.sample.size:
            return (0.0 if a.checksum == b.checksum else float("inf")), None
        with float_errors_ignored():
            off = np.abs(a.sample - b.sample)
        off = np.where((a.sample == b.sample) | (np.isnan(a.sample) & np.isnan(b.sample)), 0.0, off)
        off = np.where(np.isnan(off), np.inf, off)
        k = int(np.argmax(off))
        scale = max(a.largest, b.largest)
        return (float(off[k]) / scale if scale else float(off[k])), k

    def _is_close(self, a: Digest, b: Digest) -> bool:
        gap, _ = self._gap(a, b)
        scale = max(a.largest, b.largest) or 1.0
        self._eps = max(self._eps, _eps(a.dtype), _eps(b.dtype))
        rtol = self.rtol if self.rtol is not None else ULPS * self._eps
        return gap * scale <= rtol * scale + self.atol

    def _difference(
        self, kind: str, i: int, j: int, gap: float = float("inf"), k: int | None = None,
        pair: tuple[Digest, Digest] | None = None,
    ) -> Difference:  # fmt: skip
        nothing = DigestRow("", False, False, -1, "", "", ())
        mine = self.mine[i] if i < len(self.mine) else nothing
        theirs = self.theirs[j] if j < len(self.theirs) else nothing
        shown = mine if mine.op else theirs
        element = None if k is None or pair is None else int(places(int(np.prod(pair[0].shape)))[k])
        numbers = (None, None) if k is None or pair is None else (pair[0].sample[k].item(), pair[1].sample[k].item())
        what = f"the cotangent of {mine.op}" if mine.backward else mine.op
        return Difference(
            kind, i, j, what, str(theirs) if theirs.op else "", shown.line, shown.source, gap, element, *numbers
        )
