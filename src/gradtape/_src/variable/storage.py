"""Storage: the value of a variable, in the memory of eager code or in a buffer of a compiled program.

A compiled program borrows the memory of variables with `Loan.lend` and replaces their values with a commit. In between,
a storage keeps its buffer, so a call that fails before its launch needs no cleanup. XLA takes donated memory when a
program is launched: `committing` stores the new values in the same call of C code, where no signal handler runs and no
thread reads. If nothing reads the variables between two calls of a program, their new values stay in the list of its
results (`Uncommitted`).
"""

from __future__ import annotations

import _thread
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from itertools import chain, repeat
from operator import attrgetter
from typing import Any

import numpy as np
from numpy import ndarray

from gradtape._src import forks
from gradtape._src.arrays.lazy import assigned, settled
from gradtape._src.devices import place_result
from gradtape._src.interrupts import setting
from gradtape._src.memory import prepare
from gradtape._src.tensor import Tensor
from gradtape._src.threads import background

deferred_restores: list[Callable[[], None]] = []
"""Deferred restores, of checkpoints with values for variables that do not exist yet: each assigns what it can."""


class Mirror:
    """The values of a variable in all replicas as one JAX array over their devices, with a copy on each.

    JAX assumes that the copies are equal. Those of variables without aggregation are not, so they are only read one by
    one.
    """

    __slots__ = ("whole",)

    def __init__(self, whole: Any) -> None:
        self.whole = whole


class LaneBuffer:
    """A replica's part of the result of a program over all devices, which is read when it is needed."""

    __slots__ = ("_read", "mirror", "number")

    def __init__(self, mirror: Mirror, number: int) -> None:
        self.mirror, self.number = mirror, number
        self._read: tuple[Any, Tensor] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.mirror.whole.shape)

    @property
    def dtype(self) -> Any:
        return self.mirror.whole.dtype

    @property
    def nbytes(self) -> int:
        return int(self.mirror.whole.nbytes)

    def devices(self) -> Any:
        """Its device."""
        return self._part().devices()

    def is_deleted(self) -> bool:
        """Whether its memory was donated to a running program."""
        return bool(self.mirror.whole.is_deleted())

    def _part(self) -> Any:
        return self.mirror.whole.addressable_shards[self.number].data

    def alone(self) -> Any:
        """The value as an array on its device; on the CPU, a NumPy array."""
        return np.array(self) if on_host(self) else self._part().copy()

    copy = alone

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> ndarray:
        return np.array(self._part(), dtype)

    def tensor(self, reading: Callable[[Any], Tensor]) -> Tensor:
        """The value as a tensor for eager code."""
        whole = self.mirror.whole
        if self._read is None or self._read[0] is not whole:
            self._read = (whole, reading(self.alone()))
        return self._read[1]


