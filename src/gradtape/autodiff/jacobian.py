"""Jacobians and per-example gradients: the same sweep, with cotangents that carry many rows at once."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape import nest
from gradtape.arrays.batched import Batched
from gradtape.conversion import wrap
from gradtape.tensor import Tensor, is_followable
from gradtape.variable import Variable

if TYPE_CHECKING:
    from gradtape.autodiff.gradient_tape import GradientTape, UnconnectedGradients

_next_level = itertools.count(1).__next__

ROWS_BUDGET = 256 * 2**20
"""Bytes that one sweep's rows may take: what a chunk of a Jacobian is chosen by."""


def _only_tensor(name: str, value: Any) -> Any:
    if not isinstance(value, (Tensor, Variable)):
        raise TypeError(f"`{name}` should be one Tensor or Variable, but received {value!r}.")
    return value


def _array(value: Any) -> Any:
    return value._tensor.array if isinstance(value, Variable) else value.array


def _columns(shape: tuple[int, ...], start: int, stop: int, dtype: Any) -> Any:
    """[stop - start, *shape]: ones at column k (of all but the first axis, flattened) for every position of the first."""
    first, *rest = shape
    hot = np.zeros((stop - start, math.prod(rest)), dtype)
    hot[np.arange(stop - start), np.arange(start, stop)] = 1
    return np.broadcast_to(hot.reshape(stop - start, 1, *rest), (stop - start, *shape))


