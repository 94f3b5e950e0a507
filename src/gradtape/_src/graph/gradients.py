"""`tf.gradients` and `tf.hessians`: derivatives inside a function, from the records of its trace, without a tape."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.symbolic import FollowConstantsError, current_graph, graph_for_ops
from gradtape._src.autodiff.arguments import array_of, as_policy, finished, seed_cotangents, seeds_of
from gradtape._src.autodiff.gradient_overrides import with_overrides
from gradtape._src.autodiff.rows import next_level
from gradtape._src.autodiff.settings import settings
from gradtape._src.conversion import convert, wrap
from gradtape._src.core.fast.backward import traced_backward_pass
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.core.tape import active_recorders
from gradtape._src.graph.trace import Trace
from gradtape._src.ops import array
from gradtape._src.tensor import Tensor, is_differentiable, next_uid
from gradtape._src.variable import Variable, all_unwrapped


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = "none",
) -> list[Any]:
    """Compute the gradients of the sum of `ys`, one for each of `xs`, inside a `tf.function`. Eager code uses a tape.

    >>> import gradtape as tf
    >>> @tf.function
    ... def slope(x):
    ...     return tf.gradients(x**2, x)[0]
    >>> float(slope(tf.constant(3.0)))
    6.0
    """
    builder = graph_for_ops()
    if builder is not None:
        result: list[Any] = builder.gradients(ys, xs, grad_ys, stop_gradients, unconnected_gradients, name)
        return result
    targets = [_part(y) for y in nest.flatten(ys)]
    sources = [x if hasattr(x, "uid") else convert(x) for x in all_unwrapped(nest.flatten(xs))]
    records, arrays = _trace("tf.gradients", sources)
    policy = as_policy(unconnected_gradients)
    given = None if grad_ys is None else [None if g is None else convert(g) for g in nest.flatten(grad_ys)]
    seeds = [None] * len(targets) if given is None else _seeds(targets, given)
    stopped = frozenset(t.uid for t in nest.flatten(stop_gradients) if t is not None)
    cotangents = seed_cotangents(targets, seeds, sources, traced=True)
    found = _swept(records, arrays, cotangents, sources, stopped)
    return [finished(found.get(source.uid), source, policy) for source in sources]


def hessians(
    ys: Any, xs: Any, gate_gradients: bool = False, aggregation_method: Any = None, name: str = "hessians"
) -> list[Any]:
    """Compute the second derivatives of the sum of `ys` with respect to each of `xs`, inside a `tf.function`.

    >>> import gradtape as tf
    >>> @tf.function
    ... def curvature(x):
    ...     return tf.hessians(tf.reduce_sum(x**3), x)[0]
    >>> curvature(tf.constant([1.0, 2.0])).numpy().tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    builder = graph_for_ops()
    if builder is not None:
        second: list[Any] = builder.hessians(ys, xs, name)
        return second
    results = []
    for source in all_unwrapped(nest.flatten(xs)):
        slope = convert(gradients(ys, source)[0])
        shape = tuple(slope.array.shape)
        count = slope.array.size
        rows = wrap(np.eye(count, dtype=slope.array.dtype).reshape(count, *shape))
        records, arrays = _trace("tf.hessians", [source])
        found = _swept(records, arrays, {slope.uid: Batched(rows, next_level())}, [source], frozenset())
        rows_of = found.get(source.uid)
        if rows_of is None:
            results.append(wrap(np.zeros((*shape, *shape), slope.array.dtype)))
        else:
            results.append(array.reshape(rows_of.rows(), shape=(*shape, *source.shape.as_list())))
    return results


def _trace(name: str, sources: list[Any]) -> tuple[list[Any], dict[int, Any]]:
    """The records of the trace until now. Constants created inside are tracked only after tracing again."""
    graph = current_graph()
    if graph is None:
        raise RuntimeError(f"{name} is not supported when eager execution is enabled. Use tf.GradientTape instead.")
    trace = next(r for r in active_recorders() if isinstance(r, Trace))
    if any(source.uid not in trace.tracked for source in sources) and not graph.tracks_constants:
        raise FollowConstantsError
    return trace.records[:], trace.arrays


def _part(y: Any) -> Any:
    return y if isinstance(y, (Tensor, Variable)) else convert(y)


def _seeds(targets: list[Any], given: list[Any]) -> list[Any]:
    if len(given) != len(targets):
        raise ValueError(f"Passed {len(given)} grad_ys for {len(targets)} ys")
    return [None if g is None else seeds_of(t, [t], g)[0] for t, g in zip(targets, given, strict=True)]


def _swept(
    records: list[Any],
    arrays: dict[int, Any],
    cotangents: dict[int, Any],
    sources: list[Any],
    stopped: frozenset[int],
) -> dict[int, Any]:
    uids = frozenset(source.uid for source in sources)
    records = [_without_outputs(record, stopped) for record in records] if stopped else records
    shapes = {source.uid: tuple(array_of(source).shape) for source in sources}
    for record in records:
        if any(uid in shapes for uid in record[1]):
            for uid in record[2] if type(record[2]) is tuple else (record[2],):
                if uid in arrays and is_differentiable(arrays[uid]):
                    shapes.setdefault(uid, tuple(arrays[uid].shape))
    mapped = getattr(current_graph(), "mapped_gradient", None)  # branches and loops have no map
    if settings.gradient_overrides or mapped is not None:
        records = with_overrides(records, mapped)
    found = traced_backward_pass(records, shapes, cotangents, kept=uids, release=False)
    return {
        uid: c.dense() if type(c) is SparseCotangent and type(c.values) is Batched else c for uid, c in found.items()
    }


def _without_outputs(record: Any, stopped: frozenset[int]) -> Any:
    """A record without its outputs among `stopped`: their cotangents are dropped."""
    op, inputs, output, *rest = record
    several = type(output) is tuple
    kept = tuple([next_uid() if uid in stopped else uid for uid in (output if several else (output,))])
    return (op, inputs, kept if several else kept[0], *rest)
