"""How long an import takes, in fresh processes: python -m benchmarks.import_time [N]

`import gradtape` is measured over `import numpy`, in the same process: the numbers of a program that uses NumPy anyway.
Peers are measured whole. It is wall time with one BLAS thread; run it on a machine that has nothing else to do.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile

from benchmarks import budgets, libraries
from benchmarks.libraries import Library

_PROGRAM = """
import time
start = time.perf_counter(); {first}; middle = time.perf_counter(); {second}; end = time.perf_counter()
print(middle - start, end - middle)
"""


def _median(python: str, first: str, second: str, repeats: int) -> tuple[float, float]:
    """Medians of the times of two statements, in fresh processes after one that does not count.

    Byte code is kept in a folder of its own: a working copy may have none, where an installed package has.
    """
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    command = [python, "-c", _PROGRAM.format(first=first, second=second)]
    with tempfile.TemporaryDirectory() as folder:
        environment["PYTHONPYCACHEPREFIX"] = folder
        runs = [
            subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()[-2:]
            for _ in range(repeats + 1)
        ]
    return statistics.median(float(r[0]) for r in runs[1:]), statistics.median(float(r[1]) for r in runs[1:])


def over_numpy(python: str = sys.executable, repeats: int = 15) -> float:
    """Seconds that `import gradtape` takes after `import numpy`: the median of fresh processes."""
    return _median(python, "import numpy", "import gradtape", repeats)[1]


def whole(library: Library, repeats: int = 5) -> float:
    """Seconds that importing a library takes, all it needs included."""
    return _median(library.python, f"import {library.module}", "pass", repeats)[0]


def verdict(seconds: float) -> budgets.Verdict:
    """The import against its budget."""
    limit = budgets.IMPORT_SECONDS
    return budgets.Verdict(
        "import gradtape", f"<= {limit * 1e3:.0f} ms over import numpy", f"{seconds * 1e3:.1f} ms", seconds <= limit
    )


def main() -> None:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"import gradtape over import numpy: {over_numpy(repeats=repeats) * 1e3:.1f} ms")
    found, absent = libraries.find()
    for library in found.values():
        print(f"import {library.module:<11} {library.version:<12} {whole(library) * 1e3:8.1f} ms")
    for line in absent:
        print(line)


if __name__ == "__main__":
    main()
