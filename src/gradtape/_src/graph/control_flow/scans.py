"""Scans: loops whose length is known while tracing; the derivative is a scan in the opposite direction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src.arrays.checks import Interval
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.symbolic import Node, Symbolic, current_graph, number, sizes_of
from gradtape._src.conversion import wrap
from gradtape._src.core.primitive import narrowed, program_op
from gradtape._src.core.tape import active_recorders
from gradtape._src.graph.bounds import Bounds
from gradtape._src.graph.control_flow.block import (
    Block,
    add_node,
    carried_variables,
    check_carry,
    in_scope,
    iteration_number,
    without_outputs,
    zeros_like_symbol,
)
from gradtape._src.graph.control_flow.derivatives import (
    added,
    as_tensors,
    dense,
    dtype_of_input,
    empty_sums,
    or_zeros,
    residual_tensors,
    rows_inside,
    rows_outside,
    tracked_inputs,
    with_tangents,
)
from gradtape._src.graph.control_flow.dynamic_loops import DynamicLoop, RaggedStack, known_here, record_loop
from gradtape._src.graph.derivative import Derivative
from gradtape._src.graph.program import Program
from gradtape._src.graph.trace import as_tensor, record
from gradtape._src.graph.traced import Traced
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import store


@in_scope("while")
def scan(
    function: Callable[..., Any], carry: Sequence[Tensor], rows: Sequence[Tensor], length: int, reverse: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    """Call `function(carry, row)` for each row: the final carry, and the stacked outputs.

    `function` takes two lists of tensors and returns two lists.
    """
    first = [row_like(t) for t in rows]

    def body(*values: Tensor) -> Any:
        new, given = function(list(values[: len(carry)]), list(values[len(carry) :]))
        return [*new, *given]

    block = Block("loop", body, [*carry, *first], iteration=True)
    outputs = block.outputs()
    state, changed = carried_variables(block)
    count = len(carry)
    check_carry(carry, outputs[:count])
    inputs = block.inputs
    ordered = [*inputs[: 1 + count], *[t for t, _ in state], *inputs[1 + count :]]
    block.inputs = ordered
    traced = block.traced([*outputs[:count], *[block.reading(v) for v in changed], *outputs[count:]])
    results = record_scan(traced, [*carry, *[t for _, t in state]], rows, length, reverse)
    for variable, value in zip(changed, results[count:], strict=False):
        store(variable, value.array)
    return results[:count], results[count + len(changed) :]


def row_like(tensor: Tensor) -> Tensor:
    return wrap(zeros_like_symbol(Symbolic(current_graph(), tuple(tensor.array.shape[1:]), tensor.array.dtype)))  # type: ignore[arg-type]


def _bounds(
    traced: Traced, carry: Sequence[Tensor], rows: Sequence[Tensor], length: int, counted: dict[int, Interval]
) -> dict[int, Interval]:
    """The known intervals of integers in a loop's body: the index of the iteration, rows, and counters."""
    symbols = [t.array for t in traced.inputs]
    given = {id(symbols[1 + i]): interval for i, interval in counted.items()}
    if not is_dimension(length) and length > 0:
        given[id(symbols[0])] = 0, length - 1
    bounds = Bounds()
    for symbol, row in zip(symbols[1 + len(carry) :], rows, strict=True):
        if row.array.dtype.kind in "iu" and (found := bounds.interval(row.array)) is not None:
            given[id(symbol)] = found
    return given


def record_scan(
    traced: Traced,
    carry: Sequence[Tensor],
    rows: Sequence[Tensor],
    length: int,
    reverse: bool,
    counted: dict[int, Interval] = {},  # noqa: B006 - nothing writes to it
) -> list[Tensor]:
    """Add one node and one record for a loop over rows."""
    derivative = traced.derivative(tracked_inputs(traced))
    if not all(None not in known_here(r.symbol.shape) for r in derivative.residuals):
        return _record_ragged(traced, carry, rows, length, reverse)
    results = [*[t.array for t in traced.outputs], *[r.symbol for r in derivative.residuals]]
    program = Program(traced.graph, traced.symbols, results, given=_bounds(traced, carry, rows, length, counted))
    attrs = {
        "body": program,
        "carried": len(carry),
        "scanned": len(rows),
        "length": length,
        "reverse": reverse,
        "dce": dce_scan,
    }
    arrays = [t.array for t in (*carry, *rows)]
    outputs = [wrap(value) for value in add_node("scan", (*arrays, *program.others()), attrs)]
    uids = (*[t.uid for t in (*carry, *rows)], *traced.captured)
    count = len(traced.outputs)
    facts = {
        "derivative": derivative,
        "carried": len(carry),
        "length": length,
        "reverse": reverse,
        "inputs": (*carry, *rows),
    }
    record(active_recorders(), SCAN, uids, tuple(outputs), tuple(outputs[count:]), facts)
    return outputs[:count]


def _record_ragged(
    traced: Traced, carry: Sequence[Tensor], rows: Sequence[Tensor], length: int, reverse: bool
) -> list[Tensor]:
    """The same if residuals have different sizes in each iteration: values selected by the mask of a row, say."""
    count = len(carry)
    beside = len(traced.outputs) - count
    loop = DynamicLoop(traced, None, ((),) * count, ((),) * beside, reverse=reverse)
    stacks = [_as_stack(t, length) for t in rows]
    found = record_loop(loop, carry, stacks, wrap(_count(length)))
    return [*found[:count], *[array.reshape(s.flat, shape=(length, *s.like)) for s in found[count + 1 :]]]


def _count(length: Any) -> Any:
    """A number of iterations as an operand."""
    return number(length, np.int32) if is_dimension(length) else np.array(length, np.int32)


