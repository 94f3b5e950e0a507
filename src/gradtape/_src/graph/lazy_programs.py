"""Programs for traces of lazy arrays: eager code that was recorded more than once runs like a traced function.

On the CPU a program starts on NumPy, and XLA takes over if that measures faster (`tiers.py`). On other devices XLA
compiles it, and reuses the memory of inputs that nothing refers to any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from time import perf_counter
from typing import Any

from gradtape._src import forks
from gradtape._src.arrays.lazy.calls import Spec, kinds
from gradtape._src.arrays.lazy.programs import Failure, LazyProgram, Runner, Step, part_of
from gradtape._src.arrays.symbolic import Graph, symbolic_namespace, tracing
from gradtape._src.core.primitive import registry
from gradtape._src.graph.program import Program, to_numpy


def compile_lazily(program: LazyProgram) -> Runner:
    """The runner of a program of lazy arrays."""
    if program.device is None:
        return _OnHost(_program(program, ()))
    levels = _levels(program, _DEEPEST)
    return _InLevels(program, levels) if len(levels) > 1 else _OnDevice(program)


def _program(program: LazyProgram, donated: Sequence[int]) -> Program:
    graph = Graph("lazy")
    graph.executor = "auto" if program.device is None else "xla"
    values: dict[int, Any] = {}
    arguments = []
    for i, spec in enumerate(program.feeds):
        values[-1 - 2 * i] = graph.argument(spec.shape, spec.dtype)
        arguments.append(values[-1 - 2 * i])
    for i, literal in enumerate(program.literals):
        values[-2 - 2 * i] = literal
    for i in program.varying:
        spec = program.literal_specs[i]
        values[-2 - 2 * i] = graph.argument(spec.shape, spec.dtype)
        arguments.append(values[-2 - 2 * i])
    pinned = set() if program.device is None else _between(_levels(program, _FUSED))
    with tracing(graph):
        for step in program.steps:
            kind = kinds[step.kind]
            operands = iter([values[number] for number in step.inputs])
            args = [next(operands) if type(o) is Spec else o[0] for o in kind.operands]
            found = getattr(symbolic_namespace, kind.name)(*args, **kind.attrs)
            for number, value in zip(step.outputs, found if kind.several else (found,), strict=True):
                values[number] = symbolic_namespace.pinned(value) if number in pinned else value
    made = Program(graph, arguments, [values[number] for number in program.outputs])
    if any(not made.is_explicit(feed) for feed in made.feeds):
        raise TypeError("its constants are too large")
    made.feeds = [feed for feed in graph.feeds if made.is_explicit(feed)]  # unused ones included
    made.donated = tuple(donated)
    return made


class _OnHost:
    """A program on the CPU: calls are timed until the faster executor is known."""

    def __init__(self, program: Program) -> None:
        assert program.tier is not None
        self._program, self._tier = program, program.tier
        if any(node.name == "barrier" for node in program.nodes):
            self._tier.stay_on_numpy("on the processor XLA merges what is computed again with the original")

    @property
    def executor(self) -> str:
        """The name of the executor, and why it was chosen."""
        return f"{'NumPy' if self._tier.on_numpy else 'XLA'}: {self._tier.reason}"

    def __call__(self, arrays: Sequence[Any], dying: Sequence[int], into: list[Any]) -> None:
        program, tier = self._program, self._tier
        on_numpy = bool(forks.without_xla) or tier.on_numpy
        began = perf_counter()
        if on_numpy:
            results: Any = program.run_on_numpy(arrays)
        else:
            with program.xla.on_processor():
                results = [*map(to_numpy, program.xla(arrays))]
        if not tier.is_settled:
            tier.add(on_numpy, perf_counter() - began)
        into.append(results)


class _OnDevice:
    """A program on a device of XLA, compiled for each set of inputs whose memory it may reuse."""

    def __init__(self, program: LazyProgram) -> None:
        self._source = program
        self._programs: dict[tuple[int, ...], Program] = {}
        self._kinds: set[tuple[Any, ...]] = set()

    def __call__(self, arrays: Sequence[Any], dying: Sequence[int], into: list[Any]) -> None:
        donated = tuple(dying)
        program = self._programs.get(donated)
        if program is None:
            program = self._programs[donated] = _program(self._source, donated)
        with program.xla.on_device(self._source.device):
            seen = (donated, *map(type, arrays))
            if seen not in self._kinds:  # JAX runs Python code around the launch, where a signal may arrive
                program.xla.run_apart(arrays, into)
                self._kinds.add(seen)
                return
            into.extend(starmap(program.xla.jitted, (arrays,)))  # one call of C code: no result is lost


# -- long chains -------------------------------------------------------------------------------------------------------
_DEEPEST = 2048
"""The longest chain of elementwise ops that is compiled as one program. XLA fuses the chain into one kernel, takes 26 s
to compile 2,000 ops, and more than twice as long for twice as many. In eight parts, of which five are different, they
compile in 5 s and run in 8 ms instead of 1 (H200): each part has many inputs and results."""

_FUSED = 256
"""The longest chain of elementwise ops that may become one kernel: values between two such chains are stored. XLA takes
more than twice as long to compile a kernel of twice as many."""

_NEUTRAL = frozenset({"astype", "broadcast_to", "expand_dims", "identity", "reshape", "squeeze", "stop_gradient"})


def _between(levels: list[list[Step]]) -> set[int]:
    """The results that steps of later levels use."""
    level_of = {number: i for i, steps in enumerate(levels) for step in steps for number in step.outputs}
    used = [(number, i) for i, steps in enumerate(levels) for step in steps for number in step.inputs]
    return {number for number, i in used if number >= 0 and level_of[number] < i}


def _levels(program: LazyProgram, deepest: int) -> list[list[Step]]:
    """Divide the steps of a program into levels, in which chains of elementwise ops are no longer than `deepest`."""
    found: dict[int, tuple[int, int]] = {}  # by result: its level, and the length of the chain that ends there
    levels: list[list[Step]] = []
    for step in program.steps:
        level, depth = max([found[n] for n in step.inputs if n >= 0], default=(0, 0))
        name = kinds[step.kind].name.split("_vjp_")[0]
        op = registry.get(name)
        if name not in _NEUTRAL:
            depth = depth + 1 if op is not None and op.elementwise else 0
        if depth > deepest:
            level, depth = level + 1, 1
        found.update(dict.fromkeys(step.outputs, (level, depth)))
        while len(levels) <= level:
            levels.append([])
        levels[level].append(step)
    return levels


class _InLevels:
    """A program that runs as several, one after the other; equal parts are compiled once."""

    def __init__(self, program: LazyProgram, levels: list[list[Step]]) -> None:
        self._program = program
        wanted = {*program.outputs}
        self._parts = []
        for steps in reversed(levels):
            self._parts.append(part_of(program, steps, wanted))
            wanted.update(number for step in steps for number in step.inputs if number >= 0)
        self._parts.reverse()

    @property
    def executor(self) -> str:
        """A description of the executors of the parts."""
        different = len({id(part.program) for part in self._parts})
        return f"XLA, in {len(self._parts)} parts of {different} kinds: it has long chains of elementwise ops"

    def __call__(self, arrays: Sequence[Any], dying: Sequence[int], into: list[Any]) -> None:
        program = self._program
        values: dict[int, Any] = {-1 - 2 * i: array for i, array in enumerate(arrays[: len(program.feeds)])}
        values.update({-2 - 2 * i: literal for i, literal in enumerate(program.literals)})
        for part in self._parts:
            part.program.runs += part.program.runs == 0  # so that it is worth compiling
            found: list[Any] = []
            literals = [values[number] for number in part.literals]
            part.program.run([values[number] for number in part.feeds], (), literals, {}, found)
            failed = next((value for value in found[0] if type(value) is Failure), None)
            if failed is not None:
                raise failed.error
            values.update(zip(part.outputs, found[0], strict=True))
        into.append([values[number] for number in program.outputs])
