"""Branches and loops inside of a traced function, with derivatives of every order.

Each branch and each body is traced by itself, like a function: a graph and a tape. In the program around it there is
one node, and on the tape around it one record. Its rule is again a branch or a loop, over the derivatives of what was
traced: residuals are further outputs, which a program that does not want them leaves away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays import numpy_namespace
from gradtape._src.arrays.checks import Interval
from gradtape._src.arrays.dimensions import is_dimension, is_known_shape
from gradtape._src.arrays.half import sum_dtype
from gradtape._src.arrays.symbolic import Graph, Node, Symbolic, call, current_graph, only_eager, tracing, zeros
from gradtape._src.conversion import convert, wrap
from gradtape._src.core import tape as stack
from gradtape._src.core.primitive import narrowed, program_op, widened
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import active_recorders
from gradtape._src.graph.bounds import Bounds
from gradtape._src.graph.derivative import Derivative
from gradtape._src.graph.program import Program
from gradtape._src.graph.trace import Trace, modes_of, record, tracked_shape, unbatched
from gradtape._src.graph.traced import Traced
from gradtape._src.ops import array, index, math
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import Variable

_SIMULATED = 20_000
_SCANNED_BYTES = 2**28
"""Up to how many iterations, and how much memory for what they carry, a loop is taken for one of known length."""

_KEPT_BYTES = 2**26
"""How much memory a loop of unknown length may use to remember what it carried."""


_GUESSED_BYTES = 2**20
"""What is taken for the size of tensors with unknown dimensions."""


class _Block:
    """A branch or a body that has been traced: its result, and the variables it changed."""

    def __init__(self, name: str, function: Callable[..., Any], inputs: Sequence[Any], iteration: bool = False) -> None:
        outer = current_graph()
        assert outer is not None
        self.graph = Graph(name, outer=outer)
        self.trace = Trace(self.graph)
        self.inputs: list[Tensor] = []
        with tracing(self.graph), stack.use_recorders((self.trace,)):
            if iteration:
                self.inputs.append(wrap(self.graph.argument((), np.dtype(np.int32))))
                self.graph.iteration = self.inputs[0].array
            for like in inputs:
                inside = wrap(self.graph.argument(tuple(like.array.shape), like.array.dtype))
                self.trace.track(inside)
                self.inputs.append(inside)
            self.result = function(*self.inputs[int(iteration) :])
        states = [s for s in self.graph.variables.values() if not s.variable.is_local_to(self.graph)]
        self.assigned = [s.variable for s in states if s.assigned]
        for state in states:  # tapes outside watch what is read here
            state.variable.notice_reading()

    def outputs(self) -> list[Any]:
        """The leaves of the result as tensors; None stays."""
        with tracing(self.graph), stack.use_recorders((self.trace,)):
            leaves = [None if leaf is None else _tensor(leaf) for leaf in nest.flatten(self.result, True)]
            return [None if leaf is None else self._own(leaf) for leaf in leaves]

    def _own(self, tensor: Tensor) -> Tensor:
        """A tensor from outside that is returned as it is: the same tensor, as a value of this graph."""
        if type(tensor.array) is not Symbolic or tensor.array.graph is self.graph:
            return tensor
        inside = Tensor()
        inside.array, inside.uid = self.graph.own(tensor.array), tensor.uid
        return inside

    def reading(self, variable: Variable) -> Tensor:
        """What a variable is at the end of the block."""
        with tracing(self.graph), stack.use_recorders((self.trace,)):
            return variable.state_in(self.graph).reading

    def traced(self, outputs: Sequence[Tensor]) -> Traced:
        return Traced(self.graph, self.trace, self.inputs, outputs)


def _tensor(leaf: Any) -> Tensor:
    return leaf if type(leaf) is Tensor else convert(leaf)


# -- branches --------------------------------------------------------------------------------------------------------
def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """The result of one of two functions, chosen when the program runs."""
    check_truth(convert(pred), "Input 'pred' passed {} expected bool", "If")
    chosen = array.astype(_scalar(convert(pred)), dtype=np.dtype(np.int32), source=convert(pred).array.dtype)
    return switch(chosen, [false_fn, true_fn], ("false_fn", "true_fn"))


def check_truth(tensor: Tensor, message: str, op: str) -> None:
    """A condition that is not boolean is refused when the program runs, in TensorFlow: the error is of that class."""
    if not tensor.dtype.is_bool:
        raise errors.refused_value(f"{message.format(tensor.dtype.name)}. Use tf.cast.", op)


def _scalar(tensor: Tensor) -> Tensor:
    shape = tuple(tensor.array.shape)
    if shape == ():
        return tensor
    if shape != (1,):
        raise errors.refused_value(
            f"The second input must be a scalar, but it has shape {errors.brackets(shape)}. A condition is one truth "
            "value: use tf.reduce_any or tf.reduce_all."
        )
    reshaped: Tensor = array.reshape(tensor, shape=())
    return reshaped


def switch(chosen: Tensor, functions: Sequence[Callable[[], Any]], names: Sequence[str]) -> Any:
    """The result of one of several functions, by number; a number that is too large means the last one."""
    blocks = [_Block(name, function, ()) for name, function in zip(names, functions, strict=True)]
    outputs = [block.outputs() for block in blocks]
    _check_alike(blocks, outputs, names)
    changed = list({v.uid: v for block in blocks for v in block.assigned}.values())
    there = [i for i, leaf in enumerate(outputs[0]) if leaf is not None]
    traced = [
        block.traced([*[out[i] for i in there], *[block.reading(v) for v in changed]])
        for block, out in zip(blocks, outputs, strict=True)
    ]
    results = _switched(chosen, traced)
    for variable, value in zip(changed, results[len(there) :], strict=True):
        variable.store(value.array)
    flat: list[Any] = [None] * len(outputs[0])
    for i, value in zip(there, results, strict=False):
        flat[i] = value
    return nest.pack_sequence_as(blocks[0].result, flat, True)


def _check_alike(blocks: Sequence[_Block], outputs: Sequence[list[Any]], names: Sequence[str]) -> None:
    """All branches must return the same structure, dtypes and shapes."""
    first = outputs[0]
    for name, found in zip(names, outputs, strict=True):
        if any(leaf is not None and leaf.array.dtype.kind == "O" for leaf in found):
            raise only_eager(
                TypeError(
                    f"{name} returns a string, which a compiled program cannot choose: XLA has numbers only. Return a "
                    "number, and look the words up outside of the function."
                )
            )
    for block, found, name in zip(blocks[1:], outputs[1:], names[1:], strict=True):
        try:
            nest.assert_same_structure(blocks[0].result, block.result, expand_composites=True)
        except (ValueError, TypeError) as error:
            raise TypeError(
                f"{names[0]} and {name} must have the same number, type, and overall structure of return values. "
                f"{names[0]} output: {blocks[0].result}, {name} output: {block.result}. {error}"
            ) from None
        for a, b in zip(first, found, strict=True):
            if (a is None) != (b is None):
                raise TypeError(f"{names[0]} and {name} must both return a value, or both None, at the same place.")
            if a is None:
                continue
            if a.dtype != b.dtype:
                raise TypeError(
                    f"{names[0]} and {name} must return tensors of the same dtype: {a.dtype.name} and {b.dtype.name} "
                    "were found. Use tf.cast in one of them."
                )
            if tuple(a.array.shape) != tuple(b.array.shape):
                raise only_eager(
                    ValueError(
                        f"{names[0]} and {name} must return tensors of the same shape in a compiled program: {a.shape} "
                        f"and {b.shape} were found. Pad one of them, or choose in Python before the function is called."
                    )
                )


def _switched(chosen: Tensor, traced: Sequence[Traced]) -> list[Tensor]:
    """One node and one record for several traced branches."""
    uids = tuple(sorted({uid for t in traced for uid in t.captured}))
    derivatives = [t.derivative(_wanted(t)) for t in traced]
    shares = [d.residuals for d in derivatives]
    programs = []
    for number, t in enumerate(traced):
        results = [out.array for out in t.outputs]
        with tracing(t.graph):
            for other, residuals in enumerate(shares):  # of the branches that did not run there are zeros
                results += [r.symbol if other == number else _nothing(r.symbol) for r in residuals]
        programs.append(Program(t.graph, t.symbols, results))
    outputs = [wrap(value) for value in _branch_node(chosen.array, programs)]
    count = len(traced[0].outputs)
    values = (chosen, *outputs[count:])
    record(active_recorders(), SWITCH, uids, tuple(outputs), values, {"derivatives": derivatives, "count": count})
    return outputs[:count]


def _branch_node(chosen: Any, programs: Sequence[Program]) -> list[Any]:
    others = [program.others() for program in programs]
    attrs = {
        "branches": tuple(programs),
        "splits": tuple(map(len, others)),
        "dce": _dce_switch,
    }
    if type(chosen) is not Symbolic:  # known while tracing: that branch alone
        return list(call("inline", tuple(programs[int(chosen)].operands(())), {"program": programs[int(chosen)]}))
    return list(call("switch", (chosen, *[x for share in others for x in share]), attrs))


def _dce_switch(node: Node, used: Sequence[bool]) -> Node:
    """The same branches, without unused results."""
    chosen, *operands = node.args
    branches = [_without(program, used) for program in node.attrs["branches"]]
    remaining = iter(operands)
    kept: list[Any] = []
    for program, (smaller, needs) in zip(node.attrs["branches"], branches, strict=True):
        mine = [next(remaining) for _ in program.others()]
        kept += [mine[i] for i in needs]
        del smaller
    attrs = {**node.attrs, "branches": tuple(b for b, _ in branches), "splits": tuple(len(n) for _, n in branches)}
    attrs["dce"] = None
    outputs = tuple(out for out, wanted in zip(node.outputs, used, strict=True) if wanted)
    return Node(node.name, (chosen, *kept), attrs, outputs)


def _without(program: Program, used: Sequence[bool]) -> tuple[Program, list[int]]:
    """A program with some of its outputs, and which of the captured operands it still needs."""
    smaller = program.with_outputs([out for out, wanted in zip(program.outputs, used, strict=True) if wanted])
    before = [f for f in program.feeds if not program.is_explicit(f)]
    after = {id(f.symbol) for f in smaller.feeds}
    return smaller, [i for i, feed in enumerate(before) if id(feed.symbol) in after]


def _nothing(symbol: Symbolic) -> Any:
    if not is_known_shape(symbol.shape):
        return zeros(symbol.shape, symbol.dtype)
    return np.broadcast_to(np.zeros((), symbol.dtype), symbol.shape)


def _wanted(traced: Traced) -> tuple[int, ...]:
    """The inputs of a block that are tracked."""
    recorders = active_recorders()
    own = [i for i, t in enumerate(traced.inputs) if is_differentiable(t.array)]
    captured = [i for i, uid in enumerate(traced.captured) if tracked_shape(uid, recorders) is not None]
    return (*own, *[len(traced.inputs) + i for i in captured])


def _recorded(g: list[Any]) -> tuple[int | None, list[Any], Callable[[list[Any]], list[Any]]]:
    """Cotangents as tensors; of a batch, with an axis for the rows: see `unbatched`."""
    rows, g, batched_again = unbatched(g)
    return rows, [None if x is None else x if isinstance(x, Tensor) else wrap(x) for x in g], batched_again


def _dense(value: Any) -> Any:
    return value.dense() if type(value) is SparseCotangent else value


def _vjp_switch(
    xp: Any, g: list[Any], needs: list[Any], chosen: Any, *residuals: Any, derivatives: list[Derivative], count: int
) -> list[Any]:
    """The derivative of whichever branch ran, as a branch of its own; None where no branch depends on an input."""
    rows, g, batched_again = _recorded(g)
    lead = () if rows is None else (rows,)
    shapes = dict(zip(_captured(derivatives), needs, strict=True))
    arrived = {x: [*g[:count], *g[start:end]] for x, start, end in _shares(derivatives, count)}
    saved = {x: residuals[start - count : end - count] for x, start, end in _shares(derivatives, count)}
    reached: set[int] = set()
    for derivative in derivatives:
        program, _ = derivative.backward(arrived[derivative], _by_branch(derivative, shapes), rows)
        uids = derivative.traced.inner_uids()
        reached.update(uids[i] for i, slot in zip(program.asked, program.slots, strict=True) if slot is not None)
    asked = [uid for uid in shapes if uid in reached]

    def branch(derivative: Derivative) -> Callable[[], list[Tensor]]:
        def gradients() -> list[Tensor]:
            needed = _by_branch(derivative, shapes)
            found = derivative.gradients(arrived[derivative], needed, saved[derivative], rows)
            mine = dict(zip(derivative.traced.inner_uids(), found, strict=True))
            return [
                wrap(zeros((*lead, *shapes[uid]), _dtype_of(uid, derivatives)))
                if mine.get(uid) is None
                else _dense(mine[uid])
                for uid in asked
            ]

        return gradients

    gradients: dict[int, Any] = {}
    if asked:
        names = [f"gradient of {derivative.traced.graph.name}" for derivative in derivatives]
        results = switch(_known_tensor(chosen), [branch(derivative) for derivative in derivatives], names)
        gradients = dict(zip(asked, results, strict=True))
    return batched_again([gradients.get(uid) for uid in shapes])


def _jvp_switch(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """The tangents of whichever branch ran: each branch runs again, with tangents."""
    derivatives, count = attrs["derivatives"], attrs["count"]
    rows, given, batched_again = _recorded(list(given))
    lead = () if rows is None else (rows,)
    directions = dict(zip(_captured(derivatives), given, strict=True))
    alike = [*derivatives[0].traced.outputs, *[t for x in derivatives for t in _residual_tensors(x)]]
    depends = [any(column) for column in zip(*[x.traced.differentiable for x in derivatives], strict=True)]
    there = [i for i, t in enumerate(alike) if is_differentiable(t.array) and (i >= count or depends[i])]

    def branch(derivative: Derivative, start: int, end: int) -> Callable[[], list[Tensor]]:
        def tangents() -> list[Tensor]:
            again = _for_tangents(derivative.traced, derivative.wanted)
            _, residuals = derivative.traced.with_residuals([], again)
            found = again.tangents(_by_branch(derivative, directions), residuals, derivative.residuals, rows)
            mine = dict(zip((*range(count), *range(start, end)), found, strict=True))
            return [_or_zeros(mine.get(i), lead, alike[i]) for i in there]

        return tangents

    results: dict[int, Any] = {}
    if there:
        functions = [branch(*share) for share in _shares(derivatives, count)]
        names = [f"tangent of {derivative.traced.graph.name}" for derivative in derivatives]
        results = dict(zip(there, switch(_known_tensor(saved[0]), functions, names), strict=True))
    return tuple(batched_again([results.get(i) for i in range(len(alike))]))


def _shares(derivatives: Sequence[Derivative], count: int) -> Iterator[tuple[Derivative, int, int]]:
    """Which of the outputs are the residuals of each branch: the first of them, and the one after the last."""
    start = count
    for derivative in derivatives:
        yield derivative, start, start + len(derivative.residuals)
        start += len(derivative.residuals)


def _captured(derivatives: Sequence[Derivative]) -> list[int]:
    """The inputs of the record of a branch."""
    return sorted({uid for derivative in derivatives for uid in derivative.traced.captured})


def _by_branch(derivative: Derivative, values: dict[int, Any]) -> list[Any]:
    """Values of the inputs of the record, for those of one branch."""
    return [values.get(uid) for uid in derivative.traced.inner_uids()]


def _dtype_of(uid: int, derivatives: Sequence[Derivative]) -> Any:
    return next(x.traced.dtype_of(uid) for x in derivatives if uid in x.traced.captured)


def _residual_tensors(derivative: Derivative) -> list[Tensor]:
    return [wrap(residual.symbol) for residual in derivative.residuals]


def _for_tangents(traced: Traced, wanted: tuple[int, ...]) -> Derivative:
    """The derivative of a block for forward mode and, if the tangents are tracked, for their derivative."""
    reverse, _ = modes_of(active_recorders())
    return traced.derivative(wanted, (), (reverse, True))


def _known_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else wrap(value)


SWITCH = program_op("switch", "Case", _vjp_switch, _jvp_switch)


# -- loops of known length -------------------------------------------------------------------------------------------
def scan(
    function: Callable[..., Any], carry: Sequence[Tensor], rows: Sequence[Tensor], length: int, reverse: bool = False
) -> tuple[list[Tensor], list[Tensor]]:
    """`function(carry, row)` for each row: the last carry, and what it gave beside it, stacked.

    `function` takes two lists of tensors and returns two lists.
    """
    first = [_row_like(t) for t in rows]

    def body(*values: Tensor) -> Any:
        new, given = function(list(values[: len(carry)]), list(values[len(carry) :]))
        return [*new, *given]

    block = _Block("loop", body, [*carry, *first], iteration=True)
    outputs = block.outputs()
    state, changed = _carried_variables(block)
    count = len(carry)
    _check_carry(carry, outputs[:count])
    inputs = block.inputs
    ordered = [*inputs[: 1 + count], *[t for t, _ in state], *inputs[1 + count :]]
    block.inputs = ordered
    traced = block.traced([*outputs[:count], *[block.reading(v) for v in changed], *outputs[count:]])
    results = _scanned(traced, [*carry, *[t for _, t in state]], rows, length, reverse)
    for variable, value in zip(changed, results[count:], strict=False):
        variable.store(value.array)
    return results[:count], results[count + len(changed) :]


def _row_like(tensor: Tensor) -> Tensor:
    return wrap(_nothing(Symbolic(current_graph(), tuple(tensor.array.shape[1:]), tensor.array.dtype)))  # type: ignore[arg-type]


def _carried_variables(block: _Block) -> tuple[list[tuple[Tensor, Tensor]], list[Variable]]:
    """Variables that a body assigns to go round with the loop: the tensor inside and the one outside of each."""
    pairs = []
    for variable in block.assigned:
        read = block.graph.variables[variable.uid].read
        place = next(i for i, feed in enumerate(block.graph.feeds) if feed.symbol is read)
        outside = wrap(block.graph.feeds[place].value)
        block.graph.feeds[place] = block.graph.feeds[place]._replace(kind="argument", value=None)
        pairs.append((wrap(read), outside))
    return pairs, block.assigned


def _check_carry(before: Sequence[Tensor], after: Sequence[Any], may_change: bool = False) -> None:
    if len(before) != len(after):
        raise ValueError(f"The loop has {len(before)} variables, and its body returned {len(after)} values.")
    for a, b in zip(before, after, strict=True):
        if b is None or a.dtype != b.dtype:
            what = "None" if b is None else b.dtype.name
            raise TypeError(
                f"Input tensor enters the loop with dtype {a.dtype.name}, but has dtype {what} after one iteration. "
                "Use tf.cast inside the loop, or start with the dtype it is to have."
            )
        if tuple(a.array.shape) != tuple(b.array.shape):
            problem = ValueError(
                f"Input tensor enters the loop with shape {a.shape}, but has shape {b.shape} after one iteration. To "
                "allow the shape to vary across iterations, use the `shape_invariants` argument of tf.while_loop to "
                "specify a less-specific shape. A compiled loop keeps shapes: write into a tensor of the final size "
                "(tf.tensor_scatter_nd_update, tf.TensorArray), or loop over Python numbers, which are unrolled."
            )
            raise only_eager(problem) if may_change else problem


def _bounds(
    traced: Traced, carry: Sequence[Tensor], rows: Sequence[Tensor], length: int, counted: dict[int, Interval]
) -> dict[int, Interval]:
    """What is known of integers that a loop hands to its body: the number of the iteration, rows, and counters."""
    symbols = [t.array for t in traced.inputs]
    given = {id(symbols[1 + i]): interval for i, interval in counted.items()}
    if not is_dimension(length) and length > 0:
        given[id(symbols[0])] = 0, length - 1
    bounds = Bounds()
    for symbol, row in zip(symbols[1 + len(carry) :], rows, strict=True):
        if row.array.dtype.kind in "iu" and (found := bounds.interval(row.array)) is not None:
            given[id(symbol)] = found
    return given


def _scanned(
    traced: Traced,
    carry: Sequence[Tensor],
    rows: Sequence[Tensor],
    length: int,
    reverse: bool,
    counted: dict[int, Interval] = {},  # noqa: B006 - nothing writes to it
) -> list[Tensor]:
    """One node and one record for a loop over rows."""
    derivative = traced.derivative(_wanted(traced))
    results = [*[t.array for t in traced.outputs], *[r.symbol for r in derivative.residuals]]
    program = Program(traced.graph, traced.symbols, results, given=_bounds(traced, carry, rows, length, counted))
    attrs = {
        "body": program,
        "carried": len(carry),
        "scanned": len(rows),
        "length": length,
        "reverse": reverse,
        "dce": _dce_scan,
    }
    arrays = [t.array for t in (*carry, *rows)]
    outputs = [wrap(value) for value in _node("scan", (*arrays, *program.others()), attrs)]
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


def _node(name: str, args: tuple[Any, ...], attrs: dict[str, Any]) -> tuple[Any, ...]:
    found = call(name, args, attrs)
    return found if type(found) is tuple else (found,)


def _dce_scan(node: Node, used: Sequence[bool]) -> Node:
    """The same loop, without unused stacked results."""
    carried, scanned = node.attrs["carried"], node.attrs["scanned"]
    kept = [True] * carried + list(used[carried:])
    if all(kept):
        return node
    smaller, needs = _without(node.attrs["body"], kept)
    explicit, others = node.args[: carried + scanned], node.args[carried + scanned :]
    outputs = tuple(out for out, wanted in zip(node.outputs, kept, strict=True) if wanted)
    attrs = {**node.attrs, "body": smaller, "dce": None}
    return Node(node.name, (*explicit, *[others[i] for i in needs]), attrs, outputs)


def _vjp_scan(
    xp: Any,
    d: list[Any],
    needs: list[Any],
    *residuals: Any,
    derivative: Derivative,
    carried: int,
    length: int,
    reverse: bool,
    **_: Any,
) -> list[Any]:
    """The loop backwards: cotangents of what was carried go round, and gradients of what was captured add up."""
    rows, d, batched_again = _recorded(d)
    traced = derivative.traced
    lead = () if rows is None else (rows,)
    symbols = traced.outputs
    floats = [i for i in range(carried) if is_differentiable(symbols[i].array)]
    stacked = [i for i in range(carried, len(d)) if d[i] is not None]
    explicit = len(traced.inputs) - 1  # the number of the iteration is no input of the record
    captured = [i for i in range(explicit, len(needs)) if needs[i] is not None and i + 1 in derivative.wanted]
    per_row = [i for i in range(carried, explicit) if i + 1 in derivative.wanted and needs[i] is not None]
    start = [_or_zeros(d[i], lead, symbols[i]) for i in floats]
    sums = _empty_sums(traced, captured, needs, lead)
    saved = [_known_tensor(r) for r in residuals]
    cotangents = [d[i] if rows is None else _rows_inside(d[i]) for i in stacked]

    def step(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        cotangents: list[Any] = [None] * len(d)
        for i, value in zip(floats, carry, strict=False):
            cotangents[i] = value
        for i, value in zip(stacked, row[len(saved) :], strict=True):
            cotangents[i] = value
        wanted: list[Any] = [None] * (len(needs) + 1)
        for i in (*floats, *per_row):
            wanted[i + 1] = tuple(traced.inputs[i + 1].array.shape)
        for i in captured:
            wanted[i + 1] = needs[i]
        found = [_dense(g) for g in derivative.gradients(cotangents, wanted, row[: len(saved)], rows)]
        new = [_or_zeros(found[i + 1], lead, traced.inputs[i + 1]) for i in floats]
        totals = _added(carry[len(floats) :], [found[i + 1] for i in captured])
        return [*new, *totals], [_or_zeros(found[i + 1], lead, traced.inputs[i + 1]) for i in per_row]

    last, given = scan(step, [*start, *sums], [*saved, *cotangents], length, not reverse)
    gradients: list[Any] = [None] * len(needs)
    for i, value in zip((*floats, *captured), last, strict=True):
        gradients[i] = narrowed(value, _dtype_of_input(traced, i))
    for i, value in zip(per_row, given, strict=True):
        gradients[i] = value if rows is None else _rows_outside(value)
    return batched_again(gradients)


def _jvp_scan(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """The loop again, with tangents of what it carries and takes."""
    derivative, inputs, carried = attrs["derivative"], attrs["inputs"], attrs["carried"]
    rows, given, batched_again = _recorded(list(given))
    lead = () if rows is None else (rows,)
    traced = derivative.traced
    explicit = len(inputs)
    floats = [i for i in range(carried) if is_differentiable(traced.outputs[i].array)]
    moving = [i for i in range(carried, explicit) if given[i] is not None]
    alike = [*traced.outputs, *_residual_tensors(derivative)]
    stacked = [i for i in range(carried, len(alike)) if is_differentiable(alike[i].array)]
    start = [_or_zeros(given[i], lead, traced.outputs[i]) for i in floats]
    along = [given[i] if rows is None else _rows_inside(given[i]) for i in moving]

    def step(carry: list[Tensor], row: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        values = [_iteration(), *carry[:carried], *row[: explicit - carried]]
        directions = [None, *[None] * explicit, *given[explicit:]]
        for i, t in zip((*floats, *moving), (*carry[carried:], *row[explicit - carried :]), strict=True):
            directions[i + 1] = t
        results, found = _with_tangents(traced, derivative.wanted, values, directions, derivative.residuals, rows)
        new = [_or_zeros(found[i], lead, alike[i]) for i in floats]
        return [*results[:carried], *new], [_or_zeros(found[i], lead, alike[i]) for i in stacked]

    last, given_out = scan(
        step, [*inputs[:carried], *start], [*inputs[carried:], *along], attrs["length"], attrs["reverse"]
    )
    tangents: list[Any] = [None] * len(alike)
    for i, value in zip(floats, last[carried:], strict=True):
        tangents[i] = value
    for i, value in zip(stacked, given_out, strict=True):
        tangents[i] = value if rows is None else _rows_outside(value)
    return tuple(batched_again(tangents))


def _with_tangents(
    traced: Traced,
    wanted: tuple[int, ...],
    values: Sequence[Tensor],
    directions: Sequence[Any],
    residuals: Sequence[Any],
    rows: int | None,
) -> tuple[list[Tensor], list[Any]]:
    """One iteration of a loop: its results, and the tangents of these and of residuals."""
    derivative = _for_tangents(traced, wanted)
    results, saved = traced.with_residuals(values, derivative)
    return results, derivative.tangents(directions, saved, residuals, rows)


def _iteration() -> Tensor:
    """The number of the iteration that is being traced."""
    graph = current_graph()
    assert graph is not None
    return wrap(graph.iteration)


def _added(totals: Sequence[Tensor], values: Sequence[Any]) -> list[Tensor]:
    return [total if value is None else total + widened(value) for total, value in zip(totals, values, strict=True)]


def _empty_sums(traced: Traced, captured: list[int], needs: list[Any], lead: tuple[int, ...]) -> list[Tensor]:
    """Where the gradients of what was captured add up, in float32 if they are narrower."""
    return [wrap(zeros((*lead, *needs[i]), sum_dtype(_dtype_of_input(traced, i)))) for i in captured]


def _dtype_of_input(traced: Traced, i: int) -> Any:
    return traced.dtype_of(traced.inner_uids()[i + 1])


def _or_zeros(g: Any, lead: tuple[int, ...], like: Tensor) -> Tensor:
    return wrap(zeros((*lead, *like.array.shape), like.array.dtype)) if g is None else g


def _rows_inside(g: Tensor) -> Tensor:
    """The axis of a batch behind the axis of a loop."""
    swapped: Tensor = array.transpose(g, perm=(1, 0, *range(2, len(g.array.shape))))
    return swapped


_rows_outside = _rows_inside


SCAN = program_op("scan", "Scan", _vjp_scan, _jvp_scan)


# -- loops of unknown length -----------------------------------------------------------------------------------------
def while_loop(
    test: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any = None,
    may_change: bool = False,
) -> Any:
    """Call `body` on the loop's variables as long as `test` of them holds, when the program runs.

    Its derivative goes back one iteration at a time. What was carried is kept every so many iterations, in bounded
    memory; what is needed between is computed again. Where shapes `may_change` a loop that does it is left to eager
    execution.
    """
    limit, most = _limit(maximum_iterations)
    flat = [convert(leaf) for leaf in nest.flatten(loop_vars, True)]
    structure = loop_vars

    def packed(values: Sequence[Tensor]) -> Any:
        return nest.pack_sequence_as(structure, list(values), True)

    def whole_body(*values: Tensor) -> Any:
        result = body(*packed(values))
        if not isinstance(result, (list, tuple)) or len(result) != len(structure):
            result = [result]
        nest.assert_same_structure(list(structure), list(result), check_types=False, expand_composites=True)
        return [
            leaf if isinstance(leaf, Tensor) else convert(leaf, None if isinstance(leaf, Variable) else like.dtype)
            for leaf, like in zip(nest.flatten(list(result), True), flat, strict=True)
        ]

    block = _Block("while_body", whole_body, flat, iteration=True)
    outputs = block.outputs()
    _check_carry(flat, outputs, may_change)
    state, changed = _carried_variables(block)
    block.inputs = [*block.inputs, *[t for t, _ in state]]
    traced = block.traced([*outputs, *[block.reading(v) for v in changed]])
    carry = [*flat, *[t for _, t in state]]

    def whole_test(*values: Tensor) -> Any:
        for variable, value in zip(changed, values[len(flat) :], strict=True):
            variable.store(value.array)
        truth = convert(test(*packed(values[: len(flat)])))
        check_truth(truth, "Input 'input' passed {} expected bool", "While")
        return _scalar(truth) if most is None else math.logical_and(_iteration() < most, _scalar(truth))

    question = _Block("while_test", whole_test, carry, iteration=True)
    asked = question.traced(question.outputs())
    iterations, counted = _iterations(asked, traced, carry, limit)
    if iterations is None:
        results = _looped(asked, traced, carry, limit, _slots(carry, limit))
    else:
        results = _scanned(traced, carry, [], iterations, False, counted)
    for variable, value in zip(changed, results[len(flat) : len(carry)], strict=True):
        variable.store(value.array)
    return packed(results[: len(flat)])


def abstract_eval(body: Callable[..., Any], loop_vars: Sequence[Any]) -> Any:
    """What a body makes of its variables when nothing is known of them; what it computes is thrown away."""
    outer = current_graph()
    assert outer is not None
    graph = Graph("abstract_eval", outer=outer)
    with tracing(graph), stack.use_recorders((Trace(graph),)):

        def unknown(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            return wrap(graph.argument(tuple(leaf.array.shape), leaf.array.dtype))

        return body(*nest.map_structure(unknown, list(loop_vars)))


def _iterations(
    test: Traced, body: Traced, carry: Sequence[Tensor], limit: int | None
) -> tuple[int | None, dict[int, Interval]]:
    """How often a loop goes round, if that can be told while tracing: when its test looks at counters alone.

    And between which values each of the counters is, by its position among what is carried.
    """
    question = Program(test.graph, test.symbols, [t.array for t in test.outputs])
    looked_at: set[int] = set()
    waiting = {number - 1 for number in question.explicit() if number}
    programs: dict[int, Program] = {}
    others = {-1: question.others()}
    while waiting:
        i = waiting.pop()
        looked_at.add(i)
        programs[i] = program = Program(body.graph, body.symbols, [body.outputs[i].array])
        others[i] = program.others()
        waiting |= {number - 1 for number in program.explicit() if number} - looked_at
    known = [x for share in others.values() for x in share] + [carry[i].array for i in looked_at]
    size = _bytes(carry)
    most = min(_SIMULATED, _SCANNED_BYTES // max(size, 1))
    if any(type(x) is not np.ndarray or x.size > 64 for x in known):
        return None, {}
    values = {i: carry[i].array for i in looked_at}
    counted: dict[int, Interval] = {}
    given: list[Any] = [None] * (len(carry) + 1)
    try:
        for iteration in range(most + 1):
            given[0] = np.asarray(iteration, np.int32)
            for i, value in values.items():
                given[i + 1] = value
            goes_on = question.invoke(given, others[-1], numpy_namespace)[0]
            if (limit is not None and iteration >= limit) or not np.all(goes_on):
                return iteration, counted
            for i, value in values.items():
                if value.dtype.kind in "iu" and value.size:
                    low, high = counted.get(i, (int(value.min()), int(value.max())))
                    counted[i] = min(low, int(value.min())), max(high, int(value.max()))
            values = {i: programs[i].invoke(given, others[i], numpy_namespace)[0] for i in looked_at}
    except (AttributeError, ValueError, TypeError):  # a function that only programs have
        return None, {}
    return None, {}


def _bytes(carry: Sequence[Tensor]) -> int:
    size = sum(t.array.size * t.array.dtype.itemsize for t in carry)
    return _GUESSED_BYTES if is_dimension(size) else size


def _limit(maximum: Any) -> tuple[int | None, Tensor | None]:
    """How many iterations there are at most: as a number or, where only the program knows it, as a tensor."""
    if maximum is None:
        return None, None
    most = _scalar(convert(maximum))
    if type(most.array) is not Symbolic:
        return int(most), None
    return None, array.astype(most, dtype=np.dtype(np.int32), source=most.array.dtype)


def _slots(carry: Sequence[Tensor], limit: int | None) -> int:
    """How many iterations a loop of unknown length keeps: an even number, because half of them are freed when full."""
    slots = max(16, min(4096, _KEPT_BYTES // max(_bytes(carry), 1)))
    if limit is not None:
        slots = max(1, min(slots, limit))
    return slots + slots % 2


def _looped(test: Traced, traced: Traced, carry: Sequence[Tensor], limit: int | None, slots: int) -> list[Tensor]:
    """One node and one record for a loop that ends when a test says so.

    What it carries at the end, the number of iterations, and what was kept: every how many iterations, and the values.
    """
    program = Program(traced.graph, traced.symbols, [t.array for t in traced.outputs])
    question = Program(test.graph, test.symbols, [t.array for t in test.outputs])
    attrs = {
        "body": program,
        "test": question,
        "carried": len(carry),
        "captured": len(program.others()),
        "limit": limit,
        "slots": slots,
        "dce": _dce_loop,
    }
    args = (*[t.array for t in carry], *program.others(), *question.others())
    outputs = [wrap(value) for value in _node("loop", args, attrs)]
    uids = (*[t.uid for t in carry], *traced.captured, *_tested(test, traced))
    count = len(carry)
    facts = {
        "traced": traced,
        "wanted": _wanted(traced),
        "carried": count,
        "inputs": tuple(carry),
        "test": test,
        "limit": limit,
        "slots": slots,
    }
    record(active_recorders(), LOOP, uids, tuple(outputs), tuple(outputs[count:]), facts)
    return outputs


def _tested(test: Traced, body: Traced) -> list[int]:
    """What the test of a loop captures, and its body does not."""
    return [uid for uid in test.captured if uid not in body.captured]


def _dce_loop(node: Node, used: Sequence[bool]) -> Node:
    """The same loop, which saves nothing if no derivative is needed."""
    count = node.attrs["carried"] + 1
    if any(used[count:]):
        return node
    return Node(node.name, node.args, {**node.attrs, "slots": 0, "dce": None}, node.outputs[:count])


def _vjp_loop(
    xp: Any,
    d: list[Any],
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
    """The loop backwards, from the last iteration to the first."""
    rows, d, batched_again = _recorded(d)
    lead = () if rows is None else (rows,)
    iterations, stride, kept = _known_tensor(iterations), _known_tensor(stride), tuple(map(_known_tensor, kept))
    derivative = traced.derivative(wanted)
    floats = [i for i in range(carried) if is_differentiable(traced.outputs[i].array)]
    inside = carried + len(traced.captured)  # what follows is used by the test alone
    captured = [i for i in range(carried, inside) if needs[i] is not None and i + 1 in wanted]
    start = [_or_zeros(d[i], lead, traced.outputs[i]) for i in floats]
    sums = _empty_sums(traced, captured, needs, lead)
    slots = [(i, d[carried + 2 + i]) for i in floats if d[carried + 2 + i] is not None]

    def forward(iteration: Tensor, *values: Tensor) -> list[Tensor]:
        return [iteration + 1, *traced([iteration, *values], False)]

    def backward(iteration: Tensor, *values: Tensor) -> list[Tensor]:
        slot = math.floor_divide(iteration, stride)
        nearest = [index.take(k, slot, axis=0, batch_dims=0) for k in kept]
        at = while_loop(lambda t, *_: t < iteration, forward, [slot * stride, *nearest])
        results, residuals = traced.with_residuals(at, derivative)
        cotangents: list[Any] = [None] * (len(results) + len(residuals))
        for i, value in zip(floats, values, strict=False):
            cotangents[i] = value
        shapes: list[Any] = [None] * (len(needs) + 1)
        for i in floats:
            shapes[i + 1] = tuple(traced.inputs[i + 1].array.shape)
        for i in captured:
            shapes[i + 1] = needs[i]
        found = [_dense(g) for g in derivative.gradients(cotangents, shapes, residuals, rows)]
        new = {i: _or_zeros(found[i + 1], lead, traced.inputs[i + 1]) for i in floats}
        for i, of_slots in slots:  # a second derivative has cotangents of what was saved, too
            share = index.take(of_slots, slot, axis=len(lead), batch_dims=0)
            held = math.equal(math.mod(iteration, stride), wrap(np.int32(0).reshape(())))
            new[i] = new[i] + math.where(held, share, wrap(np.zeros((), share.array.dtype)))
        totals = _added(values[len(floats) :], [found[i + 1] for i in captured])
        return [iteration - 1, *[new[i] for i in floats], *totals]

    _, *last = while_loop(lambda t, *_: t >= 0, backward, [iterations - 1, *start, *sums])
    gradients: list[Any] = [None] * len(needs)
    for i, uid in enumerate(_tested(test, traced), inside):
        if needs[i] is not None:
            gradients[i] = wrap(zeros((*lead, *needs[i]), test.dtype_of(uid)))
    for i, value in zip((*floats, *captured), last, strict=True):
        gradients[i] = narrowed(value, _dtype_of_input(traced, i))
    return batched_again(gradients)


def _jvp_loop(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """The loop again, with tangents of what it carries: as many iterations, and as much kept."""
    traced, test, inputs = attrs["traced"], attrs["test"], attrs["inputs"]
    rows, given, batched_again = _recorded(list(given))
    lead = () if rows is None else (rows,)
    count = len(inputs)
    floats = [i for i in range(count) if is_differentiable(traced.outputs[i].array)]

    def once(*values: Tensor) -> list[Tensor]:
        directions = [None, *[None] * count, *given[count:]]
        for i, t in zip(floats, values[count:], strict=True):
            directions[i + 1] = t
        results, found = _with_tangents(traced, attrs["wanted"], [_iteration(), *values[:count]], directions, (), rows)
        return [*results[:count], *[_or_zeros(found[i], lead, traced.outputs[i]) for i in floats]]

    def goes_on(*values: Tensor) -> Tensor:
        result: Tensor = test([_iteration(), *values[:count]], False)[0]
        return result

    carry = [*inputs, *[_or_zeros(given[i], lead, traced.outputs[i]) for i in floats]]
    body = _Block("while_body", once, carry, iteration=True)
    question = _Block("while_test", goes_on, carry, iteration=True)
    results = _looped(
        question.traced(question.outputs()), body.traced(body.outputs()), carry, attrs["limit"], attrs["slots"]
    )
    tangents: list[Any] = [None] * (2 * count + 2)
    for k, i in enumerate(floats):
        tangents[i] = results[count + k]
        tangents[count + 2 + i] = _kept_outside(results[len(carry) + 2 + count + k], lead)
    return tuple(batched_again(tangents))


def _kept_outside(kept: Tensor, lead: tuple[int, ...]) -> Tensor:
    """The axis of a batch in front of that of the slots."""
    return _rows_outside(kept) if lead else kept


LOOP = program_op("while_loop", "While", _vjp_loop, _jvp_loop)
