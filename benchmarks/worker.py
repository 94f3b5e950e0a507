"""One workload of one library in a process of its own: python -m benchmarks.worker LIBRARY WORK RESULTS SECONDS

Writes what the workload computes to the file RESULTS, says "ready", and then times the workload for SECONDS whenever it
reads a line. Answers are lines of JSON. Started by `benchmarks.race`.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.workloads import build


def measure(step: Callable[[], Any], seconds: float) -> tuple[float, int]:
    """The best time of a step, in seconds, and how many times it ran."""
    best, runs, end = float("inf"), 0, time.perf_counter() + seconds
    while runs < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        step()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best, runs


def settle(library: str, step: Callable[[], Any]) -> None:
    """Call a step until its functions run where they will stay: XLA compiles in the background, and is then tried."""
    if library != "gradtape.function":
        return
    from gradtape._src.graph.tiers import wait_for_compiler

    for _ in range(2):  # the second program of a function is compiled once the first one has been
        measure(step, 1.0)
        wait_for_compiler()
        measure(step, 0.3)


def main() -> None:
    library, name, results, seconds = sys.argv[1:]
    if hasattr(os, "sched_setaffinity"):  # not on every system
        os.sched_setaffinity(0, {int(os.environ.get("BENCH_CORE", max(os.sched_getaffinity(0))))})
    answers, sys.stdout = sys.stdout, sys.stderr  # whatever a library prints is no answer

    def say(**answer: Any) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    try:
        work = build(library, name)
        if work is None:
            return say(missing=f"no program for {name}")
        np.savez(results, *work.result())
        work.step()
        settle(library, work.step)
    except Exception as error:
        return say(missing=f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
    say(ready=True)
    for _ in sys.stdin:
        best, runs = measure(work.step, float(seconds))
        say(seconds=best, runs=runs)
    return None


if __name__ == "__main__":
    main()
