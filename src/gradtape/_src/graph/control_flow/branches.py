"""Branches: a program runs one of several blocks; the derivative is a branch as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.graph_ops import for_all_sizes
from gradtape._src.arrays.symbolic import (
    Node,
    Symbolic,
    allows_dynamic_shapes,
    call,
    current_graph,
    only_eager,
    tracing,
    zeros,
)
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.primitive import program_op
from gradtape._src.core.tape import active_recorders
from gradtape._src.graph.control_flow.block import Block, in_scope, without_outputs, zeros_like_symbol
from gradtape._src.graph.control_flow.conditions import check_truth, scalar
from gradtape._src.graph.control_flow.derivatives import (
    as_tensors,
    dense,
    for_tangents,
    residual_tensors,
    tracked_inputs,
)
from gradtape._src.graph.derivative import Derivative, residual_tensor
from gradtape._src.graph.program import Program
from gradtape._src.graph.trace import as_tensor, record
from gradtape._src.graph.traced import Traced
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor, is_differentiable
from gradtape._src.variable import store


@in_scope("cond")
def cond(pred: Any, true_fn: Callable[[], Any], false_fn: Callable[[], Any]) -> Any:
    """The result of one of two functions, chosen when the program runs."""
    check_truth(convert(pred), "Input 'pred' passed {} expected bool", "If")
    chosen = array.astype(scalar(convert(pred)), dtype=np.dtype(np.int32), source=convert(pred).array.dtype)
    return switch(chosen, [false_fn, true_fn], ("false_fn", "true_fn"))


def switch(chosen: Tensor, functions: Sequence[Callable[[], Any]], names: Sequence[str]) -> Any:
    """The result of one of several functions, chosen by index; an index out of range means the last one."""
    blocks = [Block(name, function, ()) for name, function in zip(names, functions, strict=True)]
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
        store(variable, value.array)
    flat: list[Any] = [None] * len(outputs[0])
    for i, value in zip(there, results, strict=False):
        flat[i] = value
    return nest.pack_sequence_as(blocks[0].result, flat, True)


def _check_alike(blocks: Sequence[Block], outputs: Sequence[list[Any]], names: Sequence[str]) -> None:
    """All branches must return the same structure, dtypes and shapes."""
    first = outputs[0]
    for name, found in zip(names, outputs, strict=True):
        if not allows_dynamic_shapes() and any(leaf is not None and leaf.array.dtype.kind == "O" for leaf in found):
            raise only_eager(
                TypeError(
                    f"{name} returns a string, which a compiled program cannot select: XLA supports only numbers. "
                    "Return a number, and look up the string outside the function."
                )
            )
    for block, found, name in zip(blocks[1:], outputs[1:], names[1:], strict=True):
        try:
            nest.assert_same_structure(blocks[0].result, block.result, expand_composites=True)
        except (ValueError, TypeError) as error:
            raise for_all_sizes(
                TypeError(
                    f"{names[0]} and {name} must have the same number, type, and overall structure of return values. "
                    f"{names[0]} output: {blocks[0].result}, {name} output: {block.result}. {error}"
                )
            ) from None
        for a, b in zip(first, found, strict=True):
            _check_pair(a, b, (names[0], name))


def _check_pair(a: Any, b: Any, names: tuple[str, str]) -> None:
    """Two branches must return the same dtype and shape at a position, or both None."""
    if (a is None) != (b is None):
        sentence = f"{names[0]} and {names[1]} must both return a value, or both None, at the same position."
        raise for_all_sizes(TypeError(sentence))
    if a is None:
        return
    if a.dtype != b.dtype:
        raise for_all_sizes(
            TypeError(
                f"{names[0]} and {names[1]} must return tensors of the same dtype: {a.dtype.name} and {b.dtype.name} "
                "were found. Use tf.cast in one of them."
            )
        )
    if tuple(a.array.shape) != tuple(b.array.shape) and not (allows_dynamic_shapes() and a.shape.rank == b.shape.rank):
        raise only_eager(
            ValueError(
                f"{names[0]} and {names[1]} must return tensors of the same shape in a compiled program: {a.shape} "
                f"and {b.shape} were found. Pad one of them, or choose in Python before the function is called."
            )
        )


def _switched(chosen: Tensor, traced: Sequence[Traced]) -> list[Tensor]:
    """Add one node and one record for several traced branches."""
    uids = tuple(sorted({uid for t in traced for uid in t.captured}))
    derivatives = [t.derivative(tracked_inputs(t)) for t in traced]
    shares = [d.residuals for d in derivatives]
    programs = []
    for number, t in enumerate(traced):
        results = [out.array for out in t.outputs]
        with tracing(t.graph):
            for other, residuals in enumerate(shares):  # zeros in place of the residuals of branches that did not run
                results += [r.symbol if other == number else zeros_like_symbol(r.symbol) for r in residuals]
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
    if type(chosen) is not Symbolic:  # known while tracing: only that branch
        return list(call("inline", tuple(programs[int(chosen)].operands(())), {"program": programs[int(chosen)]}))
    return list(call("switch", (chosen, *[x for share in others for x in share]), attrs))


def _dce_switch(node: Node, used: Sequence[bool]) -> Node:
    """The same branches, without unused outputs."""
    chosen, *operands = node.args
    branches = [without_outputs(program, used) for program in node.attrs["branches"]]
    remaining = iter(operands)
    kept: list[Any] = []
    for program, (_, needs) in zip(node.attrs["branches"], branches, strict=True):
        mine = [next(remaining) for _ in program.others()]
        kept += [mine[i] for i in needs]
    attrs = {**node.attrs, "branches": tuple(b for b, _ in branches), "splits": tuple(len(n) for _, n in branches)}
    attrs["dce"] = None
    outputs = tuple(out for out, wanted in zip(node.outputs, used, strict=True) if wanted)
    return Node(node.name, (chosen, *kept), attrs, outputs)


def _vjp_switch(
    xp: Any,
    cotangents: list[Any],
    needs: list[Any],
    chosen: Any,
    *residuals: Any,
    derivatives: list[Derivative],
    count: int,
) -> list[Any]:
    """The gradients of the branch that ran, computed in a branch; None for inputs that no branch depends on."""
    rows, cotangents, batched_again = as_tensors(cotangents)
    lead = () if rows is None else (rows,)
    shapes = dict(zip(_captured(derivatives), needs, strict=True))
    arrived = {x: [*cotangents[:count], *cotangents[start:end]] for x, start, end in _shares(derivatives, count)}
    saved = {x: residuals[start - count : end - count] for x, start, end in _shares(derivatives, count)}
    reached: set[int] = set()
    for derivative in derivatives:
        program, _ = derivative.backward(arrived[derivative], _by_branch(derivative, shapes), rows)
        uids = derivative.traced.inner_uids()
        reached.update(
            uids[i] for i, slot in zip(program.source_inputs, program.slots, strict=True) if slot is not None
        )
    sources = [uid for uid in shapes if uid in reached]

    def branch(derivative: Derivative) -> Callable[[], list[Tensor]]:
        def gradients() -> list[Tensor]:
            needed = _by_branch(derivative, shapes)
            here = [_in_shape(c, t, lead) for c, t in zip(arrived[derivative], outputs_of(derivative), strict=True)]
            found = derivative.gradients(here, needed, saved[derivative], rows)
            mine = dict(zip(derivative.traced.inner_uids(), found, strict=True))
            return [
                wrap(zeros((*lead, *shapes[uid]), _dtype_of(uid, derivatives)))
                if mine.get(uid) is None
                else dense(mine[uid])
                for uid in sources
            ]

        return gradients

    gradients: dict[int, Any] = {}
    if sources:
        names = [f"gradient of {derivative.traced.graph.name}" for derivative in derivatives]
        results = switch(as_tensor(chosen), [branch(derivative) for derivative in derivatives], names)
        gradients = dict(zip(sources, results, strict=True))
    return batched_again([gradients.get(uid) for uid in shapes])


def outputs_of(derivative: Derivative) -> list[Tensor]:
    """The outputs of the forward program of a branch, and its residuals."""
    return [*derivative.traced.outputs, *[residual_tensor(r) for r in derivative.residuals]]


def _in_shape(cotangent: Any, output: Tensor, lead: tuple[int, ...]) -> Any:
    """Reshape a cotangent to the shape of an output of one branch, if branches return different shapes."""
    shape = (*lead, *output.array.shape)
    graph = current_graph()
    if cotangent is None or graph is None or is_known_shape(cotangent.array.shape):
        return cotangent
    if tuple(cotangent.array.shape) == shape or not all(map(graph.has, shape)):
        return cotangent
    return array.reshape(cotangent, shape=shape)


def _jvp_switch(given: list[Any], saved: list[Any], attrs: dict[str, Any], _: Any) -> tuple[Any, ...]:
    """The tangents of the branch that ran: each branch runs again, with tangents."""
    derivatives, count = attrs["derivatives"], attrs["count"]
    rows, given, batched_again = as_tensors(list(given))
    lead = () if rows is None else (rows,)
    directions = dict(zip(_captured(derivatives), given, strict=True))
    alike = [*derivatives[0].traced.outputs, *[t for x in derivatives for t in residual_tensors(x)]]
    depends = [any(column) for column in zip(*[x.traced.differentiable for x in derivatives], strict=True)]
    there = [i for i, t in enumerate(alike) if is_differentiable(t.array) and (i >= count or depends[i])]

    def branch(derivative: Derivative, start: int, end: int) -> Callable[[], list[Tensor]]:
        def tangents() -> list[Tensor]:
            again = for_tangents(derivative.traced, derivative.wanted)
            outputs, residuals = derivative.traced.with_residuals([], again)
            found = again.tangents(_by_branch(derivative, directions), residuals, derivative.residuals, rows)
            mine = dict(zip((*range(count), *range(start, end)), found, strict=True))
            like = [*outputs, *alike[count:]]  # branches may return different shapes
            return [wrap(zeros_like_symbol(like[i].array, lead)) if mine.get(i) is None else mine[i] for i in there]

        return tangents

    results: dict[int, Any] = {}
    if there:
        functions = [branch(*share) for share in _shares(derivatives, count)]
        names = [f"tangent of {derivative.traced.graph.name}" for derivative in derivatives]
        results = dict(zip(there, switch(as_tensor(saved[0]), functions, names), strict=True))
    return tuple(batched_again([results.get(i) for i in range(len(alike))]))


def _shares(derivatives: Sequence[Derivative], count: int) -> Iterator[tuple[Derivative, int, int]]:
    """For each branch, the range of its residuals among the outputs: start and end."""
    start = count
    for derivative in derivatives:
        yield derivative, start, start + len(derivative.residuals)
        start += len(derivative.residuals)


def _captured(derivatives: Sequence[Derivative]) -> list[int]:
    """The uids of the inputs of the record of a branch."""
    return sorted({uid for derivative in derivatives for uid in derivative.traced.captured})


def _by_branch(derivative: Derivative, values: dict[int, Any]) -> list[Any]:
    """The values of one branch's inputs, from those of the record."""
    return [values.get(uid) for uid in derivative.traced.inner_uids()]


def _dtype_of(uid: int, derivatives: Sequence[Derivative]) -> Any:
    return next(x.traced.dtype_of(uid) for x in derivatives if uid in x.traced.captured)


SWITCH = program_op("switch", "Case", _vjp_switch, _jvp_switch)
