"""`tape.nbytes` and `tape.memory_report()`: what a tape keeps alive, by op and by line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from gradtape._src.core.tape import Record
from gradtape._src.inspect import events
from gradtape._src.inspect.op_names import shown_op
from gradtape._src.inspect.op_table import Holding, holdings_of
from gradtape._src.inspect.tables import Column, Report, Table, bytes_text, line_text, plural, shape_text, time_text

if TYPE_CHECKING:
    from gradtape._src.autodiff.budget import Outcome
    from gradtape._src.autodiff.gradient_tape import Tape


def nbytes(tape: Tape) -> int:
    """See `GradientTape.nbytes`."""
    return sum(held.nbytes for held in holdings_of(tape) if held.kind in ("result", "input"))


def memory_report(tape: Tape) -> MemoryReport:
    """See `GradientTape.memory_report`."""
    return MemoryReport(tape)


class MemoryEntry(NamedTuple):
    """The memory that one kind of op, or one line, keeps."""

    what: str
    records: int
    arrays: int
    saved: int
    elsewhere: int


class MemoryReport(Report):
    """The tables of `tape.memory_report()`."""

    max_rows = 20

    def __init__(self, tape: Tape) -> None:
        lines = events.lines_of(tape)
        self.holdings = holdings_of(tape, lines)
        """All arrays, in the order in which they were saved."""
        self._state = tape._state()
        self.limit: Outcome | None = None if tape._budget is None else tape._budget.outcome
        """With `memory_limit`: bytes kept and their peak, the numbers of dropped values and recomputed ops, and the
        time.
        """
        self.plans: list[Any] = [] if tape._budget is None else list(tape._budget.plans)
        """With `memory_limit`, in functions, around their calls and on lazy arrays: what programs recompute."""
        records = [] if tape._recording is None else tape._recording.records
        self.records = len(records)
        self.saved = sum(h.nbytes for h in self.holdings if not _is_elsewhere(h))
        self.elsewhere = sum(h.nbytes for h in self.holdings if _is_elsewhere(h))
        self.overhead = sum(map(_record_bytes, records[:1000])) * max(1, len(records)) // max(1, len(records[:1000]))
        """The estimated memory of the records themselves, without arrays (extrapolated from 1,000 records)."""
        self.by_op = _entries(self.holdings, lambda h: h.op, _count(shown_op(record[0]) for record in records))
        keys = [record[2][0] if type(record[2]) is tuple else record[2] for record in records]
        counts = _count(lines[key] for key in keys if key in lines)
        self.by_line = _entries([h for h in self.holdings if h.line], lambda h: h.line, counts)

    @property
    def nbytes(self) -> int:
        """As `tape.nbytes`."""
        return self.saved

    def tables(self) -> list[Table]:
        per_record = self.overhead // self.records if self.records else 0
        remarks = [
            f"{bytes_text(self.saved)} saved, {bytes_text(self.elsewhere)} in variables and watched tensors, about "
            f"{bytes_text(self.overhead)} for {plural(self.records, 'record')} ({per_record} B each)."
        ]
        if not self.records:
            remarks = [f"The tape keeps nothing: it is {self._state}."]
        if self.limit is not None:
            remarks.append(_limit_text(self.limit))
        tables = [_plan_table(self.plans)] if self.plans else []
        tables.append(_table("Memory by op", "op", self.by_op, [] if self.by_line else remarks))
        if self.by_line:
            tables.append(_table("Memory by line", "line", self.by_line, []))
        largest = sorted((h for h in self.holdings if not _is_elsewhere(h)), key=lambda h: -h.nbytes)[:5]
        if largest:
            columns = [
                Column("array"),
                Column("dtype"),
                Column("bytes", True),
                Column("what"),
                Column("saved by"),
                Column("records that hold it", True),
            ]
            words = {"result": "result of an op", "input": "data or constant"}
            cells = [
                [
                    shape_text(h.shape),
                    h.dtype,
                    bytes_text(h.nbytes),
                    words[h.kind],
                    f"{h.op} #{h.index}" + (f" ({line_text(h.line)})" if h.line else ""),
                    str(h.users),
                ]
                for h in largest
            ]
            tables[-1].remarks = []
            tables.append(Table("Largest arrays", columns, cells, remarks))
        return tables


def _limit_text(limit: Outcome) -> str:
    """A sentence on the effect of a memory limit."""
    spilled = f", {bytes_text(limit.spilled)} written to files" if limit.spilled else ""
    kept, dropped = bytes_text(limit.peak), plural(limit.dropped, "value")
    again = f"{plural(limit.recomputed, 'op')} recomputed in {limit.seconds:.2f} s"
    return f"The limit is {bytes_text(limit.limit)}; at most {kept} were kept, {dropped} dropped, {again}{spilled}."


def _plan_table(plans: Sequence[Any]) -> Table:
    """What backward passes in programs recompute, and their predicted peaks."""
    columns = [Column(name, True) for name in ("without limit", "predicted peak", "saved", "recomputed", "estimate")]
    cells = [
        [
            bytes_text(plan.unlimited),
            bytes_text(plan.peak),
            bytes_text(plan.saved),
            _again_text(plan),
            time_text(plan.seconds * 1e9),
        ]
        for plan in plans
    ]
    missed = [plan for plan in plans if plan.peak > plan.limit]
    remarks = [f"No plan was found for {bytes_text(p.limit)}: {bytes_text(p.peak)} is the least." for p in missed]
    return Table("Recomputation in programs", columns, cells, remarks)


def _again_text(plan: Any) -> str:
    """What a plan recomputes: ops, and iterations of loops."""
    ops = sum(len(unit.steps) for unit in plan.units)
    parts = [plural(ops, "op")] if ops or not plan.iterations else []
    return ", ".join([*parts, *([plural(plan.iterations, "iteration")] if plan.iterations else [])])


def _is_elsewhere(held: Holding) -> bool:
    return held.kind in ("variable", "watched")


def _count(keys: Iterable[Any]) -> dict[Any, int]:
    counts: dict[Any, int] = {}
    for key in keys:
        counts[key] = counts.get(key, 0) + 1
    return counts


def _entries(holdings: list[Holding], key: Callable[[Holding], Any], counts: dict[Any, int]) -> list[MemoryEntry]:
    totals = {name: [0, 0, 0] for name in counts}  # arrays, saved, elsewhere
    for held in holdings:
        total = totals[key(held)]
        total[0] += 1
        total[2 if _is_elsewhere(held) else 1] += held.nbytes
    entries = [
        MemoryEntry(name if isinstance(name, str) else line_text(name), counts[name], *total)
        for name, total in totals.items()
    ]
    return sorted(entries, key=lambda e: (-e.saved, -e.elsewhere, -e.records, e.what))


def _record_bytes(record: Any) -> int:
    """The size of the tuple with its tuples, an int for each uid, and the tensor objects of saved arrays."""
    _, inputs, output, values, attrs, _ = Record.of(record)
    held = [v for v in values if v is not None]
    size = sys.getsizeof(record) + sum(sys.getsizeof(part) for part in record[1:4] if type(part) is tuple)
    size += 32 * (len(inputs) + (len(output) if type(output) is tuple else 1))
    size += sum(sys.getsizeof(v) + 112 for v in held)  # and the header of a NumPy array
    return size + (sys.getsizeof(attrs) if attrs else 0)


def _table(title: str, what: str, entries: list[MemoryEntry], remarks: list[str]) -> Table:
    columns = [
        Column(what),
        Column("records", True),
        Column("arrays", True),
        Column("saved", True),
        Column("elsewhere", True),
    ]
    cells = [[e.what, str(e.records), str(e.arrays), bytes_text(e.saved), bytes_text(e.elsewhere)] for e in entries]
    return Table(title, columns, cells, remarks)
