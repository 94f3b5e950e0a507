"""Where the user's code is: the line that called the library, and warnings that appear once for each such line."""

from __future__ import annotations

import contextlib
import os
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from logging import Logger

Line = tuple[str, int]
"""A file, and the number of a line in it."""

_SRC = os.path.dirname(__file__) + os.sep
_NUMPY = os.path.dirname(np.__file__) + os.sep
_LIBRARY = (os.path.dirname(os.path.dirname(__file__)) + os.sep, _NUMPY, contextlib.__file__, "<rule of ")
"""How the file names of library code begin; the last one is what `core/fast/calls.py` compiles."""

_READERS = (*[_SRC + name for name in ("active.py", "buffers.py", "tensor.py", "variable", "autodiff")], _NUMPY)
"""Code through which a user's program looks at a value: between it and the event no other code of the library runs."""

_BRANCHES = {"bool()": "control_flow.py", ".numpy()": "python_functions.py"}
"""Where the library looks at a value because the program says so: tf.cond, tf.numpy_function."""

_warnings: dict[tuple[str, str, int], int] = {}


def is_library(file: str) -> bool:
    """Whether a file belongs to gradtape or NumPy."""
    return file.startswith(_LIBRARY)


def user_frame() -> FrameType | None:
    """The innermost frame of the user's code."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_LIBRARY):
        frame = frame.f_back
    return frame


def user_line() -> Line | None:
    """The line of the user's code that runs, if there is one."""
    frame = user_frame()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def line_of_escape(event: str) -> Line | None:
    """The user's line that looks at a value; None where the library itself looks at it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_LIBRARY):
            return file, frame.f_lineno
        if event != "assign" and not file.startswith(_READERS):
            branch = _BRANCHES.get(event)
            if branch is None or not file.endswith(branch):
                return None
        frame = frame.f_back
    return None


def warn_per_call_site(message: str, *args: Any, most: int) -> None:
    """Log a warning, at most so many times for one line of the user's code."""
    key = (message, *(user_line() or ("", 0)))
    _warnings[key] = _warnings.get(key, 0) + 1
    if _warnings[key] <= most:
        logger().warning(message, *args)


def logger() -> Logger:
    """The logger of warnings, under TensorFlow's name; logging is loaded when there is something to log.

    >>> tf.get_logger().name
    'tensorflow'
    """
    import logging

    return logging.getLogger("tensorflow")
