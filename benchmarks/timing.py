"""The best time of a call: measure on a quiet machine, and on one core (`taskset -c 0`) to compare programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FEWEST = 5


def best(call: Callable[[], Any], seconds: float = 2.0) -> float:
    """The least seconds of a call among those of some seconds, and of five at least if there is time for them.

    A first call does not count.

    Not processor seconds: systems charge those of other threads late, so that compiled calls seem faster than they are.
    """
    call()
    began, least, calls = time.perf_counter(), float("inf"), 0
    while not calls or time.perf_counter() - began < (seconds if calls >= FEWEST else 5.0 * seconds):
        start = time.perf_counter()
        call()
        least, calls = min(least, time.perf_counter() - start), calls + 1
    return least
