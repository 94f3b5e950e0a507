"""Batching rules that several modules share: how a primitive handles operands with a hidden first axis."""

from __future__ import annotations

from typing import Any


def shift_axis(name: str) -> Any:
    """The rule of a primitive that only depends on its axes: they are all shifted by one."""

    def rule(xp: Any, size: int, batched: list[bool], x: Any, /, *, axis: Any, **attrs: Any) -> Any:
        moved = axis + 1 if isinstance(axis, int) else tuple(a + 1 for a in axis)
        return getattr(xp, name)(x, axis=moved, **attrs)

    return rule


def broadcast_rows(xp: Any, size: int, is_batched: bool, x: Any) -> Any:
    """Give an operand the hidden axis if it has none."""
    return x if is_batched else xp.broadcast_to(x, shape=(size, *x.shape))
