"""Programs: a trace that was cut is looked up here, and runs op by op or as one compiled program.

A trace is a list of codes, tuples of integers: the kind of a call, its operands, its results. An operand is the number
of a result (0, 1, ...), of an input (-1, -3, ...) or of a number in the program text (-2, -4, ...). The codes and the
results that are still referred to are looked up as they are. Where they are new, calls that nothing depends on are
removed and the rest is numbered from 0 on: that is the key of a program, which other traces may have too.

A program runs op by op the first time. When it comes again it is compiled (`graph/lazy_programs.py`). Numbers, such as
a learning rate, are constants of a compiled program as long as they do not change; one that does becomes an input.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradtape._src import forks
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.lazy.calls import Spec, kinds
from gradtape._src.arrays.lazy.compilers import Runner as Runner, compilers
from gradtape._src.call_sites import Line
from gradtape._src.errors import OpError
from gradtape._src.interrupts import float_errors_ignored, is_interrupt

Code = tuple[int, ...]
"""The number of a kind of call, its operands and its results."""


class Step(NamedTuple):
    """A call of a program: the number of its kind, its operands, its results, and the results that end after it."""

    kind: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    ending: tuple[int, ...]


class Failure:
    """The error of an op, instead of its results and of all values computed from them."""

    __slots__ = ("error",)

    def __init__(self, error: Exception) -> None:
        self.error = error

    def run(self, reason: str) -> None:
        """Raise the error, because the value is needed."""
        raise self.error


compile_after = [1]
"""How often a program runs op by op before it is compiled."""


class LazyProgram:
    """Calls and their wanted results; equal traces share one program.

    runs      how often it ran
    compiled  how often it was compiled, and why: a number that changed is a reason to compile it again
    varying   the numbers of the literals that are inputs, because they have changed
    """

    def __init__(self, steps: list[Step], feeds: list[Spec], literals: list[Spec], outputs: tuple[int, ...]) -> None:
        self.steps, self.feeds, self.outputs = steps, feeds, outputs
        self.literal_specs = literals
        self.device = kinds[steps[0].kind].outputs[0].device if steps else None
        self.runs = 0
        self.compiled: list[str] = []
        self.problem = ""  # why it is not compiled
        self.cuts: dict[tuple[str, Line | None], int] = {}
        self.literals: list[Any] = []
        self.varying: list[int] = []
        self._runner: Runner | None = None
        self._ids: list[int] = []

    def run(
        self,
        feeds: Sequence[Any],
        dying: Sequence[int],
        literals: list[Any],
        lines: dict[int, Line],
        into: list[Sequence[Any]],
    ) -> None:
        """Append the wanted results to a list, with a Failure for each one that an error prevents."""
        self.runs += 1
        runner = self._current(literals)
        if runner is None:
            into.append(self.run_by_op(feeds, literals, lines))
            return
        try:
            runner([*feeds, *[literals[i] for i in self.varying]], dying, into)
        except Exception as error:
            if is_interrupt(error) or any(getattr(feeds[i], "is_deleted", bool)() for i in dying):
                raise
            values = self.run_by_op(feeds, literals, lines)  # finds out which op it was
            if not any(type(value) is Failure for value in values):
                self._runner, self.problem = None, f"{type(error).__name__}: {error}"
            into.append(values)

    def executor(self) -> str:
        """A description of the executor."""
        if self.problem:
            return f"not compiled: {self.problem}"
        if self._runner is None:
            return "kernel by kernel"
        return str(getattr(self._runner, "executor", "XLA"))

    def _current(self, literals: list[Any]) -> Runner | None:
        """The compiled program for these literals; None if the program runs op by op."""
        if self._runner is None:
            if self.runs <= compile_after[0] or len(self.steps) < 2 or self.problem or not compilers:
                self.literals, self._ids = literals, [*map(id, literals)]
                return None
            if self.literals:
                self._changed(literals)
            self.literals, self._ids = literals, [*map(id, literals)]
            self._compile("it was there before" if self.runs == 2 else f"it was there {self.runs - 1} times before")
        elif self._ids != (ids := [*map(id, literals)]):
            if self._changed(literals):
                self._compile("a number has changed: it is an input now")
            self._ids = ids
        return self._runner

    def _changed(self, literals: list[Any]) -> bool:
        """Record which literals have changed; return whether one of them changed for the first time."""
        known = {*self.varying}
        pairs = enumerate(zip(literals, self.literals, strict=True))
        new = [i for i, (a, b) in pairs if i not in known and a is not b and a.tobytes() != b.tobytes()]
        self.varying = sorted({*known, *new})
        self.literals, self._ids = literals, [*map(id, literals)]
        return bool(new)

    def _compile(self, reason: str) -> None:
        try:
            self._runner = compilers[0](self)
        except Exception as error:
            if is_interrupt(error):
                raise
            self._runner, self.problem = None, f"{type(error).__name__}: {error}"
        else:
            self.compiled.append(reason)

    # -- op by op ----------------------------------------------------------------------------------------------------
    def run_by_op(self, feeds: Sequence[Any], literals: Sequence[Any], lines: dict[int, Line]) -> list[Any]:
        """Run the calls in order with the engine's kernels. Results are freed after the last call that uses them."""
        values: dict[int, Any] = {}
        for i, feed in enumerate(feeds):
            values[-1 - 2 * i] = feed
        for i, literal in enumerate(literals):
            values[-2 - 2 * i] = literal
        xp = engine(self.device)
        with float_errors_ignored():
            for position, step in enumerate(self.steps):
                _run_step(step, values, xp, lines.get(position))
        return [values[output] for output in self.outputs]