class Unread:
    """The initial value of a variable that was created while restores were deferred: the first read runs them."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value


class Storage:
    """The value of one variable.

    tensor   the value as eager code reads it, with the variable's uid; None if only the buffer has it
    _buffer  the value from a compiled program, `Uncommitted` or `Unread`; None after an assignment in eager code
    _aliased whether the buffer is also visible elsewhere: then only a copy of it may be donated

    If both tensor and buffer are set, they are equal.
    """

    __slots__ = ("_aliased", "_buffer", "tensor", "uid")

    tensor: Tensor | None
    _buffer: Any

    def __init__(self, uid: int, value: Any, unread: bool = False) -> None:
        """With `unread` there is no tensor until the value is read."""
        prepare(getattr(value, "nbytes", 0))
        self.uid = uid
        self.tensor = None if unread else self.reading(value)
        self._buffer, self._aliased = Unread(value) if unread else None, unread

    def reading(self, value: Any) -> Tensor:
        """A tensor with the variable's uid, which ops take and tapes record."""
        tensor = Tensor()
        tensor.array = value
        tensor.uid = self.uid
        return tensor

    def begin_with(self, value: Any) -> None:
        """Replace the initial value. A deferred restore still waits for the first read."""
        if type(self._buffer) is Unread:
            self._buffer = Unread(value)
        else:
            self.store(value)

    # -- eager code --------------------------------------------------------------------------------------------------
    def store(self, value: Any) -> None:
        """Replace the value by an array that nothing writes to."""
        tensor = Tensor()  # `reading`, inlined (benchmark: mlp32)
        tensor.array = value
        tensor.uid = self.uid
        if type(value) is not ndarray:
            assigned(None if self.tensor is None else self.tensor.array, value)
        with updating():
            if type(self._buffer) is Uncommitted:
                self._buffer.commit()
            self.tensor, self._buffer = tensor, None

    def committed(self) -> Any:
        """The buffer, after storing an uncommitted value. The caller holds the lock."""
        buffer = self._buffer
        if type(buffer) is Uncommitted:
            buffer.commit()
            return self._buffer
        return buffer

    def newest(self) -> Any:
        """The current array, for its shape, dtype and device. A program may delete it at any time."""
        tensor = self.tensor
        value = self._buffer if tensor is None else tensor.array
        if value is None or type(value) is Uncommitted:  # None: another thread is about to replace it
            with updating():
                value = self.committed() if self.tensor is None else self.tensor.array
        return value.value if type(value) is Unread else value

    def is_on_host(self) -> bool:
        """Whether the value is in host memory."""
        value = self.newest()
        return type(value) is ndarray or on_host(value)

    def is_donated(self) -> bool:
        """Whether the memory was donated to a running program, so that there is no value."""
        buffer: Any = self.committed()
        return self.tensor is None and type(buffer) not in (ndarray, Unread) and bool(buffer.is_deleted())

    def fetch(self) -> Tensor:
        """The value for eager code: a copy of a buffer on the host, because the next program may
        overwrite the buffer.
        """
        with updating():
            if self.tensor is not None:  # another thread has fetched it
                return self.tensor
            value = self.committed()
            if type(value) is Unread:
                return self._restored(value.value)
            if type(value) is LaneBuffer:  # the next program replaces it, so the tensor is not kept
                return value.tensor(self.reading)
            if type(value) is ndarray or on_host(value):
                value = np.array(value)
            else:
                self._aliased = True  # tensor and buffer share memory
                value = place_result(value)
            self.tensor = tensor = self.reading(value)
            return tensor

    def _restored(self, value: Any) -> Tensor:
        """Run deferred restores before the first read of a variable: one of them may assign to it."""
        self.store(value)
        for restore in tuple(deferred_restores):
            restore()
        return self.tensor if self.tensor is not None else self.fetch()

    def snapshot(self) -> Callable[[], None]:
        """A function that restores the value of this moment, provided that no program has run since."""
        with updating():
            tensor, buffer, aliased = self.tensor, self.committed(), self._aliased

        def restore() -> None:
            self.tensor, self._buffer, self._aliased = tensor, buffer, aliased

        return restore

    def update_in_place(self, how: np.ufunc, change: Any) -> bool:
        """Compute `how(value, change)` in the memory of the value if nothing else refers to it; return whether it was.

        The reference counts tell: no tape, tensor or view has the array, or the aligned memory that it is in. Another
        thread could begin to read between this test and the update: where there is one, nothing is done.
        """
        tensor = self.tensor
        if tensor is None:
            return False
        value = tensor.array
        if (
            type(value) is ndarray is type(change)
            and value.dtype is change.dtype
            and value.shape == change.shape
            and getrefcount(value) == _ARRAY_ALONE
            and getrefcount(tensor) == _TENSOR_ALONE
            and (
                (base := value.base) is None
                or (type(base) is ndarray and base.base is None and getrefcount(base) == _MEMORY_ALONE)
            )
            and value.ndim != 0
            and value.flags.writeable
            and other_threads() <= len(background)
        ):
            self._buffer = None  # what a compiled program left is older from now on, also if a signal comes next
            how(value, change, value)
            return True
        return False

    # -- compiled programs -------------------------------------------------------------------------------------------
    def lend(self, keep: bool) -> Any:
        """The array for a compiled program, which may write into it unless `keep`."""
        buffer = self.committed()
        if buffer is None or type(buffer) in (ndarray, Unread):
            tensor = self.tensor
            value = settled((self.fetch() if tensor is None else tensor).array)
            return value if keep or type(value) is ndarray else value.copy()
        if type(buffer) is LaneBuffer:
            return buffer.alone()
        if keep:
            self._aliased = True
        elif self._aliased:
            return buffer.copy()
        return buffer


