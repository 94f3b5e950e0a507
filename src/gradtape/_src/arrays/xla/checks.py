"""Checks inside of programs: see arrays/checks.py.

While JAX traces a program, a collector takes what its checks find: a record for each, whose first element is the number
of the check where it failed and 0 where it did not. Branches and loops hand the records of their programs on. The
program returns the first record that is not 0: the number alone or, for the error message, with the values that the
check looked at.
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
"""The number of the check that failed, or 0, and values that it looked at."""


class Collector:
    """Which checks are made: all, assertions alone, or one, whose values are wanted."""

    def __init__(self, assertions_only: bool = False, number: int | None = None) -> None:
        self.assertions_only, self.number = assertions_only, number
        self.records: list[Record] = []

    def takes(self, rule: Any, number: int) -> bool:
        return number == self.number if self.number is not None else rule.always or not self.assertions_only

    def add(self, number: int, failed: Array, values: tuple[Array, ...]) -> None:
        code = jnp.where(failed, jnp.int32(number), jnp.int32(0))
        self.records.append((code, *values) if self.number is not None else (code,))

    def watches(self, program: Any) -> bool:
        """Whether one of the checks is in a program."""
        return any(self.takes(rule, number) for number, (rule, _) in program.checks.items())


_collector: ContextVar[Collector | None] = ContextVar("gradtape_checks", default=None)


def check(*arrays: Array, rule: Any, number: int, params: tuple[Any, ...]) -> Array:
    """The first array, after a check, if checks are collected."""
    collector = _collector.get()
    if collector is not None and collector.takes(rule, number):
        values = tuple(map(jnp.asarray, arrays))
        collector.add(number, jnp.any(rule.fails(jnp, *values, **dict(params))), values)
    return arrays[0]


def refuse(kernel: str, failed: Array) -> None:
    """Make the check of a kernel that finds out about its input on the way: where `failed`, the input is refused."""
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
    """Whether the program runs a second time, for the values of an error message."""
    collector = _collector.get()
    return collector is not None and collector.number is not None


@contextmanager
def collecting(collector: Collector) -> Iterator[list[Record]]:
    """Within the block checks go to this collector."""
    with setting(_collector, collector):
        yield collector.records


def first(records: Sequence[Record]) -> Record:
    """The first record of a check that failed."""
    return reduce(lambda a, b: tuple([jnp.where(a[0] != 0, x, y) for x, y in zip(a, b, strict=True)]), records)


# -- programs within programs ----------------------------------------------------------------------------------------
def watched(*programs: Any) -> bool:
    """Whether one of these programs has a check that is collected."""
    collector = _collector.get()
    return collector is not None and any(map(collector.watches, programs))


def collected(function: Callable[[], Any]) -> tuple[Any, Record | None]:
    """What a function returns, and the first record of a check in it that failed; None where it has no checks."""
    outer = _collector.get()
    assert outer is not None
    with collecting(Collector(outer.assertions_only, outer.number)) as records:
        result = function()
    return result, first(records) if records else None


def report(record: Record) -> None:
    """Hand on what the checks of a branch or a loop found."""
    outer = _collector.get()
    assert outer is not None
    outer.records.append(record)


def nothing_like(*functions: Callable[[], Any]) -> Record:
    """The record of checks that hold, in the form of the one that some of these functions give."""
    if not explaining():
        return (jnp.int32(0),)
    for function in functions:
        specs = jax.eval_shape(lambda function=function: collected(function)[1])
        if specs is not None:
            return tuple([jnp.zeros(spec.shape, spec.dtype) for spec in specs])
    raise AssertionError("none of the functions has the check")
