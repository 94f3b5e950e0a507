"""Numbers that identify tensors and variables: unique, and increasing with time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

uids: Iterator[int] = itertools.count(1)
"""The hot path takes the next one without a Python call."""

next_uid: Callable[[], int] = uids.__next__

CONSTANT = 0
"""The uid of tensors made from Python or NumPy operands, which no program has access to, so no tape can watch them."""
