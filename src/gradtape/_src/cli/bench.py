"""`gradtape bench`: run the benchmarks, with bars, and compare with other libraries that are installed.

The programs are those of the folder benchmarks/: next to the sources in a working copy, and packed into the wheel
(below `gradtape/commands/packed`) for all other users. This module finds and runs them, and shows their results.
"""

from __future__ import annotations

import importlib
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from gradtape._src.cli import UsageError
from gradtape._src.cli.arguments import Parser, positive
from gradtape._src.cli.terminal import Printer
from gradtape._src.progress import Progress

__all__ = ["folder", "main"]

DESCRIPTION = """\
Measures gradtape, NumPy written by hand, and TensorFlow, PyTorch, JAX and autograd if they are installed. Every
library does the same work, in its own process on the same core with one thread, and all results are compared first.
The best time counts."""
PEERS = """\
set these environment variables to use libraries in other environments:
  BENCH_TENSORFLOW, BENCH_TORCH, BENCH_JAX, BENCH_AUTOGRAD
                 a Python that has this library
  BENCH_PEERS    a Python for all libraries without their own variable

examples:
  gradtape bench                         everything
  gradtape bench chain mlp32             two workloads
  gradtape bench chain --only gradtape,numpy
  gradtape bench --rounds 9 --json       more patience, and JSON
  BENCH_TORCH=~/torch/bin/python gradtape bench rnn
"""


def folder() -> Path:
    """The folder that holds the package `benchmarks`: of the working copy if this is one, else of the wheel.

    >>> (folder() / "benchmarks" / "race.py").is_file()
    True
    """
    here = Path(__file__).resolve().parent
    for place in (here.parents[3], here / "packed"):
        if (place / "benchmarks" / "race.py").is_file():
            return place
    raise UsageError("the benchmarks are not part of this installation", status=1)


def _benchmarks() -> Any:
    """The package `benchmarks`, and not another one with that name."""
    home = str(folder())
    sys.path.insert(0, home)
    try:
        package = importlib.import_module("benchmarks")
        if Path(package.__path__[0]).parent != Path(home):
            raise UsageError(f"another package named benchmarks is loaded, from {package.__path__[0]}", status=1)
        for name in ("budgets", "import_time", "libraries", "memory", "race", "workloads"):
            importlib.import_module(f"benchmarks.{name}")
    finally:
        sys.path.remove(home)
    return package


def _introduce(versions: dict[str, str], absent: list[str], printer: Printer) -> None:
    """Print what is measured, where, and in which unit."""
    printer.paragraph(", ".join(f"{module} {version}" for module, version in versions.items()))
    printer.paragraph(f"Python {platform.python_version()}, {platform.machine()}, one of {os.cpu_count()} cores")
    if absent:
        printer.paragraph(f"not found: {', '.join(absent)} (see gradtape bench --help)")
    printer.paragraph("Best times in milliseconds, and as multiples of gradtape's. Shorter is better.")


def _measure(benchmarks: Any, options: Any, works: list[str], printer: Printer) -> dict[str, Any]:
    """Run the selected benchmarks, and show each result when it is available."""
    found, _ = benchmarks.libraries.find()
    columns = benchmarks.libraries.columns(found)
    names = [column.name for column in columns]
    if options.only:
        wanted = options.only.split(",")
        unknown = [name for name in wanted if name not in names]
        if unknown:
            raise UsageError(f"cannot measure {', '.join(unknown)}; choose from {', '.join(names)}")
        columns = [column for column in columns if column.name in wanted]
    report: dict[str, Any] = {"versions": {module: library.version for module, library in found.items()}, "times": {}}
    verdicts: list[Any] = []

    show = not options.json
    if show:
        absent = [peer for peer in benchmarks.libraries.PEERS if peer not in found]
        _introduce(report["versions"], absent, printer)
    races = [work for work in works if work in benchmarks.workloads.WORKS]
    others = [work for work in works if work not in races]
    with Progress(len(races) * len(columns) * (options.rounds + 1) + len(others), patience=0) as progress:
        for done, work in enumerate(races, 1):
            progress.say(f"{work}: {benchmarks.workloads.WORKS[work]}")
            times = benchmarks.race.race(
                work, columns, options.rounds, options.seconds, lambda name, work=work: progress.step(f"{work}: {name}")
            )
            progress.done = done * len(columns) * (options.rounds + 1)  # some libraries have no program for it
            progress.clear()
            report["times"][work] = times
            if show:
                _bars(work, benchmarks.workloads.WORKS[work], times, printer)
        verdicts += benchmarks.budgets.of_times(report["times"])
        if "import" in others:
            progress.step("import")
            report["import_seconds"] = benchmarks.import_time.over_numpy()
            verdicts.append(benchmarks.import_time.verdict(report["import_seconds"]))
        if "memory" in others:
            progress.step("memory")
            report["memory"] = benchmarks.memory.measure(found)
            verdicts += benchmarks.memory.verdicts(report["memory"])
    report["budgets"] = [verdict._asdict() for verdict in verdicts]
    return report


