"""Higher-order derivatives along directions, from the records of a tape: Taylor mode, Laplacians, biharmonics."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.autodiff.arguments import UnconnectedGradients, array_of
from gradtape._src.autodiff.directional import by_uid, direction
from gradtape._src.autodiff.rows import chunks, next_level, only_tensor, or_zeros, row_bytes
from gradtape._src.conversion import wrap
from gradtape._src.core.expansion import expand
from gradtape._src.core.primitive import numpy_dtype
from gradtape._src.core.series import Series, scaled, sum_over_directions
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.tensor import Tensor, dimensions_shown, is_differentiable
from gradtape._src.variable.growing import refuse_tangents

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape
    from gradtape._src.autodiff.recording import Recording

_MOST_ORDERS = 170
"""The largest order: factorials of larger numbers overflow float64."""


def taylor(tape: Tape, target: Any, sources: Any, order: int, directions: Any, policy: UnconnectedGradients) -> Any:
    """See `GradientTape.taylor`."""
    _check_order(order)
    recording = tape._require_record()
    flat = [only_tensor("sources", s) for s in nest.flatten(sources)]
    targets = [only_tensor("target", t) for t in nest.flatten(target)]
    if directions is None:
        given = [np.ones(array_of(s).shape, array_of(s).dtype) for s in flat]
    else:
        nest.assert_same_structure(sources, directions)
        given = nest.flatten(directions)
    steps = [direction(s, d) for s, d in zip(flat, given, strict=True)]
    with tape._gradient_call("taylor") as traced, float_errors_ignored(), dimensions_shown():
        found = _expanded(recording, _lines(flat, by_uid(flat, steps, traced)), targets, order, traced)
        results = [_derivatives(found.get(t.uid), t, order, policy) for t in targets]
    return nest.pack_sequence_as(target, results) if nest.is_nested(target) else results[0]


def laplacian(tape: Tape, target: Any, source: Any, batch: bool, policy: UnconnectedGradients) -> Any:
    """See `GradientTape.laplacian`."""
    recording, target, source = _of_one(tape, target, source, batch)
    total = None
    with tape._gradient_call("laplacian") as traced, float_errors_ignored(), dimensions_shown():
        for rows in _unit_directions(recording, target, source, batch, traced):
            line = _lines([source], {source.uid: rows})
            line[source.uid].collapsed = True
            found = _expanded(recording, line, [target], 2, traced).get(target.uid)
            total = _with_second(total, found, target)
    return or_zeros(total, (), target, policy)


def _with_second(total: Any, found: Any, target: Any) -> Any:
    """Add the second derivatives of a series to a total, each of which is None where nothing depends on the source."""
    if found is not None and (second := found[2]) is not None:
        return second * 2 if total is None else total + second * 2
    return _zeros(target) if found is not None and total is None else total


def biharmonic(tape: Tape, target: Any, source: Any, batch: bool, policy: UnconnectedGradients) -> Any:
    """See `GradientTape.biharmonic`.

    A fourth derivative, twice by x_i and twice by x_j, is a sum of fourth derivatives along e_i, e_j, e_i + e_j and
    e_i - e_j: 12 D_iijj = D⁴(e_i + e_j) + D⁴(e_i - e_j) - 2 D⁴(e_i) - 2 D⁴(e_j).
    """
    recording, target, source = _of_one(tape, target, source, batch)
    total = None
    with tape._gradient_call("biharmonic") as traced, float_errors_ignored(), dimensions_shown():
        for rows, weights in _pairs_of_directions(recording, target, source, batch, traced):
            line = _lines([source], {source.uid: rows})
            found = _expanded(recording, line, [target], 4, traced).get(target.uid)
            if found is None:
                continue
            fourth = found[4]
            part = _zeros(target) if type(fourth) is not Batched else _weighted(fourth, weights)
            total = part if total is None else total + part
    return or_zeros(total, (), target, policy)


def _check_order(order: Any) -> None:
    if isinstance(order, bool) or not isinstance(order, (int, np.integer)):
        raise TypeError(f"`order` must be an int, the number of derivatives; received {order!r}.")
    if not 0 <= order <= _MOST_ORDERS:
        raise ValueError(f"`order` is between 0 and {_MOST_ORDERS}; received {order}.")


def _of_one(tape: Tape, target: Any, source: Any, batch: bool) -> tuple[Recording, Any, Any]:
    recording = tape._require_record()
    target, source = only_tensor("target", target), only_tensor("source", source)
    if not is_differentiable(array_of(source)):
        raise ValueError(f"`source` must be floating-point, but its dtype is {source.dtype.name}.")
    if batch and (not array_of(source).shape or array_of(source).shape[0] != (*array_of(target).shape, None)[0]):
        raise ValueError(
            "With batch=True, target and source must have the same first dimension; received shapes "
            f"{tuple(array_of(target).shape)} and {tuple(array_of(source).shape)}."
        )
    return recording, target, source


# -- directions ------------------------------------------------------------------------------------------------------
def _lines(sources: Sequence[Any], directions: dict[int, Any]) -> dict[int, Series]:
    """source + t direction, as series by uid. Rules that need the value of a source find it in the record."""
    arrays = {source.uid: array_of(source) for source in sources if source.uid in directions}
    return {
        uid: Series(tuple(array.shape), numpy_dtype(array), [None, directions[uid]]) for uid, array in arrays.items()
    }


def _unit_directions(recording: Recording, target: Any, source: Any, batch: bool, traced: bool) -> Any:
    """Batches of unit vectors: one for each element of the source, or of each point of it."""
    shape, dtype = tuple(array_of(source).shape), array_of(source).dtype
    size = math.prod(shape[1:] if batch else shape)
    for first, last in chunks(size, row_bytes(recording, [target], dtype.itemsize), None):
        hot = np.eye(size, dtype=dtype)[first:last]
        yield _batch(hot, shape, source, batch, traced)


def _pairs_of_directions(recording: Recording, target: Any, source: Any, batch: bool, traced: bool) -> Any:
    """Batches of the directions of a biharmonic operator, with the weights of their fourth derivatives."""
    shape, dtype = tuple(array_of(source).shape), array_of(source).dtype
    size = math.prod(shape[1:] if batch else shape)
    unit = np.eye(size, dtype=dtype)
    first, second = np.triu_indices(size, 1)
    rows = np.concatenate([unit, unit[first] + unit[second], unit[first] - unit[second]])
    # Once in D_iiii, and with -2 / 12 in 2 D_iijj for each of the other size - 1 elements.
    weights = np.concatenate([np.full(size, 1 - (size - 1) / 3), np.full(2 * len(first), 1 / 6)])
    for start, stop in chunks(len(rows), 5 * row_bytes(recording, [target], dtype.itemsize), None):
        yield _batch(rows[start:stop], shape, source, batch, traced), weights[start:stop].astype(dtype)


def _batch(rows: Any, shape: tuple[int, ...], source: Any, batch: bool, traced: bool) -> Batched:
    """Directions [rows, elements] as a batch of arrays with the source's shape; all points have the same ones."""
    if batch:
        rows = np.broadcast_to(rows.reshape(len(rows), 1, *shape[1:]), (len(rows), *shape))
    rows = namespace_of(array_of(source)).from_numpy(np.ascontiguousarray(rows.reshape(len(rows), *shape)))
    return Batched(wrap(rows) if traced else rows, next_level())


