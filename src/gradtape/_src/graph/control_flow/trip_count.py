"""The number of iterations of a loop that only counters control: such a loop becomes a scan."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.checks import Interval
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.graph.program import Program
from gradtape._src.graph.traced import Traced
from gradtape._src.tensor import Tensor

_SIMULATED = 20_000
_SCANNED_BYTES = 2**28
"""The memory for the carries of all iterations up to which a loop is treated as one of known length."""

_GUESSED_BYTES = 2**20
"""The assumed size of tensors with unknown dimensions."""


def trip_count(
    test: Traced, body: Traced, carry: Sequence[Tensor], limit: int | None
) -> tuple[int | None, dict[int, Interval]]:
    """The number of iterations of a loop whose test depends on counters alone; otherwise None.

    Also the interval of each counter, by its position in the carry.
    """
    condition = Program(test.graph, test.symbols, [t.array for t in test.outputs])
    updates = _updates(condition, body)
    known = [x for program in (condition, *updates.values()) for x in program.others()]
    known += [carry[i].array for i in updates]
    if any(type(x) is not np.ndarray or x.size > 64 for x in known):
        return None, {}
    most = min(_SIMULATED, _SCANNED_BYTES // max(carried_bytes(carry), 1))
    try:
        return _simulated(condition, updates, carry, most, limit)
    except (AttributeError, ValueError, TypeError):  # a function that exists only in programs
        return None, {}


def _updates(condition: Program, body: Traced) -> dict[int, Program]:
    """The programs that update the values that a condition depends on, directly or through others."""
    updates: dict[int, Program] = {}
    pending = {number - 1 for number in condition.explicit() if number}
    while pending:
        i = pending.pop()
        updates[i] = program = Program(body.graph, body.symbols, [body.outputs[i].array])
        pending |= {number - 1 for number in program.explicit() if number} - updates.keys()
    return updates


def _simulated(
    condition: Program, updates: dict[int, Program], carry: Sequence[Tensor], most: int, limit: int | None
) -> tuple[int | None, dict[int, Interval]]:
    """Run the counters of a loop on NumPy: the number of iterations, None if it is too large, and their intervals."""
    others = {i: program.others() for i, program in updates.items()}
    captured = condition.others()
    values = {i: carry[i].array for i in updates}
    counted: dict[int, Interval] = {}
    given: list[Any] = [None] * (len(carry) + 1)
    for iteration in range(most + 1):
        given[0] = np.asarray(iteration, np.int32)
        for i, value in values.items():
            given[i + 1] = value
        goes_on = condition.invoke(given, captured, numpy_namespace)[0]
        if (limit is not None and iteration >= limit) or not np.all(goes_on):
            return iteration, counted
        for i, value in values.items():
            if value.dtype.kind in "iu" and value.size:
                low, high = counted.get(i, (int(value.min()), int(value.max())))
                counted[i] = min(low, int(value.min())), max(high, int(value.max()))
        values = {i: program.invoke(given, others[i], numpy_namespace)[0] for i, program in updates.items()}
    return None, {}


def carried_bytes(carry: Sequence[Tensor]) -> int:
    """The size of the carry in bytes."""
    size = sum(t.array.size * t.array.dtype.itemsize for t in carry)
    return _GUESSED_BYTES if is_dimension(size) else size
