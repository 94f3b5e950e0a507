"""`spill="host"`: while a tape records, values that it saves on a GPU are moved to host memory.

They are copied back when the backward pass reads them.

Values that were saved first are moved first: the backward pass reads them last. Moving lazy arrays computes them, many
at a time: the trace is evaluated once for each fraction of the limit.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gradtape._src.arrays.lazy.trace import Lazy, lazy_array, settled
from gradtape._src.autodiff.segments import saved_tensors
from gradtape._src.core.observe import Observer
from gradtape._src.devices import is_jax_array
from gradtape._src.tensor import CONSTANT, Tensor, tensor_slot

if TYPE_CHECKING:
    from gradtape._src.autodiff.budget import Budget
    from gradtape._src.autodiff.recording import Recording


class HostValue:
    """An array that was moved to host memory, with its device."""

    __slots__ = ("_again", "array", "is_lazy", "where")

    def __init__(self, array: Any) -> None:
        self.is_lazy = type(array) is Lazy
        value = settled(array, "it is copied to the memory of the processor")
        self.where = array.spec.device if self.is_lazy else value.sharding
        self.array = np.asarray(value)
        self._again: weakref.ref[Any] | None = None

    def read(self) -> Any:
        """The array on its device; records share it while it is in use."""
        found = None if self._again is None else self._again()
        if found is None:
            import jax

            value = jax.device_put(self.array, self.where)
            found = lazy_array(value, self.where) if self.is_lazy else value
            self._again = weakref.ref(found)
        return found


class OnHost(Tensor):
    """A saved tensor whose array is in host memory."""

    __slots__ = ()

    @property
    def array(self) -> Any:
        value: HostValue = tensor_slot.__get__(self)
        return value.read()


class HostValues(Observer):
    """Observes a recording, and moves its saved values to the host when they exceed the limit."""

    __slots__ = ("_budget", "_kept", "_moved", "_nbytes", "_place", "_records", "_roots", "_users")

    def __init__(self, budget: Budget, recording: Recording) -> None:
        self._budget, self._records, self._roots = budget, recording.records, recording.roots
        self._kept: dict[int, Any] = {}  # saved tensors on a device, oldest first
        self._users: dict[int, list[int]] = {}  # the records that save each of them
        self._moved: dict[int, Any] = {}
        self._nbytes = self._place = 0

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        place = len(self._records) - 1
        if place < self._place:  # a backward pass has freed earlier records
            self._kept, self._users, self._moved, self._nbytes = {}, {}, {}, 0
        self._place = place
        for t in saved_tensors(record):
            uid = t.uid
            if uid == CONSTANT or uid in self._roots:
                continue
            if uid in self._moved:
                self._replace(place, {uid: self._moved[uid]})
            elif uid in self._kept:
                self._users[uid].append(place)
            elif is_elsewhere(t.array):
                self._kept[uid], self._users[uid] = t, [place]
                self._nbytes += t.array.nbytes
        self._budget.on_device(self._nbytes)
        if self._nbytes > self._budget.limit:
            self._move(self._budget.limit * 3 // 4)

    def _move(self, limit: int) -> None:
        """Move the oldest values, until the others are within a limit."""
        for uid in list(self._kept):
            if self._nbytes <= limit:
                break
            tensor = self._kept.pop(uid)
            nbytes = tensor.array.nbytes
            moved = OnHost()
            tensor_slot.__set__(moved, HostValue(tensor.array))
            moved.uid = uid
            for place in self._users.pop(uid):
                self._replace(place, {uid: moved})
            self._moved[uid] = moved
            self._nbytes -= nbytes
            self._budget.spilled += nbytes

    def _replace(self, place: int, tensors: dict[int, Any]) -> None:
        """Replace the saved tensors of a record."""
        op, inputs, output, values, *rest = self._records[place]
        if type(values) is tuple:
            values = tuple([v if v is None else tensors.get(v.uid, v) for v in values])
        else:
            values = tensors.get(values.uid, values)
        self._records[place] = (op, inputs, output, values, *rest)


class Several(Observer):
    """Several observers of one recording."""

    __slots__ = ("_observers",)

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def on_op(self, record: Any, inputs: Sequence[Any], outputs: Any) -> None:
        for observer in self._observers:
            observer.on_op(record, inputs, outputs)


def is_elsewhere(array: Any) -> bool:
    """Whether an array is on a device with its own memory."""
    if type(array) is Lazy:
        return array.spec.device is not None and array.spec.device.platform != "cpu"
    return is_jax_array(array) and any(device.platform != "cpu" for device in array.devices())
