"""Operations that exist only in graphs: placeholders, groups, gradients, initializers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradtape._src import nest
from gradtape._src.arrays.dimensions import extents_of
from gradtape._src.arrays.symbolic import current_graph
from gradtape._src.conversion import convert, wrap
from gradtape._src.dtypes import as_dtype
from gradtape._src.graph import gradients as derivatives
from gradtape._src.indexed_slices import IndexedSlices
from gradtape._src.ops import array
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.v1.graphs.graph import Graph, operation_of, register_part
from gradtape._src.tf.v1.graphs.inference import tried
from gradtape._src.tf.v1.graphs.tensors import GraphTensor, Operation, active_mode


def placeholder(graph: Graph, dtype: Any, shape: Any, name: str | None) -> GraphTensor:
    """A tensor whose value is fed."""
    kind, static = as_dtype(dtype), TensorShape(shape)
    op = Operation(graph, lambda: None, (), {}, graph.control_inputs())
    op.is_placeholder, op.type = True, "Placeholder"
    op.attributes.update(dtype=kind, shape=static)
    ranked = static.rank is not None
    like = wrap(graph.stand_in(static, kind) if ranked else np.zeros((), kind.numpy_dtype))
    result: GraphTensor = graph.add_operation(op, like, [like], [static], name or "Placeholder")
    return result


def placeholder_with_default(graph: Graph, value: Any, shape: Any, name: str | None) -> GraphTensor:
    """A tensor whose value may be fed."""
    static = TensorShape(shape)
    if not isinstance(value, GraphTensor):
        value = graph.record(convert, (value,), {})
    if not value.shape.is_compatible_with(static):
        raise ValueError(f"Shapes {value.shape} and {static} are incompatible: the shape of the default differs.")
    op = Operation(graph, array.identity, (value,), {}, graph.control_inputs())
    op.type = "PlaceholderWithDefault"
    ranked = static.rank is not None
    like = wrap(graph.stand_in(static, value.dtype) if ranked else np.zeros((), value.dtype.numpy_dtype))
    result: GraphTensor = graph.add_operation(op, like, [like], [static], name or "PlaceholderWithDefault")
    return result


def group(graph: Graph, inputs: Sequence[Any], name: str | None) -> Operation:
    """An operation that runs others."""
    flat = [value for value in nest.flatten(list(inputs), expand_composites=True) if value is not None]
    return graph.add_grouping([operation_of(value) for value in flat], name or "group_deps")


def initializers(graph: Graph, variables: Iterable[Any], name: str) -> Operation:
    """An operation that assigns initial values to variables."""
    return graph.add_grouping([variable.initializer for variable in variables], name)


# -- gradients -------------------------------------------------------------------------------------------------------
def gradients(graph: Graph, ys: Any, xs: Any, grad_ys: Any, stop: Any, unconnected: Any, name: str) -> list[Any]:
    """`tf.gradients` as an operation; None for sources that the targets do not depend on."""
    sources = nest.flatten(xs)
    targets = nest.flatten(ys)
    op = Operation(graph, _gradients, (targets, sources, grad_ys, stop, unconnected), {}, graph.control_inputs())
    op.type, op.attributes["gradients"] = "SymbolicGradient", True
    found = tried(op, Graph)
    tensors = [convert(leaf) for leaf in nest.flatten(found, expand_composites=True) if leaf is not None]
    shapes = _shapes(found, sources)
    likes = [wrap(np.zeros((), t.array.dtype)) for t in tensors]
    template = nest.pack_sequence_as(
        found, _filled(nest.flatten(found, expand_composites=True), likes), expand_composites=True
    )
    if not tensors:
        return list(found)
    op.kwargs = {"sparse": [isinstance(g, IndexedSlices) for g in found]}
    result: list[Any] = graph.add_operation(op, template, likes, shapes, name)
    for g, source in zip(result, sources, strict=True):
        if isinstance(g, IndexedSlices) and source.shape.is_fully_defined():
            g.dense_shape.symbol.extents = extents_of(source.shape.as_list())
    return result


def _shapes(found: list[Any], sources: list[Any]) -> list[TensorShape]:
    """The shapes of gradients: those of their sources; for slices the number of rows is unknown."""
    shapes = []
    for g, source in zip(found, sources, strict=True):
        if isinstance(g, Tensor):
            shapes.append(source.shape)
        elif g is not None:
            rest = list(source.shape[1:]) if source.shape.rank else [None] * (len(g.values.array.shape) - 1)
            shapes += [TensorShape([None, *rest]), TensorShape([None])]
            shapes += [] if g.dense_shape is None else [TensorShape(g.dense_shape.array.shape)]
    return shapes


def _filled(leaves: list[Any], likes: Iterable[Any]) -> list[Any]:
    remaining = iter(likes)
    return [None if leaf is None else next(remaining) for leaf in leaves]


def _gradients(ys: Any, xs: Any, grad_ys: Any, stop: Any, unconnected: Any, sparse: Any = None) -> list[Any]:
    """The gradients. `sparse` says which of them have to be slices, as when the graph was built."""
    found = _traced_or_eager(ys, xs, grad_ys, stop, unconnected)
    if sparse is None:
        return found
    pairs = zip(found, sparse, strict=True)
    return [convert(g) if isinstance(g, IndexedSlices) and not is_sparse else g for g, is_sparse in pairs]


def _traced_or_eager(ys: Any, xs: Any, grad_ys: Any, stop: Any, unconnected: Any) -> list[Any]:
    if current_graph() is not None:
        return derivatives.gradients(ys, xs, grad_ys, stop_gradients=stop, unconnected_gradients=unconnected)
    mode: Any = active_mode()
    if stop is not None:
        raise NotImplementedError(
            "stop_gradients is not supported for a graph that cannot be traced. Use tf.stop_gradient where the "
            "tensor is used."
        )
    found: list[Any] = mode.tape.gradient(ys, xs, grad_ys, unconnected)
    return found


def hessians(graph: Graph, ys: Any, xs: Any, name: str) -> list[Any]:
    """`tf.hessians`, as an operation."""
    return graph.record(_hessians, (nest.flatten(ys), nest.flatten(xs)), {}, name)


def _hessians(ys: Any, xs: Any) -> list[Any]:
    return derivatives.hessians(ys, xs)


for _part in (group, gradients, hessians):
    register_part(_part.__name__, _part)
