"""Jacobians and per-example gradients: one backward pass carries a batch of cotangents."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import nest, progress
from gradtape._src.arrays import namespace_of
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import is_known_shape
from gradtape._src.arrays.symbolic import arange
from gradtape._src.autodiff import directional
from gradtape._src.autodiff.arguments import UnconnectedGradients, array_of, as_tensor, seeds_of
from gradtape._src.autodiff.rows import (
    check_batch,
    chunks,
    joined,
    next_level,
    only_tensor,
    or_zeros,
    reshaped,
    row_bytes,
    rows_of,
)
from gradtape._src.conversion import wrap
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.interrupts import float_errors_ignored
from gradtape._src.memory import LazyArray
from gradtape._src.tensor import is_differentiable

if TYPE_CHECKING:
    from gradtape._src.autodiff.gradient_tape import Tape


def _present(blocks: list[Any]) -> list[Any]:
    return [rows for rows in blocks if rows is not None]


def _columns(shape: tuple[int, ...], start: int, stop: int, dtype: Any) -> Any:
    """One-hot rows for a batch [stop - start, *shape]: row k - start is one at element k of all axes but the first."""
    rest = shape[1:]
    hot = np.zeros((stop - start, math.prod(rest)), dtype)
    hot[np.arange(stop - start), np.arange(start, stop)] = 1
    return np.broadcast_to(hot.reshape(stop - start, 1, *rest), (stop - start, *shape))


def _seed(hot: Any, value: Any, traced: bool, block_diagonal: bool = False) -> Batched:
    """The batch of seed cotangents, on the engine of the target's value."""
    rows = namespace_of(value).from_numpy(np.ascontiguousarray(hot) if traced else hot)
    return Batched(wrap(rows) if traced else rows, next_level(), block_diagonal=block_diagonal)


def jacobian(
    tape: Tape,
    target: Any,
    sources: Any,
    policy: UnconnectedGradients,
    parallel_iterations: int | None,
    use_pfor: bool,
    mode: str = "reverse",
) -> Any:
    """See `GradientTape.jacobian`."""
    recording = tape._require_record()
    target, flat = _checked(target, sources)
    if not use_pfor and not tape._persistent:
        raise RuntimeError(
            "GradientTape must be created with persistent=True to compute the jacobian with eager execution enabled "
            "and with  experimental_use_pfor set to False."
        )
    if mode not in ("auto", "reverse", "forward"):
        raise ValueError(f"Unknown value for mode: {mode!r}. Use 'auto', 'reverse' or 'forward'.")
    value = array_of(target)
    shape = tuple(value.shape)
    if mode == "auto":  # compute rows or columns, whichever is fewer
        mode = "forward" if 0 < sum(math.prod(array_of(s).shape) for s in flat) < math.prod(shape) else "reverse"
    with tape._gradient_call("jacobian") as traced, float_errors_ignored():
        if not is_differentiable(value):
            blocks = [[None] for _ in flat]
            joined = 0
        elif mode == "forward":
            blocks = [
                [
                    directional.forward_jacobian(tape, recording, target, s, traced)
                    if is_differentiable(array_of(s))
                    else None
                ]
                for s in flat
            ]
            joined = 0
        elif use_pfor or 0 in shape:  # no rows: there is nothing to loop over
            blocks, joined = _vectorised(tape, recording, target, flat, traced, parallel_iterations)
        else:
            blocks, joined = _row_by_row(tape, recording, target, flat, traced), 0
        parts = [_assembled(block, shape, source, joined) for block, source in zip(blocks, flat, strict=True)]
        results = [or_zeros(r, shape, s, policy) for r, s in zip(parts, flat, strict=True)]
    tape._finish("jacobian", [target], flat, parts, policy)
    return nest.pack_sequence_as(sources, results)


def _checked(target: Any, sources: Any) -> tuple[Any, list[Any]]:
    return only_tensor("target", target), [only_tensor("sources", source) for source in nest.flatten(sources)]


