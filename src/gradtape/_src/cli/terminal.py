"""The output of the commands: colors, widths, tables and bars that fit the terminal.

In a terminal, lines are cut and wrapped to its width. In a pipe or a file, every row is one whole line, without colors,
so that other programs can read it.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TextIO

from gradtape._src.progress import fits

__all__ = ["Printer", "shorten"]

_STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_BLOCKS = " ▏▎▍▌▋▊▉█"
_ESCAPES = re.compile("\033\\[[0-9;]*m")
_WIDEST = 10_000  # a line in a pipe


class Printer:
    """Where a command writes: what it knows of the stream, and the shapes that it draws there.

    >>> printer = Printer(sys.stdout, width=40)
    >>> printer.table([["tf.abs", "a.py:1", "fine"], ["tf.function", "a.py:22", "compiled functions are planned"]])
      tf.abs       a.py:1   fine
      tf.function  a.py:22  compiled functions
                            are planned
    """

    def __init__(self, stream: TextIO | None = None, width: int | None = None, colour: bool | None = None) -> None:
        self.stream = sys.stdout if stream is None else stream
        terminal = self.stream.isatty()
        columns = os.environ.get("COLUMNS", "")
        limited = terminal or (columns.isdigit() and int(columns) > 0)
        self.width = width or (max(shutil.get_terminal_size().columns, 40) if limited else _WIDEST)
        if colour is None:
            colour = terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        self.colour = colour
        self.blocks = fits(_BLOCKS, self.stream)

    def style(self, text: str, *names: str) -> str:
        """The text in these styles, where there are colours.

        >>> Printer(width=80, colour=True).style("missing", "bold", "red")
        '\\x1b[1;31mmissing\\x1b[0m'
        """
        return f"\033[{';'.join(_STYLES[name] for name in names)}m{text}\033[0m" if self.colour and names else text

    def line(self, text: str = "", *styles: str) -> None:
        """Print one line."""
        print(self.style(text, *styles), file=self.stream)

    def paragraph(self, text: str, indent: str = "", hanging: str | None = None) -> None:
        """Print wrapped text; lines after the first begin with `hanging`."""
        hanging = indent if hanging is None else hanging
        for line in _wrap(indent + text, self.width, hanging):
            self.line(line)

    def table(self, rows: Sequence[Sequence[str]], styles: Sequence[str] = (), indent: str = "  ") -> None:
        """Print columns; the last one is wrapped, or printed below if it would be too narrow.

        `styles` has a style for each column, or "" for none.
        """
        if not rows:
            return
        count = len(rows[0])
        widths = [max(_length(row[i]) for row in rows) for i in range(count - 1)]
        left = len(indent) + sum(widths) + 2 * (count - 1)
        below = not self.has_room(rows, indent)
        if below:  # below its row, so that only the columns before it must fit
            widths = _squeezed(widths, self.width - len(indent) - 2 * (count - 2))
        for row in rows:
            cells = []
            for i, (cell, width) in enumerate(zip(row, widths, strict=False)):
                last = i == count - 2 and (below or not row[-1])
                text = shorten(cell, width) if below else cell
                cells.append(self.style(text, *_named(styles, i)) + " " * (0 if last else width - _length(text)))
            start = (indent + "  ".join(cells)).rstrip(" ")
            text = row[-1]
            if not text:
                self.line(start)
            elif below:
                self.line(start)
                for line in _wrap(f"{indent}  {text}", self.width, f"{indent}  "):
                    self.line(line, *_named(styles, count - 1))
            else:
                first, *rest = _wrap(text, self.width - left, "")
                self.line(f"{indent}{'  '.join([*cells, self.style(first, *_named(styles, count - 1))])}")
                for line in rest:
                    self.line(f"{' ' * left}{self.style(line, *_named(styles, count - 1))}")

    def has_room(self, rows: Sequence[Sequence[str]], indent: str = "  ") -> bool:
        """Whether there is room for a table's last column next to the others."""
        columns = list(zip(*rows, strict=True))
        left = len(indent) + sum(max(map(_length, column)) + 2 for column in columns[:-1])
        return self.width - left >= min(26, max(map(len, columns[-1])))

    def bar(self, share: float, width: int) -> str:
        """A bar that fills a share of the width: at least a sliver of it, in eighths of a character where it can.

        >>> Printer(width=80).bar(0.5, 8), Printer(width=80).bar(0.0001, 8)
        ('████    ', '▏       ')
        """
        if not self.blocks:
            return ("#" * max(1, round(share * width))).ljust(width)
        whole, part = divmod(max(1, round(share * width * 8)), 8)
        return ("█" * whole + (_BLOCKS[part] if part else "")).ljust(width)


def _length(text: str) -> int:
    """The width of a string, without color codes."""
    return len(_ESCAPES.sub("", text))


def _named(styles: Sequence[str], i: int) -> tuple[str, ...]:
    return (styles[i],) if i < len(styles) and styles[i] else ()


def _wrap(text: str, width: int, hanging: str) -> list[str]:
    return textwrap.wrap(text, max(width, 20), subsequent_indent=hanging, break_on_hyphens=False) or [""]


def _squeezed(widths: list[int], room: int) -> list[int]:
    """The widths of columns, reduced until they fit: the last ones first, because names come first."""
    widths = list(widths)
    for least in (16, 8):
        for i in reversed(range(len(widths))):
            widths[i] = max(min(widths[i], least), widths[i] - max(sum(widths) - room, 0))
    return widths


def shorten(text: str, width: int) -> str:
    """A text of at most this width, its beginning left out: the end of a path or name says more.

    >>> shorten("models/vision/resnet/blocks.py:120", 20)
    '...et/blocks.py:120'
    """
    if _length(text) <= width:
        return text
    return "..." + text[len(text) - max(width - 3, 1) :] if width > 4 else text[-width:]