def _as_stack(rows: Tensor, length: int) -> RaggedStack:
    """The rows of a tensor as a ragged stack."""
    shape = tuple(rows.array.shape[1:])
    shapes = array.broadcast_to(wrap(sizes_of(shape, np.int64)), shape=(length, len(shape)))
    return RaggedStack(array.reshape(rows, shape=(length * math.prod(shape),)), shapes, shape)


def dce_scan(node: Node, used: Sequence[bool]) -> Node:
    """The same loop, without unused stacked outputs."""
    carried, scanned = node.attrs["carried"], node.attrs["scanned"]
    kept = [True] * carried + list(used[carried:])
    if all(kept):
        return node
    smaller, needs = without_outputs(node.attrs["body"], kept)
    explicit, others = node.args[: carried + scanned], node.args[carried + scanned :]
    outputs = tuple(out for out, wanted in zip(node.outputs, kept, strict=True) if wanted)
    attrs = {**node.attrs, "body": smaller, "dce": None}
    return Node(node.name, (*explicit, *[others[i] for i in needs]), attrs, outputs)


def _vjp_scan(
    xp: Any,
    cotangents: list[Any],
    needs: list[Any],
    *residuals: Any,
    derivative: Derivative,
    carried: int,
    length: int,
    reverse: bool,
    **_: Any,
) -> list[Any]:
    """The loop in reverse: it carries cotangents of carried values, and sums gradients of captured ones."""
    rows, cotangents, batched_again = as_tensors(cotangents)
    traced = derivative.traced
    lead = () if rows is None else (rows,)
    symbols = traced.outputs
    floats = [i for i in range(carried) if is_differentiable(symbols[i].array)]
    stacked = [i for i in range(carried, len(cotangents)) if cotangents[i] is not None]
    explicit = len(traced.inputs) - 1  # the index of the iteration is not an input of the record
    captured = [i for i in range(explicit, len(needs)) if needs[i] is not None and i + 1 in derivative.wanted]
    per_row = [i for i in range(carried, explicit) if i + 1 in derivative.wanted and needs[i] is not None]
    start = [or_zeros(cotangents[i], lead, symbols[i]) for i in floats]
    sums = empty_sums(traced, captured, needs, lead)
    saved = [as_tensor(r) for r in residuals]
    arrived = [cotangents[i] if rows is None else rows_inside(cotangents[i]) for i in stacked]

    def step(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        cts: list[Any] = [None] * len(cotangents)
        for i, ct in zip(floats, carry, strict=False):
            cts[i] = ct
        for i, ct in zip(stacked, row[len(saved) :], strict=True):
            cts[i] = ct
        wanted: list[Any] = [None] * (len(needs) + 1)
        for i in (*floats, *per_row):
            wanted[i + 1] = tuple(traced.inputs[i + 1].array.shape)
        for i in captured:
            wanted[i + 1] = needs[i]
        found = [dense(g) for g in derivative.gradients(cts, wanted, row[: len(saved)], rows)]
        new = [or_zeros(found[i + 1], lead, traced.inputs[i + 1]) for i in floats]
        totals = added(carry[len(floats) :], [found[i + 1] for i in captured])
        return [*new, *totals], [or_zeros(found[i + 1], lead, traced.inputs[i + 1]) for i in per_row]

    last, given = scan(step, [*start, *sums], [*saved, *arrived], length, not reverse)
    gradients: list[Any] = [None] * len(needs)
    for i, value in zip((*floats, *captured), last, strict=True):
        gradients[i] = narrowed(value, dtype_of_input(traced, i))
    for i, value in zip(per_row, given, strict=True):
        gradients[i] = value if rows is None else rows_outside(value)
    return batched_again(gradients)


def _jvp_scan(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """Run the loop again, with tangents of the carry and the rows."""
    derivative, inputs, carried = attrs["derivative"], attrs["inputs"], attrs["carried"]
    rows, given, batched_again = as_tensors(list(given))
    lead = () if rows is None else (rows,)
    traced = derivative.traced
    explicit = len(inputs)
    floats = [i for i in range(carried) if is_differentiable(traced.outputs[i].array)]
    moving = [i for i in range(carried, explicit) if given[i] is not None]
    alike = [*traced.outputs, *residual_tensors(derivative)]
    stacked = [i for i in range(carried, len(alike)) if is_differentiable(alike[i].array)]
    start = [or_zeros(given[i], lead, traced.outputs[i]) for i in floats]
    along = [given[i] if rows is None else rows_inside(given[i]) for i in moving]

    def step(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        values = [iteration_number(), *carry[:carried], *row[: explicit - carried]]
        directions = [None, *[None] * explicit, *given[explicit:]]
        for i, t in zip((*floats, *moving), (*carry[carried:], *row[explicit - carried :]), strict=True):
            directions[i + 1] = t
        results, found = with_tangents(traced, derivative.wanted, values, directions, derivative.residuals, rows)
        new = [or_zeros(found[i], lead, alike[i]) for i in floats]
        return [*results[:carried], *new], [or_zeros(found[i], lead, alike[i]) for i in stacked]

    last, given_out = scan(
        step, [*inputs[:carried], *start], [*inputs[carried:], *along], attrs["length"], attrs["reverse"]
    )
    tangents: list[Any] = [None] * len(alike)
    for i, value in zip(floats, last[carried:], strict=True):
        tangents[i] = value
    for i, value in zip(stacked, given_out, strict=True):
        tangents[i] = value if rows is None else rows_outside(value)
    return tuple(batched_again(tangents))


SCAN = program_op("scan", "Scan", _vjp_scan, _jvp_scan)
