"""Processes that train together: how they connect to one another, and what they tell one another.

They communicate through JAX: arrays by its collectives, and a few words through its coordination service.
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
"""Seconds in which all processes have to come to a place where they wait for one another."""

_OF_OTHERS = ("Gloo", "NCCL", "UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED")
"""Words in JAX's errors that tell of another process."""

_peers: list[Peers] = []
"""The connection to the other processes, once there is one."""

_when_connected: list[Callable[[], None]] = []
"""What is called when this process connects to others."""

_told: list[str] = []
"""The keys under which the service has what this process told the others in the last exchange."""


def connect(addresses: Sequence[str], worker: int) -> None:
    """Connect this process, which has a number, to the others: all of them meet at the first address."""
    from gradtape._src.processes.connection import connected  # it imports much, and most programs do not need it

    found = connected(addresses, worker)
    if found is not None:
        _peers.append(found)
        for function in _when_connected:
            function()


def when_connected(function: Callable[[], None]) -> None:
    """Call a function as soon as this process is connected to others."""
    _when_connected.append(function)
    if _peers:
        function()


def client() -> Any:
    """The connection to the service that all processes share; None in a process that is alone."""
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
    """How many processes there are."""
    if client() is None:
        return 1
    from jax._src import distributed

    return int(distributed.global_state.num_processes)


# -- what they do together -------------------------------------------------------------------------------------------
def together(function: Callable[[], T]) -> T:
    """What a function returns in which the processes wait for one another; UnavailableError if one of them is lost."""
    try:
        return _peers[0].together(function) if _peers else function()
    except (RuntimeError, ValueError) as error:  # JAX has both
        if tells_of_others(error):
            raise errors.lost_worker(error) from error
        raise


def tells_of_others(error: Exception) -> bool:
    """Whether an error of JAX says that another process cannot be reached."""
    return client() is not None and any(word in str(error) for word in _OF_OTHERS)


def have_peers() -> bool:
    """Whether this process is connected with others."""
    return bool(_peers)


def is_of_several(arrays: Iterable[Any]) -> bool:
    """Whether one of the arrays is divided over processes, so that all of them run a program that takes it."""
    return bool(_peers) and not all(getattr(array, "is_fully_addressable", True) for array in arrays)


def put(array: Any, target: Any) -> Any:
    """An array on a device, or divided over those of a sharding.

    Where some of these are of other processes, each process provides its parts of the value, which all of them have.
    `jax.device_put` would send all values to all processes first, to compare them.
    """
    import jax

    if getattr(target, "is_fully_addressable", True):
        return jax.device_put(array, target)
    if not getattr(array, "is_fully_addressable", True):
        return together(lambda: jax.block_until_ready(jax.device_put(array, target)))
    value = np.asarray(array)
    return jax.make_array_from_callback(value.shape, target, value.__getitem__)


def exchange(name: str, content: bytes) -> list[bytes]:
    """What all processes give under a name that is used once, in the order of their numbers."""
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
    """Let all processes read a value; the first one that is published stays."""
    with suppress(Exception):  # there is one
        client().key_value_set(key, value)


def published(key: str) -> str | None:
    """A value that a process has published."""
    try:
        return str(client().key_value_try_get(key))
    except Exception:  # there is none
        return None


def wait_for_all(name: str, seconds: float = PATIENCE) -> None:
    """Until all processes are here."""
    if client() is not None:
        together(lambda: client().wait_at_barrier(name.replace("/", "_"), round(1000 * seconds)))
