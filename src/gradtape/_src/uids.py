"""Numbers that identify tensors and variables: never used twice, and growing with time."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

uids: Iterator[int] = itertools.count(1)
"""The hot path takes the next one without a function in between."""

next_uid: Callable[[], int] = uids.__next__

CONSTANT = 0
"""The uid of tensors made from Python or NumPy operands: a program never sees one, so no tape can watch it."""
