"""Transformations of one dataset, element by element: order, selection, functions, caching, prefetching."""

from __future__ import annotations

import functools
import itertools
import os
import threading
import weakref
from collections.abc import Callable
from contextvars import copy_context
from dataclasses import replace
from queue import SimpleQueue
from typing import Any

import numpy as np

from gradtape._src import errors, nest
from gradtape._src.conversion import convert
from gradtape._src.data import table as rows
from gradtape._src.data.core import (
    END,
    INFINITE,
    UNKNOWN,
    CallIterator,
    Elements,
    IterationSeeds,
    Pipeline,
    Run,
    as_int,
    outside,
    reading,
    with_own_ops,
)
from gradtape._src.data.structure import call, normalized, returned, spec_of, spec_of_result
from gradtape._src.interrupts import is_interrupt
from gradtape._src.shape import TensorSpec
from gradtape._src.tensor import Tensor

Function = Callable[..., Any]


def _like(source: Pipeline, kind: str, elements: Callable[[Run], Elements], size: int) -> Pipeline:
    """Another dataset with elements of the same specification."""
    return Pipeline(kind, elements, lambda: source.spec, size)


def _rearranged(source: Pipeline, kind: str, size: int, change: Any, plain: Any) -> Pipeline:
    """Reordered elements: `change` reorders row numbers of a table, `plain` elements one by one."""
    if source.table is not None:
        table = source.table.reordered(change)
        return Pipeline(kind, table.elements, lambda: source.spec, size, table)
    return _like(source, kind, lambda run: plain(source.elements(run), run), size)


def renamed(source: Pipeline, kind: str) -> Pipeline:
    """The same elements, with another name of the dataset."""
    return Pipeline(kind, source.elements, lambda: source.spec, source.size, source.table)


# -- order and number ------------------------------------------------------------------------------------------------
def shuffle(source: Pipeline, buffer_size: Any, seed: Any, reshuffle: Any) -> Pipeline:
    """Shuffle the elements."""
    size: int | None = as_int(buffer_size, "buffer_size")
    if size == UNKNOWN:
        size = None  # all of them
    elif size is not None and size < 1:
        raise errors.invalid_argument(
            "buffer_size must be greater than zero or UNKNOWN_CARDINALITY", "ShuffleDatasetV3"
        )
    seeds = IterationSeeds(seed, True if reshuffle is None else bool(reshuffle))
    return _rearranged(
        source,
        "_ShuffleDataset",
        source.size,
        lambda chunks, run: rows.shuffled_chunks(chunks, size, seeds.generator(run)),
        lambda elements, run: rows.shuffled(elements, size, seeds.generator(run)),
    )


def repeat(source: Pipeline, count: Any) -> Pipeline:
    """Repeat the elements; forever if the count is None or negative."""
    times = -1 if count is None else as_int(count, "count")
    if times < 0:
        size = 0 if source.size == 0 else INFINITE
    else:
        size = source.size * times if source.size >= 0 else 0 if not times else source.size

    def again(start: Callable[[Run], Any]) -> Callable[[Run], Any]:
        def parts(run: Run) -> Any:
            for _ in itertools.count() if times < 0 else range(times):
                empty = True
                for part in start(run):
                    empty = False
                    yield part
                if empty:
                    return

        return parts

    table = None
    if source.table is not None:
        table = source.table._replace(chunks=again(_filled(source.table.chunks)), straight=None)
    elements = again(source.elements) if table is None else table.elements
    return Pipeline("_RepeatDataset", elements, lambda: source.spec, size, table)


def _filled(chunks: Callable[[Run], Any]) -> Callable[[Run], Any]:
    return lambda run: (chunk for chunk in chunks(run) if len(chunk))


def take(source: Pipeline, count: Any) -> Pipeline:
    """The first elements."""
    n = as_int(count, "count")
    if n < 0:
        return renamed(source, "_TakeDataset")
    size = n if source.size == INFINITE else source.size if source.size < 0 else min(n, source.size)
    return _rearranged(
        source,
        "_TakeDataset",
        size,
        lambda chunks, run: rows.taken(chunks, n),
        lambda elements, run: itertools.islice(elements, n),
    )


def skip(source: Pipeline, count: Any) -> Pipeline:
    """All but the first elements."""
    n = as_int(count, "count")
    if n < 0:
        return take(source, 0) if source.size != 0 else renamed(source, "_SkipDataset")
    size = source.size if source.size < 0 else max(0, source.size - n)
    return _rearranged(
        source,
        "_SkipDataset",
        size,
        lambda chunks, run: rows.skipped(chunks, n),
        lambda elements, run: itertools.islice(elements, n, None),
    )


