"""Processes that train together: their connection, and the messages that they exchange.

They communicate through JAX: arrays by its collectives, and small messages through its coordination service.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from gradtape._src import errors

if TYPE_CHECKING:
    from gradtape._src.processes.peers import Peers

T = TypeVar("T")

PATIENCE = 300
"""The timeout in seconds of barriers."""

_OF_OTHERS = ("Gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED")
"""Words in JAX's errors that refer to another process."""

_peers: list[Peers] = []
"""The connection to the other processes, once it exists."""

_when_connected: list[Callable[[], None]] = []
"""Callbacks for when this process connects to others."""

_told: list[str] = []
"""The keys of this process's messages in the last exchange."""


def connect(addresses: Sequence[str], worker: int) -> None:
    """Connect this process, with its number, to the others; all of them meet at the first address."""
    from gradtape._src.processes.connection import connected  # imported here, because most programs do not need it

    found = connected(addresses, worker)
    if found is not None:
        _peers.append(found)
        for function in _when_connected:
            function()


def when_connected(function: Callable[[], None]) -> None:
    """Call a function when this process connects to others, or now if it is connected."""
    _when_connected.append(function)
    if _peers:
        function()


def client() -> Any:
    """The client of the coordination service; None for a single process."""
    if "jax" not in sys.modules:
        return None
    from jax._src import distributed

    return distributed.global_state.client


def number() -> int:
    """The number of this process."""
    if client() is None:
        return 0
    from jax._src import distributed

    return int(distributed.global_state.process_id)


def count() -> int:
    """The number of processes."""
    if client() is None:
        return 1
    from jax._src import distributed

    return int(distributed.global_state.num_processes)


# -- collective operations -------------------------------------------------------------------------------------------
def together(function: Callable[[], T]) -> T:
    """Call a function in which all processes take part; raises UnavailableError if one of them is lost."""
    try:
        return _peers[0].together(function) if _peers else function()
    except (RuntimeError, ValueError) as error:  # JAX has both
        if tells_of_others(error):
            raise errors.lost_worker(error) from error
        raise


def tells_of_others(error: Exception) -> bool:
    """Whether an error of JAX means that another process cannot be reached."""
    return client() is not None and any(word in str(error) for word in _OF_OTHERS)


def have_peers() -> bool:
    """Whether this process is connected to others."""
    return bool(_peers)


def is_of_several(arrays: Iterable[Any]) -> bool:
    """Whether one of the arrays is divided among processes, so that all of them have to run a program with it."""
    return bool(_peers) and not all(getattr(array, "is_fully_addressable", True) for array in arrays)


def put(array: Any, target: Any) -> Any:
    """Put an array on a device, or divide it among those of a sharding.

    If some devices belong to other processes, each process provides its own parts of the value, which all of them have.
    `jax.device_put` would first send all values to all processes to compare them.
    """
    import jax

    if getattr(target, "is_fully_addressable", True):
        return jax.device_put(array, target)
    if not getattr(array, "is_fully_addressable", True):
        return together(lambda: jax.block_until_ready(jax.device_put(array, target)))
    value = np.asarray(array)
    return jax.make_array_from_callback(value.shape, target, value.__getitem__)


def exchange(name: str, content: bytes) -> list[bytes]:
    """Exchange messages: the contents of all processes under a name that is used once, in the order of processes."""
    if count() == 1:
        return [content]
    client().key_value_set_bytes(f"{name}/{number()}", content)

    def received(i: int) -> bytes:
        return bytes(client().blocking_key_value_get_bytes(f"{name}/{i}", 1000 * PATIENCE))

    found = together(lambda: [received(i) for i in range(count())])
    for key in _told:  # all processes have left the exchange before this one
        client().key_value_delete(key)
    _told[:] = [f"{name}/{number()}"]
    return found


def publish(key: str, value: str) -> None:
    """Publish a value for all processes; the first one that is published stays."""
    with suppress(Exception):  # already published
        client().key_value_set(key, value)


def published(key: str) -> str | None:
    """A value that a process has published; None if there is none."""
    try:
        return str(client().key_value_try_get(key))
    except Exception:  # not published
        return None


def wait_for_all(name: str, seconds: float = PATIENCE) -> None:
    """Wait until all processes have called this."""
    if client() is not None:
        together(lambda: client().wait_at_barrier(name.replace("/", "_"), round(1000 * seconds)))
