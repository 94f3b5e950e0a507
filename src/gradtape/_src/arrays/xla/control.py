"""Branches and loops of programs, as XLA control flow.

A program here is anything with `invoke(given, others)`: arrays for its explicit inputs, and captured values.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import io_callback

from gradtape._src.arrays.xla import checks
from gradtape._src.arrays.xla.checks import check as check  # a kernel as those below

Array = Any


def inline(*operands: Array, program: Any) -> tuple[Array, ...]:
    """Run a program that is inlined into another one."""
    return tuple(program.replay(*operands))


def switch(index: Array, *operands: Array, branches: Sequence[Any], splits: Sequence[int], **_: Any) -> Any:
    """Run one of several programs; an index out of range selects the nearest one."""
    starts = [sum(splits[:i]) for i in range(len(splits))]

    def branch(number: int) -> Callable[[], Any]:
        mine = operands[starts[number] : starts[number] + splits[number]]
        return lambda: tuple(branches[number].invoke((), mine))

    functions = [branch(i) for i in range(len(branches))]
    index = jnp.asarray(index, jnp.int32)
    if not checks.watched(*branches):
        return tuple(lax.switch(index, functions))
    nothing = checks.nothing_like(*functions)

    def with_record(function: Callable[[], Any]) -> Callable[[], Any]:
        def run() -> Any:
            results, record = checks.collected(function)
            return results, nothing if record is None else record

        return run

    results, record = lax.switch(index, [with_record(function) for function in functions])
    checks.report(record)
    return tuple(results)


def scan(*operands: Array, body: Any, carried: int, scanned: int, length: Any, reverse: bool, **_: Any) -> Any:
    """Run a program over the rows of some operands, with `carried` values; its other results are stacked."""
    start, rows, others = operands[:carried], operands[carried : carried + scanned], operands[carried + scanned :]

    def step(state: Any, row: Any) -> Any:
        iteration, carry, record = state
        invoke = lambda: body.invoke((iteration, *carry, *row[:scanned]), others)  # noqa: E731
        results, record = _recorded(invoke, record)
        return (iteration + 1, tuple(results[:carried]), record), tuple(results[carried:])

    rows = tuple(map(jnp.asarray, rows))
    first = tuple(map(jnp.asarray, start))
    record = _no_record(lambda: body.invoke((jnp.int32(0), *first, *[row[0] for row in rows]), others), body)
    if not isinstance(length, int):  # unknown while tracing: a row tells
        rows, length = (*rows, jnp.zeros((length,))), None
    state = (jnp.int32(0), first, record)
    (_, carry, record), stacked = lax.scan(step, state, rows, length=length, reverse=reverse)
    if record:
        checks.report(record)
    return (*carry, *stacked)


def loop(
    *operands: Array, body: Any, test: Any, carried: int, captured: int, limit: int | None, slots: int, **_: Any
) -> Any:
    """Run a program while a test of its carry is true: the final carry, and the number of iterations.

    With `slots` carries are saved, so that a derivative can start anywhere: every stride-th one; whenever the slots are
    full, the stride doubles and every second slot is freed. Stride and slots are further results. A failed check ends
    the loop, which might not terminate with invalid values.
    """
    first = tuple(map(jnp.asarray, operands[:carried]))
    others, for_test = operands[carried : carried + captured], operands[carried + captured :]
    parts = _LoopParts(body, test, others, for_test, limit)
    state = parts.start(first)
    if not slots:
        iteration, carry, record = lax.while_loop(parts.goes_on, lambda s: parts.advanced(*s), state)
        kept: tuple[Any, ...] = ()
    else:
        empty = tuple(jnp.zeros((slots, *c.shape), c.dtype) for c in first)
        step = functools.partial(_saving_step, parts, slots)
        iteration, carry, record, stride, saved = lax.while_loop(parts.goes_on, step, (*state, jnp.int32(1), empty))
        kept = (stride, *saved)
    if record:
        checks.report(record[:-1])
    return (*carry, iteration, *kept)


class _LoopParts(NamedTuple):
    """The functions for `lax.while_loop`. The state is the index of the iteration, the carry, and a record: with
    checks, their record and whether to continue; otherwise ().
    """

    body: Any
    test: Any
    others: Sequence[Any]
    for_test: Sequence[Any]
    limit: int | None

    def start(self, first: tuple[Any, ...]) -> tuple[Any, Any, Any]:
        """The state before the first iteration."""
        zero = jnp.int32(0)
        once = functools.partial(self.body.invoke, (zero, *first), self.others)
        record = _no_record(once, self.body, lambda: self._holds(zero, first), self.test)
        return zero, first, self._tested(zero, first, record)

    def goes_on(self, state: Any) -> Any:
        """Whether to run another iteration."""
        iteration, carry, record, *_ = state
        if not record:
            return self._holds(iteration, carry)
        more, number = record[-1], record[0]
        return jnp.logical_and(more, number == 0)

    def advanced(self, iteration: Array, carry: Any, record: Any) -> tuple[Any, Any, Any]:
        """The state after an iteration."""
        carry, record = _recorded(lambda: tuple(self.body.invoke((iteration, *carry), self.others)), record[:-1])
        return iteration + 1, carry, self._tested(iteration + 1, carry, record)

    def _holds(self, iteration: Array, carry: Any) -> Any:
        more = jnp.reshape(self.test.invoke((iteration, *carry), self.for_test)[0], ())
        return more if self.limit is None else jnp.logical_and(iteration < self.limit, more)

    def _tested(self, iteration: Array, carry: Any, record: Any) -> Any:
        if not record:
            return record
        more, record = _recorded(lambda: self._holds(iteration, carry), record)
        return (*record, more)


def _saving_step(parts: _LoopParts, slots: int, state: Any) -> Any:
    """One iteration of a loop that saves carries."""
    iteration, carry, record, stride, kept = state

    def thinned(state: Any) -> Any:
        stride, kept = state
        return stride * 2, tuple(jnp.concatenate([k[::2], jnp.zeros_like(k[1::2])]) for k in kept)

    def keep(kept: Any) -> Any:
        slot = iteration // stride
        return tuple(lax.dynamic_update_index_in_dim(k, c, slot, 0) for k, c in zip(kept, carry, strict=True))

    stride, kept = lax.cond(iteration == stride * slots, thinned, lambda s: s, (stride, kept))
    kept = lax.cond(iteration % stride == 0, keep, lambda k: k, kept)
    return (*parts.advanced(iteration, carry, record), stride, kept)


def _no_record(*parts: Any) -> Any:
    """The initial record of the checks in a loop over programs: () if none is collected.

    `parts` are functions that invoke a program, each followed by the program.
    """
    functions, programs = parts[::2], parts[1::2]
    return checks.nothing_like(*functions) if checks.watched(*programs) else ()


def _recorded(invoke: Callable[[], Any], record: Any) -> tuple[Any, Any]:
    """The result of a program, and the record of the first failed check: the earlier one, or one of this call."""
    if not record:
        return invoke(), record
    results, new = checks.collected(invoke)
    return results, record if new is None else checks.first([record, new])


def host_effect(*arrays: Array, function: Any, effect: bool = True) -> Array:
    """Call back, in program order, for the side effects of a function."""
    if checks.explaining():
        return jnp.int32(0)  # this runs the program again for an error message
    return io_callback(function, jax.ShapeDtypeStruct((), jnp.int32), *arrays, ordered=True)


def host_function(*arrays: Array, function: Any, specs: Sequence[Any], effect: bool = True) -> Any:
    """Call back for the results of a function, whose shapes and dtypes are known."""
    shapes = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in specs)
    return io_callback(function, shapes, *arrays, ordered=True)
