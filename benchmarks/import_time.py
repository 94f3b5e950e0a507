"""How long an import takes, in fresh processes: python -m benchmarks.import_time [N]

`import gradtape` is measured over `import numpy`, in the same process: the numbers of a program that uses NumPy anyway.
Peers are measured whole.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks import budgets, libraries
from benchmarks.libraries import Library

_PROGRAM = """
import time
start = time.perf_counter(); {first}; middle = time.perf_counter(); {second}; end = time.perf_counter()
print(middle - start, end - middle)
"""


def _once(python: str, first: str, second: str) -> tuple[float, float]:
    program = _PROGRAM.format(first=first, second=second)
    run = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    before, after = map(float, run.stdout.split()[-2:])
    return before, after


def over_numpy(python: str = sys.executable, repeats: int = 15) -> float:
    """Seconds that `import gradtape` takes after `import numpy`: the median of fresh processes."""
    return statistics.median(_once(python, "import numpy", "import gradtape")[1] for _ in range(repeats))


def whole(library: Library, repeats: int = 5) -> float:
    """Seconds that importing a library takes, all it needs included."""
    return statistics.median(_once(library.python, f"import {library.module}", "pass")[0] for _ in range(repeats))


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
