"""What a dataset is inside: a recipe for its elements, which every iteration follows anew."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src import errors, forks, nest
from gradtape._src.active import active, active_stack
from gradtape._src.arrays.seeds import OpStreams, seeds, with_streams
from gradtape._src.arrays.symbolic import current_graph, graph_traced
from gradtape._src.conversion import convert, wrap
from gradtape._src.devices import chosen_device, placement
from gradtape._src.interrupts import settings
from gradtape._src.tensor import Tensor

if TYPE_CHECKING:
    from gradtape._src.data.table import Table

AUTOTUNE = -1
INFINITE = -1
UNKNOWN = -2

END: Any = object()
"""Stands where there is no element any more."""

Elements = Iterator[Any]


class Run:
    """One iteration over a dataset: the seeds that its shuffles used, so that it can be repeated as it was."""

    def __init__(self, given: list[int] | None = None) -> None:
        self._given = list(given or ())
        self._lock = forks.lock()
        self.seeds: list[int] = []
        self.op_streams: dict[Any, OpStreams] = {}  # of the random ops in each function of the pipeline

    def seed(self, draw: Callable[[], int]) -> int:
        """The next seed: the one that this iteration had here before, or a new one."""
        new = draw()  # drawn in any case: who iterates afterwards finds the generator where it would be
        with self._lock:
            seed = self._given.pop(0) if self._given else new
            self.seeds.append(seed)
        return seed


class _Glimpse(Run):
    """An iteration that draws no seeds."""

    def seed(self, draw: Callable[[], int]) -> int:
        return 0


@dataclass(frozen=True)
class Recipe:
    """How the elements of a dataset come about: nested structures with tensors in them.

    `table` is there if the elements are rows of arrays: batches are then taken from these at once.
    """

    kind: str
    elements: Callable[[Run], Elements]
    find_spec: Callable[[], Any]
    size: int = UNKNOWN
    table: Table | None = None

    @functools.cached_property
    def spec(self) -> Any:
        """Shapes and dtypes of the elements; found when they are asked for, because functions run for that."""
        with outside():
            return self.find_spec()

    def first(self) -> Any:
        """The first element of an iteration that leaves no trace in the orders of others, or None."""
        return next(self.elements(_Glimpse()), None)


def outside() -> AbstractContextManager[Any]:
    """Input pipelines are no part of what tapes record or functions trace, and run on the processor."""
    if active_stack() is None and current_graph() is None and not placement.places:
        return nullcontext()
    return settings((graph_traced, None), (active, None), (chosen_device, None))


def delivered(element: Any) -> Any:
    """An element, on the device that is chosen where it arrives."""
    if not placement.places:
        return element
    return nest.map_structure(lambda leaf: wrap(leaf.array) if isinstance(leaf, Tensor) else leaf, element)


class Pulled:
    """What a function gives, until it gives `END`. Unlike a generator it goes on after an error."""

    __slots__ = ("_give",)

    def __init__(self, give: Callable[[], Any]) -> None:
        self._give = give

    def __iter__(self) -> Elements:
        return self

    def __next__(self) -> Any:
        element = self._give()
        if element is END:
            raise StopIteration
        return element


def with_own_ops(function: Callable[[Any], Any]) -> Callable[[Run], Callable[[Any], Any]]:
    """A function for an iteration: as in TensorFlow its random ops start again with each one."""
    seed = seeds.seed

    def for_run(run: Run) -> Callable[[Any], Any]:
        return with_streams(function, run.op_streams.setdefault(for_run, OpStreams(seed)))

    return for_run


class Seeds:
    """The seeds of one dataset with randomness in it, one for each iteration."""

    def __init__(self, seed: Any, anew: bool = True) -> None:
        pair = seeds.pair(None if seed is None else int(seed))
        self._generator = np.random.default_rng(pair)
        self._lock = forks.lock()
        self._fixed = None if anew else self._draw()

    def _draw(self) -> int:
        with self._lock:
            return int(self._generator.integers(2**63))

    def generator(self, run: Run) -> np.random.Generator:
        """The random numbers of an iteration that begins."""
        return np.random.default_rng(run.seed(self._draw) if self._fixed is None else self._fixed)


def whole(value: Any, name: str) -> int:
    """An argument that TensorFlow takes as an int64 scalar.

    >>> whole(3, "count")
    3
    """
    tensor = convert(value, "int64", name=name)
    if tensor.array.shape:
        raise errors.invalid_argument(f"{name} must be a scalar, got a tensor of shape {tensor.shape}")
    return int(tensor.array)


def reading(message: str) -> errors.InvalidArgumentError:
    """An error that shows when elements are read."""
    return errors.invalid_argument(message, "IteratorGetNext")
