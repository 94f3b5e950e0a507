"""Blocks: sequences of calls that are recorded once and then added to traces as a single call.

What records a block runs with arrays that have no values, so that its calls depend on shapes and dtypes alone. If it
needs a value, there is no block. Before a trace is planned, the calls of a block take its place (`programs.py`): a
program does not show how its calls were recorded.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from gradtape._src.arrays.lazy import trace as traces
from gradtape._src.arrays.lazy.calls import Body, Kind, Spec, block_kind, kinds, spec_of
from gradtape._src.arrays.lazy.programs import needed
from gradtape._src.arrays.lazy.trace import (
    Lazy,
    LazyTrace,
    current_trace,
    new_result,
    number_of,
    recording_on,
    trace_on,
)
from gradtape._src.threads import apart

T = TypeVar("T")


class NoBlockError(Exception):
    """The calls cannot be a block, for example because one of them needs a value."""


class Pattern(LazyTrace):
    """A trace of calls on arrays without values; the first results are these arrays.

    needs_value  whether something needed one: the error may have been caught
    """

    is_pattern = True

    __slots__ = ("arrays", "needs_value")

    def __init__(self, specs: Sequence[Spec], device: Any) -> None:
        super().__init__(device, {})
        self.siblings[device] = self
        self.limit, self.needs_value = sys.maxsize, False
        self.arrays = [new_result(spec, self) for spec in specs]
        self.results.extend(self.arrays)

    def run(self, reason: str) -> None:
        """Refuse to compute a value."""
        self.needs_value = True
        raise NoBlockError(reason)

    def end(self) -> None:
        """Drop all arrays, because they refer to the trace."""
        for part in (self.results, self.arrays, self.siblings, self.feeds, self.literals):
            part.clear()

    def number(self, array: Any) -> int | None:
        """The number of an array of this trace; None for others."""
        return array.slot if type(array) is Lazy and array.trace is self else None

    def operand_of(self, array: Any, name: str) -> int | None:
        """The number of the only operand of an array of this trace, if this op computes it."""
        code: tuple[int, ...] = () if self.number(array) is None else array.code
        return code[1] if len(code) == 3 and kinds[code[0]].name == name else None


def recorded(function: Callable[[Pattern], T], specs: Sequence[Spec], device: Any) -> tuple[T, Pattern] | None:
    """The result of a function for arrays without values, and its calls; None if they cannot be a block.

    Signal handlers do not run meanwhile: their ops would be recorded in this trace.
    """
    pattern = Pattern(specs, device)

    def run() -> T | None:
        try:
            with recording_on(pattern):
                return function(pattern)
        except Exception:
            return None  # the same call on arrays with values raises it, if it is an error

    found = apart(run)
    if found is None or pattern.needs_value or pattern.lines or len(pattern.results) - len(specs) > traces.LIMIT:
        pattern.end()
        return None
    return found, pattern


class Block(NamedTuple):
    """The calls of a pattern that some of its results need.

    kind       the kind of call that stands for all of them; None if there are none
    used       the numbers of the arrays that they take
    constants  their other operands
    """

    kind: Kind | None
    used: list[int]
    constants: list[Any]

    def add(self, arrays: Sequence[Any], device: Any) -> list[Lazy]:
        """Add the calls to the trace, for other arrays of the same shapes and dtypes; returns their results."""
        kind = self.kind
        if kind is None:
            return []
        assert kind.body is not None
        inside = len(kind.body.codes)
        trace = current_trace()
        if trace is None or trace.device is not device:
            trace = trace_on(device)
        if trace.size() + inside > traces.LIMIT:
            trace.run(f"it would have more than {traces.LIMIT} results, the most there may be")
            trace = trace_on(device)
        inputs = [
            array.slot
            if type(array) is Lazy and array.value is None and array.trace is trace
            else number_of(array, trace)
            for array in [*[arrays[i] for i in self.used], *self.constants]
        ]
        deque(islice(iter(trace.next_slot, None), inside), maxlen=0)  # they count as results of the trace
        made = [new_result(spec, trace) for spec in kind.outputs]
        made[0].code = (kind.number, *inputs, *[array.slot for array in made])
        trace.results.extend(made)
        if made[-1].slot >= trace.limit and trace.crossed(made[0]):
            return self.add(arrays, device)
        return made


def block_of(pattern: Pattern, wanted: Sequence[int]) -> Block:
    """Make a block of the calls that these results need, and end the pattern."""
    codes = needed(tuple([array.code for array in pattern.results]), {*wanted})
    count = len(pattern.arrays)
    used = dict.fromkeys([n for code in codes for n in code[1:] if n < count])
    own = [n for n in used if n >= 0]
    others = [n for n in used if n < 0]
    names = {n: i for i, n in enumerate((*own, *others))}
    for code in codes:
        for n in code[1:]:
            names.setdefault(n, len(names))
    body = Body(tuple([(code[0], *[names[n] for n in code[1:]]) for code in codes]), tuple([names[n] for n in wanted]))
    constants = [pattern.operand(n) for n in others]
    specs = [pattern.arrays[n].spec for n in own]
    specs += [a.spec if type(a) is Lazy else spec_of(a.shape, a.dtype, pattern.device) for a in constants]
    outputs = tuple([pattern.operand(n).spec for n in wanted])
    pattern.end()
    return Block(block_kind(tuple(specs), outputs, body) if codes else None, own, constants)
