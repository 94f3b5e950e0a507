"""Programs within programs: branches and loops, as XLA has them.

A program here is anything with `invoke(given, others)`: arrays for its explicit inputs, and for what it captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import io_callback

Array = Any


def inline(*operands: Array, program: Any) -> tuple[Array, ...]:
    """A program as a part of the one around it."""
    return tuple(program.replay(*operands))


def switch(index: Array, *operands: Array, branches: Sequence[Any], splits: Sequence[int], **_: Any) -> Any:
    """The results of one of several programs; an index outside of their range means the nearest one."""
    starts = [sum(splits[:i]) for i in range(len(splits))]

    def branch(number: int) -> Any:
        mine = operands[starts[number] : starts[number] + splits[number]]
        return lambda: tuple(branches[number].invoke((), mine))

    return tuple(lax.switch(jnp.asarray(index, jnp.int32), [branch(i) for i in range(len(branches))]))


def scan(*operands: Array, body: Any, carried: int, scanned: int, length: Any, reverse: bool, **_: Any) -> Any:
    """A program over the rows of some operands, handing `carried` values from one to the next; other results stack."""
    start, rows, others = operands[:carried], operands[carried : carried + scanned], operands[carried + scanned :]

    def step(state: Any, row: Any) -> Any:
        turn, carry = state
        results = body.invoke((turn, *carry, *row[:scanned]), others)
        return (turn + 1, tuple(results[:carried])), tuple(results[carried:])

    state = (jnp.int32(0), tuple(map(jnp.asarray, start)))
    if not isinstance(length, int):  # not known yet: then a row says it
        rows, length = (*rows, jnp.zeros((length,))), None
    (_, carry), stacked = lax.scan(step, state, tuple(map(jnp.asarray, rows)), length=length, reverse=reverse)
    return (*carry, *stacked)


def loop(
    *operands: Array, body: Any, test: Any, carried: int, captured: int, limit: int | None, slots: int, **_: Any
) -> Any:
    """A program as long as a test of what it carries holds: the last values, and how many turns it took.

    With `slots` what was carried is kept on the way, so that a derivative can begin anywhere: every stride-th turn,
    where the stride doubles and every second slot is freed whenever the slots are full. Then the stride and the slots
    follow.
    """
    start, others, for_test = operands[:carried], operands[carried : carried + captured], operands[carried + captured :]

    def goes_on(state: Any) -> Any:
        turn, carry = state[0], state[1]
        more = jnp.reshape(test.invoke((turn, *carry), for_test)[0], ())
        return more if limit is None else jnp.logical_and(turn < limit, more)

    def next_carry(turn: Array, carry: Any) -> Any:
        return tuple(body.invoke((turn, *carry), others))

    first = tuple(map(jnp.asarray, start))
    if not slots:
        turn, carry = lax.while_loop(goes_on, lambda s: (s[0] + 1, next_carry(s[0], s[1])), (jnp.int32(0), first))
        return (*carry, turn)

    def thinned(state: Any) -> Any:
        stride, kept = state
        return stride * 2, tuple(jnp.concatenate([k[::2], jnp.zeros_like(k[1::2])]) for k in kept)

    def step(state: Any) -> Any:
        turn, carry, stride, kept = state
        stride, kept = lax.cond(turn == stride * slots, thinned, lambda s: s, (stride, kept))

        def keep(kept: Any) -> Any:
            return tuple(
                lax.dynamic_update_index_in_dim(k, c, turn // stride, 0) for k, c in zip(kept, carry, strict=True)
            )

        kept = lax.cond(turn % stride == 0, keep, lambda k: k, kept)
        return turn + 1, next_carry(turn, carry), stride, kept

    empty = tuple(jnp.zeros((slots, *c.shape), c.dtype) for c in first)
    turn, carry, stride, kept = lax.while_loop(goes_on, step, (jnp.int32(0), first, jnp.int32(1), empty))
    return (*carry, turn, stride, *kept)


def host_effect(*arrays: Array, function: Any, effect: bool = True) -> Array:
    """Call back, in the order of the program, for what a function does and not for what it returns."""
    return io_callback(function, jax.ShapeDtypeStruct((), jnp.int32), *arrays, ordered=True)


def host_function(*arrays: Array, function: Any, specs: Sequence[Any], effect: bool = True) -> Any:
    """Call back for the results of a function, of which shapes and dtypes are known."""
    shapes = tuple(jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in specs)
    return io_callback(function, shapes, *arrays, ordered=True)