def shard(source: Pipeline, num_shards: Any, index: Any) -> Pipeline:
    """Every n-th element."""
    shards, own = as_int(num_shards, "num_shards"), as_int(index, "index")
    if shards < 1:
        raise errors.invalid_argument(
            f"Number of shards must be greater than zero (currently num_shards = {shards}).", "ShardDataset"
        )
    if not 0 <= own < shards:
        raise errors.invalid_argument(
            f"Index must be between 0 and {shards - 1} (currently index = {own}).", "ShardDataset"
        )
    return _rearranged(
        source,
        "_ShardDataset",
        source.size if source.size < 0 else len(range(own, source.size, shards)),
        lambda chunks, run: rows.sharded(chunks, shards, own),
        lambda elements, run: itertools.islice(elements, own, None, shards),
    )


# -- functions -------------------------------------------------------------------------------------------------------
def _callable(function: Any, name: str) -> Function:
    if not callable(function):
        raise ValueError(f"Argument `{name}` must be a callable. Received {name}={function} (of type {type(function)})")
    return function


def _result_spec(source: Pipeline, function: Function) -> Any:
    return spec_of_result(function, (source.spec,), lambda: (source.first(),))


def mapped(source: Pipeline, function: Any, kind: str = "_MapDataset") -> Pipeline:
    """Apply a function to every element."""
    function = _callable(function, "func")

    def of_element(element: Any) -> Any:
        result = function(*element) if type(element) is tuple else function(element)
        if type(result) is Tensor:  # the fast path, without Python calls
            return result
        result = returned(result)
        if result is None:
            raise errors.invalid_argument(
                "Length for attr 'output_types' of 0 must be at least minimum 1: the function returned None",
                "MapDataset",
            )
        return result

    own = with_own_ops(of_element)
    return Pipeline(
        kind,
        lambda run: map(own(run), source.elements(run)),
        lambda: _result_spec(source, own(Run())),
        source.size,
    )


def _truth(function: Function, element: Any, sentence: str) -> bool:
    result = returned(call(function, element))
    if not isinstance(result, Tensor) or result.dtype.name != "bool" or result.array.shape:
        spec = spec_of(result)
        raise ValueError(f"Invalid `predicate`. `predicate` must return a `tf.bool` scalar tensor{sentence}{spec}.")
    return bool(np.asarray(result.array))


def filtered(source: Pipeline, predicate: Any) -> Pipeline:
    """The elements for which a function is true."""
    predicate = _callable(predicate, "predicate")

    def wanted(element: Any) -> bool:
        return _truth(predicate, element, ", but its return type is ")

    size = source.size if source.size == INFINITE else UNKNOWN
    own = with_own_ops(wanted)
    return _like(source, "_FilterDataset", lambda run: filter(own(run), source.elements(run)), size)


def take_while(source: Pipeline, predicate: Any) -> Pipeline:
    """The elements before the first one for which a function is not true."""
    predicate = _callable(predicate, "predicate")

    def wanted(element: Any) -> bool:
        return _truth(predicate, element, " but its return type is ")

    return _like(source, "_TakeWhileDataset", lambda run: itertools.takewhile(wanted, source.elements(run)), UNKNOWN)


def inner(function: Function, element: Any, name: str) -> Pipeline:
    """The dataset that a function returns for an element."""
    result = call(function, element)
    if not hasattr(result, "_pipeline"):
        raise TypeError(f"The function of {name} must return a `tf.data.Dataset` object. Got {type(result)}.")
    pipeline: Pipeline = result._pipeline
    return pipeline


def interleaved(source: Pipeline, function: Any, cycle_length: Any, block_length: Any, kind: str) -> Pipeline:
    """Take elements in turn from several datasets that a function returns."""
    function = _callable(function, "map_func")
    cycle = _processors() if cycle_length is None or cycle_length == -1 else as_int(cycle_length, "cycle_length")
    block = 1 if block_length is None else as_int(block_length, "block_length")
    for name, value in {"cycle_length": cycle, "block_length": block}.items():
        if value < 1:
            raise errors.invalid_argument(f"{name} must be greater than zero.", "InterleaveDataset")

    def elements(run: Run) -> Elements:
        waiting, within = _outer(source, function, run)
        places: list[Elements | None] = [None] * cycle
        at, left, empty = 0, block, 0

        def following() -> Any:
            nonlocal at, left, empty
            while empty < cycle:
                stream = places[at]
                if stream is None and (outer := next(waiting, END)) is not END:
                    stream = places[at] = inner(function, outer, "interleave").elements(within)
                element = END if stream is None else next(stream, END)
                empty = empty + 1 if stream is None else 0
                left -= 1
                if element is END:
                    places[at], left = None, 0
                if not left:
                    at, left = (at + 1) % cycle, block
                if element is not END:
                    return element
            return END

        return CallIterator(following)

    made = Pipeline(kind, elements, lambda: _inner_spec(source, function))
    return replace(made, reads_files=functools.partial(_reads_files, source, function))


