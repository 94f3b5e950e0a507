"""Memory limits of backward passes that become programs: in functions, and on lazy arrays."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from gradtape._src.arrays.batched import Batched
from gradtape._src.arrays.dimensions import UnknownDimensionError
from gradtape._src.arrays.lazy.trace import current_trace
from gradtape._src.arrays.symbolic import Graph, NeedsEagerError, current_graph
from gradtape._src.autodiff.budget import Budget
from gradtape._src.core.sparse_cotangent import SparseCotangent
from gradtape._src.interrupts import contextmanager
from gradtape._src.tensor import Tensor


def check_plannable(graph: Graph, budget: Budget) -> None:
    """Refuse a limit in a graph whose sizes are not known, and files: then the function is traced in another way, or
    runs eagerly, within the limit.
    """
    if budget.spill is not None:
        raise NeedsEagerError(RuntimeError("GradientTape(spill=…) moves values while the program runs."))
    if graph.needs_numpy:
        raise NeedsEagerError(
            RuntimeError(
                "GradientTape(memory_limit=…) cannot plan strings or shapes that depend on values."
            )
        )
    if graph.polymorphic:
        raise UnknownDimensionError("GradientTape(memory_limit=…) needs the sizes of all dimensions.")


@contextmanager
def planning(budget: Budget) -> Iterator[list[Any]]:
    """Around a backward pass, whose results are added to a list: it computes values again, so that the peak is within
    the limit.
    """
    results: list[Any] = []
    graph = current_graph()
    if graph is not None:
        from gradtape._src.graph.recomputation import graphs

        check_plannable(graph, budget)
        boundary = len(graph.nodes)
        yield results
        budget.add_plan(graphs.recompute(graph, boundary, arrays_in(results), budget.limit))
    elif budget.spill is None and current_trace() is not None:
        from gradtape._src.graph.recomputation import traces

        begun = traces.begin()
        yield results
        plan = None if begun is None else traces.recompute(begun, arrays_in(results), budget.limit)
        if plan is not None:
            budget.add_plan(plan)
    else:
        yield results


def arrays_in(values: Iterable[Any]) -> Iterator[Any]:
    """The arrays of tensors, batches and sparse cotangents."""
    for value in values:
        if type(value) is SparseCotangent:
            yield from arrays_in((value.values, value.indices))
        elif isinstance(value, (Tensor, Batched)):
            yield from arrays_in((value.array,))
        elif value is not None:
            yield value
