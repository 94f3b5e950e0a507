"""python -m benchmarks [WORK...]: the tables. Nothing is asserted: a budget that is missed is a line that says so."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from typing import Any

from benchmarks import budgets, call_overhead, import_time, libraries, memory, views
from benchmarks.race import race
from benchmarks.workloads import WORKS

EXTRAS = {
    "import": "time of `import gradtape` over `import numpy`",
    "memory": "what a tape keeps in memory",
    "call": "call of a compiled function with 100 variables, over `jax.jit`",
    "views": "what the hooks of views cost while nobody looks",
}


def _arguments() -> argparse.Namespace:
    listing = "\n".join(f"  {name:<7} {text}" for name, text in {**WORKS, **EXTRAS}.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure gradtape beside its peers, and against its budgets.",
        epilog=f"workloads:\n{listing}\n\n{libraries.__doc__}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("work", nargs="*", metavar="WORK", help="what to measure (all if none is named)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each library (default 5); the best one counts")
    parser.add_argument("--seconds", type=float, default=0.5, help="how long one turn lasts (default 0.5)")
    parser.add_argument("--only", metavar="LIBRARY,...", help="just these columns, gradtape among them")
    parser.add_argument("--json", metavar="FILE", help="write all numbers to a file too (- for standard output)")
    arguments = parser.parse_args()
    unknown = [w for w in arguments.work if w not in WORKS and w not in EXTRAS]
    if unknown:
        parser.error(f"no such workload: {', '.join(unknown)}; there are {', '.join([*WORKS, *EXTRAS])}")
    return arguments


def _table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    print(f"\n{title}")
    for row in [heads, *rows]:
        cells = [
            cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def _show_times(times: dict[str, dict[str, float]], names: list[str]) -> None:
    rows = [[w] + [f"{row[n] * 1e3:.3f}" if n in row else "-" for n in names] for w, row in times.items()]
    _table("best times in milliseconds", ["", *names], rows)
    for mine in ("gradtape", "gradtape.numpy", "gradtape.xla", "gradtape.function"):
        others = [n for n in names if n != mine]
        rows = [
            [w] + [f"{row[n] / row[mine]:.2f}" if n in row else "-" for n in others]
            for w, row in times.items()
            if mine in row
        ]
        if rows and others:
            _table(f"{mine} is so many times as fast as", ["", *others], rows)


def main() -> None:
    arguments = _arguments()
    found, absent = libraries.find()
    columns = libraries.columns(found)
    if arguments.only:
        wanted = arguments.only.split(",")
        columns = [c for c in columns if c.name in wanted]
    print("  ".join(f"{library.module} {library.version}" for library in found.values()))
    print(f"Python {platform.python_version()}, {platform.machine()}, one of {os.cpu_count()} cores, one thread")
    for line in absent:
        print(line)
    asked = arguments.work or [*WORKS, *EXTRAS]
    report: dict[str, Any] = {"versions": {m: library.version for m, library in found.items()}, "times": {}}
    verdicts: list[budgets.Verdict] = []
    for work in asked:
        if work in WORKS:
            print(f"... {work}: {WORKS[work]}", file=sys.stderr)
            report["times"][work] = race(work, columns, arguments.rounds, arguments.seconds)
    if report["times"]:
        _show_times(report["times"], [c.name for c in columns])
        verdicts += budgets.of_times(report["times"])
    if "import" in asked:
        report["import_seconds"] = import_time.over_numpy()
        verdicts.append(import_time.verdict(report["import_seconds"]))
    if "memory" in asked:
        report["memory"] = memory.measure(found)
        print("\nmemory\n" + "\n".join(memory.lines(report["memory"])))
        verdicts += memory.verdicts(report["memory"])
    if "call" in asked and "jax" in found and found["jax"].python == sys.executable:
        report["call_seconds"] = call_overhead.measure()
        print(f"\n{call_overhead.line(report['call_seconds'])}")
        verdicts.append(call_overhead.verdict(report["call_seconds"]))
    if "views" in asked:
        report["views"] = views.measure()
        print("\n" + "\n".join(views.lines(report["views"])))
        verdicts += views.verdicts(report["views"])
    if verdicts:
        rows = [[v.what, v.budget, v.measured, "met" if v.met else "not met"] for v in verdicts]
        _table("budgets", ["", "budget", "measured", ""], rows)
    if arguments.json:
        report["budgets"] = [v._asdict() for v in verdicts]
        text = json.dumps(report, indent=2)
        if arguments.json == "-":
            print(text)
        else:
            with open(arguments.json, "w", encoding="utf-8") as file:
                file.write(text + "\n")


if __name__ == "__main__":
    main()
