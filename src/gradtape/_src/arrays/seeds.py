"""The global seed of `tf.random.set_seed`, and the seeds that ops and input pipelines derive from it.

An op reads a stream, which the global seed and its own one determine, and continues where it stopped. An op is the same
as in TensorFlow: in eager code, all calls with the same seeds and dtypes; in a function, each place that draws, as long
as its trace lives. Ops without a seed get one: in eager code the next of a random sequence, in a function their number.
`set_seed` restarts all of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import CodeType, FrameType
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from gradtape._src import forks
from gradtape._src.arrays.numpy.random import stream_of
from gradtape._src.interrupts import setting

_DEFAULT_SEED = 87654321  # the global seed if only an op has a seed, as in TensorFlow
_LARGEST = 2**31 - 1

Pair = tuple[int, int]


def pair_of(seed: Any, op_seed: Any) -> Pair | None:
    """The seeds of one op, from the global one and its own; None if there is neither."""
    if type(op_seed) is tuple:
        return op_seed
    if seed is None and op_seed is None:
        return None
    pair = _DEFAULT_SEED if seed is None else _truncated(seed, "seed"), _truncated(op_seed, "seed2")
    return pair if pair != (0, 0) else (0, _LARGEST)


def _truncated(seed: Any, word: str) -> int:
    if isinstance(seed, (str, bytes)):  # TensorFlow accepts it, and fails when it is used
        raise TypeError(f"Expected int for argument '{word}' not {seed!r}. A seed must be a number.")
    rest = seed % _LARGEST  # for fractions as well, which are truncated afterwards
    try:
        return int(rest)
    except (ValueError, OverflowError):
        raise TypeError(f"Expected int for argument '{word}' not {rest!r}.") from None


def start_of(pair: Pair | None) -> tuple[int, int]:
    """The key of an op's stream, and its first counter; random ones without a seed."""
    if pair is None:
        return int.from_bytes(os.urandom(8), "little"), int.from_bytes(os.urandom(8), "little") << 64
    return pair[0], pair[1] << 64


class Seeds:
    """The global seed, and the position of each eager op in its stream."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self.seed: Any = None
        self._ops: Any = None  # TensorFlow's sequence of seeds for ops without one: that of Python's generator
        self._positions: dict[tuple[Any, ...], int] = {}
        self._others: WeakValueDictionary[int, Any] = WeakValueDictionary()  # other streams that `set` restarts

    def set(self, seed: Any) -> None:
        from random import Random  # imported here, because most programs start without it (import time)

        try:
            ops = Random(seed)
        except TypeError:  # a NumPy number
            ops = Random(int(np.array(seed)))
        with self._lock:
            self.seed, self._ops = seed, ops
            self._positions.clear()
            others = list(self._others.values())
        for other in others:
            other.restart()

    def restart_with(self, other: Any) -> None:
        """Call `other.restart()` whenever a seed is set, as long as it exists."""
        self._others[id(other)] = other

    def state(self) -> Any:
        """The positions of all streams, for `restore`."""
        with self._lock:
            return self.seed, None if self._ops is None else self._ops.getstate(), dict(self._positions)

    def restore(self, state: Any) -> None:
        """Restore a state."""
        with self._lock:
            self.seed, ops, positions = state
            if ops is not None:
                self._ops.setstate(ops)
            self._positions = dict(positions)

    def pair(self, op_seed: Any) -> Pair | None:
        """The seeds of one op: the global one, and its own or the next of a sequence; None without any seed."""
        with self._lock:
            seed = self.seed
            if op_seed is None and seed is not None:
                op_seed = self._ops.randint(0, _LARGEST)
        return pair_of(seed, op_seed)

    def stream(self, op: Any, op_seed: Any, blocks: int) -> Any:
        """The stream of an op that may read this number of blocks; `op` identifies the op."""
        run = _run.get()
        if run is not None:
            return run.stream(op, op_seed, blocks)
        pair = self.pair(op_seed)
        key, counter = start_of(pair)
        if op_seed is None:  # a new seed for every call: there is no position
            return stream_of(key, counter)
        with self._lock:
            position = self._positions.get((op, pair), 0)
            self._positions[(op, pair)] = position + blocks
        return stream_of(key, counter + position)


seeds = Seeds()


def global_seed() -> Any:
    """The seed of `tf.random.set_seed`, or None."""
    return seeds.seed


class OpStreams:
    """The streams of the ops in a function that runs eagerly.

    Each place in the code that draws is an op, as in a trace, even if a loop reaches it several times. With
    `beside_trace`, other calls of the function run a trace, whose ops read the same streams from the start; these read
    the second half.
    """

    def __init__(self, seed: Any = ..., beside_trace: bool = False) -> None:
        self.seed = seeds.seed if seed is ... else seed
        self._start = 1 << 63 if beside_trace else 0
        self._lock = forks.lock()
        self._numbers: dict[Any, int] = {}  # of places without a seed
        self._positions: dict[Any, tuple[int, int]] = {}
        seeds.restart_with(self)

    def restart(self) -> None:
        with self._lock:
            self._positions.clear()

    def next(self, op: Any, pair: Pair | None, blocks: int) -> Any:
        """The stream of an op with these seeds."""
        with self._lock:
            if (found := self._positions.get((op, pair))) is None:
                key, counter = start_of(pair)
                found = key, counter + self._start
            key, counter = found
            self._positions[(op, pair)] = key, counter + blocks
        return stream_of(key, counter)

    def at(self, place: Any, op_seed: Any, blocks: int) -> Any:
        """The stream of the op at a place in the code."""
        if op_seed is None and self.seed is not None:
            with self._lock:
                op_seed = self._numbers.setdefault(place, len(self._numbers))
        return self.next(place, pair_of(self.seed, op_seed), blocks)


class _Run:
    """One call of such a function, with its code."""

    def __init__(self, streams: OpStreams, code: CodeType) -> None:
        self._streams, self._code = streams, code

    def stream(self, op: Any, op_seed: Any, blocks: int) -> Any:
        place: list[Any] = [op]
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code is not self._code:
            place += frame.f_code, frame.f_lasti
            frame = frame.f_back
        return self._streams.at(tuple(place), op_seed, blocks)


_run: ContextVar[_Run | None] = ContextVar("gradtape_random_ops", default=None)


def drawing_from(streams: OpStreams) -> setting[_Run | None]:
    """Context in which eager code belongs to a function with these streams."""
    return setting(_run, _run.get() or _Run(streams, sys._getframe(1).f_code))


def with_streams(function: Callable[[Any], Any], streams: OpStreams) -> Callable[[Any], Any]:
    """A function that is called for many elements, each time with these streams."""
    current, switch = _run.get, _run.set

    def drawing(element: Any) -> Any:
        if current() is not None:
            return function(element)
        try:
            switch(run)
            return function(element)
        finally:
            switch(None)

    run = _Run(streams, drawing.__code__)
    return drawing


rows_drawn: ContextVar[tuple[tuple[int, int], ...]] = ContextVar("gradtape_rows_drawn", default=())
"""The level and the number of rows of each enclosing vectorized_map: each row draws its own numbers."""
