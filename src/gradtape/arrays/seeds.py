"""The global seed of `tf.random.set_seed`, and what ops and input pipelines derive from it."""

from __future__ import annotations

import os
from typing import Any

from gradtape import forks
from gradtape.arrays.numpy_engine.random import stream_of

_DEFAULT_SEED = 87654321  # what stands for the global seed when only an op has one, as in TensorFlow
_LARGEST = 2**31 - 1
_RESERVED = 256  # how many blocks of a stream one number may use: the step by which counters move on


class Seeds:
    """The global seed, and how far each op with a seed of its own has read its stream."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._seed: int | str | bytes | None = None
        self._ops: Any = None  # TensorFlow's sequence of seeds for ops without one: that of Python's generator
        self._positions: dict[tuple[Any, ...], int] = {}

    def set(self, seed: int | str | bytes | None) -> None:
        with self._lock:
            from random import Random  # not at the top: most programs start without it (import time)

            self._seed = seed
            self._ops = Random(seed)
            self._positions.clear()

    def state(self) -> Any:
        """How far everything has been read, for `restore`."""
        with self._lock:
            return self._seed, None if self._ops is None else self._ops.getstate(), dict(self._positions)

    def restore(self, state: Any) -> None:
        """Go back to a state."""
        with self._lock:
            self._seed, ops, positions = state
            if ops is not None:
                self._ops.setstate(ops)
            self._positions = dict(positions)

    def pair(self, op_seed: int | None) -> tuple[int, int] | None:
        """The seeds of one op: the global one, and the op's own or the next of a sequence. None: no seed anywhere."""
        with self._lock:
            if self._seed is None and op_seed is None:
                return None
            if isinstance(self._seed, (str, bytes)):  # TensorFlow takes it, and fails when it is used
                raise TypeError(f"The global seed must be an integer, but tf.random.set_seed was given {self._seed!r}.")
            first = _DEFAULT_SEED if self._seed is None else self._seed % _LARGEST
            second = self._ops.randint(0, _LARGEST) if op_seed is None else op_seed
            second %= _LARGEST
            return (first, second) if (first, second) != (0, 0) else (0, _LARGEST)

    def stream(self, op: str, op_seed: int | None, numbers: int) -> Any:
        """The stream of `numbers` numbers. The same op with the same seed reads on where it stopped."""
        pair = self.pair(op_seed)
        if pair is None:
            return stream_of(int.from_bytes(os.urandom(8), "little"), int.from_bytes(os.urandom(8), "little") << 64)
        if op_seed is None:  # a new seed for every call: nothing to read on from
            return stream_of(pair[0], pair[1] << 64)
        with self._lock:
            position = self._positions.get((op, *pair), 0)
            self._positions[(op, *pair)] = position + _RESERVED * numbers
        return stream_of(pair[0], (pair[1] << 64) + position)


seeds = Seeds()
