"""Loops whose length is known only when the program runs.

The derivative runs in reverse, one iteration at a time. The carry is saved every few iterations, in bounded memory, and
the iterations in between are recomputed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.dimensions import is_dimension
from gradtape._src.arrays.seeds import seeds
from gradtape._src.arrays.symbolic import (
    Graph,
    Node,
    Symbolic,
    allows_dynamic_shapes,
    current_graph,
    tracing,
    zeros,
)
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.primitive import narrowed, program_op
from gradtape._src.core.tape import active_recorders
from gradtape._src.graph.control_flow.block import (
    Block,
    add_node,
    carried_variables,
    check_carry,
    in_scope,
    iteration_number,
)
from gradtape._src.graph.control_flow.conditions import check_truth, scalar
from gradtape._src.graph.control_flow.derivatives import (
    added,
    as_tensors,
    dense,
    dtype_of_input,
    empty_sums,
    or_zeros,
    rows_outside,
    tracked_inputs,
    with_tangents,
)
from gradtape._src.graph.control_flow.dynamic_loops import (
    DynamicLoop,
    changing_shape,
    record_loop,
    tested_alone,
)
from gradtape._src.graph.control_flow.scans import record_scan
from gradtape._src.graph.control_flow.trip_count import carried_bytes, trip_count
from gradtape._src.graph.program import Program
from gradtape._src.graph.trace import Trace, as_tensor, record
from gradtape._src.graph.traced import Traced
from gradtape._src.interrupts import is_interrupt
from gradtape._src.ops import array, index, math
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable, store

_KEPT_BYTES = 2**26
"""The memory in which a loop of unknown length may save its carry."""


@in_scope("while")
def while_loop(
    test: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any = None,
    invariants: Sequence[Any] | None = None,
) -> Any:
    """Call `body` on the loop variables while `test` returns true for them, when the program runs.

    The derivative runs in reverse, one iteration at a time. The carry is saved every few iterations, in bounded memory,
    and recomputed in between. `invariants` are shapes of the variables, None for those without one: a size that is None
    there may change, and so may one that is unknown while tracing.
    """
    limit, most = _limit(maximum_iterations)
    flat = [convert(leaf) for leaf in nest.flatten(loop_vars, True)]
    count = len(flat)

    def packed(values: Sequence[Tensor]) -> Any:
        return nest.pack_sequence_as(loop_vars, list(values), True)

    def flat_body(*values: Tensor) -> Any:
        return _flat_result(body(*packed(values)), loop_vars, flat)

    block, outputs, changing = traced_body(flat_body, flat, invariants)
    state, changed = carried_variables(block)
    block.inputs = [*block.inputs, *[t for t, _ in state]]
    traced = block.traced([*outputs, *[block.reading(v) for v in changed]])
    carry = [*flat, *[t for _, t in state]]

    def flat_test(*values: Tensor) -> Any:
        for variable, value in zip(changed, values[count:], strict=True):
            store(variable, value.array)
        truth = convert(test(*packed(values[:count])))
        check_truth(truth, "Input 'input' passed {} expected bool", "While")
        return scalar(truth) if most is None else math.logical_and(iteration_number() < most, scalar(truth))

    axes = (*changing, *[()] * len(state))
    test_block = Block("while_test", flat_test, carry, True, list(map(changing_shape, carry, axes)))
    condition = test_block.traced(test_block.outputs())
    results = _recorded(condition, traced, carry, limit, axes)
    for variable, value in zip(changed, results[count : len(carry)], strict=True):
        store(variable, value.array)
    return packed(results[:count])


def _recorded(
    condition: Traced, body: Traced, carry: Sequence[Tensor], limit: int | None, changing: Sequence[tuple[int, ...]]
) -> list[Any]:
    """Record a loop with changing shapes, with a length that is known while tracing, or with unknown length."""
    if any(changing):
        return record_loop(DynamicLoop(body, condition, tuple(changing), limit=limit), carry, (), None)
    iterations, counted = trip_count(condition, body, carry, limit)
    if iterations is None:
        return _record_loop(condition, body, carry, limit, _slots(carry, limit))
    return record_scan(body, carry, [], iterations, False, counted)


def traced_body(
    body: Callable[..., Any], carry: Sequence[Tensor], invariants: Sequence[Any] | None
) -> tuple[Block, list[Any], list[tuple[int, ...]]]:
    """Trace the body of a loop: the block, its results and, for each value, the axes whose sizes change.

    It is traced with the sizes of the first iteration and, if they change and may, again with unknown sizes.
    """
    free = _free_axes(carry, invariants)
    changing: list[tuple[int, ...]] = [()] * len(carry)
    before = seeds.state()
    while True:
        try:
            block = Block("while_body", body, carry, True, list(map(changing_shape, carry, changing)))
            outputs = block.outputs()
            after = check_carry(carry, outputs, changing, free)
        except Exception as error:
            if changing == free or is_interrupt(error) or not allows_dynamic_shapes():
                raise
            after = free  # the code does not fit the sizes of the first iteration
        if after == changing:
            return block, outputs, changing
        seeds.restore(before)
        changing = after


def _free_axes(carry: Sequence[Tensor], invariants: Sequence[Any] | None) -> list[tuple[int, ...]]:
    """For each carried value, the axes whose sizes may change."""
    free = []
    for i, tensor in enumerate(carry):
        invariant = None if invariants is None or invariants[i] is None else TensorShape(invariants[i])
        sizes = tensor.array.shape if invariant is None else invariant.as_list() if invariant.rank is not None else None
        known = [None] * len(tensor.array.shape) if sizes is None else sizes
        free.append(tuple([axis for axis, n in enumerate(known) if n is None or is_dimension(n)]))
    return free


def _flat_result(result: Any, loop_vars: Any, like: Sequence[Tensor]) -> list[Tensor]:
    """The values that a body returned, as tensors: one for each loop variable."""
    if not isinstance(result, (list, tuple)) or len(result) != len(loop_vars):
        result = [result]
    nest.assert_same_structure(list(loop_vars), list(result), check_types=False, expand_composites=True)
    return [
        leaf if isinstance(leaf, Tensor) else convert(leaf, None if isinstance(leaf, Variable) else tensor.dtype)
        for leaf, tensor in zip(nest.flatten(list(result), True), like, strict=True)
    ]


def abstract_eval(body: Callable[..., Any], loop_vars: Sequence[Any]) -> Any:
    """The result of a body when nothing is known of its variables; the ops that it adds are discarded."""
    outer = current_graph()
    assert outer is not None
    graph = Graph("abstract_eval", outer=outer)
    with tracing(graph), stack.use_recorders((Trace(graph),)):

        def unknown(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            return wrap(graph.argument(tuple(leaf.array.shape), leaf.array.dtype))

        return body(*nest.map_structure(unknown, list(loop_vars)))


def _limit(maximum: Any) -> tuple[int | None, Tensor | None]:
    """The maximum number of iterations: as an int or, if only the program knows it, as a tensor."""
    if maximum is None:
        return None, None
    most = scalar(convert(maximum))
    if type(most.array) is not Symbolic:
        return int(most), None
    return None, array.astype(most, dtype=np.dtype(np.int32), source=most.array.dtype)


def _slots(carry: Sequence[Tensor], limit: int | None) -> int:
    """The number of carries that a loop saves: an even number, because half of them are freed when all are used."""
    budgets = [recorder.budget for recorder in active_recorders() if recorder.budget is not None]
    fitting = min([_KEPT_BYTES, *[budget.limit // 2 for budget in budgets]]) // max(carried_bytes(carry), 1)
    slots = max(2 if budgets else 16, min(4096, fitting))
    if limit is not None:
        slots = max(1, min(slots, limit))
    return slots + slots % 2


def _record_loop(test: Traced, traced: Traced, carry: Sequence[Tensor], limit: int | None, slots: int) -> list[Tensor]:
    """Add one node and one record for a loop that ends when a test is false.

    Its outputs are the final carry, the number of iterations, the stride of the saved carries, and the saved carries.
    """
    program = Program(traced.graph, traced.symbols, [t.array for t in traced.outputs])
    condition = Program(test.graph, test.symbols, [t.array for t in test.outputs])
    attrs = {
        "body": program,
        "test": condition,
        "carried": len(carry),
        "captured": len(program.others()),
        "limit": limit,
        "slots": slots,
        "dce": _dce_loop,
    }
    args = (*[t.array for t in carry], *program.others(), *condition.others())
    outputs = [wrap(value) for value in add_node("loop", args, attrs)]
    uids = (*[t.uid for t in carry], *traced.captured, *tested_alone(test, traced))
    count = len(carry)
    facts = {
        "traced": traced,
        "wanted": tracked_inputs(traced),
        "carried": count,
        "inputs": tuple(carry),
        "test": test,
        "limit": limit,
        "slots": slots,
    }
    record(active_recorders(), LOOP, uids, tuple(outputs), tuple(outputs[count:]), facts)
    return outputs


def _dce_loop(node: Node, used: Sequence[bool]) -> Node:
    """The same loop, which saves nothing if no derivative needs it."""
    count = node.attrs["carried"] + 1
    if any(used[count:]):
        return node
    return Node(node.name, node.args, {**node.attrs, "slots": 0, "dce": None}, node.outputs[:count])


def _vjp_loop(
    xp: Any,
    cotangents: list[Any],
    needs: list[Any],
    iterations: Any,
    stride: Any,
    *kept: Any,
    traced: Traced,
    test: Traced,
    wanted: Any,
    carried: int,
    **_: Any,
) -> list[Any]:
    """The loop in reverse, from the last iteration to the first."""
    rows, cotangents, batched_again = as_tensors(cotangents)
    lead = () if rows is None else (rows,)
    iterations, stride, kept = as_tensor(iterations), as_tensor(stride), tuple(map(as_tensor, kept))
    derivative = traced.derivative(wanted)
    floats = [i for i in range(carried) if is_differentiable(traced.outputs[i].array)]
    inside = carried + len(traced.captured)  # further inputs are used by the test alone
    captured = [i for i in range(carried, inside) if needs[i] is not None and i + 1 in wanted]
    start = [or_zeros(cotangents[i], lead, traced.outputs[i]) for i in floats]
    sums = empty_sums(traced, captured, needs, lead)
    of_slots = [(i, ct) for i in floats if (ct := cotangents[carried + 2 + i]) is not None]
    shapes: list[Any] = [None] * (len(needs) + 1)
    for i in floats:
        shapes[i + 1] = tuple(traced.inputs[i + 1].array.shape)
    for i in captured:
        shapes[i + 1] = needs[i]

    def backward(iteration: Tensor, *values: Tensor) -> list[Tensor]:
        slot = math.floor_divide(iteration, stride)
        results, residuals = traced.with_residuals(_recomputed(traced, iteration, slot, stride, kept), derivative)
        cts: list[Any] = [None] * (len(results) + len(residuals))
        for i, ct in zip(floats, values, strict=False):
            cts[i] = ct
        found = [dense(g) for g in derivative.gradients(cts, shapes, residuals, rows)]
        new = {i: or_zeros(found[i + 1], lead, traced.inputs[i + 1]) for i in floats}
        for i, ct in of_slots:  # in a second derivative, saved carries have cotangents, too
            new[i] = new[i] + _of_slot(ct, slot, math.equal(slot * stride, iteration), len(lead))
        totals = added(values[len(floats) :], [found[i + 1] for i in captured])
        return [iteration - 1, *[new[i] for i in floats], *totals]

    _, *last = while_loop(lambda t, *_: t >= 0, backward, [iterations - 1, *start, *sums])
    gradients: list[Any] = [None] * len(needs)
    for i, uid in enumerate(tested_alone(test, traced), inside):
        if needs[i] is not None:
            gradients[i] = wrap(zeros((*lead, *needs[i]), test.dtype_of(uid)))
    for i, value in zip((*floats, *captured), last, strict=True):
        gradients[i] = narrowed(value, dtype_of_input(traced, i))
    return batched_again(gradients)


def _recomputed(traced: Traced, iteration: Tensor, slot: Tensor, stride: Tensor, kept: Sequence[Tensor]) -> Any:
    """The carry at an iteration, recomputed from the last one that was saved before it."""

    def forward(number: Tensor, *values: Tensor) -> list[Tensor]:
        return [number + 1, *traced([number, *values], False)]

    nearest = [index.take(k, slot, axis=0, batch_dims=0) for k in kept]
    return while_loop(lambda number, *_: number < iteration, forward, [slot * stride, *nearest])


def _of_slot(ct: Tensor, slot: Tensor, was_saved: Tensor, axis: int) -> Tensor:
    """The cotangent of a saved carry for the iteration that saved it; zeros for the others."""
    share = index.take(ct, slot, axis=axis, batch_dims=0)
    chosen: Tensor = math.where(was_saved, share, wrap(np.zeros((), share.array.dtype)))
    return chosen


def _jvp_loop(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """Run the loop again, with tangents of the carry; it saves as many carries."""
    traced, test, inputs = attrs["traced"], attrs["test"], attrs["inputs"]
    rows, given, batched_again = as_tensors(list(given))
    lead = () if rows is None else (rows,)
    count = len(inputs)
    floats = [i for i in range(count) if is_differentiable(traced.outputs[i].array)]

    def once(*values: Tensor) -> list[Tensor]:
        directions = [None, *[None] * count, *given[count:]]
        for i, t in zip(floats, values[count:], strict=True):
            directions[i + 1] = t
        results, found = with_tangents(
            traced, attrs["wanted"], [iteration_number(), *values[:count]], directions, (), rows
        )
        return [*results[:count], *[or_zeros(found[i], lead, traced.outputs[i]) for i in floats]]

    def goes_on(*values: Tensor) -> Tensor:
        result: Tensor = test([iteration_number(), *values[:count]], False)[0]
        return result

    carry = [*inputs, *[or_zeros(given[i], lead, traced.outputs[i]) for i in floats]]
    body = Block("while_body", once, carry, iteration=True)
    condition = Block("while_test", goes_on, carry, iteration=True)
    results = _record_loop(
        condition.traced(condition.outputs()), body.traced(body.outputs()), carry, attrs["limit"], attrs["slots"]
    )
    tangents: list[Any] = [None] * (2 * count + 2)
    for k, i in enumerate(floats):
        tangents[i] = results[count + k]
        tangents[count + 2 + i] = _kept_outside(results[len(carry) + 2 + count + k], lead)
    return tuple(batched_again(tangents))


def _kept_outside(kept: Tensor, lead: tuple[int, ...]) -> Tensor:
    """Move the batch axis before the axis of saved carries."""
    return rows_outside(kept) if lead else kept


LOOP = program_op("while_loop", "While", _vjp_loop, _jvp_loop)
