"""Reading a command's arguments: argparse, with the manners of `gradtape`."""

from __future__ import annotations

import argparse
import textwrap
from typing import NoReturn

from gradtape.commands import UsageError

__all__ = ["Parser"]


class _Help(argparse.RawDescriptionHelpFormatter):
    """Paragraphs are filled to the width; those with indented lines (examples, lists) stay as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip().split("\n\n")
        return "\n\n".join(part if "\n  " in part else textwrap.fill(part, width) for part in parts) + "\n"


class Parser(argparse.ArgumentParser):
    """The parser of one command: help keeps its lines, and a mistake is a `UsageError` of one line.

    >>> Parser("check", "Look at code.", "examples:\\n  gradtape check .").parse_args(["--fast"])
    Traceback (most recent call last):
    gradtape.commands.UsageError: unrecognized arguments: --fast; try `gradtape check --help`
    """

    def __init__(self, command: str, description: str, epilog: str) -> None:
        super().__init__(
            prog=f"gradtape {command}",
            description=description,
            epilog=epilog,
            formatter_class=_Help,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """A mistake in the arguments."""
        raise UsageError(f"{message}; try `{self.prog} --help`")


def positive(kind: type[float]) -> type[float]:
    """A type of argument: a number above zero."""

    def read(text: str) -> float:
        value = kind(text)
        if not value > 0:
            raise ValueError(text)
        return value

    read.__name__ = "positive number"
    return read  # type: ignore[return-value]  # argparse wants a callable, and has no name for it
