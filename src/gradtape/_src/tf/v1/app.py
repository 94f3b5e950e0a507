"""`tf.compat.v1.app`: `run(main)`, with absl's flags."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from gradtape._src.tf.v1 import flags

__all__ = ["flags", "run"]


def run(main: Callable[[list[str]], Any] | None = None, argv: list[str] | None = None) -> None:
    """Parse the flags of the command line, and call `main` with what is left; the program's `main` by default."""
    absl = flags.absl("app")
    absl.run(
        main or vars(sys.modules["__main__"])["main"],
        argv,
        flags_parser=lambda arguments: flags.absl("flags").FLAGS(arguments, known_only=True),
    )
