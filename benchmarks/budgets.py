"""What gradtape promises about its speed and size: ratios to other libraries, never seconds (but for the import)."""

from __future__ import annotations

from typing import NamedTuple

WORK_BUDGETS: list[tuple[tuple[str, ...], str, float]] = [
    (("chain",), "numpy", 2),
    (("chain",), "torch", 1 / 2),
    (("chain",), "tensorflow", 1 / 20),
    (("mlp32", "mlp512"), "numpy", 1.1),
    (("rnn",), "numpy", 1.6),
    (("rnn",), "torch", 1),
    (("jac", "hess", "perex"), "tensorflow", 1 / 20),
    (("jac", "hess", "perex"), "torch", 1),
]
"""For these workloads gradtape's time is at most so many times that of the other library."""

COMPILED_OVER_JAX = 1.05
CALL_SECONDS = 30e-6
VIEWS_OFF = 1.02
IMPORT_SECONDS = 0.06
RECORD_BYTES = 400
LEFT_BYTES = 64  # less than any object of a record: what is measured below that is the measuring


class Verdict(NamedTuple):
    """One promise, what was measured, and whether it is kept."""

    what: str
    budget: str
    measured: str
    met: bool


def of_times(times: dict[str, dict[str, float]]) -> list[Verdict]:
    """The verdicts that a table of times (workload -> library -> seconds) allows."""
    verdicts = []
    for works, peer, limit in WORK_BUDGETS:
        for work in works:
            if "gradtape" in times.get(work, {}) and peer in times[work]:
                verdicts.append(_ratio(work, "gradtape", peer, limit, times[work]))
    for work, row in times.items():
        if "gradtape.function" in row and "jax.jit" in row:
            verdicts.append(_ratio(work, "gradtape.function", "jax.jit", COMPILED_OVER_JAX, row))
    return verdicts


def _ratio(work: str, mine: str, peer: str, limit: float, row: dict[str, float]) -> Verdict:
    ratio = row[mine] / row[peer]
    what = work if mine == "gradtape" else f"{work} under function"
    if limit < 1:
        return Verdict(what, f">= {1 / limit:g} x as fast as {peer}", f"{1 / ratio:.2f} x", ratio <= limit)
    if limit == 1:
        return Verdict(what, f"no slower than {peer}", f"{1 / ratio:.2f} x as fast", ratio <= limit)
    return Verdict(what, f"<= {limit:g} x the time of {peer}", f"{ratio:.2f} x", ratio <= limit)