class Uncommitted:
    """New values of variables that are still in the list of a program's results, which the next call takes them from.

    It is the buffer of each of their storages, which are aliased: reading one of them commits all.

    values    in the order of the storages
    is_whole  whether all values are in the list
    """

    __slots__ = ("_storages", "is_whole", "values")

    def __init__(self, storages: Sequence[Storage]) -> None:
        self._storages = storages
        self.values: list[Any] = []
        self.is_whole = False

    def commit(self) -> None:
        """Store all values. The caller holds the lock; after an interrupt, the next read continues."""
        self.is_whole = False
        for storage, value in zip(self._storages, self.values, strict=False):
            if storage._buffer is self:
                storage._buffer, storage._aliased = value, False
        self.values = []

    def filling(self, values: Iterable[Any]) -> Iterator[None]:
        """An iterator for C code to consume, which collects the values without running Python code."""
        replacing = map(self.values.__setitem__, (slice(None),), (values,))
        if self.is_whole:
            return replacing
        storing = map(setattr, self._storages, _BUFFER, repeat(self))
        aliasing = map(setattr, self._storages, _ALIASED, repeat(True))
        return chain(replacing, storing, aliasing, map(setattr, (self,), ("is_whole",), (True,)))


Slots = Iterable[tuple[int, Storage, bool]]
"""The positions of storages among the inputs of a program, and whether their values are kept."""


class Loan:
    """The memory that one call of a compiled program borrows.

    numpy_slots  inputs that are NumPy arrays
    stale        storages with a tensor of the value that the program replaces
    copied       inputs that are copies of these values
    """

    __slots__ = ("copied", "numpy_slots", "stale")

    def __init__(self) -> None:
        self.numpy_slots: list[int] = []
        self.stale: list[Storage] = []
        self.copied: list[int] = []

    def lend(self, slots: Slots, arrays: list[Any]) -> None:
        """Fill the slots of `arrays`. The caller holds the lock until the commit, if there is one."""
        replaced, on_numpy = self.stale.append, self.numpy_slots.append
        for slot, storage, keep in slots:
            buffer = storage._buffer  # `Storage.lend`, inlined: there may be hundreds (benchmark: call_overhead)
            if buffer is None or keep or storage._aliased:
                buffer = storage.lend(keep)
                if not keep:
                    replaced(storage)
                    self.copied.append(slot)
                if type(buffer) is ndarray:
                    on_numpy(slot)
            else:
                storage.tensor = None  # a copy of the value that the program replaces
            arrays[slot] = buffer

    def keep_copies(self, arrays: Sequence[Any]) -> None:
        """Use the copies that were made for this call as the values, and drop the originals."""
        for slot, storage in zip(self.copied, self.stale, strict=True):
            storage._buffer, storage._aliased, storage.tensor = arrays[slot], False, None
        self.copied, self.stale = [], []


def lend_all(slots: Slots, arrays: list[Any]) -> None:
    """Fill the slots of `arrays` for a program that only reads variables."""
    for slot, storage, _ in slots:
        tensor = storage.tensor
        if storage._buffer is None and tensor is not None:
            array = tensor.array
            arrays[slot] = array if type(array) is ndarray else settled(array)
        else:
            arrays[slot] = storage.lend(keep=True)


def mirror_of(storages: Sequence[Storage]) -> Mirror | None:
    """The array with the values of these storages, if a program over all devices returned one."""
    first = storages[0]._buffer
    if type(first) is not LaneBuffer:
        return None
    mirror = first.mirror
    for number, storage in enumerate(storages):
        buffer = storage._buffer
        if type(buffer) is not LaneBuffer or buffer.mirror is not mirror or buffer.number != number:
            return None
    return mirror


def mirror(storages: Sequence[Storage], whole: Any) -> Mirror:
    """Store one array over all devices as the values of storages, one for each replica."""
    made = Mirror(whole)
    for number, storage in enumerate(storages):
        storage.committed()
        storage._buffer, storage._aliased, storage.tensor = LaneBuffer(made, number), True, None
    return made