def _reads_files(source: Pipeline, function: Function) -> bool:
    """Whether the datasets that a function returns for elements read files, or the elements do."""
    return source.reads_files() or _inner_reads_files(source, function)


def _inner_reads_files(source: Pipeline, function: Function) -> bool:
    with outside():
        first = source.first()
        return first is not None and inner(function, first, "flat_map").reads_files()


def _outer(source: Pipeline, function: Function, run: Run) -> tuple[Elements, Run]:
    """The elements that datasets are created from, and the iteration for these.

    Workers that read parts of the files divide the elements among them, if these represent files.
    """
    within = run.inner()
    if run.files is None or source.reads_files() or not _inner_reads_files(source, function):
        return source.elements(run), within
    return run.own_files(source.elements(within)), within


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _inner_spec(source: Pipeline, function: Function) -> Any:
    found = _result_spec(source, lambda element: call(function, element))
    return getattr(found, "element_spec", found)


def flat_map(source: Pipeline, function: Any) -> Pipeline:
    """Concatenate the datasets that a function returns."""
    function = _callable(function, "map_func")

    def elements(run: Run) -> Elements:
        current: Elements = iter(())
        waiting, within = _outer(source, function, run)

        def following() -> Any:
            nonlocal current
            while (element := next(current, END)) is END:
                if (outer := next(waiting, END)) is END:
                    return END
                current = inner(function, outer, "flat_map").elements(within)
            return element

        return CallIterator(following)

    made = Pipeline("_FlatMapDataset", elements, lambda: _inner_spec(source, function))
    return replace(made, reads_files=functools.partial(_reads_files, source, function))


def scan(source: Pipeline, initial_state: Any, function: Any) -> Pipeline:
    """Apply a function to a state and every element; it returns the next state and an element."""
    function = _callable(function, "scan_func")
    start = normalized(initial_state)

    def step(state: Any, element: Any) -> tuple[Any, Any]:
        result = function(state, element)
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            raise TypeError(
                "Invalid `scan_func`. `scan_func` should return a pair consisting of new state and the output value "
                f"but its return type is {spec_of(returned(result))}."
            )
        after = _same_state(state, normalized(result[0]), "scan_func")
        return after, normalized(result[1])

    def elements(run: Run) -> Elements:
        state = start
        for element in source.elements(run):
            state, result = step(state, element)
            yield result

    def find_spec() -> Any:
        return spec_of_result(lambda e: step(start, e)[1], (source.spec,), lambda: (source.first(),))

    return Pipeline("_ScanDataset", elements, find_spec, source.size)


def _same_state(before: Any, after: Any, name: str) -> Any:
    one, other = nest.flatten(before), nest.flatten(after)
    if len(one) != len(other):
        raise errors.invalid_argument(
            "The number of components of the initial state and the reduce function output does not match. "
            f"(initial_state={len(one)}, output={len(other)}).",
            "ReduceDataset",
        )
    for old, new in zip(one, other, strict=True):
        if isinstance(old, Tensor) and old.dtype is not new.dtype:
            raise TypeError(
                f"The element types for the new state must match the initial state. Expected {old.dtype!r}; got "
                f"{new.dtype!r} from `{name}`."
            )
    return after


def reduced(elements: Elements, initial_state: Any, function: Any) -> Any:
    """Fold the elements with a function of the state and an element; return the last state."""
    function = _callable(function, "reduce_func")
    state = normalized(initial_state)
    for element in elements:
        result = function(state, element)
        after = normalized(tuple(result) if type(result) is list and isinstance(state, tuple) else result)
        state = _same_state(state, after, "reduce_func")
    return state


# -- contents --------------------------------------------------------------------------------------------------------
def unique(source: Pipeline) -> Pipeline:
    """The elements without duplicates."""

    def elements(run: Run) -> Elements:
        seen: set[Any] = set()
        for element in source.elements(run):
            if nest.is_nested(element):
                raise errors.invalid_argument(
                    "UniqueDataset only supports inputs with a single component.", "UniqueDataset"
                )
            if not isinstance(element, Tensor):
                raise TypeError(
                    f"`tf.data.Dataset.unique` does not support type {spec_of(element)} -- only `tf.int32`, "
                    "`tf.int64`, and `tf.string` are supported."
                )
            array = np.asarray(element.array)
            key = (array.shape, tuple(array.ravel().tolist()) if array.dtype == object else array.tobytes())
            if key not in seen:
                seen.add(key)
                yield element

    return _like(source, "_UniqueDataset", elements, UNKNOWN)


