"""Branches and loops of programs on NumPy, where Python runs them op by op.

The XLA engine has the same functions. They are not in the NumPy namespace: eager code branches and loops in Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.arrays.dimensions import DynamicOpError, DynamicSizeError, evaluated, is_dimension, sized


def inline(xp: Any, *operands: ndarray, program: Any) -> tuple[ndarray, ...]:
    """Run a program that is inlined into another one."""
    return tuple(program.replay(*operands, xp=xp))


def switch(
    xp: Any, index: ndarray, *operands: ndarray, branches: Sequence[Any], splits: Sequence[int], **_: Any
) -> Any:
    """Run one of several programs; an index out of range selects the nearest one."""
    number = min(max(int(index), 0), len(branches) - 1)
    start = sum(splits[:number])
    return tuple(branches[number].invoke((), operands[start : start + splits[number]], xp))


def scan(
    xp: Any, *operands: ndarray, body: Any, carried: int, scanned: int, length: int, reverse: bool, **_: Any
) -> tuple[ndarray, ...]:
    """Run a program over the rows of some operands, with `carried` values; its other results are stacked."""
    carry, rows, others = operands[:carried], operands[carried : carried + scanned], operands[carried + scanned :]
    stacked = [_rows(length, out, body.sizes) for out in body.outputs[carried:]]
    for iteration in range(length):
        place = length - 1 - iteration if reverse else iteration
        results = body.invoke((np.asarray(iteration, np.int32), *carry, *[row[place] for row in rows]), others, xp)
        carry = results[:carried]
        for i, part in enumerate(results[carried:]):
            if iteration == 0 and stacked[i].shape[1:] != part.shape:  # its size depends on values
                stacked[i] = np.zeros((length, *part.shape), part.dtype)
            stacked[i][place] = part
    return (*carry, *stacked)


def _rows(length: int, row: Any, sizes: Any) -> ndarray:
    """Zeros for the rows of a result; sizes that only the first row tells are 0 until then."""
    shape = [0 if is_dimension(n) else n for n in sized(row.shape, sizes)]
    return np.zeros((length, *shape), row.dtype)


def loop(
    xp: Any,
    *operands: ndarray,
    body: Any,
    test: Any,
    carried: int,
    captured: int,
    limit: int | None,
    slots: int,
    **_: Any,
) -> tuple[Any, ...]:
    """Run a program while a test of its carry is true: the final carry, and the number of iterations.

    With `slots` the carry of every stride-th iteration is saved, as in the XLA engine.
    """
    carry, others = operands[:carried], operands[carried : carried + captured]
    for_test = operands[carried + captured :]
    kept = [np.zeros((slots, *np.shape(c)), np.asarray(c).dtype) for c in carry] if slots else []
    iteration, stride = 0, 1
    while limit is None or iteration < limit:
        number = np.asarray(iteration, np.int32)
        if not np.all(test.invoke((number, *carry), for_test, xp)[0]):
            break
        if slots:
            if iteration == stride * slots:
                stride *= 2
                for k in kept:
                    k[: slots // 2] = k[::2].copy()
                    k[slots // 2 :] = 0
            if iteration % stride == 0:
                for k, c in zip(kept, carry, strict=True):
                    k[iteration // stride] = c
        carry = body.invoke((number, *carry), others, xp)
        iteration += 1
    last = (*carry, np.asarray(iteration, np.int32))
    return (*last, np.asarray(stride, np.int32), *kept) if slots else last


def dynamic_loop(
    xp: Any,
    *operands: ndarray,
    body: Any,
    test: Any,
    carried: int,
    scanned: int,
    captured: int,
    limit: int | None,
    reverse: bool,
    leads: Sequence[tuple[int, ...]],
    **_: Any,
) -> tuple[Any, ...]:
    """A loop that carries values of changing shapes, and takes and returns ragged stacks: the concatenated values of a
    stack, and the shape of each. Without a test it runs for all rows.
    """
    first = carried + 2 * scanned
    carry, others, for_test = operands[:carried], operands[first : first + captured], operands[first + captured :]
    rows = [_ragged_rows(*operands[i : i + 2]) for i in range(carried, first, 2)]
    length = int(for_test[0]) if test is None else limit
    stacked: list[list[ndarray]] = [[] for _ in leads]
    iteration = 0
    while length is None or iteration < length:
        number = np.asarray(iteration, np.int32)
        if test is not None and not np.all(test.invoke((number, *carry), for_test, xp)[0]):
            break
        place = length - 1 - iteration if reverse and length is not None else iteration
        results = body.invoke((number, *carry, *[row[place] for row in rows]), others, xp)
        carry = results[:carried]
        for parts, part in zip(stacked, results[carried:], strict=True):
            parts.append(part)
        iteration += 1
    kinds = [(lead, out) for lead, out in zip(leads, body.outputs[carried:], strict=True)]
    stacks = [
        _ragged_stack(parts[::-1] if reverse else parts, *kind) for parts, kind in zip(stacked, kinds, strict=True)
    ]
    return (*carry, np.asarray(iteration, np.int32), *[x for stack in stacks for x in stack])


def _ragged_rows(flat: ndarray, shapes: ndarray) -> list[ndarray]:
    """The values of a ragged stack."""
    ends = np.cumsum(shapes.prod(axis=1, dtype=np.int64))
    pieces = np.split(flat, ends[:-1], axis=-1) if len(ends) else []
    return [piece.reshape((*flat.shape[:-1], *shape)) for piece, shape in zip(pieces, shapes.tolist(), strict=True)]


def _ragged_stack(parts: Sequence[ndarray], lead: tuple[int, ...], out: Any) -> tuple[ndarray, ndarray]:
    """Stack values of different shapes; `out` is the symbol of each value."""
    arrays = [np.asarray(part) for part in parts]
    flat = [x.reshape((*lead, math.prod(x.shape[len(lead) :]))) for x in arrays] or [np.zeros((*lead, 0), out.dtype)]
    shapes = np.array([x.shape[len(lead) :] for x in arrays], np.int64)
    return np.concatenate(flat, axis=-1), shapes.reshape(len(arrays), len(out.shape) - len(lead))


def host_effect(xp: Any, *arrays: ndarray, function: Any, effect: bool = True) -> ndarray:
    """Call a function for its side effects."""
    return np.asarray(function(*arrays))


def host_function(xp: Any, *arrays: ndarray, function: Any, specs: Sequence[Any], effect: bool = True) -> Any:
    """Call a function for its results."""
    return function(*arrays)


def check(xp: Any, *arrays: ndarray, rule: Any, params: Any, **_: Any) -> ndarray:
    """Raise an error if a check fails; otherwise return the first array."""
    if np.any(rule.fails(np, *arrays, **dict(params))):
        raise rule.error(*arrays, **dict(params))
    return arrays[0]


def dynamic(xp: Any, *operands: ndarray, of: str, names: Sequence[str], dynamic: Sequence[Any], **attrs: Any) -> Any:
    """A function whose static arguments depend on dynamic sizes, which are the first operands."""
    sizes = {name: _size(x) for name, x in zip(names, operands, strict=False)}
    try:
        found = {key: evaluated(value, sizes) for key, value in dynamic}
        return getattr(xp, of)(*operands[len(names) :], **found, **attrs)
    except (ValueError, TypeError, IndexError, ZeroDivisionError) as error:  # eager execution raises a better error
        raise DynamicOpError(str(error)) from error


def _size(x: ndarray) -> int:
    size = int(x)
    if size < 0:
        raise DynamicSizeError(f"A size that depends on values is {size}.")
    return size


def assume(xp: Any, *, size: int, at_least_0: bool, effect: bool = True) -> ndarray:
    """Check what the trace has assumed about sizes."""
    if (size >= 0) != at_least_0:
        raise DynamicSizeError("Sizes that depend on values differ from those that the trace assumed.")
    return np.zeros((), np.int64)


def argwhere(xp: Any, x: ndarray) -> ndarray:
    """The coordinates of the nonzero elements."""
    return np.argwhere(x).astype(np.int64)


def repeated_places(xp: Any, counts: ndarray) -> ndarray:
    """The index of each count, repeated as often as the count says; negative counts are 0."""
    return np.repeat(np.arange(len(counts)), np.maximum(counts, 0))


def size_of(xp: Any, x: ndarray, *, axis: int) -> ndarray:
    """The size of an axis."""
    return np.array(x.shape[axis], np.int64)


FUNCTIONS = (
    inline,
    switch,
    scan,
    loop,
    dynamic_loop,
    host_effect,
    host_function,
    check,
    dynamic,
    assume,
    argwhere,
    repeated_places,
    size_of,
)
