"""Reuse of the memory of NumPy arrays, and lazy arrays.

The operating system zeroes memory, page by page, before it returns it. For arrays of more than a few hundred kB that
costs more than the arithmetic on them.
"""

from __future__ import annotations

import ctypes
import functools
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from gradtape._src import forks

MAPPED = 2**17
"""Size in bytes above which glibc, left alone, maps new memory for a block and clears it."""

LARGE = 2**25
"""The size in bytes from which on the C library always returns a freed block to the system."""

KEPT = 2**28
"""The maximum number of bytes of large blocks that are kept."""

_blocks: list[ndarray] = []  # least recently used first
_lock = forks.lock()


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library reuse the memory of freed arrays, from the first variable or large array on.

    By default glibc returns freed blocks of more than 128 kB to the system, and every new array of that size is mapped
    and zeroed again, page by page: for 50,000 to 1,000,000 elements that costs ten times the arithmetic. With this it
    keeps blocks of up to 32 MB, up to 256 MB in total, unless environment variables set other limits. It has no effect
    with other C libraries.
    """
    if not any(name in os.environ for name in ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES")):
        adjust = _of_glibc("mallopt")
        adjust(_MMAP_THRESHOLD, LARGE)
        adjust(_TRIM_THRESHOLD, KEPT)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # of <malloc.h>


def return_freed_memory() -> None:
    """Return freed pages to the system, including those between arrays in use."""
    _of_glibc("malloc_trim")(0)


@functools.cache
def _of_glibc(name: str) -> Callable[..., Any]:
    """A function of glibc; with other C libraries, a function that does nothing."""
    try:
        library = ctypes.CDLL(None)
        library.gnu_get_libc_version  # noqa: B018 - an AttributeError if it is not glibc
        function: Callable[..., Any] = getattr(library, name)
        return function
    except (OSError, TypeError, AttributeError):
        return lambda *args: 0


# -- the first large array -------------------------------------------------------------------------------------------
_SPREAD = 2**19

_actions: list[Callable[[], bool]] = []


def at_large_arrays(action: Callable[[], bool]) -> None:
    """Register a callback for when a large array is created, which is called until it returns True."""
    _actions.append(action)


def prepare(size: int) -> None:
    """Prepare for allocating this many bytes."""
    keep_freed_memory()
    if size >= _SPREAD:
        _actions[:] = [action for action in _actions if not action()]


def empty(shape: Sequence[int], dtype: np.dtype[Any]) -> ndarray:
    """An uninitialized array; a large one reuses the memory of an earlier one that is no longer referenced, if it fits.

    Every NumPy array in a block of memory refers to the block: if only this list refers to it, the block is free.
    """
    size = math.prod(shape) * dtype.itemsize
    if size > MAPPED:
        prepare(size)
    if size < LARGE or dtype.hasobject or _FREE is None:
        return np.empty(shape, dtype)
    with _lock:
        block = _take(size + 64)
        _blocks.append(block)
        _drop_oldest()
    start = -block.ctypes.data % 64  # aligned, so that a compiled program can use it without a copy
    return block[start : start + size].view(dtype).reshape(shape)


def _drop_oldest() -> None:
    while sum(b.nbytes for b in _blocks) > KEPT:
        del _blocks[0]


class LazyArray(NamedTuple):
    """A large array that is computed from small ones when it is read: its shape, its dtype, the small arrays, and a
    function.

    Computing it costs no more than copying it. So a `LazyTensor` computes a new array whenever other tensors would
    return a copy, and an array that is never read is never computed (benchmarks: perex, hess).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    arrays: tuple[Any, ...]
    make: Callable[..., Any]  # a function of the shape and the small arrays

    def write(self) -> Any:
        """Compute the array, a new one each time."""
        return self.make(self.shape, *self.arrays)

    def reshaped(self, shape: tuple[int, ...]) -> LazyArray:
        """The same elements in another shape."""
        return self._replace(shape=shape)


def copy(array: ndarray) -> ndarray:
    """A writable copy."""
    if array.nbytes < LARGE:
        return array.copy()
    result = empty(array.shape, array.dtype)
    np.copyto(result, array)
    return result


def references(owner: ndarray) -> int:
    """The number of references to an array that owns its memory, without the one in this list."""
    kept = owner.nbytes >= LARGE and any(owner is block for block in _blocks)
    return sys.getrefcount(owner) - kept


def _take(size: int) -> ndarray:
    """Take a free block from the list, or allocate a new one."""
    fitting = [
        (_blocks[i].nbytes, i)
        for i in range(len(_blocks))
        if size <= _blocks[i].nbytes <= 2 * size and _references(_blocks, i) == _FREE
    ]
    return _blocks.pop(min(fitting)[1]) if fitting else np.empty(size, np.uint8)


def _references(blocks: list[ndarray], i: int) -> int:
    return sys.getrefcount(blocks[i])


def _calibrated() -> int | None:
    """The result of `_references` for a block that is only in its list; None if this Python has no reliable counts."""
    if not hasattr(sys, "getrefcount") or not getattr(sys, "_is_gil_enabled", lambda: True)():
        return None
    blocks = [np.empty(1, np.uint8)]
    free = _references(blocks, 0)
    view = blocks[0][:].view(np.int8).reshape(1, 1)
    return free if _references(blocks, 0) > free and view.base is blocks[0] else None


_FREE = _calibrated()
