"""Loops whose carried values change their shapes between iterations. They run on NumPy.

The residuals of each iteration have other shapes, too. They are stored as a ragged stack: the values of all iterations,
concatenated along one axis, and their shapes. The derivative is a loop in the opposite direction, which takes rows of
such stacks, and carries cotangents whose shapes change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradtape._src.arrays.symbolic import Node, current_graph, zeros
from gradtape._src.conversion import wrap
from gradtape._src.core.primitive import narrowed, program_op
from gradtape._src.core.tape import active_recorders
from gradtape._src.graph.control_flow.block import Block, add_node, in_scope, iteration_number, without_outputs
from gradtape._src.graph.control_flow.derivatives import (
    added,
    as_tensors,
    dense,
    dtype_of_input,
    empty_sums,
    for_tangents,
    or_zeros,
    tracked_inputs,
)
from gradtape._src.graph.derivative import Derivative
from gradtape._src.graph.program import Program
from gradtape._src.graph.trace import as_tensor, record
from gradtape._src.graph.traced import Traced
from gradtape._src.tensor import Tensor, is_differentiable

Sizes = tuple[Any, ...]
"""A shape, with None for sizes that change between iterations."""


class RaggedStack(NamedTuple):
    """A value for each iteration: all of them concatenated along the last axis of `flat`, and the shape of each.

    `like` is what their shapes have in common. The leading axes of `flat` belong to every value.
    """

    flat: Tensor
    shapes: Tensor
    like: Sizes

    @property
    def lead(self) -> Sizes:
        """The leading axes, which belong to every value."""
        return tuple(self.flat.array.shape[:-1])


class DynamicLoop(NamedTuple):
    """A traced loop. It ends when `test` is false or, without a test, after a given number of iterations.

    leads    for each stacked output: the leading axes, which have one size in all iterations
    changing for each carried value: the axes whose sizes change
    """

    body: Traced
    test: Traced | None
    changing: tuple[tuple[int, ...], ...]
    leads: tuple[Sizes, ...] = ()
    limit: int | None = None
    reverse: bool = False


def known_here(shape: Sequence[Any]) -> Sizes:
    """A shape with None for sizes of another graph, which are out of scope."""
    graph = current_graph()
    assert graph is not None
    return tuple([n if type(n) is int or graph.has(n) else None for n in shape])


def changing_shape(tensor: Tensor, axes: Sequence[int]) -> Sizes:
    """The shape of a carried value, with None for the axes whose sizes change."""
    return tuple([None if axis in axes else n for axis, n in enumerate(tensor.array.shape)])


def record_loop(loop: DynamicLoop, carry: Sequence[Tensor], rows: Sequence[RaggedStack], length: Any) -> list[Any]:
    """Add one node and one record for a loop: the final carry, the number of iterations, and ragged stacks."""
    derivative = loop.body.derivative(tracked_inputs(loop.body))
    tested = loop.test
    symbols = [*[t.array for t in loop.body.outputs], *[r.symbol for r in derivative.residuals]]
    program = Program(loop.body.graph, loop.body.symbols, symbols)
    condition = None if tested is None else Program(tested.graph, tested.symbols, [t.array for t in tested.outputs])
    leads = (*loop.leads, *[()] * len(derivative.residuals))
    attrs = {
        "body": program,
        "test": condition,
        "carried": len(carry),
        "scanned": len(rows),
        "captured": len(program.others()),
        "limit": loop.limit,
        "reverse": loop.reverse,
        "changing": loop.changing,
        "leads": leads,
        "dce": _dce_loop,
    }
    for_test = [length.array] if condition is None else condition.others()
    args = [t.array for t in carry] + [x.array for row in rows for x in (row.flat, row.shapes)]
    outputs = [wrap(v) for v in add_node("dynamic_loop", (*args, *program.others(), *for_test), attrs)]
    count = len(carry)
    uids = [*[t.uid for t in carry], *[row.flat.uid for row in rows], *loop.body.captured]
    uids += [] if tested is None else tested_alone(tested, loop.body)
    stacks = _stacks(outputs[count + 1 :], symbols[count:], leads)
    facts = {
        "loop": loop,
        "derivative": derivative,
        "carried": len(carry),
        "carry": tuple(carry),
        "rows": tuple(rows),
        "ends": tuple(outputs[:count]),
        "stacks": tuple(stacks),
    }
    saved = (outputs[count], *[x for stack in stacks for x in (stack.flat, stack.shapes)])
    record(active_recorders(), DYNAMIC_LOOP, tuple(uids), tuple(outputs), tuple(saved), facts)
    return [*outputs[: count + 1], *stacks[: len(loop.leads)]]


def _stacks(outputs: Sequence[Tensor], symbols: Sequence[Any], leads: Sequence[Sizes]) -> list[RaggedStack]:
    """The stacked outputs of a node, each of which takes two."""
    return [
        RaggedStack(outputs[2 * i], outputs[2 * i + 1], known_here(symbol.shape[len(lead) :]))
        for i, (symbol, lead) in enumerate(zip(symbols, leads, strict=True))
    ]


def _dce_loop(node: Node, used: Sequence[bool]) -> Node:
    """The same loop, without unused stacks."""
    attrs = node.attrs
    carried, stacks = attrs["carried"], len(attrs["leads"])
    pairs = [any(used[carried + 1 + 2 * i : carried + 3 + 2 * i]) for i in range(stacks)]
    if all(pairs):
        return node
    smaller, needs = without_outputs(attrs["body"], [*[True] * carried, *pairs])
    explicit = carried + 2 * attrs["scanned"]
    others, for_test = (
        node.args[explicit : explicit + attrs["captured"]],
        node.args[explicit + attrs["captured"] :],
    )
    kept = [*[True] * (carried + 1), *[flag for flag in pairs for _ in range(2)]]
    outputs = tuple([out for out, wanted in zip(node.outputs, kept, strict=True) if wanted])
    leads = tuple([lead for lead, wanted in zip(attrs["leads"], pairs, strict=True) if wanted])
    attrs = {**attrs, "body": smaller, "captured": len(needs), "leads": leads, "dce": None}
    return Node(node.name, (*node.args[:explicit], *[others[i] for i in needs], *for_test), attrs, outputs)


# -- loops over rows -------------------------------------------------------------------------------------------------
Step = Callable[[list[Tensor], list[Tensor]], tuple[list[Tensor], list[Tensor]]]
"""One step of a loop: from a carry and a row to the next carry and an output."""


class _Rows(NamedTuple):
    """The stacks that a loop takes rows of, the number of rows, and whether it starts with the last one.

    leads  the leading axes of each output of a step
    """

    stacks: Sequence[RaggedStack]
    length: Tensor
    reverse: bool
    leads: tuple[Sizes, ...]


@in_scope("while")
def scan(
    step: Step, carry: Sequence[Tensor], changing: Sequence[tuple[int, ...]], rows: _Rows
) -> tuple[list[Tensor], list[RaggedStack]]:
    """Run a step for each row: the final carry, and the stacked outputs."""
    count = len(carry)

    def body(*values: Tensor) -> Any:
        new, given = step(list(values[:count]), list(values[count:]))
        return [*new, *given]

    shapes = [*map(changing_shape, carry, changing), *[(*stack.lead, *stack.like) for stack in rows.stacks]]
    block = Block("loop", body, [*carry, *[stack.flat for stack in rows.stacks]], True, shapes)
    loop = DynamicLoop(block.traced(block.outputs()), None, tuple(changing), rows.leads, reverse=rows.reverse)
    found = record_loop(loop, carry, rows.stacks, rows.length)
    return found[:count], found[count + 1 :]


# -- derivatives -----------------------------------------------------------------------------------------------------
class _Facts(NamedTuple):
    """The attributes of the record of a loop."""

    loop: DynamicLoop
    derivative: Derivative
    carried: int
    carry: tuple[Tensor, ...]
    rows: tuple[RaggedStack, ...]
    ends: tuple[Tensor, ...]
    stacks: tuple[RaggedStack, ...]

    @property
    def floats(self) -> list[int]:
        """The positions of the carried values that are differentiable."""
        return [i for i, t in enumerate(self.ends) if is_differentiable(t.array)]

    def of_stacks(self, values: Sequence[Any]) -> list[Any]:
        """The values of the stacks, among those of all outputs."""
        return list(values[self.carried + 1 :: 2])

    def stack_lead(self, i: int) -> Sizes:
        """The leading axes of a stack."""
        return self.loop.leads[i] if i < len(self.loop.leads) else ()

    def wanted(self, needs: Sequence[Any]) -> tuple[list[int], list[int]]:
        """The positions of the rows and of the captured values whose gradients are needed."""
        first, end = self.carried + len(self.rows), len(self.loop.body.inner_uids()) - 1
        found = [i for i in range(self.carried, end) if needs[i] is not None and i + 1 in self.derivative.wanted]
        return [i for i in found if i < first], [i for i in found if i >= first]


def _behind(axes: Sequence[int], lead: Sizes) -> tuple[int, ...]:
    return tuple([axis + len(lead) for axis in axes])


def _vjp_loop(xp: Any, cotangents: list[Any], needs: list[Any], *saved: Any, **attrs: Any) -> list[Any]:
    """The loop in reverse: it carries cotangents of carried values, and sums gradients of captured ones."""
    facts = _Facts(**attrs)
    rows, cotangents, batched_again = as_tensors(cotangents)
    lead = () if rows is None else (rows,)
    iterations, *kept = map(as_tensor, saved)
    stacks = [RaggedStack(kept[2 * i], kept[2 * i + 1], s.like) for i, s in enumerate(facts.stacks)]
    arrived = {
        i: RaggedStack(ct, stacks[i].shapes, stacks[i].like)
        for i, ct in enumerate(facts.of_stacks(cotangents))
        if ct is not None
    }
    per_row, captured = facts.wanted(needs)
    floats, body, carried = facts.floats, facts.loop.body, facts.carried
    sums = empty_sums(body, captured, needs, lead)
    last, given = scan(
        _backward_step(facts, needs, [*arrived], rows),
        [*[or_zeros(cotangents[i], lead, facts.ends[i]) for i in floats], *sums],
        [*[_behind(facts.loop.changing[i], lead) for i in floats], *[()] * len(sums)],
        _Rows(
            [*stacks[len(facts.loop.leads) :], *arrived.values()],
            iterations,
            not facts.loop.reverse,
            tuple([(*lead, *facts.rows[i - carried].lead) for i in per_row]),
        ),
    )
    gradients: list[Any] = [None] * len(needs)
    for i, value in zip((*floats, *captured), last, strict=True):
        gradients[i] = narrowed(value, dtype_of_input(body, i))
    for i, stack in zip(per_row, given, strict=True):
        gradients[i] = stack.flat
    for i in range(len(body.inner_uids()) - 1, len(needs)):  # those that only the test uses
        if needs[i] is not None:
            gradients[i] = wrap(zeros((*lead, *needs[i]), _dtype_in_test(facts, i)))
    return batched_again(gradients)


def _dtype_in_test(facts: _Facts, i: int) -> Any:
    test = facts.loop.test
    assert test is not None
    own = tested_alone(test, facts.loop.body)
    return test.dtype_of(own[i - len(facts.loop.body.inner_uids()) + 1])


def tested_alone(test: Traced, body: Traced) -> list[int]:
    """The values that the test of a loop captures, and its body does not."""
    return [uid for uid in test.captured if uid not in body.captured]


def _backward_step(facts: _Facts, needs: Sequence[Any], arrived: Sequence[int], rows: int | None) -> Step:
    """One iteration in reverse. A row has the residuals, and the cotangents of some stacks (by position)."""
    derivative, floats, carried = facts.derivative, facts.floats, facts.carried
    body = facts.loop.body
    per_row, captured = facts.wanted(needs)
    lead = () if rows is None else (rows,)
    shapes: list[Any] = [None] * len(body.inner_uids())
    for i in (*floats, *per_row):
        shapes[i + 1] = tuple(body.inputs[i + 1].array.shape)
    for i in captured:
        shapes[i + 1] = needs[i]

    def step(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        saved = len(derivative.residuals)
        cts: list[Any] = [None] * (carried + len(facts.stacks))
        for i, ct in zip(floats, carry, strict=False):
            cts[i] = ct
        for i, ct in zip(arrived, row[saved:], strict=True):
            cts[carried + i] = ct
        found = [dense(g) for g in derivative.gradients(cts, shapes, row[:saved], rows)]
        new = [or_zeros(found[i + 1], lead, body.inputs[i + 1]) for i in floats]
        totals = added(carry[len(floats) :], [found[i + 1] for i in captured])
        return [*new, *totals], [or_zeros(found[i + 1], lead, body.inputs[i + 1]) for i in per_row]

    return step


def _jvp_loop(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """Run the loop again, with tangents of the carry and the rows."""
    facts = _Facts(**attrs)
    rows, given, batched_again = as_tensors(list(given))
    lead = () if rows is None else (rows,)
    carried, floats, loop = facts.carried, facts.floats, facts.loop
    moving = [i for i in range(carried, carried + len(facts.rows)) if given[i] is not None]
    along = [facts.rows[i - carried]._replace(flat=given[i]) for i in moving]
    step = _ForwardStep(facts, given, moving, rows)
    carry = [*facts.carry, *[or_zeros(given[i], lead, facts.carry[i]) for i in floats]]
    changing = (*loop.changing, *[_behind(loop.changing[i], lead) for i in floats])
    stacks = [*facts.rows, *along]
    shapes = [*map(changing_shape, carry, changing), *[(*stack.lead, *stack.like) for stack in stacks]]
    block = Block("loop", step, [*carry, *[stack.flat for stack in stacks]], True, shapes)
    again = DynamicLoop(
        block.traced(block.outputs()),
        None if loop.test is None else _same_test(loop.test, carry, changing, carried),
        changing,
        tuple([(*lead, *facts.stack_lead(i)) for i in step.there]),
        loop.limit,
        loop.reverse,
    )
    results = record_loop(again, carry, stacks, as_tensor(saved[0]))
    tangents: list[Any] = [None] * (carried + 1 + 2 * len(facts.stacks))
    for k, i in enumerate(floats):
        tangents[i] = results[carried + k]
    for i, stack in zip(step.there, results[len(carry) + 1 :], strict=True):
        tangents[carried + 1 + 2 * i] = stack.flat
    return tuple(batched_again(tangents))


class _ForwardStep:
    """One iteration with tangents: the next carry, its tangents, and tangents of the stacks that have any."""

    def __init__(self, facts: _Facts, given: Sequence[Any], moving: Sequence[int], rows: int | None) -> None:
        self._facts, self._given, self._moving, self._rows = facts, given, moving, rows
        self.there: list[int] = []  # the positions of stacks that have tangents

    def __call__(self, *values: Tensor) -> list[Tensor]:
        facts, lead = self._facts, () if self._rows is None else (self._rows,)
        body, carried, floats = facts.loop.body, facts.carried, facts.floats
        first = carried + len(floats)
        after = first + len(facts.rows)
        explicit = carried + len(facts.rows)
        directions = [None, *[None] * explicit, *self._given[explicit : len(body.inner_uids()) - 1]]
        for i, t in zip((*floats, *self._moving), (*values[carried:first], *values[after:]), strict=True):
            directions[i + 1] = t
        derivative = for_tangents(body, facts.derivative.wanted)
        inputs = [iteration_number(), *values[:carried], *values[first:after]]
        results, kept = body.with_residuals(inputs, derivative)
        found = derivative.tangents(directions, kept, facts.derivative.residuals, self._rows)
        self.there = [i for i, t in enumerate(found[carried:]) if t is not None]
        new = [or_zeros(found[i], lead, results[i]) for i in floats]
        return [*results[:carried], *new, *[found[carried + i] for i in self.there]]


def _same_test(test: Traced, carry: Sequence[Tensor], changing: Sequence[tuple[int, ...]], carried: int) -> Traced:
    """The test of a loop, for a loop that carries tangents as well."""

    def goes_on(*values: Tensor) -> Tensor:
        result: Tensor = test([iteration_number(), *values[:carried]], False)[0]
        return result

    block = Block("while_test", goes_on, carry, True, list(map(changing_shape, carry, changing)))
    return block.traced(block.outputs())


DYNAMIC_LOOP = program_op("dynamic_loop", "While", _vjp_loop, _jvp_loop)
