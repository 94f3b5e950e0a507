"""Explanations: the reasons why a gradient is None, as text and HTML."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

from gradtape._src import nest
from gradtape._src.call_sites import Line
from gradtape._src.inspect.source import shown, statement_at


class Reason(Enum):
    """Why a gradient is None.

    >>> n = tf.Variable(2)
    >>> with tf.GradientTape() as tape:
    ...     y = tf.cast(n, tf.float32) * 2.0
    >>> tape.explain(y, n).reason.name
    'DTYPE'
    """

    NOT_WATCHED = "the tape does not watch it"
    NOT_TRAINABLE = "the variable is not trainable"
    WATCHED_LATE = "it was watched after it was used"
    WATCHED_EMPTY = "watch() was given nothing to watch"
    BEFORE_TAPE = "computed before the tape started recording"
    AFTER_TAPE = "computed after the tape stopped recording"
    REPLACED_BY_TENSOR = "the variable was replaced by a tensor"
    LEFT_LIBRARY = "the value left the library"
    DTYPE = "the dtype has no derivatives"
    CAST_THROUGH_DTYPE = "cast to a dtype without derivatives"
    STATE = "stored in a variable: state has no history"
    STOP_GRADIENT = "stopped by tf.stop_gradient"
    STOP_RECORDING = "computed inside stop_recording()"
    PAUSED = "computed while the tape was paused"
    RESET = "discarded by reset()"
    NON_DIFFERENTIABLE_OP = "an op without a derivative"
    CUSTOM_GRADIENT = "a custom gradient returned None"
    BRANCH_ONLY = "only a Python branch depended on it"
    SAME_NAME = "another object with the same name was used"
    CREATED_LATE = "it was created after the target"
    COMPUTED_AGAIN = "computed a second time: another tensor was used"
    CONSTANT_DERIVATIVE = "the derivative does not depend on it"
    OTHER_THREAD = "computed in another thread"
    USED_UP = "the tape is used up"
    NEVER_ENTERED = "the tape was never entered"
    NEVER_READ = "the variable was never read"
    SWAPPED = "target and sources are swapped"
    UNRELATED = "the target does not depend on it"


class NoneGradientWarning(UserWarning):
    """A gradient is None, under `config.set_none_policy("warn")`."""


class Step(NamedTuple):
    """One op on the path from a source to a target."""

    op: str
    shape: tuple[int, ...] | None
    where: Line | None

    def __str__(self) -> str:
        shape = "" if self.shape is None else f" {self.shape}"
        return f"{self.op}{shape}"


@dataclass(frozen=True)
class Explanation:
    """Whether and how one source is connected to the target and, if it is not, why.

    `connected` is None if it can no longer be determined, because another gradient call used up the tape.

    >>> x = tf.constant(2.0)
    >>> with tf.GradientTape() as tape:
    ...     y = x * x
    >>> why = tape.explain(y, x)
    >>> why.connected, why.reason.name
    (False, 'NOT_WATCHED')
    >>> print(why.fix)
    Call tape.watch(x) at the beginning of the block, or make it a tf.Variable.
    """

    source: str
    connected: bool | None
    reason: Reason | None
    message: str
    fix: str = ""
    path: list[Step] = field(default_factory=list)
    where: Line | None = None
    certain: bool = True
    notes: tuple[str, ...] = ()
    plural: tuple[str, str] | None = field(default=None, repr=False)  # message and fix for several sources

    @property
    def headline(self) -> str:
        """One line that says what is wrong with which source.

        >>> x = tf.constant(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> print(tape.explain(y, x).headline)
        x: no gradient: the tape does not watch it
        """
        if self.reason is None:
            return f"{self.source}: connected to the target"
        answer = {True: "connected, but", False: "no gradient:", None: "not known:"}[self.connected]
        return f"{self.source}: {answer} {self.reason.value}"

    @property
    def one_line(self) -> str:
        """Return the reason, the message and the fix in one line, for warnings.

        >>> x = tf.constant(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = x * x
        >>> tape.explain(y, x).one_line.startswith("x is ")
        False
        """
        return " ".join(part for part in (f"{self.headline}.", self.message, self.fix) if part)

    def _rows(self) -> Iterator[tuple[str, str]]:
        if self.path:
            yield "path", " → ".join([self.source, *map(str, self._shortened())])
            seen: set[Line] = set()
            for step in self.path[:12]:
                if step.where is not None and step.where not in seen:
                    seen.add(step.where)
                    yield "", f"{shown(step.where)}  {statement_at(step.where)}".rstrip()
        if self.message:
            yield ("why" if self.reason is not None else ""), self.message
        if self.where is not None and (text := statement_at(self.where)):
            yield "line", f"{shown(self.where)}  {text}"
        if self.fix:
            yield "fix", self.fix
        for note in self.notes:
            yield "note", note

    def _shortened(self) -> list[Any]:
        if len(self.path) <= 12:
            return list(self.path)
        return [*self.path[:6], f"… {len(self.path) - 11} more ops …", *self.path[-5:]]

    def __str__(self) -> str:
        lines = [self.headline]
        for label, text in self._rows():
            head = f"  {label + ':' if label else '':<6}"
            lines.extend(
                textwrap.wrap(text, 100, initial_indent=head, subsequent_indent=" " * 8, break_on_hyphens=False)
            )
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        colour = "#2e7d32" if self.reason is None else "#b26a00" if self.connected else "#c62828"
        rows = "".join(
            f"<tr><td style='text-align:left;vertical-align:top;opacity:.6;padding:1px 8px'>{html.escape(label)}</td>"
            f"<td style='text-align:left;padding:1px 8px'>{html.escape(text)}</td></tr>"
            for label, text in self._rows()
        )
        return (
            f"<div style='border-left:4px solid {colour};padding:4px 10px;margin:4px 0;font-size:13px'>"
            f"<b>{html.escape(self.headline)}</b><table style='border:0;margin:2px 0'>{rows}</table></div>"
        )


def merged(found: list[Explanation]) -> list[tuple[Explanation, int]]:
    """The explanations with the number of their sources; those with one reason at one line are one, without a path."""
    groups: dict[Any, list[Explanation]] = {}
    for e in found:
        key = (e.connected, e.reason, *(e.plural or (e.message, e.fix)), e.where, e.certain, e.notes)
        groups.setdefault(key if e.reason is not None else id(e), []).append(e)
    return [(group[0] if len(group) == 1 else _together(group), len(group)) for group in groups.values()]


def _together(group: list[Explanation]) -> Explanation:
    first = group[0]
    message, fix = first.plural or (first.message, first.fix)
    return replace(first, source=_names(group), message=message, fix=fix, path=[])


def _names(found: list[Explanation]) -> str:
    rest = len(found) - _MOST_NAMES
    return ", ".join(e.source for e in found[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


NO_SOURCES = (
    "There are no sources: the list is empty. A layer has no variables before it is built: call it once, or "
    ".build(shape), and list its variables after that."
)

_MOST_NAMES = 8
"""The number of sources that are listed by name."""


class Explanations:
    """The explanations of several sources; iterate over them, or index them like the sources.

    >>> import gradtape as tf
    >>> w = {"a": tf.Variable(1.0, name="a"), "b": tf.Variable(2.0, name="b")}
    >>> with tf.GradientTape() as tape:
    ...     y = w["a"] * 3.0
    >>> found = tape.explain(y, w)
    >>> found["a"].connected, found["b"].reason
    (True, <Reason.NEVER_READ: 'the variable was never read'>)
    """

    def __init__(self, flat: list[Explanation], structure: Any) -> None:
        self.flat = flat
        self.structure = nest.pack_sequence_as(structure, flat)

    def __iter__(self) -> Iterator[Explanation]:
        return iter(self.flat)

    def __len__(self) -> int:
        return len(self.flat)

    def __getitem__(self, key: Any) -> Any:
        return self.structure[key]

    @property
    def missing(self) -> list[Explanation]:
        """Those that have a reason to be explained.

        >>> a, b = tf.Variable(1.0), tf.Variable(2.0)
        >>> with tf.GradientTape() as tape:
        ...     y = a * 2.0
        >>> [why.reason.name for why in tape.explain(y, [a, b]).missing]
        ['NEVER_READ']
        """
        return [e for e in self.flat if e.reason is not None]

    def __str__(self) -> str:
        if not self.flat:
            return NO_SOURCES
        found = [e for e in self.flat if e.reason is None]
        lines = [str(e) for e, _ in merged(self.missing)]
        if found:
            lines.append(f"{len(found)} of {len(self.flat)} connected: {_names(found)}")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return "".join(e._repr_html_() for e, _ in merged(self.flat)) or f"<div>{html.escape(NO_SOURCES)}</div>"
