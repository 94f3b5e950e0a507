"""Tables for terminals and notebooks, and text for sizes and times."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from gradtape._src.call_sites import Line, shown_line
from gradtape._src.notebook import bytes_text as bytes_text


def time_text(ns: float | None) -> str:
    """>>> time_text(740), time_text(12_300), time_text(4.56e6), time_text(2.5e9), time_text(None)
    ('740 ns', '12.3 µs', '4.56 ms', '2.50 s', '-')
    """
    if ns is None:
        return "-"
    if ns < 1e3:
        return f"{ns:.0f} ns"
    if ns < 1e6:
        return f"{ns / 1e3:.1f} µs"
    return f"{ns / 1e6:.2f} ms" if ns < 1e9 else f"{ns / 1e9:.2f} s"


def line_text(line: Line | None) -> str:
    """`train.py:12`, or nothing if it is unknown."""
    return shown_line(line)


def shape_text(shape: Sequence[int] | None) -> str:
    """>>> shape_text((3, 4)), shape_text(()), shape_text(None)
    ('(3, 4)', '()', '?')
    """
    return "?" if shape is None else str(tuple(shape))


def plural(n: int, word: str) -> str:
    """>>> plural(1, "op"), plural(5000, "op")
    ('1 op', '5,000 ops')
    """
    return f"{n:,} {word}{'' if n == 1 else 's'}"


class Column(NamedTuple):
    """A heading, and the alignment of its column."""

    heading: str
    right: bool = False


class Table:
    """Rows of text under headings, with a title above and remarks below."""

    def __init__(
        self, title: str, columns: Sequence[Column], rows: Sequence[Sequence[str]], remarks: Iterable[str] = ()
    ) -> None:
        self.title, self.columns, self.rows, self.remarks = title, columns, rows, list(remarks)

    def _cut(self, max_rows: int | None) -> tuple[list[Sequence[str]], int, list[Sequence[str]]]:
        """The first rows, the number of omitted ones, and the last ones."""
        if max_rows is None or len(self.rows) <= max(max_rows, 2):
            return list(self.rows), 0, []
        head = (max(max_rows, 2) + 1) // 2
        tail = max(max_rows, 2) - head
        return list(self.rows[:head]), len(self.rows) - head - tail, list(self.rows[len(self.rows) - tail :])

    def text(self, max_rows: int | None = None) -> str:
        """The table for a terminal: aligned, and cut in the middle if it is long."""
        head, left_out, tail = self._cut(max_rows)
        shown = [[column.heading for column in self.columns], *head, *tail]
        widths = [max(len(row[i]) for row in shown) for i in range(len(self.columns))]
        rule = "  ".join("─" * width for width in widths)

        def line(row: Sequence[str]) -> str:
            cells = zip(row, widths, self.columns, strict=True)
            return "  ".join(c.rjust(w) if col.right else c.ljust(w) for c, w, col in cells).rstrip()

        lines = [self.title, line(shown[0]), rule, *map(line, head)]
        if left_out:
            lines.append(f"⋮ {left_out:,} more".center(min(len(rule), 80)).rstrip())
            lines += map(line, tail)
        if self.remarks:
            lines += [rule, *self.remarks]
        return "\n".join(lines)

    def html(self, max_rows: int | None = None) -> str:
        """The table for a notebook."""
        head, left_out, tail = self._cut(max_rows)
        parts = [f"<div><strong>{html.escape(self.title)}</strong>"]
        if self.rows:
            parts.append("<table><thead><tr>")
            parts += [f"<th{_side(c)}>{html.escape(c.heading)}</th>" for c in self.columns]
            parts.append("</tr></thead><tbody>")
            parts += map(self._html_row, head)
            if left_out:
                wide = f'colspan="{len(self.columns)}" style="text-align:center"'
                parts += [f"<tr><td {wide}>⋮ {left_out:,} more</td></tr>", *map(self._html_row, tail)]
            parts.append("</tbody></table>")
        parts += [f"<div>{html.escape(remark)}</div>" for remark in self.remarks]
        return "".join(parts) + "</div>"

    def _html_row(self, row: Sequence[str]) -> str:
        cells = zip(row, self.columns, strict=True)
        return "<tr>" + "".join(f"<td{_side(col)}>{html.escape(cell)}</td>" for cell, col in cells) + "</tr>"


def _side(column: Column) -> str:
    return ' style="text-align:right"' if column.right else ' style="text-align:left"'


class Report:
    """A report that prints as tables in a terminal and in a notebook."""

    max_rows: int | None = None

    def tables(self) -> list[Table]:
        """The tables, from the first to the last."""
        raise TypeError(f"{type(self).__name__} has no tables")

    def __str__(self) -> str:
        return "\n\n".join(table.text(self.max_rows) for table in self.tables())

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return "".join(table.html(self.max_rows) for table in self.tables())


def columns_with_facts(columns: Sequence[tuple[Column, list[Any]]]) -> tuple[list[Column], list[list[str]]]:
    """Leave out columns without data in any row, and turn columns into rows of text."""
    kept = [(column, cells) for column, cells in columns if not cells or any(cell not in ("", None) for cell in cells)]
    count = len(kept[0][1]) if kept else 0
    return [column for column, _ in kept], [
        ["" if cells[i] is None else str(cells[i]) for _, cells in kept] for i in range(count)
    ]
