"""Programs within programs: branches and loops, as XLA has them.

A program here is anything with `invoke(given, others)`: arrays for its explicit inputs, and for what it captured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import io_callback

from gradtape._src.arrays.xla import checks
from gradtape._src.arrays.xla.checks import check as check  # a kernel as those below

Array = Any


def inline(*operands: Array, program: Any) -> tuple[Array, ...]:
    """A program as a part of the one around it."""
    return tuple(program.replay(*operands))


def switch(index: Array, *operands: Array, branches: Sequence[Any], splits: Sequence[int], **_: Any) -> Any:
    """The results of one of several programs; an index outside of their range means the nearest one."""
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
    """A program over the rows of some operands, handing `carried` values from one to the next; other results stack."""
    start, rows, others = operands[:carried], operands[carried : carried + scanned], operands[carried + scanned :]

    def step(state: Any, row: Any) -> Any:
        turn, carry, record = state
        invoke = lambda: body.invoke((turn, *carry, *row[:scanned]), others)  # noqa: E731
        results, record = _recorded(invoke, record)
        return (turn + 1, tuple(results[:carried]), record), tuple(results[carried:])

    rows = tuple(map(jnp.asarray, rows))
    first = tuple(map(jnp.asarray, start))
    record = _no_record(lambda: body.invoke((jnp.int32(0), *first, *[row[0] for row in rows]), others), body)
    if not isinstance(length, int):  # not known yet: then a row says it
        rows, length = (*rows, jnp.zeros((length,))), None
    state = (jnp.int32(0), first, record)
    (_, carry, record), stacked = lax.scan(step, state, rows, length=length, reverse=reverse)
    if record:
        checks.report(record)
    return (*carry, *stacked)


def loop(
    *operands: Array, body: Any, test: Any, carried: int, captured: int, limit: int | None, slots: int, **_: Any
) -> Any:
    """A program as long as a test of what it carries holds: the last values, and how many turns it took.

    With `slots` what was carried is kept on the way, so that a derivative can begin anywhere: every stride-th turn,
    where the stride doubles and every second slot is freed whenever the slots are full. Then the stride and the slots
    follow. A check that fails ends the loop: with values that were refused it might have no end.
    """
    start, others, for_test = operands[:carried], operands[carried : carried + captured], operands[carried + captured :]
    first, zero = tuple(map(jnp.asarray, start)), jnp.int32(0)

    def asked(turn: Array, carry: Any) -> Any:
        more = jnp.reshape(test.invoke((turn, *carry), for_test)[0], ())
        return more if limit is None else jnp.logical_and(turn < limit, more)

    record = _no_record(lambda: body.invoke((zero, *first), others), body, lambda: asked(zero, first), test)

    def goes_on(state: Any) -> Any:
        turn, carry, record, *_ = state
        if not record:
            return asked(turn, carry)
        more, number = record[-1], record[0]
        return jnp.logical_and(more, number == 0)

    def turned(turn: Array, carry: Any, record: Any) -> Any:
        """What is carried after a turn and, where there are checks, what they found and whether to go on."""
        carry, record = _recorded(lambda: tuple(body.invoke((turn, *carry), others)), record[:-1])
        return turn + 1, carry, asked_with(turn + 1, carry, record)

    def asked_with(turn: Array, carry: Any, record: Any) -> Any:
        if not record:
            return record
        more, record = _recorded(lambda: asked(turn, carry), record)
        return (*record, more)

    state = (zero, first, asked_with(zero, first, record))
    if not slots:
        turn, carry, record = lax.while_loop(goes_on, lambda s: turned(*s), state)
        if record:
            checks.report(record[:-1])
        return (*carry, turn)

    def thinned(state: Any) -> Any:
        stride, kept = state
        return stride * 2, tuple(jnp.concatenate([k[::2], jnp.zeros_like(k[1::2])]) for k in kept)

    def step(state: Any) -> Any:
        turn, carry, record, stride, kept = state
        stride, kept = lax.cond(turn == stride * slots, thinned, lambda s: s, (stride, kept))

        def keep(kept: Any) -> Any:
            return tuple(
                lax.dynamic_update_index_in_dim(k, c, turn // stride, 0) for k, c in zip(kept, carry, strict=True)
            )

        kept = lax.cond(turn % stride == 0, keep, lambda k: k, kept)
        return (*turned(turn, carry, record), stride, kept)

    empty = tuple(jnp.zeros((slots, *c.shape), c.dtype) for c in first)
    turn, carry, record, stride, kept = lax.while_loop(goes_on, step, (*state, jnp.int32(1), empty))
    if record:
        checks.report(record[:-1])
    return (*carry, turn, stride, *kept)


def _no_record(*parts: Any) -> Any:
    """What a loop over programs carries for their checks before its first turn: () where none is collected.

    `parts` are functions that invoke a program, each followed by the program.
    """
    functions, programs = parts[::2], parts[1::2]
    return checks.nothing_like(*functions) if checks.watched(*programs) else ()


def _recorded(invoke: Callable[[], Any], record: Any) -> tuple[Any, Any]:
    """What a program returns, and the first record of a check that failed: the one from before, or one of now."""
    if not record:
        return invoke(), record
    results, new = checks.collected(invoke)
    return results, record if new is None else checks.first([record, new])


def host_effect(*arrays: Array, function: Any, effect: bool = True) -> Array:
    """Call back, in the order of the program, for what a function does and not for what it returns."""
    if checks.explaining():
        return jnp.int32(0)  # it has been done
    return io_callback(function, jax.ShapeDtypeStruct((), jnp.int32), *arrays, ordered=True)


def host_function(*arrays: Array, function: Any, specs: Sequence[Any], effect: bool = True) -> Any:
    """Call back for the results of a function, of which shapes and dtypes are known."""
    shapes = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in specs)
    return io_callback(function, shapes, *arrays, ordered=True)