def commit(storages: Sequence[Storage], values: Iterable[Any]) -> None:
    """Replace the values of all storages, or of none, after a program without donated memory.

    None of the values is `Uncommitted`: the program was lent them, or `committed` was called.
    """
    found = [np.asarray(value) if isinstance(value, np.generic) else value for value in values]
    if all(type(value) is ndarray for value in found):  # the program ran on NumPy
        tensors = [storage.reading(value) for storage, value in zip(storages, found, strict=True)]
        any(chain(map(setattr, storages, _TENSOR, tensors), map(setattr, storages, _BUFFER, _NONE)))
    else:
        any(committing(storages, found, storages))


def committing(storages: Iterable[Storage], values: Iterable[Any], stale: Sequence[Storage]) -> Iterator[None]:
    """An iterator for C code to consume, which replaces the values of storages without running Python code.

    `stale` are the storages with a tensor of the value that is replaced.
    """
    # `setattr` runs no Python code and returns None, so that nothing can come between two calls (benchmark: call).
    storing = map(setattr, storages, _BUFFER, values)
    if not stale:
        return storing
    return chain(storing, map(setattr, stale, _TENSOR, _NONE), map(setattr, stale, _ALIASED, _FALSE))


_BUFFER, _TENSOR, _ALIASED = repeat("_buffer"), repeat("tensor"), repeat("_aliased")
_NONE, _FALSE = repeat(None), repeat(False)
buffer_of: Callable[[Storage], Any] = attrgetter("_buffer")
set_whole: Callable[[Mirror, Any], None] = vars(Mirror)["whole"].__set__


def on_host(array: Any) -> bool:
    """Whether an XLA array is in host memory, where eager code uses NumPy."""
    devices = array.devices()
    if len(devices) != 1:
        return False
    (device,) = devices
    return device is None or device.platform == "cpu"


# -- the lock --------------------------------------------------------------------------------------------------------
_lock: ContextVar[Any] = ContextVar("gradtape_storage_lock", default=forks.rlock())  # noqa: B039 - one for all threads
_callback_lock = forks.rlock()

updating: Callable[[], Any] = _lock.get
"""The lock to hold while values change: two threads that add to a variable must not lose an update, and no thread may
read a variable whose memory is donated."""


def called_back() -> setting[Any]:
    """Context with another lock, for Python code that a program calls: the thread that waits for the program holds the
    usual one.
    """
    return setting(_lock, _callback_lock)


def _around_forks() -> None:
    """Fork only between updates: otherwise the child would find variables whose memory is donated."""
    acquired: list[Any] = []

    def wait() -> None:
        if updating().acquire(timeout=10.0):
            acquired.append(updating())

    def release() -> None:
        if acquired:
            acquired.pop().release()

    os.register_at_fork(before=wait, after_in_parent=release, after_in_child=acquired.clear)


if hasattr(os, "register_at_fork"):
    _around_forks()

# -- in-place updates ------------------------------------------------------------------------------------------------
other_threads: Callable[[], int] = getattr(_thread, "_count", lambda: 1)
"""The number of threads besides the main one: `threading.active_count() - 1`, without its lock (benchmark: mlp32), and
including threads that `threading` has not started."""

getrefcount: Callable[[Any], int] = getattr(sys, "getrefcount", lambda value: 0)  # not every Python counts


class _Probe:
    """Like a storage, to measure the reference counts that `update_in_place` sees for an unshared value."""

    tensor: Any

    def counts(self) -> tuple[int, int, int]:
        """The reference counts of the array, the tensor, and the array that owns the memory."""
        tensor = self.tensor
        value = tensor.array
        base = value.base
        return getrefcount(value), getrefcount(tensor), getrefcount(base)


def _calibrate() -> tuple[int, int, int]:
    probe = _Probe()
    probe.tensor = Tensor()
    probe.tensor.array = np.zeros(2)[1:]
    return probe.counts()


_ARRAY_ALONE, _TENSOR_ALONE, _MEMORY_ALONE = _calibrate() if hasattr(sys, "getrefcount") else (-1, -1, -1)
