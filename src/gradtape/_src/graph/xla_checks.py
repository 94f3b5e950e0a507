"""Checks of values in programs of XLA: how a program makes them, and the error when one fails.

See arrays/checks.py. A program with checks has one more result, the number of the first check that failed, and the
caller compares it with 0: that is all that values in range cost. If a check failed every variable keeps its old value:
those whose memory the program was given get back what they had. Then a second program, compiled when a check fails for
the first time, computes the values that the check looked at, and the error is made of them.
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
    """The replay of a program with its checks: its results and the number of the first check that failed, or 0."""

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
    """The nodes that the checks need, which come first, and all others. Effects stay in their order."""
    needed = leading_to(program.nodes, lambda node: bool(checks_of(node)))
    if program.has_effects:
        last = max(i for i, node in enumerate(program.nodes) if id(node) in needed)
        return program.nodes[: last + 1], program.nodes[last + 1 :]
    return (
        [node for node in program.nodes if id(node) in needed],
        [node for node in program.nodes if id(node) not in needed],
    )


class _Updates:
    """The functions of the XLA engine, where updates of a few rows of a variable change nothing if a check failed.

    XLA makes such an update in the memory of the old value. To choose between the new value and the old one afterwards
    would take a copy of all rows.
    """

    def __init__(self, program: Any, nodes: Sequence[Node], failed: Any) -> None:
        self._failed = failed
        makers = {id(out): node for node in nodes for out in node.outputs}
        self.in_place = set()
        """The outputs of the program that are variables with such updates alone."""
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
        """The indices or, if a check failed, some that are outside of any array: XLA leaves such updates out."""
        wide = jnp.asarray(indices)
        wide = wide.astype(jnp.int32) if wide.dtype.itemsize < 4 else wide
        return jnp.where(self._failed, np.iinfo(wide.dtype).max, wide)


# -- errors ----------------------------------------------------------------------------------------------------------
def explaining(program: Any, number: int) -> Callable[..., Record]:
    """The part of a program that leads to a check: its number, if it fails, and the values that it looks at."""
    needed = leading_to(program.nodes, lambda node: number in checks_of(node))
    nodes = [node for node in program.nodes if id(node) in needed]

    def run(*arrays: Any) -> Record:
        env = program.environment(arrays)
        with collecting(Collector(number=number)) as records:
            evaluate(nodes, env, xla_namespace)
        return first(records)

    return run


def failure(program: Any, number: int, arrays: Sequence[Any], batched: Sequence[bool] = ()) -> Exception:
    """The error of a check that failed in a run on these arrays, of which some are rows of a batch."""
    rule, params = program.checks[number]
    found, *values = map(np.asarray, program.xla.explaining(number, tuple(batched))(*arrays))
    if any(batched):
        row = int(np.argmax(found != 0))
        found, values = found[row], [value[row] for value in values]
    if not found:  # it failed on a value that is another one now: a Python function in the program has given it
        return errors.invalid_argument("A check of the values failed", program.name)
    return rule.error(*values, **params)
