"""Iterators of a TensorFlow 1 graph: each run of a session that needs an element takes the next one."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.arrays.symbolic import building
from gradtape._src.shape import TensorShape
from gradtape._src.tensor import Tensor
from gradtape._src.tf.v1.graphs.tensors import Operation


class GraphIterator:
    """An iterator over a dataset, whose elements are tensors of a graph; every session has its own iteration."""

    def __init__(self, graph: Any, dataset: Any, starts_itself: bool) -> None:
        self._graph, self._dataset, self._starts_itself = graph, dataset, starts_itself
        self._running: dict[int, tuple[Any, Any]] = {}
        self.element_spec = dataset.element_spec
        self.initializer: Operation | None = None
        if not starts_itself:
            self.initializer = graph.computed_before(self._start, [np.zeros(())], "MakeIterator")[0].op

    def _start(self, session: Any) -> list[Any]:
        self._running[id(session)] = session, iter(self._dataset)
        return [np.zeros(())]

    def _next(self, session: Any) -> list[Any]:
        if id(session) not in self._running:
            if not self._starts_itself:
                raise errors.FailedPreconditionError(
                    None, None, "GetNext() failed because the iterator has not been initialized. Ensure that you have "
                    "run the initializer operation for this iterator before getting the next element.",
                )  # fmt: skip
            self._start(session)
        try:
            element = next(self._running[id(session)][1])
        except StopIteration:
            raise errors.OutOfRangeError(None, None, "End of sequence [Op:IteratorGetNext]") from None
        return [np.asarray(leaf) for leaf in nest.flatten(element, expand_composites=True)]

    def get_next(self, name: str | None = None) -> Any:
        """The tensors of the next element."""
        specs = nest.flatten(self.element_spec)
        op = Operation(self._graph, tuple, (), {}, self._graph.control_inputs())
        op.source, op.type = self._next, "IteratorGetNext"
        likes = [_like(spec) for spec in specs]
        shapes = [TensorShape(spec.shape) for spec in specs]
        found = self._graph.add_operation(op, likes, likes, shapes, name or "IteratorGetNext")
        return nest.pack_sequence_as(self.element_spec, found)


def _like(spec: Any) -> Tensor:
    from gradtape._src.conversion import wrap

    with building(None):
        return wrap(np.zeros((), spec.dtype.numpy_dtype))
