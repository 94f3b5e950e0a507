"""Reverse mode in its shortest form: the reference that the backward pass in `fast/` is tested against.

`backward_pass` visits records from the last to the first. A record has its op, the uids of its inputs and outputs,
and the values that the op's vjp rules need. The pass keeps a list of cotangents for each uid; when it reaches the
record that created a tensor, every use of that tensor has been visited, and the sum of the list is its cotangent.

Cotangents are arrays, tensors (if the pass is recorded, for the next order), batches (for a Jacobian) or sparse: the
same rules run on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from gradtape._src.arrays import common_namespace, namespace_of
from gradtape._src.arrays.half import is_half
from gradtape._src.core.primitive import Op, Rule, kind_of, narrowed, numpy_dtype, parameters, unbroadcast, widened
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import Record
from gradtape._src.core.zero_preserving import as_plain, is_zero_preserving, zero_preserving

Cotangents = dict[int, Any]
Shapes = dict[int, tuple[int, ...]]


def backward_pass(
    records: Sequence[Any], shapes: Shapes, cotangents: Cotangents, *, kept: frozenset[int], traced: bool
) -> Cotangents:
    """Compute cotangents of sources, and of the tensors in `kept`, from those of targets: uid -> value.

    `shapes` has the uids that may have a cotangent. With `traced` the cotangents are tensors, and each step is
    recorded.
    """
    terms = {uid: [g] for uid, g in cotangents.items()}
    found: Cotangents = {}
    for record in map(Record.of, reversed(records)):
        outputs = record.output if type(record.output) is tuple else (record.output,)
        gs = {uid: total(terms.pop(uid)) for uid in outputs if uid in terms}
        found |= {uid: g for uid, g in gs.items() if uid in kept}
        if gs:
            for uid, g in zip(record.inputs, vjp(record, gs, shapes, traced), strict=True):
                if g is not None:
                    terms.setdefault(uid, []).append(g)
    return {uid: total(gs) for uid, gs in terms.items()} | found


def total(gs: list[Any]) -> Any:
    """The sum of cotangents; in half precision it is computed in float32 and rounded once."""
    dtype = numpy_dtype(gs[0])
    if len(gs) == 1 or not is_half(dtype) or all(type(g) is SparseCotangent for g in gs):
        return reduce(add, gs)
    return narrowed(reduce(add, [widened(_dense(g)) for g in gs]), dtype)


def vjp(record: Record, gs: Cotangents, shapes: Shapes, traced: bool) -> list[Any]:
    """The cotangents of a record's inputs, from those of its outputs; None for inputs that need none."""
    op, inputs, _, values, attrs, _ = record
    g = _completed(record, gs, shapes)
    saved = [v if traced or v is None else v.array for v in values]
    dtype = numpy_dtype(next(iter(gs.values())))
    half = op.wide and is_half(dtype) and (op.vjp_all is not None or not op.outputs)
    if half:
        g = [None if x is None else widened(x) for x in g] if type(g) is list else widened(g)
        saved = [None if v is None else widened(v) for v in saved]
    needed = [shapes.get(uid) for uid in inputs]
    if op.vjp_all is not None:
        results = _vjp_of_all_inputs(op, g, needed, saved, attrs)
    else:
        results = [vjp_of_input(op, i, g, shape, saved, attrs, half) for i, shape in enumerate(needed)]
    if op.trusted:
        return results
    results = [None if c is None or s is None else unbroadcast(c, s) for c, s in zip(results, needed, strict=True)]
    rounded = half or (op.name != "astype" and not op.outputs)
    return [narrowed(c, dtype) if rounded else c for c in results]


def _completed(record: Record, gs: Cotangents, shapes: Shapes) -> Any:
    """The cotangents in the form that a rule takes: one, or a list with zeros (or None) for missing ones."""
    op, output, dtypes = record.op, record.output, record.dtype
    if type(output) is not tuple:
        return _dense(gs[output])
    present = {uid: _dense(g) for uid, g in gs.items()}
    if not op.vjp_all_zeros:
        return [present.get(uid) for uid in output]
    xp = common_namespace(list(present.values()))
    pairs = zip(output, dtypes, strict=True)
    return [present[uid] if uid in present else xp.zeros(shapes[uid], dtype) for uid, dtype in pairs]


def vjp_of_input(op: Op, position: int, g: Any, shape: Any, saved: list[Any], attrs: dict[str, Any], half: bool) -> Any:
    """The cotangent of one input, from its own rule."""
    rule = op.rules[position]
    if rule is None or shape is None:
        return None
    special = {"xp": _namespace(g), "half": half, f"{op.args[position]}_shape": shape}
    arguments = [
        saved[slot] if (slot := op.slot(name)) is not None else special[name] if name in special else attrs[name]
        for name in parameters(rule)[1:]
    ]
    if op.elementwise and op.keep[position] and kind_of(g) == "c":
        return _conjugated(rule, g, arguments)
    return rule(g, *arguments)


def _vjp_of_all_inputs(op: Op, g: Any, needed: list[Any], saved: list[Any], attrs: dict[str, Any]) -> list[Any]:
    """The cotangents of all inputs, from the one rule that the op has for them.

    Gradients from the user or XLA get plain arrays.
    """
    present = [x for x in g if x is not None] if type(g) is list else [g]
    plain = op.trusted and is_zero_preserving(present)
    if plain:
        g = [None if x is None else as_plain(x) for x in g]
    results = op.vjp_all(_namespace(g), g, needed, *saved, **attrs)  # type: ignore[misc]
    results = [c if shape is not None else None for c, shape in zip(results, needed, strict=True)]
    return [None if c is None else zero_preserving(c) for c in results] if plain else results


def _conjugated(rule: Rule, g: Any, arguments: list[Any]) -> Any:
    """Apply TensorFlow's convention for complex cotangents: g times the conjugate of f'."""
    found = rule(namespace_of(g).conj(g), *arguments)
    return namespace_of(found).conj(found)


def _dense(g: Any) -> Any:
    """A sparse cotangent as a dense one: rules compute with dense ones."""
    return g.dense() if type(g) is SparseCotangent else g


def _namespace(g: Any) -> Any:
    """The namespace of a rule, for one cotangent or a list of them."""
    return common_namespace([x for x in g if x is not None]) if type(g) is list else namespace_of(g)
