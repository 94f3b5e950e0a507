"""The implementation of datasets: a pipeline produces the elements, from the start for every iteration."""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

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
    from gradtape._src.data.table import RowTable

AUTOTUNE = -1
INFINITE = -1
UNKNOWN = -2

END: Any = object()
"""The sentinel at the end of the elements."""

Elements = Iterator[Any]


class FileShard(NamedTuple):
    """The files that one worker reads: those whose number is `worker` modulo `workers`."""

    workers: int
    worker: int


class Run:
    """One iteration over a dataset, with the seeds that its shuffles used, so that it can be repeated exactly.

    With `files`, sources that read files read only those of a shard.
    """

    def __init__(self, given: list[int] | None = None, files: FileShard | None = None) -> None:
        self.files = files
        self._given = list(given or ())
        self._lock = forks.lock()
        self.seeds: list[int] = []
        self.op_streams: dict[Any, OpStreams] = {}  # of the random ops in each function of the pipeline

    def seed(self, draw: Callable[[], int]) -> int:
        """The next seed: the one that this iteration used here before, or a new one."""
        new = draw()  # always: the state of the generator must not depend on whether the iteration is repeated
        with self._lock:
            seed = self._given.pop(0) if self._given else new
            self.seeds.append(seed)
        return seed

    def inner(self) -> Run:
        """The same iteration for datasets that functions return: files are divided outside of them."""
        if self.files is None:
            return self
        found = copy.copy(self)
        found.files = None
        return found

    def own_files(self, names: Elements) -> Elements:
        """The files of the shard, or all files without one."""
        if self.files is None:
            return names
        return _own_files(names, self.files)


def _own_files(names: Elements, shard: FileShard) -> Elements:
    first = list(itertools.islice(names, shard.workers))
    if len(first) < shard.workers:
        raise reading(
            f"Could not apply FILE based sharding: the dataset only has {len(first)} file(s), which is not enough for "
            f"the required {shard.workers} shards/workers. If you are using datasets with distribution strategy, "
            "consider setting the auto sharding policy to either DATA or OFF using the "
            "`experimental_distribute.auto_shard_policy` option of `tf.data.Options()`. Or, split your input files "
            "into a larger number of small files such that number of files is greater than number of shards/workers."
        )
    yield first[shard.worker]
    yield from itertools.islice(names, shard.worker, None, shard.workers)


class _Peek(Run):
    """An iteration that draws no seeds."""

    def seed(self, draw: Callable[[], int]) -> int:
        return 0


def _never() -> bool:
    return False


@dataclass(frozen=True)
class Pipeline:
    """Produces the elements of a dataset: nested structures with tensors in them.

    `table` is set if the elements are rows of arrays; a batch is then taken from the arrays in one operation.
    `reads_files` says whether all elements come from files, so that workers may read a part of the files each.
    """

    kind: str
    elements: Callable[[Run], Elements]
    find_spec: Callable[[], Any]
    size: int = UNKNOWN
    table: RowTable | None = None
    reads_files: Callable[[], bool] = _never

    @functools.cached_property
    def spec(self) -> Any:
        """Shapes and dtypes of the elements; computed on first use, because this may run functions of the pipeline."""
        with outside():
            return self.find_spec()

    def of_files_of(self, *sources: Pipeline) -> Pipeline:
        """The same pipeline, marked as reading files if all of these do, unless it is marked already."""
        if self.reads_files is not _never or all(source.reads_files is _never for source in sources):
            return self
        return replace(self, reads_files=lambda: all(source.reads_files() for source in sources))

    def first(self) -> Any:
        """The first element, or None; does not change the random order of other iterations."""
        return next(self.elements(_Peek()), None)


def outside() -> AbstractContextManager[Any]:
    """Context for running an input pipeline: on the CPU, not recorded on tapes, not traced."""
    if active_stack() is None and current_graph() is None and not placement.places:
        return nullcontext()
    return settings((graph_traced, None), (active, None), (chosen_device, None))


def to_device(element: Any) -> Any:
    """An element, on the device of the code that receives it."""
    if not placement.places:
        return element
    return nest.map_structure(lambda leaf: wrap(leaf.array) if isinstance(leaf, Tensor) else leaf, element)


class CallIterator:
    """Calls a function for each element until it returns `END`. Unlike a generator it continues after an error."""

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
    """The function for one iteration: as in TensorFlow, its random ops start from their seeds in each iteration."""
    seed = seeds.seed

    def for_run(run: Run) -> Callable[[Any], Any]:
        return with_streams(function, run.op_streams.setdefault(for_run, OpStreams(seed)))

    return for_run


class IterationSeeds:
    """The seeds of one random dataset, one for each iteration."""

    def __init__(self, seed: Any, anew: bool = True) -> None:
        pair = seeds.pair(None if seed is None else int(seed))
        self._generator = np.random.default_rng(pair)
        self._lock = forks.lock()
        self._fixed = None if anew else self._draw()

    def _draw(self) -> int:
        with self._lock:
            return int(self._generator.integers(2**63))

    def generator(self, run: Run) -> np.random.Generator:
        """The generator of random numbers for a new iteration."""
        return np.random.default_rng(run.seed(self._draw) if self._fixed is None else self._fixed)


def as_int(value: Any, name: str) -> int:
    """An argument that TensorFlow takes as an int64 scalar.

    >>> as_int(3, "count")
    3
    """
    tensor = convert(value, "int64", name=name)
    if tensor.array.shape:
        raise errors.invalid_argument(f"{name} must be a scalar, got a tensor of shape {tensor.shape}")
    return int(tensor.array)


def reading(message: str) -> errors.InvalidArgumentError:
    """An error that is raised when elements are read."""
    return errors.invalid_argument(message, "IteratorGetNext")
