"""Argument parsing of the commands: argparse, with gradtape's help and error messages."""

from __future__ import annotations

import argparse
import contextlib
import textwrap
from collections.abc import Callable
from typing import NoReturn

from gradtape._src.cli import UsageError

__all__ = ["Parser", "positive"]


class _Help(argparse.RawDescriptionHelpFormatter):
    """Fills paragraphs to the width; those with indented lines (examples, lists) are unchanged."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        parts = text.strip().split("\n\n")
        return "\n\n".join(part if "\n  " in part else textwrap.fill(part, width) for part in parts) + "\n"


class Parser(argparse.ArgumentParser):
    """The parser of one command: help keeps its lines, and a mistake is a `UsageError` of one line.

    >>> Parser("check", "Look at code.", "examples:\\n  gradtape check .").parse_args(["--fast"])
    Traceback (most recent call last):
    gradtape._src.cli.UsageError: unrecognized arguments: --fast; try `gradtape check --help`
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
        """Report invalid arguments."""
        raise UsageError(f"{message}; try `{self.prog} --help`")


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """A type of argument: a number above zero.

    >>> positive(int)("0")
    Traceback (most recent call last):
    argparse.ArgumentTypeError: '0' is not a positive number
    """

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            value = kind(text)
            if 0 < value < float("inf"):
                return value
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive number")

    return read
