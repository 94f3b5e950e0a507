"""Plans of sparse Jacobians and Hessians, and the passes that compute their entries.

`Sparsity` is a plan, which can be reused at other points for records of the same program. `sparse_plans.py` makes
plans.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.half import is_half
from gradtape._src.arrays.symbolic import is_known
from gradtape._src.autodiff import directional
from gradtape._src.autodiff.arguments import UnconnectedGradients, array_of, as_tensor
from gradtape._src.autodiff.coloring import Array, Pattern, Substitution, least_colors
from gradtape._src.autodiff.program_keys import ProgramKeys
from gradtape._src.autodiff.rows import chunks, next_level, row_bytes, rows_of
from gradtape._src.conversion import wrap
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.memory import LazyArray
from gradtape._src.ops.sparse_tensor import SparseTensor

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape
    from gradtape._src.autodiff.recording import Recording


class Passes(NamedTuple):
    """Some passes in one direction: the color of each column or row (-1: not seeded), and where entries are read."""

    forward: bool
    colors: Array
    total: int
    entries: Array  # the entries of the pattern that are read
    color: Array  # for each of them, the pass
    position: Array  # and the position: the row of a column, or the column of a row
    reads: dict[tuple[int, ...], tuple[Array, Array]]  # by range of passes: entries and positions
    substitution: Substitution | None = None  # how entries follow from the values, if they are not read directly

    def read_from(self, start: int, stop: int, first: int, size: int) -> tuple[Array, Array]:
        """The entries that are read from the passes from start to stop, at a block of positions,
        and these positions.
        """
        key = (start, stop, first, size)
        if key not in self.reads:
            inside = (self.position >= first) & (self.position < first + size)
            which = np.flatnonzero(inside & (self.color >= start) & (self.color < stop))
            self.reads[key] = which, (self.color[which] - start) * size + self.position[which] - first
        return self.reads[key]


class Sparsity:
    """The positions where a Jacobian or Hessian can be nonzero, and the passes that compute it.

    Pass it as `sparse=` to `tape.jacobian`, `tape.hessian` or (with `batch`) `tape.batch_jacobian`, of this tape or of
    another one that recorded the same program at another point. Several sources form one matrix, side by side; the
    matrices of a batch are the blocks on the diagonal of one matrix.

    `rows` and `columns` are the positions, sorted; `shape` is the shape of the matrix, `nnz` the number of positions.
    `mode` is the direction of the passes and `passes` their number; `bound` is a lower bound for plans of one
    direction. `dense_ops` names ops with unknown structure, which make the pattern larger than necessary.
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
        batch: bool = False,
    ) -> None:
        self.rows, self.columns, self.shape = pattern
        self.nnz, self.mode, self.order, self.format, self.batch = len(self.rows), mode, order, format, batch
        self.dense_ops = tuple(dict.fromkeys(dense_ops))
        self.passes = sum(part.total for part in parts)
        self._parts, self._target, self._sources = tuple(parts), target, tuple(sources)
        self._places: dict[tuple[int, int, int], tuple[Array, ...]] = {}
        self._firsts = np.cumsum([0, *[math.prod(s) for s in sources]]).tolist()
        self.local = False
        self._programs, self._keys = set[int](), ProgramKeys()

    @property
    def bound(self) -> int:
        """The entries of the fullest row or of the fullest column, whichever has fewer: a lower bound of the passes."""
        return min(least_colors(self.rows), least_colors(self.columns))

    def to_dense(self) -> Array:
        """The pattern as a boolean array."""
        mask = np.zeros(self.shape, bool)
        mask[self.rows, self.columns] = True
        return mask

    def color_of_entries(self) -> Array:
        """The number of the pass that computes each entry."""
        numbers, first = np.zeros(self.nnz, np.int64), 0
        for part in self._parts:
            color = part.color if part.substitution is None else part.color[part.substitution.first]
            numbers[part.entries] = color + first
            first += part.total
        return numbers

    def to_svg(self, size: int = 360) -> str:
        """The pattern as a picture, with one tint for the entries of each pass.

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
        if self.batch:
            size = self._target[0]
            name, rows, columns = f"Jacobian ({size} of them)", rows // max(size, 1), columns // max(size, 1)
        dense = f", dense: {', '.join(self.dense_ops)}" if self.dense_ops else ""
        entries = f"{self.nnz} entr{'y' if self.nnz == 1 else 'ies'}"
        passes = f"{self.passes} {self.mode} pass{'' if self.passes == 1 else 'es'}"
        return f"<sparsity of a {rows} x {columns} {name}: {entries}, {passes}{dense}>"

    # -- using a plan --------------------------------------------------------------------------------------------------
    def check(self, target: tuple[int, ...], sources: Sequence[tuple[int, ...]], order: int, batch: bool) -> None:
        """Raise ValueError if the plan is for another problem."""
        if (order, batch) != (self.order, self.batch):
            names = {(1, False): "tape.jacobian", (2, False): "tape.hessian", (1, True): "tape.batch_jacobian"}
            made = f"batch={self.batch}" if order == self.order else f"order={self.order}"
            raise ValueError(
                f"This plan was made with {made}, for {names[self.order, self.batch]}, not {names[order, batch]}."
            )
        have, given = (self._target, *self._sources), (target, *sources)
        if have != given:
            raise ValueError(
                f"This plan is for a target of shape {have[0]} and sources of shapes {list(have[1:])}; received "
                f"{given[0]} and {list(given[1:])}. Create a plan for these with tape.sparsity."
            )

    def accepts(self, recording: Recording, targets: Sequence[Any], sources: Sequence[Any]) -> bool:
        """Whether the plan is known to hold for a record."""
        return self._keys.key(recording, targets, sources) in self._programs

    def accept(self, recording: Recording, targets: Sequence[Any], sources: Sequence[Any]) -> None:
        """Note that the plan holds for records like this one."""
        self._programs.add(self._keys.key(recording, targets, sources))

    def blocks(self, values: Any, sources: Sequence[Any], connected: Sequence[bool], policy: Any) -> list[Any]:
        """The entries as a sparse matrix for each source; for order 2, a list of them for each source."""
        of_source = [_in_dtype(values, array_of(source).dtype) for source in sources]
        if self.order == 1:
            return [
                self._block(of_source[i], self._target, i, 0, self.shape[0], c, policy) for i, c in enumerate(connected)
            ]
        ends = zip(self._firsts, self._firsts[1:], strict=False)
        return [
            [
                self._block(of_source[j], self._sources[i], j, *span, connected[i] and c, policy)
                for j, c in enumerate(connected)
            ]
            for i, span in enumerate(ends)
        ]

    def _block(
        self, values: Any, of: tuple[int, ...], source: int, start: int, stop: int, connected: bool, policy: Any
    ) -> Any:
        """The rows from `start` to `stop` in the columns of a source, as a sparse matrix or tensor."""
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
        shape = (*of, *self._sources[source][1 if self.batch else 0 :])
        return SparseTensor(wrap(indices), as_tensor(values), np.array(shape, np.int64))

    def _places_of(self, of: tuple[int, ...], source: int, start: int, stop: int) -> tuple[Array, ...]:
        """The entries of a block, their rows and columns in it, and their coordinates."""
        first, last = self._firsts[source], self._firsts[source + 1]
        inside = np.flatnonzero(
            (self.columns >= first) & (self.columns < last) & (self.rows >= start) & (self.rows < stop)
        )
        rows, columns = self.rows[inside] - start, self.columns[inside] - first
        indices = np.zeros((len(rows), len(of) + len(self._sources[source])), np.int64)
        for flat, shape, axis in ((rows, of, 0), (columns, self._sources[source], len(of))):
            if shape:
                indices[:, axis : axis + len(shape)] = np.stack(np.unravel_index(flat, shape), 1)
        if self.batch:  # the example has the same index on both sides
            indices = np.delete(indices, len(of), axis=1)
        return inside, rows, columns, indices

    def values(
        self, tape: Tape, recording: Recording, targets: Sequence[Any], sources: Sequence[Any], traced: bool
    ) -> Any:
        """The values of all entries, in order, from the passes of each part."""
        known = [value for value in (*targets, *sources) if value is not None]
        dtype = functools.reduce(np.promote_types, [array_of(value).dtype for value in known])
        found, order = [], []
        for i, part in enumerate(self._parts):
            last = i == len(self._parts) - 1
            run = _forward_passes if part.forward else _reverse_passes
            values = run(tape, recording, targets, sources, part, traced, last, dtype)
            if values is not None and part.substitution is not None:
                values = part.substitution.entries(namespace_of(values), values, dtype)
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
    """A `scipy.sparse.csr_array`, with values that no tape records."""
    try:
        from scipy.sparse import csr_array  # type: ignore[import-untyped]
    except ImportError:
        raise ImportError(
            "sparse='scipy' needs SciPy: install it (`pip install scipy`), or use sparse=True, which returns a "
            "tf.SparseTensor."
        ) from None
    if not is_known(values):
        raise TypeError(
            "sparse='scipy' needs concrete values, which do not exist while a function is traced. Use sparse=True, "
            "which returns a tf.SparseTensor."
        )
    ends = np.cumsum(np.bincount(rows, minlength=shape[0]))
    numbers = np.array(as_tensor(values))
    if is_half(numbers.dtype):  # which SciPy does not have
        numbers = numbers.astype(np.float32)
    return csr_array((numbers, columns, np.append(0, ends)), shape=shape)


def _in_dtype(values: Any, dtype: Any) -> Any:
    """Entries in the dtype of a source."""
    known = numpy_dtype(values)
    return values if known == dtype else namespace_of(values).astype(values, dtype=dtype, source=known)


# -- passes ----------------------------------------------------------------------------------------------------------
def _seeds(colors: Array, start: int, stop: int, shape: tuple[int, ...], value: Any) -> Any:
    """[passes, *shape]: ones where the color is the number of the pass."""
    hot = colors == np.arange(start, stop)[:, None]
    return namespace_of(value).from_numpy(hot.astype(value.dtype).reshape(stop - start, *shape))


def _read(
    rows: Sequence[Any], sizes: Sequence[int], part: Passes, start: int, stop: int, dtype: Any
) -> list[tuple[Any, Any]]:
    """The values that are read from some passes, and the part's entries that they are.

    `rows` are the results [passes, …], one for each block of positions.
    """
    found, first = [], 0
    for block, size in zip(rows, sizes, strict=True):
        where, at = part.read_from(start, stop, first, size)
        if block is not None and len(where):
            block = block.write() if type(block) is LazyArray else block
            xp = namespace_of(block)
            flat = xp.reshape(block, shape=((stop - start) * size,))
            found.append((_in_dtype(xp.take(flat, at, axis=0, batch_dims=0), dtype), where))
        elif len(where):
            found.append((None, where))
        first += size
    return found


def _joined(found: Sequence[tuple[Any, Any]], dtype: Any, traced: bool) -> Any:
    """The entries of a part in order; zeros for entries that no pass has reached."""
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
    tape: Tape,
    recording: Any,
    targets: Sequence[Any],
    sources: Sequence[Any],
    part: Passes,
    traced: bool,
    last: bool,
    dtype: Any,
) -> Any:
    """Compute the rows of each color together: one backward pass carries as many colors as memory allows."""
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
        found += _read(rows, sizes, part, start, stop, dtype)
    return _joined(found, dtype, traced)


def _forward_passes(
    tape: Tape,
    recording: Any,
    targets: Sequence[Any],
    sources: Sequence[Any],
    part: Passes,
    traced: bool,
    last: bool,
    dtype: Any,
) -> Any:
    """Compute the columns of each color together: one forward pass carries as many colors as memory allows."""
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
        carried = directional.forward_pass(recording, seeds, traced)
        some = next(iter(seeds.values()))
        rows = [None if t is None else rows_of(carried.get(t.uid), some) for t in targets]
        found += _read(rows, sizes, part, start, stop, dtype)
    return _joined(found, dtype, traced)