def _bars(work: str, what: str, times: dict[str, float], printer: Printer) -> None:
    """The times of one workload, fastest first: a bar, milliseconds, and the ratio to gradtape's time."""
    printer.line()
    printer.paragraph(f"{printer.style(work, 'bold')}  {what}", hanging=" " * (len(work) + 2))
    if not times:
        printer.line("  no library could run it")
        return
    mine, longest = times.get("gradtape"), max(times.values())
    name_width = max(map(len, times))
    width = max(min(printer.width, 100) - name_width - 26, 8)
    for name, seconds in sorted(times.items(), key=lambda item: item[1]):
        ours = name.startswith("gradtape")
        bar = printer.style(printer.bar(seconds / longest, width), "green" if ours else "cyan")
        ratio = "" if mine is None or name == "gradtape" else f"{_number(seconds / mine)} x"
        label = printer.style(name.ljust(name_width), *(["bold"] if ours else []))
        printer.line(f"  {label} {bar} {_number(seconds * 1e3):>6} ms {ratio:>8}".rstrip())


def _number(value: float) -> str:
    """Three digits that count.

    >>> _number(0.01234), _number(1.234), _number(123.4), _number(1234.5)
    ('0.0123', '1.23', '123', '1234')
    """
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def _budgets(verdicts: list[dict[str, Any]], printer: Printer) -> None:
    if not verdicts:
        return
    kept = sum(verdict["met"] for verdict in verdicts)
    printer.line()
    printer.line(f"budgets: {kept} of {len(verdicts)} met", "bold")
    rows = []
    for verdict in verdicts:
        mark = printer.style("met", "green") if verdict["met"] else printer.style("not met", "red")
        rows.append([verdict["what"], mark, f"{verdict['measured']} ({verdict['budget']})"])
    printer.table(rows)


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    benchmarks = _benchmarks()
    extras = {"import": "time of `import gradtape` after `import numpy`", "memory": "what a tape keeps in memory"}
    works = {**benchmarks.workloads.WORKS, **extras}
    listing = "workloads:\n" + "\n".join(f"  {name:<7} {what}" for name, what in works.items())

    parser = Parser("bench", DESCRIPTION, f"{listing}\n\n{PEERS}")
    parser.add_argument("work", nargs="*", metavar="WORK", help="what to measure (default: everything)")
    parser.add_argument("--rounds", type=positive(int), default=3, help="rounds for each library (default 3)")
    parser.add_argument(
        "--seconds", type=positive(float), default=0.3, help="duration of a round in seconds (default 0.3)"
    )
    parser.add_argument("--only", metavar="NAME,...", help="just these libraries")
    parser.add_argument("--json", action="store_true", help="print JSON instead of bars")
    options = parser.parse_args(arguments)
    unknown = [work for work in options.work if work not in works]
    if unknown:
        parser.error(f"no workload {', '.join(map(repr, unknown))}; choose from {', '.join(works)}")

    printer = Printer()
    requested = [work for work in works if not options.work or work in options.work]
    report = _measure(benchmarks, options, requested, printer)
    if options.json:
        print(json.dumps(report, indent=2))
        return 0
    if "memory" in report:
        printer.line()
        printer.line("memory", "bold")
        for line in benchmarks.memory.lines(report["memory"]):
            printer.paragraph(line, indent="  ", hanging="    ")
    _budgets(report["budgets"], printer)
    return 0
