"""Which values of a forward pass to save for the backward pass, and which to compute again, within a memory limit.

Both passes are known as lists of steps, with the bytes of each value and the estimated seconds of each step. The
forward pass is divided into segments where few bytes are live. For each segment there are three ways to save less: its
values are computed again from a minimum cut through steps that are cheap (elementwise), through those that are not
products either (reductions), or through all. While the predicted peak exceeds the limit, the way is chosen that frees
the most bytes at the peak per second of recomputation. This is done for several sizes of segments, and the cheapest
plan that fits is taken.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from gradtape._src.graph.recomputation.min_cut import UNLIMITED, Network

VIEW, CHEAP, REDUCTION, PRODUCT, FIXED = range(5)
"""Kinds of steps: those whose result is memory of their operand, elementwise ones, reductions, products and whatever
takes longer, and those that may run only once."""

LEVELS = (CHEAP, REDUCTION, PRODUCT)
"""The kinds of steps up to which a segment may be computed again."""

COUNTS = (4, 8, 16, 32, 64, 128)
"""Into how many segments a forward pass is divided, to compare the plans."""


_REFINEMENTS = 8
"""How often a segment is divided if no plan fits."""


class Block(NamedTuple):
    """A size of the blocks of rows that a step computes: rows, the bytes that it takes beside operands and results, and
    the estimated seconds that it takes longer than in the largest blocks.
    """

    rows: int
    workspace: int
    seconds: float


class Step(NamedTuple):
    """A call of a program: numbers of values, the estimated seconds, the kind, the bytes that it takes beside operands
    and results while it runs, and the blocks in which it can run, the largest first.
    """

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    seconds: float
    kind: int
    workspace: int = 0
    blocks: tuple[Block, ...] = ()


class Unit(NamedTuple):
    """Values recomputed together: before which step, by which steps, from which inputs, and what is replaced."""

    place: int
    steps: tuple[int, ...]
    inputs: tuple[int, ...]
    replaced: frozenset[int]
    seconds: float


class Interval(NamedTuple):
    """Bytes that are more, or less, from one step to another."""

    first: int
    end: int
    nbytes: int


class Choice(NamedTuple):
    """A way to treat a segment, or to run one step: `rows` is the step, and the rows of its blocks."""

    unit: Unit | None
    intervals: tuple[Interval, ...]
    seconds: float
    rows: tuple[int, int] | None = None


@dataclass
class Plan:
    """The values to recompute, and the predicted effect."""

    limit: int
    unlimited: int
    peak: int
    seconds: float = 0.0
    units: list[Unit] = field(default_factory=list)
    rows: dict[int, int] = field(default_factory=dict)
    """The rows of the blocks that some steps are computed in, because larger ones do not fit."""
    saved: int = 0
    """Bytes that the backward pass has from the forward pass."""
    iterations: int = 0
    """How many iterations of loops are computed again."""
    loop_ops: int = 0
    """How many ops these have."""


class Program:
    """A forward and a backward pass: steps, the first of the backward pass, bytes by value, and what stays to the end.

    Values that no step computes are inputs, which are there anyway, but may have a price where they would be copied.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        boundary: int,
        sizes: dict[int, int],
        results: Iterable[int],
        prices: Mapping[int, int] = {},
    ) -> None:
        self._prices = prices
        self._choices: dict[tuple[int, int], list[Choice]] = {}
        self.steps, self.boundary, self.sizes = list(steps), boundary, sizes
        self.maker = {out: i for i, step in enumerate(self.steps) for out in step.outputs}
        self.root: dict[int, int] = {}
        for step in self.steps:
            for out in step.outputs:
                first = step.inputs[0] if step.kind == VIEW and step.inputs else out
                self.root[out] = self.root.get(first, first)
        self.last_forward, self.first_backward, self.last = self._uses(set(results))
        self.used = [v for v in self.first_backward if self.maker.get(v, boundary) < boundary]
        """Values of the forward pass that the backward pass reads."""
        self.crossing: dict[int, list[int]] = {}
        for value in self.used:
            if self._is_made(root := self.root.get(value, value)):
                self.crossing.setdefault(root, []).append(value)
        self.profile = np.cumsum(self._differences(self._base()))

    def _is_made(self, root: int) -> bool:
        return root in self.maker

    def _uses(self, results: set[int]) -> tuple[dict[int, int], dict[int, int], dict[int, int]]:
        """By root, the last use in the forward pass and at all; by value, the first use in the backward pass."""
        last_forward: dict[int, int] = {}
        first_backward: dict[int, int] = {}
        last: dict[int, int] = {}
        for i, step in enumerate(self.steps):
            for value in (*step.inputs, *step.outputs):
                root = self.root.get(value, value)
                last[root] = i
                if i < self.boundary:
                    last_forward[root] = i
                elif value in step.inputs:
                    first_backward.setdefault(value, i)
        last.update((self.root.get(value, value), len(self.steps)) for value in results)
        return last_forward, first_backward, last

    def _base(self) -> list[Interval]:
        workspaces = [Interval(i, i + 1, step.workspace) for i, step in enumerate(self.steps) if step.workspace]
        return workspaces + [
            Interval(i, self.last[out] + 1, self.sizes.get(out, 0))
            for i, step in enumerate(self.steps)
            for out in step.outputs
            if self.root[out] == out
        ]

    def _differences(self, intervals: Iterable[Interval]) -> np.ndarray:
        change = np.zeros(len(self.steps) + 2, np.int64)
        for first, end, nbytes in intervals:
            if first < end:
                change[first] += nbytes
                change[end] -= nbytes
        return change

    @property
    def saved(self) -> int:
        """Bytes that the backward pass has from the forward pass, if nothing is computed again."""
        return sum(self.sizes.get(root, 0) for root in self.crossing)

    # -- segments ------------------------------------------------------------------------------------------------------
    @functools.cached_property
    def _amounts(self) -> tuple[np.ndarray, np.ndarray]:
        """By step of the forward pass, the bytes that are saved up to it, and those that are live in this pass."""
        own = np.zeros(self.boundary + 1, np.int64)
        live = np.zeros(self.boundary + 2, np.int64)
        for root, end in self.last_forward.items():
            made = self.maker.get(root, self.boundary)
            if made < self.boundary:
                live[made] += self.sizes.get(root, 0)
                live[end] -= self.sizes.get(root, 0)
                own[made] += self.sizes.get(root, 0) if root in self.crossing else 0
        return np.cumsum(own), np.cumsum(live)

    def segments(self, count: int) -> list[tuple[int, int]]:
        """The forward pass in about so many parts that save the same, which end where few bytes are live."""
        total, live = self._amounts
        share = max(int(total[-1]) // count, 1)
        found, start, before = [], 0, 0
        while start < self.boundary:
            least = bisect.bisect_left(total, before + share // 2, lo=start, hi=self.boundary)
            most = bisect.bisect_right(total, before + share * 3 // 2, lo=start, hi=self.boundary)
            if most >= self.boundary:
                found.append((start, self.boundary))
                break
            places = range(min(least, most), most + 1)
            place = min(places, key=lambda i: (live[i], -i))
            found.append((start, place + 1))
            start, before = place + 1, int(total[place])
        return found

    def _halves(self, start: int, end: int) -> list[tuple[int, int]]:
        """A segment in two parts, which save about the same; the first ends where few bytes are live."""
        total, live = self._amounts
        before = int(total[start - 1]) if start else 0
        saved = int(total[end - 1]) - before
        places = [i for i in range(start, end - 1) if saved <= 4 * (int(total[i]) - before) <= 3 * saved]
        if not places:
            return [(start, end)]
        place = min(places, key=lambda i: (live[i], -i))
        return [(start, place + 1), (place + 1, end)]

    def _held_by(self, plan: Plan, top: int, start: int, end: int) -> int:
        """The bytes at a step of the backward pass of values that a segment has computed, perhaps again."""
        from_step = {self.root.get(v, v): unit.place for unit in plan.units for v in unit.replaced}
        return sum(
            self.sizes.get(root, 0)
            for root in self.crossing
            if start <= self.maker[root] < end and from_step.get(root, 0) <= top <= self.last[root]
        )

    def choices(self, start: int, end: int) -> list[Choice]:
        """The ways to treat a segment; the first one saves everything."""
        if (start, end) not in self._choices:
            self._choices[start, end] = self._choices_of(start, end)
        return self._choices[start, end]

    def _choices_of(self, start: int, end: int) -> list[Choice]:
        found = [Choice(None, (), 0.0)]
        own = {
            root: values
            for root, values in self.crossing.items()
            if start <= self.maker[root] < end and self.last_forward[root] < end and self._may_drop(root)
        }
        seen: set[tuple[int, ...]] = set()
        for level in LEVELS if own else ():
            unit = self._unit(start, end, own, level)
            if unit is not None and unit.steps not in seen:
                seen.add(unit.steps)
                found.append(Choice(unit, tuple(self._effect(unit)), unit.seconds))
        return found

    def _block_choices(self) -> list[list[Choice]]:
        """The sizes of blocks of the steps of the backward pass; the first one is the largest."""
        return [
            [
                Choice(None, (Interval(i, i + 1, b.workspace - step.workspace),), b.seconds, (i, b.rows))
                for b in step.blocks
            ]
            for i, step in enumerate(self.steps)
            if i >= self.boundary and len(step.blocks) > 1
        ]

    def _may_drop(self, root: int) -> bool:
        return self.steps[self.maker[root]].kind != FIXED and self.last[root] < len(self.steps)

    def _unit(self, start: int, end: int, own: dict[int, list[int]], level: int) -> Unit | None:
        """Compute again what a minimum cut does not save, by steps up to a kind."""
        wanted = [value for values in own.values() for value in values]
        kept = self._cut(start, end, wanted, level)
        kept_roots = {self.root.get(value, value) for value in kept}
        dropped = {root for root in own if root not in kept_roots}
        while True:  # what is computed from a value that stays may need another one
            replaced = frozenset(v for root in dropped for v in own[root])
            steps, inputs = self._closure(replaced, start, end, kept, level)
            needed = {self.root.get(value, value) for value in inputs} & dropped
            if not needed:
                break
            dropped -= needed
        if not dropped:
            return None
        place = min(self.first_backward[value] for value in replaced)
        seconds = sum(self.steps[i].seconds for i in steps)
        return Unit(place, tuple(steps), tuple(inputs), replaced, seconds)

    def _cut(self, start: int, end: int, wanted: Sequence[int], level: int) -> set[int]:
        """The values to save, of a segment or from before it."""
        network, seen = Network(), set()
        pending = list(wanted)
        for value in wanted:
            network.connect((value, 1), "sink", UNLIMITED)
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            made = self.maker.get(value)
            network.connect((value, 0), (value, 1), self._price(value, start, end) + 1)
            if made is None or not start <= made < end or self.steps[made].kind > level:
                network.connect("source", (value, 0), UNLIMITED)
                continue
            if not self.steps[made].inputs:
                network.connect("source", (value, 0), 1)
            for operand in self.steps[made].inputs:
                network.connect((operand, 1), (value, 0), UNLIMITED)
                pending.append(operand)
        side = network.sink_side("source", "sink")
        return {value for value in seen if (value, 0) not in side and (value, 1) in side}

    def _price(self, value: int, start: int, end: int) -> int:
        """The bytes that saving a value takes: 0 for inputs and for values that are saved anyway."""
        root = self.root.get(value, value)
        made = self.maker.get(root)
        if made is None:
            return self._prices.get(root, 0)
        if root in self.crossing and self.last_forward[root] >= end:
            return 0
        return 0 if made < start and root in self.crossing else self.sizes.get(root, 0)

    def _closure(
        self, wanted: Iterable[int], start: int, end: int, kept: set[int], level: int
    ) -> tuple[list[int], list[int]]:
        """The steps that compute values again, in order, and what they start from."""
        steps: set[int] = set()
        inputs: dict[int, None] = {}
        pending, seen = list(wanted), set()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            made = self.maker.get(value)
            if made is None or value in kept or not start <= made < end or self.steps[made].kind > level:
                inputs[value] = None
                continue
            if made not in steps:
                steps.add(made)
                pending += self.steps[made].inputs
        return sorted(steps), list(inputs)

    def _effect(self, unit: Unit) -> list[Interval]:
        """How a unit changes the live bytes."""
        found = []
        roots = {self.root.get(value, value) for value in unit.replaced}
        for root in roots:
            nbytes, last = self.sizes.get(root, 0), self.last[root]
            found.append(Interval(self.last_forward[root] + 1, last + 1, -nbytes))
            found.append(Interval(unit.place, last + 1, nbytes))
        for value in unit.inputs:
            root = self.root.get(value, value)
            if root in self.maker and self.last[root] < unit.place:
                found.append(Interval(self.last[root] + 1, unit.place + 1, self.sizes.get(root, 0)))
        found.append(Interval(unit.place, unit.place + 1, self._transient(unit, roots)))
        return found

    def _transient(self, unit: Unit, roots: set[int]) -> int:
        """The most bytes of other values while a unit is computed, beside all that it gives."""
        made = {out: i for i in unit.steps for out in self.steps[i].outputs if self.root[out] == out}
        ends: dict[int, int] = {}
        for i in unit.steps:
            for value in (*self.steps[i].inputs, *self.steps[i].outputs):
                ends[self.root.get(value, value)] = i
        later: dict[int, list[int]] = {}
        for root, end in ends.items():
            if root in made and root not in roots:
                later.setdefault(end, []).append(root)
        most = there = 0
        missing = sum(self.sizes.get(root, 0) for root in roots)
        for i in unit.steps:
            for out in self.steps[i].outputs:
                if self.root[out] == out:
                    if out in roots:
                        missing -= self.sizes.get(out, 0)
                    else:
                        there += self.sizes.get(out, 0)
            most = max(most, there - missing)
            there -= sum(self.sizes.get(root, 0) for root in later.get(i, ()))
        return most

    # -- plans ---------------------------------------------------------------------------------------------------------
    def plan(self, limit: int) -> Plan:
        """The cheapest plan whose predicted peak is within the limit; if there is none, that with the lowest peak."""
        unlimited = int(self.profile.max(initial=0))
        best = Plan(limit, unlimited, unlimited, saved=self.saved)
        if unlimited <= limit or not (self.crossing or self._block_choices()):
            return best
        parts: list[tuple[int, int]] = []
        top = 0
        for count in COUNTS:
            if count > max(4, len(self.crossing)):
                break
            segments = self.segments(count)
            found, place = self._greedy(segments, limit)
            if rank(found) < rank(best):
                best, parts, top = found, segments, place
        return best if best.peak <= limit else self._refined(best, parts, top, limit)

    def _refined(self, best: Plan, parts: list[tuple[int, int]], top: int, limit: int) -> Plan:
        """Divide the segments that hold the most bytes at the peak, while that lowers it: such as the last one, which
        the backward pass reaches when all others are saved.
        """
        for _ in range(_REFINEMENTS):
            largest = sorted(parts, key=lambda part: -self._held_by(best, top, *part))[:2]
            tried = []
            for part in largest:
                i = parts.index(part)
                segments = [*parts[:i], *self._halves(*part), *parts[i + 1 :]]
                if len(segments) > len(parts):
                    tried.append((*self._greedy(segments, limit), segments))
            lower = min(tried, key=lambda each: rank(each[0]), default=None)
            if lower is None or rank(lower[0]) >= rank(best):
                break
            best, top, parts = lower
            if best.peak <= limit:
                break
        return best

    def _greedy(self, segments: Sequence[tuple[int, int]], limit: int) -> tuple[Plan, int]:
        """Raise the level of one segment after the other; also return the step at the peak."""
        choices = [*[self.choices(start, end) for start, end in segments], *self._block_choices()]
        chosen = [0] * len(choices)
        profile = self.profile.copy()
        while (peak := int(profile.max(initial=0))) > limit:
            top = int(profile.argmax())
            options = [
                (gain / max(added, 1e-12), i, k)
                for i, ways in enumerate(choices)
                for k in range(chosen[i] + 1, len(ways))
                if (gain := _at(ways[chosen[i]], top) - _at(ways[k], top)) > 0
                and (added := ways[k].seconds - ways[chosen[i]].seconds) > -1
            ]
            if not options:
                break
            _, i, k = max(options)
            before, after = choices[i][chosen[i]], choices[i][k]
            opposite = [Interval(first, end, -nbytes) for first, end, nbytes in before.intervals]
            profile += np.cumsum(self._differences([*opposite, *after.intervals]))
            chosen[i] = k
        found = [ways[k] for ways, k in zip(choices, chosen, strict=True)]
        units = [choice.unit for choice in found if choice.unit is not None]
        dropped = {self.root.get(value, value) for unit in units for value in unit.replaced}
        extended = {self.root.get(value, value) for unit in units for value in unit.inputs}
        kept = {root for root in {*self.crossing, *extended} if root in self.maker and root not in dropped}
        saved = sum(self.sizes.get(root, 0) for root in kept)
        unlimited = int(self.profile.max(initial=0))
        rows = {choice.rows[0]: choice.rows[1] for choice in found if choice.rows is not None and choice.seconds}
        return Plan(limit, unlimited, peak, sum(c.seconds for c in found), units, rows, saved), int(profile.argmax())


def rank(plan: Plan) -> tuple[float, float]:
    """The rank of a plan, lower is better: by seconds within the limit, otherwise by the peak."""
    return (0.0, plan.seconds) if plan.peak <= plan.limit else (1.0, float(plan.peak))


def _at(choice: Choice, place: int) -> int:
    """The bytes that a choice adds at a step."""
    return sum([nbytes for first, end, nbytes in choice.intervals if first <= place < end])


def sunk(steps: Sequence[Step], boundary: int) -> list[int]:
    """The order of the steps in which cheap ones that only need inputs, such as casts of weights, come immediately
    before their first use: then they belong to the segment that uses them.
    """
    maker = {out: i for i, step in enumerate(steps) for out in step.outputs}
    is_light: list[bool] = []
    for step in steps[:boundary]:
        operands = [maker.get(value) for value in step.inputs]
        is_light.append(step.kind <= CHEAP and all(made is None or is_light[made] for made in operands))
    order: list[int] = []
    done: set[int] = set()

    def add(i: int) -> None:
        pending = [i]
        while pending:
            first = [m for v in steps[pending[-1]].inputs if (m := maker.get(v)) is not None and m not in done]
            first = [m for m in first if is_light[m]]
            if first:
                pending += first
                continue
            place = pending.pop()
            if place not in done:
                done.add(place)
                order.append(place)

    for i in range(boundary):
        if not is_light[i]:
            add(i)
    for i in range(boundary):
        if i not in done:
            add(i)
    return [*order, *range(boundary, len(steps))]
