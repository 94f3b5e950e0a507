"""The best processor time of a call: for programs of one thread, on a machine that may do other things too."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best(call: Callable[[], Any], seconds: float = 2.0) -> float:
    """The least processor seconds of a call among those of some seconds, after a first one that does not count."""
    call()
    end, least = time.process_time() + seconds, float("inf")
    while time.process_time() < end or least == float("inf"):
        began = time.process_time()
        call()
        least = min(least, time.process_time() - began)
    return least