def _chunks(total: int, unit_bytes: int, asked: int | None) -> list[tuple[int, int]]:
    """Split `total` units of work into spans; as large as asked for, or as the budget allows."""
    size = asked if asked is not None and asked > 0 else max(1, ROWS_BUDGET // max(unit_bytes, 1))
    return [(i, min(i + size, total)) for i in range(0, total, size)] or [(0, 0)]


def _row_bytes(recording: Any, sources: list[Any], itemsize: int) -> int:
    """What one row costs: its part of the results, and twice the largest cotangent on the way."""
    largest = max((math.prod(shape) for shape in recording.tracked.values()), default=0)
    return itemsize * (sum(math.prod(_array(s).shape) for s in sources) + 2 * largest)


def jacobian(
    tape: GradientTape,
    target: Any,
    sources: Any,
    policy: UnconnectedGradients,
    parallel_iterations: int | None,
    use_pfor: bool,
) -> Any:
    """See `GradientTape.jacobian`."""
    recording = tape._require_record()
    flat = _checked(target, sources)
    if not use_pfor and not tape._persistent:
        raise RuntimeError(
            "GradientTape must be created with persistent=True to compute the jacobian with eager execution enabled "
            "and with  experimental_use_pfor set to False."
        )
    value = _array(target)
    shape = tuple(value.shape)
    with tape._asking("jacobian") as traced:
        if not is_followable(value):
            blocks = [[None] for _ in flat]
            joined = 0
        elif use_pfor:
            blocks, joined = _vectorised(tape, recording, target, flat, traced, parallel_iterations)
        else:
            blocks, joined = _row_by_row(tape, recording, target, flat, traced), 0
        results = [_assembled(block, shape, source, joined) for block, source in zip(blocks, flat, strict=True)]
    return nest.pack_sequence_as(sources, [_or_zeros(r, shape, s, policy) for r, s in zip(results, flat, strict=True)])


def _checked(target: Any, sources: Any) -> list[Any]:
    _only_tensor("target", target)
    return [_only_tensor("sources", source) for source in nest.flatten(sources)]


def _vectorised(
    tape: GradientTape, recording: Any, target: Any, sources: list[Any], traced: bool, asked: int | None
) -> tuple[list[list[Any]], int]:
    """Blocks of rows for each source, and the axis along which they are joined.

    A target with a leading axis starts aligned (see `Batched`): chunks then run over the columns.
    """
    value = _array(target)
    shape, dtype = tuple(value.shape), value.dtype
    aligned = len(shape) > 0 and shape[0] > 1
    unit = _row_bytes(recording, sources, dtype.itemsize) * (shape[0] if aligned else 1)
    columns = math.prod(shape[1:]) if aligned else math.prod(shape)
    if asked is not None and aligned:
        asked = max(1, asked // shape[0])
    spans = _chunks(columns, unit, asked)
    blocks: list[list[Any]] = [[] for _ in sources]
    for start, stop in spans:
        hot = _columns(shape if aligned else (1, *(shape or (1,))), start, stop, dtype)
        if not aligned:
            hot = hot.reshape(stop - start, *shape)
        seed = Batched(wrap(np.ascontiguousarray(hot)) if traced else hot, _next_level(), aligned=aligned)
        last = stop == spans[-1][1]
        cotangents = tape._sweep(recording, {target.uid: seed}, sources, traced, last=last)
        for block, source in zip(blocks, sources, strict=True):
            rows = _rows(cotangents.get(source.uid), seed)
            if rows is not None and aligned:
                rows = _ns(rows).reshape(rows, shape=(shape[0], stop - start, *_array(source).shape))
            block.append(rows)
    return blocks, 1 if aligned else 0


def _ns(value: Any) -> Any:
    from gradtape.arrays import namespace_of

    return namespace_of(value)


def _rows(cotangent: Any, seed: Batched) -> Any:
    """What arrived at a source as [rows, ...]; a value that is the same in every row arrives unbatched."""
    if cotangent is None:
        return None
    if type(cotangent) is Batched:
        return cotangent.rows()
    return _ns(cotangent).broadcast_to(cotangent, shape=(seed.batch_size, *cotangent.shape))


def _row_by_row(tape: GradientTape, recording: Any, target: Any, sources: list[Any], traced: bool) -> list[list[Any]]:
    value = _array(target)
    size = math.prod(value.shape)
    blocks: list[list[Any]] = [[] for _ in sources]
    for i in range(size):
        hot = np.zeros(size, value.dtype)
        hot[i] = 1
        hot = hot.reshape(value.shape)
        cotangents = tape._sweep(recording, {target.uid: wrap(hot) if traced else hot}, sources, traced, last=False)
        for block, source in zip(blocks, sources, strict=True):
            c = cotangents.get(source.uid)
            c = c.dense() if hasattr(c, "dense") else c
            block.append(None if c is None else _ns(c).reshape(c, shape=(1, *c.shape)))
    return blocks


def _assembled(block: list[Any], shape: tuple[int, ...], source: Any, axis: int) -> Any:
    """Blocks of rows as one Jacobian."""
    found = [rows for rows in block if rows is not None]
    if not found:
        return None
    xp = _ns(found[0])
    rows = found[0] if len(found) == 1 else xp.concatenate(*found, axis=axis)
    return xp.reshape(rows, shape=(*shape, *_array(source).shape))


def _or_zeros(result: Any, shape: tuple[int, ...], source: Any, policy: UnconnectedGradients) -> Any:
    from gradtape.autodiff.gradient_tape import as_tensor

    if result is not None:
        return as_tensor(result)
    if policy.value == "none":
        return None
    value = _array(source)
    return wrap(np.zeros((*shape, *value.shape), value.dtype))


def batch_jacobian(
    tape: GradientTape,
    target: Any,
    source: Any,
    policy: UnconnectedGradients,
    parallel_iterations: int | None,
    use_pfor: bool,
) -> Any:
    """See `GradientTape.batch_jacobian`."""
    from gradtape.autodiff.gradient_tape import as_tensor

    recording = tape._require_record()
    shape, x_shape = (tuple(_array(_only_tensor(n, v)).shape) for n, v in (("target", target), ("source", source)))
    for found in (shape, x_shape):
        if len(found) < 2:
            raise ValueError(f"Shape {found} must have rank at least 2")
    if shape[0] != x_shape[0]:
        raise ValueError(
            f"Need first dimension of target shape ({shape}) and source shape ({x_shape}) to match."
        )
    if not use_pfor and not tape._persistent:
        raise RuntimeError(
            "GradientTape must be created with persistent=True to compute the batch_jacobian with eager execution "
            "enabled and  with experimental_use_pfor set to False."
        )
    value = _array(target)
    columns = math.prod(shape[1:])
    unit = _row_bytes(recording, [source], value.dtype.itemsize)
    spans = _chunks(columns, unit, parallel_iterations if use_pfor else 1)
    blocks = []
    with tape._asking("batch_jacobian") as traced:
        for start, stop in spans:
            hot = _columns(shape, start, stop, value.dtype)
            seed = Batched(wrap(np.ascontiguousarray(hot)) if traced else hot, _next_level())
            start_at = {target.uid: seed} if is_followable(value) else {}
            cotangents = tape._sweep(recording, start_at, [source], traced, last=stop == spans[-1][1])
            blocks.append(_rows(cotangents.get(source.uid), seed))
        found = [rows for rows in blocks if rows is not None]
        if not found:  # TensorFlow gives zeros here whatever was asked for
            return wrap(np.zeros((*shape, *x_shape[1:]), value.dtype))
        xp = _ns(found[0])
        rows = found[0] if len(found) == 1 else xp.concatenate(*found, axis=0)
        per_row = xp.transpose(rows, perm=(1, 0, *range(2, len(x_shape) + 1)))
        result = xp.reshape(per_row, shape=(*shape, *x_shape[1:]))
    return as_tensor(result)


def batch_gradient(
    tape: GradientTape, target: Any, sources: Any, output_gradients: Any, policy: UnconnectedGradients
) -> Any:
    """See `GradientTape.batch_gradient`."""
    from gradtape.autodiff.gradient_tape import _seeds

    recording = tape._require_record()
    flat = _checked(target, sources)
    value = _array(target)
    shape = tuple(value.shape)
    if not shape:
        raise ValueError("Shape () must have rank at least 1")
    (given,) = _seeds(target, [target], output_gradients)
    with tape._asking("batch_gradient") as traced:
        start: Any = given if given is not None else wrap(np.ones(shape, value.dtype))
        start = start if traced else start.array
        seed = Batched(_ns(start).reshape(start, shape=(1, *shape)), _next_level(), aligned=True)
        cotangents = tape._sweep(
            recording, {target.uid: seed} if is_followable(value) else {}, flat, traced, last=True
        )
        rows = [_rows(cotangents.get(source.uid), seed) for source in flat]
    results = [_or_zeros(r, shape[:1], source, policy) for r, source in zip(rows, flat, strict=True)]
    return nest.pack_sequence_as(sources, results)