def _weighted(fourth: Batched, weights: Any) -> Any:
    """The weighted sum of fourth derivatives: coefficients times 4!."""
    factors = weights.reshape(len(weights), *[1] * len(fourth.shape)) * 24
    return sum_over_directions(fourth.mapped(lambda rows: rows * factors))


def _zeros(target: Any) -> Any:
    array = array_of(target)
    return namespace_of(array).zeros_like(array)


def _expanded(
    recording: Recording, start: dict[int, Series], targets: Sequence[Any], order: int, traced: bool
) -> dict[int, Series]:
    """The series of targets, by uid, given those of sources."""
    refuse_tangents(recording.records, start)
    recording.use_formulas(frozenset(start))
    return expand(recording.records, recording.tracked, start, [t.uid for t in targets], order, traced)


def _derivatives(found: Series | None, target: Any, order: int, policy: UnconnectedGradients) -> list[Any]:
    """The target and its derivatives: coefficient n times n!."""
    results = [target if isinstance(target, Tensor) else target.value()]
    for n in range(1, order + 1):
        coefficient = None if found is None else found[n]
        if coefficient is None and found is not None:
            coefficient = _zeros(target)
        elif found is not None:
            coefficient = scaled(coefficient, float(math.factorial(n)), found.dtype)
        results.append(or_zeros(coefficient, (), target, policy))
    return results


__all__ = ["biharmonic", "laplacian", "taylor"]
