"""The optimised backward pass: the algorithm of `core/vjp.py` with fast paths. Tests compare the two.

Cotangents are arrays, tensors (if the pass is recorded, for the next order), batches (for a Jacobian) or
zero-preserving arrays: the same rules run on all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src.arrays import common_namespace, namespaces
from gradtape._src.arrays.half import is_half
from gradtape._src.arrays.lazy import Lazy
from gradtape._src.arrays.numpy.blocks import LARGE, blockwise
from gradtape._src.core.fast.calls import recorder_fast, recorder_vjps, vjps_of
from gradtape._src.core.observe import Observer, has_large_arrays, in_rule
from gradtape._src.core.primitive import Op, narrowed, numpy_dtype, unbroadcast, widened
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import Record, saved_by_slot
from gradtape._src.core.zero_preserving import as_plain, is_zero_preserving, zero_preserving
from gradtape._src.interrupts import setting
from gradtape._src.tensor import Tensor, dimensions_shown

_FLOAT32 = np.dtype(np.float32)

Cotangents = dict[int, Any]
Shapes = dict[int, tuple[int, ...]]


def backward_pass(
    records: list[Any],
    shapes: Shapes,
    cotangents: Cotangents,
    *,
    kept: frozenset[int],
    traced: bool,
    release: bool,
    unreached: list[Any] | None = None,
    observer: Observer | None = None,
) -> Cotangents:
    """Compute cotangents of sources, and of the tensors in `kept`, from those of targets: uid -> value.

    shapes    of the uids that may have a cotangent; for other inputs none is computed
    kept      uids in the middle of the records whose cotangents are results
    traced    cotangents are tensors, and every step is itself recorded
    release   drop each record after use, so that memory shrinks during the pass
    unreached collects the records without a cotangent, without values: `explain` uses them
    observer  is notified of every step
    """
    sums, found = _Sums(), {}  # type: ignore[var-annotated]
    remaining = records if release else records[:]
    if observer is None:
        _pass(remaining, shapes, cotangents, kept, traced, unreached, sums, found)
    while remaining:
        record = remaining.pop()
        output = record[2]
        gs = [cotangents.get(uid) for uid in (output if type(output) is tuple else (output,))]
        with setting(in_rule, True):
            _pass([record], shapes, cotangents, kept, traced, unreached, sums, found)
        if any(g is not None for g in gs):
            record = Record.of(record)
            results = {uid: cotangents[uid] for uid in record.inputs if uid in shapes and uid in cotangents}
            observer.on_vjp(record, gs, results)  # type: ignore[union-attr]
    cotangents.update(found)
    if sums.half is not None:
        sums.half.finish(cotangents)
    return cotangents


def _pass(  # noqa: C901 - a call for each record costs more than its kernel (benchmarks: chain, mlp32)
    remaining: list[Any],
    shapes: Shapes,
    cotangents: Cotangents,
    kept: frozenset[int],
    traced: bool,
    unreached: list[Any] | None,
    sums: _Sums,
    found: Cotangents,
) -> None:
    """Process the records of a list, last to first, and remove them."""
    c: Any
    pop, take, shape_of = cotangents.pop, remaining.pop, shapes.get
    shape: tuple[int, ...] | None
    fast_dtype = None if traced else _FLOAT32  # records of this dtype take the fast path
    kept_uids = kept or None
    # The next record mostly needs what the fast path has just computed: it stays in c as the pending cotangent of the
    # uid `pending`, and moves to the others only if the next record does not need it (benchmark: chain).
    pending, c = 0, None
    while remaining:
        op, inputs, output, values, attrs, dtype = take()
        if output is pending:
            g, c, pending = c, None, 0
        else:
            if pending:
                cotangents[pending] = c
                pending = 0
            g = pop(output, None)
        if g is None:
            if type(output) is tuple:
                g = _collect(op, output, dtype, shapes, cotangents, kept, found)
            if g is None:
                if unreached is not None:
                    unreached.append((op, inputs, output, (), attrs, dtype))
                continue
        elif kept_uids is not None and output in kept_uids:
            found[output] = g
        if dtype is fast_dtype and (
            fast := op.fast
            if type(g) is ndarray
            else (op.recorder_fast or recorder_fast(op))
            if type(g) is Lazy
            else None
        ):
            # One or two operands of an elementwise op, without a loop and vjps (benchmark: chain).
            rule, slot, second = fast
            if type(inputs) is int:
                if inputs in shapes:
                    c = rule(g) if slot is None else rule(g, values.array) if slot >= 0 else rule(g, values)
                    if inputs in cotangents:
                        _accumulate(cotangents, inputs, c, sums)
                    else:
                        pending = inputs
                continue
            if second is not None:
                uid, other = inputs
                if other in shapes:
                    other_rule, other_slot = second
                    c = (
                        other_rule(g)
                        if other_slot is None
                        else other_rule(g, values[other_slot].array)
                        if other_slot >= 0
                        else other_rule(g, values)
                    )
                    if shapes[output] != (shape := shapes[other]):
                        c = unbroadcast(c, shape)
                    if other in cotangents:
                        _accumulate(cotangents, other, c, sums)
                    else:
                        cotangents[other] = c
                if uid in shapes:
                    c = rule(g) if slot is None else rule(g, values[slot].array) if slot >= 0 else rule(g, values)
                    if shapes[output] != (shape := shapes[uid]):
                        c = unbroadcast(c, shape)
                    if uid in cotangents:
                        _accumulate(cotangents, uid, c, sums)
                    else:
                        pending = uid
                continue
        if op.vjp_all is not None:
            _vjp_all(op, g, dtype, inputs, values, attrs, shapes, traced, cotangents, sums)
            continue
        vjps = op.vjps
        if dtype is not fast_dtype or vjps is None or type(g) is not ndarray:
            g, vjps = _general_vjps(op, g, dtype, traced)
        if type(inputs) is int:
            inputs, values = (inputs,), saved_by_slot(op, values)
        position = 0  # counted by hand: zip costs as much as a rule (benchmark: chain)
        for uid in inputs:
            shape = shape_of(uid)
            if shape is not None and (vjp := vjps[position]) is not None:
                c = vjp(g, values, attrs, shape)
                if uid in cotangents:
                    _accumulate(cotangents, uid, c, sums)
                elif c is not None:
                    cotangents[uid] = c
            position += 1  # noqa: SIM113 - see above
    if pending:
        cotangents[pending] = c


def traced_backward_pass(*args: Any, **options: Any) -> Cotangents:
    """A backward pass that is itself recorded. In a trace, its rules may compute with unknown dimensions."""
    with dimensions_shown():
        return backward_pass(*args, **{**options, "traced": True})


class _Sums:
    """The uids whose cotangents are sums that this pass has created, and sums in half precision, if any."""

    __slots__ = ("half", "uids")

    def __init__(self) -> None:
        self.uids: set[int] = set()  # not a subclass of set: `in` would call a method (benchmark: rnn)
        self.half: _HalfSums | None = None


class _HalfSums:
    """Sums in half precision that are rounded once: in float32 until they are complete, if there are more than two
    terms.

    A sum of two terms is rounded only once anyway, and XLA fuses it better than one with casts. If it is recorded, its
    terms are kept as well, in case more follow.
    """

    def __init__(self) -> None:
        self.pairs: dict[int, tuple[Tensor, Tensor]] = {}
        self.dtypes: dict[int, Any] = {}  # the final dtypes of sums that are float32 for now

    def add(self, uid: int, before: Any, c: Any) -> Any:
        """Add a term to a sum."""
        pair = self.pairs.pop(uid, None)
        if pair is None and uid not in self.dtypes and type(before) is type(c) is Tensor:
            self.pairs[uid] = before, c
            return before + c
        self.dtypes[uid] = numpy_dtype(c)
        if pair is not None:
            before = widened(pair[0]) + widened(pair[1])
        return _wide(before) + _wide(c)

    def finish(self, cotangents: Cotangents) -> None:
        """Round the sums that nothing has read yet."""
        for uid, dtype in self.dtypes.items():
            if uid in cotangents:
                cotangents[uid] = narrowed(cotangents[uid], dtype)


_add_in_blocks = blockwise(np.add)


def _accumulate(cotangents: Cotangents, uid: int, c: Any, sums: _Sums) -> None:
    """Add a contribution; a sum that this pass has created has no other references and is updated in place."""
    if c is None:
        return
    before = cotangents[uid]
    are_arrays = type(c) is ndarray and type(before) is ndarray
    if are_arrays and uid in sums.uids:
        if before.size >= LARGE and has_large_arrays():
            _add_in_blocks(before, c, out=before)
        else:
            np.add(before, c, before)
        return
    if c.dtype is not _FLOAT32 and is_half(numpy_dtype(c)) and not type(c) is type(before) is SparseCotangent:
        sums.half = sums.half or _HalfSums()
        total = sums.half.add(uid, before, c)
    else:
        is_large = are_arrays and before.size >= LARGE and has_large_arrays()
        total = _add_in_blocks(before, c) if is_large else before + c
    cotangents[uid] = total
    if type(total) is ndarray:
        sums.uids.add(uid)


def _wide(c: Any) -> Any:
    """A half-precision cotangent as a dense float32 one."""
    return SparseCotangent(widened(c.values), c.indices, c.shape).dense() if type(c) is SparseCotangent else widened(c)


def _collect(
    op: Op,
    outputs: tuple[int, ...],
    dtypes: Any,
    shapes: Shapes,
    cotangents: Cotangents,
    kept: frozenset[int],
    found: Cotangents,
) -> list[Any] | None:
    """The cotangents of an op with several outputs: zeros for missing ones, None if all are missing."""
    gs, arrived = [], False
    for uid, dtype in zip(outputs, dtypes, strict=True):
        g = cotangents.pop(uid, None)
        if g is not None:
            arrived = True
            if uid in kept:
                found[uid] = g
            g = _settled(g, dtype)
        gs.append(g)
    if not arrived:
        return None
    if not op.vjp_all_zeros:
        return gs
    xp = common_namespace([g for g in gs if g is not None])
    return [xp.zeros(shapes[uid], dtype) if g is None else g for uid, dtype, g in zip(outputs, dtypes, gs, strict=True)]


def _settled(g: Any, dtype: Any) -> Any:
    """A complete cotangent: dense, and in its own dtype if it was summed in float32."""
    if type(g) is SparseCotangent:
        g = g.dense()
    return narrowed(g, dtype)


def _general_vjps(op: Op, g: Any, dtype: Any, traced: bool) -> tuple[Any, Any]:
    """The vjps of records other than float32 ones on NumPy: recorded, of another dtype or engine, or sparse."""
    if type(g) is SparseCotangent or not (dtype is _FLOAT32 or type(g) is list):
        g = _settled(g, dtype)
    if type(g) is Lazy and not traced:
        return g, op.recorder_vjps.get(dtype) or recorder_vjps(op, dtype)
    if dtype is _FLOAT32 and op.vjps is not None:
        return g, op.traced_vjps if traced else op.vjps
    return g, vjps_of(op, dtype, traced)


def _vjp_all(
    op: Op,
    g: Any,
    dtype: Any,
    inputs: tuple[int, ...],
    values: Any,
    attrs: Any,
    shapes: Shapes,
    traced: bool,
    cotangents: Cotangents,
    sums: _Sums,
) -> None:
    """Process the record of an op with one rule for all its inputs."""
    if type(g) is SparseCotangent or not (dtype is _FLOAT32 or type(g) is list):
        g = _settled(g, dtype)
    gs = [x for x in g if x is not None] if type(g) is list else [g]
    xp = namespaces[type(gs[0])] if len(gs) == 1 else common_namespace(gs)
    saved = values if traced else [None if v is None else v.array for v in values]
    half = numpy_dtype(gs[0]) if op.wide and is_half(numpy_dtype(gs[0])) else None
    if half is not None:
        g, saved = ([None if v is None else widened(v) for v in part] for part in (g, saved))
    needs = [shapes.get(uid) for uid in inputs]
    zeros = op.trusted and is_zero_preserving(gs)  # gradients from the user or XLA get plain arrays
    if zeros:
        g = [None if x is None else as_plain(x) for x in g]
        xp = common_namespace([x for x in g if x is not None])
    for uid, shape, c in zip(inputs, needs, op.vjp_all(xp, g, needs, *saved, **attrs), strict=True):  # type: ignore[misc]
        if c is None or shape is None:
            continue
        if zeros:
            c = zero_preserving(c)
        if not op.trusted and c.shape != shape:  # the shape of a user's gradient is not validated
            c = unbroadcast(c, shape)
        if half is not None:
            c = narrowed(c, half)
        if uid in cotangents:
            _accumulate(cotangents, uid, c, sums)
        else:
            cotangents[uid] = c
