"""Progress of long computations: a line on standard error in a terminal or notebook, nothing in a pipe or file."""

from __future__ import annotations

import importlib
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, TextIO, TypeVar

from gradtape._src.interrupts import contextmanager

__all__ = ["Progress", "fits", "over", "waiting"]

Item = TypeVar("Item")

_PATIENCE = 0.3
"""The seconds of work before a bar appears."""


SLOW = 2.0
"""The seconds before a computation that may be long reports its progress."""


def fits(text: str, stream: TextIO) -> bool:
    """Whether the encoding of a stream has all of these characters."""
    try:
        text.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def is_interactive(stream: TextIO | None) -> bool:
    """Whether a stream is a terminal, or a cell of a notebook."""
    return stream is not None and (stream.isatty() or _is_cell(stream))


def _is_cell(stream: TextIO) -> bool:
    return type(stream).__module__.startswith("ipykernel")


def over(items: Sequence[Item], what: str) -> Iterator[Item]:
    """The items, with a bar if they take long.

    >>> list(over([1, 2, 3], "rows"))
    [1, 2, 3]
    """
    if len(items) < 2 or not is_interactive(sys.stderr):
        yield from items
        return
    with Progress(len(items), patience=SLOW) as progress:
        for item in items:
            yield item
            progress.step(what)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say what is being waited for, if the block takes long.

    >>> with waiting("compiling"):
    ...     pass
    """
    stream = sys.stderr
    if not is_interactive(stream):
        yield
        return
    timer = threading.Timer(SLOW, lambda: stream.write(f"{what} …\n"))
    timer.daemon = True
    try:
        timer.start()
        yield
    finally:
        timer.cancel()


class Progress:
    """A bar over so many steps, for a `with` block; it goes away at the end.

    >>> with Progress(3) as progress:
    ...     for name in ("a.py", "b.py", "c.py"):
    ...         progress.step(name)
    """

    def __init__(self, total: int, stream: TextIO | None = None, patience: float = _PATIENCE) -> None:
        self.total, self.done, self.note = max(total, 1), 0, ""
        self._stream = sys.stderr if stream is None else stream
        self._on = is_interactive(self._stream)
        self._full, self._empty = ("━", "─") if fits("━─", self._stream) else ("#", ".")
        self._start = time.monotonic()
        self._next = self._start + patience
        self._drawn = False
        self._display: Any = None  # in a notebook

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.clear()

    def step(self, note: str = "", count: int = 1) -> None:
        """Count one more step (or `count`); the note names the current one."""
        self.done = min(self.done + count, self.total)
        self.say(note)

    def say(self, note: str) -> None:
        """Name the current step without counting."""
        self.note = note
        if self._on and time.monotonic() >= self._next:
            import shutil  # it imports four compression modules: 2 of the 45 ms of the benchmark "import"

            self._next = time.monotonic() + 0.05
            self._drawn = True
            self._show(self.text(shutil.get_terminal_size().columns - 1))

    def _show(self, line: str) -> None:
        """Replace the line. A saved notebook keeps all lines of a stream, but only the last state of a display."""
        if not _is_cell(self._stream):
            self._stream.write(f"\r\033[K{line}")
            self._stream.flush()
            return
        data = {"text/plain": line}
        if self._display is None:
            show = importlib.import_module("IPython.display").display  # it has types in some versions of IPython only
            self._display = show(data, raw=True, display_id=True)
        else:
            self._display.update(data, raw=True)

    def text(self, width: int) -> str:
        """The line, at most this wide.

        >>> progress = Progress(4, patience=0)
        >>> progress.step("mlp32")
        >>> progress.text(60).endswith(" 1/4   0 s  mlp32")
        True
        """
        seconds = time.monotonic() - self._start
        counts = f" {self.done:>{len(str(self.total))}}/{self.total}  {seconds:2.0f} s"
        length = max(min(24, width - len(counts)), 0)
        filled = length * self.done // self.total
        return f"{self._full * filled}{self._empty * (length - filled)}{counts}  {self.note}"[: max(width, 0)]

    def clear(self) -> None:
        """Clear the line, so that something can be printed."""
        if self._drawn:
            self._show("")
            self._drawn = False