def ignore_errors(source: Pipeline, log_warning: bool) -> Pipeline:
    """Skip the elements that raise an error."""

    def elements(run: Run) -> Elements:
        stream = source.elements(run)
        while True:
            try:
                element = next(stream, END)
            except Exception as error:
                if is_interrupt(error):
                    raise
                if log_warning:
                    import warnings

                    warnings.warn(f"Error raised with error message {error}", stacklevel=2)
                continue
            if element is END:
                return
            yield element

    return _like(source, "_IgnoreErrorsDataset", elements, UNKNOWN)


def counted(source: Pipeline, expected: int) -> Pipeline:
    """The same elements, with a check of their declared number."""

    def elements(run: Run) -> Elements:
        count = 0
        for count, element in enumerate(source.elements(run), 1):
            if 0 <= expected < count:
                raise _miscounted(expected, f"at least {count}")
            yield element
        if (expected >= 0 and count < expected) or expected == INFINITE:
            raise _miscounted(expected, f"only {count}")

    return _like(source, "_AssertCardinalityDataset", elements, expected)


def _miscounted(expected: int, found: str) -> errors.OpError:
    wanted = "an infinite number of" if expected == INFINITE else expected
    return errors.FailedPreconditionError(
        None,
        None,
        f"Input dataset was expected to contain {wanted} elements but contained {found} elements. [Op:IteratorGetNext]",
    )


# -- memory and time -------------------------------------------------------------------------------------------------
def cached(source: Pipeline) -> Pipeline:
    """Keep the elements of the first complete iteration for later ones."""
    if source.table is not None and source.table.straight is not None:
        return renamed(source, "CacheDataset")  # stored as it is, and always in the same order
    kept: list[list[Any]] = []

    def elements(run: Run) -> Elements:
        if kept:
            yield from kept[0]
            return
        seen = []
        for element in source.elements(run):
            seen.append(element)
            yield element
        kept[:] = [seen]

    return _like(source, "CacheDataset", elements, source.size)


def prefetched(source: Pipeline, buffer_size: Any) -> Pipeline:
    """Compute elements in advance, in another thread."""
    size = as_int(-1 if buffer_size is None else buffer_size, "buffer_size")
    if size < -1:
        raise errors.invalid_argument(
            "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning", "PrefetchDataset"
        )
    if size == 0 or source.table is not None:  # rows of arrays are not computed
        return renamed(source, "_PrefetchDataset")
    return _like(source, "_PrefetchDataset", lambda run: _Ahead(source, run, 2 if size < 0 else size), source.size)


class _Buffer:
    """A queue of elements that a thread has computed and the iterator has not read yet.

    It has no lock that a signal could leave locked: both queues are implemented in C.
    """

    def __init__(self, reader: _Ahead, size: int) -> None:
        self._items: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._room: SimpleQueue[Any] = SimpleQueue()  # a None for each free slot
        for _ in range(size):
            self._room.put(None)
        self._reader = weakref.ref(reader, self._room.put)  # adds its dead reference when the reader is deleted

    def put(self, element: Any, error: BaseException | None = None) -> bool:
        """Add an element when there is space; False if the iterator has ended."""
        if self._room.get() is not None:
            return False
        self._items.put((element, error))
        return True

    def get(self) -> tuple[Any, BaseException | None]:
        item = self._items.get()
        self._room.put(None)
        return item


class _Ahead:
    """Elements that another thread computes. The thread ends after the last one, or when this iterator is deleted."""

    def __init__(self, source: Pipeline, run: Run, size: int) -> None:
        self._buffer = _Buffer(self, size)
        self._done = False
        work = threading.Thread(
            target=copy_context().run, args=(_work, source, run, self._buffer), name="gradtape-prefetch", daemon=True
        )
        work.start()

    def __iter__(self) -> Elements:
        return self

    def __next__(self) -> Any:
        if self._done:
            raise StopIteration
        element, error = self._buffer.get()
        if error is not None:
            raise error
        if element is END:
            self._done = True
            raise StopIteration
        return element


def _work(source: Pipeline, run: Run, buffer: _Buffer) -> None:
    try:
        stream = source.elements(run)
    except Exception as error:
        stream = iter(())
        buffer.put(None, error)
    going_on = True
    while going_on:
        element: Any = END
        try:
            element = next(stream, END)
        except Exception as error:
            going_on = buffer.put(None, error)
            continue
        going_on = buffer.put(element) and element is not END


def is_scalar_int64(spec: Any) -> bool:
    return isinstance(spec, TensorSpec) and spec.dtype.name == "int64" and spec.shape.rank in (None, 0)


def key_of(function: Function, element: Any) -> int:
    """The int64 that a function returns for an element."""
    result = convert(call(function, element), "int64")
    if result.array.shape:
        raise reading(f"`key_func` must return a single tf.int64 scalar, got a tensor of shape {result.shape}.")
    return int(np.asarray(result.array))