def engine(device: Any) -> Any:
    """The functions that compute on a device."""
    if device is None or forks.without_xla:
        return numpy_namespace
    from gradtape._src.arrays.xla import xla_namespace

    return xla_namespace


def _run_step(step: Step, values: dict[int, Any], xp: Any, line: Line | None) -> None:
    kind = kinds[step.kind]
    given = [values[i] for i in step.inputs]
    failed = next((value for value in given if type(value) is Failure), None)
    if failed is None:
        operands = iter(given)
        arguments = [next(operands) if type(o) is Spec else o[0] for o in kind.operands]
        try:
            result = getattr(xp, kind.name)(*arguments, **kind.attrs)
        except Exception as error:
            if is_interrupt(error):
                raise
            failed = Failure(located(error, kind.name, line))
    if failed is not None:
        values.update(dict.fromkeys(step.outputs, failed))
    else:
        results = result if kind.several else (result,)
        for number, value, spec in zip(step.outputs, results, kind.outputs, strict=True):
            values[number] = typed(value, spec)
    for number in step.ending:
        del values[number]


def typed(value: Any, spec: Spec) -> Any:
    """Convert a result to an array of the inferred dtype: NumPy returns scalars instead of arrays without axes."""
    if type(value) is not np.ndarray and (spec.device is None or not hasattr(value, "devices")):
        value = np.asarray(value)
    return value if value.dtype == spec.dtype else value.astype(spec.dtype)


def located(error: Exception, name: str, line: Line | None) -> Exception:
    """Add the line on which the op was called to its error, because the op ran later."""
    if line is None:
        return error
    where = f" The op '{name}' was called in {line[0]}:{line[1]} and ran when its value was needed."
    if isinstance(error, OpError):
        error._message += where
        error.args = (error._message,)
    else:
        error.args = (f"{error}{where}",)
    return error


# -- from traces to programs -----------------------------------------------------------------------------------------
class Plan(NamedTuple):
    """A program for a trace: which of the trace's results, inputs and literals it has.

    origins  for each step of the program, the number of its first result in the trace
    """

    program: LazyProgram
    results: list[int]
    feeds: list[int]
    literals: list[int]
    origins: list[int]


