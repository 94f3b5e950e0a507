"""Replicas in a graph: which nodes belong to which replica, and which ones combine values of all replicas.

The replicas of a strategy are traced into one graph, one after the other. Marks say which nodes belong to each replica,
and which nodes combine the values of all: a sum over replicas, a concatenation, or the split of a batch. On one device,
the nodes compute the right values as they are. From the marks, `spmd.py` makes one program for all devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from gradtape._src.arrays.symbolic import Symbolic, as_value, current_graph, only_eager
from gradtape._src.devices import Device
from gradtape._src.tensor import Tensor


class Layout(NamedTuple):
    """The devices of replicas.

    devices  those of this process, one for each replica
    workers  the number of processes
    worker   the index of this process
    """

    devices: tuple[Device, ...]
    workers: int = 1
    worker: int = 0

    @property
    def local(self) -> int:
        """The number of replicas in this process."""
        return len(self.devices)

    @property
    def total(self) -> int:
        """The number of replicas in all processes."""
        return self.workers * len(self.devices)

    @property
    def is_single(self) -> bool:
        """Whether there is only one replica, so that there is nothing to divide."""
        return self.total == 1


class Mark(NamedTuple):
    """The role of the nodes from `start` to `end`.

    kind    "each": `ranges` are the nodes of each replica, in order
            "sum", "gather": `result` is the sum of `parts` over replicas, or their concatenation along `axis`
            "split": `parts` are the rows of `result` for each replica, in order
    """

    kind: str
    start: int
    end: int
    ranges: tuple[tuple[int, int], ...] = ()
    parts: tuple[Any, ...] = ()
    result: Any = None
    axis: int = 0


class Replicas:
    """The replicas of one strategy in a graph, and the marks of its nodes."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.marks: list[Mark] = []
        self.is_mixed = False  # whether replicas of another strategy are in the graph, too

    @property
    def crosses_processes(self) -> bool:
        """Whether a program for one device cannot compute the values, because other processes have parts of them."""
        return self.layout.workers > 1


def position() -> int:
    """The number of nodes of the graph that is being traced; 0 outside of a trace."""
    graph = current_graph()
    return 0 if graph is None else len(graph.nodes)


def replicas_of(layout: Layout) -> Replicas | None:
    """The replicas in the graph that is being traced; None outside of a trace, and if there is nothing to divide."""
    graph = current_graph()
    if graph is None or layout.is_single:
        return None
    if graph.replicas is None:
        if layout.workers > 1:
            if graph.outer is not None:
                raise only_eager(
                    RuntimeError(
                        "Replicas of several processes in a loop or a branch of a tf.function cannot be compiled. "
                        "Call strategy.run outside tf.while_loop, tf.cond and loops over tensors."
                    )
                )
            graph.root.executor = "xla"
        graph.replicas = Replicas(layout)
    found: Replicas = graph.replicas
    found.is_mixed |= found.layout != layout
    return found


def mark_each(layout: Layout, ranges: Sequence[tuple[int, int]]) -> None:
    """Mark the nodes that were added for each replica."""
    found = replicas_of(layout)
    if found is not None and len(ranges) == layout.local:
        found.marks.append(Mark("each", ranges[0][0], ranges[-1][1], tuple(ranges)))


def mark(layout: Layout, kind: str, start: int, parts: Sequence[Any], result: Any, axis: int = 0) -> None:
    """Mark the nodes since `start`, which combine values of replicas; `parts` and `result` are tensors."""
    found = replicas_of(layout)
    if found is None:
        return
    arrays = tuple([part.array if isinstance(part, Tensor) else part for part in parts])
    whole = result.array if isinstance(result, Tensor) else result
    if type(whole if kind != "split" else arrays[0]) is Symbolic:
        found.marks.append(Mark(kind, start, position(), (), arrays, whole, axis))


def in_program(layout: Layout, tensor: Tensor) -> Tensor:
    """A tensor whose sum over processes a program can compute: a constant becomes a value of the program."""
    if replicas_of(layout) is None or layout.workers == 1 or type(tensor.array) is Symbolic:
        return tensor
    value = Tensor()
    value.array, value.uid = as_value(tensor.array), tensor.uid
    return value
