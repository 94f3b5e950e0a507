"""The stack of active recorders, which ops, variables and tensors notify.

This is a layer below all of them; `core/tape.py` defines recorders, and starts and stops them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, TypeAlias

Stack: TypeAlias = tuple[Any, Any, Any, Any] | None
"""None, or a link: what the innermost recorder tracks, its `append`, the recorder itself, and the stack around it.

A link holds all that an op needs, without an iterator (benchmark: chain)."""

# A context variable is per thread and per asyncio task: a tape records the ops of its own only.
active: ContextVar[Stack] = ContextVar("gradtape_active", default=None)
active_stack: Callable[[], Stack] = active.get


def report_escape(event: str, uid: int, other: int = 0) -> None:
    """Notify every active recorder that a value leaves the recorded ops: see `Observer.on_escape`."""
    stack = active_stack()
    while stack is not None:
        _, _, recorder, stack = stack
        recorder.on_escape(event, uid, other)