class Table(dict[Any, Any]):
    """A cache with keys whose first part describes calls. When it is full, the oldest entries are dropped, first those
    that were used only once.
    """

    most = 200_000

    def __init__(self) -> None:
        super().__init__()
        self._size = 0

    def add(self, key: Any, value: Any, program: Any) -> None:
        """Add an entry, and drop others if there are too many; `program.runs` counts how often it was used."""
        self[key] = value, program
        self._size += len(key[0])
        if self._size > self.most:
            entries = sorted([*self.items()], key=lambda entry: entry[1][1].runs > 1)
            for other, _ in entries:
                if self._size > self.most // 2 and other is not key:
                    self._size -= len(other[0])
                    self.pop(other, None)

    def forget(self) -> None:
        """Drop all entries."""
        self.clear()
        self._size = 0


_plans, _programs = Table(), Table()


def plan_of(codes: tuple[Code, ...], alive: tuple[int, ...]) -> tuple[Plan, ...]:
    """The plans for a trace and its results that are still referenced, one for each part."""
    key = (codes, alive)
    found = _plans.get(key)
    if found is not None:
        known: tuple[Plan, ...] = found[0]
        return known
    parts = _unrelated(needed(without_blocks(codes), {*alive}))
    plans = tuple([_planned(part, alive) for part in parts])
    _plans.add(key, plans, max([plan.program for plan in plans], key=lambda program: len(program.steps)))
    return plans


def without_blocks(codes: tuple[Code, ...]) -> tuple[Code, ...]:
    """The calls of a trace, with blocks replaced by their calls, whose own values are numbered last."""
    if not any(code and kinds[code[0]].body is not None for code in codes):
        return codes
    fresh = itertools.count(1 + max([n for code in codes for n in code[1:]]))
    found: list[Code] = []
    for code in codes:
        body = kinds[code[0]].body if code else None
        if body is None:
            found.append(code)
            continue
        count = len(code) - 1 - len(body.results)
        names = dict(enumerate(code[1 : 1 + count])) | dict(zip(body.results, code[1 + count :], strict=True))
        for number, *operands in body.codes:
            for n in operands:
                if n not in names:
                    names[n] = next(fresh)
            found.append((number, *[names[n] for n in operands]))
    return without_blocks(tuple(found))


_LARGE = 32
"""The number of calls from which on a part of a trace that has nothing to do with the rest is a program of its own."""


def _unrelated(codes: list[Code]) -> list[list[Code]]:
    """The calls of a trace, divided: large parts that have no results in common, and the rest.

    What a program does besides its training step, such as metrics or the next batch, then leaves the step's program as
    it is.
    """
    if len(codes) < _LARGE:
        return [codes]
    above: dict[int, int] = {}  # result -> another one of the same part

    def top(number: int) -> int:
        while (other := above.setdefault(number, number)) != number:
            above[number] = number = above[other]
        return number

    for code in codes:
        end = 1 + sum(type(operand) is Spec for operand in kinds[code[0]].operands)
        for number in code[1:]:
            if number >= 0:
                above[top(number)] = top(code[end])
    parts: dict[int, list[Code]] = {}
    for code in codes:
        parts.setdefault(top(code[-1]), []).append(code)
    large = [part for part in parts.values() if len(part) >= _LARGE]
    small = {top(part[0][-1]) for part in parts.values() if len(part) < _LARGE}
    rest = [code for code in codes if top(code[-1]) in small]
    return [*large, rest] if rest else large


def all_programs() -> list[LazyProgram]:
    """All programs."""
    return [program for program, _ in _programs.values()]


def forget_programs() -> None:
    """Forget all programs and plans."""
    _plans.forget()
    _programs.forget()


class _Numbering(dict[int, int]):
    """New numbers for the operands of a trace, in the order in which they come, and the spec of each."""

    def __init__(self) -> None:
        super().__init__()
        self.specs: list[Spec] = []

    def add(self, operand: int, spec: Spec) -> int:
        number = self.get(operand)
        if number is None:
            number = self[operand] = len(self)
            self.specs.append(spec)
        return number


