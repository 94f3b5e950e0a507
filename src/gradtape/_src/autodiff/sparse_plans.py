"""Sparse Jacobians and Hessians: the pattern from the records, its coloring, and the plan of the passes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.autodiff import directional
from gradtape._src.autodiff.arguments import UnconnectedGradients, array_of
from gradtape._src.autodiff.coloring import (
    LARGE,
    Array,
    Pattern,
    color_acyclic,
    color_both,
    color_columns,
    color_symmetric,
    least_colors,
    readable,
    substitution,
)
from gradtape._src.autodiff.rows import check_batch, only_tensor
from gradtape._src.autodiff.sparsity import Passes, Sparsity
from gradtape._src.core.index_sets import IndexSets
from gradtape._src.core.structure import Propagation
from gradtape._src.interrupts import float_errors_ignored

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape

MODES = ("auto", "forward", "reverse", "both", "symmetric", "acyclic")
_OF_HESSIANS = ("forward", "symmetric", "acyclic")
FORMATS = ("tensor", "scipy")


def _find_pattern(
    recording: Any, targets: Sequence[Any], sources: Sequence[Any], local: bool
) -> tuple[Pattern, list[str]]:
    """The positions where derivatives of the targets can be nonzero, and the ops that were treated as dense."""
    shapes = [tuple(array_of(s).shape) for s in sources]
    for shape in [*shapes, *[tuple(array_of(t).shape) for t in targets if t is not None]]:
        if not is_known_shape(shape):
            raise ValueError(
                f"A sparsity pattern needs known shapes, but {shape} has sizes that are known only at run time. Use "
                "an input_signature with fixed sizes."
            )
    size = sum(math.prod(s) for s in shapes)
    sets, first = IndexSets(max(size, 1)), 0
    ids: dict[int, Any] = {}
    for source, shape in zip(sources, shapes, strict=True):
        units = sets.units(first, shape)
        ids[source.uid] = sets.union(ids[source.uid], units) if source.uid in ids else units
        first += math.prod(shape)
    propagation = Propagation(sets, recording.tracked, local)
    found = propagation.run(recording.records, ids)
    height, rows, columns = 0, [], []
    for i, target in enumerate(targets):
        shape = shapes[i] if target is None else tuple(array_of(target).shape)
        if target is not None and target.uid in found:
            items, owners = sets.members(np.broadcast_to(found[target.uid], shape))
            rows.append(owners + height)
            columns.append(items)
        height += math.prod(shape)
    flat_rows = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    flat_columns = np.concatenate(columns).astype(np.int64) if columns else np.zeros(0, np.int64)
    return Pattern(flat_rows, flat_columns, (height, size)), propagation.dense_ops


def _direct(pattern: Pattern, colors: Array, forward: bool, entries: Array | None = None) -> Passes:
    """Passes from which each entry is read at its own position."""
    entries = np.arange(len(pattern.rows)) if entries is None else entries
    rows, columns = pattern.rows[entries], pattern.columns[entries]
    along, across = (columns, rows) if forward else (rows, columns)
    used = np.zeros(len(colors), bool)
    used[along] = True
    colors = np.where(used, colors, -1)
    return Passes(forward, colors, int(colors.max(initial=-1)) + 1, entries, colors[along], across, {})


def _symmetric(pattern: Pattern) -> Passes:
    """Passes by columns of a symmetric matrix: an entry is read at its position, or at the transposed one."""
    colors = color_symmetric(pattern)
    direct = _direct(pattern, colors, forward=True)
    alone = readable(pattern, colors)
    color = np.where(alone, direct.color, colors[pattern.rows])
    position = np.where(alone, pattern.rows, pattern.columns)
    return direct._replace(color=color, position=position)


def _acyclic(pattern: Pattern) -> Passes:
    """Passes by columns of a symmetric matrix, from which entries are computed by substitution."""
    colors = color_acyclic(pattern)
    found = substitution(pattern, colors)
    passes = _direct(pattern, colors, forward=True)
    return passes._replace(color=found.color, position=found.position, substitution=found)


def _both(pattern: Pattern) -> list[Passes]:
    full, of_rows, of_columns = color_both(pattern)
    inside = full[pattern.rows]
    parts = [
        _direct(pattern, of_columns, True, np.flatnonzero(~inside)),
        _direct(pattern, of_rows, False, np.flatnonzero(inside)),
    ]
    return [part for part in parts if len(part.entries)]


def _is_uneven(places: Array) -> bool:
    counts = np.bincount(places)
    counts = counts[counts > 0]
    return len(counts) > 0 and counts.max() > 4 * np.median(counts)


def _plan(pattern: Pattern, mode: str, only_reverse: bool) -> tuple[str, list[Passes]]:
    """The mode with the fewest passes, or the requested one, and its passes."""
    if not len(pattern.rows):
        return mode if mode != "auto" else "reverse", []
    if mode == "symmetric":
        return mode, [_symmetric(pattern)]
    if mode == "acyclic":
        return mode, [_acyclic(pattern)]
    if mode == "both":
        return mode, _both(pattern)
    if mode == "forward":
        return mode, [_direct(pattern, color_columns(pattern), forward=True)]
    if mode == "reverse" or only_reverse:
        return "reverse", [_direct(pattern, color_columns(pattern.transposed()), forward=False)]
    return _fewest(pattern)


def _fewest(pattern: Pattern) -> tuple[str, list[Passes]]:
    """The mode with the fewest passes. Modes whose lower bound is no better than the best so far are skipped."""
    bounds = {"reverse": least_colors(pattern.columns), "forward": least_colors(pattern.rows)}
    plans: dict[str, list[Passes]] = {}
    for name in sorted(bounds, key=lambda name: bounds[name]):
        worth = bounds[name] + (len(pattern.rows) > LARGE)
        if all(worth < part.total for parts in plans.values() for part in parts):
            colors = color_columns(pattern if name == "forward" else pattern.transposed())
            plans[name] = [_direct(pattern, colors, forward=name == "forward")]
    if _is_uneven(pattern.rows) and _is_uneven(pattern.columns):
        plans["both"] = _both(pattern)
    best = min(plans, key=lambda name: sum(part.total for part in plans[name]))
    return best, plans[best]


def _of_each_example(pattern: Pattern, size: int, mode: str, only_reverse: bool) -> tuple[Pattern, str, list[Passes]]:
    """The plan for a batch of `size` examples, all of which each pass computes together.

    As in TensorFlow, the derivative of an example is that of the sum over the batch: if examples depend on each other,
    only backward passes compute it.
    """
    height, width = (n // max(size, 1) for n in pattern.shape)
    of_row, row = np.divmod(pattern.rows, max(height, 1))
    example, column = np.divmod(pattern.columns, max(width, 1))
    places = np.unique((example * height + row) * width + column)
    each, entry = np.unique(places % (height * width), return_inverse=True) if len(places) else (places, places)
    one = Pattern(*np.divmod(each, max(width, 1)), (height, width))
    mixes = bool((of_row != example).any())
    if mixes and mode in ("forward", "both"):
        raise ValueError(
            f"mode={mode!r} is not supported for a batch whose examples depend on each other. Use 'reverse'."
        )
    mode, parts = _plan(one, mode, only_reverse or mixes)
    examples = places // max(height * width, 1)
    rows, columns = one.rows[entry] + examples * height, one.columns[entry] + examples * width
    repeated = [_repeated(part, entry, examples, height if part.forward else width, size) for part in parts]
    return Pattern(rows, columns, pattern.shape), mode, repeated


def _repeated(part: Passes, entry: Array, examples: Array, stride: int, size: int) -> Passes:
    """The passes of one example, for all examples; `entry` maps each entry to an entry of one example."""
    inside = np.full(int(entry.max(initial=-1)) + 1, -1)
    inside[part.entries] = np.arange(len(part.entries))
    at = inside[entry]
    entries = np.flatnonzero(at >= 0)
    at = at[entries]
    return part._replace(
        colors=np.tile(part.colors, size),
        entries=entries,
        color=part.color[at],
        position=part.position[at] + examples[entries] * stride,
        reads={},
    )


def _make_plan(
    recording: Any,
    targets: Sequence[Any],
    sources: Sequence[Any],
    *,
    order: int,
    mode: str,
    local: bool,
    format: str,
    batch: bool = False,
) -> Sparsity:
    """The plan of a Jacobian (one target), or of a Hessian (`targets` are the gradients of the sources)."""
    if mode not in MODES:
        raise ValueError(f"Unknown value for mode: {mode!r}. Use one of {', '.join(map(repr, MODES))}.")
    if format not in FORMATS:
        raise ValueError(f"Unknown format of sparse results: {format!r}. Use 'tensor' or 'scipy'.")
    for value in [*targets, *sources]:
        if value is not None and not value.dtype.is_floating:
            raise TypeError(f"Sparse derivatives need real floating-point targets and sources; received {value.dtype}.")
    if order == 2 and mode == "auto":
        mode = "symmetric"
    if mode not in (_OF_HESSIANS if order == 2 else ("auto", "forward", "reverse", "both")):
        raise ValueError(f"mode={mode!r} is not supported for derivatives of order {order}. Use 'auto'.")
    pattern, dense_ops = _find_pattern(recording, targets, sources, local)
    if mode in ("symmetric", "acyclic"):
        pattern = pattern.symmetric()
    shape = () if order == 2 else tuple(array_of(targets[0]).shape)
    shapes = [tuple(array_of(s).shape) for s in sources]
    only_reverse = "custom_gradient" in dense_ops
    if batch:
        pattern, mode, parts = _of_each_example(pattern, shape[0], mode, only_reverse)
    else:
        mode, parts = _plan(pattern, mode, only_reverse)
    plan = Sparsity(pattern, mode, parts, shape, shapes, order=order, format=format, dense_ops=dense_ops, batch=batch)
    plan.local = local
    plan.accept(recording, targets, sources)
    return plan


def sparsity(
    tape: Tape,
    target: Any,
    sources: Any,
    *,
    order: int = 1,
    mode: str = "auto",
    local: bool = False,
    format: str = "tensor",
    batch: bool = False,
) -> Sparsity:
    """See `GradientTape.sparsity`."""
    recording = tape._require_record()
    target, flat = only_tensor("target", target), [only_tensor("sources", s) for s in nest.flatten(sources)]
    if batch:
        if order != 1 or len(flat) != 1:
            raise ValueError(
                f"batch=True needs order=1 and one source; received order={order!r} and {len(flat)} sources."
            )
        check_batch(target, flat[0])
    if order == 1:
        return _make_plan(recording, [target], flat, order=1, mode=mode, local=local, format=format, batch=batch)
    if order != 2:
        raise ValueError(f"order must be 1 (a Jacobian) or 2 (a Hessian); received {order!r}.")
    second, gradients = directional.second_tape(tape, recording, target, flat)
    return _make_plan(second._recording, gradients, flat, order=2, mode=mode, local=local, format=format)


def _planned(
    sparse: Any,
    recording: Any,
    targets: Sequence[Any],
    sources: Sequence[Any],
    order: int,
    mode: str,
    batch: bool = False,
) -> Sparsity:
    """The given plan, if it fits this problem, or a new one."""
    if isinstance(sparse, Sparsity):
        shape = () if order == 2 else tuple(array_of(targets[0]).shape)
        sparse.check(shape, [tuple(array_of(s).shape) for s in sources], order, batch)
        if not sparse.accepts(recording, targets, sources):
            _check_program(sparse, recording, targets, sources)
            sparse.accept(recording, targets, sources)
        return sparse
    form = "tensor" if isinstance(sparse, (bool, np.bool_)) else sparse
    if not isinstance(form, str) or form not in FORMATS:
        raise ValueError(f"sparse must be True, 'tensor', 'scipy' or the result of tape.sparsity; received {sparse!r}.")
    return _make_plan(recording, targets, sources, order=order, mode=mode, local=False, format=form, batch=batch)


def _check_program(plan: Sparsity, recording: Any, targets: Sequence[Any], sources: Sequence[Any]) -> None:
    """Raise ValueError if a program that the plan was not made from has entries that the plan does not have."""
    pattern, _ = _find_pattern(recording, targets, sources, plan.local)
    if plan.mode in ("symmetric", "acyclic"):
        pattern = pattern.symmetric()
    rows, columns, width = pattern.rows, pattern.columns, pattern.shape[1]
    outside = np.zeros(len(rows), bool)
    if plan.batch:  # an entry between two examples belongs to the one of the source: see `_of_each_example`
        size = max(plan._target[0], 1)
        height, each = max(pattern.shape[0] // size, 1), max(width // size, 1)
        mixed = rows // height != columns // each
        outside = mixed & any(part.forward for part in plan._parts)
        rows = columns // each * height + rows % height
    outside |= ~np.isin(rows * width + columns, plan.rows * width + plan.columns)
    if outside.any():
        at = int(np.argmax(outside))
        raise ValueError(
            f"This plan was made for another program: here, entry ({pattern.rows[at]}, {pattern.columns[at]}) of the "
            f"{'Jacobian' if plan.order == 1 else 'Hessian'} and {int(outside.sum()) - 1} others can be nonzero, but "
            "the plan does not contain them. Create a plan with tape.sparsity for each branch of the program, and for "
            "constants that select elements or are zero at other places."
        )


def sparse_jacobian(tape: Tape, target: Any, sources: Any, policy: UnconnectedGradients, sparse: Any, mode: str) -> Any:
    """Compute the Jacobian as a sparse matrix for each source."""
    recording = tape._require_record()
    target, flat = only_tensor("target", target), [only_tensor("sources", s) for s in nest.flatten(sources)]
    if not flat:
        return sources
    plan = _planned(sparse, recording, [target], flat, 1, mode)
    with tape._gradient_call("jacobian") as traced, float_errors_ignored():
        connected = [_is_connected(plan, recording, target, i, source) for i, source in enumerate(flat)]
        values = plan.values(tape, recording, [target], flat, traced)
        blocks = plan.blocks(values, flat, connected, policy)
    tape._finish("jacobian", [target], flat, blocks, policy)
    return nest.pack_sequence_as(sources, blocks)


def sparse_batch_jacobian(tape: Tape, target: Any, source: Any, sparse: Any) -> Any:
    """Compute the Jacobians of a batch as one sparse tensor; empty if unconnected, as TensorFlow returns zeros."""
    recording = tape._require_record()
    target, source = only_tensor("target", target), only_tensor("source", source)
    check_batch(target, source)
    plan = _planned(sparse, recording, [target], [source], 1, "auto", batch=True)
    with tape._gradient_call("batch_jacobian") as traced, float_errors_ignored():
        values = plan.values(tape, recording, [target], [source], traced)
        [found] = plan.blocks(values, [source], [True], UnconnectedGradients.ZERO)
    return found


def _is_connected(plan: Sparsity, recording: Any, target: Any, number: int, source: Any) -> bool:
    """Whether the target depends on a source, by entries or by records alone: then the result is zeros, not None."""
    first, last = plan._firsts[number], plan._firsts[number + 1]
    if bool(((plan.columns >= first) & (plan.columns < last)).any()):
        return True
    return target.uid == source.uid or target.uid in recording.shapes_between(frozenset([source.uid]))


def sparse_hessian(tape: Tape, target: Any, sources: Any, policy: UnconnectedGradients, sparse: Any) -> Any:
    """Compute the Hessian as a sparse matrix for each pair of sources."""
    second, gradients, flat = directional.recorded_gradient(tape, target, sources, "hessian")
    recording = second._recording
    assert recording is not None
    plan = _planned(sparse, recording, gradients, flat, 2, "auto")
    with second._gradient_call("hessian") as traced, float_errors_ignored():
        values = plan.values(second, recording, gradients, flat, traced)
        blocks = plan.blocks(values, flat, [g is not None for g in gradients], policy)
    if not nest.is_nested(sources):
        return blocks[0][0]
    return nest.pack_sequence_as(sources, [nest.pack_sequence_as(sources, row) for row in blocks])
