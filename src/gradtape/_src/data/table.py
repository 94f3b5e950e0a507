"""Datasets whose elements are rows of arrays.

As long as rows are only reordered, skipped or repeated, the pipeline passes row numbers, many at a time; it reads the
arrays when rows or batches are requested.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy import ndarray

from gradtape._src import nest
from gradtape._src.conversion import wrap
from gradtape._src.data.core import Elements, Run
from gradtape._src.data.structure import packer

Chunk: TypeAlias = Any
"""Row numbers: a `range` if they are consecutive, else an array."""

Chunks = Iterator[Chunk]
T = TypeVar("T")

_AT_ONCE = 1024  # the number of rows whose random numbers are drawn together


class Progression:
    """A column of numbers that is computed on demand."""

    def __init__(self, start: int, step: int, dtype: Any) -> None:
        self._start, self._step, self.dtype = start, step, np.dtype(dtype)

    def row(self, number: int) -> ndarray:
        return np.array(self._start + number * self._step, self.dtype)

    def rows(self, chunk: Chunk) -> ndarray:
        if isinstance(chunk, range):
            first = self._start + chunk.start * self._step
            last = self._start + chunk[-1] * self._step if chunk else first
            step = chunk.step * self._step
            return np.arange(first, last + (1 if step > 0 else -1) * bool(chunk), step).astype(self.dtype)
        return (self._start + chunk * self._step).astype(self.dtype)


class RowTable(NamedTuple):
    """Columns, the structure of an element, the row numbers in order, and the number of rows if they are consecutive
    from the first one.
    """

    columns: list[Any]
    structure: Any
    chunks: Callable[[Run], Chunks]
    straight: int | None = None

    def reordered(self, change: Callable[[Chunks, Run], Chunks]) -> RowTable:
        """The same rows in another order."""
        return self._replace(chunks=lambda run: change(self.chunks(run), run), straight=None)

    def elements(self, run: Run) -> Elements:
        """The rows one by one."""
        pack = packer(self.structure)
        columns = [_row_reader(column) for column in self.columns]
        alone = columns[0] if not nest.is_nested(self.structure) else None
        for chunk in self.chunks(run):
            numbers = chunk if isinstance(chunk, range) else chunk.tolist()
            if alone is not None:
                for i in numbers:
                    yield wrap(alone(i))
            else:
                for i in numbers:
                    yield pack([None if column is None else wrap(column(i)) for column in columns])

    def batches(self, run: Run, size: int, drop_remainder: bool) -> Elements:
        """The rows in batches."""
        pack = packer(self.structure)
        for chunk in regrouped(self.chunks(run), size):
            if len(chunk) == size or not drop_remainder:
                yield pack([None if column is None else wrap(_rows(column, chunk)) for column in self.columns])


def straight(columns: list[Any], structure: Any, count: int) -> RowTable:
    """All rows, in order."""
    return RowTable(columns, structure, lambda run: iter((range(count),)), count)


def _row_reader(column: Any) -> Any:
    if column is None or isinstance(column, Progression):
        return column and column.row
    return lambda i: column[i, ...]


def _rows(column: Any, chunk: Chunk) -> ndarray:
    if isinstance(column, Progression):
        return column.rows(chunk)
    if isinstance(chunk, range):
        return column[chunk.start : chunk.stop : chunk.step]
    return column.take(chunk, 0)


# -- chunks of row numbers -------------------------------------------------------------------------------------------
def regrouped(chunks: Iterable[Chunk], size: int) -> Chunks:
    """Chunks of one size; the last may be smaller.

    >>> list(regrouped([range(3), range(4)], 5))
    [array([0, 1, 2, 0, 1]), range(2, 4)]
    """
    waiting: list[Chunk] = []
    count = 0
    for chunk in chunks:
        start = 0
        while len(chunk) - start >= size - count:
            stop = start + size - count
            yield _joined([*waiting, chunk[start:stop]])
            start, count, waiting = stop, 0, []
        if start < len(chunk):
            waiting.append(chunk[start:])
            count += len(chunk) - start
    if waiting:
        yield _joined(waiting)


def _joined(chunks: list[Chunk]) -> Chunk:
    return chunks[0] if len(chunks) == 1 else np.concatenate([np.asarray(chunk, np.int64) for chunk in chunks])


def taken(chunks: Chunks, count: int) -> Chunks:
    for chunk in chunks:
        if len(chunk) >= count:
            if count:
                yield chunk[:count]
            return
        count -= len(chunk)
        yield chunk


def skipped(chunks: Chunks, count: int) -> Chunks:
    for chunk in chunks:
        if count < len(chunk):
            yield chunk[count:]
        count = max(0, count - len(chunk))


def sharded(chunks: Chunks, shards: int, index: int) -> Chunks:
    for chunk in chunks:
        yield chunk[index::shards]
        index = (index - len(chunk)) % shards


def shuffled_chunks(chunks: Chunks, size: int | None, generator: np.random.Generator) -> Chunks:
    """The row numbers in the order of `shuffled`."""
    numbers = itertools.chain.from_iterable(c if isinstance(c, range) else c.tolist() for c in chunks)
    mixed = shuffled(numbers, size, generator)
    while some := list(itertools.islice(mixed, 8 * _AT_ONCE)):
        yield np.array(some, np.int64)


def shuffled(items: Iterable[T], size: int | None, generator: np.random.Generator) -> Iterator[T]:
    """Items in random order: each is drawn from a buffer, and the next one takes its place.

    The buffer holds at most `size` items (None: all).
    """
    items = iter(items)
    waiting = list(itertools.islice(items, size))
    while size is not None and len(waiting) == size:
        places = generator.integers(size, size=_AT_ONCE).tolist()
        for place, item in zip(places, items):  # noqa: B905 - as many as there are
            yield waiting[place]
            waiting[place] = item
        if (item := next(items, _NONE)) is _NONE:
            break
        place = int(generator.integers(size))
        yield waiting[place]
        waiting[place] = item
    for place in generator.permutation(len(waiting)).tolist():
        yield waiting[place]


_NONE: Any = object()
