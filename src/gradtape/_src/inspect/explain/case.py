"""One source and the targets of an explanation: their names, and the facts that the tape has about them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

from gradtape._src.call_sites import Line
from gradtape._src.inspect.events import Facts, OpEvent
from gradtape._src.inspect.explain.explanation import Explanation, Reason, Step
from gradtape._src.inspect.explain.words import LIKELY, shown_op
from gradtape._src.inspect.source import name_of
from gradtape._src.variable import Variable

Path = list[tuple[OpEvent, int]]
"""Ops, with the input at which a path enters each of them."""


def given_name(value: Any) -> str:
    """The name that the program gave to a variable; empty if it gave none."""
    name = value.name.removesuffix(":0") if isinstance(value, Variable) else ""
    return "" if name in ("Variable", "UnreadVariable") else str(name)


class Case:
    """One source and the targets."""

    def __init__(self, facts: Facts, targets: list[Any], source: Any, frame: FrameType | None, index: int) -> None:
        self.facts, self.targets, self.source, self.frame = facts, targets, source, frame
        self.uids = [t.uid for t in targets]
        self.uid = source.uid
        self.is_variable = isinstance(source, Variable)
        python = name_of(source, frame)
        self.python = python or ""
        given = given_name(source)
        self.name = python or given or f"source {index}"
        if given and python and python != given:
            self.name = f"{python} ('{given}')"
        self.target = (name_of(targets[0], frame) or given_name(targets[0]) if targets else "") or "the target"
        self.tracked = self.uid in facts.tracked
        self.is_same_call = sorted(facts.tape._targets) == sorted(self.uids)  # as in the last gradient call
        self.made = max(self.uids, default=0)  # when the last target was computed
        if any(isinstance(t, Variable) for t in targets):
            self.made = sys.maxsize  # a variable has its current value

    def no(
        self,
        reason: Reason,
        message: str,
        fix: str = "",
        *,
        where: Line | None = None,
        certain: bool = True,
        path: Iterable[tuple[OpEvent, int]] = (),
        plural: tuple[str, str] | None = None,
    ) -> Explanation:
        """The explanation of a missing gradient, with this reason."""
        notes = [] if certain else [LIKELY]
        steps = [self.step(n) for n, _ in path]
        return Explanation(self.name, False, reason, message, fix, steps, where, certain, tuple(notes), plural)

    def step(self, node: OpEvent) -> Step:
        """An op in the form in which a path shows it."""
        shape = node.shapes[0] if node.shapes else self.facts.tracked.get(node.outputs[0])
        return Step(shown_op(node.op), shape, node.where)
