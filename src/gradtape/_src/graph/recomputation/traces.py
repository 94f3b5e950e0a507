"""Recomputation in traces of lazy arrays: as in graphs, with calls inserted into the part of the trace that the
backward pass has recorded. Equal traces have equal plans, so that their programs are compiled once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from gradtape._src.arrays.lazy.calls import Kind, Spec, kind_of as kind_of_call, kinds
from gradtape._src.arrays.lazy.trace import Lazy, LazyTrace, current_trace, new_result
from gradtape._src.arrays.refusals import refusals
from gradtape._src.graph.recomputation.costs import ACCELERATOR, PROCESSOR, Speed, blocks_of, kind_of, seconds_of
from gradtape._src.graph.recomputation.plan import Plan, Program, Step, sunk

Code = tuple[int, ...]

_plans: dict[Any, tuple[Plan, list[Code]]] = {}
_MOST = 64
"""The number of plans in the cache."""


def begin() -> tuple[LazyTrace, int] | None:
    """The trace of this thread, and its number of calls."""
    trace = current_trace()
    return None if trace is None else (trace, len(trace.results))


def recompute(begun: tuple[LazyTrace, int], results: Iterable[Any], limit: int) -> Plan | None:
    """Recompute values in the calls that the backward pass has added to a trace since `begun`; None if it was cut."""
    trace, boundary = begun
    arrays = list(trace.results)
    wanted = [a for a in results if type(a) is Lazy and a.trace is trace and a.value is None]
    if trace.limit < 0 or trace.is_done or not wanted or boundary > len(arrays):
        return None
    calls = [array for array in arrays if array.code]
    first = sum(bool(array.code) for array in arrays[:boundary])
    codes = tuple([array.code for array in calls])
    key = (codes, first, tuple([a.slot for a in wanted]), limit)
    found = _plans.get(key)
    if found is None:
        if len(_plans) >= _MOST:
            _plans.clear()
        found = _plans[key] = _planned(trace, codes, first, {a.slot for a in wanted}, limit)
    plan, added = found
    if added:
        _insert(trace, boundary, added)
    return plan


def _planned(
    trace: LazyTrace, codes: Sequence[Code], boundary: int, wanted: set[int], limit: int
) -> tuple[Plan, list[Code]]:
    """The plan of a trace, and the codes of its backward pass with recomputation."""
    places = _needed(codes, wanted)
    first = sum(i < boundary for i in places)
    speed = PROCESSOR if trace.device is None or trace.device.platform == "cpu" else ACCELERATOR
    steps = [_step(codes[i], speed) for i in places]
    sizes = {
        n: spec.nbytes for i in places for n, spec in zip(_outputs(codes[i]), _kind(codes[i]).outputs, strict=True)
    }
    order = sunk(steps, first)
    plan = Program([steps[i] for i in order], first, sizes, wanted).plan(limit)
    ordered = [codes[places[i]] for i in order]
    return plan, _rewritten(plan, ordered, codes, first, boundary) if plan.units or plan.rows else []


def _rewritten(plan: Plan, ordered: Sequence[Code], codes: Sequence[Code], first: int, boundary: int) -> list[Code]:
    """The codes of the backward pass with copies, whose numbers follow those of all results."""
    specs = dict(result for code in codes for result in _results(code))
    feeds = {
        n: spec
        for code in codes
        for n, spec in zip(_inputs(code), [o for o in _kind(code).operands if type(o) is Spec], strict=True)
    }
    fresh = max(specs) + 1
    before: dict[int, list[Code]] = {}
    renamed: dict[int, int] = {}
    for unit in sorted(plan.units, key=lambda unit: unit.place):
        token = _token(ordered, first, unit.place)
        names: dict[int, int] = {}
        made = before.setdefault(ordered[unit.place][-1], [])
        for number in unit.inputs:
            spec = feeds[number]
            if number < 0 and number % 2 == 0:
                continue  # the number of a literal
            after = number if token is None else token
            call = kind_of_call("barrier", (spec, feeds[after]), {}, spec.device)
            names[number] = fresh
            made.append((call.number, number, after, fresh))
            fresh += 1
        for i in unit.steps:
            code = ordered[i]
            outputs = _outputs(code)
            copies = range(fresh, fresh + len(outputs))
            made.append((code[0], *[names.get(n, n) for n in _inputs(code)], *copies))
            names.update(zip(outputs, copies, strict=True))
            fresh += len(outputs)
        renamed.update((number, names[number]) for number in unit.replaced)
    kinds_in_blocks = {ordered[i][-1]: _in_blocks(_kind(ordered[i]), rows) for i, rows in plan.rows.items()}
    added: list[Code] = []
    for code in codes[boundary:]:
        added += before.get(code[-1], ())
        kind = kinds_in_blocks.get(code[-1], code[0])
        added.append((kind, *[renamed.get(n, n) for n in _inputs(code)], *_outputs(code)))
    return added


def _in_blocks(kind: Kind, rows: int) -> int:
    """The number of the kind of a call that computes blocks of so many rows."""
    return kind_of_call(kind.name, kind.operands, {**kind.attrs, "rows": rows}, kind.outputs[0].device).number


def _insert(trace: LazyTrace, boundary: int, added: Sequence[Code]) -> None:
    """Replace the codes of the backward pass."""
    known = {array.slot: array for array in trace.results}
    last = max(known)
    slots: dict[int, int] = {}  # by the numbers of the copies in the plan
    results: list[Lazy] = []
    for code in added:
        outputs = _outputs(code)
        inputs = [slots.get(n, n) for n in _inputs(code)]
        if outputs[0] <= last:
            arrays = [known[n] for n in outputs]
        else:
            arrays = [new_result(spec, trace) for spec in _kind(code).outputs]
            slots.update(zip(_outputs(code), [array.slot for array in arrays], strict=True))
        arrays[0].code = (code[0], *inputs, *[array.slot for array in arrays])
        results += arrays
    trace.results[boundary:] = results


def _kind(code: Code) -> Kind:
    return kinds[code[0]]


def _inputs(code: Code) -> Code:
    return code[1 : len(code) - len(_kind(code).outputs)]


def _outputs(code: Code) -> Code:
    return code[len(code) - len(_kind(code).outputs) :]


def _results(code: Code) -> Iterable[tuple[int, Spec]]:
    return zip(_outputs(code), _kind(code).outputs, strict=True)


def _step(code: Code, speed: Speed) -> Step:
    kind = _kind(code)
    operands = [spec for spec in kind.operands if type(spec) is Spec]
    number = kind_of(kind.name, kind.name not in refusals)
    seconds = seconds_of(kind.name, number, operands, kind.outputs, speed)
    blocks = blocks_of(kind.name, operands, speed, compiled=True)
    return Step(_inputs(code), _outputs(code), seconds, number, blocks[0].workspace if blocks else 0, blocks)


def _needed(codes: Sequence[Code], wanted: set[int]) -> list[int]:
    """The positions of the codes that some results depend on."""
    used, found = set(wanted), []
    for i in range(len(codes) - 1, -1, -1):
        if not used.isdisjoint(_outputs(codes[i])):
            found.append(i)
            used.update(_inputs(codes[i]))
    return found[::-1]


def _token(ordered: Sequence[Code], boundary: int, place: int) -> int | None:
    """A result of the backward pass that is available when a step begins, and is used by it or later."""
    made = {n for code in ordered[boundary:place] for n, spec in _results(code) if spec.shape}
    return next((n for code in ordered[place:] for n in reversed(_inputs(code)) if n in made), None)
