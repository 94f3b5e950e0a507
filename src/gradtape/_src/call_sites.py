"""The user's code: the line that called the library, and warnings that appear once for each such line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from logging import Logger

Line = tuple[str, int]
"""A file and a line number."""

UNKNOWN: Line = ("an unknown file", 0)
"""Used if there is no line of user code on the stack."""

_SRC = os.path.dirname(__file__) + os.sep
_NUMPY = os.path.dirname(np.__file__) + os.sep
_LIBRARY = (os.path.dirname(os.path.dirname(__file__)) + os.sep, _NUMPY, contextlib.__file__, "<rule of ")
"""Prefixes of the file names of library code; the last one is that of code compiled by `core/fast/calls.py`."""

_READERS = (*[_SRC + name for name in ("active.py", "buffers.py", "tensor.py", "variable", "autodiff")], _NUMPY)
"""Library code that user code calls to read a value: no other library code runs between it and the event."""

_BRANCHES = {
    "bool()": os.path.join(_SRC, "tf", "control_flow"),
    ".numpy()": os.path.join(_SRC, "tf", "python_functions"),
}
"""Where the library reads a value because the program says so: tf.cond, tf.numpy_function."""

_warnings: dict[tuple[str, str, int], int] = {}

hidden: list[str] = []
"""Prefixes of file names of other libraries (Keras) whose frames are skipped in favor of their callers'."""

scope_finders: list[Callable[[], str]] = []
"""Functions that return the open scope of some kind, or an empty string."""


def is_library(file: str) -> bool:
    """Whether a file belongs to gradtape or NumPy."""
    return file.startswith(_LIBRARY)


def user_frame() -> FrameType | None:
    """The innermost frame of the user's code."""
    frame: FrameType | None = sys._getframe(1)
    passed = (*_LIBRARY, *hidden)
    while frame is not None and frame.f_code.co_filename.startswith(passed):
        frame = frame.f_back
    return frame


def user_line() -> Line | None:
    """The current line of the user's code, if there is one."""
    frame = user_frame()
    return None if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def line_of_escape(event: str) -> Line | None:
    """The user's line that reads a value; None if the library itself reads it."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if event == "assign" and file.startswith((*_LIBRARY, *hidden)):
            frame = frame.f_back
            continue
        if not file.startswith(_LIBRARY):
            return file, frame.f_lineno
        if not file.startswith(_READERS):
            branch = _BRANCHES.get(event)
            if branch is None or not file.startswith(branch):
                return None
        frame = frame.f_back
    return None


def shown_line(where: Line | None) -> str:
    """`train.py:12`, or `cell [4], line 2` in a notebook; empty where the line is not known.

    >>> shown_line(("/home/me/train.py", 12)), shown_line(None)
    ('train.py:12', '')
    """
    if where is None:
        return ""
    file, number = where
    cell = _cell_of(file)
    return f"{os.path.basename(file)}:{number}" if cell is None else f"cell [{cell}], line {number}"


def _cell_of(file: str) -> str | None:
    """The number of the cell that IPython compiled with this file name, or that is called `In[4]`; None for files."""
    if file.startswith("In[") and file.endswith("]"):
        return file[3:-1]
    notebook = sys.modules.get("IPython")
    shell = None if notebook is None else notebook.get_ipython()
    name = getattr(getattr(shell, "compile", None), "format_code_name", None)
    found = None if name is None else name(file)  # ("Cell", "In[4]")
    if not found or found[0] != "Cell":
        return None
    return str(found[1]).removeprefix("In[").removesuffix("]")


def scope() -> str:
    """The current scopes: Keras layers and `tf.name_scope`."""
    return "/".join(filter(None, (finder() for finder in scope_finders)))


def warn_per_call_site(message: str, *args: Any, most: int) -> None:
    """Log a warning, at most `most` times for each line of the user's code."""
    key = (message, *(user_line() or ("", 0)))
    _warnings[key] = _warnings.get(key, 0) + 1
    if _warnings[key] <= most:
        logger().warning(message, *args)


def logger() -> Logger:
    """Return the logger of warnings, under TensorFlow's name; `logging` is imported when it is needed.

    >>> tf.get_logger().name
    'tensorflow'
    """
    import logging

    return logging.getLogger("tensorflow")
