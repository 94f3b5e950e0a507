"""The parts of the command ``gradtape``, each loaded on first use: check, bench, doctor."""

from __future__ import annotations

__all__ = ["UsageError"]


class UsageError(Exception):
    """The command line is invalid; the message says why, ``status`` is the exit code."""

    def __init__(self, message: str, status: int = 2) -> None:
        super().__init__(message)
        self.status = status
