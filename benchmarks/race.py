"""The race: every library does the same work, in turns, each in its own process on the same core."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.libraries import Library

ROOT = Path(__file__).parent.parent
TOLERANCE = 1e-4
"""How far a result may be from the first library's, relative to its largest number (float32, other orders of sums)."""


# One thread for everybody: thread pools that wait for each other on a busy machine would measure the neighbours, and
# work per core is what the ratios compare. Libraries read these when they are loaded.
_ALONE = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    **dict.fromkeys(("TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"), "1"),
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "CUDA_VISIBLE_DEVICES": "",
    "JAX_PLATFORMS": "cpu",
}


_REMOVED = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE")
"""Variables that choose slower kernels than the processor has, for NumPy's BLAS and not for that of the peers."""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _REMOVED} | _ALONE


class Runner:
    """A worker process that waits for its turn."""

    def __init__(self, library: Library, work: str, results: Path, seconds: float) -> None:
        self.library, self.results = library, results
        command = [library.python, "-m", "benchmarks.worker", library.name, work, str(results), str(seconds)]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=_environment(),
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        answer = self._answer()
        self.missing: str | None = answer.get("missing")

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return json.loads(line) if line else {"missing": f"the process ended with status {self.process.wait()}"}

    def turn(self) -> float:
        """Run for a while; the best time in seconds."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        answer = self._answer()
        if "seconds" not in answer:
            raise SystemExit(f"{self.library.name} gave up in the middle: {answer.get('missing')}")
        return float(answer["seconds"])

    def end(self) -> None:
        """Let the process go: it ends when there are no more lines to read."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()


def race(
    work: str, libraries: list[Library], rounds: int, seconds: float, tell: Callable[[str], None] = lambda library: None
) -> dict[str, float]:
    """The best time of each library in seconds, after a check that all of them compute the same.

    `tell` hears the name of a library when it is started, and after each of its turns.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        runners = []
        for i, library in enumerate(libraries):
            tell(library.name)
            runner = Runner(library, work, Path(folder) / f"{i}.npz", seconds)
            stack.callback(runner.end)
            if runner.missing is None:
                runners.append(runner)
            elif not runner.missing.startswith("no program"):
                print(f"{library.name} is left out of {work}: {runner.missing}", file=sys.stderr)
        _check_agreement(work, runners)
        best: dict[str, float] = {}
        for _ in range(rounds):
            for runner in runners:
                best[runner.library.name] = min(runner.turn(), best.get(runner.library.name, float("inf")))
                tell(runner.library.name)
    return best


def _check_agreement(work: str, runners: list[Runner]) -> None:
    results = {r.library.name: list(np.load(r.results).values()) for r in runners}
    if not results:
        return
    reference, expected = next(iter(results.items()))
    for name, found in results.items():
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            if a.shape != b.shape:
                raise SystemExit(f"{work}: result {i} has shape {a.shape} with {name}, {b.shape} with {reference}")
            error = np.max(np.abs(a - b), initial=0) / max(float(np.max(np.abs(b), initial=0)), 1e-30)
            if not error <= TOLERANCE:
                raise SystemExit(f"{work}: result {i} of {name} is off by {error:.1e} from that of {reference}")
