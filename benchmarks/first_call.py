"""How long the first call of a function takes: python -m benchmarks.first_call [WORK...]

Each library has a process of its own for each workload. `eager` is the step without `tf.function`, after a first one;
`first` is the first call under `tf.function`, tracing included, without the import of the library. XLA alone is what
`jit_compile=True` does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

from benchmarks import libraries
from benchmarks.workloads import WORKS

_PROGRAM = """
import json, sys, time
from benchmarks.workloads import build
library, name = sys.argv[1:]
work = build(library, name)
start = time.perf_counter()
work.step()
first = time.perf_counter() - start
times = []
for _ in range(5):
    start = time.perf_counter()
    work.step()
    times.append(time.perf_counter() - start)
print(json.dumps([first, min(times)]))
"""


def _times(python: str, library: str, work: str) -> tuple[float, float] | None:
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "GRADTAPE_CACHE": "off"}
    command = [python, "-c", _PROGRAM, library, work]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        return None
    first, best = json.loads(done.stdout.splitlines()[-1])
    return first, best


def main() -> None:
    found, _ = libraries.find()
    print(f"{'milliseconds':<10}{'eager':>10}{'first':>10}{'first, XLA':>12}{'TensorFlow':>12}")
    for work in sys.argv[1:] or WORKS:
        here = found["gradtape"].python
        eager, auto, xla = (_times(here, name, work) for name in ("gradtape", "gradtape.function", "gradtape.xla"))
        peer = _times(found["tensorflow"].python, "tensorflow.function", work) if "tensorflow" in found else None
        cells = [eager and eager[1], auto and auto[0], xla and xla[0], peer and peer[0]]
        texts = ["-" if cell is None else f"{cell * 1e3:.1f}" for cell in cells]
        print(f"{work:<10}  {texts[0]:>10}{texts[1]:>10}{texts[2]:>12}{texts[3]:>12}")


if __name__ == "__main__":
    main()