def _vectorised(
    tape: Tape, recording: Any, target: Any, sources: list[Any], traced: bool, requested: int | None
) -> tuple[list[list[Any]], int]:
    """Blocks of rows for each source, and the axis along which to concatenate them.

    The batch of a target with a leading axis starts block-diagonal (see `Batched`); chunks then run over the columns.
    """
    value = array_of(target)
    shape, dtype = tuple(value.shape), value.dtype
    if not is_known_shape(shape):
        return _all_at_once(tape, recording, target, sources), 0
    block_diagonal = len(shape) > 0 and shape[0] > 1
    unit = row_bytes(recording, sources, dtype.itemsize) * (shape[0] if block_diagonal else 1)
    columns = math.prod(shape[1:]) if block_diagonal else math.prod(shape)
    if requested is not None and block_diagonal:
        requested = max(1, requested // shape[0])
    spans = chunks(columns, unit, requested)
    blocks: list[list[Any]] = [[] for _ in sources]
    for start, stop in progress.over(spans, "rows of a Jacobian"):
        hot = _columns(shape if block_diagonal else (1, *(shape or (1,))), start, stop, dtype)
        if not block_diagonal:
            hot = hot.reshape(stop - start, *shape)
        seed = _seed(hot, value, traced, block_diagonal)
        last = stop == spans[-1][1]
        cotangents = tape._backward(recording, {target.uid: seed}, sources, traced, last=last)
        for block, source in zip(blocks, sources, strict=True):
            rows = rows_of(cotangents.get(source.uid), seed)
            if rows is not None and block_diagonal:
                rows = reshaped(rows, (shape[0], stop - start, *array_of(source).shape))
            block.append(rows)
    return blocks, 1 if block_diagonal else 0


def _all_at_once(tape: Tape, recording: Any, target: Any, sources: list[Any]) -> list[list[Any]]:
    """One block with all rows for each source, if only the running program knows their number."""
    value = array_of(target)
    count = math.prod(value.shape)
    xp = namespace_of(value)
    places = arange(0, count, 1, np.int64)
    same = xp.equal(xp.reshape(places, shape=(count, 1)), places)
    rows = xp.reshape(xp.astype(same, dtype=value.dtype, source=same.dtype), shape=(count, *value.shape))
    seed = Batched(wrap(rows), next_level())
    cotangents = tape._backward(recording, {target.uid: seed}, sources, True, last=True)
    return [[rows_of(cotangents.get(source.uid), seed)] for source in sources]


def _row_by_row(tape: Tape, recording: Any, target: Any, sources: list[Any], traced: bool) -> list[list[Any]]:
    value = array_of(target)
    size = math.prod(value.shape)
    blocks: list[list[Any]] = [[] for _ in sources]
    for i in progress.over(range(size), "rows of a Jacobian"):
        hot = np.zeros(size, value.dtype)
        hot[i] = 1
        hot = namespace_of(value).from_numpy(hot.reshape(value.shape))
        cotangents = tape._backward(recording, {target.uid: wrap(hot) if traced else hot}, sources, traced, last=False)
        for block, source in zip(blocks, sources, strict=True):
            c = cotangents.get(source.uid)
            c = c.dense() if isinstance(c, SparseCotangent) else c
            block.append(None if c is None else namespace_of(c).reshape(c, shape=(1, *c.shape)))
    return blocks


def _assembled(block: list[Any], shape: tuple[int, ...], source: Any, axis: int) -> Any:
    """Assemble blocks of rows into one Jacobian."""
    found = [rows for rows in block if rows is not None]
    if not found:
        return None
    return reshaped(joined(found, axis), (*shape, *array_of(source).shape))


def batch_jacobian(
    tape: Tape,
    target: Any,
    source: Any,
    policy: UnconnectedGradients,
    parallel_iterations: int | None,
    use_pfor: bool,
) -> Any:
    """See `GradientTape.batch_jacobian`."""
    recording = tape._require_record()
    target, source = only_tensor("target", target), only_tensor("source", source)
    check_batch(target, source)
    shape, x_shape = tuple(array_of(target).shape), tuple(array_of(source).shape)
    if not use_pfor and not tape._persistent:
        raise RuntimeError(
            "GradientTape must be created with persistent=True to compute the batch_jacobian with eager execution "
            "enabled and  with experimental_use_pfor set to False."
        )
    value = array_of(target)
    columns = math.prod(shape[1:])
    unit = row_bytes(recording, [source], value.dtype.itemsize)
    spans = chunks(columns, unit, parallel_iterations if use_pfor else 1)
    blocks: list[Any] = []
    with tape._gradient_call("batch_jacobian") as traced, float_errors_ignored():
        for start, stop in progress.over(spans, "columns of a batch Jacobian"):
            hot = _columns(shape, start, stop, value.dtype)
            seed = _seed(hot, value, traced)
            start_at = {target.uid: seed} if is_differentiable(value) else {}
            cotangents = tape._backward(recording, start_at, [source], traced, last=stop == spans[-1][1])
            blocks.append(rows_of(cotangents.get(source.uid), seed))
        found = _present(blocks)
        if not found:  # TensorFlow returns zeros here for both policies
            kind = array_of(source).dtype if policy is UnconnectedGradients.ZERO else value.dtype
            return wrap(namespace_of(value).zeros((*shape, *x_shape[1:]), kind))
        rows = joined(found, 0)
        rows = rows.write() if type(rows) is LazyArray else rows
        xp = namespace_of(rows)
        per_row = xp.transpose(rows, perm=(1, 0, *range(2, len(x_shape) + 1)))
        result = xp.reshape(per_row, shape=(*shape, *x_shape[1:]))
    return as_tensor(result)


def batch_gradient(tape: Tape, target: Any, sources: Any, output_gradients: Any, policy: UnconnectedGradients) -> Any:
    """See `GradientTape.batch_gradient`."""
    recording = tape._require_record()
    target, flat = _checked(target, sources)
    value = array_of(target)
    shape = tuple(value.shape)
    if not shape:
        raise ValueError("Shape () must have rank at least 1")
    (given,) = seeds_of(target, [target], output_gradients)
    with tape._gradient_call("batch_gradient") as traced, float_errors_ignored():
        start: Any = given if given is not None else wrap(namespace_of(value).ones_like(value))
        start = start if traced else start.array
        seed = Batched(namespace_of(start).reshape(start, shape=(1, *shape)), next_level(), block_diagonal=True)
        cotangents = tape._backward(
            recording, {target.uid: seed} if is_differentiable(value) else {}, flat, traced, last=True
        )
        rows = [rows_of(cotangents.get(source.uid), seed) for source in flat]
        results = [or_zeros(r, shape[:1], source, policy) for r, source in zip(rows, flat, strict=True)]
    tape._finish("batch_gradient", [target], flat, rows, policy)
    return nest.pack_sequence_as(sources, results)
