"""A report on eager code that was recorded as programs: `tf.config.graph_mode_report`."""

from __future__ import annotations

from typing import NamedTuple

from gradtape._src.arrays.lazy.programs import LazyProgram, all_programs
from gradtape._src.call_sites import Line


class Cut(NamedTuple):
    """A place at which programs were cut: the line of the user's code, the reason, and the count."""

    line: Line | None
    reason: str
    times: int

    def __str__(self) -> str:
        where = "" if self.line is None else f" at {self.line[0]}:{self.line[1]}"
        return f"{self.times} x cut{where}: {self.reason}"


class ProgramReport(NamedTuple):
    """One program: its ops, the number of its runs, the reasons for compiling it, and where it was cut."""

    ops: int
    runs: int
    compiled: tuple[str, ...]
    executor: str
    cuts: tuple[Cut, ...]

    def __str__(self) -> str:
        times = "" if len(self.compiled) == 1 else f" {len(self.compiled)} times"
        how = f"compiled{times}: {'; '.join(self.compiled)}" if self.compiled else "op by op"
        head = f"{self.ops} ops, {self.runs} runs, {how}; {self.executor}"
        return "\n".join([head, *[f"    {cut}" for cut in self.cuts]])


class GraphModeReport(NamedTuple):
    """All programs that eager code was recorded as, oldest first."""

    programs: tuple[ProgramReport, ...]

    def __str__(self) -> str:
        counts = f"{len(self.programs)} programs, {sum(len(p.compiled) for p in self.programs)} compilations"
        return "\n".join([counts, *map(str, self.programs)])


def report() -> GraphModeReport:
    """The current report."""
    return GraphModeReport(tuple([_described(program) for program in all_programs() if program.runs]))


def _described(program: LazyProgram) -> ProgramReport:
    cuts = [Cut(line, reason, times) for (reason, line), times in program.cuts.items()]
    return ProgramReport(len(program.steps), program.runs, tuple(program.compiled), program.executor(), tuple(cuts))
