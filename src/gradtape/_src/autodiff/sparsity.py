"""Sparse Jacobians and Hessians: the pattern from the records, its coloring, and the passes that fill it in.

`Sparsity` is a plan: it can be used at the next point, for a record of the same program.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.autodiff import directional
from gradtape._src.autodiff.arguments import UnconnectedGradients, array_of, as_tensor
from gradtape._src.autodiff.coloring import (
    LARGE,
    Array,
    Pattern,
    color_both,
    color_columns,
    color_symmetric,
    least_colors,
    readable,
)
from gradtape._src.autodiff.rows import chunks, next_level, only_tensor, row_bytes, rows_of
from gradtape._src.conversion import wrap
from gradtape._src.core.index_sets import IndexSets
from gradtape._src.core.structure import Propagation
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.memory import LazyArray
from gradtape._src.ops.sparse_tensor import SparseTensor

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape
    from gradtape._src.autodiff.recording import Recording

MODES = ("auto", "forward", "reverse", "both", "symmetric")
FORMATS = ("tensor", "scipy")


class Passes(NamedTuple):
    """Some passes in one direction: the color of each column (or row; -1: it is not seeded), and what is read where."""

    forward: bool
    colors: Array
    total: int
    entries: Array  # which entries of the pattern are read
    color: Array  # and for each of them in which pass
    position: Array  # and where: the row of a column, or the column of a row
    reads: dict[tuple[int, ...], tuple[Array, Array]]  # for some passes: which entries, and where they are

    def read_from(self, start: int, stop: int, first: int, size: int) -> tuple[Array, Array]:
        """Which entries are read from the passes between start and stop, and a block of positions; and where."""
        key = (start, stop, first, size)
        if key not in self.reads:
            inside = (self.position >= first) & (self.position < first + size)
            which = np.flatnonzero(inside & (self.color >= start) & (self.color < stop))
            self.reads[key] = which, (self.color[which] - start) * size + self.position[which] - first
        return self.reads[key]


class Sparsity:
    """Where a Jacobian or Hessian can be different from zero, and the passes that compute it.

    Pass it as `sparse=` to `tape.jacobian` or `tape.hessian`, of this tape or of another one that recorded the same
    program at another point. Several sources are one matrix, their elements one after the other.

    `rows` and `columns` are the places, in order; `shape` is the shape of the matrix, `nnz` the number of places.
    `mode` is the direction of the passes and `passes` their number; `bound` says that no plan of one direction needs
    fewer. `dense_ops` names ops whose structure is not known, which make the pattern larger than need be.
    """

    def __init__(
        self,
        pattern: Pattern,
        mode: str,
        parts: Sequence[Passes],
        target: tuple[int, ...],
        sources: Sequence[tuple[int, ...]],
        *,
        order: int,
        format: str,
        dense_ops: Sequence[str],
    ) -> None:
        self.rows, self.columns, self.shape = pattern
        self.nnz, self.mode, self.order, self.format = len(self.rows), mode, order, format
        self.dense_ops = tuple(dict.fromkeys(dense_ops))
        self.passes = sum(part.total for part in parts)
        self._parts, self._target, self._sources = tuple(parts), target, tuple(sources)
        self._places: dict[tuple[int, int, int], tuple[Array, ...]] = {}
        self._firsts = np.cumsum([0, *[math.prod(s) for s in sources]]).tolist()

    @property
    def bound(self) -> int:
        """The entries of the fullest row, or of the fullest column, whichever has fewer: a lower bound of passes."""
        return min(least_colors(self.rows), least_colors(self.columns))

    def to_dense(self) -> Array:
        """The pattern as an array of booleans."""
        mask = np.zeros(self.shape, bool)
        mask[self.rows, self.columns] = True
        return mask

    def color_of_entries(self) -> Array:
        """For each entry the number of the pass that computes it."""
        numbers, first = np.zeros(self.nnz, np.int64), 0
        for part in self._parts:
            numbers[part.entries] = part.color + first
            first += part.total
        return numbers

    def to_svg(self, size: int = 360) -> str:
        """The pattern as a picture; entries of one pass have one tint.

        >>> import gradtape as tf
        >>> x = tf.Variable([1.0, 2.0, 3.0])
        >>> with tf.GradientTape() as tape:
        ...     y = x * tf.roll(x, 1, 0)
        >>> tape.sparsity(y, x).to_svg().startswith("<svg ")
        True
        """
        from gradtape._src.autodiff.sparsity_picture import to_svg

        return to_svg(self, size)

    def _repr_svg_(self) -> str:
        return self.to_svg()

    def __repr__(self) -> str:
        name = {1: "Jacobian", 2: "Hessian"}[self.order]
        rows, columns = self.shape
        dense = f", dense: {', '.join(self.dense_ops)}" if self.dense_ops else ""
        entries = f"{self.nnz} entr{'y' if self.nnz == 1 else 'ies'}"
        passes = f"{self.passes} {self.mode} pass{'' if self.passes == 1 else 'es'}"
        return f"<sparsity of a {rows} x {columns} {name}: {entries}, {passes}{dense}>"

    # -- use at a point ------------------------------------------------------------------------------------------------
    def check(self, target: tuple[int, ...], sources: Sequence[tuple[int, ...]], order: int) -> None:
        """Raise ValueError if the plan is for another problem."""
        if order != self.order:
            names = {1: "tape.jacobian", 2: "tape.hessian"}
            raise ValueError(
                f"This plan was made with order={self.order}, for {names[self.order]}, not {names[order]}."
            )
        have, given = (self._target, *self._sources), (target, *sources)
        if have != given:
            raise ValueError(
                f"This plan is for a target of shape {have[0]} and sources of shapes {list(have[1:])}; received "
                f"{given[0]} and {list(given[1:])}. Make a plan for these with tape.sparsity."
            )

    def blocks(self, values: Any, connected: Sequence[bool], policy: UnconnectedGradients) -> list[Any]:
        """The entries as one sparse matrix for each source; for order 2 a list of them for each source."""
        if self.order == 1:
            return [self._block(values, self._target, i, 0, self.shape[0], c, policy) for i, c in enumerate(connected)]
        ends = zip(self._firsts, self._firsts[1:], strict=False)
        return [
            [
                self._block(values, self._sources[i], j, *span, connected[i] and c, policy)
                for j, c in enumerate(connected)
            ]
            for i, span in enumerate(ends)
        ]

    def _block(
        self, values: Any, of: tuple[int, ...], source: int, start: int, stop: int, connected: bool, policy: Any
    ) -> Any:
        """The rows from `start` to `stop` and the columns of a source, as a sparse matrix or tensor."""
        if not connected and policy is UnconnectedGradients.NONE:
            return None
        key = (source, start, stop)
        if key not in self._places:
            self._places[key] = self._places_of(of, source, start, stop)
        inside, rows, columns, indices = self._places[key]
        if len(inside) < self.nnz:
            values = namespace_of(values).take(values, inside, axis=0, batch_dims=0)
        if self.format == "scipy":
            return _as_scipy(values, rows, columns, (stop - start, math.prod(self._sources[source])))
        return SparseTensor(wrap(indices), as_tensor(values), np.array((*of, *self._sources[source]), np.int64))

    def _places_of(self, of: tuple[int, ...], source: int, start: int, stop: int) -> tuple[Array, ...]:
        """Which entries a block has, their rows and columns in it, and their coordinates."""
        first, last = self._firsts[source], self._firsts[source + 1]
        inside = np.flatnonzero(
            (self.columns >= first) & (self.columns < last) & (self.rows >= start) & (self.rows < stop)
        )
        rows, columns = self.rows[inside] - start, self.columns[inside] - first
        indices = np.zeros((len(rows), len(of) + len(self._sources[source])), np.int64)
        for flat, shape, axis in ((rows, of, 0), (columns, self._sources[source], len(of))):
            if shape:
                indices[:, axis : axis + len(shape)] = np.stack(np.unravel_index(flat, shape), 1)
        return inside, rows, columns, indices

    def values(
        self, tape: Tape, recording: Recording, targets: Sequence[Any], sources: Sequence[Any], traced: bool
    ) -> Any:
        """The entries, in order: the passes of each part, and what is read from them."""
        dtype = array_of(sources[0]).dtype
        found, order = [], []
        for i, part in enumerate(self._parts):
            last = i == len(self._parts) - 1
            run = _forward_passes if part.forward else _reverse_passes
            values = run(tape, recording, targets, sources, part, traced, last)
            if values is not None:
                found.append(values)
                order.append(part.entries)
        if not found:
            zeros = np.zeros(self.nnz, dtype)
            return wrap(zeros) if traced else zeros
        xp = namespace_of(found[0])
        together = found[0] if len(found) == 1 else xp.concatenate(*found, axis=0)
        if len(found) == 1:
            return together
        places = np.argsort(np.concatenate(order), kind="stable")
        return xp.take(together, places, axis=0, batch_dims=0)


def _as_scipy(values: Any, rows: Array, columns: Array, shape: tuple[int, int]) -> Any:
    """A `scipy.sparse.csr_array`; its values are numbers, which no tape records."""
    try:
        from scipy.sparse import csr_array  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            "A sparse matrix of SciPy needs SciPy: install it (`pip install scipy`), or use sparse=True, which gives a "
            "tf.SparseTensor."
        ) from None
    if not is_known(values):
        raise TypeError(
            "A sparse matrix of SciPy has numbers, and while a function is traced there are none. Use sparse=True, "
            "which gives a tf.SparseTensor."
        )
    ends = np.cumsum(np.bincount(rows, minlength=shape[0]))
    return csr_array((np.array(as_tensor(values)), columns, np.append(0, ends)), shape=shape)


# -- passes ----------------------------------------------------------------------------------------------------------
def _seeds(colors: Array, start: int, stop: int, shape: tuple[int, ...], value: Any) -> Any:
    """[passes, *shape]: ones where the color is that of the pass."""
    hot = colors == np.arange(start, stop)[:, None]
    return namespace_of(value).from_numpy(hot.astype(value.dtype).reshape(stop - start, *shape))


def _read(rows: Sequence[Any], sizes: Sequence[int], part: Passes, start: int, stop: int) -> list[tuple[Any, Any]]:
    """What is read from some passes: values, and which of the part's entries they are.

    `rows` are the results [passes, …], one for each block of positions.
    """
    found, first = [], 0
    for block, size in zip(rows, sizes, strict=True):
        where, at = part.read_from(start, stop, first, size)
        if block is not None and len(where):
            block = block.write() if type(block) is LazyArray else block
            xp = namespace_of(block)
            flat = xp.reshape(block, shape=((stop - start) * size,))
            found.append((xp.take(flat, at, axis=0, batch_dims=0), where))
        elif len(where):
            found.append((None, where))
        first += size
    return found


def _joined(found: Sequence[tuple[Any, Any]], dtype: Any, traced: bool) -> Any:
    """The entries of a part in order; zeros where a pass did not arrive."""
    if not found:
        return None
    if len(found) == 1 and found[0][0] is not None:
        return found[0][0]
    parts = []
    for values, where in found:
        zeros = np.zeros(len(where), dtype)
        parts.append((wrap(zeros) if traced else zeros) if values is None else values)
    places = np.concatenate([where for _, where in found])
    xp = namespace_of(next((v for v in parts if not isinstance(v, np.ndarray)), parts[0]))
    flat = parts[0] if len(parts) == 1 else xp.concatenate(*parts, axis=0)
    in_order = len(places) < 2 or bool((places[1:] > places[:-1]).all())
    return flat if in_order else xp.take(flat, np.argsort(places, kind="stable"), axis=0, batch_dims=0)


def _reverse_passes(
    tape: Tape, recording: Any, targets: Sequence[Any], sources: Sequence[Any], part: Passes, traced: bool, last: bool
) -> Any:
    """The rows of one color together: one backward pass carries as many colors as memory allows."""
    (target,) = targets
    value = array_of(target)
    sizes = [math.prod(array_of(s).shape) for s in sources]
    spans = chunks(part.total, row_bytes(recording, list(sources), value.dtype.itemsize), None)
    found = []
    for start, stop in spans:
        hot = _seeds(part.colors, start, stop, tuple(value.shape), value)
        seed = Batched(wrap(hot) if traced else hot, next_level())
        done = last and stop == spans[-1][1]
        cotangents = tape._backward(recording, {target.uid: seed}, sources, traced, last=done)
        rows = [rows_of(cotangents.get(s.uid), seed) for s in sources]
        found += _read(rows, sizes, part, start, stop)
    return _joined(found, value.dtype, traced)


def _forward_passes(
    tape: Tape, recording: Any, targets: Sequence[Any], sources: Sequence[Any], part: Passes, traced: bool, last: bool
) -> Any:
    """The columns of one color together: one forward pass carries as many colors as memory allows."""
    sizes = [math.prod(array_of(sources[i] if t is None else t).shape) for i, t in enumerate(targets)]
    lengths = [math.prod(array_of(s).shape) for s in sources]
    firsts = np.cumsum([0, *lengths])
    value = array_of(sources[0])
    known = [t for t in targets if t is not None]
    found = []
    for start, stop in chunks(part.total, row_bytes(recording, known, value.dtype.itemsize), None):
        level = next_level()
        seeds = {}
        for source, first, end in zip(sources, firsts, firsts[1:], strict=False):
            x = array_of(source)
            hot = _seeds(part.colors[first:end], start, stop, tuple(x.shape), x)
            seeds[source.uid] = Batched(wrap(hot) if traced else hot, level)
        carried = directional.carry(recording, seeds, traced)
        some = next(iter(seeds.values()))
        rows = [None if t is None else rows_of(carried.get(t.uid), some) for t in targets]
        found += _read(rows, sizes, part, start, stop)
    return _joined(found, value.dtype, traced)


# -- plans -----------------------------------------------------------------------------------------------------------
def find_pattern(
    recording: Any, targets: Sequence[Any], sources: Sequence[Any], local: bool
) -> tuple[Pattern, list[str]]:
    """Where the derivatives of the targets can be different from zero, and the ops that counted as dense."""
    shapes = [tuple(array_of(s).shape) for s in sources]
    for shape in [*shapes, *[tuple(array_of(t).shape) for t in targets if t is not None]]:
        if not is_known_shape(shape):
            raise ValueError(
                f"A sparsity pattern needs shapes that are known, and {shape} has sizes that only the running program "
                "knows. Give the function an input_signature with sizes."
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
    """Passes from which each entry is read at its own place."""
    entries = np.arange(len(pattern.rows)) if entries is None else entries
    rows, columns = pattern.rows[entries], pattern.columns[entries]
    along, across = (columns, rows) if forward else (rows, columns)
    used = np.zeros(len(colors), bool)
    used[along] = True
    colors = np.where(used, colors, -1)
    return Passes(forward, colors, int(colors.max(initial=-1)) + 1, entries, colors[along], across, {})


def _symmetric(pattern: Pattern) -> Passes:
    """Passes by columns of a symmetric matrix: an entry is read at its place, or at its mirror image."""
    colors = color_symmetric(pattern)
    direct = _direct(pattern, colors, forward=True)
    alone = readable(pattern, colors)
    color = np.where(alone, direct.color, colors[pattern.rows])
    position = np.where(alone, pattern.rows, pattern.columns)
    return direct._replace(color=color, position=position)


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
    """The mode with the fewest passes, or the one that was chosen."""
    if not len(pattern.rows):
        return mode if mode != "auto" else "reverse", []
    if mode == "symmetric":
        return mode, [_symmetric(pattern)]
    if mode == "both":
        return mode, _both(pattern)
    if mode == "forward":
        return mode, [_direct(pattern, color_columns(pattern), forward=True)]
    if mode == "reverse" or only_reverse:
        return "reverse", [_direct(pattern, color_columns(pattern.transposed()), forward=False)]
    return _fewest(pattern)


def _fewest(pattern: Pattern) -> tuple[str, list[Passes]]:
    """The mode with the fewest passes; one whose lower bound is no better than what was found is not tried."""
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


def make_plan(
    recording: Any, targets: Sequence[Any], sources: Sequence[Any], *, order: int, mode: str, local: bool, format: str
) -> Sparsity:
    """The plan of a Jacobian (one target), or of a Hessian (`targets` are the gradients by the sources)."""
    if mode not in MODES:
        raise ValueError(f"Unknown value for mode: {mode!r}. Use one of {', '.join(map(repr, MODES))}.")
    if format not in FORMATS:
        raise ValueError(f"Unknown format of sparse results: {format!r}. Use 'tensor' or 'scipy'.")
    for value in [*targets, *sources]:
        if value is not None and array_of(value).dtype.kind != "f":
            raise TypeError(
                f"Sparse derivatives are of floating tensors by floating tensors; received one of {value.dtype}."
            )
    if order == 2 and mode == "auto":
        mode = "symmetric"
    if (order == 2) != (mode == "symmetric") and not (order == 2 and mode == "forward") and mode != "auto":
        raise ValueError(f"mode={mode!r} is not for derivatives of order {order}. Use 'auto'.")
    pattern, dense_ops = find_pattern(recording, targets, sources, local)
    mode, parts = _plan(pattern, mode, only_reverse="custom_gradient" in dense_ops)
    shape = () if order == 2 else tuple(array_of(targets[0]).shape)
    shapes = [tuple(array_of(s).shape) for s in sources]
    return Sparsity(pattern, mode, parts, shape, shapes, order=order, format=format, dense_ops=dense_ops)


def sparsity(
    tape: Tape,
    target: Any,
    sources: Any,
    *,
    order: int = 1,
    mode: str = "auto",
    local: bool = False,
    format: str = "tensor",
) -> Sparsity:
    """See `GradientTape.sparsity`."""
    recording = tape._require_record()
    target, flat = only_tensor("target", target), [only_tensor("sources", s) for s in nest.flatten(sources)]
    if order == 1:
        return make_plan(recording, [target], flat, order=1, mode=mode, local=local, format=format)
    if order != 2:
        raise ValueError(f"order is 1 (a Jacobian) or 2 (a Hessian); received {order!r}.")
    second, gradients = directional.second_tape(tape, recording, target, flat)
    return make_plan(second._recording, gradients, flat, order=2, mode=mode, local=local, format=format)


def _planned(
    sparse: Any, recording: Any, targets: Sequence[Any], sources: Sequence[Any], order: int, mode: str
) -> Sparsity:
    """The plan that was given, if it is for this problem, or a new one."""
    if isinstance(sparse, Sparsity):
        shape = () if order == 2 else tuple(array_of(targets[0]).shape)
        sparse.check(shape, [tuple(array_of(s).shape) for s in sources], order)
        return sparse
    if sparse not in (True, *FORMATS):
        raise ValueError(f"sparse is True, 'tensor', 'scipy' or the result of tape.sparsity; received {sparse!r}.")
    form = "tensor" if sparse is True else sparse
    return make_plan(recording, targets, sources, order=order, mode=mode, local=False, format=form)


def sparse_jacobian(tape: Tape, target: Any, sources: Any, policy: UnconnectedGradients, sparse: Any, mode: str) -> Any:
    """The Jacobian as a sparse matrix for each source."""
    recording = tape._require_record()
    target, flat = only_tensor("target", target), [only_tensor("sources", s) for s in nest.flatten(sources)]
    plan = _planned(sparse, recording, [target], flat, 1, mode)
    with tape._gradient_call("jacobian") as traced, float_errors_ignored():
        reached = recording.shapes_between(frozenset([s.uid for s in flat]))
        connected = [target.uid in reached and _has_entries(plan, i) for i in range(len(flat))]
        values = plan.values(tape, recording, [target], flat, traced)
        blocks = plan.blocks(values, connected, policy)
    tape._finish("jacobian", [target], flat, blocks, policy)
    return nest.pack_sequence_as(sources, blocks)


def _has_entries(plan: Sparsity, source: int) -> bool:
    first, last = plan._firsts[source], plan._firsts[source + 1]
    return bool(((plan.columns >= first) & (plan.columns < last)).any())


def sparse_hessian(tape: Tape, target: Any, sources: Any, policy: UnconnectedGradients, sparse: Any) -> Any:
    """The Hessian as a sparse matrix for each pair of sources."""
    second, gradients, flat = directional.recorded_gradient(tape, target, sources, "hessian")
    recording = second._recording
    assert recording is not None
    plan = _planned(sparse, recording, gradients, flat, 2, "auto")
    with second._gradient_call("hessian") as traced, float_errors_ignored():
        values = plan.values(second, recording, gradients, flat, traced)
        blocks = plan.blocks(values, [g is not None for g in gradients], policy)
    if not nest.is_nested(sources):
        return blocks[0][0]
    return nest.pack_sequence_as(sources, [nest.pack_sequence_as(sources, row) for row in blocks])
