"""Checks inside programs: see arrays/checks.py.

While JAX traces a program, a collector gets a record from each check: its number if it failed, otherwise 0, and values.
Branches and loops return the records of their programs. The program returns the first record that is not 0: only the
number or, for the error message, also the values that the check read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradtape._src.arrays.refusals import refusals
from gradtape._src.interrupts import contextmanager, setting

Array = Any
Record = tuple[Array, ...]
"""The number of a failed check, or 0, and the values that it read."""


class Collector:
    """Selects the checks to make: all, only assertions, or the one whose values are wanted."""

    def __init__(self, assertions_only: bool = False, number: int | None = None) -> None:
        self.assertions_only, self.number = assertions_only, number
        self.records: list[Record] = []

    def takes(self, rule: Any, number: int) -> bool:
        return number == self.number if self.number is not None else rule.always or not self.assertions_only

    def add(self, number: int, failed: Array, values: tuple[Array, ...]) -> None:
        code = jnp.where(failed, jnp.int32(number), jnp.int32(0))
        self.records.append((code, *values) if self.number is not None else (code,))

    def watches(self, program: Any) -> bool:
        """Whether a program has a selected check."""
        return any(self.takes(rule, number) for number, (rule, _) in program.checks.items())


_collector: ContextVar[Collector | None] = ContextVar("gradtape_checks", default=None)


def check(*arrays: Array, rule: Any, number: int, params: tuple[Any, ...]) -> Array:
    """Make a check, if checks are collected; return the first array."""
    collector = _collector.get()
    if collector is not None and collector.takes(rule, number):
        values = tuple(map(jnp.asarray, arrays))
        collector.add(number, jnp.any(rule.fails(jnp, *values, **dict(params))), values)
    return arrays[0]


def refuse(kernel: str, failed: Array) -> None:
    """Make the check of a kernel that validates its input while it computes: the input is rejected where `failed`."""
    number, rule = refusals[kernel]
    if not isinstance(failed, jax.core.Tracer):
        if np.any(found := np.asarray(failed)):
            raise rule.error(found)
        return
    collector = _collector.get()
    if collector is not None and collector.takes(rule, number):
        failed = jnp.any(failed)
        collector.add(number, failed, (failed,))


def explaining() -> bool:
    """Whether the program runs again for the values of an error message."""
    collector = _collector.get()
    return collector is not None and collector.number is not None


@contextmanager
def collecting(collector: Collector) -> Iterator[list[Record]]:
    """Context in which checks add records to this collector."""
    with setting(_collector, collector):
        yield collector.records


def first(records: Sequence[Record]) -> Record:
    """The first record of a check that failed."""
    return reduce(lambda a, b: tuple([jnp.where(a[0] != 0, x, y) for x, y in zip(a, b, strict=True)]), records)


# -- programs within programs ----------------------------------------------------------------------------------------
def watched(*programs: Any) -> bool:
    """Whether one of these programs has a selected check."""
    collector = _collector.get()
    return collector is not None and any(map(collector.watches, programs))


def collected(function: Callable[[], Any]) -> tuple[Any, Record | None]:
    """The result of a function, and the record of its first failed check; None if it has no checks."""
    outer = _collector.get()
    assert outer is not None
    with collecting(Collector(outer.assertions_only, outer.number)) as records:
        result = function()
    return result, first(records) if records else None


def report(record: Record) -> None:
    """Add the record of the checks in a branch or a loop."""
    outer = _collector.get()
    assert outer is not None
    outer.records.append(record)


def nothing_like(*functions: Callable[[], Any]) -> Record:
    """The record of checks that hold, with the structure of that of these functions."""
    if not explaining():
        return (jnp.int32(0),)
    for function in functions:
        specs = jax.eval_shape(lambda function=function: collected(function)[1])
        if specs is not None:
            return tuple([jnp.zeros(spec.shape, spec.dtype) for spec in specs])
    raise AssertionError("none of the functions has the check")
