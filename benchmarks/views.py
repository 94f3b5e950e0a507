"""What the views (profile, explain, pictures, numerics) cost while nobody looks: python -m benchmarks.views [WORK...]

The same workloads run with gradtape as it is, and with the hooks that views hang on taken out of its source, in turns.
"""

from __future__ import annotations

import sys

from benchmarks import budgets, libraries
from benchmarks.race import race

WORKS = ("chain", "rnn")


def measure(works: tuple[str, ...] = WORKS, rounds: int = 9, seconds: float = 0.4) -> dict[str, dict[str, float]]:
    """Workload -> with and without hooks -> seconds."""
    found, _ = libraries.find()
    columns = [found["gradtape"], found["gradtape"]._replace(name="gradtape.bare")]
    return {work: race(work, columns, rounds, seconds) for work in works}


def verdicts(measured: dict[str, dict[str, float]]) -> list[budgets.Verdict]:
    """The ratios against their budget."""
    limit, found = budgets.VIEWS_OFF, []
    for work, row in measured.items():
        ratio = row["gradtape"] / row["gradtape.bare"]
        what = f"{work}, views off"
        found.append(budgets.Verdict(what, f"<= {limit:g} x without hooks", f"{ratio:.3f} x", ratio <= limit))
    return found


def lines(measured: dict[str, dict[str, float]]) -> list[str]:
    """The numbers as text."""
    return [
        f"{work}: {row['gradtape'] * 1e3:.3f} ms with the hooks of views, {row['gradtape.bare'] * 1e3:.3f} ms without"
        for work, row in measured.items()
    ]


def main() -> None:
    measured = measure(tuple(sys.argv[1:]) or WORKS)
    print("\n".join(lines(measured)))
    for verdict in verdicts(measured):
        print(f"{verdict.what}: {verdict.measured} ({verdict.budget}: {'met' if verdict.met else 'not met'})")


if __name__ == "__main__":
    main()
