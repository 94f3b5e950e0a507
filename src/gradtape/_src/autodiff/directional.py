"""Directional derivatives, Hessians and Hessian-vector products from the records of a tape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.autodiff.arguments import UnconnectedGradients, array_of
from gradtape._src.autodiff.rows import chunks, next_level, only_tensor, or_zeros, row_bytes, rows_of
from gradtape._src.autodiff.settings import settings
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.jvp import marked_push, push
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import Tensor, dimensions_shown, is_differentiable
from gradtape._src.variable.growing import refuse_tangents

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape


def forward_pass(recording: Any, directions: dict[int, Any], traced: bool) -> dict[int, Any]:
    """Run a forward pass over the records: from the tangents of sources to those of all values that depend on them."""
    refuse_tangents(recording.records, directions)
    recording.use_formulas(frozenset(directions))
    produced = _outputs(recording.records)
    tangents = {uid: t for uid, t in directions.items() if uid not in produced}
    step = marked_push if settings.checks_numerics else push
    for record in recording.records if traced else list(recording.records):
        step(record, tangents, recording.tracked, traced=traced)
        output = record[2]
        for uid in output if type(output) is tuple else (output,):
            if uid in directions:  # the source is also the result of an op: add both tangents
                tangents[uid] = tangents[uid] + directions[uid] if uid in tangents else directions[uid]
    return tangents


def _outputs(records: list[Any]) -> set[int]:
    produced: set[int] = set()
    for record in records:
        output = record[2]
        if type(output) is tuple:
            produced.update(output)
        else:
            produced.add(output)
    return produced


def jvp(tape: Tape, target: Any, sources: Any, tangents: Any, policy: UnconnectedGradients) -> Any:
    """See `GradientTape.jvp`."""
    recording = tape._require_record()
    nest.assert_same_structure(sources, tangents)
    flat = [only_tensor("sources", s) for s in nest.flatten(sources)]
    targets = [only_tensor("target", t) for t in nest.flatten(target)]
    directions = [direction(s, t) for s, t in zip(flat, nest.flatten(tangents), strict=True)]
    with tape._gradient_call("jvp") as traced, float_errors_ignored(), dimensions_shown():
        carried = forward_pass(recording, by_uid(flat, directions, traced), traced)
    results = [or_zeros(carried.get(t.uid), (), t, policy) for t in targets]
    return nest.pack_sequence_as(target, results)


def by_uid(sources: Sequence[Any], tangents: Sequence[Any], traced: bool) -> dict[int, Any]:
    """The tangents of differentiable sources by uid; those of a source that occurs twice are added up."""
    found: dict[int, Any] = {}
    for source, tangent in zip(sources, tangents, strict=True):
        if is_differentiable(array_of(source)):
            t = tangent if traced else tangent.array
            found[source.uid] = found[source.uid] + t if source.uid in found else t
    return found


def direction(source: Any, tangent: Any) -> Any:
    """A tangent of a source as a tensor with the source's shape."""
    if not isinstance(tangent, Tensor) and np.iscomplexobj(tangent) and array_of(source).dtype.kind != "c":
        raise TypeError(f"A tangent of a {source.dtype.name} source must be real; received {tangent!r}.")
    found = convert(tangent, source.dtype)
    shape = tuple(array_of(source).shape)
    if tuple(found.array.shape) != shape:
        raise ValueError(
            f"A tangent must have the shape of its source; received {tuple(found.array.shape)} for a source of "
            f"shape {shape}."
        )
    return found


def forward_jacobian(tape: Tape, recording: Any, target: Any, source: Any, traced: bool) -> Any:
    """Compute the Jacobian by columns: each forward pass carries a chunk of tangents of the source."""
    value, x = array_of(target), array_of(source)
    size = math.prod(x.shape)
    unit = row_bytes(recording, [target], x.dtype.itemsize)
    blocks = []
    for start, stop in chunks(size, unit, None):
        hot = np.zeros((stop - start, size), x.dtype)
        hot[np.arange(stop - start), np.arange(start, stop)] = 1
        hot = namespace_of(x).from_numpy(hot.reshape(stop - start, *x.shape))
        seed = Batched(wrap(hot) if traced else hot, next_level())
        carried = forward_pass(recording, {source.uid: seed}, traced)
        blocks.append(rows_of(carried.get(target.uid), seed))
    found = [rows for rows in blocks if rows is not None]
    if not found:
        return None
    xp = namespace_of(found[0])
    columns = found[0] if len(found) == 1 else xp.concatenate(*found, axis=0)
    rank = len(value.shape)
    flipped = xp.transpose(columns, perm=(*range(1, rank + 1), 0))
    return xp.reshape(flipped, shape=(*value.shape, *x.shape))


def hessian(tape: Tape, target: Any, sources: Any, policy: UnconnectedGradients) -> Any:
    """See `GradientTape.hessian`."""
    second, gradients, flat = recorded_gradient(tape, target, sources, "hessian")
    blocks = []
    for gradient, source in zip(gradients, flat, strict=True):
        if gradient is None:
            shape = tuple(array_of(source).shape)
            row = [or_zeros(None, shape, other, policy) for other in flat]
        else:
            row = second.jacobian(gradient, flat, unconnected_gradients=policy)
        blocks.append(nest.pack_sequence_as(sources, row))
    return nest.pack_sequence_as(sources, blocks) if nest.is_nested(sources) else blocks[0]


def hvp(tape: Tape, target: Any, sources: Any, vectors: Any, policy: UnconnectedGradients) -> Any:
    """See `GradientTape.hvp`."""
    nest.assert_same_structure(sources, vectors)
    second, gradients, flat = recorded_gradient(tape, target, sources, "hvp")
    directions = [direction(s, v) for s, v in zip(flat, nest.flatten(vectors), strict=True)]
    known = [g for g in gradients if g is not None]
    products = iter(second.jvp(known, flat, directions, unconnected_gradients=policy))
    results = [
        or_zeros(None, (), s, policy) if g is None else next(products) for g, s in zip(gradients, flat, strict=True)
    ]
    return nest.pack_sequence_as(sources, results)


def recorded_gradient(tape: Tape, target: Any, sources: Any, method: str) -> tuple[Any, list[Any], list[Any]]:
    """A second tape (see `second_tape`), the gradients and the sources; uses up the first tape."""
    recording = tape._require_record()
    flat = [only_tensor("sources", s) for s in nest.flatten(sources)]
    target = only_tensor("target", target)
    with tape._gradient_call(method):
        second, gradients = second_tape(tape, recording, target, flat)
    return second, gradients, flat


def second_tape(tape: Tape, recording: Any, target: Any, sources: list[Any]) -> tuple[Any, list[Any]]:
    """A second tape with the records of this one, followed by those of the backward pass from the target."""
    second = type(tape)(persistent=True)
    second.options = {name: on for name, on in tape.options.items() if name in ("check_numerics", "strong_zeros")}
    with float_errors_ignored():
        second._recording = recording.copy()
        if tape._budget is not None:  # second derivatives do not save more than first ones
            second._budget = tape._budget
            second._budget.attach(second._recording)
        with second:
            second._op_logger = tape._op_logger  # it has the lines already, and logs no further ops
            # Converting a sparse gradient is a step of the program that is differentiated again.
            gradients = [None if g is None else convert(g) for g in second._recorded_gradient(target, sources)]
    return second, gradients
