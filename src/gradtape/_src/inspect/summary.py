"""`tape.summary()`: a table of the recorded ops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradtape._src.inspect.op_table import OpTable, Row, op_table
from gradtape._src.inspect.tables import (
    Column,
    Report,
    Table,
    bytes_text,
    columns_with_facts,
    line_text,
    plural,
    shape_text,
    time_text,
)

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape

MAX_ROWS = 40
"""The number of ops from which on a table is cut in the middle."""


def summary(tape: Tape, target: Any = None, max_rows: int | None = MAX_ROWS) -> Summary:
    """See `GradientTape.summary`."""
    return Summary(op_table(tape, target), max_rows)


class Summary(Report):
    """The table of `tape.summary()`; `rows` has its data."""

    def __init__(self, facts: OpTable, max_rows: int | None) -> None:
        self._facts, self.max_rows = facts, max_rows

    @property
    def rows(self) -> list[Row]:
        """A row for each op, in the order in which they ran."""
        return self._facts.rows

    @property
    def nbytes(self) -> int | None:
        """Bytes saved by all ops together; None if the record has been freed."""
        known = [row.saved for row in self.rows if row.saved is not None]
        return sum(known) if known or not self.rows else None

    def __len__(self) -> int:
        return len(self.rows)

    def tables(self) -> list[Table]:
        rows = self.rows
        columns, cells = columns_with_facts(
            [
                (Column("#", True), [str(r.index) for r in rows]),
                (Column("op"), [r.op for r in rows]),
                (Column("output"), [", ".join(map(shape_text, r.shapes)) for r in rows]),
                (Column("dtype"), [", ".join(dict.fromkeys(r.dtypes)) for r in rows]),
                (Column("saved", True), [None if r.saved is None else bytes_text(r.saved) for r in rows]),
                (Column("forward", True), [None if r.forward is None else time_text(r.forward) for r in rows]),
                (Column("backward", True), [None if r.backward is None else time_text(r.backward) for r in rows]),
                (Column("used"), [None if r.used is None else ("yes" if r.used else "no") for r in rows]),
                (Column("layer"), [r.scope or None for r in rows]),
                (Column("line"), [line_text(r.line) for r in rows]),
            ]
        )
        return [Table(self._title(), columns, cells, self._remarks())]

    def _title(self) -> str:
        facts = self._facts
        parts = [plural(len(self.rows), "op")]
        if self.nbytes is not None:
            parts.append(f"{bytes_text(self.nbytes)} saved")
        for word, times in (("forward", [r.forward for r in self.rows]), ("backward", [r.backward for r in self.rows])):
            known = [t for t in times if t is not None]
            if known:
                parts.append(f"{time_text(sum(known))} {word}")
        return f"GradientTape: {', '.join([*parts, facts.state])}"

    def _remarks(self) -> list[str]:
        remarks = []
        if self._facts.targets:
            used = sum(bool(row.used) for row in self.rows)
            remarks.append(f"The target depends on {used} of {plural(len(self.rows), 'op')}.")
        if self._facts.remark:
            remarks.append(self._facts.remark)
        return remarks
