"""The best time of a call: measure on a quiet machine, and on one core (`taskset -c 0`) to compare programs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best(call: Callable[[], Any], seconds: float = 2.0) -> float:
    """The least seconds of a call among those of some seconds, after a first one that does not count.

    Not processor seconds: systems charge those of other threads late, so that compiled calls seem faster than they are.
    """
    call()
    end, least = time.perf_counter() + seconds, float("inf")
    while time.perf_counter() < end or least == float("inf"):
        began = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - began)
    return least
