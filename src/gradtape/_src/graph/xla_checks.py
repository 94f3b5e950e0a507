"""Checks of values in XLA programs: how a program makes them, and the error when one fails.

See arrays/checks.py. A program with checks has one more result, the number of the first check that failed, which the
caller compares with 0: values in range cost no more. If a check failed, every variable keeps its old value: variables
whose memory was donated get it back. Then another program, compiled when a check fails for the first time, computes the
values that the check read, from which the error is made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from gradtape._src import errors
from gradtape._src.arrays.numpy.state import filled_index
from gradtape._src.arrays.symbolic import Node
from gradtape._src.arrays.xla import xla_namespace
from gradtape._src.arrays.xla.checks import Collector, Record, collecting, first
from gradtape._src.graph.checks import ASSERTIONS, Mode, checks_of, leading_to
from gradtape._src.graph.replay import evaluate


def checked(program: Any, mode: Mode) -> Callable[..., Any]:
    """The replay of a program with its checks: its results, and the number of the first check that failed, or 0."""

    def run(*arrays: Any) -> tuple[Any, ...]:
        env = program.environment(arrays)
        with collecting(Collector(assertions_only=mode is ASSERTIONS)) as records:
            if not program.restored:
                evaluate(program.nodes, env, xla_namespace)
                return (*program.results(env, xla_namespace), _number(records))
            before, after = _split(program)
            evaluate(before, env, xla_namespace)
            number = _number(records)
            failed = number != 0
            updates = _Updates(program, after, failed)
            evaluate(after, env, updates)
        results = list(program.results(env, xla_namespace))
        for position, slot in program.restored:
            if position not in updates.in_place:
                results[position] = jnp.where(failed, arrays[slot], results[position])
        return (*results, number)

    return run


def _number(records: Sequence[Record]) -> Any:
    return first(records)[0]


def _split(program: Any) -> tuple[list[Node], list[Node]]:
    """The nodes that the checks need, which run first, and all others. Effects keep their order."""
    needed = leading_to(program.nodes, lambda node: bool(checks_of(node)))
    if program.has_effects:
        last = max(i for i, node in enumerate(program.nodes) if id(node) in needed)
        return program.nodes[: last + 1], program.nodes[last + 1 :]
    return (
        [node for node in program.nodes if id(node) in needed],
        [node for node in program.nodes if id(node) not in needed],
    )


class _Updates:
    """The functions of the XLA engine, with updates of a few rows of a variable that do nothing if a check failed.

    XLA updates the rows in the memory of the old value. Choosing between the new and the old value afterwards would
    take a copy of all rows.
    """

    def __init__(self, program: Any, nodes: Sequence[Node], failed: Any) -> None:
        self._failed = failed
        makers = {id(out): node for node in nodes for out in node.outputs}
        self.in_place = set()
        """The outputs of the program that are variables whose only changes are such updates."""
        for position, slot in program.restored:
            symbol, old = program.outputs[position], program.feeds[slot].symbol
            while id(symbol) in makers and makers[id(symbol)].name in ("update_at", "replace_nd", "set_slice"):
                symbol = makers[id(symbol)].args[0]
            if symbol is old:
                self.in_place.add(position)

    def __getattr__(self, name: str) -> Any:
        return getattr(xla_namespace, name)

    def update_at(self, x: Any, indices: Any, updates: Any, **attrs: Any) -> Any:
        return xla_namespace.update_at(x, self._outside(indices), updates, **attrs)

    def replace_nd(self, x: Any, updates: Any, indices: Any) -> Any:
        return xla_namespace.replace_nd(x, updates, self._outside(indices))

    def set_slice(self, x: Any, part: Any, *positions: Any, index: Any) -> Any:
        old = jnp.asarray(x)[filled_index(index, positions)]
        return xla_namespace.set_slice(x, jnp.where(self._failed, old, part), *positions, index=index)

    def _outside(self, indices: Any) -> Any:
        """The indices or, if a check failed, indices out of range: XLA skips such updates."""
        wide = jnp.asarray(indices)
        wide = wide.astype(jnp.int32) if wide.dtype.itemsize < 4 else wide
        return jnp.where(self._failed, np.iinfo(wide.dtype).max, wide)


# -- errors ----------------------------------------------------------------------------------------------------------
def explaining(program: Any, number: int) -> Callable[..., Record]:
    """The part of a program that leads to a check: returns its number, if it fails, and the values that it reads."""
    needed = leading_to(program.nodes, lambda node: number in checks_of(node))
    nodes = [node for node in program.nodes if id(node) in needed]

    def run(*arrays: Any) -> Record:
        env = program.environment(arrays)
        with collecting(Collector(number=number)) as records:
            evaluate(nodes, env, xla_namespace)
        return first(records)

    return run


def failure(program: Any, number: int, arrays: Sequence[Any], batched: Sequence[bool] = ()) -> Exception:
    """The error of a check that failed in a run on these arrays, some of which may be batches."""
    rule, params = program.checks[number]
    found, *values = map(np.asarray, program.xla.explaining(number, tuple(batched))(*arrays))
    if any(batched):
        row = int(np.argmax(found != 0))
        found, values = found[row], [value[row] for value in values]
    if not found:  # a Python function in the program has returned another value this time
        return errors.invalid_argument("A check of the values failed", program.name)
    return rule.error(*values, **params)
