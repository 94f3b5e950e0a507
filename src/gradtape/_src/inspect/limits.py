"""Memory limits of backward passes that become programs: in functions, and on lazy arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import UnknownDimensionError
from gradtape._src.arrays.lazy.trace import current_trace
from gradtape._src.arrays.symbolic import Graph, NeedsEagerError, current_graph
from gradtape._src.autodiff.budget import Budget
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.tensor import Tensor


def check_plannable(graph: Graph, budget: Budget) -> None:
    """Reject a limit in a graph with unknown sizes, and with files: then the function is traced in another way, or runs
    eagerly, within the limit.
    """
    if budget.spill is not None:
        raise NeedsEagerError(RuntimeError("GradientTape(spill=…) moves values while the program runs."))
    if graph.needs_numpy:
        raise NeedsEagerError(
            RuntimeError("GradientTape(memory_limit=…) cannot plan strings or shapes that depend on values.")
        )
    if graph.polymorphic:
        raise UnknownDimensionError("GradientTape(memory_limit=…) needs the sizes of all dimensions.")


def begin(budget: Budget) -> Callable[[Iterable[Any]], None]:
    """Prepare a backward pass: return a function of its results that plans recomputation, so that the peak is within
    the limit.
    """
    graph = current_graph()
    if graph is not None:
        check_plannable(graph, budget)
        return _in_graph(graph, budget)
    begun = current_trace() if budget.spill is None else None
    return _nothing if begun is None else _in_trace(budget)


def _in_graph(graph: Graph, budget: Budget) -> Callable[[Iterable[Any]], None]:
    from gradtape._src.graph.recomputation import functions

    boundary = len(graph.nodes)

    def plan(results: Iterable[Any]) -> None:
        check_plannable(graph, budget)
        budget.add_plan(functions.recompute(graph, boundary, arrays_in(results), budget.limit))

    return plan


def _in_trace(budget: Budget) -> Callable[[Iterable[Any]], None]:
    from gradtape._src.graph.recomputation import traces

    begun = traces.begin()

    def plan(results: Iterable[Any]) -> None:
        found = None if begun is None else traces.recompute(begun, arrays_in(results), budget.limit)
        if found is not None:
            budget.add_plan(found)

    return plan


def _nothing(results: Iterable[Any]) -> None:
    """Do nothing: eager ops on NumPy arrays drop values while they are recorded."""


def arrays_in(values: Iterable[Any]) -> Iterator[Any]:
    """The arrays in tensors, batches and sparse cotangents."""
    for value in values:
        if type(value) is SparseCotangent:
            yield from arrays_in((value.values, value.indices))
        elif isinstance(value, (Tensor, Batched)):
            yield from arrays_in((value.array,))
        elif value is not None:
            yield value
