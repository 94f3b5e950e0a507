"""A table of compiled programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gradtape._src.function.eager import EagerFunction
from gradtape._src.graph.program import Program

if TYPE_CHECKING:
    from gradtape._src.function.concrete import ConcreteFunction

_COLUMNS = ("signature", "program", "nodes", "runs on", "compiled in", "flops", "bytes moved", "memory", "because")


def summary(name: str, traces: int, functions: Sequence[ConcreteFunction], detailed: bool = False) -> str:
    """A line for each program: the function, and those of its derivatives that have run.

    With `detailed` also the passes, and the statements that run on NumPy.
    """
    lines = [_COLUMNS]
    eager = []
    details: list[str] = []
    for function in functions:
        signature = " ".join(function.pretty_printed_signature(False).split())
        if isinstance(function, EagerFunction):
            eager.append(f"{signature} runs eagerly. {function.reason}")
            continue
        if isinstance(function._eager, EagerFunction):
            eager.append(f"Some calls of {signature} ran eagerly. {function._eager.reason}")
        for kind, program in _programs(function):
            parts = [(kind, program), *[(f"island of {kind}", island) for island in _islands(program)]]
            for part, each in parts:
                lines.append((signature, part, _nodes(each), *_where(each), *_numbers(each), _reason(each)))
                details += _details(part, function, each) if detailed else []
                signature = ""
    widths = [max(len(line[i]) for line in lines) for i in range(len(_COLUMNS))]
    rows = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    times = "1 time" if traces == 1 else f"{traces} times"
    table = [rows[0], "  ".join("-" * width for width in widths), *rows[1:]] if rows[1:] or not eager else []
    return "\n".join([f"{name}: traced {times}", *table, *eager, *details])


def _details(kind: str, function: ConcreteFunction, program: Program) -> list[str]:
    """The passes, the memory plan, and the statements that run on NumPy."""
    program.write_for_numpy()
    written = program.executable
    title = f"\n{kind} of {function.pretty_printed_signature(False)}"
    if written is None:
        return [title, f"  {len(program.nodes)} nodes, which have not run on NumPy"]
    passes = ", ".join(f"{name} {count}" for name, count in program.passes.items())
    memory = (
        f"{_bytes(written.peak)} at the peak, {written.reused} results reuse memory of values that are no longer needed"
    )
    return [title, f"  nodes after each pass: {passes}", f"  memory: {memory}", written.listing()]


def _programs(function: ConcreteFunction) -> list[tuple[str, Program]]:
    """The programs of a function that have run, by purpose."""
    traced = function._traced
    found = []
    if traced.built is not None:
        found += [("values", program) for program in traced.built.versions()]
    in_parts = vars(traced).get("in_parts")  # if a call has used it
    if in_parts is not None:
        found.append(("values in parts", in_parts.program))
    for derivative in traced.derivatives.values():
        found += [("values for a tape", program) for program in derivative.program.versions()]
        for backward in derivative.backward_programs.values():
            if backward.traced.built is not None:
                found += [("gradient", program) for program in backward.traced.built.versions()]
    return found


def _islands(program: Program) -> list[Program]:
    """The parts of a program with dynamic shapes or strings that XLA may compile."""
    program.write_for_numpy()
    return program.islands


def _nodes(program: Program) -> str:
    """The number of nodes and, on NumPy, the number after all passes."""
    count = len(program.nodes)
    program.write_for_numpy()
    return f"{program.numpy_nodes} of {count}" if program.is_on_numpy(host=True) and program.numpy_nodes else f"{count}"


def _where(program: Program) -> tuple[str, str]:
    """The executor of the next call, and XLA's compile time in seconds."""
    if not (program.is_compiled or program.has_run_on_numpy):
        return "not run", "-"
    devices = program.device_count
    where = "NumPy" if program.is_on_numpy(host=True) else "XLA" if devices == 1 else f"XLA on {devices} devices"
    return where, f"{program.first_seconds:.2f} s" if program.is_compiled else "-"


def _numbers(program: Program) -> tuple[str, str, str]:
    """Flops and bytes accessed from XLA's cost analysis, and memory: with XLA, besides arguments and results."""
    known = program.cost() if program.is_compiled else {}
    if program.executable is not None and program.is_on_numpy(host=True):
        known = {**known, "temporary": program.executable.peak}
    return _count(known.get("flops")), _bytes(known.get("bytes accessed")), _bytes(known.get("temporary"))


def _reason(program: Program) -> str:
    if program.needs_numpy:
        return "XLA supports neither strings nor shapes that depend on values"
    if program.tier is None:
        return f"it was chosen; on one device, because {program.undivided}" if program.undivided else "it was chosen"
    elsewhere = program.tier.on_numpy and program.is_compiled and not program.has_run_on_numpy
    return "its arguments are on another device" if elsewhere else program.tier.reason


def _count(number: Any) -> str:
    if number is None or number < 0:
        return "-"
    for size, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f}"


def _bytes(number: Any) -> str:
    if number is None or number < 0:
        return "-"
    for size, unit in ((2**30, "GB"), (2**20, "MB"), (2**10, "kB")):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"