def _planned(codes: Sequence[Code], alive: tuple[int, ...]) -> Plan:
    """The plan for calls that are all needed."""
    results, feeds, literals = _Numbering(), _Numbering(), _Numbering()
    calls, origins = [], []
    for code in codes:
        kind = kinds[code[0]]
        specs = [operand for operand in kind.operands if type(operand) is Spec]
        inputs = []
        for operand, spec in zip(code[1:], specs, strict=False):
            if operand >= 0:
                inputs.append(results[operand])
            elif operand % 2:
                inputs.append(-1 - 2 * feeds.add(operand, spec))
            else:
                inputs.append(-2 - 2 * literals.add(operand, spec))
        outputs = code[1 + len(specs) :]
        numbers = [results.add(out, spec) for out, spec in zip(outputs, kind.outputs, strict=True)]
        calls.append((code[0], tuple(inputs), tuple(numbers)))
        origins.append(outputs[0])
    found = [output for output in alive if output in results]  # not one whose op another thread is about to add
    program = _program(tuple(calls), feeds.specs, literals.specs, tuple([results[output] for output in found]))
    return Plan(program, found, [(-1 - f) // 2 for f in feeds], [(-2 - i) // 2 for i in literals], origins)


class Part(NamedTuple):
    """Some steps of a program as a separate one, with the numbers of its feeds, literals and outputs in the whole."""

    program: LazyProgram
    feeds: list[int]
    literals: list[int]
    outputs: list[int]


def part_of(whole: LazyProgram, steps: Sequence[Step], wanted: set[int]) -> Part:
    """A program of some steps that returns their wanted results. Equal parts share one program."""
    codes = tuple([(step.kind, *step.inputs, *step.outputs) for step in steps])
    own = {number for step in steps for number in step.outputs}
    before = {n: -1 - 2 * (len(whole.feeds) + i) for i, n in enumerate(_used_from_outside(steps, own))}
    renamed = tuple([(code[0], *[before.get(n, n) for n in code[1:]]) for code in codes])
    outputs = tuple(sorted(own & wanted))
    plan = _planned(needed(renamed, {*outputs}), outputs)
    outside = {-1 - 2 * i: -1 - 2 * i for i in range(len(whole.feeds))} | {new: old for old, new in before.items()}
    return Part(
        plan.program,
        [outside[-1 - 2 * i] for i in plan.feeds],
        [-2 - 2 * i for i in plan.literals],
        plan.results,
    )


def _used_from_outside(steps: Sequence[Step], own: set[int]) -> list[int]:
    """The results of other steps that these steps use."""
    return [*dict.fromkeys(n for step in steps for n in step.inputs if n >= 0 and n not in own)]


def needed(codes: tuple[Code, ...], used: set[int]) -> list[Code]:
    """The calls that these results depend on."""
    kept = []
    for code in reversed(codes):
        if not code:  # a further result of a call
            continue
        kind = kinds[code[0]]
        end = len(code) - len(kind.outputs)
        if not used.isdisjoint(code[end:]):
            kept.append(code)
            used.update(code[1:end])
    kept.reverse()
    return kept


def _program(calls: tuple[Any, ...], feeds: list[Spec], literals: list[Spec], outputs: tuple[int, ...]) -> LazyProgram:
    key = (calls, outputs)
    found = _programs.get(key)
    if found is not None:
        known: LazyProgram = found[0]
        return known
    program = LazyProgram(_steps(calls, outputs), feeds, literals, outputs)
    _programs.add(key, program, program)
    return program


def _steps(calls: Sequence[Any], wanted: Sequence[int]) -> list[Step]:
    """Calls with the results that end after each."""
    seen = {*wanted}
    steps = []
    for kind, inputs, outputs in reversed(calls):
        ending = [number for number in dict.fromkeys((*inputs, *outputs)) if number >= 0 and number not in seen]
        seen.update(ending)
        steps.append(Step(kind, inputs, outputs, tuple(ending)))
    steps.reverse()
    return steps
