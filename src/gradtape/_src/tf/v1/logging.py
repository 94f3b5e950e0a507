"""`tf.compat.v1.logging`: messages of the logger that `tf.get_logger()` returns."""

from __future__ import annotations

import logging as _logging
import sys
from typing import Any

from gradtape._src.call_sites import logger

__all__ = [
    "DEBUG",
    "ERROR",
    "FATAL",
    "INFO",
    "WARN",
    "TaskLevelStatusMessage",
    "debug",
    "error",
    "fatal",
    "flush",
    "get_verbosity",
    "info",
    "log",
    "log_every_n",
    "log_first_n",
    "log_if",
    "set_verbosity",
    "vlog",
    "warn",
    "warning",
]

DEBUG, INFO, WARN, ERROR, FATAL = _logging.DEBUG, _logging.INFO, _logging.WARNING, _logging.ERROR, _logging.FATAL


def log(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of a level."""
    logger().log(level, msg, *args, **kwargs)


def debug(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message for those who look for a mistake."""
    logger().debug(msg, *args, **kwargs)


def info(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message about progress."""
    logger().info(msg, *args, **kwargs)


def warning(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a warning."""
    logger().warning(msg, *args, **kwargs)


warn = warning


def error(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message about an error."""
    logger().error(msg, *args, **kwargs)


def fatal(msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message about an error that ends the program."""
    logger().fatal(msg, *args, **kwargs)


def TaskLevelStatusMessage(msg: Any) -> None:
    """Write a message about the state of the program, as an error."""
    error(msg)


def vlog(level: int, msg: Any, *args: Any, **kwargs: Any) -> None:
    """Write a message of a level."""
    logger().log(level, msg, *args, **kwargs)


def flush() -> None:
    """Let every message be seen."""
    sys.stderr.flush()


def get_verbosity() -> int:
    """The level from which on messages are written.

    >>> get_verbosity() in (DEBUG, INFO, WARN, ERROR, FATAL)
    True
    """
    return logger().getEffectiveLevel()


def set_verbosity(v: Any) -> None:
    """Write messages from this level on, such as `tf.compat.v1.logging.ERROR`, or "ERROR"."""
    logger().setLevel(v)


_counts: dict[tuple[str, int], int] = {}


def _count() -> int:
    """How often the calling line was reached before."""
    frame = sys._getframe(2)
    place = frame.f_code.co_filename, frame.f_lineno
    _counts[place] = _counts.get(place, -1) + 1
    return _counts[place]


def log_every_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Write a message at the first call of this line, and at every n-th one."""
    log_if(level, msg, not _count() % n, *args)


def log_first_n(level: int, msg: Any, n: int, *args: Any) -> None:
    """Write a message at the first n calls of this line."""
    log_if(level, msg, _count() < n, *args)


def log_if(level: int, msg: Any, condition: Any, *args: Any) -> None:
    """Write a message if a condition holds."""
    if condition:
        log(level, msg, *args)
